"""The mixing time: how many steps a chain needs to forget where it started."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gainbias.model.chain.contraction import contraction_gap
from gainbias.model.chain.spectrum import is_reversible, slowest_relaxation
from gainbias.model.checks import EPSILON, FloatArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solution import ConvergenceError
from gainbias.model.solve.solve import poisson_solver

EXACT_STATES = 1_000
"""Up to this many states powers of P are formed; above, the mixing time is only bounded."""

MOST_DOUBLINGS = 40
"""Beyond 2^40 steps the rounding of P itself decides the answer."""

UNSURE = 1e-8
"""Error that eigenvalues may have, relative for one step and absolute for several, on the safe side."""

DETAILED_BALANCE = 1e-10
"""Flows in both directions agree this well, relatively, in a chain whose eigenvalues can be trusted."""

TIE = 1e-12
"""A distance this close above eps, relatively, counts as equal to it."""

MOST_STEPS = 1_024
"""Longest block of steps that is searched for a contraction."""


class MixingTimeBounds(NamedTuple):
    """Bounds on a mixing time: ``lower <= mixing time <= upper``, and whether they are known to be equal."""

    lower: int
    upper: int
    exact: bool


def mixing_time(mrp: MarkovRewardProcess, eps: float) -> int:
    """Return the number of steps to come within `eps` of the stationary law from every start.

    This is min{tau >= 1 : max_s sum_s' |P^tau(s, s') - mu(s')| <= eps}: the distance is the L1 norm, twice
    the total variation. It is exact up to rounding (a distance that equals `eps` to rounding counts as
    reached), and found for up to 1000 states. Above, it is known only where both bounds of
    `mixing_time_bounds` agree.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class, aperiodic. Above 1000 states there may be no transient states.
    eps : float
        Positive.

    Raises
    ------
    ConvergenceError
        If it is not known. For more than 1000 states the message has bounds on it.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])
    >>> gb.mixing_time(process, 0.5)  # the distance is 0.8 ** tau
    4
    """
    lower, nearest, upper = _lower_nearest_upper(mrp, eps)
    if mrp.num_states > EXACT_STATES and lower < upper:
        raise ConvergenceError(
            f"the mixing time of {mrp.num_states:,} states lies between {lower:,} and {upper:,}, and above "
            f"{EXACT_STATES:,} states it is not known better: use gb.mixing_time_bounds, whose upper bound "
            "is on the safe side"
        )
    return nearest


def mixing_time_or_bound(mrp: MarkovRewardProcess, eps: float) -> int:
    """Return the mixing time, or above 1000 states an upper bound, for what holds with any upper bound."""
    return _lower_nearest_upper(mrp, eps)[1]


def mixing_time_bounds(mrp: MarkovRewardProcess, eps: float) -> MixingTimeBounds:
    """Return bounds on `mixing_time`.

    Up to 1000 states they differ by what rounding leaves open, mostly nothing. Above, the lower bound of a
    reversible chain is log(1/eps) / -log|lambda| for an eigenvalue lambda of P (1 if none was found); of any
    other chain it is 1, because its eigenvalues may be ill-conditioned. The upper bound is the first multiple
    t of k with omega_k^(t/k) sqrt(1/mu_min - 1) <= eps, where omega_k is the largest |P^k z|_D over
    |z|_D = 1, mu^T z = 0, and k is the power of 2 that gives the least bound.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        With one recurrent class, aperiodic. Above 1000 states there may be no transient states.
    eps : float
        Positive.

    Returns
    -------
    MixingTimeBounds
        The tuple ``(lower, upper, exact)``.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.mixing_time_bounds(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0]), 0.5)
    MixingTimeBounds(lower=4, upper=4, exact=True)
    """
    lower, _, upper = _lower_nearest_upper(mrp, eps)
    return MixingTimeBounds(lower, upper, lower == upper)


def _lower_nearest_upper(mrp: MarkovRewardProcess, eps: float) -> tuple[int, int, int]:
    _check(mrp, eps)
    if eps >= 2.0 or mrp.num_states == 1:  # no two laws are further apart than 2
        return 1, 1, 1
    return _searched(mrp, eps) if mrp.num_states <= EXACT_STATES else _bounded(mrp, eps)


def _check(mrp: MarkovRewardProcess, eps: float) -> None:
    if not eps > 0.0:
        raise ValueError(f"eps must be positive, found {eps}")
    if not mrp.is_unichain:
        raise ValueError(
            f"the process has {mrp.structure.describe_recurrent()}, so it never forgets where it started and "
            "has no mixing time: restrict it to one class"
        )
    if mrp.period > 1:
        raise ValueError(
            f"the process is periodic with period {mrp.period}, so its law does not converge and it has no "
            "mixing time: use the lazy chain (I + P) / 2, which visits the same states"
        )


def _searched(mrp: MarkovRewardProcess, eps: float) -> tuple[int, int, int]:
    """Mixing time from powers of P - e mu^T: square until below eps, then add up the longest steps above."""
    powers = [mrp.csr.toarray() - poisson_solver(mrp).stationary]
    while _distance(powers[-1]) > eps / 2:
        if len(powers) > MOST_DOUBLINGS:
            raise ConvergenceError(
                f"after 2^{MOST_DOUBLINGS} steps the process is still {_distance(powers[-1]):.3g} from its "
                f"stationary law, more than eps = {eps:g}: double precision cannot follow it further"
            )
        powers.append(powers[-1] @ powers[-1])
    # Squaring doubles relative errors, so they grow like the number of steps.
    slack = min(0.5, 8.0 * EPSILON * 2.0 ** len(powers))
    return (
        _first_below(powers, eps * (1.0 + slack)),
        _first_below(powers, eps * (1.0 + min(slack, TIE))),
        _first_below(powers, eps * (1.0 - slack)),
    )


def _first_below(powers: list[FloatArray], level: float) -> int:
    """First t >= 1 with distance at most `level`, from the powers 1, 2, 4, ..., the last of them below it."""
    steps, current = 0, None
    for exponent in range(len(powers) - 1, -1, -1):
        trial = powers[exponent] if current is None else current @ powers[exponent]
        if _distance(trial) > level:
            steps, current = steps + 2**exponent, trial
    return steps + 1


def _distance(power: FloatArray) -> float:
    return float(np.abs(power).sum(axis=1).max())


def _bounded(mrp: MarkovRewardProcess, eps: float) -> tuple[int, int, int]:
    if not mrp.is_irreducible:
        raise ValueError(
            f"the mixing time of more than {EXACT_STATES} states is bounded through their stationary "
            f"probabilities, which are 0 for {mrp.structure.transient.size} transient states: restrict the "
            "process to its recurrent class"
        )
    poisson = poisson_solver(mrp)
    upper = _upper_bound(mrp, poisson.stationary, eps)
    lower = 1
    if is_reversible(mrp, poisson.stationary, DETAILED_BALANCE):
        with suppress(ConvergenceError):
            slowest = slowest_relaxation(poisson)
            if slowest < 1.0:
                lower = max(1, math.ceil(math.log(eps) / math.log1p(-slowest) * (1.0 - UNSURE)))
    return lower, max(lower, upper), max(lower, upper)


def _upper_bound(mrp: MarkovRewardProcess, stationary: FloatArray, eps: float) -> int:
    """Least bound from contractions over 1, 2, 4, ... steps, as long as more steps make it smaller."""
    best, steps = math.inf, 1
    while steps <= min(best, MOST_STEPS):
        gap = contraction_gap(mrp.csr, stationary, steps)
        bound = _time_to_shrink(math.sqrt(1.0 / stationary.min() - 1.0) / eps, gap, steps)
        if best < math.inf and bound > 0.9 * best:
            break
        best = min(best, bound)
        steps *= 2
    if best == math.inf:
        raise ConvergenceError(
            f"no contraction in {MOST_STEPS} steps, so that the mixing time has no bound: the chain moves "
            "almost without chance"
        )
    return int(best)


def _time_to_shrink(ratio: float, gap: float, steps: int) -> float:
    """Time after which `ratio` has shrunk to 1, if each block of steps multiplies it by sqrt(1 - gap)."""
    sure = gap * (1.0 - UNSURE) if steps == 1 else gap - UNSURE
    if sure <= 0.0:
        return math.inf
    rate = -0.5 * math.log1p(-min(sure, 1.0 - UNSURE))
    return steps * max(1, math.ceil(math.log(ratio) / rate))
