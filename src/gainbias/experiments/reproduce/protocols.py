"""How the paper's study is run: by its letter, by what fits its numbers, and fairly.

A protocol is a list of methods with rules for scoring. Titles and order of the methods are here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gainbias.algorithms.registry import as_algorithm, long_title, short_title
from gainbias.engine.trace import Norm, Target
from gainbias.tasks.task import Protocol as ProtocolName


@dataclass(frozen=True)
class ProtocolMethod:
    """An algorithm with the step size and the parameters that a protocol gives it.

    Attributes
    ----------
    name : str
        What its rows in the tables are called.
    algorithm : str
        Id of the algorithm, by default the same.
    step_size : float, optional
        A constant step size; by default it is the paper's for the task, a / (t + c0).
    params : dict of str to float
        All parameters of the algorithm; those that are not given are filled in with its defaults.

    Examples
    --------
    >>> ProtocolMethod("single-chain").params["mean_ratio"]
    1.0
    """

    name: str
    algorithm: str = ""
    step_size: float | None = None
    params: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in the algorithm and all parameters, so that the record says what is run."""
        algorithm = as_algorithm(self.algorithm or self.name)
        defaults: Any = algorithm.params()
        object.__setattr__(self, "algorithm", algorithm.name)
        object.__setattr__(self, "params", {**defaults._asdict(), **self.params})


PAPER_METHODS = tuple(map(ProtocolMethod, ("double-chain", "single-chain", "td-lambda", "implicit-td")))
"""The four methods of the paper's table of distances; it calls the last two coupled SA and implicit."""

VARIANCE_REDUCED = (
    ProtocolMethod("vrtd", step_size=0.5),
    ProtocolMethod("vrtd-all-data", "vrtd", step_size=0.5, params={"skip": 1.0}),
)
"""What the paper calls much slower, without data, by one rule for all tasks and no tuning.

The step size is the largest that is safe for feature rows no longer than 1; all parameters are the defaults
of the package, because the constants that its authors would choose are not known to us. Its theory thins a
Markov chain, which leaves three transitions of four unused. Since this decides how slow it is, it is run
with all transitions, too.
"""

FLOOR_METHOD = ProtocolMethod("lstd")


@dataclass(frozen=True)
class Protocol:
    """One way to run the study: its methods, its instances and its scores.

    Attributes
    ----------
    name : str
        Its id, which is also that of the features `task` makes for it.
    summary : str
        What is particular about it.
    methods : tuple of ProtocolMethod
        The algorithms; least squares are the floor that others are seen against.
    runs : int
        Instances of each task; an instance has features, a policy and a sample path of its own.
    target : str
        What the paper's score is a distance to: the "bias", or the values of the "paper" fixed point.
    norms : tuple of str
        In which norms errors are stored.
    """

    name: ProtocolName
    summary: str
    methods: tuple[ProtocolMethod, ...]
    runs: int
    target: Target
    norms: tuple[Norm, ...]


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "literal",
            "what the paper's text says: one scale for all features, distances to the bias, three runs",
            (*PAPER_METHODS, *VARIANCE_REDUCED, FLOOR_METHOD),
            3,
            "bias",
            ("euclidean",),
        ),
        Protocol(
            "inferred",
            "what fits the paper's numbers best: each feature row scaled alone, distances to its fixed point",
            (*PAPER_METHODS, *VARIANCE_REDUCED, FLOOR_METHOD),
            3,
            "paper",
            ("euclidean",),
        ),
        Protocol(
            "fair",
            "every method by every measure, budgets in transitions, many instances, least squares as floor",
            (*PAPER_METHODS, ProtocolMethod("relative-td"), *VARIANCE_REDUCED, FLOOR_METHOD),
            30,
            "bias",
            ("euclidean", "stationary"),
        ),
    )
}
"""The protocols by name."""

METHOD_TITLES = {"vrtd-all-data": "Variance-reduced TD, all data"}
"""Titles of methods that are not called by the id of their algorithm."""

METHOD_ORDER = tuple(method.name for method in PROTOCOLS["fair"].methods)
"""All methods of the study in the order in which they are listed and drawn; fair runs them all."""


def method_title(name: str, *, with_id: bool = False) -> str:
    """Return what tables and figures call a method; with its id where the paper calls it something else.

    Examples
    --------
    >>> method_title("vrtd-all-data"), method_title("lstd"), method_title("td-lambda", with_id=True)
    ('Variance-reduced TD, all data', 'Least squares', 'Coupled SA (td-lambda)')
    """
    if name in METHOD_TITLES:
        return METHOD_TITLES[name]
    return long_title(name) if with_id else short_title(name)


def in_method_order(names: Iterable[str]) -> list[str]:
    """Return names of methods in the order of the study; others come last, in the order given.

    Examples
    --------
    >>> in_method_order(["lstd", "my-own", "vrtd", "single-chain"])
    ['single-chain', 'vrtd', 'lstd', 'my-own']
    """
    places = {name: place for place, name in enumerate(METHOD_ORDER)}
    return sorted(names, key=lambda name: places.get(name, len(places)))
