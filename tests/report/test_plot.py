"""Results as figures: what is drawn is what was found, and no letter is cut off."""

import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import gainbias as gb
from gainbias.evaluation.estimate import History
from gainbias.report.figures.estimates import gain_range
from gainbias.report.figures.style import FAINT
from tests.evaluation.chains import Queue
from tests.evaluation.test_files import Drift

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.pyplot")

ALWAYS = np.ones(6, dtype=int)


class Line(Queue):
    """The queue, seen as one number."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0, 5, (1,))

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        return np.array([seen], dtype=np.float32), info

    def step(self, action):
        seen, *rest = super().step(action)
        return np.array([seen], dtype=np.float32), *rest


class Cube(Drift):
    """Three whole numbers, drawn anew in each step."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.MultiDiscrete([9, 9, 9])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, dtype=np.int64), {}

    def step(self, action):
        return self.np_random.integers([9, 9, 9]), 1.0, False, False, {}


class TestEstimates:
    def test_a_single_point_of_a_short_run_can_be_seen(self):
        panel = gb.plot(gb.evaluate(Queue, ALWAYS, num_steps=20))
        assert any(line.get_marker() == "o" for line in panel.lines)

    def test_gain_and_values_of_states(self):
        estimate = gb.evaluate(Queue, ALWAYS, num_steps=20_000)
        left, right = gb.plot(estimate).figure.axes
        [line, _] = left.lines
        assert line.get_ydata()[-1] == estimate.gain
        assert line.get_xdata()[-1] == 20_000
        drawn = right.lines[0].get_xydata()
        assert drawn[:, 1] == pytest.approx(estimate.value(np.arange(6)))
        [bars] = [bars for bars in right.collections if len(bars.get_segments()) == 6]
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        assert ends == pytest.approx(estimate.value_interval(np.arange(6)))

    def test_the_axis_of_the_gain_shows_its_last_interval_and_ends_where_nothing_is_drawn(self):
        """Where rewards are rare, early bands reach far up, and hardly below 0: they are left out."""
        estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=20_000)
        history, panel = estimate.history, gb.plot(estimate).figure.axes[0]
        least, most = panel.get_ylim()
        low, high = estimate.gain_interval
        [band], line = panel.collections, panel.lines[0]
        drawn = np.concatenate([band.get_paths()[0].vertices[:, 1], line.get_ydata()])
        assert least < drawn.min() <= low < high <= drawn.max() < most
        assert drawn.min() - least <= 0.05 * (most - least)
        assert most - drawn.max() <= 0.05 * (most - least)
        first = line.get_xdata()[0]
        assert history.transitions[0] < first < history.transitions[-1]
        assert (history.high - history.low)[history.transitions >= first].max() <= 3.0 * (high - low)

    @pytest.mark.parametrize(
        ("low", "high", "ends"),
        [
            ((-9.0, 0.75, 0.9), (11.0, 1.25, 1.1), (0.725, 1.275)),  # a wide band, which is left out
            ((0.75, -9.0, 0.9), (1.25, 11.0, 1.1), (0.89, 1.11)),  # and all before it
            ((0.9, 0.9, 0.9), (1.1, 1.1, 1.1), (0.89, 1.11)),
        ],
    )
    def test_the_range_of_the_gain_by_hand(self, low, high, ends):
        """All bands from where they are at most three times as wide as the last, and a twentieth more."""
        history = History(np.array([10, 1_000, 10_000]), np.ones(3), np.array(low), np.array(high))
        estimate = gb.evaluate(Queue, ALWAYS, num_steps=2_000)
        found = gain_range(replace(estimate, gain=1.0, gain_interval=(0.9, 1.1), history=history))
        assert found == pytest.approx(ends)

    @pytest.mark.parametrize(
        ("env", "features", "titles"),
        [
            (Line, "auto", ["Gain per step", "Relative values, with intervals"]),
            (Drift, "auto", ["Gain per step", "Relative values (grey: seen too rarely)", ""]),
            (Drift, lambda seen: seen, ["Gain per step"]),  # no bounds are known
            ("CartPole-v1", "auto", ["Gain per step"]),
            ("Taxi", "auto", ["Gain per step", "Worst and best observations, with intervals"]),
        ],
    )
    def test_the_form_fits_the_observations(self, env, features, titles, tmp_path):
        figure = gb.plot(gb.evaluate(env, "random", features=features, num_steps=20_000)).figure
        assert [panel.get_title(loc="left") or panel.get_title() for panel in figure.axes] == titles
        figure.savefig(tmp_path / "figure.png")

    @pytest.mark.parametrize(("num_steps", "has_grey"), [(20_000, False), (20, True)])
    def test_grey_points_are_explained_where_there_are_any(self, num_steps, has_grey):
        """No step begins in a hole of the lake: it has no value, and no point."""
        panel = gb.plot(gb.evaluate("FrozenLake-v1", "random", num_steps=num_steps)).figure.axes[1]
        assert (len(panel.lines[1].get_xdata()) > 0) == has_grey
        assert ("grey" in panel.get_xlabel()) == has_grey

    def test_what_was_not_seen_does_not_look_like_a_value(self):
        """The middle of the colours is white, as is paper."""
        [mesh] = gb.plot(gb.evaluate(Drift, "random", num_steps=5_000)).figure.axes[1].collections
        assert np.ma.getmaskarray(mesh.get_array()).any()
        drawn = mesh.to_rgba(np.ma.masked_invalid([np.nan, *np.linspace(*mesh.get_clim(), 9)]))
        unseen, *values = drawn[:, :3] * drawn[:, 3:] + 1.0 - drawn[:, 3:]  # on white paper
        assert min(abs(unseen - value).max() for value in values) > 0.1

    def test_a_gain_that_never_changed_has_no_legend_of_bands(self):
        never = gb.plot(gb.evaluate(Queue, 0 * ALWAYS, num_steps=20_000)).figure
        assert never.legends == []
        assert never.axes[0].get_legend() is None
        legend = gb.plot(gb.evaluate(Queue, ALWAYS, num_steps=20_000)).figure.axes[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["95% interval", "estimate"]

    def test_no_extremes_of_several_numbers(self):
        estimate = gb.evaluate(Cube, "random", num_steps=20)
        assert estimate.extremes() == ([], [])
        assert len(gb.plot(estimate).figure.axes[1].patches) == 0

    def test_a_grid_of_discrete_observations(self):
        class Grid(Drift):
            observation_space = gymnasium.spaces.MultiDiscrete([3, 2])

            def __init__(self):
                super().__init__()
                self.observation_space = Grid.observation_space

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return np.zeros(2, dtype=np.int64), {}

            def step(self, action):
                seen = self.np_random.integers([3, 2])
                return seen, float(seen[0]), False, False, {}

        estimate = gb.evaluate(Grid, "random", num_steps=5_000)
        [mesh] = gb.plot(estimate).figure.axes[1].collections
        assert mesh.get_array().reshape(3, 2)[2, 1] == pytest.approx(estimate.value([2, 1]))


PROBLEM = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
COARSE = gb.Problem(
    gb.MarkovRewardProcess(
        [[0.2, 0.8, 0.0, 0.0], [0.0, 0.3, 0.7, 0.0], [0.0, 0.0, 0.1, 0.9], [0.6, 0.0, 0.0, 0.4]],
        [1.0, 0.0, 0.3, 0.0],
    ),
    [[1.0, 0.0], [0.4, 0.6], [0.0, 0.8], [0.5, 0.5]],
)
STEPS = [gb.Harmonic(10, 100), 0.1]


@pytest.fixture(autouse=True)
def closed():
    """Close the figures of a test."""
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def trace():
    return gb.run("double-chain", PROBLEM, 500, STEPS, seeds=range(5))


def labels_of(axes):
    return [text.get_text() for text in axes.figure.legends[0].get_texts()]


class TestRuns:
    def test_a_line_and_a_band_for_each_step_size(self, trace):
        axes = gb.plot(trace)
        errors, seen = trace.errors("centred"), trace.transitions > 0
        for place, (line, band) in enumerate(zip(axes.lines, axes.collections, strict=True)):
            own = np.array(
                [
                    errors[k]
                    for k, lane in enumerate(trace.lanes)
                    if lane.step_size == trace.lanes[place].step_size
                ]
            )
            assert line.get_ydata() == pytest.approx(np.sqrt((own[:, seen] ** 2).mean(axis=0)))
            assert band.get_datalim(axes.transData).ymax == pytest.approx(own[:, seen].max(), rel=1e-6)
        assert len(axes.lines) == len(STEPS)
        assert labels_of(axes) == ["Double chain, Harmonic(a=10, c0=100)", "Double chain, Constant(a=0.1)"]

    def test_axes_have_few_numbers_and_show_the_lines(self, trace):
        """A band reaches far down where a run happens to pass an error of 0."""
        axes = gb.plot(trace)
        for axis in (axes.xaxis, axes.yaxis):
            assert 2 <= len(axis.get_majorticklocs()) <= 4
            assert len(axis.get_minorticklocs()) == 0
        least = min(line.get_ydata().min() for line in axes.lines)
        bands = min(band.get_paths()[0].vertices[:, 1].min() for band in axes.collections)
        assert bands < least / 5 <= axes.get_ylim()[0] * (1 + 1e-9) < least

    def test_no_band_around_one_run(self):
        axes = gb.plot(gb.run("double-chain", PROBLEM, 500, 0.1))
        assert (len(axes.lines), len(axes.collections)) == (1, 0)

    def test_traces_and_curves_by_name(self, trace):
        curve = gb.exact_curve("double-chain", PROBLEM, 500, gb.Harmonic(10, 100))
        single = gb.run("double-chain", PROBLEM, 500, 0.1)
        axes = gb.plot({"one run": single, "all runs, exact": curve})
        assert labels_of(axes) == ["one run", "all runs, exact"]
        assert axes.lines[-1].get_ydata()[-1] == curve.errors("centred")[-1]
        colours = [line.get_color() for line in gb.plot([trace, single, single, curve]).lines]
        assert len(set(colours)) == 5

    def limits(self, axes):
        """Return heights, colours and labels of horizontal lines across the whole panel."""
        across = [line for line in axes.lines if list(line.get_xdata()) == [0, 1]]
        return [(line.get_ydata()[0], line.get_color(), line.get_label()) for line in across]

    def runs(self, *names, problem=COARSE, **settings):
        return [gb.run(name, problem, 20_000, gb.Harmonic(10, 100), **settings) for name in names]

    @pytest.mark.parametrize("kind", ["centred", "full", "quotient"])
    def test_one_line_shows_where_runs_of_one_problem_end(self, kind):
        curve = gb.exact_curve("double-chain", COARSE, 500, gb.Harmonic(10, 100))
        runs = self.runs("double-chain", "single-chain", seeds=range(3))
        [(height, colour, label)] = self.limits(gb.plot([*runs, curve], kind=kind))
        missed = COARSE.values - COARSE.solution.bias
        mean = {"full": 0.0, "centred": COARSE.solution.stationary @ missed, "quotient": missed.mean()}
        assert height == pytest.approx(np.linalg.norm(missed - mean[kind]))
        assert height == pytest.approx(runs[1].errors(kind)[:, -1].mean(), rel=0.05)
        assert (colour, label) == (FAINT, "error at the limit")

    def test_another_limit_has_the_colour_of_its_line(self):
        coarser = gb.Problem(COARSE.mrp, COARSE.features.matrix[:, :1])
        runs = [*self.runs("double-chain", "single-chain"), *self.runs("single-chain", problem=coarser)]
        axes = gb.plot(dict(zip("abc", runs, strict=True)))
        (shared, grey, _), (own, colour, _) = self.limits(axes)
        assert shared != pytest.approx(own, rel=0.02)
        assert own == runs[2].errors_at_limits("centred")[0]
        assert (grey, colour) == (FAINT, axes.lines[2].get_color())
        assert labels_of(axes)[3:] == ["error at the limit of a, b", "error at the limit of c"]

    def test_parameters_with_limits_of_their_own(self):
        discounts = {"discount": [0.5, 0.9]}
        axes = gb.plot(self.runs("discounted-td", problem=PROBLEM, params=discounts)[0])
        assert [one[1] for one in self.limits(axes)] == [line.get_color() for line in axes.lines[:2]]

    def test_limits_out_of_view_change_nothing(self):
        """The exact limit of TD is below all of its errors here, and that of discounted TD above."""
        for name in ("td-lambda", "discounted-td"):
            [run] = self.runs(name)
            axes = gb.plot(run)
            assert self.limits(axes) == []
            low, high = axes.get_ylim()
            assert not low < run.errors_at_limits("centred")[0] < high

    def test_no_line_without_a_limit_or_out_of_view(self, trace):
        assert self.limits(gb.plot(trace)) == []  # it is the bias itself
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            early = gb.run("double-chain", COARSE, 20, 1e-3, initial_weights=[1e3, -1e3])
        least, _ = gb.plot(early).get_ylim()
        assert self.limits(gb.plot(early)) == []
        assert least > early.errors_at_limits("centred")[0]
        silent = replace(gb.ALGORITHMS["double-chain"], declared=gb.Declared())
        [run] = self.runs(silent)
        assert np.isnan(run.errors_at_limits()).all()
        assert self.limits(gb.plot(run)) == []

    def test_on_a_panel_of_ones_own(self, trace):
        figure, own = matplotlib.pyplot.subplots()
        assert gb.plot(trace, ax=own, kind="full") is own
        assert own.get_legend() is not None
        assert figure.axes == [own]

    def test_lanes_that_diverged_are_counted(self):
        with pytest.warns(UserWarning, match="overshoot"):
            wild = gb.run("double-chain", PROBLEM, 3_000, 50.0, seeds=range(3))
        assert "(3 of 3 diverged)" in labels_of(gb.plot(wild))[0]


@pytest.fixture(scope="module")
def estimates():
    return {
        name: gb.evaluate(Queue, policy, num_steps=20_000)
        for name, policy in (("open", ALWAYS), ("shut", 0 * ALWAYS))
    }


class TestIntervals:
    def drawn(self, axes):
        return {
            label.get_text(): [
                list(line.get_xdata()) for line in axes.lines if set(line.get_ydata()) == {height}
            ]
            for label, height in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)
        }

    def test_several_estimates_are_a_row_each(self, estimates):
        drawn = self.drawn(gb.plot(estimates))
        assert list(drawn) == list(estimates)
        good = estimates["open"]
        assert drawn["open"] == [list(good.gain_interval), [good.gain]]
        assert list(self.drawn(gb.plot(list(estimates.values())))) == ["1", "2"]

    def test_an_answer_in_doubt_is_hollow_and_says_why(self):
        numbers = np.random.default_rng(0).normal(size=4_000)
        found = {"steady": numbers, "shifted": numbers + 5.0 * (np.arange(4_000) > 2_000)}
        estimates = {name: gb.evaluate_series(series, ()) for name, series in found.items()}
        axes = gb.plot(gb.GroupedSeries(estimates))
        fills = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
        assert fills[0] != "none"
        assert fills[1] == "none"
        assert [text.get_text() for text in axes.texts] == [estimates["shifted"].verdict.kind]

    @pytest.mark.parametrize("at", [0, -1])
    def test_words_stay_within_the_panel(self, estimates, at):
        """The answer in doubt is the least of all, or the largest."""
        others = [gb.evaluate(Queue, ALWAYS, num_steps=20_000, seed=seed) for seed in (1, 2)]
        facts = estimates["shut"].diagnostics
        facts = replace(facts, verdict=replace(facts.verdict, kind="chains disagree"))
        shut = replace(estimates["shut"], diagnostics=facts, gain=0.0 if at == 0 else 2.0)
        axes = gb.plot({"some": others[0], "shut": shut, "others": others[1]})
        [words] = axes.texts
        inner, outer = words.get_window_extent(), axes.get_window_extent()
        assert words.get_text() == "chains disagree"
        assert outer.x0 <= inner.x0 < inner.x1 <= outer.x1

    def test_a_comparison_beside_nothing(self):
        found = gb.compare(Queue, ALWAYS, 0 * ALWAYS, num_steps=5_000)
        axes = gb.plot(found)
        assert self.drawn(axes)["first - second"][:2] == [list(found.interval), [found.difference]]
        assert any(list(line.get_xdata()) == [0.0, 0.0] for line in axes.lines)


class TestModels:
    def test_bias_and_share_of_time(self):
        mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.2, 0.8]], [0.0, 1.0], labels=["idle", "busy"])
        solution = gb.solve(mrp)
        left, right = gb.plot(solution).figure.axes
        assert left.lines[0].get_ydata() == pytest.approx(solution.bias)
        assert right.lines[0].get_ydata() == pytest.approx(solution.stationary)
        assert [text.get_text() for text in left.get_xticklabels()] == ["idle", "busy"]
        assert labels_of(gb.plot({"before": solution, "after": solution})) == ["before", "after"]

    def test_the_largest_mark_is_whole(self):
        transitions = [[0.5, 0.5, 0.0], [0.3, 0.6, 0.1], [0.1, 0.0, 0.9]]
        solution = gb.solve(gb.MarkovRewardProcess(transitions, [0.0, 1.0, -2.0]))
        _, right = gb.plot(solution).figure.axes
        figure, mark = right.figure, right.transData.transform((0, solution.stationary.max()))
        figure.draw_without_rendering()
        size = right.lines[0].get_markersize() / 72 * figure.dpi
        assert right.get_window_extent().y1 - mark[1] > size / 2
        assert right.get_ylim()[0] == 0.0

    def test_several_classes_have_gains_instead(self):
        mrp = gb.MarkovRewardProcess([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.0, 0.0, 3.0])
        solution = gb.solve(mrp, multichain=True)
        _, right = gb.plot(solution).figure.axes
        assert right.lines[0].get_ydata() == pytest.approx(solution.gain)
        assert right.get_title(loc="left") == "Gain from each state"

    def test_each_solution_has_a_mark_of_its_own(self):
        one = gb.solve(PROBLEM.mrp)
        left, _ = gb.plot({"one": one, "other": one, "third": one}).figure.axes
        marks = [line.get_marker() for line in left.lines if line.get_label() in ("one", "other", "third")]
        assert len(set(marks)) == len(marks) == 3

    def test_many_states_are_thinned_and_it_is_said(self, monkeypatch):
        monkeypatch.setattr("gainbias.report.figures.plot.MOST_STATES", 100)
        solution = gb.solve(gb.task("boyan-chain", num_states=201).problem.mrp)
        left, _ = gb.plot(solution).figure.axes
        assert left.lines[0].get_xdata().tolist() == list(range(0, 201, 3))
        assert left.get_xlabel() == "state (one of 3 is drawn)"

    def test_bounds_say_whether_they_say_something(self):
        problem = gb.Problem(PROBLEM.mrp, [[1.0], [0.0]])
        common = {"num_steps": 1_000, "sampling": "iid"}
        bounds = {"small": gb.bound("double-chain", problem, step_size=0.02, **common)}
        bounds["large"] = gb.bound("double-chain", problem, step_size=0.5, **common)
        axes = gb.plot(bounds)
        values = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
        assert values == [bounds["small"].value]
        assert [text.get_text() for text in axes.texts] == ["says nothing", "not certified"]
        unnamed = gb.plot(list(bounds.values()))
        names = [label.get_text() for label in unnamed.get_yticklabels()]
        assert len(set(names)) == 2
        close = gb.bound("double-chain", PROBLEM, step_size=0.0005, **common)
        assert 1.0 < close.value / close.trivial.without_steps < 1.01
        assert len(gb.plot(close).get_xticks()) >= 2


@pytest.fixture(scope="module")
def results(trace):
    long = {"a name that is longer than any legend of a small figure has room for in one line": trace}
    waits = np.random.default_rng(0).exponential(3.0, 4_000)
    estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=5_000)
    compared = gb.compare(Queue, ALWAYS, 0 * ALWAYS, num_steps=5_000)
    bound = gb.bound("double-chain", PROBLEM, step_size=0.0005, num_steps=1_000, sampling="iid")
    return {
        "trace": trace,
        "names": long,
        "traces": [trace] * 4,
        "estimate": estimate,
        "map": gb.evaluate(Drift, "random", num_steps=5_000),
        "extremes": gb.evaluate("Taxi", "random", num_steps=5_000),
        "estimates": {"the policy that was in use until the end of last year": estimate, "new": estimate},
        "comparisons": {"letting in everybody who comes - turning away everybody, as we did": compared},
        "bounds": [bound, bound],
        "series": gb.evaluate_series(waits),
        "solution": gb.solve(
            gb.MarkovRewardProcess(
                [[0.5, 0.5], [0.2, 0.8]], [0.0, 1.0], labels=["a long name of a state", "b"]
            )
        ),
    }


class TestFiles:
    """What is saved is whole: matplotlib writes the figure as it is, without a search for what sticks out."""

    def test_no_letter_is_cut_off(self, results):
        assert {name: sticks_out(gb.plot(one).figure) for name, one in results.items()} == pytest.approx(
            dict.fromkeys(results, 0.0), abs=0.02
        )

    def test_it_would_be_seen(self, trace):
        figure = gb.plot(trace).figure
        figure.axes[0].set_xlabel("far too long for this figure " * 9)
        assert sticks_out(figure) > 1.0


def sticks_out(figure):
    """Return by how many inches what is drawn reaches beyond the edges of a figure."""
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return max(0.0, -box.x0, -box.y0, box.x1 - width, box.y1 - height)


class TestRefused:
    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ([1.0], r"results can be drawn \(Trace, .*\), found float"),
            ("lake.npz", "found str"),
            ([], "there is nothing to draw"),
            ({}, "there is nothing to draw"),
        ],
    )
    def test_what_cannot_be_drawn(self, what, message):
        with pytest.raises(ValueError, match=message):
            gb.plot(what)

    def test_what_does_not_belong_together(self, trace):
        solution = gb.solve(PROBLEM.mrp)
        with pytest.raises(ValueError, match="runs and solutions do not share a figure: plot each of them"):
            gb.plot([trace, solution])
