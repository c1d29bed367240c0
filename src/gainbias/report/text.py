"""Numbers and tables as text: plain for people, Markdown for the web, LaTeX for print.

The functions whose names end in `_text` turn a number into text; they differ in how many digits matter to
the reader. Texts are the cells of a `Sheet`, a table for readers, and `markdown` and `latex` write a
sheet.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gainbias.algorithms.registry import short_title
from gainbias.tasks.registry import task_title


def exact_text(value: float) -> str:
    """Return a number in the fewest digits that stand for this number and no other.

    Examples
    --------
    >>> exact_text(0.1), exact_text(2.0), exact_text(0.99999999)
    ('0.1', '2', '0.99999999')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def distinct_texts(values: Iterable[float]) -> dict[float, str]:
    """Return a text for each number: six digits, or all of them if six would not tell it from the others.

    Numbers that would look rounder than they are with six digits also get all their digits. Entries that
    are not numbers are left out.

    Examples
    --------
    >>> distinct_texts([0.1, 0.00316227766]), distinct_texts([0.9999999, 0.99999999])
    ({0.00316227766: '0.00316228', 0.1: '0.1'}, {0.9999999: '0.9999999', 0.99999999: '0.99999999'})
    """
    known = sorted({float(value) for value in values if value == value})
    texts = {value: f"{value:g}" for value in known}
    counts = Counter(texts.values())
    return {
        value: exact_text(value) if counts[text] > 1 or f"{value:#g}".rstrip(".") != text else text
        for value, text in texts.items()
    }  # if zeros at the end were cut off, the number may look rounder than it is


def number_text(number: float) -> str:
    """Return a number with three digits.

    Examples
    --------
    >>> number_text(0.12345), number_text(float("inf"))
    ('0.123', 'diverged')
    """
    return f"{number:.3g}" if math.isfinite(number) else "diverged"


def interval_text(low: float, high: float) -> str:
    """Return an interval, or a dash.

    Examples
    --------
    >>> interval_text(0.1, 0.2), interval_text(float("nan"), float("nan"))
    ('0.1 to 0.2', '-')
    """
    return f"{low:.3g} to {high:.3g}" if math.isfinite(high) else "-"


def task_words(name: str) -> str:
    """Return the title of a task of a sweep, with the settings in which its variants differ.

    Examples
    --------
    >>> task_words("garnet, num_states 20"), task_words("boyan-chain")
    ('Garnet, 20 states', 'Boyan chain')
    """
    task, *settings = name.split(", ")
    counted = (re.sub(r"^num_(\w+) (\d+)$", r"\2 \1", setting) for setting in settings)
    return ", ".join([task_title(task), *(setting.replace("_", " ") for setting in counted)])


def series_words(name: str) -> str:
    """Return the title of a series of a sweep, with the parameters that vary.

    Examples
    --------
    >>> series_words("td-lambda, trace_decay 0.8"), series_words("single-chain, a/(t+1000)")
    ('TD(0.8)', 'Single chain, a/(t+1000)')
    """
    algorithm, *others = name.split(", ")
    title = "TD(λ)" if algorithm == "td-lambda" else short_title(algorithm)
    words = [word.replace("trace_decay", "λ =").replace("_", " ") for word in others]
    if title == "TD(λ)" and words and words[0].startswith("λ = "):
        title = f"TD({words.pop(0).removeprefix('λ = ')})"
    return ", ".join([title, *words])


def ratio_text(ratio: float) -> str:
    """Return a ratio with two decimals, or with two digits if decimals would be useless.

    Examples
    --------
    >>> ratio_text(1.0), ratio_text(0.0123), ratio_text(123.4), ratio_text(1e6), ratio_text(float("nan"))
    ('1.00', '0.012', '123', '1e+06', '-')
    >>> ratio_text(0.0)
    '0'
    """
    if not math.isfinite(ratio):
        return "-"
    if ratio == 0:
        return "0"
    if ratio >= 10_000 or ratio < 0.001:
        return f"{ratio:.0e}"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def range_text(estimate: float, low: float, high: float) -> str:
    """Return an estimate and its interval.

    Examples
    --------
    >>> range_text(0.5, 0.25, 1.0)
    '0.50 [0.25, 1.00]'
    """
    return f"{ratio_text(estimate)} [{ratio_text(low)}, {ratio_text(high)}]"


def spread_text(mean: float, std: float) -> str:
    """Return a mean and its spread as the paper prints distances, to two decimals.

    Examples
    --------
    >>> spread_text(0.123, 0.016), spread_text(1234.5, 100.0), spread_text(float("inf"), float("nan"))
    ('0.12 ± 0.02', '1.2e+03 ± 1.0e+02', 'diverged')
    """
    if math.isinf(mean):
        return "diverged"
    if mean >= 1000:
        return f"{mean:.1e}" if math.isnan(std) else f"{mean:.1e} ± {std:.1e}"
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def scaled_text(unit: float) -> Callable[[float, float], str]:
    """Return a function that prints a mean and its spread in units, to three decimals.

    Examples
    --------
    >>> scaled_text(1e-3)(0.00364, 0.0002), scaled_text(1e-3)(0.000052, float("nan"))
    ('3.640 ± 0.200', '0.052')
    """

    def text(mean: float, std: float) -> str:
        return f"{mean / unit:.3f}" + ("" if math.isnan(std) else f" ± {std / unit:.3f}")

    return text


class TableCell(NamedTuple):
    """Text of a cell, in plain Unicode, and whether it is the best of its row."""

    text: str
    best: bool = False


class Sheet(NamedTuple):
    """A table for readers.

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
