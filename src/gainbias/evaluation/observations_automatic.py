"""A feature map for observations in a box, chosen by their number and bounds, or by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.sources.spaces import Limits
from gainbias.features.maps import FeatureMap, FourierBasis, PolynomialBasis, RadialBasis, TileCoding
from gainbias.features.matrix import FloatArray

MOST_AUTOMATIC_FEATURES = 1_500
"""A map chosen by itself has at most so many features, for which least squares takes seconds."""

TILES = {1: (16, 8), 2: (8, 8), 3: (6, 4)}
"""Tiles along each dimension and tilings, for boxes of one to three dimensions: 136, 648, 1372 features."""

HIGHEST_DEGREE = 3
NAMED: dict[str, type[FeatureMap]] = {
    "tiles": TileCoding,
    "fourier": FourierBasis,
    "radial": RadialBasis,
    "polynomial": PolynomialBasis,
}
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
    return chosen, what + _size_in_words(chosen, guessed, len(first))


def named_map(words: str, limits: Limits, first: NDArray[Any]) -> tuple[FeatureMap, str]:
    """Make the feature map that was named, perhaps with its settings, as in "tiles,8,4".

    Parameters
    ----------
    words : str
        One of "tiles", "fourier", "radial" and "polynomial", and perhaps the settings of `TileCoding`,
        `FourierBasis`, `RadialBasis` or `PolynomialBasis` behind it, in their order.
    limits, first
        As for `automatic_map`.

    Examples
    --------
    >>> box = Limits((2,), np.zeros(2), np.ones(2), whole=False)
    >>> named_map("fourier,4", box, np.zeros((1, 2)))[1]
    'fourier,4: 25 features'
    """
    name, *settings = words.split(",")
    if name not in NAMED:
        raise ValueError(
            f"features must be 'auto', {', '.join(map(repr, NAMED))}, a feature map, a matrix or a function, "
            f"found {words!r}"
        )
    low, high, guessed = _bounds(limits, first)
    try:
        numbers = [float(word) if "." in word else int(word) for word in settings]
    except ValueError:
        raise ValueError(f"numbers are expected behind {name}, as in 'tiles,8,4', found {words!r}") from None
    try:
        chosen = NAMED[name](low, high, *numbers)
    except TypeError:
        raise ValueError(f"{NAMED[name].__name__} has fewer settings than {words!r}") from None
    return chosen, words + _size_in_words(chosen, guessed, len(first))


def _size_in_words(chosen: FeatureMap, guessed: int, seen: int) -> str:
    size = f": {chosen.num_features} features"
    bounds = (
        f", bounds of {guessed} of {chosen.num_dimensions} numbers taken from the first {seen} observations"
    )
    return size + bounds if guessed else size


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
