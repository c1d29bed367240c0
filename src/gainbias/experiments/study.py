"""The description of a sweep: tasks, algorithms and their grids, once, as a record or as a TOML file."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.run import as_checkpoints
from gainbias.experiments import reading
from gainbias.experiments.cell import EXACT, Cell, Sizes
from gainbias.experiments.provenance import code_version
from gainbias.experiments.tables import Layout
from gainbias.tasks.registry import NORMALISATION, TASKS
from gainbias.tasks.settings import as_integer

MOST_UNITS = 100_000
"""A study with more units is refused unless one asks for it: few mean to run so many."""


@dataclass(frozen=True)
class Method:
    """An algorithm with its grids; step sizes may be "paper", and there are none where it has none."""

    algorithm: str
    step_sizes: tuple[Sizes, ...] | str
    params: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a sweep runs: every algorithm, with all its grids, on every instance of every task.

    A *grid* below is a number, a list of numbers, ``{"log": [lowest, highest, count]}`` or the same with
    ``"linear"``.

    Parameters
    ----------
    tasks : list of str or dict
        Ids of tasks; or tables with ``id`` and settings, where a list stands for several tasks.
    algorithms : list of str or dict
        Ids; or tables with ``id``, ``step_size`` and ``params``, a table of grids.
    num_steps : int or "paper"
        Steps of each lane; "paper" is what the paper has for the task.
    step_size : grid, dict, list of them, or "paper"
        For algorithms that have none of their own. A grid has constant step sizes; a table has ``kind``
        ("constant", "harmonic", "polynomial") and grids ``a``, ``c0``, ``xi``.
    sampling : {"markov", "iid"}
    instances : int or list of int
        How many instances of each task, or their seeds.
    seeds : int or list of int, optional
        How many sample paths on each instance, or their seeds; by default one, with the seed of the instance.
    checkpoints : int or list of int
        How many, on a logarithmic scale, or the numbers of steps.
    metrics : list of str
        Words for kind ("quotient", "centred", "full"), target ("bias", "paper", "own") and norm
        ("euclidean", "stationary") of errors, as in "centred stationary". Rows are left out where an
        algorithm has no such error.
    protocol : {"literal", "inferred", "fair"}
        Which features; see `task`.
    exact : bool
        Whether to compute errors in the mean over all sample paths, too, for algorithms that are affine in
        their weights; only with independent samples, because along a chain it would take minutes for each.
    name : str
        Of the study; its results folder is named after it.

    Examples
    --------
    >>> import gainbias as gb
    >>> study = gb.Study(
    ...     tasks=["boyan-chain", {"id": "garnet", "num_states": [20, 40]}],
    ...     algorithms=["lstd", {"id": "td-lambda", "params": {"trace_decay": [0.0, 0.9]}}],
    ...     step_size={"log": [0.01, 1.0, 5]},
    ...     num_steps=10_000,
    ...     instances=20,
    ... )
    >>> study
    Study('study': 3 tasks, 2 algorithms, 20 instances, 120 units, 660 lanes)
    """

    tasks: Sequence[Any]
    algorithms: Sequence[Any]
    num_steps: int | str
    step_size: Any = None
    sampling: str = "markov"
    instances: int | Sequence[int] = 10
    seeds: int | Sequence[int] | None = None
    checkpoints: int | Sequence[int] = 25
    metrics: Sequence[str] = ("quotient",)
    protocol: str = "literal"
    exact: bool = False
    name: str = field(default="study")

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        reading.folder_name(self.name, "name")
        reading.known(self.sampling, ("markov", "iid"), "sampling", "sampling")
        reading.known(self.protocol, NORMALISATION, "protocol", "protocol")
        reading.flag(self.exact, "exact")
        if self.exact and self.sampling != "iid":
            raise ValueError('exact: takes minutes for each lane along a chain: use sampling = "iid"')
        for (task, _), method in itertools.product(self._tasks, self._methods):
            if TASKS[task].paper is None and reading.PAPER in (self.num_steps, method.step_sizes):
                raise ValueError(
                    f"tasks: the paper has no steps for {task}: give num_steps and step_size as numbers"
                )
        seen = set[tuple[Any, ...]]()
        for place, method in enumerate(self._methods):
            if not seen.isdisjoint(_lanes(method)):
                raise ValueError(f"algorithms[{place}]: repeats lanes of {method.algorithm}: name them once")
            seen.update(_lanes(method))
        next(self.cells(first_only=True))  # reads all that is left

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> Study:
        """Return the study that a description means; `to_dict` gives it back."""
        names = [entry.name for entry in fields(Study)]
        reading.known_keys(description, names, "")
        for name in ("tasks", "algorithms", "num_steps"):
            if name not in description:
                raise ValueError(f"{name}: is missing, and a study must have it")
        return Study(**description)

    def to_dict(self) -> dict[str, Any]:
        """Return the description, which JSON and TOML can hold."""
        return {entry.name: reading.plain(getattr(self, entry.name)) for entry in fields(self)}

    def __repr__(self) -> str:
        counts = {
            "task": len(self._tasks),
            "algorithm": len(self._methods),
            "instance": len(self._instances),
            "unit": self.count_units(),
            "lane": self.count_lanes(),
        }
        words = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()]
        return f"Study({self.name!r}: {', '.join(words)})"

    def count_units(self) -> int:
        """Return how many units there are."""
        return len(self._tasks) * len(self._methods) * len(self._instances) * len(self._seeds)

    def count_lanes(self) -> int:
        """Return how many lanes there are."""
        lanes = sum(cell.lanes for cell in self.cells(first_only=True))
        return lanes * len(self._instances) * len(self._seeds)

    def cells(self, code: str | None = None, *, first_only: bool = False) -> Iterator[Cell]:
        """Iterate over the units, instance by instance: an early stop has something of everything.

        Parameters
        ----------
        code : str, optional
            Version of the sources; by default that of this package.
        first_only : bool
            Only those of the first instance and seed.
        """
        code = code or code_version()
        instances, seeds = self._instances, self._seeds
        if first_only:
            instances, seeds = instances[:1], seeds[:1]
        budgets = {task: self._steps(task) for task, _ in self._tasks}
        checkpoints = {task: self._checkpoints(steps) for task, steps in budgets.items()}
        for instance, seed, (task, settings), method in itertools.product(
            instances, seeds, self._tasks, self._methods
        ):
            yield Cell(
                task=task,
                settings=settings,
                protocol=self.protocol,
                instance=instance,
                seed=instance if seed is None else seed,
                algorithm=method.algorithm,
                step_sizes=_sizes(method, task),
                params=method.params,
                num_steps=budgets[task],
                checkpoints=checkpoints[task],
                sampling=self.sampling,
                metrics=self._metrics,
                exact=self.exact,
                code=code,
            )

    @property
    def layout(self) -> Layout:
        """The table of results."""
        params = sorted({name for method in self._methods for name, _ in method.params})
        return Layout("sweep", {"runs": []}, optional=[*params, *([EXACT] if self.exact else [])])

    @cached_property
    def _tasks(self) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
        return reading.tasks(self.tasks)

    @cached_property
    def _methods(self) -> tuple[Method, ...]:
        entries = reading.a_list(self.algorithms, "algorithms")
        return tuple(self._method(entry, f"algorithms[{place}]") for place, entry in enumerate(entries))

    def _method(self, entry: Any, where: str) -> Method:
        table = {"id": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping) or "id" not in table:
            raise ValueError(f"{where}: must be the id of an algorithm, or a table with id, found {entry!r}")
        reading.known_keys(table, ("id", "step_size", "params"), where)
        name = reading.known(
            table["id"], ALGORITHMS, where if isinstance(entry, str) else f"{where}.id", "algorithm"
        )
        params = reading.parameters(name, table.get("params", {}), f"{where}.params")
        if ALGORITHMS[name].step_free:
            if "step_size" in table:
                raise ValueError(f"{where}.step_size: {name} has no step size: leave it out")
            return Method(name, (), params)
        own = "step_size" in table
        given = table["step_size"] if own else self.step_size
        if given is None:
            raise ValueError(f"{where}: {name} needs a step_size, its own or that of the study")
        return Method(name, reading.step_sizes(given, f"{where}.step_size" if own else "step_size"), params)

    @cached_property
    def _instances(self) -> Sequence[int]:
        return reading.integers(self.instances, "instances")

    @cached_property
    def _seeds(self) -> Sequence[int | None]:
        return (None,) if self.seeds is None else reading.integers(self.seeds, "seeds")

    @cached_property
    def _metrics(self) -> tuple[tuple[str, str, str], ...]:
        return reading.metrics(self.metrics)

    def _steps(self, task: str) -> int:
        if self.num_steps == reading.PAPER:
            paper = TASKS[task].paper
            assert paper is not None
            return paper.num_steps
        try:
            return as_integer(self.num_steps, "num_steps", least=1)
        except ValueError as error:
            raise ValueError(
                f'num_steps: must be a positive integer or "paper", found {self.num_steps!r}'
            ) from error

    def _checkpoints(self, num_steps: int) -> tuple[int, ...]:
        try:
            return tuple(as_checkpoints(self.checkpoints, num_steps).tolist())
        except (ValueError, TypeError) as error:
            raise ValueError(f"checkpoints: {error}") from error


def _sizes(method: Method, task: str) -> tuple[Sizes, ...]:
    if isinstance(method.step_sizes, tuple):
        return method.step_sizes
    paper = TASKS[task].paper
    assert paper is not None
    return ((float(paper.step_numerator), float(paper.step_offset)),)


def _lanes(method: Method) -> set[tuple[Any, ...]]:
    sizes = method.step_sizes if isinstance(method.step_sizes, tuple) else (method.step_sizes,)
    grid = itertools.product(*(values for _, values in method.params))
    return {(method.algorithm, size, values) for values in grid for size in sizes or ((),)}


def read_study(path: str | Path) -> Study:
    """Return the study that a TOML file describes, named after the file unless it says otherwise.

    Raises
    ------
    ValueError
        With the line of a syntax error, or the key of a wrong value.
    """
    if not (path := Path(path)).is_file():
        raise ValueError(f"there is no file {path}: name a TOML file that describes a study")
    try:
        description = tomllib.loads(path.read_text(encoding="utf-8"))
        return Study.from_dict({"name": path.stem, **description})
    except ValueError as error:  # of which syntax errors are
        raise ValueError(f"{path}: {error}") from error


def as_study(study: Study | Mapping[str, Any] | str | Path, max_units: int = MOST_UNITS) -> Study:
    """Return a study from a record, a description or a file, unless it is too large."""
    if isinstance(study, Mapping):
        study = Study.from_dict(study)
    elif not isinstance(study, Study):
        study = read_study(study)
    count = study.count_units()
    if count > max_units:
        raise ValueError(
            f"the study has {count:,} units, more than {max_units:,}: make it smaller, or allow so many with "
            f"--max-units {count}"
        )
    return study
