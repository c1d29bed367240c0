"""The best step size of each series, chosen on half of the instances and measured on the other half."""

from __future__ import annotations

import numpy as np
from pandas import DataFrame

from gainbias.report.layout import Cell, Sheet
from gainbias.report.sweeps.summary import Summary

NOTE = (
    "Best step sizes are chosen on the instances with even numbers and measured on those with odd ones, so "
    "the choice does not flatter; with fewer than four instances all are used for both. Intervals: 95 % of "
    "the mean over instances. At the edge: the best step size is the first or last of the grid, and a better "
    "one may lie beyond."
)


def best_steps(summary: Summary) -> DataFrame:
    """Return for each task, metric and series the best step size, and the error at the last step with it.

    Returns
    -------
    DataFrame
        Columns task, metric, series, algorithm, schedule, a, runs, diverged, mean, low, high, at_edge and
        apart, whether the choice was made on other instances. Best series of a task first.
    """
    points = summary.points
    ends = points.groupby(["task", "series"])["step"].transform("max")
    everything = points[points["step"] == ends]
    halves = summary.halves
    apart = bool(halves["half"].nunique() == 2 and halves["runs"].min() >= 2)
    chosen_on = halves[halves["half"] == 0] if apart else everything
    measured_on = halves[halves["half"] == 1] if apart else everything
    keys = ["task", "metric", "series"]
    best = chosen_on.loc[chosen_on.groupby(keys, sort=False)["mean"].idxmin(), [*keys, "schedule"]]
    found = best.merge(measured_on, on=[*keys, "schedule"], how="left")
    grid = everything.groupby(keys)["a"]
    least, most = (found[keys].merge(ends.reset_index(), on=keys)["a"] for ends in (grid.min(), grid.max()))
    found["at_edge"] = (least < most) & ((found["a"] == least) | (found["a"] == most))
    found["apart"] = apart
    columns = [
        *keys,
        "algorithm",
        "schedule",
        "a",
        "runs",
        "diverged",
        "mean",
        "low",
        "high",
        "at_edge",
        "apart",
    ]
    return found[columns].sort_values(["task", "metric", "mean", "series"], ignore_index=True)


def best_sheet(best: DataFrame, metric: str) -> Sheet:
    """Return the best steps under a metric for reading, tasks one after the other."""
    groups = []
    for _, rows in best[best["metric"] == metric].groupby("task", sort=False):
        least = rows["mean"].min()
        groups.append(
            [
                [
                    Cell(row.task),
                    Cell(row.series),
                    Cell(row.schedule + (" (at the edge)" if row.at_edge else "")),
                    Cell(number_text(row.mean), best=bool(row.mean == least and np.isfinite(least))),
                    Cell(interval_text(row.low, row.high)),
                    Cell(str(row.runs)),
                ]
                for row in rows.itertuples()
            ]
        )
    header = ["Task", "Series", "Best step size", "Error at the end", "95 % interval", "Instances"]
    return Sheet("best-steps", f"Best step sizes: {metric}.", header, groups, [NOTE], text_columns=3)


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


def common_schedule(points: DataFrame) -> str | None:
    """Return the step size that most series share, the middle one of several; None if none is shared."""
    owners = points.groupby("schedule")["series"].nunique().drop("none", errors="ignore")
    if owners.empty or owners.max() < 2:
        return None
    sizes = points.drop_duplicates("schedule").set_index("schedule")["a"]
    shared = sorted(owners[owners == owners.max()].index, key=lambda schedule: sizes[schedule])
    return str(shared[len(shared) // 2])
