"""From stored results to their page: of the paper's study, of a sweep, of claims, or of an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gainbias.extras import require
from gainbias.report.headline import CLAIMS, read_claims
from gainbias.report.interactive.claims import write_claims_page
from gainbias.report.interactive.frame import PAGE


def page_on(results: str | Path, output: str | Path | None = None) -> dict[str, Any]:
    """Write the interactive page of a finished study, or of an estimate.

    Parameters
    ----------
    results : path
        The results folder, or the file of an estimate.
    output : path, optional
        The page; by default ``report/index.html`` in the folder, ``index.html`` in that of claims, and beside
        the file of an estimate, with the ending ``.html``.

    Returns
    -------
    dict
        "page", where it is, and "bytes", how large.
    """
    folder = Path(results)
    path = Path(output) if output else folder / "report" / PAGE
    if folder.is_file() or folder.suffix == ".npz":
        from gainbias.report.interactive.estimates import write_stored_page

        path = Path(output) if output else folder.with_suffix(".html")
        write_stored_page(folder, path)
    elif (folder / CLAIMS).exists():
        path = Path(output) if output else folder / PAGE
        write_claims_page(read_claims(folder / CLAIMS), path.parent, path.name)
    else:
        require("data", "pandas", "pyarrow")
        _write_study_page(folder, path)
    return {"page": str(path), "bytes": path.stat().st_size}


def _write_study_page(folder: Path, path: Path) -> None:
    from gainbias.experiments.results import Results
    from gainbias.report.interactive.html import write_page
    from gainbias.report.reproduction import printed_numbers
    from gainbias.report.results import read_results
    from gainbias.report.study_tables import study_tables
    from gainbias.report.sweeps.write import report_on_sweep

    if _holds_a_sweep(folder):
        if not report_on_sweep(Results(folder), path):
            raise ValueError(f"every unit of the sweep in {folder} failed: there is nothing to show")
    else:
        results, paper = read_results(folder), printed_numbers()
        write_page(results, paper, study_tables(results, paper), path)


def _holds_a_sweep(folder: str | Path) -> bool:
    from gainbias.experiments.results import Results

    finished = (Path(folder) / "manifest.json").exists() and (Path(folder) / "study.json").exists()
    return finished and bool(Results(folder).note["kind"] == "sweep")
