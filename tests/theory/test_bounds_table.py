"""The comparison table as numbers: each against another way to it, and a reason for each that is missing."""

import json
import math

import numpy as np
import pytest

import gainbias as gb
from gainbias.theory.bounds.certify import certified
from gainbias.theory.bounds.table import COMPARISON_ROWS, NOT_AVAILABLE

CHAIN = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]]
PROCESS = gb.MarkovRewardProcess(CHAIN, [1.0, 0.0, -1.0])
FAST = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
TABULAR, LINEAR = gb.Problem(PROCESS, gb.Tabular()), gb.Problem(PROCESS, [[1.0], [0.5], [0.0]])


def rows(problem, **options):
    return {(row.algorithm, row.order): row for row in gb.sample_complexities(problem, **options).rows}


def test_orders_are_those_of_the_condition_numbers():
    numbers, found = TABULAR.condition_numbers, rows(TABULAR, epsilon=0.5, discount=0.9)
    assert found["double-chain", "eta1^-2"].order_value == pytest.approx(2.0 * numbers.eta1**-2)
    assert found["td-lambda", "eta2^-4"].order_value == pytest.approx(2.0 * numbers.eta2**-4)
    kim = found["implicit-td", "eta2^-3 eta3^-1"].order_value
    assert kim == pytest.approx(2.0 * numbers.eta2**-3 / numbers.eta3)
    discounted = found["discounted-td", "eta_discounted^-2"].order_value
    assert discounted == pytest.approx(2.0 * (0.1 * numbers.gram_min) ** -2)


def test_what_is_certified_counts_transitions():
    found = rows(TABULAR, epsilon=0.1, sampling="iid", discount=0.9)
    steps = certified("double-chain", TABULAR, 0.1, "iid").num_steps
    assert found["double-chain", "eta1^-2"].certified == 2 * steps
    steps = certified("discounted-td", TABULAR, 0.1, "iid", discount=0.9).num_steps
    assert found["discounted-td", "eta_discounted^-2"].certified == steps
    single = found["single-chain", "eta1^-4"]  # its theorems are about chains
    assert math.isnan(single.certified)
    assert single.notes == (
        "no certificate: the theorems about single-chain are for sampling='markov' only, found 'iid'",
    )


@pytest.mark.parametrize("name", ["double-chain", "td-lambda", "discounted-td"])
def test_what_is_enough_in_the_end_is_enough_by_the_exact_curve(name):
    """With that many transitions the exact error is epsilon, to a few per cent, when epsilon is small."""
    epsilon, params = 2e-3, {"discount": 0.9} if name == "discounted-td" else {}
    row = next(
        row
        for row in gb.sample_complexities(FAST, epsilon=epsilon, sampling="iid", discount=0.9).rows
        if row.algorithm == name and math.isfinite(row.in_the_end)
    )
    algorithm = gb.ALGORITHMS[name]
    matrix = algorithm.declared.mean_field(FAST, algorithm.params(**params)).matrix
    a = 2.0 / np.linalg.eigvals(matrix).real.min()
    steps = int(row.in_the_end / algorithm.chains)
    curve = gb.exact_curve(
        name, FAST, steps, gb.Harmonic(a, 4 * a), params=params, sampling="iid", checkpoints=[steps]
    )
    assert curve.mean_squared_error[-1] == pytest.approx(epsilon, rel=0.15)


def test_rows_that_do_not_apply_have_no_numbers():
    refused = rows(TABULAR, sampling="iid")["vrtd", "eta3^-2"]
    assert refused.notes == ("does not apply: it excludes features that span the constants",)
    assert math.isnan(refused.order_value)
    assert math.isnan(refused.in_the_end)
    linear = rows(LINEAR, sampling="iid")
    assert linear["almost-sure-td", "no rate"].notes == ("does not apply: it is for tabular features",)
    assert math.isfinite(linear["vrtd", "eta3^-2"].order_value)


def test_nothing_is_guessed():
    for row in gb.sample_complexities(LINEAR, sampling="iid").rows:
        missing = [value for value in (row.certified, row.in_the_end) if math.isnan(value)]
        assert len(row.notes) == len(missing) or row.notes[0].startswith("does not apply")


@pytest.mark.parametrize("problem", [TABULAR, LINEAR])
def test_a_missing_certificate_says_whose_and_why(problem):
    """The note has the names of all authors of its own row, and no other row's note."""
    found = gb.sample_complexities(problem, sampling="iid").rows
    missing = [row for row in found if row.notes and row.notes[0].startswith(NOT_AVAILABLE)]
    assert {row.algorithm for row in missing} >= {"td-lambda", "projected-td", "implicit-td"}
    for row in missing:
        for author in row.reference.split(":")[0].split(", "):
            assert author in row.notes[0]
    assert len({row.notes[0] for row in missing}) == len(missing)
    named = {row.reference for row in COMPARISON_ROWS if row.missing}
    assert len(named) == 7  # all but the paper itself and Bhandari, Russo and Singal


def test_json_has_no_nan():
    answer = gb.sample_complexities(TABULAR, sampling="iid").to_dict()
    assert json.loads(json.dumps(answer, allow_nan=False))["rows"][2]["certified"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive and finite, found 0.0"),
        ({"discount": 1.0}, "discount must be above 0 and below 1, found 1.0"),
        ({"sampling": "both"}, "sampling must be 'iid' or 'markov', found 'both'"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        gb.sample_complexities(TABULAR, **options)


def test_a_process_is_no_problem():
    with pytest.raises(
        ValueError, match=r"problem must be a gb\.Problem or a task, found MarkovRewardProcess"
    ):
        gb.sample_complexities(PROCESS)
