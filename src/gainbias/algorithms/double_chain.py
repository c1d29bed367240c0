"""Double-chain TD: the paper's first algorithm.

With V = theta^T phi, a transition (s, r, s') of one chain and a state s^ of an independent second one:

    theta <- theta + alpha [ (r + V(s') - V(s)) phi(s)  -  (r + V(s)) phi(s^) ]

The second term is an unbiased sample of the term that keeps the mean of the values at 0. A single state
cannot provide that: its square would have a different mean. All three values use the old weights.

Converges to the solution theta* of the paper's projected equation, `Problem.fixed_point`, whether or not the
features span the constant values. A step consumes two transitions. Conditions: features of full column rank
with rows of length at most 1, an irreducible aperiodic chain, and small steps (see the paper's theorems).

Not guaranteed: the noise grows with the square of the gain, because rewards enter as they are; almost-sure
convergence is claimed but only mean squares are bounded.
"""

from __future__ import annotations

from typing import NamedTuple

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
from gainbias.algorithms.fields import paper_field
from gainbias.features.rows import Rows, add_rows, values
from gainbias.model.problem import Problem
from gainbias.types import Floats


class State(NamedTuple):
    """State of double-chain TD: weights, and room for two numbers per lane."""

    weights: Weights
    first: PerLane
    second: PerLane


def init(setting: Setting, params: NoParams) -> State:
    """Return the state before the first step."""
    return State(setting.weights.copy(), setting.zeros(), setting.zeros())


def step(state: State, params: NoParams, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights by one double-chain TD step."""
    here, after = state.first, state.second
    values(rows, move.here, move.after, state.weights, here, after)
    for k in range(len(here)):
        value = here[k]
        here[k] = step_size[k] * (move.reward + after[k] - value)
        after[k] = -step_size[k] * (move.reward + value)
    add_rows(rows, move.here, here, move.other, after, state.weights)


def mean_field(problem: Problem, params: NoParams) -> Field:
    """Return the mean update, which is 0 at the paper's fixed point."""
    return paper_field(problem)


def sample_field(sample: Sample, params: NoParams, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of theta: ``theta + step_size (y - X theta)``."""
    matrix = np.outer(sample.here, sample.here - sample.after) + np.outer(sample.other, sample.here)
    return matrix, sample.reward * (sample.here - sample.other)


def limit(problem: Problem, params: NoParams, first: Floats) -> Floats:
    """Return the paper's fixed point."""
    return problem.fixed_point


ALGORITHM = Algorithm(
    name="double-chain",
    form=Form(init, step, laned=True, touches_rows=always),
    chains=2,
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        affine=("weights",),
        sample_field=sample_field,
    ),
    about=About(
        title="Double-chain TD",
        short_title="Double chain",
        reference="tian2026bridging",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="noise that does not grow with the gain",
        table_row="this paper, double chain",
    ),
)
