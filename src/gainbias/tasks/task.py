"""What a task is: the recipe that makes it, checks of its settings, the task itself, and its map.

A `Recipe` makes a process from a seed and settings, which `as_integer`, `as_number` and their like check:
each message names the setting, what it must be and what was found. A `Task` is the resulting problem, with
its source; `places_of` says where its states are on a map, if they have positions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from gainbias.features import FeatureLike, Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.notebook import Card, InNotebooks
from gainbias.tasks.paper import PaperNumbers
from gainbias.types import Floats, Ints, is_integer, is_real

ProtocolName: TypeAlias = Literal["literal", "inferred", "fair"]
Settings: TypeAlias = Mapping[str, Any]
Source: TypeAlias = Mapping[str, Any]
MakeProcess: TypeAlias = Callable[[int, Settings], tuple[MarkovRewardProcess, Source]]
MakeFeatures: TypeAlias = Callable[[MarkovRewardProcess], FeatureLike]

MOST_INTEGER = 2**63 - 1
"""The largest integer in compiled code."""


@dataclass(frozen=True)
class Recipe(InNotebooks):
    """How a task is made: an entry of `TASKS`.

    Attributes
    ----------
    name : str
        The id.
    summary : str
        One sentence.
    citation : str
        Where the task comes from.
    num_states : int
        Number of states with the default settings.
    settings : mapping
        Every choice that `task` lets one change, with its default. With the entry `num_features`, None or a
        number, one may ask for features like those of the paper.
    process : callable
        From a seed and settings to a process, and to plain facts about where it came from.
    features : callable or None
        From a process to the features that belong to the task, which are used unless `num_features` is set;
        None if it has only the paper's.
    paper : PaperNumbers or None
        What the paper prints for the task; None if it is not one of the paper's.
    title : str
        Title of the task in tables and figures; by default its id in words.
    needs : tuple of str
        Optional modules that its process is made with.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.TASKS["frozen-lake"].settings["epsilon"]
    0.1
    >>> gb.TASKS["frozen-lake"].title, gb.TASKS["fruit-tree-5"].title
    ('Frozen lake', 'Fruit tree, depth 5')
    """

    name: str
    summary: str
    citation: str
    num_states: int
    settings: Settings
    process: MakeProcess
    features: MakeFeatures | None = None
    paper: PaperNumbers | None = None
    title: str = ""
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Give a recipe without a title its id in words."""
        object.__setattr__(self, "title", self.title or id_in_words(self.name))


def id_in_words(name: str) -> str:
    """Return an id as a title.

    Examples
    --------
    >>> id_in_words("river-swim")
    'River swim'
    """
    return name.replace("-", " ").capitalize()


def tabular(process: MarkovRewardProcess) -> Tabular:
    """Return one feature for each state, for recipes of small chains."""
    return Tabular()


def as_integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return `value` as an integer between `least` and `most`.

    Examples
    --------
    >>> as_integer(0, "capacity", least=1)
    Traceback (most recent call last):
    ValueError: capacity must be an integer of at least 1, found 0
    """
    if most is None and is_integer(value) and value > MOST_INTEGER:
        most = MOST_INTEGER
    if not is_integer(value) or value < least or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name} must be an integer of at least {least}{limit}, found {value!r}")
    return int(value)


def as_seed(value: Any, name: str = "seed") -> int:
    """Return `value` as an integer that is not negative, however large.

    Examples
    --------
    >>> as_seed(-1)
    Traceback (most recent call last):
    ValueError: seed must be an integer that is not negative, found -1
    """
    if not is_integer(value) or value < 0:
        raise ValueError(f"{name} must be an integer that is not negative, found {value!r}")
    return int(value)


def as_number(
    value: Any,
    name: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
) -> float:
    """Return `value` as a finite number within bounds.

    Examples
    --------
    >>> as_number(-0.1, "epsilon", at_least=0.0, below=1.0)
    Traceback (most recent call last):
    ValueError: epsilon must be at least 0 and below 1, found -0.1
    """
    # The bounds that are not given keep out infinities, and none holds for NaN.
    if not is_real(value) or not (above < value < below and at_least <= value <= at_most):
        bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
        words = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        raise ValueError(f"{name} must be {' and '.join(words) or 'a finite number'}, found {value!r}")
    return float(value)


def as_numbers(value: Any, name: str) -> list[float]:
    """Return `value` as a list of at least one finite number.

    Examples
    --------
    >>> as_numbers([1, 2.5], "priorities")
    [1.0, 2.5]
    """
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{name} must be a list of numbers, found {value!r}")
    return [as_number(entry, f"each entry of {name}") for entry in value]


@dataclass(frozen=True, eq=False, repr=False)
class Task(InNotebooks):
    """A named problem with its source and what the paper says about it.

    Attributes
    ----------
    name : str
        The id.
    problem : Problem
        Process and features.
    seed : int
        The seed of the chain, the policy and the features.
    protocol : {"literal", "inferred", "fair"}
        The protocol of the features (see `task`).
    settings : mapping
        Every choice that was made, defaults included.
    source : mapping
        Plain facts: the environment, the versions of the packages it came from, fingerprints.
    citation : str
        Where the task comes from.
    paper : PaperNumbers or None
        What the paper prints for the task.

    Examples
    --------
    >>> import gainbias as gb
    >>> task = gb.task("random-walk-50", seed=0)
    >>> task
    Task(random-walk-50, 50 states, 5 features, seed 0, literal)
    >>> task.problem.condition_numbers.eta1 < task.problem.condition_numbers.eta2
    True
    >>> task.paper.num_steps
    150000
    """

    name: str
    problem: Problem
    seed: int
    protocol: ProtocolName
    settings: Settings
    source: Source
    citation: str
    paper: PaperNumbers | None = field(default=None)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the process and the features."""
        digest = hashlib.sha256(f"task 1, {self.problem.mrp.fingerprint}".encode())
        for _, block in self.problem.features.row_blocks():
            digest.update((block + 0.0).astype("<f8").data)  # adding 0 makes -0.0 and 0.0 the same
        return digest.hexdigest()[:32]

    def __repr__(self) -> str:
        size = f"{self.problem.mrp.num_states} states, {self.problem.num_features} features"
        return f"Task({self.name}, {size}, seed {self.seed}, {self.protocol})"

    def _card(self) -> Card:
        facts = {"": self.citation, "process": self.problem.mrp, "features": self.problem}
        return Card(f"Task {self.name}", facts | {"seed": self.seed, "protocol": self.protocol})


MAP_GRIDS = {
    "frozen-lake": (4, 4),
    "cliff-walking": (4, 12),
    "grid-world-5x5": (5, 5),
    "grid-world-10x10": (10, 10),
    "grid-world-2x11": (2, 11),
    "taxi": (5, 5, 5, 4),
    "resource-gathering": (5, 5, 2, 2),
}
"""Rows and columns of the map, and what else a state has."""

PANELS = {
    "taxi": {
        (0, 2): "passenger at R, wants to Y",
        (1, 2): "at G, wants to Y",
        (3, 2): "at B, wants to Y",
        (4, 2): "in the taxi, wants to Y",
    },
    "resource-gathering": {
        (0, 0): "nothing yet",
        (1, 0): "holds gold",
        (0, 1): "holds gem",
        (1, 1): "holds both",
    },
}
"""Maps that are drawn of a task whose states have more than a place, by what else they have."""


@dataclass(frozen=True, eq=False)
class Places:
    """The map of a task.

    Attributes
    ----------
    titles : sequence of str
        Of the panels; a map that needs no words has one panel with an empty title.
    panels, rows, columns : (n,) int arrays
        Where each state is; the panel is -1 for states that are not drawn.
    """

    titles: Sequence[str]
    panels: Ints
    rows: Ints
    columns: Ints

    def spread(self, values: Floats) -> list[Floats]:
        """Return values of the states as one (rows, columns) array for each panel, NaN where no state is."""
        cells = np.full((len(self.titles), self.rows.max() + 1, self.columns.max() + 1), np.nan)
        drawn = self.panels >= 0
        cells[self.panels[drawn], self.rows[drawn], self.columns[drawn]] = values[drawn]
        return list(cells)


NOWHERE = Places([""], *np.zeros((3, 0), dtype=np.int64))
"""The map of a task whose states have no positions."""


def places_of(task: Task) -> Places | None:
    """Return where the states of a task are, or None if they have no positions.

    Examples
    --------
    >>> import gainbias as gb
    >>> places_of(gb.task("grid-world-2x11")).columns[-1]
    np.int64(10)
    >>> places_of(gb.task("two-loop")) is None
    True
    """
    count = task.problem.mrp.num_states
    if task.name.startswith("deep-sea"):
        rows, columns = np.array(task.problem.mrp.labels, dtype=np.int64).T
        return Places([""], np.zeros(count, dtype=np.int64), rows, columns)
    shape = MAP_GRIDS.get(task.name, (0,))
    if count != np.prod(shape):
        return None
    rows, columns, *others = np.unravel_index(np.arange(count), shape)
    titles = PANELS.get(task.name, {(): ""})
    panels = np.full(count, -1, dtype=np.int64)
    for number, held in enumerate(titles):
        panels[np.all([entry == part for entry, part in zip(others, held, strict=True)], axis=0)] = number
    return Places(list(titles.values()), panels, rows, columns)
