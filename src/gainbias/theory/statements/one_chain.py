"""Checks of what is proved about single chain, over all paths of a few steps, projections included.

Expectations of the proofs mix the weights, the running mean of the features and the state, and weights are
projected, so moments do not suffice: `paths` lists every path with its probability. The mean alone has a
linear step; `mean_errors` follows its moments for as many steps as needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from gainbias.theory.bounds import single_chain
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.record import Bound, Decay, offset_for_ratio
from gainbias.theory.statements.cases import ChainCase, edge_case
from gainbias.theory.statements.equations import one_chain_update
from gainbias.theory.statements.statement import Refutation, over
from gainbias.theory.statements.step_sums import geometric_overlap, overlapping_sums, sum_of_squares
from gainbias.theory.statements.two_chains import constant
from gainbias.types import Bools, Floats, Ints

MOST_PATHS = 3_000
"""Paths are followed until there are more than this."""

STEPS_TO_TRY = (0.5, 0.1)
"""Constant steps that are tried; the mixing time at their level is short for small cases."""

WAITING = 40
"""The mean is followed for this many steps after the mixing time."""


class PathLaw(NamedTuple):
    """All paths of some steps: their probabilities, states, weights and means."""

    chance: Floats
    state: Ints
    theta: Floats
    w: Floats


def paths(
    case: ChainCase, first: Floats, radius: float, alpha: Callable[[int], float], ratio: float, start: int
) -> Iterator[PathLaw]:
    """Yield all paths of 0, 1, 2, ... steps from a state, weights kept in a ball and w in the unit ball."""
    now = PathLaw(np.ones(1), np.array([start]), first[None, :].copy(), np.zeros((1, case.d)))
    t = 0
    while len(now.chance) <= MOST_PATHS:
        yield now
        before = np.repeat(np.arange(len(now.chance)), case.n)
        after = np.tile(np.arange(case.n), len(now.chance))
        possible: Bools = case.P[now.state[before], after] > 0.0
        before, after = before[possible], after[possible]
        s, theta, w = now.state[before], now.theta[before], now.w[before]
        g = _updates(case, s, case.Phi[after], w, theta)
        w = w + ratio * alpha(t) * (case.Phi[s] - w)
        theta = theta + alpha(t) * g
        now = PathLaw(now.chance[before] * case.P[s, after], after, _kept(theta, radius), _kept(w, 1.0))
        t += 1


def _updates(case: ChainCase, s: Ints, there: Floats, w: Floats, theta: Floats) -> Floats:
    """Return g of single chain for many paths, with given rows of the next states."""
    here, reward = case.Phi[s], case.R[s]
    change = np.einsum("ki,ki->k", there - here, theta)
    value = np.einsum("ki,ki->k", here, theta)
    return np.asarray((reward + change)[:, None] * here - (reward + value)[:, None] * w)


def _kept(vectors: Floats, radius: float) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.where(lengths > radius, vectors * (radius / np.maximum(lengths, 1e-300)), vectors))


def noise(case: ChainCase, now: PathLaw) -> float:
    """Return E[(theta - theta*)^T (g - mean of g)], the next state drawn as it is."""
    g = _updates(case, now.state, (case.P @ case.Phi)[now.state], now.w, now.theta)
    values = now.theta @ case.Phi.T
    ahead = values @ case.P.T
    mean = (case.R + ahead - values) @ (case.D @ case.Phi)
    mean = mean - ((case.R + values) @ case.mu)[:, None] * now.w
    return float(now.chance @ np.einsum("ki,ki->k", now.theta - case.theta, g - mean))


def error(case: ChainCase, now: PathLaw) -> float:
    """Return E|theta - theta*|^2."""
    return float(now.chance @ np.sum((now.theta - case.theta) ** 2, axis=1))


def _setting(case: ChainCase) -> tuple[float, list[Floats]]:
    """Return the least radius that holds theta*, and first weights at both ends of the ball."""
    radius = case.length if case.length > 0.0 else 0.1
    far = -case.theta if case.length > 0.0 else np.full(case.d, radius / math.sqrt(case.d))
    return radius, [np.zeros(case.d), far]


def noise_of_constant_steps(case: ChainCase, wrong: bool) -> float:
    """The noise is at most 44 alpha tau (r_max + 3 R)^2 for t >= tau; wrong: with 0.02 in place of 44."""
    worst = 0.0
    radius, firsts = _setting(case)
    for alpha in STEPS_TO_TRY:
        tau = Facts(case.problem, firsts[0]).mixing_time(alpha)
        limit = (0.02 if wrong else 44.0) * alpha * tau * (case.r_max + 3.0 * radius) ** 2
        for first in firsts:
            for start in range(case.n):
                for t, now in enumerate(paths(case, first, radius, constant(alpha), 1.0, start)):
                    if t >= tau:
                        worst = max(worst, over(noise(case, now), limit))
    return worst


def noise_of_decaying_steps(case: ChainCase, wrong: bool) -> float:
    """The noise is at most (28 + 8 rho_0) (r_max + 3 R)^2 times the sum of the last tau steps.

    Wrong: a five-thousandth of it.
    """
    worst = 0.0
    radius, firsts = _setting(case)
    rho_0 = float(case.rng.uniform(0.1, 1.0))
    for decay in (Decay(1.0, 2.0, 1.0), Decay(0.5, 1.0, 0.5)):
        tau = Facts(case.problem, firsts[0]).mixing_time(rho_0 * decay.at(12))
        scale = (28.0 + 8.0 * rho_0) * (case.r_max + 3.0 * radius) ** 2 * (2e-4 if wrong else 1.0)
        for first in firsts:
            for start in range(case.n):
                for t, now in enumerate(paths(case, first, radius, decay.at, rho_0, start)):
                    if tau <= t <= 12:
                        total = sum(decay.at(i) for i in range(t - tau, t))
                        worst = max(worst, over(noise(case, now), scale * total))
    return worst


def noise_constant_from_lengths(case: ChainCase, wrong: bool) -> float:
    """The bound that lengths of at most R give is below the printed one, for all rewards and radii.

    With |theta| <= R (the proofs count 2 R) updates are at most 2 r_max + 3 R long, so the noise is at most
    [14 R (2 r_max + 3 R) + 8 rho_0 R (r_max + R) + 2 (2 r_max + 3 R)^2] times the sum of the last tau steps.
    Wrong: below a quarter of the printed one.
    """
    r_max, radius, rho_0 = case.r_max, _setting(case)[0], float(case.rng.uniform(0.0, 1.0))
    worst = 0.0
    for R in (radius, *np.logspace(-3, 3, 13) * max(r_max, 1e-3)):
        size = 2.0 * r_max + 3.0 * R
        found = 14.0 * R * size + 8.0 * rho_0 * R * (r_max + R) + 2.0 * size**2
        printed = (28.0 + 8.0 * rho_0) * (r_max + 3.0 * R) ** 2
        worst = max(worst, over(found, printed * (0.25 if wrong else 1.0)))
    return worst


def decaying_noise(case: ChainCase, wrong: bool) -> float:
    """The noise lemma for decaying steps, on all paths and by lengths."""
    return max(noise_of_decaying_steps(case, wrong), noise_constant_from_lengths(case, wrong))


def mean_errors(
    case: ChainCase, beta: Callable[[int], float], steps: int, start: int, mean: Floats
) -> Iterator[float]:
    """Yield E|w_t - w*|^2 for t = 0, ..., steps from a first state and w_0 = `mean`."""
    away = mean - case.mean
    chance = np.zeros(case.n)
    chance[start] = 1.0
    first, second = chance[:, None] * away, chance * float(away @ away)
    centred = case.Phi - case.mean
    for t in range(steps + 1):
        yield float(second.sum())
        b = beta(t)
        second = (1 - b) ** 2 * second + 2 * b * (1 - b) * np.einsum("si,si->s", first, centred)
        second = (second + b**2 * chance * np.sum(centred**2, axis=1)) @ case.P
        first = case.P.T @ ((1 - b) * first + b * chance[:, None] * centred)
        chance = chance @ case.P


def _first_means(case: ChainCase) -> tuple[Floats, Floats]:
    """Return first means: zero, and the end of the unit ball that is furthest from w*."""
    size = float(np.linalg.norm(case.mean))
    far = -case.mean / size if size > 0.0 else np.full(case.d, 1.0 / math.sqrt(case.d))
    return np.zeros(case.d), far


def mean_of_constant_steps(case: ChainCase, wrong: bool) -> float:
    """E|w_t - w*|^2 <= 4 e^(-2 beta (t - tau)) + (16 tau + 6) beta, beta <= 1; wrong: a fiftieth."""
    worst = 0.0
    for beta in (1.0, 0.5, 0.1, 0.01):
        tau = Facts(case.problem, np.zeros(case.d)).mixing_time(beta)
        for start, first in product(range(case.n), _first_means(case)):
            for t, found in enumerate(mean_errors(case, constant(beta), tau + 8 * WAITING, start, first)):
                if t >= tau:
                    limit = 4.0 * math.exp(-2.0 * beta * (t - tau)) + (16 * tau + 6) * beta
                    worst = max(worst, over(found, limit * (0.02 if wrong else 1.0)))
    return worst


def mean_of_decaying_steps(case: ChainCase, wrong: bool) -> float:
    """The bounds of E|w_t - w*|^2 with tau in place of L_1 times a logarithm; wrong: a thousandth.

    Steps of the mean are at most 1/2, c0 is at least 1 and c_0_1, and tau is that of the last beta. The sum
    in its proof is tried besides, with step sizes that are not as small.
    """
    worst, rng = sum_of_squares(case, wrong), case.rng
    facts = Facts(case.problem, np.zeros(case.d))
    for b, xi in ((0.3, 1.0), (0.5, 1.0), (1.5, 1.0), (0.5, float(rng.uniform(0.3, 0.9)))):
        c0, tau = max(1.0, (2.0 * b) ** (1.0 / xi)), 1
        c0 = max(c0, (xi / b) ** (1.0 / (1.0 - xi))) if xi < 1.0 else c0
        for _ in range(50):
            tau = facts.mixing_time(Decay(b, c0, xi).at(tau + WAITING))
            c0 = max(c0, offset_for_ratio(tau, xi))
        decay = Decay(b, c0, xi)
        tau = facts.mixing_time(decay.at(tau + WAITING))
        for first in _first_means(case):
            for t, found in enumerate(mean_errors(case, decay.at, tau + WAITING, 0, first)):
                if t >= tau:
                    limit = _mean_limit(decay, tau, t)
                    worst = max(worst, over(found, limit * (1e-3 if wrong else 1.0)))
    return worst


def _mean_limit(decay: Decay, tau: int, t: int) -> float:
    """Return the bound of the lemma, decay being the steps of the mean, rho_0 a / (t + c0)^xi."""
    b, G_2, now = float(decay.a), 64.0 * tau + 12.0, t + float(decay.c0)
    if decay.xi < 1.0:
        scale = 2.0 * b / (1.0 - decay.xi)
        return 4.0 * math.exp(-scale * decay.between(tau, t)) + G_2 * decay.at(t)
    early = 4.0 * math.pow((tau + decay.c0) / now, 2.0 * b)
    if b == 0.5:
        return early + G_2 * 4.0 * b**2 * math.log(now) / now
    if b < 0.5:
        return early + G_2 * 4.0 * b**2 / ((1.0 - 2.0 * b) * math.pow(now, 2.0 * b))
    return early + G_2 * 4.0 * math.e * b**2 / ((2.0 * b - 1.0) * now)


def mean_diverges() -> Refutation:
    """Steps of the mean above 2, which the theorem allows, make w grow without end."""
    case = edge_case("opposite features")
    beta, tau, steps = 2.5, 1, 60
    found = list(mean_errors(case, constant(beta), steps, 0, np.zeros(1)))[-1]
    limit = 4.0 * math.exp(-2.0 * beta * (steps - tau)) + (16 * tau + 6) * beta
    return Refutation(found, limit, "E|w_60 - w*|^2 with beta = 5/2, two states that swap, features 1 and -1")


def mean_bound_is_negative() -> Refutation:
    """Steps of the mean of 50 / (t + 1): G_2(T) of the lemma is negative, and so is the bound.

    It takes L_1 = 1, as for a chain of independent states; tau = 1 and t = T = 2.
    """
    G_2 = 64.0 * (math.log(3.0) - math.log(50.0) + 1.0) + 12.0
    bound = 4.0 * (2.0 / 3.0) ** 100 + G_2 * 4.0 * math.e * 50.0**2 / (99.0 * 3.0)
    return Refutation(
        0.0, bound, "a mean square is never below 0; rho_0 a = 50, c0 = 1, tau = 1, t = T = 2, L_1 = 1"
    )


def constant_steps(case: ChainCase, wrong: bool) -> float:
    """The theorem for constant steps, exponent corrected; wrong: a thousandth of its bound.

    The geometric sum of its proof is tried besides.
    """
    worst = geometric_overlap(case, wrong)
    radius, firsts = _setting(case)
    for first in firsts:
        run = single_chain.projected(Facts(case.problem, first), False, weights_radius=radius * (1 + 1e-9))
        step = min(single_chain.largest_step(run) * 0.99, 0.5)
        for start in range(case.n):
            for t, now in enumerate(paths(case, first, radius, constant(step), 1.0, start)):
                bound = single_chain.markov_constant(run, step, max(t, 1))
                if t and bound.certified:
                    limit = bound.theorem_value * (1e-3 if wrong else 1.0)
                    worst = max(worst, over(error(case, now), limit))
    return worst


def decaying_steps(case: ChainCase, wrong: bool) -> float:
    """The theorem for decaying steps, corrected; wrong: a ten-thousandth of its bound.

    The sums of its proof are tried besides.
    """
    worst = max(overlapping_sums(case, wrong), sum_of_squares(case, wrong))
    radius, firsts = _setting(case)
    run = single_chain.projected(Facts(case.problem, firsts[1]), False, weights_radius=radius * (1 + 1e-9))
    for decay in (Decay(0.9 / max(case.eta, 1.0), 30.0, 1.0), Decay(2.0, 100.0, 0.6)):
        for t, now in enumerate(paths(case, firsts[1], radius, decay.at, 1.0, 0)):
            bound: Bound = single_chain.markov_decaying(run, decay, max(t, 1))
            if t and bound.certified:
                limit = bound.theorem_value * (1e-4 if wrong else 1.0)
                worst = max(worst, over(error(case, now), limit))
    return worst


def one_step(case: ChainCase, wrong: bool) -> float:
    """One step is that of the paper's formula, both projections included; wrong: without that of theta.

    What `paths` does is compared with the formula for each transition.
    """
    worst = 0.0
    theta = case.rng.normal(size=case.d)
    radius = 0.9 * float(np.linalg.norm(theta))
    first = theta * 0.9
    walk = paths(case, first, radius, lambda t: 0.7, 0.5, 0)
    next(walk)
    found = next(walk)
    for state, reached in zip(found.state, found.theta, strict=True):
        right = first + 0.7 * one_chain_update(case, 0, int(state), np.zeros(case.d), first)
        length = float(np.linalg.norm(right))
        right = right if wrong else right * min(1.0, radius / length)
        worst = max(worst, float(np.abs(reached - right).max()) / max(length, radius))
    return worst
