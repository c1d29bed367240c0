"""Centred TD: this package's own algorithm, asymptotically as accurate as least squares, at the cost of TD.

With V = theta^T phi, the plain means w of the features and rbar of the rewards so far, those of this step
included, for each (s, r, s'):

    delta = r - rbar + V(s') - V(s)
    theta <- theta + alpha [ delta (phi(s) - w)  -  V(s) w ]

Mean field: with w and rbar at their limits m = Phi^T mu and g, the mean of the bracket is b - A theta:
E[delta (phi - m)] = b - Phi^T D (I - P) Phi theta, because the mean of r - g + V(s') - V(s) is 0 in the
stationary chain, and E[V] m = m m^T theta. So A = Phi^T D (I - P) Phi + m m^T and b = Phi^T D (R - g e), as
for the two algorithms of the paper, and theta converges to their fixed point theta*.

Errors of the means: let w be off by u and rbar by v. At theta* the mean of the bracket changes by

    -v E[phi - m]  -  u (E[delta] + E[V])  +  v u  =  -u E[V] + v u,        E[V] = m^T theta*

Both errors shrink like t^-1/2, and the product v u like 1/t. If features span the constants, E[V] = 0 at
theta*, and both drop out to first order.

Averages: steps alpha_t of the order t^-a with 1/2 < a < 1 forget the first weights and make the mean of
the weights over time as accurate as A^-1 times the mean of the noise (Polyak and Ruppert). At theta*, with
theta_e the weights of the constant value 1,

    noise  =  delta (phi - m) - V(s) m,        A theta_e = m

so its last term, and the part delta m, move theta along theta_e only, that is the level of the values. The
rest is delta phi, the noise of least squares. Hence averaged centred values have the asymptotic covariance of
least squares, the smallest along a chain, divided by the share of the steps that the average keeps: keep the
last half (``tail_average=0.5``) and the squared error is twice that of least squares in the end, keep three
quarters and it is 4/3 (`gb.efficiency`). Only if the share left out tends to zero as the run grows is the
factor 1. Leave out no more than the first weights need to be forgotten: after 100,000 steps on six tasks,
with a = 0.6 and the best of four lengths c, leaving out 2% gave 1.00 to 1.07 times the squared error of
least squares on four of them, and 2.7 and 5.7 on two slow ones; a quarter, 1.2 to 1.7, and 2.2 and 2.3.

With a = 1/2 this does not hold. Along a chain, weights with steps alpha settle about alpha away from theta*,
so an average over steps t^-a is off by about t^-a: squared t^-2a, which is as large as the variance 1/t for
a = 1/2 and vanishes beside it for a above. Measured on a random table of 6 states, last three quarters kept,
steps (1/2) (1 + t/64)^-a: the mean squared error is 1.42 +- 0.03 times that of least squares after 20,000
steps with a = 1/2 and 1.45 +- 0.04 after 200,000, of which 0.09 both times is the squared bias; with a = 0.7,
1.34 +- 0.03 and 1.37 +- 0.04, and the bias is 0.012 and 0.005 of it.

In the end `single-chain`, `relative-td` and `td-lambda`, averaged, are as accurate where features span the
constants. They differ in how long it takes to get there, which no covariance shows.

Without the constants in the span, E[V] need not be 0 at theta*. Then the error of w matters: averaged over
time it counts twice, and the efficiency is above 1: 1.11 on a chain of 8 states, where `single-chain`, whose
w has its own steps, has 1. Add the constant as a feature.

`double-chain-centred` also subtracts rbar from the rewards, but multiplies by phi(s^) of an independent
second chain instead of w. Its noise does not cancel along the chain, and each step costs two transitions.

Cost of a step: all d features where they are dense. For sparse and tabular features, the entries of the rows
that it touches: theta is kept as x - q F with the sum F of the features, in which only the number q changes
for all features alike; every 4 d + 256 steps q F is absorbed into x, so that rounding errors do not
accumulate.

Not guaranteed: no finite-sample bound has been proved for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import (
    About,
    Algorithm,
    Declared,
    Field,
    Form,
    Move,
    NoParams,
    Output,
    OwnAverage,
    PerLane,
    Sample,
    Setting,
    Weights,
)
from gainbias.algorithms.fields import average_features, paper_field
from gainbias.features.rows import DenseRows, Rows, entry_at, places_of, values
from gainbias.features.vectors import move_both
from gainbias.kernels import inlined
from gainbias.model.problem import Problem
from gainbias.types import Floats

X, TOTAL_FEATURES, TOTAL_WEIGHT = range(3)
"""Columns of `SparseState.features`."""

SHARE, SUM_OF_SHARES, STEPS_AHEAD, COUNT, GAIN = range(5)
"""Places of `SparseState.numbers`."""


class State(NamedTuple):
    """State for dense features: weights, both means, number of steps, and room for three numbers per lane."""

    weights: Weights
    average_features: Weights
    gain: PerLane
    count: PerLane
    first: PerLane
    second: PerLane
    third: PerLane


class SparseState(NamedTuple):
    """State for sparse and tabular features, of one lane.

    Attributes
    ----------
    features : (d, 3) array
        x and F of each feature, where its weight is ``x - q F``; and a term that makes its sum over the
        steps since an average began ``TOTAL_WEIGHT + STEPS_AHEAD x - SUM_OF_SHARES F``.
    numbers : (5,) array
        q, its sum over the steps since x last absorbed q F, the number of these steps, the number of all
        steps, and the mean reward.
    """

    features: Floats
    numbers: Floats


def init(setting: Setting, params: NoParams) -> State:
    """Return the state before the first step, for dense features."""
    mean, zeros = np.zeros_like(setting.weights), setting.zeros
    return State(setting.weights.copy(), mean, zeros(), zeros(), zeros(), zeros(), zeros())


def step(state: State, params: NoParams, rows: DenseRows, move: Move, step_size: PerLane) -> None:
    """Update the means and then the weights by one centred TD step, for dense features."""
    weights, mean, gain, count, forward, back, beta = state
    values(rows, move.here, move.after, weights, forward, back)
    for k in range(len(beta)):
        count[k] += 1.0
        beta[k] = 1.0 / count[k]
        gain[k] += beta[k] * (move.reward - gain[k])
        excess = step_size[k] * (move.reward - gain[k] + back[k])
        # `move_both` takes the old mean, w - beta (phi - w) / (1 - beta) of the new one.
        forward[k] = excess - step_size[k] * forward[k] - excess * beta[k]
        back[k] = excess * (1.0 - beta[k])
    move_both(rows.matrix[move.here], forward, back, beta, weights, mean)


def sparse_init(setting: Setting, params: NoParams) -> SparseState:
    """Return the state before the first step, for sparse and tabular features."""
    features = np.zeros((setting.num_features, 3))
    features[:, X] = setting.weights
    return SparseState(features, np.zeros(5))


def sparse_step(state: SparseState, params: NoParams, rows: Rows, move: Move, step_size: float) -> None:
    """Update the means and then the weights by one centred TD step, at the entries of the row."""
    features, numbers = state
    here, after = value(state, rows, move.here), value(state, rows, move.after)
    numbers[COUNT] += 1.0
    numbers[GAIN] += (move.reward - numbers[GAIN]) / numbers[COUNT]
    excess = step_size * (move.reward - numbers[GAIN] + after)
    to_x = excess - step_size * here + numbers[SHARE]
    to_total = numbers[SUM_OF_SHARES] - numbers[STEPS_AHEAD] * to_x
    first, end = places_of(rows, move.here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        features[j, X] += entry * to_x
        features[j, TOTAL_FEATURES] += entry
        features[j, TOTAL_WEIGHT] += entry * to_total
    numbers[SHARE] += excess / numbers[COUNT]
    numbers[SUM_OF_SHARES] += numbers[SHARE]
    numbers[STEPS_AHEAD] += 1.0
    if numbers[STEPS_AHEAD] > 4 * len(features) + 256:
        settle(state)


@inlined
def value(state: SparseState, rows: Rows, here: int) -> float:
    """Return the value of a state."""
    features, total, share = state.features, 0.0, state.numbers[SHARE]
    first, end = places_of(rows, here)
    for place in range(first, end):
        j, entry = entry_at(rows, place)
        total += entry * (features[j, X] - share * features[j, TOTAL_FEATURES])
    return total


@inlined
def settle(state: SparseState) -> None:
    """Absorb q F into x, for all features, and bring their sums up to date."""
    features, numbers = state.features, state.numbers
    for j in range(len(features)):
        seen = features[j, TOTAL_FEATURES]
        features[j, TOTAL_WEIGHT] += numbers[STEPS_AHEAD] * features[j, X] - numbers[SUM_OF_SHARES] * seen
        features[j, X] -= numbers[SHARE] * seen
    numbers[SHARE] = numbers[SUM_OF_SHARES] = numbers[STEPS_AHEAD] = 0.0


def sparse_output(state: SparseState, params: NoParams, setting: Setting) -> Output:
    """Return the weights and the mean reward."""
    features, numbers = state
    return Output(features[:, X] - numbers[SHARE] * features[:, TOTAL_FEATURES], numbers[GAIN:].copy())


def begin_average(state: SparseState) -> None:
    """Forget the sums of the weights so far."""
    settle(state)
    state.features[:, TOTAL_WEIGHT] = 0.0


def averaged(state: SparseState, params: NoParams, setting: Setting, steps: int) -> Output:
    """Return the mean of the weights over the steps since the average began, and the mean reward."""
    features, numbers = state
    ahead = numbers[STEPS_AHEAD] * features[:, X] - numbers[SUM_OF_SHARES] * features[:, TOTAL_FEATURES]
    return Output((features[:, TOTAL_WEIGHT] + ahead) / steps, numbers[GAIN:].copy())


def frozen(problem: Problem, params: NoParams, here: int, weights: Floats) -> dict[str, Any]:
    """Return the exact gain and the stationary mean of the features, as if from very many steps."""
    means = {"average_features": average_features(problem), "gain": problem.solution.gain_per_step}
    return means | {"count": np.inf}


def mean_field(problem: Problem, params: NoParams) -> Field:
    """Return the mean update at the exact means, which is 0 at the paper's fixed point."""
    return paper_field(problem)


def frozen_field(sample: Sample, params: NoParams, step_size: float) -> tuple[Floats, Floats]:
    """Return X and y of the step of theta with w and rbar at their limits."""
    matrix = np.outer(sample.here, sample.here - sample.after) + np.outer(sample.other, sample.after)
    return matrix, (sample.reward - sample.other_reward) * (sample.here - sample.other)


def limit(problem: Problem, params: NoParams, first: Floats) -> Floats:
    """Return the paper's fixed point."""
    return problem.fixed_point


ALGORITHM = Algorithm(
    name="centred-td",
    form=Form(init, step, laned=True),
    sparse_form=Form(
        sparse_init, sparse_step, sparse_output, own_average=OwnAverage(begin_average, averaged)
    ),
    declared=Declared(
        limit=limit,
        rate=1.0,
        shift_invariant=True,
        mean_field=mean_field,
        frozen=frozen,
        frozen_field=frozen_field,
    ),
    about=About(
        title="Centred TD",
        short_title="Centred TD",
        reference="gainbias",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="a finite-sample bound; as good as least squares only if features span the constants",
        ours=True,
    ),
)
