"""How the estimate of the gain settled down, at geometric times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.intervals import estimate_gain
from gainbias.features.matrix import FloatArray
from gainbias.plain import plain

POINTS = 40
FEWEST_BATCHES = 8
"""The first point comes after so many of the batches that are kept."""


@dataclass(frozen=True, eq=False)
class History:
    """The gain as it would have been estimated earlier.

    Attributes
    ----------
    transitions : (k,) int array
        Transitions of all chains at each time.
    gain, low, high : (k,) arrays
        Estimate and interval.
    """

    transitions: NDArray[np.int64]
    gain: FloatArray
    low: FloatArray
    high: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists; ``None`` for infinite numbers and nan."""
        return {name: plain(getattr(self, name).tolist()) for name in ("transitions", "gain", "low", "high")}


def gain_history(rewards: BatchMeans, confidence: float) -> History:
    """Return the history of an estimate from its batches; the last point is the estimate itself.

    Examples
    --------
    >>> history = gain_history(BatchMeans.of(np.random.default_rng(0).normal(size=20_000)), 0.95)
    >>> len(history.gain), int(history.transitions[-1]), bool(abs(history.gain[-1]) < 0.05)
    (40, 20000, True)
    """
    batches = rewards.sums.complete.shape[-1]
    first = min(FEWEST_BATCHES, batches)
    counts = np.unique(np.geomspace(first, batches, POINTS).astype(int))[:-1]
    points = [rewards.first(int(count)) for count in counts if count * rewards.sums.size >= 2]
    estimates = [estimate_gain(point, confidence) for point in (*points, rewards)]
    steps = [point.steps for point in (*points, rewards)]
    low, high = np.array([estimate.interval for estimate in estimates]).T
    gains = np.array([estimate.gain for estimate in estimates])
    return History(rewards.num_chains * np.array(steps, dtype=np.int64), gains, low, high)
