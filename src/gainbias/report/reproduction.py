"""The report on a reproduction of the paper's study, from its results folder."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from gainbias.report.printed import Paper
from gainbias.report.results import read_results
from gainbias.report.write import write_report


def report_on(folder: Path) -> list[Path]:
    """Write tables, figures and verdicts into the folder of a reproduction, and return their paths."""
    return write_report(read_results(folder), printed_numbers(), folder / "report")


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
