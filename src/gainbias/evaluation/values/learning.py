"""The runs of an algorithm over one chain of data, or over a pair of chains, and their error.

Start with `Follower`. It runs an algorithm over the transitions as they come, with the step sizes of
`automatic_steps` or with those of the user, together with copies that leave out some of the data. `Reader`
turns batches of transitions into moves that compiled kernels can read, with rows of features no longer than
1. `Pilot` is what the first transitions say about features and rewards.

**The error** of what was learned comes from a grouped jackknife: the transitions are cut into blocks, blocks
are dealt to eight groups in turn, and each of eight copies of the algorithm leaves out one group. How much
the copies differ says how much the answer would differ with other data, even in directions in which weights
move so slowly that batches of them over time would all look the same. Blocks grow with the run, up to a
hundredth of it, and so become longer than the memory of the chain.

**Durations.** If steps take a time t, the values are those for rewards r - g t, with g the ratio of the sums
of r and t. The algorithms that are allowed here are linear in the rewards. So each runs twice, once for r
and once for t, and its answer is what it learned for r less g times what it learned for t. Each copy has its
own g, from its own data, so the error of g is included in that of the values.

**The automatic step sizes**, for features divided by the length of the longest row, are

    alpha_t = 1/2 (1 + t / c)^(-0.6),    c = 30 d / (mean squared length of the rows)

with d the number of features seen: with one feature per state, the step sizes begin to fall when each state
has been visited thirty times, on average. So the first steps are large, and forget the first weights even
where states are seldom visited; the later ones are small. Averages of weights then have a bias that is
nearly proportional to the step sizes, so a second run with half the step sizes has half of it, and twice the
second less the first has next to none (Richardson-Romberg extrapolation; for constant steps see Huo, Chen
and Xie, "Bias and extrapolation in Markovian linear stochastic approximation with constant stepsizes", 2023).
A third run, with a quarter of the step sizes, shows whether that is so: twice the third less the second
should be the same. No horizon is needed. `benchmarks/automatic_step.py` compares with the best of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse

from gainbias.algorithms.algorithm import Algorithm, Move, Setting
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.loop import Running
from gainbias.engine.run import compile_errors_in_words
from gainbias.engine.schedules import Constant, Polynomial, Schedule
from gainbias.evaluation.gain.batches import BatchSums
from gainbias.evaluation.stream import Transitions, joined_durations
from gainbias.features.matrix import Matrix
from gainbias.features.rows import DenseRows, Rows, SparseRows, TabularRows
from gainbias.types import Floats, Ints

PILOT = 1_000
"""Transitions of each chain from which step sizes are chosen, before the first step."""

LEVEL = 0.5
"""The first step size."""

VISITS = 30
"""Mean visits of a feature before steps shrink."""

POWER = 0.6
"""The power with which step sizes fall."""

BATCHES = 8
"""There are between 4 and 7 batches of weights, half of which are used."""

FIRST_SIZE = 64
"""Steps in the first batches, before they grow."""

GROUPS = 8
"""Groups of blocks, each of which one copy leaves out."""

BLOCKS = 16
"""Blocks in a batch, two of each group."""

MOST_COPIED = 2**15
"""Most features for which there are intervals, and copies, which take 220 numbers for each feature."""


class Follower:
    """Runs of an algorithm over one chain of data, or a pair, with copies that leave out some data.

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
    longest : float, optional
        The same for what is learned of durations; None if there are none.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        kind: str,
        setting: Setting,
        params: dict[str, float],
        steps: StepSizes,
        largest_value: float,
        longest: float | None = None,
    ) -> None:
        self.algorithm, self.step_sizes = algorithm, steps
        d = setting.num_features
        lanes = [Lane(0, schedule, params) for schedule in steps.schedules]
        used = [lane for lane, share in zip(lanes, steps.coefficients, strict=True) if share != 0.0]
        self.groups = GROUPS if d <= MOST_COPIED else 1
        copies = self.groups if self.groups > 1 else 0
        self._sides = [
            Side(
                [Run(algorithm, kind, setting, lane) for lane in lanes],
                [[Run(algorithm, kind, setting, lane) for lane in used] for _ in range(copies)],
                largest,
            )
            for largest in ([largest_value] if longest is None else [largest_value, longest])
        ]
        self._sums = BatchSums((len(self._runs) + self.groups, d), BATCHES, FIRST_SIZE)
        self._totals = BatchSums((2, self.groups), BATCHES, FIRST_SIZE)
        self._features, self.squares = np.zeros((self.groups, d)), np.zeros(d)
        self._begun = np.zeros((2, self.groups))
        self.steps = 0

    @property
    def is_timed(self) -> bool:
        """Whether steps have durations."""
        return len(self._sides) > 1

    @property
    def _runs(self) -> list[Run]:
        return [run for side in self._sides for run in side.runs]

    def advance(self, piece: MovePiece) -> None:
        """Take a step for each move of a piece; raises `Diverged`, perhaps some steps late."""
        begin = 0
        while begin < len(piece):
            end = min(len(piece), begin + self._sums.size - self.steps % self._sums.size)
            part = piece.part(slice(begin, end))
            with compile_errors_in_words(self.algorithm):
                self._advance(part)
            if self.steps % self._sums.size == 0:
                self._close(part)
            begin = end

    def answers(self, transient: int) -> tuple[list[AveragedWeights], list[AveragedWeights]]:
        """Return the answers of the algorithm, one for each choice of coefficients, and those of its copies.

        Raises
        ------
        ValueError
            If there are too few steps.
        """
        sums, steps, lengths = self._tail(transient)
        weights = [run.reported(sums[i] / steps) for i, run in enumerate(self._runs)]
        features, totals = sums[len(weights) :], self._totals_after(transient)
        everyone = np.ones(self.groups, dtype=np.bool_)
        choices = [self.step_sizes.coefficients, *self.step_sizes.checks]
        ahead = len(self._sides[0].main)
        main = [
            AveragedWeights(
                self._less_gain(weights, shares, slice(ahead), totals, everyone),
                features.sum(axis=0) / lengths.sum(),
            )
            for shares in choices
        ]
        shares = [share for share in self.step_sizes.coefficients if share != 0.0]
        copies = []
        for b in range(len(self._sides[0].copies)):
            others = np.arange(self.groups) != b
            places = slice(ahead + len(shares) * b, ahead + len(shares) * (b + 1))
            copies.append(
                AveragedWeights(
                    self._less_gain(weights, shares, places, totals, others),
                    features[others].sum(axis=0) / lengths[others].sum(),
                )
            )
        return main, copies

    def _less_gain(
        self, weights: list[Floats], shares: Sequence[float], places: slice, totals: Floats, chosen: Any
    ) -> Floats:
        """Return a combination of the weights of some runs, less the gain times that for durations."""
        learned = _combined(shares, weights[places])
        if not self.is_timed:
            return learned
        rewards, durations = totals[:, chosen].sum(axis=1)
        lasting = _combined(shares, weights[len(weights) // 2 :][places])
        return np.asarray(learned - rewards / durations * lasting)

    def _totals_after(self, transient: int) -> Floats:
        """Return sums of rewards and of durations after a transient, (2, groups)."""
        first = -(-transient // self._totals.size)
        return np.asarray(self._totals.complete[..., first:].sum(axis=-1) + self._begun)

    def _tail(self, transient: int) -> tuple[Floats, float, Floats]:
        """Return sums over the last half of the steps, after a transient; its steps; and the time by group.

        Without durations the time is the number of steps. An incomplete batch counts if it is half full, so
        that copies have about their share of it.
        """
        count, size = self._sums.complete.shape[-1], self._sums.size
        first = max(count // 2, -(-transient // size))
        if first >= count:
            raise ValueError(
                f"there are no learned values before {FIRST_SIZE} steps after the transient of {transient} "
                f"steps, found {self.steps} steps: run longer"
            )
        sums = self._sums.complete[..., first:].sum(axis=-1)
        steps = float((count - first) * size)
        lengths = np.full(self.groups, steps / self.groups)
        if self.is_timed:
            lengths = self._totals.complete[1, :, first:].sum(axis=-1)
        rest = self.steps - count * size
        if 2 * rest >= size:
            means = [run.running.mean_weights().ravel() for run in self._runs]
            sums = sums + np.concatenate([rest * np.array(means), self._features])
            steps += rest
            own = np.bincount(self._group(count * size, self.steps), minlength=self.groups)
            lengths = lengths + (self._begun[1] if self.is_timed else own)
        return sums, steps, lengths

    def _group(self, first: int, last: int) -> Ints:
        """Return the groups to which steps number ``first`` to ``last - 1`` belong."""
        return np.asarray(np.arange(first, last) // (self._sums.size // BLOCKS) % self.groups)

    @property
    def gain(self) -> float:
        """The gain of the run with the smallest steps; the mean reward if it has none, or with durations."""
        gain = None if self.is_timed else self._sides[0].main[-1].running.answer().gain
        if gain is not None:
            return float(gain[0])
        rewards, durations = self._totals_after(0).sum(axis=1)
        return float(rewards / durations)

    def _advance(self, part: MovePiece) -> None:
        group = self._group(self.steps, self.steps + len(part))
        for side, own in zip(self._sides, part.sides(), strict=True):
            side.advance(own, group)
        for b in range(self.groups):
            part.part(group == b).add_features(self._features[b], self.squares)
        lasted = np.ones(len(part)) if part.durations is None else part.durations
        for row, numbers in zip(self._begun, (part.moves.reward, lasted), strict=True):
            row += np.bincount(group, numbers, minlength=self.groups)
        self.steps += len(part)

    def _close(self, part: MovePiece) -> None:
        """Close a batch, of which `part` is the last part."""
        size = self._sums.size
        last = part.part(slice(-FIRST_SIZE, None))
        means = [mean for side in self._sides for mean in side.close(last, self.steps)]
        self._sums.add(np.concatenate([size * np.array(means), self._features])[..., None], size)
        self._totals.add(self._begun[..., None], size)
        self._features, self._begun = np.zeros_like(self._features), np.zeros_like(self._begun)


def _combined(shares: Sequence[float], weights: Sequence[Floats]) -> Floats:
    return np.asarray(sum(share * own for share, own in zip(shares, weights, strict=True)))


class Run:
    """One run of an algorithm, which counts its own steps."""

    def __init__(self, algorithm: Algorithm, kind: str, setting: Setting, lane: Lane) -> None:
        form = algorithm.form_for(kind)
        self._group, self._laned = Group([lane], [0], 1), form.laned
        self.running = Running(form, kind, setting, self._group.params(algorithm, form.laned))
        self.running.begin_average()
        self._steps = 0

    def advance(self, piece: MovePiece) -> None:
        """Take a step for each move of a piece."""
        sizes = self._group.step_sizes(self._steps, self._steps + len(piece), self._laned)
        if piece.largest_steps is not None:
            largest = piece.largest_steps
            sizes = np.minimum(sizes, largest[:, None] if self._laned else largest)
        self.running.advance(piece.rows, piece.moves, sizes)
        self._steps += len(piece)

    def reported(self, mean_weights: Floats) -> Floats:
        """Return the weights that the algorithm reports, (d,), with `mean_weights` in place of its own."""
        shaped = mean_weights.reshape(self.running.setting.weights.shape)
        return self.running.reported(shaped).weights.ravel()


class Side(NamedTuple):
    """The runs that learn from rewards, or those that learn from durations.

    Attributes
    ----------
    main : list of Run
        One for each of the step sizes.
    copies : list of lists of Run
        Those that leave out a group of the data.
    largest : float
        Values larger than this times the number of steps have diverged.
    """

    main: list[Run]
    copies: list[list[Run]]
    largest: float

    @property
    def runs(self) -> list[Run]:
        """All runs, those of copies last."""
        return [*self.main, *(run for copy in self.copies for run in copy)]

    def advance(self, part: MovePiece, group: Ints) -> None:
        """Take a step for each move; copies leave out the moves of their group."""
        for run in self.main:
            run.advance(part)
        for b, copy in enumerate(self.copies):
            kept = part.part(group != b)
            for run in copy:
                run.advance(kept)

    def close(self, last: MovePiece, steps: int) -> list[Floats]:
        """Return the mean weights of a batch, and begin the next; raises `Diverged` if they are too large."""
        means = [run.running.mean_weights().ravel() for run in self.runs]
        for run, mean in zip(self.runs, means, strict=True):
            if not (run.running.memory.is_finite and np.abs(last.values(mean)).max() <= self.largest * steps):
                raise Diverged
            run.running.begin_average()
        return means


class AveragedWeights(NamedTuple):
    """Means over the last half of the steps: of the weights, (d,), and of the features, (d,)."""

    weights: Floats
    features: Floats


class Diverged(Exception):
    """Weights are no longer finite, or far beyond anything that the rewards allow."""


@dataclass(frozen=True, eq=False)
class StepSizes:
    """Step sizes of one or several runs, and how they are combined.

    Attributes
    ----------
    schedules : list of Schedule
    coefficients : list of float
        The answer is this combination of the runs.
    checks : list of lists of float
        Other combinations, which would be the same if steps were small enough.
    description : str
        The choice in words.
    """

    schedules: list[Schedule]
    coefficients: list[float]
    checks: list[list[float]]
    description: str


def automatic_steps(algorithm: Algorithm, pilot: Pilot, level: float = LEVEL) -> StepSizes:
    """Choose step sizes from the first transitions; `level` is the first step size.

    Examples
    --------
    >>> from gainbias.algorithms.registry import ALGORITHMS
    >>> steps = automatic_steps(ALGORITHMS["single-chain"], Pilot(1.0, 20.0, 1.0, 1.0))
    >>> steps.description
    'found from the data: 0.5 / (1 + t / 600)^0.6, and half of that in a second run; the answer is ...'
    """
    if algorithm.declared.step_free:
        return StepSizes([Constant(1.0)], [1.0], [], f"{algorithm.name} has no step sizes")
    if algorithm.declared.constant_step is not None:
        steps = f"{algorithm.declared.constant_step:g}, the constant that {algorithm.name} is meant for"
        return StepSizes([Constant(algorithm.declared.constant_step)], [1.0], [], steps)
    begin = VISITS * pilot.visits
    schedules: list[Schedule] = [
        Polynomial(share * level * begin**POWER, begin, POWER) for share in (1.0, 0.5, 0.25)
    ]
    words = (
        f"found from the data: {level:g} / (1 + t / {begin:.0f})^{POWER:g}, and half of that in a second "
        "run; the answer is twice the second less the first"
    )
    return StepSizes(schedules, [-1.0, 2.0, 0.0], [[0.0, -1.0, 2.0]], words)


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the first transitions say about features and rewards.

    Attributes
    ----------
    longest : float
        Length of the longest row of features; 1 if no row has an entry.
    visits : float
        Transitions after which a feature has been visited once, on average.
    max_abs_reward, reward_range : float
    duration_range : float or None
        None if steps have no durations.
    """

    longest: float
    visits: float
    max_abs_reward: float
    reward_range: float
    duration_range: float | None = None

    @classmethod
    def of(cls, batches: Sequence[Transitions], num_features: int) -> Pilot:
        """Return what some transitions say."""
        rewards = np.concatenate([batch.rewards for batch in batches])
        largest, spread = float(np.abs(rewards).max()), float(np.ptp(rewards))
        lasted = joined_durations([batch.durations for batch in batches])
        lengths_differ = None if lasted is None else float(np.ptp(lasted))
        if batches[0].rows is None:
            seen = len(np.unique(np.concatenate([batch.here for batch in batches])))
            return cls(1.0, float(seen), largest, spread, lengths_differ)
        squares, seen_features = [], np.zeros(num_features, dtype=np.bool_)
        for batch in batches:
            rows: Any = batch.here_rows
            squares.append(np.asarray((rows * rows).sum(axis=1)))
            seen_features |= np.asarray(abs(rows).sum(axis=0)) > 0.0
        lengths = np.concatenate(squares)
        longest = float(lengths.max()) or 1.0
        visits = float(np.count_nonzero(seen_features)) * longest / (float(lengths.mean()) or 1.0)
        return cls(float(np.sqrt(longest)), max(visits, 1.0), largest, spread, lengths_differ)


def first_of_each(batches: Sequence[Transitions], count: int = PILOT) -> list[Transitions]:
    """Return the first transitions of each chain, one chain after the other, however the stream was cut."""
    found, seen = [], dict[int, int]()
    for batch in batches:
        left = count - seen.get(batch.chain, 0)
        if left > 0:
            found.append(batch.part(slice(left)))
            seen[batch.chain] = seen.get(batch.chain, 0) + len(found[-1])
    return sorted(found, key=lambda batch: batch.chain)


class Reader:
    """Turns batches of transitions into moves between scaled rows of features.

    Parameters
    ----------
    num_features : int
    scale : float
        Number by which rows are divided, unless they are tabular.

    Examples
    --------
    >>> rows, states = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([0, 1, 0])
    >>> batch = Transitions(np.ones(2), states[:-1], states[1:], rows, np.zeros(2, dtype=np.int64))
    >>> piece = Reader(2, scale=2.0).piece(batch, batch)
    >>> piece.rows.matrix.tolist(), piece.largest_steps.round(2).tolist()
    ([[1.5, 0.0], [0.0, 2.0]], [0.44, 0.25])
    """

    def __init__(self, num_features: int, scale: float) -> None:
        self.num_features, self.scale = num_features, scale
        self._kept: Kept | None = None

    def piece(self, first: Transitions, second: Transitions) -> MovePiece:
        """Return moves of two chains of equal length; with one chain, both are the same batch."""
        shift, given = 0, first.rows
        if first.rows is not second.rows and isinstance(first.rows, np.ndarray):
            shift, given = len(first.rows), np.concatenate([first.rows, second.rows])
        elif first.rows is not second.rows:
            both: Any = [first.rows, second.rows]
            shift, given = both[0].shape[0], sparse.csr_array(sparse.vstack(both))
        if self._kept is None or self._kept.given is not given:  # the same table of all states
            self._kept = self._scaled(given)
        _, matrix, rows, squares = self._kept
        here, after = _numbers(first.here), _numbers(first.after)
        other, other_after = here, after
        if second is not first:
            other, other_after = _numbers(second.here + shift), _numbers(second.after + shift)
        with np.errstate(divide="ignore"):  # ends, whose features are all 0, set no bound
            largest = None if squares is None else 1.0 / np.maximum(squares[here], squares[other])
        moves = Move(here, after, first.rewards, other, other_after, second.rewards)
        return MovePiece(matrix, rows, moves, largest, first.durations)

    def _scaled(self, given: Matrix | None) -> Kept:
        if given is None:
            return Kept(None, None, TabularRows(self.num_features), None)
        matrix: Any = given if self.scale == 1.0 else given / self.scale
        squares = np.asarray((matrix * matrix).sum(axis=1))
        kept = squares if squares.max(initial=0.0) > 1.0 else None
        if isinstance(matrix, np.ndarray):
            return Kept(given, matrix, DenseRows(np.ascontiguousarray(matrix)), kept)
        rows = SparseRows(_numbers(matrix.indptr), _numbers(matrix.indices), matrix.data)
        return Kept(given, matrix, rows, kept)


class Kept(NamedTuple):
    """Rows of features as given and scaled, and squared lengths of the latter, None if none is above 1."""

    given: Matrix | None
    matrix: Matrix | None
    rows: Rows
    squares: Floats | None


@dataclass(frozen=True, eq=False)
class MovePiece:
    """Moves between rows of features, as kernels read them.

    Attributes
    ----------
    matrix : (k, d) ndarray or csr_array, or None
        Scaled rows of features; ``None`` if they are tabular.
    rows : Rows
        The same, for kernels.
    moves : Move of (m,) arrays
    largest_steps : (m,) array or None
        Step sizes above these overshoot; None if none below 1 does.
    durations : (m,) array or None
        How long the moves of the first chain took.
    """

    matrix: Matrix | None
    rows: Rows
    moves: Move
    largest_steps: Floats | None
    durations: Floats | None = None

    def __len__(self) -> int:
        return len(self.moves.here)

    def part(self, chosen: Any) -> MovePiece:
        """Return some of the moves, chosen by a slice or by a truth value for each."""
        largest = None if self.largest_steps is None else self.largest_steps[chosen]
        first = [array[chosen] for array in self.moves[:3]]
        alone = self.moves.other is self.moves.here
        second = first if alone else [array[chosen] for array in self.moves[3:]]
        durations = None if self.durations is None else self.durations[chosen]
        return MovePiece(self.matrix, self.rows, Move(*first, *second), largest, durations)

    def sides(self) -> list[MovePiece]:
        """Return the moves with their rewards and, if there are durations, with these in place of rewards."""
        if self.durations is None:
            return [self]
        timed = self.moves._replace(reward=self.durations, other_reward=self.durations)
        return [self, replace(self, moves=timed)]

    def add_features(self, sums: Floats, squares: Floats) -> None:
        """Add the features of all moves to `sums`, and their squares to `squares`, both (d,).

        In `sums` they are weighted by durations, if there are any.
        """
        here = self.moves.here
        if self.matrix is None:
            np.add.at(sums, here, 1.0 if self.durations is None else self.durations)
            np.add.at(squares, here, 1.0)
        else:
            rows = self.matrix[here]
            sums += rows.sum(axis=0) if self.durations is None else self.durations @ rows
            squares += (rows * rows).sum(axis=0)

    def values(self, weights: Floats) -> Floats:
        """Values before each move, (m,)."""
        here = self.moves.here
        return np.asarray(weights[here] if self.matrix is None else self.matrix[here] @ weights)


def _numbers(array: Any) -> Any:
    """Return numbers of rows in the type that the engine uses, so that its compiled kernels can be used."""
    return np.ascontiguousarray(array, dtype=np.int32)
