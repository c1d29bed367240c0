"""How a series behaves: steady, or why its interval cannot be trusted, and what to do about it.

Start with `judge`, which asks one question after the other and returns a `Verdict`. The questions about slow
parts, drifts, shifts and disagreeing chains are answered by the slow waves of the series (`spectrum`), those
about rare events and heavy tails by its largest entries: the excesses over a level follow a generalized
Pareto law, whose index tells whether there is a variance.

For a steady series that is long enough, each question gives a false alarm in about one run in a hundred,
and together they raise one in fewer than one in twenty (`benchmarks/coverage.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import stats

from gainbias.evaluation.gain.spectrum import (
    LEAST_SQUARE,
    OVERTONES,
    SURE_OF_DISAGREEMENT,
    Waves,
    autocorrelation_time,
    season_length,
)
from gainbias.types import Floats

VerdictKind: TypeAlias = Literal[
    "steady",
    "warming up",
    "periodic",
    "too short",
    "drifting",
    "level shift",
    "chains disagree",
    "rare events",
    "heavy tails",
    "constant",
    "cut short",
]
"""The kinds of verdict."""

SURE_OF_SLOW = 1.5
"""Log-likelihood by which a slow part must fit better than none: the series is then too short for it."""

SURE_OF_DRIFT, SURE_OF_SHIFT = 6.0, 10.0
"""The same for a straight line, and for a level shift, which may be anywhere and so fits better by chance."""

ENOUGH_RELAXATIONS = 100.0
"""A series of this many relaxation times of its slowest part is long enough."""

ENOUGH_ENTRIES = 100
"""So is a series worth this many independent numbers, and one worth fewer never is."""

ENOUGH_EVENTS = 20.0
"""And one with this many independent rare events, if these make up the variance."""

MANY_PERIODS = 10.0
"""A season must come back this often before it is accepted: a few turns may be anything."""

OF_A_TURN = 0.25
"""How exactly the number of periods is known."""

LATE_CUT = 0.45
"""A warm-up that takes more than this share of a run may not have ended."""

FEWEST_EVENTS = 3.0
"""Fewer events than this, if they make up the variance, are too few for any interval."""

EVENTS_OF_HEAVY_TAILS = 100.0
"""Tails are examined if fewer events than this make up the variance."""

TAIL_FACTOR = 2.0
"""The tail is the largest ``TAIL_FACTOR n^(2/3)`` of n entries on one side: their number grows with n, so
that its index becomes more certain, and their share falls, so that they lie further out in the tail."""

LARGEST_TAIL_SHARE = 0.4
"""But never more than this share of all entries: a tail begins beyond the median."""

FEWEST_OF_TAIL = 20
"""Fewest entries of a tail."""

HARMLESS_INDEX = 2.5
"""A tail with this index or a larger one is not called too heavy: intervals hold."""

SURE_OF_INDEX = 1.8
"""Standard errors by which the index must be below that: one in 28 such tails seems too heavy by chance."""

SURE_OF_BEND = 1.5
"""Standard errors by which the end of a tail must fall off faster than its beginning to be no power law."""

SAME_EVENTS = 0.95
"""A column of a ratio describes the tail of the ratio if it has this share of that tail in its own."""

OF_ANOTHER_KIND = 0.01
"""Entries do not belong to a tail if a gap like theirs occurs by chance only this rarely."""

FINITE_VARIANCE = 2.0
"""Tail index from which on the variance is finite."""

LEAST_SLOPE = 1e-9
"""Used in place of 0, at which a power law is an exponential and its formulas divide by 0."""


@dataclass(frozen=True)
class Verdict:
    """How a series behaves, and what to do about it.

    Attributes
    ----------
    kind : str
        ``"steady"``; ``"warming up"`` until `at`, which was left out; ``"periodic"`` with period `at`;
        ``"too short"`` for its slowest part; ``"drifting"``; ``"level shift"`` about `at`; ``"chains
        disagree"``; ``"rare events"``, too few of which make up the variance; ``"heavy tails"``, too heavy
        for any interval; ``"constant"``; or ``"cut short"`` by something wrong in the data.
    is_trusted : bool
        Whether the interval can be trusted.
    words : str
        What was found, and what to do.
    at : float or None
        A step or a period in steps, if the kind has one. Steps count the numbers of the given series from its
        beginning, with those that were left out.
    longer : float or None
        Run about this many times as long, if that helps.
    """

    kind: VerdictKind
    is_trusted: bool
    words: str
    at: float | None = None
    longer: float | None = None


class CutShort(NamedTuple):
    """Why reading ended before the end.

    Attributes
    ----------
    words : str
    by_choice : bool
        Whether that was asked for, by Ctrl-C or a limit. Otherwise something was wrong, and nobody knows what
        the rest would have said.
    """

    words: str
    by_choice: bool = False


class Parts(NamedTuple):
    """What a series was made from, as means over its batches.

    Attributes
    ----------
    columns : sequence of (chains, n) arrays
        The columns of a ratio.
    unweighted : (chains, n) array or None
        The same means without the weights that made them larger or smaller; tails must also be heavy here.
    alternates_in_time : bool
        Whether a pattern of two steps is a period: not if steps last for times that differ from pair to pair.
    """

    columns: Sequence[Floats] = ()
    unweighted: Floats | None = None
    alternates_in_time: bool = True


NO_PARTS = Parts()


def judge(
    series: Floats,
    waves: Waves | None,
    size: int,
    cut: int,
    head: Floats | None = None,
    skipped: int = 0,
    parts: Parts = NO_PARTS,
) -> list[Verdict]:
    """Return all findings about a series, the most serious first; at least one verdict.

    Parameters
    ----------
    series : (chains, n) array
        Means over batches, after the warm-up; not all equal.
    waves : Waves or None
        Of this series; ``None`` if it has no slow part, because neighbours cancel each other.
    size : int
        Steps in a batch.
    cut : int
        Batches of a warm-up that were left out.
    head : (chains, first) array, optional
        First numbers after the warm-up, one by one, in which a season shorter than two batches is searched
        for.
    skipped : int
        Steps before these, which are included when a step is named.
    parts : Parts, optional
        What the series was made from.

    Examples
    --------
    >>> from gainbias.evaluation.gain.spectrum import slow_waves
    >>> noise = np.random.default_rng(0).normal(size=(1, 4000))
    >>> judge(noise, slow_waves(noise), 1, 0)[0].kind
    'steady'
    >>> ramp = noise + np.linspace(0.0, 1.0, 4000)
    >>> judge(ramp, slow_waves(ramp), 1, 0)[0].kind
    'drifting'
    """
    seasons = _seasons(series, size, head, parts.alternates_in_time)
    slow = _slowness(waves, skipped + cut * size, series.shape[1] * size) if waves else []
    found = [
        *_tails(series, parts),
        *(_disagreement(waves) if waves else ()),
        *(_or_a_season(one, seasons) for one in slow),
        *_brevity(series.size * size),
        *_warm_up(cut, series.shape[1], size, skipped),
        *seasons,
    ]
    steady = Verdict("steady", True, "steady: no reason to doubt the interval")
    return sorted(found, key=lambda verdict: verdict.is_trusted) or [steady]


def constant_verdict(cut: int, by_rounding: bool = False) -> Verdict:
    """Return the verdict on numbers that never change after the first `cut` steps, or only by rounding."""
    steps = "step" if cut == 1 else f"{cut:,} steps"
    after = f"after the first {steps} the" if cut else "the"
    words = f"{after} numbers never change, so there is no interval: what was not seen cannot be estimated"
    if by_rounding:
        words = (
            f"{after} numbers change by no more than the rounding of numbers so large, so there is no "
            "interval: if they do change, subtract a constant from them"
        )
    return Verdict("constant", False, words)


def _disagreement(waves: Waves) -> list[Verdict]:
    if waves.disagreement >= SURE_OF_DISAGREEMENT:
        return []
    return [
        Verdict(
            "chains disagree",
            False,
            "chains disagree: their means are further apart than chance allows (p = "
            f"{waves.disagreement:.1g}), so each has seen only a part of what there is, or they are of "
            "different kinds: run them much longer, or look at each by itself",
        )
    ]


def _slowness(waves: Waves, first: int, length: int) -> list[Verdict]:
    """Return what the slowest waves show, if they are too large: a drift, a level shift or a slow part."""
    is_found = waves.too_short > SURE_OF_SLOW or waves.drifts > SURE_OF_DRIFT or waves.shifts > SURE_OF_SHIFT
    if not is_found:
        return []
    if waves.drifts > max(SURE_OF_DRIFT, waves.shifts, waves.too_short):
        return [
            Verdict(
                "drifting",
                False,
                "drifting: the level keeps rising or falling, so no long-run mean can be seen: "
                "find out why, or look at a part that is steady",
            )
        ]
    if waves.shifts > max(SURE_OF_SHIFT, waves.too_short):
        at = first + round(waves.shift_at * length)
        return [
            Verdict(
                "level shift",
                False,
                f"level shift: about step {at:,} the level changes, and the mean is one of two different "
                "things: look at the parts before and after it by themselves",
                at=at,
            )
        ]
    longer = max(2.0, ENOUGH_RELAXATIONS / waves.relaxations)
    return [
        Verdict(
            "too short",
            False,
            "too short: a slow part takes about "
            f"{length / waves.relaxations:,.0f} steps to be forgotten, so the run saw it "
            f"{waves.relaxations:.0f} times, and the interval may be much too narrow: run about "
            f"{longer:.0f} times as long (if it wanders without end, as a random walk does, no length helps)",
            longer=longer,
        )
    ]


def _or_a_season(verdict: Verdict, seasons: list[Verdict]) -> Verdict:
    """Return a verdict that says, if the run is too short, that its season may be all that is slow."""
    if verdict.kind != "too short" or not seasons:
        return verdict
    words = (
        f"{verdict.words}; the slow part may be the pattern that repeats after about {seasons[-1].at:.4g} "
        "steps: few periods of a clear pattern look the same"
    )
    return replace(verdict, words=words)


def _brevity(steps: int) -> list[Verdict]:
    if steps >= ENOUGH_ENTRIES:
        return []
    longer = ENOUGH_ENTRIES / steps
    words = (
        f"too short: {steps} numbers, and intervals can be trusted from {ENOUGH_ENTRIES} on, if these are "
        f"independent: run at least {math.ceil(10.0 * longer) / 10.0:.1f} times as long"
    )
    return [Verdict("too short", False, words, longer=longer)]


def _warm_up(cut: int, left: int, size: int, skipped: int) -> list[Verdict]:
    if not cut:
        return []
    at = skipped + cut * size
    if cut > LATE_CUT * (cut + left):
        words = "warming up: the numbers still drift in the second half of the run: run longer"
        return [Verdict("warming up", False, words, at=at, longer=2.0)]
    words = (
        f"warming up until step {at:,}, and steady from there on: what came before was left out, "
        "because it was different"
    )
    return [Verdict("warming up", True, words, at=at)]


def _seasons(series: Floats, size: int, head: Floats | None, alternates_in_time: bool) -> list[Verdict]:
    """Return the season of the batches, and before it a shorter one of single numbers, if there is one.

    The length of a queue is even and odd in turns, from event to event. That is no period in time.
    """
    length = series.shape[1] * size
    period = season_length(series) * size
    short = 0.0 if size == 1 or head is None else season_length(head, 2.0 * size)
    if not alternates_in_time:
        period, short = (0.0 if round(steps) == 2 else steps for steps in (period, short))
    if head is None or not 0.0 < short < 2 * size:
        return [_season(period, length, size)] if period else []
    found = [_season(short, length)]
    if period and not is_alias(short, head.shape[1], period, size):
        found.append(_season(period, length, size))
    return found


def _season(period: float, length: int, size: int = 1) -> Verdict:
    """Return the verdict on a season that was found in means over `size` steps."""
    periods = length / period
    steps = f"{period:.4g}"
    if periods < MANY_PERIODS - OF_A_TURN:
        longer = MANY_PERIODS / periods
        words = (
            f"periodic: a pattern repeats after about {steps} steps, but only {periods:.1f} times in the "
            f"run: make it about {math.ceil(10.0 * longer) / 10.0:.1f} times as long"
        )
        return Verdict("periodic", False, words, at=period, longer=longer)
    words = (
        f"periodic with a period of about {steps} steps, which the run has about {periods:,.0f} times; the "
        "mean is that of all numbers"
    )
    if size > 1:  # a weak one that does not show in the first numbers would look like a longer one
        words += f" (found in means over {size} steps: the true period may be shorter, below {2 * size})"
    return Verdict("periodic", True, words, at=period)


def is_alias(short: float, seen: int, period: float, size: int) -> bool:
    """Whether means over batches show a short season as one of this period.

    Means over batches cannot tell a season from one with a whole number of extra turns in each batch.
    That also holds for the overtones of the short one.

    Parameters
    ----------
    short, period : float
        The short season and the one that was found in means over batches, in steps.
    seen : int
        Numbers in which the short season was found: they determine its frequency up to a quarter of a turn.
    size : int
        Numbers in a batch.

    Examples
    --------
    >>> is_alias(24.0, 8192, 96.0, 32), is_alias(24.0, 8192, 5000.0, 32)
    (True, False)
    """
    overtones = np.arange(1, OVERTONES + 1)
    turns = overtones * size / short
    apart = np.abs(np.abs(turns - np.rint(turns)) - size / period)
    return bool((apart <= overtones * (OF_A_TURN * size / seen)).any())


def _tails(series: Floats, parts: Parts) -> list[Verdict]:
    """Return heavy tails, or else rare events: only against these does a longer run help."""
    events = events_behind(series)
    is_heavy = events < EVENTS_OF_HEAVY_TAILS and has_infinite_variance(series, parts.columns)
    if is_heavy and (parts.unweighted is None or has_infinite_variance(parts.unweighted)):
        words = (
            "heavy tails: the largest numbers are so large that the variance looks infinite, and no "
            "interval for the mean can be trusted: look at quantiles instead"
        )
        return [Verdict("heavy tails", False, words)]
    if events < FEWEST_EVENTS and not is_end_of_a_tail(series):
        longer = ENOUGH_EVENTS / events
        words = (
            f"rare events: about {max(1.0, events):.0f} of them make up the variance, and so few do not "
            f"show how often they come: run about {longer:.0f} times as long"
        )
        return [Verdict("rare events", False, words, longer=longer)]
    return []


def events_behind(series: Floats) -> float:
    """Return about how many equal rare events would have the same excess kurtosis; infinite without any.

    Examples
    --------
    >>> rare = np.zeros((1, 10_000))
    >>> rare[0, ::2500] = 1.0
    >>> round(events_behind(rare), 1)
    4.0
    """
    deviations = series - series.mean()
    variance = float((deviations**2).mean())
    if not variance > 0.0:
        return float("inf")
    excess = float(((deviations**2 / variance) ** 2).mean()) - 3.0
    return series.size / excess if excess > 0.0 else float("inf")


def has_infinite_variance(series: Floats, columns: Sequence[Floats] = ()) -> bool:
    """Whether the largest entries look like those of a law without a variance.

    Excesses over a level far out follow about a generalized Pareto law, whatever the law of the entries,
    and wherever its zero is (Pickands 1975). Its index must be below 2, and surely below that of tails for
    which intervals hold; neighbours in a cluster count as one. The law must also fit: tails with a variance
    may fall off slowly at first and then faster and faster, and events of another size leave a gap.

    For a ratio g the entries are r - g d, and events that are not large are on the other side of the median.
    A column may show many more of the same kind. If the tail of a column has nearly all of the ratio's tail,
    and falls off faster and faster, then the ratio's tail is taken for a power law only if it shows no sign
    of that.

    Parameters
    ----------
    series : (chains, n) array
    columns : sequence of (chains, n) arrays, optional
        The columns that a ratio is made of.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> has_infinite_variance(rng.pareto(1.3, (1, 8000)))
    True
    >>> has_infinite_variance(rng.lognormal(size=(1, 8000)))
    False
    """
    tail = _tail_of(series)
    if tail is None or not tail.inverse_index > 1.0 / FINITE_VARIANCE:
        return False
    clusters = len(tail.excesses) / max(1.0, autocorrelation_time(tail.exceeds))
    inverse = 1.0 / HARMLESS_INDEX
    if not tail.inverse_index > inverse + SURE_OF_INDEX * (1.0 + inverse) / math.sqrt(clusters):
        return False
    steps = _steps(tail.excesses, tail.inverse_index, tail.slope)
    bend = _bend(steps)
    if not (bend < SURE_OF_BEND and _gap(steps, len(steps)) > OF_ANOTHER_KIND):
        return False
    return bend < 0.0 or not any(_bends_in(column, tail) for column in columns)


def _bends_in(column: Floats, tail: _Tail) -> bool:
    """Whether a column of a ratio has nearly all of the ratio's tail in its own, which is not a power law."""
    of_column = _tail_of(column)
    if of_column is None:
        return False
    shared = float((of_column.exceeds * tail.exceeds).sum() / tail.exceeds.sum())
    steps = _steps(of_column.excesses, of_column.inverse_index, of_column.slope)
    return shared >= SAME_EVENTS and _bend(steps) >= SURE_OF_BEND


def is_end_of_a_tail(series: Floats) -> bool:
    """Whether the few largest entries fit the rest of a tail, if that is as heavy as it can be.

    Then they are not separate events: the less large entries tell how often one as large comes. The tail is
    assumed to have the index 2, from which on there is a variance, and its own median: between neighbours at
    its end there must be no gap too large for chance.

    Examples
    --------
    >>> series = np.random.default_rng(0).lognormal(size=(1, 8000))
    >>> is_end_of_a_tail(series)
    True
    >>> series[0, 0] = 5000.0
    >>> is_end_of_a_tail(series)
    False
    """
    tail = _tail_of(series)
    if tail is None:
        return False
    inverse = 1.0 / FINITE_VARIANCE
    slope = (2.0**inverse - 1.0) / float(np.median(tail.excesses))
    return _gap(_steps(tail.excesses, inverse, slope), int(FEWEST_EVENTS)) > OF_ANOTHER_KIND


class _Tail(NamedTuple):
    """The excesses over a level, on the side of the median with the entry that is furthest from it.

    `excesses` are sorted, the largest first; `exceeds`, (chains, n), says which entries they are.
    The share of them that is larger than x is about ``(1 + slope x) ** (-1 / inverse_index)``.
    """

    excesses: Floats
    exceeds: Floats
    inverse_index: float
    slope: float


def _tail_of(series: Floats) -> _Tail | None:
    """Return the tail of a series; None if too few entries exceed its level."""
    deviations = series - np.median(series)
    if -float(deviations.min()) > float(deviations.max()):
        deviations = -deviations
    count = min(int(TAIL_FACTOR * series.size ** (2.0 / 3.0)), int(LARGEST_TAIL_SHARE * series.size))
    ordered = np.sort(deviations, axis=None)[::-1]
    level = max(float(ordered[count]), 0.0)
    excesses = ordered[:count][ordered[:count] > level] - level
    if len(excesses) < FEWEST_OF_TAIL:
        return None
    inverse_index, slope = _pareto_fit(excesses)
    return _Tail(excesses, (deviations > level).astype(np.float64), inverse_index, slope)


def _pareto_fit(excesses: Floats) -> tuple[float, float]:
    """Return inverse index and slope of a generalized Pareto law, from excesses in falling order.

    The estimate of Zhang and Stephens (2009): given the slope, the likeliest inverse index is a mean of
    logarithms; slopes on a grid are weighted by their likelihood.
    """
    count, unit = len(excesses), float(excesses.mean())
    scaled = excesses / unit
    points = 30 + math.isqrt(count)
    quartile = float(scaled[-((count + 2) // 4)])
    places = np.arange(1, points + 1) - 0.5
    slopes = (np.sqrt(points / places) - 1.0) / (3.0 * quartile) - 1.0 / float(scaled[0])
    slopes[slopes == 0.0] = LEAST_SLOPE
    inverse = np.log1p(slopes[:, None] * scaled).mean(axis=1)
    likelihoods = count * (np.log(slopes / inverse) - inverse)
    weights = np.exp(likelihoods - likelihoods.max())
    slope = float(slopes @ weights / weights.sum()) or LEAST_SLOPE
    return float(np.log1p(slope * scaled).mean()), slope / unit


def _steps(excesses: Floats, inverse_index: float, slope: float) -> Floats:
    """Return independent exponential numbers of one mean, the outermost first, if this law fits."""
    exponential = np.log1p(slope * excesses) / inverse_index
    return np.asarray(np.arange(1, len(excesses) + 1) * -np.diff(exponential, append=0.0))


def _bend(steps: Floats) -> float:
    """Return by how many standard errors the end of a tail falls off faster than its beginning.

    This is a score: the covariance of steps with how far out they are, on a logarithmic scale. Because the
    inverse index x is also fitted, its variance is only x^2 / (1 + x)^2; x is that of tails whose variance
    is just infinite.
    """
    depths = -np.log(np.arange(1, len(steps) + 1) / (len(steps) + 1.0))
    depths -= depths.mean()
    score = -float(depths @ steps) / float(depths.std() * steps.mean() * math.sqrt(len(steps)))
    return score * (1.0 + FINITE_VARIANCE)


def _gap(steps: Floats, outer: int) -> float:
    """Return the probability that chance makes the largest of the outer steps so large, given the others."""
    largest = int(np.argmax(steps[:outer]))
    others = np.delete(steps, largest) if outer == len(steps) else steps[outer:]
    ratio = float(steps[largest]) / max(float(others.mean()), LEAST_SQUARE)
    return outer * float(stats.f.sf(ratio, 2, 2 * len(others)))
