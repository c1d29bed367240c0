"""The paper's three tables laid out for reading: ours, the paper's, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pandas import DataFrame, Series

from gainbias.experiments.results import CONDITION_RUNS, CONDITIONS
from gainbias.report.data.scores import STUDIED
from gainbias.report.names import algorithm_title, task_title
from gainbias.report.tables.layout import Cell, Sheet, ratio_text, scaled_text, spread_text

PROTOCOL_NOTES = {
    "literal": "Protocol literal: what the paper's text says. Features share one scale; errors against the "
    "bias.",
    "inferred": "Protocol inferred: what fits the paper's numbers best. Each feature row has norm 1; errors "
    "against the paper's fixed point.",
    "fair": "Protocol fair: the literal features, and more instances than the paper's three; errors against "
    "the bias, after equal numbers of steps.",
}
COMPARISON_NOTE = (
    "Ours: mean ± standard deviation over runs. Ratio: ours / paper; in brackets, how many of our runs are "
    "below the printed value, runs equal to it as printed counted half. Bold: best of its row, as printed."
)
SCORE_NOTE = (
    "Double and single chain are scored by the full error, the others modulo constants, as in the paper."
)
FIRST_INSTANCES = (
    f"Condition numbers are computed for the first {CONDITION_RUNS} instances of a task at most."
)
CONDITION_TITLES = {
    "eta1": "η₁",
    "eta2": "η₂, subspace",
    "eta2_literal": "η₂, printed",
    "eta3": "η₃",
}


def distances_sheet(table: DataFrame, protocol: str) -> Sheet:
    """Lay out a protocol's part of `tables.distances_table`."""
    caption = f"Distance to the target after the last step, protocol {protocol}."
    header = ["Task", "", *(algorithm_title(name) for name in STUDIED)]
    table = table[table["protocol"] == protocol]
    groups = [
        _compared(task, _ordered(part, "algorithm", STUDIED), spread_text, largest=False)
        for task, part in table.groupby("task", sort=False)
    ]
    notes = [PROTOCOL_NOTES[protocol], SCORE_NOTE, COMPARISON_NOTE]
    return Sheet(f"distances-{protocol}", caption, header, groups, notes, text_columns=2)


def conditions_sheet(table: DataFrame, protocol: str) -> Sheet:
    """Lay out a protocol's part of `tables.conditions_table`."""
    caption = f"Condition numbers, with η₂ in both readings, protocol {protocol}."
    header = ["Task", "", *(CONDITION_TITLES[name] for name in CONDITIONS)]
    table = table[table["protocol"] == protocol]
    groups = []
    for task, part in table.groupby("task", sort=False):
        cells = _ordered(part, "condition", CONDITIONS)
        power = math.floor(math.log10(max(cell["paper_mean"] for cell in cells)))
        groups.append(
            _compared(task, cells, scaled_text(10.0**power), largest=True, unit=f"in units of 1e{power}")
        )
    reading = (
        "η₂, subspace: x orthogonal to the weights of the constant, as in the work it is taken from; "
        "printed: entries of x sum to 0. The paper prints one η₂, which stands in both columns."
    )
    return Sheet(
        f"condition-numbers-{protocol}",
        caption,
        header,
        groups,
        [PROTOCOL_NOTES[protocol].split(";")[0] + ".", reading, COMPARISON_NOTE, FIRST_INSTANCES],
        text_columns=2,
    )


def parameters_sheet(table: DataFrame, protocol: str) -> Sheet:
    """Lay out a protocol's part of `tables.parameters_table`: printed values, and where ours differ."""
    groups = []
    for task, part in table[table["protocol"] == protocol].groupby("task", sort=False):
        printed = {row.parameter: row.paper for row in part.itertuples()}
        differing = [
            f"{row.parameter} {row.ours:g}" if row.agrees == "no" else f"{row.parameter} not stored"
            for row in part.itertuples()
            if row.agrees != "yes"
        ]
        epsilon = f"{printed['epsilon']:g}" if printed["epsilon"] else "none"
        step_size = f"{printed['step_numerator']:g}/(t+{printed['step_offset']:g})"
        texts = [task_title(task), f"{printed['d']:g}", step_size, f"{printed['steps']:,.0f}", epsilon]
        groups.append([[Cell(text) for text in (*texts, ", ".join(differing) or "same")]])
    header = ["Task", "d", "Step size", "Steps", "ε", "Ours"]
    caption = f"Parameters of the paper, and where ours differ, protocol {protocol}."
    return Sheet(f"parameters-{protocol}", caption, header, groups)


def _ordered(part: DataFrame, column: str, names: Sequence[str]) -> list[Series]:
    by_name = part.set_index(column)
    return [by_name.loc[name] for name in names]


def _compared(
    task: str, cells: list[Series], text: Callable[[float, float], str], largest: bool, unit: str = ""
) -> list[list[Cell]]:
    """Return the three rows of a task."""
    ours = [text(cell["our_mean"], cell["our_std"]) if cell["runs"] else "not run" for cell in cells]
    paper = [text(cell["paper_mean"], cell.get("paper_std", math.nan)) for cell in cells]
    shares = [f"{ratio_text(cell['ratio'])} ({_below(cell)})" if cell["runs"] else "-" for cell in cells]
    best_ours = best_of([cell["our_mean"] for cell in cells], text, largest)
    best_paper = best_of([cell["paper_mean"] for cell in cells], text, largest)
    return [
        [Cell(task_title(task)), Cell("ours"), *map(Cell, ours, best_ours)],
        [Cell(unit), Cell("paper"), *map(Cell, paper, best_paper)],
        [Cell(""), Cell("ratio"), *map(Cell, shares)],
    ]


def _below(cell: Series) -> str:
    return f"{cell['below'] + cell['equal'] / 2:g} of {cell['runs']}"


def best_of(means: Sequence[float], text: Callable[[float, float], str], largest: bool = False) -> list[bool]:
    """Say which numbers are the best: those that are printed alike share the first place.

    Examples
    --------
    >>> best_of([0.121, 0.119, 0.3], spread_text)
    [True, True, False]
    """
    known = [mean for mean in means if math.isfinite(mean)]
    if not known:
        return [False] * len(means)
    best = text(max(known) if largest else min(known), math.nan)
    return [text(mean, math.nan) == best for mean in means]
