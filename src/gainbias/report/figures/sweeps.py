"""Figures of a sweep for print: errors over step sizes, errors over steps, and what is best.

`write_sweep_figures` draws them from what `data.sweep_means` computes. `looks_of` gives each series one look,
here and on the page.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas import DataFrame

from gainbias.experiments.inspection import MOST_PANELS
from gainbias.report.data.sweep_means import for_charts
from gainbias.report.figures.style import (
    INK,
    OKABE_ITO,
    SIZES,
    Dashes,
    LineStyle,
    Size,
    drawing,
    look_of,
    new_figure,
    save_figure,
    use_few_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_RATIO = 1000.0
"""Of the largest error that is shown to the smallest."""

Drawer = Callable[[Any, DataFrame, Mapping[str, LineStyle]], None]


def write_sweep_figures(points: DataFrame, best: DataFrame, common: str | None, folder: Path) -> list[Path]:
    """Write the figures of each metric in all sizes, those of a size to a folder of that name."""
    looks, paths = looks_of(points["series"].unique()), []
    (points, over_paths), (best, _) = for_charts(points), for_charts(best)
    for number, metric in enumerate(points["metric"].unique(), 1):
        own, chosen = points[points["metric"] == metric], best[best["metric"] == metric]
        at_best = own.merge(chosen[["task", "series", "schedule"]], on=["task", "series", "schedule"])
        charts: dict[str, tuple[DataFrame, Drawer]] = {
            "sensitivity": (own, _draw_sensitivity),
            "best-steps": (chosen, _draw_best),
            "curves-best": (at_best, _draw_curves),
        }
        if common is not None:
            charts["curves-common"] = own[own["schedule"] == common], _draw_curves
        for (name, (rows, draw)), (width, size) in itertools.product(charts.items(), SIZES.items()):
            figure = _panels(rows, metric, draw, looks, size, over_paths)
            paths += save_figure(figure, folder / width / f"{name}-{number}", size)
    return paths


def _panels(
    rows: DataFrame,
    title: str,
    draw: Drawer,
    looks: Mapping[str, LineStyle],
    size: Size,
    over_paths: Sequence[str],
) -> Figure:
    """Return a figure with a panel for each task and one legend."""
    tasks = list(rows["task"].unique())[:MOST_PANELS]
    height = -(-len(tasks) // size.columns)
    columns = max(1, size.legend_columns - 1)  # names of series are long
    shown = [name for name in looks if (rows["series"] == name).any()]
    legend = 0.16 * max(0, -(-len(shown) // columns) - 3)  # beyond what the margin has room for
    with drawing(size):
        figure = new_figure(size.width, 0.9 + legend + 1.25 * size.panel_height * height)
        figure.suptitle(title[:1].upper() + title[1:], x=0.01, ha="left", fontsize=size.letters)
        for place, task in enumerate(tasks):
            axes = figure.add_subplot(height, size.columns, place + 1)
            axes.set_title(task + ("\none instance, intervals over its paths" if task in over_paths else ""))
            draw(axes, rows[rows["task"] == task], looks)
        handles = dict(pair for axes in figure.axes for pair in _legend(axes))
        figure.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=columns)
    return figure


def _legend(axes: Any) -> list[tuple[str, Any]]:
    handles, labels = axes.get_legend_handles_labels()
    return list(zip(labels, handles, strict=True))


def _draw_sensitivity(axes: Any, rows: DataFrame, looks: Mapping[str, LineStyle]) -> None:
    """Draw errors at the last step against the step size, with intervals, without runs that diverged."""
    ends = rows.groupby("series")["step"].transform("max")
    for series, own in rows[rows["step"] == ends].groupby("series"):
        own, look = own.sort_values("a"), looks[series]
        finite = own[np.isfinite(own["mean"])]
        if own["a"].isna().all():
            axes.axhline(
                finite["mean"].min(), color=look.colour, linestyle=look.dashes, label=series, linewidth=0.9
            )
            continue
        reach = [finite["mean"] - finite["low"], finite["high"] - finite["mean"]]
        axes.errorbar(
            finite["a"], finite["mean"], np.nan_to_num(reach), **_style(look, series), elinewidth=0.7
        )
    axes.set(xlabel="step size a")
    _scale(axes, rows["mean"])
    use_few_ticks(axes)


def _draw_curves(axes: Any, rows: DataFrame, looks: Mapping[str, LineStyle]) -> None:
    """Draw means with their intervals, and thin dashed lines for exact root mean squares."""
    for series, own in rows[rows["step"] > 0].groupby("series"):
        look, finite = looks[series], own[np.isfinite(own["mean"])]
        axes.plot(finite["step"], finite["mean"], **{**_style(look, series), "marker": ""})
        axes.fill_between(
            finite["step"], finite["low"], finite["high"], color=look.colour, alpha=0.15, linewidth=0
        )
        axes.plot(own["step"], own["exact"], color=INK, linewidth=0.6, linestyle=(0.0, (6.0, 2.0)))
    axes.set(xlabel="steps")
    _scale(axes, rows["mean"])
    use_few_ticks(axes)


def _draw_best(axes: Any, rows: DataFrame, looks: Mapping[str, LineStyle]) -> None:
    """Draw a row for each series, the best on top."""
    finite = rows[np.isfinite(rows["mean"])].sort_values("mean", ascending=False)
    for height, row in enumerate(finite.itertuples()):
        reach = np.nan_to_num([[row.mean - row.low], [row.high - row.mean]])
        axes.errorbar(
            [row.mean], [height], xerr=reach, **_style(looks[row.series], row.series), elinewidth=0.9
        )
    axes.set(xscale="log" if (finite["mean"] > 0).any() else "linear")
    axes.set(yticks=[], xlabel="error at the end, at the best step size")
    use_few_ticks(axes)


def _scale(axes: Any, means: Any) -> None:
    """Make scales logarithmic, and leave out far too large steps, which would squeeze all others together."""
    known = means[np.isfinite(means) & (means > 0)]
    if len(known):  # otherwise nothing is drawn, which a logarithmic scale does not allow
        axes.set(xscale="log", yscale="log")
        axes.set_ylim(0.8 * known.min(), 1.25 * min(known.max(), MOST_RATIO * known.min()))


def _style(look: LineStyle, label: str) -> dict[str, Any]:
    return {
        "color": look.colour,
        "marker": look.marker,
        "linestyle": look.dashes,
        "markersize": 2.4,
        "linewidth": 1.0,
        "label": label,
    }


OTHERS: tuple[tuple[Dashes, str], ...] = (
    ("-", "o"),
    ((0.0, (4.0, 1.5)), "s"),
    ((0.0, (1.0, 1.5)), "D"),
    ((0.0, (5.0, 1.5, 1.0, 1.5)), "v"),
)
"""Dashes and marks of further series of an algorithm."""


def looks_of(series: Iterable[str]) -> dict[str, LineStyle]:
    """Return a look for each series, which is named by its algorithm and what else it has.

    The first series of an algorithm looks like the algorithm everywhere; others have its colour with other
    dashes and marks, and a different colour only if these run out.

    Examples
    --------
    >>> looks = looks_of(["td-lambda, trace_decay 0", "td-lambda, trace_decay 0.9", "lstd"])
    >>> [look.colour for look in looks.values()]
    ['#000000', '#009E73', '#009E73']
    """
    looks: dict[str, LineStyle] = {}
    for name in sorted(series):
        own = look_of(name.partition(",")[0])
        colours = [own.colour, *(colour for colour in OKABE_ITO if colour != own.colour)]
        others = (
            own._replace(colour=colour, dashes=dashes, marker=marker)
            for colour, (dashes, marker) in itertools.product(colours, OTHERS)
        )
        taken = {(look.colour, look.dashes) for look in looks.values()}
        free = (look for look in (own, *others) if (look.colour, look.dashes) not in taken)
        looks[name] = next(free, own)
    return looks
