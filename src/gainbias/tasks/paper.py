"""What the paper says about its tasks: the numbers that it prints, as they are printed, and its features."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from gainbias.features import as_features, normalise_features
from gainbias.model.problem import projector
from gainbias.model.solve.solution import Solution
from gainbias.notebook import InNotebooks
from gainbias.types import Floats, is_integer

PAPER_CITATION = (
    "Tian, Chen, Paschalidis, Olshevsky: Bridging the Gap Between Average and Discounted TD Learning, "
    "section on numerical results"
)


@dataclass(frozen=True)
class PaperNumbers(InNotebooks):
    """What the paper prints for one task.

    Attributes
    ----------
    num_features : int
        Number of features d.
    num_steps : int
        Steps T of each run.
    step_numerator, step_offset : float
        The step sizes are step_numerator / (t + step_offset).
    epsilon : float or None
        Strength of the smoothing (see `ergodic`), None where there is none.
    condition_numbers : mapping of str to float
        "eta1", "eta2" and "eta3".
    distances : mapping of str to (float, float)
        Mean and standard deviation of the last error over three runs, by algorithm. The paper's column for
        coupled stochastic approximation is "td-lambda" (with trace decay 0).

    Examples
    --------
    >>> import gainbias as gb
    >>> numbers = gb.TASKS["taxi"].paper
    >>> numbers.num_features, numbers.condition_numbers["eta1"], numbers.distances["single-chain"]
    (100, 0.000229, (5.9, 0.38))
    """

    num_features: int
    num_steps: int
    step_numerator: float
    step_offset: float
    epsilon: float | None
    condition_numbers: Mapping[str, float]
    distances: Mapping[str, tuple[float, float]]


@cache
def paper_numbers() -> Mapping[str, PaperNumbers]:
    """Return what the paper prints for its tasks, by id, in the paper's order.

    Examples
    --------
    >>> len(paper_numbers())
    15
    """
    etas = {row.pop("task"): row for row in _rows("condition_numbers")}
    distances: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in etas}
    for row in _rows("distances"):
        distances[row["task"]][row["algorithm"]] = (float(row["mean"]), float(row["std"]))
    return MappingProxyType(
        {
            row["task"]: PaperNumbers(
                num_features=int(row["d"]),
                num_steps=int(row["steps"]),
                step_numerator=float(row["step_numerator"]),
                step_offset=float(row["step_offset"]),
                epsilon=float(row["epsilon"]) if row["epsilon"] else None,
                condition_numbers={eta: float(value) for eta, value in etas[row["task"]].items()},
                distances=distances[row["task"]],
            )
            for row in _rows("parameters")
        }
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("gainbias.tasks").joinpath("data", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


Normalisation: TypeAlias = Literal["literal", "per-row"]
RngLike: TypeAlias = "int | np.random.SeedSequence | np.random.Generator | None"

FEATURE_TRIES = 100
"""How many matrices are drawn before giving up."""

SCALES: dict[str, Literal["global", "row"]] = {"literal": "global", "per-row": "row"}


def bernoulli_features(
    solution: Solution,
    num_features: int,
    *,
    normalisation: Normalisation = "literal",
    rng: RngLike = None,
) -> Floats:
    """Draw features as the paper does: d - 2 random columns of zeros and ones, the ones, and the bias.

    The columns are redrawn until they are linearly independent, at most 100 times.

    Parameters
    ----------
    solution : Solution
        Its bias is the last column before scaling. It must not be 0, as it is for equal rewards.
    num_features : int
        Number of columns d, at least 2 and at most the number of states.
    normalisation : {"literal", "per-row"}
        ``"literal"`` divides the matrix by its largest row norm, which is what the paper's text says and
        keeps the ones and the bias in the span. ``"per-row"`` divides each row by its own norm, which fits
        the paper's numbers better and takes both out of the span.
    rng : int, SeedSequence, Generator or None
        Where the random columns come from.

    Returns
    -------
    ndarray, shape (n, d)

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]], [1.0, 0.0, 0.0])
    >>> solution = gb.solve(process)
    >>> features = gb.bernoulli_features(solution, 3, rng=0)
    >>> features.shape, gb.Problem(process, features).ones_in_span
    ((3, 3), True)
    """
    bias = solution.bias
    num_features = _checked(num_features, bias.size)
    if normalisation not in SCALES:
        raise ValueError(f"normalisation must be 'literal' or 'per-row', found {normalisation!r}")
    if np.ptp(bias) == 0.0 or np.ptp(solution.mrp.rewards) == 0.0:
        raise ValueError(
            "the bias is 0 because every state has the same reward, and a column of zeros is not a feature: "
            "choose features that do not contain the bias"
        )
    generator = np.random.default_rng(rng)
    for _ in range(FEATURE_TRIES):
        random = generator.integers(0, 2, (bias.size, num_features - 2))
        columns = np.column_stack([random, np.ones(bias.size), bias])
        if _is_independent(columns):
            return np.asarray(normalise_features(columns, by=SCALES[normalisation]))
    raise ValueError(
        f"{FEATURE_TRIES} draws gave no {num_features} linearly independent columns for {bias.size} states: "
        "ask for fewer features"
    )


def _checked(num_features: Any, num_states: int) -> int:
    if not is_integer(num_features) or not 2 <= num_features <= num_states:
        raise ValueError(
            f"num_features must be an integer between 2, the ones and the bias, and {num_states}, the number "
            f"of states, found {num_features!r}"
        )
    return int(num_features)


def _is_independent(columns: Floats) -> bool:
    """Whether `gb.Problem` would take the columns."""
    try:
        projector(as_features(columns))
    except ValueError:
        return False
    return True
