"""Spaces of observations and actions: what they allow, and records of elements that are checked in batches.

`Limits` says what a space allows, `first_flaw` finds the first element that is not allowed, and `Recorder`
keeps the elements of an environment as they come. Dictionaries, tuples and texts are kept as rows of
numbers: a `Leaf` says which numbers of a row belong to which part, `observation_rows` makes such rows, and
`structured` turns them back into dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.gain.batches import LARGEST_NUMBER
from gainbias.extras import optional
from gainbias.types import Floats

BOX_ROUNDING = 1e-6
"""Numbers may exceed the bounds of a box by this share of them: spaces and observations are often float32."""


MOST_TEXTS = 2**16
"""Most different texts in a part of observations that are told apart."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A part of observations that are dictionaries, tuples or texts.

    Attributes
    ----------
    path : tuple of str and int
        The path to it: keys of dictionaries and positions in tuples; empty if it is the whole observation.
    kind : {"box", "discrete", "binary", "text"}
        What it is.
    shape : tuple of int
        Its shape.
    start : int
        Where its numbers begin in a row of numbers.
    texts : list of str
        Texts that were seen; the number of a text is its position here.
    """

    path: tuple[str | int, ...]
    kind: Literal["box", "discrete", "binary", "text"]
    shape: tuple[int, ...]
    start: int
    texts: list[str]

    @property
    def columns(self) -> slice:
        """Where its numbers are in a row of numbers."""
        return slice(self.start, self.start + int(np.prod(self.shape)))

    @property
    def name(self) -> str:
        """The path to it, in words."""
        return "".join(f"[{key!r}]" for key in self.path) or "the observation"

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.texts)}

    def number_of(self, text: str) -> int:
        """Return the number of a text, -1 if it was not seen."""
        return self._numbers.get(text, -1)

    def learn(self, text: str) -> int:
        """Return the number of a text, a new one if it was not seen; -1 for all if there are too many."""
        number = self._numbers.get(text)
        if number is None and len(self.texts) < MOST_TEXTS:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return -1 if number is None else number


@dataclass(frozen=True, eq=False)
class Limits:
    """Arrays of numbers that a space allows: their shape and bounds.

    Attributes
    ----------
    shape : tuple of int
    low, high : arrays of that shape
        Bounds, included; infinite where there are none.
    whole : bool
        Whether these are integers that name things, such as states, rather than measurements.
    leaves : tuple of Leaf
        Parts of observations that are dictionaries, tuples or texts, and are kept as rows of numbers; empty
        for arrays of numbers.
    integer : bool
        Whether these are integers, as those of images, although they measure something.
    """

    shape: tuple[int, ...]
    low: Floats
    high: Floats
    whole: bool
    leaves: tuple[Leaf, ...] = ()
    integer: bool = False


ANY_NUMBER = Limits((), np.array(-np.inf), np.array(np.inf), whole=False)
ONE_STATE = Limits((), np.array(0.0), np.array(0.0), whole=True)
"""Of observations that are not used."""

ANY_REWARD = Limits((), np.array(-LARGEST_NUMBER), np.array(LARGEST_NUMBER), whole=False)
"""Squares of rewards must not overflow."""


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
    is_box = isinstance(space, spaces.Box)
    return Limits(low.shape, low, high, whole=not is_box, integer=is_box and space.dtype.kind in "iub")


def observation_limits(space: Any) -> Limits | None:
    """Return the limits of a space of observations, or ``None`` if no row of numbers can stand for them.

    Dictionaries, tuples and texts, also nested, are rows of numbers: those of their parts in order, and a
    number for each text.

    Examples
    --------
    >>> from gymnasium import spaces
    >>> limits = observation_limits(spaces.Dict({"left": spaces.Discrete(3), "word": spaces.Text(5)}))
    >>> [(leaf.name, leaf.kind) for leaf in limits.leaves], limits.shape, limits.whole
    ([("['left']", 'discrete'), ("['word']", 'text')], (2,), True)
    """
    simple = limits_of(space)
    if simple is not None:
        return simple
    found = list(_parts(space, ()))
    if not found or any(limits is None for _, limits in found):
        return None
    leaves: list[Leaf] = []
    start = 0
    for path, limits in found:
        assert limits is not None
        leaves.append(Leaf(path, _kind(limits), limits.shape, start, []))
        start += int(np.prod(limits.shape))
    parts = [limits for _, limits in found if limits is not None]
    return Limits(
        (start,),
        np.concatenate([part.low.ravel() for part in parts]),
        np.concatenate([part.high.ravel() for part in parts]),
        whole=all(part.whole for part in parts),
        leaves=tuple(leaves),
        integer=all(part.whole or part.integer for part in parts),
    )


ANY_TEXT = Limits((), np.array(-1.0), np.array(float(MOST_TEXTS)), whole=True)
"""Of the number of a text."""


def _parts(space: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Limits | None]]:
    """Yield the parts of a space with the path to each; without limits if a part is something else."""
    spaces = optional("gymnasium").spaces
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, (*path, key)) if isinstance(key, str) else [((*path, str(key)), None)]
    elif isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            yield from _parts(part, (*path, place))
    elif getattr(getattr(space, "dtype", None), "kind", "") == "U":  # also in classes derived from Space
        yield path, ANY_TEXT
    else:
        yield path, limits_of(space)


def _kind(limits: Limits) -> Literal["box", "discrete", "binary", "text"]:
    if limits is ANY_TEXT:
        return "text"
    if not limits.whole:
        return "box"
    return "binary" if ((limits.low == 0.0) & (limits.high == 1.0)).all() and limits.shape else "discrete"


def write_row(row: Floats, observation: Any, leaves: tuple[Leaf, ...]) -> None:
    """Write an observation of several parts into a row of numbers."""
    for leaf in leaves:
        value = _part_of(observation, leaf)
        if leaf.kind == "text":
            if not isinstance(value, str):
                raise Wrong(f"{value!r} at {leaf.name}, a text is expected")
            row[leaf.start] = leaf.learn(value)
            continue
        given = np.asarray(value)
        if given.shape != leaf.shape:
            raise Wrong(
                f"{value!r} of shape {given.shape} at {leaf.name}, the space has shape {leaf.shape} there"
            )
        if given.dtype.kind not in ("fiub" if leaf.kind == "box" else "iub"):
            raise Wrong(
                f"{value!r} at {leaf.name}, {'numbers' if leaf.kind == 'box' else 'integers'} are expected"
            )
        row[leaf.columns] = given.ravel()


def observation_rows(observations: Any, leaves: tuple[Leaf, ...], learn: bool = False) -> Floats:
    """Return observations of several parts as rows of numbers, (m, k).

    Parameters
    ----------
    observations : dict, tuple or array of str, or list
        In the form of the space, with arrays (m, ...) for its parts, as in vector environments; or a
        list of observations.
    leaves : tuple of Leaf
        The parts.
    learn : bool
        Whether texts that were not seen get new numbers.
    """
    if isinstance(observations, list):
        rows = np.empty((len(observations), leaves[-1].columns.stop))
        for row, observation in zip(rows, observations, strict=True):
            row[:] = observation_rows(_of_one(observation, leaves), leaves, learn)[0]
        return rows
    columns: list[Any] = []
    for leaf in leaves:
        values = _part_of(observations, leaf)
        if leaf.kind == "text":
            number = leaf.learn if learn else leaf.number_of
            columns.append(np.array([number(str(text)) for text in values], dtype=np.float64)[:, None])
            continue
        given = np.asarray(values)
        if given.ndim != 1 + len(leaf.shape) or given.shape[1:] != leaf.shape:
            raise Wrong(f"of shape {given.shape} at {leaf.name}, shape {('m', *leaf.shape)} is expected")
        if given.dtype.kind not in "fiub":
            raise Wrong(f"of dtype {given.dtype} at {leaf.name}, numbers are expected")
        columns.append(given.reshape(len(given), -1))
    if len({len(column) for column in columns}) > 1:
        raise Wrong(f"parts of different lengths, {', '.join(str(len(column)) for column in columns)}")
    return np.concatenate(columns, axis=1, dtype=np.float64)


def is_one(observation: Any, leaves: tuple[Leaf, ...]) -> bool:
    """Whether this is one observation of several parts, rather than many."""
    if isinstance(observation, list):
        return False
    value = _part_of(observation, leaves[0])
    return isinstance(value, str) if leaves[0].kind == "text" else np.shape(value) == leaves[0].shape


def one_row(observation: Any, leaves: tuple[Leaf, ...]) -> Floats:
    """Return one observation of several parts as a row of numbers, (1, k); texts not seen are -1."""
    return observation_rows(_of_one(observation, leaves), leaves)


def _of_one(observation: Any, leaves: tuple[Leaf, ...]) -> Any:
    """Return one observation in the form of many, with a length of 1."""
    parts = [_part_of(observation, leaf) for leaf in leaves]
    return _nested(
        leaves,
        [
            (part,) if leaf.kind == "text" else np.asarray(part)[None]
            for leaf, part in zip(leaves, parts, strict=True)
        ],
    )


def structured(rows: NDArray[Any], leaves: tuple[Leaf, ...]) -> Any:
    """Return rows of numbers, (m, k), in the form of the space, with arrays (m, ...) for its parts."""
    parts: list[NDArray[Any]] = []
    for leaf in leaves:
        part = rows[:, leaf.columns]
        if leaf.kind == "text":
            names = np.array([*leaf.texts, ""])  # a text without a number is empty
            parts.append(names[part[:, 0].astype(np.int64)])
        else:
            part = part.reshape(len(rows), *leaf.shape)
            parts.append(part if leaf.kind == "box" else part.astype(np.int64))
    return _nested(leaves, parts)


def plain_observation(row: NDArray[Any], limits: Limits) -> Any:
    """Return an observation as plain numbers, lists, dictionaries and texts."""
    if not limits.leaves:
        return row.tolist()
    ones = structured(row[None], limits.leaves)

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: plain(one) for key, one in part.items()}
        return tuple(map(plain, part)) if isinstance(part, tuple) else part[0].tolist()

    return plain(ones)


def _nested(leaves: tuple[Leaf, ...], parts: list[Any]) -> Any:
    """Put parts into dictionaries and tuples, by the paths to them."""
    if not leaves[0].path:
        return parts[0]
    below: dict[str | int, tuple[list[Leaf], list[Any]]] = {}
    for leaf, part in zip(leaves, parts, strict=True):
        inner, values = below.setdefault(leaf.path[0], ([], []))
        inner.append(Leaf(leaf.path[1:], leaf.kind, leaf.shape, leaf.start, leaf.texts))
        values.append(part)
    made = {key: _nested(tuple(inner), values) for key, (inner, values) in below.items()}
    return made if isinstance(leaves[0].path[0], str) else tuple(made.values())


def _part_of(observation: Any, leaf: Leaf) -> Any:
    value = observation
    for key in leaf.path:
        try:
            value = value[key]
        except (IndexError, KeyError, TypeError):
            raise Wrong(f"{observation!r}, which has nothing at {leaf.name}") from None
    return value


class Flaw(NamedTuple):
    """An element that is not allowed: its position, and what is wrong with it."""

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
    if low.ndim == 0 and not (limits.whole and values.dtype.kind == "f"):
        least, most = values.min(), values.max()  # nan if there is one
        if np.isfinite(least) and np.isfinite(most) and least >= low and most <= high:
            return None
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
    ends = [
        end.astype(int) if limits.whole and np.isfinite(end).all() else end
        for end in (limits.low, limits.high)
    ]
    return Flaw(place, f"{value}, outside the space from {ends[0]} to {ends[1]}")


def first_wrong_duration(durations: Floats) -> Flaw | None:
    """Find the first duration that is negative, far too large or not finite.

    Examples
    --------
    >>> first_wrong_duration(np.array([1.0, 0.0, -2.0]))
    Flaw(place=2, what='-2.0, it must be a number that is not negative')
    """
    right = (durations >= 0.0) & (durations <= LARGEST_NUMBER)
    if right.all():
        return None
    place = int(np.argmin(right))
    limit = (
        f" and at most {LARGEST_NUMBER:g}" if np.isfinite(durations[place]) and durations[place] > 0 else ""
    )
    return Flaw(place, f"{durations[place]}, it must be a number that is not negative{limit}")


class Wrong(Exception):
    """An element cannot even be stored."""


class Recorder:
    """Stores and checks elements of a space, whose arrays the environment may change later.

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
            self.put = self._put_parts if limits.leaves else self._put_array

    def _put_parts(self, value: Any) -> None:
        write_row(self._array[self._count], value, self._limits.leaves)
        self._count += 1

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
        """Return all elements before the first wrong one, and what is wrong; then forget them."""
        values: NDArray[Any]
        if self._scalar:
            values, flaw = whole_numbers(self._numbers)
            self._numbers.clear()
        else:
            values, flaw = self._array[: self._count].copy(), None
            self._count = 0
        flaw = first_flaw(values, self._limits) or flaw
        return (values if flaw is None else values[: flaw.place]), flaw


class BlindRecorder:
    """Like `Recorder`, for observations that are not used: each is stored as the number 0."""

    def __init__(self) -> None:
        self._count = 0

    def put(self, value: Any) -> None:
        """Count an element."""
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def take(self) -> tuple[NDArray[Any], Flaw | None]:
        """Return a 0 for each element; then forget them."""
        zeros = np.zeros(self._count, dtype=np.int64)
        self._count = 0
        return zeros, None


class FreeRecorder:
    """Like `Recorder`, for other spaces: each element is checked at once, and none is stored."""

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
        """Forget the count, and return that nothing was stored and nothing is wrong."""
        self._count = 0
        return np.empty(0), None


def whole_numbers(given: list[Any]) -> tuple[NDArray[np.int64], Flaw | None]:
    """Return a list of single integers as an array, up to the first element that is something else.

    Examples
    --------
    >>> whole_numbers([2, 1.5, 0])
    (array([2]), Flaw(place=1, what='1.5, not an integer'))
    """
    values, place = _uniform(given, "iub")
    if place is None:
        return values.astype(np.int64), None
    return values.astype(np.int64), Flaw(place, f"{given[place]!r}, not an integer")


def real_numbers(given: list[Any], are_rewards: bool = True) -> tuple[Floats, Flaw | None]:
    """Return a list of rewards or durations as an array, up to the first element that is something else.

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
    return values, None if place is None else Flaw(place, not_a_number(given[place], are_rewards))


def _uniform(given: list[Any], kinds: str) -> tuple[NDArray[Any], int | None]:
    """Return single numbers of some types as an array, and the position of the first of another type."""
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


def not_a_number(value: Any, is_reward: bool = True) -> str:
    """Return in words what was given in place of a reward or a duration."""
    if np.ndim(value) and is_reward:
        return (
            f"{value!r}, a vector: choose a weight for each of its {np.size(value)} numbers, for example "
            "with gymnasium.wrappers.TransformReward(env, lambda reward: reward @ weights)"
        )
    return f"{value!r}, not a number"
