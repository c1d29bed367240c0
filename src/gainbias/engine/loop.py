"""The hot loops: an algorithm's step over a stretch of transitions, and what they work on.

`loop_of` compiles the plain loop of a step, `averaging_loop_of` the one that also sums up weights for
averages. Both store the state where `Notes` ask for it, and look for what is not finite, so they return to
Python once per stretch and not at each checkpoint, because threads run one at a time there. `Memory` keeps a
state in one piece of memory. `Running` combines these: an algorithm in progress, wherever its transitions
come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, Setting, read_state
from gainbias.features.matrix import LINE, aligned_zeros
from gainbias.features.rows import DenseRows, Rows, SparseRows, TabularRows
from gainbias.kernels import ByType, bare_kernel, inlined
from gainbias.types import Floats, Ints


class Notes(NamedTuple):
    """After how many steps of a stretch a loop writes down what its state is then, and what else it notes.

    Attributes
    ----------
    after : (k,) int array
        Numbers of steps, increasing.
    numbers, more : (m,) and (a,) arrays
        The memory of the state, and of everything else that changes with it.
    kept : (k, m + a) array
        Filled in, a row each time.
    before : (m,) or (0,) array
        Filled in with the memory of the state before the first step, if it has room.
    floats : int
        How many of the numbers, the first, are looked at each time and in the end; 0 for none.
    """

    after: Ints
    numbers: Floats
    more: Floats
    kept: Floats
    before: Floats
    floats: int


NO_NOTES = Notes(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros(0), 0)
"""Nothing is written down or looked at."""


@cache
def loop_of(step: Callable[..., None]) -> Callable[..., bool]:
    """Return the compiled loop of a step; it returns whether all that it looked at was finite.

    It is kept on disk if the step is part of this package; its Python form is ``loop_of(step).py_func``.

    Examples
    --------
    >>> from gainbias.algorithms.double_chain import step
    >>> loop_of(step) is loop_of(step)
    True
    """
    inlined(step)

    def advance(state: Any, params: Any, rows: Rows, moves: Move, step_sizes: Floats, notes: Notes) -> bool:
        write_before(notes)
        begin, good = 0, True
        for number in range(len(notes.after) + 1):
            end = end_of_part(notes, number, len(moves.here))
            for t in range(begin, end):
                step(state, params, rows, move_at(moves, t), step_sizes[t])
            write_down(notes, number)
            good = good and all_finite(notes)
            begin = end
        return good

    return bare_kernel(advance)


@inlined
def end_of_part(notes: Notes, number: int, length: int) -> int:
    """Return after how many steps the next note is due; after the last one the stretch goes to its end."""
    return length if number == len(notes.after) else int(notes.after[number])


@inlined
def write_before(notes: Notes) -> None:
    """Write down the memory before the first step, if there is room for it."""
    for i in range(len(notes.before)):
        notes.before[i] = notes.numbers[i]


@inlined
def all_finite(notes: Notes) -> bool:
    """Return whether what is looked at is finite; for many numbers without a branch."""
    good = True
    for i in range(notes.floats):
        good &= math.isfinite(notes.numbers[i])
    return good


@inlined
def write_down(notes: Notes, number: int) -> None:
    """Store the memory as the row with this number, if there is one."""
    if number < len(notes.after):
        for i in range(len(notes.numbers)):
            notes.kept[number, i] = notes.numbers[i]
        for i in range(len(notes.more)):
            notes.kept[number, len(notes.numbers) + i] = notes.more[i]


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
        That step; if all features are counted after each step, the array is empty.
    clock : (1,) int array
        Number of steps so far.
    """

    total: Floats
    counted: Ints
    clock: Ints


@cache
def averaging_loop_of(step: Callable[..., None]) -> Callable[..., bool]:
    """Return the compiled loop of a step that also sums up its weights; it returns what `loop_of`'s does.

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
        notes: Notes,
    ) -> bool:
        write_before(notes)
        begin, good = 0, True
        for number in range(len(notes.after) + 1):
            end = end_of_part(notes, number, len(moves.here))
            for t in range(begin, end):
                move = move_at(moves, t)
                if len(average.counted) == 0:
                    step(state, params, rows, move, step_sizes[t])
                    add_weights(weights, average.total)
                else:
                    count_row(rows, move.here, weights, average)
                    count_row(rows, move.other, weights, average)
                    step(state, params, rows, move, step_sizes[t])
                average.clock[0] += 1
            write_down(notes, number)
            good = good and all_finite(notes)
            begin = end
        return good

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
    """A state whose arrays are contiguous in memory, the integers last, each at the start of a cache line.

    So it is saved and checked in one pass; and the weights of eight lanes do not straddle two lines, which
    saves a sixth of the time of a step.

    Parameters
    ----------
    state : NamedTuple of arrays of float64 or int64
        It is copied.

    Attributes
    ----------
    state : NamedTuple of arrays
    numbers : (m,) array
        All entries, including integers, with zeros in between.
    num_floats : int
        How many of them, the first, are not integers.

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
        self._like, self._starts = state, starts
        floats = [i for i, array in enumerate(state) if array.dtype.kind == "f"]
        others = [i for i in range(len(state)) if i not in floats]
        for i in floats + others:
            starts[i], end = end, end + _whole_lines(state[i].size)
        self.numbers = aligned_zeros(end)
        self.num_floats = sum(_whole_lines(state[i].size) for i in floats)
        self.state = self.read(self.numbers)
        for own, array in zip(self.state, state, strict=True):
            own[...] = array
        self._like = self.state

    def read(self, numbers: Floats) -> Any:
        """Return the state whose memory is numbers, (..., m); its arrays have the same first axes."""
        parts = (
            numbers[..., start : start + a.size] for start, a in zip(self._starts, self._like, strict=True)
        )
        return type(self._like)(
            *(
                part.view(a.dtype).reshape(*numbers.shape[:-1], *a.shape)
                for part, a in zip(parts, self._like, strict=True)
            )
        )

    @property
    def is_finite(self) -> bool:
        """Whether all floats are finite."""
        return bool(np.isfinite(self.numbers[: self.num_floats]).all())


def _whole_lines(count: int) -> int:
    return -(-count // LINE) * LINE


class Running:
    """A form that takes steps, wherever its transitions come from.

    Parameters
    ----------
    form : Form
        How the algorithm is computed for features of this kind.
    kind : {"dense", "sparse", "tabular"}
        Kind of the features.
    setting : Setting
        What the algorithm is told before its first step.
    params : NamedTuple
        Its parameters, in the shapes of the form.

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
        self._average: Memory | None = None

    @property
    def memories(self) -> tuple[Floats, Floats]:
        """The numbers of the state, and those of the average, of which there are none before it begins."""
        return self.memory.numbers, NO_NOTES.more if self._average is None else self._average.numbers

    def begin_average(self) -> None:
        """Sum up the weights from now on, for their average."""
        self.averaged = 0
        if self.form.own_average is not None:
            self.form.own_average.begin(self.state)
            return
        weights = _by_lane(self.state.weights, 0)
        counted = np.zeros(len(weights) if self._counts_rows else 0, np.int64)
        self._average = Memory(Average(np.zeros_like(weights), counted, np.zeros(1, np.int64)))

    def advance(
        self,
        rows: Rows,
        moves: Move,
        sizes: Floats,
        after: Ints = NO_NOTES.after,
        kept: Floats = NO_NOTES.kept,
        before: Floats = NO_NOTES.before,
        floats: int = 0,
    ) -> bool:
        """Take the steps of a stretch of moves; return whether all that was looked at is finite.

        Parameters
        ----------
        rows, moves, sizes
            What the steps read.
        after : (k,) int array
            Numbers of steps after which the memories are stored.
        kept : (k, numbers) array
            Where they are stored; see `answers`.
        before, floats
            See `Notes`.
        """
        notes = Notes(after, *self.memories, kept, before, floats)
        if self._average is None:
            good = loop_of(self.form.step)(self.state, self.params, rows, moves, sizes, notes)
        else:
            weights, average = _by_lane(self.state.weights, 0), self._average.state
            good = averaging_loop_of(self.form.step)(
                self.state, average, weights, self.params, rows, moves, sizes, notes
            )
        if self.averaged is not None:
            self.averaged += len(moves.here)
        return good

    def mean_weights(self) -> Floats:
        """Return the mean of the weights over the steps since the average began, at least one.

        If a form computes its own average, that is returned; otherwise the mean of the weights in the state.
        """
        assert self.averaged
        if self.form.own_average is not None:
            return self.answer().weights
        assert self._average is not None
        return _mean(self._average.state, self.state.weights)

    def reported(self, mean_weights: Floats) -> Output:
        """Return the algorithm's output with these in place of its weights (see `mean_weights`)."""
        if self.form.own_average is not None:
            return Output(mean_weights, self.form.output(self.state, self.params, self.setting).gain)
        return self.form.output(self.state._replace(weights=mean_weights), self.params, self.setting)

    def answer(self) -> Output:
        """Return the algorithm's output, with the average of its weights if that has begun."""
        average = None if self._average is None else self._average.state
        return self._answer(self.state, average, self.averaged)

    def answers(self, kept: Floats, averaged: Sequence[int | None]) -> Output:
        """Return the algorithm's output for the memories in each row of `kept`, (k, numbers).

        `averaged` is how many steps since the average began, if it had. Weights and gains of the output have
        a first axis of length k.
        """
        split = len(self.memory.numbers)
        states = self.memory.read(kept[:, :split])
        averages = None if self._average is None else self._average.read(kept[:, split:])
        if self.form.output is read_state and self.form.own_average is None:  # without a loop
            weights = states.weights if averages is None else _mean(averages, states.weights)
            return Output(weights, getattr(states, "gain", None))
        said = [
            self._answer(_row(states, k), None if averages is None else _row(averages, k), steps)
            for k, steps in enumerate(averaged)
        ]
        gains = [output.gain for output in said if output.gain is not None]
        return Output(np.array([output.weights for output in said]), np.array(gains) if gains else None)

    def _answer(self, state: Any, average: Average | None, averaged: int | None) -> Output:
        form, told = self.form, (self.params, self.setting)
        if averaged and form.own_average is not None:
            return form.own_average.output(state, *told, averaged)
        if averaged and average is not None:
            state = state._replace(weights=_mean(average, state.weights))
        return form.output(state, *told)


def _row(stacked: Any, k: int) -> Any:
    return type(stacked)(*(array[k] for array in stacked))


def _by_lane(weights: Floats, first_axes: int) -> Floats:
    """Return weights with a last axis for lanes, even for a single lane, after some first axes."""
    return weights.reshape(*weights.shape[: first_axes + 1], -1)


def _mean(average: Average, weights: Floats) -> Floats:
    """Return the mean of weights, in their shape; all arrays may have the same first axes."""
    total, counted, clock = average
    if counted.size:
        total = total + (clock - counted)[..., None] * _by_lane(weights, clock.ndim - 1)
    return np.asarray(total / clock[..., None]).reshape(weights.shape)
