"""RiverSwim: a river whose current carries back whoever swims against it.

The states 0, ..., n - 1 lie along the river. To drift leads one state down, and in state 0 pays a little. To
swim leads

    0 -> 1          with probability 0.6, otherwise the state stays,
    s -> s + 1      with probability 0.35, s -> s - 1 with probability 0.05, otherwise the state stays,
    n - 1 -> n - 2  with probability 0.4, otherwise the state stays,

and pays 1 in state n - 1, wherever it leads. The policy swims with probability `swim` in every state. The
chain moves between neighbours, so its stationary law is a product of ratios of probabilities.

The river is that of Strehl and Littman (2008), with the numbers of Osband, Russo and Van Roy (2013).
"""

from __future__ import annotations

import numpy as np

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_integer, as_number
from gainbias.tasks.task import Recipe, Settings, Source, tabular

FORWARD, BACK = 0.35, 0.05
FORWARD_AT_FIRST, BACK_AT_LAST = 0.6, 0.4


def river_swim_process(
    num_states: int, swim: float, small_reward: float, large_reward: float
) -> MarkovRewardProcess:
    """Return the river under the policy that swims with probability `swim`.

    Examples
    --------
    >>> river_swim_process(3, swim=1.0, small_reward=0.005, large_reward=1.0).transitions
    array([[0.4 , 0.6 , 0.  ],
           [0.05, 0.6 , 0.35],
           [0.  , 0.4 , 0.6 ]])
    """
    place = np.arange(num_states)
    forward = np.full(num_states, FORWARD)
    forward[0], forward[-1] = FORWARD_AT_FIRST, 0.0
    back = np.full(num_states, BACK)
    back[0], back[-1] = 0.0, BACK_AT_LAST
    kernel = np.zeros((num_states, 2, num_states))
    kernel[place, 0, np.maximum(place - 1, 0)] = 1.0
    kernel[place[:-1], 1, place[1:]] = forward[:-1]
    kernel[place[1:], 1, place[:-1]] = back[1:]
    kernel[place, 1, place] = 1.0 - forward - back
    rewards = np.zeros((num_states, 2))
    rewards[0, 0], rewards[-1, 1] = small_reward, large_reward
    return MarkovRewardProcess.from_mdp(kernel, rewards, np.tile([1.0 - swim, swim], (num_states, 1)))


def _process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size = as_integer(settings["num_states"], "num_states", least=2)
    swim = as_number(settings["swim"], "swim", above=0.0, at_most=1.0)
    small = as_number(settings["small_reward"], "small_reward")
    large = as_number(settings["large_reward"], "large_reward")
    return river_swim_process(size, swim, small, large), {}


RECIPES = (
    Recipe(
        name="river-swim",
        summary="Swim against the current to a large reward, far from a small one.",
        citation=(
            "Strehl, Littman: An Analysis of Model-Based Interval Estimation for Markov Decision Processes, "
            "Journal of Computer and System Sciences 74(8), 2008; Osband, Russo, Van Roy: (More) Efficient "
            "Reinforcement Learning via Posterior Sampling, NeurIPS 2013 (the numbers)"
        ),
        num_states=6,
        settings={
            "num_features": None,
            "num_states": 6,
            "swim": 1.0,
            "small_reward": 0.005,
            "large_reward": 1.0,
        },
        process=_process,
        features=tabular,
    ),
)
