"""Relative TD of Devraj and Meyn, with the empirical mean of the features as baseline.

With V = theta^T phi and the running means w of the features and rbar of the rewards, for each (s, r, s'):

    theta <- theta + alpha (r - rbar + V(s') - V(s) - kappa w^T theta) phi(s)
    w, rbar <- means that include phi(s), r                  (theta uses the old ones; they start at 0)

kappa is `mean_weight`. Reconstructed from a description of the linear version (Sakha, Kamalapurkar and Meyn
2026). For kappa = 1 the mean update is exactly that of the paper's two algorithms: relative TD subtracts the
mean on the side of the values, the paper's methods on the side of the features.

w^T theta is kept up to date from the rows that a step touches, so a step costs as much as they have entries.

Converges to the solution of [Phi^T D (I - P) Phi + kappa m m^T] theta = Phi^T D (R - g e), m the stationary
mean of the features. That is theta* of the paper for kappa = 1, and for every kappa if features span the
constants.
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
from gainbias.algorithms.fields import average_features, solve_field, td_field
from gainbias.features.rows import Rows, add_row, values
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of relative TD: weight of the mean of the values."""

    mean_weight: PerLane = 1.0


class State(NamedTuple):
    """State of relative TD: weights and gain, sums over the past, and room for three numbers per lane.

    `feature_total` is the sum of the features, `value_total` its product with the weights, `count` the number
    of steps.
    """

    weights: Weights
    gain: PerLane
    feature_total: Weights
    value_total: PerLane
    count: PerLane
    first: PerLane
    second: PerLane
    third: PerLane


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    zeros = setting.zeros
    feature_total = np.zeros_like(setting.weights)
    sums = feature_total, zeros(), zeros()
    return State(setting.weights.copy(), zeros(), *sums, zeros(), zeros(), zeros())


def step(state: State, params: Params, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights by one relative TD step, and the running means."""
    weights, gain, feature_total, value_total, count, here, after, product = state
    values(rows, move.here, move.after, weights, here, after)
    for k in range(len(here)):
        mean = value_total[k] / count[k] if count[k] > 0.0 else 0.0
        excess = move.reward - gain[k]
        value_total[k] += here[k]
        here[k] = step_size[k] * (excess + after[k] - here[k] - params.mean_weight[k] * mean)
        count[k] += 1.0
        gain[k] += excess / count[k]
        after[k] = 1.0
    add_row(rows, move.here, here, weights)
    add_row(rows, move.here, after, feature_total)
    values(rows, move.here, move.here, feature_total, after, product)
    for k in range(len(here)):
        value_total[k] += here[k] * product[k]


def frozen(problem: Problem, params: Params, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain and the stationary mean of the features, as if from one step."""
    mean = average_features(problem)
    return {
        "gain": problem.solution.gain_per_step,
        "feature_total": mean,
        "value_total": mean @ weights,
        "count": 1.0,
    }


def mean_field(problem: Problem, params: Params) -> Field:
    """Return the mean update at the exact means."""
    mean, plain = average_features(problem), td_field(problem)
    return Field(plain.matrix + params.mean_weight * np.outer(mean, mean), plain.vector)


def frozen_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of theta with w and rbar at their limits."""
    right = sample.here - sample.after + params.mean_weight * sample.other
    return np.outer(sample.here, right), (sample.reward - sample.other_reward) * sample.here


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the solution of the equation, the paper's fixed point for tabular features."""
    if problem.features.kind == "tabular":
        return problem.fixed_point
    return solve_field(problem, mean_field(problem, params))


ALGORITHM = Algorithm(
    name="relative-td",
    form=Form(init, step, laned=True, touches_rows=always),
    params=Params,
    bounds={"mean_weight": POSITIVE},
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        frozen_field=frozen_field,
    ),
    about=About(
        title="Relative TD",
        short_title="Relative TD",
        reference="devraj2022relative; sakha2026relative",
        converges_to="the paper's fixed point theta* (for mean weight 1, or if features span the constants)",
        not_guaranteed="a unique limit for all mean weights",
        reconstructed=True,
    ),
)
