"""What learners have learned: values, and their intervals from copies that left out some of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from gainbias.evaluation.gain.autocorrelation import autocorrelation_time
from gainbias.evaluation.gain.intervals import skewed_interval, too_short
from gainbias.evaluation.values.learners_chain import MOST_COPIED, Answer, Follower
from gainbias.evaluation.values.learners_rows import Piece
from gainbias.features.matrix import FloatArray

ENOUGH_VISITS = 20
"""Where features were visited less often than this, a value has no interval."""

LARGEST_STEP_EFFECT = 2.0
"""Standard errors by which values may change with smaller steps before that is spoken of."""

DISAGREEMENT = 0.999
"""Chains disagree if chance makes them differ less than they do with this probability."""


@dataclass(frozen=True, eq=False)
class LearnedValues:
    """Relative values, linear in features, that an algorithm has learned.

    Attributes
    ----------
    weights : (d,) array
        Mean of the weights over the last half of the steps.
    offset : float
        What is added to phi^T theta so that values have mean 0 in the long run.
    gain : float
        The algorithm's own estimate, or the mean of the rewards if it has none.
    step_size : str
        Step sizes in words.
    confidence : float
        Nominal coverage of the intervals.
    effective_sample_size : float
        Steps of all chains, in autocorrelation times of the values along the first transitions.
    weight_deviations, offset_deviations : (k, d) and (k,) arrays
        What each of k groups of transitions says about weights and offset, less the estimate.
    weight_change, offset_change : (d,) array and float
        What smaller steps would change, as far as can be seen.
    squares : (d,) array
        Sum of the square of each feature over all steps.
    notes : tuple of str
        What a user should know, in words.
    warnings : tuple of str
        Why intervals may be wrong; empty if nothing speaks against them.
    """

    weights: FloatArray
    offset: float
    gain: float
    step_size: str
    confidence: float
    effective_sample_size: float
    weight_deviations: FloatArray
    offset_deviations: FloatArray
    weight_change: FloatArray
    offset_change: float
    squares: FloatArray
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def num_batches(self) -> int:
        """Groups of transitions behind the intervals."""
        return len(self.offset_deviations)

    def values(self, features: Any) -> FloatArray:
        """Values of states with these features: (n,) for (n, d), dense or sparse."""
        return np.asarray(features @ self.weights + self.offset)

    def intervals(self, features: Any) -> FloatArray:
        """Confidence intervals of the values, (n, 2) for (n, d); infinite where too little was observed.

        What smaller steps would change counts as one more error, of that size.
        """
        values, k = self.values(features), self.num_batches
        if k < 2:
            return np.tile([-np.inf, np.inf], (len(values), 1))
        deviations = np.asarray(features @ self.weight_deviations.T).T + self.offset_deviations[:, None]
        change = np.asarray(features @ self.weight_change) + self.offset_change
        variances = np.maximum((deviations**2).sum(axis=0) / (k * (k - 1)), 1e-300)
        deviations *= np.sqrt(1.0 + change**2 / variances)
        ends = np.stack(skewed_interval(values, deviations, self.confidence), axis=1)
        ends[self.observations(features) < ENOUGH_VISITS] = -np.inf, np.inf
        return ends

    def observations(self, features: Any) -> FloatArray:
        """How many visits the data weigh at these features, (n,) for (n, d), as if these were orthogonal."""
        shares = (features * features) @ (1.0 / np.maximum(self.squares, 1e-300))
        return np.asarray(1.0 / np.maximum(shares, 1e-300))


def learned_values(
    followers: Sequence[Follower],
    scale: float,
    probes: Sequence[Piece],
    *,
    transient: int,
    confidence: float,
    notes: Sequence[str],
) -> LearnedValues:
    """Put together what the followers of all chains have learned, with features divided by `scale`.

    Standard errors and other differences are compared at the `probes`, some transitions.
    """
    main, copies = zip(*(follower.answers(transient) for follower in followers), strict=True)
    answers = [answer for answer, *_ in main]
    weights = np.mean([answer.weights for answer in answers], axis=0)
    found = [_pseudo_values(answer, left) for answer, left in zip(answers, copies, strict=True)]
    all_weights, all_offsets = (np.concatenate(part) for part in zip(*found, strict=True))
    offset = _mean_offset(answers)
    deviations = all_weights - weights
    spread = _Spread(probes, deviations)
    steps = sum(follower.steps for follower in followers)
    effective = steps / spread.autocorrelation_time(weights)
    checked = [answers[-1] for answers in main]
    change = np.mean([answer.weights for answer in checked], axis=0) - weights
    warnings = [
        *too_short(effective, steps, "values"),
        *spread.step_effect(change),
        *spread.disagreement([answer.weights for answer in answers]),
        *([] if len(deviations) else [f"no intervals of values for more than {MOST_COPIED} features"]),
    ]
    return LearnedValues(
        weights=weights / scale,
        offset=offset,
        gain=float(np.mean([follower.gain for follower in followers])),
        step_size=followers[0].step_sizes.description,
        confidence=confidence,
        effective_sample_size=effective,
        weight_deviations=deviations / scale,
        offset_deviations=all_offsets - offset,
        weight_change=change / scale,
        offset_change=_mean_offset(checked) - offset,
        squares=np.sum([follower.squares for follower in followers], axis=0) * scale**2,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _mean_offset(answers: Sequence[Answer]) -> float:
    return -float(np.mean([answer.features @ answer.weights for answer in answers]))


def _pseudo_values(answer: Answer, copies: Sequence[Answer]) -> tuple[FloatArray, FloatArray]:
    """Return the jackknife's pseudo-values of the weights, (k, d), and of the offset, (k,)."""
    if not copies:
        return np.empty((0, len(answer.weights))), np.empty(0)
    weights = np.array([copy.weights for copy in copies])
    offsets = np.array([-copy.features @ copy.weights for copy in copies])
    offset = -answer.features @ answer.weights
    others = len(copies) - 1
    return (
        answer.weights - others * (weights - weights.mean(axis=0)),
        offset - others * (offsets - offsets.mean()),
    )


class _Spread:
    """Differences of weights, as root mean squares of differences of values along some transitions."""

    def __init__(self, probes: Sequence[Piece], deviations: FloatArray) -> None:
        self._probes = probes
        self._squares = np.array([self._size(own) ** 2 for own in deviations])

    @property
    def standard_error(self) -> float:
        """Of the estimate, from the deviations of all groups."""
        k = len(self._squares)
        return float(np.sqrt(self._squares.sum() / (k * (k - 1)))) if k > 1 else np.inf

    def autocorrelation_time(self, weights: FloatArray) -> float:
        """Of the values, in steps, at least 1."""
        values = np.concatenate([probe.values(weights) for probe in self._probes])
        return max(1.0, autocorrelation_time(values[None]))

    def step_effect(self, change: FloatArray) -> list[str]:
        """Return a warning if values change with smaller steps."""
        size = self._size(change)
        if size <= LARGEST_STEP_EFFECT * self.standard_error:
            return []
        return [
            f"not converged: with half the step sizes values would differ by {size:.3g} (root mean square), "
            f"and their standard error is {self.standard_error:.3g}: run longer"
        ]

    def disagreement(self, by_chain: Sequence[FloatArray]) -> list[str]:
        """Return a warning if chains differ by more than the groups of each explain."""
        chains = len(by_chain)
        if chains < 2 or len(self._squares) < 2:
            return []
        mean = np.mean(by_chain, axis=0)
        between = sum(self._size(own - mean) ** 2 for own in by_chain) / (chains - 1)
        inside = len(self._squares) - chains
        within = (self._squares.sum() - len(self._squares) * between * (chains - 1) / chains) / inside
        ratio = between * len(self._squares) / chains / max(within, 1e-300)
        if ratio <= stats.f.ppf(DISAGREEMENT, chains - 1, inside):
            return []
        return [f"chains disagree: their values vary {np.sqrt(ratio):.1f} times as much as inside each chain"]

    def _size(self, weights: FloatArray) -> float:
        values = np.concatenate([probe.values(weights) for probe in self._probes])
        return float(values.std())
