"""Read columns of numbers, some rows at a time, as often as needed; errors are reported with their row.

`numbers_of` takes an array, a table or the path of a file. Its answer, `NumberSource`, is read by `portions`,
and stops with `BrokenStream` at the first row that is not a number, after all rows before it. Files and
tables are read by `columns`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.gain.batches import LARGEST_NUMBER
from gainbias.evaluation.sources.clocks import unused_times
from gainbias.evaluation.sources.columns import Chunk, Name, Table
from gainbias.evaluation.sources.readers import (
    ENDS_OF_CSV,
    has_zone,
    index_levels,
    refuse_unread,
    requests_in,
    table_of,
    unmasked,
    without_zone,
)
from gainbias.evaluation.sources.records import BENCHMARK, RecordList, RequestLog, record_columns
from gainbias.evaluation.sources.spaces import Flaw
from gainbias.evaluation.sources.times import RowClock
from gainbias.evaluation.stream import BrokenStream
from gainbias.suggest import did_you_mean_or_known

ROWS = 2**18
"""Rows that are read at once."""

SEPARATORS = ";\t|"
"""Other separators of columns, in files that are still called CSV."""

TEXTS = "this column holds text: it was read as numbers"

Reader = Callable[[], Iterator[Chunk]]


@dataclass(frozen=True, eq=False)
class NumberSource:
    """Columns of numbers that can be read again and again.

    Attributes
    ----------
    read : callable
        Without arguments; returns chunks of rows with the roles "number", perhaps "ratio" and "group", as
        they are in the source. Arrays of several chains have shape (chains, rows).
    names : dict
        What each role is called, in words.
    num_chains : int
        Independent chains.
    is_held : bool
        Whether all numbers are in memory anyway.
    is_text : bool
        Whether everything in the source is text, as in CSV, so that text needs no note.
    notes : list of str
        What was done to the source before it could be read, in words.
    clock : RowClock or None
        Reads the second column, if that says how long each number holds, by times or by durations.
    counting : str
        How rows are counted, to say after the number of one that is wrong.
    """

    read: Reader
    names: dict[str, str]
    num_chains: int
    is_held: bool
    is_text: bool = False
    notes: list[str] = field(default_factory=list)
    clock: RowClock | None = None
    counting: str = ""

    def portions(self, notes: list[str], ended: dict[Any, str] | None = None) -> Iterator[Chunk]:
        """Return the rows as finite floating-point numbers, with groups as they are, in order of time.

        Times that are dates or whole numbers are relative to the first, which keeps their digits. The role
        "row" has the number of each row. A bad number in a group ends only that group: `ended` has the
        reasons by group, and groups in it are skipped.

        Raises
        ------
        BrokenStream
            At the first row that is wrong for another reason, after all rows before it.
        """
        offset, origin = 0, None
        ended = {} if ended is None else ended
        for chunk in self.read():
            size = chunk["number"].shape[-1]
            rest = chunk | {"row": offset + np.arange(size)}
            while len((rest := _without(rest, ended))["row"]):
                clean, origin, flaw = self._clean(rest, origin, notes)
                if flaw is None:
                    yield clean
                    break
                place, (what, chain, role) = flaw[0], flaw[1:]
                if place:
                    yield _part(clean, slice(place))
                reason = f"row {rest['row'][place]}{chain}: {what}"
                if "group" not in rest or role == "group":
                    raise BrokenStream(reason)
                ended[rest["group"][place : place + 1].tolist()[0]] = reason
                rest = _part(rest, slice(place + 1, None))
            offset += size

    def _clean(
        self, chunk: Chunk, origin: Any, notes: list[str]
    ) -> tuple[Chunk, Any, tuple[int, str, str, str] | None]:
        """Return rows as numbers, the origin of times, and the first wrong number with its role."""
        clean, flaws = {"row": chunk["row"]}, list[tuple[int, str, str, str]]()
        for role, column in chunk.items():
            found: Found | None = None
            if role == "group":
                clean[role], found = _groups(column, self.names[role])
            elif role == "ratio" and self.clock is not None and column.ndim == 1:
                clean[role], origin, found = _lasting(column, self.clock, origin)
            elif role != "row":
                clean[role], found = _floats(column, self.names[role], [] if self.is_text else notes)
            flaws += [] if found is None else [(*found, role)]
        return clean, origin, min(flaws, key=lambda flaw: flaw[0], default=None)


def _without(chunk: Chunk, ended: dict[Any, str]) -> Chunk:
    """Return the rows of groups that have not ended."""
    if not ended:
        return chunk
    return _part(chunk, np.array([name not in ended for name in chunk["group"].tolist()], dtype=np.bool_))


def _part(chunk: Chunk, rows: Any) -> Chunk:
    return {role: column[..., rows] for role, column in chunk.items()}


def numbers_of(x: Any, column: str | None, ratio_to: Any, group: Any, lasting: str = "") -> NumberSource:
    """Return a column of numbers, and perhaps a second one and groups, as something that can be read.

    Parameters
    ----------
    x : array_like, list of records, table, mapping or path
        Numbers (n,) or (chains, n); or what `table_of` takes, apart from a tuple.
    column : str or None
        Which column of a table or file; None if it has only one.
    ratio_to, group : str, array_like or None
        Columns by name, or as arrays beside arrays.
    lasting : {"", "time", "duration"}
        The meaning of the second column, if it says how long each number holds.

    Examples
    --------
    >>> numbers = numbers_of({"ms": ["1.5", 2, None]}, "ms", None, None)
    >>> notes = []
    >>> for portion in numbers.portions(notes):
    ...     print(portion["number"])
    Traceback (most recent call last):
    ...
    gainbias.evaluation.stream.BrokenStream: row 2: ms is missing
    """
    if isinstance(x, str | os.PathLike):
        x = requests_in(x) or os.fspath(x)
    if isinstance(x, str):
        is_text = x.lower().endswith(ENDS_OF_CSV)
        return _of_columns(table_of(x, ROWS), column, ratio_to, group, lasting, is_text)
    x = record_columns(x) or x
    if isinstance(x, RequestLog):
        if BENCHMARK in x and group != BENCHMARK:
            raise ValueError(
                f"the file has several benchmarks, and each is a separate series: say group={BENCHMARK!r}, "
                f"or choose one, gainbias.read_requests(..., {BENCHMARK}=0)"
            )
        x = x.having((column, ratio_to, group))
    refuse_unread(x)
    is_table = isinstance(x, Mapping) or (hasattr(x, "iloc") and hasattr(x, "columns"))
    if not is_table and (hasattr(x, "to_batches") or hasattr(x, "__arrow_c_stream__")) and not _is_column(x):
        return _of_columns(table_of(x, ROWS), column, ratio_to, group, lasting)
    if is_table:
        name = _chosen(list(map(str, x)), column)
        named = {str(key): key for key in x}
        given: dict[str, Any] = {"number": x[named[name]]}
        names = {"number": name}
    else:
        if column is not None:
            raise ValueError(f"column={column!r} names a column of a table or file, and these are numbers")
        given, names, named = {"number": x}, {"number": "the number"}, {}
    levels = index_levels(x, list(named)) if is_table and hasattr(x, "iloc") else {}
    for role, other, words in (("ratio", ratio_to, lasting or "ratio_to"), ("group", group, "group")):
        if isinstance(other, str):
            if not is_table:
                raise ValueError(f"{words}={other!r} names a column, and there is no table: pass an array")
            found = levels.get(other)
            given[role] = x[named[_chosen(list(named), other)]] if found is None else found
            names[role] = other
        elif other is not None:
            given[role], names[role] = other, words
    clock = RowClock(lasting, names["ratio"]) if lasting else None
    if lasting and not isinstance(ratio_to, str):
        names["ratio"] = f"the {lasting}"
    arrays = {
        role: _array(part, names[role], bool(lasting) and role == "ratio") for role, part in given.items()
    }
    if isinstance(x, RecordList | RequestLog):  # a row for each customer or request, all with the same weight
        notes = x.notes
    else:
        notes = [] if lasting else unused_times(list(named), names.values())
    return _of_arrays(arrays, names, notes, clock)


def _is_column(x: Any) -> bool:
    """Whether something is one column rather than a table, such as a pandas Series or a chunked array."""
    return not (hasattr(x, "column_names") or hasattr(x, "columns") or hasattr(x, "schema"))


def _array(column: Any, name: str, tells_time: bool) -> NDArray[Any]:
    try:
        if tells_time and has_zone(getattr(column, "dtype", None)):
            return without_zone(column)
        array = unmasked(column) if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    except ValueError:
        row = next((k for k, entry in enumerate(column) if np.ndim(entry) != np.ndim(column[0])), None)
        if row is None:
            raise ValueError(f"{name}: chains must have equal lengths") from None
        kinds = "a number, and those before it are lists"
        kinds = kinds if np.ndim(column[0]) else "a list, and those before it are numbers"
        raise ValueError(f"row {row} is {kinds}") from None
    if array.dtype.kind in "Mm" and not (tells_time and array.ndim == 1):
        kind = "times" if array.dtype.kind == "M" else "durations"
        raise ValueError(f"{name}: found {kind}, numbers are needed: convert them, for example to seconds")
    return array


def _of_arrays(
    arrays: dict[str, NDArray[Any]], names: dict[str, str], notes: list[str], clock: RowClock | None
) -> NumberSource:
    numbers = arrays["number"]
    if numbers.dtype.kind == "O" and numbers.ndim == 0:
        raise ValueError(
            "numbers must be an array, a table, a list of records or the path of a file or a folder, found "
            f"{type(numbers[()]).__name__}"
        )
    if numbers.ndim not in (1, 2):
        raise ValueError(f"numbers must have shape (n,) or (chains, n), found {numbers.shape}")
    for role, other in arrays.items():
        if other.shape != numbers.shape and not (role == "group" and numbers.ndim == 2):
            raise ValueError(f"{names[role]} has shape {other.shape}, the numbers have {numbers.shape}")
    if numbers.ndim == 2 and "group" in arrays:
        raise ValueError("chains have no groups: pass one row of numbers, or leave out group")

    def read() -> Iterator[Chunk]:
        for start in range(0, numbers.shape[-1], ROWS):
            yield {role: array[..., start : start + ROWS] for role, array in arrays.items()}

    num_chains = len(numbers) if numbers.ndim == 2 else 1
    return NumberSource(read, names, num_chains, is_held=True, notes=notes, clock=clock)


def _of_columns(
    table: Table, column: str | None, ratio_to: Any, group: Any, lasting: str, is_text: bool = False
) -> NumberSource:
    if is_text and len(table.names) == 1 and column != table.names[0]:
        _check_head(table.names[0])
    roles = _roles(table.names, column, ratio_to, group, lasting)
    second = roles.get("ratio", "")
    clock = RowClock(lasting, second, has_zone=table.is_zoned(second)) if lasting else None

    def read() -> Iterator[Chunk]:
        for chunk in table.chunks(dict[str, Name](roles)):
            for role, found in chunk.items():
                if found.ndim > 1:
                    raise ValueError(f"{roles[role]} holds lists, a number in each row is needed")
            yield chunk

    notes = [*table.notes, *unused_times(table.names, roles.values())]
    counting = table.counting
    return NumberSource(read, roles, 1, False, is_text=is_text, notes=notes, clock=clock, counting=counting)


def _check_head(only: str) -> None:
    """Refuse the header of a CSV file if it is a number, or has columns that are not separated by commas."""
    if any(mark in only for mark in SEPARATORS):
        raise ValueError(
            f"the header of the file is {only!r}: columns must be separated by commas; if it is the name "
            f"of a single column, say column={only!r}"
        )
    try:
        float(only)
    except ValueError:
        return
    raise ValueError(
        f"the first line of the file is {only!r}, and a name is needed there: write one, such as x, into a "
        f"line before the numbers; if it is the name of the column, say column={only!r}"
    )


def _roles(names: list[str], column: str | None, ratio_to: Any, group: Any, lasting: str) -> dict[str, str]:
    for words, other in ((lasting or "ratio_to", ratio_to), ("group", group)):
        if other is not None and not isinstance(other, str):
            raise ValueError(f"{words} must be the name of a column, found {type(other).__name__}")
    roles = {"number": _chosen(names, column)}
    roles |= {"ratio": _chosen(names, ratio_to)} if ratio_to is not None else {}
    return roles | ({"group": _chosen(names, group)} if group is not None else {})


def _chosen(names: list[str], column: str | None) -> str:
    """Return the name of a column that must be there, once."""
    if column is None:
        if len(names) == 1:
            return names[0]
        raise ValueError(f"say which column is meant, column=...: there are {', '.join(names) or 'none'}")
    if column not in names:
        raise ValueError(f"there is no column {column!r}: {did_you_mean_or_known(column, names)}")
    if names.count(column) > 1:
        raise ValueError(f"there are several columns {column!r}: rename or drop all but one")
    return column


Found = tuple[int, str, str]
"""A flaw: its row, what is wrong, and in which chain."""


def _floats(column: NDArray[Any], name: str, notes: list[str]) -> tuple[NDArray[Any], Found | None]:
    """Return numbers, and the first entry that is not one: its row, what it is, and its chain in words."""
    odd: dict[tuple[int, ...], str] = {}
    if column.dtype.kind in "fiub":
        numbers = column.astype(np.float64, copy=False)
    else:
        numbers, odd, is_text = _parsed(column)
        note = f"{name}: {TEXTS}"
        if is_text and note not in notes:
            notes.append(note)
    right = np.abs(numbers) <= LARGEST_NUMBER  # which nan and infinity are not
    if right.all():
        return numbers, None
    rows = ~right if numbers.ndim == 1 else ~right.all(axis=0)
    row = int(np.argmax(rows))
    place = (row,) if numbers.ndim == 1 else (int(np.argmin(right[:, row])), row)
    chain = f" of chain {place[0]}" if numbers.ndim == 2 else ""
    value = numbers[place]
    missing = "nan or missing" if column.dtype.kind == "f" else "missing"
    far = f"beyond {LARGEST_NUMBER:g}: choose another unit" if math.isfinite(value) else "not a finite number"
    what = odd.get(place) or (missing if math.isnan(value) else f"{value}, {far}")
    return numbers, (row, f"{name} is {what}", chain)


def _lasting(column: NDArray[Any], clock: RowClock, origin: Any) -> tuple[NDArray[Any], Any, Found | None]:
    """Return times or durations as numbers, the origin of times, and the first wrong one."""
    ticks, flaw = clock.read(column)
    if clock.role == "duration":
        missing = np.isnan(ticks)
        if missing.any():
            flaw = Flaw(int(np.argmax(missing)), "the duration is missing")
        return ticks, origin, None if flaw is None else (flaw.place, flaw.what, "")
    if origin is None and len(ticks):
        origin = ticks[0] if ticks.dtype.kind == "i" else 0.0
    numbers = clock.between(np.asarray(0.0 if origin is None else origin), ticks)
    return numbers, origin, None if flaw is None else (flaw.place, flaw.what, "")


def _parsed(column: NDArray[Any]) -> tuple[NDArray[Any], dict[tuple[int, ...], str], bool]:
    """Return numbers from mixed entries up to the first other one, what that is, and if there were texts."""
    numbers, is_text = np.full(column.shape, np.nan), False
    for place in np.ndindex(*column.shape):
        entry = column[place]
        if type(entry).__name__ in ("NoneType", "NAType"):  # the second is that of pandas
            return numbers, {place: "missing"}, is_text
        if isinstance(entry, str | bytes):
            is_text = True
            words = entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)
            if not words.strip():
                return numbers, {place: "missing"}, is_text
            try:
                numbers[place] = float(words.replace("_", "?"))  # Python would read 1_000
            except ValueError:
                return numbers, {place: f"the text {words!r}, not a number"}, is_text
        else:
            try:
                if isinstance(entry, np.complexfloating):
                    raise TypeError  # converting it to a float would keep only its real part
                numbers[place] = float(entry)
            except OverflowError:
                numbers[place] = math.inf
            except (TypeError, ValueError):
                return numbers, {place: f"{entry!r} ({type(entry).__name__}), not a number"}, is_text
    return numbers, {}, is_text


def _groups(column: NDArray[Any], name: str) -> tuple[NDArray[Any], Found | None]:
    """Return names of groups, and the first that is missing."""
    if column.dtype.kind == "O":
        missing = np.array([entry is None or entry != entry for entry in column.tolist()], dtype=np.bool_)
    elif column.dtype.kind == "f":
        missing = np.isnan(column)
    else:
        return column, None
    return (column, (int(np.argmax(missing)), f"{name} is missing", "")) if missing.any() else (column, None)
