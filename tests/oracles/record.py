"""The record every chain builder returns, and the extended precision the answers are computed in."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

# 64 bits of mantissa on x86 and 113 on other Linux machines: eleven bits or more beyond what is tested.
Extended = np.longdouble
assert np.finfo(Extended).eps < 1.1e-19, "the closed forms need an extended floating-point type"

Floats = NDArray[np.float64]
Wide = NDArray[np.longdouble]
Matrix = csr_array | Floats


@dataclass(frozen=True)
class ExactChain:
    """A chain and its answer; ``stationary @ bias = 0``.

    ``transitions`` has unit row sums, except in chains made by a function whose name ends in ``_rates``:
    there it is a generator, ``rewards`` are earned per unit of time, and so is ``gain``.
    """

    transitions: Matrix
    rewards: Floats
    stationary: Floats
    gain: float
    bias: Floats
    asymptotic_variance: float | None = None

    @property
    def num_states(self) -> int:
        return int(self.transitions.shape[0])

    def permuted(self, order: ArrayLike) -> "ExactChain":
        """The same chain with its states listed in another order."""
        order = np.asarray(order)
        return replace(
            self,
            transitions=self.transitions[order][:, order],
            rewards=self.rewards[order],
            stationary=self.stationary[order],
            bias=self.bias[order],
        )


def wide(values: ArrayLike) -> Wide:
    """The same numbers in extended precision."""
    return np.asarray(values, dtype=Extended)


def finished(
    transitions: Matrix, rewards: ArrayLike, stationary: Wide, bias: Wide, gain: ArrayLike | None = None
) -> ExactChain:
    """The record of a chain whose law and bias (up to a constant) are known in extended precision.

    The asymptotic variance is ``2 <R - g, W> - <R - g, R - g>`` in the stationary law: the sum of all
    autocovariances, and not the formula the package uses.
    """
    exact_rewards = wide(rewards)
    exact_gain = (stationary * exact_rewards).sum() if gain is None else wide(gain)
    excess = exact_rewards - exact_gain
    centred = bias - (stationary * bias).sum()
    variance = (stationary * excess * (2 * centred - excess)).sum()
    return ExactChain(
        transitions=transitions,
        rewards=exact_rewards.astype(np.float64),
        stationary=stationary.astype(np.float64),
        gain=float(exact_gain),
        bias=centred.astype(np.float64),
        asymptotic_variance=float(variance),
    )


def from_entries(rows: list[NDArray], columns: list[NDArray], values: list[ArrayLike], n: int) -> csr_array:
    """A stochastic matrix from its off-diagonal entries; the diagonal is what is missing to one."""
    row = np.concatenate(rows)
    column = np.concatenate(columns)
    value = np.concatenate([np.broadcast_to(v, r.shape) for v, r in zip(values, rows, strict=True)])
    away = row != column
    leaving = np.bincount(row[away], weights=value[away], minlength=n)
    assert leaving.max() <= 1.0, "the entries of a row exceed one"
    states = np.arange(n)
    matrix = csr_array(
        (
            np.concatenate([value[away], 1.0 - leaving]),
            (np.concatenate([row[away], states]), np.concatenate([column[away], states])),
        ),
        shape=(n, n),
    )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
