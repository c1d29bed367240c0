"""The picture of learning: the values of a policy in four rooms, learned and exact.

python -m docs._ext.rooms
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, save_pair
from gainbias.report.figures.style import INK, drawing, look_of, new_figure

SIDE = 33
GOAL = (5, 26)
CARE = 0.6
"""How likely the policy is to take a step towards the goal; otherwise it steps anywhere."""

WAITS = (30_000, 300_000, 3_000_000)
METHODS = ("double-chain", "single-chain", "td-lambda", "relative-td")
STEPS = [gb.Harmonic(a, 2 * a) for a in (1e3, 1e4, 1e5)]
END = 10_000_000
SHOWN = "relative-td"


def rooms() -> np.ndarray:
    """Return where one can walk: four rooms with doors, as booleans of shape (side, side)."""
    free = np.ones((SIDE, SIDE), dtype=bool)
    middle = SIDE // 2
    free[middle], free[:, middle] = False, False
    for wall, door in (
        ((middle, 5), (0, 1)),
        ((middle, 27), (0, 1)),
        ((8, middle), (1, 0)),
        ((26, middle), (1, 0)),
    ):
        free[wall] = free[wall[0] + door[0], wall[1] + door[1]] = True
    return free


def policy_in(free: np.ndarray) -> gb.MarkovRewardProcess:
    """Return the walk of a policy that makes for the goal, is paid there, and starts again anywhere."""
    cells = [tuple(cell) for cell in np.argwhere(free)]
    number = {cell: k for k, cell in enumerate(cells)}
    distance, waiting = {GOAL: 0}, deque([GOAL])
    while waiting:
        cell = waiting.popleft()
        for other in _neighbours(cell):
            if other in number and other not in distance:
                distance[other] = distance[cell] + 1
                waiting.append(other)
    transitions = np.zeros((len(cells), len(cells)))
    for cell, k in number.items():
        steps = [other if other in number else cell for other in _neighbours(cell)]
        nearest = min(distance[other] for other in steps)
        towards = [other for other in steps if distance[other] == nearest]
        for other in steps:
            transitions[k, number[other]] += (1 - CARE) / 4
        for other in towards:
            transitions[k, number[other]] += CARE / len(towards)
    transitions[number[GOAL]] = 1 / len(cells)
    rewards = np.zeros(len(cells))
    rewards[number[GOAL]] = 1.0
    return gb.MarkovRewardProcess(transitions, rewards)


def draw() -> Any:
    """Draw the learned values after more and more transitions, the exact ones, and learning curves."""
    free = rooms()
    problem = gb.Problem(policy_in(free), gb.Tabular())
    traces = {name: _run(name, problem) for name in METHODS}
    shown = traces[SHOWN]
    learned = dict(zip(shown.steps.tolist(), shown.weights[_best(shown)], strict=True))
    maps = [(f"after {wait:,} steps", learned[wait]) for wait in WAITS]
    maps.append(("exact", problem.solution.bias))
    with drawing(WEB):
        figure = new_figure(10.6, 2.5)
        panels = figure.subplots(1, 5, width_ratios=[1, 1, 1, 1, 1.45])
        for panel, (title, values) in zip(panels, maps, strict=False):
            _draw_map(panel, title, free, values, problem.solution.bias)
        _draw_curves(panels[-1], traces)
    return figure


def _run(name: str, problem: gb.Problem) -> gb.Trace:
    steps = END // gb.ALGORITHMS[name].chains
    wanted = {*WAITS, *np.geomspace(1000, steps, 40).astype(int).tolist()}
    return gb.run(name, problem, steps, STEPS, checkpoints=sorted(wanted))


def _best(trace: gb.Trace) -> int:
    """Return the lane whose step size ends with the smallest error."""
    return int(np.argmin(trace.errors("quotient", norm="stationary")[:, -1]))


def _draw_map(panel: Any, title: str, free: np.ndarray, values: Any, bias: Any) -> None:
    image = np.full(free.shape, np.nan)
    image[free] = values
    low, high = np.quantile(bias, [0.01, 1.0])
    panel.imshow(image, cmap="viridis", vmin=low, vmax=high, interpolation="nearest")
    panel.contour(image, levels=np.linspace(low, high, 12)[1:-1], colors="white", linewidths=0.4, alpha=0.6)
    panel.set(title=title, xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def _draw_curves(panel: Any, traces: dict[str, gb.Trace]) -> None:
    for name, trace in traces.items():
        errors = trace.errors("quotient", norm="stationary")[_best(trace)]
        panel.loglog(trace.transitions, errors, color=look_of(name).colour, linewidth=1.6)
        panel.annotate(
            name,
            (trace.transitions[-1], errors[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            color=look_of(name).colour,
            verticalalignment="center",
        )
    panel.set(title="error of four algorithms", xlabel="transitions", xlim=(1000, END))
    panel.minorticks_off()
    panel.grid(color=INK, alpha=0.12, linewidth=0.6)


def _neighbours(cell: tuple[int, int]) -> list[tuple[int, int]]:
    row, column = cell
    return [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]


if __name__ == "__main__":
    save_pair(draw(), Path(__file__).parents[1] / "rooms")
