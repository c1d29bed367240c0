"""The measured error of an answer: refinement until nothing moves, and what is left.

Start reading in `solve_and_certify`; the arithmetic with twice the digits is at the end.

A small residual proves nothing: on a slow chain the error can be a million times larger. But the error of a
candidate (gain g, bias W) obeys the same equation as the answer itself. With

    res = R - g - (W - P W)          (computed as if with twice the digits)

the gain is off by the long-run average of ``res`` and the bias by the solution x of ``x - P x = res -
average(res)``. So one more solve measures the error, applying it removes it, and repeating until nothing
moves (iterative refinement with a doubled residual; Demmel et al. 2006) leaves an error of a few units in
the last place whenever the solver is any good at all. The size of the last correction is the estimate that
is reported.

For a method that iterates, "solved" must itself be doubted: it may have stopped before a slow mode moved.
It is therefore made to solve for a random right side too, which contains every mode, and the growth that it
shows there scales the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gainbias.kernels import kernel
from gainbias.model.checks import CsrArray
from gainbias.model.doubled import Doubled, Expected, add_exactly, multiply_exactly
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.solution import MethodError, Solver
from gainbias.types import Floats

EPS = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next double-precision number."""

MOST_BIAS_REFINEMENTS = 30
"""Number of refinements after which the error is taken as it is."""

NOISE_LEFT = 1e-4
"""Largest part of a random right side that may be left after it was solved for twice."""


@dataclass(frozen=True)
class Certified:
    """A refined answer and what is known about its error.

    Attributes
    ----------
    gain : (n,) array
        Long-run average reward from each state.
    bias : (n,) array
        Relative values with long-run average 0.
    residual : float
        ``max |bias + gain - P bias - R|`` over the larger of ``max |R|`` and the span of the bias.
    error_bound : float
        Estimated error of the gain relative to ``max |R|`` or of the bias relative to its span, whichever
        is larger.
    from_rewards : float
        The part of it that comes from averaging rewards of transitions over rows that sum to 1 up to rounding
        only.
    """

    gain: Floats
    bias: Floats
    residual: float
    error_bound: float
    from_rewards: float = 0.0


def solve_and_certify(transitions: CsrArray, rewards: Floats | Expected, solver: Solver) -> Certified:
    """Return gain and bias, refined until nothing moves, with the measured error that is left.

    Parameters
    ----------
    transitions : (n, n) csr_array
        The chain.
    rewards : (n,) array or Expected
        Expected one-step rewards.
    solver : Solver
        The chain, ready to be solved.
    """
    expected = (
        rewards if isinstance(rewards, Expected) else Expected(Doubled(rewards), np.zeros(len(rewards)))
    )
    doubled, doubt = expected
    if np.ptp(doubled.high) == np.ptp(doubled.rest) == 0.0:
        return Certified(doubled.high, np.zeros(len(doubt)), 0.0, 4 * EPS)
    answer = _refined(transitions, doubled, solver)
    if doubt.any():
        shift = solver.average(doubt)
        moved = float(np.abs(solver.solve(doubt - shift)).max())
        doubts = (
            _relative(float(np.abs(shift).max()), float(np.abs(doubled.high).max())),
            _relative(moved, float(np.ptp(answer.bias))),
        )
        answer = replace(answer, error_bound=answer.error_bound + max(doubts), from_rewards=max(doubts))
    return answer


def _refined(transitions: CsrArray, expected: Doubled, solver: Solver) -> Certified:
    rows = Sparse(transitions.indptr, transitions.indices, transitions.data)
    rewards = expected.high
    largest = float(np.abs(rewards).max())
    gain = Doubled(solver.average(rewards))
    bias = Doubled(solver.solve(rewards - gain.high))
    sensitivity = float(np.abs(solver.solve(np.ones(len(rewards)))).max()) if solver.tolerance == 0.0 else 0.0
    errors: list[float] = []
    while len(errors) < MOST_BIAS_REFINEMENTS:
        res = bellman_residual(rows, rewards, Doubled(gain.high, gain.rest - expected.rest), bias)
        shift = solver.average(res)
        correction = solver.solve(res - shift)
        # The average of the residual rounds too: of the residual, and of the bias, whose doubled digits end
        # somewhere. That moves the gain, and through it every state of the bias.
        rounding = 4 * EPS * np.abs(res) + 4 * EPS**2 * throughput(transitions, np.abs(bias.high))
        unseen = float(solver.average(rounding).max())
        span = float(np.ptp(bias.high))
        gain_error = float(np.abs(shift).max()) + unseen
        bias_error = float(np.abs(correction).max()) + unseen * sensitivity
        errors.append(max(_relative(gain_error, largest), _relative(bias_error, span)))
        # One small correction may be luck; and one that does not shrink may be the rounding of a huge bias.
        if max(errors[-2:]) <= EPS or (len(errors) > 2 and errors[-1] > 0.5 * errors[-3]):
            break
        gain, bias = gain.plus(shift), bias.plus(correction)
    residual = float(np.abs(res).max()) / max(largest, span)
    answer = Certified(gain.high, bias.high, residual, max(errors[-2:]))
    return _normalised(rows, answer, solver, largest)


def solve_and_refine_once(transitions: CsrArray, rewards: Floats, solver: Solver) -> Floats:
    """Return the bias for `rewards` after one refinement, without an estimate of its error."""
    rows = Sparse(transitions.indptr, transitions.indices, transitions.data)
    gain = solver.average(rewards)
    bias = solver.solve(rewards - gain)
    res = bellman_residual(rows, rewards, Doubled(gain), Doubled(bias))
    bias += solver.solve(res - solver.average(res))
    return bias - solver.average(bias)


def _normalised(rows: Sparse, answer: Certified, solver: Solver, largest: float) -> Certified:
    """Return an answer with a bias of average 0, its error increased by what the refinement did not see."""
    bias = answer.bias - solver.average(answer.bias)
    span = float(np.ptp(bias))
    # The average of the bias is a gain like any other: that of a process whose reward is the bias.
    average = solver.average(bias)
    second = solver.solve(bias - average)
    res = bellman_residual(rows, bias, Doubled(average), Doubled(second))
    off = _relative(float(np.abs(average + solver.average(res)).max()), span)
    if solver.tolerance > 0.0:
        growth = max(_growth_of_noise(rows, solver), _ratio(second, bias))
        off += _relative(growth * solver.tolerance * answer.residual * max(largest, span), span)
    # The margin covers the rounding of the bias, and that corrections themselves have an error of a few
    # percent.
    return Certified(answer.gain, bias, answer.residual, 1.05 * (answer.error_bound + off) + 4 * EPS)


def _growth_of_noise(rows: Sparse, solver: Solver) -> float:
    """Return the ratio of the solution for a random right side, which contains all modes, to that side.

    Raises a MethodError if a part stays in the residual: a mode that the solver does not see.
    """
    noise = np.random.default_rng(0).standard_normal(len(solver.stationary))
    average = Doubled(solver.average(noise))
    solution = Doubled(solver.solve(noise - average.high))
    res = bellman_residual(rows, noise, average, solution)
    solution = solution.plus(solver.solve(res - solver.average(res)))
    left = _ratio(bellman_residual(rows, noise, average, solution), noise)
    if not left <= NOISE_LEFT:
        raise MethodError(f"{left:.1e} of a random right side is left after it was solved for")
    return _ratio(solution.high, noise)


def throughput(transitions: CsrArray, values: Floats) -> Floats:
    """Return what moves through each state in a step, (n,): of its own value and of its successors'."""
    stay = transitions.diagonal()
    leaving = np.maximum(1.0 - stay, 0.0) * values
    return np.asarray(leaving + np.maximum(transitions @ values - stay * values, 0.0))


def _ratio(after: Floats, before: Floats) -> float:
    size = float(np.abs(before).max())
    return float(np.abs(after).max()) / size if size > 0.0 else 0.0


def _relative(error: float, scale: float) -> float:
    """Return ``error / scale``; it is 0 for an error of 0, and infinite for an error that is not a number."""
    if error == 0.0:
        return 0.0
    return error / scale if np.isfinite(error) and scale > 0.0 else np.inf


def bellman_residual(rows: Sparse, rewards: Floats, gain: Doubled, bias: Doubled) -> Floats:
    """Return ``R - g - (W - P W)``, rounded once from twice the digits; the diagonal of P is not read."""
    out = np.empty(len(rewards))
    write_residual(rows, rewards, gain.high, gain.rest, bias.high, bias.rest, out)
    return out


@kernel
def write_residual(
    rows: Sparse,
    rewards: Floats,
    gain: Floats,
    gain_low: Floats,
    bias: Floats,
    bias_low: Floats,
    out: Floats,
) -> None:
    """Write the residual of `bellman_residual` to `out`, (n,)."""
    for i in range(len(rewards)):
        high, low = add_exactly(rewards[i], -gain[i])
        low -= gain_low[i]
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            if j != i:
                step, step_low = add_exactly(bias[j], -bias[i])
                step_low += bias_low[j] - bias_low[i]
                term, term_low = multiply_exactly(rows.data[entry], step)
                high, lost = add_exactly(high, term)
                low += lost + (term_low + rows.data[entry] * step_low)
        out[i] = high + low
