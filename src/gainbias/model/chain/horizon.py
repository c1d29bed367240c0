"""Values over a number of steps, split into a level and a remainder.

The sum of rewards over t steps is t times the gain, the level, plus W - P^t W, with W the bias.
`finite_horizon_values` finds the powers of P by products with twice the digits as long as they change, or,
for a chain that is small and slow, by squaring its matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from gainbias.kernels import kernel
from gainbias.model.chain.long_run import SplitValues, long_run
from gainbias.model.checks import EPSILON, CsrArray, frozen
from gainbias.model.doubled import Doubled, add_exactly, multiply_exactly, sum_of_parts
from gainbias.model.process import MarkovRewardProcess, check_process, refuse_durations
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.solution import ConvergenceError
from gainbias.progress import Watch
from gainbias.types import Floats, is_integer

MOST_HORIZON = 2**53
"""Largest number of steps, up to which all whole numbers have a double."""

NO_MATTER = 1e-20
"""The rest of the bias is ignored when it is below this fraction of its largest entry."""

QUICK, MOST_WORK = 1e6, 5e9
"""Multiplications with twice the digits that take a fraction of a second, and about a minute."""

PRODUCTS_PER_LOOK = 32
"""Number of steps after which to check whether the chain has forgotten its start."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteHorizonValues(SplitValues):
    """Expected sum of rewards over a number of steps from each state, as a level and a remainder.

    Attributes
    ----------
    steps : int
        Number of steps.
    level : float, or ndarray of shape (n,) for several recurrent classes
        The gain times the number of steps.
    remainder : ndarray, shape (n,)
        Values minus level: W - P^steps W, with W the bias.
    level_error : float, or ndarray of shape (n,) for several recurrent classes
        Bound on the absolute error of the level.
    remainder_error : ndarray, shape (n,)
        Bound on the absolute error of the remainder.
    method : str
        "products" if the chain was stepped, "squares" if its matrix was squared.
    notes : tuple of str
        Remarks about how gain and bias were found, and when powers were no longer needed.

    Examples
    --------
    >>> import gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
    >>> values = gb.finite_horizon_values(machine, steps=2)
    >>> values.level, values.remainder.round(6).tolist(), values.values.round(6).tolist()
    (3.0, [-0.7, 3.5], [2.3, 6.5])
    """

    steps: int


def finite_horizon_values(mrp: MarkovRewardProcess, steps: int) -> FiniteHorizonValues:
    """Return the expected sum of rewards over a number of steps, split into a level and a remainder.

    The sum is ``steps * gain + W - P^steps W``, with W the bias. The chain is stepped until the last term no
    longer matters, or repeats with the period of the chain; if that takes too long, its matrix is squared.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process, in discrete time; it may have several recurrent classes.
    steps : int
        Number of steps, from 0 to 2**53.

    Returns
    -------
    FiniteHorizonValues

    Raises
    ------
    ValueError
        If `steps` is no such number, or the process was made by `from_rates`: its steps vary in length.
    ConvergenceError
        If the chain is so large and slow that its powers would take too long.

    Examples
    --------
    >>> import gainbias as gb
    >>> blinker = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    >>> gb.finite_horizon_values(blinker, steps=3).values.tolist()
    [2.0, 1.0]
    >>> gb.finite_horizon_values(blinker, steps=10**12 + 1).remainder.tolist()
    [0.5, -0.5]
    """
    _check_steps(mrp, steps)
    steps = int(steps)  # NumPy's integers might overflow
    facts = long_run(mrp)
    bias, size = facts.bias, float(np.abs(facts.bias.high).max())
    with Watch() as watch, np.errstate(over="ignore", invalid="ignore"):
        power, power_error, method, notes = _power(mrp, bias, steps, watch)
        high, low = sum_of_parts(bias.high, bias.rest, -power.high, -power.rest)
        # W itself has an error: the residual of its equation counts once for each step.
        error = steps * float(np.max(facts.residual + facts.gain_error)) * _growth(mrp.csr, steps)
        error += power_error + 8 * EPSILON**2 * size
        if steps > 0 and facts.doubt.any():
            error += 2.2 * float(np.abs(facts.solve(facts.doubt - facts.average(facts.doubt))).max())
        level = steps * facts.gain
        level_error = steps * facts.level_error + 2 * EPSILON * np.abs(level)
    if steps == 0:
        error = 0.0
    return FiniteHorizonValues(
        steps=steps,
        level=facts.per_class(level),
        remainder=frozen(high),
        level_error=facts.per_class(level_error),
        remainder_error=frozen((error + np.abs(low)) * (1.0 + 2 * EPSILON)),
        method=method,
        notes=(*facts.notes, *notes),
    )


class PowerOfChain(NamedTuple):
    """A power of a chain applied to a vector, a bound on its error, how it was found, and remarks."""

    vector: Doubled
    error: float
    method: str
    notes: tuple[str, ...] = ()


def _power(mrp: MarkovRewardProcess, vector: Doubled, steps: int, watch: Watch) -> PowerOfChain:
    """Return ``P^steps vector`` for a vector of long-run average 0."""
    n, csr = mrp.num_states, mrp.csr
    squaring = float(n) ** 3 * max(steps, 1).bit_length()
    stepping = min(float(steps) * csr.nnz, MOST_WORK if squaring > MOST_WORK else max(squaring, QUICK))
    found = _by_products(mrp, vector, steps, int(stepping / csr.nnz), watch)
    if found is not None:
        return found
    if squaring <= MOST_WORK:
        return _by_squares(csr, vector, steps, watch)
    raise ConvergenceError(
        f"the chain of {n:,} states still remembers its start after {int(stepping / csr.nnz):,} of {steps:,} "
        "steps, and it is too large to square its matrix. What to do: ask for fewer steps, merge states, or "
        "use the bias of solve(mrp), to which the remainder tends."
    )


def _by_products(
    mrp: MarkovRewardProcess, vector: Doubled, steps: int, most_steps: int, watch: Watch
) -> PowerOfChain | None:
    """Return the power by products, or None if more than `most_steps` of them would be needed."""
    rows = Sparse(mrp.csr.indptr, mrp.csr.indices, mrp.csr.data)
    period = reduce(math.lcm, map(int, mrp.class_periods))
    look = period * max(1, PRODUCTS_PER_LOOK // period)
    size, growth = float(np.abs(vector.high).max()), _growth(mrp.csr, steps)
    longest = int(np.diff(mrp.csr.indptr).max())
    rounding = 4 * (longest + 8) * EPSILON**2 * float(steps) * size * growth
    accepted = NO_MATTER * size + rounding
    x, done = vector, 0
    while done < steps:
        count = min(look, steps - done)
        if done + count > most_steps:
            return None
        before, x = x, _stepped(rows, x, count)
        done += count
        watch.show("stepping the chain", done, min(steps, most_steps))
        moved = float(np.max(np.abs((x.high - before.high) + (x.rest - before.rest))))
        times, remaining = (steps - done) // look, (steps - done) % look
        # No step makes the largest entry larger, so changes in later laps are no larger than in this one.
        left = times * moved * growth
        if period == 1:
            left = min(left, 2.0 * float(np.max(np.abs(x.high))) * growth)
        if times > 0 and left <= accepted:
            x = _stepped(rows, x, remaining)
            note = f"after {done:,} steps nothing changes but with the period, which is {period}"
            return PowerOfChain(x, rounding + left, "products", (note,))
    return PowerOfChain(x, rounding if steps else 0.0, "products")


def _stepped(rows: Sparse, x: Doubled, count: int) -> Doubled:
    parts = np.stack([x.high, x.rest])
    step_chain(rows, parts, np.empty_like(parts), count)
    return Doubled(parts[0], parts[1])


def _by_squares(csr: CsrArray, vector: Doubled, steps: int, watch: Watch) -> PowerOfChain:
    """Return the power by squaring the matrix, and applying those squares that the number of steps has."""
    n = csr.shape[0]
    matrix = np.zeros((2, n, n))
    write_dense(Sparse(csr.indptr, csr.indices, csr.data), matrix)
    other = np.empty_like(matrix)
    x = np.stack([vector.high, vector.rest])[:, :, np.newaxis]
    for bit in range(steps.bit_length()):
        watch.show("squaring the chain", bit, steps.bit_length())
        if steps >> bit & 1:
            after = np.empty_like(x)
            multiply_doubled(matrix, x, after)
            x = after
        if steps >> bit > 1:
            multiply_doubled(matrix, matrix, other)
            matrix, other = other, matrix
    size = float(np.abs(vector.high).max())
    # Each product of two powers adds the errors of both, so in the end each step counts once.
    error = 4 * (n + 8) * EPSILON**2 * float(steps) * size * _growth(csr, steps)
    return PowerOfChain(Doubled(x[0, :, 0], x[1, :, 0]), error, "squares")


def _growth(csr: CsrArray, steps: int) -> float:
    """Return by how much powers can grow because entries off the diagonal sum to more than 1 by rounding."""
    moves = csr @ np.ones(csr.shape[0]) - csr.diagonal()
    beyond = 0.0
    for row in np.flatnonzero(moves > 1.0 - 1e-9):
        entries = slice(csr.indptr[row], csr.indptr[row + 1])
        chances = csr.data[entries][csr.indices[entries] != row]
        beyond = max(beyond, math.fsum([*chances.tolist(), -1.0]))
    return math.exp(min(2.0 * beyond * steps, 700.0))


def _check_steps(mrp: MarkovRewardProcess, steps: int) -> None:
    check_process(mrp, "finite_horizon_values")
    refuse_durations(mrp, "finite_horizon_values")
    if not is_integer(steps):
        raise ValueError(f"steps must be a whole number, found {steps!r}")
    if not 0 <= steps <= MOST_HORIZON:
        raise ValueError(f"steps must be from 0 to 2**53, found {steps}")
    if mrp.rate is not None:
        raise ValueError(
            "finite_horizon_values counts steps, and a step of a process made by from_rates has no fixed "
            "length: use a process whose transitions are those over one unit of time"
        )


@kernel
def step_chain(rows: Sparse, x: Floats, other: Floats, count: int) -> None:
    """Apply a chain `count` times to a vector with twice the digits, (2, n), in place; `other` is scratch."""
    n = x.shape[1]
    for _ in range(count):
        for i in range(n):
            moved, moved_low = 0.0, 0.0
            for entry in range(rows.indptr[i], rows.indptr[i + 1]):
                j = rows.indices[entry]
                if j != i:
                    step, step_low = add_exactly(x[0, j], -x[0, i])
                    step_low += x[1, j] - x[1, i]
                    term, term_low = multiply_exactly(rows.data[entry], step)
                    moved, lost = add_exactly(moved, term)
                    moved_low += lost + (term_low + rows.data[entry] * step_low)
            high, low = add_exactly(x[0, i], moved)
            other[0, i], other[1, i] = add_exactly(high, low + (moved_low + x[1, i]))
        for i in range(n):
            x[0, i], x[1, i] = other[0, i], other[1, i]


@kernel
def write_dense(rows: Sparse, out: Floats) -> None:
    """Write a chain to zeros with twice the digits, (2, n, n), with the diagonal as the rest to 1."""
    for i in range(out.shape[1]):
        stay, stay_low = 1.0, 0.0
        for entry in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[entry]
            if j != i:
                out[0, i, j] = rows.data[entry]
                stay, lost = add_exactly(stay, -rows.data[entry])
                stay_low += lost
        out[0, i, i], out[1, i, i] = add_exactly(stay, stay_low)


@kernel
def multiply_doubled(a: Floats, b: Floats, out: Floats) -> None:
    """Write the product of two matrices with twice the digits, (2, n, n) and (2, n, m), to `out`."""
    for i in range(a.shape[1]):
        for j in range(b.shape[2]):
            total, total_low = 0.0, 0.0
            for k in range(a.shape[2]):
                term, term_low = multiply_exactly(a[0, i, k], b[0, k, j])
                total, lost = add_exactly(total, term)
                total_low += lost + (term_low + (a[0, i, k] * b[1, k, j] + a[1, i, k] * b[0, k, j]))
            out[0, i, j], out[1, i, j] = add_exactly(total, total_low)
