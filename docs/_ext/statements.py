"""The tables of the page on the paper's statements, from the registry and from stored measurements."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from docs._ext.tables import escaped, table
from gainbias.theory.statements.registry import STATEMENTS
from gainbias.theory.statements.statement import Statement

VERDICTS = ("holds as printed", "holds corrected", "fails", "not testable")


def read_statements(source: Path) -> dict[str, dict[str, Any]]:
    """Return what ``python -m benchmarks.statements`` has stored, by label."""
    stored = json.loads((source / "data" / "statements.json").read_text(encoding="utf-8"))
    return {row["label"]: row for row in stored["statements"]}


def write_statement_tables(source: Path) -> None:
    """Write how many statements have which verdict, all of them, the refutations and the wrong versions."""
    found = read_statements(source)
    listed = json.loads((source / "data" / "paper_statements.json").read_text(encoding="utf-8"))
    lines = {entry["label"]: entry["line"] for entry in listed}
    generated = source / "_generated"
    tables = {
        "counts": _counts(found),
        "all": table(
            ["Statement", "What it says", "Verdict", "Where it lives", "Closest to failing"],
            [_row(statement, found[statement.label], lines) for statement in STATEMENTS],
            numbers=1,
        ),
        "refuted": table(
            ["Statement", "In which case", "Found", "Promised"],
            [
                [name(label), plain(row["refuted"]["where"]), *(number(row["refuted"][k]) for k in SIDES)]
                for label, row in found.items()
                if "refuted" in row
            ],
            numbers=2,
        ),
        "wrong": table(
            ["Statement", "Tried on", "Worst case", "Wrong version", "Right", "Wrong", "Limit"],
            [
                [
                    name(label),
                    f"{row['cases']} chains",
                    plain(row["worst_case"]),
                    plain(row["wrong_version"]),
                    number(row["worst"]),
                    number(row["wrong"]),
                    "1" if row["measure"] == "ratio" else "1e-9",
                ]
                for label, row in found.items()
                if "worst" in row
            ],
            numbers=3,
        ),
    }
    for part, text in tables.items():
        (generated / f"statements-{part}.md").write_text(text, encoding="utf-8")


SIDES = ("found", "promised")


def _counts(found: dict[str, dict[str, Any]]) -> str:
    """Return a table of verdicts by kind."""
    counts = Counter((row["kind"], row["verdict"]) for row in found.values())
    kinds = list(dict.fromkeys(row["kind"] for row in found.values()))
    rows = [
        [kind.capitalize(), *(str(counts[kind, verdict] or "") for verdict in VERDICTS)] for kind in kinds
    ]
    total = Counter(row["verdict"] for row in found.values())
    rows.append(["All", *(str(total[verdict]) for verdict in VERDICTS)])
    return table(["Kind", *(verdict.capitalize() for verdict in VERDICTS)], rows, numbers=4)


def _row(statement: Statement, row: dict[str, Any], lines: dict[str, int]) -> list[str]:
    links = ", ".join(
        f'<a href="paper.html#{finding}">{finding.removeprefix("finding-")}</a>'
        for finding in statement.findings
    )
    reasons = [part for part in (statement.corrected, statement.untestable, statement.note) if part]
    said = plain(". ".join(reason.rstrip(".") for reason in reasons))
    verdict = f"**{row['verdict']}**{': ' + said if said else ''}"
    verdict += f" ({'finding' if len(statement.findings) == 1 else 'findings'} {links})" if links else ""
    return [
        f"{statement.kind.capitalize()}, line {lines[statement.label]}: {name(statement.label)}",
        plain(statement.says),
        verdict,
        plain(statement.lives),
        closest(row),
    ]


def plain(text: str) -> str:
    r"""Return plain text for a cell of a table, which escapes the bar itself.

    Examples
    --------
    >>> print(plain("|w*|"))
    |w\*|
    """
    return escaped(text).replace(r"\|", "|")


def name(label: str) -> str:
    """Return a label of the source; one that we had to make is no code."""
    return label if " at line " in label else f"`{label}`"


def closest(row: dict[str, Any]) -> str:
    """Return the worst number of a check and what it is, in words."""
    if "worst" not in row:
        return ""
    return (
        f"{number(row['worst'])} of 1" if row["measure"] == "ratio" else f"missed by {number(row['worst'])}"
    )


def number(value: float | str) -> str:
    """Return a number in three digits, or the word for one that is infinite.

    Examples
    --------
    >>> number(0.12345), number("infinite"), number(0.0)
    ('0.123', 'infinite', '0')
    """
    return value if isinstance(value, str) else f"{value:.3g}"
