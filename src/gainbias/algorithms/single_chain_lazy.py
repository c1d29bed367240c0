"""Single-chain TD at the cost of the rows it touches, for sparse and tabular features.

Each step of `single_chain` moves all weights along w and shrinks all of w. So both are kept as

    w = c u,    theta = z (x - p u)

with three numbers c, z and p, which take what happens to all features. What is left is at the features of s:

    p <- p + alpha (r + V(s)) c / z,    c <- c - beta c                      (V, delta from the old values)
    u <- u + (beta / c) phi(s),         x <- x + (alpha delta / z + p beta / c) phi(s)

A projection multiplies z or c; for it, |theta|^2, theta^T w and |w|^2 are kept up to date in the same way.

As c and z shrink and p grows, theta becomes a small difference of large numbers. Before that an *epoch* ends:
x <- z (x - p u), u <- c u, c = z = 1, p = 0. That would be work for all features, so each does it when a step
next reads it; until then it keeps the number of its epoch. The end of an epoch is a linear map of (x, u), and
maps of consecutive epochs compose: a feature that was away for long follows links between epochs, and makes
them skip ahead for those that come after it (path halving, as for disjoint sets), so it follows few.

When the table of epochs is full, all features catch up and it begins afresh. It has room for d / 8 of them,
and an epoch has about 2 / beta steps, so this costs a small part of the steps themselves. With a projection all
features catch up every few d steps too, to compute the norms anew, so that rounding errors do not pile up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, OwnAverage, Setting
from gainbias.features.entries import entry_at, places_of
from gainbias.features.rows import Floats, Rows, squared_length
from gainbias.kernels import bare_kernel, inlined
from gainbias.model.elimination.types import Ints

LEAST = 1.0 / 8.0
"""An epoch ends when c or z is below this."""

FARTHEST = 2.0
"""An epoch ends when its step sizes add up to more than this, which bounds p."""

NOTHING = 1e-20
"""A feature's u that has shrunk to this part of what it was is taken as 0."""

X, U, TOTAL, EPOCH = range(4)
"""Columns of `State.features`."""

Z, P, C, SUM_Z, SUM_ZP, PAST_Z, REACH, THETA2, THETA_W, W2 = range(10)
"""Places of `State.now`."""


class State(NamedTuple):
    """What is kept.

    Attributes
    ----------
    features : (d, 4) array
        For each feature x and u, the number of the epoch they are of, and a part of the sum of its weights
        over steps. That sum is ``total + x sum_z - u sum_zp``.
    now : (9,) array
        The numbers z, p and c; sums of z and z p over the steps, and of step sizes over the epoch; norms.
    ends : (epochs, 6) array
        For each epoch that has ended the one it leads to, and the map (see `catch_up`).
    epoch : (2,) int array
        The present epoch, and steps since the norms were computed.
    """

    features: Floats
    now: Floats
    ends: Floats
    epoch: Ints


def init(setting: Setting, params: Any) -> State:
    """Begin."""
    d = setting.num_features
    features = np.zeros((d, 4))
    features[:, X] = setting.weights
    now = np.zeros(10)
    now[[Z, C]] = 1.0
    now[THETA2] = np.sum(setting.weights**2)
    return State(features, now, np.zeros((64 + d // 8, 7)), np.zeros(3, np.int64))


def step(state: State, params: Any, rows: Rows, move: Move, step_size: float) -> None:
    """Make one step."""
    now = state.now
    if state.epoch[0] == len(state.ends) or state.epoch[1] > 4 * len(state.features) + 256:
        settle(state)
    here, mean_here = look(state, rows, move.here)
    after, _ = look(state, rows, move.after)
    forward, back = step_size * (move.reward + after - here), step_size * (move.reward + here)
    beta = params.mean_ratio * step_size if params.mean_ratio * step_size < 1.0 else 1.0
    bounded = params.weights_radius < np.inf or params.features_radius < np.inf
    if bounded:
        move_norms(now, forward, back, beta, here, mean_here, squared_length(rows, move.here))
    now[P] += back * now[C] / now[Z]
    now[C] -= beta * now[C]
    now[REACH] += step_size
    if now[C] < LEAST or now[Z] < LEAST or now[REACH] > FARTHEST:
        end_epoch(state)
    add_to_row(state, rows, move.here, forward / now[Z] + now[P] * (beta / now[C]), beta / now[C])
    if bounded:
        project(state, params)
    now[SUM_Z] += now[Z]
    now[SUM_ZP] += now[Z] * now[P]


@inlined
def look(state: State, rows: Rows, here: int) -> tuple[float, float]:
    """Return phi^T theta and phi^T w of a state, after its features have caught up."""
    features, now = state.features, state.now
    value, mean = 0.0, 0.0
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)
        value += entry * (features[j, X] - now[P] * features[j, U])
        mean += entry * features[j, U]
    return now[Z] * value, now[C] * mean


@inlined
def catch_up(state: State, j: int) -> None:
    """Bring a feature from its epoch to the present one.

    The map of an epoch is ``x <- a x - b u``, ``u <- c u``, and adds ``f x - g u``, of the old x and u, to the
    sum of the weights.
    """
    feature, ends, present = state.features[j], state.ends, state.epoch[0]
    epoch = int(feature[EPOCH])
    if epoch < present:
        x, u, total, left = feature[X], feature[U], feature[TOTAL], 1.0
        while epoch < present and (u != 0.0 or epoch < state.epoch[2]):
            end = ends[epoch]
            after = int(end[0])
            if after < present:
                skip(end, ends[after])
                after = int(end[0])
            total += end[4] * x - end[5] * u
            x, u = end[1] * x - end[2] * u, end[3] * u
            left *= end[3]
            if left < NOTHING:
                u = 0.0
            epoch = after
        if epoch < present:
            total += (state.now[PAST_Z] - ends[epoch, 6]) * x
        feature[X], feature[U], feature[TOTAL], feature[EPOCH] = x, u, total, present


@inlined
def skip(end: Floats, after: Floats) -> None:
    """Let the end of an epoch lead where the one after it leads."""
    a, b, c = end[1], end[2], end[3]
    end[0] = after[0]
    end[1], end[2], end[3] = after[1] * a, after[1] * b + after[2] * c, after[3] * c
    end[4], end[5] = end[4] + after[4] * a, end[5] + after[4] * b + after[5] * c


@inlined
def end_epoch(state: State) -> None:
    """Begin a new epoch, after making room for it if there is none."""
    now, epoch = state.now, state.epoch
    end = state.ends[epoch[0]]
    epoch[0] += 1
    end[0] = epoch[0]
    end[1], end[2], end[3] = now[Z], now[Z] * now[P], now[C]
    end[4], end[5], end[6] = now[SUM_Z], now[SUM_ZP], now[PAST_Z]
    now[PAST_Z] += now[SUM_Z]
    now[Z], now[P], now[C], now[SUM_Z], now[SUM_ZP], now[REACH] = 1.0, 0.0, 1.0, 0.0, 0.0, 0.0


@inlined
def add_to_row(state: State, rows: Rows, here: int, to_x: float, to_u: float) -> None:
    """Add the row of a state, times numbers, to x and u."""
    sum_z, sum_zp = state.now[SUM_Z], state.now[SUM_ZP]
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)
        more_x, more_u = entry * to_x, entry * to_u
        state.features[j, X] += more_x
        state.features[j, U] += more_u
        state.features[j, TOTAL] -= sum_z * more_x - sum_zp * more_u


@inlined
def move_norms(
    now: Floats, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    """Update |theta|^2, theta^T w and |w|^2 for theta + forward phi - back w and w + beta (phi - w).

    `value`, `mean` and `square` are phi^T theta, phi^T w and |phi|^2.
    """
    theta2, theta_w, w2 = now[THETA2], now[THETA_W], now[W2]
    new_theta_w = theta_w + forward * mean - back * w2
    new_theta_phi = value + forward * square - back * mean
    now[THETA2] = theta2 + forward * (value + new_theta_phi) - back * (theta_w + new_theta_w)
    now[THETA_W] = new_theta_w + beta * (new_theta_phi - new_theta_w)
    now[W2] = w2 + beta * ((mean - w2) * (2.0 - beta) + beta * (square - mean))


@inlined
def settle(state: State) -> None:
    """Let all features catch up, forget past epochs, and compute the norms."""
    features, now, epoch = state.features, state.now, state.epoch
    theta2, theta_w, w2 = 0.0, 0.0, 0.0
    for j in range(len(features)):
        catch_up(state, j)
        features[j, EPOCH] = 0.0
        weight, mean = now[Z] * (features[j, X] - now[P] * features[j, U]), now[C] * features[j, U]
        theta2 += weight * weight
        theta_w += weight * mean
        w2 += mean * mean
    now[THETA2], now[THETA_W], now[W2], now[PAST_Z] = theta2, theta_w, w2, 0.0
    epoch[0], epoch[1], epoch[2] = 0, 0, 1 if now[Z] < 1.0 else 0


@inlined
def project(state: State, params: Any) -> None:
    """Shorten theta and w that are too long; from time to time compute the norms."""
    now, radius, mean_radius = state.now, params.weights_radius, params.features_radius
    state.epoch[1] += 1
    if now[THETA2] > radius * radius:
        factor = radius / np.sqrt(now[THETA2])
        now[Z] *= factor
        state.epoch[2] = state.epoch[0] + 1
        now[THETA_W] *= factor
        now[THETA2] = radius * radius
    if now[W2] > mean_radius * mean_radius:
        factor = mean_radius / np.sqrt(now[W2])
        now[C] *= factor
        now[THETA_W] *= factor
        now[W2] = mean_radius * mean_radius


settle_all = bare_kernel(settle)


def settled(state: State) -> State:
    """Return a copy of a state in which all features have caught up."""
    copy = State(*(array.copy() for array in state))
    settle_all(copy)
    return copy


def output(state: State, params: Any, setting: Setting) -> Output:
    """Return theta."""
    features, now, *_ = settled(state)
    return Output(now[Z] * (features[:, X] - now[P] * features[:, U]), None)


def begin_average(state: State) -> None:
    """Forget the weights so far."""
    settle_all(state)
    state.features[:, TOTAL] = 0.0
    state.now[[SUM_Z, SUM_ZP]] = 0.0


def averaged(state: State, params: Any, setting: Setting, steps: int) -> Output:
    """Return the mean of theta over the steps since the average began."""
    features, now, *_ = settled(state)
    total = features[:, TOTAL] + now[SUM_Z] * features[:, X] - now[SUM_ZP] * features[:, U]
    return Output(total / steps, None)


FORM = Form(init, step, output, own_average=OwnAverage(begin_average, averaged))
