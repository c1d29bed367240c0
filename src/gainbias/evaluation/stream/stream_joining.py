"""From pieces of paths to batches of transitions: episodes joined, cuts left open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Protocol

import numpy as np

from gainbias.evaluation.stream.stream import BrokenStream, Left, OnTermination, Path, Steps, Transitions

ENOUGH_TO_TELL = 100
"""Observations after which episodes that all end or are cut at their first step are spoken of."""


class Observer(Protocol):
    """What turns observations into features."""

    def __call__(self, steps: Steps) -> Transitions:
        """Return the steps as estimators see them."""


def transitions(
    pieces: Iterator[Path], observed: Observer, on_termination: OnTermination, notes: list[str]
) -> Iterator[Transitions]:
    """Turn pieces of paths into batches of transitions; pieces are closed with it."""
    with closing(pieces) as opened:  # type: ignore[type-var]  # they come from a generator
        for steps in joined(opened, on_termination, notes):
            try:
                batch = observed(steps)
            except Exception as error:  # features of a user may do anything
                raise BrokenStream(f"the features failed: {type(error).__name__}: {error}") from error
            yield batch


def joined(pieces: Iterable[Path], on_termination: OnTermination, notes: list[str]) -> Iterator[Steps]:
    """Turn pieces of paths into steps.

    The last observation of a piece waits for the next one of its chain. At the end of all pieces it is
    dropped, unless an episode ended there.

    Examples
    --------
    >>> import numpy as np
    >>> path = Path(np.array([5, 6, 7, 8]), np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 2, 0], np.int8))
    >>> [steps] = joined([path], "zero", notes=[])
    >>> steps.here, steps.after, steps.rewards, steps.segments
    (array([0, 1, 4]), array([1, 4, 2]), array([1., 2., 0.]), array([0, 0, 0]))
    """
    waiting: dict[int, Path] = {}
    segment: dict[int, int] = {}
    for piece in pieces:
        if piece.chain in waiting:
            path = waiting[piece.chain].then(piece)
        else:
            path = piece
            _speak_of_short_episodes(piece, notes)
        steps = _steps(path, on_termination, segment.get(piece.chain, 0))
        if len(steps.rewards):
            yield steps
        waiting[piece.chain] = path.part(slice(len(path) - 1, None))
        cuts = np.count_nonzero(path.left[:-1] == Left.BY_CUT)
        segment[piece.chain] = segment.get(piece.chain, 0) + int(cuts)
    for number, last in waiting.items():
        if last.left[0] == Left.BY_END and on_termination == "zero":
            to_end, here = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
            yield Steps(last.observations, here, to_end, last.rewards, here + segment[number], number)


def _steps(path: Path, on_termination: OnTermination, segment: int) -> Steps:
    """Return the steps out of all observations but the last, which only is a place to go to."""
    size = len(path)
    left = path.left[:-1]
    here = np.arange(size - 1, dtype=np.int64)
    if not left.any():
        return Steps(
            path.observations, here, here + 1, path.rewards[:-1], np.full(size - 1, segment), path.chain
        )
    segments = segment + np.cumsum(left == Left.BY_CUT)
    ended = left == Left.BY_END if on_termination == "zero" else np.zeros(size - 1, dtype=np.bool_)
    source = np.repeat(here, np.where(left == Left.BY_CUT, 0, 1 + ended))
    goes_back = np.flatnonzero(np.diff(source, prepend=-1) == 0)  # the second step out of the same place
    here, after, rewards = source.copy(), source + 1, path.rewards[source]
    here[goes_back] = after[goes_back - 1] = size
    rewards[goes_back] = 0.0
    return Steps(path.observations, here, after, rewards, segments[source], path.chain)


def _speak_of_short_episodes(first: Path, notes: list[str]) -> None:
    """Say if no episode of the first piece of a chain lasts for two steps."""
    if len(first) < ENOUGH_TO_TELL:
        return
    going_on = (first.left[:-1] == Left.BY_STEP) & (first.left[1:] != Left.BY_CUT)
    if going_on.any():
        return
    if (first.left == Left.BY_END).any():
        note = "every episode ended at its first step: the values only compare first observations"
        if note not in notes:  # of another chain
            notes.append(note)
    else:
        raise BrokenStream(
            "every episode is cut (truncated) at its first step, so it cannot be seen how the chain goes on: "
            "take off the time limit, or set terminated where an episode really ends"
        )
