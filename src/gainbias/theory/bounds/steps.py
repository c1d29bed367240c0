"""Decaying step sizes alpha_t = a / (t + c0)^xi, and how large their offset c0 must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gainbias.theory.bounds.arithmetic import power, rounded_up
from gainbias.theory.bounds.record import Condition, at_least

OFFSET = "offset c0"
"""Name of the conditions that a larger c0 satisfies."""

MOST_TERMS = 1_000_000
"""Sums of more step sizes are bounded by an integral."""


@dataclass(frozen=True)
class Decay:
    """The step sizes alpha_t = a / (t + c0)^xi."""

    a: float
    c0: float
    xi: float

    def at(self, t: float) -> float:
        """Return alpha_t."""
        return float(self.a / (t + self.c0) ** self.xi)

    def between(self, first: float, last: float) -> float:
        """Return (last + c0)^(1 - xi) - (first + c0)^(1 - xi), for xi < 1."""
        start, exponent = first + self.c0, 1.0 - self.xi
        return power(start, exponent) * math.expm1(exponent * math.log1p((last - first) / start))

    def sum_of_first(self, count: int) -> float:
        """Return alpha_0 + ... + alpha_(count - 1), or an upper bound if that is long."""
        if count <= MOST_TERMS:
            return float(np.sum(self.a / (np.arange(count) + self.c0) ** self.xi))
        if self.xi == 1.0:
            integral = np.log1p((count - 1) / self.c0)
        else:
            integral = self.between(0.0, count - 1.0) / (1.0 - self.xi)
        return float(self.at(0) + self.a * integral)

    def large_offset(self, formula: str, limit: float) -> Condition:
        """Return the condition that c0 is at least `limit`."""
        return at_least(OFFSET, formula, self.c0, limit, f"c0 at least {rounded_up(limit)}")

    def advice(self, needed: Callable[[Decay], float]) -> str:
        """Return how large c0 has to be, where a larger c0 needs more: mixing times grow as steps shrink."""
        now = self
        while now.c0 < (more := needed(now)) < math.inf:
            now = replace(now, c0=more)
        return f"c0 at least {rounded_up(max(now.c0, more))}"


def slow_decay(decay: Decay, tau: int, mixing_time: Callable[[Decay], int]) -> Condition:
    """Return the condition that c0 is at least c_0_1, which depends on the mixing time and so on c0."""

    def needed(now: Decay) -> float:
        return offset_for_ratio(mixing_time(now), now.xi)

    limit = offset_for_ratio(tau, decay.xi)
    remedy = decay.advice(needed) if decay.c0 < limit else ""
    return at_least(OFFSET, "c0 >= c_0_1 = tau_mix / (2^(1/xi) - 1)", decay.c0, limit, remedy)


def offset_for_ratio(tau: int, xi: float) -> float:
    """Return c_0_1, the least c0 with alpha_(t - tau) <= 2 alpha_t for all t >= tau."""
    return tau / (power(2.0, 1.0 / xi) - 1.0)


def offset_for_sum(a: float, xi: float, tau: int, limit: float) -> float:
    """Return c_0_2, the least c0 for which any tau successive steps sum to at most `limit`."""
    high = power(a * tau / limit, 1.0 / xi)  # every step is at most the first
    low = max(high - tau, 0.0)  # every step is at least the last
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if Decay(a, middle, xi).sum_of_first(tau) <= limit:
            high = middle
        else:
            low = middle
    return high
