"""What was visited, as transitions in batches: the form in which every estimator reads data.

A source, an environment or a log, gives pieces of paths: observations in the order of time, and how each was
left. A batch of transitions is made of each piece.

- A step leads from an observation to the one behind it.
- An end of an episode (`terminated`) leads back to the start. Either by a step of its own with reward 0, from
  a state that stands for every end: all ends are left in the same way, so one state for all of them loses
  nothing, and an observation in which episodes also go on is not confused with an end. Or at once: the last
  step of the episode, with its reward, leads to the start, and its last observation is not seen.
- A cut (`truncated`, a gap in a log) leads nowhere: what comes next begins a new segment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gainbias.features.matrix import FloatArray, Matrix

IntArray: TypeAlias = NDArray[np.int64]
OnTermination: TypeAlias = Literal["zero", "reward"]

BEAT = 64
"""Steps of an environment between two signs of life."""

Beat: TypeAlias = Callable[[int], None]


class BrokenStream(ValueError):
    """The source went wrong on the way; all transitions before that were handed out."""


class Interrupted(BrokenStream):
    """Ctrl-C was pressed; all transitions before that were handed out."""

    def __init__(self) -> None:
        super().__init__("it was interrupted")


class Left(IntEnum):
    """How an observation was left."""

    BY_STEP = 0
    BY_END = 1
    BY_CUT = 2


@dataclass(frozen=True, eq=False)
class Path:
    """A piece of a path; pieces of the same chain follow each other.

    Attributes
    ----------
    observations : (k, ...) array
    rewards : (k,) array
        Reward of the step out of each observation; without meaning where there was a cut.
    left : (k,) array of int8
        How each observation was left, see `Left`.
    chain : int
        Which of several independent copies.
    """

    observations: NDArray[Any]
    rewards: FloatArray
    left: NDArray[np.int8]
    chain: int = 0

    def __len__(self) -> int:
        return len(self.rewards)

    def part(self, rows: slice) -> Path:
        """Some of the observations."""
        return Path(self.observations[rows], self.rewards[rows], self.left[rows], self.chain)

    def then(self, other: Path) -> Path:
        """Return a longer path, with another behind this one."""
        return Path(
            np.concatenate([self.observations, other.observations]),
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.left, other.left]),
            other.chain,
        )


@dataclass(frozen=True, eq=False)
class Steps:
    """Transitions between observations, in the order of time.

    Attributes
    ----------
    observations : (k, ...) array
    here, after : (m,) arrays of int64
        From which observation to which. The number k, one more than there are, stands for the end.
    rewards : (m,) array
    segments : (m,) array of int64
        Steps of one segment follow each other without a cut. Numbers grow along the chain.
    chain : int
        Which of several independent copies.
    """

    observations: NDArray[Any]
    here: IntArray
    after: IntArray
    rewards: FloatArray
    segments: IntArray
    chain: int


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions as estimators see them, in the order of time.

    Attributes
    ----------
    rewards : (m,) array
    here, after : (m,) arrays of int64
        From which row of features to which; the states themselves if features are tabular.
    rows : (k, d) ndarray or csr_array, or None
        Features, of this batch alone or of all states; ``None`` if they are tabular.
    segments : (m,) array of int64
        Steps of one segment follow each other without a cut. Numbers grow along the chain, also from batch
        to batch.
    chain : int
        Which of several independent copies.
    """

    rewards: FloatArray
    here: IntArray
    after: IntArray
    rows: Matrix | None
    segments: IntArray
    chain: int = 0

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def here_rows(self) -> Matrix:
        """Features before each step, (m, d)."""
        return self._given_rows[self.here]

    @property
    def after_rows(self) -> Matrix:
        """Features after each step, (m, d)."""
        return self._given_rows[self.after]

    @property
    def _given_rows(self) -> Matrix:
        if self.rows is None:
            raise ValueError("tabular transitions have no rows of features: use here and after, the states")
        return self.rows

    def part(self, steps: slice) -> Transitions:
        """Some of the transitions.

        Examples
        --------
        >>> states = np.array([0, 1, 0, 2])
        >>> whole = Transitions(np.ones(3), states[:-1], states[1:], None, np.zeros(3, dtype=np.int64))
        >>> whole.part(slice(2)).after
        array([1, 0])
        """
        kept = {name: getattr(self, name)[steps] for name in ("rewards", "here", "after", "segments")}
        return replace(self, **kept)


@dataclass(frozen=True, eq=False)
class Stream:
    """Batches of transitions, read once.

    Attributes
    ----------
    observed : Observer
        How observations become features, for values at other observations.
    batches : iterator of Transitions
        Endless for an environment. If the source goes wrong, `BrokenStream` is raised after everything before
        that was handed out. Batches of several chains take turns.
    num_chains : int
        Independent copies.
    notes : list of str
        What a user should know, in words. It may grow while batches are read.
    source : Timed
        The pieces of paths behind it, and the seconds it took to get them.
    warnings : list of str
        Why the answer may be wrong, in words. It may grow, too.
    """

    observed: Any
    batches: Iterator[Transitions]
    num_chains: int
    notes: list[str]
    source: Timed
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Transitions]:
        return self.batches

    def close(self) -> None:
        """Stop, and close what was opened for it."""
        self.batches.close()  # type: ignore[attr-defined]  # they come from a generator
        self.source.close()  # which the batches did not begin to read, perhaps


class Timed(Iterator[Path]):
    """Pieces of paths, and how long it took to get them.

    Attributes
    ----------
    seconds : float
        Spent on waiting for pieces so far.
    """

    def __init__(self, pieces: Iterator[Path]) -> None:
        self._pieces = pieces
        self.seconds = 0.0

    def __next__(self) -> Path:
        start = time.perf_counter()
        try:
            return next(self._pieces)
        finally:
            self.seconds += time.perf_counter() - start

    def close(self) -> None:
        """Stop, and close what was opened for it."""
        self._pieces.close()  # type: ignore[attr-defined]  # they come from a generator


def check_on_termination(on_termination: str) -> None:
    """Refuse a rule for ends that does not exist."""
    if on_termination not in get_args(OnTermination):
        raise ValueError(f"on_termination must be 'zero' or 'reward', found {on_termination!r}")


def check_counts(**counts: Any) -> None:
    """Refuse numbers of things that are no positive integers."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"{name} must be a positive integer, found {count!r}")


def peeked(pieces: Iterator[Path]) -> tuple[Path, Iterator[Path]]:
    """Return the first piece, and all pieces with it."""
    first = next(pieces, None)
    if first is None:
        raise ValueError("there is no step in the data")
    return first, _closing_chain(first, pieces)


def _closing_chain(first: Path, pieces: Any) -> Iterator[Path]:
    with closing(pieces):
        yield from chain([first], pieces)
