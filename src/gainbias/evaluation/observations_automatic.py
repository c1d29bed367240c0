"""A feature map for observations in a box, chosen by their number and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.spaces import Limits
from gainbias.features.maps import FeatureMap, PolynomialBasis, TileCoding
from gainbias.features.matrix import FloatArray

MOST_AUTOMATIC_FEATURES = 1_500
"""A map chosen by itself has at most so many features, for which least squares takes seconds."""

TILES = {1: (16, 8), 2: (8, 8), 3: (6, 4)}
"""Tiles along each dimension and tilings, for boxes of one to three dimensions: 136, 648, 1372 features."""

HIGHEST_DEGREE = 3
BEYOND = 1e18
"""Bounds of this size mean that there is none: many spaces say 3.4e38, the largest float32."""


def automatic_map(limits: Limits, first: NDArray[Any]) -> tuple[FeatureMap, str]:
    """Choose a feature map: tile coding for up to three numbers, polynomials for more.

    Parameters
    ----------
    limits : Limits
        Of observations.
    first : (m, ...) array
        Some observations. Where there are no bounds, those of the map are twice as wide as these.

    Returns
    -------
    FeatureMap
    str
        The choice in words.

    Examples
    --------
    >>> box = Limits((5,), np.zeros(5), np.ones(5), whole=False)
    >>> chosen, words = automatic_map(box, np.zeros((1, 5)))
    >>> chosen.num_features, words
    (56, 'polynomials of degree 3 of 5 numbers: 56 features')
    """
    low, high, guessed = _bounds(limits, first)
    size = len(low)
    chosen: FeatureMap
    if size in TILES:
        tiles, tilings = TILES[size]
        chosen = TileCoding(low, high, tiles=tiles, tilings=tilings)
        what = f"tile coding, {tiles} tiles along each of {size} dimensions, {tilings} tilings"
    else:
        degree = HIGHEST_DEGREE
        while degree > 1 and _polynomials(size, degree) > MOST_AUTOMATIC_FEATURES:
            degree -= 1
        if _polynomials(size, degree) > MOST_AUTOMATIC_FEATURES:
            raise ValueError(
                f"observations of {size} numbers are too many for features chosen by themselves: pass "
                "features, a function from observations (m, ...) to rows of features (m, d)"
            )
        chosen = PolynomialBasis(low, high, degree=degree)
        what = f"polynomials of degree {degree} of {size} numbers"
    what += f": {chosen.num_features} features"
    if guessed:
        what += f", bounds of {guessed} of {size} numbers taken from the first {len(first)} observations"
    return chosen, what


def _polynomials(size: int, degree: int) -> float:
    """Return the number of polynomials of a degree, cheaply."""
    return float(np.prod([(size + k) / k for k in range(1, degree + 1)]))


def _bounds(limits: Limits, first: NDArray[Any]) -> tuple[FloatArray, FloatArray, int]:
    """Return finite bounds, and for how many numbers they had to be guessed."""
    low, high = limits.low.ravel().copy(), limits.high.ravel().copy()
    seen = first.reshape(len(first), -1).astype(np.float64)
    least, most = seen.min(axis=0), seen.max(axis=0)
    margin = np.where(most > least, 0.5 * (most - least), 1.0)
    no_low, no_high = low < -BEYOND, high > BEYOND
    low[no_low] = (least - margin)[no_low]
    high[no_high] = (most + margin)[no_high]
    flat = ~(low < high)
    high[flat] = low[flat] + 1.0  # a number that is always the same tells nothing, and needs some width
    return low, high, int(np.count_nonzero(no_low | no_high))
