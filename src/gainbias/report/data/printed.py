"""The numbers that the paper prints."""

from __future__ import annotations

from typing import NamedTuple

from pandas import DataFrame

from gainbias.report.data.results import MissingDataError, wide
from gainbias.report.data.scores import Score

PAPER_NAMES = {"coupled-sa": "td-lambda", "implicit": "implicit-td"}
"""What the paper's tables call algorithms, where it is not their id."""


class Paper(NamedTuple):
    """The numbers that the paper prints.

    Attributes
    ----------
    parameters : DataFrame
        Columns task, d, step_numerator, step_offset, steps, epsilon; its order of tasks is used everywhere.
    distances : DataFrame
        Columns task, algorithm, mean, std.
    condition_numbers : DataFrame
        Columns task, eta1, eta2, eta3.
    """

    parameters: DataFrame
    distances: DataFrame
    condition_numbers: DataFrame

    @property
    def tasks(self) -> list[str]:
        """Ids of the tasks in the paper's order."""
        return [str(task) for task in self.parameters["task"]]

    def final_errors(self) -> DataFrame:
        """Return the table of distances with our ids of algorithms."""
        return self.distances.assign(algorithm=self.distances["algorithm"].replace(PAPER_NAMES))


class Printed:
    """The paper's tables behind the same questions as `Archive`: one run, one score."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the printed means as one row."""
        rows = self.paper.final_errors().query("algorithm == @algorithm")
        if rows.empty or score.kind != "paper" or score.budget != "steps" or share != 1.0:
            raise MissingDataError("the paper prints no such numbers")
        return wide(rows.assign(run=0), "mean")

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a printed condition number as one row; there is one eta2, whatever its reading."""
        column = "eta2" if name == "eta2_literal" else name
        return wide(self.paper.condition_numbers.assign(run=0), column)
