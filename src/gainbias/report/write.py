"""`write_page`: the interactive page of an estimate, of a series, or of a results folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gainbias.evaluation.estimate import Estimate
from gainbias.evaluation.series_estimate import GroupedSeries, SeriesEstimate
from gainbias.evaluation.storage import load_to_show
from gainbias.experiments.results import Results
from gainbias.extras import require
from gainbias.report.claims import CLAIMS_FILE, read_claims, write_claims_page
from gainbias.report.pages.estimate import write_estimate_page
from gainbias.report.pages.frame import PAGE, clock
from gainbias.report.pages.series import write_series_page
from gainbias.store import check_free

Answer = Estimate | SeriesEstimate | GroupedSeries


def write_page(
    results: Answer | Results | str | Path, output: str | Path | None = None, overwrite: bool = False
) -> Path:
    """Write an interactive page, one HTML file that needs no server and no network.

    Parameters
    ----------
    results : Estimate, SeriesEstimate, GroupedSeries, Results or path
        What to show: an estimate or a series, or the file in which it is stored; several series by group; or
        the results folder of a reproduction, a sweep or claims.
    output : path, optional
        The page; by default ``report/index.html`` in the folder, ``index.html`` in that of claims, and beside
        the file of an estimate, with the ending ``.html``. Needed for an estimate that is not in a file.
        Missing folders are made.
    overwrite : bool
        Whether an existing file may be replaced. The page in a results folder always is, since it is made
        from that folder.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If there is a file already and it may not be replaced, or there is nothing to show.

    Examples
    --------
    >>> import tempfile
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=5_000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gb.write_page(estimate, f"{folder}/lake.html").name
    'lake.html'
    """
    if isinstance(results, Answer):
        if output is None:
            raise ValueError("say where the page goes: write_page(estimate, 'page.html')")
        check_free(Path(output), overwrite)
        write_page_of(results, Path(output), {})
        return Path(output)
    folder = results.folder if isinstance(results, Results) else Path(results)
    path, own = page_path(folder, output), output is None and not _is_file(folder)
    if path.resolve() != folder.resolve():  # which has its own message
        check_free(path, overwrite or own)
    if _is_file(folder):
        _write_stored_page(folder, path)
    elif (folder / CLAIMS_FILE).exists():
        write_claims_page(read_claims(folder / CLAIMS_FILE), folder / CLAIMS_FILE, path)
    else:
        require("pandas", "pyarrow")
        _write_folder_page(folder, path)
    return path


def write_page_of(estimate: Answer, path: Path, made: Mapping[str, str], subject: str = "") -> None:
    """Write the page of an estimate of a subject, or of series; ``made`` says how they came about."""
    if isinstance(estimate, Estimate):
        write_estimate_page(estimate, path, made, subject)
    else:
        write_series_page(estimate, path, made, subject)


def _write_stored_page(source: Path, path: Path) -> None:
    """Write the page of an estimate that is stored in a file, which it must not replace."""
    estimate = load_to_show(source)
    if path.resolve() == source.resolve():
        raise ValueError(f"the page would replace the estimate in {source}: name another file")
    written = clock(source.stat().st_mtime)
    write_page_of(estimate, path, {"Estimate": f"{source.name}, written {written}"}, source.name)


def page_path(results: Results | str | Path, output: str | Path | None = None) -> Path:
    """Return where `write_page` writes the page of something that is stored."""
    folder = results.folder if isinstance(results, Results) else Path(results)
    if output is not None:
        return Path(output)
    if _is_file(folder):
        return folder.with_suffix(".html")
    return folder / PAGE if (folder / CLAIMS_FILE).exists() else folder / "report" / PAGE


def _is_file(stored: Path) -> bool:
    return stored.is_file() or stored.suffix == ".npz"


def _write_folder_page(folder: Path, path: Path) -> None:
    """Write the page of a sweep or of a reproduction; only these need pandas."""
    from gainbias.report.data.results import printed_numbers, read_results
    from gainbias.report.pages.paper_study import write_study_page
    from gainbias.report.paper_tables import study_tables
    from gainbias.report.sweep import report_on_sweep

    if _holds_a_sweep(folder):
        if not report_on_sweep(Results(folder), path):
            raise ValueError(f"every unit of the sweep in {folder} failed: there is nothing to show")
    else:
        results, paper = read_results(folder), printed_numbers()
        write_study_page(results, paper, study_tables(results, paper), path)


def _holds_a_sweep(folder: str | Path) -> bool:
    finished = (Path(folder) / "manifest.json").exists() and (Path(folder) / "study.json").exists()
    return finished and bool(Results(folder).note["kind"] == "sweep")
