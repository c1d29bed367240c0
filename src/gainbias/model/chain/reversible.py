"""Symmetric flows between states: eigenvalues of reversible chains, accurate relative to themselves.

Two quadratic forms of a chain with transitions P and stationary law mu are energies of a weighted graph,

    energy(f) = sum over pairs {s, s'} of F(s, s') (f(s) - f(s'))^2 ,

with the flows F = (D P + P^T D) / 2 for the Dirichlet form f^T D (I - P) f, and F = P^T D P for the loss of
variance in one step, f^T D f - (P f)^T D (P f), where D = diag(mu). Written this way no digits cancel,
however close the chain is to falling apart. The smallest eigenvalues of such a form are the inverses of the
largest ones of its inverse. One application of the inverse is a Poisson equation of the reversible chain with
flows F, so no n x n matrix is formed.

`additive_flows` and `multiplicative_flows` make the two graphs; `FlowNetwork` has the eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, cg, eigsh

from gainbias.model.chain.deviation import solve_once
from gainbias.model.checks import CsrArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solution import ConvergenceError
from gainbias.model.solve.solve import poisson_solver
from gainbias.types import Floats

DENSE_FLOW_STATES = 300
"""Up to this many states all eigenvalues of the inverse are computed; above, Lanczos finds the largest."""

QUICK_RESTARTS, QUICK_GAP = 20, 0.05
"""A gap this large, found this soon by Lanczos without the inverse, has all its digits."""

QUICK_STEPS, QUICK_GROWTH = 200, 10.0
"""Flows that conjugate gradients invert in this many steps, with at most this growth, need no elimination."""

LANCZOS_TOLERANCE = 1e-9
"""Relative accuracy of the largest eigenvalue of the inverse, before the quotient squares the error away."""

LANCZOS_RESTARTS = 300
"""Restarts of Lanczos after which it is given up."""

SMALLEST_PROBABILITY = 1e-150
"""Products of two stationary probabilities must stay in the range of double precision."""

AGREEMENT = 1e-8
"""The eigenvalue from the inverse and from the energy must agree to this relative accuracy."""


@dataclass(frozen=True, eq=False)
class FlowNetwork:
    """States joined by symmetric flows.

    Attributes
    ----------
    flows : csr_array, shape (n, n)
        Symmetric and nonnegative; the diagonal does not matter for the energy.
    stationary : ndarray, shape (n,)
        The stationary law mu, positive everywhere.
    """

    flows: CsrArray
    stationary: Floats

    @property
    def num_states(self) -> int:
        """Number of states n."""
        return self.stationary.size

    @cached_property
    def is_connected(self) -> bool:
        """Whether the flows join all states, so that only constant values have energy 0."""
        num_components, _ = csgraph.connected_components(self.flows, directed=False)
        return bool(num_components == 1)

    @cached_property
    def edges(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        """Both ends and the flow of every pair of different states, each pair once."""
        upper = sparse.triu(self.flows, k=1, format="coo")
        return upper.row, upper.col, upper.data

    def energy(self, values: Floats) -> float:
        """Return the energy of `values`, shape (n,)."""
        start, end, flow = self.edges
        return float(flow @ (values[start] - values[end]) ** 2)

    def potential(self, currents: Floats) -> Floats:
        """Return values whose Laplacian is `currents`, (n,) or (n, k) of sum 0; up to a constant."""
        return self._solve(currents)

    def smallest_ratio(self, weights: Floats) -> float:
        """Return the minimum of energy(f) / sum of weights (f - mean)^2, the mean with these weights, (n,).

        With unit weights it is the second-smallest eigenvalue of the Laplacian. The minimum over nothing, for
        one state, is infinite.
        """
        if self.num_states == 1:
            return np.inf
        if not self.is_connected:
            return 0.0
        root, share = np.sqrt(weights), weights / weights.sum()

        def inverse(scaled: Floats) -> Floats:
            currents = (root * scaled.T).T
            values = self.potential(currents - np.multiply.outer(share, currents.sum(axis=0)))
            return np.asarray((root * (values - share @ values).T).T)

        def quotient(scaled: Floats) -> float:
            values = scaled / root
            return self.energy(values) / float(weights @ (values - share @ values) ** 2)

        return smallest_eigenvalue(inverse, quotient, self.num_states)

    def spectral_gap(self) -> float:
        """Return the minimum of energy(f) over f of variance 1: the gap of the chain with these flows."""
        root = np.sqrt(self.stationary)

        def step(scaled: Floats) -> Floats:
            return np.asarray(self.flows @ (scaled / root)) / root - root * (root @ scaled)

        if self.num_states > DENSE_FLOW_STATES:
            with suppress(ConvergenceError):
                largest, _ = largest_eigenpair(step, self.num_states, QUICK_RESTARTS)
                if largest < 1.0 - QUICK_GAP:
                    return 1.0 - largest
        return self.smallest_ratio(self.stationary)

    def smallest_grounded(self) -> float:
        """Return the minimum of energy(f) + (mu^T f)^2 over unit f: the least eigenvalue of L + mu mu^T."""
        if self.num_states == 1:
            return 1.0
        mu = self.stationary

        def inverse(currents: Floats) -> Floats:
            total = currents.sum(axis=0)
            values = self.potential(currents - np.multiply.outer(mu, total))
            return np.asarray(values - mu @ values + total)

        def quotient(values: Floats) -> float:
            return (self.energy(values) + float(mu @ values) ** 2) / float(values @ values)

        return smallest_eigenvalue(inverse, quotient, self.num_states)

    @cached_property
    def _strengths(self) -> Floats:
        """Total flow at each state: the stationary law, up to rounding."""
        return np.asarray(self.flows @ np.ones(self.num_states))

    @cached_property
    def _solve(self) -> Callable[[Floats], Floats]:
        """Inverse of the Laplacian for currents (n,) or (n, k), by whichever method suits the flows."""
        if self.num_states > DENSE_FLOW_STATES and self._spreads_quickly:
            return partial(self._conjugate_gradients, steps=2 * QUICK_STEPS)
        # Rows of these transitions sum to 1 however mu was rounded.
        transitions = sparse.csr_array(sparse.diags_array(1.0 / self._strengths) @ self.flows)
        walk = poisson_solver(MarkovRewardProcess(transitions, np.zeros(self.num_states)))
        return lambda currents: solve_once(walk, (currents.T / self._strengths).T)

    @property
    def _spreads_quickly(self) -> bool:
        """Whether conjugate gradients are quick, and no slow mode needs more digits than they have."""
        probe = np.random.default_rng(0).standard_normal(self.num_states) * np.sqrt(self._strengths)
        currents = probe - self._strengths * (probe.sum() / self._strengths.sum())
        try:
            values = self._conjugate_gradients(currents, steps=QUICK_STEPS)
        except ConvergenceError:
            return False
        values -= self._strengths @ values / self._strengths.sum()
        growth = (self._strengths @ values**2) / (currents @ (currents / self._strengths))
        return bool(growth < QUICK_GROWTH**2)

    def _conjugate_gradients(self, currents: Floats, steps: int) -> Floats:
        """Return the inverse of the Laplacian, applied to (n,), by at most `steps` steps."""
        values, shortfall = cg(
            self._laplacian, currents, rtol=1e-12, maxiter=steps, M=sparse.diags_array(1.0 / self._strengths)
        )
        if shortfall > 0:
            raise ConvergenceError(f"conjugate gradients did not converge in {steps} steps")
        return np.asarray(values)

    @cached_property
    def _laplacian(self) -> CsrArray:
        return sparse.csr_array(sparse.diags_array(self._strengths) - self.flows)


def additive_flows(transitions: CsrArray, stationary: Floats) -> FlowNetwork:
    """Return the flows of (P + D^-1 P^T D) / 2, whose energy is the Dirichlet form f^T D (I - P) f."""
    check_in_range(stationary)
    forward = sparse.csr_array(sparse.diags_array(stationary) @ transitions)
    return FlowNetwork(sparse.csr_array(0.5 * (forward + forward.T)), stationary)


def multiplicative_flows(transitions: CsrArray, stationary: Floats) -> FlowNetwork:
    """Return the flows of D^-1 P^T D P, whose energy is the variance that one step loses (|.|_D squared)."""
    root = sparse.csr_array(sparse.diags_array(np.sqrt(stationary)) @ transitions)
    if root.nnz > 0.1 * root.shape[0] ** 2:
        dense = root.toarray()
        return FlowNetwork(sparse.csr_array(dense.T @ dense), stationary)
    return FlowNetwork(sparse.csr_array(root.T @ root), stationary)


def check_in_range(stationary: Floats) -> None:
    """Raise an error if a stationary probability, (n,), is so small that its square or inverse is lost."""
    if not stationary.min() > SMALLEST_PROBABILITY:
        raise ValueError(
            f"state {int(stationary.argmin())} has a stationary probability of {stationary.min():.3g}, and "
            f"below {SMALLEST_PROBABILITY:g} double precision cannot weigh states by it: leave out states "
            "that are practically never visited"
        )


def smallest_eigenvalue(
    inverse: Callable[[Floats], Floats], quotient: Callable[[Floats], float], size: int
) -> float:
    """Return the smallest eigenvalue of a symmetric form, from its inverse and its Rayleigh quotient.

    Parameters
    ----------
    inverse : callable
        Applies the inverse to (n,) or (n, k) arrays. It may be 0 on directions that are left out of the
        minimum.
    quotient : callable
        Rayleigh quotient of the form itself, computed without cancellation.
    size : int
        The dimension n, at least 2.
    """
    largest, vector = largest_eigenpair(inverse, size)
    value = quotient(inverse(vector))
    if abs(value * largest - 1.0) > AGREEMENT:
        raise ConvergenceError(
            f"an eigenvalue is {1.0 / largest:.10g} seen through the inverse and {value:.10g} seen through "
            f"the form itself, which must agree to {AGREEMENT:g}: the chain is too ill-conditioned for "
            "double precision"
        )
    return value


def largest_eigenpair(
    apply: Callable[[Floats], Floats], size: int, restarts: int = LANCZOS_RESTARTS
) -> tuple[float, Floats]:
    """Return the largest eigenvalue of a symmetric operator and its eigenvector.

    Parameters
    ----------
    apply : callable
        Applies the operator to (n,) arrays, and to (n, k) arrays if n is small.
    size : int
        The dimension n.
    restarts : int
        Restarts of Lanczos after which it is given up with a ConvergenceError.
    """
    if size <= DENSE_FLOW_STATES:
        matrix = apply(np.eye(size))
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        return float(values[-1]), vectors[:, -1]
    operator = LinearOperator((size, size), matvec=lambda x: apply(np.ravel(x)), dtype=np.float64)
    # A fixed start makes the answer a function of the chain alone.
    start = np.random.default_rng(0).standard_normal(size)
    try:
        found, vectors = eigsh(operator, k=1, which="LA", tol=LANCZOS_TOLERANCE, v0=start, maxiter=restarts)
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"Lanczos did not find an eigenvalue to {LANCZOS_TOLERANCE:g} in {restarts} restarts: {error}"
        ) from error
    return float(found[0]), vectors[:, 0]
