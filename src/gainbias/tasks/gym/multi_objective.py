"""Environments of MO-Gymnasium, found by stepping them from every state; their rewards are vectors."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from gainbias.tasks.gym.environments import installed_id, optional
from gainbias.tasks.gym.learned import LEARNING, Model, learned_process
from gainbias.tasks.gym.stepping import State, stepped_table
from gainbias.tasks.paper import PAPER, paper_numbers
from gainbias.tasks.task import Recipe

CITATION = (
    "Felten et al.: A Toolkit for Reliable Benchmarking and Research in Multi-Objective Reinforcement "
    f"Learning, NeurIPS 2023 (MO-Gymnasium); {PAPER}"
)


def deep_sea(environment: str) -> Model:
    """Treasure by its depth: the treasure counts, as a part of the largest one, and the time does not."""

    def place(env: Any, state: State) -> None:
        env.current_state = np.array(state, dtype=np.int32)

    env, source = _made(environment)
    largest = float(env.reward_space.high[0])
    return Model(stepped_table(env, place), source, weights=(1.0 / largest, 0.0))


def resource_gathering() -> Model:
    """Bring gold and a gem home past two enemies: the three objectives count the same.

    The states are all cells with all flags, also those in which one stands on the gold without having it.
    """

    def place(env: Any, state: State) -> None:
        env.current_pos = np.array(state[:2], dtype=np.int32)
        env.has_gold, env.has_gem = state[2:]

    env, source = _made("resource-gathering")
    flags = (range(2), range(2))
    states = itertools.product(*map(range, env.map.shape), *flags)
    return Model(stepped_table(env, place, states), source, weights=(1.0, 1.0, 1.0))


def fruit_tree(depth: int) -> Model:
    """Descend a binary tree to a fruit: the six nutrients count the same and make up a mean."""

    def place(env: Any, state: State) -> None:
        env.current_state = np.array(state, dtype=np.int32)
        env.terminal = False

    env, source = _made("fruit-tree", depth=depth)
    return Model(stepped_table(env, place), {**source, "depth": depth}, weights=(1.0 / 6.0,) * 6)


def _made(environment: str, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Return an environment without wrappers, and its id and the versions of its packages."""
    library = optional("mo_gymnasium")
    newest = installed_id(environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the precision of bounds that nobody reads
        env = library.make(newest, **arguments).unwrapped
    versions = {name: metadata.version(name) for name in ("gymnasium", "mo-gymnasium")}
    return env, {"environment": newest, **versions}


def _recipe(name: str, summary: str, num_states: int, read: Callable[[], Model], **changed: Any) -> Recipe:
    paper = paper_numbers()[name]
    return Recipe(
        name=name,
        summary=summary,
        citation=CITATION,
        num_states=num_states,
        settings={
            "num_features": paper.num_features,
            "epsilon": paper.epsilon,
            "policy_seed": None,
            "weights": None,
            **LEARNING,
            "episodes": 100_000,
            "exploration": 1.0,
            **changed,
        },
        process=learned_process(read),
        paper=paper,
    )


RECIPES = (
    _recipe(
        "deep-sea",
        "Dive for treasure: the deeper, the larger.",
        72,
        partial(deep_sea, "deep-sea-treasure"),
    ),
    _recipe(
        "deep-sea-concave",
        "Dive for treasure, with a concave front.",
        72,
        partial(deep_sea, "deep-sea-treasure-concave"),
    ),
    _recipe(
        "resource-gathering",
        "Bring gold and a gem home past two enemies.",
        100,
        resource_gathering,
        learning_rate=0.01,
    ),
    *(
        _recipe(
            f"fruit-tree-{depth}",
            f"Descend a binary tree of depth {depth} to one of its fruits.",
            2 ** (depth + 1) - 1,
            partial(fruit_tree, depth),
            episodes=30_000,
        )
        for depth in (5, 6, 7)
    ),
)
