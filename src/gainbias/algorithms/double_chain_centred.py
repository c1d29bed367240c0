"""Double-chain TD with centred rewards: this package's variant of the paper's first algorithm.

An estimate rbar of the gain is taken off every reward. With V = theta^T phi:

    theta <- theta + alpha [ (r - rbar + V(s') - V(s)) phi(s)  -  (r - rbar + V(s)) phi(s^) ]
    rbar  <- rbar + c alpha (r - rbar)                              (both with the old rbar)

c is `gain_ratio`. The mean of phi(s) - phi(s^) is 0, so rbar does not change the mean update; it removes the
noise that a large gain brings into the plain form.

Converges to the same point as `double-chain`, theta* of the paper's projected equation. A step consumes two
transitions. Not guaranteed: no theorem has been stated for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    POSITIVE,
    About,
    Algorithm,
    Declared,
    Form,
    Move,
    PerLane,
    Sample,
    Setting,
    Weights,
    always,
)
from gainbias.algorithms.double_chain import limit, mean_field
from gainbias.features.rows import Rows, add_rows, values
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of double-chain TD with centred rewards: step size of the gain over that of the weights."""

    gain_ratio: PerLane = 1.0


class State(NamedTuple):
    """State of double-chain TD with centred rewards: weights, gain, and room for two numbers per lane."""

    weights: Weights
    gain: PerLane
    first: PerLane
    second: PerLane


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    return State(setting.weights.copy(), setting.zeros(), setting.zeros(), setting.zeros())


def step(state: State, params: Params, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights by one double-chain TD step on centred rewards, and the gain."""
    weights, gain, here, after = state
    values(rows, move.here, move.after, weights, here, after)
    for k in range(len(here)):
        value, excess = here[k], move.reward - gain[k]
        here[k] = step_size[k] * (excess + after[k] - value)
        after[k] = -step_size[k] * (excess + value)
        gain[k] += params.gain_ratio[k] * step_size[k] * excess
    add_rows(rows, move.here, here, move.other, after, weights)


def frozen(problem: Problem, params: Params, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain, the limit of the estimate."""
    return {"gain": problem.solution.gain_per_step}


def sample_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of (theta, rbar): ``x + step_size (y - X x)``."""
    d, difference = len(sample.here), sample.here - sample.other
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = np.outer(sample.here, sample.here - sample.after) + np.outer(sample.other, sample.here)
    matrix[:d, d] = difference
    matrix[d, d] = params.gain_ratio
    return matrix, sample.reward * np.append(difference, params.gain_ratio)


ALGORITHM = Algorithm(
    name="double-chain-centred",
    form=Form(init, step, laned=True, touches_rows=always),
    params=Params,
    bounds={"gain_ratio": POSITIVE},
    chains=2,
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        affine=("weights", "gain"),
        sample_field=sample_field,
    ),
    about=About(
        title="Double-chain TD with centred rewards",
        short_title="Double chain, centred",
        reference="gainbias",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="no theorem has been stated for it",
        ours=True,
    ),
)
