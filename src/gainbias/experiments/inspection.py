"""A sweep seen from outside: how long it will take, how far it is, and whether its numbers can be reproduced.

`estimate` tries short runs of some units before a sweep, `status` looks at its folder at any time, and
`verify` computes some stored units again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainbias.experiments.cell import Cell, exact_errors
from gainbias.experiments.engines import Engine, EngineName, opened
from gainbias.experiments.own import DIGEST, OwnProblem, stored_problem
from gainbias.experiments.provenance import code_of, machine
from gainbias.experiments.results import FAILURE, MACHINE, MADE_WITH, Layout, Results
from gainbias.experiments.runner import execute
from gainbias.experiments.study import Study, as_stored_in
from gainbias.experiments.units import unpacked
from gainbias.progress import Watch
from gainbias.tasks.task import as_integer

MOST_SECONDS = 20.0
"""Calibration ends after about this time; units not tried by then are scaled from those that were."""

TRIAL_STEPS = 2000
"""Steps of a trial: enough to forget how a run begins."""

REPORT_SECONDS, METRIC_SECONDS, PANEL_SECONDS, ROW_SECONDS = 1.0, 0.6, 0.33, 1e-6
"""Rough times of tables and the report: fixed, for each metric, for each task of it, and for each row."""

MOST_PANELS = 30
"""Most tasks in a figure of a report; the page has all tasks, and costs little compared with figures."""

MACHINE_TOLERANCE = 1e-9
"""Between kinds of machines, results agree to this."""

OF_BITS = "fingerprint"
"""A column that changes with the last digit of a task."""


@dataclass(frozen=True)
class TimeEstimate:
    """The size of a study, and how long it will take.

    Attributes
    ----------
    units, lanes, steps, lane_steps : int
        Numbers of units and lanes; steps along all sample paths; steps of all lanes.
    seconds : float
        On this machine, with the workers below, after kernels are compiled.
    compiling : float
        Seconds for compilation, once on each machine.
    reporting : float
        Seconds for tables and the report, afterwards; rough.
    workers : int
    tried : int
        How many kinds of units (a task and an algorithm) were tried, of `kinds`.
    kinds : int
    """

    units: int
    lanes: int
    steps: int
    lane_steps: int
    seconds: float
    compiling: float
    reporting: float
    workers: int
    tried: int
    kinds: int

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return asdict(self)


def estimate(study: Study, workers: int | None = None) -> TimeEstimate:
    """Return the size of a study, and how long it will take with this many processes on this machine."""
    if workers is not None:
        as_integer(workers, "workers", least=1)
    study.check_own()
    kinds = list(study.cells(first_only=True))
    each = study.count_units() // len(kinds)
    measured, compiling, began = [], 0.0, time.monotonic()
    with Watch() as watch:
        for number, cell in enumerate(kinds):
            if time.monotonic() - began > MOST_SECONDS:
                break
            watch.show(f"calibrating: {cell.label}", number, len(kinds))
            try:
                seconds, first = _seconds(cell)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{cell.label} cannot be run: {error}") from error
            measured.append((cell.seconds, seconds))
            compiling += first
    foreseen, taken = (sum(column) for column in zip(*measured, strict=True))
    left = sum(cell.seconds for cell in kinds[len(measured) :]) * taken / foreseen
    count = workers or os.cpu_count() or 1
    return TimeEstimate(
        units=study.count_units(),
        lanes=study.count_lanes(),
        steps=each * sum(cell.num_steps for cell in kinds),
        lane_steps=each * sum(cell.lane_steps for cell in kinds),
        seconds=each * (taken + left) / count,
        compiling=compiling,
        reporting=_reporting(kinds, each),
        workers=count,
        tried=len(measured),
        kinds=len(kinds),
    )


def _reporting(kinds: list[Cell], each: int) -> float:
    """Return how long tables and the report take, from the numbers of tasks, metrics and rows."""
    tasks, metrics = len({(cell.task, cell.settings) for cell in kinds}), len(kinds[0].metrics)
    rows = each * sum(cell.lanes * len(cell.checkpoints) for cell in kinds) * metrics
    panels = metrics * min(tasks, MOST_PANELS)
    return REPORT_SECONDS + METRIC_SECONDS * metrics + PANEL_SECONDS * panels + ROW_SECONDS * rows


def _seconds(cell: Cell) -> tuple[float, float]:
    """Return how long a unit takes, from runs of few steps, and how much longer its first parts took.

    While the first task is made, code is imported and compiled: a second one tells how long making takes.
    """
    makings = []
    for one in (cell, replace(cell, instance=cell.instance + 1)):
        begin = time.perf_counter()
        one.made()
        makings.append(time.perf_counter() - begin)
    making = min(makings)
    few = min(TRIAL_STEPS, cell.num_steps)
    times = []
    for steps in (few, max(1, few // 2), few):
        begin = time.perf_counter()
        cell.run(steps)
        times.append(time.perf_counter() - begin)
    first, half, whole = times
    a_step = max(0.0, whole - half) / max(1, few - few // 2)
    running = whole + a_step * (cell.num_steps - few)
    return making + running + _exact_seconds(cell), makings[0] - making + max(0.0, first - whole)


def _exact_seconds(cell: Cell) -> float:
    """Return how long the exact errors of a unit take, from those of its first lane."""
    if not cell.exact:
        return 0.0
    trace, begin = cell.run(1), time.perf_counter()
    exact_errors(trace.algorithm, trace.problem, trace.lanes[:1], cell.checkpoints, [])
    return len(trace.lanes) * (time.perf_counter() - begin)


@dataclass(frozen=True)
class Status:
    """How far a sweep is, and whether it is running.

    Attributes
    ----------
    state : {"running", "finished", "stopped"}
    units, done, failed, damaged : int
        Numbers of units; those that are stored whole, that failed, and whose records are damaged.
    damaged_files : list of str
        Parts of the log with bytes that belong to no whole record; a killed process also leaves some.
    quiet_seconds : float or None
        Since something was stored, 0 if the clock went back; None if nothing was.
    code : str
        Version of the sources with which the folder was begun.
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
        quiet_seconds=round(max(0.0, time.time() - max(times)), 1) if times else None,
        code=str(results.note.get("code", "unknown")),
        failures=failures,
        tables="none" if not has_tables else "earlier" if results.outdated else "current",
    )


def planned(results: Results) -> list[Cell]:
    """Return the units of the sweep in a folder, with the version of the sources that it was begun with."""
    note = results.note
    if note["kind"] != "sweep":
        raise ValueError(f"{results.folder} holds a {note['kind']}, not a sweep")
    with as_stored_in(results.folder / "study.json"):
        return list(Study.from_dict(note["study"]).cells(results.codes or str(note["code"])))


@dataclass(frozen=True)
class Verification:
    """How many stored units gave the same numbers when they were computed again.

    Attributes
    ----------
    checked : int
        How many.
    identical : int
        How many have the same bits.
    close : int
        How many have not, but agree to 1e-9.
    different : list of str
        The others.
    damaged : list of str
        Stored units that are damaged or missing, and files that are not as they were written.
    foreign : list of str
        Files among the units that are not the study's, and files with bytes that belong to no whole unit,
        as a killed process leaves them; they do no harm, and are left alone.
    exact : bool
        Whether bits must be the same: same sources, and one kind of machine, which is this one.
    """

    checked: int
    identical: int
    close: int
    different: list[str]
    damaged: list[str]
    foreign: list[str]
    exact: bool

    @property
    def passed(self) -> bool:
        """Whether the stored numbers can be computed again."""
        return not (self.different or self.damaged) and (self.identical == self.checked or not self.exact)

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {**asdict(self), "passed": self.passed}


def verify(
    folder: str | Path,
    sample: int = 10,
    *,
    study: Study | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    wait: float | str | None = None,
    rng: random.Random | None = None,
) -> Verification:
    """Compute a random sample of the stored units again, and compare; look for damage in all of them.

    Parameters
    ----------
    folder : path
        Results folder of a sweep.
    sample : int
        How many units.
    study : Study, optional
        The user's description. A study with the user's own functions needs it, because nothing is imported
        just because a results folder names it.
    engine, workers, address, wait
        See `sweep`.
    rng : random.Random, optional
        Chooses; by default it is different each time.
    """
    results = Results(folder)
    every = planned(results)
    stored, _ = results.finished(every)
    problems, lost = _own_problems(results, every)
    units = {unit.id: unit for unit in every if unit.id in stored and _digest_of(unit) not in lost}
    damaged = [*_damage(results, every, stored), *lost.values()]
    if not (units or damaged):
        raise ValueError(f"{results.folder} holds no units that could be verified")
    count = min(as_integer(sample, "sample", least=1), len(units))
    chosen = (rng or random.Random()).sample(sorted(units), count)
    _refuse_references(results, study)
    now = {
        name: replace(
            units[name], code=code_of(units[name].reach), problem=problems.get(_digest_of(units[name]))
        )
        for name in chosen
    }
    records = results.log.records()
    with opened(engine, workers, address, wait=wait) as where:
        found = _computed_again(now, {name: records[name].read() for name in now}, where)
    machines = {name.removeprefix(MACHINE) for name in records if name.startswith(MACHINE)}
    words = list(found.values())
    return Verification(
        checked=count,
        identical=words.count("identical"),
        close=words.count("close"),
        different=[units[name].label for name in found if found[name] == "different"],
        damaged=damaged,
        foreign=[str(path) for path in (*results.log.foreign(), *results.log.damaged_segments)],
        exact=all(units[name].code == unit.code for name, unit in now.items()) and machines == {machine()},
    )


def _computed_again(now: dict[str, Cell], stored: dict[str, bytes], engine: Engine) -> dict[str, str]:
    """Return how the stored results of units, by their names, compare with what they give now."""
    names, found = {unit.id: name for name, unit in now.items()}, dict[str, str]()
    with Watch() as watch:
        for finished in execute(list(now.values()), engine):
            for answer in finished.units:
                name = names[answer.id]
                found[name] = _compared(stored[name], answer.payload)
                watch.show("computing units again", len(found), len(now))
    return found


def _digest_of(unit: Cell) -> str:
    """Return the digest of the user's problem that a unit has, if it has one."""
    return str(dict(unit.settings).get(DIGEST, ""))


def _own_problems(results: Results, units: list[Cell]) -> tuple[dict[str, OwnProblem], dict[str, str]]:
    """Return the problems of a folder, and what is wrong with those that cannot be read, by their digests."""
    found, lost = dict[str, OwnProblem](), dict[str, str]()
    for digest in sorted({_digest_of(unit) for unit in units} - {""}):
        try:
            found[digest] = stored_problem(results.folder, digest)
        except (ValueError, OSError) as error:
            lost[digest] = str(error)
    return found, lost


def _refuse_references(results: Results, study: Study | None) -> None:
    """Refuse to import what a folder names, unless the user's own description names it, too."""
    named = Study.from_dict(results.note["study"]).references
    if unknown := sorted(named - (study.references if study else set())):
        raise ValueError(
            f"{results.folder} names {', '.join(unknown)}, which is imported only if you name it: pass the "
            f"description, as in gainbias sweep STUDY.toml --verify {results.folder}"
        )


def _damage(results: Results, units: list[Cell], stored: set[str]) -> list[str]:
    """Return what is damaged or missing in a folder, in words."""
    records = results.log.records()
    lost = [unit for unit in units if unit.id in records and unit.id not in stored]
    found = [f"{unit.label}: its record is damaged" for unit in lost] + results.odd_files()
    if not results.is_readable(MADE_WITH):
        found.append(f"{MADE_WITH}: is damaged")
    if not (results.folder / "manifest.json").exists():
        return found + ["manifest.json: is missing"] * bool(results.note.get("finished"))
    if results.outdated:
        return found
    gone = [unit for unit in units if not {unit.id, FAILURE + unit.id} & records.keys()]
    found += [f"{unit.label}: its record is missing" for unit in gone]
    try:
        manifest = results.manifest
        written = dict(manifest.get("tables", {}))
    except (ValueError, TypeError):
        return [*found, "manifest.json: is damaged"]
    if manifest.get("description") != results.note.get("study"):
        found.append("manifest.json: is not that of the study")
    now = results.checksums(Layout("sweep", {"runs": []}))
    return found + [f"{name}: is not as it was written" for name in written if now.get(name) != written[name]]


def _compared(stored: bytes, again: bytes | None) -> str:
    """Return whether two results are "identical", "close" or "different"; no result is different from all."""
    if again is None:
        return "different"
    pairs = dict(_columns(stored, again))
    if all(np.array_equal(_bits(one), _bits(other)) for one, other in pairs.values()):
        return "identical"
    alike = all(_are_close(*pair) for name, pair in pairs.items() if name != OF_BITS)
    return "close" if alike else "different"


def _columns(stored: bytes, again: bytes) -> Iterator[tuple[str, tuple[Any, Any]]]:
    one, other = unpacked(stored)["runs"], unpacked(again)["runs"]
    for name in dict.fromkeys(one.column_names + other.column_names):
        both = name in one.column_names and name in other.column_names
        yield name, (one[name].to_numpy(), other[name].to_numpy()) if both else (np.zeros(1), np.ones(1))


def _bits(column: Any) -> Any:
    return column.view(np.int64) if column.dtype == np.float64 else column


def _are_close(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != np.float64:
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=MACHINE_TOLERANCE, atol=MACHINE_TOLERANCE, equal_nan=True))
