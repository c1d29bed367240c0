"""Exact bias and last estimates of the paper's algorithms on the maps of tasks, as a figure for print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas import DataFrame

from gainbias.features.matrix import FloatArray
from gainbias.report.data.results import Archive
from gainbias.report.data.scores import STUDIED
from gainbias.report.figures.style import FAINT, SIZES, drawing, new_figure
from gainbias.report.names import algorithm_title, task_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "cividis"
"""From blue to yellow: the same to all readers, and in print."""

GAP = 1
"""Cells between maps of one task."""


def draw_maps(results: Archive, protocol: str, size: str = "two-column") -> Figure | None:
    """Draw a row for each task with a map: the exact bias, and what each algorithm has learned at the end.

    Estimates are drawn without the constant by which all of their values are too high, in the colours of the
    exact bias. Values of the first instance of each task. None if no task has a map.
    """
    of_protocol = results.states[results.states["protocol"] == protocol]
    tasks = [str(task) for task in of_protocol["task"].unique()]
    if not tasks:
        return None
    shape, names = SIZES[size], ["Exact", *map(algorithm_title, STUDIED)]
    maps = [of_protocol[of_protocol["task"] == task].sort_values("state") for task in tasks]
    grids = [_spread(states, states["bias"].to_numpy()) for states in maps]
    heights = [grid.shape[0] / grid.shape[1] for grid in grids]
    with drawing(shape):
        figure = new_figure(shape.width, 0.3 + 0.16 * shape.width * sum(heights))
        panels = figure.subplots(
            len(tasks), len(names), squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        for row, task, states in zip(panels, tasks, maps, strict=True):
            _draw_row(row, states, _last(results, protocol, task))
            row[0].set_ylabel(task_title(task).replace(", ", ",\n"), rotation=0, ha="right", va="center")
        for panel, name in zip(panels[0], names, strict=True):
            panel.set_title(name)
    return figure


def _last(results: Archive, protocol: str, task: str) -> dict[str, FloatArray]:
    """Return the values of all states at the last checkpoint of each algorithm."""
    rows = results.values[(results.values["protocol"] == protocol) & (results.values["task"] == task)]
    last = rows.sort_values("step").groupby("algorithm", observed=True, sort=False)["values"].last()
    return {str(name): np.asarray(values, dtype=np.float64) for name, values in last.items()}


def _draw_row(panels: Any, states: DataFrame, estimates: dict[str, FloatArray]) -> None:
    from matplotlib.colors import AsinhNorm

    bias = states["bias"].to_numpy()
    drawn = bias[states["panel"] >= 0]
    middle = float(
        np.subtract(*np.quantile(drawn, [0.9, 0.1]))
    )  # what lies far outside must not hide all else
    scale = AsinhNorm(linear_width=middle or 1.0, vmin=drawn.min(), vmax=drawn.max())
    for panel, name in zip(panels, [None, *STUDIED], strict=True):
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
        values = bias if name is None else estimates.get(name, np.full(len(bias), np.nan))
        if np.isfinite(values).all():
            level = values - (values - bias).mean()
            panel.imshow(_spread(states, level), cmap=COLOURS, norm=scale, interpolation="nearest")
        else:
            panel.text(0.5, 0.5, "diverged", color=FAINT, ha="center", va="center", transform=panel.transAxes)


def _spread(states: DataFrame, values: FloatArray) -> FloatArray:
    """Return values on the rows and columns of their states, NaN elsewhere; several maps in a square."""
    states, values = states[states["panel"] >= 0], values[states["panel"] >= 0]
    panel, row, column = (states[name].to_numpy() for name in ("panel", "row", "column"))
    beside = math.ceil(math.sqrt(panel.max() + 1))
    height, width = row.max() + 1 + GAP, column.max() + 1 + GAP
    grid = np.full((-(-(panel.max() + 1) // beside) * height - GAP, beside * width - GAP), np.nan)
    grid[panel // beside * height + row, panel % beside * width + column] = values
    return grid
