"""Run a study: thousands of runs described once, on a laptop or a cluster, stopped and resumed at will."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from gainbias.experiments.cell import Cell
from gainbias.experiments.engines import EngineName, check_choice, check_device, opened
from gainbias.experiments.own import is_reference
from gainbias.experiments.provenance import circumstances, code_version
from gainbias.experiments.results import MACHINE, Results
from gainbias.experiments.runner import Progress, complete, earlier_units, refuse_outdated
from gainbias.experiments.study import MOST_UNITS, Study, as_study
from gainbias.experiments.units import Unit, UnitLimits
from gainbias.extras import require
from gainbias.progress import Watch

LONG_SECONDS = 10.0
"""Units that have run for longer are named beside the bar."""


def sweep(
    study: Study | Mapping[str, Any] | str | Path,
    folder: Path | str | None = None,
    *,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    wait: float | str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    recompute: bool = False,
    max_units: int = MOST_UNITS,
    unit_seconds: float | None = None,
    unit_memory: float | None = None,
    device: Literal["cpu", "gpu"] = "cpu",
    command: str = "gainbias.sweep",
) -> Results:
    """Run a study and store it.

    However it is run, stopped and resumed, the tables have the same bytes on one kind of machine with the
    same versions of packages.

    Parameters
    ----------
    study : Study, mapping or path
        What to run: a record, the same as a mapping, or the path of a TOML file.
    folder : path, optional
        Results folder, by default ``results/`` and the name of the study. It must be new unless `overwrite`
        or `resume` says otherwise.
    engine : {"local", "dask"}
        Processes on this machine, or an existing Dask cluster.
    workers : int, optional
        Processes on this machine, by default one for each core.
    address : str, optional
        Of the cluster's scheduler.
    wait : float or str, optional
        How long a cluster may have no workers, at the start or when all are lost, or no scheduler once it
        was reached: seconds, or a time such as "90s", "30min" or "2h". By default 30 seconds.
    overwrite, resume : bool
        What to do with a folder that already holds a study: start afresh, or go on. A study can be resumed
        with more or fewer tasks, instances, seeds and algorithms: only new units are computed. A study
        without a stored unit in common is another study, and refused. A notice on standard error first
        says what will be computed, and why. Until new tables are there, those from before stay, and
        `Results.outdated` says so.
    recompute : bool
        Whether finished units may be computed again if the code that they can reach, or a version that
        matters for their numbers, has changed. Otherwise such a study is refused, and nothing is changed.
    max_units : int
        A study with more units is refused.
    unit_seconds, unit_memory : float, optional
        Seconds and bytes that a unit may take, including compilation; one that takes more is ended, and
        recorded as failed.
    device : {"cpu", "gpu"}
        Where lanes run. A GPU gets the lanes of all sample paths of a problem at once, from this process; it
        pays off with many paths and step sizes. The tables are the same.
    command : str
        What is recorded as the command that was typed.

    Returns
    -------
    Results
        Its table "runs", also by `Results.to_frame`, has a row for each lane, metric and checkpoint; its
        manifest says what was run and which units failed.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM: what was finished is kept. The first waits for units that run, the second
        does not.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> choices = {"step_size": [0.1, 0.5], "num_steps": 1000, "instances": 3}
    >>> study = gb.Study(tasks=["boyan-chain"], algorithms=["td-lambda"], **choices)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = gb.sweep(study, f"{folder}/results", workers=1).to_frame()
    >>> runs[runs.step == 1000].groupby("a").instance.count().to_dict()
    {0.1: 3, 0.5: 3}
    """
    require("pandas", "pyarrow")
    study = as_study(study, max_units)
    check_choice(engine, workers, address, wait)
    limits = UnitLimits(unit_seconds, unit_memory)
    limits.check()
    check_device(device, engine, workers, limits)
    results, started = Results(folder or Path("results") / study.name), time.monotonic()
    results.check("sweep", {"name": study.name}, overwrite=overwrite, resume=resume)
    with Watch() as watch:
        watch.show("planning")
        units = list(study.cells())
        if resume:
            _refuse_another_study(results, units)
            refuse_outdated(units, results, recompute)
        study.check_own()
        _try_settings(study, watch)
        with opened(engine, workers, address, limits, wait, device) as where, results.log:
            note = {"name": study.name, "code": code_version(), "study": study.to_dict()}
            changes = _changes(results, study) if resume else ""
            results.begin(study.layout, note, study.cells(first_only=True), overwrite=overwrite)
            for problem in study.problems.values():
                problem.keep(results.folder)
            progress = complete(units, results, where, lambda now: _show(watch, now), changes)
            watch.show("writing tables")
            _write(study, units, results, progress, command=command, engine=engine, started=started)
    return results


def _show(watch: Watch, progress: Progress) -> None:
    """Show how much is done, how fast, and what went wrong; the bar is in predicted seconds."""
    words = [f"{progress.total - len(progress.waiting):,} of {progress.total:,} units"]
    if progress.lane_steps:
        words.append(f"{progress.lane_steps / progress.seconds / 1e6:.3g} M lane-steps/s")
    if progress.damaged:
        words.append(f"{progress.damaged} were damaged")
    words.append(f"{progress.failed} failed")
    if progress.running and progress.running[0].seconds > LONG_SECONDS:
        longest = progress.running[0]
        words.append(f"{longest.label} for {longest.seconds:,.0f} s")
    watch.show(", ".join(words), progress.foreseen - progress.left, progress.foreseen)


def _refuse_another_study(results: Results, units: Sequence[Cell]) -> None:
    """Refuse a folder whose units, whichever sources made them, have none in common with the study."""
    if not (results.folder / "study.json").exists() or not results.made_with():
        return
    stored = results.log.records()
    if not any(len(name) == len(units[0].id) for name in stored) or any(unit.id in stored for unit in units):
        return
    if not earlier_units(units, results):
        raise ValueError(
            f"{results.folder} holds none of the units of this study, so it is another one (steps, "
            "checkpoints, metrics and step sizes are part of every unit): choose another folder with "
            "--output, or start afresh with --overwrite"
        )


def _changes(results: Results, study: Study) -> str:
    """Say which keys of the description differ from the stored ones."""
    if not (results.folder / "study.json").exists():
        return ""
    before, now = results.note.get("study"), study.to_dict()
    if not isinstance(before, dict):
        return ""
    changed = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    return f"the description has changed: {', '.join(changed)}" if changed else ""


def _try_settings(study: Study, watch: Watch) -> None:
    """Make an instance of each task with changed settings, so that it is refused before work begins."""
    cells = {(cell.task, cell.settings): cell for cell in study.cells("", first_only=True)}
    for cell in cells.values():
        if not (cell.settings or is_reference(cell.task)):
            continue
        watch.show(f"trying the settings on {cell.task}")
        try:
            cell.made()
        except ImportError:  # a missing package: the message says how to install it
            raise
        except Exception as error:  # a function of the user may raise anything
            words = f"refuses the settings {dict(cell.settings)}" if cell.settings else "cannot be made"
            raise ValueError(f"tasks: {cell.task} {words}: {error}") from error


def _write(
    study: Study,
    units: Sequence[Cell],
    results: Results,
    progress: Progress,
    *,
    command: str,
    engine: str,
    started: float,
) -> None:
    """Write the tables and the manifest of a sweep that has come to its end."""
    in_order, divergence = sorted(units, key=lambda unit: unit.place), _Divergence()
    results.write_tables(in_order, study.layout, divergence.look)
    facts = circumstances(
        (unit.id for unit in in_order),
        command=command,
        reused=progress.reused,
        seconds=time.monotonic() - started,
    )
    results.write_manifest(
        {
            **facts,
            **_facts(study, in_order, results, progress),
            "engine": engine,
            "diverged_lanes": divergence.lanes,
            "diverged_units": divergence.units,
        }
    )


class _Divergence:
    """How many lanes diverged, and which units have no other lanes."""

    def __init__(self) -> None:
        self.lanes, self.units = 0, list[str]()

    def look(self, unit: Unit, tables: Mapping[str, Any]) -> None:
        outcomes = tables["runs"]["outcome"].to_pylist()
        diverged = outcomes.count("diverged")
        self.lanes += round(diverged / len(outcomes) * unit.lanes)  # type: ignore[attr-defined]
        if diverged == len(outcomes):
            self.units.append(unit.label)


def _facts(study: Study, units: Sequence[Cell], results: Results, progress: Progress) -> dict[str, Any]:
    """Return the content of a manifest besides its circumstances."""
    records = results.log.records()
    return {
        "kind": "sweep",
        "name": study.name,
        "damaged": progress.damaged,
        "tables": results.checksums(study.layout),
        "machines": sorted(name.removeprefix(MACHINE) for name in records if name.startswith(MACHINE)),
        "lanes": sum(unit.lanes for unit in units),
        "lane_steps": sum(unit.lane_steps for unit in units),
        "description": study.to_dict(),
        "failures": results.failures(units, records),
    }
