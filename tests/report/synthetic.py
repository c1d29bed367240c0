"""A results folder whose numbers follow a simple law, and a paper that prints about the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas

from gainbias.experiments.results import SCHEMA
from gainbias.report.data.results import (
    PAPER_NAMES,
    STATE_COLUMNS,
    VALUE_COLUMNS,
    Archive,
    Paper,
    read_results,
)
from gainbias.tasks.paper import paper_numbers

TASKS = tuple(paper_numbers())

PROTOCOLS = ("literal", "inferred", "fair")
CHECKPOINTS = np.array([10, 30, 100, 300, 1000, 3000, 10000])
LEVELS = {
    "double-chain": 2.0,
    "single-chain": 0.5,
    "td-lambda": 1.0,
    "implicit-td": 1.1,
    "relative-td": 0.8,
    "lstd": 0.2,
}
"""Errors modulo constants after the last step of the first task; task k has k + 1 times as much."""

CONSTANTS = {"td-lambda": 3.0, "implicit-td": 3.0}
"""The constant in an error, in multiples of the rest; 0.1 for those that find it."""

ETAS = {"eta1": 4e-3, "eta2": 3e-3, "eta2_literal": 2e-3, "eta3": 1e-3}
FACTS = {"num_states": 50, "num_features": 5, "step_numerator": 150.0, "step_offset": 1000.0}
FEW = ("taxi", "deep-sea", "random-walk-50")
MAPS = {"taxi": ["at R", "in the taxi"], "deep-sea": [""]}
"""Titles of the panels of tasks with maps."""

MANIFEST = {
    "schema": SCHEMA,
    "command": "gainbias reproduce",
    "finished": "2026-01-02T03:04:05Z",
    "seconds": 100.0,
    "code": "1.2.3+abc",
    "python": "3.11.7",
    "packages": {"numpy": "2.4.6", "gymnasium": "1.4.0", "mo-gymnasium": None},
    "units": 27,
    "reused": 0,
    "shorten": 1,
    "settings": {},
    "protocols": {
        "literal": {
            "seeds": [0, 1, 2],
            "methods": {
                "td-lambda": {"step_size": "the paper's", "params": {}},
                "vrtd": {"step_size": 0.5, "params": {"inner_steps": 600.0}},
            },
        }
    },
    "tasks": {"taxi": {"source": {"environment": "Taxi-v4"}}, "random-walk-50": {"source": {}}},
}
"""What the page of verdicts reads of a manifest."""


def make_runs(
    tasks=TASKS,
    protocols=PROTOCOLS,
    num_runs=3,
    levels=LEVELS,
    constants=CONSTANTS,
    slope=-0.5,
    far_bias=("inferred",),
    noise=0.02,
    seed=0,
):
    """Return tidy rows of all metrics.

    Errors follow the power `slope` of the step. Under the protocols of `far_bias` the fixed point is ten
    final errors away from the bias.
    """
    algorithms, kinds, targets = list(levels), ["full", "centred", "quotient"], ["bias", "paper"]
    rng = np.random.default_rng(seed)
    # Axes: protocol, task, algorithm, run, kind, target, norm, checkpoint.
    level = np.array([levels[name] for name in algorithms])[:, None, None, None, None, None]
    curve = level * (CHECKPOINTS / CHECKPOINTS[-1]) ** slope
    curve = curve * (1 + np.arange(len(tasks))).reshape(-1, 1, 1, 1, 1, 1, 1)
    shape = (len(protocols), len(tasks), len(algorithms), num_runs, 1, 1, 1, len(CHECKPOINTS))
    curve = curve * np.exp(noise * rng.normal(size=shape))
    constant = np.array([constants.get(name, 0.1) for name in algorithms])[:, None, None]
    factor = np.sqrt(1 + constant**2 * np.array([1.0, 0.25, 0.0]))[..., None, None, None]
    distance = (
        np.where(np.isin(protocols, far_bias), 10.0, 0.0).reshape(-1, 1, 1, 1, 1, 1, 1, 1) * curve[..., -1:]
    )
    errors = np.concatenate([np.hypot(factor * curve, distance), factor * curve + 0 * distance], axis=5)
    errors = errors * np.array([1.0, 0.1])[:, None]
    axes = {"protocol": protocols, "task": tasks, "algorithm": algorithms, "run": range(num_runs)}
    axes |= {"kind": kinds, "target": targets, "norm": ["euclidean", "stationary"], "step": CHECKPOINTS}
    runs = pandas.MultiIndex.from_product(axes.values(), names=axes.keys()).to_frame(index=False)
    chains = np.where(runs["algorithm"] == "double-chain", 2, 1)
    return runs.assign(
        seed=100 + runs["run"], transitions=chains * runs["step"], error=errors.ravel(), gain=0.5
    )


def make_conditions(tasks=TASKS, protocols=PROTOCOLS, num_runs=3, etas=ETAS, seed=0):
    """Return condition numbers with a little noise that keeps their order."""
    rng, rows = np.random.default_rng(seed), []
    for protocol in protocols:
        for task in tasks:
            for run in range(num_runs):
                noise = np.exp(0.02 * rng.normal())
                numbers = {name: noise * value for name, value in etas.items()}
                rows.append({"protocol": protocol, "task": task, "run": run, **numbers})
    return pandas.DataFrame(rows)


def make_maps(runs):
    """Return states and values of tasks with maps: estimates approach the bias by two thirds a checkpoint."""
    states, values = [], []
    for (protocol, task), own in runs.groupby(["protocol", "task"], sort=False):
        titles = MAPS.get(task, [])
        rows = [
            {"panel": panel, "title": title, "row": row, "column": column}
            for panel, title in enumerate(titles)
            for row in range(2)
            for column in range(row, 3)  # no state in the corner below
        ]
        if len(titles) > 1:
            rows.append({"panel": -1, "title": "", "row": 0, "column": 0})  # a state that is not drawn
        bias = np.linspace(-1.0, 2.0, len(rows))
        keys = {"protocol": protocol, "task": task}
        states += [{**keys, "state": k, **row, "bias": bias[k]} for k, row in enumerate(rows)]
        for place, algorithm in enumerate(own["algorithm"].unique() if rows else ()):
            for k, step in enumerate(sorted(own["step"].unique())):
                found = bias * (1 - 3.0**-k) + place
                values.append(
                    {**keys, "algorithm": algorithm, "step": step, "values": found.astype(np.float32)}
                )
    return tuple(
        pandas.DataFrame(rows, columns=list(columns)).astype(columns)
        for rows, columns in ((states, STATE_COLUMNS), (values, VALUE_COLUMNS))
    )


def write_study(folder: Path, runs, conditions, **facts) -> Path:
    """Write a results folder; `facts` are columns of the table of instances."""
    folder.mkdir(parents=True, exist_ok=True)
    instances = conditions[["protocol", "task", "run"]].assign(**FACTS | facts)
    states, values = make_maps(runs)
    tables = {"runs": runs, "instances": instances, "conditions": conditions}
    for name, table in {**tables, "states": states, "values": values}.items():
        table.to_parquet(folder / f"{name}.parquet")
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder


def make_results(folder: Path, etas=ETAS, **how) -> Archive:
    """Write and read a study; `how` goes to `make_runs`."""
    shared = {key: how[key] for key in ("tasks", "protocols", "num_runs") if key in how}
    return read_results(write_study(folder, make_runs(**how), make_conditions(etas=etas, **shared)))


def make_paper(tasks=TASKS, levels=LEVELS) -> Paper:
    """Return printed numbers that agree with the default results under the literal protocol."""
    names = {ours: theirs for theirs, ours in PAPER_NAMES.items()}
    studied = ("double-chain", "single-chain", "td-lambda", "implicit-td")
    parameters = pandas.DataFrame(
        {"task": tasks, "d": 5, "step_numerator": 150, "step_offset": 1000, "steps": 10000, "epsilon": np.nan}
    )
    distances = pandas.DataFrame(
        {
            "task": task,
            "algorithm": names.get(name, name),
            "mean": round(levels[name] * (1 + k), 2),
            "std": 0.05,
        }
        for k, task in enumerate(tasks)
        for name in studied
    )
    etas = {"eta1": ETAS["eta1"], "eta2": ETAS["eta2_literal"], "eta3": ETAS["eta3"]}
    return Paper(parameters, distances, pandas.DataFrame({"task": tasks, **etas}))
