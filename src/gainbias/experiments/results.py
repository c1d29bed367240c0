"""Where the results of a study are kept: a folder with a log of units, tidy tables and a manifest."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainbias.experiments.unit import Columns, Unit, code_version
from gainbias.store import DamagedError, Log, write_whole

if TYPE_CHECKING:
    import pandas
    import pyarrow

SCHEMA = 1
"""Version of the layout of the folder and the columns of the tables."""

TABLES = ("runs", "conditions")
SORTED_BY = {
    "runs": ["protocol", "task", "algorithm", "run", "kind", "target", "norm", "step"],
    "conditions": ["protocol", "task", "run"],
}
RECORDED = ("numpy", "scipy", "numba", "gymnasium", "mo-gymnasium", "pandas", "pyarrow")


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
        """Return a table of the finished study, "runs" or "conditions"."""
        import pandas

        return pandas.read_parquet(self.folder / f"{table}.parquet")

    def prepare(self, units: list[Unit], *, overwrite: bool, resume: bool) -> None:
        """Make the folder ready for a study, or refuse.

        Raises
        ------
        ValueError
            If the folder holds another study, or this one and nobody said to resume it.
        """
        note, name = self.folder / "study.json", study_id(units)
        if note.exists():
            found = json.loads(note.read_text())
            if found.get("schema", 0) > SCHEMA:
                raise ValueError(f"{self.folder} was written by a newer version: use that, or another folder")
            if found.get("study") != name and not (overwrite or resume):
                raise ValueError(
                    f"{self.folder} holds another study: choose another folder with --output, reuse what "
                    "fits with --resume, or start afresh with --overwrite"
                )
            if found.get("study") == name and not (overwrite or resume):
                raise ValueError(
                    f"{self.folder} already holds this study: go on with --resume, or start afresh with "
                    "--overwrite"
                )
        elif self.folder.exists() and any(self.folder.iterdir()) and not overwrite:
            raise ValueError(f"{self.folder} is not empty and holds no study: choose another folder")
        if overwrite:
            for segment in self.log.segments():
                segment.unlink()
        write_whole(note, json.dumps({"schema": SCHEMA, "study": name}).encode())

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

    def write_manifest(self, units: list[Unit], command: str, seconds: float) -> None:
        """Write what was run, how, and with what."""
        manifest = {
            "schema": SCHEMA,
            "study": study_id(units),
            "command": command,
            "code": code_version(),
            "python": sys.version.split()[0],
            "platform": platform.machine(),
            "packages": {name: _version(name) for name in RECORDED},
            "units": len(units),
            "seeds": sorted({unit.run for unit in units}),
            "settings": sorted({json.dumps(dict(unit.settings), sort_keys=True) for unit in units}),
            "shorten": sorted({unit.shorten for unit in units}),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(seconds, 1),
        }
        write_whole(self.folder / "manifest.json", json.dumps(manifest, indent=2).encode())


def study_id(units: list[Unit]) -> str:
    """Return a name for a set of units."""
    return hashlib.sha256("\n".join(sorted(unit.id for unit in units)).encode()).hexdigest()[:24]


def _packed(tables: dict[str, Columns]) -> bytes:
    """Return tables as one piece of bytes, each in Arrow's stream format."""
    import pyarrow

    parts = []
    for name in TABLES:
        sink = pyarrow.BufferOutputStream()
        table = pyarrow.table({key: pyarrow.array(values) for key, values in tables[name].items()})
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
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


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
