"""The unit of a sweep: one algorithm on one instance of a task along one sample path, in all its lanes."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import ALGORITHM_HOMES
from gainbias.engine.lanes import Lane
from gainbias.engine.run import run
from gainbias.engine.schedules import Constant, Harmonic, Polynomial
from gainbias.engine.trace import Trace
from gainbias.experiments.own import DIGEST, OwnProblem, begins_in, is_reference, own_algorithm, own_task
from gainbias.experiments.provenance import Reach, hash_of
from gainbias.experiments.units import Columns, is_defined, refuse_interrupted
from gainbias.model.problem import Problem
from gainbias.tasks.registry import TASK_HOMES, TASKS, task
from gainbias.tasks.task import Task
from gainbias.theory.curve.curve import exact_curve
from gainbias.theory.curve.system import has_exact_curve
from gainbias.types import Floats

EXACT_COLUMN = "exact"
"""The column of root mean squared errors over all paths."""

Sizes = tuple[float, ...]
"""A step size: (a,) is constant, (a, c0) is a / (t + c0), (a, c0, xi) is a / (t + c0)**xi."""

SCHEDULES: dict[int, tuple[str, Any]] = {
    1: ("constant", Constant),
    2: ("harmonic", Harmonic),
    3: ("polynomial", Polynomial),
}
"""Kind and class of a step size, by how many numbers it has."""

MAKING_SECONDS, LANE_STEP_SECONDS, FEATURE_SECONDS, EXACT_SECONDS = 0.02, 2e-9, 0.35e-9, 0.3
"""Rough times: to make a task, for a step of a lane (fixed, and for each feature), and for an exact curve."""

MOST_BYTES_TOGETHER = 2**30
"""Most weights, at all checkpoints, of lanes that run together."""


@dataclass(frozen=True)
class Cell:
    """One algorithm, one instance, one path; lanes for all step sizes and parameters.

    Attributes
    ----------
    task : str
        Id of the task, a reference to a function of the user, or the name of a problem.
    settings : tuple of pairs
        Changes to its settings.
    protocol : str
        The protocol of its features.
    instance : int
        Seed of the task.
    seed : int
        Seed of the sample path.
    algorithm : str
        Id of the algorithm, or a reference to one of the user.
    step_sizes : tuple of tuple of float
        See `Sizes`; none for algorithms without step sizes.
    params : tuple of pairs
        Names of parameters and tuples of their values, of which all combinations are run.
    num_steps : int
    checkpoints : tuple of int
        Numbers of steps.
    sampling : str
    metrics : tuple of triples
        Kind, target and norm of errors.
    exact : bool
        Whether mean errors over all paths are computed, too.
    code : str
        Hash of the code that the result is to come from: see `code_of`.
    problem : OwnProblem, optional
        The problem, if it is the user's own; `settings` has its digest.
    """

    task: str
    settings: tuple[tuple[str, Any], ...]
    protocol: str
    instance: int
    seed: int
    algorithm: str
    step_sizes: tuple[Sizes, ...]
    params: tuple[tuple[str, tuple[float, ...]], ...]
    num_steps: int
    checkpoints: tuple[int, ...]
    sampling: str
    metrics: tuple[tuple[str, str, str], ...]
    exact: bool
    code: str
    problem: OwnProblem | None = field(default=None, compare=False)

    @cached_property
    def id(self) -> str:
        """Hash of everything that determines the result, code and versions included."""
        names = (name for name in self.__dataclass_fields__ if name != "problem")
        return hash_of([getattr(self, name) for name in names])

    @property
    def reach(self) -> Reach:
        """Modules in which the unit begins."""
        return reach_of(self.task, self.algorithm, self.exact)

    @property
    def label(self) -> str:
        """The unit in a few words."""
        chosen = ", ".join(f"{name}={value}" for name, value in self.settings if name != DIGEST)
        task = f"{self.task} ({chosen})" if chosen else self.task
        return f"{self.algorithm} on {task}, instance {self.instance}, seed {self.seed}"

    @property
    def place(self) -> tuple[Any, ...]:
        """The sort key of its rows in the table."""
        return self.task, json.dumps(self.settings), self.instance, self.seed, self.algorithm, self.id

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        grid = math.prod(len(values) for _, values in self.params)
        return max(1, len(self.step_sizes)) * grid

    @property
    def lane_steps(self) -> int:
        """Steps of all lanes."""
        return self.lanes * self.num_steps

    @property
    def seconds(self) -> float:
        """Rough time of the unit, in seconds."""
        recipe = TASKS.get(self.task)
        own = recipe.settings.get("num_features") if recipe else None
        features = dict(self.settings).get("num_features") or own
        each = LANE_STEP_SECONDS + FEATURE_SECONDS * (features or 1)
        exact = EXACT_SECONDS * self.lanes * self.exact
        return MAKING_SECONDS + self.lane_steps * each + self.num_steps * 30e-9 + exact

    def made(self) -> Task:
        """Return the task; the last few are kept, because algorithms share them."""
        if self.problem is not None:
            return self.problem.task(self.task, self.instance, self.protocol, dict(self.settings))  # type: ignore[arg-type]
        return _made(self.task, self.instance, self.protocol, self.settings)

    @property
    def companions(self) -> tuple[Any, ...]:
        """A key that is the same for cells that differ only in their sample path."""
        names = (name for name in self.__dataclass_fields__ if name not in ("seed", "problem"))
        return tuple(getattr(self, name) for name in names)

    def run(
        self, num_steps: int | None = None, seeds: Sequence[int] = (), device: Literal["cpu", "gpu"] = "cpu"
    ) -> Trace:
        """Run all lanes, by default for all steps and along the cell's own path."""
        steps = num_steps or self.num_steps
        sizes = [SCHEDULES[len(numbers)][1](*numbers) for numbers in self.step_sizes]
        with warnings.catch_warnings():
            # A sweep is made to find the step sizes that are too large.
            warnings.filterwarnings("ignore", "the first step size", UserWarning)
            trace = run(
                own_algorithm(self.algorithm) if is_reference(self.algorithm) else self.algorithm,
                self.made().problem,
                steps,
                sizes or None,
                seeds=seeds or self.seed,
                params=dict(self.params),
                sampling=self.sampling,  # type: ignore[arg-type]
                checkpoints=[step for step in self.checkpoints if step < steps] or [steps],
                threads=1 if device == "cpu" else None,
                device=device,
            )
        refuse_interrupted(trace)
        return trace

    def compute_together(
        self, units: Sequence[Cell], device: Literal["cpu", "gpu"]
    ) -> Iterator[dict[str, Columns]]:
        """Yield the tables of cells with the same `companions`, from runs of many of them at once."""
        weights = 8 * self.lanes * len(self.checkpoints) * self.made().problem.num_features
        most = max(1, MOST_BYTES_TOGETHER // weights)
        for first in range(0, len(units), most):
            some = units[first : first + most]
            trace = self.run(seeds=[cell.seed for cell in some], device=device)
            for number, cell in enumerate(some):
                yield cell.tables(trace.part(number * self.lanes, (number + 1) * self.lanes))

    def compute(self) -> dict[str, Columns]:
        """Run all lanes, and return the tables."""
        return self.tables(self.run())

    def tables(self, trace: Trace) -> dict[str, Columns]:
        """Return the rows of the table "runs": one for each lane, metric and checkpoint."""
        made = self.made()
        metrics = [metric for metric in self.metrics if is_defined(trace, *metric[:2])]
        lanes, count = len(trace.lanes), len(trace.steps)
        errors = np.stack(
            [trace.errors(kind, target=target, norm=norm) for kind, target, norm in metrics]  # type: ignore[arg-type]
            or [np.full((lanes, count), np.nan)],
            axis=1,
        )
        shape = errors.shape  # lanes, metrics, checkpoints

        def of_lanes(values: Any) -> Any:
            return np.broadcast_to(np.asarray(values)[:, None, None], shape).ravel()

        def of_metrics(place: int) -> Any:
            names = np.array([metric[place] for metric in metrics] or [""])
            return np.broadcast_to(names[None, :, None], shape).ravel()

        def of_steps(values: Any) -> Any:
            return np.broadcast_to(values[None, None, :], shape).ravel()

        facts = {name: np.full(errors.size, value) for name, value in self._facts(made).items()}
        return {
            "runs": facts
            | {name: of_lanes(values) for name, values in self._of_lanes(trace).items()}
            | {name: of_metrics(place) for place, name in enumerate(("kind", "target", "norm"))}
            | {"step": of_steps(trace.steps), "transitions": of_steps(trace.transitions)}
            | {"error": errors.ravel(), "gain": np.broadcast_to(trace.gain[:, None, :], shape).ravel()}
            | {name: of_lanes([lane.params[name] for lane in trace.lanes]) for name, _ in self.params}
            | ({EXACT_COLUMN: self._exact(trace, metrics).ravel()} if self.exact and metrics else {})
        }

    def _exact(self, trace: Trace, metrics: Sequence[tuple[str, str, str]]) -> Floats:
        return exact_errors(trace.algorithm, trace.problem, trace.lanes, trace.steps.tolist(), metrics)

    def _facts(self, made: Task) -> dict[str, Any]:
        """Return what all rows share."""
        return {
            "task": self.task,
            "settings": json.dumps(dict(self.settings)),
            "protocol": self.protocol,
            "instance": self.instance,
            "seed": self.seed,
            "sampling": self.sampling,
            "num_states": made.problem.mrp.num_states,
            "num_features": made.problem.num_features,
            "exact_gain": made.problem.solution.gain,
            "fingerprint": made.fingerprint,
            "algorithm": self.algorithm,
        }

    def _of_lanes(self, trace: Trace) -> Mapping[str, list[Any]]:
        """Return what the rows of a lane share, except its parameters."""
        grid = len(trace.lanes) // max(1, len(self.step_sizes))
        sizes = [numbers for numbers in self.step_sizes or ((),) for _ in range(grid)]
        kinds = [SCHEDULES[len(numbers)][0] if numbers else "none" for numbers in sizes]
        padded = [(*numbers, math.nan, math.nan, math.nan)[:3] for numbers in sizes]
        return {
            "step_size": kinds,
            "a": [numbers[0] for numbers in padded],
            "c0": [numbers[1] for numbers in padded],
            "xi": [numbers[2] for numbers in padded],
            "outcome": [outcome.status for outcome in trace.outcomes],
            "outcome_step": [outcome.step for outcome in trace.outcomes],
        }


def reach_of(task: str, algorithm: str, exact: bool) -> Reach:
    """Return the modules in which a unit begins: this one, and those of what it names.

    Examples
    --------
    >>> reach_of("boyan-chain", "my_module:mine", exact=False)
    ('gainbias.experiments.cell', 'gainbias.tasks.chains.classic', 'my_module')
    """
    homes = (*begins_in(task, TASK_HOMES), *begins_in(algorithm, ALGORITHM_HOMES))
    theory = ("gainbias.theory.curve.curve", "gainbias.theory.curve.system") if exact else ()
    return (__name__, *dict.fromkeys(homes), *theory)


@lru_cache(maxsize=4)
def _made(name: str, instance: int, protocol: Any, settings: tuple[tuple[str, Any], ...]) -> Task:
    if is_reference(name):
        return own_task(name, instance, protocol, dict(settings))
    return task(name, seed=instance, protocol=protocol, **dict(settings))


def exact_errors(
    algorithm: Algorithm,
    problem: Problem,
    lanes: Sequence[Lane],
    steps: Sequence[int],
    metrics: Sequence[tuple[Any, Any, Any]],
) -> Floats:
    """Return the root mean square errors of lanes over all sample paths, without sampling.

    Parameters
    ----------
    algorithm : Algorithm
    problem : Problem
    lanes : sequence of Lane
        Step sizes and parameters.
    steps : sequence of int
        Checkpoints.
    metrics : sequence of triples
        Kind, target and norm of errors.

    Returns
    -------
    (lanes, metrics, checkpoints) array
        nan for lanes whose step is not affine in the weights.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.task("boyan-chain").problem
    >>> trace = gb.run("td-lambda", problem, 100, [0.1, 0.2], sampling="iid")
    >>> metrics = [("quotient", "paper", "euclidean")]
    >>> exact_errors(trace.algorithm, problem, trace.lanes, [10, 100], metrics).shape
    (2, 1, 2)
    """
    found = np.full((len(lanes), len(metrics), len(steps)), np.nan)
    for lane, errors in zip(lanes, found, strict=True):
        if not has_exact_curve(algorithm, algorithm.params(**lane.params)):
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "this curve takes about", UserWarning)
            curve = exact_curve(
                algorithm,
                problem,
                steps[-1],
                lane.step_size,
                params=lane.params,
                sampling="iid",
                checkpoints=steps,
            )
        for k, (kind, target, norm) in enumerate(metrics):
            errors[k] = curve.errors(kind, target=target, norm=norm)
    return found
