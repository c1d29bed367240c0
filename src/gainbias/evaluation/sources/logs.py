"""Read a log as a stream of transitions, in bounded memory; what is wrong with it is said with the row.

Start with `log_stream`. Rows of tables and files come by way of `columns` and `clocks`; `row_pieces` says
which row follows which, and makes pieces of a path of them. Episodes of a Minari dataset become pieces in
`episode_pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.observations import Choice, observation_map
from gainbias.evaluation.sources.clocks import clocks_of, roles_of, watched
from gainbias.evaluation.sources.columns import (
    NAMES_OF_ENDS,
    USUAL_NAMES,
    Chunk,
    Name,
    Table,
    argument,
    chosen_columns,
    table_of,
)
from gainbias.evaluation.sources.spaces import ANY_REWARD, Flaw, Limits, first_flaw, limits_of
from gainbias.evaluation.stream import (
    BrokenStream,
    Left,
    OnTermination,
    Path,
    Stream,
    Timed,
    Transitions,
    check_counts,
    check_on_termination,
    peeked,
    transitions,
)
from gainbias.types import Bools

COLUMN_KINDS = {
    "state": "iuf",
    "next": "iuf",
    "reward": "iufb",
    "terminated": "b",
    "truncated": "b",
    "step": "iuf",
}
"""Kinds of NumPy's dtypes that a column may have, for each role; 0 and 1 are true and false too."""

ONE_STATE = Limits((), np.array(0.0), np.array(0.0), whole=True)
"""Of the states of a log that has none."""

MOST_EPISODES = 100_000
"""Most episodes that are remembered, to notice one that comes back."""

JOIN_ROUNDING = 1e-6
"""Share of their size by which a next state and the state of the next row may differ."""


def log_stream(
    log: Any,
    *,
    features: Choice = "auto",
    state: Name | None = None,
    reward: str | None = None,
    next_state: Name | None = None,
    episode: str | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    step: str | None = None,
    num_states: int | None = None,
    gaps: Literal["error", "break"] = "error",
    on_termination: OnTermination = "zero",
    batch_size: int = 65_536,
) -> Stream:
    """Read the transitions of a log.

    A row has a state, the reward of the step out of it, and perhaps where that step led. Otherwise it led to
    the state of the next row, unless an episode was over. A log without states is in one state all the time.
    Every row is one step: times are not used, and if
    rows are not evenly spaced by a column of times or durations, a warning says so.

    Parameters
    ----------
    log : mapping, tuple of arrays, list of records, table, path or dataset
        Columns by name; ``(states, rewards)`` or ``(states, rewards, next)``; a list of named tuples, data
        classes, dictionaries or (time, value) pairs; a table of pandas, polars or PyArrow; the path of a
        Parquet file, of a folder of them, of a CSV file or of JSON lines (.jsonl, .ndjson), which may be
        larger than memory, or of a file that `read_requests` reads; or a Minari dataset.
    features : {"auto"}, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        See `observation_map`. States that are single integers are discrete, from 0.
    state, next_state : str or tuple of str, optional
        Column of states, or columns that make them up together.
    reward, episode, terminated, truncated, step : str, optional
        Other columns. Those with usual names are found by themselves; only states and rewards must be there.
        A new value in `episode` begins an episode, which does not come back; `step` grows by 1 within one.
    num_states : int, optional
        Number of discrete states. Without it the log is read a first time to find the largest.
    gaps : {"error", "break"}
        What to do where a row does not follow from the one before it, by the next state, `step` or `episode`.
    on_termination : {"zero", "reward"}
        As in `environment_stream`.
    batch_size : int
        Rows in a batch.

    Returns
    -------
    Stream

    Examples
    --------
    >>> stream = log_stream({"state": [0, 1, 0, 0], "reward": [1.0, 2.0, 3.0, 4.0]})
    >>> [batch] = stream
    >>> batch.here, batch.after, batch.rewards
    (array([0, 1, 0]), array([1, 0, 0]), array([1., 2., 3.]))
    """
    check_on_termination(on_termination)
    if gaps not in ("error", "break"):
        raise ValueError(f"gaps must be 'error' or 'break', found {gaps!r}")
    if num_states is not None:
        check_counts(num_states=num_states)
    notes: list[str] = []
    warnings: list[str] = []
    has_states = True
    if hasattr(log, "iterate_episodes"):
        found = limits_of(log.observation_space)
        if found is None:
            raise ValueError(f"observations must be numbers, found the space {log.observation_space}")
        limits, pieces = found, episode_pieces(log.iterate_episodes(), found, batch_size)
    else:
        table = table_of(log, batch_size)
        notes += table.notes
        given = {"state": state, "reward": reward, "next": next_state, "episode": episode}
        given |= {"terminated": terminated, "truncated": truncated, "step": step}
        has_states = _has_states(table.names, given)
        if not has_states:
            given = {role: name for role, name in given.items() if role not in ("state", "next")}
            notes.append(
                f"the log has no column {' or '.join(USUAL_NAMES['state'])}, so there is the gain alone, and "
                "no values: if another column is the state, say state=..."
            )
        columns = chosen_columns(table.names, given)
        unread = [name for name in NAMES_OF_ENDS if name in table.names and name not in columns.values()]
        notes += [
            f"column {name} is not read: if it marks ends of episodes say "
            f"{argument('terminated', repr(name))}, if it marks cuts {argument('truncated', repr(name))}"
            for name in unread
        ]
        limits = _state_limits(table, columns, num_states) if has_states else ONE_STATE
        clocks = clocks_of(table, columns)
        chunks = watched(table.chunks(columns | roles_of(clocks)), clocks, notes, warnings)
        if not has_states:
            chunks = _in_one_state(chunks)
        pieces = row_pieces(chunks, limits, gaps, notes)
    source = Timed(pieces)
    first, pieces = peeked(source)
    observed = observation_map(limits, features, first.observations, on_termination)
    if not has_states:
        observed = replace(observed, description="none: the log has no states")
    batches = _not_empty(transitions(pieces, observed, on_termination, notes))
    return Stream(observed, batches, 1, notes, source, warnings, has_states)


def _has_states(names: list[str], given: Mapping[str, Name | None]) -> bool:
    """Whether a log has states, or should have: not if it has rewards, and nothing was said about states."""
    has_rewards = given["reward"] is not None or any(name in names for name in USUAL_NAMES["reward"])
    is_said = given["state"] is not None or given["next"] is not None
    return is_said or not has_rewards or any(name in names for name in USUAL_NAMES["state"])


def _in_one_state(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Put all rows of a log without states into one state, which each of them leads to."""
    for chunk in chunks:
        nowhere = np.zeros(len(chunk["reward"]), dtype=np.int64)
        yield chunk | {"state": nowhere, "next": nowhere}


def _not_empty(batches: Iterator[Transitions]) -> Iterator[Transitions]:
    count = 0
    for batch in batches:
        yield batch
        count += len(batch)
    if not count:
        raise BrokenStream("no row of the log leads to another one: each is an episode of its own")


def _state_limits(table: Table, columns: dict[str, Name], num_states: int | None) -> Limits:
    """Return the limits of states: from 0 to the largest if they are single integers."""
    chunks = table.chunks({"state": columns["state"]})
    states = next(chunks, {"state": np.empty(0)})["state"]
    if not len(states):
        raise ValueError("the log is empty: at least two rows are needed")
    if states.dtype.kind not in "iuf" or states.ndim > 2:
        raise ValueError(
            f"states have dtype {states.dtype} and shape {states.shape}, they must be integers or numbers: "
            "number other things, for example with pandas.factorize"
        )
    whole = states.ndim == 1 and states.dtype.kind in "iu"
    if not whole:
        shape = states.shape[1:]
        return Limits(shape, np.full(shape, -np.inf), np.full(shape, np.inf), whole=False)
    if num_states is None:
        largest = float(states.max())
        with suppress(BrokenStream):  # what is wrong with later ones is spoken of when they are read
            for chunk in chunks:
                largest = float(np.fmax.reduce(chunk["state"], initial=largest))
        num_states = max(1, int(largest) + 1)
    return Limits((), np.array(0.0), np.array(float(num_states - 1)), whole=True)


def row_pieces(
    chunks: Iterator[Chunk], limits: Limits, gaps: Literal["error", "break"], notes: list[str]
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
    notes : list of str
        What was left out is noted here.

    Yields
    ------
    Path

    Raises
    ------
    BrokenStream
        After a last piece with what came before.
    """
    offset, unreadable = 0, None
    begun: dict[Any, int] = {}
    chunks = _of_right_kind(chunks)
    chunk = next(chunks, None)
    while chunk is not None:
        try:
            behind = next(chunks, None)
        except BrokenStream as error:
            behind, unreadable = None, error
        if behind is None and unreadable is None and offset + len(chunk["reward"]) < 2:
            raise ValueError(f"a log needs at least two rows, found {len(chunk['reward'])}")
        reader = _Reader(chunk, behind, limits)
        size, what = reader.sound_rows(gaps)
        back = _came_back(chunk["episode"], begun, offset) if "episode" in chunk and gaps == "error" else None
        if back is not None and back.place < size:
            size, what = back.place, back
        path = reader.path(size)
        if "next" not in chunk and (path.left == Left.BY_CUT).any():
            _note_once(
                notes,
                "the last row of an episode that does not end (terminated) is left out, because the log does "
                "not say where it led: a column of next states would",
            )
        if gaps == "break" and reader.gap.any():
            row = offset + int(np.flatnonzero(reader.gap)[0])
            _note_once(
                notes, f"there are gaps in the log, the first behind row {row}: each is taken as a break"
            )
        if len(path):
            yield path
        if what is not None:
            raise BrokenStream(f"row {offset + what.place} of the log: {what.what}")
        offset += len(chunk["reward"])
        chunk = behind
    if unreadable is not None:
        raise unreadable


class _Reader:
    """Reads a chunk of rows, together with the first row of the chunk behind it."""

    def __init__(self, chunk: Chunk, behind: Chunk | None, limits: Limits) -> None:
        self.chunk, self.behind, self.limits = chunk, behind, limits
        self.size = len(chunk["reward"])
        none = np.zeros(self.size, dtype=np.bool_)
        self.ended = self._flags("terminated")
        self.cut = self._flags("truncated")
        if "episode" in chunk:
            self.cut |= self._differs("episode", chunk["episode"], self._following("episode"))
        if behind is None and "next" in chunk:
            self.cut[-1] = True  # the last row of all, which still leads somewhere
        self.cut &= ~self.ended
        self.gap = none
        inside = ~(self.ended | self.cut)
        if behind is None:
            inside[-1] = False
        if "next" in chunk:
            self.gap = self.gap | (inside & self._differs("next", chunk["next"], self._following("state")))
        if "step" in chunk:
            self.gap = self.gap | (inside & self._differs("step", chunk["step"] + 1, self._following("step")))

    def _flags(self, role: str) -> Bools:
        if role not in self.chunk:
            return np.zeros(self.size, dtype=np.bool_)
        return np.array(self.chunk[role], dtype=np.bool_)

    def _following(self, role: str) -> NDArray[Any]:
        """Return a column, moved by one row; the last row of all is followed by itself."""
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
        """Return how many rows are sound, and the first that is not, with what is wrong."""
        chunk, found = self.chunk, []
        for role, limits in (("state", self.limits), ("reward", ANY_REWARD)):
            flaw = first_flaw(chunk[role], limits)
            if flaw is not None:
                found.append(Flaw(flaw.place, f"the {role} is {flaw.what}"))
        if "next" in chunk:
            used = np.flatnonzero(~self.ended)  # where episodes end it does not matter, and often is missing
            flaw = first_flaw(chunk["next"][used], self.limits)
            if flaw is not None:
                found.append(Flaw(int(used[flaw.place]), f"the next state is {flaw.what}"))
        first = min(found, default=None)
        if gaps == "error" and self.gap.any():
            row = int(np.flatnonzero(self.gap)[0])
            if first is None or row + 1 < first.place:
                return row + 1, Flaw(row, self._gap_in_words(row))
        return (self.size, None) if first is None else (first.place, first)

    def _gap_in_words(self, row: int) -> str:
        chunk = self.chunk
        if "next" in chunk and self._differs("next", chunk["next"], self._following("state"))[row]:
            words = f"its next state is {chunk['next'][row]}, the row behind it is at "
            words += f"{self._following('state')[row]}"
        else:
            words = f"its step is {chunk['step'][row]}, the row behind it has {self._following('step')[row]}"
        return (
            f"{words}. Rows are missing or not in the order of time: sort them, tell episodes apart by a "
            "column, or pass gaps='break'"
        )

    def path(self, size: int) -> Path:
        """Return the path of the first `size` rows, with a row more where a cut leads to a known state."""
        chunk = self.chunk
        left = np.zeros(size, dtype=np.int8)
        left[self.ended[:size]] = Left.BY_END
        cut = (self.cut | self.gap)[:size]
        states, rewards = chunk["state"][:size], chunk["reward"][:size].astype(np.float64)
        if "next" not in chunk:
            left[cut] = Left.BY_CUT
            return Path(states, rewards, left)
        if not cut.any():
            return Path(states, rewards, left)
        behind = np.flatnonzero(cut) + 1
        return Path(
            np.insert(states, behind, chunk["next"][:size][cut], axis=0),
            np.insert(rewards, behind, 0.0),
            np.insert(left, behind, Left.BY_CUT),
        )


def _came_back(episodes: NDArray[Any], begun: dict[Any, int], offset: int) -> Flaw | None:
    """Find an episode that comes back after others; `begun` has the first row of each, and is added to."""
    names = episodes.tolist()
    starts = np.append(0, np.flatnonzero(episodes[1:] != episodes[:-1]) + 1)
    for place in starts.tolist():
        name = names[place]
        goes_on = place == 0 and begun and name == next(reversed(begun))  # from the chunk before
        if name in begun and not goes_on:
            return Flaw(
                place,
                f"episode {name!r}, which began in row {begun[name]}, comes back after others. Rows are not "
                "in the order of time: sort them by episode; or if another one has the same name, pass "
                "gaps='break'",
            )
        if len(begun) >= MOST_EPISODES:
            return None
        begun.setdefault(name, offset + place)
    return None


def _of_right_kind(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass on rows up to the first element of a wrong kind, and then raise `BrokenStream`."""
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
    """Refuse columns that are not of the right shape."""
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
    """Return the rows before the first element of a wrong kind, and what that is."""
    found, mixed = [], []
    for role, kinds in COLUMN_KINDS.items():
        column = chunk.get(role)
        if column is None or column.dtype.kind in kinds:
            continue
        wanted = "true or false" if kinds == "b" else "numbers"
        place = _first_odd(column, kinds)
        if place < len(column):
            what = f"the {role} is {column[place]!r}, must be {wanted} (dtype {column.dtype})"
            found.append(Flaw(place, what))
        mixed.append(role)
    first = min(found, default=None)
    sound = {role: column[: None if first is None else first.place] for role, column in chunk.items()}
    kind = {role: np.bool_ if COLUMN_KINDS[role] == "b" else np.float64 for role in mixed}
    return sound | {role: sound[role].astype(kind[role]) for role in mixed}, first


def _first_odd(column: NDArray[Any], kinds: str) -> int:
    """Return the place of the first element of a wrong kind, or the length if there is none."""
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
        Observations in a piece, at least.

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
