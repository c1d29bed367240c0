"""From the episodes of a Minari dataset to pieces of a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gainbias.evaluation.sources.spaces import ANY_REWARD, Limits, first_flaw
from gainbias.evaluation.stream.stream import BrokenStream, Left, Path


def episode_pieces(episodes: Iterable[Any], limits: Limits, size: int) -> Iterator[Path]:
    """Turn episodes into pieces of a path with at least `size` observations each, save the last.

    Parameters
    ----------
    episodes : iterable
        With the attributes of `minari.EpisodeData`: k + 1 observations, k rewards, terminations and
        truncations.
    limits : Limits
        Of observations.
    size : int

    Yields
    ------
    Path
        An episode that does not end (terminated) is cut behind its last observation.
    """
    kept: list[Path] = []
    for number, episode in enumerate(episodes):
        try:
            kept.append(_checked(episode, limits))
        except BrokenStream as error:
            if kept:
                yield _in_one(kept)
            raise BrokenStream(f"episode {getattr(episode, 'id', number)} of the dataset: {error}") from None
        if sum(map(len, kept)) >= size:
            yield _in_one(kept)
            kept = []
    if kept:
        yield _in_one(kept)


def _in_one(paths: list[Path]) -> Path:
    return Path(
        np.concatenate([path.observations for path in paths]),
        np.concatenate([path.rewards for path in paths]),
        np.concatenate([path.left for path in paths]),
    )


def _checked(episode: Any, limits: Limits) -> Path:
    observations = np.asarray(episode.observations)
    rewards = np.asarray(episode.rewards, dtype=np.float64)
    if rewards.ndim != 1:
        raise BrokenStream("rewards are vectors: choose a weight for each of their numbers")
    if observations.shape != (len(rewards) + 1, *limits.shape):
        raise BrokenStream(
            f"observations have shape {observations.shape}, {(len(rewards) + 1, *limits.shape)} is expected, "
            "one more than rewards"
        )
    flaw = first_flaw(observations, limits)
    if flaw is not None:
        raise BrokenStream(f"observation {flaw.place} is {flaw.what}")
    wrong = first_flaw(rewards, ANY_REWARD)
    if wrong is not None:
        raise BrokenStream(f"reward {wrong.place} is {wrong.what}")
    left = np.zeros(len(observations), dtype=np.int8)
    if len(rewards) and episode.terminations[-1]:
        left[-2] = Left.BY_END
        return Path(observations[:-1], rewards, left[:-1])
    left[-1] = Left.BY_CUT
    return Path(observations, np.append(rewards, 0.0), left)
