"""Products and sums of vectors by several threads, with the same bits whatever their number.

`multiply` is the product of a matrix and a vector, `inner` that of two vectors. `combined`, `shifted`,
`renewed` and `advanced` are the steps of iterative methods. `transposed` transposes a matrix, and
`separated` splits states off. Up to 65,536 states one thread works with NumPy, and numbers of twice as many
are moved by it; larger vectors are processed by kernels in one pass. Iterative methods need not know whether
their vectors are NumPy's or on a GPU (see `gainbias.model.solve.on_gpu`): all operations on them are here, or
NumPy's arithmetic.

Linear algebra libraries also divide long sums among threads, but then the last bits depend on the number
of cores, and on a busy machine threads that wait for each other take many times as long as one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import sqrt
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from gainbias.kernels import (
    bare_kernel,
    empty_vector,
    is_elsewhere,
    is_large,
    is_worth_sharing,
    share_blocks,
    share_runs,
    threads,
)
from gainbias.model.checks import CsrArray
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.types import Floats, Ints

Array = TypeVar("Array", bound=NDArray[Any])

MOST_GROUPS_OF_ROWS = 256
"""Entries of a matrix that is transposed are counted for at most this many groups of rows."""


def multiply(matrix: CsrArray, x: Floats) -> Floats:
    """Return ``matrix @ x``, (n,)."""
    n = matrix.shape[0]
    if is_elsewhere(x) or not is_large(n):
        return cast(Floats, matrix @ x)
    out = empty_vector(n)
    each_state(multiply_rows, (rows_of(matrix), x), out)
    return out


def each_state(function: Callable[..., None], inputs: tuple[Any, ...], *outputs: Floats) -> None:
    """Let a kernel, ``function(*inputs, begin, end, *outputs)``, write to vectors, (n,), state by state."""
    vector: Any = outputs[0]
    if is_elsewhere(vector):
        vector.launch(function, inputs, *outputs)
        return
    inputs = tuple(to_read(part) if isinstance(part, np.ndarray) else part for part in inputs)
    share_runs(lambda begin, end: function(*inputs, begin, end, *outputs), len(vector))


def to_read(vector: Array) -> Array:
    """Return a view of an array that cannot be written to.

    Kernels are compiled separately for arrays that are read-only and for others. What a kernel only reads
    goes through here, so that it is compiled once.

    Examples
    --------
    >>> to_read(np.ones(2)).flags.writeable
    False
    """
    view = vector.view()
    view.flags.writeable = False
    return view


def vector_like(x: Floats) -> Floats:
    """Return an uninitialised vector of the same length in the same memory (processor or GPU)."""
    vector: Any = x
    return vector.empty() if is_elsewhere(x) else empty_vector(len(x))


def brought_to(x: Floats, values: Floats) -> Floats:
    """Return values of NumPy's where a vector is: on the GPU if it is there."""
    vector: Any = x
    return vector.like(values) if is_elsewhere(x) else values


def here(x: Floats) -> Floats:
    """Return a vector as one of NumPy's, fetched from the GPU if it is there."""
    vector: Any = x
    return vector.fetched() if is_elsewhere(x) else x


def rows_of(matrix: CsrArray) -> Sparse:
    """Return a matrix by its rows, for kernels that only read it."""
    if is_elsewhere(matrix.data):
        return Sparse(matrix.indptr, matrix.indices, matrix.data)
    return Sparse(to_read(matrix.indptr), to_read(matrix.indices), to_read(matrix.data))


def row_lengths(rows: Sparse, x: Floats) -> Floats | Ints:
    """Return how many entries each row has, (n,), where the vector `x` is."""
    if not is_elsewhere(x):
        return np.diff(rows.indptr)
    lengths = vector_like(x)
    each_state(write_lengths, (rows,), lengths)
    return lengths


def write_lengths(rows: Sparse, begin: int, end: int, lengths: Floats) -> None:
    """Do the work of `row_lengths`."""
    for i in range(begin, end):
        lengths[i] = rows.indptr[i + 1] - rows.indptr[i]


@bare_kernel
def multiply_rows(rows: Sparse, x: Floats, begin: int, end: int, out: Floats) -> None:
    """Write the products of the rows `begin` to ``end - 1`` with `x` to `out`."""
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    # Unsigned indices need no check for negative ones: three times as fast.
    entry, one = np.uint64(indptr[begin]), np.uint64(1)
    for i in range(begin, end):
        total = 0.0
        stop = np.uint64(indptr[i + 1])
        while entry < stop:
            total += data[entry] * x[np.uint64(indices[entry])]
            entry += one
        out[i] = total


def inner(a: Floats, b: Floats) -> float:
    """Return the inner product of two vectors, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    n = len(a)
    if is_elsewhere(a):
        return float(a @ b)
    if not is_large(n):
        return float(np.einsum("i,i->", a, b))
    grain = threads.GRAIN
    sums, a, b = np.empty(-(-n // grain)), to_read(a), to_read(b)
    share_runs(lambda begin, end: write_sums(a[begin:end], b[begin:end], grain, sums[begin // grain :]), n)
    return float(sums.sum())


@bare_kernel
def write_sums(a: Floats, b: Floats, grain: int, sums: Floats) -> None:
    """Write to `sums` the inner product over each grain, which has this many states."""
    # Places without a sign, as in `multiply_rows`; and four sums, because the next addition to the same sum
    # must wait until the last one is done.
    i, one, four, size = np.uint64(0), np.uint64(1), np.uint64(4), np.uint64(len(a))
    for k in range(-(-len(a) // grain)):
        stop = min(i + np.uint64(grain), size)
        first = second = third = fourth = 0.0
        while i + four <= stop:
            first += a[i] * b[i]
            second += a[i + one] * b[i + one]
            third += a[i + one + one] * b[i + one + one]
            fourth += a[i + one + one + one] * b[i + one + one + one]
            i += four
        while i < stop:
            first += a[i] * b[i]
            i += one
        sums[k] = (first + second) + (third + fourth)


def length(x: Floats) -> float:
    """Return the Euclidean length of a vector, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> length(np.array([3.0, 4.0]))
    5.0
    """
    return sqrt(inner(x, x))


def largest_of(x: Floats) -> float:
    """Return the largest absolute value of a vector, (n,), or 0; nan counts as largest.

    Examples
    --------
    >>> import numpy as np
    >>> largest_of(np.array([1.0, -2.0]))
    2.0
    """
    vector: Any = x
    if is_elsewhere(x):
        return float(vector.size_of_largest())
    return float(np.max(share_blocks(lambda begin, end: np.abs(x[begin:end]).max(), len(x)), initial=0.0))


def span_of(x: Floats) -> float:
    """Return by how much the entries of a vector, (n,), differ; nan if one of them is nan.

    Examples
    --------
    >>> import numpy as np
    >>> span_of(np.array([1.0, -2.0]))
    3.0
    """
    if is_elsewhere(x):
        return float(x.max() - x.min())
    ends = share_blocks(lambda begin, end: (x[begin:end].min(), x[begin:end].max()), len(x))
    least, most = np.transpose(ends)
    return float(most.max() - least.min())


def total_of(x: Floats) -> float:
    """Return the sum of a vector, (n,), rounded only once.

    Examples
    --------
    >>> import numpy as np
    >>> total_of(np.array([1.0, 1e100, -1e100]))
    1.0
    """
    vector: Any = x
    return float(vector.exact_sum()) if is_elsewhere(x) else math.fsum(x)


def combined(x: Floats, factor: float, y: Floats, out: Floats | None = None) -> Floats:
    """Return ``x + factor * y``, (n,), or write it to `out`, which may be `x` or `y`.

    Examples
    --------
    >>> import numpy as np
    >>> combined(np.ones(2), 2.0, np.array([0.0, 1.0]))
    array([1., 3.])
    """
    if is_elsewhere(x) or not is_large(len(x)):
        return np.add(x, factor * y, out=out)
    found, x, y = empty_vector(len(x)) if out is None else out, to_read(x), to_read(y)
    share_runs(
        lambda begin, end: write_combined(x[begin:end], factor, y[begin:end], found[begin:end]), len(x)
    )
    return found


@bare_kernel
def write_combined(x: Floats, factor: float, y: Floats, out: Floats) -> None:
    """Write ``x + factor * y`` to `out`."""
    for i in range(len(out)):
        out[i] = x[i] + factor * y[i]


def shifted(x: Floats, number: float, out: Floats | None = None) -> Floats:
    """Return ``x - number``, (n,), or write it to `out`, which may be `x`.

    Examples
    --------
    >>> import numpy as np
    >>> shifted(np.array([1.0, 3.0]), 2.0)
    array([-1.,  1.])
    """
    if is_elsewhere(x) or not is_large(len(x)):
        return np.subtract(x, number, out=out)
    found = empty_vector(len(x)) if out is None else out
    share_runs(lambda begin, end: write_shifted(x[begin:end], number, found[begin:end]), len(x))
    return found


@bare_kernel
def write_shifted(x: Floats, number: float, out: Floats) -> None:
    """Write ``x - number`` to `out`."""
    for i in range(len(out)):
        out[i] = x[i] - number


def gathered(x: Floats, places: Ints) -> Floats:
    """Return ``x[places]``, (m,).

    Examples
    --------
    >>> import numpy as np
    >>> gathered(np.array([1.0, 2.0]), np.array([1, 1, 0]))
    array([2., 2., 1.])
    """
    if not is_worth_sharing(len(places)):
        return np.asarray(x[places])
    out, x, places = empty_vector(len(places)), to_read(x), to_read(places)
    share_runs(lambda begin, end: write_gathered(x, places[begin:end], out[begin:end]), len(places))
    return out


@bare_kernel
def write_gathered(x: Floats, places: Ints, out: Floats) -> None:
    """Write ``x[places]`` to `out`."""
    for i in range(len(out)):
        out[i] = x[places[i]]


def scatter(values: Floats, places: Ints, x: Floats) -> None:
    """Write values, (m,), to different places of `x`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros(3)
    >>> scatter(np.array([1.0, 2.0]), np.array([2, 0]), x)
    >>> x
    array([2., 0., 1.])
    """
    if is_worth_sharing(len(places)):
        values, places = to_read(values), to_read(places)
        share_runs(lambda begin, end: write_scattered(values[begin:end], places[begin:end], x), len(places))
    else:
        x[places] = values


@bare_kernel
def write_scattered(values: Floats, places: Ints, x: Floats) -> None:
    """Do the work of `scatter`."""
    for i in range(len(places)):
        x[places[i]] = values[i]


def renewed(direction: Floats, beta: float, omega: float, moved: Floats, residual: Floats) -> Floats:
    """Write ``residual + beta * (direction - omega * moved)``, (n,), to `direction`, and return it."""
    if is_elsewhere(direction) or not is_large(len(direction)):
        return np.add(residual, beta * (direction - omega * moved), out=direction)

    def work(begin: int, end: int) -> None:
        write_renewed(direction[begin:end], beta, omega, moved[begin:end], residual[begin:end])

    share_runs(work, len(direction))
    return direction


@bare_kernel
def write_renewed(direction: Floats, beta: float, omega: float, moved: Floats, residual: Floats) -> None:
    """Do the work of `renewed`."""
    for i in range(len(direction)):
        direction[i] = residual[i] + beta * (direction[i] - omega * moved[i])


def advanced(x: Floats, alpha: float, step: Floats, omega: float, other: Floats) -> Floats:
    """Write ``x + (alpha * step + omega * other)``, (n,), to `x`, and return it."""
    if is_elsewhere(x) or not is_large(len(x)):
        return np.add(x, alpha * step + omega * other, out=x)

    def work(begin: int, end: int) -> None:
        write_advanced(x[begin:end], alpha, step[begin:end], omega, other[begin:end])

    share_runs(work, len(x))
    return x


@bare_kernel
def write_advanced(x: Floats, alpha: float, step: Floats, omega: float, other: Floats) -> None:
    """Do the work of `advanced`."""
    for i in range(len(x)):
        x[i] += alpha * step[i] + omega * other[i]


def class_totals(class_of: Ints, num_classes: int, values: Floats) -> Floats:
    """Return the sum of `values`, (n,), over the states of each class, (classes,); -1 is no class.

    Examples
    --------
    >>> import numpy as np
    >>> class_totals(np.array([0, -1, 1, 0]), 2, np.array([1.0, 2.0, 3.0, 4.0]))
    array([5., 3.])
    """

    def part(begin: int, end: int) -> Floats:
        own = class_of[begin:end]
        inside = own >= 0
        return np.bincount(own[inside], values[begin:end][inside], num_classes).astype(np.float64)

    # Where there are many classes, few states of each are in a block.
    total, *others = share_blocks(part, len(class_of), None if num_classes == 1 else len(class_of))
    for more in others:
        total += more
    return total


def columns_of(rows: Sparse) -> Sparse:
    """Return the columns of a square matrix that is given by its rows, as the rows of its transpose."""
    n = len(rows.indptr) - 1
    return rows_of(transposed(sparse.csr_array((rows.data, rows.indices, rows.indptr), (n, n))))


def transposed(matrix: CsrArray) -> CsrArray:
    """Return the transpose of a square matrix, with ascending indices in each row.

    A large one is sorted in two passes: entries first go to groups of columns, then to their places. Only
    a few places are written to at a time, and threads share both passes.
    """
    n = matrix.shape[0]
    if is_elsewhere(matrix.data) or not is_worth_sharing(n):
        return matrix.T.tocsr()
    columns_together = threads.STATES_TOGETHER
    rows_together = max(columns_together, -(-n // MOST_GROUPS_OF_ROWS))
    rows = rows_of(matrix)

    def count(begin: int, end: int) -> Ints:
        counts = np.zeros(-(-n // columns_together), np.int64)
        count_targets(rows, begin, end, columns_together, counts)
        return counts

    counts = np.array(share_blocks(count, n, rows_together))
    # Group after group of columns, and in each of them one group of rows after the other.
    ends = np.cumsum(counts.T).reshape(counts.T.shape).T
    start = ends - counts
    source, target = np.empty((2, matrix.nnz), matrix.indices.dtype)
    values = np.empty(matrix.nnz)
    share_blocks(
        lambda begin, end: group_entries(
            rows, begin, end, columns_together, start[begin // rows_together].copy(), source, target, values
        ),
        n,
        rows_together,
    )
    found = Sparse(np.empty_like(matrix.indptr), np.empty_like(source), np.empty(matrix.nnz))
    found.indptr[0] = 0

    def sort(begin: int, end: int) -> None:
        group, place = begin // columns_together, np.zeros(end - begin + 1, np.int64)
        sort_group(source, target, values, begin, end, start[0, group], ends[-1, group], place, found)

    share_blocks(sort, n, columns_together)
    return sparse.csr_array((found.data, found.indices, found.indptr), matrix.shape)


@bare_kernel
def count_targets(rows: Sparse, begin: int, end: int, together: int, counts: Ints) -> None:
    """Count in `counts` how many entries of the rows `begin` to ``end - 1`` are in each group of columns."""
    for entry in range(rows.indptr[begin], rows.indptr[end]):
        counts[rows.indices[entry] // together] += 1


@bare_kernel
def group_entries(
    rows: Sparse, begin: int, end: int, together: int, place: Ints, source: Ints, target: Ints, values: Floats
) -> None:
    """Write row, column and value of each entry of some rows to the next place of its group of columns."""
    for i in range(begin, end):
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            group = rows.indices[entry] // together
            source[place[group]] = i
            target[place[group]] = rows.indices[entry]
            values[place[group]] = rows.data[entry]
            place[group] += 1


@bare_kernel
def sort_group(
    source: Ints,
    target: Ints,
    values: Floats,
    begin: int,
    end: int,
    low: int,
    high: int,
    place: Ints,
    found: Sparse,
) -> None:
    """Write the entries `low` to ``high - 1``, of the columns `begin` to ``end - 1``, to their columns.

    There is one more `place` than columns; all are 0 so far.
    """
    for entry in range(low, high):
        place[target[entry] - begin + 1] += 1
    place[0] = low
    for j in range(end - begin):
        place[j + 1] += place[j]
        found.indptr[begin + j + 1] = place[j + 1]
    for entry in range(low, high):
        j = target[entry] - begin
        found.indices[place[j]] = source[entry]
        found.data[place[j]] = values[entry]
        place[j] += 1


def separated(matrix: CsrArray, kept: Ints, apart: Ints) -> tuple[CsrArray, CsrArray]:
    """Return the rows `kept` of a square matrix in two parts: columns `kept`, and columns `apart`.

    Every state is in one of both, and `kept` is ascending.

    Examples
    --------
    >>> import numpy as np
    >>> inside, outside = separated(sparse.csr_array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]), np.array([0]))
    >>> inside.toarray(), outside.toarray()
    (array([[4.]]), array([[3.]]))
    """
    n, count = matrix.shape[0], len(kept)
    if not is_worth_sharing(n):
        rows = matrix[kept]
        return rows[:, kept].tocsr(), rows[:, apart].tocsr()
    place = np.empty(n, np.int32)
    place[kept] = np.arange(count, dtype=np.int32)
    place[apart] = -1 - np.arange(len(apart), dtype=np.int32)
    whole = rows_of(matrix)
    parts = []
    for sign, columns in ((1, count), (-1, len(apart))):
        indptr = np.zeros(count + 1, matrix.indptr.dtype)
        share_runs(
            lambda begin, end, sign=sign, indptr=indptr: count_columns(  # type: ignore[misc]
                whole, kept, place, sign, begin, end, indptr
            ),
            count,
        )
        np.cumsum(indptr, out=indptr)
        part = Sparse(indptr, np.empty(indptr[-1], matrix.indices.dtype), np.empty(indptr[-1]))
        share_runs(
            lambda begin, end, sign=sign, part=part: write_columns(  # type: ignore[misc]
                whole, kept, place, sign, begin, end, part
            ),
            count,
        )
        parts.append(sparse.csr_array((part.data, part.indices, part.indptr), (count, columns)))
    return parts[0], parts[1]


@bare_kernel
def count_columns(
    rows: Sparse, kept: Ints, place: Ints, sign: int, begin: int, end: int, counts: Ints
) -> None:
    """Write to ``counts[k + 1]`` how many entries of row ``kept[k]`` have a column on the side of `sign`."""
    for k in range(begin, end):
        count = 0
        for entry in range(rows.indptr[kept[k]], rows.indptr[kept[k] + 1]):
            if (place[rows.indices[entry]] >= 0) == (sign > 0):
                count += 1
        counts[k + 1] = count


@bare_kernel
def write_columns(
    rows: Sparse, kept: Ints, place: Ints, sign: int, begin: int, end: int, part: Sparse
) -> None:
    """Write the entries that `count_columns` counts, with the new numbers of their columns."""
    for k in range(begin, end):
        at = part.indptr[k]
        for entry in range(rows.indptr[kept[k]], rows.indptr[kept[k] + 1]):
            to = place[rows.indices[entry]]
            if (to >= 0) == (sign > 0):
                part.indices[at] = to if to >= 0 else -1 - to
                part.data[at] = rows.data[entry]
                at += 1
