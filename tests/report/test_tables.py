"""The three tables: every number by hand once, and every cell traceable to stored rows."""

import math

import numpy as np
import pytest

from gainbias.report.data.results import read_results
from gainbias.report.paper_tables import (
    OURS,
    conditions_table,
    distances_table,
    parameters_table,
    rows_behind,
    untraceable,
)
from tests.report.synthetic import FEW, make_conditions, make_paper, make_runs, write_study

MAKERS = {"distances": distances_table, "conditions": conditions_table, "parameters": parameters_table}


def study_with(tmp_path, errors, task="taxi", algorithm="td-lambda"):
    """Return results in which the last errors of one cell, scored as in the paper, are as given."""
    runs = make_runs(FEW, num_runs=len(errors))
    for run, error in enumerate(errors):
        cell = (runs["task"] == task) & (runs["algorithm"] == algorithm) & (runs["run"] == run)
        runs.loc[cell & (runs["step"] == 10000) & (runs["kind"] == "quotient"), "error"] = error
    return read_results(write_study(tmp_path, runs, make_conditions(FEW, num_runs=len(errors))))


def row_of(table, **key):
    for name, value in key.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_a_cell_by_hand(tmp_path, paper):
    results = study_with(tmp_path, [0.9, 1.004, 1.3, 1.4])
    cell = row_of(distances_table(results, paper), protocol="literal", task="taxi", algorithm="td-lambda")
    assert (cell["paper_mean"], cell["paper_std"], cell["runs"], cell["diverged"]) == (1.0, 0.05, 4, 0)
    assert cell["our_mean"] == pytest.approx(4.604 / 4)
    assert cell["our_std"] == pytest.approx(np.std([0.9, 1.004, 1.3, 1.4], ddof=1))
    assert cell["ratio"] == pytest.approx(4.604 / 4)
    # 1.004 is printed as 1.00, so it is a draw.
    assert (cell["below"], cell["equal"], cell["above"], cell["percentile"]) == (1, 1, 2, 37.5)
    assert cell["percentile_low"] < 10
    assert cell["percentile_high"] > 80


def test_three_runs_say_little_about_a_percentile(tmp_path, paper):
    results = study_with(tmp_path, [5.0, 6.0, 7.0])
    cell = row_of(distances_table(results, paper), protocol="literal", task="taxi", algorithm="td-lambda")
    assert cell["percentile"] == 0
    assert cell["percentile_high"] == pytest.approx(100 * (1 - 0.025 ** (1 / 3)))


def test_one_diverged_run_makes_the_mean_infinite(tmp_path, paper):
    results = study_with(tmp_path, [1.0, np.inf, 1.0])
    cell = row_of(distances_table(results, paper), protocol="literal", task="taxi", algorithm="td-lambda")
    assert (cell["our_mean"], cell["diverged"], cell["above"]) == (np.inf, 1, 1)
    assert math.isnan(cell["our_std"])


def test_a_printed_zero_has_no_ratio(results, paper):
    distances = paper.distances.assign(mean=0.0)
    table = distances_table(results, paper._replace(distances=distances))
    assert table["ratio"].isna().all()


def test_the_metric_is_the_papers(results, paper):
    table = distances_table(results, paper)
    # The constant is three times the rest in td-lambda, a tenth of it in single-chain.
    assert row_of(table, protocol="literal", task="taxi", algorithm="td-lambda")["ratio"] < 1.1
    single = row_of(table, protocol="inferred", task="taxi", algorithm="single-chain")
    assert single["our_mean"] == pytest.approx(0.5 * np.sqrt(1.01), rel=0.05)
    # Under the inferred protocol the target is the fixed point: against the bias the error is ten times that.
    assert single["our_mean"] < 1


def test_condition_numbers_stand_beside_both_readings(results, paper):
    table = conditions_table(results, paper)
    assert row_of(table, protocol="literal", task="taxi", condition="eta2")["paper_mean"] == 2e-3
    assert row_of(table, protocol="literal", task="taxi", condition="eta2_literal")["paper_mean"] == 2e-3
    assert row_of(table, protocol="literal", task="taxi", condition="eta2")["ratio"] == pytest.approx(
        1.5, rel=0.1
    )
    stored = results.conditions.query("protocol == 'inferred' and task == 'deep-sea'")["eta1"]
    cell = row_of(table, protocol="inferred", task="deep-sea", condition="eta1")
    assert (cell["our_mean"], cell["our_std"]) == pytest.approx((stored.mean(), stored.std()))


def test_parameters_agree_differ_or_are_not_stored(results, paper):
    table = parameters_table(results, paper._replace(parameters=paper.parameters.assign(d=7)))
    agrees = {row.parameter: (row.ours, row.agrees) for row in table.query("task == 'taxi'").itertuples()}
    assert agrees["d"] == (5.0, "no")
    assert agrees["steps"] == (10000.0, "yes")
    assert agrees["step_offset"] == (1000.0, "yes")
    assert agrees["epsilon"][1] == "not stored"


def test_runs_that_disagree_on_a_parameter_are_refused(tmp_path, paper):
    conditions = make_conditions(FEW)
    sizes = [6] + [5] * (len(conditions) - 1)
    results = read_results(write_study(tmp_path, make_runs(FEW), conditions, num_features=sizes))
    with pytest.raises(ValueError, match=r"must agree on d, found \[.*5.*6"):
        parameters_table(results, paper)


def test_what_was_not_run_has_no_numbers(results):
    table = distances_table(results, make_paper((*FEW, "frozen-lake")))
    cells = table[table["task"] == "frozen-lake"]
    assert (cells["runs"] == 0).all()
    assert cells["our_mean"].isna().all()
    assert cells["percentile"].isna().all()
    assert untraceable(table, results) == []


# Traceability


@pytest.mark.parametrize("name", MAKERS)
def test_every_cell_is_traceable(results, paper, name):
    table = MAKERS[name](results, paper)
    assert len(table) > 0
    assert untraceable(table, results) == []


@pytest.mark.parametrize("column", OURS)
def test_a_cell_that_was_made_up_is_found(results, paper, column):
    table = distances_table(results, paper)
    table[column] = table[column].astype(float)
    table.loc[4, column] += 0.01
    assert untraceable(table, results) == [f"literal deep-sea double-chain {column}"]


def test_a_condition_or_parameter_that_was_made_up_is_found(results, paper):
    table = conditions_table(results, paper)
    table.loc[0, "our_mean"] *= 1.001
    assert untraceable(table, results) == ["literal taxi eta1 our_mean"]
    table = parameters_table(results, paper)
    table.loc[3, "ours"] = 20000
    assert untraceable(table, results) == ["literal taxi steps ours"]


def test_rows_behind_a_cell_give_its_number(results, paper):
    for _, cell in distances_table(results, paper).iterrows():
        rows = rows_behind(results, cell)
        assert len(rows) == 3
        assert rows["error"].mean() == cell["our_mean"]
        assert set(rows["algorithm"]) == {cell["algorithm"]}
        assert rows.index.isin(results.runs.index).all()
