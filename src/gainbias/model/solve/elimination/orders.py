"""Orders in which the states of a graph may be eliminated, and how wide the graph is.

`minimum_degree`, `level_by_level`, `nested_dissection` and `dissected_order` each return an order;
`gainbias.model.solve.elimination.symbolic` says which one is used when. `widest_level` says how wide a graph
is, which tells what eliminating its states costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import spilu

from gainbias.kernels import bare_kernel, kernel, share_out
from gainbias.types import Ints

SMALL_PART, SMALLEST_PART = 10_000, 8
"""Parts of a large graph up to the first size are left to one thread; none above the second remains."""

MANY_TO_ORDER = 100
"""A part that cannot be cut is put in order if it has more states than this."""

MOST_CUTS = 28
"""A part is cut at most this often: marks of smaller parts would not be integers of 32 bits."""


class Levels(NamedTuple):
    """The breadth-first levels of a graph, from a state at its rim.

    Attributes
    ----------
    states : (n,) int array
        The states, level by level.
    start : (levels + 1,) int array
        Where each level begins in `states`, and the end.
    """

    states: Ints
    start: Ints


def widest_level(graph: sp.csr_array) -> tuple[int, Levels | None]:
    """Return the size of the largest breadth-first level from a state at the rim, and all levels.

    Hubs are taken out first; then the levels are not those of the graph, and None is returned for them.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9)).tocsr()
    >>> width, levels = widest_level(path)
    >>> width, levels.states.tolist()
    (1, [8, 7, 6, 5, 4, 3, 2, 1, 0])
    """
    hubs = _hubs(graph)
    if hubs.any():
        # All that touch a hub would be one level, but a hub is eliminated last and separates nothing.
        others = np.flatnonzero(~hubs)
        if others.size == 0:
            return len(hubs), None
        graph = graph[others][:, others].tocsr()
    states, _ = breadth_first(graph.indptr, graph.indices, 0)
    levels = Levels(*breadth_first(graph.indptr, graph.indices, int(states[-1])))
    return int(np.diff(levels.start).max()), None if hubs.any() else levels


def breadth_first(indptr: Ints, indices: Ints, start: int) -> tuple[Ints, Ints]:
    """Return the states in breadth-first order from `start`, (n,), and where each level begins, and the end.

    States that are not reached are searched afterwards, part by part.
    """
    n = len(indptr) - 1
    queue, level = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    levels = search(indptr, indices, start, queue, level, np.zeros(n, np.uint8))
    return queue, level[: levels + 1].copy()


@bare_kernel
def search(indptr: Ints, indices: Ints, start: int, queue: Ints, level: Ints, seen: NDArray[np.uint8]) -> int:
    """Do the work of `breadth_first`: write the states to `queue` and where levels begin to `level`.

    Returns the number of levels. Of each state `seen` says whether the search has been there; nowhere yet.
    """
    n = len(queue)
    queue[0], seen[start] = start, 1
    begin, end, levels, unseen = 0, 1, 0, 0
    while end < n or begin < end:
        if begin == end:
            while seen[unseen] != 0:
                unseen += 1
            queue[end], seen[unseen] = unseen, 1
            end += 1
        level[levels] = begin
        levels += 1
        begin, end = end, next_level(indptr, indices, queue, seen, begin, end, np.inf)
    level[levels] = n
    return levels


@bare_kernel
def next_level(
    indptr: Ints, indices: Ints, queue: Ints, seen: NDArray[np.uint8], begin: int, end: int, hub: float
) -> int:
    """Add what is next to ``queue[begin:end]`` and not yet seen, and return the new end of the queue.

    The search goes on from no state with more than `hub` successors.
    """
    level_end = end
    for k in range(begin, level_end):
        if indptr[queue[k] + 1] - indptr[queue[k]] > hub:
            continue
        for entry in range(indptr[queue[k]], indptr[queue[k] + 1]):
            state = indices[entry]
            if seen[state] == 0:
                seen[state] = 1
                queue[end] = state
                end += 1
    return end


def level_by_level(graph: sp.csr_array) -> Ints:
    """Return an order by breadth-first levels; states with very many neighbours come last.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(3, 3)).tocsr()
    >>> sorted(level_by_level(path).tolist())
    [0, 1, 2]
    """
    hubs = _hubs(graph)
    others = np.flatnonzero(~hubs)
    inner = graph[others][:, others].tocsr() if hubs.any() else graph
    order = reverse_cuthill_mckee(sp.csr_matrix(inner), symmetric_mode=True)
    return np.concatenate([others[order], np.flatnonzero(hubs)]).astype(np.int32)


def minimum_degree(graph: sp.csr_array) -> Ints:
    """Return a minimum-degree order; states with very many neighbours come last.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(3, 3)).tocsr()
    >>> sorted(minimum_degree(path).tolist())
    [0, 1, 2]
    """
    degree, hubs = np.diff(graph.indptr), _hubs(graph)
    if hubs.any():
        # Minimum degree slows down on hubs, and they belong at the end anyway.
        others = np.flatnonzero(~hubs)
        inner = minimum_degree(graph[others][:, others].tocsr())
        return np.concatenate([others[inner], np.flatnonzero(hubs)]).astype(np.int32)
    weights = sp.csc_array((np.ones(graph.nnz), graph.indices, graph.indptr), graph.shape)
    dominant = (weights + sp.diags_array(degree + 1.0)).tocsc()
    # An incomplete factorisation that drops everything costs little more than its column order.
    factor = spilu(
        dominant, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    return np.argsort(factor.perm_c).astype(np.int32)


def _hubs(graph: sp.csr_array) -> NDArray[np.bool_]:
    """Return whether a state has very many neighbours, (n,)."""
    return np.asarray(np.diff(graph.indptr) > most_neighbours(graph.shape[0]))


def most_neighbours(num_states: int) -> float:
    """Return how many neighbours a state may have before it counts as a hub.

    Examples
    --------
    >>> most_neighbours(10_000)
    1000.0
    """
    return float(max(16.0, 10.0 * np.sqrt(num_states)))


def nested_dissection(graph: sp.csr_array) -> Ints:
    """Return METIS' nested-dissection order (needs pymetis)."""
    import pymetis

    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    order, _ = pymetis.nested_dissection(adjacency)
    return np.asarray(order, dtype=np.int32)


def dissected_order(graph: sp.csr_array, levels: Levels | None = None) -> tuple[Ints, list[tuple[int, int]]]:
    """Return an order in which parts of the graph come first, and the states that separate them last.

    The graph is cut along breadth-first levels, again and again, until parts are very small. Threads share
    the parts; one that is small is cut up by the thread that takes it. A part in which no level separates
    anything, because of a hub or because it is full, gets a minimum-degree order.

    Parameters
    ----------
    graph : (n, n) csr_array
        Symmetric pattern without diagonal.
    levels : Levels, optional
        The levels along which the graph is cut first, if they are known.

    Returns
    -------
    (n,) int array
        The order.
    list of pairs of int
        Where the parts that one thread has cut up begin and end in it. They do not touch each other.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9)).tocsr()
    >>> order, parts = dissected_order(path)
    >>> sorted(order.tolist()), parts
    ([0, 1, 2, 3, 4, 5, 6, 7, 8], [(0, 4), (4, 8)])
    """
    n = graph.shape[0]
    order, part, mark = np.arange(n, dtype=np.int32), np.zeros(n, np.int32), np.full(n, -1, np.int32)
    room = graph.indptr, graph.indices, part, mark, order
    # The parts of part k are 2 k + 1 and 2 k + 2, as in a heap.
    large: list[tuple[int, int, int]] = [(0, 0, n)]
    small, whole = [], []
    while large:

        def cut(k: int, parts: list[tuple[int, int, int]] = large) -> tuple[int, int]:
            own, begin, end = parts[k]
            if own == 0 and levels is not None:
                return cut_between(*room, own, begin, end, *levels)
            return cut_part(*room, own, begin, end)

        found = share_out(cut, len(large))
        smaller = []
        for (own, begin, end), (low, high) in zip(large, found, strict=True):
            if low == 0:
                whole.append((own, begin, end))
            else:
                smaller += [(2 * own + 1, begin, begin + low), (2 * own + 2, begin + low, begin + low + high)]
        small += [one for one in smaller if one[2] - one[1] <= SMALL_PART]
        large = [one for one in smaller if one[2] - one[1] > SMALL_PART]
    for left in share_out(lambda k: cut_up(*room, *small[k], SMALLEST_PART), len(small)):
        whole += [(own, begin, end) for own, begin, end in left.tolist()]
    place = np.empty(n, np.int32)

    def arrange(k: int) -> None:
        own, begin, end = whole[k]
        states = order[begin:end].copy()
        start, targets = part_graph(graph.indptr, graph.indices, part, own, states, place)
        ones = np.ones(len(targets), np.int8)
        order[begin:end] = states[minimum_degree(sp.csr_array((ones, targets, start), (end - begin,) * 2))]

    share_out(arrange, len(whole))
    return order, [(begin, end) for _, begin, end in small]


@kernel
def cut_up(
    indptr: Ints,
    indices: Ints,
    part: Ints,
    mark: Ints,
    order: Ints,
    own: int,
    begin: int,
    end: int,
    least: int,
) -> Ints:
    """Cut a part as `cut_part` does, and its parts, until they have at most `least` states.

    Returns number, begin and end of each part, (k, 3), that is not cut though it has many states.
    """
    left = np.empty((max(end - begin, 1) // MANY_TO_ORDER + 1, 3), np.int64)
    # Of each part that was cut the second half waits, so that few do.
    waiting = np.empty((MOST_CUTS + 2, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = own, begin, end
    count, uncut = 1, 0
    while count > 0:
        count -= 1
        number, first, last = waiting[count, 0], waiting[count, 1], waiting[count, 2]
        if last - first <= least:
            continue
        low, high = 0, 0
        if number < 2**MOST_CUTS:
            low, high = cut_part(indptr, indices, part, mark, order, number, first, last)
        if low > 0:
            middle = first + low
            waiting[count, 0], waiting[count, 1], waiting[count, 2] = 2 * number + 2, middle, middle + high
            count += 1
            waiting[count, 0], waiting[count, 1], waiting[count, 2] = 2 * number + 1, first, middle
            count += 1
        elif last - first > MANY_TO_ORDER:
            left[uncut, 0], left[uncut, 1], left[uncut, 2] = number, first, last
            uncut += 1
    return left[:uncut].copy()


@kernel
def cut_part(
    indptr: Ints, indices: Ints, part: Ints, mark: Ints, order: Ints, own: int, begin: int, end: int
) -> tuple[int, int]:
    """Cut a part of a graph in two along a breadth-first level from its rim, as `cut_between` does."""
    count = end - begin
    queue, level = np.empty(count, np.int32), np.empty(count + 1, np.int32)
    rim = order[begin]
    levels = 0
    for sweep in range(2):
        stamp = 4 * own + sweep
        queue[0], mark[rim] = rim, stamp
        done, filled, levels, scanned = 0, 1, 0, begin
        while done < count:
            if done == filled:
                # The part is not connected: go on elsewhere.
                while mark[order[scanned]] == stamp:
                    scanned += 1
                queue[filled], mark[order[scanned]] = order[scanned], stamp
                filled += 1
            level[levels] = done
            levels += 1
            level_end = filled
            for k in range(done, level_end):
                for entry in range(indptr[queue[k]], indptr[queue[k] + 1]):
                    state = indices[entry]
                    if part[state] == own and mark[state] != stamp:
                        mark[state] = stamp
                        queue[filled] = state
                        filled += 1
            done = level_end
        level[levels] = count
        rim = queue[count - 1]
    return cut_between(indptr, indices, part, mark, order, own, begin, end, queue, level[: levels + 1])


@kernel
def cut_between(
    indptr: Ints,
    indices: Ints,
    part: Ints,
    mark: Ints,
    order: Ints,
    own: int,
    begin: int,
    end: int,
    queue: Ints,
    level: Ints,
) -> tuple[int, int]:
    """Cut a part of a graph in two along the best of some levels, and return the sizes of both.

    Parameters
    ----------
    indptr, indices : int arrays
        The graph.
    part : (n,) int array
        The part of each state; those that separate two parts get -1.
    mark : (n,) int array
        Room for marks.
    order : (n,) int array
        The states of part `own` are at `begin` to ``end - 1``. They are arranged anew: one part, the other
        part, and what separates them. Nothing is changed and 0 returned if there are too few levels.
    queue, level : int arrays
        The states of the part level by level, and where each level begins, and the end.
    """
    count, levels = end - begin, len(level) - 1
    if levels < 3:
        return 0, 0
    best, width = -1, count + 1
    for k in range(1, levels - 1):
        near = 0.4 * count <= level[k] and level[k + 1] <= 0.6 * count
        over = level[k] <= 0.5 * count < level[k + 1]
        if (near or (over and best < 0)) and level[k + 1] - level[k] < width:
            best, width = k, level[k + 1] - level[k]
    if best < 0:
        return 0, 0
    low, high = level[best], count - level[best + 1]
    for k in range(level[best + 1], count):
        mark[queue[k]] = 4 * own + 2
    at, last = begin, end
    for k in range(level[best + 1]):
        state, separates = queue[k], False
        if k >= level[best]:
            for entry in range(indptr[state], indptr[state + 1]):
                other = indices[entry]
                separates = separates or (part[other] == own and mark[other] == 4 * own + 2)
        if separates:
            last -= 1
            order[last] = state
        else:
            order[at] = state
            at += 1
    low = at - begin
    for k in range(level[best + 1], count):
        order[at] = queue[k]
        at += 1
    for k in range(begin, end):
        part[order[k]] = 2 * own + 1 if k < begin + low else 2 * own + 2 if k < at else -1
    return low, high


@kernel
def part_graph(
    indptr: Ints, indices: Ints, part: Ints, own: int, states: Ints, place: Ints
) -> tuple[Ints, Ints]:
    """Return the graph of one part, as ``indptr`` and ``indices``; `place` has room for places of states."""
    count, total = len(states), 0
    for k in range(count):
        place[states[k]] = k
        total += indptr[states[k] + 1] - indptr[states[k]]
    start, targets = np.empty(count + 1, np.int32), np.empty(total, np.int32)
    filled = 0
    for k in range(count):
        start[k] = filled
        for entry in range(indptr[states[k]], indptr[states[k] + 1]):
            if part[indices[entry]] == own:
                targets[filled] = place[indices[entry]]
                filled += 1
    start[count] = filled
    return start, targets[:filled].copy()
