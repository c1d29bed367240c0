"""The page of the paper's study: learning curves, maps, sortable tables, verdicts, and what was run.

`page_html` puts the page together. Its sections can be read without scripts; `chart_data` returns what
scripts draw, as plain numbers.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from gainbias.evaluation.estimate import as_precise
from gainbias.experiments.reproduce import in_method_order, method_title
from gainbias.experiments.runner import counted
from gainbias.experiments.statistics import tail_of
from gainbias.report.data.results import (
    FLOOR_ALGORITHM,
    PAPER_SCORES,
    STUDIED,
    Archive,
    Paper,
    Score,
    refuse_gaps,
)
from gainbias.report.data.study_claims import STUDY_CLAIMS, StudyClaim
from gainbias.report.data.verdicts import COUNTS_CONSTANT, OUR_CONSTANTS
from gainbias.report.figures.style import look_of
from gainbias.report.pages.frame import (
    MOST_CURVE_POINTS,
    Entry,
    assembled,
    badge,
    chart_look,
    definitions,
    emphasised,
    framed_table,
    paragraph,
    script_data,
    short,
    sortable_table,
    thinned,
    typeset,
)
from gainbias.report.paper_tables import (
    CONDITION_TITLES,
    FIRST_INSTANCES,
    PROTOCOL_NOTES,
    SCORE_NOTE,
    StudyTables,
    best_of,
    summary_sheet,
)
from gainbias.report.text import Sheet, range_text, ratio_text, spread_text
from gainbias.report.verdicts_page import (
    ALL_EXPLAINED,
    HOW_TO_READ,
    ONLY_CONDITIONS,
    WHAT_COUNTS,
    headline,
    in_the_paper,
    shortfalls,
    study_facts,
    unexplained_sheet,
    verdict_header,
    verdict_texts,
)
from gainbias.store import write_whole
from gainbias.tasks.registry import task_title


def write_study_page(results: Archive, paper: Paper, tables: StudyTables, path: Path) -> Path:
    """Write the interactive page of a study, and return its path."""
    write_whole(path, page_html(results, paper, tables).encode())
    return path


def page_html(results: Archive, paper: Paper, tables: StudyTables) -> str:
    """Return the interactive page of a study.

    The page may run these scripts, by their checksums, and no others; it may load nothing. So it works
    without a network, and text in a name can never run as a program.
    """
    return assembled(
        "page.html",
        ["chart.js", "maps.js", "page.js"],
        title="Average-reward TD learning: the study rebuilt",
        warning=warning(results.manifest),
        headline=f'<p class="answer">{escape(headline(tables.verdicts, results.manifest))}</p>',
        study=study_section(results.manifest),
        tables=tables_section(tables, is_comparable(results.manifest)),
        verdicts=verdicts_section(tables, paper, results.manifest),
        data=script_data(chart_data(results, paper)),
    )


def warning(manifest: Mapping[str, Any]) -> str:
    """Return what must be said first about a study that is not the paper's; empty if nothing."""
    texts = [escape(str(manifest["outdated"]))] if "outdated" in manifest else []
    texts += [emphasised(text) for text in shortfalls(manifest)]
    said = "".join(f"<p>{text}</p>" for text in texts)
    return f'<div class="warning" role="note">{said}</div>' if said else ""


def is_comparable(manifest: Mapping[str, Any]) -> bool:
    """Return whether errors may be compared with the paper's, which come from runs of full length."""
    return bool(manifest["shorten"] == 1)


def study_section(manifest: Mapping[str, Any]) -> str:
    """Return what was run, and the whole manifest."""
    whole = escape(json.dumps(manifest, indent=1, ensure_ascii=False))
    return (
        f"{definitions(study_facts(manifest))}<details><summary>The whole manifest, with the fingerprint of "
        f'every instance</summary><pre tabindex="0">{whole}</pre></details>'
    )


class Grid(NamedTuple):
    """A sortable table: its subject, the protocol that it belongs to, its rows and its notes."""

    name: str
    protocol: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str] = ()


COMPARED = ("Ours", "Paper", "Ours / paper", "Our runs below the paper's")
COMPARED_NOTE = (
    "Ours: mean ± standard deviation over runs. Our runs below the paper's: how many of our runs are below "
    "the printed value, runs equal to it as printed counted half."
)
FEWEST_FOR_BOLD = 5
BOLD_NOTE = (
    f"Bold: the smallest mean of its task, as printed, of {FEWEST_FOR_BOLD} or more runs; other methods "
    "may be as good."
)


def tables_section(tables: StudyTables, comparable: bool = True) -> str:
    """Return all sortable tables, the most important first; errors beside the paper's if they compare."""
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
            if grid.name == "distances" and not comparable:
                grid = without_comparison(grid)
            grids.append(grid._replace(notes=[*grid.notes, *notes]))
    if len(tables.summary):
        sheet = summary_sheet(tables.summary)
        grids.append(summary_grid(tables.summary, sheet.header, sheet.notes))
    if not grids:
        return paragraph("The stored runs have no protocol under which the paper's tables are rebuilt.")
    return "\n".join(_figure(grid) for grid in grids)


def _figure(grid: Grid) -> str:
    notes = "".join(paragraph(note) for note in grid.notes)
    return (
        f'<figure class="grid" data-table="{escape(grid.name)}" data-protocol="{escape(grid.protocol)}">'
        f"{sortable_table(grid.title, grid.header, grid.rows)}<figcaption>{notes}</figcaption></figure>"
    )


def rows_of_tasks_run(table: DataFrame) -> DataFrame:
    """Return the rows of one of the paper's tables whose tasks were run under their protocol."""
    has_runs = table["runs"] > 0 if "runs" in table else table["agrees"] != "not stored"
    return table[has_runs.groupby([table["protocol"], table["task"]]).transform("any")]


def distances_grid(table: DataFrame, protocol: str) -> Grid:
    """Return a protocol's part of `distances_table` as a sortable table."""
    rows: list[list[Entry]] = []
    for task, part in table[table["protocol"] == protocol].groupby("task", sort=False):
        best = best_of(part["our_mean"].tolist(), spread_text)
        for row, is_best in zip(part.to_dict("records"), best, strict=True):
            paper = Entry(spread_text(row["paper_mean"], row["paper_std"]), row["paper_mean"])
            names = [Entry(task_title(task)), Entry(method_title(row["algorithm"], with_id=True))]
            is_bold = is_best and row["runs"] >= FEWEST_FOR_BOLD
            rows.append([*names, _ours(row, is_bold), paper, *_comparison(row)])
    return Grid(
        "distances",
        protocol,
        f"Distance to the target after the last step, protocol {protocol}",
        ["Task", "Algorithm", *COMPARED],
        rows,
        [PROTOCOL_NOTES[protocol], SCORE_NOTE, COMPARED_NOTE, BOLD_NOTE],
    )


def without_comparison(grid: Grid) -> Grid:
    """Return the table of distances without the columns that set our numbers against the paper's."""
    kept = len(grid.header) - len(COMPARED) + 1
    notes = [note for note in grid.notes if note != COMPARED_NOTE]
    said = "Ours: mean ± standard deviation over runs. The paper's numbers stand here in a full study only."
    rows = [row[:kept] for row in grid.rows]
    return grid._replace(header=grid.header[:kept], rows=rows, notes=[said, *notes])


def conditions_grid(table: DataFrame, protocol: str) -> Grid:
    """Return a protocol's part of `conditions_table` as a sortable table."""
    rows = [
        [
            Entry(task_title(row["task"])),
            Entry(CONDITION_TITLES[row["condition"]]),
            _ours(row),
            Entry(f"{row['paper_mean']:.4g}", row["paper_mean"]),
            *_comparison(row),
        ]
        for row in table[table["protocol"] == protocol].to_dict("records")
    ]
    title = f"Condition numbers, with η₂ in both readings, protocol {protocol}"
    header = ["Task", "Number", *COMPARED]
    return Grid("condition-numbers", protocol, title, header, rows, [COMPARED_NOTE, FIRST_INSTANCES])


def parameters_grid(table: DataFrame, protocol: str) -> Grid:
    """Return a protocol's part of `parameters_table` as a sortable table."""
    rows = [
        [
            Entry(task_title(row["task"])),
            Entry(row["parameter"].replace("_", " ")),
            _number(row["ours"]),
            _number(row["paper"]),
            Entry(row["agrees"]),
        ]
        for row in table[table["protocol"] == protocol].to_dict("records")
    ]
    title = f"Parameters of the paper, and ours, protocol {protocol}"
    return Grid("parameters", protocol, title, ["Task", "Parameter", "Ours", "Paper", "Same"], rows)


def summary_grid(table: DataFrame, header: Sequence[str], notes: Sequence[str]) -> Grid:
    """Return `summary_table` as a sortable table, with the header and the notes of its sheet."""
    rows = []
    for row in table.to_dict("records"):
        typical, better = (
            Entry(range_text(row[key], row[f"{key}_low"], row[f"{key}_high"]), row[key])
            if math.isfinite(row[key])
            else Entry("-")
            for key in ("typical", "better")
        )
        rows.append(
            [Entry(row["score"]), Entry(method_title(row["algorithm"], with_id=True)), typical, better]
        )
    return Grid("summary", "fair", "All tasks together, protocol fair", header, rows, notes)


def _ours(row: dict[str, float], best: bool = False) -> Entry:
    if not row["runs"]:
        return Entry("not run")
    if math.isinf(row["our_mean"]):
        return Entry("diverged", row["our_mean"])
    if not row["our_std"] > 0.0:  # one run, or runs that are equal
        return Entry(f"{row['our_mean']:.4g}", row["our_mean"], best)
    text = " ± ".join(as_precise((row["our_mean"], row["our_std"]), row["our_std"]))
    return Entry(text, row["our_mean"], best)


def _comparison(row: dict[str, float]) -> tuple[Entry, Entry]:
    """Return the ratio, and how many runs are below the printed value."""
    if not row["runs"]:
        return Entry("-"), Entry("-")
    below = row["below"] + row["equal"] / 2
    share = Entry(f"{below:g} of {row['runs']}", below / row["runs"])
    return Entry(ratio_text(row["ratio"]), row["ratio"]), share


def _number(value: float) -> Entry:
    return Entry("-") if math.isnan(value) else Entry(f"{value:g}", value)


def verdicts_section(tables: StudyTables, paper: Paper, manifest: Mapping[str, Any]) -> str:
    """Return how often each claim of the paper held, first in short, then claim by claim."""
    verdicts = tables.verdicts
    comparable = is_comparable(manifest)
    parts = [f'<p class="hint">{RULE}</p>', _overview(verdicts, paper, comparable)]
    parts.append(f'<p class="hint">{CHOSEN} {escape(WHAT_COUNTS)}</p><div id="claims">')
    for claim in STUDY_CLAIMS:
        own = verdicts[verdicts["claim"] == claim.name]
        parts.append(_claim(claim, own, in_the_paper(claim, paper) if comparable else "-"))
    parts.append("</div>")
    parts.append("<h3>Printed numbers that no choice explains</h3>")
    if manifest["shorten"] != 1:
        parts.append(paragraph(ONLY_CONDITIONS))
    found = tables.unexplained
    parts.append(paragraph(ALL_EXPLAINED) if found.empty else _plain_table(unexplained_sheet(found)))
    return "\n".join([*parts, _how_to_read()])


CHOSEN = (
    "The study of “Bridging the Gap Between Average and Discounted TD Learning”, run again. The protocol "
    "inferred was chosen to fit the paper's numbers; nothing else was tuned to agree."
)

RULE = (
    "Holds: the 95% Clopper-Pearson interval of the share of runs lies above one half; fails: below; seems "
    "to: too few or shortened runs. A click on a claim opens its numbers."
)

MEANINGS = {
    "fair, quotient": "constant removed",
    "fair, centred": "stationary mean removed",
    "fair, full": "constant counts",
    "literal": "as the text says",
    "inferred": "as fits the numbers",
}
"""What each score means, in half a line."""

OVERVIEW = {
    "fair, quotient": "up to a constant",
    "fair, centred": "centred",
    "fair, full": "full",
    **{name: name.capitalize() for name in PAPER_SCORES},
}
"""Titles of the columns of verdicts: the fair ones first."""
PRINTED = "By the paper's tables"


FOOTNOTES = {COUNTS_CONSTANT: "1", OUR_CONSTANTS: "2"}
"""Caveats of many cells, which stand once below the table, and their marks."""


def _overview(verdicts: DataFrame, paper: Paper, with_printed: bool) -> str:
    """Return the table of verdicts; the column of the paper's own only where it may be compared."""
    found = {(row.claim, row.score): row for row in verdicts.itertuples()}
    has_fair = verdicts["score"].str.startswith("fair").any()
    scores = [name for name in OVERVIEW if (verdicts["score"] == name).any()]
    if has_fair and not any(name.startswith("fair,") for name in scores):
        scores.insert(0, "fair, quotient")
    rows = []
    for claim in STUDY_CLAIMS:
        link = f'<a href="#view=verdicts&amp;claim={claim.name}">{typeset(claim.text)}</a>'
        own = {score: found.get((claim.name, score)) for score in (*scores, "fair")}
        cells = _verdict_cells(own, scores)
        printed = f'<td data-title="{PRINTED}">{escape(in_the_paper(claim, paper))}</td>' * with_printed
        rows.append(f'<tr><th scope="row">{link}</th>{cells}{printed}</tr>')
    body = "\n".join(rows)
    caption = "In how many runs each claim held"
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table class="overview">'
        f"<caption>{caption}</caption><thead>{_overview_head(scores, with_printed)}</thead>\n"
        f"<tbody>{body}</tbody></table></div>{_footnotes(verdicts)}"
    )


def _overview_head(scores: Sequence[str], with_printed: bool) -> str:
    """Return the head of the table of verdicts: the fair columns stand under one title."""
    fair = [score for score in scores if score.startswith("fair,")]
    tall = ' rowspan="2"' if fair else ""
    group = f'<th scope="colgroup" colspan="{len(fair)}">Fair scoring</th>' if fair else ""
    titled = {score: f"{escape(OVERVIEW[score])}<small>{escape(MEANINGS[score])}</small>" for score in scores}
    others = "".join(
        f'<th scope="col"{tall}>{title}</th>' for score, title in titled.items() if score not in fair
    )
    printed = f'<th scope="col"{tall}>{PRINTED}</th>' * with_printed
    first = f'<tr><th scope="col"{tall}>Claim</th>{group}{others}{printed}</tr>'
    second = "".join(f'<th scope="col">{titled[score]}</th>' for score in fair)
    return first + (f"<tr>{second}</tr>" if fair else "")


def _footnotes(verdicts: DataFrame) -> str:
    """Return the caveats to which marks in the table refer."""
    used = {words for caveat in verdicts["caveat"] for words in caveat.split("; ")}
    return "".join(
        f'<p class="hint"><sup>{mark}</sup> {escape(words[:1].upper() + words[1:])}.</p>'
        for words, mark in FOOTNOTES.items()
        if words in used
    )


def _verdict_cells(own: Mapping[str, Any], scores: Sequence[str]) -> str:
    """Return the cells of a claim; one covers all fair metrics if the verdict does not depend on them."""
    fair = [score for score in scores if score.startswith("fair,")]
    others = [score for score in scores if score not in fair]
    cells = [_verdict_cell(own[score], OVERVIEW[score]) for score in others]
    if own["fair"] is None:
        return "".join([_verdict_cell(own[score], f"Fair: {OVERVIEW[score]}") for score in fair] + cells)
    return "".join([_verdict_cell(own["fair"], "Fair", len(fair)), *cells])


def _verdict_cell(row: Any, title: str, columns: int = 1) -> str:
    """Return a cell with its title, which is shown where the screen is too narrow for columns."""
    titled = f'<td data-title="{title}"'
    if row is None:
        return f"{titled}>not tested</td>"
    wide = f' colspan="{columns}"' if columns > 1 else ""
    marks = ",".join(FOOTNOTES[words] for words in row.caveat.split("; ") if words)
    said = f'<sup title="{escape(row.caveat)}">{marks}</sup>' if marks else ""
    return f"{titled}{wide}>{badge(row.word)} {row.held} of {row.of}{said}</td>"


def _claim(claim: StudyClaim, verdicts: DataFrame, printed: str) -> str:
    numbers = ", ".join(name.removeprefix("finding-") for name in claim.findings)
    parts = [paragraph(f"{claim.where}. Findings: {numbers}.")]
    if claim.about == "conditions":
        parts.append(paragraph(FIRST_INSTANCES))
    if printed != "-":
        parts.append(paragraph(f"By the paper's own tables: in {printed}."))
    if verdicts.empty:
        parts.append(paragraph("The stored runs are not enough to judge this."))
    else:
        header = verdict_header(claim)[:-1]
        rows = [_verdict_row(row, header[2:]) for row in verdicts.itertuples()]
        parts.append(framed_table("reasons", claim.text, header, rows))
    summary = f"<summary>{typeset(claim.text)}</summary>"
    return f'<details class="claim" data-claim="{claim.name}">{summary}{"".join(parts)}</details>'


def _verdict_row(row: Any, titles: Sequence[str]) -> str:
    score, word, *others, why = verdict_texts(row)
    cells = "".join(
        f'<td data-title="{escape(name)}">{typeset(text)}</td>'
        for name, text in zip(titles, others, strict=True)
    )
    said = badge(row.word) + escape(word.removeprefix(row.word))
    title = f"Fair, {OVERVIEW[score]}" if score.startswith("fair,") else score.capitalize()
    reason = f'</tr><tr class="why"><td colspan="{len(others) + 2}">Why not: {typeset(why)}</td>'
    first = f'<th scope="row">{escape(title)}</th><td>{said}</td>{cells}'
    return first + reason * bool(row.reason)


def _plain_table(sheet: Sheet) -> str:
    rows = [[Entry(cell.text) for cell in row] for group in sheet.groups for row in group]
    return sortable_table(sheet.caption, sheet.header, rows) + "".join(
        paragraph(note) for note in sheet.notes
    )


def _how_to_read() -> str:
    """Return the words of the page of verdicts, whose Markdown is a heading and a list."""
    heading, *items = re.split(r"\n+- ", HOW_TO_READ)
    lines = "".join(f"<li>{emphasised(' '.join(item.split()))}</li>" for item in items)
    return f"<h3>{escape(heading.removeprefix('## '))}</h3><ul>{lines}</ul>"


STUDY_CURVE_COLUMNS = ["protocol", "task", "algorithm", "kind", "target", "norm"]
"""The columns by which curves differ."""


def chart_data(results: Archive, paper: Paper) -> dict[str, Any]:
    """Return the numbers of all charts of a study, ready for JSON.

    Returns
    -------
    dict
        "tasks" and "algorithms" by id, in the order in which they are listed; "protocols", each with the
        score that it opens with; "curves" by protocol, task and algorithm; "maps" of `map_data`; "printed",
        the paper's end points by task and algorithm; "thinned", whether checkpoints were left out.
    """
    points = curve_points(results.runs)
    known = [task for task in paper.tasks if (results.runs["task"] == task).any()]
    others = [str(task) for task in results.runs["task"].unique() if task not in known]
    return {
        "tasks": {task: task_title(task) for task in known + others},
        "algorithms": {name: _algorithm(name) for name in _algorithms(results)},
        "protocols": {name: _opening(name) for name in _protocols(results)},
        "curves": _curves(points),
        "maps": map_data(results),
        "printed": _printed(paper) if is_comparable(results.manifest) else {},
        "thinned": bool(points.groupby(STUDY_CURVE_COLUMNS, observed=True).size().max() > MOST_CURVE_POINTS),
    }


def _protocols(results: Archive) -> list[str]:
    """Return the stored protocols: the fair one, which the page opens with, the paper's, then any others."""
    known = dict.fromkeys(("fair", *PAPER_SCORES, *results.protocols))
    return [name for name in known if name in results.protocols]


def _algorithms(results: Archive) -> list[str]:
    found = {name for protocol in results.protocols for name in results.algorithms(protocol)}
    return in_method_order(sorted(found))


def _algorithm(name: str) -> dict[str, Any]:
    look = look_of(name)
    return {
        "title": method_title(name, with_id=True) + (" (floor)" if name == FLOOR_ALGORITHM else ""),
        **chart_look(look),
        "width": 1.6 * look.width,
        "paperKind": Score("", "paper", "").kind_of(name),
        "isFloor": name == FLOOR_ALGORITHM,
    }


def _opening(protocol: str) -> dict[str, str]:
    """Return the metric, the target and the budget with which a protocol is first shown."""
    score = PAPER_SCORES.get(protocol, Score(protocol, "quotient", "bias", "transitions"))
    return {"kind": score.kind, "target": score.target, "axis": score.budget}


def _printed(paper: Paper) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    for row in paper.final_errors().itertuples():
        if row.algorithm in STUDIED:
            printed.setdefault(row.task, {})[row.algorithm] = [row.mean, row.std]
    return printed


def curve_points(runs: DataFrame) -> DataFrame:
    """Return mean and spread of the runs at each checkpoint of each curve, as `learning_curve` does.

    Parameters
    ----------
    runs : DataFrame
        Columns of `RUN_COLUMNS`.

    Returns
    -------
    DataFrame
        Columns of `STUDY_CURVE_COLUMNS`, step, transitions, mean, low, high, runs and diverged.
    """
    refuse_gaps(runs)
    keys = [*STUDY_CURVE_COLUMNS, "step"]
    ordered = runs[runs["step"] > 0].sort_values([*keys, "error"], kind="stable")
    counts = ordered.groupby(keys, observed=True).size().to_numpy()
    starts = np.cumsum(counts) - counts
    tails = np.array([tail_of(count) for count in range(counts.max() + 1)])[counts]
    errors = ordered["error"].to_numpy()
    first = ordered.iloc[starts]
    return first[[*keys, "transitions"]].assign(
        mean=np.add.reduceat(errors, starts) / counts,
        low=errors[starts + tails],
        high=errors[starts + counts - 1 - tails],
        runs=counts,
        diverged=np.add.reduceat(np.isinf(errors).astype(np.int64), starts),
    )


def spread_words(runs: int) -> str:
    """Return what the band of a curve covers.

    Examples
    --------
    >>> spread_words(8), spread_words(30)
    ('range of 8 runs', 'middle 80% of 30 runs')
    """
    return f"middle 80% of {runs} runs" if tail_of(runs) else f"range of {counted(runs, 'run')}"


def _curves(points: DataFrame) -> dict[str, Any]:
    curves: dict[str, Any] = {}
    for (protocol, task, algorithm, *metric), rows in points.groupby(
        STUDY_CURVE_COLUMNS, observed=True, sort=False
    ):
        rows = rows.iloc[thinned(len(rows))]
        found = curves.setdefault(protocol, {}).setdefault(task, {}).setdefault(algorithm, {"errors": {}})
        found["steps"], found["transitions"] = rows["step"].tolist(), rows["transitions"].tolist()
        found["runs"] = int(rows["runs"].iloc[-1])
        found["spread"] = spread_words(found["runs"])
        found["errors"]["|".join(metric)] = {
            **{name: [short(number) for number in rows[name]] for name in ("mean", "low", "high")},
            "diverged": int(rows["diverged"].iloc[-1]),
        }
    return curves


def map_data(results: Archive) -> dict[str, Any]:
    """Return the maps of all tasks that have one, ready for JSON, by protocol and task.

    Returns
    -------
    dict
        Each map has "titles" of its panels, "panels", "rows" and "columns" of its states, their "bias", and
        "frames" by algorithm: "steps" of the checkpoints; "shifts", by how much the estimates of all states,
        drawn or not, are above the bias on average; and "values" of the drawn states, checkpoint by
        checkpoint, as float32 in base64: as stored, and shorter than digits.
    """
    maps: dict[str, Any] = {}
    frames = dict(list(results.values.groupby(["protocol", "task"], observed=True)))
    for (protocol, task), states in results.states.groupby(["protocol", "task"], observed=True):
        maps.setdefault(protocol, {})[task] = _map(states, frames[protocol, task])
    return maps


def _map(states: DataFrame, frames: DataFrame) -> dict[str, Any]:
    drawn = states["panel"].to_numpy() >= 0
    shown = states[drawn].sort_values("panel", kind="stable")
    order = shown["state"].to_numpy()
    bias = states.sort_values("state")["bias"].to_numpy()
    return {
        "titles": shown.drop_duplicates("panel")["title"].astype(str).tolist(),
        "panels": shown["panel"].tolist(),
        "rows": shown["row"].tolist(),
        "columns": shown["column"].tolist(),
        "bias": [float(f"{number:.8g}") for number in shown["bias"]],
        "frames": {
            str(algorithm): _frames(rows.sort_values("step"), bias, order)
            for algorithm, rows in frames.groupby("algorithm", observed=True, sort=False)
        },
    }


def _frames(rows: DataFrame, bias: Any, order: Any) -> dict[str, Any]:
    values = np.stack(rows["values"].tolist())
    shifts = (values.astype(np.float64) - bias).mean(axis=1)
    return {
        "steps": rows["step"].tolist(),
        "shifts": [float(f"{shift:.8g}") if np.isfinite(shift) else None for shift in shifts],
        "values": base64.b64encode(values[:, order].astype("<f4").tobytes()).decode(),
    }
