"""Constants of geometric mixing."""

from __future__ import annotations

import math
from typing import NamedTuple

from gainbias.model.chain.mixing import mixing_time_bounds
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess


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
    steps = mixing_time_bounds(mrp, 1.0 / math.e).upper
    return MixingConstants(2.0 * math.exp((steps - 1) / steps), math.exp(-1.0 / steps))
