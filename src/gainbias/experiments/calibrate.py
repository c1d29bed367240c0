"""How long a study will take on this machine, from short runs of some of its units."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from gainbias.experiments.cell import Cell
from gainbias.experiments.expected import exact_errors
from gainbias.experiments.study import Study
from gainbias.progress import Watch
from gainbias.tasks.settings import as_integer

MOST_SECONDS = 20.0
"""Calibration ends after about this time; what was not tried by then is scaled from what was."""

FEW_STEPS = 2000
"""A trial has so many steps: enough to forget how a run begins."""


@dataclass(frozen=True)
class Estimate:
    """What a study takes.

    Attributes
    ----------
    units, lanes, steps, lane_steps : int
        Numbers of units and lanes; steps along all sample paths; steps of all lanes.
    seconds : float
        On this machine, with the workers below, after kernels are compiled.
    compiling : float
        Seconds for compilation, once on each machine.
    workers : int
    tried : int
        How many kinds of units (a task and an algorithm) were tried, of `kinds`.
    kinds : int
    """

    units: int
    lanes: int
    steps: int
    lane_steps: int
    seconds: float
    compiling: float
    workers: int
    tried: int
    kinds: int

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return asdict(self)


def estimate(study: Study, workers: int | None = None) -> Estimate:
    """Return how much a study is, and how long it takes on so many processes of this machine."""
    if workers is not None:
        as_integer(workers, "workers", least=1)
    kinds = list(study.cells(first_only=True))
    each = study.count_units() // len(kinds)
    measured, compiling, began = [], 0.0, time.monotonic()
    with Watch() as watch:
        for number, cell in enumerate(kinds):
            if time.monotonic() - began > MOST_SECONDS:
                break
            watch.show(f"calibrating: {cell.label}", number, len(kinds))
            try:
                seconds, first = _seconds(cell)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{cell.label} cannot be run: {error}") from error
            measured.append((cell.seconds, seconds))
            compiling += first
    foreseen, taken = (sum(column) for column in zip(*measured, strict=True))
    left = sum(cell.seconds for cell in kinds[len(measured) :]) * taken / foreseen
    count = workers or os.cpu_count() or 1
    return Estimate(
        units=study.count_units(),
        lanes=study.count_lanes(),
        steps=each * sum(cell.num_steps for cell in kinds),
        lane_steps=each * sum(cell.lane_steps for cell in kinds),
        seconds=each * (taken + left) / count,
        compiling=compiling,
        workers=count,
        tried=len(measured),
        kinds=len(kinds),
    )


def _seconds(cell: Cell) -> tuple[float, float]:
    """Return how long a unit takes, from runs of few steps, and how long the first took longer."""
    begin = time.perf_counter()
    cell.made()
    making = time.perf_counter() - begin
    few = min(FEW_STEPS, cell.num_steps)
    times = []
    for steps in (few, max(1, few // 2), few):
        begin = time.perf_counter()
        cell.run(steps)
        times.append(time.perf_counter() - begin)
    first, half, whole = times
    a_step = max(0.0, whole - half) / max(1, few - few // 2)
    running = whole + a_step * (cell.num_steps - few)
    return making + running + _exact_seconds(cell), max(0.0, first - whole)


def _exact_seconds(cell: Cell) -> float:
    """Return how long the exact errors of a unit take, from those of its first lane."""
    if not cell.exact:
        return 0.0
    trace, begin = cell.run(1), time.perf_counter()
    exact_errors(trace.algorithm, trace.problem, trace.lanes[:1], cell.checkpoints, [])
    return len(trace.lanes) * (time.perf_counter() - begin)
