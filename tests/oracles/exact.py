"""The oracle: every number of a small process in exact fractions, or enclosed to 30 digits.

`exact_answer` gives law, gain, bias and variance as fractions, whatever the classes of the process are, and
`enclosed_answer` the same for up to a few hundred states by interval arithmetic. `rational_answer` takes
matrices and rounds each number once. Hitting times, discounted values and values over a horizon follow.

The probability of staying in a state is what the other entries of its row leave to 1, as in the package.
Classes are found here and not by the package.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import gainbias as gb

from .record import Floats

DIGITS = fmpq(1, 10**30)
"""Radius of an enclosed number relative to its size."""

ZERO_DIGITS = fmpq(1, 10**200)
"""Radius relative to the largest number of its sort or to 1, for one that may be 0."""


@dataclass(frozen=True)
class Exact:
    """The law of each state in its class, gain and bias from each state, and the variances if there are any.

    Gain and variance are per step; `variance_in_time` is that of a process made by `from_rates`, whose steps
    take random times, still in steps as the unit of time.
    """

    law: list[fmpq]
    gain: list[fmpq]
    bias: list[fmpq]
    variance: fmpq | None
    variance_in_time: fmpq | None


@dataclass(frozen=True)
class RationalAnswer:
    """The answer rounded once, at the very end."""

    stationary: Floats
    gain: float
    bias: Floats
    asymptotic_variance: float


@dataclass(frozen=True)
class _Numbers:
    """The numbers to calculate with: how a float becomes one, and how a system is solved."""

    of: Callable[[float], Any]
    matrix: Callable[..., Any]

    def solve(self, system: list[list[Any]], *rights: list[Any]) -> list[list[Any]]:
        n = len(system)
        matrix = self.matrix(n, n, [entry for row in system for entry in row])
        sides = self.matrix(n, len(rights), [right[i] for i in range(n) for right in rights])
        answer = matrix.solve(sides)
        return [[answer[i, k] for i in range(n)] for k in range(len(rights))]


def fraction(value: float) -> fmpq:
    """The exact value of a float."""
    return fmpq(*float(value).as_integer_ratio())


def as_float(value: fmpq) -> float:
    """The nearest float."""
    return int(value.p) / int(value.q)  # the division of integers rounds once


def dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum((a * b for a, b in zip(left, right, strict=True)), fmpq(0))


RATIONAL = _Numbers(fraction, fmpq_mat)
INTERVALS = _Numbers(arb, arb_mat)
solve_exactly = RATIONAL.solve


def exact_answer(mrp: gb.MarkovRewardProcess) -> Exact:
    """Return the answer for the process as it is stored, in fractions.

    Rewards of transitions are averaged over rows as they are stored.
    """
    return _answer(*_stored(mrp), RATIONAL)


def enclosed_answer(mrp: gb.MarkovRewardProcess) -> Exact:
    """Return the same, each number to 30 digits, by intervals that are narrowed until this holds.

    A gain, bias or variance that may be 0 is known to 200 digits of the largest or of 1.
    """
    for bits in (300, 1000, 3000, 9000):
        with ctx.workprec(bits):
            try:
                return _narrow(_answer(*_stored(mrp), INTERVALS))
            except (_WideError, ZeroDivisionError):
                continue
    raise AssertionError("9000 bits do not enclose the answer")


def rational_answer(transitions: ArrayLike, rewards: ArrayLike) -> RationalAnswer:
    """Return the answer of a model with one class, given by its matrices, each number rounded once."""
    given = np.asarray(rewards, dtype=np.float64)
    exact = _answer(_dense(transitions), given, RATIONAL)
    assert exact.variance is not None
    law, bias = (np.array([as_float(x) for x in numbers]) for numbers in (exact.law, exact.bias))
    return RationalAnswer(law, as_float(exact.gain[0]), bias, as_float(exact.variance))


def _stored(mrp: gb.MarkovRewardProcess) -> tuple[Floats, Floats]:
    of_moves = mrp.transition_rewards
    return mrp.csr.toarray(), mrp.rewards if of_moves is None else _dense(of_moves)


def _dense(matrix: Any) -> Floats:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix, dtype=np.float64)


def _answer(transitions: Floats, rewards: Floats, numbers: _Numbers) -> Exact:
    """The answer in any numbers; rewards of transitions are an (n, n) matrix."""
    n = len(transitions)
    stored = [[numbers.of(float(x)) for x in row] for row in transitions]
    leave = [[-x for x in row] for row in stored]
    for i in range(n):
        leave[i][i] = numbers.of(0.0)
        leave[i][i] = -sum(leave[i], fmpq(0))
    earned = [[numbers.of(float(x)) for x in row] for row in rewards] if rewards.ndim == 2 else None
    reward = [numbers.of(float(x)) for x in rewards] if earned is None else list(map(dot, stored, earned))
    law, gain, bias = ([numbers.of(0.0)] * n for _ in range(3))
    recurrent, rest = _classes(transitions)
    for states in recurrent:
        own, average, values = _answer_of_class(states, leave, reward, numbers)
        for i, mass, value in zip(states, own, values, strict=True):
            law[i], gain[i], bias[i] = mass, average, value
    if rest:
        known = sorted(set(range(n)) - set(rest))
        inner = [[leave[i][j] for j in rest] for i in rest]

        def ahead(values: list[Any], i: int) -> Any:
            return -dot([leave[i][j] for j in known], [values[j] for j in known])

        (found,) = numbers.solve(inner, [ahead(gain, i) for i in rest])
        for i, value in zip(rest, found, strict=True):
            gain[i] = value
        (found,) = numbers.solve(inner, [reward[i] - gain[i] + ahead(bias, i) for i in rest])
        for i, value in zip(rest, found, strict=True):
            bias[i] = value
    if len(recurrent) > 1:
        return Exact(law, gain, bias, None, None)
    excess = [r - g for r, g in zip(reward, gain, strict=True)]
    in_time = 2 * dot(law, list(map(lambda x, w: x * w, excess, bias)))
    variance = in_time - dot(law, [x * x for x in excess])
    if earned is not None:
        # Now and later: what a step brings, with its square and with the bias of where it leads.
        variance = numbers.of(0.0)
        for i, row in enumerate(earned):
            brings = [value - gain[i] for value in row]
            variance += law[i] * dot(stored[i], [x * (x + 2 * w) for x, w in zip(brings, bias, strict=True)])
    return Exact(law, gain, bias, variance, in_time)


def _answer_of_class(
    states: list[int], leave: list[list[Any]], reward: list[Any], numbers: _Numbers
) -> tuple[list[Any], Any, list[Any]]:
    """The law, the gain and the bias of a recurrent class."""
    inner = [[leave[i][j] for j in states] for i in states]
    balance = [list(column) for column in zip(*inner, strict=True)]
    balance[-1] = [numbers.of(1.0)] * len(states)
    nothing = [numbers.of(0.0)] * (len(states) - 1)
    (own,) = numbers.solve(balance, [*nothing, numbers.of(1.0)])
    average = dot(own, [reward[i] for i in states])
    # The equations depend on each other through the law, so that one of them makes room for the mean.
    right = [reward[i] - average for i in states[:-1]]
    (values,) = numbers.solve([*inner[:-1], own], [*right, numbers.of(0.0)])
    return own, average, values


def _classes(transitions: Floats) -> tuple[list[list[int]], list[int]]:
    """The recurrent classes and the transient states."""
    moves = csr_array(transitions != 0.0)
    count, label = connected_components(moves, directed=True, connection="strong")
    source, target = moves.nonzero()
    is_left = np.isin(np.arange(count), label[source[label[source] != label[target]]])
    recurrent = [np.flatnonzero(label == k).tolist() for k in range(count) if not is_left[k]]
    return recurrent, np.flatnonzero(is_left[label]).tolist()


class _WideError(Exception):
    """Intervals are too wide."""


def _narrow(found: Exact) -> Exact:
    """The midpoints of intervals that are narrow enough."""

    def middle(values: list[Any], part: fmpq = ZERO_DIGITS) -> list[fmpq]:
        if not all(value.is_finite() for value in values):
            raise _WideError
        middles = [value.mid().fmpq() for value in values]
        least = part * max(1, *map(abs, middles))
        for value, near in zip(values, middles, strict=True):
            if value.rad().fmpq() > max(DIGITS * abs(near), least):
                raise _WideError
        return middles

    gain = middle(found.gain)
    variances = [None, None]
    if found.variance is not None:
        variances = [middle([value])[0] for value in (found.variance, found.variance_in_time)]
    return Exact(middle(found.law, fmpq(0)), gain, middle(found.bias), *variances)


def distance(found: ArrayLike, exact: list[fmpq], unit: float = 1.0) -> Floats:
    """How far floats are from fractions times a unit, each as a float."""
    scale = fraction(unit)
    return np.array(
        [as_float(abs(fraction(x) - scale * y)) for x, y in zip(np.atleast_1d(found), exact, strict=True)]
    )


def exact_chain(mrp: gb.MarkovRewardProcess) -> list[list[fmpq]]:
    """Return the transitions as rows of fractions."""
    chain = [[fraction(p) for p in row] for row in mrp.csr.toarray()]
    for i, row in enumerate(chain):
        row[i] = fmpq(0)
        row[i] = 1 - sum(row, fmpq(0))
    return chain


def identity_minus(chain, states, factor=1):
    return [[int(i == j) - factor * chain[i][j] for j in states] for i in states]


def exact_times(mrp, targets, inside):
    """Return mean and variance by the first two moments, for states that reach the targets for certain."""
    chain, rate = exact_chain(mrp), fraction(mrp.rate or 1.0)
    system = identity_minus(chain, inside)
    (mean,) = solve_exactly(system, [fmpq(1)] * len(inside))
    full = dict(zip(inside, mean, strict=True)) | dict.fromkeys(targets, fmpq(0))
    second = [1 + 2 * sum((chain[i][j] * h for j, h in full.items()), fmpq(0)) for i in inside]
    (square,) = solve_exactly(system, second)
    variance = [m - h * h for m, h in zip(square, mean, strict=True)]
    if mrp.rate is not None:
        variance = [v + h for v, h in zip(variance, mean, strict=True)]
    return [h / rate for h in mean], [v / rate**2 for v in variance]


def exact_probabilities(mrp, ones, inside):
    """Return the probability of reaching `ones` from the states `inside`; from all others it is 0."""
    chain = exact_chain(mrp)
    right = [sum((chain[i][j] for j in ones), fmpq(0)) for i in inside]
    return solve_exactly(identity_minus(chain, inside), right)[0]


def exact_discounted(mrp, discount):
    """Return level and remainder for a factor per step, given as a fraction."""
    gain = exact_answer(mrp).gain
    system = identity_minus(exact_chain(mrp), range(mrp.num_states), discount)
    (remainder,) = solve_exactly(system, [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)])
    return [g / (1 - discount) for g in gain], remainder


def exact_horizon(mrp, steps):
    """Return level and remainder over a few steps."""
    gain = exact_answer(mrp).gain
    chain, n = exact_chain(mrp), mrp.num_states
    excess = [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)]
    total = [fmpq(0)] * n
    for _ in range(steps):
        total = [excess[i] + dot(chain[i], total) for i in range(n)]
    return [steps * g for g in gain], total


def assert_within(found, bound, exact, scale=0.0):
    """Check each number against its bound, and that the bounds are useful: small, or near the true errors."""
    scale = max([scale, *(abs(as_float(x)) for x in exact)])
    off, allowed = [], []
    for value, limit, truth in zip(np.ravel(found), np.ravel(bound), exact, strict=True):
        error = abs(fraction(value) - truth)
        assert error <= fraction(limit), (value, limit, as_float(error))
        off.append(as_float(error))
        allowed.append(limit)
    if allowed:
        assert np.median(allowed) <= max(1e4 * np.median(off), 1e-13 * scale, 1e-300)
