"""The true error of a solution, in the terms of its own ``error_bound``, and of each of its numbers."""

import warnings
from typing import Any, NamedTuple

import numpy as np

import gainbias as gb

from .exact import Exact, distance
from .record import ExactChain


class Measured(NamedTuple):
    """True errors of numbers of one sort, their bounds, and the sizes of the numbers, each an array.

    `scale` is what an error of 1 means: the largest reward for the gain, the span for the bias, 1 for a law.
    """

    error: np.ndarray
    bound: np.ndarray
    size: np.ndarray
    scale: float


def measured(
    mrp: gb.MarkovRewardProcess, exact: Exact, method: str = "auto", **limits: float
) -> dict[str, Measured]:
    """Solve a process, and compare each number of the answer with the exact one, by sort of number."""
    multichain, unit = exact.variance is None, mrp.rate or 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.AccuracyWarning)
        found: Any = gb.solve(mrp, method=method, multichain=multichain, **limits)  # type: ignore[call-overload]
    law = np.asarray(found.stationary.sum(axis=0)).ravel() if multichain else found.stationary
    gains = exact.gain if multichain else exact.gain[:1]
    largest, span = float(np.abs(mrp.rewards).max()), float(np.ptp(found.bias))
    off = distance(law, exact.law)
    rows = {
        "gain": (distance(found.gain, gains, unit), found.gain_error, largest * unit, largest * unit),
        "bias": (distance(found.bias, exact.bias), found.bias_error, np.abs(found.bias), span),
        "stationary": (off, found.stationary_error, law, 1.0),
    }
    if not multichain:
        rows["stationary in total"] = off.sum(), found.stationary_error_total, 1.0, 1.0
        both, scale = [("", exact.variance)], largest * max(largest, span)
        if mrp.rate is not None:
            both = [(" per step", exact.variance), ("", exact.variance_in_time)]
        for name, true in both:
            in_time = mrp.rate if mrp.rate is not None and name == "" else 1.0
            value = found.variance_per_step if name else found.asymptotic_variance
            error = found.variance_per_step_error if name else found.asymptotic_variance_error
            rows[f"variance{name}"] = distance(value, [true], in_time), error, abs(value), scale * in_time
    return {
        name: Measured(*np.broadcast_arrays(*map(np.atleast_1d, parts[:3])), parts[3])
        for name, parts in rows.items()
    }


def process(chain: ExactChain) -> gb.MarkovRewardProcess:
    """The chain as the package takes it."""
    return gb.MarkovRewardProcess(chain.transitions, chain.rewards)


def gain_error(solution: gb.Solution, exact: Any) -> float:
    """The error of the gain, relative to the largest reward."""
    return abs(solution.gain - exact.gain) / (float(np.abs(solution.mrp.rewards).max()) or 1.0)


def bias_error(solution: gb.Solution, exact: Any) -> float:
    """The error of the bias, relative to its span (to the largest reward if the bias is constant)."""
    scale = np.ptp(exact.bias) or np.abs(solution.mrp.rewards).max() or 1.0
    return float(np.abs(solution.bias - exact.bias).max() / scale)


def true_error(solution: gb.Solution, exact: Any) -> float:
    """What ``error_bound`` is about."""
    return max(gain_error(solution, exact), bias_error(solution, exact))


def entrywise_error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest relative error of an entry; zeros must be met exactly."""
    assert np.array_equal(found == 0, exact == 0)
    positive = exact != 0
    return float(np.abs(found[positive] / exact[positive] - 1).max())
