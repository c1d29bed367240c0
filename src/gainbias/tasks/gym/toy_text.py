"""Gymnasium's frozen lake, cliff and taxi, read from the tables that they carry.

All states of a table are kept, those that no episode reaches too, as the paper's tasks do.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from gainbias.tasks.gym.environments import gymnasium_table, installed_id
from gainbias.tasks.gym.learned import LEARNING, Model, learned_process
from gainbias.tasks.paper import PAPER, paper_numbers
from gainbias.tasks.task import Recipe

CITATION = (
    "Towers et al.: Gymnasium: A Standard Interface for Reinforcement Learning Environments, arXiv "
    f"2407.17032, 2024; {PAPER}"
)


def _recipe(name: str, summary: str, num_states: int, environment: str, **changed: Any) -> Recipe:
    paper = paper_numbers()[name]

    def read() -> Model:
        newest = installed_id(environment)
        source = {"environment": newest, "gymnasium": metadata.version("gymnasium")}
        return Model(gymnasium_table(newest), source)

    return Recipe(
        name=name,
        summary=summary,
        citation=CITATION,
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
    )


RECIPES = (
    _recipe(
        "frozen-lake",
        "Cross a slippery lake of 4 x 4 cells with holes.",
        num_states=16,
        environment="FrozenLake",
    ),
    _recipe(
        "cliff-walking",
        "Walk along a cliff; whoever falls starts again.",
        num_states=48,
        environment="CliffWalking",
        episodes=1_000,
    ),
    _recipe(
        "taxi",
        "Pick up a passenger and drive to the right place.",
        num_states=500,
        environment="Taxi",
    ),
)
