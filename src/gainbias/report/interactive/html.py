"""One HTML file with all of the page in it: data, style, scripts and the library that draws."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from gainbias.report.interactive.data import chart_data
from gainbias.report.interactive.sections import study_section, tables_section, verdicts_section, warning
from gainbias.report.printed import Paper
from gainbias.report.results import Archive
from gainbias.report.study_tables import StudyTables
from gainbias.store import write_whole

PAGE = "index.html"
"""Name of the page in the folder of a report."""

SCRIPTS = ("plotly-cartesian.min.js", "chart.js", "maps.js", "page.js")
"""In the order in which they run: the library, and ours."""


POLICY = (
    "default-src 'none'; form-action 'none'; base-uri 'none'; img-src data: blob:; style-src 'unsafe-inline'"
)


def write_page(results: Archive, paper: Paper, tables: StudyTables, path: Path) -> Path:
    """Write the interactive page of a study, and return its path."""
    write_whole(path, page_html(results, paper, tables).encode())
    return path


def page_html(results: Archive, paper: Paper, tables: StudyTables) -> str:
    """Return the interactive page of a study.

    The page may run these scripts, by their checksums, and no others; it may load nothing. So it works
    without a network, and text that got into a name cannot become a program.
    """
    return assembled(
        "page.html",
        SCRIPTS,
        warning=warning(results.manifest),
        study=study_section(results.manifest),
        tables=tables_section(tables),
        verdicts=verdicts_section(tables, paper, results.manifest),
        data=script_data(chart_data(results, paper)),
    )


def assembled(template: str, names: Sequence[str], **parts: str) -> str:
    """Return a page: a template with its parts, our style, and the scripts that it alone may run."""
    scripts = [_asset(name) for name in names]
    return Template(_asset(template)).substitute(
        parts,
        policy=f"{POLICY}; script-src {' '.join(map(_checksum, scripts))}",
        style=_asset("page.css"),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def script_data(data: Any) -> str:
    r"""Return data as compact JSON that cannot end the element it stands in.

    Examples
    --------
    >>> script_data({"name": "</script>", "values": [1, 2]})
    '{"name":"\\u003c/script>","values":[1,2]}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _checksum(script: str) -> str:
    """Return what names an inline script in the page's policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
