"""Differential TD of Wan, Naik and Sutton (2021), on-policy, with linear features.

With V = theta^T phi, for each transition (s, r, s'):

    delta = r - rbar + V(s') - V(s)
    rbar  <- rbar + c alpha delta
    theta <- theta + alpha delta phi(s)                 (both with the old rbar and theta)

c is `gain_ratio`. Where features span the constants (Phi theta_e = e), rbar - c theta_e^T theta never
changes, because both move by c alpha delta.

Converges to the TD(0) fixed point if features do not span the constants. If they do, to the point of the
line of solutions with theta_e^T theta = theta_e^T theta_0 + (g - rbar_0) / c: the same for all runs, but
dependent on the first weights and on c. Not guaranteed: with tabular features the proof needs a clock for
each state; the off-policy form, which is not built here, can diverge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    POSITIVE,
    About,
    Algorithm,
    Declared,
    Field,
    Form,
    Move,
    PerLane,
    Sample,
    Setting,
    Weights,
    always,
)
from gainbias.algorithms.fields import td_field, td_solution
from gainbias.features.rows import Rows, add_row, values
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of differential TD: step size of the gain over that of the weights."""

    gain_ratio: PerLane = 1.0


class State(NamedTuple):
    """State of differential TD: weights, gain, and room for two numbers per lane."""

    weights: Weights
    gain: PerLane
    first: PerLane
    second: PerLane


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    return State(setting.weights.copy(), setting.zeros(), setting.zeros(), setting.zeros())


def step(state: State, params: Params, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights and the gain by one differential TD step."""
    weights, gain, change, after = state
    values(rows, move.here, move.after, weights, change, after)
    for k in range(len(change)):
        change[k] = step_size[k] * (move.reward - gain[k] + after[k] - change[k])
        gain[k] += params.gain_ratio[k] * change[k]
    add_row(rows, move.here, change, weights)


def frozen(problem: Problem, params: Params, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain, the limit of the estimate."""
    return {"gain": problem.solution.gain_per_step}


def mean_field(problem: Problem, params: Params) -> Field:
    """Return the mean update at the exact gain."""
    return td_field(problem)


def sample_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of (theta, rbar): ``x + step_size (y - X x)``."""
    direction = np.append(sample.here, params.gain_ratio)
    return np.outer(direction, np.append(sample.here - sample.after, 1.0)), sample.reward * direction


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the TD(0) solution that the first weights select, for a first gain of 0."""
    solution, ones = td_solution(problem, 0.0), problem.ones_weights
    if ones is None:
        return solution
    aim = ones @ first + problem.solution.gain_per_step / params.gain_ratio
    return np.asarray(solution + ones * ((aim - ones @ solution) / (ones @ ones)))


ALGORITHM = Algorithm(
    name="differential-td",
    form=Form(init, step, laned=True, touches_rows=always),
    params=Params,
    bounds={"gain_ratio": POSITIVE},
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        affine=("weights", "gain"),
        sample_field=sample_field,
    ),
    about=About(
        title="Differential TD",
        short_title="Differential TD",
        reference="wan2021learning",
        converges_to="the TD(0) fixed point; on its line, the point that first weights and gain ratio pick",
        not_guaranteed="values of mean 0; convergence off-policy",
    ),
)
