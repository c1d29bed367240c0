"""Solves on a GPU, by iterative methods: the chain and all vectors are in its memory.

Methods, certificate and variance get a `GpuProcess` in place of a process, and a `GpuChain` in place of its
transitions: these are sent once, transposed on the GPU, and searched there for states that do not reach each
other and for a period. Everything else uses the same source code as on the processor (see `vectors`), and
the same order of all sums within a row.

The columns of a chain are assembled by counting. The order of the entries of a column depends on threads
until each column is sorted; after that nothing does.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from gainbias.kernels.gpu import copy_over, device_name, fetched, free_memory, sent, what_is_missing
from gainbias.kernels.gpu_vectors import (
    GpuVector,
    empty_gpu_array,
    empty_gpu_vector,
    launch_each,
    next_place,
)
from gainbias.model.checks import frozen
from gainbias.model.doubled import Doubled, Expected
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.certificate import LARGEST_REWARD
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.vectors import largest_of, multiply_rows, row_lengths
from gainbias.model.structure import Structure
from gainbias.types import Floats, Ints

GPU_METHODS = ("power", "krylov")
"""The methods that run on a GPU."""

VECTORS_AT_ONCE, VECTORS_OF_AN_ANSWER = 48, 8
"""A solve has at most about this many vectors at a time, for two methods that take turns; and this many more
for each further reward vector."""

MOST_LEVELS = 2_000
"""If a state is more steps away, the processor finds the classes: that takes one pass, not one per step."""

CHUNK = 1024
"""Counts are added up by one thread for as many states as this."""

PIECE_LENGTH, MOST_SORTED = 512, 4096
"""A row with more entries is multiplied in pieces of this length; one with more than that is sorted by the
processor."""

SEARCHERS = 2**16
"""At most this many threads search for a common divisor."""


class GpuChain:
    """The transition matrix of a chain on a GPU, by rows.

    Attributes
    ----------
    indptr, indices : arrays of int on the GPU
    data : GpuVector
    shape : (int, int)
    nnz : int
    """

    def __init__(self, indptr: Any, indices: Any, data: GpuVector) -> None:
        self.indptr, self.indices, self.data = indptr, indices, data
        self.nnz, self.shape = len(data), (len(indptr) - 1, len(indptr) - 1)

    def __matmul__(self, x: GpuVector) -> GpuVector:
        out = x.empty()
        if self._pieces is None:
            out.launch(multiply_rows, (self.rows, x), out)
            return out
        begins, pieces = self._pieces
        sums = empty_gpu_vector(len(pieces) - 1)
        sums.launch(multiply_rows, (Sparse(pieces, self.indices, self.data.data), x), sums)
        out.launch(add_up_pieces, (begins, sums), out)
        return out

    @cached_property
    def _pieces(self) -> tuple[Any, Any] | None:
        """Which pieces each row has, (n + 1,), and where these begin; None if no row is long."""
        if row_lengths(self.rows, self.vector(0.0)).max() <= PIECE_LENGTH:
            return None
        starts = fetched(self.indptr)
        counts = -(-np.diff(starts) // PIECE_LENGTH)
        begins = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
        pieces = np.append(np.repeat(starts[:-1], counts) + PIECE_LENGTH * places, starts[-1])
        return sent(begins), sent(pieces.astype(starts.dtype))

    def vector(self, number: float) -> Any:
        """Return a vector of one number, one for each state."""
        return empty_gpu_vector(self.shape[0]).filled(number)

    @property
    def rows(self) -> Sparse:
        """The rows, for kernels."""
        return Sparse(self.indptr, self.indices, self.data.data)

    @cached_property
    def T(self) -> GpuChain:
        """The transpose, with ascending indices in each row."""
        (n, _), kind = self.shape, self.indptr.dtype
        places = _filled(n, kind, 0)
        launch_each(count_targets, n, (self.rows,), (places,))
        chunks = -(-n // CHUNK)
        totals = empty_gpu_array(chunks, np.int64)
        launch_each(add_up_counts, chunks, (places,), (totals,))
        ends = np.cumsum(fetched(totals))
        indptr = empty_gpu_array(n + 1, kind)
        launch_each(write_starts, chunks, (places, sent(ends)), (indptr,))
        indices, data = empty_gpu_array(self.nnz, kind), empty_gpu_vector(self.nnz)
        launch_each(place_entries, n, (self.rows,), (places, indices, data.data))
        launch_each(sort_row, n, (indptr, MOST_SORTED), (indices, data.data))
        turned = GpuChain(indptr, indices, data)
        if row_lengths(turned.rows, self.vector(0.0)).max() > MOST_SORTED:
            turned._sort_longest_rows()
        return turned

    def _sort_longest_rows(self) -> None:
        """Sort the rows that take a thread of a GPU too long."""
        starts = fetched(self.indptr)
        for i in np.flatnonzero(np.diff(starts) > MOST_SORTED):
            part = slice(starts[i], starts[i + 1])
            order = np.argsort(fetched(self.indices[part]))
            for array in (self.indices, self.data.data):
                copy_over(array[part], fetched(array[part])[order])

    def tocsr(self) -> GpuChain:
        """Return the chain itself, which is stored by rows."""
        return self

    def depths(self) -> tuple[Any, bool]:
        """Return how many steps each state is away from the first one, (n,), and whether all are found."""
        return _levels(self.T)

    def leads_to_first(self) -> bool:
        """Return whether the first state can be reached from every state, in not too many steps."""
        return _levels(self)[1]

    def period(self, depth: Any) -> int:
        """Return the common divisor of all cycles, given the distance of each state from the first."""
        count = min(self.shape[0], SEARCHERS)
        divisors = empty_gpu_array(count, np.int64)
        launch_each(write_divisors, count, (self.rows, depth, count), (divisors,))
        return gcd(*map(int, fetched(divisors)))


def _levels(neighbours: GpuChain) -> tuple[Any, bool]:
    """Return at which level a search from the first state finds each state, (n,), and whether it finds all.

    A state is one level after one of its neighbours. States that are not found, or only after very many
    levels, have -1.
    """
    n = neighbours.shape[0]
    depth, last, missing = _filled(n, np.int32, -1), _filled(1, np.int64, 0), _filled(1, np.int64, 0)
    launch_each(write_number, 1, (0,), (depth,))
    for level in range(MOST_LEVELS):
        launch_each(find_level, n, (neighbours.rows, level), (depth, last))
        if fetched(last)[0] == level:
            break
    launch_each(look_for_missing, n, (depth,), (missing,))
    return depth, not fetched(missing)[0]


class GpuProcess:
    """A process on a GPU, with everything that methods, certificate and variance need.

    Parameters
    ----------
    mrp : MarkovRewardProcess
    rewards : list of (n,) array
        All reward vectors that will be solved for.
    max_memory : float or None
        Bytes that may be used there; all that are free by default.

    Attributes
    ----------
    csr : GpuChain
    rewards : GpuVector
    expected, doubled_entries, structure, rate
        As those of `MarkovRewardProcess`, with vectors on the GPU.
    notes : tuple of str
        What ran where.
    """

    durations = mean_durations = reward_rates = duration_variances = None

    def __init__(self, mrp: MarkovRewardProcess, rewards: list[Floats], max_memory: float | None) -> None:
        _refuse_what_needs_the_processor(mrp, rewards, min(free_memory(), max_memory or np.inf))
        csr = mrp.csr
        self.csr: Any = GpuChain(sent(csr.indptr), sent(csr.indices), GpuVector(sent(csr.data)))
        self.rewards: Any = GpuVector(sent(mrp.rewards))
        self.rate, self.num_states, self.labels = mrp.rate, mrp.num_states, mrp.labels
        self.expected, self.doubled_entries = None, None
        if mrp.expected is not None:
            self.expected = Expected(_doubled(mrp.expected.rewards), _vector(mrp.expected.doubt))
        if mrp.doubled_entries is not None:
            self.doubled_entries = _doubled(mrp.doubled_entries)
        self.notes: tuple[str, ...] = (f"on a GPU: {device_name()}",)
        self._find_structure(mrp)
        self.structure, self.period = mrp.structure, int(mrp.class_periods[0])

    @property
    def is_irreducible(self) -> bool:
        """Whether every state can be reached from every state."""
        return self.structure.num_classes == 1

    def _find_structure(self, mrp: MarkovRewardProcess) -> None:
        """Set the structure of the process, from the GPU if there is one class, else from the processor."""
        if {"structure", "class_periods"} <= mrp.__dict__.keys():
            return
        depth, is_reached = self.csr.depths()
        if is_reached and self.csr.leads_to_first():
            n = mrp.num_states
            class_of, states, none = np.zeros(n, np.intp), np.arange(n), np.empty(0, np.intp)
            structure = Structure(1, frozen(class_of), (frozen(states),), frozen(none))
            mrp._set(structure=structure, class_periods=frozen(np.array([self.csr.period(depth)])))
        else:
            self.notes += ("classes and period were found by the processor: there are several, or far apart",)


def refuse_method(method: str) -> None:
    """Raise a ValueError if there is no GPU, or if a method does not run there."""
    missing = what_is_missing()
    if missing:
        raise ValueError(f"device='gpu' does not work here, because {missing}")
    if method != "auto" and method not in GPU_METHODS:
        raise ValueError(
            f"method={method!r} runs on the processor: use device='cpu', or one of 'auto', "
            f"{', '.join(map(repr, GPU_METHODS))} on a GPU"
        )


def _refuse_what_needs_the_processor(mrp: MarkovRewardProcess, rewards: list[Floats], free: float) -> None:
    if mrp.durations is not None:
        raise ValueError(
            "steps with durations are solved on the processor: use device='cpu', or mrp.embedded_chain() for "
            "an answer per step"
        )
    needed = bytes_needed(mrp, len(rewards))
    if needed > free:
        raise ValueError(
            f"{mrp.num_states:,} states with {mrp.csr.nnz:,} transitions need about {needed / 2**30:.3g} GB "
            f"of the GPU's memory, and {free / 2**30:.3g} GB are free: use device='cpu'"
        )
    if max(mrp.max_abs_reward, *map(largest_of, rewards)) > 2.0**LARGEST_REWARD:
        raise ValueError(
            f"rewards above 2**{LARGEST_REWARD} are for the processor: scale them, or use device='cpu'"
        )


def bytes_needed(mrp: MarkovRewardProcess, num_rewards: int) -> int:
    """Return about how much memory of the GPU a solve takes at most, for some number of reward vectors."""
    n, nnz, place = mrp.num_states, mrp.csr.nnz, mrp.csr.indptr.itemsize
    both_ways = 2 * (nnz * (8 + place) + n * place)
    own = 0 if mrp.doubled_entries is None else 16 * nnz
    return both_ways + own + 8 * n * (VECTORS_AT_ONCE + VECTORS_OF_AN_ANSWER * (num_rewards - 1))


def _vector(values: Floats) -> Any:
    return GpuVector(sent(values))


def _doubled(values: Doubled) -> Doubled:
    return Doubled(_vector(values.high), None if values.low is None else _vector(values.low))


def _filled(size: int, kind: Any, number: int) -> Any:
    array = empty_gpu_array(size, kind)
    launch_each(write_number, size, (number,), (array,))
    return array


def write_number(number: int, begin: int, end: int, array: Ints) -> None:
    """Write a number to places of an array."""
    for i in range(begin, end):
        array[i] = number


def count_targets(rows: Sparse, begin: int, end: int, counts: Ints) -> None:
    """Count how many transitions of some states lead to each state."""
    for entry in range(rows.indptr[begin], rows.indptr[end]):
        next_place(counts, rows.indices[entry])


def add_up_counts(counts: Ints, begin: int, end: int, totals: Ints) -> None:
    """Write the sum of each chunk of counts."""
    for chunk in range(begin, end):
        total = 0
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(counts))):
            total += counts[i]
        totals[chunk] = total


def write_starts(counts: Ints, ends: Ints, begin: int, end: int, indptr: Ints) -> None:
    """Write where rows of these lengths begin and end, and to `counts` where they begin; by chunks."""
    for chunk in range(begin, end):
        at = ends[chunk - 1] if chunk > 0 else 0
        if chunk == 0:
            indptr[0] = 0
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(counts))):
            count = counts[i]
            counts[i] = at
            at += count
            indptr[i + 1] = at


def place_entries(rows: Sparse, begin: int, end: int, places: Ints, indices: Ints, data: Floats) -> None:
    """Write the transitions of some states to the rows of where they lead."""
    for i in range(begin, end):
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            place = next_place(places, rows.indices[entry])
            indices[place] = i
            data[place] = rows.data[entry]


def add_up_pieces(begins: Ints, sums: Floats, begin: int, end: int, out: Floats) -> None:
    """Write the sums of rows from those of their pieces."""
    for i in range(begin, end):
        total = 0.0
        for piece in range(begins[i], begins[i + 1]):
            total += sums[piece]
        out[i] = total


def sort_row(indptr: Ints, longest: int, begin: int, end: int, indices: Ints, data: Floats) -> None:
    """Sort the entries of some rows by their index (Shell 1959: in place, and short rows by insertion).

    Rows with more entries than `longest` stay as they are.
    """
    for i in range(begin, end):
        first, stop = indptr[i], indptr[i + 1]
        if stop - first > longest:
            stop = first
        gap = 1
        while 3 * gap + 1 < stop - first:
            gap = 3 * gap + 1
        while gap > 0:
            for entry in range(first + gap, stop):
                index, value, at = indices[entry], data[entry], entry
                while at - gap >= first and indices[at - gap] > index:
                    indices[at], data[at] = indices[at - gap], data[at - gap]
                    at -= gap
                indices[at], data[at] = index, value
            gap //= 3


def find_level(neighbours: Sparse, level: int, begin: int, end: int, depth: Ints, last: Ints) -> None:
    """Write the next level to states with a neighbour at this level that have none, and to `last` if any."""
    for i in range(begin, end):
        if depth[i] < 0:
            for entry in range(neighbours.indptr[i], neighbours.indptr[i + 1]):
                if depth[neighbours.indices[entry]] == level:
                    depth[i] = level + 1
                    last[0] = level + 1
                    break


def look_for_missing(depth: Ints, begin: int, end: int, missing: Ints) -> None:
    """Write 1 if a state has no level."""
    for i in range(begin, end):
        if depth[i] < 0:
            missing[0] = 1


def write_divisors(rows: Sparse, depth: Ints, count: int, begin: int, end: int, divisors: Ints) -> None:
    """Write the common divisor of the cycles that the transitions of every `count`-th state close."""
    for k in range(begin, end):
        divisor = 0
        for i in range(k, len(depth), count):
            for entry in range(rows.indptr[i], rows.indptr[i + 1]):
                other = abs(depth[i] + 1 - depth[rows.indices[entry]])
                while other != 0:
                    divisor, other = other, divisor % other
        divisors[k] = divisor
