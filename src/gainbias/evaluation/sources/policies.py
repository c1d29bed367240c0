"""Policies of every form: `acting` returns each as a function from an observation to an action.

`_Agent` calls agents with a method `predict` and keeps their memory, and `_Module` calls PyTorch modules.
PyTorch is never imported here: a user who passes a module has imported it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gainbias.evaluation.sources.spaces import Limits, limits_of
from gainbias.types import Bools


class Predictor(Protocol):
    """An agent with a method `predict`, like those of Stable-Baselines3."""

    def predict(self, observation: Any) -> Any:
        """Return an action and the state of the agent."""


Act: TypeAlias = Callable[[Any], Any]
Policy: TypeAlias = "Act | Predictor | ArrayLike | Literal['random']"

PLAIN_TYPES = frozenset({int, float, np.ndarray, np.int64, np.int32, np.float64, np.float32, dict, tuple})
"""Types of actions that are passed on without a check."""


def acting(
    policy: Policy,
    observation_space: Any,
    action_space: Any,
    rng: np.random.Generator,
    batched: bool = False,
    deterministic: bool | None = None,
    notes: list[str] | None = None,
) -> Act:
    """Return a policy as a function from an observation to an action.

    Parameters
    ----------
    policy : callable, object with a method predict, array_like or "random"
        A function from an observation to an action, which may be a PyTorch tensor; a PyTorch module, see
        Notes; an agent, whose ``predict(observation)`` returns an action and perhaps its memory, which is
        passed back with the next observation; for discrete observations the action of each, (n,) integers, or
        the probability of each action, (n, A); or ``"random"``, every action of the space with the same
        probability.
    observation_space, action_space : gymnasium.Space
        Of one environment; for ``"random"`` the action space of all.
    rng : numpy.random.Generator
        Draws actions of arrays of probabilities, and of modules.
    batched : bool
        Whether observations and actions are those of several environments, stacked. Functions and agents
        must then accept stacked observations. ``"random"`` samples from `action_space`, which must be that
        of all.
    deterministic : bool, optional
        Whether agents and modules take their best action, by default true, or draw one. Other policies
        have no such choice.
    notes : list of str, optional
        Notes on how the policy was called are added here, in words.

    Returns
    -------
    callable
        With a method ``restart``, if the policy remembers something. It is called at the start of an
        episode: without an argument, or, for several environments, with those that start.

    Notes
    -----
    A module gets a batch of observations as tensors: boxes and binary observations as floats of the same
    type as its weights, discrete ones as integers. Its output is interpreted by its shape: integers are
    actions; for a box, floats of its shape are actions; for n discrete actions, n floats are logits, of which
    the largest is taken, or one is drawn by their softmax. Everything else is refused.
    """
    said = [] if notes is None else notes
    if not (deterministic is None or isinstance(deterministic, bool | np.bool_)):
        raise ValueError(f"deterministic must be True or False, found {deterministic!r}")
    deterministic = None if deterministic is None else bool(deterministic)  # NumPy has its own False
    if deterministic is not None and not has_choice(policy):
        raise ValueError(
            "deterministic is for agents with a method predict and for modules of PyTorch: other policies "
            "decide themselves how they act, so leave it out"
        )
    if isinstance(policy, str):
        if policy != "random":
            raise ValueError(f"policy must be 'random', a function, an agent or an array, found {policy!r}")
        return lambda observation: action_space.sample()
    if callable(getattr(policy, "predict", None)):
        return _Agent(policy, deterministic, said)
    if is_torch_module(policy):
        return _Module(
            policy, observation_space, action_space, rng, batched, deterministic is not False, said
        )
    if callable(policy):
        return _calling(policy)
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


def has_choice(policy: Policy) -> bool:
    """Whether a policy can be asked for its best action, or to draw one."""
    return callable(getattr(policy, "predict", None)) or is_torch_module(policy)


def is_torch_module(policy: Any) -> bool:
    """Whether this is a module of PyTorch, which then has been imported already."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(policy, torch.nn.Module)


def _calling(policy: Any) -> Act:
    def act(observation: Any) -> Any:
        action = policy(observation)
        return action if type(action) in PLAIN_TYPES else without_tensor(action)

    return act


def without_tensor(action: Any) -> Any:
    """Return an action as a NumPy array, if it is a PyTorch tensor."""
    return action.detach().cpu().numpy() if callable(getattr(action, "detach", None)) else action


def _say(notes: list[str], note: str) -> None:
    if note not in notes:  # of another chain
        notes.append(note)


class _Agent:
    """Gets actions from an agent, with its memory of the episode so far, if it has one.

    The methods `predict` of Stable-Baselines3 take the observation as the environment returns it, and
    reshape, scale and transpose it themselves.
    """

    def __init__(self, agent: Any, deterministic: bool | None, notes: list[str]) -> None:
        self._predict, self._notes = agent.predict, notes
        try:
            options = set(inspect.signature(agent.predict).parameters)
        except ValueError:  # written in C
            options = set()
        self._options: dict[str, Any] = {}
        self._has_memory = {"state", "episode_start"} <= options
        self._memory: Any = None
        self._starts: Bools = np.ones(1, dtype=np.bool_)
        if "deterministic" in options:
            self._options["deterministic"] = deterministic is not False
            _say(notes, _choice_of_agent(deterministic is not False))
        elif deterministic is not None:
            raise ValueError(
                "predict of the agent has no argument deterministic, so the agent decides how it acts: leave "
                "out deterministic"
            )
        if "action_masks" in options:
            _say(
                notes,
                "the agent can be told which actions are valid (action_masks), and was not: pass a function "
                "that calls predict with masks, if the environment has invalid actions",
            )

    def restart(self, starts: Bools | None = None) -> None:
        """Mark environments in which an episode starts, by default the only one."""
        self._starts = np.ones(1, dtype=np.bool_) if starts is None else starts

    def __call__(self, observation: Any) -> Any:
        if self._memory is None:
            predicted = self._predict(observation, **self._options)
        else:
            predicted = self._predict(
                observation, state=self._memory, episode_start=self._starts, **self._options
            )
        action, memory = predicted if isinstance(predicted, tuple) else (predicted, None)
        if memory is not None:
            if not self._has_memory:
                raise ValueError(
                    "the agent remembers what it saw (predict returned a state), but predict has no "
                    "arguments state and episode_start to give it back: pass a function that keeps that state"
                )
            if self._memory is None:
                _say(
                    self._notes,
                    "the agent remembers what it saw (predict returns a state), and was given its memory "
                    "back with each observation: the gain is right, the value of an observation is a mean "
                    "over what the agent may remember there",
                )
            self._memory = memory
            self._starts = np.zeros_like(self._starts)
        return action if type(action) in PLAIN_TYPES else without_tensor(action)


def _choice_of_agent(is_best: bool) -> str:
    if is_best:
        return "the agent takes its best action (deterministic=True); deterministic=False lets it draw one"
    return (
        "the agent draws its actions (deterministic=False) with its own random numbers, which the seed does "
        "not set"
    )


class _Module:
    """Gets actions from a PyTorch module."""

    def __init__(
        self,
        module: Any,
        observation_space: Any,
        action_space: Any,
        rng: np.random.Generator,
        batched: bool,
        takes_best: bool,
        notes: list[str],
    ) -> None:
        self._torch = sys.modules["torch"]
        self._module, self._rng, self._batched, self._takes_best = module, rng, batched, takes_best
        self._notes, self._space = notes, observation_space
        weight = next((one for one in module.parameters() if one.is_floating_point()), None)
        self._device = None if weight is None else weight.device
        self._type = self._torch.float32 if weight is None else weight.dtype
        limits = limits_of(action_space)
        if limits is None:
            raise ValueError(
                f"a module is a policy for actions that are numbers, found {action_space}: pass a function "
                "that turns the output of the module into actions"
            )
        self._shape = limits.shape[1:] if batched else limits.shape
        self._whole = limits.whole
        self._first = int(limits.low.flat[0]) if limits.whole else 0
        self._count = int(limits.high.flat[0]) - self._first + 1 if limits.whole and not self._shape else 0
        if module.training:
            _say(
                notes,
                "the module is in training mode, in which dropout and batch normalisation act at random: if "
                "it has them, call its method eval() first",
            )

    def __call__(self, observation: Any) -> Any:
        with self._torch.no_grad():
            output = self._module(self._tensors(observation, self._space))
        if not callable(getattr(output, "detach", None)):
            raise ValueError(
                f"the module returned {_in_words(output)}, a tensor is expected: pass a function that turns "
                "it into actions"
            )
        actions = self._actions(without_tensor(output))
        return actions if self._batched else actions[0]

    def _tensors(self, observation: Any, space: Any) -> Any:
        """Return observations as tensors, one as a batch of one."""
        if isinstance(observation, dict):
            return {key: self._tensors(part, space[key]) for key, part in observation.items()}
        if isinstance(observation, tuple):
            return tuple(self._tensors(part, space[place]) for place, part in enumerate(observation))
        limits = limits_of(space)
        if limits is None:
            raise ValueError(f"a module takes numbers, found the space {space}: pass a function")
        given = np.asarray(observation)
        names_things = limits.whole and not (limits.shape and limits.high.max() <= 1.0)
        return self._torch.as_tensor(
            given if self._batched else given[None],
            dtype=self._torch.int64 if names_things else self._type,
            device=self._device,
        )

    def _actions(self, output: NDArray[Any]) -> NDArray[Any]:
        """Return actions, (m, ...), by the shape of what the module returned."""
        inner = output.shape[1:]
        if output.dtype.kind in "iu" and self._whole and inner == self._shape:
            return output
        if not self._whole and inner == self._shape and output.dtype.kind == "f":
            return output
        if self._count and output.dtype.kind == "f" and inner == (self._count,):
            _say(
                self._notes,
                f"the {self._count} outputs of the module are taken for logits: "
                + (
                    "the largest is chosen (deterministic=True)"
                    if self._takes_best
                    else "an action is drawn by their softmax (deterministic=False)"
                ),
            )
            if self._takes_best:
                return np.asarray(self._first + output.argmax(axis=1))
            noise = self._rng.gumbel(size=output.shape)
            return np.asarray(self._first + (output.astype(np.float64) + noise).argmax(axis=1))
        expected = f"{self._count} logits or an integer" if self._count else f"shape {self._shape}"
        raise ValueError(
            f"the module returned {output.dtype} of shape {output.shape}, for each observation {expected} is "
            "expected: pass a function that turns it into actions"
        )


def _in_words(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"an object {type(value).__name__}"


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
    edges = edges / edges[:, -1:]  # rounding must not let an action of probability 0 be drawn
    if batched:
        return lambda seen: first + (rng.random(len(seen))[:, None] >= edges[seen - start]).sum(axis=1)
    return lambda seen: first + int(edges[seen - start].searchsorted(rng.random(), side="right"))
