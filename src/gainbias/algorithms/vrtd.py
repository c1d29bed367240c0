"""Variance-reduced TD (VRTD) of Li, Wu and Lan (2024), in epochs. Reconstructed.

For a transition (s, r, s') let G(theta) = (V(s) - V(s') - r + rho) phi(s), with V = theta^T phi. Epoch number
k = 0, 1, 2, ... is:

    theta~ = theta_1 = the answer of the epoch before                          (at first, the first weights)
    rho, Gbar = means of r and of G(theta~) over N_k transitions
    theta_(i+1) = theta_i - alpha (G(theta_i) - G(theta~) + Gbar),  with a new transition for i = 1, ..., T
    the answer is the mean of theta_2, ..., theta_(T+1)

Of `skip` transitions only one is used, so that those used are nearly independent (with independent sampling,
set it to 1). N_k is `first_batch` times the k-th power of `batch_growth`, rounded up, and T is `inner_steps`.
rho and r cancel in the difference of two G. The structure is the paper's. We do not know its constants; the
defaults are ours. Take alpha at most 1/2 for rows no longer than 1, T at least 8 / (alpha eta2) with the
condition number eta2 of the problem, and `skip` about the mixing time. The answer changes only at the end
of an epoch. The gain reported is the mean of all rewards.

Converges to the solution of Phi^T D (I - P) Phi theta = Phi^T D (R - g e). The method is stated for features
that do not span the constant values. If they do, the part of theta along theta_e, the weights of the constant
1, enters no difference of values. It is left out of the output, which then converges to the one solution
orthogonal to theta_e.

Within an epoch theta = theta~ + x - c Gbar, with a number c, and x changes in the rows touched only. So a
step costs as much as these have entries; twice an epoch, and at each step of a tail average, it costs d.

Not guaranteed: convergence if T is too small or alpha too large, or if `batch_growth` is 1, which leaves the
noise of a batch.
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
    Output,
    ParameterRange,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import project_off, td_solution
from gainbias.features.rows import Rows
from gainbias.features.vectors import axpy, dot
from gainbias.kernels import inlined
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints

COUNT = ParameterRange(1.0, np.inf, with_least=True)


class Params(NamedTuple):
    """Parameters of VRTD: inner steps, size of the first batch, its growth by epoch, and the thinning."""

    inner_steps: float = 600.0
    first_batch: float = 2000.0
    batch_growth: float = 1.35
    skip: float = 4.0


class State(NamedTuple):
    """State of VRTD: the answer of the last epoch, and the progress of the present one.

    `slope` is Gbar, or the sum behind it, without rho, while the batch is read; `features` and `rewards` are
    sums over the batch. `moved` is x, `drift` is c, and `mean_moved`, `mean_drift` are their parts of the
    answer. `used` transitions of a batch of `batch` have been read, `left` inner steps remain, and
    `skipped` transitions have passed since one was used.
    """

    weights: Weights
    slope: Floats
    features: Floats
    rewards: Floats
    moved: Floats
    mean_moved: Floats
    drift: Floats
    mean_drift: Floats
    batch: Floats
    used: Ints
    left: Ints
    skipped: Ints


def init(setting: Setting, params: Params) -> State:
    """Return the state before the first step."""
    for name in ("inner_steps", "first_batch", "skip"):
        number = getattr(params, name)
        if number != int(number):
            raise ValueError(
                f"parameter {name!r} of vrtd counts transitions: it must be whole, found {number}"
            )
    slope, features, moved, mean_moved = (np.zeros(setting.num_features) for _ in range(4))
    used, left, skipped = (np.zeros(1, np.int64) for _ in range(3))
    return State(
        setting.weights.copy(),
        slope=slope,
        features=features,
        rewards=setting.zeros(),
        moved=moved,
        mean_moved=mean_moved,
        drift=setting.zeros(),
        mean_drift=setting.zeros(),
        batch=np.array([params.first_batch]),
        used=used,
        left=left,
        skipped=skipped,
    )


def step(state: State, params: Params, rows: Rows, move: Move, step_size: float) -> None:
    """Use every `skip`-th transition: for the batch, or for an inner step."""
    state.skipped[0] += 1
    if state.skipped[0] >= params.skip:
        state.skipped[0] = 0
        reading = state.left[0] == 0
        weights = state.weights if reading else state.moved
        drop = dot(rows, move.here, weights) - dot(rows, move.after, weights)
        if reading:
            read(state, params, rows, move, drop)
        else:
            improve(state, params, rows, move, drop, step_size)


@inlined
def read(state: State, params: Params, rows: Rows, move: Move, drop: float) -> None:
    """Add a transition to the batch; with the last one, sums become means."""
    slope, features, rewards, used = state.slope, state.features, state.rewards, state.used
    axpy(rows, move.here, drop - move.reward, slope)
    axpy(rows, move.here, 1.0, features)
    rewards[0] += move.reward
    used[0] += 1
    if used[0] >= state.batch[0]:
        gain = rewards[0] / used[0]
        for j in range(len(slope)):
            slope[j] = (slope[j] + gain * features[j]) / used[0]
        state.left[0] = int(params.inner_steps)


@inlined
def improve(state: State, params: Params, rows: Rows, move: Move, drop: float, step_size: float) -> None:
    """Move the inner iterate by one transition; the last inner step ends the epoch."""
    slope, drift = state.slope, state.drift
    slope_drop = dot(rows, move.here, slope) - dot(rows, move.after, slope)
    change = -step_size * (drop - drift[0] * slope_drop)
    share = state.left[0] / params.inner_steps  # of the iterates that include this change
    axpy(rows, move.here, change, state.moved)
    axpy(rows, move.here, change * share, state.mean_moved)
    drift[0] += step_size
    state.mean_drift[0] += step_size * share
    state.left[0] -= 1
    if state.left[0] == 0:
        close(state, params)


@inlined
def close(state: State, params: Params) -> None:
    """Move the weights to the mean of the inner iterates, and begin a new epoch."""
    for j in range(len(state.weights)):
        state.weights[j] += state.mean_moved[j] - state.mean_drift[0] * state.slope[j]
        state.slope[j] = state.features[j] = state.moved[j] = state.mean_moved[j] = 0.0
    state.rewards[0] = state.drift[0] = state.mean_drift[0] = 0.0
    state.batch[0] *= params.batch_growth
    state.used[0] = 0


def output(state: State, params: Params, setting: Setting) -> Output:
    """Return the answer of the last epoch, without its part along the weights of the constant 1."""
    return Output(project_off(setting.ones_weights, state.weights), None)


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the TD(0) solution; if there is a line of them, the shortest."""
    return project_off(problem.ones_weights, td_solution(problem, 0.0))


ALGORITHM = Algorithm(
    name="vrtd",
    form=Form(init, step, output),
    params=Params,
    bounds=dict.fromkeys(Params._fields, COUNT),
    declared=Declared(
        limit=limit,
        shift_invariant=True,
        constant_step=0.5,
        trial_params={"inner_steps": 4.0, "first_batch": 4.0, "skip": 2.0},
    ),
    about=About(
        title="Variance-reduced TD",
        short_title="Variance-reduced TD",
        reference="li2024stochastic",
        converges_to="the TD(0) fixed point; the shortest one if features span the constants",
        not_guaranteed="convergence with too few inner steps or batches that do not grow",
        table_row="Li et al. 2024",
        reconstructed=True,
    ),
)
