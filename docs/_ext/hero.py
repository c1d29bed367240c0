"""The picture of the README: error bars of a queue's mean waiting time, below those that assume independence.

python -m docs._ext.hero
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, save_pair
from gainbias.report.figures.style import INK, drawing, new_figure
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOAD, CUSTOMERS, RUNS = 0.8, 50_000, 40
MEAN = LOAD / (1 - LOAD) * LOAD  # of the waiting time, where a service takes 1: 3.2
SHOWN = (2.5, 4.5)
"""Waiting times that the picture shows; an arrow stands for the rest of a bar."""

HOLDS, MISSES = "#0072B2", "#D55E00"
LARGE = WEB._replace(letters=13.0)
"""Letters that can still be read on a phone."""


def waiting_times(seed: int) -> Floats:
    """Return the waiting times of the customers of a single server that begins in its long run."""
    rng = np.random.default_rng(seed)
    first = rng.exponential(1 / (1 - LOAD)) if rng.random() < LOAD else 0.0
    steps = rng.exponential(LOAD, CUSTOMERS) - rng.exponential(1.0, CUSTOMERS)
    walk = first + np.cumsum(steps)
    return walk - np.minimum.accumulate(np.minimum(walk, 0.0))


def usual_interval(waits: Floats) -> tuple[float, float]:
    """Return the interval for independent numbers."""
    reach = 1.96 * waits.std() / np.sqrt(len(waits))
    return float(waits.mean() - reach), float(waits.mean() + reach)


def draw() -> Figure:
    """Draw the intervals of runs of one queue: those for independent numbers, and ours."""
    runs = [waiting_times(seed) for seed in range(RUNS)]
    usual = [usual_interval(waits) for waits in runs]
    ours = [gb.evaluate_series(waits).interval for waits in runs]
    with drawing(LARGE):
        figure = new_figure(4.7, 4.8)
        panels = figure.subplots(2, 1, sharex=True, sharey=True)
        panels[0].set(ylim=SHOWN, yticks=[3, 4])
        for panel, name, intervals in zip(
            panels, ("Error bars that assume independence", "gainbias"), (usual, ours), strict=True
        ):
            _draw_runs(panel, name, np.array(intervals))
        panels[1].set(xlabel=f"{RUNS} runs, {CUSTOMERS:,} customers each", xticks=[])
        figure.supylabel("Mean waiting time", fontsize=LARGE.letters)
    return figure


def _draw_runs(panel: Any, name: str, intervals: Floats) -> None:
    holds = (intervals[:, 0] < MEAN) & (intervals[:, 1] > MEAN)
    panel.axhline(MEAN, color=INK, linewidth=1.0)
    for number, ((low, high), held) in enumerate(zip(intervals, holds, strict=True)):
        colour = HOLDS if held else MISSES
        panel.plot([number, number], [low, high], color=colour, linewidth=2.2, solid_capstyle="butt")
        if high > SHOWN[1]:  # an arrow, and where the bar ends
            panel.plot(number, SHOWN[1], marker="^", markersize=7, color=colour, clip_on=False)
            panel.text(number - 1.2, SHOWN[1], f"to {high:.1f}", ha="right", va="center")
    title = f"{name}\n{holds.sum()} of {len(holds)} contain the truth"
    panel.set_title(title, loc="left", fontweight="bold", fontsize=LARGE.letters)
    panel.margins(x=0.02)


if __name__ == "__main__":
    save_pair(draw(), Path(__file__).parents[1] / "hero")
