"""What cuts do to the gain: after each the chain begins anew, perhaps where more is earned than usually.

Along a segment from s to s', rewards add up to the gain times its length, plus V(s) - V(s') and noise. So a
path of T steps that was cut several times earns per step

    g + (sum over its segments of V(s) - V(s')) / T

in which the sum is near 0 if a new segment begins where the last one stopped, and else stays, however long
the path is.
"""

from __future__ import annotations

import numpy as np

from gainbias.evaluation.stream.stream import Transitions
from gainbias.features.matrix import FloatArray

FEWEST = 4
"""From fewer cuts nothing is concluded."""

SURE = 4.0
"""A shift below so many of its standard errors is taken for chance."""


def shift_by_cuts(stretch: list[Transitions], weights: FloatArray) -> float:
    """Return by how much cuts raise the mean of the rewards; 0 if that may be chance.

    Parameters
    ----------
    stretch : list of Transitions
        Steps that follow each other within a batch, apart from cuts.
    weights : (d,) array

    Examples
    --------
    >>> steps = np.arange(6)
    >>> cut = Transitions(np.zeros(6), steps % 3, steps % 3 + 1, None, steps // 3)
    >>> shift_by_cuts([cut] * 5, np.array([9.0, 5.0, 2.0, 0.0]))
    1.5
    """
    jumps = np.concatenate([_jumps(batch, weights) for batch in stretch])
    if len(jumps) < FEWEST or not abs(jumps.mean()) > SURE * jumps.std() / np.sqrt(len(jumps)):
        return 0.0
    return float(jumps.sum() / sum(map(len, stretch)))


def _jumps(batch: Transitions, weights: FloatArray) -> FloatArray:
    """Return how much the value rose at each cut."""
    values = weights if batch.rows is None else batch.rows @ weights
    begins = np.flatnonzero(np.diff(batch.segments)) + 1
    return np.asarray(values[batch.here[begins]] - values[batch.after[begins - 1]])
