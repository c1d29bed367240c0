"""How long the fixed point can be: radii for the projections of single-chain TD."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gainbias.model.problem import Problem
from gainbias.theory.bounds.arithmetic import ratio
from gainbias.theory.bounds.mixing import mixing_constants

ROUNDING = 1e-8
"""Relative error that the constants inside a radius may have, and more."""


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
        """The smaller of the two that always hold, with room for rounding."""
        return min(self.from_eta, self.from_gap) * (1.0 + ROUNDING)


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
