"""The numbers that theorems need about a problem: lengths, mixing times, mixing constants and radii.

`Facts` has those that all theorems share, each computed once. `mixing_constants` are those of geometric
mixing, and `projection_radii` bound the length of the fixed point, for the projections of single-chain TD.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gainbias.model.chain.mixing import mixing_time_bounds, mixing_time_or_bound
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.theory.bounds.record import Condition, Trivial, at_least, power, ratio
from gainbias.types import Floats

ROW_LENGTH_ROUNDING = 1e-12
"""Rows may be longer than 1 by this: dividing by the largest length does not give 1 exactly."""

RADIUS_ROUNDING = 1e-8
"""Relative margin of a radius, larger than the relative error of the constants in it."""


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
        """The bound that is known without a theorem: the error before the first step."""
        return Trivial(power(self.first_error, 2.0))

    def mixing_time(self, level: float) -> int:
        """Return the steps after which every start is within `level` of the stationary law (L1), at least 1.

        Where it is not known it is an upper bound, with which theorems hold as well.
        """
        if level not in self._times:
            self._times[level] = mixing_time_or_bound(self.problem.mrp, level)
        return self._times[level][0]

    @property
    def tau_name(self) -> str:
        """What to call a mixing time among the constants of a theorem, once it was asked for."""
        is_bound = any(is_bound for _, is_bound in self._times.values())
        return "tau_mix (upper bound)" if is_bound else "tau_mix"

    @cached_property
    def _times(self) -> dict[float, tuple[int, bool]]:
        return {}

    @property
    def constants(self) -> dict[str, float]:
        """The numbers that occur in every theorem of the paper."""
        return {"eta": self.eta, "r_max": self.r_max, "|theta*|": self.length}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions of every theorem of the paper."""
        return (self.features_condition, positive("condition number", "eta", self.eta))

    @property
    def features_condition(self) -> Condition:
        """The condition that no row of the features is longer than 1."""
        longest = self.problem.features.max_row_norm
        return Condition(
            "longest row of the features",
            "max |phi(s)| <= 1",
            longest,
            1.0,
            longest <= 1.0 + ROW_LENGTH_ROUNDING,
            "gb.normalise_features",
        )

    def enough_steps(self, steps: int, tau: int) -> Condition:
        """Return the condition that there are at least as many steps as the mixing time."""
        return at_least("number of steps", "T >= tau_mix", steps, tau, f"at least {tau} steps")


def positive(name: str, symbol: str, value: float) -> Condition:
    """Return the condition that a number is above 0."""
    remedy = "features whose columns are further from linear dependence"
    return at_least(name, f"{symbol} > 0", value, 0.0, remedy, strict=True)


class MixingConstants(NamedTuple):
    """Constants with max_s sum_s' |P^t(s, s') - mu(s')| <= C beta^t for all t = 0, 1, 2, ..."""

    C: float
    beta: float


def mixing_constants(process: MarkovRewardProcess | Problem) -> MixingConstants:
    """Return constants C and beta of geometric mixing.

    Let k be the steps after which every start is within 1/e of the stationary law (L1 distance). Each further
    block of k steps divides the distance by e, and it is at most 2 to begin with, so that beta = e^(-1/k) and
    C = 2 e^((k-1)/k) are valid for all t. The paper says only that such constants exist.

    Parameters
    ----------
    process : MarkovRewardProcess or Problem
        With one recurrent class, aperiodic.

    Returns
    -------
    MixingConstants
        The tuple ``(C, beta)``.

    Examples
    --------
    >>> import gainbias as gb
    >>> C, beta = gb.mixing_constants(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0]))
    >>> round(C, 6), round(beta, 6)  # the distance after t steps is 0.8 ** t
    (4.451082, 0.818731)
    """
    mrp = process.mrp if isinstance(process, Problem) else process
    refuse_durations(mrp, "mixing_constants")
    steps = mixing_time_bounds(mrp, 1.0 / math.e).upper
    return MixingConstants(2.0 * math.exp((steps - 1) / steps), math.exp(-1.0 / steps))


class Radii(NamedTuple):
    """Upper bounds on the length of theta*.

    Attributes
    ----------
    from_eta : float
        |Phi^T D (R - g e)| / eta1.
    from_gap : float
        (1 + 2 / min(1, gap)) |W*|_D / sqrt(smallest eigenvalue of Phi^T D Phi), where gap is the least
        y^T D (I - P) y over |y|_D = 1, mu^T y = 0.
    as_printed : float
        The paper's, infinite where its contraction factor omega is 1.
    """

    from_eta: float
    from_gap: float
    as_printed: float

    @property
    def valid(self) -> float:
        """The smaller of the two radii that always hold, with a margin for rounding."""
        return min(self.from_eta, self.from_gap) * (1.0 + RADIUS_ROUNDING)


def projection_radii(problem: Problem) -> Radii:
    """Return radii of balls that hold the fixed point.

    The paper's radius is 2 r_max C / ((1 - beta) sqrt((1 - omega^2) lambda_min)), with omega the largest
    |P z|_D over centred z of |z|_D = 1. The paper says that omega < 1; there are ergodic chains with
    omega = 1, whose radius is then infinite (finding 1 of the page "What we found in the paper"). The other
    two do not use omega.

    Parameters
    ----------
    problem : Problem
        Of an aperiodic process.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]], [1.0, 0.0, 0.0])
    >>> problem = gb.Problem(mrp, gb.Tabular())
    >>> radii = gb.projection_radii(problem)
    >>> round(radii.valid, 6), radii.as_printed, round(float(np.linalg.norm(problem.fixed_point)), 6)
    (1.088662, inf, 0.720082)
    """
    numbers, solution = problem.condition_numbers, problem.solution
    force = problem.features.adjoint(solution.stationary * (problem.mrp.rewards - solution.gain_per_step))
    gap = ratio(numbers.eta3, numbers.gram_min)
    C, beta = mixing_constants(problem)
    spread = math.sqrt(max(0.0, (1.0 - numbers.omega**2) * numbers.gram_min))
    return Radii(
        from_eta=ratio(float(np.linalg.norm(force)), numbers.eta1),
        from_gap=(1.0 + 2.0 / min(1.0, gap))
        * problem.stationary_norm(solution.bias)
        / math.sqrt(numbers.gram_min),
        as_printed=ratio(2.0 * problem.mrp.max_abs_reward * C, (1.0 - beta) * spread),
    )
