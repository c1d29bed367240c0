"""Iterative methods, which only multiply by the transition matrix.

They are for chains that forget their start quickly and that elimination would fill in. `prepare_power` and
`prepare_krylov` make the two solvers; `steps_to_forget` predicts whether they pay.

`power` adds up ``right + P right + P^2 right + ...``; `krylov` (BiCGSTAB, van der Vorst 1992) searches the
same space more cleverly, which pays on chains that take hundreds of steps to forget. Both give up early
if they do not converge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, bicgstab

from gainbias.model.checks import CsrArray
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.progress import Watch
from gainbias.types import Floats

BIAS_TOLERANCE = 1e-9
"""Residual of a solve relative to its right side; refinement repeats solves, so few digits are enough."""

STATIONARY_TOLERANCE = 2e-15
"""The stationary law is not refined afterwards and is found to this accuracy at once."""

POLISHED = 1e-13
"""A probability is polished until a step moves it by no more than this part of itself."""

PILOT_STEPS = 40
"""Steps from which the rate of decay is predicted."""

MOST_POWER_STEPS = 20_000
"""Steps after which powers are given up."""

KRYLOV_ROUND = 200
"""Steps of BiCGSTAB after which its residual is looked at."""

LOOK = 10
"""Steps between two looks at the rate of decay."""


Operator = Callable[[Floats], Floats]


@dataclass
class IterativeSolver:
    """A chain solved by matrix-vector products; `Solver` says what it offers."""

    method: str
    stationary: Floats
    _solve: Callable[[Operator, Floats, float], Floats]
    _transitions: CsrArray
    iterations: int
    notes: tuple[str, ...] = ()
    tolerance: float = field(default=BIAS_TOLERANCE, init=False)

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state."""
        return np.full(len(values), self.stationary @ values)

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side with average 0."""

        def forward(x: Floats) -> Floats:
            self.iterations += 1
            moved = np.asarray(self._transitions @ x)
            return np.asarray(moved - self.stationary @ moved)

        x = self._solve(forward, right - self.stationary @ right, self.tolerance)
        return x - self.stationary @ x


def steps_to_forget(transitions: CsrArray, period: int, steps: int = PILOT_STEPS) -> float:
    """Return a prediction of the number of steps after which a chain has forgotten a random vector.

    Parameters
    ----------
    transitions : (n, n) csr_array
        The chain.
    period : int
        Its period.
    steps : int
        Length of the pilot.

    Returns
    -------
    float
        Predicted number of steps; it can only be too small, never too large by much.
    """
    lazy = _lazy(transitions, period)
    x = np.random.default_rng(0).standard_normal(transitions.shape[0])
    rate = 1.0
    for _ in range(steps // LOOK):
        before = float(np.ptp(x))
        for _ in range(LOOK):
            x = lazy(x)
        rate = (float(np.ptp(x)) / before) ** (1.0 / LOOK) if before > 0.0 else 0.0
        if rate < 0.8:
            # The chain is so quick that more steps would cost more than a better prediction is worth.
            break
    return np.inf if rate >= 1.0 else log(STATIONARY_TOLERANCE) / log(max(rate, 1e-9))


def prepare_power(
    transitions: CsrArray, recurrent: NDArray[np.intp], period: int, budget: Budget
) -> IterativeSolver:
    """Return a solver that adds up powers; raises `MethodError` if they do not fade soon enough."""

    def solve(forward: Operator, right: Floats, tolerance: float) -> Floats:
        # x - P x = b is solved by the sum of P^k b, or, with the lazy chain L = (I + P) / 2, of L^k (b / 2).
        if period == 1:
            return _sum_of_powers(forward, right, tolerance, budget.watch)
        return _sum_of_powers(lambda x: 0.5 * (x + forward(x)), 0.5 * right, tolerance, budget.watch)

    return _prepare("power", transitions, recurrent, solve, budget.watch)


def prepare_krylov(transitions: CsrArray, recurrent: NDArray[np.intp], budget: Budget) -> IterativeSolver:
    """Return a solver that uses BiCGSTAB; raises `MethodError` if it does not converge."""

    def solve(forward: Operator, right: Floats, tolerance: float) -> Floats:
        return _bicgstab(forward, right, tolerance, budget.watch)

    return _prepare("krylov", transitions, recurrent, solve, budget.watch)


def _prepare(
    name: str,
    transitions: CsrArray,
    recurrent: NDArray[np.intp],
    solve: Callable[[Operator, Floats, float], Floats],
    watch: Watch,
) -> IterativeSolver:
    """Return a solver after finding the stationary law as ``u + x``, u uniform and ``x - x P = u P - u``."""
    columns = transitions.T.tocsr()
    n = transitions.shape[0]
    count = 0

    def forward(x: Floats) -> Floats:
        nonlocal count
        count += 1
        return np.asarray(columns @ x)

    law = np.full(n, 1.0 / n)
    for _ in range(3):
        # Repeated from its own result: BiCGSTAB may stop early, and a law that is right does not move.
        right = columns @ law - law
        if np.abs(right).sum() <= STATIONARY_TOLERANCE:
            break
        correction = solve(forward, right, max(BIAS_TOLERANCE, STATIONARY_TOLERANCE / np.abs(right).sum()))
        law = np.maximum(law + correction, 0.0)
        law /= law.sum()
    # Polishing may take a few times as long as finding the law did, which suffices unless chains are long.
    law, notes = _polished(law, columns, recurrent, 200 + 5 * count, watch)
    return IterativeSolver(name, law, solve, transitions, count, notes)


def _polished(
    law: Floats, columns: CsrArray, recurrent: NDArray[np.intp], most_steps: int, watch: Watch
) -> tuple[Floats, tuple[str, ...]]:
    """Return a law whose small probabilities have their digits too, and remarks if they do not.

    A step only adds and multiplies positive numbers, so it loses no digits.
    """
    inside = np.zeros(len(law), bool)
    inside[recurrent] = True
    law = np.where(inside, law, 0.0)
    for _ in range(most_steps):
        watch.show("polishing small probabilities")
        # The lazy chain, which has no period, has the same law.
        after = np.where(inside, 0.5 * (law + columns @ law), 0.0)
        after /= after.sum()
        moved = not np.array_equal(after, law)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = float(np.nan_to_num(np.abs(after - law)[inside] / after[inside], nan=np.inf).max())
        law = after
        if relative <= POLISHED:
            return law, ()
        if not moved:
            break
    return law, (f"small stationary probabilities may be off: one still moves by {relative:.1e} of itself",)


def _lazy(transitions: CsrArray, period: int) -> Operator:
    if period == 1:
        return lambda x: np.asarray(transitions @ x)
    return lambda x: np.asarray(0.5 * (x + transitions @ x))


def _sum_of_powers(forward: Operator, right: Floats, tolerance: float, watch: Watch) -> Floats:
    term, total = right, right.copy()
    start = size = float(np.abs(right).max())
    for step in range(1, MOST_POWER_STEPS + 1):
        if size <= tolerance * start:
            return total
        term = forward(term)
        total += term
        if step % LOOK == 0:
            watch.show("power: waiting until the chain forgets", *_fraction(size / start, tolerance))
            before, size = size, float(np.abs(term).max())
            rate = (size / before) ** (1.0 / LOOK)
            if step > PILOT_STEPS and (
                rate >= 1.0 or step + log(tolerance * start / size) / log(rate) > MOST_POWER_STEPS
            ):
                break
    raise MethodError(f"the chain forgets by only {1 - rate:.1e} per step, after {step} steps")


def _fraction(reached: float, wanted: float) -> tuple[float, float]:
    """Return the digits that are reached and the digits that are wanted, for a progress bar."""
    return -log(max(reached, 1e-300)), -log(wanted)


def _bicgstab(forward: Operator, right: Floats, tolerance: float, watch: Watch) -> Floats:
    n, size = len(right), float(np.linalg.norm(right))
    if size == 0.0:
        return np.zeros(n)
    operator = LinearOperator((n, n), matvec=lambda x: x - forward(x), dtype=np.float64)
    # Scaled to length one, because SciPy's test for a breakdown is absolute.
    unit = right / size
    x, reached, last = np.zeros(n), 1.0, np.inf
    # Round by round, to give up as soon as a round brings next to nothing.
    while reached > 10 * tolerance and reached < 0.3 * last:
        with np.errstate(all="ignore"):
            x, _ = bicgstab(
                operator,
                unit,
                x0=x,
                rtol=tolerance,
                atol=0.0,
                maxiter=KRYLOV_ROUND,
                callback=lambda _: watch.show("krylov: searching"),
            )
            last, reached = reached, float(np.linalg.norm(unit - operator @ x))
    if not reached <= 10 * tolerance:
        raise MethodError(f"BiCGSTAB reached a residual of {reached:.1e} and {tolerance:.1e} was wanted")
    return np.asarray(x) * size
