"""A chain with some states taken out: factorised once, solved for many right sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gainbias.model.elimination.numeric import factorise, solve_left, solve_right
from gainbias.model.elimination.symbolic import Plan
from gainbias.model.elimination.types import Floats, Fronts, Sparse
from gainbias.progress import Watch


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


def factorise_chain(transitions: sp.csr_array, leak: Floats, plan: Plan, watch: Watch) -> Factors:
    """Eliminate the states of a leaking chain according to `plan`.

    Parameters
    ----------
    transitions : (n, n) csr_array
        Transitions among the states to be eliminated; the diagonal is ignored.
    leak : (n,) array
        Probability of leaving them, from each state.
    plan : Plan
        The fronts.
    watch : Watch
        Shows progress and enforces the time limit.
    """
    columns = transitions.T.tocsr()
    work = np.empty(plan.front_entries)
    stack = np.empty(max(plan.stack_entries, 1))
    values = np.empty(plan.factor_entries)
    progress = np.zeros(2)
    watch.run(
        lambda: factorise(
            Sparse(transitions.indptr, transitions.indices, transitions.data),
            Sparse(columns.indptr, columns.indices, columns.data),
            leak, plan.fronts, values, stack, work, progress,
        ),
        progress=progress,
        total=len(plan.fronts.first) - 1,
        label=f"eliminating {len(leak):,} states",
    )  # fmt: skip
    return Factors(plan.fronts, values)
