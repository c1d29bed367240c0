"""The one hot loop: an algorithm's step over a stretch of transitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from gainbias.algorithms.algorithm import Move
from gainbias.features.rows import DenseRows, Floats, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, bare_kernel, inlined
from gainbias.model.solve.elimination.types import Ints


@cache
def loop_of(step: Callable[..., None]) -> Callable[..., None]:
    """Return the compiled loop of a step.

    It is kept on disk if the step is part of this package; its Python form is ``loop_of(step).py_func``.

    Examples
    --------
    >>> from gainbias.algorithms.double_chain import step
    >>> loop_of(step) is loop_of(step)
    True
    """
    inlined(step)

    def advance(state: Any, params: Any, rows: Rows, moves: Move, step_sizes: Floats) -> None:
        for t in range(len(moves.here)):
            step(state, params, rows, move_at(moves, t), step_sizes[t])

    return bare_kernel(advance)


@inlined
def move_at(moves: Move, t: int) -> Move:
    """Return one move of a stretch."""
    return Move(
        moves.here[t],
        moves.after[t],
        moves.reward[t],
        moves.other[t],
        moves.other_after[t],
        moves.other_reward[t],
    )


class Average(NamedTuple):
    """Sums of weights over steps, from which their average follows.

    Attributes
    ----------
    total : (d, lanes) array
        Sum of the weights after each step, up to the step at which each feature was counted last.
    counted : (d,) int array
        That step; where all features are counted after each step, the array is empty.
    clock : (1,) int array
        Number of steps so far.
    """

    total: Floats
    counted: Ints
    clock: Ints


@cache
def averaging_loop_of(step: Callable[..., None]) -> Callable[..., None]:
    """Return the compiled loop of a step that also sums up its weights.

    If `counted` is not empty, only the features of the rows that a move touches are brought up to date, just
    before they change, so that the cost does not grow with the number of features.
    """
    inlined(step)

    def advance(
        state: Any,
        average: Average,
        weights: Floats,
        params: Any,
        rows: Rows,
        moves: Move,
        step_sizes: Floats,
    ) -> None:
        for t in range(len(moves.here)):
            move = move_at(moves, t)
            if len(average.counted) == 0:
                step(state, params, rows, move, step_sizes[t])
                add_weights(weights, average.total)
            else:
                count_row(rows, move.here, weights, average)
                count_row(rows, move.other, weights, average)
                step(state, params, rows, move, step_sizes[t])
            average.clock[0] += 1

    return bare_kernel(advance)


@inlined
def add_weights(weights: Floats, total: Floats) -> None:
    """Add weights to their sums; for one lane without a loop over lanes, whose set-up would take longer."""
    if weights.shape[1] == 1:
        for j in range(weights.shape[0]):
            total[j, 0] += weights[j, 0]
    else:
        for j in range(weights.shape[0]):
            for k in range(weights.shape[1]):
                total[j, k] += weights[j, k]


@inlined
def count_feature(j: int, weights: Floats, average: Average) -> None:
    """Add one feature's weights as often as it kept them."""
    kept = average.clock[0] - average.counted[j]
    if kept > 0:
        for k in range(weights.shape[1]):
            average.total[j, k] += kept * weights[j, k]
        average.counted[j] = average.clock[0]


@ByType
def count_row(rows: Rows, here: int, weights: Floats, average: Average) -> None:
    """Bring the features of a state up to date."""


@count_row.of(DenseRows)
def _count_dense(rows: DenseRows, here: int, weights: Floats, average: Average) -> None:
    for j in range(weights.shape[0]):
        count_feature(j, weights, average)


@count_row.of(SparseRows)
def _count_sparse(rows: SparseRows, here: int, weights: Floats, average: Average) -> None:
    for at in range(rows.start[here], rows.start[here + 1]):
        count_feature(rows.column[at], weights, average)


@count_row.of(TabularRows)
def _count_tabular(rows: TabularRows, here: int, weights: Floats, average: Average) -> None:
    count_feature(here, weights, average)
