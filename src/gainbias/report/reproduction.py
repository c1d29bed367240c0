"""The report on a reproduction of the paper's study, from its results folder."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import gainbias
from gainbias.experiments.engines import helpers
from gainbias.experiments.results import Results
from gainbias.report.data.printed import Paper
from gainbias.report.data.results import read_results
from gainbias.report.figures.style import SIZES
from gainbias.report.write import write_figures, write_texts


def report_on(folder: Path) -> list[Path]:
    """Write all of a report into the folder of a reproduction, and return the paths of its files.

    Figures take longer than all the rest, so processes of their own draw them meanwhile, one for each size.
    """
    with helpers(len(SIZES)) as processes:
        figures = [processes.submit(_draw, folder, size) for size in SIZES]
        others = write_texts(
            read_results(folder), printed_numbers(), folder / "report", findings_from(folder)
        )
        written = [*others, *(path for drawn in figures for path in drawn.result())]
    Results(folder).drop_earlier_report()
    return written


def _draw(folder: Path, size: str) -> list[Path]:
    return write_figures(read_results(folder), printed_numbers(), folder / "report" / "figures", size)


def findings_from(folder: Path) -> str:
    """Return the way from the report to the page of findings, if both are in one checkout.

    From elsewhere the way would break when the folder is sent on, and tell where the package was.
    """
    checkout = Path(gainbias.__file__).parents[2]
    page, report = checkout / "docs" / "paper.md", folder.resolve() / "report"
    return os.path.relpath(page, report) if page.exists() and report.is_relative_to(checkout) else ""


def printed_numbers() -> Paper:
    """Return the numbers of the paper's tables.

    Examples
    --------
    >>> len(printed_numbers().parameters)
    15
    """
    import pandas

    data = resources.files("gainbias.tasks") / "data"
    tables = {}
    for name in ("parameters", "distances", "condition_numbers"):
        with resources.as_file(data / f"{name}.csv") as path:
            tables[name] = pandas.read_csv(path)
    return Paper(**tables)
