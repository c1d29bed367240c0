"""Learning curves: the right numbers, in a figure that can be read and whose files are the same each time."""

import itertools

import numpy as np
import pytest

from gainbias.report.data.results import FAIR_SCORES, PAPER_SCORES, MissingDataError, Score, read_results
from gainbias.report.figures.curves import DrawnCurve, draw_curves, learning_curve
from gainbias.report.figures.style import ALGORITHM_STYLES, SIZES, drawing, few_ticks, save_figure
from gainbias.tasks.registry import task_title
from tests.report.synthetic import (
    FEW,
    TASKS,
    make_conditions,
    make_paper,
    make_results,
    make_runs,
    write_study,
)

LITERAL = PAPER_SCORES["literal"]


def line_of(panel, algorithm):
    """Return the curve of an algorithm in a panel: the line of its colour with more than one point."""
    lines = [line for line in panel.lines if line.get_color() == ALGORITHM_STYLES[algorithm].colour]
    (curve,) = [line for line in lines if len(line.get_xdata()) > 1]
    return curve


def marks_of(panel):
    """Return the heights of the paper's end points by colour."""
    return {line.get_color(): line for line in panel.lines if len(line.get_xdata()) == 1}


@pytest.fixture(scope="module")
def figure(results, paper):
    return draw_curves(results, LITERAL, paper)


# Numbers


def test_a_curve_by_hand(tmp_path):
    runs = make_runs(("taxi",), num_runs=12, noise=0.0)
    cell = (runs["algorithm"] == "td-lambda") & (runs["kind"] == "quotient") & (runs["step"] == 100)
    for run in range(12):
        runs.loc[cell & (runs["run"] == run), "error"] = float(run)
    results = read_results(write_study(tmp_path, runs, make_conditions(("taxi",), num_runs=12)))
    curve = learning_curve(results, "td-lambda", "taxi", LITERAL)
    assert curve.x.tolist() == [10, 30, 100, 300, 1000, 3000, 10000]
    assert (curve.mean[2], curve.low[2], curve.high[2]) == (5.5, 1.0, 10.0)  # one of twelve cut at either end
    assert (curve.runs, curve.diverged) == (12, 0)


def test_few_runs_spread_from_the_smallest_to_the_largest(results):
    curve = learning_curve(results, "td-lambda", "taxi", LITERAL)
    rows = results.curve("td-lambda", LITERAL).query("task == 'taxi' and step == 300")["error"]
    assert (curve.low[3], curve.high[3]) == (rows.min(), rows.max())


def test_the_axis_may_count_transitions(results):
    assert learning_curve(results, "double-chain", "taxi", LITERAL, "transitions").x[-1] == 20000
    assert learning_curve(results, "td-lambda", "taxi", LITERAL, "transitions").x[-1] == 10000


def test_a_curve_may_be_cut():
    curve = DrawnCurve(*(np.array([1.0, 10.0, 100.0]) for _ in range(4)), runs=1, diverged=0)
    assert curve.since(10).mean.tolist() == [10, 100]


def test_what_was_not_run_is_named(results, paper):
    with pytest.raises(MissingDataError, match="no run of td-lambda on frozen-lake"):
        learning_curve(results, "td-lambda", "frozen-lake", LITERAL)
    with pytest.raises(MissingDataError, match="under protocol other"):
        draw_curves(results, Score("other", "full", "bias"), paper)


# The figure


def test_panels_follow_the_paper(figure, results):
    panels = [panel for panel in figure.axes if panel.get_title(loc="left")]
    assert [panel.get_title(loc="left") for panel in panels] == [task_title(task) for task in FEW]
    assert all(panel.get_xscale() == panel.get_yscale() == "log" for panel in panels)
    mean = learning_curve(results, "single-chain", "taxi", LITERAL).mean
    np.testing.assert_array_equal(line_of(panels[0], "single-chain").get_ydata(), mean)


def test_least_squares_is_dashed_and_the_papers_methods_are_not(figure):
    panel = figure.axes[0]
    assert line_of(panel, "lstd").is_dashed()
    assert not line_of(panel, "double-chain").is_dashed()


def test_the_papers_end_points_are_marked_beyond_the_curves(figure):
    panel = figure.axes[1]
    marks = {name: marks_of(panel)[ALGORITHM_STYLES[name].colour] for name in ("double-chain", "td-lambda")}
    assert marks["double-chain"].get_ydata()[0] == 4.0
    assert marks["td-lambda"].get_ydata()[0] == 2.0
    assert all(mark.get_xdata()[0] > 10000 for mark in marks.values())
    assert len({mark.get_marker() for mark in marks_of(panel).values()}) == 4


def test_a_printed_zero_is_an_arrow(results, paper):
    zero = paper._replace(distances=paper.distances.assign(mean=0.0))
    marks = marks_of(draw_curves(results, LITERAL, zero).axes[0])
    assert {(mark.get_marker(), mark.get_ydata()[0]) for mark in marks.values()} == {(11, 0.005)}


def test_other_scores_have_no_end_points_of_the_paper(results, paper):
    panel = draw_curves(results, FAIR_SCORES["fair, full"], paper, "transitions").axes[0]
    assert marks_of(panel) == {}
    assert line_of(panel, "relative-td").get_xdata()[-1] == 10000


def test_diverged_runs_are_said_to_be_so(tmp_path, paper):
    runs = make_runs(FEW)
    lost = (runs["task"] == "taxi") & (runs["algorithm"] == "td-lambda") & (runs["run"] == 1)
    runs.loc[lost & (runs["step"] >= 300), "error"] = np.inf
    results = read_results(write_study(tmp_path, runs, make_conditions(FEW)))
    figure = draw_curves(results, LITERAL, paper)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1 of 3 diverged"]
    assert line_of(figure.axes[0], "td-lambda").get_xdata()[-1] == 100
    assert len(figure.axes[1].texts) == 0


def visible_boxes(figure):
    """Return the boxes of all texts that are drawn."""
    renderer = figure.canvas.get_renderer()
    texts = [text for panel in figure.axes for text in (panel.title, panel._left_title, *panel.texts)]
    for panel in figure.axes:
        if panel.axison:
            texts += [*panel.get_xticklabels(), *panel.get_yticklabels()]
    texts += [*figure.texts, *figure.legends[0].get_texts()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts if text.get_text()]


def overlaps(figure):
    pairs = itertools.combinations(visible_boxes(figure), 2)
    return [(one, other) for (one, box), (other, other_box) in pairs if box.overlaps(other_box)]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_no_words_overlap_and_none_is_cut(tmp_path, size):
    results = make_results(tmp_path, num_runs=2, protocols=("literal",))
    figure = draw_curves(results, LITERAL, make_paper(), size=size)
    with drawing(SIZES[size]):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure).draw()
        assert sum(panel.axison for panel in figure.axes) == len(TASKS)
        assert overlaps(figure) == []
        page = figure.bbox
        outside = [
            text
            for text, box in visible_boxes(figure)
            if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
        ]
        assert outside == []
        figure.axes[4].set_title("A title that is much too long for a panel", loc="left")
        figure.axes[3].set_title("A title that is much too long for a panel of this size", loc="left")
        assert overlaps(figure) != []  # the check can fail
    assert figure.get_figheight() < 10


# Files


@pytest.mark.slow
def test_files_are_the_same_each_time(results, paper, tmp_path):
    contents = []
    for attempt in ("one", "two"):
        figure = draw_curves(results, LITERAL, paper, size="one-column")
        paths = save_figure(figure, tmp_path / attempt / "curves", SIZES["one-column"])
        assert [path.suffix for path in paths] == [".png", ".svg", ".pdf"]
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    png, svg, pdf = contents[0]
    assert png.startswith(b"\x89PNG")
    assert b"<text" not in svg  # letters are shapes
    assert b"/FontFile2" in pdf  # fonts are embedded
    assert b"CreationDate" not in pdf


def test_a_users_own_settings_change_nothing(results, paper, tmp_path):
    import matplotlib

    def written(name):
        figure = draw_curves(results, LITERAL, paper)
        return save_figure(figure, tmp_path / name, SIZES["two-column"], ["svg"])[0].read_bytes()

    plain = written("plain")
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True, "lines.linewidth": 9}):
        assert written("other") == plain
        assert matplotlib.rcParams["font.size"] == 20


# Ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.004, 2.0, [0.01, 0.1, 1.0]),
        (1, 1e9, [1e2, 1e5, 1e8]),
        (0.45, 0.95, [0.6, 0.8]),
        (150, 150_000, [1e3, 1e4, 1e5]),
    ],
)
def test_ticks_are_few_and_round(low, high, ticks):
    assert few_ticks(low, high) == ticks


@pytest.mark.parametrize("seed", range(5))
def test_every_range_has_two_to_four_ticks(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        low = 10 ** rng.uniform(-6, 6)
        high = low * 10 ** rng.uniform(0.05, 8)
        found = few_ticks(low, high)
        assert 2 <= len(found) <= 4
        assert all(low <= tick <= high for tick in found)
