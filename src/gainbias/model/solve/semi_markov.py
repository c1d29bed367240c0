"""Gain and bias per unit of time of a process whose steps have durations.

Start with `certified`; without durations it calls the certificate. With the mean durations tau, the rewards R
of steps and the reward rates rho, a step earns ``c = R + rho tau``. The long-run averages of c and
tau in the chain of steps have the gain g as their ratio, and the bias W obeys

    W = f + P W,        f = c - g tau .

So W is the bias of the rewards f in the chain of steps, up to a level that makes its mean over time 0. The
gain has twice the digits, and so has f: if W were computed from the biases of c and tau, all of its digits
might cancel, and if durations differ by many orders of magnitude an error of g would matter a lot.

Errors of g and f are propagated by the same equation. A mean over time is the mean of the quantity times
tau, divided by the mean of tau.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gainbias.kernels import constant_like
from gainbias.model.checks import EPSILON, CsrArray, entry_rows, row_sums
from gainbias.model.doubled import Doubled, Expected
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.bounds import (
    MARGIN,
    BoundedAnswer,
    harmonic,
    largest_bias,
    largest_extended,
    largest_mean,
    means_under_law,
)
from gainbias.model.solve.certificate import Certified, MeanDuration, solve_and_certify, stationary_errors
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver
from gainbias.model.solve.solution import Solver
from gainbias.model.structure import Structure
from gainbias.types import Floats, Ints

ROUNDINGS = 16.0
"""More units of rounding of a unit of rounding than sums and products with twice the digits are off by."""

SMALLEST_PRODUCT = 2.0**-1060
"""More than what is rounded off products that are too small for all of their digits."""

SLOPPY = 1.05
"""A solution by an iterative method may itself have an error of a few percent."""


class Excess(NamedTuple):
    """The reward of a step less the gain times its duration, from each state.

    Attributes
    ----------
    expected : Expected
        The rewards f, (n,), and their uncertainty because rows sum to 1 only up to rounding.
    slack : (n,) array
        Bound on the rounding of f.
    """

    expected: Expected
    slack: Floats


class Laws(NamedTuple):
    """The law of steps and the fractions of time in each recurrent class, (n,), with their errors.

    Without durations the two are the same. `total` is the sum of the errors of the fractions of time.
    """

    embedded: Floats
    embedded_error: Floats
    stationary: Floats
    stationary_error: Floats
    total: float


def certified(mrp: MarkovRewardProcess, rewards: Floats, solver: Solver) -> Certified:
    """Return gain and bias, per unit of time if steps have durations, with the measured remaining error.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : (n,) array
        Expected rewards of steps: those of the process, to which its reward rates are added, or any others.
    solver : Solver
        The chain of steps, ready to be solved.
    """
    if mrp.mean_durations is None:
        return solve_and_certify(mrp.csr, expected_of(mrp, rewards), solver)
    first = _first_states(mrp.structure)
    mean = MeanDuration(*_class_means(mrp.csr, mrp.mean_durations, solver))
    if not (expected_of(mrp, rewards).rewards.high.any() or reward_rates_of(mrp, rewards).any()):
        nothing = np.zeros(mrp.num_states)
        return Certified(nothing, nothing, nothing, nothing, 0.0, 0.0, mean_duration=mean)
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        # Twice the digits of the gain: what it was off by is found with as many digits of its own.
        start = excess(mrp, rewards, Doubled(np.zeros(mrp.num_states)))
        near = solver.average(start.expected.rewards.high)[first] / mean.value
        rough = excess(mrp, rewards, _everywhere(mrp, Doubled(near), solver)[0])
        shift, off = _class_means(mrp.csr, rough.expected, solver)
        gain = Doubled(near).plus(shift / mean.value)
        at_states, not_flat = _everywhere(mrp, gain, solver)
        left = excess(mrp, rewards, at_states)
        answer = _of_excess(mrp, left, off / mean.value, solver)
        off = np.abs(answer.gain[first]) + answer.gain_error[first] + _largest_means(left.slack, solver)
        gain_error = _extended(off / _shortest(mean) * MARGIN, solver) + not_flat
        open_gain = gain_error * mrp.mean_durations.rewards.high * MARGIN
        right = left.slack + open_gain + np.abs(answer.gain) + answer.gain_error
        bias_error = answer.bias_error + _largest_bias(right, solver)
        bias, bias_error = _centred(mrp, answer.bias, bias_error, mean, solver)
    known = BoundedAnswer(at_states.high, bias, gain_error + np.abs(at_states.rest) * MARGIN, bias_error)
    known = BoundedAnswer(*(np.where(np.isnan(part), np.inf, part) for part in known))
    return replace(
        answer,
        gain=known.gain,
        gain_error=known.gain_error,
        bias=known.bias,
        bias_error=known.bias_error,
        error_bound=known.error_bound(rewards_in_time(mrp, rewards)),
        from_rewards=0.0,
        mean_duration=mean,
    )


def expected_of(mrp: MarkovRewardProcess, rewards: Floats) -> Expected:
    """Return rewards as they are, or with twice the digits if they are means of other rewards."""
    own = mrp.expected if rewards is mrp.rewards else None
    return Expected(Doubled(rewards), constant_like(0.0, rewards)) if own is None else own


def reward_rates_of(mrp: MarkovRewardProcess, rewards: Floats) -> Floats:
    """Return the reward rates, (n,), that belong to rewards of steps: 0 unless they are the process's."""
    if rewards is mrp.rewards and mrp.reward_rates is not None:
        return mrp.reward_rates
    return np.zeros(mrp.num_states)


def earned_in_all(mrp: MarkovRewardProcess, rewards: Floats) -> Floats:
    """Return the mean reward of a step, (n,), including that of its reward rate."""
    if mrp.mean_durations is None:
        return rewards
    return np.asarray(rewards + reward_rates_of(mrp, rewards) * mrp.mean_durations.rewards.high)


def rewards_in_time(mrp: MarkovRewardProcess, rewards: Floats) -> Floats:
    """Return the reward of a step per unit of time, (n,), or per step if steps have no durations.

    Errors of a gain are relative to the largest of these.
    """
    if mrp.mean_durations is None:
        return rewards
    return np.asarray(reward_rates_of(mrp, rewards) + rewards / mrp.mean_durations.rewards.high)


def excess(mrp: MarkovRewardProcess, rewards: Floats, gain: Doubled) -> Excess:
    """Return the rewards of steps less the gain of their time, ``R + (rho - gain) tau``.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        A process with durations.
    gain : Doubled
        A gain for each state, (n,).
    """
    assert mrp.mean_durations is not None
    tau, open_time = mrp.mean_durations
    paid, rates = expected_of(mrp, rewards), reward_rates_of(mrp, rewards)
    slope = Doubled(rates).added_to(Doubled(-gain.high, -gain.rest))
    value = slope.times(tau).added_to(paid.rewards)
    doubt = paid.doubt + slope.high * open_time
    size = np.abs(paid.rewards.high) + (np.abs(rates) + np.abs(gain.high)) * tau.high
    if rewards is mrp.rewards and mrp.reward_entries is not None:
        earned = mrp.csr.copy()
        earned.data = mrp.csr.data * np.abs(mrp.reward_entries)
        size = size + row_sums(earned)
    longest = float(np.diff(mrp.csr.indptr).max())
    slack = (ROUNDINGS + longest) * EPSILON**2 * size + np.where(size > 0.0, SMALLEST_PRODUCT, 0.0)
    open_doubt = np.abs(paid.doubt) + np.abs(slope.high * open_time)
    return Excess(Expected(value, doubt), slack + 4.0 * EPSILON * open_doubt)


def laws(mrp: MarkovRewardProcess, rewards: Floats, answer: Certified, solver: Solver) -> Laws:
    """Return the law of steps and the fractions of time, with their errors.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : (n,) array
        Expected rewards of steps.
    answer : Certified
        The answer for them.
    solver : Solver
        The solver that found it.
    """
    law, transient = solver.stationary, mrp.structure.transient
    if mrp.mean_durations is None or answer.mean_duration is None:
        error, total = stationary_errors(mrp.csr, transient, solver, answer, rewards)
        return Laws(law, error, law, error, total)
    (tau, open_time), (mean, off) = mrp.mean_durations, answer.mean_duration
    in_steps = replace(answer, gain=answer.gain * tau.high)
    law_error, _ = stationary_errors(mrp.csr, transient, solver, in_steps, earned_in_all(mrp, rewards))
    part, part_error = np.zeros((2, mrp.num_states))
    shortest = _shortest(answer.mean_duration)
    with np.errstate(divide="ignore", invalid="ignore"):
        for c, states in enumerate(mrp.structure.recurrent):
            part[states] = tau.high[states] / mean[c]
            unsure = np.abs(open_time[states]) / tau.high[states] + off[c] / shortest[c] + 4.0 * EPSILON
            part_error[states] = part[states] * unsure * MARGIN
        in_time = law * part
        error = law_error * (part + part_error) + law * part_error + EPSILON * in_time
    if isinstance(solver, EliminationSolver):
        return Laws(law, law_error, in_time, error, float(error.sum()))
    # What one state has too much, others have too little; and the errors of steps are one for all of them.
    total = 2.0 * float(error.max())
    return Laws(law, law_error, in_time, np.where(law_error > 0.0, total, 0.0), total)


class Jumps(NamedTuple):
    """What makes the sums of rewards less gain random, besides the bias of successors.

    Attributes
    ----------
    entries : Doubled or None
        What the stored transitions bring more than the gain of their time, on average, (m,); None if it does
        not depend on the successor.
    entries_error : (m,) array or None
        Bound on the error of each of them, beyond its rounding.
    excess, excess_error : (n,) arrays
        What steps from each state bring more than the gain, on average.
    doubt : (n,) array
        Its uncertainty because rows sum to 1 only up to rounding.
    spread, spread_error : (n,) arrays
        The variance that durations add, given state and successor.
    """

    entries: Doubled | None
    entries_error: Floats | None
    excess: Floats
    excess_error: Floats
    doubt: Floats
    spread: Floats
    spread_error: Floats


def jumps(mrp: MarkovRewardProcess, rewards: Floats, answer: Certified) -> Jumps:
    """Return what the asymptotic variance of a process with durations is made of, besides the bias.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        A process with variances of durations.
    rewards : (n,) array
        Expected rewards of steps.
    answer : Certified
        Gain and bias for them.
    """
    assert mrp.mean_durations is not None
    assert mrp.mean_duration_variances is not None
    (value, doubt), slack = excess(mrp, rewards, Doubled(answer.gain))
    tau = mrp.mean_durations.rewards.high
    entries = mrp.doubled_entries if rewards is mrp.rewards else None
    entries_error = None
    slope = Doubled(reward_rates_of(mrp, rewards)).added_to(Doubled(-answer.gain))
    if mrp.duration_entries is not None:
        rows = entry_rows(mrp.csr)
        taken = slope.at(rows).times(Doubled(mrp.duration_entries))
        entries_error = answer.gain_error[rows] * mrp.duration_entries
        entries_error = entries_error + ROUNDINGS * EPSILON**2 * np.abs(taken.high)
        if entries is not None:
            entries_error += ROUNDINGS * EPSILON**2 * np.abs(entries.high)
        entries = taken if entries is None else taken.added_to(entries)
    (variances, open_variances), off = mrp.mean_duration_variances, answer.gain_error
    size = np.abs(slope.high)
    spread = size**2 * variances.high
    spread_error = variances.high * off * (2.0 * size + off) + size**2 * np.abs(open_variances)
    return Jumps(
        entries=entries,
        entries_error=entries_error,
        excess=value.high,
        excess_error=off * tau * MARGIN + slack + EPSILON * np.abs(value.high),
        doubt=np.abs(doubt),
        spread=spread,
        spread_error=spread_error * MARGIN + 8.0 * EPSILON * spread,
    )


def _of_excess(mrp: MarkovRewardProcess, left: Excess, gain_error: Floats, solver: Solver) -> Certified:
    """Return the gain and the bias of what steps bring more than the gain, in the chain of steps."""
    expected, slack = left
    assert mrp.mean_durations is not None
    unknown = slack + _extended(np.abs(gain_error), solver) * mrp.mean_durations.rewards.high
    size = np.abs(expected.rewards.high)
    if np.all(size <= unknown):
        # Every step earns just the gain, up to rounding: the rest of f is an error.
        largest = size * (1.0 + EPSILON) + np.abs(expected.doubt)
        off = _extended(_largest_means(largest, solver), solver)
        nothing = np.zeros(mrp.num_states)
        return Certified(nothing, nothing, off, _largest_bias(largest + off, solver), 0.0, 0.0)
    return solve_and_certify(mrp.csr, expected, solver)


def _centred(
    mrp: MarkovRewardProcess, bias: Floats, bias_error: Floats, mean: MeanDuration, solver: Solver
) -> tuple[Floats, Floats]:
    """Return a bias with a mean of 0 over time in each class, and a bound on its error, (n,)."""
    assert mrp.mean_durations is not None
    tau, open_time = mrp.mean_durations
    weighted = Expected(tau.times(Doubled(bias)), open_time * bias)
    total, off = _class_means(mrp.csr, weighted, solver)
    off = off + _largest_means(ROUNDINGS * EPSILON**2 * tau.high * np.abs(bias), solver)
    level = total / mean.value
    off = off + np.abs(level) * mean.error + _largest_means(tau.high * bias_error * MARGIN, solver)
    at_states, unsure = _everywhere(mrp, Doubled(level), solver)
    centred = bias - at_states.high
    error = bias_error + _extended(off / _shortest(mean) * MARGIN + 2.0 * EPSILON * np.abs(level), solver)
    error = error + unsure + np.abs(at_states.rest) + EPSILON * np.abs(centred)
    return centred, error * MARGIN


def _shortest(mean: MeanDuration) -> Floats:
    """Return a lower bound on the mean duration in each class, (classes,)."""
    return np.maximum(mean.value - mean.error, 0.0)


def _first_states(structure: Structure) -> Ints:
    return np.array([states[0] for states in structure.recurrent])


def _everywhere(mrp: MarkovRewardProcess, levels: Doubled, solver: Solver) -> tuple[Doubled, Floats]:
    """Return what levels of classes, (classes,), are on average where the chain ends, and its error, (n,)."""
    nothing = np.zeros(mrp.num_states)
    if len(levels.high) == 1:
        return Doubled(nothing + levels.high, nothing + levels.rest), nothing
    assert isinstance(solver, EliminationSolver)
    high, low = solver.extend(levels.high), np.zeros(mrp.num_states)
    for c, states in enumerate(mrp.structure.recurrent):
        high[states], low[states] = levels.high[c], levels.rest[c]
    rows = Sparse(mrp.csr.indptr, mrp.csr.indices, mrp.csr.data)
    return harmonic(rows, Doubled(high, low), solver)


def _class_means(csr: CsrArray, values: Expected, solver: Solver) -> tuple[Floats, Floats]:
    """Return the mean of values under the law of steps of each class, (classes,), and a bound on its error.

    Iterative methods are only used for one class.
    """
    if isinstance(solver, EliminationSolver):
        mean, error = means_under_law(values.rewards, solver)
        return mean, error + largest_mean(np.abs(values.doubt), solver)
    answer = solve_and_certify(csr, values, solver)
    return answer.gain[:1], answer.gain_error[:1]


def _largest_means(values: Floats, solver: Solver) -> Floats:
    """Return a bound on the mean of values that are not negative under the law of each class, (classes,)."""
    return (
        largest_mean(values, solver) if isinstance(solver, EliminationSolver) else values.max(keepdims=True)
    )


def _extended(levels: Floats, solver: Solver) -> Floats:
    """Return a bound on levels of classes, (classes,), on average where the chain ends, (n,)."""
    if isinstance(solver, EliminationSolver):
        return largest_extended(levels, solver)
    return np.full(len(solver.stationary), levels[0])


def _largest_bias(right: Floats, solver: Solver) -> Floats:
    """Return a bound on the bias of rewards that are at most `right`, (n,); an estimate if it is iterated."""
    if isinstance(solver, EliminationSolver):
        return largest_bias(right, solver)
    bias = solver.solve(right - solver.average(right))
    return np.full(len(right), SLOPPY * np.abs(bias).max())
