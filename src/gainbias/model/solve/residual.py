"""Residuals with twice the digits, each with a bound on what its own evaluation rounds.

`bellman_residual` says how well a gain and a bias meet their equation, `balance_residual` how well a law
meets its own: what flows into a state must flow out of it. The diagonal of P is never read. `class_sums` adds
up products class by class; `multiply`, `inner` and `length` use several threads for large vectors, and do not
depend on how many.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt
from operator import add
from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, by_blocks, is_large, kernel, share_blocks
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled, add_exactly, multiply_exactly
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.types import Floats, Ints

LARGEST_UNDERFLOW = 4.0 * float(np.finfo(np.float64).smallest_subnormal)
"""What a product may lose when it leaves the range of floating-point numbers, with a margin."""


class Residual(NamedTuple):
    """A residual, (n,), and a bound on its rounding, (n,)."""

    value: Floats
    rounding: Floats

    @property
    def most(self) -> Floats:
        """A bound on the absolute value of the exact residual, (n,)."""
        return np.abs(self.value) + self.rounding


def bellman_residual(rows: Sparse, rewards: Floats, gain: Doubled, bias: Doubled) -> Floats:
    """Return ``R - g - (W - P W)``, rounded once from twice the digits; the diagonal of P is not read."""
    return bounded_residual(rows, rewards, gain, bias).value


def bounded_residual(rows: Sparse, rewards: Floats, gain: Doubled, bias: Doubled) -> Residual:
    """Return ``R - g - (W - P W)`` as `bellman_residual` does, and a bound on its rounding."""
    n = len(rewards)
    out, size = np.empty((2, n))
    parts = rows, rewards, gain.high, gain.rest, bias.high, bias.rest
    share_blocks(lambda begin, end: write_residual(*parts, begin, end, out, size), n)
    return _with_rounding(out, size, np.diff(rows.indptr))


def balance_residual(rows: Sparse, law: Doubled) -> Residual:
    """Return what flows into each state less what flows out of it, (n,), for a law or a part of one."""
    n = len(rows.indptr) - 1
    high, low, size = np.zeros((3, n))
    terms = np.diff(rows.indptr).astype(np.int64)
    write_balance(rows, law.high, law.rest, high, low, size, terms)
    return _with_rounding(high + low, size, terms)


def _with_rounding(value: Floats, size: Floats, terms: Ints) -> Residual:
    """Return a sum of terms of total size `size` whose rounded parts were added up in double precision."""

    def rounding(value: Floats, size: Floats, terms: Ints) -> Floats:
        return EPSILON * np.abs(value) + (terms + 6) * (EPSILON**2 * size + LARGEST_UNDERFLOW)

    return Residual(value, by_blocks(rounding, value, size, terms))


def class_sums(class_of: Ints, num_classes: int, weights: Floats, values: Doubled) -> Residual:
    """Return the sum of products of each class, (classes,), and a bound on its rounding.

    States of no class, and those of weight 0 whatever their value is, do not count.
    """
    rest = values.rest

    def part(begin: int, end: int) -> tuple[Doubled, Floats, Ints]:
        (high, low, size), terms = np.zeros((3, num_classes)), np.zeros(num_classes, np.int64)
        write_class_sums(class_of, weights, values.high, rest, begin, end, high, low, size, terms)
        return Doubled(high, low), size, terms

    # Where there are many classes, few states of each are in a block.
    block = None if num_classes == 1 else len(class_of)
    (total, size, terms), *others = share_blocks(part, len(class_of), block)
    for more, more_size, more_terms in others:
        total = total.minus(Doubled(-more.high, -more.rest))
        size, terms = size + more_size, terms + more_terms + 1
    return _with_rounding(total.high + total.rest, size, terms)


def throughput(transitions: CsrArray, values: Floats) -> Floats:
    """Return what moves through each state in a step, (n,): of its own value and of its successors'."""

    def through(stay: Floats, values: Floats, moved: Floats) -> Floats:
        return np.maximum(1.0 - stay, 0.0) * values + np.maximum(moved - stay * values, 0.0)

    moved = multiply(transitions, values)
    return np.asarray(by_blocks(through, transitions.diagonal(), values, moved))


def multiply(matrix: CsrArray, x: Floats) -> Floats:
    """Return ``matrix @ x``, (n,); large ones are worked on by several threads, with the same bits."""
    n = matrix.shape[0]
    if not is_large(n):
        return np.asarray(matrix @ x)
    rows, out = Sparse(matrix.indptr, matrix.indices, matrix.data), np.empty(n)
    share_blocks(lambda begin, end: multiply_rows(rows, x, begin, end, out), n)
    return out


@bare_kernel
def multiply_rows(rows: Sparse, x: Floats, begin: int, end: int, out: Floats) -> None:
    """Write the products of the rows `begin` to ``end - 1`` with `x` to `out`."""
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    # Places without a sign need not be told from those that count from the end: three times as fast.
    entry, one = np.uint64(indptr[begin]), np.uint64(1)
    for i in range(begin, end):
        total = 0.0
        stop = np.uint64(indptr[i + 1])
        while entry < stop:
            total += data[entry] * x[np.uint64(indices[entry])]
            entry += one
        out[i] = total


@kernel
def write_residual(
    rows: Sparse,
    rewards: Floats,
    gain: Floats,
    gain_low: Floats,
    bias: Floats,
    bias_low: Floats,
    begin: int,
    end: int,
    out: Floats,
    size: Floats,
) -> None:
    """Write the residual of `bellman_residual` to `out` and the sum of its absolute terms to `size`.

    Only the states `begin` to ``end - 1`` are looked at.
    """
    for i in range(begin, end):
        high, low = add_exactly(rewards[i], -gain[i])
        low -= gain_low[i]
        total = abs(rewards[i]) + abs(gain[i])
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            if j != i:
                step, step_low = add_exactly(bias[j], -bias[i])
                step_low += bias_low[j] - bias_low[i]
                term, term_low = multiply_exactly(rows.data[entry], step)
                high, lost = add_exactly(high, term)
                low += lost + (term_low + rows.data[entry] * step_low)
                total += rows.data[entry] * (abs(bias[j]) + abs(bias[i]))
        out[i] = high + low
        size[i] = total


@kernel
def write_balance(
    rows: Sparse, law: Floats, law_low: Floats, high: Floats, low: Floats, size: Floats, terms: Ints
) -> None:
    """Add the residual of `balance_residual` to `high` and `low`, and its absolute terms to `size`.

    The number of transitions into each state is added to `terms`.
    """
    for i in range(len(law)):
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            terms[j] += 1
            if j != i:
                term, term_low = multiply_exactly(law[i], rows.data[entry])
                term_low += law_low[i] * rows.data[entry]
                high[j], lost = add_exactly(high[j], term)
                low[j] += lost + term_low
                size[j] += abs(term)
                high[i], lost = add_exactly(high[i], -term)
                low[i] += lost - term_low
                size[i] += abs(term)


@kernel
def write_class_sums(
    class_of: Ints,
    weights: Floats,
    values: Floats,
    values_low: Floats,
    begin: int,
    end: int,
    high: Floats,
    low: Floats,
    size: Floats,
    terms: Ints,
) -> None:
    """Add the sums of `class_sums` to `high` and `low`, their absolute terms to `size`, and count `terms`.

    Only the states `begin` to ``end - 1`` are looked at.
    """
    for i in range(begin, end):
        c = class_of[i]
        if c >= 0:
            terms[c] += 1
        if c >= 0 and weights[i] != 0.0:
            term, term_low = multiply_exactly(weights[i], values[i])
            high[c], lost = add_exactly(high[c], term)
            low[c] += lost + (term_low + weights[i] * values_low[i])
            size[c] += abs(term)


def inner(a: Floats, b: Floats) -> float:
    """Return the inner product of two vectors, (n,), the same whatever the number of threads.

    Linear algebra libraries share long sums among threads: the last bits then depend on the number of cores,
    and on a busy machine threads that wait for each other take many times as long as one. Here blocks are
    added up by themselves.

    Examples
    --------
    >>> import numpy as np
    >>> inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """

    def part(begin: int, end: int) -> float:
        return float(np.einsum("i,i->", a[begin:end], b[begin:end]))

    return reduce(add, share_blocks(part, len(a)) or [0.0])


def largest_of(x: Floats) -> float:
    """Return the largest absolute value of a vector, (n,); one that is no number counts as largest.

    Examples
    --------
    >>> import numpy as np
    >>> largest_of(np.array([1.0, -2.0]))
    2.0
    """
    return float(np.max(share_blocks(lambda begin, end: np.abs(x[begin:end]).max(), len(x))))


def length(x: Floats) -> float:
    """Return the Euclidean length of a vector, (n,), the same whatever the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> length(np.array([3.0, 4.0]))
    5.0
    """
    return sqrt(inner(x, x))


def combined(x: Floats, factor: float, y: Floats) -> Floats:
    """Return ``x + factor * y``, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> combined(np.ones(2), 2.0, np.array([0.0, 1.0]))
    array([1., 3.])
    """
    return np.asarray(by_blocks(lambda x, y: x + factor * y, x, y))
