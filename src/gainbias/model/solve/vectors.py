"""Products and sums of vectors by several threads, with the same bits whatever their number.

`multiply` is the product of a matrix and a vector, `inner` that of two vectors. `combined`, `shifted`,
`renewed` and `advanced` are the steps of methods that iterate. Up to 65,536 states one thread works with
NumPy; a larger vector is worked on by kernels, which pass over it once.

Linear algebra libraries share long sums among threads too, but then the last bits depend on the number of
cores, and on a busy machine threads that wait for each other take many times as long as one.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from gainbias.kernels import bare_kernel, empty_vector, is_large, share_blocks, share_runs, threads
from gainbias.model.checks import CsrArray
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.types import Floats


def multiply(matrix: CsrArray, x: Floats) -> Floats:
    """Return ``matrix @ x``, (n,)."""
    n = matrix.shape[0]
    if not is_large(n):
        return np.asarray(matrix @ x)
    rows, out = Sparse(matrix.indptr, matrix.indices, matrix.data), empty_vector(n)
    share_runs(lambda begin, end: multiply_rows(rows, x, begin, end, out), n)
    return out


@bare_kernel
def multiply_rows(rows: Sparse, x: Floats, begin: int, end: int, out: Floats) -> None:
    """Write the products of the rows `begin` to ``end - 1`` with `x` to `out`."""
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    # Places without a sign need not be told from those that count from the end: three times as fast.
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
    if not is_large(n):
        return float(np.einsum("i,i->", a, b))
    grain = threads.GRAIN
    sums = np.empty(-(-n // grain))
    share_runs(lambda begin, end: write_sums(a, b, begin, end, grain, sums), n)
    return float(sums.sum())


@bare_kernel
def write_sums(a: Floats, b: Floats, begin: int, end: int, grain: int, sums: Floats) -> None:
    """Write to `sums` the inner product over each grain from state `begin`, where one begins, to `end`."""
    for start in range(begin, end, grain):
        stop = min(start + grain, end)
        # Four sums, because an addition takes as long as four can be on their way.
        one = two = three = four = 0.0
        i = start
        while i + 3 < stop:
            one += a[i] * b[i]
            two += a[i + 1] * b[i + 1]
            three += a[i + 2] * b[i + 2]
            four += a[i + 3] * b[i + 3]
            i += 4
        while i < stop:
            one += a[i] * b[i]
            i += 1
        sums[start // grain] = (one + two) + (three + four)


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
    """Return the largest absolute value of a vector, (n,); one that is no number counts as largest.

    Examples
    --------
    >>> import numpy as np
    >>> largest_of(np.array([1.0, -2.0]))
    2.0
    """
    return float(np.max(share_blocks(lambda begin, end: np.abs(x[begin:end]).max(), len(x))))


def constant(number: float, size: int) -> Floats:
    """Return a vector, (size,), of one number.

    Examples
    --------
    >>> constant(2.0, 3)
    array([2., 2., 2.])
    """
    out = empty_vector(size)
    share_runs(lambda begin, end: out[begin:end].fill(number), size)
    return out


def combined(x: Floats, factor: float, y: Floats, out: Floats | None = None) -> Floats:
    """Return ``x + factor * y``, (n,), or write it to `out`, which may be `x` or `y`.

    Examples
    --------
    >>> import numpy as np
    >>> combined(np.ones(2), 2.0, np.array([0.0, 1.0]))
    array([1., 3.])
    """
    if not is_large(len(x)):
        return np.add(x, factor * y, out=out)
    found = empty_vector(len(x)) if out is None else out
    share_runs(lambda begin, end: write_combined(x, factor, y, begin, end, found), len(x))
    return found


@bare_kernel
def write_combined(x: Floats, factor: float, y: Floats, begin: int, end: int, out: Floats) -> None:
    """Write ``x + factor * y`` to `out`, from `begin` to ``end - 1``."""
    for i in range(begin, end):
        out[i] = x[i] + factor * y[i]


def shifted(x: Floats, number: float, out: Floats | None = None) -> Floats:
    """Return ``x - number``, (n,), or write it to `out`, which may be `x`.

    Examples
    --------
    >>> import numpy as np
    >>> shifted(np.array([1.0, 3.0]), 2.0)
    array([-1.,  1.])
    """
    if not is_large(len(x)):
        return np.subtract(x, number, out=out)
    found = empty_vector(len(x)) if out is None else out
    share_runs(lambda begin, end: write_shifted(x, number, begin, end, found), len(x))
    return found


@bare_kernel
def write_shifted(x: Floats, number: float, begin: int, end: int, out: Floats) -> None:
    """Write ``x - number`` to `out`, from `begin` to ``end - 1``."""
    for i in range(begin, end):
        out[i] = x[i] - number


def renewed(direction: Floats, beta: float, omega: float, moved: Floats, residual: Floats) -> Floats:
    """Write ``residual + beta * (direction - omega * moved)``, (n,), to `direction`, and return it."""
    if not is_large(len(direction)):
        return np.add(residual, beta * (direction - omega * moved), out=direction)
    vectors = direction, beta, omega, moved, residual
    share_runs(lambda begin, end: write_renewed(*vectors, begin, end), len(direction))
    return direction


@bare_kernel
def write_renewed(
    direction: Floats, beta: float, omega: float, moved: Floats, residual: Floats, begin: int, end: int
) -> None:
    """Do the work of `renewed` from `begin` to ``end - 1``."""
    for i in range(begin, end):
        direction[i] = residual[i] + beta * (direction[i] - omega * moved[i])


def advanced(x: Floats, alpha: float, step: Floats, omega: float, other: Floats) -> Floats:
    """Write ``x + (alpha * step + omega * other)``, (n,), to `x`, and return it."""
    if not is_large(len(x)):
        return np.add(x, alpha * step + omega * other, out=x)
    vectors = x, alpha, step, omega, other
    share_runs(lambda begin, end: write_advanced(*vectors, begin, end), len(x))
    return x


@bare_kernel
def write_advanced(
    x: Floats, alpha: float, step: Floats, omega: float, other: Floats, begin: int, end: int
) -> None:
    """Do the work of `advanced` from `begin` to ``end - 1``."""
    for i in range(begin, end):
        x[i] += alpha * step[i] + omega * other[i]
