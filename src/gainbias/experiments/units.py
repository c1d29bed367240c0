"""What a unit of work is, how a worker does several of them, and how its tables travel back.

A worker computes `Unit` after `Unit`, packs the tables of each into bytes (`packed`), and answers with them.
What it may not do is compute with other sources, other versions or more threads than planned.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gainbias.experiments.provenance import code_version, has_one_thread, machine
from gainbias.progress import Watch

if TYPE_CHECKING:
    import pyarrow

    from gainbias.engine.trace import Trace

Columns = dict[str, Any]
"""Columns of a table by name, as a unit computes them."""

Tables = dict[str, "pyarrow.Table"]
"""The tables of a unit by name, as they are read again."""

BATCH_SECONDS = 2.0
"""Units are sent in batches that take about this long: what is lost when a worker is killed."""


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
        """The unit in a few words."""

    @property
    def seconds(self) -> float:
        """Rough time of the unit, in seconds on a core of 2020."""

    @property
    def lane_steps(self) -> int:
        """Number of steps of all its lanes; 0 if they are not counted."""

    def compute(self) -> dict[str, Columns]:
        """Compute the unit, and return columns of tables."""


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
    """Compute units in a worker, and return their answers and the kind of machine.

    An error that a unit raises is its answer, too.
    """
    check_environment({unit.code for unit in units})
    with Watch.silence():
        return [_answer(unit) for unit in units], machine()


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


def check_environment(codes: set[str]) -> None:
    """Refuse to compute with other sources or versions, or with more threads, than was planned."""
    fault = environment_fault(codes)
    if fault:
        raise WrongEnvironmentError(fault)


def environment_fault(codes: set[str]) -> str:
    """Return what is wrong with this process as a worker, in words; empty if nothing is."""
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
    """Prepare a worker process: it leaves Ctrl-C to its parent, and ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def refuse_interrupted(trace: Trace) -> None:
    """Raise KeyboardInterrupt if a run was interrupted: half a result is none."""
    if any(outcome.status == "interrupted" for outcome in trace.outcomes):
        raise KeyboardInterrupt


def is_defined(trace: Trace, kind: str, target: str) -> bool:
    """Whether a trace has errors of a kind: a limit known up to a constant has no full distance."""
    on_a_line = trace.algorithm.declared.limit_is_line and trace.problem.ones_in_span
    return not (target == "own" and kind == "full" and on_a_line)
