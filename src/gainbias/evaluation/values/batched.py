"""Intervals of values from few long batches, and when a run is too short for them.

Batches are at least `TIMES_PER_BATCH` autocorrelation times long, so that their means are nearly independent;
`skewed_interval` makes Student's interval of them, corrected for skewness.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from gainbias.evaluation.gain.interval import stretched
from gainbias.types import Floats

ENOUGH_TIMES = 500
"""A run of fewer autocorrelation times of its values than this is called too short."""

ENOUGH_STEPS = 2_000
"""So is one of fewer steps: rare events, and rewards that make up for each other later, need room to show."""

TIMES_PER_BATCH = 12
"""Batches are at least this many autocorrelation times long: their means are then nearly independent, and the
variance between them is about 4 % too small."""

FEWEST_VALUE_BATCHES = 2
"""Batches of all chains together, however short the run is."""


def skewed_interval(estimate: Floats | float, batches: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return Student's interval from independent batches, corrected for their skewness.

    The correction (Willink 2005, as in the procedure Skart of Tafazzoli et al. 2011) moves the interval
    towards the longer tail. It matters for rewards that are rare: there the plain interval is too short on
    that side.

    Parameters
    ----------
    estimate : (n,) array or float
        The means.
    batches : (k, n) or (k,) array
        Means over k batches of equal length, up to a constant; at least two.
    confidence : float
        Nominal coverage.

    Returns
    -------
    low, high : (n,) arrays or numbers

    Examples
    --------
    >>> low, high = skewed_interval(2.0, np.array([1.0, 2.0, 3.0]), 0.95)
    >>> round(float(low), 3), round(float(high), 3)
    (-0.484, 4.484)
    >>> low, high = skewed_interval(1.0, np.array([0.0, 0.0, 0.0, 4.0]), 0.95)
    >>> bool(high - 1.0 > 1.0 - low)
    True
    """
    k = len(batches)
    quantile = float(stats.t.ppf((1.0 + confidence) / 2.0, k - 1))
    deviations = batches - batches.mean(axis=0)
    spread = np.sqrt((deviations**2).sum(axis=0) / (k - 1))
    third = (deviations**3).sum(axis=0) * k / ((k - 1) * max(k - 2, 1))
    skewness = third / np.where(spread > 0.0, spread, 1.0) ** 3
    beta = skewness / (6.0 * np.sqrt(k))
    error = spread / np.sqrt(k)
    return estimate - error * stretched(quantile, beta), estimate - error * stretched(-quantile, beta)


def too_short(effective: float, steps: int, of: str) -> list[str]:
    """Return a warning if a run has too few autocorrelation times or steps."""
    if effective >= ENOUGH_TIMES and steps >= ENOUGH_STEPS:
        return []
    longer = max(ENOUGH_TIMES / max(effective, 1.0), ENOUGH_STEPS / steps)
    return [
        f"too short: {effective:.0f} autocorrelation times of the {of} in {steps} steps, and intervals can "
        f"be trusted from {ENOUGH_TIMES} and {ENOUGH_STEPS} on: run at least {longer:.1f} times as long"
    ]
