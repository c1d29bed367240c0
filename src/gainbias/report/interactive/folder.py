"""From the results folder of a study to its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gainbias.extras import require


def page_on(folder: str | Path, output: str | Path | None = None) -> dict[str, Any]:
    """Write the interactive page of a finished study.

    Parameters
    ----------
    folder : path
        The results folder.
    output : path, optional
        The page; by default ``report/index.html`` in the folder.

    Returns
    -------
    dict
        "page", where it is, and "bytes", how large.
    """
    require("data", "pandas", "pyarrow")
    from gainbias.experiments.results import Results
    from gainbias.report.interactive.html import PAGE, write_page
    from gainbias.report.reproduction import printed_numbers
    from gainbias.report.results import read_results
    from gainbias.report.study_tables import study_tables

    path = Path(output) if output else Path(folder) / "report" / PAGE
    if _holds_a_sweep(folder):
        from gainbias.report.sweeps.write import report_on_sweep

        report_on_sweep(Results(folder), path)
        return {"page": str(path), "bytes": path.stat().st_size}
    results, paper = read_results(folder), printed_numbers()
    write_page(results, paper, study_tables(results, paper), path)
    return {"page": str(path), "bytes": path.stat().st_size}


def _holds_a_sweep(folder: str | Path) -> bool:
    from gainbias.experiments.results import Results

    finished = (Path(folder) / "manifest.json").exists() and (Path(folder) / "study.json").exists()
    return finished and bool(Results(folder).note["kind"] == "sweep")
