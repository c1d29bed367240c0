"""What twins of the algorithms read: the path that a run takes, as feature vectors and rewards."""

from collections.abc import Iterator

import numpy as np

import gainbias as gb
from gainbias.algorithms.fields import dense_features
from gainbias.engine.paths import Sampler


def path(
    problem: gb.Problem, num_steps: int, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """The transitions of a seed: features of the state, features of the next one, reward."""
    features = dense_features(problem)
    steps = Sampler(problem.mrp).paths([seed]).take(num_steps)
    for here, after, reward in zip(steps.here[0], steps.next[0], steps.reward[0], strict=True):
        yield features[here], features[after], float(reward)


def first_weights(problem: gb.Problem) -> np.ndarray:
    """Weights of different sizes and signs."""
    return np.cos(np.arange(1.0, problem.num_features + 1.0))


def without(direction: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """The part of weights orthogonal to a direction."""
    if direction is None:
        return weights
    return weights - direction * (direction @ weights) / (direction @ direction)
