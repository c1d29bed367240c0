"""The page of a study."""

from __future__ import annotations

from pathlib import Path

from gainbias.report.data.printed import Paper
from gainbias.report.data.results import Archive
from gainbias.report.pages.data import chart_data
from gainbias.report.pages.frame import assembled, script_data
from gainbias.report.pages.sections import study_section, tables_section, verdicts_section, warning
from gainbias.report.tables.study_tables import StudyTables
from gainbias.store import write_whole


def write_study_page(results: Archive, paper: Paper, tables: StudyTables, path: Path) -> Path:
    """Write the interactive page of a study, and return its path."""
    write_whole(path, page_html(results, paper, tables).encode())
    return path


def page_html(results: Archive, paper: Paper, tables: StudyTables) -> str:
    """Return the interactive page of a study.

    The page may run these scripts, by their checksums, and no others; it may load nothing. So it works
    without a network, and text that got into a name cannot become a program.
    """
    return assembled(
        "page.html",
        ["chart.js", "maps.js", "page.js"],
        title="Average-reward TD learning: the study rebuilt",
        warning=warning(results.manifest),
        study=study_section(results.manifest),
        tables=tables_section(tables),
        verdicts=verdicts_section(tables, paper, results.manifest),
        data=script_data(chart_data(results, paper)),
    )
