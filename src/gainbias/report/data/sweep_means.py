"""Means and intervals over the instances of a sweep, and the best step size of each series.

`Summary` reads the table piece by piece, however large it is. `best_steps` chooses step sizes on half of the
instances and measures them on the other half.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from pandas import DataFrame, Series
from scipy.stats import t as student

from gainbias.experiments.cell import EXACT_COLUMN
from gainbias.report.text import distinct_texts

SCHEDULE = ["step_size", "a", "c0", "xi"]
METRIC = ["kind", "target", "norm"]
SWEEP_CONFIDENCE = 0.95


class Names(NamedTuple):
    """The columns, in words, by which curves of a sweep differ; see `Summary`."""

    task: str
    series: str
    schedule: str
    metric: str


class Summary:
    """Errors of a sweep by task, series, schedule, metric and step.

    A *series* is an algorithm with parameters and the shape of its step sizes; its step size is `a`.

    Errors of several paths on one instance are averaged first: instances are independent of each other, and
    paths on one of them are not. Instances that are copies of each other, the same problem along the same
    path, count as one.

    Attributes
    ----------
    points : DataFrame
        Columns task, series, schedule, metric, algorithm, a, step, transitions, instances, runs (one for
        each path on each instance), diverged, mean, low and high: the mean over all instances with its 95%
        interval; infinite if any run diverged. For a single instance there is no such interval; path_low
        and path_high are then the interval of its mean over its paths. Finally exact, the root mean square
        over instances and all paths; nan where it was not computed.
    """

    def __init__(self, path: Path, params: Sequence[str]) -> None:
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(path)
        names = self._file.schema_arrow.names
        self._params = [name for name in params if name in names and name != EXACT_COLUMN]
        self._keys = ["task", "settings", "algorithm", *self._params, *SCHEDULE, *METRIC]
        self._instances = _instances(self._file)
        self._shapes = _distinct(self._file, ["algorithm", *self._params, *SCHEDULE])

    @cached_property
    def points(self) -> DataFrame:
        """Table of means over all instances; see the class."""
        return pandas.concat([part.points for part in self._all], ignore_index=True)

    @cached_property
    def halves(self) -> DataFrame:
        """Table of means at the last step, over every second instance and over the others."""
        return pandas.concat([part.halves for part in self._all], ignore_index=True)

    @cached_property
    def ends(self) -> DataFrame:
        """Table of errors at the last step: column mean, for each instance (column original) alone."""
        return pandas.concat([part.ends for part in self._all], ignore_index=True)

    @cached_property
    def _all(self) -> list[SummaryPart]:
        return list(self.parts())

    @property
    def num_tasks(self) -> int:
        """Number of tasks; different settings make different tasks."""
        return len(self._instances[["task", "settings"]].drop_duplicates())

    def parts(self) -> Iterator[SummaryPart]:
        """Iterate over the tasks, a few at a time in the order of the table: only these are in memory."""
        series = ["task", "settings", "algorithm", *self._params, "step_size", "c0", "xi"]
        for sums, ends in _summed(self._file, self._keys, series, self._instances):
            at_end = sums.groupby(series, dropna=False)["step"].transform("max") == sums["step"]
            yield SummaryPart(
                self._means(sums, ["step"]),
                self._means(sums[at_end], ["step", "half"]),
                self._means(ends, ["half", "original"])[[*_NAMES, "half", "original", "mean"]],
            )

    def _means(self, sums: DataFrame, others: list[str]) -> DataFrame:
        """Return means and intervals; curves are told apart by numbers, and named afterwards."""
        keys = [*self._keys, *others]
        table = _with_intervals(sums.groupby(keys, dropna=False, sort=False, observed=True))
        names = {
            "task": _tasks(table, self._instances),
            "series": _series(table, self._params, self._shapes),
            "schedule": _schedules(table, self._shapes),
            "metric": _spread(table, METRIC, metric_text),
        }
        columns = ["algorithm", "a", *others, "transitions", "instances", "runs", "diverged", *_FOUND]
        return table.assign(**names)[[*_NAMES, *columns]]


class SummaryPart(NamedTuple):
    """The points, the halves and the ends of some tasks; see `Summary`."""

    points: DataFrame
    halves: DataFrame
    ends: DataFrame


_NAMES = list(Names._fields)

_FOUND = ["mean", "low", "high", "path_low", "path_high", "exact"]

KEYS = ["task", "metric", "series"]

BEST_ORDER = ["task", "metric", "mean", "series"]
"""The order in which the best steps are listed."""


def best_steps(summary: Summary | SummaryPart) -> DataFrame:
    """Return for each task, metric and series the best step size, and the error at the last step with it.

    Returns
    -------
    DataFrame
        Columns task, metric, series, algorithm, schedule, a, instances, runs, diverged, mean, low, high,
        path_low, path_high, at_edge and apart, whether the choice was made on other instances; finally
        those of `_behind`. Best series of a task first.
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
    found = found[columns].sort_values(BEST_ORDER, ignore_index=True)
    return pandas.concat([found, _behind(found, summary.ends)], axis=1)


def _behind(best: DataFrame, ends: DataFrame) -> DataFrame:
    """Return how far each series is behind the best of its task: differences on the same instances.

    All series run on the same instances, so differences vary less than the errors themselves. The 95% Student
    intervals hold for all rivals of a task together (Bonferroni's correction). The best one is chosen by the
    same errors. Even so the series with the least expected error is among those that are tied, in at least
    95% of all sweeps: it is missing only if one of the others beats it beyond its interval.

    Returns
    -------
    DataFrame
        Columns behind, behind_low and behind_high, nan for the best itself and where too few instances are
        shared, and tied: whether the series may be as good as the best, and an interval shows it.
    """
    wanted = best[[*KEYS, "schedule", "apart"]].assign(row=best.index)
    errors = ends.merge(wanted, on=[*KEYS, "schedule"])
    errors = errors[~errors["apart"].astype(bool) | (errors["half"] == 1)]
    wide = errors.pivot(index=["task", "original"], columns="row", values="mean")
    found = DataFrame(np.nan, index=best.index, columns=["behind", "behind_low", "behind_high"])
    for _, rows in best.groupby(["task", "metric"], sort=False):
        first, *rivals = rows.index
        for rival in rivals if np.isfinite(best.loc[first, "mean"]) else []:
            found.loc[rival] = _difference((wide[rival] - wide[first]).dropna().to_numpy(), len(rivals))
    return found.assign(tied=found["behind_low"] <= 0)


def _difference(numbers: Any, rivals: int) -> tuple[float, float, float]:
    """Return the mean of some differences and its interval, one of several that hold together."""
    count = len(numbers)
    if not count or not np.isfinite(numbers).all():
        return (math.inf if count else math.nan), math.nan, math.nan
    mean = float(numbers.mean())
    if count < 2:
        return mean, math.nan, math.nan
    level = 1 - (1 - SWEEP_CONFIDENCE) / (2 * rivals)
    reach = float(student.ppf(level, count - 1) * numbers.std(ddof=1) / math.sqrt(count))
    return mean, mean - reach, mean + reach


def _tasks_to_split(halves: DataFrame) -> list[str]:
    """Return the tasks with two instances or more in either half, whatever the step size."""
    each = halves.groupby([*KEYS, "schedule"], sort=False)["instances"].agg(["size", "min"]).reset_index()
    enough = ((each["size"] == 2) & (each["min"] >= 2)).groupby(each["task"], sort=False).all()
    return [str(task) for task in enough.index[enough]]


def common_schedule(points: DataFrame) -> str | None:
    """Return the step size that most series share, the middle one of several; None if none is shared."""
    owners = points.groupby("schedule")["series"].nunique().drop("none", errors="ignore")
    if owners.empty or owners.max() < 2:
        return None
    sizes = points.drop_duplicates("schedule").set_index("schedule")["a"]
    shared = sorted(owners[owners == owners.max()].index, key=lambda schedule: sizes[schedule])
    return str(shared[len(shared) // 2])


def for_charts(points: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return points with the intervals that charts show, and the tasks for which these are over paths.

    Those are tasks with one instance, for which nothing better is known.
    """
    alone = points.groupby("task", sort=False)["instances"].transform("max") == 1
    alone &= points["path_low"].notna()
    low, high = (points[name].where(~alone, points[f"path_{name}"]) for name in ("low", "high"))
    return points.assign(low=low, high=high), [str(task) for task in points.loc[alone, "task"].unique()]


def _summed(
    file: Any, keys: list[str], series: list[str], instances: DataFrame
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Iterate over sums over instances, task by task, as soon as all rows of a task have been read.

    The two halves of the instances are kept apart; each instance is averaged over its paths. Beside the sums
    come the rows of each instance at its last step.
    """
    names = file.schema_arrow.names
    exact = [EXACT_COLUMN] if EXACT_COLUMN in names else []
    seed = ["seed"] if "seed" in names else []
    columns = [*keys, "instance", *seed, "step", "transitions", "error", *exact]
    last = instances.groupby(["task", "settings"], as_index=False)["last_group"].max()
    waiting, total, ends = DataFrame(), DataFrame(), DataFrame()
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group, columns=columns).to_pandas()
        rows = rows.merge(instances, on=_INSTANCE, how="left")
        waiting = pandas.concat([waiting, rows], ignore_index=True)
        whole = waiting["last_group"] <= group  # all their rows have come
        if not whole.any():
            continue
        closed = _averaged(waiting[whole], [*keys, "step", "half", "original"], seed)
        last_steps = closed.groupby([*series, "original"], dropna=False)["step"].transform("max")
        ends = pandas.concat([ends, closed[closed["step"] == last_steps]], ignore_index=True)
        total = _added(pandas.concat([total, closed], ignore_index=True), [*keys, "step", "half"])
        waiting = waiting[~whole]
        ended, ended_ends = (
            table[["task", "settings"]].merge(last, how="left")["last_group"].to_numpy() <= group
            for table in (total, ends)
        )
        if ended.any():
            yield total[ended], ends[ended_ends]
            total, ends = total[~ended], ends[~ended_ends]


def _distinct(file: Any, columns: list[str]) -> DataFrame:
    """Return the different rows of some columns."""
    found = DataFrame()
    for group in range(file.num_row_groups):
        rows = file.read_row_group(group, columns=columns).to_pandas().drop_duplicates()
        found = pandas.concat([found, rows], ignore_index=True).drop_duplicates()
    return found


_INSTANCE = ["task", "settings", "instance"]


def _instances(file: Any) -> DataFrame:
    """Return what must be known about each instance before its rows are read.

    Returns
    -------
    DataFrame
        Columns task, settings, instance; original, the first instance that it is a copy of, mostly itself;
        half, 0 or 1 in turn; last_group, the row group with the last rows of the original.
    """
    columns = [*_INSTANCE, *(name for name in ("seed", "fingerprint") if name in file.schema_arrow.names)]
    parts = [
        file.read_row_group(group, columns=columns).to_pandas().drop_duplicates().assign(last_group=group)
        for group in range(file.num_row_groups)
    ]
    rows = pandas.concat(parts, ignore_index=True)
    rows["original"] = _originals(rows) if {"seed", "fingerprint"} <= {*columns} else rows["instance"]
    task = ["task", "settings"]
    rows["last_group"] = rows.groupby([*task, "original"])["last_group"].transform("max")
    rows["half"] = (rows.groupby(task)["original"].rank("dense").astype(np.int64) - 1) % 2
    return rows[[*_INSTANCE, "original", "half", "last_group"]].drop_duplicates(_INSTANCE)


def _originals(rows: DataFrame) -> Series[int]:
    """Return for each row the first instance that its instance is a copy of: same problem and same path.

    Some tasks are the same for every number, and a path depends on its seed alone.
    """
    found = rows["instance"]
    while True:
        before = found
        for same in (["task", "settings", "fingerprint", "seed"], _INSTANCE):
            found = found.groupby([rows[name] for name in same]).transform("min")
        if found.equals(before):
            return found


def _averaged(rows: DataFrame, keys: list[str], seed: list[str]) -> DataFrame:
    """Return a row for each instance, with the mean over its paths."""
    if seed:
        rows = rows.drop_duplicates([*keys, *seed])  # of copies
    finite = np.isfinite(rows["error"])
    errors = rows["error"].where(finite, 0.0)
    rows = rows.assign(
        runs=1,
        diverged=(~finite).astype(np.int64),
        total=errors,
        path_squares=errors**2,
        exact_squares=rows[EXACT_COLUMN] ** 2 if EXACT_COLUMN in rows else np.nan,
    )
    grouped = rows.groupby(keys, dropna=False, sort=False, observed=True)
    sums = grouped[["runs", "diverged", "total", "path_squares"]].sum()
    exact = grouped["exact_squares"].mean()
    table = pandas.concat([grouped["transitions"].first(), sums, exact], axis=1).reset_index()
    table["total"] /= table["runs"]
    return table.assign(instances=1, squares=table["total"] ** 2)


def _added(rows: DataFrame, keys: list[str]) -> DataFrame:
    return _sums(rows.groupby(keys, dropna=False, sort=False, observed=True))


def _sums(grouped: Any) -> DataFrame:
    sums = grouped[["instances", "runs", "diverged", "total", "squares", "path_squares"]].sum()
    exact = grouped["exact_squares"].sum(min_count=1)  # nan where nothing was computed, instead of 0
    table: DataFrame = pandas.concat([grouped["transitions"].first(), sums, exact], axis=1).reset_index()
    return table


def _with_intervals(grouped: Any) -> DataFrame:
    table = _sums(grouped)
    count, runs = table["instances"].to_numpy(), table["runs"].to_numpy()
    finite = table["diverged"].to_numpy() == 0
    mean = table["total"].to_numpy() / count
    over_instances = _reach(mean, table["squares"].to_numpy(), count)
    over_paths = _reach(mean, table["path_squares"].to_numpy(), runs)
    several, alone = finite & (count > 1), finite & (count == 1) & (runs > 1)
    table["mean"] = np.where(finite, mean, np.inf)
    table["low"] = np.where(several, np.maximum(mean - over_instances, 0.0), np.nan)
    table["high"] = np.where(several, mean + over_instances, np.nan)
    table["path_low"] = np.where(alone, np.maximum(mean - over_paths, 0.0), np.nan)
    table["path_high"] = np.where(alone, mean + over_paths, np.nan)
    table["exact"] = np.sqrt(table["exact_squares"] / count)
    return table


def _reach(mean: Any, squares: Any, count: Any) -> Any:
    """Return how far a 95% interval of a mean reaches, from the sum of squares."""
    others = np.maximum(count - 1, 1)
    spread = np.maximum(0.0, squares / count - mean**2) * count / others
    return student.ppf(0.5 + SWEEP_CONFIDENCE / 2, others) * np.sqrt(spread / count)


def _tasks(table: DataFrame, every: DataFrame) -> Series[str]:
    """Return the id of each task, with the settings in which its variants differ."""
    found: dict[str, list[dict[str, Any]]] = {}
    for task, settings in every[["task", "settings"]].drop_duplicates().itertuples(index=False):
        found.setdefault(task, []).append(json.loads(settings))
    varying = {task: _varying(variants) for task, variants in found.items()}

    def text(task: str, settings: str) -> str:
        own = json.loads(settings)
        return _joined(task, [f"{name} {own[name]}" for name in varying[task] if name in own])

    return _spread(table, ["task", "settings"], text)


def _series(table: DataFrame, params: Sequence[str], every: DataFrame) -> Series[str]:
    """Return the id of each algorithm, with the parameters that vary and the shape of step sizes."""
    columns = ["algorithm", *params]
    rows = every[columns].drop_duplicates().astype(object)
    varying = {
        algorithm: _varying([dict(zip(params, row[1:], strict=True)) for row in own.itertuples(index=False)])
        for algorithm, own in rows.groupby("algorithm")
    }

    texts = {name: distinct_texts(every[name]) for name in (*params, "c0", "xi")}

    def text(algorithm: str, kind: str, c0: float, xi: float, *values: float) -> str:
        given = dict(zip(params, values, strict=True))
        words = [f"{name} {texts[name][given[name]]}" for name in varying[algorithm]]
        shape = _shape(kind, "a", texts["c0"].get(c0, ""), texts["xi"].get(xi, ""))
        return _joined(algorithm, words + [shape] * (kind in ("harmonic", "polynomial")))

    return _spread(table, ["algorithm", "step_size", "c0", "xi", *params], text)


def _schedules(table: DataFrame, every: DataFrame) -> Series[str]:
    """Return each step size as usually written, with enough digits to tell all of them apart."""
    texts = [distinct_texts(every[name]) for name in ("a", "c0", "xi")]

    def text(kind: str, *numbers: float) -> str:
        return _shape(kind, *(own.get(number, "") for own, number in zip(texts, numbers, strict=True)))

    return _spread(table, SCHEDULE, text)


def _spread(table: DataFrame, columns: list[str], text: Any) -> Series[str]:
    """Return a text for each row, made once for each combination."""
    places = table.groupby(columns, dropna=False, sort=False).ngroup()
    firsts = table.loc[~places.duplicated(), columns]
    texts = np.array([text(*row) for row in firsts.itertuples(index=False)], dtype=object)
    return Series(texts[places.to_numpy()], index=table.index)


def _varying(variants: Iterable[dict[str, Any]]) -> list[str]:
    seen: dict[str, set[str]] = {}
    variants = list(variants)
    for variant in variants:
        for name in {name for other in variants for name in other}:
            seen.setdefault(name, set()).add(str(variant.get(name)))
    return sorted(name for name, values in seen.items() if len(values) > 1)


def _joined(name: str, words: list[Any]) -> str:
    return ", ".join([name, *words])


def _shape(kind: str, a: str, c0: str, xi: str) -> str:
    """Return a step size as usually written.

    Examples
    --------
    >>> _shape("constant", "0.1", "", ""), _shape("harmonic", "10", "50", ""), _shape("none", "", "", "")
    ('0.1', '10/(t+50)', 'none')
    """
    texts = {"constant": a, "harmonic": f"{a}/(t+{c0})", "polynomial": f"{a}/(t+{c0})^{xi}"}
    return texts.get(kind, "none")


def metric_text(kind: str, target: str, norm: str) -> str:
    """Return a metric in words.

    Examples
    --------
    >>> metric_text("quotient", "bias", "euclidean")
    'distance to the bias, up to a constant'
    """
    targets = {"bias": "the bias", "paper": "the paper's fixed point", "own": "the method's own limit"}
    kinds = {"quotient": ", up to a constant", "centred": ", centred", "full": ""}
    norms = {"stationary": ", by the stationary law"}
    return f"distance to {targets.get(target, target)}{kinds.get(kind, '')}{norms.get(norm, '')}"
