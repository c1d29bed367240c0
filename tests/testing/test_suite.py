"""The contract suite on all algorithms, on a user's own, and how it reports."""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing import CHECKS, NotCheckedWarning, Report, Result
from gainbias.testing.drive import FEATURE_KINDS, FEW, SEVERAL, all_params, small_problem

from .own import DOUBLE, SINGLE, TD, begin, declaring

NO_FIELD, NO_SAMPLE, NO_RATE = (f"it declares no {fact}" for fact in ("mean_field", "sample_field", "rate"))
NOT_AFFINE, RADIUS = "not affine with these parameters", "a finite radius"
TABULAR, NO_PARAMS = "it exists for tabular features only", "it has no parameters with bounds"
ALL_ROWS = "it does not declare touches_rows with these parameters"
OWN_FORM = "a form of its own, which kinds_of_features_agree compares with the plain one"
OWN_OUTPUT = "its output is not made of the weights of its steps"
DISCOUNTED = "it discounts rewards"
WEAK = "the mean field pulls at the rate 0.0025: too weak for short runs"
NO_LIMIT = "no limit stated for these parameters"
SKIPS = {
    "double-chain": {NO_PARAMS: 2},
    "double-chain-symmetric": {NO_PARAMS: 2},
    "double-chain-centred": {},
    "single-chain": {NO_SAMPLE: 62, RADIUS: 36, NO_LIMIT: 11, ALL_ROWS: 20, OWN_FORM: 14},
    "td-lambda": {NOT_AFFINE: 24, ALL_ROWS: 8},
    "projected-td": {NOT_AFFINE: 24, ALL_ROWS: 8},
    "implicit-td": {NOT_AFFINE: 48, RADIUS: 36, NO_LIMIT: 12, ALL_ROWS: 12},
    "differential-td": {},
    "relative-td": {NO_SAMPLE: 26},
    "centred-td": {NO_SAMPLE: 14, NO_PARAMS: 2, ALL_ROWS: 4, OWN_FORM: 4},
    "discounted-td": {NOT_AFFINE: 24, RADIUS: 24, NO_LIMIT: 8, ALL_ROWS: 8, DISCOUNTED: 8, WEAK: 2},
    "lstd": {NO_FIELD: 80, NO_SAMPLE: 34, OWN_OUTPUT: 4},
    "lspe": {NO_FIELD: 100, NO_SAMPLE: 42, ALL_ROWS: 20},
    "vrtd": {NO_FIELD: 120, NO_SAMPLE: 50, ALL_ROWS: 24, NO_RATE: 2},
    "almost-sure-td": {NO_SAMPLE: 4, TABULAR: 1, NO_PARAMS: 1},
    "adaptive-td": {NO_FIELD: 10, NO_SAMPLE: 5, TABULAR: 2},
}


def skips(report):
    return Counter(result.detail for result in report.having("skipped"))


@pytest.mark.parametrize("name", gb.ALGORITHMS)
def test_every_algorithm_keeps_the_contract_and_skips_only_what_is_known(name):
    assert skips(gb.testing.check_algorithm(name)) == SKIPS[name]


@pytest.mark.slow
@pytest.mark.parametrize("own", [DOUBLE, SINGLE, TD], ids=lambda own: own.name)
def test_an_algorithm_from_outside_the_package_can_keep_it_too(own):
    report = gb.testing.check_algorithm(own)
    assert {result.check for result in report.having("passed")} >= {
        "compiled_equals_python",
        "mean_field_is_true",
        "rate_holds",
    }


@pytest.mark.slow
def test_what_is_not_declared_is_skipped():
    bare = gb.Algorithm(name="bare", form=gb.Form(begin, DOUBLE.form.step), chains=2)
    with pytest.warns(NotCheckedWarning, match="bare: convergence NOT checked"):
        report = gb.testing.check_algorithm(bare)
    assert set(skips(report)) == {NO_FIELD, NO_SAMPLE, NO_PARAMS, ALL_ROWS, "it declares no limit", NO_RATE}
    assert len(report.having("passed")) > 30


def test_all_failures_are_raised_at_once(monkeypatch):
    chosen = [check for check in CHECKS if check.name in ("limit_attracts", "limit_solves_the_mean_field")]
    monkeypatch.setattr("gainbias.testing.suite.CHECKS", chosen)
    wrong = declaring(DOUBLE, limit=lambda problem, params, first: np.zeros(problem.num_features))
    with pytest.raises(AssertionError, match=r"(?s)my-double-chain fails 4 checks:\nfailed  limit.*tabular"):
        gb.testing.check_algorithm(wrong)
    report = gb.testing.check_algorithm(wrong, raises=False)
    assert [result.outcome for result in report.results] == 4 * ["failed"] + 4 * ["passed"]
    assert "limit_solves_the_mean_field              4 failed" in str(report)
    assert str(report).endswith(str(report.failures[-1]))


def test_an_unknown_id_is_named():
    with pytest.raises(ValueError, match="did you mean 'double-chain'"):
        gb.testing.check_algorithm("duble-chain")


def test_a_parameter_without_a_value_is_named():
    class Params(NamedTuple):
        pace: float

    mine = replace(DOUBLE, params=Params)
    with pytest.raises(ValueError, match=r"without a value of its parameter 'pace': give it a default, or"):
        gb.testing.check_algorithm(mine)
    assert all_params(declaring(mine, trial_params={"pace": 2.0})) == [Params(2.0)]


def test_results_can_be_read():
    result = Result("rate_holds", "dense", {"discount": 0.5}, "failed", "power 0.5")
    assert str(result) == "failed  rate_holds [dense, discount=0.5]: power 0.5"
    assert str(Report("mine", (result,))).splitlines() == [
        "mine: not clean; 0 passed, 0 skipped, 1 failed",
        "  rate_holds                               1 failed",
        "failed  rate_holds [dense, discount=0.5]: power 0.5",
    ]


def test_every_parameter_is_varied():
    for algorithm in gb.ALGORITHMS.values():
        assert set(algorithm.bounds) == set(algorithm.params._fields)
        usual, *others = all_params(algorithm)
        for name, interval in algorithm.bounds.items():
            values = {getattr(params, name) for params in others}
            assert len(values) == 2 or (len(others) == 1 and len(values) == 1)
            assert all(value in interval for value in values | {getattr(usual, name)})


@pytest.mark.parametrize("num_states", [FEW, SEVERAL])
def test_problems_are_what_their_kind_says(num_states):
    problems = {kind: small_problem(kind, num_states) for kind in FEATURE_KINDS}
    assert [problem.features.kind for problem in problems.values()] == ["dense", "dense", "sparse", "tabular"]
    assert [problem.ones_in_span for problem in problems.values()] == [False, True, False, True]
    for problem in problems.values():
        assert problem.features.max_row_norm <= 1.0 + 1e-15
        assert problem.mrp.is_ergodic
        assert abs(problem.solution.gain) > 0.3
        assert problem.mrp.transition_rewards is not None
