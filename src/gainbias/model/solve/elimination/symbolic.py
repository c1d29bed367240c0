"""The plan of an elimination: its order and its fill-in, before any number is computed.

`plan_sparse` chooses an order and plans the elimination; `plan_dense` is for small or full chains.

Eliminating states one by one in a given order fills in new transitions. Where they fall is a property of
the graph alone and is described by the *elimination tree* (Liu 1990): the parent of a state is the first
later state that it touches when it is eliminated. States that touch the same later states are eliminated
together as one *front*, a small dense matrix (Duff and Reid 1983); children pass the rest of their front
on to their parent. `plan_elimination` finds tree and fronts for a given order.

The order decides how much fills in. Minimum degree (through SuperLU, which SciPy ships) is quick and good on
flat graphs, and takes forever on expanding graphs; on narrow ones, an order by levels (Cuthill and McKee
1969) is as good and found sooner. Nested dissection (METIS, in the
`solvers` extra) is slower but never takes forever, and gives less fill-in when there is much of it. So
minimum degree is used unless the graph expands, and nested dissection where it is worth its time. A large
graph that is long or flat is cut along its breadth-first levels first (`dissected_order`): that takes less
time than either, fills in about as little as METIS does, and several threads can work on the parts.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gainbias.kernels import bare_kernel, inlined, is_large, is_worth_sharing, share_out, share_runs
from gainbias.model.solve.elimination.numeric import Fronts, Sparse
from gainbias.model.solve.elimination.orders import (
    dissected_order,
    level_by_level,
    minimum_degree,
    nested_dissection,
    widest_level,
)
from gainbias.model.solve.elimination.tree import (
    SUBTREES,
    Parts,
    children_of,
    column_counts,
    cut_tree,
    elimination_tree,
    in_postorder,
    inverse_of,
)
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import PER_OPERATION, PER_ORDERED_ENTRY, PER_ORDERED_STATE
from gainbias.model.solve.vectors import rows_of, transposed
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats, Ints

SMALL = 5_000
"""Below this size even an expanding graph is ordered in about a second."""

LARGE, FLAT = 100_000, 3.0
"""A larger graph is cut along its levels if none is wider than this many times the root of its size."""

FLOPS_PER_STATE_OF_METIS = 1e5
"""METIS takes about as long per state as this many flops of the elimination."""

NARROW = 1
"""Up to this width the order of a breadth-first search fills in as little as any, and is quicker to find."""

FLOPS_PER_CUBED_WIDTH = 20.0
"""Grids, tori and networks of queues, in two and three dimensions, take 10 to 36 flops per cubed width."""

ENTRIES_PER_SQUARED_WIDTH = 4.5
"""Factors of flat graphs have about this many numbers per squared width each time that parts are halved."""


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
    """Raise an error if finding an order, which cannot be interrupted, would exceed the remaining time."""
    if seconds > budget.watch.remaining:
        limit = f"the time limit of {budget.watch.time_limit:g} s has passed before an order is found"
        raise OutOfTimeError(f"{limit}, which takes about {seconds:.1g} s")


def predicted_flops(num_states: int, graph_entries: int, width: int) -> float:
    """Return about what an elimination costs, from the widest breadth-first level of the graph.

    A level separates the states before it from those after it, and the largest separator becomes a dense
    block. The entries of the graph itself give a lower bound: factors with this many entries take at least
    this arithmetic.

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
    return _plan(order, inverse_of(order), first, start, nothing, np.zeros(len(first) - 1, np.int32))


def symmetric_pattern(transitions: sp.csr_array) -> sp.csr_array:
    """Return the graph of a chain, (n, n), without directions and without self-loops, all weights one."""
    n = transitions.shape[0]
    if not is_worth_sharing(n):
        ones = sp.csr_array(
            (np.ones(transitions.nnz, np.int8), transitions.indices, transitions.indptr), transitions.shape
        )
        both = (ones + ones.T).tocsr()
        both.setdiag(0)
        both.eliminate_zeros()
        both.sort_indices()
        both.data.fill(1)
        return both
    rows, back = rows_of(transitions), rows_of(transposed(transitions))
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
    order, parent = in_postorder(order, elimination_tree(graph, order, parts))
    position = inverse_of(order)
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


def front_limits(parent: Ints, counts: Ints) -> Ints:
    """Return where each front begins, and the end; a front joins its last child if that adds few zeros."""
    first = np.empty(len(parent) + 1, np.int32)
    # These are whole numbers, so that they are not rounded.
    filled = np.append(0.0, np.cumsum(counts, dtype=np.float64))
    fronts = join_children(parent, counts, filled, first)
    return first[: fronts + 1].copy()


@bare_kernel
def join_children(parent: Ints, counts: Ints, filled: Floats, first: Ints) -> int:
    """Write to `first` what `front_limits` returns, and return the number of fronts.

    The counts of the states before j add up to ``filled[j]``.
    """
    n = len(parent)
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
    return fronts


def _front_boundaries(
    graph: sp.csr_array, order: Ints, position: Ints, first: Ints, front_parent: Ints, start: Ints
) -> Ints:
    """Return the later positions that each front touches, ascending; several threads look at subtrees."""
    boundary = np.empty(start[-1], np.int32)
    below = children_of(front_parent)
    plan = graph.indptr, graph.indices, order, position, first, start
    last, size, is_low = cut_tree(front_parent, np.diff(start).astype(np.float64), SUBTREES)
    subtrees = np.flatnonzero(is_low[last]) if is_large(len(order)) else last[:0]

    def write(which: Ints) -> None:
        write_boundaries(*plan, *below, which, np.full(len(order), -1, np.int32), boundary)

    def work(k: int) -> None:
        end = last[subtrees[k]] + 1
        write(np.arange(end - size[end - 1], end))

    share_out(work, len(subtrees))
    left = np.ones(len(first) - 1, bool)
    for end in last[subtrees] + 1:
        left[end - size[end - 1] : end] = False
    write(np.flatnonzero(left))
    return boundary


@bare_kernel
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
    seen: Ints,
    boundary: Ints,
) -> None:
    """Write to `boundary` the later positions that the fronts `which` touch, ascending, children first.

    The last of these fronts that has touched each position goes to `seen`, where all are -1 so far.
    """
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
        sort_ascending(boundary, start[front], end)


@inlined
def sort_ascending(numbers: Ints, begin: int, end: int) -> None:
    """Sort ``numbers[begin:end]`` (Shell 1959); the sort of NumPy would be half a second of compiling."""
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(begin + gap, end):
            number, place = numbers[at], at
            while place >= begin + gap and numbers[place - gap] > number:
                numbers[place] = numbers[place - gap]
                place -= gap
            numbers[place] = number
        gap //= 3


def work_sizes(first: Ints, start: Ints, num_children: Ints) -> tuple[float, float, float]:
    """Return the largest size of the stack of rests, the size of the largest front, and the flops."""
    return measure_work(first, start, num_children, np.empty(len(first)))


@bare_kernel
def measure_work(first: Ints, start: Ints, num_children: Ints, rests: Floats) -> tuple[float, float, float]:
    """Return what `work_sizes` does; in `rests` there is room for the rests that wait for their parents."""
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
