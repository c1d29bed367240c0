"""From a stream of transitions to an estimate: read until a goal is reached, whatever happens on the way.

Start with `follow`, which follows a policy in an environment by a plan. It opens a stream, and `read` reads
that to its end or to a goal. `estimate_of` makes an estimate from what was read. A log has no plan:
`evaluate_log` calls `read` itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

from gainbias.evaluation.collection import Collection
from gainbias.evaluation.diagnostics import diagnose
from gainbias.evaluation.estimate import Estimate, History, gain_history
from gainbias.evaluation.gain.anytime import (
    LOOK_GROWTH,
    ConfidenceSequence,
    Look,
    looks_until,
    reach_first_look,
)
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.evaluation.gain.verdict import CutShort
from gainbias.evaluation.observations import Choice
from gainbias.evaluation.sources.environments import Environment, environment_stream
from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.stream import (
    BrokenStream,
    Interrupted,
    OnTermination,
    Stream,
    check_counts,
)
from gainbias.evaluation.values.methods import (
    LearnedRecord,
    Learning,
    NoLearning,
    NoValues,
    value_method,
)
from gainbias.progress import Interruptions, OutOfTimeError, Watch
from gainbias.types import Floats

BATCH = 1024
"""Steps of each chain between two looks at the clock."""

BETWEEN = 0.1
"""Seconds between two updates of the display."""

FEWEST_STEPS = 4
"""Steps of each chain that an estimate needs."""


@dataclass(frozen=True)
class FollowingPlan:
    """How a policy is followed.

    Attributes
    ----------
    learning : Learning
        How values are learned.
    num_steps : int
        Transitions of all chains together; at most this many if there is a `target_half_width`.
    features, target_half_width, anytime, chains, seed, on_termination, confidence, deterministic,
    duration
        The arguments of `evaluate`.
    """

    features: Choice
    learning: Learning
    num_steps: int
    target_half_width: float | None
    chains: int | None
    seed: int
    on_termination: OnTermination
    confidence: float
    anytime: bool = False
    deterministic: bool | None = None
    duration: str | None = None

    def sequence(self) -> ConfidenceSequence | None:
        """Return a new sequence of intervals, if there is more than one look at the run."""
        is_looked_at = self.anytime or self.target_half_width is not None
        return ConfidenceSequence(self.confidence) if is_looked_at else None

    def check(self) -> None:
        """Refuse wrong arguments before anything is made."""
        check_counts(num_steps=self.num_steps, chains=1 if self.chains is None else self.chains)
        check_confidence(self.confidence)
        check_target(self.target_half_width)


def follow(
    env: Environment,
    policy: Policy,
    plan: FollowingPlan,
    watch: Watch,
    interruptions: Interruptions,
    hear: Callable[[Floats, Floats | None], None] | None = None,
    sequence: ConfidenceSequence | None = None,
) -> tuple[Collection, CutShort | None]:
    """Follow a policy; return what was read, and why reading ended before its goal, if it did.

    All rewards, and durations if there are any, are passed on to `hear`, (chains, count) at a time. A
    `sequence` is told its first look.
    """
    plan.check()
    display = Display(watch)

    def make() -> Any:
        return environment_stream(
            env,
            policy,
            features=plan.features,
            copies=plan.chains,
            seed=plan.seed,
            on_termination=plan.on_termination,
            duration=plan.duration,
            batch_size=BATCH,
            beat=display.beat,
            deterministic=plan.deterministic,
        )

    with opened(interruptions, make) as stream:
        per_chain = max(FEWEST_STEPS, -(-plan.num_steps // stream.num_chains))
        learned = partial(value_method, plan.learning, stream.observed, stream.is_timed)
        method = learned if stream.has_states else NoLearning
        display.begin(per_chain, stream.num_chains)
        collection = Collection(stream, method, interruptions, display.show, hear)
        return collection, read(collection, per_chain, display, sequence, plan.target_half_width)


@contextmanager
def opened(interruptions: Interruptions, make: Callable[[], Stream]) -> Iterator[Stream]:
    """Open a stream, and close it when the block is left."""
    try:
        with interruptions.waiting():
            stream = make()
    except Interrupted:
        raise KeyboardInterrupt from None
    try:
        yield stream
    finally:
        stream.close()


def read(
    collection: Collection,
    steps: int | None,
    display: Display,
    sequence: ConfidenceSequence | None = None,
    target_half_width: float | None = None,
) -> CutShort | None:
    """Read a stream to its end or to a goal; return why reading ended before, if it did.

    Parameters
    ----------
    collection : Collection
    steps : int or None
        Steps of each chain, at most; ``None`` for all of them.
    display : Display
    sequence : ConfidenceSequence, optional
        It is told its first look.
    target_half_width : float, optional
        Stop earlier, when the sequence's interval of the gain reaches no further than this to either side.

    Raises
    ------
    BrokenStream, KeyboardInterrupt, ValueError
        If there is not enough for an estimate.
    """
    cut: CutShort | None = None
    try:
        if steps is not None and sequence is not None and target_half_width is not None:
            ran_out = _read_until(collection, steps, sequence, target_half_width, display)
            cut = CutShort(ran_out, by_choice=True) if ran_out else None
        elif steps is not None and sequence is not None:
            reach_first_look(collection.reach, sequence, steps)
        if target_half_width is None:
            collection.reach(steps)
    except (BrokenStream, OutOfTimeError) as error:
        made = collection.rewards.steps
        if made < FEWEST_STEPS:
            if isinstance(error, Interrupted):
                raise KeyboardInterrupt from None
            if isinstance(error, OutOfTimeError):
                raise ValueError(f"{error}, before there were {FEWEST_STEPS} steps of each chain") from None
            raise
        words = f"cut short after {made * collection.rewards.num_chains:,} transitions: {error}"
        cut = CutShort(words, by_choice=isinstance(error, OutOfTimeError | Interrupted))
    if collection.rewards.steps < FEWEST_STEPS:
        raise ValueError(
            f"an estimate needs at least {FEWEST_STEPS} transitions, found {collection.rewards.steps}"
        )
    return cut


def _read_until(
    collection: Collection, steps: int, sequence: ConfidenceSequence, target: float, display: Display
) -> str:
    looks = looks_until(collection.reach, target, max_steps=steps, sequence=sequence)
    for look in looks:
        display.look(look, collection.rewards.steps)
    if look.steps_left == 0:
        return ""
    if not look.estimate.has_interval:
        return "the steps ran out: the rewards never changed, so there is no interval yet"
    if look.estimate.half_width <= target and look.estimate.is_flagged:
        return "the steps ran out: the interval is narrow enough, but cannot be trusted yet: see below"
    return (
        f"the steps ran out: the half width of the interval is {look.estimate.half_width:.3g}, {target:g} "
        f"would need about {1.0 + look.steps_left / collection.rewards.steps:.1f} times as many steps"
    )


def estimate_of(
    collection: Collection,
    confidence: float,
    cut: CutShort | None,
    sequence: ConfidenceSequence | None = None,
) -> Estimate:
    """Return the estimate from everything that was read; of the gain alone if no values could be learned.

    The interval of the gain is that of the `sequence`, if there is one.
    """
    rewards, over_time = collection.rewards, collection.stream.is_timed
    try:
        gain = (
            estimate_gain(rewards, confidence, over_time=over_time)
            if sequence is None
            else sequence.estimate(rewards, over_time=over_time)
        )
    except ValueError as error:
        raise ValueError(f"{error}; {cut.words}" if cut else str(error)) from None
    gain = gain.after(cut)
    learned: LearnedRecord
    observed = collection.stream.observed
    try:
        learned = collection.method.values(gain.transient, confidence)
    except ValueError as error:
        learned = NoValues(observed.num_features, (f"there are no values: {error}",))
    collection.stream.notes.extend(note for note in observed.notes() if note not in collection.stream.notes)
    return Estimate(
        gain=gain.gain,
        gain_interval=gain.interval,
        confidence=confidence,
        diagnostics=diagnose(collection, gain, learned, is_complete=cut is None),
        history=History.made_later(partial(gain_history, rewards, confidence, sequence)),
        observed=observed.settled(),
        learned=learned,
        per=collection.stream.per,
    )


class Display:
    """The line on the screen that shows how far the reading has come.

    Parameters
    ----------
    watch : Watch
    """

    def __init__(self, watch: Watch) -> None:
        self._watch, self._words, self._num_chains = watch, "", 1
        self._total: float | None = None
        self._most: float = math.inf
        self._steps = self._ahead = 0
        self._shown = 0.0

    def begin(self, steps: int, num_chains: int) -> None:
        """Set the number of steps of each chain that will be made, at most."""
        self._total, self._most, self._num_chains = steps, steps, num_chains

    def beat(self, steps: int) -> None:
        """Count steps that are not yet in a batch, and show them now and then."""
        self._ahead += steps
        if time.monotonic() - self._shown > BETWEEN:
            self._draw()

    def show(self, steps: int) -> None:
        """Show how many steps of each chain were read."""
        if steps > self._steps:
            self._steps, self._ahead = steps, 0
        self._draw()

    def look(self, look: Look, steps: int) -> None:
        """Show an estimate on the way; the bar then shows how long it will still take."""
        estimate = look.estimate
        reach = f"+- {estimate.half_width:.2g}" if estimate.has_interval else "without an interval"
        self._words = f", gain {estimate.gain:.5g} {reach}"
        looks = math.log((steps + look.steps_left) / steps, LOOK_GROWTH)  # it ends with one of them
        self._total = min(self._most, round(steps * LOOK_GROWTH ** math.ceil(looks)))
        self.show(steps)

    def _draw(self) -> None:
        steps = self._steps + self._ahead // self._num_chains
        steps = steps if self._total is None else min(steps, int(self._total))
        self._shown = time.monotonic()
        self._watch.show(f"{steps:,} steps of each chain{self._words}", steps, self._total)


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is no probability, before a long run and not after it."""
    if not (isinstance(confidence, Real) and 0.0 < confidence < 1.0):
        is_percent = isinstance(confidence, Real) and 1.0 < confidence < 100.0
        hint = f": say {confidence / 100:g} for {confidence:g}%" if is_percent else ""
        raise ValueError(f"confidence must be between 0 and 1, found {confidence!r}{hint}")


def check_time_limit(time_limit: float | None) -> None:
    """Refuse a time limit that is no number."""
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit >= 0.0):
        raise ValueError(f"time_limit must be a number of seconds, found {time_limit!r}")


def check_target(half_width: float | None) -> None:
    """Refuse a half width that no interval can have."""
    if half_width is not None and not (isinstance(half_width, Real) and half_width > 0.0):
        raise ValueError(f"target_half_width must be a positive number, found {half_width!r}")
