"""The terms of an affine step: which products of rows it adds up, read from the declared `sample_field`.

A step is x <- x - alpha N (x, 1) with N = [X, -y]. In all methods of temporal differences N is a sum of terms

    coefficient * left * right^T

in which `left` is the row of the state here, that of the other chain's state, or the unit of a further field
such as the gain; and `right` is the row of one of the four states of a move, such a unit, the number 1, or a
reward. If a field consists of such terms, calling it with different unit vectors as rows shows its
coefficients. Real rows then check whether it does. Coefficients may depend on the step size and
on the length of the row here.

Moments follow from terms at the cost of a few products of d x d matrices, however many moves there are.

`read_terms` finds the coefficients. `RowSource` is where the rows and rewards of a move come from: a chain,
or the mean that stands in for a second chain. `Ingredients`, both together, are what `moments` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.algorithms.algorithm import Sample
from gainbias.algorithms.fields import average_features, dense_features
from gainbias.model.checks import CsrArray
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints

SampleField = Callable[[Sample, float], tuple[Floats, Floats]]
"""X and y of one step, given a sample and the step size."""

STATES = 4
"""States of a move: here, after, other, other after. They come first among lefts and rights."""

FIELD_TERM_TOLERANCE = 1e-11
"""Largest difference between terms and field, relative to its largest entry: both round."""

SHORTEST = 1e-6
"""Length of the row that stands in for a row of zeros."""

NEGLIGIBLE_TERM = 5e-15
"""Terms of an interpolation that are smaller than this, relative to the largest, are those of rounding."""

MOST_NODES = 256
"""Largest number of step sizes at which coefficients are read, to interpolate between them."""


def read_terms(problem: Problem, field: SampleField, size: int, chains: int) -> Terms | None:
    """Return the terms of a field, or None if it is not made of such terms.

    Parameters
    ----------
    problem : Problem
        Process and features.
    field : callable (sample, step_size) -> (X, y)
        The declared field, with its parameters filled in.
    size : int
        Number of entries of x.
    chains : {1, 2}
        Number of chains.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> algorithm = gb.ALGORITHMS["double-chain"]
    >>> def field(sample, step_size):
    ...     return algorithm.declared.sample_field(sample, algorithm.params(), step_size)
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
        """Return a function like `at` that interpolates up to the largest step size if that is exact."""
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
            matters = np.abs(fit).max(axis=(1, 2, 3)) > NEGLIGIBLE_TERM * np.abs(fit).max()
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


def _begins_well(coefficients: Floats, chains: int) -> bool:
    """Return whether lefts are states here or other, or units, and one chain has no other states."""
    uses_after = np.any(coefficients[:, [1, 3]])
    uses_other = np.any(coefficients[:, [2, 3]]) or np.any(coefficients[:, :, [2, 3, -1]])
    return not (uses_after or (uses_other and chains == 1))


def _agrees(terms: Terms, problem: Problem, rows: Floats) -> bool:
    """Return whether terms give the field of some random moves with random rewards."""
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
            if not off <= FIELD_TERM_TOLERANCE * max(1.0, np.abs(matrix).max(), np.abs(vector).max()):
                return False
    return True


def bound_field(field: Any, params: Any) -> SampleField:
    """Return a declared `sample_field` with its parameters filled in."""
    return lambda sample, step_size: field(sample, params, step_size)


@dataclass(frozen=True, eq=False)
class Ingredients:
    """The parts of the steps of an algorithm on a problem.

    Attributes
    ----------
    coefficients : callable (step_size) -> (n, lefts, rights) array
        Of the terms (see `Terms.at`).
    fixed : bool
        Whether they are the same for all step sizes.
    first, second : RowSource
        The sources of the rows of the two chains; the second may be None.
    units : (f + 1, m + 1) array
        Units of the other fields, and of the number 1.
    """

    coefficients: Callable[[float], Floats]
    fixed: bool
    first: RowSource
    second: RowSource | None
    units: Floats


@dataclass(frozen=True, eq=False)
class RowSource:
    """A chain of rows and rewards, as functions of x minus an origin, with a 1 put at the end.

    Attributes
    ----------
    rows : (n, m + 1) array
        Row of each state; its last entry is its product with the origin.
    law : (n,) array
        The stationary law.
    transitions : (n, n) csr_array
    rewards : (entries,) array
        Reward of each entry of the transitions.
    start : (n,) array
        Law of the first state of a chain.
    """

    rows: Floats
    law: Floats
    transitions: CsrArray
    rewards: Floats
    start: Floats

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self.law)

    @cached_property
    def lefts(self) -> Floats:
        """Rows without the last entry's share of the origin, (n, m + 1)."""
        rows = self.rows.copy()
        rows[:, -1] = 0.0
        return rows

    @cached_property
    def after(self) -> Floats:
        """Mean row of the next state, (n, m + 1)."""
        return np.asarray(self.transitions @ self.rows)

    @cached_property
    def reward_mean(self) -> Floats:
        """Mean reward of each state, (n,)."""
        return self.mean_of(self.rewards)

    @cached_property
    def reward_square(self) -> Floats:
        """Mean squared reward of each state, (n,)."""
        return self.mean_of(self.rewards**2)

    @cached_property
    def reward_after(self) -> Floats:
        """Mean product of the reward and the row of the next state, (n, m + 1)."""
        table = self.transitions
        paid = sparse.csr_array((table.data * self.rewards, table.indices, table.indptr), shape=table.shape)
        return np.asarray(paid @ self.rows)

    def mean_of(self, entries: Floats) -> Floats:
        """Return the mean of a number of each transition, given the state: (n,)."""
        table = self.transitions
        return np.add.reduceat(table.data * entries, table.indptr[:-1])

    def arrivals(self, entries: Floats, vectors: Floats) -> Floats:
        """Return the stationary mean of a number of each transition times a vector, by next state: (n, k)."""
        table = self.transitions
        flow = sparse.csr_array((table.data * entries, table.indices, table.indptr), shape=table.shape)
        return np.asarray(flow.T @ (self.law[:, None] * vectors))

    def deviation(self, values: Floats) -> Floats:
        """Return the sum over t >= 0 of P^t applied to values of mean 0, (n, k)."""
        fundamental = np.eye(self.size) - self.transitions.toarray() + self.law
        return np.asarray(np.linalg.solve(fundamental, values))


def chain_source(problem: Problem, origin: Floats, start: Floats) -> RowSource:
    """Return the chain of a problem, for x of the size of the origin, (m,).

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> chain_source(problem, np.array([3.0, 5.0]), np.array([1.0, 0.0])).after
    array([[0.1, 0.9, 4.8],
           [0.9, 0.1, 3.2]])
    """
    process, rows = problem.mrp, dense_features(problem)
    wide = np.zeros((len(rows), len(origin) + 1))
    wide[:, : rows.shape[1]] = rows
    wide[:, -1] = rows @ origin[: rows.shape[1]]
    table, paid = process.csr, process.reward_entries
    rewards = np.repeat(process.rewards, np.diff(table.indptr)) if paid is None else paid
    return RowSource(wide, problem.solution.stationary, table, rewards, start)


def mean_source(problem: Problem, origin: Floats) -> RowSource:
    """Return the mean of the features and the gain, as a chain of one state.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> mean_source(problem, np.array([3.0, 5.0])).rows
    array([[0.5, 0.5, 4. ]])
    """
    mean, row = average_features(problem), np.zeros((1, len(origin) + 1))
    row[0, : len(mean)] = mean
    row[0, -1] = mean @ origin[: len(mean)]
    one = np.ones(1)
    return RowSource(row, one, sparse.csr_array(np.ones((1, 1))), one * problem.solution.gain_per_step, one)


def unit_rows(origin: Floats, num_fields: int) -> Floats:
    """Return the units of the fields after the weights, and of the number 1: (fields + 1, m + 1)."""
    units = np.zeros((num_fields + 1, len(origin) + 1))
    for f in range(num_fields):
        place = len(origin) - num_fields + f
        units[f, place], units[f, -1] = 1.0, origin[place]
    units[-1, -1] = 1.0
    return units
