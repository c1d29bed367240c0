"""The path through one environment, in pieces; what goes wrong is said with the number of the step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from gainbias.evaluation.sources.policies import Act
from gainbias.evaluation.sources.spaces import FreeRecorder, Limits, Recorder, Wrong, limits_of, real_numbers
from gainbias.evaluation.stream.stream import BEAT, Beat, BrokenStream, Interrupted, Left, Path
from gainbias.progress import OutOfTimeError

SLOW = 0.1
"""Seconds; if steps between two signs of life take longer, there is one after each step."""


def single_path(
    env: Any, act: Act, limits: Limits, size: int, seed: int, chain: int, beat: Beat
) -> Iterator[tuple[Path, Exception | None]]:
    """Step an environment for ever.

    Parameters
    ----------
    env : gymnasium.Env
        Reset with the seed at first, and without one after each episode, as Gymnasium prescribes.
    act : callable
        The policy.
    limits : Limits
        Of observations.
    size : int
        Steps in each piece.
    seed, chain : int
    beat : callable
        Called with a number of steps, always after so many; it may end the walk by `OutOfTimeError`.

    Yields
    ------
    Path
    Exception or None
        What went wrong behind this piece, which then is the last.
    """
    walk = _Walk(env, act, limits, size, beat)
    walk.begin(seed)
    while True:
        yield walk.piece(chain)


class _Walk:
    """An environment on its way, and what was recorded since the last piece, row by row.

    Observations, actions and rewards are recorded unchecked where that is safe, and checked a piece at a
    time. A cut takes a row of its own, for the observation behind which nothing follows.
    """

    def __init__(self, env: Any, act: Act, limits: Limits, size: int, beat: Beat) -> None:
        self.env, self.act, self.size, self.beat = env, act, size, beat
        self.seen = Recorder(limits, 2 * size)
        of_actions = limits_of(env.action_space)
        self.done = FreeRecorder(env.action_space) if of_actions is None else Recorder(of_actions, 2 * size)
        self.rewards: list[Any] = []
        self.ends: list[int] = []
        self.cuts: list[int] = []
        self.steps_before, self.rhythm = 0, 1
        self.observation: Any = None

    def begin(self, seed: int) -> None:
        """Reset the environment for the first time."""
        try:
            self.start(seed)
        except BrokenStream:
            raise
        except Exception as error:
            raise BrokenStream(self._what_failed(error)) from error

    def start(self, seed: int | None = None) -> None:
        """Reset the environment."""
        result = self.env.reset() if seed is None else self.env.reset(seed=seed)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise BrokenStream(
                "reset of the environment must return an observation and a dictionary, found "
                f"{_shortly(result)}: it is written for an old version of gym"
            )
        self.observation = result[0]

    def piece(self, chain: int) -> tuple[Path, Exception | None]:
        """Make steps; return the path in front of the first thing that is wrong, and what that is."""
        stop: Exception | None = None
        try:
            made = 0
            while made < self.size:
                count, begun = min(self.rhythm, self.size - made), time.perf_counter()
                self._make_steps(count)
                made += count
                self.rhythm = 1 if time.perf_counter() - begun > SLOW else min(BEAT, 2 * self.rhythm)
                self.beat(count)
        except (BrokenStream, OutOfTimeError) as error:
            stop = error
        except KeyboardInterrupt:
            stop = Interrupted()
        except Exception as error:
            stop = BrokenStream(self._what_failed(error))
            stop.__cause__ = None if isinstance(error, Wrong) else error
        observations, wrong_observation = self.seen.take()
        wrong_action = self.done.take()[1]
        rewards, wrong_reward = real_numbers(self.rewards)
        size = min(len(observations), len(rewards))
        flaws = [
            (flaw.place, text.format(step=self._step(flaw.place), what=flaw.what))
            for flaw, text in (
                (wrong_observation, "the observation before step {step} is {what}"),
                (wrong_action, "the policy chose {what}, in step {step}"),
                (wrong_reward, "the reward of step {step} is {what}"),
            )
            if flaw is not None
        ]
        if flaws:  # they come before the step that failed, or are its reason
            place, text = min(flaws)
            size = min(size, place)
            reason = None if stop is None else stop.__cause__
            stop = BrokenStream(text)
            stop.__cause__ = reason
        left = np.zeros(len(self.rewards), dtype=np.int8)
        left[self.ends] = Left.BY_END
        left[self.cuts] = Left.BY_CUT
        self.steps_before = self._step(len(self.rewards))
        for record in (self.rewards, self.ends, self.cuts):
            record.clear()
        return Path(observations[:size], rewards[:size], left[:size], chain), stop

    def _make_steps(self, count: int) -> None:
        env_step, act = self.env.step, self.act
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
        """Return the number of the step out of a row, from 0."""
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
