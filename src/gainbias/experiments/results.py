"""Where the results of a study are kept: a folder with a log of units, tidy tables and a manifest."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainbias.experiments.manifest import make_manifest
from gainbias.experiments.unit import Columns, Unit
from gainbias.store import DamagedError, Log, write_whole

if TYPE_CHECKING:
    import pandas
    import pyarrow

SCHEMA = 2
"""Version of the layout of the folder and the columns of the tables."""

TABLES = ("runs", "instances", "conditions")
SORTED_BY = {
    "runs": ["protocol", "task", "algorithm", "run", "kind", "target", "norm", "step"],
    "instances": ["protocol", "task", "run"],
    "conditions": ["protocol", "task", "run"],
}


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

    @property
    def manifest(self) -> dict[str, Any]:
        """What was run, with which versions: the file ``manifest.json``."""
        read: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return read

    def frame(self, table: str) -> pandas.DataFrame:
        """Return a table of the finished study: "runs", "instances" or "conditions"."""
        import pandas

        return pandas.read_parquet(self.folder / f"{table}.parquet")

    def check(self, choices: Mapping[str, Any], *, overwrite: bool, resume: bool) -> None:
        """Refuse a folder that a study must not be written to.

        Parameters
        ----------
        choices : mapping
            What all units of a study share; studies that differ in it do not mix.
        overwrite, resume : bool
            What the user allows.

        Raises
        ------
        ValueError
            If the folder holds something else than a study, a study and nobody said what to do with it, or
            one with other choices that was to be resumed.
        """
        if overwrite and resume:
            raise ValueError("overwrite starts afresh and resume goes on: choose one")
        note = self.folder / "study.json"
        if not note.exists():
            if self.folder.exists() and self._holds_something():
                raise ValueError(f"{self.folder} is not empty and holds no study: choose another folder")
            return
        if overwrite:
            return
        found = _read_note(note)
        if not resume:
            raise ValueError(
                f"{self.folder} already holds a study: go on with --resume, start afresh with --overwrite, "
                "or choose another folder with --output"
            )
        if found["schema"] > SCHEMA:
            raise ValueError(f"{self.folder} was written by a newer version: use that, or another folder")
        for name, value in choices.items():
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

    def begin(self, choices: Mapping[str, Any], *, overwrite: bool) -> None:
        """Make the folder ready; the log must be open for writing.

        Tables and report of an earlier study go: those that are there are of the study that is noted.
        """
        if overwrite:
            for segment in self.log.segments():
                segment.unlink()
        write_whole(self.folder / "study.json", json.dumps({"schema": SCHEMA, **choices}).encode())
        for name in (
            "manifest.json",
            *(f"{table}.{end}" for table in TABLES for end in ("parquet", "csv.gz")),
        ):
            (self.folder / name).unlink(missing_ok=True)
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

    def keep(self, unit: Unit, tables: dict[str, Columns]) -> None:
        """Store the result of a unit; the log must be open for writing."""
        self.log.append(unit.id, _packed(tables))

    def write_tables(self, units: list[Unit]) -> None:
        """Write the tidy tables of all units, in an order that does not depend on who finished first."""
        import pyarrow
        import pyarrow.parquet

        records = self.log.records()
        unpacked = [_unpacked(records[unit.id].read()) for unit in units]
        for name in TABLES:
            table = pyarrow.concat_tables([tables[name] for tables in unpacked])
            table = table.sort_by([(column, "ascending") for column in SORTED_BY[name]])
            buffer = io.BytesIO()
            pyarrow.parquet.write_table(table, buffer, compression="zstd")
            write_whole(self.folder / f"{name}.parquet", buffer.getvalue())
            write_whole(self.folder / f"{name}.csv.gz", _csv(table))

    def write_manifest(self, units: list[Unit], **facts: Any) -> None:
        """Write what was run, how, and with what; `facts` are for `make_manifest`."""
        instances = self.frame("instances").to_dict("records")
        manifest = {"schema": SCHEMA, "study": study_id(units), **make_manifest(units, instances, **facts)}
        write_whole(self.folder / "manifest.json", json.dumps(manifest, indent=2, allow_nan=False).encode())


def _read_note(note: Path) -> dict[str, Any]:
    try:
        found = json.loads(note.read_text())
        return {**found, "schema": int(found["schema"])}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{note} is damaged: choose another folder, or start afresh with --overwrite"
        ) from error


def study_id(units: list[Unit]) -> str:
    """Return a name for a set of units."""
    return hashlib.sha256("\n".join(sorted(unit.id for unit in units)).encode()).hexdigest()[:24]


def _packed(tables: dict[str, Columns]) -> bytes:
    """Return tables as one piece of bytes, each in Arrow's stream format, compressed."""
    import pyarrow

    parts, small = [], pyarrow.ipc.IpcWriteOptions(compression="zstd")
    for name in TABLES:
        sink = pyarrow.BufferOutputStream()
        table = pyarrow.table({key: pyarrow.array(values) for key, values in tables[name].items()})
        with pyarrow.ipc.new_stream(sink, table.schema, options=small) as writer:
            writer.write_table(table)
        parts.append(sink.getvalue().to_pybytes())
    sizes = json.dumps([len(part) for part in parts]).encode()
    return sizes + b"\n" + b"".join(parts)


def _unpacked(payload: bytes) -> dict[str, pyarrow.Table]:
    import pyarrow

    head, _, body = payload.partition(b"\n")
    tables, start = {}, 0
    for name, size in zip(TABLES, json.loads(head), strict=True):
        tables[name] = pyarrow.ipc.open_stream(body[start : start + size]).read_all()
        start += size
    return tables


def _csv(table: pyarrow.Table) -> bytes:
    import gzip

    import pyarrow.csv

    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    return gzip.compress(buffer.getvalue(), compresslevel=4, mtime=0)
