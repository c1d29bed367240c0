"""Algorithms taken apart: single steps from any state, and given paths instead of sampled ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Setting
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.loop import loop_of
from gainbias.engine.paths import Sampler
from gainbias.engine.schedules import Harmonic
from gainbias.engine.work import moves_of
from gainbias.features.rows import Floats, rows_of
from gainbias.model.problem import Problem
from gainbias.testing.cases import Case


class Rig:
    """One lane of an algorithm whose steps are made by hand, uncompiled.

    Parameters
    ----------
    case : Case
        What is tried.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.testing.cases import small_problem
    >>> algorithm = gb.ALGORITHMS["double-chain"]
    >>> rig = Rig(Case(algorithm, "tabular", small_problem("tabular", 3), algorithm.params()))
    >>> state = rig.begin(np.zeros(3))
    >>> rig.step(state, Move(0, 1, 1.0, 2, 0, 0.0), 0.5)
    >>> rig.output(state)
    array([ 0.5,  0. , -0.5])
    """

    def __init__(self, case: Case) -> None:
        self.form, self.problem = case.form, case.problem
        self.rows = rows_of(case.problem.features)
        self.params = lanes_of([case.params]).params(case.algorithm, self.form.laned)

    def begin(self, weights: Floats, **fields: Any) -> Any:
        """Return a first state with these weights, (d,), and with these fields changed."""
        self.setting = setting_of(self.problem, self.form, weights, 1)
        state = self.form.init(self.setting, self.params)
        for name, value in fields.items():
            array = getattr(state, name)
            array[...] = np.reshape(value, array.shape)
        return state

    def step(self, state: Any, move: Move, step_size: float) -> None:
        """Make one step."""
        size = np.array([step_size]) if self.form.laned else step_size
        self.form.step(state, self.params, self.rows, move, size)

    def read(self, state: Any, fields: Sequence[str]) -> Floats:
        """Return fields of a state, one after the other, as a vector."""
        return np.concatenate([getattr(state, name).ravel() for name in fields])

    def output(self, state: Any) -> Floats:
        """Return the weights, (d,), that a state stands for."""
        return self.form.output(state, self.params, self.setting).weights.reshape(-1)


def setting_of(problem: Problem, form: Form, weights: Floats, width: int) -> Setting:
    """Return what an algorithm is told before its first step, with first weights of shape (d,)."""
    lanes = np.repeat(weights[:, None], width, axis=1)
    first = lanes if form.laned else weights.copy()
    return Setting(first, problem.ones_weights, problem.mrp.max_abs_reward)


def sampled_moves(case: Case, num_steps: int, seed: int = 0) -> Move:
    """Return a sampled path."""
    sampler = Sampler(case.problem.mrp)
    names = ("first chain", "second chain")[: case.algorithm.chains]
    return moves_of([sampler.paths([seed], chain=name).take(num_steps) for name in names], 0)


def first_weights(problem: Problem) -> Floats:
    """Return weights of different sizes and signs."""
    return np.asarray(0.5 * np.cos(np.arange(1.0, problem.num_features + 1.0)))


def copied(state: Any) -> Any:
    """Return a copy of a NamedTuple of arrays."""
    return type(state)(*(array.copy() for array in state))


def follow(case: Case, moves: Move, setting: Setting | None = None, scale: float = 1.0) -> Floats:
    """Let one compiled lane follow a path, with scaled step sizes, and return its last weights, (d,)."""
    form, group = case.form, lanes_of([case.params])
    params = group.params(case.algorithm, form.laned)
    told = setting or setting_of(case.problem, form, first_weights(case.problem), 1)
    state = form.init(told, params)
    sizes = scale * group.step_sizes(0, len(moves.here), form.laned)
    loop_of(form.step)(state, params, rows_of(case.problem.features), moves, sizes)
    weights: Floats = form.output(state, params, told).weights.reshape(-1)
    return weights


def lanes_of(params: Sequence[Any]) -> Group:
    """Return lanes with these parameters and with different step sizes."""
    lanes = [Lane(0, Harmonic(4.0 + k, 16.0), each._asdict()) for k, each in enumerate(params)]
    return Group(lanes, list(range(len(lanes))), len(lanes))
