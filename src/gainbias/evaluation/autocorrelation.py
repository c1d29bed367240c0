"""How long a series remembers: integrated autocorrelation time, agreement of chains, initial transient.

All work on batch means, shape (chains, batches), in a time of order n log n.
"""

from __future__ import annotations

import numpy as np
from scipy import fft

from gainbias.features.matrix import FloatArray

SIGNIFICANT = 4.0
"""An initial piece is cut if its mean is so many standard errors away from the rest."""

LARGEST_CUT = 0.5
"""No more than this share of a run counts as its transient."""


def autocorrelation_time(series: FloatArray) -> float:
    """Return Geyer's initial monotone estimate of 1 + 2 (sum of all autocorrelations).

    Sums of two neighbouring autocorrelations are added up until one is negative. Deviations are taken from
    the mean of all chains: chains that do not agree count as correlated for ever.

    Parameters
    ----------
    series : (chains, n) array
        Stationary series, all of the same kind.

    Returns
    -------
    float
        In units of the series' own steps; 1 for a constant series.

    Notes
    -----
    Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7 (1992), section 3.3. The sums are
    positive for reversible chains; for other chains this is a rule that works well.

    Examples
    --------
    >>> autocorrelation_time(np.array([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]]))
    2.5
    """
    n = series.shape[1]
    deviations = series - series.mean()
    length = fft.next_fast_len(2 * n, real=True)
    spectrum = np.abs(fft.rfft(deviations, length)) ** 2
    covariances = fft.irfft(spectrum, length)[:, :n].mean(axis=0)
    if not covariances[0] > 0.0 or n < 2:
        return 1.0
    pairs = covariances[: n // 2 * 2].reshape(-1, 2).sum(axis=1) / covariances[0]
    negative = np.flatnonzero(pairs <= 0.0)
    positive = pairs[: negative[0]] if len(negative) else pairs
    # A series that alternates has no positive pair; a tenth of a step keeps what is divided by it finite.
    return float(max(2.0 * np.minimum.accumulate(positive).sum() - 1.0, 0.1)) if len(positive) else 0.1


def split_r_hat(means: FloatArray, mean_squares: FloatArray, size: int) -> float:
    """Return how far the halves of all chains disagree: 1 if not at all (Gelman et al. 2013, section 11.4).

    Parameters
    ----------
    means, mean_squares : (chains, batches) arrays
        Means of the series and of its squares over batches.
    size : int
        Steps in a batch.

    Examples
    --------
    >>> ramp = np.arange(100.0)[None]
    >>> round(split_r_hat(ramp, ramp**2, 1), 2)
    2.62
    """
    half = means.shape[1] // 2
    if half * size < 2:
        return float("nan")
    first, second = (
        [part[:, :half].mean(axis=1), part[:, -half:].mean(axis=1)] for part in (means, mean_squares)
    )
    centres, squares = np.concatenate(first), np.concatenate(second)
    length = half * size
    within = float(np.mean((squares - centres**2) * length / (length - 1)))
    between = float(centres.var(ddof=1))
    if within <= 0.0:
        return 1.0 if between <= 0.0 else float("inf")
    return float(np.sqrt((length - 1) / length + between / within))


def transient_length(series: FloatArray) -> int:
    """Return how many initial entries of all series differ from what follows.

    The rule MSER (White 1997) proposes the cut after which the mean has the smallest squared standard
    error, as if entries were independent. It is made only if the mean before it is further from the mean
    after it than `SIGNIFICANT` standard errors, now with autocorrelations, and than twice the distance of any
    other piece of the same length. So a stationary series is left as it is, even if its rewards are rare,
    where MSER alone would often cut it.

    Parameters
    ----------
    series : (chains, n) array

    Returns
    -------
    int
        At most n times `LARGEST_CUT`.

    Examples
    --------
    >>> noise = np.tile([1.0, -1.0], 50)
    >>> transient_length(noise[None]), transient_length(np.append([9.0, 8.0, 5.0], noise)[None])
    (0, 3)
    """
    n = series.shape[1]
    if n < 4:
        return 0
    average = series.mean(axis=0)
    reverse = (average - average.mean())[::-1]
    counts = np.arange(1, n + 1)
    # Entry k - 1 is for the last k entries.
    spread = np.cumsum(reverse**2) - np.cumsum(reverse) ** 2 / counts
    errors = (spread / counts**2)[::-1]
    cut = int(np.argmin(errors[: int(n * LARGEST_CUT) + 1]))
    if cut == 0:
        return 0
    rest = series[:, cut:]
    variance = rest.var() * autocorrelation_time(rest) / len(series)
    sums = np.cumsum(np.insert(average - average[cut:].mean(), 0, 0.0))
    distances = np.abs(sums[cut:] - sums[:-cut]) / cut  # of all pieces of this length
    stands_out = distances[0] > 2.0 * distances[cut:].max()
    is_significant = distances[0] ** 2 > SIGNIFICANT**2 * variance * (1 / cut + 1 / (n - cut))
    return cut if stands_out and is_significant else 0
