"""How long each row lasts, by a column of times or durations that was named.

`RowClock` reads the column, in the unit of the answer. `clocked` passes on the rows of a log with their times
as numbers, and stops at the first that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.gain.batches import LARGEST_NUMBER
from gainbias.evaluation.sources.columns import Chunk
from gainbias.evaluation.sources.spaces import Flaw
from gainbias.evaluation.stream import BrokenStream
from gainbias.types import Bools, Floats

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

NOT_A_TIME = int(np.iinfo(np.int64).min)
"""The number that NumPy stores for a missing date or duration."""

FEW_ROWS = 20
"""Fewest other rows for one to be called a jump of the clock."""

FAR_LONGER = 20.0
"""A row that lasts this many times as long as any other may be a jump of the clock. With independent times
and a tail index of 2, one of 400 logs has such a row; with a lighter tail, hardly any."""


class RowClock:
    """The column that tells how long each row of a log lasts: by times, or by durations.

    Parameters
    ----------
    role : {"time", "duration"}
        The content of the column. With times, a row lasts until the time of the next row.
    name : str
        Name of the column.
    per : str or number, optional
        Unit of time: one of `SECONDS` for dates, by default hours; for plain numbers, how many of their
        units make one, by default one.
    end : number, date or str, optional
        When the last row ended.
    has_zone : bool or None
        Whether the type of the column has a time zone; None if only the entries can tell.

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
        self._kind, self._dates, self._ticks_per_unit = "", "", 1.0
        self.end: Any = None
        self._total = self._longest = self._second = 0.0
        self._rows = self._zeros = self._longest_row = self._zero_row = 0

    def read(self, column: NDArray[Any]) -> tuple[NDArray[Any], Flaw | None]:
        """Return a column of times as numbers, whole if possible, and the first wrong one.

        Durations are in the unit of the clock already. A missing one is nan.

        Raises
        ------
        ValueError
            If the column has neither times nor durations, or does not fit the unit or the end.
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
        if len(column) and (column.dtype.kind if column.dtype.kind in "Mm" else "") != self._dates[:1]:
            return column[:0].astype(np.int64), Flaw(
                0, f"the {self.role} is {column[0]}, of another kind than those before it"
            )
        if column.dtype.kind in "Mm":
            column = column.astype(self._dates or column.dtype, copy=False)  # parts may have different units
            numbers: NDArray[Any] = column.view(np.int64)
        else:
            is_whole = column.dtype.kind != "f" and not _may_overflow(column)
            numbers = column.astype(np.int64 if is_whole else np.float64, copy=False)
        if self.role == "duration":
            numbers = numbers / self._ticks_per_unit
        return (numbers, flaw) if self._are_right(numbers) else self._up_to_wrong(column, numbers, flaw)

    def _are_right(self, numbers: NDArray[Any]) -> bool:
        """Return whether all times or durations are present and valid."""
        if not len(numbers):
            return True
        least: float = 0.0 if self.role == "duration" else -LARGEST_NUMBER
        if numbers.dtype.kind == "i":
            least = NOT_A_TIME + 1
        return bool(numbers.min() >= least) and bool(numbers.max() <= LARGEST_NUMBER)  # false with a nan

    def _up_to_wrong(
        self, column: NDArray[Any], numbers: NDArray[Any], flaw: Flaw | None
    ) -> tuple[NDArray[Any], Flaw | None]:
        """Return numbers up to the first wrong one, if there is one; a missing duration is nan."""
        missing = np.isnat(column) if column.dtype.kind in "Mm" else ~np.isfinite(column)
        if self.role == "duration":
            numbers = np.where(missing, np.nan, numbers)
        far = np.abs(numbers) > LARGEST_NUMBER
        wrong = far | (numbers < 0.0 if self.role == "duration" else missing)
        if not wrong.any():
            return numbers, flaw
        place = int(np.argmax(wrong))
        how = f"beyond {LARGEST_NUMBER:g}: choose another unit" if far[place] else "and must not be negative"
        is_missing = missing[place] and not (column.dtype.kind == "f" and np.isinf(column[place]))
        what = "is missing" if is_missing else f"is {column[place]}, {how}"
        return numbers[:place], Flaw(place, f"the {self.role} {what}")

    def between(self, begin: NDArray[Any], end: Any) -> Floats:
        """Return the time from each of some times to another one, in the unit of the clock."""
        between = np.asarray(end - begin)
        return (
            between
            if between.dtype.kind == "f" and self._ticks_per_unit == 1.0
            else between / self._ticks_per_unit
        )

    def count(self, durations: Floats, counts: Bools, offset: int) -> None:
        """Take durations of rows from `offset` on, 0 if a row does not count, in order to notice odd ones."""
        if not counts.any():
            return
        self._rows += int(np.count_nonzero(counts))
        self._total += float(durations.sum())
        place = int(np.argmax(durations))
        longest = float(durations[place])
        others = (float(part.max(initial=0.0)) for part in (durations[:place], durations[place + 1 :]))
        self._second = max(self._second, min(longest, self._longest), *others)
        if longest > self._longest:
            self._longest, self._longest_row = longest, offset + place
        if float(durations.min()) == 0.0 and (zeros := counts & (durations == 0.0)).any():
            self._zero_row = self._zero_row if self._zeros else offset + int(np.argmax(zeros))
            self._zeros += int(np.count_nonzero(zeros))

    def speak(self, notes: list[str], warnings: list[str]) -> None:
        """Return warnings about odd durations among all rows."""
        if self._zeros:
            notes.append(
                f"row {self._zero_row} has zero duration: only what it pays at once counts"
                if self._zeros == 1
                else f"{self._zeros:,} rows have zero duration, the first is row {self._zero_row}: only "
                "what they pay at once counts"
            )
        if self._rows <= FEW_ROWS or self._longest == 0.0:
            return
        row = f"row {self._longest_row} lasts {self.in_words(self._longest)}"
        if self._longest > self._total - self._longest:
            than = f"longer than all other {self._rows - 1:,} rows together"
            warnings.append(f"{row}, {than}: did the clock jump?")
        elif self._longest >= FAR_LONGER * self._second:
            warnings.append(
                f"{row}, and no other longer than {self.in_words(self._second)}: did the clock jump?"
            )

    def in_words(self, duration: float) -> str:
        """Return a duration with its unit."""
        if self._kind in ("M", "m"):
            shown, unit, rest = f"{duration:.6g}", self.unit, ""
        else:
            shown, unit, rest = f"{duration * self._ticks_per_unit:.6g}", "unit", f" of {self.name!r}"
        return f"{shown} {unit}{'s' * (shown != '1')}{rest}"

    def _begin(self, kind: Any) -> None:
        """Choose the unit, and read the end, once the content of the column is known."""
        self._kind = kind.kind
        if self._kind == "M" and self.role == "duration":
            raise ValueError(f"column {self.name!r} has dates, not durations: say time={self.name!r}")
        per = self._per
        if self._kind in "Mm":
            self._dates = kind.str[1:]
            chosen = USUAL_UNIT if per is None else per
            if not isinstance(chosen, str) or chosen not in SECONDS:
                raise ValueError(
                    f"per must be a unit of time for the dates of column {self.name!r}, one of "
                    f"{', '.join(SECONDS)}, found {per!r}"
                )
            ticks = float(np.timedelta64(1, "s") / np.ones((), f"m{kind.str[2:]}"))
            self.unit, self._ticks_per_unit = chosen, SECONDS[chosen] * ticks
        else:
            is_number = isinstance(per, Real) and not isinstance(per, bool)
            if not (per is None or (is_number and 0.0 < float(per) < float("inf"))):
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
        """Return the end as a number like those of a column of this kind."""
        given = self._end
        if self._kind not in "Mm":
            with suppress(TypeError, ValueError):
                if not isinstance(given, bool) and np.isfinite(found := float(given)):
                    return found
            raise ValueError(f"end must be a number, like column {self.name!r}, found {given!r}")
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
                flaw = Flaw(place, f"the {self.role} is {entry!r}, which is not a time")
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
        raise TypeError("true and false are not times")
    if isinstance(entry, str | bytes):
        text = entry if isinstance(entry, str) else entry.decode()
        with suppress(ValueError):
            return float(text)
        return datetime.fromisoformat(text)
    if isinstance(entry, datetime | timedelta):
        return entry
    if hasattr(entry, "ordinal") and hasattr(entry, "to_timestamp"):  # a period of pandas, from its start
        return entry.to_timestamp()
    return datetime(entry.year, entry.month, entry.day) if isinstance(entry, date) else float(entry)


def _without_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _may_overflow(column: NDArray[Any]) -> bool:
    """Whether differences of whole numbers may exceed 64 bits."""
    return bool(len(column)) and not -(2**62) < int(column.min()) <= int(column.max()) < 2**62


def _not_coarse(column: NDArray[Any]) -> NDArray[Any]:
    """Return dates or durations in microseconds, if their unit is a longer one.

    Other parts of the same file may have fractions of a second, and so may the end.
    """
    is_coarse = np.datetime_data(column.dtype)[0] in ("Y", "M", "W", "D", "h", "m", "s", "ms")
    return column.astype(f"{column.dtype.kind}8[us]") if is_coarse else column


def clocked(chunks: Iterator[Chunk], clock: RowClock) -> Iterator[Chunk]:
    """Pass on rows with times as numbers, up to the first wrong one, and then raise `BrokenStream`."""
    offset = 0
    for chunk in chunks:
        size = len(chunk[clock.role])
        ticks, flaw = clock.read(chunk[clock.role])
        if len(ticks):
            yield {role: column[: len(ticks)] for role, column in chunk.items()} | {clock.role: ticks}
        if flaw is not None:
            raise BrokenStream(f"row {offset + flaw.place} of the log: {flaw.what}")
        offset += size
