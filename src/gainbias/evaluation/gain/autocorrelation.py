"""How long a series remembers: integrated autocorrelation time, agreement of chains, initial transient.

All work on batch means, shape (chains, batches), in a time of order n log n.
"""

from __future__ import annotations

import numpy as np
from scipy import fft, stats

from gainbias.features.matrix import FloatArray

SIGNIFICANT = 4.0
"""An initial piece is cut if its mean is so many standard errors away from the rest."""

LARGEST_CUT = 0.5
"""No more than this share of a run counts as its transient."""

FEW = 0.1
"""What only so large a share of the entries of a piece does is done by a few of them."""

RARE = 0.001
"""Such a share of the rest does not count when it is asked how much the rest varies."""

FEWEST_ODD = 3
"""So many entries are always few."""

ROUNDING = 1e-12
"""A standard deviation this small, relative to the largest entry, is none."""


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


def transient_length(series: FloatArray, rounding: float = 0.0) -> int:
    """Return how many initial entries of all series differ from what follows, as a whole.

    The rule MSER (White 1997) proposes the cut after which the mean has the smallest squared standard
    error, as if entries were independent. It is applied to ranks, in which a few extreme entries weigh no
    more than others. The cut is made only if the mean before it is further from the mean after it than
    `SIGNIFICANT` standard errors, now with autocorrelations, and than twice the distance of any other piece
    of the same length. In all these means the most extreme entries, a share of `FEW` on each side and at
    least `FEWEST_ODD`, are replaced by the next ones. So rare events are never taken for a transient, however
    large they are, and a stationary series is left as it is. Nor is a series cut down to a constant, from
    which it cannot be told what is usual.

    Parameters
    ----------
    series : (chains, n) array
    rounding : float
        A standard deviation up to this is none.

    Returns
    -------
    int
        At most n times `LARGEST_CUT`.

    Examples
    --------
    >>> noise = np.tile([1.0, -1.0], 50)
    >>> warm_up = 10.0 * 0.8 ** np.arange(15)
    >>> transient_length(noise[None]), transient_length(np.append(warm_up, noise)[None])
    (0, 11)
    >>> transient_length(np.append([1.0, -1.0, 1e6], noise)[None])
    0
    """
    if series.shape[1] < 4:
        return 0
    cut = _proposed_cut(series)
    if cut * len(series) <= 2 * FEWEST_ODD:
        return 0
    rest = _with_few_replaced(series[:, cut:].ravel(), RARE).reshape(len(series), -1)
    if not rest.std() > max(rounding, ROUNDING * np.abs(rest).max()):
        return 0
    n = series.shape[1]
    pieces = rest[:, : (n - cut) // cut * cut].reshape(len(series), -1, cut).swapaxes(0, 1)
    alike = np.concatenate([series[None, :, :cut], pieces]).reshape(-1, len(series) * cut)
    means = _with_few_replaced(alike, FEW).mean(axis=1)
    first, *others = np.abs(means - _with_few_replaced(rest.ravel(), FEW).mean())
    variance = rest.var() * autocorrelation_time(rest) / len(series)
    is_significant = first**2 > SIGNIFICANT**2 * variance * (1 / cut + 1 / (n - cut))
    return cut if is_significant and first > 2.0 * max(others) else 0


def _proposed_cut(series: FloatArray) -> int:
    """Return the cut that MSER proposes, first for ranks, then with extremes clipped to the rest's range."""
    ranks = stats.rankdata(series.ravel()).reshape(series.shape)
    cut = _mser(ranks.mean(axis=0))
    rest = _with_few_replaced(series[:, cut:].ravel(), RARE)
    return max(cut, _mser(np.clip(series, rest.min(), rest.max()).mean(axis=0))) if cut else 0


def _mser(average: FloatArray) -> int:
    """Return after how many entries the mean of the others has the smallest squared standard error."""
    n = len(average)
    reverse = (average - average.mean())[::-1]
    counts = np.arange(1, n + 1)
    # Entry k - 1 is for the last k entries.
    spread = np.cumsum(reverse**2) - np.cumsum(reverse) ** 2 / counts
    errors = (spread / counts**2)[::-1]
    return int(np.argmin(errors[: int(n * LARGEST_CUT) + 1]))


def _with_few_replaced(entries: FloatArray, share: float) -> FloatArray:
    """Return rows in which a share of entries on each side, at least `FEWEST_ODD`, is no more extreme."""
    size = entries.shape[-1]
    few = min(max(FEWEST_ODD, int(share * size)), (size - 1) // 2)
    ordered = np.partition(entries, (few, size - 1 - few), axis=-1)
    low, high = ordered[..., few, None], ordered[..., size - 1 - few, None]
    return np.asarray(np.clip(entries, low, high))
