"""Where the results of a study are kept: a folder with a log of units, tidy tables and a manifest."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainbias.experiments.tables import Layout, Tables, unpacked, write_tables
from gainbias.experiments.work import Unit
from gainbias.store import DamagedError, Log, Record, write_whole

if TYPE_CHECKING:
    import pandas

Look = Callable[[Unit, Tables], None]

SCHEMA = 4
"""Version of the layout of the folder and the columns of the tables."""

CONDITIONS = ("eta1", "eta2", "eta2_literal", "eta3")
CONDITION_RUNS = 10
"""Condition numbers are computed for the first instances of a task only, because they take long."""

FAILURE, MACHINE = "failure ", "machine "
"""Names of records that are not units begin with these."""


class Results:
    """The results folder of a study.

    Parameters
    ----------
    folder : path
        The folder.

    Attributes
    ----------
    folder : Path
    log : Log
        Results of units, as they arrive.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.Results("results/reproduction").folder.name
    'reproduction'
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.log = Log(self.folder / "units")

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r})"

    @property
    def manifest(self) -> dict[str, Any]:
        """What was run and with which versions, from the file ``manifest.json``."""
        read: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return read

    @property
    def note(self) -> dict[str, Any]:
        """What the folder was begun for, from the file ``study.json``."""
        note = self.folder / "study.json"
        if not note.exists():
            raise ValueError(f"{self.folder} holds no study: name the folder of one")
        try:
            found = json.loads(note.read_text())
            found = {"kind": "reproduction", **found, "schema": int(found["schema"])}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{note} is damaged: remove it and go on with --resume, which finds what is stored, or start "
                "afresh with --overwrite"
            ) from error
        if found["schema"] > SCHEMA:
            raise ValueError(f"{self.folder} was written by a newer version: use that, or another folder")
        return found

    def frame(self, table: str) -> pandas.DataFrame:
        """Return a table of the finished study, such as "runs"."""
        import pandas

        path = self.folder / f"{table}.parquet"
        if not path.exists():
            raise ValueError(f"{self.folder} holds no table {table!r}: finish the study with --resume")
        return pandas.read_parquet(path)

    def to_frame(self) -> pandas.DataFrame:
        """Return the table "runs" of the finished study: a row for each lane, checkpoint and metric."""
        return self.frame("runs")

    def check(self, kind: str, choices: Mapping[str, Any], *, overwrite: bool, resume: bool) -> None:
        """Refuse a folder that a study must not be written to.

        Parameters
        ----------
        kind : str
            Of study; see `Layout`.
        choices : mapping
            What all units of a study share; studies that differ in it do not mix.
        overwrite, resume : bool
            What the user allows.

        Raises
        ------
        ValueError
            If the folder holds something else than a study, a study and nobody said what to do with it, or
            one of another kind or with other choices that was to be resumed.
        """
        if overwrite and resume:
            raise ValueError("overwrite starts afresh and resume goes on: choose one")
        if not (self.folder / "study.json").exists():
            if self.folder.exists() and self._holds_something() and not (resume and self.log.segments()):
                raise ValueError(f"{self.folder} is not empty and holds no study: choose another folder")
            return
        if overwrite:
            return
        found = self.note
        if not resume:
            raise ValueError(
                f"{self.folder} already holds a study: go on with --resume, start afresh with --overwrite, "
                "or choose another folder with --output"
            )
        for name, value in {"kind": kind, **choices}.items():
            if found.get(name, value) != value:
                raise ValueError(
                    f"{self.folder} holds a study with {name} = {found[name]!r}, which cannot be resumed "
                    f"with {name} = {value!r}: choose another folder, or start afresh with --overwrite"
                )

    def _holds_something(self) -> bool:
        """Whether the folder holds more than a study leaves that ended before it was noted."""
        found = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        if found == [self.log.folder] and self.log.folder.is_dir():
            found = [path for path in self.log.folder.iterdir() if path.name != "lock"]
        return bool(found)

    def begin(self, layout: Layout, note: Mapping[str, Any], *, overwrite: bool) -> None:
        """Make the folder ready; the log must be open for writing.

        Tables and report of an earlier study go: those that are there are of the study that is noted.
        """
        if overwrite:
            for segment in self.log.segments():
                segment.unlink()
        content = {"schema": SCHEMA, "kind": layout.kind, **note}
        with disk_full_in_words(self.folder):
            write_whole(self.folder / "study.json", json.dumps(content).encode())
        for name in ("manifest.json", *layout.files):
            (self.folder / name).unlink(missing_ok=True)
            for part in self.folder.glob(f".{name}.*"):  # of a driver that was killed while it wrote
                part.unlink()
        shutil.rmtree(self.folder / "report", ignore_errors=True)

    def finished(self, units: Iterable[Unit]) -> tuple[set[str], list[str]]:
        """Return the ids of units that are stored whole, and of those whose records are damaged."""
        records, whole, damaged = self.log.records(), set(), []
        for unit in units:
            if unit.id in records:
                try:
                    records[unit.id].read()
                    whole.add(unit.id)
                except DamagedError:
                    damaged.append(unit.id)
        return whole, damaged

    def failures(self, units: Sequence[Unit], records: Mapping[str, Record]) -> list[dict[str, str]]:
        """Return why units have no result, in their order."""
        return [
            self._failure(unit, records[FAILURE + unit.id]) for unit in units if _has_failed(unit, records)
        ]

    def _failure(self, unit: Unit, record: Record) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(record.read())
        except DamagedError:
            found = {"unit": unit.id, "what": unit.label, "error": "the record of the reason is damaged"}
        return found

    def write_tables(self, units: Sequence[Unit], layout: Layout, look: Look = lambda *_: None) -> None:
        """Write the tidy tables of all units that are stored.

        Parameters
        ----------
        units : sequence of Unit
            In the order of their rows.
        layout : Layout
        look : callable
            Called with each unit and its tables.
        """
        tables = self.stored_tables(units, look)
        first = next(tables, None)
        if first is not None:
            with disk_full_in_words(self.folder):
                write_tables(self.folder, layout, itertools.chain([first], tables))

    def stored_tables(self, units: Iterable[Unit], look: Look = lambda *_: None) -> Iterator[Tables]:
        """Iterate over the tables of the units that are stored."""
        records = self.log.records()
        for unit in units:
            if unit.id in records and not _has_failed(unit, records):
                tables = unpacked(records[unit.id].read())
                look(unit, tables)
                yield tables

    def checksums(self, layout: Layout) -> dict[str, str]:
        """Return a checksum of each table that is there."""
        found = {}
        for name in layout.files:
            if (self.folder / name).exists():
                with open(self.folder / name, "rb") as file:
                    found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what was run, how, and with what."""
        content = json.dumps({"schema": SCHEMA, **manifest}, indent=2, allow_nan=False).encode()
        with disk_full_in_words(self.folder):
            write_whole(self.folder / "manifest.json", content)


def _has_failed(unit: Unit, records: Mapping[str, Record]) -> bool:
    """Whether the last that is known of a unit is a failure; what was stored before was damaged then."""
    failure, stored = records.get(FAILURE + unit.id), records.get(unit.id)
    if failure is None or stored is None:
        return failure is not None
    return (failure.segment, failure.start) > (stored.segment, stored.start)


@contextmanager
def disk_full_in_words(folder: Path) -> Iterator[None]:
    """Say what to do when the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        message = (
            f"the disk of {folder} is full; what was finished is kept: make room, then go on with --resume"
        )
        raise OSError(errno.ENOSPC, message) from error
