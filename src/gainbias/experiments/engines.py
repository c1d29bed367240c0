"""Where units are computed: in this process, in processes on this machine, or on a Dask cluster.

Each engine takes batches of units and gives futures as Python's own executors do, so everything else is the
same for all. The last two compute in the processes of a `Crew`, here or beside each Dask worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol, get_args

from gainbias.experiments.provenance import code_version, has_one_thread, machine
from gainbias.experiments.units import (
    StoppedError,
    Unit,
    UnitAnswer,
    UnitLimits,
    WrongEnvironmentError,
    answer_of,
    code_fault,
)
from gainbias.experiments.workers import NO_LIMITS, Crew
from gainbias.extras import require
from gainbias.tasks.task import as_integer

EngineName = Literal["local", "dask"]

CONNECT_SECONDS = 5.0
"""A cluster that does not answer within this time is not there."""

NO_WORKERS_SECONDS = 30.0
"""A cluster that has had no workers for this time is given up."""


class Answers(NamedTuple):
    """Answers of a batch, and the kind of machine they come from."""

    units: list[UnitAnswer]
    machine: str


class UnderWay(NamedTuple):
    """What runs, in a few words, and for how many seconds."""

    label: str
    seconds: float


class Engine(Protocol):
    """A place where units are computed, in batches."""

    name: str

    def submit(self, units: Sequence[Unit], alone: bool) -> Future[Answers]:
        """Have a batch computed; `alone`: each unit in a process that has computed nothing before."""

    @property
    def workers(self) -> int:
        """How many workers there are now, at least 1."""

    @property
    def ahead(self) -> int:
        """How many batches to have submitted at a time."""

    @property
    def is_busy(self) -> bool:
        """Whether a worker is busy; False only if it is known that none is."""

    def running(self) -> list[UnderWay]:
        """Return what is known to run now, what has run longest first."""


class Here:
    """The engine that computes in this process: for one worker, and for debugging."""

    name = "local"
    workers = ahead = 1
    is_busy = True

    def submit(self, units: Sequence[Unit], alone: bool) -> Future[Answers]:
        """Compute the units now, and return a future that is done."""
        done: Future[Answers] = Future()
        try:
            done.set_result(Answers([answer_of(unit) for unit in units], machine()))
        except Exception as error:
            done.set_exception(error)
        return done

    def running(self) -> list[UnderWay]:
        """Return nothing: who asks is who computes."""
        return []


class Local:
    """The engine of processes on this machine, each watched by a thread."""

    name = "local"
    is_busy = True  # those that are lost say so

    def __init__(self, workers: int, limits: UnitLimits = NO_LIMITS) -> None:
        self.workers, self.ahead, self._limits = workers, 2 * workers, limits
        self._crew, self._threads = Crew(), ThreadPoolExecutor(workers)

    def submit(self, units: Sequence[Unit], alone: bool) -> Future[Answers]:
        """Have a batch computed in a process."""
        return self._threads.submit(_computed_by, self._crew, units, self._limits, alone)

    def call(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Have a function called in a process."""
        return self._threads.submit(self._crew.call, function, *args)

    def running(self) -> list[UnderWay]:
        """Return what the processes do."""
        return _longest_first(self._crew.doing.copy().values())

    def close(self, now: bool) -> None:
        """End the processes, at once or when they have finished what they do."""
        if now:
            self._crew.kill()
        self._threads.shutdown(cancel_futures=True)
        self._crew.end()


def _computed_by(crew: Crew, units: Sequence[Unit], limits: UnitLimits, alone: bool) -> Answers:
    return Answers([crew.answer(unit, limits, alone) for unit in units], machine())


def _longest_first(begun: Iterable[tuple[str, float]]) -> list[UnderWay]:
    """Return what runs, from labels and clocks."""
    now = time.monotonic()
    return [UnderWay(label, now - since) for label, since in sorted(begun, key=lambda one: one[1])]


_BESIDE = Crew()
"""The processes beside this one, if it is a Dask worker; they end with it, or when there is nothing to do."""


def _compute_beside(units: Sequence[Unit], limits: UnitLimits, alone: bool) -> Answers:
    """Compute units for a Dask worker, which no unit can take with it."""
    return _computed_by(_BESIDE, units, limits, alone)


class Dask:
    """The engine that uses an existing Dask cluster."""

    name = "dask"

    def __init__(self, client: Any, limits: UnitLimits = NO_LIMITS) -> None:
        self._client, self._limits = client, limits
        self._executor = client.get_executor(pure=False)
        self._asked, self._seen, self._count, self._busy = 0.0, time.monotonic(), 1, True
        self._labels, self._since = dict[str, str](), dict[str, float]()

    def submit(self, units: Sequence[Unit], alone: bool) -> Future[Answers]:
        """Have a batch computed beside a worker of the cluster."""
        key = f"gainbias-{uuid.uuid4()}"
        future: Future[Answers] = self._executor.submit(_compute_beside, units, self._limits, alone, key=key)
        self._labels[key] = units[0].label + (f" and {len(units) - 1} more" if len(units) > 1 else "")
        future.add_done_callback(lambda _: self._labels.pop(key))
        return future

    def running(self) -> list[UnderWay]:
        """Return what has been with a worker, and since when, as far as the scheduler was asked."""
        known = self._labels.copy()
        return _longest_first((known[key], since) for key, since in self._since.items() if key in known)

    @property
    def workers(self) -> int:
        """How many threads the cluster has now; workers may come and go."""
        self._ask()
        return self._count

    @property
    def is_busy(self) -> bool:
        """Whether any worker of the cluster has work, ours or that of others."""
        self._ask()
        return self._busy

    def _ask(self) -> None:
        """Ask the scheduler about its workers, at most once a second."""
        now = time.monotonic()
        if now - self._asked <= 1.0:
            return
        self._asked = now
        try:
            threads, busy = self._client.nthreads(), self._client.processing()
        except OSError:  # the scheduler is lost, which those who wait for work are told
            return
        found, self._busy = sum(threads.values()), any(busy.values())
        begun = [key for worker, keys in busy.items() for key in keys[: threads.get(worker, 0)]]
        self._since = {key: self._since.get(key, now) for key in begun}
        if found:
            self._seen, self._count = now, found
        elif now - self._seen > NO_WORKERS_SECONDS:
            raise RuntimeError(
                f"the cluster has had no workers for {NO_WORKERS_SECONDS:.0f} s; what was finished is "
                "kept: start workers, then go on with --resume"
            )

    @property
    def ahead(self) -> int:
        """Twice the number of workers, so that none waits."""
        return 2 * self.workers

    def check(self, codes: set[str]) -> None:
        """Refuse workers that would compute something else than this process."""
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise RuntimeError("the cluster has no workers: start some, then try again") from error
        faults = self._client.run(code_fault, codes, on_error="return")
        for worker, fault in faults.items():
            if not isinstance(fault, str):
                fault = f"cannot load gainbias ({fault}): install the same version there"
            if fault:
                raise WrongEnvironmentError(f"worker {worker} {fault}")


@contextmanager
def opened(
    name: EngineName,
    workers: int | None = None,
    address: str | None = None,
    limits: UnitLimits = NO_LIMITS,
) -> Iterator[Engine]:
    """Open an engine for a ``with`` block, and close it at the end.

    Parameters
    ----------
    name : {"local", "dask"}
    workers : int or None
        Processes on this machine, by default one for each core.
    address : str or None
        Of the scheduler of a cluster.
    limits : UnitLimits
        What each unit may take.
    """
    check_choice(name, workers, address)
    if name == "dask":
        with _connected(str(address)) as client:
            engine = Dask(client, limits)
            engine.check({code_version()})
            yield engine
        return
    count = workers or os.cpu_count() or 1
    if count == 1 and has_one_thread() and limits == NO_LIMITS:
        yield Here()
        return
    with _closing(Local(count, limits)) as local:
        yield local


@contextmanager
def helpers(count: int) -> Iterator[Callable[..., Future[Any]]]:
    """Have this many processes for work beside that of this one: what is given calls functions in them."""
    with _closing(Local(count)) as local:
        yield local.call


@contextmanager
def _closing(local: Local) -> Iterator[Local]:
    try:
        yield local
    except StoppedError:
        local.close(now=False)  # nothing runs any more
        raise
    except BaseException:
        local.close(now=True)
        raise
    local.close(now=False)


def check_choice(name: str, workers: int | None, address: str | None) -> None:
    """Refuse an engine that does not exist, or that does not take these arguments."""
    if name not in get_args(EngineName):
        raise ValueError(f"engine must be one of {', '.join(get_args(EngineName))}, found {name!r}")
    if name == "dask" and not address:
        raise ValueError(
            "engine 'dask' needs the address of a scheduler, as in --address tcp://192.168.0.1:8786"
        )
    if name == "dask" and workers is not None:
        raise ValueError("a cluster has its own number of workers: leave workers out with engine 'dask'")
    if workers is not None:
        as_integer(workers, "workers", least=1)
    if name == "local" and address:
        raise ValueError(f"engine 'local' has no address, found {address!r}: choose engine 'dask'")


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    require("cluster", "distributed")
    from distributed import Client

    with _quiet():  # after the import, which sets up logging
        try:
            with ThreadPoolExecutor(1) as aside:  # a notebook has an event loop of its own
                aside.submit(lambda: asyncio.run(_ask(address))).result()
        except Exception as error:  # what a port says that is not a scheduler's can raise anything
            raise ConnectionError(
                f"no Dask scheduler answers at {address!r} within {CONNECT_SECONDS:.0f} s: is it running, "
                "and can it be reached from here?"
            ) from error
        client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_SECONDS)


async def _ask(address: str) -> None:
    """Check that a scheduler answers: a client that finds none would wait, and complain when it ends."""
    import distributed

    dask: Any = distributed
    args = dask.Security().get_connection_args("client")
    async with dask.rpc(address, timeout=CONNECT_SECONDS, connection_args=args) as scheduler:
        await asyncio.wait_for(scheduler.identity(), CONNECT_SECONDS)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of Dask in a ``with`` block: our own message says once what went wrong."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "core", "comm")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
