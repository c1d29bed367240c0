"""From stored results to their page: of the paper's study, of a sweep, of claims, or of an estimate."""

from __future__ import annotations

from pathlib import Path

from gainbias.evaluation.estimate import Estimate
from gainbias.experiments.results import Results
from gainbias.extras import require
from gainbias.report.headline import CLAIMS, read_claims
from gainbias.report.interactive.claims import write_claims_page
from gainbias.report.interactive.frame import PAGE


def write_page(results: Estimate | Results | str | Path, output: str | Path | None = None) -> Path:
    """Write an interactive page, one HTML file that needs no server and no network.

    Parameters
    ----------
    results : Estimate, Results or path
        What to show: an estimate, or the file in which it is stored; or the results folder of a reproduction,
        a sweep or claims.
    output : path, optional
        The page; by default ``report/index.html`` in the folder, ``index.html`` in that of claims, and beside
        the file of an estimate, with the ending ``.html``. An estimate that is in no file needs one.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=5_000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gb.write_page(estimate, f"{folder}/lake.html").name
    'lake.html'
    """
    from gainbias.report.interactive.estimates import write_estimate_page, write_stored_page

    if isinstance(results, Estimate):
        if output is None:
            raise ValueError("say where the page goes: write_page(estimate, 'page.html')")
        write_estimate_page(results, Path(output), {})
        return Path(output)
    folder = results.folder if isinstance(results, Results) else Path(results)
    if folder.is_file() or folder.suffix == ".npz":
        path = Path(output or folder.with_suffix(".html"))
        write_stored_page(folder, path)
    elif (folder / CLAIMS).exists():
        path = Path(output or folder / PAGE)
        write_claims_page(read_claims(folder / CLAIMS), folder / CLAIMS, path)
    else:
        require("data", "pandas", "pyarrow")
        path = Path(output or folder / "report" / PAGE)
        _write_folder_page(folder, path)
    return path


def _write_folder_page(folder: Path, path: Path) -> None:
    from gainbias.report.interactive.html import write_study_page
    from gainbias.report.reproduction import printed_numbers
    from gainbias.report.results import read_results
    from gainbias.report.study_tables import study_tables
    from gainbias.report.sweeps.write import report_on_sweep

    if _holds_a_sweep(folder):
        if not report_on_sweep(Results(folder), path):
            raise ValueError(f"every unit of the sweep in {folder} failed: there is nothing to show")
    else:
        results, paper = read_results(folder), printed_numbers()
        write_study_page(results, paper, study_tables(results, paper), path)


def _holds_a_sweep(folder: str | Path) -> bool:
    finished = (Path(folder) / "manifest.json").exists() and (Path(folder) / "study.json").exists()
    return finished and bool(Results(folder).note["kind"] == "sweep")
