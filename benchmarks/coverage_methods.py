"""Intervals that people use for the mean and the quantiles of a column of numbers, and ours.

Neither ArviZ nor statsmodels nor pymbar is needed: what they compute is written down from their publications,
in the few lines of each function. Compared on ten series, standard errors of means are those of arviz 0.23.4
(up to 1e-3), statsmodels 0.15.0 and pymbar 4.0.3; those of quantiles, where ArviZ interpolates, are within a
fifth of its own. A method takes one series, an ``(n,)`` array or ``(chains, n)`` where there are several
chains, and returns an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import beta, binom, norm, rankdata, t

import gainbias as gb

Floats = NDArray[np.float64]
Interval = tuple[float, float]

LEVELS = (0.5, 0.95, 0.99)
BATCHES = 30
STARTS = 10
"""Starts among which equilibration is looked for."""


class Outcome(NamedTuple):
    """What a method says about one series.

    Attributes
    ----------
    interval : pair of floats, or None if it was refused
        For the mean, nominally 95%.
    flagged : bool
        Whether the user is told not to trust it.
    quantiles : dict
        From a level to an interval, or to None if it was refused; empty if the method has none.
    verdict : str or None
        The method's verdict, in its own word.
    """

    interval: Interval | None
    flagged: bool
    quantiles: dict[float, Interval | None]
    verdict: str | None = None


Method = Callable[[Floats], Outcome]


def around(centre: float, half_width: float) -> Interval:
    return float(centre - half_width), float(centre + half_width)


def independent(x: Floats) -> Outcome:
    """Student's interval and order statistics, as if the numbers were independent."""
    x = x.ravel()
    half_width = t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return Outcome(around(x.mean(), half_width), False, order_statistics(x))


def order_statistics(x: Floats) -> dict[float, Interval | None]:
    """Intervals of quantiles from binomial ranks; none where the ranks leave the sample."""
    ordered, found = np.sort(x), dict[float, Interval | None]()
    for level in LEVELS:
        low, high = int(binom.ppf(0.025, len(x), level)), int(binom.ppf(0.975, len(x), level)) + 1
        inside = low >= 1 and high <= len(x)
        found[level] = (float(ordered[low - 1]), float(ordered[high - 1])) if inside else None
    return found


def batch_means(x: Floats) -> Outcome:
    """Student's interval from the means, and from the quantiles, of 30 batches."""
    x = x.ravel()
    batches = x[: len(x) // BATCHES * BATCHES].reshape(BATCHES, -1)

    def interval(by_batch: Floats) -> Interval:
        return around(by_batch.mean(), t.ppf(0.975, BATCHES - 1) * by_batch.std(ddof=1) / np.sqrt(BATCHES))

    quantiles = np.quantile(batches, LEVELS, axis=1)
    return Outcome(
        interval(batches.mean(axis=1)),
        False,
        {level: interval(row) for level, row in zip(LEVELS, quantiles, strict=True)},
    )


def autocovariances(x: Floats) -> Floats:
    """Sums of products of deviations at all lags, divided by the length; along the last axis."""
    length = x.shape[-1]
    size = next_fast_len(2 * length, real=True)
    transformed = rfft(x - x.mean(axis=-1, keepdims=True), size)
    return irfft(np.abs(transformed) ** 2, size)[..., :length] / length


def newey_west(x: Floats) -> Outcome:
    """HAC standard error as in statsmodels: Bartlett weights and ``4 (n / 100)^(2/9)`` lags, its rule."""
    x = x.ravel()
    lags = int(4 * (len(x) / 100) ** (2 / 9))
    deviations = x - x.mean()
    variance = deviations @ deviations
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * (deviations[lag:] @ deviations[:-lag])
    return Outcome(around(x.mean(), 1.96 * np.sqrt(max(variance, 0.0)) / len(x)), False, {})


def arviz_mcse(x: Floats) -> Outcome:
    """Monte Carlo standard errors as in ArviZ: Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021).

    Flagged by the authors' advice: rank-normalised split R-hat above 1.01, or an effective sample size below
    400 (here that of the mean).
    """
    halves = split(np.atleast_2d(x))
    size = effective_size(halves)
    mean, error = halves.mean(), halves.std(ddof=1) / np.sqrt(size)
    ordered, quantiles = np.sort(halves, axis=None), dict[float, Interval | None]()
    for level in LEVELS:
        value = np.quantile(ordered, level)
        effective = effective_size((halves <= value).astype(float))
        chances = beta.ppf(norm.cdf([-1.0, 1.0]), effective * level + 1, effective * (1 - level) + 1)
        low = ordered[max(int(np.floor(chances[0] * len(ordered))), 0)]
        high = ordered[min(int(np.ceil(chances[1] * len(ordered))), len(ordered) - 1)]
        quantiles[level] = around(value, 1.96 * (high - low) / 2)
    flagged = bool(size < 400 or max(r_hat(ranked(halves)), r_hat(ranked(folded(halves)))) > 1.01)
    return Outcome(around(mean, 1.96 * error), flagged, quantiles)


def split(chains: Floats) -> Floats:
    """First and second halves of chains as separate chains."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def effective_size(chains: Floats) -> float:
    """Effective sample size from Geyer's initial monotone sequence, over all chains together."""
    count, length = chains.shape
    covariances = autocovariances(chains).mean(axis=0)
    within = covariances[0] * length / (length - 1)
    total = covariances[0] + chains.mean(axis=1).var(ddof=1)
    if total <= 0:
        return float(count * length)
    correlations = 1 - (within - covariances) / total
    correlations[0] = 1.0
    even = correlations[: length // 2 * 2 : 2]
    pairs = even + correlations[1::2][: len(even)]
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    time = -1 + 2 * np.minimum.accumulate(pairs[:stop]).sum() if stop else -1.0
    if stop < len(even):
        time += max(float(even[stop]), 0.0)
    return count * length / max(float(time), 1 / np.log10(count * length))


def ranked(chains: Floats) -> Floats:
    """Normal scores of ranks over all chains."""
    return norm.ppf((rankdata(chains).reshape(chains.shape) - 0.375) / (chains.size + 0.25))


def folded(chains: Floats) -> Floats:
    return np.abs(chains - np.median(chains))


def r_hat(chains: Floats) -> float:
    length = chains.shape[1]
    within, between = chains.var(axis=1, ddof=1).mean(), chains.mean(axis=1).var(ddof=1)
    return float(np.sqrt((length - 1) / length + between / within)) if within > 0 else 1.0


def equilibration(x: Floats) -> Outcome:
    """Cut the start that leaves the largest effective sample, as pymbar does: Chodera (2016).

    Ten evenly spaced starts are tried. Quantiles come from order statistics of every g-th number, where g is
    the statistical inefficiency.
    """
    x = x.ravel()
    starts = [len(x) * k // STARTS for k in range(STARTS)]
    factors = [statistical_inefficiency(x[start:]) for start in starts]
    best = int(np.argmax([(len(x) - start + 1) / g for start, g in zip(starts, factors, strict=True)]))
    kept, g = x[starts[best] :], factors[best]
    thinned = kept[np.arange(0, len(kept), g).astype(int)]
    return Outcome(
        around(kept.mean(), 1.96 * kept.std() * np.sqrt(g / len(kept))), False, order_statistics(thinned)
    )


def statistical_inefficiency(x: Floats, least: int = 3) -> float:
    """One and twice the sum of correlations up to the first that is negative after ``least`` lags."""
    covariances = autocovariances(x)
    if covariances[0] <= 0:
        return 1.0
    negative = np.flatnonzero(covariances[least + 1 :] <= 0)
    stop = least + 1 + int(negative[0]) if len(negative) else len(x)
    return max(1.0, float(1 + 2 * covariances[1:stop].sum() / covariances[0]))


def gainbias(x: Floats) -> Outcome:
    """Our intervals: flagged by the verdict."""
    return _outcome(gb.evaluate_series(x, quantiles=LEVELS))


def gainbias_ratio(x: Floats, y: Floats) -> Outcome:
    """Our interval for a ratio of sums."""
    return _outcome(gb.evaluate_series(x, quantiles=(), ratio_to=y))


def _outcome(found: gb.SeriesEstimate) -> Outcome:
    return Outcome(
        found.interval,
        not found.verdict.is_trusted,
        {level: one.interval for level, one in found.quantiles.items()},
        found.verdict.kind,
    )


METHODS: dict[str, Method] = {
    "independent": independent,
    "batch-means-30": batch_means,
    "arviz-mcse": arviz_mcse,
    "hac": newey_west,
    "pymbar": equilibration,
    "gainbias": gainbias,
}


def ratio(name: str, x: Floats, y: Floats) -> Outcome:
    """Judge the ratio of two means: by its own interval, or by its interval for the linearised ratio."""
    if name == "gainbias":
        return gainbias_ratio(x, y)
    centre, scale = x.mean() / y.mean(), y.mean()
    found = METHODS[name]((x - centre * y) / scale + centre)
    return found._replace(quantiles={})
