"""Checks of the lemmas on step sizes: their sums along a mixing time, and recursions driven by them.

Step sizes are a / (t + c0)^xi. Chains enter through their mixing time, so each case has its own step sizes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.record import Decay, offset_for_ratio, offset_for_sum
from gainbias.theory.statements.cases import ChainCase, edge_case
from gainbias.theory.statements.statement import Refutation, over

RECURSION_STEPS = 300
"""Recursions are followed for this many steps."""


def exponents(case: ChainCase) -> list[float]:
    """Return the exponents to try on a case: 1, and one below."""
    return [1.0, float(case.rng.uniform(0.2, 0.95))]


def sums_along_mixing(case: ChainCase, wrong: bool) -> float:
    """With c0 as large as it takes, sums over tau steps are small; wrong: with a c0 half as large.

    They are at most 2 tau alpha_t, and at most min(1/12, eta / 2694).
    """
    worst, limit = 0.0, min(1.0 / 12.0, case.eta / 2694.0)
    a = float(case.rng.uniform(0.1, 10.0))
    for xi in exponents(case):
        decay, tau = enough_offset(case, a, xi, 1000)
        decay = replace(decay, c0=decay.c0 / 2) if wrong else decay
        for t in (tau, tau + 1, 2 * tau, tau + 1000):
            total = float(np.sum(a / (np.arange(t - tau, t) + decay.c0) ** xi))
            worst = max(worst, over(total, 2.0 * tau * decay.at(t)), over(total, limit))
    return worst


def enough_offset(case: ChainCase, a: float, xi: float, waiting: int) -> tuple[Decay, int]:
    """Return step sizes with the least c0 of the lemma, and tau for T = `waiting` steps after it."""
    facts, decay, tau = Facts(case.problem, np.zeros(case.d)), Decay(a, 1.0, xi), 1
    limit = min(1.0 / 12.0, case.eta / 2694.0)
    while True:
        tau = facts.mixing_time(decay.at(tau + waiting))
        least = max(offset_for_ratio(tau, xi), offset_for_sum(a, xi, tau, limit))
        if decay.c0 >= least:
            return decay, tau
        decay = replace(decay, c0=least)


def offset_depends_on_time() -> Refutation:
    """A c0 that is large enough for T = 1000 is not for a later T: the sum over tau_mix(alpha_T) grows."""
    case = edge_case("nearly reducible")
    decay, _ = enough_offset(case, 1.0, 1.0, 1000)
    # The distance after t steps is at least |second largest eigenvalue|^t.
    second = float(np.sort(np.abs(np.linalg.eigvals(case.P)))[-2])
    tau = math.floor(math.log(decay.at(1e280)) / math.log(second)) - 1
    limit = min(1.0 / 12.0, case.eta / 2694.0)
    return Refutation(
        Decay(1.0, decay.c0, 1.0).sum_of_first(tau),
        limit,
        "the sum at t = tau_mix for T = 10^280, with a c0 that is enough for T = 1000",
    )


def driven_recursion(case: ChainCase, wrong: bool) -> float:
    """x_t stays below 2 c2 / (c1 (t + c0)^xi), if c1 c2 <= (tau + c0)^xi; wrong: below half of that."""
    rng, worst = case.rng, 0.0
    for xi in exponents(case):
        for at_edge in (False, True):
            c1, c2 = rng.uniform(0.05, 3.0, 2)
            if xi == 1.0:
                c2 = 2.0 / c1 if at_edge else max(c2, 2.0 / c1)
            start = c1 * c2 if at_edge else c1 * c2 * rng.uniform(1.0, 50.0)
            first = max(start ** (1.0 / xi), _waiting(c1 * c2, xi))
            worst = max(worst, _recursion(c1, c2, xi, first, wrong, 1.0))
            worst = max(worst, _recursion(c1, c2, xi, first, wrong, 0.0))
    return worst


def _waiting(product: float, xi: float) -> float:
    """Return the least tau + c0 of the lemma for xi < 1."""
    return 0.0 if xi == 1.0 else float((2.0 * xi / product) ** (1.0 / (1.0 - xi)))


def _recursion(c1: float, c2: float, xi: float, first: float, wrong: bool, share: float) -> float:
    """Follow the recursion from a share of its bound, and return the largest ratio to the bound."""
    scale = 2.0 * c2 / c1 * (0.5 if wrong else 1.0)
    x, worst = share * scale / first**xi, 0.0
    for t in range(RECURSION_STEPS):
        now = first + t
        x = (1.0 - c1 * c2 / now**xi) * x + (c2 / now**xi) ** 2
        worst = max(worst, over(x, scale / (now + 1.0) ** xi))
    return worst


def recursion_needs_small_steps() -> Refutation:
    """One step of the recursion from 0, with c1 = 1, c2 = 10, xi = 1 and tau + c0 = 2."""
    return Refutation(
        25.0,
        20.0 / 3.0,
        "x after one step from 0, with c1 = 1, c2 = 10, xi = 1, tau + c0 = 2: conditions hold",
    )


def overlapping_sums(case: ChainCase, wrong: bool) -> float:
    """The sum S^exp with the integral from tau - 1 to T - 1 in place of tau to T; wrong: half of the bound.

    Steps are small enough that no factor is negative.
    """
    rng, worst = case.rng, 0.0
    for steps in (1, 2, 7, 150):
        xi, c1, rho_0 = rng.uniform(0.1, 0.95), 10.0 ** rng.uniform(-2, 0), rng.uniform(0.05, 1.0)
        tau = int(rng.integers(1, 30))
        a, c0 = 10.0 ** rng.uniform(-1, 1), 1.0 + 10.0 ** rng.uniform(-1, 2)
        a = min(a, c0**xi / (2.0 * max(c1, rho_0)))
        total, bound = _overlap(Decay(a, c0, xi), c1, rho_0, tau, tau + steps, shifted=True)
        worst = max(worst, over(total, bound * (0.5 if wrong else 1.0)))
    return worst


def _overlap(
    decay: Decay, c1: float, rho_0: float, tau: int, last: int, shifted: bool
) -> tuple[float, float]:
    """Return S^exp and its bound."""
    a, c0, xi = decay.a, decay.c0, decay.xi
    j = np.arange(tau, last)
    alpha = a / (j + c0) ** xi
    products = np.append(np.cumprod((1.0 - c1 * alpha)[::-1])[::-1][1:], 1.0)
    u = (j + c0) ** (1.0 - xi) - (tau + c0) ** (1.0 - xi)
    total = float(np.sum(alpha * products * np.exp(-2.0 * rho_0 * a / (1.0 - xi) * u)))
    length = decay.between(tau - 1, last - 1) if shifted else decay.between(tau, last)
    rate = min(c1, 2.0 * rho_0) * decay.between(tau, last)
    scale = a / (1.0 - xi)
    return total, math.exp(a * c1 / c0**xi) * scale * length * math.exp(-scale * rate)


def overlap_is_larger() -> Refutation:
    """The case of finding 34: one term, with rates 1."""
    decay = Decay(math.sqrt(0.1), 10.0, 0.5)
    total, bound = _overlap(decay, 1.0, 0.5, 1, 2, shifted=False)
    return Refutation(
        total, bound, "S^exp with tau = 1, T = 2, xi = 1/2, c0 = 10, a = sqrt(0.1), both rates 1"
    )


def discounted_squares(decay: Decay, rate: float, tau: int, last: int) -> float:
    """Return the sum of alpha_k^2 times the product of 1 - rate alpha_j over later j < T."""
    alpha = decay.a / (np.arange(tau, last) + decay.c0) ** decay.xi
    products = np.append(np.cumprod((1.0 - rate * alpha)[::-1])[::-1][1:], 1.0)
    return float(np.sum(alpha**2 * products))


def sum_of_squares(case: ChainCase, wrong: bool) -> float:
    """The three closed forms of this sum for xi = 1, and that for xi < 1; wrong: an eighth of them.

    With rate a < 1, = 1 and > 1: 4 a^2 / (1 - rate a) (T + c0)^(-rate a), 4 a^2 log(T + c0) / (T + c0) and
    4 e a^2 / ((rate a - 1) (T + c0)); for xi < 1: 2 a / (rate (T + c0)^xi).
    """
    rng, worst = case.rng, 0.0
    for kind in ("below", "equal", "above", "slower"):
        rate, tau = 10.0 ** rng.uniform(-2, 0), int(rng.integers(1, 20))
        product = {"below": rng.uniform(0.05, 0.98), "equal": 1.0, "above": rng.uniform(1.02, 4.0)}.get(
            kind, rng.uniform(0.2, 4.0)
        )
        a, xi = product / rate, 1.0 if kind != "slower" else float(rng.uniform(0.2, 0.95))
        c0 = max(1.0, product, product ** (1.0 / xi), _waiting(product, xi)) * 10.0 ** rng.uniform(0, 1.5)
        for last in (tau + 1, tau + 10, tau + RECURSION_STEPS):
            end = last + c0
            limit = {
                "below": 4.0 * a**2 / abs(1.0 - product) / end**product if product != 1.0 else 0.0,
                "equal": 4.0 * a**2 * math.log(end) / end,
                "above": 4.0 * math.e * a**2 / abs(product - 1.0) / end if product != 1.0 else 0.0,
                "slower": 2.0 * a / (rate * end**xi),
            }[kind]
            found = discounted_squares(Decay(a, c0, xi), rate, tau, last)
            worst = max(worst, over(found, limit * (0.125 if wrong else 1.0)))
    return worst


def geometric_overlap(case: ChainCase, wrong: bool) -> float:
    """Sum of kappa^(k-1-j) G^j over j < k is at most k max(kappa, G)^(k-1); wrong: with exponent k."""
    rng, worst = case.rng, 0.0
    for k in (1, 2, 5, 50):
        kappa, G = rng.uniform(0.2, 0.999, 2)
        for pair in ((kappa, G), (kappa, kappa)):
            terms = pair[0] ** np.arange(k - 1, -1, -1.0) * pair[1] ** np.arange(k)
            worst = max(worst, over(float(terms.sum()), k * max(pair) ** (k if wrong else k - 1)))
    return worst
