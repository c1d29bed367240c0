"""What a unit of work is, and how a worker does several of them.

Results as tables: packed into bytes by workers, joined into sorted Parquet files at the end.

Units come in the order in which their rows are sorted, so tables are written piece by piece, however large
they are, and neither who finished first nor an interruption changes a byte.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gainbias.experiments.provenance import code_version, has_one_thread, machine
from gainbias.progress import Watch
from gainbias.store import whole_file

if TYPE_CHECKING:
    import pyarrow

    from gainbias.engine.trace import Trace


Columns = dict[str, Any]
Tables = dict[str, "pyarrow.Table"]

GROUP_ROWS = 2**18
"""Rows are written when so many have come together."""

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
"""All that decides about the bytes of a file beside its rows and the version of pyarrow."""


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
        """Names of all files."""
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
    """Return a column; that of an array with two axes has a list in each row."""
    import pyarrow

    if getattr(values, "ndim", 1) == 1:
        return pyarrow.array(values)
    starts = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pyarrow.ListArray.from_arrays(starts, values.ravel())


def unpacked(payload: bytes) -> Tables:
    """Return the tables that were packed."""
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
    """One table, written group by group."""

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


BATCH_SECONDS = 2.0
"""Units are sent in batches that take about this long: what is lost when a worker is killed."""


def hash_of(known: Any) -> str:
    """Return a name for something that JSON can hold.

    Examples
    --------
    >>> hash_of({"task": "taxi"}) == hash_of({"task": "boyan-chain"})
    False
    """
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:24]


class Unit(Protocol):
    """A piece of work with a result that depends on nothing but the unit itself."""

    @property
    def id(self) -> str:
        """Hash of everything that determines the result, `code` included."""

    @property
    def code(self) -> str:
        """Version of the sources that the result is to come from."""

    @property
    def label(self) -> str:
        """What it is, in a few words."""

    @property
    def seconds(self) -> float:
        """How long it takes, roughly, on a core of 2020."""

    @property
    def lane_steps(self) -> int:
        """How many steps all its lanes make; 0 if nobody counts."""

    def compute(self) -> dict[str, Columns]:
        """Return columns of tables."""


class UnitAnswer(NamedTuple):
    """What became of a unit: the packed tables, or why there are none."""

    id: str
    payload: bytes | None
    error: str = ""
    seconds: float = 0.0


class WrongEnvironmentError(RuntimeError):
    """A worker would compute something else than this process."""


class StoppedError(KeyboardInterrupt):
    """Ctrl-C was pressed once: what ran is finished and kept, the rest was not begun."""


def compute_all(units: Sequence[Unit]) -> tuple[list[UnitAnswer], str]:
    """Do some units, and return their answers and the kind of machine they come from.

    What a unit raises is its answer, too. Called in workers.
    """
    check_environment({unit.code for unit in units})
    with Watch.silence():
        return [_answer(unit) for unit in units], machine()


def check_environment(codes: set[str]) -> None:
    """Refuse to compute with other sources or versions, or with more threads, than was planned."""
    fault = environment_fault(codes)
    if fault:
        raise WrongEnvironmentError(fault)


def environment_fault(codes: set[str]) -> str:
    """Say what is wrong with this process as a worker; empty if nothing is."""
    own = {code_version(), code_version(())}
    if not codes <= own:
        return (
            f"has gainbias {code_version()} with its dependencies, and the study was planned with "
            f"{', '.join(sorted(codes - own))}: install the same versions everywhere, then start workers anew"
        )
    if not has_one_thread():
        return (
            "may use several threads for linear algebra, which changes last digits: set "
            "OPENBLAS_NUM_THREADS=1 where it is started"
        )
    return ""


def be_a_worker(parent: int) -> None:
    """Prepare a process on this machine: Ctrl-C is for its parent, and it ends when that does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _answer(unit: Unit) -> UnitAnswer:
    started = time.perf_counter()
    try:
        payload = packed(unit.compute())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}, line {last.lineno}"
        return UnitAnswer(unit.id, None, f"{type(error).__name__}: {error} ({where})", _since(started))
    return UnitAnswer(unit.id, payload, seconds=_since(started))


def _since(started: float) -> float:
    return time.perf_counter() - started


def refuse_interrupted(trace: Trace) -> None:
    """Pass on Ctrl-C, which a run answers with what it has: half a result is none."""
    if any(outcome.status == "interrupted" for outcome in trace.outcomes):
        raise KeyboardInterrupt


def is_defined(trace: Trace, kind: str, target: str) -> bool:
    """Whether errors of a kind exist: a limit that is known up to a constant has no full distance."""
    on_a_line = trace.algorithm.declared.limit_is_line and trace.problem.ones_in_span
    return not (target == "own" and kind == "full" and on_a_line)
