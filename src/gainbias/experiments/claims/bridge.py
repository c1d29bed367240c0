"""Whether discounted values minus their mean tend to the bias, at the rate 1 - discount.

Exact, by `discounted_values`, which keeps the digits of the remainder however close to 1 the discount is. The
series of Blackwell and Veinott says more than the rate: with the deviation matrix H, whose product with the
rewards is the bias W, the remainder is W + (1 - discount) (W - H W) + smaller terms. The rule: on every chain
the power is 1 within 0.05, and the difference divided by 1 - discount is W - H W within 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Range, about, in_words, shown
from gainbias.experiments.claims.measuring import SLOW_PREFIX, fast_and_slow, log_slope, median_and_range
from gainbias.model.chain.deviation import deviation
from gainbias.model.chain.discounting import discounted_values
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solve import solve_to_tolerance

BRIDGE_MARGIN = 0.05
"""Of the power, and of the limit relative to what the series says."""

LEFT = tuple(10.0**-power for power in range(1, 11))
"""Values of 1 - discount; the last five are judged."""

JUDGED = 5


@dataclass(frozen=True)
class Crossing:
    """Distances from the bias on one chain, those that the series says, and the relative error of its limit.

    A distance is the largest over states, relative to the largest bias.
    """

    chain: str
    distances: list[float]
    predicted: list[float]
    missed: float


def collect(seed: int, quick: bool) -> list[Crossing]:
    """Compute the distances on random chains, fast and slow."""
    return [_crossing(name, mrp) for name, mrp in fast_and_slow(seed, quick)]


def _crossing(name: str, mrp: MarkovRewardProcess) -> Crossing:
    bias = solve_to_tolerance(mrp).bias
    direction = bias - deviation(mrp, bias)
    away = [discounted_values(mrp, 1.0 - left).remainder - bias for left in LEFT]
    size = float(np.abs(bias).max())
    far = LEFT.index(1e-6)  # beyond, the difference of two vectors loses digits
    missed = np.abs(away[far] / LEFT[far] - direction).max() / np.abs(direction).max()
    return Crossing(
        name,
        [float(np.abs(each).max()) / size for each in away],
        [left * float(np.abs(direction).max()) / size for left in LEFT],
        float(missed),
    )


def judge(found: list[Crossing]) -> Judgement:
    """Compare the power with 1, and the limit with that of the series."""
    slopes = [log_slope(LEFT[-JUDGED:], each.distances[-JUDGED:]) for each in found]
    power = Range(
        float(np.mean([slope.estimate for slope in slopes])),
        min(slope.low for slope in slopes),
        max(slope.high for slope in slopes),
    )
    missed = [each.missed for each in found]
    half = [each.distances[1] for each in found]
    parts = (
        about("power of 1 - discount", power, 1.0, BRIDGE_MARGIN),
        about(
            "largest difference from W - H W, relative",
            median_and_range(missed),
            0.0,
            BRIDGE_MARGIN,
        ),
        shown("distance at discount 0.99 / largest bias", median_and_range(half)),
    )
    reason = (
        f"On {len(found)} chains, fast and slow, the distance falls with the power {power.estimate:.3f} of "
        "1 - discount. How near the discount must be to 1 depends on the chain: at 0.99 values are off by "
        f"{min(half):.2g} to {max(half):.2g} of the largest bias."
    )
    lines = [
        line
        for each in found[:4]
        for line in (
            Line(each.chain, LEFT, each.distances),
            Line(f"{each.chain}, W - H W", LEFT, each.predicted, reference=True),
        )
    ]
    slow = sum(each.chain.startswith(SLOW_PREFIX) for each in found)
    chart = Chart("The bridge", "1 - discount", "distance / largest bias", tuple(lines))
    return Judgement(parts, reason, (chart,), {"chains": len(found), "slow": in_words(slow)})


CLAIM = Claim(
    id="bridge",
    text="Discounted values minus their mean tend to the bias, at the rate 1 - discount.",
    where="Title; what a bridge between discounted and average values is made of",
    how="Exact values on {chains} random chains, {slow} of them slow, for 1 - discount from 0.1 to 1e-10; "
    "slope of the last five, and the limit of the difference divided by 1 - discount.",
    interval="range over the chains, including the 95 % interval of each slope",
    collect=collect,
    judge=judge,
)
