"""Columns that look like times but are not used.

If no column of times is named, the answer is per row, which is the same as per unit of time only if rows
are evenly spaced. So `clocks_of` searches for columns that look like times, and `watched` says whether rows
are evenly spaced by them. That takes one pass, with a few numbers kept for each column. The module `times`
reads a column that is named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.columns import Chunk, Name, Table, parts_of
from gainbias.types import Floats

WORDS_OF_TIMES = {
    "time",
    "times",
    "timestamp",
    "timestamps",
    "stamp",
    "datetime",
    "date",
    "clock",
    "walltime",
    "elapsed",
    "ts",
    "unix",
    "posix",
    "utc",
}
"""A name with one of these words is that of a column of times, or of durations."""

WORDS_OF_DURATIONS = {"duration", "durations", "dur", "sojourn", "dwell", "holding", "interarrival"}
"""A name with one of these words is that of a column of durations."""

ENDS_OF_TIMES = ("time", "stamp", "clock")
"""Words that end like this, as in "eventtime", are words of times, too."""

NAMES_OF_TIMES = {
    *("t", "at", "when", "ms", "sec", "secs", "seconds", "minutes", "hours"),
    *("milliseconds", "microseconds", "nanoseconds"),
}
"""A column with one of these names as a whole, perhaps with a unit behind it, is one of times."""

NAMES_OF_DURATIONS = {"dt", "delta_t", "deltat", "time_delta", "timedelta"}
"""A column with one of these names as a whole, perhaps with a unit behind it, is one of durations."""

PERHAPS_TIMES = {
    *("epoch", "start", "end", "begin", "stop", "started", "ended", "finished"),
    *("created", "updated", "recorded", "logged", "occurred", "received"),
    *("second", "minute", "hour", "day", "week", "month", "year"),
    *("arrival", "arrivals", "arrived", "departure", "departures", "departed", "sent", "tick", "ticks"),
}
"""These names may mean something else: numbers that do not rise from row to row are not times."""

PERHAPS_DURATIONS = {"interval", "gap", "wait", "spacing"}
"""These names may mean something else, which the numbers cannot show: the note has an *if*."""

UNITS = {
    *("ns", "us", "ms", "s", "sec", "secs", "second", "seconds", "nanos", "micros", "millis"),
    *("minutes", "mins", "hour", "hours", "hrs", "days"),
}
"""Words at the end of a name that only say in what it is measured. Not "min": that is also a minimum."""

UNEVEN = 0.05
"""Rows are unevenly spaced if elapsed time differs from the usual gap times rows by more than this share."""

FIRST_ROWS = 1_000
"""The usual gap is found from this many rows, or from the first chunk."""

DECIMALS = 7
"""Times that are not whole numbers may be rounded to fewer decimals than this."""

MOST_TIES = 0.1
"""In a column whose name may mean something else, at most this share of times equals the one before."""

LONG_AGO = 1e8
"""Numbers this large or larger are times since a date long ago, even if many are equal."""

LARGEST_PLAIN_TIME = 2**52
"""Whole numbers beyond this are times since a date long ago, in tiny units."""


class Clock:
    """A column that looks like times or durations.

    Parameters
    ----------
    name : str
        Name of the column.
    is_duration : bool or None
        ``None`` if only the numbers can tell: durations go up and down, times go up.
    is_sure : bool
        Whether the name or the type leaves no doubt.

    Examples
    --------
    >>> clock = Clock("time", None)
    >>> clock.add(np.array([0.0, 1.0, 2.0, 7.0, 7.5, 30.0]), np.zeros(6, dtype=bool))
    >>> clock.is_uneven()
    True
    """

    def __init__(self, name: str, is_duration: bool | None, is_sure: bool = True) -> None:
        self.name, self.is_sure, self._is_duration = name, is_sure, is_duration
        self._is_readable = True
        self._lowest, self._falls, self._ties, self._rises = np.inf, 0, 0, 0
        self._last = np.empty(0)
        self._origin: int | None = None
        self._ups = self._downs = 0
        self._gaps, self._values = _UnusualShare(), _UnusualShare()
        self._line = _Line()

    def add(self, column: NDArray[Any], starts: NDArray[np.bool_]) -> None:
        """Take the next rows; where `starts` is true, times do not continue from the row before."""
        if not self._is_readable:
            return
        try:
            self._take(column, starts)
        except (TypeError, ValueError, OverflowError, AttributeError):  # no numbers at all
            self._is_readable = False

    @property
    def is_duration(self) -> bool:
        """Whether it is known to have durations, not times."""
        return bool(self._is_duration)

    @property
    def has_durations(self) -> bool:
        """Whether it has durations rather than times, by its name or else by its numbers."""
        is_unknown = self._is_duration is None
        return bool(self._is_duration) or (is_unknown and not self._ups > 2 * self._downs)

    def is_plausible(self) -> bool:
        """Whether numbers may be times that rise from row to row, or durations that are not negative."""
        if not self._is_readable:
            return False
        if self._is_duration:
            return self._lowest >= 0.0
        few_ties = self._ties <= MOST_TIES * (self._ties + self._rises)
        return self._rises > 0 and self._falls == 0 and (few_ties or self._lowest >= LONG_AGO)

    def is_uneven(self) -> bool:
        """Whether durations, or gaps between times, differ by more than rounding."""
        if not self._is_readable:
            return False
        if self.has_durations:
            return self._values.is_uneven()
        return self._gaps.is_uneven() and not self._line.is_possible

    def _take(self, column: NDArray[Any], starts: NDArray[np.bool_]) -> None:
        if column.dtype.kind == "M":
            self._is_duration = False
        numbers = self._from_origin(column)
        self._lowest = min(self._lowest, float(np.fmin.reduce(numbers, initial=np.inf)) + (self._origin or 0))
        self._values.add(np.abs(numbers[np.isfinite(numbers)]))
        whole = np.concatenate([self._last, numbers])
        gaps = np.diff(whole)
        begins = starts if len(self._last) else starts[1:]
        going_on = np.isfinite(gaps) & ~begins
        rises = np.diff(whole[np.isfinite(whole)])
        self._ups += int(np.count_nonzero(rises > 0.0))
        self._downs += int(np.count_nonzero(rises < 0.0))
        self._falls += int(np.count_nonzero(going_on & (gaps < 0.0)))
        self._ties += int(np.count_nonzero(going_on & (gaps == 0.0)))
        self._rises += int(np.count_nonzero(going_on & (gaps > 0.0)))
        going_on &= ~(gaps < 0.0)
        self._gaps.add(gaps[going_on])
        self._line.add(
            gaps, going_on, float(np.max(np.abs(numbers), where=np.isfinite(numbers), initial=0.0))
        )
        self._last = whole[-1:]

    def _from_origin(self, column: NDArray[Any]) -> Floats:
        """Return numbers; times are relative to the first, which keeps their digits."""
        if column.ndim != 1 or column.dtype.kind not in "MmiufOUST":
            raise TypeError(f"no times: {column.dtype}")
        if column.dtype.kind == "f":
            return np.where(np.isfinite(column), column, np.nan).astype(np.float64)
        if column.dtype.kind not in "Mmiu":
            return np.array([_seconds(entry) for entry in column.tolist()], dtype=np.float64)
        missing = np.isnat(column) if column.dtype.kind in "Mm" else np.zeros(len(column), dtype=np.bool_)
        whole = column.astype(np.int64)
        if self._origin is None and not missing.all():
            first = int(whole[~missing][0])
            self._origin = first if column.dtype.kind == "M" or abs(first) > LARGEST_PLAIN_TIME else 0
        return np.where(missing, np.nan, (whole - (self._origin or 0)).astype(np.float64))


class _UnusualShare:
    """How much of a total comes from numbers other than the usual one."""

    def __init__(self) -> None:
        self._usual: float | None = None
        self._total = self._odd = 0.0

    def add(self, numbers: Floats) -> None:
        if not len(numbers):
            return
        if self._usual is None:
            self._usual = float(np.median(numbers))
        self._total += float(numbers.sum())
        self._odd += float(np.abs(numbers - self._usual).sum())

    def is_uneven(self) -> bool:
        return self._odd > UNEVEN * self._total


class _Line:
    """Finds out whether times may be evenly spaced but rounded: whether some slope fits all of them.

    Attributes
    ----------
    is_possible : bool
    """

    def __init__(self) -> None:
        self._low, self._high, self._unit = 0.0, np.inf, np.inf
        self._risen, self._steps = 0.0, 0

    @property
    def is_possible(self) -> bool:
        return self._low <= self._high * (1.0 + 1e-9)

    def add(self, gaps: Floats, going_on: NDArray[np.bool_], largest: float) -> None:
        """Take the gaps between neighbouring rows; where time does not continue, a new count begins."""
        if not len(gaps):
            return
        self._unit = min(self._unit, _unit(gaps[going_on], largest))
        risen = np.cumsum(np.where(going_on, gaps, 0.0)) + self._risen
        steps = np.arange(1, len(gaps) + 1) + self._steps
        anchor = np.maximum.accumulate(np.where(going_on, -1, np.arange(len(gaps))))
        risen = risen - np.where(anchor >= 0, risen[anchor], 0.0)
        steps = steps - np.where(anchor >= 0, steps[anchor], 0)
        counted = steps > 0
        self._low = max(self._low, np.max((risen - self._unit)[counted] / steps[counted], initial=0.0))
        self._high = min(self._high, np.min((risen + self._unit)[counted] / steps[counted], initial=np.inf))
        self._risen, self._steps = float(risen[-1]), int(steps[-1])


def _unit(gaps: Floats, largest: float) -> float:
    """Return the unit of which gaps are multiples, whole or with few decimals; 0 if there is none."""
    if not gaps.any():
        return float("inf")  # nothing is known yet
    for decimals in range(DECIMALS):
        scale = 10.0**decimals
        rounding = scale * np.finfo(np.float64).eps * largest
        whole = np.rint(gaps * scale)
        if rounding > 1e-3 or whole.max() > LARGEST_PLAIN_TIME:
            return 0.0
        if whole.any() and np.abs(gaps * scale - whole).max() < 1e-6 + 4.0 * rounding:
            return float(np.gcd.reduce(whole.astype(np.int64))) / scale
    return 0.0


def _seconds(entry: Any) -> float:
    """Return a time that is an object or a text as a number."""
    if entry is None or type(entry).__name__ in ("NaTType", "NAType"):  # those of pandas
        return float("nan")
    if isinstance(entry, bool | np.bool_):
        raise TypeError("true and false are not times")
    if hasattr(entry, "ordinal") and hasattr(entry, "freq"):  # a period of pandas
        return float(entry.ordinal)
    if isinstance(entry, str | bytes):
        text = entry if isinstance(entry, str) else entry.decode()
        with suppress(ValueError):
            return float(text)
        entry = datetime.fromisoformat(text)
    if isinstance(entry, datetime):
        return entry.replace(tzinfo=entry.tzinfo or UTC).timestamp()
    if isinstance(entry, date):
        return 86_400.0 * entry.toordinal()
    return entry.total_seconds() if isinstance(entry, timedelta) else float(entry)


def clocks_of(table: Table, columns: dict[str, Name]) -> list[Clock]:
    """Return the columns that look like times or durations, by name or by type, and have no role."""
    used = set(parts_of(columns))
    reward = columns["reward"]
    found = []
    for name in table.names + table.index:
        kind, is_sure = _kind_by_name(name)
        if name in table.times or name in table.dated:
            kind, is_sure = kind or "time", True
        if kind and name not in used and table.names.count(name) < 2 and table.fits(name, reward):
            found.append(Clock(name, True if kind == "duration" else None, is_sure))
    return found


def unused_times(names: list[str], used: Collection[str]) -> list[str]:
    """Return notes about columns that are times by their names, and that a series does not use.

    Examples
    --------
    >>> unused_times(["at", "ms", "server"], ["ms"])
    ["column 'at' looks like times, and is not used: every row counts once; time='at' gives a mean over time"]
    """
    return [
        f"column {name!r} looks like times, and is not used: every row counts once; time={name!r} gives a "
        "mean over time"
        for name in names
        if name not in used and _kind_by_name(name) == ("time", True)
    ]


def _kind_by_name(name: str) -> tuple[str, bool]:
    """Return "time", "duration" or nothing, and whether the name leaves no doubt.

    Examples
    --------
    >>> [_kind_by_name(name)[0] for name in ("eventTime", "duration_ms", "created_at", "dt", "timeout", "x")]
    ['time', 'duration', 'time', 'duration', '', '']
    >>> [_kind_by_name(name)[0] for name in ("eventtime", "timestampms", "tStart", "timeouts", "sentiment")]
    ['time', 'time', 'time', '', '']
    >>> _kind_by_name("event_ts"), _kind_by_name("epoch"), _kind_by_name("epochMs"), _kind_by_name("gap_s")
    (('time', True), ('time', False), ('time', True), ('duration', False))
    """
    latin = re.sub("[\N{GREEK CAPITAL LETTER DELTA}\N{INCREMENT}]", "d", name)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", latin).lower()
    words = re.findall(r"[a-z0-9]+", snake) or [""]
    has_unit = len(words) > 1 and words[-1] in UNITS
    whole = "_".join(words[:-1] if has_unit else words)
    parts = {part for word in words for part in (word, *_without_unit(word))}
    if WORDS_OF_DURATIONS & parts or whole in NAMES_OF_DURATIONS:
        return "duration", True
    is_time = WORDS_OF_TIMES & parts or any(part.endswith(ENDS_OF_TIMES) for part in parts)
    if is_time or whole in NAMES_OF_TIMES or words[-1] == "at":
        return "time", True
    if whole in PERHAPS_DURATIONS:
        return "duration", False
    if all(word in NAMES_OF_TIMES | PERHAPS_TIMES for word in whole.split("_")):
        return "time", has_unit and whole == "epoch"
    return "", False


def _without_unit(word: str) -> list[str]:
    """Return a word without a unit at its end, as in "timestampms"."""
    return [word.removesuffix(unit) for unit in UNITS if word.endswith(unit)]


def watched(
    chunks: Iterator[Chunk], clocks: list[Clock], notes: list[str], warnings: list[str]
) -> Iterator[Chunk]:
    """Pass on rows without the columns of times, and add notes on what these show.

    Parameters
    ----------
    chunks : iterator of Chunk
        Rows in order; the columns of times are under the names that `roles_of` gives them.
    clocks : list of Clock
        One for each of those columns.
    notes, warnings : list of str
        Each column that surely has times gets a note, which is replaced by a warning once the column is
        known to be uneven. Of the others, only uneven ones are mentioned, at the end.
    """
    if not clocks:
        yield from chunks
        return
    for clock in clocks:
        if clock.is_sure:
            notes.append(_unused(clock))
    starts, waiting, rows = _Starts(), [], 0
    try:
        for chunk in chunks:
            own = {clock.name: chunk.pop(role) for clock, role in zip(clocks, roles_of(clocks), strict=True)}
            waiting.append((own, starts.of(chunk)))
            rows += len(chunk["reward"])
            if rows >= FIRST_ROWS:
                _judge(clocks, waiting, notes, warnings)
                waiting = []
            yield chunk
    finally:
        _judge(clocks, waiting, notes, warnings)
        for clock in clocks:
            if not clock.is_sure and clock.is_plausible() and clock.is_uneven():
                _speak_of(clock, notes, warnings)


def roles_of(clocks: list[Clock]) -> dict[str, Name]:
    """Return the names under which columns of times are read."""
    return {f"time {clock.name}": clock.name for clock in clocks}


def _unused(clock: Clock) -> str:
    return (
        f"column {clock.name!r} looks like times or durations, and is not used: every row counts as one step"
    )


def _judge(clocks: list[Clock], waiting: list[Any], notes: list[str], warnings: list[str]) -> None:
    if not waiting:
        return
    starts = np.concatenate([begins for _, begins in waiting])
    for clock in clocks:
        if clock.is_sure and _unused(clock) not in notes:
            continue
        with suppress(TypeError):  # parts of a column that do not fit together
            clock.add(np.concatenate([own[clock.name] for own, _ in waiting]), starts)
        if clock.is_sure and clock.is_uneven():
            notes.remove(_unused(clock))
            _speak_of(clock, notes, warnings)


def _speak_of(clock: Clock, notes: list[str], warnings: list[str]) -> None:
    """Say that rows are uneven by a column; with an *if* where its numbers may mean something else."""
    if clock.is_duration and not clock.is_sure:
        notes.append(
            f"column {clock.name!r} is not used: if it has the time from one row to the next, which varies, "
            "the answer is per row, not per unit of time"
        )
        return
    role = "duration" if clock.has_durations else "time"
    warnings.append(
        f"rows are not evenly spaced in time by column {clock.name!r}, which is not used: the answer is per "
        f"row, not per unit of time, unless you say {role}={clock.name!r}"
    )


class _Starts:
    """Finds rows that do not follow from the one before, in one chunk after another."""

    def __init__(self) -> None:
        self._ended = False
        self._episode: NDArray[Any] | None = None

    def of(self, chunk: Chunk) -> NDArray[np.bool_]:
        """Return whether each row begins an episode, or follows a cut."""
        ended = np.zeros(len(chunk["reward"]), dtype=np.bool_)
        for role in ("terminated", "truncated"):
            with suppress(TypeError, ValueError):  # what is wrong with it is reported elsewhere
                ended |= np.asarray(chunk.get(role, ended)).astype(np.bool_)
        starts = np.concatenate([[self._ended], ended[:-1]]).astype(np.bool_)
        self._ended = bool(ended[-1])
        if "episode" in chunk:
            episodes = chunk["episode"]
            before = episodes[:1] if self._episode is None else self._episode
            starts |= np.asarray(np.concatenate([before, episodes[:-1]]) != episodes)
            self._episode = episodes[-1:]
        return starts
