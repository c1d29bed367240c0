"""The numbers that the paper prints for its tasks, as they are printed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

PAPER = (
    "Tian, Chen, Paschalidis, Olshevsky: Bridging the Gap Between Average and Discounted TD Learning, "
    "section on numerical results"
)


@dataclass(frozen=True)
class PaperNumbers:
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
    """Return the numbers of all tasks, by id, in the paper's order.

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
