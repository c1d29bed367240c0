"""Processes with several recurrent classes: first each class by itself, then the states that lead to them.

Start with `solve_in_parts`. A recurrent class is solved as a separate process. Small classes are eliminated
together, so that ten thousand of them cost only as much as their states. From a transient state the gain g
is the mean gain of the class where the chain ends, and the bias W follows from there. With T
for the transient states and C for all others,

    (I - P_TT) g_T = P_TC g_C,        (I - P_TT) W_T = R_T - g_T + P_TC W_C,

two equations of a chain that leaks, which `gainbias.model.solve.leaking` solves with bounds. (With
durations, g_T times these is subtracted from R_T.) An error of g_C or W_C is carried through the same
equations: by elimination state by state, else the largest counts for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.bounds import MARGIN, BoundedAnswer, relative
from gainbias.model.solve.certificate import Certified
from gainbias.model.solve.choice import (
    DENSE_SOLVE_STATES,
    ELIMINATIONS,
    LARGEST_GAIN_ERROR,
    first_that_meets,
)
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.leaking import LeakingChain, with_leaking_chain
from gainbias.model.solve.residual import bellman_residual
from gainbias.model.solve.semi_markov import Laws, earned_in_all, excess, expected_of, laws, rewards_in_time
from gainbias.model.solve.solution import Budget, ConvergenceError, MethodError
from gainbias.model.solve.variance import Variance, asymptotic_variance, knows_no_variance
from gainbias.model.structure import Structure
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

DIRECT_METHODS = ("auto", *ELIMINATIONS)
"""The methods under which small classes may be eliminated together."""

MOST_TOGETHER = 100_000
"""Small classes are eliminated together until they have this many states, which limits the memory."""

MOST_PARTS_IN_NOTES = 10
"""The notes say how at most this many classes were solved."""

NOT_MUCH_WORSE = 4.0
"""No better method is tried if transient states are known this well, compared with the classes."""


@dataclass(frozen=True)
class InParts:
    """The answer for several reward vectors and any number of recurrent classes.

    Attributes
    ----------
    laws : Laws
        The law of steps and the fractions of time in each class; 0 for transient states.
    answers : list of Certified
        Gain and bias for each reward vector.
    variances : list of Variance or None
        The asymptotic variance of each class for each reward vector, unless durations have no variances.
    method : str
        The methods that solved the classes.
    notes : tuple of str
        Remarks for the user.
    """

    laws: Laws
    answers: list[Certified]
    variances: list[Variance | None]
    method: str
    notes: tuple[str, ...]


def solve_in_parts(
    mrp: MarkovRewardProcess, rewards: list[Floats], tol: float, method: str, budget: Budget
) -> InParts:
    """Return the answer for a process with any number of recurrent classes.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : list of (n,) arrays
        Expected rewards per step, those of the process first.
    tol : float
        Error bound at which no better method is tried, in each class.
    method : str
        As in `gainbias.solve`, for each class.
    budget : Budget
        Limits on memory and time.

    Raises
    ------
    ConvergenceError
        If the gain of some state is not known.
    """
    is_small = mrp.num_states <= DENSE_SOLVE_STATES and method in DIRECT_METHODS
    if mrp.is_unichain or is_small:
        return _together(mrp, rewards, tol, method, budget)
    found = _on_classes(mrp, rewards, tol, method, budget)
    if mrp.structure.transient.size == 0:
        return replace(found, answers=_measured(mrp, rewards, found.answers))
    try:
        return _on_transient_states(mrp, rewards, tol, found, budget)
    except OutOfTimeError as reason:
        raise ConvergenceError(
            f"the recurrent classes are solved, the transient states are not: {reason}. "
            "What to do: raise time_limit."
        ) from reason


def _together(
    mrp: MarkovRewardProcess, rewards: list[Floats], tol: float, method: str, budget: Budget
) -> InParts:
    """Return the answer of one method for all states at once."""
    solver, answers, tried = first_that_meets(mrp, rewards, tol, method, budget, insist=False)
    variances = [
        None if knows_no_variance(mrp) else asymptotic_variance(mrp, vector, answer, solver)
        for vector, answer in zip(rewards, answers, strict=True)
    ]
    found = laws(mrp, rewards[0], answers[0], solver)
    notes = (*tried, *solver.notes)
    return InParts(found, answers, variances, solver.method, notes)


def _on_classes(
    mrp: MarkovRewardProcess, rewards: list[Floats], tol: float, method: str, budget: Budget
) -> InParts:
    """Return the answer with a gain and a bias of 0 on transient states."""
    n, structure = mrp.num_states, mrp.structure
    of_states = np.zeros((4, n))
    numbers = np.zeros((len(rewards), 4, n))
    of_classes = np.zeros((len(rewards), 2, len(structure.recurrent)))
    methods: dict[str, None] = {}
    notes: list[str] = []
    for classes, chosen in _parts(structure, method):
        states = np.sort(np.concatenate([structure.recurrent[c] for c in classes]))
        part = mrp.restricted_to(states)
        own = [part.rewards, *(vector[states] for vector in rewards[1:])]
        words = _in_words(mrp, classes, states)
        try:
            found = _together(part, own, tol, chosen, budget)
        except ConvergenceError as reason:
            raise ConvergenceError(f"{words}: {reason}") from reason
        of_states[:, states] = found.laws[:4]
        for k, (answer, variance) in enumerate(zip(found.answers, found.variances, strict=True)):
            numbers[k][:, states] = answer.gain, answer.bias, answer.gain_error, answer.bias_error
            if variance is not None:
                of_classes[k][:, classes] = variance
        methods[found.method] = None
        notes.append(f"{words}: {'; '.join((found.method, *found.notes))}")
    if len(notes) > MOST_PARTS_IN_NOTES:
        notes[MOST_PARTS_IN_NOTES:] = [f"and {len(notes) - MOST_PARTS_IN_NOTES:,} more classes"]
    answers = [Certified(gain, bias, off, off_bias, 0.0, 0.0) for gain, bias, off, off_bias in numbers]
    variances = [None if knows_no_variance(mrp) else Variance(value, error) for value, error in of_classes]
    law, law_error, in_time, in_time_error = of_states
    in_all = Laws(law, law_error, in_time, in_time_error, float(in_time_error.sum()))
    return InParts(in_all, answers, variances, ", ".join(methods), tuple(notes))


def _parts(structure: Structure, method: str) -> Iterator[tuple[Ints, str]]:
    """Yield numbers of classes that are solved together, and the method for them."""
    sizes = np.array([len(states) for states in structure.recurrent])
    is_small = sizes <= (DENSE_SOLVE_STATES if method in DIRECT_METHODS else 1)
    small = np.flatnonzero(is_small)
    group = (np.cumsum(sizes[small]) - 1) // MOST_TOGETHER
    for classes in np.split(small, np.flatnonzero(np.diff(group)) + 1):
        if classes.size:
            yield classes, "auto"
    for c in np.flatnonzero(~is_small):
        yield np.array([c]), method


def _in_words(mrp: MarkovRewardProcess, classes: Ints, states: Ints) -> str:
    label = states[0] if mrp.labels is None else mrp.labels[states[0]]
    if len(classes) == 1:
        return f"recurrent class of state {label}, {len(states):,} states"
    return f"{len(classes):,} small recurrent classes, {len(states):,} states"


def _on_transient_states(
    mrp: MarkovRewardProcess, rewards: list[Floats], tol: float, found: InParts, budget: Budget
) -> InParts:
    """Return the answer for all states, from that for the recurrent classes."""
    transient = mrp.structure.transient
    leaving = mrp.csr[transient]
    enough = [
        max(tol, NOT_MUCH_WORSE * answer.error_bound) for answer in _measured(mrp, rewards, found.answers)
    ]
    reached: list[InParts] = []

    def work(chain: LeakingChain) -> InParts:
        answers = [
            _extended(mrp, chain, leaving, vector, answer)
            for vector, answer in zip(rewards, found.answers, strict=True)
        ]
        answers = _measured(mrp, rewards, answers)
        note = f"{len(transient):,} transient states: {'; '.join((chain.method, *chain.notes))}"
        result = replace(found, answers=answers, notes=(*found.notes, note))
        for vector, answer in zip(rewards, answers, strict=True):
            largest = float(np.abs(rewards_in_time(mrp, vector)).max())
            of_gain = relative(float(answer.gain_error.max()), largest)
            if not of_gain <= LARGEST_GAIN_ERROR:
                raise MethodError(f"the gain may be off by {of_gain:.1e} of the largest reward")
        worst = max(answer.error_bound for answer in answers)
        if any(answer.error_bound > most for answer, most in zip(answers, enough, strict=True)):
            reached.append(result)
            raise MethodError(f"reached an error bound of {worst:.1e}")
        return result

    try:
        return with_leaking_chain(
            mrp.csr, transient, work, what="the gain and the bias of transient states", budget=budget
        )
    except ConvergenceError:
        if not reached:
            raise
        return min(reached, key=lambda one: max(answer.error_bound for answer in one.answers))


def _extended(
    mrp: MarkovRewardProcess, chain: LeakingChain, leaving: CsrArray, rewards: Floats, answer: Certified
) -> Certified:
    """Extend an answer that is known on the recurrent classes to the transient states."""
    inside = chain.states
    gain, gain_error = _solved(chain, leaving, Doubled(np.zeros(len(inside))), answer.gain, answer.gain_error)
    if mrp.mean_durations is None:
        expected = expected_of(mrp, rewards)
        own = Doubled(expected.rewards.high[inside], expected.rewards.rest[inside])
        size = np.abs(own.high) + np.abs(gain.high)
        doubt = gain_error + np.abs(expected.doubt[inside]) + 4.0 * EPSILON**2 * size
        right = own.minus(gain)
    else:
        high, low = np.zeros((2, mrp.num_states))
        high[inside], low[inside] = gain.high, gain.rest
        expected, slack = excess(mrp, rewards, Doubled(high, low))
        taken = mrp.mean_durations.rewards.high[inside] * MARGIN
        doubt = gain_error * taken + np.abs(expected.doubt[inside]) + slack[inside]
        right = expected.rewards.at(inside)
    try:
        bias, bias_error = _solved(chain, leaving, right, answer.bias, answer.bias_error, doubt)
    except MethodError:
        if not chain.is_direct:
            raise
        # The gain is known, and elimination may well have the bias right, but that cannot be checked.
        bias = Doubled(chain.solve(right.high + np.asarray(leaving @ answer.bias)))
        bias_error = np.full(len(inside), np.inf)
    numbers = answer.gain, answer.bias, answer.gain_error, answer.bias_error
    all_gain, all_bias, all_gain_error, all_bias_error = (one.copy() for one in numbers)
    all_gain[inside], all_bias[inside] = gain.high, bias.high
    all_gain_error[inside] = (gain_error + np.abs(gain.rest)) * MARGIN
    all_bias_error[inside] = (bias_error + np.abs(bias.rest)) * MARGIN
    return replace(answer, gain=all_gain, bias=all_bias, gain_error=all_gain_error, bias_error=all_bias_error)


def _solved(
    chain: LeakingChain,
    leaving: CsrArray,
    right: Doubled,
    outside: Floats,
    error: Floats,
    doubt: Floats | float = 0.0,
) -> tuple[Doubled, Floats]:
    """Return the solution on transient states and a bound on its error, from values outside and their error.

    Parameters
    ----------
    leaving : (m, n) csr_array
        The transitions from transient states.
    right : Doubled
        Right side, (m,), whose error is at most `doubt`.
    outside, error : (n,) array
        Values on the recurrent classes and a bound on their error; 0 on transient states.
    """
    is_known = bool(np.isfinite(error).all() and np.isfinite(outside).all())
    if not is_known:
        outside, error = np.nan_to_num(outside, posinf=0.0, neginf=0.0), np.zeros(len(error))
    inside = chain.states
    levels = np.delete(outside, inside)
    is_constant = np.ptp(levels) == 0.0 and not (np.any(doubt) or right.high.any() or right.rest.any())
    if is_constant and is_known:
        return Doubled(np.full(len(inside), levels[0])), np.full(len(inside), error.max())
    entering: Floats | float = 0.0
    # Where nothing is known state by state: a constant error outside is the same constant inside.
    largest = 0.0 if chain.is_direct else float(error.max())
    if chain.is_direct:
        entering = np.asarray(leaving @ error) * MARGIN
    x, off = chain.solve_for(right, Doubled(outside), doubt + entering)
    off = off + largest if is_known else np.full(len(inside), np.inf)
    return Doubled(x.high[inside], x.rest[inside]), off


def _measured(mrp: MarkovRewardProcess, rewards: list[Floats], answers: list[Certified]) -> list[Certified]:
    """Return answers with their residual and error bound, relative to rewards and values of all states."""
    rows = Sparse(mrp.csr.indptr, mrp.csr.indices, mrp.csr.data)
    measured = []
    for vector, answer in zip(rewards, answers, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            earned, gain = earned_in_all(mrp, vector), answer.gain
            if mrp.mean_durations is not None:
                gain = gain * mrp.mean_durations.rewards.high
            left = bellman_residual(rows, earned, Doubled(gain), Doubled(answer.bias))
            scale = max(float(np.abs(earned).max()), float(np.ptp(answer.bias)))
            residual = relative(float(np.abs(left).max()), scale)
            known = BoundedAnswer(answer.gain, answer.bias, answer.gain_error, answer.bias_error)
            error_bound = known.error_bound(rewards_in_time(mrp, vector))
            measured.append(replace(answer, residual=residual, error_bound=error_bound))
    return measured
