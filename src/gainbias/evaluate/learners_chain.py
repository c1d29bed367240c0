"""One chain of data, or a pair, followed by an algorithm: pieces in, batch means of its weights out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Setting
from gainbias.engine.forms import compile_errors_in_words
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.running import Running
from gainbias.evaluate.batches import BatchSums
from gainbias.evaluate.learners_rows import Piece
from gainbias.features.matrix import FloatArray

BATCHES = 32
"""There are between 16 and 31 batches of weights, half as many in the half of the run that counts."""

FEW_BATCHES = 8
MANY_FEATURES = 2**17
"""From so many features on there are only few batches: what is kept takes 24 numbers for each feature."""

FIRST_SIZE = 64
"""Steps in the first batches, before they grow."""


class Diverged(Exception):
    """Weights are no longer finite, or far beyond all that rewards allow."""


class Means(NamedTuple):
    """Means over k batches of the second half of a run: weights (k, d), features (k, d); their length."""

    weights: FloatArray
    features: FloatArray
    size: int


class Follower:
    """An algorithm on one chain (or pair), with one or several schedules of step sizes side by side.

    Parameters
    ----------
    algorithm : Algorithm
    kind : {"dense", "sparse", "tabular"}
        Kind of the features.
    setting : Setting
        For one lane.
    lanes : sequence of Lane
        Step sizes and parameters of each run.
    coefficients : sequence of float
        The answer is this combination of what the runs say.
    largest_value : float
        Values larger than this times the number of steps have diverged.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        kind: str,
        setting: Setting,
        lanes: Sequence[Lane],
        coefficients: Sequence[float],
        largest_value: float,
    ) -> None:
        self.algorithm, self.coefficients, self.largest_value = algorithm, coefficients, largest_value
        self._form, d = algorithm.form_for(kind), setting.num_features
        self._groups = [Group([lane], [0], 1) for lane in lanes]
        self.runs = [
            Running(self._form, kind, setting, group.params(algorithm, self._form.laned))
            for group in self._groups
        ]
        for run in self.runs:
            run.begin_average()
        capacity = BATCHES if d < MANY_FEATURES else FEW_BATCHES
        self._sums = BatchSums((len(lanes) + 1, d), capacity, FIRST_SIZE)
        self._features, self.squares = np.zeros(d), np.zeros(d)
        self.steps, self._reward_total = 0, 0.0

    def advance(self, piece: Piece) -> None:
        """Make the steps of a piece; raises `Diverged`, not necessarily at once."""
        begin = 0
        while begin < len(piece):
            end = min(len(piece), begin + self._sums.size - self.steps % self._sums.size)
            part = piece.part(begin, end)
            self._advance(part)
            if self.steps % self._sums.size == 0:
                self._close(part)
            begin = end

    def means(self, transient: int) -> Means:
        """Return means over batches of the last half of the steps, and after a transient.

        Raises
        ------
        ValueError
            If there are fewer than two batches.
        """
        batches = self._sums.complete
        count, size = batches.shape[-1], self._sums.size
        first = max(count // 2, -(-transient // size))
        if count - first < 2:
            raise ValueError(
                f"learned values need at least two batches of {size} steps after half of the run and a "
                f"transient of {transient} steps, found {self.steps} steps: run longer"
            )
        *runs, features = np.moveaxis(batches[..., first:], -1, 1) / size
        weights = sum(
            coefficient * np.array([self._reported(run, mean) for mean in means])
            for coefficient, run, means in zip(self.coefficients, self.runs, runs, strict=True)
        )
        return Means(np.asarray(weights), features, size)

    @property
    def gain(self) -> float:
        """The gain of the run with the smallest steps, or the mean reward if it has none."""
        gain = self.runs[-1].answer().gain
        return self._reward_total / self.steps if gain is None else float(gain[0])

    def _reported(self, run: Running, mean: FloatArray) -> FloatArray:
        return run.reported(mean.reshape(run.setting.weights.shape)).weights.ravel()

    def _advance(self, part: Piece) -> None:
        first, last = self.steps, self.steps + len(part)
        for run, group in zip(self.runs, self._groups, strict=True):
            sizes = group.step_sizes(first, last, self._form.laned)
            if part.largest_steps is not None:
                sizes = np.minimum(sizes, part.largest_steps.reshape(-1, *(1,) * (sizes.ndim - 1)))
            with compile_errors_in_words(self.algorithm):
                run.advance(part.rows, part.moves, sizes)
        part.add_features(self._features, self.squares)
        self.steps = last
        self._reward_total += float(part.moves.reward.sum())

    def _close(self, part: Piece) -> None:
        """End a batch, of which this is the last part."""
        size, bound = self._sums.size, self.largest_value * self.steps
        means = [run.mean_weights().ravel() for run in self.runs]
        for run, mean in zip(self.runs, means, strict=True):
            if not (run.memory.is_finite and np.abs(part.values(mean)).max() <= bound):
                raise Diverged
            run.begin_average()
        self._sums.add_sum(np.array([*(mean * size for mean in means), self._features]), size)
        self._features = np.zeros_like(self._features)
