"""How much one step of a chain shrinks what is not constant, in the norm weighted by the stationary law."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from gainbias.model.chain.reversible import (
    DENSE_STATES,
    LANCZOS_RESTARTS,
    QUICK_GAP,
    QUICK_RESTARTS,
    check_in_range,
    largest_eigenpair,
    multiplicative_flows,
)
from gainbias.model.checks import CsrArray, FloatArray
from gainbias.model.solve.solution import ConvergenceError

MOST_PAIRS = 50_000_000
"""Above this many pairs of successors of a common state, the flows of two half-steps are not formed."""

NO_CONTRACTION = 1e-6
"""A gap below this is not told from 0 by Lanczos with the transitions alone."""


def contraction_gap(transitions: CsrArray, stationary: FloatArray, steps: int = 1) -> float:
    """Return 1 - omega^2 for the largest omega = |P^k z|_D over |z|_D = 1 with mu^T z = 0.

    For one state, where there is no such z, it is infinite. For one step it is accurate relative to itself,
    with one exception: where states have so many successors that their pairs do not fit memory. Then, and for
    several steps, Lanczos works with the transitions alone: the error is about 1e-9 (absolute), and what is
    below 1e-6, or cannot be told from it, is called 0.

    Parameters
    ----------
    transitions : csr_array, shape (n, n)
        The chain P.
    stationary : ndarray, shape (n,)
        Its stationary law mu, positive everywhere.
    steps : int
        The number of steps k.
    """
    if stationary.size == 1:
        return np.inf
    check_in_range(stationary)
    if steps > 1:
        return _gap_by_steps(transitions, stationary, steps, QUICK_RESTARTS)
    if stationary.size > DENSE_STATES:
        gap = _gap_by_steps(transitions, stationary, 1, QUICK_RESTARTS)
        if gap > QUICK_GAP:
            return gap
    if _successor_pairs(transitions) <= MOST_PAIRS:
        return multiplicative_flows(transitions, stationary).smallest_ratio(stationary)
    return _gap_by_steps(transitions, stationary, 1, LANCZOS_RESTARTS)


def contraction_factor(transitions: CsrArray, stationary: FloatArray) -> float:
    """omega, the largest |P z|_D over |z|_D = 1 with mu^T z = 0; 0 for one state (see `contraction_gap`)."""
    return float(np.sqrt(max(0.0, 1.0 - contraction_gap(transitions, stationary))))


def _successor_pairs(transitions: CsrArray) -> int:
    successors = np.diff(transitions.indptr).astype(np.int64)
    return min(int(successors @ successors), transitions.shape[0] ** 2)


def _gap_by_steps(transitions: CsrArray, stationary: FloatArray, steps: int, restarts: int) -> float:
    """1 - omega^2 by Lanczos, going the steps forward and then back in time; 0 if that does not converge."""
    root = np.sqrt(stationary)
    backward = transitions.T.tocsr()

    def forth_and_back(scaled: FloatArray) -> FloatArray:
        values = (scaled.T / root).T
        values = values - stationary @ values
        for _ in range(steps):
            values = np.asarray(transitions @ values)
        values = (values.T * stationary).T
        for _ in range(steps):
            values = np.asarray(backward @ values)
        return np.asarray((values.T / root).T)

    with suppress(ConvergenceError):
        largest, _ = largest_eigenpair(forth_and_back, root.size, restarts)
        return 1.0 - largest if largest < 1.0 - NO_CONTRACTION else 0.0
    return 0.0
