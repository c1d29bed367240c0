"""An environment and a policy as a stream of transitions.

Start with `environment_stream`. It works in three steps: `open_environments` opens an environment of any
form, copies it if possible and removes time limits; `_Walk` steps one environment, records its
path in pieces, and says in which step something went wrong; `single_paths` lets all copies take turns.

Gymnasium is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gainbias.engine.streams import stream as random_stream
from gainbias.evaluation.observations import (
    Choice,
    NoFeaturesError,
    ObservationMap,
    check_automatic,
    observation_map,
    unseen_texts,
)
from gainbias.evaluation.sources.policies import Act, Policy, acting, is_torch_module
from gainbias.evaluation.sources.spaces import (
    ONE_STATE,
    BlindRecorder,
    Flaw,
    FreeRecorder,
    Limits,
    Recorder,
    Wrong,
    first_wrong_duration,
    limits_of,
    observation_limits,
    real_numbers,
)
from gainbias.evaluation.sources.vector import (
    BaselinesVector,
    autoreset_mode,
    is_baselines_vector,
    no_duration,
    normalizing_layers,
    vector_paths,
)
from gainbias.evaluation.stream import (
    BEAT,
    STEP,
    Beat,
    BrokenStream,
    Interrupted,
    Left,
    OnTermination,
    Path,
    Stream,
    Timed,
    check_counts,
    check_on_termination,
    peeked,
    transitions,
)
from gainbias.extras import optional
from gainbias.progress import OutOfTimeError
from gainbias.tasks.gym.installed import installed_id
from gainbias.types import Floats

USUAL_COPIES = 4
"""Copies of an environment, unless the user gives another number."""

Environment: TypeAlias = "str | Any | Callable[[], Any]"

SHARE_OF_A_TURN = 16
"""Environments that take turns take at most a sixteenth of the steps so far at once."""

SLOW_SECONDS = 0.1
"""Seconds. If the steps between two calls of `beat` take longer, it is called after each step."""

PIECE_BYTES = 2**25
"""Most bytes of the observations of a piece."""


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
    deterministic: bool | None = None,
    duration: str | None = None,
) -> Stream:
    """Return the endless stream of transitions of a policy in an environment.

    Parameters
    ----------
    env : gymnasium.Env, str, gymnasium.vector.VectorEnv, VecEnv or callable
        An environment, its id, a vector environment of Gymnasium or Stable-Baselines3, whose copies are the
        chains, or a function without arguments that makes one of these.
    policy : callable, object with a method predict, array_like or "random"
        See `acting`. For a vector environment a function is given the observations of all copies.
    features : {"auto"}, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        See `observation_map`.
    copies : int or None
        Independent chains, each with its own seed. They take turns, so a policy that remembers something
        would mix them up. ``None`` for `USUAL_COPIES`, or one if copies cannot be made.
    seed : int
        Of the environment, of random actions and of drawn ones. The same seed gives the same stream if
        the environment and the policy take all their random numbers from Gymnasium's generators.
    on_termination : {"zero", "reward"}
        With ``"zero"`` the end of an episode leads to the start of the next by a step with reward 0, so every
        episode has one more step. With ``"reward"`` the last step of the episode, with its reward, leads to
        the start of the next.
    batch_size : int
        Steps of each chain in a batch; fewer if observations are large.
    beat : callable
        Called now and then with the number of steps taken since the last call.
    deterministic : bool, optional
        See `acting`.
    duration : str, optional
        Key of the dictionary that ``step`` returns under which it says how long the step took.

    Returns
    -------
    Stream
        The first batch is made at once, the others on demand. If no features can be chosen for the
        observations, the stream has no states, and a note says why: the answer is then the gain alone.

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
        limits, why = _seen_limits(opened.observation_space, features)
        length = 1 if limits is None else int(np.prod(limits.shape))
        size = max(1, min(batch_size, PIECE_BYTES // (8 * max(1, length))))
        prepared = partial(_prepared, opened, policy, seed, deterministic)
        if opened.is_vector:
            act, first_seed = prepared(opened.envs[0], "vector")
            walk = vector_paths(opened.envs[0], act, limits, size, first_seed, beat, duration)
        else:
            walks, seeds = [], []
            for copy, one in enumerate(opened.envs):
                act, first_seed = prepared(one, f"copy {copy}")
                walks.append(_Walk(one, act, limits, size, beat, duration))
                seeds.append(first_seed)
            walk = single_paths(walks, seeds, size)
        source = Timed(_kept_open(walk, stack.pop_all(), opened.notes))
        first, pieces = peeked(source)
    if limits is None:
        opened.notes.append(f"the answer is the gain alone, without values: {why}")
        observed = ObservationMap(f"none: {why}", 1, ONE_STATE, states=_nowhere)
    else:
        observed = observation_map(limits, features, first.observations, on_termination)
        opened.notes.extend(unseen_texts(observed))
    batches = transitions(pieces, observed, on_termination, opened.notes)
    return Stream(
        observed,
        batches,
        opened.num_chains,
        opened.notes,
        source,
        has_states=limits is not None,
        per=STEP if duration is None else f"unit of {duration!r}",
    )


def _nowhere(seen: Any) -> Any:
    return np.zeros(len(seen), dtype=np.int64)


def _seen_limits(space: Any, features: Choice) -> tuple[Limits | None, str]:
    """Return the limits of observations, or ``None`` and the reason why no values can be learned for them."""
    limits = observation_limits(space)
    if limits is None:
        why = (
            f"observations are not numbers, found the space {space}; wrap the environment in "
            "gymnasium.wrappers.TransformObservation, with a function that makes numbers of them"
        )
        if features != "auto":
            raise ValueError(why)
        return None, why
    try:
        check_automatic(limits, features)
    except NoFeaturesError as error:
        return None, str(error)
    return limits, ""


def _prepared(
    opened: Opened, policy: Policy, seed: int, deterministic: bool | None, env: Any, name: str
) -> tuple[Act, int]:
    """Return how the policy acts in one of the environments, and the seed with which to reset that."""
    draw = random_stream(seed, "evaluate", name)
    env_seed, action_seed = (int(number) for number in draw.integers(2**31, size=2))
    env.action_space.seed(action_seed)
    act = acting(
        policy,
        opened.observation_space,
        env.action_space,
        draw,
        batched=opened.is_vector,
        deterministic=deterministic,
        notes=opened.notes,
    )
    return act, env_seed


def single_paths(walks: list[_Walk], seeds: list[int], size: int) -> Iterator[Path]:
    """Step several environments forever, and yield pieces of `size` steps of each in turn.

    They take turns, a few steps each, so that none is far behind when the run is stopped: at most about a
    sixteenth of its steps. How many steps these are depends only on the number of steps so far, so the
    same seeds give the same run. If one stops, all do, as after Ctrl-C.


    Raises
    ------
    BrokenStream, OutOfTimeError
        After last pieces with everything before the failure.
    """
    for walk, seed in zip(walks, seeds, strict=True):
        walk.begin(seed)
    total = 0
    while True:
        made = 0
        while made < size:
            count = min(size - made, BEAT, max(1, total // SHARE_OF_A_TURN))
            if any(walk.advance(count) is not None for walk in walks):
                break
            made, total = made + count, total + count
        taken = [walk.take(chain) for chain, walk in enumerate(walks)]
        yield from (piece for piece, _ in taken if len(piece))
        for _, error in taken:
            if error is not None:
                raise error


def _kept_open(pieces: Iterator[Path], stack: ExitStack, notes: list[str]) -> Iterator[Path]:
    """Pass on pieces, note the first cut, and close everything at the end."""
    with stack:
        cut_before = False
        for piece in pieces:
            if not cut_before and (piece.left == Left.BY_CUT).any():
                cut_before = True
                notes.append(
                    "the environment cuts episodes (truncated): no transition leads across a cut, but after "
                    "each the chain starts again, so starts weigh too much in the answer if cuts are frequent"
                )
            yield piece


class NoCopiesError(ValueError):
    """Independent copies of an environment cannot be made."""


@dataclass(frozen=True, eq=False)
class Opened:
    """Environments that are ready to be stepped.

    Attributes
    ----------
    envs : tuple
        Copies of one environment, without time limits; or one vector environment.
    is_vector : bool
    observation_space, action_space : gymnasium.Space
        Of one copy.
    notes : list of str
        How they were changed, in words.
    """

    envs: tuple[Any, ...]
    is_vector: bool
    observation_space: Any
    action_space: Any
    notes: list[str]

    @property
    def num_chains(self) -> int:
        """Number of independent copies."""
        return int(self.envs[0].num_envs) if self.is_vector else len(self.envs)


def may_look(env: Environment, policy: Policy) -> bool:
    """Whether a policy may look at the environment it came with; copies would mislead it."""
    is_made_here = isinstance(env, str | type) or not hasattr(env, "step")
    is_function = callable(policy) and not hasattr(policy, "predict") and not is_torch_module(policy)
    return not is_made_here and is_function


def open_some(env: Environment, policy: Policy, stack: ExitStack) -> Opened:
    """Open the usual number of copies of an environment, or one if copies are not possible."""
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
    """Open copies of an environment without time limits; `stack` closes them and puts limits back.

    An environment that was passed is used itself as the first copy. It is not closed, and its time limit is
    put back.
    """
    gymnasium = optional("gymnasium")
    notes: list[str] = []
    vectors = gymnasium.vector.VectorEnv | BaselinesVector
    if isinstance(env, str):
        name = installed_id(env)
        if name != env:
            notes.append(f"{env} has no version: the newest, {name}, is used")
        made = [_made(gymnasium, name, stack) for _ in range(copies)]
    elif isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        made = [env]
    elif is_baselines_vector(env):
        made = [_opened_baselines(env, stack, notes)]
    elif callable(env):
        made = [_closed_later(_made_by(env), stack)]
        if is_baselines_vector(made[0]):
            made = [_opened_baselines(made[0], stack, notes)]
        elif not isinstance(made[0], gymnasium.vector.VectorEnv):
            made += [_closed_later(_made_by(env), stack) for _ in range(copies - 1)]
        if len({id(one) for one in made}) < len(made):
            raise NoCopiesError("the function that makes environments must make a new one with each call")
    else:
        made = [env]
    for one in made:
        if not isinstance(one, gymnasium.Env | vectors):
            raise ValueError(
                "env must be a gymnasium environment, its id, a vector environment or a function that makes "
                f"one, found {type(one).__name__}"
            )
    if isinstance(made[0], vectors):
        return _opened_vector(made[0], copies, notes)
    made += [_copied(gymnasium, made[0], stack) for _ in range(copies - len(made))]
    envs = tuple(_without_time_limit(gymnasium, one, stack) for one in made)
    return _with_spaces(envs, False, "", notes)


def _opened_baselines(envs: Any, stack: ExitStack, notes: list[str]) -> BaselinesVector:
    """Return a vector environment of Stable-Baselines3; normalising layers then pay unnormalised rewards."""
    for layer in normalizing_layers(envs):
        words = []
        for name, done in (
            ("norm_reward", "rewards are taken as the environment pays them, not normalised"),
            ("training", "the means and variances by which it normalises are left as they are"),
        ):
            if getattr(layer, name):
                stack.callback(setattr, layer, name, getattr(layer, name))
                setattr(layer, name, False)
                words.append(f"{done} ({name}=False)")
        if words:
            notes.append(f"{type(layer).__name__}, for the time of this run: {'; '.join(words)}")
    return BaselinesVector(envs)


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
    """Return a copy of an environment."""
    try:
        return _closed_later(deepcopy(env), stack)
    except Exception:  # it contains something that cannot be copied
        if env.spec is not None:
            return _made(gymnasium, env.spec, stack)
        raise NoCopiesError(
            f"{type(env).__name__} cannot be copied, and independent copies are needed: pass a function that "
            "makes one, such as lambda: MyEnv()"
        ) from None


def _without_time_limit(gymnasium: Any, env: Any, stack: ExitStack) -> Any:
    """Return an environment without its time limits, including those between its wrappers."""
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


class _Walk:
    """Steps one environment, and records what happens row by row, from piece to piece.

    Observations, actions and rewards are recorded unchecked where that is safe, and checked a piece at a
    time. A cut takes an extra row, for the observation after which nothing follows.

    Parameters
    ----------
    env : gymnasium.Env
        Reset with the seed at first, and without one after each episode, as Gymnasium prescribes.
    act : callable
        The policy.
    limits : Limits or None
        Of observations; ``None`` if they are not used.
    size : int
        Steps in each piece, at most.
    beat : callable
        Called with the number of steps made since the last call; it may raise `OutOfTimeError`.
    duration : str or None
        Key of the dictionary that a step returns under which it says how long it took.
    """

    def __init__(
        self, env: Any, act: Act, limits: Limits | None, size: int, beat: Beat, duration: str | None
    ) -> None:
        self.env, self.act, self.beat, self.duration = env, act, beat, duration
        self.durations: list[Any] = []
        self.restart = getattr(act, "restart", None)
        self.seen = BlindRecorder() if limits is None else Recorder(limits, 2 * size)
        of_actions = limits_of(env.action_space)
        self.done = FreeRecorder(env.action_space) if of_actions is None else Recorder(of_actions, 2 * size)
        self.rewards: list[Any] = []
        self.ends: list[int] = []
        self.cuts: list[int] = []
        self.steps_before, self.rhythm = 0, 1
        self.observation: Any = None
        self.stop: Exception | None = None

    def begin(self, seed: int) -> None:
        """Reset the environment before the first step."""
        try:
            self.start(seed)
        except BrokenStream:
            raise
        except Exception as error:
            raise BrokenStream(self._what_failed(error)) from error

    def start(self, seed: int | None = None) -> None:
        """Reset the environment, and keep its first observation."""
        result = self.env.reset() if seed is None else self.env.reset(seed=seed)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise BrokenStream(
                "reset of the environment must return an observation and a dictionary, found "
                f"{_shortly(result)}: it is written for an old version of gym"
            )
        self.observation = result[0]
        if self.restart is not None:
            self.restart()

    def advance(self, steps: int) -> Exception | None:
        """Take some steps; return what stopped them, if anything did."""
        try:
            made = 0
            while made < steps:
                count, begun = min(self.rhythm, steps - made), time.perf_counter()
                self._make_steps(count)
                made += count
                self.rhythm = 1 if time.perf_counter() - begun > SLOW_SECONDS else min(BEAT, 2 * self.rhythm)
                self.beat(count)
        except (BrokenStream, OutOfTimeError) as error:
            self.stop = error
        except KeyboardInterrupt:
            self.stop = Interrupted()
        except Exception as error:
            self.stop = BrokenStream(self._what_failed(error))
            self.stop.__cause__ = None if isinstance(error, Wrong) else error
        return self.stop

    def take(self, chain: int) -> tuple[Path, Exception | None]:
        """Return the path since the last call up to the first flaw, and what is wrong there."""
        observations, wrong_observation = self.seen.take()
        wrong_action = self.done.take()[1]
        rewards, wrong_reward = real_numbers(self.rewards)
        durations, wrong_duration = self._take_durations()
        size = min(len(observations), len(rewards))
        flaws = [
            (flaw.place, text.format(step=self._step(flaw.place), what=flaw.what))
            for flaw, text in (
                (wrong_observation, "the observation before step {step} is {what}"),
                (wrong_action, "the policy chose {what}, in step {step}"),
                (wrong_reward, "the reward of step {step} is {what}"),
                (wrong_duration, "the duration of step {step} is {what}"),
            )
            if flaw is not None
        ]
        if flaws:  # they come before the step that failed, or are its reason
            place, text = min(flaws)
            size = min(size, place)
            reason = None if self.stop is None else self.stop.__cause__
            self.stop = BrokenStream(text)
            self.stop.__cause__ = reason
        left = np.zeros(len(self.rewards), dtype=np.int8)
        left[self.ends] = Left.BY_END
        left[self.cuts] = Left.BY_CUT
        self.steps_before = self._step(len(self.rewards))
        for record in (self.rewards, self.ends, self.cuts):
            record.clear()
        durations = None if durations is None else durations[:size]
        return Path(observations[:size], rewards[:size], left[:size], chain, durations), self.stop

    def _take_durations(self) -> tuple[Floats | None, Flaw | None]:
        """Return how long each row took, 0 for that of a cut, and the first wrong duration."""
        if self.duration is None:
            return None, None
        numbers, flaw = real_numbers(self.durations[: len(self.rewards) - len(self.cuts)], False)
        self.durations.clear()
        behind = np.array(self.cuts, dtype=np.int64) - np.arange(len(self.cuts))
        if flaw is None:
            rows = np.insert(numbers, behind, 0.0)
            return rows, first_wrong_duration(rows)
        return np.insert(numbers, behind[behind <= len(numbers)], 0.0), Flaw(
            flaw.place + int(np.count_nonzero(behind <= flaw.place)), flaw.what
        )

    def _timed_step(self, action: Any) -> Any:
        """Take a step, and record how long it took."""
        result = self.env.step(action)
        if isinstance(result, tuple) and len(result) == 5:
            try:
                self.durations.append(result[4][self.duration])
            except (KeyError, TypeError):
                raise BrokenStream(
                    no_duration(self.duration, self._step(len(self.rewards)), result[4])
                ) from None
        return result

    def _make_steps(self, count: int) -> None:
        env_step, act = self.env.step if self.duration is None else self._timed_step, self.act
        see, do, rewards = self.seen.put, self.done.put, self.rewards
        for _ in range(count):
            observation = self.observation
            see(observation)
            action = act(observation)
            do(action)
            result = env_step(action)
            try:
                self.observation, reward, terminated, truncated, _ = result
            except (TypeError, ValueError):
                raise BrokenStream(_not_five(result, self._step(len(rewards)))) from None
            rewards.append(reward)
            if terminated:
                self.ends.append(len(rewards) - 1)
                self.start()
            elif truncated:
                see(self.observation)
                do(action)
                rewards.append(0.0)
                self.cuts.append(len(rewards) - 1)
                self.start()

    def _step(self, row: int) -> int:
        """Return the number of the step that leads out of a row, counted from 0."""
        return self.steps_before + row - sum(cut < row for cut in self.cuts)

    def _what_failed(self, error: Exception) -> str:
        step = self._step(len(self.rewards))
        acted = len(self.done) == len(self.seen)
        if isinstance(error, Wrong):
            return (
                f"the observation before step {step} is {error}"
                if acted
                else f"the policy chose {error}, in step {step}"
            )
        named = f"{type(error).__name__}: {error}"
        if not acted:
            return f"the policy failed in step {step}: {named}"
        if len(self.rewards) < len(self.done):
            return f"the environment failed in step {step}: {named}"
        return f"the environment failed at its reset before step {step}: {named}"


def _not_five(result: Any, step: int) -> str:
    old = isinstance(result, tuple) and len(result) == 4
    return (
        f"step of the environment must return five values, found {_shortly(result)} in step {step}: "
        + ("it is written for an old version of gym, " if old else "")
        + "Gymnasium expects observation, reward, terminated, truncated and a dictionary"
    )


def _shortly(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
