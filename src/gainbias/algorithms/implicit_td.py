"""Implicit TD(lambda) of Kim, Cho and Laber (2025).

The new weights are on both sides of the update; solved for them, it is the update of `td-lambda` with
smaller steps where the trace z is long:

    delta = r - rbar + V(s') - V(s)
    z     <- lambda z + phi(s)
    rbar  <- rbar + c alpha (r - rbar) / (1 + c alpha)
    theta <- theta + alpha delta z / (1 + alpha |z|^2)      (both with the old rbar and theta, and the new z)

c is `gain_ratio`, lambda is `trace_decay`. With a finite `radius` the weights are shortened to that length
after each step, and with a finite `gain_bound` rbar is kept within plus or minus that. The authors' code uses
radii of 999 and 4999 and the bound 1 for rewards scaled to [-1, 1]; a bound below the true gain makes the
method fail, so both are off by default. Cost of a step: the entries of the rows it touches; with a trace, or
while the weights are as long as the radius, all d features.

Converges to where `td-lambda` does as steps go to 0: the TD(lambda) fixed point, or any point of its line if
features span the constants. With constant steps its mean is different, because long and short traces are
damped differently. It does not blow up for large steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    FRACTION,
    POSITIVE,
    RADIUS,
    About,
    Algorithm,
    Declared,
    Form,
    Move,
    PerLane,
    Sample,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import td_solution, within
from gainbias.algorithms.td_lambda import frozen, mean_field, without_trace
from gainbias.features.rows import Rows, add_row, squared_length, values
from gainbias.features.vectors import add_scaled, keep_in_ball, scale_lanes, squared_norms, squares_within
from gainbias.kernels import ByType
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of implicit TD: gain step over weight step, decay of the trace, and the two clips."""

    gain_ratio: PerLane = 1.0
    trace_decay: PerLane = 0.0
    radius: PerLane = np.inf
    gain_bound: PerLane = np.inf


class State(NamedTuple):
    """State of implicit TD without a trace: weights, gain, and room for two numbers per lane.

    `squares` estimates the squared norm of the weights where there is a radius.
    """

    weights: Weights
    squares: PerLane
    gain: PerLane
    first: PerLane
    second: PerLane


class ImplicitTracedState(NamedTuple):
    """The fields of `State` and a trace: another type, so that each compiles only what it needs."""

    weights: Weights
    squares: PerLane
    gain: PerLane
    first: PerLane
    second: PerLane
    trace: Weights


def changes_rows_only(params: Params) -> bool:
    """Whether a step changes only the weights of the row it visits."""
    return without_trace(params) and bool(np.all(np.isinf(params.radius)))


def init(setting: Setting, params: Params) -> State | ImplicitTracedState:
    """Return the state before the first step."""
    weights, zeros = setting.weights.copy(), setting.zeros
    state = State(weights, squares_within(params.radius, weights), zeros(), zeros(), zeros())
    return state if without_trace(params) else ImplicitTracedState(*state, np.zeros_like(weights))


def step(
    state: State | ImplicitTracedState, params: Params, rows: Rows, move: Move, step_size: PerLane
) -> None:
    """Update the gain and the weights by one implicit TD(lambda) step, and clip both."""
    gain, here, after = state.gain, state.first, state.second
    values(rows, move.here, move.after, state.weights, here, after)
    for k in range(len(here)):
        value, excess, gain_step = here[k], move.reward - gain[k], params.gain_ratio[k] * step_size[k]
        here[k] = step_size[k] * (excess + after[k] - value)
        after[k] = value
        gain[k] += gain_step * excess / (1.0 + gain_step)
        if abs(gain[k]) > params.gain_bound[k]:
            gain[k] = np.copysign(params.gain_bound[k], gain[k])
    change_weights(state, params, rows, move.here, step_size)
    keep_in_ball(state.weights, state.squares, params.radius)


@ByType
def change_weights(
    state: State | ImplicitTracedState, params: Params, rows: Rows, here: int, step_size: PerLane
) -> None:
    """Add alpha delta z / (1 + alpha |z|^2), where `first` is alpha delta and `second` is V(s)."""


@change_weights.of(State)
def _along_row(state: State, params: Params, rows: Rows, here: int, step_size: PerLane) -> None:
    weights, squares, _, change, value = state
    length = squared_length(rows, here)
    for k in range(len(change)):
        change[k] /= 1.0 + step_size[k] * length
        if params.radius[k] < np.inf:
            squares[k] += change[k] * (2.0 * value[k] + change[k] * length)
    add_row(rows, here, change, weights)


@change_weights.of(ImplicitTracedState)
def _along_trace(
    state: ImplicitTracedState, params: Params, rows: Rows, here: int, step_size: PerLane
) -> None:
    weights, squares, _, change, room, trace = state
    for k in range(len(change)):
        room[k] = 1.0
    scale_lanes(trace, params.trace_decay)
    add_row(rows, here, room, trace)
    squared_norms(trace, room)
    for k in range(len(change)):
        change[k] /= 1.0 + step_size[k] * room[k]
    add_scaled(trace, change, weights)
    squared_norms(weights, squares)
    for k in range(len(change)):
        squares[k] = squares[k] if params.radius[k] < np.inf else 0.0


def sample_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats] | None:
    """Return X and y of the step of (theta, rbar); None with a trace or clips, when it is not affine."""
    if params.trace_decay > 0.0 or params.radius < np.inf or params.gain_bound < np.inf:
        return None
    d, damping = len(sample.here), 1.0 + step_size * (sample.here @ sample.here)
    gain_rate = params.gain_ratio / (1.0 + params.gain_ratio * step_size)
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = np.outer(sample.here, sample.here - sample.after) / damping
    matrix[:d, d] = sample.here / damping
    matrix[d, d] = gain_rate
    return matrix, sample.reward * np.append(sample.here / damping, gain_rate)


def limit(problem: Problem, params: Params, first: Floats) -> Floats | None:
    """Return the TD(lambda) solution, None if a clip keeps the weights or the gain from their limits."""
    if abs(problem.solution.gain_per_step) > params.gain_bound:
        return None
    return within(td_solution(problem, params.trace_decay), params.radius)


ALGORITHM = Algorithm(
    name="implicit-td",
    form=Form(init, step, laned=True, touches_rows=changes_rows_only),
    params=Params,
    bounds={
        "gain_ratio": POSITIVE,
        "trace_decay": FRACTION,
        "radius": RADIUS,
        "gain_bound": RADIUS,
    },
    declared=Declared(
        limit=limit,
        limit_is_line=True,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        small_steps_only=True,
        affine=("weights", "gain"),
        sample_field=sample_field,
        overshoots=False,
    ),
    about=About(
        title="Implicit TD(lambda)",
        short_title="Implicit TD",
        reference="kim2025implicit",
        converges_to="the TD(lambda) fixed point; any point of its line if features span the constants",
        not_guaranteed="which point of the line; the same limit with constant steps",
        table_row="Kim et al. 2025",
    ),
)
