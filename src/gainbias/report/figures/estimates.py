"""The picture of an estimate: its gain over time, and the values of observations.

`value_view` chooses the form in which values are drawn, and `gain_range` the range of the gain. Both return
plain numbers, which the page of an estimate draws, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.estimate import Estimate, History, in_percent
from gainbias.evaluation.observations import NO_BOUND_BEYOND
from gainbias.evaluation.values.methods import NoValues
from gainbias.features.maps import FeatureMap
from gainbias.report.figures.style import FAINT, INK, NEGATIVE, POSITIVE, look_of, use_few_ticks
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BAND = 0.2
"""How dark a band is."""


def draw_gain(estimate: Estimate, panel: Axes) -> None:
    """Draw the gain over time."""
    history, colour = settled(estimate.history), look_of("single-chain").colour
    low, high = estimate.gain_interval
    is_alone, varied = len(history.gain) == 1, has_varied(history)
    label = f"{in_percent(estimate.confidence)} interval" if varied.any() and not is_alone else None
    panel.fill_between(
        history.transitions, history.low, history.high, where=varied.tolist(), color=colour, alpha=BAND,
        linewidth=0, label=label,
    )  # fmt: skip
    panel.plot(history.transitions, history.gain, color=colour, linewidth=1.3, label=label and "estimate")
    if is_alone:  # no line and no band can be seen
        panel.plot(history.transitions, history.gain, "o", color=colour)
        panel.vlines(history.transitions, low, high, color=colour)
    panel.axhline(estimate.gain, color=FAINT, linewidth=0.8, zorder=0)
    span = gain_range(estimate)
    if span is not None:
        panel.set_ylim(*span)
    panel.set_xscale("log")
    use_few_ticks(panel)
    if label is not None:
        panel.legend(loc="best")
    panel.set_title(f"Gain per {estimate.per}")
    panel.set_xlabel("transitions")


WIDE = 3.0
"""The chart of the gain begins where its interval stays narrower than this many times the last one."""

EDGE = 0.05
"""Room between what sets the range of the gain and the ends of its axis, as a share of the range."""

NEGLIGIBLE_WIDTH = 1e-12
"""An interval that is narrower, relative to the largest number of a chart, has no width."""


def gain_range(estimate: Estimate) -> tuple[float, float] | None:
    """Return the ends of an axis for the gain: early bands may be far wider than is worth showing.

    It shows all of what is drawn. ``None`` if the gain never changed, and no interval says how far it might.
    """
    history = settled(estimate.history)
    bands = [np.where(has_varied(history), end, np.nan) for end in (history.low, history.high)]
    drawn = np.array([history.gain, *bands])
    drawn = drawn[np.isfinite(drawn)]
    least, most = float(drawn.min()), float(drawn.max())
    edge = EDGE * (most - least)
    return None if least == most else (least - edge, most + edge)


def settled(history: History) -> History:
    """Return the part of a history that is drawn: from where its intervals stay not much wider than the last.

    All of it, if the last point has no interval.

    Examples
    --------
    >>> low, high = np.array([-9.0, 0.0, 1.0]), np.array([9.0, 4.0, 3.0])
    >>> settled(History(np.array([10, 20, 40]), np.array([1.0, 2.0, 2.0]), low, high)).transitions.tolist()
    [20, 40]
    """
    widths = np.where(has_varied(history), history.high - history.low, np.inf)
    too_wide = np.flatnonzero(~(widths <= WIDE * widths[-1]))
    first = int(too_wide[-1]) + 1 if np.isfinite(widths[-1]) and len(too_wide) else 0
    return History(
        history.transitions[first:], history.gain[first:], history.low[first:], history.high[first:]
    )


def has_varied(history: History) -> NDArray[np.bool_]:
    """Return at which times the gain has an interval with a width, finite or not.

    One without width, except for rounding, does not count: rewards did not vary, which does not say how
    far off the gain may be.
    """
    widths = history.high - history.low
    scale = np.max(np.abs([history.gain, widths]), where=np.isfinite([history.gain, widths]), initial=0.0)
    return np.asarray(widths > NEGLIGIBLE_WIDTH * scale)


MOST_DRAWN_OBSERVATIONS = 60
"""More discrete observations than this are not drawn one by one."""

SHOWN = 6
"""Number of the best, and of the worst, that are drawn instead."""

ALONG = 200
MOST_NUMBERS_SHOWN = 8
"""Observations of more numbers do not fit beside a point."""

ACROSS = 60
"""Points along each axis of a box of one and of two numbers."""

Form = Literal["points", "line", "map", "extremes"]


@dataclass(frozen=True, eq=False)
class ValueView:
    """Values of the observations that are drawn.

    Attributes
    ----------
    form : {"points", "line", "map", "extremes"}
        Discrete observations one by one, a box of one number, two numbers, or the worst and the best.
    seen : (m, ...) array
        The observations; those of a map have the second number change fastest.
    axes : tuple of arrays
        Numbers along the axes: one of points and of a line, two of a map, none of extremes.
    values : (m,) array
        nan where nothing similar was observed.
    intervals : (m, 2) array
        Infinite where too little was observed.
    """

    form: Form
    seen: NDArray[Any]
    axes: tuple[NDArray[Any], ...]
    values: Floats
    intervals: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is an interval, (m,)."""
        return np.isfinite(self.intervals[:, 1] - self.intervals[:, 0])

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Where there is a value without an interval, (m,)."""
        return ~self.known & np.isfinite(self.values)


def value_view(estimate: Estimate) -> ValueView | None:
    """Return the values that are drawn, or ``None``: for boxes of more than two numbers, or without bounds.

    Examples
    --------
    >>> import gainbias as gb
    >>> view = value_view(gb.evaluate_log({"state": [0, 1] * 500, "reward": [1.0, 3.0] * 500}))
    >>> view.form, view.axes[0].tolist(), view.values.shape, view.intervals.shape
    ('points', [0, 1], (2,), (2, 2))
    """
    if isinstance(estimate.learned, NoValues):
        return None
    limits = estimate.observed.limits
    size = int(np.prod(limits.shape))
    if estimate.observed.seen is not None:
        return _extremes(estimate) if size <= MOST_NUMBERS_SHOWN else None
    if limits.whole:
        every = estimate.observed.every()
        if every is None:
            return None
        if size == 1 and len(every) <= MOST_DRAWN_OBSERVATIONS:
            return _view(estimate, "points", every.ravel())
        if size != 2:
            return _extremes(estimate)
        axes = [np.arange(low, high + 1, dtype=np.int64) for low, high in _pairs(limits.low, limits.high)]
        return _view(estimate, "map", *axes)
    box = _box(estimate)
    if size > 2 or box is None or limits.leaves:
        return None
    count = ALONG if size == 1 else ACROSS
    axes = [np.linspace(low, high, count) for low, high in _pairs(*box)]
    return _view(estimate, "line" if size == 1 else "map", *axes)


def _pairs(low: Floats, high: Floats) -> Any:
    return zip(low.ravel(), high.ravel(), strict=True)


def _box(estimate: Estimate) -> tuple[Floats, Floats] | None:
    """Return finite bounds of observations, from the feature map or from the space."""
    choice: Any = estimate.observed.choice
    box = choice if isinstance(choice, FeatureMap) else estimate.observed.limits
    low, high = np.asarray(box.low, dtype=np.float64).ravel(), np.asarray(box.high, dtype=np.float64).ravel()
    return (low, high) if (np.maximum(np.abs(low), np.abs(high)) < NO_BOUND_BEYOND).all() else None


def _view(estimate: Estimate, form: Form, *axes: NDArray[Any]) -> ValueView:
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    seen = grid.reshape(-1, *estimate.observed.limits.shape)
    return ValueView(form, seen, axes, estimate.value(seen), estimate.value_interval(seen))


def _extremes(estimate: Estimate) -> ValueView:
    """Return the worst, upwards, then the best."""
    worst, best = estimate.extreme_rows(SHOWN)
    shown = {tuple(np.ravel(place)) for place, _ in worst}
    pairs = [*worst, *(pair for pair in best[::-1] if tuple(np.ravel(pair[0])) not in shown)]
    seen = np.array([place for place, _ in pairs], dtype=np.int64)
    seen = seen.reshape(len(pairs), *estimate.observed.limits.shape)
    values = np.array([value for _, value in pairs])
    return ValueView("extremes", seen, (), values, estimate.value_interval(seen))


def draw_values(view: ValueView, panel: Axes) -> None:
    """Draw the values of a view in its form."""
    drawers = {"points": _draw_points, "line": _draw_line, "map": _draw_map, "extremes": _draw_extremes}
    drawers[view.form](view, panel)


def _draw_points(view: ValueView, panel: Axes) -> None:
    known, [places], values = view.known, view.axes, view.values
    look: dict[str, Any] = {"fmt": "o", "markersize": 3.0, "linewidth": 1.0, "color": POSITIVE}
    panel.errorbar(places[known], values[known], yerr=_sides(view)[:, known], **look)
    panel.plot(places[view.rare], values[view.rare], "o", color=FAINT, markersize=3.0)
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.locator_params(axis="x", integer=True)
    panel.set_title("Relative values, with intervals")
    panel.set_xlabel("observation" + (" (grey: too little seen for an interval)" if view.rare.any() else ""))


def _draw_line(view: ValueView, panel: Axes) -> None:
    [places] = view.axes
    ends = np.where(view.known[:, None], view.intervals, np.nan)
    panel.fill_between(places, *ends.T, color=POSITIVE, alpha=0.2, linewidth=0)
    marker = "." if np.isnan(view.values).any() else ""  # a point between two gaps is no line
    panel.plot(places, view.values, color=POSITIVE, linewidth=1.3, marker=marker, markersize=3.0)
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Relative values, with intervals")
    panel.set_xlabel("observation")


def _draw_map(view: ValueView, panel: Axes) -> None:
    """Draw values over two numbers; grey where too little was seen, because white is a value of 0."""
    from matplotlib import colormaps

    across, up = np.meshgrid(*view.axes, indexing="ij")
    values = np.where(view.known, view.values, np.nan).reshape(across.shape)
    largest = float(np.nanmax(np.abs(values))) if view.known.any() else 1.0
    colours = colormaps["RdBu"].with_extremes(bad=FAINT)
    mesh = panel.pcolormesh(across, up, values, cmap=colours, vmin=-largest, vmax=largest, shading="nearest")
    bar = panel.figure.colorbar(mesh, ax=panel)
    bar.outline.set_linewidth(0.0)
    bar.set_label("relative value")
    panel.set_title("Relative values" + (" (grey: seen too rarely)" if not view.known.all() else ""))
    panel.set_xlabel("first number")
    panel.set_ylabel("second number")


def _draw_extremes(view: ValueView, panel: Axes) -> None:
    places = np.arange(len(view.values))
    colours = [POSITIVE if value > 0.0 else NEGATIVE for value in view.values]
    whiskers = {"linewidth": 0.8, "ecolor": INK}
    panel.barh(places, view.values, xerr=_sides(view), color=colours, error_kw=whiskers)
    panel.set_yticks(places, [str(seen) for seen in view.seen.tolist()])
    panel.axvline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Worst and best observations, with intervals")
    panel.set_xlabel("relative value")


def _sides(view: ValueView) -> Any:
    """Return how far intervals reach down and up from their values, (2, m)."""
    return np.abs(view.intervals.T - view.values)
