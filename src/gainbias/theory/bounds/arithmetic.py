"""Quotients and powers that are infinite, not an error, where they are out of range; rounding to one side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


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


def rounded_up(number: float) -> str:
    """Return six digits that are no less than a number, for advice that must be enough.

    Examples
    --------
    >>> rounded_up(2 / 3), rounded_down(2 / 3)
    ('0.666667', '0.666666')
    """
    return f"{float(Context(6, ROUND_CEILING).create_decimal_from_float(number)):.6g}"


def rounded_down(number: float) -> str:
    """Return six digits that are no more than a number."""
    return f"{float(Context(6, ROUND_FLOOR).create_decimal_from_float(number)):.6g}"
