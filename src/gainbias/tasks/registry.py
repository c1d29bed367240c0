"""All tasks by their ids: `TASKS`, `task`, which makes one, and plain facts for tables and pages."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from gainbias.features import FeatureLike
from gainbias.model.problem import Problem
from gainbias.model.solve.solution import Solution
from gainbias.model.solve.solve import solve_to_tolerance
from gainbias.suggest import did_you_mean
from gainbias.tasks.chains import classic, operations, random_chains
from gainbias.tasks.gym import grid_worlds, multi_objective
from gainbias.tasks.paper import Normalisation, bernoulli_features
from gainbias.tasks.task import ProtocolName, Recipe, Source, Task, as_seed, id_in_words

_RECIPES = (
    *random_chains.RANDOM_WALKS,
    *grid_worlds.TOY_TEXT,
    *grid_worlds.GRID_WORLDS,
    *multi_objective.MULTI_OBJECTIVE,
    operations.MM1K_ADMISSION,
    operations.ACCESS_CONTROL,
    classic.RIVER_SWIM,
    classic.BOYAN_CHAIN,
    classic.TWO_LOOP,
    operations.MACHINE_REPLACEMENT,
    operations.INVENTORY,
    random_chains.GARNET,
    random_chains.GARET,
)

TASKS: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}
"""The tasks of this package, by id, those of the paper first; `task` makes one."""

_RECIPE_FILES = (random_chains, grid_worlds, multi_objective, operations, classic)

TASK_HOMES: dict[str, str] = {
    recipe.name: file.__name__
    for file in _RECIPE_FILES
    for value in vars(file).values()
    for recipe in (value if isinstance(value, tuple) else (value,))
    if isinstance(recipe, Recipe)
}
"""The module that the recipe of each of them is written in."""

NORMALISATION: dict[str, Normalisation] = {"literal": "literal", "inferred": "per-row", "fair": "literal"}
"""How the features of each protocol are scaled."""


def task(name: str, seed: int = 0, protocol: ProtocolName = "literal", **settings: Any) -> Task:
    """Make a task: one of the paper's problems, rebuilt, or a classic one.

    Parameters
    ----------
    name : str
        An id of `TASKS`.
    seed : int
        Decides everything that is drawn: random chains, the policy that is learned, and the paper's features.
        Not negative.
    protocol : {"literal", "inferred", "fair"}
        Which features: as the paper's text says, with one scale for all rows (``"literal"``, and ``"fair"``,
        which differs from it in how methods are compared), or with each row scaled to length 1, which fits
        the paper's numbers better (``"inferred"``). It is about the paper's features: a task with its own
        features accepts ``"inferred"`` only together with `num_features`.
    **settings
        Other choices than the defaults, by the names in ``TASKS[name].settings``. If `num_features` is
        None the task has its own features; a number selects that many of the paper's
        instead.

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
    seed = as_seed(seed)
    if protocol not in list(NORMALISATION):  # a list, because what cannot be a key is wrong, too
        raise ValueError(f"protocol must be one of {', '.join(NORMALISATION)}, found {protocol!r}")
    unknown = settings.keys() - recipe.settings.keys()
    if unknown:
        known = ", ".join(recipe.settings)
        raise ValueError(f"{name} has no setting {min(unknown)!r}, its settings are {known}")
    chosen = {key: _plain(value, key) for key, value in {**recipe.settings, **settings}.items()}
    made_from = tuple((key, type(chosen[key]), chosen[key]) for key in chosen if key != "num_features")
    solution, source = _solved(name, seed, made_from)
    features = _features(recipe, solution, seed, protocol, chosen.get("num_features"))
    return Task(
        name=name,
        problem=Problem(solution.mrp, features, solution=solution),
        seed=seed,
        protocol=protocol,
        settings=chosen,
        source={**source},
        citation=recipe.citation,
        paper=recipe.paper,
    )


def as_recipe(name: str) -> Recipe:
    """Return the recipe of a task, or raise an error with a suggestion.

    Examples
    --------
    >>> as_recipe("taxi").num_states
    500
    """
    if name in list(TASKS):  # a list, because what cannot be a key is unknown, too
        return TASKS[name]
    hint = did_you_mean(name, TASKS)
    raise ValueError(f"unknown task {name!r}: {hint + ' The' if hint else 'the'} ids are {', '.join(TASKS)}")


def task_title(name: str) -> str:
    """Return the title of a task in tables and figures; its id in words if it is not registered.

    Examples
    --------
    >>> task_title("fruit-tree-5"), task_title("river-swim"), task_title("my-own")
    ('Fruit tree, depth 5', 'River swim', 'My own')
    """
    return TASKS[name].title if name in TASKS else id_in_words(name)


def _features(
    recipe: Recipe, solution: Solution, seed: int, protocol: ProtocolName, num_features: Any
) -> FeatureLike:
    """Return the features of the task itself, or `num_features` of the paper's."""
    if recipe.features is None or num_features is not None:
        return bernoulli_features(
            solution,
            num_features,
            normalisation=NORMALISATION[protocol],
            rng=np.random.default_rng([seed, zlib.crc32(recipe.name.encode())]),
        )
    if protocol == "inferred":
        raise ValueError(
            f"{recipe.name} has features of its own, and protocol 'inferred' is about the paper's: set "
            "num_features to draw that many of the paper's"
        )
    return recipe.features(solution.mrp)


@lru_cache(maxsize=8)
def _solved(name: str, seed: int, settings: tuple[tuple[str, type, Any], ...]) -> tuple[Solution, Source]:
    """Make and solve a process; the last few are kept, because protocols share them.

    Each setting comes with its type, because 1 and True are the same key.
    """
    process, source = TASKS[name].process(seed, {key: value for key, _, value in settings})
    return solve_to_tolerance(process), {**source, "process": process.fingerprint}


def _plain(value: Any, name: str) -> Any:
    """Return a setting as plain numbers, words and tuples of these, which can be a key."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain(entry, name) for entry in value)
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"{name} must be a number, a word or a list of these, found {value!r}")


def describe_tasks() -> list[dict[str, Any]]:
    """Return the facts of all registered tasks.

    Examples
    --------
    >>> next(entry["num_states"] for entry in describe_tasks() if entry["id"] == "frozen-lake")
    16
    """
    return [
        {
            "id": recipe.name,
            "summary": recipe.summary,
            "num_states": recipe.num_states,
            "citation": recipe.citation,
            "settings": dict(recipe.settings),
            "in_the_paper": recipe.paper is not None,
        }
        for recipe in TASKS.values()
    ]
