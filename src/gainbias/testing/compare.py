"""How numbers are compared, and what is said when they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.features.rows import Floats


def same_bits(found: Any, expected: Any, what: str) -> None:
    """Demand that two arrays have the same bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.tobytes() != expected.tobytes():
        raise AssertionError(f"{what}: not the same bits, {_difference(found, expected):.2e} apart")


def close(found: Any, expected: Any, tolerance: float, what: str) -> str:
    """Demand that two arrays agree, relative to the largest number or 1, and say how well they do."""
    found, expected = np.asarray(found), np.asarray(expected)
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    difference = _difference(found, expected) / size
    if not difference <= tolerance:
        raise AssertionError(f"{what}: {difference:.2e} apart, {tolerance:.0e} is allowed")
    return f"{what}: {difference:.1e} apart"


def within_errors(found: Floats, expected: Floats, error: Floats, what: str, most: float = 4.0) -> str:
    """Demand that means are within a few standard errors, and say how far the farthest one is.

    A number without any spread must be exact up to rounding.
    """
    room = most * error + 1e-12 * np.maximum(1.0, np.abs(expected))
    farthest = float((np.abs(found - expected) / room).max()) * most
    if not farthest <= most:
        raise AssertionError(f"{what}: {farthest:.1f} standard errors off, {most:g} are allowed")
    return f"{what}: at most {farthest:.1f} standard errors off"


def _difference(found: Any, expected: Any) -> float:
    if found.shape != expected.shape:
        return np.inf
    with np.errstate(invalid="ignore"):
        return float(np.abs(found - expected).max(initial=0.0))
