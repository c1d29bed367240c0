"""Read columns of a log, some rows at a time, from arrays, tables, lists of records, files and folders.

Files are not kept in memory as a whole, except those of load generators (`records`): CSV and JSON lines are
read a block at a time, Parquet some rows at a time.

PyArrow is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.columns import COLUMN_KINDS, INDEX, Chunk, Name, Table, parts_of
from gainbias.evaluation.sources.records import (
    DAMAGED_FILE,
    RecordList,
    RequestLog,
    first_json_table,
    first_object,
    is_of_aiperf,
    json_blocks,
    read_requests,
    record_columns,
)
from gainbias.evaluation.stream import BrokenStream
from gainbias.extras import require
from gainbias.suggest import no_file

ENDS_OF_CSV = tuple(
    kind + packed for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".bz2", ".zst")
)
"""Files with names that end like this are read as CSV."""

ENDS_OF_JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""Files with names that end like this have a JSON object in each line."""

ENDS_OF_JSON = (".json", ".json.gz")
"""Files with names that end like this come from a load generator; all others are read as Parquet."""

ENDS_OF_PARQUET = (".parquet", ".parq", ".pq")
"""In a folder, files with names that end like this are read."""

ENDS_OF_FILES = (*ENDS_OF_CSV, *ENDS_OF_JSON_LINES, *ENDS_OF_JSON, *ENDS_OF_PARQUET)
"""What is called like this is a file, also if it is not there."""

KNOWN_FILES = (
    "known are CSV (.csv, .tsv, .txt, also with .gz, .bz2, .zst), JSON lines (.jsonl, .ndjson, also .gz) and "
    "Parquet (.parquet): convert it, or read it in Python and pass a pandas table"
)
"""What a file may be, by the end of its name."""

FIRST_ENTRIES = 1_000
"""This many entries tell whether a column of texts or objects has dates."""

BLOCK_OF_BYTES = 2**20
"""Bytes of a CSV file or of JSON lines that are read at once; PyArrow holds about forty times as many."""

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""In the name of a folder: the value of the column is missing."""

ROWS_OF_FILES = " (the first row of data is row 0)"
"""How rows of a file are counted."""

READ_BUFFER = 2**20
"""Bytes of a Parquet file that are read at once."""


def table_of(log: Any, size: int) -> Table:
    """Return a log as a table that is read `size` rows at a time.

    Parameters
    ----------
    log : mapping, tuple of arrays, list of records, table or path
        Columns by name; states, rewards and perhaps next states; a list of named tuples, data classes,
        dictionaries or (time, value) pairs; a table of pandas, PyArrow or any library that shares its tables
        as Arrow streams, such as polars; or the path of a Parquet file, of a folder of them, of a CSV file,
        of JSON lines, or of a file that `read_requests` reads.
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
        log = requests_in(log) or os.fspath(log)
    if isinstance(log, str):
        return replace(_of_path(log, size), counting=ROWS_OF_FILES)
    log = record_columns(log) or log
    refuse_unread(log)
    if isinstance(log, Mapping) or (hasattr(log, "iloc") and hasattr(log, "columns")):
        return _in_memory(log, size)
    if hasattr(log, "to_batches"):
        return _arrow_table(log, size)
    if hasattr(log, "__arrow_c_stream__"):
        return _arrow_stream(log, size)
    raise ValueError(
        "a log must be a mapping of columns, a tuple of arrays, a list of records, a table of pandas, polars "
        "or PyArrow, the path of a Parquet, CSV or JSON-lines file or of a folder of Parquet files, or a "
        f"Minari dataset, found {type(log).__name__}"
    )


def refuse_unread(table: Any) -> None:
    """Refuse a lazy table of polars."""
    if hasattr(table, "collect_schema") and not hasattr(table, "__arrow_c_stream__"):
        raise ValueError(f"a {type(table).__name__} has not been read yet: pass table.collect()")


def requests_in(path: str | os.PathLike[str]) -> RequestLog | None:
    """Return the requests in the file of a load generator; None if it is another file."""
    name = os.fspath(path).lower()
    if not os.path.isfile(path) or not name.endswith((*ENDS_OF_JSON, *ENDS_OF_JSON_LINES)):
        return None
    first = first_object(os.fspath(path)) if name.endswith(ENDS_OF_JSON_LINES) else None
    if name.endswith(ENDS_OF_JSON) or (first is not None and is_of_aiperf(first)):
        return read_requests(path)
    return None


def _of_path(path: str, size: int) -> Table:
    if not os.path.exists(path):
        raise ValueError(no_file(path))
    require("pyarrow")
    if os.path.isdir(path):
        return _folder(path, size)
    if path.lower().endswith(ENDS_OF_CSV):
        return _csv(path, size)
    if path.lower().endswith(ENDS_OF_JSON_LINES):
        return _json_lines(path, size)
    return _parquet([path], [{}], size)


def _in_memory(log: Any, size: int) -> Table:
    names = [str(name) for name in log]  # a name may be a number
    levels = index_levels(log, names) if hasattr(log, "iloc") else {}
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
    zoned = [name for name in times if has_zone(kinds[name])]
    notes = log.notes if isinstance(log, RecordList | RequestLog) else []
    dated = [name for name, kind in kinds.items() if not _is_number(kind) and _begins_with_date(column(name))]
    return Table(chunks, names, times, list(levels), fits, zoned, notes, dated)


def index_levels(frame: Any, names: list[str]) -> dict[str, Any]:
    """Return the levels of the index of a pandas table by name, without those named like a column."""
    index = frame.index
    found = {}
    for level, name in enumerate(index.names):
        label = str(name) if name is not None else INDEX if index.nlevels == 1 else f"(index {level})"
        if label not in names:
            found[label] = index.get_level_values(level)
    return found


def _has_truths(column: Any) -> bool:
    """Whether a column has the values true and false."""
    array = np.asarray(column)
    if array.dtype.kind != "O":
        return array.dtype.kind == "b"
    first = next((entry for entry in array.flat if entry is not None), None)
    return isinstance(first, bool | np.bool_)


def _is_time(kind: Any) -> bool:
    """Whether a dtype of NumPy or pandas is that of dates, times, periods or durations."""
    return getattr(kind, "kind", "") in ("M", "m") or type(kind).__name__ == "PeriodDtype"


def _is_number(kind: Any) -> bool:
    """Whether a dtype of NumPy is that of numbers, or of true and false."""
    return getattr(kind, "kind", "O") in "biufc"


def _begins_with_date(column: Any) -> bool:
    """Whether the first text or date among the first entries is a date, a duration, or a text with a date."""
    if isinstance(column, str) or not hasattr(column, "__iter__") or getattr(column, "ndim", 1) != 1:
        return False
    kinds = (str, date, timedelta)
    few = islice(column, FIRST_ENTRIES)
    first = next((entry for entry in few if isinstance(entry, kinds) and entry == entry), None)
    if isinstance(first, str):
        with suppress(ValueError):
            return "-" in first and bool(datetime.fromisoformat(first))
    return isinstance(first, date | timedelta)


def has_zone(kind: Any) -> bool:
    """Whether a dtype of pandas, its own or one of PyArrow, has a time zone."""
    return any(getattr(one, "tz", None) is not None for one in (kind, getattr(kind, "pyarrow_dtype", None)))


def unmasked(column: Any) -> NDArray[Any]:
    """Return a masked array with NaN, or NaT if it has dates, for missing entries."""
    numbers = column if column.dtype.kind in "Mm" else column.astype(np.float64)
    return np.where(
        np.ma.getmaskarray(column),
        np.array("NaT" if numbers.dtype.kind in "Mm" else "nan", dtype=numbers.dtype),
        numbers.data,
    )


def _array(column_of: Callable[[str], Any], name: Name) -> NDArray[Any]:
    if isinstance(name, tuple):
        return np.stack([_array(column_of, part) for part in name], axis=1)
    column = column_of(name)
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        return unmasked(column)
    return without_zone(column) if has_zone(getattr(column, "dtype", None)) else np.asarray(column)


def without_zone(column: Any) -> NDArray[Any]:
    """Return dates of pandas with a time zone in universal time; NumPy would make objects of them."""
    unit = getattr(getattr(column.dtype, "pyarrow_dtype", column.dtype), "unit", "ns")
    return np.asarray(column.to_numpy(dtype=f"M8[{unit}]"))


def _csv(path: str, size: int) -> Table:
    """Read a CSV file in blocks. The first block decides the type of each column.

    A later block that does not fit is read as numbers, or else as text. The first row of a log with a text
    where a number is needed becomes a block by itself, so that it can be reported. A file whose first line
    is a decimal number has no head: its column is called "number". A whole number, as 2020, may be a name.
    """
    schema, own = _head_of_csv(path)

    def batches(roles: dict[str, Name]) -> Iterator[Any]:
        kinds, needed = _kinds_in_csv(schema, roles)
        ragged: list[Any] = []
        with _csv_reader(path, list(kinds), ragged, own) as reader:
            rows = 0
            for batch in reader:
                if ragged and rows + batch.num_rows > _row_of(ragged[0], own):
                    yield from _of_kinds(batch.slice(0, _row_of(ragged[0], own) - rows), kinds, needed)
                    break
                rows += batch.num_rows
                yield from _of_kinds(batch, kinds, needed)
        if ragged:
            one = ragged[0]
            raise BrokenStream(
                f"row {_row_of(one, own)} has another number of fields ({one.actual_columns}) than the head "
                f"({one.expected_columns}): {one.text[:60]!r}"
            )

    return _with_schema(_chunks_of(batches, size), schema)


def _head_of_csv(path: str) -> tuple[Any, list[str]]:
    """Return the columns of a CSV file with their types, and their names if the file has no head."""
    import pyarrow

    own: list[str] = []
    try:
        with _csv_reader(path, None, [], own) as reader:
            schema = reader.schema
        if len(schema.names) == 1 and "." in schema.names[0] and is_number(schema.names[0]):
            own = ["number"]
            with _csv_reader(path, None, [], own) as reader:
                schema = reader.schema
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8, as CSV must be: save it in UTF-8, or convert it") from None
    except (pyarrow.ArrowInvalid, OSError) as error:
        if "Empty CSV" in str(error):
            raise ValueError(f"{path} is empty") from None
        raise ValueError(f"{path} is not a CSV file that can be read: {error}") from error
    return schema, own


def _kinds_in_csv(schema: Any, roles: dict[str, Name]) -> tuple[dict[str, Any], list[str]]:
    """Return the type of each column that is read, and those in which numbers are needed.

    If the first block has a text where a number is needed, the type of the column is null: not known.
    """
    import pyarrow

    kinds = {name: schema.field(name).type for name in parts_of(roles)}
    if "group" in roles:  # a name, even if it looks like a number
        kinds[str(roles["group"])] = pyarrow.string()
    needed = parts_of({role: name for role, name in roles.items() if role in COLUMN_KINDS})
    unknown = [name for name in needed if pyarrow.types.is_string(kinds[name])]
    return kinds | dict.fromkeys(unknown, pyarrow.null()), needed


def is_number(words: str) -> bool:
    """Whether words are a number.

    Examples
    --------
    >>> is_number("1.5e-3"), is_number("ms")
    (True, False)
    """
    try:
        float(words)
    except ValueError:
        return False
    return True


def _row_of(ragged: Any, own: list[str]) -> int:
    """Return the number of a row that PyArrow could not read; PyArrow counts from 1, including a header."""
    return int(ragged.number) - (1 if own else 2)


def _csv_reader(path: str, columns: list[str] | None, ragged: list[Any], own: list[str]) -> Any:
    """Open a CSV file to be read in blocks; columns that are named are read as text.

    Rows with more or fewer fields than the header are skipped; the first one is put into `ragged`. A file
    without a head has its `own` names of columns.
    """
    import pyarrow
    import pyarrow.csv

    def passed_over(row: Any) -> str:
        if not ragged:
            ragged.append(row)
        return "skip"

    texts = dict.fromkeys(columns or (), pyarrow.string())
    return pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK_OF_BYTES, column_names=own),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter="\t" if ".tsv" in path.lower()[-8:] else ",",
            newlines_in_values=True,
            invalid_row_handler=passed_over,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=texts, include_columns=columns, strings_can_be_null=True
        ),
    )


def _of_kinds(batch: Any, kinds: dict[str, Any], needed: list[str]) -> Iterator[Any]:
    """Return texts as the expected types, and the first row without a number that is `needed` by itself."""
    import pyarrow

    def block(rows: Any, texts: tuple[str, ...] = ()) -> Any:
        columns = {name: rows.column(name) for name in kinds}
        found = [one if name in texts else _of_kind(one, kinds[name]) for name, one in columns.items()]
        return pyarrow.RecordBatch.from_arrays(found, list(columns))

    whole = block(batch)
    wrong = {
        name: _first_text(batch.column(name), kinds[name])
        for name in needed
        if pyarrow.types.is_string(whole.column(name).type)
    }
    if not wrong:
        yield whole
        return
    first = min(wrong.values())
    yield block(batch.slice(0, first))
    yield block(batch.slice(first, 1), tuple(name for name, place in wrong.items() if place == first))
    yield whole.slice(first + 1)


def _first_text(texts: Any, kind: Any) -> int:
    """Return the position of the first text that cannot be read as the others before it."""
    import pyarrow

    def is_text(count: int) -> bool:
        return bool(pyarrow.types.is_string(_of_kind(texts.slice(0, count), kind).type))

    return bisect_left(range(len(texts)), True, lo=1, key=is_text) - 1


def _of_kind(texts: Any, kind: Any) -> Any:
    """Return texts as the expected type, if that is null as one that fits, else as numbers or as they are."""
    import pyarrow
    from pyarrow import compute, types

    if types.is_string(kind):
        return texts
    trimmed = compute.utf8_trim_whitespace(texts)
    first = [pyarrow.int64(), pyarrow.bool_()] if types.is_null(kind) else [kind]
    for wanted in (*first, pyarrow.float64()):
        with suppress(pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            return compute.cast(trimmed, wanted)
    return texts


def _chunks_of(
    batches: Callable[[dict[str, Name]], Iterator[Any]], size: int
) -> Callable[[dict[str, Name]], Iterator[Chunk]]:
    """Return a reader of chunks from a reader of batches of PyArrow, given the columns of each role."""
    import pyarrow

    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        rows = 0
        try:
            for batch in batches(roles):
                for start in range(0, batch.num_rows, size):
                    yield _arrow_chunk(batch.slice(start, size), roles)
                rows += batch.num_rows
        except (pyarrow.ArrowInvalid, *DAMAGED_FILE) as error:
            raise BrokenStream(f"row {rows}, or one after it, cannot be read: {error}") from error

    return chunks


def _json_lines(path: str, size: int) -> Table:
    """Read JSON lines in blocks. The first block decides the type of each column."""
    import pyarrow
    from pyarrow import types

    first = first_json_table(path, BLOCK_OF_BYTES)
    plain = schema = first.schema
    for place, one in enumerate(plain):  # if all texts are dates and times, they are read as such
        if types.is_string(one.type):
            for kind in (pyarrow.timestamp("us"), pyarrow.timestamp("us", tz="UTC")):
                with suppress(pyarrow.ArrowInvalid):
                    first.column(place).cast(kind)
                    schema = schema.set(place, pyarrow.field(one.name, kind))
                    break

    def array(column: Any, name: str) -> NDArray[Any]:
        if isinstance(column, np.ndarray):
            return column
        return _arrow_array(
            _of_kind(column, schema.field(name).type) if types.is_string(column.type) else column, name
        )

    def chunks(roles: dict[str, Name]) -> Iterator[Chunk]:
        kinds = {name: plain.field(name).type for name in parts_of(roles)}
        for block in json_blocks(path, kinds, BLOCK_OF_BYTES):
            columns = {name: array(column, name) for name, column in block.items()}
            for start in range(0, len(next(iter(columns.values()))), size):
                part = {name: column[start : start + size] for name, column in columns.items()}
                yield {role: _array(part.__getitem__, name) for role, name in roles.items()}

    return _with_schema(chunks, schema)


def _folder(path: str, size: int) -> Table:
    """Read all Parquet files in and below a folder, in the order of their names, as one table.

    Numbers in names are compared as numbers. A subfolder with a name like ``year=2024`` is a column, as in
    partitioned data. Names that begin with a dot or an underscore are skipped.
    """
    files, values = [], []
    for place, below, names in os.walk(path):
        below[:] = [name for name in below if name[0] not in "._"]
        for name in names:
            if name[0] not in "._" and name.lower().endswith(ENDS_OF_PARQUET):
                files.append(os.path.join(place, name))
    if not files:
        found = ", ".join(sorted(os.listdir(path))[:5]) or "nothing"
        raise ValueError(f"the folder {path} has no Parquet file (.parquet), found {found}")
    files.sort(key=lambda file: _by_numbers(os.path.relpath(file, path)))
    for file in files:
        folders = os.path.relpath(file, path).split(os.sep)[:-1]
        values.append(dict(part.split("=", 1) for part in folders if "=" in part))
    return _parquet(files, _partitions(values), size)


def _by_numbers(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts part-2 before part-10."""
    return [
        (0, int(part), part) if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]


def _partitions(values: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the values of columns in names of folders, as numbers if all of a column are whole numbers."""
    found: list[dict[str, Any]] = [{} for _ in values]
    for name in values[0]:
        texts = [one.get(name, NO_PARTITION) for one in values]
        whole = all(re.fullmatch(r"-?\d{1,18}", text) for text in texts)
        for one, text in zip(found, texts, strict=True):
            one[name] = int(text) if whole else None if text == NO_PARTITION else unquote(text)
    return found


def _parquet(files: list[str], constants: list[dict[str, Any]], size: int) -> Table:
    """Read Parquet files one after the other, each with columns that are constant in all of its rows."""
    import pyarrow
    from pyarrow import parquet

    def opened_parquet(file: str) -> Any:
        # Read through a small buffer: without it a whole column of a row group would be held.
        return parquet.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False)

    try:
        with opened_parquet(files[0]) as reader:
            schema = reader.schema_arrow
    except Exception as error:
        if not files[0].lower().endswith(ENDS_OF_PARQUET):
            raise ValueError(f"{files[0]} cannot be read: {KNOWN_FILES}") from error
        raise ValueError(f"{files[0]} is not a Parquet file that can be read: {error}") from error
    for name, value in constants[0].items():
        if name not in schema.names:
            schema = schema.append(pyarrow.field(name, pyarrow.array([value]).type))

    def batches(roles: dict[str, Name]) -> Iterator[Any]:
        names = parts_of(roles)
        for file, constant in zip(files, constants, strict=True):
            with opened_parquet(file) as reader:
                there = reader.schema_arrow.names
                missing = [name for name in names if name not in there and name not in constant]
                if missing:
                    raise OSError(f"{file} has no column {missing[0]!r}, which {files[0]} has")
                inside = [name for name in names if name in there]
                _check_zone(roles, file, reader.schema_arrow, files[0], schema)
                for batch in reader.iter_batches(batch_size=size, columns=inside, use_threads=False):
                    columns = [
                        batch.column(name)
                        if name in there
                        else pyarrow.repeat(
                            pyarrow.scalar(constant[name], schema.field(name).type), len(batch)
                        )
                        for name in names
                    ]
                    yield pyarrow.RecordBatch.from_arrays(columns, names)

    return _with_schema(_chunks_of(batches, size), schema)


def _check_zone(roles: dict[str, Name], file: str, found: Any, first: str, expected: Any) -> None:
    """Refuse a file if its times have a time zone and those of the first file have none, or the other way."""
    for name in {roles[role] for role in ("time", "ratio") if role in roles}:
        is_zoned, was_zoned = (
            getattr(schema.field(name).type, "tz", None) is not None for schema in (found, expected)
        )
        if is_zoned != was_zoned:
            words = "a time zone, and none" if is_zoned else "no time zone, and one"
            raise OSError(f"column {name!r} of {file} has {words} in {first}")


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


def _arrow_stream(log: Any, size: int) -> Table:
    require("pyarrow")
    from pyarrow import RecordBatchReader

    if isinstance(log, RecordBatchReader):
        raise ValueError("a RecordBatchReader can be read only once: pass a table, a data set or a file")

    def batches(roles: dict[str, Name]) -> Iterator[Any]:
        for batch in RecordBatchReader.from_stream(log):
            yield batch.select(parts_of(roles))

    return _with_schema(_chunks_of(batches, size), RecordBatchReader.from_stream(log).schema)


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
            types.is_string_view,
        )
        return any(is_kind(kind) for is_kind in known)

    names = list(schema.names)
    times = [name for name in names if names.count(name) == 1 and types.is_temporal(schema.field(name).type)]
    zoned = [name for name in times if getattr(schema.field(name).type, "tz", None) is not None]
    return Table(chunks, names, times, [], fits, zoned)


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
    if types.is_dictionary(kind):
        entries = _arrow_array(column.dictionary, name)
        places = column.indices.to_numpy(zero_copy_only=False)
        if not column.null_count:
            return np.asarray(entries[places])
        found = np.full(len(column), None, dtype=object)
        there = ~np.isnan(places)
        found[there] = entries[places[there].astype(np.int64)]
        return found
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
