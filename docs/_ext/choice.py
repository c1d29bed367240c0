"""The tables of the page on choosing an algorithm, from stored measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gainbias as gb
from docs._ext.pictures import WEB, save_pair
from docs._ext.tables import table
from gainbias.report.figures.style import INK, drawing, new_figure

KINDS = ("tabular, 1000 states", "20 dense features", "100 dense features")
COLOURS = {"one_for_all": "#E69F00", "best_for_each": "#0072B2"}


def read_choice(source: Path) -> dict[str, Any]:
    """Return what ``python -m benchmarks.choice`` has stored, algorithms in the order of their errors."""
    stored: dict[str, Any] = json.loads((source / "data" / "choice.json").read_text(encoding="utf-8"))
    found = stored["algorithms"]
    stored["algorithms"] = {
        name: found[name] for name in sorted(found, key=lambda name: found[name]["summary"]["one_for_all"])
    }
    return stored


def write_choice_tables(source: Path) -> None:
    """Write the tables of errors and of costs, and a picture of the first."""
    algorithms = read_choice(source)["algorithms"]
    generated = source / "_generated"
    errors = [[_link(name), *_errors(found["summary"])] for name, found in algorithms.items()]
    header = ["Algorithm", "Best steps for each task", "One choice for all", "Level off", "In the end"]
    (generated / "choice-errors.md").write_text(table(header, errors, numbers=4), encoding="utf-8")
    costs = [
        [_link(name), *(f"{each[kind]:,.0f}" if kind in each else "" for kind in KINDS)]
        for name, found in algorithms.items()
        for each in [found["nanoseconds"]]
    ]
    header = ["Algorithm", *(kind.capitalize() for kind in KINDS)]
    (generated / "choice-costs.md").write_text(table(header, costs, numbers=3), encoding="utf-8")
    save_pair(draw_choice(algorithms), generated / "pictures" / "choice")


def draw_choice(algorithms: dict[str, Any]) -> Any:
    """Draw the two errors of each algorithm, in multiples of that of least squares."""
    with drawing(WEB):
        figure = new_figure(WEB.width, 3.4)
        axes = figure.add_subplot()
        for place, found in enumerate(algorithms.values()):
            ends = [found["summary"][key] for key in COLOURS]
            axes.plot(ends, [place, place], color=INK, alpha=0.35, linewidth=1, zorder=1)
            for end, colour in zip(ends, COLOURS.values(), strict=True):
                axes.plot(end, place, "o", color=colour, markersize=6)
        axes.plot([], [], "o", color=COLOURS["best_for_each"], label="best step sizes for each task")
        axes.plot([], [], "o", color=COLOURS["one_for_all"], label="one choice for all tasks")
        axes.set(xscale="log", xlabel="Error, in multiples of that of least squares on the same data")
        axes.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        axes.set_yticks(range(len(algorithms)), [*algorithms])
        axes.minorticks_off()
        axes.invert_yaxis()
        axes.legend(loc="upper right")
    return figure


def _errors(summary: dict[str, Any]) -> list[str]:
    in_the_end = f"{summary['efficiency']:.1f}" if "efficiency" in summary else ""
    each, every = f"{summary['best_for_each']:.1f}", f"{summary['one_for_all']:.1f}"
    return [each, every, f"{summary['level']:.3f}", in_the_end]


def _link(name: str) -> str:
    star = " (tabular only)" if gb.ALGORITHMS[name].declared.tabular_only else ""
    return f"[`{name}`](algorithms/{name}.md){star}"
