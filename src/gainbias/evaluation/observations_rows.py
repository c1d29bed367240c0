"""Rows of features: checked, scaled, with a row for ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.features.matrix import Matrix


def checked_rows(given: Any, count: int, width: int | None) -> Matrix:
    """Return what a function of a user made of so many observations, if that is rows of features."""
    rows: Matrix
    if isinstance(given, sparse.sparray | sparse.spmatrix):
        anything: Any = given
        rows = sparse.csr_array(anything).astype(np.float64)
    else:
        rows = np.asarray(given, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != count or width not in (None, rows.shape[1]):
        expected = f"({count}, {'d' if width is None else width})"
        raise ValueError(f"features must have shape {expected}, found {rows.shape}")
    entries = rows if isinstance(rows, np.ndarray) else rows.data
    if not np.isfinite(entries).all():
        raise ValueError("features must be finite numbers, found NaN or infinity")
    return rows


def with_zero_row(rows: Matrix) -> Matrix:
    """Return rows with one more that is all 0."""
    if isinstance(rows, np.ndarray):
        return np.concatenate([rows, np.zeros((1, rows.shape[1]))])
    start = np.append(rows.indptr, rows.indptr[-1])
    return sparse.csr_array((rows.data, rows.indices, start), (rows.shape[0] + 1, rows.shape[1]))


def one_hot(states: NDArray[np.int64], num_states: int) -> sparse.csr_array[Any]:
    """Return rows of the identity."""
    entries, starts = np.ones(len(states)), np.arange(len(states) + 1)
    return sparse.csr_array((entries, states, starts), (len(states), num_states))


def divided(rows: Any, scale: float) -> Matrix:
    """Return rows of another scale."""
    quotient: Matrix = rows / scale
    return quotient


def power_of_two(length: float) -> float:
    """Return the smallest power of two that is at least `length`: dividing by it rounds nothing."""
    return float(2.0 ** np.ceil(np.log2(length))) if length > 0.0 else 1.0
