"""Ctrl-C ends the wait for data at any time, but never breaks off a sum in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self


class Interruptions:
    """While it is entered, Ctrl-C is heard at once inside `waiting`, and elsewhere at the next `waiting`.

    A second Ctrl-C is heard at once, wherever it comes.

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
        """Wait for data: this may be broken off."""
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
