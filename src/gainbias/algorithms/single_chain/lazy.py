"""The lazy form of single-chain TD: steps that cost the entries of the rows they touch.

Each step moves all weights along w and shrinks all of w. So both are kept as

    w = c u,    theta = z x - q u

with three numbers c, z and q, which contain what happens to all features alike. The vectors x and u then
change at the features of s only:

    q <- q + alpha (r + V(s)) c,    c <- c - beta c                         (V, delta from the old values)
    u <- u + (beta / c) phi(s),     x <- x + (alpha delta + q beta / c) / z phi(s)

`step` follows these lines in order: `look` computes V and everything else from the rows of s and s', the
first line changes the row of the present epoch, and `add_row` is the second line. Around them, all in
`epochs`: an *epoch* ends before c, z and q become too large or too small for each other, and a feature
catches up on that when it is next used; `follow` keeps the norms that projections need up to date, from the
same rows, and `project` multiplies z and q, or c.

Sums of z and q over steps give the sum of each weight over steps in the same way, for averages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Move, Output, OwnAverage, Setting
from gainbias.algorithms.single_chain.epochs import (
    PRESENT,
    SUM_Q,
    SUM_Z,
    THETA2,
    TOTAL,
    AnyState,
    BoundedState,
    C,
    Q,
    State,
    U,
    X,
    Z,
    catch_up,
    end_epoch,
    follow,
    project,
    settle,
)
from gainbias.features.rows import Rows, entry_at, places_of
from gainbias.kernels import inlined

LEAST = 1.0 / 4.0
"""An epoch ends when c or z is below this."""

FARTHEST = 1.0
"""An epoch ends when its step sizes add up to more than this, which bounds q."""


def init(setting: Setting, params: Any) -> AnyState:
    """Return the state before the first step; norms are kept only if there are radii."""
    d = setting.num_features
    features, epochs, norms = np.zeros((d, 4)), np.zeros((65 + d // 8, 7)), np.zeros(3)
    features[:, X] = setting.weights
    epochs[0, [Z, C]] = 1.0
    state = State(features, epochs, np.zeros(1), np.zeros(3, np.int64))
    if params.weights_radius == params.features_radius == np.inf:
        return state
    if params.weights_radius < np.inf:
        norms[THETA2] = np.sum(setting.weights**2)
    return BoundedState(*state, norms)


def step(state: AnyState, params: Any, rows: Rows, move: Move, step_size: float) -> None:
    """Update theta and w by one single-chain TD step, through c, z, q and the rows of the move."""
    reach, clock = state.reach, state.clock
    if clock[PRESENT] + 1 == len(state.epochs):
        settle(state)
    here, mean, square = look(state, rows, move.here)
    after, _, _ = look(state, rows, move.after)
    forward, back = step_size * (move.reward + after - here), step_size * (move.reward + here)
    beta = params.mean_ratio * step_size
    if beta > 1.0:
        beta = 1.0
    follow(state, forward, back, beta, here, mean, square)
    epoch = state.epochs[clock[PRESENT]]
    epoch[Q] += back * epoch[C]
    epoch[C] -= beta * epoch[C]
    reach[0] += step_size
    if epoch[C] < LEAST or epoch[Z] < LEAST or reach[0] > FARTHEST:
        end_epoch(state)
        epoch = state.epochs[clock[PRESENT]]
    to_u = beta / epoch[C]
    add_row(state, rows, move.here, (forward + epoch[Q] * to_u) / epoch[Z], to_u)
    project(state, params)
    epoch[SUM_Z] += epoch[Z]
    epoch[SUM_Q] += epoch[Q]


@inlined
def look(state: AnyState, rows: Rows, here: int) -> tuple[float, float, float]:
    """Return phi^T theta, phi^T w and |phi|^2 of a state, after its features have caught up."""
    features, epoch = state.features, state.epochs[state.clock[PRESENT]]
    along_x = along_u = square = 0.0
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)
        along_x += entry * features[j, X]
        along_u += entry * features[j, U]
        square += entry * entry
    return epoch[Z] * along_x - epoch[Q] * along_u, epoch[C] * along_u, square


@inlined
def add_row(state: AnyState, rows: Rows, here: int, to_x: float, to_u: float) -> None:
    """Add the row of a state, times numbers, to x and u."""
    features, epoch = state.features, state.epochs[state.clock[PRESENT]]
    to_total = epoch[SUM_Q] * to_u - epoch[SUM_Z] * to_x
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)  # an epoch may have ended since it was read
        features[j, X] += entry * to_x
        features[j, U] += entry * to_u
        features[j, TOTAL] += entry * to_total


def settled(state: AnyState) -> AnyState:
    """Return a copy of a state in which all features have caught up."""
    copy = type(state)(*(array.copy() for array in state))
    settle(copy)
    return copy


def output(state: AnyState, params: Any, setting: Setting) -> Output:
    """Return the weights theta."""
    features, epochs = settled(state)[:2]
    return Output(epochs[0, Z] * features[:, X] - epochs[0, Q] * features[:, U], None)


def begin_average(state: AnyState) -> None:
    """Forget the sums of the weights so far."""
    settle(state)
    state.features[:, TOTAL] = 0.0
    state.epochs[0, [SUM_Z, SUM_Q]] = 0.0


def averaged(state: AnyState, params: Any, setting: Setting, steps: int) -> Output:
    """Return the mean of theta over the steps since the average began."""
    features, epochs = settled(state)[:2]
    total = features[:, TOTAL] + epochs[0, SUM_Z] * features[:, X] - epochs[0, SUM_Q] * features[:, U]
    return Output(total / steps, None)


AVERAGE = OwnAverage(begin_average, averaged)
