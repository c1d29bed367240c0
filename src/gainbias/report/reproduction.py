"""The report on a reproduction of the paper's study: tables, scores, figures, verdicts and the page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pandas import DataFrame

import gainbias
from gainbias.experiments.engines import helpers
from gainbias.experiments.results import Results
from gainbias.progress import Watch
from gainbias.report.data.results import (
    FAIR_SCORES,
    PAPER_SCORES,
    Archive,
    Paper,
    printed_numbers,
    read_results,
    score_arrays,
)
from gainbias.report.figures.curves import draw_curves, draw_maps, draw_profiles
from gainbias.report.figures.style import SIZES, save_figure
from gainbias.report.pages.frame import PAGE
from gainbias.report.pages.paper_study import write_study_page
from gainbias.report.paper_tables import (
    StudyTables,
    conditions_sheet,
    distances_sheet,
    parameters_sheet,
    study_tables,
    summary_sheet,
)
from gainbias.report.text import Sheet, latex, markdown
from gainbias.report.verdicts_page import shortfalls, verdicts_page


def report_on(folder: Path) -> list[Path]:
    """Write a whole report into the folder of a reproduction, and return the paths of its files.

    Figures take longer than everything else, so separate processes draw them in the meantime, one for each
    size.
    """
    with helpers(len(SIZES)) as submit:
        figures = [submit(_draw, folder, size) for size in SIZES]
        others = write_texts(
            read_results(folder), printed_numbers(), folder / "report", findings_from(folder)
        )
        written = [*others, *(path for drawn in figures for path in drawn.result())]
    Results(folder).drop_earlier_report()
    return written


def _draw(folder: Path, size: str) -> list[Path]:
    return write_figures(read_results(folder), printed_numbers(), folder / "report" / "figures", size)


def findings_from(folder: Path) -> str:
    """Return the relative path from a report to the page of findings, if both are in one checkout.

    Otherwise the path would break when the folder is sent to others, and would reveal where the package was.
    """
    checkout = Path(gainbias.__file__).parents[2]
    page, report = checkout / "docs" / "paper.md", folder.resolve() / "report"
    return os.path.relpath(page, report) if page.exists() and report.is_relative_to(checkout) else ""


def write_texts(results: Archive, paper: Paper, folder: Path, findings: str = "") -> list[Path]:
    """Write all parts of a report except its figures: tables, verdicts and the interactive page.

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
        paths = [*write_study_tables(tables, folder / "tables", notes), _write(folder / "verdicts.md", page)]
        paths += write_scores(results, folder / "scores")
        watch.show("report: page", 1, 2)
        return [*paths, write_study_page(results, paper, tables, folder / PAGE)]


def write_study_tables(tables: StudyTables, folder: Path, notes: Sequence[str] = ()) -> list[Path]:
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
