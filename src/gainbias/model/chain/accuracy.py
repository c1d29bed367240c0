"""What is known about the accuracy of a solution, and of numbers derived from its chain.

`accuracy_of` makes the table that `Solution.accuracy` returns. The derived numbers are compared with columns
of the deviation matrix that have their own bounds, which takes a few solves for each state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gainbias.model.chain.deviation import deviation_matrix, kemeny_constant
from gainbias.model.chain.mixing import gap_and_error, mixing_time_bounds
from gainbias.model.checks import EPSILON
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.certificate import solve_and_certify
from gainbias.model.solve.choice import DENSE_SOLVE_STATES, ELIMINATIONS
from gainbias.model.solve.solution import ConvergenceError, MultichainSolution, Solution
from gainbias.model.solve.solve import poisson_solver
from gainbias.model.solve.variance import knows_no_variance
from gainbias.notebook import Card, InNotebooks
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas as pd

MOST_DERIVED_STATES = 1_000
"""Up to this many states each column of the deviation matrix is measured."""

UNKNOWN = "unknown"


class Known(NamedTuple):
    """One quantity: its value, its absolute error, the kind of that error, and the state or entry it is for.

    The kind is "bound" if rounding cannot break it, "estimate" if it is measured, and "unknown".
    """

    quantity: str
    value: float
    error: float
    kind: str
    where: str = ""


@dataclass(frozen=True)
class Accuracy(InNotebooks):
    """A table with what is known about each quantity."""

    rows: tuple[Known, ...]

    def __getitem__(self, quantity: str) -> Known:
        """Return the row of a quantity."""
        return next(row for row in self.rows if row.quantity == quantity)

    def __str__(self) -> str:
        """Return the table as text."""
        lines = [("quantity", "value", "error", "kind", "where")]
        lines += [(row.quantity, f"{row.value:.12g}", f"{row.error:.1e}", *row[3:]) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = (
            "  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)) for line in lines
        )
        return "\n".join(line.rstrip() for line in padded)

    def _card(self) -> Card:
        return Card("Accuracy", {}, [row._asdict() for row in self.rows])

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a data frame, indexed by quantity (needs pandas)."""
        import pandas as pd

        return pd.DataFrame([row._asdict() for row in self.rows]).set_index("quantity")


def accuracy_of(solution: Solution, *, derived: bool, eps: float) -> Accuracy:
    """Return the accuracy of each number of a solution; `Solution.accuracy` says more."""
    rows = list(_own(solution))
    if derived:
        refuse_durations(solution.mrp, "accuracy(derived=True)")
        rows += _of_columns(solution.mrp)
        rows += [_gap(solution.mrp), _mixing(solution.mrp, eps)]
    return Accuracy(tuple(rows))


def accuracy_of_classes(solution: MultichainSolution) -> Accuracy:
    """Return the accuracy of each number of a solution; `MultichainSolution.accuracy` says more."""
    mrp, is_direct = solution.mrp, set(solution.method.split(", ")) <= set(ELIMINATIONS)
    kind = "bound" if is_direct else "estimate"
    rows = [
        _worst("gain", mrp, solution.gain, solution.gain_error, "bound"),
        _worst("bias", mrp, solution.bias, solution.bias_error, kind),
    ]
    law: Floats = np.asarray(solution.stationary.sum(axis=0))
    rows.append(_worst_share(mrp, law, solution.stationary_error, kind))
    if not knows_no_variance(mrp):
        off = solution.class_asymptotic_variance_errors
        worst = int(np.argmax(off))
        value, where = float(solution.class_asymptotic_variances[worst]), f"worst class: {worst}"
        rows.append(Known("asymptotic_variance", value, float(off[worst]), kind, where))
    return Accuracy(tuple(rows))


def _own(solution: Solution) -> Iterator[Known]:
    mrp, is_direct = solution.mrp, solution.method in ELIMINATIONS
    kind = "bound" if is_direct else "estimate"
    yield Known("gain", solution.gain, solution.gain_error, "bound")
    yield _worst("bias", mrp, solution.bias, solution.bias_error, kind)
    if is_direct:
        yield _worst_share(mrp, solution.stationary, solution.stationary_error, kind)
    else:
        yield Known("stationary", 1.0, solution.stationary_error_total, kind, "sum over all states")
    if knows_no_variance(solution.mrp):
        return
    error = float(solution.asymptotic_variance_error)
    yield Known("asymptotic_variance", solution.asymptotic_variance, error, kind)


def _worst(quantity: str, mrp: MarkovRewardProcess, values: Floats, errors: Floats, kind: str) -> Known:
    """Return the row of the state whose number has the largest error."""
    return _of_state(quantity, mrp, int(np.argmax(errors)), values, errors, kind)


def _worst_share(mrp: MarkovRewardProcess, law: Floats, errors: Floats, kind: str) -> Known:
    """Return the row of the state whose stationary share has the largest error relative to itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(errors > 0.0, errors / law, -1.0)
    return _of_state("stationary", mrp, int(np.argmax(relative)), law, errors, kind)


def _of_state(
    quantity: str, mrp: MarkovRewardProcess, state: int, values: Floats, errors: Floats, kind: str
) -> Known:
    where = f"worst state: {_label(mrp, state)}"
    return Known(quantity, float(values[state]), float(errors[state]), kind, where)


def _label(mrp: MarkovRewardProcess, state: int) -> str:
    return str(state if mrp.labels is None else mrp.labels[state])


def _of_columns(mrp: MarkovRewardProcess) -> Iterator[Known]:
    """Yield the accuracy of the Kemeny constant and the deviation matrix."""
    n = mrp.num_states
    names = ("kemeny_constant", "deviation_matrix")
    if n > MOST_DERIVED_STATES:
        where = f"not measured above {MOST_DERIVED_STATES:,} states"
        yield from (Known(name, math.nan, math.inf, UNKNOWN, where) for name in names)
        return
    try:
        solver = poisson_solver(mrp, method="dense-gth" if n <= DENSE_SOLVE_STATES else "sparse-gth").solver
        constant, matrix = kemeny_constant(mrp), deviation_matrix(mrp)
    except ConvergenceError:
        yield from (Known(name, math.nan, math.inf, UNKNOWN, "the chain was not solved") for name in names)
        return
    columns = [solve_and_certify(mrp.csr, unit, solver) for unit in np.eye(n)]
    best = np.stack([column.bias for column in columns], axis=1)
    errors = np.stack([column.bias_error for column in columns], axis=1)
    trace = math.fsum(np.diag(best))
    error = abs(constant - trace) * (1.0 + EPSILON) + EPSILON * abs(trace) + math.fsum(np.diag(errors))
    yield Known(names[0], constant, error, "bound")
    off = np.abs(matrix - best) * (1.0 + EPSILON) + errors
    row, column = (int(place) for place in np.unravel_index(np.argmax(off), off.shape))
    where = f"worst entry: {_label(mrp, row)}, {_label(mrp, column)}"
    yield Known(names[1], float(matrix[row, column]), float(off[row, column]), "bound", where)


def _gap(mrp: MarkovRewardProcess) -> Known:
    try:
        return Known("spectral_gap", *gap_and_error(mrp), "estimate")
    except (ConvergenceError, ValueError):
        return Known("spectral_gap", math.nan, math.inf, UNKNOWN, "eigenvalues were not found")


def _mixing(mrp: MarkovRewardProcess, eps: float) -> Known:
    try:
        lower, upper, _ = mixing_time_bounds(mrp, eps)
    except (ConvergenceError, ValueError) as reason:
        return Known("mixing_time", math.nan, math.inf, UNKNOWN, str(reason).partition(":")[0])
    return Known("mixing_time", upper, upper - lower, "bound", f"eps = {eps:g}, from {lower:,} to {upper:,}")
