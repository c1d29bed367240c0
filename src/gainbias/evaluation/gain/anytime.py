"""Intervals that hold for all looks together, and when to stop.

If you look at a run several times, and stop when the interval looks good, you are wrong more often than
each interval says. `ConfidenceSequence` makes intervals that all hold together with the given confidence,
from a first look on. They are those of Robbins and Siegmund (1970) for Brownian motion, which sums of many
numbers are like: a mean over n steps may be off by ``sqrt(b^2 + log(n / first look))`` standard errors, with
b such that Brownian motion ever leaves these bounds only with the remaining probability. Conditions under
which this holds for real data are given by Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (arXiv
2103.06476).

The standard error must be more certain than for one look, because the bounds are further out. It comes from
slow waves, as for one look (`spectrum`), but from more of them as the run grows: their number grows like the
length to the power `WAVE_POWER`. So the waves become slower and more numerous.

`RunningMean` is for numbers as they come; `looks_until` reads by itself until such an interval is narrow
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from gainbias.evaluation.gain.batches import LARGEST_NUMBER, AnyMeans, BatchMeans
from gainbias.evaluation.gain.interval import (
    SKEWNESS_GROUPS,
    GainEstimate,
    estimate_gain,
    skewness_of_mean,
    stretched,
)
from gainbias.evaluation.gain.spectrum import MOST_WAVES, SLOW_WAVES, slow_waves
from gainbias.evaluation.gain.verdict import SURE_OF_SLOW
from gainbias.notebook import InNotebooks
from gainbias.store import check_free
from gainbias.types import Floats

FIRST_TIMES = 500
"""Autocorrelation times before the first look: sums of skewed numbers are then nearly normal even far out."""

FIRST_STEPS = 2048
"""Steps of all chains before the first look."""

FIRST_CHECK = 512
"""Steps of each chain before the first check whether they are enough."""

EARLIEST_LOOK = 100
"""The smallest first look that can be chosen."""

WAVE_POWER = 2.0 / 3.0
"""A run x times as long as at the first look gets its error from x to this power times as many waves."""

ENTRIES_PER_WAVE = 4
"""Batches for each wave: fewer do not resolve it."""

LOOK_GROWTH = 1.1
"""A run with a target is checked whenever it is this many times as long as before."""

RUNNING_KIND = "gainbias running mean"
RUNNING_VERSION = 1


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
    """Intervals of a mean that hold for all looks together, from a first look on.

    Parameters
    ----------
    confidence : float
        The probability that all intervals contain the mean.
    first_look : int, optional
        Steps of each chain before the first interval. By default it is found: the rewards are judged at
        `next_check`, and the first look comes when there are at least `FIRST_TIMES` autocorrelation times
        and no reason to doubt an interval. That depends on how rewards vary, and hardly on their mean,
        so it does not spoil the sequence (`benchmarks/anytime.py`).

    Attributes
    ----------
    confidence : float
    first_look : int or None
        None as long as it has not been found.

    Examples
    --------
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
        _check_asked(confidence, first_look)
        self.confidence, self.first_look = confidence, first_look

    def next_check(self, steps: int) -> int | None:
        """Return after how many steps of each chain, more than `steps`, `check` is due; None if never again.

        These are powers of two, no matter when someone looks, so the first look does not depend on that.
        """
        return None if self.first_look is not None else max(FIRST_CHECK, 1 << steps.bit_length())

    def check(self, rewards: AnyMeans, find_warm_up: bool = True) -> None:
        """Make this the first look if the rewards are enough for it; to be called only at `next_check`."""
        if self.first_look is None and is_enough(estimate_gain(rewards, self.confidence, find_warm_up)):
            self.first_look = rewards.steps

    def estimate(
        self, rewards: AnyMeans, find_warm_up: bool = True, skipped: int = 0, over_time: bool = False
    ) -> GainEstimate:
        """Return the estimate with the sequence's interval; before the first look with none, and a note.

        Its verdict counts steps with the `skipped` ones, which came before these rewards; `over_time` is that
        of `estimate_gain`.
        """
        once = estimate_gain(rewards, self.confidence, find_warm_up, skipped, over_time=over_time)
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

        If the faster waves are smaller, because of a slow part, the standard error comes from few waves.
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
            f"the interval holds for all looks together, from step {self.first_look:,}{where} on, and is "
            f"{ratio:.2f} times as wide as one for a single look"
        )

    def _waiting_in_words(self, once: GainEstimate, steps: int) -> str:
        if self.first_look is not None:
            return f"the first comes after {self.first_look:,} steps"
        again = f"after {self.next_check(steps):,} steps it is asked again"
        if once.is_flagged:
            return f"the first comes when there is no reason to doubt it, see the warnings; {again}"
        needed = max(FIRST_STEPS, round(FIRST_TIMES * once.autocorrelation_time))
        return (
            f"the first comes after {FIRST_TIMES} autocorrelation times, at least {FIRST_STEPS:,} steps:  "
            f"judging by the numbers so far, after about {needed:,}; {again}"
        )


def _check_asked(confidence: Any, first_look: Any, skip: Any = 0) -> None:
    if not (isinstance(confidence, Real) and 0.0 < float(confidence) < 1.0):
        raise ValueError(f"confidence must be between 0 and 1, found {confidence!r}")
    if first_look is not None and not (isinstance(first_look, Integral) and int(first_look) >= EARLIEST_LOOK):
        raise ValueError(
            f"first_look must be a number of steps, at least {EARLIEST_LOOK}, found {first_look!r}"
        )
    if isinstance(skip, bool) or not isinstance(skip, Integral) or skip < 0:
        raise ValueError(f"skip must be a number of first numbers to leave out, found {skip!r}")


def is_enough(estimate: GainEstimate) -> bool:
    """Whether a run is long enough for a first look, and there is no reason to doubt its interval."""
    return (
        estimate.num_steps >= FIRST_STEPS
        and estimate.effective_sample_size >= FIRST_TIMES
        and not estimate.is_flagged
    )


class RunningMean(InNotebooks):
    """The mean of a stream of numbers, with intervals that hold for all looks together.

    Feed it numbers as they come, look whenever you like, and stop when you have seen enough: with the given
    confidence none of the intervals from the first look on misses the mean, whether you looked at them or
    not. The numbers may depend on each other. About 200 kB are needed, however long the stream is.

    Parameters
    ----------
    confidence : float
        The probability that all intervals contain the mean.
    skip : int
        How many first numbers to leave out as a warm-up. You must set it at the beginning, because
        intervals that were seen cannot be taken back.
    first_look : int, optional
        Numbers after those left out before the first interval, at least 100. By default the first interval
        comes when the numbers are worth 500 independent ones and there is no reason to doubt it; this is
        checked after 2,048 numbers, 4,096, 8,192 and so on.

    Attributes
    ----------
    confidence, skip
        As they were given.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> rng, waits = np.random.default_rng(0), gb.RunningMean()
    >>> waits.update(rng.exponential(size=1_000))
    >>> waits.interval is None, waits.notes
    (True, ('no interval yet: the first comes after 500 autocorrelation times, ...',))
    >>> while waits.interval is None or waits.half_width > 0.02:
    ...     waits.update(rng.exponential(size=1_000))
    >>> low, high = waits.interval
    >>> low < 1.0 < high, waits.warnings
    (True, ())
    """

    def __init__(self, confidence: float = 0.95, *, skip: int = 0, first_look: int | None = None) -> None:
        _check_asked(confidence, first_look, skip)
        self._sequence = ConfidenceSequence(confidence, first_look)
        self.confidence, self.skip = confidence, skip
        self._numbers, self._skipped = BatchMeans(), 0
        self._seen: tuple[int, GainEstimate | None] = 0, None

    def update(self, numbers: ArrayLike) -> None:
        """Add the next numbers: one, or a list or an array of them.

        Raises
        ------
        ValueError
            If one of them is not a finite number; then none of them was added.
        """
        array = self._checked(numbers)
        left_out = min(self.skip - self._skipped, len(array))
        self._skipped += left_out
        array = array[left_out:]
        while len(array):
            check = self._sequence.next_check(self.steps)
            room = len(array) if check is None else check - self.steps
            self._numbers.add(array[:room])
            array = array[room:]
            if self.steps == check:
                self._sequence.check(self._numbers, find_warm_up=False)

    @property
    def steps(self) -> int:
        """Numbers so far, without those left out."""
        return self._numbers.steps

    @property
    def mean(self) -> float:
        """Mean of all numbers so far; nan if there are none."""
        return self._numbers.mean if self.steps else float("nan")

    @property
    def first_look(self) -> int | None:
        """Numbers before the first interval; None if not known yet."""
        return self._sequence.first_look

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval now; None before the first look, and if the numbers never change."""
        look = self._look()
        return look.interval if look is not None and look.has_interval else None

    @property
    def half_width(self) -> float:
        """Half the width of the interval; infinite as long as there is none."""
        return float("inf") if (ends := self.interval) is None else (ends[1] - ends[0]) / 2.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the interval may be wrong, or why there is none; empty if there is no reason to doubt it."""
        return () if (look := self._look()) is None else look.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """From when on intervals hold, or when the first will come."""
        return () if (look := self._look()) is None else look.notes

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write everything that is needed to continue to a file, which `RunningMean.load` reads.

        An existing file is refused unless it may be replaced; missing folders are made.
        """
        from gainbias.evaluation.storage import write_archive

        check_free(Path(path), overwrite)
        numbers, arrays = self._numbers.state()
        record = {
            "confidence": self.confidence,
            "skip": self.skip,
            "skipped": self._skipped,
            "first_look": self.first_look,
            "numbers": numbers,
        }
        write_archive(Path(path), RUNNING_KIND, RUNNING_VERSION, record, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a running mean that `save` wrote: it continues as if it had never been saved, to the last bit.

        Raises
        ------
        ValueError
            If the file is damaged, is something else, or was written by another version.

        Examples
        --------
        >>> import tempfile
        >>> import gainbias as gb
        >>> running = gb.RunningMean()
        >>> running.update([1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     running.save(f"{folder}/waits.npz")
        ...     again = gb.RunningMean.load(f"{folder}/waits.npz")
        >>> again.update(6.0)
        >>> again.steps, again.mean
        (3, 3.0)
        """
        from gainbias.evaluation.storage import read_archive

        record, arrays = read_archive(Path(path), RUNNING_KIND, RUNNING_VERSION, "RunningMean.save")
        made = cls(record["confidence"], skip=record["skip"], first_look=record["first_look"])
        made._skipped, made._numbers = record["skipped"], BatchMeans.restored(record["numbers"], arrays)
        return made

    def __repr__(self) -> str:
        from gainbias.evaluation.series_estimate import number_in_words

        shown = number_in_words(self.mean, self.interval, self.confidence)
        lines = [
            f"mean      {shown}, of {self.steps:,} numbers",
            *(f"warning   {warning}" for warning in self.warnings),
            *(f"note      {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _look(self) -> GainEstimate | None:
        """Return the current estimate, None for fewer than two numbers; it is cached."""
        if self._seen[0] != self.steps and self.steps > 1:
            look = self._sequence.estimate(self._numbers, find_warm_up=False, skipped=self._skipped)
            self._seen = self.steps, look
        return self._seen[1]

    def _checked(self, numbers: Any) -> Floats:
        array = np.atleast_1d(np.asarray(numbers))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
            raise ValueError(
                f"numbers must be one number, or a list or array of numbers, found shape {array.shape} and "
                f"type {array.dtype}"
            )
        array = array.astype(np.float64, copy=False)
        right = np.abs(array) <= LARGEST_NUMBER  # which nan and infinity are not
        if not right.all():
            place = int(np.argmin(right))
            must = f"at most {LARGEST_NUMBER:g}" if np.isfinite(array[place]) else "finite"
            raise ValueError(
                f"numbers must be {must}, found {array[place]} at place {place} of these, after "
                f"{self._skipped + self.steps:,} earlier ones: none of these was added"
            )
        return array


@dataclass(frozen=True)
class Look:
    """The result of one look at a run.

    Attributes
    ----------
    estimate : GainEstimate
        The estimate so far, with an interval that holds for all looks together; if the run ended before
        the first look, with an interval for this look only.
    steps_left : int
        Steps of each chain that are probably still needed; 0 once the interval is narrow enough.
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
    """Continue until the gain's interval is narrow enough, and report every look.

    Parameters
    ----------
    reach : function
        Continues until each chain has taken this many steps, and returns all rewards so far.
    target_half_width : float
        Half of the wanted width, positive.
    max_steps : int
        Most steps of each chain.
    sequence : ConfidenceSequence, optional
        Makes the intervals; by default with confidence 0.95.

    Yields
    ------
    Look
        The last one has the answer; its `steps_left` is positive if `max_steps` came first.

    Examples
    --------
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
        # A run that ends before its first look has only this look: it did not stop because of what was seen.
        is_first = sequence.first_look is None
        estimate = estimate_gain(rewards, sequence.confidence) if is_first else sequence.estimate(rewards)
        look = _look(estimate, steps, target_half_width)
        yield look
        if look.steps_left == 0 or steps == max_steps:
            return
        steps = min(max_steps, int(LOOK_GROWTH * steps))


def reach_first_look(reach: Callable[[int], AnyMeans], sequence: ConfidenceSequence, max_steps: int) -> int:
    """Continue to the first look of a sequence, or to `max_steps`; return the steps of each chain.

    Parameters
    ----------
    reach : function
        Continues until each chain has taken this many steps, and returns all rewards so far.
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
