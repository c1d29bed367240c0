"""Whether the average of rewards estimates the gain with a mean squared error of order 1/T.

Exact: the state, the mean of the sum of rewards given the state, and that of its square obey a linear
recursion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Range, about, in_words, shown
from gainbias.experiments.claims.measuring import SLOW_PREFIX, fast_and_slow, log_slope, median_and_range
from gainbias.experiments.statistics import Interval
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solve import solve_to_tolerance

REWARD_POWER_MARGIN = 0.05
"""The power is 1 if its interval is within this of it."""

POWERS_OF_TWO = range(31)
"""Errors are computed after 2^0, 2^1, ... steps; the last ten are judged."""


@dataclass(frozen=True)
class Errors:
    """Mean squared errors of the average of rewards, after numbers of steps, and their limit times T."""

    chain: str
    steps: list[int]
    errors: list[float]
    asymptotic_variance: float


def collect(seed: int, quick: bool) -> list[Errors]:
    """Compute errors on random chains, fast and slow, from a fixed first state."""
    return [_errors(name, mrp) for name, mrp in fast_and_slow(seed, quick)]


def _errors(name: str, mrp: MarkovRewardProcess) -> Errors:
    solution = solve_to_tolerance(mrp)
    return Errors(
        name,
        [2**k for k in POWERS_OF_TWO],
        mean_squared_errors(mrp, solution.gain_per_step),
        float(solution.asymptotic_variance),
    )


def mean_squared_errors(mrp: MarkovRewardProcess, gain: float) -> list[float]:
    """Return E (r_T - g)^2 for T = 2^0, 2^1, ..., from the first state.

    Examples
    --------
    >>> mrp = MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])  # fair coins, the first one heads
    >>> [round(16 * error, 3) for error in mean_squared_errors(mrp, 0.5)[:3]]
    [4.0, 2.0, 1.0]
    """
    n, moved, excess = mrp.num_states, mrp.csr.toarray().T, np.diag(mrp.rewards - gain)
    # p: law of the state; u, v: E of the sum of excess rewards, and of its square, where the state is s.
    none = np.zeros((n, n))
    power = np.block(
        [
            [moved, none, none],
            [moved @ excess, moved, none],
            [moved @ excess**2, 2.0 * moved @ excess, moved],
        ]
    )
    first = np.zeros(3 * n)
    first[0] = 1.0
    errors = []
    for k in POWERS_OF_TWO:
        errors.append(float((power @ first)[2 * n :].sum() / 4.0**k))
        power = power @ power
    return errors


def judge(found: list[Errors]) -> Judgement:
    """Compare the power with 1, and T times the error with its limit."""
    slopes = [log_slope(each.steps[-10:], each.errors[-10:]) for each in found]
    powers = [-slope.estimate for slope in slopes]
    ends = Range(
        float(np.mean(powers)), min(-slope.high for slope in slopes), max(-slope.low for slope in slopes)
    )
    ratios = [each.steps[-1] * each.errors[-1] / each.asymptotic_variance for each in found]
    parts = (
        about("power of 1/T", ends, 1.0, REWARD_POWER_MARGIN),
        about(
            "T times the error / asymptotic variance",
            Range(float(np.mean(ratios)), min(ratios), max(ratios)),
            1.0,
            REWARD_POWER_MARGIN,
        ),
        shown("T times the error, largest over all T / its limit", _largest(found)),
    )
    says = "falls as 1/T" if parts[0].verdict == "holds" else f"falls with the power {ends.estimate:.3f}"
    reason = (
        f"On {len(found)} chains, fast and slow, the error {says}, and T times it goes to the asymptotic "
        "variance."
    )
    lines = [Line(each.chain, [float(t) for t in each.steps], each.errors) for each in found[:4]]
    x = lines[0].x
    lines.append(Line("1/T", x, [lines[0].y[-1] * x[-1] / each for each in x], reference=True))
    slow = sum(each.chain.startswith(SLOW_PREFIX) for each in found)
    counts = {"chains": len(found), "slow": in_words(slow)}
    chart = Chart("Average of rewards", "T", "mean squared error", tuple(lines))
    return Judgement(parts, reason, (chart,), counts)


def _largest(found: list[Errors]) -> Interval:
    return median_and_range(
        [
            max(t * e for t, e in zip(each.steps, each.errors, strict=True)) / each.asymptotic_variance
            for each in found
        ]
    )


CLAIM = Claim(
    id="reward-estimate",
    text="The average of the rewards estimates the gain with a mean squared error of order 1/T.",
    where="Main results, remark on the estimate of the average reward",
    how="Exact variance and bias of the average along {chains} random chains, {slow} of them slow, from a "
    "fixed first state, up to T = 2^30; slope of the last ten powers of 2.",
    interval="range over the chains, including the 95 % interval of each slope",
    collect=collect,
    judge=judge,
    findings=("finding-12",),
)
