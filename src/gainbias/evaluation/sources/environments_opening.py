"""Environments of every form, opened: copied where they can be, without time limits, closed at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.sources.vector import autoreset_mode
from gainbias.tasks.gym.environments import installed_id, optional

USUAL_COPIES = 4

Environment: TypeAlias = "str | Any | Callable[[], Any]"


class NoCopiesError(ValueError):
    """Independent copies of an environment cannot be made."""


@dataclass(frozen=True, eq=False)
class Opened:
    """Environments ready to be stepped.

    Attributes
    ----------
    envs : tuple
        Copies of one environment, without time limits; or one vector environment.
    is_vector : bool
    observation_space, action_space : gymnasium.Space
        Of one copy.
    notes : list of str
        What was done to them, in words.
    """

    envs: tuple[Any, ...]
    is_vector: bool
    observation_space: Any
    action_space: Any
    notes: list[str]

    @property
    def num_chains(self) -> int:
        """Independent copies."""
        return int(self.envs[0].num_envs) if self.is_vector else len(self.envs)


def may_look(env: Environment, policy: Policy) -> bool:
    """Whether a policy may look at the environment it was given with: copies would mislead it."""
    is_made_here = isinstance(env, str | type) or not hasattr(env, "step")
    return not is_made_here and callable(policy) and not hasattr(policy, "predict")


def open_some(env: Environment, policy: Policy, stack: ExitStack) -> Opened:
    """Open the usual number of copies, or one."""
    if may_look(env, policy):
        opened = open_environments(env, 1, stack)
        if not opened.is_vector:
            opened.notes.append(
                "one chain, because the policy may look at the environment it was given with: for "
                "independent chains pass a function that makes environments, or chains=4"
            )
        return opened
    try:
        with ExitStack() as copies:
            opened = open_environments(env, USUAL_COPIES, copies)
            stack.push(copies.pop_all())
            return opened
    except NoCopiesError as error:
        opened = open_environments(env, 1, stack)
        if not opened.is_vector:
            opened.notes.append(f"one chain: {error}")
        return opened


def open_environments(env: Environment, copies: int, stack: ExitStack) -> Opened:
    """Make copies of an environment and take off their time limits; the stack undoes it all.

    An environment that was passed is used itself as the first copy. It is not closed, and its time limit is
    put back.
    """
    gymnasium = optional("gymnasium")
    notes: list[str] = []
    if isinstance(env, str):
        name = installed_id(env)
        if name != env:
            notes.append(f"{env} has no version: the newest, {name}, is used")
        made = [_made(gymnasium, name, stack) for _ in range(copies)]
    elif isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        made = [env]
    elif callable(env):
        made = [_closed_later(_made_by(env), stack)]
        if not isinstance(made[0], gymnasium.vector.VectorEnv):
            made += [_closed_later(_made_by(env), stack) for _ in range(copies - 1)]
        if len({id(one) for one in made}) < len(made):
            raise NoCopiesError("the function that makes environments must make a new one with each call")
    else:
        made = [env]
    for one in made:
        if not isinstance(one, gymnasium.Env | gymnasium.vector.VectorEnv):
            raise ValueError(
                "env must be a gymnasium environment, its id, a vector environment or a function that makes "
                f"one, found {type(one).__name__}"
            )
    if isinstance(made[0], gymnasium.vector.VectorEnv):
        return _opened_vector(made[0], copies, notes)
    made += [_copied(gymnasium, made[0], stack) for _ in range(copies - len(made))]
    envs = tuple(_without_time_limit(gymnasium, one, stack) for one in made)
    return _with_spaces(envs, False, "", notes)


def _opened_vector(envs: Any, copies: int, notes: list[str]) -> Opened:
    autoreset_mode(envs)
    if envs.num_envs < copies:
        raise NoCopiesError(f"the vector environment has {envs.num_envs} copies, {copies} are needed")
    return _with_spaces((envs,), True, "single_", notes)


def _with_spaces(envs: tuple[Any, ...], is_vector: bool, prefix: str, notes: list[str]) -> Opened:
    observed, acted = (getattr(envs[0], f"{prefix}{name}_space", None) for name in ("observation", "action"))
    for name, space in (("observation", observed), ("action", acted)):
        if space is None:
            raise ValueError(f"the environment has no {prefix}{name}_space, which Gymnasium prescribes")
    return Opened(envs, is_vector, observed, acted, notes)


def _made(gymnasium: Any, name_or_spec: Any, stack: ExitStack) -> Any:
    # Its own checks are switched off because each step is checked here.
    make = partial(gymnasium.make, name_or_spec, max_episode_steps=-1, disable_env_checker=True)
    return _closed_later(_made_by(make), stack)


def _made_by(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise ValueError(f"the environment could not be made: {type(error).__name__}: {error}") from error


def _closed_later(env: Any, stack: ExitStack) -> Any:
    if hasattr(env, "close"):
        stack.callback(env.close)
    return env


def _copied(gymnasium: Any, env: Any, stack: ExitStack) -> Any:
    """Return another environment like this one."""
    try:
        return _closed_later(deepcopy(env), stack)
    except Exception:  # it holds something that cannot be copied
        if env.spec is not None:
            return _made(gymnasium, env.spec, stack)
        raise NoCopiesError(
            f"{type(env).__name__} cannot be copied, and independent copies are needed: pass a function that "
            "makes one, such as lambda: MyEnv()"
        ) from None


def _without_time_limit(gymnasium: Any, env: Any, stack: ExitStack) -> Any:
    """Return an environment without its time limits; where one sits between wrappers, it is bridged."""
    limit = gymnasium.wrappers.TimeLimit
    while type(env) is limit:
        env = env.env
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if type(layer.env) is limit:
            stack.callback(setattr, layer, "env", layer.env)
            layer.env = layer.env.env
        else:
            layer = layer.env
    return env
