"""Printed numbers that no choice explains."""

from dataclasses import replace

import pytest

from gainbias.report.data.verdicts import unexplained
from tests.report.synthetic import FEW, make_paper, make_results


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("study"), tasks=FEW, noise=0.0)


def with_distance(paper, task, algorithm, mean):
    cell = (paper.distances["task"] == task) & (paper.distances["algorithm"] == algorithm)
    return paper._replace(distances=paper.distances.assign(mean=paper.distances["mean"].mask(cell, mean)))


def test_a_paper_that_agrees_leaves_nothing(study):
    assert unexplained(study, make_paper(FEW)).empty


def test_a_number_far_from_every_choice_is_found(study):
    # Nearest to 1000 is the full error against the bias when the bias is far: 3 x sqrt(10 + 100).
    found = unexplained(study, with_distance(make_paper(FEW), "random-walk-50", "coupled-sa", 1000.0))
    assert found[["task", "quantity", "paper"]].to_numpy().tolist() == [
        ["random-walk-50", "td-lambda", 1000.0]
    ]
    assert found["choice"][0] == "inferred, full, bias"
    assert found["nearest"][0] == pytest.approx(3 * 110**0.5)
    assert found["factor"][0] == pytest.approx(1000 / (3 * 110**0.5))


def test_a_number_that_another_choice_explains_is_not(study):
    # Ten times what the metric of the paper gives, but the bias under the inferred protocol is as far.
    assert unexplained(study, with_distance(make_paper(FEW), "taxi", "single-chain", 5.0)).empty


def test_a_printed_zero_needs_less_than_it_rounds_from(study):
    paper = with_distance(make_paper(FEW), "taxi", "single-chain", 0.0)
    assert unexplained(study, paper)["factor"][0] == pytest.approx(0.5 / 0.005)
    small = study.runs["error"].mask(study.runs["kind"] == "quotient", 0.004)
    assert unexplained(
        replace(study, runs=study.runs.assign(error=small)),
        paper._replace(distances=paper.distances.assign(mean=0.0)),
    ).empty


def test_another_norm_than_the_papers_explains_nothing(study):
    paper = with_distance(make_paper(FEW), "taxi", "single-chain", 0.0)
    small = study.runs["error"].mask(study.runs["norm"] == "stationary", 0.004)
    found = unexplained(replace(study, runs=study.runs.assign(error=small)), paper)
    assert found[["task", "quantity"]].to_numpy().tolist() == [["taxi", "single-chain"]]


def test_a_shortened_study_says_nothing_about_distances(study):
    paper = with_distance(make_paper(FEW), "taxi", "single-chain", 1000.0)
    shortened = replace(study, manifest={**study.manifest, "shorten": 10})
    assert unexplained(shortened, paper).empty
    off = paper._replace(condition_numbers=paper.condition_numbers.assign(eta2=3e-2))
    assert set(unexplained(shortened, off)["quantity"]) == {"eta2"}


def test_condition_numbers_may_be_read_in_two_ways(study):
    paper = make_paper(FEW)
    as_read = paper._replace(condition_numbers=paper.condition_numbers.assign(eta2=3e-3))
    assert unexplained(study, as_read).empty
    off = paper._replace(condition_numbers=paper.condition_numbers.assign(eta2=3e-2))
    found = unexplained(study, off)
    assert found["task"].tolist() == list(FEW)  # in the paper's order
    assert set(found["quantity"]) == {"eta2"}
    assert found["choice"][0].endswith(", eta2")


def test_what_was_not_run_is_not_unexplained(study):
    assert unexplained(study, make_paper((*FEW, "frozen-lake"))).empty
