"""Pieces of HTML that pages are made of; all text is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

NUMBER = ' class="number"'
"""Mark of a cell whose text stands at the right."""


class Entry(NamedTuple):
    """Text of a cell, the number that it is sorted by if there is one, and whether it is the best."""

    text: str
    number: float | None = None
    best: bool = False


def sortable_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Entry]]) -> str:
    """Return a table that can be sorted."""
    rows = list(rows)
    numeric = {place for row in rows for place, entry in enumerate(row) if entry.number is not None} - {0}
    cells = [
        "".join(_cell(entry, place, place in numeric) for place, entry in enumerate(row)) for row in rows
    ]
    return framed_table("sortable", caption, header, cells, numeric)


def framed_table(
    kind: str, caption: str, header: Sequence[str], rows: Iterable[str], numeric: Container[int] = ()
) -> str:
    """Return a table in a frame that scrolls, also by keyboard, where the screen is narrow.

    Titles of the columns `numeric`, counted from 0, stand at the right, as their cells with `NUMBER` do.
    """
    head = "".join(
        f'<th scope="col"{NUMBER * (place in numeric)}>{escape(title)}</th>'
        for place, title in enumerate(header)
    )
    body = "\n".join(f"<tr>{cells}</tr>" for cells in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _cell(entry: Entry, place: int, is_numeric: bool) -> str:
    text = f"<strong>{escape(entry.text)}</strong>" if entry.best else escape(entry.text)
    known = entry.number is not None and not math.isnan(entry.number)
    number = f' data-number="{entry.number:.10g}"' if known else ""
    return (
        f'<th scope="row"{number}>{text}</th>'
        if place == 0
        else f"<td{number}{NUMBER * is_numeric}>{text}</td>"
    )


def definitions(facts: Mapping[str, str]) -> str:
    """Return names and what they stand for."""
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def badge(word: str) -> str:
    """Return a verdict in its colour."""
    kind = "held" if "hold" in word else "failed" if "fail" in word else "open"
    return f'<span class="verdict {kind}">{word}</span>'


def emphasised(text: str) -> str:
    """Return text whose **words** are strong and whose *words* are emphasised."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", bold)


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>"
