"""One chain of data, or a pair, followed by an algorithm, and by copies of it that leave out some data.

The error of what was learned comes from a grouped jackknife: the transitions are cut into blocks, blocks are
dealt to eight groups in turn, and each of eight copies of the algorithm leaves out one group. How much the
copies differ says how much the answer would differ with other data: also in directions in which weights move
so slowly that batches of them over time would all look the same. Blocks grow with the run, up to a hundredth
of it, and so become longer than the memory of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Setting
from gainbias.engine.forms import compile_errors_in_words
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.running import Running
from gainbias.evaluation.gain.batches import BatchSums
from gainbias.evaluation.values.learners_pilot import StepSizes
from gainbias.evaluation.values.learners_rows import Piece
from gainbias.features.matrix import FloatArray

BATCHES = 8
"""There are between 4 and 7 batches of weights, half of which count."""

FIRST_SIZE = 64
"""Steps in the first batches, before they grow."""

GROUPS = 8
BLOCKS = 16
"""Blocks in a batch, two of each group."""

MOST_COPIED = 2**15
"""With more features there are no copies, which take 220 numbers for each feature, and no intervals."""


class Diverged(Exception):
    """Weights are no longer finite, or far beyond all that rewards allow."""


class Answer(NamedTuple):
    """Weights, (d,), and mean of the features, (d,), over the last half of the steps."""

    weights: FloatArray
    features: FloatArray


class Run:
    """One run of the algorithm with its own clock."""

    def __init__(self, algorithm: Algorithm, kind: str, setting: Setting, lane: Lane) -> None:
        form = algorithm.form_for(kind)
        self._group, self._laned = Group([lane], [0], 1), form.laned
        self.running = Running(form, kind, setting, self._group.params(algorithm, form.laned))
        self.running.begin_average()
        self._steps = 0

    def advance(self, piece: Piece) -> None:
        """Make the steps of a piece."""
        sizes = self._group.step_sizes(self._steps, self._steps + len(piece), self._laned)
        if piece.largest_steps is not None:
            largest = piece.largest_steps
            sizes = np.minimum(sizes, largest[:, None] if self._laned else largest)
        self.running.advance(piece.rows, piece.moves, sizes)
        self._steps += len(piece)

    def reported(self, mean_weights: FloatArray) -> FloatArray:
        """What the algorithm says with these in the place of its weights, (d,)."""
        shaped = mean_weights.reshape(self.running.setting.weights.shape)
        return self.running.reported(shaped).weights.ravel()


class Follower:
    """An algorithm on one chain (or pair).

    Parameters
    ----------
    algorithm : Algorithm
    kind : {"dense", "sparse", "tabular"}
        Kind of the features.
    setting : Setting
        For one lane.
    params : mapping
        Parameters of the algorithm.
    steps : StepSizes
        Of the runs whose combination is the answer.
    largest_value : float
        Values larger than this times the number of steps have diverged.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        kind: str,
        setting: Setting,
        params: dict[str, float],
        steps: StepSizes,
        largest_value: float,
    ) -> None:
        self.algorithm, self.step_sizes, self._largest_value = algorithm, steps, largest_value
        d = setting.num_features
        lanes = [Lane(0, schedule, params) for schedule in steps.schedules]
        used = [lane for lane, share in zip(lanes, steps.coefficients, strict=True) if share != 0.0]
        self.groups = GROUPS if d <= MOST_COPIED else 1
        copies = self.groups if self.groups > 1 else 0
        self.main = [Run(algorithm, kind, setting, lane) for lane in lanes]
        self._copies = [[Run(algorithm, kind, setting, lane) for lane in used] for _ in range(copies)]
        self._sums = BatchSums((len(self._runs) + self.groups, d), BATCHES, FIRST_SIZE)
        self._features, self.squares = np.zeros((self.groups, d)), np.zeros(d)
        self.steps, self._reward_total = 0, 0.0

    @property
    def _runs(self) -> list[Run]:
        return [*self.main, *(run for copy in self._copies for run in copy)]

    def advance(self, piece: Piece) -> None:
        """Make the steps of a piece; raises `Diverged`, not necessarily at once."""
        begin = 0
        while begin < len(piece):
            end = min(len(piece), begin + self._sums.size - self.steps % self._sums.size)
            part = piece.part(slice(begin, end))
            with compile_errors_in_words(self.algorithm):
                self._advance(part)
            if self.steps % self._sums.size == 0:
                self._close(part)
            begin = end

    def answers(self, transient: int) -> tuple[list[Answer], list[Answer]]:
        """What the algorithm says, with each choice of coefficients, and what its copies do.

        Raises
        ------
        ValueError
            If there are too few steps.
        """
        sums, steps = self._tail(transient)
        weights = [run.reported(sums[i] / steps.sum()) for i, run in enumerate(self._runs)]
        own, copied, features = weights[: len(self.main)], weights[len(self.main) :], sums[len(weights) :]
        choices = [self.step_sizes.coefficients, *self.step_sizes.checks]
        main = [Answer(_combined(shares, own), features.sum(axis=0) / steps.sum()) for shares in choices]
        shares = [share for share in self.step_sizes.coefficients if share != 0.0]
        copies = []
        for b in range(len(self._copies)):
            others = np.arange(self.groups) != b
            kept = copied[len(shares) * b : len(shares) * (b + 1)]
            copies.append(Answer(_combined(shares, kept), features[others].sum(axis=0) / steps[others].sum()))
        return main, copies

    def _tail(self, transient: int) -> tuple[FloatArray, FloatArray]:
        """Sums over the last half of the steps, after a transient, and the number of steps of each group.

        A batch that is not complete counts if it is half full, so that copies have about their share of it.
        """
        count, size = self._sums.complete.shape[-1], self._sums.size
        first = max(count // 2, -(-transient // size))
        if first >= count:
            raise ValueError(
                f"there are no learned values before {FIRST_SIZE} steps after the transient of {transient} "
                f"steps, found {self.steps} steps: run longer"
            )
        sums = self._sums.complete[..., first:].sum(axis=-1)
        steps = np.full(self.groups, (count - first) * size / self.groups)
        rest = self.steps - count * size
        if 2 * rest >= size:
            means = [run.running.mean_weights().ravel() for run in self._runs]
            sums = sums + np.concatenate([rest * np.array(means), self._features])
            steps = steps + np.bincount(self._group(count * size, self.steps), minlength=self.groups)
        return sums, steps

    def _group(self, first: int, last: int) -> FloatArray:
        """To which group steps number ``first`` to ``last - 1`` belong."""
        return np.asarray(np.arange(first, last) // (self._sums.size // BLOCKS) % self.groups)

    @property
    def gain(self) -> float:
        """The gain of the run with the smallest steps, or the mean reward if it has none."""
        gain = self.main[-1].running.answer().gain
        return self._reward_total / self.steps if gain is None else float(gain[0])

    def _advance(self, part: Piece) -> None:
        for run in self.main:
            run.advance(part)
        group = self._group(self.steps, self.steps + len(part))
        for b in range(self.groups):
            part.part(group == b).add_features(self._features[b], self.squares)
            if self._copies:
                kept = part.part(group != b)
                for run in self._copies[b]:
                    run.advance(kept)
        self.steps += len(part)
        self._reward_total += float(part.moves.reward.sum())

    def _close(self, part: Piece) -> None:
        """End a batch, of which this is the last part."""
        size, bound = self._sums.size, self._largest_value * self.steps
        last = part.part(slice(-FIRST_SIZE, None))
        means = [run.running.mean_weights().ravel() for run in self._runs]
        for run, mean in zip(self._runs, means, strict=True):
            if not (run.running.memory.is_finite and np.abs(last.values(mean)).max() <= bound):
                raise Diverged
            run.running.begin_average()
        self._sums.add_sum(np.concatenate([size * np.array(means), self._features]), size)
        self._features = np.zeros_like(self._features)


def _combined(shares: Sequence[float], weights: Sequence[FloatArray]) -> FloatArray:
    return np.asarray(sum(share * own for share, own in zip(shares, weights, strict=True)))
