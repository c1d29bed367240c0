"""Single-chain TD with plain running means: two algorithms that were tried next to centred-td and left out.

With V = theta^T phi and the means w of the features and rbar of the rewards so far, both with steps 1/t:

    theta <- theta + alpha ( (r - c rbar + V(s') - V(s)) phi(s)  -  (r - c rbar + V(s)) w )

``single-chain-plain-means`` has c = 0: the paper's second method, except for the steps of w, which do not
depend on alpha. ``single-chain-centred`` has c = 1;
it has V(s) where centred-td has V(s').
They are made for dense rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gainbias as gb
from gainbias.algorithms import centred_td
from gainbias.algorithms.algorithm import Move, NoParams, PerLane, Setting
from gainbias.algorithms.fields import dense_features
from gainbias.features.rows import DenseRows, values
from gainbias.features.vectors import move_both


class Params(NamedTuple):
    """The part c of the mean reward that is subtracted."""

    centred: PerLane


def init(setting: Setting, params: Params) -> centred_td.State:
    return centred_td.init(setting, NoParams())


def step(state: Any, params: Params, rows: DenseRows, move: Move, step_size: PerLane) -> None:
    weights, mean, gain, count, forward, back, beta = state
    values(rows, move.here, move.after, weights, forward, back)
    for k in range(len(beta)):
        count[k] += 1.0
        beta[k] = 1.0 / count[k]
        excess, value = move.reward - params.centred[k] * gain[k], forward[k]
        gain[k] += beta[k] * (move.reward - gain[k])
        forward[k] = step_size[k] * (excess + back[k] - value)
        back[k] = step_size[k] * (excess + value)
    move_both(rows.matrix[move.here], forward, back, beta, weights, mean)


def limit(problem: gb.Problem, params: Params, first: Any) -> Any:
    return problem.fixed_point


PLAIN_MEANS = {
    name: gb.Algorithm(
        name=name,
        form=gb.Form(init, step, laned=True),
        params=Params,
        declared=gb.Declared(limit=limit, rate=1.0, shift_invariant=False, trial_params={"centred": centred}),
    )
    for name, centred in (("single-chain-plain-means", 0.0), ("single-chain-centred", 1.0))
}


def with_dense_rows(problem: gb.Problem) -> gb.Problem:
    """The same problem with features that are stored as a dense matrix."""
    return gb.Problem(problem.mrp, dense_features(problem))
