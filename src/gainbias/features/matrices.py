"""Operations of kernels on d x d matrices, for a single lane."""

from __future__ import annotations

from gainbias.features.rows import DenseRows, Floats, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, inlined


@inlined
def add_outer(factor: float, left: Floats, right: Floats, matrix: Floats) -> None:
    """Add ``factor * left right^T`` to a matrix; entries of `left` that are 0 cost nothing."""
    for i in range(len(left)):
        if left[i] != 0.0:
            scaled = factor * left[i]
            for j in range(len(right)):
                matrix[i, j] += scaled * right[j]


@inlined
def add_combination(factor: float, vector: Floats, matrix: Floats, out: Floats) -> None:
    """Add ``factor * matrix^T vector`` to `out`, row by row; entries of `vector` that are 0 cost nothing."""
    for i in range(len(vector)):
        if vector[i] != 0.0:
            scaled = factor * vector[i]
            for j in range(len(out)):
                out[j] += scaled * matrix[i, j]


@ByType
def add_difference(rows: Rows, here: int, after: int, matrix: Floats) -> None:
    """Add ``phi(here) (phi(here) - phi(after))^T`` to a matrix; entries that are 0 cost nothing."""


@add_difference.of(DenseRows)
def _add_difference_dense(rows: DenseRows, here: int, after: int, matrix: Floats) -> None:
    row, next_row = rows.matrix[here], rows.matrix[after]
    for i in range(len(row)):
        if row[i] != 0.0:
            for j in range(len(row)):
                matrix[i, j] += row[i] * (row[j] - next_row[j])


@add_difference.of(SparseRows)
def _add_difference_sparse(rows: SparseRows, here: int, after: int, matrix: Floats) -> None:
    for at in range(rows.start[here], rows.start[here + 1]):
        i, entry = rows.column[at], rows.entry[at]
        for to in range(rows.start[here], rows.start[here + 1]):
            matrix[i, rows.column[to]] += entry * rows.entry[to]
        for to in range(rows.start[after], rows.start[after + 1]):
            matrix[i, rows.column[to]] -= entry * rows.entry[to]


@add_difference.of(TabularRows)
def _add_difference_tabular(rows: TabularRows, here: int, after: int, matrix: Floats) -> None:
    matrix[here, here] += 1.0
    matrix[here, after] -= 1.0
