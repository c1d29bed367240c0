"""Batch means of a stream of numbers in bounded memory.

`BatchSums` and `BatchMeans` store the stream. It fills batches of one step each; when there is no room for
another one, neighbours are added up and batches become twice as long. So there are always between
`capacity / 2` and `capacity` batches, and the pieces in which the stream arrives change no bit.

`RatioMeans` stores two streams side by side, such as rewards and durations, for the ratio of their sums.
`RatioDifference` is the difference of two such ratios. Both can be read as `BatchMeans` can: near the
ratio g, the mean of (r - g d) / (mean of d) changes as the ratio does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gainbias.kernels import bare_kernel, light_work, plain_form
from gainbias.types import Floats

CAPACITY = 8192
"""Fewer batches than this are kept of a chain: 128 kB with the sums of squares. Of a longer chain this many
first numbers are kept as well, in 64 kB."""

BATCH_PIECE = 2**20
"""Numbers that are processed at once, however many the caller passes."""

FEW_SUMS = 16
"""With fewer sums than this it does not pay off to compute them side by side."""

LONG_SUM, CACHE_LINE = 64, 8
"""Longer sums are rearranged side by side in groups of this number, only for speed."""

SMALLEST_NUMBER, LARGEST_NUMBER = 1e-100, 1e100
"""Sizes of numbers whose fourth powers neither overflow nor underflow."""

NEGLIGIBLE_DEVIATION = 1e-13
"""A standard deviation this small, relative to the largest reward, comes from rounding."""

LOST_SQUARES = 1e-13
"""A mean square this small, relative to the one that it is the difference from, is rounding."""


def unit_of(numbers: Floats) -> float:
    """Return a power of two near the largest of some numbers, or 1 if all are 0.

    Dividing by it costs no digits, and then even fourth powers do not overflow.

    Examples
    --------
    >>> unit_of(np.array([3.0, -5.0]))
    8.0
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    return float(np.ldexp(1.0, min(int(np.frexp(largest)[1]), 1023))) if largest > 0.0 else 1.0


class BatchSums:
    """Sums of several series over batches of equal length.

    Parameters
    ----------
    shape : tuple of int
        Shape of the values of a step.
    capacity : int
        Even; there are always fewer complete batches.
    first_size : int
        Steps in a batch at first.

    Attributes
    ----------
    size : int
        Steps in a batch: the first size times a power of two.
    steps : int
        Steps so far.
    rest : array of this shape
        Sum over the steps after the last complete batch.

    Examples
    --------
    >>> series = BatchSums((1,), capacity=4)
    >>> series.add(np.arange(7.0)[None])
    >>> series.size, series.complete.tolist(), series.rest.tolist()
    (2, [[1.0, 5.0, 9.0]], [6.0])
    """

    def __init__(self, shape: tuple[int, ...], capacity: int = CAPACITY, first_size: int = 1) -> None:
        self._sums = np.zeros((*shape, capacity))
        self._full = 0
        self.size, self.steps, self.rest = first_size, 0, np.zeros(shape)

    @property
    def complete(self) -> Floats:
        """Sums of the complete batches, shape (*shape, batches)."""
        return self._sums[..., : self._full]

    @property
    def capacity(self) -> int:
        """There are always fewer complete batches than this."""
        return self._sums.shape[-1]

    @property
    def rest_steps(self) -> int:
        """Steps after the last complete batch."""
        return self.steps - self._full * self.size

    @property
    def room(self) -> int:
        """Steps that can be added before neighbours are merged."""
        return self._sums.shape[-1] * self.size - self.steps

    def add(self, values: Floats, steps: int = 1) -> None:
        """Add the next steps, (*shape, count), or sums over as many steps each as divide the size."""
        while values.shape[-1] > 0:
            piece = values[..., : self.room // steps]
            fill(piece, self._sums, self.rest, self._full, self.rest_steps // steps, self.size // steps)
            values = values[..., piece.shape[-1] :]
            self.step(piece.shape[-1] * steps)

    def step(self, steps: int) -> None:
        """Count steps that were filled in, at most as many as there was room for."""
        self.steps += steps
        self._full = self.steps // self.size
        if self._full == self._sums.shape[-1]:
            self._full, self.size = self._full // 2, 2 * self.size
            self._sums[..., : self._full] = self._sums[..., ::2] + self._sums[..., 1::2]

    def beside(self, other: BatchSums) -> BatchSums:
        """Return both side by side along the last axis of their shapes; they must have equally many steps."""
        joined = BatchSums((*self.rest.shape[:-1], self.rest.shape[-1] + other.rest.shape[-1]))
        joined._sums = np.concatenate([self._sums, other._sums], axis=-2)
        joined.rest = np.concatenate([self.rest, other.rest], axis=-1)
        joined._full, joined.size, joined.steps = self._full, self.size, self.steps
        return joined

    @classmethod
    def restored(cls, complete: Floats, rest: Floats, size: int, steps: int) -> Self:
        """Return sums with these complete batches and this rest."""
        made = cls(rest.shape)
        made._full = complete.shape[-1]
        made._sums[..., : made._full] = complete
        made.rest[...], made.size, made.steps = rest, size, steps
        return made

    def first(self, batches: int) -> BatchSums:
        """Return the sums as they were after the first `batches` complete batches."""
        part = BatchSums(self.rest.shape, capacity=0)
        part._sums, part._full = self._sums, batches
        part.size, part.steps = self.size, batches * self.size
        return part


def fill(values: Floats, sums: Floats, rest: Floats, full: int, begun: int, size: int) -> None:
    """Add values, for which there is room, to sums over batches, one by one, wherever pieces end.

    Parameters
    ----------
    values : (..., count) array
    sums : (..., batches) array
        The first `full` have their sums; those that become complete are written after them.
    rest : (...) array
        Sum of the `begun` values of the batch that is not complete, before and afterwards.
    full, begun, size : int
        Complete batches, values in the next one, and values in each.
    """
    head = values[..., : size - begun]
    if begun:
        rest[...] = _last_sum(np.concatenate([rest[..., None], head], axis=-1))
        if begun + head.shape[-1] < size:
            return
        sums[..., full] = rest
        full, values = full + 1, values[..., head.shape[-1] :]
    batches, left = divmod(values.shape[-1], size)
    whole = values[..., : batches * size].reshape(*values.shape[:-1], batches, size)
    sums[..., full : full + batches] = _last_sum(whole)
    rest[...] = _last_sum(values[..., -left:]) if left else 0.0


def _last_sum(values: Floats) -> Floats:
    """Return sums along the last axis. Each is added up step by step, from 0.0 on, but many side by side."""
    sums = values[..., 0]
    if sums.size < FEW_SUMS:
        sums = np.cumsum(values, axis=-1)[..., -1]
    elif values.shape[-1] > 1:
        rows = values.reshape(sums.size, -1)
        in_time = np.empty(rows.shape[::-1])
        width = CACHE_LINE if rows.shape[1] > LONG_SUM else len(rows)  # a few distant rows fill the cache
        for begin in range(0, len(rows), width):
            in_time[:, begin : begin + width] = rows[begin : begin + width].T
        sums = np.add.reduce(in_time, axis=0).reshape(sums.shape)
    return np.asarray(sums + 0.0)  # a sum of only -0.0 is 0.0, too


class BatchMeans:
    """Rewards of independent chains of equal length, as batch sums of the rewards and of their squares.

    Both are kept relative to the first reward of each chain, so that a large constant costs no digits.

    Parameters
    ----------
    num_chains : int
        Number of chains.

    Attributes
    ----------
    largest : float
        Largest absolute reward so far, which bounds differences that come from rounding.
    head : (chains, 0 or `CAPACITY`) array
        The first rewards of each chain, less its first one, once batches have more than one reward: periods
        within a batch show only here. Before that each reward is a batch.

    Examples
    --------
    >>> rewards = BatchMeans()
    >>> rewards.add([1.0, 2.0])
    >>> rewards.add([3.0])
    >>> rewards.steps, rewards.mean
    (3, 2.0)
    """

    def __init__(self, num_chains: int = 1) -> None:
        if num_chains < 1:
            raise ValueError(f"num_chains must be at least 1, found {num_chains}")
        self.origin = np.zeros(num_chains)
        self.sums = BatchSums((2, num_chains))
        self.largest, self.head = 0.0, np.zeros((num_chains, 0))

    @classmethod
    def of(cls, rewards: ArrayLike) -> Self:
        """Return the batches of rewards in memory, shape (chains, steps) or (steps,)."""
        array = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
        batches = cls(len(array))
        batches.add(array)
        return batches

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.origin)

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.sums.steps

    @property
    def mean(self) -> float:
        """Mean of all rewards."""
        return self.mean_after(0)

    @property
    def rounding(self) -> float:
        """A standard deviation up to this comes from rounding."""
        return NEGLIGIBLE_DEVIATION * self.largest

    def mean_after(self, cut: int) -> float:
        """Mean of all rewards after the first `cut` batches."""
        totals = self.sums.complete[0, :, cut:].sum(axis=-1) + self.sums.rest[0]
        return float(np.mean(self.origin + totals / (self.steps - cut * self.sums.size)))

    def add(self, rewards: ArrayLike) -> None:
        """Add the next rewards, shape (chains, count), or (count,) for one chain."""
        array = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
        if array.ndim != 2 or len(array) != self.num_chains:
            raise ValueError(f"rewards must have shape ({self.num_chains}, count), found {array.shape}")
        self._admit(array)
        width = max(1, BATCH_PIECE // self.num_chains)
        for begin in range(0, array.shape[1], width):
            piece = array[:, begin : begin + width]
            self._keep_head(piece)
            self.sums.add(_with_squares(piece, self.origin))

    def _admit(self, array: Floats) -> None:
        """Refuse the next rewards, (chains, count), if they are not finite, and note how large they are."""
        largest = float(np.abs(array).max(initial=0.0))
        if not largest < np.inf:
            chain, step = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(
                f"rewards must be finite, found {array[chain, step]} in chain {chain} at step "
                f"{self.steps + step}"
            )
        if self.steps == 0 and array.shape[1] > 0:
            self.origin = array[:, 0].copy()
        self.largest = max(self.largest, largest)

    def _keep_head(self, piece: Floats) -> None:
        """Store the first rewards, less the first one, before a piece is added that goes beyond them."""
        if self.steps < CAPACITY <= self.steps + piece.shape[1]:  # so far each batch is one reward
            behind = piece - self.origin[:, None]
            self.head = np.concatenate([self.sums.complete[0], behind], axis=1)[:, :CAPACITY]

    def state(self) -> tuple[dict[str, int | float], dict[str, Floats]]:
        """Return all numbers and all arrays that `restored` needs."""
        numbers = {"size": self.sums.size, "steps": self.steps, "largest": self.largest}
        arrays = {"origin": self.origin, "complete": self.sums.complete, "rest": self.sums.rest}
        return numbers, arrays | {"head": self.head}

    @classmethod
    def restored(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Self:
        """Return the object whose `state` this was, to the last bit."""
        made = cls(len(arrays["origin"]))
        made.origin, made.largest = arrays["origin"], numbers["largest"]
        made.head = arrays.get("head", made.head)  # files of earlier versions have none
        made.sums = BatchSums.restored(arrays["complete"], arrays["rest"], numbers["size"], numbers["steps"])
        return made

    def about(self, centre: float, cut: int = 0) -> tuple[Floats, Floats]:
        """Return means of the rewards less `centre`, and of the squares of that, each (chains, batches).

        The first `cut` batches are left out. If squares have lost their digits, because the first reward
        was very far away, they are replaced by those of the batch means, which have not.
        """
        mean, square = self.sums.complete[:, :, cut:] / self.sums.size
        shift = (self.origin - centre)[:, None]
        means, squares = mean + shift, square + shift * (2.0 * mean + shift)
        return means, np.where(squares > LOST_SQUARES * square, squares, means**2)

    def with_rest(self, centre: float, cut: int = 0) -> Floats:
        """Return means of the rewards less `centre`, (chains, batches), including steps after the last batch.

        These also make a batch, if there are any: its missing steps count as `centre`.

        Examples
        --------
        >>> BatchMeans.of([1.0, 2.0, 3.0]).with_rest(2.0)
        array([[-1.,  0.,  1.]])
        """
        means = self.about(centre, cut)[0]
        if not self.sums.rest_steps:
            return means
        rest = self.sums.rest[0] + self.sums.rest_steps * (self.origin - centre)
        return np.concatenate([means, rest[:, None] / self.sums.size], axis=1)

    def head_about(self, centre: float) -> Floats:
        """Return the first rewards, relative to any level."""
        return self.head

    def columns_after(self, cut: int) -> tuple[Floats, ...]:
        """Return nothing: this is not a ratio, and has no further columns."""
        return ()

    def groups_after(self, cut: int, count: int, centre: float) -> Floats:
        """Return means less `centre` over `count` groups of neighbouring batches, (chains, groups).

        No reward after the first `cut` batches is left out: groups may differ by a batch in length, and the
        last one has the steps after the last complete batch.

        Examples
        --------
        >>> BatchMeans.of([1.0, 2.0, 3.0, 4.0, 8.0]).groups_after(0, 2, centre=3.0)
        array([[-1.5,  2. ]])
        """
        sums = self.sums.complete[0, :, cut:]
        edges = np.linspace(0, sums.shape[1], min(count, sums.shape[1]) + 1).astype(np.int64)
        totals, lengths = np.add.reduceat(sums, edges[:-1], axis=1), np.diff(edges) * self.sums.size
        totals[:, -1] += self.sums.rest[0]
        lengths[-1] += self.sums.rest_steps
        return np.asarray(totals / lengths + (self.origin - centre)[:, None])

    def variance_after(self, cut: int) -> float:
        """Variance of all rewards after the first `cut` batches; 0 if they differ only by rounding.

        If squares have lost their digits it is that of the batch means, which is never larger.
        """
        steps, centre = self.steps - cut * self.sums.size, self.mean_after(cut)
        mean, square = (self.sums.complete[:, :, cut:].sum(axis=-1) + self.sums.rest) / steps
        shift = self.origin - centre
        variance = float(np.mean(square + shift * (2.0 * mean + shift)))
        if not variance > LOST_SQUARES * float(square.max()):
            variance = float(np.mean(self.about(centre, cut)[0] ** 2))
        return variance if variance > self.rounding**2 else 0.0

    def first(self, batches: int) -> BatchMeans:
        """Return the rewards as they were after the first `batches` batches; nothing can be added to them."""
        part = BatchMeans(self.num_chains)
        part.origin, part.sums, part.largest = self.origin, self.sums.first(batches), self.largest
        part.head = self.head[:, : part.steps]
        return part

    def merge(self, other: BatchMeans) -> BatchMeans:
        """Return the batches of the chains of both, which must have the same length."""
        if self.steps != other.steps:
            raise ValueError(f"chains must have equal lengths, found {self.steps} and {other.steps} steps")
        merged = BatchMeans(self.num_chains + other.num_chains)
        merged.origin = np.concatenate([self.origin, other.origin])
        merged.sums = self.sums.beside(other.sums)
        merged.largest = max(self.largest, other.largest)
        merged.head = np.concatenate([self.head, other.head])
        return merged


def _with_squares(piece: Floats, origin: Floats) -> Floats:
    """Return numbers (chains, count) less the first of each chain, and the squares of that."""
    both = np.empty((2, *piece.shape))
    np.subtract(piece, origin[:, None], out=both[0])
    np.multiply(both[0], both[0], out=both[1])
    return both


def _plain(piece: Floats) -> Floats:
    """Return numbers as a contiguous writable array: for other kinds a kernel is compiled again."""
    return np.require(piece, requirements=["C", "W"])


@bare_kernel
def fill_pairs(
    above: Floats,
    below: Floats,
    above_origin: Floats,
    below_origin: Floats,
    tops: Floats,
    top_rest: Floats,
    bottoms: Floats,
    bottom_rest: Floats,
    products: Floats,
    product_rest: Floats,
    full: int,
    begun: int,
    size: int,
) -> None:
    """Add two series, (chains, count), less their origins, to sums of both, of their squares and products.

    It goes through memory once, while `fill` would five times. Sums and rests are the same as there.
    """
    for chain in range(above.shape[0]):
        batch, steps = full, begun
        top, top_square = top_rest[0, chain], top_rest[1, chain]
        bottom, bottom_square = bottom_rest[0, chain], bottom_rest[1, chain]
        product = product_rest[chain]
        for step in range(above.shape[1]):
            x = above[chain, step] - above_origin[chain]
            y = below[chain, step] - below_origin[chain]
            top += x
            top_square += x * x
            bottom += y
            bottom_square += y * y
            product += x * y
            steps += 1
            if steps == size:
                tops[0, chain, batch], tops[1, chain, batch] = top, top_square
                bottoms[0, chain, batch], bottoms[1, chain, batch] = bottom, bottom_square
                products[chain, batch] = product
                batch, steps = batch + 1, 0
                top = top_square = bottom = bottom_square = product = 0.0
        top_rest[0, chain], top_rest[1, chain] = top, top_square
        bottom_rest[0, chain], bottom_rest[1, chain] = bottom, bottom_square
        product_rest[chain] = product


@plain_form(fill_pairs)
def fill_pairs_one_by_one(
    above: Floats,
    below: Floats,
    above_origin: Floats,
    below_origin: Floats,
    tops: Floats,
    top_rest: Floats,
    bottoms: Floats,
    bottom_rest: Floats,
    products: Floats,
    product_rest: Floats,
    full: int,
    begun: int,
    size: int,
) -> None:
    """Do what `fill_pairs` does, one sum after the other."""
    first, second = _with_squares(above, above_origin), _with_squares(below, below_origin)
    fill(first, tops, top_rest, full, begun, size)
    fill(second, bottoms, bottom_rest, full, begun, size)
    fill(first[0] * second[0], products, product_rest, full, begun, size)


class RatioMeans:
    """Two series of independent chains that were recorded together, as batch sums; its mean is their ratio.

    Means less a centre g are those of (r - g d) / (mean of d), in which the error of the ratio is to first
    order a mean like any other.

    Parameters
    ----------
    num_chains : int
        Number of chains.

    Attributes
    ----------
    tops, bottoms : BatchMeans
        Numerators and denominators.

    Examples
    --------
    >>> earned = RatioMeans()
    >>> earned.add([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    >>> earned.steps, earned.mean
    (3, 1.5)
    """

    def __init__(self, num_chains: int = 1) -> None:
        self.tops, self.bottoms = BatchMeans(num_chains), BatchMeans(num_chains)
        self._products = BatchSums((num_chains,))

    @property
    def sums(self) -> BatchSums:
        """Batch sums of the tops, for the size of batches."""
        return self.tops.sums

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return self.tops.num_chains

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.tops.steps

    @property
    def mean(self) -> float:
        """Ratio of the sums of both series."""
        return self.mean_after(0)

    @property
    def rounding(self) -> float:
        """A standard deviation up to this comes from rounding."""
        below = self.bottoms.mean
        return (self.tops.rounding + abs(self.tops.mean / below) * self.bottoms.rounding) / abs(below)

    def add(self, tops: ArrayLike, bottoms: ArrayLike) -> None:
        """Add the next steps of both, each of shape (chains, count), or (count,) for one chain."""
        above, below = (np.atleast_2d(np.asarray(part, dtype=np.float64)) for part in (tops, bottoms))
        if above.shape != below.shape:
            raise ValueError(f"both series must have the same length, found {above.shape} and {below.shape}")
        self.tops._admit(above)
        self.bottoms._admit(below)
        while above.shape[1] > 0:
            count = min(self.sums.room, max(1, BATCH_PIECE // self.num_chains))
            self._fill(_plain(above[:, :count]), _plain(below[:, :count]))
            above, below = above[:, count:], below[:, count:]

    def _fill(self, above: Floats, below: Floats) -> None:
        """Add the next steps of both, (chains, count), for which there is room."""
        self.tops._keep_head(above)
        self.bottoms._keep_head(below)
        tops, bottoms, products = self.tops.sums, self.bottoms.sums, self._products
        origins = self.tops.origin, self.bottoms.origin
        kept = tops._sums, tops.rest, bottoms._sums, bottoms.rest, products._sums, products.rest
        with light_work():
            fill_pairs(above, below, *origins, *kept, tops._full, tops.rest_steps, tops.size)
        for part in (tops, bottoms, products):
            part.step(above.shape[1])

    @classmethod
    def of(cls, tops: ArrayLike, bottoms: ArrayLike) -> Self:
        """Return the batches of two series in memory, each of shape (chains, steps) or (steps,)."""
        made = cls(len(np.atleast_2d(np.asarray(tops))))
        made.add(tops, bottoms)
        return made

    def head_about(self, centre: float) -> Floats:
        """Return the first steps of r - centre d, relative to any level."""
        return self.tops.head - centre * self.bottoms.head

    def columns_after(self, cut: int) -> tuple[Floats, ...]:
        """Return means over batches of the tops and of the bottoms, each less its mean, (chains, batches)."""
        return tuple(part.with_rest(part.mean_after(cut), cut) for part in (self.tops, self.bottoms))

    def mean_after(self, cut: int) -> float:
        """Ratio of the sums after the first `cut` batches."""
        return self.tops.mean_after(cut) / self.below(cut)

    def below(self, cut: int = 0) -> float:
        """Mean of the bottoms after the first `cut` batches; of all if that is 0."""
        return self.bottoms.mean_after(cut) or self.bottoms.mean

    def about(self, centre: float, cut: int = 0) -> tuple[Floats, Floats]:
        """Return means of (r - centre d) / (mean of d), and of the squares of that, each (chains, batches).

        The first `cut` batches are left out.
        """
        parts = (self.tops.sums, self.bottoms.sums, self._products)
        return self._squared(centre, cut, *(part.complete[..., cut:] / self.sums.size for part in parts))

    def with_rest(self, centre: float, cut: int = 0) -> Floats:
        """Return means of (r - centre d) / (mean of d), (chains, batches), as `BatchMeans.with_rest` does."""
        below = self.below(cut)
        above, under = self.tops.with_rest(centre * below, cut), self.bottoms.with_rest(below, cut)
        return np.asarray((above - centre * under) / below)

    def groups_after(self, cut: int, count: int, centre: float) -> Floats:
        """Return means of (r - centre d) / (mean of d) over groups of batches, (chains, groups)."""
        above, under = (part.groups_after(cut, count, 0.0) for part in (self.tops, self.bottoms))
        return np.asarray((above - centre * under) / self.below(cut))

    def variance_after(self, cut: int) -> float:
        """Variance of (r - g d) / (mean of d) in one step, g the ratio; 0 if it is only rounding."""
        steps = self.steps - cut * self.sums.size
        parts = (self.tops.sums, self.bottoms.sums, self._products)
        totals = ((part.complete[..., cut:].sum(axis=-1) + part.rest)[..., None] / steps for part in parts)
        variance = float(np.mean(self._squared(self.mean_after(cut), cut, *totals)[1]))
        return variance if variance > self.rounding**2 else 0.0

    def first(self, batches: int) -> RatioMeans:
        """Return both as they were after the first `batches` batches; nothing can be added to them."""
        part = RatioMeans(self.num_chains)
        part.tops, part.bottoms = self.tops.first(batches), self.bottoms.first(batches)
        part._products = self._products.first(batches)
        return part

    def _squared(
        self, centre: float, cut: int, tops: Floats, bottoms: Floats, products: Floats
    ) -> tuple[Floats, Floats]:
        """Return mean and mean square of (r - centre d) / (mean of d), from means about the origins."""
        below = self.below(cut)
        shift = (self.tops.origin - centre * self.bottoms.origin)[:, None]
        mean = tops[0] - centre * bottoms[0]
        square = tops[1] - 2.0 * centre * products + centre**2 * bottoms[1]
        means, squares = mean + shift, square + shift * (2.0 * mean + shift)
        is_kept = squares > LOST_SQUARES * (tops[1] + centre**2 * bottoms[1] + shift**2)
        return means / below, np.where(is_kept, squares, means**2) / below**2


class RatioDifference:
    """The difference of the ratios of two runs that were paired step by step; it can be read as `BatchMeans`.

    Parameters
    ----------
    first, second : RatioMeans
        Of equal length.
    """

    def __init__(self, first: RatioMeans, second: RatioMeans) -> None:
        self._first, self._second = first, second

    @property
    def sums(self) -> BatchSums:
        """Batch sums of the first, for the size of batches."""
        return self._first.sums

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return self._first.num_chains

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self._first.steps

    @property
    def mean(self) -> float:
        """Difference of both ratios."""
        return self.mean_after(0)

    @property
    def rounding(self) -> float:
        """A standard deviation up to this comes from rounding."""
        return self._first.rounding + self._second.rounding

    def mean_after(self, cut: int) -> float:
        """Difference of both ratios after the first `cut` batches."""
        return self._first.mean_after(cut) - self._second.mean_after(cut)

    def about(self, centre: float, cut: int = 0) -> tuple[Floats, Floats]:
        """Return by how much each batch moves the difference, less `centre`, and the squares of that."""
        means = self._apart(lambda part, ratio: part.about(ratio, cut)[0], centre, cut)
        return means, means**2

    def with_rest(self, centre: float, cut: int = 0) -> Floats:
        """Return by how much each batch moves the difference, less `centre`, including a last partial one."""
        return self._apart(lambda part, ratio: part.with_rest(ratio, cut), centre, cut)

    def head_about(self, centre: float) -> Floats:
        """Return by how much each of the first steps moves the difference, relative to any level."""
        first, second = (part.head_about(part.mean) / part.below() for part in (self._first, self._second))
        return np.asarray(first - second)

    def columns_after(self, cut: int) -> tuple[Floats, ...]:
        """Return means over batches of all four columns, each less its mean, (chains, batches)."""
        return *self._first.columns_after(cut), *self._second.columns_after(cut)

    def groups_after(self, cut: int, count: int, centre: float) -> Floats:
        """Return by how much groups of batches move the difference, less `centre`."""
        return self._apart(lambda part, ratio: part.groups_after(cut, count, ratio), centre, cut)

    def variance_after(self, cut: int) -> float:
        """Variance of one step, as if steps were independent within a batch; 0 if it is only rounding."""
        size = self.sums.size
        variance = float(self.with_rest(self.mean_after(cut), cut).var()) * size
        return variance if variance > size * self.rounding**2 else 0.0

    def _apart(self, read: Callable[[RatioMeans, float], Floats], centre: float, cut: int) -> Floats:
        first, second = (read(part, part.mean_after(cut)) for part in (self._first, self._second))
        return first - second + (self.mean_after(cut) - centre)


AnyMeans: TypeAlias = BatchMeans | RatioMeans | RatioDifference
"""Everything that an interval can be made of."""
