"""Validation at the entry: every array that a user passes is checked here once.

Each message says what must hold, what was found and where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from gainbias.types import Floats

CsrArray: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"

Frozen = TypeVar("Frozen", bound="NDArray[Any] | CsrArray")

ROW_SUM_TOLERANCE = 1e-8
EPSILON = float(np.finfo(np.float64).eps)


def float_array(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a finite float64 array in native byte order (a view where possible).

    Parameters
    ----------
    values : array_like
        Real numbers of any shape: any integer or float type, byte order and memory layout.
    name : str
        What to call the array in an error message.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: fill or remove its masked entries first")
    try:
        given = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    check_real(given.dtype, name)
    array = given.astype(np.float64, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        place = tuple(int(k) for k in np.argwhere(~finite)[0])
        raise ValueError(f"{name}[{_indices(place)}] is {array[place]}, every entry must be a finite number")
    return array


def float_vector(values: ArrayLike, num_states: int, name: str) -> Floats:
    """Return `values` as a finite float64 vector with one entry per state (a view where possible)."""
    vector = float_array(values, name)
    if vector.shape != (num_states,):
        raise ValueError(
            f"{name} must have one entry for each of the {num_states} states, shape ({num_states},), "
            f"found shape {vector.shape}"
        )
    return vector


def float_csr(matrix: Any, name: str) -> CsrArray:
    """Return a canonical float64 copy of a dense or sparse matrix in compressed sparse row form.

    Canonical means sorted columns, duplicates summed, no stored zeros, and 32-bit indices where they fit.

    Parameters
    ----------
    matrix : array_like or scipy.sparse array or matrix, shape (m, n)
        Real numbers in any type, byte order and sparse format.
    name : str
        What to call the matrix in an error message.
    """
    if not sparse.issparse(matrix):
        matrix = float_array(matrix, name)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix, found {_shape(matrix.shape)}")
    check_real(matrix.dtype, name)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # a column index out of range would crash compiled code
    csr = sparse.csr_array(matrix.astype(np.float64, copy=False), copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    index_type = np.int32 if max(csr.nnz, *csr.shape) <= np.iinfo(np.int32).max else np.int64
    csr.indices = csr.indices.astype(index_type, copy=False)
    csr.indptr = csr.indptr.astype(index_type, copy=False)
    wrong = np.flatnonzero(~np.isfinite(csr.data))
    if wrong.size:
        place = _indices(entry_place(csr, wrong[0]))
        raise ValueError(f"{name}[{place}] is {csr.data[wrong[0]]}, every entry must be a finite number")
    return csr


def probability_csr(
    csr: CsrArray,
    row_name: Callable[[int], str],
    *,
    renormalise: bool = False,
    epsilon: float = EPSILON,
    needed: NDArray[np.bool_] | None = None,
) -> CsrArray:
    """Return `csr` with rows that are probability distributions.

    A negative entry that is only rounding becomes 0 (see `clip_rounding`). A row whose sum differs from 1
    only by rounding keeps its bits; a row within `row_sum_tolerance`, or any row if `renormalise`, is
    divided by its sum; any other row is an error.

    Parameters
    ----------
    csr : scipy.CsrArray, shape (m, n)
        Canonical finite matrix (see `float_csr`), changed in place.
    row_name : callable
        From a row number to its name in an error message, e.g. ``"row 3 of transitions"``.
    renormalise : bool
        Accept any row with a positive sum.
    epsilon : float
        Rounding unit of the type in which the entries were given.
    needed : bool ndarray, shape (m,), optional
        Rows that must be distributions; the others must only be non-negative. Default: all.
    """
    negative = clip_rounding(csr, epsilon)
    if negative.size:
        row, column = entry_place(csr, negative[0])
        raise ValueError(
            f"{row_name(row)} has the negative entry {float(csr.data[negative[0]])!r} in column {column}, "
            "which is more than rounding, and probabilities must be at least 0: correct it"
        )
    sums = row_sums(csr)
    deviation = np.abs(sums - 1.0)
    if needed is not None:
        deviation[~needed] = 0.0
    hopeless = np.flatnonzero((deviation > 0) & ((sums == 0) | np.isinf(sums)))
    if hopeless.size:
        row = int(hopeless[0])
        raise ValueError(
            f"{row_name(row)} sums to {sums[row]:g}, must be 1 and cannot be normalised: "
            "give the state a successor (an absorbing state is its own)"
        )
    tolerance = row_sum_tolerance(epsilon)
    far = np.flatnonzero(deviation > tolerance)
    if far.size and not renormalise:
        others = f" (as must {far.size - 1} more)" if far.size > 1 else ""
        raise ValueError(
            f"{row_name(int(far[0]))} sums to {sums[far[0]]:.10g}, must be 1 within {tolerance:.2g}{others}: "
            f"normalise it or pass renormalise=True{_transposition_hint(csr, tolerance)}"
        )
    lengths = np.diff(csr.indptr)
    divisors = np.where(deviation > 4 * EPSILON * (lengths + 1), sums, 1.0)
    if (divisors != 1.0).any():
        csr.data /= np.repeat(divisors, lengths)
        csr.eliminate_zeros()  # a tiny entry may have become 0
    return csr


def clip_rounding(csr: CsrArray, epsilon: float = EPSILON) -> NDArray[np.intp]:
    """Set negative entries that are only rounding to 0, in place, and return the positions of all others.

    Subtracting the other probabilities of a row from 1 may leave -5.6e-17. Adding
    m - 1 of them one by one, after they were divided by a sum that was added up in the same way, is off by
    less than m units of rounding. Errors of this size really occur: the largest that was found is 0.71 m,
    over rows of 2 to 5000 entries, random, equal, and equal beside a large one, summed in six ways. So m + 1
    units are accepted, relative to the sum of the positive entries: 8.9e-16 for two probabilities and what
    they leave. A rate beside much faster ones is judged by these, whose rounding exceeds the slow rate.

    Parameters
    ----------
    csr : scipy.CsrArray, shape (m, n)
        Canonical finite matrix (see `float_csr`).
    epsilon : float
        Rounding unit of the type in which the entries were given.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sparse
    >>> matrix = sparse.csr_array(np.array([[-5.6e-17, 0.3, 0.7], [-0.1, 0.5, 0.6]]))
    >>> clip_rounding(matrix).tolist(), matrix.data.tolist()
    ([2], [0.3, 0.7, -0.1, 0.5, 0.6])
    """
    if not (csr.data < 0).any():
        return np.empty(0, dtype=np.intp)
    rows = entry_rows(csr)
    positive = np.bincount(rows, np.maximum(csr.data, 0.0), minlength=csr.shape[0])
    limit = epsilon * (np.diff(csr.indptr) + 1) * positive
    csr.data[(csr.data < 0) & (csr.data >= -limit[rows])] = 0.0
    csr.eliminate_zeros()
    return np.flatnonzero(csr.data < 0)


def step_array(values: Any, num_states: int, name: str) -> Floats | CsrArray:
    """Return a read-only copy of numbers of steps: x(s), a vector, or x(s, s'), a dense or sparse matrix."""
    given: Any = values if sparse.issparse(values) else float_array(values, name)
    if given.shape not in ((num_states,), (num_states, num_states)):
        raise ValueError(
            f"{name} must have shape ({num_states},), one for each state, or ({num_states}, {num_states}), "
            f"one for each transition, found shape {given.shape}"
        )
    if isinstance(given, np.ndarray):
        return frozen(given.copy())
    if given.ndim == 1:
        return frozen(float_array(given.toarray(), name))
    return frozen(float_csr(given, name))


def check_steps(values: Floats | CsrArray, csr: CsrArray, name: str, *, positive: bool) -> None:
    """Raise unless numbers of steps are positive, or not negative, wherever there is a transition.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sparse
    >>> check_steps(np.array([1.0, 0.0]), sparse.csr_array(np.eye(2)), "durations", positive=True)
    Traceback (most recent call last):
    ...
    ValueError: durations[1] is 0.0, must be positive
    """
    entries = np.asarray(values) if values.ndim == 1 else values_at(values, csr)
    wrong = np.flatnonzero(entries <= 0.0 if positive else entries < 0.0)
    if wrong.size:
        place = (int(wrong[0]),) if values.ndim == 1 else entry_place(csr, wrong[0])
        where = "" if values.ndim == 1 else " for a transition that can happen"
        wanted = "positive" if positive else "at least 0"
        raise ValueError(f"{name}[{_indices(place)}] is {entries[wrong[0]]}, must be {wanted}{where}")


def state_labels(labels: Iterable[Any] | None, num_states: int) -> tuple[Any, ...] | None:
    """Return `labels` as a tuple with one label per state, or None."""
    if labels is None:
        return None
    if isinstance(labels, str):
        raise ValueError(f"labels must be a sequence with one label per state, found the string {labels!r}")
    if not isinstance(labels, Iterable):
        raise ValueError(f"labels must be a sequence with one label per state, found {labels!r}")
    found = tuple(labels)
    if len(found) != num_states:
        raise ValueError(
            f"labels must have one label for each of the {num_states} states, found {len(found)}"
        )
    return found


def check_square(shape: tuple[int, ...], name: str) -> None:
    """Raise unless `shape` is that of a square matrix with at least one row."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"{name} must be a square matrix (n, n), found {_shape(shape)}")
    if shape[0] == 0:
        raise ValueError(f"{name} is empty, a process needs at least one state")


def check_real(dtype: np.dtype[Any], name: str) -> None:
    """Raise unless numbers of type `dtype` are real."""
    if dtype.kind == "c":
        raise ValueError(f"{name} is complex ({dtype}), must be real: pass its real part if that is meant")
    if dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {dtype}, must be numbers: convert it with .astype(float)")


def row_sum_tolerance(epsilon: float) -> float:
    """Return how far a row sum may be from 1: 1e-8, or the rounding of a type with fewer digits."""
    return max(ROW_SUM_TOLERANCE, 8 * epsilon)


def rounding_unit(values: Any) -> float:
    """Return the rounding unit of the type of `values`, that of float64 unless the type has fewer digits."""
    dtype = getattr(values, "dtype", np.dtype(np.float64))
    return max(EPSILON, float(np.finfo(dtype).eps)) if dtype.kind == "f" else EPSILON


def entry_place(csr: CsrArray, entry: int) -> tuple[int, int]:
    """Return the row and column of a stored entry."""
    return int(np.searchsorted(csr.indptr, entry, side="right")) - 1, int(csr.indices[entry])


def values_at(matrix: Floats | CsrArray, pattern: CsrArray) -> Floats:
    """Return the entries of `matrix` at the stored positions of `pattern`, in their order.

    Parameters
    ----------
    matrix : ndarray or canonical scipy.CsrArray, shape (m, n)
        The matrix to read; an entry that is not stored is 0.
    pattern : canonical scipy.CsrArray, shape (m, n)
        The positions to read.

    Returns
    -------
    ndarray, shape (pattern.nnz,)
    """
    if not sparse.issparse(matrix):
        return matrix[entry_rows(pattern), pattern.indices]
    wanted, stored = _positions(pattern), _positions(matrix)
    if stored.size == 0:
        return np.zeros(wanted.size)
    nearest = np.minimum(np.searchsorted(stored, wanted), stored.size - 1)
    return np.where(stored[nearest] == wanted, matrix.data[nearest], 0.0)


def row_sums(csr: CsrArray) -> Floats:
    """Return the sum of each row, adding from left to right so that stored zeros do not matter."""
    return np.asarray(csr @ np.ones(csr.shape[1]))


def frozen(matrix: Frozen) -> Frozen:
    """Return `matrix`, an array or a csr_array, after making its memory read-only."""
    parts = (matrix,) if isinstance(matrix, np.ndarray) else (matrix.data, matrix.indices, matrix.indptr)
    for part in parts:
        part.flags.writeable = False
    return matrix


def entry_rows(csr: CsrArray) -> NDArray[np.intp]:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))


def _positions(csr: CsrArray) -> NDArray[np.int64]:
    """Row-major position of each stored entry, ascending because the matrix is canonical."""
    return entry_rows(csr).astype(np.int64) * csr.shape[1] + csr.indices


def _transposition_hint(csr: CsrArray, tolerance: float) -> str:
    columns = np.bincount(csr.indices, weights=csr.data, minlength=csr.shape[1])
    if csr.shape[0] == csr.shape[1] and np.all(np.abs(columns - 1.0) <= tolerance):
        return "; its columns sum to 1, so perhaps the transpose was meant"
    return ""


def _indices(place: tuple[int, ...]) -> str:
    return ", ".join(str(k) for k in place)


def _shape(shape: tuple[int, ...]) -> str:
    return f"shape {tuple(shape)}"
