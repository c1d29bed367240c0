"""The second-largest eigenvalue modulus of a chain: how fast it forgets its start, in the long run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from gainbias.model.checks import FloatArray
from gainbias.model.contraction import contraction_gap
from gainbias.model.deviation import solve_once
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solution import ConvergenceError
from gainbias.model.solve import Poisson, poisson_solver

DENSE_STATES = 1_000
"""Up to this many states all eigenvalues are computed."""

REVERSIBLE = 1e-9
"""Flows in both directions that agree this well, relatively, make a chain reversible."""

NEAR_ONE = 0.5
"""Eigenvalues this close to 1 come from the inverse of I - P, which has all digits of their distance."""

FEW_STEPS, MOST_STEPS = 16, 1_000
"""Powers of P whose eigenvalues are looked for lie between these."""

VANISHED = 1e-4
"""A power of P that shrinks a random vector to less than this has lost digits."""

POWER_ERROR = 1e-9
"""Error of a modulus that was found from powers of P."""

RESTARTS = 50
"""Restarts of Arnoldi after which it is given up."""


def second_eigenvalue_modulus(mrp: MarkovRewardProcess) -> float:
    """Largest modulus among the eigenvalues of P, one eigenvalue 1 left out.

    It is 1 if the chain is periodic or has several recurrent classes, and 0 for one state. Accuracy is
    promised for reversible chains only (see `spectral_gap`).

    Parameters
    ----------
    mrp : MarkovRewardProcess
        Any process.

    Returns
    -------
    float
        The modulus; see `spectral_gap` for its distance from 1, which keeps more digits.

    Raises
    ------
    ConvergenceError
        If the eigenvalue of a large chain that is not reversible could not be found.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])
    >>> round(gb.second_eigenvalue_modulus(process), 12)
    0.8
    """
    return 1.0 - spectral_gap(mrp)


def spectral_gap(mrp: MarkovRewardProcess) -> float:
    """1 minus the second-largest eigenvalue modulus.

    All eigenvalues count, also those near -1 (some authors leave them out). The gap of a reversible chain is
    accurate relative to itself, however small.

    Nothing is promised for other chains. What is measured there is the gap of a matrix that differs from P by
    rounding, and eigenvalues of a strongly non-reversible (non-normal) matrix may be so ill-conditioned that
    this is far from the gap of P: a chain that moves from i to i + 1 with probability 0.9, and else restarts
    at 0, has the gap 1, but 0.37 is found for 100 states. Where eigenvalues are well-conditioned, as on a
    torus, the gap has about 12 digits, and 9 above 1000 states. `mixing_time` needs no eigenvalues up to 1000
    states.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        Any process.

    Raises
    ------
    ConvergenceError
        If the eigenvalue of a large chain that is not reversible could not be found.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])
    >>> round(gb.spectral_gap(process), 12)
    0.2
    """
    if mrp.num_states == 1:
        return 1.0
    if not mrp.is_unichain or mrp.period > 1:
        return 0.0
    poisson = poisson_solver(mrp)
    stationary = poisson.stationary
    if is_reversible(mrp, stationary):
        gap = contraction_gap(mrp.csr, stationary)
        return gap / (1.0 + float(np.sqrt(max(0.0, 1.0 - gap))))
    slow = slowest_relaxation(poisson)
    if _is_quick(poisson):
        return slow
    far = 1.0 - _largest_modulus(poisson, slow)
    # Powers of a large chain see the eigenvalues near 1 too, with fewer digits.
    error = POWER_ERROR if mrp.num_states > DENSE_STATES else 0.0
    return far if far < slow - error else slow


def is_reversible(mrp: MarkovRewardProcess, stationary: FloatArray, tolerance: float = REVERSIBLE) -> bool:
    """Whether the flow mu(s) P(s, s') equals the flow back for all pairs of states, and all are visited.

    Parameters
    ----------
    mrp : MarkovRewardProcess
    stationary : ndarray, shape (n,)
        Its stationary law mu.
    tolerance : float
        How far the two flows may differ, relatively.
    """
    flows = sparse.csr_array(sparse.diags_array(stationary) @ mrp.csr)
    surplus = abs(flows - flows.T) - tolerance * (flows + flows.T)
    return mrp.is_irreducible and (surplus.nnz == 0 or float(surplus.max()) <= 0.0)


def slowest_relaxation(poisson: Poisson) -> float:
    """Smallest 1 - |lambda| among the eigenvalues near 1, at most 1; of a reversible chain to all digits.

    For a large chain that forgets quickly no eigenvalue stands out near 1, and all eigenvalues are taken.

    Parameters
    ----------
    poisson : Poisson
        Applies the deviation matrix, whose eigenvalues are 1 / (1 - lambda).
    """
    if _is_quick(poisson):
        return 1.0 - _largest_modulus(poisson, slow=1.0)
    size = poisson.mrp.num_states
    if size <= DENSE_STATES:
        inverses = np.linalg.eigvals(solve_once(poisson, np.eye(size)))
    else:
        inverses = _arnoldi(lambda vector: solve_once(poisson, vector), size, "of the deviation matrix")
    distances = 1.0 / inverses[np.abs(inverses) >= 1.0 / NEAR_ONE]
    # 1 - |1 - x|, with the subtraction carried out before rounding can hurt
    gaps = (2.0 * distances.real - np.abs(distances) ** 2) / (1.0 + np.abs(1.0 - distances))
    return float(np.min(gaps, initial=1.0))


def _is_quick(poisson: Poisson) -> bool:
    """Whether a large chain forgets so quickly that it was not worth an elimination."""
    return poisson.mrp.num_states > DENSE_STATES and poisson.solver.method in ("power", "krylov")


def _largest_modulus(poisson: Poisson, slow: float) -> float:
    """Largest modulus of an eigenvalue that is not near 1, or something no larger than 1 - slow."""
    mrp, stationary = poisson.mrp, poisson.stationary
    if mrp.num_states <= DENSE_STATES:
        found = np.linalg.eigvals(mrp.csr.toarray() - stationary)
        return float(np.max(np.abs(found[np.abs(1.0 - found) > NEAR_ONE / 2]), initial=0.0))

    def advance(values: FloatArray, steps: int) -> FloatArray:
        values = values - stationary @ values
        for _ in range(steps):
            values = np.asarray(mrp.csr @ values)
        return values

    # Eigenvalues crowd at the rim of a disc. High powers set their moduli apart, as long as none vanishes.
    probe = _probe(mrp.num_states)
    steps = 1
    while steps < FEW_STEPS and np.linalg.norm(probe := advance(probe, 1)) > VANISHED * mrp.num_states**0.5:
        steps += 1
    steps = min(max(steps, round(0.05 / slow)), MOST_STEPS)
    found = _arnoldi(lambda vector: advance(vector, steps), mrp.num_states, f"of {steps} steps of the chain")
    return float(np.abs(found).max() ** (1.0 / steps))


def _arnoldi(apply: Callable[[FloatArray], FloatArray], size: int, what: str) -> NDArray[np.complex128]:
    """Find a few eigenvalues of largest modulus."""
    operator = LinearOperator((size, size), matvec=lambda x: apply(np.ravel(x)), dtype=np.float64)
    try:
        found = eigs(
            operator, k=4, ncv=40, v0=_probe(size), tol=1e-10, maxiter=RESTARTS, return_eigenvectors=False
        )
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"the largest eigenvalues {what} could not be told apart: {error}; mixing_time_bounds "
            "does without them"
        ) from error
    return np.asarray(found)


def _probe(size: int) -> FloatArray:
    """Random vector, always the same, so that answers depend on the chain alone."""
    return np.random.default_rng(0).standard_normal(size)
