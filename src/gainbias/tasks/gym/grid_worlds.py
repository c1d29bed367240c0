"""Tasks on grids: maps that are written out here, and Gymnasium's frozen lake, cliff and taxi.

Of its grid worlds the paper names only the sizes: 5 x 5, 10 x 10 and 2 x 11. "Barrier-5x5", "Empty-10x10" and
"TwoRoom-Distract-Middle-2x11" of Gym-Gridworlds have them. That package is not on the package index, so the
maps are written out here. The actions are left, down, right, up and stay; a move off the map has no effect.
A cell with an arrow can only be left in its direction. Staying in a goal pays and ends the episode.

Frozen lake, cliff and taxi are read from the tables in Gymnasium's environments. All states of a table are
kept, even those that no episode reaches, as in the paper's tasks.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from gainbias.tasks.gym.installed import gymnasium_table, installed_id
from gainbias.tasks.gym.q_learning import LEARNING, Model, learned_process
from gainbias.tasks.gym.table import TransitionTable
from gainbias.tasks.paper import PAPER_CITATION, paper_numbers
from gainbias.tasks.task import Recipe

GRID_WORLD_CITATION = (
    f"Parisi: Gym-Gridworlds, github.com/sparisi/gym_gridworlds (the maps); {PAPER_CITATION}"
)

MOVES = {"<": (0, -1), "v": (1, 0), ">": (0, 1), "^": (-1, 0), "stay": (0, 0)}
GOALS = {"G": 1.0, "g": 0.1}

BARRIER = """
    .....
    .<^>.
    .<G..
    .<v>.
    .....
"""
EMPTY = "..........\n" * 9 + ".........G"
TWO_ROOMS = """
    g...>v<...G
    ...........
"""


def grid_table(grid: str, start: tuple[int, int] = (0, 0)) -> TransitionTable:
    """Return the transition table of a map.

    Parameters
    ----------
    grid : str
        A line for each row: ``.`` is free, ``<v>^`` can only be left that way, ``G`` and ``g`` are goals that
        pay 1 and 0.1.
    start : (int, int)
        Row and column of the first cell.

    Examples
    --------
    >>> grid_table("..G")
    TransitionTable(3 states, 5 actions, 15 outcomes)
    """
    rows = grid.split()
    height, width = len(rows), len(rows[0])
    cells = [(row, column) for row in range(height) for column in range(width)]

    def outcome(row: int, column: int, action: str) -> list[tuple[float, int, float, bool]]:
        mark = rows[row][column]
        if action == "stay" and mark in GOALS:
            return [(1.0, row * width + column, GOALS[mark], True)]
        down, right = MOVES[action] if mark not in MOVES or mark == action else (0, 0)
        row, column = np.clip(row + down, 0, height - 1), np.clip(column + right, 0, width - 1)
        return [(1.0, int(row * width + column), 0.0, False)]

    table = [[outcome(*cell, action) for action in MOVES] for cell in cells]
    return TransitionTable(table, [cell == start for cell in cells], cells)


def _grid_world_recipe(name: str, summary: str, grid: str, start: tuple[int, int] = (0, 0)) -> Recipe:
    paper = paper_numbers()[name]
    return Recipe(
        name=name,
        summary=summary,
        citation=GRID_WORLD_CITATION,
        num_states=len("".join(grid.split())),
        settings={
            "num_features": paper.num_features,
            "epsilon": paper.epsilon,
            "policy_seed": None,
            **LEARNING,
            "episodes": 300,
            "exploration": 1.0,
            "max_steps": 100_000,
        },
        process=learned_process(lambda: Model(grid_table(grid, start), {})),
        paper=paper,
        title=f"Grid world, {name.removeprefix('grid-world-').replace('x', ' by ')}",
    )


GRID_WORLDS = (
    _grid_world_recipe("grid-world-5x5", "Enter a walled cell in the middle by its only door.", BARRIER),
    _grid_world_recipe("grid-world-10x10", "Cross an empty grid to the opposite corner.", EMPTY),
    _grid_world_recipe(
        "grid-world-2x11", "Choose between two rooms, with a small and a large goal.", TWO_ROOMS, (1, 5)
    ),
)


TOY_TEXT_CITATION = (
    "Towers et al.: Gymnasium: A Standard Interface for Reinforcement Learning Environments, arXiv "
    f"2407.17032, 2024; {PAPER_CITATION}"
)


def _toy_text_recipe(name: str, summary: str, num_states: int, environment: str, **changed: Any) -> Recipe:
    paper = paper_numbers()[name]

    def read() -> Model:
        newest = installed_id(environment)
        source = {"environment": newest, "gymnasium": metadata.version("gymnasium")}
        return Model(gymnasium_table(newest), source)

    return Recipe(
        name=name,
        summary=summary,
        citation=TOY_TEXT_CITATION,
        num_states=num_states,
        settings={
            "num_features": paper.num_features,
            "epsilon": paper.epsilon,
            "policy_seed": None,
            **LEARNING,
            **changed,
        },
        process=learned_process(read),
        paper=paper,
        needs=("gymnasium",),
    )


TOY_TEXT = (
    _toy_text_recipe(
        "frozen-lake",
        "Cross a slippery lake of 4 x 4 cells with holes.",
        num_states=16,
        environment="FrozenLake",
    ),
    _toy_text_recipe(
        "cliff-walking",
        "Walk along a cliff; whoever falls starts again.",
        num_states=48,
        environment="CliffWalking",
        episodes=1_000,
    ),
    _toy_text_recipe(
        "taxi",
        "Pick up a passenger and drive to the right place.",
        num_states=500,
        environment="Taxi",
    ),
)
