"""Pages that are made from the registries, and their pictures."""

import pytest

import gainbias as gb
from docs._ext.algorithm_pages import algorithm_page, learning_curve
from docs._ext.pictures import WEB
from docs._ext.series_pictures import shifted
from docs._ext.task_pages import task_page
from docs._ext.task_pictures import draw_bias
from gainbias.algorithms.registry import describe_algorithms
from gainbias.report.figures.style import drawing
from gainbias.tasks.registry import describe_tasks


def entry_of(entries, name):
    return next(entry for entry in entries if entry["id"] == name)


@pytest.mark.parametrize(("name", "exact"), [("td-lambda", True), ("lstd", False)])
def test_the_page_of_an_algorithm(tmp_path, name, exact):
    algorithm = gb.ALGORITHMS[name]
    page = algorithm_page(algorithm, entry_of(describe_algorithms(), name), tmp_path)
    assert page.startswith(f"# {algorithm.about.title}\n")
    assert f"| **Converges to** | {algorithm.about.converges_to} |" in page
    assert ("Broken line: the exact curve." in page) == exact
    light, dark = (
        (tmp_path / f"_generated/pictures/algorithms/{name}-{kind}.svg").read_text()
        for kind in ("light", "dark")
    )
    assert "#222222" in light
    assert "#222222" not in dark
    assert f"pictures/algorithms/{name}-dark.svg" in page


def test_the_picture_of_an_algorithm_with_epochs(tmp_path):
    """It is long enough for several epochs, and the command is of the step size of the page."""
    figure, caption = learning_curve(gb.ALGORITHMS["vrtd"])
    errors = figure.axes[0].lines[0].get_ydata()
    assert len(set(errors)) > 3
    assert "at the ends of epochs only" in caption
    page = algorithm_page(gb.ALGORITHMS["vrtd"], entry_of(describe_algorithms(), "vrtd"), tmp_path)
    assert "--seeds 3 --step-size 0.5\n" in page


def test_maps_begin_at_the_left(tmp_path):
    with drawing(WEB):
        figure, _ = draw_bias(gb.task("frozen-lake"))
        figure.draw_without_rendering()
    assert figure.axes[0].get_window_extent().x0 < 0.05 * figure.bbox.width


@pytest.mark.parametrize(
    "name", ["river-swim", "frozen-lake", "resource-gathering", "fruit-tree-5", "deep-sea"]
)
def test_the_page_of_a_task(tmp_path, name):
    task = gb.task(name)
    page = task_page(task, entry_of(describe_tasks(), name), tmp_path)
    assert f"| **Gain** | {task.problem.solution.gain:.9g} |" in page
    assert ("## In the paper" in page) == (task.paper is not None)
    assert f"\n## Source\n\n{task.citation}" in page
    assert (tmp_path / f"_generated/pictures/tasks/{name}-light.svg").exists()


def test_the_series_of_the_picture_shifts():
    estimate = shifted()
    assert estimate.verdict.kind == "level shift"
    assert abs(estimate.verdict.at - 12_000) < 600
