"""Read columns of a log, some rows at a time, from arrays, tables and files.

PyArrow is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.stream import BrokenStream
from gainbias.extras import require
from gainbias.suggest import did_you_mean_or_known

Chunk: TypeAlias = dict[str, NDArray[Any]]
"""Some rows of all columns, under the names of their roles: "state", "reward" and so on."""

USUAL_NAMES = {
    "state": ("state", "observation", "obs"),
    "reward": ("reward",),
    "next": ("next", "next_state", "next_observation", "next_obs"),
    "episode": ("episode", "episode_id"),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
    "step": ("step",),
    "time": (),
    "duration": (),
    "reward_rate": (),
}
"""Names under which a column is found by itself, for each role."""

OWN_ARGUMENTS = ("state", "reward", "reward_rate", "time", "duration")
"""Roles of columns that are arguments of `evaluate_log` themselves."""

NAMES_OF_ENDS = ("done", "dones", "terminal", "terminals", "timeout", "timeouts")
"""Columns under these names may mark ends or cuts of episodes: which of them, their names do not say."""

ENDS_OF_CSV = (".csv", ".csv.gz")
"""Files with names that end like this are read as CSV, all others as Parquet."""

READ_BUFFER = 2**20
"""Bytes of a Parquet file that are read at once."""

INDEX = "(index)"
"""In the place of the name of a column: the index of a table of pandas."""

Name: TypeAlias = "str | tuple[str, ...]"
"""A column, or columns that make up vectors together."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a log other than state and reward, for `evaluate_log`.

    Parameters
    ----------
    next_state : str or tuple of str, optional
        State to which the step of a row led; several columns if a state has several numbers.
    episode : str, optional
        A new value begins an episode. An episode does not come back.
    terminated : str, optional
        Whether the step of a row ended its episode.
    truncated : str, optional
        Whether the episode was cut off after the step of a row, without an end.
    step : str, optional
        Number of the step, which grows by 1 within an episode.

    Examples
    --------
    >>> import gainbias as gb
    >>> log = {"state": [0, 1] * 4, "reward": [1.0, 3.0] * 4, "run": [1] * 4 + [2] * 4}
    >>> gb.evaluate_log(log, columns=gb.Columns(episode="run")).diagnostics.num_transitions
    6

    A dictionary says the same:

    >>> gb.evaluate_log(log, columns={"episode": "run"}).diagnostics.num_transitions
    6
    """

    next_state: Name | None = None
    episode: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    step: str | None = None


def as_columns(given: Columns | Mapping[str, Name] | None) -> Columns:
    """Return columns that were given as a record, as a mapping or not at all."""
    if given is None or isinstance(given, Columns):
        return given or Columns()
    if not isinstance(given, Mapping):
        raise ValueError(f"columns must be a mapping or gainbias.Columns, found {given!r}")
    for role in given:
        if role in OWN_ARGUMENTS:
            raise ValueError(f"{role} is an argument of its own: leave it out of columns, and say {role}=...")
        known = [one.name for one in fields(Columns)]
        if role not in known:
            raise ValueError(f"columns: unknown key {role!r}: {did_you_mean_or_known(role, known)}")
    chosen: Any = dict(given)
    return Columns(**chosen)


def argument(role: str, name: str) -> str:
    """Return how a user of `evaluate_log` says which column has a role.

    Examples
    --------
    >>> argument("reward", "'earned'"), argument("episode", "'run'")
    ("reward='earned'", "columns={'episode': 'run'}")
    """
    return f"{role}={name}" if role in OWN_ARGUMENTS else f"columns={{{role!r}: {name}}}"


@dataclass(frozen=True, eq=False)
class Table:
    """A log that can be read.

    Attributes
    ----------
    chunks : callable
        From names of columns for each role to chunks of rows, in their order. It may be called again.
    names : list of str
        All columns.
    times : list of str
        Those of dates, times or durations by their type, among columns and index.
    index : list of str
        Levels of the index of a table of pandas, which are read like columns; `INDEX` if it has no name.
    zoned : list of str
        Those of `times` that have a time zone. They are read in universal time.
    fits : callable
        Whether a column, given its name, has a number or a text for each row of another one. True and
        false are no numbers here.
    """

    chunks: Callable[[dict[str, Name]], Iterator[Chunk]]
    names: list[str]
    times: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    fits: Callable[[str, Name], bool] = lambda name, other: True
    zoned: list[str] = field(default_factory=list)


def table_of(log: Any, size: int) -> Table:
    """Return a log as a table that is read `size` rows at a time.

    Parameters
    ----------
    log : mapping, tuple of arrays, table or path
        Columns by name; states, rewards and perhaps next states; a table of pandas, PyArrow or any library
        that shares its tables as Arrow streams; or the path of a Parquet file, which is read in parts, or
        of a CSV file, which is read as a whole.
    size : int
        Rows in a chunk, at most.

    Examples
    --------
    >>> table = table_of({"state": [0, 1, 0], "reward": [1.0, 0.0, 1.0]}, size=2)
    >>> table.names, [len(chunk["reward"]) for chunk in table.chunks({"reward": "reward"})]
    (['state', 'reward'], [2, 1])
    """
    if isinstance(log, tuple):
        if len(log) not in (2, 3):
            raise ValueError(
                f"a tuple must have states, rewards and perhaps next states, found {len(log)} parts"
            )
        log = dict(zip(("state", "reward", "next"), log, strict=False))
    if isinstance(log, str | os.PathLike):
        return _csv(log, size) if os.fspath(log).lower().endswith(ENDS_OF_CSV) else _parquet(log, size)
    if isinstance(log, Mapping) or (hasattr(log, "columns") and hasattr(log, "iloc")):
        return _in_memory(log, size)
    if hasattr(log, "to_batches"):
        return _arrow_table(log, size)
    if hasattr(log, "__arrow_c_stream__"):
        return _arrow_stream(log)
    raise ValueError(
        "a log must be a mapping of columns, a tuple of arrays, a pandas or PyArrow table, the path of a "
        f"Parquet or CSV file or a Minari dataset, found {type(log).__name__}"
    )


def chosen_columns(names: list[str], given: Mapping[str, Name | None]) -> dict[str, Name]:
    """Return the name of the column for each role that has one.

    Examples
    --------
    >>> chosen_columns(["x", "observation", "reward"], {"state": None, "episode": None, "reward": None})
    {'state': 'observation', 'reward': 'reward'}
    """
    chosen: dict[str, Name] = {}
    for role, name in given.items():
        if name is not None:
            name = name if isinstance(name, str) else tuple(name)
            missing = [part for part in ((name,) if isinstance(name, str) else name) if part not in names]
            if missing:
                raise ValueError(f"the log has no column {missing[0]!r}, it has {', '.join(names)}")
            chosen[role] = name
        else:
            found = [usual for usual in USUAL_NAMES[role] if usual in names]
            if len(found) > 1:
                own = "next_state" if role == "next" else role
                raise ValueError(
                    f"columns {', '.join(found)} may all be the {role}: say {argument(own, '...')} which is"
                )
            if found:
                chosen[role] = found[0]
            elif role in ("state", "reward"):
                raise ValueError(
                    f"the log has no column {' or '.join(USUAL_NAMES[role])}, it has {', '.join(names)}: say "
                    f"which is meant, {role}=...; if there are no states, but one column of numbers, use "
                    "evaluate_series(..., column=...), on the command line --column"
                )
    twice = [part for part in parts_of(chosen) if names.count(part) > 1]
    if twice:
        raise ValueError(f"the log has several columns {twice[0]!r}: rename or drop all but one")
    return chosen


def _in_memory(log: Any, size: int) -> Table:
    names = [str(name) for name in log]  # a name may be a number
    levels = _index_levels(log, names) if hasattr(log, "iloc") else {}
    originals = {str(name): name for name in log}

    def column(name: str) -> Any:
        return levels[name] if name in levels else log[originals[name]]

    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        columns = {role: _array(column, name) for role, name in roles.items()}
        lengths = {role: len(column) for role, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of a log must have the same length, found {lengths}")
        for start in range(0, max(lengths.values()), size):
            yield {role: column[start : start + size] for role, column in columns.items()}

    def fits(name: str, other: Name) -> bool:
        rows = len(column(other if isinstance(other, str) else other[0]))
        found = column(name)
        return np.shape(found) == (rows,) and not _has_truths(found)

    kinds = {name: getattr(column(name), "dtype", None) for name in (*names, *levels)}
    times = [name for name, kind in kinds.items() if _is_time(kind)]
    zoned = [name for name in times if getattr(kinds[name], "tz", None) is not None]
    return Table(chunks, names, times, list(levels), fits, zoned)


def _index_levels(frame: Any, names: list[str]) -> dict[str, Any]:
    """Return the levels of the index of a table of pandas by name; without those named like a column."""
    index = frame.index
    found = {}
    for level, name in enumerate(index.names):
        label = str(name) if name is not None else INDEX if index.nlevels == 1 else f"(index {level})"
        if label not in names:
            found[label] = index.get_level_values(level)
    return found


def _has_truths(column: Any) -> bool:
    """Whether a column is of true and false."""
    array = np.asarray(column)
    if array.dtype.kind != "O":
        return array.dtype.kind == "b"
    first = next((entry for entry in array.flat if entry is not None), None)
    return isinstance(first, bool | np.bool_)


def _is_time(kind: Any) -> bool:
    """Whether a dtype of NumPy or pandas is that of dates, times, periods or durations."""
    return getattr(kind, "kind", "") in ("M", "m") or type(kind).__name__ == "PeriodDtype"


def _array(column_of: Callable[[str], Any], name: Name) -> NDArray[Any]:
    if isinstance(name, tuple):
        return np.stack([_array(column_of, part) for part in name], axis=1)
    column = column_of(name)
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        return np.ma.filled(column.astype(np.float64), np.nan)
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # of pandas, which would give objects
        return np.asarray(column.to_numpy(dtype="M8[ns]"))
    return np.asarray(column)


def _csv(path: str | os.PathLike[str], size: int) -> Table:
    require("data", "pyarrow")
    import pyarrow
    import pyarrow.csv

    if not os.path.exists(path):
        raise ValueError(f"there is no file {os.fspath(path)}")
    try:
        return _arrow_table(pyarrow.csv.read_csv(path), size)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{os.fspath(path)} is not a CSV file that can be read: {error}") from error


def _parquet(path: str | os.PathLike[str], size: int) -> Table:
    require("data", "pyarrow")
    from pyarrow import parquet

    def opened() -> Any:
        # Read through a small buffer: without it a whole column of a row group would be held.
        return parquet.ParquetFile(path, buffer_size=READ_BUFFER, pre_buffer=False)

    if not os.path.exists(path):
        raise ValueError(f"there is no file {os.fspath(path)}")
    try:
        with opened() as file:
            schema = file.schema_arrow
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)} is not a Parquet file that can be read (one in CSV must be called .csv or "
            f".csv.gz; any other can be passed as a table of pandas): {error}"
        ) from error

    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        rows = 0
        try:
            with opened() as file:
                for batch in file.iter_batches(batch_size=size, columns=parts_of(roles), use_threads=False):
                    yield _arrow_chunk(batch, roles)
                    rows += batch.num_rows
        except OSError as error:
            raise BrokenStream(f"row {rows} of the log, or one behind it, cannot be read: {error}") from error

    return _with_schema(chunks, schema)


def _arrow_table(log: Any, size: int) -> Table:
    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        if hasattr(log, "select"):  # a table in memory
            batches = log.select(parts_of(roles)).to_batches(max_chunksize=size)
        else:
            batches = log.to_batches(columns=parts_of(roles), batch_size=size)
        for batch in batches:
            if batch.num_rows:
                yield _arrow_chunk(batch, roles)

    return _with_schema(chunks, log.schema)


def _arrow_stream(log: Any) -> Table:
    require("data", "pyarrow")
    from pyarrow import RecordBatchReader

    if isinstance(log, RecordBatchReader):
        raise ValueError("a RecordBatchReader can be read only once: pass a table, a data set or a file")

    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        for batch in RecordBatchReader.from_stream(log):
            yield _arrow_chunk(batch, roles)

    return _with_schema(chunks, RecordBatchReader.from_stream(log).schema)


def _with_schema(chunks: Callable[[dict[str, Name]], Iterator[Chunk]], schema: Any) -> Table:
    from pyarrow import types

    def fits(name: str, other: Name) -> bool:
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        known = (
            types.is_decimal,
            types.is_integer,
            types.is_floating,
            types.is_temporal,
            types.is_string,
            types.is_large_string,
        )
        return any(is_kind(kind) for is_kind in known)

    names = list(schema.names)
    times = [name for name in names if names.count(name) == 1 and types.is_temporal(schema.field(name).type)]
    zoned = [name for name in times if getattr(schema.field(name).type, "tz", None) is not None]
    return Table(chunks, names, times, [], fits, zoned)


def parts_of(roles: dict[str, Name]) -> list[str]:
    """Return the columns that make up all roles."""
    parts = [part for name in roles.values() for part in ((name,) if isinstance(name, str) else name)]
    return list(dict.fromkeys(parts))


def _arrow_chunk(batch: Any, roles: dict[str, Name]) -> Chunk:
    def column(name: Name) -> NDArray[Any]:
        if isinstance(name, str):
            return _arrow_array(batch.column(name), name)
        return np.stack([_arrow_array(batch.column(part), part) for part in name], axis=1)

    return {role: column(name) for role, name in roles.items()}


def _arrow_array(column: Any, name: str) -> NDArray[Any]:
    """Return a column as an array; lists of one length as rows. Missing numbers become NaN."""
    from pyarrow import types

    kind = column.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if column.null_count:
        raise ValueError(f"column {name} has rows without a list: every row must have one")
    lengths = set(np.unique(column.value_lengths().to_numpy(zero_copy_only=False)).tolist())
    if len(lengths) > 1:
        raise ValueError(
            f"column {name} has lists of different lengths, from {min(lengths)} to {max(lengths)}"
        )
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), *lengths)
