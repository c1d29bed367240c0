"""Bounds on the error of each number that elimination finds, which rounding cannot break.

`with_bounds` returns them. One state of each recurrent class is its root, and ``to_roots(f)`` is the sum
of f that is expected before the chain is at a root. Elimination computes it for any f that is not negative,
with a small relative error of each number. The error e of a candidate (g, W) that leaves the residual
``res = R - g - (W - P W)`` obeys ``e - P e = (true gain - g) - res``, therefore

    |true gain - g|         <=  mean of |res| under the stationary law
    |e(s) - e(root)|        <=  to_roots(|res| + |true gain - g|)(s)
    |e(root)|               <=  |mean of W| + mean of the line above .

The residual is computed with twice the digits and its own rounding is added to it; the law, its error, and
the means come from `gainbias.model.solve.elimination.law`.

If values span more than the 32 digits of a residual, this says nothing. But then the values that
elimination gives at once are right to a fraction of what absolute rewards would give, whatever the chain.
That is the second bound, and the smaller one counts, state by state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.kernels import by_blocks
from gainbias.model.checks import EPSILON
from gainbias.model.doubled import Doubled
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.residual import bounded_residual
from gainbias.model.solve.vectors import largest_of, span_of
from gainbias.types import Floats

POOR = 1e-10
"""If a bound is above this fraction of the span, the second bound is tried."""

MARGIN = 1.0 + 1e-9
"""Covers the rounding of sums of numbers that are not negative."""


class GainAndBias(NamedTuple):
    """A gain from each state and a bias, each with twice the digits."""

    gain: Doubled
    bias: Doubled


class BoundedAnswer(NamedTuple):
    """A gain and a bias, and bounds on the absolute error of each of their entries, all (n,)."""

    gain: Floats
    bias: Floats
    gain_error: Floats
    bias_error: Floats

    def error_bound(self, rewards: Floats) -> float:
        """Return the error of the gain relative to the largest reward or of the bias relative to its span.

        A bias without a span belongs to constant rewards: its error is relative to the largest of these.
        """
        of_gain = relative(largest_of(self.gain_error), largest_of(rewards))
        span = span_of(self.bias) or largest_of(rewards)
        return max(of_gain, relative(largest_of(self.bias_error), span))

    def plus(self, more: BoundedAnswer) -> BoundedAnswer:
        """Return the same with bounds that allow for errors of the rewards; `more` is the answer to these."""
        gain_error = self.gain_error + np.abs(more.gain) + more.gain_error
        bias_error = self.bias_error + np.abs(more.bias) + more.bias_error
        return BoundedAnswer(self.gain, self.bias, gain_error, bias_error)


def with_bounds(
    rows: Sparse,
    rewards: Doubled,
    found: GainAndBias,
    refined: GainAndBias,
    solver: EliminationSolver,
) -> BoundedAnswer:
    """Return the most accurate gain and bias, and bounds on their errors.

    Parameters
    ----------
    rows : Sparse
        Transitions.
    rewards : Doubled
        Expected one-step rewards.
    found : GainAndBias
        Returned if it is accurate, or as accurate as the answer of elimination before refinement.
    refined : GainAndBias
        The same with more digits.
    solver : EliminationSolver
        The chain.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        one = _by_residual(rows, rewards, found, refined, solver)
        if one.error_bound(rewards.high) <= POOR:
            return one
        other = by_elimination(rows, rewards, solver)
        gain_error = np.fmin(one.gain_error, other.gain_error + np.abs(one.gain - other.gain) * MARGIN)
        bias_error = np.fmin(one.bias_error, other.bias_error + np.abs(one.bias - other.bias) * MARGIN)
        one = BoundedAnswer(one.gain, one.bias, gain_error, bias_error)
        is_enough = one.error_bound(rewards.high) <= max(POOR, other.error_bound(rewards.high))
        return one if is_enough and np.isfinite(one.bias).all() else other


def _by_residual(
    rows: Sparse, rewards: Doubled, found: GainAndBias, refined: GainAndBias, solver: EliminationSolver
) -> BoundedAnswer:
    """Return what was found, with bounds from the residual of the refined answer."""
    gain, not_flat = harmonic(rows, refined.gain, solver)
    most = bounded_residual(rows, rewards.high, gain.minus(Doubled(rewards.rest)), refined.bias).most
    most = by_blocks(lambda most, reward: most + EPSILON**2 * np.abs(reward), most, rewards.high)
    from_law = _gain_error(rewards, gain, not_flat, solver)
    of_both = largest_extended(largest_mean(by_blocks(np.add, most, not_flat), solver), solver)
    gain_error = by_blocks(lambda law, both, rest: np.fmin(law, both + rest), from_law, of_both, not_flat)
    right = by_blocks(np.add, most, gain_error)
    bias_error = _bias_error(found.bias.high, refined.bias, right, 0.0, solver)
    off = by_blocks(np.add, distance(found.gain.high, gain), gain_error)
    return BoundedAnswer(found.gain.high, found.bias.high, _sure(off), bias_error)


def by_elimination(rows: Sparse, rewards: Doubled, solver: EliminationSolver) -> BoundedAnswer:
    """Return gain and bias without refinement, with bounds that hold for any non-negative elimination."""
    start = Doubled(solver.average(rewards.high))
    moved = means_under_law(rewards.minus(start), solver)[0]
    gain, not_flat = harmonic(rows, start.plus(solver.extend(moved)), solver)
    gain_error = _gain_error(rewards, gain, not_flat, solver)
    excess = rewards.minus(gain)
    right = excess.high + excess.rest
    bias = solver.solve(right)
    given = (solver.rounding + 2.0 * EPSILON) * np.abs(right) + EPSILON**2 * np.abs(rewards.high) + gain_error
    level = solver.extend(np.abs(solver.at_roots(bias)))
    slack = 4.0 * EPSILON * (np.abs(bias) + level) + _lost(solver.to_roots(np.abs(right)), solver)
    slack += _unseen(right, solver)
    if solver.num_classes > 1:
        slack += 2.0 * solver.rounding * level
    bias_error = _bias_error(bias, Doubled(bias), given, slack, solver)
    return BoundedAnswer(gain.high, bias, _sure(distance(gain.high, gain) + gain_error), bias_error)


def harmonic(rows: Sparse, gain: Doubled, solver: EliminationSolver) -> tuple[Doubled, Floats]:
    """Return a gain that equals its own mean after a step, and how far it may be from that, (n,)."""
    nothing = np.zeros(len(gain.high))
    if solver.num_classes == 1:
        return gain, nothing
    step = bounded_residual(rows, nothing, Doubled(nothing), gain)
    better = gain.plus(solver.to_roots(step.value))
    left = bounded_residual(rows, nothing, Doubled(nothing), better)
    return better, _summed(left.most, solver)


def _gain_error(rewards: Doubled, gain: Doubled, not_flat: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on the error of a gain, (n,), from the law alone.

    The law gives the gain to nearly all digits of the rewards, however huge the bias.
    """
    at_roots = _mean_of_signed(rewards.minus(gain), solver)
    return np.asarray(
        by_blocks(np.add, largest_extended(at_roots + largest_mean(not_flat, solver), solver), not_flat)
    )


def _bias_error(
    bias: Floats, near: Doubled, right: Floats, slack: float | Floats, solver: EliminationSolver
) -> Floats:
    """Return a bound on the error of each entry of a bias, (n,).

    Parameters
    ----------
    bias : (n,) array
        What is judged.
    near : Doubled
        A bias close to it that leaves, in absolute value, at most the residual `right`, up to `slack`.
    """
    from_root = _summed(right, solver)
    if np.any(slack):
        from_root = from_root + slack
    at_roots = _mean_of_signed(near, solver) + largest_mean(from_root, solver)
    parts = distance(bias, near), from_root, largest_extended(at_roots, solver)
    return _sure(by_blocks(lambda off, own, root: off + own + root, *parts))


def _summed(right: Floats, solver: EliminationSolver) -> Floats:
    sums = solver.to_roots(right)
    return _enlarged(sums, _missed(sums, right, solver), solver)


def largest_bias(right: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on the bias, (n,), of any rewards of average 0 that are at most `right` in size."""
    nothing = np.zeros(len(right))
    return _bias_error(nothing, Doubled(nothing), right, 0.0, solver)


def largest_extended(at_roots: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on the expected number, not negative, of the class where the chain ends, (n,)."""
    extended = solver.extend(at_roots)
    missed = _missed(at_roots, at_roots, solver) if solver.num_classes > 1 else 0.0
    return _enlarged(extended, missed, solver)


def _enlarged(values: Floats, missed: float | Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on non-negative values, from what elimination found and what it missed."""
    rounding = solver.rounding

    def bound(part: Floats, missed: float | Floats) -> Floats:
        return part * (1.0 + 2.0 * rounding) * MARGIN + missed

    if isinstance(missed, float):
        return np.asarray(by_blocks(lambda part: bound(part, missed), values))
    return np.asarray(by_blocks(bound, values, missed))


def _missed(values: Floats, right: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on what the solve for a right side, which gave some values, has missed, (n,)."""
    unseen = _unseen(right, solver)
    return _lost(values, solver) + unseen if solver.loses_transitions else unseen


def _unseen(right: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on what a solve for a right side loses to products that underflow, (n,)."""
    part = min(1.0, 2.0 * largest_of(right))
    return np.asarray(by_blocks(lambda unseen: part * unseen, solver.unseen))


def _lost(values: Floats, solver: EliminationSolver) -> float | Floats:
    """Return a bound on how much lost transitions may have moved values of states, or of roots."""
    if not solver.loses_transitions:
        return 0.0
    inside = solver.is_recurrent
    size = np.abs(values)
    within = size[inside].max() if len(size) == len(inside) else size.max()
    most = np.where(inside, within, size.max())
    return _sure(solver.lost * most)


def largest_mean(values: Floats, solver: EliminationSolver) -> Floats:
    """Return a bound on the mean of values that are not negative under the law of each class."""
    law = solver.law
    most = by_blocks(lambda high, error: high * (1.0 + EPSILON) + error, law.values.high, law.error)
    return solver.sums(most, Doubled(values)).most * MARGIN


def _mean_of_signed(values: Doubled, solver: EliminationSolver) -> Floats:
    """Return a bound on the absolute mean of any values under the law of each class."""
    mean, error = means_under_law(values, solver)
    return np.abs(mean) + error


def means_under_law(values: Doubled, solver: EliminationSolver) -> tuple[Floats, Floats]:
    """Return the mean of any values under the law of each class, and a bound on its error."""
    law = solver.law
    main, rest = solver.sums(law.values.high, values), solver.sums(law.values.rest, values)
    off = solver.sums(law.error, Doubled(by_blocks(np.abs, values.high))).most * MARGIN
    mean = main.value + rest.value
    return mean, EPSILON * np.abs(mean) + main.rounding + rest.rounding + off


def distance(values: Floats, doubled: Doubled) -> Floats:
    """Return a bound on how far values, (n,), are from others that have twice the digits."""

    def bound(high: Floats, rest: Floats) -> Floats:
        return np.abs(high + rest) * (1.0 + EPSILON) + EPSILON * np.abs(rest)

    off = Doubled(values).minus(doubled)
    found: Floats = by_blocks(bound, off.high, off.rest)
    return found


def relative(error: float, scale: float) -> float:
    """Return ``error / scale``; it is 0 for an error of 0, and infinite for an error that is not a number."""
    if error == 0.0:
        return 0.0
    return error / scale if np.isfinite(error) and scale > 0.0 else np.inf


def _sure(error: Floats) -> Floats:
    return np.asarray(by_blocks(lambda part: np.where(np.isnan(part), np.inf, part), error))
