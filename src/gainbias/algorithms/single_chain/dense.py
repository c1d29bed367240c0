"""The dense form of single-chain TD: the update for all features at once, its mean and its limit.

`step` is the update as stated in the docstring of the folder: `move_both` makes the two lines at once,
`keep_in_ball` the two projections. The functions after it are the facts that are declared for both forms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms import double_chain
from gainbias.algorithms.algorithm import (
    Field,
    Move,
    NoParams,
    PerLane,
    Sample,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import average_features, paper_field, within
from gainbias.features.rows import DenseRows, values
from gainbias.features.vectors import keep_in_ball, move_both
from gainbias.model.problem import Problem
from gainbias.types import Floats

UNKNOWN_LENGTH = 1e308
"""A squared length that counts as close to any radius, so that it is computed."""


class Params(NamedTuple):
    """Parameters of single-chain TD: step of the mean over that of the weights, and the radii of both."""

    mean_ratio: PerLane = 1.0
    weights_radius: PerLane = np.inf
    features_radius: PerLane = np.inf


class State(NamedTuple):
    """State of single-chain TD: weights, mean of the features, and room for three numbers per lane."""

    weights: Weights
    average_features: Weights
    first: PerLane
    second: PerLane
    third: PerLane


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    mean, zeros = np.zeros_like(setting.weights), setting.zeros
    return State(setting.weights.copy(), mean, zeros(), zeros(), zeros())


def step(state: State, params: Params, rows: DenseRows, move: Move, step_size: PerLane) -> None:
    """Update the weights and the mean of the features by one single-chain TD step."""
    weights, mean, forward, back, beta = state
    values(rows, move.here, move.after, weights, forward, back)
    for k in range(len(beta)):
        value, after = forward[k], back[k]
        forward[k] = step_size[k] * (move.reward + after - value)
        back[k] = step_size[k] * (move.reward + value)
        beta[k] = params.mean_ratio[k] * step_size[k]
        if beta[k] > 1.0:
            beta[k] = 1.0
    move_both(rows.matrix[move.here], forward, back, beta, weights, mean)
    for k in range(len(beta)):
        forward[k] = back[k] = UNKNOWN_LENGTH
    keep_in_ball(weights, forward, params.weights_radius)
    keep_in_ball(mean, back, params.features_radius)


def frozen(problem: Problem, params: Params, here: int, weights: Floats) -> dict[str, Any]:
    """Return the stationary mean of the features."""
    return {"average_features": average_features(problem)}


def mean_field(problem: Problem, params: Params) -> Field:
    """Return the mean update, which is 0 at the paper's fixed point."""
    return paper_field(problem)


def frozen_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats] | None:
    """Return X and y of the step of theta with w at its limit, where it stands in for the second chain."""
    if params.weights_radius < np.inf or params.features_radius < np.inf:
        return None
    return double_chain.sample_field(sample, NoParams(), step_size)


def mean_ratio(params: Params) -> float:
    """Return the step size of w over that of the weights."""
    return float(params.mean_ratio)


def limit(problem: Problem, params: Params, first: Floats) -> Floats | None:
    """Return the paper's fixed point, None if a projection keeps the weights or the mean from theirs."""
    if within(average_features(problem), params.features_radius) is None:
        return None
    return within(problem.fixed_point, params.weights_radius)
