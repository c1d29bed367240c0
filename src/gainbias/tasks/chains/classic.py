"""Classic small chains with known answers: RiverSwim, Boyan's chain, and two loops.

`river-swim`: a river whose current carries swimmers back. The states 0, ..., n - 1 lie along the river.
Drifting leads one state down, and in state 0 pays a little. Swimming leads

    0 -> 1          with probability 0.6, otherwise the state stays,
    s -> s + 1      with probability 0.35, s -> s - 1 with probability 0.05, otherwise the state stays,
    n - 1 -> n - 2  with probability 0.4, otherwise the state stays,

and pays 1 in state n - 1, wherever it leads. The policy swims with probability `swim` in every state. The
chain moves between neighbours, so its stationary law is a product of ratios of probabilities.

The river is that of Strehl and Littman (2008), with the numbers of Osband, Russo and Van Roy (2013).

`boyan-chain`: walk down a chain by one or two states.

    s -> s - 1 or s - 2, each with probability 1/2, for s >= 2,   reward -3
    1 -> 0,                                                       reward -2

An episode starts in the last state and ends in state 0. Its values are V(s) = -2 s, which its features, that
interpolate between every fourth state, express exactly.

In its source the chain has episodes. Here they are joined by `gainbias.continuing`: state 0 leads to the last
state with reward 0. With T(s) the mean number of steps to state 0, an episode lasts T(n - 1) + 1 steps, so

    gain = -2 (n - 1) / (T(n - 1) + 1),    bias(s) = -2 s - gain T(s) + constant,

and the features do not express the bias any more.

`two-loop`: two loops of equal length through one state, with a small reward soon or a large one late. State 0
leads to the first state of the left loop with probability 1 - `right`, which pays 1 at once, and otherwise to
the first state of the right loop, whose last step, back to state 0, pays 2. With loops of L steps

    gain = (1 - right) / L + 2 right / L,

0.3 for the defaults. The chain has period L.
"""

from __future__ import annotations

import numpy as np

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.gym.continuing import continuing
from gainbias.tasks.gym.table import TransitionTable
from gainbias.tasks.task import Recipe, Settings, Source, as_integer, as_number, tabular
from gainbias.types import Floats

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


def _river_swim_process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size = as_integer(settings["num_states"], "num_states", least=2)
    swim = as_number(settings["swim"], "swim", above=0.0, at_most=1.0)
    small = as_number(settings["small_reward"], "small_reward")
    large = as_number(settings["large_reward"], "large_reward")
    return river_swim_process(size, swim, small, large), {}


RIVER_SWIM = Recipe(
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
    process=_river_swim_process,
    features=tabular,
)


SPACING = 4
"""States between two that have a feature of their own."""


def boyan_table(num_states: int) -> TransitionTable:
    """Return Boyan's chain with episodes; it has one action.

    Examples
    --------
    >>> boyan_table(13)
    TransitionTable(13 states, 1 action, 24 outcomes)
    """
    end, last_step = [[(1.0, 0, 0.0, True)]], [[(1.0, 0, -2.0, True)]]
    walk = [
        [[(0.5, state - 1, -3.0, False), (0.5, state - 2, -3.0, state == 2)]]
        for state in range(2, num_states)
    ]
    return TransitionTable([end, last_step, *walk], np.eye(num_states)[-1])


def boyan_features(num_states: int) -> Floats:
    """Return the features that interpolate between every fourth state, shape (n, (n - 1) / 4 + 1).

    Examples
    --------
    >>> boyan_features(5)
    array([[0.  , 1.  ],
           [0.25, 0.75],
           [0.5 , 0.5 ],
           [0.75, 0.25],
           [1.  , 0.  ]])
    """
    peaks = np.arange(num_states - 1, -1, -SPACING)
    distances = np.abs(np.arange(num_states)[:, None] - peaks)
    return np.asarray(np.maximum(0.0, 1.0 - distances / SPACING))


def _boyan_process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size = as_integer(settings["num_states"], "num_states", least=SPACING + 1)
    if size % SPACING != 1:
        raise ValueError(f"num_states must be 1 more than a multiple of {SPACING}, found {size}")
    return continuing(boyan_table(size), np.zeros(size, dtype=np.int64)), {}


BOYAN_CHAIN = Recipe(
    name="boyan-chain",
    summary="Walk down a chain by one or two states, seen through features that interpolate.",
    citation=(
        "Boyan: Technical Update: Least-Squares Temporal Difference Learning, Machine Learning 49, 2002"
    ),
    num_states=13,
    settings={"num_features": None, "num_states": 13},
    process=_boyan_process,
    features=lambda process: boyan_features(process.num_states),
)


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


def _two_loop_process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    length = as_integer(settings["loop_length"], "loop_length", least=2)
    right = as_number(settings["right"], "right", above=0.0, below=1.0)
    left_reward = as_number(settings["left_reward"], "left_reward")
    right_reward = as_number(settings["right_reward"], "right_reward")
    return two_loop_process(length, right, left_reward, right_reward), {}


TWO_LOOP = Recipe(
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
    process=_two_loop_process,
    features=tabular,
)
