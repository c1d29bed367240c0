"""Rows of a log as pieces of a path: which row follows which, how long each lasts, and what is wrong with it.

Start with `row_pieces`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.columns import COLUMN_KINDS, Chunk
from gainbias.evaluation.sources.spaces import ANY_REWARD, Flaw, Limits, first_flaw
from gainbias.evaluation.sources.times import RowClock
from gainbias.evaluation.stream import Beside, BrokenStream, Left, Path
from gainbias.kernels import work_ahead
from gainbias.types import Bools, Floats, Ints

IN_WORDS = {"reward_rate": "reward rate", "chance": "probability of its action"}
"""Roles whose names are no words for users."""

BESIDE = ("action", "chance", "row")
"""Roles of columns that are passed along with the path unchanged."""

MOST_EPISODES = 100_000
"""Most episodes that are remembered, in order to notice one that comes back."""

JOIN_ROUNDING = 1e-6
"""Share of their size by which a next state and the state of the next row may differ."""


def row_pieces(
    chunks: Iterator[Chunk],
    limits: Limits,
    gaps: Literal["error", "break"],
    notes: list[str],
    warnings: list[str],
    clock: RowClock | None = None,
    actions: Limits | None = None,
) -> Iterator[Path]:
    """Turn rows of a log into pieces of a path.

    Parameters
    ----------
    chunks : iterator of Chunk
        Rows in order, with the roles "state" and "reward" and perhaps the others.
    limits : Limits
        Of states.
    gaps : {"error", "break"}
        What to do where a row does not follow from the one before it.
    notes, warnings : list of str
        Notes on what was left out, and warnings about what is odd, are added here.
    clock : RowClock, optional
        Tells how long each row lasts; without it each is one step.
    actions : Limits, optional
        Of actions, if there are any.

    Yields
    ------
    Path

    Raises
    ------
    BrokenStream
        After a last piece with everything before it.
    """
    begun: dict[Any, int] = {}
    readings = _readings(_of_right_kind(chunks), limits, clock, actions)
    read = partial(_read, gaps)
    try:
        # A clock notes what it saw in the rows before.
        rows_read = work_ahead(read, readings) if clock is None else map(read, readings)
        for offset, reader, size, what, path in rows_read:
            chunk = reader.chunk
            if "episode" in chunk and gaps == "error":
                back = _came_back(chunk["episode"], begun, offset)
                if back is not None and back.place < size:
                    size, what = back.place, back
                    path = reader.path(size)
            if clock is not None:
                clock.count(reader.durations[:size], reader.counts[:size], offset)
            for note in _notes_on(reader, path, size, offset, gaps):
                _note_once(notes, note)
            if len(path):
                yield path
            if what is not None:
                raise BrokenStream(f"row {offset + what.place} of the log: {what.what}")
    except BrokenStream:
        _speak(clock, notes, warnings)
        raise
    _speak(clock, notes, warnings)


def _readings(
    chunks: Iterator[Chunk], limits: Limits, clock: RowClock | None, actions: Limits | None
) -> Iterator[tuple[int, Callable[[], _Reader]]]:
    """Yield the number of the first row of each chunk, and a function that returns its reader."""
    offset, unreadable = 0, None
    chunk = next(chunks, None)
    while chunk is not None:
        try:
            behind = next(chunks, None)
        except BrokenStream as error:
            behind, unreadable = None, error
        if behind is None and unreadable is None and offset + len(chunk["reward"]) < 2:
            raise ValueError(f"a log needs at least two rows, found {len(chunk['reward'])}")
        is_end = behind is None and unreadable is None
        if "action" in chunk:  # errors in actions may be found later, and are reported with the row
            chunk["row"] = offset + np.arange(len(chunk["reward"]))
        yield offset, partial(_Reader, chunk, behind, limits, clock, is_end, actions)
        offset += len(chunk["reward"])
        chunk = behind
    if unreadable is not None:
        raise unreadable


def _read(
    gaps: str, reading: tuple[int, Callable[[], _Reader]]
) -> tuple[int, _Reader, int, Flaw | None, Path]:
    """Return the first row of a chunk, its reader, how many rows are sound, what is wrong, and the path."""
    offset, make = reading
    reader = make()
    size, what = reader.sound_rows(gaps)
    return offset, reader, size, what, reader.path(size)


def _notes_on(reader: _Reader, path: Path, size: int, offset: int, gaps: str) -> Iterator[str]:
    """Yield what a user should know about the first `size` rows of a chunk."""
    clock, chunk = reader.clock, reader.chunk
    if clock is not None:
        told = size - (reader.behind is None and not reader.is_end)  # a wrong row is reported as such
        if not reader.counts[:told].all():
            yield _not_counted(clock)
    elif "next" not in chunk and (path.left == Left.BY_CUT).any():
        yield (
            "the last row of an episode that does not end (terminated) is left out, because the log does "
            "not say where it led: a column of next states would"
        )
    if gaps == "break" and reader.gap.any():
        row = offset + int(np.flatnonzero(reader.gap)[0])
        yield f"there are gaps in the log, the first after row {row}: each is taken as a break"


def _not_counted(clock: RowClock) -> str:
    would = ": say when, end=..., and it counts" if clock.role == "time" and clock.end is None else ""
    return (
        "the last row, or that of each trajectory, is not counted, because nothing says how long it lasted"
        + would
    )


def _speak(clock: RowClock | None, notes: list[str], warnings: list[str]) -> None:
    if clock is not None:
        clock.speak(notes, warnings)


class _Reader:
    """A chunk of rows, together with the first row of the next chunk.

    Attributes
    ----------
    ended, cut, gap : (k,) arrays of bool
        Rows that end an episode, lead to no other row, or should lead to the next row but do not.
    counts : (k,) array of bool
        Rows whose duration is known. Without a clock, all.
    durations : (k,) array
        How long these last; 0 for others, and without a clock.
    """

    def __init__(
        self,
        chunk: Chunk,
        behind: Chunk | None,
        limits: Limits,
        clock: RowClock | None = None,
        is_end: bool = True,
        actions: Limits | None = None,
    ) -> None:
        self.chunk, self.behind, self.limits = chunk, behind, limits
        self.actions, self.is_end = actions, is_end
        self.size = len(chunk["reward"])
        none = np.zeros(self.size, dtype=np.bool_)
        self.ended = self._flags("terminated")
        self.cut = self._flags("truncated")
        if "episode" in chunk:
            self.cut |= self._differs("episode", chunk["episode"], self._following("episode"))
        if behind is None and "next" in chunk:
            self.cut[-1] = True  # the very last row, which still leads somewhere
        self.cut &= ~self.ended
        self.gap = none
        inside = ~(self.ended | self.cut)
        if behind is None:
            inside[-1] = False
        if "next" in chunk:
            self.gap = self.gap | (inside & self._differs("next", chunk["next"], self._following("state")))
        if "step" in chunk:
            self.gap = self.gap | (inside & self._differs("step", chunk["step"] + 1, self._following("step")))
        self.clock, self.odd = clock, list[Flaw]()
        self.leaves = ~inside  # to another trajectory, or to something outside the log
        if clock is not None:
            self.counts, self.durations = (
                self._by_times(clock, is_end, inside) if clock.role == "time" else self._by_durations(inside)
            )

    def _by_times(self, clock: RowClock, is_end: bool, inside: Bools) -> tuple[Bools, Floats]:
        """Return which rows count, and how long they last: until the next row, or until the end."""
        begin, behind = self.chunk["time"], self._following("time")
        is_last = np.zeros(self.size, dtype=np.bool_)
        is_last[-1] = self.behind is None
        anew = behind < begin
        self.gap = self.gap | (inside & anew)
        durations = clock.between(begin, behind)
        counts = (inside & ~self.gap) | (self.ended & ~anew & ~is_last)
        if (self.ended & anew).any():
            row = int(np.argmax(self.ended & anew))
            words = "it ends an episode (terminated), and the clock restarts after it: how long it lasted "
            self.odd.append(
                Flaw(row, f"{words}is not known, a column of durations would say it (duration=...)")
            )
        if clock.end is not None:
            to_end = (self.cut & anew) | (is_last & is_end)
            durations[to_end] = clock.between(begin[to_end], clock.end)
            late = to_end & (durations < 0.0)
            if late.any():
                self.odd.append(Flaw(int(np.argmax(late)), "its time is after the given end, end=..."))
            counts |= to_end & ~late
        durations[~counts] = 0.0
        return counts, durations

    def _by_durations(self, inside: Bools) -> tuple[Bools, Floats]:
        """Return which rows count, and how long they last; only a last row may lack its duration."""
        durations = self.chunk["duration"]
        missing = np.isnan(durations)
        if missing.any():
            durations = np.where(missing, 0.0, durations)
            between = missing & (inside | self.ended)
            if between.any():
                self.odd.append(Flaw(int(np.argmax(between)), "the duration is missing"))
        return ~missing, durations

    def _flags(self, role: str) -> Bools:
        if role not in self.chunk:
            return np.zeros(self.size, dtype=np.bool_)
        return np.array(self.chunk[role], dtype=np.bool_)

    def _following(self, role: str) -> NDArray[Any]:
        """Return a column, shifted by one row; the very last row is followed by itself."""
        column = self.chunk[role]
        last = column[-1:] if self.behind is None else self.behind[role][:1]
        return np.concatenate([column[1:], last])

    def _differs(self, role: str, expected: NDArray[Any], found: NDArray[Any]) -> Bools:
        different = expected != found
        if different.ndim > 1:
            different = different.any(axis=1)
        if different.any() and role != "episode" and expected.dtype.kind == "f":
            rows = np.flatnonzero(different)
            close = np.isclose(expected[rows], found[rows], rtol=JOIN_ROUNDING, atol=0.0)
            different[rows] = ~close.reshape(len(rows), -1).all(axis=1)
        return np.asarray(different)

    def sound_rows(self, gaps: str) -> tuple[int, Flaw | None]:
        """Return how many rows are valid, and the first that is not, with what is wrong."""
        chunk, found = self.chunk, list(self.odd)
        for role, limits in (("state", self.limits), ("reward", ANY_REWARD), ("reward_rate", ANY_REWARD)):
            flaw = first_flaw(chunk[role], limits) if role in chunk else None
            if flaw is not None:
                found.append(Flaw(flaw.place, f"the {role.replace('_', ' ')} is {flaw.what}"))
        found += self._flaws_of_actions()
        if "next" in chunk:
            used = np.flatnonzero(~self.ended)  # where episodes end it does not matter, and is often missing
            flaw = first_flaw(chunk["next"][used], self.limits)
            if flaw is not None:
                found.append(Flaw(int(used[flaw.place]), f"the next state is {flaw.what}"))
        first = min(found, default=None)
        if gaps == "error" and self.gap.any():
            row = int(np.flatnonzero(self.gap)[0])
            if first is None or row + 1 < first.place:
                return row + 1, Flaw(row, self._gap_in_words(row))
        return (self.size, None) if first is None else (first.place, first)

    def _flaws_of_actions(self) -> list[Flaw]:
        """Return the first action that the policy does not know, and the first invalid probability."""
        found = []
        if self.actions is not None and "action" in self.chunk:
            flaw = first_flaw(self.chunk["action"], self.actions)
            if flaw is not None:
                known = f", and the policy knows 0 to {self.actions.high:g}" if self.actions.whole else ""
                found.append(Flaw(flaw.place, f"the action is {flaw.what}{known}"))
        if "chance" in self.chunk:
            chances = self.chunk["chance"]
            [wrong] = np.nonzero(~((chances > 0.0) & (chances <= 1.0)))
            if len(wrong):
                words = f"the probability of its action is {chances[wrong[0]]}, must be above 0 and at most 1"
                found.append(Flaw(int(wrong[0]), words))
        return found

    def _gap_in_words(self, row: int) -> str:
        chunk = self.chunk
        if "next" in chunk and self._differs("next", chunk["next"], self._following("state"))[row]:
            words = f"its next state is {chunk['next'][row]}, the row after it is at "
            words += f"{self._following('state')[row]}"
        elif self.clock is not None and self._is_backwards(row):
            words = "the time of the row after it is earlier than its own"
        else:
            words = f"its step is {chunk['step'][row]}, the row after it has {self._following('step')[row]}"
        return (
            f"{words}. Rows are missing or not in order of time: sort them, tell episodes apart by a "
            "column, or pass gaps='break'"
        )

    def _is_backwards(self, row: int) -> bool:
        return "time" in self.chunk and bool(self._following("time")[row] < self.chunk["time"][row])

    def path(self, size: int) -> Path:
        """Return the path of the first `size` rows, with an extra row where a cut leads to a known state."""
        return self._path(size) if self.clock is None else self._timed_path(size)

    def _timed_path(self, size: int) -> Path:
        """Return the path of the first `size` rows, with how long they last.

        A row counts if its duration is known. If it is not known where it led, the path stops there.
        """
        chunk, counts, durations = self.chunk, self.counts[:size], self.durations[:size]
        states, rewards = chunk["state"][:size], chunk["reward"][:size].astype(np.float64)
        if "reward_rate" in chunk:
            rewards = rewards + chunk["reward_rate"][:size] * durations
        left = np.full(size, Left.BY_STEP, dtype=np.int8)
        left[self.ended[:size]] = Left.BY_END
        left[~counts] = Left.BY_CUT
        stops = (self.leaves | self.gap)[:size] & counts & ~self.ended[:size]
        if "next" not in chunk or not stops.any():
            left[stops] = Left.BY_STOP
            return Path(states, rewards, left, 0, durations, self._beside(size))
        behind = np.flatnonzero(stops) + 1
        return Path(
            np.insert(states, behind, chunk["next"][:size][stops], axis=0),
            np.insert(rewards, behind, 0.0),
            np.insert(left, behind, Left.BY_CUT),
            0,
            np.insert(durations, behind, 0.0),
            self._beside(size, behind),
        )

    def _beside(self, size: int, behind: Ints | None = None) -> Beside:
        """Return columns that are passed along; an inserted row repeats the row before it."""
        columns = {role: self.chunk[role][:size] for role in BESIDE if role in self.chunk}
        if behind is None:
            return columns
        return {role: np.insert(part, behind, part[behind - 1], axis=0) for role, part in columns.items()}

    def _path(self, size: int) -> Path:
        chunk = self.chunk
        left = np.zeros(size, dtype=np.int8)
        left[self.ended[:size]] = Left.BY_END
        cut = (self.cut | self.gap)[:size]
        states, rewards = chunk["state"][:size], chunk["reward"][:size].astype(np.float64)
        if "next" not in chunk:
            left[cut] = Left.BY_CUT
            return Path(states, rewards, left, beside=self._beside(size))
        if not cut.any():
            return Path(states, rewards, left, beside=self._beside(size))
        behind = np.flatnonzero(cut) + 1
        return Path(
            np.insert(states, behind, chunk["next"][:size][cut], axis=0),
            np.insert(rewards, behind, 0.0),
            np.insert(left, behind, Left.BY_CUT),
            beside=self._beside(size, behind),
        )


def _came_back(episodes: NDArray[Any], begun: dict[Any, int], offset: int) -> Flaw | None:
    """Find an episode that comes back after others; `begun` has the first row of each, and is updated."""
    starts = np.append(0, np.flatnonzero(episodes[1:] != episodes[:-1]) + 1)
    for place, name in zip(starts.tolist(), episodes[starts].tolist(), strict=True):
        goes_on = place == 0 and begun and name == next(reversed(begun))  # from the chunk before
        if name in begun and not goes_on:
            return Flaw(
                place,
                f"episode {name!r}, which began in row {begun[name]}, comes back after others. Rows are not "
                "in order of time: sort them by episode; or if another one has the same name, pass "
                "gaps='break'",
            )
        if len(begun) >= MOST_EPISODES:
            return None
        begun.setdefault(name, offset + place)
    return None


def _of_right_kind(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass on rows up to the first element of the wrong kind, and then raise `BrokenStream`."""
    offset = 0
    for chunk in chunks:
        _check_shapes(chunk)
        sound, odd = _without_odd_rows(chunk)
        if len(sound["reward"]):
            yield sound
        if odd is not None:
            raise BrokenStream(f"row {offset + odd.place} of the log: {odd.what}")
        offset += len(chunk["reward"])


def _check_shapes(chunk: Chunk) -> None:
    """Refuse columns of the wrong shape."""
    if chunk["reward"].ndim > 1:
        raise ValueError(
            f"rewards are vectors of length {chunk['reward'].shape[1]}: choose a weight for each number, for "
            "example rewards @ weights"
        )
    if "next" in chunk and chunk["next"].shape != chunk["state"].shape:
        raise ValueError(
            f"next states have shape {chunk['next'].shape[1:]}, states have {chunk['state'].shape[1:]}"
        )


def _without_odd_rows(chunk: Chunk) -> tuple[Chunk, Flaw | None]:
    """Return the rows before the first element of the wrong kind, and what that is."""
    found, mixed = [], []
    for role, kinds in COLUMN_KINDS.items():
        column = chunk.get(role)
        if column is None or column.dtype.kind in kinds:
            continue
        wanted = "true or false" if kinds == "b" else "numbers"
        place = first_odd(column, kinds)
        if place < len(column):
            [odd] = column[place : place + 1].tolist()
            what = f"the {IN_WORDS.get(role, role)} is {odd!r}, must be {wanted}"
            found.append(Flaw(place, what))
        mixed.append(role)
    first = min(found, default=None)
    sound = {role: column[: None if first is None else first.place] for role, column in chunk.items()}
    kind = {role: np.bool_ if COLUMN_KINDS[role] == "b" else np.float64 for role in mixed}
    return sound | {role: sound[role].astype(kind[role]) for role in mixed}, first


def first_odd(column: NDArray[Any], kinds: str) -> int:
    """Return the position of the first element of the wrong kind, or the length if there is none."""
    if kinds == "b" and column.dtype.kind in "iu":
        return int(np.argmax(np.append((column != 0) & (column != 1), True)))
    for place, element in enumerate(column):
        kind = np.asarray(element).dtype.kind
        if kind not in kinds and not (kinds == "b" and kind in "iu" and element in (0, 1)):
            return place
    return len(column)


def _note_once(notes: list[str], note: str) -> None:
    if not any(note[:20] == other[:20] for other in notes):
        notes.append(note)
