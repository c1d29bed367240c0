"""Where and how output appears: answers on standard output, everything about them on standard error.

On a terminal an answer has boxes and bold type. In a pipe or a file, and after ``--quiet``, it is plain: a
row is one line, however long, its cells are at least two spaces apart, and an empty cell is a dash. Warnings
are always shown; after ``--quiet``, notes and the names of written files are left out.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


class Screen:
    """The place where answers are shown.

    Examples
    --------
    >>> table = Table("state", "bias", title="Values")
    >>> table.add_row("up", "[bold]0.5[/bold]")
    >>> table.add_row("down", "")
    >>> Screen().print(table)
    Values
    state  bias
    up     0.5
    down   -
    """

    _is_plain: ClassVar[bool] = False

    def __init__(self) -> None:
        self._console = Console()

    @staticmethod
    @contextmanager
    def plainly() -> Iterator[None]:
        """Show only rows and warnings inside the block, also on a terminal."""
        before, Screen._is_plain = Screen._is_plain, True
        try:
            yield
        finally:
            Screen._is_plain = before

    def print(self, *parts: Table | Text | str, style: str | None = None) -> None:
        """Show tables and lines of an answer; lines that are plain strings may have markup."""
        if self._console.is_terminal and not self._is_plain:
            self._console.print(*map(self._fitting, parts), style=style)
            return
        for part in parts:
            print("\n".join(rows_of(part)) if isinstance(part, Table) else _words(part))

    def _fitting(self, part: Table | Text | str) -> Table | Text | str:
        """Return a table with its columns below each other if the terminal is too narrow for its words."""
        if not isinstance(part, Table) or not part.show_header:
            return part
        needed = self._console.measure(part, options=self._console.options.update(max_width=10_000)).minimum
        return part if needed <= self._console.width else stacked(part)

    def say(self, warnings: list[str], notes: list[str]) -> None:
        """Write warnings and notes to standard error, a line each."""
        for word in warnings:
            tell(f"warning: {word}")
        for word in () if self._is_plain else notes:
            tell(f"note: {word}")


def tell(words: str) -> None:
    """Write a line to standard error, after everything that was printed before.

    Examples
    --------
    >>> tell("page: answer.html")
    """
    sys.stdout.flush()
    print(words, file=sys.stderr, flush=True)


def stacked(table: Table) -> Table:
    """Return a table with a line for each cell, beside the name of its column.

    Examples
    --------
    >>> table = Table("state", "bias", title="Values")
    >>> table.add_row("up", "0.5")
    >>> rows_of(stacked(table))
    ['state  up', 'bias   0.5']
    """
    lines = Table("", Column(overflow="fold"), show_header=False, title=table.title)
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, cells, strict=True):
            lines.add_row(column.header, cell)
        lines.add_section()
    return lines


def rows_of(table: Table) -> list[str]:
    """Return the rows of a table as lines; if its columns have names, its title and these come first.

    Examples
    --------
    >>> table = Table(show_header=False, title="Solution")
    >>> table.add_row("gain", "0.5")
    >>> table.add_row("error of the gain", "1e-16")
    >>> rows_of(table)
    ['gain               0.5', 'error of the gain  1e-16']
    """
    columns = [[_words(cell) or "-" for cell in column.cells] for column in table.columns]
    rows = [list(cells) for cells in zip(*columns, strict=True)]
    lines = []
    if table.show_header:
        rows.insert(0, [_words(column.header) for column in table.columns])
        lines = [_words(table.title)] if table.title else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return lines + [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _words(part: Any) -> str:
    """Return what a cell or a line says, on one line and without markup."""
    text = part if isinstance(part, Text) else Text.from_markup(str(part))
    return printable(" ".join(text.plain.split()))


def printable(words: str) -> str:
    r"""Return a text without characters that a terminal would take for commands.

    Examples
    --------
    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    """
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in words)


@contextmanager
def telling_of(command: str) -> Iterator[None]:
    """Write warnings inside the block to standard error, and say once that kernels are being compiled.

    Parameters
    ----------
    command : str
        The command that these lines are about.
    """

    def in_a_line(message: Warning | str, *_: Any, **__: Any) -> str:
        return f"{command}: warning: {message}\n"

    once = _Once(command)
    logger = logging.getLogger("gainbias")
    before, level = warnings.formatwarning, logger.level
    warnings.formatwarning = in_a_line
    logger.addHandler(once)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        warnings.formatwarning = before
        logger.removeHandler(once)
        logger.setLevel(level)


class _Once(logging.Handler):
    """Writes a notice of the package to standard error the first time that it is given."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if words not in self._told and not Screen._is_plain:
            self._told.add(words)
            tell(f"{self._command}: {words}")
