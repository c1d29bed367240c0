"""Read a log as a stream of transitions, in bounded memory; what is wrong with it is said with the row.

Rows of tables and files come by way of `columns`, `time` and `rows`, episodes of a Minari dataset by
`episode_pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from gainbias.evaluation.observations import Choice, observation_map
from gainbias.evaluation.sources.columns import (
    NAMES_OF_ENDS,
    Name,
    Table,
    argument,
    chosen_columns,
    table_of,
)
from gainbias.evaluation.sources.rows import row_pieces
from gainbias.evaluation.sources.spaces import ANY_REWARD, Limits, first_flaw, limits_of
from gainbias.evaluation.sources.time import clocks_of, roles_of, watched
from gainbias.evaluation.stream.transitions import (
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
    the state of the next row, unless an episode was over. Every row is one step: times are not used, and if
    rows are not evenly spaced by a column of times or durations, a warning says so.

    Parameters
    ----------
    log : mapping, tuple of arrays, table, path or dataset
        Columns by name; ``(states, rewards)`` or ``(states, rewards, next)``; a table of pandas or PyArrow;
        the path of a Parquet file, which may be larger than memory, or of a CSV file; or a Minari dataset.
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
    if hasattr(log, "iterate_episodes"):
        found = limits_of(log.observation_space)
        if found is None:
            raise ValueError(f"observations must be numbers, found the space {log.observation_space}")
        limits, pieces = found, episode_pieces(log.iterate_episodes(), found, batch_size)
    else:
        table = table_of(log, batch_size)
        given = {"state": state, "reward": reward, "next": next_state, "episode": episode}
        columns = chosen_columns(
            table.names, given | {"terminated": terminated, "truncated": truncated, "step": step}
        )
        unread = [name for name in NAMES_OF_ENDS if name in table.names and name not in columns.values()]
        notes += [
            f"column {name} is not read: if it marks ends of episodes say "
            f"{argument('terminated', repr(name))}, if it marks cuts {argument('truncated', repr(name))}"
            for name in unread
        ]
        limits = _state_limits(table, columns, num_states)
        clocks = clocks_of(table, columns)
        chunks = watched(table.chunks(columns | roles_of(clocks)), clocks, notes, warnings)
        pieces = row_pieces(chunks, limits, gaps, notes)
    source = Timed(pieces)
    first, pieces = peeked(source)
    observed = observation_map(limits, features, first.observations, on_termination)
    batches = _not_empty(transitions(pieces, observed, on_termination, notes))
    return Stream(observed, batches, 1, notes, source, warnings)


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
