"""Settings of the documentation."""

import re
import sys
from pathlib import Path
from typing import Any

import gainbias

SOURCE = Path(__file__).parent
sys.path.insert(0, str(SOURCE.parent))

from docs._ext.algorithm_pages import write_algorithm_pages  # noqa: E402
from docs._ext.choice import write_choice_tables  # noqa: E402
from docs._ext.notebooks import write_notebook  # noqa: E402
from docs._ext.series_pictures import write_series_pictures  # noqa: E402
from docs._ext.statements import write_statement_tables  # noqa: E402
from docs._ext.task_pages import write_task_pages  # noqa: E402

project = "gainbias"
author = copyright = "The gainbias authors"
release = version = gainbias.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docs._ext.run",
]
exclude_patterns = ["_build", "_ext", "_generated"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4
copybutton_prompt_text = ">>> |... "
copybutton_prompt_is_regexp = True

pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = "gainbias"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#005f94"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#7cc4ee"},
}


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


def tidy_examples(app: Any, page: str, source: list[str]) -> None:
    """Drop the empty line at the end of examples, which only those who run them need."""
    source[0] = re.sub(r"^(```python\n.*?)\n\n```$", r"\1\n```", source[0], flags=re.DOTALL | re.MULTILINE)


def write_pages(app: Any) -> None:
    """Write the pages, and parts of pages, that follow from the registries and from measurements."""
    (SOURCE / "_generated").mkdir(exist_ok=True)
    write_algorithm_pages(SOURCE)
    write_task_pages(SOURCE)
    write_choice_tables(SOURCE)
    write_series_pictures(SOURCE)
    write_statement_tables(SOURCE)


def setup(app: Any) -> None:
    """Register the hooks above; formulas are escaped before the sections of a docstring are read."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", tidy_examples)
    app.connect("doctree-read", write_notebook)
    app.connect("autodoc-process-docstring", escape_formulas, priority=400)
