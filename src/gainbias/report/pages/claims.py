"""The page of the paper's headline claims: a table of verdicts, and for each claim figures and charts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import gainbias
from gainbias.experiments.claims.claim import QUICK, Chart, ClaimResult, notice
from gainbias.report.figures.claims import line_look
from gainbias.report.pages.frame import (
    NUMBER,
    PAGE,
    assembled,
    badge,
    chart_look,
    clock,
    definitions,
    framed_table,
    paragraph,
    script_data,
    short,
)
from gainbias.report.tables.claims import PART_HEADER, part_cells
from gainbias.store import write_whole


def write_claims_page(results: Sequence[ClaimResult], stored: Path, path: Path | None = None) -> Path:
    """Write the interactive page of the claims in a file, beside it by default, and return its path."""
    path = path or stored.with_name(PAGE)
    seeds = dict.fromkeys(str(result.seed) for result in results if result.seed is not None)
    commands = dict.fromkeys(result.command for result in results if result.command)
    made = {
        "Test": _test(results),
        "Command": "; ".join(commands) or "not recorded",
        "Seed": ", ".join(seeds) or "not recorded",
        "Results": f"{stored.name}, written {clock(stored.stat().st_mtime)}",
        "Claims": f"{len(results)}: {', '.join(result.id for result in results)}",
        "Page written": f"{clock(time.time())} by gainbias {gainbias.__version__}",
    }
    write_whole(path, claims_html(results, made).encode())
    return path


def claims_html(results: Sequence[ClaimResult], made: Mapping[str, str]) -> str:
    """Return the interactive page of claims; ``made`` says how they came about. A claim alone is open."""
    rows = [
        f'<th scope="row"><a href="#claim={escape(result.id)}">{escape(result.id)}</a></th>'
        f"<td>{escape(result.text)}</td><td>{badge(result.verdict)}</td>"
        for result in results
    ]
    return assembled(
        "claims.html",
        ["claims.js"],
        title="Headline claims of the paper, measured",
        overview=framed_table("claims", "Verdicts", ["Claim", "What the paper says", "Verdict"], rows),
        warning=f'<p class="warning" role="note">{escape(told)}</p>' if (told := notice(results)) else "",
        claims="\n".join(_section(result, is_open=len(results) == 1) for result in results),
        made=definitions(made),
        data=script_data({result.id: [_chart(chart) for chart in result.charts] for result in results}),
    )


def _test(results: Sequence[ClaimResult]) -> str:
    if any(result.quick for result in results):
        return QUICK
    return "not recorded" if any(result.quick is None for result in results) else "the full test"


def _section(result: ClaimResult, is_open: bool) -> str:
    rows = []
    for part in result.parts:
        name, *cells, verdict = part_cells(part)
        marked = [*map(escape, cells), badge(verdict) if verdict else ""]
        kinds = [NUMBER, NUMBER, "", ""]  # a figure, its interval, what is claimed, and the verdict
        cells = [f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, marked, strict=True)]
        rows.append(f'<th scope="row">{escape(name)}</th>{"".join(cells)}')
    charts = "".join(
        f'<div class="chart" role="img" aria-label="{escape(_words(chart))}"></div>'
        for chart in result.charts
    )
    table = framed_table("parts", "What was measured", PART_HEADER, rows, numeric=(1, 2))
    summary = f"<summary>{escape(result.id)}: {escape(result.text)} {badge(result.verdict)}</summary>"
    return (
        f'<details class="claim" data-claim="{escape(result.id)}"{" open" * is_open}>{summary}'
        f"{paragraph(result.reason)}{charts}{table}"
        f"{paragraph(f'How it is measured. {result.how} Intervals: {result.interval}.')}"
        f"{paragraph(f'Where the paper says it: {result.where}.')}</details>"
    )


def _words(chart: Chart) -> str:
    """Return what a chart shows in words, for those who cannot see it."""
    return f"{chart.title}. {chart.y} against {chart.x}: {', '.join(line.name for line in chart.lines)}"


def _chart(chart: Chart) -> dict[str, Any]:
    lines = []
    measured = 0
    for line in chart.lines:
        numbers = {
            name: [short(number) for number in getattr(line, name)] for name in ("x", "y", "low", "high")
        }
        joined = line.reference or (not line.low and list(line.x) == sorted(line.x))
        facts = {"name": line.name, "reference": line.reference, "joined": joined}
        lines.append({**facts, **numbers, **chart_look(line_look(line, measured))})
        measured += not line.reference
    axes = {"x": chart.x, "y": chart.y, "xAxis": chart.x_axis, "yAxis": chart.y_axis}
    return {"title": chart.title, **axes, "lines": lines}
