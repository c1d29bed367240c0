"""The stored results of a study and the paper's printed numbers, with the same methods to query both.

`read_results` returns an `Archive`, `printed_numbers` the paper's tables; `Printed` has for the paper what
`Archive` has for stored runs. A `Score` says how errors are measured: as in the paper, or alike for all
algorithms. `summary_table` combines all tasks: the typical error of each algorithm, and the probability
that it is better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas
from pandas import DataFrame

from gainbias.experiments.reproduce import CONDITIONS, in_method_order
from gainbias.experiments.results import SCHEMA, Results, stored_manifest
from gainbias.experiments.statistics import (
    Interval,
    Rng,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    scores_by_algorithm,
)
from gainbias.store import DamagedError
from gainbias.types import Floats

PAPER_ALGORITHMS = ("double-chain", "single-chain")
BASELINES = ("td-lambda", "implicit-td")
FLOOR_ALGORITHM = "lstd"
STUDIED = PAPER_ALGORITHMS + BASELINES
"""The four columns of the paper's table of distances."""


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
        "steps": each algorithm takes all its steps; "transitions": all stop after as many transitions as the
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
        return "full" if algorithm in (*PAPER_ALGORITHMS, FLOOR_ALGORITHM) else "quotient"

    def but(self, **changes: Any) -> Score:
        """Return a score with other fields."""
        return replace(self, **changes)


PAPER_SCORES = {
    "literal": Score("literal", kind="paper", target="bias"),
    "inferred": Score("inferred", kind="paper", target="paper"),
}
"""How the paper scores, by its text and by its numbers."""

TABLE_SCORES = PAPER_SCORES | {"fair": PAPER_SCORES["literal"].but(protocol="fair")}
"""How the paper's tables are rebuilt: the fair protocol has the literal features, and many more instances."""

FAIR_SCORES = {
    f"fair, {kind}": Score("fair", kind=kind, target="bias", budget="transitions")
    for kind in ("full", "centred", "quotient")
}
"""One metric for all algorithms, at equal numbers of transitions."""

PAPER_NAMES = {"coupled-sa": "td-lambda", "implicit": "implicit-td"}
"""What the paper's tables call algorithms, where it is not their id."""


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


def printed_numbers() -> Paper:
    """Return the numbers of the paper's tables.

    Examples
    --------
    >>> len(printed_numbers().parameters)
    15
    """
    data = resources.files("gainbias.tasks") / "data"
    tables = {}
    for name in ("parameters", "distances", "condition_numbers"):
        with resources.as_file(data / f"{name}.csv") as path:
            tables[name] = pandas.read_csv(path)
    return Paper(**tables)


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

KEY_COLUMNS = {"protocol": "category", "task": "category", "run": "int64"}
"""Columns that ``instances.parquet`` must have: a row for each protocol, task and run."""

CONDITION_COLUMNS = KEY_COLUMNS | dict.fromkeys(CONDITIONS, "float64")
"""Columns of ``conditions.parquet``: a row for each protocol, task and run, of the first few runs only."""

STATE_COLUMNS = {
    "protocol": "category",
    "task": "category",
    "state": "int64",
    "panel": "int64",
    "title": "category",
    "row": "int64",
    "column": "int64",
    "bias": "float64",
}
"""Columns of ``states.parquet``: a row for each state of the first instance of a task with a map."""

VALUE_COLUMNS = {
    "protocol": "category",
    "task": "category",
    "algorithm": "category",
    "step": "int64",
    "values": "object",
}
"""Columns of ``values.parquet``: a row for each algorithm and checkpoint on such an instance."""

TABLES = {
    "runs": RUN_COLUMNS,
    "instances": KEY_COLUMNS,
    "conditions": CONDITION_COLUMNS,
    "states": STATE_COLUMNS,
    "values": VALUE_COLUMNS,
}

MAY_BE_EMPTY = ("states", "values")
"""Tables that a study without maps leaves empty."""


class MissingDataError(LookupError):
    """Stored results lack something that a table or a verdict needs."""


@dataclass(frozen=True, eq=False)
class Archive:
    """The stored tables of one study, and answers from them.

    Attributes
    ----------
    runs : DataFrame
        Columns of `RUN_COLUMNS`.
    instances : DataFrame
        Columns of `KEY_COLUMNS`, and facts about each problem.
    conditions : DataFrame
        Columns of `CONDITION_COLUMNS`.
    states, values : DataFrame
        Columns of `STATE_COLUMNS` and `VALUE_COLUMNS`.
    manifest : mapping
        How the study was made.
    """

    runs: DataFrame
    instances: DataFrame
    conditions: DataFrame
    states: DataFrame
    values: DataFrame
    manifest: Mapping[str, Any]

    @cached_property
    def _places(self) -> dict[Any, Any]:
        keys = ["protocol", "algorithm", "kind", "target", "norm"]
        return dict(self.runs.groupby(keys, observed=True).indices)

    @cached_property
    def _answers(self) -> dict[Any, DataFrame]:
        """Results computed before, because tables and verdicts need the same ones many times."""
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
        """Protocols in the results."""
        return [str(protocol) for protocol in self.runs["protocol"].unique()]

    @cached_property
    def _algorithms(self) -> DataFrame:
        return self.runs[["protocol", "algorithm"]].drop_duplicates()

    def algorithms(self, protocol: str) -> list[str]:
        """Return the algorithms that were run under a protocol, in the order of the study."""
        found = self._algorithms
        return in_method_order(str(name) for name in found.loc[found["protocol"] == protocol, "algorithm"])

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
        refuse_gaps(rows)
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
        return wide(self.last(algorithm, score, share), "error")

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a condition number, a row for each run and a column for each task."""
        rows = self.conditions[self.conditions["protocol"] == score.protocol]
        if rows.empty:
            raise MissingDataError(f"the results hold no condition numbers of protocol {score.protocol}")
        return wide(rows, name)


class Printed:
    """The paper's tables, with the same methods as `Archive`: one run, one score."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the printed means as one row."""
        rows = self.paper.final_errors().query("algorithm == @algorithm")
        if rows.empty or score.kind != "paper" or score.budget != "steps" or share != 1.0:
            raise MissingDataError("the paper prints no such numbers")
        return wide(rows.assign(run=0), "mean")

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a printed condition number as one row; there is one eta2, whatever its reading."""
        column = "eta2" if name == "eta2_literal" else name
        return wide(self.paper.condition_numbers.assign(run=0), column)


def read_results(folder: str | Path) -> Archive:
    """Read the tables of a study.

    Parameters
    ----------
    folder : path
        Holds ``manifest.json`` and a Parquet file for each of `TABLES`.

    Raises
    ------
    ValueError
        If a file or a column is missing, a file is damaged, or another version wrote it.
    """
    folder = Path(folder)
    _refuse_missing(folder, "manifest.json")
    manifest = read_manifest(folder / "manifest.json")
    tables = {}
    for name, columns in TABLES.items():
        _refuse_missing(folder, f"{name}.parquet")
        tables[name] = _read_table(folder / f"{name}.parquet", columns)
        if tables[name].empty and name not in MAY_BE_EMPTY:
            raise ValueError(f"{folder / name}.parquet has no rows: it must hold at least one run")
    return Archive(**tables, manifest=manifest)


def _refuse_missing(folder: Path, name: str) -> None:
    if not (folder / name).is_file():
        begun = (folder / "study.json").is_file()
        advice = "finish the study with --resume" if begun else "name the folder of a finished study"
        raise ValueError(f"{folder} holds no {name}: {advice}")


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a study or a sweep of this version; raises ValueError as `read_results` does.

    A manifest from before an unfinished resume says so under "outdated".
    """
    try:
        manifest: dict[str, Any] = {"schema": None, **stored_manifest(path)}
    except DamagedError as error:
        raise ValueError(f"{path} is damaged: write it again with --resume") from error
    if manifest["schema"] != SCHEMA:
        raise ValueError(
            f"{path} was written by another version, with schema {manifest['schema']} where this one has "
            f"{SCHEMA}: use that version, or run the study again"
        )
    if words := Results(path.parent).outdated:
        warnings.warn(words, UserWarning, stacklevel=3)
        manifest["outdated"] = words
    return manifest


def _read_table(path: Path, columns: Mapping[str, str]) -> DataFrame:
    names = [name for name, kind in columns.items() if kind == "category"]
    try:
        table = pandas.read_parquet(path, engine="pyarrow", read_dictionary=names).reset_index(drop=True)
    except (ValueError, OSError) as error:  # pyarrow's errors are among them
        raise ValueError(f"{path} is damaged: write it again with --resume") from error
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"{path} must have the columns {', '.join(columns)}; it has no {', '.join(missing)}")
    table = table.astype(dict(columns))
    for name in names:  # in the order of the rows, so that tasks keep it
        table[name] = table[name].cat.set_categories(table[name].unique().astype(object))
    return table


def refuse_gaps(rows: DataFrame) -> None:
    """Raise ValueError where a run has no error."""
    gaps = rows["error"].isna()
    if gaps.any():
        first = rows[gaps].iloc[0]
        raise ValueError(
            f"{first['algorithm']} on {first['task']}, run {first['run']}, has no error at step "
            f"{first['step']}: was the study interrupted? resume it first"
        )


def wide(rows: DataFrame, value: str) -> DataFrame:
    """Return a row for each run and a column for each task, in the order of the rows."""
    rows = rows.astype({"task": object})
    return rows.pivot(index="run", columns="task", values=value).reindex(columns=rows["task"].unique())


REFERENCE = "td-lambda"
"""The probability of being better is relative to this one."""


def summary_table(results: Archive, scores: Mapping[str, Score], rng: Rng = 0) -> DataFrame:
    """Summarise each algorithm over all runs and tasks.

    Returns
    -------
    DataFrame
        A row for each score and algorithm: "typical", the error in multiples of that of least squares on the
        same data (interquartile mean of the logarithm), and "better", the probability that a run is better
        than one of `REFERENCE`; both with the ends of a 95% bootstrap interval stratified by task.
    """
    rng, rows = np.random.default_rng(rng), []
    for name, score in scores.items():
        arrays = score_arrays(results, score)
        for algorithm, ratios in log_floor_ratios(arrays).items():
            typical = bootstrap_interval(interquartile_mean, ratios, rng=rng)
            better = Interval(np.nan, np.nan, np.nan)
            if algorithm != REFERENCE and REFERENCE in arrays:
                samples = arrays[algorithm], arrays[REFERENCE]
                better = bootstrap_interval(probability_of_improvement, *samples, rng=rng)
            row = {"score": name, "algorithm": algorithm, "runs": ratios.shape[0], "tasks": ratios.shape[1]}
            row |= dict(zip(("typical", "typical_low", "typical_high"), 10 ** np.array(typical), strict=True))
            rows.append(row | dict(zip(("better", "better_low", "better_high"), better, strict=True)))
    return DataFrame(rows)


def score_arrays(results: Archive, score: Score) -> dict[str, Floats]:
    """Return the last errors under a score: a (runs, tasks) array for each algorithm, as for rliable."""
    tables = []
    for algorithm in results.algorithms(score.protocol):
        rows = results.last(algorithm, score)
        tables.append(rows.astype({"task": object, "algorithm": object}))
    if not tables:
        raise MissingDataError(f"the results hold no runs under protocol {score.protocol}")
    return scores_by_algorithm(pandas.concat(tables))


def log_floor_ratios(arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return log10 of each error over that of least squares on the same data; 0 where both diverged."""
    if FLOOR_ALGORITHM not in arrays:
        raise MissingDataError(f"the results hold no runs of {FLOOR_ALGORITHM}")
    logs = {name: np.log10(np.maximum(errors, np.finfo(float).tiny)) for name, errors in arrays.items()}
    with np.errstate(invalid="ignore"):
        ratios = {name: log - logs[FLOOR_ALGORITHM] for name, log in logs.items() if name != FLOOR_ALGORITHM}
    return {name: np.where(np.isnan(ratio), 0.0, ratio) for name, ratio in ratios.items()}
