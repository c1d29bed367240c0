"""Bounds on single-chain TD, against arithmetic by hand on the chain of `flipping`."""

from math import e, exp, log

import numpy as np
import pytest

import gainbias as gb
from tests.theory.flipping import ETA, LENGTH, flipping, tau

PROBLEM = flipping()
L_1 = (log(2) + 4 / 5 + 1) * 5
GIVEN = {"weights_radius": 1.0, "mean_ratio": 0.5, "lambda_squared": 0.2}  # r_max + 2 R = 3, r_max + 3 R = 4


def constants(bound, **expected):
    for name, value in expected.items():
        assert bound.constants[name] == pytest.approx(value, rel=1e-9), name


class TestConstant:
    @pytest.mark.parametrize("as_printed", [False, True])
    def test_value(self, as_printed):
        alpha, T = 1e-3, 5000
        bound = gb.bound(
            "single-chain", PROBLEM, step_size=alpha, num_steps=T, as_printed=as_printed, **GIVEN
        )
        mixed = tau(5e-4)
        assert mixed == 35
        zeta = 0.7 - 0.2 * 3 / 2
        kappa, G_1 = 1 - 2 * alpha * zeta, exp(-2 * 0.5 * alpha)
        G_const = (1 if as_printed else 0.5) * (16 * 35 + 6) * 3 / 0.2 + (88 * 35 + 4) * 4**2
        exponent = T - 35 - (0 if as_printed else 1)
        by_hand = 4 * alpha * 3 * (T - 35) * max(kappa, G_1) ** exponent / 0.2
        by_hand += 4 * kappa ** (T - 35) + alpha * G_const / (2 * zeta)
        assert bound.certified
        assert bound.theorem_value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, zeta=zeta, kappa=kappa, G_1=G_1, rho=max(kappa, G_1), G_const=G_const, tau_mix=35)

    def test_each_term_counts(self):
        bound = gb.bound("single-chain", PROBLEM, step_size=1e-3, num_steps=35, **GIVEN)
        assert bound.theorem_value == pytest.approx(4 + 1e-3 * bound.constants["G_const"] / 0.8, rel=1e-9)
        later = gb.bound("single-chain", PROBLEM, step_size=1e-3, num_steps=36, **GIVEN)
        more = 4 * 1e-3 * 3 / 0.2 + 4 * (1 - 8e-4) + 1e-3 * bound.constants["G_const"] / 0.8
        assert later.theorem_value == pytest.approx(more, rel=1e-9)

    def test_defaults(self):
        bound = gb.bound("single-chain", PROBLEM, step_size=1e-3, num_steps=5000)
        radius = gb.projection_radii(PROBLEM).valid
        constants(bound, R_theta=radius, rho_0=1, zeta=0.35, **{"lambda^2": 0.7 / (1 + 2 * radius)})
        assert bound.constants["R_w"] == np.inf
        printed = gb.bound("single-chain", PROBLEM, step_size=1e-3, num_steps=5000, as_printed=True)
        constants(printed, R_theta=gb.projection_radii(PROBLEM).as_printed)

    def test_a_small_step_keeps_its_digits(self):
        """1 - 2 alpha zeta is 1 in double precision, but the first error is forgotten all the same."""
        bound = gb.bound("single-chain", PROBLEM, step_size=1e-17, num_steps=10**18, **GIVEN)
        noise = 1e-17 * bound.constants["G_const"] / 0.8
        decayed = 4 * exp(-8.0) + 4e-17 * 3 * 10**18 * exp(-8.0) / 0.2
        assert bound.theorem_value == pytest.approx(decayed + noise, rel=1e-9)

    @pytest.mark.parametrize(
        ("changes", "formula"),
        [
            ({"step_size": 1.25}, "alpha < 1 / (2 zeta)"),
            ({"mean_ratio": 1.5}, "rho_0 <= 1"),
            ({"weights_radius": 0.3}, "R_theta >= |theta*|"),
            ({"initial_weights": [1.5]}, "R_theta >= |theta_0|"),
            ({"features_radius": 0.4}, "R_w >= |w*|"),
            ({"num_steps": 34}, "T >= tau_mix"),
            ({"weights_radius": np.inf}, "R_theta < inf"),
            ({"lambda_squared": 1.4 / 3}, "lambda^2 < 2 eta / (r_max + 2 R_theta)"),
            ({"lambda_squared": 0.5}, "lambda^2 < 2 eta / (r_max + 2 R_theta)"),
            ({"lambda_squared": 0.0}, "lambda^2 > 0"),
        ],
    )
    @pytest.mark.parametrize("as_printed", [False, True])
    def test_conditions(self, changes, formula, as_printed):
        arguments = {"step_size": 1e-3, "num_steps": 5000, **GIVEN, **changes}
        bound = gb.bound("single-chain", PROBLEM, as_printed=as_printed, **arguments)
        assert formula in [broken.formula for broken in bound.violated]
        assert not bound.certified
        assert np.isnan(bound.value)

    def test_the_mean_must_not_overshoot(self):
        arguments = {"step_size": 1.1, "num_steps": 5000, "lambda_squared": 0.4, "weights_radius": 1.0}
        assert gb.bound("single-chain", PROBLEM, as_printed=True, **arguments).certified
        (broken,) = gb.bound("single-chain", PROBLEM, **arguments).violated
        assert broken.formula == "beta <= 1"


class TestDecaying:
    R, REACH, SIZE = 1.0, 3.0, 16.0

    @pytest.mark.parametrize("a", [0.3, 0.5, 1.2], ids=["rho a < 1/2", "rho a = 1/2", "rho a > 1/2"])
    @pytest.mark.parametrize("as_printed", [False, True])
    def test_xi_one(self, a, as_printed):
        T, c0, squared = 10**6, 1000.0, 0.2
        bound = gb.bound(
            "single-chain",
            PROBLEM,
            step_size=gb.Harmonic(a, c0),
            num_steps=T,
            as_printed=as_printed,
            weights_radius=1.0,
            lambda_squared=squared,
        )
        c_1, c_2 = 0.7 - 0.2 * 3 / 2, 3 / 0.2
        mixed = tau(a / (T + c0))
        rho_1 = 36 if as_printed else 44
        factor = L_1 * (log(T + c0) - log(a) + 1) if as_printed else mixed
        G_1, G_2 = (4 * rho_1 * factor + 4) * 16, 64 * factor + 12
        Gamma_0 = 4 * a**2 / (1 - a * c_1)
        early = 4 * (mixed + c0) ** (2 * a)
        if a == 0.3:
            Gamma_1 = 2 ** (a * c_1) * a * c_2 / (2 * a - a * c_1) * (early + 4 * a**2 / (1 - 2 * a) * G_2)
        elif a == 0.5:
            Gamma_1 = 4 * a * c_2 / (1 - a * c_1) * (early + 4 * a**2 * log(T + c0) * G_2)
        else:
            Gamma_1 = 4 * a * c_2 / (1 - a * c_1) * (early + 4 * e * a**2 / (2 * a - 1) * G_2)
        by_hand = 4 * ((mixed + c0) / (T + c0)) ** (a * c_1)
        by_hand += (Gamma_1 + Gamma_0 * G_1) / (T + c0) ** (a * c_1)
        assert bound.certified
        assert bound.theorem_value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, c_1_lambda=c_1, c_2_lambda=c_2, Gamma_0=Gamma_0, Gamma_1=Gamma_1, rho_1=rho_1)
        constants(bound, tau_mix=mixed, **{"G_1(T)": G_1, "G_2(T)": G_2})

    @pytest.mark.parametrize("as_printed", [False, True])
    def test_xi_below_one(self, as_printed):
        T, c0, a, xi, rho_0 = 3000, 1e4, 5.0, 0.5, 0.5
        bound = gb.bound(
            "single-chain",
            PROBLEM,
            step_size=gb.Polynomial(a, c0, xi),
            num_steps=T,
            as_printed=as_printed,
            **GIVEN,
        )
        c_1, c_2 = 0.4, 15.0
        last = a / (T + c0) ** xi
        mixed = tau(last if as_printed else rho_0 * last)
        rho_1 = (28 if as_printed else 36) + 8 * rho_0
        late = log(T + c0) + 1
        for_weights = L_1 * (late - log(a)) if as_printed else mixed
        for_mean = L_1 * (late - log(rho_0 * a)) if as_printed else mixed
        G_1, G_2 = (4 * rho_1 * for_weights + 4) * 16, 64 * for_mean + 12
        delta = (T + c0) ** 0.5 - (mixed + c0) ** 0.5
        longer = delta if as_printed else (T - 1 + c0) ** 0.5 - (mixed - 1 + c0) ** 0.5
        by_hand = 4 * exp(-a * c_1 / 0.5 * delta)
        by_hand += a * (G_1 + rho_0 * c_2 * G_2) / (c_1 * (T + c0) ** xi)
        by_hand += 4 * a * c_2 / 0.5 * exp(a * c_1 / c0**xi) * longer * exp(-a / 0.5 * 0.4 * delta)
        assert bound.certified
        assert bound.theorem_value == pytest.approx(by_hand, rel=1e-9)
        constants(bound, tau_mix=mixed, rho_min=0.4, **{"G_1(T)": G_1, "G_2(T)": G_2, "Delta'_T": longer})

    def test_the_terms_that_vanish(self):
        """With few steps the first error and the overlap of both errors are most of the bound."""
        few = {"step_size": gb.Polynomial(5.0, 1e4, 0.5), **GIVEN}
        bound = gb.bound("single-chain", PROBLEM, num_steps=20, **few)
        mixed = tau(0.5 * 5 / (1e4 + 20) ** 0.5)
        noise = bound.constants["G_1(T)"] + 0.5 * 15 * bound.constants["G_2(T)"]
        delta = (20 + 1e4) ** 0.5 - (mixed + 1e4) ** 0.5
        longer = (19 + 1e4) ** 0.5 - (mixed - 1 + 1e4) ** 0.5
        rest = bound.theorem_value - 5 * noise / (0.4 * (20 + 1e4) ** 0.5)
        expected = exp(-5 * 0.4 / 0.5 * delta) * (4 + 4 * 5 * 15 / 0.5 * exp(5 * 0.4 / 100) * longer)
        assert rest == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize(
        ("step_size", "changes", "formula"),
        [
            (gb.Harmonic(1 / 0.69, 1000), {}, "a < 1 / eta"),
            (gb.Harmonic(0.3, 20), {}, "c0 >= c_0_1 = tau_mix / (2^(1/xi) - 1)"),
            (gb.Harmonic(0.3, 0.9), {}, "c0 >= 1"),
            (gb.Polynomial(100.0, 1e3, 0.5), {}, "2 max(c_1, rho_0) alpha_0 <= 1"),
            (gb.Polynomial(1.0, 1.2, 0.5), {}, "c0 >= (xi / (a c_1))^(1/(1-xi))"),
            (gb.Polynomial(1.0, 1.2, 0.5), {"mean_ratio": 0.4}, "c0 >= (xi / (rho_0 a))^(1/(1-xi))"),
            (
                gb.Harmonic(0.3, 1e3),
                {"mean_ratio": 0.2},
                "lambda^2 > (2 eta - 4 rho_0) / (r_max + 2 R_theta)",
            ),
            (gb.Harmonic(0.3, 1e3), {"lambda_squared": 1.4 / 3}, "lambda^2 < 2 eta / (r_max + 2 R_theta)"),
            (gb.Harmonic(0.3, 1e10), {"num_steps": 5}, "T >= tau_mix"),
        ],
    )
    def test_conditions(self, step_size, changes, formula):
        arguments = {"num_steps": 10**6, **GIVEN, **changes}
        bound = gb.bound("single-chain", PROBLEM, step_size=step_size, **arguments)
        assert formula in [broken.formula for broken in bound.violated]
        assert np.isnan(bound.value)

    def test_lambda_at_its_lower_end_is_refused(self):
        """c_1 = 2 rho_0 there, and the constant Gamma_1 divides by their difference."""
        ratio = 0.2
        end = (2 * ETA - 4 * ratio) / 3
        for squared, holds in ((end, False), (end * (1 + 1e-6), True)):
            bound = gb.bound(
                "single-chain",
                PROBLEM,
                step_size=gb.Harmonic(0.3, 1000),
                num_steps=10**6,
                weights_radius=1.0,
                mean_ratio=ratio,
                lambda_squared=squared,
            )
            assert bound.certified == holds

    def test_the_theorem_never_promises_one_over_T(self):
        """It asks for a eta < 1, and its exponent is a times a number below eta (finding 11)."""
        steps = {"step_size": gb.Harmonic(1.4, 1e4), "weights_radius": LENGTH, "lambda_squared": 1e-4}
        early = gb.bound("single-chain", PROBLEM, num_steps=10**10, **steps)
        late = gb.bound("single-chain", PROBLEM, num_steps=10**14, **steps)
        slope = (log(late.theorem_value) - log(early.theorem_value)) / log(1e4)
        assert -1 < slope < -0.9
