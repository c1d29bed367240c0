"""How the number of samples grows along a Markov chain, where the mixing time counts too.

The measurement is that of `eta_order`, with samples along the chain. The claim is judged by its letter,
which has no mixing time in it; beside it, the growth of the number of samples divided by the mixing time,
which is what the theorem bounds.
"""

from __future__ import annotations

from gainbias.experiments.claims.claim import Claim, Judgement, at_most, shown
from gainbias.experiments.claims.eta_order import (
    HOW,
    INTERVAL,
    PUBLISHED,
    QUADRATIC,
    EtaPoint,
    charts,
    counts,
    measured,
    slopes_of_others,
    steepest,
)


def collect(seed: int, quick: bool) -> list[EtaPoint]:
    """Measure T(epsilon) along chains."""
    return measured(seed, quick, "markov", ("double-chain",) if quick else PUBLISHED)


def judge(points: list[EtaPoint]) -> Judgement:
    """Compare the slope of double-chain with quadratic growth."""
    family, slope = steepest(points, "double-chain")
    part = at_most(f"double-chain, {family}", slope, QUADRATIC)
    family, slope = steepest(points, "double-chain", per_mixing_time=True)
    expected = f"at most {QUADRATIC:g} by the theorem"
    without = shown(f"double-chain, samples / mixing time, {family}", slope, expected)
    reason = (
        f"Along a chain double-chain grows as eta1^-{part.value:.2f}. The theorem has a factor of the "
        "mixing time, which the O~ of the claim hides; divided by it the number of samples grows as "
        f"eta1^-{without.value:.2f}. Where slow mixing makes eta1 small, this factor is itself of order 1 / "
        "eta1."
    )
    parts = (part, without, *slopes_of_others(points))
    return Judgement(parts, reason, charts(points, "along the chain"), counts(points))


CLAIM = Claim(
    id="eta-order-markov",
    text="Along a Markov chain, too, double-chain needs a number of samples of order eta1^-2.",
    where="Abstract; comparison table; theorems on double chain with Markov sampling",
    how=HOW,
    interval=INTERVAL,
    collect=collect,
    judge=judge,
    findings=("finding-36",),
)
