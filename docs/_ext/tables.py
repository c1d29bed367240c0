"""Markdown: tables, lists of pages, and plain text in it."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Return a table; its last columns, `numbers` of them, hold numbers and are aligned to the right.

    Examples
    --------
    >>> print(table(["a", "b"], [["x", "1"]], numbers=1))
    | a | b |
    |---|--:|
    | x | 1 |
    <BLANKLINE>
    """
    marks = ["---"] * (len(header) - numbers) + ["--:"] * numbers
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(marks)}|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def contents(pages: Sequence[str]) -> str:
    """Return a list of pages that only the navigation shows."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def escaped(text: str) -> str:
    r"""Return plain text such that Markdown shows it as it is; what stands in backticks stays code.

    Examples
    --------
    >>> print(escaped("theta* of `a_b`, w_t"))
    theta\* of `a_b`, w\_t
    """
    pieces = re.split(r"(`+[^`]+`+)", text)
    pieces[::2] = [re.sub(r"([*_<|])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)
