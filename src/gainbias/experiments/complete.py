"""From planned units to a full log: only what is missing is computed, and every answer is kept at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gainbias.experiments.again import resume_notice
from gainbias.experiments.engines import Engine
from gainbias.experiments.execute import Finished, execute, patient_interrupt
from gainbias.experiments.results import FAILURE, MACHINE, Results, disk_full_in_words
from gainbias.experiments.work import StoppedError, Unit
from gainbias.progress import Watch


@dataclass
class Progress:
    """How far a study is.

    Attributes
    ----------
    waiting : dict of str to Unit
        What is not finished, in the order in which it is begun.
    total, reused, failed, damaged : int
        Numbers of units: all; those that were stored before; those that failed in this process; those that
        were stored and found damaged.
    lane_steps : int
        Steps of lanes that were made by this process.
    foreseen, left : float
        Rough seconds of all units, and of those that are not finished.
    began : float
        Clock when the first unit was.
    """

    waiting: dict[str, Unit]
    total: int
    reused: int = 0
    failed: int = 0
    damaged: int = 0
    lane_steps: int = 0
    foreseen: float = 0.0
    left: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long this process has been computing."""
        return time.monotonic() - self.began


def complete(
    units: Sequence[Unit],
    results: Results,
    engine: Engine,
    show: Callable[[Progress], None],
    changes: str = "",
) -> Progress:
    """Compute what is missing of the units; the log of the results must be open for writing.

    Units that fail, or kill their workers, are recorded as failures and the others go on. They are tried
    again when the study is resumed. Where something is stored, a notice says first what will be computed,
    and why.

    Parameters
    ----------
    units : sequence of Unit
        All of the study, in the order in which they are to be begun.
    results : Results
        Where answers are kept.
    engine : Engine
        Where units are computed.
    show : callable
        Called with the progress before the first and after every batch.
    changes : str
        How the description of the study differs from the stored one.

    Raises
    ------
    StoppedError
        After the first Ctrl-C, when what was in flight is kept. The second one raises KeyboardInterrupt.
    """
    stored, damaged = results.finished(units)
    waiting = {unit.id: unit for unit in units if unit.id not in stored}
    progress = Progress(
        waiting,
        total=len(units),
        reused=len(stored),
        damaged=len(damaged),
        foreseen=sum(unit.seconds for unit in units),
        left=sum(unit.seconds for unit in waiting.values()),
    )
    notice = resume_notice(units, progress.waiting, results, damaged, changes)
    if notice:
        Watch.say(notice)
    if waiting:
        results.note_made_with({unit.code for unit in waiting.values()})
    show(progress)
    machines = {name for name in results.log.records() if name.startswith(MACHINE)}
    with patient_interrupt() as stop:
        for finished in execute(list(waiting.values()), engine, stop):
            _keep(finished, results, progress, machines)
            show(progress)
    if waiting:
        raise StoppedError
    return progress


def _keep(finished: Finished, results: Results, progress: Progress, machines: set[str]) -> None:
    """Store the answers of a batch, all at once."""
    records = []
    for answer in finished.answers:
        unit = progress.waiting.pop(answer.id)
        progress.left -= unit.seconds
        if answer.payload is None:
            failure = {"unit": answer.id, "what": unit.label, "error": answer.error}
            records.append((FAILURE + answer.id, json.dumps(failure).encode()))
            progress.failed += 1
        else:
            records.append((answer.id, answer.payload))
            progress.lane_steps += unit.lane_steps
    name = MACHINE + finished.machine
    if finished.machine and name not in machines:
        machines.add(name)
        records.append((name, b""))
    if records:
        with disk_full_in_words(results.folder):
            results.log.append_all(records)


def show_labels(watch: Watch, progress: Progress, workers: int) -> None:
    """Name the units that run: the first that wait, because units are begun in their order."""
    running = [unit.label for unit in islice(progress.waiting.values(), workers)]
    watch.show(", ".join(running) or "writing tables", progress.total - len(progress.waiting), progress.total)


def refuse_failures(results: Results, units: Sequence[Unit]) -> None:
    """Raise if units failed, for studies that must have no gaps."""
    failures = results.failures(units, results.log.records())
    if failures:
        first = failures[0]
        raise RuntimeError(
            f"{len(failures)} of {len(units)} units failed, the first {first['what']}: {first['error']}; the "
            "others are kept: go on with --resume, and with fewer workers if memory is short"
        )
