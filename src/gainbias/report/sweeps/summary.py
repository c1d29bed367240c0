"""Means and intervals over the instances of a sweep, read piece by piece however large its table is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from pandas import DataFrame, Series
from scipy.stats import t as student

from gainbias.experiments.cell import EXACT

SCHEDULE = ["step_size", "a", "c0", "xi"]
METRIC = ["kind", "target", "norm"]
CONFIDENCE = 0.95


class Names(NamedTuple):
    """What tells curves of a sweep apart, in words; see `Summary`."""

    task: str
    series: str
    schedule: str
    metric: str


class Summary:
    """Errors of a sweep by task, series, schedule, metric and step.

    A *series* is an algorithm with parameters and the shape of its step sizes; its step size is `a`.

    Attributes
    ----------
    points : DataFrame
        Columns task, series, algorithm, schedule, a, metric, step, transitions, runs, diverged, mean, low and
        high: over all instances, with a 95 % interval of the mean; infinite if any diverged. And exact, the
        root mean square over instances and all paths; nan where it was not computed.
    """

    def __init__(self, path: Path, params: Sequence[str]) -> None:
        self._params = [name for name in params if name in _columns(path) and name != EXACT]
        self._sums = _summed(path, ["task", "settings", "algorithm", *self._params, *SCHEDULE, *METRIC])

    @cached_property
    def points(self) -> DataFrame:
        """Means over all instances."""
        keys = [*_NAMES, "algorithm", "a", "step"]
        return _with_intervals(self._named.groupby(keys, dropna=False, sort=False, observed=True))

    @cached_property
    def halves(self) -> DataFrame:
        """Means at the last step over the instances with even and with odd numbers."""
        ends = self._named.groupby(["task", "series"])["step"].transform("max")
        last = self._named[self._named["step"] == ends]
        keys = [*_NAMES, "algorithm", "a", "step", "half"]
        return _with_intervals(last.groupby(keys, dropna=False, sort=False, observed=True))

    @cached_property
    def _named(self) -> DataFrame:
        """The sums with names in words."""
        table = self._sums.copy()
        table["task"] = _tasks(table)
        table["series"] = _series(table, self._params)
        table["schedule"] = _spread(table, SCHEDULE, schedule_text)
        table["metric"] = _spread(table, METRIC, metric_text)
        return table


_NAMES = list(Names._fields)


def _columns(path: Path) -> list[str]:
    import pyarrow.parquet

    names: list[str] = pyarrow.parquet.read_schema(path).names
    return names


def _summed(path: Path, keys: list[str]) -> DataFrame:
    """Return sums over instances, those with even and odd numbers apart."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    has_exact, total = EXACT in file.schema_arrow.names, DataFrame()
    for group in range(file.num_row_groups):
        columns = [*keys, "instance", "step", "transitions", "error", *([EXACT] if has_exact else [])]
        rows = file.read_row_group(group, columns=columns).to_pandas()
        finite = np.isfinite(rows["error"])
        errors = rows["error"].where(finite, 0.0)
        rows = rows.assign(
            half=rows["instance"] % 2,
            runs=1,
            diverged=(~finite).astype(np.int64),
            total=errors,
            squares=errors**2,
            exact_squares=rows[EXACT] ** 2 if has_exact else np.nan,
        )
        total = _added(pandas.concat([total, rows], ignore_index=True), [*keys, "step", "half"])
    return total


def _added(rows: DataFrame, keys: list[str]) -> DataFrame:
    return _sums(rows.groupby(keys, dropna=False, sort=False, observed=True))


def _sums(grouped: Any) -> DataFrame:
    sums = grouped[["runs", "diverged", "total", "squares"]].sum()
    exact = grouped["exact_squares"].sum(min_count=1)  # nan where nothing was computed, instead of 0
    table: DataFrame = pandas.concat([grouped["transitions"].first(), sums, exact], axis=1).reset_index()
    return table


def _with_intervals(grouped: Any) -> DataFrame:
    table = _sums(grouped)
    runs = table["runs"].to_numpy()
    mean = table["total"].to_numpy() / runs
    spread = np.maximum(0.0, table["squares"].to_numpy() / runs - mean**2) * runs / np.maximum(runs - 1, 1)
    reach = student.ppf(0.5 + CONFIDENCE / 2, np.maximum(runs - 1, 1)) * np.sqrt(spread / runs)
    known = (runs > 1) & (table["diverged"].to_numpy() == 0)
    table["mean"] = np.where(table["diverged"] > 0, np.inf, mean)
    table["low"] = np.where(known, np.maximum(mean - reach, 0.0), np.nan)
    table["high"] = np.where(known, mean + reach, np.nan)
    table["exact"] = np.sqrt(table["exact_squares"] / runs)
    return table.drop(columns=["total", "squares", "exact_squares"])


def _spread(table: DataFrame, columns: list[str], text: Any) -> Series[str]:
    """Return a text for each row, made once for each combination."""
    places = table.groupby(columns, dropna=False, sort=False).ngroup()
    firsts = table.loc[~places.duplicated(), columns]
    texts = np.array([text(*row) for row in firsts.itertuples(index=False)], dtype=object)
    return Series(texts[places.to_numpy()], index=table.index)


def _tasks(table: DataFrame) -> Series[str]:
    """Return the id of each task, with the settings in which its variants differ."""
    found: dict[str, list[dict[str, Any]]] = {}
    for task, settings in table[["task", "settings"]].drop_duplicates().itertuples(index=False):
        found.setdefault(task, []).append(json.loads(settings))
    varying = {task: _varying(variants) for task, variants in found.items()}

    def text(task: str, settings: str) -> str:
        own = json.loads(settings)
        return _joined(task, [f"{name} {own[name]}" for name in varying[task] if name in own])

    return _spread(table, ["task", "settings"], text)


def _series(table: DataFrame, params: Sequence[str]) -> Series[str]:
    """Return the id of each algorithm, with the parameters that vary and the shape of step sizes."""
    columns = ["algorithm", *params]
    rows = table[columns].drop_duplicates().astype(object)
    varying = {
        algorithm: _varying([dict(zip(params, row[1:], strict=True)) for row in own.itertuples(index=False)])
        for algorithm, own in rows.groupby("algorithm")
    }

    def text(algorithm: str, kind: str, c0: float, xi: float, *values: float) -> str:
        given = dict(zip(params, values, strict=True))
        words = [f"{name} {given[name]:g}" for name in varying[algorithm]]
        shape = {"harmonic": f"a/(t+{c0:g})", "polynomial": f"a/(t+{c0:g})^{xi:g}"}.get(kind)
        return _joined(algorithm, words + [shape] * (shape is not None))

    return _spread(table, ["algorithm", "step_size", "c0", "xi", *params], text)


def _varying(variants: Iterable[dict[str, Any]]) -> list[str]:
    seen: dict[str, set[str]] = {}
    variants = list(variants)
    for variant in variants:
        for name in {name for other in variants for name in other}:
            seen.setdefault(name, set()).add(str(variant.get(name)))
    return sorted(name for name, values in seen.items() if len(values) > 1)


def _joined(name: str, words: list[Any]) -> str:
    return ", ".join([name, *words])


def schedule_text(kind: str, a: float, c0: float, xi: float) -> str:
    """Return a step size as people write it.

    Examples
    --------
    >>> schedule_text("constant", 0.1, np.nan, np.nan), schedule_text("harmonic", 10.0, 50.0, np.nan)
    ('0.1', '10/(t+50)')
    """
    texts = {"constant": f"{a:g}", "harmonic": f"{a:g}/(t+{c0:g})", "polynomial": f"{a:g}/(t+{c0:g})^{xi:g}"}
    return texts.get(kind, "none")


def metric_text(kind: str, target: str, norm: str) -> str:
    """Return an error in words.

    Examples
    --------
    >>> metric_text("quotient", "bias", "euclidean")
    'distance to the bias, up to a constant'
    """
    targets = {"bias": "the bias", "paper": "the paper's fixed point", "own": "the method's own limit"}
    kinds = {"quotient": ", up to a constant", "centred": ", centred", "full": ""}
    norms = {"stationary": ", by the stationary law"}
    return f"distance to {targets.get(target, target)}{kinds.get(kind, '')}{norms.get(norm, '')}"
