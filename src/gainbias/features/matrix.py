"""Feature matrices: dense, sparse, or one feature per state.

Row ``s`` of a feature matrix describes state ``s`` to a method. `as_features` checks a matrix and returns
it as read-only `Features`; the functions at the end say what is refused. Nothing is rescaled
automatically: the largest row norm is reported, and the caller may call `normalise_features`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from gainbias.types import Floats

Matrix: TypeAlias = "Floats | sparse.csr_array[Any]"

ROW_BLOCK_BYTES = 32 * 2**20
"""A dense block of rows stays below this size, so that sparse features are never densified as a whole."""

LINE = 8
"""Numbers in a cache line of the processor."""


@dataclass(frozen=True)
class Tabular:
    """One feature per state: the identity, which is never formed.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> gb.Problem(process, gb.Tabular()).num_features
    2
    """


@dataclass(frozen=True, eq=False)
class Features:
    """A checked feature matrix, read-only.

    Attributes
    ----------
    kind : {"dense", "sparse", "tabular"}
        How the matrix is stored; tabular features are the identity.
    num_states, num_features : int
        Height and width of the matrix.
    given : ndarray or csr_array or None
        The stored matrix, ``None`` for tabular features.

    Examples
    --------
    >>> from gainbias.features import as_features
    >>> features = as_features([[3, 4], [1, 0], [0, 1]])
    >>> features.kind, features.num_states, features.num_features, features.max_row_norm
    ('dense', 3, 2, 5.0)
    """

    kind: Literal["dense", "sparse", "tabular"]
    num_states: int
    num_features: int
    given: Matrix | None

    @cached_property
    def matrix(self) -> Matrix:
        """The (n, d) matrix; for tabular features a sparse identity."""
        if self.given is None:
            return sparse.eye_array(self.num_states, format="csr")
        return self.given

    @cached_property
    def row_norms(self) -> Floats:
        """Euclidean norm of each row, (n,)."""
        return np.ones(self.num_states) if self.given is None else row_norms(self.given)

    @property
    def max_row_norm(self) -> float:
        """Largest Euclidean norm of a row. The theory of the methods assumes that it is at most 1."""
        return float(self.row_norms.max())

    def combine(self, weights: Floats) -> Floats:
        """Return the values of all states, ``matrix @ weights``: (n,) for (d,) weights, (n, k) for (d, k)."""
        return weights.copy() if self.given is None else np.asarray(self.given @ weights)

    def adjoint(self, values: Floats) -> Floats:
        """Return ``matrix.T @ values``: (d,) for (n,) values, (d, k) for (n, k)."""
        return values.copy() if self.given is None else np.asarray(self.given.T @ values)

    def row_blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Iterate over the matrix as dense blocks of consecutive rows, each of bounded size."""
        height = max(1, ROW_BLOCK_BYTES // (8 * self.num_features))
        for start in range(0, self.num_states, height):
            rows = slice(start, min(start + height, self.num_states))
            block = self.matrix[rows]
            yield rows, block if isinstance(block, np.ndarray) else block.toarray()

    def __repr__(self) -> str:
        return f"Features({self.kind}, num_states={self.num_states}, num_features={self.num_features})"


FeatureLike: TypeAlias = "npt.ArrayLike | sparse.sparray | sparse.spmatrix | Tabular | Features"


def as_features(features: FeatureLike, num_states: int | None = None) -> Features:
    """Return a feature matrix checked and read-only.

    Parameters
    ----------
    features : (n, d) array_like, scipy.sparse array, Tabular or Features
        Real and finite. Numbers of any real type are taken as float64.
    num_states : int, optional
        The number of states; needed for `Tabular`, which does not have one.

    Returns
    -------
    Features
        The checked matrix, a read-only copy.

    Raises
    ------
    ValueError
        If the matrix is not two-dimensional, has no rows or columns, has an entry that is not a finite real
        number, or has a column of zeros.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.features import as_features
    >>> as_features(gb.Tabular(), num_states=5)
    Features(tabular, num_states=5, num_features=5)
    """
    if isinstance(features, Features):
        return features
    if isinstance(features, Tabular):
        if num_states is None:
            raise ValueError("tabular features have no height of their own: pass num_states")
        return Features("tabular", num_states, num_states, None)
    matrix = _canonical_sparse(features) if sparse.issparse(features) else _canonical_dense(features)
    _check_entries(matrix)
    kind: Literal["dense", "sparse"] = "dense" if isinstance(matrix, np.ndarray) else "sparse"
    return Features(kind, matrix.shape[0], matrix.shape[1], matrix)


def normalise_features(features: FeatureLike, by: Literal["global", "row"] = "global") -> Matrix | Tabular:
    """Return features scaled so that no row is longer than 1.

    Parameters
    ----------
    features : (n, d) array_like, scipy.sparse array, Tabular or Features
        The features.
    by : {"global", "row"}
        ``"global"`` divides the whole matrix by its largest row norm, which keeps the span of the columns and
        so every value that the features can express. ``"row"`` divides each row by its own norm, which
        changes the span; a row of zeros stays as it is.

    Returns
    -------
    ndarray or csr_array or Tabular
        The scaled matrix, (n, d), dense or sparse as the features are. Tabular features come back as they
        are.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.normalise_features([[3.0, 4.0], [0.0, 1.0]], by="global")
    array([[0.6, 0.8],
           [0. , 0.2]])
    >>> gb.normalise_features([[3.0, 4.0], [0.0, 2.0]], by="row")
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    if by not in ("global", "row"):
        raise ValueError(f"by must be 'global' or 'row', found {by!r}")
    if isinstance(features, Tabular):
        return features
    checked = as_features(features)
    if checked.given is None:
        return Tabular()
    own = checked.row_norms
    norms = np.full_like(own, checked.max_row_norm) if by == "global" else np.where(own > 0.0, own, 1.0)
    if isinstance(checked.given, np.ndarray):
        return np.divide(checked.given, norms[:, None])
    scaled = checked.given.copy()
    scaled.data = scaled.data / np.repeat(norms, np.diff(scaled.indptr))
    return scaled


def row_norms(matrix: Matrix) -> Floats:
    """Return the Euclidean norm of each row; rows are scaled first, so that no square overflows."""
    if isinstance(matrix, np.ndarray):
        largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1))
        scale = np.where(largest > 0.0, largest, 1.0)
        return np.array([size * np.linalg.norm(row / size) for row, size in zip(matrix, scale, strict=True)])
    largest = abs(matrix).max(axis=1).toarray()
    scale = np.where(largest > 0.0, largest, 1.0)
    row_of_entry = np.repeat(np.arange(scale.size), np.diff(matrix.indptr))
    squares = (matrix.data / scale[row_of_entry]) ** 2
    return scale * np.sqrt(np.bincount(row_of_entry, squares, minlength=scale.size))


def column_lengths(features: Features) -> Floats:
    """Return the Euclidean norm of each column, (d,).

    Examples
    --------
    >>> column_lengths(as_features([[3.0, 0.0], [4.0, 1.0]]))
    array([5., 1.])
    """
    if features.given is None:
        return np.ones(features.num_features)
    return np.asarray(
        sparse_linalg.norm(features.given, axis=0)
        if sparse.issparse(features.given)
        else np.linalg.norm(features.given, axis=0)
    )


def aligned_zeros(count: int) -> Floats:
    """Return zeros, (count,), from the start of a cache line.

    NumPy aligns arrays only to 16 bytes. If an array started in the middle of a vector register's width,
    LSTD with 100 dense features took a fifth longer.

    Examples
    --------
    >>> aligned_zeros(3).ctypes.data % (8 * LINE)
    0
    """
    room = np.zeros(count + LINE)
    first = -(room.ctypes.data // room.itemsize) % LINE
    return room[first : first + count]


def _canonical_dense(features: Any) -> Floats:
    if features is Tabular:
        raise ValueError("features is the class gb.Tabular, not an instance of it: write gb.Tabular()")
    if isinstance(features, np.ma.MaskedArray):
        raise ValueError("features is a masked array: fill or drop its masked entries first")
    try:
        raw = np.asarray(features)
    except ValueError as error:
        raise ValueError(f"features must be a rectangular array of numbers: {error}") from error
    _check_numbers(raw.dtype)
    _check_shape(raw.shape)
    matrix = aligned_zeros(raw.size).reshape(raw.shape)
    matrix[...] = raw
    matrix.setflags(write=False)
    return matrix


def _canonical_sparse(features: Any) -> sparse.csr_array[Any]:
    _check_numbers(features.dtype)
    _check_shape(features.shape)
    if hasattr(features, "check_format"):
        try:
            features.check_format(full_check=True)  # an index out of range would read foreign memory
        except ValueError as error:
            raise ValueError(f"features are a damaged sparse matrix: {error}") from error
    matrix = sparse.csr_array(features, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix


def _check_numbers(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "fiub":
        raise ValueError(
            f"features must be real numbers, found entries of type {dtype}: convert them to float64"
        )


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        hint = ": a single feature is a column, features.reshape(-1, 1)" if len(shape) == 1 else ""
        raise ValueError(f"features must be a matrix with one row per state, found shape {shape}{hint}")
    if 0 in shape:
        raise ValueError(f"features must have at least one row and one column, found shape {shape}")


def _check_entries(matrix: Matrix) -> None:
    """Refuse entries that are not finite, and columns of zeros, for which no method can learn a weight."""
    entries = matrix if isinstance(matrix, np.ndarray) else matrix.data
    finite = np.isfinite(entries)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), finite.shape)
        if isinstance(matrix, np.ndarray):
            row, column = place
        else:
            row = np.searchsorted(matrix.indptr, place[0], side="right") - 1
            column = matrix.indices[place[0]]
        raise ValueError(
            f"features must be finite, found {entries[place]} in row {row}, column {column}: "
            "replace it or drop that feature"
        )
    if isinstance(matrix, np.ndarray):
        occupied = (matrix != 0.0).any(axis=0)
    else:
        occupied = np.bincount(matrix.indices, minlength=matrix.shape[1]) > 0
    if not occupied.any():
        raise ValueError("features must not all be zero: every value they can express is 0")
    if not occupied.all():
        raise ValueError(f"column {int(np.argmin(occupied))} of features is zero in every state: drop it")
