"""The answer by features: what `linear` finds, as an `Estimate`.

`Fitting` takes the steps of the first reading, and `LinearAnswer` those of the second. `Disagreement` asks
whether richer features would move the answer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from gainbias.evaluation.another.chances import Chances, PairFeatures
from gainbias.evaluation.another.linear import (
    LinearInfluence,
    LinearModel,
    LinearSums,
    both_rows,
    durations_of,
    pieces_of,
    rows_of_steps,
)
from gainbias.evaluation.another.passes import Asked, FirstReading, LogReading, diagnosed, part_of
from gainbias.evaluation.another.record import (
    MOST_MISSING,
    SHOWN_PLACES,
    Alternative,
    NoAnswer,
    Overlap,
    Place,
    Target,
    assumed_part,
    heaviest_first,
    left_out_in_words,
    percent,
    weak_in_words,
    widened,
    worth_of,
)
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.estimate import Estimate, History, gain_history
from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import ObservedSteps
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.types import Floats

CLIPPED_AT = 4.0
"""Weights of the truncated answer are cut at the square root of the number of steps divided by this."""

KEPT_FOR_CHECK, CHECK_BLOCKS = 50_000, 32
"""Steps on which to test what features do not express, and the number of blocks of these."""

FEWEST_FOR_CHECK = 1_000
"""With fewer steps, no conclusion about features is drawn."""

SURE_OF_MOVE = 2.75
"""Standard errors by which richer features must move the gain: 1% of Student's law with 31 degrees."""

MOVE_WORTH_WARNING = 1.0
"""And the standard errors of the gain by which they must move it."""


class Fitting:
    """Sums up the steps of the first reading for each policy.

    Parameters
    ----------
    values, ratio : list of PairFeatures
        Features of values and of the ratio, for each policy; the same object if they are the same.
    num_actions : int
        0 if actions are continuous.
    behaviour : Chances or None
        The policy that made the log, if it is known.
    """

    def __init__(
        self,
        values: list[PairFeatures],
        ratio: list[PairFeatures],
        num_actions: int,
        behaviour: Chances | None,
    ) -> None:
        self._values, self._ratio, self._behaviour = values, ratio, behaviour
        self._num_actions = num_actions
        self._sums: list[LinearSums | None] = [None] * len(values)
        self._taken = np.zeros(num_actions)
        self._wanted: list[Floats] = [np.zeros(num_actions) for _ in values]
        self._shared = np.zeros(len(values))

    def add(self, steps: ObservedSteps) -> None:
        """Sum up the next steps."""
        for piece in pieces_of(steps):
            self._check_behaviour(piece)
            lasted = durations_of(piece)
            for number, (values, ratio) in enumerate(zip(self._values, self._ratio, strict=True)):
                phi, psi = both_rows(values, ratio, piece)
                self._sums[number] = LinearSums.of(phi, psi, piece.rewards, lasted).plus(self._sums[number])
            self._count(piece)

    def answers(self, first: FirstReading, asked: Asked, reading: LogReading) -> list[LinearAnswer]:
        """Return what answers for each policy, after the first reading."""
        made = []
        for number, sums in enumerate(self._sums):
            missing = self._missing(number)
            if missing:
                sums = self._without(number, missing, first, reading)
            assert sums is not None
            model = LinearModel(sums, asked.discount)
            made.append(LinearAnswer(first, model, self._values[number], self._ratio[number], asked, missing))
        return made

    def _without(
        self, number: int, missing: tuple[Place, ...], first: FirstReading, reading: LogReading
    ) -> LinearSums | None:
        """Return a new answer for a policy that leaves out some actions."""
        values, ratio, sums = self._values[number], self._ratio[number], None
        assert values.chances is not None
        values.chances.leave_out([place.action for place in missing])
        opened = reading.opened([], [], num_actions=self._num_actions)
        for steps in reading.steps(opened, opened.pieces, [], first.steps):
            for piece in pieces_of(steps):
                phi, psi = both_rows(values, ratio, piece)
                sums = LinearSums.of(phi, psi, piece.rewards, durations_of(piece)).plus(sums)
        return sums

    def _count(self, steps: ObservedSteps) -> None:
        if not self._num_actions:
            return
        inside = steps.here < len(steps.observations)
        here, done = steps.here[inside], steps.beside["action"][inside].astype(np.int64)
        self._taken += np.bincount(done, minlength=self._num_actions)
        for number, values in enumerate(self._values):
            if values.chances is None:
                continue
            chances = values.chances(steps.observations)
            self._shared[number] += chances[here, done].sum()
            total = chances.sum(axis=0)
            before = self._wanted[number]
            self._wanted[number] = np.pad(before, (0, max(0, len(total) - len(before))))
            self._wanted[number][: len(total)] += total

    def _missing(self, number: int) -> tuple[Place, ...]:
        """Return the actions that the policy takes and the log lacks; refuse if there are many."""
        wanted = self._wanted[number]
        if not wanted.sum() > 0.0:
            return ()
        if not self._shared[number] > 0.0:
            raise NoAnswer(
                "no support: in no row of the log was done what the policy may do there. There is no answer "
                "from this log: use one in which the same is done now and then"
            )
        taken = np.pad(self._taken, (0, len(wanted) - len(self._taken)))
        shares = np.where(taken == 0.0, wanted, 0.0) / wanted.sum()
        missing = tuple(
            Place(None, int(action), float("inf"), 0.0, float(shares[action]))
            for action in np.flatnonzero(shares)
        )
        if shares.sum() > MOST_MISSING:
            lacking = ", ".join(str(place.action) for place in missing)
            raise NoAnswer(
                "no support: where the log was, the policy takes actions that the log lacks, with "
                f"probability {shares.sum():.2g}: {lacking}. This log gives no answer: use one in which "
                "they occur, or ask about a policy that avoids them"
            )
        return missing

    def _check_behaviour(self, steps: ObservedSteps) -> None:
        if self._behaviour is None:
            return
        inside = steps.here < len(steps.observations)
        chances = self._behaviour(steps.observations[steps.here[inside]])
        actions = steps.beside["action"][inside].astype(np.int64)
        [never] = np.nonzero(chances[np.arange(len(actions)), actions] <= 0.0)
        if len(never):
            row = steps.beside["row"][inside][never[0]] if "row" in steps.beside else never[0]
            raise ValueError(
                f"row {row} of the log takes action {actions[never[0]]}, which the behaviour never does "
                "there: it cannot have made this log. Leave it out: the answer does not need it"
            )


class LinearAnswer:
    """The answer for one policy, as the second reading goes on."""

    def __init__(
        self,
        first: FirstReading,
        model: LinearModel,
        values: PairFeatures,
        ratio: PairFeatures,
        asked: Asked,
        missing: tuple[Place, ...],
    ) -> None:
        self._first, self._model, self._asked, self._missing = first, model, asked, missing
        self._values, self._ratio = values, ratio
        self._influence = LinearInfluence(model, first.steps)
        self._means, self._weights, self._clipped = BatchMeans(), BatchMeans(), RatioMeans()
        self._residuals = BatchMeans()
        self._most = float(np.sqrt(first.steps)) / CLIPPED_AT
        self._cut = 0.0
        self._alone: BatchMeans | RatioMeans | None = None
        if asked.method == "importance-sampling":
            raise ValueError("importance sampling is for states that are counted: leave out features")
        if asked.method != "auto":
            self._alone = BatchMeans() if asked.method == "model" else RatioMeans()
        self._heaviest: list[Place] = []
        self._check = Disagreement(values, ratio, first.steps)

    def add(self, steps: ObservedSteps) -> Floats:
        """Add the next steps, and return their terms."""
        return np.concatenate([self._add(piece) for piece in pieces_of(steps)])

    def _add(self, steps: ObservedSteps) -> Floats:
        model, lasted = self._model, durations_of(steps)
        phi, psi = both_rows(self._values, self._ratio, steps)
        terms, weights = self._influence.add(phi, psi, steps.rewards, lasted)
        self._means.add(terms)
        self._weights.add(weights)
        if isinstance(self._alone, RatioMeans):
            self._alone.add(weights * steps.rewards, weights * lasted)
        elif self._alone is not None:
            self._alone.add(self._influence.by_values_alone(phi, steps.rewards, lasted))
        led = steps.rewards + (phi.after - phi.done) @ model.values
        self._residuals.add(led - model.gain * lasted)
        kept = np.minimum(weights, self._most)
        self._cut += float((weights - kept).sum())
        self._clipped.add(kept * led, kept * lasted)
        self._note_heaviest(steps, weights)
        self._check.add(steps, terms)
        return terms

    def _note_heaviest(self, steps: ObservedSteps, weights: Floats) -> None:
        inside = np.flatnonzero(steps.here < len(steps.observations))
        for k in inside[heaviest_first(weights[inside])]:
            seen, action = steps.observations[steps.here[k]], steps.beside["action"][k]
            place = Place(seen.tolist(), action.item(), float(weights[k]), 1.0, float(weights[k]))
            self._heaviest.append(replace(place, share=place.share / self._first.steps))
        self._heaviest = sorted(self._heaviest, key=lambda place: -place.weight)[:SHOWN_PLACES]

    def widening(self) -> float:
        """Return by how much errors are larger than the terms say."""
        return 1.0

    def left_out_error(self) -> float:
        """Return how far the gain may be moved by what was left out.

        The value of a missing action is taken to be as far from the value of its state as actions in the log
        are.
        """
        apart = np.sqrt(self._influence.apart / self._first.steps) / self._model.mean_duration
        return float(apart) * sum(place.share for place in self._missing)

    @cached_property
    def _moved(self) -> Moved:
        return self._check.found()

    def unknown_error(self) -> float:
        """Return how far the gain may be off beyond its noise: by what was left out, and by the features."""
        return float(np.hypot(self.left_out_error(), self._moved.unexpressed))

    @property
    def unweighted(self) -> BatchMeans:
        """The residuals of values, before they are multiplied by the ratio: overlap is judged separately."""
        return self._residuals

    def estimate(self) -> Estimate:
        """Return the estimate after all steps."""
        first, asked, influence = self._first, self._asked, self._influence
        means = self._means if self._alone is None else self._alone
        found = estimate_gain(means, asked.confidence, find_warm_up=False, unweighted=self.unweighted)
        gain = widened(found, self.widening(), self.unknown_error())
        overlap = Overlap(
            influence.effective_sample_size(),
            first.steps,
            tuple(self._heaviest),
            self._missing,
            float(sum(place.share for place in self._missing)),
            worth=worth_of(self._weights),
            assumed_share=assumed_part(found, widened(found, self.widening(), self.left_out_error())),
        )
        truncated = self._truncated() if overlap.is_weak else None
        warnings, notes = left_out_in_words(overlap, self.left_out_error())
        warnings += weak_in_words(overlap, truncated)
        warnings += disagreement_in_words(self._moved, found.standard_error)
        learned = self._learned(overlap)
        rows = self._values.rows
        return Estimate(
            gain=gain.gain,
            gain_interval=gain.interval,
            confidence=asked.confidence,
            diagnostics=self._diagnostics(gain, overlap, warnings, notes),
            history=History.made_later(partial(gain_history, self._means, asked.confidence)),
            observed=self._observed(),
            learned=learned,
            per=first.unit,
            target=Target(
                first.num_actions, overlap, learned, None, truncated, self._moved.errors, asked.discount, rows
            ),
        )

    def _learned(self, overlap: Overlap) -> ValueEstimate:
        deviations, offset, offsets = self._influence.deviations()
        return ValueEstimate(
            weights=self._model.shown,
            offset=offset,
            confidence=self._asked.confidence,
            effective_sample_size=overlap.effective_sample_size,
            weight_deviations=deviations,
            offset_deviations=offsets,
            gram=self._model.sums.gram,
            warnings=(),
        )

    def _observed(self) -> ObservationMap:
        """Return the map from observations to the expected features under the policy."""
        expected = self._values.expected
        words, width = self._values.description, len(self._model.values)
        return ObservationMap(words, width, self._first.observed.limits, expected, rows=expected)

    def _diagnostics(
        self, gain: GainEstimate, overlap: Overlap, warnings: list[str], notes: list[str]
    ) -> Diagnostics:
        model = self._model
        alone = {"auto": "combined", "model": "the first alone", "ratio": "the second alone"}
        both = (
            f"the gain by the values alone is {model.of_values:.5g}, by the ratio alone {model.of_ratio:.5g}"
        )
        return diagnosed(
            self._first,
            gain,
            warnings,
            [both, *notes],
            algorithm=(
                f"average-reward least squares for the policy's action values, {len(model.values)} features, "
                f"and a linear model of the density ratio, {len(model.ratio)} features: "
                f"{alone[self._asked.method]}"
            ),
            value_batches=self._influence.num_batches,
            value_effective_sample_size=overlap.effective_sample_size,
            mixing_time=float("nan"),
            constant_in_span=True,
            predictable_share=float("nan"),
        )

    def _truncated(self) -> Alternative:
        found = estimate_gain(self._clipped, self._asked.confidence, find_warm_up=False)
        words = (
            f"with weights cut at {self._most:.3g}, which takes {percent(self._cut / self._first.steps)}% "
            "of their sum and leaves that to the model of the values"
        )
        return Alternative(found.gain, found.interval, words)


class Moved(NamedTuple):
    """By how much richer features would move a gain, and the standard error of that."""

    shift: float = 0.0
    error: float = 0.0

    @property
    def errors(self) -> float:
        """The same in standard errors."""
        return abs(self.shift) / self.error if self.error > 0.0 else 0.0

    @property
    def unexpressed(self) -> float:
        """The root of what is expected to remain of its square without noise."""
        return float(np.sqrt(max(0.0, self.shift**2 - self.error**2)))


class Disagreement:
    """Tests on a part of the log whether richer features would move the answer.

    The same answer is computed again with richer features of both models. If the features express what
    they should, both answers differ only by noise, whose size follows from the terms of both at each step,
    which share most of it (Hausman 1978). If they do not, the richer ones find the missing part.

    If actions are continuous and the expectation of richer features is unknown, nothing is found.

    Parameters
    ----------
    values, ratio : PairFeatures
        The features of both models.
    steps : int
        Steps of the log in all; about `KEPT_FOR_CHECK` of them are used, in `CHECK_BLOCKS` blocks.
    """

    def __init__(self, values: PairFeatures, ratio: PairFeatures, steps: int) -> None:
        self._values, self._ratio, self._share = values, ratio, min(1.0, KEPT_FOR_CHECK / steps)
        self._kept: list[tuple[ObservedSteps, Floats]] = []

    def add(self, steps: ObservedSteps, terms: Floats) -> None:
        """Keep a part of the next steps, with their terms."""
        rows = np.arange(int(np.ceil(self._share * len(terms))))  # copied: views would keep the whole part
        for piece in pieces_of(part_of(steps, rows)):  # with only their own observations
            self._kept.append((replace(piece, observations=piece.observations.copy()), terms[rows]))

    def found(self) -> Moved:
        """Return by how much richer features would move the gain."""
        total = sum(len(terms) for _, terms in self._kept)
        if total < FEWEST_FOR_CHECK:
            return Moved()
        richer = self._values.richer(self._ratio, [kept.observations for kept, _ in self._kept], total)
        if richer is None:
            return Moved()
        sums: LinearSums | None = None
        for kept, _ in self._kept:
            rows = rows_of_steps(richer, kept)
            sums = LinearSums.of(rows, rows, kept.rewards, durations_of(kept)).plus(sums)
        assert sums is not None
        model = LinearModel(sums)
        influence = model.influence(total)
        moved = []
        for kept, terms in self._kept:
            rows = rows_of_steps(richer, kept)
            moved.append(influence.add(rows, rows, kept.rewards, durations_of(kept))[0] - terms)
        apart = np.concatenate(moved)
        block = np.arange(total) * CHECK_BLOCKS // total
        means = np.bincount(block, apart) / np.bincount(block)
        error = float(means.std(ddof=1) / np.sqrt(CHECK_BLOCKS))
        return Moved(float(apart.mean()), error)


def disagreement_in_words(moved: Moved, error: float) -> list[str]:
    """Return a warning if richer features would move the gain surely, and by more than its standard error."""
    if moved.errors < SURE_OF_MOVE or not abs(moved.shift) > MOVE_WORTH_WARNING * error:
        return []
    return [
        "the features do not express what they should: richer ones would move the gain by "
        f"{moved.shift:+.2g}, {moved.errors:.1f} standard errors of that difference. The interval is wider "
        "for it, and may still be too narrow. Pass richer features, or ratio_features of another kind"
    ]
