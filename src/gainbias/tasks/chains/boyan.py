"""Boyan's chain: walk down a chain by one or two states.

    s -> s - 1 or s - 2, each with probability 1/2, for s >= 2,   reward -3
    1 -> 0,                                                       reward -2

An episode starts in the last state and ends in state 0. Its values are V(s) = -2 s, which its features, that
interpolate between every fourth state, express exactly.

In its source the chain has episodes. Here they are joined by `gainbias.continuing`: state 0 leads to the last
state with reward 0. With T(s) the mean number of steps to state 0, an episode lasts T(n - 1) + 1 steps, so

    gain = -2 (n - 1) / (T(n - 1) + 1),    bias(s) = -2 s - gain T(s) + constant,

and the features do not express the bias any more.
"""

from __future__ import annotations

import numpy as np

from gainbias.model.checks import FloatArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.gym.continuing import continuing
from gainbias.tasks.gym.table import TransitionTable
from gainbias.tasks.settings import as_integer
from gainbias.tasks.task import Recipe, Settings, Source

SPACING = 4
"""States between two that have a feature of their own."""


def boyan_table(num_states: int) -> TransitionTable:
    """Return the chain with episodes; it has one action.

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


def boyan_features(num_states: int) -> FloatArray:
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


def _process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size = as_integer(settings["num_states"], "num_states", least=SPACING + 1)
    if size % SPACING != 1:
        raise ValueError(f"num_states must be 1 more than a multiple of {SPACING}, found {size}")
    return continuing(boyan_table(size), np.zeros(size, dtype=np.int64)), {}


RECIPES = (
    Recipe(
        name="boyan-chain",
        summary="Walk down a chain by one or two states, seen through features that interpolate.",
        citation=(
            "Boyan: Technical Update: Least-Squares Temporal Difference Learning, Machine Learning 49, 2002"
        ),
        num_states=13,
        settings={"num_features": None, "num_states": 13},
        process=_process,
        features=lambda process: boyan_features(process.num_states),
    ),
)
