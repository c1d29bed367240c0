"""Means and intervals of a sweep, and best steps that are measured where they were not chosen."""

from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from gainbias.report import sweep as report_of_sweep
from gainbias.report.data.sweep_means import Summary, best_steps, common_schedule
from gainbias.report.sweep import NOTE, Shown, best_sheet, report_on_sweep, sweep_page
from tests.report.sweeps.stored import error_of, make_sweep
from tests.report.sweeps.tables import crossed, summary_of, table_of

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


def test_rivals_are_compared_with_the_best_on_the_same_instances(tmp_path: Path) -> None:
    """Errors vary much between instances, but the same way for all series: differences tell them apart."""
    level = [1.0, 9.0, 1.0, 3.0, 1.0, 5.0, 1.0, 8.0, 1.0, 2.0]
    slack = {0.0: [0.0] * 10, 0.5: [0.1, 0.2] * 5, 0.9: [2.0, -0.3, 2.0, 0.9, 2.0, 0.8, 2.0, -0.2, 2.0, 0.9]}
    slack[0.5][3] = 0.25
    rows = crossed(
        lambda instance, trace_decay, **_: level[instance] + slack[trace_decay][instance],
        range(10),
        [0],
        trace_decay=slack,
    )
    best = best_steps(summary_of(rows, tmp_path)).set_index("series")
    for decay in (0.5, 0.9):
        row = best.loc[f"td-lambda, trace_decay {decay}"]
        measured = stats.ttest_1samp(slack[decay][1::2], 0.0)
        low, high = measured.confidence_interval(0.975)  # two rivals
        np.testing.assert_allclose(
            [row.behind, row.behind_low, row.behind_high], [np.mean(slack[decay][1::2]), low, high], rtol=1e-9
        )
    overlap = best.low["td-lambda, trace_decay 0.5"] < best.high["td-lambda, trace_decay 0"]
    assert overlap
    assert best.tied.to_dict() == {
        "td-lambda, trace_decay 0": False,
        "td-lambda, trace_decay 0.5": False,
        "td-lambda, trace_decay 0.9": True,
    }


def test_what_diverges_is_not_tied(summary: Summary) -> None:
    best = best_steps(summary)
    assert not best.tied.any()
    assert best["behind"].isna().sum() == best["task"].nunique()


def test_few_instances_are_used_for_both(tmp_path: Path) -> None:
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
    page = sweep_page(Shown(summary.points, best_steps(summary)), manifest)
    assert page.count("&quot;unit ") == 100
    assert ("The manifest, 100 of 5,000 in failures<" in page) == (count == 5000)
    assert ("The whole manifest<" in page) == (count == 100)


class TestAPageHasRoomForSomeTasksOnly:
    def rows(self) -> list[dict[str, object]]:
        """Six tasks with three series each, in row groups that end anywhere."""
        return crossed(
            lambda instance, **own: (1.0 + instance) * own["a"] + own["trace_decay"] + own["step"] / 1000,
            range(6),
            [0],
            settings=[f'{{"num_states": {count}}}' for count in range(10, 16)],
            trace_decay=[0.0, 0.5, 0.9],
            a=[0.1, 0.2],
            step=[50, 100],
        )

    @pytest.mark.parametrize("group", [1, 7, 100, 10_000])
    def test_reading_part_by_part_changes_nothing(self, tmp_path: Path, group: int) -> None:
        rows = sorted(self.rows(), key=lambda row: (row["settings"], row["instance"]))
        for name in ("whole", "parted"):
            (tmp_path / name).mkdir()
        whole, parted = (
            summary_of(rows, tmp_path / "whole", 10**6),
            summary_of(rows, tmp_path / "parted", group),
        )
        parts = list(parted.parts())
        assert len(parts) == {1: 6, 7: 6, 100: 5, 10_000: 1}[group]
        order = ["task", "series", "schedule", "step"]
        one, other = (found.points.sort_values(order, ignore_index=True) for found in (whole, parted))
        pandas.testing.assert_frame_equal(one, other)
        together = pandas.concat([best_steps(part) for part in parts])
        pandas.testing.assert_frame_equal(
            together.sort_values(["task", "metric", "mean", "series"], ignore_index=True), best_steps(whole)
        )

    @pytest.mark.parametrize(
        ("limit", "value", "said", "tasks"),
        [
            ("MOST_PAGE_SERIES", 7, "the first 2 of 6 tasks", 2),
            ("MOST_PAGE_POINTS", 40, "the first 3 of 6 tasks", 3),
            ("MOST_PAGE_POINTS", 1, "the first 1 of 6 tasks", 1),
            ("MOST_TASK_SERIES", 2, "the 2 best series of a task (12 of 18 in all)", 6),
            ("MOST_PAGE_SERIES", 18, "", 6),
        ],
    )
    @pytest.mark.parametrize("group", [7, 10_000])
    def test_what_is_left_out_is_said(
        self, tmp_path: Path, monkeypatch, limit: str, value: int, said: str, tasks: int, group: int
    ) -> None:
        results = make_sweep(tmp_path / "results")
        rows = sorted(self.rows(), key=lambda row: (row["settings"], row["instance"]))
        table_of(rows, results.folder, group)
        monkeypatch.setattr(report_of_sweep, limit, value)
        monkeypatch.setattr(report_of_sweep, "find_spec", lambda _: None)
        report_on_sweep(results)
        page = (results.folder / "report" / "index.html").read_text()
        assert ("To stay small, this page has" in page) == bool(said)
        assert said in page
        assert page.count('<tr data-task="garnet') == (12 if "best series" in said else 3 * tasks)
        assert len(pandas.read_csv(results.folder / "report" / "best-steps.csv")) == 18
        every = pandas.read_csv(results.folder / "report" / "summary.csv")
        assert len(every) == 6 * 3 * 2 * 2
        assert not every.duplicated(["task", "series", "schedule", "step"]).any()
