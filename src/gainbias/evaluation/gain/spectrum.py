"""The variance of a mean under dependence, from the slowest waves of a series, and what they say about it.

Write a series as a sum of cosines, the k-th of which makes k half turns over its whole length. In a steady
series the squares of the slowest amplitudes all have about the same mean: the *long-run variance*, which
divided by the length is the variance of the mean. So their average estimates it, whatever the dependence,
and with few of them Student's law accounts for its error (Mueller 2007; Lazarus, Lewis, Stock and Watson
2018). A fast season is a fast wave, and does not affect the slow ones.

Amplitudes that still rise towards the slowest waves show a slow part, which the average misses.
`slow_family` lists what they may look like: a slow part that forgets at some rate, over a fast one. Whittle's
likelihood gives the weights of its members. Their weighted mean says by how much the average is too small
(`Waves.missing`), and their likelihoods say whether the series is too short, drifts, or shifts somewhere
(`Waves.too_short`, `Waves.drifts`, `Waves.shifts`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import fft, stats
from scipy.ndimage import median_filter

from gainbias.types import Floats

SLOW_WAVES = 12
"""Waves that are averaged, of all chains together. An interval from 12 is 11% wider than one that knows the
variance. With 200 relaxation times in the series, the twelfth wave is still 98% of the slowest."""

FEWEST_WAVES = 2
"""Waves of each chain that are averaged, however many chains there are."""

MOST_WAVES = 256
"""Waves of each chain that are examined."""

SMALL_MISS = 1.15
"""A long-run variance that is too small by up to this factor is good enough."""

LARGE_MISS = 1.4
"""If it is too small by more than this factor, intervals cover less than 90%."""

TURNS = np.concatenate([[0.35, 0.5, 0.7], np.geomspace(1.0, 400.0, 24)])
"""The wave at which a slow part has lost half its square: the length divided by pi relaxation times."""

SLOWEST_BELIEVED = 1.5
"""Slower parts than this are detected, but not corrected for: they are trends."""

LEVELS_OF_SLOW = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e4])
"""Squares of a slow part at its slowest, relative to the fast part."""

SURE_OF_DISAGREEMENT = 2e-3
"""Chains disagree if they are as far apart by chance no more often than this."""

PLACES = np.linspace(0.03, 0.97, 32)
"""Where a level shift is searched for, as a share of the length."""

STEADY_WAVES = 8
"""Squares of later waves than this are clipped if they stick out, because these are seasons."""

STICKS_OUT = 3e-4
"""A square sticks out if chance makes one like it this rarely."""

NEIGHBOURS = 31
"""Waves from whose median the usual square is taken."""

LEAST_SQUARE = float(np.finfo(np.float64).tiny)
"""Replaces squares that cancel exactly, as in a cycle without randomness."""

REGRESSION_POINTS = 4096
"""Points from which the waves of a trend and of a level shift are computed."""


@dataclass(frozen=True, eq=False)
class SlowFamily:
    """Possible shapes of squares of amplitudes, and the waves of a trend and of level shifts.

    Attributes
    ----------
    squares, inverse : (shapes, waves) arrays
        The square of each wave, for each shape, and one over it.
    log_sum : (shapes,) array
        Sum of the logarithms of the squares.
    slowest : (shapes,) array
        The square of an infinitely slow wave.
    turn : (shapes,) array
        From `TURNS`.
    lines : (1 + places, waves) array
        Amplitudes of a straight line, and of level shifts at `PLACES`.
    line_totals : (shapes, 1 + places) array
        Sums of their squares over shape.
    """

    squares: Floats
    inverse: Floats
    log_sum: Floats
    slowest: Floats
    turn: Floats
    lines: Floats
    line_totals: Floats


@lru_cache(maxsize=4)
def slow_family(waves: int) -> SlowFamily:
    """Return the shapes for this many waves."""
    slow = 1.0 / (1.0 + (np.arange(1, waves + 1) / TURNS[:, None]) ** 2)
    squares = (LEVELS_OF_SLOW[:, None] * slow[:, None, :] + 1.0).reshape(-1, waves)
    place = (np.arange(REGRESSION_POINTS) + 0.5) / REGRESSION_POINTS
    lines = np.concatenate([place[None] - 0.5, (place > PLACES[:, None]).astype(np.float64)])
    amplitudes = fft.dct(lines, norm="ortho")[:, 1 : waves + 1]
    return SlowFamily(
        squares=squares,
        inverse=1.0 / squares,
        log_sum=np.log(squares).sum(axis=1),
        slowest=np.tile(LEVELS_OF_SLOW + 1.0, len(TURNS)),
        turn=np.repeat(TURNS, len(LEVELS_OF_SLOW)),
        lines=amplitudes,
        line_totals=(1.0 / squares) @ (amplitudes**2).T,
    )


@lru_cache(maxsize=512)
def missing_parts(waves: int, averaged: int) -> Floats:
    """Return the square of an infinitely slow wave, relative to the average over the slowest, (shapes,)."""
    family = slow_family(waves)
    return np.asarray(family.slowest / family.squares[:, :averaged].mean(axis=1))


@dataclass(frozen=True)
class Waves:
    """What the slow waves of a series say.

    Attributes
    ----------
    long_run_variance : float
        Limit of the length times the variance of the mean, in entries of the series; includes `missing`.
    degrees : int
        Degrees of freedom of this estimate. If chains disagree, both come only from their means.
    missing : float
        The factor by which the average over the slowest waves is probably too small; at least 1.
    too_short : float
        Logarithm of a ratio of likelihoods: a slow part for which the series is too short, against none.
    drifts, shifts : float
        The same for a straight line and for a level shift, against neither.
    shift_at : float
        Where the level shift would be, as a share of the length.
    relaxations : float
        The length, in relaxation times of the most likely slow part for which the series is too short.
    disagreement : float
        Chance of chains as far apart as these if they have one mean; 1 for one chain.
    """

    long_run_variance: float
    degrees: int
    missing: float
    too_short: float
    drifts: float
    shifts: float
    shift_at: float
    relaxations: float
    disagreement: float


def slow_waves(series: Floats, average: int = SLOW_WAVES) -> Waves:
    """Return what the slow waves of a series say.

    Parameters
    ----------
    series : (chains, n) array
        At least 4 entries of each chain, not all of them equal.
    average : int
        Waves that are averaged, of all chains together, if there are as many. More of them make the long-run
        variance more certain, but only if the series is also longer: faster waves contain less about slow
        parts.

    Returns
    -------
    Waves

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1, 5000))
    >>> waves = slow_waves(noise)
    >>> waves.degrees, 0.5 < waves.long_run_variance < 2.0, waves.too_short < 0.0
    (12, True, True)
    >>> slow_waves(noise + np.linspace(0.0, 1.0, 5000)).drifts > 10.0
    True
    """
    chains, n = series.shape
    amplitudes, averaged = slow_amplitudes(series, average)
    waves = amplitudes.shape[1]
    family, parts = slow_family(waves), missing_parts(waves, averaged)
    squares = (amplitudes**2).mean(axis=0)
    calm = np.minimum(squares, _limits(squares, chains))
    kept = np.sqrt(np.divide(calm, squares, out=np.ones(waves), where=squares > 0.0))
    common = amplitudes.mean(axis=0) * kept

    total = family.inverse @ calm
    fits = _log_likelihood(total, family.log_sum, chains, waves)
    fine, bad = parts <= SMALL_MISS, parts > LARGE_MISS
    steady = fits[fine].max()

    explained = (family.inverse[fine] @ (common * family.lines).T) ** 2 / family.line_totals[fine]
    left = _log_likelihood(total[fine, None] - explained, family.log_sum[fine, None], chains, waves)
    drifts, *shifts = (float(fit) for fit in left.max(axis=0) - steady)
    believed = family.turn >= SLOWEST_BELIEVED
    weights = np.where(believed, np.exp(np.minimum(fits - fits[believed].max(), 0.0)), 0.0)
    missing = float(weights @ parts / weights.sum())
    within, degrees, disagreement = float((amplitudes[:, :averaged] ** 2).mean()), chains * averaged, 1.0
    if chains > 1:
        between = n * float(series.mean(axis=1).var(ddof=1))
        disagreement = float(stats.f.sf(between / max(within * missing, LEAST_SQUARE), chains - 1, degrees))
        if disagreement < SURE_OF_DISAGREEMENT:  # then variation within chains says little
            within, degrees, missing = between, chains - 1, 1.0
        else:
            within = (degrees * within + (chains - 1) * between) / (degrees + chains - 1)
            degrees += chains - 1
    return Waves(
        long_run_variance=within * missing,
        degrees=degrees,
        missing=missing,
        too_short=float(fits[bad].max() - steady),
        drifts=drifts,
        shifts=max(shifts),
        shift_at=float(PLACES[int(np.argmax(shifts))]),
        relaxations=float(np.pi * family.turn[bad][int(np.argmax(fits[bad]))]),
        disagreement=disagreement,
    )


def slow_amplitudes(series: Floats, average: int = SLOW_WAVES) -> tuple[Floats, int]:
    """Return amplitudes of the slowest waves of each chain, (chains, waves), and how many are averaged.

    Examples
    --------
    >>> amplitudes, averaged = slow_amplitudes(np.random.default_rng(0).normal(size=(1, 5000)))
    >>> amplitudes.shape, averaged
    ((1, 256), 12)
    """
    chains, n = series.shape
    averaged = min(max(FEWEST_WAVES, -(-average // chains)), n - 2)
    waves = min(max(MOST_WAVES, averaged), max(n // 2, averaged + 1))
    centred = series - series.mean(axis=1, keepdims=True)
    return np.asarray(fft.dct(centred, norm="ortho")[:, 1 : waves + 1]), averaged


def _log_likelihood(total: Floats, log_sum: Floats, chains: int, waves: int) -> Floats:
    """Return Whittle's log-likelihood at the best scale, given squares over shape, averaged over chains."""
    return np.asarray(-0.5 * chains * (waves * np.log(np.maximum(total, LEAST_SQUARE) / waves) + log_sum))


def _limits(squares: Floats, chains: int) -> Floats:
    """Return the largest square of each wave that is accepted: a season must not pass for a level."""
    usual = median_filter(squares, size=NEIGHBOURS, mode="reflect") / stats.chi2.median(chains)
    limits = usual * stats.chi2.isf(STICKS_OUT, chains)
    limits[:STEADY_WAVES] = np.inf
    return np.asarray(limits)


SEASON_NEIGHBOURS = 101
"""Frequencies from whose median the usual power is taken."""

SEASON_CHANCE = 1e-6
"""A peak is a season if by chance the strongest of all frequencies is this strong only this rarely, given
the usual power; that is only estimated, so it happens a little more often."""

FEWEST_PERIODS = 5
"""A season must have come back at least this often."""


OVERTONES = 4
"""The strongest frequency of a season may be its second, third or fourth: then the first is a season, too."""


def season_length(series: Floats, longest: float = math.inf) -> float:
    """Return the period of the strongest season in entries; 0 if there is none.

    A season stands out from the power of frequencies around it, and is narrow: something that only tends to
    come back after some time has a broad peak. If the strongest frequency is an overtone, the period is that
    of the first one.

    Parameters
    ----------
    series : (chains, n) array
    longest : float
        The strongest frequency is searched for among shorter periods than this.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1, 3000))
    >>> season_length(noise), round(season_length(noise + np.sin(np.arange(3000) / 4.0)), 1)
    (0.0, 25.2)
    """
    chains, n = series.shape
    if n < 2 * SEASON_NEIGHBOURS:
        return 0.0
    waves = fft.rfft(series - series.mean(axis=1, keepdims=True))
    power = (np.abs(waves) ** 2).mean(axis=0)[1:]
    half_degrees = np.full(len(power), float(chains))
    if n % 2 == 0:
        half_degrees[-1] /= 2.0  # the wave of period 2 has no phase
    usual = median_filter(power, size=SEASON_NEIGHBOURS, mode="reflect") / (
        stats.gamma.median(chains) / chains
    )
    rounding = np.finfo(np.float64).eps * np.abs(series).max()
    usual = np.maximum(usual, n * rounding**2)  # in a cycle without noise there is nothing else
    relative = np.divide(power, usual, out=np.zeros(len(power)), where=usual > 0.0)
    chances = len(power) * np.asarray(stats.gamma.sf(half_degrees * relative, half_degrees))
    relative[: max(FEWEST_PERIODS - 1, math.floor(n / longest))] = 0.0
    strongest = int(np.argmax(relative))
    around = np.concatenate([power, power[n - len(power) - 2 :: -1][:4]])  # beyond period 2 it is mirrored
    if (
        not relative[strongest] > 0.0
        or chances[strongest] > SEASON_CHANCE
        or not _is_narrow(around, strongest)
    ):
        return 0.0
    turns = _centre(around, strongest)
    for overtone in range(OVERTONES, 1, -1):
        near = np.unique(np.clip(np.array([-1, 0, 1]) + round(turns / overtone) - 1, 0, len(power) - 1))
        first = int(near[np.argmax(power[near])])
        if chances[first] <= SEASON_CHANCE and _is_narrow(around, first):
            return float(n / _centre(around, first))
    return float(n / turns)


def _is_narrow(power: Floats, peak: int) -> bool:
    """Whether frequencies two to four steps away have little of the peak's power: a sine leaves a tenth."""
    away = np.array([-4, -3, -2, 2, 3, 4]) + peak
    away = away[(away >= 0) & (away < len(power))]
    return bool(power[away].mean() < 0.2 * power[peak])


def _centre(power: Floats, peak: int) -> float:
    """Return the number of periods in the series, from the amplitudes of the peak and its neighbours."""
    near = np.arange(max(peak - 1, 0), min(peak + 2, len(power)))
    amplitudes = np.sqrt(power[near])
    return float(amplitudes @ (near + 1.0) / amplitudes.sum())


def autocorrelation_time(series: Floats) -> float:
    """Return Geyer's initial monotone estimate of 1 + 2 (sum of all autocorrelations).

    Sums of two neighbouring autocorrelations are added up until one is negative. Deviations are taken from
    the mean of all chains: chains that do not agree count as correlated forever.

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
    pairs = (covariances[: n - 1 : 2] + covariances[1::2]) / covariances[0]
    negative = np.flatnonzero(pairs <= 0.0)
    positive = pairs[: negative[0]] if len(negative) else pairs
    # A series that alternates has no positive pair; a tenth of a step avoids division by zero.
    return float(max(2.0 * np.minimum.accumulate(positive).sum() - 1.0, 0.1)) if len(positive) else 0.1
