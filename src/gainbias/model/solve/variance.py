"""The variance in the central limit theorem of the average reward, with a bound on its error.

`asymptotic_variance` returns both, for each recurrent class.

Each step brings ``r(s, s') - g + W(s') - W(s)``, of mean zero whatever came before, so that only its own
variance counts: that of ``r(s, s') + W(s')`` given s, averaged over the stationary law. Measured from the
likeliest successor of s, neither the level of the rewards nor that of the bias costs a digit. In continuous
time rewards flow evenly between jumps, and what is random is the jumps of W. A step whose duration T is
random brings ``r(s, s') + (rho - g) T + W(s') - W(s)``, so that the variance of T counts too, and the mean
over steps is divided by the mean duration of a step.

The average is a gain like any other, and is refined as one: a method that iterates may have small stationary
probabilities wrong, which matter where the variance comes from rare states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import by_blocks, constant, share_blocks
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled, weighted_means
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.bounds import MARGIN
from gainbias.model.solve.certificate import Certified
from gainbias.model.solve.elimination.law import SMALLEST_NORMAL
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.residual import bellman_residual, throughput
from gainbias.model.solve.semi_markov import Jumps, jumps
from gainbias.model.solve.solution import MethodError, Solver
from gainbias.model.solve.vectors import combined, gathered, inner, largest_of, scatter
from gainbias.model.structure import Structure
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

MOST_VARIANCE_REFINEMENTS = 8
"""Number of refinements of an average after which the best so far is taken."""

ENOUGH = 1e-12
"""An average is not refined further when its error is known to be this small, relatively."""

DIRECT_DIGITS = 1e-6
"""Stationary probabilities by elimination are right to much more than this, each relative to itself."""

ENOUGH_VARIANCE = 1e-9
"""A variance whose relative error is this small is not found in another way too."""

STATES_AT_ONCE = 2**14
"""Jumps from this many states are worked on together: threads that need new memory wait for each other."""

FAR_BETTER = 1e3
"""The other way is taken if it brings this much."""


class Variance(NamedTuple):
    """The variance of each recurrent class and a bound on its absolute error, (classes,)."""

    value: Floats
    error: Floats


class _Classes(NamedTuple):
    """The states that count, the class of each of them, and one state of each class.

    Elimination leaves out recurrent states whose probability is too small to be a number: there the bias may
    be huge, and 0 times infinity is not 0. They are `hidden`, in the classes `class_of_hidden`. A method that
    iterates knows too little about the law to leave any out.
    """

    visited: NDArray[np.intp]
    class_of: NDArray[np.intp]
    hidden: NDArray[np.intp]
    class_of_hidden: NDArray[np.intp]
    first: NDArray[np.intp]

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
        # What is not known there may be anything.
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
        Whether steps are counted for a process made by `from_rates` too, not its time.
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
            # What is left open about the rewards meets the bias too: rows sum to 1 up to rounding only.
            unsettled = unsettled + 2.0 * np.abs(answer.bias) * doubt
        classes = _classes(mrp.structure, solver)
        visited = classes.visited
        law = gathered(solver.stationary, visited)
        value, error = _refined_averages(mrp.csr, squares, classes, solver)
        # The root of the variance is a norm of the jumps, so it moves by at most the norm of their errors.
        off = np.sqrt(classes.sums(law, gathered(slack, visited)))
        longest = float(np.diff(mrp.csr.indptr).max())
        error = error + (2.0 * np.sqrt(value) * off + off**2 + (longest + 8.0) * EPSILON * value)
        error += classes.sums(law, gathered(unsettled, visited))
        error += classes.sums_of_hidden(solver, 2.0 * (squares + slack) + unsettled)
        is_enough = (error <= ENOUGH_VARIANCE * value) & (value < np.inf)
        if own is None and isinstance(solver, EliminationSolver) and not is_enough.all():
            other = _covariances(rewards, answer, timed, solver, classes, in_time)
            better = _better(Variance(value, error), other)
            value, error = np.where(is_enough, value, better.value), np.where(is_enough, error, better.error)
    if own is not None or timed is not None or np.ptp(answer.bias[visited]) > 0.0:
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


def _classes(structure: Structure, solver: Solver) -> _Classes:
    recurrent = structure.recurrent
    first = np.array([states[0] for states in recurrent])
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
    If the stored number differs, even if by rounding only, the jumps of states that hardly ever stay depend
    on it: that is the last of the three, each (n,).
    """
    out = np.empty((3, csr.shape[0]))

    def work(begin: int, end: int) -> None:
        out[:, begin:end] = _squared_jumps_from(csr, own, own_error, bias, bias_error, in_time, begin, end)

    share_blocks(work, csr.shape[0], STATES_AT_ONCE)
    return out[0], out[1], out[2]


def _squared_jumps_from(
    csr: CsrArray,
    own: Doubled | None,
    own_error: Floats | None,
    bias: Floats,
    bias_error: Floats,
    in_time: bool,
    begin: int,
    end: int,
) -> tuple[Floats, Floats, Floats]:
    """Return what `_squared_jumps` does, for the states `begin` to ``end - 1``."""
    count = end - begin
    entries = slice(csr.indptr[begin], csr.indptr[end])
    start, target, stored = (
        csr.indptr[begin : end + 1] - entries.start,
        csr.indices[entries],
        csr.data[entries],
    )
    source = np.repeat(np.arange(count), np.diff(start))
    likeliest = _likeliest(start, source, stored)
    origin = np.arange(begin, end) if in_time else target[likeliest]
    jump = bias[target] - bias[origin][source]
    size = np.abs(jump)
    if own is not None:
        high, rest = own.high[entries], own.rest[entries]
        extra = high - high[likeliest][source] + (rest - rest[likeliest][source])
        jump, size = jump + extra, size + np.abs(extra)
    _, excess = weighted_means(start, Doubled(stored), np.zeros(len(stored)))
    stays = target == source + begin
    chance = np.where(stays, np.maximum(stored - excess[source], 0.0), stored)
    moves = chance * (target != origin[source])

    def per_state(entries: Floats) -> Floats:
        return np.bincount(source, entries, minlength=count).astype(np.float64, copy=False)

    mean = np.zeros(count) if in_time else per_state(moves * jump)
    staying = bias[begin:end] - bias[origin]
    staying[source[stays]] = jump[stays]
    off = bias_error[target] + bias_error[origin][source] + 8.0 * EPSILON * size
    if own_error is not None:
        off = off + own_error[entries] + own_error[entries][likeliest][source]
    slack = per_state(np.where(moves > 0.0, moves * off**2, 0.0))
    return per_state(chance * (jump - mean[source]) ** 2), slack, np.abs(excess) * (staying - mean) ** 2


def _likeliest(start: Ints, source: Ints, stored: Floats) -> Ints:
    """Return the position of the largest entry of each row; the first if there are several."""
    largest = np.flatnonzero(stored == np.maximum.reduceat(stored, start[:-1])[source])
    place = np.empty(len(start) - 1, dtype=np.intp)
    place[source[largest][::-1]] = largest[::-1]
    return place


def _refined_averages(csr: CsrArray, squares: Floats, classes: _Classes, solver: Solver) -> Variance:
    """Return the long-run average in each class of values that are not negative, and a bound on its error.

    With the solution x of ``x - P x = values - g`` it is g plus the average of the residual, whatever x is.
    """
    # One value that is no number would spoil the averages of other classes.
    is_finite = np.isfinite(classes.most(squares))
    kept = classes.visited if is_finite.all() else classes.visited[is_finite[classes.class_of]]
    values = constant(0.0, len(squares))
    scatter(gathered(squares, kept), kept, values)
    gain = Doubled(solver.average(values))
    first = classes.first
    unknown = np.where(is_finite, 0.0, np.inf)
    if largest_of(values) == 0.0:
        return Variance(gain.high[first] + unknown, unknown)
    rows = Sparse(csr.indptr, csr.indices, csr.data)
    bias, best = Doubled(np.zeros(len(values))), Variance(gain.high[first], np.full(len(first), np.inf))
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
