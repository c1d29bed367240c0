"""Mixing constants, radii, the average of rewards and discounted TD, against arithmetic by hand."""

from math import exp, sqrt

import numpy as np
import pytest

import gainbias as gb
from tests.theory.flipping import exact_errors, flipping, tau

PROBLEM = flipping()
C, BETA = 2 * exp(4 / 5), exp(-1 / 5)
TURNING = [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]  # omega = 1


def random_problem(rng):
    n = int(rng.integers(2, 6))
    transitions = rng.dirichlet(np.full(n, 0.4), n) + 0.01
    transitions /= transitions.sum(axis=1, keepdims=True)
    features = rng.normal(size=(n, int(rng.integers(1, n + 1))))
    features /= np.linalg.norm(features, axis=1).max()
    return gb.Problem(gb.MarkovRewardProcess(transitions, rng.normal(size=n)), features)


class TestMixingConstants:
    def test_values(self):
        assert gb.mixing_constants(PROBLEM) == pytest.approx((C, BETA), rel=1e-12)
        assert gb.mixing_constants(PROBLEM.mrp) == gb.mixing_constants(PROBLEM)

    def test_they_hold_at_all_times(self):
        rng = np.random.default_rng(0)
        chains = [random_problem(rng) for _ in range(20)]
        chains += [gb.Problem(gb.MarkovRewardProcess(TURNING, [1.0, 0.0, 0.0]), gb.Tabular()), PROBLEM]
        for problem in chains:
            constant, beta = gb.mixing_constants(problem)
            transitions, power = problem.mrp.csr.toarray(), np.eye(problem.mrp.num_states)
            for t in range(100):
                distance = np.abs(power - problem.solution.stationary).sum(axis=1).max()
                assert distance <= constant * beta**t + 1e-13
                power = power @ transitions

    def test_a_periodic_chain_has_none(self):
        problem = gb.Problem(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0]), gb.Tabular())
        with pytest.raises(ValueError, match="periodic with period 2"):
            gb.mixing_constants(problem)


class TestRadii:
    def test_values(self):
        radii = gb.projection_radii(PROBLEM)
        assert radii.from_eta == pytest.approx(0.25 / 0.7, rel=1e-9)
        bias = 0.5 / 1.8  # of the first state; the gap is 1.8
        assert radii.from_gap == pytest.approx(3 * bias / sqrt(0.5), rel=1e-9)
        assert radii.as_printed == pytest.approx(2 * C / ((1 - BETA) * sqrt((1 - 0.64) * 0.5)), rel=1e-9)
        assert radii.valid == pytest.approx(0.25 / 0.7, rel=1e-7)

    def test_a_small_gap(self):
        """Two states that swap with probability 0.1: the gap is 0.2."""
        slow = gb.Problem(gb.MarkovRewardProcess([[0.9, 0.1], [0.1, 0.9]], [1.0, 0.0]), gb.Tabular())
        assert gb.projection_radii(slow).from_gap == pytest.approx((1 + 2 / 0.2) * 2.5 / sqrt(0.5), rel=1e-9)

    def test_valid_ones_hold_the_fixed_point(self):
        rng = np.random.default_rng(1)
        for _ in range(40):
            problem = random_problem(rng)
            radii = gb.projection_radii(problem)
            length = np.linalg.norm(problem.fixed_point)
            assert length <= radii.valid
            assert length <= radii.from_gap
            assert length <= radii.from_eta * (1 + 1e-8)

    def test_the_printed_one_is_infinite_where_omega_is_one(self):
        """Counterexample of finding 1: an ergodic chain that does not contract."""
        problem = gb.Problem(gb.MarkovRewardProcess(TURNING, [1.0, 0.0, 0.0]), gb.Tabular())
        assert problem.mrp.is_ergodic
        assert problem.condition_numbers.omega == pytest.approx(1.0)
        assert gb.projection_radii(problem).as_printed == np.inf
        assert np.linalg.norm(problem.fixed_point) <= gb.projection_radii(problem).valid < 2
        arguments = {"step_size": 1e-4, "num_steps": 10**6}
        printed = gb.bound("single-chain", problem, as_printed=True, **arguments)
        assert "R_theta < inf" in [broken.formula for broken in printed.violated]
        assert gb.bound("single-chain", problem, **arguments).certified


class TestRewardEstimate:
    def test_values(self):
        bound = gb.bound("reward-estimate", PROBLEM, num_steps=50)
        assert bound.value == pytest.approx(4 * (1 + C / (1 - BETA)) / 50, rel=1e-9)
        assert bound.quantity == "E(r_T - g)^2"
        assert gb.bound("reward-estimate", PROBLEM, num_steps=50, sampling="iid").value == 1 / 50
        assert gb.bound("reward-estimate", flipping((2.0, 0.0)), num_steps=50, sampling="iid").value == 4 / 50
        doubled = gb.bound("reward-estimate", flipping((2.0, 0.0)), num_steps=50)
        assert doubled.value == pytest.approx(4 * bound.value, rel=1e-12)

    def test_as_printed(self):
        bound = gb.bound("reward-estimate", PROBLEM, num_steps=50, as_printed=True)
        mixed, variance = tau(1 / 50), 0.25 * (1 - 0.8) / (1 + 0.8)
        drift = (2 * mixed + C * BETA**mixed / (1 - BETA)) / 50
        assert bound.value == pytest.approx(2 * variance / 50 + 2 * drift**2, rel=1e-9)
        assert not gb.bound("reward-estimate", PROBLEM, num_steps=3, as_printed=True).certified

    def test_steps_are_counted_for_continuous_time_too(self):
        """A process made by `from_rates` has the bounds of the chain that its steps make."""
        queue = gb.MarkovRewardProcess.from_rates([[-1.0, 1.0], [3.0, -3.0]], reward_rates=[0.0, 2.0])
        steps = gb.MarkovRewardProcess(queue.transitions, queue.rewards)
        in_time, in_steps = (
            gb.bound("reward-estimate", gb.Problem(mrp, gb.Tabular()), num_steps=50, as_printed=True)
            for mrp in (queue, steps)
        )
        assert in_time.constants["gamma^2"] == pytest.approx(0.5**2 * 0.25 * 0.75, rel=1e-12)
        assert in_time.value == pytest.approx(in_steps.value, rel=1e-12)

    def test_the_exact_error_is_below_the_bound(self):
        rng = np.random.default_rng(2)
        for _ in range(10):
            problem = random_problem(rng)
            transitions = problem.mrp.csr.toarray()
            excess = problem.mrp.rewards - problem.solution.gain
            total, square = (
                np.zeros_like(excess),
                np.zeros_like(excess),
            )  # of the sum of t rewards, by first state
            for t in range(1, 101):
                square = excess**2 + 2 * excess * (transitions @ total) + transitions @ square
                total = excess + transitions @ total
                bound = (
                    gb.bound("reward-estimate", problem, num_steps=t).value if t in (1, 5, 100) else np.inf
                )
                assert square.max() / t**2 <= bound


class TestDiscounted:
    GAMMA = 0.5
    TARGET = 0.5 / (0.5 * (1 - 0.5 * 0.1))  # Phi^T D R / Phi^T D (I - gamma P) Phi
    RATE = 0.5 * 0.5  # (1 - gamma) omega
    SIGMA = 0.5 * (0.1 * (1 - 0.5 * TARGET) ** 2 + 0.9 * (1 - TARGET) ** 2)

    def test_iid_constant(self):
        bound = gb.bound(
            "discounted-td", PROBLEM, step_size=0.03, num_steps=200, sampling="iid", discount=0.5
        )
        by_hand = exp(-0.03 * self.RATE * 200) * self.TARGET**2 + 2 * 0.03 * self.SIGMA / self.RATE
        assert bound.value == pytest.approx(by_hand, rel=1e-9)
        assert bound.constants["sigma^2"] == pytest.approx(self.SIGMA, rel=1e-9)
        large = gb.bound(
            "discounted-td", PROBLEM, step_size=0.04, num_steps=200, sampling="iid", discount=0.5
        )
        (broken,) = large.violated
        assert broken.limit == pytest.approx(self.RATE / 8)

    def test_iid_harmonic_with_the_steps_of_the_theorem(self):
        a, c0 = 2 / self.RATE, 16 / (0.5**2 * 0.5)
        arguments = {"num_steps": 1000, "sampling": "iid", "discount": 0.5}
        bound = gb.bound("discounted-td", PROBLEM, step_size=gb.Harmonic(a, c0), **arguments)
        nu = max(8 * self.SIGMA / self.RATE**2, 16 * self.TARGET**2 / (0.5**2 * 0.5))
        assert bound.value == pytest.approx(nu / (c0 + 1000), rel=1e-9)
        far = gb.bound(
            "discounted-td", PROBLEM, step_size=gb.Harmonic(a, c0), initial_weights=[self.TARGET], **arguments
        )
        assert far.value == pytest.approx(8 * self.SIGMA / self.RATE**2 / (c0 + 1000), rel=1e-9)

    def test_iid_harmonic_with_steps_that_the_theorem_does_not_cover(self):
        a, c0 = 2 / self.RATE, 16 / (0.5**2 * 0.5)
        for wrong, formula, value, limit in (
            (gb.Harmonic(0.9 / self.RATE, c0), "a > 1 / ((1 - gamma) omega)", 0.9 / self.RATE, 1 / self.RATE),
            (gb.Harmonic(a, 0.9 * c0), "a / c0 <= (1 - gamma) / 8", a / (0.9 * c0), 0.5 / 8),
        ):
            bound = gb.bound(
                "discounted-td", PROBLEM, step_size=wrong, num_steps=1000, sampling="iid", discount=0.5
            )
            (broken,) = bound.violated
            assert broken.formula == formula
            assert (broken.value, broken.limit) == pytest.approx((value, limit), rel=1e-9)

    def test_markov_constant(self):
        bound = gb.bound("discounted-td", PROBLEM, step_size=1e-3, num_steps=5000, discount=0.5)
        R = 2 / (sqrt(0.5) * 0.5**1.5)
        mixed = tau(2e-3)  # total variation is half of the distance
        by_hand = exp(-2e-3 * self.RATE * 5000) * self.TARGET**2
        by_hand += 1e-3 * (1 + 2 * R) ** 2 * (9 + 12 * mixed) / (2 * self.RATE)
        assert bound.theorem_value == pytest.approx(by_hand, rel=1e-9)
        assert "stationary start" in bound.theorem
        small = gb.bound("discounted-td", PROBLEM, step_size=1e-3, num_steps=5000, discount=0.5, radius=1.0)
        assert [broken.formula for broken in small.violated] == ["R >= |theta*|"]

    def test_the_exact_error_is_below_the_bound(self):
        def update(phi, r, s, after, other):
            return np.outer(phi[s], phi[s] - 0.5 * phi[after]), r[s] * phi[s]

        errors = exact_errors(PROBLEM, 0.03, 500, [self.TARGET], update)
        assert errors[500] < 0.1 * errors[0]
        for T in (1, 20, 500):
            bound = gb.bound(
                "discounted-td", PROBLEM, step_size=0.03, num_steps=T, sampling="iid", discount=0.5
            )
            assert errors[T] <= bound.value

    @pytest.mark.parametrize("discount", [0.0, 1.0, 2.0])
    def test_the_discount_is_below_one(self, discount):
        with pytest.raises(ValueError, match="discount must be above 0 and below 1"):
            gb.bound("discounted-td", PROBLEM, step_size=0.01, num_steps=10, discount=discount)
