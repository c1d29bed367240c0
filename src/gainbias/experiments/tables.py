"""Results as tables: packed into bytes by workers, joined into sorted Parquet files at the end.

Units come in the order in which their rows are sorted, so tables are written piece by piece, however large
they are, and neither who finished first nor an interruption changes a byte.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gainbias.store import whole_file

if TYPE_CHECKING:
    import pyarrow


Columns = dict[str, Any]
Tables = dict[str, "pyarrow.Table"]

GROUP_ROWS = 2**18
"""Rows are written in groups of at least this many."""

PARQUET = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": True,
    "write_statistics": True,
    "data_page_version": "1.0",
    "data_page_size": 2**20,
    "store_schema": True,
}
"""Settings that decide about the bytes of a file, beside its rows and the version of pyarrow."""


@dataclass(frozen=True)
class Layout:
    """The tables of one kind of study.

    Attributes
    ----------
    kind : str
        Of study.
    sorted_by : mapping of str to sequence of str
        For each table, the columns that the rows of a unit are sorted by; none if it has one.
    with_csv : sequence of str
        Tables that are also written as CSV.
    optional : sequence of str
        Columns of numbers that only some units have; they come last, and are empty elsewhere.
    """

    kind: str
    sorted_by: Mapping[str, Sequence[str]]
    with_csv: Sequence[str] = ()
    optional: Sequence[str] = ()

    @property
    def files(self) -> list[str]:
        """Names of the files of all tables."""
        return [f"{name}.parquet" for name in self.sorted_by] + [f"{name}.csv.gz" for name in self.with_csv]


def packed(tables: dict[str, Columns]) -> bytes:
    """Return tables as one piece of bytes, each in Arrow's stream format, compressed.

    Examples
    --------
    >>> columns = {"step": [1, 2], "values": np.array([[0.5, 0.25], [1.0, 2.0]])}
    >>> unpacked(packed({"runs": columns}))["runs"].to_pydict()
    {'step': [1, 2], 'values': [[0.5, 0.25], [1.0, 2.0]]}
    """
    import pyarrow

    parts, small = {}, pyarrow.ipc.IpcWriteOptions(compression="zstd")
    for name, columns in tables.items():
        sink = pyarrow.BufferOutputStream()
        table = pyarrow.table({key: _column(values) for key, values in columns.items()})
        with pyarrow.ipc.new_stream(sink, table.schema, options=small) as writer:
            writer.write_table(table)
        parts[name] = sink.getvalue().to_pybytes()
    sizes = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    return sizes + b"\n" + b"".join(parts.values())


def _column(values: Any) -> pyarrow.Array:
    """Return a column of Arrow; an array with two axes gives a list in each row."""
    import pyarrow

    if getattr(values, "ndim", 1) == 1:
        return pyarrow.array(values)
    starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pyarrow.ListArray.from_arrays(starts, values.ravel())


def unpacked(payload: bytes) -> Tables:
    """Return the tables that `packed` made bytes of."""
    import pyarrow

    head, _, body = payload.partition(b"\n")
    tables, start = {}, 0
    for name, size in json.loads(head).items():
        tables[name] = pyarrow.ipc.open_stream(body[start : start + size]).read_all()
        start += size
    return tables


def write_tables(folder: Path, layout: Layout, units: Iterable[Tables]) -> None:
    """Write the tables of all units, which come in the order of their rows."""
    with contextlib.ExitStack() as files:
        writers = {
            name: files.enter_context(_writing(folder, name, name in layout.with_csv))
            for name in layout.sorted_by
        }
        for tables in units:
            for name, table in tables.items():
                order = [(column, "ascending") for column in layout.sorted_by[name]]
                rows = table.sort_by(order) if order else table
                writers[name].add(_completed(rows, layout.optional))


def _completed(table: pyarrow.Table, optional: Sequence[str]) -> pyarrow.Table:
    """Return a table with all optional columns, in their order, at the end."""
    import pyarrow

    for name in optional:
        if name not in table.column_names:
            table = table.append_column(name, pyarrow.nulls(len(table), pyarrow.float64()))
    return table.select([name for name in table.column_names if name not in optional] + list(optional))


@contextlib.contextmanager
def _writing(folder: Path, name: str, with_csv: bool) -> Iterator[_Writer]:
    with contextlib.ExitStack() as files:
        parquet = files.enter_context(whole_file(folder / f"{name}.parquet"))
        csv = None
        if with_csv:
            plain = files.enter_context(whole_file(folder / f"{name}.csv.gz"))
            csv = files.enter_context(gzip.GzipFile("", "wb", compresslevel=4, fileobj=plain, mtime=0))
        writer = _Writer(parquet, csv)
        yield writer
        writer.close()


class _Writer:
    """The writer of one table, group by group."""

    def __init__(self, parquet: Any, csv: Any) -> None:
        self._parquet, self._csv = parquet, csv
        self._waiting: list[pyarrow.Table] = []
        self._rows = 0
        self._file: Any = None

    def add(self, rows: pyarrow.Table) -> None:
        self._waiting.append(rows)
        self._rows += len(rows)
        if self._rows >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        self._write()
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        if not self._waiting:
            return
        group = pyarrow.concat_tables(self._waiting).combine_chunks()
        first = self._file is None
        if self._file is None:
            self._file = pyarrow.parquet.ParquetWriter(self._parquet, group.schema, **PARQUET)
        self._file.write_table(group, row_group_size=max(1, len(group)))
        if self._csv is not None:
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(group, buffer, pyarrow.csv.WriteOptions(include_header=first))
            self._csv.write(buffer.getvalue())
        self._waiting, self._rows = [], 0
