"""Tables of sweeps with errors that are given one by one."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas

from gainbias.report.data.sweep_means import Summary

SHARED = {
    "task": "garnet",
    "settings": "{}",
    "algorithm": "td-lambda",
    "kind": "quotient",
    "target": "bias",
    "norm": "euclidean",
    "step": 100,
    "transitions": 100,
    "step_size": "constant",
    "a": 0.1,
    "c0": float("nan"),
    "xi": float("nan"),
    "trace_decay": 0.0,
}


def table_of(rows: Iterable[Mapping[str, Any]], folder: Path, group: int = 7) -> Path:
    """Write rows, in which only what matters is said; row groups are small, as if there were many rows."""
    path = folder / "runs.parquet"
    pandas.DataFrame([{**SHARED, **row} for row in rows]).to_parquet(path, row_group_size=group)
    return path


def crossed(
    error: Callable[..., float], instances: Iterable[int], seeds: Iterable[int], **grid: Iterable[Any]
) -> list[dict[str, Any]]:
    """Return a row for each instance, path and combination of a grid; `error` is called with all of them."""
    names = ["instance", "seed", *grid]
    combinations = itertools.product(instances, seeds, *grid.values())
    rows = [dict(zip(names, values, strict=True)) for values in combinations]
    return [{**row, "error": error(**row)} for row in rows]


def summary_of(rows: Iterable[Mapping[str, Any]], folder: Path, group: int = 7) -> Summary:
    return Summary(table_of(rows, folder, group), ["trace_decay"])
