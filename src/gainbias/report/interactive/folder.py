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
    from gainbias.report.interactive.html import PAGE, write_page
    from gainbias.report.reproduction import printed_numbers
    from gainbias.report.results import read_results
    from gainbias.report.study_tables import study_tables

    results, paper = read_results(folder), printed_numbers()
    path = Path(output) if output else Path(folder) / "report" / PAGE
    write_page(results, paper, study_tables(results, paper), path)
    return {"page": str(path), "bytes": path.stat().st_size}
