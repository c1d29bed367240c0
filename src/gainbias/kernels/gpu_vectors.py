"""Vectors on a GPU that stand for those of NumPy, for code that is written once and runs on either.

`GpuVector` supports NumPy's arithmetic: ``np.abs(x) + 2.0 * y`` works on vectors of either kind, operation
by operation. `GpuVector.launch` lets a kernel of the processor, one that goes through the states
`begin` to ``end - 1``, write vectors on the GPU: each thread takes one state at a time, and computes it from
the same source. Sums are added up in an order that depends only on the length, so they have the same bits
every time. Only single numbers come back, and the result of `GpuVector.fetched`.
"""

# numba-cuda has few types, and names that it does not list as its own.
# mypy: disable-error-code="no-untyped-call, attr-defined, no-any-return"

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from gainbias.kernels.gpu import (
    DeviceForms,
    fetched,
    is_simulated,
    lane_number,
    launch,
    memory_errors_in_words,
    sent,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

SIMULATED_THREADS = 4
"""The simulator starts a thread of Python for each thread of a GPU: there are at most as many as this."""

LANES, TERMS = 128, 64
"""Sums are added up for tiles of this many lanes, each of which adds up this many numbers."""

SUMS_FETCHED = 8192
"""At most as many sums as this are fetched, and added up by the processor."""

ADD, SUBTRACT, MULTIPLY, DIVIDE, ABSOLUTE, POSITIVE, NEGATIVE, MAXIMUM, GREATER = range(9)
OPERATIONS = {
    np.add: ADD,
    np.subtract: SUBTRACT,
    np.multiply: MULTIPLY,
    np.divide: DIVIDE,
    np.absolute: ABSOLUTE,
    np.positive: POSITIVE,
    np.negative: NEGATIVE,
    np.maximum: MAXIMUM,
    np.greater: GREATER,
}
"""What is computed entry by entry. A comparison gives 1 where it holds, and 0 elsewhere."""

PRODUCTS, SUM, SIZE, LARGEST, SMALLEST = range(5)
"""What vectors are reduced to: sum of products, sum, largest absolute value, largest and smallest value."""


class _Spare:
    """GPU memory of vectors that are no longer used: releasing and allocating it again takes long."""

    def __init__(self) -> None:
        self._arrays: dict[int, list[Any]] = {}
        self._is_open = True

    def vector(self, size: int) -> GpuVector:
        arrays = self._arrays.setdefault(size, [])
        data = arrays.pop() if arrays else _allocated(size)
        vector = GpuVector(data)
        weakref.finalize(vector, self._keep, data).atexit = False
        return vector

    def close(self) -> None:
        self._is_open = False
        self._arrays.clear()

    def _keep(self, data: Any) -> None:
        if self._is_open:
            self._arrays[len(data)].append(data)


_SPARE: ContextVar[_Spare | None] = ContextVar("spare memory of the GPU", default=None)


@contextmanager
def using_gpu_memory() -> Iterator[None]:
    """Reuse memory of deleted vectors for new ones inside the block, and release it at its end.

    If there is none left, that is said in words.
    """
    spare = _Spare()
    before = _SPARE.set(spare)
    try:
        with memory_errors_in_words():
            yield
    finally:
        _SPARE.reset(before)
        spare.close()


class GpuVector(NDArrayOperatorsMixin):
    """A vector of floats, (n,), on the GPU.

    Attributes
    ----------
    data : array on the GPU, (n,)
    """

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int | Ints) -> Any:
        if isinstance(place, np.ndarray):
            return np.array([float(self.data[int(one)]) for one in place])
        return float(self.data[int(place)])

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, out: Any = None, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.matmul:
            return _reduced(PRODUCTS, given[0], given[1])
        if ufunc is np.ldexp:
            # In two steps: the power itself may be out of range.
            vector, power = given
            return vector * 2.0 ** (power // 2) * 2.0 ** (power - power // 2)
        if ufunc not in OPERATIONS:
            return NotImplemented
        target = self.empty() if out is None else out[0]
        arrays, numbers, kinds = [target.data] * 2, [0.0] * 2, 0
        for k, one in enumerate(given):
            if isinstance(one, GpuVector):
                arrays[k], kinds = one.data, kinds + (1 << k)
            else:
                numbers[k] = float(one)
        inputs = OPERATIONS[ufunc], kinds, arrays[0], numbers[0], arrays[1], numbers[1]
        target.launch(write_entries, inputs, target)
        return target

    def empty(self) -> GpuVector:
        """Return a vector of the same length, uninitialised."""
        return empty_gpu_vector(len(self))

    def filled(self, number: float) -> GpuVector:
        """Return a vector of the same length, of one number."""
        target = self.empty()
        target.launch(write_entries, (ADD, 0, target.data, number, target.data, 0.0), target)
        return target

    def like(self, values: Floats) -> GpuVector:
        """Return a vector of NumPy's on the GPU."""
        return GpuVector(sent(values))

    def copy(self) -> GpuVector:
        """Return a copy."""
        target: GpuVector = np.positive(self)
        return target

    def fetched(self) -> Floats:
        """Return the numbers as a vector of NumPy's."""
        found: Floats = fetched(self.data)
        return found

    def sum(self) -> float:
        """Return the sum of all numbers."""
        return _reduced(SUM, self, self)

    def exact_sum(self) -> float:
        """Return the sum of all numbers, rounded from twice the digits."""
        high, low = self, self.filled(0.0)
        while True:
            lanes, count = _lanes_and_sums(len(high))
            sums, rests = empty_gpu_vector(count), empty_gpu_vector(count)
            sums.launch(write_exact_sums, (lanes, high.data, low.data), sums, rests)
            high, low = sums, rests
            if count <= SUMS_FETCHED:
                return math.fsum(np.concatenate([high.fetched(), low.fetched()]))

    def max(self) -> float:
        """Return the largest number; nan if one is nan."""
        return _reduced(LARGEST, self, self)

    def min(self) -> float:
        """Return the smallest number; nan if one is nan."""
        return _reduced(SMALLEST, self, self)

    def size_of_largest(self) -> float:
        """Return the largest absolute value; nan if one is nan."""
        return _reduced(SIZE, self, self)

    def any(self) -> bool:
        """Return whether a number is not 0."""
        return self.size_of_largest() != 0.0

    def launch(self, kernel: Callable[..., None], inputs: tuple[Any, ...], *outputs: Any) -> None:
        """Run ``kernel(*inputs, begin, end, *outputs)`` for each state, on the GPU."""
        launch_each(kernel, len(self), tuple(map(_data_of, inputs)), tuple(map(_data_of, outputs)))


def launch_each(kernel: Callable[..., None], size: int, inputs: tuple[Any, ...], outputs: Any) -> None:
    """Run ``kernel(*inputs, k, k + 1, *outputs)`` for each k below `size`, on the GPU."""
    threads = min(size, SIMULATED_THREADS) if is_simulated() else size
    launch(_each(kernel), threads, size, inputs, outputs)


def empty_gpu_vector(size: int) -> GpuVector:
    """Return a vector on the GPU, uninitialised."""
    spare = _SPARE.get()
    return GpuVector(_allocated(size)) if spare is None else spare.vector(size)


def empty_gpu_array(size: int, kind: Any) -> Any:
    """Return an array on the GPU, of any numbers of some type."""
    return np.empty(size, kind) if is_simulated() else cuda.device_array(size, kind)


def next_place(places: Any, k: int) -> int:
    """Return ``places[k]`` in a kernel and make it one more, so that no other thread is given the same."""
    return cuda.atomic.add(places, k, 1)


def lane_count() -> int:
    """Return how many threads there are, in a kernel."""
    return int(cuda.gridsize(1))


def wait() -> None:
    """Wait until the GPU has finished all its work."""
    if not is_simulated():
        cuda.synchronize()


@cache
def _each(kernel: Any) -> Any:
    """Return a kernel for the GPU whose threads run that of the processor for one state after another."""

    def each(size: int, inputs: Any, outputs: Any) -> None:
        for k in range(lane_number(), size, lane_count()):
            kernel(*(inputs + (k, k + 1) + outputs))  # noqa: RUF005

    return DeviceForms([]).kernel(each)


def write_entries(
    operation: int, kinds: int, a: Floats, x: float, b: Floats, y: float, begin: int, end: int, out: Floats
) -> None:
    """Write the result of an operation on numbers `x` and `y`, or on vectors in their place, to `out`.

    A vector takes the place of `x` if `kinds` is odd, and of `y` if it is 2 or more.
    """
    for i in range(begin, end):
        left = a[i] if kinds & 1 else x
        right = b[i] if kinds & 2 else y
        if operation == ADD:
            out[i] = left + right
        elif operation == SUBTRACT:
            out[i] = left - right
        elif operation == MULTIPLY:
            out[i] = left * right
        elif operation == DIVIDE:
            out[i] = left / right
        elif operation == ABSOLUTE:
            out[i] = abs(left)
        elif operation == POSITIVE:
            out[i] = left
        elif operation == NEGATIVE:
            out[i] = -left
        elif operation == MAXIMUM:
            out[i] = left if left > right or left != left else right
        else:
            out[i] = 1.0 if left > right else 0.0


def write_sums(kind: int, lanes: int, a: Floats, b: Floats, begin: int, end: int, sums: Floats) -> None:
    """Reduce a part of `a`, for products with that of `b`, to each of `sums`."""
    for k in range(begin, end):
        first = k // lanes * lanes * TERMS + k % lanes
        total = 0.0
        if kind in (LARGEST, SMALLEST):
            total = a[min(first, len(a) - 1)]
        for i in range(first, min(first + lanes * TERMS, len(a)), lanes):
            if kind == PRODUCTS:
                total += a[i] * b[i]
            elif kind == SUM:
                total += a[i]
            else:
                # nan stays nan.
                value = abs(a[i]) if kind == SIZE else a[i]
                is_beyond = not value >= total if kind == SMALLEST else not value <= total
                if is_beyond and total == total:
                    total = value
        sums[k] = total


def write_exact_sums(
    lanes: int, a: Floats, a_low: Floats, begin: int, end: int, sums: Floats, rests: Floats
) -> None:
    """Add up a part of `a` to each of `sums`, and what is rounded off, with `a_low`, to `rests`."""
    for k in range(begin, end):
        first = k // lanes * lanes * TERMS + k % lanes
        total, rest = 0.0, 0.0
        for i in range(first, min(first + lanes * TERMS, len(a)), lanes):
            before, total = total, total + a[i]
            part = total - before
            rest += (before - (total - part)) + (a[i] - part) + a_low[i]
        sums[k], rests[k] = total, rest


def _reduced(kind: int, a: GpuVector, b: GpuVector) -> float:
    after = {PRODUCTS: SUM, SIZE: LARGEST}.get(kind, kind)
    while True:
        lanes, count = _lanes_and_sums(len(a))
        sums = empty_gpu_vector(count)
        sums.launch(write_sums, (kind, lanes, a.data, b.data), sums)
        a = b = sums
        kind = after
        if count <= SUMS_FETCHED:
            found: NDArray[np.float64] = sums.fetched()
            return float(found.sum() if kind == SUM else found.max() if kind == LARGEST else found.min())


def _lanes_and_sums(size: int) -> tuple[int, int]:
    """Return how many lanes a tile has, and how many sums there are in all."""
    lanes = min(size, LANES)
    return lanes, -(-size // (lanes * TERMS)) * lanes


def _allocated(size: int) -> Any:
    return empty_gpu_array(size, np.float64)


def _data_of(part: Any) -> Any:
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(_data_of, part))
    return part.data if isinstance(part, GpuVector) else part
