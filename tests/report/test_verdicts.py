"""Verdicts: how often, in which words, and why not."""

import numpy as np
import pandas
import pytest

from gainbias.report.data.results import FAIR_SCORES, PAPER_SCORES
from gainbias.report.data.study_claims import STUDY_CLAIMS, StudyClaim
from gainbias.report.data.verdicts import (
    COUNTS_CONSTANT,
    OUR_CONSTANTS,
    SCORES,
    caveat,
    judge,
    reason,
    runs_met,
    turning_choices,
    unexplained,
    verdict_table,
)
from gainbias.report.pages.paper_study import _footnotes, _verdict_cell, _verdict_row
from gainbias.report.verdicts_page import verdict_texts, verdicts_page
from tests.report.synthetic import ETAS, FEW, LEVELS, make_results

BY_NAME = {claim.name: claim for claim in STUDY_CLAIMS}
LITERAL = PAPER_SCORES["literal"]


def claim_that(held, scope="most"):
    """Return a claim whose outcome is a given table."""
    table = pandas.DataFrame(np.array(held, dtype=bool), columns=[f"t{k}" for k in range(len(held[0]))])
    return StudyClaim("made-up", "", "", scope, test=lambda source, score: table), table


def test_most_means_more_than_half_and_all_means_all():
    claim, table = claim_that([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
    assert runs_met(claim, table) == 2
    claim, table = claim_that([[1, 1, 0], [1, 0, 0], [1, 1, 1]], scope="all")
    assert runs_met(claim, table) == 1
    claim, table = claim_that([[1, 0], [0, 1]])
    assert runs_met(claim, table) == 0


@pytest.mark.parametrize(
    ("held", "of", "word"),
    [
        (3, 3, "seems to hold"),
        (0, 3, "seems to fail"),
        (2, 4, "undecided"),
        (30, 30, "holds"),
        (2, 30, "fails"),
        (17, 30, "seems to hold"),
    ],
)
def test_words_say_no_more_than_the_runs(held, of, word):
    claim, _ = claim_that([[k < held] for k in range(of)])
    verdict = judge(claim, None, LITERAL)
    assert (verdict.held, verdict.of, verdict.word) == (held, of, word)
    assert verdict.runs.low <= held / of <= verdict.runs.high


def test_pairs_and_failing_tasks_by_hand():
    claim, _ = claim_that([[1, 1, 0], [1, 0, 0], [1, 1, 0]])
    verdict = judge(claim, None, LITERAL)
    assert verdict.pairs.estimate == pytest.approx(5 / 9)
    assert verdict.pairs.low == pytest.approx(3 / 9)  # the sure task, and the doubtful one lost thrice
    assert verdict.pairs.high == pytest.approx(6 / 9)
    assert verdict.failing == ("t2",)
    assert np.isnan(verdict.typical.estimate)


def test_the_typical_ratio_is_the_one_that_was_put_in(tmp_path):
    results = make_results(tmp_path, tasks=FEW, noise=0.0)
    verdict = judge(BY_NAME["single-chain-first"], results, FAIR_SCORES["fair, quotient"])
    assert verdict.typical.estimate == pytest.approx(0.5)


# Reasons


def test_the_metric_is_named_where_it_decides(tmp_path):
    # Behind modulo constants, ahead when the constant counts.
    results = make_results(tmp_path, tasks=FEW, levels=LEVELS | {"single-chain": 1.5, "double-chain": 3.0})
    claim = BY_NAME["most-settings"]
    words = ["if all are scored by the full error", "if all are scored by the centred error"]
    assert turning_choices(claim, results, LITERAL) == words
    why = reason(claim, judge(claim, results, LITERAL), results, LITERAL)
    assert why == f"it would hold {' or '.join(words)}; it fails in every task"


def test_the_budget_is_named_where_it_decides(tmp_path):
    results = make_results(tmp_path, tasks=FEW, levels=LEVELS | {"double-chain": 0.9})
    claim, score = BY_NAME["double-chain-keeps-up"], FAIR_SCORES["fair, quotient"]
    assert "at equal numbers of steps" in turning_choices(claim, results, score)
    assert "at equal numbers of steps" in reason(claim, judge(claim, results, score), results, score)


def test_no_choice_is_said_to_be_so(tmp_path):
    results = make_results(tmp_path, tasks=FEW, levels=LEVELS | {"single-chain": 90.0, "double-chain": 90.0})
    claim = BY_NAME["single-chain-first"]
    assert turning_choices(claim, results, LITERAL) == []
    why = reason(claim, judge(claim, results, LITERAL), results, LITERAL)
    assert why.startswith("no other metric, target or budget alone changes it")


def test_no_choice_is_said_to_be_tried_that_cannot_matter(tmp_path):
    how = {"tasks": FEW, "noise": 0.0, "levels": LEVELS | {"single-chain": 0.999, "double-chain": 3.0}}
    results = make_results(tmp_path / "fair", **how)
    claim = BY_NAME["fair-comparison"]
    why = reason(claim, judge(claim, results, LITERAL), results, LITERAL)
    assert why.startswith("no other target or budget alone changes it")
    far = make_results(tmp_path / "far", tasks=FEW, far_bias=("literal",))
    claim = BY_NAME["reaches-the-bias"]
    why = reason(claim, judge(claim, far, LITERAL), far, LITERAL)
    assert why == f"{claim.because}; it fails in every task"


def test_tasks_that_fail_are_named(tmp_path):
    results = make_results(tmp_path, tasks=FEW)
    claim = BY_NAME["eta1-above-eta3"]
    results.conditions.loc[results.conditions["task"] == "deep-sea", "eta3"] = 1.0
    why = reason(claim, judge(claim, results, LITERAL), results, LITERAL)
    assert why == "it fails in 1 of 3 tasks: Deep sea"


def test_rare_failures_are_said_to_be_rare(tmp_path):
    results = make_results(tmp_path, tasks=FEW)
    for run, task in enumerate(FEW[:2]):
        cell = (results.conditions["task"] == task) & (results.conditions["run"] == run)
        results.conditions.loc[cell, "eta3"] = 1.0
    claim = BY_NAME["eta1-above-eta3"]
    verdict = judge(claim, results, LITERAL)
    assert (verdict.held, verdict.of) == (1, 3)
    assert reason(claim, verdict, results, LITERAL) == "it fails occasionally, but in no task in most runs"


def test_a_known_reason_is_said_where_a_claim_fails(tmp_path):
    results = make_results(tmp_path, tasks=FEW, etas=ETAS | {"eta2": 5e-3})
    claim = BY_NAME["eta1-largest-subspace"]
    assert reason(claim, judge(claim, results, LITERAL), results, LITERAL).startswith(
        "with constants in the span"
    )


def test_there_is_no_reason_where_it_holds(results):
    claim = BY_NAME["single-chain-first"]
    assert reason(claim, judge(claim, results, LITERAL), results, LITERAL) == ""


# The table


def test_the_table_has_the_scores_that_make_sense(results):
    table = verdict_table(STUDY_CLAIMS, results)
    scores = table.groupby("claim")["score"].agg(list)
    assert scores["most-settings"] == [*PAPER_SCORES, *FAIR_SCORES]
    assert scores["fair-comparison"] == ["literal", "inferred"]
    assert scores["eta1-above-eta3"] == ["literal", "inferred", "fair"]
    assert "variance-reduction-slow" not in scores  # not run
    assert (table["reason"].str.len() > 0).equals(table["held"] * 2 <= table["of"])


@pytest.mark.parametrize(
    ("name", "score", "words"),
    [
        ("most-settings", "fair, full", [COUNTS_CONSTANT]),
        ("single-chain-first", "fair, full", [COUNTS_CONSTANT]),
        ("double-chain-keeps-up", "fair, full", [COUNTS_CONSTANT]),
        ("most-settings", "fair, quotient", []),
        ("most-settings", "literal", []),
        ("one-chain-costs-time", "fair, full", []),
        ("one-point", "literal", [COUNTS_CONSTANT]),
        ("variance-reduction-slow", "literal", [OUR_CONSTANTS]),
        ("variance-reduction-slow-all-data", "fair, centred", [OUR_CONSTANTS]),
        ("variance-reduction-slow", "fair, full", [COUNTS_CONSTANT, OUR_CONSTANTS]),
    ],
)
def test_what_a_verdict_must_not_be_quoted_without(name, score, words):
    assert caveat(BY_NAME[name], SCORES[score]) == "; ".join(words)


def test_comparisons_with_baselines_say_what_full_errors_count():
    about_baselines = [claim for claim in STUDY_CLAIMS if "baseline" in claim.text and claim.metric == "any"]
    assert len(about_baselines) > 2
    assert {claim.counts_constant for claim in about_baselines} == {"full"}


def test_caveats_stand_beside_every_verdict(results, paper):
    """In the table, on the page, in short and claim by claim, and on the interactive page."""
    table = verdict_table(STUDY_CLAIMS, results)
    full = table[(table["score"] == "fair, full") & (table["claim"] == "most-settings")].iloc[0]
    assert full["caveat"] == COUNTS_CONSTANT
    assert COUNTS_CONSTANT in verdict_texts(full)[1]
    said = f"{full['word']}, {full['held']} of {full['of']}"
    page = verdicts_page(table, unexplained(results, paper), paper, results.manifest, "")
    assert f"| {said} ({COUNTS_CONSTANT}) |" in page
    assert f"| {full['word']} ({COUNTS_CONSTANT}) |" in page
    [overview] = [line for line in page.splitlines() if "](#most-settings)" in line]
    assert overview.count(COUNTS_CONSTANT) == 1
    cell = _verdict_cell(full, "full")
    assert f'{full["held"]} of {full["of"]}<sup title="{COUNTS_CONSTANT}">1</sup></td>' in cell
    assert f"<sup>1</sup> {COUNTS_CONSTANT.capitalize()}." in _footnotes(table)
    assert "<sup>2</sup>" not in _footnotes(table)  # no run of variance-reduced TD is among these
    assert f"<sup>2</sup> {OUR_CONSTANTS.capitalize()[:12]}" in _footnotes(
        table.assign(caveat=f"{COUNTS_CONSTANT}; {OUR_CONSTANTS}")
    )
    assert f"</span> ({COUNTS_CONSTANT})</td>" in _verdict_row(full, ["Runs", "Pairs", "Ratio"])


def test_the_table_is_the_same_each_time(results):
    pandas.testing.assert_frame_equal(
        verdict_table(STUDY_CLAIMS, results), verdict_table(STUDY_CLAIMS, results)
    )
