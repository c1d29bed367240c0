"""Quantiles of a series, with intervals that hold under dependence.

A quantile is an order statistic. How far its rank may be off follows from the series of zeros and ones
that says whether a number is at most the quantile: the long-run variance of that series (`slow_waves`)
says how many independent numbers the series is worth there. With that many independent numbers the count
below the true quantile has a binomial law, which gives an interval of ranks; the order statistics at its two
ends are the interval of the quantile (Woodruff 1952). The variance is itself estimated, so Student's quantile
replaces the normal one. Three laws say how far each end may reach, and the furthest counts: the binomial
law, which is skewed by the count itself; a symmetric one, because the variance of clusters grows with
their count, which removes that skewness; and Willink's, as for means, which accounts for unequal
clusters. A run that lacks large clusters by chance has a quantile that is too low, and seems to have many
small clusters; their skewness tells how far off the quantile may be. If the furthest reach is
beyond all numbers, there is no interval.

Where numbers repeat, the interval may be one number, [v, v], and that is right: a share of numbers below v
that is surely less than the level, and a share up to v that is surely more, leave no other quantile. A mean
can never be known like this.

There are two ways to count. `OrderedNumbers` has all numbers in memory and sorts them. `BinnedNumbers` reads
them a second time, and counts them between edges from a random sample of the first reading
(`RandomSample`): each interval end is then rounded outwards to an edge.

`WeightedNumbers` have a weight each, such as how long a number lasted. The share up to a quantile is then a
ratio of sums, and the series that gives its error is (1 if at most the quantile, less the share) times the
weight over its mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from gainbias.evaluation.gain.batches import CAPACITY, BatchSums
from gainbias.evaluation.gain.interval import (
    CANCELLED,
    MOST_WORTH,
    SKEWNESS_GROUPS,
    skewness_of_mean,
    steadier,
    stretched,
)
from gainbias.evaluation.gain.spectrum import LEAST_SQUARE, autocorrelation_time, slow_waves
from gainbias.evaluation.gain.verdict import Verdict, VerdictKind, judge
from gainbias.notebook import InNotebooks
from gainbias.types import Floats

FEWEST_EXCEEDANCES = 20
"""A quantile with fewer independent numbers beyond it, on the thinner side, has no interval."""

FEWEST_SURE_EXCEEDANCES = 5
"""The same, for the cautious count from the slowest waves."""

TIED = 0.02
"""A share of equal numbers above this, relative to the thinner side, is examined from both sides."""

FEWEST_BATCHES_OF_A_QUANTILE = 16
"""Fewest batches for a long-run variance."""

UNSTEADY: tuple[VerdictKind, ...] = ("too short", "drifting", "level shift", "chains disagree")
"""Verdicts on the series of zeros and ones after which there is no interval."""

OF_THE_MEAN_ALONE: tuple[VerdictKind, ...] = ("heavy tails", "rare events", "constant")
"""Verdicts on a series that cast no doubt on a quantile with an interval."""

LONGER_FOR_UNEQUAL = 2.0
"""How many times as long to run if clusters are too unequal for an interval."""

ROUNDING_OF_RANKS = 1e-12
"""Share of a rank that may be rounding: 0.95 of 100 numbers are 95."""

SAMPLE = 2**16
"""Most numbers in a random sample."""


@dataclass(frozen=True)
class QuantileEstimate(InNotebooks):
    """A quantile and how far it may be off; `SeriesEstimate.quantiles` has them by level.

    Attributes
    ----------
    level : float
        The share of numbers up to the quantile, between 0 and 1.
    value : float
        The smallest number that at least this share of the numbers does not exceed.
    interval : (float, float) or None
        Confidence interval; None if it was refused. It may be one number if numbers repeat.
    words : str
        Why there is no interval; empty if there is one.
    exceedances : float
        Number of independent numbers that the thinner side of the quantile is worth.
    longer : float or None
        Without an interval: run about this many times as long for one, if that helps.
    typical_half_width : float or None
        Typical half width of intervals of such series, which differs less from one series to the next than
        the width of the interval.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> waits = np.random.default_rng(0).exponential(3.0, 20_000)
    >>> found = gb.evaluate_series(waits, 0.95).quantiles[0.95]
    >>> low, high = found.interval
    >>> low < 8.99 < high, found.exceedances > 500
    (True, True)
    """

    level: float
    value: float
    interval: tuple[float, float] | None
    words: str
    exceedances: float
    longer: float | None = None
    typical_half_width: float | None = None

    def verdict_in(self, verdict: Verdict) -> Verdict:
        """Return the verdict on this quantile: why it has no interval, or else that on its series.

        Examples
        --------
        >>> heavy = Verdict("heavy tails", False, "heavy tails: look at quantiles")
        >>> QuantileEstimate(0.5, 1.0, (0.9, 1.1), "", 800.0).verdict_in(heavy).is_trusted
        True
        >>> QuantileEstimate(0.99, 9.0, None, "too few", 8.0, longer=2.5).verdict_in(heavy).longer
        2.5
        """
        if self.interval is None:
            return Verdict("too short", False, self.words, longer=self.longer)
        return Verdict("steady", True, "") if verdict.kind in OF_THE_MEAN_ALONE else verdict


class Passed(NamedTuple):
    """The share of numbers up to a threshold, and that share in batches of `size` numbers."""

    share: float
    batches: Floats
    size: int


def rank_of(level: float, count: int) -> float:
    """Return the rank of a quantile among `count` numbers, from 1 on.

    Examples
    --------
    >>> rank_of(0.95, 100), rank_of(0.95, 101), rank_of(0.01, 10)
    (95.0, 96.0, 1.0)
    """
    return float(np.clip(np.ceil(level * count * (1.0 - ROUNDING_OF_RANKS)), 1.0, count))


class CountedNumbers(Protocol):
    """Counted numbers, in memory or in bins."""

    count: int
    """Numbers of all chains."""

    def rank(self, level: float) -> float:
        """Return the rank of the quantile at a level, from 1 on."""

    def passed(self, level: float, equal: bool) -> Passed:
        """Return the shares up to the quantile at a level; with or without numbers equal to it."""

    def values(self, ranks: Floats) -> Floats:
        """Return the numbers at some ranks, from 1 on."""

    def around(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval that contains the numbers at two ranks, from 1 on."""


def estimate_quantile(
    numbers: CountedNumbers, level: float, confidence: float = 0.95, skipped: int = 0
) -> QuantileEstimate:
    """Estimate a quantile of a steady series.

    Parameters
    ----------
    numbers : OrderedNumbers or BinnedNumbers
        The series, without its warm-up.
    level : float
        Between 0 and 1.
    confidence : float
        Nominal coverage of the interval.
    skipped : int
        Numbers of each chain that were left out before these; named steps include them.

    Returns
    -------
    QuantileEstimate

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1, 20_000))
    >>> found = estimate_quantile(OrderedNumbers(noise), 0.95)
    >>> low, high = found.interval
    >>> low < 1.645 < high, 200 < found.exceedances < 5_000
    (True, True)
    >>> print(estimate_quantile(OrderedNumbers(noise[:, :500]), 0.99).words[:53])
    too few independent numbers beyond it for an interval
    """
    n, thinner = numbers.count, min(level, 1.0 - level)
    rank = numbers.rank(level)
    value = float(numbers.values(np.array([rank]))[0])
    worth = _worth(numbers, level, skipped)
    if worth is None:
        words = "the numbers are all equal, or too few, so there is no interval"
        return QuantileEstimate(level, value, None, words, 0.0)
    exceedances = worth.counted * thinner
    counts = (exceedances, FEWEST_EXCEEDANCES), (worth.sure * thinner, FEWEST_SURE_EXCEEDANCES)
    short, beyond, needed = max((least / count, count, least) for count, least in counts)
    if short > 1.0:
        words = (
            f"too few independent numbers beyond it for an interval: about {_less(beyond)}"
            f"{' by its slowest part' * (needed == FEWEST_SURE_EXCEEDANCES)}, and {needed} are needed: run "
            f"about {max(1.1, short):.2g} times as long"
        )
        return QuantileEstimate(level, value, None, words, exceedances, short)
    if worth.verdict.kind in UNSTEADY:
        words = f"there, {worth.verdict.words}"
        return QuantileEstimate(level, value, None, words, exceedances, worth.verdict.longer)
    low, high = _shares(level, worth, confidence)
    if not 0.0 < low < high < 1.0:
        words = (
            "the numbers beyond it come in such unequal clusters that it may be beyond all numbers, so there "
            f"is no interval: run about {LONGER_FOR_UNEQUAL:.0f} times as long"
        )
        return QuantileEstimate(level, value, None, words, exceedances, LONGER_FOR_UNEQUAL)
    interval = numbers.around(
        float(np.clip(np.ceil(low * n), 1.0, max(rank - 1.0, 1.0))),
        float(np.clip(np.ceil(high * n), min(rank + 1.0, n), n)),
    )
    typical = (interval[1] - interval[0]) / 2.0
    typical *= steadier(1.0 / worth.sure, 1.0 / worth.counted, worth.degrees)
    return QuantileEstimate(level, value, interval, "", exceedances, typical_half_width=typical)


def _less(count: float) -> str:
    """Return a count that is not enough, rounded down so that it never looks like enough."""
    place = 1 - math.floor(math.log10(max(count, LEAST_SQUARE)))
    return f"{math.floor(count * 10.0**place) / 10.0**place:.4g}"


def _shares(level: float, worth: _Worth, confidence: float) -> tuple[float, float]:
    """Return the smallest and the largest share of the numbers that may be below the true quantile."""
    student = float(stats.t.ppf((1.0 + confidence) / 2.0, worth.degrees))
    tails = float(stats.norm.sf(student)), float(stats.norm.cdf(student))
    low, high = ((float(special.bdtrik(tail, worth.sure, level)) + 0.5) / worth.sure for tail in tails)
    error, bend = float(np.sqrt(level * (1.0 - level) / worth.sure)), np.asarray(worth.skewness / 6.0)
    # The share below may be less than the true one by as much as a mean may be above its estimate.
    less, more = (abs(float(stretched(sign * student, bend))) for sign in (-1.0, 1.0))
    return min(low, level - error * max(less, student)), max(high, level + error * max(more, student))


class _Worth(NamedTuple):
    """How many independent numbers a series is worth at a quantile.

    `counted`, from the autocorrelation time, is steady from run to run, and decides whether there is an
    interval. `sure`, from the slowest waves, misses no slow part, and decides how wide it is. If one number
    did both, there would be an interval most often where it is too narrow by chance. `skewness` is that of
    the share of numbers below the quantile.
    """

    sure: float
    counted: float
    degrees: int
    skewness: float
    verdict: Verdict


def _worth(numbers: CountedNumbers, level: float, skipped: int) -> _Worth | None:
    """Return what a series is worth at a quantile; None if that cannot be said.

    Numbers equal to the quantile may belong to either side. If there are many, the side that is worth less
    counts.
    """
    found = []
    sides = [numbers.passed(level, equal=True), numbers.passed(level, equal=False)]
    if sides[0].share - sides[1].share <= TIED * min(level, 1.0 - level):
        sides.pop()
    for share, batches, size in sides:
        is_seen = 0.0 < share < 1.0 and 0.0 < float(batches.mean()) < 1.0
        if not is_seen or batches.shape[1] < FEWEST_BATCHES_OF_A_QUANTILE:
            continue
        waves, alone = slow_waves(batches), share * (1.0 - share)
        times = (waves.long_run_variance * size, autocorrelation_time(batches) * float(batches.var()) * size)
        sure, counted = (numbers.count * alone / max(time, alone / MOST_WORTH) for time in times)
        slow = waves if times[0] >= CANCELLED * alone else None  # as for means: neighbours cancel each other
        verdict = judge(batches, slow, size, 0, skipped=skipped)[0]
        found.append(_Worth(sure, counted, waves.degrees, _skewness(batches), verdict))
    return min(found, key=lambda worth: worth.sure, default=None)


def _skewness(batches: Floats) -> float:
    """Return the skewness of the mean of batches, (chains, n), from means over groups of neighbours."""
    chains, n = batches.shape
    edges = np.linspace(0, n, min(-(-SKEWNESS_GROUPS // chains), n) + 1).astype(np.int64)
    groups = np.add.reduceat(batches, edges[:-1], axis=1) / np.diff(edges)
    return skewness_of_mean(groups.ravel())


class OrderedNumbers:
    """All numbers of a series in memory, and sorted.

    Parameters
    ----------
    series : (chains, n) array
        In order of time; at least one number.

    Examples
    --------
    >>> numbers = OrderedNumbers(np.array([[3.0, 1.0, 2.0, 5.0]]))
    >>> numbers.values(np.array([1.0, 4.0])).tolist(), numbers.passed(0.5, equal=True).share
    ([1.0, 5.0], 0.5)
    """

    def __init__(self, series: Floats) -> None:
        self._series, self._sorted = series, np.sort(series, axis=None)
        self.count = series.size

    def rank(self, level: float) -> float:
        """Return the rank of the quantile at a level, from 1 on."""
        return rank_of(level, self.count)

    def passed(self, level: float, equal: bool) -> Passed:
        """Return the shares up to the quantile at a level; with or without numbers equal to it."""
        threshold = float(self.values(np.array([rank_of(level, self.count)]))[0])
        share = np.searchsorted(self._sorted, threshold, "right" if equal else "left") / self.count
        chains, n = self._series.shape
        size = _batch_size(n)
        used = self._series[:, : n // size * size]
        is_below = used <= threshold if equal else used < threshold
        batches = is_below.reshape(chains, -1, size).sum(axis=2) / size
        return Passed(float(share), batches, size)

    def values(self, ranks: Floats) -> Floats:
        """Return the numbers at some ranks, from 1 on."""
        return np.asarray(self._sorted[ranks.astype(np.int64) - 1])

    def around(self, low: float, high: float) -> tuple[float, float]:
        """Return the numbers at two ranks, from 1 on."""
        first, last = self.values(np.array([low, high])).tolist()
        return first, last


def _batch_size(n: int) -> int:
    """Return how many neighbours of n numbers make a batch, a power of two."""
    return 1 << max(0, (n - 1).bit_length() - (CAPACITY.bit_length() - 1))


class WeightedNumbers:
    """All numbers of a series in memory, each with a weight; a rank is a share of all weights.

    Parameters
    ----------
    series, weights : (chains, n) arrays
        In order of time. Weights are not negative, and not all 0.

    Examples
    --------
    >>> numbers = WeightedNumbers(np.array([[5.0, 0.0, 9.0]]), np.array([[1.0, 3.0, 4.0]]))
    >>> [float(numbers.values(np.array([numbers.rank(level)]))[0]) for level in (0.3, 0.4, 0.6)]
    [0.0, 5.0, 9.0]
    """

    def __init__(self, series: Floats, weights: Floats) -> None:
        self._series, self._weights = series, weights / weights.mean()
        order = np.argsort(series, axis=None, kind="stable")
        self._sorted, self._upto = series.ravel()[order], np.cumsum(self._weights.ravel()[order])
        self.count = series.size

    def rank(self, level: float) -> float:
        """Return the rank of the quantile at a level: that share of the count, which need not be whole."""
        return level * self.count

    def passed(self, level: float, equal: bool) -> Passed:
        """Return the shares of weights up to the quantile at a level; with or without those equal to it."""
        threshold = float(self.values(np.array([self.rank(level)]))[0])
        chains, n = self._series.shape
        is_below = self._series <= threshold if equal else self._series < threshold
        share = float((is_below * self._weights).mean())
        size = _batch_size(n)
        apart = ((is_below - share) * self._weights)[:, : n // size * size]
        return Passed(share, share + apart.reshape(chains, -1, size).mean(axis=2), size)

    def values(self, ranks: Floats) -> Floats:
        """Return the numbers at these shares of the weights, given in multiples of the mean weight."""
        places = np.searchsorted(self._upto, ranks * (1.0 - ROUNDING_OF_RANKS))
        return np.asarray(self._sorted[np.minimum(places, self.count - 1)])

    def around(self, low: float, high: float) -> tuple[float, float]:
        """Return the numbers at two ranks."""
        first, last = self.values(np.array([low, high])).tolist()
        return first, last


class RandomSample:
    """A random sample of a stream, which remembers the time of its numbers.

    Each number gets a random number, and is kept if that is below a limit. If there are too many, the limit
    is halved. The pieces in which the stream arrives change nothing.

    Parameters
    ----------
    seed : int

    Examples
    --------
    >>> sample = RandomSample()
    >>> sample.add(np.arange(100_000.0), capacity=1_000)
    >>> kept = sample.after(50_000)
    >>> 200 < len(kept) <= 1_000, float(kept[0]), float(kept[1]) >= 50_000.0, float(kept[-1])
    (True, 0.0, True, 99999.0)
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._limit, self._seen = 1.0, 0
        self._lots, self._numbers = np.empty(0), np.empty(0)
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._ends = (np.inf, -np.inf)

    def add(self, numbers: Floats, capacity: int = SAMPLE) -> None:
        """Add the next numbers, (count,), and keep at most `capacity` in all."""
        if not len(numbers):
            return
        self._ends = min(self._ends[0], float(numbers.min())), max(self._ends[1], float(numbers.max()))
        lots = self._random.random(len(numbers))
        [chosen] = np.nonzero(lots < self._limit)
        self._lots = np.append(self._lots, lots[chosen])
        self._numbers = np.append(self._numbers, numbers[chosen])
        self._places = np.append(self._places, self._seen + chosen)
        self._seen += len(numbers)
        while len(self._lots) > capacity:
            self._limit /= 2.0
            kept = self._lots < self._limit
            self._lots, self._numbers = self._lots[kept], self._numbers[kept]
            self._places = self._places[kept]

    def after(self, cut: int) -> Floats:
        """Return the sorted sample of numbers after the first `cut`, between the extremes of all of these."""
        return np.sort(np.append(self._numbers[self._places >= cut], self._ends))


class BinnedNumbers:
    """Counts of a stream of numbers between edges, and the quantiles that follow.

    A number equal to an edge is counted separately from those between two edges, so quantiles of numbers
    that repeat are exact. Others are known up to the numbers between two edges.

    Parameters
    ----------
    edges : (m,) array
        Sorted; none of the numbers is outside of them. Quantiles of the edges are the thresholds for
        which passing is counted over time.
    levels : sequence of float
        Levels for which `passed` can be called.

    Examples
    --------
    >>> numbers = BinnedNumbers(np.array([0.0, 10.0, 20.0, 30.0]), levels=[0.5])
    >>> numbers.add(np.array([0.0, 4.0, 10.0, 10.0, 15.0, 16.0, 30.0, 12.0]))
    >>> numbers.around(2, 6), numbers.around(3, 4), float(numbers.values(np.array([6.0]))[0])
    ((0.0, 20.0), (10.0, 10.0), 15.0)
    """

    def __init__(self, edges: Floats, levels: Sequence[float]) -> None:
        self.count = 0
        self._levels = list(levels)
        inner = edges[1:-1] if len(edges) > 2 else edges
        places = np.ceil(np.array(self._levels) * len(inner)).astype(np.int64) - 1
        self._thresholds = inner[np.clip(places, 0, len(inner) - 1)]
        self._edges = np.unique(edges)
        self._counts = np.zeros(2 * len(self._edges), dtype=np.int64)
        self._sums = BatchSums((2, len(self._levels)))

    def rank(self, level: float) -> float:
        """Return the rank of the quantile at a level, from 1 on."""
        return rank_of(level, self.count)

    def add(self, numbers: Floats) -> None:
        """Add the next numbers, (count,)."""
        self.count += len(numbers)
        above = np.searchsorted(self._edges, numbers)
        bins = 2 * above + (self._edges[above] == numbers)
        self._counts += np.bincount(bins, minlength=len(self._counts))
        limits = self._thresholds[:, None]
        self._sums.add(np.stack([numbers <= limits, numbers < limits]).astype(np.float64))

    @property
    def largest_bin(self) -> float:
        """The largest share of the numbers between two neighbouring edges."""
        return float(self._counts[::2].max() / self.count)

    def passed(self, level: float, equal: bool) -> Passed:
        """Return the shares up to a threshold near the quantile; with or without numbers equal to it."""
        place, side = self._levels.index(level), 0 if equal else 1
        sums = self._sums.complete[side, place]
        share = float((sums.sum() + self._sums.rest[side, place]) / self.count)
        return Passed(share, sums[None] / self._sums.size, self._sums.size)

    def values(self, ranks: Floats) -> Floats:
        """Return the numbers at some ranks, from 1 on: between two edges by interpolation."""
        bins, before = self._bins(ranks)
        above = bins // 2
        share = np.where(bins % 2, 1.0, (ranks - before - 0.5) / np.maximum(self._counts[bins], 1))
        low, high = self._edges[np.maximum(above - 1, 0)], self._edges[above]
        return np.asarray(low + share * (high - low))

    def around(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval that contains the numbers at two ranks, from 1 on: its ends are edges."""
        first, last = self._bins(np.array([low, high]))[0]
        return float(self._edges[max((first - 1) // 2, 0)]), float(self._edges[last // 2])

    def _bins(self, ranks: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the bins of some ranks, from 1 on, and how many numbers are in bins before them."""
        upto = np.cumsum(self._counts)
        bins = np.searchsorted(upto, ranks)
        return bins, upto[bins] - self._counts[bins]
