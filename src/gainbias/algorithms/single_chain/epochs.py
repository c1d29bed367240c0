"""State of the lazy form of single-chain TD: what it keeps for all features, epochs, norms, projections.

**Epochs.** As c and z shrink and q grows, theta = z x - q u becomes a small difference of large numbers.
Before that an *epoch* ends: x <- z x - q u, u <- c u, c = z = 1, q = 0 (`end_epoch`). That would be work for
all features, so each does it when it is next used (`catch_up`); until then it keeps the number of its
epoch. The end of an epoch is a linear map, and maps of consecutive epochs compose: a feature that was not
used for long follows links from epoch to epoch, and makes them lead further for later features
(`lead_further`: path halving, as for disjoint sets), so that it follows few. If u has died out and there
was no projection, only time has passed, and the feature goes to the present at once.

When the table of epochs is full, all features catch up and the table starts afresh (`settle`). It has room
for d / 8 epochs, and they last about 1 / beta steps each, so this is a small part of the work.

**Norms.** Projections need the lengths of theta and w. Computing them in each step would be work for all
features. Instead, |theta|^2, theta^T w and |w|^2 are stored, and updated in each step from products with
only the row of the state (`follow`). Every few d steps they are computed (`compute_norms`), so that
rounding errors do not accumulate. `project` shortens theta and w by numbers that multiply z and q, or c.
Without radii there is nothing to keep: the state is a `State` instead of a `BoundedState`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gainbias.kernels import ByType, bare_kernel, inlined
from gainbias.types import Floats, Ints

NOTHING = 1e-20
"""A feature's u that has shrunk to this fraction is taken as 0."""

X, U, TOTAL, EPOCH = range(4)
"""Columns of `State.features`."""

Z, Q, C, SUM_Z, SUM_Q, BEFORE, LINK = range(7)
"""Columns of `State.epochs`."""

PRESENT, FREE, STEPS = range(3)
"""Places of `State.clock`."""

THETA2, THETA_W, W2 = range(3)
"""Places of |theta|^2, theta^T w and |w|^2 in `BoundedState.norms`."""


class State(NamedTuple):
    """The state without projections: all features, and the epochs that they catch up on.

    Attributes
    ----------
    features : (d, 4) array
        x and u of each feature, of the epoch with number `EPOCH`; and `TOTAL`, which makes the sum of its
        weight over steps ``TOTAL + SUM_Z x - SUM_Q u``.
    epochs : (epochs + 1, 7) array
        The row of the present epoch has z, q and c, the sums of z and q over its steps, and `BEFORE`, the sum
        of z over all steps before it. So theta, w and sums of theta are linear in x and u; and the row of a
        past epoch is the same map, to x, u and sums at the beginning of the later epoch `LINK`.
    reach : (1,) array
        Sum of step sizes over this epoch.
    clock : (3,) int array
        Number of the present epoch; an epoch from which on z was 1; and steps since norms were computed.
    """

    features: Floats
    epochs: Floats
    reach: Floats
    clock: Ints


class BoundedState(NamedTuple):
    """The fields of `State` and norms, (3,): another type, so that each compiles only what it needs."""

    features: Floats
    epochs: Floats
    reach: Floats
    clock: Ints
    norms: Floats


AnyState: TypeAlias = State | BoundedState


@bare_kernel
def catch_up(state: AnyState, j: int) -> None:
    """Bring a feature from its epoch to the present one (a kernel, so that it is compiled only once)."""
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
    """Let an epoch lead to where the next epoch on its way leads."""
    z, q, c = epoch[Z], epoch[Q], epoch[C]
    epoch[LINK] = other[LINK]
    epoch[Z] = other[Z] * z
    epoch[Q] = other[Z] * q + other[Q] * c
    epoch[C] = other[C] * c
    epoch[SUM_Z] += other[SUM_Z] * z
    epoch[SUM_Q] += other[SUM_Z] * q + other[SUM_Q] * c


@inlined
def end_epoch(state: AnyState) -> None:
    """End the present epoch and begin a new one, with c = z = 1 and q = 0."""
    epoch = state.epochs[state.clock[PRESENT]]
    state.clock[PRESENT] += 1
    epoch[LINK] = state.clock[PRESENT]
    new = state.epochs[state.clock[PRESENT]]
    new[Z] = new[C] = 1.0
    new[Q] = new[SUM_Z] = new[SUM_Q] = 0.0
    new[BEFORE] = epoch[BEFORE] + epoch[SUM_Z]
    state.reach[0] = 0.0


@bare_kernel
def settle(state: AnyState) -> None:
    """Let all features catch up, and forget past epochs."""
    features, clock, epoch = state.features, state.clock, state.epochs[0]
    for k in range(len(features)):
        catch_up(state, k)
        features[k, EPOCH] = 0.0
    for k in range(LINK):
        epoch[k] = state.epochs[clock[PRESENT], k]
    epoch[BEFORE] = 0.0
    clock[PRESENT] = clock[FREE] = 0
    if epoch[Z] < 1.0:
        clock[FREE] = 1


@ByType
def follow(
    state: AnyState, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    """Update the norms for a step, if any are kept."""


@follow.of(State)
def _follow_nothing(
    state: State, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    pass


@follow.of(BoundedState)
def _follow_norms(
    state: BoundedState, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    if state.clock[STEPS] > 4 * len(state.features) + 256:
        compute_norms(state)
    state.clock[STEPS] += 1
    move_norms(state.norms, forward, back, beta, value, mean, square)


@inlined
def move_norms(
    norms: Floats, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    """Update the norms for theta + forward phi - back w and w + beta (phi - w).

    `value`, `mean` and `square` are phi^T theta, phi^T w and |phi|^2.
    """
    theta_w, w2 = norms[THETA_W], norms[W2]
    new_theta_w = theta_w + forward * mean - back * w2
    new_value = value + forward * square - back * mean
    norms[THETA2] += forward * (value + new_value) - back * (theta_w + new_theta_w)
    norms[THETA_W] = new_theta_w + beta * (new_value - new_theta_w)
    norms[W2] += beta * ((2.0 - beta) * (mean - w2) + beta * (square - mean))


@inlined
def compute_norms(state: BoundedState) -> None:
    """Let all features catch up, and compute the norms afresh."""
    features, norms, epoch = state.features, state.norms, state.epochs[0]
    settle(state)
    for k in range(len(norms)):
        norms[k] = 0.0
    for k in range(len(features)):
        weight, mean = epoch[Z] * features[k, X] - epoch[Q] * features[k, U], epoch[C] * features[k, U]
        norms[THETA2] += weight * weight
        norms[THETA_W] += weight * mean
        norms[W2] += mean * mean
    state.clock[STEPS] = 0


@ByType
def project(state: AnyState, params: Any) -> None:
    """Shorten theta and w if there are radii and they are too long."""


@project.of(State)
def _project_nothing(state: State, params: Any) -> None:
    pass


@project.of(BoundedState)
def _project_both(state: BoundedState, params: Any) -> None:
    clock = state.clock
    epoch = state.epochs[clock[PRESENT]]
    theta_factor, w_factor = shortened(state.norms, params.weights_radius, params.features_radius)
    epoch[C] *= w_factor
    if theta_factor < 1.0:
        epoch[Z] *= theta_factor
        epoch[Q] *= theta_factor
        clock[FREE] = clock[PRESENT] + 1


@inlined
def shortened(norms: Floats, weights_radius: float, features_radius: float) -> tuple[float, float]:
    """Return the numbers by which projections multiply theta and w, and update the norms for them."""
    theta_factor = w_factor = 1.0
    square, mean_square = weights_radius * weights_radius, features_radius * features_radius
    if norms[THETA2] > square:
        theta_factor = np.sqrt(square / norms[THETA2])
        norms[THETA2] = square
    if norms[W2] > mean_square:
        w_factor = np.sqrt(mean_square / norms[W2])
        norms[W2] = mean_square
    norms[THETA_W] = norms[THETA_W] * theta_factor * w_factor
    return theta_factor, w_factor
