"""How values are learned from batches of transitions: least squares, or any algorithm of the package.

Start with `value_method`, which makes the method for a `Learning`. Every method is a `ValueMethod`: it gets
batches, and returns values as a `LearnedRecord`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from scipy import sparse

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import StepSize
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import Transitions, joined_durations
from gainbias.evaluation.values.learner import Learner
from gainbias.evaluation.values.least_squares import ValueEstimate, estimate_values
from gainbias.evaluation.values.sums import (
    MOST_LEAST_SQUARES_FEATURES,
    MOST_SPARSE_FEATURES,
    ChosenRows,
    SparseValueSums,
    Steps,
    TableValueSums,
    TabularValueSums,
    ValueSums,
    dense,
)
from gainbias.features.matrix import Matrix
from gainbias.kernels import threads_at_work
from gainbias.types import Floats

FEW_FEATURES = 40
"""Most sparse features for which dense sums are faster."""

MOST_SUMMED_STATES = 1024
"""Most states for which moves are counted if their features are in a table; with more, there are too many."""

VALUE_PIECE = 2**17
"""Numbers that are processed at once: they stay in the cache."""

TOGETHER = 2**14
"""Transitions with sparse features are gathered up to this number, because each call of SciPy takes time."""

TOGETHER_IN_THREADS = 2**17
"""The same for each of several threads, which share them."""


@dataclass(frozen=True, eq=False)
class Learning:
    """How values are learned, for `evaluate`, `evaluate_log` and `compare`.

    An id alone may be used instead: ``algorithm="td-lambda"`` is ``algorithm=Learning("td-lambda")``.

    Parameters
    ----------
    algorithm : str or Algorithm
        An id of `ALGORITHMS`, your own algorithm, or ``"auto"``: least squares for up to 500 features,
        or 3,000 that are sparse or tabular, and otherwise centred-td.
    step_size : "auto", schedule, float or array
        Step sizes of an algorithm that learns step by step; ``"auto"`` finds them from the data.
    params : mapping, optional
        Parameters of the algorithm by name.

    Examples
    --------
    >>> import gainbias as gb
    >>> learning = gb.Learning("td-lambda", step_size=gb.Harmonic(20, 100), params={"trace_decay": 0.5})
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=8_000, algorithm=learning)
    >>> estimate.diagnostics.algorithm
    'td-lambda, step size Harmonic(a=20, c0=100)'
    """

    algorithm: Algorithm | str = "auto"
    step_size: StepSize | Literal["auto"] = "auto"
    params: Mapping[str, float] | None = None


def as_learning(given: Learning | Algorithm | str) -> Learning:
    """Return how values are learned, given that record or an algorithm alone."""
    return given if isinstance(given, Learning) else Learning(given)


TIMED = ("lstd", "single-chain", "differential-td", "relative-td", "centred-td", "td-lambda")
"""Algorithms that learn values if steps have durations: what they learn is linear in the rewards."""


def value_method(
    learning: Learning, observed: ObservationMap, is_timed: bool, num_chains: int
) -> ValueMethod:
    """Return the method that learns values as asked; ``"auto"`` is least squares for few features."""
    most = most_for_least_squares(observed)
    algorithm, step_size, params = learning.algorithm, learning.step_size, learning.params
    if algorithm == "auto":
        algorithm = "lstd" if observed.num_features <= most else "centred-td"
    chosen = as_algorithm(algorithm)
    if is_timed and chosen.name not in TIMED:
        raise ValueError(
            f"{chosen.name} cannot use durations of steps: use one of {', '.join(TIMED)}, or 'auto'"
        )
    if chosen.name != "lstd":
        return Learner(chosen, observed, num_chains=num_chains, step_size=step_size, params=params)
    if not isinstance(step_size, str) or params:
        raise ValueError("least squares has no step size and no parameters: leave out step_size and params")
    if observed.num_features > most:
        raise ValueError(
            f"least squares is for at most {most} features of this kind, found {observed.num_features}: use "
            "fewer, or algorithm='auto'"
        )
    return LeastSquares(observed, num_chains)


def most_for_least_squares(observed: ObservationMap) -> int:
    """Return the most features of this kind for which least squares is fast enough."""
    return MOST_SPARSE_FEATURES if observed.is_sparse else MOST_LEAST_SQUARES_FEATURES


class ValueMethod(Protocol):
    """A method that learns values from batches; those of all chains come in turn, with equal lengths."""

    @property
    def description(self) -> str:
        """The method in words."""

    def add(self, batch: Transitions) -> None:
        """Learn from the next batch of a chain."""

    def values(self, transient: int = 0, confidence: float = 0.95) -> LearnedRecord:
        """Return what is known after all batches so far, without `transient` steps of each chain.

        Raises
        ------
        ValueError
            If there are no values, with the reason.
        """


class NoLearning:
    """Stands for a method if there are no states, and so no values.

    Parameters
    ----------
    num_chains : int
    """

    description = "none: the mean of the rewards alone"

    def __init__(self, num_chains: int) -> None:
        self.num_chains = num_chains

    def add(self, batch: Transitions) -> None:
        """Ignore the next batch of a chain."""

    def values(self, transient: int = 0, confidence: float = 0.95) -> NoValues:
        """Return that there are no values."""
        return NoValues(1, ())


class LeastSquares:
    """Values by average-reward least squares, the most accurate method if features are not too many.

    Parameters
    ----------
    observed : ObservationMap
        How observations become features: at most `MOST_FEATURES` dense ones, or `MOST_SPARSE_FEATURES` if
        rows of features are sparse or tabular.
    num_chains : int
    """

    def __init__(self, observed: ObservationMap, num_chains: int) -> None:
        self._observed = observed
        width = observed.num_features
        self.sums: ValueSums | SparseValueSums | TabularValueSums
        table = None if observed.is_sparse and width > FEW_FEATURES else observed.table
        if observed.is_tabular:
            self.sums = TabularValueSums(width, num_chains)
        elif table is not None and table.shape[0] <= MOST_SUMMED_STATES:
            self.sums = TableValueSums(dense(table), num_chains)
        elif observed.is_sparse and width > FEW_FEATURES:
            self.sums = SparseValueSums(width, num_chains)
        else:
            self.sums = ValueSums(width, num_chains)
        self._waiting: list[Transitions] = []

    @property
    def description(self) -> str:
        """The method in words."""
        return f"average-reward least squares (lstd), {self._observed.num_used} features"

    def add(self, batch: Transitions) -> None:
        """Add the next batch of a chain; sums are taken when there are enough batches of all chains."""
        self._waiting.append(batch)
        complete = len(self._waiting) % self.sums.num_chains == 0
        threads = threads_at_work()
        together = TOGETHER if threads == 1 else threads * TOGETHER_IN_THREADS
        if complete and (self._is_dense or sum(map(len, self._waiting)) >= together):
            self._sum_up()

    def values(self, transient: int = 0, confidence: float = 0.95) -> ValueEstimate:
        """Return the solution of the least-squares equation; see `estimate_values`."""
        self._sum_up()
        return estimate_values(self.sums, transient, confidence)

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.sums, ValueSums)

    def _sum_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        chains = self.sums.num_chains
        if chains == 1 and not isinstance(self.sums, SparseValueSums):
            self.sums.add_parts([self._steps(batch) for batch in waiting])
        elif self._is_dense:
            count = max(1, VALUE_PIECE // (self.sums.num_features * len(waiting)))
            for begin in range(0, len(waiting[0]), count):
                self._add_to_sums([chain.part(slice(begin, begin + count)) for chain in waiting])
        else:
            self._add_to_sums([batch for chain in range(chains) for batch in waiting[chain::chains]])

    def _steps(self, batch: Transitions) -> Steps:
        """Return the steps of the only chain."""
        if isinstance(self.sums, TabularValueSums):
            return Steps(batch.here, batch.after, batch.rewards, batch.durations)
        here, after = (ChosenRows(batch.rows, places) for places in (batch.here, batch.after))
        return Steps(here, after, batch.rewards, batch.durations)

    def _add_to_sums(self, batches: list[Transitions]) -> None:
        """Add batches to the sums; those of one chain are next to each other."""
        rewards = np.concatenate([batch.rewards for batch in batches]).reshape(self.sums.num_chains, -1)
        lasted = joined_durations([batch.durations for batch in batches])
        if isinstance(self.sums, TabularValueSums):
            here, after = (
                np.concatenate([getattr(batch, name) for batch in batches]).reshape(rewards.shape)
                for name in ("here", "after")
            )
            self.sums.add(here, rewards, after, lasted)
            return
        rows, next_rows = (
            [getattr(batch, name) for batch in batches] for name in ("here_rows", "after_rows")
        )
        if isinstance(self.sums, SparseValueSums):
            self.sums.add(_below(rows), rewards, _below(next_rows), lasted)
        else:
            before, behind = (np.stack([*map(dense, parts)]) for parts in (rows, next_rows))
            self.sums.add(before, rewards, behind, lasted)


def _below(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


class LearnedRecord(Protocol):
    """Learned values, linear in features, with their errors: what every method returns."""

    @property
    def weights(self) -> Floats:
        """The weights, (d,)."""

    @property
    def num_batches(self) -> int:
        """Batches behind the intervals."""

    @property
    def effective_sample_size(self) -> float:
        """Steps of all chains, in autocorrelation times of the values."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why intervals may be wrong."""

    def values(self, rows: Matrix) -> Floats:
        """Return the values at rows of features, (n,) for (n, d)."""

    def intervals(self, rows: Matrix) -> Floats:
        """Return the intervals of values at rows of features, (n, 2) for (n, d)."""

    def observations(self, rows: Matrix) -> Floats:
        """Number of visits that the data are worth at rows of features, (n,)."""


@dataclass(frozen=True)
class NoValues:
    """Stands for values that could not be learned; the gain is valid without them.

    Attributes
    ----------
    num_features : int
    warnings : tuple of str
        Why there are none.
    """

    num_features: int
    warnings: tuple[str, ...]
    num_batches: ClassVar[int] = 0
    effective_sample_size: ClassVar[float] = 0.0

    @property
    def weights(self) -> Floats:
        """Weights that are all nan, (d,)."""
        return np.full(self.num_features, np.nan)

    def values(self, rows: Matrix) -> Floats:
        """Return values that are all nan, (n,)."""
        return np.full(rows.shape[0], np.nan)

    def intervals(self, rows: Matrix) -> Floats:
        """Return intervals that are all infinite, (n, 2)."""
        return np.tile([-np.inf, np.inf], (rows.shape[0], 1))

    def observations(self, rows: Matrix) -> Floats:
        """Return 0 visits at all rows, (n,)."""
        return np.zeros(rows.shape[0])
