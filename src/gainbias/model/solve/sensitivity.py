"""How the gain reacts to small changes of a process.

`Sensitivity` is what `Solution.sensitivity` returns. A change of rewards by dR moves the gain by mu dR, with
mu the stationary law, and a change of transitions by dP, whose rows sum to 0, by mu dP W, with W the bias.
Only the two vectors are stored: nothing here is an (n, n) array unless the process is dense.

As everywhere, the stored probability of staying is not read: it is 1 minus the other entries of a row. So
each transition counts by its gain over staying. The errors of law and bias say how far that may be off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

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
from gainbias.model.solve.elimination.law import SMALLEST_NORMAL
from gainbias.notebook import InNotebooks
from gainbias.types import Floats, Ints, is_count

if TYPE_CHECKING:
    import pandas as pd


class _Effects(NamedTuple):
    """Numbers for the stored entries of a matrix, (m,), and their absolute errors."""

    value: Floats
    error: Floats


@dataclass(frozen=True, eq=False)
class Sensitivity(InNotebooks):
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
    stationary_error, bias_error : ndarray, shape (n,)
        Their absolute errors, as in `Solution`.
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
    >>> effects.along_error([[-1.0, 1.0], [0.0, 0.0]]) < 1e-14
    True
    """

    mrp: MarkovRewardProcess
    stationary: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    stationary_error: Floats = field(repr=False)
    bias_error: Floats = field(repr=False)
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
        return self._along(change)[0]

    def along_error(self, change: Any) -> float:
        """Return the absolute error of `along` for the same change.

        It follows from the errors of law and bias, so it is a bound for elimination, an estimate for
        iterative methods, and infinite if nothing is known.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
        >>> 0.0 < gb.solve(machine).sensitivity().along_error([[0.0, 0.0], [1.0, -1.0]]) < 1e-14
        True
        """
        return self._along(change)[1]

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
        return self._on_pattern(self._of_transitions().value)

    def transitions_error(self) -> CsrArray:
        """Return the absolute error of each entry of `transitions`, of the same pattern (see `along_error`).

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
        >>> bool(gb.solve(machine).sensitivity().transitions_error().max() < 1e-14)
        True
        """
        return self._on_pattern(self._of_transitions().error)

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
            `transitions`, and its error.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0], labels=["up", "down"])
        >>> gb.solve(machine).sensitivity().largest(2).round(3)
          state successor  probability  effect  error
        0    up      down          0.1   3.750    0.0
        1    up        up          0.9  -0.417    0.0
        """
        import pandas as pd

        if not is_count(count):
            raise ValueError(f"count must be a whole number of at least 1, found {count!r}")
        effects, rate = self._of_transitions(), self.mrp.rate
        source, target = entry_rows(self.mrp.csr), self.mrp.csr.indices
        # Staying is not a transition in continuous time.
        entries = np.arange(len(source)) if rate is None else np.flatnonzero(source != target)
        order = entries[np.argsort(-np.abs(effects.value[entries]), kind="stable")[:count]]
        names = self.mrp.labels if self.mrp.labels is not None else range(self.mrp.num_states)
        return pd.DataFrame(
            {
                "state": [names[s] for s in source[order]],
                "successor": [names[s] for s in target[order]],
                "probability" if rate is None else "rate": self.mrp.csr.data[order] * (rate or 1.0),
                "effect": effects.value[order],
                "error": effects.error[order],
            }
        )

    def _along(self, change: Any) -> tuple[float, float]:
        """Return the derivative along a change, and its error."""
        moved = float_csr(change, "change")
        n = self.mrp.num_states
        if moved.shape != (n, n):
            raise ValueError(
                f"change must have shape ({n}, {n}), one row for each state, found {moved.shape}"
            )
        sums = row_sums(moved)
        sizes = row_sums(abs(moved))
        # A difference of two chains has the rounding of both, which may be all there is.
        rounding = 4 * EPSILON * (np.diff(moved.indptr) + 1) * (self.mrp.rate or 1.0)
        wrong = np.flatnonzero(np.abs(sums) > ROW_SUM_TOLERANCE * sizes + rounding)
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"row {row} of change sums to {sums[row]:g}, must be 0: what is added to some transitions of "
                "a state is taken from others"
            )
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gained, off = self._gained(moved)
            source, size = entry_rows(moved), np.abs(moved.data)
            value = _sum_of(self.stationary[source] * (moved.data * gained))
            error = self._weighted(source, _Effects(size * np.abs(gained), size * off))
            total = _sum_of(error + 4.0 * EPSILON * self.stationary[source] * size * np.abs(gained))
        # A sum of nothing that may be off has no error.
        bound = total * (1.0 + 2.0 * EPSILON) + SMALLEST_NORMAL if total != 0.0 else 0.0
        return value, math.inf if math.isnan(bound) else bound

    def _of_transitions(self) -> _Effects:
        """Return the entries of `transitions`, with errors."""
        pattern, n = self.mrp.csr, self.mrp.num_states
        source, length = entry_rows(pattern), np.diff(pattern.indptr)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gained, off = self._gained(pattern)
            if self.mrp.rate is None:

                def mean(values: Floats) -> Floats:
                    return np.bincount(source, pattern.data * values, n).astype(np.float64, copy=False)

                rounding = (length + 4.0) * EPSILON * mean(np.abs(gained))
                gained, off = gained - mean(gained)[source], off + (mean(off) + rounding)[source]
                off += EPSILON * np.abs(gained)
            error = self._weighted(source, _Effects(np.abs(gained), off))
            effects = self.stationary[source] * gained
            # Products that are too small to be numbers lose less than the last.
            error += 2.0 * EPSILON * np.abs(effects) + SMALLEST_NORMAL * (error > 0.0)
        return _Effects(effects, np.where(np.isnan(error), np.inf, error))

    def _weighted(self, source: Ints, sizes: _Effects) -> Floats:
        """Return the errors of numbers of these sizes and errors, weighted with the law of their states."""
        law, off = self.stationary[source], self.stationary_error[source]
        return np.asarray(((law + off) * sizes.error + off * sizes.value) * (1.0 + 8.0 * EPSILON))

    def _on_pattern(self, entries: Floats) -> CsrArray:
        effects = self.mrp.csr.copy()
        effects.data = entries
        return effects

    def _gained(self, pattern: CsrArray) -> _Effects:
        """Return the gain of a step along each stored entry over staying, in value and perhaps in reward."""
        source, target = entry_rows(pattern), pattern.indices
        gained = self.bias[target] - self.bias[source]
        off = self.bias_error[target] + self.bias_error[source] + EPSILON * np.abs(gained)
        earned = self.mrp.transition_rewards
        if self.with_rewards and earned is not None:
            entries, staying = values_at(earned, pattern), earned.diagonal()[source]
            more = entries - staying
            gained = gained + more
            off += EPSILON * (np.abs(more) + np.abs(gained))
            if self.mrp.doubled_entries is not None and self.mrp.doubled_entries.rest.any():
                # They are means of other rewards, rounded.
                off += EPSILON * (np.abs(entries) + np.abs(staying))
        moves = source != target
        return _Effects(np.where(moves, gained, 0.0), np.where(moves, off, 0.0))


def _sum_of(values: Floats) -> float:
    """Return a sum, rounded once; nan if it is not known or overflows."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan
