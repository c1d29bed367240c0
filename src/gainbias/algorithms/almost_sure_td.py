"""Tabular average-reward TD of Blaser and Zhang (2024), with the running mean of the rewards as gain.

For each transition (s, r, s'), with number t = 1, 2, ...:

    V(s) <- V(s) + alpha (r - J + V(s') - V(s))
    J    <- J + (r - J) / t                                 (V uses the old J, which is 0 at first)

The paper's step sizes are 1 / (t + 1)^b with b above 4/5 and at most 1. Schedules number steps from 0, so
these are ``Polynomial(1, 2, b)``.

Converges almost surely to the bias plus a constant value, which depends on the path and on the first weights:
only differences of values are meaningful. The values are the weights, so it exists for tabular features only.

Not guaranteed: which point of the line of solutions; almost-sure convergence for other step sizes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    About,
    Algorithm,
    Declared,
    Field,
    Form,
    Move,
    NoParams,
    PerLane,
    Sample,
    Setting,
    Weights,
    always,
)
from gainbias.algorithms.fields import td_field
from gainbias.features.rows import TabularRows
from gainbias.model.problem import Problem
from gainbias.types import Floats


class State(NamedTuple):
    """State of almost-sure TD: weights, gain and number of steps."""

    weights: Weights
    gain: PerLane
    count: PerLane


def init(setting: Setting, params: NoParams) -> State:
    """Return the state before the first step."""
    return State(setting.weights.copy(), setting.zeros(), setting.zeros())


def step(state: State, params: NoParams, rows: TabularRows, move: Move, step_size: PerLane) -> None:
    """Update the value of the visited state by one TD step, and the mean of the rewards."""
    weights, gain, count = state
    for k in range(len(gain)):
        excess = move.reward - gain[k]
        change = excess + weights[move.after, k] - weights[move.here, k]
        weights[move.here, k] += step_size[k] * change
        count[k] += 1.0
        gain[k] += excess / count[k]


def frozen(problem: Problem, params: NoParams, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain, the limit of the estimate."""
    return {"gain": problem.solution.gain_per_step}


def mean_field(problem: Problem, params: NoParams) -> Field:
    """Return the mean update at the exact gain."""
    return td_field(problem)


def frozen_field(sample: Sample, params: NoParams, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of theta with J at its limit."""
    matrix = np.outer(sample.here, sample.here - sample.after)
    return matrix, (sample.reward - sample.other_reward) * sample.here


def limit(problem: Problem, params: NoParams, first: Floats) -> Floats:
    """Return the bias, one point of the line of limits."""
    return problem.solution.bias


ALGORITHM = Algorithm(
    name="almost-sure-td",
    form=Form(init, step, laned=True, touches_rows=always),
    declared=Declared(
        limit=limit,
        limit_is_line=True,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        frozen_field=frozen_field,
        tabular_only=True,
    ),
    about=About(
        title="Tabular average-reward TD",
        short_title="Almost-sure TD",
        reference="blaser2024almost",
        converges_to="the bias plus a constant value that depends on chance",
        not_guaranteed="which constant",
        table_row="Blaser & Zhang 2024",
    ),
)
