"""Exact curves against runs, and what is refused."""

import warnings

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing.drive import FEW, first_weights, small_problem
from gainbias.theory.curve import advance
from tests.testing.own import declaring
from tests.theory.systems import random_problem

AFFINE = [name for name, algorithm in gb.ALGORITHMS.items() if algorithm.declared.sample_field is not None]


class TestAgainstRuns:
    @pytest.mark.slow
    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("name", AFFINE)
    def test_ten_thousand_lanes(self, name, sampling):
        """At 3 checkpoints, 4 standard errors: a false alarm has a chance of 2e-4 for random seeds."""
        problem, options = small_problem("dense", FEW), {"sampling": sampling, "checkpoints": [10, 100, 300]}
        exact = gb.exact_curve(name, problem, 300, gb.Harmonic(4.0, 16.0), **options)
        sampled = gb.exact_curve(name, problem, 300, gb.Harmonic(4.0, 16.0), lanes=10_000, **options)
        off = np.abs(sampled.mean_squared_error - exact.mean_squared_error) / sampled.standard_error
        assert off.max() < 4.0
        covariance = np.array([np.diag(m) for m in exact.missed]) - (exact.mean_weights - exact.limit) ** 2
        missed = np.abs(sampled.mean_weights - exact.mean_weights) / np.sqrt(covariance / 10_000)
        assert missed.max() < 4.5

    def test_errors_are_roots_of_mean_squares(self):
        problem = small_problem("constants", FEW)
        options = {"checkpoints": [20, 50], "initial_weights": first_weights(problem)}
        sampled = gb.exact_curve("td-lambda", problem, 50, 0.2, lanes=50, **options)
        trace = gb.run("td-lambda", problem, 50, 0.2, seeds=range(50), **options)
        for kind in ("full", "centred", "quotient"):
            for norm in ("euclidean", "stationary"):
                expected = np.sqrt((trace.errors(kind, norm=norm) ** 2).mean(axis=0))
                np.testing.assert_allclose(sampled.errors(kind, norm=norm), expected, rtol=1e-12)
            for target in ("paper", "own"):
                if (kind, target) != ("full", "own"):
                    asked = {"target": target, "space": "weights"}
                    expected = np.sqrt((trace.errors(kind, **asked) ** 2).mean(axis=0))
                    np.testing.assert_allclose(sampled.errors(kind, **asked), expected, rtol=1e-12)
        to_line = (trace.errors("quotient", target="own", space="weights") ** 2).mean(axis=0)
        np.testing.assert_allclose(sampled.mean_squared_error, to_line, rtol=1e-12)

    @pytest.mark.parametrize("name", ["single-chain", "relative-td", "centred-td"])
    def test_frozen_means_are_those_that_the_mean_field_has(self, name):
        """The mean of the weights follows the mean field; late, the curve is near that of runs."""
        problem, algorithm = small_problem("dense", FEW), gb.ALGORITHMS[name]
        curve = gb.exact_curve(name, problem, 3, 0.2, sampling="iid", frozen=True, checkpoints=[0, 1, 2, 3])
        field = algorithm.declared.mean_field(problem, algorithm.params())
        for before, after in zip(curve.mean_weights, curve.mean_weights[1:], strict=False):
            expected = before + 0.2 * (field.vector - field.matrix @ before)
            np.testing.assert_allclose(after, expected, rtol=0, atol=1e-14)

    def test_frozen_single_chain_against_a_step_by_hand(self):
        problem = small_problem("tabular", FEW)
        curve = gb.exact_curve(
            "single-chain", problem, 1, 0.25, frozen=True, checkpoints=[1], sampling=gb.Markov(2)
        )
        phi, mean = np.eye(FEW), problem.solution.stationary
        expected = np.zeros(FEW)
        for after, probability in enumerate(problem.mrp.csr.toarray()[2]):
            reward = problem.mrp.transition_rewards[2, after] if probability else 0.0
            expected += 0.25 * probability * reward * (phi[2] - mean)
        np.testing.assert_allclose(curve.mean_weights[0], expected, atol=1e-15)

    def test_frozen_gain_of_tabular_td(self):
        problem = small_problem("tabular", FEW)
        curve = gb.exact_curve("almost-sure-td", problem, 4000, gb.Harmonic(8.0, 20.0), frozen=True)
        assert curve.errors("quotient")[-1] < 0.2 * curve.errors("quotient")[0]

    def test_table(self):
        curve = gb.exact_curve("double-chain", small_problem("dense", FEW), 100, 0.1, checkpoints=[1, 100])
        frame = curve.to_frame()
        assert frame["transitions"].tolist() == [2, 200]
        np.testing.assert_array_equal(frame["error_full"], curve.errors())
        assert frame["standard_error"].isna().all()


class TestDiverged:
    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("step_size", [50.0, gb.Harmonic(5000.0, 1.0)], ids=str)
    def test_errors_are_infinite_and_it_is_said(self, step_size, sampling):
        problem = small_problem("dense", FEW)
        curve = gb.exact_curve("double-chain", problem, 10_000, step_size, sampling=sampling)
        first = int(np.flatnonzero(np.isinf(curve.mean_squared_error))[0])
        assert curve.diverged_by == curve.steps[first] > 1
        assert repr(curve) == f"Curve(double-chain, diverged by step {curve.diverged_by} of 10000)"
        for errors in (curve.mean_squared_error, curve.errors(), curve.errors("centred", norm="stationary")):
            assert np.isfinite(errors[:first]).all()
            assert np.isposinf(errors[first:]).all()
        assert np.isposinf(curve.missed[first:]).all()
        assert np.isnan(curve.mean_weights[first:]).all()

    def test_others_have_not(self):
        assert gb.exact_curve("double-chain", small_problem("dense", FEW), 10, 0.1).diverged_by is None


class TestRefused:
    problem = small_problem("dense", FEW)

    @pytest.mark.parametrize("num_steps", [10**400, 2**53 + 1])
    def test_more_steps_than_can_be_counted(self, num_steps):
        for function in (gb.exact_curve, gb.run):
            with pytest.raises(
                ValueError, match=r"num_steps must be at most 2\*\*53, about 9e15, found about 2"
            ):
                function("double-chain", self.problem, num_steps, 0.1)

    @pytest.mark.parametrize("name", ["single-chain", "relative-td", "centred-td", "almost-sure-td"])
    def test_products_with_means(self, name):
        problem = small_problem("tabular", FEW)
        with pytest.raises(ValueError, match=r"running means.*lanes=1000.*frozen=True"):
            gb.exact_curve(name, problem, 10, 0.1)

    def test_other_steps(self):
        with pytest.raises(ValueError, match=r"lstd declares no step.*lanes=1000"):
            gb.exact_curve("lstd", self.problem, 10, 0.1)

    @pytest.mark.parametrize(
        ("name", "params", "advice"),
        [
            ("td-lambda", {"trace_decay": 0.5}, "use trace_decay=0,"),
            ("implicit-td", {"radius": 3.0, "gain_ratio": 2.0}, "use radius=inf,"),
            ("discounted-td", {"radius": 3.0}, "use radius=inf,"),
        ],
    )
    def test_what_to_change_is_named(self, name, params, advice):
        with pytest.raises(ValueError, match=advice):
            gb.exact_curve(name, self.problem, 10, 0.1, params=params)

    def test_frozen_with_a_radius(self):
        with pytest.raises(ValueError, match="use weights_radius=inf"):
            gb.exact_curve("single-chain", self.problem, 9, 0.1, frozen=True, params={"weights_radius": 2.0})

    def test_frozen_without_need(self):
        with pytest.raises(ValueError, match="leave out frozen=True"):
            gb.exact_curve("double-chain", self.problem, 10, 0.1, frozen=True)

    def test_two_step_sizes(self):
        with pytest.raises(ValueError, match="one step size"):
            gb.exact_curve("double-chain", self.problem, 10, [0.1, 0.2])

    @pytest.mark.parametrize("start", [3, 1.5, True, "second"])
    def test_a_start_that_is_no_state(self, start):
        with pytest.raises(ValueError, match=f"a state from 0 to 2, found {start!r}"):
            gb.exact_curve("double-chain", self.problem, 10, 0.1, sampling=gb.Markov(start))

    def test_a_misspelt_sampling(self):
        """It must not pass for Markov sampling."""
        for function, options in (
            (gb.exact_curve, {"num_steps": 10, "step_size": 0.1}),
            (gb.asymptotic_covariance, {}),
            (gb.efficiency, {}),
            (gb.recommend, {"epsilon": 0.1}),
            (gb.bound, {"num_steps": 10, "step_size": 0.1}),
        ):
            with pytest.raises(ValueError, match="sampling must be 'iid' or 'markov', found 'idd'"):
                function("double-chain", self.problem, sampling="idd", **options)

    @pytest.mark.parametrize("options", [{"lanes": 0}, {"lanes": 2.5}, {"lanes": 5, "frozen": True}])
    def test_lanes(self, options):
        with pytest.raises(ValueError, match="lanes must be a positive integer, without frozen"):
            gb.exact_curve("single-chain", self.problem, 10, 0.1, **options)

    def test_moments_beyond_memory(self):
        problem = gb.Problem(
            gb.MarkovRewardProcess(np.full((300, 300), 1 / 300), np.arange(300.0)), gb.Tabular()
        )
        with pytest.raises(ValueError, match=r"90000 pair of states.*use sampling='iid'"):
            gb.exact_curve("double-chain", problem, 10, 0.1)

    def test_a_time_limit_is_kept_before_the_work(self):
        with pytest.raises(ValueError, match=r"would take about .* s, more than time_limit=0.01"):
            gb.exact_curve("td-lambda", random_problem(), 10**6, gb.Harmonic(1, 10), time_limit=0.01)

    def test_independent_samples_are_advised_only_along_a_chain(self):
        asked = ("td-lambda", random_problem(), 10**6, gb.Harmonic(1, 10))
        for sampling, advice in (
            ("iid", "ask for fewer steps$"),
            ("markov", "fewer steps, or use sampling='iid'"),
        ):
            with pytest.raises(ValueError, match=advice):
                gb.exact_curve(*asked, sampling=sampling, time_limit=0.01)

    def test_long_work_is_announced(self, monkeypatch):
        monkeypatch.setattr(advance, "LONG", 1e-6)
        with pytest.warns(UserWarning, match="this curve takes about"):
            gb.exact_curve("td-lambda", random_problem(), 100, gb.Harmonic(1, 10))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gb.exact_curve("td-lambda", random_problem(), 100, gb.Harmonic(1, 10), time_limit=60.0)

    def test_unread_fields_of_large_problems(self):
        plain = gb.ALGORITHMS["double-chain"]

        def squared(sample, params, step_size):
            matrix, vector = plain.declared.sample_field(sample, params, step_size)
            return matrix**2, vector

        with pytest.raises(ValueError, match="not a sum of products of rows"):
            gb.exact_curve(declaring(plain, sample_field=squared), random_problem(60, 25), 10, 0.1)
