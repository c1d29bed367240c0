"""Sheets: tables laid out for reading, as Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class TableCell(NamedTuple):
    """Text of a cell, in plain Unicode, and whether it is the best of its row."""

    text: str
    best: bool = False


class Sheet(NamedTuple):
    """A table as it is read.

    Attributes
    ----------
    name : str
        Kebab-case, for files and labels.
    caption : str
    header : sequence of str
    groups : sequence of sequences of rows
        Rows that belong together; a row is a sequence of cells.
    notes : sequence of str
        Printed below the table.
    text_columns : int
        Number of columns from the left that hold words and are aligned left; the others hold numbers.
    """

    name: str
    caption: str
    header: Sequence[str]
    groups: Sequence[Sequence[Sequence[TableCell]]]
    notes: Sequence[str] = ()
    text_columns: int = 1


def markdown(sheet: Sheet) -> str:
    r"""Return a sheet as Markdown.

    Examples
    --------
    >>> row = [TableCell("a|b"), TableCell("0.1", best=True)]
    >>> print(markdown(Sheet("s", "A sheet.", ["task", "error"], [[row]])))
    **A sheet.**
    <BLANKLINE>
    | task | error |
    |---|---:|
    | a\|b | **0.1** |
    """
    lines = [f"**{sheet.caption}**", ""] if sheet.caption else []
    lines.append(_markdown_row([_safe(text) for text in sheet.header]))
    lines.append(f"|{'---|' * sheet.text_columns}{'---:|' * (len(sheet.header) - sheet.text_columns)}")
    for row in (row for group in sheet.groups for row in group):
        lines.append(_markdown_row([f"**{_safe(c.text)}**" if c.best else _safe(c.text) for c in row]))
    return "\n".join(lines + [line for note in sheet.notes for line in ("", note)])


def _markdown_row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _safe(text: str) -> str:
    return re.sub(r"([|*_])", r"\\\1", text)


LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "<": "$<$",
    ">": "$>$",
    "η₁": r"$\eta_1$",
    "η₂": r"$\eta_2$",
    "η₃": r"$\eta_3$",
    "ε": r"$\varepsilon$",
    "λ": r"$\lambda$",
}
_SPECIAL = re.compile("|".join(re.escape(key) for key in LATEX_SPECIAL))
_POWER = re.compile(r"(\b1)?e([+-]\d+)\b")


def escape_latex(text: str) -> str:
    r"""Return plain text as LaTeX: special characters escaped, signs and powers of ten as formulas.

    Examples
    --------
    >>> escape_latex("50 % of a_b, 3.6e-03 ± 1e-4")
    '50 \\% of a\\_b, 3.6${}\\cdot 10^{-3}$ $\\pm$ $10^{-4}$'
    """
    escaped = _SPECIAL.sub(lambda match: LATEX_SPECIAL[match[0]], text)

    def power(match: re.Match[str]) -> str:
        times = "" if match[1] else r"{}\cdot "
        return rf"${times}10^{{{int(match[2])}}}$"

    return _POWER.sub(power, escaped)


def latex(sheet: Sheet) -> str:
    r"""Return a sheet as a LaTeX table; needs ``\usepackage{booktabs}``, and nothing else.

    Examples
    --------
    >>> row = [TableCell("taxi"), TableCell("0.1", best=True)]
    >>> text = latex(Sheet("s", "A sheet.", ["task", "error"], [[row]]))
    >>> [line for line in text.splitlines() if line.startswith("taxi")]
    ['taxi & {\\boldmath\\bfseries 0.1} \\\\']
    """
    lines = [
        rf"\begin{{table}}[p]\centering\caption{{{escape_latex(sheet.caption)}}}",
        rf"\label{{table:{sheet.name}}}",
        r"\scriptsize\setlength{\tabcolsep}{2.5pt}",
        rf"\begin{{tabular}}{{{'l' * sheet.text_columns}{'r' * (len(sheet.header) - sheet.text_columns)}}}",
        r"\toprule",
        _latex_row([escape_latex(text) for text in sheet.header]),
        r"\midrule",
    ]
    for number, group in enumerate(sheet.groups):
        if number and max(len(group), len(sheet.groups[number - 1])) > 1:
            lines.append(r"\addlinespace")
        lines += [_latex_row([_latex_cell(cell) for cell in row]) for row in group]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if sheet.notes:
        notes = r"\\ ".join(escape_latex(note) for note in sheet.notes)
        lines.append(rf"\par\smallskip\parbox{{\linewidth}}{{{notes}}}")
    return "\n".join([*lines, r"\end{table}"])


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_cell(cell: TableCell) -> str:
    text = escape_latex(cell.text)
    return rf"{{\boldmath\bfseries {text}}}" if cell.best else text
