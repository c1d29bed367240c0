"""How the gain reacts to small changes of a process.

`Sensitivity` is what `Solution.sensitivity` returns. A change of rewards by dR moves the gain by mu dR, with
mu the stationary law, and a change of transitions by dP, whose rows sum to 0, by mu dP W, with W the bias.
That is kept as the two vectors: nothing here is an (n, n) array unless the process is dense.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gainbias.model.checks import (
    EPSILON,
    ROW_SUM_TOLERANCE,
    CsrArray,
    entry_rows,
    float_csr,
    row_sums,
    values_at,
)
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The derivatives of the gain.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    stationary : ndarray, shape (n,)
        Derivative of the gain with respect to the reward of each state (its reward rate for a process made
        by `from_rates`): the stationary law.
    bias : ndarray, shape (n,)
        What it is worth to be in each state.
    with_rewards : bool
        Whether rewards of transitions, r(s, s'), change with the transitions. They do not if the process has
        rewards of states only, or the solution answers one of `extra_rewards`.

    Examples
    --------
    >>> import gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0], labels=["up", "down"])
    >>> effects = gb.solve(machine).sensitivity()
    >>> effects.stationary.round(6).tolist()
    [0.833333, 0.166667]
    >>> round(effects.along([[-1.0, 1.0], [0.0, 0.0]]), 6)
    4.166667
    """

    mrp: MarkovRewardProcess
    stationary: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    with_rewards: bool

    def along(self, change: Any) -> float:
        """Return the derivative of the gain along a change of transitions whose rows sum to 0.

        Parameters
        ----------
        change : array_like or scipy.sparse array or matrix, shape (n, n)
            Direction dP, such as the difference of two chains. For a process made by `from_rates` it is a
            change of the generator, and the derivative that of the gain per unit of time.

        Returns
        -------
        float
            To first order, the gain of ``P + t dP`` is larger by t times this.

        Raises
        ------
        ValueError
            If the shape is wrong, or a row does not sum to 0 up to rounding.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
        >>> round(gb.solve(machine).sensitivity().along([[0.0, 0.0], [1.0, -1.0]]), 6)
        -0.833333
        """
        moved = float_csr(change, "change")
        n = self.mrp.num_states
        if moved.shape != (n, n):
            raise ValueError(
                f"change must have shape ({n}, {n}), one row for each state, found {moved.shape}"
            )
        sums = row_sums(moved)
        sizes = row_sums(abs(moved))
        # A difference of two chains has the rounding of both, which may be all that it has.
        rounding = 4 * EPSILON * (np.diff(moved.indptr) + 1) * (self.mrp.rate or 1.0)
        wrong = np.flatnonzero(np.abs(sums) > ROW_SUM_TOLERANCE * sizes + rounding)
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"row {row} of change sums to {sums[row]:g}, must be 0: what is added to some transitions of "
                "a state is taken from others"
            )
        source = entry_rows(moved)
        return float(np.sum(self.stationary[source] * moved.data * self._gained(moved)))

    def transitions(self) -> CsrArray:
        """Return the effect of each transition on the gain, a csr_array (n, n) with the pattern of P.

        The entry at (s, s') is the derivative of the gain as probability moves to s' from all successors of
        s, in proportion to their probabilities. For a process made by `from_rates` it is the derivative with
        respect to the rate from s to s', and 0 on the diagonal.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
        >>> gb.solve(machine).sensitivity().transitions().toarray().round(6).tolist()
        [[-0.416667, 3.75], [-0.416667, 0.416667]]
        """
        pattern = self.mrp.csr
        source = entry_rows(pattern)
        gained = self._gained(pattern)
        if self.mrp.rate is None:
            mean = np.bincount(source, pattern.data * gained, minlength=self.mrp.num_states)
            gained = gained - mean[source]
        effects = pattern.copy()
        effects.data = self.stationary[source] * gained
        return effects

    def largest(self, count: int = 10) -> pd.DataFrame:
        """Return a table of the transitions with the largest effect, by label, largest first (needs pandas).

        Parameters
        ----------
        count : int
            Number of rows at most.

        Returns
        -------
        DataFrame
            Columns: state, successor, probability (rate for a process made by `from_rates`), effect as in
            `transitions`.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0], labels=["up", "down"])
        >>> gb.solve(machine).sensitivity().largest(2).round(3)
          state successor  probability  effect
        0    up      down          0.1   3.750
        1    up        up          0.9  -0.417
        """
        import pandas as pd

        is_whole = not (isinstance(count, bool | np.bool_) or not isinstance(count, int | np.integer))
        if not is_whole or count < 1:
            raise ValueError(f"count must be a whole number of at least 1, found {count!r}")
        effects, rate = self.transitions(), self.mrp.rate
        source, target = entry_rows(effects), effects.indices
        # A state that stays longer is no transition of continuous time.
        entries = np.arange(effects.nnz) if rate is None else np.flatnonzero(source != target)
        order = entries[np.argsort(-np.abs(effects.data[entries]), kind="stable")[:count]]
        names = self.mrp.labels if self.mrp.labels is not None else range(self.mrp.num_states)
        return pd.DataFrame(
            {
                "state": [names[s] for s in source[order]],
                "successor": [names[s] for s in target[order]],
                "probability" if rate is None else "rate": self.mrp.csr.data[order] * (rate or 1.0),
                "effect": effects.data[order],
            }
        )

    def _gained(self, pattern: CsrArray) -> Floats:
        """Return what a step along each stored entry gains: in value, and in reward if that depends on it."""
        gained = self.bias[pattern.indices] - self.bias[entry_rows(pattern)]
        if self.with_rewards and self.mrp.transition_rewards is not None:
            gained = gained + values_at(self.mrp.transition_rewards, pattern)
        return gained
