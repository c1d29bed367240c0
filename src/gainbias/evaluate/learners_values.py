"""What learners have learned: values, and their intervals from batch means of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainbias.evaluate.intervals import skewed_interval
from gainbias.evaluate.learners_chain import Follower
from gainbias.features.matrix import FloatArray

ENOUGH_VISITS = 20
"""Where features were visited less often than this, a value has no interval."""


@dataclass(frozen=True, eq=False)
class LearnedValues:
    """Relative values, linear in features, that an algorithm has learned.

    Attributes
    ----------
    weights : (d,) array
        Mean of the weights over the last half of the steps.
    offset : float
        What is added to phi^T theta so that values have mean 0 in the long run.
    gain : float
        The algorithm's own estimate, or the mean of the rewards if it has none.
    step_size : str
        Step sizes in words.
    confidence : float
        Nominal coverage of the intervals.
    effective_sample_size : float
        So many independent batches of one step would have varied as much.
    weight_deviations, offset_deviations : (k, d) and (k,) arrays
        Weights and offset of each of the k batches, less their mean.
    squares : (d,) array
        Sum of the square of each feature over all steps.
    notes : tuple of str
        What a user should know, in words.
    warnings : tuple of str
        Why intervals may be wrong; empty if nothing speaks against them.
    """

    weights: FloatArray
    offset: float
    gain: float
    step_size: str
    confidence: float
    effective_sample_size: float
    weight_deviations: FloatArray
    offset_deviations: FloatArray
    squares: FloatArray
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def num_batches(self) -> int:
        """Batches behind the intervals."""
        return len(self.offset_deviations)

    def values(self, features: Any) -> FloatArray:
        """Values of states with these features: (n,) for (n, d), dense or sparse."""
        return np.asarray(features @ self.weights + self.offset)

    def intervals(self, features: Any) -> FloatArray:
        """Confidence intervals of the values, (n, 2) for (n, d); infinite where too little was observed."""
        deviations = np.asarray(features @ self.weight_deviations.T).T + self.offset_deviations[:, None]
        ends = np.stack(skewed_interval(self.values(features), deviations, self.confidence), axis=1)
        ends[self.observations(features) < ENOUGH_VISITS] = -np.inf, np.inf
        return ends

    def observations(self, features: Any) -> FloatArray:
        """How many visits the data weigh at these features, (n,) for (n, d), as if these were orthogonal."""
        shares = (features * features) @ (1.0 / np.maximum(self.squares, 1e-300))
        return np.asarray(1.0 / np.maximum(shares, 1e-300))


def learned_values(
    followers: Sequence[Follower],
    scale: float,
    transient: int,
    confidence: float,
    step_size: str,
    notes: Sequence[str],
) -> LearnedValues:
    """Put together what the followers of all chains have learned, with features divided by `scale`."""
    found = [follower.means(transient) for follower in followers]
    count = min(len(means.weights) for means in found)
    weights = np.concatenate([means.weights[-count:] for means in found]) / scale
    features = np.concatenate([means.features[-count:] for means in found]) * scale
    mean_weights, mean_features = weights.mean(axis=0), features.mean(axis=0)
    deviations = weights - mean_weights
    offsets = -deviations @ mean_features - (features - mean_features) @ mean_weights
    return LearnedValues(
        weights=mean_weights,
        offset=-float(mean_features @ mean_weights),
        gain=float(np.mean([follower.gain for follower in followers])),
        step_size=step_size,
        confidence=confidence,
        effective_sample_size=np.nan,
        weight_deviations=deviations,
        offset_deviations=offsets,
        squares=np.sum([follower.squares for follower in followers], axis=0) * scale**2,
        notes=tuple(notes),
        warnings=(),
    )
