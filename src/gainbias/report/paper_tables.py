"""The tables of the paper's study: three with our numbers beside the printed ones, and the summary.

The paper's tables are tidy frames with a row for each printed number, which are also the CSV files. Each
of our numbers follows from stored rows alone: `rows_behind` returns these rows, and `untraceable` finds
cells that do not follow from any. The sheets lay out the same tables for reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame, Series

from gainbias.algorithms.registry import short_title
from gainbias.experiments.reproduce import CONDITION_RUNS, CONDITIONS, method_title
from gainbias.experiments.statistics import Interval, proportion_interval
from gainbias.report.data.results import (
    FAIR_SCORES,
    REFERENCE,
    STUDIED,
    TABLE_SCORES,
    Archive,
    MissingDataError,
    Paper,
    summary_table,
)
from gainbias.report.data.study_claims import STUDY_CLAIMS
from gainbias.report.data.verdicts import unexplained, verdict_table
from gainbias.report.text import Sheet, TableCell, range_text, ratio_text, scaled_text, spread_text
from gainbias.tasks.registry import task_title


class StudyTables(NamedTuple):
    """The paper's three tables beside ours, the summary (empty without protocol fair), and the verdicts."""

    distances: DataFrame
    conditions: DataFrame
    parameters: DataFrame
    summary: DataFrame
    verdicts: DataFrame
    unexplained: DataFrame


def study_tables(results: Archive, paper: Paper) -> StudyTables:
    """Return all tables of a study, each made once."""
    return StudyTables(
        distances_table(results, paper),
        conditions_table(results, paper),
        parameters_table(results, paper),
        summary_table(results, FAIR_SCORES) if "fair" in results.protocols else DataFrame(),
        without_certainty(verdict_table(STUDY_CLAIMS, results), results.manifest["shorten"] != 1),
        unexplained(results, paper),
    )


def without_certainty(verdicts: DataFrame, is_shortened: bool) -> DataFrame:
    """Return verdicts that only seem so where the study was shortened: longer runs may end otherwise."""
    sure = {"holds": "seems to hold", "fails": "seems to fail"}
    if not is_shortened or verdicts.empty:
        return verdicts
    return verdicts.assign(word=verdicts["word"].replace(sure))


OURS = (
    *("our_mean", "our_std", "runs", "diverged", "ratio", "below", "equal", "above"),
    *("percentile", "percentile_low", "percentile_high"),
)
"""Columns that are computed from stored rows."""

PAPER_PARAMETERS = {
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
        decimals) and above the printed mean; the share below in per cent, draws counted half, and its 95%
        interval. Anything that was not run has 0 runs, and NaN.
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
    """Return the paper's condition numbers beside ours, with its eta2 beside both readings of eta2.

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
            for parameter in PAPER_PARAMETERS:
                key = {"protocol": protocol, "task": printed["task"], "parameter": parameter}
                stored = _parameter_rows(results, **key)
                ours, value = _parameter(stored, parameter), float(printed[parameter])
                known = PAPER_PARAMETERS[parameter] in stored and len(stored) > 0
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
    column = PAPER_PARAMETERS[parameter]
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
    """Lay out a protocol's part of `distances_table`."""
    caption = f"Distance to the target after the last step, protocol {protocol}."
    header = ["Task", "", *(short_title(name) for name in STUDIED)]
    table = table[table["protocol"] == protocol]
    groups = [
        _compared(task, _ordered(part, "algorithm", STUDIED), spread_text, largest=False)
        for task, part in table.groupby("task", sort=False)
    ]
    notes = [PROTOCOL_NOTES[protocol], SCORE_NOTE, COMPARISON_NOTE]
    return Sheet(f"distances-{protocol}", caption, header, groups, notes, text_columns=2)


def conditions_sheet(table: DataFrame, protocol: str) -> Sheet:
    """Lay out a protocol's part of `conditions_table`."""
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
    """Lay out a protocol's part of `parameters_table`: printed values, and where ours differ."""
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
        groups.append([[TableCell(text) for text in (*texts, ", ".join(differing) or "same")]])
    header = ["Task", "d", "Step size", "Steps", "ε", "Ours"]
    caption = f"Parameters of the paper, and where ours differ, protocol {protocol}."
    return Sheet(f"parameters-{protocol}", caption, header, groups)


def summary_sheet(table: DataFrame) -> Sheet:
    """Lay out `summary_table`; the smallest typical error of each score is bold."""
    groups = []
    for score, part in table.groupby("score", sort=False):
        least = part["typical"].min()
        groups.append(
            [
                [
                    TableCell(str(score) if place == 0 else ""),
                    TableCell(method_title(row.algorithm)),
                    TableCell(
                        range_text(row.typical, row.typical_low, row.typical_high), row.typical == least
                    ),
                    TableCell(
                        "-"
                        if np.isnan(row.better)
                        else range_text(row.better, row.better_low, row.better_high)
                    ),
                ]
                for place, row in enumerate(part.itertuples())
            ]
        )
    header = [
        "Score",
        "Algorithm",
        "Times the least-squares error",
        f"Better than {short_title(REFERENCE)}",
    ]
    notes = [
        "Errors against the bias after equal numbers of transitions, over all runs of all tasks. Times the "
        "least-squares error: interquartile mean of the logarithm, on the same data. Better: probability "
        "that a run is better than a run of the other, on a task drawn at random. In brackets: 95% "
        "bootstrap intervals, stratified by task."
    ]
    return Sheet("summary", "All tasks together, protocol fair.", header, groups, notes, text_columns=2)


def _ordered(part: DataFrame, column: str, names: Sequence[str]) -> list[Series]:
    by_name = part.set_index(column)
    return [by_name.loc[name] for name in names]


def _compared(
    task: str, cells: list[Series], text: Callable[[float, float], str], largest: bool, unit: str = ""
) -> list[list[TableCell]]:
    """Return the three rows of a task."""
    ours = [text(cell["our_mean"], cell["our_std"]) if cell["runs"] else "not run" for cell in cells]
    paper = [text(cell["paper_mean"], cell.get("paper_std", math.nan)) for cell in cells]
    shares = [f"{ratio_text(cell['ratio'])} ({_below(cell)})" if cell["runs"] else "-" for cell in cells]
    best_ours = best_of([cell["our_mean"] for cell in cells], text, largest)
    best_paper = best_of([cell["paper_mean"] for cell in cells], text, largest)
    return [
        [TableCell(task_title(task)), TableCell("ours"), *map(TableCell, ours, best_ours)],
        [TableCell(unit), TableCell("paper"), *map(TableCell, paper, best_paper)],
        [TableCell(""), TableCell("ratio"), *map(TableCell, shares)],
    ]


def _below(cell: Series) -> str:
    return f"{cell['below'] + cell['equal'] / 2:g} of {cell['runs']}"


def best_of(means: Sequence[float], text: Callable[[float, float], str], largest: bool = False) -> list[bool]:
    """Return which numbers are the best; those that look the same in print share the first place.

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
