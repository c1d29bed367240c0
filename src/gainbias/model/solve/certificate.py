"""The measured error of an answer: refinement until nothing changes, and the error that remains.

Start reading in `solve_and_certify`. `stationary_errors` is about the law.

A small residual proves nothing: on a slow chain the error can be a million times larger. But the error of a
candidate (gain g, bias W) obeys the same equation as the answer itself. With

    res = R - g - (W - P W)          (computed as if with twice the digits)

the gain is off by the long-run average of ``res`` and the bias by the solution x of ``x - P x = res -
average(res)``. So one more solve measures the error, applying it removes it, and repeating until nothing
changes (iterative refinement with a doubled residual; Demmel et al. 2006) leaves an error of a few units in
the last place whenever the solver is any good at all.

For elimination, `gainbias.model.solve.bounds` has a bound on the remaining error. For other methods the
size of the last correction is reported as an estimate. But an iterative method may have stopped before a
slow mode moved. It must therefore also solve for a random right side, which contains every mode, and the
growth of that solution scales the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gainbias.kernels import by_blocks, constant, constant_like
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled, Expected
from gainbias.model.solve.bounds import (
    BoundedAnswer,
    GainAndBias,
    by_elimination,
    distance,
    relative,
    with_bounds,
)
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.residual import balance_residual, bellman_residual, bounded_residual, throughput
from gainbias.model.solve.solution import MethodError, Solver
from gainbias.model.solve.vectors import (
    brought_to,
    combined,
    inner,
    largest_of,
    length,
    rows_of,
    span_of,
    total_of,
    transposed,
)
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

MOST_BIAS_REFINEMENTS = 30
"""Number of refinements after which the error is taken as it is."""

LARGEST_REWARD = 850
"""Rewards above 2 to this power are scaled down: products with twice the digits must not overflow."""

NOISE_LEFT = 1e-4
"""Largest part of a random right side that may be left after two solves."""


class NoiseSolution(NamedTuple):
    """The solution for a random right side of normal numbers, (n,), and the error that it may have.

    `growth` is the largest entry of the solution over that of the side.
    """

    solution: Floats
    growth: float
    error: float


class MeanDuration(NamedTuple):
    """The mean duration of a step in each recurrent class and a bound on its absolute error, (classes,)."""

    value: Floats
    error: Floats


@dataclass(frozen=True)
class Certified:
    """A refined answer and what is known about its error.

    Attributes
    ----------
    gain : (n,) array
        Long-run average reward from each state.
    bias : (n,) array
        Relative values with long-run average 0.
    gain_error, bias_error : (n,) array
        Absolute error of each of them: a bound for elimination (see `gainbias.model.solve.bounds`) and for
        the gain of any method, else an estimate, the same for all states.
    residual : float
        ``max |bias + gain - P bias - R|`` over the larger of ``max |R|`` and the span of the bias.
    error_bound : float
        Error of the gain relative to ``max |R|`` or of the bias relative to its span, whichever is larger.
    noise : NoiseSolution or None
        For an iterative method, its solution for a random right side.
    from_rewards : float
        The part of `error_bound` that comes from averaging rewards of transitions over rows that sum to 1
        only up to rounding.
    mean_duration : MeanDuration or None
        For a process with durations; its gain is per unit of time.
    """

    gain: Floats
    bias: Floats
    gain_error: Floats
    bias_error: Floats
    residual: float
    error_bound: float
    noise: NoiseSolution | None = None
    from_rewards: float = 0.0
    mean_duration: MeanDuration | None = None


@dataclass(frozen=True)
class _Refined:
    """The end of refinement: the answer, and the answer with one more correction."""

    gain: Doubled
    bias: Doubled
    corrected: GainAndBias
    residual: float
    error_bound: float


def solve_and_certify(transitions: CsrArray, rewards: Floats | Expected, solver: Solver) -> Certified:
    """Return gain and bias, refined until nothing changes, with the measured remaining error.

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
    power = max(0, int(np.frexp(largest_of(doubled.high))[1]) - LARGEST_REWARD)
    if power > 0 and all(_can_be_smaller(part, power) for part in (*doubled, doubt)):
        high, rest, smaller_doubt = (np.ldexp(part, -power) for part in (doubled.high, doubled.rest, doubt))
        smaller = Expected(Doubled(high, rest), smaller_doubt)
        return _larger(solve_and_certify(transitions, smaller, solver), power)
    rows = rows_of(transitions)
    if span_of(doubled.high) == span_of(doubled.rest) == 0.0:
        nothing = constant_like(0.0, doubt)
        answer = Certified(doubled.high, nothing, np.abs(doubled.rest), nothing, 0.0, 4 * EPSILON)
    else:
        refined = _refined(transitions, doubled, solver)
        if isinstance(solver, EliminationSolver):
            answer = _bounded(rows, doubled, refined, solver)
        else:
            answer = _estimated(rows, doubled, refined, solver)
    return _with_doubt(rows, expected, answer, solver) if doubt.any() else answer


def _can_be_smaller(values: Floats | None, power: int) -> bool:
    """Return whether no digit is lost when values are divided by 2 to this power."""
    return values is None or largest_of(np.ldexp(np.ldexp(values, -power), power) - values) == 0.0


def _larger(answer: Certified, power: int) -> Certified:
    """Return the answer for rewards 2 to this power as large; a bias that overflows is not known."""
    gain, bias, gain_error, bias_error = (
        np.ldexp(part, power) for part in (answer.gain, answer.bias, answer.gain_error, answer.bias_error)
    )
    known = np.isfinite(bias)
    return replace(
        answer,
        gain=gain,
        bias=bias,
        gain_error=gain_error,
        bias_error=np.where(known, bias_error, np.inf),
        error_bound=answer.error_bound if known.all() else np.inf,
    )


def _with_doubt(rows: Sparse, expected: Expected, answer: Certified, solver: Solver) -> Certified:
    """Return an answer whose errors include the uncertainty of the rewards."""
    nothing = constant_like(0.0, expected.doubt)
    if isinstance(solver, EliminationSolver):
        more = by_elimination(rows, Doubled(expected.doubt), solver)
    else:
        gain = solver.average(expected.doubt)
        bias = solver.solve(expected.doubt - gain)
        left = bounded_residual(rows, expected.doubt, Doubled(gain), Doubled(bias)).most
        largest = constant_like(largest_of(bias), bias)
        # The solution itself may have an error of a few percent.
        more = BoundedAnswer(gain, largest, constant_like(left.max(), bias), 0.05 * largest)
    alone = BoundedAnswer(answer.gain, answer.bias, nothing, nothing).plus(more)
    both = BoundedAnswer(answer.gain, answer.bias, answer.gain_error, answer.bias_error).plus(more)
    rewards = expected.rewards.high
    constant = not answer.bias.any()
    return replace(
        answer,
        gain_error=both.gain_error,
        bias_error=both.bias_error,
        error_bound=answer.error_bound if constant else answer.error_bound + alone.error_bound(rewards),
        from_rewards=alone.error_bound(rewards),
    )


def _refined(transitions: CsrArray, expected: Doubled, solver: Solver) -> _Refined:
    rows = rows_of(transitions)
    rewards = expected.high
    most = largest_of(rewards)
    gain = Doubled(solver.average(rewards))
    bias = Doubled(solver.solve(combined(rewards, -1.0, gain.high)))
    sensitivity = largest_of(solver.solve(constant_like(1.0, rewards))) if solver.tolerance == 0.0 else 0.0
    errors: list[float] = []
    while len(errors) < MOST_BIAS_REFINEMENTS:
        res = bellman_residual(
            rows, rewards, Doubled(gain.high, by_blocks(np.subtract, gain.rest, expected.rest)), bias
        )
        shift = solver.average(res)
        correction = solver.solve(combined(res, -1.0, shift))
        # The average of the residual rounds too: of the residual, and of the bias, whose doubled digits end
        # somewhere. That moves the gain, and through it every state of the bias.
        through = throughput(transitions, by_blocks(np.abs, bias.high))
        rounding = by_blocks(
            lambda res, through: 4 * EPSILON * np.abs(res) + 4 * EPSILON**2 * through, res, through
        )
        unseen = largest_of(solver.average(rounding))
        span = span_of(bias.high)
        gain_error = largest_of(shift) + unseen
        bias_error = largest_of(correction) + unseen * sensitivity
        errors.append(max(relative(gain_error, most), relative(bias_error, span)))
        before = gain, bias
        gain, bias = gain.plus(shift), bias.plus(correction)
        # One small correction may be luck; one that does not shrink may be the rounding of a huge bias.
        if max(errors[-2:]) <= EPSILON or (len(errors) > 2 and errors[-1] > 0.5 * errors[-3]):
            break
    else:
        before = gain, bias
    residual = relative(largest_of(res), max(most, span))
    return _Refined(*before, GainAndBias(gain, bias), residual, max(errors[-2:]))


def stationary_errors(
    transitions: CsrArray, transient: Ints, solver: Solver, answer: Certified, rewards: Floats
) -> tuple[Floats, float]:
    """Return the absolute error of each stationary probability, (n,), and of all together.

    They are bounds for elimination. A law by an iterative method is off by e = (mu P - mu) H with the
    deviation matrix H. The solution for a random right side s is H s, so that (mu P - mu) (H s) = e s is
    known, which is about as large as the norm of e. The same holds for the bias of the rewards, a second
    side that costs nothing. One such number may be small by chance, so the larger one counts, and 100
    times that is taken. The sum of absolute errors is at most sqrt(n) times the norm.

    Parameters
    ----------
    transitions : (n, n) csr_array
        The chain.
    transient : int array
        Its transient states, whose probability is 0 without an error; that of others may underflow to 0,
        and then it has an error.
    solver : Solver
        The chain, solved.
    answer : Certified
        Gain and bias. Its noise is measured if it is None.
    rewards : (n,) array
        The expected one-step rewards of the answer.
    """
    if isinstance(solver, EliminationSolver):
        error = solver.law.given_error
        return error, float(error.sum())
    rows = rows_of(transitions)
    try:
        noise = answer.noise or _solved_noise(rows, solver)
    except (MethodError, OutOfTimeError):
        return _alike(np.inf, transient, len(solver.stationary)), np.inf
    moved = balance_residual(rows, rows_of(transposed(transitions)), Doubled(solver.stationary))
    seen = abs(inner(moved.value, noise.solution)) + inner(moved.rounding, by_blocks(np.abs, noise.solution))
    apart = combined(rewards, -1.0, answer.gain)
    largest = largest_of(apart)  # squares must not leave the range of numbers
    spread = largest * length(apart / largest) / math.sqrt(len(apart)) if largest > 0.0 else 0.0
    seen = max(seen, relative(abs(inner(moved.value, answer.bias)), spread) if spread > 0.0 else 0.0)
    unseen = float(moved.most.sum()) * noise.error
    total = float(np.sqrt(len(moved.value))) * (100.0 * seen + unseen) + float(moved.most.sum())
    # Probabilities are rounded, which need not show in the residual.
    total += abs(total_of(solver.stationary) - 1.0) + EPSILON
    return _alike(total, transient, len(solver.stationary)), total


def _alike(error: float, transient: Ints, num_states: int) -> Floats:
    """Return one error for all recurrent states, (n,)."""
    errors = constant(error, num_states)
    errors[transient] = 0.0
    return errors


def solve_and_refine_once(transitions: CsrArray, rewards: Floats, solver: Solver) -> Floats:
    """Return the bias for `rewards` after one refinement, without an estimate of its error."""
    rows = rows_of(transitions)
    gain = solver.average(rewards)
    bias = solver.solve(rewards - gain)
    res = bellman_residual(rows, rewards, Doubled(gain), Doubled(bias))
    bias += solver.solve(res - solver.average(res))
    return bias - solver.average(bias)


def _bounded(rows: Sparse, rewards: Doubled, refined: _Refined, solver: EliminationSolver) -> Certified:
    """Return the answer of elimination with a bias of average 0 and bounds on all errors."""
    level = Doubled(solver.average(refined.bias.high))
    found = GainAndBias(refined.gain, Doubled(combined(refined.bias.high, -1.0, level.high)))
    near = GainAndBias(refined.corrected.gain, refined.corrected.bias.minus(level))
    answer = with_bounds(rows, rewards, found, near, solver)
    return Certified(*answer, refined.residual, answer.error_bound(rewards.high))


def _estimated(rows: Sparse, rewards: Doubled, refined: _Refined, solver: Solver) -> Certified:
    """Return an answer with a bias of average 0, its error increased by what the refinement missed."""
    bias = combined(refined.bias.high, -1.0, solver.average(refined.bias.high))
    span, largest = span_of(bias), largest_of(rewards.high)
    # The average of the bias is a gain like any other: that of a process whose reward is the bias.
    average = solver.average(bias)
    second = solver.solve(combined(bias, -1.0, average))
    res = bellman_residual(rows, bias, Doubled(average), Doubled(second))
    off = relative(largest_of(combined(average, 1.0, solver.average(res))), span)
    noise = None
    if solver.tolerance > 0.0:
        noise = _solved_noise(rows, solver)
        growth = max(noise.growth, _ratio(second, bias))
        off += relative(growth * solver.tolerance * refined.residual * max(largest, span), span)
    # The margin covers the rounding of the bias, and that corrections themselves have an error of a few
    # percent.
    error_bound = 1.05 * (refined.error_bound + off) + 4 * EPSILON
    # Whatever the stationary law is, the gain is off by a mean of this residual.
    gain, corrected = refined.corrected
    left = bounded_residual(rows, rewards.high, gain.minus(Doubled(rewards.rest)), corrected)
    off_gain = distance(refined.gain.high, gain) + float(left.most.max())
    error_bound = max(error_bound, relative(float(off_gain.max()), largest))
    everywhere = constant_like(error_bound * span, bias)
    return Certified(refined.gain.high, bias, off_gain, everywhere, refined.residual, error_bound, noise)


def _solved_noise(rows: Sparse, solver: Solver) -> NoiseSolution:
    """Return the solution for a random right side, which contains all modes.

    Raises a MethodError if a part stays in the residual: a mode that the solver does not see.
    """
    law = solver.stationary
    noise = brought_to(law, np.random.default_rng(0).standard_normal(len(law)))
    average = Doubled(solver.average(noise))
    solution = Doubled(solver.solve(combined(noise, -1.0, average.high)))
    res = bellman_residual(rows, noise, average, solution)
    solution = solution.plus(solver.solve(combined(res, -1.0, solver.average(res))))
    left = _ratio(bellman_residual(rows, noise, average, solution), noise)
    if not left <= NOISE_LEFT:
        raise MethodError(f"{left:.1e} of a random right side is left after a solve for it")
    growth = _ratio(solution.high, noise)
    return NoiseSolution(solution.high, growth, (left + EPSILON) * growth * largest_of(solution.high))


def _ratio(after: Floats, before: Floats) -> float:
    size = largest_of(before)
    return largest_of(after) / size if size > 0.0 else 0.0
