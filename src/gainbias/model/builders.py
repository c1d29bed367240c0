"""Processes made from something else: a decision process with a policy, or continuous-time rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from gainbias.model.checks import (
    CsrArray,
    check_square,
    clip_rounding,
    entry_place,
    entry_rows,
    float_array,
    float_csr,
    float_vector,
    probability_csr,
    rounding_unit,
    row_sum_tolerance,
    row_sums,
    values_at,
)
from gainbias.model.doubled import Doubled, Expected, expected_rewards, product, weighted_means
from gainbias.types import Floats

FASTEST = 2.0**1023
"""The power of two above a rate must not overflow."""

SMALLEST = float(np.finfo(np.float64).tiny)
"""Smaller probabilities lose digits."""


class Averaged(NamedTuple):
    """Rewards of a decision process, averaged over the actions of a policy with twice the digits.

    Attributes
    ----------
    expected : Expected
        The rewards R(s).
    entries, entries_rest : csr_array, shape (n, n), optional
        The mean of r(s, a, s') given s and s', rounded, and the rounded-off part, if the rewards depend on
        the next state.
    is_rounded : bool
        Whether something was rounded off, which never happens for a policy of one action per state.
    """

    expected: Expected
    is_rounded: bool
    entries: CsrArray | None = None
    entries_rest: CsrArray | None = None


class Followed(NamedTuple):
    """A decision process under a policy: its transitions, rewards and durations, if it has any.

    `is_dense` is whether the kernel was.
    """

    transitions: CsrArray
    rewards: Averaged
    durations: Expected | None
    is_dense: bool


def follow_policy(
    kernel: Any, rewards: Any, policy: ArrayLike, durations: ArrayLike | None, *, renormalise: bool
) -> Followed:
    """Return a decision process under a policy.

    All (state, action) pairs are the rows ``state * A + action`` of one tall matrix, which the policy, as
    an (n, n A) matrix, averages. See `MarkovRewardProcess.from_mdp` for the parameters.
    """
    pairs, num_actions, is_dense, epsilon = _pair_rows(kernel)
    num_states = pairs.shape[1]
    probabilities = _policy_probabilities(policy, num_states, num_actions, renormalise)
    pairs = probability_csr(
        pairs,
        lambda row: f"kernel row for state {row // num_actions}, action {row % num_actions}",
        renormalise=renormalise,
        epsilon=epsilon,
        needed=probabilities.ravel() > 0,
    )
    average: CsrArray = sparse.csr_array(
        (
            probabilities.ravel(),
            np.arange(num_states * num_actions),
            np.arange(num_states + 1) * num_actions,
        ),
        shape=(num_states, num_states * num_actions),
    )
    average.eliminate_zeros()
    transitions = float_csr(average @ pairs, "transitions")
    averaged = _average_rewards(rewards, pairs, average, transitions)
    times = None if durations is None else _average_durations(durations, average, num_actions)
    return Followed(transitions, averaged, times, is_dense)


def earned_in_steps(
    csr: CsrArray, paid: Averaged, rates: Floats, durations: Expected, duration_entries: Floats | None
) -> Averaged:
    """Return the total rewards of steps: what is paid at once, plus reward rates times durations.

    Parameters
    ----------
    csr : csr_array, shape (n, n)
        The transitions.
    paid : Averaged
        The rewards of steps; its entries have the pattern of `csr`.
    rates : (n,) array
        Reward per unit of time.
    durations : Expected
        Mean durations tau(s).
    duration_entries : (m,) array, optional
        The durations tau(s, s'), in the order of ``csr.data``.
    """
    in_time = Doubled(rates).times(durations.rewards)
    expected = Expected(
        in_time.added_to(paid.expected.rewards), paid.expected.doubt + rates * durations.doubt
    )
    entries = entries_rest = None
    if paid.entries is not None or duration_entries is not None:
        rows = entry_rows(csr)
        taken = durations.rewards.high[rows] if duration_entries is None else duration_entries
        total = Doubled(rates[rows]).times(Doubled(taken))
        if paid.entries is None:
            total = total.added_to(paid.expected.rewards.at(rows))
        else:
            rest = None if paid.entries_rest is None else paid.entries_rest.data
            total = total.added_to(Doubled(paid.entries.data, rest))
        entries, entries_rest = csr.copy(), csr.copy()
        entries.data, entries_rest.data = total.high, total.rest
    return Averaged(expected, is_rounded=True, entries=entries, entries_rest=entries_rest)


def uniformise(generator: Any, reward_rates: ArrayLike) -> tuple[CsrArray, Floats, float]:
    """Return transitions I + Q / rate, rewards per step and the rate.

    The rate is the smallest power of two above every exit rate: dividing by it rounds nothing, and every
    state has a positive probability of staying, so the chain is aperiodic.
    See `MarkovRewardProcess.from_rates` for the parameters.
    """
    jumps = float_csr(generator, "generator")
    check_square(jumps.shape, "generator")
    diagonal = jumps.diagonal()
    jumps.data[entry_rows(jumps) == jumps.indices] = 0.0
    jumps.eliminate_zeros()
    epsilon = rounding_unit(generator)
    tolerance = row_sum_tolerance(epsilon)
    negative = clip_rounding(jumps, epsilon)
    if negative.size:
        row, column = entry_place(jumps, negative[0])
        raise ValueError(
            f"generator[{row}, {column}] is {float(jumps.data[negative[0]])!r}, "
            "the rate from one state to another must be at least 0"
        )
    exit_rates = row_sums(jumps)
    wrong = np.flatnonzero(np.abs(exit_rates + diagonal) > tolerance * exit_rates)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"row {row} of generator sums to {exit_rates[row] + diagonal[row]:g}, must be 0 within "
            f"{tolerance:.2g} of its rates: generator[{row}, {row}] must be {-exit_rates[row]:.10g}, "
            f"found {diagonal[row]:.10g}"
        )
    fastest = float(exit_rates.max())
    rewards = float_vector(reward_rates, jumps.shape[0], "reward_rates")
    if not fastest < FASTEST:
        raise ValueError(
            f"the rates of row {int(exit_rates.argmax())} of generator sum to {fastest:g}, must be below "
            f"{FASTEST:g}: measure time in a smaller unit"
        )
    rate = math.ldexp(1.0, math.frexp(fastest)[1]) if fastest > 0 else 1.0
    _check_range(jumps, rewards, rate)
    jumps.data /= rate
    transitions: CsrArray = sparse.csr_array(jumps + sparse.diags_array(1.0 - exit_rates / rate))
    return transitions, rewards / rate, rate


def _check_range(jumps: CsrArray, rewards: Floats, rate: float) -> None:
    """Refuse rates and rewards that leave the range of double precision when they are divided by `rate`."""
    lost = np.flatnonzero(jumps.data / rate < SMALLEST)
    if lost.size:
        row, column = entry_place(jumps, lost[0])
        raise ValueError(
            f"generator[{row}, {column}] is {float(jumps.data[lost[0]])!r}, which double precision cannot "
            f"hold relative to the fastest rates, about {rate:g}: leave it out, or leave out the states "
            "that are so fast"
        )
    with np.errstate(over="ignore", under="ignore"):
        largest = float(np.abs(rewards / rate).max())
    if largest == np.inf or 0.0 < largest < SMALLEST or (largest == 0.0 and rewards.any()):
        state = int(np.abs(rewards).argmax())
        size, unit = ("large", "larger") if largest == np.inf else ("small", "smaller")
        raise ValueError(
            f"reward_rates[{state}] is {float(rewards[state])!r}, too {size} relative to the fastest rates "
            f"of generator, about {rate:g}: measure rewards in a {unit} unit"
        )


def _pair_rows(kernel: Any) -> tuple[CsrArray, int, bool, float]:
    """Return the (state, action) rows, the number of actions, whether `kernel` is dense, its rounding."""
    if _is_list_of_sparse(kernel):
        pairs, num_actions = _stacked_by_state(kernel, "kernel")
        return pairs, num_actions, False, max(map(rounding_unit, kernel))
    array = float_array(kernel, "kernel")
    if array.ndim != 3 or array.shape[0] != array.shape[2] or 0 in array.shape:
        hint = ""
        if array.ndim == 3 and array.shape[1] == array.shape[2]:
            hint = "; it looks like (A, n, n): pass np.moveaxis(kernel, 0, 1)"
        raise ValueError(
            "kernel must have shape (n, A, n), states by actions by next states, "
            f"or be a list of A sparse (n, n) matrices, found shape {array.shape}{hint}"
        )
    num_states, num_actions, _ = array.shape
    pairs = float_csr(array.reshape(num_states * num_actions, num_states), "kernel")
    return pairs, num_actions, True, rounding_unit(kernel)


def _is_list_of_sparse(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) > 0 and any(sparse.issparse(item) for item in values)


def _stacked_by_state(matrices: Sequence[Any], name: str) -> tuple[CsrArray, int]:
    """Stack the A matrices (n, n) of a list so that row ``state * A + action`` belongs to that pair."""
    parts = [float_csr(matrix, f"{name}[{action}]") for action, matrix in enumerate(matrices)]
    for action, part in enumerate(parts):
        check_square(part.shape, f"{name}[{action}]")
        if part.shape != parts[0].shape:
            raise ValueError(
                f"all matrices of {name} must have the same shape, "
                f"found {parts[0].shape} for action 0 and {part.shape} for action {action}"
            )
    num_states, num_actions = parts[0].shape[0], len(parts)
    rows = np.arange(num_actions * num_states).reshape(num_actions, num_states).T.ravel()
    return sparse.vstack(parts, format="csr")[rows], num_actions


def _policy_probabilities(policy: ArrayLike, num_states: int, num_actions: int, renormalise: bool) -> Floats:
    """Return the policy as an (n, A) matrix of probabilities."""
    given = np.asarray(policy)
    if given.shape == (num_states,):
        if given.dtype.kind not in "iu":
            raise ValueError(f"a policy of one action per state must be integers, found dtype {given.dtype}")
        wrong = np.flatnonzero((given < 0) | (given >= num_actions))
        if wrong.size:
            raise ValueError(
                f"policy[{wrong[0]}] is {given[wrong[0]]}, actions must be between 0 and {num_actions - 1}"
            )
        return np.asarray(given[:, np.newaxis] == np.arange(num_actions), dtype=np.float64)
    if given.shape != (num_states, num_actions):
        raise ValueError(
            f"policy must have shape ({num_states},), an action per state, or ({num_states}, {num_actions}), "
            f"the probability of each action in each state, found shape {given.shape}"
        )
    distributions = probability_csr(
        float_csr(policy, "policy"),
        lambda row: f"row {row} of policy",
        renormalise=renormalise,
        epsilon=rounding_unit(policy),
    )
    return distributions.toarray()


def _average_rewards(rewards: Any, pairs: CsrArray, average: CsrArray, transitions: CsrArray) -> Averaged:
    """Return R(s), and the mean of r(s, a, s') given s and s' if the rewards depend on the next state."""
    num_states = pairs.shape[1]
    num_actions = pairs.shape[0] // num_states
    pair_rewards: Floats | CsrArray
    if _is_list_of_sparse(rewards):
        pair_rewards, num_matrices = _stacked_by_state(rewards, "rewards")
        shape: tuple[int, ...] = (pair_rewards.shape[1], num_matrices, pair_rewards.shape[1])
    else:
        given = float_array(rewards, "rewards")
        shape = given.shape
        if shape == (num_states,):
            return Averaged(Expected(Doubled(given), np.zeros(num_states)), is_rounded=False)
        if shape == (num_states, num_actions):
            earned = given.ravel()[average.indices]
            expected = expected_rewards(average.indptr, Doubled(average.data), earned)
            return Averaged(expected, bool(expected.rewards.rest.any() or expected.doubt.any()))
        pair_rewards = given.reshape(-1, shape[-1]) if given.ndim == 3 else given
    if shape != (num_states, num_actions, num_states):
        raise ValueError(
            f"rewards must have shape ({num_states},), ({num_states}, {num_actions}) or "
            f"({num_states}, {num_actions}, {num_states}), states by actions by next states, "
            f"found shape {shape}"
        )
    return _average_over_actions(values_at(pair_rewards, pairs), pairs, average, transitions)


def _average_durations(durations: ArrayLike, average: CsrArray, num_actions: int) -> Expected:
    """Return the mean duration of a step from each state."""
    given, num_states = float_array(durations, "durations"), average.shape[0]
    if given.shape not in ((num_states,), (num_states, num_actions)):
        raise ValueError(
            f"durations must have shape ({num_states},) or ({num_states}, {num_actions}), states by actions, "
            f"found shape {given.shape}: average those of transitions over the next state"
        )
    if given.ndim == 1:
        return Expected(Doubled(given), np.zeros(num_states))
    taken = given.ravel()[average.indices]
    wrong = np.flatnonzero(taken <= 0.0)
    if wrong.size:
        state, action = divmod(int(average.indices[wrong[0]]), num_actions)
        raise ValueError(f"durations[{state}, {action}] is {taken[wrong[0]]}, must be positive")
    return expected_rewards(average.indptr, Doubled(average.data), taken)


def _average_over_actions(
    earned: Floats, pairs: CsrArray, average: CsrArray, transitions: CsrArray
) -> Averaged:
    """Average rewards of triples (s, a, s'), in the order of ``pairs.data``, over a, and over a and s'."""
    num_states = pairs.shape[1]
    pair = entry_rows(pairs)
    chance = np.zeros(pairs.shape[0])
    chance[average.indices] = average.data
    taken = np.flatnonzero(chance[pair] * pairs.data > 0.0)
    state = pair[taken] // (pairs.shape[0] // num_states)
    place = state * num_states + pairs.indices[taken]
    order = np.argsort(place, kind="stable")
    place, taken, state = place[order], taken[order], state[order]
    weights = product(chance[pair[taken]], pairs.data[taken])
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    means, _ = weighted_means(np.append(starts, len(place)), weights, earned[taken])
    per_state = np.searchsorted(state, np.arange(num_states + 1))
    entries, rest = transitions.copy(), transitions.copy()
    entries.data, rest.data = means.high, means.rest
    expected = expected_rewards(per_state, weights, earned[taken])
    return Averaged(expected, bool(weights.rest.any() or means.rest.any()), entries, rest)
