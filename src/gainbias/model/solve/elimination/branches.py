"""Branches of an elimination tree, which several threads eliminate and solve with at the same time.

`find_branches` cuts the tree of a large elimination into branches; `eliminate_branches` eliminates them, and
`Branches` solves with their factors. The branches depend only on the plan, never on the number of threads,
and the contributions of branches to their parents are added up in a fixed order, so no bit depends on
threads.

A branch is a front with everything below it, if that is little work, or a single front above such
branches. Branches of one level do not touch each other. Near the root there are few, large fronts: there
threads share the rows of a front. Solves go through such a front in strips of positions: first within a
strip, then from the strip to all other positions, which threads share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gainbias.kernels import share_blocks, share_out
from gainbias.model.solve.elimination.numeric import (
    PANEL,
    Fronts,
    Sparse,
    add_products,
    add_rest,
    add_rows,
    assemble_front,
    down_left_inside,
    down_right_inside,
    eliminate_front,
    eliminate_panel,
    factorise,
    keep_front,
    pass_on,
    up_left_inside,
    up_right_inside,
)
from gainbias.model.solve.elimination.symbolic import work_sizes
from gainbias.model.solve.elimination.tree import cut_tree
from gainbias.types import Floats, Ints

LEAST_TO_SHARE = 2e9
"""An elimination of fewer operations, about a tenth of a second of work, is left to one thread."""

BRANCHES, MOST_BRANCHES = 128, 5_000
"""A branch is at most this part of the work; a tree that falls into more branches than this is not cut."""

OPERATIONS_PER_FACTOR = 50.0
"""A number in the factors costs about as much as this many operations, because it is read in many solves."""

WIDE_FRONT, MANY_FRONTS = 5e8, 8
"""Threads share the rows of a front that takes more operations than the first, unless its level has at
least as many branches as the second: then each thread takes a whole front, and need not wait for others
after each panel."""

ROWS_TOGETHER = 64
"""Number of rows of a wide front that one thread works on at a time."""

STRIP, STRIP_ROWS = 1024, 64
"""A solve goes through this many positions of a wide front together, and a thread takes this many others."""

FEW_FRONTS = 4
"""In a level with fewer branches than this threads share the rows of wide fronts when they solve, too."""

FRONTS_AT_ONCE = 32
"""Memory is set aside for the fronts of this many threads."""


InStrips = Callable[[Floats, int, Floats], None]
"""Takes the factors of a front, the number of its own positions, and all its positions, which it changes."""


class Branch(NamedTuple):
    """Some fronts whose children are among them or are the last fronts of other branches.

    Attributes
    ----------
    begin, end : int
        It has the fronts `begin` to ``end - 1``.
    low, high : int
        They eliminate the positions `low` to ``high - 1``.
    fronts : Fronts
        The fronts with positions that count from `low`; those outside come next, in the order of `outside`.
    outside : (k,) int array
        Later positions that the branch touches, ascending.
    children : tuple of int
        The branches below, ascending.
    places : tuple of int arrays
        Where the outside of each child is, in the positions of `fronts`.
    sizes : tuple of int
        Entries of the stack and of the largest front that its elimination needs.
    is_wide : bool
        Whether threads share its rows.
    """

    begin: int
    end: int
    low: int
    high: int
    fronts: Fronts
    outside: Ints
    children: tuple[int, ...]
    places: tuple[Ints, ...]
    sizes: tuple[int, int]
    is_wide: bool

    def own(self, values: Floats) -> Floats:
        """Return the factors of the branch, from those of all."""
        return values[self.fronts.offset[0] : self.fronts.offset[-1]]


@dataclass(frozen=True)
class Branches:
    """All branches of an elimination, children before parents.

    Attributes
    ----------
    parts : list of Branch
        The branches.
    levels : list of list of int
        Numbers of branches that do not touch each other, children before parents, much work first.
    """

    parts: list[Branch]
    levels: list[list[int]]

    @property
    def bytes_needed(self) -> int:
        """Memory that threads need while they eliminate, and for positions that count from a branch."""
        rests = sum(len(branch.outside) * (len(branch.outside) + 1) for branch in self.parts)
        own = max((sum(branch.sizes) for branch in self.parts if not branch.is_wide), default=0)
        wide = max((sum(branch.sizes) for branch in self.parts if branch.is_wide), default=0)
        boundary = sum(len(branch.fronts.boundary) for branch in self.parts)
        return 8 * (rests + FRONTS_AT_ONCE * own + wide) + 4 * boundary

    def go_up(
        self,
        work: Callable[[Fronts, Floats, Floats], Any],
        values: Floats,
        x: Floats,
        in_strips: InStrips | None = None,
    ) -> list[Any]:
        """Apply `work` up all branches: it changes `x`, by position, and adds to later positions.

        `in_strips` does the same in a wide front. Returns what `work` returned for each branch.
        """
        handed: list[Floats] = [np.empty(0)] * len(self.parts)
        results: list[Any] = [None] * len(self.parts)

        def climb(number: int) -> None:
            branch = self.parts[number]
            own = branch.high - branch.low
            y = np.zeros(own + len(branch.outside))
            y[:own] = x[branch.low : branch.high]
            for child, place in zip(branch.children, branch.places, strict=True):
                y[place] += handed[child]
            if in_strips is None or not branch.is_wide:
                results[number] = work(branch.fronts, values, y)
            else:
                in_strips(branch.own(values), own, y)
            x[branch.low : branch.high] = y[:own]
            handed[number] = y[own:]

        for level in self.levels:
            self._visit(climb, level)
        return results

    def go_down(
        self,
        work: Callable[[Fronts, Floats, Floats], Any],
        values: Floats,
        x: Floats,
        in_strips: InStrips,
    ) -> None:
        """Apply `work` down all branches: it changes `x`, by position, and reads later positions."""

        def descend(number: int) -> None:
            branch = self.parts[number]
            own = branch.high - branch.low
            y = np.concatenate([x[branch.low : branch.high], x[branch.outside]])
            if branch.is_wide:
                in_strips(branch.own(values), own, y)
            else:
                work(branch.fronts, values, y)
            x[branch.low : branch.high] = y[:own]

        for level in reversed(self.levels):
            self._visit(descend, level)

    def _visit(self, work: Callable[[int], None], level: list[int]) -> None:
        """Let threads share the branches of a level, or their rows if these are few and wide."""
        if len(level) < FEW_FRONTS and all(self.parts[number].is_wide for number in level):
            for number in level:
                work(number)
        else:
            share_out(lambda k: work(level[k]), len(level))


def find_branches(fronts: Fronts) -> Branches | None:
    """Return the branches of an elimination, or None if it is too little work for more than one."""
    wide, rest = np.diff(fronts.first).astype(np.float64), np.diff(fronts.start).astype(np.float64)
    operations = 2.0 * ((wide + rest) ** 3 - rest**3) / 3.0
    work = operations + OPERATIONS_PER_FACTOR * np.diff(fronts.offset)
    if work.sum() < LEAST_TO_SHARE:
        return None
    above = np.full(len(wide), -1, np.int64)
    touches = rest > 0.0
    above[touches] = np.searchsorted(fronts.first, fronts.boundary[fronts.start[:-1][touches]], "right") - 1
    last, size, is_low = cut_tree(above, work, BRANCHES)
    if not 1 < len(last) <= MOST_BRANCHES:
        return None
    number = np.full(len(wide), -1, np.int64)
    number[last] = np.arange(len(last))
    parent = np.where(above[last] < 0, -1, number[above[last]])
    children: list[list[int]] = [[] for _ in last]
    level = np.zeros(len(last), np.int64)
    for child, over in enumerate(parent):
        if over >= 0:
            children[over].append(child)
            level[over] = max(level[over], level[child] + 1)

    is_wide = (operations[last] > WIDE_FRONT) & (np.bincount(level)[level] < MANY_FRONTS)

    def branch(k: int) -> Branch:
        end = int(last[k]) + 1
        begin = end - int(size[last[k]]) if is_low[last[k]] else end - 1
        return _branch(fronts, begin, end, last[children[k]], tuple(children[k]), bool(is_wide[k]))

    parts = share_out(branch, len(last))
    done = np.append(0.0, np.cumsum(work))
    amount = done[last + 1] - done[np.where(is_low[last], last + 1 - size[last], last)]
    most_first = np.argsort(-amount, kind="stable")
    levels = [[int(k) for k in most_first if level[k] == height] for height in range(int(level.max()) + 1)]
    return Branches(parts, levels)


def _branch(
    fronts: Fronts, begin: int, end: int, child_fronts: Ints, children: tuple[int, ...], is_wide: bool
) -> Branch:
    first, start = fronts.first[begin : end + 1], fronts.start[begin : end + 1]
    low, high = int(first[0]), int(first[-1])
    outside = fronts.boundary[start[-2] : start[-1]]

    def own(positions: Ints) -> Ints:
        """Return positions, counted from `low`, with those outside next to each other."""
        here = positions - low
        beyond = positions >= high
        here[beyond] = high - low + np.searchsorted(outside, positions[beyond])
        return here

    boundary = own(fronts.boundary[start[0] : start[-1]])
    counts = fronts.num_children[begin:end]
    local = Fronts(
        fronts.order[low:high],
        fronts.position[:0],
        first - low,
        start - start[0],
        boundary,
        counts,
        fronts.offset[begin : end + 1],
    )
    places = tuple(own(fronts.boundary[fronts.start[f] : fronts.start[f + 1]]) for f in child_fronts)
    size = high - low + len(outside)
    is_joint = len(children) > 0 or end - begin == 1
    stack, largest, _ = work_sizes(first, start, counts) if not is_joint else (0, size**2, 0)
    sizes = int(stack), int(largest)
    return Branch(begin, end, low, high, local, outside, children, places, sizes, is_joint and is_wide)


def eliminate_branches(
    branches: Branches,
    rows: Sparse,
    columns: Sparse,
    leak: Floats,
    fronts: Fronts,
    factors: Floats,
    progress: Floats,
) -> None:
    """Eliminate all states and fill `factors`, with the same bits as `factorise` (which see)."""
    rests: dict[int, Floats] = {}
    # New memory would be cleared by the system while threads wait, so wide fronts share one piece of it.
    wide_room = np.empty(max((sum(branch.sizes) for branch in branches.parts if branch.is_wide), default=0))

    def work(number: int) -> None:
        branch = branches.parts[number]
        if progress[1] != 0.0:
            return  # and so will all that come after it
        if branch.children or branch.end - branch.begin == 1:
            chain = rows, columns, leak
            room = wide_room if branch.is_wide else np.empty(sum(branch.sizes))
            rests[number] = _eliminate_joint(branch, branches, rests, *chain, fronts, factors, room, progress)
            return
        stack, room = map(np.empty, branch.sizes)
        factorise(rows, columns, leak, fronts, branch.begin, branch.end, factors, stack, room, progress)
        rests[number] = stack[: len(branch.outside) * (len(branch.outside) + 1)].copy()

    for level in branches.levels:
        shared = [number for number in level if not branches.parts[number].is_wide]
        share_out(lambda k, shared=shared: work(shared[k]), len(shared))  # type: ignore[misc]
        for number in level:
            if branches.parts[number].is_wide:
                work(number)


def _eliminate_joint(
    branch: Branch,
    branches: Branches,
    rests: dict[int, Floats],
    rows: Sparse,
    columns: Sparse,
    leak_in: Floats,
    fronts: Fronts,
    factors: Floats,
    room: Floats,
    progress: Floats,
) -> Floats:
    """Eliminate the only front of a branch and return the rest of it, for its parent."""
    f, wide, rest = branch.begin, branch.high - branch.low, len(branch.outside)
    size = wide + rest
    front, leak = room[: size * size], np.zeros(size)
    square = front.reshape(size, size)
    together = ROWS_TOGETHER if branch.is_wide else size
    share_blocks(lambda low, high: square[low:high].fill(0.0), size, together)
    where = np.empty(len(fronts.order), np.int32)
    assemble_front(square, leak, f, where, fronts, rows, columns, leak_in)
    # As in `factorise` the last child comes first.
    for child in reversed(branch.children):
        place, handed = where[branches.parts[child].outside].astype(np.int64), rests.pop(child)
        share_blocks(
            lambda low, high, p=place, h=handed: add_rest(square, leak, p, len(p), h, low, high),  # type: ignore[misc]
            len(place),
            together,
        )
    if branch.is_wide:
        for begin in range(0, wide, PANEL):
            end = min(begin + PANEL, wide)
            if progress[1] != 0.0:
                break
            eliminate_panel(front, size, leak, begin, end)
            share_blocks(
                lambda low, high, begin=begin, end=end: pass_on(  # type: ignore[misc]
                    front, size, leak, begin, end, end + low, end + high
                ),
                size - end,
                together,
            )
    else:
        eliminate_front(front, size, leak, wide, progress)
    left = np.empty(rest * (rest + 1))
    kept = factors[fronts.offset[f] : fronts.offset[f + 1]]
    share_blocks(lambda low, high: keep_front(front, size, wide, leak, kept, left, low, high), size, together)
    progress[0] += 2.0 * (float(size) ** 3 - float(rest) ** 3) / 3.0
    return left


def up_right_in_strips(kept: Floats, wide: int, x: Floats) -> None:
    """Do in one front what `go_up_right` does in all."""
    size = len(x)
    for begin, end in _strips(wide):
        up_right_inside(kept, size, x, begin, end)

        def hand_on(low: int, high: int, begin: int = begin, end: int = end) -> None:
            middle = min(max(low, wide), high)
            add_products(kept, 0, size, x, begin, end, low, middle)
            # The multipliers of the boundary have rows that are as long as the front is wide.
            add_products(kept, wide * (size - wide), wide, x, begin, end, middle, high)

        _share(hand_on, end, size)


def down_right_in_strips(kept: Floats, wide: int, x: Floats) -> None:
    """Do in one front what `go_down_right` does in all."""
    size = len(x)
    _share(lambda low, high: add_products(kept, 0, size, x, wide, size, low, high), 0, wide)
    for begin, end in reversed(_strips(wide)):
        down_right_inside(kept, size, x, begin, end)
        _share(
            lambda low, high, begin=begin, end=end: add_products(kept, 0, size, x, begin, end, low, high),  # type: ignore[misc]
            0,
            begin,
        )


def up_left_in_strips(kept: Floats, wide: int, x: Floats) -> None:
    """Do in one front what `go_up_left` does in all."""
    size = len(x)
    for begin, end in _strips(wide):
        up_left_inside(kept, size, x, begin, end)
        _share(
            lambda low, high, begin=begin, end=end: add_rows(kept, 0, size, x, begin, end, low, high),  # type: ignore[misc]
            end,
            size,
        )


def down_left_in_strips(kept: Floats, wide: int, x: Floats) -> None:
    """Do in one front what `go_down_left` does in all."""
    size = len(x)
    place = wide * (size - wide)
    _share(lambda low, high: add_rows(kept, place, wide, x, wide, size, low, high), 0, wide)
    for begin, end in reversed(_strips(wide)):
        down_left_inside(kept, size, x, begin, end)
        _share(
            lambda low, high, begin=begin, end=end: add_rows(kept, 0, size, x, begin, end, low, high),  # type: ignore[misc]
            0,
            begin,
        )


def _strips(wide: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + STRIP, wide)) for begin in range(0, wide, STRIP)]


def _share(work: Callable[[int, int], None], begin: int, end: int) -> None:
    """Let threads share the positions ``begin:end``."""
    share_blocks(lambda low, high: work(begin + low, begin + high), end - begin, STRIP_ROWS)
