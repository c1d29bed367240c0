"""All files of a report on the paper's study.

The report on a reproduction of the paper's study, from its results folder.

All files of a report on a sweep.

From stored results to their page: of the paper's study, of a sweep, of claims, or of an estimate.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pandas import DataFrame

import gainbias
from gainbias.evaluation.estimate import Estimate
from gainbias.experiments.engines import helpers
from gainbias.experiments.results import Results, disk_full_in_words
from gainbias.experiments.study import Study
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.report.data.results import (
    FAIR_SCORES,
    PAPER_SCORES,
    Archive,
    Paper,
    read_manifest,
    read_results,
)
from gainbias.report.data.summary import draw_profiles, score_arrays, summary_sheet
from gainbias.report.data.sweeps import Summary, best_sheet, best_steps, common_schedule
from gainbias.report.figures.study import draw_curves, draw_maps
from gainbias.report.figures.style import SIZES, save_figure
from gainbias.report.figures.sweeps import write_sweep_figures
from gainbias.report.pages.claims import CLAIMS_FILE, read_claims, write_claims_page
from gainbias.report.pages.frame import PAGE
from gainbias.report.pages.study import write_study_page
from gainbias.report.pages.sweep import sweep_page
from gainbias.report.tables.findings import shortfalls, verdicts_page
from gainbias.report.tables.layout import Sheet, latex, markdown
from gainbias.report.tables.paper import (
    StudyTables,
    conditions_sheet,
    distances_sheet,
    parameters_sheet,
    study_tables,
)
from gainbias.store import check_free, write_whole


def write_texts(results: Archive, paper: Paper, folder: Path, findings: str = "") -> list[Path]:
    """Write all of a report but its figures: tables, verdicts and the interactive page.

    Parameters
    ----------
    results : Archive
        Of `read_results`.
    paper : Paper
        The printed numbers.
    folder : path
        Files go to ``tables/`` and ``scores/`` below it, and to ``verdicts.md`` and ``index.html``.
    findings : str
        Address of the page of findings about the paper, for links.

    Returns
    -------
    list of Path
        All files, in the order in which they were written.
    """
    with Watch() as watch:
        watch.show("report: tables", 0, 2)
        tables = study_tables(results, paper)
        page = verdicts_page(tables.verdicts, tables.unexplained, paper, results.manifest, findings)
        notes = shortfalls(results.manifest)
        paths = [*write_tables(tables, folder / "tables", notes), _write(folder / "verdicts.md", page)]
        paths += write_scores(results, folder / "scores")
        watch.show("report: page", 1, 2)
        return [*paths, write_study_page(results, paper, tables, folder / PAGE)]


def write_tables(tables: StudyTables, folder: Path, notes: Sequence[str] = ()) -> list[Path]:
    """Write all tables as CSV; the paper's three and the summary also as Markdown and LaTeX, with notes."""
    paths = [
        _write_csv(folder / "verdicts.csv", tables.verdicts),
        _write_csv(folder / "unexplained.csv", tables.unexplained),
    ]
    for name, (table, lay_out) in {
        "distances": (tables.distances, distances_sheet),
        "condition-numbers": (tables.conditions, conditions_sheet),
        "parameters": (tables.parameters, parameters_sheet),
    }.items():
        paths.append(_write_csv(folder / f"{name}.csv", table))
        for protocol in table["protocol"].unique() if len(table) else ():
            paths += _write_sheet(folder, lay_out(table, protocol), notes)
    if len(tables.summary):
        paths.append(_write_csv(folder / "summary.csv", tables.summary))
        paths += _write_sheet(folder, summary_sheet(tables.summary), notes)
    return paths


def write_scores(results: Archive, folder: Path) -> list[Path]:
    """Write the last errors under each score as (runs, tasks) arrays by algorithm, for users of rliable."""
    paths = []
    for name, score in (PAPER_SCORES | FAIR_SCORES).items():
        if score.protocol not in results.protocols:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(folder / f"{_file_name(name)}.npz")
        np.savez(paths[-1], allow_pickle=False, **score_arrays(results, score))
    return paths


def write_figures(results: Archive, paper: Paper, folder: Path, size: str) -> list[Path]:
    """Write the learning curves of each protocol, and the profiles and the maps of the fair one.

    Those of a size go to a folder of that name.
    """
    paths = []
    for name, score in (PAPER_SCORES | {"fair": FAIR_SCORES["fair, quotient"]}).items():
        if score.protocol not in results.protocols:
            continue
        for axis in ("steps", "transitions") if name == "fair" else ("steps",):
            figure = draw_curves(results, score, paper, axis, size)
            paths += save_figure(figure, folder / size / f"curves-{name}-{axis}", SIZES[size])
    if "fair" in results.protocols:
        drawn = {
            "profiles": draw_profiles(results, FAIR_SCORES, size),
            "maps-fair": draw_maps(results, "fair", size),
        }
        for name, drawing in drawn.items():
            paths += save_figure(drawing, folder / size / name, SIZES[size]) if drawing else []
    return paths


def _file_name(score: str) -> str:
    return score.replace(", ", "-")


def _write_sheet(folder: Path, sheet: Sheet, notes: Sequence[str]) -> list[Path]:
    sheet = sheet._replace(notes=[*(note.replace("*", "") for note in notes), *sheet.notes])
    texts = {"md": markdown(sheet), "tex": latex(sheet)}
    return [_write(folder / f"{sheet.name}.{ending}", text + "\n") for ending, text in texts.items()]


def _write_csv(path: Path, table: DataFrame) -> Path:
    return _write(path, table.to_csv(index=False))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


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


def report_on_sweep(results: Results, page: Path | None = None) -> dict[str, str]:
    """Write tables, figures and the interactive page of a finished sweep, and return where they are.

    Figures are left out where matplotlib is not installed. A sweep of which every unit failed has no report.

    Parameters
    ----------
    results : Results
        The folder; files go to ``report/`` below it.
    page : path, optional
        Where to write the page alone.

    Raises
    ------
    ValueError
        If a file is damaged, or another version wrote it.
    """
    manifest = read_manifest(results.folder / "manifest.json")
    table = results.folder / "runs.parquet"
    if not table.exists():
        return {}
    with Watch() as watch, disk_full_in_words(results.folder):
        watch.show("report: means and intervals", 0, 3)
        summary = _read(table, Study.from_dict(manifest["description"]).layout.optional)
        points, best = summary.points, best_steps(summary)
        html = sweep_page(points, best, manifest).encode()
        if page is not None:
            write_whole(page, html)
            return {"page": str(page)}
        folder = results.folder / "report"
        write_whole(folder / PAGE, html)
        watch.show("report: tables", 1, 3)
        sheets = [best_sheet(best, metric) for metric in points["metric"].unique()]
        for ending, lay_out in (("md", markdown), ("tex", latex)):
            text = "\n\n".join(map(lay_out, sheets))
            write_whole(folder / f"best-steps.{ending}", f"{text}\n".encode())
        write_whole(folder / "best-steps.csv", best.to_csv(index=False).encode())
        write_whole(folder / "summary.csv", points.to_csv(index=False).encode())
        written = {"page": folder / PAGE, "best steps": folder / "best-steps.md", "table": table}
        if find_spec("matplotlib"):
            watch.show("report: figures", 2, 3)
            write_sweep_figures(points, best, common_schedule(points), folder / "figures")
            written["figures"] = folder / "figures"
        results.drop_earlier_report()
    return {name: str(path) for name, path in written.items()}


def _read(table: Path, params: Sequence[str]) -> Summary:
    try:
        return Summary(table, params)
    except (ValueError, OSError, KeyError) as error:  # of which pyarrow's are
        raise ValueError(f"{table} is damaged: write it again with --resume") from error


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


def write_page(
    results: Estimate | Results | str | Path, output: str | Path | None = None, overwrite: bool = False
) -> Path:
    """Write an interactive page, one HTML file that needs no server and no network.

    Parameters
    ----------
    results : Estimate, Results or path
        What to show: an estimate, or the file in which it is stored; or the results folder of a reproduction,
        a sweep or claims.
    output : path, optional
        The page; by default ``report/index.html`` in the folder, ``index.html`` in that of claims, and beside
        the file of an estimate, with the ending ``.html``. An estimate that is in no file needs one. Folders
        that are missing are made.
    overwrite : bool
        Whether a file that is there may be replaced. The page in a results folder always is: it is made of
        what the folder holds.

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
    from gainbias.report.pages.estimate import write_estimate_page, write_stored_page

    if isinstance(results, Estimate):
        if output is None:
            raise ValueError("say where the page goes: write_page(estimate, 'page.html')")
        check_free(Path(output), overwrite)
        write_estimate_page(results, Path(output), {})
        return Path(output)
    folder = results.folder if isinstance(results, Results) else Path(results)
    path, own = page_path(folder, output), output is None and not _is_file(folder)
    if path.resolve() != folder.resolve():  # which has a message of its own
        check_free(path, overwrite or own)
    if _is_file(folder):
        write_stored_page(folder, path)
    elif (folder / CLAIMS_FILE).exists():
        write_claims_page(read_claims(folder / CLAIMS_FILE), folder / CLAIMS_FILE, path)
    else:
        require("data", "pandas", "pyarrow")
        _write_folder_page(folder, path)
    return path


def _write_folder_page(folder: Path, path: Path) -> None:
    from gainbias.report.data.results import read_results
    from gainbias.report.pages.study import write_study_page
    from gainbias.report.tables.paper import study_tables

    if _holds_a_sweep(folder):
        if not report_on_sweep(Results(folder), path):
            raise ValueError(f"every unit of the sweep in {folder} failed: there is nothing to show")
    else:
        results, paper = read_results(folder), printed_numbers()
        write_study_page(results, paper, study_tables(results, paper), path)


def _holds_a_sweep(folder: str | Path) -> bool:
    finished = (Path(folder) / "manifest.json").exists() and (Path(folder) / "study.json").exists()
    return finished and bool(Results(folder).note["kind"] == "sweep")
