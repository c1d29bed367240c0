"""Where the results of a study are kept: a folder with a log of units, tidy tables and a manifest.

Units arrive in the log in any order. At the end their rows are written, in the order of a `Layout`, to sorted
Parquet files: piece by piece, however large they are, so that neither the order in which units finish nor an
interruption changes a byte.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainbias.experiments.own import PROBLEMS
from gainbias.experiments.provenance import Reach, made_with
from gainbias.experiments.units import Tables, Unit, unpacked
from gainbias.notebook import Card, InNotebooks
from gainbias.store import (
    DamagedError,
    Log,
    StoredRecord,
    check_plain,
    read_object,
    whole_file,
    write_whole,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow

Look = Callable[[Unit, Tables], None]

SCHEMA = 4
"""Version of the layout of the folder and the columns of the tables."""

FAILURE, MACHINE = "failure ", "machine "
"""Names of records that are not units begin with these."""

EARLIER = "earlier-"
"""Prefix of files that are kept from an earlier state because they have no replacement yet."""

MADE_WITH = "made-with.json"
"""File that says which sources and versions stored units come from."""

GROUP_ROWS = 2**18
"""Rows are written in groups of at least this many."""

JOINED_UNITS = 256
"""When this many tables wait to be written they are joined: short ones take more memory than needed."""

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
"""Settings that determine the bytes of a file, besides its rows and the version of pyarrow."""


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


class Results(InNotebooks):
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
        path = self.folder / "manifest.json"
        if not path.exists():
            raise ValueError(f"{self.folder} holds no manifest.json: finish the study with --resume")
        try:
            return stored_manifest(path)
        except DamagedError as error:
            raise DamagedError(f"{error}, and write it again with --resume") from error

    @property
    def note(self) -> dict[str, Any]:
        """The description of the study, from the file ``study.json``."""
        note = self.folder / "study.json"
        if not note.exists():
            raise ValueError(f"{self.folder} holds no study: name the folder of one")
        check_plain(note)
        try:
            found = read_object(note)
            found = {"kind": "reproduction", **found, "schema": int(found["schema"])}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{note} is damaged: remove it and continue with --resume, which finds what is stored, or "
                "start afresh with --overwrite"
            ) from error
        if found["schema"] > SCHEMA:
            raise ValueError(f"{self.folder} was written by a newer version: use that, or another folder")
        return found

    @property
    def outdated(self) -> str:
        """Why tables and manifest are out of date, in words; empty if they are not.

        While a study is resumed, and if that is interrupted, the tables from before stay as they are.
        """
        try:
            resumed = self.note.get("finished") is False and (self.folder / "manifest.json").exists()
        except ValueError:
            return ""
        words = "the tables are from before a resume that has not finished: continue with --resume"
        return f"{self.folder}: {words}" if resumed else ""

    def frame(self, table: str) -> pandas.DataFrame:
        """Return a table of the finished study, such as "runs"; warns if it is out of date."""
        if self.outdated:
            warnings.warn(self.outdated, UserWarning, stacklevel=2)
        return self.read_table(table)

    def read_table(self, table: str) -> pandas.DataFrame:
        """Return a table as it is stored, whether of this state or an earlier one."""
        import pandas

        path = self.folder / f"{table}.parquet"
        if not path.exists():
            raise ValueError(f"{self.folder} holds no table {table!r}: finish the study with --resume")
        check_plain(path)
        try:
            return pandas.read_parquet(path)
        except PermissionError:
            raise
        except (ValueError, OSError) as error:  # raised by pyarrow for bytes that are not a table
            raise DamagedError(f"{path} is damaged: write it again with --resume ({error})") from error

    def table_to_show(self, table: str, manifest: Mapping[str, Any]) -> Path | None:
        """Return where a table is that can be opened; None if there is none because every unit failed."""
        path = self.folder / f"{table}.parquet"
        check_plain(path)
        if path.exists():
            return path
        if manifest.get("tables"):
            raise ValueError(f"{path} is missing: write it again with --resume")
        return None

    def to_frame(self) -> pandas.DataFrame:
        """Return the table "runs" of the finished study: a row for each lane, checkpoint and metric."""
        if self.outdated:
            warnings.warn(self.outdated, UserWarning, stacklevel=2)
        return self.read_table("runs")

    def check(self, kind: str, choices: Mapping[str, Any], *, overwrite: bool, resume: bool) -> None:
        """Refuse a folder to which a study must not be written.

        Parameters
        ----------
        kind : str
            Of study; see `Layout`.
        choices : mapping
            Choices that all units of a study share; studies with different choices must not be mixed.
        overwrite, resume : bool
            What the user allows.

        Raises
        ------
        ValueError
            If the folder contains anything but a study, or a study without `overwrite` or `resume`, or a
            study to be resumed that is of another kind or has other choices.
        """
        if overwrite and resume:
            raise ValueError("overwrite starts afresh and resume continues: choose one")
        if os.path.lexists(self.folder) and not self.folder.is_dir():
            raise ValueError(f"{self.folder} is not a folder: choose another one")
        for odd in self.odd_files():
            raise DamagedError(odd)
        if not (self.folder / "study.json").exists():
            if self.folder.exists() and self._holds_something() and not (resume and self.log.segments()):
                raise ValueError(f"{self.folder} is not empty and holds no study: choose another folder")
            return
        if overwrite:
            return
        found = self.note
        if not resume:
            raise ValueError(
                f"{self.folder} already holds a study: continue it with --resume, start afresh with "
                "--overwrite, or choose another folder with --output"
            )
        for name, value in {"kind": kind, **choices}.items():
            if found.get(name, value) != value:
                raise ValueError(
                    f"{self.folder} holds a study with {name} = {found[name]!r}, which cannot be resumed "
                    f"with {name} = {value!r}: choose another folder, or start afresh with --overwrite"
                )

    def odd_files(self) -> list[str]:
        """Return in words what is in place of our files but cannot be ours, such as a pipe."""
        own = ["study.json", "manifest.json", MADE_WITH, "units/lock"]
        tables = [path for ending in ("parquet", "csv.gz") for path in self.folder.glob(f"*.{ending}")]
        found = [*(self.folder / name for name in own), *tables]
        words = [
            f"{path} is not a plain file: remove it" for path in found if path.exists() and not path.is_file()
        ]
        names = ("units", "report", EARLIER + "report", PROBLEMS)
        return words + [
            f"{path} is not a folder: remove it"
            for path in (self.folder / name for name in names)
            if os.path.lexists(path) and not path.is_dir()
        ]

    def _holds_something(self) -> bool:
        """Whether the folder contains more than what a study leaves if it ends before it was noted."""
        found = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        if found == [self.log.folder] and self.log.folder.is_dir():
            found = [path for path in self.log.folder.iterdir() if path.name != "lock"]
        return bool(found)

    def begin(
        self, layout: Layout, note: Mapping[str, Any], units: Iterable[Unit], *, overwrite: bool
    ) -> None:
        """Make the folder ready, and note the codes of the units; the log must be open for writing.

        Tables, manifest and report of an earlier state stay until there are new ones; only `overwrite`
        removes them, and all units, at once.
        """
        codes = [{"reach": reach, "code": code} for reach, code in {u.reach: u.code for u in units}.items()]
        known = {} if overwrite else self.made_with()
        if overwrite:
            self._clear(layout)
        content = {"schema": SCHEMA, "kind": layout.kind, **note, "codes": codes, "finished": False}
        with disk_full_in_words(self.folder):
            if known:
                self._write_made_with(known)
            write_whole(self.folder / "study.json", json.dumps(content).encode())
        for name in ("manifest.json", *layout.files):
            for part in self.folder.glob(f".{name}.*"):  # from a driver that was killed while writing
                part.unlink()

    def _clear(self, layout: Layout) -> None:
        for segment in self.log.segments():
            segment.unlink()
        for name in ("manifest.json", MADE_WITH, *layout.files):
            for found in (name, EARLIER + name):
                (self.folder / found).unlink(missing_ok=True)
        for name in ("report", EARLIER + "report", PROBLEMS):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def codes(self) -> dict[Reach, str]:
        """The code of each reach with which the study was last begun; none if it was an older version."""
        listed = self._read_json("study.json").get("codes")
        found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        pairs = [(each.get("reach"), each.get("code")) for each in found]
        return {
            tuple(map(str, reach)): code
            for reach, code in pairs
            if isinstance(reach, list) and isinstance(code, str)
        }

    def made_with(self) -> dict[str, dict[str, Any]]:
        """Return which sources and versions stored units may come from.

        Returns
        -------
        dict of str to dict
            By `code` of units: what `provenance.made_with` returned; less in folders of older versions, and
            no "reach".
        """
        found: dict[str, dict[str, Any]] = {}
        note, manifest = self._read_json("study.json"), self._read_json("manifest.json")
        packages = manifest.get("packages")
        facts = {"packages": packages} if isinstance(packages, dict) else {}
        for reach, code in self.codes.items():
            found[code] = {"reach": list(reach), **facts}
        if not found:  # of an older version, where all units had one code
            found = {str(read["code"]): facts for read in (note, manifest) if "code" in read}
        noted = {code: facts for code, facts in self._read_json(MADE_WITH).items() if isinstance(facts, dict)}
        return {**found, **noted}

    def _read_json(self, name: str) -> dict[str, Any]:
        """Return the content of a file, nothing if it is missing or damaged."""
        try:
            return read_object(self.folder / name)
        except (FileNotFoundError, DamagedError):
            return {}

    def is_readable(self, name: str) -> bool:
        """Whether a JSON file is complete, or absent."""
        with contextlib.suppress(FileNotFoundError, DamagedError):
            read_object(self.folder / name)
            return True
        return not (self.folder / name).exists()

    def note_made_with(self, codes: Mapping[str, Reach]) -> None:
        """Note that units with these codes, each of a reach, are computed from now on."""
        known = self.made_with()
        self._write_made_with({**known, **{code: made_with(reach) for code, reach in codes.items()}})

    def _write_made_with(self, known: Mapping[str, Any]) -> None:
        with disk_full_in_words(self.folder):
            write_whole(self.folder / MADE_WITH, json.dumps(known, indent=1, sort_keys=True).encode())

    def finished(self, units: Iterable[Unit]) -> tuple[set[str], list[str]]:
        """Return the ids of units that are stored completely, and of those whose records are damaged."""
        records, whole, damaged = self.log.records(), set(), []
        for unit in units:
            if unit.id in records:
                try:
                    records[unit.id].read()
                    whole.add(unit.id)
                except DamagedError:
                    damaged.append(unit.id)
        return whole, damaged

    def failures(self, units: Sequence[Unit], records: Mapping[str, StoredRecord]) -> list[dict[str, str]]:
        """Return why units have no result, in their order."""
        return [
            self._failure(unit, records[FAILURE + unit.id]) for unit in units if _has_failed(unit, records)
        ]

    def _failure(self, unit: Unit, record: StoredRecord) -> dict[str, str]:
        try:
            found = json.loads(record.read())
            return {"unit": unit.id, "what": unit.label, "error": str(found["error"])}
        except (ValueError, TypeError, KeyError, RecursionError):
            return {"unit": unit.id, "what": unit.label, "error": "the record of the reason is damaged"}

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
        has_report = (self.folder / "report").exists()
        before = self.checksums(layout) if has_report else {}
        if first is None:
            self._set_aside(layout.files)
        else:
            with disk_full_in_words(self.folder):
                _write_sorted(self.folder, layout, itertools.chain([first], tables))
            for name in layout.files:
                (self.folder / (EARLIER + name)).unlink(missing_ok=True)
        if has_report and self.checksums(layout) != before:
            self._set_aside(["report"])

    def _set_aside(self, names: Iterable[str]) -> None:
        """Rename files of an earlier state that have no replacement yet."""
        for name in names:
            old, aside = self.folder / name, self.folder / (EARLIER + name)
            if old.exists():
                shutil.rmtree(aside, ignore_errors=True)
                old.replace(aside)

    def drop_earlier_report(self) -> None:
        """Remove the report on earlier tables: there is a new one."""
        shutil.rmtree(self.folder / (EARLIER + "report"), ignore_errors=True)

    def stored_tables(self, units: Iterable[Unit], look: Look = lambda *_: None) -> Iterator[Tables]:
        """Iterate over the tables of the units that are stored."""
        records = self.log.records()
        for unit in units:
            if unit.id in records and not _has_failed(unit, records):
                tables = unpacked(records[unit.id].read())
                look(unit, tables)
                yield tables

    def checksums(self, layout: Layout) -> dict[str, str]:
        """Return a checksum of each existing table."""
        found = {}
        for name in layout.files:
            if (self.folder / name).is_file():
                with open(self.folder / name, "rb") as file:
                    found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what was run, how, and with what; with that a study is finished."""
        said = json.loads(json.dumps({"schema": SCHEMA, **manifest}, allow_nan=False))
        content = json.dumps({**said, "checksum": _checksum_of(said)}, indent=2).encode()
        note = self._read_json("study.json")
        with disk_full_in_words(self.folder):
            write_whole(self.folder / "manifest.json", content)
            if note:
                write_whole(self.folder / "study.json", json.dumps({**note, "finished": True}).encode())

    def _card(self) -> Card:
        return Card("Results", {"folder": self.folder, "": "to_frame() is the table of all runs"})


def stored_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a manifest; raises DamagedError if it has changed since it was written."""
    manifest = read_object(path)
    own = _checksum_of(manifest)
    if manifest.get("checksum", own) != own:  # manifests of older versions have none
        raise DamagedError(f"{path} is damaged: its checksum does not match")
    return manifest


def _checksum_of(manifest: Mapping[str, Any]) -> str:
    said = {name: value for name, value in manifest.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _has_failed(unit: Unit, records: Mapping[str, StoredRecord]) -> bool:
    """Whether the last record of a unit is a failure; what was stored before it was damaged."""
    failure, stored = records.get(FAILURE + unit.id), records.get(unit.id)
    if failure is None or stored is None:
        return failure is not None
    return (failure.segment, failure.start) > (stored.segment, stored.start)


@contextlib.contextmanager
def disk_full_in_words(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk in a ``with`` block into one that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        message = (
            f"the disk of {folder} is full; what was finished is kept: make room, then continue with --resume"
        )
        raise OSError(errno.ENOSPC, message) from error


def _write_sorted(folder: Path, layout: Layout, units: Iterable[Tables]) -> None:
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
        self._joined: list[pyarrow.Table] = []
        self._waiting: list[pyarrow.Table] = []
        self._rows = 0
        self._file: Any = None

    def add(self, rows: pyarrow.Table) -> None:
        self._waiting.append(rows)
        self._rows += len(rows)
        if len(self._waiting) == JOINED_UNITS:
            self._join()
        if self._rows >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        self._write()
        if self._file is not None:
            self._file.close()

    def _join(self) -> None:
        import pyarrow

        self._joined.append(pyarrow.concat_tables(self._waiting).combine_chunks())
        self._waiting = []

    def _write(self) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        if not (self._joined or self._waiting):
            return
        group = pyarrow.concat_tables([*self._joined, *self._waiting]).combine_chunks()
        first = self._file is None
        if self._file is None:
            self._file = pyarrow.parquet.ParquetWriter(self._parquet, group.schema, **PARQUET)
        self._file.write_table(group, row_group_size=max(1, len(group)))
        if self._csv is not None:
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(group, buffer, pyarrow.csv.WriteOptions(include_header=first))
            self._csv.write(buffer.getvalue())
        self._joined, self._waiting, self._rows = [], [], 0
