"""Residuals with twice the digits, each with a bound on the rounding of its evaluation.

`bellman_residual` says how well a gain and a bias meet their equation, `balance_residual` how well a law
meets its balance: what flows into a state must flow out of it. The diagonal of P is never read. `class_sums`
adds up products class by class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, by_blocks, is_elsewhere, is_worth_sharing, share_blocks
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.model.doubled import Doubled, add_exactly, multiply_exactly
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.vectors import each_state, multiply, row_lengths, rows_of, vector_like
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
        most: Floats = by_blocks(lambda value, rounding: np.abs(value) + rounding, *self)
        return most


def bellman_residual(rows: Sparse, rewards: Floats, gain: Doubled, bias: Doubled) -> Floats:
    """Return ``R - g - (W - P W)``, rounded once from twice the digits; the diagonal of P is not read."""
    return bounded_residual(rows, rewards, gain, bias).value


def bounded_residual(rows: Sparse, rewards: Floats, gain: Doubled, bias: Doubled) -> Residual:
    """Return ``R - g - (W - P W)`` as `bellman_residual` does, and a bound on its rounding."""
    out, size = vector_like(rewards), vector_like(rewards)
    parts = rows, rewards, gain.high, gain.rest, bias.high, bias.rest
    each_state(write_residual, parts, out, size)
    return _with_rounding(out, size, row_lengths(rows, rewards))


def balance_residual(rows: Sparse, columns: Sparse, law: Doubled) -> Residual:
    """Return what flows into each state less what flows out of it, (n,), for a law or a part of one.

    `columns` are the columns of P, as `columns_of` returns them.
    """
    value, size = vector_like(law.high), vector_like(law.high)
    each_state(write_balance, (rows, columns, law.high, law.rest), value, size)
    return _with_rounding(value, size, row_lengths(rows, value) + row_lengths(columns, value))


def _with_rounding(value: Floats, size: Floats, terms: Floats | Ints) -> Residual:
    """Return a sum of terms of total size `size` whose rounded parts were added up in double precision."""

    def rounding(value: Floats, size: Floats, terms: Floats | Ints) -> Floats:
        return EPSILON * np.abs(value) + (terms + 6) * (EPSILON**2 * size + LARGEST_UNDERFLOW)

    return Residual(value, by_blocks(rounding, value, size, terms))


def class_sums(class_of: Ints, num_classes: int, weights: Floats, values: Doubled) -> Residual:
    """Return the sum of products of each class, (classes,), and a bound on its rounding.

    States without a class, and those of weight 0, whatever their value, do not count.
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
    """Return what moves through each state in a step, (n,): from its own value and from its successors."""

    def through(stay: Floats, values: Floats, moved: Floats) -> Floats:
        return np.maximum(1.0 - stay, 0.0) * values + np.maximum(moved - stay * values, 0.0)

    moved = multiply(transitions, values)
    moving: Floats = by_blocks(through, _chances_of_staying(transitions, values), values, moved)
    return moving


def _chances_of_staying(transitions: CsrArray, x: Floats) -> Floats:
    """Return the diagonal of a chain, (n,), where the vector `x` is."""
    if not is_elsewhere(x) and not is_worth_sharing(len(x)):
        return np.asarray(transitions.diagonal())
    out = vector_like(x)
    each_state(write_diagonal, (rows_of(transitions),), out)
    return out


@bare_kernel
def write_diagonal(rows: Sparse, begin: int, end: int, out: Floats) -> None:
    """Write the diagonal to `out`, from state `begin` to ``end - 1``."""
    for i in range(begin, end):
        out[i] = 0.0
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            if rows.indices[entry] == i:
                out[i] += rows.data[entry]


@bare_kernel
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

    Only the states `begin` to ``end - 1`` are processed.
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


@bare_kernel
def write_balance(
    rows: Sparse,
    columns: Sparse,
    law: Floats,
    law_low: Floats,
    begin: int,
    end: int,
    value: Floats,
    size: Floats,
) -> None:
    """Write the residual of `balance_residual` to `value` and the sum of its absolute terms to `size`.

    Only the states `begin` to ``end - 1`` are processed. What enters from states before is added first, then
    what leaves is subtracted, then what enters from later states is added.
    """
    for j in range(begin, end):
        high, low, total = 0.0, 0.0, 0.0
        entry, stop = columns.indptr[j], columns.indptr[j + 1]
        while entry < stop and columns.indices[entry] < j:
            i = columns.indices[entry]
            term, term_low = multiply_exactly(law[i], columns.data[entry])
            high, lost = add_exactly(high, term)
            low += lost + (term_low + law_low[i] * columns.data[entry])
            total += abs(term)
            entry += 1
        for leaving in range(rows.indptr[j], rows.indptr[j + 1]):
            if rows.indices[leaving] != j:
                term, term_low = multiply_exactly(law[j], rows.data[leaving])
                high, lost = add_exactly(high, -term)
                low += lost - (term_low + law_low[j] * rows.data[leaving])
                total += abs(term)
        while entry < stop:
            i = columns.indices[entry]
            if i != j:
                term, term_low = multiply_exactly(law[i], columns.data[entry])
                high, lost = add_exactly(high, term)
                low += lost + (term_low + law_low[i] * columns.data[entry])
                total += abs(term)
            entry += 1
        value[j] = high + low
        size[j] = total


@bare_kernel
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

    Only the states `begin` to ``end - 1`` are processed.
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
