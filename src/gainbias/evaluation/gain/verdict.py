"""What a series is like: steady, or why its interval cannot be trusted, and what to do about it.

Start with `judge`, which asks one question after the other and returns a `Verdict`. The questions about slow
parts, drifts, shifts and disagreeing chains are answered by the slow waves of the series (`spectrum`), those
about rare events and heavy tails by its largest entries.

Each question says "no" of a steady series that is long enough in all but about one run in a hundred, and
together they raise a false alarm in fewer than one in twenty (`benchmarks/coverage.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import stats

from gainbias.evaluation.gain.spectrum import (
    LEAST_SQUARE,
    OVERTONES,
    SURE_OF_DISAGREEMENT,
    Waves,
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
]
"""What a series may be like."""

SURE_OF_SLOW = 1.5
"""Log-likelihood by which a slow part must fit better than none: the series is then too short for it."""

SURE_OF_DRIFT, SURE_OF_SHIFT = 6.0, 10.0
"""The same for a straight line, and for a level shift, which may be anywhere and so fits better by chance."""

ENOUGH_RELAXATIONS = 100.0
"""A series of this many relaxation times of its slowest part is long enough."""

ENOUGH_ENTRIES = 100
"""So is one of this many independent numbers, and fewer never are."""

ENOUGH_EVENTS = 20.0
"""And one with this many independent rare events, where these make up the variance."""

MANY_PERIODS = 10.0
"""A season must come back this often before it is left alone: a few turns may be anything."""

LATE_CUT = 0.45
"""A warm-up that takes more than this share of a run has perhaps not ended."""

FEWEST_EVENTS = 3.0
"""Fewer events than this, if they make up the variance, are too few for any interval."""

EVENTS_OF_HEAVY_TAILS = 30.0
"""Tails are looked at where fewer events than this make up the variance."""

TAIL_SHARE = 0.02
"""Share of the entries that are the tail."""

FEWEST_FOR_TAIL = 500
"""Fewer entries do not tell a tail without a variance from one with a large one."""

FEWEST_OF_TAIL = 20
"""Entries that the tail has at least."""

TAIL_CONFIDENCE = 0.84
"""Standard errors by which the tail index must be below that."""

IN_LINE = 0.05
"""The largest entries are of another kind than the tail if chance makes them as large this rarely."""

OUTER_SHARE = 0.25
"""Share of the tail that is its end."""

SURE_OF_BEND = 1.3
"""Standard errors by which the end of a tail must fall off faster than its beginning: then it is no power."""

SURE_OF_VARIANCE = 1.645
"""The same, where a series is not flagged because of it: a missing flag costs more than a false one."""

FINITE_VARIANCE = 2.0
"""Tail index from which on the variance is finite."""


@dataclass(frozen=True)
class Verdict:
    """What a series is like, and what to do about it.

    Attributes
    ----------
    kind : str
        ``"steady"``; ``"warming up"`` until `at`, which was left out; ``"periodic"`` with period `at`;
        ``"too short"`` for its slowest part; ``"drifting"``; ``"level shift"`` about `at`; ``"chains
        disagree"``; ``"rare events"``, too few of which make up the variance; ``"heavy tails"``, too heavy
        for any interval; or ``"constant"``.
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


def judge(
    series: Floats, waves: Waves | None, size: int, cut: int, head: Floats | None = None, skipped: int = 0
) -> list[Verdict]:
    """Return all that was found about a series, the gravest first; at least one verdict.

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
        First numbers after the warm-up, one by one, in which a season shorter than two batches is looked for.
    skipped : int
        Steps before all that is known here: steps are counted with them.

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
    found = [
        *_tails(series),
        *(_disagreement(waves) if waves else ()),
        *(_slowness(waves, skipped + cut * size, series.shape[1] * size) if waves else ()),
        *_brevity(series.size * size),
        *_warm_up(cut, series.shape[1], size, skipped),
        *_seasons(series, size, head),
    ]
    steady = Verdict("steady", True, "steady: nothing speaks against the interval")
    return sorted(found, key=lambda verdict: verdict.is_trusted) or [steady]


def constant_verdict(cut: int) -> Verdict:
    """Return the verdict on numbers that never change after the first `cut` steps."""
    steps = "step" if cut == 1 else f"{cut:,} steps"
    after = f"after the first {steps} the" if cut else "the"
    return Verdict(
        "constant",
        False,
        f"{after} numbers never change, so there is no interval: what was not seen cannot be estimated",
    )


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
    """Return what the slowest waves hold, if they hold too much: a drift, a level shift or a slow part."""
    is_found = waves.too_short > SURE_OF_SLOW or waves.drifts > SURE_OF_DRIFT or waves.shifts > SURE_OF_SHIFT
    if not is_found:
        return []
    if waves.drifts > max(SURE_OF_DRIFT, waves.shifts, waves.too_short):
        return [
            Verdict(
                "drifting",
                False,
                "drifting: the level goes up or down all the time, so there is no long-run mean to be seen: "
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
            f"{longer:.0f} times as long",
            longer=longer,
        )
    ]


def _brevity(steps: int) -> list[Verdict]:
    if steps >= ENOUGH_ENTRIES:
        return []
    longer = ENOUGH_ENTRIES / steps
    words = (
        f"too short: {steps} numbers, and intervals can be trusted from {ENOUGH_ENTRIES} on, if these are "
        f"independent: run at least {longer:.1f} times as long"
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


def _seasons(series: Floats, size: int, head: Floats | None) -> list[Verdict]:
    """Return the season of the batches, and before it a shorter one of single numbers, if there is one."""
    length = series.shape[1] * size
    period = season_length(series) * size
    short = 0.0 if size == 1 or head is None else season_length(head, 2.0 * size)
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
    if periods < MANY_PERIODS:
        longer = MANY_PERIODS / periods
        words = (
            f"periodic: something comes back after about {steps} steps, but only {periods:.0f} times in the "
            f"run: make it about {longer:.1f} times as long"
        )
        return Verdict("periodic", False, words, at=period, longer=longer)
    words = (
        f"periodic with a period of about {steps} steps, and steady apart from that: the mean is over all of "
        f"{periods:.0f} periods"
    )
    if size > 1:  # a weak one that does not show in the first numbers would look like a longer one
        words += f" (it was found in means over {size} steps, which cannot tell it from one below {2 * size})"
    return Verdict("periodic", True, words, at=period)


def is_alias(short: float, seen: int, period: float, size: int) -> bool:
    """Whether means over batches show a short season as one of this period.

    Means over batches cannot tell a season from one that makes a whole number of turns more in each batch.
    That also holds for the overtones of the short one.

    Parameters
    ----------
    short, period : float
        The short season and the one that was found in means over batches, in steps.
    seen : int
        Numbers in which the short season was found: they tell its frequency up to a quarter of a turn.
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
    return bool((apart <= overtones * (0.25 * size / seen)).any())


def _tails(series: Floats) -> list[Verdict]:
    events = events_behind(series)
    if events < FEWEST_EVENTS and not is_end_of_a_tail(series):
        longer = ENOUGH_EVENTS / events
        words = (
            f"rare events: about {max(1.0, events):.0f} of them make up the variance, and how often they "
            f"come cannot be told from these: run about {longer:.0f} times as long"
        )
        return [Verdict("rare events", False, words, longer=longer)]
    if events < EVENTS_OF_HEAVY_TAILS and has_infinite_variance(series):
        words = (
            "heavy tails: the largest numbers are so large that the variance looks infinite, and no "
            "interval for the mean can be trusted: look at quantiles instead"
        )
        return [Verdict("heavy tails", False, words)]
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


def has_infinite_variance(series: Floats) -> bool:
    """Whether the largest entries look like those of a law without a variance.

    Hill's estimate of the tail index must be below 2 by nearly a standard error, and not much larger at the
    very end than further inside: tails with a variance fall off faster and faster, and so do events of one
    size, however rare.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> has_infinite_variance(rng.pareto(1.3, (1, 8000)))
    True
    >>> has_infinite_variance(rng.lognormal(size=(1, 8000)))
    False
    """
    tail = _tail_of(series)
    if tail is None:
        return False
    largest_index = (1.0 + TAIL_CONFIDENCE / np.sqrt(len(tail.steps))) / max(tail.inverse_index, LEAST_SQUARE)
    return bool(largest_index < FINITE_VARIANCE and tail.bend < SURE_OF_BEND)


def is_end_of_a_tail(series: Floats) -> bool:
    """Whether the few largest entries are in line with a tail that has a variance.

    Then they are no events of their own: how often one as large comes is told by those that are less large.
    The steps of a power, and of tails that fall off faster, are no larger at the end than inside; events of
    another size make one that is. The tail has a variance if its index is at least 2, or if it falls off
    faster and faster.

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
    few = int(FEWEST_EVENTS)
    largest, usual = float(tail.steps[:few].max()), max(float(tail.steps[few:].mean()), LEAST_SQUARE)
    chance = few * float(stats.f.sf(largest / usual, 2, 2 * (len(tail.steps) - few)))
    has_variance = tail.inverse_index * FINITE_VARIANCE < 1.0 or tail.bend > SURE_OF_VARIANCE
    return chance > IN_LINE and has_variance


class _Tail(NamedTuple):
    """The largest distances from the median of a series.

    For a power `steps`, weighted logarithms of the ratios of neighbours from the largest on, are independent
    and exponential, with `inverse_index` as their mean. `bend` says by how many standard errors the end falls
    off faster than what is inside.
    """

    steps: Floats
    inverse_index: float
    bend: float


def _tail_of(series: Floats) -> _Tail | None:
    """Return the tail of a series; None if it has too few entries, or ends with equal ones."""
    distances = np.sort(np.abs(series - np.median(series)), axis=None)[::-1]
    count = max(FEWEST_OF_TAIL, int(TAIL_SHARE * len(distances)))
    if len(distances) < FEWEST_FOR_TAIL or not distances[count] > 0.0:
        return None
    steps = np.arange(1, count + 1) * np.log(distances[:count] / distances[1 : count + 1])
    outer = int(OUTER_SHARE * count)
    end, inside, both = (_mean_without_largest(part) for part in (steps[:outer], steps[outer:], steps))
    if not (end > 0.0 and inside > 0.0):
        return None
    return _Tail(steps, both, float(np.log(inside / end) / np.sqrt(1.0 / outer + 1.0 / (count - outer))))


def _mean_without_largest(steps: Floats) -> float:
    """Return the mean of exponential numbers from all but the largest.

    The gap between usual numbers and events of another size is one step, and must not make a tail.
    """
    count = len(steps)
    largest_expected = float((1.0 / np.arange(1, count + 1)).sum())
    return float((steps.sum() - steps.max()) / (count - largest_expected))
