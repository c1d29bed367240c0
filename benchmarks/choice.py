"""Which algorithm to choose: every algorithm on twelve tasks, on the same data and with the same step sizes.

    python -m benchmarks.choice --output docs/data/choice.json

Errors are distances to the bias, weighted by the stationary law and up to a constant, after equal numbers of
transitions, in multiples of the error of least squares on the same data. Times are processor time.
"""

import argparse
import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from benchmarks.engine import tabular_problem
from benchmarks.engine_yardsticks import random_problem
from gainbias.store import write_whole

TASKS = (
    *("random-walk-100", "frozen-lake", "cliff-walking", "grid-world-10x10", "deep-sea", "fruit-tree-5"),
    *("mm1k-admission", "access-control", "boyan-chain", "machine-replacement", "inventory", "garnet"),
)
TRANSITIONS, SEEDS = 100_000, 8
WAYS: dict[str, list[Any]] = {
    "shrinking": [gb.Harmonic(16.0 * 2**k, 32.0 * 2**k) for k in range(8)],
    "averaged": [gb.Polynomial(0.5 * 2**k, (2 * 0.5 * 2**k) ** 2, 0.5) for k in range(8)],
}
"""Step sizes that all begin at 1/2: like 1/t, or like 1/sqrt(t) with weights of the last half averaged."""

TAIL = {"averaged": 0.5}


def ways_of(algorithm: gb.Algorithm) -> dict[str, list[Any]]:
    """Step sizes by how they are used; some algorithms have none, or one constant size of their own."""
    if algorithm.declared.step_free:
        return {"none": [None]}
    if algorithm.declared.constant_step is not None:
        return {"constant": [gb.Constant(algorithm.declared.constant_step)]}
    return WAYS


def errors_of(algorithm: gb.Algorithm, task: gb.Task, way: str) -> dict[str, Any]:
    """Mean errors for each step size, and how far the mean of the values is off."""
    steps, sizes = TRANSITIONS // algorithm.chains, ways_of(algorithm)[way]
    trace = gb.run(
        algorithm,
        task,
        steps,
        None if way == "none" else sizes,
        seeds=range(SEEDS),
        checkpoints=[steps],
        tail_average=TAIL.get(way),
        threads=1,
    )
    full, centred, quotient = (
        trace.errors(kind, norm="stationary")[:, -1].reshape(SEEDS, -1)
        for kind in ("full", "centred", "quotient")
    )
    with np.errstate(invalid="ignore"):  # runs that diverged
        level = np.sqrt(np.maximum(full**2 - centred**2, 0.0))
    return {"errors": quotient.mean(axis=0), "levels": np.median(level, axis=0)}


def measured(algorithm: gb.Algorithm, task: gb.Task, floor: float) -> dict[str, Any]:
    """What one algorithm does on one task: a number for each step size, by way, and its efficiency."""
    solution = task.problem.solution
    spread = float(solution.stationary @ solution.bias**2) ** 0.5
    found: dict[str, Any] = {"errors": {}, "levels": {}}
    for way in ways_of(algorithm):
        each = errors_of(algorithm, task, way)
        found["errors"][way] = (each["errors"] / floor).tolist()
        found["levels"][way] = (each["levels"] / spread).tolist()
    with contextlib.suppress(ValueError):  # not known for every algorithm
        found["efficiency"] = gb.efficiency(algorithm, task, kind="quotient")
    return found


def summary(algorithm: gb.Algorithm, tasks: dict[str, Any]) -> dict[str, Any]:
    """Said of an algorithm: geometric means over tasks, with the best steps of each or one for all."""
    everywhere = {
        (way, k): np.array([task["errors"][way][k] for task in tasks.values()])
        for way, errors in next(iter(tasks.values()))["errors"].items()
        for k in range(len(errors))
    }
    with np.errstate(invalid="ignore"):
        means = {key: geometric(errors) for key, errors in everywhere.items()}
    way, k = min(means, key=lambda key: means[key])
    found = {
        "best_for_each": geometric(np.min(list(everywhere.values()), axis=0)),
        "one_for_all": means[way, k],
        "way": way,
        "step_size": repr(ways_of(algorithm)[way][k]),
        "level": float(np.median([task["levels"][way][k] for task in tasks.values()])),
    }
    efficiencies = [task["efficiency"] for task in tasks.values() if "efficiency" in task]
    return found | ({"efficiency": geometric(np.array(efficiencies))} if efficiencies else {})


def geometric(numbers: Any) -> float:
    numbers = np.where(np.isnan(numbers), np.inf, numbers)
    return float(np.exp(np.mean(np.log(numbers))))


def nanoseconds(algorithm: gb.Algorithm) -> dict[str, float]:
    """Processor time of a step of one lane, its path included, best of three runs after a first one."""
    problems = {"tabular, 1000 states": tabular_problem(1000)}
    if not algorithm.declared.tabular_only:
        problems["20 dense features"] = random_problem(100, 20)
        problems["100 dense features"] = random_problem(1000, 100)
    best = {}
    for name, problem in problems.items():
        if name.startswith("tabular") and algorithm.name in ("lstd", "lspe"):
            continue  # a matrix of 1000 by 1000
        steps, times = 100_000, []
        for turn in range(4):
            start = time.process_time()
            gb.run(
                algorithm,
                problem,
                steps,
                None if algorithm.declared.step_free else 0.1,
                seeds=turn,
                checkpoints=1,
                threads=1,
            )
            times.append(time.process_time() - start)
        best[name] = min(times[1:]) / steps * 1e9
    return best


def measure() -> dict[str, Any]:
    """Measure all."""
    tasks = {name: gb.task(name) for name in TASKS}
    least_squares = gb.ALGORITHMS["lstd"]
    floors = {
        name: float(errors_of(least_squares, task, "none")["errors"][0]) for name, task in tasks.items()
    }
    algorithms: dict[str, Any] = {}
    for name, algorithm in gb.ALGORITHMS.items():
        fitting = [
            t
            for t in TASKS
            if not algorithm.declared.tabular_only or tasks[t].problem.features.kind == "tabular"
        ]
        found = {t: measured(algorithm, tasks[t], floors[t]) for t in fitting}
        algorithms[name] = {
            "summary": summary(algorithm, found),
            "nanoseconds": nanoseconds(algorithm),
            "tasks": found,
        }
        print(
            name, rounded(algorithms[name]["summary"]), rounded(algorithms[name]["nanoseconds"]), flush=True
        )
    sizes = {way: [repr(schedule) for schedule in schedules] for way, schedules in WAYS.items()}
    settings = {"transitions": TRANSITIONS, "seeds": SEEDS, "step_sizes": sizes, "tail_average": TAIL}
    return {"settings": settings, "least_squares_errors": floors, "algorithms": algorithms}


def rounded(value: Any) -> Any:
    """Numbers with four digits, and words for those that JSON does not have."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if np.isfinite(value) else "diverged"
    return value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("docs/data/choice.json"))
    answer = json.dumps(rounded(measure()), indent=1) + "\n"
    answer = re.sub(
        r"\[[^\[\]]*\]", lambda numbers: " ".join(numbers[0].split()), answer
    )  # a line for each list
    write_whole(parser.parse_args().output, answer.encode())


if __name__ == "__main__":
    main()
