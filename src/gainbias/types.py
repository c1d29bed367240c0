"""Names for the types of arrays that all rooms share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of double-precision numbers."""

Ints: TypeAlias = NDArray[Any]
"""An array of integers, 32 or 64 bits wide, as in the sparse matrix or array that they come from."""

Bools: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""
