"""Average-reward least squares: LSTD(lambda).

With the trace z_k = lambda z_(k-1) + phi(s_k), and means over all transitions (s_k, r_k, s_(k+1)) so far,

    A = mean of z_k (phi(s_k) - phi(s_(k+1)))^T,   b = mean of z_k (r_k - rbar),   w = mean of phi(s_k)
    theta = (A + kappa w w^T)^-1 b

rbar is the mean of all rewards so far, for old transitions too: that is as consistent as the mean at their
time, and less noisy. lambda is `trace_decay` and kappa is `mean_weight`. kappa = 0 is the method of Yu
and Bertsekas (2009), which needs features that do not span the constant values. kappa = 1, the default, is
ours: with lambda = 0 it solves the paper's projected equation from samples, whatever the features span.

Converges to the solution of

    [Phi^T D (I - P_lambda) Phi + kappa m m^T] theta = Phi^T D (I - lambda P)^-1 (R - g e)

with m the stationary mean of the features. That is theta* of the paper for kappa = 1 and lambda = 0. As long
as the matrix is singular (few samples; or kappa = 0 and features that span the constants), the least-squares
solution nearest to the first weights is taken; otherwise the first weights do not matter.

It has no step sizes: those given are ignored. Averaging over steps changes nothing either. Cost of a step:
the product of the numbers of entries of two rows, or with a trace d times that of one. It keeps d^2 numbers,
and solves the equation, in a time of order d^3, at each checkpoint: more than `MOST_PROBLEM_FEATURES`
features are refused.

Not guaranteed: any error after finitely many steps, because the matrix may be close to a singular one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    FRACTION,
    NOT_NEGATIVE,
    About,
    Algorithm,
    Declared,
    Field,
    Form,
    Move,
    Output,
    Setting,
    Weights,
    always,
)
from gainbias.algorithms.fields import average_features, nearest_solution, td_field
from gainbias.features.matrix import column_lengths
from gainbias.features.rows import Rows
from gainbias.features.vectors import add_difference, axpy
from gainbias.model.problem import MOST_PROBLEM_FEATURES, Problem
from gainbias.types import Floats, Ints


class Params(NamedTuple):
    """Parameters of LSTD: decay of the trace, and weight of the mean of the values."""

    trace_decay: float = 0.0
    mean_weight: float = 1.0


class State(NamedTuple):
    """State of LSTD: the first weights, which never change, the trace, and sums over the past.

    The trace is empty if it never lasts. `matrix` is the sum behind A, `trace_rewards` that of r z.
    """

    weights: Weights
    trace: Floats
    matrix: Floats
    trace_rewards: Floats
    features: Floats
    rewards: Floats
    steps: Ints


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    d = setting.num_features
    check_size("lstd", d)
    trace = np.zeros(d if params.trace_decay > 0.0 else 0)
    sums = np.zeros((d, d)), np.zeros(d), np.zeros(d), setting.zeros()
    return State(setting.weights.copy(), trace, *sums, np.zeros(1, np.int64))


def check_size(name: str, num_features: int) -> None:
    """Refuse a number of features whose square does not fit into memory."""
    if num_features > MOST_PROBLEM_FEATURES:
        raise ValueError(
            f"{name} keeps a matrix with a row and a column for each feature, so there may be at most "
            f"{MOST_PROBLEM_FEATURES} features, found {num_features}: use fewer, or another algorithm"
        )


def step(state: State, params: Params, rows: Rows, move: Move, step_size: float) -> None:
    """Add the transition to the sums; the equation is solved when the state is read."""
    _, trace, matrix, trace_rewards, features, rewards, steps = state
    if len(trace) == 0:
        add_difference(rows, move.here, move.after, matrix)
        axpy(rows, move.here, move.reward, trace_rewards)
    else:
        for i in range(len(trace)):
            trace[i] *= params.trace_decay
        axpy(rows, move.here, 1.0, trace)
        for i in range(len(trace)):
            axpy(rows, move.here, trace[i], matrix[i])
            axpy(rows, move.after, -trace[i], matrix[i])
            trace_rewards[i] += move.reward * trace[i]
    axpy(rows, move.here, 1.0, features)
    rewards[0] += move.reward
    steps[0] += 1


def output(state: State, params: Params, setting: Setting) -> Output:
    """Return the solution of the equation with the means so far, and the mean of the rewards."""
    count, decay = max(int(state.steps[0]), 1), params.trace_decay
    gain, mean = state.rewards / count, state.features / count
    traces = (state.features - decay * state.trace) / (1.0 - decay) if decay > 0.0 else state.features
    matrix = state.matrix / count + params.mean_weight * np.outer(mean, mean)
    vector = (state.trace_rewards - gain * traces) / count
    return Output(nearest_solution(Field(matrix, vector), setting.weights, setting.lengths), gain)


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the solution of the equation with exact means."""
    field, mean = td_field(problem, params.trace_decay), average_features(problem)
    matrix = field.matrix + params.mean_weight * np.outer(mean, mean)
    return nearest_solution(Field(matrix, field.vector), first, column_lengths(problem.features))


ALGORITHM = Algorithm(
    name="lstd",
    form=Form(init, step, output, touches_rows=always),
    params=Params,
    bounds={"trace_decay": FRACTION, "mean_weight": NOT_NEGATIVE},
    declared=Declared(
        limit=limit,
        rate=1.0,
        shift_invariant=True,
        step_free=True,
        overshoots=False,
    ),
    about=About(
        title="Average-reward least squares, LSTD(lambda)",
        short_title="Least squares",
        reference="yu2009convergence; gainbias",
        converges_to="the paper's fixed point theta*; the TD(lambda) fixed point for mean weight 0",
        not_guaranteed="an equation that has one solution after finitely many steps",
        ours=True,
    ),
)
