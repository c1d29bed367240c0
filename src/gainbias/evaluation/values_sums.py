"""Batch sums of transitions, from which values and their errors follow at any weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gainbias.evaluation.batches import BatchSums
from gainbias.features.matrix import FloatArray

MOST_FEATURES = 500
"""32 sums of d x d products are kept: 64 MB for 500 features."""

VALUE_BATCHES = 32
"""There are between 16 and 31 batches."""

FINE_BATCHES = 4096
"""Sums of the features alone are kept for shorter batches, which show the autocorrelation of the values."""

PIECE = 512
"""Products are taken over at most so many steps, always the same ones, however the stream was cut."""


class Moments(NamedTuple):
    """Sums over some transitions (s, r, s') with features phi and phi'.

    Attributes
    ----------
    matrix : (d, d) ndarray or csr_array
        Of phi (phi - phi')^T.
    features, reward_features : (d,) arrays
        Of phi and of phi r.
    reward, steps : float
        Of r and of 1.
    """

    matrix: Any
    features: FloatArray
    reward_features: FloatArray
    reward: float
    steps: float

    def plus(self, other: Moments) -> Moments:
        """Return the sums over both."""
        sums: list[Any] = [one + another for one, another in zip(self, other, strict=True)]
        return Moments(*sums)

    @property
    def means(self) -> Moments:
        """The sums divided by their number."""
        means: list[Any] = [part / self.steps for part in self]
        return Moments(*means)


class ValueSums:
    """Batch sums behind the values, in bounded memory, for dense features.

    Parameters
    ----------
    num_features : int
        Number of features d, at most `MOST_FEATURES`.
    num_chains : int
        Number of chains that are followed together.

    Examples
    --------
    >>> sums = ValueSums(2)
    >>> sums.add([[1.0, 0.0], [0.0, 1.0]], [5.0, 7.0], [[0.0, 1.0], [1.0, 0.0]])
    >>> sums.steps
    2
    """

    def __init__(self, num_features: int, num_chains: int = 1) -> None:
        if not 1 <= num_features <= MOST_FEATURES:
            raise ValueError(
                f"intervals of values need 1 to {MOST_FEATURES} features, found {num_features}: use fewer"
            )
        d = self.num_features = num_features
        self.num_chains = num_chains
        self.products = BatchSums((d + 1, d + 2), VALUE_BATCHES)
        self.fine = BatchSums((d,), FINE_BATCHES)
        self.gram = np.zeros((d, d))
        self._pending = np.empty((0, num_chains, 2 * d + 1))

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.fine.steps

    def add(self, features: ArrayLike, rewards: ArrayLike, next_features: ArrayLike) -> None:
        """Add the next transitions.

        Parameters
        ----------
        features, next_features : (chains, count, d) or (count, d) arrays
            Features of the states before and after each transition.
        rewards : (chains, count) or (count,) array
            Rewards of the transitions.
        """
        here, after = (
            self._rows(array, self.num_features, name)
            for array, name in ((features, "features"), (next_features, "next_features"))
        )
        reward = self._rows(np.asarray(rewards)[..., None], 1, "rewards")
        if not here.shape[:2] == after.shape[:2] == reward.shape[:2]:
            raise ValueError(
                "features, rewards and next_features must have equal lengths, found "
                f"{here.shape[1]}, {reward.shape[1]} and {after.shape[1]}"
            )
        rows = np.concatenate([here, after, reward], axis=2).transpose(1, 0, 2)
        self.fine.add(sum(here.transpose(0, 2, 1), np.zeros((self.num_features, here.shape[1]))))
        self._take_pieces(np.concatenate([self._pending, rows]))

    def product(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums over rows of (phi, 1) (phi - phi', 1, r)^T and of phi phi^T."""
        d = self.num_features
        flat = rows.reshape(-1, 2 * d + 1)
        here, ones = flat[:, :d], np.ones((len(flat), 1))
        right = np.hstack([here - flat[:, d : 2 * d], ones, flat[:, 2 * d :], here])
        both = np.hstack([here, ones]).T @ right
        return both[:, : d + 2], both[:d, d + 2 :]

    @property
    def batch_size(self) -> int:
        """Steps in a batch."""
        return self.products.size

    def batches(self, skipped: int) -> list[Moments]:
        """Complete batches without the first `skipped`."""
        return [_moments(batch) for batch in np.moveaxis(self.products.complete, -1, 0)[skipped:]]

    def totals(self, skipped: int) -> tuple[Moments, FloatArray]:
        """Sums over all steps, without the first `skipped` batches; and of phi phi^T over really all."""
        product, gram = self.product(self._pending)
        total = self.products.complete[..., skipped:].sum(axis=-1) + self.products.rest + product
        return _moments(total), self.gram + gram

    def _take_pieces(self, rows: FloatArray) -> None:
        begin = 0
        while begin + (length := min(self.products.size, PIECE)) <= len(rows):
            product, gram = self.product(rows[begin : begin + length])
            self.products.add_sum(product, length)
            self.gram += gram
            begin += length
        self._pending = rows[begin:].copy()

    def _rows(self, array: ArrayLike, width: int, name: str) -> FloatArray:
        rows = np.asarray(array, dtype=np.float64)
        rows = rows[None] if rows.ndim == 2 else rows
        if rows.ndim != 3 or rows.shape[0] != self.num_chains or rows.shape[2] != width:
            raise ValueError(
                f"{name} must have {self.num_chains} chain(s) of rows of {width} number(s), found shape "
                f"{np.shape(array)}"
            )
        if not np.isfinite(rows).all():
            chain, step, _ = np.argwhere(~np.isfinite(rows))[0]
            raise ValueError(f"{name} must be finite: look at chain {chain}, step {self.steps + step}")
        return rows


def _moments(product: FloatArray) -> Moments:
    reward, steps = float(product[-1, -1]), float(product[-1, -2])
    return Moments(product[:-1, :-2], product[:-1, -2], product[:-1, -1], reward, steps)
