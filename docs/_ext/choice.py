"""The tables and pictures of the page on choosing an algorithm, from stored measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from docs._ext.pictures import WEB, save_pair
from docs._ext.tables import table
from gainbias.report.figures.style import INK, drawing, look_of, new_figure

KINDS = ("tabular, 1000 states", "20 dense features", "100 dense features")
WAYS = {"tuned": ("#0072B2", "tuned on each task"), "one_for_all": ("#E69F00", "one choice for all")}
SHOWN = ("centred-td", "relative-td", "td-lambda", "single-chain", "double-chain", "discounted-td")
"""Algorithms with a line of their own in the profiles; the others are in the tables."""

WITHIN = np.geomspace(1.0, 30.0, 200)
"""Factors at which profiles are drawn."""


def read_choice(source: Path) -> dict[str, Any]:
    """Return what ``python -m benchmarks.choice`` has stored."""
    stored: dict[str, Any] = json.loads((source / "data" / "choice.json").read_text(encoding="utf-8"))
    return stored


def write_choice_tables(source: Path) -> None:
    """Write the tables of errors, of choices and of costs, and two pictures."""
    stored = read_choice(source)
    generated = source / "_generated"
    for group in ("held_out", "choosing", "tables"):
        for way in WAYS:
            text = errors_table(stored["summary"][group], way)
            (generated / f"choice-{group}-{way}.md").write_text(text, encoding="utf-8")
    rows = [
        [_link(name), f"`{found['one_for_all']}`", f"{found['level']:.3f}", _efficiency(found)]
        for name, found in stored["algorithms"].items()
    ]
    text = table(["Algorithm", "The one choice", "Level off", "In the end"], rows, numbers=2)
    (generated / "choice-choices.md").write_text(text, encoding="utf-8")
    costs = [
        [_link(name), *(f"{each[kind]:,.0f}" if kind in each else "" for kind in KINDS)]
        for name, each in stored["nanoseconds"].items()
    ]
    header = ["Algorithm", *(kind.capitalize() for kind in KINDS)]
    (generated / "choice-costs.md").write_text(table(header, costs, numbers=3), encoding="utf-8")
    save_pair(draw_choice(stored), generated / "pictures" / "choice")
    save_pair(draw_profiles(stored), generated / "pictures" / "choice-profiles")


def errors_table(summary: dict[str, Any], way: str) -> str:
    """Return the errors of a group of tasks at all budgets, in the order of those at the last."""
    *_, last = summary
    rows = []
    for name in ranked(summary[last], way):
        rank = summary[last][name][way]["rank"][0]
        ratios = [_ratio(found[name][way]["ratio"]) for found in summary.values()]
        rows.append([_link(name), *ratios, f"{rank:.1f}"])
    header = ["Algorithm", *(f"{int(budget):,}" for budget in summary), "Mean rank"]
    return table(header, rows, numbers=len(header) - 1)


def ranked(summary: dict[str, Any], way: str) -> list[str]:
    """Return the algorithms of a summary in the order of their errors."""
    return sorted(summary, key=lambda name: _number(summary[name][way]["ratio"][0]))


def draw_choice(stored: dict[str, Any]) -> Any:
    """Draw the errors of each algorithm on held-out tasks, in multiples of least squares, with intervals."""
    last = str(stored["plan"]["budgets"][-1])
    summary = stored["summary"]["held_out"][last]
    names = ranked(summary, "one_for_all")
    with drawing(WEB):
        figure = new_figure(WEB.width, 3.4)
        axes = figure.add_subplot()
        for way, (colour, label) in WAYS.items():
            for place, name in enumerate(names):
                middle, low, high = map(_number, summary[name][way]["ratio"])
                axes.plot([low, high], [place, place], color=colour, linewidth=2, alpha=0.5)
                axes.plot(middle, place, "o", color=colour, markersize=5)
            axes.plot([], [], "o", color=colour, label=label)
        axes.axvline(1.0, color=INK, linewidth=0.8, alpha=0.5)
        axes.set(xscale="log", xlabel="Error, in multiples of that of least squares on the same data")
        ticks = [1, 2, 5, 10, 20, 50]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_yticks(range(len(names)), names)
        axes.minorticks_off()
        axes.invert_yaxis()
        axes.legend(loc="upper right")
    return figure


def draw_profiles(stored: dict[str, Any]) -> Any:
    """Draw for each way how often an algorithm is within a factor of the best, and its mean ranks."""
    with drawing(WEB):
        figure = new_figure(WEB.width, 5.2)
        for i, (way, (_, label)) in enumerate(WAYS.items()):
            axes = figure.add_subplot(2, 2, i + 1)
            profiles = profiles_of(stored, way)
            for name in SHOWN:
                look = look_of(name)
                axes.plot(WITHIN, 100.0 * profiles[name], color=look.colour, ls=look.dashes, label=name)
            axes.set(xscale="log", xlabel="Factor of the smallest error", title=label, ylim=(0.0, 102.0))
            axes.set_xticks([1, 2, 5, 10, 30], ["1", "2", "5", "10", "30"])
            axes.minorticks_off()
            if i == 0:
                axes.set_ylabel("% of tasks and budgets within it")
                axes.legend(loc="lower right")
            _draw_ranks(figure.add_subplot(2, 2, i + 3), stored["summary"]["held_out"], way)
    return figure


def _draw_ranks(axes: Any, summary: dict[str, Any], way: str) -> None:
    """Draw mean ranks over tasks at each budget, with intervals."""
    for k, name in enumerate(SHOWN):
        look, ranks = look_of(name), [found[name][way]["rank"] for found in summary.values()]
        places = np.arange(len(ranks)) + 0.05 * (k - len(SHOWN) / 2)
        axes.plot(places, [middle for middle, *_ in ranks], color=look.colour, ls=look.dashes)
        for place, (_, low, high) in zip(places, ranks, strict=True):
            axes.plot([place, place], [low, high], color=look.colour, alpha=0.5, linewidth=2)
    axes.set_xticks(range(len(summary)), [f"{int(budget):,}" for budget in summary])
    axes.set(xlabel="Transitions", ylabel="Mean rank")
    axes.invert_yaxis()


def profiles_of(stored: dict[str, Any], way: str) -> dict[str, Any]:
    """Return the share of held-out tasks and budgets on which errors are within factors of the smallest."""
    names = list(next(iter(stored["summary"]["held_out"].values())))
    errors = np.array(
        [
            [_number(cell[name][way][0]) for name in names]
            for task in stored["plan"]["tasks"]["held_out"]
            for cell in stored["tasks"][task].values()
        ]
    )
    over_best = errors / errors.min(axis=1, keepdims=True)
    return {name: (over_best[:, [k]] <= WITHIN).mean(axis=0) for k, name in enumerate(names)}


def _number(stored: Any) -> float:
    return float("inf") if stored == "diverged" else float(stored)


def _ratio(numbers: list[Any]) -> str:
    middle, low, high = (f"{number:.3g}" if number != "diverged" else "∞" for number in numbers)
    return f"{middle} ({low} to {high})"


def _efficiency(found: dict[str, Any]) -> str:
    return f"{found['efficiency']:.1f}" if "efficiency" in found else ""


def _link(name: str) -> str:
    if name not in gb.ALGORITHMS:
        return f"`{name}`"
    star = " (tables only)" if gb.ALGORITHMS[name].declared.tabular_only else ""
    return f"[`{name}`](algorithms/{name}.md){star}"
