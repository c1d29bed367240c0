"""An environment and a policy as a stream of transitions.

Gymnasium is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gainbias.engine.seeds import stream as random_stream
from gainbias.evaluation.environments_single import single_path
from gainbias.evaluation.environments_vector import autoreset_mode, vector_paths
from gainbias.evaluation.observations import Choice, observation_map
from gainbias.evaluation.policies import Policy, acting
from gainbias.evaluation.spaces import Limits, limits_of
from gainbias.evaluation.stream import (
    Left,
    OnTermination,
    Path,
    Stream,
    Timed,
    check_counts,
    check_on_termination,
    peeked,
)
from gainbias.evaluation.stream_joining import transitions
from gainbias.tasks.environments import installed_id, optional

USUAL_COPIES = 4

PIECE_BYTES = 2**25
"""Observations of a piece take at most so much memory."""

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


def environment_stream(
    env: Environment,
    policy: Policy,
    *,
    features: Choice = "auto",
    copies: int | None = 1,
    seed: int = 0,
    on_termination: OnTermination = "zero",
    batch_size: int = 4096,
) -> Stream:
    """Follow a policy in an environment for ever.

    Parameters
    ----------
    env : gymnasium.Env, str, gymnasium.vector.VectorEnv or callable
        An environment, its id, a vector environment, whose copies are the chains, or a function without
        arguments that makes one of these.
    policy : callable, object with a method predict, array_like or "random"
        See `acting`. For a vector environment a function is given the observations of all copies.
    features : {"auto"}, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        See `observation_map`.
    copies : int or None
        Independent chains, seeded each on its own. They take turns, so a policy that remembers something
        would mix them up. ``None`` for `USUAL_COPIES`, or one where they cannot be made.
    seed : int
        Of the environment, of random actions and of drawn ones. Same seed, same stream, as far as the
        environment and the policy take all their random numbers from Gymnasium's generators.
    on_termination : {"zero", "reward"}
        With ``"zero"`` the end of an episode leads to the start of the next by a step with reward 0, so every
        episode has one step more. With ``"reward"`` the last step of the episode, with its reward, leads to
        the start of the next.
    batch_size : int
        Steps of each chain in a batch; fewer if observations are large.

    Returns
    -------
    Stream
        The first batch is made at once, the others when they are asked for.

    Examples
    --------
    >>> stream = environment_stream("FrozenLake-v1", "random", batch_size=100)
    >>> batch = next(stream.batches)
    >>> len(batch) > 100, stream.observed.description
    (True, 'tabular: a state for each of 16 observations, and one for ends')
    >>> stream.close()
    """
    check_on_termination(on_termination)
    check_counts(copies=1 if copies is None else copies, batch_size=batch_size)
    with ExitStack() as stack:
        opened = _opened_some(env, policy, stack) if copies is None else open_environments(env, copies, stack)
        limits = _numeric(opened.observation_space)
        size = max(1, min(batch_size, PIECE_BYTES // (8 * max(1, int(np.prod(limits.shape))))))
        paths = _vector_pieces if opened.is_vector else _single_pieces
        walk = paths(opened, policy, limits, size, seed)
        source = Timed(_kept_open(walk, stack.pop_all(), opened.notes))
        first, pieces = peeked(source)
    observed = observation_map(limits, features, first.observations, on_termination)
    batches = transitions(pieces, observed, on_termination, opened.notes)
    return Stream(observed, batches, opened.num_chains, opened.notes, source)


def may_look(env: Environment, policy: Policy) -> bool:
    """Whether a policy may look at the environment it was given with: copies would mislead it."""
    is_made_here = isinstance(env, str | type) or not hasattr(env, "step")
    return not is_made_here and callable(policy) and not hasattr(policy, "predict")


def _opened_some(env: Environment, policy: Policy, stack: ExitStack) -> Opened:
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
        name = installed_id(env) if ":" not in env else env
        if name != env:
            notes.append(f"there is no {env}: {name} is used instead")
        made = [_made(gymnasium, name, stack) for _ in range(copies)]
    elif isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        made = [env]
    elif callable(env):
        made = [_closed_later(env(), stack)]
        if not isinstance(made[0], gymnasium.vector.VectorEnv):
            made += [_closed_later(env(), stack) for _ in range(copies - 1)]
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
    return Opened(envs, False, envs[0].observation_space, envs[0].action_space, notes)


def _opened_vector(envs: Any, copies: int, notes: list[str]) -> Opened:
    autoreset_mode(envs)
    if envs.num_envs < copies:
        raise NoCopiesError(f"the vector environment has {envs.num_envs} copies, {copies} are needed")
    return Opened((envs,), True, envs.single_observation_space, envs.single_action_space, notes)


def _made(gymnasium: Any, name_or_spec: Any, stack: ExitStack) -> Any:
    # Its own checks are switched off because each step is checked here.
    return _closed_later(gymnasium.make(name_or_spec, max_episode_steps=-1, disable_env_checker=True), stack)


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


def _numeric(space: Any) -> Limits:
    limits = limits_of(space)
    if limits is None:
        raise ValueError(
            f"observations must be numbers, discrete or in a box, found the space {space}: wrap the "
            "environment in gymnasium.wrappers.FlattenObservation"
        )
    return limits


def _single_pieces(opened: Opened, policy: Policy, limits: Limits, size: int, seed: int) -> Iterator[Path]:
    paths = []
    for copy, env in enumerate(opened.envs):
        draw = random_stream(seed, "evaluate", f"copy {copy}")
        env_seed, action_seed = (int(number) for number in draw.integers(2**31, size=2))
        env.action_space.seed(action_seed)
        act = acting(policy, env.observation_space, env.action_space, draw)
        paths.append(single_path(env, act, limits, size, env_seed, copy))
    return _in_turns(paths)


def _in_turns(paths: list[Iterator[Path]]) -> Iterator[Path]:
    while True:
        for path in paths:
            yield next(path)


def _vector_pieces(opened: Opened, policy: Policy, limits: Limits, size: int, seed: int) -> Iterator[Path]:
    [envs] = opened.envs
    draw = random_stream(seed, "evaluate", "vector")
    env_seed, action_seed = (int(number) for number in draw.integers(2**31, size=2))
    envs.action_space.seed(action_seed)
    act = acting(policy, opened.observation_space, envs.action_space, draw, batched=True)
    return vector_paths(envs, act, limits, size, env_seed)


def _kept_open(pieces: Iterator[Path], stack: ExitStack, notes: list[str]) -> Iterator[Path]:
    """Pass on pieces, note the first cut, and close everything at the end."""
    with stack:
        cut_before = False
        for piece in pieces:
            if not cut_before and (piece.left == Left.BY_CUT).any():
                cut_before = True
                notes.append(
                    "the environment cuts episodes (truncated): no transition leads across a cut, but after "
                    "each the chain starts again, so the answer leans towards starts if cuts are frequent"
                )
            yield piece
