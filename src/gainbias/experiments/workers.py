"""Processes that compute for this one: each is watched from outside, so it is known what ended one.

A `Crew` has as many processes as it gets work at a time. Each computes one unit at a time: if it is killed,
it was computing that unit and no other. A new one is started at once in its place: for the units that follow,
or for the one that must be tried again in a process that has done nothing before. The same processes are
used on this machine and inside the workers of a cluster, which no unit can end.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from gainbias.experiments.provenance import THREADS
from gainbias.experiments.units import Unit, UnitAnswer, UnitLimits, answer_of

FIRST_LOOK_SECONDS, LOOK_SECONDS = 0.1, 0.5
"""Interval at which a working process is checked for its memory and its limits."""

IDLE_SECONDS = 60.0
"""A process that has been idle for this time ends."""

MOST_STARTS = 3
"""At most this many processes in a row may end before they have begun to work."""

PROGRAM = "import sys; sys.path[:] = {}; from gainbias.experiments.workers import serve; serve({})"
"""What a process runs: unlike with multiprocessing, the user's main module is not involved."""

BEGUN, RETURNED, RAISED = "begun", "returned", "raised"
"""Messages of a process: that everything is ready for the work, and its result."""

NO_LIMITS = UnitLimits()


class WorkerLostError(RuntimeError):
    """A process ended during work: `again` says whether the same work may succeed in a new one."""

    def __init__(self, words: str, again: bool) -> None:
        super().__init__(words)
        self.again = again


class Crew:
    """Processes with one thread each for linear algebra and for kernels; thread-safe.

    Attributes
    ----------
    doing : dict of Worker to (str, float)
        What is running, by label, and since when, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.doing: dict[Worker, tuple[str, float]] = {}
        self._idle, self._all = list[Worker](), set[Worker]()
        self._lock, self._closed = threading.Lock(), False

    def answer(
        self,
        unit: Unit,
        limits: UnitLimits,
        alone: bool,
        part: Callable[..., UnitAnswer] = answer_of,
        given: Sequence[Any] = (),
    ) -> UnitAnswer:
        """Compute a unit; if its worker was killed, that is an answer, too.

        Parameters
        ----------
        unit : Unit
        limits : UnitLimits
            What it may take.
        alone : bool
            Whether it needs a process that has computed nothing before.
        part : callable
            What of it is computed: all, or a part that takes the unit and what is `given`.
        """
        began = time.monotonic()
        try:
            found: UnitAnswer = self.call(part, unit, *given, label=unit.label, limits=limits, alone=alone)
        except WorkerLostError as lost:
            return UnitAnswer(unit.id, None, f"its worker {lost}", time.monotonic() - began, lost.again)
        return found

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        label: str = "",
        limits: UnitLimits = NO_LIMITS,
        alone: bool = False,
    ) -> Any:
        """Call a function in a process, and return what it returns or raise what it raises."""
        process = self._started(alone)
        self.doing[process] = label, time.monotonic()
        try:
            return process.call(function, args, limits)
        except WorkerLostError:
            if self._closed:
                raise CancelledError from None
            raise
        finally:
            del self.doing[process]
            self._put_back(process)

    def _started(self, new: bool) -> Worker:
        """Return a process that is ready for work."""
        for _ in range(MOST_STARTS):
            process = self._taken(new)
            try:
                process.greet()
            except WorkerLostError as lost:
                words = str(lost)
                self._put_back(process)
            else:
                return process
        raise RuntimeError(f"no worker process can be started on this machine: the last one {words}")

    def _taken(self, new: bool) -> Worker:
        """Return an idle process, perhaps one that has worked before, or a new one if none fits."""
        with self._lock:
            if self._closed:
                raise CancelledError
            for ended in [each for each in self._idle if not each.is_waiting]:
                self._idle.remove(ended)
                self._remove(ended)
            fitting = [each for each in reversed(self._idle) if each.is_new or not new]
            if not fitting:
                return self._begun()
            process = min(fitting, key=lambda each: each.is_new)
            self._idle.remove(process)
            return process

    def _put_back(self, process: Worker) -> None:
        """Have a process wait for work; a new one, if it has ended."""
        with self._lock:
            if not (process.is_waiting or self._closed):
                self._remove(process)
                process = self._begun()
            self._idle.append(process)

    def _begun(self) -> Worker:
        process = Worker()
        self._all.add(process)
        return process

    def _remove(self, ended: Worker) -> None:
        self._all.remove(ended)
        ended.end()

    def kill(self) -> None:
        """End all processes at once; their work is cancelled."""
        with self._lock:
            self._closed = True
            for process in self._all:
                process.kill()

    def end(self) -> None:
        """End all processes; none may be working."""
        self.kill()
        while self._all:
            self._all.pop().end()


class Worker:
    """A process that calls functions for this one, and ends when this one does."""

    def __init__(self) -> None:
        self._pipe, there = Pipe()
        self.is_new, self._greeted, self._memory = True, False, 0
        one = dict.fromkeys((*THREADS, "MKL_NUM_THREADS", "GAINBIAS_THREADS"), "1")
        paths = [path or os.getcwd() for path in sys.path]
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM.format(paths, there.fileno())],
                env={**os.environ, **one},
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # output printed by a unit is not an answer
                process_group=0,  # Ctrl-C is for this process to handle
            )

    @property
    def is_waiting(self) -> bool:
        """Whether it is alive and has sent nothing."""
        return self._process.poll() is None and not self._pipe.poll()

    def greet(self) -> None:
        """Wait until it is ready to work."""
        if not self._greeted:
            self._received(NO_LIMITS)
            self._greeted = True

    def call(self, function: Callable[..., Any], args: Sequence[Any], limits: UnitLimits) -> Any:
        """Call a function there, and return what it returns or raise what it raises.

        Raises
        ------
        WorkerLostError
            If the process was killed, or ended itself, or took more than the limits allow.
        """
        try:
            self._pipe.send((function, args))
        except OSError:
            raise WorkerLostError(self._how_it_ended(), again=True) from None
        what, result = self._received(NO_LIMITS)
        if what == BEGUN:  # everything is loaded there, so the work is not to blame
            what, result = self._received(limits)
        self.is_new = False
        if what == RAISED:
            raise result
        return result

    def _received(self, limits: UnitLimits) -> Any:
        began, pause = time.monotonic(), FIRST_LOOK_SECONDS
        try:
            while not self._pipe.poll(pause):
                pause = LOOK_SECONDS
                self._memory = resident_bytes(self._process.pid) or self._memory
                self._check(limits, time.monotonic() - began)
            return self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerLostError(self._how_it_ended(), again=True) from None

    def _check(self, limits: UnitLimits, seconds: float) -> None:
        """Kill the process if its work exceeds its limits."""
        if limits.seconds is not None and seconds > limits.seconds:
            self.end()
            raise WorkerLostError(
                f"was ended: it took longer than its limit of {limits.seconds:g} s", again=False
            )
        if limits.memory is not None and self._memory > limits.memory:
            self.end()
            held = f"held {self._memory / 1e9:.2g} GB, more than its limit of {limits.memory / 1e9:.2g} GB"
            raise WorkerLostError(f"was ended: it {held}", again=not self.is_new)

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"ended by itself, with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        perhaps = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        held = f"; it held {self._memory / 1e9:.2g} GB when last looked at" if self._memory else ""
        return f"was killed by {name}{perhaps}{held}"

    def kill(self) -> None:
        """Kill it; whoever waits for it is notified."""
        self._process.kill()

    def end(self) -> None:
        """Kill it, and clean up after it."""
        self.kill()
        self._process.wait()
        self._pipe.close()


def resident_bytes(process: int) -> int:
    """Return the memory that a process holds; 0 if unknown, as on systems other than Linux.

    Examples
    --------
    >>> resident_bytes(2**22 + 1)
    0
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def serve(handle: int) -> None:
    """Call functions on request through a pipe; the process ends when the other end has ended."""
    pipe, asked = Connection(handle), queue.SimpleQueue[bytes]()
    for stopped in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopped, signal.SIG_IGN)  # the other end decides what is finished

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                asked.put(pipe.recv_bytes())
        os._exit(1)

    def tell(message: Any) -> None:
        try:
            pipe.send(message)
        except OSError:  # the other end was killed, and nobody reads a traceback
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    tell("ready")
    while True:
        try:
            what = asked.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return
        try:
            function, args = ForkingPickler.loads(what)
            tell((BEGUN, None))
            answer = RETURNED, function(*args)
        except Exception as error:
            answer = RAISED, error
        tell(answer)
