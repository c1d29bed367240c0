"""What differs in value is told apart, however little it differs."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias.experiments.study import numbers
from gainbias.report.data.sweep_means import Summary, best_steps, common_schedule
from gainbias.report.sweep import chart_data
from gainbias.report.text import distinct_texts, exact_text
from tests.report.sweeps.tables import crossed, summary_of

NEAR = (0.9999999, 0.99999999)
METRIC = "distance to the bias, up to a constant"


@pytest.mark.parametrize("pair", [NEAR, (0.1, np.nextafter(0.1, 1.0)), (1e-12, 1.0000001e-12), (0.5, 0.9)])
def test_parameters(tmp_path: Path, pair: tuple[float, float]) -> None:
    rows = crossed(lambda trace_decay, **_: 1.0 + (trace_decay == pair[1]), range(4), [0], trace_decay=pair)
    points = summary_of(rows, tmp_path).points
    assert len(points) == points.series.nunique() == 2
    assert sorted(points["mean"]) == [1.0, 2.0]
    assert points.instances.tolist() == [4, 4]
    assert {float(name.split()[-1]) for name in points.series} == set(pair)


@pytest.mark.parametrize(
    ("kind", "column"),
    [("constant", "a"), ("harmonic", "a"), ("harmonic", "c0"), ("polynomial", "c0"), ("polynomial", "xi")],
)
def test_step_sizes(tmp_path: Path, kind: str, column: str) -> None:
    numbers = {"constant": 1, "harmonic": 2, "polynomial": 3}[kind]
    shape = dict(zip(("a", "c0", "xi")[:numbers], (0.5, 10.0, 0.75), strict=False)) | {"step_size": kind}
    rows = crossed(lambda **at: 1.0 + (at[column] == NEAR[1]), range(4), [0], **{column: NEAR})
    summary = summary_of([{**shape, **row} for row in rows], tmp_path)
    points = summary.points
    assert len(points) == points.schedule.nunique() == 2
    assert points.series.nunique() == (1 if column == "a" else 2)
    best = best_steps(summary)
    assert best["mean"].tolist() == ([1.0] if column == "a" else [1.0, 2.0])


def test_settings_of_tasks(tmp_path: Path) -> None:
    rows = [
        {"instance": 0, "seed": 0, "error": value, "settings": f'{{"epsilon": {value}}}'} for value in NEAR
    ]
    points = summary_of(rows, tmp_path).points
    assert points.task.tolist() == ["garnet, epsilon 0.9999999", "garnet, epsilon 0.99999999"]


def test_charts_have_a_place_for_each_step_size(tmp_path: Path) -> None:
    grid = (0.50001, 0.50002, 0.500021)
    summary = summary_of(crossed(lambda **_: 1.0, range(2), [0], a=grid), tmp_path)
    series = chart_data(summary.points, best_steps(summary))["points"]["garnet"][METRIC]["td-lambda"]
    assert tuple(series["a"]) == grid
    assert series["schedules"] == ["0.50001", "0.50002", "0.500021"]


def test_the_step_size_that_series_share_is_one_value(tmp_path: Path) -> None:
    rows = crossed(lambda **_: 1.0, range(2), [0], trace_decay=(0.0, 0.5), a=(NEAR[0],))
    rows += crossed(lambda **_: 1.0, range(2), [0], trace_decay=(0.0,), a=(NEAR[1],))
    assert common_schedule(summary_of(rows, tmp_path).points) == "0.9999999"


def test_few_digits_where_they_are_enough(tmp_path: Path) -> None:
    """A grid of 0.00316227766 and the like reads as before."""
    a = numbers({"log": [0.001, 0.1, 5]}, "step_size")
    points = summary_of(crossed(lambda **_: 1.0, range(2), [0], a=a), tmp_path).points
    assert points.schedule.tolist() == ["0.001", "0.00316228", "0.01", "0.0316228", "0.1"]


def test_a_sweep_end_to_end(tmp_path: Path) -> None:
    method = {"id": "td-lambda", "params": {"trace_decay": list(NEAR)}}
    study = gb.Study(tasks=["boyan-chain"], algorithms=[method], step_size=0.01, num_steps=300, instances=2)
    results = gb.sweep(study, tmp_path / "results", workers=1)
    summary = Summary(results.folder / "runs.parquet", study.layout.optional)
    names = {"td-lambda, trace_decay 0.9999999", "td-lambda, trace_decay 0.99999999"}
    assert set(summary.points.series) == set(best_steps(summary).series) == names
    assert set(summary.points.runs) == {2}


@pytest.mark.parametrize(
    ("grid", "count"),
    [
        ({"log": [0.9999999999, 1, 2]}, 2),
        ({"linear": [1, 1 + 1e-8, 11]}, 11),
        ({"linear": [0.99999999, 0.999999999, 4]}, 4),
        ({"log": [1e-3, 1, 7]}, 7),
        ({"log": [0.1, 0.1, 3]}, 1),
    ],
)
def test_the_points_of_a_grid(grid: dict[str, list[float]], count: int) -> None:
    [ends] = grid.values()
    found = numbers(grid, "a")
    assert len(found) == count
    assert (found[0], found[-1]) == tuple(ends[:2])


def test_ends_of_a_grid_are_as_given() -> None:
    assert numbers({"log": [1 / 3, 2 / 3, 3]}, "a") == (1 / 3, 0.471404521, 2 / 3)


def test_a_trace_is_drawn_with_a_line_for_each_parameter() -> None:
    pytest.importorskip("matplotlib")
    trace = gb.run(
        "td-lambda", gb.task("boyan-chain"), 100, 0.01, seeds=2, params={"trace_decay": list(NEAR)}
    )
    labels = [line.get_label() for axes in gb.plot(trace).figure.axes for line in axes.lines]
    named = [label for label in labels if "trace_decay" in label]
    assert len(set(named)) == 2
    assert all(any(f"trace_decay {value}" in label for label in named) for value in NEAR)


def test_texts_tell_any_numbers_apart() -> None:
    values = [*itertools.accumulate([0.1] + [1e-17] * 3), 0.3, np.nextafter(0.3, 1.0), 1e300, np.inf, np.nan]
    texts = distinct_texts(values)
    assert len(set(texts.values())) == len(texts) == len({value for value in values if value == value})
    assert distinct_texts([0.5, NEAR[1]])[NEAR[1]] == "0.99999999"  # "1" would be another number
    assert [exact_text(value) for value in (1.0, 0.25, NEAR[0], 1 / 3)] == [
        "1",
        "0.25",
        "0.9999999",
        repr(1 / 3),
    ]
