"""Transitions in batches: the form in which every estimator reads data.

A source, which is an environment or a log, yields pieces of paths (`Path`): observations in order of time,
and how each was left. `transitions` makes a batch (`Transitions`) of each piece, and a `Stream` hands the
batches out. `Aligner` cuts the batches of several chains so that all have the same length.

- A step leads from an observation to the next one.
- An end of an episode (`terminated`) leads back to the start. Either by an extra step with reward 0, from a
  state that stands for every end: all ends are left in the same way, so one state for all of them loses
  nothing, and an observation in which episodes also continue is not confused with an end. Or at once: the
  last step of the episode, with its reward, leads to the start, and the last observation is not used.
- A cut (`truncated`, a gap in a log) leads nowhere: what comes next begins a new segment.
- A stop leads nowhere either, but the step was seen to its end: it counts for the gain, not for values.

Where time matters, steps have durations. The extra step by which an end leads back takes no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.features.matrix import Matrix
from gainbias.kernels import work_ahead
from gainbias.types import Floats, Ints, is_count

OnTermination: TypeAlias = Literal["zero", "reward"]
"""How an end leads back to the start: by an extra step with reward 0, or by the last step."""

BEAT = 64
"""Steps of an environment between two calls of `Tick`."""

Beat: TypeAlias = Callable[[int], None]
"""Called now and then with the number of steps since the last call."""

OBSERVATIONS_TO_JUDGE_ENDS = 100
"""Fewest observations that allow the conclusion that all episodes end at their first step."""


STEP = "step"
"""The unit that a gain is per if steps have no durations."""


class Left(IntEnum):
    """How an observation was left: by a step, by the end of an episode, by a cut or by a stop."""

    BY_STEP = 0
    BY_END = 1
    BY_CUT = 2
    BY_STOP = 3


Beside: TypeAlias = dict[str, NDArray[Any]]
"""Columns by their roles."""

UNKNOWN_PLACE = -1
"""Stands for the row to which a step led, if that is not known."""


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
        Number of the chain, among several independent ones.
    durations : (k,) array or None
        How long the step out of each observation took, in the unit of the stream; without meaning where there
        was a cut. None if every step counts as one.
    beside : dict of arrays (k, ...)
        Further columns by their roles, such as what was done at each observation.
    """

    observations: NDArray[Any]
    rewards: Floats
    left: NDArray[np.int8]
    chain: int = 0
    durations: Floats | None = None
    beside: Beside = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rewards)

    def part(self, rows: slice) -> Path:
        """Return the path through some of the observations."""
        durations = None if self.durations is None else self.durations[rows]
        beside = chosen_rows(self.beside, rows)
        return Path(
            self.observations[rows], self.rewards[rows], self.left[rows], self.chain, durations, beside
        )

    def then(self, other: Path) -> Path:
        """Return this path followed by another."""
        return Path(
            np.concatenate([self.observations, other.observations]),
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.left, other.left]),
            other.chain,
            joined_durations([self.durations, other.durations]),
            {name: np.concatenate([self.beside[name], column]) for name, column in other.beside.items()},
        )


def chosen_rows(beside: Beside, rows: Any) -> Beside:
    """Return some rows of columns."""
    return {name: column[rows] for name, column in beside.items()}


def joined_durations(parts: Sequence[Floats | None]) -> Floats | None:
    """Return durations joined together; None if there are none."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions as estimators see them, in order of time.

    Attributes
    ----------
    rewards : (m,) array
    here, after : (m,) arrays of int64
        From which row of features to which; the states themselves if features are tabular. `UNKNOWN_PLACE` if
        it is not known where a step led, see `known`.
    rows : (k, d) ndarray or csr_array, or None
        Features, of this batch alone or of all states; ``None`` if they are tabular.
    segments : (m,) array of int64
        Steps of one segment follow each other without a cut. Numbers grow along the chain, also from batch
        to batch.
    chain : int
        Number of the chain, among several independent ones.
    durations : (m,) array or None
        How long each step took; None if every step counts as one.
    """

    rewards: Floats
    here: Ints
    after: Ints
    rows: Matrix | None
    segments: Ints
    chain: int = 0
    durations: Floats | None = None

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

    def part(self, steps: Any) -> Transitions:
        """Return some of the transitions, chosen by a slice or by a truth value for each.

        Examples
        --------
        >>> states = np.array([0, 1, 0, 2])
        >>> whole = Transitions(np.ones(3), states[:-1], states[1:], None, np.zeros(3, dtype=np.int64))
        >>> whole.part(slice(2)).after
        array([1, 0])
        """
        kept = {name: getattr(self, name)[steps] for name in ("rewards", "here", "after", "segments")}
        if self.durations is not None:
            kept["durations"] = self.durations[steps]
        return replace(self, **kept)

    def known(self) -> Transitions:
        """Return the transitions without those that lead nowhere, from which values cannot be learned."""
        is_known = self.after != UNKNOWN_PLACE
        return self if is_known.all() else self.part(is_known)

    def surplus(self, gain: float) -> Floats:
        """Return how much more each step paid than the gain would have paid in the same time, (m,)."""
        return self.rewards - (gain if self.durations is None else gain * self.durations)

    @property
    def length(self) -> float:
        """How long all steps took together; their number if each counts as one."""
        return float(len(self)) if self.durations is None else float(self.durations.sum())


@dataclass(frozen=True, eq=False)
class Stream:
    """Batches of transitions, read once.

    Attributes
    ----------
    observed : Observer
        How observations become features, for values at other observations.
    batches : iterator of Transitions
        Endless for an environment. If the source fails, `BrokenStream` is raised after everything before the
        failure was handed out. Batches of several chains take turns.
    num_chains : int
        Independent copies.
    notes : list of str
        What a user should know, in words. It may grow while batches are read.
    source : Timed
        The pieces of paths behind it, and the seconds it took to get them.
    warnings : list of str
        Why the answer may be wrong, in words. It may grow, too.
    has_states : bool
        Whether there are states to learn values of.
    per : str
        The unit of durations in words, as in "hour"; `STEP` if there are none.
    """

    observed: Any
    batches: Iterator[Transitions]
    num_chains: int
    notes: list[str]
    source: Timed
    warnings: list[str] = field(default_factory=list)
    has_states: bool = True
    per: str = STEP

    @property
    def is_timed(self) -> bool:
        """Whether steps have durations."""
        return self.per != STEP

    def __iter__(self) -> Iterator[Transitions]:
        return self.batches

    def close(self) -> None:
        """Stop reading, and close what was opened."""
        self.batches.close()  # type: ignore[attr-defined]  # they come from a generator
        self.source.close()  # in case the batches never began to read it


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
        """Stop reading, and close what was opened."""
        self._pieces.close()  # type: ignore[attr-defined]  # they come from a generator


class BrokenStream(ValueError):
    """A stream could not be read to its end; all transitions before that were handed out."""


class Interrupted(BrokenStream):
    """A stream was interrupted by Ctrl-C; all transitions before that were handed out."""

    def __init__(self) -> None:
        super().__init__("it was interrupted")


ENDS_ARE_STEPS = (
    "each end of an episode counts as a step with reward 0: on_termination='reward' leaves it out"
)
"""What is said where it is so: not if steps have durations, because this one takes no time."""


def transitions(
    pieces: Iterator[Path], observed: Observer, on_termination: OnTermination, notes: list[str]
) -> Iterator[Transitions]:
    """Turn pieces of paths into batches of transitions, and close the pieces at the end."""
    with closing(pieces) as opened:  # type: ignore[type-var]  # they come from a generator
        makers, work = _links(opened, on_termination, notes), partial(_transitions, observed)
        batches = work_ahead(work, makers) if observed.is_fixed else map(work, makers)
        yield from (batch for batch in batches if batch is not None)


def _transitions(observed: Observer, make: Callable[[], ObservedSteps]) -> Transitions | None:
    """Return steps between observations as transitions between features; None if there is no step."""
    steps = make()
    if not len(steps.rewards):
        return None
    try:
        batch = observed(steps)
    except Exception as error:  # a user's features may do anything
        raise BrokenStream(f"the features failed: {type(error).__name__}: {error}") from error
    if steps.durations is None:
        return batch
    is_unknown = steps.after == UNKNOWN_PLACE
    after = np.where(is_unknown, UNKNOWN_PLACE, batch.after) if is_unknown.any() else batch.after
    return replace(batch, after=after, durations=steps.durations)


def joined(
    pieces: Iterable[Path], on_termination: OnTermination, notes: list[str]
) -> Iterator[ObservedSteps]:
    """Turn pieces of paths into steps between observations: episodes are joined, cuts remain open.

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
    for make in _links(pieces, on_termination, notes):
        steps = make()
        if len(steps.rewards):
            yield steps


def _links(
    pieces: Iterable[Path], on_termination: OnTermination, notes: list[str]
) -> Iterator[Callable[[], ObservedSteps]]:
    """Yield functions that return the steps of `joined`: any thread may call them."""
    waiting: dict[int, Path] = {}
    segment: dict[int, int] = {}
    for piece in pieces:
        before, begun = waiting.get(piece.chain), segment.get(piece.chain, 0)
        if before is None:
            _speak_of_short_episodes(piece, notes)
        goes_back = on_termination == "zero" and bool((piece.left == Left.BY_END).any())
        if goes_back and piece.durations is None and ENDS_ARE_STEPS not in notes:
            notes.append(ENDS_ARE_STEPS)
        yield partial(_linked, before, piece, on_termination, begun)
        waiting[piece.chain] = piece.part(slice(len(piece) - 1, None))
        cuts = np.count_nonzero(piece.left[:-1] >= Left.BY_CUT)
        if before is not None:
            cuts += np.count_nonzero(before.left >= Left.BY_CUT)
        segment[piece.chain] = begun + int(cuts)
    for number, last in waiting.items():
        stops = last.left[0] == Left.BY_STOP
        if stops or (last.left[0] == Left.BY_END and on_termination == "zero"):
            here = np.zeros(1, dtype=np.int64)
            after, segments = here + (UNKNOWN_PLACE if stops else 1), here + segment[number]
            yield partial(
                ObservedSteps,
                last.observations,
                here,
                after,
                last.rewards,
                segments,
                number,
                last.durations,
                last.beside,
            )


def _linked(before: Path | None, piece: Path, on_termination: OnTermination, segment: int) -> ObservedSteps:
    """Return the steps out of the last observation before a piece, if there is one, and out of the piece."""
    return _steps(piece if before is None else before.then(piece), on_termination, segment)


class Observer(Protocol):
    """Anything that turns observations into features, such as an `ObservationMap`."""

    @property
    def is_fixed(self) -> bool:
        """Whether features depend on nothing else, so that several threads may ask for them at once."""

    def __call__(self, steps: ObservedSteps) -> Transitions:
        """Return steps between observations as transitions between features."""


@dataclass(frozen=True, eq=False)
class ObservedSteps:
    """Transitions between observations, in order of time.

    Attributes
    ----------
    observations : (k, ...) array
    here, after : (m,) arrays of int64
        From which observation to which. The number k, one more than there are, stands for the end, and
        `UNKNOWN_PLACE` for what is not known.
    rewards : (m,) array
    segments : (m,) array of int64
        Steps of one segment follow each other without a cut. Numbers grow along the chain.
    chain : int
        Number of the chain, among several independent ones.
    durations : (m,) array or None
        How long each step took; None if every step counts as one.
    beside : dict of arrays (m, ...)
        Further columns by their roles; without meaning for steps out of the end.
    """

    observations: NDArray[Any]
    here: Ints
    after: Ints
    rewards: Floats
    segments: Ints
    chain: int
    durations: Floats | None = None
    beside: Beside = field(default_factory=dict)


def _steps(path: Path, on_termination: OnTermination, segment: int) -> ObservedSteps:
    """Return the steps out of all observations except the last, which only is a destination."""
    size = len(path)
    left = path.left[:-1]
    here = np.arange(size - 1, dtype=np.int64)
    if not left.any():
        durations = None if path.durations is None else path.durations[:-1]
        segments = np.full(size - 1, segment)
        beside = chosen_rows(path.beside, slice(-1))
        return ObservedSteps(
            path.observations, here, here + 1, path.rewards[:-1], segments, path.chain, durations, beside
        )
    segments = segment + np.cumsum(left >= Left.BY_CUT)
    segments[left == Left.BY_STOP] -= 1  # its step belongs to what came before
    ended = left == Left.BY_END if on_termination == "zero" else np.zeros(size - 1, dtype=np.bool_)
    source = np.repeat(here, np.where(left == Left.BY_CUT, 0, 1 + ended))
    goes_back = np.flatnonzero(np.diff(source, prepend=-1) == 0)  # the second step out of the same place
    here, after, rewards = source.copy(), source + 1, path.rewards[source]
    here[goes_back] = after[goes_back - 1] = size
    rewards[goes_back] = 0.0
    after[left[source] == Left.BY_STOP] = UNKNOWN_PLACE
    durations = None if path.durations is None else path.durations[source]
    if durations is not None:
        durations[goes_back] = 0.0
    return ObservedSteps(
        path.observations,
        here,
        after,
        rewards,
        segments[source],
        path.chain,
        durations,
        chosen_rows(path.beside, source),
    )


def _speak_of_short_episodes(first: Path, notes: list[str]) -> None:
    """Add a note if no episode in the first piece of a chain lasts for two steps."""
    if len(first) < OBSERVATIONS_TO_JUDGE_ENDS:
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
            "every episode is cut (truncated) at its first step, so the data do not show how the chain "
            "continues: take off the time limit, or set terminated where an episode really ends"
        )


def peeked(pieces: Iterator[Path]) -> tuple[Path, Iterator[Path]]:
    """Return the first piece of a path, and an iterator over all pieces, including the first."""
    first = next(pieces, None)
    if first is None:
        raise ValueError("there is no step in the data")
    return first, _closing_chain(first, pieces)


def _closing_chain(first: Path, pieces: Any) -> Iterator[Path]:
    with closing(pieces):
        yield from chain([first], pieces)


class Aligner:
    """Cuts batches of chains that take turns, so that all chains have the same length.

    Parameters
    ----------
    num_chains : int

    Examples
    --------
    >>> def batch(chain, states):
    ...     steps = np.array(states)
    ...     return Transitions(np.ones(len(steps)), steps, steps, None, np.zeros_like(steps), chain)
    >>> aligner = Aligner(2)
    >>> aligner.add(batch(0, [1, 2, 3]))
    >>> aligner.ready
    0
    >>> aligner.add(batch(1, [4, 5]))
    >>> [part.here.tolist() for part in aligner.take(aligner.ready)], aligner.ready
    ([[1, 2], [4, 5]], 0)
    """

    def __init__(self, num_chains: int) -> None:
        self._waiting: list[list[Transitions]] = [[] for _ in range(num_chains)]

    @property
    def ready(self) -> int:
        """Steps that every chain has."""
        return min(sum(map(len, batches)) for batches in self._waiting)

    def add(self, batch: Transitions) -> None:
        """Add the next batch of a chain."""
        self._waiting[batch.chain].append(batch)

    def take(self, count: int) -> list[Transitions]:
        """Return the next `count` steps of every chain, at most `ready`, and forget them."""
        taken = []
        for index, batches in enumerate(self._waiting):
            whole = _in_one(batches)
            taken.append(whole.part(slice(count)))
            rest = whole.part(slice(count, None))
            self._waiting[index] = [rest] if len(rest) else []
        return taken


def _in_one(batches: list[Transitions]) -> Transitions:
    """Return consecutive batches as one."""
    if len(batches) == 1:
        return batches[0]
    offsets = np.zeros(len(batches), dtype=np.int64)
    rows = batches[0].rows
    if any(batch.rows is not rows for batch in batches):  # each has its own rows
        parts = [batch.rows for batch in batches]
        offsets[1:] = np.cumsum([0 if part is None else part.shape[0] for part in parts[:-1]])
        rows = _stacked(parts)
    return Transitions(
        np.concatenate([batch.rewards for batch in batches]),
        np.concatenate([batch.here + shift for batch, shift in zip(batches, offsets, strict=True)]),
        np.concatenate([_moved(batch.after, shift) for batch, shift in zip(batches, offsets, strict=True)]),
        rows,
        np.concatenate([batch.segments for batch in batches]),
        batches[0].chain,
        joined_durations([batch.durations for batch in batches]),
    )


def _moved(after: Ints, shift: Any) -> Ints:
    return np.where(after == UNKNOWN_PLACE, UNKNOWN_PLACE, after + shift)


def _stacked(parts: list[Any]) -> Matrix:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def check_on_termination(on_termination: str) -> None:
    """Refuse a value of `on_termination` that does not exist."""
    if on_termination not in get_args(OnTermination):
        raise ValueError(f"on_termination must be 'zero' or 'reward', found {on_termination!r}")


def check_counts(**counts: Any) -> None:
    """Refuse counts that are not positive integers."""
    for name, count in counts.items():
        if not is_count(count):
            raise ValueError(f"{name} must be a positive integer, found {count!r}")
