"""Whether the beginning of a series differs from the rest, and whether its parts agree.

All functions work on batch means, shape (chains, batches), in a time of order n log n. `transient_length`
finds a warm-up to leave out, and never one that consists of a few extreme entries; `dominant_start` finds a
few first entries that decide the answer, and are only mentioned in a warning. `split_r_hat` describes
agreement.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from gainbias.evaluation.gain.spectrum import autocorrelation_time
from gainbias.evaluation.gain.verdict import LATE_CUT
from gainbias.types import Floats

SIGNIFICANT = 4.0
"""An initial piece is cut if its mean is more standard errors than this away from the rest."""

LARGEST_CUT = 0.5
"""At most this share of a run counts as its transient."""

FEW_ENTRIES = 0.1
"""Up to this share of the entries of a piece counts as a few."""

RARE_SHARE = 0.001
"""Share of the rest that is ignored when its variation is measured."""

FEWEST_ODD = 3
"""This many entries always count as a few."""

FEWEST_TOGETHER = 2
"""Chains that must agree before an event in a few steps counts as more than chance."""

EARLY_SHARE = 0.01
"""The share of a run in which coincidences are searched for at a time."""

WARM_UP_PIECES = 16
"""Pieces of a warm-up, to find where it is back at the usual level."""

UNLIKELY = 1e-5
"""A coincidence of chains less probable than this is not attributed to chance."""

NEGLIGIBLE_SPREAD = 1e-12
"""A standard deviation this small, relative to the largest entry, counts as zero."""


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
    the beginning as a whole differs from the rest. This rule is applied to what remains after coincidence:

    MSER (White 1997) proposes the cut after which the mean has the smallest squared standard error, as if
    entries were independent. It is applied to ranks, in which a few extreme entries weigh no more than
    others. The cut is made only if the mean before it is further from the mean after it than `SIGNIFICANT`
    standard errors, now with autocorrelations, and than twice the distance of any other piece of the same
    length; and if the difference is there from the first quarter on, unlike an event that comes early. The
    cut ends where the series first returns to the level of the rest: a later burst is not cut with it. In
    all these means the most extreme entries, a share of `FEW_ENTRIES` on each side and at least
    `FEWEST_ODD`, are replaced by the next ones. So a rare event in one chain is never taken for a transient,
    however large it is, and a stationary series is left unchanged.

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
    if tolerance > 0.0:  # equal entries must have equal ranks
        series = tolerance * np.rint(series / tolerance)
    begun = coincidence_length(series, tolerance)
    cut = begun + _lasting_length(series[:, begun:], tolerance)
    return cut if cut <= LARGEST_CUT * series.shape[1] else begun


def coincidence_length(series: Floats, tolerance: float = 0.0) -> int:
    """Return how many initial entries contain the most extreme entry of more chains than chance allows.

    If the beginning is not special, the most extreme entry of a chain is among its first k of n with
    probability k / n; or t / n, if it takes t > k entries until a chain forgets. Chains are independent, so
    the binomial law tells how likely it is that as many chains as were seen have it there. The rest after
    a cut is examined again, as long as there is something to cut.

    Parameters
    ----------
    series : (chains, n) array
        Rewards, or their means over batches.
    tolerance : float
        An entry counts as more extreme than others only if it differs by more than this.

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
    if not rest.std() > tolerance:  # then only its rare events tell how far it may be off
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
    if not is_cut or cut > LATE_CUT * n:  # so late, it may not have ended
        return cut if is_cut else 0
    return _first_return(series[:, :cut], float(usual), float(np.sqrt(variance)))


def _first_return(start: Floats, usual: float, error: float) -> int:
    """Return how many entries of a warm-up come before it first is back at the usual level.

    What differs after that is a burst like any later one, and leaving it out would bias the mean. The start
    is examined in `WARM_UP_PIECES` pieces: one is back if its mean is not beyond the usual level by
    more than its standard error. `error` is that of the mean of one independent entry of all chains.
    """
    cut = start.shape[1]
    size = -(-cut // WARM_UP_PIECES)
    edges = np.arange(0, cut, size)
    lengths = np.diff(edges, append=cut)
    means = np.add.reduceat(start.mean(axis=0), edges) / lengths - usual
    is_back = means * np.sign(means[0]) <= error / np.sqrt(lengths)
    return int((edges + lengths)[np.argmax(is_back)]) if is_back.any() else cut


def dominant_start(series: Floats, tolerance: float = 0.0) -> int:
    """Return how many initial entries, at most a few, outweigh all that follows; 0 if none do.

    In one chain, such a start is not enough evidence to cut it, but it decides the answer. Entries are
    averaged over chains. The last of those at the start must be more than twice as far from the median as any
    later entry, and together they must move the mean by more than its standard error without them.

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
