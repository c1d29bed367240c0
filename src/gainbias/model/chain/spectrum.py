"""The second-largest eigenvalue modulus of a chain: how fast it forgets its start, in the long run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from gainbias.model.chain.contraction import contraction_gap
from gainbias.model.chain.deviation import solve_once
from gainbias.model.chain.reversible import SMALLEST_PROBABILITY
from gainbias.model.checks import FloatArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solution import ConvergenceError
from gainbias.model.solve.solve import Poisson, poisson_solver

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

STIR, SURE = 1e-12, 1e-4
"""A gap is trusted if a disturbance of the chain by the first moves it by no more than the second."""

RESTARTS = 50
"""Restarts of Arnoldi after which it is given up."""


def second_eigenvalue_modulus(mrp: MarkovRewardProcess) -> float:
    """Largest modulus among the eigenvalues of P, one eigenvalue 1 left out.

    It is 1 if the chain is periodic or has several recurrent classes, and 0 for one state. It is refused
    where it is too ill-conditioned (see `spectral_gap`).

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
        As in `spectral_gap`.

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

    Eigenvalues of other chains may be so ill-conditioned that rounding moves them far. A chain that moves
    from i to i + 1 with probability 0.9, and else restarts at 0, has the gap 1, but for 100 states there is a
    chain with the gap 0.4 that differs from it by rounding. The gap is therefore found once more, for a chain
    that was disturbed by thousands of times the rounding. If that moves it by more than 1e-4 of itself, it is
    refused. What is returned has 5 digits or more: mostly 9, and 12 up to 1000 states. `mixing_time` needs no
    eigenvalues.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        Any process.

    Raises
    ------
    ConvergenceError
        If the chain is not reversible and its eigenvalues are too ill-conditioned, or the eigenvalue of a
        large chain could not be found.

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
    gap, moved = (_gap(poisson, size) for size in (0.0, STIR))
    if not abs(moved - gap) <= SURE * gap:
        raise ConvergenceError(
            f"the eigenvalues of this chain are too ill-conditioned: a gap of {gap:.3g} was found, and of "
            f"{moved:.3g} for a chain that differs by {STIR:g}, so that neither says much about the chain "
            "itself: mixing_time and mixing_time_bounds do without eigenvalues"
        )
    return gap


def _gap(poisson: Poisson, stir: float) -> float:
    """The gap of the chain, disturbed by about `stir`, from the eigenvalues near 1 and all others."""
    slow = slowest_relaxation(poisson, stir)
    if _is_quick(poisson):
        return slow
    far = 1.0 - _largest_modulus(poisson, slow, stir)
    # Powers of a large chain see the eigenvalues near 1 too, with fewer digits.
    error = POWER_ERROR if poisson.mrp.num_states > DENSE_STATES else 0.0
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


def slowest_relaxation(poisson: Poisson, stir: float = 0.0) -> float:
    """Smallest 1 - |lambda| among the eigenvalues near 1, at most 1; of a reversible chain to all digits.

    For a large chain that forgets quickly no eigenvalue stands out near 1, and all eigenvalues are taken.

    Parameters
    ----------
    poisson : Poisson
        Applies the deviation matrix, whose eigenvalues are 1 / (1 - lambda).
    stir : float
        Size of a disturbance of the deviation matrix, relative to its own.
    """
    if _is_quick(poisson):
        return 1.0 - _largest_modulus(poisson, 1.0, stir)
    size = poisson.mrp.num_states
    if size <= DENSE_STATES:
        inverses = _all_eigenvalues(poisson, solve_once(poisson, np.eye(size)), stir)
    else:
        apply = _weighted(poisson, lambda vector: solve_once(poisson, vector), stir)
        inverses = _arnoldi(apply, size, "of the deviation matrix")
    distances = 1.0 / inverses[np.abs(inverses) >= 1.0 / NEAR_ONE]
    # 1 - |1 - x|, with the subtraction carried out before rounding can hurt
    gaps = (2.0 * distances.real - np.abs(distances) ** 2) / (1.0 + np.abs(1.0 - distances))
    return float(np.min(gaps, initial=1.0))


def _weights(poisson: Poisson) -> FloatArray:
    """Root of the stationary law: a matrix that is scaled with it is as symmetric as the chain reversible."""
    law = poisson.stationary
    return np.sqrt(np.where(law > 0.0, np.maximum(law, SMALLEST_PROBABILITY), 1.0))


def _disturbance(size: int, stir: float) -> tuple[FloatArray, FloatArray]:
    """Two vectors whose outer product moves well-conditioned eigenvalues by less than `stir`."""
    left, right = np.random.default_rng(1).standard_normal((2, size))
    return stir * left, right / np.sqrt(size)


def _all_eigenvalues(poisson: Poisson, matrix: FloatArray, stir: float) -> NDArray[np.complex128]:
    """Eigenvalues of a matrix of the chain, disturbed relative to what it makes of a random vector.

    What leads from one communicating class to another has no part in them and is left out.
    """
    size, root, class_of = poisson.mrp.num_states, _weights(poisson), poisson.mrp.structure.class_of
    same = class_of[:, np.newaxis] == class_of
    weighted = np.where(same, matrix * (root[:, np.newaxis] / root), 0.0)
    growth = np.linalg.norm(weighted @ _probe(size)) / np.linalg.norm(_probe(size))
    return np.linalg.eigvals(weighted + growth * np.where(same, np.outer(*_disturbance(size, stir)), 0.0))


def _weighted(
    poisson: Poisson, apply: Callable[[FloatArray], FloatArray], stir: float
) -> Callable[[FloatArray], FloatArray]:
    """Return the same for a matrix that is only applied; classes are left as they are."""
    root, probe = _weights(poisson), _probe(poisson.mrp.num_states)
    growth = np.linalg.norm(root * apply(probe / root)) / np.linalg.norm(probe) if stir > 0.0 else 0.0
    left, right = _disturbance(probe.size, stir)
    return lambda vector: root * apply(vector / root) + growth * left * (right @ vector)


def _is_quick(poisson: Poisson) -> bool:
    """Whether a large chain forgets so quickly that it was not worth an elimination."""
    return poisson.mrp.num_states > DENSE_STATES and poisson.solver.method in ("power", "krylov")


def _largest_modulus(poisson: Poisson, slow: float, stir: float) -> float:
    """Largest modulus of an eigenvalue that is not near 1, or something no larger than 1 - slow."""
    mrp, stationary = poisson.mrp, poisson.stationary
    if mrp.num_states <= DENSE_STATES:
        found = _all_eigenvalues(poisson, mrp.csr.toarray() - stationary, stir)
        return float(np.max(np.abs(found[np.abs(1.0 - found) > NEAR_ONE / 2]), initial=0.0))

    def advance(values: FloatArray) -> FloatArray:
        return np.asarray(mrp.csr @ (values - stationary @ values))

    # Eigenvalues crowd at the rim of a disc. High powers set their moduli apart, as long as none vanishes.
    probe = advance(_probe(mrp.num_states))
    steps = 1
    while steps < FEW_STEPS and np.linalg.norm(probe) > VANISHED * mrp.num_states**0.5:
        probe = advance(probe)
        steps += 1
    steps = min(max(steps, round(0.05 / slow)), MOST_STEPS)
    step = _weighted(poisson, advance, stir)

    def many(values: FloatArray) -> FloatArray:
        for _ in range(steps):
            values = step(values)
        return values

    found = _arnoldi(many, mrp.num_states, f"of {steps} steps of the chain")
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
