"""Paths of the copies inside a vector environment, in pieces, however it resets them.

Start with `vector_paths`. Vector environments of Stable-Baselines3 are wrapped in `BaselinesVector`, which
gives them Gymnasium's interface.

Gymnasium knows three ways. After the end of an episode NEXT_STEP returns its last observation, and uses the
next call for a reset, whose action and reward mean nothing. SAME_STEP resets within the step: it returns the
first observation of the next episode, and the last of the old one in ``infos["final_obs"]``. DISABLED leaves
the reset to the caller, who says which copies need one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.policies import Act
from gainbias.evaluation.sources.spaces import (
    ANY_REWARD,
    ONE_STATE,
    Flaw,
    Limits,
    Wrong,
    first_flaw,
    first_wrong_duration,
    limits_of,
    not_a_number,
    observation_rows,
)
from gainbias.evaluation.stream import BEAT, Beat, BrokenStream, Interrupted, Left, Path
from gainbias.extras import optional
from gainbias.progress import OutOfTimeError
from gainbias.types import Bools, Floats


def vector_paths(
    envs: Any,
    act: Act,
    limits: Limits | None,
    size: int,
    seed: int,
    beat: Beat,
    duration: str | None = None,
) -> Iterator[Path]:
    """Step a vector environment forever, and yield the paths of its copies in pieces.

    Parameters
    ----------
    envs : gymnasium.vector.VectorEnv
        Reset with the seed at first; it gives each of its copies its own seed.
    act : callable
        The policy, from the observations of all copies to their actions.
    limits : Limits or None
        Of observations of one copy; ``None`` if they are not looked at.
    size : int
        Calls of step in each piece.
    seed : int
    beat : callable
        Called with the number of steps made since the last call; it may raise `OutOfTimeError`.
    duration : str, optional
        Key of the dictionary that a step returns under which it says how long it took.

    Yields
    ------
    Path
        A piece of each copy in turn.

    Raises
    ------
    BrokenStream
        After last pieces with what came before.
    """
    walk = _VectorWalk(envs, act, limits, seed, duration)
    while True:
        paths, error = walk.pieces(size, beat)
        yield from paths
        if error is not None:
            raise error


def autoreset_mode(envs: Any) -> str:
    """Return the name of the mode in which a vector environment resets its copies."""
    modes = optional("gymnasium").vector.AutoresetMode
    given = envs.metadata.get("autoreset_mode")
    try:
        return str(modes(given).name)
    except ValueError:
        raise ValueError(
            f"the vector environment must say in metadata['autoreset_mode'] how it resets, found {given!r}: "
            f"one of {', '.join(str(mode) for mode in modes)}"
        ) from None


def is_baselines_vector(env: Any) -> bool:
    """Whether this is a vector environment like those of Stable-Baselines3, a ``VecEnv``."""
    names = ("num_envs", "step_async", "step_wait", "seed", "observation_space", "action_space")
    return all(hasattr(env, name) for name in names) and not hasattr(env, "single_observation_space")


OF_EACH = "infos of each copy"
"""Key of the dictionaries of all copies, each about the step of that copy."""


class BaselinesVector:
    """A vector environment of Stable-Baselines3 with the interface of Gymnasium's.

    Its ``step`` returns four values, its ``reset`` one, and it resets copies within the step: the last
    observation of an episode is in ``infos[k]["terminal_observation"]``, and
    ``infos[k]["TimeLimit.truncated"]`` tells a cut from an end.

    Parameters
    ----------
    envs : stable_baselines3.common.vec_env.VecEnv
        Written for version 2.9.2.
    """

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        gymnasium = optional("gymnasium")
        self.num_envs = int(envs.num_envs)
        self.single_observation_space = _without_bounds(
            envs.observation_space, list(normalizing_layers(envs))
        )
        self.single_action_space = envs.action_space
        self.action_space = gymnasium.vector.utils.batch_space(envs.action_space, self.num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        """Seed all copies, and return their first observations and an empty dictionary."""
        self._envs.seed(seed)
        return self._envs.reset(), {}

    def step(self, actions: Any) -> Any:
        """Return observations, rewards, what ended, what was cut, and last observations."""
        result = self._envs.step(np.asarray(actions))
        if not (isinstance(result, tuple) and len(result) == 4):
            return result
        observations, rewards, dones, infos = result
        over = np.asarray(dones, dtype=np.bool_)
        limited = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos], dtype=np.bool_)
        finals = np.empty(self.num_envs, dtype=np.object_)
        for k in np.flatnonzero(over & limited):
            finals[k] = infos[k].get("terminal_observation")
        told = {"final_obs": finals, OF_EACH: infos}
        return observations, rewards, over & ~limited, over & limited, told


def normalizing_layers(envs: Any) -> Iterator[Any]:
    """Yield the layers of a vector environment of Stable-Baselines3 that normalise rewards or still learn."""
    layer = envs
    while layer is not None:
        if hasattr(layer, "norm_reward") and hasattr(layer, "training"):
            yield layer
        layer = getattr(layer, "venv", None)


def _without_bounds(space: Any, layers: list[Any]) -> Any:
    """Return a space of observations; its boxes have no bounds where layers normalise, but do not say so."""
    spaces = optional("gymnasium").spaces
    for layer in layers:
        if not getattr(layer, "norm_obs", False):
            continue
        if isinstance(space, spaces.Dict):
            kept = {key: space[key] for key in space if key not in layer.norm_obs_keys}
            free = {key: _unbounded(space[key]) for key in space if key in layer.norm_obs_keys}
            space = spaces.Dict(kept | free)
        else:
            space = _unbounded(space)
    return space


def _unbounded(space: Any) -> Any:
    return optional("gymnasium").spaces.Box(-np.inf, np.inf, space.shape, np.float32)


class _Call(NamedTuple):
    """What one call of step did, in all n copies."""

    observations: NDArray[Any]
    actions: Any
    rewards: NDArray[Any]
    ended: Bools
    cut: Bools
    finals: NDArray[Any]  # with the last observation of every episode that was cut
    resets: Bools  # copies in which the call was a reset
    durations: Floats | None  # 0 where the call was a reset


class _VectorWalk:
    """Steps a vector environment, from piece to piece."""

    def __init__(self, envs: Any, act: Act, limits: Limits | None, seed: int, duration: str | None) -> None:
        self.envs, self.act, self.duration = envs, act, duration
        self.limits, self.is_blind = limits or ONE_STATE, limits is None
        self.restart = getattr(act, "restart", None)
        self.mode = autoreset_mode(envs)
        self.action_limits = limits_of(envs.single_action_space)
        self.num_calls = 0
        self.resets: Bools = np.zeros(envs.num_envs, dtype=np.bool_)
        self.given: Any = None
        self.observations = self._reset({"seed": seed})
        if self.restart is not None:
            self.restart(np.ones(envs.num_envs, dtype=np.bool_))

    def pieces(self, size: int, beat: Beat) -> tuple[list[Path], Exception | None]:
        """Take the steps of a piece; return the path of each copy up to the first flaw, and what that is."""
        calls: list[_Call] = []
        stop: Exception | None = None
        before = self.num_calls
        try:
            while len(calls) < size:
                calls.append(self._call())
                if len(calls) % BEAT == 0:
                    beat(BEAT * self.envs.num_envs)
        except (BrokenStream, OutOfTimeError) as error:
            stop = error
        except KeyboardInterrupt:
            stop = Interrupted()
        flaw = self._first_flaw(calls, before)
        if flaw is not None:
            calls, stop = calls[: flaw.place], BrokenStream(flaw.what)
        return ([] if not calls else [_path(calls, k) for k in range(self.envs.num_envs)]), stop

    def _call(self) -> _Call:
        """Take one step in all copies."""
        before, resets = self.observations, self.resets
        actions = self._attempt(
            "the policy failed in step {step}, given observations of all copies", self.act
        )(self.given)
        self._check_actions(actions)
        result = self._attempt("the environment failed in step {step}", self.envs.step)(actions)
        if not (isinstance(result, tuple) and len(result) == 5):
            raise BrokenStream(
                f"step of the environment must return five values, found {type(result).__name__}"
            )
        given, rewards, terminated, truncated, infos = result
        self.num_calls += 1
        ended = np.array(terminated, dtype=np.bool_)
        cut = np.array(truncated, dtype=np.bool_) & ~ended
        over = ended | cut
        finals = self.observations = self._copied(given)
        if over.any():
            finals = self._finals(finals, infos, cut)
            if self.mode == "DISABLED":
                self.observations = self._reset({"options": {"reset_mask": over}})
        self.resets = over if self.mode == "NEXT_STEP" else np.zeros_like(over)
        if self.restart is not None and (starts := resets if self.mode == "NEXT_STEP" else over).any():
            self.restart(starts)
        lasted = None if self.duration is None else self._durations(infos, over, resets)
        return _Call(before, actions, np.array(rewards), ended, cut, finals, resets, lasted)

    def _durations(self, infos: Any, over: Bools, resets: Bools) -> Floats:
        """Return how long the step of each copy took; 0 where it was a reset."""
        durations = np.zeros(self.envs.num_envs)
        for k in np.flatnonzero(~resets):
            found = self._duration_of(infos, int(k), bool(over[k]))
            try:
                durations[k] = float(found)
            except (TypeError, ValueError):
                what = not_a_number(found, is_reward=False)
                raise BrokenStream(
                    f"the duration of step {self.num_calls - 1} of copy {k} is {what}"
                ) from None
        return durations

    def _duration_of(self, infos: Any, copy: int, is_over: bool) -> Any:
        """Return the info of one copy's step; if that was also a reset, it is among the final infos."""
        key = self.duration
        told = infos.get("final_info", infos) if is_over and self.mode == "SAME_STEP" else infos
        if OF_EACH in infos and key in infos[OF_EACH][copy]:
            return infos[OF_EACH][copy][key]
        if key in told and told.get(f"_{key}", np.ones(self.envs.num_envs, dtype=np.bool_))[copy]:
            return told[key][copy]
        raise BrokenStream(no_duration(key, self.num_calls - 1, told, f" of copy {copy}"))

    def _reset(self, how: dict[str, Any]) -> NDArray[Any]:
        """Return the observations after a reset."""
        place = "the environment failed at its reset before step {step}"
        result = self._attempt(place, lambda options: self.envs.reset(**options))(how)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise BrokenStream(
                "reset of the environment must return observations and a dictionary, found "
                f"{type(result).__name__}"
            )
        return self._copied(result[0])

    def _attempt(self, what: str, function: Any) -> Any:
        def called(argument: Any) -> Any:
            try:
                return function(argument)
            except Exception as error:
                place = what.format(step=self.num_calls)
                raise BrokenStream(f"{place}: {type(error).__name__}: {error}") from error

        return called

    def _finals(self, observations: NDArray[Any], infos: Any, cut: Bools) -> NDArray[Any]:
        if self.mode != "SAME_STEP" or not cut.any():
            return observations
        if "final_obs" not in infos:
            raise BrokenStream(
                f"the environment cut an episode in step {self.num_calls - 1} without infos['final_obs'], "
                "its last observation, which SAME_STEP requires"
            )
        finals = observations.copy()
        for k in np.flatnonzero(cut):
            last = infos["final_obs"][k]
            if self.limits.leaves:
                finals[k] = self._rows([last])[0]
            elif not self.is_blind:
                finals[k] = last
        return finals

    def _rows(self, observations: Any) -> NDArray[Any]:
        """Return observations of several parts as rows of numbers."""
        try:
            return observation_rows(observations, self.limits.leaves, learn=True)
        except Wrong as error:
            raise BrokenStream(f"the observations before step {self.num_calls} are {error}") from None

    def _copied(self, given: Any) -> NDArray[Any]:
        """Return observations as an array of the right shape that the environment will not change.

        The policy gets them unchanged.
        """
        self.given = given
        if self.is_blind:
            return np.zeros(self.envs.num_envs, dtype=np.int64)
        if self.limits.leaves:
            observations = self._rows(given)
        else:
            self.given = observations = np.array(given)
        expected = (self.envs.num_envs, *self.limits.shape)
        if observations.shape != expected:
            raise BrokenStream(
                f"the observations before step {self.num_calls} have shape {observations.shape}, shape "
                f"{expected} is expected"
            )
        return observations

    def _check_actions(self, actions: Any) -> None:
        """Refuse actions that cannot be recorded; their values are checked later, many at a time."""
        if self.action_limits is None:
            if not self.envs.action_space.contains(actions):
                raise BrokenStream(
                    f"the policy chose {actions!r}, in step {self.num_calls}: not in the space"
                )
        elif np.shape(actions) != (self.envs.num_envs, *self.action_limits.shape):
            raise BrokenStream(
                f"the policy chose actions of shape {np.shape(actions)} in step {self.num_calls}, an action "
                f"for each copy is expected, shape {(self.envs.num_envs, *self.action_limits.shape)}"
            )

    def _first_flaw(self, calls: list[_Call], before: int) -> Flaw | None:
        """Find the first call in which something is not allowed."""
        if not calls:
            return None
        rewards = np.array([call.rewards for call in calls])
        if rewards.ndim != 2:
            return Flaw(0, f"the reward of step {before} is {not_a_number(rewards[0, 0])}")
        checks = [
            ("the observation before step {step} of copy {copy} is {what}", self.limits, "observations"),
            (
                "the reward of step {step} of copy {copy} is {what}",
                ANY_REWARD,
                "rewards",
            ),
        ]
        if self.action_limits is not None:
            checks.append(
                ("the policy chose {what}, in step {step} of copy {copy}", self.action_limits, "actions")
            )
        flaws = []
        for text, limits, name in checks:
            values = np.array([getattr(call, name) for call in calls])
            flaw = first_flaw(values.reshape(-1, *limits.shape), limits)
            if flaw is not None:
                call, copy = divmod(flaw.place, self.envs.num_envs)
                flaws.append(Flaw(call, text.format(step=before + call, copy=copy, what=flaw.what)))
        if self.duration is not None:
            wrong = first_wrong_duration(np.array([call.durations for call in calls]).ravel())
            if wrong is not None:
                call, copy = divmod(wrong.place, self.envs.num_envs)
                words = f"the duration of step {before + call} of copy {copy} is {wrong.what}"
                flaws.append(Flaw(call, words))
        return min(flaws, default=None)


def _path(calls: list[_Call], copy: int) -> Path:
    """Return the path of one copy."""
    observations, rewards, ended, cut, finals, resets = (
        np.array([getattr(call, name)[copy] for call in calls])
        for name in ("observations", "rewards", "ended", "cut", "finals", "resets")
    )
    left = np.where(ended, Left.BY_END, Left.BY_STEP).astype(np.int8)
    steps = ~resets
    observations, rewards, left, cut, finals = (
        part[steps] for part in (observations, rewards, left, cut, finals)
    )
    behind = np.flatnonzero(cut) + 1
    durations = None
    if calls[0].durations is not None:
        own = np.array([call.durations[copy] for call in calls if call.durations is not None])
        durations = np.insert(own[steps], behind, 0.0)
    return Path(
        np.insert(observations, behind, finals[cut], axis=0),
        np.insert(rewards.astype(np.float64), behind, 0.0),
        np.insert(left, behind, Left.BY_CUT),
        copy,
        durations,
    )


def no_duration(key: str | None, step: int, info: Any, where: str = "") -> str:
    """Return a message that a step did not say how long it took."""
    known = ", ".join(map(repr, info)) if isinstance(info, Mapping) and info else "nothing"
    return f"step {step}{where} does not say how long it took: its dictionary has no {key!r}, it has {known}"
