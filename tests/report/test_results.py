"""Reading stored results: what is asked for is found, what is missing is named."""

import json

import numpy as np
import pandas
import pytest

from gainbias.report.data.results import (
    FAIR_SCORES,
    PAPER_SCORES,
    MissingDataError,
    Printed,
    Score,
    read_results,
)
from tests.report.synthetic import FEW, LEVELS, make_conditions, make_paper, make_runs, write_study

LITERAL = PAPER_SCORES["literal"]


def test_the_paper_scores_its_own_methods_by_the_full_error():
    kinds = {name: LITERAL.kind_of(name) for name in (*LEVELS, "vrtd")}
    assert [name for name, kind in kinds.items() if kind == "full"] == [
        "double-chain",
        "single-chain",
        "lstd",
    ]
    assert Score("fair", "centred", "bias").kind_of("double-chain") == "centred"


def test_tasks_keep_their_order(results):
    assert results.tasks("literal") == list(FEW) == list(results.errors("single-chain", LITERAL).columns)
    assert results.algorithms("literal") == list(LEVELS)
    assert results.protocols == ["literal", "inferred", "fair"]
    assert results.tasks("other") == []


def test_last_rows_are_of_the_score_asked_for(results):
    rows = results.last("td-lambda", LITERAL)
    assert len(rows) == 9
    assert set(rows["step"]) == {10000}
    facts = ("protocol", "algorithm", "kind", "target", "norm")
    wanted = ("literal", "td-lambda", "quotient", "bias", "euclidean")
    assert all(set(rows[fact]) == {value} for fact, value in zip(facts, wanted, strict=True))


def test_equal_transitions_stop_two_chains_earlier(results):
    fair = FAIR_SCORES["fair, full"]
    # 10000 transitions are 5000 steps of double-chain, whose last checkpoint before is 3000.
    assert set(results.last("double-chain", fair)["step"]) == {3000}
    assert set(results.last("td-lambda", fair)["step"]) == {10000}
    assert set(results.last("double-chain", fair.but(budget="steps"))["step"]) == {10000}


def test_a_share_of_the_budget(results):
    assert set(results.last("td-lambda", LITERAL, share=0.1)["step"]) == {1000}
    with pytest.raises(MissingDataError, match="no checkpoint within 1e-05"):
        results.last("td-lambda", LITERAL, share=1e-5)


def test_errors_are_the_stored_ones(results):
    errors = results.errors("single-chain", LITERAL)
    runs = results.runs.query("algorithm == 'single-chain' and protocol == 'literal' and step == 10000")
    runs = runs.query("kind == 'full' and target == 'bias' and norm == 'euclidean' and task == 'deep-sea'")
    np.testing.assert_array_equal(errors["deep-sea"], runs.sort_values("run")["error"])


def test_what_was_not_run_is_named(results):
    with pytest.raises(MissingDataError, match="no rows of literal, vrtd, quotient, bias, euclidean"):
        results.errors("vrtd", LITERAL)
    with pytest.raises(MissingDataError, match="no condition numbers of protocol other"):
        results.condition("eta1", Score("other", "full", "bias"))


def test_an_interrupted_study_is_refused(tmp_path):
    runs = make_runs(FEW)
    hole = (runs["algorithm"] == "td-lambda") & (runs["step"] == 3000) & (runs["run"] == 1)
    runs.loc[hole, "error"] = np.nan
    results = read_results(write_study(tmp_path, runs, make_conditions(FEW)))
    with pytest.raises(ValueError, match="td-lambda on taxi, run 1, has no error at step 3000"):
        results.errors("td-lambda", LITERAL)
    results.errors("single-chain", LITERAL)  # the others are complete


def test_categories_on_disk_keep_the_order_of_rows(tmp_path):
    runs, conditions = make_runs(FEW, num_runs=1), make_conditions(FEW, num_runs=1)
    runs = runs.astype({"task": pandas.CategoricalDtype(sorted(FEW))})
    assert read_results(write_study(tmp_path, runs, conditions)).tasks("fair") == list(FEW)


@pytest.mark.parametrize("name", ["manifest.json", "runs.parquet", "conditions.parquet"])
def test_a_missing_file_is_named(tmp_path, name):
    write_study(tmp_path, make_runs(FEW, num_runs=1), make_conditions(FEW, num_runs=1))
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=f"holds no {name}: name the folder of a finished study"):
        read_results(tmp_path)
    (tmp_path / "study.json").touch()
    with pytest.raises(ValueError, match=f"holds no {name}: finish the study with --resume"):
        read_results(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "runs.parquet", "conditions.parquet"])
def test_a_file_that_was_cut_short_is_named(tmp_path, name):
    write_study(tmp_path, make_runs(FEW, num_runs=1), make_conditions(FEW, num_runs=1))
    whole = (tmp_path / name).read_bytes()
    for kept in (whole[: len(whole) // 2], b"", b"3"):
        (tmp_path / name).write_bytes(kept)
        with pytest.raises(ValueError, match=f"{name} is damaged: write it again with --resume"):
            read_results(tmp_path)


@pytest.mark.parametrize("schema", [{}, {"schema": 1}, {"schema": 99}])
def test_results_of_another_version_are_refused(tmp_path, schema):
    write_study(tmp_path, make_runs(FEW, num_runs=1), make_conditions(FEW, num_runs=1))
    (tmp_path / "manifest.json").write_text(json.dumps(schema))
    with pytest.raises(ValueError, match=f"another version, with schema {schema.get('schema')} where"):
        read_results(tmp_path)


def test_a_missing_column_and_an_empty_table_are_named(tmp_path):
    runs, conditions = make_runs(FEW, num_runs=1), make_conditions(FEW, num_runs=1)
    with pytest.raises(ValueError, match="it has no transitions, norm"):
        read_results(write_study(tmp_path, runs.drop(columns=["norm", "transitions"]), conditions))
    with pytest.raises(ValueError, match="has no rows"):
        read_results(write_study(tmp_path, runs, conditions.iloc[:0]))


def test_the_papers_tables_answer_the_same_questions():
    printed = Printed(make_paper(FEW))
    assert printed.errors("td-lambda", LITERAL).loc[0].tolist() == [1.0, 2.0, 3.0]
    assert printed.condition("eta2_literal", LITERAL).loc[0].tolist() == [2e-3] * 3
    for score in (LITERAL.but(kind="full"), LITERAL.but(budget="transitions")):
        with pytest.raises(MissingDataError, match="prints no such numbers"):
            printed.errors("td-lambda", score)
