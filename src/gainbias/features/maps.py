"""Feature maps: from observations in a box to feature rows of length at most 1.

Every map takes observations of k numbers, (m, k), and returns m rows of d features, one row for each
observation. `FeatureMap` is what all maps share: the box, the checks and the call; each class after it is one
map. Observations outside the box count as those at its edge. Rows have Euclidean length at most 1, as the
theory of the methods assumes. Constant values are in the span of the features of every map: they belong to
equal weights for all features, or to a weight for the first feature alone.

Sources: tile coding with displaced tilings and the Fourier basis are those of Sutton and Barto, Reinforcement
Learning: An Introduction, 2nd edition, sections 9.5.2 and 9.5.4; the latter is by Konidaris, Osentoski and
Thomas, AAAI 2011.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import legvander
from scipy import sparse

from gainbias.features.matrix import Matrix
from gainbias.types import Floats, is_count

MOST_MAP_FEATURES = 2**24
"""A map with more features is refused: its weights alone would take 128 MB."""


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """A map from observations in a box to feature rows: what all maps share.

    Attributes
    ----------
    low, high : (k,) arrays
        Corners of the box of observations, finite.
    """

    low: npt.ArrayLike
    high: npt.ArrayLike

    def __post_init__(self) -> None:
        low, high = (np.atleast_1d(np.array(end, dtype=np.float64)) for end in (self.low, self.high))
        if low.ndim != 1 or low.shape != high.shape:
            raise ValueError(
                f"low and high must be vectors of one length, found {low.shape} and {high.shape}"
            )
        wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
        if len(wrong):
            k = wrong[0]
            raise ValueError(
                f"the box must be finite with low < high, found {low[k]} and {high[k]} at place {k}: "
                "give bounds that observations rarely leave"
            )
        for name, end in (("low", low), ("high", high)):
            end.flags.writeable = False
            object.__setattr__(self, name, end)
        self._check()
        if self.num_features > MOST_MAP_FEATURES:
            raise ValueError(
                f"{self!r} has {self.num_features:,} features, at most {MOST_MAP_FEATURES:,} are allowed: "
                "they multiply with the dimensions, so use fewer for each"
            )

    @property
    def num_dimensions(self) -> int:
        """Number of coordinates k of an observation."""
        return len(np.asarray(self.low))

    @property
    @abstractmethod
    def num_features(self) -> int:
        """Number of features d."""

    @abstractmethod
    def _check(self) -> None:
        """Refuse settings that are wrong for this map."""

    @abstractmethod
    def _rows(self, places: Floats) -> Matrix:
        """Return the rows of places in the unit cube, (m, k)."""

    def __call__(self, observations: npt.ArrayLike) -> Matrix:
        """Return the feature rows of observations.

        Parameters
        ----------
        observations : (m, k) array_like, or (m,) if k is 1

        Returns
        -------
        (m, d) ndarray or csr_array
        """
        given = np.asarray(observations, dtype=np.float64)
        given = given[:, None] if given.ndim == 1 and self.num_dimensions == 1 else given
        if given.ndim != 2 or given.shape[1] != self.num_dimensions:
            raise ValueError(
                f"observations must have shape (m, {self.num_dimensions}), found {given.shape}: "
                "one row for each observation"
            )
        if np.isnan(given).any():
            row = int(np.flatnonzero(np.isnan(given).any(axis=1))[0])
            raise ValueError(f"observation {row} is not a number: {given[row]}")
        low, high = np.asarray(self.low), np.asarray(self.high)
        return self._rows((np.clip(given, low, high) - low) / (high - low))


@dataclass(frozen=True, eq=False)
class TileCoding(FeatureMap):
    """Several grids of tiles, each displaced against the others; one tile of each grid is active.

    Parameters
    ----------
    low, high : (k,) array_like
        Corners of the box.
    tiles : int
        Width of the box in tiles, along each dimension; every grid has one more, because it is displaced.
    tilings : int
        Number of grids. Displacements along the dimensions are in the ratio 1 : 3 : 5 and so on, which keeps
        tiles of different grids from lining up along a diagonal.

    Notes
    -----
    There are ``tilings * (tiles + 1)**k`` features, and sparse rows with `tilings` entries ``tilings**-0.5``.
    With several tilings columns are linearly dependent, because the tiles of each add up to the same.

    Examples
    --------
    >>> import gainbias as gb
    >>> tiles = gb.TileCoding([0.0, 0.0], [1.0, 1.0], tiles=4, tilings=4)
    >>> rows = tiles([[0.1, 0.9], [0.1, 0.9], [0.8, 0.2]])
    >>> rows.shape, rows.nnz, float((rows @ rows.T)[0, 1]), float((rows @ rows.T)[0, 2])
    ((3, 100), 12, 1.0, 0.0)
    """

    tiles: int = 8
    tilings: int = 8

    def _check(self) -> None:
        _at_least_one(tiles=self.tiles, tilings=self.tilings)

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return int(self.tilings * (self.tiles + 1) ** self.num_dimensions)

    def _rows(self, places: Floats) -> Matrix:
        count, k = places.shape
        odd = 2 * np.arange(k) + 1
        shifts = np.arange(self.tilings)[:, None] * odd % self.tilings / self.tilings
        inner = np.minimum(places * self.tiles, np.nextafter(self.tiles, 0))  # the upper edge is in the last
        tile = np.floor(inner[:, None, :] + shifts).astype(np.int64)
        number = tile @ (self.tiles + 1) ** np.arange(k)
        columns = number + np.arange(self.tilings) * (self.tiles + 1) ** k
        entries = np.full(columns.size, self.tilings**-0.5)
        start = np.arange(count + 1) * self.tilings
        return sparse.csr_array((entries, columns.ravel(), start), (count, self.num_features))


@dataclass(frozen=True, eq=False)
class FourierBasis(FeatureMap):
    """Cosines ``cos(pi c . x)`` with x in the unit cube and all c in {0, ..., order}^k, over ``sqrt(d)``.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.FourierBasis(-1.0, 1.0, order=3)([-1.0, 0.0, 1.0]).round(3)
    array([[ 0.5,  0.5,  0.5,  0.5],
           [ 0.5,  0. , -0.5, -0. ],
           [ 0.5, -0.5,  0.5, -0.5]])
    """

    order: int = 3

    def _check(self) -> None:
        _at_least_one(order=self.order)

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return int((self.order + 1) ** self.num_dimensions)

    @cached_property
    def _frequencies(self) -> Floats:
        return _grid(self.order + 1, self.num_dimensions).astype(np.float64)

    def _rows(self, places: Floats) -> Matrix:
        return np.asarray(np.cos(np.pi * places @ self._frequencies.T) / np.sqrt(self.num_features))


@dataclass(frozen=True, eq=False)
class RadialBasis(FeatureMap):
    """Gaussian bumps around the points of a grid, divided by their sum, so that each row adds up to 1.

    Parameters
    ----------
    low, high : (k,) array_like
        Corners of the box.
    centres : int
        Bumps along each dimension, at least 2: the first and the last are on the edge.
    width : float
        Standard deviation of a bump, in distances between neighbouring centres.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.RadialBasis(0.0, 1.0, centres=3, width=0.5)([0.0, 0.4]).round(3)
    array([[0.881, 0.119, 0.   ],
           [0.221, 0.734, 0.045]])
    """

    centres: int = 5
    width: float = 1.0

    def _check(self) -> None:
        _at_least_one(centres=self.centres)
        if self.centres < 2:
            raise ValueError(f"centres must be at least 2, found {self.centres}")
        if not (np.isfinite(self.width) and self.width > 0.0):
            raise ValueError(f"width must be a positive number, found {self.width!r}")

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return int(self.centres**self.num_dimensions)

    def _rows(self, places: Floats) -> Matrix:
        at = places[:, :, None] * (self.centres - 1) - np.arange(self.centres)
        heights = -0.5 * (at / self.width) ** 2
        heights = np.exp(heights - heights.max(axis=2, keepdims=True))  # narrow bumps must not all be 0
        return _products(heights / heights.sum(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class PolynomialBasis(FeatureMap):
    """Products of Legendre polynomials on the box, of total degree at most `degree`, over ``sqrt(d)``.

    They span all polynomials of that degree, and are far better conditioned than powers.

    Examples
    --------
    >>> import gainbias as gb
    >>> basis = gb.PolynomialBasis([0.0, 0.0], [1.0, 1.0], degree=2)
    >>> basis.num_features, (basis([[0.5, 1.0]]) * 6**0.5).round(3)
    (6, array([[ 1. ,  1. ,  0. ,  1. ,  0. , -0.5]]))
    """

    degree: int = 2

    def _check(self) -> None:
        _at_least_one(degree=self.degree)

    @cached_property
    def _degrees(self) -> npt.NDArray[np.int64]:
        # Stars and bars: gaps between chosen places are all the degrees with a sum of at most `degree`.
        places = itertools.combinations(range(self.degree + self.num_dimensions), self.num_dimensions)
        degrees = np.diff(np.array(list(places)), axis=1, prepend=-1) - 1
        return np.array(sorted(degrees.tolist(), key=lambda powers: (sum(powers), powers)))

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return math.comb(self.degree + self.num_dimensions, self.num_dimensions)

    def _rows(self, places: Floats) -> Matrix:
        factors = legvander(2.0 * places - 1.0, self.degree).transpose(1, 2, 0).copy()
        columns = np.full((self.num_features, len(places)), 1.0 / np.sqrt(self.num_features))
        for degrees, values in zip(self._degrees.T, factors, strict=True):
            used = np.flatnonzero(degrees)  # most degrees are 0
            columns[used] *= values[degrees[used]]
        return columns.T.copy()


def _grid(count: int, dimensions: int) -> npt.NDArray[np.int64]:
    """Return all points of a grid, (count**dimensions, dimensions), the last dimension fastest."""
    return np.indices((count,) * dimensions).reshape(dimensions, -1).T


def _products(factors: Floats) -> Floats:
    """Multiply a factor for each dimension: (m, k, c) becomes (m, c**k), the last dimension fastest."""
    rows = factors[:, 0]
    for k in range(1, factors.shape[1]):
        rows = (rows[:, :, None] * factors[:, k, None, :]).reshape(len(rows), -1)
    return rows


def _at_least_one(**settings: Any) -> None:
    for name, value in settings.items():
        if not is_count(value):
            raise ValueError(f"{name} must be a positive integer, found {value!r}")
