"""The paper's study, rebuilt: fifteen tasks, three protocols, one results folder."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gainbias.experiments.execute import execute
from gainbias.experiments.protocols import PROTOCOLS
from gainbias.experiments.results import Results
from gainbias.experiments.unit import Unit
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.tasks.registry import TASKS


def reproduce(
    folder: Path | str = "results/reproduction",
    *,
    protocols: Iterable[str] = tuple(PROTOCOLS),
    tasks: Iterable[str] | None = None,
    instances: int = 30,
    shorten: int = 1,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "gainbias.reproduce",
) -> Results:
    """Run the paper's study and store it.

    Parameters
    ----------
    folder : path
        Results folder; it must be new unless `overwrite` or `resume` says otherwise.
    protocols : iterable of str
        Some of "literal", "inferred" and "fair".
    tasks : iterable of str, optional
        Ids of tasks; by default the fifteen of the paper.
    instances : int
        Instances of each task in the fair protocol; the paper's own have three.
    shorten : int
        Divide the number of steps by this, for a quick look; 1 is the study itself.
    settings : mapping, optional
        Changes to the settings of all tasks.
    workers : int, optional
        Number of processes, by default one for each core. It changes no result.
    overwrite, resume : bool
        What to do with a folder that already holds results: start afresh, or keep what fits.
    command : str
        What is recorded as the command that was typed.

    Returns
    -------
    Results
        Tables "runs" and "conditions", and the manifest.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"tasks": ["random-walk-50"], "protocols": ["literal"], "shorten": 1000, "workers": 1}
    ...     results = gb.reproduce(f"{folder}/quick-look", **options)
    ...     sorted(results.frame("runs").algorithm.unique())
    ['double-chain', 'implicit-td', 'lstd', 'single-chain', 'td-lambda']
    """
    require(
        "gym,mo,data,cluster,report", "gymnasium", "mo_gymnasium", "pandas", "pyarrow", "joblib", "matplotlib"
    )
    units = plan(protocols, tasks, instances, shorten, settings or {})
    results, started = Results(folder), time.monotonic()
    results.prepare(units, overwrite=overwrite, resume=resume)
    with results.log, Watch() as watch:
        stored, _ = results.finished(units)
        missing = [unit for unit in units if unit.id not in stored]
        watch.show("starting the workers", len(units) - len(missing), len(units))
        for number, (unit, tables) in enumerate(execute(missing, workers), len(units) - len(missing) + 1):
            results.keep(unit, tables)
            watch.show(f"{unit.protocol}: {unit.task}, instance {unit.run}", number, len(units))
    results.write_tables(units)
    results.write_manifest(units, command, time.monotonic() - started)
    return results


def plan(
    protocols: Iterable[str],
    tasks: Iterable[str] | None,
    instances: int,
    shorten: int,
    settings: Mapping[str, Any],
) -> list[Unit]:
    """Return all units of a study, instance by instance: an early stop has something of everything."""
    if isinstance(instances, bool) or instances < 1:
        raise ValueError(f"instances must be a positive integer, found {instances!r}")
    if isinstance(shorten, bool) or shorten < 1:
        raise ValueError(f"shorten must be a positive integer, found {shorten!r}")
    of_the_paper = [name for name, recipe in TASKS.items() if recipe.paper is not None]
    chosen = of_the_paper if tasks is None else _known(tasks, of_the_paper, "task of the paper")
    units = [
        Unit(protocol, task, run, shorten, dict(settings))
        for protocol in _known(protocols, list(PROTOCOLS), "protocol")
        for run in range(instances if protocol == "fair" else PROTOCOLS[protocol].runs)
        for task in chosen
    ]
    if not units:
        raise ValueError("there is nothing to run: name at least one protocol and one task")
    return units


def _known(names: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    found = list(names)
    for name in found:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f": known are {', '.join(known)}"
            raise ValueError(f"unknown {what} {name!r}{hint}")
    return found
