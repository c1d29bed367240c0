"""Columns of a log that tell the time.

`RowClock` reads the column that was named, and tells how long each row lasts. If none was named, the answer
is per row; that is per unit of time, too, if rows are evenly spaced. So columns that look like times are
looked for (`clocks_of`), and it is said whether rows are evenly spaced by them (`watched`). That is found in
one pass, with a few numbers for each column.
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
from gainbias.evaluation.sources.spaces import Flaw
from gainbias.evaluation.stream import BrokenStream
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

NAMES_OF_TIMES = {"t", "at", "when", "seconds", "secs", "minutes", "hours", "ms"}
"""A column with one of these names as a whole, perhaps with a unit behind it, is one of times."""

NAMES_OF_DURATIONS = {"dt", "delta_t", "deltat", "time_delta", "timedelta"}
"""A column with one of these names as a whole, perhaps with a unit behind it, is one of durations."""

PERHAPS_TIMES = {
    *("epoch", "start", "end", "begin", "stop", "started", "ended", "finished"),
    *("created", "updated", "recorded", "logged", "occurred", "received"),
    *("second", "minute", "hour", "day", "week", "month", "year"),
}
"""These names may mean something else: numbers that do not rise from row to row are no times."""

PERHAPS_DURATIONS = {"interval", "gap", "wait", "spacing"}
"""These names may mean something else, which numbers cannot tell: there is a note with an *if*."""

UNITS = {
    *("ns", "us", "ms", "s", "sec", "secs", "second", "seconds", "nanos", "micros", "millis"),
    *("minutes", "mins", "hour", "hours", "hrs", "days"),
}
"""Words at the end of a name that only say in what it is measured. Not "min": that is also a minimum."""

UNEVEN = 0.05
"""Rows are unevenly spaced if time gone by differs from a usual gap per row by more than this share of it."""

FIRST_ROWS = 1_000
"""What is usual is found from this many rows, or from the first chunk."""

DECIMALS = 7
"""Times that are not whole numbers may be rounded to fewer decimals than this."""

MOST_TIES = 0.1
"""Under a name that may mean something else, at most this share of times is equal to the one before."""

LONG_AGO = 1e8
"""Numbers from this on are times since a date long ago, also if many are equal."""

LARGEST_PLAIN_TIME = 2**52
"""Whole numbers beyond this are times since long ago, in tiny units."""


SECONDS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
"""Units of time by name, for columns of dates."""

USUAL_UNIT = "hour"

FEW_ROWS = 20
"""Fewest other rows beside which one that lasts longer than all of them is called a jump of the clock."""


class RowClock:
    """The column that tells how long each row of a log lasts: by times, or by durations.

    Parameters
    ----------
    role : {"time", "duration"}
        What the column has. By times, a row lasts until the time of the next row.
    name : str
        Name of the column.
    per : str or number, optional
        Unit of time: one of `SECONDS` for dates, by default hours; for plain numbers how many of their own
        units, by default one.
    end : number, date or str, optional
        When the last row ended.
    has_zone : bool or None
        Whether the type of the column says a time zone; None if that is seen from its entries.

    Attributes
    ----------
    unit : str
        The unit in words, known once the first rows were read.

    Examples
    --------
    >>> clock = RowClock("time", "at", per="minute")
    >>> ticks, wrong = clock.read(np.array(["2024-01-01T00:00", "2024-01-01T00:30"], dtype="M8[s]"))
    >>> clock.between(ticks[:1], ticks[1:]), clock.unit, wrong
    (array([30.]), 'minute', None)
    """

    def __init__(
        self,
        role: str,
        name: str,
        per: str | float | None = None,
        end: Any = None,
        has_zone: bool | None = None,
    ) -> None:
        self.role, self.name, self.unit = role, name, ""
        self._per, self._end, self._has_zone = per, end, has_zone
        self._kind, self._ticks_per_unit = "", 1.0
        self.end: Any = None
        self._total = self._longest = 0.0
        self._rows = self._zeros = self._longest_row = self._zero_row = 0

    def read(self, column: NDArray[Any]) -> tuple[NDArray[Any], Flaw | None]:
        """Return a column of times as numbers, whole where that is possible, and the first that is wrong.

        Those of durations are in the unit of the clock already. One that is missing is nan.

        Raises
        ------
        ValueError
            If the column has neither times nor durations, or does not fit to the unit or to the end.
        """
        if column.ndim != 1 or column.dtype.kind not in "MmiufOUST":
            raise ValueError(f"column {self.name!r} must have times or durations, found {column.dtype}")
        flaw = None
        if column.dtype.kind not in "Mmiuf":
            column, flaw = self._read_entries(column)
        if column.dtype.kind in "Mm":
            column = _not_coarse(column)
        if not self._kind and len(column):
            self._begin(column.dtype)
        if column.dtype.kind in "Mm":
            missing = np.isnat(column)
            numbers: NDArray[Any] = column.astype(np.int64)
        else:
            missing, numbers = (
                ~np.isfinite(column),
                column.astype(np.float64 if column.dtype.kind == "f" else np.int64),
            )
        if self.role == "duration":
            lasted = np.where(missing, np.nan, numbers / self._ticks_per_unit)
            wrong = lasted < 0.0
        else:
            lasted, wrong = numbers, missing
        if wrong.any():
            place = int(np.argmax(wrong))
            what = "is missing" if missing[place] else f"is {column[place]}, and must not be negative"
            return lasted[:place], Flaw(place, f"the {self.role} {what}")
        return lasted, flaw

    def between(self, begin: NDArray[Any], end: Any) -> Floats:
        """Return the time from each of some times to another one, in the unit of the clock."""
        return np.asarray((end - begin) / self._ticks_per_unit)

    def count(self, durations: Floats, rows: NDArray[np.int64]) -> None:
        """Take the durations of rows that count, to notice what is odd about them."""
        if not len(durations):
            return
        self._rows += len(durations)
        self._total += float(durations.sum())
        if (longest := float(durations.max())) > self._longest:
            self._longest, self._longest_row = longest, int(rows[np.argmax(durations)])
        zeros = durations == 0.0
        if zeros.any():
            self._zero_row = self._zero_row if self._zeros else int(rows[np.argmax(zeros)])
            self._zeros += int(np.count_nonzero(zeros))

    def speak(self, notes: list[str], warnings: list[str]) -> None:
        """Say what is odd about the durations of all rows."""
        if self._zeros:
            notes.append(
                f"{self._zeros:,} {'row lasts' if self._zeros == 1 else 'rows last'} for no time, the first "
                f"is row {self._zero_row}: what they pay counts"
            )
        if self._rows > FEW_ROWS and self._longest > self._total - self._longest:
            warnings.append(
                f"row {self._longest_row} lasts {self._longest:.6g} times a {self.unit}, longer than all "
                f"other {self._rows - 1:,} rows together: did the clock jump?"
            )

    def _begin(self, kind: Any) -> None:
        """Choose the unit, and read the end, once it is known what the column has."""
        self._kind = kind.kind
        if self._kind == "M" and self.role == "duration":
            raise ValueError(f"column {self.name!r} has dates, not durations: say time={self.name!r}")
        per = self._per
        if self._kind in "Mm":
            chosen = USUAL_UNIT if per is None else per
            if chosen not in SECONDS:
                raise ValueError(
                    f"per must be a unit of time for the dates of column {self.name!r}, one of "
                    f"{', '.join(SECONDS)}, found {per!r}"
                )
            ticks = float(np.timedelta64(1, "s") / np.ones((), f"m{kind.str[2:]}"))
            self.unit, self._ticks_per_unit = str(chosen), SECONDS[str(chosen)] * ticks
        else:
            if isinstance(per, str) or not (per is None or 0.0 < float(per) < float("inf")):
                raise ValueError(
                    f"per must be a number of the units of column {self.name!r}, which has plain numbers, as "
                    f"in per=3600 for hours if they are seconds, found {per!r}"
                )
            self._ticks_per_unit = 1.0 if per is None else float(per)
            units = "unit" if per is None else f"{self._ticks_per_unit:g} units"
            self.unit = f"{units} of {self.name!r}"
        if self._end is not None:
            self.end = self._end_of(kind)

    def _end_of(self, kind: Any) -> Any:
        """Return the end like the numbers of a column of this kind."""
        given = self._end
        if self._kind not in "Mm":
            try:
                return float(given)
            except (TypeError, ValueError):
                raise ValueError(
                    f"end must be a number, like column {self.name!r}, found {given!r}"
                ) from None
        try:
            entry = _moment(given)
        except (TypeError, ValueError):
            raise ValueError(f"end must be a date, like column {self.name!r}, found {given!r}") from None
        if isinstance(entry, datetime) and self._kind == "M":
            has_zone = entry.tzinfo is not None
            if has_zone != bool(self._has_zone):
                column, end = ("a time zone", "none") if self._has_zone else ("no time zone", "one")
                raise ValueError(
                    f"column {self.name!r} has {column}, and end has {end}, found {given!r}: they cannot be "
                    "compared"
                )
            return int(np.datetime64(_without_zone(entry), "us").astype(kind).astype(np.int64))
        if not (isinstance(entry, timedelta) and self._kind == "m"):
            raise ValueError(f"end must be a date, like column {self.name!r}, found {given!r}")
        return int(np.timedelta64(entry, "us").astype(kind).astype(np.int64))

    def _read_entries(self, column: NDArray[Any]) -> tuple[NDArray[Any], Flaw | None]:
        """Return objects or texts as dates, durations or numbers, up to the first that is none of these."""
        found: list[Any] = []
        flaw, kinds = None, {"M": datetime, "m": timedelta, "f": float}
        for place, entry in enumerate(column.tolist()):
            try:
                moment = _moment(entry)
            except (TypeError, ValueError, OverflowError, AttributeError):
                flaw = Flaw(place, f"the {self.role} is {entry!r}, which is no time")
                break
            if isinstance(moment, datetime):
                has_zone = moment.tzinfo is not None
                if self._has_zone is None:
                    self._has_zone = has_zone
                if has_zone != self._has_zone:
                    words = "a time zone, unlike" if has_zone else "no time zone, unlike"
                    flaw = Flaw(place, f"the {self.role} {entry!r} has {words} those before it")
                    break
                moment = _without_zone(moment)
            kind = next((kind for kind, one in kinds.items() if isinstance(moment, one)), "")
            if kind:
                kinds = {kind: kinds[kind]}
            elif moment is not None:
                flaw = Flaw(place, f"the {self.role} is {entry!r}, of another kind than those before it")
                break
            found.append(moment)
        kind = self._kind or (next(iter(kinds)) if len(kinds) == 1 else "f")
        dtype = {"M": "M8[us]", "m": "m8[us]"}.get(kind, "f8")
        try:
            return np.array(found, dtype=dtype), flaw
        except (TypeError, ValueError):
            return np.empty(0, dtype=dtype), Flaw(
                0, f"the {self.role} is {column[0]!r}, of another kind than those before it"
            )


def _moment(entry: Any) -> Any:
    """Return what an object or a text says: a datetime, a timedelta, a number, or None if it is missing."""
    if entry is None or (not isinstance(entry, str | bytes) and entry != entry):
        return None
    if isinstance(entry, np.datetime64 | np.timedelta64):
        return entry.astype(f"{entry.dtype.kind}8[us]").item()
    if isinstance(entry, bool | np.bool_):
        raise TypeError("true and false are no times")
    if isinstance(entry, str | bytes):
        text = entry if isinstance(entry, str) else entry.decode()
        with suppress(ValueError):
            return float(text)
        return datetime.fromisoformat(text)
    if isinstance(entry, datetime | timedelta):
        return entry
    return datetime(entry.year, entry.month, entry.day) if isinstance(entry, date) else float(entry)


def _without_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _not_coarse(column: NDArray[Any]) -> NDArray[Any]:
    """Return dates or durations in seconds, if their unit is a longer one, so that hours can be counted."""
    is_coarse = np.datetime_data(column.dtype)[0] in ("Y", "M", "W", "D", "h", "m")
    return column.astype(f"{column.dtype.kind}8[s]") if is_coarse else column


def clocked(chunks: Iterator[Chunk], clock: RowClock) -> Iterator[Chunk]:
    """Pass on rows with times as numbers, up to the first that is wrong, and then raise `BrokenStream`."""
    offset = 0
    for chunk in chunks:
        size = len(chunk[clock.role])
        ticks, flaw = clock.read(chunk[clock.role])
        if len(ticks):
            yield {role: column[: len(ticks)] for role, column in chunk.items()} | {clock.role: ticks}
        if flaw is not None:
            raise BrokenStream(f"row {offset + flaw.place} of the log: {flaw.what}")
        offset += size


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
        """Take the next rows; times do not go on from the row before where `starts` is true."""
        if not self._is_readable:
            return
        try:
            self._take(column, starts)
        except (TypeError, ValueError, OverflowError, AttributeError):  # no numbers, whatever they are
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
        """Return numbers; those of times are counted from the first, which keeps their digits."""
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
    """How much of a total is due to numbers that are not the usual one."""

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
    """Finds out if times may be those of an even spacing, rounded: if there is a slope that fits all of them.

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
        """Take the gaps between neighbouring rows; where time does not go on, a new count begins."""
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
    """Return what gaps are multiples of: a whole number, or one of few decimals; 0 if there is none."""
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
    if entry is None:
        return float("nan")
    if isinstance(entry, bool | np.bool_):
        raise TypeError("true and false are no times")
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
        if name in table.times:
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
    >>> _kind_by_name("event_ts"), _kind_by_name("epoch"), _kind_by_name("epochMs"), _kind_by_name("gap_s")
    (('time', True), ('time', False), ('time', True), ('duration', False))
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    words = re.split(r"[^a-z0-9]+", snake)
    has_unit = len(words) > 1 and words[-1] in UNITS
    whole = "_".join(words[:-1] if has_unit else words)
    if WORDS_OF_DURATIONS & set(words) or whole in NAMES_OF_DURATIONS:
        return "duration", True
    if WORDS_OF_TIMES & set(words) or whole in NAMES_OF_TIMES or words[-1] == "at":
        return "time", True
    if whole in PERHAPS_DURATIONS:
        return "duration", False
    return ("time", has_unit and whole == "epoch") if whole in PERHAPS_TIMES else ("", False)


def watched(
    chunks: Iterator[Chunk], clocks: list[Clock], notes: list[str], warnings: list[str]
) -> Iterator[Chunk]:
    """Pass on rows without the columns of times, and say what these tell.

    Parameters
    ----------
    chunks : iterator of Chunk
        Rows in order; the columns of times are under the names that `roles_of` gives them.
    clocks : list of Clock
        One for each of those columns.
    notes, warnings : list of str
        Each column that is times for sure has a note, in the place of which there is a warning once it is
        known to be uneven. Of the others only those are spoken of, at the end, that are uneven.
    """
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
        """Return whether each row begins an episode, or comes behind a cut."""
        ended = np.zeros(len(chunk["reward"]), dtype=np.bool_)
        for role in ("terminated", "truncated"):
            with suppress(TypeError, ValueError):  # what is wrong with it is spoken of elsewhere
                ended |= np.asarray(chunk.get(role, ended)).astype(np.bool_)
        starts = np.concatenate([[self._ended], ended[:-1]]).astype(np.bool_)
        self._ended = bool(ended[-1])
        if "episode" in chunk:
            episodes = chunk["episode"]
            before = episodes[:1] if self._episode is None else self._episode
            starts |= np.asarray(np.concatenate([before, episodes[:-1]]) != episodes)
            self._episode = episodes[-1:]
        return starts
