"""Several paths on an instance: intervals and counts are those of instances."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import gainbias as gb
from gainbias.report.data.sweep_means import Summary, best_steps, for_charts
from gainbias.report.figures.sweeps import write_sweep_figures
from gainbias.report.sweep import best_sheet, chart_data, report_on_sweep
from tests.report.sweeps.tables import crossed, summary_of

METRIC = "distance to the bias, up to a constant"
RNG = np.random.default_rng(0)
LEVELS = RNG.uniform(0.5, 2.0, 50)
NOISE = RNG.normal(0.0, 0.02, (50, 50))


def error_of(instance: int, seed: int, **_: object) -> float:
    """Instances differ much, and paths on one of them little."""
    return float(LEVELS[instance] + NOISE[instance, seed])


def interval_over(means: list[float]) -> tuple[float, float, float]:
    low, high = stats.t.interval(0.95, len(means) - 1, np.mean(means), stats.sem(means))
    return float(np.mean(means)), max(float(low), 0.0), float(high)  # errors are not negative


@pytest.mark.parametrize(("instances", "seeds"), [(4, 25), (2, 50), (8, 1), (3, 2)])
@pytest.mark.parametrize("group", [7, 1000])
def test_an_interval_is_over_instances_not_over_paths(
    tmp_path: Path, instances: int, seeds: int, group: int
) -> None:
    rows = crossed(error_of, range(instances), range(seeds))
    [row] = summary_of(rows, tmp_path, group).points.itertuples()
    means = [np.mean([error_of(instance, seed) for seed in range(seeds)]) for instance in range(instances)]
    assert (row.instances, row.runs) == (instances, instances * seeds)
    np.testing.assert_allclose([row.mean, row.low, row.high], interval_over(means), rtol=1e-9)


def test_it_covers_the_mean_of_all_instances_as_often_as_it_says(tmp_path: Path) -> None:
    rng, levels = np.random.default_rng(1), 1000
    drawn = rng.normal(5.0, 1.0, (levels, 4))
    noise = rng.normal(0.0, 0.1, (levels, 4, 5))
    rows = [
        {"a": 1.0 + level, "instance": i, "seed": s, "error": drawn[level, i] + noise[level, i, s]}
        for level, i, s in itertools.product(range(levels), range(4), range(5))
    ]
    points = summary_of(rows, tmp_path, 10_000).points
    covered = ((points.low <= 5.0) & (points.high >= 5.0)).mean()
    assert abs(covered - 0.95) < 0.03  # more than four standard errors


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rows = crossed(error_of, range(4), range(5), a=(0.1, 0.2))
    in_order = summary_of(rows, tmp_path).points.sort_values("a", ignore_index=True)
    random.Random(0).shuffle(rows)
    shuffled = summary_of(rows, tmp_path).points.sort_values("a", ignore_index=True)
    assert shuffled.instances.tolist() == [4, 4]
    np.testing.assert_allclose(shuffled[["mean", "low", "high"]], in_order[["mean", "low", "high"]])


def test_instances_weigh_the_same_however_many_of_their_paths_failed(tmp_path: Path) -> None:
    rows = [row for row in crossed(error_of, range(3), range(9)) if row["instance"] or row["seed"] < 2]
    [row] = summary_of(rows, tmp_path).points.itertuples()
    means = [NOISE[0, :2].mean() + LEVELS[0], *(NOISE[i, :9].mean() + LEVELS[i] for i in (1, 2))]
    assert (row.instances, row.runs) == (3, 20)
    np.testing.assert_allclose([row.mean, row.low, row.high], interval_over(means), rtol=1e-9)


def test_a_path_that_diverges_makes_the_mean_infinite(tmp_path: Path) -> None:
    rows = crossed(lambda **at: np.inf if at == {"instance": 1, "seed": 3} else 1.0, range(3), range(4))
    [row] = summary_of(rows, tmp_path).points.itertuples()
    assert (row.mean, row.diverged, row.instances) == (np.inf, 1, 3)
    assert np.isnan([row.low, row.high, row.path_low]).all()


@pytest.mark.parametrize(("instances", "words"), [(4, "only 4"), (9, "only 4"), (10, "5")])
def test_few_instances_set_nothing_in_bold_and_say_how_few_they_are(
    tmp_path: Path, instances: int, words: str
) -> None:
    """From four on, half of them choose and half of them count."""
    best = best_steps(summary_of(crossed(error_of, range(instances), [0], a=(0.1, 0.2)), tmp_path))
    [[row]] = best_sheet(best, METRIC).groups
    assert (row[3].best, row[6].text) == (words == "5", words if instances > 4 else "only 2")


class TestOneInstance:
    @pytest.fixture
    def summary(self, tmp_path: Path) -> Summary:
        return summary_of(crossed(error_of, [3], range(10)), tmp_path)

    def test_it_has_no_interval_over_instances(self, summary: Summary) -> None:
        [row] = summary.points.itertuples()
        expected = interval_over([error_of(3, seed) for seed in range(10)])
        assert (row.instances, row.runs) == (1, 10)
        assert np.isnan([row.low, row.high]).all()
        np.testing.assert_allclose([row.mean, row.path_low, row.path_high], expected, rtol=1e-9)

    def test_the_table_says_so(self, summary: Summary) -> None:
        best = best_steps(summary)
        sheet = best_sheet(best, METRIC)
        words = dict(zip(sheet.header, (cell.text for cell in sheet.groups[0][0]), strict=True))
        [row] = best.itertuples()
        over_paths = f"{row.path_low:.3g} to {row.path_high:.3g}"
        assert words["95% interval"] == f"none: one instance (over its paths {over_paths})"
        assert (words["Instances measured"], words["Runs"]) == ("only 1", "10")
        assert not row.apart

    def test_charts_show_the_interval_over_paths_and_say_so(self, summary: Summary, tmp_path: Path) -> None:
        points, best = summary.points, best_steps(summary)
        data = chart_data(points, best)
        series = data["points"]["garnet"][METRIC]["td-lambda"]
        assert data["overPaths"] == ["garnet"]
        assert series["low"][0] == series["best"]["low"] == float(f"{points.path_low[0]:.4g}")
        assert write_sweep_figures(points, best, None, tmp_path / "figures")

    def test_one_path_has_no_interval_at_all(self, tmp_path: Path) -> None:
        summary = summary_of(crossed(error_of, [0], [0]), tmp_path)
        assert summary.points[["low", "high", "path_low", "path_high"]].isna().all(axis=None)
        sheet = best_sheet(best_steps(summary), METRIC)
        assert [cell.text for cell in sheet.groups[0][0]][4:] == ["none: one instance", "-", "only 1"]

    def test_one_of_several_tasks(self, tmp_path: Path) -> None:
        rows = crossed(error_of, [0], range(3)) + [
            {**row, "task": "taxi"} for row in crossed(error_of, range(3), range(3))
        ]
        points, tasks = for_charts(summary_of(rows, tmp_path).points)
        assert tasks == ["garnet"]
        assert points.low.notna().all()


class TestCopies:
    """A task that is the same for every number, along the same paths: instances are copies."""

    def test_copies_count_once(self, tmp_path: Path) -> None:
        rows = crossed(lambda instance, seed: 1.0 + NOISE[0, seed], range(4), range(6))
        [row] = summary_of([{**row, "fingerprint": "same"} for row in rows], tmp_path).points.itertuples()
        expected = interval_over([1.0 + NOISE[0, seed] for seed in range(6)])
        assert (row.instances, row.runs) == (1, 6)
        assert np.isnan(row.low)
        np.testing.assert_allclose([row.mean, row.path_low, row.path_high], expected, rtol=1e-9)

    def test_the_same_problem_along_other_paths_is_no_copy(self, tmp_path: Path) -> None:
        rows = [
            {"instance": number, "seed": number, "error": 1.0 + NOISE[0, number], "fingerprint": "same"}
            for number in range(6)
        ]
        [row] = summary_of(rows, tmp_path).points.itertuples()
        expected = interval_over([1.0 + NOISE[0, seed] for seed in range(6)])
        assert row.instances == 6
        np.testing.assert_allclose([row.mean, row.low, row.high], expected, rtol=1e-9)

    def test_copies_of_which_some_paths_failed(self, tmp_path: Path) -> None:
        """The first and the last share no path, but each shares one with the second."""
        pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3)]
        rows = [
            {"instance": i, "seed": s, "error": 1.0 + NOISE[0, s], "fingerprint": "same"} for i, s in pairs
        ]
        [row] = summary_of(rows, tmp_path, 2).points.itertuples()
        assert (row.instances, row.runs) == (1, 4)
        assert row.mean == pytest.approx(1.0 + NOISE[0, :4].mean(), rel=1e-12)

    def test_end_to_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gainbias.report.sweep.find_spec", lambda _: None)  # no figures
        tasks = ["boyan-chain", {"id": "garnet", "num_states": 10, "num_features": 3}]
        shape = {"step_size": [0.1], "num_steps": 200, "instances": 4, "seeds": 3}
        study = gb.Study(tasks=tasks, algorithms=["td-lambda"], **shape)
        results = gb.sweep(study, tmp_path / "results", workers=1)
        written = report_on_sweep(results)
        lines = Path(written["best steps"]).read_text().splitlines()
        cells = [[cell.strip() for cell in line.split("|")] for line in lines if "td-lambda" in line]
        counts = {row[1]: row[-3:-1] for row in cells}
        assert counts["boyan-chain"] == ["only 1", "3"]
        assert counts["garnet"] == ["only 2", "6"]  # measured on one half of the instances
        runs = results.to_frame()
        ends = runs[(runs.step == 200) & (runs.task == "garnet") & (runs.instance % 2 == 1)]
        expected = interval_over(ends.groupby("instance").error.mean().tolist())
        [row] = (
            best_steps(Summary(results.folder / "runs.parquet", [])).query("task == 'garnet'").itertuples()
        )
        np.testing.assert_allclose([row.mean, row.low, row.high], expected, rtol=1e-9)


class TestTheChoice:
    """On instance k the step size with number k % 2 is best, on all its paths."""

    def error(self, instance: int, seed: int, a: float) -> float:
        best = (0.1, 0.2)[instance % 2]
        return 1.0 + (a != best) + 0.1 * instance + 0.001 * seed

    def best(self, tmp_path: Path, instances: list[int], seeds: int):
        rows = crossed(self.error, instances, range(seeds), a=(0.1, 0.2))
        [row] = best_steps(summary_of(rows, tmp_path)).itertuples()
        return row

    def test_all_paths_of_an_instance_are_on_one_side(self, tmp_path: Path) -> None:
        row = self.best(tmp_path, [0, 1, 2, 3], 25)
        assert (row.schedule, row.instances, row.runs, row.apart) == ("0.1", 2, 50, True)
        expected = np.mean([self.error(instance, seed, 0.1) for instance in (1, 3) for seed in range(25)])
        assert row.mean == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("instances", [[0], [0, 1], [0, 1, 2]])
    def test_paths_do_not_make_up_for_instances(self, tmp_path: Path, instances: list[int]) -> None:
        row = self.best(tmp_path, instances, 20)
        assert (row.apart, row.instances, row.runs) == (False, len(instances), 20 * len(instances))

    def test_numbers_that_are_all_even_are_split_too(self, tmp_path: Path) -> None:
        row = self.best(tmp_path, [0, 2, 10, 40], 3)
        expected = np.mean([self.error(instance, seed, 0.1) for instance in (2, 40) for seed in range(3)])
        assert (row.apart, row.instances, row.runs) == (True, 2, 6)
        assert row.mean == pytest.approx(expected, rel=1e-12)

    def test_one_task_does_not_decide_for_another(self, tmp_path: Path) -> None:
        rows = crossed(self.error, range(4), range(2), a=(0.1, 0.2))
        rows += [{**row, "task": "taxi"} for row in rows if row["instance"] < 2]
        best = best_steps(summary_of(rows, tmp_path)).set_index("task")
        assert best.apart.to_dict() == {"garnet": True, "taxi": False}
        assert best.instances.to_dict() == {"garnet": 2, "taxi": 2}

    def test_a_step_size_that_is_missing_in_one_half(self, tmp_path: Path) -> None:
        rows = crossed(self.error, range(4), range(2), a=(0.1, 0.2))
        rows = [row for row in rows if not (row["a"] == 0.1 and row["instance"] in (1, 3))]
        [row] = best_steps(summary_of(rows, tmp_path)).itertuples()
        assert (row.apart, np.isfinite(row.mean)) == (False, True)
