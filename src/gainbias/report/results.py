"""The stored results of a study, and the paper's own numbers beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas
from pandas import DataFrame

RUN_COLUMNS = {
    "protocol": "category",
    "task": "category",
    "algorithm": "category",
    "run": "int64",
    "seed": "int64",
    "step": "int64",
    "transitions": "int64",
    "kind": "category",
    "target": "category",
    "norm": "category",
    "error": "float64",
    "gain": "float64",
}
"""Columns of ``runs.parquet``: a row for each protocol, task, algorithm, run, checkpoint and metric."""

CONDITIONS = ("eta1", "eta2", "eta2_literal", "eta3")
CONDITION_COLUMNS = {"protocol": "category", "task": "category", "run": "int64"} | dict.fromkeys(
    CONDITIONS, "float64"
)
"""Columns that ``conditions.parquet`` must have: a row for each protocol, task and run."""

PAPER_METHODS = ("double-chain", "single-chain")
BASELINES = ("td-lambda", "implicit-td")
FLOOR = "lstd"
STUDIED = PAPER_METHODS + BASELINES
"""The four columns of the paper's table of distances."""

PAPER_NAMES = {"coupled-sa": "td-lambda", "implicit": "implicit-td"}
"""What the paper's tables call algorithms, where it is not their id."""


class MissingDataError(LookupError):
    """The stored results do not hold what a table or a verdict needs."""


class Paper(NamedTuple):
    """The numbers that the paper prints.

    Attributes
    ----------
    parameters : DataFrame
        Columns task, d, step_numerator, step_offset, steps, epsilon; its order of tasks is used everywhere.
    distances : DataFrame
        Columns task, algorithm, mean, std.
    condition_numbers : DataFrame
        Columns task, eta1, eta2, eta3.
    """

    parameters: DataFrame
    distances: DataFrame
    condition_numbers: DataFrame

    @property
    def tasks(self) -> list[str]:
        """Ids of the tasks in the paper's order."""
        return [str(task) for task in self.parameters["task"]]

    def final_errors(self) -> DataFrame:
        """Return the table of distances with our ids of algorithms."""
        return self.distances.assign(algorithm=self.distances["algorithm"].replace(PAPER_NAMES))


@dataclass(frozen=True)
class Score:
    """How errors are measured and when.

    Attributes
    ----------
    protocol : str
        "literal", "inferred" or "fair".
    kind : str
        "full", "centred", "quotient"; or "paper": "full" for the paper's two algorithms and least squares,
        "quotient" for all others.
    target : str
        "bias", "paper" (the paper's fixed point) or "own".
    budget : str
        "steps": each algorithm makes all its steps; "transitions": all stop after as many transitions as the
        one that uses fewest.
    norm : str
        "euclidean" or "stationary".

    Examples
    --------
    >>> score = Score("literal", kind="paper", target="bias")
    >>> score.kind_of("single-chain"), score.kind_of("td-lambda")
    ('full', 'quotient')
    """

    protocol: str
    kind: str
    target: str
    budget: Literal["steps", "transitions"] = "steps"
    norm: str = "euclidean"

    def kind_of(self, algorithm: str) -> str:
        """Return the kind of error that an algorithm is scored by."""
        if self.kind != "paper":
            return self.kind
        return "full" if algorithm in (*PAPER_METHODS, FLOOR) else "quotient"

    def but(self, **changes: Any) -> Score:
        """Return a score with other fields."""
        return replace(self, **changes)


PAPER_SCORES = {
    "literal": Score("literal", kind="paper", target="bias"),
    "inferred": Score("inferred", kind="paper", target="paper"),
}
"""How the paper scores, by its text and by its numbers."""

FAIR_SCORES = {
    f"fair, {kind}": Score("fair", kind=kind, target="bias", budget="transitions")
    for kind in ("full", "centred", "quotient")
}
"""One metric for all algorithms, at equal numbers of transitions."""


@dataclass(frozen=True, eq=False)
class Results:
    """The tables of one study.

    Attributes
    ----------
    runs : DataFrame
        Columns of `RUN_COLUMNS`.
    conditions : DataFrame
        Columns of `CONDITION_COLUMNS`, and perhaps more.
    manifest : mapping
        How the study was made.
    """

    runs: DataFrame
    conditions: DataFrame
    manifest: Mapping[str, Any]

    @cached_property
    def _places(self) -> dict[Any, Any]:
        keys = ["protocol", "algorithm", "kind", "target", "norm"]
        return dict(self.runs.groupby(keys, observed=True).indices)

    @cached_property
    def _answers(self) -> dict[Any, DataFrame]:
        """Answers given before: tables and verdicts ask the same many times."""
        return {}

    def _once(self, make: Callable[..., DataFrame], *question: Any) -> DataFrame:
        key = (make.__name__, *question)
        if key not in self._answers:
            self._answers[key] = make(*question)
        return self._answers[key]

    @cached_property
    def _budgets(self) -> Any:
        """The fewest transitions that an algorithm used, by protocol and task."""
        used = self.runs.groupby(["protocol", "task", "algorithm"], observed=True)["transitions"].max()
        return used.groupby(["protocol", "task"], observed=True).min()

    @cached_property
    def protocols(self) -> list[str]:
        """Protocols that the results hold."""
        return [str(protocol) for protocol in self.runs["protocol"].unique()]

    @cached_property
    def _algorithms(self) -> DataFrame:
        return self.runs[["protocol", "algorithm"]].drop_duplicates()

    def algorithms(self, protocol: str) -> list[str]:
        """Return the algorithms that were run under a protocol, in the order of the rows."""
        found = self._algorithms
        return [str(name) for name in found.loc[found["protocol"] == protocol, "algorithm"]]

    def tasks(self, protocol: str) -> list[str]:
        """Return the tasks that were run under a protocol, in the order of the rows."""
        if protocol not in self.protocols:
            return []
        return [str(task) for task in self._budgets[protocol].index]

    def curve(self, algorithm: str, score: Score) -> DataFrame:
        """Return the rows of one algorithm under a score, all tasks, runs and checkpoints."""
        return self._once(self._find_curve, algorithm, score.kind_of(algorithm), score)

    def _find_curve(self, algorithm: str, kind: str, score: Score) -> DataFrame:
        key = (score.protocol, algorithm, kind, score.target, score.norm)
        if key not in self._places:
            raise MissingDataError(f"the results hold no rows of {', '.join(key)}")
        rows = self.runs.iloc[self._places[key]]
        if rows["error"].isna().any():
            first = rows[rows["error"].isna()].iloc[0]
            raise ValueError(
                f"{algorithm} on {first['task']}, run {first['run']}, has no error at step {first['step']}: "
                "was the study interrupted? resume it first"
            )
        return rows

    def last(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the rows of the last checkpoints within a share of the budget, one for each task and run."""
        return self._once(self._find_last, algorithm, score, share)

    def _find_last(self, algorithm: str, score: Score, share: float) -> DataFrame:
        rows = self.curve(algorithm, score)
        if score.budget == "steps":
            limit = rows.groupby("task", observed=True)["step"].transform("max")
        else:
            limit = rows["task"].map(self._budgets[score.protocol]).astype("int64")
        used = rows["step"] if score.budget == "steps" else rows["transitions"]
        within = rows[used <= share * limit]
        last = within.loc[within.groupby(["task", "run"], observed=True)["step"].idxmax()]
        if len(last) < len(rows.drop_duplicates(["task", "run"])):
            raise MissingDataError(f"{algorithm} has no checkpoint within {share:g} of the budget")
        return last

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the errors at the last checkpoint, a row for each run and a column for each task."""
        return self._once(self._find_errors, algorithm, score, share)

    def _find_errors(self, algorithm: str, score: Score, share: float) -> DataFrame:
        return _wide(self.last(algorithm, score, share), "error")

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a condition number, a row for each run and a column for each task."""
        rows = self.conditions[self.conditions["protocol"] == score.protocol]
        if rows.empty:
            raise MissingDataError(f"the results hold no condition numbers of protocol {score.protocol}")
        return _wide(rows, name)


class Printed:
    """The paper's tables behind the same questions as `Results`: one run, one score."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the printed means as one row."""
        rows = self.paper.final_errors().query("algorithm == @algorithm")
        if rows.empty or score.kind != "paper" or score.budget != "steps" or share != 1.0:
            raise MissingDataError("the paper prints no such numbers")
        return _wide(rows.assign(run=0), "mean")

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a printed condition number as one row; there is one eta2, whatever its reading."""
        column = "eta2" if name == "eta2_literal" else name
        return _wide(self.paper.condition_numbers.assign(run=0), column)


def _wide(rows: DataFrame, value: str) -> DataFrame:
    """Return a row for each run and a column for each task, in the order of the rows."""
    rows = rows.astype({"task": object})
    return rows.pivot(index="run", columns="task", values=value).reindex(columns=rows["task"].unique())


def read_results(folder: str | Path) -> Results:
    """Read the tables of a study.

    Parameters
    ----------
    folder : path
        Holds ``manifest.json``, ``runs.parquet`` and ``conditions.parquet``.

    Raises
    ------
    ValueError
        If a file or a column is missing.
    """
    folder = Path(folder)
    for name in ("manifest.json", "runs.parquet", "conditions.parquet"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no {name}: it must be the results folder of a finished study")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    runs = _read_table(folder / "runs.parquet", RUN_COLUMNS)
    return Results(runs, _read_table(folder / "conditions.parquet", CONDITION_COLUMNS), manifest)


def _read_table(path: Path, columns: Mapping[str, str]) -> DataFrame:
    names = [name for name, kind in columns.items() if kind == "category"]
    table = pandas.read_parquet(path, engine="pyarrow", read_dictionary=names).reset_index(drop=True)
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"{path} must have the columns {', '.join(columns)}; it has no {', '.join(missing)}")
    if table.empty:
        raise ValueError(f"{path} has no rows: it must hold at least one run")
    table = table.astype(dict(columns))
    for name in names:  # in the order of the rows, so that tasks keep it
        table[name] = table[name].cat.set_categories(table[name].unique().astype(object))
    return table
