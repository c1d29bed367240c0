"""Least-squares policy evaluation, LSPE(lambda), of Yu and Bertsekas (2009), for average rewards.

With the trace z_k = lambda z_(k-1) + phi(s_k), and sums over all transitions (s_k, r_k, s_(k+1)) so far, the
new one included,

    A = sum of z_k (phi(s_(k+1)) - phi(s_k))^T,   b = sum of z_k (r_k - rbar)
    B = sigma I + sum of phi(s_k) phi(s_k)^T
    theta <- theta + gamma B^-1 (A theta + b)

rbar is the mean of all rewards so far, for old transitions too. lambda is `trace_decay` and gamma is
`relaxation`. sigma is `ridge`; it does not change the limit, and its effect fades. B^-1 is kept up to
date by the formula of Sherman and Morrison.

Converges to the solution of Phi^T D (I - P_lambda) Phi theta = Phi^T D (I - lambda P)^-1 (R - g e). The
method is stated for features that do not span the constant values. If they do, the part of theta along
theta_e, the weights of the constant 1, never enters A theta, and drifts. It is left out of the output, which
then converges to the one solution orthogonal to theta_e.

It has no step sizes: those given are ignored. Cost of a step: of order d^2, for all features. It keeps two
d x d matrices: more than `MOST_PROBLEM_FEATURES` are refused.

Not guaranteed: convergence for gamma above 1, or for gamma = 1 and lambda = 0 on a periodic chain (on a
nearly periodic one it is slow). A smaller gamma helps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    FRACTION,
    POSITIVE,
    About,
    Algorithm,
    Declared,
    Form,
    Move,
    Output,
    ParameterRange,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import project_off, td_solution
from gainbias.algorithms.lstd import check_size
from gainbias.features.rows import Rows
from gainbias.features.vectors import add_combination, add_outer, axpy, dot
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints


class Params(NamedTuple):
    """Parameters of LSPE: decay of the trace, share of each correction that is made, and first B."""

    trace_decay: float = 0.0
    relaxation: float = 1.0
    ridge: float = 1.0


class State(NamedTuple):
    """State of LSPE: weights, trace, sums over the past, and room for two vectors.

    `transposed` is A^T, `inverse` is B^-1, `trace_rewards` and `traces` are the sums of r z and of z.
    """

    weights: Weights
    trace: Floats
    transposed: Floats
    inverse: Floats
    trace_rewards: Floats
    traces: Floats
    rewards: Floats
    steps: Ints
    first: Floats
    second: Floats


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    d = setting.num_features
    check_size("lspe", d)
    trace, trace_rewards, traces, first, second = (np.zeros(d) for _ in range(5))
    inverse, steps = np.eye(d) / params.ridge, np.zeros(1, np.int64)
    sums = np.zeros((d, d)), inverse, trace_rewards, traces, setting.zeros(), steps
    return State(setting.weights.copy(), trace, *sums, first, second)


def step(state: State, params: Params, rows: Rows, move: Move, step_size: float) -> None:
    """Add the transition to the sums, and move the weights towards the solution of the equation."""
    weights, trace, transposed, inverse, trace_rewards, traces, rewards, steps, first, second = state
    rewards[0] += move.reward
    steps[0] += 1
    for j in range(len(weights)):
        trace[j] *= params.trace_decay
        first[j] = second[j] = 0.0
    axpy(rows, move.here, 1.0, trace)

    axpy(rows, move.here, 1.0, first)
    add_combination(1.0, first, inverse, second)
    add_outer(-1.0 / (1.0 + dot(rows, move.here, second)), second, second, inverse)

    for j in range(len(weights)):
        first[j] = -first[j]
    axpy(rows, move.after, 1.0, first)
    add_outer(1.0, first, trace, transposed)

    gain = rewards[0] / steps[0]
    for j in range(len(weights)):
        trace_rewards[j] += move.reward * trace[j]
        traces[j] += trace[j]
        second[j] = trace_rewards[j] - gain * traces[j]
    add_combination(1.0, weights, transposed, second)
    add_combination(params.relaxation, second, inverse, weights)


def output(state: State, params: Params, setting: Setting) -> Output:
    """Return the weights without their part along those of the constant 1, and the mean of the rewards."""
    gain = state.rewards / max(int(state.steps[0]), 1)
    return Output(project_off(setting.ones_weights, state.weights), gain)


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the TD(lambda) solution; if there is a line of them, the shortest."""
    return project_off(problem.ones_weights, td_solution(problem, params.trace_decay))


ALGORITHM = Algorithm(
    name="lspe",
    form=Form(init, step, output),
    params=Params,
    bounds={"trace_decay": FRACTION, "relaxation": ParameterRange(0.0, 2.0), "ridge": POSITIVE},
    declared=Declared(
        limit=limit,
        rate=1.0,
        shift_invariant=True,
        step_free=True,
        overshoots=False,
    ),
    about=About(
        title="Average-reward least-squares policy evaluation, LSPE(lambda)",
        short_title="LSPE",
        reference="yu2009convergence",
        converges_to="the TD(lambda) fixed point; the shortest one if features span the constants",
        not_guaranteed="convergence for a relaxation above 1, or of 1 on a periodic chain",
    ),
)
