"""Read a log as a stream of transitions, in bounded memory; errors are reported with their row.

Start with `log_stream`. Rows of tables and files pass through `columns` and `clocks`, and become pieces of a
path in `rows`. Episodes of a Minari dataset become pieces in `episode_pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
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
    no_column,
)
from gainbias.evaluation.sources.readers import is_number, table_of
from gainbias.evaluation.sources.rows import first_odd, row_pieces
from gainbias.evaluation.sources.spaces import ANY_REWARD, ONE_STATE, Limits, first_flaw, limits_of
from gainbias.evaluation.sources.times import RowClock, clocked
from gainbias.evaluation.stream import (
    STEP,
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
    reward_rate: str | None = None,
    time: str | None = None,
    duration: str | None = None,
    end: Any = None,
    per: str | float | None = None,
    num_states: int | None = None,
    gaps: Literal["error", "break"] = "error",
    on_termination: OnTermination = "zero",
    batch_size: int = 65_536,
) -> Stream:
    """Read the transitions of a log.

    A row has a state, the reward of the step out of it, and perhaps where that step led. Otherwise it led to
    the state of the next row, unless an episode was over. A log without states is treated as if it had only
    one state. Every row is one step, or lasts as long as a column of times or durations says. If there is
    such a column that was not named, and rows are not evenly spaced by it, a warning says so.

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
        Column of states, or several columns that together are the state.
    reward, episode, terminated, truncated, step : str, optional
        Other columns. Those with usual names are found automatically; only states and rewards are required.
        A new value in `episode` begins an episode, which does not come back; `step` grows by 1 within one.
    reward_rate, time, duration, end, per
        As for `evaluate_log`.
    num_states : int, optional
        Number of discrete states. Without it the log is read a first time to find the largest.
    gaps : {"error", "break"}
        What to do if a row does not follow from the one before it, by the next state, `step` or `episode`.
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
    notes: list[str] = []
    warnings: list[str] = []
    check_on_termination(on_termination)
    opened = open_log(
        log,
        notes,
        warnings,
        columns={
            "state": state,
            "reward": reward,
            "next": next_state,
            "episode": episode,
            "terminated": terminated,
            "truncated": truncated,
            "step": step,
            "reward_rate": reward_rate,
        },
        time=time,
        duration=duration,
        end=end,
        per=per,
        num_states=num_states,
        gaps=gaps,
        batch_size=batch_size,
    )
    source = Timed(opened.pieces)
    first, pieces = peeked(source)
    observed = observation_map(opened.limits, features, first.observations, on_termination)
    if not opened.has_states:
        observed = replace(observed, description="none: the log has no states")
    batches = _not_empty(transitions(pieces, observed, on_termination, notes))
    return Stream(observed, batches, 1, notes, source, warnings, opened.has_states, opened.unit)


@dataclass(frozen=True, eq=False)
class OpenLog:
    """A log whose rows can be read once.

    Attributes
    ----------
    pieces : iterator of Path
    limits : Limits
        Of states.
    has_states : bool
    clock : RowClock or None
        Tells how long rows last; None if every row is one step.
    actions : Limits or None
        Of actions, if a column of them was named.
    """

    pieces: Iterator[Path]
    limits: Limits
    has_states: bool = True
    clock: RowClock | None = None
    actions: Limits | None = None

    @property
    def unit(self) -> str:
        """The unit of durations, which is known once a row was read; `STEP` if there are none."""
        return STEP if self.clock is None else self.clock.unit


def open_log(
    log: Any,
    notes: list[str],
    warnings: list[str],
    *,
    columns: Mapping[str, Name | None],
    time: str | None = None,
    duration: str | None = None,
    end: Any = None,
    per: str | float | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    gaps: Literal["error", "break"] = "error",
    batch_size: int = 65_536,
) -> OpenLog:
    """Open a log to be read once, and add to `notes` and `warnings`.

    Parameters
    ----------
    log, time, duration, end, per, gaps, batch_size
        As for `log_stream`.
    notes, warnings : list of str
    columns : mapping
        The name of the column for each role, or None if it is to be found automatically.
    num_states, num_actions : int, optional
        Without them the log is read a first time to find the largest.
    """
    if gaps not in ("error", "break"):
        raise ValueError(f"gaps must be 'error' or 'break', found {gaps!r}")
    if num_states is not None:
        check_counts(num_states=num_states)
    given = dict(columns)
    reward, reward_rate = given.get("reward"), given.get("reward_rate")
    _check_time(time, duration, end, per, reward_rate)
    if hasattr(log, "iterate_episodes"):
        if time is not None or duration is not None:
            raise ValueError(
                "a Minari dataset has no column of times: make a table of it, with a column of durations"
            )
        found = limits_of(log.observation_space)
        if found is None:
            raise ValueError(f"observations must be numbers, found the space {log.observation_space}")
        actions = limits_of(log.action_space) if "action" in given else None
        return OpenLog(episode_pieces(log.iterate_episodes(), found, batch_size), found, actions=actions)
    table, clock = table_of(log, batch_size), None
    notes += table.notes
    names = table.names + table.index
    if reward is None and reward_rate is not None and not _has_rewards(names, str(reward_rate)):
        del given["reward"]
    has_states = _has_states(names, given)
    if not has_states:
        given = {role: name for role, name in given.items() if role not in ("state", "next")}
        notes.append(
            f"the log has no column of states ({', '.join(USUAL_NAMES['state'])}), so there is a gain but no "
            "values of states: if another column has the states, name it, state=..."
        )
    chosen = chosen_columns(names, given)
    if time is not None or duration is not None:
        chosen, clock = _with_clock(table, chosen, time, duration, end, per)
        notes.insert(0, _rewards_in_words(chosen))
    unread = [name for name in NAMES_OF_ENDS if name in table.names and name not in chosen.values()]
    notes += [
        f"column {name} is not read: if it marks ends of episodes say "
        f"{argument('terminated', repr(name))}, if it marks cuts {argument('truncated', repr(name))}"
        for name in unread
    ]
    limits = _limits(table, chosen, "state", num_states) if has_states else ONE_STATE
    actions = _limits(table, chosen, "action", num_actions) if "action" in chosen else None
    if clock is None:
        clocks = clocks_of(table, chosen)
        chunks = watched(table.chunks(chosen | roles_of(clocks)), clocks, notes, warnings)
    else:
        chunks = clocked(_with_rewards(table.chunks(chosen)), clock)
    if not has_states:
        chunks = _in_one_state(chunks)
    pieces = row_pieces(chunks, limits, gaps, notes, warnings, clock, actions)
    pieces = _counted(pieces, table.counting)
    return OpenLog(pieces, limits, has_states, clock, actions)


def _counted(pieces: Iterator[Path], counting: str) -> Iterator[Path]:
    """Pass on pieces, and say how rows are counted if one is wrong."""
    try:
        yield from pieces
    except BrokenStream as error:
        raise BrokenStream(f"{error}{counting}") from error


def _check_time(time: Any, duration: Any, end: Any, per: Any, reward_rate: Any) -> None:
    """Refuse arguments about time that do not fit together."""
    if time is not None and duration is not None:
        raise ValueError("time and duration both say how long a row lasts: leave out one of them")
    if end is not None and time is None:
        raise ValueError("end is for a column of times: say which it is, time=...")
    for name, value in (("reward_rate", reward_rate), ("per", per)):
        if value is not None and time is None and duration is None:
            raise ValueError(f"{name} needs times: say which column has them, time=... or duration=...")


def _has_rewards(names: list[str], reward_rate: str) -> bool:
    """Whether a column of rewards is found automatically, in addition to the one of rates."""
    return any(name in names and name != reward_rate for name in USUAL_NAMES["reward"])


def _with_clock(
    table: Table, columns: dict[str, Name], time: str | None, duration: str | None, end: Any, per: Any
) -> tuple[dict[str, Name], RowClock]:
    """Return the columns, including the one that tells how long rows last, and the clock that reads it."""
    role, name = ("time", time) if duration is None else ("duration", duration)
    if not isinstance(name, str):
        raise ValueError(f"{role} must be the name of a column, found {type(name).__name__}")
    if name not in table.names + table.index:
        raise ValueError(no_column(name, table.names + table.index, role))
    if table.names.count(name) > 1:
        raise ValueError(f"the log has several columns {name!r}: rename or drop all but one")
    return columns | {role: name}, RowClock(role, name, per, end, table.is_zoned(name))


def _rewards_in_words(chosen: Mapping[str, Name]) -> str:
    """Return how the columns of rewards are read, which the log cannot tell: in sums or in levels."""
    reward, rate = chosen.get("reward"), chosen.get("reward_rate")
    if reward is None:
        return (
            f"column {rate} was read as a level that holds for as long as the row lasts: the gain is its "
            "mean over time, in any unit of time"
        )
    if rate is None:
        return (
            f"column {reward} was counted once per row; if it is a level that holds until the next row, as "
            f"the length of a queue, say reward_rate={reward!r}"
        )
    return f"column {reward} was counted once per row, column {rate} for as long as the row lasts"


def _with_rewards(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass on rows; those with only a rate pay nothing at once."""
    for chunk in chunks:
        yield chunk if "reward" in chunk else chunk | {"reward": np.zeros(len(chunk["reward_rate"]))}


def _has_states(names: list[str], given: Mapping[str, Name | None]) -> bool:
    """Whether a log has states: columns that the user named, or one with a usual name."""
    is_said = given["state"] is not None or given["next"] is not None
    return is_said or any(name in names for name in USUAL_NAMES["state"])


def _in_one_state(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Put all rows of a log without states into one state, to which each of them leads."""
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


def _limits(table: Table, columns: dict[str, Name], role: str, count: int | None) -> Limits:
    """Return the limits of states or actions: from 0 to the largest if they are single integers."""
    also = [other for other in ("next", "terminated") if role == "state" and other in columns]
    chunks = table.chunks({part: columns[part] for part in (role, *also)})
    first: Chunk = next(chunks, {role: np.empty(0)})
    found = first[role]
    if not len(found):
        raise ValueError("the log is empty: at least two rows are needed")
    if found.dtype.kind not in "iufb" or found.ndim > 2:
        place = first_odd(found, "iufb")
        odd = found[place : place + 1].tolist()
        what = (
            f"{odd[0]!r} in row {place}{table.counting}"
            if odd
            else f"dtype {found.dtype}, shape {found.shape[1:]}"
        )
        raise ValueError(
            f"{role}s must be integers or numbers, found {what}: number other things, for example with "
            "pandas.factorize"
        )
    whole = found.ndim == 1 and found.dtype.kind in "iub"
    if not whole:
        shape = found.shape[1:]
        return Limits(shape, np.full(shape, -np.inf), np.full(shape, np.inf), whole=False)
    if count is None:
        largest = _largest(first, role)
        with suppress(BrokenStream):  # errors in later ones are reported when they are read
            for chunk in chunks:
                largest = max(largest, _largest(chunk, role))
        count = max(1, int(largest) + 1)
    return Limits((), np.array(0.0), np.array(float(count - 1)), whole=True)


def _largest(chunk: Chunk, role: str) -> float:
    """Return the largest number of some rows; if it is of states, also of those to which rows lead."""
    numbers = _readable(chunk[role])
    largest = float(np.max(numbers, initial=0, where=np.isfinite(numbers)))
    after, ends = chunk.get("next"), chunk.get("terminated", np.zeros(1, dtype=np.bool_))
    if after is None or after.ndim > 1 or not {after.dtype.kind, ends.dtype.kind} <= set("iub"):
        return largest  # what is wrong with them is reported when they are read
    used = np.broadcast_to(ends == 0, after.shape)  # where an episode ends, no next state is needed
    return max(largest, float(np.max(after[used], initial=0)))


def _readable(column: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers of a column, of which some may be texts."""
    if column.dtype.kind in "iufb":
        return column
    return np.array([float(entry) for entry in column.tolist() if is_number(str(entry))])


def episode_pieces(episodes: Iterable[Any], limits: Limits, size: int) -> Iterator[Path]:
    """Turn episodes into pieces of a path with at least `size` observations each, except the last.

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
        An episode that does not end (terminated) is cut after its last observation.
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
        beside={name: np.concatenate([path.beside[name] for path in paths]) for name in paths[0].beside},
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
    actions = np.asarray(getattr(episode, "actions", ()))
    has_actions = len(actions) == len(rewards)
    left = np.zeros(len(observations), dtype=np.int8)
    if len(rewards) and episode.terminations[-1]:
        left[-2] = Left.BY_END
        return Path(observations[:-1], rewards, left[:-1], beside={"action": actions} if has_actions else {})
    left[-1] = Left.BY_CUT
    beside = {"action": np.concatenate([actions, actions[-1:]])} if has_actions and len(actions) else {}
    return Path(observations, np.append(rewards, 0.0), left, beside=beside)
