"""The elimination tree: its parents, its order, how many states each state touches, and how it is cut.

The parent of a state is the first later state that it touches when it is eliminated (Liu 1990).
`elimination_tree` finds the parents, `in_postorder` numbers the states so that each subtree is contiguous,
and `column_counts` says how many later states each state touches, without eliminating any. `cut_tree` cuts a
tree into subtrees of which none has much of the work, so that threads can share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gainbias.kernels import bare_kernel, inlined, is_large, share_out, share_runs
from gainbias.types import Floats, Ints

SUBTREES = 64
"""The positions that others touch are found separately for about this many parts of a large tree."""

MOST_LEAVES_PER_STATE = 4
"""A tree is not worked on in parts if they could have more first and last leaves than this per state."""

Parts: TypeAlias = Sequence[tuple[int, int]]
"""Where parts of an order begin and end."""


def inverse_of(order: Ints) -> Ints:
    """Return the place in `order` of each number, (n,)."""
    inverse = np.empty(len(order), np.int32)
    share_runs(lambda begin, end: write_inverse(order, begin, end, inverse), len(order))
    return inverse


@bare_kernel
def write_inverse(order: Ints, begin: int, end: int, inverse: Ints) -> None:
    """Write the place in `order`, from `begin` to ``end - 1``, of each number there to `inverse`."""
    for k in range(begin, end):
        inverse[order[k]] = k


def in_postorder(order: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return order and parents, (n,), with positions numbered so that each subtree is contiguous."""
    post = postorder(parent)
    place = inverse_of(post)
    new_order, new_parent = np.empty((2, len(order)), np.int32)
    share_runs(
        lambda begin, end: write_numbered(order, parent, post, place, begin, end, new_order, new_parent),
        len(order),
    )
    return new_order, new_parent


@bare_kernel
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


def elimination_tree(graph: sp.csr_array, order: Ints, parts: Parts) -> Ints:
    """Return the parent position of each position, -1 at a root; threads share the parts."""
    n, position = len(order), inverse_of(order)
    parent, ancestor = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    alone = np.ones(n, bool)
    for begin, end in parts:
        alone[begin:end] = False

    def climb(positions: Ints) -> None:
        climb_tree(graph.indptr, graph.indices, order, position, positions, parent, ancestor)

    share_out(lambda k: climb(np.arange(*parts[k])), len(parts))
    climb(np.flatnonzero(alone))
    return parent


@bare_kernel
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


def children_of(parent: Ints) -> tuple[Ints, Ints]:
    """Return the first child of each node, and the next child of the same parent; -1 where there is none."""
    child, sibling = np.full((2, len(parent)), -1, np.int32)
    write_children(parent, child, sibling)
    return child, sibling


@bare_kernel
def write_children(parent: Ints, child: Ints, sibling: Ints) -> None:
    """Write to `child` and `sibling` what `children_of` returns."""
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] >= 0:
            sibling[node] = child[parent[node]]
            child[parent[node]] = node


def postorder(parent: Ints) -> Ints:
    """Return the positions in an order in which every subtree is contiguous and ends with its root."""
    post, path = np.empty((2, len(parent)), np.int32)
    write_postorder(parent, *children_of(parent), path, post)
    return post


@bare_kernel
def write_postorder(parent: Ints, child: Ints, sibling: Ints, path: Ints, post: Ints) -> None:
    """Write to `post` what `postorder` returns; `path` is room, and `child` is overwritten."""
    done = 0
    for root in range(len(parent)):
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


def column_counts(graph: sp.csr_array, order: Ints, position: Ints, parent: Ints) -> Ints:
    """Return the number of later positions that each position touches, plus one, (n,).

    Positions must be in postorder. A later position i is touched by all positions on the paths of the tree
    from its earlier neighbours up to it. These paths form a subtree with i on top; it is enough to know its
    leaves, and where the paths from two of them meet (Gilbert, Ng and Peyton 1994).

    Threads share the ranges between the positions with large subtrees. The leaves that a range has for
    positions above it are added afterwards.
    """
    n = len(order)
    size = subtree_sizes(parent)
    first = np.arange(n, dtype=np.int32) - size + 1
    counts: Ints = (size == 1).astype(np.int64)
    ancestor = np.arange(n, dtype=np.int32)
    tops = np.flatnonzero(size > max(n // SUBTREES, 1)) if is_large(n) else np.empty(0, np.intp)
    begins, ends = _between(tops, n)
    # On a path, say, nearly all are tops, which no other thread can work on.
    if 2 * len(tops) > n or len(begins) * len(tops) > MOST_LEAVES_PER_STATE * n:
        tops = tops[:0]
        begins, ends = _between(tops, n)
    tree = graph.indptr, graph.indices, order, position, parent, first

    def work(k: int) -> Ints:
        """Write the counts of a range, and return what it says of which numbers in `tops`."""
        leaf, latest = np.full((2, ends[k] - begins[k] + len(tops)), -1, np.int32)
        said = np.empty((len(tops), 4), np.int64)
        count_range(*tree, begins[k], ends[k], tops, ancestor, counts, leaf, latest, said)
        which = np.flatnonzero((said[:, 0] != -1) | (said[:, 3] != 0))
        return np.column_stack([which, said[which]])

    found = share_out(work, len(begins))
    if len(tops) > 0:
        start = np.cumsum([0, *map(len, found)])
        room = np.full((2, len(tops)), -1, np.int32)
        count_tops(*tree, tops, begins, start, np.concatenate(found), ancestor, counts, *room)
    return counts


def _between(tops: Ints, n: int) -> tuple[Ints, Ints]:
    """Return where the ranges of positions before, between and after `tops` begin and end."""
    begins, ends = np.append(0, tops + 1), np.append(tops, n)
    return begins[begins < ends], ends[begins < ends]


def subtree_sizes(parent: Ints) -> Ints:
    """Return the number of positions below each one, itself included, (n,)."""
    size = np.ones(len(parent), np.int32)
    add_sizes(parent, size)
    return size


@bare_kernel
def add_sizes(parent: Ints, size: Ints) -> None:
    """Add to the size of each position those of all positions below it."""
    for j in range(len(parent)):
        if parent[j] != -1:
            size[parent[j]] += size[j]


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


@inlined
def place_of(number: int, numbers: Ints) -> int:
    """Return the place of a number among ascending numbers, of which it is one."""
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@bare_kernel
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
    leaf: Ints,
    latest: Ints,
    said: Ints,
) -> None:
    """Write the counts of the positions `begin` to ``end - 1``, and to `said` what they say of `tops`.

    Each row of `said`, (k, 4), is about one of `tops`: the first leaf and the last one, the first position
    below the last leaf, and what its count changes by. `leaf` has room for the latest leaf of each of these
    positions and of `tops`, and `latest` for the first position below that leaf; all of them are -1 so far.
    """
    inside = end - begin
    for top in range(len(tops)):
        said[top, 0], said[top, 3] = -1, 0
    for j in range(begin, end):
        for entry in range(indptr[order[j]], indptr[order[j] + 1]):
            i = position[indices[entry]]
            if i <= j:
                continue
            place = i - begin if i < end else inside + place_of(i, tops)
            if first[j] <= latest[place]:
                continue
            latest[place] = first[j]
            counts[j] += 1
            if leaf[place] != -1:
                meet = where_paths_meet(leaf[place], ancestor)
                if meet < end:
                    counts[meet] -= 1
                else:
                    said[place_of(meet, tops), 3] -= 1
            elif i >= end:
                said[place - inside, 0] = j
            leaf[place] = j
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(begin, end):
        above = parent[j]
        if above != -1:
            if above < end:
                counts[above] += counts[j] - 1
            else:
                said[place_of(above, tops), 3] += counts[j] - 1
    for top in range(len(tops)):
        said[top, 1], said[top, 2] = leaf[inside + top], latest[inside + top]


@bare_kernel
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
    leaf: Ints,
    latest: Ints,
) -> None:
    """Write the counts of `tops`, given what the ranges before and between them say.

    The rows ``start[k]`` to ``start[k + 1] - 1`` of `found` are those of the range that begins at
    ``begins[k]``: a number in `tops`, and what `count_range` says of it. `leaf` and `latest` are as there.
    """
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
            i = place_of(above, tops)
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


@bare_kernel
def add_to_parents(parent: Ints, total: Floats, size: Ints) -> None:
    """Add to the total and to the size of each node those of all nodes below it."""
    for node in range(len(parent)):
        if parent[node] >= 0:
            total[parent[node]] += total[node]
            size[parent[node]] += size[node]
