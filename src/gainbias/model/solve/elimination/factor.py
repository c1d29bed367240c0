"""A chain with some states taken out: factorised once, solved for many right sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.model.checks import CsrArray
from gainbias.model.solve.elimination.numeric import factorise, solve_left, solve_right
from gainbias.model.solve.elimination.symbolic import Plan
from gainbias.model.solve.elimination.types import Floats, Fronts, Sparse
from gainbias.model.solve.method import Budget, MethodError

# Bytes that a state and a stored transition cost besides the factors: copies, transpose, graph, order.
BYTES_PER_STATE, BYTES_PER_ENTRY = 120, 60


@dataclass(frozen=True)
class Factors:
    """The factors of ``M = diag(leak + row sums of P) - P``, where the diagonal of P does not count."""

    fronts: Fronts
    values: Floats

    def solve(self, right: Floats) -> Floats:
        """Return x with ``M x = right``; a non-negative right side keeps relative accuracy entry by entry."""
        x = right[self.fronts.order]
        solve_right(self.fronts, self.values, x)
        return x[self.fronts.position]

    def solve_transposed(self, left: Floats) -> Floats:
        """Return x with ``x M = left``; a non-negative left side keeps relative accuracy entry by entry."""
        x = left[self.fronts.order]
        solve_left(self.fronts, self.values, x)
        return x[self.fronts.position]


def factorise_chain(transitions: CsrArray, leak: Floats, plan: Plan, budget: Budget) -> Factors:
    """Eliminate the states of a leaking chain according to `plan`.

    Parameters
    ----------
    transitions : (n, n) csr_array
        Transitions among the states to be eliminated; the diagonal is ignored.
    leak : (n,) array
        Probability of leaving them, from each state.
    plan : Plan
        The fronts.
    budget : Budget
        Limits; the progress of the work is shown.

    Raises
    ------
    MethodError
        If memory or arithmetic do not suffice.
    """
    needed = plan.bytes_needed + BYTES_PER_STATE * len(leak) + BYTES_PER_ENTRY * transitions.nnz
    if needed > budget.max_memory:
        allowed = f"{budget.max_memory / 1e9:.3g} GB are allowed"
        raise MethodError(f"elimination needs {needed / 1e9:.3g} GB of memory and {allowed}")
    if plan.flops > budget.max_flops:
        raise MethodError(f"elimination takes {plan.flops:.1e} operations: others go first")
    columns = transitions.T.tocsr()
    work = np.empty(plan.front_entries)
    stack = np.empty(max(plan.stack_entries, 1))
    values = np.empty(plan.factor_entries)
    progress = np.zeros(2)
    rows = Sparse(transitions.indptr, transitions.indices, transitions.data)
    back = Sparse(columns.indptr, columns.indices, columns.data)
    budget.watch.run(
        lambda: factorise(rows, back, leak, plan.fronts, values, stack, work, progress),
        progress=progress,
        total=plan.flops,
        label=f"eliminating {len(leak):,} states",
    )
    return Factors(plan.fronts, values)
