"""Drawing transitions: alias tables and the walks that read them.

An alias table (Walker 1977, built as by Vose 1991) lists, for each stored transition of a row, a threshold,
the transition itself and another one of the row, so that one uniform number picks a successor with a single
look-up, however many there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, kernel
from gainbias.model.checks import CsrArray, FloatArray
from gainbias.model.elimination.types import Ints


class AliasTable(NamedTuple):
    """Which successor a uniform number picks, row by row, and what the transition pays.

    Attributes
    ----------
    start : (n + 1,) int array
        Slots of row s are ``start[s]`` to ``start[s + 1] - 1``.
    threshold : (slots,) array
        Below it the slot's own successor is taken, else the other one.
    own, other : (slots,) int arrays
        The two successors of a slot.
    reward : (n,) array
        What a step from each state pays, unless transitions pay by themselves.
    own_reward, other_reward : (slots,) arrays
        What the two transitions of a slot pay; empty if that depends on the state only.
    """

    start: Ints
    threshold: FloatArray
    own: Ints
    other: Ints
    reward: FloatArray
    own_reward: FloatArray
    other_reward: FloatArray


class Steps(NamedTuple):
    """Sampled transitions, one chain per row: from `here` to `next` for `reward`."""

    here: Ints
    next: Ints
    reward: FloatArray


def alias_table(
    transitions: CsrArray, rewards: FloatArray, transition_rewards: FloatArray | None = None
) -> AliasTable:
    """Build the alias table of a chain.

    Parameters
    ----------
    transitions : (n, n) csr_array
        Rows are laws.
    rewards : (n,) array
        What a step from each state pays.
    transition_rewards : (nnz,) array, optional
        What each stored transition pays, where that is known.

    Examples
    --------
    >>> import scipy.sparse as sparse
    >>> table = alias_table(sparse.csr_array(np.array([[0.25, 0.75]])), np.zeros(1))
    >>> table.threshold.tolist(), table.own.tolist(), table.other.tolist()
    ([0.5, 1.0], [0, 1], [1, 1])
    """
    threshold = np.empty(transitions.nnz)
    slot = np.empty(transitions.nnz, np.int64)
    fill_alias(transitions.indptr, transitions.data, threshold, slot)
    own = transitions.indices.astype(np.int32)
    paid = np.empty(0) if transition_rewards is None else transition_rewards
    other_paid = paid[slot] if paid.size else paid
    return AliasTable(transitions.indptr, threshold, own, own[slot], rewards, paid, other_paid)


@kernel
def fill_alias(indptr: Ints, data: FloatArray, threshold: FloatArray, slot: Ints) -> None:
    """Split each row into slots of equal weight that hold at most two entries each."""
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    small, large = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for row in range(len(indptr) - 1):
        begin, end = indptr[row], indptr[row + 1]
        total = 0.0
        for entry in range(begin, end):
            total += data[entry]
        num_small, num_large = 0, 0
        for entry in range(begin, end):
            slot[entry] = entry
            threshold[entry] = data[entry] * (end - begin) / total
            if threshold[entry] < 1.0:
                small[num_small] = entry
                num_small += 1
            else:
                large[num_large] = entry
                num_large += 1
        while num_small > 0 and num_large > 0:
            # The small entry's slot is filled up from a large one, which may become small by that.
            num_small -= 1
            poor, rich = small[num_small], large[num_large - 1]
            slot[poor] = rich
            threshold[rich] = (threshold[rich] + threshold[poor]) - 1.0
            if threshold[rich] < 1.0:
                num_large -= 1
                small[num_small] = rich
                num_small += 1
        # What is left is full up to rounding.
        for k in range(num_small):
            threshold[small[k]] = 1.0
        for k in range(num_large):
            threshold[large[k]] = 1.0


@bare_kernel
def walk(table: AliasTable, law: AliasTable, uniforms: FloatArray, state: Ints, steps: Steps) -> None:
    """Let several chains go on, in turns, so that one is served while another waits for memory.

    Written as one piece: a call per step that passes these records would cost more than the step.

    Parameters
    ----------
    table : AliasTable
        The chain.
    law : AliasTable
        A law, as a table with one row.
    uniforms : (chains, m, k) array
        One number for each step; or two, and then the first draws the state of the step afresh from the law.
    state : (chains,) int array
        Where the chains are; updated.
    steps : Steps of (chains, m) arrays
        Filled in.
    """
    chains, length, count = uniforms.shape
    for t in range(length):
        for c in range(chains):
            if count == 2:
                place = uniforms[c, t, 0] * law.start[1]
                slot = int(place)
                state[c] = law.own[slot] if place - slot < law.threshold[slot] else law.other[slot]
            here = state[c]
            steps.here[c, t] = here
            begin = table.start[here]
            place = uniforms[c, t, count - 1] * (table.start[here + 1] - begin)
            slot = begin + int(place)
            below = place - int(place) < table.threshold[slot]
            state[c] = table.own[slot] if below else table.other[slot]
            steps.next[c, t] = state[c]
            if len(table.own_reward) == 0:
                steps.reward[c, t] = table.reward[here]
            else:
                steps.reward[c, t] = table.own_reward[slot] if below else table.other_reward[slot]
