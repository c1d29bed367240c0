"""Gain and bias with twice the digits, and a proved bound on the error of the gain.

`long_run` returns them for computations that multiply the gain by a large number: discounted values, and
values over many steps. With res the residual of a candidate (g, W), the gain is g plus the long-run average
of res, whatever W is; so a residual that is evaluated with twice the digits bounds the error of g.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gainbias.model.checks import EPSILON, frozen
from gainbias.model.doubled import Doubled, Expected, sum_of_parts
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.choice import first_that_meets
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.leaking import with_leaking_chain, write_leaking_residual
from gainbias.model.solve.solution import Budget, Solver, available_memory
from gainbias.notebook import InNotebooks
from gainbias.progress import Watch
from gainbias.types import Floats, Ints

ROUGH_TOLERANCE = 1e-6
"""Error bound that a solver must meet before its answer is refined."""

MOST_GAIN_REFINEMENTS = 8
"""Number of corrections of gain and bias after which the best result so far is taken."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SplitValues(InNotebooks):
    """Values of each state as a level, which may be huge, and a remainder, which has all of its digits."""

    level: float | Floats
    remainder: Floats
    level_error: float | Floats = field(repr=False)
    remainder_error: Floats = field(repr=False)
    method: str
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def values(self) -> Floats:
        """The sum of level and remainder, rounded, (n,)."""
        return np.asarray(self.level + self.remainder)


@dataclass(frozen=True)
class LongRun:
    """Gain and bias with twice the digits, and what is known about their errors.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards, doubt : (n,) arrays
        The rewards per step, and their uncertainty because rows sum to 1 only up to rounding.
    gain, level_error : (n,) arrays
        The gain per step from each state, rounded, and a bound on its error.
    gain_error : (n,) array
        Proved bound on the error of the gain before rounding, as used in `excess`.
    excess, excess_error : Doubled and (n,) array
        Rewards less gain, and a bound on its error.
    bias : Doubled
        Approximate bias, (n,).
    residual : (n,) array
        Bound on ``|excess - (bias - P bias)|``.
    solver : Solver
        The solver that found them.
    notes : tuple of str
        Remarks for the user.
    """

    mrp: MarkovRewardProcess
    rewards: Floats
    doubt: Floats
    gain: Floats
    level_error: Floats
    gain_error: Floats
    excess: Doubled
    excess_error: Floats
    bias: Doubled
    residual: Floats
    solver: Solver
    notes: tuple[str, ...]

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state, (n,)."""
        return self.solver.average(values)

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0."""
        return self.solver.solve(right)

    def per_class(self, values: Floats) -> float | Floats:
        """Return the one number that all states share; with several recurrent classes, all numbers."""
        return float(values[0]) if self.mrp.is_unichain else frozen(values)


def long_run(mrp: MarkovRewardProcess) -> LongRun:
    """Return gain and bias with twice the digits, refined until nothing changes.

    Examples
    --------
    >>> import gainbias as gb
    >>> facts = long_run(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]))
    >>> facts.gain.tolist(), bool(facts.gain_error.max() < 1e-29)
    ([0.5, 0.5], True)
    """
    n = mrp.num_states
    expected = mrp.expected or Expected(Doubled(mrp.rewards), np.zeros(n))
    given = expected.rewards
    # Subtracting the common level of all rewards costs no digit, and leaves more digits for the rest.
    common = np.full(n, np.median(given.high))
    rewards, rounding = _difference(given, Doubled(common))
    rounding = np.where(given.rest == 0.0, 0.0, rounding)
    with Watch() as watch:
        budget = Budget(0.9 * available_memory(), watch)
        solver, (answer,), tried = first_that_meets(mrp, [mrp.rewards], ROUGH_TOLERANCE, "auto", budget)
        gain, bias = Doubled(answer.gain[_representatives(mrp)] - common), Doubled(answer.bias)
        gain, bias, residual = _refined(mrp, rewards, rounding, gain, bias, solver, fixed=None)
        gain_error = _gain_error(mrp, residual, solver)
        transient = mrp.structure.transient
        if transient.size and not mrp.is_unichain:
            gain, gain_error = _transient_gain(mrp, gain, gain_error)
            gain, bias, residual = _refined(mrp, rewards, rounding, gain, bias, solver, fixed=transient)
            recurrent = np.concatenate(mrp.structure.recurrent)
            gain_error[recurrent] = _gain_error(mrp, residual, solver)[recurrent]
    # On a chain over many decades twice the digits may be less accurate than the method itself.
    own, own_rounding = _difference(Doubled(answer.gain), Doubled(common))
    own_error = answer.gain_error + own_rounding
    is_better = own_error < gain_error
    if is_better.any():
        moved = np.where(is_better, np.abs(own.minus(gain).high) * (1.0 + 4.0 * EPSILON), 0.0)
        gain = Doubled(np.where(is_better, own.high, gain.high), np.where(is_better, own.rest, gain.rest))
        gain_error, residual = np.where(is_better, own_error, gain_error), residual + moved
    excess, more_rounding = _difference(rewards, gain)
    whole, whole_rounding = _difference(gain, Doubled(-common))
    left_open = 1.1 * np.abs(solver.average(expected.doubt))
    return LongRun(
        mrp=mrp,
        rewards=given.high,
        doubt=expected.doubt,
        gain=whole.high,
        level_error=gain_error + np.abs(whole.rest) + whole_rounding + left_open,
        gain_error=gain_error,
        excess=excess,
        excess_error=rounding + more_rounding + gain_error,
        bias=bias,
        residual=residual,
        solver=solver,
        notes=(*tried, *solver.notes),
    )


def _representatives(mrp: MarkovRewardProcess) -> Ints:
    """Return for each state one whose gain is the same: the first of its recurrent class, (n,)."""
    if mrp.is_unichain:
        return np.full(mrp.num_states, mrp.structure.recurrent[0][0])
    first = np.arange(mrp.num_states)
    for members in mrp.structure.recurrent:
        first[members] = members[0]
    return first


def _difference(a: Doubled, b: Doubled) -> tuple[Doubled, Floats]:
    """Return a - b with twice the digits, and a bound on the rounding."""
    size = np.abs(a.high) + np.abs(b.high)
    return Doubled(*sum_of_parts(a.high, a.rest, -b.high, -b.rest)), 4 * EPSILON**2 * size


def _equation(mrp: MarkovRewardProcess, right: Doubled, x: Doubled) -> tuple[Floats, Floats]:
    """Return ``right - (x - P x)``, evaluated with twice the digits, and a bound on its rounding, (n,)."""
    res, floor = np.empty((2, mrp.num_states))
    rows = Sparse(mrp.csr.indptr, mrp.csr.indices, mrp.csr.data)
    everywhere = np.arange(mrp.num_states)
    write_leaking_residual(
        rows, everywhere, right.high, right.rest, 0.0, 0.0, 1.0, x.high, x.rest, res, floor
    )
    return res, floor


def _refined(
    mrp: MarkovRewardProcess,
    rewards: Doubled,
    rewards_error: Floats,
    gain: Doubled,
    bias: Doubled,
    solver: Solver,
    fixed: Ints | None,
) -> tuple[Doubled, Doubled, Floats]:
    """Return gain and bias, and a bound on the residual that they leave; the gain of `fixed` states stays."""
    same = _representatives(mrp)
    nothing = np.zeros(mrp.num_states)
    best = worst = np.inf
    answer = gain, bias, np.full(mrp.num_states, np.inf)
    for _ in range(MOST_GAIN_REFINEMENTS):
        excess, rounding = _difference(rewards, gain)
        rounding = rounding + rewards_error
        res, floor = _equation(mrp, excess, bias)
        last, worst = worst, float(np.max(np.abs(res) / (floor + rounding)))
        if worst < best:
            best, answer = worst, (gain, bias, np.abs(res) * (1.0 + EPSILON) + floor + rounding)
        if not 1.0 < worst <= 0.5 * last:
            break
        shift = solver.average(res)
        bias = Doubled(*sum_of_parts(bias.high, bias.rest, solver.solve(res - shift), nothing))
        shift = shift[same]
        if fixed is not None:
            shift[fixed] = 0.0
        gain = Doubled(*sum_of_parts(gain.high, gain.rest, shift, nothing))
    return answer


def _gain_error(mrp: MarkovRewardProcess, residual: Floats, solver: Solver) -> Floats:
    """Return a bound on the error of the gain of each class, at its states, (n,).

    It is the average of the residual over the stationary law. Whatever y is, that average is at most the
    largest ``residual - (y - P y)``; with the y that makes this constant, it is hardly more.
    """
    even = solver.solve(residual - solver.average(residual))
    left, floor = _equation(mrp, Doubled(residual), Doubled(even))
    error = np.zeros(mrp.num_states)
    for members in mrp.structure.recurrent:
        error[members] = np.fmin(np.max((left + floor)[members]), np.max(residual[members]))
    return error[_representatives(mrp)]


def _transient_gain(mrp: MarkovRewardProcess, gain: Doubled, error: Floats) -> tuple[Doubled, Floats]:
    """Return the gain of all states, where that of recurrent states is given, and a bound on its error."""
    inside = mrp.structure.transient
    outside = error.copy()
    outside[inside] = 0.0
    doubt = np.asarray(mrp.csr @ outside)[inside] * (1.0 + 1e-6)
    answer = with_leaking_chain(
        mrp.csr,
        inside,
        lambda chain: chain.solve_for(Doubled(np.zeros(len(inside))), gain, doubt),
        what="the gain",
    )
    outside[inside] = answer.error
    return answer.x, outside
