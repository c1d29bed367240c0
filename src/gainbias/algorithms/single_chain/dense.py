"""Single-chain TD: the paper's second algorithm.

With V = theta^T phi, running means w of the features, and beta = min(1, rho alpha), for each (s, r, s'):

    theta <- Proj[ theta + alpha ( (r + V(s') - V(s)) phi(s)  -  (r + V(s)) w ) ]
    w     <- Proj[ w + beta (phi(s) - w) ]                              (both with the old theta and w)

w stands in for the second chain of double-chain TD. rho is `mean_ratio`. Projections shorten theta and w to
`weights_radius` and `features_radius`, both infinite unless given. w starts at 0 and stays in the convex hull
of 0 and the rows of the features, so a features radius beyond all rows changes nothing.

Converges to the solution theta* of the paper's projected equation, `Problem.fixed_point`, whether or not the
features span the constant values, if the radii are large enough to hold theta* and the mean of the features.
Conditions: features of full column rank with rows of length at most 1, an irreducible aperiodic chain, and
small steps (see the paper's theorems).

Not guaranteed: anything without projections, which the proofs need; with a radius below the length of theta*
it converges to another point.

Cost of a step: all d features as written here; for sparse and tabular features, the entries of the rows it
touches (see `single_chain_lazy`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms import double_chain
from gainbias.algorithms.algorithm import (
    RADIUS,
    About,
    Algorithm,
    Declared,
    Field,
    Form,
    Move,
    NoParams,
    ParameterRange,
    PerLane,
    Sample,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import average_features, paper_field, within
from gainbias.algorithms.single_chain import lazy
from gainbias.features.rows import DenseRows, values
from gainbias.features.vectors import keep_in_ball, move_both
from gainbias.model.problem import Problem
from gainbias.types import Floats

UNKNOWN_LENGTH = 1e308
"""A squared length that is taken for one close to any radius, so that it is computed."""


class Params(NamedTuple):
    """Step size of the mean over that of the weights, and largest lengths of the weights and of the mean."""

    mean_ratio: PerLane = 1.0
    weights_radius: PerLane = np.inf
    features_radius: PerLane = np.inf


class State(NamedTuple):
    """Weights, running mean of the features, and room for three numbers per lane."""

    weights: Weights
    average_features: Weights
    first: PerLane
    second: PerLane
    third: PerLane


def init(setting: Setting, params: Params) -> State:
    """Begin."""
    mean, zeros = np.zeros_like(setting.weights), setting.zeros
    return State(setting.weights.copy(), mean, zeros(), zeros(), zeros())


def step(state: State, params: Params, rows: DenseRows, move: Move, step_size: PerLane) -> None:
    """Make one step."""
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
    """Return the field of the projected equation."""
    return paper_field(problem)


def frozen_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats] | None:
    """Return X and y with w at its limit: the mean of the features takes the place of the second chain."""
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


ALGORITHM = Algorithm(
    name="single-chain",
    form=Form(init, step, laned=True),
    sparse_form=lazy.FORM,
    params=Params,
    bounds={
        "mean_ratio": ParameterRange(0.0, 1.0, with_most=True),
        "weights_radius": RADIUS,
        "features_radius": RADIUS,
    },
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        frozen_field=frozen_field,
        mean_ratio=mean_ratio,
    ),
    about=About(
        title="Single-chain TD",
        reference="tian2026bridging",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="anything without projections, which the proofs need",
        table_row="this paper, single chain (no row of its own)",
    ),
)
