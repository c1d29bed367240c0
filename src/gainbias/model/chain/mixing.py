"""The mixing time: how many steps a chain needs to forget where it started.

How much one step of a chain shrinks functions of mean 0, in the norm weighted by the stationary law.

The second-largest eigenvalue modulus of a chain: how fast it forgets its start, in the long run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from gainbias.model.chain.deviation import solve_once
from gainbias.model.chain.reversible import (
    AGREEMENT,
    DENSE_FLOW_STATES,
    LANCZOS_RESTARTS,
    QUICK_GAP,
    QUICK_RESTARTS,
    SMALLEST_PROBABILITY,
    check_in_range,
    largest_eigenpair,
    multiplicative_flows,
)
from gainbias.model.checks import EPSILON, CsrArray, row_sums
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.solution import ConvergenceError
from gainbias.model.solve.solve import Poisson, poisson_solver
from gainbias.types import Floats

MOST_PAIRS = 50_000_000
"""Above this many pairs of successors of a common state, the flows of two half-steps are not formed."""

NO_CONTRACTION = 1e-6
"""Lanczos with the transitions alone cannot tell a gap below this from 0."""


def contraction_gap(transitions: CsrArray, stationary: Floats, steps: int = 1) -> float:
    """Return 1 - omega^2 for the largest omega = |P^k z|_D over |z|_D = 1 with mu^T z = 0.

    For one state, where there is no such z, it is infinite. For one step it has a small relative error,
    unless the pairs of successors of all states do not fit into memory. Then, and for several steps,
    Lanczos works with the transitions alone: the absolute error is about 1e-9, and a result below 1e-6, or
    indistinguishable from that, is returned as 0.

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
    if stationary.size > DENSE_FLOW_STATES:
        gap = _gap_by_steps(transitions, stationary, 1, QUICK_RESTARTS)
        if gap > QUICK_GAP:
            return gap
    if _successor_pairs(transitions) <= MOST_PAIRS:
        return multiplicative_flows(transitions, stationary).smallest_ratio(stationary)
    return _gap_by_steps(transitions, stationary, 1, LANCZOS_RESTARTS)


def contraction_factor(transitions: CsrArray, stationary: Floats) -> float:
    """omega, the largest |P z|_D over |z|_D = 1 with mu^T z = 0; 0 for one state (see `contraction_gap`)."""
    return float(np.sqrt(max(0.0, 1.0 - contraction_gap(transitions, stationary))))


def _successor_pairs(transitions: CsrArray) -> int:
    successors = np.diff(transitions.indptr).astype(np.int64)
    return min(int(successors @ successors), transitions.shape[0] ** 2)


def _gap_by_steps(transitions: CsrArray, stationary: Floats, steps: int, restarts: int) -> float:
    """1 - omega^2 by Lanczos, going the steps forward and then back in time; 0 if that does not converge."""
    root = np.sqrt(stationary)
    backward = transitions.T.tocsr()

    def forth_and_back(scaled: Floats) -> Floats:
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


DENSE_SPECTRUM_STATES = 1_000
"""Up to this many states all eigenvalues are computed."""

REVERSIBLE = 1e-9
"""Flows in both directions that agree this well, relatively, make a chain reversible."""

NEAR_ONE = 0.5
"""Eigenvalues this close to 1 come from the inverse of I - P, which has all digits of their distance."""

FEW_STEPS, MANY_STEPS = 16, 1_000
"""Eigenvalues are computed from powers of P between these."""

VANISHED = 1e-4
"""A power of P that shrinks a random vector to less than this has lost digits."""

POWER_ERROR = 1e-9
"""Error of a modulus that was found from powers of P."""

STIR, SURE = 1e-12, 1e-6
"""A result is trusted if a perturbation of the chain by the first moves it by no more than the second."""

LEAST_GROWTH = 1e-3
"""A perturbation is relative to the size of a matrix, or to this, so that it is never below rounding."""

LARGEST_EIGENVALUE_ERROR = 1e-10
"""A perturbation of 1e-12 moves eigenvalues by no more than this if they are well-conditioned."""

RESTARTS = 50
"""Restarts of Arnoldi after which it is given up."""


def second_eigenvalue_modulus(mrp: MarkovRewardProcess) -> float:
    """Return the largest modulus among the eigenvalues of P, leaving out one eigenvalue 1.

    It is 1 if the chain is periodic or has several recurrent classes, and 0 for one state. The result has 6
    digits or more, or is 0. A modulus below the rounding of the chain, 9e-16 sqrt(n), counts as 0 if
    its eigenvalues are well-conditioned. Everything else is refused, including a small modulus with fewer
    digits, below about 1e-9 sqrt(n).

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
        If rounding decides the result, or the eigenvalue of a large chain could not be found.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])
    >>> round(gb.second_eigenvalue_modulus(process), 12)
    0.8
    >>> gb.second_eigenvalue_modulus(gb.MarkovRewardProcess([[0.3, 0.7], [0.3, 0.7]], [0.0, 0.0]))
    0.0
    """
    refuse_durations(mrp, "second_eigenvalue_modulus")
    found = _second(mrp)
    floor = _rounding_floor(mrp.num_states)
    if found.modulus <= floor and found.error <= LARGEST_EIGENVALUE_ERROR:
        return 0.0
    if not found.error <= SURE * found.modulus:
        raise ConvergenceError(
            f"the second-largest eigenvalue modulus of this chain is about {found.modulus:.3g}, but may be "
            f"off by {found.error:.1g}, and {SURE:g} of itself must be certain: eigenvalues so small, or so "
            "ill-conditioned, are decided by rounding; spectral_gap may still be known, and mixing_time "
            "needs no eigenvalues"
        )
    return found.modulus


def spectral_gap(mrp: MarkovRewardProcess) -> float:
    """1 minus the second-largest eigenvalue modulus.

    All eigenvalues count, also those near -1 (some authors leave them out). The gap of a reversible chain
    has a small relative error, however small it is.

    Eigenvalues of other chains may be so ill-conditioned that rounding moves them far. A chain that moves
    from i to i + 1 with probability 0.9, and otherwise restarts at 0, has the gap 1, but for 100 states
    there is a chain with the gap 0.4 that differs from it by rounding. The gap is therefore computed again,
    for a chain that was perturbed by thousands of times the rounding. If that moves it by more than 1e-6 of
    itself, it is refused. The result has 6 digits or more: mostly 9, and 12 up to 1000 states whose
    eigenvalues are well-conditioned. `mixing_time` needs no eigenvalues.

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
    refuse_durations(mrp, "spectral_gap")
    found = _second(mrp)
    if not found.error <= SURE * found.gap:
        raise ConvergenceError(
            f"the eigenvalues of this chain are too ill-conditioned: a gap of {found.gap:.3g} was found, and "
            f"one that differs by {found.error:.1g} for a chain that differs by {STIR:g}, so that neither "
            "says much about the chain itself: mixing_time and mixing_time_bounds need no eigenvalues"
        )
    return found.gap


def gap_and_error(mrp: MarkovRewardProcess) -> tuple[float, float]:
    """Return the gap of `spectral_gap`, even if it is uncertain, and an estimate of its absolute error.

    The gap of a reversible chain is computed in two ways, which agree to a relative 1e-8: that counts as its
    error.
    """
    found = _second(mrp)
    is_exact = mrp.num_states == 1 or not mrp.is_unichain or mrp.period > 1
    return found.gap, 0.0 if is_exact else max(found.error, AGREEMENT * abs(found.gap))


class _Second(NamedTuple):
    """The second-largest modulus, its distance from 1 without cancellation, and how far both may be off."""

    modulus: float
    gap: float
    error: float

    @classmethod
    def from_modulus(cls, modulus: float, error: float = 0.0) -> _Second:
        return cls(modulus, 1.0 - modulus, error)

    @classmethod
    def from_gap(cls, gap: float, error: float = 0.0) -> _Second:
        return cls(1.0 - gap, gap, error)


def _second(mrp: MarkovRewardProcess) -> _Second:
    """The second-largest modulus of any chain."""
    if mrp.num_states == 1:
        return _Second.from_modulus(0.0)
    if not mrp.is_unichain or mrp.period > 1:
        return _Second.from_gap(0.0)
    poisson = poisson_solver(mrp)
    if is_reversible(mrp, poisson.stationary):
        return _of_reversible(mrp, poisson.stationary)
    found, moved = (_disturbed(poisson, size) for size in (0.0, STIR))
    # The modulus does not show a gap far below the unit of rounding, nor the gap a small modulus.
    apart = max(abs(moved.modulus - found.modulus), abs(moved.gap - found.gap))
    # No gap is negative: a negative result only shows that the gap is not larger than that.
    below = max(-found.gap, 0.0)
    return _Second(found.modulus - below, found.gap + below, found.error + apart + below)


def _of_reversible(mrp: MarkovRewardProcess, stationary: Floats) -> _Second:
    """The second-largest modulus from the gap if that is small, else from the eigenvalues themselves."""
    loss = contraction_gap(mrp.csr, stationary)
    if loss < NEAR_ONE:
        return _Second.from_gap(loss / (1.0 + float(np.sqrt(1.0 - loss))))
    root = np.sqrt(stationary)
    symmetric = sparse.csr_array(sparse.diags_array(root) @ mrp.csr @ sparse.diags_array(1.0 / root))
    # The difference between the two directions can move eigenvalues by as much.
    error = _rounding_floor(root.size) + 0.5 * float(sparse.linalg.norm(symmetric - symmetric.T))
    symmetric = sparse.csr_array(0.5 * (symmetric + symmetric.T))
    if root.size <= DENSE_SPECTRUM_STATES:
        values = np.linalg.eigvalsh(symmetric.toarray() - np.outer(root, root))
        return _Second.from_modulus(float(np.abs(values).max()), error)

    def step(vector: Floats) -> Floats:
        return np.asarray(symmetric @ vector - root * (root @ vector))

    probe = _probe(root.size)
    if np.linalg.norm(step(probe)) <= error * np.linalg.norm(probe):
        return _Second.from_modulus(0.0, error)  # nothing is left for Lanczos to work with
    modulus = float(np.abs(_arnoldi(step, root.size, "of the chain")).max())
    return _Second.from_modulus(modulus, error + POWER_ERROR * modulus)


def _rounding_floor(size: int) -> float:
    """Absolute error that rounding leaves in the eigenvalues of a symmetric matrix of norm 1."""
    return 4.0 * EPSILON * float(np.sqrt(size))


def _disturbed(poisson: Poisson, stir: float) -> _Second:
    """The second-largest modulus of the chain, perturbed by about `stir`: near 1, or of all others."""
    floor = _rounding_floor(poisson.mrp.num_states)
    if _is_quick(poisson):
        return _Second.from_modulus(_largest_modulus(poisson, 1.0, stir), floor)
    slow = slowest_relaxation(poisson, stir)
    far = _largest_modulus(poisson, slow, stir)
    # Powers of a large chain also show the eigenvalues near 1, with fewer digits.
    error = POWER_ERROR if poisson.mrp.num_states > DENSE_SPECTRUM_STATES and slow < 1.0 else 0.0
    return _Second.from_modulus(far, floor) if 1.0 - far < slow - error else _Second.from_gap(slow)


def is_reversible(mrp: MarkovRewardProcess, stationary: Floats, tolerance: float = REVERSIBLE) -> bool:
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
        Size of a perturbation of the deviation matrix, relative to its own size.
    """
    if _is_quick(poisson):
        return 1.0 - _largest_modulus(poisson, 1.0, stir)
    size = poisson.mrp.num_states
    if size <= DENSE_SPECTRUM_STATES:
        inverses = _all_eigenvalues(poisson, solve_once(poisson, np.eye(size)), stir)
    else:
        apply = _weighted(poisson, lambda vector: solve_once(poisson, vector), stir)
        inverses = _arnoldi(apply, size, "of the deviation matrix")
    distances = 1.0 / inverses[np.abs(inverses) >= 1.0 / NEAR_ONE]
    # 1 - |1 - x|, with the subtraction carried out before rounding can hurt
    gaps = (2.0 * distances.real - np.abs(distances) ** 2) / (1.0 + np.abs(1.0 - distances))
    return float(np.min(gaps, initial=1.0))


def _weights(poisson: Poisson) -> Floats:
    """Square root of the stationary law: a matrix scaled with it is symmetric if the chain is reversible."""
    law = poisson.stationary
    return np.sqrt(np.where(law > 0.0, np.maximum(law, SMALLEST_PROBABILITY), 1.0))


def _disturbance(size: int, stir: float) -> tuple[Floats, Floats]:
    """Two vectors whose outer product moves well-conditioned eigenvalues by less than `stir`."""
    left, right = np.random.default_rng(1).standard_normal((2, size))
    return stir * left, right / np.sqrt(size)


def _all_eigenvalues(poisson: Poisson, matrix: Floats, stir: float) -> NDArray[np.complex128]:
    """Eigenvalues of a matrix of the chain, perturbed relative to its product with a random vector.

    If that is small, the matrix still has the rounding of the chain, and is perturbed by more. Transitions
    from one communicating class to another do not affect them and are left out.
    """
    size, root, class_of = poisson.mrp.num_states, _weights(poisson), poisson.mrp.structure.class_of
    same = class_of[:, np.newaxis] == class_of
    weighted = np.where(same, matrix * (root[:, np.newaxis] / root), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        growth = max(np.linalg.norm(weighted @ _probe(size)) / np.linalg.norm(_probe(size)), LEAST_GROWTH)
        disturbed = weighted + growth * np.where(same, np.outer(*_disturbance(size, stir)), 0.0)
    if not np.isfinite(disturbed).all():
        raise ConvergenceError(
            "the eigenvalues of this chain are not known: its values, or the weights of its rarest states, "
            "leave the range of floating-point numbers: leave out the rarest transitions"
        )
    return np.linalg.eigvals(disturbed)


def _weighted(poisson: Poisson, apply: Callable[[Floats], Floats], stir: float) -> Callable[[Floats], Floats]:
    """Return the same for a matrix that is only applied; classes are left as they are."""
    root, probe = _weights(poisson), _probe(poisson.mrp.num_states)
    growth = LEAST_GROWTH
    if stir > 0.0:
        growth = max(growth, float(np.linalg.norm(root * apply(probe / root)) / np.linalg.norm(probe)))
    left, right = _disturbance(probe.size, stir)
    return lambda vector: root * apply(vector / root) + growth * left * (right @ vector)


def _is_quick(poisson: Poisson) -> bool:
    """Whether a large chain forgets so quickly that it was not worth an elimination."""
    return poisson.mrp.num_states > DENSE_SPECTRUM_STATES and poisson.solver.method in ("power", "krylov")


def _largest_modulus(poisson: Poisson, slow: float, stir: float) -> float:
    """Largest modulus of an eigenvalue that is not near 1, or something no larger than 1 - slow."""
    mrp, stationary = poisson.mrp, poisson.stationary
    if mrp.num_states <= DENSE_SPECTRUM_STATES:
        found = _all_eigenvalues(poisson, mrp.csr.toarray() - stationary, stir)
        return float(np.max(np.abs(found[np.abs(1.0 - found) > NEAR_ONE / 2]), initial=0.0))

    def advance(values: Floats) -> Floats:
        return np.asarray(mrp.csr @ (values - stationary @ values))

    # Eigenvalues crowd at the rim of a disc. High powers separate their moduli, as long as none vanishes.
    probe = advance(_probe(mrp.num_states))
    steps = 1
    while steps < FEW_STEPS and np.linalg.norm(probe) > VANISHED * mrp.num_states**0.5:
        probe = advance(probe)
        steps += 1
    steps = min(max(steps, round(0.05 / slow)), MANY_STEPS)
    step = _weighted(poisson, advance, stir)

    def many(values: Floats) -> Floats:
        for _ in range(steps):
            values = step(values)
        return values

    found = _arnoldi(many, mrp.num_states, f"of {steps} steps of the chain")
    return float(np.abs(found).max() ** (1.0 / steps))


def _arnoldi(apply: Callable[[Floats], Floats], size: int, what: str) -> NDArray[np.complex128]:
    """Find a few eigenvalues of largest modulus."""
    operator = LinearOperator((size, size), matvec=lambda x: apply(np.ravel(x)), dtype=np.float64)
    try:
        found = eigs(
            operator, k=4, ncv=40, v0=_probe(size), tol=1e-10, maxiter=RESTARTS, return_eigenvectors=False
        )
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"the largest eigenvalues {what} could not be told apart: {error}; mixing_time_bounds "
            "needs no eigenvalues"
        ) from error
    return np.asarray(found)


def _probe(size: int) -> Floats:
    """Random vector, always the same, so that answers depend only on the chain."""
    return np.random.default_rng(0).standard_normal(size)


EXACT_STATES = 1_000
"""Up to this many states powers of P are formed; above, the mixing time is only bounded."""

SMALLEST_EPS = 1e-290
"""Products of smaller distances leave the range of double precision."""

FIRST_ROUNDING = 8.0
"""Units of rounding by which rows of P - e mu^T may be off in sum, the rounding of mu included."""

MOST_MIXING_DOUBLINGS = 40
"""Beyond 2^40 steps the rounding of P itself decides the answer."""

UNSURE = 1e-8
"""Error that eigenvalues may have, relative for one step and absolute for several, on the safe side."""

DETAILED_BALANCE = 1e-10
"""Flows in both directions agree this well, relatively, in a chain whose eigenvalues can be trusted."""

TIE = 1e-12
"""A distance with this relative difference from eps, and known this well, counts as equal to it."""

LONGEST_BLOCK = 1_024
"""Longest block of steps that is searched for a contraction."""


class MixingTimeBounds(NamedTuple):
    """Bounds on a mixing time: ``lower <= mixing time <= upper``, and whether they are known to be equal."""

    lower: int
    upper: int
    exact: bool


class _Bounds(NamedTuple):
    """Bounds, and whether they differ only because a distance equals eps to a relative error of `TIE`."""

    lower: int
    upper: int
    is_tie: bool


def mixing_time(mrp: MarkovRewardProcess, eps: float) -> int:
    """Return the number of steps to come within `eps` of the stationary law from every start.

    This is min{tau >= 1 : max_s sum_s' |P^tau(s, s') - mu(s')| <= eps}: the distance is the L1 norm, twice
    the total variation. Up to 1000 states it comes from powers of P, whose rounding is followed: the answer
    is returned only if rounding cannot change it, with one exception: a distance that equals `eps` to a
    relative 1e-12, which is then known this well, counts as reached. Above 1000 states it is known only where
    both bounds of `mixing_time_bounds` agree.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class, aperiodic. Above 1000 states there may be no transient states.
    eps : float
        At least 1e-290. The smallest useful eps depends on the chain: powers of P are off by about n t units
        of rounding after t steps, until they shrink.

    Raises
    ------
    ConvergenceError
        If it is not known: because of rounding, as for 1e12 steps or a tiny eps, or because there are more
        than 1000 states. The message has bounds on it.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])
    >>> gb.mixing_time(process, 0.5)  # the distance is 0.8 ** tau
    4
    """
    refuse_durations(mrp, "mixing_time")
    lower, upper, is_tie = _bounds(mrp, eps)
    if lower < upper and not is_tie:
        why = (
            f"above {EXACT_STATES:,} states it is not known better"
            if mrp.num_states > EXACT_STATES
            else f"rounding hides at which step the distance falls below eps = {eps:g}"
        )
        raise ConvergenceError(
            f"the mixing time of {mrp.num_states:,} states lies between {lower:,} and {upper:,}, and {why}: "
            "use gb.mixing_time_bounds, whose upper bound is on the safe side"
        )
    return lower


def mixing_time_or_bound(mrp: MarkovRewardProcess, eps: float) -> tuple[int, bool]:
    """Return the mixing time, or an upper bound where it is not known, and whether it is only a bound."""
    lower, upper, is_tie = _bounds(mrp, eps)
    is_known = lower == upper or is_tie
    return (lower if is_known else upper), not is_known


def mixing_time_bounds(mrp: MarkovRewardProcess, eps: float) -> MixingTimeBounds:
    """Return bounds on `mixing_time`.

    Up to 1000 states they differ only by the effect of rounding in powers of P: mostly not at all, and by
    one step if a distance equals `eps` to rounding. Above, the lower bound of a
    reversible chain is log(1/eps) / -log|lambda| for an eigenvalue lambda of P (1 if none was found); of any
    other chain it is 1, because its eigenvalues may be ill-conditioned. The upper bound is the first multiple
    t of k with omega_k^(t/k) sqrt(1/mu_min - 1) <= eps, where omega_k is the largest |P^k z|_D over
    |z|_D = 1, mu^T z = 0, and k is the power of 2 that gives the smallest bound.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class, aperiodic. Above 1000 states there may be no transient states.
    eps : float
        At least 1e-290.

    Returns
    -------
    MixingTimeBounds
        The tuple ``(lower, upper, exact)``.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.mixing_time_bounds(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0]), 0.5)
    MixingTimeBounds(lower=4, upper=4, exact=True)
    """
    refuse_durations(mrp, "mixing_time_bounds")
    lower, upper, _ = _bounds(mrp, eps)
    return MixingTimeBounds(lower, upper, lower == upper)


def _bounds(mrp: MarkovRewardProcess, eps: float) -> _Bounds:
    _check(mrp, eps)
    if eps >= 2.0 or mrp.num_states == 1:  # no two laws are further apart than 2
        return _Bounds(1, 1, is_tie=False)
    return _searched(mrp, eps) if mrp.num_states <= EXACT_STATES else _bounded(mrp, eps)


def _check(mrp: MarkovRewardProcess, eps: float) -> None:
    if not eps > 0.0:
        raise ValueError(f"eps must be positive, found {eps}")
    if eps < SMALLEST_EPS and mrp.num_states > 1:
        raise ValueError(
            f"eps must be at least {SMALLEST_EPS:g}, because double precision loses digits of smaller "
            f"distances, found {eps}"
        )
    if not mrp.is_unichain:
        raise ValueError(
            f"the process has {mrp.structure.describe_recurrent()}, so it never forgets where it started and "
            "has no mixing time: restrict it to one class"
        )
    if mrp.period > 1:
        raise ValueError(
            f"the process is periodic with period {mrp.period}, so its law does not converge and it has no "
            "mixing time: use the lazy chain (I + P) / 2, which visits the same states"
        )


def _searched(mrp: MarkovRewardProcess, eps: float) -> _Bounds:
    """Bounds from powers of P - e mu^T: square until surely below eps, then add the longest steps above."""
    stationary = poisson_solver(mrp, method="dense-gth").stationary
    off = float(np.abs(row_sums(mrp.csr) - 1.0).max())
    powers = [_Power.of(mrp.csr.toarray() - stationary, FIRST_ROUNDING * EPSILON + off)]
    while powers[-1].distance + powers[-1].error > eps / 2:
        if len(powers) > MOST_MIXING_DOUBLINGS:
            raise ConvergenceError(
                f"after 2^{MOST_MIXING_DOUBLINGS} steps the process is still {powers[-1].distance:.3g} from "
                f"its stationary law, give or take {powers[-1].error:.1g}, more than eps = {eps:g}: double "
                "precision cannot follow it further"
            )
        powers.append(powers[-1].after(powers[-1], stationary))
    lower, doubt = _first(powers, stationary, lambda power: power.distance - power.error <= eps)
    upper, _ = _first(powers, stationary, lambda power: power.distance + power.error <= eps)
    return _Bounds(lower, max(lower, upper), is_tie=doubt <= TIE * eps)


class _Power(NamedTuple):
    """A power of P - e mu^T, the largest sum of absolute entries of a row, and how far this may be off."""

    matrix: Floats
    distance: float
    error: float

    @classmethod
    def of(cls, matrix: Floats, error: float) -> _Power:
        return cls(matrix, float(np.abs(matrix).sum(axis=1).max()), error)

    def after(self, other: _Power, stationary: Floats) -> _Power:
        """Return the product with another power, and the error that both errors and rounding leave.

        With A = P^k - e mu^T and an error E, A E = P^k E - e mu^T E. P^k makes no error larger, and mu^T E
        can be computed, because mu^T A is 0. So errors add up, and do not grow like products of the
        distances, which are up to 2; E A likewise.
        """
        first = min(other.error * self.distance, other.error + float(np.abs(stationary @ other.matrix).sum()))
        second = min(self.error * other.distance, self.error + float(np.abs(self.matrix.sum(axis=1)).max()))
        rounding = EPSILON * (0.5 * len(stationary) + 2.0) * self.distance * other.distance
        error = first + second + self.error * other.error + rounding
        return _Power.of(self.matrix @ other.matrix, error)


def _first(powers: list[_Power], stationary: Floats, is_below: Callable[[_Power], bool]) -> tuple[int, float]:
    """First t >= 1 that is below, from the powers 1, 2, 4, ..., of which the last is, and its error."""
    steps, current, found = 0, None, powers[-1]
    for exponent in range(len(powers) - 1, -1, -1):
        trial = powers[exponent] if current is None else current.after(powers[exponent], stationary)
        if is_below(trial):
            found = trial
        else:
            steps, current = steps + 2**exponent, trial
    return steps + 1, found.error


def _bounded(mrp: MarkovRewardProcess, eps: float) -> _Bounds:
    if not mrp.is_irreducible:
        raise ValueError(
            f"the mixing time of more than {EXACT_STATES} states is bounded through their stationary "
            f"probabilities, which are 0 for {mrp.structure.transient.size} transient states: restrict the "
            "process to its recurrent class"
        )
    poisson = poisson_solver(mrp)
    upper = _upper_bound(mrp, poisson.stationary, eps)
    lower = 1
    if is_reversible(mrp, poisson.stationary, DETAILED_BALANCE):
        with suppress(ConvergenceError):
            slowest = slowest_relaxation(poisson)
            if slowest < 1.0:
                lower = max(1, math.ceil(math.log(eps) / math.log1p(-slowest) * (1.0 - UNSURE)))
    return _Bounds(lower, max(lower, upper), is_tie=False)


def _upper_bound(mrp: MarkovRewardProcess, stationary: Floats, eps: float) -> int:
    """Smallest bound from contractions over 1, 2, 4, ... steps, as long as more steps make it smaller."""
    best, steps = math.inf, 1
    while steps <= min(best, LONGEST_BLOCK):
        gap = contraction_gap(mrp.csr, stationary, steps)
        bound = _time_to_shrink(math.sqrt(1.0 / stationary.min() - 1.0) / eps, gap, steps)
        if best < math.inf and bound > 0.9 * best:
            break
        best = min(best, bound)
        steps *= 2
    if best == math.inf:
        raise ConvergenceError(
            f"no contraction in {LONGEST_BLOCK} steps, so the mixing time has no bound: the chain moves "
            "almost without randomness"
        )
    return int(best)


def _time_to_shrink(ratio: float, gap: float, steps: int) -> float:
    """Time after which `ratio` has shrunk to 1, if each block of steps multiplies it by sqrt(1 - gap)."""
    sure = gap * (1.0 - UNSURE) if steps == 1 else gap - UNSURE
    if sure <= 0.0:
        return math.inf
    rate = -0.5 * math.log1p(-min(sure, 1.0 - UNSURE))
    return steps * max(1, math.ceil(math.log(ratio) / rate))
