"""The values of an estimate as a panel of a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gainbias.report.figures.style import FAINT, INK, NEGATIVE, POSITIVE
from gainbias.report.figures.values import ValueView

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_values(view: ValueView, panel: Axes) -> None:
    """Draw values in their form."""
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
    panel.plot(places, view.values, color=POSITIVE, linewidth=1.3)
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Relative values, with intervals")
    panel.set_xlabel("observation")


def _draw_map(view: ValueView, panel: Axes) -> None:
    """Draw values over two numbers; white where too little was seen."""
    across, up = np.meshgrid(*view.axes, indexing="ij")
    values = np.where(view.known, view.values, np.nan).reshape(across.shape)
    largest = float(np.nanmax(np.abs(values))) if view.known.any() else 1.0
    mesh = panel.pcolormesh(across, up, values, cmap="RdBu", vmin=-largest, vmax=largest, shading="nearest")
    bar = panel.figure.colorbar(mesh, ax=panel)
    bar.outline.set_linewidth(0.0)
    panel.set_title("Relative values (white: seen too rarely)")
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
