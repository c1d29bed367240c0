"""Every claim: its verdict turns on data that contradict it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gainbias.report.data.results import FAIR_SCORES, PAPER_SCORES, MissingDataError, Printed
from gainbias.report.data.study_claims import STUDY_CLAIMS, StudyClaim
from gainbias.report.data.verdicts import judge
from tests.report.synthetic import CONSTANTS, ETAS, FEW, LEVELS, make_paper, make_results

BY_NAME = {claim.name: claim for claim in STUDY_CLAIMS}
TOGETHER = LEVELS | {"single-chain": 0.999, "double-chain": 3.0}
"""Single chain is ahead modulo constants, but not by the full error."""

# For each claim: a study in which it holds, and one in which it does not.
STUDIES = {
    "most-settings": ({}, {"levels": LEVELS | {"single-chain": 1.5}}),
    "single-chain-first": ({}, {"levels": LEVELS | {"single-chain": 1.5, "double-chain": 0.1}}),
    "double-chain-keeps-up": ({"levels": LEVELS | {"double-chain": 0.5}}, {}),
    "one-chain-costs-time": ({"levels": LEVELS | {"single-chain": 3.0}}, {}),
    "fair-comparison": ({}, {"levels": TOGETHER, "noise": 0.0}),
    "one-point": ({}, {"constants": CONSTANTS | {"single-chain": 9.0}}),
    "error-falls": ({}, {"slope": 0.5}),
    "reaches-the-bias": ({}, {"far_bias": ("literal",)}),
    "variance-reduction-slow": ({"levels": LEVELS | {"vrtd": 3.0}}, {"levels": LEVELS | {"vrtd": 1.5}}),
    "variance-reduction-slow-all-data": (
        {"levels": LEVELS | {"vrtd": 1.5, "vrtd-all-data": 3.0}},
        {"levels": LEVELS | {"vrtd": 3.0, "vrtd-all-data": 1.5}},
    ),
    "eta1-largest-printed": ({}, {"etas": ETAS | {"eta2_literal": 5e-3}}),
    "eta1-largest-subspace": ({}, {"etas": ETAS | {"eta2": 5e-3}}),
    "eta1-above-eta3": ({}, {"etas": ETAS | {"eta3": 5e-3}}),
    "eta1-above-half-eta3": ({"etas": ETAS | {"eta3": 5e-3}}, {"etas": ETAS | {"eta3": 9e-3}}),
}


def test_every_claim_has_a_study_for_and_one_against_it():
    assert set(STUDIES) == set(BY_NAME)
    assert len(BY_NAME) == len(STUDY_CLAIMS)


@pytest.mark.parametrize("name", STUDIES)
def test_the_verdict_turns(name, tmp_path):
    verdicts = []
    for side, how in zip(("for", "against"), STUDIES[name], strict=True):
        results = make_results(tmp_path / side, tasks=FEW, protocols=("literal",), **how)
        verdicts.append(judge(BY_NAME[name], results, PAPER_SCORES["literal"]))
    holding, failing = verdicts
    assert (holding.held, holding.pairs.estimate, holding.failing) == (3, 1.0, ())
    assert (failing.held, failing.pairs.estimate, failing.failing) == (0, 0.0, FEW)
    if BY_NAME[name].ratio is not None:
        assert holding.typical.high < 1 < failing.typical.low


def test_the_condition_numbers_of_both_readings_are_told_apart(tmp_path):
    results = make_results(tmp_path, tasks=FEW, etas=ETAS | {"eta2": 5e-3})
    score = PAPER_SCORES["literal"]
    assert judge(BY_NAME["eta1-largest-printed"], results, score).holds
    assert not judge(BY_NAME["eta1-largest-subspace"], results, score).holds


def test_the_budget_decides_for_double_chain(tmp_path):
    # Level with the baselines after equal steps, so behind after equal transitions.
    results = make_results(tmp_path, tasks=FEW, levels=LEVELS | {"double-chain": 0.9})
    score = FAIR_SCORES["fair, quotient"]
    assert not judge(BY_NAME["double-chain-keeps-up"], results, score).holds
    assert judge(BY_NAME["double-chain-keeps-up"], results, score.but(budget="steps")).holds


@pytest.mark.parametrize("away", ["single-chain", "double-chain"])
def test_both_new_algorithms_must_reach_the_bias(away, tmp_path):
    results = make_results(tmp_path, tasks=FEW)
    runs = results.runs
    far = (runs["algorithm"] == away) & (runs["target"] == "bias")
    results = replace(results, runs=runs.assign(error=runs["error"].mask(far, 9 * runs["error"])))
    assert not judge(BY_NAME["reaches-the-bias"], results, PAPER_SCORES["literal"]).holds


def test_two_decimals_make_draws(tmp_path):
    levels = LEVELS | {"double-chain": 1.003, "td-lambda": 1.0, "implicit-td": 1.0}
    how = {"tasks": ("taxi",), "noise": 0.0, "constants": CONSTANTS | {"double-chain": 0.0}}
    results = make_results(tmp_path, levels=levels, **how)
    assert judge(BY_NAME["double-chain-keeps-up"], results, PAPER_SCORES["literal"]).holds


def test_diverged_runs_never_win(tmp_path):
    results = make_results(tmp_path, tasks=FEW)
    results.runs.loc[results.runs["algorithm"].isin(["single-chain", "double-chain"]), "error"] = np.inf
    assert judge(BY_NAME["most-settings"], results, PAPER_SCORES["literal"]).pairs.estimate == 0
    assert judge(BY_NAME["one-point"], results, PAPER_SCORES["literal"]).pairs.estimate == 0


def test_claims_by_the_papers_own_tables():
    printed, score = Printed(make_paper(FEW)), PAPER_SCORES["literal"]
    assert judge(BY_NAME["single-chain-first"], printed, score).held == 1
    assert judge(BY_NAME["double-chain-keeps-up"], printed, score).held == 0
    with pytest.raises(MissingDataError):
        judge(BY_NAME["error-falls"], printed, score)


def test_a_claim_needs_something_to_test(results):
    with pytest.raises(ValueError, match="must have a test or a ratio"):
        judge(StudyClaim("empty", "", "", "most"), results, PAPER_SCORES["literal"])


def test_every_claim_links_to_findings_that_exist():
    page = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a id="(finding-\d+)"></a>', page))
    assert anchors == {f"finding-{number}" for number in range(1, 42)}
    for claim in STUDY_CLAIMS:
        assert claim.findings
        assert set(claim.findings) <= anchors
