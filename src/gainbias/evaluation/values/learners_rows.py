"""Batches of transitions as kernels read them: rows of features no longer than 1, and moves between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse

from gainbias.algorithms.algorithm import Move
from gainbias.evaluation.stream.stream import Transitions
from gainbias.features.matrix import FloatArray, Matrix
from gainbias.features.rows import DenseRows, Rows, SparseRows, TabularRows


class Kept(NamedTuple):
    """Rows as they came, and scaled; squared lengths of the scaled ones, None if none is longer than 1."""

    given: Matrix | None
    matrix: Matrix | None
    rows: Rows
    squares: FloatArray | None


@dataclass(frozen=True, eq=False)
class Piece:
    """Some moves.

    Attributes
    ----------
    matrix : (k, d) ndarray or csr_array, or None
        Scaled rows of features; ``None`` if they are tabular.
    rows : Rows
        The same, for kernels.
    moves : Move of (m,) arrays
    largest_steps : (m,) array or None
        Step sizes above these overshoot; None if none below 1 does.
    """

    matrix: Matrix | None
    rows: Rows
    moves: Move
    largest_steps: FloatArray | None

    def __len__(self) -> int:
        return len(self.moves.here)

    def part(self, chosen: Any) -> Piece:
        """Some of the moves: a slice, or for each whether it is chosen."""
        largest = None if self.largest_steps is None else self.largest_steps[chosen]
        first = [array[chosen] for array in self.moves[:3]]
        alone = self.moves.other is self.moves.here
        second = first if alone else [array[chosen] for array in self.moves[3:]]
        return Piece(self.matrix, self.rows, Move(*first, *second), largest)

    def add_features(self, sums: FloatArray, squares: FloatArray) -> None:
        """Add up the features of all moves, and their squares, both (d,)."""
        here = self.moves.here
        if self.matrix is None:
            np.add.at(sums, here, 1.0)
            np.add.at(squares, here, 1.0)
        else:
            rows = self.matrix[here]
            sums += rows.sum(axis=0)
            squares += (rows * rows).sum(axis=0)

    def values(self, weights: FloatArray) -> FloatArray:
        """Values before each move, (m,)."""
        here = self.moves.here
        return np.asarray(weights[here] if self.matrix is None else self.matrix[here] @ weights)


class Reader:
    """Divides rows of features by a number, and makes pieces of batches.

    Parameters
    ----------
    num_features : int
    scale : float
        What rows are divided by, unless they are tabular.

    Examples
    --------
    >>> rows, states = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([0, 1, 0])
    >>> batch = Transitions(np.ones(2), states[:-1], states[1:], rows, np.zeros(2, dtype=np.int64))
    >>> piece = Reader(2, scale=2.0).piece(batch, batch)
    >>> piece.rows.matrix.tolist(), piece.largest_steps.round(2).tolist()
    ([[1.5, 0.0], [0.0, 2.0]], [0.44, 0.25])
    """

    def __init__(self, num_features: int, scale: float) -> None:
        self.num_features, self.scale = num_features, scale
        self._kept: Kept | None = None

    def piece(self, first: Transitions, second: Transitions) -> Piece:
        """Return moves of two chains of equal length; with one chain, both are the same batch."""
        shift, given = 0, first.rows
        if first.rows is not second.rows and isinstance(first.rows, np.ndarray):
            shift, given = len(first.rows), np.concatenate([first.rows, second.rows])
        elif first.rows is not second.rows:
            both: Any = [first.rows, second.rows]
            shift, given = both[0].shape[0], sparse.csr_array(sparse.vstack(both))
        if self._kept is None or self._kept.given is not given:  # a table of all states comes again and again
            self._kept = self._scaled(given)
        _, matrix, rows, squares = self._kept
        here, after = _numbers(first.here), _numbers(first.after)
        other, other_after = here, after
        if second is not first:
            other, other_after = _numbers(second.here + shift), _numbers(second.after + shift)
        largest = None if squares is None else 1.0 / np.maximum(squares[here], squares[other])
        return Piece(
            matrix, rows, Move(here, after, first.rewards, other, other_after, second.rewards), largest
        )

    def _scaled(self, given: Matrix | None) -> Kept:
        if given is None:
            return Kept(None, None, TabularRows(self.num_features), None)
        matrix: Any = given if self.scale == 1.0 else given / self.scale
        squares = np.asarray((matrix * matrix).sum(axis=1))
        kept = squares if squares.max(initial=0.0) > 1.0 else None
        if isinstance(matrix, np.ndarray):
            return Kept(given, matrix, DenseRows(np.ascontiguousarray(matrix)), kept)
        rows = SparseRows(_numbers(matrix.indptr), _numbers(matrix.indices), matrix.data)
        return Kept(given, matrix, rows, kept)


def _numbers(array: Any) -> Any:
    """Numbers of rows as the engine has them too, so that the same compiled kernels serve both."""
    return np.ascontiguousarray(array, dtype=np.int32)
