"""Batch sums of transitions, from which values and their errors follow at any weights.

Start with `MomentSums`, which keeps the sums in batches that double in length. `ValueSums` is for dense
features; in `SparseValueSums` and `TabularValueSums` entries that are 0 cost neither time nor memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from gainbias.evaluation.gain.batches import BatchSums
from gainbias.evaluation.stream import joined_durations
from gainbias.kernels import bare_kernel, light_work, plain_form, share_out
from gainbias.types import Floats, Ints

MOST_LEAST_SQUARES_FEATURES = 500
"""Most dense features: 32 sums of d x d products are kept, 64 MB for 500 features."""

VALUE_BATCHES = 32
"""Batches are added up in pairs when there are this many, so there are between 16 and 31."""

FINE_BATCHES = 4096
"""Sums of the features alone are kept for shorter batches, which show the autocorrelation of the values."""

FEWEST_FINE_BATCHES = 512
"""With many features there are fewer of these shorter batches, but not fewer than this."""

MOST_SPARSE_FEATURES = 3_000
"""Most sparse or tabular features: the equation is solved as a dense one, in 72 MB and some seconds."""

FEW_SUMMED_STATES = 128
"""Most states for which moves are counted in a full table."""

PIECE_NUMBERS, SHORTEST_PIECE, LONGEST_PIECE = 2**16, 512, 4096
"""Numbers in the features of a piece, which stay in the cache, and the fewest and most steps of one."""

STATES_PER_STEP = 16
"""With more states for each step than this, features are added up step by step, without counting states."""

WORTH_SHARING = 2**20
"""Numbers in features whose sums threads share; one thread needs about 5 ms for them."""

NUMBERS_TOGETHER = 2**21
"""Sums over pieces wait for each other if they have about this many numbers together, 16 MB."""


class Moments(NamedTuple):
    """Sums over some transitions (s, r, s') with features phi and phi'.

    Attributes
    ----------
    matrix : (d, d) ndarray or csr_array
        Of phi (phi - phi')^T.
    features, reward_features, duration_features : (d,) arrays
        Of phi, of phi r and of phi t, with t the duration of a step; it is 1 if there are no durations.
    reward, duration, steps : float
        Of r, of t and of 1.
    """

    matrix: Any
    features: Floats
    reward_features: Floats
    duration_features: Floats
    reward: float
    duration: float
    steps: float

    def plus(self, other: Moments) -> Moments:
        """Return the sums over the transitions of both."""
        sums: list[Any] = [one + another for one, another in zip(self, other, strict=True)]
        return Moments(*sums)

    @property
    def means(self) -> Moments:
        """The sums divided by the number of steps."""
        means: list[Any] = [part / self.steps for part in self]
        return Moments(*means)


def _size_after(steps: int, capacity: int) -> int:
    """Return how long batches are after some steps, if they double whenever there are `capacity` of them."""
    return 1 << max((steps // (capacity // 2)).bit_length() - 1, 0)


def dense(rows: Any) -> Floats:
    """Return a matrix, dense or sparse, as a dense array."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """Rows of a matrix, dense or sparse, that are gathered where they are needed.

    Attributes
    ----------
    matrix : (k, d) ndarray or csr_array
    places : (m,) array of int64
        The row of the matrix at each place.
    """

    matrix: Any
    places: Ints

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: Any) -> ChosenRows:
        return ChosenRows(self.matrix, self.places[rows])

    @property
    def array(self) -> Floats:
        """The rows as a dense array, (m, d)."""
        return dense(self.matrix[self.places])


class Steps(NamedTuple):
    """Transitions, all chains of a step together.

    Attributes
    ----------
    here, after : (m, ...) arrays, csr_arrays or ChosenRows
        States, or features, before and after each.
    rewards : (m,) array
    durations : (m,) array or None
    """

    here: Any
    after: Any
    rewards: Floats
    durations: Floats | None

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def arrays(self) -> tuple[Any, Any, Floats, Floats | None]:
        """All columns, with rows that were only chosen gathered."""
        here, after = (column.array if isinstance(column, ChosenRows) else column for column in self[:2])
        return here, after, self.rewards, self.durations

    def part(self, rows: Any) -> Steps:
        """Return some of the transitions."""
        durations = None if self.durations is None else self.durations[rows]
        return Steps(self.here[rows], self.after[rows], self.rewards[rows], durations)

    def kept(self) -> Steps:
        """Return the same without keeping the matrix alive from which rows were chosen."""
        return Steps(*self.arrays)

    @classmethod
    def joined(cls, parts: list[Steps]) -> Steps:
        """Return transitions that follow each other, with rows that were only chosen gathered."""
        if len(parts) == 1:
            return parts[0].kept()
        here, after, rewards, durations = zip(*(part.arrays for part in parts), strict=True)
        return cls(_stacked(here), _stacked(after), np.concatenate(rewards), joined_durations(durations))


class MomentSums(ABC):
    """Batch sums of moments, in bounded memory: batches double in length, as those of `BatchSums` do.

    Parameters
    ----------
    num_features : int
        Number of features d, at most `most_features`.
    num_chains : int
        Number of chains that are read together.

    Attributes
    ----------
    fine : BatchSums
        Sums of the features alone over shorter batches.
    batch_size : int
        Steps in a batch.
    """

    most_features: ClassVar[int]
    piece: int
    """Most steps over which products are taken: always the same ones, however the stream was cut."""

    def __init__(self, num_features: int, num_chains: int = 1) -> None:
        if not 1 <= num_features <= self.most_features:
            raise ValueError(
                f"intervals of values need 1 to {self.most_features} features, found {num_features}: "
                "use fewer"
            )
        self.num_features, self.num_chains = num_features, num_chains
        fine = FINE_BATCHES
        while fine * num_features > FINE_BATCHES * MOST_LEAST_SQUARES_FEATURES and fine > FEWEST_FINE_BATCHES:
            fine //= 2
        self.fine = BatchSums((num_features,), fine)
        self.batch_size = 1
        self._complete: list[Moments] = []
        self._rest: list[Moments] = []
        self._rest_steps = 0
        self._gram: Any = 0.0
        self._pending: list[Steps] = []

    @property
    def steps(self) -> int:
        """Steps of each chain."""
        return self.fine.steps + sum(map(len, self._pending)) // self.num_chains

    def batches(self, skipped: int) -> list[Moments]:
        """Return the complete batches without the first `skipped`."""
        return self._complete[skipped:]

    def projected(self, batch: Moments, weights: Floats) -> Moments:
        """Return means over a batch, with the product of the matrix and weights instead of the matrix."""
        means = batch.means
        return means._replace(matrix=means.matrix @ weights)

    def totals(self, skipped: int) -> tuple[Moments, Floats]:
        """Return sums over the steps after the first `skipped` batches, and of phi phi^T over all steps."""
        last, gram = list(self._rest), self._gram
        if self._pending:
            moments, squares = self._product(*Steps.joined(self._pending))
            last, gram = [*last, moments], gram + squares
        total = reduce(Moments.plus, self._complete[skipped:] + last)
        return total, np.asarray(gram if isinstance(gram, np.ndarray) else gram.toarray())

    def add_parts(self, parts: Sequence[Steps]) -> None:
        """Add the next transitions, those of all chains together; threads share the work.

        They are cut into pieces of the same lengths, whatever the lengths of the parts. Each is summed up by
        itself, and then they are added in their order, so that the number of threads changes no bit.
        """
        pieces = self._cut(parts)
        is_much = sum(map(len, parts)) >= self._shared_from
        together = max(1, NUMBERS_TOGETHER // self._numbers) if is_much else 1
        for begin in range(0, len(pieces), together):
            some = pieces[begin : begin + together]
            for summed in share_out(partial(self._summed, some), len(some)):
                self._enter(*summed)

    def _add(self, here: Any, after: Any, rewards: Floats, durations: ArrayLike | None) -> None:
        """Add transitions, given one chain below the other."""
        time = None if durations is None else np.asarray(durations, dtype=np.float64).ravel()
        steps = Steps(here, after, rewards.ravel(), time)
        if self.num_chains > 1:  # all chains of a step together
            steps = steps.part(np.arange(rewards.size).reshape(rewards.shape).T.ravel())
        self.add_parts([steps])

    def _cut(self, parts: Sequence[Steps]) -> list[tuple[list[Steps], int]]:
        """Cut transitions into pieces, each of several parts, with the steps before each; the rest waits."""
        pieces, at, pending = [], self.fine.steps, self._pending
        for part in parts:
            begin = 0
            while begin < len(part):
                length = min(_size_after(at, VALUE_BATCHES), self.piece)
                end = begin + length * self.num_chains - sum(map(len, pending))
                pending.append(part.part(slice(begin, end)))
                begin = end
                if end <= len(part):
                    pieces.append((pending, at))
                    at, pending = at + length, []
        self._pending = [part.kept() for part in pending]
        return pieces

    def _summed(
        self, pieces: list[tuple[list[Steps], int]], number: int
    ) -> tuple[Moments, Any, Floats, int, int]:
        """Return sums over a piece, for `fine` those of its parts, how long these are, and how long it is."""
        parts, at = pieces[number]
        here, after, reward, time = Steps.joined(parts)
        steps = len(reward) // self.num_chains
        length = min(steps, _size_after(at, self.fine.capacity))  # both are powers of two
        moments, squares = self._product(here, after, reward, time)
        return moments, squares, self._sums(here, steps // length, length * self.num_chains), length, steps

    def _enter(self, moments: Moments, squares: Any, sums: Floats, length: int, steps: int) -> None:
        """Add the sums over the next piece, which does not reach beyond the end of a batch."""
        self._gram = self._gram + squares
        self._rest = [reduce(Moments.plus, [*self._rest, moments])]
        self.fine.add(sums.T, length)
        self._rest_steps += steps
        if self._rest_steps == self.batch_size:
            self._complete += self._rest
            self._rest, self._rest_steps = [], 0
        if len(self._complete) == VALUE_BATCHES:
            pairs = [*zip(self._complete[::2], self._complete[1::2], strict=True)]
            if self.batch_size >= self.piece:
                self._complete = share_out(lambda k: Moments.plus(*pairs[k]), len(pairs))
            else:
                self._complete = [one.plus(other) for one, other in pairs]
            self.batch_size *= 2

    @property
    def _numbers(self) -> int:
        """About how many numbers there are in the sums over a piece."""
        return self.num_features**2

    @property
    def _shared_from(self) -> int:
        """Fewest steps that are worth sharing among threads."""
        return WORTH_SHARING // self.num_features

    def _product(self, here: Any, after: Any, reward: Floats, time: Floats | None) -> tuple[Moments, Any]:
        """Return moments of transitions, and the sum of phi phi^T, or its diagonal if the rest is 0."""
        matrix, squares = self._matrices(here, after)
        features, steps = self._weighted(here, None), float(len(reward))
        earned, total = self._weighted(here, reward), float(reward.sum())
        if time is None:
            return Moments(matrix, features, earned, features, total, steps, steps), squares
        lasted = self._weighted(here, time)
        return Moments(matrix, features, earned, lasted, total, float(time.sum()), steps), squares

    @abstractmethod
    def _matrices(self, here: Any, after: Any) -> tuple[Any, Any]:
        """Return the sums of phi (phi - phi')^T and of phi phi^T, or the latter's diagonal."""

    @abstractmethod
    def _weighted(self, here: Any, weights: Floats | None) -> Floats:
        """Return the sum of phi, or of phi times a weight of each step, (d,)."""

    @abstractmethod
    def _sums(self, here: Any, groups: int, length: int) -> Floats:
        """Return the sums of phi over groups of equal length, (groups, d)."""


class ValueSums(MomentSums):
    """Batch sums of moments for dense features.

    Examples
    --------
    >>> sums = ValueSums(2)
    >>> sums.add([[1.0, 0.0], [0.0, 1.0]], [5.0, 7.0], [[0.0, 1.0], [1.0, 0.0]])
    >>> sums.steps
    2
    """

    most_features = MOST_LEAST_SQUARES_FEATURES

    def __init__(self, num_features: int, num_chains: int = 1) -> None:
        super().__init__(num_features, num_chains)
        longest = 1 << (PIECE_NUMBERS // num_features).bit_length() - 1
        self.piece = min(max(longest, SHORTEST_PIECE), LONGEST_PIECE)

    def add(
        self,
        features: ArrayLike,
        rewards: ArrayLike,
        next_features: ArrayLike,
        durations: ArrayLike | None = None,
    ) -> None:
        """Add the next transitions.

        Parameters
        ----------
        features, next_features : (chains, count, d) or (count, d) arrays
            Features of the states before and after each transition.
        rewards, durations : (chains, count) or (count,) arrays
            Rewards of the transitions, and how long they took; by default 1.
        """
        d = self.num_features
        here, after = self._rows(features, d, "features"), self._rows(next_features, d, "next_features")
        reward = self._rows(np.asarray(rewards)[..., None], 1, "rewards")
        if not here.shape[:2] == after.shape[:2] == reward.shape[:2]:
            raise ValueError(
                "features, rewards and next_features must have equal lengths, found "
                f"{here.shape[1]}, {reward.shape[1]} and {after.shape[1]}"
            )
        self._add(here.reshape(-1, d), after.reshape(-1, d), reward[:, :, 0], durations)

    def _matrices(self, here: Any, after: Any) -> tuple[Any, Any]:
        squares = here.T @ here
        return squares - here.T @ after, squares

    def _weighted(self, here: Any, weights: Floats | None) -> Floats:
        return np.asarray((np.ones(len(here)) if weights is None else weights) @ here)

    def _sums(self, here: Any, groups: int, length: int) -> Floats:
        return np.asarray(here.reshape(groups, length, -1).sum(axis=1))

    def _rows(self, array: ArrayLike, width: int, name: str) -> Floats:
        rows = np.asarray(array, dtype=np.float64)
        rows = rows[None] if rows.ndim == 2 else rows
        if rows.ndim != 3 or rows.shape[0] != self.num_chains or rows.shape[2] != width:
            raise ValueError(
                f"{name} must have {self.num_chains} chain(s) of rows of {width} number(s), found shape "
                f"{np.shape(array)}"
            )
        if not np.isfinite(rows).all():
            chain, step, _ = np.argwhere(~np.isfinite(rows))[0]
            raise ValueError(f"{name} must be finite: look at chain {chain}, step {self.steps + step}")
        return rows


class SparseValueSums(MomentSums):
    """Batch sums of moments for sparse features.

    Examples
    --------
    >>> rows = sparse.eye_array(2, format="csr")
    >>> sums = SparseValueSums(2)
    >>> sums.add(rows, [5.0, 7.0], rows[[1, 0]])
    >>> sums.totals(0)[0].reward_features
    array([5., 7.])
    """

    most_features, piece = MOST_SPARSE_FEATURES, 4096

    @property
    def _numbers(self) -> int:
        return min(self.num_features**2, self.piece)

    def add(
        self, features: Any, rewards: ArrayLike, next_features: Any, durations: ArrayLike | None = None
    ) -> None:
        """Add the next transitions.

        Parameters
        ----------
        features, next_features : (chains * count, d) csr_array
            Features of the states before and after each transition, one chain below the other.
        rewards, durations : (chains, count) or (count,) arrays
            Rewards of the transitions, and how long they took; by default 1.
        """
        given = np.asarray(rewards, dtype=np.float64).reshape(self.num_chains, -1)
        self._add(features, next_features, given, durations)

    def _matrices(self, here: Any, after: Any) -> tuple[Any, Any]:
        columns = here.T.tocsr()
        squares = columns @ here
        return sparse.csr_array(squares - columns @ after), squares

    def _weighted(self, here: Any, weights: Floats | None) -> Floats:
        return np.asarray(here.T @ (np.ones(here.shape[0]) if weights is None else weights))

    def _sums(self, here: Any, groups: int, length: int) -> Floats:
        group = np.repeat(np.arange(here.shape[0]) // length, np.diff(here.indptr))
        return _counted(group * self.num_features + here.indices, groups, self.num_features, here.data)


class TabularValueSums(MomentSums):
    """Batch sums of moments for one feature per state.

    Moves between states take the place of the matrix of moments as long as they are added up.

    Examples
    --------
    >>> sums = TabularValueSums(2)
    >>> sums.add([0, 1], [5.0, 7.0], [1, 0])
    >>> sums.totals(0)[0].reward_features
    array([5., 7.])
    """

    most_features, piece = MOST_SPARSE_FEATURES, 65_536

    def __init__(self, num_features: int, num_chains: int = 1) -> None:
        super().__init__(num_features, num_chains)
        self.num_states = num_features

    @property
    def _numbers(self) -> int:
        return min(self.num_states**2, self.piece)

    @property
    def _shared_from(self) -> int:
        return 2 * self.piece

    def add(
        self, here: ArrayLike, rewards: ArrayLike, after: ArrayLike, durations: ArrayLike | None = None
    ) -> None:
        """Add the next transitions.

        Parameters
        ----------
        here, after : (chains, count) or (count,) int arrays
            States before and after each transition.
        rewards, durations : arrays of the same shape
            Rewards of the transitions, and how long they took; by default 1.
        """
        given = np.asarray(rewards, dtype=np.float64).reshape(self.num_chains, -1)
        self._add(np.asarray(here).ravel(), np.asarray(after).ravel(), given, durations)

    def projected(self, batch: Moments, weights: Floats) -> Moments:
        """Return means over a batch, with the product of the matrix and weights instead of the matrix."""
        return super().projected(_balanced(batch), weights)

    def totals(self, skipped: int) -> tuple[Moments, Floats]:
        """Return sums over the steps after the first `skipped` batches, and of phi phi^T over all steps."""
        total, visits = super().totals(skipped)
        return _balanced(total), visits

    def _product(self, here: Any, after: Any, reward: Floats, time: Floats | None) -> tuple[Moments, Any]:
        d, steps = self.num_states, float(len(reward))
        if d > FEW_SUMMED_STATES:
            return super()._product(here, after, reward, time)
        moves, paid, lasted = np.zeros((d, d)), np.zeros(d), np.zeros(d)
        with light_work():
            add_steps(here, after, reward, reward[:0] if time is None else time, moves, paid, lasted)
        visits = moves.sum(axis=1)
        lasted, length = (visits, steps) if time is None else (lasted, float(time.sum()))
        return Moments(moves, visits, paid, lasted, float(reward.sum()), length, steps), visits

    def _matrices(self, here: Any, after: Any) -> tuple[Any, Any]:
        d = self.num_states
        moves, counts = np.unique(here * d + after, return_counts=True)
        rows, columns = np.divmod(moves, d)
        starts = np.searchsorted(rows, np.arange(d + 1))
        counted = sparse.csr_array((counts.astype(np.float64), columns, starts), (d, d))
        return counted, self._weighted(here, None)

    def _weighted(self, here: Any, weights: Floats | None) -> Floats:
        return np.asarray(_counted(here, 1, self.num_states, weights)[0])

    def _sums(self, here: Any, groups: int, length: int) -> Floats:
        group = np.arange(len(here)) // length
        return _counted(group * self.num_states + here, groups, self.num_states)


class TableValueSums(TabularValueSums):
    """Batch sums of moments for states whose features are in a table.

    Moves between states are counted as for tabular features, and become sums of products of features at the
    end. So a step costs the same however many features there are.

    Parameters
    ----------
    table : (n, d) array
        Features of all states.
    num_chains : int
        Number of chains that are read together.

    Examples
    --------
    >>> sums = TableValueSums(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> sums.add([0, 1], [5.0, 7.0], [1, 0])
    >>> sums.totals(0)[0].reward_features
    array([12., 14.])
    """

    most_features = MOST_LEAST_SQUARES_FEATURES

    def __init__(self, table: Floats, num_chains: int = 1) -> None:
        super().__init__(table.shape[1], num_chains)
        self._table, self.num_states = table, len(table)
        self._last_totals: tuple[tuple[int, int], tuple[Moments, Floats]] | None = None

    def projected(self, batch: Moments, weights: Floats) -> Moments:
        """Return means over a batch, with the product of the matrix and weights instead of the matrix."""
        means, values = batch.means, self._table @ weights
        return self._of_features(means._replace(matrix=means.features * values - means.matrix @ values))

    def totals(self, skipped: int) -> tuple[Moments, Floats]:
        """Return sums over the steps after the first `skipped` batches, and of phi phi^T over all steps."""
        asked = skipped, self.steps
        if self._last_totals is None or self._last_totals[0] != asked:  # they are asked for twice
            total, visits = super().totals(skipped)
            squares = self._table.T @ (visits[:, None] * self._table)
            product = dense(total.matrix) @ self._table
            self._last_totals = asked, (self._of_features(total._replace(matrix=product)), squares)
        return self._last_totals[1]

    def _of_features(self, moments: Moments) -> Moments:
        """Return moments of features, given those of states, with a product in the place of their matrix."""
        return moments._replace(
            matrix=self._table.T @ moments.matrix,
            features=self._table.T @ moments.features,
            reward_features=self._table.T @ moments.reward_features,
            duration_features=self._table.T @ moments.duration_features,
        )

    def _sums(self, here: Any, groups: int, length: int) -> Floats:
        if length * STATES_PER_STEP < self.num_states:  # nearly all counts would be 0
            return np.asarray(self._table[here].reshape(groups, length, -1).sum(axis=1))
        return np.asarray(super()._sums(here, groups, length) @ self._table)


@bare_kernel
def add_steps(
    here: Ints, after: Ints, rewards: Floats, durations: Floats, moves: Floats, paid: Floats, lasted: Floats
) -> None:
    """Count moves between states, and add up by state what the steps out of it paid, and how long they took.

    Parameters
    ----------
    here, after : (m,) int arrays
    rewards : (m,) array
    durations : (m,) or (0,) array
        Without any, nothing is added to `lasted`.
    moves, paid, lasted : (d, d), (d,) and (d,) arrays
        Zeros before.
    """
    for step in range(len(here)):
        state = here[step]
        moves[state, after[step]] += 1.0
        paid[state] += rewards[step]
        if len(durations) > 0:
            lasted[state] += durations[step]


@plain_form(add_steps)
def add_steps_at_once(
    here: Ints, after: Ints, rewards: Floats, durations: Floats, moves: Floats, paid: Floats, lasted: Floats
) -> None:
    """Do what `add_steps` does, one table after the other."""
    d = len(moves)
    moves += _counted(here * d + after, d, d)
    paid += _counted(here, 1, d, rewards)[0]
    if len(durations) > 0:
        lasted += _counted(here, 1, d, durations)[0]


def _balanced(moments: Moments) -> Moments:
    """Return moments of states with their matrix, given them with moves in its place."""
    moves, visits = moments.matrix, moments.features
    if isinstance(moves, np.ndarray):
        return moments._replace(matrix=np.diag(visits) - moves)
    return moments._replace(matrix=sparse.csr_array(sparse.diags_array(visits) - moves))


def _stacked(parts: Sequence[Any]) -> Any:
    """Return arrays, or sparse arrays, below each other."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sparse.vstack(parts, format="csr")


def _counted(places: Any, rows: int, columns: int, weights: Floats | None = None) -> Floats:
    """Return how often each cell of a table occurs, or the sum of its weights."""
    counts = np.bincount(places, weights, minlength=rows * columns)
    return np.asarray(counts, dtype=np.float64).reshape(rows, columns)
