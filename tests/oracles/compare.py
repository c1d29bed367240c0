"""The true error of a solution, in the terms of its own ``error_bound``."""

from typing import Any

import numpy as np

import gainbias as gb

from .record import ExactChain


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
