"""How observations become features: one state for each discrete observation, a feature map for boxes.

Start with `ObservationMap` and with `observation_map`, which makes one from the user's choice.
`automatic_map` and `named_map` make feature maps for boxes. Where there are too many discrete observations
for a table, `SeenStates` numbers those that turn up. The functions at the end work on rows of features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.evaluation.sources.spaces import (
    ANY_NUMBER,
    Limits,
    Wrong,
    first_flaw,
    is_one,
    observation_rows,
    one_row,
    structured,
)
from gainbias.evaluation.stream import ObservedSteps, OnTermination, Transitions
from gainbias.features.maps import FeatureMap, FourierBasis, PolynomialBasis, RadialBasis, TileCoding
from gainbias.features.matrix import Matrix, Tabular, as_features, row_norms
from gainbias.types import Floats, Ints

MOST_AUTOMATIC_FEATURES = 1_500
"""How many features a map that is chosen automatically has at most: least squares takes seconds for them."""

TILES = {1: (16, 8), 2: (8, 8), 3: (6, 4)}
"""Tiles along each dimension and tilings, for boxes of one to three dimensions: 136, 648, 1372 features."""

HIGHEST_DEGREE = 3

NAMED: dict[str, type[FeatureMap]] = {
    "tiles": TileCoding,
    "fourier": FourierBasis,
    "radial": RadialBasis,
    "polynomial": PolynomialBasis,
}

NO_BOUND_BEYOND = 1e18
"""Bounds of this size mean that there is none: many spaces give 3.4e38, the largest float32."""

MOST_TABLE_STATES = 2**24
"""Most discrete observations that can be states."""

MOST_SEEN_STATES = 2_998
"""Most observations that are numbered as they turn up: with two more states, least squares still works."""

MOST_LISTED_OBSERVATIONS = 10_000
"""Up to how many discrete observations the best and the worst are searched for."""

MEASURED = 1024
"""Rows from which the scale of the features of a function is found."""

Choice: TypeAlias = "str | FeatureMap | Tabular | Matrix | Callable[[Any], Any]"


class NoFeaturesError(ValueError):
    """No features could be chosen for these observations; the gain does not need any."""


class SeenStates:
    """Numbers observations in the order in which they turn up.

    Parameters
    ----------
    known : (n, ...) array of int64
        Observations that have turned up already.

    Examples
    --------
    >>> seen = SeenStates(np.empty(0, dtype=np.int64))
    >>> seen.learn(np.array([10**15, 7, 10**15, -3])), seen.find(np.array([-3, 8]))
    (array([0, 1, 0, 2]), array([   2, 2998]))
    """

    other = MOST_SEEN_STATES
    """The state shared by all observations for which there was no number left."""

    def __init__(self, known: NDArray[np.int64]) -> None:
        self._shape = known.shape[1:]
        self._numbers: dict[bytes, int] = {}
        self._left_over = False
        self.learn(known)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def is_full(self) -> bool:
        """Whether there was no number left for some observations."""
        return self._left_over

    @property
    def known(self) -> NDArray[np.int64]:
        """The observations that have numbers, in their order, (n, ...)."""
        found = np.frombuffer(b"".join(self._numbers), dtype=np.int64)
        return found.reshape(len(self), *self._shape)

    def learn(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Return the states of observations, (m,) for (m, ...); new ones get numbers."""
        if not len(observations):
            return np.empty(0, dtype=np.int64)
        keys, first, place = self._keys(observations)
        for key in (keys[k] for k in np.argsort(first, kind="stable")):
            if key not in self._numbers:
                if len(self) == self.other:
                    self._left_over = True
                    break
                self._numbers[key] = len(self)
        return self._found(keys)[place]

    def find(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Return the states of observations, (m,) for (m, ...); those without a number share one."""
        if not len(observations):
            return np.empty(0, dtype=np.int64)
        keys, _, place = self._keys(observations)
        return self._found(keys)[place]

    def _keys(self, observations: NDArray[Any]) -> tuple[list[bytes], Ints, Ints]:
        """Return the different observations, where each occurs first, and which of them is at each place."""
        rows = np.ascontiguousarray(observations, dtype=np.int64).reshape(len(observations), -1)
        whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        keys, first, place = np.unique(whole, return_index=True, return_inverse=True)
        return [key.tobytes() for key in keys], first, place.ravel()

    def _found(self, keys: list[bytes]) -> NDArray[np.int64]:
        return np.array([self._numbers.get(key, self.other) for key in keys], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ObservationMap:
    """How observations become features.

    Attributes
    ----------
    description : str
        The choice in words.
    num_features : int
        Number of features d.
    limits : Limits
        Of observations.
    choice : FeatureMap, Tabular, callable or matrix
        What makes the features.
    scale : float
        Features of a user are divided by this power of two, so that rows have length at most 1, as far as
        known before the run. Maps of this package need no scale.
    states : callable or None
        From observations (m, ...) to states (m,), if they are discrete.
    rows : callable or None
        From observations (m, ...) to rows of features (m, d), if they are not.
    table : (n + 1, d) ndarray or csr_array, or None
        Rows of features of discrete observations; ``None`` if features are tabular. The last row is that of
        ends.
    end : int
        The state that stands for every end, if observations are discrete.
    is_sparse : bool
        Whether rows of features are sparse or tabular.
    seen : SeenStates or None
        Numbers of observations, if they are numbered as they turn up.

    Notes
    -----
    The end has its own state if features are tabular; otherwise its features are all 0. So its value is 0,
    and all others are relative to it. If the features can express constants, as all maps of this package
    can, this does not restrict relative values.
    """

    description: str
    num_features: int
    limits: Limits = ANY_NUMBER
    choice: Choice = "auto"
    scale: float = 1.0
    states: Callable[[NDArray[Any]], NDArray[np.int64]] | None = None
    rows: Callable[[NDArray[Any]], Matrix] | None = None
    table: Matrix | None = None
    end: int = 0
    is_sparse: bool = False
    seen: SeenStates | None = None

    @property
    def is_tabular(self) -> bool:
        """Whether there is one feature for each state."""
        return self.rows is None and self.table is None

    @property
    def is_fixed(self) -> bool:
        """Whether features depend on nothing else, so that several threads may ask for them at once.

        Not if observations are numbered as they turn up, nor if a function of the user makes the features.
        """
        return self.seen is None and (self.rows is None or type(self.choice) in NAMED.values())

    @property
    def num_used(self) -> int:
        """Number of features that are in use: fewer than all if states are numbered as they turn up."""
        if self.seen is None:
            return self.num_features
        return len(self.seen) + self.seen.is_full + (self.num_features - self.end)

    def __call__(self, steps: ObservedSteps) -> Transitions:
        """Return steps between observations as transitions between features."""
        if self.states is not None:
            seen = np.append(self.states(steps.observations), self.end)
            here, after, rows = seen[steps.here], seen[steps.after], self.table
        else:
            assert self.rows is not None
            here, after, rows = steps.here, steps.after, self.rows(steps.observations)
            if (after == rows.shape[0]).any():
                rows = with_zero_row(rows)
        return Transitions(steps.rewards, here, after, rows, steps.segments, steps.chain)

    def rows_at(self, observations: NDArray[Any]) -> Matrix:
        """Return the rows of features of observations, (m, d) for (m, ...)."""
        if self.rows is not None:
            return self.rows(observations)
        assert self.states is not None
        states = self.states_at(observations)
        if self.table is not None:
            return self.table[states]
        return one_hot(states, self.num_features)

    def states_at(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Return the states of discrete observations, (m,) for (m, ...)."""
        if self.states is None:
            raise ValueError("observations are not states: they are not discrete")
        return self.states(observations) if self.seen is None else self.seen.find(observations)

    def checked(self, observations: Any) -> tuple[NDArray[Any], bool]:
        """Return observations as an array (m, ...), and whether a single one was given."""
        many, single = self._as_rows(observations)
        flaw = first_flaw(many, self.limits)
        if flaw is not None:
            raise ValueError(f"observation {flaw.place} is {flaw.what}")
        return many, single

    def _as_rows(self, observations: Any) -> tuple[NDArray[Any], bool]:
        leaves, shape = self.limits.leaves, self.limits.shape
        is_row = isinstance(observations, np.ndarray) and observations.dtype.kind in "iuf"
        if leaves and not is_row:
            try:
                single = is_one(observations, leaves)
                rows = one_row(observations, leaves) if single else observation_rows(observations, leaves)
            except Wrong as error:
                raise ValueError(f"observations must be in the form of the space, found {error}") from None
            return (rows.astype(np.int64) if self.limits.whole else rows), single
        given = np.asarray(observations)
        if given.shape not in (shape, (len(given) if given.ndim else 0, *shape)):
            raise ValueError(f"observations must have shape {shape} or (m, ...), found {given.shape}")
        if given.dtype.kind not in "iufb" or (self.limits.whole and given.dtype.kind == "f"):
            kind = "integers" if self.limits.whole else "numbers"
            raise ValueError(f"observations must be {kind}, found {given.dtype}")
        single = given.shape == shape
        return (given[None] if single else given), single

    def every(self) -> NDArray[np.int64] | None:
        """Return all discrete observations, or those that turned up, (n, ...); None if there are too many."""
        return every_observation(self.limits) if self.seen is None else self.seen.known

    def settled(self) -> ObservationMap:
        """Return the map after all was read, with a description that counts what turned up."""
        if self.seen is None:
            return self
        return replace(self, description=self.description.format(len(self.seen)))

    def notes(self) -> list[str]:
        """Return what a user should know after all was read, in words."""
        if self.seen is None or not self.seen.is_full:
            return []
        return [
            f"more than {MOST_SEEN_STATES:,} different observations turned up: those after the first "
            f"{MOST_SEEN_STATES:,} share one state, and one value; pass features, a function from "
            "observations to rows of features, for values that tell them apart"
        ]


def every_observation(limits: Limits) -> NDArray[np.int64] | None:
    """Return all discrete observations, (n, ...), the last number fastest; ``None`` if more than 10,000.

    Examples
    --------
    >>> limits = Limits((2,), np.zeros(2), np.array([1.0, 2.0]), whole=True)
    >>> every_observation(limits).tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    size = float(np.prod(limits.high - limits.low + 1.0)) if limits.whole else np.inf
    if size > MOST_LISTED_OBSERVATIONS:
        return None
    axes = [np.arange(low, high + 1) for low, high in zip(limits.low.flat, limits.high.flat, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).astype(np.int64)
    return grid.reshape(-1, *limits.shape)


def observation_map(
    limits: Limits,
    features: Choice,
    first: NDArray[Any],
    on_termination: OnTermination,
    scale: float | None = None,
) -> ObservationMap:
    """Return the chosen map from observations to features.

    Parameters
    ----------
    limits : Limits
        Of observations.
    features : str, FeatureMap, Tabular, callable, or (n, d) array or sparse array
        ``"auto"`` makes discrete observations states, and chooses a map for boxes: tile coding for up to
        three numbers, polynomials for more. Other words name a map, see `named_map`. `Tabular` is also for
        boxes of integers: each observation that turns up is a state. A callable takes
        observations (m, ...) and returns rows of features (m, d), dense or sparse; observations of several
        parts come in the form of their space, with an array (m, ...) for each part. A matrix has the features
        of discrete observations. Maps see discrete parts as indicators, and no texts.
    first : (m, ...) array
        Some observations. Where the space has no bounds, those of a map are twice as wide as these.
    on_termination : {"zero", "reward"}
        With ``"zero"`` there is a state for ends.
    scale : float, optional
        Number by which features of a user are divided, if it is known already.

    Returns
    -------
    ObservationMap

    Raises
    ------
    NoFeaturesError
        If ``"auto"`` finds none.

    Examples
    --------
    >>> import numpy as np
    >>> limits = Limits((2,), np.array([0.0, -np.inf]), np.array([1.0, np.inf]), whole=False)
    >>> seen = observation_map(limits, "auto", np.array([[0.5, -1.0], [0.7, 3.0]]), "zero")
    >>> seen.num_features, seen.description.split(":")[0]
    (648, 'tile coding, 8 tiles along each of 2 dimensions, 8 tilings')
    """
    if isinstance(features, str) and features != "auto":
        return _mapped(*named_map(features, limits, first), limits)
    if isinstance(features, FeatureMap):
        words = f"{type(features).__name__}: {features.num_features} features"
        return _mapped(features, words, limits)
    if limits.whole and isinstance(features, Tabular | str):
        if _num_observations(limits) > MOST_TABLE_STATES:
            return seen_states(limits, on_termination)
        return _tabular(limits, on_termination)
    if isinstance(features, Tabular):
        if limits.integer:
            return seen_states(limits, on_termination)
        raise ValueError("tabular features need discrete observations, found a box: use features='auto'")
    if callable(features):
        return _called(features, limits, first, scale)
    if isinstance(features, str):
        return _mapped(*automatic_map(limits, first), limits)
    return _from_matrix(features, limits)


def _tabular(limits: Limits, on_termination: OnTermination) -> ObservationMap:
    size = _num_states(limits)
    ends = on_termination == "zero"
    description = f"tabular: a state for each of {size} observations" + (", and one for ends" if ends else "")
    return ObservationMap(
        description, size + ends, limits, Tabular(), states=_numbering(limits), end=size, is_sparse=True
    )


def seen_states(
    limits: Limits, on_termination: OnTermination, known: NDArray[np.int64] | None = None
) -> ObservationMap:
    """Return tabular features with a state for each observation that turns up."""
    seen = SeenStates(np.empty((0, *limits.shape), dtype=np.int64) if known is None else known)
    ends = on_termination == "zero"
    return ObservationMap(
        "tabular: a state for each of {:,} observations that turned up"
        + (", and one for ends" if ends else ""),
        seen.other + 1 + ends,
        limits,
        Tabular(),
        states=seen.learn,
        end=seen.other + 1,
        is_sparse=True,
        seen=seen,
    )


def _from_matrix(given: Any, limits: Limits) -> ObservationMap:
    if not limits.whole:
        raise ValueError("a matrix of features needs discrete observations, found a box: pass a feature map")
    size = _num_states(limits)
    checked = as_features(given)
    matrix, scale = checked.matrix, power_of_two(checked.max_row_norm)
    if matrix.shape[0] != size:
        raise ValueError(
            f"features have {matrix.shape[0]} rows, one for each of {size} observations is expected"
        )
    table = with_zero_row(divided(matrix, scale))
    words = f"the given matrix of {checked.num_features} features"
    return ObservationMap(
        words,
        checked.num_features,
        limits,
        matrix,
        scale,
        states=_numbering(limits),
        table=table,
        end=size,
        is_sparse=not isinstance(table, np.ndarray),
    )


def check_automatic(limits: Limits, features: Choice) -> None:
    """Raise `NoFeaturesError` if features must be chosen for observations of too many numbers."""
    if isinstance(features, str) and features == "auto" and not limits.whole:
        size = int(np.prod(_measured(limits).shape))
        if size not in TILES and _polynomials(size, 1) > MOST_AUTOMATIC_FEATURES:
            raise NoFeaturesError(
                f"observations of {size} numbers are too many to choose features automatically: pass "
                "features, a function from observations (m, ...) to rows of features (m, d)"
            )


def _num_observations(limits: Limits) -> float:
    if any(leaf.kind == "text" for leaf in limits.leaves):
        return np.inf
    return float(np.prod(limits.high - limits.low + 1.0))


def _num_states(limits: Limits) -> int:
    size = _num_observations(limits)
    if size > MOST_TABLE_STATES:
        raise ValueError(
            f"there are {size:.3g} different observations, at most {MOST_TABLE_STATES:,} can be states: pass "
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
    return lambda seen: (np.asarray(seen, dtype=np.int64) - low).reshape(len(seen), len(strides)) @ strides


def _mapped(chosen: FeatureMap, description: str, limits: Limits) -> ObservationMap:
    size = int(np.prod(_measured(limits).shape))
    if chosen.num_dimensions != size:
        raise ValueError(
            f"the feature map is made for {chosen.num_dimensions} numbers, observations have {size}"
        )
    return ObservationMap(
        description,
        chosen.num_features,
        limits,
        chosen,
        rows=lambda seen: chosen(_measures(seen, limits).reshape(len(seen), size)),
        is_sparse=not isinstance(chosen(np.asarray(chosen.low)[None]), np.ndarray),
    )


def _measured(limits: Limits) -> Limits:
    """Return the limits of what maps see: boxes as they are, discrete parts as indicators, no texts."""
    if not limits.leaves:
        return limits
    low: list[Floats] = []
    high: list[Floats] = []
    for leaf in limits.leaves:
        least, most = limits.low[leaf.columns], limits.high[leaf.columns]
        if leaf.kind == "discrete":
            count = int((most - least + 1.0).sum())
            least, most = np.zeros(count), np.ones(count)
        if leaf.kind != "text":
            low.append(least)
            high.append(most)
    if not low:
        raise ValueError("maps are for numbers, and observations are texts: use features='auto'")
    least, most = np.concatenate(low), np.concatenate(high)
    return Limits(least.shape, least, most, whole=False)


def _measures(rows: NDArray[Any], limits: Limits) -> NDArray[Any]:
    """Return what feature maps see of observations, (m, ...) for (m, ...)."""
    if not limits.leaves:
        return rows
    columns: list[NDArray[Any]] = []
    for leaf in limits.leaves:
        part = rows[:, leaf.columns]
        if leaf.kind == "discrete":
            ends = zip(part.T, limits.low[leaf.columns], limits.high[leaf.columns], strict=True)
            columns += [number[:, None] == np.arange(low, high + 1.0) for number, low, high in ends]
        elif leaf.kind != "text":
            columns.append(part)
    return np.concatenate(columns, axis=1, dtype=np.float64)


def unseen_texts(observed: ObservationMap) -> list[str]:
    """Return a note if observations have texts that automatic or named features do not see."""
    texts = [leaf.name for leaf in observed.limits.leaves if leaf.kind == "text"]
    if not texts or not isinstance(observed.choice, FeatureMap):
        return []
    return [
        f"the features do not see the texts at {', '.join(texts)}: if they matter for what happens next, "
        "pass features, a function that takes observations in the form of the space"
    ]


def _called(
    function: Callable[[Any], Any], limits: Limits, first: NDArray[Any], scale: float | None
) -> ObservationMap:
    def made(seen: NDArray[Any]) -> Any:
        return function(structured(seen, limits.leaves) if limits.leaves else seen)

    what = f"an array of shape {first.shape}"
    if limits.leaves:
        what = f"{len(first)} of them, in the form of the space with an array for each part"
    try:
        rows = checked_rows(made(first), len(first), None)
    except Exception as error:
        raise ValueError(
            f"features failed on the first observations, {what}: "
            f"{type(error).__name__}: {error}; it must take many observations at a time and return a row of "
            "features for each"
        ) from error
    width, scale = int(rows.shape[1]), scale or power_of_two(float(row_norms(rows[:MEASURED]).max()))
    return ObservationMap(
        f"the given function: {width} features",
        width,
        limits,
        function,
        scale,
        rows=lambda seen: divided(checked_rows(made(seen), len(seen), width), scale),
        is_sparse=not isinstance(rows, np.ndarray),
    )


def automatic_map(limits: Limits, first: NDArray[Any]) -> tuple[FeatureMap, str]:
    """Choose a feature map for a box: tile coding for up to three numbers, polynomials for more.

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
    check_automatic(limits, "auto")
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
        chosen = PolynomialBasis(low, high, degree=degree)
        what = f"polynomials of degree {degree} of {size} numbers"
    return chosen, what + _size_in_words(chosen, guessed, len(first))


def named_map(words: str, limits: Limits, first: NDArray[Any]) -> tuple[FeatureMap, str]:
    """Make a feature map from its name, perhaps with settings, as in "tiles,8,4".

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
        raise ValueError(f"numbers are expected after {name}, as in 'tiles,8,4', found {words!r}") from None
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
    """Return how many polynomials of `size` numbers there are up to a degree."""
    return float(np.prod([(size + k) / k for k in range(1, degree + 1)]))


def _bounds(limits: Limits, first: NDArray[Any]) -> tuple[Floats, Floats, int]:
    """Return finite bounds of a box, and for how many numbers they had to be guessed."""
    limits, first = _measured(limits), _measures(first, limits)
    low, high = limits.low.ravel().copy(), limits.high.ravel().copy()
    seen = first.reshape(len(first), -1).astype(np.float64)
    least, most = seen.min(axis=0), seen.max(axis=0)
    margin = np.where(most > least, 0.5 * (most - least), 1.0)
    no_low, no_high = low < -NO_BOUND_BEYOND, high > NO_BOUND_BEYOND
    low[no_low] = (least - margin)[no_low]
    high[no_high] = (most + margin)[no_high]
    flat = ~(low < high)
    high[flat] = low[flat] + 1.0  # a number that is always the same carries no information
    return low, high, int(np.count_nonzero(no_low | no_high))


def checked_rows(given: Any, count: int, width: int | None) -> Matrix:
    """Return the rows of features that a user's function made; refuse anything but `count` rows."""
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


def with_zero_row(rows: Matrix) -> Matrix:
    """Return rows of features with one more row, which is all 0."""
    if isinstance(rows, np.ndarray):
        return np.concatenate([rows, np.zeros((1, rows.shape[1]))])
    start = np.append(rows.indptr, rows.indptr[-1])
    return sparse.csr_array((rows.data, rows.indices, start), (rows.shape[0] + 1, rows.shape[1]))


def one_hot(states: NDArray[np.int64], num_states: int) -> sparse.csr_array[Any]:
    """Return the rows of the identity that belong to these states."""
    entries, starts = np.ones(len(states)), np.arange(len(states) + 1)
    return sparse.csr_array((entries, states, starts), (len(states), num_states))


def divided(rows: Any, scale: float) -> Matrix:
    """Return rows of features, divided by a scale."""
    quotient: Matrix = rows / scale
    return quotient


def power_of_two(length: float) -> float:
    """Return the smallest power of two that is at least `length`: dividing by it rounds nothing."""
    return float(2.0 ** np.ceil(np.log2(length))) if length > 0.0 else 1.0
