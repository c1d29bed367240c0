"""Work that is divided among threads, with results that do not depend on their number.

`using_threads` says how many threads may work; `share_out` divides work among them. `by_blocks` is for
vectors, whose entries are worked on in blocks of a fixed length; `share_runs` is for kernels, which take any
length; `work_ahead` is for a stream, whose next items are worked on before they are needed. Kernels and NumPy
release the interpreter lock, so that threads really work at the same time. Only one thread at a time can work
under the lock: with many small blocks sixteen threads wait for it.

What a block computes may depend on where it begins and ends, but never on the number of threads: the same
blocks are worked through by one thread or by sixteen.

`empty_vector` reuses the memory of large vectors that are no longer used. The system would clear fresh
memory for every vector, which takes longer than working on it, and threads would wait for each other.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gainbias.types import is_count

Part = TypeVar("Part")
Item = TypeVar("Item")
Vector = NDArray[np.float64]

STATES_TOGETHER = 2**16
"""Number of states in a block. Work on at most this many states is done by one thread."""


GRAIN = 2**13
"""A run of `share_runs` consists of whole grains, of this many states."""

LEAST_GRAINS, RUNS_PER_THREAD = 2, 3
"""A run has at least this many grains; and there are about this many runs for each thread."""

ITEMS_AHEAD = 2
"""At most this many items of a stream for each thread are worked on before they are needed."""

MOST_SPARE_VECTORS = 12
"""The memory of at most this many vectors of a length is kept for others."""


class _Job:
    """Work in parts, which threads take one after the other."""

    def __init__(self, work: Callable[[int], Any], count: int) -> None:
        self._work, self._parts = work, [None] * count
        self._numbers = iter(range(count))  # a thread takes the next number under the interpreter lock
        self._context = copy_context()
        self._ends: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()

    def finish(self) -> list[Any]:
        """Return all parts, after doing what nobody else has taken."""
        done, error = self._take()
        while done < len(self._parts):
            more, other_error = self._ends.get()
            done, error = done + more, error or other_error
        parts = self._parts
        del self._work, self._parts  # a thread may still hold this job, but not what it worked on
        if error is not None:
            raise error
        return parts

    @property
    def is_done(self) -> bool:
        """Whether another thread has ended work that is in one part."""
        return not self._ends.empty()

    def help(self) -> None:
        """Do some parts. A thread that comes too late finds nothing left, and nothing waits for it."""
        done, error = self._context.copy().run(self._take)
        if done:
            self._ends.put((done, error))

    def _take(self) -> tuple[int, BaseException | None]:
        """Do parts until none is left; return how many, and what went wrong."""
        before, done = _CREW.set(None), 0
        try:
            for i in self._numbers:
                done += 1
                self._parts[i] = self._work(i)
        except BaseException as error:
            return done + sum(1 for _ in self._numbers), error  # the others find nothing left to do
        finally:
            _CREW.reset(before)
        return done, None


class _Crew:
    """Threads that help another thread on request."""

    def __init__(self, helpers: int) -> None:
        self.helpers = helpers
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def share(self, work: Callable[[int], Any], count: int) -> list[Any]:
        """Return all parts of some work."""
        while len(self._threads) < min(self.helpers, count - 1):
            self._start()
        job = _Job(work, count)
        for _ in range(min(self.helpers, count - 1)):
            self._jobs.put(job)
        try:
            return job.finish()
        except BaseException:
            self.forget()
            raise

    def begin(self, work: Callable[[int], Any]) -> _Job:
        """Let another thread begin with some work in one part; for a single one no thread starts."""
        if len(self._threads) < self.helpers and not self._jobs.empty():
            self._start()
        job = _Job(work, 1)
        self._jobs.put(job)
        return job

    def finish(self, job: _Job) -> Any:
        """Return what some work gave; while another thread does it, do what was begun later."""
        while not job.is_done:
            try:
                other = self._jobs.get_nowait()
            except Empty:
                break
            if other is not None:
                other.help()  # perhaps this very job
        return job.finish()[0]

    def forget(self) -> None:
        """Drop all work that no thread has begun with."""
        try:
            while True:
                self._jobs.get_nowait()
        except Empty:
            pass

    def dismiss(self) -> None:
        """End all threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.help()
            del job

    def _start(self) -> None:
        self._threads.append(threading.Thread(target=self._serve, daemon=True))
        self._threads[-1].start()


class _Room:
    """Memory of vectors that are no longer used."""

    def __init__(self) -> None:
        self._spare: dict[int, list[Vector]] = {}
        self._is_open = True

    def vector(self, size: int) -> Vector:
        """Return a vector; its memory is kept when the last view of it is gone."""
        spare = self._spare.setdefault(size, [])
        try:
            memory = spare.pop()
        except IndexError:
            memory = np.empty(size)
        vector: Vector = np.frombuffer(memory.data)
        weakref.finalize(vector, self._keep, memory).atexit = False
        return vector

    def close(self) -> None:
        """Release all memory; that of vectors still in use is released when they are deleted."""
        self._is_open = False
        self._spare.clear()

    def _keep(self, memory: Vector) -> None:
        if self._is_open and len(self._spare[len(memory)]) < MOST_SPARE_VECTORS:
            self._spare[len(memory)].append(memory)


_CREW: ContextVar[_Crew | None] = ContextVar("crew", default=None)
_ROOM: ContextVar[_Room | None] = ContextVar("room", default=None)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_threads(threads: int | None) -> int:
    """Return how many threads to use: `threads`, or the number in GAINBIAS_THREADS, or one for each core.

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


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let `share_out` use `count` threads inside the block; they start when there is work for them."""
    crew, room = _Crew(count - 1) if count > 1 else None, _Room()
    before, room_before = _CREW.set(crew), _ROOM.set(room)
    try:
        yield
    finally:
        _CREW.reset(before)
        _ROOM.reset(room_before)
        room.close()
        if crew is not None:
            crew.dismiss()


def share_out(work: Callable[[int], Part], count: int) -> list[Part]:
    """Return ``[work(0), ..., work(count - 1)]``, computed by all threads that may work.

    Nested work, divided inside a part, is done by the thread of that part.

    Examples
    --------
    >>> with using_threads(2):
    ...     share_out(lambda i: i * i, 4)
    [0, 1, 4, 9]
    """
    crew = _CREW.get()
    if crew is None or count < 2:
        return [work(i) for i in range(count)]
    return crew.share(work, count)


def threads_at_work() -> int:
    """Return how many threads `share_out` may use here.

    Examples
    --------
    >>> with using_threads(2):
    ...     threads_at_work()
    2
    """
    crew = _CREW.get()
    return 1 if crew is None else crew.helpers + 1


@contextmanager
def working_beside(work: Callable[[], object]) -> Iterator[None]:
    """Let another thread do some work while the block runs; one thread does it before.

    Examples
    --------
    >>> with using_threads(2), working_beside(lambda: None):
    ...     1 + 1
    2
    """
    crew = _CREW.get()
    if crew is None:
        work()
        yield
        return
    job = crew.begin(lambda _: work())
    try:
        yield
    finally:
        crew.finish(job)


def work_ahead(work: Callable[[Item], Part], items: Iterable[Item]) -> Iterator[Part]:
    """Yield ``work(item)`` for each item, in order; other threads meanwhile work on the items that follow.

    Items are taken from their iterator by this thread alone. An error in it, or in `work`, is raised after
    everything before it was handed out, as with one thread.

    Examples
    --------
    >>> with using_threads(2):
    ...     list(work_ahead(lambda x: x * x, iter([1, 2, 3])))
    [1, 4, 9]
    """
    crew = _CREW.get()
    if crew is None:
        yield from map(work, items)
        return
    begun: deque[_Job] = deque()
    source, failure, is_over = iter(items), None, False
    try:
        while begun or not is_over:
            while not is_over and len(begun) < ITEMS_AHEAD * (crew.helpers + 1):
                try:
                    item = next(source)
                except StopIteration:
                    is_over = True
                except Exception as error:  # what was begun comes first
                    failure, is_over = error, True
                else:
                    begun.append(crew.begin(partial(_work_on, work, item)))
            if begun:
                yield crew.finish(begun.popleft())
        if failure is not None:
            raise failure
    finally:
        if begun:
            crew.forget()


def _work_on(work: Callable[[Item], Part], item: Item, _: int) -> Part:
    return work(item)


def share_blocks(work: Callable[[int, int], Part], size: int, block: int | None = None) -> list[Part]:
    """Return the result of `work` for each block, given where it begins and ends, of `size` states in all.

    Examples
    --------
    >>> share_blocks(lambda begin, end: end - begin, 10, block=4)
    [4, 4, 2]
    """
    block = block or STATES_TOGETHER
    return share_out(lambda k: work(k * block, min((k + 1) * block, size)), -(-size // block))


def share_runs(work: Callable[[int, int], object], size: int) -> None:
    """Let `work` go through `size` states in runs, given where each begins and ends.

    There are only as many runs as keep all threads busy. So what is done to a state, or to the states of a
    grain, must not depend on the run.

    Examples
    --------
    >>> share_runs(lambda begin, end: print(begin, end), 10)
    0 10
    """
    crew = _CREW.get()
    if crew is None:
        work(0, size)
        return
    grains = -(-size // GRAIN)
    runs = max(min(-(-grains // LEAST_GRAINS), RUNS_PER_THREAD * (crew.helpers + 1)), 1)
    ends = [grains * k // runs * GRAIN for k in range(runs)] + [size]
    share_out(lambda k: work(ends[k], ends[k + 1]), runs)


def empty_vector(size: int) -> Vector:
    """Return an uninitialised vector, (size,); a large one may reuse the memory of a deleted one.

    Examples
    --------
    >>> empty_vector(3).shape
    (3,)
    """
    room = _ROOM.get()
    return np.empty(size) if room is None or not is_large(size) else room.vector(size)


def constant(number: float, size: int) -> Vector:
    """Return a vector, (size,), of one number.

    Examples
    --------
    >>> constant(2.0, 3)
    array([2., 2., 2.])
    """
    out = empty_vector(size)
    share_runs(lambda begin, end: out[begin:end].fill(number), size)
    return out


def constant_like(number: float, vector: Vector) -> Vector:
    """Return a vector of one number, of the same length and in the same place as another.

    Examples
    --------
    >>> constant_like(2.0, np.ones(3))
    array([2., 2., 2.])
    """
    place: Any = vector
    return place.filled(number) if is_elsewhere(vector) else constant(number, len(vector))


def is_large(size: int) -> bool:
    """Whether a vector has more than one block."""
    return size > STATES_TOGETHER


def is_worth_sharing(size: int) -> bool:
    """Whether kernels that threads share move data sooner than NumPy does: there are more than two blocks.

    On 100,000 states NumPy and SciPy are as quick, and a dozen kernels need not be compiled.
    """
    return size > 2 * STATES_TOGETHER


def is_elsewhere(vector: Any) -> bool:
    """Whether a vector is not one of NumPy's but one on a GPU, a `GpuVector`."""
    return not isinstance(vector, np.ndarray)


def by_blocks(function: Callable[..., Any], *vectors: Any, out: Any = None) -> Any:
    """Return ``function(*vectors)``, a vector whose entries depend on the entries at the same place only.

    Parameters
    ----------
    function : callable
        Takes vectors of one length, and returns one.
    *vectors : (n,) arrays
        Its arguments, passed block by block.
    out : (n,) array, optional
        Where the result is written to; it may be one of `vectors`. For several results: (k, n). Not for
        vectors on a GPU.

    Examples
    --------
    >>> by_blocks(lambda x, y: x + 2.0 * y, np.ones(2), np.arange(2.0))
    array([1., 3.])
    """
    size = len(vectors[0])
    if out is None:
        if not is_large(size) or is_elsewhere(vectors[0]):
            return function(*vectors)
        out = empty_vector(size)

    def work(begin: int, end: int) -> None:
        out[..., begin:end] = function(*(vector[begin:end] for vector in vectors))

    share_blocks(work, size)
    return out
