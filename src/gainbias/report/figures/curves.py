"""Figures of the paper's study: learning curves of all tasks, profiles over them, and maps of the values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pandas import DataFrame

from gainbias.algorithms.registry import short_title
from gainbias.experiments.reproduce import method_title
from gainbias.experiments.statistics import bootstrap_interval, performance_profile, tail_of
from gainbias.report.data.results import (
    FLOOR_ALGORITHM,
    STUDIED,
    Archive,
    MissingDataError,
    Paper,
    Score,
    log_floor_ratios,
    score_arrays,
)
from gainbias.report.data.verdicts import PRINTED_ZERO
from gainbias.report.figures.style import (
    FAINT,
    INK,
    SIZES,
    drawing,
    few_ticks,
    look_of,
    new_figure,
    power_of_ten,
    tick_text,
)
from gainbias.tasks.registry import task_title
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Axis = Literal["steps", "transitions"]

DECADES = 3
"""Number of last decades of the runs that are shown: next to nothing is learned before."""

BAND, STRIP = 0.15, 0.25
"""How opaque spread and the strip of the paper's end points are."""

CARETDOWNBASE = 11
"""matplotlib's arrow head that hangs from its point."""

MARK: dict[str, Any] = {
    "marker": "o",
    "markersize": 3.4,
    "markeredgecolor": INK,
    "markeredgewidth": 0.4,
    "clip_on": False,
}


class DrawnCurve(NamedTuple):
    """Mean error of an algorithm on a task, and the middle 80% of its runs.

    Attributes
    ----------
    x : (checkpoints,) array
        Steps or transitions.
    mean, low, high : (checkpoints,) arrays
        Infinite where runs diverged.
    runs, diverged : int
    """

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    runs: int
    diverged: int

    def since(self, x: float) -> DrawnCurve:
        """Return the part from x on."""
        kept = self.x >= x
        return self._replace(x=self.x[kept], mean=self.mean[kept], low=self.low[kept], high=self.high[kept])


def draw_curves(
    results: Archive, score: Score, paper: Paper, axis: Axis = "steps", size: str = "two-column"
) -> Figure:
    """Draw a panel of learning curves for each task.

    Under the paper's own score the algorithms are those of its figure, and the floor.

    Parameters
    ----------
    results : Archive
    score : Score
        How errors are measured. The paper's end points are marked if it is measured as in the paper.
    paper : Paper
        For its end points, and the order of the tasks.
    axis : {"steps", "transitions"}
    size : {"two-column", "one-column"}

    Returns
    -------
    matplotlib.figure.Figure
        To be written by `style.save_figure`.
    """
    shape = SIZES[size]
    tasks = [task for task in paper.tasks if task in results.tasks(score.protocol)]
    if not tasks:
        raise MissingDataError(f"the results hold no task of the paper under protocol {score.protocol}")
    height = math.ceil(len(tasks) / shape.columns)
    with drawing(shape):
        figure = new_figure(shape.width, shape.panel_height * height + 0.75)
        axes = figure.subplots(height, shape.columns, squeeze=False).ravel()
        for panel, task in zip(axes, tasks, strict=False):
            curves = _shown_curves(results, task, score, axis)
            _draw_panel(panel, task, curves, _end_points(paper, task, score))
        for panel in axes[len(tasks) :]:
            panel.set_axis_off()
        shorter = results.manifest.get("shorten", 1)
        length = "" if shorter == 1 else f" (a quick look: 1/{shorter} of the paper's)"
        figure.supxlabel(axis.capitalize() + length, fontsize=shape.letters)
        figure.supylabel(_described(score), fontsize=shape.letters)
        _draw_legend(figure, _drawn(results, score), score, shape.legend_columns)
        figure.draw_without_rendering()  # computes the layout, once for all formats
        figure.set_layout_engine("none")
    return figure


def learning_curve(
    results: Archive, algorithm: str, task: str, score: Score, axis: Axis = "steps"
) -> DrawnCurve:
    """Summarise the runs of an algorithm on a task at each checkpoint.

    With few runs the middle 80% reach from the smallest to the largest.
    """
    rows = results.curve(algorithm, score)
    rows = rows[(rows["task"] == task) & (rows["step"] > 0)]
    if rows.empty:
        raise MissingDataError(f"the results hold no run of {algorithm} on {task}")
    wide = rows.pivot(index="step" if axis == "steps" else "transitions", columns="run", values="error")
    ordered = np.sort(wide.to_numpy(), axis=1)
    edge = tail_of(ordered.shape[1])
    return DrawnCurve(
        x=wide.index.to_numpy(dtype=np.float64),
        mean=ordered.mean(axis=1),
        low=ordered[:, edge],
        high=ordered[:, -1 - edge],
        runs=ordered.shape[1],
        diverged=int(np.isinf(ordered[-1]).sum()),
    )


def _shown_curves(results: Archive, task: str, score: Score, axis: Axis) -> dict[str, DrawnCurve]:
    """Return the last part of the curves of a task."""
    curves = {}
    for algorithm in _drawn(results, score):
        with suppress(MissingDataError):
            curves[algorithm] = learning_curve(results, algorithm, task, score, axis)
    end = max(curve.x[-1] for curve in curves.values())
    return {algorithm: curve.since(end / 10**DECADES) for algorithm, curve in curves.items()}


def _drawn(results: Archive, score: Score) -> list[str]:
    """Return the algorithms that are drawn."""
    found = results.algorithms(score.protocol)
    return [name for name in found if score.kind != "paper" or name in (*STUDIED, FLOOR_ALGORITHM)]


def _described(score: Score) -> str:
    target = {"bias": "the bias", "paper": "the paper's fixed point", "own": "the own limit"}[score.target]
    kind = {"full": "", "centred": ", centred", "quotient": ", up to a constant", "paper": ""}[score.kind]
    return f"Distance to {target}{kind}"


def _end_points(paper: Paper, task: str, score: Score) -> DataFrame:
    """Return the rows of the paper's table for a task, if the score is its own."""
    printed = paper.final_errors()
    return printed[(printed["task"] == task) & (score.kind == "paper")]


def _draw_panel(panel: Axes, task: str, curves: dict[str, DrawnCurve], printed: DataFrame) -> None:
    """Draw curves, spread and end points of a task."""
    for algorithm, curve in curves.items():
        _draw_curve(panel, algorithm, curve)
    end = max(curve.x[-1] for curve in curves.values())
    panel.set_title(task_title(task))
    panel.set(xscale="log", yscale="log", xlim=(end / 10**DECADES, end))
    panel.set_xticks(few_ticks(*panel.get_xlim()))
    _limit_heights(panel, curves, printed)
    if len(printed):
        _draw_end_points(panel, end, printed.set_index("algorithm")["mean"])
    _say_who_diverged(panel, curves)
    panel.minorticks_off()
    for axis, text in ((panel.xaxis, power_of_ten), (panel.yaxis, tick_text)):
        axis.set_label_coords(0.0, 0.0)  # it has no label, so no position for one must be searched
        axis.set_major_formatter(lambda value, _, text=text: text(value))  # type: ignore[misc]


def _draw_curve(panel: Axes, algorithm: str, curve: DrawnCurve) -> None:
    look, drawn = look_of(algorithm), np.isfinite(curve.mean)
    panel.plot(
        curve.x[drawn], curve.mean[drawn], color=look.colour, linestyle=look.dashes, linewidth=look.width
    )
    if algorithm != FLOOR_ALGORITHM:
        kept = drawn & np.isfinite(curve.high)
        panel.fill_between(
            curve.x[kept], curve.low[kept], curve.high[kept], color=look.colour, alpha=BAND, linewidth=0
        )


def _limit_heights(panel: Axes, curves: dict[str, DrawnCurve], printed: DataFrame) -> None:
    """Choose the heights by what is compared: least squares on a handful of transitions may be far above."""
    parts = [printed["mean"].to_numpy(dtype=np.float64).clip(min=PRINTED_ZERO)]
    for algorithm, curve in curves.items():
        parts += [curve.mean[-1:]] if algorithm == FLOOR_ALGORITHM else [curve.mean, curve.low]
    heights = np.concatenate(parts)
    heights = heights[np.isfinite(heights) & (heights > 0)]
    if heights.size:
        margin = max(1.1, (heights.max() / heights.min()) ** 0.07)
        panel.set_ylim(heights.min() / margin, heights.max() * margin)
        panel.set_yticks(few_ticks(*panel.get_ylim()))


def _draw_end_points(panel: Axes, end: float, printed: Mapping[str, float]) -> None:
    """Mark the printed means side by side in a strip on the right; arrows for those of 0.00."""
    width = 10 ** (0.06 * DECADES)
    panel.set_xlim(right=end * width ** (len(printed) + 0.4))
    panel.axvspan(end, panel.get_xlim()[1], color=FAINT, alpha=STRIP, linewidth=0, zorder=0)
    for place, algorithm in enumerate(name for name in STUDIED if name in printed):
        mean, look = printed[algorithm], look_of(algorithm)
        marker = look.marker if mean > 0 else CARETDOWNBASE
        panel.plot(
            end * width ** (place + 0.7),
            max(mean, PRINTED_ZERO),
            color=look.colour,
            **MARK | {"marker": marker},
        )


def _say_who_diverged(panel: Axes, curves: dict[str, DrawnCurve]) -> None:
    lost = [(name, curve) for name, curve in curves.items() if curve.diverged]
    for place, (algorithm, curve) in enumerate(lost):
        panel.annotate(
            f"{curve.diverged} of {curve.runs} diverged",
            (0.03, 0.06 + 0.13 * place),
            xycoords="axes fraction",
            color=look_of(algorithm).colour,
            fontsize="x-small",
        )


def _draw_legend(figure: Figure, algorithms: list[str], score: Score, columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for algorithm in algorithms:
        look, marked = look_of(algorithm), score.kind == "paper" and algorithm in STUDIED
        mark = MARK | {"marker": look.marker} if marked else {}
        handles.append(Line2D([], [], color=look.colour, linestyle=look.dashes, linewidth=look.width, **mark))
    labels = [method_title(name) + (" (floor)" if name == FLOOR_ALGORITHM else "") for name in algorithms]
    handles.append(Patch(color=look_of("single-chain").colour, alpha=BAND, linewidth=0))
    labels.append("Middle 80% of runs")
    if score.kind == "paper":
        strip = Patch(color=FAINT, alpha=STRIP, linewidth=0)
        handles.append((strip, Line2D([], [], color="white", linestyle="", **MARK)))
        labels.append("Printed in the paper")
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.4)


LOG_THRESHOLDS = np.linspace(0.0, 2.0, 81)
"""Profiles reach from the floor to a hundred times it."""


def draw_profiles(results: Archive, scores: Mapping[str, Score], size: str = "two-column") -> Figure:
    """Draw the share of runs whose error is within a multiple of that of least squares on the same data."""
    rng, shape = np.random.default_rng(0), SIZES[size]
    with drawing(shape):
        figure = new_figure(shape.width, shape.panel_height + 0.83)
        panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
        for panel, (name, score) in zip(panels, scores.items(), strict=True):
            for algorithm, ratios in log_floor_ratios(score_arrays(results, score)).items():
                look = look_of(algorithm)
                band = bootstrap_interval(
                    lambda drawn: performance_profile(drawn, LOG_THRESHOLDS), ratios, rng=rng, resamples=500
                )
                x = 10**LOG_THRESHOLDS
                panel.plot(x, band.estimate, color=look.colour, linestyle=look.dashes, linewidth=look.width)
                panel.fill_between(x, band.low, band.high, color=look.colour, alpha=0.15, linewidth=0)
            panel.set_title(name.capitalize())
            panel.set(xscale="log", xlim=(1, 100), ylim=(0, 1.02), xticks=[1, 10, 100], yticks=[0, 0.5, 1])
            panel.minorticks_off()
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        figure.supxlabel("Error, in multiples of the least-squares error", fontsize=shape.letters)
        figure.supylabel("Share of runs", fontsize=shape.letters)
        _draw_profile_legend(
            figure,
            [name for name in results.algorithms("fair") if name != FLOOR_ALGORITHM],
            shape.legend_columns,
        )
    return figure


def _draw_profile_legend(figure: Figure, algorithms: list[str], columns: int) -> None:
    from matplotlib.lines import Line2D

    looks = [look_of(name) for name in algorithms]
    handles = [Line2D([], [], color=k.colour, linestyle=k.dashes, linewidth=k.width) for k in looks]
    titles = [method_title(name) for name in algorithms]
    figure.legend(handles, titles, loc="outside upper center", ncols=columns)


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
    shape, names = SIZES[size], ["Exact", *map(short_title, STUDIED)]
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


def _last(results: Archive, protocol: str, task: str) -> dict[str, Floats]:
    """Return the values of all states at the last checkpoint of each algorithm."""
    rows = results.values[(results.values["protocol"] == protocol) & (results.values["task"] == task)]
    last = rows.sort_values("step").groupby("algorithm", observed=True, sort=False)["values"].last()
    return {str(name): np.asarray(values, dtype=np.float64) for name, values in last.items()}


def _draw_row(panels: Any, states: DataFrame, estimates: dict[str, Floats]) -> None:
    from matplotlib.colors import AsinhNorm

    bias = states["bias"].to_numpy()
    drawn = bias[states["panel"] >= 0]
    middle = float(
        np.subtract(*np.quantile(drawn, [0.9, 0.1]))
    )  # values far outside must not hide everything else
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


def _spread(states: DataFrame, values: Floats) -> Floats:
    """Return values on the rows and columns of their states, NaN elsewhere; several maps in a square."""
    states, values = states[states["panel"] >= 0], values[states["panel"] >= 0]
    panel, row, column = (states[name].to_numpy() for name in ("panel", "row", "column"))
    beside = math.ceil(math.sqrt(panel.max() + 1))
    height, width = row.max() + 1 + GAP, column.max() + 1 + GAP
    grid = np.full((-(-(panel.max() + 1) // beside) * height - GAP, beside * width - GAP), np.nan)
    grid[panel // beside * height + row, panel % beside * width + column] = values
    return grid
