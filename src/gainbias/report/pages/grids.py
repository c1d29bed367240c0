"""Tables that can be sorted: the paper's three with our numbers beside the printed ones, and the summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pandas import DataFrame

from gainbias.report.names import long_title, task_title
from gainbias.report.pages.elements import Entry
from gainbias.report.tables.layout import range_text, ratio_text, spread_text
from gainbias.report.tables.sheets import (
    CONDITION_TITLES,
    FIRST_INSTANCES,
    PROTOCOL_NOTES,
    SCORE_NOTE,
    best_of,
)


class Grid(NamedTuple):
    """A table to be sorted: what it is of, the protocol that it belongs to, its rows and its notes."""

    name: str
    protocol: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str] = ()


COMPARED = ("Ours", "Paper", "Ours / paper", "Our runs below the paper's")
COMPARED_NOTE = (
    "Ours: mean ± standard deviation over runs. Our runs below the paper's: how many of our runs are below "
    "the printed value, runs equal to it as printed counted half. Bold: best of its task, as printed."
)


def distances_grid(table: DataFrame, protocol: str) -> Grid:
    """Make a protocol's part of `tables.distances_table` sortable."""
    rows: list[list[Entry]] = []
    for task, part in table[table["protocol"] == protocol].groupby("task", sort=False):
        best = best_of(part["our_mean"].tolist(), spread_text)
        for row, is_best in zip(part.to_dict("records"), best, strict=True):
            paper = Entry(spread_text(row["paper_mean"], row["paper_std"]), row["paper_mean"])
            names = [Entry(task_title(task)), Entry(long_title(row["algorithm"]))]
            rows.append([*names, _ours(row, is_best), paper, *_comparison(row)])
    return Grid(
        "distances",
        protocol,
        f"Distance to the target after the last step, protocol {protocol}",
        ["Task", "Algorithm", *COMPARED],
        rows,
        [PROTOCOL_NOTES[protocol], SCORE_NOTE, COMPARED_NOTE],
    )


def conditions_grid(table: DataFrame, protocol: str) -> Grid:
    """Make a protocol's part of `tables.conditions_table` sortable."""
    rows = [
        [
            Entry(task_title(row["task"])),
            Entry(CONDITION_TITLES[row["condition"]]),
            _ours(row),
            Entry(f"{row['paper_mean']:.4g}", row["paper_mean"]),
            *_comparison(row),
        ]
        for row in table[table["protocol"] == protocol].to_dict("records")
    ]
    title = f"Condition numbers, with η₂ in both readings, protocol {protocol}"
    notes = [COMPARED_NOTE.removesuffix(" Bold: best of its task, as printed."), FIRST_INSTANCES]
    return Grid("condition-numbers", protocol, title, ["Task", "Number", *COMPARED], rows, notes)


def parameters_grid(table: DataFrame, protocol: str) -> Grid:
    """Make a protocol's part of `tables.parameters_table` sortable."""
    rows = [
        [
            Entry(task_title(row["task"])),
            Entry(row["parameter"].replace("_", " ")),
            _number(row["ours"]),
            _number(row["paper"]),
            Entry(row["agrees"]),
        ]
        for row in table[table["protocol"] == protocol].to_dict("records")
    ]
    title = f"Parameters of the paper, and ours, protocol {protocol}"
    return Grid("parameters", protocol, title, ["Task", "Parameter", "Ours", "Paper", "Same"], rows)


def summary_grid(table: DataFrame, header: Sequence[str], notes: Sequence[str]) -> Grid:
    """Make `summary.summary_table` sortable, with the header and the notes of its sheet."""
    rows = []
    for row in table.to_dict("records"):
        typical, better = (
            Entry(range_text(row[key], row[f"{key}_low"], row[f"{key}_high"]), row[key])
            if math.isfinite(row[key])
            else Entry("-")
            for key in ("typical", "better")
        )
        rows.append([Entry(row["score"]), Entry(long_title(row["algorithm"])), typical, better])
    return Grid("summary", "fair", "All tasks together, protocol fair", header, rows, notes)


def rows_of_tasks_run(table: DataFrame) -> DataFrame:
    """Return the rows of one of the paper's tables whose tasks were run under their protocol."""
    has_runs = table["runs"] > 0 if "runs" in table else table["agrees"] != "not stored"
    return table[has_runs.groupby([table["protocol"], table["task"]]).transform("any")]


def _ours(row: dict[str, float], best: bool = False) -> Entry:
    if not row["runs"]:
        return Entry("not run")
    if math.isinf(row["our_mean"]):
        return Entry("diverged", row["our_mean"])
    spread = "" if math.isnan(row["our_std"]) else f" ± {row['our_std']:.2g}"
    return Entry(f"{row['our_mean']:.4g}{spread}", row["our_mean"], best)


def _comparison(row: dict[str, float]) -> tuple[Entry, Entry]:
    """Return the ratio, and how many runs are below the printed value."""
    if not row["runs"]:
        return Entry("-"), Entry("-")
    below = row["below"] + row["equal"] / 2
    share = Entry(f"{below:g} of {row['runs']}", below / row["runs"])
    return Entry(ratio_text(row["ratio"]), row["ratio"]), share


def _number(value: float) -> Entry:
    return Entry("-") if math.isnan(value) else Entry(f"{value:g}", value)
