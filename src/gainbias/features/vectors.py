"""Whole vectors and matrices inside kernels: operations of steps other than reading and adding single rows.

The first functions take vectors of all lanes, (d, lanes), as `rows` does. Those from `dot` on are for
algorithms that run a single lane: their weights have shape (d,), and some have a d x d matrix too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.features.rows import DenseRows, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, inlined
from gainbias.types import Floats


@inlined
def scale_lanes(vectors: Floats, factors: Floats) -> None:
    """Multiply vectors, (d, lanes), in place by a number for every lane."""
    if len(factors) == 1:
        factor = factors[0]
        for j in range(vectors.shape[0]):
            vectors[j, 0] *= factor
    else:
        for j in range(vectors.shape[0]):
            for k in range(len(factors)):
                vectors[j, k] *= factors[k]


@inlined
def add_scaled(vectors: Floats, factors: Floats, out: Floats) -> None:
    """Add vectors, (d, lanes), times a number for every lane, to `out`."""
    if len(factors) == 1:
        factor = factors[0]
        for j in range(vectors.shape[0]):
            out[j, 0] += factor * vectors[j, 0]
    else:
        for j in range(vectors.shape[0]):
            for k in range(len(factors)):
                out[j, k] += factors[k] * vectors[j, k]


@inlined
def squared_norms(vectors: Floats, out: Floats) -> None:
    """Write the squared Euclidean norm of vectors, (d, lanes), to `out`, (lanes,)."""
    for k in range(len(out)):
        out[k] = 0.0
    for j in range(vectors.shape[0]):
        for k in range(len(out)):
            out[k] += vectors[j, k] * vectors[j, k]


def squares_within(radius: Any, vectors: Floats) -> Floats:
    """Return the squared norms of vectors, (d, lanes); 0 where the radius is infinite and none is needed."""
    with np.errstate(over="ignore"):
        return np.where(np.isinf(radius), 0.0, (vectors**2).sum(axis=0))


@inlined
def keep_in_ball(vectors: Floats, squares: Floats, radius: Floats) -> None:
    """Shorten vectors, (d, lanes), to at most the radius of their lane.

    `squares`, (lanes,), estimates the squared norms. The norm itself is computed only where the estimate
    comes close to the radius, so that a step far inside the ball costs nothing.
    """
    for k in range(len(squares)):
        bound = radius[k] * radius[k]
        if squares[k] > bound * (1.0 - 1e-6):
            total = 0.0
            for j in range(vectors.shape[0]):
                total += vectors[j, k] * vectors[j, k]
            if total > bound:
                factor = radius[k] / np.sqrt(total)
                for j in range(vectors.shape[0]):
                    vectors[j, k] *= factor
                total = bound
            squares[k] = total


@inlined
def move_both(
    row: Floats, forward: Floats, back: Floats, beta: Floats, weights: Floats, mean: Floats
) -> None:
    """Add ``forward * row - back * mean`` to the weights and then ``beta * (row - mean)`` to the mean.

    Both are (d, lanes), the row is (d,). In one pass, and with the lanes written out (see `rows`), this takes
    a third of the time that an operation for each term would.
    """
    if len(beta) == 1:
        f, b, g = forward[0], back[0], beta[0]
        for j in range(len(row)):
            x, w = row[j], mean[j, 0]
            weights[j, 0] = weights[j, 0] + f * x - b * w
            mean[j, 0] = w + g * (x - w)
    else:
        c = forward
        f0, f1, f2, f3, f4, f5, f6, f7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
        c = back
        b0, b1, b2, b3, b4, b5, b6, b7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
        c = beta
        g0, g1, g2, g3, g4, g5, g6, g7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
        for j in range(len(row)):
            x, t, w = row[j], weights[j], mean[j]
            t[0], t[1] = t[0] + f0 * x - b0 * w[0], t[1] + f1 * x - b1 * w[1]
            t[2], t[3] = t[2] + f2 * x - b2 * w[2], t[3] + f3 * x - b3 * w[3]
            t[4], t[5] = t[4] + f4 * x - b4 * w[4], t[5] + f5 * x - b5 * w[5]
            t[6], t[7] = t[6] + f6 * x - b6 * w[6], t[7] + f7 * x - b7 * w[7]
            w[0], w[1] = w[0] + g0 * (x - w[0]), w[1] + g1 * (x - w[1])
            w[2], w[3] = w[2] + g2 * (x - w[2]), w[3] + g3 * (x - w[3])
            w[4], w[5] = w[4] + g4 * (x - w[4]), w[5] + g5 * (x - w[5])
            w[6], w[7] = w[6] + g6 * (x - w[6]), w[7] + g7 * (x - w[7])


@ByType
def dot(rows: Rows, here: int, weights: Floats) -> float:
    """Return the value of a state: the product of its feature row and the weights, (d,), of a single lane.

    For the step of an algorithm, which passes on the `rows` that it is given.

    Examples
    --------
    >>> from gainbias import dot
    >>> dot(DenseRows(np.array([[1.0, 0.0], [2.0, 3.0]])), 1, np.array([10.0, 1.0]))
    np.float64(23.0)
    """
    raise TypeError("declared for each kind of rows")


@dot.of(DenseRows)
def _dot_dense(rows: DenseRows, here: int, weights: Floats) -> float:
    total = 0.0
    for j in range(len(weights)):
        total += rows.matrix[here, j] * weights[j]
    return total


@dot.of(SparseRows)
def _dot_sparse(rows: SparseRows, here: int, weights: Floats) -> float:
    total = 0.0
    for at in range(rows.start[here], rows.start[here + 1]):
        total += rows.entry[at] * weights[rows.column[at]]
    return total


@dot.of(TabularRows)
def _dot_tabular(rows: TabularRows, here: int, weights: Floats) -> float:
    return float(weights[here])


@ByType
def axpy(rows: Rows, here: int, factor: float, weights: Floats) -> None:
    """Add a number times the feature row of a state to the weights, (d,), of a single lane, in place.

    For the step of an algorithm, which passes on the `rows` that it is given.

    Examples
    --------
    >>> from gainbias import axpy
    >>> weights = np.array([10.0, 1.0])
    >>> axpy(DenseRows(np.array([[1.0, 0.0], [2.0, 3.0]])), 1, 0.5, weights)
    >>> weights
    array([11. ,  2.5])
    """


@axpy.of(DenseRows)
def _axpy_dense(rows: DenseRows, here: int, factor: float, weights: Floats) -> None:
    for j in range(len(weights)):
        weights[j] += rows.matrix[here, j] * factor


@axpy.of(SparseRows)
def _axpy_sparse(rows: SparseRows, here: int, factor: float, weights: Floats) -> None:
    for at in range(rows.start[here], rows.start[here + 1]):
        weights[rows.column[at]] += rows.entry[at] * factor


@axpy.of(TabularRows)
def _axpy_tabular(rows: TabularRows, here: int, factor: float, weights: Floats) -> None:
    weights[here] += factor


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
