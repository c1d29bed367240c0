"""Aggregation and disaggregation: for chains of blocks with weak transitions between them.

`find_blocks` finds the blocks, if there are any; `prepare_aggregation` makes a solver of them.

Such a chain settles quickly inside each block and very slowly between blocks, which stalls every method
that only multiplies. Two levels handle one each: the *coarse* chain of whole blocks, weighted by the
stationary law inside them, and the blocks one by one, factorised together as a chain that leaks (Simon and
Ando 1961; Takahashi 1975; Koury, McAllister and Stewart 1984). The error shrinks in each cycle by about the
strength of the coupling. The coarse chain may again consist of weakly coupled blocks: its method is chosen
in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, log

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gainbias.kernels import constant, is_large, share_blocks
from gainbias.model.checks import CsrArray, row_sums
from gainbias.model.doubled import Doubled
from gainbias.model.solve.elimination.solver import Factors, factorise_chain
from gainbias.model.solve.elimination.symbolic import plan_dense, plan_sparse, symmetric_pattern
from gainbias.model.solve.residual import bellman_residual
from gainbias.model.solve.solution import Budget, MethodError, Solver
from gainbias.model.solve.vectors import inner, rows_of
from gainbias.types import Floats

THRESHOLDS = (1e-2, 1e-3, 1e-6, 1e-9)
"""A transition weaker than this, relative to all that leaves its state, may separate two blocks."""

MOST_COUPLING = 0.03
"""Largest share of all transitions from a state to other blocks, unless the state is a block by itself."""

LARGEST_BLOCK = 5_000
"""Larger blocks are refused: they would take too long to factorise."""

DENSE_BLOCK = 200
"""Blocks up to this size are eliminated as given; a fill-reducing order would cost more than it saves."""

ENOUGH_CYCLES = 1e-5
"""Cycles of a solve leave about this part of the error; the refinement that follows squares it."""

LAW_TOLERANCE = 1e-13
"""Cycles end at this change of the law; the next one would shrink it by the coupling once more."""


Blocks = NDArray[np.intp]
CoarseSolver = Callable[[CsrArray], Solver]


def find_blocks(transitions: CsrArray) -> Blocks | None:
    """Return the block of each state if weak transitions separate many small blocks, else None.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sparse
    >>> pairs = np.kron(np.eye(3), np.full((2, 2), 0.5)) + 1e-8
    >>> find_blocks(sparse.csr_array(pairs)).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    n = transitions.shape[0]
    if is_large(n) and min(share_blocks(lambda *ends: _weakest(transitions, *ends), n)) >= THRESHOLDS[0]:
        return None
    source = np.repeat(np.arange(n), np.diff(transitions.indptr))
    away = source != transitions.indices
    leaving = np.bincount(source[away], transitions.data[away], minlength=n)
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.where(away, transitions.data / leaving[source], np.inf)
    for threshold in THRESHOLDS:
        strong = strength >= threshold
        if strong.all():
            return None
        graph = sparse.csr_array(
            (np.ones(strong.sum()), (source[strong], transitions.indices[strong])), (n, n)
        )
        # Strong components: inside a block every state must reach every other without weak transitions.
        count, block_of = connected_components(graph, directed=True, connection="strong")
        sizes = np.bincount(block_of)
        if not 1 < count <= n / 2 or sizes.max() > LARGEST_BLOCK:
            continue
        # A state that is a block by itself has nothing inside that must settle first.
        across = (block_of[source] != block_of[transitions.indices]) & (sizes[block_of[source]] > 1)
        if np.bincount(source[across], strength[across], minlength=n).max() <= MOST_COUPLING:
            return np.asarray(block_of, dtype=np.intp)
    return None


def _weakest(transitions: CsrArray, begin: int, end: int) -> float:
    """Return the weakest transition from some states, relative to all that leaves its state."""
    start = transitions.indptr[begin : end + 1]
    stored = transitions.data[start[0] : start[-1]]
    source = np.repeat(np.arange(end - begin), np.diff(start))
    away = source + begin != transitions.indices[start[0] : start[-1]]
    source, stored = source[away], stored[away]
    leaving = np.bincount(source, stored, minlength=end - begin)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.min(stored / leaving[source], initial=np.inf))


@dataclass
class AggregationSolver:
    """A chain solved on two levels; see `gainbias.model.solve.solution.Solver`."""

    stationary: Floats
    iterations: int
    notes: tuple[str, ...]
    _transitions: CsrArray
    _block_of: Blocks
    _factors: Factors
    _coarse: Solver
    _scale: float
    _cycles: int
    method: str = field(default="aggregation", init=False)
    # The error that a cycle leaves, squared by the refinement that always follows. It is not 0, so that the
    # answer is doubted like that of other iterations.
    tolerance: float = field(default=1e-9, init=False)

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state."""
        return constant(inner(self.stationary, values), len(values))

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0.

        The error that a cycle leaves is of the order of the coupling; the caller refines.
        """
        x = self._cycle(right)
        for _ in range(self._cycles - 1):
            left = right - x + self._transitions @ x
            x = x + self._cycle(left - inner(self.stationary, left))
        return x

    def _cycle(self, right: Floats) -> Floats:
        """Return an approximate x with ``x - P x = right`` and average 0."""
        self.iterations += 1
        block_means = self._means(right)
        level = self._coarse.solve((block_means - self._coarse.average(block_means)) / self._scale)
        x = level[self._block_of]
        rows = rows_of(self._transitions)
        inside = self._factors.solve(bellman_residual(rows, right, Doubled(np.zeros(len(x))), Doubled(x)))
        x += inside - self._means(inside)[self._block_of]
        return x - inner(self.stationary, x)

    def _means(self, values: Floats) -> Floats:
        """Return the stationary mean of `values` inside each block."""
        totals = np.bincount(self._block_of, self.stationary * values)
        return np.asarray(totals / np.bincount(self._block_of, self.stationary))


def prepare_aggregation(
    transitions: CsrArray, block_of: Blocks | None, solve_coarse: CoarseSolver, budget: Budget
) -> AggregationSolver:
    """Return a two-level solver for an irreducible chain.

    Parameters
    ----------
    transitions : (n, n) csr_array
        The chain.
    block_of : (n,) int array or None
        Block of each state; None if no blocks were found.
    solve_coarse : callable
        Makes a solver of the chain of blocks.
    budget : Budget
        Limits on memory and time.

    Raises
    ------
    MethodError
        If there are no blocks, or the cycles do not converge.
    """
    if block_of is None:
        raise MethodError("weak transitions do not separate the states into small blocks")
    n = transitions.shape[0]
    source = np.repeat(np.arange(n), np.diff(transitions.indptr))
    across = block_of[source] != block_of[transitions.indices]
    between = _part(transitions, source, across)
    leak = row_sums(between)
    factors = _factorise_blocks(_part(transitions, source, ~across), leak, block_of, budget)
    law, change, cycles = np.full(n, 1.0 / n), np.inf, 0
    # The error that a cycle leaves. A law that is easy to find may hide it, but not the coupling.
    inside = row_sums(_part(transitions, source, ~across & (source != transitions.indices)))
    has_company = np.bincount(block_of)[block_of] > 1
    shrinks = float(np.max((leak / (leak + inside))[has_company]))
    while change > LAW_TOLERANCE:
        budget.watch.show(f"aggregation: cycle {cycles + 1}")
        shares = law / np.bincount(block_of, law)[block_of]
        coarse_chain, scale = _coarse_chain(between, block_of, shares)
        coarse = solve_coarse(coarse_chain)
        law = shares * coarse.stationary[block_of]
        settled = factors.solve_transposed(np.asarray(between.T @ law))
        settled /= settled.sum()
        before, change = change, float(np.abs(settled - law).sum())
        # The change is at most 2 at first, so that cycles which pass this test end by themselves.
        if change > max(0.3 * before, LAW_TOLERANCE):
            raise MethodError(f"the law of the blocks moved by {before:.1e} and then still by {change:.1e}")
        if before < np.inf and change > 100 * LAW_TOLERANCE:  # less may be rounding, which does not shrink
            shrinks = max(shrinks, change / before)
        law = settled
        cycles += 1
    note = f"{coarse_chain.shape[0]:,} blocks; the coarse chain by {coarse.method}"
    per_solve = ceil(log(ENOUGH_CYCLES) / log(shrinks))
    return AggregationSolver(law, cycles, (note,), transitions, block_of, factors, coarse, scale, per_solve)


def _part(transitions: CsrArray, source: NDArray[np.intp], chosen: NDArray[np.bool_]) -> CsrArray:
    entries = (transitions.data[chosen], (source[chosen], transitions.indices[chosen]))
    return sparse.csr_array(entries, transitions.shape)


def _factorise_blocks(inside: CsrArray, leak: Floats, block_of: Blocks, budget: Budget) -> Factors:
    if np.bincount(block_of).max() <= DENSE_BLOCK:
        plan = plan_dense(block_of)
    else:
        plan, _ = plan_sparse(symmetric_pattern(inside), budget)
    return factorise_chain(inside, leak, plan, budget)


def _coarse_chain(between: CsrArray, block_of: Blocks, shares: Floats) -> tuple[CsrArray, float]:
    """Return the chain of blocks, sped up so that it moves, and the speed of the original relative to it."""
    source = np.repeat(np.arange(between.shape[0]), np.diff(between.indptr))
    num_blocks = int(block_of.max()) + 1
    flow = shares[source] * between.data
    leaving = np.bincount(block_of[source], flow, minlength=num_blocks)
    scale = 2.0 * float(leaving.max())
    every = np.arange(num_blocks)
    rows = np.concatenate([block_of[source], every])
    columns = np.concatenate([block_of[between.indices], every])
    entries = np.concatenate([flow / scale, 1.0 - leaving / scale])
    return sparse.csr_array((entries, (rows, columns)), (num_blocks, num_blocks)), scale
