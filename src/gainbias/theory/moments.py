"""Exact means and second moments of algorithms whose step is affine, without sampling.

One step is x <- x + alpha (y - X x) with X and y that depend on the move alone. With a 1 put at the end of x
it is a product with a matrix M, and the second moment S = E[x x^T], which then contains the mean, obeys

    S <- sum over moves of probability * M S M^T

for independent moves. Along a chain the same is true of S(s) = E[x x^T, the chain is in s], state by state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Sample
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.theory.moves import MoveLaw


class Moments(NamedTuple):
    """Moments of the affine fields x after 0, 1, ..., T steps.

    Attributes
    ----------
    mean : (T + 1, m) array
        E[x].
    second : (T + 1, m, m) array
        E[x x^T].
    """

    mean: Floats
    second: Floats


def affine_moments(
    algorithm: Algorithm, problem: Problem, params: Any, law: MoveLaw, step_sizes: Floats, first: Floats
) -> Moments:
    """Return the exact moments of an algorithm's affine fields.

    Parameters
    ----------
    algorithm : Algorithm
        One with a `sample_field` for these parameters.
    problem : Problem
        Process and features.
    params : NamedTuple of float
        Parameters.
    law : MoveLaw
        Law of the moves.
    step_sizes : (T,) array
        One for each step.
    first : (m,) array
        The affine fields before the first step.

    Returns
    -------
    Moments

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.theory.moves import move_law
    >>> mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    >>> problem, algorithm = gb.Problem(mrp, [[1.0], [0.0]]), gb.ALGORITHMS["double-chain"]
    >>> law = move_law(problem, chains=2)
    >>> moments = affine_moments(algorithm, problem, algorithm.params(), law, np.full(200, 0.1), np.zeros(1))
    >>> moments.mean[[0, 1, -1], 0].round(4), problem.fixed_point
    (array([0.   , 0.025, 0.5  ]), array([0.5]))
    """
    samples = law.samples(problem)

    @cache
    def products(step_size: float) -> Floats:
        return _products(algorithm, params, samples, step_size)

    size = len(first) + 1
    begin = np.append(first, 1.0)
    nodes = law.first[:, None, None] * np.outer(begin, begin)
    seconds = np.empty((len(step_sizes) + 1, size, size))
    seconds[0] = nodes.sum(axis=0)
    for t, step_size in enumerate(step_sizes):
        nodes = _advance(nodes, products(float(step_size)), law)
        seconds[t + 1] = nodes.sum(axis=0)
    return Moments(seconds[:, :-1, -1], seconds[:, :-1, :-1])


def _products(algorithm: Algorithm, params: Any, samples: list[Sample], step_size: float) -> Floats:
    """Return the matrix M of each move, (K, m + 1, m + 1)."""
    field: Callable[..., Any] | None = algorithm.sample_field
    assert field is not None
    found = [field(sample, params, step_size) for sample in samples]
    size = len(found[0][1]) + 1
    matrices = np.tile(np.eye(size), (len(found), 1, 1))
    matrices[:, :-1, :-1] -= step_size * np.array([matrix for matrix, _ in found])
    matrices[:, :-1, -1] += step_size * np.array([vector for _, vector in found])
    return matrices


def _advance(nodes: Floats, products: Floats, law: MoveLaw) -> Floats:
    moved = products @ nodes[law.source] @ products.transpose(0, 2, 1)
    after = np.zeros_like(nodes)
    np.add.at(after, law.target, law.probability[:, None, None] * moved)
    return after
