"""How far a sweep is, whether it is running or dead."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gainbias.experiments.cell import Cell
from gainbias.experiments.results import Results
from gainbias.experiments.study import Study


@dataclass(frozen=True)
class Status:
    """How far a sweep is.

    Attributes
    ----------
    state : {"running", "finished", "stopped"}
    units, done, failed, damaged : int
        Numbers of units; those that are stored whole, that failed, and whose records are damaged.
    damaged_files : list of str
        Parts of the log with bytes that belong to no whole record; whoever is killed leaves some, too.
    quiet_seconds : float or None
        Since something was stored; None if nothing was.
    code : str
        Version of the sources that the folder was begun with.
    failures : list of dict
        Which units failed, and why.
    tables : {"none", "earlier", "current"}
        Whether there are tables; those from before a resume that has not finished are "earlier".
    """

    state: str
    units: int
    done: int
    failed: int
    damaged: int
    damaged_files: list[str]
    quiet_seconds: float | None
    code: str
    failures: list[dict[str, str]]
    tables: str

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return asdict(self)


def status(folder: str | Path) -> Status:
    """Return how far the sweep in a folder is, whether it is running or not."""
    results = Results(folder)
    units = planned(results)
    done, damaged = results.finished(units)
    failures = results.failures(units, results.log.records())
    running = results.log.is_being_written
    has_tables = (results.folder / "manifest.json").exists()
    finished = has_tables and not results.outdated and len(done) + len(failures) == len(units)
    times = [segment.stat().st_mtime for segment in results.log.segments()]
    return Status(
        state="running" if running else "finished" if finished else "stopped",
        units=len(units),
        done=len(done),
        failed=len(failures),
        damaged=len(damaged),
        damaged_files=[segment.name for segment in results.log.damaged_segments],
        quiet_seconds=round(time.time() - max(times), 1) if times else None,
        code=results.note["code"],
        failures=failures,
        tables="none" if not has_tables else "earlier" if results.outdated else "current",
    )


def planned(results: Results) -> list[Cell]:
    """Return the units that the sweep in a folder has, with the sources that it was begun with."""
    note = results.note
    if note["kind"] != "sweep":
        raise ValueError(f"{results.folder} holds a {note['kind']}, not a sweep")
    try:
        return list(Study.from_dict(note["study"]).cells(str(note["code"])))
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"{results.folder / 'study.json'} is damaged: write it again with --resume"
        ) from error
