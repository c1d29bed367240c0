"""Many steps at once, for moments that change little and smoothly in each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gainbias.engine.schedules import Constant, Schedule
from gainbias.features.rows import Floats
from gainbias.model.elimination.types import Ints
from gainbias.theory.foresight import say_time

REACH = 1.5
"""A block is so long that its step sizes times the fastest rate of the moments add up to this."""

NODES = 18
"""Nodes at which slopes are computed in a block."""

MOST_SWEEPS = 40
MOST_TERMS = 60
EXACT = 1e-15

WORTH = 600
"""Steps from which on a block with nodes takes less time than steps one by one."""

LONGEST = 100_000
"""Steps of a block at most: weights are computed for each of them."""

SMOOTH = 1e-14
"""How far step sizes between the nodes may be from a polynomial, relative to the largest."""

TRUE = 1e-11
"""How far a slope may be from the polynomial, relative to the largest: the sum is then more precise."""

TINY = 1e-300


@runtime_checkable
class Smooth(Protocol):
    """A recursion that knows its slope."""

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return the moments after a step."""

    def slope(self, moments: Floats, step_size: float) -> Floats:
        """Return the change in a step, divided by the step size."""


def by_blocks(
    recursion: Smooth, now: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Return the moments at checkpoints, one after the other."""
    last, done = int(checkpoints[-1]), 0
    rate, seconds = _fastest_rate(recursion, now, _size_at(schedule, 0))
    say_time(seconds * _products_needed(schedule, rate, last), time_limit)
    waiting = [int(checkpoint) for checkpoint in checkpoints]
    while waiting:
        block = _block_length(schedule, rate, done, last)
        length = block or min(WORTH, last - done)
        reached = [checkpoint for checkpoint in waiting if checkpoint <= done + length]
        ends = np.array([checkpoint - done for checkpoint in reached] + [length])
        if block and isinstance(schedule, Constant):
            found = _binomial(recursion, now, schedule.a, ends)
        else:
            advance = _between_nodes if block else _one_by_one
            found = advance(recursion, now, schedule.values(done, done + length), ends)
        if found is None:
            rate *= 2.0  # moments change faster than was thought: blocks must be shorter
            continue
        yield from found[:-1]
        waiting = waiting[len(reached) :]
        now, done = found[-1], done + length


def _size_at(schedule: Schedule, t: int) -> float:
    return float(schedule.values(t, t + 1)[0])


def _block_length(schedule: Schedule, rate: float, done: int, last: int) -> int:
    """Return the length of the next block, or 0 if steps are to be made one by one."""
    if done == last:
        return 0
    length = min(last - done, LONGEST, int(REACH / (rate * _size_at(schedule, done) + TINY)))
    if isinstance(schedule, Constant):
        return length if length > MOST_TERMS // 2 else 0
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
    each = MOST_TERMS / 2 if isinstance(schedule, Constant) else NODES * MOST_SWEEPS / 2
    return float(np.trapezoid(np.minimum(1.0, each * blocks), times)) if len(times) > 1 else 1.0


def _fastest_rate(recursion: Smooth, like: Floats, step_size: float) -> tuple[float, float]:
    """Return the largest rate at which moments change, found by powers, and the seconds of a product."""
    rng = np.random.default_rng(0)
    vector = rng.normal(size=like.shape)
    vector += vector.transpose(0, 2, 1)
    rate, count = 0.0, 12
    recursion.slope(vector, step_size)
    began = time.perf_counter()
    for _ in range(count):
        vector = vector / np.linalg.norm(vector)
        vector = recursion.slope(vector, step_size)
        rate = max(rate * 0.5, float(np.linalg.norm(vector)))
    return rate, (time.perf_counter() - began) / count


def _one_by_one(recursion: Smooth, now: Floats, sizes: Floats, ends: Ints) -> list[Floats] | None:
    """Return the moments after several numbers of steps."""
    found, done = [], 0
    for end in ends:
        for step_size in sizes[done:end]:
            now = recursion.step(now, float(step_size))
        done = max(done, int(end))
        found.append(now)
    return found


def _binomial(recursion: Smooth, now: Floats, step_size: float, ends: Ints) -> list[Floats] | None:
    """Return (I + alpha B)^K S for several K: the sum over j of (K choose j) (alpha B)^j S.

    None if that takes too many terms.
    """
    found = [now.copy() for _ in ends]
    term, choose = now, np.ones(len(ends))
    for j in range(MOST_TERMS):
        term = step_size * recursion.slope(term, step_size)
        choose = choose * (ends - j) / (j + 1.0)
        for k, factor in enumerate(choose):
            if factor != 0.0:
                found[k] += factor * term
        if np.abs(choose).max() * np.abs(term).max() <= EXACT * np.abs(found[-1]).max():
            return found
    return None


def _between_nodes(recursion: Smooth, now: Floats, sizes: Floats, ends: Ints) -> list[Floats] | None:
    """Solve S_t = S_0 + sum over i < t of alpha_i slope_i by repeated substitution.

    None if that does not end, or if slopes between nodes are not those of the polynomial.
    """
    nodes, weights = _nodes(len(sizes))
    shares = sizes[:, None] * _basis(nodes, weights, np.arange(len(sizes)))
    sums = np.concatenate([np.zeros((1, len(nodes))), np.cumsum(shares, axis=0)])
    at_nodes, at_ends = sums[nodes], sums[ends]
    begin = now.reshape(1, -1)
    flat = np.repeat(begin, len(nodes), axis=0)
    for _ in range(MOST_SWEEPS):
        slopes = _slopes(recursion, now.shape, flat, sizes[nodes])
        better = begin + at_nodes @ slopes
        change = np.abs(better - flat).max()
        flat = better
        if change <= EXACT * np.abs(flat).max():
            break
    else:
        return None
    between = (nodes[0] + nodes[1]) // 2  # where polynomials are worst
    there = _slopes(recursion, now.shape, begin + sums[[between]] @ slopes, sizes[[between]])
    if np.abs(shares[between] / sizes[between] @ slopes - there).max() > TRUE * np.abs(slopes).max():
        return None
    return list((begin + at_ends @ slopes).reshape(-1, *now.shape))


def _slopes(recursion: Smooth, shape: tuple[int, ...], flat: Floats, sizes: Floats) -> Floats:
    """Return the slope for each row of moments and each step size."""
    pairs = zip(flat, sizes, strict=True)
    return np.array([recursion.slope(row.reshape(shape), float(size)).ravel() for row, size in pairs])


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
