"""The picture of a series: its batch means with what was found in them, and why the verdict is what it is.

`series_view` returns plain numbers, which `draw_series` and the page of a series draw. What shows why
depends on the verdict: the slow waves of the series, one period, or the tail of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gainbias.evaluation.gain.spectrum import LEAST_SQUARE, Waves, slow_amplitudes, slow_waves
from gainbias.evaluation.gain.verdict import FINITE_VARIANCE
from gainbias.evaluation.series_estimate import SeriesEstimate
from gainbias.report.figures.style import FAINT, INK, NEGATIVE, OKABE_ITO, POSITIVE
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
    """What shows why the verdict on a series is what it is.

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
        Means over batches.
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
        What the slow waves said; None if there were too few batches, or nothing changed.
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
    """Return the batch means after the warm-up, less the mean: from these the verdict comes."""
    cut = estimate.found_warm_up // estimate.batch_size
    return np.asarray(estimate.batch_means[:, cut:] - estimate.mean)


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
    lines = np.add.reduceat(estimate.batch_means[:MOST_CHAINS], starts, axis=1) / counts
    steps = (starts + counts / 2.0) * estimate.batch_size + (estimate.warm_up - estimate.found_warm_up)
    tested = judged_means(estimate)
    is_tested = tested.shape[1] >= FEWEST_TESTED and bool(np.ptp(tested) > 0.0)
    waves = slow_waves(tested) if is_tested and estimate.verdict.kind != "constant" else None
    end = estimate.diagnostics.num_numbers // chains + estimate.warm_up
    return SeriesView(
        steps=steps,
        lines=lines,
        size=merged * estimate.batch_size,
        warm_up=estimate.warm_up,
        end=end,
        segments=tuple(_segments(estimate, tested, end)),
        shift_at=estimate.verdict.at if estimate.verdict.kind == "level shift" else None,
        waves=waves,
        reason=None if waves is None else _reason(estimate, tested, waves),
    )


def _segments(estimate: SeriesEstimate, tested: Floats, end: int) -> list[Segment]:
    """Return lines that show what the verdict says."""
    verdict, first, level = estimate.verdict, estimate.warm_up, tested + estimate.mean
    if verdict.kind == "level shift" and verdict.at is not None:
        at = int(np.clip((verdict.at - first) // estimate.batch_size, 1, level.shape[1] - 1))
        before, after = float(level[:, :at].mean()), float(level[:, at:].mean())
        return [
            Segment((first, verdict.at), (before, before)),
            Segment((verdict.at, end), (after, after)),
        ]
    if verdict.kind == "drifting":
        place = (np.arange(level.shape[1]) + 0.5) / level.shape[1]
        slope, start = np.polyfit(place, level.mean(axis=0), 1)
        return [Segment((first, end), (float(start), float(start + slope)))]
    if verdict.kind == "chains disagree":
        means = level.mean(axis=1)[:MOST_CHAINS].tolist()
        return [Segment((first, end), (mean, mean), chain) for chain, mean in enumerate(means)]
    return []


def _reason(estimate: SeriesEstimate, tested: Floats, waves: Waves) -> Reason:
    verdict = estimate.verdict
    if verdict.kind == "periodic" and verdict.at is not None and verdict.at >= 2 * estimate.batch_size:
        return _period(tested + estimate.mean, verdict.at / estimate.batch_size, estimate.batch_size)
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


def _period(level: Floats, period: float, size: int) -> Reason:
    """Return the mean at each place of one period, which has `period` batches."""
    count = int(np.clip(period, 2, MOST_PHASES))
    places = ((np.arange(level.shape[1]) % period) / period * count).astype(np.int64)
    sums = np.bincount(places, weights=level.mean(axis=0), minlength=count)
    seen = np.bincount(places, minlength=count)
    kept = seen > 0
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
    return Reason("tail", distances[chosen], shares[chosen], compared)


DASHED = (0.0, (4.0, 1.5))

TITLES = {
    "waves": "Slow waves, against the level used",
    "period": "One period",
    "tail": "How far batch means are from the median",
}

AXES = {
    "waves": ("half turns in the whole series", "square of the wave / level used"),
    "period": ("steps", "level"),
    "tail": ("distance from the median", "share of batches that is further"),
}


def draw_series(estimate: SeriesEstimate, view: SeriesView, panel: Axes) -> None:
    """Draw the batch means, what was left out, the mean with its interval, and what the verdict names."""
    colours = OKABE_ITO if len(view.lines) > 1 else (POSITIVE,)
    for chain, line in enumerate(view.lines):
        panel.plot(view.steps, line, color=colours[chain % len(colours)], linewidth=0.8, alpha=0.7)
    after = (view.warm_up, view.end)
    if estimate.interval is not None:
        low, high = estimate.interval
        panel.fill_between(after, [low] * 2, [high] * 2, color=INK, alpha=0.25, linewidth=0)
    panel.plot(after, [estimate.mean] * 2, color=INK, linewidth=1.0)
    if view.warm_up:
        panel.axvspan(0, view.warm_up, color=FAINT, alpha=0.35, linewidth=0)
        panel.text(view.warm_up, 1.0, " left out", transform=panel.get_xaxis_transform(), va="top")
    for part in view.segments:
        colour = NEGATIVE if part.chain is None else colours[part.chain % len(colours)]
        panel.plot(part.steps, part.levels, color=colour, linewidth=2.0)
    if view.shift_at is not None:
        panel.axvline(view.shift_at, color=NEGATIVE, linewidth=1.0)
    panel.set_title(f"Verdict: {estimate.verdict.kind}")
    panel.set_ylabel("ratio, and how far each batch moves it" if estimate.is_ratio else "mean")
    panel.set_xlabel(f"step (means over {view.size:,})" if view.size > 1 else "step")


def draw_reason(reason: Reason, panel: Axes) -> None:
    """Draw why the verdict is what it is."""
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
        panel.set_ylim(bottom=reason.least)
        panel.axvspan(reason.across[0], reason.used, color=FAINT, alpha=0.35, linewidth=0)
    panel.set_title(TITLES[reason.form])
    panel.set_xlabel(AXES[reason.form][0])
    panel.set_ylabel(AXES[reason.form][1])
