"""Printed numbers that no stored choice comes near."""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.experiments.results import CONDITIONS
from gainbias.report.data.printed import Paper
from gainbias.report.data.results import Archive

NEAR = 2.0
"""A number is explained if ours, under some choice, is within this factor of it."""

PRINTED_ZERO = 0.005
"""The paper rounds distances to two decimals: 0.00 means less than this."""


def unexplained(results: Archive, paper: Paper) -> DataFrame:
    """Return the printed numbers that no choice explains.

    Every stored combination of protocol, kind of error and target is tried for each distance, in the
    Euclidean norm, which the paper names, and every protocol and reading for each condition number. With so
    many choices some come near by chance, so what is left is hard to explain. A shortened study says nothing
    about distances, because they depend on the number of steps.

    Returns
    -------
    DataFrame
        Columns task, quantity (an algorithm or a condition number), paper, nearest (our mean that is nearest
        in ratio), factor (by which it is off) and choice (under which).
    """
    rows = _distances(results, paper) if results.manifest["shorten"] == 1 else []
    rows += _conditions(results, paper)
    columns = ["task", "quantity", "paper", "nearest", "factor", "choice"]
    found = DataFrame(rows, columns=columns)
    order = {task: place for place, task in enumerate(paper.tasks)}
    found = found[found["factor"] > NEAR]
    return found.sort_values("task", key=lambda tasks: tasks.map(order), kind="stable").reset_index(drop=True)


def _distances(results: Archive, paper: Paper) -> list[dict[str, Any]]:
    runs = results.runs[results.runs["norm"] == "euclidean"]
    keys = ["task", "algorithm", "protocol", "kind", "target"]
    last = runs[
        runs["step"]
        == runs.groupby(["protocol", "task", "algorithm"], observed=True)["step"].transform("max")
    ]
    means = last.groupby(keys, observed=True)["error"].mean().dropna()
    rows = []
    for printed in paper.final_errors().itertuples():
        if (printed.task, printed.algorithm) in means.index.droplevel(keys[2:]):
            ours = means[printed.task, printed.algorithm]
            choices = [", ".join(choice) for choice in ours.index]
            rows.append(_nearest(printed.task, printed.algorithm, printed.mean, choices, ours.to_numpy()))
    return rows


def _conditions(results: Archive, paper: Paper) -> list[dict[str, Any]]:
    means = results.conditions.groupby(["task", "protocol"], observed=True)[list(CONDITIONS)].mean()
    rows = []
    for printed in paper.condition_numbers.to_dict("records"):
        if printed["task"] not in means.index:
            continue
        ours = means.loc[printed["task"]]
        for name in ("eta1", "eta2", "eta3"):
            readings = ["eta2", "eta2_literal"] if name == "eta2" else [name]
            choices = [f"{protocol}, {reading}" for reading in readings for protocol in ours.index]
            numbers = np.concatenate([ours[reading].to_numpy() for reading in readings])
            rows.append(_nearest(printed["task"], name, printed[name], choices, numbers))
    return rows


def _nearest(task: str, quantity: str, printed: float, choices: list[str], ours: Any) -> dict[str, Any]:
    """Return our number that is nearest to a printed one, and by which factor it is off."""
    with np.errstate(divide="ignore"):
        if printed > 0:
            factors = np.maximum(ours / printed, printed / ours)
        else:
            factors = np.maximum(ours / PRINTED_ZERO, 1.0)
    best = int(np.argmin(factors))
    return {
        "task": task,
        "quantity": quantity,
        "paper": printed,
        "nearest": float(ours[best]),
        "factor": float(factors[best]),
        "choice": choices[best],
    }
