"""Settings of the documentation."""

import re
from typing import Any

import gainbias

project = "gainbias"
author = "The gainbias authors"
release = version = gainbias.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
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


def setup(app: Any) -> None:
    """Register the hook above, before the sections of a docstring are read."""
    app.connect("autodoc-process-docstring", escape_formulas, priority=400)
