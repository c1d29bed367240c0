"""Types that all rooms share: names for arrays, and which values count as numbers.

Truth values are no numbers here, although Python counts them among the integers: ``steps=True`` is a mistake.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of double-precision numbers."""

Ints: TypeAlias = NDArray[Any]
"""An array of integers, 32 or 64 bits wide, as in the sparse matrix or array that they come from."""

Bools: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or NumPy, and not a truth value.

    Examples
    --------
    >>> is_integer(3), is_integer(np.int64(3)), is_integer(3.0), is_integer(True)
    (True, True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a positive integer.

    Examples
    --------
    >>> is_count(1), is_count(0), is_count(2.0)
    (True, False, False)
    """
    return is_integer(value) and bool(value >= 1)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is an integer or a float, of Python or NumPy, and not a truth value; NaN is a float.

    Examples
    --------
    >>> is_real(0.5), is_real(np.float32(0.5)), is_real(1), is_real(True), is_real("1")
    (True, True, True, False, False)
    """
    return isinstance(value, float | np.floating) or is_integer(value)
