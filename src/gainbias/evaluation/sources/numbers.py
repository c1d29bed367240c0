"""Read columns of numbers, some rows at a time, as often as they are asked for: what is wrong has its row.

`numbers_of` takes an array, a table or the path of a file. Its answer, `NumberSource`, is read by `portions`,
and stops with `BrokenStream` at the first row that is no number, after all before it were handed out. Files
are never held as a whole: CSV and JSON lines are read a block at a time, Parquet some rows at a time.

PyArrow is imported when a file is opened: it is an optional dependency.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.columns import ENDS_OF_CSV, Chunk, Name, Table, table_of
from gainbias.evaluation.stream import BrokenStream
from gainbias.extras import require
from gainbias.suggest import did_you_mean_or_known

ENDS_OF_JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""Files with names that end like this have a JSON object in each line."""

ROWS = 2**18
"""Rows that are read at once."""

BLOCK_OF_BYTES = 2**20
"""Bytes of a CSV file or of JSON lines that are read at once; PyArrow holds about forty times as many."""

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
        Whether all that the source has is text, as in CSV, so that text is nothing to speak of.
    """

    read: Reader
    names: dict[str, str]
    num_chains: int
    is_held: bool
    is_text: bool = False

    def portions(self, notes: list[str]) -> Iterator[Chunk]:
        """Return the rows as finite floating-point numbers, with groups as they are, in the order of time.

        Raises
        ------
        BrokenStream
            At the first row that is wrong, after all before it were handed out.
        """
        offset = 0
        for chunk in self.read():
            rows = chunk["number"].shape[-1]
            clean, flaw = {}, None
            for role, column in chunk.items():
                if role == "group":
                    clean[role], found = _groups(column)
                else:
                    heard = [] if self.is_text else notes
                    clean[role], found = _floats(column, self.names[role], heard)
                if found is not None and (flaw is None or found[0] < flaw[0]):
                    flaw = (found[0], f"row {offset + found[0]}{found[2]}: {self.names[role]} is {found[1]}")
            if flaw is None:
                yield clean
            else:
                if flaw[0]:
                    yield {role: column[..., : flaw[0]] for role, column in clean.items()}
                raise BrokenStream(flaw[1])
            offset += rows


def numbers_of(x: Any, column: str | None, ratio_to: Any, group: Any) -> NumberSource:
    """Return a column of numbers, and perhaps a second one and groups, as something that can be read.

    Parameters
    ----------
    x : array_like, table, mapping or path
        Numbers (n,) or (chains, n); a pandas or Arrow table or a mapping of columns; or the path of a CSV
        file, of JSON lines, or of a Parquet file.
    column : str or None
        Which column of a table or file; None if it has only one.
    ratio_to, group : str, array_like or None
        Columns by name, or as arrays beside arrays.

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
        return _of_file(os.fspath(x), column, ratio_to, group)
    is_table = isinstance(x, Mapping) or (hasattr(x, "columns") and hasattr(x, "iloc"))
    if not is_table and (hasattr(x, "to_batches") or hasattr(x, "__arrow_c_stream__")) and not _is_column(x):
        return _of_columns(table_of(x, ROWS), column, ratio_to, group)
    if is_table:
        name = _chosen(list(map(str, x)), column)
        named = {str(key): key for key in x}
        given: dict[str, Any] = {"number": x[named[name]]}
        names = {"number": name}
    else:
        if column is not None:
            raise ValueError(f"column={column!r} names a column of a table or file, and these are numbers")
        given, names, named = {"number": x}, {"number": "the number"}, {}
    for role, other, words in (("ratio", ratio_to, "ratio_to"), ("group", group, "group")):
        if isinstance(other, str):
            if not is_table:
                raise ValueError(f"{words}={other!r} names a column, and there is no table: pass an array")
            given[role], names[role] = x[named[_chosen(list(named), other)]], other
        elif other is not None:
            given[role], names[role] = other, words
    return _of_arrays({role: _array(part, names[role]) for role, part in given.items()}, names)


def _is_column(x: Any) -> bool:
    """Whether something is one column rather than a table, as a Series of pandas or a chunked array."""
    return not (hasattr(x, "column_names") or hasattr(x, "columns") or hasattr(x, "schema"))


def _array(column: Any, name: str) -> NDArray[Any]:
    try:
        if isinstance(column, np.ma.MaskedArray):
            return np.ma.filled(column.astype(np.float64), np.nan)
        array = np.asarray(column)
    except ValueError:
        raise ValueError(f"{name}: chains must have equal lengths") from None
    if array.dtype.kind in "Mm":
        kind = "times" if array.dtype.kind == "M" else "durations"
        raise ValueError(f"{name}: found {kind}, numbers are needed: convert them, for example to seconds")
    return array


def _of_arrays(arrays: dict[str, NDArray[Any]], names: dict[str, str]) -> NumberSource:
    numbers = arrays["number"]
    if numbers.dtype.kind == "O" and numbers.ndim == 0:
        raise ValueError(
            "numbers must be an array, a table or the path of a CSV, JSON-lines or Parquet file, found "
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

    return NumberSource(read, names, len(numbers) if numbers.ndim == 2 else 1, is_held=True)


def _of_columns(table: Table, column: str | None, ratio_to: Any, group: Any) -> NumberSource:
    roles = _roles(table.names, column, ratio_to, group)
    return NumberSource(lambda: table.chunks(dict[str, Name](roles)), roles, 1, is_held=False)


def _roles(names: list[str], column: str | None, ratio_to: Any, group: Any) -> dict[str, str]:
    for words, other in (("ratio_to", ratio_to), ("group", group)):
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


def _of_file(path: str, column: str | None, ratio_to: Any, group: Any) -> NumberSource:
    if not os.path.exists(path):
        raise ValueError(f"there is no file {path}")
    if path.lower().endswith(ENDS_OF_JSON_LINES):
        first = _first_json_row(path)
        roles = _roles(list(first), column, ratio_to, group)
        return NumberSource(lambda: _json_chunks(path, roles, first), roles, 1, is_held=False)
    if path.lower().endswith(ENDS_OF_CSV):
        roles = _roles(_csv_names(path), column, ratio_to, group)
        return NumberSource(lambda: _csv_chunks(path, roles), roles, 1, is_held=False, is_text=True)
    return _of_columns(table_of(path, ROWS), column, ratio_to, group)


def _csv_reader(path: str, columns: list[str] | None) -> Any:
    """Open a CSV file to be read in blocks, with numbers still as they are written."""
    require("data", "pyarrow")
    import pyarrow
    import pyarrow.csv

    texts = dict.fromkeys(columns or (), pyarrow.string())
    return pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK_OF_BYTES),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=texts, include_columns=columns, strings_can_be_null=True
        ),
    )


def _csv_names(path: str) -> list[str]:
    import pyarrow

    try:
        with _csv_reader(path, None) as reader:
            return list(reader.schema.names)
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise ValueError(f"{path} is empty") from None
        raise ValueError(f"{path} is not a CSV file that can be read: {error}") from error


def _csv_chunks(path: str, roles: dict[str, str]) -> Iterator[Chunk]:
    import pyarrow
    import pyarrow.compute

    rows = 0
    try:
        with _csv_reader(path, list(dict.fromkeys(roles.values()))) as reader:
            for batch in reader:
                chunk: Chunk = {}
                for role, name in roles.items():
                    texts = batch.column(name)
                    if role != "group":
                        with suppress(pyarrow.ArrowInvalid):  # which row is no number is found later
                            texts = pyarrow.compute.cast(texts, pyarrow.float64())
                    chunk[role] = texts.to_numpy(zero_copy_only=False)
                if batch.num_rows:
                    yield chunk
                rows += batch.num_rows
    except pyarrow.ArrowInvalid as error:
        raise BrokenStream(f"row {rows}, or one behind it, cannot be read: {error}") from error


def _opened(path: str) -> Any:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")


def _first_json_row(path: str) -> dict[str, Any]:
    with _opened(path) as file:
        for line in file:
            if line.strip():
                return _json_row(line, 0)
    raise ValueError(f"{path} is empty")


def _json_row(line: bytes, row: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BrokenStream(f"row {row} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BrokenStream(f'row {row} is no object with named columns, as in {{"ms": 12.5}}')
    return found


def _json_chunks(path: str, roles: dict[str, str], first: dict[str, Any]) -> Iterator[Chunk]:
    """Read blocks of lines: by PyArrow, or line by line if it finds something that is no number.

    Groups are taken to be of the same kind as the one in the first row.
    """
    require("data", "pyarrow")
    import pyarrow
    import pyarrow.json

    kinds = {name: pyarrow.float64() for role, name in roles.items() if role != "group"}
    if "group" in roles:
        known = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
        kinds[roles["group"]] = known.get(type(first[roles["group"]]), pyarrow.string())
    parsing = pyarrow.json.ParseOptions(pyarrow.schema(kinds.items()), unexpected_field_behavior="ignore")
    rows = 0
    with _opened(path) as file:
        while block := file.read(BLOCK_OF_BYTES):
            block += file.readline()
            if not block.strip():
                continue
            try:
                reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block))
                table = pyarrow.json.read_json(pyarrow.BufferReader(block), reading, parsing)
                chunk = {role: table[name].to_numpy() for role, name in roles.items()}
            except pyarrow.ArrowInvalid:
                chunk, wrong = _json_lines(block, roles, rows)
                if len(chunk["number"]):
                    yield chunk
                if wrong is not None:
                    raise wrong from None
            else:
                yield chunk
            rows += len(chunk["number"])


def _json_lines(block: bytes, roles: dict[str, str], first: int) -> tuple[Chunk, BrokenStream | None]:
    """Return rows read one by one, and what was wrong with the first that is no object."""
    found: dict[str, list[Any]] = {role: [] for role in roles}
    wrong = None
    for line in filter(bytes.strip, block.splitlines()):
        try:
            row = _json_row(line, first + len(found["number"]))
        except BrokenStream as error:
            wrong = error
            break
        for role, name in roles.items():
            found[role].append(row.get(name))
    return {role: _objects(column) for role, column in found.items()}, wrong


def _objects(column: list[Any]) -> NDArray[Any]:
    array = np.empty(len(column), dtype=object)
    array[:] = column
    return array


Found = tuple[int, str, str]
"""Where something is wrong, what, and in which chain."""


def _floats(column: NDArray[Any], name: str, notes: list[str]) -> tuple[NDArray[Any], Found | None]:
    """Return numbers, and the first that is none: its row, what it is, and its chain in words."""
    odd: dict[tuple[int, ...], str] = {}
    if column.dtype.kind in "fiub":
        numbers = column.astype(np.float64, copy=False)
    else:
        numbers, odd, is_text = _parsed(column)
        note = f"{name}: {TEXTS}"
        if is_text and note not in notes:
            notes.append(note)
    finite = np.isfinite(numbers)
    if finite.all():
        return numbers, None
    rows = ~finite if numbers.ndim == 1 else ~finite.all(axis=0)
    row = int(np.argmax(rows))
    place = (row,) if numbers.ndim == 1 else (int(np.argmin(finite[:, row])), row)
    chain = f" of chain {place[0]}" if numbers.ndim == 2 else ""
    value = numbers[place]
    missing = "nan or missing" if column.dtype.kind == "f" else "missing"
    what = odd.get(place) or (missing if math.isnan(value) else f"{value}, not a finite number")
    return numbers, (row, what, chain)


def _parsed(column: NDArray[Any]) -> tuple[NDArray[Any], dict[tuple[int, ...], str], bool]:
    """Return numbers from entries of mixed kinds up to the first that is none: what that is, and if texts."""
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
                numbers[place] = float(entry)
            except (TypeError, ValueError):
                return numbers, {place: f"{entry!r} ({type(entry).__name__}), not a number"}, is_text
    return numbers, {}, is_text


def _groups(column: NDArray[Any]) -> tuple[NDArray[Any], Found | None]:
    """Return names of groups, and the first that is missing."""
    if column.dtype.kind == "O":
        missing = np.array([entry is None or entry != entry for entry in column.tolist()], dtype=np.bool_)
    elif column.dtype.kind == "f":
        missing = np.isnan(column)
    else:
        return column, None
    return (column, (int(np.argmax(missing)), "missing", "")) if missing.any() else (column, None)
