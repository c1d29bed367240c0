"""From a log and another policy to an `Estimate`: the log is read twice.

Start with `evaluate_targets`. The first reading gathers what a model is made of, the second evaluates the
error of its answers along the path of the log. So memory does not grow with the log, and intervals come from
the same batch means as those of any other series.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from gainbias.evaluation.another.chances import Chances, chances_of, table_width
from gainbias.evaluation.another.record import (
    FEW_VISITS,
    FEWEST_TO_JUDGE,
    UNKNOWN_SHARE,
    Alternative,
    NoAnswer,
    Overlap,
    Place,
    Target,
    heaviest_first,
    kish,
    left_out_in_words,
    places_in_words,
    weak_in_words,
)
from gainbias.evaluation.another.tables import (
    MOST_MISSING,
    Counts,
    NumberedSteps,
    PairSums,
    TableInfluence,
    TableModel,
)
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.estimate import Estimate, gain_history
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.observations import Choice, ObservationMap, observation_map
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
    Timed,
    joined,
    peeked,
)
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.evaluation.values.methods import Learning
from gainbias.progress import Interruptions, OutOfTimeError, Watch
from gainbias.types import Floats, Ints

FEWEST_EXPECTED = 10.0
"""Visits that a behaviour must expect before its frequencies are compared with those of the log."""

SURE_OF_OTHER = 7.0
"""Standard errors from which on a behaviour is doubted: chance never reaches that."""


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
    features: Choice
    on_termination: OnTermination

    def opened(self, notes: list[str], warnings: list[str], num_actions: int | None = None) -> OpenLog:
        """Open the log anew."""
        return open_log(self.log, notes, warnings, num_actions=num_actions, **self.options)

    def steps(
        self, opened: OpenLog, pieces: Iterator[Path], notes: list[str], limit: int | None = None
    ) -> Iterator[ObservedSteps]:
        """Yield steps between observations, at most `limit`, of which it is known where they led."""
        made = 0
        with closing(pieces):  # type: ignore[type-var]  # they come from a generator
            for steps in joined(pieces, self.on_termination, notes):
                known = steps.after != UNKNOWN_PLACE
                if limit is not None:
                    known &= made + np.cumsum(known) <= limit
                made += int(np.count_nonzero(known))
                if known.any():
                    yield steps if known.all() else _part(steps, known)
                if made == limit:
                    return


def _part(steps: ObservedSteps, rows: Any) -> ObservedSteps:
    return replace(
        steps,
        here=steps.here[rows],
        after=steps.after[rows],
        rewards=steps.rewards[rows],
        segments=steps.segments[rows],
        durations=None if steps.durations is None else steps.durations[rows],
        beside={name: column[rows] for name, column in steps.beside.items()},
    )


class Numbering:
    """Numbers of states and actions, and the way back to what users call them.

    Parameters
    ----------
    observed : ObservationMap
        With a state for each observation.
    """

    def __init__(self, observed: ObservationMap) -> None:
        self.observed = observed

    def __call__(self, steps: ObservedSteps) -> NumberedSteps:
        """Return steps between numbered states."""
        assert self.observed.states is not None
        states = np.append(self.observed.states(steps.observations), self.observed.end)
        here = states[steps.here]
        is_end = steps.here == len(steps.observations)
        actions = np.where(is_end, 0, steps.beside["action"]).astype(np.int64)
        lasted = np.ones(len(here)) if steps.durations is None else steps.durations
        return NumberedSteps(here, actions, states[steps.after], steps.rewards, lasted)

    def observations(self, states: Ints) -> Any:
        """Return the observations of states that are no ends, (m, ...)."""
        if self.observed.seen is not None:
            return self.observed.seen.known[states]
        limits = self.observed.limits
        low = limits.low.astype(np.int64)
        if not limits.shape:
            return states + low
        sizes = (limits.high - limits.low + 1.0).astype(np.int64).ravel()
        places = np.stack(np.unravel_index(states, sizes), axis=1)
        return places.reshape(len(states), *limits.shape) + low

    def names(self, states: Ints) -> list[Any]:
        """Return what users call states; an end is called so."""
        return [
            "the end" if state == self.observed.end else self.observations(np.array([state]))[0].tolist()
            for state in states.tolist()
        ]


@dataclass(frozen=True, eq=False)
class Counted:
    """What the first reading of a log gathered.

    Attributes
    ----------
    counts : Counts
    numbering : Numbering
    steps : int
        Transitions that were read.
    cut_short : list of str
        Why reading ended before the end, if it did.
    notes, warnings : list of str
    unit : str
        What the gain is per.
    seconds : list of float
        Spent on waiting for the log, in each reading.
    started : float
        When the first reading began.
    """

    counts: Counts
    numbering: Numbering
    steps: int
    cut_short: list[str]
    notes: list[str]
    warnings: list[str]
    unit: str
    seconds: list[float]
    started: float


class Passing:
    """Passes over a log, with a line on the screen, until its end, Ctrl-C or the time limit."""

    def __init__(self, interruptions: Interruptions, display: Display) -> None:
        self._interruptions, self._display = interruptions, display
        self.steps = 0

    def over(self, steps: Iterator[ObservedSteps], take: Callable[[ObservedSteps], None]) -> list[str]:
        """Take all steps; return why they ended before their end, if they did."""
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
            return [f"cut short after {self.steps:,} transitions: {error}"]
        if self.steps < FEWEST_STEPS:
            raise ValueError(f"an estimate needs at least {FEWEST_STEPS} transitions, found {self.steps}")
        return []

    def _next(self, steps: Iterator[ObservedSteps]) -> ObservedSteps | None:
        try:
            with self._interruptions.waiting():
                return next(steps, None)
        except KeyboardInterrupt:
            raise Interrupted from None


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of a log about other policies.

    Attributes
    ----------
    policies : list of policies
    behaviour : policy or None
        That made the log; if it is known.
    discount : float or None
    confidence : float
    time_limit : float or None
        Seconds. The first reading may take half of them, and the second then takes as long.
    """

    policies: list[Policy]
    behaviour: Policy | None = None
    discount: float | None = None
    confidence: float = 0.95
    time_limit: float | None = None


def evaluate_targets(reading: LogReading, asked: Asked) -> tuple[list[Estimate], BatchMeans | None]:
    """Return an estimate for each policy, and the difference of the gains of the first two at each step."""
    half = None if asked.time_limit is None else asked.time_limit / 2.0
    with Interruptions() as interruptions:
        with Watch(half) as watch:
            first = _counted(reading, asked, Passing(interruptions, Display(watch)))
            models = [_model(first, asked, policy) for policy in asked.policies]
            _check_behaviour(first, asked, reading)
        with Watch() as watch:
            second = Passing(interruptions, Display(watch))
            answers = [_Answer(first, model, asked) for model in models]
            difference = BatchMeans() if len(answers) > 1 else None

            def take(steps: ObservedSteps) -> None:
                numbered = first.numbering(steps)
                terms = [answer.add(numbered) for answer in answers]
                if difference is not None:
                    difference.add(terms[0] - terms[1])

            opened = reading.opened([], [], num_actions=first.counts.num_actions)
            source = Timed(opened.pieces)
            second.over(reading.steps(opened, source, [], first.steps), take)
        first.seconds.append(source.seconds)
    return [answer.estimate() for answer in answers], difference


def _counted(reading: LogReading, asked: Asked, passing: Passing) -> Counted:
    """Read a log for the first time."""
    started = time.perf_counter()
    notes: list[str] = []
    warnings: list[str] = []
    widths = [table_width(policy) for policy in (*asked.policies, asked.behaviour) if policy is not None]
    known = [width for width in widths if width is not None]
    opened = reading.opened(notes, warnings, num_actions=min(known) if known else None)
    actions = opened.actions
    if not opened.has_states:
        raise ValueError("another policy needs states: say which column has them, state=...")
    if actions is None or not actions.whole or actions.shape:
        raise ValueError(
            "actions must be integers from 0, in one column: number other things, for example with "
            "pandas.factorize; for continuous actions pass features=gb.ActionFeatures(...)"
        )
    source = Timed(opened.pieces)
    first, pieces = peeked(source)
    observed = observation_map(opened.limits, reading.features, first.observations, reading.on_termination)
    if not observed.is_tabular or observed.states is None:
        raise ValueError(
            "the answer for another policy needs discrete states, single integers from 0, and no other "
            f"features, found {observed.description}: number the states, for example with pandas.factorize"
        )
    numbering = Numbering(observed)
    sums = PairSums(observed.end + 1, int(actions.high) + 1)
    cut_short = passing.over(reading.steps(opened, pieces, notes), lambda steps: sums.add(numbering(steps)))
    return Counted(
        Counts.of(sums, observed.end),
        numbering,
        passing.steps,
        cut_short,
        notes,
        warnings,
        opened.unit,
        [source.seconds],
        started,
    )


def _model(first: Counted, asked: Asked, policy: Policy) -> _Modelled:
    counts, observed = first.counts, first.numbering.observed
    chances = chances_of(policy, observed.limits, counts.num_actions, "the policy", first.notes)
    target = _probabilities(first, chances)
    model = TableModel(counts, target, _names(first), discount=asked.discount)
    overlap = _overlap(first, model)
    if overlap.missing_share > MOST_MISSING:
        raise NoAnswer(
            f"no support: the policy would spend about {100 * overlap.missing_share:.2g} % of its steps at "
            f"state-actions that the log lacks: {places_in_words(overlap.missing)}. There is no answer from "
            "this log: use one in which these happen, or ask about a policy that leaves them out"
        )
    return _Modelled(model, target, overlap)


@dataclass(frozen=True, eq=False)
class _Modelled:
    """A policy's chain by the counts, its probabilities, and how much the log says about it."""

    model: TableModel
    target: Floats
    overlap: Overlap


def _probabilities(first: Counted, chances: Chances) -> Floats:
    return first.counts.probabilities(lambda states: chances(first.numbering.observations(states)))


def _names(first: Counted) -> Callable[[Ints], list[Any]]:
    return lambda places: first.numbering.names(first.counts.states[places])


def _overlap(first: Counted, model: TableModel) -> Overlap:
    counts, names = first.counts, _names(first)
    lacking = np.argsort(-model.left_out.ravel(), kind="stable")[:5]
    rows, actions = np.unravel_index(lacking[model.left_out.ravel()[lacking] > 0.0], model.left_out.shape)
    missing = [
        Place(name, int(action), float("inf"), 0.0, float(model.left_out[row, action]))
        for name, row, action in zip(names(rows), rows, actions, strict=True)
    ]
    heavy = heaviest_first(np.where(model.shares > 0.0, model.ratio, 0.0))
    largest = [
        Place(
            name,
            int(counts.actions[k]),
            float(model.ratio[k]),
            float(counts.visits[k]),
            float(model.shares[k]),
        )
        for name, k in zip(names(counts.of_pair[heavy]), heavy, strict=True)
    ]
    squares = counts.visits * model.ratio**2
    rare = squares[counts.visits < FEWEST_TO_JUDGE].sum() / squares.sum()
    return Overlap(
        effective_sample_size=kish(model.ratio, counts.visits),
        steps=first.steps,
        largest=tuple(largest),
        missing=tuple(missing),
        missing_share=float(model.left_out.sum()),
        rare_share=float(rare),
    )


def _check_behaviour(first: Counted, asked: Asked, reading: LogReading) -> None:
    """Refuse a behaviour that cannot have made the log, and doubt one that hardly can."""
    if asked.behaviour is None or isinstance(asked.behaviour, str):
        return
    counts = first.counts
    limits = first.numbering.observed.limits
    chances = chances_of(asked.behaviour, limits, counts.num_actions, "the behaviour", first.notes)
    given = _probabilities(first, chances)[counts.of_pair, counts.actions]
    never = np.flatnonzero(given <= 0.0)
    if len(never):
        raise ValueError(_impossible(first, int(never[0]), reading))
    expected = counts.seen[counts.of_pair] * given
    apart = (counts.visits - expected) / np.sqrt(np.maximum(expected * (1.0 - given), 1e-12))
    worst = int(np.argmax(np.abs(apart) * (expected >= FEWEST_EXPECTED)))
    if abs(apart[worst]) > SURE_OF_OTHER and expected[worst] >= FEWEST_EXPECTED:
        [name] = _names(first)(counts.of_pair[[worst]])
        share = counts.visits[worst] / counts.seen[counts.of_pair[worst]]
        first.warnings.append(
            f"the behaviour that was given is hardly the one that made the log: in state {name} it takes "
            f"action {counts.actions[worst]} with probability {given[worst]:.3g}, the log in a share of "
            f"{share:.3g}, {abs(apart[worst]):.0f} standard errors apart. The answer does not use it"
        )


def _impossible(first: Counted, pair: int, reading: LogReading) -> str:
    """Return in words that the behaviour never does what a row of the log says."""
    counts = first.counts
    state, action = counts.states[counts.of_pair[pair]], counts.actions[pair]
    row = -1
    opened = reading.opened([], [], num_actions=counts.num_actions)
    for steps in reading.steps(opened, opened.pieces, [], first.steps):
        numbered = first.numbering(steps)
        [found] = np.nonzero((numbered.here == state) & (numbered.actions == action))
        if len(found):
            row = int(steps.beside["row"][found[0]]) if "row" in steps.beside else -1
            break
    [name] = first.numbering.names(np.array([state]))
    where = f"row {row} of the log" if row >= 0 else "the log"
    return (
        f"{where} takes action {action} in state {name}, which the behaviour never does: it cannot have made "
        "this log. Leave it out: tables do not need it"
    )


class _Answer:
    """The answer for one policy, as the second reading goes on."""

    def __init__(self, first: Counted, modelled: _Modelled, asked: Asked) -> None:
        self._first, self._modelled, self._asked = first, modelled, asked
        self._influence = TableInfluence(modelled.model, first.steps)
        self._means = BatchMeans()
        self._truncated: tuple[TableInfluence, BatchMeans, float] | None = None
        self._truncate()

    def _truncate(self) -> None:
        """Also ask about the policy that leaves out what was seen rarely, if that matters."""
        first, target, model = self._first, self._modelled.target, self._modelled.model
        squares = model.counts.visits * model.ratio**2
        if not squares[model.counts.visits < FEW_VISITS].sum() > UNKNOWN_SHARE * squares.sum():
            return
        try:
            model = TableModel(first.counts, target, _names(first), fewest=FEW_VISITS)
        except NoAnswer:
            return
        share = float(model.left_out.sum())
        if share < 0.5:
            self._truncated = TableInfluence(model, first.steps), BatchMeans(), share

    def add(self, steps: NumberedSteps) -> Floats:
        """Add the next steps, and return their terms."""
        terms = self._influence.add(steps)
        self._means.add(terms)
        if self._truncated is not None:
            self._truncated[1].add(self._truncated[0].add(steps))
        return terms

    def estimate(self) -> Estimate:
        """Return the estimate after all steps."""
        first, asked = self._first, self._asked
        overlap = replace(self._modelled.overlap, terms=self._influence.terms())
        gain = _widened(
            estimate_gain(self._means, asked.confidence, find_warm_up=False), self._influence.widening()
        )
        states, pairs = self._influence.deviations()
        truncated = self._alternative() if overlap.is_weak else None
        model = self._modelled.model
        warnings, notes = left_out_in_words(overlap, model.span(), gain.standard_error)
        warnings += weak_in_words(overlap, truncated)
        learned = self._values(states)
        target = Target(
            model.counts.num_actions,
            overlap,
            self._action_values(pairs),
            model.counts.states[model.counts.of_pair] * model.counts.num_actions + model.counts.actions,
            truncated,
            discount=asked.discount,
        )
        return Estimate(
            gain=gain.gain,
            gain_interval=gain.interval,
            confidence=asked.confidence,
            diagnostics=self._diagnostics(gain, warnings, notes),
            history=gain_history(self._means, asked.confidence),
            observed=first.numbering.observed.settled(),
            learned=learned,
            per=first.unit,
            target=target,
        )

    def _alternative(self) -> Alternative | None:
        if self._truncated is None:
            return None
        influence, means, share = self._truncated
        found = _widened(
            estimate_gain(means, self._asked.confidence, find_warm_up=False), influence.widening()
        )
        words = (
            f"for a policy that leaves out what was seen fewer than {FEW_VISITS} times, "
            f"{100 * share:.2g} % of its steps"
        )
        return Alternative(found.gain, found.interval, words)

    def _values(self, deviations: Floats) -> ValueEstimate:
        model, width = self._modelled.model, self._first.numbering.observed.num_features
        counts = model.counts
        places = counts.states[model.kept]
        weights, gram = np.zeros(width), np.zeros(width)
        spread = np.zeros((len(deviations), width))
        weights[places] = model.state_values
        spread[:, places] = deviations
        # The visits that the data are worth at a state, of the actions that the target takes there.
        shares = np.bincount(
            counts.of_pair, model.support.chances**2 / counts.visits, minlength=len(counts.states)
        )
        gram[places] = 1.0 / np.maximum(shares[model.kept], 1e-300)
        return self._estimated(weights, spread, gram)

    def _action_values(self, deviations: Floats) -> ValueEstimate:
        model = self._modelled.model
        return self._estimated(model.pair_values, deviations, model.counts.visits)

    def _estimated(self, weights: Floats, deviations: Floats, gram: Floats) -> ValueEstimate:
        return ValueEstimate(
            weights=weights,
            offset=0.0,
            confidence=self._asked.confidence,
            effective_sample_size=self._modelled.overlap.effective_sample_size,
            weight_deviations=deviations,
            offset_deviations=np.zeros(len(deviations)),
            gram=gram,
            warnings=(),
        )

    def _diagnostics(self, gain: GainEstimate, warnings: list[str], notes: list[str]) -> Diagnostics:
        first, model = self._first, self._modelled.model
        counts = model.counts
        said = [
            "the answer is for the policy that was asked about, from the log of another one",
            *first.notes,
            *gain.notes,
            *notes,
        ]
        of_gain = (*first.cut_short, *gain.warnings, *first.warnings, *warnings)
        again = model.poisson.solve(model.relative)  # the values' own Poisson equation
        variance = float(model.law @ model.relative**2)
        memory = 2.0 * float((model.law * model.relative) @ again) / variance - 1.0 if variance else 1.0
        lasted = float(counts.visits @ counts.durations)
        return Diagnostics(
            algorithm=(
                f"the target's chain by the transitions of the log, {len(counts.states):,} states and "
                f"{len(counts.visits):,} state-actions, solved exactly"
            ),
            is_complete=not first.cut_short,
            num_chains=1,
            num_transitions=gain.num_steps,
            transient=0,
            effective_sample_size=gain.effective_sample_size,
            autocorrelation_time=gain.autocorrelation_time,
            standard_error=gain.standard_error,
            r_hat=gain.r_hat,
            degrees=gain.degrees,
            value_batches=self._influence.num_batches,
            verdict=gain.verdict,
            value_effective_sample_size=self._modelled.overlap.effective_sample_size,
            mixing_time=max(1.0, memory),
            eta=None,
            constant_in_span=True,
            predictable_share=0.0,
            source_seconds=sum(first.seconds),
            library_seconds=max(0.0, time.perf_counter() - first.started - sum(first.seconds)),
            notes=tuple(said),
            warnings=of_gain,
            gain_warnings=of_gain,
            duration=lasted if first.unit != STEP else None,
        )


def _widened(gain: GainEstimate, factor: float) -> GainEstimate:
    """Return an estimate whose interval and standard error are larger by a factor."""
    low, high = (gain.gain + factor * (end - gain.gain) for end in gain.interval)
    return replace(gain, interval=(low, high), standard_error=factor * gain.standard_error)


def check_question(
    log: Any, action: str | None, learning: Learning, clock: str | None, discount: float | None
) -> None:
    """Refuse a question about another policy that has no answer."""
    if action is None and not hasattr(log, "iterate_episodes"):
        raise ValueError(
            "policy is another policy than the one that made the log, and what that one did must be known: "
            "say which column has the actions, action=..."
        )
    if learning.algorithm != "auto":
        raise ValueError("algorithm is for the policy that made the log: leave it out, or leave out policy")
    if discount is None:
        return
    if not (isinstance(discount, Real) and 0.0 <= discount < 1.0):
        raise ValueError(f"discount must be at least 0 and below 1, found {discount!r}")
    if clock is not None:
        raise ValueError("discount is per row, and rows last for different times: leave out one of them")


def refuse_unasked(**arguments: Any) -> None:
    """Refuse arguments that are for another policy where none is asked about."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{name} is for another policy than the one that made the log: say which, policy=..., or "
                f"leave out {name}"
            )
