"""Quotients and powers that are infinite, not an error, where they are out of range."""

from __future__ import annotations

import math


def ratio(above: float, below: float) -> float:
    """Return a quotient; it is infinite where the denominator is 0, and 0 for 0 / 0."""
    if below:
        return above / below
    return math.copysign(math.inf, above) if above else 0.0


def power(base: float, exponent: float) -> float:
    """Return a power, infinite where it is too large."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def exponential(exponent: float) -> float:
    """Return e to some power, infinite where it is too large."""
    return power(math.e, exponent) if exponent > 700.0 else math.exp(exponent)


def close(one: float, other: float) -> bool:
    """Whether numbers are equal up to rounding: which of a theorem's cases is meant."""
    return math.isclose(one, other, rel_tol=1e-12)
