"""List the labelled and numbered statements of the paper, from its LaTeX source.

Run it from the root of a checkout, with the source of the paper; it is needed once for each version::

    python -m tools.paper_statements paper.tex docs/data/paper_statements.json

It lists theorems, lemmas, assumptions, tables and figures, with or without a label; paragraphs that begin
with a bold "Remark"; and labelled equations. An equation inside a theorem or a lemma belongs to it; one that
stands inside a proof is a step of the proof, and is listed as such. Where there is no label, one is made of
the kind and the line.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

KINDS = {
    "theorem": "theorem",
    "lemma": "lemma",
    "proposition": "proposition",
    "corollary": "corollary",
    "definition": "definition",
    "assumption": "assumption",
    "table": "table",
    "table*": "table",
    "figure": "figure",
    "figure*": "figure",
    "wrapfigure": "figure",
}
EQUATIONS = ("equation", "align", "align*", "gather", "eqnarray")
TOKEN = re.compile(
    r"\\begin\{(?P<begin>[\w*]+)\}|\\end\{(?P<end>[\w*]+)\}|\\label\{(?P<label>[^}]*)\}"
    r"|(?P<remark>\\textbf\{Remark:|\{\\bf\s*Remark:)"
)


def statements_of(source: str) -> list[dict[str, Any]]:
    r"""Return label, kind and line of every statement, in the order of the source.

    Examples
    --------
    >>> statements_of("\\begin{lemma}\\label{l: a} x\\end{lemma}\n\\begin{proof}\\label{eq: b}\\end{proof}")
    [{'label': 'l: a', 'kind': 'lemma', 'line': 1}, {'label': 'eq: b', 'kind': 'step of a proof', 'line': 2}]
    """
    open_now: list[tuple[str, dict[str, Any] | None]] = []
    found: list[dict[str, Any]] = []
    for number, line in enumerate(source.splitlines(), start=1):
        text = re.sub(r"(?<!\\)%.*", "", line)
        for token in TOKEN.finditer(text):
            if name := token["begin"]:
                entry = {"label": "", "kind": KINDS[name], "line": number} if name in KINDS else None
                found += [entry] if entry else []
                open_now.append((name, entry))
            elif token["end"]:
                open_now.pop()
            elif token["remark"]:
                found.append({"label": "", "kind": "remark", "line": number})
            elif label := token["label"]:
                _place(label, number, open_now, found)
    for entry in found:
        entry["label"] = entry["label"] or f"{entry['kind']} at line {entry['line']}"
    return found


def _place(
    label: str, line: int, open_now: list[tuple[str, dict[str, Any] | None]], found: list[dict[str, Any]]
) -> None:
    """Assign a label to the statement around it, or list it as a separate equation."""
    around = [(name, entry) for name, entry in open_now if entry is not None or name == "proof"]
    in_equation = any(name in EQUATIONS for name, _ in open_now)
    if around and around[-1][1] is not None:
        if not in_equation:  # if a table has two labels, the one at its caption counts
            around[-1][1]["label"] = label
    elif label.startswith("eq:") or (around and in_equation):
        found.append({"label": label, "kind": "step of a proof" if around else "equation", "line": line})


def main(arguments: list[str]) -> None:
    """Write the list."""
    source, target = map(Path, arguments)
    found = statements_of(source.read_text(encoding="utf-8"))
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in found)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(found)} statements")


if __name__ == "__main__":
    main(sys.argv[1:])
