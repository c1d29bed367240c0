"""Many steps at once, for moments that change little and smoothly in each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from gainbias.engine.schedules import Constant, Schedule
from gainbias.features.rows import Floats
from gainbias.model.elimination.types import Ints
from gainbias.theory.advance import STRETCH, say_time

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
"""How far step sizes, between the nodes, may be from their polynomial, relative to themselves."""


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
    sizes = _Sizes(schedule, last)
    rate, seconds = _fastest_rate(recursion, now, float(sizes.at(0)))
    foreseen = False
    waiting = [int(c) for c in checkpoints]
    while waiting:
        length = last - done
        block = _plan_block(sizes, rate, done, last, constant=isinstance(schedule, Constant))
        if not foreseen:
            say_time(_foreseen(sizes, rate, last, seconds, isinstance(schedule, Constant)), time_limit)
            foreseen = True
        length = block if block else min(WORTH, length)
        outputs = [c for c in waiting if c <= done + length]
        waiting = waiting[len(outputs) :]
        ends = np.array([c - done for c in outputs] + [length])
        if block and isinstance(schedule, Constant):
            found = _binomial(recursion, now, schedule.a, ends)
        elif block:
            found = _between_nodes(recursion, now, sizes.range(done, done + length), ends)
        else:
            found = _one_by_one(recursion, now, sizes.range(done, done + length), ends)
        yield from found[:-1]
        now, done = found[-1], done + length


class _Sizes:
    """Step sizes, asked for in stretches."""

    def __init__(self, schedule: Schedule, last: int) -> None:
        self.schedule, self.last = schedule, last

    def at(self, t: int) -> Floats:
        return self.schedule.values(t, t + 1)[0]

    def range(self, first: int, until: int) -> Floats:
        return self.schedule.values(first, until)


def _plan_block(sizes: _Sizes, rate: float, done: int, last: int, constant: bool) -> int:
    """Return the length of the next block, or 0 if steps are to be made one by one."""
    length = min(last - done, LONGEST, int(REACH / (rate * float(sizes.at(done)) + 1e-300)))
    if constant:
        return length if length > MOST_TERMS // 2 else 0
    while length > WORTH:
        nodes, weights = _nodes(length)
        own = sizes.range(done, done + length)
        missed = np.abs(_interpolate(nodes, weights, own[nodes], np.arange(length)) / own - 1.0).max()
        if missed < SMOOTH:
            return length
        length //= 2
    return 0


def _foreseen(sizes: _Sizes, rate: float, last: int, seconds: float, constant: bool) -> float:
    """Return about how many seconds all blocks take."""
    times = np.unique(np.geomspace(1, last, 50).astype(np.int64)) - 1
    speed = np.array([rate * float(sizes.at(int(t))) / REACH for t in times])
    each = 24.0 if constant else NODES * 18.0
    work = np.minimum(1.0, each * speed)
    return float(np.trapezoid(work, times) * seconds) if len(times) > 1 else seconds


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


def _one_by_one(recursion: Smooth, now: Floats, sizes: Floats, ends: Ints) -> list[Floats]:
    found, done = [], 0
    for end in ends:
        for step_size in sizes[done:end]:
            now = recursion.step(now, float(step_size))
        done = max(done, int(end))
        found.append(now)
    return found


def _binomial(recursion: Smooth, now: Floats, step_size: float, ends: Ints) -> list[Floats]:
    """Return (I + alpha B)^K S for several K: the sum over j of the binomials of K and j, and alpha^j B^j S."""
    found = [now.copy() for _ in ends]
    term, choose = now, np.ones(len(ends))
    for j in range(MOST_TERMS):
        term = step_size * recursion.slope(term, step_size)
        choose = choose * (ends - j) / (j + 1.0)
        for k, factor in enumerate(choose):
            if factor != 0.0:
                found[k] += factor * term
        if np.abs(choose).max() * np.abs(term).max() <= EXACT * np.abs(found[-1]).max():
            break
    return found


def _between_nodes(recursion: Smooth, now: Floats, sizes: Floats, ends: Ints) -> list[Floats]:
    """Solve S_t = S_0 + sum over i < t of alpha_i slope_i by repeated substitution."""
    nodes, weights = _nodes(len(sizes))
    shares = sizes[:, None] * _basis(nodes, weights, np.arange(len(sizes)))
    sums = np.concatenate([np.zeros((1, len(nodes))), np.cumsum(shares, axis=0)])
    at_nodes, at_ends = sums[nodes], sums[ends]
    flat = np.repeat(now.reshape(1, -1), len(nodes), axis=0)
    slopes = np.empty_like(flat)
    for _ in range(MOST_SWEEPS):
        for k, t in enumerate(nodes):
            slopes[k] = recursion.slope(flat[k].reshape(now.shape), float(sizes[t])).ravel()
        better = now.reshape(1, -1) + at_nodes @ slopes
        change = np.abs(better - flat).max()
        flat = better
        if change <= EXACT * np.abs(flat).max():
            break
    for k, t in enumerate(nodes):
        slopes[k] = recursion.slope(flat[k].reshape(now.shape), float(sizes[t])).ravel()
    return list((now.reshape(1, -1) + at_ends @ slopes).reshape(-1, *now.shape))


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


def _interpolate(nodes: Ints, weights: Floats, values: Floats, at: Ints) -> Floats:
    return np.asarray(_basis(nodes, weights, at) @ values)
