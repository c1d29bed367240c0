"""When to stop a run: go on until the gain's interval is narrow enough.

A run that goes on until its interval is narrow enough is looked at only at times that grow by `LOOK_GROWTH`,
and the interval is believed only if nothing speaks against it: looking at every step would stop at the first
one that is narrow by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain

LOOK_GROWTH = 1.5
"""Each look comes after this many times the steps of the one before."""

FIRST_LOOK = 5_000
"""Steps before the first look."""


@dataclass(frozen=True)
class Look:
    """What one look at a run saw.

    Attributes
    ----------
    estimate : GainEstimate
        The estimate so far.
    steps_left : int
        Steps of each chain that are expected to be needed yet; 0 once the interval is narrow enough.
    """

    estimate: GainEstimate
    steps_left: int


def looks_until(
    reach: Callable[[int], BatchMeans],
    target_half_width: float,
    *,
    max_steps: int,
    confidence: float = 0.95,
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
    confidence : float
        Nominal coverage of the interval.

    Yields
    ------
    Look
        The last one has the answer; its `steps_left` is positive if `max_steps` came first.

    Examples
    --------
    >>> import numpy as np
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
    steps = min(max_steps, FIRST_LOOK)
    while True:
        look = _look(estimate_gain(reach(steps), confidence), steps, target_half_width)
        yield look
        if look.steps_left == 0 or steps == max_steps:
            return
        steps = min(max_steps, int(LOOK_GROWTH * steps))


def _look(estimate: GainEstimate, steps: int, target: float) -> Look:
    width = estimate.half_width if estimate.has_interval else target
    if width <= target and not estimate.is_flagged:
        return Look(estimate, 0)
    needed = steps * max((width / target) ** 2, estimate.verdict.longer or 1.0)
    return Look(estimate, max(1, int(needed) - steps))
