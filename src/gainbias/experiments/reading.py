"""Values of a study's description: every message names the key, what it must be and what was found."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.errors import Kind, Norm, Target
from gainbias.engine.lanes import make_lanes
from gainbias.engine.schedules import Constant
from gainbias.experiments.cell import SCHEDULES, Sizes
from gainbias.tasks.registry import TASKS
from gainbias.tasks.settings import as_integer, as_number, as_seed

GRIDS: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""Words for numbers that JSON cannot hold."""

PAPER = "paper"
"""Instead of a number: what the paper has for the task."""


def known(name: Any, names: Iterable[str], where: str, what: str) -> str:
    """Return a name that is known, or say which is near.

    Examples
    --------
    >>> known("taxy", ["taxi", "deep-sea"], "tasks[0]", "task")
    Traceback (most recent call last):
    ValueError: tasks[0]: unknown task 'taxy': did you mean 'taxi'?
    """
    choices = list(names)
    if isinstance(name, str) and name in choices:
        return name
    near = difflib.get_close_matches(str(name), choices, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(choices)}"
    raise ValueError(f"{where}: unknown {what} {name!r}: {hint}")


def known_keys(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Refuse keys that mean nothing."""
    for key in table:
        known(key, keys, f"{where}.{key}" if where else str(key), "key")


def folder_name(value: Any, where: str) -> None:
    """Refuse what cannot be the name of a folder."""
    if not isinstance(value, str) or not value.strip() or value in (".", "..") or set(value) & set("/\\\0\n"):
        raise ValueError(f"{where}: must be a word, found {value!r}")


def flag(value: Any, where: str) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError(f"{where}: must be true or false, found {value!r}")


def a_list(value: Any, where: str) -> list[Any]:
    """Return a list with something in it."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"{where}: must be a list, found {value!r}")
    found = list(value)
    if not found:
        raise ValueError(f"{where}: the list is empty, so there is nothing to run: name at least one")
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
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or value != value:
        raise ValueError(
            f"{where}: must be a number, a list of numbers, or a grid such as {{log = [0.01, 1, 5]}}, found "
            f"{value!r}"
        )
    with _at(where):
        return float(value)


def _spaced(grid: Mapping[str, Any], where: str) -> list[float]:
    known_keys(grid, GRIDS, where)
    if len(grid) != 1:
        raise ValueError(f"{where}: a grid is either log or linear, found {dict(grid)!r}")
    [(kind, ends)] = grid.items()
    where = f"{where}.{kind}"
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 3:
        raise ValueError(f"{where}: must be [lowest, highest, how many], found {ends!r}")
    with _at(where):
        lowest, highest = (as_number(end, "an end of the grid") for end in ends[:2])
        count = as_integer(ends[2], "the number of points", least=1)
        if kind == "log" and not (lowest > 0 and highest > 0):
            raise ValueError(f"the ends of a log grid must be positive, found {ends!r}")
    points = [float(point) for point in GRIDS[kind](lowest, highest, count)]
    # Nine digits are enough, and are the same on every machine; fine grids need more to be told apart.
    rounded = ([float(f"{point:.{digits}g}") for point in points] for digits in range(9, 18))
    inner = next(found for found in rounded if len(set(found)) == len(set(points)))[1:-1]
    return [lowest, *inner, highest] if count > 1 else [lowest]


class _at:
    """Say at which key something is wrong."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, ValueError | TypeError | OverflowError):
            raise ValueError(f"{self.where}: {error}") from error


def step_sizes(value: Any, where: str) -> tuple[Sizes, ...] | str:
    """Return step sizes, each once, in ascending order: from grids, tables with a kind, or "paper".

    Examples
    --------
    >>> step_sizes({"kind": "harmonic", "a": [10, 100], "c0": 1000}, "step_size")
    ((10.0, 1000.0), (100.0, 1000.0))
    """
    if isinstance(value, str) and value == PAPER:
        return PAPER
    entries = value if isinstance(value, list | tuple) else [value]
    found: set[Sizes] = set()
    for place, entry in enumerate(a_list(entries, where)):
        own = f"{where}[{place}]" if isinstance(value, list | tuple) else where
        found |= set(_schedules(entry, own))
    return tuple(sorted(found))


def _schedules(entry: Any, where: str) -> list[Sizes]:
    if not (isinstance(entry, Mapping) and entry.keys() - GRIDS.keys()):
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


def parameters(algorithm: str, value: Any, where: str) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the values of each parameter of an algorithm, by default its own."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: must be a table of parameters, found {value!r}")
    record = ALGORITHMS[algorithm]
    fields = record.params._fields
    for name in value:
        known(name, fields, f"{where}.{name}", f"parameter of {algorithm}")
    given = {name: numbers(value[name], f"{where}.{name}") for name in value}
    for name in given:
        with _at(f"{where}.{name}"):
            make_lanes(record, 0, Constant(1.0), {name: given[name]})
    defaults = record.params._field_defaults
    return tuple((name, given.get(name, (float(defaults[name]),))) for name in fields)


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
        name = known(table["id"], TASKS, where if isinstance(entry, str) else f"{where}.id", "task")
        recipe = TASKS[name]
        known_keys(table, ("id", *recipe.settings), where)
        columns = [
            [(key, choice) for choice in _choices(table[key], recipe.settings[key], f"{where}.{key}")]
            for key in sorted(table.keys() - {"id"})
        ]
        found += [(name, settings) for settings in itertools.product(*columns)]
    return tuple(dict.fromkeys(found))


def _choices(value: Any, default: Any, where: str) -> list[Any]:
    """Return the values of a setting; for one that is a list itself, a list of lists has several."""
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


def plain(value: Any) -> Any:
    """Return a value as JSON and TOML can hold it: arrays and other sequences as lists, infinity as a word.

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


def integers(value: Any, where: str) -> Sequence[int]:
    """Return 0, 1, ... so many, or the numbers of a list, each once, in ascending order."""
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        entries = a_list(value, where)
        with _at(where):
            # Each is a seed, and a number of the table, which has 64 bits.
            return sorted(
                {as_integer(as_seed(entry, "each entry"), "each entry", least=0) for entry in entries}
            )
    with _at(where):
        return range(as_integer(value, "the number", least=1))  # not all of them: it may be refused


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
