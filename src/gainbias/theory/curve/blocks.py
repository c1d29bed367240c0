"""Many steps at once, for moments that change little and smoothly in each of them.

A field such as a learnt gain forgets itself faster than weights change, at a known rate c. Its entries of S
are therefore followed exactly: with g = (1 - alpha c)(1 - alpha c') for the two fields of an entry, and c = 0
for weights,

    S_(t+1) = g_t S_t + alpha_t R_t,     R = slope + (1 - g) / alpha S,

and R is smooth once the field has forgotten where it began. In a block, R is a polynomial between some nodes:
S at the nodes is the fixed point of repeated substitution.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gainbias.engine.schedules import Schedule
from gainbias.features.rows import Floats
from gainbias.model.solve.elimination.types import Ints
from gainbias.theory.curve.foresight import say_time

REACH = 1.5
"""A block is so long that its step sizes times the fastest rate of the moments add up to this."""

NODES = 18
"""Nodes at which slopes are computed in a block."""

MOST_SWEEPS = 40
EXACT = 1e-15

WORTH = 600
"""Steps from which on a block with nodes takes less time than steps one by one."""

LONGEST = 100_000
"""Steps of a block at most: weights are computed for each of them."""

SMOOTH = 1e-14
"""How far step sizes between the nodes may be from a polynomial, relative to the largest."""

TRUE = 1e-11
"""How far a slope may be from the polynomial, relative to the largest: the sum is then more precise."""

FAST = 3.0
"""Fields that forget so many times as fast as other moments change are followed exactly."""

FORGOTTEN = 40.0
"""Step sizes times the rate of a field that add up to this leave nothing of its beginning."""

TINY = 1e-300


@runtime_checkable
class Smooth(Protocol):
    """A recursion that knows its slope."""

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return the moments after a step."""

    def slope(self, moments: Floats, step_size: float) -> Floats:
        """Return the change in a step, divided by the step size."""

    def forgetting(self, step_size: float) -> Floats:
        """Return the rate at which each entry of z forgets itself, 0 for those that need not be fast."""


class Fast(NamedTuple):
    """Entries of S, by their places in the flat array, and at which rates their two fields forget."""

    entries: Ints
    rates: tuple[float, float]

    def kept(self, sizes: Floats) -> Floats:
        """Return what is left of these entries after steps of given sizes, one each."""
        return np.asarray((1.0 - sizes * self.rates[0]) * (1.0 - sizes * self.rates[1]))


def by_blocks(
    recursion: Smooth, now: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Return the moments at checkpoints, one after the other."""
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


def _size_at(schedule: Schedule, t: int) -> float:
    return float(schedule.values(t, t + 1)[0])


def _fast_entries(
    recursion: Smooth, like: Floats, step_size: float
) -> tuple[list[Fast], float, float, float]:
    """Return fast entries, the fastest rate of all others, when the fast ones are settled, and seconds.

    They are settled once step sizes have added up to so much. The seconds are those of a slope.
    """
    rates = recursion.forgetting(step_size)
    fast = _entries_of(rates)
    rate, seconds = _fastest_rate(recursion, like, fast, step_size)
    slowest = float(min(rates[rates > 0.0], default=np.inf))
    if slowest >= FAST * rate:
        return fast, rate, FORGOTTEN / slowest, seconds
    return [], _fastest_rate(recursion, like, [], step_size)[0], 0.0, seconds


def _entries_of(rates: Floats) -> list[Fast]:
    pairs = np.stack(np.broadcast_arrays(rates[:, None], rates), axis=-1).reshape(-1, 2)
    found = np.unique(pairs[pairs.any(axis=1)], axis=0)
    return [Fast(np.flatnonzero((pairs == pair).all(axis=1)), (pair[0], pair[1])) for pair in found.tolist()]


def _block_length(schedule: Schedule, rate: float, done: int, last: int) -> int:
    """Return the length of the next block, or 0 if steps are to be made one by one."""
    if done == last:
        return 0
    length = min(last - done, LONGEST, int(REACH / (rate * _size_at(schedule, done) + TINY)))
    while length > WORTH:
        nodes, weights = _nodes(length)
        sizes = schedule.values(done, done + length)
        fit = _basis(nodes, weights, np.arange(length)) @ sizes[nodes]
        if np.abs(fit - sizes).max() <= SMOOTH * sizes.max():
            return length
        length //= 2
    return 0


def _products_needed(schedule: Schedule, rate: float, last: int) -> float:
    """Return about how many slopes all blocks need."""
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

    Slopes are those of symmetric moments. What rounding adds to that would grow at the rate of fast entries.
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
        if change <= EXACT * np.abs(flat).max():
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
    """Return what is left of the first moments at some places, and the weight of each node's slope."""
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
