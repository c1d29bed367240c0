"""Checks of the settings of tasks: each message names the setting, what it must be and what was found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MOST = 2**63 - 1
"""The largest integer of the compiled parts."""


def as_integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return `value` as an integer between `least` and `most`.

    Examples
    --------
    >>> as_integer(0, "capacity", least=1)
    Traceback (most recent call last):
    ValueError: capacity must be an integer of at least 1, found 0
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if most is None and is_integer and value > MOST:
        most = MOST
    if not is_integer or value < least or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name} must be an integer of at least {least}{limit}, found {value!r}")
    return int(value)


def as_seed(value: Any, name: str = "seed") -> int:
    """Return `value` as an integer that is not negative, however large.

    Examples
    --------
    >>> as_seed(-1)
    Traceback (most recent call last):
    ValueError: seed must be an integer that is not negative, found -1
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be an integer that is not negative, found {value!r}")
    return int(value)


def as_number(
    value: Any,
    name: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
) -> float:
    """Return `value` as a finite number within bounds.

    Examples
    --------
    >>> as_number(-0.1, "epsilon", at_least=0.0, below=1.0)
    Traceback (most recent call last):
    ValueError: epsilon must be at least 0 and below 1, found -0.1
    """
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    # The bounds that are not given keep out infinities, and none holds for NaN.
    if not is_number or not (above < value < below and at_least <= value <= at_most):
        bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
        words = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        raise ValueError(f"{name} must be {' and '.join(words) or 'a finite number'}, found {value!r}")
    return float(value)


def as_numbers(value: Any, name: str) -> list[float]:
    """Return `value` as a list of at least one finite number.

    Examples
    --------
    >>> as_numbers([1, 2.5], "priorities")
    [1.0, 2.5]
    """
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{name} must be a list of numbers, found {value!r}")
    return [as_number(entry, f"each entry of {name}") for entry in value]
