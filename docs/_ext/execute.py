"""Code of a page, run block by block as a reader would."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from docs._ext.pictures import WEB
from gainbias.report.figures.style import drawing

matplotlib.use("agg")

BLOCK = re.compile(r"^```\{run\}\n(?::\w+:[^\n]*\n)*\n?(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
"""A block of a page that is run when the page is built."""


@dataclass
class Shown:
    """What a block shows: what it prints, its figures, and, if it has none, the value of its last line."""

    text: str
    figures: list[Any]


DATA = Path(__file__).parents[1] / "data"
"""Files that pages read."""


class Session:
    """The names that the blocks of one page share, and a folder of their own with the files of `DATA`."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.folder = tempfile.mkdtemp(prefix="page-")
        for file in DATA.glob("*.csv"):
            shutil.copy(file, self.folder)
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def run(self, code: str) -> Shown:
        r"""Run a block.

        Examples
        --------
        >>> session = Session()
        >>> session.run("x = 6").text, session.run("print('seven'); 7 * x").text
        ('', 'seven\n42\n')
        """
        printed = io.StringIO()
        with (
            drawing(WEB),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(printed),
        ):
            import matplotlib.pyplot as plt

            plt.close("all")  # what was drawn elsewhere is not of this block
            value = self._value_of_last_line(ast.parse(code).body)
            figures = [plt.figure(number) for number in plt.get_fignums()]
            plt.close("all")
        if isinstance(value, Figure):
            figures.append(value)
        if value is not None and not figures:
            printed.write(f"{value!r}\n")
        return Shown(printed.getvalue(), figures)

    def _value_of_last_line(self, lines: list[ast.stmt]) -> Any:
        """Run lines, and return what the last one is worth if it is an expression."""
        last = lines.pop() if isinstance(lines[-1], ast.Expr) else None
        exec(compile(ast.Module(lines, []), "<page>", "exec"), self.names)
        return last and eval(compile(ast.Expression(last.value), "<page>", "eval"), self.names)


def blocks_of(page: str) -> list[str]:
    r"""Return the code of the blocks of a page that are run.

    Examples
    --------
    >>> blocks_of("Text.\n\n```{run}\n:alt: a line\n\nx = 1\n```\n")
    ['x = 1\n']
    """
    return [block["code"] for block in BLOCK.finditer(page)]
