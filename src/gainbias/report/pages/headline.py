"""Results on the paper's headline claims: on a terminal, as a page, as figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Column, Table

from gainbias.experiments.claims.record import Chart, ClaimResult, Line, Part
from gainbias.report.figures.style import (
    FAINT,
    OKABE_ITO,
    SIZES,
    Look,
    drawing,
    look_of,
    new_figure,
    save_figure,
)
from gainbias.report.tables.layout import Cell, Sheet, latex
from gainbias.store import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHTS = {"two-column": 3.2, "one-column": 3.0}
"""Of charts, in inches; in one column the legend stands below."""

CLAIMS = "claims.json"
"""The file with all that was measured."""

PART_HEADER = ("Measured", "Figure", "Interval", "Claimed", "Verdict")
LOOKS = [Look(colour, marker) for colour, marker in zip(OKABE_ITO, "os^DvPX", strict=True)]
"""For lines that are not named after an algorithm."""


def show_claims(results: list[dict[str, Any]]) -> None:
    """Show for each claim its figures, its verdict and the reason."""
    console = Console()
    for stored in results:
        result = ClaimResult.from_dict(stored)
        table = Table(
            Column("measured", overflow="fold"),
            "figure",
            "interval",
            "claimed",
            "verdict",
            title=escape_markup(result.id),
        )
        for part in result.parts:
            table.add_row(*map(escape_markup, part_cells(part)))
        console.print(table)
        console.print(
            f"[bold]{result.verdict.upper()}[/bold]: {escape_markup(result.text)}",
            escape_markup(result.reason),
            "",
        )
    summary = Table("claim", "verdict", title="Verdicts")
    for stored in results:
        summary.add_row(stored["id"], stored["verdict"])
    console.print(summary)


def claims_page(results: Sequence[ClaimResult]) -> str:
    """Return all results as Markdown: a table of verdicts, then a section for each claim."""
    lines = ["| Claim | What the paper says | Verdict |", "|---|---|---|"]
    lines += [_row(each.id, each.text, f"**{each.verdict}**") for each in results]
    for result in results:
        lines += [
            "",
            f"## {result.id}",
            "",
            f"**Claim.** {result.text} Where: {result.where}.",
            "",
            f"**How it is measured.** {result.how} Intervals: {result.interval}.",
            "",
            f"**{result.verdict.capitalize()}.** {result.reason}{_see(result)}",
            "",
            _row(*PART_HEADER),
            "|---|---|---|---|---|",
            *(_row(*part_cells(part)) for part in result.parts),
        ]
    return "\n".join(lines) + "\n"


def claims_sheet(results: Sequence[ClaimResult]) -> Sheet:
    """Lay out what was measured for each claim that has a verdict, for a paper."""
    groups = []
    for result in results:
        judged = [part_cells(part) for part in result.parts if part.verdict is not None]
        names = [result.id] + [""] * (len(judged) - 1)
        groups.append([[Cell(name), *map(Cell, cells)] for name, cells in zip(names, judged, strict=True)])
    return Sheet(
        "claims", "Headline claims of the paper, measured.", ["Claim", *PART_HEADER], groups, text_columns=6
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def write_claims(results: Sequence[ClaimResult], folder: Path) -> list[Path]:
    """Write ``claims.json``, ``.md``, ``.tex``, the interactive page and all charts, and return the paths."""
    from gainbias.report.pages.claims import write_claims_page

    stored, page, for_print = folder / CLAIMS, folder / "claims.md", folder / "claims.tex"
    answer = json.dumps([result.to_dict() for result in results], indent=1) + "\n"
    write_whole(stored, answer.encode())
    write_whole(page, claims_page(results).encode())
    write_whole(for_print, latex(claims_sheet(results)).encode() + b"\n")
    paths = [stored, page, for_print, write_claims_page(results, stored)]
    for result in results:
        for number, chart in enumerate(result.charts, 1):
            name = result.id if len(result.charts) == 1 else f"{result.id}-{number}"
            for size in SIZES:
                paths += save_figure(draw_chart(chart, size), folder / "figures" / size / name, SIZES[size])
    return paths


def read_claims(path: Path) -> list[ClaimResult]:
    """Return the results that `write_claims` stored."""
    try:
        return [ClaimResult.from_dict(stored) for stored in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or was written by another version: put the claims to the test again"
        ) from error


def draw_chart(chart: Chart, size: str = "two-column") -> Figure:
    """Draw a chart: predictions as faint lines, all else as marks, with intervals where there are any."""
    shape = SIZES[size]
    with drawing(shape):
        figure = new_figure(shape.width, HEIGHTS[size])
        axes = figure.add_subplot()
        measured = [line for line in chart.lines if not line.reference]
        for number, line in enumerate(measured):
            _draw(axes, line, number)
        for line in chart.lines:
            if line.reference:
                axes.plot(line.x, line.y, color=FAINT, linewidth=0.9, label=line.name, zorder=1)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, xscale=chart.x_axis, yscale=chart.y_axis)
        if size == "two-column":
            figure.legend(loc="outside right upper", ncols=1)
        else:
            figure.legend(loc="outside lower center", ncols=shape.legend_columns)
    return figure


def line_look(line: Line, number: int) -> Look:
    """Return how a line is drawn: like the algorithm that it is named after, or by its number."""
    known = look_of(line.name)
    return LOOKS[number % len(LOOKS)] if known is look_of("") else known


def _draw(axes: Any, line: Line, number: int) -> None:
    look = line_look(line, number)
    style = {"color": look.colour, "marker": look.marker, "markersize": 2.6, "label": line.name}
    joined = "-" if list(line.x) == sorted(line.x) else "none"
    if line.low:
        ends = [
            [y - low for y, low in zip(line.y, line.low, strict=True)],
            [high - y for y, high in zip(line.y, line.high, strict=True)],
        ]
        axes.errorbar(line.x, line.y, yerr=ends, linestyle="none", elinewidth=0.7, **style)
    else:
        axes.plot(line.x, line.y, linestyle=joined, linewidth=0.7, **style)


def part_cells(part: Part) -> tuple[str, str, str, str, str]:
    """Return what a table says about a measured figure, column by column of `PART_HEADER`."""
    interval = f"{_number(part.low)} to {_number(part.high)}"
    return part.name, _number(part.value), interval, part.expected, part.verdict or ""


def _number(value: float) -> str:
    if value == 0.0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3f}"
    return f"{value:.1e}"


def _see(result: ClaimResult) -> str:
    numbers = ", ".join(name.removeprefix("finding-") for name in result.findings)
    return f" See [What we found in the paper](paper.md): {numbers}." if numbers else ""
