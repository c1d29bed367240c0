"""Numbers of the charts: those of the curves, compact, thinned, and gaps refused."""

import numpy as np
import pytest

from gainbias.report.data.results import Score, read_results
from gainbias.report.figures.curves import learning_curve
from gainbias.report.pages.frame import MOST_CURVE_POINTS
from gainbias.report.pages.paper_study import chart_data, curve_points
from tests.report import synthetic
from tests.report.synthetic import FEW, LEVELS, make_conditions, make_results, make_runs, write_study


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("many"), tasks=FEW, num_runs=25, protocols=("fair",))


@pytest.mark.parametrize("kind", ["full", "quotient"])
@pytest.mark.parametrize("axis", ["steps", "transitions"])
def test_curves_are_those_of_the_figures(many_runs, paper, kind, axis):
    curves = chart_data(many_runs, paper)["curves"]["fair"]["deep-sea"]
    for algorithm in LEVELS:
        expected = learning_curve(many_runs, algorithm, "deep-sea", Score("fair", kind, "bias"), axis)
        found = curves[algorithm]
        assert found[axis] == expected.x.tolist()
        assert found["runs"] == expected.runs == 25
        for part in ("mean", "low", "high"):
            stored = found["errors"][f"{kind}|bias|euclidean"][part]
            np.testing.assert_allclose(stored, getattr(expected, part), rtol=1e-3)
            assert stored == [float(f"{value:.4g}") for value in getattr(expected, part)]


def test_runs_that_diverged_are_counted_and_not_numbers(tmp_path, paper):
    runs = make_runs(FEW)
    lost = (runs["algorithm"] == "td-lambda") & (runs["run"] == 1) & (runs["step"] == 10000)
    runs.loc[lost, "error"] = np.inf
    results = read_results(write_study(tmp_path, runs, make_conditions(FEW)))
    curve = chart_data(results, paper)["curves"]["literal"]["taxi"]["td-lambda"]["errors"][
        "full|bias|euclidean"
    ]
    assert curve["diverged"] == 1
    assert curve["mean"][-1] is None
    assert curve["high"][-1] is None
    assert curve["low"][-1] > 0


def test_long_curves_are_thinned_and_it_is_said(tmp_path, paper, monkeypatch):
    monkeypatch.setattr(synthetic, "CHECKPOINTS", np.arange(1, 1001) * 10)
    results = make_results(tmp_path, tasks=FEW[:1], protocols=("literal",), num_runs=1)
    data = chart_data(results, paper)
    steps = data["curves"]["literal"]["taxi"]["single-chain"]["steps"]
    assert len(steps) == MOST_CURVE_POINTS
    assert (steps[0], steps[-1]) == (10, 10_000)
    assert data["thinned"]


def test_short_curves_are_whole(results, paper):
    data = chart_data(results, paper)
    assert not data["thinned"]
    assert list(data["protocols"]) == ["fair", "literal", "inferred"]
    assert list(data["tasks"]) == list(FEW)
    assert data["printed"]["taxi"]["td-lambda"] == [1.0, 0.05]


def test_other_tasks_and_algorithms_come_last(tmp_path, paper):
    levels = {"my-own": 1.0, **LEVELS}
    results = make_results(tmp_path, tasks=("river-swim", *FEW), levels=levels, num_runs=1)
    data = chart_data(results, paper)
    assert list(data["tasks"]) == [*FEW, "river-swim"]
    assert list(data["algorithms"])[-1] == "my-own"


def test_gaps_are_refused(results):
    runs = results.runs.copy()
    runs.loc[5, "error"] = np.nan
    with pytest.raises(ValueError, match="was the study interrupted"):
        curve_points(runs)
