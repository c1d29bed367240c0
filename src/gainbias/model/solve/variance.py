"""The variance in the central limit theorem of the average reward, with a bound on its error.

`asymptotic_variance` returns both, for each recurrent class.

Each step adds ``r(s, s') - g + W(s') - W(s)``, of mean zero whatever came before, so only its own variance
counts: that of ``r(s, s') + W(s')`` given s, averaged over the stationary law. Measured from the likeliest
successor of s, neither the level of the rewards nor that of the bias costs a digit. In continuous time
rewards flow evenly between jumps, and only the jumps of W are random. A step with a random duration T adds
``r(s, s') + (rho - g) T + W(s') - W(s)``, so the variance of T also counts, and the mean over
steps is divided by the mean duration of a step.

The average is a gain like any other, and is refined like one: an iterative method may have wrong small
stationary probabilities, which matter if the variance comes from rare states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import (
    bare_kernel,
    by_blocks,
    constant,
    constant_like,
    is_elsewhere,
    plain_form,
    share_blocks,
)
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled, add_exactly, weighted_means
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.bounds import MARGIN
from gainbias.model.solve.certificate import Certified
from gainbias.model.solve.elimination.law import SMALLEST_NORMAL
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.residual import bellman_residual, throughput
from gainbias.model.solve.semi_markov import Jumps, jumps
from gainbias.model.solve.solution import MethodError, Solver
from gainbias.model.solve.vectors import (
    combined,
    each_state,
    gathered,
    inner,
    largest_of,
    row_lengths,
    rows_of,
    scatter,
    span_of,
    vector_like,
)
from gainbias.model.structure import Structure
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

MOST_VARIANCE_REFINEMENTS = 8
"""Number of refinements of an average after which the best so far is taken."""

ENOUGH = 1e-12
"""An average is not refined further when its error is known to be this small, relatively."""

DIRECT_DIGITS = 1e-6
"""Stationary probabilities by elimination have smaller relative errors than this."""

ENOUGH_VARIANCE = 1e-9
"""A variance with a relative error this small is not computed in the other way as well."""

FAR_BETTER = 1e3
"""The other way is taken if it improves the bound by this factor."""


class Variance(NamedTuple):
    """The variance of each recurrent class and a bound on its absolute error, (classes,)."""

    value: Floats
    error: Floats


class _AllStates(NamedTuple):
    """The states of a chain with one recurrent class that a method solved on a GPU.

    Transient states are not told from others: their probability is exactly 0.
    """

    first: NDArray[np.intp]

    def of(self, values: Floats) -> Floats:
        """Return values, (n,), of the states that count."""
        return values

    def sums(self, weights: Floats, values: Floats) -> Floats:
        """Return the sum of weights times values, (1,)."""
        return np.array([inner(weights, values)])

    def sums_of_hidden(self, solver: Solver, values: Floats) -> Floats:
        """Return what hidden states may add: there are none, (1,)."""
        return np.zeros(1)

    def most(self, values: Floats) -> Floats:
        """Return the largest of values, (1,)."""
        return np.array([values.max()])

    def kept(self, values: Floats, which: NDArray[np.bool_]) -> Floats:
        """Return values, (n,), or 0 for all states if their class, the only one, is not kept."""
        return values if which[0] else constant_like(0.0, values)


class _Classes(NamedTuple):
    """The states that count, the class of each of them, and one state of each class.

    Elimination leaves out recurrent states whose probability underflows: there the bias may be huge, and 0
    times infinity is not 0. They are `hidden`, in the classes `class_of_hidden`. An iterative method knows
    too little about the law to leave any out.
    """

    visited: NDArray[np.intp]
    class_of: NDArray[np.intp]
    hidden: NDArray[np.intp]
    class_of_hidden: NDArray[np.intp]
    first: NDArray[np.intp]

    def of(self, values: Floats) -> Floats:
        """Return values, (n,), of the states that count."""
        return gathered(values, self.visited)

    def kept(self, values: Floats, which: NDArray[np.bool_]) -> Floats:
        """Return values, (n,), with 0 for states that do not count and for classes that are not kept."""
        visited = self.visited if which.all() else self.visited[which[self.class_of]]
        found = constant(0.0, len(values))
        scatter(gathered(values, visited), visited, found)
        return found

    def sums(self, weights: Floats, values: Floats) -> Floats:
        """Return the sum of weights times values over the visited states of each class, (classes,)."""
        if len(self.first) == 1:
            return np.array([inner(weights, values)])
        return np.bincount(self.class_of, weights * values, len(self.first)).astype(np.float64, copy=False)

    def sums_of_hidden(self, solver: Solver, values: Floats) -> Floats:
        """Return what hidden states may add at most to a mean of values, (n,), in each class, (classes,)."""
        if not self.hidden.size:
            return np.zeros(len(self.first))
        assert isinstance(solver, EliminationSolver)
        weighted = solver.law.given_error[self.hidden] * values[self.hidden]
        # Unknown values may be anything there.
        most = np.nan_to_num(weighted, nan=np.inf, posinf=np.inf)
        return np.bincount(self.class_of_hidden, most, len(self.first)).astype(np.float64, copy=False)

    def most(self, values: Floats) -> Floats:
        """Return the largest of values, (n,), over the visited states of each class, (classes,)."""
        if len(self.first) == 1:
            return np.array([np.max(gathered(values, self.visited), initial=-np.inf)])
        largest = np.full(len(self.first), -np.inf)
        np.maximum.at(largest, self.class_of, values[self.visited])
        return largest


def asymptotic_variance(
    mrp: MarkovRewardProcess,
    rewards: Floats,
    answer: Certified,
    solver: Solver,
    *,
    per_step: bool = False,
) -> Variance:
    """Return the variance of the average reward over T steps times T, as T grows, and its absolute error.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : (n,) array
        Expected rewards per step that the answer belongs to.
    answer : Certified
        Gain and bias for them.
    solver : Solver
        The solver that found them.
    per_step : bool
        Whether to count steps, not time, for a process made by `from_rates`, too.
    """
    own = mrp.doubled_entries if rewards is mrp.rewards else None
    in_time = not per_step and mrp.rate is not None
    timed = None if mrp.durations is None else jumps(mrp, rewards, answer)
    if timed is not None:
        own = timed.entries
    entries_error = None if timed is None else timed.entries_error
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares, slack, unsettled = _squared_jumps(
            mrp.csr, own, entries_error, answer.bias, answer.bias_error, in_time
        )
        if timed is not None:
            squares, unsettled = squares + timed.spread, unsettled + timed.spread_error
        doubt = np.abs(mrp.expected.doubt) if mrp.expected is not None else None
        if timed is not None:
            doubt = timed.doubt
        if own is not None and doubt is not None:
            # The uncertainty of the rewards also affects the bias: rows sum to 1 only up to rounding.
            unsettled = unsettled + 2.0 * np.abs(answer.bias) * doubt
        classes = _classes(mrp.structure, solver)
        law = classes.of(solver.stationary)
        value, error = _refined_averages(mrp.csr, squares, classes, solver)
        # The root of the variance is a norm of the jumps, so it moves by at most the norm of their errors.
        off = np.sqrt(classes.sums(law, classes.of(slack)))
        longest = float(row_lengths(rows_of(mrp.csr), squares).max())
        error = error + (2.0 * np.sqrt(value) * off + off**2 + (longest + 8.0) * EPSILON * value)
        error += classes.sums(law, classes.of(unsettled))
        error += classes.sums_of_hidden(solver, 2.0 * (squares + slack) + unsettled)
        is_enough = (error <= ENOUGH_VARIANCE * value) & (value < np.inf)
        is_direct = own is None and not is_enough.all()
        if is_direct and isinstance(solver, EliminationSolver) and isinstance(classes, _Classes):
            other = _covariances(rewards, answer, timed, solver, classes, in_time)
            better = _better(Variance(value, error), other)
            value, error = np.where(is_enough, value, better.value), np.where(is_enough, error, better.error)
    if own is not None or timed is not None or span_of(classes.of(answer.bias)) > 0.0:
        # Squares of small jumps, and what they are weighted with, may be too small to be numbers.
        error += SMALLEST_NORMAL
    if answer.mean_duration is not None:
        mean, off_mean = answer.mean_duration
        with np.errstate(divide="ignore", invalid="ignore"):
            value = value / mean
            error = (error + value * off_mean) / np.maximum(mean - off_mean, 0.0) + 4.0 * EPSILON * value
    error = error * MARGIN
    unit = float(mrp.rate or 1.0) if in_time else 1.0
    return Variance(unit * value, np.where(np.isfinite(error), unit * error, np.inf))


def knows_no_variance(mrp: MarkovRewardProcess) -> bool:
    """Return whether durations have no variances, so that nothing is known about that of the average."""
    return mrp.durations is not None and mrp.duration_variances is None


def _classes(structure: Structure, solver: Solver) -> _Classes | _AllStates:
    recurrent = structure.recurrent
    first = np.array([states[0] for states in recurrent])
    if is_elsewhere(solver.stationary):
        return _AllStates(first)
    if len(recurrent) == 1:
        members, class_of = recurrent[0], np.broadcast_to(np.intp(0), len(recurrent[0]))
    else:
        members = np.concatenate(recurrent)
        class_of = np.repeat(np.arange(len(recurrent)), [len(states) for states in recurrent])
    law = gathered(solver.stationary, members)
    least = min(share_blocks(lambda begin, end: law[begin:end].min(), len(law)))
    if not isinstance(solver, EliminationSolver) or least > 0.0:
        return _Classes(members, class_of, members[:0], class_of[:0], first)
    counts = law > 0.0
    return _Classes(members[counts], class_of[counts], members[~counts], class_of[~counts], first)


def _covariances(
    rewards: Floats,
    answer: Certified,
    timed: Jumps | None,
    solver: EliminationSolver,
    classes: _Classes,
    in_time: bool,
) -> Variance:
    """Return the variance as the mean of ``(R - g) (2 W - (R - g))``, the sum of all covariances.

    Its error is that of the bias times the rewards, not that of jumps between values that may be huge.
    """
    visited = classes.visited
    law, off_law = solver.stationary[visited], solver.law.given_error[visited]
    excess, bias = rewards - answer.gain, answer.bias
    off_excess, off_bias = answer.gain_error, answer.bias_error
    if timed is not None:
        excess, off_excess = timed.excess, timed.excess_error
    own = 0.0 if in_time else 1.0
    terms = excess * (2.0 * bias - own * excess)
    size = np.abs(excess) * (2.0 * np.abs(bias) + own * np.abs(excess))
    off = 2.0 * off_excess * (np.abs(bias) + np.abs(excess) + off_bias + off_excess)
    off += 2.0 * np.abs(excess) * off_bias
    if timed is not None:
        terms, size, off = terms + timed.spread, size + timed.spread, off + timed.spread_error
    unseen = classes.sums_of_hidden(solver, size + off)
    terms, size, off = terms[visited], size[visited], off[visited]
    rounding = (len(law) + 8.0) * EPSILON * classes.sums(law, size)
    error = classes.sums(law + off_law, off) + classes.sums(off_law, size) + rounding + unseen
    return Variance(classes.sums(law, terms), error)


def _better(one: Variance, other: Variance) -> Variance:
    """Return the first of two variances, with the smaller bound, or the second if it is known far better."""
    takes_other = (other.value >= 0.0) & ~(one.error <= FAR_BETTER * other.error)
    error = np.fmin(one.error, other.error + np.abs(one.value - other.value))
    value = np.where(takes_other, other.value, one.value)
    return Variance(value, np.where(takes_other, other.error, error))


def _squared_jumps(
    csr: CsrArray,
    own: Doubled | None,
    own_error: Floats | None,
    bias: Floats,
    bias_error: Floats,
    in_time: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return the mean square of a jump from each state, that of its error, and the error from row sums.

    The solvers take the probability of staying to be 1 minus the sum of the other entries, and so does this.
    If the stored number differs, even if only by rounding, the jumps of states that hardly ever stay depend
    on it: that is the last of the three, each (n,).
    """
    # Missing entries are skipped.
    high, rest, off = (bias if part is None else part for part in (*(own or (None, None)), own_error))
    is_there = own is not None, own is not None and own.low is not None, own_error is not None
    squares, slack, unsettled = (vector_like(bias) for _ in range(3))
    inputs = rows_of(csr), high, rest, off, is_there, bias, bias_error, in_time, 8.0 * EPSILON
    each_state(write_squared_jumps, inputs, squares, slack, unsettled)
    return squares, slack, unsettled


@bare_kernel
def write_squared_jumps(
    rows: Sparse,
    high: Floats,
    rest: Floats,
    own_error: Floats,
    is_there: tuple[bool, bool, bool],
    bias: Floats,
    bias_error: Floats,
    in_time: bool,
    rounding: float,
    begin: int,
    end: int,
    squares: Floats,
    slack: Floats,
    unsettled: Floats,
) -> None:
    """Write what `_squared_jumps` returns, for the states `begin` to ``end - 1``.

    `is_there` says whether there are rewards of transitions, `high`, rests of them, and errors of them. A
    jump may be off by `rounding` times its size besides.
    """
    for i in range(begin, end):
        first, stop = rows.indptr[i], rows.indptr[i + 1]
        likeliest, total, total_low = first, 0.0, 0.0
        for entry in range(first, stop):
            if rows.data[entry] > rows.data[likeliest]:
                likeliest = entry
            total, lost = add_exactly(total, rows.data[entry])
            total_low += lost + 0.0
        beyond, lost = add_exactly(total, -1.0)
        excess = beyond + (lost + total_low)
        origin = i if in_time else rows.indices[likeliest]
        staying = bias[i] - bias[origin]
        mean = squared = off_squared = 0.0
        # First the mean, then the rest of each jump.
        for turn in range(2):
            for entry in range(first, stop):
                target, chance = rows.indices[entry], rows.data[entry]
                jump = bias[target] - bias[origin]
                size = abs(jump)
                if is_there[0]:
                    extra = high[entry] - high[likeliest]
                    if is_there[1]:
                        extra += rest[entry] - rest[likeliest]
                    jump, size = jump + extra, size + abs(extra)
                if target == i:
                    chance, staying = max(chance - excess, 0.0), jump
                if turn == 1:
                    squared += chance * ((jump - mean) * (jump - mean))
                elif target != origin and chance > 0.0:
                    if not in_time:
                        mean += chance * jump
                    off = bias_error[target] + bias_error[origin] + rounding * size
                    if is_there[2]:
                        off = off + own_error[entry] + own_error[likeliest]
                    off_squared += chance * (off * off)
        squares[i], slack[i] = squared, off_squared
        unsettled[i] = abs(excess) * ((staying - mean) * (staying - mean))


@plain_form(write_squared_jumps)
def squared_jumps_at_once(
    rows: Sparse,
    high: Floats,
    rest: Floats,
    own_error: Floats,
    is_there: tuple[bool, bool, bool],
    bias: Floats,
    bias_error: Floats,
    in_time: bool,
    rounding: float,
    begin: int,
    end: int,
    squares: Floats,
    slack: Floats,
    unsettled: Floats,
) -> None:
    """Do the work of `write_squared_jumps` with arrays."""
    count = end - begin
    entries = slice(rows.indptr[begin], rows.indptr[end])
    start, target, stored = (
        rows.indptr[begin : end + 1] - entries.start,
        rows.indices[entries],
        rows.data[entries],
    )
    source = np.repeat(np.arange(count), np.diff(start))
    likeliest = _likeliest(start, source, stored)
    origin = np.arange(begin, end) if in_time else target[likeliest]
    jump = bias[target] - bias[origin][source]
    size = np.abs(jump)
    if is_there[0]:
        extra = high[entries] - high[entries][likeliest][source]
        if is_there[1]:
            extra += rest[entries] - rest[entries][likeliest][source]
        jump, size = jump + extra, size + np.abs(extra)
    _, excess = weighted_means(start, Doubled(stored), np.zeros(len(stored)))
    stays = target == source + begin
    chance = np.where(stays, np.maximum(stored - excess[source], 0.0), stored)
    moves = chance * (target != origin[source])

    def per_state(entries: Floats) -> Floats:
        return np.bincount(source, entries, minlength=count).astype(np.float64, copy=False)

    mean = np.zeros(count) if in_time else per_state(np.where(moves > 0.0, moves * jump, 0.0))
    staying = bias[begin:end] - bias[origin]
    staying[source[stays]] = jump[stays]
    off = bias_error[target] + bias_error[origin][source] + rounding * size
    if is_there[2]:
        off = off + own_error[entries] + own_error[entries][likeliest][source]
    slack[begin:end] = per_state(np.where(moves > 0.0, moves * off**2, 0.0))
    squares[begin:end] = per_state(chance * (jump - mean[source]) ** 2)
    unsettled[begin:end] = np.abs(excess) * (staying - mean) ** 2


def _likeliest(start: Ints, source: Ints, stored: Floats) -> Ints:
    """Return the position of the largest entry of each row; the first if there are several."""
    largest = np.flatnonzero(stored == np.maximum.reduceat(stored, start[:-1])[source])
    place = np.empty(len(start) - 1, dtype=np.intp)
    place[source[largest][::-1]] = largest[::-1]
    return place


def _refined_averages(
    csr: CsrArray, squares: Floats, classes: _Classes | _AllStates, solver: Solver
) -> Variance:
    """Return the long-run average in each class of values that are not negative, and a bound on its error.

    With the solution x of ``x - P x = values - g`` it is g plus the average of the residual, whatever x is.
    """
    # A nan would spoil the averages of other classes.
    is_finite = np.isfinite(classes.most(squares))
    values = classes.kept(squares, is_finite)
    gain = Doubled(solver.average(values))
    first = classes.first
    unknown = np.where(is_finite, 0.0, np.inf)
    if largest_of(values) == 0.0:
        return Variance(gain.high[first] + unknown, unknown)
    rows = rows_of(csr)
    bias, best = Doubled(constant_like(0.0, values)), Variance(gain.high[first], np.full(len(first), np.inf))
    right = combined(values, -1.0, gain.high)
    for _ in range(MOST_VARIANCE_REFINEMENTS):
        try:
            bias = bias.plus(solver.solve(right))
        except (MethodError, OutOfTimeError):
            break
        res = bellman_residual(rows, values, gain, bias)
        shift = solver.average(res)
        gain, right = gain.plus(shift), combined(res, -1.0, shift)
        through = throughput(csr, by_blocks(np.abs, bias.high))
        rounding = by_blocks(
            lambda res, through: 4 * EPSILON * np.abs(res) + 4 * EPSILON**2 * through, res, through
        )
        if solver.tolerance == 0.0:
            error = solver.average(DIRECT_DIGITS * np.abs(right) + rounding)[first]
        else:
            error = classes.most(by_blocks(lambda right, more: np.abs(right) + more, right, rounding))
        is_better = error < best.error
        value = np.where(is_better, np.maximum(gain.high[first], 0.0), best.value)
        best = Variance(value, np.where(is_better, error, best.error))
        if not is_better.any() or (best.error <= ENOUGH * best.value).all():
            break
    return Variance(best.value + unknown, best.error + unknown)
