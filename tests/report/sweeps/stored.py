"""A small sweep whose table is made up."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas

from gainbias.experiments.results import SCHEMA, Results

STUDY = {
    "name": "made-up",
    "tasks": [{"id": "garnet", "num_states": [20, 40]}],
    "algorithms": ["lstd", {"id": "td-lambda", "params": {"trace_decay": [0.0, 0.5]}}],
    "step_size": [0.1, 0.2, 0.4],
    "num_steps": 100,
    "instances": 8,
}
STEPS = (1, 10, 100)


def error_of(states: int, decay: float, a: float, instance: int, step: int) -> float:
    """Return an error that is least at 0.2 on even instances, and at 0.4 on odd ones and on all together."""
    if decay == 0.5 and a == 0.4 and instance == 3 and step > 1:
        return float("inf")
    best = 0.4 if instance % 2 else 0.2
    slope = 0.8 if instance % 2 else 0.5
    level = 1.0 + slope * abs(np.log2(a / best)) + 0.01 * instance
    return float(states / 20 * level / np.sqrt(step) * (1.0 + decay))


def make_sweep(folder: Path, exact: bool = False, outlier: float = 1.0) -> Results:
    """Write it; exact errors are those of one instance more, and the last errs `outlier` times as much."""
    rows = []
    for states, instance, step in itertools.product((20, 40), range(8), STEPS):
        shared = {
            "task": "garnet",
            "settings": json.dumps({"num_states": states}),
            "instance": instance,
            "seed": instance,
            "kind": "quotient",
            "target": "bias",
            "norm": "euclidean",
            "step": step,
            "transitions": step,
            "c0": np.nan,
            "xi": np.nan,
        }
        rows.append({**shared, "algorithm": "lstd", "step_size": "none", "a": np.nan, "error": 0.5})
        for decay, a in itertools.product((0.0, 0.5), (0.1, 0.2, 0.4)):
            own = {"algorithm": "td-lambda", "step_size": "constant", "a": a, "trace_decay": decay}
            if exact and decay == 0.0:
                own["exact"] = error_of(states, decay, a, instance + 1, step)
            factor = outlier if instance == 7 else 1.0
            rows.append({**shared, **own, "error": factor * error_of(states, decay, a, instance, step)})
    folder.mkdir(parents=True)
    table = pandas.DataFrame(rows)
    # Several row groups, as in a large study.
    table.to_parquet(folder / "runs.parquet", row_group_size=50)
    manifest = {
        "schema": SCHEMA,
        "kind": "sweep",
        "name": "made-up <b>",
        "description": STUDY,
        "command": "gainbias sweep made-up.toml",
        "finished": "2026-01-01T00:00:00Z",
        "code": "0.1.0+0",
        "machines": ["x86_64"],
        "units": 32,
        "reused": 0,
        "damaged": 0,
        "seconds": 1.0,
        "lanes": 112,
        "diverged_lanes": 2,
        "diverged_units": [],
        "failures": [{"unit": "0", "what": "a unit", "error": "ValueError: no"}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "study.json").write_text(json.dumps({"schema": SCHEMA, "kind": "sweep", "study": STUDY}))
    return Results(folder)
