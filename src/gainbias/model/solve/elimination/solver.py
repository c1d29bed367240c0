"""Elimination of a whole chain: its stationary law and values, reducible and periodic chains included.

Start reading in `eliminate`. It keeps one state of each recurrent class, its *root*, and eliminates all other
states together; `numeric` explains why nothing is lost to cancellation. Transient states need no special
care: they are eliminated like all others, and their stationary probability comes out as an exact zero.

`factorise_chain` is the elimination itself, for any chain that leaks. `busiest_states` chooses the roots:
values are first found relative to the root, and relative to a state that the chain hardly ever visits they
are differences of astronomically long excursions. So the root must be a state that is visited often, and a
short walk finds one. (The stationary law comes out the same for any root.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import bare_kernel, by_blocks, constant, is_large
from gainbias.model.checks import EPSILON, CsrArray, row_sums
from gainbias.model.doubled import Doubled
from gainbias.model.solve.elimination.branches import (
    Branches,
    InStrips,
    down_left_in_strips,
    down_right_in_strips,
    eliminate_branches,
    find_branches,
    up_left_in_strips,
    up_right_in_strips,
)
from gainbias.model.solve.elimination.law import (
    SMALLEST_NORMAL,
    Law,
    elimination_rounding,
    loses_products,
    measure_law,
)
from gainbias.model.solve.elimination.numeric import (
    Fronts,
    Sparse,
    factorise,
    go_down_left,
    go_down_right,
    go_up_left,
    go_up_right,
)
from gainbias.model.solve.elimination.orders import most_neighbours, next_level
from gainbias.model.solve.elimination.symbolic import (
    EliminationPlan,
    plan_dense,
    plan_elimination,
    plan_sparse,
    predicted_flops,
    symmetric_pattern,
)
from gainbias.model.solve.residual import Residual, class_sums
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import PER_ENTRY, PER_OPERATION
from gainbias.model.solve.vectors import (
    class_totals,
    combined,
    gathered,
    inner,
    largest_of,
    rows_of,
    scatter,
    separated,
    transposed,
)
from gainbias.model.structure import Structure
from gainbias.types import Floats, Ints

BYTES_PER_STATE, BYTES_PER_ENTRY = 120, 60
"""Memory for a state and for a stored transition besides the factors: copies, transpose, graph, order."""

MOST_READS_PER_STATE = 100
"""The walk reads at most this many stored transitions per state of the class: visiting a hub is expensive."""

MANY_STATES = 2**16
"""Classes of this size are walked through in longer laps."""

FEW_STEPS, HOPELESS_PRODUCTS = 64, 20_000
"""If states within the first number of steps show that elimination costs more than the second number of
products, other methods are tried before the chain is examined further."""

RARE_PROBABILITY = 1e-9
"""A root that is this much rarer than the commonest state of its class is replaced."""

MUCH_SMALLER = 2.0**-500
"""Right sides whose solution overflows are scaled by this."""

MUCH_LARGER = 2.0**900
"""Expected visits are found in this unit, so that those of rare states are numbers."""


@dataclass(frozen=True)
class EliminationSolver:
    """A chain solved by elimination; `gainbias.model.solve.solution.Solver` says what it offers."""

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
    _transitions: CsrArray = field(repr=False)

    @cached_property
    def law(self) -> Law:
        """The stationary law with twice the digits, and bounds on its error and on that of `stationary`."""
        rows = rows_of(self._transitions)

        def solve(left: Floats) -> Floats:
            given = gathered(left, self._others)
            return self._at_others(_solved_in_unit(self._factors.solve_transposed, given))

        lost, unseen = self._most_inside(self.lost), 4.0 * self._most_inside(self.unseen)
        floor = SMALLEST_NORMAL + lost + unseen / MUCH_LARGER
        return measure_law(
            rows, self.stationary, self._class_of, self._roots, solve, self.rounding, floor, unseen
        )

    @cached_property
    def rounding(self) -> float:
        """Bound on the relative error of each number that comes from numbers which are not negative."""
        # With several roots, what leads to them from a state is a sum that was rounded before.
        sums = EPSILON * self._to_roots.nnz if self.num_classes > 1 else 0.0
        return elimination_rounding(self._factors.fronts, self._factors.values) + sums

    @cached_property
    def unseen(self) -> Floats:
        """Bound on what `to_roots` loses to products too small to be numbers, (n,), for right sides up to 1.

        It is the smallest number with all digits, once for each step before the chain is at a root; `law` has
        the argument.
        """
        products = self.to_roots(constant(SMALLEST_NORMAL, len(self.stationary)))
        return np.asarray(by_blocks(lambda part: SMALLEST_NORMAL + part, products))

    @cached_property
    def loses_transitions(self) -> bool:
        """Whether elimination has lost a transition, a product too small to be a number."""
        leak = gathered(row_sums(self._to_roots), self._factors.fronts.order)
        return any(self._factors.go_up(loses_products, leak))

    @cached_property
    def lost(self) -> Floats:
        """Bound on how likely it is, from each state, to miss a transition that elimination has lost, (n,).

        `law` has the argument. One half or more counts as infinite: then nothing is known about the position
        of the chain.
        """
        if not self.loses_transitions:
            return constant(0.0, len(self.stationary))
        inside = self.is_recurrent
        chance = 4.0 * np.maximum(self.unseen, self._most_inside(self.unseen))
        chance[inside] = chance[inside].max()
        return np.where(chance < 0.5, chance, np.inf)

    @property
    def is_recurrent(self) -> NDArray[np.bool_]:
        """Whether a state is recurrent, (n,)."""
        return self._class_of >= 0

    @cached_property
    def _is_one_large_class(self) -> bool:
        return is_large(len(self._class_of)) and not self._class_of.any()

    def _most_inside(self, values: Floats) -> float:
        """Return the largest of some values, (n,) and none negative, at recurrent states."""
        return largest_of(values) if self._is_one_large_class else float(values[self.is_recurrent].max())

    @property
    def num_classes(self) -> int:
        """Number of recurrent classes."""
        return len(self._roots)

    def at_roots(self, values: Floats) -> Floats:
        """Return `values` at the root of each class, (classes,)."""
        return values[self._roots]

    def sums(self, weights: Floats, values: Doubled) -> Residual:
        """Return the sum of weights times values in each class, (classes,), with twice the digits."""
        return class_sums(self._class_of, len(self._roots), weights, values)

    def to_roots(self, right: Floats) -> Floats:
        """Return the expected sum of `right` over the steps before the chain is at a root, from each state.

        It solves ``x - P x = right`` with x = 0 at the roots. If no entry of `right` is negative, each number
        is right to a relative `rounding`; else to `rounding` times what the absolute values would give.
        """
        return self._at_others(_solved_in_unit(self._factors.solve, gathered(right, self._others)))

    def _at_others(self, values: Floats) -> Floats:
        """Return a vector with values at all states but the roots, (n,), where it is 0."""
        x = constant(0.0, len(self.stationary))
        scatter(values, self._others, x)
        return x

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state."""
        if self._is_one_large_class:
            return constant(inner(self.stationary, values), len(values))
        weighted = np.where(
            self.is_recurrent, self.stationary * np.where(self.is_recurrent, values, 0.0), 0.0
        )
        return self.extend(class_totals(self._class_of, len(self._roots), weighted))

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0."""
        x = self.to_roots(right)
        return combined(x, -1.0, self.average(x), out=x)

    def extend(self, at_roots: Floats) -> Floats:
        """Return, from each state, the expected number of the class where the chain ends, (n,).

        States of a class have exactly its number: rounding that differs from state to state would act like
        rewards, which matters if all of them are large and differ by little.
        """
        if len(at_roots) == 1:
            return constant(float(at_roots[0]), len(self.stationary))
        unit = _unit_of(at_roots)
        entering = np.asarray(self._to_roots @ (at_roots / unit))
        x = self._at_others(_solved_in_unit(self._factors.solve, entering) * unit)
        inside = np.flatnonzero(self._class_of >= 0)
        x[inside] = at_roots[self._class_of[inside]]
        return x


def _unit_of(values: Floats) -> float:
    """Return the power of two, up to 1, in which the largest of some values is about 1."""
    largest = largest_of(values)
    return 2.0 ** max(int(np.frexp(largest)[1]), -1000) if 0.0 < largest < 1.0 else 1.0


def _solved_in_unit(solve: Callable[[Floats], Floats], right: Floats) -> Floats:
    """Return the solution for a side, in a unit in which its largest entry is about 1."""
    unit = _unit_of(right)
    scaled = right if unit == 1.0 else by_blocks(lambda part: part / unit, right)
    x = solve(scaled)
    if not np.isfinite(largest_of(x)):
        # A number that overflows makes others undefined, even if they do not depend on it.
        x, unit = solve(scaled * MUCH_SMALLER), unit / MUCH_SMALLER
    return x if unit == 1.0 else np.asarray(by_blocks(lambda part: part * unit, x))


def eliminate(transitions: CsrArray, structure: Structure, dense: bool, budget: Budget) -> EliminationSolver:
    """Return a solver that eliminates the states of a chain.

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
    rows = rows_of(transitions)
    sizes = np.array([len(states) for states in structure.recurrent])
    members = np.concatenate(structure.recurrent).astype(np.int64)
    class_start = np.concatenate([[0], np.cumsum(sizes)])
    class_of = np.full(transitions.shape[0], -1, np.int64)
    class_of[members] = np.repeat(np.arange(len(sizes)), sizes)
    if not dense and is_large(len(class_of)):
        _wait_if_hopeless(rows, int(members[0]), budget)
    roots = busiest_states(rows, class_start, members)
    before = None
    for _ in range(3):
        solver = _eliminate_all_but(transitions, class_of, roots, dense, budget, before)
        mass = solver.stationary
        commonest = _argmax_by_class(mass, class_of, len(roots))
        with np.errstate(invalid="ignore"):
            good = mass[roots] > RARE_PROBABILITY * mass[commonest]
        if good.all():
            return solver
        # An order takes long to find, and can be used for other roots, too.
        before = np.concatenate([solver._others[solver._factors.fronts.order], roots])
        roots = np.where(good, roots, commonest)
        del solver  # its factors may take most of the memory
    raise MethodError("stationary probabilities span more than the range of floating-point numbers")


def _wait_if_hopeless(rows: Sparse, start: int, budget: Budget) -> None:
    """Let other methods go first if many states are near one state, without reading the whole chain.

    A tenth of all states within a few steps of one state means that some level of a breadth-first search is
    wide, so that much will fill in.
    """
    n, entries = len(rows.indptr) - 1, len(rows.indices)
    near, steps = states_near(rows, start, n // 10, most_neighbours(n))
    least = predicted_flops(n, entries, near // max(steps, 1)) if near >= n // 10 else 0.0
    if PER_OPERATION * least > HOPELESS_PRODUCTS * PER_ENTRY * entries:
        budget.meter.predict(0.0, least, 0.0)


def states_near(rows: Sparse, start: int, enough: int, hub: float) -> tuple[int, int]:
    """Return how many states can be reached from `start`, and in how many steps, until they are enough.

    The search ends after `FEW_STEPS` steps, and goes on from no state with more than `hub` successors.
    """
    n = len(rows.indptr) - 1
    queue, seen = np.empty(n, np.int32), np.zeros(n, np.uint8)
    queue[0], seen[start] = start, 1
    begin, end, steps = 0, 1, 0
    while begin < end and end < enough and steps < FEW_STEPS:
        begin, end = end, next_level(rows.indptr, rows.indices, queue, seen, begin, end, hub)
        steps += 1
    return end, steps


def _eliminate_all_but(
    transitions: CsrArray,
    class_of: Ints,
    roots: Ints,
    dense: bool,
    budget: Budget,
    before: Ints | None,
) -> EliminationSolver:
    """Return a solver that keeps the states `roots`; `before` is an order of all states, if there is one."""
    n = transitions.shape[0]
    keep = np.ones(n, bool)
    keep[roots] = False
    others = np.flatnonzero(keep)
    inner, to_roots = separated(transitions, others, roots)
    if dense or len(others) < 2:
        plan, order_name = plan_dense(np.zeros(len(others), np.intp)), "as given"
    else:
        graph = symmetric_pattern(inner)
        again = None
        if before is not None and is_large(n):
            place = np.cumsum(keep, dtype=np.int32) - 1
            again = plan_elimination(graph, place[before[keep[before]]], budget.max_memory / 8)
        plan, order_name = plan_sparse(graph, budget) if again is None else (again, "found for another root")
    factors = factorise_chain(inner, row_sums(to_roots), plan, budget)
    # Expected visits between two visits of the root. No class reaches another, so one solve serves all.
    entering = np.asarray(transitions[roots][:, others].sum(axis=0), dtype=np.float64)
    unit = MUCH_LARGER
    with np.errstate(invalid="ignore", over="ignore"):
        visits = factors.solve_transposed(entering * unit)
        if not np.isfinite(largest_of(visits)):
            # The root is visited so rarely that another one will take its place.
            unit = 1.0
            visits = factors.solve_transposed(entering)
    mass = constant(unit, n)
    scatter(visits, others, mass)
    with np.errstate(invalid="ignore", over="ignore"):
        totals = class_totals(class_of, len(roots), mass)
        mass = by_blocks(lambda own, mass: np.where(own >= 0, mass / totals[own], 0.0), class_of, mass)
    notes = () if dense else (f"order: {order_name}; {plan.factor_entries:,} numbers in the factors",)
    name = "dense-gth" if dense else "sparse-gth"
    return EliminationSolver(name, mass, notes, factors, class_of, roots, others, to_roots, transitions)


def _argmax_by_class(mass: Floats, class_of: Ints, num_classes: int) -> Ints:
    """Return a state of largest mass in each class (a state whose mass overflowed counts as largest)."""
    inside = np.flatnonzero(class_of >= 0)
    if num_classes == 1:
        backwards = inside[::-1]
        return backwards[[np.nan_to_num(mass[backwards], nan=np.inf).argmax()]]
    ranked = inside[np.lexsort((np.nan_to_num(mass[inside], nan=np.inf), class_of[inside]))]
    last = np.searchsorted(class_of[ranked], np.arange(num_classes), side="right") - 1
    return ranked[last]


@dataclass(frozen=True)
class Factors:
    """The factors of ``M = diag(leak + row sums of P) - P``, where the diagonal of P does not count."""

    fronts: Fronts
    values: Floats
    branches: Branches | None = None

    def solve(self, right: Floats) -> Floats:
        """Return x with ``M x = right``; a non-negative right side keeps relative accuracy entry by entry."""
        x = gathered(right, self.fronts.order)
        self.go_up(go_up_right, x, up_right_in_strips)
        self._go_down(go_down_right, x, down_right_in_strips)
        return gathered(x, self.fronts.position)

    def solve_transposed(self, left: Floats) -> Floats:
        """Return x with ``x M = left``; a non-negative left side keeps relative accuracy entry by entry."""
        x = gathered(left, self.fronts.order)
        self.go_up(go_up_left, x, up_left_in_strips)
        self._go_down(go_down_left, x, down_left_in_strips)
        return gathered(x, self.fronts.position)

    def go_up(
        self,
        work: Callable[[Fronts, Floats, Floats], Any],
        x: Floats,
        in_strips: InStrips | None = None,
    ) -> list[Any]:
        """Let `work` change `x`, by position, from the first front to the last; return what it returns."""
        if self.branches is None:
            return [work(self.fronts, self.values, x)]
        return self.branches.go_up(work, self.values, x, in_strips)

    def _go_down(self, work: Callable[[Fronts, Floats, Floats], Any], x: Floats, in_strips: InStrips) -> None:
        """Let `work` change `x`, by position, from the last front to the first."""
        if self.branches is None:
            work(self.fronts, self.values, x)
        else:
            self.branches.go_down(work, self.values, x, in_strips)


def factorise_chain(transitions: CsrArray, leak: Floats, plan: EliminationPlan, budget: Budget) -> Factors:
    """Return the factors of a leaking chain, after eliminating its states according to `plan`.

    Parameters
    ----------
    transitions : (n, n) csr_array
        Transitions among the states to be eliminated; the diagonal is ignored.
    leak : (n,) array
        Probability of leaving them, from each state.
    plan : EliminationPlan
        The fronts.
    budget : Budget
        Limits on memory and time.

    Raises
    ------
    MethodError
        If memory does not suffice.
    """
    needed = plan.bytes_needed + BYTES_PER_STATE * len(leak) + BYTES_PER_ENTRY * transitions.nnz
    if needed > budget.max_memory:
        allowed = f"{budget.max_memory / 1e9:.3g} GB are allowed"
        raise MethodError(f"elimination needs {needed / 1e9:.3g} GB of memory and {allowed}")
    budget.meter.plan(plan.flops, plan.factor_entries)
    rows, back = rows_of(transitions), rows_of(transposed(transitions))
    values = np.empty(plan.factor_entries)
    progress = np.zeros(2)
    branches = find_branches(plan.fronts)

    def work() -> None:
        if branches is not None and needed + branches.bytes_needed <= budget.max_memory:
            eliminate_branches(branches, rows, back, leak, plan.fronts, values, progress)
            return
        stack, room = np.empty(max(plan.stack_entries, 1)), np.empty(plan.front_entries)
        count = len(plan.fronts.first) - 1
        factorise(rows, back, leak, plan.fronts, 0, count, values, stack, room, progress)

    budget.watch.run(work, progress=progress, total=plan.flops, label=f"eliminating {len(leak):,} states")
    return Factors(plan.fronts, values, branches)


def busiest_states(rows: Sparse, class_start: Ints, members: Ints) -> Ints:
    """Return a state of each recurrent class that is visited often, found by a walk.

    It is the state where the walk spends most time once it finds no new states.

    Parameters
    ----------
    rows : Sparse
        Transitions.
    class_start, members : int arrays
        ``members[class_start[c]:class_start[c + 1]]`` are the states of class c.

    Returns
    -------
    (classes,) int array
    """
    num_states = len(rows.indptr) - 1
    roots = np.empty(len(class_start) - 1, np.int64)
    walk_in_laps(rows, class_start, members, roots, np.zeros(num_states, np.int64), np.zeros(num_states))
    return roots


@bare_kernel
def walk_in_laps(
    rows: Sparse, class_start: Ints, members: Ints, roots: Ints, seen: NDArray[np.int64], time: Floats
) -> None:
    """Do the work of `busiest_states`; `seen` and `time` are zeros, one for each state."""
    seed = 1
    for c in range(len(roots)):
        state = members[class_start[c]]
        size = class_start[c + 1] - class_start[c]
        roots[c] = state
        # On a large chain short laps would stay near the start, whatever way the chain drifts.
        steps, used, lap, known = 64 if size < MANY_STATES else size // 16, 0, 1, 0
        # Each lap is twice as long as the one before, until much of it is spent on known ground.
        while size > 1 and used < MOST_READS_PER_STATE * size and known < 0.3 * steps:
            steps, lap, known = 2 * steps, lap + 1, 0
            most = -1.0
            for _ in range(steps):
                state, held, seed = next_state(rows, state, seed)
                used += rows.indptr[state + 1] - rows.indptr[state]
                if used >= MOST_READS_PER_STATE * size:
                    break
                if seen[state] // 2 != lap:
                    # Remember the lap, and in the last bit whether the lap before had been here too.
                    seen[state] = 2 * lap + (1 if seen[state] // 2 == lap - 1 else 0)
                    time[state] = 0.0
                known += seen[state] % 2
                time[state] += held
                if time[state] > most:
                    most = time[state]
                    roots[c] = state


@bare_kernel
def next_state(rows: Sparse, state: int, seed: int) -> tuple[int, float, int]:
    """Return the state after `state` is left, the mean time that is spent there, and the next seed."""
    seed = seed * 48271 % 2147483647
    target = seed / 2147483647.0 * exit_probability(rows, state)
    reached = state
    for entry in range(rows.indptr[state], rows.indptr[state + 1]):
        if rows.indices[entry] != state:
            reached = rows.indices[entry]
            target -= rows.data[entry]
            if target < 0.0:
                break
    return reached, 1.0 / exit_probability(rows, reached), seed


@bare_kernel
def exit_probability(rows: Sparse, state: int) -> float:
    """Return the probability of leaving `state`, as a sum: one minus that of staying would round."""
    total = 0.0
    for entry in range(rows.indptr[state], rows.indptr[state + 1]):
        if rows.indices[entry] != state:
            total += rows.data[entry]
    return total
