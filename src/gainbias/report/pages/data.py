"""Learning curves as plain numbers, for the charts of the page."""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.report.data.printed import Paper
from gainbias.report.data.results import Archive, refuse_gaps, tail_of
from gainbias.report.data.scores import FLOOR, PAPER_SCORES, STUDIED, TABLE_SCORES, Score
from gainbias.report.figures.style import look_of
from gainbias.report.names import ALGORITHMS, long_title, task_title
from gainbias.report.pages.frame import chart_look, short
from gainbias.report.pages.maps import map_data

MOST_POINTS = 60
"""A curve with more checkpoints is thinned to so many."""

CURVE = ["protocol", "task", "algorithm", "kind", "target", "norm"]
"""What tells one curve from another."""


def chart_data(results: Archive, paper: Paper) -> dict[str, Any]:
    """Return all that the charts need, ready for JSON.

    Returns
    -------
    dict
        "tasks" and "algorithms" by id, in the order in which they are listed; "protocols", each with the
        score that it opens with; "curves" by protocol, task and algorithm; "maps" of `map_data`; "printed",
        the paper's end points by task and algorithm; "thinned", whether checkpoints were left out.
    """
    points = curve_points(results.runs)
    known = [task for task in paper.tasks if (results.runs["task"] == task).any()]
    others = [str(task) for task in results.runs["task"].unique() if task not in known]
    return {
        "tasks": {task: task_title(task) for task in known + others},
        "algorithms": {name: _algorithm(name) for name in _algorithms(results)},
        "protocols": {name: _opening(name) for name in _protocols(results)},
        "curves": _curves(points),
        "maps": map_data(results),
        "printed": _printed(paper),
        "thinned": bool(points.groupby(CURVE, observed=True).size().max() > MOST_POINTS),
    }


def curve_points(runs: DataFrame) -> DataFrame:
    """Return mean and spread of the runs at each checkpoint of each curve, as `curves.learning_curve` does.

    Parameters
    ----------
    runs : DataFrame
        Columns of `results.RUN_COLUMNS`.

    Returns
    -------
    DataFrame
        Columns of `CURVE`, step, transitions, mean, low, high, runs and diverged.
    """
    refuse_gaps(runs)
    keys = [*CURVE, "step"]
    ordered = runs[runs["step"] > 0].sort_values([*keys, "error"], kind="stable")
    counts = ordered.groupby(keys, observed=True).size().to_numpy()
    starts = np.cumsum(counts) - counts
    tails = np.array([tail_of(count) for count in range(counts.max() + 1)])[counts]
    errors = ordered["error"].to_numpy()
    first = ordered.iloc[starts]
    return first[[*keys, "transitions"]].assign(
        mean=np.add.reduceat(errors, starts) / counts,
        low=errors[starts + tails],
        high=errors[starts + counts - 1 - tails],
        runs=counts,
        diverged=np.add.reduceat(np.isinf(errors).astype(np.int64), starts),
    )


def thinned(count: int, most: int = MOST_POINTS) -> Any:
    """Return the places of at most so many points, spread evenly, the first and the last among them.

    Examples
    --------
    >>> thinned(3), thinned(9, most=3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _curves(points: DataFrame) -> dict[str, Any]:
    curves: dict[str, Any] = {}
    for (protocol, task, algorithm, *metric), rows in points.groupby(CURVE, observed=True, sort=False):
        rows = rows.iloc[thinned(len(rows))]
        found = curves.setdefault(protocol, {}).setdefault(task, {}).setdefault(algorithm, {"errors": {}})
        found["steps"], found["transitions"] = rows["step"].tolist(), rows["transitions"].tolist()
        found["runs"] = int(rows["runs"].iloc[-1])
        found["errors"]["|".join(metric)] = {
            **{name: [short(number) for number in rows[name]] for name in ("mean", "low", "high")},
            "diverged": int(rows["diverged"].iloc[-1]),
        }
    return curves


def _protocols(results: Archive) -> list[str]:
    """Return the stored protocols: those of the paper's tables in their order, then any others."""
    return [name for name in dict.fromkeys((*TABLE_SCORES, *results.protocols)) if name in results.protocols]


def _algorithms(results: Archive) -> list[str]:
    found = {name for protocol in results.protocols for name in results.algorithms(protocol)}
    return [name for name in ALGORITHMS if name in found] + sorted(found - set(ALGORITHMS))


def _algorithm(name: str) -> dict[str, Any]:
    look = look_of(name)
    return {
        "title": long_title(name) + (" (floor)" if name == FLOOR else ""),
        **chart_look(look),
        "width": 1.6 * look.width,
        "paperKind": Score("", "paper", "").kind_of(name),
        "isFloor": name == FLOOR,
    }


def _opening(protocol: str) -> dict[str, str]:
    """Return the metric and the target that a protocol is shown with at first."""
    score = PAPER_SCORES.get(protocol, Score(protocol, "quotient", "bias"))
    return {"kind": score.kind, "target": score.target}


def _printed(paper: Paper) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    for row in paper.final_errors().itertuples():
        if row.algorithm in STUDIED:
            printed.setdefault(row.task, {})[row.algorithm] = [row.mean, row.std]
    return printed
