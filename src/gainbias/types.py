"""The few types that all rooms share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of double-precision numbers."""

Ints: TypeAlias = NDArray[Any]
"""An array of integers, of the width that its source has: sparse matrices have 32 or 64 bits."""

Bools: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""
