"""From planned units to a full log: only what is missing is computed, and every answer is kept at once.

`complete` is the way in. `resume_notice` says before work begins what will be computed, and why. `execute`
sends units through an engine: answers are stored as they arrive, and lost work is done again.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from gainbias.experiments.engines import Answers, Engine, UnderWay
from gainbias.experiments.provenance import Reach, made_with
from gainbias.experiments.results import FAILURE, MACHINE, Results, disk_full_in_words
from gainbias.experiments.units import BATCH_SECONDS, StoppedError, Unit, UnitAnswer
from gainbias.progress import Watch

STALLED_SECONDS = 15.0
"""After this time without a busy worker, work in flight is submitted again."""

TICK_SECONDS = 0.5
"""Progress is shown at least this often while waiting for units."""

FEW_WORKERS = 100
"""With more workers, batches are longer in proportion: the scheduler needs about 2 ms for each."""

MOST_DEATHS = 3
"""A unit is given up when this many workers were killed while they computed it, all but the first alone."""


@dataclass
class Progress:
    """How far the units of a study are.

    Attributes
    ----------
    waiting : dict of str to Unit
        Units that are not finished, in the order in which they are begun.
    total, reused, failed, damaged : int
        Numbers of units: all; those that were stored before; those that failed in this process; those that
        were stored and found damaged.
    lane_steps : int
        Steps of lanes that this process has taken.
    foreseen, left : float
        Rough seconds of all units, and of those that are not finished.
    running : list of UnderWay
        What is known to be running.
    began : float
        Time at which the first unit was.
    """

    waiting: dict[str, Unit]
    total: int
    reused: int = 0
    failed: int = 0
    damaged: int = 0
    lane_steps: int = 0
    foreseen: float = 0.0
    left: float = 0.0
    running: list[UnderWay] = field(default_factory=list)
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

    Units that fail, or kill their workers, are recorded as failures, and the others continue. They are
    tried again when the study is resumed. If something is stored already, a notice first says what will be
    computed, and why.

    Parameters
    ----------
    units : sequence of Unit
        All of the study, in the order in which they are to be begun.
    results : Results
        Where answers are kept.
    engine : Engine
        Where units are computed.
    show : callable
        Called with the progress before the first batch, after every batch, and while waiting.
    changes : str
        How the description of the study differs from the stored one.

    Raises
    ------
    StoppedError
        After the first Ctrl-C or SIGTERM, when work in progress has been kept. The second one raises
        KeyboardInterrupt.
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
        results.note_made_with({unit.code: unit.reach for unit in waiting.values()})
    show(progress)
    machines = {name for name in results.log.records() if name.startswith(MACHINE)}
    with patient_interrupt() as stop:
        for finished in execute(list(waiting.values()), engine, stop):
            _keep(finished, results, progress, machines)
            progress.running = engine.running()
            show(progress)
    if waiting:
        raise StoppedError
    return progress


def _keep(finished: Answers, results: Results, progress: Progress, machines: set[str]) -> None:
    """Store the answers of a batch, all at once."""
    records = []
    for answer in finished.units:
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


@contextmanager
def patient_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C or SIGTERM in a ``with`` block into an event; the second one interrupts."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def first(*_: Any) -> None:
        stop.set()
        for each in before:
            signal.signal(each, signal.default_int_handler)
        sys.stderr.write("finishing the running units; press Ctrl-C again to stop now\n")

    before = {each: signal.signal(each, first) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def show_labels(watch: Watch, progress: Progress, workers: int) -> None:
    """Show the labels of the running units: those that are known, else the first ones waiting."""
    known = [one.label for one in progress.running]
    first = [unit.label for unit in islice(progress.waiting.values(), workers)]
    watch.show(
        ", ".join(known or first) or "writing tables", progress.total - len(progress.waiting), progress.total
    )


def refuse_failures(results: Results, units: Sequence[Unit]) -> None:
    """Raise RuntimeError if units failed, for studies that must have no gaps."""
    failures = results.failures(units, results.log.records())
    if failures:
        first = failures[0]
        raise RuntimeError(
            f"{len(failures)} of {len(units)} units failed, the first {first['what']}: {first['error']}; the "
            "others are kept: continue with --resume, and with fewer workers if memory is short"
        )


class Earlier(NamedTuple):
    """A unit that is stored as computed by other code: its id then, and what has changed since."""

    unit: Unit
    id: str
    why: str


def earlier_units(units: Sequence[Unit], results: Results) -> list[Earlier]:
    """Return stored results of the units from other code, whether or not those of this code are stored."""
    records = results.log.records()
    if all(name.startswith((MACHINE, FAILURE)) for name in records):
        return []
    codes, found, of_reach = results.made_with(), list[Earlier](), dict[Reach, dict[str, str]]()
    for unit in units:
        if unit.reach not in of_reach:
            of_reach[unit.reach] = {
                code: _why(facts, unit.reach)
                for code, facts in codes.items()
                if code != unit.code and facts.get("reach", list(unit.reach)) == list(unit.reach)
            }
        for code, why in of_reach[unit.reach].items():
            before = replace(unit, code=code).id  # type: ignore[type-var]
            if before in records:
                found.append(Earlier(unit, before, why))
    return found


class OutdatedError(ValueError):
    """Finished units were computed by other code, and may not be computed again without permission."""


def refuse_outdated(units: Sequence[Unit], results: Results, recompute: bool) -> None:
    """Raise OutdatedError if units are stored that other code computed, unless they may be computed again.

    That was already allowed if the folder was begun with the present code and then interrupted.

    Parameters
    ----------
    units : sequence of Unit
        All of the study.
    results : Results
        Where others are stored.
    recompute : bool
        Whether the user allows it.
    """
    if recompute:
        return
    records, allowed = results.log.records(), results.codes
    found = {
        unit.id: why
        for unit, _, why in earlier_units(units, results)
        if unit.id not in records and allowed.get(unit.reach) != unit.code
    }
    if not found:
        return
    counts = Counter(found.values()).most_common()
    reasons = [f"{why} ({counted(count, 'unit')})" if counts[1:] else why for why, count in counts]
    raise OutdatedError(
        f"{len(found):,} of the {counted(len(units), 'unit')} in {results.folder} are finished and would be "
        f"computed again, because {_listed(reasons)}: allow it with --recompute "
        "(recompute=True in Python), or continue with the sources and versions that they come from; nothing "
        "was changed"
    )


MOST_REASONS = 4
"""How many reasons, or changed modules, are named."""


def _listed(names: Sequence[str]) -> str:
    others = len(names) - MOST_REASONS
    return "; ".join([*names[:MOST_REASONS], *([f"and {others} more"] if others > 0 else [])])


def resume_notice(
    units: Sequence[Unit],
    waiting: Mapping[str, Unit],
    results: Results,
    damaged: Collection[str],
    changes: str = "",
) -> str:
    """Return what will be computed and why; empty if nothing was stored, or if nothing will change.

    Parameters
    ----------
    units : sequence of Unit
        All of the study.
    waiting : mapping of str to Unit
        By id, those that will be computed.
    results : Results
        Where others are stored.
    damaged : collection of str
        Ids of units whose records are damaged.
    changes : str
        How the description of the study differs from the stored one.

    Examples
    --------
    >>> resume_notice([], {}, Results("results/nothing-yet"), [])
    ''
    """
    records = results.log.records()
    stored = {name for name in records if not name.startswith((MACHINE, FAILURE))}
    if not any(not name.startswith(MACHINE) for name in records):
        return ""
    unknown, lines, left = stored - {unit.id for unit in units}, list[str](), dict(waiting)

    def take(ids: Collection[str], one: str, several: str) -> None:
        found = [left.pop(name) for name in ids if name in left]
        if found:
            lines.append(f"{counted(len(found), 'unit')} {one if len(found) == 1 else several}")

    damage = "again, because what is stored of {} is damaged"
    take(damaged, damage.format("it"), damage.format("them"))
    earlier = earlier_units(units, results) if unknown else []
    unknown -= {each.id for each in earlier}
    for why in dict.fromkeys(each.why for each in earlier):
        words = f"again, because {why}"
        take([each.unit.id for each in earlier if each.why == why], words, words)
    failed = [name for name in left if FAILURE + name in records]
    take(failed, "again, because it failed", "again, because they failed")
    new = f"not stored yet{f' ({changes})' if changes else ''}"
    take(list(left), f"that is {new}", f"that are {new}")
    if unknown:
        what = counted(len(unknown), "stored unit")
        lines.append(
            f"not used: {what} of other settings, or of sources that are not known; the tables will not have "
            f"{'it' if len(unknown) == 1 else 'them'}"
        )
    if not lines:
        return ""
    counts = (
        f"{len(waiting):,} of {counted(len(units), 'unit')} to compute, {len(units) - len(waiting):,} kept"
    )
    return "\n".join([f"resuming {results.folder}: {counts}", *(f"  {line}" for line in lines)])


def _why(before: Mapping[str, Any], reach: Reach) -> str:
    """Say what has changed since stored units were computed: modules, versions, or both."""
    now, words = made_with(reach), list[str]()
    packages, modules = before.get("packages"), before.get("modules")
    if isinstance(modules, dict):
        changed = [name for name, digest in now["modules"].items() if digest not in modules.values()]
        lost = modules.keys() - now["modules"].keys() if not changed else ()
        changed += [f"without {name}" for name in sorted(lost)]
        words += [f"the code has changed ({_listed(changed)})"] if changed else []
    if isinstance(packages, dict):
        versions = [
            f"{name} {packages[name] or 'missing'} -> {version or 'missing'}"
            for name, version in now["packages"].items()
            if packages.get(name, version) != version
        ]
        words += [f"versions have changed ({', '.join(versions)})"] if versions else []
        words += ["the sources of gainbias have changed"] if not words else []
    return " and ".join(words) or "the sources of gainbias, or versions of others, have changed"


def counted(number: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "unit"), counted(1200, "unit")
    ('1 unit', '1,200 units')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def execute(units: Sequence[Unit], engine: Engine, stop: threading.Event | None = None) -> Iterator[Answers]:
    """Iterate over the answers of batches of units, which are begun in their order.

    Parameters
    ----------
    units : sequence of Unit
        What is to be done.
    engine : Engine
        Where.
    stop : threading.Event, optional
        Once it is set, nothing new is begun.

    Yields
    ------
    Answers
        Of a batch; none now and then while there is nothing but waiting.
    """
    queue, flying = _Queue(units), dict[Future[Answers], list[Unit]]()
    stop, active = stop or threading.Event(), time.monotonic()
    try:
        while flying or (queue and not stop.is_set()):
            ahead = engine.ahead  # also asked when nothing waits: an engine without workers then reports it
            while queue and not stop.is_set() and len(flying) < ahead:
                batch, alone = queue.next(engine.workers, engine.together)
                flying[engine.submit(batch, alone)] = batch
            if not flying:
                stop.wait(TICK_SECONDS)
            done, _ = wait(flying, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                batch = flying.pop(future)
                if engine.has_lost(future):
                    queue.put_back(batch)
                else:
                    yield queue.settle(batch, future)
            if done or engine.is_busy:
                active = time.monotonic()
            elif time.monotonic() - active > (TICK_SECONDS if stop.is_set() else STALLED_SECONDS):
                _take_back(flying, queue)
                active = time.monotonic()
            if not done:
                yield Answers([], "")
    finally:
        for future in flying:
            future.cancel()


def _take_back(flying: dict[Future[Answers], list[Unit]], queue: _Queue) -> None:
    """Queue work again that was sent but has no worker: Dask may lose work with a worker that is killed."""
    for future, batch in flying.items():
        future.cancel()
        queue.put_back(batch)
    flying.clear()


class _Queue:
    """Waiting units. Those that lost a worker go first, each alone, and no other unit waits for them."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._waiting, self._suspects = deque(units), deque[Unit]()
        self._deaths = Counter[str]()
        self._nominal = self._measured = 0.0
        self._left = sum(unit.seconds for unit in units)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._suspects)

    def next(self, workers: int, together: int = 1) -> tuple[list[Unit], bool]:
        """Return units to send, and whether this is a unit that must be alone.

        They take about `BATCH_SECONDS`, more with many workers, and less near the end so that all workers
        have some; or they are as many companions as are to go `together`.
        """
        if self._suspects:
            return [self._suspects.popleft()], True
        slowness = self._measured / self._nominal if self._nominal else 1.0
        seconds = BATCH_SECONDS * max(1.0, workers / FEW_WORKERS)
        room = min(seconds / max(slowness, 1e-3), self._left / (8 * workers))
        batch = [self._waiting.popleft()]
        seconds = batch[0].seconds
        while self._waiting and (
            seconds + self._waiting[0].seconds <= room
            if together == 1
            else len(batch) < together and _are_companions(batch[0], self._waiting[0])
        ):
            batch.append(self._waiting.popleft())
            seconds += batch[-1].seconds
        self._left -= seconds
        return batch, False

    def settle(self, batch: list[Unit], future: Future[Answers]) -> Answers:
        """Return the answers of a batch, except for units that lost their worker and will be tried again."""
        try:
            answers, machine = future.result()
        except _killed_worker():  # with its machine, several times; a unit cannot do that
            words = "the workers that it was sent to were lost, with their machine or for lack of memory"
            answers, machine = [UnitAnswer(unit.id, None, words, was_lost=True) for unit in batch], ""
        self._learn(batch, answers)
        settled = [self._settled(unit, answer) for unit, answer in zip(batch, answers, strict=True)]
        return Answers([answer for answer in settled if answer], machine)

    def put_back(self, batch: list[Unit]) -> None:
        """Put units back at the head of the queue."""
        if self._deaths[batch[0].id]:
            self._suspects.extendleft(batch)  # these are sent alone
            return
        self._waiting.extendleft(reversed(batch))
        self._left += sum(unit.seconds for unit in batch)

    def _learn(self, batch: list[Unit], answers: list[UnitAnswer]) -> None:
        """Note how long units took compared with the forecast; the last few batches count most."""
        self._nominal = 0.7 * self._nominal + sum(unit.seconds for unit in batch)
        self._measured = 0.7 * self._measured + sum(answer.seconds for answer in answers)

    def _settled(self, unit: Unit, answer: UnitAnswer) -> UnitAnswer | None:
        """Return the answer of a unit, or None if it is queued again because its worker was lost."""
        if not answer.was_lost:
            return answer
        self._deaths[unit.id] += 1
        if self._deaths[unit.id] < MOST_DEATHS:
            self._suspects.append(unit)
            return None
        return answer._replace(error=f"{answer.error} (for the third time, the last two alone)")


def _are_companions(one: Any, other: Any) -> bool:
    return bool(one.companions == other.companions)


def _killed_worker() -> tuple[type[BaseException], ...]:
    """Return the error of Dask for work that lost several workers; nothing if Dask is not in use."""
    distributed = sys.modules.get("distributed")
    return (distributed.KilledWorker,) if distributed else ()
