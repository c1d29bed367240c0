"""Incomplete elimination: an approximate inverse without fill-in, for a search that corrects its error.

`prepare_incomplete` makes the solver. It is for slow chains with heavy fill-in:
walks and fields in three dimensions, networks of queues.

All states but one, the root, are eliminated as in `elimination`, without subtraction, but transitions that
would be new are not kept. Most of such a transition is added to the probability of staying (so that
constants are still solved for exactly; Gustafsson 1978), and the rest is taken to leave the chain, which
keeps the factors well conditioned. The factors precondition BiCGSTAB (van der Vorst 1992), for the bias and,
transposed, for the stationary law. The order is that of Cuthill and McKee, in which few transitions would be
new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gainbias.kernels import kernel, share_blocks
from gainbias.model.checks import CsrArray, row_sums
from gainbias.model.solve.elimination.solver import RARE_PROBABILITY, busiest_states
from gainbias.model.solve.iterative import IterativeSolver, Operator, bicgstab, prepare
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import PER_ENTRY, PER_STATE, PER_SWEPT_ENTRY
from gainbias.model.solve.vectors import rows_of
from gainbias.types import Floats, Ints

KEPT = 0.9
"""Part of a dropped transition that is added to staying; the rest leaves the chain."""

SEARCH_TOLERANCE = 1e-7
"""Residual of a solve relative to its right side; on slow chains rounding leaves no more digits."""

BYTES_PER_KEPT_ENTRY = 80
"""Memory for a stored transition: the chain without its root, the factors, and temporary copies."""


@dataclass(frozen=True)
class IncompleteFactors:
    """A chain without its root, and incomplete factors of it.

    Attributes
    ----------
    order : (n - 1,) int array
        The states in the order of the elimination.
    chain : csr_array, (n - 1, n - 1)
        Transitions among them, in that order, without the diagonal.
    exits : (n - 1,) array
        Probability of leaving each state.
    values : array
        Multipliers left of the diagonal and transitions right of it, placed as in `chain`.
    pivots : (n - 1,) array
        Probability of leaving each state for a later one when it is eliminated.
    """

    order: Ints
    chain: CsrArray
    exits: Floats
    values: Floats
    pivots: Floats

    def apply(self, x: Floats) -> Floats:
        """Return ``M x``, where M is one minus the transitions, without the root."""
        return np.asarray(self.exits * x - self.chain @ x)

    def apply_transposed(self, x: Floats) -> Floats:
        """Return ``x M``."""
        return np.asarray(self.exits * x - self.chain.T @ x)

    def solve(self, right: Floats) -> Floats:
        """Return an approximate x with ``M x = right``."""
        x = right.copy()
        sweep_right(self.chain.indptr, self.chain.indices, self.values, self.pivots, x)
        return x

    def solve_transposed(self, left: Floats) -> Floats:
        """Return an approximate x with ``x M = left``."""
        x = left.copy()
        sweep_left(self.chain.indptr, self.chain.indices, self.values, self.pivots, x)
        return x


def work_to_prepare(transitions: CsrArray) -> float:
    """Return the work of an incomplete elimination: each transition meets all that leave its target."""
    degree, targets = np.diff(transitions.indptr), transitions.indices
    met = share_blocks(lambda begin, end: int(degree[targets[begin:end]].sum()), transitions.nnz)
    return PER_SWEPT_ENTRY * float(sum(met) + 40 * transitions.nnz)


def prepare_incomplete(transitions: CsrArray, recurrent: NDArray[np.intp], budget: Budget) -> IterativeSolver:
    """Return a solver that searches with incomplete factors; raises `MethodError` if it does not converge."""
    if transitions.shape[0] == 1:
        raise MethodError("there is one state only, and nothing to eliminate")
    needed = BYTES_PER_KEPT_ENTRY * transitions.nnz
    if needed > budget.max_memory:
        allowed = f"{budget.max_memory / 1e9:.3g} GB are allowed"
        raise MethodError(f"incomplete factors need {needed / 1e9:.3g} GB of memory and {allowed}")
    rows = rows_of(transitions)
    members = recurrent.astype(np.int64)
    root = int(busiest_states(rows, np.array([0, len(members)]), members)[0])
    for _ in range(2):
        solver = _prepare_without(transitions, recurrent, root, budget)
        if solver.stationary[root] > RARE_PROBABILITY * solver.stationary.max():
            return solver
        root = int(solver.stationary.argmax())
    raise MethodError("no state was found that the chain visits often")


def _prepare_without(
    transitions: CsrArray, recurrent: NDArray[np.intp], root: int, budget: Budget
) -> IterativeSolver:
    meter, n = budget.meter, transitions.shape[0]
    budget.watch.show("incomplete elimination")
    factors = factorise_incompletely(transitions, root)
    meter.spend(work_to_prepare(transitions), aside=True)
    entries, order = transitions.nnz, factors.order
    product = PER_ENTRY * entries + PER_SWEPT_ENTRY * entries + PER_STATE * n

    def search(apply: Operator, precondition: Operator, right: Floats, tolerance: float) -> Floats:
        def counted(x: Floats) -> Floats:
            meter.spend(product, products=1)
            return apply(x)

        x = np.zeros(n)
        x[order] = bicgstab(counted, precondition, right[order], tolerance, budget, "incomplete-gth")
        return x

    # Expected visits between two visits of the root. Nothing is subtracted: small ones have the right order.
    guess = np.ones(n)
    guess[order] = factors.solve_transposed(transitions[[root]].toarray().ravel()[order])
    return prepare(
        "incomplete-gth",
        transitions,
        recurrent,
        lambda _, right, tolerance: search(factors.apply, factors.solve, right, tolerance),
        lambda _, left, tolerance: search(
            factors.apply_transposed, factors.solve_transposed, left, tolerance
        ),
        budget,
        SEARCH_TOLERANCE,
        guess,
    )


def factorise_incompletely(transitions: CsrArray, root: int) -> IncompleteFactors:
    """Return incomplete factors of a chain without its root.

    Parameters
    ----------
    transitions : (n, n) csr_array
        The chain; its diagonal is not read.
    root : int
        A recurrent state that all others reach.
    """
    n = transitions.shape[0]
    others = np.flatnonzero(np.arange(n) != root)
    inner = transitions[others][:, others].tocsr()
    inner.setdiag(0.0)
    inner.eliminate_zeros()
    order = reverse_cuthill_mckee(sparse.csr_matrix(inner), symmetric_mode=False)
    chain = inner[order][:, order].tocsr()
    chain.sort_indices()
    if n < np.iinfo(np.int32).max and chain.nnz < np.iinfo(np.int32).max:
        # Sweeps wait for memory, so that short indices count.
        chain = sparse.csr_array(
            (chain.data, chain.indices.astype(np.int32), chain.indptr.astype(np.int32)), chain.shape
        )
    leak = transitions[others][:, [root]].toarray().ravel()[order]
    values, pivots = chain.data.copy(), np.empty(n - 1)
    eliminate_incompletely(chain.indptr, chain.indices, values, leak.copy(), pivots)
    if not pivots.min(initial=1.0) > 0.0:
        raise MethodError("a state is left with a probability too small to be a number")
    return IncompleteFactors(others[order], chain, row_sums(chain) + leak, values, pivots)


@kernel
def eliminate_incompletely(indptr: Ints, indices: Ints, values: Floats, leak: Floats, pivots: Floats) -> None:
    """Turn transitions into factors in place: multipliers left of the diagonal, transitions right of it.

    Parameters
    ----------
    indptr, indices, values : arrays
        The transitions by rows, columns ascending, without the diagonal.
    leak : (n,) array
        Probability of leaving these states, from each of them; it is overwritten.
    pivots : (n,) array
        Where the probability of leaving each state for a later one is written to.
    """
    n = len(pivots)
    where = np.full(n, -1, np.int64)
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            where[indices[entry]] = entry
        lost = leak[i]
        for entry in range(indptr[i], indptr[i + 1]):
            p = indices[entry]
            if p > i:
                break
            multiplier = values[entry] / pivots[p]
            values[entry] = multiplier
            lost += multiplier * leak[p]
            for onward in range(indptr[p + 1] - 1, indptr[p] - 1, -1):
                j = indices[onward]
                if j < p:
                    break
                if where[j] >= 0:
                    values[where[j]] += multiplier * values[onward]
                elif j != i:
                    lost += (1.0 - KEPT) * (multiplier * values[onward])
        leak[i] = lost
        total = lost
        for entry in range(indptr[i], indptr[i + 1]):
            where[indices[entry]] = -1
            if indices[entry] > i:
                total += values[entry]
        pivots[i] = total


@kernel
def sweep_right(indptr: Ints, indices: Ints, values: Floats, pivots: Floats, x: Floats) -> None:
    """Overwrite a right side with the solution of the factors."""
    n = len(x)
    for i in range(n):
        total = x[i]
        for entry in range(indptr[i], indptr[i + 1]):
            if indices[entry] > i:
                break
            total += values[entry] * x[indices[entry]]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for entry in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            if indices[entry] < i:
                break
            total += values[entry] * x[indices[entry]]
        x[i] = total / pivots[i]


@kernel
def sweep_left(indptr: Ints, indices: Ints, values: Floats, pivots: Floats, x: Floats) -> None:
    """Overwrite a left side with the solution of the transposed factors."""
    n = len(x)
    for i in range(n):
        x[i] /= pivots[i]
        for entry in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
            if indices[entry] < i:
                break
            x[indices[entry]] += values[entry] * x[i]
    for i in range(n - 1, -1, -1):
        for entry in range(indptr[i], indptr[i + 1]):
            if indices[entry] > i:
                break
            x[indices[entry]] += values[entry] * x[i]
