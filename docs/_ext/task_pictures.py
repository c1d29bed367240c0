"""The exact bias of a task, drawn where its states are."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import AsinhNorm

import gainbias as gb
from docs._ext.pictures import WEB
from gainbias.report.figures.style import INK, new_figure
from gainbias.tasks.task import places_of

COLOURS = "cividis"
"""From blue to yellow: the same to all readers, and in print."""

Maps = list[tuple[str, np.ndarray]]


def draw_bias(task: gb.Task) -> tuple[Any, str]:
    """Draw the bias on a map if the states have places, and otherwise over the states.

    Returns
    -------
    Figure and str
        The figure and its caption. Call it while `drawing`.
    """
    maps = _place_maps(task) or _tree_maps(task)
    if maps:
        return _draw_maps(
            maps
        ), "The exact bias on the map: how much better than average it is to start there."
    return _draw_states(task)


def _place_maps(task: gb.Task) -> Maps:
    places = places_of(task)
    if places is None:
        return []
    return list(zip(places.titles, places.spread(task.problem.solution.bias), strict=True))


def _tree_maps(task: gb.Task) -> Maps:
    if not task.name.startswith("fruit-tree"):
        return []
    labels = np.array(task.problem.mrp.labels)
    depth = labels[:, 0].max()
    levels = np.empty((depth + 1, 2**depth))
    for (level, place), value in zip(labels, task.problem.solution.bias, strict=True):
        width = 2 ** (depth - level)
        levels[level, place * width : (place + 1) * width] = value
    return [("", levels)]


def _draw_maps(maps: Maps) -> Any:
    height, width = maps[0][1].shape
    stretched = width > 4 * height  # a tree: its cells are not squares
    tall = 2.2 if stretched or len(maps) > 1 else min(3.4, 0.55 * WEB.width * height / width + 0.6)
    figure = new_figure(WEB.width, tall)
    all_values = np.concatenate([values.ravel() for _, values in maps])
    known = all_values[np.isfinite(all_values)]
    linear = np.subtract(*np.quantile(known, [0.9, 0.1]))  # what lies far outside must not hide all else
    scale = AsinhNorm(linear_width=linear, vmin=known.min(), vmax=known.max())
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    for panel, (title, values) in zip(panels, maps, strict=True):
        aspect = "auto" if stretched else "equal"
        drawn = panel.imshow(values, cmap=COLOURS, norm=scale, aspect=aspect, interpolation="nearest")
        panel.set(title=title, xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    ticks = [known.min(), known.max()]
    place: dict[str, Any] = {"ax": panels, "shrink": 0.9, "pad": 0.02}
    if len(maps) == 1 and not stretched:  # at the left, with its scale beside it however narrow it is
        panels[0].set_anchor("W")
        place = {"cax": panels[0].inset_axes((1.0 + 0.04 * height / width, 0.05, 0.05 * height / width, 0.9))}
    bar = figure.colorbar(drawn, **place, label="Bias", ticks=ticks, format="%.3g")
    bar.minorticks_off()
    bar.outline.set_visible(False)
    return figure


def _draw_states(task: gb.Task) -> tuple[Any, str]:
    solution, labels = task.problem.solution, task.problem.mrp.labels
    bias, law = solution.bias, solution.stationary
    drawn = task.name.startswith(("random-walk", "garnet", "garet"))  # the numbers of states mean nothing
    order = np.argsort(bias) if drawn else np.arange(len(bias))
    figure = new_figure(WEB.width, 2.6)
    axes = figure.add_subplot()
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.vlines(range(len(bias)), 0, bias[order], color=INK, alpha=0.25, linewidth=0.8)
    sizes = np.clip(600 * law[order], 6, 160)
    axes.scatter(range(len(bias)), bias[order], s=sizes, color="#0072B2", linewidth=0, zorder=3)
    sort = ", from worst to best" if drawn else ""
    axes.set(xlabel=f"State{sort}", ylabel="Bias")
    if labels is not None and task.name == "access-control":
        axes.set(xlabel="Free servers, and four customers for each number", xticks=range(0, len(bias), 4))
        axes.set_xticklabels([str(k // 4) for k in range(0, len(bias), 4)])
    caption = "The exact bias of each state. The larger a dot, the more often the state is visited."
    return figure, caption
