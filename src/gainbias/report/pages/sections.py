"""Parts of the page that are there without a script: tables, verdicts and what was run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from pandas import DataFrame

from gainbias.report.data.claims import CLAIMS, Claim
from gainbias.report.data.printed import Paper
from gainbias.report.data.report_summary import summary_sheet
from gainbias.report.data.verdicts import SCORES, with_caveat
from gainbias.report.pages.elements import (
    Entry,
    badge,
    definitions,
    emphasised,
    framed_table,
    paragraph,
    sortable_table,
)
from gainbias.report.pages.grids import (
    Grid,
    conditions_grid,
    distances_grid,
    parameters_grid,
    rows_of_tasks_run,
    summary_grid,
)
from gainbias.report.tables.layout import Sheet
from gainbias.report.tables.page import (
    ALL_EXPLAINED,
    HOW_TO_READ,
    ONLY_CONDITIONS,
    in_the_paper,
    unexplained_sheet,
    verdict_header,
    verdict_texts,
)
from gainbias.report.tables.sheets import FIRST_INSTANCES
from gainbias.report.tables.study import shortfalls, study_facts
from gainbias.report.tables.study_tables import StudyTables


def tables_section(tables: StudyTables) -> str:
    """Return all sortable tables, the best known first."""
    grids = []
    for table, lay_out in (
        (tables.distances, distances_grid),
        (tables.conditions, conditions_grid),
        (tables.parameters, parameters_grid),
    ):
        kept = rows_of_tasks_run(table) if len(table) else table
        notes = ["Tasks that were not run are left out."] * (len(kept) < len(table))
        for protocol in kept["protocol"].unique() if len(kept) else []:
            grid = lay_out(kept, protocol)
            grids.append(grid._replace(notes=[*grid.notes, *notes]))
    if len(tables.summary):
        sheet = summary_sheet(tables.summary)
        grids.append(summary_grid(tables.summary, sheet.header, sheet.notes))
    if not grids:
        return paragraph("The stored runs hold no protocol that the paper's tables are rebuilt under.")
    return "\n".join(_figure(grid) for grid in grids)


def _figure(grid: Grid) -> str:
    notes = "".join(paragraph(note) for note in grid.notes)
    return (
        f'<figure class="grid" data-table="{escape(grid.name)}" data-protocol="{escape(grid.protocol)}">'
        f"{sortable_table(grid.title, grid.header, grid.rows)}<figcaption>{notes}</figcaption></figure>"
    )


def _plain_table(sheet: Sheet) -> str:
    rows = [[Entry(cell.text) for cell in row] for group in sheet.groups for row in group]
    return sortable_table(sheet.caption, sheet.header, rows) + "".join(
        paragraph(note) for note in sheet.notes
    )


def verdicts_section(tables: StudyTables, paper: Paper, manifest: Mapping[str, Any]) -> str:
    """Return how often each claim of the paper held, in short and claim by claim."""
    verdicts = tables.verdicts
    parts = [_overview(verdicts, paper), "<h3>Claim by claim</h3>"]
    parts += [_claim(claim, verdicts[verdicts["claim"] == claim.name], paper) for claim in CLAIMS]
    parts.append("<h3>Printed numbers that no choice explains</h3>")
    if manifest["shorten"] != 1:
        parts.append(paragraph(ONLY_CONDITIONS))
    found = tables.unexplained
    parts.append(paragraph(ALL_EXPLAINED) if found.empty else _plain_table(unexplained_sheet(found)))
    return "\n".join([*parts, _how_to_read()])


def _overview(verdicts: DataFrame, paper: Paper) -> str:
    found = {(row.claim, row.score): row for row in verdicts.itertuples()}
    scores = [score for score in (*SCORES, "fair") if (verdicts["score"] == score).any()]
    rows = []
    for claim in CLAIMS:
        link = f'<a href="#view=verdicts&amp;claim={claim.name}">{escape(claim.text)}</a>'
        cells = "".join(_verdict_cell(found.get((claim.name, score))) for score in scores)
        rows.append(f'<th scope="row">{link}</th><td>{escape(in_the_paper(claim, paper))}</td>{cells}')
    titles = ["fair, no metric" if name == "fair" else name for name in scores]
    header = ["Claim", "The paper's table", *titles]
    return framed_table("overview", "In how many runs each claim held", header, rows)


def _verdict_cell(row: Any) -> str:
    if row is None:
        return "<td>-</td>"
    return f"<td>{badge(row.word)} {escape(with_caveat(f'{row.held} of {row.of}', row.caveat))}</td>"


def _claim(claim: Claim, verdicts: DataFrame, paper: Paper) -> str:
    numbers = ", ".join(name.removeprefix("finding-") for name in claim.findings)
    parts = [paragraph(f"{claim.where}. Findings: {numbers}.")]
    if claim.about == "conditions":
        parts.append(paragraph(FIRST_INSTANCES))
    printed = in_the_paper(claim, paper)
    if printed != "-":
        parts.append(paragraph(f"By the paper's own tables: in {printed}."))
    if verdicts.empty:
        parts.append(paragraph("The stored runs do not hold what it takes to judge this."))
    else:
        rows = [_verdict_row(row) for row in verdicts.itertuples()]
        parts.append(framed_table("reasons", claim.text, verdict_header(claim), rows))
    summary = f"<summary>{escape(claim.text)}</summary>"
    return f'<details class="claim" data-claim="{claim.name}">{summary}{"".join(parts)}</details>'


def _verdict_row(row: Any) -> str:
    score, word, *others = verdict_texts(row)
    cells = "".join(f"<td>{escape(text)}</td>" for text in others)
    said = badge(row.word) + escape(word.removeprefix(row.word))
    return f'<th scope="row">{escape(score)}</th><td>{said}</td>{cells}'


def _how_to_read() -> str:
    """Return the words of the page of verdicts, whose Markdown is a heading and a list."""
    heading, *items = re.split(r"\n+- ", HOW_TO_READ)
    lines = "".join(f"<li>{emphasised(' '.join(item.split()))}</li>" for item in items)
    return f"<h3>{escape(heading.removeprefix('## '))}</h3><ul>{lines}</ul>"


def study_section(manifest: Mapping[str, Any]) -> str:
    """Return what was run, and the whole manifest."""
    whole = escape(json.dumps(manifest, indent=1, ensure_ascii=False))
    return (
        f"{definitions(study_facts(manifest))}<details><summary>The whole manifest, with the fingerprint of "
        f'every instance</summary><pre tabindex="0">{whole}</pre></details>'
    )


def warning(manifest: Mapping[str, Any]) -> str:
    """Return what must be said first of a study that is not the paper's; empty if there is nothing."""
    texts = [escape(str(manifest["outdated"]))] if "outdated" in manifest else []
    texts += [emphasised(text) for text in shortfalls(manifest)]
    return "".join(f'<p class="warning" role="note">{text}</p>' for text in texts)
