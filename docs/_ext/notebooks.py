"""Tutorials as notebooks: text and code of a page, with what the code showed when the page was built."""

from __future__ import annotations

import ast
import base64
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs._ext.execute import BLOCK, Shown

if TYPE_CHECKING:
    from docutils import nodes

FOLDER = "notebooks"
"""Where they are in the site."""

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
ROLE = re.compile(r"\{\w+\}`([^`<]+?)(?: <[^>]+>)?`")
INCLUDED = re.compile(
    r"^```\{literalinclude\} (\S+)\n(?::language:[^\n]*\n):pyobject: (\w+)\n```$", re.MULTILINE
)


def notebook_of(page: str, shown: Sequence[Shown], folder: Path) -> dict[str, Any]:
    r"""Return a page as a notebook, ready for JSON.

    Parameters
    ----------
    page : str
        Markdown with blocks ``{run}``.
    shown : sequence of Shown
        What each block showed.
    folder : Path
        Where the page is, from which paths of included files count.

    Examples
    --------
    >>> book = notebook_of("# Seven\n\n```{run}\n6 + 1\n```\n", [Shown("7\n", [])], Path("."))
    >>> [(cell["cell_type"], cell["source"]) for cell in book["cells"]]
    [('markdown', '# Seven'), ('code', '6 + 1')]
    """
    cells, end = [], 0
    for number, (block, one) in enumerate(zip(BLOCK.finditer(page), shown, strict=True), 1):
        cells += _text(page[end : block.start()], folder)
        cells.append(
            {
                "cell_type": "code",
                "execution_count": number,
                "metadata": {},
                "outputs": _outputs(one),
                "source": block["code"].strip(),
            }
        )
        end = block.end()
    cells += _text(page[end:], folder)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


def _text(text: str, folder: Path) -> list[dict[str, Any]]:
    """Return a cell of text, if there is any; links to other pages of the site become words."""

    def included(match: re.Match[str]) -> str:
        return f"```python\n{source_of(folder / match[1], match[2])}\n```"

    plain = ROLE.sub(r"\1", LINK.sub(r"\1", INCLUDED.sub(included, text))).strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": plain}] if plain else []


def source_of(file: Path, name: str) -> str:
    """Return the source of a function of a file."""
    source = file.read_text(encoding="utf-8")
    [found] = [part for part in ast.parse(source).body if getattr(part, "name", None) == name]
    return ast.get_source_segment(source, found) or ""


def _outputs(shown: Shown) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if shown.text:
        outputs.append({"output_type": "stream", "name": "stdout", "text": shown.text})
    for figure in shown.figures:
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=120)
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return outputs


def write_notebook(app: Any, doctree: nodes.document) -> None:
    """Write the notebook of a tutorial that was just read, and link to it at the end of its page."""
    from docutils import nodes  # only Sphinx needs it

    name = app.env.docname
    shown = app.env.temp_data.get("shown")
    if not name.startswith("tutorials/") or not shown:
        return
    page = Path(app.env.doc2path(name))
    book = notebook_of(page.read_text(encoding="utf-8"), shown, page.parent)
    file = Path(app.outdir) / FOLDER / f"{page.stem}.ipynb"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(book, indent=1) + "\n", encoding="utf-8")
    link = nodes.reference("", "Download this page as a notebook", refuri=f"../{FOLDER}/{file.name}")
    doctree[-1].append(nodes.paragraph("", "", link, nodes.Text(".")))
