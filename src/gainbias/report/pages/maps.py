"""Exact bias and estimates on the maps of tasks, as plain numbers for the page."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.report.data.results import Archive


def map_data(results: Archive) -> dict[str, Any]:
    """Return the maps of all tasks that have one, ready for JSON, by protocol and task.

    Returns
    -------
    dict
        Each map has "titles" of its panels, "panels", "rows" and "columns" of its states, their "bias", and
        "frames" by algorithm: "steps" of the checkpoints; "shifts", by how much the estimates of all states,
        drawn or not, are above the bias on average; and "values" of the drawn states, checkpoint by
        checkpoint, as float32 in base64: as stored, and shorter than digits.
    """
    maps: dict[str, Any] = {}
    frames = dict(list(results.values.groupby(["protocol", "task"], observed=True)))
    for (protocol, task), states in results.states.groupby(["protocol", "task"], observed=True):
        maps.setdefault(protocol, {})[task] = _map(states, frames[protocol, task])
    return maps


def _map(states: DataFrame, frames: DataFrame) -> dict[str, Any]:
    drawn = states["panel"].to_numpy() >= 0
    shown = states[drawn].sort_values("panel", kind="stable")
    order = shown["state"].to_numpy()
    bias = states.sort_values("state")["bias"].to_numpy()
    return {
        "titles": shown.drop_duplicates("panel")["title"].astype(str).tolist(),
        "panels": shown["panel"].tolist(),
        "rows": shown["row"].tolist(),
        "columns": shown["column"].tolist(),
        "bias": [float(f"{number:.8g}") for number in shown["bias"]],
        "frames": {
            str(algorithm): _frames(rows.sort_values("step"), bias, order)
            for algorithm, rows in frames.groupby("algorithm", observed=True, sort=False)
        },
    }


def _frames(rows: DataFrame, bias: Any, order: Any) -> dict[str, Any]:
    values = np.stack(rows["values"].tolist())
    shifts = (values.astype(np.float64) - bias).mean(axis=1)
    return {
        "steps": rows["step"].tolist(),
        "shifts": [float(f"{shift:.8g}") if np.isfinite(shift) else None for shift in shifts],
        "values": base64.b64encode(values[:, order].astype("<f4").tobytes()).decode(),
    }
