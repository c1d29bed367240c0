"""Long work under control: a progress bar, a time limit, and Ctrl-C.

`Watch` shows a bar after a second, on standard error and only if that is a terminal. There, and in notebooks,
it says once that kernels are being compiled. It raises an error when a time limit has passed, and it runs
kernels in a thread so that both the limit and Ctrl-C can stop them.
`Interruptions` is for loops that wait for data and then compute: Ctrl-C ends the wait at any time, but never
interrupts a sum halfway.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

QUIET_SECONDS = 1.0
"""Work that takes less than this shows no bar."""


class OutOfTimeError(Exception):
    """The time limit of a watch has passed."""


class Watch:
    """A clock with an optional limit that shows the progress of long work and can stop a kernel.

    Inside a ``with`` block a bar appears after a second; outside, nothing is ever shown. If blocks are
    nested, the outermost has the bar.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now after which `check`, `show` and `run` raise `OutOfTimeError`.

    Examples
    --------
    >>> with Watch(time_limit=60.0) as watch:
    ...     watch.show("counting", done=1, total=3)
    ...     watch.remaining > 50.0
    True
    """

    _outermost: ClassVar[Watch | None] = None
    _silent: ClassVar[bool] = False

    def __init__(self, time_limit: float | None = None) -> None:
        self.started = time.monotonic()
        self.time_limit = time_limit
        self._share = float("inf")
        self._stopped = False
        words = TextColumn("{task.description}")
        columns = (SpinnerColumn(), words, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._display = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._display.add_task("preparing (kernels are compiled on first use)", total=None)
        self._timer = threading.Timer(QUIET_SECONDS, self._display.start)
        self._timer.daemon = True
        self._notices = ExitStack()

    @staticmethod
    @contextmanager
    def silence() -> Iterator[None]:
        """Show nothing inside the block, because this process works for another one that has the bar."""
        before = Watch._outermost, Watch._silent
        Watch._outermost, Watch._silent = before[0] or Watch(), True
        try:
            yield
        finally:
            Watch._outermost, Watch._silent = before

    @staticmethod
    def say(text: str) -> None:
        """Write a notice to standard error, above the bar if there is one; it need not be a terminal."""
        if not Watch._silent:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        if Watch._outermost is None:
            Watch._outermost = self
            is_terminal = sys.stderr.isatty()
            if is_terminal or hasattr(sys, "ps1"):  # which Python has when somebody types, also in notebooks
                self._notices.enter_context(_telling_of_compiling())
            if is_terminal:
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._notices.close()
        if Watch._outermost is self:
            Watch._outermost = None
        if self._display.live.is_started:
            self._display.stop()

    @property
    def elapsed(self) -> float:
        """Seconds since the watch was made."""
        return time.monotonic() - self.started

    @property
    def remaining(self) -> float:
        """Seconds left, infinite without a limit."""
        return float("inf") if self.time_limit is None else self.time_limit - self.elapsed

    def check(self) -> None:
        """Raise `OutOfTimeError` if the limit has passed."""
        if self.remaining <= 0.0:
            raise OutOfTimeError(f"the time limit of {self.time_limit:g} s has passed")
        if self._stopped or time.monotonic() > self._share:
            raise OutOfTimeError(f"its share of the time limit of {self.time_limit or 0.0:g} s has passed")

    @contextmanager
    def limited_to(self, seconds: float) -> Iterator[None]:
        """Also raise `OutOfTimeError` inside the block after this many seconds."""
        before, self._share = self._share, min(self._share, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._share = before

    def stop(self) -> None:
        """Raise `OutOfTimeError` from now on, wherever the watch is checked."""
        self._stopped = True

    def show(self, label: str, done: float = 0.0, total: float | None = None) -> None:
        """Check the limit, and show a label and the progress; without a total the bar only moves."""
        self.check()
        self._display.update(self._task, description=label, completed=done, total=total)

    def run(self, work: Callable[[], None], progress: NDArray[np.float64], total: float, label: str) -> None:
        """Run `work` in a thread while watching ``progress[0]``; ask it to stop through ``progress[1]``.

        Parameters
        ----------
        work : callable
            Releases the interpreter lock, counts in ``progress[0]`` and returns early when ``progress[1]``
            is not 0.
        progress : (2,) array
            Shared with the work.
        total : float
            The value that ``progress[0]`` counts up to.
        label : str
            Words beside the bar.
        """
        failure: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failure.append(error)

        context = copy_context()  # such as what to do about overflow
        thread = threading.Thread(target=lambda: context.run(guarded), daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                self.show(label, float(progress[0]), total)
                thread.join(min(0.1, max(self.remaining, 0.0)))
        finally:
            progress[1] = 1.0
            thread.join()
        if failure:
            raise failure[0]


@contextmanager
def _telling_of_compiling() -> Iterator[None]:
    """Write to standard error once that kernels are being compiled, unless a log is told that anyway."""
    logger, notice = logging.getLogger("gainbias.kernels"), _Notice()
    if logger.isEnabledFor(logging.INFO):
        yield
        return
    before = logger.level, logger.propagate
    logger.addHandler(notice)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # logs of the caller get only what they asked for
    try:
        yield
    finally:
        logger.removeHandler(notice)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Notice(logging.Handler):
    """Writes each notice of the package to standard error, the first time in this process."""

    _told: ClassVar[set[str]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if words not in self._told:
            self._told.add(words)
            Watch.say(f"gainbias: {words}")


class Interruptions:
    """A context in which Ctrl-C takes effect at once inside `waiting`, and elsewhere at the next `waiting`.

    A second Ctrl-C takes effect at once, wherever it comes.

    Examples
    --------
    >>> with Interruptions() as interruptions:
    ...     signal.raise_signal(signal.SIGINT)  # nothing happens yet
    ...     try:
    ...         with interruptions.waiting():
    ...             print("waiting")
    ...     except KeyboardInterrupt:
    ...         print("interrupted")
    interrupted
    """

    def __init__(self) -> None:
        self._asked = self._waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there can it arrive
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a block that waits for data and that Ctrl-C may break off."""
        self._waiting = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False

    def _hear(self, *_: object) -> None:
        if self._waiting or self._asked:
            raise KeyboardInterrupt
        self._asked = True
