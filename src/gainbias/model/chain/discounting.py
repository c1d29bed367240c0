"""Discounted values, split into a level and a remainder.

Discounted values grow without limit as the discount tends to 1, and all of that growth is in the level, the
gain over ``1 - discount``. The rest tends to the bias. `discounted_values` keeps the two apart, so no
digits are lost however close to 1 the discount is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gainbias.model.chain.long_run import SplitValues, long_run
from gainbias.model.checks import EPSILON, frozen
from gainbias.model.doubled import Doubled
from gainbias.model.process import MarkovRewardProcess, check_process, refuse_durations
from gainbias.model.solve.leaking import TINY, LeakingChain, check_useful, with_leaking_chain
from gainbias.types import Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscountedValues(SplitValues):
    """Discounted values of each state, as a level and a remainder.

    Attributes
    ----------
    discount : float
        Weight of a reward one step later (one unit of time later for a process made by `from_rates`).
    level : float, or ndarray of shape (n,) for several recurrent classes
        The gain over ``1 - discount``.
    remainder : ndarray, shape (n,)
        Values minus level. Its stationary mean is 0, and it tends to the bias as the discount tends to 1.

    level_error : float, or ndarray of shape (n,) for several recurrent classes
        Bound on the absolute error of the level.
    remainder_error : ndarray, shape (n,)
        Bound on the absolute error of the remainder.
    method : str
        Method that found the remainder.
    notes : tuple of str
        The methods that were tried before, and remarks about how this one worked.

    Examples
    --------
    >>> import gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
    >>> values = gb.discounted_values(machine, discount=0.5)
    >>> values.level, values.remainder.round(6).tolist(), values.values.round(6).tolist()
    (3.0, [-0.625, 3.125], [2.375, 6.125])
    """

    discount: float


def discounted_values(mrp: MarkovRewardProcess, discount: float) -> DiscountedValues:
    """Return the expected sum of discounted rewards from each state, split into a level and a remainder.

    The values are ``V = R + discount P V``. They are the level, the gain over ``1 - discount``, plus a
    remainder that stays bounded, however close to 1 the discount is.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process; it may have several recurrent classes.
    discount : float
        Weight of a reward one step later, at least 0 and below 1. The floating-point number is taken as
        exact: 0.9 is not exactly nine tenths. For a process made by `from_rates` it is the weight of a
        reward one unit of time later, above 0: rewards flow continuously, and after a time t they are
        weighted by ``discount**t``.

    Returns
    -------
    DiscountedValues

    Raises
    ------
    ValueError
        If the discount is not in that range.
    ConvergenceError
        If no method finds a useful digit.

    Examples
    --------
    >>> import gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
    >>> bias = gb.solve(machine).bias
    >>> for discount in (0.0, 0.9, 1 - 1e-14):
    ...     values = gb.discounted_values(machine, discount)
    ...     print(f"{values.level:.4g} {abs(values.remainder - bias).max():.1e}")
    1.5 1.7e+00
    15 2.6e-01
    1.501e+14 2.8e-14
    """
    leak, scale, relative = _leak(mrp, discount)
    facts = long_run(mrp)

    def work(chain: LeakingChain) -> tuple[Doubled, Floats, LeakingChain]:
        is_first = True

        def centred(right: Floats) -> tuple[Floats, Floats]:
            shift = facts.average(right)
            x = chain.solve(right - shift)
            return np.asarray(x - facts.average(x)), shift

        def correct(res: Floats) -> Floats:
            # The level of a solution is that of its right side over the leak. The first time it is 0, and
            # any computed value is rounding; later it is known to twice the digits.
            nonlocal is_first
            x, shift = centred(res)
            is_first, before = False, is_first
            return x if before else np.asarray(x + shift / leak[0])

        x, error = chain.solve_for(facts.excess, doubt=facts.excess_error, correct=correct)
        if relative > 0.0 and x.high.any():
            # The leak itself is rounded: its error times the solution belongs to the residual.
            error = error + chain.majorant(relative * leak[0] * np.abs(x.high) + TINY)
        if facts.doubt.any():
            error = error + 1.1 * np.abs(centred(facts.doubt)[0])
        error = (error + np.abs(x.rest)) * (1.0 + 2 * EPSILON)
        check_useful(np.append(x.high, facts.rewards), error)
        return x, error, chain

    everywhere = np.arange(mrp.num_states)
    x, error, chain = with_leaking_chain(
        mrp.csr, everywhere, work, what="the discounted values", leak=leak, scale=scale
    )
    level = facts.gain / leak[0]
    level_error = facts.level_error / leak[0] + (2 * EPSILON + relative) * np.abs(level)
    return DiscountedValues(
        discount=float(discount),
        level=facts.per_class(level),
        remainder=frozen(x.high),
        level_error=facts.per_class(level_error),
        remainder_error=frozen(error),
        method=chain.method,
        notes=(*facts.notes, *chain.notes),
    )


def _leak(mrp: MarkovRewardProcess, discount: float) -> tuple[tuple[float, float], float, float]:
    """Return the loss per step, what remains of transitions, and the relative error of the loss."""
    check_process(mrp, "discounted_values")
    refuse_durations(
        mrp, "discounted_values", "needs the whole distribution of the durations, not only their means"
    )
    if isinstance(discount, bool | np.bool_) or not isinstance(discount, int | float | np.number):
        raise ValueError(f"discount must be a number from 0 to below 1, found {discount!r}")
    factor = float(discount)
    if factor == 1.0:
        raise ValueError(
            "discount must be below 1: undiscounted sums grow without limit; gb.solve gives gain and bias"
        )
    if not 0.0 <= factor < 1.0:
        raise ValueError(f"discount must be a number from 0 to below 1, found {discount!r}")
    loss = 1.0 - factor
    if mrp.rate is None:
        return (loss, (1.0 - loss) - factor), factor, 0.0
    if factor == 0.0:
        raise ValueError(
            "discount is 0: in continuous time it is the weight of a reward one unit of time later, and "
            "must be above 0"
        )
    # 1 - factor is exact from one half on, and below that the logarithm has no cancellation.
    decay = -math.log1p(-loss) if factor >= 0.5 else -math.log(factor)
    return (decay / mrp.rate, 0.0), 1.0, 4 * EPSILON
