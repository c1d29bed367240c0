"""The description of a sweep: tasks, algorithms and their grids, as a record or as a TOML file.

`as_study` and `read_study` are the entry points, `Study` is the record. The functions below it read the
values of a description; every message names the key, what it must be and what was found.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.lanes import make_lanes
from gainbias.engine.run import as_checkpoints
from gainbias.engine.schedules import Constant
from gainbias.engine.trace import Kind, Norm, Target
from gainbias.experiments.cell import EXACT_COLUMN, SCHEDULES, Cell, Sizes, reach_of
from gainbias.experiments.own import (
    DIGEST,
    OwnProblem,
    ProblemEntry,
    as_entry,
    is_reference,
    look_beside,
    own_algorithm,
)
from gainbias.experiments.provenance import Reach, code_of
from gainbias.experiments.results import Layout
from gainbias.notebook import InNotebooks
from gainbias.suggest import did_you_mean_or_known
from gainbias.tasks.registry import NORMALISATION, TASKS
from gainbias.tasks.task import as_integer, as_number, as_seed
from gainbias.types import is_real

MOST_UNITS = 100_000
"""A study with more units is refused unless `max_units` allows it: it is probably a mistake."""

MOST_POINTS = 100_000
"""Most points of a grid, each of which is a lane: more would be a mistake."""

LONGEST_NAME = 200
"""Bytes of the name of a study; file systems allow 255, and temporary names are longer."""

AS_IN_PAPER = "paper"
"""Instead of a number: the paper's value for the task."""

NO_STEPS = "none"
"""Instead of step sizes: a user's algorithm has none."""

GRID_KINDS: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""Words for numbers that JSON cannot represent."""


def as_study(study: Study | Mapping[str, Any] | str | Path, max_units: int = MOST_UNITS) -> Study:
    """Return a study from a record, a description or a file, unless it is too large."""
    if isinstance(study, Mapping):
        study = Study.from_dict(study)
    elif not isinstance(study, Study):
        study = read_study(study)
    count = study.count_units()
    if count > max_units:
        raise ValueError(
            f"the study has {count:,} units, more than {max_units:,}: make it smaller, or allow it with "
            f"--max-units {count}"
        )
    return study


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
        return Study.from_dict({"name": path.stem, **_found_beside(path.parent, description)})
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML, which a study must be: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@contextmanager
def as_stored_in(path: Path) -> Iterator[None]:
    """Name the file, in a ``with`` block, if a description stored there is not valid."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        words = f"is damaged: write it again with --resume (no study of this version: {error})"
        raise ValueError(f"{path} {words}") from error


def _found_beside(folder: Path, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description that names files by their paths, and let modules beside it be found."""

    def placed(entry: Any) -> Any:
        name = entry.get("id") if isinstance(entry, Mapping) else entry
        look_beside(folder, name)
        has_file = isinstance(entry, Mapping) and isinstance(entry.get("npz"), str)
        return {**entry, "npz": str(folder / entry["npz"])} if has_file else entry

    return {
        key: [placed(entry) for entry in value]
        if key in ("tasks", "algorithms") and isinstance(value, list)
        else value
        for key, value in description.items()
    }


@dataclass(frozen=True)
class StudyMethod:
    """An algorithm with its grids; step sizes are "paper", or empty for an algorithm without any."""

    algorithm: str
    step_sizes: tuple[Sizes, ...] | str
    params: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Study(InNotebooks):
    """What a sweep runs: every algorithm, with all its grids, on every instance of every task.

    A *grid* below is a number, a list of numbers, ``{"log": [lowest, highest, count]}`` or the same with
    ``"linear"``.

    Parameters
    ----------
    tasks : list of str, dict, MarkovRewardProcess or Problem
        Ids of tasks; or tables with ``id`` and settings, where a list stands for several tasks. For your
        own: a reference such as ``"my_module:make_task"`` to a function of a seed and settings, a process or
        a problem, or a table with ``npz``, the path of a file with arrays, and perhaps a name as ``id``.
    algorithms : list of str or dict
        Ids, or references to records; or tables with ``id``, ``step_size`` and ``params``, a table of grids.
    num_steps : int or "paper"
        Steps of each lane; "paper" takes the paper's number for the task.
    step_size : grid, dict, list of them, or "paper"
        For algorithms that state none themselves. A grid has constant step sizes; a table has ``kind``
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
        ("euclidean", "stationary") of errors, as in "centred stationary". Rows are left out if an
        algorithm has no such error.
    protocol : {"literal", "inferred", "fair"}
        Which features; see `task`.
    exact : bool
        Whether to compute mean errors over all sample paths, too, for algorithms that are affine in their
        weights; only with independent samples, because along a chain it would take minutes for each.
    name : str
        Name of the study; its results folder is named after it.

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
        """Refuse a description that cannot be run."""
        folder_name(self.name, "name")
        entries = [
            as_entry(entry, f"tasks[{place}]") for place, entry in enumerate(a_list(self.tasks, "tasks"))
        ]
        object.__setattr__(self, "tasks", entries)
        known(self.sampling, ("markov", "iid"), "sampling", "sampling")
        known(self.protocol, NORMALISATION, "protocol", "protocol")
        flag(self.exact, "exact")
        if self.exact and self.sampling != "iid":
            raise ValueError('exact: takes minutes for each lane along a chain: use sampling = "iid"')
        for (task, _), method in itertools.product(self._tasks, self._methods):
            is_known = task in TASKS and TASKS[task].paper is not None
            if not is_known and AS_IN_PAPER in (self.num_steps, method.step_sizes):
                raise ValueError(
                    f"tasks: the paper has no steps for {task}: give num_steps and step_size as numbers"
                )
        seen = set[tuple[Any, ...]]()
        for place, method in enumerate(self._methods):
            if not seen.isdisjoint(_lanes(method)):
                raise ValueError(f"algorithms[{place}]: repeats lanes of {method.algorithm}: name them once")
            seen.update(_lanes(method))
        next(self.cells("", first_only=True))  # this reads everything else

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> Study:
        """Return the study for a description; `to_dict` returns the description."""
        names = [entry.name for entry in fields(Study)]
        known_keys(description, names, "")
        for name in ("tasks", "algorithms", "num_steps"):
            if name not in description:
                raise ValueError(f"{name}: is missing, and a study must have it")
        return Study(**description)

    def to_dict(self) -> dict[str, Any]:
        """Return the description, in types of JSON and TOML, with the user's own problems as digests."""
        return {entry.name: plain(getattr(self, entry.name)) for entry in fields(self)}

    @property
    def problems(self) -> dict[str, OwnProblem]:
        """The user's own processes and problems, by their digests."""
        held = [entry for entry in self.tasks if isinstance(entry, ProblemEntry)]
        return {entry.problem.digest: entry.problem for entry in held}

    @property
    def references(self) -> set[str]:
        """The user's own functions and records that are imported when the study runs."""
        names = {task for task, _ in self._tasks} | {method.algorithm for method in self._methods}
        return {name for name in names if is_reference(name)}

    def check_own(self) -> None:
        """Import the user's own algorithms, and check the settings for them."""
        for place, method in enumerate(self._methods):
            if is_reference(method.algorithm):
                _check_own_method(method, f"algorithms[{place}]")

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
        lanes = sum(cell.lanes for cell in self.cells("", first_only=True))
        return lanes * len(self._instances) * len(self._seeds)

    def cells(
        self, code: str | Mapping[Reach, str] | None = None, *, first_only: bool = False
    ) -> Iterator[Cell]:
        """Iterate over the units, instance by instance, so that a study stopped early has some of everything.

        Parameters
        ----------
        code : str or mapping, optional
            Hash of the code, or that of each reach; by default that of what is installed.
        first_only : bool
            Only those of the first instance and seed.
        """
        names = itertools.product((task for task, _ in self._tasks), (own.algorithm for own in self._methods))
        codes = {pair: _code(code, reach_of(*pair, self.exact)) for pair in names}
        instances, seeds = self._instances, self._seeds
        if first_only:
            instances, seeds = instances[:1], seeds[:1]
        budgets = {task: self._steps(task) for task, _ in self._tasks}
        checkpoints = {task: self._checkpoints(steps) for task, steps in budgets.items()}
        problems = self.problems
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
                code=codes[task, method.algorithm],
                problem=problems.get(dict(settings).get(DIGEST, "")) if problems else None,
            )

    @property
    def layout(self) -> Layout:
        """Layout of the table of results."""
        params = sorted({name for method in self._methods for name, _ in method.params})
        return Layout("sweep", {"runs": []}, optional=[*params, *([EXACT_COLUMN] if self.exact else [])])

    @cached_property
    def _tasks(self) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
        return tasks(self.tasks)

    @cached_property
    def _methods(self) -> tuple[StudyMethod, ...]:
        entries = a_list(self.algorithms, "algorithms")
        return tuple(self._method(entry, f"algorithms[{place}]") for place, entry in enumerate(entries))

    def _method(self, entry: Any, where: str) -> StudyMethod:
        table = {"id": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping) or "id" not in table:
            raise ValueError(f"{where}: must be the id of an algorithm, or a table with id, found {entry!r}")
        known_keys(table, ("id", "step_size", "params"), where)
        name, given = table["id"], table.get("params", {})
        if is_reference(name):  # this is imported when the study runs
            params = tuple(_grids(given, f"{where}.params").items())
            steps = table.get("step_size", self.step_size)
            is_step_free = steps is None or (isinstance(steps, str) and steps == NO_STEPS)
        else:
            place = where if isinstance(entry, str) else f"{where}.id"
            name = known(name, ALGORITHMS, place, "algorithm")
            params = parameters(name, given, f"{where}.params")
            is_step_free = ALGORITHMS[name].declared.step_free
            if is_step_free and "step_size" in table:
                raise ValueError(f"{where}.step_size: {name} has no step size: leave it out")
        if is_step_free:
            return StudyMethod(name, (), params)
        own = "step_size" in table
        given = table["step_size"] if own else self.step_size
        if given is None:
            raise ValueError(f"{where}: {name} needs a step_size, its own or that of the study")
        return StudyMethod(name, step_sizes(given, f"{where}.step_size" if own else "step_size"), params)

    @cached_property
    def _instances(self) -> Sequence[int]:
        return integers(self.instances, "instances")

    @cached_property
    def _seeds(self) -> Sequence[int | None]:
        return (None,) if self.seeds is None else integers(self.seeds, "seeds")

    @cached_property
    def _metrics(self) -> tuple[tuple[str, str, str], ...]:
        return metrics(self.metrics)

    def _steps(self, task: str) -> int:
        if self.num_steps == AS_IN_PAPER:
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


def _sizes(method: StudyMethod, task: str) -> tuple[Sizes, ...]:
    if isinstance(method.step_sizes, tuple):
        return method.step_sizes
    paper = TASKS[task].paper
    assert paper is not None
    return ((float(paper.step_numerator), float(paper.step_offset)),)


def _lanes(method: StudyMethod) -> set[tuple[Any, ...]]:
    sizes = method.step_sizes if isinstance(method.step_sizes, tuple) else (method.step_sizes,)
    grid = itertools.product(*(values for _, values in method.params))
    return {(method.algorithm, size, values) for values in grid for size in sizes or ((),)}


def tasks(value: Any) -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    """Return ids of tasks with the settings that are changed, all combinations where there are lists."""
    found = []
    for place, entry in enumerate(a_list(value, "tasks")):
        where = f"tasks[{place}]"
        table = {"id": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping) or "id" not in table:
            raise ValueError(
                f"{where}: must be the id of a task, or a table with id and settings, found {entry!r}"
            )
        name, defaults = table["id"], dict.fromkeys(table)
        if not is_reference(name) and (DIGEST not in table or name in TASKS):
            name = known(name, TASKS, where if isinstance(entry, str) else f"{where}.id", "task")
            defaults = dict(TASKS[name].settings)
            known_keys(table, ("id", *defaults), where)
        columns = [
            [(key, choice) for choice in _choices(table[key], defaults[key], f"{where}.{key}")]
            for key in sorted(table.keys() - {"id"})
        ]
        found += [(name, settings) for settings in itertools.product(*columns)]
    return tuple(dict.fromkeys(found))


def _choices(value: Any, default: Any, where: str) -> list[Any]:
    """Return the values of a setting; if the setting itself is a list, a list of lists has several values."""
    value = plain(value)
    is_grid = isinstance(value, list)
    if isinstance(default, tuple) and is_grid:
        is_grid = bool(value) and isinstance(value[0], list)
    choices = a_list(value, where) if is_grid else [value]
    for choice in choices:
        entries = choice if isinstance(choice, list) else [choice]
        if not all(isinstance(entry, str | int | float) for entry in entries):
            raise ValueError(f"{where}: must be a number, a word or a list of these, found {choice!r}")
    return [tuple(choice) if isinstance(choice, list) else choice for choice in choices]


def parameters(algorithm: str, value: Any, where: str) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the values of each parameter of an algorithm, by default its own."""
    record = ALGORITHMS[algorithm]
    given = check_parameters(record, value, where)
    defaults = record.params._field_defaults
    return tuple((name, given.get(name, (float(defaults[name]),))) for name in record.params._fields)


def check_parameters(record: Algorithm, value: Any, where: str) -> dict[str, tuple[float, ...]]:
    """Return the given values, which the algorithm must accept."""
    given = _grids(value, where)
    for name, grid in given.items():
        known(name, record.params._fields, f"{where}.{name}", f"parameter of {record.name}")
        with _at(f"{where}.{name}"):
            make_lanes(record, 0, Constant(1.0), {name: grid})
    return given


def _grids(value: Any, where: str) -> dict[str, tuple[float, ...]]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: must be a table of parameters, found {value!r}")
    return {name: numbers(value[name], f"{where}.{name}") for name in sorted(value)}


def _check_own_method(method: StudyMethod, where: str) -> None:
    """Import a user's algorithm, and check the settings for it."""
    record = own_algorithm(method.algorithm)
    check_parameters(record, dict(method.params), f"{where}.params")
    if record.declared.step_free and method.step_sizes:
        raise ValueError(
            f'{where}.step_size: {method.algorithm} has no step size: say step_size = "{NO_STEPS}"'
        )
    if not record.declared.step_free and not method.step_sizes:
        raise ValueError(f"{where}: {method.algorithm} needs a step_size, its own or that of the study")


def _code(given: str | Mapping[Reach, str] | None, reach: Reach) -> str:
    """Return the hash of the code of a unit: the given one, or that of what is installed."""
    if given is None:
        return code_of(reach)
    return given if isinstance(given, str) else given.get(reach, "")


def step_sizes(value: Any, where: str) -> tuple[Sizes, ...] | str:
    """Return step sizes, each once, in ascending order: from grids, tables with a kind, or "paper".

    Examples
    --------
    >>> step_sizes({"kind": "harmonic", "a": [10, 100], "c0": 1000}, "step_size")
    ((10.0, 1000.0), (100.0, 1000.0))
    """
    if isinstance(value, str) and value == AS_IN_PAPER:
        return AS_IN_PAPER
    entries = value if isinstance(value, list | tuple) else [value]
    found: set[Sizes] = set()
    for place, entry in enumerate(a_list(entries, where)):
        own = f"{where}[{place}]" if isinstance(value, list | tuple) else where
        found |= set(_schedules(entry, own))
    return tuple(sorted(found))


def _schedules(entry: Any, where: str) -> list[Sizes]:
    if not (isinstance(entry, Mapping) and entry.keys() - GRID_KINDS.keys()):
        entry = {"a": entry}
    kinds = {kind: count for count, (kind, _) in SCHEDULES.items()}
    kind = known(entry.get("kind", "constant"), kinds, f"{where}.kind", "kind of step size")
    names = ("a", "c0", "xi")[: kinds[kind]]
    known_keys(entry, ("kind", *names), where)
    columns = []
    for name in names:
        if name not in entry:
            raise ValueError(f"{where}: {kind} step sizes need {' and '.join(names)}, found no {name}")
        columns.append(numbers(entry[name], where if entry.keys() == {"a"} else f"{where}.{name}"))
    found = list(itertools.product(*columns))
    with _at(where):
        for size in found:
            SCHEDULES[len(size)][1](*size)
    return found


def numbers(value: Any, where: str) -> tuple[float, ...]:
    """Return the numbers of a grid, each once, in ascending order: a number, a list, or ``{log = [...]}``.

    Examples
    --------
    >>> numbers({"log": [0.01, 1, 3]}, "step_size"), numbers([2, 1, 2], "params.skip")
    ((0.01, 0.1, 1.0), (1.0, 2.0))
    """
    if isinstance(value, Mapping):
        found = _spaced(value, where)
    else:
        several = isinstance(value, Iterable) and not isinstance(value, str)
        entries = a_list(value, where) if several else [value]
        found = [_number(entry, where) for entry in entries]
    return tuple(sorted(set(found)))


def _number(value: Any, where: str) -> float:
    if isinstance(value, str) and value in INFINITE:
        return INFINITE[value]
    if not is_real(value) or value != value:
        raise ValueError(
            f"{where}: must be a number, a list of numbers, or a grid such as {{log = [0.01, 1, 5]}}, found "
            f"{value!r}"
        )
    with _at(where):
        return float(value)


def _spaced(grid: Mapping[str, Any], where: str) -> list[float]:
    known_keys(grid, GRID_KINDS, where)
    if len(grid) != 1:
        raise ValueError(f"{where}: a grid is either log or linear, found {dict(grid)!r}")
    [(kind, ends)] = grid.items()
    where = f"{where}.{kind}"
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 3:
        raise ValueError(f"{where}: must be [lowest, highest, how many], found {ends!r}")
    with _at(where):
        lowest, highest = (as_number(end, "an end of the grid") for end in ends[:2])
        count = as_integer(ends[2], "the number of points", least=1, most=MOST_POINTS)
        if kind == "log" and not (lowest > 0 and highest > 0):
            raise ValueError(f"the ends of a log grid must be positive, found {ends!r}")
    points = [float(point) for point in GRID_KINDS[kind](lowest, highest, count)]
    # Nine digits are enough, and are the same on every machine; fine grids need more to be told apart.
    rounded = ([float(f"{point:.{digits}g}") for point in points] for digits in range(9, 18))
    inner = next(found for found in rounded if len(set(found)) == len(set(points)))[1:-1]
    return [lowest, *inner, highest] if count > 1 else [lowest]


def integers(value: Any, where: str) -> Sequence[int]:
    """Return 0, 1, ... up to a count, or the numbers of a list, each once, in ascending order."""
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        entries = a_list(value, where)
        with _at(where):
            # Each is a seed, and a number of the table, which has 64 bits.
            return sorted(
                {as_integer(as_seed(entry, "each entry"), "each entry", least=0) for entry in entries}
            )
    with _at(where):
        return range(as_integer(value, "the number", least=1))  # not all of them: the list may be refused


def metrics(value: Any) -> tuple[tuple[str, str, str], ...]:
    """Return kind, target and norm of each metric, which is given in words in any order.

    Examples
    --------
    >>> metrics(["quotient", "centred stationary"])
    (('quotient', 'bias', 'euclidean'), ('centred', 'bias', 'stationary'))
    """
    found = []
    for place, words in enumerate(a_list(value, "metrics")):
        where, chosen, said = f"metrics[{place}]", ["quotient", "bias", "euclidean"], dict[int, str]()
        groups = [get_args(Kind), get_args(Target), get_args(Norm)]
        for word in str(words).split():
            known(word, itertools.chain(*groups), where, "word of a metric")
            number = next(number for number, group in enumerate(groups) if word in group)
            if said.setdefault(number, word) != word:
                raise ValueError(
                    f"{where}: is either {said[number]} or {word}, found {words!r}: name two metrics"
                )
            chosen[number] = word
        found.append((chosen[0], chosen[1], chosen[2]))
    return tuple(dict.fromkeys(found))


def known(name: Any, names: Iterable[str], where: str, what: str) -> str:
    """Return a name that is known, or raise ValueError with the nearest one.

    Examples
    --------
    >>> known("taxy", ["taxi", "deep-sea"], "tasks[0]", "task")
    Traceback (most recent call last):
    ValueError: tasks[0]: unknown task 'taxy': did you mean 'taxi'?
    """
    choices = list(names)
    if isinstance(name, str) and name in choices:
        return name
    raise ValueError(f"{where}: unknown {what} {name!r}: {did_you_mean_or_known(name, choices)}")


def known_keys(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Refuse a table with unknown keys."""
    for key in table:
        known(key, keys, f"{where}.{key}" if where else str(key), "key")


def a_list(value: Any, where: str) -> list[Any]:
    """Return a value as a list that is not empty, or refuse it."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"{where}: must be a list, found {value!r}")
    found = list(value)
    if not found:
        raise ValueError(f"{where}: the list is empty, so there is nothing to run: name at least one")
    return found


def folder_name(value: Any, where: str) -> None:
    """Refuse a value that is not a good folder name, for a file system or in a terminal."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or set(value) & set("/\\"):
        words = "must be the name of a folder, printable and without / or \\"
        raise ValueError(f"{where}: {words}, found {value!r:.100}")
    if value[0] in ".- " or value[-1] in " .":
        raise ValueError(
            f"{where}: must not begin with . or - nor end with ., nor a space, found {value!r:.100}"
        )
    if len(value.encode()) > LONGEST_NAME:
        raise ValueError(f"{where}: must have at most {LONGEST_NAME} bytes, found {len(value.encode())}")


def flag(value: Any, where: str) -> None:
    """Refuse a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError(f"{where}: must be true or false, found {value!r}")


def plain(value: Any) -> Any:
    """Return a value in types of JSON and TOML: arrays and other sequences as lists, infinity as a word.

    Examples
    --------
    >>> plain({"radius": (1, math.inf), "skip": np.arange(2)})
    {'radius': [1, 'inf'], 'skip': [0, 1]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    return [plain(entry) for entry in value] if is_list else value


class _at:
    """Put the key in front of errors that are raised in a ``with`` block."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, ValueError | TypeError | OverflowError):
            raise ValueError(f"{self.where}: {error}") from error
