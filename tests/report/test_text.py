"""Markdown and LaTeX of the sheets."""

import math
import shutil
import subprocess

import pytest

from gainbias.report.data.results import FAIR_SCORES, summary_table
from gainbias.report.paper_tables import (
    best_of,
    conditions_sheet,
    conditions_table,
    distances_sheet,
    distances_table,
    parameters_sheet,
    parameters_table,
    summary_sheet,
)
from gainbias.report.text import Sheet, TableCell, escape_latex, latex, markdown, scaled_text, spread_text
from tests.report.latex import problems
from tests.report.synthetic import FEW, make_paper

NASTY = r"50 % of a_b & #3 {x} ~ ^ \ $ ± η₁ <1e-05>"


@pytest.fixture(scope="module")
def sheets(results, paper):
    """All sheets of a small study, in which one task was not run."""
    paper = make_paper((*FEW, "frozen-lake"))
    distances, conditions = distances_table(results, paper), conditions_table(results, paper)
    parameters = parameters_table(results, paper)
    found = [summary_sheet(summary_table(results, FAIR_SCORES))]
    for protocol in ("literal", "inferred"):
        found += [distances_sheet(distances, protocol), conditions_sheet(conditions, protocol)]
        found.append(parameters_sheet(parameters, protocol))
    return found


def test_latex_is_well_formed(sheets):
    for sheet in sheets:
        assert problems(latex(sheet)) == []


def test_nasty_names_are_escaped():
    sheet = Sheet("n", NASTY, [NASTY, NASTY], [[[TableCell(NASTY), TableCell(NASTY, best=True)]]], [NASTY])
    assert problems(latex(sheet)) == []
    escaped = r"50 \% of a\_b \& \#3 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$"
    assert escape_latex(NASTY).startswith(escaped)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (r"\_", "_"),
        (r"\end{tabular}", r"\end{tabula}"),
        (r"{\boldmath", r"{{\boldmath"),
        (r"$\pm$", r"$\pm"),
        (r" & b", " & b & c"),
        (r"\eta", "η"),
    ],
)
def test_the_check_of_latex_can_fail(good, bad):
    text = latex(
        Sheet(
            "n",
            "a_b",
            ["η₁", "b"],
            [[[TableCell("1 ± 2"), TableCell("b", best=True)], [TableCell("a"), TableCell("b")]]],
        )
    )
    assert problems(text) == []
    assert good in text
    assert problems(text.replace(good, bad, 1))


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no TeX here; the well-formedness test stands in"
)
def test_latex_compiles(sheets, tmp_path):
    body = "\n".join(latex(sheet) for sheet in sheets)
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "all.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_markdown_rows_have_as_many_cells_as_the_header(sheets):
    for sheet in sheets:
        lines = [line for line in markdown(sheet).splitlines() if line.startswith("|")]
        assert len(lines) == 2 + sum(len(group) for group in sheet.groups)
        assert {line.count("|") - line.count("\\|") for line in lines} == {len(sheet.header) + 1}


def test_a_task_has_ours_the_papers_and_their_ratio(sheets):
    sheet = next(sheet for sheet in sheets if sheet.name == "distances-literal")
    ours, printed, ratio = sheet.groups[0]
    assert [cell.text for cell in ours[:2]] == ["Taxi", "ours"]
    assert [cell.text for cell in printed[2:]] == [f"{x} ± 0.05" for x in ("2.00", "0.50", "1.00", "1.10")]
    assert (
        [cell.best for cell in ours[2:]] == [cell.best for cell in printed[2:]] == [False, True, False, False]
    )
    assert all(cell.text.endswith("of 3)") for cell in ratio[2:])
    assert [cell.text for cell in sheet.groups[-1][0][2:]] == ["not run"] * 4


def test_the_largest_condition_number_is_the_best(sheets):
    sheet = next(sheet for sheet in sheets if sheet.name == "condition-numbers-literal")
    assert [cell.best for cell in sheet.groups[0][0][2:]] == [True, False, False, False]


def test_parameters_that_were_not_stored_are_said_to_be_so(sheets):
    sheet = next(sheet for sheet in sheets if sheet.name == "parameters-inferred")
    assert sheet.groups[0][0][-1].text == "epsilon not stored"
    assert sheet.groups[0][0][2].text == "150/(t+1000)"


def test_equal_as_printed_share_the_first_place():
    assert best_of([0.044, 0.0351, 0.12], spread_text) == [True, True, False]
    assert best_of([1e-3, 3.6401e-3, 3.6404e-3], scaled_text(1e-3), largest=True) == [False, True, True]
    assert best_of([math.inf, math.nan], spread_text) == [False, False]
    assert best_of([math.inf, 2.0], spread_text) == [False, True]
