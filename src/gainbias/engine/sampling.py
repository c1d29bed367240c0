"""Drawing transitions: alias tables and the walks that read them.

An alias table (Walker 1977, built as by Vose 1991) lists, for each stored transition of a row, a threshold,
the transition itself and another one of the row, so that one uniform number picks a successor with a single
look-up, however many there are.

A walk waits for memory most of the time, so what it reads is kept small and together: eight bytes a slot.
Thresholds are rounded there, and a number too close to one is compared with the exact threshold, which is
kept elsewhere and hardly ever read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import bare_kernel, inlined
from gainbias.model.checks import CsrArray, FloatArray
from gainbias.model.solve.elimination.types import Ints

SLOT = np.dtype([("threshold", np.float32), ("other", np.int32)])

CLOSE = 2.0**-24
"""Rounding moves a threshold by at most half of this."""


class AliasTable(NamedTuple):
    """Which successor a uniform number picks, row by row, and what the transition pays.

    Attributes
    ----------
    start : (n + 1,) int array
        Slots of row s are ``start[s]`` to ``start[s + 1] - 1``.
    slot : (slots,) array of SLOT
        Rounded threshold, and the successor from there on.
    threshold : (slots,) array
        Below it the slot's own successor is taken, else the other one.
    own : (slots,) int array
        The own successor of each slot; empty if every row lists all states in order.
    reward : (n,) array
        What a step from each state pays, unless transitions pay by themselves.
    paid : (slots, 2) array
        What the transition to the other and to the own successor pays; empty if the state alone decides.
    """

    start: Ints
    slot: NDArray[np.void]
    threshold: FloatArray
    own: Ints
    reward: FloatArray
    paid: FloatArray


class Steps(NamedTuple):
    """Sampled transitions, one chain per row: from `here` to `next` for `reward`, with a running `total`."""

    here: Ints
    next: Ints
    reward: FloatArray
    total: FloatArray


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
    >>> table.threshold.tolist(), table.slot["other"].tolist()
    ([0.5, 1.0], [1, 1])
    """
    threshold, other = np.empty(transitions.nnz), np.empty(transitions.nnz, np.int64)
    room = np.empty((2, int(np.diff(transitions.indptr).max())), np.int64)
    fill_alias(transitions.indptr, transitions.data, threshold, other, *room)
    own: Ints = transitions.indices.astype(np.int32, copy=False)
    slot = np.empty(transitions.nnz, SLOT)
    slot["threshold"], slot["other"] = threshold, own[other]
    paid = np.empty((0, 2))
    if transition_rewards is not None:
        paid = np.stack([transition_rewards[other], transition_rewards], axis=1)
    is_full = transitions.nnz == transitions.shape[0] * transitions.shape[1]
    return AliasTable(transitions.indptr, slot, threshold, own[:0] if is_full else own, rewards, paid)


@bare_kernel
def fill_alias(
    indptr: Ints, data: FloatArray, threshold: FloatArray, slot: Ints, small: Ints, large: Ints
) -> None:
    """Split each row into slots of equal weight that hold at most two entries each.

    `small` and `large` are room for as many numbers as the longest row has entries.
    """
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
def walk(
    table: AliasTable,
    law: AliasTable,
    length: int,
    uniforms: FloatArray,
    state: Ints,
    total: FloatArray,
    steps: Steps,
) -> None:
    """Let several chains go on, in turns, so that one is served while another waits for memory.

    Parameters
    ----------
    table : AliasTable
        The chain.
    law : AliasTable
        A law, as a table with one row.
    length : int
        How many steps each makes; arrays of m numbers may be longer.
    uniforms : (chains, m, k) array
        One number for each step; or two, and then the first draws the state of the step afresh from the law.
    state : (chains,) int array
        Where the chains are; updated.
    total : (chains,) array
        Sum of the rewards of each chain; updated.
    steps : Steps of (chains, m) arrays
        Filled in.
    """
    chains, _, count = uniforms.shape
    for t in range(length):
        for c in range(chains):
            if count == 2:
                slot, below = pick(law, 0, uniforms[c, t, 0])
                state[c] = chosen(law, 0, slot, below)
            here = state[c]
            slot, below = pick(table, here, uniforms[c, t, count - 1])
            alone = chains == 1 and count == 1
            after = guessed(table, here, slot, below) if alone else chosen(table, here, slot, below)
            reward = table.reward[here] if len(table.paid) == 0 else table.paid[slot, int(below)]
            steps.here[c, t] = here
            steps.next[c, t] = after
            steps.reward[c, t] = reward
            total[c] += reward
            steps.total[c, t] = total[c]
            state[c] = after


@inlined
def pick(table: AliasTable, row: int, uniform: float) -> tuple[int, bool]:
    """Return the slot of a row that a uniform number falls into, and whether it is below the threshold."""
    begin = table.start[row]
    place = uniform * (table.start[row + 1] - begin)
    slot = begin + int(place)
    over = place - int(place) - table.slot[slot]["threshold"]
    if abs(over) < CLOSE:
        over = place - int(place) - table.threshold[slot]
    return slot, over < 0.0


@inlined
def chosen(table: AliasTable, row: int, slot: int, below: bool) -> int:
    """Return the successor, without a branch: guessing it wrong would hold up the other chains."""
    own, other = own_successor(table, row, slot), table.slot[slot]["other"]
    return int(own if below else other)


@inlined
def guessed(table: AliasTable, row: int, slot: int, below: bool) -> int:
    """Return the successor, with a branch: the processor guesses it and goes on before memory answers.

    A single chain has nothing better to do, and becomes up to twice as fast.
    """
    if below:
        return int(own_successor(table, row, slot))
    return int(table.slot[slot]["other"])


@inlined
def own_successor(table: AliasTable, row: int, slot: int) -> int:
    """Return the own successor of a slot."""
    return int(slot - table.start[row]) if len(table.own) == 0 else int(table.own[slot])
