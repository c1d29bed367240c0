"""All files of a report on the paper's study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pandas import DataFrame

from gainbias.progress import Watch
from gainbias.report.data.printed import Paper
from gainbias.report.data.report_summary import draw_profiles, score_arrays, summary_sheet
from gainbias.report.data.results import Archive
from gainbias.report.data.scores import FAIR_SCORES, PAPER_SCORES
from gainbias.report.figures.curves import draw_curves
from gainbias.report.figures.maps import draw_maps
from gainbias.report.figures.style import SIZES, save_figure
from gainbias.report.pages.frame import PAGE
from gainbias.report.pages.html import write_study_page
from gainbias.report.tables.layout import Sheet, latex, markdown
from gainbias.report.tables.page import verdicts_page
from gainbias.report.tables.sheets import conditions_sheet, distances_sheet, parameters_sheet
from gainbias.report.tables.study import shortfalls
from gainbias.report.tables.study_tables import StudyTables, study_tables


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
