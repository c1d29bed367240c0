"""Numbers with twice the digits, and averages that are computed with them.

A sum of rewards can cancel, such as that of 1e17 and -1e17, and a common level can hide the differences
between states. So averages of rewards are stored as a rounded number and the rounded-off part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, by_blocks, constant_like, empty_vector, is_elsewhere, kernel
from gainbias.types import Floats, Ints

LARGEST, SMALLER = 2.0**950, 2.0**-64
"""Values above the first are scaled down by the second, so that no product of their parts overflows."""


class Doubled(NamedTuple):
    """A vector with twice the digits: the sum of a rounded part and the rounded-off part."""

    high: Floats
    low: Floats | None = None

    def plus(self, correction: Floats) -> Doubled:
        """Return this vector plus a small correction."""

        def add(high: Floats, rest: Floats, correction: Floats) -> tuple[Floats, Floats]:
            total = high + (correction + rest)
            return total, (high - total) + (correction + rest)

        return Doubled(*by_blocks(add, self.high, self.rest, correction, out=_two(self.high)))

    def minus(self, other: Doubled) -> Doubled:
        """Return the difference to another vector of any size."""

        def subtract(a: Floats, a_rest: Floats, b: Floats, b_rest: Floats) -> tuple[Floats, Floats]:
            high = a - b
            part = high - a
            low = (a - (high - part)) - (b + part)
            return high, low + (a_rest - b_rest)

        parts = self.high, self.rest, other.high, other.rest
        return Doubled(*by_blocks(subtract, *parts, out=_two(self.high)))

    def times(self, other: Doubled) -> Doubled:
        """Return the product with another vector, with a relative error of about 4 times rounding squared."""
        exact = product(self.high, other.high)
        return Doubled(exact.high, exact.rest + (self.high * other.rest + self.rest * other.high))

    def added_to(self, other: Doubled) -> Doubled:
        """Return the sum with another vector of any size; the high part is the rounded sum."""
        return Doubled(*sum_of_parts(self.high, self.rest, other.high, other.rest))

    def at(self, places: Ints) -> Doubled:
        """Return the entries at some positions."""
        return Doubled(self.high[places], None if self.low is None else self.low[places])

    @property
    def rest(self) -> Floats:
        """The rounded-off part."""
        return constant_like(0.0, self.high) if self.low is None else self.low


def _two(vector: Floats) -> Floats | None:
    """Return room for two vectors, (2, n), as long as another; a vector on a GPU allocates its own."""
    return None if is_elsewhere(vector) else empty_vector(2 * len(vector)).reshape(2, len(vector))


class Expected(NamedTuple):
    """Expected rewards R(s), shape (n,), and their uncertainty.

    Attributes
    ----------
    rewards : Doubled
        The sum of P(s, s') r(s, s') over that of P(s, s').
    doubt : (n,) array
        By how much larger they would be without the division: rows of P sum to 1 only up to rounding.
    """

    rewards: Doubled
    doubt: Floats


def weighted_means(start: Ints, weights: Doubled, values: Floats) -> tuple[Doubled, Floats]:
    """Return the weighted mean of each group of values with twice the digits, and the sum of weights less 1.

    Neither a large rare value nor a large common level costs the other values any digits.

    Parameters
    ----------
    start : (k + 1,) array of int
        Group i has the values from ``start[i]`` to ``start[i + 1] - 1``, at least one.
    weights : Doubled
        Weights, (m,), not negative, and positive in sum.
    values : (m,) array
        What is averaged.

    Examples
    --------
    >>> import numpy as np
    >>> weights = Doubled(np.array([0.5, 0.25, 0.25, 1.0]))
    >>> means, excess = weighted_means(np.array([0, 3, 4]), weights, np.array([3.0, 1e17, -1e17, 7.0]))
    >>> means.high.tolist(), excess.tolist()
    ([1.5, 7.0], [0.0, 0.0])
    """
    scale = SMALLER if np.max(np.abs(values), initial=0.0) > LARGEST else 1.0
    high, low, excess = np.empty((3, len(start) - 1))
    write_means(start, weights.high, weights.rest, values * scale, high, low, excess)
    return Doubled(high / scale, low / scale), excess


def expected_rewards(start: Ints, weights: Doubled, earned: Floats) -> Expected:
    """Return the expected reward of each state from the rewards that it may earn (see `weighted_means`)."""
    rewards, excess = weighted_means(start, weights, earned)
    return Expected(rewards, excess * rewards.high)


def product(a: Floats, b: Floats) -> Doubled:
    """Return the products of two vectors, (m,), with twice the digits."""
    high, low = np.empty((2, len(a)))
    write_product(a, b, high, low)
    return Doubled(high, low)


def sum_of_parts(a: Floats, a_low: Floats, b: Floats, b_low: Floats) -> tuple[Floats, Floats]:
    """Return the sum of two vectors with twice the digits, as a rounded part and the rounded-off part."""
    total = a + b
    part = total - a
    low = ((a - (total - part)) + (b - part)) + (a_low + b_low)
    high = total + low
    return high, low - (high - total)


@kernel
def write_product(a: Floats, b: Floats, high: Floats, low: Floats) -> None:
    """Do the work of `product`."""
    for i in range(len(a)):
        high[i], low[i] = multiply_exactly(a[i], b[i])


@kernel
def write_means(
    start: Ints,
    weights: Floats,
    weights_low: Floats,
    values: Floats,
    high: Floats,
    low: Floats,
    excess: Floats,
) -> None:
    """Do the work of `weighted_means`; `excess` is by how much the weights of a group sum to more than 1."""
    for i in range(len(high)):
        likeliest = start[i]
        for entry in range(start[i], start[i + 1]):
            if weights[entry] > weights[likeliest]:
                likeliest = entry
        # The likeliest value, plus the mean difference from it: the common level is not multiplied.
        level = values[likeliest]
        more, more_low, total, total_low = 0.0, 0.0, 0.0, 0.0
        for entry in range(start[i], start[i + 1]):
            step, step_low = add_exactly(values[entry], -level)
            term, term_low = multiply_exactly(weights[entry], step)
            more, lost = add_exactly(more, term)
            more_low += lost + (term_low + weights[entry] * step_low + weights_low[entry] * step)
            total, lost = add_exactly(total, weights[entry])
            total_low += lost + weights_low[entry]
        beyond, lost = add_exactly(total, -1.0)
        excess[i] = beyond + (lost + total_low)
        more, more_low = add_exactly(more, more_low)
        mean = more / total
        back, back_low = multiply_exactly(mean, total)
        mean_low = ((more - back) - back_low + more_low - mean * total_low) / total
        high[i], lost = add_exactly(level, mean)
        high[i], low[i] = add_exactly(high[i], lost + mean_low)


@bare_kernel
def add_exactly(a: float, b: float) -> tuple[float, float]:
    """Return the rounded sum and the rounded-off part (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@bare_kernel
def multiply_exactly(a: float, b: float) -> tuple[float, float]:
    """Return the rounded product and the rounded-off part (Dekker, Veltkamp)."""
    product = a * b
    split_a = 134217729.0 * a
    split_b = 134217729.0 * b
    high_a = split_a - (split_a - a)
    high_b = split_b - (split_b - b)
    low_a = a - high_a
    low_b = b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
