"""What another policy would have earned, by linear models of its action values and of the density ratio.

With features phi of state-actions, and phi' the expected features under the policy where a step led,
weights theta and a gain g solve

    mean of phi (r - g t - (phi - phi')^T theta) = 0

which is average-reward least squares for the policy's action values (t = 1 if steps have no durations). With
its own features psi, the ratio w = psi^T x of the shares of state-actions among the steps of the policy and
among those of the log obeys

    mean of (psi - psi') w = 0,    mean of w = 1

because under the policy the mean of every function is the same after a step as before it. The answer

    g = (mean of w (r + phi'^T theta - phi^T theta)) / (mean of w t)

is right if one of the two models is (Liao, Klasnja and Murphy 2019; Kallus and Uehara 2020). With psi =
phi, the model's gain, the ratio's gain and this one are the same number.

To first order, the error of the answer is a mean along the path of the log: the mean of the terms above,
plus the errors of theta and x, which matter if one of the models is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from gainbias.evaluation.another.chances import PairFeatures, with_end
from gainbias.evaluation.another.passes import part_of
from gainbias.evaluation.gain.batches import unit_of
from gainbias.evaluation.gain.interval import check_ratio
from gainbias.evaluation.stream import ObservedSteps
from gainbias.types import Floats

UNSEEN_BY_FEATURES = 1e-10
"""Directions in which features vary less than this, relative to the largest, count as unseen."""

LINEAR_BATCHES = 32
"""Batches of the log that say how far weights may be off."""

LINEAR_PIECE = 4096
"""Steps whose features are processed at once."""


class Rows(NamedTuple):
    """Features of steps: of the action taken, of the policy there, and of the policy where the step led."""

    done: Floats
    here: Floats
    after: Floats


def rows_of_steps(features: PairFeatures, steps: ObservedSteps) -> Rows:
    """Return the features of steps; ends have their own feature."""
    expected = with_end(features.expected(steps.observations))
    is_end = steps.here == len(steps.observations)
    here = np.where(is_end, 0, steps.here)
    done = features.rows(steps.observations, steps.beside["action"], here)
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
        unit = unit_of(lasting)  # so that the unit of time does not decide what counts as unseen
        equations = np.column_stack([basis.T @ difference @ basis, lasting / unit])
        inverse = linalg.pinv(equations, rtol=UNSEEN_BY_FEATURES)
        inverse[-1] /= unit
        solution = inverse @ (basis.T @ sums.rewards / n)
        self.values, self.of_values = basis @ solution[:-1], float(solution[-1])
        self.inverse = basis @ inverse[:-1] @ basis.T
        self.gain_row = basis @ inverse[-1]
        if not np.abs(inverse[-1]).max() > 0.0:
            raise ValueError("the features do not determine the gain: they are 0 everywhere in the log")
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
        """Compute the gain, and how it depends on the weights of both models."""
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
        self.by_stays = (surplus @ self._backwards)[:-1]  # the overall size of the weights does not matter

    def influence(self, steps: int) -> LinearInfluence:
        """Return what evaluates the error at each step of the log, given their number."""
        return LinearInfluence(self, steps)


class LinearInfluence:
    """The error of a gain at each step of the log, and the weights by each batch.

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
        self.ratio_squares = self.apart = 0.0

    def add(self, values: Rows, ratio: Rows, rewards: Floats, durations: Floats) -> tuple[Floats, Floats]:
        """Return the terms of the next steps, whose mean is the gain, and their ratios; (m,) each."""
        model = self.model
        weights = ratio.done @ model.ratio
        led = rewards + (values.after - values.done) @ model.values
        terms = weights * (led - model.gain * durations) / model.mean_duration
        terms += (values.done @ model.by_values) * (led - model.of_values * durations)
        terms -= weights * ((ratio.done - ratio.after) @ model.by_stays)
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
        """Add up by batches the noise in the values' equation, and in their mean."""
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
        """Return by how much batches move the weights and the offset, and how the weights move the offset."""
        model, total = self.model, self.levels.sum(axis=0)
        weights = (self.noise * (self.num_batches / self._steps)) @ model.shown_inverse.T
        if model.discount is not None:
            return weights, 0.0, np.zeros(self.num_batches)
        centre = float(total[0] / total[1])
        apart = (self.levels[:, 0] - centre * self.levels[:, 1]) * self.num_batches / total[1]
        return weights, -centre, -weights @ (self.mean_features / total[1]) - apart

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


def both_rows(values: PairFeatures, ratio: PairFeatures, steps: ObservedSteps) -> tuple[Rows, Rows]:
    """Return the features of values and of the ratio; the same object if they are the same."""
    phi = rows_of_steps(values, steps)
    return phi, phi if ratio is values else rows_of_steps(ratio, steps)


def durations_of(steps: ObservedSteps) -> Floats:
    """Return how long steps took: 1 if they have no durations."""
    return np.ones(len(steps.here)) if steps.durations is None else steps.durations


def pieces_of(steps: ObservedSteps) -> Iterator[ObservedSteps]:
    """Yield steps in pieces that stay in the cache, each with its own observations."""
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
