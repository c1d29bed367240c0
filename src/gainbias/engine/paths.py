"""Sample paths of a process: one for each seed, the same for every algorithm, in pieces of any length.

`Sampler.paths` returns `Paths`, which draw transitions piece by piece. Their random numbers come from a
`stream`, which depends on its seed and its name alone: never on the order in which streams are made, on how
many there are or on the machine. So one seed gives one sample path, whoever asks for it. Transitions are
drawn from an `AliasTable` by `walk`.

An alias table (Walker 1977, built as by Vose 1991) lists, for each stored transition of a row, a threshold,
the transition itself and another one of the row, so that one uniform number picks a successor with a single
look-up, however many there are.

A walk waits for memory most of the time, so the data that it reads are small and close together: eight
bytes per slot. Thresholds there are rounded; a number too close to one is compared with the exact
threshold, which is stored elsewhere and hardly ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from gainbias.engine.streams import Words, first_uniforms, next_uniform, skipped, stream_states
from gainbias.kernels import bare_kernel, inlined
from gainbias.model.checks import CsrArray
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.solve import solve_to_tolerance
from gainbias.types import Floats, Ints, is_integer

SLOT = np.dtype([("threshold", np.float32), ("other", np.int32)])

THRESHOLD_ROUNDING = 2.0**-24
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
        What a step from each state pays, unless transitions have their own rewards.
    paid : (slots, 2) array
        What the transition to the other and to the own successor pays; empty if the state alone decides.
    """

    start: Ints
    slot: NDArray[np.void]
    threshold: Floats
    own: Ints
    reward: Floats
    paid: Floats


class SampledSteps(NamedTuple):
    """Sampled transitions, one chain per row: from `here` to `next` for `reward`, with a running `total`."""

    here: Ints
    next: Ints
    reward: Floats
    total: Floats


def alias_table(
    transitions: CsrArray, rewards: Floats, transition_rewards: Floats | None = None
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
def fill_alias(indptr: Ints, data: Floats, threshold: Floats, slot: Ints, small: Ints, large: Ints) -> None:
    """Split each row into slots of equal weight that contain at most two entries each.

    `small` and `large` have room for as many numbers as the longest row has entries.
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
    numbers: int,
    streams: Words,
    state: Ints,
    total: Floats,
    steps: SampledSteps,
) -> None:
    """Continue several chains, in turns, so that one advances while another waits for memory.

    Parameters
    ----------
    table : AliasTable
        The chain.
    law : AliasTable
        A law, as a table with one row.
    length : int
        How many steps each takes; arrays of m numbers may be longer.
    numbers : int
        How many random numbers a step takes: one; or two, and then the first draws its state from the law.
    streams : (4, chains) array
        Where the random numbers come from; updated.
    state : (chains,) int array
        Where the chains are; updated.
    total : (chains,) array
        Sum of the rewards of each chain; updated.
    steps : SampledSteps of (chains, m) arrays
        Filled in.
    """
    chains = len(state)
    for t in range(length):
        for c in range(chains):
            if numbers == 2:
                slot, below = pick(law, 0, next_uniform(streams, c))
                state[c] = chosen(law, 0, slot, below)
            here = state[c]
            slot, below = pick(table, here, next_uniform(streams, c))
            alone = chains == 1 and numbers == 1
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
    if abs(over) < THRESHOLD_ROUNDING:
        over = place - int(place) - table.threshold[slot]
    return slot, over < 0.0


@inlined
def chosen(table: AliasTable, row: int, slot: int, below: bool) -> int:
    """Return the successor, without a branch: a wrong guess would delay the other chains."""
    own, other = own_successor(table, row, slot), table.slot[slot]["other"]
    return int(own if below else other)


@inlined
def guessed(table: AliasTable, row: int, slot: int, below: bool) -> int:
    """Return the successor, with a branch: the processor guesses it and continues before memory answers.

    This makes a single chain up to twice as fast.
    """
    if below:
        return int(own_successor(table, row, slot))
    return int(table.slot[slot]["other"])


@inlined
def own_successor(table: AliasTable, row: int, slot: int) -> int:
    """Return the successor that a slot of a row belongs to."""
    return int(slot - table.start[row]) if len(table.own) == 0 else int(table.own[slot])


Sampling = Literal["markov", "iid"]
Start = int | Literal["uniform", "stationary"]


@dataclass(frozen=True)
class Markov:
    """Sampling along the chain, from a first state of your choice.

    Parameters
    ----------
    start : int, "uniform" or "stationary"
        The first state, or the law that it is drawn from. ``sampling="markov"`` is ``Markov("uniform")``.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0, 1], [1, 0]], [3.0, 5.0]), gb.Tabular())
    >>> gb.run("discounted-td", problem, 1, 0.5, sampling=gb.Markov(start=1)).weights[0, -1]
    array([0. , 2.5])
    """

    start: Start = "uniform"


def split_sampling(sampling: Sampling | Markov) -> tuple[Sampling, Start]:
    """Return whether the chain is followed, and where it starts."""
    return ("markov", sampling.start) if isinstance(sampling, Markov) else (sampling, "uniform")


BLOCK = 4096
"""Number of steps that are drawn at once, unless more are needed."""

APART = 16
"""Rows of arrays are longer than needed by this many numbers: rows whose length is a power of two would
compete for the same places in the processor's cache, which doubles the time of eight paths."""

_TABLES: WeakKeyDictionary[MarkovRewardProcess, AliasTable] = WeakKeyDictionary()
"""Tables of the processes that still exist: a short run would take less time than its table."""


class Sampler:
    """The alias tables of a process, made once and shared by all its paths.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process. With rewards r(s, s') a transition pays what it is, otherwise R(s).
    stationary : function without arguments, optional
        Returns the stationary law, (n,), where that is known already.

    Examples
    --------
    >>> import gainbias as gb
    >>> sampler = Sampler(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0]))
    >>> paths = sampler.paths([7], start=0)
    >>> paths.take(4).here.tolist(), paths.take(3).here.tolist()
    ([[0, 1, 0, 1]], [[0, 1, 0]])
    """

    def __init__(self, mrp: MarkovRewardProcess, stationary: Callable[[], Floats] | None = None) -> None:
        refuse_durations(mrp, "Sampler")
        self.mrp = mrp
        self._stationary = stationary or (lambda: solve_to_tolerance(mrp).stationary)
        if mrp not in _TABLES:
            _TABLES[mrp] = alias_table(mrp.csr, mrp.rewards, mrp.reward_entries)
        self.table = _TABLES[mrp]

    @cached_property
    def law(self) -> AliasTable:
        """Table of the stationary law, with one row."""
        return alias_table(sparse.csr_array(self._stationary()[None, :]), np.zeros(1))

    def paths(
        self,
        seeds: Sequence[int],
        *,
        sampling: Sampling = "markov",
        start: Start = "uniform",
        chain: str | Sequence[str] = "first chain",
    ) -> Paths:
        """Return paths, one for each seed.

        Parameters
        ----------
        seeds : sequence of int
            Each names a path.
        sampling : {"markov", "iid"}
            Follow the chain, or draw the state of every transition afresh from the stationary law.
        start : int, "uniform" or "stationary"
            Where a path begins; it does not matter for "iid".
        chain : str or sequence of str
            Chains with different names are independent. With several names there are several paths for each
            seed: those of the first name for all seeds, then those of the second. Drawing them together
            takes less time.
        """
        if sampling not in ("markov", "iid"):
            raise ValueError(f"unknown sampling {sampling!r}: use 'markov' or 'iid'")
        chains = [chain] if isinstance(chain, str) else chain
        states = self.first_states(seeds, chains, start)
        return Paths(
            self,
            stream_states(seeds, chains, sampling),
            sampling,
            SavedPaths(states, np.zeros(len(states)), 0),
        )

    def first_states(self, seeds: Sequence[int], chains: Sequence[str], start: Start) -> Ints:
        """Return where paths begin: those of the first chain for all seeds, then those of the others."""
        n = self.mrp.num_states
        if is_integer(start):
            if not 0 <= start < n:
                raise ValueError(f"start must be a state from 0 to {n - 1}, found {start}")
            return np.full(len(seeds) * len(chains), start, np.int64)
        uniforms = first_uniforms(stream_states(seeds, chains, "start"))
        if start == "uniform":
            return np.asarray(uniforms * n, dtype=np.int64)
        if start == "stationary":
            picked = [pick(self.law, 0, uniform) for uniform in uniforms]
            return np.array([chosen(self.law, 0, *slot) for slot in picked], dtype=np.int64)
        raise ValueError(f"start must be a state, 'uniform' or 'stationary', found {start!r}")


class SavedPaths(NamedTuple):
    """A saved position of paths: their states, the sums of their rewards, and the number of steps."""

    state: Ints
    total: Floats
    steps: int


class Paths:
    """Paths that continue where they stopped; made by `Sampler.paths`.

    They are drawn in blocks, each about as long as all before it together, up to a limit: many short
    pieces then cost little more than a long one, and few steps are wasted.

    Attributes
    ----------
    total : (paths,) array
        Sum of the rewards of each path so far.
    """

    def __init__(self, sampler: Sampler, first: Words, sampling: Sampling, saved: SavedPaths) -> None:
        self._sampler, self._first, self._sampling = sampler, first, sampling
        self._law = sampler.table if sampling == "markov" else sampler.law
        self._numbers = 1 if sampling == "markov" else 2
        self._state, self.total, self._steps = saved
        self._end_state, self._end_total = saved.state.copy(), saved.total.copy()
        self._streams = skipped(first, self._numbers * self._steps)
        self._room = self._make_room(0)
        self._block, self._at = SampledSteps(*(array[:, :0] for array in self._room)), 0

    def take(self, count: int, *, room: int = 0) -> SampledSteps:
        """Return the next `count` transitions of every path, as (paths, count) arrays.

        With room for at least as many, they may overwrite those that were taken before, because the system
        clears fresh memory, and threads wait for each other in the meantime.
        """
        parts: list[SampledSteps] = []
        while count > 0:
            if self._at == self._block.here.shape[1]:
                ahead = min(self._steps, BLOCK - self._steps % BLOCK)
                self._block, self._at = self._draw(max(count, ahead), 0 if parts else room), 0
            part = SampledSteps(*(array[:, self._at : self._at + count] for array in self._block))
            taken = part.here.shape[1]
            self._at, self._steps, count = self._at + taken, self._steps + taken, count - taken
            parts.append(part)
        steps = parts[0] if len(parts) == 1 else SampledSteps(*map(np.hstack, zip(*parts, strict=True)))
        self._state, self.total = steps.next[:, -1].copy(), steps.total[:, -1].copy()
        return steps

    def save(self) -> SavedPaths:
        """Return what is needed to draw the same transitions once more, from here."""
        return SavedPaths(self._state.astype(np.int64), self.total.copy(), self._steps)

    def replayed(self, saved: SavedPaths) -> Paths:
        """Return paths that continue from where these were when they were saved."""
        return Paths(self._sampler, self._first, self._sampling, saved)

    def some(self, numbers: Ints) -> Paths:
        """Return some of these paths, as they are now."""
        state, total, steps = self.save()
        saved = SavedPaths(state[numbers], total[numbers], steps)
        return Paths(self._sampler, self._first[:, numbers], self._sampling, saved)

    def _draw(self, count: int, room: int) -> SampledSteps:
        if not room or count + APART > self._room.here.shape[1]:
            self._room = self._make_room(max(count, room))
        ends = self._end_state, self._end_total
        # Whole arrays: numba would take slices of one row for another type, and compile a second time.
        with np.errstate(over="ignore"):  # of the random numbers, if Python computes them
            walk(self._sampler.table, self._law, count, self._numbers, self._streams, *ends, self._room)
        return SampledSteps(*(array[:, :count] for array in self._room))

    def _make_room(self, length: int) -> SampledSteps:
        shape = (2, len(self._end_state), length + APART)
        return SampledSteps(*np.empty(shape, np.int32), *np.empty(shape))
