"""The report on tested claims of the paper: a folder, and everything in it.

`store_claims` writes the folder: the results themselves, tables as Markdown and LaTeX, charts for print, and
the interactive page. The rest of the module makes these, in this order. `check_claims_folder` checks the
folder before the work begins, and `read_claims` reads the results again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlencode

import gainbias
from gainbias.experiments.claims.claim import (
    QUICK,
    Chart,
    ClaimResult,
    Line,
    Part,
    Verdict,
    claimed_in_words,
    figures,
    notice,
    notice_and_origin,
)
from gainbias.experiments.claims.registry import CLAIMS
from gainbias.experiments.results import MADE_WITH
from gainbias.report.figures.style import (
    FAINT,
    MARKS,
    OKABE_ITO,
    SIZES,
    LineStyle,
    drawing,
    look_of,
    new_figure,
    save_figure,
)
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
    typeset,
)
from gainbias.report.text import Sheet, TableCell, latex
from gainbias.store import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS_FILE = "claims.json"
"""The file with all measurements."""


def check_claims_folder(folder: Path, overwrite: bool = False) -> None:
    """Refuse a folder to which claims must not be written.

    Parameters
    ----------
    folder : Path
        May be new or empty, or contain what an interrupted test of claims left.
    overwrite : bool
        Whether claims in it may be replaced. Anything else never is.

    Raises
    ------
    ValueError
        If it contains claims that may not be replaced, or something else.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "thesis.tex").write_text("years of work")
    ...     check_claims_folder(Path(folder))
    Traceback (most recent call last):
    ValueError: ... is not empty and holds no claims: choose another folder with --output
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder with --output")
    if (folder / CLAIMS_FILE).exists():
        if not overwrite:
            raise ValueError(
                f"{folder} already holds {_held(folder / CLAIMS_FILE)}: choose another folder with "
                "--output, or replace them with --overwrite (overwrite=True in Python)"
            )
        return
    found = (
        {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if folder.exists()
        else set()
    )
    if found - {"units", MADE_WITH}:
        raise ValueError(f"{folder} is not empty and holds no claims: choose another folder with --output")


def _held(stored: Path) -> str:
    """Return which claims a folder holds, in words, as far as they can be read."""
    try:
        results = [ClaimResult.from_dict(result) for result in json.loads(stored.read_bytes())]
    except (ValueError, TypeError, KeyError):
        return "claims that cannot be read"
    quick = {True: "quick look", False: "full test", None: "not recorded how"}
    kinds = ", ".join(dict.fromkeys(quick[result.quick] for result in results))
    return f"{len(results)} claims ({kinds}): {', '.join(result.id for result in results)}"


def store_claims(results: Sequence[ClaimResult], folder: Path, overwrite: bool = False) -> list[Path]:
    """Write everything about claims to a folder, and return the paths of its files.

    These are ``claims.json``, ``.md`` and ``.tex``, the interactive page, and all charts. Where the test was
    a quick one, the Markdown and the caption of the LaTeX table say so.

    Parameters
    ----------
    results : sequence of ClaimResult
    folder : Path
        See `check_claims_folder`; it is made if it does not exist.
    overwrite : bool
        Whether claims in it may be replaced. Their figures are removed, so that all remaining ones belong
        to the same test.

    Raises
    ------
    ValueError
        If the folder must not be written to.
    """
    check_claims_folder(folder, overwrite)
    for figure in _stored_figures(folder):
        figure.unlink()
    stored, text, for_print = folder / CLAIMS_FILE, folder / "claims.md", folder / "claims.tex"
    answer = json.dumps([result.to_dict() for result in results], indent=1) + "\n"
    write_whole(stored, answer.encode())
    told, sheet = notice_and_origin(results), claims_sheet(results)
    write_whole(text, ((f"**{told}**\n\n" if told else "") + claims_markdown(results)).encode())
    marked = sheet._replace(caption=f"{sheet.caption} {told}".strip())
    write_whole(for_print, latex(marked).encode() + b"\n")
    paths = [stored, text, for_print, write_claims_page(results, stored)]
    for result in results:
        for number, chart in enumerate(result.charts, 1):
            name = result.id if len(result.charts) == 1 else f"{result.id}-{number}"
            for size in SIZES:
                paths += save_figure(draw_chart(chart, size), folder / "figures" / size / name, SIZES[size])
    return paths


def _stored_figures(folder: Path) -> list[Path]:
    """Return the figures of the claims in a folder, and no other files."""
    try:
        names = [
            (stored["id"], len(stored["charts"]))
            for stored in json.loads((folder / CLAIMS_FILE).read_bytes())
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    stems = {name for name, _ in names} | {
        f"{name}-{k}" for name, charts in names for k in range(1, charts + 1)
    }
    return [path for path in folder.glob("figures/*/*.*") if path.stem in stems]


def read_claims(path: Path) -> list[ClaimResult]:
    """Return the results that `store_claims` wrote to ``claims.json``."""
    try:
        return [ClaimResult.from_dict(stored) for stored in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or was written by another version: test the claims again"
        ) from error


CLAIM_HEADER = ("Claim", "What the paper says", "Verdict")
PART_HEADER = ("Measured", "Figure", "Interval", "What it is", "Claimed", "Verdict")
"""Titles of the columns, in the table of all claims and in the table of measurements for one."""


def claims_markdown(results: Sequence[ClaimResult]) -> str:
    """Return all results as Markdown: a table of verdicts, then a section for each claim."""
    lines = [_row(*CLAIM_HEADER), "|---|---|---|"]
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
            "|---|---|---|---|---|---|",
            *(_row(*part_cells(result.id, part)) for part in result.parts),
        ]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _see(result: ClaimResult) -> str:
    numbers = ", ".join(name.removeprefix("finding-") for name in result.findings)
    return f" See [What we found in the paper](paper.md): {numbers}." if numbers else ""


def claims_sheet(results: Sequence[ClaimResult]) -> Sheet:
    """Lay out the measurements for each claim that has a verdict, for a paper."""
    groups = []
    for result in results:
        judged = [part_cells(result.id, part) for part in result.parts if part.verdict is not None]
        names = [result.id] + [""] * (len(judged) - 1)
        groups.append(
            [[TableCell(name), *map(TableCell, cells)] for name, cells in zip(names, judged, strict=True)]
        )
    return Sheet(
        "claims", "Headline claims of the paper, measured.", ["Claim", *PART_HEADER], groups, text_columns=7
    )


def part_cells(claim: str, part: Part) -> tuple[str, str, str, str, str, str]:
    """Return what a table says about a measured figure of a claim, column by column of `PART_HEADER`."""
    figure, low, high = figures(part.value, part.low, part.high)
    interval = f"{low} to {high}" if part.low < part.high else ""
    said = claimed_in_words(CLAIMS[claim].said if claim in CLAIMS else {}, part)
    return part.name, figure, interval, part.ends, said, part.verdict or ""


HEIGHTS = {"two-column": 3.2, "one-column": 3.0}
"""Of charts, in inches; in one column the legend is below."""

DASHES = ("--", ":", "-.")
"""Of predictions, one after the other."""

CLAIM_STYLES = [LineStyle(colour, marker) for colour, marker in zip(OKABE_ITO, MARKS, strict=True)]
"""For lines that are not named after an algorithm."""


def draw_chart(chart: Chart, size: str = "two-column") -> Figure:
    """Draw a chart: predictions as faint lines, everything else as marks, with intervals if there are any."""
    shape = SIZES[size]
    with drawing(shape):
        figure = new_figure(shape.width, HEIGHTS[size])
        axes = figure.add_subplot()
        for line, look in zip(chart.lines, _looks(chart), strict=True):
            if not line.reference:
                _draw_line(axes, line, look)
        for line, dashes in zip((line for line in chart.lines if line.reference), cycle(DASHES)):
            axes.plot(line.x, line.y, color=FAINT, linewidth=0.9, linestyle=dashes, label=line.name, zorder=1)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, xscale=chart.x_axis, yscale=chart.y_axis)
        if size == "two-column":
            figure.legend(loc="outside right upper", ncols=1)
        else:
            figure.legend(loc="outside lower center", ncols=shape.legend_columns)
    return figure


def _draw_line(axes: Any, line: Line, look: LineStyle) -> None:
    style = {"color": look.colour, "marker": look.marker, "markersize": 2.6, "label": line.name}
    if line.low:
        ends = [
            [y - low for y, low in zip(line.y, line.low, strict=True)],
            [high - y for y, high in zip(line.y, line.high, strict=True)],
        ]
        axes.errorbar(line.x, line.y, yerr=ends, linestyle="none", elinewidth=0.7, **style)
    else:
        axes.plot(line.x, line.y, linestyle="-" if _is_joined(line) else "none", linewidth=0.7, **style)


def _looks(chart: Chart) -> list[LineStyle]:
    """Return how each line is drawn: like the algorithm that it is named after, or by its number.

    Only lines that were measured are counted.
    """
    looks, measured = [], 0
    for line in chart.lines:
        known = look_of(line.name)
        looks.append(CLAIM_STYLES[measured % len(CLAIM_STYLES)] if known is look_of("") else known)
        measured += not line.reference
    return looks


def _is_joined(line: Line) -> bool:
    """Whether points are joined: those of a prediction, or those in order that have no intervals."""
    return line.reference or (not line.low and list(line.x) == sorted(line.x))


def write_claims_page(results: Sequence[ClaimResult], stored: Path, path: Path | None = None) -> Path:
    """Write the interactive page for the claims in a file, by default beside it, and return its path."""
    path = path or stored.with_name(PAGE)
    seeds = dict.fromkeys(str(result.seed) for result in results if result.seed is not None)
    commands = dict.fromkeys(result.command for result in results if result.command)
    made = {
        "Test": _kind_of_test(results),
        "Command": "; ".join(commands) or "not recorded",
        "Seed": ", ".join(seeds) or "not recorded",
        "Results": f"{stored.name}, written {clock(stored.stat().st_mtime)}",
        "Page written": f"{clock(time.time())} by gainbias {gainbias.__version__}",
    }
    write_whole(path, claims_html(results, made).encode())
    return path


def _kind_of_test(results: Sequence[ClaimResult]) -> str:
    if any(result.quick for result in results):
        return QUICK
    return "not recorded" if any(result.quick is None for result in results) else "the full test"


def claims_html(results: Sequence[ClaimResult], made: Mapping[str, str]) -> str:
    """Return the interactive page of claims; ``made`` says how they came about. A single one is unfolded."""
    return assembled(
        "claims.html",
        ["claims.js"],
        title="Headline claims of the paper, measured",
        answer=in_short(results, _link),
        warning=f'<p class="warning" role="note">{escape(told)}</p>' if (told := notice(results)) else "",
        claims="\n".join(_section(each, is_open=len(results) == 1) for each in _failing_first(results)),
        several=escape(SEVERAL),
        made=definitions(made),
        data=script_data({result.id: [_chart_data(chart) for chart in result.charts] for result in results}),
    )


SEVERAL = (
    "Each interval is for its own figure: nothing is corrected for several claims with several figures each."
)


def _failing_first(results: Sequence[ClaimResult]) -> list[ClaimResult]:
    return sorted(results, key=lambda each: ("fails", "undecided", "holds").index(each.verdict))


def _link(claim: str) -> str:
    return f'<a href="#{escape(urlencode({"claim": claim}))}">{escape(claim)}</a>'


def in_short(results: Sequence[ClaimResult], named: Callable[[str], str] = str) -> str:
    """Return how many claims hold, and which do not, in words; those of a quick look begin with that.

    `named` returns how a claim is called.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> verdicts = {"rate": "holds", "dimension": "holds", "eta-order": "fails"}
    >>> in_short([SimpleNamespace(id=k, verdict=word, quick=True, parts=()) for k, word in verdicts.items()])
    'Quick look: 2 of 3 claims hold. 1 fails: eta-order.'
    """
    found: dict[str, list[str]] = {word: [] for word in get_args(Verdict)}
    for each in results:
        is_open = each.verdict == "fails" and any(part.verdict == "undecided" for part in each.parts)
        found[each.verdict].append(named(each.id) + " (in part undecided)" * is_open)
    held = len(found["holds"])
    mark = "Quick look: " if any(each.quick for each in results) else ""
    said = f"{mark}{held} of {len(results)} claims {'holds' if held == 1 else 'hold'}."
    if failed := found["fails"]:
        said += f" {len(failed)} {'fails' if len(failed) == 1 else 'fail'}: {', '.join(failed)}."
    if open_ := found["undecided"]:
        said += f" {len(open_)} {'is' if len(open_) == 1 else 'are'} undecided: {', '.join(open_)}."
    return said


def _section(result: ClaimResult, is_open: bool) -> str:
    rows = []
    for part in result.parts:
        name, *cells, verdict = part_cells(result.id, part)
        marked = [*map(typeset, cells), badge(verdict) if verdict else ""]
        kinds = [NUMBER, NUMBER, "", "", ""]  # a figure, its interval, what that is, the claim, the verdict
        cells = [
            f'<td{kind} data-title="{title}">{cell}</td>'
            for kind, title, cell in zip(kinds, PART_HEADER[1:], marked, strict=True)
        ]
        rows.append(f'<th scope="row">{typeset(name)}</th>{"".join(cells)}')
    charts = "".join(
        f'<div class="chart" role="img" aria-label="{escape(_in_words(chart))}"></div>'
        for chart in result.charts
    )
    caption = f"What was measured. Intervals: {result.interval}."
    table = framed_table("parts", caption, PART_HEADER, rows, numeric=(1, 2))
    name = f'<span class="name">{escape(result.id)}</span>'
    claim = f"<span>{typeset(result.text)}{_evidence(result)}</span>"
    summary = f"<summary>{badge(result.verdict)}{claim}{name}</summary>"
    return (
        f'<details class="claim" data-claim="{escape(result.id)}"{" open" * is_open}>{summary}'
        f"<p>{typeset(result.reason.removeprefix(f'{QUICK}: '))}</p>{charts}{table}"
        f"<p>{typeset(_how(result))}</p>"
        f"{paragraph(f'Where the paper says it: {result.where}.')}</details>"
    )


def _how(result: ClaimResult) -> str:
    """Return how a claim is measured; that this was a quick look is said once, at the head of the page."""
    of_the_full_test = f"{QUICK}, which is this: "
    if result.how.startswith(of_the_full_test):
        return f"How the full test measures it. {result.how.removeprefix(of_the_full_test)}"
    return f"How it is measured. {result.how.removeprefix(f'{QUICK}: ')}"


def _evidence(result: ClaimResult) -> str:
    """Return the figure that decides a claim, or the first of those that do."""
    judged = [part for part in result.parts if part.verdict is not None]
    deciding = [part for part in judged if part.verdict == result.verdict]
    if not deciding:
        return ""
    name, figure, interval, _, claimed, _ = part_cells(result.id, deciding[0])
    words = f"{name[:1].upper()}{name[1:]}: {figure}{f' ({interval})' * bool(interval)}, claimed {claimed}."
    open_ = [part.name for part in judged if part.verdict == "undecided" != result.verdict]
    if open_:
        words += f" Undecided: {'; '.join(open_)}."
    if more := len(judged) - 1 - len(open_):
        words += f" {more} more figure{'s' * (more > 1)}."
    return f'<span class="evidence">{typeset(words)}</span>'


def _in_words(chart: Chart) -> str:
    """Return what a chart shows in words, for those who cannot see it."""
    return f"{chart.title}. {chart.y} against {chart.x}: {', '.join(line.name for line in chart.lines)}"


def _chart_data(chart: Chart) -> dict[str, Any]:
    lines = []
    for line, look in zip(chart.lines, _looks(chart), strict=True):
        numbers = {
            name: [short(number) for number in getattr(line, name)] for name in ("x", "y", "low", "high")
        }
        facts = {"name": typeset(line.name), "reference": line.reference, "joined": _is_joined(line)}
        lines.append({**facts, **numbers, **chart_look(look)})
    axes = {"x": typeset(chart.x), "y": typeset(chart.y), "xAxis": chart.x_axis, "yAxis": chart.y_axis}
    return {"title": typeset(chart.title), **axes, "lines": lines}
