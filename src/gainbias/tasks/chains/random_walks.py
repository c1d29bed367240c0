"""Random chains of the paper, which it calls random walks though every state leads to every state.

Each row is uniform on all laws of the next state (a Dirichlet law with parameters 1) and each reward is
uniform between 0 and 1. This is the random Markov reward process of Zhang, Zhang and Maguluri; the paper does
not define its random walks, and no walk between neighbours comes near its numbers.
"""

from __future__ import annotations

import numpy as np

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.paper import PAPER, paper_numbers
from gainbias.tasks.task import Recipe, Settings, Source

CITATION = (
    "Zhang, Zhang, Maguluri: Finite Sample Analysis of Average-Reward TD Learning and Q-Learning, NeurIPS "
    f"2021 (the random process); {PAPER}"
)


def random_process(num_states: int, rng: np.random.Generator) -> MarkovRewardProcess:
    """Draw a chain with rows that are uniform on all laws, and rewards uniform between 0 and 1.

    Examples
    --------
    >>> random_process(3, np.random.default_rng(0)).is_ergodic
    True
    """
    cuts = np.sort(rng.random((num_states, num_states - 1)), axis=1)  # they cut [0, 1] into probabilities
    chain = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    return MarkovRewardProcess(chain, rng.random(num_states))


def _recipe(num_states: int) -> Recipe:
    name = f"random-walk-{num_states}"
    paper = paper_numbers()[name]

    def process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
        return random_process(num_states, np.random.default_rng([seed, num_states])), {}

    return Recipe(
        name=name,
        summary=f"A dense random chain of {num_states} states with random rewards, drawn from the seed.",
        citation=CITATION,
        num_states=num_states,
        settings={"num_features": paper.num_features},
        process=process,
        paper=paper,
    )


RECIPES = tuple(_recipe(num_states) for num_states in (50, 100, 1000))
