"""Work that is shared among threads, with results that do not depend on how many there are.

`using_threads` says how many threads may work; `share_out` lets them. `by_blocks` is for vectors, whose
entries are worked on in blocks of a fixed length. Kernels and NumPy release the interpreter lock, so that
threads really work at the same time.

What a block computes may depend on where it begins and ends, but never on the number of threads: the same
blocks are worked through by one thread or by sixteen.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import numpy as np

Part = TypeVar("Part")

STATES_TOGETHER = 2**16
"""Number of states in a block. What has no more states than this is worked on by one thread."""


class _Crew:
    """Threads that help the one that asks them to."""

    def __init__(self, helpers: int) -> None:
        self.helpers = helpers
        self.pool = ThreadPoolExecutor(helpers)


_CREW: ContextVar[_Crew | None] = ContextVar("crew", default=None)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_threads(threads: int | None) -> int:
    """Return how many threads to use: `threads`, or else what GAINBIAS_THREADS says, or one for each core.

    Examples
    --------
    >>> count_threads(3)
    3
    """
    if threads is None:
        return int(os.environ.get("GAINBIAS_THREADS", 0)) or usable_cores()
    if not is_count(threads):
        raise ValueError(f"threads must be a positive integer, found {threads!r}")
    return int(threads)


def is_count(number: Any) -> bool:
    """Whether `number` is a positive integer."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 1)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let `share_out` use `count` threads inside the block; they start when there is work for them."""
    crew = _Crew(count - 1) if count > 1 else None
    before = _CREW.set(crew)
    try:
        yield
    finally:
        _CREW.reset(before)
        if crew is not None:
            crew.pool.shutdown()


def share_out(work: Callable[[int], Part], count: int) -> list[Part]:
    """Return ``[work(0), ..., work(count - 1)]``, computed by all threads that may work.

    Work that is shared out by a part of shared work is done by the thread that does the part.

    Examples
    --------
    >>> with using_threads(2):
    ...     share_out(lambda i: i * i, 4)
    [0, 1, 4, 9]
    """
    crew = _CREW.get()
    if crew is None or count < 2:
        return [work(i) for i in range(count)]
    parts: list[Any] = [None] * count
    numbers = iter(range(count))  # a thread takes the next number under the interpreter lock

    def take() -> None:
        before = _CREW.set(None)
        try:
            for i in numbers:
                parts[i] = work(i)
        finally:
            deque(numbers, maxlen=0)  # after a failure the others find nothing left to do
            _CREW.reset(before)

    helpers = [crew.pool.submit(copy_context().run, take) for _ in range(min(crew.helpers, count - 1))]
    try:
        take()
    finally:
        for helper in helpers:
            helper.exception()
    for helper in helpers:
        helper.result()
    return parts


def share_blocks(work: Callable[[int, int], Part], size: int, block: int | None = None) -> list[Part]:
    """Return what `work` makes of each block, given where it begins and ends, of `size` states in all.

    Examples
    --------
    >>> share_blocks(lambda begin, end: end - begin, 10, block=4)
    [4, 4, 2]
    """
    block = block or STATES_TOGETHER
    return share_out(lambda k: work(k * block, min((k + 1) * block, size)), -(-size // block))


def is_large(size: int) -> bool:
    """Whether a vector has more than one block."""
    return size > STATES_TOGETHER


def by_blocks(function: Callable[..., Any], *vectors: Any, out: Any = None) -> Any:
    """Return ``function(*vectors)``, a vector whose entries depend on the entries at the same place only.

    Parameters
    ----------
    function : callable
        Takes vectors of one length, and returns one.
    *vectors : (n,) arrays
        What it is given block by block.
    out : (n,) array, optional
        Where the result is written to; it may be one of `vectors`. For several results: (k, n).

    Examples
    --------
    >>> by_blocks(lambda x, y: x + 2.0 * y, np.ones(2), np.arange(2.0))
    array([1., 3.])
    """
    size = len(vectors[0])
    if out is None:
        if not is_large(size):
            return function(*vectors)
        out = np.empty(size)

    def work(begin: int, end: int) -> None:
        out[..., begin:end] = function(*(vector[begin:end] for vector in vectors))

    share_blocks(work, size)
    return out
