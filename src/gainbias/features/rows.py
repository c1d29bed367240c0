"""Feature rows inside kernels: dense, sparse or tabular, behind the same few operations.

Weights have shape (d, lanes) and everything per lane shape (lanes,). Each operation costs as many additions
and multiplications as the rows it touches have entries, times lanes. Sums run over features in ascending
order, lane by lane, so that a lane's bits do not depend on how many other lanes there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gainbias.features.matrix import Features
from gainbias.kernels import ByType

Floats: TypeAlias = NDArray[np.float64]


class DenseRows(NamedTuple):
    """Rows of a dense (n, d) matrix."""

    matrix: Floats


class SparseRows(NamedTuple):
    """Rows of a sparse matrix: the entries of row s are at ``start[s]`` to ``start[s + 1] - 1``."""

    start: NDArray[Any]
    column: NDArray[Any]
    entry: Floats


class TabularRows(NamedTuple):
    """Rows of the identity."""

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
    """Write the values of two states, for every lane."""


@values.of(DenseRows)
def _values_dense(
    rows: DenseRows, here: int, after: int, weights: Floats, out_here: Floats, out_after: Floats
) -> None:
    matrix = rows.matrix
    lanes = weights.shape[1]
    if lanes == 1:
        # The same sums in registers: with a loop over one lane inside, most of the time would go into its
        # set-up.
        first, second = 0.0, 0.0
        for j in range(matrix.shape[1]):
            first += matrix[here, j] * weights[j, 0]
            second += matrix[after, j] * weights[j, 0]
        out_here[0] = first
        out_after[0] = second
    else:
        for k in range(lanes):
            out_here[k] = 0.0
            out_after[k] = 0.0
        for j in range(matrix.shape[1]):
            first, second = matrix[here, j], matrix[after, j]
            for k in range(lanes):
                weight = weights[j, k]
                out_here[k] += first * weight
                out_after[k] += second * weight


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
    """Add the row of a state to the weights, times a number for every lane."""


@add_row.of(DenseRows)
def _add_row_dense(rows: DenseRows, here: int, scale: Floats, weights: Floats) -> None:
    matrix = rows.matrix
    lanes = weights.shape[1]
    if lanes == 1:
        factor = scale[0]
        for j in range(matrix.shape[1]):
            weights[j, 0] += matrix[here, j] * factor
    else:
        for j in range(matrix.shape[1]):
            entry = matrix[here, j]
            for k in range(lanes):
                weights[j, k] += entry * scale[k]


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
    """Add the rows of two states to the weights, each times a number for every lane."""


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
        for j in range(matrix.shape[1]):
            entry, other_entry = matrix[here, j], matrix[other, j]
            for k in range(lanes):
                weights[j, k] = weights[j, k] + entry * scale[k] + other_entry * other_scale[k]


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
