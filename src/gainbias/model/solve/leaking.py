"""Chains that leak: linear equations over some of the states, with a proved bound for every entry.

`with_leaking_chain` passes a prepared chain to a piece of work, one method after the other;
that work calls `LeakingChain.solve_for`. The equations are

    leak x(s) + scale sum_s' P(s, s') (x(s) - x(s')) = right(s)        for the states s that are inside,

with given values of x outside. The diagonal of P is not read. Written as M x = b, the matrix M has no
negative entry in its inverse as long as every state inside can leave, or leaks. That makes bounds easy: if x
is off by e, then M e is the residual, so that every y with ``M y >= |residual|`` has ``|e| <= y`` entry by
entry. Both the residual and M y are evaluated with twice the digits, and their rounding is added. So the
bound does not depend on how x and y were found, by a factorisation or an iterative method.

The rounding with twice the digits grows with the number of jumps until the chain leaves: beyond some 1e28
of them a right answer cannot be told from a wrong one in this way. There elimination is trusted without a
residual: its result is right to a fraction of what absolute right sides would give, as in
`gainbias.model.solve.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sparse

from gainbias.kernels import by_blocks, kernel
from gainbias.model.checks import EPSILON, CsrArray, row_sums
from gainbias.model.doubled import Doubled, add_exactly, multiply_exactly, sum_of_parts
from gainbias.model.solve.choice import DENSE_SOLVE_STATES
from gainbias.model.solve.elimination.law import SMALLEST_NORMAL, elimination_rounding, loses_products
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import Factors, factorise_chain
from gainbias.model.solve.elimination.symbolic import (
    EliminationPlan,
    plan_dense,
    plan_sparse,
    symmetric_pattern,
)
from gainbias.model.solve.solution import Budget, ConvergenceError, MethodError, available_memory
from gainbias.model.solve.turns import Meter
from gainbias.model.solve.vectors import combined, gathered, inner, largest_of, length, multiply, rows_of
from gainbias.progress import Watch
from gainbias.types import Floats, Ints

MOST_REFINEMENTS = 8
"""Number of corrections after which the best answer so far is taken."""

MOST_TRIES_FOR_A_BOUND = 6
"""Number of attempts to find y with ``M y >= w``, each starting from what the last one missed."""

KRYLOV_TOLERANCE, KRYLOV_ROUND = 1e-8, 80
"""Residual at which GMRES stops, since refinement repeats it, and the steps after which it starts anew."""

AFFORDABLE_OPERATIONS, AFFORDABLE_PER_STATE = 1e9, 3e5
"""An elimination that costs more than this waits until GMRES has been tried."""

LARGEST_USEFUL_ERROR = 0.1
"""An answer is refused if its error may be more than this part of its largest entry."""

SMALLEST_STEP = 2.0**-1070
"""Rounding of a product that is too small for all of its digits."""

TINY = 1e-300
"""Less than this counts as nothing."""

Answer = TypeVar("Answer")


class BoundedSolution(NamedTuple):
    """The solution for all states, with twice the digits, and a bound on its error for the states inside."""

    x: Doubled
    error: Floats


@dataclass(frozen=True)
class LeakingChain:
    """Some states of a chain, ready to be solved for.

    Attributes
    ----------
    rows : Sparse
        The transitions from the states inside, to all states.
    states : (m,) int array
        The states inside.
    num_states : int
        Number n of all states.
    leak : tuple of two floats
        What each of them leaks in a step, rounded, and the rounded-off part.
    scale : float
        Factor of the transitions.
    solve : callable
        From a right side, (m,), to an approximate solution that is 0 outside.
    leaving : (m,) array
        Probability of leaving the states inside in a step, from each of them.
    exits : (m,) array
        The diagonal of M.
    method : str
        Name of the method.
    notes : tuple of str
        Remarks for the user.
    factors : Factors, optional
        The factors of `solve`, if it keeps the digits of each entry for a right side that is not negative.
    """

    rows: Sparse
    states: Ints
    num_states: int
    leak: tuple[float, float]
    scale: float
    solve: Callable[[Floats], Floats]
    leaving: Floats
    exits: Floats
    method: str
    notes: tuple[str, ...] = ()
    factors: Factors | None = None

    @property
    def is_direct(self) -> bool:
        """Whether `solve` keeps the digits of each entry for a right side that is not negative."""
        return self.factors is not None

    def residual(self, right: Doubled, x: Doubled) -> tuple[Floats, Floats]:
        """Return the residual inside, evaluated with twice the digits, and a bound on its rounding, (m,)."""
        res, floor = np.empty((2, len(self.states)))
        write_leaking_residual(
            self.rows, self.states, right.high, right.rest, *self.leak, self.scale, x.high, x.rest, res, floor
        )
        return res, floor

    def solve_for(
        self,
        right: Doubled,
        outside: Doubled | None = None,
        doubt: Floats | float = 0.0,
        correct: Callable[[Floats], Floats] | None = None,
    ) -> BoundedSolution:
        """Return the solution, refined until nothing changes, and a proved bound on its error.

        Parameters
        ----------
        right : Doubled
            Right side, (m,).
        outside : Doubled, optional
            The values outside, (n,); entries inside are not read. Default: 0.
        doubt : (m,) array or float
            Bound on the error of `right`.
        correct : callable, optional
            From a residual to a correction, if that is better than `solve`.

        Raises
        ------
        MethodError
            If no bound was found.
        """
        high, low = np.zeros((2, self.num_states))
        if outside is not None:
            high, low = outside.high.copy(), outside.rest.copy()
        high[self.states] = low[self.states] = 0.0
        best = worst = least = largest = np.inf
        answer, wanted = Doubled(high, low), np.full(len(self.states), np.inf)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for _ in range(MOST_REFINEMENTS):
                x = Doubled(high, low)
                res, floor = self.residual(right, x)
                last, worst = worst, float(np.max(np.abs(res) / floor))
                before, largest = largest, largest_of(res)
                # Where a value is 0, any residual is large compared with the rounding of its evaluation.
                if worst < best or (worst <= best and largest <= 0.5 * least):
                    best, least, answer = worst, largest, x
                    wanted = np.abs(res) * (1.0 + EPSILON) + floor + doubt
                if not (worst > 1.0 and (worst <= 0.5 * last or largest <= 0.5 * before)):
                    break
                high, low = self._corrected(x, (correct or self.solve)(res))
            try:
                if not np.isfinite(wanted).all():
                    raise MethodError("numbers leave the range of double precision")
                return BoundedSolution(answer, self.majorant(wanted))
            except MethodError:
                if self.factors is None:
                    raise
                return self._eliminated(self.factors, right, answer, doubt)

    def _eliminated(
        self, factors: Factors, right: Doubled, outside: Doubled, doubt: Floats | float
    ) -> BoundedSolution:
        """Return the solution that elimination finds at once, and the bound that holds for it.

        `law` of the elimination has the argument for products that are too small to be numbers.
        """
        values = outside.high.copy()
        values[self.states] = 0.0
        moves = sparse.csr_array(
            (self.scale * self.rows.data, self.rows.indices, self.rows.indptr),
            (len(self.states), self.num_states),
        )
        size = np.abs(right.high) + np.asarray(moves @ np.abs(values))
        x, most = self.solve(right.high + np.asarray(moves @ values)), self.solve(size)
        off = self.solve(doubt + (np.diff(self.rows.indptr) + 8.0) * EPSILON * size)
        unseen = 4.0 * SMALLEST_NORMAL * (1.0 + self.solve(np.ones(len(size))))
        # Transitions times the scale, and sums of what leaves, were rounded before.
        given = 2.0 * EPSILON * (len(self.rows.data) + 4.0 * len(size))
        rounding = elimination_rounding(factors.fronts, factors.values) + given
        error = (off + 2.0 * rounding * most) * (1.0 + 4.0 * rounding) + unseen
        if any(factors.go_up(loses_products, gathered(self.leaving, factors.fronts.order))):
            error += np.max(unseen) * np.max(most)
        if not (np.isfinite(error).all() and rounding < 0.1 and np.max(unseen) < 0.5):
            raise MethodError("numbers leave the range of double precision")
        values[self.states] = x
        return BoundedSolution(Doubled(values), error * (1.0 + 1e-9))

    def _corrected(self, x: Doubled, correction: Floats) -> tuple[Floats, Floats]:
        high, low = x.high.copy(), x.rest.copy()
        high[self.states], low[self.states] = sum_of_parts(
            high[self.states], low[self.states], correction, np.zeros(len(correction))
        )
        return high, low

    def majorant(self, wanted: Floats) -> Floats:
        """Return y, (m,), with ``M y >= wanted``, which is checked; `wanted` is positive.

        Raises
        ------
        MethodError
            If none is found.
        """
        if not self.is_direct and self.leak[0] > 0.0:
            # Every state leaks alike, so that M maps ones to the leak.
            return np.full(len(wanted), float(np.max(wanted)) / self.leak[0] * (1.0 + 8 * EPSILON))
        if not self.is_direct:
            # An iterative method has a small residual as a whole, not state by state.
            wanted = self.exits * float(np.max(wanted / self.exits))
        zero = np.zeros(self.num_states)
        high, low = zero.copy(), zero.copy()
        res = wanted
        for attempt in range(MOST_TRIES_FOR_A_BOUND):
            high, low = self._corrected(Doubled(high, low), self.solve(res))
            res, floor = self.residual(Doubled(wanted), Doubled(high, low))
            short = float(np.max((res + floor) / wanted))
            if short <= 0.5:
                return np.asarray(high[self.states] * ((1.0 + 8 * EPSILON) / (1.0 - max(short, 0.0))))
            if not np.isfinite(short):
                break
            if attempt % 2 == 1:
                # Where `wanted` is small beside a large y, rounding decides: there more is demanded.
                lifted = np.maximum(wanted, 4.0 * (np.abs(res) + floor))
                res, wanted = res + (lifted - wanted), lifted
        raise MethodError("no bound on the error was found: there are too many jumps until the chain leaves")


def with_leaking_chain(
    csr: CsrArray,
    states: Ints,
    work: Callable[[LeakingChain], Answer],
    *,
    what: str,
    leak: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
    budget: Budget | None = None,
) -> Answer:
    """Return the result of `work` for the states inside, with the first method that succeeds.

    Parameters
    ----------
    csr : (n, n) csr_array
        The chain.
    states : (m,) int array
        The states inside, at least one.
    work : callable
        From a `LeakingChain` to the answer; it raises `MethodError` to be called with the next one.
    what : str
        What is sought, for a message.
    leak, scale
        As in `LeakingChain`.
    budget : Budget, optional
        Limits on memory and time; by default nine tenths of the memory that is free, and no limit on time.

    Raises
    ------
    ConvergenceError
        If no method succeeds.
    """
    tried: list[str] = []
    with Watch() as watch:
        budget = budget or Budget(0.9 * available_memory(), watch)
        for name, prepare in _candidates(csr, states, leak, scale, budget):
            try:
                chain = prepare()
                return work(replace(chain, notes=(*tried, *chain.notes)))
            except (MethodError, MemoryError) as reason:
                tried.append(f"{name}: {reason}")
    lines = "".join(f"\n  - {line}" for line in tried)
    raise ConvergenceError(
        f"no method found a useful digit of {what} over {len(states):,} states. Tried:{lines}\n"
        "What to do: use a machine with more memory, install the 'solvers' extra, or merge states that "
        "hardly differ; if numbers leave the range of double precision, divide the rewards by a power of two "
        "or leave out the rarest transitions."
    )


class LimitedMeter(Meter):
    """A meter that stops an elimination as soon as it plans more operations than are allowed."""

    def __init__(self, most_operations: float) -> None:
        super().__init__()
        self._most_operations = most_operations

    def predict(self, ordering: float, operations: float, factor_entries: float) -> None:
        """Continue: only certain costs count."""

    def plan(self, operations: float, factor_entries: int = 0) -> None:
        """Refuse an elimination that is too expensive."""
        if operations > self._most_operations:
            raise MethodError(f"elimination takes {operations:.1e} operations: others go first")


def _candidates(
    csr: CsrArray, states: Ints, leak: tuple[float, float], scale: float, budget: Budget
) -> Iterator[tuple[str, Callable[[], LeakingChain]]]:
    """Yield the name of each method and the function that prepares it, the likely best first."""
    from_inside = csr[states]
    inner = from_inside[:, states].tocsr()
    inner.sort_indices()
    away = np.ones(csr.shape[1])
    away[states] = 0.0
    inner.data *= scale
    inner.eliminate_zeros()
    leaving = leak[0] + scale * np.asarray(from_inside @ away)
    stay = inner.diagonal()
    exits = leaving + np.maximum(row_sums(inner) - stay, 0.0)
    m = len(states)

    def chain(solve: Callable[[Floats], Floats], method: str) -> LeakingChain:
        return LeakingChain(
            rows_of(from_inside), states, csr.shape[1], leak, scale, solve, leaving, exits, method
        )

    def eliminated(plan: EliminationPlan, budget: Budget, method: str, *notes: str) -> LeakingChain:
        factors = factorise_chain(inner, leaving, plan, budget)
        return replace(chain(factors.solve, method), notes=notes, factors=factors)

    def dense() -> LeakingChain:
        return eliminated(plan_dense(np.zeros(m, np.intp)), budget, "dense-gth")

    def by_fronts(budget: Budget) -> LeakingChain:
        plan, order = plan_sparse(symmetric_pattern(inner), budget)
        note = f"order: {order}; {plan.factor_entries:,} numbers in the factors"
        return eliminated(plan, budget, "sparse-gth", note)

    def krylov() -> LeakingChain:
        moves = inner.copy()
        moves.setdiag(0.0)
        moves.data /= np.repeat(exits, np.diff(moves.indptr))
        return chain(lambda right: _gmres(moves, right / exits, budget.watch), "krylov")

    if m <= DENSE_SOLVE_STATES or inner.nnz > 0.1 * float(m) ** 2:
        yield "dense-gth", dense
        if m > DENSE_SOLVE_STATES:
            yield "krylov", krylov
        return
    affordable = replace(budget, meter=LimitedMeter(AFFORDABLE_OPERATIONS + AFFORDABLE_PER_STATE * m))
    yield "sparse-gth", lambda: by_fronts(affordable)
    yield "krylov", krylov
    yield "sparse-gth", lambda: by_fronts(budget)


def _gmres(moves: CsrArray, right: Floats, watch: Watch) -> Floats:
    """Return x with ``x - moves x = right``; raises `MethodError` if it does not converge."""
    size = length(right)
    if not (np.isfinite(size) and size > 0.0):
        return np.zeros(len(right))

    def apply(x: Floats) -> Floats:
        return np.asarray(by_blocks(np.subtract, x, multiply(moves, x)))

    unit = right / size
    x, left, last = np.zeros(len(right)), 1.0, np.inf
    # Round by round, to give up as soon as a round brings next to nothing.
    while KRYLOV_TOLERANCE < left < 0.5 * last:
        watch.show("krylov: searching")
        with np.errstate(all="ignore"):
            x = _gmres_round(apply, unit, x)
            last, left = left, length(unit - apply(x))
    if not left <= 10 * KRYLOV_TOLERANCE:
        raise MethodError(f"GMRES reached a residual of {left:.1e} and {KRYLOV_TOLERANCE:.1e} was wanted")
    return np.asarray(x) * size


def _gmres_round(apply: Callable[[Floats], Floats], right: Floats, x: Floats) -> Floats:
    """Return a better x with ``apply(x) = right`` after one round of GMRES (Saad and Schultz 1986).

    It is written out because linear algebra libraries give different sums with different numbers of threads.
    """
    residual = right - apply(x)
    norm = length(residual)
    basis, sides = [residual / norm], [norm]
    columns: list[list[float]] = []
    turns: list[tuple[float, float]] = []
    while len(columns) < KRYLOV_ROUND and abs(sides[-1]) > KRYLOV_TOLERANCE:
        new, column = apply(basis[-1]), []
        for old in basis:
            column.append(inner(new, old))
            new = combined(new, -column[-1], old)
        column.append(length(new))
        basis.append(new / np.float64(column[-1]))
        for k, (cosine, sine) in enumerate(turns):
            above, below = column[k], column[k + 1]
            column[k], column[k + 1] = cosine * above + sine * below, cosine * below - sine * above
        radius = np.hypot(column[-2], column[-1])
        cosine, sine = column[-2] / radius, column[-1] / radius
        turns.append((cosine, sine))
        columns.append([*column[:-2], radius])
        sides[-1:] = [cosine * sides[-1], -sine * sides[-1]]
    weights = sides[:-1]
    for k in reversed(range(len(columns))):
        weights[k] = weights[k] / columns[k][k]
        for i in range(k):
            weights[i] -= columns[k][i] * weights[k]
    for weight, vector in zip(weights, basis[:-1], strict=True):
        x = combined(x, weight, vector)
    return x


def check_useful(values: Floats, error: Floats) -> None:
    """Raise `MethodError` if an error may be as large as the largest value."""
    if not np.max(error, initial=0.0) <= max(
        LARGEST_USEFUL_ERROR * np.max(np.abs(values), initial=0.0), TINY
    ):
        raise MethodError(f"the error may be {np.max(error):.1e}, and there is no value above it")


@kernel
def write_leaking_residual(
    rows: Sparse,
    states: Ints,
    right: Floats,
    right_low: Floats,
    leak: float,
    leak_low: float,
    scale: float,
    x: Floats,
    x_low: Floats,
    out: Floats,
    floor: Floats,
) -> None:
    """Write ``right - M x`` to `out`, (m,), and a bound on what its evaluation rounds to `floor`.

    With k transitions from a state, sums of low parts round at most some 3 k + 20 times, each time by at most
    a unit of rounding of a unit of rounding of the sizes that are added up: ``(2 k + 16) EPSILON^2`` of them
    is more than that.
    """
    for i in range(len(right)):
        own = states[i]
        moved, moved_low, through = 0.0, 0.0, 0.0
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            if j != own:
                chance = rows.data[entry]
                step, step_low = add_exactly(x[j], -x[own])
                step_low += x_low[j] - x_low[own]
                term, term_low = multiply_exactly(chance, step)
                moved, lost = add_exactly(moved, term)
                moved_low += lost + (term_low + chance * step_low)
                through += chance * (abs(x[j]) + abs(x[own]))
        scaled, scaled_low = multiply_exactly(scale, moved)
        scaled_low += scale * moved_low
        leaked, leaked_low = multiply_exactly(leak, x[own])
        leaked_low += leak * x_low[own] + leak_low * x[own]
        high, low = add_exactly(right[i], -leaked)
        high, lost = add_exactly(high, scaled)
        low += lost + (scaled_low - leaked_low) + right_low[i]
        out[i] = high + low
        length = rows.indptr[i + 1] - rows.indptr[i]
        size = abs(right[i]) + leak * abs(x[own]) + scale * through
        floor[i] = (length + 8.0) * (2.0 * EPSILON * EPSILON * size + SMALLEST_STEP)
