"""What a task is: a problem with its source, and the recipe that makes it from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from gainbias.features import FeatureLike, Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.paper import PaperNumbers

Protocol: TypeAlias = Literal["literal", "inferred", "fair"]
Settings: TypeAlias = Mapping[str, Any]
Source: TypeAlias = Mapping[str, Any]
MakeProcess: TypeAlias = Callable[[int, Settings], tuple[MarkovRewardProcess, Source]]
MakeFeatures: TypeAlias = Callable[[MarkovRewardProcess], FeatureLike]


@dataclass(frozen=True)
class Recipe:
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
        What tables and figures call the task; by default its id in words.

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


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A named problem with its source and what the paper says about it.

    Attributes
    ----------
    name : str
        The id.
    problem : Problem
        Process and features.
    seed : int
        What the chain, the policy and the features were drawn with.
    protocol : {"literal", "inferred", "fair"}
        Whose features these are (see `task`).
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
    protocol: Protocol
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
