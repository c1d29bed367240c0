"""Counterexamples to statements of the paper (docs/paper.md), and input for which there is no bound."""

from math import exp

import numpy as np
import pytest

import gainbias as gb
from tests.theory.flipping import flipping

PROBLEM = flipping()


class TestFindings:
    def test_3_eta1_may_be_below_its_multiple_of_eta2(self):
        """With two states of equal weight the printed factor mu_min / (n mu_max |mu|^2) is 1."""
        numbers = flipping(features=gb.Tabular()).condition_numbers
        mu = np.array([0.5, 0.5])
        factor = mu.min() / (2 * mu.max() * (mu @ mu))
        assert factor == 1
        assert numbers.eta1 == pytest.approx(0.5)
        assert numbers.eta2 == pytest.approx(0.9)
        assert numbers.eta1 < factor * numbers.eta2
        assert numbers.eta1 >= numbers.eta3 / 2

    def test_2_the_order_of_eta1_and_eta2_depends_on_whether_constants_are_in_the_span(self):
        rng = np.random.default_rng(3)
        for _ in range(20):
            transitions = rng.dirichlet(np.ones(5), 5)
            mrp = gb.MarkovRewardProcess(transitions, rng.normal(size=5))
            others = rng.normal(size=(5, 2))
            outside = gb.Problem(mrp, others).condition_numbers
            inside = gb.Problem(mrp, np.column_stack([others, np.ones(5)])).condition_numbers
            assert outside.eta1 >= outside.eta2 * (1 - 1e-9)
            assert inside.eta1 <= inside.eta2 * (1 + 1e-9)

    def test_5_a_geometric_sum_is_one_power_short(self):
        kappa = G_1 = 0.5
        total = sum(kappa ** (3 - j) * G_1**j for j in range(4))
        assert total == 0.5
        assert 4 * max(kappa, G_1) ** 4 == 0.25  # the printed bound
        assert total <= 4 * max(kappa, G_1) ** 3
        arguments = {"step_size": 0.5, "num_steps": 20, "weights_radius": 1.0, "lambda_squared": 0.2}
        bounds = [gb.bound("single-chain", PROBLEM, as_printed=flag, **arguments) for flag in (False, True)]
        rho, tau = bounds[0].constants["rho"], bounds[0].constants["tau_mix"]
        assert rho == pytest.approx(1 - 2 * 0.5 * 0.4)
        missing = 4 * 0.5 * 3 * (20 - tau) / 0.2 * rho ** (20 - tau) * (1 / rho - 1)
        assert bounds[0].theorem_value - bounds[1].theorem_value == pytest.approx(
            missing
        )  # rho_0 = 1: G_const is the same

    def test_6_the_noise_constant_agrees_with_that_of_constant_steps(self):
        arguments = {"step_size": gb.Harmonic(0.5, 1000), "num_steps": 10**5}
        assert gb.bound("single-chain", PROBLEM, **arguments).constants["rho_1"] == 44
        assert gb.bound("single-chain", PROBLEM, as_printed=True, **arguments).constants["rho_1"] == 36

    def test_7_the_mixing_time_is_that_of_the_smaller_step(self):
        arguments = {"step_size": gb.Harmonic(0.5, 1000), "num_steps": 10**5, "mean_ratio": 0.01}
        right = gb.bound("single-chain", PROBLEM, **arguments).constants["tau_mix"]
        assert right > gb.bound("single-chain", PROBLEM, as_printed=True, **arguments).constants["tau_mix"]

    def test_13_the_printed_constant_is_larger(self):
        arguments = {"step_size": 1e-3, "num_steps": 10**4, "mean_ratio": 0.1, "weights_radius": 1.0}
        right = gb.bound("single-chain", PROBLEM, **arguments).constants["G_const"]
        assert gb.bound("single-chain", PROBLEM, as_printed=True, **arguments).constants["G_const"] > right

    def test_17_the_experiments_do_not_meet_the_theorem(self):
        for name in ("random-walk-50", "frozen-lake"):
            task = gb.task(name)
            steps = gb.Harmonic(task.paper.step_numerator, task.paper.step_offset)
            bound = gb.bound("double-chain", task, step_size=steps, num_steps=task.paper.num_steps)
            sums = [broken for broken in bound.violated if broken.formula.startswith("sum of the first")]
            assert len(sums) == 1
            assert sums[0].value > 1e4 * sums[0].limit

    def test_34_a_sum_of_decreasing_steps_is_not_below_its_integral(self):
        """The lemma on exponential terms bounds the sum from tau to T - 1 by the integral from tau to T."""
        a, c0, c_1, T = 0.1 * 10**0.5, 10.0, 1.0, 2  # tau = 1, rho_0 = 1
        assert c0 >= (0.5 / (a * c_1)) ** 2  # the condition of the theorem
        total = a / (1 + c0) ** 0.5  # the one term of the sum
        delta = (T + c0) ** 0.5 - (1 + c0) ** 0.5
        printed = exp(a * c_1 / c0**0.5) * a / 0.5 * delta * exp(-a / 0.5 * c_1 * delta)
        assert total > printed
        longer = (T - 1 + c0) ** 0.5 - c0**0.5
        assert total <= printed * longer / delta
        bound = gb.bound("single-chain", PROBLEM, step_size=gb.Polynomial(5.0, 1e4, 0.5), num_steps=1000)
        assert bound.constants["Delta'_T"] > bound.constants["Delta_T"]


class TestNothingMoves:
    """Without rewards the weights stay at theta* = 0, where some conditions read 0 / 0."""

    STILL = flipping((0.0, 0.0))

    @pytest.mark.parametrize(
        ("algorithm", "sampling", "step_size"),
        [
            ("double-chain", "iid", 0.01),
            ("double-chain", "markov", 0.5),
            ("double-chain", "markov", gb.Harmonic(1.0, 1e8)),
            ("single-chain", "markov", 0.5),
            ("single-chain", "markov", gb.Harmonic(0.5, 1e3)),
            ("single-chain", "markov", gb.Polynomial(0.5, 1e3, 0.5)),
            ("discounted-td", "iid", 1e-4),
            ("discounted-td", "markov", 1e-4),
        ],
    )
    def test_the_bound_is_zero(self, algorithm, sampling, step_size):
        bound = gb.bound(algorithm, self.STILL, step_size=step_size, num_steps=10**6, sampling=sampling)
        assert bound.certified
        assert bound.value == 0.0

    def test_only_first_weights_elsewhere_move(self):
        bound = gb.bound("double-chain", self.STILL, step_size=1e-5, num_steps=10**5, initial_weights=[1.0])
        assert bound.constants["B"] == 2
        assert bound.value > 0


class TestNoBound:
    def test_features_without_full_rank(self):
        with pytest.raises(ValueError, match="rank"):
            flipping(features=[[1.0, 1.0], [0.5, 0.5]])

    def test_long_features(self):
        bound = gb.bound(
            "double-chain", flipping(features=[[2.0], [0.0]]), step_size=1e-6, num_steps=10**5, sampling="iid"
        )
        assert [broken.formula for broken in bound.violated] == ["max |phi(s)| <= 1"]
        assert "normalise_features" in bound.violated[0].remedy

    def test_rounding_of_normalised_features_is_allowed(self):
        rng = np.random.default_rng(0)
        mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(40), 40), rng.normal(size=40))
        problem = gb.Problem(mrp, gb.normalise_features(rng.normal(size=(40, 3)), by="row"))
        assert gb.bound("double-chain", problem, step_size=1e-8, num_steps=10, sampling="iid").certified

    @pytest.mark.parametrize(
        "algorithm", ["double-chain", "single-chain", "reward-estimate", "discounted-td"]
    )
    def test_a_periodic_chain(self, algorithm):
        swap = gb.Problem(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0]), [[1.0], [0.0]])
        step_size = None if algorithm == "reward-estimate" else 1e-4
        with pytest.raises(ValueError, match="periodic with period 2"):
            gb.bound(algorithm, swap, step_size=step_size, num_steps=1000)

    def test_a_reducible_chain(self):
        with pytest.raises(ValueError, match="irreducible"):
            gb.Problem(gb.MarkovRewardProcess([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]), gb.Tabular())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"algorithm": "td-lambda"}, "theorems about double-chain, single-chain, .* found 'td-lambda'"),
            ({"sampling": "stationary"}, "sampling must be 'iid' or 'markov', found 'stationary'"),
            ({"num_steps": 0}, "num_steps must be a positive integer, found 0"),
            ({"step_size": np.array([0.1, 0.2])}, "no theorem covers Listed"),
            ({"step_size": gb.Harmonic(1, 10), "sampling": "iid"}, "there is one for constant step sizes"),
            ({"algorithm": "single-chain", "sampling": "iid"}, "for sampling='markov' only"),
            ({"discount": 0.9}, "theorems about double-chain have no parameters, found 'discount'"),
            (
                {"algorithm": "single-chain", "weights_radius": -1.0},
                "weights_radius must be a positive number",
            ),
            ({"algorithm": "single-chain", "mean_ratio": 0.0}, "mean_ratio must be a positive number"),
            ({"algorithm": "single-chain", "lambda_squared": np.nan}, "lambda_squared must be a positive"),
            ({"initial_weights": [0.0, 0.0]}, r"initial_weights must have shape \(1,\)"),
            ({"problem": PROBLEM.mrp}, "problem must be a gb.Problem or a task, found MarkovRewardProcess"),
            ({"algorithm": "reward-estimate"}, "the average of rewards has no step size"),
        ],
    )
    def test_wrong_input(self, changes, message):
        arguments = {"algorithm": "double-chain", "problem": PROBLEM, "step_size": 1e-4, "num_steps": 1000}
        with pytest.raises(ValueError, match=message):
            gb.bound(**{**arguments, **changes})


class TestRecord:
    def test_plain_values(self):
        answer = gb.bound("double-chain", PROBLEM, step_size=1e-4, num_steps=1000).to_dict()
        assert set(answer) == {
            "value",
            "certified",
            "quantity",
            "formula",
            "constants",
            "conditions",
            "theorem",
            "theorem_value",
            "trivial",
            "informative",
            "note",
        }
        assert answer["conditions"][0]["holds"] is True
        assert isinstance(answer["constants"]["tau_mix"], float)

    def test_a_task_is_taken_for_its_problem(self):
        task = gb.task("random-walk-50")
        arguments = {"step_size": 1e-9, "num_steps": 10**6, "sampling": "iid"}
        assert gb.bound("double-chain", task, **arguments) == gb.bound(
            gb.ALGORITHMS["double-chain"], task.problem, **arguments
        )
