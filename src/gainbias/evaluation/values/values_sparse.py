"""Batch sums of transitions for sparse and tabular features; what is 0 costs neither time nor memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from gainbias.evaluation.values.values_sums import Moments, MomentSums
from gainbias.features.matrix import FloatArray

MOST_SPARSE_FEATURES = 3_000
"""Sums stay sparse, but the equation is solved as a dense one: 72 MB and some seconds for 3,000 features."""

FEW_STATES = 128
"""Up to here moves between states are counted in a full table."""


class SparseValueSums(MomentSums):
    """As `ValueSums`, for rows of features that are sparse.

    Examples
    --------
    >>> rows = sparse.eye_array(2, format="csr")
    >>> sums = SparseValueSums(2)
    >>> sums.add(rows, [5.0, 7.0], rows[[1, 0]])
    >>> sums.totals(0)[0].reward_features
    array([5., 7.])
    """

    most_features, piece = MOST_SPARSE_FEATURES, 4096

    def add(self, features: Any, rewards: ArrayLike, next_features: Any) -> None:
        """Add the next transitions.

        Parameters
        ----------
        features, next_features : (chains * count, d) csr_array
            Features of the states before and after each transition, one chain below the other.
        rewards : (chains, count) or (count,) array
            Rewards of the transitions.
        """
        given = np.asarray(rewards, dtype=np.float64).reshape(self.num_chains, -1)
        self._add(features, next_features, given)

    def _product(self, here: Any, after: Any, reward: FloatArray) -> tuple[Moments, Any]:
        columns = here.T.tocsr()
        features = columns @ np.stack([np.ones(len(reward)), reward], axis=1)
        squares = columns @ here
        change = sparse.csr_array(squares - columns @ after)
        total, steps = float(reward.sum()), float(len(reward))
        return Moments(change, features[:, 0], features[:, 1], total, steps), squares

    def _sums(self, here: Any, groups: int, length: int) -> FloatArray:
        group = np.repeat(np.arange(here.shape[0]) // length, np.diff(here.indptr))
        return _counted(group * self.num_features + here.indices, groups, self.num_features, here.data)


class TabularValueSums(MomentSums):
    """As `ValueSums`, for one feature per state.

    Examples
    --------
    >>> sums = TabularValueSums(2)
    >>> sums.add([0, 1], [5.0, 7.0], [1, 0])
    >>> sums.totals(0)[0].reward_features
    array([5., 7.])
    """

    most_features, piece = MOST_SPARSE_FEATURES, 4096

    def add(self, here: ArrayLike, rewards: ArrayLike, after: ArrayLike) -> None:
        """Add the next transitions.

        Parameters
        ----------
        here, after : (chains, count) or (count,) int arrays
            States before and after each transition.
        rewards : array of the same shape
            Rewards of the transitions.
        """
        given = np.asarray(rewards, dtype=np.float64).reshape(self.num_chains, -1)
        self._add(np.asarray(here).ravel(), np.asarray(after).ravel(), given)

    def _product(self, here: Any, after: Any, reward: FloatArray) -> tuple[Moments, Any]:
        d = self.num_features
        visits, earned = _counted(here, 1, d)[0], _counted(here, 1, d, reward)[0]
        matrix: Any
        if d <= FEW_STATES:
            matrix = np.diag(visits) - _counted(here * d + after, d, d)
        else:
            moves = sparse.coo_array((np.ones(len(here)), (here, after)), (d, d))
            matrix = sparse.csr_array(sparse.diags_array(visits) - moves.tocsr())
        return Moments(matrix, visits, earned, float(reward.sum()), float(len(reward))), visits

    def _sums(self, here: Any, groups: int, length: int) -> FloatArray:
        group = np.arange(len(here)) // length
        return _counted(group * self.num_features + here, groups, self.num_features)


def _counted(places: Any, rows: int, columns: int, weights: FloatArray | None = None) -> FloatArray:
    """Return how often each place of a table occurs, or the sum of its weights."""
    counts = np.bincount(places, weights, minlength=rows * columns)
    return np.asarray(counts, dtype=np.float64).reshape(rows, columns)
