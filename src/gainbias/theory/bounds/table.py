"""The paper's comparison table as numbers: what each theorem requires on one problem, and what is enough.

The table compares orders of magnitude, such as epsilon^-1 eta2^-4. `sample_complexities` gives three
numbers for every row:

- the order itself at the condition numbers of the problem, without constants, logarithms and mixing times. It
  is no guarantee, and orders in different condition numbers cannot be compared;
- the number of transitions that the theorem certifies with its constants, where this package has it. For
  the other rows we looked for the constants and did not find them. Nothing is guessed: the row says which
  paper's constants are missing, and why;
- the number that is enough in the end, exactly: with steps a / (t + c0), a = 2 / the slowest rate of the
mean update, t
  times the mean squared distance from the limit tends to a number (see `asymptotic_covariance`). Divided by
  epsilon it is the number of transitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gainbias.algorithms.registry import ALGORITHMS, REFERENCES
from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Harmonic
from gainbias.model.conditioning import ConditionNumbers
from gainbias.model.problem import Problem
from gainbias.model.solve.solution import ConvergenceError
from gainbias.tasks.task import Task
from gainbias.theory.asymptotics import asymptotic_covariance
from gainbias.theory.bounds.certify import certified
from gainbias.theory.curve.curve import error_form
from gainbias.theory.curve.enumeration import check_sampling
from gainbias.theory.recommend import slow_rates

NOT_AVAILABLE = "not available: "
"""Every note on a theorem whose constants this package does not have begins with this."""


@dataclass(frozen=True)
class TableRow:
    """A row of the paper's table before it meets a problem.

    `order` is the product of condition numbers in the row, 1 / epsilon left out; `words` is how it is shown.
    `missing` says whose theorem has no certificate here, and why; it is empty if there is one.
    """

    reference: str
    algorithm: str
    words: str
    order: Callable[[ConditionNumbers, float], float] | None
    linear_only: bool = False
    tabular_only: bool = False
    missing: str = ""


def _quartic(numbers: ConditionNumbers, discount: float) -> float:
    return numbers.eta2**-4


COMPARISON_ROWS = (
    TableRow(
        "tsitsiklis1999average",
        "td-lambda",
        "no rate",
        None,
        linear_only=True,
        missing="Tsitsiklis and Van Roy (1999) prove convergence without a rate",
    ),
    TableRow(
        "blaser2024almost",
        "almost-sure-td",
        "no rate",
        None,
        tabular_only=True,
        missing="Blaser and Zhang (2024) prove convergence; the paper's table has no rate of theirs",
    ),
    TableRow(
        "zhang2021finite",
        "td-lambda",
        "eta2^-4",
        _quartic,
        missing="of the theorem of Zhang, Zhang and Maguluri (2021) its condition on step sizes was found, "
        "but not the constants of its bound",
    ),
    TableRow(
        "haque2024stochastic",
        "projected-td",
        "eta2^-4",
        _quartic,
        missing="of Haque and Maguluri (2025) only the abstract was found, which has no constants",
    ),
    TableRow(
        "kim2025implicit",
        "implicit-td",
        "eta2^-3 eta3^-1",
        lambda c, _: c.eta2**-3 / c.eta3,
        missing="of Kim, Cho and Laber (2025) the method was found, but not the constants of its bound; the "
        "radius in it is not given by its authors either",
    ),
    TableRow(
        "chen2025seminorm",
        "td-lambda",
        "eta2^-4",
        _quartic,
        missing="of Chen, Zhang, Zhang, Haque and Maguluri (2025) only the abstract was found, which has no "
        "constants",
    ),
    TableRow(
        "li2024stochastic",
        "vrtd",
        "eta3^-2",
        lambda c, _: c.eta3**-2,
        linear_only=True,
        missing="of Li, Wu and Lan (2024) only the structure of the method was found, not the constants of "
        "its bound",
    ),
    TableRow("tian2026bridging", "double-chain", "eta1^-2", lambda c, _: c.eta1**-2),
    TableRow("tian2026bridging", "single-chain", "eta1^-4", lambda c, _: c.eta1**-4),
    TableRow(
        "bhandari2018finite",
        "discounted-td",
        "eta_discounted^-2",
        lambda c, discount: ((1.0 - discount) * c.gram_min) ** -2,
    ),
)
"""The paper's table in its order, with single-chain, which the paper treats in the text."""


@dataclass(frozen=True)
class SampleComplexity:
    """What one row of the comparison table says about a problem.

    Attributes
    ----------
    reference : str
        Authors and title.
    algorithm : str
    order : str
        The order in the paper's table, 1 / epsilon left out.
    order_value : float
        1 / epsilon times it, without constants; nan where the table has none or the row does not apply.
    certified : float
        Transitions for which the theorem guarantees the error, with its constants; nan where there are none.
    in_the_end : float
        Transitions that are enough by the exact covariance of the weights; nan where it is not known.
    notes : tuple of str
        The reason for each number that is missing.
    """

    reference: str
    algorithm: str
    order: str
    order_value: float
    certified: float
    in_the_end: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SampleComplexities:
    """The comparison table for one problem: wanted error, sampling, discount and a row for each reference."""

    epsilon: float
    sampling: str
    discount: float
    condition_numbers: dict[str, float]
    rows: tuple[SampleComplexity, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values; numbers that are missing are None."""
        answer = asdict(self)
        for row in answer["rows"]:
            row.update({name: None for name, value in row.items() if value != value})
        return answer

    def __repr__(self) -> str:
        lines = [f"SampleComplexities(squared error {self.epsilon:g}, {self.sampling})"]
        lines += [
            f"  {row.algorithm:14} {row.order:17} order {_number(row.order_value):>8}  theorem "
            f"{_number(row.certified):>8}  in the end {_number(row.in_the_end):>8}"
            for row in self.rows
        ]
        return "\n".join(lines)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"


def sample_complexities(
    problem: Problem | Task, *, epsilon: float = 0.01, sampling: Sampling = "markov", discount: float = 0.99
) -> SampleComplexities:
    """Return the paper's comparison table as numbers for one problem.

    Parameters
    ----------
    problem : Problem or Task
        Process and features.
    epsilon : float
        Wanted expected squared distance of the weights from the limit of each method.
    sampling : {"markov", "iid"}
        How transitions are drawn.
    discount : float
        Of discounted TD, whose limit is different: that of discounted values.

    Returns
    -------
    SampleComplexities

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> table = gb.sample_complexities(problem, sampling="iid")
    >>> [(row.algorithm, round(row.certified), round(row.in_the_end)) for row in table.rows[7:8]]
    [('double-chain', 70552, 128)]
    >>> table.rows[3].algorithm, table.rows[3].notes[0][:60]
    ('projected-td', 'not available: of Haque and Maguluri (2025) only the abstrac')
    """
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, found {epsilon!r}")
    if not 0.0 < discount < 1.0:
        raise ValueError(f"discount must be above 0 and below 1, found {discount!r}")
    check_sampling(sampling)
    problem = problem.problem if isinstance(problem, Task) else problem
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a gb.Problem or a task, found {type(problem).__name__}")
    numbers = problem.condition_numbers
    shown = {name: float(getattr(numbers, name)) for name in ("eta1", "eta2", "eta3")}
    shown["eta_discounted"] = (1.0 - discount) * float(numbers.gram_min)
    rows = tuple(_row(row, problem, epsilon, sampling, discount) for row in COMPARISON_ROWS)
    return SampleComplexities(epsilon, sampling, discount, shown, rows)


def _row(
    row: TableRow, problem: Problem, epsilon: float, sampling: Sampling, discount: float
) -> SampleComplexity:
    refused = _refused(row, problem)
    if refused:
        return SampleComplexity(
            REFERENCES[row.reference], row.algorithm, row.words, math.nan, math.nan, math.nan, (refused,)
        )
    order = math.nan if row.order is None else float(row.order(problem.condition_numbers, discount)) / epsilon
    guaranteed, why = _certified(row, problem, epsilon, sampling, discount)
    enough, why_not = _in_the_end(row.algorithm, problem, epsilon, sampling, discount)
    notes = tuple(note for note in (why, why_not) if note)
    return SampleComplexity(
        REFERENCES[row.reference], row.algorithm, row.words, order, guaranteed, enough, notes
    )


def _refused(row: TableRow, problem: Problem) -> str:
    """Return why a row does not apply to a problem; empty if it does."""
    if row.linear_only and problem.ones_in_span:
        return "does not apply: it excludes features that span the constants"
    if row.tabular_only and problem.features.kind != "tabular":
        return "does not apply: it is for tabular features"
    return ""


def _certified(
    row: TableRow, problem: Problem, epsilon: float, sampling: Sampling, discount: float
) -> tuple[float, str]:
    """Return the transitions that a theorem certifies, or the reason why there are none."""
    if row.missing:
        return math.nan, NOT_AVAILABLE + row.missing
    try:
        if row.algorithm == "discounted-td":
            steps = certified(row.algorithm, problem, epsilon, sampling, discount=discount).num_steps
        else:
            steps = certified(row.algorithm, problem, epsilon, sampling).num_steps
    except (ValueError, ConvergenceError) as reason:
        return math.nan, f"no certificate: {reason}"
    return float(steps * ALGORITHMS[row.algorithm].chains), ""


def _in_the_end(
    name: str, problem: Problem, epsilon: float, sampling: Sampling, discount: float
) -> tuple[float, str]:
    """Return the transitions that are enough by the exact covariance, or why it is not known."""
    algorithm = ALGORITHMS[name]
    params = {"discount": discount} if name == "discounted-td" else {}
    try:
        a = 2.0 / min(slow_rates(algorithm, problem, params))
        covariance = asymptotic_covariance(
            algorithm, problem, Harmonic(a, 4.0 * a), params=params, sampling=sampling
        )
    except (ValueError, ConvergenceError) as reason:
        return math.nan, f"no exact number: {reason}"
    error = float(np.vdot(error_form(algorithm, problem), covariance))
    return error * algorithm.chains / epsilon, ""
