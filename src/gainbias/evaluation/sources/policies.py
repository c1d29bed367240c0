"""Policies of every form: `acting` returns each as a function from an observation to an action."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gainbias.evaluation.sources.spaces import Limits, limits_of


class Predictor(Protocol):
    """An agent with a method `predict`, as Stable-Baselines3 makes them."""

    def predict(self, observation: Any) -> Any:
        """Return an action and the state of the agent."""


Act: TypeAlias = Callable[[Any], Any]
Policy: TypeAlias = "Act | Predictor | ArrayLike | Literal['random']"


def acting(
    policy: Policy, observation_space: Any, action_space: Any, rng: np.random.Generator, batched: bool = False
) -> Act:
    """Return a policy as a function from an observation to an action.

    Parameters
    ----------
    policy : callable, object with a method predict, array_like or "random"
        A function from an observation to an action; an agent, whose ``predict(observation)`` returns an
        action and a state that is not used, and which is asked for its best action
        (``deterministic=True``) if it knows that choice; for discrete observations the action of each,
        (n,) integers, or the probability of each action, (n, A); or ``"random"``, every action of the space
        with the same probability.
    observation_space, action_space : gymnasium.Space
        Of one environment.
    rng : numpy.random.Generator
        Draws actions of arrays of probabilities.
    batched : bool
        Whether observations and actions are those of several environments, stacked. Functions and agents
        must then take them so. ``"random"`` samples from `action_space`, which must be that of all.

    Returns
    -------
    callable
    """
    if isinstance(policy, str):
        if policy != "random":
            raise ValueError(f"policy must be 'random', a function, an agent or an array, found {policy!r}")
        return lambda observation: action_space.sample()
    if callable(getattr(policy, "predict", None)):
        return _predicting(policy)
    if callable(policy):
        return policy
    limits = limits_of(observation_space)
    if limits is None or limits.shape or not limits.whole:
        raise ValueError(
            f"an array is a policy for discrete observations only, found {observation_space}: pass a function"
        )
    try:
        table = np.asarray(policy)
    except ValueError:
        raise ValueError("an array of a policy must have rows of the same length") from None
    return _looking_up(table, limits, limits_of(action_space), rng, batched)


def _predicting(agent: Any) -> Act:
    try:
        knows_best = "deterministic" in inspect.signature(agent.predict).parameters
    except ValueError:  # written in C
        knows_best = False
    options = {"deterministic": True} if knows_best else {}

    def act(observation: Any) -> Any:
        predicted = agent.predict(observation, **options)
        action, state = predicted if isinstance(predicted, tuple) else (predicted, None)
        if state is not None:
            raise ValueError(
                "the agent remembers what it saw (predict returned a state): pass a function that keeps that "
                "state, and note that values of observations alone do not describe such an agent"
            )
        return action

    return act


def _looking_up(
    table: NDArray[Any], observations: Limits, actions: Limits | None, rng: np.random.Generator, batched: bool
) -> Act:
    start = int(observations.low)
    size = int(observations.high) - start + 1
    if actions is None or not actions.whole or (actions.low.size != 1 and not batched):
        raise ValueError("an array is a policy for discrete actions only: pass a function")
    first = int(actions.low.flat[0])
    count = int(actions.high.flat[0]) - first + 1
    if table.shape == (size,) and table.dtype.kind in "iu":
        wrong = np.flatnonzero((table < first) | (table >= first + count))
        if len(wrong):
            raise ValueError(
                f"the policy takes action {table[wrong[0]]} at observation {start + wrong[0]}, actions must "
                f"be between {first} and {first + count - 1}"
            )
        chosen = table if batched else table.tolist()
        return lambda observation: chosen[observation - start]
    if table.shape == (size, count) and table.dtype.kind in "iuf":
        return _drawing(table, start, first, rng, batched)
    raise ValueError(
        f"policy must be integers of shape ({size},), an action for each observation, or have shape "
        f"({size}, {count}), the probability of each action, found shape {table.shape} and dtype "
        f"{table.dtype}"
    )


def _drawing(table: NDArray[Any], start: int, first: int, rng: np.random.Generator, batched: bool) -> Act:
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(~((table >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= 1e-8)))
    if len(wrong):
        raise ValueError(
            f"the probabilities of actions at observation {start + wrong[0]} are {table[wrong[0]]}, they "
            "must be at least 0 and sum to 1"
        )
    edges = np.cumsum(table, axis=1)
    edges = edges / edges[:, -1:]  # rounding leaves no room for an action of probability 0 at the end
    if batched:
        return lambda seen: first + (rng.random(len(seen))[:, None] >= edges[seen - start]).sum(axis=1)
    return lambda seen: first + int(edges[seen - start].searchsorted(rng.random(), side="right"))
