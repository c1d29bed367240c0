"""The values of an estimate as a picture: of observations that are one or two numbers, or the extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gainbias.evaluation.estimate import MOST_LISTED, Estimate
from gainbias.evaluation.observations_automatic import BEYOND
from gainbias.features.maps import FeatureMap
from gainbias.features.matrix import FloatArray
from gainbias.report.style import FAINT, INK, look_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 60
"""More discrete observations than this are not drawn one by one."""

SHOWN = 6
"""So many of the best and of the worst are."""

ALONG = 200
ACROSS = 60
"""Points along each axis of a box of one and of two numbers."""


def has_values(estimate: Estimate) -> bool:
    """Whether there is something to draw: not for boxes of more than two numbers, or without bounds."""
    limits = estimate.observed.limits
    if limits.whole:
        return float(np.prod(limits.high - limits.low + 1.0)) <= MOST_LISTED
    return int(np.prod(limits.shape)) <= 2 and _box(estimate) is not None


def draw_values(estimate: Estimate, panel: Axes) -> None:
    """Draw the values in the form that fits their observations."""
    limits = estimate.observed.limits
    size = int(np.prod(limits.shape))
    if limits.whole and size == 2:
        ends = zip(limits.low, limits.high, strict=True)
        _draw_map(estimate, panel, *(np.arange(low, high + 1, dtype=np.int64) for low, high in ends))
    elif limits.whole and size == 1 and limits.high.max() - limits.low.min() < MOST_POINTS:
        _draw_points(estimate, panel)
    elif limits.whole:
        _draw_extremes(estimate, panel)
    else:
        box = _box(estimate)
        assert box is not None
        low, high = box
        if size == 1:
            _draw_line(estimate, panel, np.linspace(low[0], high[0], ALONG))
        else:
            _draw_map(estimate, panel, *(np.linspace(*ends, ACROSS) for ends in zip(low, high, strict=True)))


def _box(estimate: Estimate) -> tuple[FloatArray, FloatArray] | None:
    """Return finite bounds of observations, from the feature map or from the space."""
    choice: Any = estimate.observed.choice
    box = choice if isinstance(choice, FeatureMap) else estimate.observed.limits
    low, high = np.asarray(box.low, dtype=np.float64).ravel(), np.asarray(box.high, dtype=np.float64).ravel()
    return (low, high) if (np.maximum(np.abs(low), np.abs(high)) < BEYOND).all() else None


def _draw_points(estimate: Estimate, panel: Axes) -> None:
    limits, colour = estimate.observed.limits, look_of("single-chain").colour
    seen = np.arange(int(limits.low.min()), int(limits.high.max()) + 1).reshape(-1, *limits.shape)
    values, ends = estimate.value(seen), estimate.value_interval(seen)
    known = np.isfinite(ends).all(axis=1)
    places = seen.ravel()
    sides = np.abs(ends[known].T - values[known])
    look: dict[str, Any] = {"fmt": "o", "markersize": 3.0, "linewidth": 1.0, "color": colour}
    panel.errorbar(places[known], values[known], yerr=sides, **look)
    panel.plot(places[~known], values[~known], "o", color=FAINT, markersize=3.0)
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.locator_params(axis="x", integer=True)
    panel.set_title("Relative values, with intervals")
    panel.set_xlabel("observation" + (" (grey: seen too rarely for an interval)" if not known.all() else ""))


def _draw_line(estimate: Estimate, panel: Axes, places: FloatArray) -> None:
    seen, colour = places.reshape(-1, *estimate.observed.limits.shape), look_of("single-chain").colour
    values, ends = estimate.value(seen), estimate.value_interval(seen)
    ends = np.where(np.isfinite(ends), ends, np.nan)
    panel.fill_between(places, *ends.T, color=colour, alpha=0.2, linewidth=0)
    panel.plot(places, values, color=colour, linewidth=1.3)
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Relative values, with intervals")
    panel.set_xlabel("observation")


def _draw_map(estimate: Estimate, panel: Axes, first: Any, second: Any) -> None:
    """Draw values over two numbers; white where too little was seen."""
    across, up = np.meshgrid(first, second, indexing="ij")
    seen = np.stack([across.ravel(), up.ravel()], axis=1).reshape(-1, *estimate.observed.limits.shape)
    known = np.isfinite(estimate.value_interval(seen)).all(axis=1)
    values = np.where(known, estimate.value(seen), np.nan).reshape(across.shape)
    largest = float(np.nanmax(np.abs(values))) if known.any() else 1.0
    mesh = panel.pcolormesh(across, up, values, cmap="RdBu", vmin=-largest, vmax=largest, shading="nearest")
    bar = panel.figure.colorbar(mesh, ax=panel)
    bar.outline.set_linewidth(0.0)
    panel.set_title("Relative values (white: seen too rarely)")
    panel.set_xlabel("first number")
    panel.set_ylabel("second number")


def _draw_extremes(estimate: Estimate, panel: Axes) -> None:
    worst, best = estimate.extremes(SHOWN)
    pairs = [*worst, *(pair for pair in best[::-1] if pair not in worst)]
    seen = np.array([pair[0] for pair in pairs], dtype=np.int64)
    values = np.array([pair[1] for pair in pairs])
    sides = np.abs(estimate.value_interval(seen).T - values)
    colours = [look_of("single-chain" if value > 0.0 else "double-chain").colour for value in values]
    whiskers = {"linewidth": 0.8, "ecolor": INK}
    panel.barh(np.arange(len(pairs)), values, xerr=sides, color=colours, error_kw=whiskers)
    panel.set_yticks(np.arange(len(pairs)), [str(pair[0]) for pair in pairs])
    panel.axvline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Worst and best observations, with intervals")
    panel.set_xlabel("relative value")
