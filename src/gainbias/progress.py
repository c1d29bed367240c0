"""How long work is watched: a progress bar after a second, a time limit, Ctrl-C obeyed inside kernels.

The bar is drawn on standard error and only when that is a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

QUIET_SECONDS = 1.0


class OutOfTimeError(Exception):
    """The time limit of a watch has passed."""


class Watch:
    """A clock with an optional limit that can run a compiled kernel and show how far it is.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now after which `check` and `run` raise `OutOfTimeError`.

    Examples
    --------
    >>> watch = Watch(time_limit=60.0)
    >>> watch.check()
    >>> watch.remaining > 50.0
    True
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.started = time.monotonic()
        self.time_limit = time_limit

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
            What ``progress[0]`` counts up to.
        label : str
            Words beside the bar.
        """
        failure: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        try:
            thread.join(min(QUIET_SECONDS, max(self.remaining, 0.0)))
            with bar(label, total, shown=thread.is_alive()) as show:
                while thread.is_alive():
                    self.check()
                    show(progress[0])
                    thread.join(min(0.1, max(self.remaining, 0.0)))
        finally:
            progress[1] = 1.0
            thread.join()
        if failure:
            raise failure[0]


@contextmanager
def bar(label: str, total: float, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """Draw a progress bar and yield a function that takes how much is done.

    Examples
    --------
    >>> with bar("counting", total=3, shown=False) as show:
    ...     show(2)
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(label, total=total)
        yield lambda done: display.update(task, completed=done)
