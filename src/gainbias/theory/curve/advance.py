"""From the moments before the first step to those at checkpoints, by the shortest way.

Other modules call `moments_at`. A step is linear in the moments. So, if there are few of them, it is a
matrix: constant step sizes need a few powers of it, others a product with it for each step. If there are
many and samples are independent, moments change little in a step, and smoothly. With constant step sizes
they stay, for many steps, in a space of few dimensions, where powers are cheap again (`by_krylov`); otherwise
a block of many steps is the fixed point of S_t = S_0 + sum over i < t of alpha_i slope_i, with slopes between
some nodes interpolated by a polynomial (`by_blocks`). Both are exact to rounding. Along a chain steps are
taken one by one. Methods that may take long first estimate their time, and refuse or warn (`say_time`).

`by_krylov`. A step with a constant size is S <- M S with a linear map M. In K steps S changes by the sum over
j < K of M^j b, where b = M S - S. An orthonormal basis V of b, M b, ..., M^(m-1) b (the Krylov space, by
Arnoldi) obeys M V = V H + h v e_m^T with an m x m matrix H and one vector v more. So the change is |b| V y_K
with

    y_0 = 0,     y_(k+1) = H y_k + e_1,

but for what leaves the space, h v e_m^T y_k in each step. Powers of a matrix of m + 2 rows give y_K and the
sum of what left, for any K. K is as large as that sum allows; then a new space is made. The space contains
changes, not the moments themselves: the entry 1 of the moments never changes, and a limit that has been
reached does not move.

`by_blocks`. A field such as a learnt gain forgets itself faster than weights change, at a known rate c. Its
entries of S are therefore followed exactly: with g = (1 - alpha c)(1 - alpha c') for the two fields of an
entry, and c = 0 for weights,

    S_(t+1) = g_t S_t + alpha_t R_t,     R = slope + (1 - g) / alpha S,

and R is smooth once the field has forgotten where it began. In a block, R is a polynomial between some nodes:
S at the nodes is the fixed point of repeated substitution.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.linalg import blas

from gainbias.engine.schedules import Constant, Schedule
from gainbias.progress import Watch
from gainbias.types import Floats, Ints

MOST_FOR_POWERS = 700
"""Up to this many moments make a matrix that is squared in milliseconds."""

MOST_FOR_MATRIX = 150
"""A product with a matrix this large takes less time than the shortest step written out."""

SCHEDULE_STRETCH = 4096
"""Step sizes are computed in stretches of this length."""

LONG = 60.0
"""If a curve takes more seconds than this, a warning says so first."""

MOST_VECTORS = 40
"""Largest number of vectors in a basis."""

EXACT_POWERS = 1e-14
"""Largest part of a change that may leave the space."""

DEPENDENT = 1e-14
"""A vector of which only this share is new lies in the space, to rounding."""

REACH = 1.5
"""Sum of the step sizes of a block, times the fastest rate of the moments."""

NODES = 18
"""Nodes at which slopes are computed in a block."""

MOST_SWEEPS = 40
"""Repeated substitutions after which a block is given up and shorter ones are tried."""

EXACT_BLOCKS = 1e-15
"""Relative change of the moments at which repeated substitution ends."""

WORTH = 600
"""Steps from which on a block with nodes takes less time than steps one by one."""

LONGEST = 100_000
"""Largest number of steps of a block: weights are computed for each of them."""

SMOOTH = 1e-14
"""Largest difference between step sizes and their polynomial, relative to the largest of them."""

TRUE = 1e-11
"""Largest difference between a slope and its polynomial, relative to the largest slope."""

FAST = 3.0
"""Fields that forget this many times as fast as other moments change are followed exactly."""

FORGOTTEN_EXPONENT = 40.0
"""When step sizes times the rate of a field add up to this, its start is forgotten."""

SMALLEST_DIVISOR = 1e-300
"""Added to a divisor that may be 0."""


class Recursion(Protocol):
    """A recursion of moments: see `Independent`, `Along` and `Enumerated`."""

    fixed: bool

    def begin(self, x: Floats) -> Floats:
        """Return the moments, (nodes, k, k), of first values x."""

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return the moments after a step."""

    def change_of_sum(self, moments: Floats, step_size: float) -> Floats:
        """Return the change of the sum over nodes in a step, (k, k), with all digits."""


@runtime_checkable
class Smooth(Protocol):
    """A recursion of moments that knows its slope, the change in a step over the step size."""

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return the moments after a step."""

    def slope(self, moments: Floats, step_size: float) -> Floats:
        """Return the change in a step, divided by the step size."""

    def forgetting(self, step_size: float) -> Floats:
        """Return the rate at which each entry of z forgets itself, 0 for those that need not be fast."""


def moments_at(
    recursion: Recursion,
    first: Floats,
    schedule: Schedule,
    checkpoints: Ints,
    time_limit: float | None = None,
) -> Floats:
    """Return the second moments at checkpoints, summed over nodes: (checkpoints, k, k).

    They are infinite from where they are larger than any number.

    Parameters
    ----------
    recursion : Recursion
    first : (k - 1,) array
        First values, measured from the origin.
    schedule : Schedule
        Step sizes.
    checkpoints : (checkpoints,) int array
        Numbers of steps, increasing.
    time_limit : float, optional
        Seconds after which `OutOfTimeError` is raised; ValueError if that can be foreseen.
    """
    found = np.empty((len(checkpoints), len(first) + 1, len(first) + 1))
    ways = _way(recursion, first, schedule, checkpoints, time_limit)
    with Watch(time_limit) as watch, np.errstate(over="ignore", invalid="ignore"):  # moments may diverge
        for k, moments in enumerate(ways):
            found[k] = moments.sum(axis=0)
            if not np.isfinite(found[k]).all():
                found[k:] = np.inf
                break
            watch.show("exact curve", float(checkpoints[k]), float(checkpoints[-1]))
    return found


def _way(
    recursion: Recursion, first: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    begin = recursion.begin(first)
    count = len(begin) * (len(first) + 1) * (len(first) + 2) // 2
    if isinstance(schedule, Constant) and count <= MOST_FOR_POWERS:
        return _by_powers(recursion, begin, schedule.a, checkpoints)
    if recursion.fixed and count <= MOST_FOR_MATRIX:
        return _by_matrix(recursion, begin, schedule, checkpoints, time_limit)
    if isinstance(recursion, Smooth) and isinstance(schedule, Constant):
        return by_krylov(recursion, begin, schedule.a, checkpoints, time_limit)
    if isinstance(recursion, Smooth):
        return by_blocks(recursion, begin, schedule, checkpoints, time_limit)
    return _by_steps(recursion, begin, schedule, checkpoints, time_limit)


def say_time(seconds: float, time_limit: float | None, nodes: int = 1) -> None:
    """Raise an error if a curve takes longer than its limit; without a limit, warn if it takes long.

    More than one node means samples along a chain: independent samples have one.
    """
    if time_limit is not None and seconds > time_limit:
        cheaper = ", or use sampling='iid', which costs less" if nodes > 1 else ""
        raise ValueError(
            f"this curve would take about {seconds:.3g} s, more than time_limit={time_limit:g}: allow more "
            f"time, or ask for fewer steps{cheaper}"
        )
    if time_limit is None and seconds > LONG:
        warnings.warn(f"this curve takes about {seconds:.0f} s", stacklevel=2)


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Return the seconds that some work takes: the least of several times after a first one.

    The least, because other programs can only make it longer.
    """
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _by_steps(
    recursion: Recursion, now: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Yield the moments at checkpoints, by taking all steps."""
    done, last = 0, int(checkpoints[-1])
    begin, size = now, float(schedule.values(0, 1)[0])
    say_time(last * seconds_of(lambda: recursion.step(begin, size), repeats=3), time_limit, len(begin))
    for checkpoint in checkpoints:
        while done < checkpoint:
            until = min(done + SCHEDULE_STRETCH, int(checkpoint))
            for step_size in schedule.values(done, until):
                now = recursion.step(now, float(step_size))
            done = until
        yield now


def _by_powers(recursion: Recursion, begin: Floats, size: float, checkpoints: Ints) -> Iterator[Floats]:
    """Yield the moments at checkpoints, by powers of the matrix of one step, found by squaring.

    All are stored minus I: slow moments differ from it by little, and no digit of that is lost. Along a
    chain the moments of a node change a lot, because the chain moves, but their sum over all nodes changes
    little. So this sum replaces the first node.
    """

    def change(moments: Floats) -> Floats:
        moments = _with_first(moments)
        found = recursion.step(moments, size) - moments
        found[0] = recursion.change_of_sum(moments, size)
        return found

    packing = _Packing(begin.shape)
    powers = [packing.matrix(change)]
    now, done = packing.pack(_with_sum(begin)), 0
    for checkpoint in checkpoints:
        left, bit = int(checkpoint) - done, 0
        while left >> bit:
            if bit == len(powers):
                powers.append(2.0 * powers[-1] + powers[-1] @ powers[-1])
            if (left >> bit) & 1:
                now = now + powers[bit] @ now
            bit += 1
        done = int(checkpoint)
        yield _with_first(packing.unpack(now))


def _with_sum(moments: Floats) -> Floats:
    """Return moments with their sum over nodes in place of the first node."""
    return np.concatenate([moments.sum(axis=0, keepdims=True), moments[1:]])


def _with_first(moments: Floats) -> Floats:
    """Return the moments from which `_with_sum` made these."""
    return np.concatenate([moments[:1] - moments[1:].sum(axis=0), moments[1:]])


def _by_matrix(
    recursion: Recursion, begin: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Yield the moments at checkpoints, by matrices that are polynomials of degree 2 in the step size."""
    packing = _Packing(begin.shape)
    none, half, one = (packing.matrix(partial(recursion.step, step_size=size)) for size in (0.0, 0.5, 1.0))
    parts = np.concatenate([none, 4.0 * half - one - 3.0 * none, 2.0 * (one + none - 2.0 * half)])
    now, done = packing.pack(begin), 0
    vector = now
    seconds = int(checkpoints[-1]) * 1.5 * seconds_of(lambda: parts @ vector, repeats=100)
    say_time(seconds, time_limit, len(begin))
    for checkpoint in checkpoints:
        while done < checkpoint:
            until = min(done + SCHEDULE_STRETCH, int(checkpoint))
            sizes = schedule.values(done, until)
            for weights in np.stack([np.ones_like(sizes), sizes, sizes**2], axis=1):
                now = weights @ (parts @ now).reshape(3, -1)
            done = until
        yield packing.unpack(now)


class _Packing:
    """Symmetric matrices of all nodes as one vector, each pair of entries once."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.rows, self.columns = np.triu_indices(shape[1])

    def pack(self, moments: Floats) -> Floats:
        return moments[:, self.rows, self.columns].ravel()

    def unpack(self, vector: Floats) -> Floats:
        moments = np.zeros(self.shape)
        moments[:, self.rows, self.columns] = vector.reshape(self.shape[0], -1)
        moments[:, self.columns, self.rows] = moments[:, self.rows, self.columns]
        return moments

    def matrix(self, linear: Callable[[Floats], Floats]) -> Floats:
        """Return the matrix of a linear function of moments."""
        count = self.shape[0] * len(self.rows)
        return np.array([self.pack(linear(self.unpack(e))) for e in np.eye(count)]).T


def by_krylov(
    recursion: Smooth, now: Floats, step_size: float, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Yield the moments at checkpoints, for a constant step size, by powers in a Krylov space."""
    waiting, done, last = [int(checkpoint) for checkpoint in checkpoints], 0, int(checkpoints[-1])
    while waiting:
        began = time.perf_counter()
        space = Space(recursion, now, step_size)
        if not np.isfinite(space.size):  # beyond the largest number
            yield from [np.full_like(now, np.inf)] * len(waiting)
            return
        length = space.reach(last - done)
        if done == 0 and length:
            say_time((time.perf_counter() - began) * last / length, time_limit)
        reached = [checkpoint for checkpoint in waiting if checkpoint <= done + length]
        yield from (space.after(checkpoint - done) for checkpoint in reached)
        waiting = waiting[len(reached) :]
        now, done = space.after(length), done + length


class Space:
    """The Krylov space in which moments change in the next steps.

    Parameters
    ----------
    recursion : Smooth
        The recursion of the moments.
    begin : (nodes, k, k) array
        The moments now.
    step_size : float
    """

    def __init__(self, recursion: Smooth, begin: Floats, step_size: float) -> None:
        self.begin = begin
        change = step_size * recursion.slope(begin, step_size).ravel()
        self.size = float(blas.dnrm2(change))
        self.basis = np.zeros((MOST_VECTORS + 1, change.size))
        step = np.zeros((MOST_VECTORS + 2, MOST_VECTORS + 2))
        self.count = 0
        new = change / self.size if 0.0 < self.size < np.inf else change
        share = self.size
        while self.count < MOST_VECTORS and 0.0 < share < np.inf:
            self.basis[self.count] = new
            self.count += 1
            basis = self.basis[: self.count]
            new = step_size * recursion.slope(new.reshape(begin.shape), step_size).ravel()
            whole = float(blas.dnrm2(new))
            for _ in range(2):  # once is not enough: the rest may be small
                shares = basis @ new
                new -= shares @ basis
                step[: self.count, self.count - 1] += shares
            share = float(blas.dnrm2(new))
            share = 0.0 if share <= DEPENDENT * whole else share
            step[self.count, self.count - 1] = share
            new = new / share if share > 0.0 else new
        self._add_sums(step)

    def _add_sums(self, step: Floats) -> None:
        """Make the matrix of (y, what left, 1) out of H - I, with h below it.

        All powers are stored minus I: slow moments differ from it by little, and no digit of that is lost.
        """
        m = self.count
        matrix = step[: m + 2, : m + 2].copy()
        matrix[: min(m, 1), m + 1] = 1.0  # no space at all: nothing changes
        self._powers = [matrix]
        self._first = np.eye(m + 2)[-1]

    def reach(self, most: int) -> int:
        """Return the largest number of steps, at most `most`, after which the change is known."""
        while 2 ** len(self._powers) <= most and self._known(self._powers[-1] @ self._first):
            self._powers.append(2.0 * self._powers[-1] + self._powers[-1] @ self._powers[-1])
        length, now = 0, self._first
        for bit in reversed(range(len(self._powers))):
            after = now + self._powers[bit] @ now
            if length + 2**bit <= most and self._known(after):
                length, now = length + 2**bit, after
        return length

    def _known(self, sums: Floats) -> bool:
        return bool(abs(sums[-2]) <= EXACT_POWERS * np.linalg.norm(sums[:-2]))

    def after(self, num_steps: int) -> Floats:
        """Return the moments after some steps, no more than `reach` found."""
        sums = self._first
        for bit, power in enumerate(self._powers):
            if num_steps >> bit & 1:
                sums = sums + power @ sums
        change = self.size * (sums[:-2] @ self.basis[: self.count])
        return np.asarray(self.begin + change.reshape(self.begin.shape))


def by_blocks(
    recursion: Smooth, now: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Yield the moments at checkpoints, by blocks of many steps."""
    last, done = int(checkpoints[-1]), 0
    fast, rate, unsettled, seconds = _fast_entries(recursion, now, _size_at(schedule, 0))
    say_time(seconds * _products_needed(schedule, rate, last), time_limit)
    waiting = [int(checkpoint) for checkpoint in checkpoints]
    while waiting:
        block = _block_length(schedule, rate, done, last) if unsettled <= 0.0 else 0
        length = block or min(WORTH, last - done)
        reached = [checkpoint for checkpoint in waiting if checkpoint <= done + length]
        ends = np.array([checkpoint - done for checkpoint in reached] + [length])
        sizes = schedule.values(done, done + length)
        found = (
            _between_nodes(recursion, now, fast, sizes, ends)
            if block
            else _one_by_one(recursion, now, sizes, ends)
        )
        if found is None:
            rate *= 2.0  # moments change faster than was thought: blocks must be shorter
            continue
        yield from found[:-1]
        waiting = waiting[len(reached) :]
        now, done, unsettled = found[-1], done + length, unsettled - float(sizes.sum())


class Fast(NamedTuple):
    """Entries of S, by their places in the flat array, and at which rates their two fields forget."""

    entries: Ints
    rates: tuple[float, float]

    def kept(self, sizes: Floats) -> Floats:
        """Return the remaining share of these entries after one step of each given size."""
        return np.asarray((1.0 - sizes * self.rates[0]) * (1.0 - sizes * self.rates[1]))


def _size_at(schedule: Schedule, t: int) -> float:
    return float(schedule.values(t, t + 1)[0])


def _fast_entries(
    recursion: Smooth, like: Floats, step_size: float
) -> tuple[list[Fast], float, float, float]:
    """Return fast entries, the fastest rate of all others, the sum that settles the former, and seconds.

    Fast entries are settled once step sizes have added up to that sum. The seconds are those of a slope.
    """
    rates = recursion.forgetting(step_size)
    fast = _entries_of(rates)
    rate, seconds = _fastest_rate(recursion, like, fast, step_size)
    slowest = float(min(rates[rates > 0.0], default=np.inf))
    if slowest >= FAST * rate:
        return fast, rate, FORGOTTEN_EXPONENT / slowest, seconds
    return [], _fastest_rate(recursion, like, [], step_size)[0], 0.0, seconds


def _entries_of(rates: Floats) -> list[Fast]:
    pairs = np.stack(np.broadcast_arrays(rates[:, None], rates), axis=-1).reshape(-1, 2)
    found = np.unique(pairs[pairs.any(axis=1)], axis=0)
    return [Fast(np.flatnonzero((pairs == pair).all(axis=1)), (pair[0], pair[1])) for pair in found.tolist()]


def _block_length(schedule: Schedule, rate: float, done: int, last: int) -> int:
    """Return the length of the next block, or 0 if steps must be taken one by one."""
    if done == last:
        return 0
    length = min(last - done, LONGEST, int(REACH / (rate * _size_at(schedule, done) + SMALLEST_DIVISOR)))
    while length > WORTH:
        nodes, weights = _nodes(length)
        sizes = schedule.values(done, done + length)
        fit = _basis(nodes, weights, np.arange(length)) @ sizes[nodes]
        if np.abs(fit - sizes).max() <= SMOOTH * sizes.max():
            return length
        length //= 2
    return 0


def _products_needed(schedule: Schedule, rate: float, last: int) -> float:
    """Return an estimate of the number of slopes that all blocks need."""
    times = np.unique(np.geomspace(1, last, 50).astype(np.int64)) - 1
    blocks = np.array([rate * _size_at(schedule, int(t)) / REACH for t in times])
    each = NODES * MOST_SWEEPS / 2
    return float(np.trapezoid(np.minimum(1.0, each * blocks), times)) if len(times) > 1 else 1.0


def _fastest_rate(recursion: Smooth, like: Floats, fast: list[Fast], step_size: float) -> tuple[float, float]:
    """Return the largest rate at which moments change, found by powers, and the seconds of a slope."""
    rng = np.random.default_rng(0)
    vector = rng.normal(size=like.shape)
    vector += vector.transpose(0, 2, 1)
    rate, count = 0.0, 12
    recursion.slope(vector, step_size)
    began = time.perf_counter()
    for _ in range(count):
        vector = vector / np.linalg.norm(vector)
        vector = _smooth_slope(recursion, vector, fast, step_size)
        rate = max(rate * 0.5, float(np.linalg.norm(vector)))
    return rate, (time.perf_counter() - began) / count


def _smooth_slope(recursion: Smooth, moments: Floats, fast: list[Fast], step_size: float) -> Floats:
    """Return the slope without what fast entries forget.

    Slopes are those of symmetric moments. Asymmetry from rounding would grow at the rate of fast entries.
    """
    moments = 0.5 * (moments + moments.transpose(0, 2, 1))
    slope, flat = recursion.slope(moments, step_size), moments.reshape(-1)
    for entries, (one, two) in fast:
        slope.reshape(-1)[entries] += (one + two - step_size * one * two) * flat[entries]
    return slope


def _one_by_one(recursion: Smooth, now: Floats, sizes: Floats, ends: Ints) -> list[Floats]:
    """Return the moments after several numbers of steps."""
    found, done = [], 0
    for end in ends:
        for step_size in sizes[done:end]:
            now = recursion.step(now, float(step_size))
        done = max(done, int(end))
        found.append(now)
    return found


def _between_nodes(
    recursion: Smooth, now: Floats, fast: list[Fast], sizes: Floats, ends: Ints
) -> list[Floats] | None:
    """Return the moments after several numbers of steps, by repeated substitution.

    None if that does not end, or if slopes between nodes are not those of the polynomial.
    """
    nodes, weights = _nodes(len(sizes))
    basis = _basis(nodes, weights, np.arange(len(sizes)))
    between = (nodes[0] + nodes[1]) // 2  # where polynomials are worst
    at_nodes, at_between, at_ends = (
        _Sum(now.reshape(-1), fast, sizes, basis, places) for places in (nodes, np.array([between]), ends)
    )
    flat = np.repeat(now.reshape(1, -1), len(nodes), axis=0)
    for _ in range(MOST_SWEEPS):
        slopes = _slopes(recursion, now.shape, flat, fast, sizes[nodes])
        better = at_nodes(slopes)
        change = np.abs(better - flat).max()
        flat = better
        if change <= EXACT_BLOCKS * np.abs(flat).max():
            break
    else:
        return None
    there = _slopes(recursion, now.shape, at_between(slopes), fast, sizes[[between]])
    if np.abs(basis[between] @ slopes - there).max() > TRUE * np.abs(slopes).max():
        return None
    return list(at_ends(slopes).reshape(-1, *now.shape))


def _slopes(
    recursion: Smooth, shape: tuple[int, ...], flat: Floats, fast: list[Fast], sizes: Floats
) -> Floats:
    """Return the smooth slope for each row of moments and each step size."""
    pairs = zip(flat, sizes, strict=True)
    return np.array(
        [_smooth_slope(recursion, row.reshape(shape), fast, float(size)).ravel() for row, size in pairs]
    )


class _Sum:
    """Moments at some places of a block, as a function of the slopes at its nodes."""

    def __init__(self, begin: Floats, fast: list[Fast], sizes: Floats, basis: Floats, places: Ints) -> None:
        self.begin = begin
        _, self.weights = _weights(sizes, np.ones_like(sizes), basis, places)
        self.fast = [(each.entries, *_weights(sizes, each.kept(sizes), basis, places)) for each in fast]

    def __call__(self, slopes: Floats) -> Floats:
        total = self.begin + self.weights @ slopes
        for entries, left, weights in self.fast:
            total[:, entries] = left[:, None] * self.begin[entries] + weights @ slopes[:, entries]
        return np.asarray(total)


def _weights(sizes: Floats, kept: Floats, basis: Floats, places: Ints) -> tuple[Floats, Floats]:
    """Return the remaining share of the first moments at some places, and the weight of each node's slope."""
    left, total, done = 1.0, np.zeros(basis.shape[1]), 0
    found_left, found = np.empty(len(places)), np.empty((len(places), basis.shape[1]))
    for k in np.argsort(places, kind="stable"):
        place = int(places[k])
        if place > done:
            lasting = np.append(np.cumprod(kept[done:place][::-1])[::-1], 1.0)
            total = lasting[0] * total + (sizes[done:place] * lasting[1:]) @ basis[done:place]
            left, done = left * lasting[0], place
        found_left[k], found[k] = left, total
    return found_left, found


class Nodes(NamedTuple):
    """Steps at which slopes are computed, and the weights of their interpolation."""

    steps: Ints
    weights: Floats


def _nodes(length: int) -> Nodes:
    """Return whole numbers of steps close to the nodes of Chebyshev."""
    angles = (np.arange(NODES) + 0.5) * np.pi / NODES
    steps = np.unique(np.rint(0.5 * (length - 1) * (1.0 - np.cos(angles))).astype(np.int64))
    scaled = steps / max(1.0, 0.25 * (length - 1))
    gaps = scaled[:, None] - scaled[None, :]
    np.fill_diagonal(gaps, 1.0)
    return Nodes(steps, 1.0 / gaps.prod(axis=1))


def _basis(nodes: Ints, weights: Floats, at: Ints) -> Floats:
    """Return the polynomials that are 1 at one node and 0 at the others: (places, nodes)."""
    gaps = (at[:, None] - nodes[None, :]).astype(np.float64)
    exact = gaps == 0.0
    gaps[exact] = 1.0
    parts = weights / gaps
    hit = exact.any(axis=1)
    parts[hit] = exact[hit]
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))
