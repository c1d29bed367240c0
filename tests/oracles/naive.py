"""Slow and plain twins of the dense solver."""

import numpy as np
from numpy.typing import ArrayLike

from .record import Floats


def naive_stationary(transitions: ArrayLike) -> Floats:
    """Elimination of an irreducible chain, without subtraction (Grassmann, Taksar, Heyman)."""
    chain = [[float(p) for p in row] for row in np.asarray(transitions)]
    n = len(chain)
    for last in range(n - 1, 0, -1):
        leaving = sum(chain[last][j] for j in range(last))
        for i in range(last):
            chain[i][last] /= leaving
            for j in range(last):
                chain[i][j] += chain[i][last] * chain[last][j]
    weights = [1.0]
    for state in range(1, n):
        weights.append(sum(weights[i] * chain[i][state] for i in range(state)))
    law = np.array(weights)
    return law / law.sum()


def naive_bias(transitions: ArrayLike, rewards: ArrayLike, stationary: Floats) -> Floats:
    """The bias of a unichain model by one dense solve of ``(I - P + e mu') W = R - g``."""
    chain = np.asarray(transitions, dtype=np.float64)
    reward = np.asarray(rewards, dtype=np.float64)
    n = len(reward)
    return np.linalg.solve(np.eye(n) - chain + np.outer(np.ones(n), stationary), reward - stationary @ reward)
