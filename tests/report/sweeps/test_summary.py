"""Means and intervals of a sweep, and best steps that are measured where they were not chosen."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gainbias.report.data.sweep_means import Summary, best_steps, common_schedule
from gainbias.report.sweep import NOTE, best_sheet, sweep_page
from tests.report.sweeps.stored import error_of, make_sweep

METRIC = "distance to the bias, up to a constant"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return Summary(
        make_sweep(tmp_path_factory.mktemp("sweep") / "results").folder / "runs.parquet", ["trace_decay"]
    )


def test_names_say_what_varies(summary: Summary) -> None:
    points = summary.points
    assert set(points.task) == {"garnet, num_states 20", "garnet, num_states 40"}
    assert set(points.series) == {"lstd", "td-lambda, trace_decay 0", "td-lambda, trace_decay 0.5"}
    assert set(points.schedule) == {"none", "0.1", "0.2", "0.4"}
    assert set(points.metric) == {METRIC}


def test_means_and_intervals_are_those_of_all_instances(summary: Summary) -> None:
    [row] = summary.points.query(
        "task == 'garnet, num_states 40' and series == 'td-lambda, trace_decay 0' "
        "and schedule == '0.1' and step == 10"
    ).itertuples()
    errors = [error_of(40, 0.0, 0.1, instance, 10) for instance in range(8)]
    low, high = stats.t.interval(0.95, 7, np.mean(errors), stats.sem(errors))
    assert (row.runs, row.diverged, row.transitions) == (8, 0, 10)
    np.testing.assert_allclose([row.mean, row.low, row.high], [np.mean(errors), low, high], rtol=1e-9)


def test_one_that_diverges_makes_the_mean_infinite(summary: Summary) -> None:
    rows = summary.points.query("series == 'td-lambda, trace_decay 0.5' and schedule == '0.4'")
    assert np.isinf(rows[rows.step > 1]["mean"]).all()
    assert (rows[rows.step > 1].diverged == 1).all()
    assert rows[rows.step > 1].low.isna().all()


def test_the_best_step_is_chosen_on_even_and_measured_on_odd_instances(summary: Summary) -> None:
    best = best_steps(summary).set_index(["task", "series"])
    row = best.loc["garnet, num_states 20", "td-lambda, trace_decay 0"]
    odd = [error_of(20, 0.0, 0.2, instance, 100) for instance in (1, 3, 5, 7)]
    assert (row.schedule, row.runs, row.apart) == ("0.2", 4, True)
    assert row["mean"] == pytest.approx(np.mean(odd), rel=1e-12)
    assert not row.at_edge
    assert best.loc["garnet, num_states 20", "lstd"]["mean"] == 0.5


def test_the_best_series_comes_first_and_is_marked(summary: Summary) -> None:
    best = best_steps(summary)
    assert best.groupby("task").series.first().tolist()[0] == "td-lambda, trace_decay 0"
    sheet = best_sheet(best.assign(instances=5), METRIC)
    assert [row[3].best for row in sheet.groups[0]] == [True, False, False]
    assert sheet.notes == [NOTE]


def test_few_instances_are_used_for_both(tmp_path: Path) -> None:
    import pandas

    folder = make_sweep(tmp_path / "results").folder
    table = pandas.read_parquet(folder / "runs.parquet")
    table[table.instance < 2].to_parquet(folder / "runs.parquet")
    best = best_steps(Summary(folder / "runs.parquet", ["trace_decay"]))
    assert not best.apart.any()
    assert set(best.runs) == {2}


def test_the_common_step_is_the_middle_of_those_that_most_series_have(summary: Summary) -> None:
    points = summary.points
    assert common_schedule(points) == "0.2"
    assert common_schedule(points[points.series == "lstd"]) is None


@pytest.mark.parametrize("count", [100, 5000])
def test_a_page_lists_few_of_many_bad_units_and_says_so(summary: Summary, tmp_path: Path, count: int) -> None:
    manifest = make_sweep(tmp_path / "results").manifest
    manifest["failures"] = [{"what": f"unit {number}", "error": "no"} for number in range(count)]
    page = sweep_page(summary.points, best_steps(summary), manifest)
    assert page.count("&quot;unit ") == 100
    assert ("The manifest, 100 of 5,000 in failures<" in page) == (count == 5000)
    assert ("The whole manifest<" in page) == (count == 100)
