"""Spaces of observations and actions: what they allow, and records of elements that are checked in batches.

`Limits` is what a space allows, `first_flaw` finds the first element that is not, and `Recorder` keeps the
elements of an environment as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.tasks.gym.continuing import optional
from gainbias.types import Floats

BOX_ROUNDING = 1e-6
"""Share of its bounds by which numbers may leave a box: spaces and observations are often float32."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Arrays of numbers that a space allows: their shape and bounds.

    Attributes
    ----------
    shape : tuple of int
    low, high : arrays of that shape
        Bounds, included; infinite where there are none.
    whole : bool
        Whether these are integers that name things, such as states, rather than measure something.
    """

    shape: tuple[int, ...]
    low: Floats
    high: Floats
    whole: bool


ANY_NUMBER = Limits((), np.array(-np.inf), np.array(np.inf), whole=False)
ANY_REWARD = Limits((), np.array(-1e100), np.array(1e100), whole=False)
"""Squares of rewards must be numbers too."""


def limits_of(space: Any) -> Limits | None:
    """Return the limits of a Gymnasium space, or ``None`` if its elements are not arrays of numbers.

    Examples
    --------
    >>> import gymnasium
    >>> limits = limits_of(gymnasium.spaces.Discrete(3, start=1))
    >>> limits.shape, float(limits.low), float(limits.high), limits.whole
    ((), 1.0, 3.0, True)
    """
    spaces = optional("gymnasium").spaces
    if isinstance(space, spaces.Discrete):
        low, high = np.asarray(space.start), np.asarray(space.start) + space.n - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = np.asarray(space.start), np.asarray(space.start) + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = np.zeros(space.shape), np.ones(space.shape)
    elif isinstance(space, spaces.Box):
        low, high = np.asarray(space.low), np.asarray(space.high)
    else:
        return None
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return Limits(low.shape, low, high, whole=not isinstance(space, spaces.Box))


class Flaw(NamedTuple):
    """An element that is not allowed: its place, and what is wrong with it."""

    place: int
    what: str


def first_flaw(values: NDArray[Any], limits: Limits) -> Flaw | None:
    """Find the first element that is not allowed.

    Parameters
    ----------
    values : (m, ...) array
        Elements of the right shape.
    limits : Limits

    Examples
    --------
    >>> import numpy as np
    >>> unit = Limits((2,), np.zeros(2), np.ones(2), whole=False)
    >>> first_flaw(np.array([[0.5, 0.5], [0.5, np.nan]]), unit)
    Flaw(place=1, what='[0.5 nan], not a finite number')
    """
    if not len(values):
        return None
    slack = 0.0 if limits.whole else BOX_ROUNDING
    with np.errstate(invalid="ignore"):
        low = limits.low - slack * np.maximum(1.0, np.abs(limits.low))
        high = limits.high + slack * np.maximum(1.0, np.abs(limits.high))
    right = np.isfinite(values) & (values >= low) & (values <= high)
    if limits.whole and values.dtype.kind == "f":
        right &= values == np.floor(values)
    right = right.reshape(len(values), -1).all(axis=1)
    if right.all():
        return None
    place = int(np.flatnonzero(~right)[0])
    value = values[place]
    if not np.isfinite(value).all():
        return Flaw(place, f"{value}, not a finite number")
    if limits.whole and values.dtype.kind == "f" and (value != np.floor(value)).any():
        return Flaw(place, f"{value}, not an integer")
    return Flaw(place, f"{value}, outside the space from {limits.low} to {limits.high}")


class Wrong(Exception):
    """Raised for an element that cannot even be kept."""


class Recorder:
    """Keeps elements of a space, of which the environment may change the arrays later, and checks them.

    Parameters
    ----------
    limits : Limits
    capacity : int
        Elements between two calls of `take`.
    """

    put: Callable[[Any], None]
    """Keep an element."""

    def __init__(self, limits: Limits, capacity: int) -> None:
        self._limits = limits
        self._numbers: list[Any] = []
        self._count = 0
        self._scalar = limits.whole and not limits.shape
        if self._scalar:
            self.put = self._numbers.append  # a list is the fastest place for single integers
        else:
            self._array = np.empty((capacity, *limits.shape))
            self.put = self._put_array

    def _put_array(self, value: Any) -> None:
        given = value if type(value) is np.ndarray else np.asarray(value)
        if given.shape != self._limits.shape:  # otherwise NumPy might stretch it
            raise Wrong(f"{value!r} of shape {given.shape}, the space has shape {self._limits.shape}")
        if given.dtype.kind not in "fiub":
            raise Wrong(f"{value!r} of dtype {given.dtype}, numbers are expected")
        self._array[self._count] = given
        self._count += 1

    def __len__(self) -> int:
        return len(self._numbers) if self._scalar else self._count

    def take(self) -> tuple[NDArray[Any], Flaw | None]:
        """Return all elements before the first that is wrong, and what is wrong; then forget them."""
        values: NDArray[Any]
        if self._scalar:
            values, flaw = whole_numbers(self._numbers)
            self._numbers.clear()
        else:
            values, flaw = self._array[: self._count].copy(), None
            self._count = 0
        flaw = first_flaw(values, self._limits) or flaw
        return (values if flaw is None else values[: flaw.place]), flaw


class FreeRecorder:
    """As `Recorder`, for spaces of other things: each element is checked at once, and none is kept."""

    def __init__(self, space: Any) -> None:
        self._space = space
        self._count = 0

    def put(self, value: Any) -> None:
        """Check an element, and count it."""
        if not self._space.contains(value):
            raise Wrong(f"{value!r}, not in {self._space}")
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def take(self) -> tuple[NDArray[Any], Flaw | None]:
        """Forget the count, and return that nothing was kept and nothing is wrong."""
        self._count = 0
        return np.empty(0), None


def whole_numbers(given: list[Any]) -> tuple[NDArray[np.int64], Flaw | None]:
    """Return a list of single integers as an array, up to the first element that is something else.

    Examples
    --------
    >>> whole_numbers([2, 1.5, 0])
    (array([2]), Flaw(place=1, what='1.5, not an integer'))
    """
    values, place = _uniform(given, "iu")
    if place is None:
        return values.astype(np.int64), None
    return values.astype(np.int64), Flaw(place, f"{given[place]!r}, not an integer")


def real_numbers(given: list[Any]) -> tuple[Floats, Flaw | None]:
    """Return a list of rewards as an array, up to the first element that is something else.

    Examples
    --------
    >>> real_numbers([2, 1.5, None])
    (array([2. , 1.5]), Flaw(place=2, what='None, not a number'))
    """
    values, place = _uniform(given, "fiub")
    values = values.astype(np.float64)
    flaw = first_flaw(values, ANY_REWARD)
    if flaw is not None:
        return values[: flaw.place], flaw
    return values, None if place is None else Flaw(place, not_a_number(given[place]))


def _uniform(given: list[Any], kinds: str) -> tuple[NDArray[Any], int | None]:
    """Return single numbers of some kinds as an array, and the place of the first that is none of them."""
    try:
        values = np.asarray(given)
    except ValueError:  # elements of different shapes
        values = np.empty(0, dtype=np.object_)
    if values.shape == (len(given),) and (values.dtype.kind in kinds or not given):
        return values, None
    for place, value in enumerate(given):
        if np.ndim(value) or np.asarray(value).dtype.kind not in kinds:
            return np.asarray(given[:place]), place
    return values, None


def not_a_number(value: Any) -> str:
    """Return in words what was given in place of a reward."""
    if np.ndim(value):
        return (
            f"{value!r}, a vector: choose a weight for each of its {np.size(value)} numbers, for example "
            "with gymnasium.wrappers.TransformReward(env, lambda reward: reward @ weights)"
        )
    return f"{value!r}, not a number"
