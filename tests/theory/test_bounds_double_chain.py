"""Bounds on double-chain TD, against arithmetic by hand on the chain of `flipping`."""

from math import e, exp, log

import numpy as np
import pytest

import gainbias as gb
from tests.theory.flipping import LENGTH, double_chain, exact_errors, flipping, tau

PROBLEM = flipping()
C, BETA = 2 * exp(4 / 5), exp(-1 / 5)  # 0.8^5 is the first power below 1/e
L_1 = (log(2) + 4 / 5 + 1) * 5


def constants(bound, **expected):
    for name, value in expected.items():
        assert bound.constants[name] == pytest.approx(value, rel=1e-9), name


class TestIid:
    def test_value(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=0.01, num_steps=300, sampling="iid")
        by_hand = exp(-0.01 * 0.7 * 300) * 25 / 196 + 18 * 0.01 * (19 / 14) ** 2 / 0.7
        assert bound.certified
        assert bound.value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, eta=0.7, r_max=1, **{"|theta*|": 5 / 14, "|theta_0 - theta*|": 5 / 14})
        constants(bound, **{"constant of O(.)": 18})

    def test_first_weights(self):
        bound = gb.bound(
            "double-chain", PROBLEM, step_size=0.01, num_steps=300, sampling="iid", initial_weights=[2.0]
        )
        by_hand = exp(-2.1) * (2 - 5 / 14) ** 2 + 0.18 * (19 / 14) ** 2 / 0.7
        assert bound.value == pytest.approx(by_hand, rel=1e-9)

    def test_the_step_size_must_be_at_most_an_eighteenth_of_eta(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=0.04, num_steps=300, sampling="iid")
        assert not bound.certified
        assert np.isnan(bound.value)
        (broken,) = bound.violated
        assert broken.name == "step size"
        assert broken.value == 0.04
        assert broken.limit == pytest.approx(0.7 / 18)
        assert "at most 0.0388888" in broken.remedy
        assert "alpha <= eta / 18 fails with 0.04 against 0.0389" in repr(bound)


class TestMarkovConstant:
    B, G = 29 / 14, 42 * (29 / 14) ** 2 + 30 * (19 / 14) ** 2

    def test_value(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=1e-4, num_steps=100_000)
        assert tau(1e-4) == 42
        by_hand = exp(-2e-4 * 0.7 * (100_000 - 42)) * self.B**2 + 1e-4 * self.G * 127 / 1.4
        assert bound.value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, B=self.B, G=self.G, tau_mix=42)

    def test_the_step_size_has_a_limit_that_depends_on_the_mixing_time(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=1e-3, num_steps=100_000)
        (broken,) = bound.violated
        assert broken.limit == pytest.approx(0.7 * self.B**2 / ((3 * tau(1e-3) + 1) * self.G))
        assert "0.000100438" in broken.remedy

    def test_fewer_steps_than_the_mixing_time_are_not_covered(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=1e-4, num_steps=41)
        assert [broken.formula for broken in bound.violated] == ["T >= tau_mix"]
        assert bound.violated[0].remedy == "at least 42 steps"
        at_tau = gb.bound("double-chain", PROBLEM, step_size=1e-4, num_steps=42)
        assert at_tau.value == pytest.approx(self.B**2 + 1e-4 * self.G * 127 / 1.4, rel=1e-9)


class TestDecaying:
    BETA_1 = 2 * (1 + 2 * LENGTH) ** 2 + 2 * LENGTH**2
    BETA_2 = 946 * (1 + 3 * LENGTH) ** 2

    @pytest.mark.parametrize(
        ("a", "gamma_over_tilde_beta"),
        [
            (1.0, 4 / (1 - 0.7)),
            (1 / 0.7, 4 / 0.49 * log(1e9 + 1e7)),
            (3.0, 36 * e / (2.1 - 1)),
        ],
        ids=["a eta < 1", "a eta = 1", "a eta > 1"],
    )
    @pytest.mark.parametrize("as_printed", [False, True])
    def test_xi_one(self, a, gamma_over_tilde_beta, as_printed):
        T, c0 = 10**9, 1e7
        bound = gb.bound(
            "double-chain", PROBLEM, step_size=gb.Harmonic(a, c0), num_steps=T, as_printed=as_printed
        )
        mixed = tau(a / (T + c0))
        factor = L_1 * (log(T + c0) - log(a) + 1) if as_printed else mixed
        tilde_beta = 2 * self.BETA_2 * factor
        q = min(1, 0.7 * a)
        by_hand = self.BETA_1 * ((mixed + c0) / (T + c0)) ** (0.7 * a)
        by_hand += gamma_over_tilde_beta * tilde_beta / (T + c0) ** q
        assert bound.value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, beta_1=self.BETA_1, beta_2=self.BETA_2, tau_mix=mixed, q=q, c_0_1=mixed)
        constants(bound, **{"tilde_beta(T)": tilde_beta, "Gamma(T)": gamma_over_tilde_beta * tilde_beta})
        if as_printed:
            constants(bound, C=C, beta=BETA, L_1=L_1)

    @pytest.mark.parametrize("as_printed", [False, True])
    def test_xi_below_one(self, as_printed):
        T, c0 = 10**13, 1e12
        step_size = gb.Polynomial(2.0, c0, 0.5)
        bound = gb.bound("double-chain", PROBLEM, step_size=step_size, num_steps=T, as_printed=as_printed)
        mixed = tau(2 / (T + c0) ** 0.5)
        factor = L_1 * (log(T + c0) - log(2) + 1) if as_printed else mixed
        beta_T = 4 * 2 * self.BETA_2 * factor
        by_hand = self.BETA_1 * exp(-0.7 * 2 / 0.5 * ((T + c0) ** 0.5 - (mixed + c0) ** 0.5))
        by_hand += beta_T / (0.7 * (T + c0) ** 0.5)
        assert bound.value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, c_0_1=mixed / 3, **{"beta(T)": beta_T})

    def test_the_exponential_term(self):
        T, c0 = 10**7, 1e12  # so few steps that the first error is not forgotten
        bound = gb.bound("double-chain", PROBLEM, step_size=gb.Polynomial(2.0, c0, 0.5), num_steps=T)
        noise = bound.constants["beta(T)"] / (0.7 * (T + c0) ** 0.5)
        delta = (T - bound.constants["tau_mix"]) / ((T + c0) ** 0.5 + c0**0.5)  # a^2 - b^2 = (a - b)(a + b)
        assert bound.value - noise == pytest.approx(self.BETA_1 * exp(-2.8 * delta), rel=1e-6)
        assert bound.value - noise < 0.9 * self.BETA_1

    def test_how_large_the_offset_must_be(self):
        bound = gb.bound("double-chain", PROBLEM, step_size=gb.Harmonic(3.0, 1000), num_steps=10**9)
        assert not bound.certified
        (broken,) = bound.violated
        mixed, limit = tau(3 / (1000 + 10**9)), 0.7 / 2694
        assert broken.limit == pytest.approx(limit)
        assert broken.value == pytest.approx(sum(3 / (1000 + i) for i in range(mixed)))
        c02 = bound.constants["c_0_2"]
        assert sum(3 / (c02 + i) for i in range(mixed)) == pytest.approx(limit, rel=1e-9)
        assert float(broken.remedy.split()[-1]) > c02  # the mixing time grows with the offset

    def test_every_other_condition_on_the_offset(self):
        harmonic = gb.bound("double-chain", PROBLEM, step_size=gb.Harmonic(3.0, 0.5), num_steps=10**9)
        assert {broken.formula for broken in harmonic.violated} == {
            "sum of the first tau_mix steps <= min(1/12, eta/2694)",
            "c0 >= c_0_1 = tau_mix / (2^(1/xi) - 1)",
            "c0 >= 1",
            "c0 >= eta a",
        }
        limits = {broken.formula: broken.limit for broken in harmonic.violated}
        assert limits["c0 >= eta a"] == pytest.approx(2.1)
        slow = gb.bound("double-chain", PROBLEM, step_size=gb.Polynomial(1e-6, 1e6, 0.5), num_steps=10**9)
        (broken,) = slow.violated
        assert broken.formula == "c0 >= (2 xi / (a eta))^(1/(1-xi))"
        assert broken.limit == pytest.approx((1 / (1e-6 * 0.7)) ** 2)

    def test_printed_conditions(self):
        bound = gb.bound(
            "double-chain", PROBLEM, step_size=gb.Harmonic(1.0, 1e7), num_steps=10**9, as_printed=True
        )
        limits = {condition.formula: condition.limit for condition in bound.conditions}
        mixed = tau(1 / (10**9 + 1e7))
        expected = 2 * L_1 / (mixed + 1e7) * (log(10**9 + 1e7) + 1)
        assert limits["sum of the first tau_mix steps <= 2 L_1 alpha_tau (log(1/alpha_T) + 1)"] == (
            pytest.approx(expected, rel=1e-9)
        )


class TestAgainstTheTruth:
    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("features", [((1.0,), (0.0,)), ((1.0, 0.0), (0.0, 1.0))], ids=["one", "tabular"])
    def test_the_exact_error_is_below_the_bound(self, sampling, features):
        problem, alpha = flipping((1.0, -0.5), features), 0.01 if sampling == "iid" else 1e-5
        errors = exact_errors(problem, alpha, 600, problem.fixed_point, double_chain, sampling)
        checked = 0
        for T in (1, 10, 60, 200, 400, 600):
            bound = gb.bound("double-chain", problem, step_size=alpha, num_steps=T, sampling=sampling)
            if bound.certified:
                checked += 1
                assert errors[T] <= bound.value
        assert checked >= 4
