"""All tasks by their ids."""

from __future__ import annotations

import difflib
import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from gainbias.model.problem import Problem
from gainbias.model.solution import Solution
from gainbias.model.solve import solve
from gainbias.tasks import grid_worlds, multi_objective, random_walks, toy_text
from gainbias.tasks.bernoulli import Normalisation, bernoulli_features
from gainbias.tasks.q_learning import check_seed
from gainbias.tasks.task import Protocol, Recipe, Source, Task

_FILES = (random_walks, toy_text, grid_worlds, multi_objective)

TASKS: dict[str, Recipe] = {recipe.name: recipe for file in _FILES for recipe in file.RECIPES}
"""The tasks of this package, by id; `task` makes one."""

NORMALISATION: dict[str, Normalisation] = {"literal": "literal", "inferred": "per-row", "fair": "literal"}
"""How the features of each protocol are scaled."""


def task(name: str, seed: int = 0, protocol: Protocol = "literal", **settings: Any) -> Task:
    """Make a task: one of the paper's problems, rebuilt.

    Parameters
    ----------
    name : str
        An id of `TASKS`.
    seed : int
        Decides everything that is drawn: the chain of random walks, the policy that is learned, and the
        features. Not negative.
    protocol : {"literal", "inferred", "fair"}
        Which features: as the paper's text says, with one scale for all rows (``"literal"``, and ``"fair"``,
        which differs from it in how methods are compared), or with each row scaled to length 1, which fits
        the paper's numbers better (``"inferred"``).
    **settings
        Other choices than the defaults, by the names in ``TASKS[name].settings``.

    Returns
    -------
    Task
        The same for the same arguments and versions; between machines, features may differ by the rounding
        of the bias that is one of them.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.task("grid-world-5x5", seed=3, epsilon=0.1)
    Task(grid-world-5x5, 25 states, 10 features, seed 3, literal)
    >>> gb.task("frozenlake")
    Traceback (most recent call last):
    ValueError: unknown task 'frozenlake': did you mean 'frozen-lake'? ...
    """
    recipe = as_recipe(name)
    check_seed(seed)
    if protocol not in NORMALISATION:
        raise ValueError(f"protocol must be one of {', '.join(NORMALISATION)}, found {protocol!r}")
    unknown = settings.keys() - recipe.settings.keys()
    if unknown:
        known = ", ".join(recipe.settings)
        raise ValueError(f"{name} has no setting {min(unknown)!r}, its settings are {known}")
    chosen = {**recipe.settings, **settings}
    num_features = chosen.pop("num_features")
    solution, source = _solved(name, int(seed), tuple((key, _plain(chosen[key])) for key in chosen))
    features = bernoulli_features(
        solution,
        num_features,
        normalisation=NORMALISATION[protocol],
        rng=np.random.default_rng([seed, zlib.crc32(name.encode())]),
    )
    return Task(
        name=name,
        problem=Problem(solution.mrp, features, solution=solution),
        seed=int(seed),
        protocol=protocol,
        settings={"num_features": num_features, **chosen},
        source={**source},
        citation=recipe.citation,
        paper=recipe.paper,
    )


def as_recipe(name: str) -> Recipe:
    """Return the recipe of a task, or say what is near.

    Examples
    --------
    >>> as_recipe("taxi").num_states
    500
    """
    if name in TASKS:
        return TASKS[name]
    near = difflib.get_close_matches(str(name), TASKS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown task {name!r}: {hint}The ids are {', '.join(TASKS)}")


@lru_cache(maxsize=8)
def _solved(name: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> tuple[Solution, Source]:
    """Make and solve a process; the few last ones are kept, because protocols share them."""
    process, source = TASKS[name].process(seed, dict(settings))
    return solve(process), {**source, "process": process.fingerprint}


def _plain(value: Any) -> Any:
    """Return a setting in a form that can be a key."""
    return tuple(value) if isinstance(value, list | np.ndarray) else value
