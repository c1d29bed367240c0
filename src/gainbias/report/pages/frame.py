"""What every page consists of: the frame of one HTML file, and pieces of HTML; all text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import platform
import re
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape, unescape
from importlib import resources
from string import Template
from typing import Any, NamedTuple

import numpy as np

import gainbias
from gainbias.evaluation.gain.verdict import Verdict
from gainbias.experiments.provenance import package_versions
from gainbias.report.figures.style import LineStyle

PAGE = "index.html"
"""Name of the page in the folder of a report."""

BASICS = ("plotly-cartesian.min.js", "common.js")
"""Scripts that every page runs first: the charting library, and what our other scripts share."""

POLICY = (
    "default-src 'none'; form-action 'none'; base-uri 'none'; img-src data: blob:; style-src 'unsafe-inline'"
)

MARKERS = {
    "s": "square",
    "o": "circle",
    "^": "triangle-up",
    "D": "diamond",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
}
"""The charts' names for the markers of figures."""


def assembled(template: str, names: Sequence[str], *, title: str, data: str, **parts: str) -> str:
    """Return a page: a template with its parts and data, our style, and the only scripts that it may run."""
    scripts = [_asset(name) for name in (*BASICS, *names)]
    return Template(_asset("frame.html")).substitute(
        title=title,
        body=Template(_asset(template)).substitute(parts, title=title),
        data=data,
        policy=f"{POLICY}; script-src {' '.join(map(_checksum, scripts))}",
        style=_asset("page.css"),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _checksum(script: str) -> str:
    """Return the name of an inline script in the page's policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def script_data(data: Any) -> str:
    r"""Return data as compact JSON that cannot end the element it stands in.

    Examples
    --------
    >>> script_data({"name": "</script>", "values": [1, 2]})
    '{"name":"\\u003c/script>","values":[1,2]}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def short(number: float) -> float | None:
    """Return a number with four digits; None stands for what JSON does not have.

    Examples
    --------
    >>> short(0.123456), short(float("inf"))
    (0.1235, None)
    """
    return float(f"{number:.4g}") if math.isfinite(number) else None


def known_steps(value: float, why: str = "") -> str:
    """Return a number of steps in words, with two digits, and a remark on why it matters.

    Examples
    --------
    >>> known_steps(1.0), known_steps(38.74, ", the memory of the chain")
    ('1 step', '39 steps, the memory of the chain')
    """
    value = float(f"{value:.2g}")
    return known_number(value, f" step{'s' * (f'{value:.4g}' != '1')}{why}")


def known_number(value: float, unit: str = "") -> str:
    """Return a number with its unit, or that it is not known or has no bound.

    Examples
    --------
    >>> known_number(12345.6, " s"), known_number(float("nan")), known_number(float("inf"))
    ('12,350 s', 'not known', 'without bound')
    """
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "without bound"
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}{unit}" if 1e4 <= abs(rounded) < 1e12 else f"{rounded:.4g}{unit}"


MOST_CURVE_POINTS = 60
"""A curve with more checkpoints is thinned to this many."""


def thinned(count: int, most: int = MOST_CURVE_POINTS) -> Any:
    """Return the positions of at most `most` points, spread evenly, including the first and the last.

    Examples
    --------
    >>> thinned(3), thinned(9, most=3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def clock(seconds: float) -> str:
    """Return a time, in seconds since 1970, as a date and a time of day.

    Examples
    --------
    >>> clock(0.0)
    '1970-01-01 00:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def chart_look(look: LineStyle) -> dict[str, str]:
    """Return the look of a line in the words of the library that draws charts.

    Examples
    --------
    >>> chart_look(LineStyle("#0072B2", "o", (0.0, (4.0, 1.5))))
    {'colour': '#0072B2', 'dashes': '12px,4.5px', 'marker': 'circle'}
    """
    dashes = "solid" if look.dashes == "-" else ",".join(f"{3 * part:g}px" for part in look.dashes[1])
    return {"colour": look.colour, "dashes": dashes, "marker": MARKERS.get(look.marker, "star")}


NUMBER = ' class="number"'
"""Class of a cell whose text is aligned to the right."""


class Entry(NamedTuple):
    """Text of a cell, the number that it is sorted by if there is one, and whether it is the best."""

    text: str
    number: float | None = None
    best: bool = False


def sortable_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Entry]]) -> str:
    """Return a table that readers can sort."""
    rows = list(rows)
    numeric = {place for row in rows for place, entry in enumerate(row) if entry.number is not None} - {0}
    cells = [
        "".join(_cell(entry, header[place], place, place in numeric) for place, entry in enumerate(row))
        for row in rows
    ]
    return framed_table("sortable", caption, header, cells, numeric)


def framed_table(
    kind: str, caption: str, header: Sequence[str], rows: Iterable[str], numeric: Container[int] = ()
) -> str:
    """Return a table in a frame that scrolls, also by keyboard, where the screen is narrow.

    Titles of the columns `numeric`, counted from 0, are aligned to the right, as are cells with `NUMBER`.
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


def _cell(entry: Entry, title: str, place: int, is_numeric: bool) -> str:
    text = f"<strong>{escape(entry.text)}</strong>" if entry.best else escape(entry.text)
    known = entry.number is not None and not math.isnan(entry.number)
    number = f' data-number="{entry.number:.10g}"' if known else ""
    return (
        f'<th scope="row"{number}>{text}</th>'
        if place == 0
        else f'<td{number} data-title="{escape(title)}"{NUMBER * is_numeric}>{text}</td>'
    )


def definitions(facts: Mapping[str, str]) -> str:
    """Return names and their texts as a list of definitions."""
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def badge(word: str) -> str:
    """Return a verdict as a badge in its colour; the badge is hollow if the verdict only seems so.

    Examples
    --------
    >>> badge("holds"), badge("seems to fail")
    ('<span class="verdict held">holds</span>', '<span class="verdict failed unsure">seems to fail</span>')
    """
    kind = "held" if "hold" in word else "failed" if "fail" in word else "open"
    kind += " unsure" * word.startswith("seems")
    return f'<span class="verdict {kind}">{word}</span>'


def conclusion(
    verdict: Verdict,
    is_doubted: bool,
    warnings: Iterable[str],
    steps: Iterable[str] = (),
    also: str = "",
) -> str:
    """Return a verdict in words, with what to do next, and then the warnings that say something different.

    Parameters
    ----------
    verdict : Verdict
    is_doubted : bool
        Whether something other than the verdict puts the answer in doubt.
    warnings : iterable of str
    steps : iterable of str
        What to do next.
    also : str
        What was found besides the reason for the verdict.
    """
    others = listed("Warnings", (text for text in warnings if text != verdict.words))
    return concluded(verdict.words, colour_of(verdict, is_doubted), steps, also) + (
        f'<div class="warning" role="note">{others}</div>' if others else ""
    )


def colour_of(verdict: Verdict, is_doubted: bool) -> str:
    """Return the class of a verdict: it is trusted, in doubt or not trusted."""
    return ("open" if is_doubted else "held") if verdict.is_trusted else "failed"


def trust_of(verdict: Verdict) -> str:
    """Return the class of a number that may not be trusted, so that it does not look like an answer."""
    return "" if verdict.is_trusted else " untrusted"


def interval_of(words: str, verdict: Verdict) -> str:
    """Return an interval in words; of one that may not be trusted they say so.

    Examples
    --------
    >>> interval_of("95% interval 1 to 2", Verdict("drifting", False, "drifting: away"))
    '95% interval 1 to 2: do not use it'
    """
    return words if verdict.is_trusted or "no interval" in words else f"{words}: do not use it"


def concluded(words: str, colour: str, steps: Iterable[str], also: str = "") -> str:
    """Return a conclusion as a box in the colour of a class, with what else was found and what to do next."""
    return (
        f'<div class="conclusion {colour}" role="note">'
        f"{paragraph(f'{words[:1].upper()}{words[1:]}.')}{paragraph(also) if also else ''}"
        f"{listed('What to do next', steps)}</div>"
    )


def listed(title: str, texts: Iterable[str], level: int = 2) -> str:
    """Return texts as a list under a title; nothing if there are none."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<h{level}>{escape(title)}</h{level}><ul>{items}</ul>" if items else ""


def dated(made: Mapping[str, str]) -> dict[str, str]:
    """Return how something came about, with the date of its page and the versions that wrote it."""
    versions = {
        "gainbias": gainbias.__version__,
        "Python": platform.python_version(),
        **{name: version for name, version in package_versions().items() if version},
    }
    return {
        **made,
        "Page written": clock(time.time()),
        "By": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def emphasised(text: str) -> str:
    """Return text whose **words** are strong and whose *words* are emphasised."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", bold)


def paragraph(text: str) -> str:
    """Return text as a paragraph."""
    return f"<p>{escape(text)}</p>"


GREEK = "alpha|beta|epsilon|eta|gamma|lambda|mu|phi|Phi|sigma|tau|theta|xi"

_MATHEMATICS: tuple[tuple[str, str], ...] = (
    (r"(?<![\w.])1e([+-]?)0*(\d+)(?!\w)", r"10^\1\2"),
    (r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)(?!\w)", r"\1 · 10^\2\3"),
    ("&gt;=", "≥"),
    ("&lt;=", "≤"),
    (r"(?<=theta) - (?=theta)", " &#8722; "),
    (r"\bsqrt\(", "√("),
    (r"(?<![\w-])a(?= (?:eta\d|/ |= \d))", "<i>a</i>"),
    (r"(?<=\d)a(?=\))", "<i>a</i>"),
    (r"(?<![\w<;-])([dntxT])(?![\w>-])", r"<i>\1</i>"),
    (r"(?<![\w-])c0(?![\w-])", "<i>c</i><sub>0</sub>"),
    (r"\^\(([^()]*)\)", r"<sup>\1</sup>"),
    (r"\^(<i>T</i>|[+-]?[\d.]*\d)", r"<sup>\1</sup>"),
    (rf"(?<![\w-])({GREEK})(\d?)(\*?)(?![a-zA-Z\d-])", r"<i>\1</i><sub>\2</sub><sup>\3</sup>"),
    (r"(?<=</sup>)_(min|max)\b", r"<sub>\1</sub>"),
    (r"(?<=\|)_(Dir)\b", r"<sub>\1</sub>"),
    (r"<(sub|sup)></\1>", ""),
    (r"(?<=<sup>)-", "&#8722;"),
    (r"(?<=<sup>)\+", ""),
    (r"<sup>\*</sup>", "<sup>&#8727;</sup>"),
)
"""Patterns of plain text, as in a terminal, and their replacements, applied one after the other."""


def typeset(text: str) -> str:
    """Return escaped text in which plain-text mathematics, as in a terminal, is typeset.

    Charts understand the result, too. Words that only look like mathematics, as in the name td-lambda, stay
    as they are.

    Examples
    --------
    >>> typeset("at most eta1^-2 & 1/T in td-lambda")
    'at most <i>η</i><sub>1</sub><sup>&#8722;2</sup> &amp; 1/<i>T</i> in td-lambda'
    >>> typeset("2.1e-04 of 1e12")
    '2.1 · 10<sup>&#8722;4</sup> of 10<sup>12</sup>'
    """
    html = escape(text)
    for pattern, meant in _MATHEMATICS:
        html = re.sub(pattern, meant, html)
    return re.sub(rf"<i>({GREEK})</i>", lambda found: f"<i>{unescape(f'&{found[1]};')}</i>", html)
