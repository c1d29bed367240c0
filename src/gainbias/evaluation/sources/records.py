"""Columns from records: lists, as simulators keep them, JSON lines, and files of load generators.

`record_columns` reads a list of named tuples, data classes, dictionaries or (time, value) pairs, and
`number_in_system` turns arrivals and departures into a log of events. `json_blocks` reads JSON lines.
`read_requests` reads what three load generators write for each request: vLLM's benchmark, guidellm, aiperf.

A file is parsed as JSON, and nothing in it is executed. JSON lines are read a block at a time. A JSON
document is read as a whole, and so are the numbers of all requests.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gainbias.evaluation.stream import BrokenStream
from gainbias.types import Floats

PAIR = ("time", "value")
"""What the two parts of a pair in a list are called."""

ORDER_OF_CIW = "arrival_date"
"""Field by which records of Ciw are sorted."""

UNITS_OF_AIPERF = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0}
"""Seconds in a unit of time, by aiperf's names."""

COLUMNS_OF_VLLM = (
    "ttfts",
    "itls",
    "output_lens",
    "input_lens",
    "errors",
    "latencies",
    "start_times",
    "queue_times",
)
"""Lists of `vllm bench serve` with an entry for each request; old versions lack the last three."""

BENCHMARK = "benchmark"
"""Column that tells several benchmarks in one file apart."""

DAMAGED_FILE = (OSError, EOFError, zlib.error)
"""Errors from a file, also a compressed one, that is damaged or cut short."""

Request = dict[str, float]
"""What is known about one request, under the names of the columns of `RequestLog`."""


class RecordList(Mapping[str, NDArray[Any]]):
    """Columns of a list of records, each made on demand.

    Attributes
    ----------
    notes : list of str
        How the records were changed, in words.
    """

    def __init__(
        self, records: Sequence[Any], names: Sequence[str], value: Callable[[Any, str], Any]
    ) -> None:
        self._records, self._names, self._value = records, list(names), value
        self._made: dict[str, NDArray[Any]] = {}
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._column(name)
        return self._made[name]

    def _column(self, name: str) -> NDArray[Any]:
        found = []
        for row, record in enumerate(self._records):
            try:
                found.append(self._value(record, name))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                raise ValueError(
                    f"record {row} has no {name}: it is {_shortened(record)}, and the first one is "
                    f"{_shortened(self._records[0])}"
                ) from None
        return _column_of(found)


def _column_of(entries: list[Any]) -> NDArray[Any]:
    """Return a column as an array of numbers or times, or of objects if something else is among them."""
    if entries and all(isinstance(one, datetime) and one.tzinfo is None for one in entries):
        return np.array(entries, dtype="M8[us]")
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    try:
        plain = np.array(entries)
    except ValueError:
        return found
    return plain if plain.ndim == 1 and plain.dtype.kind in "iufb" else found


def record_columns(records: Any) -> RecordList | None:
    """Return the columns of a list of records; None if it is something else.

    Parameters
    ----------
    records : object
        A list of named tuples, data classes, mappings or pairs. All are read like the first one. Records of
        Ciw, which are in the order in which customers left, are sorted by their arrivals.

    Examples
    --------
    >>> columns = record_columns([(0.0, 3), (1.5, 4)])
    >>> list(columns), columns["value"]
    (['time', 'value'], array([3, 4]))
    >>> record_columns([1.0, 2.0]) is None
    True
    """
    if not isinstance(records, list) or not records:
        return None
    first = records[0]
    if isinstance(first, Mapping):
        return RecordList(records, list(map(str, first)), lambda record, name: record[name])
    names = getattr(first, "_fields", None) if isinstance(first, tuple) else None
    if names is None and is_dataclass(first):
        names = [one.name for one in fields(first)]
    if names is not None:
        return _in_order_of_arrival(RecordList(records, names, getattr))
    if type(first) is tuple and len(first) == 2:
        return RecordList(records, PAIR, _part_of_pair)
    return None


def _part_of_pair(pair: Any, name: str) -> Any:
    time, value = pair
    return time if name == "time" else value


def _in_order_of_arrival(columns: RecordList) -> RecordList:
    """Return records of Ciw in order of arrivals, and others as they are."""
    if not {ORDER_OF_CIW, "exit_date", "record_type", "node"} <= set(columns):
        return columns
    dates = columns[ORDER_OF_CIW]
    if dates.dtype.kind not in "iuf" or (dates[1:] >= dates[:-1]).all():
        return columns
    records = columns._records
    inside = RecordList([records[row] for row in np.argsort(dates, kind="stable")], list(columns), getattr)
    inside.notes.append(f"records of Ciw were put in the order of {ORDER_OF_CIW}: rows count in this order")
    return inside


def _shortened(thing: Any) -> str:
    words = repr(thing)
    return words if len(words) <= 60 else f"{words[:57]}..."


def number_in_system(arrivals: ArrayLike, departures: ArrayLike) -> dict[str, NDArray[Any]]:
    """Return the number in a system after each arrival or departure, in order of time.

    Parameters
    ----------
    arrivals : (n,) array_like
        When each one came: numbers, or dates and times without a time zone. In any order.
    departures : (n,) array_like
        When each one left. A customer without a departure (None, NaN or NaT) is still there.

    Returns
    -------
    dict
        "time", which grows from row to row, and "count", which holds from there to the next row.
        Everything that happens at the same time is one row. `evaluate_log` reads it as a log of events, with
        "count" as the rate that is paid per unit of time.

    Raises
    ------
    ValueError
        If an arrival is missing, or if somebody left before they came; the message names the row.

    Notes
    -----
    Customers who are still there must not be left out: without them the system seems to empty towards the
    end. Ciw leaves them out unless you call ``get_all_records(include_incomplete=True)``.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.number_in_system([0.0, 1.0, 2.0], [2.0, 5.0, None])
    {'time': array([0., 1., 2., 5.]), 'count': array([1, 2, 2, 1])}
    """
    came, left = _times(arrivals, "arrivals"), _times(departures, "departures")
    if came.shape != left.shape:
        raise ValueError(f"there are {len(came)} arrivals and {len(left)} departures: each needs its own")
    if _kind_of_dates(came) and left.dtype.kind == "f" and np.isnan(left).all():  # nobody has left
        left = np.full(left.shape, "NaT", dtype=came.dtype)
    if _kind_of_dates(came) != _kind_of_dates(left) and len(came):
        raise ValueError("arrivals and departures must both be numbers, or both dates")
    missing = _is_missing(came)
    if missing.any():
        raise ValueError(f"row {int(np.argmax(missing))}: the arrival is missing")
    gone = ~_is_missing(left)
    early = gone & (left < came)
    if early.any():
        row = int(np.argmax(early))
        raise ValueError(f"row {row}: the departure {left[row]} is before the arrival {came[row]}")
    times, place = np.unique(np.concatenate([came, left[gone]]), return_inverse=True)
    changes = np.append(np.ones(len(came), dtype=np.int64), -np.ones(int(gone.sum()), dtype=np.int64))
    steps = np.zeros(len(times), dtype=np.int64)
    np.add.at(steps, place, changes)
    return {"time": times, "count": np.cumsum(steps)}


def _times(given: ArrayLike, name: str) -> NDArray[Any]:
    """Return times as numbers, dates or durations; what is missing becomes NaN or NaT."""
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a column of times, found an array with shape {array.shape}")
    if array.dtype.kind in "Mmi":  # whole numbers may be nanoseconds, which have more digits than a float
        return array
    entries = array.tolist() if array.dtype.kind == "O" else []
    first = next((entry for entry in entries if entry is not None and entry == entry), None)
    try:
        if first is not None and hasattr(first, "tzinfo"):
            if first.tzinfo is not None:
                raise ValueError
            return np.array([entry if entry == entry else None for entry in entries], dtype="M8[us]")
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, or dates and times without a time zone") from None


def _kind_of_dates(times: NDArray[Any]) -> str:
    """Return the kind of dates or durations; nothing for numbers."""
    return times.dtype.kind if times.dtype.kind in "Mm" else ""


def _is_missing(times: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.isnat(times) if _kind_of_dates(times) else np.isnan(times), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class RequestLog(Mapping[str, NDArray[Any]]):
    """Requests that a load generator sent, in the order in which they began: a mapping of columns.

    Attributes
    ----------
    columns : dict
        For requests that were answered, as far as the file has them. "start": when it was sent, in seconds;
        "latency": from then to the end of the answer, in seconds; "ttft": time to the first token, in
        seconds; "itl": mean time between tokens after the first, in seconds; "input_tokens" and
        "output_tokens"; "delay": from when it was due to when it was sent, in seconds. A number that a
        request does not have is NaN: a single token has no time between tokens. With several benchmarks in
        one file, "benchmark" says which.
    writer : str
        The program that wrote the file.
    num_failed : int
        Requests that failed, were cancelled or never ended: they are left out.
    notes : list of str
        What was left out, in words.

    Examples
    --------
    >>> import gainbias as gb
    >>> requests = gb.RequestLog({"ttft": np.array([0.1, 0.3, 0.2, 0.2])}, "aiperf", num_failed=1)
    >>> list(requests), round(gb.evaluate_series(requests, (), column="ttft").mean, 3)
    (['ttft'], 0.2)
    """

    columns: dict[str, NDArray[Any]]
    writer: str
    num_failed: int = 0
    notes: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def having(self, names: Iterable[Any]) -> RequestLog:
        """Return the requests that have a number in each of these columns, with a note if some do not."""
        chosen = [name for name in names if isinstance(name, str) and name in self.columns]
        numbers = [self.columns[name] for name in chosen if self.columns[name].dtype.kind == "f"]
        kept = np.logical_and.reduce([np.isfinite(column) for column in numbers]) if numbers else True
        if np.all(kept):
            return self
        without = f"{int(np.sum(~np.asarray(kept))):,} of {len(numbers[0]):,} requests have no "
        note = f"{without}{' or no '.join(chosen)} and are left out"
        columns = {name: column[kept] for name, column in self.columns.items()}
        return RequestLog(columns, self.writer, self.num_failed, [*self.notes, note])


def read_requests(path: str | os.PathLike[str], benchmark: int | None = None) -> RequestLog:
    """Read what a load generator wrote about each request.

    Parameters
    ----------
    path : path
        Of one of these, perhaps compressed (.gz): the result of ``vllm bench serve --save-result
        --save-detailed``, the ``benchmarks.json`` of guidellm, or the ``profile_export.jsonl`` of aiperf.
    benchmark : int, optional
        Which one, from 0, if the file has several. Without it all are read, and a column tells them apart.

    Returns
    -------
    RequestLog
        A mapping of columns, for `evaluate_series`, which also takes the path itself.

    Raises
    ------
    ValueError
        If the file is none of these; the message says what was found instead. Or if a request is
        incomplete; the message has its number.

    Examples
    --------
    >>> import json, tempfile, pathlib
    >>> import gainbias as gb
    >>> result = {"ttfts": [0.1, 0.2], "itls": [[0.02], [0.03]], "output_lens": [2, 2], "errors": ["", ""]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "result.json"
    ...     _ = path.write_text(json.dumps(result))
    ...     requests = gb.read_requests(path)
    >>> list(requests), requests["latency"].round(2)
    (['latency', 'ttft', 'itl', 'output_tokens'], array([0.12, 0.23]))
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise ValueError(f"there is no file {path}")
    first = first_object(path)
    if first is not None and is_of_aiperf(first):
        return _chosen_benchmark(path, [_of_aiperf(path)], benchmark)
    documents = _documents(path)
    readers = {"ttfts": _of_vllm, "benchmarks": _of_guidellm}
    found: list[RequestLog] = []
    for document in documents:
        reader = next(
            (readers[key] for key in readers if isinstance(document, dict) and key in document), None
        )
        if reader is None:
            raise ValueError(f"{path} {_not_requests(document)}")
        found += reader(path, document)
    return _chosen_benchmark(path, found, benchmark)


def _opened(path: str) -> BinaryIO:
    """Open a file for reading bytes, also a compressed one."""
    return cast(BinaryIO, gzip.open(path, "rb")) if path.lower().endswith(".gz") else open(path, "rb")


def first_object(path: str) -> dict[str, Any] | None:
    """Return the JSON object in the first line of a file that is not empty; None if it has none."""
    try:
        with _opened(path) as file:
            found = json.loads(next(filter(bytes.strip, file), b""))
    except (*DAMAGED_FILE, ValueError):
        return None
    return found if isinstance(found, dict) else None


def first_json_table(path: str, size: int) -> Any:
    """Return the first block of JSON lines as a table of PyArrow, or its first row if others do not fit."""
    import pyarrow

    try:
        with _opened(path) as file:
            block = next(_blocks(file, size), b"")
    except DAMAGED_FILE as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    lines = list(filter(bytes.strip, block.splitlines()))
    if not lines:
        raise ValueError(f"{path} is empty")
    _json_object(lines[0], 0)
    for rows in (block, lines[0]):
        with suppress(pyarrow.ArrowInvalid):
            return _json_table(rows, None)
    raise ValueError(f"{path} is not a file of JSON lines that can be read: {lines[0][:60]!r} does not fit")


def json_blocks(path: str, kinds: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """Read columns of JSON lines, a block at a time.

    Parameters
    ----------
    path : str
        Of the file.
    kinds : dict
        Which columns, and of which type of PyArrow each is expected to be.
    size : int
        Bytes of a block.

    Yields
    ------
    dict
        Columns, all as arrays of PyArrow; or as arrays of NumPy, where PyArrow cannot read the block.

    Raises
    ------
    BrokenStream
        At the first row that is not an object, after all rows before it.
    """
    import pyarrow

    rows, names = 0, list(kinds)
    try:
        with _opened(path) as file:
            for block in _blocks(file, size):
                found, wrong = None, None
                for wanted in (pyarrow.schema(kinds.items()), None):  # else with whatever types there are
                    with suppress(pyarrow.ArrowInvalid):
                        table = _json_table(block, wanted)
                        if all(name in table.column_names for name in names):
                            found = {name: table[name].combine_chunks() for name in names}
                            break
                if found is None:
                    found, wrong = _rows_of_lines(block, names, rows)
                count = len(found[names[0]])
                if count:
                    yield found
                if wrong is not None:
                    raise wrong
                rows += count
    except DAMAGED_FILE as error:
        raise BrokenStream(f"row {rows}, or one after it, cannot be read: {error}") from error


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Return blocks of whole lines that are not all empty."""
    while block := file.read(size):
        block += file.readline()
        if block.strip():
            yield block


def _json_table(block: bytes, kinds: Any) -> Any:
    """Return lines of JSON as a table, with columns of given kinds only, or all as they are.

    Dates stay texts: PyArrow would take those with a time zone for dates without one.
    """
    import pyarrow
    import pyarrow.json

    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block))
    others = "infer" if kinds is None else "ignore"
    parsing = pyarrow.json.ParseOptions(kinds, unexpected_field_behavior=others)
    table = pyarrow.json.read_json(pyarrow.BufferReader(block), reading, parsing)
    if kinds is not None or not any(pyarrow.types.is_timestamp(one.type) for one in table.schema):
        return table
    texts = [
        one.with_type(pyarrow.string()) if pyarrow.types.is_timestamp(one.type) else one
        for one in table.schema
    ]
    return _json_table(block, pyarrow.schema(texts))


def _rows_of_lines(
    block: bytes, names: list[str], first: int
) -> tuple[dict[str, NDArray[Any]], BrokenStream | None]:
    """Return columns read line by line, and what was wrong with the first row that is not an object."""
    found: list[list[Any]] = []
    wrong = None
    for line in filter(bytes.strip, block.splitlines()):
        try:
            row = _json_object(line, first + len(found))
        except BrokenStream as error:
            wrong = error
            break
        found.append([row.get(name) for name in names])
    columns = [_column_of([row[place] for row in found]) for place in range(len(names))]
    return dict(zip(names, columns, strict=True)), wrong


def _json_object(line: bytes, row: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BrokenStream(f"row {row} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BrokenStream(f'row {row} is not an object with named columns, as in {{"ms": 12.5}}')
    return found


def is_of_aiperf(record: Mapping[str, Any]) -> bool:
    """Whether a line of JSON is a record of aiperf."""
    metadata = record.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and "metrics" in record


def _documents(path: str) -> list[Any]:
    """Return the JSON documents of a file: one, or several in a row."""
    try:
        with _opened(path) as file:
            text = file.read().decode("utf-8-sig", errors="replace").strip()
    except DAMAGED_FILE as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    decoder, place, found = json.JSONDecoder(), 0, []
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON that can be read: {error}") from None
        found.append(document)
        while place < len(text) and text[place].isspace():
            place += 1
    if not found:
        raise ValueError(f"{path} is empty")
    return found


def _not_requests(document: Any) -> str:
    """Return why a JSON document is not the log of a load generator."""
    if isinstance(document, dict):
        if "completed" in document and "request_throughput" in document:
            return "has only totals, not each request: call vllm bench serve with --save-detailed"
        keys = ", ".join(map(repr, list(document)[:8])) or "nothing"
        what = f"an object with {keys}{' and more' if len(document) > 8 else ''}"
    else:
        what = f"a {type(document).__name__}"
    return (
        f"is not a known log of requests: found {what}. Known are the files of vllm bench serve "
        "(--save-result --save-detailed), guidellm (benchmarks.json) and aiperf (profile_export.jsonl); "
        "write any other as JSON lines, one object for each row, in a file that ends with .jsonl"
    )


def _of_vllm(path: str, document: dict[str, Any]) -> list[RequestLog]:
    """Read a result of `vllm bench serve`, in which each column is a list."""
    ttfts, itls = document["ttfts"], document.get("itls")
    lists = {name: document.get(name) for name in COLUMNS_OF_VLLM}
    for name, column in lists.items():
        if column is not None and (not isinstance(column, list) or len(column) != len(ttfts)):
            raise ValueError(f"{path}: {name} must be a list with a number for each of {len(ttfts)} requests")
    if itls is None:
        raise ValueError(f"{path} has ttfts but no itls: call vllm bench serve with --save-detailed")
    requests: list[Request] = []
    for row in range(len(ttfts)):
        one = {name: column[row] for name, column in lists.items() if column is not None}
        if one.get("errors") or one.get("output_lens") == 0:
            continue
        with _naming(path, row):
            latency = one["latencies"] if "latencies" in one else one["ttfts"] + math.fsum(one["itls"])
            tokens = one.get("output_lens", len(one["itls"]) + 1)
            request = _numbers(
                start=one.get("start_times"),
                latency=latency,
                ttft=one["ttfts"],
                itl=(latency - one["ttfts"]) / (tokens - 1) if tokens > 1 else None,
                input_tokens=one.get("input_lens"),
                output_tokens=tokens,
                delay=one.get("queue_times"),
            )
        requests.append(request)
    return [_request_log(path, "vllm bench serve", requests, len(ttfts) - len(requests), [])]


def _of_guidellm(path: str, document: dict[str, Any]) -> list[RequestLog]:
    """Read a report of guidellm, one log for each of its benchmarks."""
    found = []
    for number, one in enumerate(document["benchmarks"]):
        groups = one.get("requests") if isinstance(one, dict) else None
        if not isinstance(groups, dict) or not isinstance(groups.get("successful"), list):
            raise ValueError(f"{path}: benchmark {number} has no requests that were successful")
        requests: list[Request] = []
        for row, given in enumerate(groups["successful"]):
            with _naming(path, row):
                request = _numbers(
                    start=given["request_start_time"],
                    latency=given["request_latency"],
                    ttft=_seconds(given.get("time_to_first_token_ms")),
                    itl=_seconds(given.get("inter_token_latency_ms")),
                    input_tokens=given.get("prompt_tokens"),
                    output_tokens=given.get("output_tokens"),
                    delay=given.get("request_dispatch_delay"),
                )
            requests.append(request)
        failed = sum(len(groups.get(kind) or ()) for kind in ("errored", "incomplete"))
        made = ((one.get("scheduler_metrics") or {}).get("requests_made") or {}).get("successful")
        notes = []
        if isinstance(made, int) and made > len(requests):
            notes.append(
                f"the file has {len(requests):,} of {made:,} requests, a random sample: results that "
                "depend on their order, such as intervals, are those of the sample"
            )
        found.append(_request_log(path, "guidellm", requests, failed, notes))
    return found


def _of_aiperf(path: str) -> RequestLog:
    """Read records of aiperf, line by line."""
    requests: list[Request] = []
    failed = warm_up = 0
    with _opened(path) as file:
        for row, line in enumerate(filter(bytes.strip, file)):
            with _naming(path, row):
                record = json.loads(line)
                metadata, metrics = record["metadata"], record["metrics"]
                if metadata.get("benchmark_phase") == "warmup":
                    warm_up += 1
                elif record.get("error") or metadata.get("was_cancelled"):
                    failed += 1
                else:
                    start, due = metadata["request_start_ns"], metadata.get("credit_issued_ns")
                    request = _numbers(
                        start=start / 1e9,
                        latency=_measured(metrics, "request_latency"),
                        ttft=_measured(metrics, "time_to_first_token"),
                        itl=_measured(metrics, "inter_token_latency"),
                        input_tokens=metrics.get("input_sequence_length", {}).get("value"),
                        output_tokens=metrics.get("output_sequence_length", {}).get("value"),
                        delay=None if due is None else (start - due) / 1e9,
                    )
                    requests.append(request)
    total = len(requests) + failed + warm_up
    notes = [f"{warm_up:,} of {total:,} requests are of the warm-up and are left out"] if warm_up else []
    return _request_log(path, "aiperf", requests, failed, notes)


def _measured(metrics: Mapping[str, Any], name: str) -> float | None:
    """Return a metric of aiperf in seconds."""
    if name not in metrics:
        return None
    unit = metrics[name]["unit"]
    if unit not in UNITS_OF_AIPERF:
        raise ValueError(f"{name} is in {unit!r}, known are {', '.join(UNITS_OF_AIPERF)}")
    return float(metrics[name]["value"]) * UNITS_OF_AIPERF[unit]


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


@contextmanager
def _naming(path: str, row: int) -> Iterator[None]:
    """Say which request is incomplete, whatever is wrong with it."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path}: request {row} has no {error.args[0]!r}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: request {row} cannot be read: {error}") from None


def _numbers(**request: Any) -> Request:
    """Return a request with NaN for what it does not have."""
    return {name: math.nan if number is None else float(number) for name, number in request.items()}


def _request_log(
    path: str, writer: str, requests: list[Request], failed: int, notes: list[str]
) -> RequestLog:
    """Return requests as columns in the order of their start; columns that no request has are left out."""
    columns: dict[str, Floats] = {}
    for name in ("start", "latency", "ttft", "itl", "input_tokens", "output_tokens", "delay"):
        column = np.array([request[name] for request in requests])
        if np.isfinite(column).any():
            columns[name] = column
    if "start" in columns:
        order = np.argsort(columns["start"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    if failed:
        notes = [*notes, f"{failed:,} of {failed + len(requests):,} requests failed and are left out"]
    if not columns:
        raise ValueError(f"{path} has no request that was answered ({failed:,} failed)")
    return RequestLog(dict(columns), writer, failed, notes)


def _chosen_benchmark(path: str, found: list[RequestLog], benchmark: int | None) -> RequestLog:
    """Return one benchmark of a file, or all of them with a column that tells them apart."""
    if not found:
        raise ValueError(f"{path} has no benchmark")
    if benchmark is not None:
        if not 0 <= benchmark < len(found):
            raise ValueError(f"benchmark must be from 0 to {len(found) - 1}, found {benchmark}")
        return found[benchmark]
    if len(found) == 1:
        return found[0]
    names = [name for name in found[0] if all(name in one for one in found)]
    columns = {name: np.concatenate([one[name] for one in found]) for name in names}
    lengths = [len(one[names[0]]) for one in found]
    columns[BENCHMARK] = np.repeat(np.arange(len(found)), lengths)
    notes = [f"benchmark {number}: {note}" for number, one in enumerate(found) for note in one.notes]
    return RequestLog(columns, found[0].writer, sum(one.num_failed for one in found), notes)
