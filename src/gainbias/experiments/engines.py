"""Where units are computed: in this process, in processes on this machine, or on a Dask cluster.

Each engine takes batches of units and returns futures as Python's own executors do, so everything else is
the same for all. The last two compute in the processes of a `Crew`, here or beside each Dask worker. All
parts of a cluster, even the scheduler, may come, go and come back; only workers with the same version get
work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any, Literal, NamedTuple, Protocol, get_args

from gainbias.experiments.provenance import code_version, has_one_thread, machine
from gainbias.experiments.units import (
    StackedUnit,
    StoppedError,
    Unit,
    UnitAnswer,
    UnitLimits,
    answer_of,
    answers_together,
    first_part,
    in_words,
    last_part,
)
from gainbias.experiments.workers import NO_LIMITS, Crew
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.tasks.task import as_integer

EngineName = Literal["local", "dask"]

CONNECT_SECONDS = 5.0
"""A scheduler that does not answer within this time counts as absent."""

WAIT_SECONDS = 30.0
"""How long to wait for a cluster without workers, or without its scheduler, by default."""

VERSION_QUESTION = "__import__('gainbias.experiments.units', fromlist=['*']).code_fault({!r})"
"""The question to a new worker, as text: Dask ends a worker that cannot load a function that it is sent."""

BATCHES_WITH_GPU = 3
"""One batch on the GPU, one that is begun, and one that is finished."""

UNITS_OF_WAIT = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


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
        """Have a batch computed; with `alone`, each unit in a process that has computed nothing before."""

    @property
    def workers(self) -> int:
        """How many workers there are now, at least 1."""

    @property
    def ahead(self) -> int:
        """How many batches should be submitted at a time."""

    @property
    def together(self) -> int:
        """How many units with the same companions to send at a time; 1 if that does not matter."""

    @property
    def is_busy(self) -> bool:
        """Whether a worker is busy; False only if it is known that none is."""

    def running(self) -> list[UnderWay]:
        """Return what is known to be running now, longest first."""

    def has_lost(self, done: Future[Answers]) -> bool:
        """Whether work failed through no fault of its own, and must be sent again."""


class Here:
    """The engine that computes in this process: for debugging, if one worker is asked for."""

    name = "local"
    workers = ahead = together = 1
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
        """Return nothing: this process cannot ask while it computes."""
        return []

    def has_lost(self, done: Future[Answers]) -> bool:
        """Return False: nothing is sent anywhere."""
        return False


class OnGpu(Here):
    """The engine that computes in this process, with the lanes of many units on the GPU at once."""

    def submit(self, units: Sequence[Any], alone: bool) -> Future[Answers]:
        """Compute the units now, and return a future that is done."""
        from gainbias.kernels.gpu import device_name

        done: Future[Answers] = Future()
        try:
            done.set_result(Answers(answers_together(units, "gpu"), f"{machine()}, {device_name()}"))
        except Exception as error:
            done.set_exception(error)
        return done


class Local:
    """The engine of processes on this machine, each watched by a thread."""

    name = "local"
    together = 1
    is_busy = True  # lost processes report that themselves

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
        """Return what the processes are doing."""
        return _longest_first(self._crew.doing.copy().values())

    def has_lost(self, done: Future[Answers]) -> bool:
        """Return False: a lost process is an answer, see `Crew`."""
        return False

    def close(self, now: bool) -> None:
        """End the processes, at once or when they have finished their work."""
        if now:
            self._crew.kill()
        self._threads.shutdown(cancel_futures=True)
        self._crew.end()


class LocalWithGpu(Local):
    """The engine of processes on this machine that do the first and the last part of units, and of the GPU.

    This process has the GPU. While it takes one batch, the processes begin the next and finish the last.
    """

    together = 1000

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.ahead = BATCHES_WITH_GPU
        self._batches, self._gpu = ThreadPoolExecutor(self.ahead), threading.Lock()

    def submit(self, units: Sequence[Any], alone: bool) -> Future[Answers]:
        """Have companions computed together; what is to be alone needs no GPU."""
        if alone:
            return super().submit(units, alone)
        return self._batches.submit(self._computed, units)

    def _computed(self, units: Sequence[StackedUnit]) -> Answers:
        from gainbias.kernels.gpu import device_name

        answers = self._parts(first_part, [(unit,) for unit in units])
        places = [place for place, answer in enumerate(answers) if answer.is_begun]
        begun = [answers[place].payload for place in places]
        try:
            with self._gpu:
                found = units[0].run_stacked(begun) if begun else []
        except Exception as error:
            for place in places:
                answers[place] = UnitAnswer(units[place].id, None, in_words(error))
        else:
            rest = [(units[place], *given) for place, *given in zip(places, begun, found, strict=True)]
            for place, answer in zip(places, self._parts(last_part, rest), strict=True):
                answers[place] = answer
        return Answers(answers, f"{machine()}, {device_name()}")

    def _parts(self, part: Callable[..., UnitAnswer], work: Iterable[tuple[Any, ...]]) -> list[UnitAnswer]:
        """Have parts of units done in the processes: each is given as the unit and what the part needs."""
        asked = [
            self._threads.submit(self._crew.answer, unit, NO_LIMITS, False, part, given)
            for unit, *given in work
        ]
        return [one.result() for one in asked]

    def close(self, now: bool) -> None:
        """End the processes, at once or when they have finished what they do."""
        super().close(now)
        self._batches.shutdown(cancel_futures=True)


def _computed_by(crew: Crew, units: Sequence[Unit], limits: UnitLimits, alone: bool) -> Answers:
    return Answers([crew.answer(unit, limits, alone) for unit in units], machine())


def _longest_first(begun: Iterable[tuple[str, float]]) -> list[UnderWay]:
    """Return what runs, from labels and clocks."""
    now = time.monotonic()
    return [UnderWay(label, now - since) for label, since in sorted(begun, key=lambda one: one[1])]


_BESIDE = Crew()
"""The processes beside this one, if it is a Dask worker; they end with it, or when they are idle."""


class RefusedError(RuntimeError):
    """A worker of a cluster cannot compute units, whatever they are."""

    def __init__(self, worker: str, fault: str) -> None:
        super().__init__(worker, fault)
        self.worker, self.fault = worker, fault


def _compute_beside(units: Sequence[Unit], limits: UnitLimits, alone: bool) -> Answers:
    """Compute units for a Dask worker, which no unit can end."""
    try:
        return _computed_by(_BESIDE, units, limits, alone)
    except (RuntimeError, OSError) as error:  # not the error of a unit, which is an answer
        from distributed import get_worker

        raise RefusedError(get_worker().address, str(error).removeprefix("a worker ")) from None


class Roster:
    """The workers of a cluster: each is asked for its version when it joins, and left out if that is wrong.

    Attributes
    ----------
    threads : dict of str to int
        Of those that can be used, by address.
    faults : dict of str to str
        What is wrong with those that are left out.
    """

    def __init__(self) -> None:
        self.threads, self.faults = dict[str, int](), dict[str, str]()
        self._asked = dict[str, Future[str]]()

    @property
    def is_asking(self) -> bool:
        """Whether there are workers of which nothing is known yet."""
        return len(self._asked) > len(self.threads) + len(self.faults)

    @property
    def is_mixed(self) -> bool:
        """Whether there are workers that cannot be used, or not yet."""
        return len(self._asked) > len(self.threads)

    def update(self, present: dict[str, int], ask: Callable[[str], Future[str]]) -> None:
        """Note which workers there are now; new ones are asked, and known once they answer."""
        for worker in self._asked.keys() - present.keys():
            self._asked.pop(worker).cancel()
        self.faults = {worker: fault for worker, fault in self.faults.items() if worker in present}
        for worker in present:
            if worker not in self._asked or self._asked[worker].cancelled():
                self._asked[worker] = ask(worker)
        found = {worker: _fault_in(self._asked[worker]) for worker in present.keys() - self.faults.keys()}
        self.leave_out({worker: fault for worker, fault in found.items() if fault})
        self.threads = {worker: present[worker] for worker, fault in found.items() if fault == ""}

    def leave_out(self, faults: dict[str, str]) -> None:
        """Give no work to some workers, and say why; those with the same fault are named together."""
        for fault in sorted(set(faults.values())):
            first, *others = sorted(worker for worker in faults if faults[worker] == fault)
            more = f", and so {'are' if others[1:] else 'is'} {len(others)} more like it" if others else ""
            Watch.say(f"worker {first} is left out{more}: it {fault}")
        self.faults |= faults
        self.threads = {worker: count for worker, count in self.threads.items() if worker not in faults}


def _fault_in(answer: Future[str]) -> str | None:
    """Return what is wrong with a worker; None as long as that is unknown."""
    if not answer.done():
        return None
    try:
        return answer.result()
    except CancelledError:
        return None  # with the scheduler
    except Exception as error:
        return f"cannot load gainbias ({error}): install the same version there"


class Dask:
    """The engine of an existing Dask cluster; it waits if workers or the scheduler disappear.

    Parameters
    ----------
    address : str
        Of the scheduler.
    limits : UnitLimits
        What each unit may take.
    wait : float
        Seconds without workers after which the cluster is given up.
    """

    name = "dask"
    together = 1

    def __init__(self, address: str, limits: UnitLimits = NO_LIMITS, wait: float = WAIT_SECONDS) -> None:
        self._address, self._limits, self._wait = address, limits, wait
        self._client, self._roster = _connected(address), Roster()
        self._asked, self._seen, self._missed, self._busy = 0.0, time.monotonic(), "", True
        self._labels, self._since = dict[str, str](), dict[str, float]()

    def submit(self, units: Sequence[Unit], alone: bool) -> Future[Answers]:
        """Have a batch computed beside a worker of the cluster."""
        key = f"gainbias-{uuid.uuid4()}"
        only = self._roster.threads if self._roster.is_mixed else None
        future = self._sent(only, _compute_beside, units, self._limits, alone, key=key)
        self._labels[key] = units[0].label + (f" and {len(units) - 1} more" if len(units) > 1 else "")
        future.add_done_callback(lambda _: self._labels.pop(key))
        return future

    def _sent(self, workers: Iterable[str] | None, *work: Any, **options: Any) -> Future[Any]:
        """Have a function called by any worker, or by one of some."""
        some = {} if workers is None else {"workers": list(workers), "allow_other_workers": False}
        future: Future[Any] = self._client.get_executor(pure=False, **some).submit(*work, **options)
        return future

    def running(self) -> list[UnderWay]:
        """Return what workers are computing, and since when, as last reported by the scheduler."""
        known = self._labels.copy()
        return _longest_first((known[key], since) for key, since in self._since.items() if key in known)

    @property
    def workers(self) -> int:
        """How many threads the cluster has now; workers may come and go."""
        return max(1, self.ahead // 2)

    @property
    def ahead(self) -> int:
        """Twice the number of workers, so that none waits; 0 while there are none."""
        self._ask()
        return 2 * sum(self._roster.threads.values())

    @property
    def is_busy(self) -> bool:
        """Whether any worker of the cluster has work, ours or that of others."""
        self._ask()
        return self._busy

    def has_lost(self, done: Future[Answers]) -> bool:
        """Whether work was lost with the scheduler, or was with a worker that must be left out."""
        import distributed

        try:
            error = done.exception()
        except CancelledError:
            return True
        if isinstance(error, RefusedError):
            self._roster.leave_out({error.worker: error.fault})
            return True
        if error is None or isinstance(error, distributed.KilledWorker):
            return False
        self._asked = 0.0  # a worker may have joined that cannot even load what it is sent
        self._ask()
        return self._roster.is_mixed

    def close(self) -> None:
        """Leave the cluster, and leave none of our work in it."""
        with suppress(OSError):
            self._client.close(timeout=CONNECT_SECONDS)

    def _ask(self) -> None:
        """Ask the scheduler about its workers, at most once a second."""
        if time.monotonic() - self._asked <= 1.0:
            return
        try:
            threads, busy = self._answer("ncores"), self._answer("processing")
        except OSError:
            self._busy = True  # unknown, and running work must not be sent again
            self._roster.threads = {}
            self._miss(f"the scheduler at {self._address} does not answer", "start it and workers")
        else:
            self._note(threads, busy)
        self._asked = time.monotonic()

    def _note(self, threads: dict[str, int], busy: dict[str, list[str]]) -> None:
        """Note which workers there are and what they do."""
        now = time.monotonic()
        question = VERSION_QUESTION.format(code_version())
        self._roster.update(threads, lambda worker: self._sent([worker], eval, question))
        self._busy = any(keys for worker, keys in busy.items() if worker not in self._roster.faults)
        begun = [key for worker, keys in busy.items() for key in keys[: threads.get(worker, 0)]]
        self._since = {key: self._since.get(key, now) for key in begun}
        if self._roster.threads or self._roster.is_asking:
            self._seen, self._missed = now, ""
        else:
            self._miss("the cluster has no workers that can be used", "start workers")

    def _answer(self, what: str) -> Any:
        """Return the scheduler's answer; raise OSError if there is none."""
        if self._client.status == "closed":
            self._client, self._roster = _connected(self._address), Roster()
        if self._client.status != "running":
            raise ConnectionError("the client connects by itself, for a while")
        return self._client.sync(getattr(self._client.scheduler, what), callback_timeout=CONNECT_SECONDS)

    def _miss(self, what: str, cure: str) -> None:
        """Say once what is missing, and give the cluster up when it has been missing for too long."""
        if time.monotonic() - self._seen > self._wait:
            worst = [f" (worker {worker} {fault})" for worker, fault in self._roster.faults.items()][:1]
            raise RuntimeError(
                f"{what}, after {_in_words(self._wait)} of waiting{''.join(worst)}; what was finished is "
                f"kept: {cure}, then continue with --resume"
            )
        if what != self._missed:
            self._missed = what
            Watch.say(f"{what}: waiting for up to {_in_words(self._wait)}")


def seconds_of(wait: float | str | None) -> float:
    """Return how long to wait for a cluster, in seconds.

    Examples
    --------
    >>> seconds_of("2h"), seconds_of("90 min"), seconds_of(45), seconds_of(None)
    (7200.0, 5400.0, 45.0, 30.0)
    """
    if wait is None:
        return WAIT_SECONDS
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(s|min|h|d|)\s*", str(wait))
    if isinstance(wait, bool) or not found:
        raise ValueError(f"wait must be a time such as 90, '90s', '30min', '2h' or '1d', found {wait!r}")
    return float(found[1]) * UNITS_OF_WAIT[found[2] or "s"]


def _in_words(seconds: float) -> str:
    """Return a time in the largest unit in which it is a whole number."""
    fitting = (name for name in reversed(UNITS_OF_WAIT) if seconds % UNITS_OF_WAIT[name] == 0.0)
    unit = next(fitting, "s") if seconds else "s"
    return f"{seconds / UNITS_OF_WAIT[unit]:g} {unit}"


@contextmanager
def opened(
    name: EngineName,
    workers: int | None = None,
    address: str | None = None,
    limits: UnitLimits = NO_LIMITS,
    wait: float | str | None = None,
    device: str = "cpu",
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
    wait : float, str or None
        How long to wait for workers of a cluster, see `seconds_of`.
    device : {"cpu", "gpu"}
        Where lanes run; with a GPU, this process alone has them all.
    """
    check_choice(name, workers, address, wait)
    check_device(device, name, workers, limits)
    if device == "gpu":
        yield OnGpu()
        return
    if name == "dask":
        with _quiet(), closing(Dask(str(address), limits, seconds_of(wait))) as engine:
            yield engine
        return
    if workers == 1 and has_one_thread() and limits == NO_LIMITS:
        yield Here()
        return
    with _closing(Local(workers or os.cpu_count() or 1, limits)) as local:
        yield local


@contextmanager
def with_gpu(workers: int | None) -> Iterator[Engine]:
    """Open an engine of processes on this machine and its GPU for a ``with`` block."""
    with _closing(LocalWithGpu(workers or os.cpu_count() or 1)) as local:
        yield local


@contextmanager
def helpers(count: int) -> Iterator[Callable[..., Future[Any]]]:
    """Have this many processes for other work; the yielded function calls functions in them."""
    with _closing(Local(count)) as local:
        yield local.call


@contextmanager
def _closing(local: Local) -> Iterator[Local]:
    try:
        yield local
    except StoppedError:
        local.close(now=False)  # nothing is running any more
        raise
    except BaseException:
        local.close(now=True)
        raise
    local.close(now=False)


def check_choice(
    name: str, workers: int | None, address: str | None, wait: float | str | None = None
) -> None:
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
    if name == "local" and wait is not None:
        raise ValueError(f"engine 'local' has nothing to wait for, found wait={wait!r}: leave it out")
    seconds_of(wait)


def check_device(device: str, name: str, workers: int | None, limits: UnitLimits) -> None:
    """Refuse what does not go with a GPU that has all work of one process, and a device that is not there."""
    if device == "gpu" and (name != "local" or workers is not None or limits != NO_LIMITS):
        raise ValueError(
            "with device 'gpu' one process on this machine runs all lanes: leave out engine, workers and "
            "limits of units"
        )
    if device == "gpu" and not has_one_thread():
        raise ValueError(
            "with device 'gpu' this process computes itself, and linear algebra must have one thread, as in "
            "OPENBLAS_NUM_THREADS=1: set it in the environment before Python starts"
        )
    check_gpu(device, name)


def check_gpu(device: str, name: str) -> None:
    """Refuse a device that does not exist or does not answer, or that an engine has no use for."""
    if device not in ("cpu", "gpu"):
        raise ValueError(f"device must be 'cpu' or 'gpu', found {device!r}")
    if device == "cpu":
        return
    if name != "local":
        raise ValueError(f"device 'gpu' is that of this machine: leave engine {name!r} out")
    from gainbias.kernels.gpu import what_is_missing

    if missing := what_is_missing():
        raise ValueError(f"device='gpu' does not work here, because {missing}")


def _connected(address: str) -> Any:
    """Return a client of a scheduler; raise ConnectionError if there is none."""
    from distributed import Client

    try:
        with ThreadPoolExecutor(1) as aside:  # a notebook has its own event loop
            aside.submit(lambda: asyncio.run(_greet(address))).result()
    except Exception as error:  # a port that is not a scheduler's can raise anything
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} within {CONNECT_SECONDS:.0f} s: is it running, and "
            "can it be reached from here?"
        ) from error
    return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]


async def _greet(address: str) -> None:
    """Check that a scheduler answers: a client that finds none would wait, and complain when it ends."""
    import distributed

    dask: Any = distributed
    args = dask.Security().get_connection_args("client")
    async with dask.rpc(address, timeout=CONNECT_SECONDS, connection_args=args) as scheduler:
        await asyncio.wait_for(scheduler.identity(), CONNECT_SECONDS)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of Dask in a ``with`` block: our own message says once what went wrong."""
    require("distributed")
    import distributed  # noqa: F401  sets up logging

    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "core", "comm")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
