"""Where units are computed: in this process, in processes on this machine, or on a Dask cluster.

Each engine is an executor as Python's own are, so everything else is the same for all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, Protocol, cast, get_args

from gainbias.experiments.provenance import THREADS, code_version, has_one_thread
from gainbias.experiments.units import StoppedError, WrongEnvironmentError, be_a_worker, environment_fault
from gainbias.extras import require
from gainbias.tasks.task import as_integer

EngineName = Literal["local", "dask"]

CONNECT_SECONDS = 5.0
"""A cluster that does not answer within this time is not there."""

NO_WORKERS_SECONDS = 30.0
"""A cluster that has had no workers for this time is given up."""


class Engine(Protocol):
    """A place where units are computed, behind an executor like those of Python."""

    name: str

    @property
    def executor(self) -> Executor:
        """The executor to submit work to now; after workers were lost, a new one."""

    @property
    def workers(self) -> int:
        """How many workers there are now, at least 1."""

    @property
    def ahead(self) -> int:
        """How many batches to have submitted at a time."""

    @property
    def is_busy(self) -> bool:
        """Whether a worker is busy; False only if it is known that none is."""


class Here(Executor):
    """The engine that computes in this process: for one worker, and for debugging."""

    name = "local"
    workers = ahead = 1
    is_busy = True

    @property
    def executor(self) -> Executor:
        """The engine itself."""
        return self

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function now, and return a future that is done."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class Local:
    """The engine of processes on this machine, each with one thread for linear algebra and for kernels."""

    name = "local"
    is_busy = True  # those that are lost say so

    def __init__(self, workers: int) -> None:
        self.workers, self.ahead = workers, 2 * workers
        self._pool: Any = None

    @property
    def executor(self) -> Executor:
        """The processes; new ones if some were lost."""
        from joblib.externals.loky import get_reusable_executor

        one = dict.fromkeys((*THREADS, "MKL_NUM_THREADS", "GAINBIAS_THREADS"), "1")
        self._pool = get_reusable_executor(
            self.workers, timeout=3600, env=one, initializer=be_a_worker, initargs=(os.getpid(),)
        )
        return cast(Executor, self._pool)

    def close(self, now: bool) -> None:
        """End the processes, at once or when they have finished what they do."""
        if self._pool is not None:
            self._pool.shutdown(kill_workers=now)


class Dask:
    """The engine that uses an existing Dask cluster."""

    name = "dask"

    def __init__(self, client: Any) -> None:
        self._client = client
        self.executor: Executor = client.get_executor(pure=False)
        self._asked, self._seen, self._count, self._busy = 0.0, time.monotonic(), 1, True

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
            found, busy = sum(self._client.nthreads().values()), self._client.processing()
        except OSError:  # the scheduler is lost, which those who wait for work are told
            return
        self._busy = any(busy.values())
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
        faults = self._client.run(environment_fault, codes, on_error="return")
        for worker, fault in faults.items():
            if not isinstance(fault, str):
                fault = f"cannot load gainbias ({fault}): install the same version there"
            if fault:
                raise WrongEnvironmentError(f"worker {worker} {fault}")


@contextmanager
def opened(name: EngineName, workers: int | None = None, address: str | None = None) -> Iterator[Engine]:
    """Open an engine for a ``with`` block, and close it at the end.

    Parameters
    ----------
    name : {"local", "dask"}
    workers : int or None
        Processes on this machine, by default one for each core.
    address : str or None
        Of the scheduler of a cluster.
    """
    check_choice(name, workers, address)
    if name == "dask":
        with _connected(str(address)) as client:
            engine = Dask(client)
            engine.check({code_version()})
            yield engine
        return
    count = workers or os.cpu_count() or 1
    if count == 1 and has_one_thread():
        yield Here()
        return
    require("cluster", "joblib")
    with _closing(Local(count)) as local:
        yield local


@contextmanager
def helpers(count: int) -> Iterator[Executor]:
    """Open an executor with this many processes, for work beside that of this process."""
    with _closing(Local(count)) as local:
        yield local.executor


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
