"""What all theorems ask about a problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.features.rows import Floats
from gainbias.model.chain.mixing import EXACT_STATES, mixing_time_or_bound
from gainbias.model.problem import Problem
from gainbias.theory.bounds.arithmetic import power
from gainbias.theory.bounds.record import Condition, Trivial, at_least

ROUNDING = 1e-12
"""Rows may be so much longer than 1: dividing by the largest length does not give 1 exactly."""


@dataclass(frozen=True, eq=False)
class Facts:
    """A problem, first weights, and the numbers that theorems need, each computed once.

    Attributes
    ----------
    problem : Problem
    first : (d,) array
        First weights theta_0.
    """

    problem: Problem
    first: Floats

    @cached_property
    def eta(self) -> float:
        """The condition number eta (eta1 elsewhere)."""
        return self.problem.condition_numbers.eta1

    @property
    def r_max(self) -> float:
        """Largest absolute reward of a transition."""
        return self.problem.mrp.max_abs_reward

    @cached_property
    def length(self) -> float:
        """Length of theta*."""
        return float(np.linalg.norm(self.problem.fixed_point))

    @cached_property
    def first_length(self) -> float:
        """Length of theta_0."""
        return float(np.linalg.norm(self.first))

    @cached_property
    def first_error(self) -> float:
        """Distance of theta_0 from theta*."""
        return float(np.linalg.norm(self.first - self.problem.fixed_point))

    @property
    def trivial(self) -> Trivial:
        """What is known without a theorem: the error before the first step."""
        return Trivial(power(self.first_error, 2.0))

    def mixing_time(self, level: float) -> int:
        """Steps after which every start is within `level` of the stationary law (L1), at least 1.

        Above 1000 states there may be fewer: then it is an upper bound, with which theorems hold as well.
        """
        if level not in self._times:
            self._times[level] = mixing_time_or_bound(self.problem.mrp, level)
        return self._times[level]

    @property
    def tau_name(self) -> str:
        """What to call a mixing time among the constants of a theorem."""
        is_bound = self.problem.mrp.num_states > EXACT_STATES
        return "tau_mix (upper bound)" if is_bound else "tau_mix"

    @cached_property
    def _times(self) -> dict[float, int]:
        return {}

    @property
    def constants(self) -> dict[str, float]:
        """The numbers that occur in every theorem of the paper."""
        return {"eta": self.eta, "r_max": self.r_max, "|theta*|": self.length}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What every theorem of the paper requires."""
        return (self.features_condition, positive("condition number", "eta", self.eta))

    @property
    def features_condition(self) -> Condition:
        """That no row of the features is longer than 1."""
        longest = self.problem.features.max_row_norm
        return Condition(
            "longest row of the features",
            "max |phi(s)| <= 1",
            longest,
            1.0,
            longest <= 1.0 + ROUNDING,
            "gb.normalise_features",
        )

    def enough_steps(self, steps: int, tau: int) -> Condition:
        """That the chain has mixed."""
        return at_least("number of steps", "T >= tau_mix", steps, tau, f"at least {tau} steps")


def positive(name: str, symbol: str, value: float) -> Condition:
    """Return the condition that a number is above 0."""
    remedy = "features whose columns are further from linear dependence"
    return at_least(name, f"{symbol} > 0", value, 0.0, remedy, strict=True)
