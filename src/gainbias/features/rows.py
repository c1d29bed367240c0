"""Feature rows inside kernels: dense, sparse or tabular, behind the same few operations.

A *lane* is one of several runs that read the same path at the same time. Weights have shape (d, lanes) and
everything per lane has shape (lanes,), with one lane or `LANES` of them. Each operation costs as many
additions and multiplications as the rows it touches have entries, times lanes. Sums run over features in
ascending order, lane by lane, so that a lane's bits do not depend on the other lanes.

`rows_of` turns checked features into one of three records, and each operation below has one implementation
per record: `values` reads two states, `add_row` and `add_rows` change weights, `squared_length` measures a
row. `places_of` and `entry_at` list the entries of sparse and tabular rows one by one, so that one loop
works for both.

For dense rows the eight lanes are written out, one variable each. Their sums then stay in vector registers,
where a loop over lanes loads and stores them for every feature. Nanoseconds per step and lane of `values` and
`add_rows` together, with the same bits:

    number of features      4     20    100
    written out           3.7    6.5     22
    a loop over lanes     5.4     15     68

A template could generate these lines, with the same speed. It would save about 60 plain lines, but the code
would be text that is executed, which neither readers nor type checkers nor debuggers see.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gainbias.features.matrix import Features
from gainbias.kernels import ByType
from gainbias.types import Floats

LANES = 8
"""Number of lanes that run together: two vectors of four, which keep both arithmetic units of a core busy."""


class DenseRows(NamedTuple):
    """Rows of a dense (n, d) matrix."""

    matrix: Floats


class SparseRows(NamedTuple):
    """Rows of a sparse matrix: the entries of row s are at ``start[s]`` to ``start[s + 1] - 1``."""

    start: NDArray[Any]
    column: NDArray[Any]
    entry: Floats


class TabularRows(NamedTuple):
    """Rows of the identity matrix, one feature per state."""

    num_states: int


Rows: TypeAlias = DenseRows | SparseRows | TabularRows


def rows_of(features: Features) -> Rows:
    """Return the rows of checked features, without copying them.

    Examples
    --------
    >>> from gainbias.features import as_features
    >>> rows_of(as_features([[1.0, 2.0]])).matrix
    array([[1., 2.]])
    """
    if features.given is None:
        return TabularRows(features.num_states)
    if isinstance(features.given, np.ndarray):
        return DenseRows(np.ascontiguousarray(features.given))
    return SparseRows(features.given.indptr, features.given.indices, features.given.data)


@ByType
def values(rows: Rows, here: int, after: int, weights: Floats, out_here: Floats, out_after: Floats) -> None:
    """Write the values of two states under the weights, (d, lanes), to two (lanes,) arrays."""


@values.of(DenseRows)
def _values_dense(
    rows: DenseRows, here: int, after: int, weights: Floats, out_here: Floats, out_after: Floats
) -> None:
    matrix = rows.matrix
    lanes = weights.shape[1]
    if lanes == 1:
        # The same sums without a loop over lanes, whose set-up would take most of the time for a single one.
        first = second = 0.0
        for j in range(matrix.shape[1]):
            first += matrix[here, j] * weights[j, 0]
            second += matrix[after, j] * weights[j, 0]
        out_here[0] = first
        out_after[0] = second
    else:
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = 0.0
        row, next_row = matrix[here], matrix[after]
        for j in range(matrix.shape[1]):
            w, first, second = weights[j], row[j], next_row[j]
            a0 += first * w[0]
            a1 += first * w[1]
            a2 += first * w[2]
            a3 += first * w[3]
            a4 += first * w[4]
            a5 += first * w[5]
            a6 += first * w[6]
            a7 += first * w[7]
            b0 += second * w[0]
            b1 += second * w[1]
            b2 += second * w[2]
            b3 += second * w[3]
            b4 += second * w[4]
            b5 += second * w[5]
            b6 += second * w[6]
            b7 += second * w[7]
        out_here[0] = a0
        out_here[1] = a1
        out_here[2] = a2
        out_here[3] = a3
        out_here[4] = a4
        out_here[5] = a5
        out_here[6] = a6
        out_here[7] = a7
        out_after[0] = b0
        out_after[1] = b1
        out_after[2] = b2
        out_after[3] = b3
        out_after[4] = b4
        out_after[5] = b5
        out_after[6] = b6
        out_after[7] = b7


@values.of(SparseRows)
def _values_sparse(
    rows: SparseRows, here: int, after: int, weights: Floats, out_here: Floats, out_after: Floats
) -> None:
    for k in range(weights.shape[1]):
        out_here[k] = 0.0
        out_after[k] = 0.0
    for at in range(rows.start[here], rows.start[here + 1]):
        for k in range(weights.shape[1]):
            out_here[k] += rows.entry[at] * weights[rows.column[at], k]
    for at in range(rows.start[after], rows.start[after + 1]):
        for k in range(weights.shape[1]):
            out_after[k] += rows.entry[at] * weights[rows.column[at], k]


@values.of(TabularRows)
def _values_tabular(
    rows: TabularRows, here: int, after: int, weights: Floats, out_here: Floats, out_after: Floats
) -> None:
    for k in range(weights.shape[1]):
        out_here[k] = weights[here, k]
        out_after[k] = weights[after, k]


@ByType
def add_row(rows: Rows, here: int, scale: Floats, weights: Floats) -> None:
    """Add the row of a state, times a number for every lane, to the weights, (d, lanes)."""


@add_row.of(DenseRows)
def _add_row_dense(rows: DenseRows, here: int, scale: Floats, weights: Floats) -> None:
    matrix = rows.matrix
    lanes = weights.shape[1]
    if lanes == 1:
        factor = scale[0]
        for j in range(matrix.shape[1]):
            weights[j, 0] += matrix[here, j] * factor
    else:
        c0, c1 = scale[0], scale[1]
        c2, c3 = scale[2], scale[3]
        c4, c5 = scale[4], scale[5]
        c6, c7 = scale[6], scale[7]
        row = matrix[here]
        for j in range(matrix.shape[1]):
            w, x = weights[j], row[j]
            w[0] += x * c0
            w[1] += x * c1
            w[2] += x * c2
            w[3] += x * c3
            w[4] += x * c4
            w[5] += x * c5
            w[6] += x * c6
            w[7] += x * c7


@add_row.of(SparseRows)
def _add_row_sparse(rows: SparseRows, here: int, scale: Floats, weights: Floats) -> None:
    for at in range(rows.start[here], rows.start[here + 1]):
        for k in range(weights.shape[1]):
            weights[rows.column[at], k] += rows.entry[at] * scale[k]


@add_row.of(TabularRows)
def _add_row_tabular(rows: TabularRows, here: int, scale: Floats, weights: Floats) -> None:
    for k in range(weights.shape[1]):
        weights[here, k] += scale[k]


@ByType
def add_rows(rows: Rows, here: int, scale: Floats, other: int, other_scale: Floats, weights: Floats) -> None:
    """Add the rows of two states, each times a number for every lane, to the weights, (d, lanes)."""


@add_rows.of(DenseRows)
def _add_rows_dense(
    rows: DenseRows, here: int, scale: Floats, other: int, other_scale: Floats, weights: Floats
) -> None:
    matrix = rows.matrix
    lanes = weights.shape[1]
    if lanes == 1:
        factor, other_factor = scale[0], other_scale[0]
        for j in range(matrix.shape[1]):
            weights[j, 0] = weights[j, 0] + matrix[here, j] * factor + matrix[other, j] * other_factor
    else:
        c0, e0 = scale[0], other_scale[0]
        c1, e1 = scale[1], other_scale[1]
        c2, e2 = scale[2], other_scale[2]
        c3, e3 = scale[3], other_scale[3]
        c4, e4 = scale[4], other_scale[4]
        c5, e5 = scale[5], other_scale[5]
        c6, e6 = scale[6], other_scale[6]
        c7, e7 = scale[7], other_scale[7]
        row, other_row = matrix[here], matrix[other]
        for j in range(matrix.shape[1]):
            w, x, y = weights[j], row[j], other_row[j]
            w[0] = w[0] + x * c0 + y * e0
            w[1] = w[1] + x * c1 + y * e1
            w[2] = w[2] + x * c2 + y * e2
            w[3] = w[3] + x * c3 + y * e3
            w[4] = w[4] + x * c4 + y * e4
            w[5] = w[5] + x * c5 + y * e5
            w[6] = w[6] + x * c6 + y * e6
            w[7] = w[7] + x * c7 + y * e7


@add_rows.of(SparseRows)
def _add_rows_sparse(
    rows: SparseRows, here: int, scale: Floats, other: int, other_scale: Floats, weights: Floats
) -> None:
    for at in range(rows.start[here], rows.start[here + 1]):
        for k in range(weights.shape[1]):
            weights[rows.column[at], k] += rows.entry[at] * scale[k]
    for at in range(rows.start[other], rows.start[other + 1]):
        for k in range(weights.shape[1]):
            weights[rows.column[at], k] += rows.entry[at] * other_scale[k]


@add_rows.of(TabularRows)
def _add_rows_tabular(
    rows: TabularRows, here: int, scale: Floats, other: int, other_scale: Floats, weights: Floats
) -> None:
    for k in range(weights.shape[1]):
        weights[here, k] += scale[k]
    for k in range(weights.shape[1]):
        weights[other, k] += other_scale[k]


@ByType
def squared_length(rows: Rows, here: int) -> float:
    """Return the squared Euclidean norm of the row of a state."""
    raise TypeError("declared for each kind of rows")


@squared_length.of(DenseRows)
def _squared_length_dense(rows: DenseRows, here: int) -> float:
    total = 0.0
    for j in range(rows.matrix.shape[1]):
        total += rows.matrix[here, j] * rows.matrix[here, j]
    return total


@squared_length.of(SparseRows)
def _squared_length_sparse(rows: SparseRows, here: int) -> float:
    total = 0.0
    for at in range(rows.start[here], rows.start[here + 1]):
        total += rows.entry[at] * rows.entry[at]
    return total


@squared_length.of(TabularRows)
def _squared_length_tabular(rows: TabularRows, here: int) -> float:
    return 1.0


@ByType
def places_of(rows: Rows, here: int) -> tuple[int, int]:
    """Return the place of the first entry of a state's row, and the place after its last one."""
    raise TypeError("declared for sparse and tabular rows")


@places_of.of(SparseRows)
def _places_of_sparse(rows: SparseRows, here: int) -> tuple[int, int]:
    return rows.start[here], rows.start[here + 1]


@places_of.of(TabularRows)
def _places_of_tabular(rows: TabularRows, here: int) -> tuple[int, int]:
    return here, here + 1


@ByType
def entry_at(rows: Rows, place: int) -> tuple[Any, float]:
    """Return the feature that an entry belongs to, and its number; the place is one of `places_of`."""
    raise TypeError("declared for sparse and tabular rows")


@entry_at.of(SparseRows)
def _entry_at_sparse(rows: SparseRows, place: int) -> tuple[Any, float]:
    # Always 64 bits, so that functions that take a feature are compiled for one type of integers only.
    return np.int64(rows.column[place]), rows.entry[place]


@entry_at.of(TabularRows)
def _entry_at_tabular(rows: TabularRows, place: int) -> tuple[int, float]:
    return place, 1.0
