"""The chains on which claims are measured: random ones, and families with one property turned."""

from __future__ import annotations

import numpy as np

from gainbias.features import Tabular
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess


def random_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return transitions whose rows are drawn evenly among all laws: ergodic, fast, not reversible."""
    return rng.dirichlet(np.ones(num_states), num_states)


def reversible_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return a random reversible chain: transitions in proportion to symmetric weights."""
    weights = rng.uniform(0.2, 1.0, (num_states, num_states))
    weights = weights + weights.T
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def rewarding(transitions: Floats, values: Floats, gain: float) -> MarkovRewardProcess:
    """Return the process with a given gain, and with given values for a bias, up to a constant."""
    return MarkovRewardProcess(transitions, gain + values - transitions @ values)


def slow_problem(rng: np.random.Generator, coupling: float) -> Problem:
    """Return two pairs of states between which the chain rarely moves: tabular, gain 1, |theta*| = 1.

    As the coupling falls, eta1 falls with it, and the mixing time grows. Rewards stay about 1 and the bias,
    which differs between the pairs, keeps its length. So nothing changes but the condition of the problem.
    """
    inside, between = np.zeros((4, 4)), np.zeros((4, 4))
    for pair, other in (([0, 1], [2, 3]), ([2, 3], [0, 1])):
        inside[np.ix_(pair, pair)] = rng.dirichlet(np.full(2, 4.0), 2)
        between[np.ix_(pair, other)] = rng.dirichlet(np.full(2, 4.0), 2)
    transitions = (1.0 - coupling) * inside + coupling * between
    values = np.array([1.0, 1.0, -1.0, -1.0]) + 0.3 * rng.normal(size=4)
    return _scaled(transitions, np.eye(4), values, tabular=True)


def short_problem(rng: np.random.Generator, length: float) -> Problem:
    """Return a fast chain, seen through a constant, a feature and a short one: gain 1, |theta*| = 1.

    As the feature becomes shorter, eta1 falls with its square, and the mixing time does not change.
    """
    transitions = random_chain(rng, 4)
    columns = np.column_stack([np.ones(4), rng.normal(size=4), length * rng.normal(size=4)])
    features = columns / np.linalg.norm(columns, axis=1).max()
    return _scaled(transitions, features, np.array([0.0, 0.5, 1.0]))


def _scaled(transitions: Floats, features: Floats, weights: Floats, tabular: bool = False) -> Problem:
    """Return the problem whose fixed point has the direction of weights, up to a constant, and length 1."""
    seen = Tabular() if tabular else features
    first = Problem(rewarding(transitions, features @ weights, 1.0), seen)
    size = float(np.linalg.norm(first.fixed_point))
    return Problem(rewarding(transitions, features @ weights / size, 1.0), seen)
