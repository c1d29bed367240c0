"""The answer from counts: the result of `tables` as an `Estimate`.

Start with `Counting`, which takes the steps of the first reading; `CountedAnswer` takes those of the second.

`AloneAnswer` has simpler methods, for comparison. Their intervals are wider than those of the default, or do
not hold (`benchmarks/another_policy.py`):

- *Model*: the gain of the policy's chain by the counts, with a standard error as if the steps from each
  state-action were independent draws (the delta method).
- *Ratio*: the mean of w (r - g t), with the ratio w of the shares of state-actions as if it were known.
- *Importance sampling*: the reward of each step weighted by the product of pi(a | s) / b(a | s) over the
  steps before it, over as many steps as leave the weights worth at least the share `SHARE_WORTH` of equal
  weights; if no behaviour b is given, it is replaced by the frequencies of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import stats

from gainbias.evaluation.another.chances import Chances, chances_of
from gainbias.evaluation.another.passes import SURE_OF_OTHER, Asked, FirstReading, LogReading, diagnosed
from gainbias.evaluation.another.record import (
    FEW_VISITS,
    FEWEST_TO_JUDGE,
    MOST_MISSING,
    THE_END,
    UNKNOWN_SHARE,
    Alternative,
    NoAnswer,
    Overlap,
    Place,
    Target,
    assumed_part,
    heaviest_first,
    kish,
    left_out_in_words,
    percent,
    places_in_words,
    rare_in_words,
    weak_in_words,
    widened,
    worth_of,
)
from gainbias.evaluation.another.tables import (
    Counts,
    NumberedSteps,
    PairSums,
    TableInfluence,
    TableModel,
)
from gainbias.evaluation.estimate import Estimate, History, gain_history
from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.sources.policies import Policy
from gainbias.evaluation.stream import ObservedSteps
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.types import Floats, Ints

Alone: TypeAlias = Literal["model", "ratio", "importance-sampling"]
"""Methods that can be chosen by name."""

LONGEST_PRODUCT = 64
"""Most steps over which ratios of probabilities are multiplied."""

SHARE_WORTH = 0.05
"""Products are taken over fewer steps if they are worth a smaller share of the steps than this."""

HORIZONS = (1, 2, 4, 8, 16, 32, LONGEST_PRODUCT)
"""Numbers of steps over which products are tried."""

FEWEST_EXPECTED = 10.0
"""Expected visits of a behaviour from which its frequencies are compared with those of the log."""


class Numbering:
    """Numbers of states and actions, and their names for users.

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
        """Return the observations of states that are not ends, (m, ...)."""
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
        """Return the names of states for users, including the end."""
        return [
            THE_END if state == self.observed.end else self.observations(np.array([state]))[0].tolist()
            for state in states.tolist()
        ]


class Counting:
    """Counts the steps of the first reading.

    Parameters
    ----------
    observed : ObservationMap
        With a state for each observation.
    num_actions : int
    """

    def __init__(self, observed: ObservationMap, num_actions: int) -> None:
        self._numbering = Numbering(observed)
        self._sums = PairSums(observed.end + 1, num_actions)

    def add(self, steps: ObservedSteps) -> None:
        """Count the next steps."""
        self._sums.add(self._numbering(steps))

    def answers(self, first: FirstReading, asked: Asked, reading: LogReading) -> list[CountedAnswer]:
        """Return the answer in progress for each policy, after the first reading.

        Raises
        ------
        NoAnswer
            If the log cannot answer.
        """
        counted = Counted(first, Counts.of(self._sums, first.observed.end), self._numbering)
        models = [_model(counted, asked, policy) for policy in asked.policies]
        behaviour = _check_behaviour(counted, asked, reading)
        return [CountedAnswer(counted, model, asked, behaviour) for model in models]


@dataclass(frozen=True, eq=False)
class Counted:
    """The counts from the first reading of a log."""

    first: FirstReading
    counts: Counts
    numbering: Numbering


def _model(counted: Counted, asked: Asked, policy: Policy) -> _Modelled:
    counts, observed = counted.counts, counted.numbering.observed
    chances = chances_of(policy, observed.limits, counts.num_actions, "the policy", counted.first.notes)
    target = _probabilities(counted, chances)
    model = TableModel(counts, target, _names(counted), discount=asked.discount)
    overlap = _overlap(counted, model)
    if overlap.missing_share > MOST_MISSING:
        raise NoAnswer(
            f"no support: the policy would spend about {percent(overlap.missing_share)}% of its steps at "
            f"state-actions that the log lacks: {places_in_words(overlap.missing)}. This log gives no "
            "answer: use one in which these occur, or ask about a policy that avoids them"
        )
    return _Modelled(model, target, overlap)


@dataclass(frozen=True, eq=False)
class _Modelled:
    """A policy's chain by the counts, its probabilities, and how much the log tells about it."""

    model: TableModel
    target: Floats
    overlap: Overlap


def _probabilities(counted: Counted, chances: Chances) -> Floats:
    return counted.counts.probabilities(lambda states: chances(counted.numbering.observations(states)))


def _names(counted: Counted) -> Callable[[Ints], list[Any]]:
    return lambda places: counted.numbering.names(counted.counts.states[places])


def _overlap(counted: Counted, model: TableModel) -> Overlap:
    counts, names = counted.counts, _names(counted)
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
        steps=counted.first.steps,
        largest=tuple(largest),
        missing=tuple(missing),
        missing_share=float(model.left_out.sum()),
        rare_share=float(rare),
    )


def _check_behaviour(counted: Counted, asked: Asked, reading: LogReading) -> Floats:
    """Return the probabilities of the behaviour; one that cannot have made the log is refused, or doubted.

    Without a behaviour these are the frequencies of the log.
    """
    counts = counted.counts
    if asked.behaviour is None:
        return counts.frequencies()
    limits = counted.numbering.observed.limits
    chances = chances_of(asked.behaviour, limits, counts.num_actions, "the behaviour", counted.first.notes)
    probabilities = _probabilities(counted, chances)
    given = probabilities[counts.of_pair, counts.actions]
    never = np.flatnonzero(given <= 0.0)
    if len(never):
        raise ValueError(_impossible(counted, int(never[0]), reading))
    expected = counts.seen[counts.of_pair] * given
    apart = (counts.visits - expected) / np.sqrt(np.maximum(expected * (1.0 - given), 1e-12))
    worst = int(np.argmax(np.abs(apart) * (expected >= FEWEST_EXPECTED)))
    if abs(apart[worst]) > SURE_OF_OTHER and expected[worst] >= FEWEST_EXPECTED:
        [name] = _names(counted)(counts.of_pair[[worst]])
        share = counts.visits[worst] / counts.seen[counts.of_pair[worst]]
        counted.first.warnings.append(
            f"the given behaviour is hardly the one that made the log: in state {name} it takes "
            f"action {counts.actions[worst]} with probability {given[worst]:.3g}, the log in a share of "
            f"{share:.3g}, {abs(apart[worst]):.0f} standard errors apart. The answer does not use it"
        )
    return probabilities


def _impossible(counted: Counted, pair: int, reading: LogReading) -> str:
    """Return the message that the behaviour never takes an action that is in the log."""
    counts = counted.counts
    state, action = counts.states[counts.of_pair[pair]], counts.actions[pair]
    row = -1
    opened = reading.opened([], [], num_actions=counts.num_actions)
    for steps in reading.steps(opened, opened.pieces, [], counted.first.steps):
        numbered = counted.numbering(steps)
        [found] = np.nonzero((numbered.here == state) & (numbered.actions == action))
        if len(found):
            row = int(steps.beside["row"][found[0]]) if "row" in steps.beside else -1
            break
    [name] = counted.numbering.names(np.array([state]))
    where = f"row {row} of the log" if row >= 0 else "the log"
    return (
        f"{where} takes action {action} in state {name}, which the behaviour never does: it cannot have made "
        "this log. Leave it out: tables do not need it"
    )


class CountedAnswer:
    """The answer for one policy, as the second reading goes on."""

    def __init__(self, counted: Counted, modelled: _Modelled, asked: Asked, behaviour: Floats) -> None:
        self._counted, self._modelled, self._asked = counted, modelled, asked
        self._influence = TableInfluence(modelled.model, counted.first.steps)
        self._means, self._weights = BatchMeans(), BatchMeans()
        self._truncated: tuple[TableInfluence, BatchMeans, float] | None = None
        self._alone: AloneAnswer | None = None
        if asked.method != "auto":
            self._alone = AloneAnswer(asked.method, modelled.model, self._influence, behaviour)
        self._truncate()

    def _truncate(self) -> None:
        """Also evaluate the policy without rarely seen actions, if that matters."""
        counted, target, model = self._counted, self._modelled.target, self._modelled.model
        squares = model.counts.visits * model.ratio**2
        if not squares[model.counts.visits < FEW_VISITS].sum() > UNKNOWN_SHARE * squares.sum():
            return
        try:
            model = TableModel(counted.counts, target, _names(counted), fewest=FEW_VISITS)
        except NoAnswer:
            return
        share = float(model.left_out.sum())
        if share < 0.5:
            self._truncated = TableInfluence(model, counted.first.steps), BatchMeans(), share

    def add(self, observed: ObservedSteps) -> Floats:
        """Add the next steps, and return their terms."""
        steps = self._counted.numbering(observed)
        terms = self._influence.add(steps)
        self._means.add(terms)
        self._weights.add(self._modelled.model.ratio[self._influence.pairs_of(steps)])
        if self._truncated is not None:
            self._truncated[1].add(self._truncated[0].add(steps))
        if self._alone is not None:
            self._alone.add(steps, observed.segments)
        return terms

    def widening(self) -> float:
        """Return the factor by which errors are larger than the terms suggest."""
        return self._influence.widening()

    def unknown_error(self) -> float:
        """Return how far the gain may be off beyond its noise: by what was left out."""
        return self._modelled.model.left_out_error()

    @property
    def unweighted(self) -> BatchMeans:
        """The errors at each step before they are multiplied by the ratio, whose largest value is known."""
        return self._influence.residuals

    def estimate(self) -> Estimate:
        """Return the estimate after all steps."""
        first, model, influence = self._counted.first, self._modelled.model, self._influence
        gain, assumed, method = self._gain()
        overlap = replace(
            self._modelled.overlap,
            worth=worth_of(self._weights),
            assumed_share=assumed,
        )
        states, pairs = influence.deviations()
        truncated = self._alternative() if overlap.is_weak else None
        warnings, notes = left_out_in_words(overlap, self.unknown_error())
        return Estimate(
            gain=gain.gain,
            gain_interval=gain.interval,
            confidence=self._asked.confidence,
            diagnostics=diagnosed(
                first,
                gain,
                warnings + weak_in_words(overlap, truncated),
                notes,
                rare_in_words(overlap),
                algorithm=method,
                value_batches=influence.num_batches,
                value_effective_sample_size=overlap.effective_sample_size,
                mixing_time=model.memory(),
                constant_in_span=True,
                predictable_share=0.0,
            ),
            history=History.made_later(partial(gain_history, self._means, self._asked.confidence)),
            observed=first.observed.settled(),
            learned=self._values(states),
            per=first.unit,
            target=self._target(overlap, pairs, truncated),
        )

    def _gain(self) -> tuple[GainEstimate, float, str]:
        """Return the gain by the chosen method, the assumed part of its variance, and the method."""
        counts, confidence = self._modelled.model.counts, self._asked.confidence
        found = estimate_gain(self._means, confidence, find_warm_up=False, unweighted=self.unweighted)
        gain = widened(found, self.widening(), self.unknown_error())
        assumed = assumed_part(found, gain)
        if self._alone is None:
            return (
                gain,
                assumed,
                (
                    f"the policy's chain by the transitions of the log, {len(counts.states):,} states and "
                    f"{len(counts.visits):,} state-actions, solved exactly"
                ),
            )
        middle, interval, error, method = self._alone.answer(confidence)
        return replace(gain, gain=middle, interval=interval, standard_error=error), assumed, method

    def _target(self, overlap: Overlap, deviations: Floats, truncated: Alternative | None) -> Target:
        counts = self._modelled.model.counts
        return Target(
            counts.num_actions,
            overlap,
            self._action_values(deviations),
            counts.states[counts.of_pair] * counts.num_actions + counts.actions,
            truncated,
            discount=self._asked.discount,
        )

    def _alternative(self) -> Alternative | None:
        if self._truncated is None:
            return None
        influence, means, share = self._truncated
        found = widened(
            estimate_gain(means, self._asked.confidence, find_warm_up=False), influence.widening()
        )
        words = (
            f"for a policy that leaves out what was seen fewer than {FEW_VISITS} times, "
            f"{percent(share)}% of its steps"
        )
        return Alternative(found.gain, found.interval, words)

    def _values(self, deviations: Floats) -> ValueEstimate:
        model, width = self._modelled.model, self._counted.numbering.observed.num_features
        counts = model.counts
        places = counts.states[model.kept]
        weights, gram = np.zeros(width), np.zeros(width)
        spread = np.zeros((len(deviations), width))
        weights[places] = model.state_values
        spread[:, places] = deviations
        # The visits that the data are worth at a state, for the actions that the target takes there.
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


class Products:
    """The weights of per-step importance sampling, over several numbers of steps at once.

    Attributes
    ----------
    means : list of RatioMeans
        Weighted rewards and durations, for each number of steps.
    sums : list of (2,) arrays
        Sums of weights and of their squares.

    Examples
    --------
    >>> products = Products()
    >>> products.add(np.array([2.0, 1.0, 3.0]), np.zeros(3, dtype=np.int64), np.ones(3), np.ones(3))
    >>> products.sums[1].tolist()  # products of up to two: 2, 2 and 3
    [7.0, 17.0]
    """

    def __init__(self) -> None:
        self.means = [RatioMeans() for _ in HORIZONS]
        self.sums = [np.zeros(2) for _ in HORIZONS]
        self._before: tuple[Floats, Ints] = (np.empty(0), np.empty(0, dtype=np.int64))

    def add(self, ratios: Floats, segments: Ints, rewards: Floats, durations: Floats) -> None:
        """Add the next steps, with the ratio of probabilities of the action at each."""
        kept = len(self._before[0])
        products = np.concatenate([self._before[0], ratios])
        segments = np.concatenate([self._before[1], segments])
        self._before = products[-LONGEST_PRODUCT:], segments[-LONGEST_PRODUCT:]
        for number, horizon in enumerate(HORIZONS):
            if number:
                products = _doubled(products, segments, horizon // 2)
            own = products[kept:]
            self.means[number].add(own * rewards, own * durations)
            self.sums[number] += own.sum(), float(own @ own)

    def chosen(self) -> int:
        """Return the index of the longest product whose weights are worth enough; or of the shortest."""
        worth = [total**2 / squares if squares > 0.0 else 0.0 for total, squares in self.sums]
        enough = [place for place, one in enumerate(worth) if one >= SHARE_WORTH * self.means[0].steps]
        return max(enough, default=0)


def _doubled(products: Floats, segments: Ints, lag: int) -> Floats:
    """Return products over twice as many steps, which do not reach back across a cut."""
    longer = products.copy()
    same = segments[lag:] == segments[:-lag]
    longer[lag:][same] *= products[:-lag][same]
    return longer


class AloneAnswer:
    """The answer of one of these methods, as the second reading goes on.

    Parameters
    ----------
    method : {"model", "ratio", "importance-sampling"}
    model : TableModel
    influence : TableInfluence
        It has taken the steps as well.
    behaviour : (n, A) array
        Probabilities of the actions of the log.
    """

    def __init__(self, method: str, model: TableModel, influence: TableInfluence, behaviour: Floats) -> None:
        counts = model.counts
        self._method, self._model, self._influence = method, model, influence
        taken = behaviour[counts.of_pair, counts.actions]
        self._ratios = np.divide(model.support.chances, taken, where=taken > 0.0, out=np.zeros(len(taken)))
        self._weighed, self._products = RatioMeans(), Products()

    def add(self, steps: NumberedSteps, segments: Ints) -> None:
        """Add the next steps."""
        pair = self._influence.pairs_of(steps)
        if self._method == "ratio":
            weights = self._model.ratio[pair]
            self._weighed.add(weights * steps.rewards, weights * steps.durations)
        elif self._method == "importance-sampling":
            self._products.add(self._ratios[pair], segments, steps.rewards, steps.durations)

    def answer(self, confidence: float) -> tuple[float, tuple[float, float], float, str]:
        """Return the gain, its interval, its standard error and the method in words."""
        if self._method == "model":
            error = self._influence.independent_error()
            half = error * float(stats.norm.ppf((1.0 + confidence) / 2.0))
            gain = self._model.gain
            return (
                gain,
                (gain - half, gain + half),
                error,
                "the model alone, as if steps were independent",
            )
        if self._method == "ratio":
            found = estimate_gain(self._weighed, confidence, find_warm_up=False)
            return found.gain, found.interval, found.standard_error, "the ratio alone, as if it were known"
        place = self._products.chosen()
        total, squares = self._products.sums[place]
        if not total > 0.0:
            nan = float("nan")
            return nan, (nan, nan), nan, "importance sampling: all weights are 0"
        found = estimate_gain(self._products.means[place], confidence, find_warm_up=False)
        words = f"per-step importance sampling over {HORIZONS[place]} steps, worth {total**2 / squares:,.0f}"
        return found.gain, found.interval, found.standard_error, words
