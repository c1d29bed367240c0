"""Two loops of equal length through one state, with a small reward soon or a large one late.

State 0 leads to the first state of the left loop with probability 1 - `right`, which pays 1 at once, and
otherwise to the first state of the right loop, whose last step, back to state 0, pays 2. With loops of L
steps

    gain = (1 - right) / L + 2 right / L,

0.3 for the defaults. The chain has period L.
"""

from __future__ import annotations

import numpy as np

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_integer, as_number
from gainbias.tasks.task import Recipe, Settings, Source, tabular


def two_loop_process(
    loop_length: int, right: float, left_reward: float, right_reward: float
) -> MarkovRewardProcess:
    """Return the two loops; states 1 to L - 1 are the left one, the others the right one.

    Examples
    --------
    >>> two_loop_process(2, 0.5, left_reward=1.0, right_reward=2.0).transitions
    array([[0. , 0.5, 0.5],
           [1. , 0. , 0. ],
           [1. , 0. , 0. ]])
    """
    size = 2 * loop_length - 1
    chain, rewards = np.zeros((2, size, size))
    chain[np.arange(size - 1), np.arange(1, size)] = 1.0
    chain[loop_length - 1] = chain[size - 1] = np.eye(size)[0]
    chain[0, [1, loop_length]] = 1.0 - right, right
    rewards[0, 1], rewards[size - 1, 0] = left_reward, right_reward
    return MarkovRewardProcess(chain, rewards)


def _process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    length = as_integer(settings["loop_length"], "loop_length", least=2)
    right = as_number(settings["right"], "right", above=0.0, below=1.0)
    left_reward = as_number(settings["left_reward"], "left_reward")
    right_reward = as_number(settings["right_reward"], "right_reward")
    return two_loop_process(length, right, left_reward, right_reward), {}


RECIPES = (
    Recipe(
        name="two-loop",
        summary="Two loops through one state: a small reward soon or a large one late.",
        citation=(
            "Wan, Naik, Sutton: Learning and Planning in Average-Reward Markov Decision Processes, ICML 2021"
        ),
        num_states=9,
        settings={
            "num_features": None,
            "loop_length": 5,
            "right": 0.5,
            "left_reward": 1.0,
            "right_reward": 2.0,
        },
        process=_process,
        features=tabular,
    ),
)
