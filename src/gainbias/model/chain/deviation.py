"""The deviation matrix, which maps any rewards to their bias: applied, formed, and its trace."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gainbias.model.checks import float_array
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.solve import Poisson, poisson_solver
from gainbias.types import Floats

MOST_DEVIATION_STATES = 5_000
"""The deviation matrix is dense, and its columns are solved for one by one."""


def deviation(mrp: MarkovRewardProcess, vector: ArrayLike) -> Floats:
    """Return the deviation matrix applied to vectors, without forming it.

    The deviation matrix is H = (I - P + e mu^T)^-1 - e mu^T, the sum over all times t of P^t - e mu^T (its
    average limit for a periodic chain). Applied to rewards it gives their bias.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class; its rewards do not matter.
    vector : array_like, shape (n,) or (n, k)
        One value, or k values, per state.

    Returns
    -------
    ndarray, shape (n,) or (n, k)
        The product H @ vector.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> gb.deviation(process, [1.8, 0.0]).round(12)
    array([ 0.5, -0.5])
    """
    refuse_durations(mrp, "deviation")
    values = float_array(vector, "vector")
    if values.ndim not in (1, 2) or values.shape[0] != mrp.num_states:
        raise ValueError(
            f"vector must have shape ({mrp.num_states},) or ({mrp.num_states}, k), one row for each state, "
            f"found shape {values.shape}"
        )
    return np.asarray(poisson_solver(mrp).solve(values))


def deviation_matrix(mrp: MarkovRewardProcess) -> Floats:
    """Return the deviation matrix (see `deviation`), shape (n, n), for at most 5000 states.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.deviation_matrix(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    refuse_durations(mrp, "deviation_matrix")
    _check_size(mrp, "the deviation matrix is dense", "apply it to vectors with gb.deviation")
    solver = poisson_solver(mrp)
    columns = [_column(solver, state) for state in range(mrp.num_states)]
    return np.stack(columns, axis=1)


def kemeny_constant(mrp: MarkovRewardProcess) -> float:
    """Return the expected number of steps to a state drawn from the stationary law, from any state.

    Being there already counts as 0 steps, so this is the trace of the deviation matrix, and the sum of
    ``1 / (1 - lambda)`` over all eigenvalues of P except one eigenvalue 1. (Counting at least one step makes
    it larger by 1.)

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class and at most 5000 states. Transient states add to the trace, but not to the
        number of steps from the other states.

    Examples
    --------
    >>> import gainbias as gb
    >>> round(gb.kemeny_constant(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])), 12)
    0.555555555556
    """
    refuse_durations(mrp, "kemeny_constant")
    _check_size(mrp, "the Kemeny constant needs a linear solve per state", "aggregate states first")
    solver = poisson_solver(mrp)
    return float(sum(_column(solver, state)[state] for state in range(mrp.num_states)))


def solve_once(poisson: Poisson, right: Floats) -> Floats:
    """Return the deviation matrix applied to (n,) or (n, k), without the solves that would measure the error.

    Elimination gives nearly all digits at once; an iterative method about nine.
    """
    if right.ndim == 2:
        return np.stack([solve_once(poisson, column) for column in right.T], axis=1)
    values = poisson.solver.solve(right - poisson.solver.average(right))
    return np.asarray(values - poisson.solver.average(values))


def _column(poisson: Poisson, state: int) -> Floats:
    unit = np.zeros(poisson.mrp.num_states)
    unit[state] = 1.0
    is_direct = poisson.solver.tolerance == 0.0
    return solve_once(poisson, unit) if is_direct else poisson.solve(unit)


def _check_size(mrp: MarkovRewardProcess, reason: str, advice: str) -> None:
    if mrp.num_states > MOST_DEVIATION_STATES:
        raise ValueError(
            f"{reason}, so there may be at most {MOST_DEVIATION_STATES} states, found "
            f"{mrp.num_states}: {advice}"
        )
