"""Powers of one step, where moments are too many for a matrix: within the small space that they move in.

A step with a constant size is S <- M S with a linear map M. In K steps S changes by the sum over j < K of
M^j b, where b = M S - S. An orthonormal basis V of b, M b, ..., M^(m-1) b (the Krylov space, by Arnoldi)
obeys M V = V H + h v e_m^T with an m x m matrix H and one vector v more. So the change is |b| V y_K with

    y_0 = 0,     y_(k+1) = H y_k + e_1,

but for what leaves the space, h v e_m^T y_k in each step. Powers of a matrix of m + 2 rows give y_K and the
sum of what left, for any K. K is as large as that sum allows; then a new space is made.

Changes, not the moments themselves, are in the space: the entry 1 of the moments never changes, and a limit
that has been reached stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from scipy.linalg import blas

from gainbias.features.rows import Floats
from gainbias.model.solve.elimination.types import Ints
from gainbias.theory.curve.blocks import Smooth
from gainbias.theory.curve.foresight import say_time

MOST_VECTORS = 40
"""Vectors in a basis."""

EXACT = 1e-14
"""How much may leave the space, relative to the change."""

DEPENDENT = 1e-14
"""A vector of which only this share is new lies in the space, to rounding."""


def by_krylov(
    recursion: Smooth, now: Floats, step_size: float, checkpoints: Ints, time_limit: float | None
) -> Iterator[Floats]:
    """Return the moments at checkpoints, one after the other, for a constant step size."""
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
    """The space in which moments change in the next steps.

    Parameters
    ----------
    recursion : Smooth
        What moments do in a step.
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
            for _ in range(2):  # once is not enough: what is left may be small
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

        All powers are kept minus I: slow moments differ from it by little, and no digit of that is lost.
        """
        m = self.count
        matrix = step[: m + 2, : m + 2].copy()
        matrix[: min(m, 1), m + 1] = 1.0  # no space at all: nothing changes
        self._powers = [matrix]
        self._first = np.eye(m + 2)[-1]

    def reach(self, most: int) -> int:
        """Return the largest number of steps, up to the most, after which the change is known."""
        while 2 ** len(self._powers) <= most and self._known(self._powers[-1] @ self._first):
            self._powers.append(2.0 * self._powers[-1] + self._powers[-1] @ self._powers[-1])
        length, now = 0, self._first
        for bit in reversed(range(len(self._powers))):
            after = now + self._powers[bit] @ now
            if length + 2**bit <= most and self._known(after):
                length, now = length + 2**bit, after
        return length

    def _known(self, sums: Floats) -> bool:
        return bool(abs(sums[-2]) <= EXACT * np.linalg.norm(sums[:-2]))

    def after(self, num_steps: int) -> Floats:
        """Return the moments after some steps, no more than `reach` found."""
        sums = self._first
        for bit, power in enumerate(self._powers):
            if num_steps >> bit & 1:
                sums = sums + power @ sums
        change = self.size * (sums[:-2] @ self.basis[: self.count])
        return np.asarray(self.begin + change.reshape(self.begin.shape))
