"""Asymptotic covariances against exact curves, closed forms and long runs."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing.drive import FEW, small_problem
from gainbias.theory.curve.curve import error_form

AFFINE = [name for name, algorithm in gb.ALGORITHMS.items() if algorithm.declared.sample_field is not None]
ONE_LIMIT = [
    *(name for name in AFFINE if name != "discounted-td"),
    "single-chain",
    "relative-td",
    "centred-td",
    "lstd",
]
TWO_STATES = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])


def table(num_states, seed):
    """A dense random chain with a feature for each state."""
    rng = np.random.default_rng(seed)
    chain = gb.MarkovRewardProcess(
        rng.dirichlet(np.ones(num_states), num_states), rng.normal(size=num_states)
    )
    return gb.Problem(chain, gb.Tabular())


class TestByHand:
    """Independent rows, one feature: theta* = 1/2 = A, and noise is 1, 1/2, -1/2 or -1 in the first state."""

    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    def test_double_chain(self, sampling):
        averaged = gb.asymptotic_covariance("double-chain", TWO_STATES, sampling=sampling)
        if sampling == "iid":
            np.testing.assert_allclose(averaged, 0.3125 / 0.25)
        harmonic = gb.asymptotic_covariance("double-chain", TWO_STATES, gb.Harmonic(4, 1), sampling=sampling)
        np.testing.assert_allclose(harmonic, averaged * 0.25 * 16 / (2 * 4 * 0.5 - 1))

    def test_least_squares(self):
        """theta = (mean of phi (phi - phi') + w^2)^-1 mean of phi (r - rbar), with the delta method."""
        gain, mean, theta = 0.5, 0.5, 0.5
        influence = []
        for here in (1.0, 0.0):
            for after in (1.0, 0.0):
                reward = here
                residual = here * (reward - gain - (here - after) * theta) - mean * (reward - gain)
                residual -= here * mean * theta + mean * (here - mean) * theta
                influence.append(residual / 0.5)
        expected = np.mean(np.square(influence))
        assert np.mean(influence) == pytest.approx(0.0, abs=1e-15)
        np.testing.assert_allclose(gb.asymptotic_covariance("lstd", TWO_STATES, sampling="iid"), expected)

    def test_autocovariances_of_a_running_mean(self):
        """The gain of td-lambda does not depend on its weights; least squares shows it in those of theta."""
        mrp = gb.MarkovRewardProcess([[0.9, 0.1], [0.3, 0.7]], [1.0, 0.0])
        problem = gb.Problem(mrp, gb.Tabular())
        from gainbias.theory.asymptotics import linearise

        algorithm = gb.ALGORITHMS["td-lambda"]
        linear = linearise(algorithm, problem, algorithm.params(), np.zeros(2), "markov")
        assert linear.covariance[-1, -1] == pytest.approx(problem.solution.asymptotic_variance, rel=1e-12)


@pytest.mark.parametrize("kind", ["dense", "constants"])
@pytest.mark.parametrize("sampling", ["iid", "markov"])
@pytest.mark.parametrize("name", [name for name in AFFINE if name != "discounted-td"])
def test_exact_curves_approach_it(name, sampling, kind):
    """The difference is of order 1 / t."""
    algorithm, problem = gb.ALGORITHMS[name], small_problem(kind, FEW)
    schedule, steps = gb.Harmonic(20.0, 60.0), 5_000 if name == "implicit-td" else 20_000
    expected = gb.asymptotic_covariance(name, problem, schedule, sampling=sampling)
    curve = gb.exact_curve(name, problem, steps, schedule, sampling=sampling, checkpoints=[steps])
    away = curve.mean_weights[-1] - curve.limit
    found = (curve.missed[-1] - np.outer(away, away)) * (steps + 60.0)
    keep = error_form(algorithm, problem)
    np.testing.assert_allclose(
        keep @ found @ keep, expected, rtol=0, atol=300.0 / steps * np.abs(expected).max()
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["iid", "markov"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("single-chain", {"step_size": gb.Harmonic(20, 60)}),
        ("single-chain", {"step_size": gb.Harmonic(20, 60), "params": {"mean_ratio": 0.3}}),
        ("relative-td", {"step_size": gb.Harmonic(20, 60)}),
        ("relative-td", {"tail_average": 0.25}),
        ("centred-td", {"step_size": gb.Harmonic(20, 60)}),
        ("centred-td", {"tail_average": 0.25}),
        ("double-chain", {"tail_average": 0.25}),
        ("td-lambda", {"tail_average": 0.25}),
        ("lstd", {}),
    ],
)
def test_long_runs_approach_it(name, options, sampling):
    """The relative error of a variance over L runs is at most sqrt(2 / L); 15% more for finite t."""
    lanes, steps, problem = 2000, 20_000, small_problem("dense", FEW)
    expected = np.trace(gb.asymptotic_covariance(name, problem, sampling=sampling, **options))
    how = {"step_size": gb.Polynomial(1.0, 4.0, 0.7), **options} if name != "lstd" else {}
    trace = gb.run(name, problem, steps, seeds=range(lanes), sampling=sampling, checkpoints=[steps], **how)
    found = steps * trace.weights[:, -1].var(axis=0).sum()
    assert found == pytest.approx(
        expected, rel=4.0 * np.sqrt(2.0 / lanes) + 0.15 * ("tail_average" in options)
    )


@pytest.mark.slow
def test_what_is_left_for_averages_vanishes_with_time():
    """Single-chain averages have a small covariance along a chain, and approach it like t^-0.3 only."""
    problem = small_problem("dense", FEW)
    expected = np.trace(gb.asymptotic_covariance("single-chain", problem, tail_average=0.25))
    excess = []
    for steps in (10_000, 160_000):
        trace = gb.run(
            "single-chain",
            problem,
            steps,
            gb.Polynomial(1.0, 4.0, 0.7),
            seeds=range(1500),
            checkpoints=[steps],
            tail_average=0.25,
        )
        excess.append(steps * trace.weights[:, -1].var(axis=0).sum() / expected - 1.0)
    assert 0.0 < excess[1] < 0.6 * excess[0]


class TestEfficiency:
    @pytest.mark.parametrize("kind", ["dense", "constants"])
    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("name", ["single-chain", "td-lambda", "projected-td", "implicit-td", "lstd"])
    def test_averages_over_one_chain_are_as_good_as_least_squares(self, name, sampling, kind):
        """Constants in the span, independent transitions: what does not weigh the mean knows less."""
        found = gb.efficiency(name, small_problem(kind, FEW), sampling=sampling)
        if (kind, sampling) == ("constants", "iid") and name not in ("single-chain", "lstd"):
            assert found > 1.05
        else:
            assert found == pytest.approx(1.0, rel=1e-8)

    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("kind", ["centred", "full", "quotient"])
    @pytest.mark.parametrize("norm", ["stationary", "euclidean"])
    @pytest.mark.parametrize("features", ["table", "constants"])
    def test_one_yardstick(self, features, norm, kind, sampling):
        """Errors per transition and efficiencies are in the same proportion for all algorithms."""
        problem = table(4, seed=5) if features == "table" else small_problem("constants", FEW)
        mu, phi = problem.solution.stationary, problem.features.combine(np.eye(problem.num_features))
        shift = {"centred": mu @ phi, "full": 0.0 * mu @ phi, "quotient": phi.mean(axis=0)}[kind]
        weights = mu if norm == "stationary" else np.ones(len(mu))
        form = ((phi - shift).T * weights) @ (phi - shift)
        quotients = []
        for name, params in [(name, {}) for name in ONE_LIMIT] + [("lstd", {"mean_weight": 0.5})]:
            algorithm = gb.ALGORITHMS[name]
            if kind == "full" and algorithm.declared.limit_is_line:
                continue
            covariance = gb.asymptotic_covariance(name, problem, sampling=sampling, params=params)
            error = algorithm.chains * np.vdot(form, covariance)
            found = gb.efficiency(name, problem, kind=kind, norm=norm, sampling=sampling, params=params)
            quotients.append(error / found)
        np.testing.assert_allclose(quotients, quotients[0], rtol=1e-9)
        least = np.vdot(form, gb.asymptotic_covariance("lstd", problem, sampling=sampling))
        assert quotients[0] == pytest.approx(least, rel=1e-9)

    def test_equal_errors_on_a_table(self):
        """Single-chain, differential-td and lstd have one centred error; td-lambda has a larger one."""
        found = {
            name: gb.efficiency(name, table(4, seed=0), sampling="iid")
            for name in ("single-chain", "differential-td", "lstd", "td-lambda")
        }
        assert found.pop("td-lambda") > 1.02
        np.testing.assert_allclose(list(found.values()), 1.0, rtol=1e-9)

    @pytest.mark.slow
    def test_runs_need_as_many_more_transitions(self):
        """Spread of lstd without a weight on the mean over that with one; each known to 4%."""
        problem, spreads = table(4, seed=0), []
        mu = problem.solution.stationary
        for weight in (0.0, 1.0):
            trace = gb.run(
                "lstd",
                problem,
                5000,
                seeds=range(3000),
                sampling="iid",
                checkpoints=[5000],
                params={"mean_weight": weight},
            )
            last = trace.weights[:, -1]
            centred = last - (last @ mu)[:, None]
            spreads.append(float(centred.var(axis=0) @ mu))
        expected = gb.efficiency("lstd", problem, sampling="iid", params={"mean_weight": 0.0})
        assert spreads[0] / spreads[1] == pytest.approx(expected, rel=0.04)

    @pytest.mark.parametrize(
        ("name", "weight"), [("td-lambda", 0.0), ("single-chain", 1.0), ("double-chain", 1.0)]
    )
    def test_other_limits_have_their_own_least_squares(self, name, weight):
        """Outside the constants td-lambda and single-chain have different limits."""
        problem, algorithm, lstd = small_problem("dense", FEW), gb.ALGORITHMS[name], gb.ALGORITHMS["lstd"]
        mu, phi = problem.solution.stationary, problem.features.matrix
        first = np.zeros(phi.shape[1])
        np.testing.assert_allclose(
            algorithm.declared.limit(problem, algorithm.params(), first),
            lstd.declared.limit(problem, lstd.params(mean_weight=weight), first),
        )
        form = ((phi - mu @ phi).T * mu) @ (phi - mu @ phi)
        least = gb.asymptotic_covariance("lstd", problem, params={"mean_weight": weight})
        own = algorithm.chains * np.vdot(form, gb.asymptotic_covariance(name, problem))
        assert gb.efficiency(name, problem) == pytest.approx(own / np.vdot(form, least))

    @pytest.mark.parametrize("name", AFFINE)
    def test_along_a_chain_nothing_is_better(self, name):
        problem = small_problem("constants", FEW)
        averaged = gb.efficiency(name, problem)
        assert averaged >= 1.0 - 1e-9
        assert gb.efficiency(name, problem, gb.Harmonic(400.0, 1.0)) > averaged

    def test_independent_transitions_have_more_in_them(self):
        """The mean of V(s') - V(s) is known to be 0: differential-td uses it; along a chain it sums to 0."""
        problem = small_problem("dense", FEW)
        assert gb.efficiency("differential-td", problem, sampling="iid") < 0.95
        assert gb.efficiency("differential-td", problem) == pytest.approx(1.0, rel=1e-8)

    def test_not_weighing_the_mean_may_help_where_features_span_the_constants(self):
        rng = np.random.default_rng(5)
        chain, features = rng.dirichlet(np.ones(7), 7), np.c_[np.ones(7), rng.standard_normal((7, 2))]
        problem = gb.Problem(gb.MarkovRewardProcess(chain, rng.standard_normal(7)), features)
        assert 0.7 < gb.efficiency("td-lambda", problem, sampling="iid") < 0.9
        assert gb.efficiency("td-lambda", problem) == pytest.approx(1.0, rel=1e-8)

    def test_running_means_cost_an_average_more(self):
        """They have steps 1/t: their past noise is counted again and again."""
        assert gb.efficiency("relative-td", small_problem("dense", FEW)) > 1.5

    @pytest.mark.parametrize("kept", [1.0, 0.75, 0.5])
    @pytest.mark.parametrize("kind", ["constants", "tabular"])
    def test_centred_td_is_as_good_as_least_squares(self, kind, kept):
        """But for the share of the steps that its average leaves out; the level is no worse."""
        problem = small_problem(kind, 8)
        for error in ("centred", "full"):
            found = gb.efficiency("centred-td", problem, tail_average=1.0 - kept, kind=error)
            assert found == pytest.approx(1.0 / kept, rel=1e-9)

    def test_without_the_constant_errors_of_its_means_count(self):
        """As they do for relative-td; those of single-chain, with their own steps, do not."""
        assert 1.05 < gb.efficiency("centred-td", small_problem("dense", 8)) < 1.2
        assert gb.efficiency("single-chain", small_problem("dense", 8)) == pytest.approx(1.0, rel=1e-8)

    def test_two_transitions_for_each_step(self):
        problem = small_problem("constants", FEW)
        covariance = gb.asymptotic_covariance("double-chain", problem, sampling="iid")
        least = gb.asymptotic_covariance("lstd", problem, sampling="iid")
        phi, mu = problem.features.matrix, problem.solution.stationary
        centred = phi - mu @ phi
        form = (centred.T * mu) @ centred
        expected = 2.0 * np.vdot(form, covariance) / np.vdot(form, least)
        assert gb.efficiency("double-chain", problem, sampling="iid") == pytest.approx(expected)


class TestRefused:
    problem = small_problem("dense", FEW)

    def test_steps_that_are_too_small(self):
        field = gb.ALGORITHMS["double-chain"].declared.mean_field(self.problem, ())
        least = 0.5 / np.linalg.eigvals(field.matrix).real.min()
        with pytest.raises(ValueError, match=f"use a above {least:.4g}"):
            gb.asymptotic_covariance("double-chain", self.problem, gb.Harmonic(0.9 * least, 1.0))
        assert np.isfinite(
            gb.asymptotic_covariance("double-chain", self.problem, gb.Harmonic(1.1 * least, 1.0))
        ).all()

    def test_other_step_sizes(self):
        with pytest.raises(ValueError, match=r"step_size must be gb.Harmonic"):
            gb.asymptotic_covariance("double-chain", self.problem, gb.Constant(0.1))

    def test_averages_with_harmonic_steps(self):
        with pytest.raises(ValueError, match="leave out step_size"):
            gb.asymptotic_covariance("double-chain", self.problem, gb.Harmonic(9, 1), tail_average=0.5)

    @pytest.mark.parametrize("share", [-0.1, 1.0])
    def test_shares(self, share):
        with pytest.raises(ValueError, match="tail_average must be at least 0 and below 1"):
            gb.asymptotic_covariance("double-chain", self.problem, tail_average=share)

    def test_a_periodic_chain(self):
        problem = gb.Problem(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0]), gb.Tabular())
        with pytest.raises(ValueError, match="periodic"):
            gb.asymptotic_covariance("double-chain", problem)

    @pytest.mark.parametrize("name", ["vrtd", "lspe"])
    def test_unknown_noise(self, name):
        with pytest.raises(ValueError, match=f"{name} declares no step that is affine"):
            gb.asymptotic_covariance(name, self.problem)

    def test_lstd_with_a_trace(self):
        with pytest.raises(ValueError, match="use trace_decay=0"):
            gb.asymptotic_covariance("lstd", self.problem, params={"trace_decay": 0.5})

    def test_the_full_error_on_a_line(self):
        with pytest.raises(ValueError, match="kind='centred'"):
            gb.efficiency("td-lambda", small_problem("constants", FEW), kind="full")


class TestAnotherConstant:
    """Less than 1 in the full error is another constant; without the constant nothing beats least squares."""

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("name", ["differential-td", "projected-td"])
    def test_along_a_chain(self, name, seed):
        weights = np.random.default_rng(seed).random((3, 3)) + 0.05
        process = gb.MarkovRewardProcess(weights, [1.0, 0.0, 2.0], renormalise=True)
        problem = gb.Problem(process, gb.Tabular())
        assert gb.efficiency(name, problem, kind="full") < 0.95
        assert gb.efficiency("single-chain", problem, kind="full") == pytest.approx(1.0)
        for kind in ("centred", "quotient"):
            assert gb.efficiency(name, problem, kind=kind) >= 1.0 - 1e-9
