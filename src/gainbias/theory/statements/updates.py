"""Checks of the lemmas on single updates: their lengths, Lipschitz constants, and how far a few steps lead.

All are about every transition, so every transition of a case is tried, with weights that point along the
features and against them, where the bounds are met.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gainbias.theory.statements.cases import ChainCase
from gainbias.theory.statements.equations import one_chain_update
from gainbias.theory.statements.statement import Refutation, over
from gainbias.types import Floats


def weights_to_try(case: ChainCase) -> list[Floats]:
    """Return weights along and against every row of the features, short and long, and random ones."""
    rows = [row for row in case.Phi if np.linalg.norm(row) > 0.0]
    along = [
        sign * size * row / np.linalg.norm(row) for row in rows for sign in (1, -1) for size in (0.3, 5.0)
    ]
    return [np.zeros(case.d), *along, *case.rng.normal(size=(4, case.d)) * 3.0]


def _transitions(case: ChainCase) -> Iterator[tuple[int, int, int]]:
    """Yield every possible transition with every state of a second chain."""
    for s, after in zip(*np.nonzero(case.P), strict=True):
        for other in range(case.n):
            yield int(s), int(after), other


def two_chain_terms(case: ChainCase, s: int, after: int, other: int, theta: Floats) -> tuple[Floats, Floats]:
    """Return f and g of double chain."""
    here, there = case.Phi[s], case.Phi[after]
    f = -(case.R[s] + here @ theta) * case.Phi[other]
    return f, (case.R[s] + there @ theta - here @ theta) * here


def two_chain_lengths(case: ChainCase, wrong: bool) -> float:
    """|f| <= |delta| + c and |g| <= 2 (|delta| + c), with c = r_max + |theta*|; wrong: |g| <= |delta| + c."""
    worst, c = 0.0, case.r_max + case.length
    for theta in weights_to_try(case):
        limit = float(np.linalg.norm(theta - case.theta)) + c
        for move in _transitions(case):
            f, g = (float(np.linalg.norm(term)) for term in two_chain_terms(case, *move, theta))
            worst = max(worst, over(f, limit), over(g, (1.0 if wrong else 2.0) * limit))
    return worst


def two_chain_lipschitz(case: ChainCase, wrong: bool) -> float:
    """The term f is 1-Lipschitz and g 2-Lipschitz in theta; wrong: g is 1-Lipschitz."""
    worst = 0.0
    for theta in weights_to_try(case):
        base = case.rng.normal(size=case.d)
        size = float(np.linalg.norm(theta))
        for move in _transitions(case):
            first, second = (two_chain_terms(case, *move, x) for x in (base, base + theta))
            f, g = (float(np.linalg.norm(b - a)) for a, b in zip(first, second, strict=True))
            worst = max(worst, over(f, size + 1e-12), over(g, (1.0 if wrong else 2.0) * size + 1e-12))
    return worst


def _in_ball(vectors: list[Floats], radius: float) -> list[Floats]:
    lengths = [float(np.linalg.norm(vector)) for vector in vectors]
    return [v * min(1.0, radius / size) if size else v for v, size in zip(vectors, lengths, strict=True)]


def mean_stays_in_ball(case: ChainCase, wrong: bool) -> float:
    """With |w_0| <= 1 and beta <= 1, |w_t| <= 1 and |w_t - w*| <= 2 on every path; wrong: for beta = 1.5."""
    worst = 0.0
    for beta in (1.5,) if wrong else (0.01, 0.5, 1.0):
        for first in _in_ball(weights_to_try(case), 1.0):
            for row in case.Phi:  # the longest way out: the state whose row leads away is chosen every time
                w = first
                for _ in range(5):
                    options = [w + beta * (phi - w) for phi in (row, *case.Phi)]
                    w = max(options, key=lambda x: float(np.linalg.norm(x)))
                    length = float(np.linalg.norm(w))
                    worst = max(worst, length, over(float(np.linalg.norm(w - case.mean)), 2.0))
    return worst


def mean_leaves_ball() -> Refutation:
    """With beta = 3/2, features 1 and -1, w_0 = 1 and s_0 the state of -1."""
    return Refutation(
        abs(1.0 + 1.5 * (-1.0 - 1.0)), 1.0, "|w_1| with beta = 3/2, w_0 = 1, phi(s_0) = -1 and R_w = 2"
    )


def one_chain_lengths(case: ChainCase, wrong: bool) -> float:
    """|f| <= 2 and |g| <= 2 r_max + 6 R for |w| <= 1 and |theta| <= 2 R; wrong: half of each."""
    radius, worst = max(case.length, 0.1), 0.0
    factor = 0.5 if wrong else 1.0
    thetas = _in_ball([2.0 * radius * 100.0 * theta for theta in weights_to_try(case)], 2.0 * radius)
    for w in _in_ball([10.0 * x for x in weights_to_try(case)], 1.0):
        for s, after in zip(*np.nonzero(case.P), strict=True):
            worst = max(worst, over(float(np.linalg.norm(case.Phi[s] - w)), 2.0 * factor))
            for theta in thetas:
                g = one_chain_update(case, int(s), int(after), w, theta)
                limit = factor * (2.0 * case.r_max + 6.0 * radius)
                worst = max(worst, over(float(np.linalg.norm(g)), limit))
    return worst


def one_chain_lipschitz(case: ChainCase, wrong: bool) -> float:
    """The term g is 3-Lipschitz in theta for |w| <= 1, (r_max + 2 R)-Lipschitz in w for |theta| <= 2 R.

    Wrong: 2-Lipschitz in theta, which the proof for decaying steps uses.
    """
    radius, worst = max(case.length, 0.1), 0.0
    thetas = _in_ball([200.0 * radius * theta for theta in weights_to_try(case)], 2.0 * radius)
    ws = _in_ball([10.0 * x for x in weights_to_try(case)], 1.0)
    for s, after in zip(*np.nonzero(case.P), strict=True):
        for w in ws:
            base = one_chain_update(case, int(s), int(after), w, np.zeros(case.d))
            for theta in thetas:
                moved = one_chain_update(case, int(s), int(after), w, theta) - base
                limit = (2.0 if wrong else 3.0) * float(np.linalg.norm(theta))
                worst = max(worst, over(float(np.linalg.norm(moved)), limit + 1e-12))
        for theta in thetas:
            first, second = (one_chain_update(case, int(s), int(after), w, theta) for w in (ws[0], ws[-1]))
            limit = (case.r_max + 2.0 * radius) * float(np.linalg.norm(ws[0] - ws[-1]))
            worst = max(worst, over(float(np.linalg.norm(first - second)), limit + 1e-12))
    return worst


def not_lipschitz_for_all() -> Refutation:
    """Outside of the unit ball: w = 5, one feature, which is 1 everywhere."""
    return Refutation(5.0, 3.0, "change of g by a unit step of theta, for w = 5 and phi = 1 in all states")


def steps_lead_not_far(case: ChainCase, wrong: bool) -> float:
    """Steps of sum S <= 1/12 lead at most 6 (|theta| + r_max + 2 |theta*|) S away; wrong: a third of that.

    With the last weights in place of the first, 12 times. On each path the worst next transition is taken.
    """
    worst, moves = 0.0, list(_transitions(case))
    offset = case.r_max + 2.0 * case.length
    for first in weights_to_try(case)[:12]:
        for sizes in (np.array([1.0 / 12.0]), np.full(6, 1.0 / 72.0), 0.04 / np.arange(1.0, 4.0)):
            theta = first
            for alpha in sizes:
                options = [theta + alpha * sum(two_chain_terms(case, *move, theta)) for move in moves]
                theta = max(options, key=lambda x: float(np.linalg.norm(x - first)))
            distance, total = float(np.linalg.norm(theta - first)), float(sizes.sum())
            factor = total / 3.0 if wrong else total
            lengths = [float(np.linalg.norm(x)) + offset for x in (first, theta)]
            worst = max(worst, over(distance, 6.0 * lengths[0] * factor))
            worst = max(worst, over(distance, 12.0 * lengths[1] * factor))
    return worst
