"""All files of a report, and what the page of verdicts says."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest

from gainbias.report.data.study_claims import STUDY_CLAIMS
from gainbias.report.data.verdicts import unexplained, verdict_table
from gainbias.report.figures.style import SIZES
from gainbias.report.paper_tables import study_tables
from gainbias.report.reproduction import (
    findings_from,
    write_figures,
    write_scores,
    write_study_tables,
    write_texts,
)
from gainbias.report.verdicts_page import verdicts_page
from tests.report.synthetic import FEW, make_paper, make_results


@pytest.fixture(scope="module")
def page(results, paper):
    odd = paper._replace(distances=paper.distances.assign(mean=paper.distances["mean"] + 500.0))
    return page_of(results, odd, paper)


def page_of(results, odd, paper, findings="findings.md", **changes):
    manifest = results.manifest | changes
    return verdicts_page(
        verdict_table(STUDY_CLAIMS, results), unexplained(results, odd), paper, manifest, findings
    )


@pytest.mark.slow
def test_a_report_is_complete(results, paper, tmp_path):
    paths = write_texts(results, paper, tmp_path)
    for size in SIZES:
        paths += write_figures(results, paper, tmp_path / "figures", size)
    names = {str(path.relative_to(tmp_path)) for path in paths}
    assert all(path.stat().st_size > 20 for path in paths)
    for table in ("distances", "condition-numbers", "parameters"):
        assert f"tables/{table}.csv" in names
        for protocol in ("literal", "inferred"):
            assert {f"tables/{table}-{protocol}.{form}" for form in ("md", "tex")} <= names
    for figure in ("curves-literal-steps", "curves-fair-transitions", "profiles", "maps-fair"):
        assert {
            f"figures/{size}/{figure}.{form}" for size in SIZES for form in ("png", "svg", "pdf")
        } <= names
    assert {
        "index.html",
        "verdicts.md",
        "tables/verdicts.csv",
        "tables/unexplained.csv",
        "tables/summary.md",
    } <= names
    assert names == {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}


def test_a_study_of_one_protocol_is_reported(tmp_path, paper):
    results = make_results(tmp_path / "study", tasks=FEW, protocols=("literal",))
    names = {path.name for path in write_study_tables(study_tables(results, paper), tmp_path / "tables")}
    assert "distances-literal.tex" in names
    assert "distances-inferred.tex" not in names
    assert "summary.md" not in names
    assert [path.name for path in write_scores(results, tmp_path / "scores")] == ["literal.npz"]


def test_scores_can_be_loaded_for_rliable(results, tmp_path):
    paths = write_scores(results, tmp_path)
    assert [path.stem for path in paths] == [
        "literal",
        "inferred",
        "fair-full",
        "fair-centred",
        "fair-quotient",
    ]
    with np.load(paths[-1], allow_pickle=False) as arrays:
        assert arrays["single-chain"].shape == (3, 3)


def test_csv_files_are_the_tidy_tables(results, paper, tmp_path):
    write_study_tables(study_tables(results, paper), tmp_path)
    table = pandas.read_csv(tmp_path / "distances.csv")
    assert len(table) == 3 * len(FEW) * 4
    assert {"paper_mean", "our_mean", "our_std", "ratio", "percentile"} <= set(table.columns)


def test_the_page_has_a_section_for_each_claim(page):
    for claim in STUDY_CLAIMS:
        assert f'<a id="{claim.name}"></a>' in page
        assert f"### {claim.text}" in page
        assert f"](#{claim.name})" in page
    assert "The stored runs are not enough to judge this." in page  # variance reduction


def test_the_page_links_to_the_findings(page):
    links = re.findall(r"\]\(findings\.md#(finding-\d+)\)", page)
    assert set(links) == {finding for claim in STUDY_CLAIMS for finding in claim.findings}


def test_without_the_documentation_at_hand_findings_are_named(results, paper):
    page = page_of(results, paper, paper, findings="")
    assert "Findings: 23, 26." in page
    assert "](#finding" not in page


def test_links_to_findings_stay_within_a_checkout(tmp_path):
    checkout = Path(__file__).parents[2]
    inside = findings_from(checkout / "results" / "study")
    assert (checkout / "results" / "study" / "report" / inside).resolve() == checkout / "docs" / "paper.md"
    assert findings_from(tmp_path) == ""


def test_the_page_says_what_was_run(page):
    head = page.split("## In short")[0]
    for line in (
        "| Command | gainbias reproduce |",
        "| Finished | 2026-01-02T03:04:05Z, after 100 s |",
        "| Tasks | 2: taxi, random-walk-50 |",
        "| Runs | 3 literal; each has one instance of every task |",
        "| Seeds | 0 to 2 literal |",
        "| Changed settings | none |",
        "| Variance-reduced TD | constant step size 0.5, inner\\_steps 600 |",
        "| gainbias | 1.2.3+abc |",
        "| Versions | Python 3.11.7, numpy 2.4.6, gymnasium 1.4.0 |",
        "| Environments | Taxi-v4 |",
    ):
        assert line in head, line
    assert "quick look" not in head


def test_the_page_says_what_is_not_the_study(results, paper):
    page = page_of(results, paper, paper, shorten=10, settings={"epsilon": 0.2}, reused=7)
    assert "**Quick look:** 1/10 of the paper's steps" in page
    assert "| Changed settings | epsilon 0.2 |" in page
    assert "after 100 s; 7 of 27 instances had been stored before |" in page


def test_the_page_says_for_how_many_instances_there_are_condition_numbers(page):
    for claim in STUDY_CLAIMS:
        section = page.split(f'<a id="{claim.name}"></a>')[1].split("<a id")[0].split("## Printed")[0]
        said = "Condition numbers are computed for the first 10 instances of a task at most." in section
        assert said == (claim.about == "conditions")


def test_the_page_says_how_often_and_why_not(page):
    section = page.split('<a id="double-chain-keeps-up"></a>')[1].split("<a id")[0]
    assert "By the paper's own tables: in 0 of 3 tasks." in section
    assert "| literal | seems to fail | 0 of 3 [0%, 71%] | 0% |" in section
    assert "it would hold if all are scored by the full error" in section


def test_the_page_names_cells_without_explanation(page, results, paper):
    table = page.split("## Printed numbers that no choice explains")[1]
    assert re.search(r"\| Taxi \| Double chain \| [^|]+ \| 502 \|", table)
    clean = page_of(results, paper, paper)
    assert "None: ours is within a factor of 2 of each under some choice." in clean
    assert "a shortened study judges condition numbers only" not in clean
    assert "a shortened study judges condition numbers only" in page_of(results, paper, paper, shorten=10)


def test_the_page_says_what_it_means_to_fail_in_a_task(page):
    explained = " ".join(page.split("## How to read this page")[1].split())
    assert "*Fails in a task*: in more than half of its runs." in explained


def test_the_page_is_plain_markdown(page):
    for line in page.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    tables = re.findall(r"((?:^\|.*\|\n)+)", page, flags=re.MULTILINE)
    for table in tables:
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(bars) == 1


def test_tasks_that_are_not_the_papers_are_left_out(tmp_path):
    results = make_results(tmp_path, tasks=(*FEW, "river-swim"))
    names = write_study_tables(study_tables(results, make_paper(FEW)), tmp_path / "tables")
    assert "river-swim" not in (tmp_path / "tables" / "distances.csv").read_text()
    assert names
