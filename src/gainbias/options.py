"""What the words after an option mean: step sizes, settings, tasks."""

from __future__ import annotations

import argparse
import json
from typing import Any

import gainbias


def step_size(words: str | None, task: gainbias.Task) -> Any:
    """Return the step sizes that ``A[,C0[,XI]]`` means, or those of the paper for this task."""
    if words is None:
        paper = task.paper
        return (
            gainbias.Harmonic(paper.step_numerator, paper.step_offset)
            if paper
            else gainbias.Harmonic(150, 1000)
        )
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError as error:
        raise ValueError(
            f"--step-size must be one to three numbers, as in 150,1000, found {words!r}"
        ) from error
    kinds = {1: gainbias.Constant, 2: gainbias.Harmonic, 3: gainbias.Polynomial}
    if len(numbers) not in kinds:
        raise ValueError(f"--step-size must be one to three numbers, found {words!r}")
    return kinds[len(numbers)](*numbers)


def task(options: argparse.Namespace, name: str) -> gainbias.Task:
    """Return a task with the settings that were asked for."""
    return gainbias.task(name, seed=options.seed, protocol=options.protocol, **settings(options.set))


def settings(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as a dict, values read as JSON where they can be."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"settings are NAME=VALUE, found {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.replace("-", "_")] = float(value) if value in ("inf", "-inf") else value
    return found


def num_steps(steps: int | None, task: gainbias.Task) -> int:
    """Return the number of steps that was asked for, or the paper's for this task."""
    if steps is not None:
        return steps
    return task.paper.num_steps if task.paper else 100_000
