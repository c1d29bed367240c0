"""Slopes of straight lines, with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from gainbias.experiments.statistics import Interval
from gainbias.features.rows import Floats

CONFIDENCE = 0.95


def log_slope(x: ArrayLike, y: ArrayLike) -> Interval:
    """Return the slope of log y on log x by least squares, with its 95 % interval.

    For exact curves the interval does not speak about chance, but about how far they are from a straight
    line.

    Examples
    --------
    >>> slope = log_slope([1, 10, 100], [3, 300, 30000])
    >>> round(slope.estimate, 6), round(slope.high - slope.low, 6)
    (2.0, 0.0)
    """
    across, up = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    if len(across) < 3:
        raise ValueError(f"the interval of a slope needs at least 3 points, found {len(across)}")
    weights = _weights(across)
    slope = float(up @ weights)
    missed = up - up.mean() - slope * (across - across.mean())
    error = np.sqrt((missed**2).sum() / (len(across) - 2) * (weights**2).sum())
    reach = float(student.ppf(0.5 + CONFIDENCE / 2, len(across) - 2) * error)
    return Interval(slope, slope - reach, slope + reach)


def mean_slope(x: ArrayLike, samples: Floats) -> Interval:
    """Return the slope of log mean(samples) on log x, samples (runs, points), with an interval over runs.

    The interval is found by leaving out one run at a time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.array([10.0, 100.0, 1000.0])
    >>> slope = mean_slope(x, rng.chisquare(1, (500, 3)) / x)
    >>> slope.low < -1 < slope.high
    True
    """
    runs = len(samples)
    weights = _weights(np.log(np.asarray(x, dtype=float)))
    total = samples.sum(axis=0)
    slope = float(np.log(total) @ weights)
    without_one = np.log((total - samples) / (runs - 1)) @ weights
    error = np.sqrt((runs - 1) / runs * ((without_one - without_one.mean()) ** 2).sum())
    reach = float(student.ppf(0.5 + CONFIDENCE / 2, runs - 1) * error)
    return Interval(slope, slope - reach, slope + reach)


def _weights(across: Floats) -> Floats:
    centred = across - across.mean()
    return np.asarray(centred / (centred**2).sum())
