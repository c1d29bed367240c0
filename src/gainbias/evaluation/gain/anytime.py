"""Intervals that hold at all looks together, and when to stop.

Who looks at a run several times, and stops when the interval looks good, is wrong more often than each
interval says. `ConfidenceSequence` makes intervals that all hold together with the given confidence, from a
first look on. They are those of Robbins and Siegmund (1970) for Brownian motion, which sums of many numbers
are like: a mean over n steps may be off by ``sqrt(b^2 + log(n / first look))`` standard errors, with b such
that Brownian motion leaves these bounds, ever, with the chance that is left. When this holds for real data is
shown by Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (arXiv 2103.06476).

The standard error must be surer than for one look, because the bounds are further out. It comes from slow
waves, as for one look (`spectrum`), but from more of them as the run grows: their number goes up by the power
`WAVE_POWER` of the length. So they are ever slower, and there are ever more of them.

`looks_until` reads on until such an interval is narrow enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from gainbias.evaluation.gain.batches import AnyMeans
from gainbias.evaluation.gain.interval import (
    SKEWNESS_GROUPS,
    GainEstimate,
    estimate_gain,
    skewness_of_mean,
    stretched,
)
from gainbias.evaluation.gain.spectrum import MOST_WAVES, SLOW_WAVES, slow_waves
from gainbias.evaluation.gain.verdict import SURE_OF_SLOW

FIRST_TIMES = 500
"""Autocorrelation times before the first look: sums of skewed numbers are then nearly normal far out, too."""

FIRST_STEPS = 2048
"""Steps of all chains before the first look."""

FIRST_CHECK = 512
"""Steps of each chain before it is asked for the first time whether they are enough."""

EARLIEST_LOOK = 100
"""The least first look that one can ask for."""

WAVE_POWER = 2.0 / 3.0
"""A run x times as long as at the first look has its error from x to this power times as many waves."""

ENTRIES_PER_WAVE = 4
"""Batches for each wave: a wave of fewer is not seen well."""

LOOK_GROWTH = 1.1
"""A run that goes on until it is sure is looked at whenever it is this many times as long as before."""


@lru_cache(maxsize=64)
def first_bound(confidence: float) -> float:
    """Return the standard errors that a confidence sequence reaches to each side at its first look.

    Brownian motion W leaves ``sqrt(t (b^2 + log t))`` at some time t >= 1 with the chance
    ``2 (1 - Phi(b) + b phi(b))``, where Phi and phi are the normal law and its density (Robbins 1970).

    Examples
    --------
    >>> round(first_bound(0.95), 4), round(float(stats.norm.ppf(0.975)), 4)
    (2.7955, 1.96)
    """

    def excess(bound: float) -> float:
        return float(2.0 * (stats.norm.sf(bound) + bound * stats.norm.pdf(bound))) - (1.0 - confidence)

    return float(optimize.brentq(excess, 0.0, 40.0))


class ConfidenceSequence:
    """Intervals of a mean that hold at all looks together, from a first look on.

    Parameters
    ----------
    confidence : float
        The chance that all intervals hold the mean.
    first_look : int, optional
        Steps of each chain before the first interval. By default it is found: the rewards are judged at
        `next_check`, and the first look is where they are at least `FIRST_TIMES` autocorrelation times and
        nothing speaks against an interval. That depends on how rewards vary, and hardly on where their mean
        is, so it does not spoil the sequence (`benchmarks/anytime.py`).

    Attributes
    ----------
    confidence : float
    first_look : int or None
        None as long as it has not been found.

    Examples
    --------
    >>> from gainbias.evaluation.gain.batches import BatchMeans
    >>> noise = np.random.default_rng(0).normal(size=40_000)
    >>> sequence = ConfidenceSequence()
    >>> sequence.next_check(600)
    1024
    >>> sequence.check(BatchMeans.of(noise[:1024]))
    >>> sequence.first_look
    >>> sequence.check(BatchMeans.of(noise[:2048]))
    >>> sequence.first_look
    2048
    >>> estimate = sequence.estimate(BatchMeans.of(noise))
    >>> estimate.interval[0] < 0.0 < estimate.interval[1]
    True
    """

    def __init__(self, confidence: float = 0.95, first_look: int | None = None) -> None:
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
        if first_look is not None and first_look < EARLIEST_LOOK:
            raise ValueError(f"first_look must be at least {EARLIEST_LOOK}, found {first_look}")
        self.confidence, self.first_look = confidence, first_look

    def next_check(self, steps: int) -> int | None:
        """Return after how many steps of each chain, more than `steps`, `check` is due; None if never again.

        These are powers of two, whoever looks when: so the first look does not depend on that.
        """
        return None if self.first_look is not None else max(FIRST_CHECK, 1 << steps.bit_length())

    def check(self, rewards: AnyMeans, find_warm_up: bool = True) -> None:
        """Make this the first look if the rewards are enough for it; to be called at `next_check` alone."""
        if self.first_look is None and is_enough(estimate_gain(rewards, self.confidence, find_warm_up)):
            self.first_look = rewards.steps

    def estimate(self, rewards: AnyMeans, find_warm_up: bool = True) -> GainEstimate:
        """Return the estimate with the sequence's interval; before the first look with none, and a note."""
        once = estimate_gain(rewards, self.confidence, find_warm_up)
        if self.first_look is not None and rewards.steps >= self.first_look:
            return self.widened(once, rewards)
        waiting = f"no interval yet: {self._waiting_in_words(once, rewards.steps)}"
        return replace(once, interval=(float("nan"), float("nan")), notes=(*once.notes, waiting))

    def widened(self, once: GainEstimate, rewards: AnyMeans) -> GainEstimate:
        """Return an estimate for one look, which `estimate_gain` made, with the interval of the sequence.

        That is never narrower than the interval for one look.
        """
        if not once.has_interval or self.first_look is None:
            return once
        growth = rewards.steps / self.first_look
        error, degrees = self._error(rewards, once, growth)
        bound = np.sqrt(first_bound(self.confidence) ** 2 + np.log(growth))
        quantile = -float(special.stdtrit(degrees, special.ndtr(-bound)))  # Student's, at the same level
        cut = once.transient // rewards.sums.size
        groups = rewards.groups_after(cut, -(-SKEWNESS_GROUPS // rewards.num_chains), once.gain)
        bend = np.asarray(skewness_of_mean(groups.ravel()) / 6.0)
        down, up = (error * abs(float(stretched(sign * quantile, bend))) for sign in (1.0, -1.0))
        low, high = min(once.interval[0], once.gain - down), max(once.interval[1], once.gain + up)
        return replace(
            once,
            interval=(low, high),
            standard_error=error,
            degrees=degrees,
            notes=(*once.notes, self._in_words((high - low) / (2.0 * once.half_width), rewards.num_chains)),
        )

    def _error(self, rewards: AnyMeans, once: GainEstimate, growth: float) -> tuple[float, int]:
        """Return the standard error and its degrees of freedom, from as many waves as the length allows.

        If the faster ones of them are smaller, because of a slow part, it is that from few waves.
        """
        means = rewards.with_rest(once.gain, once.transient // rewards.sums.size)
        wanted = min(int(SLOW_WAVES * growth**WAVE_POWER), MOST_WAVES, means.size // ENTRIES_PER_WAVE)
        if wanted <= SLOW_WAVES:
            return once.standard_error, once.degrees
        waves = slow_waves(means, wanted)
        if waves.too_short > SURE_OF_SLOW or waves.degrees < once.degrees:
            return once.standard_error, once.degrees
        # The waves that are averaged are slow enough by the choice of the first look: nothing is missing.
        variance = waves.long_run_variance / waves.missing * rewards.sums.size
        return float(np.sqrt(variance / once.num_steps)), waves.degrees

    def _in_words(self, ratio: float, num_chains: int) -> str:
        where = " of each chain" if num_chains > 1 else ""
        return (
            f"the interval holds at all looks together, from step {self.first_look:,}{where} on, and is "
            f"{ratio:.2f} times as wide as one for a single look"
        )

    def _waiting_in_words(self, once: GainEstimate, steps: int) -> str:
        if self.first_look is not None:
            return f"the first comes after {self.first_look:,} steps"
        again = f"after {self.next_check(steps):,} steps it is asked again"
        if once.is_flagged:
            return f"the first comes when nothing speaks against it, see the warnings; {again}"
        needed = max(FIRST_STEPS, round(FIRST_TIMES * once.autocorrelation_time))
        return (
            f"the first comes after {FIRST_TIMES} autocorrelation times, at least {FIRST_STEPS:,} steps: by "
            f"what was seen so far after about {needed:,}; {again}"
        )


def is_enough(estimate: GainEstimate) -> bool:
    """Whether a run is long enough for a first look, and nothing speaks against its interval."""
    return (
        estimate.num_steps >= FIRST_STEPS
        and estimate.effective_sample_size >= FIRST_TIMES
        and not estimate.is_flagged
    )


@dataclass(frozen=True)
class Look:
    """What one look at a run saw.

    Attributes
    ----------
    estimate : GainEstimate
        The estimate so far, with an interval that holds at all looks together; if the run ended before the
        first look, with an interval for this one.
    steps_left : int
        Steps of each chain that are expected to be needed yet; 0 once the interval is narrow enough.
    """

    estimate: GainEstimate
    steps_left: int


def looks_until(
    reach: Callable[[int], AnyMeans],
    target_half_width: float,
    *,
    max_steps: int,
    sequence: ConfidenceSequence | None = None,
) -> Iterator[Look]:
    """Go on until the gain's interval is narrow enough, and report every look.

    Parameters
    ----------
    reach : function
        Goes on until each chain has made this many steps, and returns all rewards so far.
    target_half_width : float
        Half the width that is asked for, positive.
    max_steps : int
        No more steps of each chain are made than this.
    sequence : ConfidenceSequence, optional
        Makes the intervals; by default with confidence 0.95.

    Yields
    ------
    Look
        The last one has the answer; its `steps_left` is positive if `max_steps` came first.

    Examples
    --------
    >>> from gainbias.evaluation.gain.batches import BatchMeans
    >>> rng, rewards = np.random.default_rng(0), BatchMeans()
    >>> def reach(steps):
    ...     rewards.add(rng.normal(size=steps - rewards.steps))
    ...     return rewards
    >>> *_, last = looks_until(reach, 0.01, max_steps=10**6)
    >>> last.steps_left, last.estimate.half_width <= 0.01
    (0, True)
    """
    if not target_half_width > 0.0:
        raise ValueError(f"target_half_width must be positive, found {target_half_width}")
    sequence = ConfidenceSequence() if sequence is None else sequence
    steps = reach_first_look(reach, sequence, max_steps)
    while True:
        rewards = reach(steps)
        # A run that ends before its first look is looked at once: nothing that was seen has ended it.
        is_first = sequence.first_look is None
        estimate = estimate_gain(rewards, sequence.confidence) if is_first else sequence.estimate(rewards)
        look = _look(estimate, steps, target_half_width)
        yield look
        if look.steps_left == 0 or steps == max_steps:
            return
        steps = min(max_steps, int(LOOK_GROWTH * steps))


def reach_first_look(reach: Callable[[int], AnyMeans], sequence: ConfidenceSequence, max_steps: int) -> int:
    """Go on to the first look of a sequence, or to `max_steps`; return the steps of each chain.

    Parameters
    ----------
    reach : function
        Goes on until each chain has made this many steps, and returns all rewards so far.
    sequence : ConfidenceSequence
    max_steps : int
    """
    steps = 0
    while (check := sequence.next_check(steps)) is not None and steps < max_steps:
        steps = min(check, max_steps)
        rewards = reach(steps)
        if steps == check:
            sequence.check(rewards)
    return min(max_steps, sequence.first_look or steps)


def _look(estimate: GainEstimate, steps: int, target: float) -> Look:
    width = estimate.half_width if estimate.has_interval else target
    if width <= target and not estimate.is_flagged:
        return Look(estimate, 0)
    needed = steps * max((width / target) ** 2, estimate.verdict.longer or 1.0)
    return Look(estimate, max(1, int(needed) - steps))
