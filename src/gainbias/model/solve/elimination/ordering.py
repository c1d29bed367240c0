"""In which order to eliminate, so that little fills in.

Minimum degree (through SuperLU, which SciPy ships) is quick and good on graphs that are long or flat, and
takes for ever on graphs that expand. Nested dissection (METIS, in the `solvers` extra) takes its time but
never for ever, and fills in less when there is much to fill. So: minimum degree unless the graph expands;
nested dissection where it can pay for itself.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spilu

from gainbias.kernels import kernel
from gainbias.model.solve.elimination.symbolic import Plan, plan_elimination
from gainbias.model.solve.elimination.types import Ints
from gainbias.model.solve.method import Budget, MethodError

# Below this size even an expanding graph is ordered in about a second.
SMALL = 5_000
# METIS takes about as long per state as this many flops of the elimination.
FLOPS_PER_STATE_OF_METIS = 1e5


def plan_sparse(graph: sp.csr_array, budget: Budget) -> tuple[Plan, str]:
    """Choose an order for `graph` and plan the elimination.

    Parameters
    ----------
    graph : (n, n) csr_array
        Symmetric pattern without diagonal.
    budget : Budget
        Memory and arithmetic that may be used.

    Returns
    -------
    Plan and str
        The plan, and the name of the order.

    Raises
    ------
    MethodError
        When no order fits.
    """
    n = graph.shape[0]
    budget.watch.show(f"ordering {n:,} states")
    # A factor with this many entries takes at least the allowed arithmetic, by the inequality of the means.
    most_entries = min(budget.max_memory / 8, np.sqrt(budget.max_flops * n))
    width = widest_level(graph) if n > SMALL else 0
    expands = width > n / 10
    if expands and 0.7 * (width / 4) ** 3 > budget.max_flops:
        raise MethodError("the graph expands, so that elimination would fill in too much")
    plan = None if expands else plan_elimination(graph, minimum_degree(graph), most_entries)
    if plan is not None and plan.flops < 3 * FLOPS_PER_STATE_OF_METIS * n:
        return plan, "minimum degree"
    if importlib.util.find_spec("pymetis") is not None:
        other = plan_elimination(graph, nested_dissection(graph), most_entries)
        if other is not None and (plan is None or other.flops < plan.flops):
            return other, "nested dissection"
    elif plan is None:
        reason = "the graph expands, which minimum degree cannot order" if expands else "too much fills in"
        raise MethodError(f"{reason}, and METIS is not installed (pip install 'gainbias[solvers]')")
    if plan is None and most_entries < budget.max_memory / 8:
        raise MethodError(f"elimination takes more than {budget.max_flops:.1e} operations: others go first")
    if plan is None:
        raise MethodError(f"the factors of {n:,} states do not fit into {budget.max_memory / 1e9:.3g} GB")
    return plan, "minimum degree"


def widest_level(graph: sp.csr_array) -> int:
    """Return the size of the largest breadth-first level from a state at the rim of the graph.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9)).tocsr()
    >>> widest_level(path)
    1
    """
    rim, _ = breadth_first(graph.indptr, graph.indices, 0)
    return int(breadth_first(graph.indptr, graph.indices, rim)[1])


@kernel
def breadth_first(indptr: Ints, indices: Ints, start: int) -> tuple[int, int]:
    """Return the last state that a breadth-first search from `start` reaches, and its widest level."""
    queue = np.empty(len(indptr) - 1, np.int64)
    seen = np.zeros(len(indptr) - 1, np.uint8)
    queue[0], seen[start] = start, 1
    begin, end, widest = 0, 1, 1
    while begin < end:
        widest = max(widest, end - begin)
        level_end = end
        for k in range(begin, level_end):
            for entry in range(indptr[queue[k]], indptr[queue[k] + 1]):
                state = indices[entry]
                if seen[state] == 0:
                    seen[state] = 1
                    queue[end] = state
                    end += 1
        begin = level_end
    return queue[end - 1], widest


def minimum_degree(graph: sp.csr_array) -> Ints:
    """Return a minimum-degree order; states with very many neighbours come last.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(3, 3)).tocsr()
    >>> sorted(minimum_degree(path).tolist())
    [0, 1, 2]
    """
    n = graph.shape[0]
    degree = np.diff(graph.indptr)
    hubs = degree > max(16.0, 10.0 * np.sqrt(n))
    if hubs.any():
        # Minimum degree slows down on hubs, and they belong at the end anyway.
        others = np.flatnonzero(~hubs)
        inner = minimum_degree(graph[others][:, others].tocsr())
        return np.concatenate([others[inner], np.flatnonzero(hubs)]).astype(np.int32)
    weights = sp.csc_array((np.ones(graph.nnz), graph.indices, graph.indptr), graph.shape)
    dominant = (weights + sp.diags_array(degree + 1.0)).tocsc()
    # An incomplete factorisation that drops everything costs little more than its column order.
    factor = spilu(
        dominant, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    return np.argsort(factor.perm_c).astype(np.int32)


def nested_dissection(graph: sp.csr_array) -> Ints:
    """Return METIS' nested-dissection order (needs pymetis)."""
    import pymetis

    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    order, _ = pymetis.nested_dissection(adjacency)
    return np.asarray(order, dtype=np.int32)
