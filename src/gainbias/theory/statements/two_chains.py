"""Checks of what is proved about double chain, by exact moments over both chains.

`PairMoments` follows E[z z^T; (s, s^)] with z = (theta - theta*, 1), from which every expectation of the
proofs follows without sampling. Steps may change with time; with constant steps and independent samples the
moments are a matrix power away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.bounds import double_chain
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.record import Bound, Decay
from gainbias.theory.statements.cases import ChainCase
from gainbias.theory.statements.statement import Refutation, over
from gainbias.theory.statements.step_sums import enough_offset, exponents, sum_of_squares
from gainbias.types import Floats

AFTER_MIXING = 25
"""Noise is looked at for this many steps after the mixing time."""

LONGEST_MIXING = 400
"""Cases that need more steps to mix are left out of what is followed step by step."""


def constant(alpha: float) -> Callable[[int], float]:
    """Return step sizes that are all alike."""
    return lambda t: alpha


class PairMoments:
    """Second moments of the error of double chain, jointly with the states of both chains.

    Attributes
    ----------
    case : ChainCase
    first : (d,) array
        First weights.
    """

    def __init__(self, case: ChainCase, first: Floats) -> None:
        self.case, self.first = case, first

    @cached_property
    def _steps(self) -> tuple[Floats, Floats]:
        """The matrices of f + g: theta - theta* changes by alpha (force + slope (theta - theta*)).

        Shapes (s, s^, s', d) and (s, s^, s', d, d).
        """
        Phi, R, n, d = self.case.Phi, self.case.R, self.case.n, self.case.d
        slope = np.zeros((n, n, n, d, d))
        force = np.zeros((n, n, n, d))
        for s, other, after in np.ndindex(n, n, n):
            slope[s, other, after] = np.outer(Phi[s], Phi[after] - Phi[s]) - np.outer(Phi[other], Phi[s])
            force[s, other, after] = R[s] * (Phi[s] - Phi[other])
        return force + slope @ self.case.theta, slope

    def _matrices(self, alpha: float) -> Floats:
        """Return the matrix of a step on z for each (s, s^, s')."""
        force, slope = self._steps
        d = self.case.d
        found = np.zeros((*force.shape[:3], d + 1, d + 1))
        found[..., :d, :d] = np.eye(d) + alpha * slope
        found[..., :d, d] = alpha * force
        found[..., d, d] = 1.0
        return found

    def _start(self) -> Floats:
        z = np.append(self.first - self.case.theta, 1.0)
        return np.outer(z, z)

    def along(self, sizes: Callable[[int], float], steps: int, start: int, other: int) -> Iterator[Floats]:
        """Yield the moments, (n, n, d + 1, d + 1), before each step and after the last."""
        n, d = self.case.n, self.case.d
        now = np.zeros((n, n, d + 1, d + 1))
        now[start, other] = self._start()
        yield now
        chances = np.einsum("ac,bd->abcd", self.case.P, self.case.P)
        for t in range(steps):
            M = self._matrices(sizes(t))
            moved = M @ now[:, :, None] @ M.swapaxes(-1, -2)  # (s, s^, s', ., .)
            now = np.einsum("abcd,abcij->cdij", chances, moved)
            yield now

    def independent(self, alpha: float, steps: list[int]) -> list[float]:
        """Return E|theta_T - theta*|^2 for independent samples and constant steps."""
        d = self.case.d
        M = self._matrices(alpha)
        law = np.einsum("a,b,ac->abc", self.case.mu, self.case.mu, self.case.P)
        size = d + 1
        kernel = np.einsum("abc,abcij,abckl->ikjl", law, M, M).reshape(size**2, size**2)
        start = self._start().ravel()
        found = [np.linalg.matrix_power(kernel, count) @ start for count in steps]
        return [float(np.trace(now.reshape(size, size)[:d, :d])) for now in found]

    def lasting(self, alpha: float) -> float:
        """Return the limit of E|theta_t - theta*|^2 with constant steps along two chains."""
        n, size = self.case.n, self.case.d + 1
        M, P = self._matrices(alpha), self.case.P
        kernel = np.einsum("ac,bd,abcij,abckl->cdikabjl", P, P, M, M).reshape(n * n * size**2, -1)
        known = np.zeros((n, n, size, size), dtype=bool)
        known[..., -1, -1] = True
        chosen = known.ravel()
        law = np.outer(self.case.mu, self.case.mu).ravel()
        rest = np.linalg.solve(
            np.eye(int(np.sum(~chosen))) - kernel[np.ix_(~chosen, ~chosen)],
            kernel[np.ix_(~chosen, chosen)] @ law,
        )
        found = np.zeros(len(chosen))
        found[~chosen] = rest
        return self.error(found.reshape(n, n, size, size))

    def noise(self, now: Floats) -> tuple[float, float]:
        """Return E[delta^T (g - mean g)] and E[delta^T (f - mean f)]."""
        case, d = self.case, self.case.d
        first, second = now[..., :d, d], now[..., :d, :d]
        Phi, ahead = case.Phi, case.P @ case.Phi
        g_force = (case.R + (ahead - Phi) @ case.theta)[:, None] * Phi
        g_slope = np.einsum("si,sj->sij", Phi, ahead - Phi)
        f_force = -np.einsum("s,hi->shi", case.R + Phi @ case.theta, Phi)
        f_slope = -np.einsum("hi,sj->shij", Phi, Phi)
        g = np.einsum("shi,si->", first, g_force - case.mu @ g_force)
        g += np.einsum("shij,sij->", second, g_slope - np.einsum("s,sij->ij", case.mu, g_slope))
        law = np.outer(case.mu, case.mu)
        f = np.einsum("shi,shi->", first, f_force - np.einsum("sh,shi->i", law, f_force))
        f += np.einsum("shij,shij->", second, f_slope - np.einsum("sh,shij->ij", law, f_slope))
        return float(g), float(f)

    def error(self, now: Floats) -> float:
        """Return E|delta|^2."""
        return float(np.einsum("shii->", now[..., : self.case.d, : self.case.d]))


def _firsts(case: ChainCase) -> list[Floats]:
    """Return first weights: zero, the fixed point, and far away."""
    away = np.full(case.d, 10.0 * max(case.length, case.r_max, 1.0))
    return [np.zeros(case.d), np.array(case.theta), away]


def independent_samples(case: ChainCase, wrong: bool) -> float:
    """The theorem for independent samples, at its largest step and below; wrong: noise over 18 * 18."""
    worst = 0.0
    for first in _firsts(case):
        facts, moments = Facts(case.problem, first), PairMoments(case, first)
        for alpha in (case.eta / 18.0, case.eta / 500.0):
            times = [1, 10, 100, 10_000, 1_000_000]
            for T, found in zip(times, moments.independent(alpha, times), strict=True):
                bound = double_chain.iid_constant(facts, alpha, T).theorem_value
                if wrong:
                    noise = 18.0 * alpha * (facts.r_max + facts.length) ** 2 / facts.eta
                    bound -= noise * (1.0 - 1.0 / 324.0)
                worst = max(worst, over(found, bound * (1.0 + 1e-9)))
    return worst


def _largest_step(case: ChainCase, first: Floats) -> tuple[Facts, float, int] | None:
    """Return the largest constant step of the theorem and its mixing time; None where it is left out."""
    facts = Facts(case.problem, first)
    alpha = double_chain.largest_markov_step(facts)
    if not math.isfinite(alpha):
        return None
    tau = facts.mixing_time(alpha)
    return (facts, alpha, tau) if tau <= LONGEST_MIXING else None


def stays_within(case: ChainCase, wrong: bool) -> float:
    """E|delta_t|^2 <= B^2 with B = 2 |delta_0| + c at the largest step; wrong: B = |delta_0| / 2."""
    worst = 0.0
    for first in _firsts(case):
        found = _largest_step(case, first)
        if found is None:
            continue
        facts, alpha, tau = found
        moments = PairMoments(case, first)
        B = (
            0.5 * facts.first_error
            if wrong
            else double_chain.markov_constant(facts, alpha, tau).constants["B"]
        )
        for now in moments.along(constant(alpha), tau + AFTER_MIXING, 0, case.n - 1):
            worst = max(worst, over(moments.error(now), B**2))
    return worst


def noise_of_constant_steps(case: ChainCase, wrong: bool) -> float:
    """The noise terms at t >= tau with the largest step; wrong: alpha^2 in place of alpha."""
    worst = 0.0
    for first in _firsts(case):
        found = _largest_step(case, first)
        if found is None:
            continue
        facts, alpha, tau = found
        constants = double_chain.markov_constant(facts, alpha, tau).constants
        B2, c2 = constants["B"] ** 2, (facts.r_max + facts.length) ** 2
        size = alpha**2 if wrong else alpha
        limits = [size * (3 * B2 + c2 + (42 * B2 + 30 * c2) * part * tau) for part in (1.0, 0.5)]
        moments = PairMoments(case, first)
        for t, now in enumerate(moments.along(constant(alpha), tau + AFTER_MIXING, 0, 0)):
            if t >= tau:
                worst = max(worst, *map(over, moments.noise(now), limits))
    return worst


def markov_constant_steps(case: ChainCase, wrong: bool) -> float:
    """The theorem for constant steps along two chains; wrong: a thousandth of its bound."""
    worst = 0.0
    for first in _firsts(case):
        found = _largest_step(case, first)
        if found is None:
            continue
        facts, alpha, tau = found
        moments = PairMoments(case, first)
        for t, now in enumerate(moments.along(constant(alpha), tau + AFTER_MIXING, 0, case.n - 1)):
            if t >= tau:
                bound = double_chain.markov_constant(facts, alpha, t).theorem_value
                worst = max(worst, over(moments.error(now), bound * (1e-3 if wrong else 1.0)))
    return worst


def noise_grows_with_mixing() -> Refutation:
    """Lasting errors in units of alpha (r_max + |theta*|)^2 / eta, at the largest step of the theorem.

    An order eta^-2 of the samples needs them to be bounded. Two states swap ever more rarely, and rewards are
    such that the fixed point stays as it is.
    """
    found = []
    for p in (0.1, 0.001):
        chain = MarkovRewardProcess([[1 - p, p], [p, 1 - p]], [p, -p])
        case = ChainCase(f"swapping with {p}", Problem(chain, np.eye(2)))
        facts = Facts(case.problem, np.zeros(2))
        alpha = double_chain.largest_markov_step(facts)
        size = alpha * (facts.r_max + facts.length) ** 2 / facts.eta
        found.append(PairMoments(case, np.zeros(2)).lasting(alpha) / size)
    return Refutation(
        found[1],
        found[0],
        "the lasting error over alpha c^2 / eta if two states swap with probability 0.001, and with 0.1",
    )


def noise_of_decaying_steps(case: ChainCase, wrong: bool) -> float:
    """The noise terms with decaying steps whose sum along tau is 1/12 or less; wrong: a ten-thousandth."""
    worst, c2 = 0.0, (case.r_max + 3.0 * case.length) ** 2
    for xi in exponents(case):
        a = 1.0
        decay, tau = _twelfth(case, a, xi)
        if tau > LONGEST_MIXING:
            continue
        for first in _firsts(case)[:2]:
            moments = PairMoments(case, first)
            for t, now in enumerate(moments.along(decay.at, tau + AFTER_MIXING, 0, 0)):
                if t < tau:
                    continue
                total = sum(decay.at(i) for i in range(t - tau, t)) * (1e-4 if wrong else 1.0)
                error = moments.error(now)
                limits = ((880 * error + 304 * c2) * total, (448 * error + 160 * c2) * total)
                worst = max(worst, *map(over, moments.noise(now), limits))
    return worst


def _twelfth(case: ChainCase, a: float, xi: float) -> tuple[Decay, int]:
    """Return steps that sum to at most 1/12 along the mixing time of their last one."""
    facts, c0 = Facts(case.problem, np.zeros(case.d)), 1.0
    while True:
        tau = facts.mixing_time(Decay(a, c0, xi).at(LONGEST_MIXING))
        if tau > LONGEST_MIXING or Decay(a, c0, xi).sum_of_first(tau) <= 1.0 / 12.0:
            return Decay(a, c0, xi), tau
        c0 *= 1.5


def markov_decaying_steps(case: ChainCase, wrong: bool) -> float:
    """The theorem for decaying steps, with the least c0 that it allows; wrong: a thousandth of its bound.

    Its sum of squared steps is tried besides with step sizes that are not as small.
    """
    worst = sum_of_squares(case, wrong)
    for xi in exponents(case):
        first = _firsts(case)[2]
        facts, waiting = Facts(case.problem, first), AFTER_MIXING
        found = _allowed(case, facts, xi, waiting)
        if found is None:
            continue
        decay, tau = found
        moments = PairMoments(case, first)
        for t, now in enumerate(moments.along(decay.at, tau + waiting, 0, case.n - 1)):
            if t in (tau + waiting // 2, tau + waiting):
                bound = double_chain.markov_decaying(facts, decay, t)
                worst = max(worst, over(moments.error(now), _value(bound) * (1e-3 if wrong else 1.0)))
    return worst


def _allowed(case: ChainCase, facts: Facts, xi: float, waiting: int) -> tuple[Decay, int] | None:
    """Return steps that the theorem allows at the end, and their mixing time; None where it is too long."""
    a = 1.0 / case.eta
    decay, tau = enough_offset(case, a, xi, waiting)
    for _ in range(60):
        if tau > LONGEST_MIXING:
            return None
        if double_chain.markov_decaying(facts, decay, tau + waiting).certified:
            return decay, tau
        decay = Decay(a, 1.5 * decay.c0, xi)
        tau = facts.mixing_time(decay.at(tau + waiting))
    return None


def _value(bound: Bound) -> float:
    """Return a bound, infinite where it is not certified."""
    return bound.theorem_value if bound.certified else math.inf
