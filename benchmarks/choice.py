"""Which algorithm to choose: all algorithms whose steps cost O(d), against least squares, on 24 tasks.

    python -m benchmarks.choice --output docs/data/choice.json       #  5 minutes of processor time
    python -m benchmarks.choice --only costs                         # what a step costs, again

The plan is `choice_plan.toml`: tasks, budgets, how steps are tuned, what is reported. It was committed before
the first run. Results of each algorithm on each task are kept in `build/choice`, so that a run that was
stopped continues where it stopped; they belong to one plan.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gainbias as gb
from benchmarks.engine import tabular_problem
from benchmarks.engine_yardsticks import random_problem
from benchmarks.plain_means import PLAIN_MEANS, with_dense_rows
from gainbias.store import write_whole

PLAN_FILE = Path(__file__).with_name("choice_plan.toml")
PLAN: dict[str, Any] = tomllib.loads(PLAN_FILE.read_text(encoding="utf-8"))
BUDGETS: list[int] = PLAN["budgets"]
TASKS: list[str] = PLAN["tasks"]["choosing"] + PLAN["tasks"]["held_out"]
NAMES: list[str] = [*PLAN["algorithms"], *PLAN["constant"]]
CELLS = Path("build/choice")
MOST_STATES = 50
"""Largest number of states for which efficiencies are computed."""


class Choice(NamedTuple):
    """Step sizes, the share that averages leave out (None: the last weights), and parameters."""

    step_size: Any
    tail_average: float | None
    params: dict[str, float]

    def __str__(self) -> str:
        steps = self.step_size
        if isinstance(steps, gb.Constant):
            words = [f"{steps.a:g}"]
        else:
            words = [f"1/2 (1 + t/{steps.c0:g})^-{getattr(steps, 'xi', 1.0):g}"]
        if self.tail_average is not None:
            words.append(f"mean of the last {1 - self.tail_average:.0%}")
        return ", ".join([*words, *(f"{k}={v:g}" for k, v in self.params.items())])


def algorithm_of(name: str) -> gb.Algorithm:
    return PLAIN_MEANS.get(name) or gb.ALGORITHMS[name]


@cache
def problem_of(task: str, dense: bool = False) -> gb.Problem:
    """A task of the plan; the variants of single-chain are made for dense rows."""
    if dense:
        return with_dense_rows(problem_of(task))
    variant = PLAN["variants"].get(task, {"task": task, "seed": 0, "settings": {}})
    return gb.task(variant["task"], seed=variant["seed"], **variant["settings"]).problem


def tasks_of(name: str) -> list[str]:
    """The tasks that an algorithm runs on."""
    tables_only = algorithm_of(name).declared.tabular_only
    return [task for task in TASKS if not tables_only or problem_of(task).features.kind == "tabular"]


@cache
def choices_of(name: str) -> list[Choice]:
    """The 24 choices of an algorithm, in the order in which lanes of `run` have them."""
    constant, own = name in PLAN["constant"], dict(PLAN["algorithms"].get(name, PLAN["constant"].get(name)))
    own.pop("largest", None)
    grid = [{key: value} for key, values in own.items() for value in values] or [fixed_params(name)]
    if constant:
        sizes = [gb.Constant(PLAN["constant"][name]["largest"] * 0.5**k) for k in range(12)]
        return [Choice(size, None, params) for size in sizes for params in grid]
    found = []
    for way, power in PLAN["powers"].items():
        tail = PLAN["tail_average"] if way == "averaged" else None
        for k in range(12 // len(grid)):
            c = float(PLAN["shortest"] * (2 * len(grid)) ** k if len(grid) > 1 else PLAN["shortest"] * 2**k)
            size = PLAN["first_size"] * c**power
            steps = gb.Harmonic(size, c) if way == "last" else gb.Polynomial(size, c, power)
            found += [Choice(steps, tail, params) for params in grid]
    assert len(found) == PLAN["choices"]
    return found


def fixed_params(name: str) -> dict[str, float]:
    return dict(PLAIN_MEANS[name].declared.trial_params) if name in PLAIN_MEANS else {}


def squares_of(name: str, task: str, budget: int, choices: list[Choice], seeds: range) -> Any:
    """Squared errors, (instances, choices), and squared distances of the mean of the values from 0."""
    algorithm, found = algorithm_of(name), []
    problem, steps = problem_of(task, name in PLAIN_MEANS), budget // algorithm.chains
    for tail in dict.fromkeys(choice.tail_average for choice in choices):
        mine = [choice for choice in choices if choice.tail_average == tail]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # large steps, and runs that diverge
            trace = gb.run(
                algorithm,
                problem,
                steps,
                list(dict.fromkeys(choice.step_size for choice in mine)),
                seeds=seeds,
                params={key: list(dict.fromkeys(c.params[key] for c in mine)) for key in mine[0].params},
                checkpoints=[steps],
                tail_average=tail,
                threads=1,
            )
            squares = [
                trace.errors(kind, norm="stationary", target="paper")[:, -1].reshape(len(seeds), -1) ** 2
                for kind in ("centred", "full")
            ]
        found.append(np.where(np.isfinite(squares), squares, np.inf))
    centred, full = np.concatenate(found, axis=2)
    with np.errstate(invalid="ignore"):
        return centred, np.maximum(full - centred, 0.0)


def least_squares(task: str, budget: int, seeds: range) -> Any:
    trace = gb.run("lstd", problem_of(task), budget, seeds=seeds, checkpoints=[budget], threads=1)
    return trace.errors("centred", norm="stationary", target="paper")[:, -1] ** 2


def kept(path: str, make: Any) -> Any:
    """What `make` returns, read from the disk if it is stored there and belongs to this plan."""
    plan = hashlib.sha256(PLAN_FILE.read_bytes()).hexdigest()[:12]
    file = CELLS / plan / f"{path}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        start = time.process_time()
        found = make()
        print(f"{path}: {time.process_time() - start:.1f} s", flush=True)
        write_whole(file, json.dumps(found).encode())
    return json.loads(file.read_text(encoding="utf-8"))


def tuning(name: str, task: str) -> Any:
    """Root mean squared errors of the tuning instances, over those of lstd: (budgets, choices)."""
    seeds = range(PLAN["first_tuning_seed"], PLAN["first_tuning_seed"] + PLAN["tuning_instances"])
    return [
        np.sqrt(
            squares_of(name, task, budget, choices_of(name), seeds)[0].mean(axis=0)
            / least_squares(task, budget, seeds).mean()
        ).tolist()
        for budget in BUDGETS
    ]


def evaluation(name: str, task: str, tuned: list[int], one: int) -> Any:
    """Squared errors, tuned and one for all, and of the level of the latter: (budgets, 3, instances)."""
    seeds, found = range(PLAN["instances"]), []
    for budget, k in zip(BUDGETS, tuned, strict=True):
        both = [squares_of(name, task, budget, [choices_of(name)[i]], seeds) for i in (k, one)]
        found.append([both[0][0][:, 0].tolist(), both[1][0][:, 0].tolist(), both[1][1][:, 0].tolist()])
    return found


def floors(task: str) -> Any:
    """Squared errors of lstd, (budgets, instances)."""
    return [least_squares(task, budget, range(PLAN["instances"])).tolist() for budget in BUDGETS]


class Study:
    """All results, from the tuning to squared errors on the instances that are reported."""

    def __init__(self) -> None:
        self.floors = {task: kept(f"lstd-{task}", partial(floors, task)) for task in TASKS}
        self.tuned = {
            name: {
                task: kept(f"tuning-{name}-{task}", partial(tuning, name, task)) for task in tasks_of(name)
            }
            for name in NAMES
        }
        self.one = {name: self._one_for_all(name) for name in NAMES}
        self.squares = {name: dict(self._evaluated(name)) for name in NAMES}

    def _one_for_all(self, name: str) -> int:
        tasks = [task for task in tasks_of(name) if task in PLAN["tasks"]["choosing"]]
        errors = np.array([self.tuned[name][task] for task in tasks]).reshape(-1, PLAN["choices"])
        return int(np.argmin(np.log(errors).mean(axis=0)))

    def _evaluated(self, name: str) -> Iterator[tuple[str, Any]]:
        for task in tasks_of(name):
            best = [int(np.argmin(errors)) for errors in self.tuned[name][task]]
            evaluate = partial(evaluation, name, task, best, self.one[name])
            yield task, np.array(kept(f"evaluation-{name}-{task}", evaluate))


class Ratios:
    """Errors over those of least squares, and what they become when instances are resampled.

    `measured` holds, for each algorithm, task and budget, two rows (tuned, one for all) of 1 + resamples
    ratios; the first is that of the instances themselves.
    """

    def __init__(self, study: Study) -> None:
        rng = np.random.default_rng(0)
        instances = PLAN["instances"]
        drawn = rng.integers(0, instances, (PLAN["resamples"], instances))
        self._counts = np.array(
            [np.ones(instances), *(np.bincount(row, minlength=instances) for row in drawn)]
        )
        self.measured = {
            (name, task, b): self._ratios(study, name, task, b)
            for name in NAMES
            for task in study.squares[name]
            for b in range(len(BUDGETS))
        }

    def _ratios(self, study: Study, name: str, task: str, b: int) -> Any:
        floor = self._counts @ np.array(study.floors[task][b])
        with np.errstate(invalid="ignore"):
            squares = study.squares[name][task][b, :2] @ self._counts.T
        return np.sqrt(np.where(np.isnan(squares), np.inf, squares) / floor)  # 0 times infinity: diverged

    def geometric(self, name: str, tasks: list[str], b: int) -> Any:
        """Geometric means over tasks, (2, 1 + resamples)."""
        return np.exp(np.mean([np.log(self.measured[name, task, b]) for task in tasks], axis=0))

    def ranks(self, names: list[str], tasks: list[str], b: int) -> dict[str, Any]:
        """Mean ranks over tasks, (2, 1 + resamples), 1 for the smallest error."""
        everyone = np.array([[self.measured[name, task, b] for task in tasks] for name in names])
        places = everyone.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") + 1.0
        return dict(zip(names, places.mean(axis=1), strict=True))


def interval(numbers: Any) -> list[float]:
    """The number measured, and the bounds of its 95% interval."""
    low, high = np.quantile(numbers[1:], [0.025, 0.975], method="nearest")
    return [float(numbers[0]), float(low), float(high)]


def report(study: Study) -> dict[str, Any]:
    """Everything that the page shows."""
    ratios = Ratios(study)
    everywhere = [name for name in NAMES if not algorithm_of(name).declared.tabular_only]
    groups = {**PLAN["tasks"], "tables": tasks_of("adaptive-td")}
    summary: dict[str, Any] = {}
    for group, tasks in groups.items():
        for b, budget in enumerate(BUDGETS):
            names = NAMES if group == "tables" else everywhere
            ranks = ratios.ranks(names, tasks, b)
            summary.setdefault(group, {})[str(budget)] = {
                name: {
                    way: {
                        "ratio": interval(ratios.geometric(name, tasks, b)[i]),
                        "rank": interval(ranks[name][i]),
                    }
                    for i, way in enumerate(("tuned", "one_for_all"))
                }
                for name in names
            }
    return {
        "summary": summary,
        "algorithms": {name: told(study, name) for name in NAMES},
        "tasks": cells(ratios),
    }


def told(study: Study, name: str) -> dict[str, Any]:
    """The one choice of an algorithm, how far off its level is, and its final efficiency."""
    chosen = choices_of(name)[study.one[name]]
    levels = []
    for task, squares in study.squares[name].items():
        solution = problem_of(task).solution
        spread = float(solution.stationary @ solution.bias**2)
        levels.append(np.median(np.sqrt(squares[-1, 2] / spread)))
    found = {"one_for_all": str(chosen), "level": float(np.median(levels))}
    efficiencies = []
    if name not in PLAIN_MEANS:
        for task in few_states(name):
            try:
                efficiencies.append(gb.efficiency(name, problem_of(task), params=chosen.params))
            except ValueError:  # not known for every algorithm and parameter, nor for two periodic chains
                continue
    if efficiencies:
        found["efficiency"] = float(np.exp(np.mean(np.log(efficiencies))))
    return found


def few_states(name: str) -> list[str]:
    """The tasks on which efficiencies are quick to compute."""
    return [task for task in tasks_of(name) if problem_of(task).mrp.num_states <= MOST_STATES]


def cells(ratios: Ratios) -> dict[str, Any]:
    """Ratios of each task and budget, with intervals."""
    found: dict[str, Any] = {}
    for (name, task, b), both in ratios.measured.items():
        place = found.setdefault(task, {}).setdefault(str(BUDGETS[b]), {})
        place[name] = {"tuned": interval(both[0]), "one_for_all": interval(both[1])}
    return found


def nanoseconds(algorithm: gb.Algorithm) -> dict[str, float]:
    """Processor time of a step of one lane, its path included, best of seven runs after a first one."""
    problems = {"tabular, 1000 states": tabular_problem(1000)}
    if not algorithm.declared.tabular_only:
        problems["20 dense features"] = random_problem(100, 20)
        problems["100 dense features"] = random_problem(1000, 100)
    best = {}
    for name, problem in problems.items():
        if name.startswith("tabular") and algorithm.name in ("lstd", "lspe"):
            continue  # a matrix of 1000 by 1000
        steps, times = 100_000, []
        size = None if algorithm.declared.step_free else 0.1
        for turn in range(8):
            start = time.process_time()
            gb.run(algorithm, problem, steps, size, seeds=turn, checkpoints=1, threads=1)
            times.append(time.process_time() - start)
        best[name] = min(times[1:]) / steps * 1e9
    return best


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
    parser.add_argument("--only", choices=("errors", "costs"), help="leave the rest of the file as it is")
    options = parser.parse_args()
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.only else {}
    found = before | {"plan": PLAN}
    if options.only != "costs":
        found |= report(Study())
    if options.only != "errors":
        found["nanoseconds"] = {name: nanoseconds(each) for name, each in gb.ALGORITHMS.items()}
    answer = json.dumps(rounded(found), indent=1) + "\n"
    answer = re.sub(r"\[[^\[\]]*\]", lambda numbers: " ".join(numbers[0].split()), answer)  # a line each
    write_whole(options.output, answer.encode())


if __name__ == "__main__":
    main()
