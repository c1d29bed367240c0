"""Tabular TD with a clock for each state, after Chen (2025). Reconstructed.

With N(s) the number of visits to s, for each transition (s, r, s'):

    N(s) <- N(s) + 1
    V(s) <- V(s) + alpha / (N(s) + h) (r + V(s') - V(s))

The output is V - (max V + min V) / 2, with the mean of the rewards as gain. No gain enters the update,
so all values drift together, like alpha g log t. That is so slow (28 alpha g after 10^12 steps) that V itself
need not be centred meanwhile: rounding does no harm.

This is the paper's Q-learning with adaptive steps for one policy. Local clocks and centring are the paper's;
the rest is rebuilt. alpha is `step_size`, where `Constant` is the paper's choice, since steps shrink anyway.
h is `offset`. The clocks are essential: with a common clock, differences of values settle at a different
point, where R + P V - V is proportional to 1 / mu instead of constant.

Converges to the bias, centred at the middle of its range. The values are the weights, so it exists for
tabular features only.

Not guaranteed: an error that falls like t^-1/2, unless alpha times the gap of the chain is above 1/2; first
steps that do not overshoot, unless alpha is at most 1 + h.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    NOT_NEGATIVE,
    About,
    Algorithm,
    Declared,
    Form,
    Move,
    Output,
    PerLane,
    Setting,
    Weights,
    always,
)
from gainbias.features.rows import TabularRows
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints


class Params(NamedTuple):
    """Parameters of adaptive TD: the number that is added to the visits of a state."""

    offset: PerLane = 1.0


class State(NamedTuple):
    """State of adaptive TD: weights before centring, and visits of each state."""

    weights: Weights
    visits: Ints


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    return State(setting.weights.copy(), np.zeros(setting.weights.shape, np.int64))


def step(state: State, params: Params, rows: TabularRows, move: Move, step_size: PerLane) -> None:
    """Update the value of the visited state by a step that shrinks with its visits."""
    weights, visits = state
    for k in range(len(step_size)):
        visits[move.here, k] += 1
        size = step_size[k] / (visits[move.here, k] + params.offset[k])
        weights[move.here, k] += size * (move.reward + weights[move.after, k] - weights[move.here, k])


def output(state: State, params: Params, setting: Setting) -> Output:
    """Return the weights, centred at the middle of their range."""
    return Output(centred(state.weights), None)


def centred(weights: Weights) -> Weights:
    """Return weights, (d,) or (d, lanes), minus the middle of the largest and the smallest.

    Examples
    --------
    >>> centred(np.array([1.0, 2.0, 5.0]))
    array([-2., -1.,  2.])
    """
    return np.asarray(weights - 0.5 * (weights.max(axis=0) + weights.min(axis=0)))


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the bias, centred at the middle of its range."""
    return centred(problem.solution.bias)


ALGORITHM = Algorithm(
    name="adaptive-td",
    form=Form(init, step, output, laned=True, touches_rows=always),
    params=Params,
    bounds={"offset": NOT_NEGATIVE},
    declared=Declared(
        limit=limit,
        rate=1.0,
        tabular_only=True,
        constant_step=1.0,
        overshoots=False,
    ),
    about=About(
        title="Tabular TD with a clock for each state",
        short_title="Adaptive TD",
        reference="chen2025adaptive",
        converges_to="the bias, centred at the middle of its range",
        not_guaranteed="a rate for small step sizes",
        reconstructed=True,
    ),
)
