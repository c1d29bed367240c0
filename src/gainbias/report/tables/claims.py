"""What was measured for the paper's headline claims, as Markdown and as a sheet for print."""

from __future__ import annotations

from collections.abc import Sequence

from gainbias.experiments.claims.claim import ClaimResult, Part
from gainbias.report.text import Sheet, TableCell

PART_HEADER = ("Measured", "Figure", "Interval", "Claimed", "Verdict")


def claims_markdown(results: Sequence[ClaimResult]) -> str:
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


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _see(result: ClaimResult) -> str:
    numbers = ", ".join(name.removeprefix("finding-") for name in result.findings)
    return f" See [What we found in the paper](paper.md): {numbers}." if numbers else ""


def claims_sheet(results: Sequence[ClaimResult]) -> Sheet:
    """Lay out what was measured for each claim that has a verdict, for a paper."""
    groups = []
    for result in results:
        judged = [part_cells(part) for part in result.parts if part.verdict is not None]
        names = [result.id] + [""] * (len(judged) - 1)
        groups.append(
            [[TableCell(name), *map(TableCell, cells)] for name, cells in zip(names, judged, strict=True)]
        )
    return Sheet(
        "claims", "Headline claims of the paper, measured.", ["Claim", *PART_HEADER], groups, text_columns=6
    )


def part_cells(part: Part) -> tuple[str, str, str, str, str]:
    """Return what a table says about a measured figure, column by column of `PART_HEADER`."""
    interval = f"{_number(part.low)} to {_number(part.high)}"
    return part.name, _number(part.value), interval, part.expected, part.verdict or ""


def _number(value: float) -> str:
    if value == 0.0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3f}"
    return f"{value:.1e}"
