"""An algorithm on its way: its state, and the sums behind the average of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, Setting
from gainbias.engine.loop import Average, averaging_loop_of, loop_of
from gainbias.engine.memory import Memory
from gainbias.features.rows import Floats, Rows


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
        """From now on, sum up the weights."""
        self.averaged = 0
        if self.form.own_average is not None:
            self.form.own_average.begin(self.state)
            return
        weights = self._weights_by_lane
        counted = np.zeros(len(weights) if self._counts_rows else 0, np.int64)
        self._average = Average(np.zeros_like(weights), counted, np.zeros(1, np.int64))

    def advance(self, rows: Rows, moves: Move, sizes: Floats) -> None:
        """Make the steps of some moves."""
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
