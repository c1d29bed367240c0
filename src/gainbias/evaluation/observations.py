"""Observations seen through features: tables for discrete ones, feature maps for boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.evaluation.spaces import Limits
from gainbias.evaluation.stream import OnTermination, Steps, Transitions
from gainbias.features.maps import FeatureMap, PolynomialBasis, TileCoding
from gainbias.features.matrix import FloatArray, Matrix, Tabular, as_features

MOST_STATES = 2**24
"""More discrete observations than this are not made states by themselves."""

MOST_AUTOMATIC_FEATURES = 1_500
"""A map chosen by itself has at most so many features, for which least squares takes seconds."""

TILES = {1: (16, 8), 2: (8, 8), 3: (6, 4)}
"""Tiles along each dimension and tilings, for boxes of one to three dimensions: 136, 648, 1372 features."""

HIGHEST_DEGREE = 3
BEYOND = 1e18
"""Bounds of this size mean that there is none: many spaces say 3.4e38, the largest float32."""

Choice: TypeAlias = "Literal['auto'] | FeatureMap | Tabular | Matrix | Callable[[NDArray[Any]], Any]"


@dataclass(frozen=True, eq=False)
class ObservationMap:
    """How observations become features.

    Attributes
    ----------
    description : str
        The choice in words.
    num_features : int
        Number of features d.
    states : callable or None
        From observations (m, ...) to states (m,), if they are discrete.
    rows : callable or None
        From observations (m, ...) to rows of features (m, d), if they are not.
    table : (n + 1, d) ndarray or csr_array, or None
        Rows of features of discrete observations; ``None`` if features are tabular. The last is that of ends.
    end : int
        The state that stands for every end, if observations are discrete.

    Notes
    -----
    The end has a state of its own if features are tabular, and otherwise features that are all 0. So its
    value is 0, from which all others are counted: if the features can express constants, as all maps of this
    package can, that is no restriction on relative values.
    """

    description: str
    num_features: int
    states: Callable[[NDArray[Any]], NDArray[np.int64]] | None = None
    rows: Callable[[NDArray[Any]], Matrix] | None = None
    table: Matrix | None = None
    end: int = 0

    @property
    def is_tabular(self) -> bool:
        """Whether there is one feature for each state."""
        return self.rows is None and self.table is None

    def __call__(self, steps: Steps) -> Transitions:
        """Return steps as estimators see them."""
        if self.states is not None:
            seen = np.append(self.states(steps.observations), self.end)
            here, after, rows = seen[steps.here], seen[steps.after], self.table
        else:
            assert self.rows is not None
            here, after, rows = steps.here, steps.after, self.rows(steps.observations)
            if (after == rows.shape[0]).any():
                rows = _with_zero_row(rows)
        return Transitions(steps.rewards, here, after, rows, steps.segments, steps.chain)


def observation_map(
    limits: Limits, features: Choice, first: NDArray[Any], on_termination: OnTermination
) -> ObservationMap:
    """Choose how observations become features.

    Parameters
    ----------
    limits : Limits
        Of observations.
    features : {"auto"}, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        ``"auto"`` makes discrete observations states, and chooses a map for boxes: tile coding for up to
        three numbers, polynomials for more. A callable takes observations (m, ...) and returns rows of
        features (m, d), dense or sparse. A matrix has the features of discrete observations.
    first : (m, ...) array
        Some observations. Where the space has no bounds, those of a map are twice as wide as these.
    on_termination : {"zero", "reward"}
        With ``"zero"`` there is a state for ends.

    Returns
    -------
    ObservationMap

    Examples
    --------
    >>> import numpy as np
    >>> limits = Limits((2,), np.array([0.0, -np.inf]), np.array([1.0, np.inf]), whole=False)
    >>> seen = observation_map(limits, "auto", np.array([[0.5, -1.0], [0.7, 3.0]]), "zero")
    >>> seen.num_features, seen.description.split(":")[0]
    (648, 'tile coding, 8 tiles along each of 2 dimensions, 8 tilings')
    """
    if isinstance(features, str) and features != "auto":
        raise ValueError(
            f"features must be 'auto', a feature map, a matrix or a function, found {features!r}"
        )
    if isinstance(features, FeatureMap):
        return _mapped(features, limits, type(features).__name__)
    if limits.whole and isinstance(features, Tabular | str):
        return _tabular(limits, on_termination)
    if isinstance(features, Tabular):
        raise ValueError("tabular features need discrete observations, found a box: use features='auto'")
    if callable(features):
        return _called(features, limits, first)
    if isinstance(features, str):
        return _automatic(limits, first)
    return _from_matrix(features, limits)


def _tabular(limits: Limits, on_termination: OnTermination) -> ObservationMap:
    size = _num_states(limits)
    ends = on_termination == "zero"
    description = f"tabular: a state for each of {size} observations" + (", and one for ends" if ends else "")
    return ObservationMap(description, size + ends, states=_numbering(limits), end=size)


def _from_matrix(given: Any, limits: Limits) -> ObservationMap:
    if not limits.whole:
        raise ValueError("a matrix of features needs discrete observations, found a box: pass a feature map")
    size = _num_states(limits)
    matrix = as_features(given).matrix
    if matrix.shape[0] != size:
        raise ValueError(
            f"features have {matrix.shape[0]} rows, one for each of {size} observations is expected"
        )
    table = _with_zero_row(matrix)
    width = int(matrix.shape[1])
    description = f"the given matrix of {width} features"
    return ObservationMap(description, width, states=_numbering(limits), table=table, end=size)


def _num_states(limits: Limits) -> int:
    size = float(np.prod(limits.high - limits.low + 1.0))
    if size > MOST_STATES:
        raise ValueError(
            f"there are {size:.3g} different observations, at most {MOST_STATES:,} can be states: pass "
            "features, a function from observations (m, ...) to rows of features (m, d)"
        )
    return int(size)


def _numbering(limits: Limits) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """Return the function that numbers discrete observations, the last of several numbers fastest."""
    low = limits.low.astype(np.int64)
    if not limits.shape:
        start = int(low)
        return lambda seen: np.asarray(seen, dtype=np.int64) - start
    sizes = (limits.high - limits.low + 1.0).astype(np.int64).ravel()
    strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
    return lambda seen: (np.asarray(seen, dtype=np.int64) - low).reshape(len(seen), -1) @ strides


def _mapped(chosen: FeatureMap, limits: Limits, description: str) -> ObservationMap:
    size = int(np.prod(limits.shape))
    if chosen.num_dimensions != size:
        raise ValueError(
            f"the feature map is made for {chosen.num_dimensions} numbers, observations have {size}"
        )
    return ObservationMap(
        f"{description}: {chosen.num_features} features",
        chosen.num_features,
        rows=lambda seen: chosen(seen.reshape(len(seen), -1)),
    )


def _automatic(limits: Limits, first: NDArray[Any]) -> ObservationMap:
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
    seen = _mapped(chosen, limits, what)
    if not guessed:
        return seen
    words = f", bounds of {guessed} of {size} numbers taken from the first {len(first)} observations"
    return ObservationMap(seen.description + words, seen.num_features, rows=seen.rows)


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


def _called(function: Callable[[NDArray[Any]], Any], limits: Limits, first: NDArray[Any]) -> ObservationMap:
    try:
        width = _checked_rows(function(first[:2]), min(2, len(first)), None).shape[1]
    except Exception as error:
        raise ValueError(
            f"features failed on the first observations, an array of shape {first[:2].shape}: "
            f"{type(error).__name__}: {error}; it must take many observations at a time and return a row of "
            "features for each"
        ) from error
    return ObservationMap(
        f"the given function: {width} features",
        int(width),
        rows=lambda seen: _checked_rows(function(seen), len(seen), int(width)),
    )


def _checked_rows(given: Any, count: int, width: int | None) -> Matrix:
    rows: Matrix
    if isinstance(given, sparse.sparray | sparse.spmatrix):
        anything: Any = given
        rows = sparse.csr_array(anything).astype(np.float64)
    else:
        rows = np.asarray(given, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != count or width not in (None, rows.shape[1]):
        expected = f"({count}, {'d' if width is None else width})"
        raise ValueError(f"features must have shape {expected}, found {rows.shape}")
    entries = rows if isinstance(rows, np.ndarray) else rows.data
    if not np.isfinite(entries).all():
        raise ValueError("features must be finite numbers, found NaN or infinity")
    return rows


def _with_zero_row(rows: Matrix) -> Matrix:
    if isinstance(rows, np.ndarray):
        return np.concatenate([rows, np.zeros((1, rows.shape[1]))])
    start = np.append(rows.indptr, rows.indptr[-1])
    return sparse.csr_array((rows.data, rows.indices, start), (rows.shape[0] + 1, rows.shape[1]))
