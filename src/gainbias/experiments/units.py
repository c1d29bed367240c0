"""What a unit of work is, how it is computed, and how its tables are sent back.

`answer_of` computes a `Unit`, packs its tables into bytes (`packed`), and answers with them. It must not
compute with other sources, other versions or more threads than planned.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gainbias.experiments.provenance import (
    MissingModuleError,
    Reach,
    code_of,
    code_version,
    has_one_thread,
)
from gainbias.progress import Watch

if TYPE_CHECKING:
    import pyarrow

    from gainbias.engine.trace import Trace

Columns = dict[str, Any]
"""Columns of a table by name, as a unit computes them."""

Tables = dict[str, "pyarrow.Table"]
"""The tables of a unit by name, as they are read."""

BATCH_SECONDS = 2.0
"""Units are sent in batches that take about this long: what is lost when a worker is killed."""


class Unit(Protocol):
    """A piece of work with a result that depends on nothing but the unit itself."""

    @property
    def id(self) -> str:
        """Hash of everything that determines the result, `code` included."""

    @property
    def code(self) -> str:
        """Hash of the code that the result is to come from."""

    @property
    def reach(self) -> Reach:
        """Modules in which the unit begins: its code is theirs, and that of all they can reach."""

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
    """The result of a unit: the packed tables, or why there are none; `was_lost`: lost with its worker.

    Of one that `is_begun` the payload is what it begins with.
    """

    id: str
    payload: Any
    error: str = ""
    seconds: float = 0.0
    was_lost: bool = False
    is_begun: bool = False


class UnitLimits(NamedTuple):
    """The limits of a unit: seconds, and bytes of memory of the process that computes it."""

    seconds: float | None = None
    memory: float | None = None

    def check(self) -> None:
        """Refuse invalid limits, and one that cannot be watched on this system."""
        for name, value in (("unit_seconds", self.seconds), ("unit_memory", self.memory)):
            if value is not None and not (isinstance(value, Real) and value > 0.0):
                raise ValueError(f"{name} must be a positive number, found {value!r}")
        if self.memory is not None and not sys.platform.startswith("linux"):
            raise ValueError("unit_memory works on Linux only: leave it out")


class WrongEnvironmentError(RuntimeError):
    """A worker would compute something else than this process."""


class StoppedError(KeyboardInterrupt):
    """Ctrl-C was pressed once: running units are finished and kept, the rest was not begun."""


def answer_of(unit: Unit) -> UnitAnswer:
    """Compute a unit, and return its tables; an error that it raises is an answer, too."""
    return _answer(unit, lambda: packed(unit.compute()))


def _answer(unit: Unit, compute: Callable[[], Any]) -> UnitAnswer:
    if fault := unit_fault(unit):
        raise WrongEnvironmentError(f"a worker {fault}")
    started = time.perf_counter()
    with Watch.silence():
        try:
            payload = compute()
        except (Exception, SystemExit) as error:
            return UnitAnswer(unit.id, None, in_words(error), time.perf_counter() - started)
    return UnitAnswer(unit.id, payload, seconds=time.perf_counter() - started)


class StackedUnit(Unit, Protocol):
    """A unit of which the processor does the first and the last part, and a GPU what is between them."""

    @property
    def companions(self) -> Any:
        """What is equal for units that the GPU may take together."""

    def begin(self) -> Any:
        """Do the first part, and return what the others need."""

    def run_stacked(self, begun: Sequence[Any]) -> list[Mapping[str, Any]]:
        """Return what the GPU finds for each of some companions of this unit, given what they began with."""

    def finish(self, begun: Any, found: Mapping[str, Any]) -> dict[str, Columns]:
        """Return columns of tables; what the GPU has not found is computed."""


MOST_CARRIED = 4 * 2**20
"""Bytes of what a unit begins with that are carried to the process that has the GPU, and back, at most. To
carry more takes that one process longer than the steps take sixteen cores: docs/gpu.md has the figures."""


def first_part(unit: StackedUnit) -> UnitAnswer:
    """Begin a unit, for `last_part` to finish it, or compute all of one that is too large to be carried."""
    begun = _answer(unit, unit.begin)
    if begun.payload is None:
        return begun
    if len(pickle.dumps(begun.payload, pickle.HIGHEST_PROTOCOL)) > MOST_CARRIED:
        return last_part(unit, begun.payload, {})
    return begun._replace(is_begun=True)


def last_part(unit: StackedUnit, begun: Any, found: Mapping[str, Any]) -> UnitAnswer:
    """Finish a unit, and return its tables."""
    return _answer(unit, lambda: packed(unit.finish(begun, found)))


class LanesUnit(Unit, Protocol):
    """A unit whose lanes may run together with those of others, in one run."""

    @property
    def companions(self) -> Any:
        """A key that is the same for units whose lanes may run together."""

    def compute_together(self, units: Sequence[Any], device: str) -> Iterator[dict[str, Columns]]:
        """Yield the tables of units with the same key, in their order."""


def answers_together(units: Sequence[LanesUnit], device: str) -> list[UnitAnswer]:
    """Compute units with as few runs as possible, and return their tables, in their order.

    If units fail together, each is computed again alone, so that a bad one costs no other.
    """
    if faults := [fault for unit in units if (fault := unit_fault(unit))]:
        raise WrongEnvironmentError(f"this process {faults[0]}")
    groups, found = dict[Any, list[LanesUnit]](), dict[str, UnitAnswer]()
    for unit in units:
        groups.setdefault(unit.companions, []).append(unit)
    for group in groups.values():
        started = time.perf_counter()
        with Watch.silence():
            try:
                payloads = [packed(tables) for tables in group[0].compute_together(group, device)]
                took = (time.perf_counter() - started) / len(group)
                answers = [UnitAnswer(u.id, p, seconds=took) for u, p in zip(group, payloads, strict=True)]
            except (Exception, SystemExit) as error:
                if len(group) > 1:
                    answers = [answer for unit in group for answer in answers_together([unit], device)]
                else:
                    took = time.perf_counter() - started
                    answers = [UnitAnswer(group[0].id, None, in_words(error), took)]
        found |= {answer.id: answer for answer in answers}
    return [found[unit.id] for unit in units]


def in_words(error: BaseException) -> str:
    """Return an error with the place where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}, line {last.lineno})"


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
    """Return the tables from the bytes that `packed` made."""
    import pyarrow

    head, _, body = payload.partition(b"\n")
    tables, start = {}, 0
    for name, size in json.loads(head).items():
        tables[name] = pyarrow.ipc.open_stream(body[start : start + size]).read_all()
        start += size
    return tables


def unit_fault(unit: Unit) -> str:
    """Return what is wrong with computing a unit in this process, in words; empty if nothing is.

    Wrong are other sources or versions, or more threads, than planned.
    """
    try:
        own = code_of(unit.reach)
    except MissingModuleError as error:
        return str(error)
    if own != unit.code:
        what = ["gainbias", "its dependencies", *(name for name in unit.reach if "gainbias" not in name)]
        return (
            f"would compute {unit.label} with other code than was planned: have the same versions of "
            f"{', '.join(what)} everywhere, then restart the workers"
        )
    if not has_one_thread():
        return (
            "may use several threads for linear algebra, which changes last digits: set "
            "OPENBLAS_NUM_THREADS=1 where it is started"
        )
    return ""


def code_fault(planned: str) -> str:
    """Return how sources or versions differ from those that were planned, in words; empty if they do not."""
    if (own := code_version()) == planned:
        return ""
    return (
        f"has gainbias {own} with its dependencies, and the study was planned with {planned}: install the "
        "same versions everywhere, then restart the workers"
    )


def refuse_interrupted(trace: Trace) -> None:
    """Raise KeyboardInterrupt if a run was interrupted: half a result is useless."""
    if any(outcome.status == "interrupted" for outcome in trace.outcomes):
        raise KeyboardInterrupt


def is_defined(trace: Trace, kind: str, target: str) -> bool:
    """Whether a trace has errors of a kind: a limit known up to a constant has no full distance."""
    on_a_line = trace.algorithm.declared.limit_is_line and trace.problem.ones_in_span
    return not (target == "own" and kind == "full" and on_a_line)
