"""Batch means of a stream of rewards in bounded memory, and what they tell about its memory and its start.

`BatchSums` and `BatchMeans` keep the stream. It fills batches of one step each; when there is no room for
another one, neighbours are added up and batches become twice as long. So there are always between
`capacity / 2` and `capacity` batches, and how the stream was cut into pieces changes no bit.

`autocorrelation_time`, `split_r_hat`, `transient_length` and `dominant_start` then work on batch means, shape
(chains, batches), in a time of order n log n: how long rewards depend on each other, whether chains agree,
and whether the beginning differs from the rest.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, stats

from gainbias.types import Floats

CAPACITY = 8192
"""Fewer batches than this are kept of a chain: 128 kB with the sums of squares."""

BATCH_PIECE = 2**20
"""Numbers that are worked on at once, however many the caller brings."""

NEGLIGIBLE_DEVIATION = 1e-13
"""A standard deviation this small, relative to the largest reward, is that of rounding."""

LOST_SQUARES = 1e-13
"""A mean square this small, relative to the one that it is the difference from, is rounding."""


class BatchSums:
    """Sums of several series over batches of equal length.

    Parameters
    ----------
    shape : tuple of int
        Shape of what arrives at a step.
    capacity : int
        Even; there are always fewer complete batches.
    first_size : int
        Steps in a batch at first.

    Attributes
    ----------
    size : int
        Steps in a batch: the first size times a power of two.
    steps : int
        Steps so far.
    rest : array of this shape
        Sum over the steps after the last complete batch.

    Examples
    --------
    >>> series = BatchSums((1,), capacity=4)
    >>> series.add(np.arange(7.0)[None])
    >>> series.size, series.complete.tolist(), series.rest.tolist()
    (2, [[1.0, 5.0, 9.0]], [6.0])
    """

    def __init__(self, shape: tuple[int, ...], capacity: int = CAPACITY, first_size: int = 1) -> None:
        self._sums = np.zeros((*shape, capacity))
        self._full = 0
        self.size, self.steps, self.rest = first_size, 0, np.zeros(shape)

    @property
    def complete(self) -> Floats:
        """Sums of the complete batches, shape (*shape, batches)."""
        return self._sums[..., : self._full]

    @property
    def rest_steps(self) -> int:
        """Steps after the last complete batch."""
        return self.steps - self._full * self.size

    def add(self, values: Floats) -> None:
        """Add the next steps, shape (*shape, count)."""
        while values.shape[-1] > 0:
            begun = self.rest_steps
            room = (self._sums.shape[-1] - self._full) * self.size - begun
            self._fill(values[..., :room], begun)
            values = values[..., room:]
            self._fit()

    def add_sum(self, total: Floats, steps: int) -> None:
        """Add the sum over the next steps, of this shape; their number must divide the size."""
        self.rest = self.rest + total
        self.steps += steps
        if self.rest_steps == self.size:
            self._close()
            self._fit()

    def beside(self, other: BatchSums) -> BatchSums:
        """Return both side by side along the last axis of their shapes; they must have made equal steps."""
        joined = BatchSums((*self.rest.shape[:-1], self.rest.shape[-1] + other.rest.shape[-1]))
        joined._sums = np.concatenate([self._sums, other._sums], axis=-2)
        joined.rest = np.concatenate([self.rest, other.rest], axis=-1)
        joined._full, joined.size, joined.steps = self._full, self.size, self.steps
        return joined

    def first(self, batches: int) -> BatchSums:
        """Return the sums as they were after the first `batches` complete batches."""
        part = BatchSums(self.rest.shape, capacity=0)
        part._sums, part._full = self._sums, batches
        part.size, part.steps = self.size, batches * self.size
        return part

    def _close(self) -> None:
        self._sums[..., self._full] = self.rest
        self._full, self.rest = self._full + 1, np.zeros_like(self.rest)

    def _fit(self) -> None:
        """Add up neighbours if there is no room for another batch."""
        if self._full == self._sums.shape[-1]:
            self._full, self.size = self._full // 2, 2 * self.size
            self._sums[..., : self._full] = self._sums[..., ::2] + self._sums[..., 1::2]

    def _fill(self, values: Floats, begun: int) -> None:
        """Add steps for which there is room. Cumulative sums go step by step, wherever the pieces end."""
        self.steps += values.shape[-1]
        if begun:
            head = values[..., : self.size - begun]
            self.rest = _last_sum(np.concatenate([self.rest[..., None], head], axis=-1))
            if begun + head.shape[-1] < self.size:
                return
            self._close()
            values = values[..., head.shape[-1] :]
        batches, left = divmod(values.shape[-1], self.size)
        whole = values[..., : batches * self.size].reshape(*values.shape[:-1], batches, self.size)
        self._sums[..., self._full : self._full + batches] = _last_sum(whole)
        self._full += batches
        if left:
            self.rest = _last_sum(values[..., -left:])


def _last_sum(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values, axis=-1)[..., -1])


class BatchMeans:
    """Rewards of independent chains of equal length, as batch sums of the rewards and of their squares.

    Both are kept relative to the first reward of each chain, so that a large constant costs no digits.

    Parameters
    ----------
    num_chains : int
        Number of chains.

    Attributes
    ----------
    largest : float
        Largest absolute reward so far, which says how far differences may be rounding.

    Examples
    --------
    >>> rewards = BatchMeans()
    >>> rewards.add([1.0, 2.0])
    >>> rewards.add([3.0])
    >>> rewards.steps, rewards.mean
    (3, 2.0)
    """

    def __init__(self, num_chains: int = 1) -> None:
        if num_chains < 1:
            raise ValueError(f"num_chains must be at least 1, found {num_chains}")
        self.origin = np.zeros(num_chains)
        self.sums = BatchSums((2, num_chains))
        self.largest = 0.0

    @classmethod
    def of(cls, rewards: ArrayLike) -> Self:
        """Return the batches of rewards in memory, shape (chains, steps) or (steps,)."""
        array = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
        batches = cls(len(array))
        batches.add(array)
        return batches

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.origin)

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.sums.steps

    @property
    def mean(self) -> float:
        """Mean of all rewards."""
        return self.mean_after(0)

    @property
    def rounding(self) -> float:
        """A standard deviation up to this is that of rounding."""
        return NEGLIGIBLE_DEVIATION * self.largest

    def mean_after(self, cut: int) -> float:
        """Mean of all rewards after the first `cut` batches."""
        totals = self.sums.complete[0, :, cut:].sum(axis=-1) + self.sums.rest[0]
        return float(np.mean(self.origin + totals / (self.steps - cut * self.sums.size)))

    def add(self, rewards: ArrayLike) -> None:
        """Add the next rewards, shape (chains, count), or (count,) for one chain."""
        array = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
        if array.ndim != 2 or len(array) != self.num_chains:
            raise ValueError(f"rewards must have shape ({self.num_chains}, count), found {array.shape}")
        self._check_finite(array)
        if self.steps == 0 and array.shape[1] > 0:
            self.origin = array[:, 0].copy()
        self.largest = max(self.largest, float(np.max(np.abs(array), initial=0.0)))
        width = max(1, BATCH_PIECE // self.num_chains)
        for begin in range(0, array.shape[1], width):
            shifted = array[:, begin : begin + width] - self.origin[:, None]
            self.sums.add(np.stack([shifted, shifted**2]))

    def about(self, centre: float, cut: int = 0) -> tuple[Floats, Floats]:
        """Return means of the rewards less `centre`, and of the squares of that, each (chains, batches).

        The first `cut` batches are left out. Where squares have lost their digits, because the first reward
        was very far away, they are those of the batch means, which keep theirs.
        """
        mean, square = self.sums.complete[:, :, cut:] / self.sums.size
        shift = (self.origin - centre)[:, None]
        means, squares = mean + shift, square + shift * (2.0 * mean + shift)
        return means, np.where(squares > LOST_SQUARES * square, squares, means**2)

    def groups_after(self, cut: int, count: int, centre: float) -> Floats:
        """Return means less `centre` over `count` groups of neighbouring batches, (chains, groups).

        No reward after the first `cut` batches is left out: groups may differ by a batch in length, and the
        last one has what comes after the last complete batch.

        Examples
        --------
        >>> BatchMeans.of([1.0, 2.0, 3.0, 4.0, 8.0]).groups_after(0, 2, centre=3.0)
        array([[-1.5,  2. ]])
        """
        sums = self.sums.complete[0, :, cut:]
        edges = np.linspace(0, sums.shape[1], min(count, sums.shape[1]) + 1).astype(np.int64)
        totals, lengths = np.add.reduceat(sums, edges[:-1], axis=1), np.diff(edges) * self.sums.size
        totals[:, -1] += self.sums.rest[0]
        lengths[-1] += self.sums.rest_steps
        return np.asarray(totals / lengths + (self.origin - centre)[:, None])

    def variance_after(self, cut: int) -> float:
        """Variance of all rewards after the first `cut` batches; 0 if they differ by rounding alone.

        Where squares have lost their digits it is that of the batch means, which is never larger.
        """
        steps, centre = self.steps - cut * self.sums.size, self.mean_after(cut)
        mean, square = (self.sums.complete[:, :, cut:].sum(axis=-1) + self.sums.rest) / steps
        shift = self.origin - centre
        variance = float(np.mean(square + shift * (2.0 * mean + shift)))
        if not variance > LOST_SQUARES * float(square.max()):
            variance = float(np.mean(self.about(centre, cut)[0] ** 2))
        return variance if variance > self.rounding**2 else 0.0

    def first(self, batches: int) -> BatchMeans:
        """Return the rewards as they were after the first `batches` batches; nothing can be added to them."""
        part = BatchMeans(self.num_chains)
        part.origin, part.sums, part.largest = self.origin, self.sums.first(batches), self.largest
        return part

    def merge(self, other: BatchMeans) -> BatchMeans:
        """Return the batches of the chains of both, which must have the same length."""
        if self.steps != other.steps:
            raise ValueError(f"chains must have equal lengths, found {self.steps} and {other.steps} steps")
        merged = BatchMeans(self.num_chains + other.num_chains)
        merged.origin = np.concatenate([self.origin, other.origin])
        merged.sums = self.sums.beside(other.sums)
        merged.largest = max(self.largest, other.largest)
        return merged

    def _check_finite(self, rewards: Floats) -> None:
        if not np.isfinite(rewards).all():
            chain, step = np.argwhere(~np.isfinite(rewards))[0]
            raise ValueError(
                f"rewards must be finite, found {rewards[chain, step]} in chain {chain} at step "
                f"{self.steps + step}"
            )


SIGNIFICANT = 4.0
"""An initial piece is cut if its mean is more standard errors than this away from the rest."""

LARGEST_CUT = 0.5
"""No more than this share of a run counts as its transient."""

FEW_ENTRIES = 0.1
"""A share of the entries of a piece up to this is a few of them."""

RARE_SHARE = 0.001
"""A share of the rest that does not count when it is asked how much the rest varies."""

FEWEST_ODD = 3
"""This many entries are always few."""

FEWEST_TOGETHER = 2
"""Chains that must agree before something in a few steps counts as more than chance."""

EARLY_SHARE = 0.01
"""The share of a run in which coincidences are looked for at a time."""

UNLIKELY = 1e-5
"""A coincidence of chains less probable than this is no chance."""

NEGLIGIBLE_SPREAD = 1e-12
"""A standard deviation this small, relative to the largest entry, is none."""


def autocorrelation_time(series: Floats) -> float:
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


def split_r_hat(means: Floats, mean_squares: Floats, size: int) -> float:
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


def transient_length(series: Floats, rounding: float = 0.0) -> int:
    """Return how many initial entries of all series differ from what follows.

    There are two kinds of evidence. *Coincidence*: several chains have their most extreme entry at the very
    beginning, which by chance hardly happens (`coincidence_length`). One step is enough for that. *Length*:
    the beginning as a whole differs from the rest, by this rule, which is applied to what coincidence leaves:

    MSER (White 1997) proposes the cut after which the mean has the smallest squared standard error, as if
    entries were independent. It is applied to ranks, in which a few extreme entries weigh no more than
    others. The cut is made only if the mean before it is further from the mean after it than `SIGNIFICANT`
    standard errors, now with autocorrelations, and than twice the distance of any other piece of the same
    length; and if the difference is there from the first quarter on, unlike an event that comes early. In
    all these means the most extreme entries, a share of `FEW_ENTRIES` on each side and at least
    `FEWEST_ODD`, are replaced by the next ones. So a rare event in one chain is never taken for a transient,
    however large it is, and a stationary series is left as it is.

    Parameters
    ----------
    series : (chains, n) array
        Rewards, or their means over batches.
    rounding : float
        A difference up to this counts as none.

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
    >>> transient_length(np.tile(np.append(1e6, noise), (4, 1)))
    1
    """
    if series.shape[1] < 4:
        return 0
    tolerance = max(rounding, NEGLIGIBLE_SPREAD * float(np.abs(series).max()))
    if tolerance > 0.0:  # equal entries shall have equal ranks
        series = tolerance * np.rint(series / tolerance)
    begun = coincidence_length(series, tolerance)
    cut = begun + _lasting_length(series[:, begun:], tolerance)
    return cut if cut <= LARGEST_CUT * series.shape[1] else begun


def coincidence_length(series: Floats, tolerance: float = 0.0) -> int:
    """Return how many initial entries hold the most extreme entry of more chains than chance allows.

    If nothing sets the beginning apart, the most extreme entry of a chain is among its first k of n with
    probability k / n; or t / n, if it takes t > k entries until a chain forgets. Chains are independent, so
    the binomial law tells how likely it is that as many chains as were seen have it there. What is left
    after a cut is looked at again, as long as there is something to cut.

    Parameters
    ----------
    series : (chains, n) array
        Rewards, or their means over batches.
    tolerance : float
        An entry is more extreme than others only by more than this.

    Returns
    -------
    int
        0 for one chain: a single extreme entry may always be chance.

    Examples
    --------
    >>> usual = np.tile([1.0, -1.0], 500)
    >>> coincidence_length(np.array([np.append([0.0, 50.0], usual), np.append([70.0, 0.0], usual)]))
    2
    >>> coincidence_length(np.array([np.append(50.0, usual), np.append(usual, 50.0)]))
    0
    """
    chains, n = series.shape
    if chains < FEWEST_TOGETHER:
        return 0
    extremes = np.abs(series - np.median(series))
    largest_after = np.zeros((chains, n + 1))
    largest_after[:, :n] = np.maximum.accumulate(extremes[:, ::-1], axis=1)[:, ::-1]
    reach = max(FEWEST_ODD, int(EARLY_SHARE * n))
    cut, memory = 0, 0.0
    while cut + reach < LARGEST_CUT * n:
        ahead = extremes[:, cut : cut + reach]
        is_alone = ahead.max(axis=1) > largest_after[:, cut + reach] + tolerance
        places = np.sort(ahead.argmax(axis=1)[is_alone]) + 1
        if len(places) < FEWEST_TOGETHER:
            return cut
        memory = memory or autocorrelation_time(_with_few_replaced(series[:, reach:], RARE_SHARE))
        chances = stats.binom.sf(
            np.arange(len(places)), chains, np.minimum(np.maximum(places, memory) / (n - cut), 1.0)
        )
        chances[: FEWEST_TOGETHER - 1] = 1.0
        best = int(np.argmin(chances))
        if chances[best] > UNLIKELY:
            return cut
        cut += int(places[best])
    return cut


def _lasting_length(series: Floats, tolerance: float) -> int:
    """Return how many initial entries differ from what follows as a whole, not by a few of them."""
    cut = _proposed_cut(series)
    if cut * len(series) <= 2 * FEWEST_ODD:
        return 0
    chains, n = series.shape
    rest = _with_few_replaced(series[:, cut:].ravel(), RARE_SHARE).reshape(chains, -1)
    if not rest.std() > tolerance:  # then its rare events are all that tells how far it may go astray
        rest = series[:, cut:]
    pieces = rest[:, : (n - cut) // cut * cut].reshape(chains, -1, cut).swapaxes(0, 1)
    alike = np.concatenate([series[None, :, :cut], pieces]).reshape(-1, chains * cut)
    means = _with_few_replaced(alike, FEW_ENTRIES).mean(axis=1)
    usual = _with_few_replaced(rest.ravel(), FEW_ENTRIES).mean()
    first, *others = np.abs(means - usual)
    variance = rest.var() * autocorrelation_time(rest) / chains
    is_significant = first**2 > SIGNIFICANT**2 * variance * (1 / cut + 1 / (n - cut))
    begin = _with_few_replaced(series[:, : -(-cut // 4)].ravel(), FEW_ENTRIES).mean()
    is_there_at_once = (begin - usual) * np.sign(means[0] - usual) > first / 4.0
    is_cut = is_significant and is_there_at_once and first > max(2.0 * max(others), tolerance)
    return cut if is_cut else 0


def dominant_start(series: Floats, tolerance: float = 0.0) -> int:
    """Return how many initial entries, at most a few, outweigh all that follows; 0 if none do.

    Such a start is not evidence enough to cut it, in one chain, but it decides the answer. Entries are
    averaged over chains. The last of those at the start must be more than twice as far from the median as any
    later one, and together they must move the mean by more than its standard error without them.

    Examples
    --------
    >>> usual = np.tile([1.0, -1.0], 500)
    >>> dominant_start(np.append([900.0, 300.0], usual)[None]), dominant_start(usual[None])
    (2, 0)
    >>> dominant_start(np.append(usual, [900.0, 300.0])[None])
    0
    """
    average = series.mean(axis=0)
    n = len(average)
    if n < 4 * FEWEST_ODD:
        return 0
    extremes = np.abs(average - np.median(average))
    later = np.maximum.accumulate(extremes[::-1])[::-1]
    few = np.arange(2 * FEWEST_ODD)
    far = np.flatnonzero(extremes[few] > 2.0 * later[few + 1] + tolerance)
    if not len(far):
        return 0
    cut = int(far[-1]) + 1
    rest = average[cut:]
    moved = abs(float(average.mean() - rest.mean()))
    error = float(np.sqrt(rest.var() * autocorrelation_time(rest[None]) / len(rest)))
    return cut if moved > max(error, tolerance / n) else 0


def _proposed_cut(series: Floats) -> int:
    """Return the cut that MSER proposes, first for ranks, then with extremes clipped to the rest's range."""
    ranks = stats.rankdata(series.ravel()).reshape(series.shape)
    cut = _mser(ranks.mean(axis=0))
    rest = _with_few_replaced(series[:, cut:].ravel(), RARE_SHARE)
    return max(cut, _mser(np.clip(series, rest.min(), rest.max()).mean(axis=0))) if cut else 0


def _mser(average: Floats) -> int:
    """Return after how many entries the mean of the others has the smallest squared standard error."""
    n = len(average)
    # About the median a constant rest is exactly 0, and rounding does not choose among cuts within it.
    reverse = (average - np.partition(average, n // 2)[n // 2])[::-1]
    counts = np.arange(1, n + 1)
    # Entry k - 1 is for the last k entries.
    spread = np.cumsum(reverse**2) - np.cumsum(reverse) ** 2 / counts
    errors = (spread / counts**2)[::-1]
    return int(np.argmin(errors[: int(n * LARGEST_CUT) + 1]))


def _with_few_replaced(entries: Floats, share: float) -> Floats:
    """Return rows in which a share of entries on each side, at least `FEWEST_ODD`, is no more extreme."""
    size = entries.shape[-1]
    few = min(max(FEWEST_ODD, int(share * size)), (size - 1) // 2)
    ordered = np.partition(entries, (few, size - 1 - few), axis=-1)
    low, high = ordered[..., few, None], ordered[..., size - 1 - few, None]
    return np.asarray(np.clip(entries, low, high))
