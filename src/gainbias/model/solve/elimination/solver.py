"""Elimination of a whole chain: its stationary law and values, reducible and periodic chains included.

One root is kept for each recurrent class and all other states are eliminated together; see `numeric` for
why nothing is lost to cancellation. Transient states need no special care: they go like all others, and
their stationary probability comes out as an exact zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gainbias.model.checks import CsrArray, row_sums
from gainbias.model.solve.elimination.factor import Factors, factorise_chain
from gainbias.model.solve.elimination.ordering import plan_sparse
from gainbias.model.solve.elimination.roots import busiest_states
from gainbias.model.solve.elimination.symbolic import plan_dense, symmetric_pattern
from gainbias.model.solve.elimination.types import Floats, Ints, Sparse
from gainbias.model.solve.method import Budget, MethodError
from gainbias.model.structure import Structure

# A root that is this much rarer than the commonest state of its class is replaced.
RARE = 1e-9


@dataclass(frozen=True)
class EliminationSolver:
    """A factorised chain; see `gainbias.model.solve.method.Solver` for what it offers."""

    method: str
    stationary: Floats
    notes: tuple[str, ...]
    iterations: int = field(default=0, init=False)
    tolerance: float = field(default=0.0, init=False)
    _factors: Factors
    _class_of: Ints
    _roots: Ints
    _others: Ints
    _to_roots: CsrArray

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state."""
        inside = np.flatnonzero(self._class_of >= 0)
        weighted = self.stationary[inside] * values[inside]
        means = np.bincount(self._class_of[inside], weighted, len(self._roots)).astype(np.float64)
        return self._extend(means)

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0."""
        x = np.zeros(len(right))
        x[self._others] = self._factors.solve(right[self._others])
        return x - self.average(x)

    def _extend(self, at_roots: Floats) -> Floats:
        """Extend numbers, one for each class, to the expected number at the class where the chain ends."""
        if len(at_roots) == 1:
            return np.full(len(self.stationary), at_roots[0])
        x = np.empty(len(self.stationary))
        x[self._roots] = at_roots
        x[self._others] = self._factors.solve(np.asarray(self._to_roots @ at_roots))
        return x


def eliminate(transitions: CsrArray, structure: Structure, dense: bool, budget: Budget) -> EliminationSolver:
    """Factorise a chain.

    Parameters
    ----------
    transitions : (n, n) csr_array
        Transition probabilities; the diagonal is not read.
    structure : Structure
        Classes of the chain.
    dense : bool
        Eliminate in one dense block instead of in a fill-reducing order.
    budget : Budget
        Limits on memory and time.

    Raises
    ------
    MethodError
        When the fill does not fit, or the numbers leave the range of floating point.
    """
    rows = Sparse(transitions.indptr, transitions.indices, transitions.data)
    sizes = np.array([len(states) for states in structure.recurrent])
    members = np.concatenate(structure.recurrent).astype(np.int64)
    class_start = np.concatenate([[0], np.cumsum(sizes)])
    class_of = np.full(transitions.shape[0], -1, np.int64)
    class_of[members] = np.repeat(np.arange(len(sizes)), sizes)
    roots = busiest_states(rows, class_start, members)
    for _ in range(3):
        solver = _eliminate_all_but(transitions, class_of, roots, dense, budget)
        mass = solver.stationary
        commonest = _argmax_by_class(mass, class_of, len(roots))
        with np.errstate(invalid="ignore"):
            good = mass[roots] > RARE * mass[commonest]
        if good.all():
            return solver
        roots = np.where(good, roots, commonest)
    raise MethodError("stationary probabilities span more than the range of floating-point numbers")


def _eliminate_all_but(
    transitions: CsrArray, class_of: Ints, roots: Ints, dense: bool, budget: Budget
) -> EliminationSolver:
    n = transitions.shape[0]
    keep = np.ones(n, bool)
    keep[roots] = False
    others = np.flatnonzero(keep)
    from_others = transitions[others]
    to_roots = from_others[:, roots].tocsr()
    inner = from_others[:, others].tocsr()
    if dense or len(others) < 2:
        plan, order_name = plan_dense(np.zeros(len(others), np.intp)), "as given"
    else:
        plan, order_name = plan_sparse(symmetric_pattern(inner), budget)
    factors = factorise_chain(inner, row_sums(to_roots), plan, budget)
    mass = np.ones(n)
    # Expected visits between two visits of the root: no class reaches another, so one solve serves all
    # classes.
    mass[others] = factors.solve_transposed(
        np.asarray(transitions[roots][:, others].sum(axis=0), dtype=np.float64)
    )
    inside = class_of >= 0
    with np.errstate(invalid="ignore", over="ignore"):
        totals = np.bincount(class_of[inside], mass[inside], minlength=len(roots))
        mass = np.where(inside, mass / totals[class_of], 0.0)
    notes = () if dense else (f"order: {order_name}; {plan.factor_entries:,} numbers in the factors",)
    name = "dense-gth" if dense else "sparse-gth"
    return EliminationSolver(name, mass, notes, factors, class_of, roots, others, to_roots)


def _argmax_by_class(mass: Floats, class_of: Ints, num_classes: int) -> Ints:
    """Return a state of largest mass in each class (a state whose mass overflowed counts as largest)."""
    inside = np.flatnonzero(class_of >= 0)
    ranked = inside[np.lexsort((np.nan_to_num(mass[inside], nan=np.inf), class_of[inside]))]
    last = np.searchsorted(class_of[ranked], np.arange(num_classes), side="right") - 1
    return ranked[last]
