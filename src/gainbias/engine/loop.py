"""The hot loops: an algorithm's step over a stretch of transitions, and what they work on.

`loop_of` compiles the plain loop of a step, `averaging_loop_of` the one that also sums up weights for
averages. `Memory` keeps a state in one piece of memory. `Running` brings them together: an algorithm on its
way, wherever its transitions come from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, Setting
from gainbias.features.matrix import LINE, aligned_zeros
from gainbias.features.rows import DenseRows, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, bare_kernel, inlined
from gainbias.types import Floats, Ints


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
    """Return the move with number `t` of a stretch."""
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
    """Bring the sums for the features of a state up to date."""


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


class Memory:
    """A state whose arrays lie side by side, the integers last, each from the start of a cache line.

    So it is saved and looked through in one go; and the weights of eight lanes do not straddle two lines,
    which takes a sixth off the time of a step.

    Parameters
    ----------
    state : NamedTuple of arrays of float64 or int64
        It is copied.

    Attributes
    ----------
    state : NamedTuple of arrays
    numbers : (m,) array
        All of it, integers too, with zeros in between.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class State(NamedTuple):
    ...     count: np.ndarray
    ...     weights: np.ndarray
    >>> memory = Memory(State(np.array([7]), np.array([[1.0, 2.0]])))
    >>> saved = memory.numbers.copy()
    >>> memory.state.weights[0, 1] = np.inf
    >>> memory.is_finite
    False
    >>> memory.numbers[:] = saved
    >>> memory.state, memory.is_finite
    (State(count=array([7]), weights=array([[1., 2.]])), True)
    """

    def __init__(self, state: Any) -> None:
        starts, end = [0] * len(state), 0
        floats = [i for i, array in enumerate(state) if array.dtype.kind == "f"]
        others = [i for i in range(len(state)) if i not in floats]
        for i in floats + others:
            starts[i], end = end, end + _whole_lines(state[i].size)
        self.numbers = aligned_zeros(end)
        self._num_floats = sum(_whole_lines(state[i].size) for i in floats)
        self.state = type(state)(*map(self._place, starts, state))

    def _place(self, start: int, array: Any) -> Any:
        own = self.numbers[start : start + array.size].view(array.dtype).reshape(array.shape)
        own[...] = array
        return own

    @property
    def is_finite(self) -> bool:
        """Whether all floats are finite."""
        return bool(np.isfinite(self.numbers[: self._num_floats]).all())


def _whole_lines(count: int) -> int:
    return -(-count // LINE) * LINE


class Running:
    """A form that makes steps, wherever its transitions come from.

    Parameters
    ----------
    form : Form
        How the algorithm is computed for features of this kind.
    kind : {"dense", "sparse", "tabular"}
        Kind of the features.
    setting : Setting
        What the algorithm is told before its first step.
    params : NamedTuple
        Its parameters, as the form wants them.

    Attributes
    ----------
    state : NamedTuple of arrays
    averaged : int or None
        Steps since the average began.
    """

    def __init__(self, form: Form, kind: str, setting: Setting, params: Any) -> None:
        self.form, self.setting, self.params = form, setting, params
        self._counts_rows = form.touches_rows(params) and kind != "dense"
        self.memory = Memory(form.init(setting, params))
        self.state = self.memory.state
        self.averaged: int | None = None
        self._average: Average | None = None

    def begin_average(self) -> None:
        """Sum up the weights from now on, for their average."""
        self.averaged = 0
        if self.form.own_average is not None:
            self.form.own_average.begin(self.state)
            return
        weights = self._weights_by_lane
        counted = np.zeros(len(weights) if self._counts_rows else 0, np.int64)
        self._average = Average(np.zeros_like(weights), counted, np.zeros(1, np.int64))

    def advance(self, rows: Rows, moves: Move, sizes: Floats) -> None:
        """Make the steps of a stretch of moves."""
        if self._average is None:
            loop_of(self.form.step)(self.state, self.params, rows, moves, sizes)
        else:
            averaging_loop = averaging_loop_of(self.form.step)
            averaging_loop(self.state, self._average, self._weights_by_lane, self.params, rows, moves, sizes)
        if self.averaged is not None:
            self.averaged += len(moves.here)

    def mean_weights(self) -> Floats:
        """Return the mean of the weights after each step since the average began, of which there is one.

        For a form with an average of its own that is what it reports; otherwise as they are in the state.
        """
        assert self.averaged
        if self.form.own_average is not None:
            return self.answer().weights
        assert self._average is not None
        total, counted, clock = self._average
        if counted.size:
            total = total + (clock[0] - counted)[:, None] * self._weights_by_lane
        return np.asarray(total / clock[0]).reshape(self.state.weights.shape)

    def reported(self, mean_weights: Floats) -> Output:
        """Return what the algorithm says with these in the place of its weights (see `mean_weights`)."""
        if self.form.own_average is not None:
            return Output(mean_weights, self.form.output(self.state, self.params, self.setting).gain)
        return self.form.output(self.state._replace(weights=mean_weights), self.params, self.setting)

    def answer(self) -> Output:
        """Return what the algorithm says, with the average of its weights if that has begun."""
        form, told = self.form, (self.params, self.setting)
        if self.averaged and form.own_average is not None:
            return form.own_average.output(self.state, *told, self.averaged)
        return self.reported(self.mean_weights()) if self.averaged else form.output(self.state, *told)

    @property
    def _weights_by_lane(self) -> Floats:
        weights: Floats = self.state.weights
        return weights.reshape(len(weights), -1)
