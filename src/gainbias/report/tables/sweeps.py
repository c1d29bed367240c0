"""The best step sizes of a sweep, laid out for reading."""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.report.text import Sheet, TableCell, interval_text, number_text

NOTE = (
    "Best step sizes are chosen on every second instance and measured on the others, with all paths of an "
    "instance on one side, so the choice does not flatter; with fewer than four instances all are used for "
    "both. Intervals: 95 % of the mean over instances, each averaged over its paths first. One instance has "
    "no such interval; the one over its paths says nothing about other instances. Instances that are copies "
    "(the same problem along the same path) count once. At the edge: the best step size is the first or last "
    "of the grid, and a better one may lie beyond."
)

HEADER = ["Task", "Series", "Best step size", "Error at the end", "95 % interval", "Instances"]
"""Titles of the columns; "Runs" is added where an instance has several paths."""


def best_sheet(best: DataFrame, metric: str) -> Sheet:
    """Return the best steps under a metric for reading, tasks one after the other."""
    groups, own = [], best[best["metric"] == metric]
    paths = several_paths(best)
    for _, rows in own.groupby("task", sort=False):
        least = rows["mean"].min()
        groups.append(
            [
                [
                    TableCell(row.task),
                    TableCell(row.series),
                    TableCell(row.schedule + (" (at the edge)" if row.at_edge else "")),
                    TableCell(number_text(row.mean), best=bool(row.mean == least and np.isfinite(least))),
                    TableCell(interval_words(row)),
                    TableCell(str(row.instances)),
                    *([TableCell(str(row.runs))] if paths else []),
                ]
                for row in rows.itertuples()
            ]
        )
    header = [*HEADER, *(["Runs"] if paths else [])]
    return Sheet("best-steps", f"Best step sizes: {metric}.", header, groups, [NOTE], text_columns=3)


def several_paths(best: DataFrame) -> bool:
    """Whether there are more runs than instances, so that both are to be shown."""
    return bool((best["runs"] > best["instances"]).any())


def interval_words(row: Any) -> str:
    """Return the interval over instances in words; one instance has only that over its paths.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = {"low": np.nan, "high": np.nan}
    >>> interval_words(SimpleNamespace(instances=1, diverged=0, **nothing, path_low=0.1, path_high=0.2))
    'none: one instance (over its paths 0.1 to 0.2)'
    """
    if row.instances > 1 or row.diverged:
        return interval_text(row.low, row.high)
    over_paths = interval_text(row.path_low, row.path_high)
    return "none: one instance" + (f" (over its paths {over_paths})" if over_paths != "-" else "")
