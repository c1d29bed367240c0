"""What both theorems about single-chain TD share: the projections, and the parameter lambda of the proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.algorithms.fields import average_features
from gainbias.theory.bounds.arithmetic import power, ratio
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.radii import projection_radii
from gainbias.theory.bounds.record import Condition, Trivial, at_least, at_most


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
        """r_max + 2 R_theta."""
        return self.facts.r_max + 2.0 * self.weights_radius

    @property
    def size(self) -> float:
        """(r_max + 3 R_theta)^2."""
        return (self.facts.r_max + 3.0 * self.weights_radius) ** 2

    @property
    def curvature(self) -> float:
        """zeta, also called c_1_lambda: eta - lambda^2 (r_max + 2 R_theta) / 2."""
        return self.facts.eta - 0.5 * self.lambda_squared * self.reach

    @property
    def price(self) -> float:
        """c_2_lambda = (r_max + 2 R_theta) / lambda^2."""
        return ratio(self.reach, self.lambda_squared)

    @property
    def trivial(self) -> Trivial:
        """What is known without a theorem: weights in the ball are at most R_theta + |theta*| away."""
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
        """What both theorems require, lambda strictly inside its interval (finding 14)."""
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
