"""What the rows and rewards of a move come from: a chain, or the mean that stands in for a second chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from gainbias.algorithms.fields import average_features, dense_features
from gainbias.features.rows import Floats
from gainbias.model.checks import CsrArray
from gainbias.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Source:
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


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What the steps of an algorithm on a problem are made of.

    Attributes
    ----------
    coefficients : callable (step_size) -> (n, lefts, rights) array
        Of the terms (see `Terms.at`).
    fixed : bool
        Whether they are the same for all step sizes.
    first, second : Source
        Where the rows of the two chains come from; the second may be missing.
    units : (f + 1, m + 1) array
        Units of the other fields, and of the number 1.
    """

    coefficients: Callable[[float], Floats]
    fixed: bool
    first: Source
    second: Source | None
    units: Floats


def chain_source(problem: Problem, origin: Floats, start: Floats) -> Source:
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
    return Source(wide, problem.solution.stationary, table, rewards, start)


def mean_source(problem: Problem, origin: Floats) -> Source:
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
    return Source(row, one, sparse.csr_array(np.ones((1, 1))), one * problem.solution.gain_per_step, one)


def unit_rows(origin: Floats, num_fields: int) -> Floats:
    """Return the units of the fields after the weights, and of the number 1: (fields + 1, m + 1)."""
    units = np.zeros((num_fields + 1, len(origin) + 1))
    for f in range(num_fields):
        place = len(origin) - num_fields + f
        units[f, place], units[f, -1] = 1.0, origin[place]
    units[-1, -1] = 1.0
    return units
