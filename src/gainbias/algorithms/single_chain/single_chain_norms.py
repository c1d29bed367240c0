"""Lengths of the weights theta and of the running mean w of `single_chain_lazy`, and its projections.

To compute lengths in each step would be work for all features. They are kept instead, as three numbers that
follow each update from products with the row of the state alone. Every few d steps they are computed, so that
rounding errors do not pile up. Without radii there is nothing to keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.algorithms.single_chain.single_chain_epochs import (
    FREE,
    PRESENT,
    STEPS,
    AnyState,
    BoundedState,
    C,
    Q,
    State,
    U,
    X,
    Z,
    settle,
)
from gainbias.features.rows import Floats
from gainbias.kernels import ByType, inlined

THETA2, THETA_W, W2 = range(3)
"""Places of |theta|^2, theta^T w and |w|^2 in `BoundedState.norms`."""


@ByType
def follow(
    state: AnyState, forward: float, back: float, beta: float, value: float, mean: float, square: float
) -> None:
    """Let the norms follow a step, if there are any."""


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
