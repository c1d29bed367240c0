"""The paper's study, rebuilt: fifteen tasks, three protocols, one results folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gainbias.experiments.engines import opened
from gainbias.experiments.manifest import make_manifest
from gainbias.experiments.reproduce.instance import LAYOUT, Instance
from gainbias.experiments.reproduce.protocols import PROTOCOLS
from gainbias.experiments.results import Results
from gainbias.experiments.runner import complete, refuse_failures, show_labels
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.suggest import did_you_mean_or_known
from gainbias.tasks.registry import TASKS, task
from gainbias.tasks.settings import as_integer

INSTANCES = 30
"""Of each task in the fair protocol, in the whole study."""


def paper_tasks() -> list[str]:
    """Return the ids of the tasks of the paper.

    Examples
    --------
    >>> len(paper_tasks())
    15
    """
    return [name for name, recipe in TASKS.items() if recipe.paper is not None]


def reproduce(
    folder: Path | str = "results/reproduction",
    *,
    protocols: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
    instances: int = INSTANCES,
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
    protocols : iterable of str, optional
        Some of "literal", "inferred" and "fair"; by default all three.
    tasks : iterable of str, optional
        Ids of tasks; by default the fifteen of the paper.
    instances : int
        Instances of each task in the fair protocol; the paper's own have three.
    shorten : int
        Divide the number of steps by this, for a quick look; 1 is the study itself.
    settings : mapping, optional
        Changes to the settings of tasks; each takes those that it has.
    workers : int, optional
        Number of processes, by default one for each core. It changes no result.
    overwrite, resume : bool
        What to do with a folder that already holds a study: start afresh, or go on. A study can be resumed
        with more or fewer instances, tasks and protocols, but not with other `settings` or `shorten`. What
        other sources or versions made is computed again; a notice on standard error says first how much that
        is, and why. Until new tables are there, those from before stay, and `Results.outdated` says so.
    command : str
        What is recorded as the command that was typed.

    Returns
    -------
    Results
        Tables "runs", "instances" and "conditions", and the manifest.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"tasks": ["random-walk-50"], "protocols": ["literal"], "shorten": 1000, "workers": 1}
    ...     results = gb.reproduce(f"{folder}/quick-look", **options)
    ...     sorted(results.frame("runs").algorithm.unique())
    ['double-chain', 'implicit-td', 'lstd', 'single-chain', 'td-lambda', 'vrtd', 'vrtd-all-data']
    """
    require(
        "gym,mo,data,cluster,report", "gymnasium", "mo_gymnasium", "pandas", "pyarrow", "joblib", "matplotlib"
    )
    settings = _as_stored(settings or {})
    count = _number_of(workers)
    units = plan(protocols, tasks, instances, shorten, settings)
    results, started = Results(folder), time.monotonic()
    choices = {"shorten": shorten, "settings": settings}
    results.check(LAYOUT.kind, choices, overwrite=overwrite, resume=resume)
    with Watch() as watch:
        try_settings(units, watch)
        with opened("local", count) as engine, results.log:
            results.begin(LAYOUT, choices, overwrite=overwrite)
            progress = complete(units, results, engine, lambda now: show_labels(watch, now, count))
        refuse_failures(results, units)
        in_order = sorted(units, key=lambda unit: unit.place)
        results.write_tables(in_order, LAYOUT)
    manifest = make_manifest(
        units,
        results.read_table("instances").to_dict("records"),
        settings=settings,
        command=command,
        reused=progress.reused,
        seconds=time.monotonic() - started,
    )
    results.write_manifest(manifest)
    return results


def _as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored and read again, so that they can be compared."""
    try:
        stored: dict[str, Any] = json.loads(json.dumps(dict(settings), default=lambda array: array.tolist()))
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"settings must be numbers, words and lists of these by name, found {settings!r}"
        ) from error
    return stored


def _number_of(workers: int | None) -> int:
    return os.cpu_count() or 1 if workers is None else as_integer(workers, "workers", least=1)


def try_settings(units: Sequence[Instance], watch: Watch) -> None:
    """Make an instance of each task with changes: what it refuses is refused before work begins."""
    for unit in {unit.task: unit for unit in reversed(units) if unit.settings}.values():
        watch.show(f"trying the settings on {unit.task}")
        try:
            task(unit.task, seed=unit.run, protocol=PROTOCOLS[unit.protocol].name, **unit.settings)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{unit.task} refuses the settings {dict(unit.settings)}: {error}") from error


def plan(
    protocols: Iterable[str] | None,
    tasks: Iterable[str] | None,
    instances: int,
    shorten: int,
    settings: Mapping[str, Any],
) -> list[Instance]:
    """Return all units of a study, instance by instance: an early stop has something of everything."""
    for what, names in (("protocols", protocols), ("tasks", tasks)):
        if isinstance(names, str):
            raise ValueError(f"{what} must be a list of ids, found {names!r}")
    instances = as_integer(instances, "instances", least=1)
    of_the_paper = {name: recipe.paper for name, recipe in TASKS.items() if recipe.paper is not None}
    most = min(paper.num_steps for paper in of_the_paper.values())
    shorten = as_integer(shorten, "shorten", least=1, most=most)
    chosen = list(of_the_paper) if tasks is None else _known(tasks, list(of_the_paper), "task of the paper")
    own = {name: {key: settings[key] for key in TASKS[name].settings if key in settings} for name in chosen}
    for name in settings:
        _known([name], sorted({key for task in chosen for key in TASKS[task].settings}), "setting")
    units = [
        Instance(protocol, task, run, shorten, own[task])
        for protocol in _known(PROTOCOLS if protocols is None else protocols, list(PROTOCOLS), "protocol")
        for run in range(instances if protocol == "fair" else PROTOCOLS[protocol].runs)
        for task in chosen
    ]
    if not units:
        raise ValueError("there is nothing to run: name at least one protocol and one task")
    return units


def _known(names: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    """Return the names, each once; raise ValueError for an unknown one, with the nearest."""
    found = list(names)
    for name in found:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}: {did_you_mean_or_known(name, known)}")
    return list(dict.fromkeys(found))
