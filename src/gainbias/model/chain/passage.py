"""How long it takes to reach some states, and how likely it is.

`hitting_times` and `hitting_probabilities` first determine from the structure alone which states reach the
targets for certain, never, or perhaps. The rest are the equations of a chain that leaks into the targets.

The variance involves no difference of large numbers: with h the mean, a step from s to s' changes the
expected remaining time by h(s') - h(s) + 1, of mean zero, and the variance adds up the mean squares of these
changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse import csgraph

from gainbias.kernels import kernel
from gainbias.model.checks import EPSILON, CsrArray, entry_rows, frozen
from gainbias.model.doubled import Doubled, add_exactly, multiply_exactly, sum_of_parts
from gainbias.model.process import MarkovRewardProcess, check_process
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.leaking import (
    SMALLEST_STEP,
    BoundedSolution,
    LeakingChain,
    check_useful,
    with_leaking_chain,
)
from gainbias.model.solve.solution import MethodError
from gainbias.notebook import InNotebooks
from gainbias.types import Bools, Floats, Ints, is_integer


@dataclass(frozen=True, eq=False)
class HittingTimes(InNotebooks):
    """Mean and variance of the time until some states are reached, from each state.

    Attributes
    ----------
    targets : bool ndarray, shape (n,)
        The states to be reached.
    mean : ndarray, shape (n,)
        Expected number of steps, or time for a process with durations or made by `from_rates`: 0 on the
        targets, and infinite where they are not reached for certain.
    variance : ndarray, shape (n,)
        Variance of it, infinite where the mean is. If it is smaller than its error it may be 0. nan, with an
        infinite error and a note, if the process has durations without their variances.
    mean_error, variance_error : ndarray, shape (n,)
        Proved bounds on the absolute errors; 0 on the targets and where the mean is infinite.
    method : str
        Method that gave the answer, "structure" if nothing had to be solved.
    notes : tuple of str
        The methods that were tried before, and remarks about how this one worked.

    Examples
    --------
    >>> import gainbias as gb
    >>> coin = gb.MarkovRewardProcess([[0.5, 0.5], [0.0, 1.0]], [0.0, 0.0])
    >>> times = gb.hitting_times(coin, targets=1)
    >>> times.mean.tolist(), times.variance.tolist()
    ([2.0, 0.0], [2.0, 0.0])
    """

    targets: Bools = field(repr=False)
    mean: Floats
    variance: Floats
    mean_error: Floats = field(repr=False)
    variance_error: Floats = field(repr=False)
    method: str
    notes: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class HittingProbabilities(InNotebooks):
    """Probability that some states are ever reached, from each state.

    Attributes
    ----------
    targets : bool ndarray, shape (n,)
        The states to be reached.
    probability : ndarray, shape (n,)
        Exactly 1 or 0 where the structure of the chain decides it.
    error : ndarray, shape (n,)
        Proved bound on the absolute error, 0 where the structure decides.
    method, notes
        As in `HittingTimes`.

    Examples
    --------
    >>> import gainbias as gb
    >>> gambler = [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1]]
    >>> ruin = gb.hitting_probabilities(gb.MarkovRewardProcess(gambler, [0.0] * 4), targets=0)
    >>> ruin.probability.round(12).tolist(), bool(ruin.error.max() < 1e-15)
    ([1.0, 0.666666666667, 0.333333333333, 0.0], True)
    """

    targets: Bools = field(repr=False)
    probability: Floats
    error: Floats = field(repr=False)
    method: str
    notes: tuple[str, ...] = field(default=(), repr=False)


def hitting_times(mrp: MarkovRewardProcess, targets: Any) -> HittingTimes:
    """Return mean and variance of the time until a process reaches one of some states, from each state.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process; its rewards do not matter, and it may have several recurrent classes.
    targets : int, label, sequence of them, or bool ndarray of shape (n,)
        The states to be reached. If the process has labels, a state is named by its label; an integer is the
        number of a state unless labels are integers themselves.

    Returns
    -------
    HittingTimes
        In steps, or in units of time for a process with durations or made by `from_rates`.

    Raises
    ------
    ValueError
        If `targets` is empty, contains all states, or names something that is not a state.
    ConvergenceError
        If no method finds a useful digit, for example if the targets are more than about 1e300 jumps away.

    Examples
    --------
    >>> import gainbias as gb
    >>> walk = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]
    >>> times = gb.hitting_times(gb.MarkovRewardProcess(walk, [0.0] * 3, labels=list("abc")), targets="c")
    >>> times.mean.tolist(), times.variance.tolist()
    ([6.0, 4.0, 0.0], [22.0, 20.0, 0.0])
    """
    is_target = target_mask(mrp, targets, "hitting_times")
    certain, _ = _reach(mrp.csr, is_target)
    mean = np.where(is_target, 0.0, np.inf)
    variance, mean_error, variance_error = mean.copy(), np.zeros(len(mean)), np.zeros(len(mean))
    method = "structure"
    notes: tuple[str, ...] = ()
    if certain.size:
        answer = with_leaking_chain(
            mrp.csr, certain, lambda chain: _times(chain, _steps_of(mrp, certain)), what="the hitting times"
        )
        rate = mrp.rate or 1.0
        mean[certain], mean_error[certain] = answer.mean / rate, answer.mean_error / rate
        with np.errstate(over="ignore", under="ignore"):
            variance[certain] = answer.variance / rate / rate
            variance_error[certain] = answer.variance_error / rate / rate
        method, notes = answer.method, answer.notes
    return HittingTimes(
        frozen(is_target), frozen(mean), frozen(variance), frozen(mean_error), frozen(variance_error),
        method, notes,
    )  # fmt: skip


def hitting_probabilities(mrp: MarkovRewardProcess, targets: Any) -> HittingProbabilities:
    """Return the probability that a process ever reaches one of some states, from each state.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process; its rewards do not matter, and it may have several recurrent classes.
    targets : int, label, sequence of them, or bool ndarray of shape (n,)
        The states to be reached, as in `hitting_times`.

    Returns
    -------
    HittingProbabilities

    Raises
    ------
    ValueError
        If `targets` is empty, contains all states, or names something that is not a state.
    ConvergenceError
        If no method finds a useful digit.

    Examples
    --------
    >>> import gainbias as gb
    >>> fork = [[0.2, 0.6, 0.2], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> process = gb.MarkovRewardProcess(fork, [0.0] * 3, labels=["start", "left", "right"])
    >>> gb.hitting_probabilities(process, targets=["left"]).probability.round(12).tolist()
    [0.75, 1.0, 0.0]
    """
    is_target = target_mask(mrp, targets, "hitting_probabilities")
    certain, perhaps = _reach(mrp.csr, is_target)
    probability, error = is_target.astype(np.float64), np.zeros(mrp.num_states)
    probability[certain] = 1.0
    method = "structure"
    notes: tuple[str, ...] = ()
    if perhaps.size:
        outside = Doubled(probability.copy())

        def work(chain: LeakingChain) -> tuple[BoundedSolution, LeakingChain]:
            answer = chain.solve_for(Doubled(np.zeros(len(perhaps))), outside)
            check_useful(np.ones(1), answer.error)
            return answer, chain

        answer, chain = with_leaking_chain(mrp.csr, perhaps, work, what="the hitting probabilities")
        probability[perhaps], error[perhaps] = _rounded(answer, perhaps)
        probability = np.clip(probability, 0.0, 1.0)
        method, notes = chain.method, chain.notes
    return HittingProbabilities(frozen(is_target), frozen(probability), frozen(error), method, notes)


def target_mask(mrp: MarkovRewardProcess, targets: Any, name: str) -> Bools:
    """Return `targets` as a mask, (n,), with at least one state, but not all.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [0.0, 1.0], labels=["up", "down"])
    >>> target_mask(process, "down", "hitting_times").tolist()
    [False, True]
    """
    check_process(mrp, name)
    n = mrp.num_states
    given = _as_list(mrp, targets)
    if given and all(isinstance(one, bool | np.bool_) for one in given):
        if len(given) != n or _is_single(targets):
            raise ValueError(
                f"targets must name states, or be a mask of {n} truth values, one for each state, found "
                f"{targets!r}"
            )
        mask = np.array(given, dtype=bool)
    else:
        mask = np.zeros(n, dtype=bool)
        for one in given:
            mask[_states_named(mrp, one)] = True
    if not mask.any():
        raise ValueError("targets is empty: name at least one state to be reached")
    if mask.all():
        raise ValueError(
            f"all {n} states are targets, so every hitting time is 0: leave out the states to start from"
        )
    return mask


def _is_single(targets: Any) -> bool:
    return isinstance(targets, str | bytes) or not isinstance(targets, Iterable)


def _as_list(mrp: MarkovRewardProcess, targets: Any) -> list[Any]:
    """Return the targets one by one; a label may itself be a string or a tuple."""
    if isinstance(targets, np.ndarray):
        if targets.ndim > 1:
            raise ValueError(f"targets must be a list of states, found an array of shape {targets.shape}")
        targets = targets.tolist()
    is_label = mrp.labels is not None and isinstance(targets, Hashable) and targets in mrp.labels
    return [targets] if is_label or _is_single(targets) else list(targets)


def _states_named(mrp: MarkovRewardProcess, one: Any) -> Ints:
    """Return the states that `one`, a label or a number, names."""
    if mrp.labels is not None:
        found = np.array([s for s, label in enumerate(mrp.labels) if label == one], dtype=np.intp)
        if found.size and not isinstance(one, bool):
            return found
        shown = ", ".join(map(repr, mrp.labels[:5])) + (", ..." if mrp.num_states > 5 else "")
        if not is_integer(one) or any(isinstance(label, int | np.integer) for label in mrp.labels):
            raise ValueError(
                f"targets holds {one!r}, which is not the label of a state: the labels are {shown}"
            )
    elif not is_integer(one):
        hint = "" if not isinstance(one, str) else ": the process has no labels"
        raise ValueError(f"targets must be numbers of states, whole and not bool, found {one!r}{hint}")
    if not 0 <= one < mrp.num_states:
        raise ValueError(f"targets holds {one}, states are numbered from 0 to {mrp.num_states - 1}")
    return np.array([one], dtype=np.intp)


def _reach(csr: CsrArray, is_target: Bools) -> tuple[Ints, Ints]:
    """Return the states outside the targets that reach them for certain, and those that do so perhaps."""
    back = csr.T.tocsr()
    can = _reached_backwards(back, np.flatnonzero(is_target), blocked=None)
    can_fail = _reached_backwards(back, np.flatnonzero(~can), blocked=is_target)
    return np.flatnonzero(can & ~can_fail & ~is_target), np.flatnonzero(can & can_fail & ~is_target)


def _reached_backwards(back: CsrArray, ends: Ints, blocked: Bools | None) -> Bools:
    """Return the states from which one of `ends` can be reached without starting in a blocked state."""
    n = back.shape[0]
    reached = np.zeros(n + 1, dtype=bool)
    if ends.size == 0:
        return reached[:n]
    data = np.ones(back.nnz) if blocked is None else (~blocked[back.indices]).astype(np.float64)
    # One more node that leads to all ends, so that one search is enough.
    graph = sparse.csr_array(
        (
            np.concatenate([data, np.ones(ends.size)]),
            np.concatenate([back.indices, ends]),
            np.concatenate([back.indptr, [back.nnz + ends.size]]),
        ),
        shape=(n + 1, n + 1),
    )
    graph.eliminate_zeros()
    reached[csgraph.breadth_first_order(graph, n, return_predecessors=False)] = True
    return reached[:n]


class TimeMoments(NamedTuple):
    """Mean and variance for the states inside, with bounds on their errors, and how they were found."""

    mean: Floats
    mean_error: Floats
    variance: Floats
    variance_error: Floats
    method: str
    notes: tuple[str, ...]


class _Steps(NamedTuple):
    """The durations of steps from the states inside, and their randomness.

    Attributes
    ----------
    mean : Doubled
        Mean duration, (m,).
    doubt : (m,) array
        Bound on its error.
    taken : (k,) array
        What a step along each stored transition adds to the change of the expected remaining time.
    held : (m,) array
        The same for staying.
    unit : float
        Durations count as at least this in bounds on rounding.
    spread, spread_error : (m,) arrays or None
        The variance of the duration given state and successor; None if nothing is known about it.
    unsettled : (m,) array
        The relative deviation of each row sum from 1, if durations are averaged over rows.
    """

    mean: Doubled
    doubt: Floats
    taken: Floats
    held: Floats
    unit: float
    spread: Floats | None
    spread_error: Floats
    unsettled: Floats


def _steps_of(mrp: MarkovRewardProcess, inside: Ints) -> _Steps:
    """Return the durations of steps: 1, or those of the process.

    In continuous time a step has a random length of mean 1 and variance 1, in the same unit. Together they
    leave only the mean square of the jumps, as if steps took no time.
    """
    nothing, ones = np.zeros(len(inside)), np.ones(len(inside))
    rows = mrp.csr[inside]
    if mrp.mean_durations is None:
        counts = 0.0 if mrp.rate is not None else 1.0
        return _Steps(
            mean=Doubled(ones),
            doubt=nothing,
            taken=np.full(rows.nnz, counts),
            held=np.full(len(inside), counts),
            unit=1.0,
            spread=nothing,
            spread_error=nothing,
            unsettled=nothing,
        )
    mean, open_time = mrp.mean_durations.rewards.at(inside), np.abs(mrp.mean_durations.doubt[inside])
    taken, held = mean.high[entry_rows(rows)], mean.high
    if mrp.duration_entries is not None:
        times = mrp.csr.copy()
        times.data = mrp.duration_entries
        taken, held = times[inside].data, times.diagonal()[inside]
    spread, spread_error = None, nothing
    if mrp.mean_duration_variances is not None:
        variances, open_variances = mrp.mean_duration_variances
        spread = variances.high[inside]
        spread_error = np.abs(open_variances[inside]) + EPSILON * spread
    longest = float(np.diff(rows.indptr).max())
    return _Steps(
        mean=mean,
        doubt=open_time + (longest + 8.0) * EPSILON**2 * mean.high,
        taken=taken,
        held=held,
        unit=0.0,
        spread=spread,
        spread_error=spread_error,
        unsettled=open_time / mean.high,
    )


def _times(chain: LeakingChain, steps: _Steps) -> TimeMoments:
    """Return mean and variance in the unit of the durations of steps."""
    inside = chain.states
    first = chain.solve_for(steps.mean, doubt=steps.doubt)
    mean, mean_error = _rounded(first, inside)
    check_useful(mean, mean_error)
    error = np.zeros(chain.num_states)
    error[inside] = first.error
    if steps.spread is None:
        unknown = "nothing is known about the variance: it needs duration_variances"
        nothing, never = np.full(len(inside), np.nan), np.full(len(inside), np.inf)
        return TimeMoments(mean, mean_error, nothing, never, chain.method, (*chain.notes, unknown))
    squares, low, doubt = np.empty((3, len(inside)))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        write_squared_changes(
            chain.rows, inside, first.x.high, first.x.rest, error, steps.taken, steps.held, steps.unit,
            squares, low, doubt,
        )  # fmt: skip
        if steps.spread.any() or steps.spread_error.any() or steps.unsettled.any():
            doubt += steps.spread_error + 2.0 * steps.unsettled * (squares + steps.held**2)
            squares, low = sum_of_parts(squares, low, steps.spread, np.zeros(len(inside)))
            doubt += 4.0 * EPSILON**2 * squares
    notes = chain.notes
    try:
        second = chain.solve_for(Doubled(squares, low), doubt=doubt)
        variance, variance_error = _rounded(second, inside)
    except MethodError as reason:
        # The square of a number may leave the range of double precision even if the number does not.
        variance, variance_error = np.full((2, len(inside)), np.inf)
        notes = (*notes, f"nothing is known about the variance: {reason}")
    variance_error = variance_error + np.maximum(-variance, 0.0)
    return TimeMoments(mean, mean_error, np.maximum(variance, 0.0), variance_error, chain.method, notes)


def _rounded(answer: BoundedSolution, inside: Ints) -> tuple[Floats, Floats]:
    """Return the solution inside, rounded, and the bound on its error including that rounding."""
    return answer.x.high[inside], (answer.error + np.abs(answer.x.rest[inside])) * (1.0 + 2 * EPSILON)


@kernel
def write_squared_changes(
    rows: Sparse,
    states: Ints,
    mean: Floats,
    mean_low: Floats,
    mean_error: Floats,
    taken: Floats,
    held: Floats,
    unit: float,
    squares: Floats,
    squares_low: Floats,
    doubt: Floats,
) -> None:
    """Write the mean square of the change of the expected remaining time, (m,), and a bound on its error.

    The squares have twice the digits. Each step adds its duration, also if the state does not change.
    """
    for i in range(len(states)):
        own = states[i]
        total, total_low, through, off_total = 0.0, 0.0, 0.0, 0.0
        stay, stay_low = 1.0, 0.0
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            if j != own:
                chance = rows.data[entry]
                step, step_low = add_exactly(mean[j], -mean[own])
                step, lost = add_exactly(step, taken[entry])
                step_low += lost
                change, change_low = add_exactly(step, step_low + (mean_low[j] - mean_low[own]))
                off = mean_error[j] + mean_error[own]
                off += 4.0 * EPSILON * EPSILON * (abs(mean[j]) + abs(mean[own]) + max(unit, taken[entry]))
                off_total += chance * off * (2.0 * abs(change) + off)
                square, square_low = multiply_exactly(change, change)
                square_low += 2.0 * change * change_low
                term, term_low = multiply_exactly(chance, square)
                total, lost = add_exactly(total, term)
                total_low += lost + (term_low + chance * square_low)
                through += chance * square
                stay, lost = add_exactly(stay, -chance)
                stay_low += lost
        square, square_low = multiply_exactly(held[i], held[i])
        term, term_low = multiply_exactly(stay, square)
        total, lost = add_exactly(total, term)
        total_low += lost + (term_low + stay * square_low + stay_low * square)
        through += square
        squares[i], squares_low[i] = add_exactly(total, total_low)
        length = rows.indptr[i + 1] - rows.indptr[i]
        doubt[i] = 1.1 * off_total + (length + 8.0) * (2.0 * EPSILON * EPSILON * through + SMALLEST_STEP)
