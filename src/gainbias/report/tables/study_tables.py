"""All tables of a study, each made once."""

from __future__ import annotations

from typing import NamedTuple

from pandas import DataFrame

from gainbias.report.data.claims import CLAIMS
from gainbias.report.data.printed import Paper
from gainbias.report.data.report_summary import summary_table
from gainbias.report.data.results import Archive
from gainbias.report.data.scores import FAIR_SCORES
from gainbias.report.data.unexplained import unexplained
from gainbias.report.data.verdicts import verdict_table
from gainbias.report.tables.tables import conditions_table, distances_table, parameters_table


class StudyTables(NamedTuple):
    """The paper's three tables beside ours, the summary (empty without protocol fair), and the verdicts."""

    distances: DataFrame
    conditions: DataFrame
    parameters: DataFrame
    summary: DataFrame
    verdicts: DataFrame
    unexplained: DataFrame


def study_tables(results: Archive, paper: Paper) -> StudyTables:
    """Make all tables of a study."""
    return StudyTables(
        distances_table(results, paper),
        conditions_table(results, paper),
        parameters_table(results, paper),
        summary_table(results, FAIR_SCORES) if "fair" in results.protocols else DataFrame(),
        verdict_table(CLAIMS, results),
        unexplained(results, paper),
    )
