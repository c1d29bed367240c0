"""The mean of an update over all moves, by enumeration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gainbias.algorithms.algorithm import NoParams, Sample
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem

SampleField = Callable[[Sample, NoParams, float], tuple[Floats, Floats] | None]


def double_chain_field() -> SampleField:
    """Return the step of double-chain for one sample."""
    field = ALGORITHMS["double-chain"].sample_field
    assert field is not None
    return field


def mean_update(field: SampleField, problem: Problem) -> tuple[Floats, Floats]:
    """Return A and b of the mean update b - A theta, the second chain independent of the first.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> mean_update(double_chain_field(), problem)
    (array([[0.7]]), array([0.25]))
    """
    d, mu, transitions = problem.num_features, problem.solution.stationary, problem.mrp.csr.toarray()
    rows, rewards = problem.features.combine(np.eye(d)), problem.mrp.rewards
    matrix, force = np.zeros((d, d)), np.zeros(d)
    for (s, after, other), probability in np.ndenumerate(mu[:, None, None] * transitions[:, :, None] * mu):
        sample = Sample(
            rows[s], rows[after], float(rewards[s]), rows[other], rows[other], float(rewards[other])
        )
        made = field(sample, NoParams(), 1.0)
        assert made is not None
        matrix += probability * made[0]
        force += probability * made[1]
    return matrix, force
