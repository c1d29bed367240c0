"""Theorems about single-chain TD: `markov_constant` for constant step sizes, `markov_decaying` for others.

`Projected` is what both share: the projections, and the parameter lambda of the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.algorithms.fields import average_features
from gainbias.theory.bounds.double_chain import paper_mixing
from gainbias.theory.bounds.facts import Facts, projection_radii
from gainbias.theory.bounds.record import (
    OFFSET,
    Bound,
    Condition,
    Decay,
    Trivial,
    at_least,
    at_most,
    below,
    close,
    conclude,
    exponential,
    offset_for_ratio,
    power,
    ratio,
    rounded_down,
    rounded_up,
    slow_decay,
)


@dataclass(frozen=True, eq=False)
class Projected:
    """A single-chain run whose weights and mean are kept in balls.

    Attributes
    ----------
    facts : Facts
    mean_ratio : float
        rho_0 = beta_t / alpha_t.
    weights_radius, features_radius : float
        R_theta and R_w.
    lambda_squared : float
        The square of lambda, with which the proofs trade the error of w for that of theta. It is neither the
        lambda of TD(lambda) nor a spectral gap.
    """

    facts: Facts
    mean_ratio: float
    weights_radius: float
    features_radius: float
    lambda_squared: float

    @property
    def reach(self) -> float:
        """Bound on an update, r_max + 2 R_theta."""
        return self.facts.r_max + 2.0 * self.weights_radius

    @property
    def size(self) -> float:
        """Factor of the noise, (r_max + 3 R_theta)^2."""
        return (self.facts.r_max + 3.0 * self.weights_radius) ** 2

    @property
    def curvature(self) -> float:
        """The constant zeta, also called c_1_lambda: eta - lambda^2 (r_max + 2 R_theta) / 2."""
        return self.facts.eta - 0.5 * self.lambda_squared * self.reach

    @property
    def price(self) -> float:
        """The constant c_2_lambda = (r_max + 2 R_theta) / lambda^2."""
        return ratio(self.reach, self.lambda_squared)

    @property
    def trivial(self) -> Trivial:
        """Bounds known without a theorem: weights in the ball are at most R_theta + |theta*| away."""
        return self.facts.trivial._replace(
            anyway=power(self.weights_radius + self.facts.length, 2.0),
            anyway_because="what the projection alone gives, (R_theta + |theta*|)^2",
        )

    @cached_property
    def _mean_length(self) -> float:
        return float(np.linalg.norm(average_features(self.facts.problem)))

    @property
    def constants(self) -> dict[str, float]:
        """The numbers that occur in both theorems."""
        return {
            **self.facts.constants,
            "rho_0": self.mean_ratio,
            "R_theta": self.weights_radius,
            "R_w": self.features_radius,
            "lambda^2": self.lambda_squared,
        }

    @property
    def conditions(self) -> list[Condition]:
        """Conditions of both theorems, lambda strictly inside its interval (finding 14)."""
        facts, radius = self.facts, self.weights_radius
        return [
            *facts.conditions,
            at_most("ratio of the steps", "rho_0 <= 1", self.mean_ratio, 1.0, "mean_ratio of at most 1"),
            at_most("projection radius", "R_theta < inf", radius, math.inf, "a finite weights_radius", True),
            at_least(
                "projection radius",
                "R_theta >= |theta*|",
                radius,
                facts.length,
                "weights_radius=gb.projection_radii(problem).valid",
            ),
            at_least(
                "projection radius",
                "R_theta >= |theta_0|",
                radius,
                facts.first_length,
                "shorter initial_weights",
            ),
            at_least(
                "radius of the mean",
                "R_w >= |w*|",
                self.features_radius,
                self._mean_length,
                "features_radius=1",
            ),
            at_least("lambda^2", "lambda^2 > 0", self.lambda_squared, 0.0, "a positive lambda_squared", True),
            at_most(
                "lambda^2",
                "lambda^2 < 2 eta / (r_max + 2 R_theta)",
                self.lambda_squared,
                ratio(2.0 * facts.eta, self.reach),
                f"lambda_squared={default_lambda_squared(facts, radius):.6g}",
                True,
            ),
        ]


def projected(
    facts: Facts,
    as_printed: bool,
    mean_ratio: float = 1.0,
    weights_radius: float | None = None,
    features_radius: float = math.inf,
    lambda_squared: float | None = None,
) -> Projected:
    """Return a run with the radius of the theory and the middle of the interval of lambda^2, unless given."""
    if weights_radius is None:
        radii = projection_radii(facts.problem)
        weights_radius = radii.as_printed if as_printed else radii.valid
    if lambda_squared is None:
        lambda_squared = default_lambda_squared(facts, weights_radius)
    return Projected(facts, mean_ratio, weights_radius, features_radius, lambda_squared)


def default_lambda_squared(facts: Facts, radius: float) -> float:
    """Return eta / (r_max + 2 R_theta), which halves the curvature, or 1 where nothing ever moves."""
    reach = facts.r_max + 2.0 * radius
    return facts.eta / reach if reach else 1.0


def markov_constant(run: Projected, alpha: float, steps: int, as_printed: bool = False) -> Bound:
    """Bound for one chain with steps alpha and beta = rho_0 alpha, with tau = tau_mix(beta).

    With X = r_max + 2 R_theta and rho = max(kappa, G_1), for T >= tau it is

        4 alpha X (T - tau) rho^(T - tau - 1) / lambda^2
            + 4 R_theta^2 kappa^(T - tau) + alpha G_const / (2 zeta)

    The paper has the exponent T - tau, with which a geometric sum is one power short (finding 5), and its
    G_const lacks the factor rho_0 that the proof has (finding 13): it is larger, and so also valid. Besides,
    the mean w must not overshoot: beta <= 1 (finding 35). The findings are those of docs/paper.md.
    """
    facts, R = run.facts, run.weights_radius
    zeta, rho_0 = run.curvature, run.mean_ratio
    tau = facts.mixing_time(min(alpha, rho_0 * alpha))
    waiting = steps - tau
    kappa, G_1 = 1.0 - 2.0 * alpha * zeta, math.exp(-2.0 * rho_0 * alpha)
    G_const = (1.0 if as_printed else rho_0) * (16 * tau + 6) * run.price + (88 * tau + 4) * run.size
    exponent = "T - tau_mix" if as_printed else "T - tau_mix - 1"

    def value() -> float:
        log_kappa = math.log1p(-2.0 * alpha * zeta)  # kappa itself has lost the digits of small steps
        log_rho = max(log_kappa, -2.0 * rho_0 * alpha)
        overlap = waiting * math.exp(log_rho * (waiting if as_printed else max(waiting - 1, 0)))
        noise = alpha * G_const / (2.0 * zeta)
        return 4.0 * alpha * run.price * overlap + 4.0 * R**2 * math.exp(log_kappa * waiting) + noise

    return conclude(
        f"Single-chain, Markov sampling, constant step size, {'as printed' if as_printed else 'corrected'}",
        f"4 alpha (r_max + 2 R_theta) (T - tau_mix) rho^({exponent}) / lambda^2 "
        "+ 4 R_theta^2 kappa^(T - tau_mix) + alpha G_const / (2 zeta)",
        value,
        {
            **run.constants,
            facts.tau_name: tau,
            "zeta": zeta,
            "kappa": kappa,
            "G_1": G_1,
            "rho": max(kappa, G_1),
            "G_const": G_const,
        },
        [*run.conditions, facts.enough_steps(steps, tau), *_step_conditions(run, alpha, as_printed)],
        run.trivial,
    )


def _step_conditions(run: Projected, alpha: float, as_printed: bool) -> list[Condition]:
    """Return the conditions on the steps of the weights and, unless as printed, of the mean."""
    advice = f"a step size of at most {rounded_down(largest_step(run, as_printed))}"
    stable = ratio(1.0, 2.0 * max(run.curvature, 0.0))
    of_weights = at_most("step size", "alpha < 1 / (2 zeta)", alpha, stable, advice, strict=True)
    of_mean = at_most("step of the mean", "beta <= 1", run.mean_ratio * alpha, 1.0, advice)
    return [of_weights] if as_printed else [of_weights, of_mean]


def largest_step(run: Projected, as_printed: bool = False) -> float:
    """Return the largest step below 1 / (2 zeta) with a step of the mean of at most 1."""
    stable = below(below(ratio(1.0, 2.0 * max(run.curvature, 0.0))))
    return stable if as_printed else min(stable, 1.0 / run.mean_ratio)


def markov_decaying(run: Projected, decay: Decay, steps: int, as_printed: bool = False) -> Bound:
    """Bound for one chain with steps alpha_t = a / (t + c0)^xi and beta_t = rho_0 alpha_t.

    With tau = tau_mix(rho_0 alpha_T) and the constants of the paper's appendix it is

        xi = 1:  4 R^2 ((tau + c0) / (T + c0))^(a c_1) + (Gamma_1 + Gamma_0 G_1(T)) / (T + c0)^(a c_1)
        xi < 1:  4 R^2 exp(-a c_1 Delta_T / (1 - xi)) + a (G_1(T) + rho_0 c_2 G_2(T)) / (c_1 (T + c0)^xi)
                 + 4 a c_2 exp(a c_1 / c0^xi) Delta'_T exp(-a min(c_1, 2 rho_0) Delta_T / (1 - xi)) / (1 - xi)

    For xi = 1 the theorem needs a eta < 1, so that its exponent a c_1 is below 1: it never promises 1/T
    (finding 11). What differs from the paper unless `as_printed`: rho_1 is 36 + 8 rho_0, not 28 + 8 rho_0
    (finding 6); tau is that of rho_0 alpha_T, not of alpha_T (finding 7); tau itself stands where the paper
    has L_1 times a logarithm (finding 8); lambda^2 may not be at an end of its interval (finding 14); the
    proof's products need 2 c_1 alpha_0 <= 1 (finding 15) and 2 rho_0 alpha_0 <= 1, its sums c0 >= 1 and
    c0 >= c_0_1 (finding 35); and for xi < 1 a sum of decreasing steps is bounded by the integral from tau - 1
    to T - 1 (Delta'_T), as the printed one from tau to T (Delta_T) is smaller than the sum (finding 34).
    """
    c0, xi = decay.c0, decay.xi
    level = decay.at(steps) if as_printed else run.mean_ratio * decay.at(steps)
    tau = run.facts.mixing_time(level)
    constants = _constants(run, decay, steps, tau, as_printed)
    conditions = [
        *run.conditions,
        run.facts.enough_steps(steps, tau),
        *([] if as_printed else _product_conditions(run, decay, steps, tau)),
    ]
    name = f"Single-chain, Markov sampling, decaying step size, {'as printed' if as_printed else 'corrected'}"
    first, c_1 = 4.0 * run.weights_radius**2, run.curvature
    if xi == 1.0:
        constants |= _harmonic_constants(run, decay, steps, tau, constants["G_2(T)"])
        noise = constants["Gamma_1"] + constants["Gamma_0"] * constants["G_1(T)"]
        return conclude(
            f"{name}, xi = 1",
            "(4 R_theta^2 (tau_mix + c0)^(a c_1) + Gamma_1 + Gamma_0 G_1(T)) / (T + c0)^(a c_1)",
            lambda: (
                first * ((tau + c0) / (steps + c0)) ** (decay.a * c_1)
                + noise / (steps + c0) ** (decay.a * c_1)
            ),
            constants,
            [*conditions, *_harmonic_conditions(run, decay)],
            run.trivial,
        )
    constants |= {
        "Delta_T": decay.between(tau, steps),
        "Delta'_T": decay.between(tau, steps) if as_printed else decay.between(tau - 1, steps - 1),
        "rho_min": min(c_1, 2.0 * run.mean_ratio),
    }
    return conclude(
        f"{name}, xi < 1",
        "4 R_theta^2 exp(-a c_1 Delta_T / (1 - xi)) + a (G_1(T) + rho_0 c_2 G_2(T)) / (c_1 (T + c0)^xi) "
        "+ 4 a c_2 / (1 - xi) exp(a c_1 / c0^xi) Delta'_T exp(-a rho_min Delta_T / (1 - xi))",
        lambda: _polynomial_value(run, decay, steps, constants),
        constants,
        [*conditions, *_polynomial_conditions(run, decay)],
        run.trivial,
    )


def _constants(run: Projected, decay: Decay, steps: int, tau: int, as_printed: bool) -> dict[str, float]:
    """Return c_1, c_2, rho_1, G_1(T) and G_2(T), and c_0_1, or C, beta and L_1 in the printed form."""
    rho_0 = run.mean_ratio
    rho_1 = (28.0 if as_printed else 36.0) + 8.0 * rho_0
    mixing: dict[str, float] = {run.facts.tau_name: tau, "c_0_1": offset_for_ratio(tau, decay.xi)}
    for_weights = for_mean = float(tau)
    if as_printed:
        mixing |= paper_mixing(run.facts)
        late = math.log(steps + decay.c0) + 1.0
        for_weights = mixing["L_1"] * (late - math.log(decay.a))
        for_mean = mixing["L_1"] * (late - math.log(rho_0 * decay.a))
    return {
        **run.constants,
        **mixing,
        "c_1_lambda": run.curvature,
        "c_2_lambda": run.price,
        "rho_1": rho_1,
        "G_1(T)": (4.0 * rho_1 * for_weights + 4.0) * run.size,
        "G_2(T)": 64.0 * for_mean + 12.0,
    }


def _harmonic_constants(run: Projected, decay: Decay, steps: int, tau: int, G_2: float) -> dict[str, float]:
    """Return Gamma_0 and Gamma_1 in the three cases of rho_0 a."""
    a, c_1, c_2 = decay.a, run.curvature, run.price
    b = run.mean_ratio * a
    early = 4.0 * power(tau + decay.c0, 2.0 * b)
    rest = ratio(4.0 * a * c_2, 1.0 - a * c_1)
    if close(b, 0.5):
        Gamma_1 = rest * (early + 4.0 * power(b, 2.0) * math.log(steps + decay.c0) * G_2)
    elif b < 0.5:
        slow = ratio(power(2.0, a * c_1) * a * c_2, 2.0 * b - a * c_1)
        Gamma_1 = slow * (early + 4.0 * power(b, 2.0) / (1.0 - 2.0 * b) * G_2)
    else:
        Gamma_1 = rest * (early + 4.0 * math.e * power(b, 2.0) / (2.0 * b - 1.0) * G_2)
    return {"Gamma_0": ratio(4.0 * power(a, 2.0), 1.0 - a * c_1), "Gamma_1": Gamma_1}


def _polynomial_value(run: Projected, decay: Decay, steps: int, constants: dict[str, float]) -> float:
    a, xi, c_1, c_2 = decay.a, decay.xi, run.curvature, run.price
    scale = a / (1.0 - xi)
    noise = constants["G_1(T)"] + run.mean_ratio * c_2 * constants["G_2(T)"]
    overlap = (
        exponential(a * c_1 / decay.c0**xi)
        * constants["Delta'_T"]
        * math.exp(-scale * constants["rho_min"] * constants["Delta_T"])
    )
    return (
        4.0 * run.weights_radius**2 * math.exp(-scale * c_1 * constants["Delta_T"])
        + a * noise / (c_1 * power(steps + decay.c0, xi))
        + 4.0 * scale * c_2 * overlap
    )


def _product_conditions(run: Projected, decay: Decay, steps: int, tau: int) -> list[Condition]:
    """Return the conditions that the proof uses and the theorem does not state."""
    first, xi = decay.at(0), decay.xi
    slowest = 2.0 * max(run.curvature, run.mean_ratio)
    return [
        decay.large_offset("c0 >= 1", 1.0),
        slow_decay(decay, tau, lambda now: run.facts.mixing_time(run.mean_ratio * now.at(steps))),
        at_most(
            OFFSET,
            "2 max(c_1, rho_0) alpha_0 <= 1",
            slowest * first,
            1.0,
            f"c0 at least {rounded_up(power(slowest * decay.a, 1.0 / xi))}",
        ),
    ]


def _harmonic_conditions(run: Projected, decay: Decay) -> list[Condition]:
    eta, rho_0 = run.facts.eta, run.mean_ratio
    least = ratio(2.0 * eta - 4.0 * rho_0, run.reach)
    return [
        at_most(
            "a",
            "a < 1 / eta",
            decay.a,
            ratio(1.0, eta),
            f"a below {rounded_down(ratio(1.0, eta))}",
            strict=True,
        ),
        at_least(
            "lambda^2",
            "lambda^2 > (2 eta - 4 rho_0) / (r_max + 2 R_theta)",
            run.lambda_squared,
            least,
            f"lambda_squared above {rounded_up(least)}",
            strict=True,
        ),
    ]


def _polynomial_conditions(run: Projected, decay: Decay) -> list[Condition]:
    a, xi = decay.a, decay.xi
    return [
        decay.large_offset(formula, power(ratio(xi, a * max(rate, 0.0)), 1.0 / (1.0 - xi)))
        for formula, rate in (
            ("c0 >= (xi / (a c_1))^(1/(1-xi))", run.curvature),
            ("c0 >= (xi / (rho_0 a))^(1/(1-xi))", run.mean_ratio),
        )
    ]
