"""Double-chain TD with both chains in both roles: this package's variant of the paper's first algorithm.

The second chain also moves, so its transition (s^, r^, s^') can be used like that of the first. The average
of the two updates is, with V = theta^T phi:

    theta <- theta + alpha/2 [ (r - r^ + V(s')  - V(s) - V(s^)) phi(s)
                             + (r^ - r + V(s^') - V(s) - V(s^)) phi(s^) ]

Rewards enter through their difference only, so a constant added to all of them changes nothing, while the
noise of the plain form grows with its square.

Converges to the same point as `double-chain`, theta* of the paper's projected equation. A step consumes two
transitions. Not guaranteed: no theorem has been stated for it; its mean update is that of the plain form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    About,
    Algorithm,
    Declared,
    Form,
    Move,
    NoParams,
    PerLane,
    Sample,
    Setting,
    Weights,
    always,
)
from gainbias.algorithms.double_chain import limit, mean_field
from gainbias.features.rows import Rows, add_rows, values
from gainbias.types import Floats


class State(NamedTuple):
    """State of symmetric double-chain TD: weights, and room for four numbers per lane."""

    weights: Weights
    first: PerLane
    second: PerLane
    third: PerLane
    fourth: PerLane


def init(setting: Setting, params: NoParams) -> State:
    """Return the state before the first step."""
    zeros = setting.zeros
    return State(setting.weights.copy(), zeros(), zeros(), zeros(), zeros())


def step(state: State, params: NoParams, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights by one double-chain TD step with both chains in both roles."""
    weights, here, after, other, other_after = state
    values(rows, move.here, move.after, weights, here, after)
    values(rows, move.other, move.other_after, weights, other, other_after)
    gap = move.reward - move.other_reward
    for k in range(len(here)):
        half, both = 0.5 * step_size[k], here[k] + other[k]
        here[k] = half * (gap + after[k] - both)
        other[k] = half * (other_after[k] - gap - both)
    add_rows(rows, move.here, here, move.other, other, weights)


def sample_field(sample: Sample, params: NoParams, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of theta: ``theta + step_size (y - X theta)``."""
    both = sample.here + sample.other
    matrix = np.outer(sample.here, both - sample.after) + np.outer(sample.other, both - sample.other_after)
    gap = sample.reward - sample.other_reward
    return 0.5 * matrix, 0.5 * gap * (sample.here - sample.other)


ALGORITHM = Algorithm(
    name="double-chain-symmetric",
    form=Form(init, step, laned=True, touches_rows=always),
    chains=2,
    declared=Declared(
        limit=limit,
        rate=1.0,
        shift_invariant=True,
        mean_field=mean_field,
        affine=("weights",),
        sample_field=sample_field,
    ),
    about=About(
        title="Double-chain TD, both chains in both roles",
        short_title="Double chain, symmetric",
        reference="gainbias",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="no theorem has been stated for it",
        ours=True,
    ),
)
