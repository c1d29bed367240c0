"""Lanes: the runs of one call, and the groups in which they go through a kernel."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Form
from gainbias.engine.schedules import Schedule, as_schedule, side_by_side
from gainbias.features.rows import LANES
from gainbias.model.problem import Problem
from gainbias.suggest import did_you_mean
from gainbias.types import Floats, Ints, is_integer

StepSize: TypeAlias = "Schedule | float | Floats"
FEW_LANES = 2
"""Up to this many lanes are cheaper one by one than as a group with empty places."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One run: a seed, step sizes and parameters."""

    seed: int
    step_size: Schedule
    params: Mapping[str, float]


class Lanes(Sequence[Lane]):
    """Combinations of seeds, step sizes and parameters, seeds outermost: all, or some of them.

    There may be a million, so only their numbers are stored, and a `Lane` is made on demand.

    Attributes
    ----------
    seeds : list of int
    schedules : list of Schedule
    grid : list of dict
        Parameters by name.
    numbers : (lanes,) int array
        Which of the combinations they are.

    Examples
    --------
    >>> from gainbias.engine.schedules import Constant
    >>> lanes = Lanes([7, 8], [Constant(0.1)], [{"trace_decay": 0.0}, {"trace_decay": 0.5}])
    >>> len(lanes), lanes[2].seed, [lane.params["trace_decay"] for lane in lanes[1:3]]
    (4, 8, [0.5, 0.0])
    """

    def __init__(
        self,
        seeds: list[int],
        schedules: list[Schedule],
        grid: list[dict[str, float]],
        numbers: Ints | None = None,
    ) -> None:
        self.seeds, self.schedules, self.grid = seeds, schedules, grid
        self.numbers = np.arange(len(seeds) * len(schedules) * len(grid)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> Lane: ...
    @overload
    def __getitem__(self, place: slice | Ints) -> Lanes: ...
    def __getitem__(self, place: int | slice | Ints) -> Lane | Lanes:
        if isinstance(place, slice | np.ndarray):
            return Lanes(self.seeds, self.schedules, self.grid, self.numbers[place])
        rest, params = divmod(int(self.numbers[place]), len(self.grid))
        seed, schedule = divmod(rest, len(self.schedules))
        return Lane(self.seeds[seed], self.schedules[schedule], self.grid[params])

    @property
    def seed_numbers(self) -> Ints:
        """For each lane the number of its seed."""
        return self.numbers // (len(self.schedules) * len(self.grid))

    @property
    def schedule_numbers(self) -> Ints:
        """For each lane the number of its step sizes."""
        return self.numbers // len(self.grid) % len(self.schedules)

    @property
    def grid_numbers(self) -> Ints:
        """For each lane the number of its parameters."""
        return self.numbers % len(self.grid)


@dataclass(frozen=True, eq=False)
class Group:
    """Lanes of one seed that go through the kernel together.

    Attributes
    ----------
    lanes : list of Lane
    places : list of int
        Their numbers in the list of all lanes.
    width : int
        1 or `LANES`; places without a lane repeat the last one.
    """

    lanes: list[Lane]
    places: list[int]
    width: int

    @cached_property
    def schedules(self) -> list[Schedule]:
        """The schedule of each place."""
        return [self._lane(k).step_size for k in range(self.width)]

    @cached_property
    def schedule_ids(self) -> tuple[int, ...]:
        """A key that is the same for groups with the same schedules."""
        return tuple(id(schedule) for schedule in self.schedules)

    def step_sizes(self, first: int, last: int, laned: bool) -> Floats:
        """Return step sizes number ``first`` to ``last - 1``: (steps, width), or (steps,) for one lane."""
        sizes = side_by_side(self.schedules, first, last)
        return sizes if laned else sizes[:, 0].copy()

    def params(self, algorithm: Algorithm, laned: bool) -> Any:
        """Return the parameters: arrays of shape (width,), or floats for one lane."""
        columns = {
            name: np.array([self._lane(k).params[name] for k in range(self.width)], dtype=np.float64)
            for name in algorithm.params._fields
        }
        return algorithm.params(**columns if laned else {n: float(c[0]) for n, c in columns.items()})

    def _lane(self, k: int) -> Lane:
        return self.lanes[min(k, len(self.lanes) - 1)]


def make_lanes(
    algorithm: Algorithm,
    seeds: int | Iterable[int],
    step_size: StepSize | Sequence[StepSize] | None,
    params: Mapping[str, float | Sequence[float]],
) -> Lanes:
    """Return all combinations of seeds, step sizes and parameters, seeds outermost.

    Examples
    --------
    >>> from gainbias.algorithms.registry import ALGORITHMS
    >>> len(make_lanes(ALGORITHMS["td-lambda"], range(3), [0.1, 0.2], {"trace_decay": [0.0, 0.5]}))
    12
    """
    sizes: Any = 1.0 if step_size is None and algorithm.declared.step_free else step_size
    schedules = [as_schedule(size) for size in (sizes if _is_list(sizes) else [sizes])]
    lanes = Lanes(_seeds(seeds), schedules, list(_grid(algorithm, params)))
    if not lanes:
        raise ValueError("there are no lanes: give at least one seed, step size and value of each parameter")
    return lanes


def make_groups(algorithm: Algorithm, lanes: Lanes, form: Form) -> list[Group]:
    """Return the groups of the lanes, which are sorted by seed.

    Lanes whose steps touch all weights are not grouped with others, because their sums for averages differ.

    Examples
    --------
    >>> from gainbias.algorithms.registry import ALGORITHMS
    >>> algorithm = ALGORITHMS["double-chain"]
    >>> lanes = make_lanes(algorithm, [7], [0.01 * k for k in range(1, 19)], {})
    >>> [len(group.lanes) for group in make_groups(algorithm, lanes, algorithm.form)]
    [8, 8, 1, 1]
    """
    groups, by_kind = [], dict[tuple[int, bool], list[tuple[int, Lane]]]()
    touch = [form.touches_rows(algorithm.params(**values)) for values in lanes.grid]
    for place, (lane, number) in enumerate(zip(lanes, lanes.grid_numbers.tolist(), strict=True)):
        by_kind.setdefault((lane.seed, touch[number]), []).append((place, lane))
    for members in by_kind.values():
        while members:
            count = min(LANES, len(members)) if form.laned and len(members) > FEW_LANES else 1
            places, own = zip(*members[:count], strict=True)
            groups.append(Group(list(own), list(places), LANES if count > 1 else 1))
            del members[:count]
    return groups


def warn_of_large_steps(algorithm: Algorithm, lanes: Lanes, problem: Problem) -> None:
    """Warn if the first step size times the largest squared row norm exceeds 1, if that does harm."""
    if not algorithm.declared.overshoots:
        return
    largest = max(float(schedule.values(0, 1)[0]) for schedule in lanes.schedules)
    product = largest * problem.features.max_row_norm**2
    if product > 1.0:
        warnings.warn(
            f"the first step size {largest:g} times the largest squared row norm of the features is "
            f"{product:.3g}, more than 1: the first steps overshoot. Take smaller steps, or a larger c0",
            stacklevel=3,
        )


def _is_list(step_size: Any) -> bool:
    return isinstance(step_size, Iterable) and not isinstance(step_size, np.ndarray | str)


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    several = isinstance(seeds, Iterable) and not (isinstance(seeds, np.ndarray) and seeds.ndim == 0)
    given: list[Any] = list(seeds) if several else [seeds]  # type: ignore[arg-type]
    if set(map(type, given)) != {int} or min(given) < 0:
        for seed in given:
            if not is_integer(seed) or seed < 0:
                raise ValueError(f"seeds must be integers that are not negative, found {seed!r}")
    if len(set(given)) < len(given):
        raise ValueError("seeds must differ: the same seed gives the same run")
    return [int(seed) for seed in given]


def _grid(algorithm: Algorithm, params: Mapping[str, Any]) -> Iterable[dict[str, float]]:
    fields = algorithm.params._fields
    for name in params:
        if name not in fields:
            question = did_you_mean(name, fields)
            hint = f": {question}" if question else ""
            known = f"its parameters are {', '.join(fields)}" if fields else "it has no parameters"
            raise ValueError(f"{algorithm.name} has no parameter {name!r}{hint} ({known})")
    columns = []
    for name in fields:
        given = params.get(name, algorithm.params._field_defaults.get(name))
        if given is None:
            raise ValueError(f"{algorithm.name} needs a value for its parameter {name!r}")
        values = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
        for value in values:
            _check_param(algorithm, name, value)
        columns.append([float(value) for value in values])
    return (dict(zip(fields, values, strict=True)) for values in itertools.product(*columns))


def _check_param(algorithm: Algorithm, name: str, value: Any) -> None:
    allowed = algorithm.bounds.get(name)
    number = isinstance(value, float | np.floating) or (
        isinstance(value, int | np.integer) and abs(int(value)) <= sys.float_info.max
    )
    if not number or math.isnan(value) or (allowed is not None and value not in allowed):
        must = "a number" if allowed is None else f"a number {allowed}"
        raise ValueError(f"parameter {name!r} of {algorithm.name} must be {must}, found {value!r}")
