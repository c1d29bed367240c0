"""The picture of a series: its batch means with the findings, and the reason for the verdict.

`series_view` returns plain numbers, which `draw_series` and the page of a series draw. The picture of
the reason depends on the verdict: the slow waves of the series, one period, or the tail of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gainbias.evaluation.gain.spectrum import LEAST_SQUARE, Waves, slow_amplitudes, slow_waves
from gainbias.evaluation.gain.verdict import FINITE_VARIANCE
from gainbias.evaluation.series_estimate import SeriesEstimate
from gainbias.report.figures.style import FAINT, INK, NEGATIVE, OKABE_ITO, POSITIVE, use_few_ticks
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 400
"""Most batch means that are drawn of all chains: neighbours are averaged."""

FEWEST_DRAWN = 60
"""Most that are drawn of each chain, however many chains there are."""

MOST_CHAINS = 12
"""Chains that are drawn, however many there are."""

FEWEST_TESTED = 4
"""Batch means from which slow waves are taken."""

SMALLEST_WAVE = 10.0
"""Single waves may be smaller than their neighbours' mean by any factor; this is as far as they are shown."""

MOST_PHASES = 48
"""Points that one period is drawn with."""

MOST_OF_TAIL = 300
"""Points that a tail is drawn with."""

TAIL_SHARE = 0.02
"""Share of the batches beyond which a tail is compared with one whose variance is just infinite."""


@dataclass(frozen=True)
class Segment:
    """A straight line in the picture of a series, from one step and level to another.

    Attributes
    ----------
    steps, levels : (float, float)
        Where it begins and ends.
    chain : int or None
        To which chain it belongs.
    """

    steps: tuple[float, float]
    levels: tuple[float, float]
    chain: int | None = None


@dataclass(frozen=True, eq=False)
class Reason:
    """The picture of the reason for the verdict on a series.

    Attributes
    ----------
    form : {"waves", "period", "tail"}
        Squares of the slow waves; the mean at each place of a period; or how many batch means are how far
        from the median.
    across, up : (n,) arrays
        What is drawn: along the horizontal axis and along the vertical one.
    smooth : (2, m) array
        A line through many points, or one to compare with, across and up; it may be empty.
    used : int
        Waves that were averaged for the interval; 0 for the other forms.
    least : float or None
        Where the vertical axis begins, if not at the smallest point.
    """

    form: Literal["waves", "period", "tail"]
    across: Floats
    up: Floats
    smooth: Floats
    used: int = 0
    least: float | None = None


@dataclass(frozen=True, eq=False)
class SeriesView:
    """What is drawn of a series.

    Attributes
    ----------
    steps : (n,) array
        The middle of each batch; numbers that `skip` left out are counted, but not drawn.
    lines : (chains, n) array
        Means over batches; over their time, if the mean is over time. Those that last no time are left out.
    size : int
        Numbers in a batch as it is drawn.
    warm_up : int
        First steps that were left out: because they were found to be different, or by `skip`.
    end : int
        Where the series ends.
    segments : tuple of Segment
        Levels before and after a shift, the line of a drift, or the mean of each chain that disagrees.
    shift_at : float or None
        Where the level shifts.
    waves : Waves or None
        The result of the slow waves; None if there were too few batches, or nothing changed.
    reason : Reason or None
    """

    steps: Floats
    lines: Floats
    size: int
    warm_up: int
    end: int
    segments: tuple[Segment, ...]
    shift_at: float | None
    waves: Waves | None
    reason: Reason | None


def judged_means(estimate: SeriesEstimate) -> Floats:
    """Return the batch means after the warm-up, less the mean, on which the verdict is based.

    For a mean over time they are weighted: a batch that lasts twice as long moves the mean twice as far.
    """
    cut = estimate.found_warm_up // estimate.batch_size
    apart, durations = estimate.batch_means[:, cut:] - estimate.mean, estimate.durations
    if durations is None:
        return np.asarray(apart)
    per_number = float(durations[:, cut:].sum()) / estimate.diagnostics.num_numbers
    return np.asarray(apart * durations[:, cut:] / (estimate.batch_size * per_number))


def _weights(estimate: SeriesEstimate) -> Floats:
    """Return how much each batch counts in a mean over several of them, (chains, batches), never 0."""
    if estimate.durations is None:
        return np.ones_like(estimate.batch_means)
    return np.maximum(estimate.durations, LEAST_SQUARE)


def series_view(estimate: SeriesEstimate) -> SeriesView | None:
    """Return what is drawn of a series; ``None`` if there is nothing.

    Examples
    --------
    >>> import gainbias as gb
    >>> view = series_view(gb.evaluate_series(np.random.default_rng(0).normal(size=10_000)))
    >>> view.lines.shape, view.size, view.reason.form, view.reason.used
    ((1, 385), 26, 'waves', 12)
    """
    chains, batches = estimate.batch_means.shape
    if not batches or not np.isfinite(estimate.batch_means).all():
        return None
    merged = -(-batches // max(FEWEST_DRAWN, MOST_DRAWN // chains))
    starts = np.arange(0, batches, merged)
    counts = np.diff(starts, append=batches)
    weights = _weights(estimate)
    sums, totals = (
        np.add.reduceat(part, starts, axis=1) for part in (estimate.batch_means * weights, weights)
    )
    steps = (starts + counts / 2.0) * estimate.batch_size + (estimate.warm_up - estimate.found_warm_up)
    tested = judged_means(estimate)
    is_tested = tested.shape[1] >= FEWEST_TESTED and bool(np.ptp(tested) > 0.0)
    waves = slow_waves(tested) if is_tested and estimate.verdict.kind != "constant" else None
    end = estimate.diagnostics.num_numbers // chains + estimate.warm_up
    is_drawn = (totals > counts * LEAST_SQUARE).any(axis=0)
    return SeriesView(
        steps=steps[is_drawn],
        lines=(sums / totals)[:MOST_CHAINS, is_drawn],
        size=merged * estimate.batch_size,
        warm_up=estimate.warm_up,
        end=end,
        segments=tuple(_segments(estimate, end)),
        shift_at=estimate.verdict.at if estimate.verdict.kind == "level shift" else None,
        waves=waves,
        reason=None if waves is None else _reason(estimate, tested, waves),
    )


def _segments(estimate: SeriesEstimate, end: int) -> list[Segment]:
    """Return lines that show what the verdict says."""
    verdict, first = estimate.verdict, estimate.warm_up
    level, weights = _levels(estimate)
    if verdict.kind == "level shift" and verdict.at is not None:
        at = int(np.clip((verdict.at - first) // estimate.batch_size, 1, level.shape[1] - 1))
        before = float(np.average(level[:, :at], weights=weights[:, :at]))
        after = float(np.average(level[:, at:], weights=weights[:, at:]))
        return [
            Segment((first, verdict.at), (before, before)),
            Segment((verdict.at, end), (after, after)),
        ]
    if verdict.kind == "drifting":
        place = (np.arange(level.shape[1]) + 0.5) / level.shape[1]
        heights, counted = np.average(level, axis=0, weights=weights), np.sqrt(weights.sum(axis=0))
        slope, start = np.polyfit(place, heights, 1, w=counted)
        return [Segment((first, end), (float(start), float(start + slope)))]
    if verdict.kind == "chains disagree":
        means = np.average(level, axis=1, weights=weights)[:MOST_CHAINS].tolist()
        return [Segment((first, end), (mean, mean), chain) for chain, mean in enumerate(means)]
    return []


def _levels(estimate: SeriesEstimate) -> tuple[Floats, Floats]:
    """Return batch means after the warm-up, and their weights, each (chains, batches)."""
    cut = estimate.found_warm_up // estimate.batch_size
    return estimate.batch_means[:, cut:], _weights(estimate)[:, cut:]


def _reason(estimate: SeriesEstimate, tested: Floats, waves: Waves) -> Reason:
    verdict = estimate.verdict
    if verdict.kind == "periodic" and verdict.at is not None and verdict.at >= 2 * estimate.batch_size:
        return _period(*_levels(estimate), verdict.at / estimate.batch_size, estimate.batch_size)
    if verdict.kind in ("heavy tails", "rare events"):
        return _tail(tested)
    return _waves(tested, waves)


def _waves(tested: Floats, waves: Waves) -> Reason:
    """Return squares of the slow waves relative to the level that the interval rests on."""
    amplitudes, used = slow_amplitudes(tested)
    squares = (amplitudes**2).mean(axis=0) / max(waves.long_run_variance, LEAST_SQUARE)
    places = np.arange(1.0, len(squares) + 1.0)
    starts = np.append(0, 3 * 2 ** np.arange(8) - 1)  # 1 and 2, 3 to 5, 6 to 11, ...
    starts = starts[starts < len(squares)]
    counts = np.diff(starts, append=len(squares))
    smooth = [np.add.reduceat(values, starts) / counts for values in (places, squares)]
    least = float(np.min(smooth[1], where=smooth[1] > 0.0, initial=1.0)) / SMALLEST_WAVE
    return Reason("waves", places, squares, np.array(smooth), used, least)


def _period(level: Floats, weights: Floats, period: float, size: int) -> Reason:
    """Return the mean at each place of one period, which has `period` batches."""
    count = int(np.clip(period, 2, MOST_PHASES))
    places = ((np.arange(level.shape[1]) % period) / period * count).astype(np.int64)
    sums = np.bincount(places, weights=(level * weights).sum(axis=0), minlength=count)
    seen = np.bincount(places, weights=weights.sum(axis=0), minlength=count)
    kept = seen > 0.0
    across = (np.arange(count) + 0.5) / count * period * size
    return Reason("period", across[kept], sums[kept] / seen[kept], np.zeros((2, 0)))


def _tail(tested: Floats) -> Reason:
    """Return which share of the batch means is further from the median than each of the largest distances."""
    distances = np.sort(np.abs(tested - np.median(tested)), axis=None)[::-1]
    shares = np.arange(1, len(distances) + 1) / len(distances)
    seen = distances > 0.0
    distances, shares = distances[seen], shares[seen]
    chosen = np.unique(np.geomspace(1, len(distances), MOST_OF_TAIL).astype(np.int64)) - 1
    begin = min(max(1, int(TAIL_SHARE * tested.size)), len(distances) - 1)
    fall = np.geomspace(distances[begin], max(distances[0], distances[begin]), 2)
    compared = np.array([fall, shares[begin] * (fall / fall[0]) ** -FINITE_VARIANCE])
    return Reason("tail", distances[chosen], shares[chosen], compared, least=float(shares[0]) / 2.0)


DASHED = (0.0, (4.0, 1.5))

TITLES = {
    "waves": "Periodogram at low frequencies",
    "period": "One period",
    "tail": "How far batch means are from the median",
}

AXES = {
    "waves": ("frequency (half cycles per run, log)", "periodogram / level used (log)"),
    "period": ("steps", "level"),
    "tail": ("distance from the median", "share of batches that is further"),
}


def draw_series(estimate: SeriesEstimate, view: SeriesView, panel: Axes) -> None:
    """Draw the batch means, what was left out, the mean with its interval, and the verdict's findings."""
    colours = OKABE_ITO if len(view.lines) > 1 else (POSITIVE,)
    for chain, line in enumerate(view.lines):
        panel.plot(view.steps, line, color=colours[chain % len(colours)], linewidth=0.6, alpha=0.6)
    after = (view.warm_up, view.end)
    if estimate.interval is not None:
        low, high = estimate.interval
        panel.fill_between(after, [low] * 2, [high] * 2, color=INK, alpha=0.25, linewidth=0)
    panel.plot(after, [estimate.mean] * 2, color=INK, linewidth=1.2)
    if view.warm_up:
        panel.axvspan(0, view.warm_up, color=FAINT, alpha=0.35, linewidth=0)
        panel.text(view.warm_up, 1.0, " left out", transform=panel.get_xaxis_transform(), va="top")
    for part in view.segments:
        colour = NEGATIVE if part.chain is None else colours[part.chain % len(colours)]
        panel.plot(part.steps, part.levels, color=colour, linewidth=2.0)
    if view.shift_at is not None:
        panel.axvline(view.shift_at, color=NEGATIVE, linewidth=1.0)
    panel.set_title(f"Verdict: {estimate.verdict.kind}")
    mean, pieces = "mean", f"{view.size:,}"
    if estimate.is_over_time:
        mean, pieces = "mean over time", f"the time of {view.size:,} rows"
    panel.set_ylabel("ratio, and how far each batch moves it" if estimate.is_ratio else mean)
    panel.set_xlabel(axis_of(estimate) + (f" (means over {pieces})" if view.size > 1 else ""))


def axis_of(estimate: SeriesEstimate) -> str:
    """Return what the horizontal axis counts; rows that hold for some time are no steps of equal length."""
    return "row" if estimate.is_over_time else "step"


def draw_reason(reason: Reason, panel: Axes) -> None:
    """Draw the reason for the verdict."""
    if reason.form == "period":
        panel.plot(reason.across, reason.up, "o-", color=POSITIVE, markersize=2.5, linewidth=1.0)
    else:
        panel.plot(reason.across, reason.up, ".", color=FAINT, markersize=3.0)
        panel.set(xscale="log", yscale="log")
    if reason.form == "tail":
        panel.plot(*reason.smooth, color=INK, linewidth=0.8, linestyle=DASHED)
    if reason.form == "waves":
        panel.plot(*reason.smooth, color=POSITIVE, linewidth=1.3)
        panel.axhline(1.0, color=INK, linewidth=0.8, linestyle=DASHED)
        panel.axvspan(reason.across[0], reason.used, color=FAINT, alpha=0.35, linewidth=0)
        words = " the interval\n rests on these"
        panel.text(reason.across[0], 0.03, words, transform=panel.get_xaxis_transform(), va="bottom")
    if reason.least is not None:
        panel.set_ylim(bottom=reason.least)
    use_few_ticks(panel)
    panel.set_title(TITLES[reason.form])
    panel.set_xlabel(AXES[reason.form][0])
    panel.set_ylabel(AXES[reason.form][1])
