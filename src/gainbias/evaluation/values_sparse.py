"""Batch sums of transitions for sparse and tabular features; what is 0 costs neither time nor memory."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from gainbias.evaluation.batches import BatchSums
from gainbias.evaluation.values_sums import FINE_BATCHES, MOST_FEATURES, VALUE_BATCHES, Moments
from gainbias.features.matrix import FloatArray

MOST_SPARSE_FEATURES = 3_000
"""Sums stay sparse, but the equation is solved as a dense one: 72 MB and some seconds for 3,000 features."""

FEWEST_FINE_BATCHES = 512

PIECE = 4096
"""Products are taken over at most so many steps, always the same ones, however the stream was cut."""


class SparseValueSums:
    """As `ValueSums`, for rows of features that are sparse.

    Parameters
    ----------
    num_features : int
        Number of features d, at most `MOST_SPARSE_FEATURES`.
    num_chains : int
        Number of chains that are followed together.
    one_hot : bool
        Whether each row is one of the identity, so that all products of two features are 0.

    Examples
    --------
    >>> rows = sparse.eye_array(2, format="csr")
    >>> sums = SparseValueSums(2)
    >>> sums.add(rows, [5.0, 7.0], rows[[1, 0]])
    >>> sums.totals(0)[0].reward_features
    array([5., 7.])
    """

    def __init__(self, num_features: int, num_chains: int = 1, one_hot: bool = False) -> None:
        if not 1 <= num_features <= MOST_SPARSE_FEATURES:
            raise ValueError(
                f"intervals of values need 1 to {MOST_SPARSE_FEATURES} features, found {num_features}: use "
                "fewer"
            )
        self.num_features, self.num_chains, self._one_hot = num_features, num_chains, one_hot
        fine = FINE_BATCHES
        while fine * num_features > FINE_BATCHES * MOST_FEATURES and fine > FEWEST_FINE_BATCHES:
            fine //= 2
        self.fine = BatchSums((num_features,), fine)
        self.batch_size = 1
        self._complete: list[Moments] = []
        self._rest = _none(num_features)
        self._rest_steps = 0
        self._gram = sparse.csr_array((num_features, num_features))
        nothing = sparse.csr_array((0, num_features))
        self._pending: tuple[Any, Any, FloatArray] = (nothing, nothing, np.empty(0))

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.fine.steps + len(self._pending[2]) // self.num_chains

    def add(self, features: Any, rewards: ArrayLike, next_features: Any) -> None:
        """Add the next transitions.

        Parameters
        ----------
        features, next_features : (chains * count, d) csr_array
            Features of the states before and after each transition, one chain below the other.
        rewards : (chains, count) or (count,) array
            Rewards of the transitions.
        """
        given = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
        in_time = np.arange(given.size).reshape(given.shape).T.ravel()  # all chains of a step together
        parts = (features[in_time], next_features[in_time], given.ravel()[in_time])
        here, after, reward = (
            _below(one, another) for one, another in zip(self._pending, parts, strict=True)
        )
        begin = 0
        while begin + (rows := min(self.batch_size, PIECE) * self.num_chains) <= len(reward):
            piece = slice(begin, begin + rows)
            self._take(here[piece], after[piece], reward[piece])
            begin += rows
        self._pending = (here[begin:], after[begin:], reward[begin:])

    def batches(self, skipped: int) -> list[Moments]:
        """Complete batches without the first `skipped`."""
        return self._complete[skipped:]

    def totals(self, skipped: int) -> tuple[Moments, FloatArray]:
        """Sums over all steps, without the first `skipped` batches; and of phi phi^T over really all."""
        last = [self._rest, _product(*self._pending)]
        gram = self._gram + self._squares(self._pending[0])
        total = reduce(Moments.plus, self._complete[skipped:] + last)
        return total, np.asarray(gram.diagonal() if self._one_hot else gram.toarray())

    def _take(self, here: Any, after: Any, reward: FloatArray) -> None:
        """Add a piece, which ends at the latest where a batch does."""
        self._gram = self._gram + self._squares(here)
        self._rest = self._rest.plus(_product(here, after, reward))
        self._add_fine(here)
        self._rest_steps += len(reward) // self.num_chains
        if self._rest_steps == self.batch_size:
            self._complete.append(self._rest)
            self._rest, self._rest_steps = _none(self.num_features), 0
        if len(self._complete) == VALUE_BATCHES:
            pairs = zip(self._complete[::2], self._complete[1::2], strict=True)
            self._complete = [one.plus(other) for one, other in pairs]
            self.batch_size *= 2

    def _add_fine(self, here: Any) -> None:
        """Add up features over short batches; a piece fills a whole number of them, or a part of one."""
        steps, width = here.shape[0] // self.num_chains, self.num_features
        length = min(steps, self.fine.size)
        step = np.repeat(np.arange(here.shape[0]) // self.num_chains, np.diff(here.indptr))
        place = step // length * width + here.indices
        sums = np.asarray(np.bincount(place, here.data, minlength=steps // length * width), dtype=np.float64)
        for total in sums.reshape(-1, width):
            self.fine.add_sum(total, length)

    def _squares(self, rows: Any) -> Any:
        return sparse.diags_array(rows.sum(axis=0), format="csr") if self._one_hot else rows.T @ rows


def _none(num_features: int) -> Moments:
    nothing = np.zeros(num_features)
    return Moments(sparse.csr_array((num_features, num_features)), nothing, nothing, 0.0, 0.0)


def _product(here: Any, after: Any, reward: FloatArray) -> Moments:
    features = here.T @ np.stack([np.ones(len(reward)), reward], axis=1)
    change = sparse.csr_array(here.T @ (here - after))
    return Moments(change, features[:, 0], features[:, 1], float(reward.sum()), float(len(reward)))


def _below(above: Any, below: Any) -> Any:
    if isinstance(above, np.ndarray):
        return np.concatenate([above, below])
    return sparse.vstack([above, below], format="csr") if above.shape[0] else below
