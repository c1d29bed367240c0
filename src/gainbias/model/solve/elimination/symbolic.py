"""The plan of an elimination: in which order, and what it will fill in, before any number is touched.

`plan_sparse` chooses an order and plans the elimination; `plan_dense` is for chains that are small or full.

Eliminating states one by one in a given order fills in new transitions. Where they fall is a property of
the graph alone and is described by the *elimination tree* (Liu 1990): the parent of a state is the first
later state that it touches when it is eliminated. States that touch the same later states are eliminated
together as one *front*, a small dense matrix (Duff and Reid 1983); children pass what is left of their
front on to their parent. `plan_elimination` finds tree and fronts for a given order.

The order decides how much fills in. Minimum degree (through SuperLU, which SciPy ships) is quick and good on
graphs that are flat, and takes for ever on graphs that expand; on those that are narrow, an order by levels
(Cuthill and McKee 1969) is as good and quicker to find. Nested dissection (METIS, in the
`solvers` extra) is slower but never takes for ever, and fills in less when there is much to fill. So minimum
degree is used unless the graph expands, and nested dissection where it can pay for itself. A large graph that
is long or flat is cut along its breadth-first levels first (`dissected_order`): that takes less time than
either, fills in about as little as METIS does, and several threads can work on the parts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gainbias.kernels import bare_kernel, inlined, is_large, kernel, share_out, share_runs
from gainbias.model.solve.elimination.numeric import Fronts, Sparse
from gainbias.model.solve.elimination.orders import (
    dissected_order,
    level_by_level,
    minimum_degree,
    nested_dissection,
    widest_level,
)
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import PER_OPERATION, PER_ORDERED_ENTRY, PER_ORDERED_STATE
from gainbias.model.solve.vectors import transposed
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

SMALL = 5_000
"""Below this size even an expanding graph is ordered in about a second."""

LARGE, FLAT = 100_000, 3.0
"""A larger graph is cut along its levels if none is wider than this many times the root of its size."""

SUBTREES = 64
"""What positions and fronts touch is found for about this many parts of a large tree separately."""

MOST_LEAVES_PER_STATE = 4
"""A tree is not worked on in parts if they could have more first and last leaves than this per state."""

FLOPS_PER_STATE_OF_METIS = 1e5
"""METIS takes about as long per state as this many flops of the elimination."""

NARROW = 1
"""Up to this width the order of a breadth-first search fills in as little as any, and is quicker to find."""

FLOPS_PER_CUBED_WIDTH = 20.0
"""Grids, tori and networks of queues, in two and three dimensions, take 10 to 36 flops per cubed width."""

ENTRIES_PER_SQUARED_WIDTH = 4.5
"""Factors of flat graphs have about this many numbers per squared width each time that parts are halved."""


Parts: TypeAlias = Sequence[tuple[int, int]]
"""Where parts of an order begin and end."""


@dataclass(frozen=True)
class EliminationPlan:
    """The fronts of an elimination and what they will cost.

    Attributes
    ----------
    fronts : Fronts
        The dense blocks, children before parents.
    factor_entries, stack_entries, front_entries : int
        Size of the factors, of the stack of rests that wait for their parents, and of the largest front.
    flops : float
        Additions and multiplications of the numeric part.
    """

    fronts: Fronts
    factor_entries: int
    stack_entries: int
    front_entries: int
    flops: float

    @property
    def bytes_needed(self) -> int:
        """Memory of the numeric elimination in bytes."""
        return 8 * (self.factor_entries + self.stack_entries + self.front_entries) + 4 * len(
            self.fronts.boundary
        )


def plan_sparse(graph: sp.csr_array, budget: Budget) -> tuple[EliminationPlan, str]:
    """Return the plan of an elimination in an order that is chosen for `graph`, and the name of the order.

    Parameters
    ----------
    graph : (n, n) csr_array
        Symmetric pattern without diagonal.
    budget : Budget
        Memory that may be used, and the meter that is told what the elimination will cost.

    Returns
    -------
    EliminationPlan and str
        The plan, and the name of the order.

    Raises
    ------
    MethodError
        When no order fits.
    """
    n = graph.shape[0]
    budget.watch.show(f"ordering {n:,} states")
    most_entries = budget.max_memory / 8
    width, levels = widest_level(graph)
    expands = n > SMALL and width > n / 10
    ordering = PER_ORDERED_STATE * n + PER_ORDERED_ENTRY * graph.nnz
    flops = predicted_flops(n, graph.nnz, width)
    budget.meter.predict(ordering, flops, predicted_entries(n, flops, width))
    _check_time(PER_OPERATION * FLOPS_PER_STATE_OF_METIS * n if expands else ordering, budget)
    plan, least_flops = None, 0.7 * (width / 4) ** 3
    parts: Parts = []
    is_flat = n > LARGE and width <= FLAT * np.sqrt(n)
    if not expands:
        if width <= NARROW:
            order, name = level_by_level(graph), "breadth first"
        elif is_flat:
            (order, parts), name = dissected_order(graph, levels), "dissection by levels"
        else:
            order, name = minimum_degree(graph), "minimum degree"
        pays = budget.meter.entries_that_pay(n)
        plan = plan_elimination(graph, order, min(most_entries, pays), parts)
        if plan is None and pays < most_entries:
            # By the inequality of the means, factors with this many entries take at least this arithmetic.
            budget.meter.plan(pays**2 / n, int(pays))
            plan = plan_elimination(graph, order, most_entries, parts)
        if plan is not None:
            if is_flat or plan.flops < 3 * FLOPS_PER_STATE_OF_METIS * n:
                return plan, name
            least_flops = plan.flops
    if importlib.util.find_spec("pymetis") is not None:
        budget.meter.plan(least_flops + FLOPS_PER_STATE_OF_METIS * n)
        if plan is None:
            _check_time(PER_OPERATION * FLOPS_PER_STATE_OF_METIS * n, budget)
        other = plan_elimination(graph, nested_dissection(graph), most_entries)
        if other is not None and (plan is None or other.flops < plan.flops):
            return other, "nested dissection"
    elif plan is None:
        reason = "the graph expands, which minimum degree cannot order" if expands else "too much fills in"
        raise MethodError(f"{reason}, and METIS is not installed (pip install 'gainbias[solvers]')")
    if plan is None:
        raise MethodError(f"the factors of {n:,} states do not fit into {budget.max_memory / 1e9:.3g} GB")
    return plan, "minimum degree"


def _check_time(seconds: float, budget: Budget) -> None:
    """Raise an error if finding an order, which nothing can stop, would take longer than is left."""
    if seconds > budget.watch.remaining:
        limit = f"the time limit of {budget.watch.time_limit:g} s has passed before an order is found"
        raise OutOfTimeError(f"{limit}, which takes about {seconds:.1g} s")


def predicted_flops(num_states: int, graph_entries: int, width: int) -> float:
    """Return about what an elimination costs, from the widest breadth-first level of the graph.

    A level separates what is before it from what is behind, and the largest separator becomes a dense block.
    What the graph has itself is a lower bound: factors with this many entries take at least this arithmetic.

    Examples
    --------
    >>> predicted_flops(10_000, 40_000, 100) / 1e6  # a grid of 100 by 100
    20.16
    """
    separators = FLOPS_PER_CUBED_WIDTH * float(width) ** 3
    # Of an expanding graph about two thirds become one dense block, whose elimination takes 2/3 of its cube.
    return min(separators + float(graph_entries) ** 2 / num_states, 0.2 * float(num_states) ** 3)


def predicted_entries(num_states: int, flops: float, width: int) -> float:
    """Return about how many numbers the factors will have, from the flops and the widest level of the graph.

    By the inequality of the means there are at most as many as if every state took the same arithmetic. On a
    graph that is long or flat most states take far less than those of the largest separators: each time that
    parts are halved, what separates them fills in the same again (George 1973).

    Examples
    --------
    >>> round(predicted_entries(4_000_000, 1.6e11, 2_000) / 1e6)  # a grid of 2,000 by 2,000
    395
    """
    squares = float(max(num_states, width * width))
    return float(min(np.sqrt(flops * num_states), ENTRIES_PER_SQUARED_WIDTH * squares * np.log2(squares)))


def plan_dense(block_of: Ints) -> EliminationPlan:
    """Return the plan of an elimination of blocks that do not touch each other, each as one dense front.

    Parameters
    ----------
    block_of : (n,) int array
        Block of each state, numbered from 0 without gaps.
    """
    order = np.argsort(block_of, kind="stable").astype(np.int32)
    first = np.concatenate([[0], np.cumsum(np.bincount(block_of))]).astype(np.int32)
    start = np.zeros(len(first), np.int64)
    nothing = np.empty(0, np.int32)
    return _plan(order, _inverse(order), first, start, nothing, np.zeros(len(first) - 1, np.int32))


def symmetric_pattern(transitions: sp.csr_array) -> sp.csr_array:
    """Return the graph of a chain, (n, n), without directions and without self-loops, all weights one."""
    n = transitions.shape[0]
    if not is_large(n):
        ones = sp.csr_array(
            (np.ones(transitions.nnz, np.int8), transitions.indices, transitions.indptr), transitions.shape
        )
        both = (ones + ones.T).tocsr()
        both.setdiag(0)
        both.eliminate_zeros()
        both.sort_indices()
        both.data.fill(1)
        return both
    columns = transposed(transitions)
    rows = Sparse(transitions.indptr, transitions.indices, transitions.data)
    back = Sparse(columns.indptr, columns.indices, columns.data)
    indptr = np.zeros(n + 1, transitions.indptr.dtype)
    no_room = np.empty(0, transitions.indices.dtype)
    share_runs(lambda begin, end: merge_patterns(rows, back, begin, end, indptr, no_room), n)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], transitions.indices.dtype)
    share_runs(lambda begin, end: merge_patterns(rows, back, begin, end, indptr, indices), n)
    return sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), transitions.shape)


@bare_kernel
def merge_patterns(rows: Sparse, columns: Sparse, begin: int, end: int, indptr: Ints, indices: Ints) -> None:
    """Write to `indices` what is in a row of either matrix and not on the diagonal, ascending.

    If there is no room in `indices`, write to ``indptr[i + 1]`` how much that is in row i.
    """
    for i in range(begin, end):
        at = indptr[i] if len(indices) > 0 else 0
        a, a_end = rows.indptr[i], rows.indptr[i + 1]
        b, b_end = columns.indptr[i], columns.indptr[i + 1]
        while a < a_end or b < b_end:
            if b == b_end or (a < a_end and rows.indices[a] <= columns.indices[b]):
                j = rows.indices[a]
                if b < b_end and columns.indices[b] == j:
                    b += 1
                a += 1
            else:
                j = columns.indices[b]
                b += 1
            if j != i:
                if len(indices) > 0:
                    indices[at] = j
                at += 1
        if len(indices) == 0:
            indptr[i + 1] = at


def plan_elimination(
    graph: sp.csr_array, order: Ints, most_entries: float, parts: Parts = ()
) -> EliminationPlan | None:
    """Return the plan of an elimination of the states of `graph` in an order equivalent to `order`.

    Parameters
    ----------
    graph : (n, n) csr_array
        Symmetric pattern without diagonal.
    order : (n,) int array
        A fill-reducing order.
    most_entries : float
        Give up as soon as the factors are seen to need more numbers than this.
    parts : sequence of pairs of int
        Where parts of the graph that do not touch each other begin and end in the order, if any are known.

    Returns
    -------
    EliminationPlan or None
        None when the fill exceeds `most_entries`.
    """
    n = graph.shape[0]
    order, parent = _in_postorder(order, _elimination_tree(graph, order, parts))
    position = _inverse(order)
    counts = column_counts(graph, order, position, parent)
    if counts.sum() - n > most_entries / 2:
        return None
    first = front_limits(parent, counts)
    front_of = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))
    last = first[1:] - 1
    above = parent[last]
    front_parent = np.where(above < 0, -1, front_of[above]).astype(np.int32)
    start = np.zeros(len(first), np.int64)
    # The boundary of a front is that of its last state; amalgamation never enlarges it.
    np.cumsum(counts[last] - 1, out=start[1:])
    boundary = _front_boundaries(graph, order, position, first, front_parent, start)
    num_children = np.bincount(front_parent[front_parent >= 0], minlength=len(last)).astype(np.int32)
    return _plan(order, position, first, start, boundary, num_children)


def _plan(
    order: Ints, position: Ints, first: Ints, start: Ints, boundary: Ints, num_children: Ints
) -> EliminationPlan:
    wide, rest = np.diff(first).astype(np.int64), np.diff(start)
    offset = np.zeros(len(first), np.int64)
    np.cumsum(wide * (wide + 2 * rest), out=offset[1:])
    stack, largest, flops = work_sizes(first, start, num_children)
    fronts = Fronts(order, position, first, start, boundary, num_children, offset)
    return EliminationPlan(fronts, int(offset[-1]), int(stack), int(largest), float(flops))


def _inverse(order: Ints) -> Ints:
    inverse = np.empty(len(order), np.int32)
    share_runs(lambda begin, end: write_inverse(order, begin, end, inverse), len(order))
    return inverse


@kernel
def write_inverse(order: Ints, begin: int, end: int, inverse: Ints) -> None:
    """Write the place in `order`, from `begin` to ``end - 1``, of each number there to `inverse`."""
    for k in range(begin, end):
        inverse[order[k]] = k


def _in_postorder(order: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return order and parents, (n,), with positions numbered so that each subtree is contiguous."""
    post = postorder(parent)
    place = _inverse(post)
    new_order, new_parent = np.empty((2, len(order)), np.int32)
    share_runs(
        lambda begin, end: write_numbered(order, parent, post, place, begin, end, new_order, new_parent),
        len(order),
    )
    return new_order, new_parent


@kernel
def write_numbered(
    order: Ints,
    parent: Ints,
    post: Ints,
    place: Ints,
    begin: int,
    end: int,
    new_order: Ints,
    new_parent: Ints,
) -> None:
    """Write order and parents, from place `begin` to ``end - 1`` of the postorder."""
    for k in range(begin, end):
        new_order[k] = order[post[k]]
        above = parent[post[k]]
        new_parent[k] = place[above] if above >= 0 else -1


def _elimination_tree(graph: sp.csr_array, order: Ints, parts: Parts) -> Ints:
    """Return the parent position of each position, -1 at a root; threads share the parts."""
    n, position = len(order), _inverse(order)
    parent, ancestor = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    alone = np.ones(n, bool)
    for begin, end in parts:
        alone[begin:end] = False

    def climb(positions: Ints) -> None:
        climb_tree(graph.indptr, graph.indices, order, position, positions, parent, ancestor)

    share_out(lambda k: climb(np.arange(*parts[k])), len(parts))
    climb(np.flatnonzero(alone))
    return parent


@kernel
def climb_tree(
    indptr: Ints, indices: Ints, order: Ints, position: Ints, positions: Ints, parent: Ints, ancestor: Ints
) -> None:
    """Write to `parent` those of all positions below the given ones (Liu's algorithm with path compression).

    The given positions are ascending, and what they touch before them was given earlier.
    """
    for j in positions:
        state = order[j]
        for entry in range(indptr[state], indptr[state + 1]):
            i = position[indices[entry]]
            while i != -1 and i < j:
                above = ancestor[i]
                ancestor[i] = j
                if above == -1:
                    parent[i] = j
                i = above


@kernel
def postorder(parent: Ints) -> Ints:
    """Return the positions in an order in which every subtree is contiguous and ends with its root."""
    n = len(parent)
    child = np.full(n, -1, np.int32)
    sibling = np.full(n, -1, np.int32)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            sibling[j] = child[parent[j]]
            child[parent[j]] = j
    post = np.empty(n, np.int32)
    path = np.empty(n, np.int32)
    done = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            j = path[depth]
            if child[j] >= 0:
                depth += 1
                path[depth] = child[j]
                child[j] = sibling[child[j]]
            else:
                post[done] = j
                done += 1
                depth -= 1
    return post


def column_counts(graph: sp.csr_array, order: Ints, position: Ints, parent: Ints) -> Ints:
    """Return the number of later positions that each position touches, plus one, (n,).

    Positions must be in postorder. A later position i is touched by all positions on the paths of the tree
    from its earlier neighbours up to it. These paths form a subtree with i on top; it is enough to know its
    leaves, and where the paths from two of them meet (Gilbert, Ng and Peyton 1994).

    Threads share the ranges between the positions with large subtrees. What a range says of positions above
    it, its first and last leaf of them, is added afterwards.
    """
    n = len(order)
    size = subtree_sizes(parent)
    first, counts = np.arange(n, dtype=np.int32) - size + 1, (size == 1).astype(np.int64)
    ancestor = np.arange(n, dtype=np.int32)
    tops = np.flatnonzero(size > max(n // SUBTREES, 1)) if is_large(n) else np.empty(0, np.intp)
    begins, ends = _between(tops, n)
    if len(begins) * len(tops) > MOST_LEAVES_PER_STATE * n:
        tops = tops[:0]
        begins, ends = _between(tops, n)
    tree = graph.indptr, graph.indices, order, position, parent, first

    def work(k: int) -> Ints:
        return np.asarray(count_range(*tree, begins[k], ends[k], tops, ancestor, counts))

    found = share_out(work, len(begins))
    start = np.cumsum([0, *map(len, found)])
    count_tops(*tree, tops, begins, start, np.concatenate(found), ancestor, counts)
    return counts


def _between(tops: Ints, n: int) -> tuple[Ints, Ints]:
    """Return where the ranges of positions before, between and after `tops` begin and end."""
    begins, ends = np.append(0, tops + 1), np.append(tops, n)
    return begins[begins < ends], ends[begins < ends]


@kernel
def subtree_sizes(parent: Ints) -> Ints:
    """Return the number of positions below each one, itself included, (n,)."""
    size = np.ones(len(parent), np.int32)
    for j in range(len(parent)):
        if parent[j] != -1:
            size[parent[j]] += size[j]
    return size


@inlined
def where_paths_meet(leaf: int, ancestor: Ints) -> int:
    """Return the first position above a leaf that is not done, and shorten the way to it."""
    meet = leaf
    while meet != ancestor[meet]:
        meet = ancestor[meet]
    while leaf != meet:
        after = ancestor[leaf]
        ancestor[leaf] = meet
        leaf = after
    return meet


@kernel
def count_range(
    indptr: Ints,
    indices: Ints,
    order: Ints,
    position: Ints,
    parent: Ints,
    first: Ints,
    begin: int,
    end: int,
    tops: Ints,
    ancestor: Ints,
    counts: Ints,
) -> Ints:
    """Write the counts of the positions `begin` to ``end - 1``, and return what they say of `tops`.

    Each row of the answer, (k, 5), is about one of them: its number in `tops`, the first leaf and the last
    one, the first position below the last leaf, and what its count changes by.
    """
    inside = end - begin
    leaf = np.full(inside + len(tops), -1, np.int32)  # the latest leaf of each position
    latest = np.full(inside + len(tops), -1, np.int32)  # the first position below that leaf
    earliest = np.full(len(tops), -1, np.int32)
    change = np.zeros(len(tops), np.int64)
    for j in range(begin, end):
        for entry in range(indptr[order[j]], indptr[order[j] + 1]):
            i = position[indices[entry]]
            if i <= j:
                continue
            place = i - begin if i < end else inside + np.searchsorted(tops, i)
            if first[j] <= latest[place]:
                continue
            latest[place] = first[j]
            counts[j] += 1
            if leaf[place] != -1:
                meet = where_paths_meet(leaf[place], ancestor)
                if meet < end:
                    counts[meet] -= 1
                else:
                    change[np.searchsorted(tops, meet)] -= 1
            elif i >= end:
                earliest[place - inside] = j
            leaf[place] = j
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(begin, end):
        above = parent[j]
        if above != -1:
            if above < end:
                counts[above] += counts[j] - 1
            else:
                change[np.searchsorted(tops, above)] += counts[j] - 1
    which = np.flatnonzero((earliest != -1) | (change != 0))
    found = np.empty((len(which), 5), np.int64)
    for row in range(len(which)):
        top = which[row]
        found[row, 0], found[row, 1], found[row, 2] = top, earliest[top], leaf[inside + top]
        found[row, 3], found[row, 4] = latest[inside + top], change[top]
    return found


@kernel
def count_tops(
    indptr: Ints,
    indices: Ints,
    order: Ints,
    position: Ints,
    parent: Ints,
    first: Ints,
    tops: Ints,
    begins: Ints,
    start: Ints,
    found: Ints,
    ancestor: Ints,
    counts: Ints,
) -> None:
    """Write the counts of `tops`, given what the ranges before and between them say.

    The rows ``start[k]`` to ``start[k + 1] - 1`` of `found` are those of the range that begins at
    ``begins[k]``.
    """
    leaf, latest = np.full(len(tops), -1, np.int32), np.full(len(tops), -1, np.int32)
    k = 0
    for top in range(len(tops)):
        j = tops[top]
        while k < len(begins) and begins[k] < j:
            for row in range(start[k], start[k + 1]):
                i = found[row, 0]
                counts[tops[i]] += found[row, 4]
                if found[row, 1] != -1:
                    if leaf[i] != -1:
                        counts[where_paths_meet(leaf[i], ancestor)] -= 1
                    leaf[i], latest[i] = found[row, 2], found[row, 3]
            k += 1
        for entry in range(indptr[order[j]], indptr[order[j] + 1]):
            above = position[indices[entry]]
            if above <= j:
                continue
            i = np.searchsorted(tops, above)
            if first[j] <= latest[i]:
                continue
            latest[i] = first[j]
            counts[j] += 1
            if leaf[i] != -1:
                counts[where_paths_meet(leaf[i], ancestor)] -= 1
            leaf[i] = j
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for top in range(len(tops)):
        j = tops[top]
        if parent[j] != -1:
            counts[parent[j]] += counts[j] - 1


@kernel
def front_limits(parent: Ints, counts: Ints) -> Ints:
    """Return where each front begins, and the end; a front joins its last child if that adds few zeros."""
    n = len(parent)
    first = np.empty(n + 1, np.int32)
    filled = np.zeros(n + 1, np.float64)
    for j in range(n):
        filled[j + 1] = filled[j] + counts[j]
    fronts = 0
    for j in range(n):
        first[fronts] = j
        fronts += 1
        # Only the child that ends right before can be joined: its positions are contiguous with these.
        while fronts > 1 and parent[first[fronts - 1] - 1] == first[fronts - 1]:
            start = first[fronts - 2]
            wide = j + 1 - start
            size = wide + counts[j] - 1
            trapezoid = float(wide) * float(size) - 0.5 * float(wide) * float(wide - 1)
            zeros = (trapezoid - (filled[j + 1] - filled[start])) / trapezoid
            if zeros > 0.05 and (wide > 48 or zeros > 0.15) and (wide > 16 or zeros > 0.5) and wide > 4:
                break
            fronts -= 1
    first[fronts] = n
    return first[: fronts + 1].copy()


def _front_boundaries(
    graph: sp.csr_array, order: Ints, position: Ints, first: Ints, front_parent: Ints, start: Ints
) -> Ints:
    """Return the later positions that each front touches, ascending; several threads look at subtrees."""
    boundary = np.empty(start[-1], np.int32)
    below = first_children(front_parent)
    plan = graph.indptr, graph.indices, order, position, first, start
    last, size, is_low = cut_tree(front_parent, np.diff(start).astype(np.float64), SUBTREES)
    subtrees = np.flatnonzero(is_low[last]) if is_large(len(order)) else last[:0]

    def work(k: int) -> None:
        end = last[subtrees[k]] + 1
        write_boundaries(*plan, *below, np.arange(end - size[end - 1], end), boundary)

    share_out(work, len(subtrees))
    left = np.ones(len(first) - 1, bool)
    for end in last[subtrees] + 1:
        left[end - size[end - 1] : end] = False
    write_boundaries(*plan, *below, np.flatnonzero(left), boundary)
    return boundary


def cut_tree(parent: Ints, work: Floats, parts: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Cut a tree in postorder into subtrees that have at most a part of all work, and single nodes above.

    Parameters
    ----------
    parent : (m,) int array
        Parent of each node, -1 at a root.
    work : (m,) array
        Work of each node.
    parts : int
        A subtree has at most the ``parts``-th part of the work.

    Returns
    -------
    int array, (m,) int array, (m,) bool array
        The last node of each subtree and the single nodes, ascending; the number of nodes below each node,
        itself included; and whether a node is in a subtree.
    """
    total, size = work.copy(), np.ones(len(work), np.int64)
    add_to_parents(parent, total, size)
    is_low = total <= work.sum() / parts
    return np.flatnonzero(~is_low | (parent < 0) | ~is_low[parent]), size, is_low


@kernel
def add_to_parents(parent: Ints, total: Floats, size: Ints) -> None:
    """Add to the total and to the size of each node those of all nodes below it."""
    for node in range(len(parent)):
        if parent[node] >= 0:
            total[parent[node]] += total[node]
            size[parent[node]] += size[node]


@kernel
def first_children(parent: Ints) -> tuple[Ints, Ints]:
    """Return a child of each node, and the next child of the same parent; -1 where there is none."""
    child = np.full(len(parent), -1, np.int32)
    sibling = np.full(len(parent), -1, np.int32)
    for node in range(len(parent)):
        if parent[node] >= 0:
            sibling[node] = child[parent[node]]
            child[parent[node]] = node
    return child, sibling


@kernel
def write_boundaries(
    indptr: Ints,
    indices: Ints,
    order: Ints,
    position: Ints,
    first: Ints,
    start: Ints,
    child: Ints,
    sibling: Ints,
    which: Ints,
    boundary: Ints,
) -> None:
    """Write to `boundary` the later positions that the fronts `which` touch, ascending, children first."""
    seen = np.full(len(order), -1, np.int32)
    for front in which:
        last = first[front + 1] - 1
        end = start[front]
        for j in range(first[front], last + 1):
            for entry in range(indptr[order[j]], indptr[order[j] + 1]):
                i = position[indices[entry]]
                if i > last and seen[i] != front:
                    seen[i] = front
                    boundary[end] = i
                    end += 1
        below = child[front]
        while below >= 0:
            for entry in range(start[below], start[below + 1]):
                i = boundary[entry]
                if i > last and seen[i] != front:
                    seen[i] = front
                    boundary[end] = i
                    end += 1
            below = sibling[below]
        boundary[start[front] : end].sort()


@kernel
def work_sizes(first: Ints, start: Ints, num_children: Ints) -> tuple[float, float, float]:
    """Return the largest size of the stack of rests, the size of the largest front, and the flops."""
    rests = np.empty(len(first), np.float64)
    waiting = 0
    stack, most, largest, flops = 0.0, 0.0, 0.0, 0.0
    for front in range(len(first) - 1):
        rest = float(start[front + 1] - start[front])
        size = float(first[front + 1] - first[front]) + rest
        largest = max(largest, size * size)
        flops += 2.0 * (size**3 - rest**3) / 3.0
        for _ in range(num_children[front]):
            waiting -= 1
            stack -= rests[waiting]
        rests[waiting] = rest * (rest + 1.0)
        stack += rests[waiting]
        waiting += 1
        most = max(most, stack)
    return most, largest, flops
