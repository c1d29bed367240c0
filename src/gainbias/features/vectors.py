"""Operations of kernels on whole vectors: weights of several lanes, or rows seen by a single lane."""

from __future__ import annotations

import numpy as np

from gainbias.features.rows import DenseRows, Floats, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, inlined


@inlined
def scale_lanes(vectors: Floats, factors: Floats) -> None:
    """Multiply vectors, (d, lanes), by a number for every lane."""
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
    """Write the squared Euclidean norm of vectors, (d, lanes), for every lane."""
    for k in range(len(out)):
        out[k] = 0.0
    for j in range(vectors.shape[0]):
        for k in range(len(out)):
            out[k] += vectors[j, k] * vectors[j, k]


@inlined
def keep_in_ball(vectors: Floats, squares: Floats, radius: Floats) -> None:
    """Shorten vectors, (d, lanes), that are longer than a radius for every lane.

    `squares`, (lanes,), estimates the squared norms. Only where the estimate comes close to the radius is
    the norm computed, so that a step far inside the ball costs nothing.
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


@ByType
def dot(rows: Rows, here: int, weights: Floats) -> float:
    """Return the value of a state under the weights, (d,), of a single lane."""
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
    """Add the row of a state, times a number, to the weights, (d,), of a single lane."""


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
