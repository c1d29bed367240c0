"""Theorems to compare with: about discounted TD(0), and about the plain average of rewards.

The first part are the theorems of Bhandari, Russo and Singal (2018) about discounted TD(0). There theta* is
the discounted fixed point, the limit of `discounted-td`, and omega the smallest eigenvalue of Phi^T D Phi.

The functions at the end, whose names begin with `average`, bound the error of the average of rewards as an
estimate of the gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.algorithms import discounted_td
from gainbias.theory.bounds.facts import Facts, mixing_constants, positive
from gainbias.theory.bounds.record import (
    OFFSET,
    Bound,
    Condition,
    Decay,
    Trivial,
    at_least,
    at_most,
    below,
    conclude,
    power,
    ratio,
    rounded_down,
    rounded_up,
)
from gainbias.theory.curve.enumeration import move_law
from gainbias.types import Floats

SOURCE = "Bhandari, Russo and Singal (2018), discounted TD(0)"

AVERAGE_ERROR = "E(r_T - g)^2"
"""Expected squared error of r_T, the plain average of the first T rewards."""


@dataclass(frozen=True, eq=False)
class Discounted:
    """A discounted problem: the discount gamma, and the radius of the projection (Markov sampling only)."""

    facts: Facts
    discount: float
    radius: float

    @cached_property
    def target(self) -> Floats:
        """The discounted fixed point."""
        params = discounted_td.Params(self.discount)
        weights = discounted_td.limit(self.facts.problem, params, self.facts.first)
        assert weights is not None  # there is no radius
        return weights

    @cached_property
    def first_error(self) -> float:
        """Distance of the first weights from the discounted fixed point."""
        return float(np.linalg.norm(self.facts.first - self.target))

    @property
    def omega(self) -> float:
        """Smallest eigenvalue of Phi^T D Phi."""
        return self.facts.problem.condition_numbers.gram_min

    @property
    def rate(self) -> float:
        """Rate of convergence, (1 - gamma) omega."""
        return (1.0 - self.discount) * self.omega

    @cached_property
    def variance(self) -> float:
        """Variance of an update at theta*, sigma^2 = E|g_t(theta*)|^2 under the stationary law."""
        law = move_law(self.facts.problem)
        params = discounted_td.Params(self.discount)
        fields = [
            discounted_td.sample_field(sample, params, 1.0) for sample in law.samples(self.facts.problem)
        ]
        updates = [field[1] - field[0] @ self.target for field in fields if field is not None]
        return float(law.probability @ np.sum(np.square(updates), axis=1))

    @property
    def constants(self) -> dict[str, float]:
        """The numbers that occur in every theorem."""
        return {
            "gamma": self.discount,
            "omega": self.omega,
            "r_max": self.facts.r_max,
            "|theta_0 - theta*|": self.first_error,
        }

    @property
    def conditions(self) -> list[Condition]:
        """Conditions of every theorem."""
        return [self.facts.features_condition, positive("smallest eigenvalue", "omega", self.omega)]


def discounted(facts: Facts, discount: float = 0.99, radius: float | None = None) -> Discounted:
    """Return a discounted problem with the authors' radius 2 r_max / (sqrt(omega) (1 - gamma)^(3/2))."""
    if not 0.0 < discount < 1.0:
        raise ValueError(f"discount must be above 0 and below 1, found {discount!r}")
    if radius is None:
        omega = facts.problem.condition_numbers.gram_min
        radius = 2.0 * facts.r_max / (math.sqrt(omega) * (1.0 - discount) ** 1.5)
    return Discounted(facts, discount, radius)


def iid_constant(run: Discounted, alpha: float, steps: int) -> Bound:
    """Bound of Theorem 2 (b): independent samples, no projection, a step alpha <= omega (1 - gamma) / 8."""
    limit = largest_iid_step(run)
    return conclude(
        f"{SOURCE}, i.i.d. sampling, constant step size",
        "exp(-alpha (1 - gamma) omega T) |theta_0 - theta*|^2 + 2 alpha sigma^2 / ((1 - gamma) omega)",
        lambda: (
            math.exp(-alpha * run.rate * steps) * run.first_error**2 + 2.0 * alpha * run.variance / run.rate
        ),
        {**run.constants, "sigma^2": run.variance},
        [
            *run.conditions,
            at_most(
                "step size", "alpha <= omega (1 - gamma) / 8", alpha, limit, f"at most {rounded_down(limit)}"
            ),
        ],
        Trivial(power(run.first_error, 2.0)),
    )


def largest_iid_step(run: Discounted) -> float:
    """Return the largest step for independent samples, omega (1 - gamma) / 8."""
    return run.rate / 8.0


def iid_harmonic(run: Discounted, decay: Decay, steps: int) -> Bound:
    """Bound of Theorem 2 (c): independent samples, no projection, steps a / (t + c0).

    The theorem has a = 2 / ((1 - gamma) omega) and c0 = 16 / ((1 - gamma)^2 omega); its induction works for
    all a and c0 that meet the conditions here, with nu = max(2 a^2 sigma^2 / (a (1 - gamma) omega - 1),
    c0 |theta_0 - theta*|^2), which are the printed constants for the printed steps.
    """
    a, c0 = decay.a, decay.c0
    excess = a * run.rate - 1.0
    nu = max(ratio(2.0 * power(a, 2.0) * run.variance, max(excess, 0.0)), c0 * run.first_error**2)
    first = (1.0 - run.discount) / 8.0
    return conclude(
        f"{SOURCE}, i.i.d. sampling, harmonic step size",
        "nu / (T + c0)",
        lambda: nu / (steps + c0),
        {**run.constants, "sigma^2": run.variance, "nu": nu},
        [
            *run.conditions,
            at_least(
                "a",
                "a > 1 / ((1 - gamma) omega)",
                a,
                1.0 / run.rate,
                f"a = {2.0 / run.rate:.6g}",
                strict=True,
            ),
            at_most(
                OFFSET, "a / c0 <= (1 - gamma) / 8", a / c0, first, f"c0 at least {rounded_up(a / first)}"
            ),
        ],
        Trivial(power(run.first_error, 2.0)),
    )


def markov_constant(run: Discounted, alpha: float, steps: int) -> Bound:
    """Bound of Theorem 3 (b): one chain from its stationary law, weights kept in a ball of radius R.

    tau_mix is the first step at which the total variation, half of the L1 distance, is at most alpha.
    """
    tau = run.facts.mixing_time(2.0 * alpha)
    G = run.facts.r_max + 2.0 * run.radius
    limit = largest_markov_step(run)
    length, first = float(np.linalg.norm(run.target)), run.facts.first_length
    return conclude(
        f"{SOURCE}, Markov sampling from a stationary start, constant step size",
        "exp(-2 alpha (1 - gamma) omega T) |theta_0 - theta*|^2 "
        "+ alpha G^2 (9 + 12 tau_mix) / (2 (1 - gamma) omega)",
        lambda: (
            math.exp(-2.0 * alpha * run.rate * steps) * run.first_error**2
            + alpha * G**2 * (9 + 12 * tau) / (2.0 * run.rate)
        ),
        {**run.constants, "R": run.radius, "G": G, run.facts.tau_name: tau},
        [
            *run.conditions,
            at_least(
                "projection radius", "R >= |theta*|", run.radius, length, f"radius={rounded_up(length)}"
            ),
            at_least("projection radius", "R >= |theta_0|", run.radius, first, "shorter initial_weights"),
            at_most(
                "projection radius", "R < inf", run.radius, math.inf, f"radius={rounded_up(length)}", True
            ),
            at_most(
                "step size",
                "alpha < 1 / (2 omega (1 - gamma))",
                alpha,
                ratio(1.0, 2.0 * run.rate),
                f"at most {rounded_down(limit)}",
                True,
            ),
        ],
        Trivial(
            power(run.first_error, 2.0),
            anyway=power(run.radius + length, 2.0),
            anyway_because="what the projection alone gives, (R + |theta*|)^2",
        ),
    )


def largest_markov_step(run: Discounted) -> float:
    """Return the largest step for one chain, just below 1 / (2 omega (1 - gamma))."""
    return below(below(ratio(1.0, 2.0 * run.rate)))


def average_iid(facts: Facts, steps: int) -> Bound:
    """Bound r_max^2 / T for independent samples: the variance of one reward, divided by T."""
    return conclude(
        "Average reward, i.i.d. sampling",
        "r_max^2 / T",
        lambda: facts.r_max**2 / steps,
        {"r_max": facts.r_max},
        [],
        _trivial(facts),
        AVERAGE_ERROR,
    )


def average_markov(facts: Facts, steps: int) -> Bound:
    """Bound 4 r_max^2 (1 + C / (1 - beta)) / T for a chain, from any first state.

    The paper shows O(1/T) only. Here rewards k > 0 steps apart have |E (r_i - g)(r_j - g)| <= 2 r_max^2 C
    beta^(k - 1), because the law of the state after i + 1 has been forgotten to that degree; summing over all
    pairs gives the constant. It needs neither a stationary start nor signs of covariances (finding 12).
    """
    C, beta = mixing_constants(facts.problem)
    return conclude(
        "Average reward, Markov sampling, corrected",
        "4 r_max^2 (1 + C / (1 - beta)) / T",
        lambda: 4.0 * facts.r_max**2 * (1.0 + C / (1.0 - beta)) / steps,
        {"r_max": facts.r_max, "C": C, "beta": beta},
        [],
        _trivial(facts),
        AVERAGE_ERROR,
    )


def average_markov_as_printed(facts: Facts, steps: int) -> Bound:
    """Bound 2 gamma^2 / T + 2 b^2, with b T = r_max (2 tau + C beta^tau / (1 - beta)), as the proof gives it.

    gamma^2 is the sum of all stationary covariances, which bounds the variance only if none is negative, and
    if the chain starts in its stationary law (finding 12). The paper does not say at which level tau_mix is
    meant; here it is 1/T.
    """
    C, beta = mixing_constants(facts.problem)
    tau = facts.mixing_time(1.0 / steps)
    variance = facts.problem.solution.variance_per_step
    drift = facts.r_max * (2.0 * tau + C * beta**tau / (1.0 - beta)) / steps
    return conclude(
        "Average reward, Markov sampling, as printed",
        "2 gamma^2 / T + 2 (r_max (2 tau_mix + C beta^tau_mix / (1 - beta)) / T)^2",
        lambda: 2.0 * variance / steps + 2.0 * drift**2,
        {"r_max": facts.r_max, "C": C, "beta": beta, facts.tau_name: tau, "gamma^2": variance},
        [at_least("number of steps", "T >= tau_mix", steps, tau, f"at least {tau} steps")],
        _trivial(facts),
        AVERAGE_ERROR,
    )


def _trivial(facts: Facts) -> Trivial:
    """Return the bound known without a theorem: averages of rewards are at most r_max + |g| from the gain."""
    most = facts.r_max + abs(facts.problem.solution.gain_per_step)
    return Trivial(
        anyway=power(most, 2.0), anyway_because="what rewards of at most r_max give anyway, (r_max + |g|)^2"
    )
