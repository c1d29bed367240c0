"""The picture of the README: error bars of a queue's mean waiting time, below those that assume independence.

python -m docs._ext.hero
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, save_pair
from gainbias.report.figures.style import INK, Size, drawing, new_figure
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOAD, CUSTOMERS, RUNS = 0.8, 50_000, 40
MEAN = LOAD / (1 - LOAD) * LOAD  # of the waiting time, where a service takes 1: 3.2
SHOWN = (2.3, 4.5)
"""Waiting times that the picture shows; an arrow stands for the rest of a bar."""

CLEAR = 0.07
"""How far a cross and words stand from what they are about."""

HOLDS, MISSES = "#0072B2", "#D55E00"
LAYOUTS = {
    "hero": WEB._replace(width=9.0, columns=2, panel_height=3.2, letters=11.5),
    "hero-phone": WEB._replace(width=4.7, columns=1, panel_height=2.6, letters=13.0),
}
"""Side by side for wide screens; below each other, with larger letters, for phones."""

Intervals = dict[str, list[tuple[float, float]]]


def waiting_times(seed: int) -> Floats:
    """Return the waiting times of the customers of a single server that begins in its long run."""
    rng = np.random.default_rng(seed)
    first = rng.exponential(LOAD / (1 - LOAD)) if rng.random() < LOAD else 0.0
    steps = rng.exponential(LOAD, CUSTOMERS) - rng.exponential(1.0, CUSTOMERS)
    walk = first + np.cumsum(steps)
    return walk - np.minimum.accumulate(np.minimum(walk, 0.0))


def usual_interval(waits: Floats) -> tuple[float, float]:
    """Return the interval for independent numbers."""
    reach = 1.96 * waits.std() / np.sqrt(len(waits))
    return float(waits.mean() - reach), float(waits.mean() + reach)


def simulate() -> Intervals:
    """Return the intervals of the runs of one queue: those for independent numbers, and ours."""
    runs = [waiting_times(seed) for seed in range(RUNS)]
    return {
        "Error bars that assume independence": [usual_interval(waits) for waits in runs],
        "Error bars of gainbias": [gb.evaluate_series(waits).interval for waits in runs],
    }


def draw(intervals: Intervals, size: Size) -> Figure:
    """Draw the intervals, a panel for each kind."""
    with drawing(size):
        rows = len(intervals) // size.columns
        figure = new_figure(size.width, rows * size.panel_height)
        panels = figure.subplots(rows, size.columns, sharex=True, sharey=True, squeeze=False)
        for panel, (name, ends) in zip(panels.flat, intervals.items(), strict=True):
            _draw_runs(panel, name, np.array(ends), size)
        panels[0, 0].set(ylim=SHOWN, yticks=[3, 4], xlim=(-1, RUNS + 0.5), xticks=[])
        for panel in panels[-1]:
            panel.set_xlabel(f"{RUNS} runs, {CUSTOMERS:,} customers each", fontsize=size.letters)
        figure.supylabel("Mean wait, in minutes", fontsize=size.letters)
    return figure


def _draw_runs(panel: Any, name: str, intervals: Floats, size: Size) -> None:
    holds = (intervals[:, 0] < MEAN) & (intervals[:, 1] > MEAN)
    panel.axhline(MEAN, color=INK, linewidth=1.0)
    panel.text(RUNS + 0.2, SHOWN[0] + 0.03, f"line: true mean {MEAN:.1f}", ha="right", va="bottom")
    for number, ((low, high), held) in enumerate(zip(intervals, holds, strict=True)):
        colour = HOLDS if held else MISSES
        panel.plot([number, number], [low, high], color=colour, linewidth=2.2, solid_capstyle="butt")
        if not held:  # a cross beyond the end that is further away from the truth
            place = high + CLEAR if low > MEAN else low - CLEAR
            panel.plot(number, place, marker="x", markersize=4.5, markeredgewidth=1.3, color=colour)
        if high > SHOWN[1]:  # an arrow, and where the bar ends
            panel.plot(number, SHOWN[1], marker="^", markersize=7, color=colour, clip_on=False)
            panel.text(number - 1.2, SHOWN[1] - CLEAR, f"to {high:.1f}", ha="right", va="top")
    title = f"{name}\n{holds.sum()} of {len(holds)} contain the true mean"
    panel.set_title(title, loc="left", fontweight="bold", fontsize=size.letters)


if __name__ == "__main__":
    bars = simulate()
    for stem, layout in LAYOUTS.items():
        save_pair(draw(bars, layout), Path(__file__).parents[1] / stem)
