"""The terms of an affine step: which products of rows it adds up, read from the declared `sample_field`.

A step is x <- x - alpha N (x, 1) with N = [X, -y]. In all methods of temporal differences N is a sum of terms

    coefficient * left * right^T

in which `left` is the row of the state here, that of the other chain's state, or the unit of a further field
such as the gain; and `right` is the row of one of the four states of a move, such a unit, the number 1, or a
reward. A field that is made of such terms shows its coefficients if different unit vectors are put in for the
rows. Whether it is made of them is then checked with real rows. Coefficients may depend on the step size and
on the length of the row here.

Moments follow from terms at the cost of a few products of d x d matrices, however many moves there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Sample
from gainbias.algorithms.fields import dense_features
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.model.solve.elimination.types import Ints

SampleField = Callable[[Sample, float], tuple[Floats, Floats]]
"""X and y of one step, given a sample and the step size."""

STATES = 4
"""States of a move: here, after, other, other after. They come first among lefts and rights."""

TOLERANCE = 1e-11
"""How far terms may be from the field, relative to its largest entry: both round."""

SHORTEST = 1e-6
"""Length of the row that stands in for a row of zeros."""

ROUNDING = 5e-15
"""Terms of an interpolation that are smaller than this, relative to the largest, are those of rounding."""

MOST_NODES = 256
"""Step sizes at which coefficients are read, at most, to know them at all others."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Coefficients of the terms of a step, for each state here.

    Attributes
    ----------
    field : callable (sample, step_size) -> (X, y)
    num_fields : int
        Number of entries of x that are not weights.
    lengths : (k,) array
        The different lengths of rows.
    which : (n,) int array
        Which of them each state has.
    """

    field: SampleField
    num_fields: int
    lengths: Floats
    which: Ints

    def at(self, step_size: float) -> Floats:
        """Return coefficients for each state, left and right: (n, 4 + f, 4 + f + 3).

        The lefts are four states and f units; the rights are the same, then 1 and the two rewards.
        """
        found = self._fixed if self._fixed is not None else self._read_cached(float(step_size))
        return np.asarray(found[self.which])

    def between(self, largest: float) -> Callable[[float], Floats]:
        """Return what `at` does, for step sizes up to the largest by interpolation if that is exact."""
        if self._fixed is not None:
            fixed = self.at(largest)
            return lambda step_size: fixed
        count, rounded = 16, False
        while not rounded:
            if count > MOST_NODES:
                return self.at
            angles = (np.arange(count) + 0.5) * np.pi / count
            table = np.array([self._read(0.5 * largest * (1.0 + np.cos(angle))) for angle in angles])
            weights = 2.0 / count * np.cos(np.outer(np.arange(count), angles))
            weights[0] /= 2.0
            fit = np.tensordot(weights, table, axes=1)
            matters = np.abs(fit).max(axis=(1, 2, 3)) > ROUNDING * np.abs(fit).max()
            count, rounded = 2 * count, not matters[-2:].any()
        order = np.arange(np.flatnonzero(matters)[-1] + 1)
        shape, flat = fit.shape[1:], fit[: len(order)].reshape(len(order), -1)

        def interpolated(step_size: float) -> Floats:
            if step_size > largest:
                return self.at(step_size)
            basis = np.cos(order * np.arccos(2.0 * step_size / largest - 1.0))
            return np.asarray((basis @ flat).reshape(shape)[self.which])

        return interpolated

    @property
    def depends_on_step(self) -> bool:
        """Whether coefficients change with the step size."""
        return self._fixed is None

    @cached_property
    def _fixed(self) -> Floats | None:
        """Coefficients if they are the same for all step sizes."""
        one, other = self._read(0.11), self._read(0.73)
        return one if np.array_equal(one, other) else None

    @cached_property
    def _read_cached(self) -> Callable[[float], Floats]:
        return lru_cache(maxsize=8)(self._read)

    def _read(self, step_size: float) -> Floats:
        """Return coefficients for each length, (k, 4 + f, 4 + f + 3)."""
        size = STATES + self.num_fields
        found = np.empty((len(self.lengths), size, size + 3))
        for k, length in enumerate(self.lengths):
            scale = np.ones(size)
            scale[0] = max(length, SHORTEST)
            here, after, other, other_after = np.eye(STATES) * scale[:STATES]
            sizes = []
            for rewards in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
                sample = Sample(here, after, rewards[0], other, other_after, rewards[1])
                matrix, vector = self.field(sample, step_size)
                sizes.append(vector / scale)
            found[k, :, :size] = matrix / np.outer(scale, scale)
            found[k, :, size:] = -np.array([sizes[0], sizes[1] - sizes[0], sizes[2] - sizes[0]]).T
        return found + 0.0  # no negative zeros


def read_terms(problem: Problem, field: SampleField, size: int, chains: int) -> Terms | None:
    """Return the terms of a field, or None if it is not made of such terms.

    Parameters
    ----------
    problem : Problem
        Process and features.
    field : callable (sample, step_size) -> (X, y)
        The declared field, with its parameters put in.
    size : int
        Number of entries of x.
    chains : {1, 2}
        How many chains there are.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> algorithm = gb.ALGORITHMS["double-chain"]
    >>> def field(sample, step_size):
    ...     return algorithm.sample_field(sample, algorithm.params(), step_size)
    >>> read_terms(problem, field, 2, 2).at(0.1)[0]
    array([[ 1., -1.,  0.,  0.,  0., -1.,  0.],
           [ 0.,  0.,  0.,  0.,  0.,  0.,  0.],
           [ 1.,  0.,  0.,  0.,  0.,  1.,  0.],
           [ 0.,  0.,  0.,  0.,  0.,  0.,  0.]])
    """
    rows = dense_features(problem)
    n, num_fields = len(rows), size - problem.num_features
    lengths, which = np.unique(np.linalg.norm(rows, axis=1).round(14), return_inverse=True)
    tried = [Terms(field, num_fields, np.ones(1), np.zeros(n, np.int64))]  # lengths may not matter
    if chains == 1:
        tried.append(Terms(field, num_fields, lengths, which.ravel()))
    for terms in tried:
        try:
            if _begins_well(terms.at(0.3), chains) and _agrees(terms, problem, rows):
                return terms
        except (ValueError, IndexError):  # a field of d numbers does not fit to four unit rows
            return None
    return None


def _begins_well(coefficients: Floats, chains: int) -> bool:
    """Whether lefts are states here or other, or units, and one chain has no other states."""
    uses_after = np.any(coefficients[:, [1, 3]])
    uses_other = np.any(coefficients[:, [2, 3]]) or np.any(coefficients[:, :, [2, 3, -1]])
    return not (uses_after or (uses_other and chains == 1))


def _agrees(terms: Terms, problem: Problem, rows: Floats) -> bool:
    """Whether terms give the field of some moves, drawn at random, with rewards of any size."""
    rng = np.random.default_rng(0)
    for step_size in (0.05, 0.3):
        coefficients = terms.at(step_size)
        for _ in range(3):
            states = rng.integers(0, problem.mrp.num_states, STATES)
            here, after, other, other_after = rows[states]
            rewards = rng.uniform(-1.0, 1.0, 2)
            matrix, vector = terms.field(
                Sample(here, after, rewards[0], other, other_after, rewards[1]), step_size
            )
            left = np.zeros((STATES + terms.num_fields, len(vector)))
            left[:STATES, : rows.shape[1]] = rows[states]
            left[STATES:, rows.shape[1] :] = np.eye(terms.num_fields)
            own = coefficients[states[0]]
            numbers = own[:, -3:] @ np.array([1.0, *rewards])
            off = np.abs(left.T @ own[:, :-3] @ left - matrix).max() + np.abs(left.T @ numbers + vector).max()
            if not off <= TOLERANCE * max(1.0, np.abs(matrix).max(), np.abs(vector).max()):
                return False
    return True


def bound_field(field: Any, params: Any) -> SampleField:
    """Return a declared `sample_field` with its parameters put in."""
    return lambda sample, step_size: field(sample, params, step_size)
