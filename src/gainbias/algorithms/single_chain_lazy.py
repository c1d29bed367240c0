"""Single-chain TD at the cost of the rows it touches, for sparse and tabular features.

Each step of `single_chain` moves all weights along w and shrinks all of w. So both are kept as

    w = c u,    theta = z x - q u

with three numbers c, z and q, which take what happens to all features alike. The rest is at those of s:

    q <- q + alpha (r + V(s)) c,    c <- c - beta c                         (V, delta from the old values)
    u <- u + (beta / c) phi(s),     x <- x + (alpha delta + q beta / c) / z phi(s)

A projection multiplies z and q, or c. For it |theta|^2, theta^T w and |w|^2 are kept up to date from the same
rows.

As c and z shrink and q grows, theta becomes a small difference of large numbers. Before that an *epoch* ends:
x <- z x - q u, u <- c u, c = z = 1, q = 0. That would be work for all features, so each does it when it is
next looked at; until then it keeps the number of its epoch. The end of an epoch is a linear map, and maps of
consecutive epochs compose: a feature that was away for long follows links from epoch to epoch, and lets them
lead further for those that come after it (path halving, as for disjoint sets), so that it follows few. Where
u has died out and no projection was made, nothing but time has passed, and it goes to the present at once.

When the table of epochs is full, all features catch up and it begins afresh. It has room for d / 8 epochs,
and they last about 1 / beta steps each, so this is a small part of the work. With a projection all features
catch up every few d steps too, and norms are computed, so that their rounding errors do not pile up.

Sums of z and q over steps give the sum of each weight over steps in the same way, for averages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Form, Move, Output, OwnAverage, Setting
from gainbias.features.entries import entry_at, places_of
from gainbias.features.rows import Floats, Rows
from gainbias.kernels import bare_kernel, inlined
from gainbias.model.elimination.types import Ints

LEAST = 1.0 / 4.0
"""An epoch ends when c or z is below this."""

FARTHEST = 1.0
"""An epoch ends when its step sizes add up to more than this, which bounds q."""

NOTHING = 1e-20
"""A feature's u that has shrunk to this part of what it was is taken as 0."""

X, U, TOTAL, EPOCH = range(4)
"""Columns of `State.features`."""

Z, Q, C, SUM_Z, SUM_Q, BEFORE, LINK = range(7)
"""Columns of `State.epochs`."""

REACH, THETA2, THETA_W, W2 = range(4)
"""Places of `State.now`."""

PRESENT, STEPS, FREE = range(3)
"""Places of `State.clock`."""


class State(NamedTuple):
    """What is kept.

    Attributes
    ----------
    features : (d, 4) array
        x and u of each feature, of the epoch with number `EPOCH`; and `TOTAL`, which makes the sum of its
        weight over steps ``TOTAL + SUM_Z x - SUM_Q u``.
    epochs : (epochs + 1, 7) array
        The row of the present epoch has z, q and c, the sums of z and q over its steps, and `BEFORE`, the sum
        of z over all steps before it. So theta, w and sums of theta are linear in x and u; and the row of a
        past epoch is the same map, to x, u and sums at the beginning of the later epoch `LINK`.
    now : (4,) array
        Sum of step sizes over this epoch; and |theta|^2, theta^T w, |w|^2, right only with a projection.
    clock : (3,) int array
        Number of the present epoch; steps since norms were computed; and an epoch from which on z was 1.
    """

    features: Floats
    epochs: Floats
    now: Floats
    clock: Ints


def init(setting: Setting, params: Any) -> State:
    """Begin."""
    d = setting.num_features
    features, epochs, now = np.zeros((d, 4)), np.zeros((65 + d // 8, 7)), np.zeros(4)
    features[:, X] = setting.weights
    epochs[0, [Z, C]] = 1.0
    if params.weights_radius < np.inf:
        now[THETA2] = np.sum(setting.weights**2)
    return State(features, epochs, now, np.zeros(3, np.int64))


def step(state: State, params: Any, rows: Rows, move: Move, step_size: float) -> None:
    """Make one step."""
    now, clock = state.now, state.clock
    bounded = params.weights_radius < np.inf or params.features_radius < np.inf
    if clock[PRESENT] + 1 == len(state.epochs) or clock[STEPS] > 4 * len(state.features) + 256:
        settle(state, bounded)
    here, mean, square = look(state, rows, move.here)
    after, _, _ = look(state, rows, move.after)
    forward, back = step_size * (move.reward + after - here), step_size * (move.reward + here)
    beta = params.mean_ratio * step_size
    if beta > 1.0:
        beta = 1.0
    if bounded:
        move_norms(now, forward, back, beta, here, mean, square)
    epoch = state.epochs[clock[PRESENT]]
    epoch[Q] += back * epoch[C]
    epoch[C] -= beta * epoch[C]
    now[REACH] += step_size
    if epoch[C] < LEAST or epoch[Z] < LEAST or now[REACH] > FARTHEST:
        end_epoch(state)
        epoch = state.epochs[clock[PRESENT]]
    to_u = beta / epoch[C]
    add_row(state, rows, move.here, (forward + epoch[Q] * to_u) / epoch[Z], to_u)
    if bounded:
        project(state, params)
    epoch[SUM_Z] += epoch[Z]
    epoch[SUM_Q] += epoch[Q]


@inlined
def look(state: State, rows: Rows, here: int) -> tuple[float, float, float]:
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
def add_row(state: State, rows: Rows, here: int, to_x: float, to_u: float) -> None:
    """Add the row of a state, times numbers, to x and u."""
    features, epoch = state.features, state.epochs[state.clock[PRESENT]]
    to_total = epoch[SUM_Q] * to_u - epoch[SUM_Z] * to_x
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        catch_up(state, j)  # an epoch may have ended since it was looked at
        features[j, X] += entry * to_x
        features[j, U] += entry * to_u
        features[j, TOTAL] += entry * to_total


@bare_kernel
def catch_up(state: State, j: int) -> None:
    """Bring a feature from its epoch to the present one (a kernel, so that it is compiled but once)."""
    feature, epochs, present = state.features[j], state.epochs, state.clock[PRESENT]
    at = np.int64(feature[EPOCH])
    if at < present:
        x, u = feature[X], feature[U]
        total, left = feature[TOTAL], 1.0
        while at < present and (u != 0.0 or at < state.clock[FREE]):
            epoch = epochs[at]
            at = np.int64(epoch[LINK])
            if at < present:
                lead_further(epoch, epochs[at])
                at = np.int64(epoch[LINK])
            total += epoch[SUM_Z] * x - epoch[SUM_Q] * u
            x = epoch[Z] * x - epoch[Q] * u
            u *= epoch[C]
            left *= epoch[C]
            if left < NOTHING:
                u = 0.0
        if at < present:
            total += (epochs[present, BEFORE] - epochs[at, BEFORE]) * x
        feature[X], feature[U] = x, u
        feature[TOTAL], feature[EPOCH] = total, present


@inlined
def lead_further(epoch: Floats, other: Floats) -> None:
    """Let an epoch lead where the epoch it leads to does."""
    z, q, c = epoch[Z], epoch[Q], epoch[C]
    epoch[LINK] = other[LINK]
    epoch[Z] = other[Z] * z
    epoch[Q] = other[Z] * q + other[Q] * c
    epoch[C] = other[C] * c
    epoch[SUM_Z] += other[SUM_Z] * z
    epoch[SUM_Q] += other[SUM_Z] * q + other[SUM_Q] * c


@inlined
def end_epoch(state: State) -> None:
    """Begin a new epoch."""
    epoch = state.epochs[state.clock[PRESENT]]
    state.clock[PRESENT] += 1
    epoch[LINK] = state.clock[PRESENT]
    new = state.epochs[state.clock[PRESENT]]
    new[Z] = new[C] = 1.0
    new[Q] = new[SUM_Z] = new[SUM_Q] = 0.0
    new[BEFORE] = epoch[BEFORE] + epoch[SUM_Z]
    state.now[REACH] = 0.0


@bare_kernel
def settle(state: State, with_norms: bool) -> None:
    """Let all features catch up, forget past epochs, and compute the norms if they are wanted."""
    features, now, clock = state.features, state.now, state.clock
    epoch = state.epochs[0]
    theta2 = theta_w = w2 = 0.0
    for k in range(len(features)):
        catch_up(state, k)
        features[k, EPOCH] = 0.0
    for k in range(LINK):
        epoch[k] = state.epochs[clock[PRESENT], k]
    epoch[BEFORE] = 0.0
    clock[PRESENT] = clock[FREE] = 0
    if epoch[Z] < 1.0:
        clock[FREE] = 1
    if with_norms:
        for k in range(len(features)):
            mean = epoch[C] * features[k, U]
            weight = epoch[Z] * features[k, X] - epoch[Q] * features[k, U]
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
    epoch = state.epochs[clock[PRESENT]]
    square = params.weights_radius * params.weights_radius
    mean_square = params.features_radius * params.features_radius
    if now[THETA2] > square:
        factor = np.sqrt(square / now[THETA2])
        epoch[Z] *= factor
        epoch[Q] *= factor
        now[THETA_W] *= factor
        now[THETA2] = square
        clock[FREE] = clock[PRESENT] + 1
    if now[W2] > mean_square:
        factor = np.sqrt(mean_square / now[W2])
        epoch[C] *= factor
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
    features, epochs, _, _ = settled(state)
    return Output(epochs[0, Z] * features[:, X] - epochs[0, Q] * features[:, U], None)


def begin_average(state: State) -> None:
    """Forget the weights so far."""
    settle(state, False)
    state.features[:, TOTAL] = 0.0
    state.epochs[0, [SUM_Z, SUM_Q]] = 0.0


def averaged(state: State, params: Any, setting: Setting, steps: int) -> Output:
    """Return the mean of theta over the steps since the average began."""
    features, epochs, _, _ = settled(state)
    total = features[:, TOTAL] + epochs[0, SUM_Z] * features[:, X] - epochs[0, SUM_Q] * features[:, U]
    return Output(total / steps, None)


FORM = Form(init, step, output, own_average=OwnAverage(begin_average, averaged))
