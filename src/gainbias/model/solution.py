"""What `solve` returns, and what it raises when it cannot keep its promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gainbias.model.checks import CsrArray, FloatArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.structure import Structure

if TYPE_CHECKING:
    import pandas as pd


class ConvergenceError(RuntimeError):
    """No method met the tolerance within the limits; the message lists what was tried and reached."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The exact long-run answer for a process with one recurrent class.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : ndarray, shape (n,)
        The expected rewards per step that this answers: those of the process, or of one of `extra_rewards`.
    stationary : ndarray, shape (n,)
        Fraction of time spent in each state. Elimination has it right entry by entry; methods that iterate
        have it right in total, and entry by entry unless a note says otherwise.
    gain : float
        Average reward per step, or per unit of time for a process made by `from_rates`.
    bias : ndarray, shape (n,)
        Relative value of each state, with ``stationary @ bias == 0``.
    asymptotic_variance : float
        Variance of the average reward over T steps times T, as T grows (per unit of time for `from_rates`).
    error_bound : float
        Estimated forward error: of the gain relative to ``max |R|``, of the bias relative to its span.
    residual : float
        ``max |bias + gain - P bias - R|`` over the larger of ``max |R|`` and the span of the bias.
    method : str
        Method that gave the answer.
    iterations : int
        Matrix-vector products or sweeps, 0 for a direct method.
    notes : tuple of str
        What was tried before, and how the method went about it.
    extra : mapping of str to Solution
        The answers for `extra_rewards`.

    Examples
    --------
    >>> import gainbias as gb
    >>> solution = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0]))
    >>> solution.gain, solution.bias.round(6).tolist()
    (1.5, [-0.833333, 4.166667])
    """

    mrp: MarkovRewardProcess
    rewards: FloatArray = field(repr=False)
    stationary: FloatArray = field(repr=False)
    gain: float
    bias: FloatArray = field(repr=False)
    asymptotic_variance: float
    error_bound: float
    residual: float
    method: str
    iterations: int
    notes: tuple[str, ...] = field(default=(), repr=False)
    extra: Mapping[str, Solution] = field(default_factory=dict, repr=False)

    @property
    def gain_per_step(self) -> float:
        """Average reward per step, for processes made by `from_rates` too."""
        return self.gain / (self.mrp.rate or 1.0)

    @property
    def variance_per_step(self) -> float:
        """Variance of the average reward over T steps times T, for processes made by `from_rates` too."""
        return asymptotic_variance(
            self.mrp, self.rewards, self.gain_per_step, self.stationary, self.bias, per_step=True
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per state, indexed by label: stationary, reward, bias (needs pandas).

        Examples
        --------
        >>> import gainbias as gb
        >>> mrp = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], labels=["rest", "work"])
        >>> gb.solve(mrp).to_frame()
               stationary  reward  bias
        state
        rest          0.5     0.0 -0.25
        work          0.5     1.0  0.25
        """
        import pandas as pd

        labels = self.mrp.labels if self.mrp.labels is not None else range(self.mrp.num_states)
        columns = {"stationary": self.stationary, "reward": self.rewards, "bias": self.bias}
        return pd.DataFrame(columns, index=pd.Index(labels, name="state"))


@dataclass(frozen=True, eq=False)
class MultichainSolution:
    """The exact long-run answer for a process with any number of recurrent classes.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    structure : Structure
        Its recurrent classes and transient states.
    stationary : csr_array, shape (classes, n)
        One stationary law for each recurrent class.
    class_gains : ndarray, shape (classes,)
        Average reward of each recurrent class.
    gain : ndarray, shape (n,)
        Average reward when started in each state.
    bias : ndarray, shape (n,)
        Relative value of each state: ``bias + gain == R + P @ bias``, with average 0 on every recurrent
        class.
    error_bound, residual, method, notes
        As in `Solution`.

    Examples
    --------
    >>> import gainbias as gb
    >>> gambler = [[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]
    >>> gb.solve(gb.MarkovRewardProcess(gambler, [0.0, 0.0, 3.0]), multichain=True).gain.tolist()
    [0.0, 1.5, 3.0]
    """

    mrp: MarkovRewardProcess
    structure: Structure = field(repr=False)
    stationary: CsrArray = field(repr=False)
    class_gains: FloatArray
    gain: FloatArray = field(repr=False)
    bias: FloatArray = field(repr=False)
    error_bound: float
    residual: float
    method: str
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def classes(self) -> tuple[NDArray[np.intp], ...]:
        """The states of each recurrent class."""
        return self.structure.recurrent


def asymptotic_variance(
    mrp: MarkovRewardProcess,
    rewards: FloatArray,
    gain: float,
    stationary: FloatArray,
    bias: FloatArray,
    *,
    per_step: bool = False,
) -> float:
    """Return the variance in the central limit theorem of the average reward.

    Each step brings ``r(s, s') - g + W(s') - W(s)``, of mean zero whatever came before, so that only its
    own variance counts. In continuous time rewards flow evenly between jumps, and what is random is the
    jumps of W.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : (n,) array
        Expected rewards that gain and bias belong to, per step.
    gain : float
        Gain per step.
    stationary, bias : (n,) arrays
        Stationary law and bias.
    per_step : bool
        Whether steps are counted for a process made by `from_rates` too, not its time.

    Returns
    -------
    float
    """
    csr = mrp.csr
    source = np.repeat(np.arange(mrp.num_states), np.diff(csr.indptr))
    # Only where the chain ever is: elsewhere the bias may be huge, and nothing times that is not nothing.
    visited = np.flatnonzero(stationary[source] > 0.0)
    source, weight = source[visited], (stationary[source] * csr.data)[visited]
    jump = bias[csr.indices[visited]] - bias[source]
    if per_step or mrp.rate is None:
        own = mrp.reward_entries if rewards is mrp.rewards else None
        jump += (rewards[source] if own is None else own[visited]) - gain
        return float(np.sum(weight * jump**2))
    return float(mrp.rate * np.sum(weight * jump**2))
