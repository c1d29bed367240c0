"""From the moments before the first step to those at checkpoints, by the shortest way.

A step is linear in the moments. So, where there are few of them, it is a matrix: constant step sizes need a
few powers of it, and others a product with it for each step. Where there are many and samples are
independent, moments change little in a step, and smoothly. With constant step sizes they stay, for many
steps, in a space of few dimensions, where powers are cheap again (`krylov`); otherwise a block of many steps
is the fixed point of S_t = S_0 + sum over i < t of alpha_i slope_i, with slopes between some nodes
interpolated by a polynomial (`blocks`). Both are exact to rounding. Along a chain steps are made one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np

from gainbias.engine.schedules import Constant, Schedule
from gainbias.features.rows import Floats
from gainbias.model.solve.elimination.types import Ints
from gainbias.progress import Watch
from gainbias.theory.curve.blocks import Smooth, by_blocks
from gainbias.theory.curve.foresight import say_time, seconds_of
from gainbias.theory.curve.krylov import by_krylov

MOST_FOR_POWERS = 700
"""So many moments make a matrix that is squared in milliseconds."""

MOST_FOR_MATRIX = 150
"""A product with a matrix this large takes less time than the shortest step written out."""

STRETCH = 4096
"""Step sizes are asked for in stretches of this length."""


class Recursion(Protocol):
    """What moments do in a step: see `Independent`, `Along` and `Enumerated`."""

    fixed: bool

    def begin(self, x: Floats) -> Floats:
        """Return the moments, (nodes, k, k), of first values x."""

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return the moments after a step."""


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
        Seconds after which `OutOfTimeError` is raised; ValueError if it is foreseen.
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


def _by_steps(
    recursion: Recursion, now: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Make all steps."""
    done, last = 0, int(checkpoints[-1])
    begin, size = now, float(schedule.values(0, 1)[0])
    say_time(last * seconds_of(lambda: recursion.step(begin, size), repeats=2), time_limit, len(begin))
    for checkpoint in checkpoints:
        while done < checkpoint:
            until = min(done + STRETCH, int(checkpoint))
            for step_size in schedule.values(done, until):
                now = recursion.step(now, float(step_size))
            done = until
        yield now


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


def _by_powers(recursion: Recursion, begin: Floats, size: float, checkpoints: Ints) -> Iterator[Floats]:
    """Multiply with powers of the matrix of one step, which are got by squaring.

    All are kept minus I: slow moments differ from it by little, and no digit of that is lost.
    """

    def change(moments: Floats) -> Floats:
        if isinstance(recursion, Smooth):
            return size * recursion.slope(moments, size)
        return recursion.step(moments, size) - moments

    packing = _Packing(begin.shape)
    powers = [packing.matrix(change)]
    now, done = packing.pack(begin), 0
    for checkpoint in checkpoints:
        left, bit = int(checkpoint) - done, 0
        while left >> bit:
            if bit == len(powers):
                powers.append(2.0 * powers[-1] + powers[-1] @ powers[-1])
            if (left >> bit) & 1:
                now = now + powers[bit] @ now
            bit += 1
        done = int(checkpoint)
        yield packing.unpack(now)


def _by_matrix(
    recursion: Recursion, begin: Floats, schedule: Schedule, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Multiply with matrices that are polynomials of degree 2 in the step size."""
    packing = _Packing(begin.shape)
    none, half, one = (packing.matrix(partial(recursion.step, step_size=size)) for size in (0.0, 0.5, 1.0))
    parts = np.concatenate([none, 4.0 * half - one - 3.0 * none, 2.0 * (one + none - 2.0 * half)])
    now, done = packing.pack(begin), 0
    vector = now
    seconds = int(checkpoints[-1]) * 1.5 * seconds_of(lambda: parts @ vector, repeats=100)
    say_time(seconds, time_limit, len(begin))
    for checkpoint in checkpoints:
        while done < checkpoint:
            until = min(done + STRETCH, int(checkpoint))
            sizes = schedule.values(done, until)
            for weights in np.stack([np.ones_like(sizes), sizes, sizes**2], axis=1):
                now = weights @ (parts @ now).reshape(3, -1)
            done = until
        yield packing.unpack(now)
