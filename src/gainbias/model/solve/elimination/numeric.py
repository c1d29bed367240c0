"""Elimination without subtraction, front by front: the numeric part, in kernels.

`factorise` eliminates all states of a plan; `solve_right` and `solve_left` solve with its factors. They take
the records `Sparse` and `Fronts`. Index arrays have 32 bits where the size allows; offsets have 64.

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

from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, kernel, plain_form
from gainbias.types import Floats, Ints

PANEL = 32
"""Number of positions that are eliminated together before the rest of a front is touched."""

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
        Number of fronts that hand what is left of them to front f.
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


@kernel
def factorise(
    rows: Sparse,
    columns: Sparse,
    leak_in: Floats,
    fronts: Fronts,
    factors: Floats,
    stack: Floats,
    work: Floats,
    progress: Floats,
) -> None:
    """Eliminate all states and fill `factors`.

    Parameters
    ----------
    rows, columns : Sparse
        The transitions among the states, and their transpose.
    leak_in : (n,) array
        Probability of leaving these states, from each of them.
    fronts : Fronts
        The plan.
    factors, stack, work : arrays
        Memory for the factors, for rests that wait for their parents, and for the largest front.
    progress : (2,) array
        ``progress[0]`` counts flops; a non-zero ``progress[1]`` stops the work.
    """
    first, start, offset = fronts.first, fronts.start, fronts.offset
    count = len(first) - 1
    where = np.empty(len(fronts.order), np.int32)
    waiting = np.empty(count, np.int32)
    rest_at = np.empty(count, np.int64)
    num_waiting = 0
    top = 0
    for f in range(count):
        if progress[1] != 0.0:
            return
        begin, last = first[f], first[f + 1] - 1
        wide = last + 1 - begin
        rest = start[f + 1] - start[f]
        size = wide + rest
        front = work[: size * size].reshape((size, size))
        for i in range(size * size):
            work[i] = 0.0
        leak = np.zeros(size)
        for j in range(wide):
            where[begin + j] = j
            leak[j] = leak_in[fronts.order[begin + j]]
        for j in range(rest):
            where[fronts.boundary[start[f] + j]] = wide + j
        assemble_front(front, begin, last, where, fronts, rows, columns)
        for _ in range(fronts.num_children[f]):
            num_waiting -= 1
            child = waiting[num_waiting]
            top = rest_at[child]
            add_rest(front, leak, where, fronts.boundary[start[child] : start[child + 1]], stack[top:])
        eliminate_front(work[: size * size], size, leak, wide, progress)
        keep_front(work, size, wide, leak, factors[offset[f] : offset[f + 1]], stack[top:])
        rest_at[f] = top
        waiting[num_waiting] = f
        num_waiting += 1
        top += rest * (rest + 1)
        progress[0] += 2.0 * (float(size) ** 3 - float(rest) ** 3) / 3.0


@bare_kernel
def assemble_front(
    front: Floats, begin: int, last: int, where: Ints, fronts: Fronts, rows: Sparse, columns: Sparse
) -> None:
    """Add the chain's own transitions that leave or enter the positions `begin` to `last`."""
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


@kernel
def add_rest(front: Floats, leak: Floats, where: Ints, positions: Ints, rest: Floats) -> None:
    """Add what the elimination of a child left over (a square block, then leaks) to its parent's front."""
    size = len(positions)
    local = np.empty(size, np.int64)
    for i in range(size):
        local[i] = where[positions[i]]
    for i in range(size):
        row = local[i]
        leak[row] += rest[size * size + i]
        for j in range(size):
            front[row, local[j]] += rest[i * size + j]


@bare_kernel
def eliminate_front(front: Floats, size: int, leak: Floats, wide: int, progress: Floats) -> None:
    """Eliminate the first `wide` positions of a flat (size, size) front, in panels that stay in cache."""
    for begin in range(0, wide, PANEL):
        end = min(begin + PANEL, wide)
        if progress[1] != 0.0:
            return
        for i in range(begin, size):
            # Row i takes what earlier positions of the panel pass on, and keeps multipliers in their place.
            limit = size if i < end else end
            for p in range(begin, min(i, end)):
                share = front[i * size + p] / front[p * size + p]
                front[i * size + p] = share
                leak[i] += share * leak[p]
                add_row(front, i * size + p + 1, p * size + p + 1, limit - p - 1, share)
            if i < end:
                out = leak[i]
                for j in range(i * size + i + 1, (i + 1) * size):
                    out += front[j]
                front[i * size + i] = out
        pass_on(front, size, begin, end)


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
def pass_on(front: Floats, size: int, begin: int, end: int) -> None:
    """Add the eliminated rows ``begin:end`` to all rows below, right of the panel, term by term.

    Blocks of four rows by four reuse what is loaded and are several times as fast as one row at a time,
    with the same bits.
    """
    square = front.reshape((size, size))
    length = size - end
    i = end
    while i < size:
        height = 4 if i + 4 <= size and length >= SHORT else 1
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
def keep_front(front: Floats, size: int, wide: int, leak: Floats, factors: Floats, stack: Floats) -> None:
    """Keep the eliminated rows and multipliers, and put what is left of the front on the stack."""
    rest = size - wide
    for i in range(wide * size):
        factors[i] = front[i]
    for i in range(rest):
        row = (wide + i) * size
        for p in range(wide):
            factors[wide * size + i * wide + p] = front[row + p]
        for j in range(rest):
            stack[i * rest + j] = front[row + wide + j]
        stack[rest * rest + i] = leak[wide + i]


@bare_kernel
def solve_right(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Overwrite the right side `x` (by position) with the solution of ``M x = right side``."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    count = len(first) - 1
    for f in range(count):
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
    for f in range(count - 1, -1, -1):
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
def solve_left(fronts: Fronts, factors: Floats, x: Floats) -> None:
    """Overwrite the left side `x` (by position) with the solution of ``x M = left side``."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    count = len(first) - 1
    for f in range(count):
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
    for f in range(count - 1, -1, -1):
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
