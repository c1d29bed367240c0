"""Iterative methods, which only multiply by the transition matrix.

They are for chains with heavy fill-in. `prepare_power` and `prepare_krylov` make the two solvers;
`prepare`, `bicgstab` and `IterativeSolver` serve `incomplete` too.

`power` adds up ``right + P right + P^2 right + ...``; `krylov` (BiCGSTAB, van der Vorst 1992) searches the
same space more cleverly, which pays off on chains that take hundreds of steps to forget. Nothing is
predicted: the meter of the budget counts each product, and may pause a method and let another one try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import by_blocks, constant_like, is_elsewhere, kernel, share_blocks
from gainbias.model.checks import CsrArray
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import exit_probability
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import PER_CALL, PER_ENTRY, PER_STATE, PER_SWEPT_ENTRY, Meter
from gainbias.model.solve.vectors import (
    advanced,
    brought_to,
    combined,
    each_state,
    inner,
    largest_of,
    length,
    multiply,
    renewed,
    rows_of,
    shifted,
    transposed,
    vector_like,
)
from gainbias.types import Floats

BIAS_TOLERANCE = 1e-9
"""Residual of a solve relative to its right side; refinement repeats solves, so a few digits are enough."""

STATIONARY_TOLERANCE = 2e-15
"""The stationary law is not refined afterwards and is found to this accuracy at once."""

POLISHED = 1e-13
"""A probability is polished until a step moves it by no more than this part of itself."""

FEW_SWEEPS, SWEEPS_PER_PRODUCT = 300, 3
"""A law is polished for this many sweeps, and this many more for each product that finding it took."""

NOISE_OF_LAW = 1e-14
"""A probability that is smaller than this part of the largest one may consist of rounding errors."""

MOST_CANCELLATION = 1e6
"""A law whose entries cancel by more than this when added up is not accepted."""

MOST_POWER_STEPS = 20_000
"""Steps after which powers are given up."""

FIRST_ROUND = 200
"""Steps of BiCGSTAB after which its residual is computed anew; each further round is twice as long."""

MOST_GROWTH = 1e12
"""A residual that has grown by this much ends a round: what was found until then is better."""

LOOK = 10
"""Steps of powers between two checks of the remainder."""


Operator = Callable[[Floats], Floats]
Solve = Callable[[Operator, Floats, float], Floats]


@dataclass
class IterativeSolver:
    """A chain solved by matrix-vector products; `Solver` says what it offers."""

    method: str
    stationary: Floats
    _solve: Solve
    _transitions: CsrArray
    _meter: Meter
    notes: tuple[str, ...]
    tolerance: float

    @property
    def iterations(self) -> int:
        """Matrix-vector products so far."""
        return self._meter.products

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state."""
        return constant_like(inner(self.stationary, values), values)

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0."""

        def forward(x: Floats) -> Floats:
            self._meter.spend(product_work(self._transitions), products=1)
            moved = multiply(self._transitions, x)
            return shifted(moved, inner(self.stationary, moved), out=moved)

        x = self._solve(forward, shifted(right, inner(self.stationary, right)), self.tolerance)
        self._meter.finish_solve()
        return shifted(x, inner(self.stationary, x))


def product_work(transitions: CsrArray) -> float:
    """Return the work of a product with a chain, in nominal seconds."""
    return PER_CALL + PER_ENTRY * transitions.nnz + 3 * PER_STATE * transitions.shape[0]


def prepare_power(
    transitions: CsrArray, recurrent: NDArray[np.intp], period: int, budget: Budget
) -> IterativeSolver:
    """Return a solver that adds up powers; raises `MethodError` if they do not fade soon enough."""

    def solve(forward: Operator, right: Floats, tolerance: float) -> Floats:
        # x - P x = b is solved by the sum of P^k b, or, with the lazy chain L = (I + P) / 2, of L^k (b / 2).
        if period == 1:
            return _sum_of_powers(forward, right, tolerance, budget)

        def lazily(x: Floats) -> Floats:
            halfway: Floats = by_blocks(lambda x, moved: 0.5 * (x + moved), x, forward(x))
            return halfway

        return _sum_of_powers(lazily, 0.5 * right, tolerance, budget)

    return prepare("power", transitions, recurrent, solve, solve, budget)


def prepare_krylov(transitions: CsrArray, recurrent: NDArray[np.intp], budget: Budget) -> IterativeSolver:
    """Return a solver that uses BiCGSTAB; raises `MethodError` if it does not converge."""

    def solve(forward: Operator, right: Floats, tolerance: float) -> Floats:
        def apply(x: Floats) -> Floats:
            moved = forward(x)
            return combined(x, -1.0, moved, out=moved)

        return bicgstab(apply, lambda x: x, right, tolerance, budget, "krylov")

    return prepare("krylov", transitions, recurrent, solve, solve, budget)


def prepare(
    name: str,
    transitions: CsrArray,
    recurrent: NDArray[np.intp],
    solve: Solve,
    solve_transposed: Solve,
    budget: Budget,
    tolerance: float = BIAS_TOLERANCE,
    guess: Floats | None = None,
) -> IterativeSolver:
    """Return a solver after finding the stationary law as ``u + x``, where ``x - x P = u P - u``.

    Parameters
    ----------
    name : str
        Name of the method.
    transitions : (n, n) csr_array
        The chain.
    recurrent : int array
        Its recurrent states.
    solve, solve_transposed : callable
        Take a function that multiplies by P (transposed: by its transpose), a right side and the residual to
        reach, relative to it, and return x with ``x - P x = right`` (transposed: ``x - x P = right``).
    budget : Budget
        Limits, and the meter that counts.
    tolerance : float
        Residual that a solve reaches, relative to its right side.
    guess : (n,) array, optional
        About the law, with small probabilities of the right order; u is uniform without it.
    """
    columns = transposed(transitions)
    meter = budget.meter
    work = product_work(transitions)

    def forward(x: Floats) -> Floats:
        meter.spend(work, products=1)
        return multiply(columns, x)

    law = uniform_law(transitions) if guess is None else guess / guess.sum()
    before, moved = meter.products, np.inf
    for _ in range(3):
        # Repeated from its own result: BiCGSTAB may stop early, and a law that is right does not move.
        right = combined(multiply(columns, law), -1.0, law)
        moved_before, moved = moved, float(np.abs(right).sum())
        if moved <= STATIONARY_TOLERANCE or moved > 0.5 * moved_before:
            break
        law = law + solve_transposed(forward, right, max(tolerance, STATIONARY_TOLERANCE / moved))
        # The correction may contain a multiple of the law, even a negative one.
        total = float(law.sum())
        if not (isfinite(total) and np.abs(law).sum() < MOST_CANCELLATION * abs(total)):
            raise MethodError("a search for the stationary law ended far from it")
        law = np.maximum(law / total, 0.0)
        law /= law.sum()
        meter.finish_solve()
    # Noise is set to 0 first: sweeps approach the law from below sooner than they reduce noise. Polishing
    # may take a few times as long as finding the law did, which suffices unless chains are long.
    counts = law > NOISE_OF_LAW * law.max()
    law = law * counts if guess is None else np.where(counts, law, guess * (law.max() / guess.max()))
    most_sweeps = FEW_SWEEPS + SWEEPS_PER_PRODUCT * (meter.products - before)
    law, notes = _polished(law, transitions, columns, recurrent, most_sweeps, budget)
    return IterativeSolver(name, law, solve, transitions, meter, notes, tolerance)


def _polished(
    law: Floats,
    transitions: CsrArray,
    columns: CsrArray,
    recurrent: NDArray[np.intp],
    most_sweeps: int,
    budget: Budget,
) -> tuple[Floats, tuple[str, ...]]:
    """Return a law whose small probabilities are also accurate, and remarks if they are not."""
    outside = constant_like(0.0, law)
    if len(recurrent) < len(law):
        transient = np.ones(len(law))
        transient[recurrent] = 0.0
        outside = brought_to(law, transient)
        law = law * (1.0 - outside)
    back, exits = rows_of(columns), vector_like(law)
    each_state(write_exits, (rows_of(transitions),), exits)
    work = PER_CALL + 2 * PER_SWEPT_ENTRY * transitions.nnz + 6 * PER_STATE * len(law)
    halfway, relative_then = 50, np.inf
    relative, in_blocks = np.inf, True
    # On a GPU each state is a block, and makes only half of each correction: on some chains it oscillates.
    way = 0.5 if is_elsewhere(law) else 1.0
    for sweep in range(most_sweeps):
        budget.watch.show("polishing small probabilities")
        budget.meter.spend(work, aside=True)
        before, after = law, law.copy()
        parts = back, exits, before
        if is_elsewhere(law):
            each_state(balance, parts, after)
            after = (1.0 - way) * before + way * after
        elif in_blocks:
            # Threads work on blocks, each with the old values of the others, as long as that is enough.
            share_blocks(lambda begin, end: balance(*parts, begin, end, after), len(law))  # noqa: B023
        else:
            balance(*parts, 0, len(law), after)
        total = float(after.sum())
        if not 0.0 < total < np.inf:
            raise MethodError("stationary probabilities span more than the range of floating-point numbers")
        after /= total
        law = after
        relative_before, relative = relative, _largest_move(before, law, outside) / way
        in_blocks = in_blocks and relative <= 0.5 * relative_before
        if relative <= POLISHED:
            return law, ()
        if sweep == 2 * halfway:
            # At the rate of the last half it would take too long.
            rate = (relative / relative_then) ** (1.0 / halfway)
            if not 0.0 < rate < 1.0 or sweep + log(POLISHED / relative) / log(rate) > most_sweeps:
                break
            halfway = sweep
        if sweep == halfway:
            relative_then = relative
        if largest_of(combined(law, -1.0, before)) == 0.0:
            break
    return law, (f"small stationary probabilities may be off: one still moves by {relative:.1e} of itself",)


def _largest_move(before: Floats, after: Floats, outside: Floats) -> float:
    """Return the largest relative change of a probability; infinite if one is 0.

    States that are never visited have 1 in `outside`, all others 0.
    """

    def move(last: Floats, now: Floats, outside: Floats) -> Floats:
        return np.abs(now - last) / (now + outside)

    with np.errstate(divide="ignore", invalid="ignore"):
        largest = largest_of(by_blocks(move, before, after, outside))
    return largest if largest < np.inf else np.inf


def uniform_law(transitions: CsrArray) -> Floats:
    """Return the law that gives all states the same probability, (n,), where the chain is."""
    n = transitions.shape[0]
    place: Any = transitions
    return place.vector(1.0 / n) if is_elsewhere(transitions.data) else np.full(n, 1.0 / n)


@kernel
def write_exits(rows: Sparse, begin: int, end: int, exits: Floats) -> None:
    """Write the probability of leaving each state, as a sum, from state `begin` to ``end - 1``."""
    for i in range(begin, end):
        exits[i] = exit_probability(rows, i)


@kernel
def balance(columns: Sparse, exits: Floats, before: Floats, begin: int, end: int, law: Floats) -> None:
    """Make what enters each state equal to what leaves it, state by state, forward and back.

    Only the states `begin` to ``end - 1`` are changed, and of others the law `before` is taken. It only adds,
    multiplies and divides numbers that are not negative, so that it loses no digits.
    """
    count = end - begin
    for k in range(2 * count):
        j = begin + (k if k < count else 2 * count - 1 - k)
        if exits[j] > 0.0:
            entering = 0.0
            for entry in range(columns.indptr[j], columns.indptr[j + 1]):
                i = columns.indices[entry]
                if i != j:
                    entering += (law[i] if begin <= i < end else before[i]) * columns.data[entry]
            law[j] = entering / exits[j]


def _sum_of_powers(forward: Operator, right: Floats, tolerance: float, budget: Budget) -> Floats:
    term, total = right, right.copy()
    start = size = largest_of(right)
    for step in range(1, MOST_POWER_STEPS + 1):
        if size <= tolerance * start:
            return total
        term = forward(term)
        combined(total, 1.0, term, out=total)
        if step % LOOK == 0:
            # A chain may at first not forget at all, for as many steps as it takes to cross it.
            before, size = size, largest_of(term)
            budget.watch.show("power: waiting until the chain forgets", *_fraction(size / start, tolerance))
            budget.meter.reach(size / start)
    rate = (size / before) ** (1.0 / LOOK)
    raise MethodError(f"the chain forgets by only {1 - rate:.1e} per step, after {step} steps")


def _fraction(reached: float, wanted: float) -> tuple[float, float]:
    """Return the digits reached and the digits wanted, for a progress bar."""
    return -log(max(reached, 1e-300)), -log(wanted)


def bicgstab(
    apply: Operator, precondition: Operator, right: Floats, tolerance: float, budget: Budget, name: str
) -> Floats:
    """Return the x with ``apply(x) = right`` that BiCGSTAB finds; raises `MethodError` if it stalls.

    Parameters
    ----------
    apply : callable
        Multiplies by the matrix.
    precondition : callable
        Solves about the same equation.
    right : (n,) array
        Right side.
    tolerance : float
        Residual to reach, relative to the right side.
    budget : Budget
        Limits, and the meter that counts.
    name : str
        Name of the method, for a progress bar.
    """
    most = largest_of(right)
    if most == 0.0:
        return constant_like(0.0, right)
    # The norm squares, which must not leave the range of numbers; a power of two costs no digit.
    power = int(np.frexp(most)[1])
    unit = by_blocks(lambda part: np.ldexp(part, -power), right)
    norm = length(unit)
    unit = by_blocks(lambda part: part / norm, unit)
    x, reached, last, steps = constant_like(0.0, right), 1.0, np.inf, FIRST_ROUND
    residual = unit
    # Round by round, to give up as soon as a round gains next to nothing.
    while reached > 10 * tolerance and reached < 0.3 * last:
        with np.errstate(all="ignore"):
            found = _search(apply, precondition, residual, tolerance, steps, budget, name)
            x = combined(x, 1.0, found, out=x)
            residual = combined(unit, -1.0, apply(x))
        last, reached, steps = reached, length(residual), 2 * steps
    if not reached <= 10 * tolerance:
        raise MethodError(f"BiCGSTAB reached a residual of {reached:.1e} and {tolerance:.1e} was wanted")
    as_large: Floats = by_blocks(lambda part: np.ldexp(part * norm, power), x)
    return as_large


def _search(
    apply: Operator,
    precondition: Operator,
    right: Floats,
    tolerance: float,
    most_steps: int,
    budget: Budget,
    name: str,
) -> Floats:
    """Return what one round of BiCGSTAB finds; it ends early when it breaks down."""
    x, direction, moved = (constant_like(0.0, right) for _ in range(3))
    residual = by_blocks(np.positive, right)
    # NumPy numbers: a breakdown divides by 0, which gives nan and ends the round.
    rho = alpha = omega = np.float64(1.0)
    for _ in range(most_steps):
        budget.watch.show(f"{name}: searching")
        rho_before, rho = rho, np.float64(inner(right, residual))
        beta = rho / rho_before * (alpha / omega)
        direction = renewed(direction, beta, omega, moved, residual)
        step = precondition(direction)
        moved = apply(step)
        alpha = rho / np.float64(inner(right, moved))
        half = combined(residual, -alpha, moved)
        if length(half) <= tolerance:
            x = combined(x, alpha, step, out=x)
            break
        other = precondition(half)
        turned = apply(other)
        omega = np.float64(inner(turned, half)) / np.float64(inner(turned, turned))
        residual = combined(half, -omega, turned)
        budget.meter.spend(12 * PER_STATE * len(x))
        reached = length(residual)
        if not reached < MOST_GROWTH or rho == 0.0 or omega == 0.0:
            break
        x = advanced(x, alpha, step, omega, other)
        budget.meter.reach(reached)
        if reached <= tolerance:
            break
    return x
