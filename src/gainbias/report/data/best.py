"""The best step size of each series, chosen on half of the instances and measured on the other half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from pandas import DataFrame

from gainbias.report.data.summary import Summary
from gainbias.report.tables.layout import Cell, Sheet

NOTE = (
    "Best step sizes are chosen on every second instance and measured on the others, with all paths of an "
    "instance on one side, so the choice does not flatter; with fewer than four instances all are used for "
    "both. Intervals: 95 % of the mean over instances, each averaged over its paths first. One instance has "
    "no such interval; the one over its paths says nothing about other instances. Instances that are copies "
    "(the same problem along the same path) count once. At the edge: the best step size is the first or last "
    "of the grid, and a better one may lie beyond."
)

KEYS = ["task", "metric", "series"]
HEADER = ["Task", "Series", "Best step size", "Error at the end", "95 % interval", "Instances"]
"""Of the table for reading; "Runs" is added where an instance has several paths."""


def best_steps(summary: Summary) -> DataFrame:
    """Return for each task, metric and series the best step size, and the error at the last step with it.

    Returns
    -------
    DataFrame
        Columns task, metric, series, algorithm, schedule, a, instances, runs, diverged, mean, low, high,
        path_low, path_high, at_edge and apart, whether the choice was made on other instances. Best series
        of a task first.
    """
    points, halves = summary.points, summary.halves
    ends = points.groupby(["task", "series"])["step"].transform("max")
    everything = points[points["step"] == ends]
    apart = _tasks_to_split(halves)
    chosen_on, measured_on = (
        pandas.concat(
            [halves[(halves["half"] == half) & halves["task"].isin(apart)], rest], ignore_index=True
        )
        for rest in [everything[~everything["task"].isin(apart)]]
        for half in (0, 1)
    )
    best = chosen_on.loc[chosen_on.groupby(KEYS, sort=False)["mean"].idxmin(), [*KEYS, "schedule"]]
    found = best.merge(measured_on, on=[*KEYS, "schedule"], how="left")
    grid = everything.groupby(KEYS)["a"]
    least, most = (found[KEYS].merge(ends.reset_index(), on=KEYS)["a"] for ends in (grid.min(), grid.max()))
    found["at_edge"] = (least < most) & ((found["a"] == least) | (found["a"] == most))
    found["apart"] = found["task"].isin(apart)
    counts = ["instances", "runs", "diverged"]
    intervals = ["mean", "low", "high", "path_low", "path_high"]
    columns = [*KEYS, "algorithm", "schedule", "a", *counts, *intervals, "at_edge", "apart"]
    return found[columns].sort_values(["task", "metric", "mean", "series"], ignore_index=True)


def _tasks_to_split(halves: DataFrame) -> list[str]:
    """Return the tasks with two instances or more in either half, whatever the step size."""
    each = halves.groupby([*KEYS, "schedule"], sort=False)["instances"].agg(["size", "min"]).reset_index()
    enough = ((each["size"] == 2) & (each["min"] >= 2)).groupby(each["task"], sort=False).all()
    return [str(task) for task in enough.index[enough]]


def best_sheet(best: DataFrame, metric: str) -> Sheet:
    """Return the best steps under a metric for reading, tasks one after the other."""
    groups, own = [], best[best["metric"] == metric]
    paths = several_paths(best)
    for _, rows in own.groupby("task", sort=False):
        least = rows["mean"].min()
        groups.append(
            [
                [
                    Cell(row.task),
                    Cell(row.series),
                    Cell(row.schedule + (" (at the edge)" if row.at_edge else "")),
                    Cell(number_text(row.mean), best=bool(row.mean == least and np.isfinite(least))),
                    Cell(interval_words(row)),
                    Cell(str(row.instances)),
                    *([Cell(str(row.runs))] if paths else []),
                ]
                for row in rows.itertuples()
            ]
        )
    header = [*HEADER, *(["Runs"] if paths else [])]
    return Sheet("best-steps", f"Best step sizes: {metric}.", header, groups, [NOTE], text_columns=3)


def several_paths(best: DataFrame) -> bool:
    """Whether there are more runs than instances, so that both are to be shown."""
    return bool((best["runs"] > best["instances"]).any())


def number_text(number: float) -> str:
    """Return a number with three digits.

    Examples
    --------
    >>> number_text(0.12345), number_text(float("inf"))
    ('0.123', 'diverged')
    """
    return f"{number:.3g}" if np.isfinite(number) else "diverged"


def interval_text(low: float, high: float) -> str:
    """Return an interval, or a dash.

    Examples
    --------
    >>> interval_text(0.1, 0.2), interval_text(float("nan"), float("nan"))
    ('0.1 to 0.2', '-')
    """
    return f"{low:.3g} to {high:.3g}" if np.isfinite(high) else "-"


def interval_words(row: Any) -> str:
    """Return the interval over instances; of one instance that over its paths, which is called so.

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


def common_schedule(points: DataFrame) -> str | None:
    """Return the step size that most series share, the middle one of several; None if none is shared."""
    owners = points.groupby("schedule")["series"].nunique().drop("none", errors="ignore")
    if owners.empty or owners.max() < 2:
        return None
    sizes = points.drop_duplicates("schedule").set_index("schedule")["a"]
    shared = sorted(owners[owners == owners.max()].index, key=lambda schedule: sizes[schedule])
    return str(shared[len(shared) // 2])
