"""Discounted TD(0), for comparison, in the form that Bhandari, Russo and Singal (2018) analyse.

With V = theta^T phi and the discount gamma, for each transition (s, r, s'):

    theta <- theta + alpha (r + gamma V(s') - V(s)) phi(s)

With a finite `radius` the weights are shortened to that length after each step, as the analysis for Markov
samples needs; without it there is no projection. A step costs the entries of the rows it touches, and all d
features only while the weights are as long as the radius.

Converges to the solution of Phi^T D (I - gamma P) Phi theta = Phi^T D R, the same for all runs. As gamma goes
to 1 its values are g / (1 - gamma) plus the bias, so differences of values approach those of the
average-reward methods while the steps needed grow without bound. With a radius below the length of the
solution it converges to another point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from gainbias.algorithms.algorithm import (
    FRACTION,
    RADIUS,
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
from gainbias.algorithms.fields import solve_field, td_field, within
from gainbias.features.rows import Rows, add_row, squared_length, values
from gainbias.features.vectors import keep_in_ball, squares_within
from gainbias.model.problem import Problem
from gainbias.types import Floats


class Params(NamedTuple):
    """Parameters of discounted TD: discount factor, and largest length of the weights."""

    discount: PerLane = 0.99
    radius: PerLane = np.inf


class State(NamedTuple):
    """State of discounted TD: weights, and room for two numbers per lane.

    `squares` estimates the squared norm of the weights where there is a radius.
    """

    weights: Weights
    squares: PerLane
    first: PerLane
    second: PerLane


def no_radius(params: Params) -> bool:
    """Whether weights may have any length."""
    return bool(np.all(np.isinf(params.radius)))


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    weights = setting.weights.copy()
    return State(weights, squares_within(params.radius, weights), setting.zeros(), setting.zeros())


def step(state: State, params: Params, rows: Rows, move: Move, step_size: PerLane) -> None:
    """Update the weights by one discounted TD(0) step, and keep them within the radius."""
    weights, squares, change, after = state
    values(rows, move.here, move.after, weights, change, after)
    length = squared_length(rows, move.here)
    for k in range(len(change)):
        value = change[k]
        change[k] = step_size[k] * (move.reward + params.discount[k] * after[k] - value)
        if params.radius[k] < np.inf:
            squares[k] += change[k] * (2.0 * value + change[k] * length)
    add_row(rows, move.here, change, weights)
    keep_in_ball(weights, squares, params.radius)


def mean_field(problem: Problem, params: Params) -> Field:
    """Return the mean update, where no radius cuts it off."""
    return td_field(problem, discount=params.discount)


def sample_field(sample: Sample, params: Params, step_size: float) -> tuple[Floats, Floats] | None:
    """Return X and y of the step of theta; None with a radius, when it is not affine."""
    if not no_radius(params):
        return None
    return np.outer(sample.here, sample.here - params.discount * sample.after), sample.reward * sample.here


def limit(problem: Problem, params: Params, first: Floats) -> Floats | None:
    """Return the solution of the discounted equation, None if it is longer than the radius."""
    if problem.features.kind == "tabular":
        eye = sparse.eye_array(problem.mrp.num_states, format="csc")
        solution = linalg.spsolve(
            sparse.csc_array(eye - params.discount * problem.mrp.csr), problem.mrp.rewards
        )
    else:
        solution = solve_field(problem, mean_field(problem, params))
    return within(solution, params.radius)


ALGORITHM = Algorithm(
    name="discounted-td",
    form=Form(init, step, laned=True, touches_rows=no_radius),
    params=Params,
    bounds={"discount": FRACTION, "radius": RADIUS},
    declared=Declared(
        limit=limit,
        rate=1.0,
        discounted=True,
        mean_field=mean_field,
        affine=("weights",),
        sample_field=sample_field,
    ),
    about=About(
        title="Discounted TD(0)",
        short_title="Discounted TD",
        reference="bhandari2018finite",
        converges_to="the discounted TD(0) fixed point, whose values contain g / (1 - discount)",
        not_guaranteed="anything about the bias, unless the discount is close to 1",
        table_row="Bhandari et al. 2018 (discounted case)",
    ),
)
