"""The paper's three tables, with our numbers beside the printed ones.

Each is a tidy frame with a row for each number of the paper, which is also the CSV file. Every number of ours
follows from stored rows alone: `rows_behind` returns them, `untraceable` finds cells that do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from gainbias.experiments.results import CONDITIONS
from gainbias.experiments.statistics import Interval, proportion_interval
from gainbias.report.data.printed import Paper
from gainbias.report.data.results import Archive, MissingDataError
from gainbias.report.data.scores import TABLE_SCORES

OURS = (
    *("our_mean", "our_std", "runs", "diverged", "ratio", "below", "equal", "above"),
    *("percentile", "percentile_low", "percentile_high"),
)
"""Columns that are computed from stored rows."""

PARAMETERS = {
    "d": "num_features",
    "step_numerator": "step_numerator",
    "step_offset": "step_offset",
    "steps": "step",
    "epsilon": "epsilon",
}
"""The paper's parameters and the stored column of each."""


def distances_table(results: Archive, paper: Paper) -> DataFrame:
    """Return the paper's table of distances, printed and rebuilt under each protocol.

    Returns
    -------
    DataFrame
        A row for each protocol, task and algorithm: the printed mean and standard deviation; mean and
        standard deviation of our runs (that of a sample); the number of runs and of diverged ones; the ratio
        of ours to the printed mean (NaN where 0.00 is printed); how many runs are below, equal (to two
        decimals) and above the printed mean; the share below in per cent, draws counted half, and its 95 %
        interval. What was not run has 0 runs, and NaN.
    """
    rows = []
    for protocol in _protocols(results):
        for printed in paper.final_errors().itertuples():
            key = {"protocol": protocol, "task": printed.task, "algorithm": printed.algorithm}
            numbers = _distance_rows(results, **key)["error"].to_numpy()
            row = {**key, "paper_mean": printed.mean, "paper_std": printed.std}
            rows.append(row | _comparison(numbers, printed.mean, _two_decimals))
    return DataFrame(rows)


def conditions_table(results: Archive, paper: Paper) -> DataFrame:
    """Return the paper's condition numbers beside ours; its eta2 stands beside both readings of eta2.

    Returns
    -------
    DataFrame
        A row for each protocol, task and condition number, with columns as in `distances_table`; "equal"
        means to three digits.
    """
    rows = []
    for protocol in _protocols(results):
        for printed in paper.condition_numbers.to_dict("records"):
            for name in CONDITIONS:
                key = {"protocol": protocol, "task": printed["task"], "condition": name}
                value = float(printed["eta2" if name == "eta2_literal" else name])
                numbers = _condition_rows(results, protocol, printed["task"])[name].to_numpy()
                rows.append({**key, "paper_mean": value} | _comparison(numbers, value, _three_digits))
    return DataFrame(rows)


def parameters_table(results: Archive, paper: Paper) -> DataFrame:
    """Return the paper's parameters beside those that the stored runs used.

    Returns
    -------
    DataFrame
        A row for each protocol, task and parameter: the printed value (an epsilon that is not printed is 0),
        ours, and whether they agree: "yes", "no" or "not stored".
    """
    rows = []
    for protocol in _protocols(results):
        for printed in paper.parameters.fillna({"epsilon": 0.0}).to_dict("records"):
            for parameter in PARAMETERS:
                key = {"protocol": protocol, "task": printed["task"], "parameter": parameter}
                stored = _parameter_rows(results, **key)
                ours, value = _parameter(stored, parameter), float(printed[parameter])
                known = PARAMETERS[parameter] in stored and len(stored) > 0
                agrees = ("yes" if _same(ours, value) else "no") if known else "not stored"
                rows.append({**key, "paper": value, "ours": ours, "agrees": agrees})
    return DataFrame(rows)


def rows_behind(results: Archive, cell: Series) -> DataFrame:
    """Return the stored rows from which a row of one of the three tables was computed.

    Parameters
    ----------
    results : Archive
    cell : Series
        A row of a table of this module.
    """
    if "algorithm" in cell:
        return _distance_rows(results, cell["protocol"], cell["task"], cell["algorithm"])
    if "condition" in cell:
        return _condition_rows(results, cell["protocol"], cell["task"])
    return _parameter_rows(results, cell["protocol"], cell["task"], cell["parameter"])


def untraceable(table: DataFrame, results: Archive) -> list[str]:
    """Return the cells of a table that the stored rows do not give: empty if all is well."""
    wrong = []
    for _, cell in table.iterrows():
        name = " ".join(str(cell[key]) for key in cell.index[:3])
        found = _recomputed(cell, results)
        wrong += [f"{name} {key}" for key, value in found.items() if not _same(value, cell[key])]
    return wrong


def _recomputed(cell: Series, results: Archive) -> dict[str, Any]:
    """Compute a row once more, from the rows behind it."""
    rows = rows_behind(results, cell)
    if "parameter" in cell:
        return {"ours": _parameter(rows, cell["parameter"])}
    if "algorithm" in cell:
        found = _comparison(rows["error"].to_numpy(), cell["paper_mean"], _two_decimals)
    else:
        found = _comparison(rows[cell["condition"]].to_numpy(), cell["paper_mean"], _three_digits)
    return {key: found[key] for key in OURS}


def _same(one: Any, other: Any) -> bool:
    return bool(np.isclose(one, other, rtol=1e-12, atol=0, equal_nan=True))


def _protocols(results: Archive) -> list[str]:
    return [protocol for protocol in TABLE_SCORES if protocol in results.protocols]


def _distance_rows(results: Archive, protocol: str, task: str, algorithm: str) -> DataFrame:
    try:
        rows = results.last(algorithm, TABLE_SCORES[protocol])
    except MissingDataError:  # this algorithm was not run
        return results.runs.iloc[:0]
    return rows[rows["task"] == task]


def _condition_rows(results: Archive, protocol: str, task: str) -> DataFrame:
    return results.conditions.query("protocol == @protocol and task == @task")


def _parameter_rows(results: Archive, protocol: str, task: str, parameter: str) -> DataFrame:
    if parameter != "steps":
        return results.instances.query("protocol == @protocol and task == @task")
    algorithm = results.algorithms(protocol)[0]
    rows = results.last(algorithm, TABLE_SCORES[protocol])
    return rows[rows["task"] == task]


def _parameter(rows: DataFrame, parameter: str) -> float:
    """Return the one value that all rows have, or NaN where it is not stored."""
    column = PARAMETERS[parameter]
    if column not in rows:
        return math.nan
    values = rows[column].unique()
    if len(values) > 1:
        raise ValueError(f"runs of one task must agree on {parameter}, found {sorted(values)}")
    return float(values[0]) if len(values) else math.nan


def _comparison(numbers: Any, printed: float, rounded: Callable[[Any], Any]) -> dict[str, Any]:
    """Compare our numbers with a printed one, which is rounded."""
    equal = rounded(numbers) == printed
    below, above = (int(np.sum(side & ~equal)) for side in (numbers < printed, numbers > printed))
    mean = float(np.mean(numbers)) if len(numbers) else math.nan
    share = Interval(math.nan, math.nan, math.nan)
    if len(numbers):
        share = proportion_interval(below + int(equal.sum()) / 2, len(numbers))
    return {
        "our_mean": mean,
        "our_std": float(np.std(numbers, ddof=1)) if len(numbers) > 1 and np.isfinite(mean) else math.nan,
        "runs": len(numbers),
        "diverged": int(np.isinf(numbers).sum()),
        "ratio": mean / printed if printed else math.nan,
        "below": below,
        "equal": int(equal.sum()),
        "above": above,
        "percentile": 100 * share.estimate,
        "percentile_low": 100 * share.low,
        "percentile_high": 100 * share.high,
    }


def _two_decimals(numbers: Any) -> Any:
    return np.round(numbers, 2)


def _three_digits(numbers: Any) -> Any:
    return np.array([float(f"{number:.2e}") for number in numbers])
