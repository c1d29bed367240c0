"""Units of work through an engine: whoever finishes first is served first, and what is lost is done again."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from gainbias.experiments.engines import Engine
from gainbias.experiments.work import BATCH_SECONDS, Answer, Unit, compute_all

STALLED_SECONDS = 15.0
"""Work that nobody has been doing for so long is submitted again."""

MOST_DEATHS = 3
"""A unit that has been alone with a worker so often when it was killed is given up."""


class Finished(NamedTuple):
    """Answers of one batch, and the kind of machine they come from; empty for units that were given up."""

    answers: list[Answer]
    machine: str


def execute(units: Sequence[Unit], engine: Engine, stop: threading.Event | None = None) -> Iterator[Finished]:
    """Iterate over finished batches of units; they are begun in their order.

    Parameters
    ----------
    units : sequence of Unit
        What is to be done.
    engine : Engine
        Where.
    stop : threading.Event, optional
        Once it is set, nothing new is begun.
    """
    queue, flying = _Queue(units), dict[Future[Any], list[Unit]]()
    stop, active = stop or threading.Event(), time.monotonic()
    try:
        while flying or (queue and not stop.is_set()):
            ahead = engine.ahead  # asked also when nothing waits: an engine without workers says so
            while queue and not stop.is_set() and queue.may_begin(len(flying), ahead):
                batch = queue.next(engine.workers)
                try:
                    flying[engine.executor.submit(compute_all, batch)] = batch
                except BrokenExecutor:  # what else was in flight will say so, too
                    queue.put_back(batch)
                    break
            done, _ = wait(flying, timeout=0.5, return_when=FIRST_COMPLETED)
            alone = len(flying) == 1
            for future in done:
                yield queue.settle(flying.pop(future), future, alone)
            if done or engine.is_busy:
                active = time.monotonic()
            elif time.monotonic() - active > STALLED_SECONDS:
                _take_back(flying, queue)
                active = time.monotonic()
    finally:
        for future in flying:
            future.cancel()


def _take_back(flying: dict[Future[Any], list[Unit]], queue: _Queue) -> None:
    """Queue again what is in flight though nobody works on it: Dask may lose it with a killed worker."""
    for future, batch in flying.items():
        future.cancel()
        queue.put_back(batch)
    flying.clear()


class _Queue:
    """Units that wait; those that were in flight twice when workers were lost go alone, one by one."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._waiting, self._suspects = deque(units), deque[Unit]()
        self._lost, self._deaths = Counter[str](), Counter[str]()
        self._nominal = self._measured = 0.0
        self._left = sum(unit.seconds for unit in units)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._suspects)

    def may_begin(self, flying: int, ahead: int) -> bool:
        """Whether a batch can be submitted now: a suspect only if nothing else runs."""
        return flying == 0 if self._suspects else flying < ahead

    def next(self, workers: int) -> list[Unit]:
        """Return units for about `BATCH_SECONDS`, less near the end so that all workers have some."""
        if self._suspects:
            return [self._suspects.popleft()]
        slowness = self._measured / self._nominal if self._nominal else 1.0
        room = min(BATCH_SECONDS / max(slowness, 1e-3), self._left / (8 * workers))
        batch = [self._waiting.popleft()]
        seconds = batch[0].seconds
        while self._waiting and seconds + self._waiting[0].seconds <= room:
            batch.append(self._waiting.popleft())
            seconds += batch[-1].seconds
        self._left -= seconds
        return batch

    def settle(self, batch: list[Unit], future: Future[Any], alone: bool) -> Finished:
        """Return the answers of a batch, or queue it again if its worker was lost."""
        try:
            answers, machine = future.result()
        except CancelledError as error:
            raise RuntimeError(
                "the connection to the cluster's scheduler was lost; what was finished is kept: go on with "
                "--resume"
            ) from error
        except BrokenExecutor:
            return Finished(self._suspect(batch, deaths=int(alone)), "")
        except _killed_worker():  # Dask has tried it several times by then, and knows whose fault it was
            return Finished(self._suspect(batch, deaths=1), "")
        self._learn(batch, answers)
        return Finished(answers, machine)

    def put_back(self, batch: list[Unit]) -> None:
        """Let units wait again, first in the row."""
        self._waiting.extendleft(reversed(batch))
        self._left += sum(unit.seconds for unit in batch)

    def _learn(self, batch: list[Unit], answers: list[Answer]) -> None:
        """Compare how long units took with what was foreseen; the last few batches count."""
        self._nominal = 0.7 * self._nominal + sum(unit.seconds for unit in batch)
        self._measured = 0.7 * self._measured + sum(answer.seconds for answer in answers)

    def _suspect(self, batch: list[Unit], deaths: int) -> list[Answer]:
        """Queue the units of a lost batch again, or return why one of them is given up."""
        self._lost.update(unit.id for unit in batch)
        if len(batch) == 1:
            self._deaths[batch[0].id] += deaths
        if self._deaths[batch[0].id] >= MOST_DEATHS:
            reason = "its worker was killed each time, perhaps because memory ran out"
            return [Answer(batch[0].id, None, reason)]
        self._suspects.extend(unit for unit in batch if self._lost[unit.id] > 1)
        self.put_back([unit for unit in batch if self._lost[unit.id] == 1])
        return []


def _killed_worker() -> type[BaseException]:
    """Return what Dask raises for work that killed several workers; nothing if Dask is not in use."""
    distributed = sys.modules.get("distributed")
    return distributed.KilledWorker if distributed else BrokenExecutor


@contextmanager
def patient_interrupt() -> Iterator[threading.Event]:
    """Let the first Ctrl-C set an event, and the second one raise KeyboardInterrupt as usual."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def first(*_: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write("finishing the units that run; Ctrl-C again stops now\n")

    before = signal.signal(signal.SIGINT, first)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
