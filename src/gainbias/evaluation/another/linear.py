"""What another policy would have earned, by linear models of its action values and of the density ratio.

With features phi of state-actions, and phi' the features that are expected under the policy where a step led,
weights theta and a gain g solve

    mean of phi (r - g t - (phi - phi')^T theta) = 0

which is average-reward least squares for the policy's action values (t = 1 if steps have no durations). With
features psi of their own, the ratio w = psi^T x of the shares that state-actions have among the steps of the
policy and of the log obeys

    mean of (psi - psi') w = 0,    mean of w = 1

because under the policy every function is expected to be as large after a step as before it. The answer

    g = (mean of w (r + phi'^T theta - phi^T theta)) / (mean of w t)

is right if one of the two models is (Liao, Klasnja and Murphy 2019; Kallus and Uehara 2020). With psi = phi
all three, the model's gain, that of the ratio and this one, are the same number.

The error of the answer is to first order a mean along the path of the log: that of the terms above, and of
the errors of theta and x as far as they matter, which they do where one of the models is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from gainbias.evaluation.another.chances import Chances, PairFeatures, with_end
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
from gainbias.evaluation.estimate import Estimate, gain_history
from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans, unit_of
from gainbias.evaluation.gain.interval import GainEstimate, check_ratio, estimate_gain
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import ObservedSteps
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.types import Floats

UNSEEN_BY_FEATURES = 1e-10
"""Directions in which features vary less than this, relative to the largest, count as unseen."""

LINEAR_BATCHES = 32
"""Batches of the log that say how far weights may be off."""

LINEAR_PIECE = 4096
"""Steps whose features are worked on at once."""

CLIPPED_AT = 4.0
"""Weights of the truncated answer are cut at the root of the number of steps over this."""

KEPT_FOR_CHECK, CHECK_BLOCKS = 50_000, 32
"""Steps that are looked at for what features do not express, and blocks that they form."""

FEWEST_FOR_CHECK = 1_000
"""From fewer steps nothing is concluded about features."""

SURE_OF_MOVE = 2.75
"""Standard errors by which richer features must move the gain: 1 % of Student's law with 31 degrees."""

MOVE_WORTH_WARNING = 1.0
"""Standard errors of the gain by which they must move it."""


class Rows(NamedTuple):
    """Features of steps: of what was done, of the policy where it was done, and where the step led."""

    done: Floats
    here: Floats
    after: Floats


def rows_of_steps(features: PairFeatures, steps: ObservedSteps) -> Rows:
    """Return the features of steps; ends have one of their own."""
    expected = with_end(features.expected(steps.observations))
    is_end = steps.here == len(steps.observations)
    here = np.where(is_end, 0, steps.here)
    done = features.rows(steps.observations[here], steps.beside["action"])
    done[is_end] = expected[-1]
    return Rows(done, expected[steps.here], expected[steps.after])


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums over steps, with features phi of values and psi of the ratio.

    Attributes
    ----------
    gram, cross : (d, d) arrays
        Of phi phi^T and phi phi'^T.
    rewards, durations : (d,) arrays
        Of phi r and phi t.
    mixed, mixed_after : (e, d) arrays
        Of psi phi^T and psi phi'^T.
    ratio_gram, ratio_cross, ratio_rewards, ratio_durations, ratio : arrays
        The same for psi, and the sum of psi itself, (e,).
    steps : float
    """

    gram: Floats
    cross: Floats
    rewards: Floats
    durations: Floats
    mixed: Floats
    mixed_after: Floats
    ratio_gram: Floats
    ratio_cross: Floats
    ratio_rewards: Floats
    ratio_durations: Floats
    ratio: Floats
    steps: float

    @classmethod
    def of(cls, values: Rows, ratio: Rows, rewards: Floats, durations: Floats) -> LinearSums:
        """Return the sums over some steps."""
        gram, cross = values.done.T @ values.done, values.done.T @ values.after
        same = ratio is values
        psi = ratio.done
        return cls(
            gram,
            cross,
            rewards @ values.done,
            durations @ values.done,
            gram if same else psi.T @ values.done,
            cross if same else psi.T @ values.after,
            gram if same else psi.T @ psi,
            cross if same else psi.T @ ratio.after,
            rewards @ psi,
            durations @ psi,
            psi.sum(axis=0),
            float(len(rewards)),
        )

    def plus(self, other: LinearSums | None) -> LinearSums:
        """Return the sums over the steps of both; None has none."""
        if other is None:
            return self
        return LinearSums(*(getattr(self, name) + getattr(other, name) for name in self.__dict__))


class LinearModel:
    """The solution of both equations.

    Parameters
    ----------
    sums : LinearSums
    discount : float, optional
        Of `values`; the gain has none.

    Attributes
    ----------
    gain : float
        The answer that needs one of the two models to be right.
    of_values, of_ratio : float
        The gain by the model of values alone, and by the ratio alone.
    values, ratio : (d,) and (e,) arrays
        The weights theta and x.
    """

    def __init__(self, sums: LinearSums, discount: float | None = None) -> None:
        self.sums, self.discount = sums, discount
        n = sums.steps
        basis, other = _basis(sums.gram / n), _basis(sums.ratio_gram / n)
        difference = (sums.gram - sums.cross) / n
        lasting = basis.T @ sums.durations / n
        unit = unit_of(lasting)  # so that no unit of time decides what counts as unseen
        equations = np.column_stack([basis.T @ difference @ basis, lasting / unit])
        inverse = linalg.pinv(equations, rtol=UNSEEN_BY_FEATURES)
        inverse[-1] /= unit
        solution = inverse @ (basis.T @ sums.rewards / n)
        self.values, self.of_values = basis @ solution[:-1], float(solution[-1])
        self.inverse = basis @ inverse[:-1] @ basis.T
        self.gain_row = basis @ inverse[-1]
        if not np.abs(inverse[-1]).max() > 0.0:
            raise ValueError("the features do not tell the gain: they are 0 wherever the log was")
        stays = (sums.ratio_gram - sums.ratio_cross) / n
        conditions = np.vstack([other.T @ stays.T @ other, sums.ratio @ other / n])
        backwards = linalg.pinv(conditions, rtol=UNSEEN_BY_FEATURES)
        self.ratio = other @ backwards[:, -1]
        self._backwards = other @ backwards @ linalg.block_diag(other.T, np.ones((1, 1)))
        self._combine()
        self.shown, self.shown_inverse = self.values, self.inverse
        if discount is not None:
            damped = basis.T @ (sums.gram - discount * sums.cross) @ basis / n
            self.shown_inverse = basis @ linalg.pinv(damped, rtol=UNSEEN_BY_FEATURES) @ basis.T
            self.shown = self.shown_inverse @ sums.rewards / n

    def _combine(self) -> None:
        """Find the gain, and how it moves with the weights of both models."""
        sums, n, x, theta = self.sums, self.sums.steps, self.ratio, self.values
        self.mean_duration = float(x @ sums.ratio_durations) / n
        moved = (sums.mixed_after - sums.mixed) / n
        paid = sums.ratio_rewards / n
        self.of_ratio = float(x @ paid) / self.mean_duration
        self.gain = float(x @ (paid + moved @ theta)) / self.mean_duration
        check_ratio(self.gain)
        by_values = (x @ moved) / self.mean_duration
        self.by_values = by_values @ self.inverse
        surplus = (paid + moved @ theta - self.gain * sums.ratio_durations / n) / self.mean_duration
        self.by_stays = (surplus @ self._backwards)[:-1]  # how large weights are on the whole does not matter

    def influence(self, steps: int) -> LinearInfluence:
        """Return what evaluates the error at each step of the log, given their number."""
        return LinearInfluence(self, steps)


class LinearInfluence:
    """The error of a gain at each step of the log, and what each batch says about the weights.

    Parameters
    ----------
    model : LinearModel
    steps : int
        Steps of the log in all.

    Attributes
    ----------
    noise : (K, d) array
        Sums over batches of phi times the residual of values.
    centre, weight : float
        Sums of w t V(s) and of w t.
    apart : float
        Sum of the squares of Q(s, a) - V(s).
    """

    def __init__(self, model: LinearModel, steps: int) -> None:
        self.model, self._steps, self._made = model, steps, 0
        self.num_batches = min(LINEAR_BATCHES, steps)
        self.noise = np.zeros((self.num_batches, len(model.values)))
        self.levels = np.zeros((self.num_batches, 2))
        self.mean_features = np.zeros(len(model.values))
        self.squares = self.fourth = self.ratio_squares = self.apart = self._unit = 0.0

    def add(self, values: Rows, ratio: Rows, rewards: Floats, durations: Floats) -> tuple[Floats, Floats]:
        """Return the terms of the next steps, whose mean is the gain, and their ratios; (m,) each."""
        model = self.model
        weights = ratio.done @ model.ratio
        led = rewards + (values.after - values.done) @ model.values
        terms = weights * (led - model.gain * durations) / model.mean_duration
        terms += (values.done @ model.by_values) * (led - model.of_values * durations)
        terms -= weights * ((ratio.done - ratio.after) @ model.by_stays)
        self._unit = self._unit or unit_of(terms)
        in_unit = terms / self._unit
        self.squares += float(in_unit @ in_unit)
        self.fourth += float((in_unit**4).sum())
        self.ratio_squares += float(weights @ weights)
        self.apart += float((((values.done - values.here) @ model.values) ** 2).sum())
        self._add_noise(values, rewards, durations, weights, led)
        return np.asarray(model.gain + terms), weights

    def by_values_alone(self, values: Rows, rewards: Floats, durations: Floats) -> Floats:
        """Return terms whose mean is the gain by the model of values alone."""
        model = self.model
        residual = rewards + (values.after - values.done) @ model.values - model.of_values * durations
        return np.asarray(model.of_values + (values.done @ model.gain_row) * residual)

    def _add_noise(
        self, values: Rows, rewards: Floats, durations: Floats, weights: Floats, led: Floats
    ) -> None:
        """Add up by batches what is noise in the values' equation, and in their mean."""
        model = self.model
        residual = led - model.of_values * durations
        if model.discount is not None:
            residual = rewards + (model.discount * values.after - values.done) @ model.shown
        in_time = weights * durations
        self.mean_features += in_time @ values.here
        level = np.stack([in_time * (values.here @ model.shown), in_time])
        batch = np.minimum(
            (self._made + np.arange(len(rewards))) * self.num_batches // self._steps, self.num_batches - 1
        )
        self._made += len(rewards)
        for number in np.unique(batch):
            own = batch == number
            self.noise[number] += residual[own] @ values.done[own]
            self.levels[number] += level[:, own].sum(axis=1)

    def deviations(self) -> tuple[Floats, float, Floats]:
        """Return how far batches move the weights, the offset of the values, and how far they move it."""
        model, total = self.model, self.levels.sum(axis=0)
        weights = (self.noise * (self.num_batches / self._steps)) @ model.shown_inverse.T
        if model.discount is not None:
            return weights, 0.0, np.zeros(self.num_batches)
        centre = float(total[0] / total[1])
        apart = (self.levels[:, 0] - centre * self.levels[:, 1]) * self.num_batches / total[1]
        return weights, -centre, -weights @ (self.mean_features / total[1]) - apart

    def terms(self) -> float:
        """Return how many steps make up the variance of the gain."""
        return self.squares**2 / self.fourth if self.fourth > 0.0 else float(self._steps)

    def effective_sample_size(self) -> float:
        """Return how many steps of the policy the log is worth."""
        return float(self._steps**2 / self.ratio_squares) if self.ratio_squares > 0.0 else 0.0


def _basis(gram: Floats) -> Floats:
    """Return combinations of the features, (d, k), that are orthonormal along the log."""
    lengths = np.sqrt(np.diag(gram))
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    sizes, directions = linalg.eigh(gram / np.outer(lengths, lengths))
    kept = sizes > UNSEEN_BY_FEATURES * max(sizes[-1], 1e-300)
    return np.asarray(directions[:, kept] / np.sqrt(sizes[kept]) / lengths[:, None])


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
        """Read once more for a policy that leaves out some actions."""
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
        self._taken += np.bincount(steps.beside["action"].astype(np.int64), minlength=self._num_actions)
        for number, values in enumerate(self._values):
            if values.chances is None:
                continue
            total = values.chances(steps.observations).sum(axis=0)
            before = self._wanted[number]
            self._wanted[number] = np.pad(before, (0, max(0, len(total) - len(before))))
            self._wanted[number][: len(total)] += total

    def _missing(self, number: int) -> tuple[Place, ...]:
        """Return the actions that the policy takes and the log never does; refuse if these are many."""
        wanted = self._wanted[number]
        if not wanted.sum() > 0.0:
            return ()
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
                f"probability {shares.sum():.2g}: {lacking}. There is no answer from this log: use one in "
                "which they happen, or ask about a policy that leaves them out"
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

        What a missing action is worth is as far from its state's value as actions of the log are.
        """
        apart = np.sqrt(self._influence.apart / self._first.steps) / self._model.mean_duration
        return float(apart) * sum(place.share for place in self._missing)

    @property
    def unweighted(self) -> BatchMeans:
        """The residuals of values, before they are multiplied by the ratio: overlap is judged by itself."""
        return self._residuals

    def estimate(self) -> Estimate:
        """Return the estimate after all steps."""
        first, asked, influence = self._first, self._asked, self._influence
        means = self._means if self._alone is None else self._alone
        found = estimate_gain(means, asked.confidence, find_warm_up=False, unweighted=self.unweighted)
        gain = widened(found, self.widening(), self.left_out_error())
        overlap = Overlap(
            influence.effective_sample_size(),
            first.steps,
            tuple(self._heaviest),
            self._missing,
            float(sum(place.share for place in self._missing)),
            terms=influence.terms(),
            worth=worth_of(self._weights),
            assumed_share=assumed_part(found, gain),
        )
        shift, errors = self._check.found()
        truncated = self._truncated() if overlap.is_weak else None
        warnings, notes = left_out_in_words(overlap, self.left_out_error())
        warnings += weak_in_words(overlap, truncated)
        warnings += disagreement_in_words(shift, errors, gain.standard_error)
        learned = self._learned(overlap)
        rows = self._values.rows
        return Estimate(
            gain=gain.gain,
            gain_interval=gain.interval,
            confidence=asked.confidence,
            diagnostics=self._diagnostics(gain, overlap, warnings, notes),
            history=gain_history(self._means, asked.confidence),
            observed=self._observed(),
            learned=learned,
            per=first.unit,
            target=Target(first.num_actions, overlap, learned, None, truncated, errors, asked.discount, rows),
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
        """Return the way from observations to the features that are expected under the policy."""
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
            f"with weights cut at {self._most:.3g}, which takes {percent(self._cut / self._first.steps)} % "
            "of their sum and leaves that to the model of the values"
        )
        return Alternative(found.gain, found.interval, words)


class Disagreement:
    """Asks whether richer features would move the answer, on a part of the log.

    The same answer is found once more with richer features of both models. Where features express what they
    should, both answers differ by noise alone, of which the terms of both at each step tell the size: they
    share most of it (Hausman 1978). Where they do not, the richer ones find the other part.

    Where continuous actions leave the expectation of richer features unknown, nothing is found.

    Parameters
    ----------
    values, ratio : PairFeatures
        The features of both models.
    steps : int
        Steps of the log in all; about `KEPT_FOR_CHECK` of them are looked at, in `CHECK_BLOCKS` blocks.
    """

    def __init__(self, values: PairFeatures, ratio: PairFeatures, steps: int) -> None:
        self._values, self._ratio, self._share = values, ratio, min(1.0, KEPT_FOR_CHECK / steps)
        self._kept: list[tuple[ObservedSteps, Floats]] = []

    def add(self, steps: ObservedSteps, terms: Floats) -> None:
        """Keep a part of the next steps, with their terms."""
        rows = np.arange(int(np.ceil(self._share * len(terms))))  # copied: views would keep the whole part
        for piece in pieces_of(part_of(steps, rows)):  # with their own observations alone
            self._kept.append((replace(piece, observations=piece.observations.copy()), terms[rows]))

    def found(self) -> tuple[float, float]:
        """Return by how much richer features would move the gain, and that in standard errors."""
        total = sum(len(terms) for _, terms in self._kept)
        if total < FEWEST_FOR_CHECK:
            return 0.0, 0.0
        richer = self._values.richer(self._ratio, [kept.observations for kept, _ in self._kept], total)
        if richer is None:
            return 0.0, 0.0
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
        shift = float(apart.mean())
        return shift, abs(shift) / error if error > 0.0 else 0.0


def both_rows(values: PairFeatures, ratio: PairFeatures, steps: ObservedSteps) -> tuple[Rows, Rows]:
    """Return the features of values and of the ratio; the same object if they are the same."""
    phi = rows_of_steps(values, steps)
    return phi, phi if ratio is values else rows_of_steps(ratio, steps)


def durations_of(steps: ObservedSteps) -> Floats:
    """Return how long steps took: 1 if they have no durations."""
    return np.ones(len(steps.here)) if steps.durations is None else steps.durations


def pieces_of(steps: ObservedSteps) -> Iterator[ObservedSteps]:
    """Yield steps in pieces that stay near the processor, each with its own observations."""
    size = len(steps.observations)
    for start in range(0, len(steps.here), LINEAR_PIECE):
        rows = slice(start, start + LINEAR_PIECE)
        ends = np.concatenate([steps.here[rows], steps.after[rows]])
        inside = ends[ends < size]
        low, high = (int(inside.min()), int(inside.max()) + 1) if len(inside) else (0, 1)
        piece = part_of(steps, rows)
        here, after = (
            np.where(place == size, high - low, place - low) for place in (piece.here, piece.after)
        )
        yield replace(piece, observations=steps.observations[low:high], here=here, after=after)


def disagreement_in_words(shift: float, errors: float, error: float) -> list[str]:
    """Return a warning if richer features would move the gain surely, and by more than its standard error.

    Parameters
    ----------
    shift, errors : float
        By how much they would move it, and that in standard errors of the difference.
    error : float
        Standard error of the gain.
    """
    if errors < SURE_OF_MOVE or not abs(shift) > MOVE_WORTH_WARNING * error:
        return []
    return [
        f"the features do not express what they should: richer ones would move the gain by {shift:+.2g}, "
        f"{errors:.1f} standard errors of that difference, and the interval does not know of it. Pass richer "
        "features, or ratio_features of another kind"
    ]
