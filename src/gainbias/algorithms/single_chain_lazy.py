"""Single-chain TD at the cost of the rows it touches, for sparse and tabular features.

Each step of `single_chain` moves all weights along w and shrinks all of w. So both are kept as

    w = c u,    theta = z (x - p u)

with three numbers c, z and p, which take what happens to all features alike. The rest is at those of s:

    p <- p + alpha (r + V(s)) c / z,    c <- c - beta c                     (V, delta from the old values)
    u <- u + (beta / c) phi(s),         x <- x + (alpha delta / z + p beta / c) phi(s)

A projection multiplies z or c. For it |theta|^2, theta^T w and |w|^2 are kept up to date from the same rows.

As c and z shrink and p grows, theta becomes a small difference of large numbers. Before that an *epoch* ends:
x <- z (x - p u), u <- c u, c = z = 1, p = 0. That would be work for all features, so each does it when it is
next looked at; until then it keeps the number of its epoch. The end of an epoch is a linear map, and maps of
consecutive epochs compose: a feature that was away for long follows links from epoch to epoch, and lets them
lead further for those that come after it (path halving, as for disjoint sets), so that it follows few. Where
u has died out and no projection was made, nothing but time has passed, and it goes to the present at once.

When the table of epochs is full, all features catch up and it begins afresh. It has room for d / 8 epochs,
and they last about 1 / beta steps each, so this is a small part of the work. With a projection all features
catch up every few d steps too, and norms are computed, so that their rounding errors do not pile up.

Sums of z and z p over steps give the sum of each weight over steps in the same way, for averages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, OwnAverage, Setting
from gainbias.features.entries import entry_at, places_of
from gainbias.features.rows import Floats, Rows, squared_length
from gainbias.kernels import bare_kernel, inlined
from gainbias.model.elimination.types import Ints

LEAST = 1.0 / 4.0
"""An epoch ends when c or z is below this."""

FARTHEST = 1.0
"""An epoch ends when its step sizes add up to more than this, which bounds p."""

NOTHING = 1e-20
"""A feature's u that has shrunk to this part of what it was is taken as 0."""

X, U, TOTAL, EPOCH = range(4)
"""Columns of `State.features`."""

Z, P, C, SUM_Z, SUM_ZP, PAST_Z, REACH, THETA2, THETA_W, W2 = range(10)
"""Places of `State.now`."""

LINK, X_X, X_U, U_U, TOTAL_X, TOTAL_U, BEFORE = range(7)
"""Columns of `State.ends`."""

PRESENT, STEPS, FREE = range(3)
"""Places of `State.clock`."""


class State(NamedTuple):
    """What is kept.

    Attributes
    ----------
    features : (d, 4) array
        x and u of each feature, of the epoch with number `EPOCH`; and `TOTAL`, which makes the sum of its
        weight over steps ``TOTAL + SUM_Z x - SUM_ZP u``.
    now : (10,) array
        z, p and c; sums of z and z p over the steps of this epoch, of z over those of earlier ones, and of
        step sizes over this epoch; and |theta|^2, theta^T w, |w|^2, which are right only with a projection.
    ends : (epochs, 7) array
        Each row leads from the beginning of an epoch to that of the later epoch `LINK` by the map
        ``x <- X_X x - X_U u``, ``u <- U_U u``, which adds ``TOTAL_X x - TOTAL_U u`` to `TOTAL`. `BEFORE` is
        the sum of z over all steps before the epoch.
    clock : (3,) int array
        Number of the present epoch; steps since norms were computed; and an epoch from which on z was 1.
    """

    features: Floats
    now: Floats
    ends: Floats
    clock: Ints


def init(setting: Setting, params: Any) -> State:
    """Begin."""
    d = setting.num_features
    features, now = np.zeros((d, 4)), np.zeros(10)
    features[:, X] = setting.weights
    now[[Z, C]] = 1.0
    if params.weights_radius < np.inf:
        now[THETA2] = np.sum(setting.weights**2)
    return State(features, now, np.zeros((64 + d // 8, 7)), np.zeros(3, np.int64))


def step(state: State, params: Any, rows: Rows, move: Move, step_size: float) -> None:
    """Make one step."""
    now, clock = state.now, state.clock
    bounded = params.weights_radius < np.inf or params.features_radius < np.inf
    if clock[PRESENT] == len(state.ends) or clock[STEPS] > 4 * len(state.features) + 256:
        settle(state, bounded)
    here, mean = look(state, rows, move.here)
    after, _ = look(state, rows, move.after)
    forward, back = step_size * (move.reward + after - here), step_size * (move.reward + here)
    beta = min(1.0, params.mean_ratio * step_size)
    if bounded:
        move_norms(now, forward, back, beta, here, mean, squared_length(rows, move.here))
    now[P] += back * now[C] / now[Z]
    now[C] -= beta * now[C]
    now[REACH] += step_size
    if now[C] < LEAST or now[Z] < LEAST or now[REACH] > FARTHEST:
        end_epoch(state)
    to_u = beta / now[C]
    add_row(state, rows, move.here, forward / now[Z] + now[P] * to_u, to_u)
    if bounded:
        project(state, params)
    now[SUM_Z] += now[Z]
    now[SUM_ZP] += now[Z] * now[P]


@inlined
def look(state: State, rows: Rows, here: int) -> tuple[float, float]:
    """Return phi^T theta and phi^T w of a state, after its features have caught up."""
    features, now = state.features, state.now
    value = mean = 0.0
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)
        value += entry * (features[j, X] - now[P] * features[j, U])
        mean += entry * features[j, U]
    return now[Z] * value, now[C] * mean


@inlined
def add_row(state: State, rows: Rows, here: int, to_x: float, to_u: float) -> None:
    """Add the row of a state, times numbers, to x and u."""
    features, now = state.features, state.now
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)  # an epoch may have ended since it was looked at
        more_x, more_u = entry * to_x, entry * to_u
        features[j, X] += more_x
        features[j, U] += more_u
        features[j, TOTAL] -= now[SUM_Z] * more_x - now[SUM_ZP] * more_u


@inlined
def catch_up(state: State, j: int) -> None:
    """Bring a feature from its epoch to the present one."""
    feature, ends, present = state.features[j], state.ends, state.clock[PRESENT]
    epoch = int(feature[EPOCH])
    if epoch < present:
        x, u = feature[X], feature[U]
        total, left = feature[TOTAL], 1.0
        while epoch < present and (u != 0.0 or epoch < state.clock[FREE]):
            end = ends[epoch]
            epoch = int(end[LINK])
            if epoch < present:
                lead_further(end, ends[epoch])
                epoch = int(end[LINK])
            total += end[TOTAL_X] * x - end[TOTAL_U] * u
            x, u, left = end[X_X] * x - end[X_U] * u, end[U_U] * u, end[U_U] * left
            if left < NOTHING:
                u = 0.0
        if epoch < present:
            total += (state.now[PAST_Z] - ends[epoch, BEFORE]) * x
        feature[X], feature[U] = x, u
        feature[TOTAL], feature[EPOCH] = total, present


@inlined
def lead_further(end: Floats, other: Floats) -> None:
    """Let the end of an epoch lead where the end of the epoch it leads to does."""
    x_x, x_u, u_u = end[X_X], end[X_U], end[U_U]
    end[LINK] = other[LINK]
    end[X_X] = other[X_X] * x_x
    end[X_U] = other[X_X] * x_u + other[X_U] * u_u
    end[U_U] = other[U_U] * u_u
    end[TOTAL_X] += other[TOTAL_X] * x_x
    end[TOTAL_U] += other[TOTAL_X] * x_u + other[TOTAL_U] * u_u


@inlined
def end_epoch(state: State) -> None:
    """Begin a new epoch."""
    now, clock = state.now, state.clock
    end = state.ends[clock[PRESENT]]
    clock[PRESENT] += 1
    end[LINK] = clock[PRESENT]
    end[X_X], end[X_U], end[U_U] = now[Z], now[Z] * now[P], now[C]
    end[TOTAL_X], end[TOTAL_U], end[BEFORE] = now[SUM_Z], now[SUM_ZP], now[PAST_Z]
    now[PAST_Z] += now[SUM_Z]
    now[Z] = now[C] = 1.0
    now[P] = now[SUM_Z] = now[SUM_ZP] = now[REACH] = 0.0


@bare_kernel
def settle(state: State, with_norms: bool) -> None:
    """Let all features catch up, forget past epochs, and compute the norms if they are wanted.

    A kernel of its own, because it is needed outside the loop too, and compiling it twice takes long.
    """
    features, now, clock = state.features, state.now, state.clock
    for j in range(len(features)):
        catch_up(state, j)
        features[j, EPOCH] = 0.0
    now[PAST_Z] = 0.0
    clock[PRESENT], clock[FREE] = 0, 1 if now[Z] < 1.0 else 0
    if with_norms:
        theta2 = theta_w = w2 = 0.0
        for j in range(len(features)):
            weight, mean = now[Z] * (features[j, X] - now[P] * features[j, U]), now[C] * features[j, U]
            theta2 += weight * weight
            theta_w += weight * mean
            w2 += mean * mean
        now[THETA2], now[THETA_W], now[W2] = theta2, theta_w, w2
        clock[STEPS] = 0


@inlined
def move_norms(
    now: Floats, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    """Update the norms for theta + forward phi - back w and w + beta (phi - w).

    `value`, `mean` and `square` are phi^T theta, phi^T w and |phi|^2.
    """
    theta_w, w2 = now[THETA_W], now[W2]
    new_theta_w = theta_w + forward * mean - back * w2
    new_value = value + forward * square - back * mean
    now[THETA2] += forward * (value + new_value) - back * (theta_w + new_theta_w)
    now[THETA_W] = new_theta_w + beta * (new_value - new_theta_w)
    now[W2] += beta * ((2.0 - beta) * (mean - w2) + beta * (square - mean))


@inlined
def project(state: State, params: Any) -> None:
    """Shorten theta and w if they are too long."""
    now, clock = state.now, state.clock
    square = params.weights_radius * params.weights_radius
    mean_square = params.features_radius * params.features_radius
    if now[THETA2] > square:
        factor = np.sqrt(square / now[THETA2])
        now[Z] *= factor
        now[THETA_W] *= factor
        now[THETA2] = square
        clock[FREE] = clock[PRESENT] + 1
    if now[W2] > mean_square:
        factor = np.sqrt(mean_square / now[W2])
        now[C] *= factor
        now[THETA_W] *= factor
        now[W2] = mean_square
    clock[STEPS] += 1


def settled(state: State) -> State:
    """Return a copy of a state in which all features have caught up."""
    copy = State(*(array.copy() for array in state))
    settle(copy, False)
    return copy


def output(state: State, params: Any, setting: Setting) -> Output:
    """Return theta."""
    features, now, _, _ = settled(state)
    return Output(now[Z] * (features[:, X] - now[P] * features[:, U]), None)


def begin_average(state: State) -> None:
    """Forget the weights so far."""
    settle(state, False)
    state.features[:, TOTAL] = 0.0
    state.now[[SUM_Z, SUM_ZP]] = 0.0


def averaged(state: State, params: Any, setting: Setting, steps: int) -> Output:
    """Return the mean of theta over the steps since the average began."""
    features, now, _, _ = settled(state)
    total = features[:, TOTAL] + now[SUM_Z] * features[:, X] - now[SUM_ZP] * features[:, U]
    return Output(total / steps, None)


FORM = Form(init, step, output, own_average=OwnAverage(begin_average, averaged))
