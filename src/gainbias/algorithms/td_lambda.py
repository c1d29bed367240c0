"""Average-reward TD(lambda) of Tsitsiklis and Van Roy (1999), also of Zhang, Zhang and Maguluri (2021).

With V = theta^T phi, the estimate rbar of the gain and the trace z, for each transition (s, r, s'):

    delta = r - rbar + V(s') - V(s)
    z     <- lambda z + phi(s)
    rbar  <- rbar + c alpha (r - rbar)
    theta <- theta + alpha delta z          (both with the old rbar and theta, and the new z)

c is `gain_ratio` and lambda is `trace_decay`. Chen et al. (2025) analyse this update in a seminorm.

Converges to the solution of Phi^T D (I - P_lambda) Phi theta = Phi^T D (I - lambda P)^-1 (R - g e) if the
features do not span the constant values. If they do, it converges to some point of the line of solutions,
which differs from run to run and with the first weights: only differences of values are meaningful.

Cost of a step: the entries of the rows it touches; with a trace, all d features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    FRACTION,
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
)
from gainbias.algorithms.fields import dense_features, mean_traces, td_field, td_solution
from gainbias.features.rows import Rows, add_row, values
from gainbias.features.vectors import add_scaled, scale_lanes
from gainbias.kernels import ByType
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of TD(lambda): step size of the gain over that of the weights, and decay of the trace."""

    gain_ratio: PerLane = 1.0
    trace_decay: PerLane = 0.0


class State(NamedTuple):
    """State of TD(lambda) without a trace: weights, gain, and room for two numbers per lane."""

    weights: Weights
    gain: PerLane
    first: PerLane
    second: PerLane


class TracedState(NamedTuple):
    """The fields of `State` and a trace: another type, so that each compiles only what it needs."""

    weights: Weights
    gain: PerLane
    first: PerLane
    second: PerLane
    trace: Weights


def without_trace(params: Any) -> bool:
    """Whether no lane needs a trace."""
    return not np.any(params.trace_decay)


def init(setting: Setting, params: Params) -> State | TracedState:
    """Return the state before the first step."""
    state = State(setting.weights.copy(), setting.zeros(), setting.zeros(), setting.zeros())
    return state if without_trace(params) else TracedState(*state, np.zeros_like(setting.weights))


def step(state: State | TracedState, params: Params, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights, the gain and the trace by one TD(lambda) step."""
    gain, change, after = state.gain, state.first, state.second
    values(rows, move.here, move.after, state.weights, change, after)
    for k in range(len(change)):
        change[k] = step_size[k] * (move.reward - gain[k] + after[k] - change[k])
        gain[k] += params.gain_ratio[k] * step_size[k] * (move.reward - gain[k])
    change_weights(state, params, rows, move.here)


@ByType
def change_weights(state: State | TracedState, params: Params, rows: Rows, here: int) -> None:
    """Add alpha delta z, where `first` is alpha delta."""


@change_weights.of(State)
def _along_row(state: State, params: Params, rows: Rows, here: int) -> None:
    add_row(rows, here, state.first, state.weights)


@change_weights.of(TracedState)
def _along_trace(state: TracedState, params: Params, rows: Rows, here: int) -> None:
    weights, _, change, room, trace = state
    for k in range(len(room)):
        room[k] = 1.0
    scale_lanes(trace, params.trace_decay)
    add_row(rows, here, room, trace)
    add_scaled(trace, change, weights)


def mean_field(problem: Problem, params: Params) -> Field:
    """Return the mean update at the exact gain and the stationary mean of the trace."""
    return td_field(problem, params.trace_decay)


def frozen(problem: Problem, params: Params, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain, and the stationary mean of the old trace."""
    if params.trace_decay == 0.0:
        return {"gain": problem.solution.gain_per_step}
    new = mean_traces(problem, params.trace_decay)[here]
    old = (new - dense_features(problem)[here]) / params.trace_decay
    return {"gain": problem.solution.gain_per_step, "trace": old}


def sample_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats] | None:
    """Return X and y of the step of (theta, rbar); None with a trace, when it is not affine."""
    if params.trace_decay > 0.0:
        return None
    d = len(sample.here)
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = np.outer(sample.here, sample.here - sample.after)
    matrix[:d, d] = sample.here
    matrix[d, d] = params.gain_ratio
    return matrix, sample.reward * np.append(sample.here, params.gain_ratio)


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the TD(lambda) solution; if there is a line of them, the shortest."""
    return td_solution(problem, params.trace_decay)


ALGORITHM = Algorithm(
    name="td-lambda",
    form=Form(init, step, laned=True, touches_rows=without_trace),
    params=Params,
    bounds={"gain_ratio": POSITIVE, "trace_decay": FRACTION},
    declared=Declared(
        limit=limit,
        limit_is_line=True,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        affine=("weights", "gain"),
        sample_field=sample_field,
    ),
    about=About(
        title="Average-reward TD(lambda)",
        short_title="Coupled SA",
        reference="tsitsiklis1999average; zhang2021finite; chen2025seminorm",
        converges_to="the TD(lambda) fixed point; any point of its line if features span the constants",
        not_guaranteed="which point of the line",
        table_row="Tsitsiklis & Van Roy 1999; Zhang et al. 2021; Chen et al. 2025",
    ),
)
