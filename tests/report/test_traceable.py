"""Every cell of a report on real runs comes from stored rows; changed cells and removed runs are found."""

from dataclasses import replace

import pandas
import pytest

import gainbias as gb
from gainbias.report.data.results import FAIR_SCORES, printed_numbers, read_results, summary_table
from gainbias.report.data.study_claims import STUDY_CLAIMS
from gainbias.report.data.verdicts import unexplained, verdict_table
from gainbias.report.paper_tables import OURS, untraceable
from gainbias.report.reproduction import report_on

TASKS = ["random-walk-50", "frozen-lake"]
TABLES = ("distances", "condition-numbers", "parameters")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run and report a study; tests read its files, as a reader would."""
    folder = tmp_path_factory.mktemp("study") / "results"
    gb.reproduce(folder, tasks=TASKS, instances=2, shorten=200, workers=1)
    report_on(folder)
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return read_results(folder)


@pytest.fixture
def read(folder):
    return lambda name: pandas.read_csv(
        folder / "report" / "tables" / f"{name}.csv", float_precision="round_trip"
    )


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_traceable(name, read, results):
    table = read(name)
    assert set(table["protocol"]) == {"literal", "inferred", "fair"}
    assert table.loc[table["task"].isin(TASKS)].select_dtypes("number").notna().any(axis=None)
    assert untraceable(table, results) == []


@pytest.mark.parametrize("column", OURS)
@pytest.mark.parametrize("name", ["distances", "condition-numbers"])
def test_a_changed_cell_is_found(name, column, read, results):
    table = read(name).astype({column: float})
    place = table.index[table["task"] == "frozen-lake"][1]
    table.loc[place, column] += 1e-6
    [found] = untraceable(table, results)
    assert found.startswith("literal frozen-lake ")
    assert found.endswith(f" {column}")


def test_a_changed_parameter_is_found(read, results):
    table = read("parameters")
    place = table.index[(table["task"] == "frozen-lake") & (table["parameter"] == "epsilon")][0]
    table.loc[place, "ours"] = 0.2
    assert untraceable(table, results) == ["literal frozen-lake epsilon ours"]


def test_a_removed_run_is_found(read, results):
    gone = "protocol == 'inferred' and task == 'frozen-lake' and run == 2"
    fewer = replace(
        results,
        runs=results.runs.drop(results.runs.query(gone).index).reset_index(drop=True),
        conditions=results.conditions.drop(results.conditions.query(gone).index),
    )
    for name, cells in (("distances", 4), ("condition-numbers", 4)):
        found = untraceable(read(name), fewer)
        assert len({" ".join(cell.split()[:3]) for cell in found}) == cells
        assert all(cell.startswith("inferred frozen-lake ") for cell in found)


def test_summary_verdicts_and_what_is_unexplained_follow_from_stored_rows(read, results):
    made = {
        "summary": summary_table(results, FAIR_SCORES),
        "verdicts": verdict_table(STUDY_CLAIMS, results),
        "unexplained": unexplained(results, printed_numbers()),
    }
    for name, table in made.items():
        assert len(table) > 0
        written = read(name).fillna({"reason": "", "caveat": ""}) if name == "verdicts" else read(name)
        pandas.testing.assert_frame_equal(written, table, check_exact=True, check_dtype=False)
    other = results.runs.assign(error=results.runs["error"] * (1 + 0.1 * (results.runs["run"] == 1)))
    changed = summary_table(replace(results, runs=other), FAIR_SCORES)
    assert not changed.equals(made["summary"])
