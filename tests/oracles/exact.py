"""Every number of a small process as an exact fraction, whatever its classes are."""

from dataclasses import dataclass

import numpy as np
from flint import fmpq, fmpq_mat

import gainbias as gb


@dataclass(frozen=True)
class Exact:
    """The law of each state in its class, gain and bias from each state, and the variance if there is one.

    Gain and variance are per step.
    """

    law: list[fmpq]
    gain: list[fmpq]
    bias: list[fmpq]
    variance: fmpq | None


def fraction(value: float) -> fmpq:
    """The exact value of a float."""
    return fmpq(*float(value).as_integer_ratio())


def exact_answer(mrp: gb.MarkovRewardProcess) -> Exact:
    """Return the answer for the process as it is stored.

    The probability of staying is what the others leave to 1. Rewards of transitions are averaged over rows as
    they are stored.
    """
    n = mrp.num_states
    away = [[fraction(x) for x in row] for row in mrp.csr.toarray()]
    stored = [row[:] for row in away]
    for i in range(n):
        away[i][i] = fmpq(0)
    leave = [[(sum(away[i], fmpq(0)) if i == j else -away[i][j]) for j in range(n)] for i in range(n)]
    earned = None
    if mrp.transition_rewards is None:
        reward = [fraction(x) for x in mrp.rewards]
    else:
        dense = mrp.transition_rewards
        dense = dense.toarray() if hasattr(dense, "toarray") else dense
        earned = [[fraction(x) for x in row] for row in dense]
        reward = [_dot(stored[i], earned[i]) for i in range(n)]
    law, gain, bias = ([fmpq(0)] * n for _ in range(3))
    for states in (list(map(int, found)) for found in mrp.structure.recurrent):
        _solve_class(states, leave, reward, law, gain, bias)
    rest = [int(state) for state in mrp.structure.transient]
    if rest:
        inner = [[leave[i][j] for j in rest] for i in rest]
        known = [j for j in range(n) if j not in set(rest)]
        ahead = _solve(inner, [_dot([away[i][j] for j in known], [gain[j] for j in known]) for i in rest])
        for i, value in zip(rest, ahead, strict=True):
            gain[i] = value
        right = [
            reward[i] - gain[i] + _dot([away[i][j] for j in known], [bias[j] for j in known]) for i in rest
        ]
        for i, value in zip(rest, _solve(inner, right), strict=True):
            bias[i] = value
    variance = _variance(law, gain, bias, reward, stored, earned) if mrp.is_unichain else None
    return Exact(law, gain, bias, variance)


def _solve_class(states, leave, reward, law, gain, bias):
    inner = [[leave[i][j] for j in states] for i in states]
    size = len(states)
    balance = [[inner[i][j] for i in range(size)] for j in range(size)]
    balance[-1] = [fmpq(1)] * size
    own = _solve(balance, [fmpq(0)] * (size - 1) + [fmpq(1)])
    average = _dot(own, [reward[i] for i in states])
    system = [row[:] for row in inner]
    # The equations depend on each other through the law, so that one of them makes room for the mean.
    system[-1] = own
    right = [reward[i] - average for i in states]
    right[-1] = fmpq(0)
    for i, mass, value in zip(states, own, _solve(system, right), strict=True):
        law[i], gain[i], bias[i] = mass, average, value


def _variance(law, gain, bias, reward, stored, earned):
    if earned is None:
        excess = [r - g for r, g in zip(reward, gain, strict=True)]
        both = [x * (2 * w - x) for x, w in zip(excess, bias, strict=True)]
        return _dot(law, both)
    total = fmpq(0)
    for i, row in enumerate(earned):
        brings = [value - gain[i] for value in row]
        total += law[i] * _dot(stored[i], [x * (x + 2 * w) for x, w in zip(brings, bias, strict=True)])
    return total


def _solve(system: list[list[fmpq]], target: list[fmpq]) -> list[fmpq]:
    size = len(target)
    answer = fmpq_mat(size, size, [x for row in system for x in row]).solve(fmpq_mat(size, 1, target))
    return [answer[i, 0] for i in range(size)]


def _dot(left: list[fmpq], right: list[fmpq]) -> fmpq:
    return sum((a * b for a, b in zip(left, right, strict=True)), fmpq(0))


def distance(found: np.ndarray, exact: list[fmpq], unit: float = 1.0) -> np.ndarray:
    """How far floats are from fractions times a unit, each rounded up to a float."""
    scale = fraction(unit)
    gaps = [abs(fraction(x) - scale * y) for x, y in zip(np.atleast_1d(found), exact, strict=True)]
    return np.array([int(gap.p) / int(gap.q) for gap in gaps])
