"""Elimination without subtraction, front by front: the numeric part, in kernels.

`factorise` eliminates the states of a plan; `go_up_right` and `go_down_right` solve with its factors for a
right side, `go_up_left` and `go_down_left` for a left one. `branches` says which fronts they work on. They
take the records `Sparse` and `Fronts`. Index arrays have 32 bits where the size allows; offsets have 64.

The matrix is ``M = diag(exit) - P`` over the states to be eliminated: `P` holds the transitions among them,
``leak`` the probability of leaving them all, and ``exit`` is never stored: it is the sum of the other
transitions and the leak. Eliminating state p sends its inflow where it goes next,

    exit_p = leak_p + sum_{j > p} P_pj
    P_ij  += P_ip / exit_p * P_pj ,    leak_i += P_ip / exit_p * leak_p        (i, j > p)

so every number is a sum of products of non-negative numbers and keeps its relative accuracy, however small
it is (Grassmann, Taksar and Heyman 1985; with a leak: Alfa, Xue and Ye 2002). The diagonal of P is never
read.

Layout of the factors: front f with `wide` own positions and `rest` boundary positions keeps a (wide, wide +
rest) block of rows (multipliers left of the diagonal, exits on it, transitions right of it) and a (rest,
wide) block of multipliers.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, plain_form
from gainbias.types import Floats, Ints

PANEL = 32
"""Number of positions that are eliminated together before the rest of a front is updated."""

SHORT = 8
"""A row shorter than this is not worth a slice of its own.

The compiler vectorises only over slices: it knows that a slice of a flat array is contiguous.
"""


class Sparse(NamedTuple):
    """A sparse matrix by rows: the entries of row i are at ``indptr[i]`` to ``indptr[i + 1] - 1``."""

    indptr: Ints
    indices: Ints
    data: Floats


class Fronts(NamedTuple):
    """The dense blocks of an elimination, children before parents.

    Attributes
    ----------
    order, position : (n,) int arrays
        The state at each position of the elimination, and the position of each state.
    first : (fronts + 1,) int array
        Front f eliminates the positions ``first[f]`` to ``first[f + 1] - 1``.
    start, boundary : (fronts + 1,) and (..) int arrays
        ``boundary[start[f]:start[f + 1]]`` are the later positions that front f touches, ascending.
    num_children : (fronts,) int array
        Number of fronts that pass their rest on to front f.
    offset : (fronts + 1,) int array
        Where the factors of front f are kept.
    """

    order: Ints
    position: Ints
    first: Ints
    start: Ints
    boundary: Ints
    num_children: Ints
    offset: Ints


def factorise(
    rows: Sparse,
    columns: Sparse,
    leak_in: Floats,
    fronts: Fronts,
    begin_front: int,
    end_front: int,
    factors: Floats,
    stack: Floats,
    work: Floats,
    progress: Floats,
) -> None:
    """Eliminate the states of some fronts, which have all of their children among them, and fill `factors`.

    The rest of the last front is at the start of `stack`.

    Parameters
    ----------
    rows, columns : Sparse
        The transitions among the states, and their transpose.
    leak_in : (n,) array
        Probability of leaving these states, from each of them.
    fronts : Fronts
        The plan.
    begin_front, end_front : int
        The fronts ``begin_front`` to ``end_front - 1`` are eliminated.
    factors, stack, work : arrays
        Memory for the factors, for rests that wait for their parents, and for the largest front.
    progress : (2,) array
        ``progress[0]`` counts flops; a non-zero ``progress[1]`` stops the work.
    """
    where = np.empty(len(fronts.order), np.int32)
    waiting, rest_at = np.empty((2, end_front - begin_front), np.int64)
    leak = np.empty(isqrt(len(work)))
    place = np.empty(len(leak), np.int64)
    eliminate_fronts(
        rows, columns, leak_in, fronts, begin_front, end_front, factors,
        where, waiting, rest_at, leak, place, stack, work, progress,
    )  # fmt: skip


@bare_kernel
def eliminate_fronts(
    rows: Sparse,
    columns: Sparse,
    leak_in: Floats,
    fronts: Fronts,
    begin_front: int,
    end_front: int,
    factors: Floats,
    where: Ints,
    waiting: Ints,
    rest_at: Ints,
    leak_room: Floats,
    place: Ints,
    stack: Floats,
    work: Floats,
    progress: Floats,
) -> None:
    """Do the work of `factorise`, which makes the room for it."""
    first, start, offset = fronts.first, fronts.start, fronts.offset
    num_waiting = 0
    top = 0
    for f in range(begin_front, end_front):
        if progress[1] != 0.0:
            return
        wide = first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        front = work[: size * size].reshape((size, size))
        for i in range(size * size):
            work[i] = 0.0
        leak = leak_room[:size]
        for i in range(size):
            leak[i] = 0.0
        assemble_front(front, leak, f, where, fronts, rows, columns, leak_in)
        for _ in range(fronts.num_children[f]):
            num_waiting -= 1
            child = waiting[num_waiting]
            top = rest_at[child - begin_front]
            positions = fronts.boundary[start[child] : start[child + 1]]
            for i in range(len(positions)):
                place[i] = where[positions[i]]
            add_rest(front, leak, place, len(positions), stack[top:], 0, len(positions))
        eliminate_front(work[: size * size], size, leak, wide, progress)
        keep_front(work, size, wide, leak, factors[offset[f] : offset[f + 1]], stack[top:], 0, size)
        rest_at[f - begin_front] = top
        waiting[num_waiting] = f
        num_waiting += 1
        top += rest * (rest + 1)
        progress[0] += 2.0 * (float(size) ** 3 - float(rest) ** 3) / 3.0


@bare_kernel
def assemble_front(
    front: Floats,
    leak: Floats,
    f: int,
    where: Ints,
    fronts: Fronts,
    rows: Sparse,
    columns: Sparse,
    leak_in: Floats,
) -> None:
    """Add the chain's own transitions that leave or enter front f, and say in `where` where positions are."""
    begin, last = fronts.first[f], fronts.first[f + 1] - 1
    wide, start = last + 1 - begin, fronts.start[f]
    for j in range(wide):
        where[begin + j] = j
        leak[j] = leak_in[fronts.order[begin + j]]
    for j in range(fronts.start[f + 1] - start):
        where[fronts.boundary[start + j]] = wide + j
    for j in range(begin, last + 1):
        state = fronts.order[j]
        for entry in range(rows.indptr[state], rows.indptr[state + 1]):
            i = fronts.position[rows.indices[entry]]
            if i >= begin:
                front[j - begin, where[i]] += rows.data[entry]
        for entry in range(columns.indptr[state], columns.indptr[state + 1]):
            i = fronts.position[columns.indices[entry]]
            if i > last:
                front[where[i], j - begin] += columns.data[entry]


@bare_kernel
def add_rest(front: Floats, leak: Floats, place: Ints, size: int, rest: Floats, low: int, high: int) -> None:
    """Add what the elimination of a child left over (a square block, then leaks) to its parent's front.

    Only the rows `low` to ``high - 1`` of what was left are added. Row i belongs to row ``place[i]``.
    """
    for i in range(low, high):
        row = place[i]
        leak[row] += rest[size * size + i]
        for j in range(size):
            front[row, place[j]] += rest[i * size + j]


@bare_kernel
def eliminate_front(front: Floats, size: int, leak: Floats, wide: int, progress: Floats) -> None:
    """Eliminate the first `wide` positions of a flat (size, size) front, in panels that stay in cache."""
    for begin in range(0, wide, PANEL):
        end = min(begin + PANEL, wide)
        if progress[1] != 0.0:
            return
        eliminate_panel(front, size, leak, begin, end)
        pass_on(front, size, leak, begin, end, end, size)


@plain_form(eliminate_front)
def eliminate_front_by_outer_products(
    front: Floats, size: int, leak: Floats, wide: int, progress: Floats
) -> None:
    """Do what `eliminate_front` does, position by position; every entry is added up in the same order."""
    square = front.reshape((size, size))
    for p in range(wide):
        if progress[1] != 0.0:
            return
        onward, shares = square[p, p + 1 :], square[p + 1 :, p]
        # A plain sum of NumPy adds up in another order.
        square[p, p] = np.add.accumulate(np.append(leak[p], onward))[-1]
        shares /= square[p, p]
        leak[p + 1 :] += shares * leak[p]
        square[p + 1 :, p + 1 :] += shares[:, np.newaxis] * onward


@bare_kernel
def eliminate_panel(front: Floats, size: int, leak: Floats, begin: int, end: int) -> None:
    """Eliminate the positions ``begin:end`` within their own rows."""
    for i in range(begin, end):
        take_shares(front, size, leak, i, begin, i, size)
        out = leak[i]
        for j in range(i * size + i + 1, (i + 1) * size):
            out += front[j]
        front[i * size + i] = out


@bare_kernel
def take_shares(front: Floats, size: int, leak: Floats, i: int, begin: int, end: int, limit: int) -> None:
    """Add what the positions ``begin:end`` pass on to row i, left of `limit`; keep multipliers."""
    for p in range(begin, end):
        share = front[i * size + p] / front[p * size + p]
        front[i * size + p] = share
        leak[i] += share * leak[p]
        add_row(front, i * size + p + 1, p * size + p + 1, limit - p - 1, share)


@bare_kernel
def pass_on(front: Floats, size: int, leak: Floats, begin: int, end: int, low: int, high: int) -> None:
    """Add the eliminated rows ``begin:end`` to the rows ``low:high`` below, term by term.

    Right of the panel blocks of four rows by four reuse what is loaded and are several times as fast as one
    row at a time, with the same bits.
    """
    for i in range(low, high):
        take_shares(front, size, leak, i, begin, end, end)
    square = front.reshape((size, size))
    length = size - end
    i = low
    while i < high:
        height = 4 if i + 4 <= high and length >= SHORT else 1
        p = begin
        while p < end:
            if height == 4 and p + 4 <= end:
                add_four_to_four(
                    front[i * size + end : (i + 1) * size],
                    front[(i + 1) * size + end : (i + 2) * size],
                    front[(i + 2) * size + end : (i + 3) * size],
                    front[(i + 3) * size + end : (i + 4) * size],
                    front[p * size + end : (p + 1) * size],
                    front[(p + 1) * size + end : (p + 2) * size],
                    front[(p + 2) * size + end : (p + 3) * size],
                    front[(p + 3) * size + end : (p + 4) * size],
                    square[i : i + 4, p : p + 4],
                )
                p += 4
            else:
                for k in range(i, i + height):
                    add_row(front, k * size + end, p * size + end, length, square[k, p])
                p += 1
        i += height


@bare_kernel
def add_four_to_four(
    t0: Floats, t1: Floats, t2: Floats, t3: Floats,
    r0: Floats, r1: Floats, r2: Floats, r3: Floats, shares: Floats,
) -> None:  # fmt: skip
    """Add four scaled rows to each of four targets, term by term; `shares` is (4, 4), by target."""
    a0, b0, c0, d0 = shares[0, 0], shares[0, 1], shares[0, 2], shares[0, 3]
    a1, b1, c1, d1 = shares[1, 0], shares[1, 1], shares[1, 2], shares[1, 3]
    a2, b2, c2, d2 = shares[2, 0], shares[2, 1], shares[2, 2], shares[2, 3]
    a3, b3, c3, d3 = shares[3, 0], shares[3, 1], shares[3, 2], shares[3, 3]
    for j in range(len(t0)):
        a, b, c, d = r0[j], r1[j], r2[j], r3[j]
        t0[j] = t0[j] + a0 * a + b0 * b + c0 * c + d0 * d
        t1[j] = t1[j] + a1 * a + b1 * b + c1 * c + d1 * d
        t2[j] = t2[j] + a2 * a + b2 * b + c2 * c + d2 * d
        t3[j] = t3[j] + a3 * a + b3 * b + c3 * c + d3 * d


@bare_kernel
def add_row(front: Floats, target: int, row: int, length: int, share: float) -> None:
    """Add a row of a flat front, times a number, to another; both are given by where they start."""
    if length < SHORT:
        for j in range(length):
            front[target + j] += share * front[row + j]
    else:
        add_one_to_one(front[target : target + length], front[row : row + length], share)


@bare_kernel
def add_one_to_one(target: Floats, row: Floats, share: float) -> None:
    """Add a row, times a number, to a target row."""
    for j in range(len(target)):
        target[j] += share * row[j]


@bare_kernel
def keep_front(
    front: Floats, size: int, wide: int, leak: Floats, factors: Floats, stack: Floats, low: int, high: int
) -> None:
    """Keep eliminated rows and multipliers, and put the rest of the front on the stack.

    Only the rows `low` to ``high - 1`` of the front are looked at.
    """
    rest = size - wide
    for i in range(low * size, min(high, wide) * size):
        factors[i] = front[i]
    for i in range(max(low - wide, 0), high - wide):
        row = (wide + i) * size
        for p in range(wide):
            factors[wide * size + i * wide + p] = front[row + p]
        for j in range(rest):
            stack[i * rest + j] = front[row + wide + j]
        stack[rest * rest + i] = leak[wide + i]


@bare_kernel
def go_up_right(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Add to `x`, a right side by position, what each position hands to later ones."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    for f in range(len(first) - 1):
        begin, wide = first[f], first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        rows = factors[offset[f] : offset[f] + wide * size].reshape((wide, size))
        below = factors[offset[f] + wide * size : offset[f + 1]].reshape((rest, wide))
        for p in range(wide):
            value = x[begin + p]
            for q in range(p):
                value += rows[p, q] * x[begin + q]
            x[begin + p] = value
        for i in range(rest):
            value = x[boundary[start[f] + i]]
            for p in range(wide):
                value += below[i, p] * x[begin + p]
            x[boundary[start[f] + i]] = value


@bare_kernel
def go_down_right(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Overwrite `x`, which `go_up_right` left, with the solution of ``M x = right side``."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    for f in range(len(first) - 2, -1, -1):
        begin, wide = first[f], first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        rows = factors[offset[f] : offset[f] + wide * size].reshape((wide, size))
        for p in range(wide - 1, -1, -1):
            value = x[begin + p]
            for j in range(p + 1, wide):
                value += rows[p, j] * x[begin + j]
            for j in range(rest):
                value += rows[p, wide + j] * x[boundary[start[f] + j]]
            x[begin + p] = value / rows[p, p]


@bare_kernel
def go_up_left(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Add to `x`, a left side by position, what each position hands to later ones."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    for f in range(len(first) - 1):
        begin, wide = first[f], first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        rows = factors[offset[f] : offset[f] + wide * size].reshape((wide, size))
        for p in range(wide):
            value = x[begin + p] / rows[p, p]
            x[begin + p] = value
            for j in range(p + 1, wide):
                x[begin + j] += value * rows[p, j]
            for j in range(rest):
                x[boundary[start[f] + j]] += value * rows[p, wide + j]


@bare_kernel
def go_down_left(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Overwrite `x`, which `go_up_left` left, with the solution of ``x M = left side``."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    for f in range(len(first) - 2, -1, -1):
        begin, wide = first[f], first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        rows = factors[offset[f] : offset[f] + wide * size].reshape((wide, size))
        below = factors[offset[f] + wide * size : offset[f + 1]].reshape((rest, wide))
        for i in range(rest):
            value = x[boundary[start[f] + i]]
            for p in range(wide):
                x[begin + p] += value * below[i, p]
        for p in range(wide - 1, -1, -1):
            value = x[begin + p]
            for q in range(p):
                x[begin + q] += value * rows[p, q]


@bare_kernel
def add_products(
    kept: Floats, place: int, step: int, x: Floats, begin: int, end: int, low: int, high: int
) -> None:
    """Add to ``x[low:high]`` rows of factors times ``x[begin:end]``; row i begins at ``place + i * step``.

    The order of a sum must not change, so each addition waits for the one before. Four rows at a time keep
    the processor busy in the meantime.
    """
    i = low
    while i + 4 <= high:
        row = place + i * step
        r0, r1 = kept[row + begin : row + end], kept[row + step + begin : row + step + end]
        row += 2 * step
        r2, r3 = kept[row + begin : row + end], kept[row + step + begin : row + step + end]
        y = x[begin:end]
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        for q in range(len(y)):
            a += r0[q] * y[q]
            b += r1[q] * y[q]
            c += r2[q] * y[q]
            d += r3[q] * y[q]
        x[i], x[i + 1], x[i + 2], x[i + 3] = a, b, c, d
        i += 4
    while i < high:
        value = x[i]
        for q in range(begin, end):
            value += kept[place + i * step + q] * x[q]
        x[i] = value
        i += 1


@bare_kernel
def add_rows(
    kept: Floats, place: int, step: int, x: Floats, begin: int, end: int, low: int, high: int
) -> None:
    """Add to ``x[low:high]`` rows of factors times ``x[begin:end]``; row q begins at ``place + q * step``."""
    for q in range(begin, end):
        row = place + q * step
        add_one_to_one(x[low:high], kept[row + low : row + high], x[q])


@bare_kernel
def up_right_inside(kept: Floats, size: int, x: Floats, begin: int, end: int) -> None:
    """Let the positions ``begin:end`` of a front hand on to each other, for a right side."""
    for low in range(begin, end, PANEL):
        high = min(low + PANEL, end)
        for p in range(low + 1, high):
            add_products(kept, 0, size, x, low, p, p, p + 1)
        add_products(kept, 0, size, x, low, high, high, end)


@bare_kernel
def down_right_inside(kept: Floats, size: int, x: Floats, begin: int, end: int) -> None:
    """Finish the positions ``begin:end`` of a front, to which others have been added, for a right side."""
    high = end
    while high > begin:
        low = max(high - PANEL, begin)
        for p in range(high - 1, low - 1, -1):
            add_products(kept, 0, size, x, p + 1, high, p, p + 1)
            x[p] /= kept[p * size + p]
        add_products(kept, 0, size, x, low, high, begin, low)
        high = low


@bare_kernel
def up_left_inside(kept: Floats, size: int, x: Floats, begin: int, end: int) -> None:
    """Let the positions ``begin:end`` of a front hand on to each other, for a left side."""
    for p in range(begin, end):
        x[p] /= kept[p * size + p]
        add_rows(kept, 0, size, x, p, p + 1, p + 1, end)


@bare_kernel
def down_left_inside(kept: Floats, size: int, x: Floats, begin: int, end: int) -> None:
    """Finish the positions ``begin:end`` of a front, to which others have been added, for a left side."""
    for p in range(end - 1, begin, -1):
        add_rows(kept, 0, size, x, p, p + 1, begin, p)
