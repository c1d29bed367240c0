"""A log that is read twice, in bounded memory, and what both kinds of answers share.

The first reading gathers the data for a model, the second evaluates the error of its answers along the
path of the log, so intervals come from batch means like those of any other series.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gainbias.evaluation.another.chances import ActionFeatures
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.gain.interval import GainEstimate
from gainbias.evaluation.gain.verdict import CutShort
from gainbias.evaluation.observations import Choice, ObservationMap
from gainbias.evaluation.reading import FEWEST_STEPS, Display
from gainbias.evaluation.sources.logs import OpenLog, open_log
from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.stream import (
    STEP,
    UNKNOWN_PLACE,
    BrokenStream,
    Interrupted,
    ObservedSteps,
    OnTermination,
    Path,
    joined,
)
from gainbias.progress import Interruptions, OutOfTimeError

SURE_OF_OTHER = 7.0
"""Standard errors from which a behaviour is doubted: chance never reaches that."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about other policies to a log.

    Attributes
    ----------
    policies : list of policies
    behaviour : policy or None
        The one that made the log, if it is known.
    ratio_features : features or None
        Of the density ratio, if they differ from those of values.
    discount : float or None
    method : {"auto", "model", "ratio", "importance-sampling"}
        The last three are for comparison.
    confidence : float
    time_limit : float or None
        Seconds. The first reading may take half of them, and the second then takes as long.
    """

    policies: list[Policy]
    behaviour: Policy | None = None
    ratio_features: Choice | ActionFeatures | None = None
    discount: float | None = None
    method: str = "auto"
    confidence: float = 0.95
    time_limit: float | None = None


@dataclass(frozen=True, eq=False)
class LogReading:
    """A log that is read several times, always in the same way.

    Attributes
    ----------
    log : object
        As for `evaluate_log`.
    options : mapping
        Further arguments of `open_log`.
    features : object
        As for `evaluate_log`.
    on_termination : {"zero", "reward"}
    """

    log: Any
    options: Mapping[str, Any]
    features: Choice | ActionFeatures
    on_termination: OnTermination

    def opened(self, notes: list[str], warnings: list[str], num_actions: int | None = None) -> OpenLog:
        """Open the log anew."""
        return open_log(self.log, notes, warnings, num_actions=num_actions, **self.options)

    def steps(
        self, opened: OpenLog, pieces: Iterator[Path], notes: list[str], limit: int | None = None
    ) -> Iterator[ObservedSteps]:
        """Yield steps between observations that led to a known place; stop after `limit` of them.

        Every reading yields the same batches, so if an earlier reading ended at the limit, a batch ends
        there.
        """
        made = 0
        with closing(pieces):  # type: ignore[type-var]  # they come from a generator
            for steps in joined(pieces, self.on_termination, notes):
                known = steps.after != UNKNOWN_PLACE
                made += int(np.count_nonzero(known))
                if known.any():
                    yield steps if known.all() else part_of(steps, known)
                if made == limit:
                    return


def part_of(steps: ObservedSteps, rows: Any) -> ObservedSteps:
    """Return some of the steps, chosen by a slice or by a truth value for each."""
    return replace(
        steps,
        here=steps.here[rows],
        after=steps.after[rows],
        rewards=steps.rewards[rows],
        segments=steps.segments[rows],
        durations=None if steps.durations is None else steps.durations[rows],
        beside={name: column[rows] for name, column in steps.beside.items()},
    )


class GivenChances:
    """Tests whether a column has the probabilities with which the log took its actions.

    One over the probability, summed over the rows with one action, is on average the number of all rows from
    which that action can be taken. So it cannot be much more than the number of rows.

    Examples
    --------
    >>> given = GivenChances("p", 2)
    >>> here, actions = np.arange(400), np.arange(400) % 2
    >>> beside = {"action": actions, "chance": np.full(400, 0.1)}
    >>> given.add(ObservedSteps(here, here, here, here * 1.0, here * 0, 0, None, beside))
    >>> [words] = given.warnings()
    >>> words[:60]
    "the probabilities in column 'p' cannot be those of the polic"
    """

    def __init__(self, name: str, num_actions: int) -> None:
        self._name, self._rows = name, 0
        self._sums = np.zeros((2, num_actions))

    def add(self, steps: ObservedSteps) -> None:
        """Add the next steps."""
        inside = steps.here < len(steps.observations)  # the end has no action
        actions = steps.beside["action"][inside].astype(np.int64)
        one_over = 1.0 / steps.beside["chance"][inside]
        self._rows += len(actions)
        for power, total in enumerate(self._sums, start=1):
            total += np.bincount(actions, one_over**power, minlength=len(total))

    def warnings(self) -> list[str]:
        """Return a warning if these probabilities could never have made the log by chance."""
        if not self._rows:
            return []
        means, squares = self._sums / self._rows
        errors = np.sqrt(np.maximum(squares - means**2, 1e-12) / self._rows)
        worst = int(np.argmax((means - 1.0) / errors))
        apart = (means[worst] - 1.0) / errors[worst]
        if not apart > SURE_OF_OTHER:
            return []
        return [
            f"the probabilities in column {self._name!r} cannot be those of the policy that made the log: "
            f"one over them, summed over the rows with action {worst}, should be at most the {self._rows:,} "
            f"rows that there are, and is {self._sums[0, worst]:,.0f}, {apart:.0f} standard errors more. "
            "The answer does not use them"
        ]


class Passing:
    """Passes over a log, with a line on the screen, until its end, Ctrl-C or the time limit."""

    def __init__(self, interruptions: Interruptions, display: Display) -> None:
        self._interruptions, self._display = interruptions, display
        self.steps = 0

    def over(self, steps: Iterator[ObservedSteps], take: Callable[[ObservedSteps], None]) -> CutShort | None:
        """Take all steps; return why reading ended early, if it did."""
        try:
            while (batch := self._next(steps)) is not None:
                take(batch)
                self.steps += len(batch.here)
                self._display.show(self.steps)
        except (BrokenStream, OutOfTimeError) as error:
            if self.steps < FEWEST_STEPS:
                if isinstance(error, Interrupted):
                    raise KeyboardInterrupt from None
                raise ValueError(str(error)) from None
            words = f"cut short after {self.steps:,} transitions: {error}"
            return CutShort(words, by_choice=isinstance(error, OutOfTimeError | Interrupted))
        if self.steps < FEWEST_STEPS:
            raise ValueError(f"an estimate needs at least {FEWEST_STEPS} transitions, found {self.steps}")
        return None

    def _next(self, steps: Iterator[ObservedSteps]) -> ObservedSteps | None:
        try:
            with self._interruptions.waiting():
                return next(steps, None)
        except KeyboardInterrupt:
            raise Interrupted from None


@dataclass(frozen=True, eq=False)
class FirstReading:
    """The results of the first reading of a log.

    Attributes
    ----------
    observed : ObservationMap
        How observations become states or features.
    num_actions : int
        Actions of the log; 0 if they are continuous.
    steps : int
        Transitions that were read.
    cut : CutShort or None
        Why reading ended before the end, if it did.
    notes, warnings : list of str
    unit : str
        What the gain is per.
    seconds : list of float
        Spent on waiting for the log, in each reading.
    duration : float
        How long all steps took.
    started : float
        When it began.
    """

    observed: ObservationMap
    num_actions: int
    steps: int
    cut: CutShort | None
    notes: list[str]
    warnings: list[str]
    unit: str
    duration: float
    seconds: list[float] = field(default_factory=list)
    started: float = 0.0


def diagnosed(
    first: FirstReading,
    gain: GainEstimate,
    warnings: list[str],
    notes: list[str],
    about_values: list[str] | None = None,
    **facts: Any,
) -> Diagnostics:
    """Return the diagnostics of an answer; `facts` are those that depend on the kind of its model."""
    gain = gain.after(first.cut)
    of_gain = (*gain.warnings, *first.warnings, *warnings)
    said = ["the answer is for the policy that was asked about, from the log of another one"]
    return Diagnostics(
        is_complete=first.cut is None,
        num_chains=1,
        num_transitions=gain.num_steps,
        transient=0,
        effective_sample_size=gain.effective_sample_size,
        autocorrelation_time=gain.autocorrelation_time,
        standard_error=gain.standard_error,
        r_hat=gain.r_hat,
        degrees=gain.degrees,
        verdict=gain.verdict,
        eta=None,
        source_seconds=sum(first.seconds),
        library_seconds=max(0.0, time.perf_counter() - first.started - sum(first.seconds)),
        notes=(*said, *first.notes, *gain.notes, *notes),
        warnings=(*of_gain, *(about_values or ())),
        gain_warnings=of_gain,
        duration=None if first.unit == STEP else first.duration,
        **facts,
    )
