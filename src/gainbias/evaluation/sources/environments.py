"""An environment and a policy as a stream of transitions.

Gymnasium is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from gainbias.engine.seeds import stream as random_stream
from gainbias.evaluation.observations import Choice, observation_map
from gainbias.evaluation.sources.environments_opening import Environment, Opened, open_environments, open_some
from gainbias.evaluation.sources.environments_single import single_path
from gainbias.evaluation.sources.policies import Policy, acting
from gainbias.evaluation.sources.spaces import Limits, limits_of
from gainbias.evaluation.sources.vector import vector_paths
from gainbias.evaluation.stream.stream import (
    Beat,
    Left,
    OnTermination,
    Path,
    Stream,
    Timed,
    check_counts,
    check_on_termination,
    peeked,
)
from gainbias.evaluation.stream.stream_joining import transitions

PIECE_BYTES = 2**25
"""Observations of a piece take at most so much memory."""


def environment_stream(
    env: Environment,
    policy: Policy,
    *,
    features: Choice = "auto",
    copies: int | None = 1,
    seed: int = 0,
    on_termination: OnTermination = "zero",
    batch_size: int = 4096,
    beat: Beat = lambda steps: None,
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
    beat : callable
        Called with a number of steps, always after so many, for signs of life.

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
        opened = open_some(env, policy, stack) if copies is None else open_environments(env, copies, stack)
        limits = _numeric(opened.observation_space)
        size = max(1, min(batch_size, PIECE_BYTES // (8 * max(1, int(np.prod(limits.shape))))))
        paths = _vector_pieces if opened.is_vector else _single_pieces
        walk = paths(opened, policy, limits, size, seed, beat)
        source = Timed(_kept_open(walk, stack.pop_all(), opened.notes))
        first, pieces = peeked(source)
    observed = observation_map(limits, features, first.observations, on_termination)
    batches = transitions(pieces, observed, on_termination, opened.notes)
    return Stream(observed, batches, opened.num_chains, opened.notes, source)


def _numeric(space: Any) -> Limits:
    limits = limits_of(space)
    if limits is None:
        advice = "gymnasium.wrappers.FlattenObservation"
        if not space.is_np_flattenable:
            advice = "gymnasium.wrappers.TransformObservation, with a function that makes numbers of them"
        raise ValueError(
            f"observations must be numbers, discrete or in a box, found the space {space}: wrap the "
            f"environment in {advice}"
        )
    return limits


def _single_pieces(
    opened: Opened, policy: Policy, limits: Limits, size: int, seed: int, beat: Beat
) -> Iterator[Path]:
    paths = []
    for copy, env in enumerate(opened.envs):
        draw = random_stream(seed, "evaluate", f"copy {copy}")
        env_seed, action_seed = (int(number) for number in draw.integers(2**31, size=2))
        env.action_space.seed(action_seed)
        act = acting(policy, env.observation_space, env.action_space, draw)
        paths.append(single_path(env, act, limits, size, env_seed, copy, beat))
    return _in_turns(paths)


def _in_turns(paths: list[Iterator[tuple[Path, Exception | None]]]) -> Iterator[Path]:
    """Pass on pieces of all chains in turn; where one stops, all do, as Ctrl-C demands."""
    while True:
        for path in paths:
            piece, error = next(path)
            if len(piece):
                yield piece
            if error is not None:
                raise error


def _vector_pieces(
    opened: Opened, policy: Policy, limits: Limits, size: int, seed: int, beat: Beat
) -> Iterator[Path]:
    [envs] = opened.envs
    draw = random_stream(seed, "evaluate", "vector")
    env_seed, action_seed = (int(number) for number in draw.integers(2**31, size=2))
    envs.action_space.seed(action_seed)
    act = acting(policy, opened.observation_space, envs.action_space, draw, batched=True)
    return vector_paths(envs, act, limits, size, env_seed, beat)


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
