"""Settings of the documentation."""

import re
from pathlib import Path
from typing import Any

import gainbias
from gainbias.algorithms.listing import describe_algorithms

project = "gainbias"
author = "The gainbias authors"
release = version = gainbias.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_generated"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
html_theme = "alabaster"


def escape_formulas(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write |x| for a length and W* for a name: they are not reStructuredText markup here."""
    literal = re.compile(r"(``.*?``|`[^`]+`)")
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example and not line.lstrip().startswith((":", "..")):
            pieces = literal.split(line)
            pieces[::2] = [re.sub(r"(?<!\*)([|*])(?!\*)", r"\\\1", piece) for piece in pieces[::2]]
            lines[number] = "".join(pieces)


def write_algorithms(app: Any) -> None:
    """Write the pages' parts that follow from the registry of algorithms."""
    lines = ["| id | converges to | transitions a step | row of the paper's Table 1 |", "|---|---|---|---|"]
    for entry in describe_algorithms():
        row = entry["table_row"] or ("ours" if entry["ours"] else "none")
        cells = [f"`{entry['id']}`", entry["converges_to"], str(entry["transitions_per_step"]), row]
        lines.append(f"| {' | '.join(cells)} |")
    for entry in describe_algorithms():
        module = entry["id"].replace("-", "_")
        lines += ["", f"## {entry['id']}", "", "```{eval-rst}"]
        lines += [f".. automodule:: gainbias.algorithms.{module}", "```", ""]
        lines += [f"- {reference}" for reference in entry["references"]]
    folder = Path(__file__).parent / "_generated"
    folder.mkdir(exist_ok=True)
    (folder / "algorithms.md").write_text("\n".join(lines) + "\n")


def setup(app: Any) -> None:
    """Register the hooks above; formulas are escaped before the sections of a docstring are read."""
    app.connect("builder-inited", write_algorithms)
    app.connect("autodoc-process-docstring", escape_formulas, priority=400)
