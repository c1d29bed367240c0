"""The variance in the central limit theorem of the average reward, with a bound on its error.

`asymptotic_variance` returns both.

Each step brings ``r(s, s') - g + W(s') - W(s)``, of mean zero whatever came before, so that only its own
variance counts: that of ``r(s, s') + W(s')`` given s, averaged over the stationary law. Measured from the
likeliest successor of s, neither the level of the rewards nor that of the bias costs a digit. In continuous
time rewards flow evenly between jumps, and what is random is the jumps of W.

The average is a gain like any other, and is refined as one: a method that iterates may have small stationary
probabilities wrong, which matter where the variance comes from rare states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.model.checks import CsrArray, entry_rows
from gainbias.model.doubled import Doubled, weighted_means
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.certificate import Certified
from gainbias.model.solve.elimination.law import SMALLEST_NORMAL
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.residual import EPS, bellman_residual, throughput
from gainbias.model.solve.solution import MethodError, Solver
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats

MOST_VARIANCE_REFINEMENTS = 8
"""Number of refinements of an average after which the best so far is taken."""

ENOUGH = 1e-12
"""An average is not refined further when its error is known to be this small, relatively."""

DIRECT_DIGITS = 1e-6
"""Stationary probabilities by elimination are right to much more than this, each relative to itself."""

ENOUGH_VARIANCE = 1e-9
"""A variance whose relative error is this small is not found in another way too."""

FAR_BETTER = 1e3
"""The other way is taken if it brings this much."""


class Variance(NamedTuple):
    """A variance and a bound on its absolute error."""

    value: float
    error: float


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
        The process, with one recurrent class.
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
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares, slack, unsettled = _squared_jumps(mrp.csr, own, answer.bias, answer.bias_error, in_time)
        # Only states that are visited: elsewhere the bias may be huge, and 0 times infinity is not 0.
        visited = solver.stationary > 0.0
        value, error = _refined_average(mrp.csr, np.where(visited, squares, 0.0), solver)
        # The root of the variance is a norm of the jumps, so it moves by at most the norm of their errors.
        off = float(np.sqrt(solver.stationary[visited] @ slack[visited]))
        longest = float(np.diff(mrp.csr.indptr).max())
        error += 2.0 * np.sqrt(value) * off + off**2 + (longest + 8.0) * EPS * value
        error += float(solver.stationary[visited] @ unsettled[visited])
        is_enough = error <= ENOUGH_VARIANCE * value < np.inf
        if own is None and isinstance(solver, EliminationSolver) and not is_enough:
            value, error = _better(Variance(value, error), _covariances(rewards, answer, solver, in_time))
    if own is not None or np.ptp(answer.bias[visited]) > 0.0:
        # Squares of small jumps, and what they are weighted with, may be too small to be numbers.
        error += SMALLEST_NORMAL
    unit = float(mrp.rate or 1.0) if in_time else 1.0
    return Variance(unit * value, unit * float(error) if np.isfinite(error) else np.inf)


def _covariances(rewards: Floats, answer: Certified, solver: EliminationSolver, in_time: bool) -> Variance:
    """Return the variance as the mean of ``(R - g) (2 W - (R - g))``, the sum of all covariances.

    Its error is that of the bias times the rewards, not that of jumps between values that may be huge.
    """
    visited = solver.stationary > 0.0
    law, off_law = solver.stationary[visited], solver.law.given_error[visited]
    excess, bias = (rewards - answer.gain)[visited], answer.bias[visited]
    off_excess, off_bias = answer.gain_error[visited], answer.bias_error[visited]
    own = 0.0 if in_time else 1.0
    terms = excess * (2.0 * bias - own * excess)
    size = np.abs(excess) * (2.0 * np.abs(bias) + own * np.abs(excess))
    off = 2.0 * off_excess * (np.abs(bias) + np.abs(excess) + off_bias + off_excess)
    off += 2.0 * np.abs(excess) * off_bias
    rounding = (len(law) + 8.0) * EPS * float(law @ size)
    return Variance(float(law @ terms), float((law + off_law) @ off + off_law @ size) + rounding)


def _better(one: Variance, other: Variance) -> Variance:
    """Return the first of two variances, with the smaller bound, or the second if it is known far better."""
    if other.value >= 0.0 and not one.error <= FAR_BETTER * other.error:
        return other
    return Variance(one.value, float(np.fmin(one.error, other.error + abs(one.value - other.value))))


def _squared_jumps(
    csr: CsrArray, own: Doubled | None, bias: Floats, bias_error: Floats, in_time: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the mean square of a jump from each state, that of its error, and the error from row sums.

    The solvers take the probability of staying to be 1 minus the sum of the other entries, and so does this.
    If the stored number differs, even if by rounding only, the jumps of states that hardly ever stay depend
    on it: that is the last of the three, each (n,).
    """
    source, states = entry_rows(csr), np.arange(csr.shape[0])
    likeliest = _likeliest(csr)
    origin = states if in_time else csr.indices[likeliest]
    jump = bias[csr.indices] - bias[origin][source]
    size = np.abs(jump)
    if own is not None:
        extra = own.high - own.high[likeliest][source] + (own.rest - own.rest[likeliest][source])
        jump, size = jump + extra, size + np.abs(extra)
    _, excess = weighted_means(csr.indptr, Doubled(csr.data), np.zeros(csr.nnz))
    stays = csr.indices == source
    chance = np.where(stays, np.maximum(csr.data - excess[source], 0.0), csr.data)
    moves = chance * (csr.indices != origin[source])

    def per_state(entries: Floats) -> Floats:
        return np.bincount(source, entries, minlength=len(states)).astype(np.float64, copy=False)

    mean = np.zeros(len(states)) if in_time else per_state(moves * jump)
    staying = bias - bias[origin]
    staying[source[stays]] = jump[stays]
    off = bias_error[csr.indices] + bias_error[origin][source] + 8.0 * EPS * size
    slack = per_state(np.where(moves > 0.0, moves * off**2, 0.0))
    return per_state(chance * (jump - mean[source]) ** 2), slack, np.abs(excess) * (staying - mean) ** 2


def _likeliest(csr: CsrArray) -> NDArray[np.intp]:
    """Return the position of the largest entry of each row; the first if there are several."""
    source = entry_rows(csr)
    largest = np.flatnonzero(csr.data == np.maximum.reduceat(csr.data, csr.indptr[:-1])[source])
    place = np.empty(csr.shape[0], dtype=np.intp)
    place[source[largest][::-1]] = largest[::-1]
    return place


def _refined_average(csr: CsrArray, values: Floats, solver: Solver) -> tuple[float, float]:
    """Return the long-run average of nonnegative values and a bound on its error.

    With the solution x of ``x - P x = values - g`` it is g plus the average of the residual, whatever x is.
    """
    visited = solver.stationary > 0.0
    gain = Doubled(solver.average(values))
    if not values.any() or not np.isfinite(values).all():
        return float(gain.high[0]), 0.0 if not values.any() else np.inf
    rows = Sparse(csr.indptr, csr.indices, csr.data)
    bias, best = Doubled(np.zeros(len(values))), (float(gain.high[0]), np.inf)
    right = values - gain.high
    for _ in range(MOST_VARIANCE_REFINEMENTS):
        try:
            bias = bias.plus(solver.solve(right))
        except (MethodError, OutOfTimeError):
            break
        res = bellman_residual(rows, values, gain, bias)
        shift = solver.average(res)
        gain, right = gain.plus(shift), res - shift
        rounding = 4 * EPS * np.abs(res) + 4 * EPS**2 * throughput(csr, np.abs(bias.high))
        if solver.tolerance == 0.0:
            error = float(solver.average(DIRECT_DIGITS * np.abs(right) + rounding)[0])
        else:
            error = float(np.max(np.abs(right[visited]) + rounding[visited]))
        if not error < best[1]:
            break
        best = (max(float(gain.high[0]), 0.0), error)
        if error <= ENOUGH * best[0]:
            break
    return best
