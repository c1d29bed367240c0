"""Estimates, traces and curves as figures: what is drawn is what was estimated."""

import gymnasium
import numpy as np
import pytest

import gainbias as gb
from tests.evaluation.chains import Queue
from tests.evaluation.test_files import Drift

matplotlib = pytest.importorskip("matplotlib")

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
        panel = gb.plot(gb.evaluate(Queue, ALWAYS, num_steps=20)).axes[0]
        assert any(line.get_marker() == "o" for line in panel.lines)

    def test_gain_and_values_of_states(self):
        estimate = gb.evaluate(Queue, ALWAYS, num_steps=20_000)
        left, right = gb.plot(estimate).axes
        [line, _] = left.lines
        assert line.get_ydata()[-1] == estimate.gain
        assert line.get_xdata()[-1] == 20_000
        drawn = right.lines[0].get_xydata()
        assert drawn[:, 1] == pytest.approx(estimate.value(np.arange(6)))
        [bars] = [bars for bars in right.collections if len(bars.get_segments()) == 6]
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        assert ends == pytest.approx(estimate.value_interval(np.arange(6)))

    @pytest.mark.parametrize(
        ("env", "features", "titles"),
        [
            (Line, "auto", ["Gain per step", "Relative values, with intervals"]),
            (Drift, "auto", ["Gain per step", "Relative values (white: seen too rarely)", ""]),
            (Drift, lambda seen: seen, ["Gain per step"]),  # no bounds are known
            ("CartPole-v1", "auto", ["Gain per step"]),
            ("Taxi", "auto", ["Gain per step", "Worst and best observations, with intervals"]),
        ],
    )
    def test_the_form_fits_the_observations(self, env, features, titles, tmp_path):
        figure = gb.plot(gb.evaluate(env, "random", features=features, num_steps=20_000))
        assert [panel.get_title(loc="left") or panel.get_title() for panel in figure.axes] == titles
        figure.savefig(tmp_path / "figure.png")

    @pytest.mark.parametrize(("num_steps", "has_grey"), [(20_000, False), (20, True)])
    def test_grey_points_are_explained_where_there_are_any(self, num_steps, has_grey):
        """No step begins in a hole of the lake: it has no value, and no point."""
        panel = gb.plot(gb.evaluate("FrozenLake-v1", "random", num_steps=num_steps)).axes[1]
        assert (len(panel.lines[1].get_xdata()) > 0) == has_grey
        assert ("grey" in panel.get_xlabel()) == has_grey

    def test_no_extremes_of_several_numbers(self):
        estimate = gb.evaluate(Cube, "random", num_steps=20)
        assert estimate.extremes() == ([], [])
        assert len(gb.plot(estimate).axes[1].patches) == 0

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
        [mesh] = gb.plot(estimate).axes[1].collections
        assert mesh.get_array().reshape(3, 2)[2, 1] == pytest.approx(estimate.value([2, 1]))


class TestLearning:
    def test_a_trace_and_a_curve_on_one_panel(self, tmp_path):
        problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
        trace = gb.run("double-chain", problem, 500, [gb.Harmonic(10, 100), 0.1], seeds=range(2))
        curve = gb.exact_curve("double-chain", problem, 500, gb.Harmonic(10, 100))
        figure = gb.plot(trace)
        [panel] = figure.axes
        assert gb.plot(curve, ax=panel) is figure
        assert len(panel.lines) == 5
        assert panel.lines[0].get_ydata()[-1] == trace.errors("centred")[0, -1]
        assert panel.lines[-1].get_ydata()[-1] == curve.errors("centred")[-1]
        labels = [text.get_text() for text in panel.get_legend().get_texts()]
        assert labels[-1] == "Double chain, Harmonic(a=10, c0=100), exact"
        assert len(labels) == 3
        figure.savefig(tmp_path / "figure.png")

    def test_anything_else_is_refused(self):
        with pytest.raises(ValueError, match="a Trace or a Curve can be drawn, found list"):
            gb.plot([1.0])
