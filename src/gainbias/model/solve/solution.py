"""The answers of `solve`, and what all of its methods have in common.

`solve` returns a `Solution` or a `MultichainSolution`; it gives an `AccuracyWarning` when they miss the
tolerance, and raises a `ConvergenceError` when nothing useful is known. `Solver` is the interface of every
method, `Budget` has the limits within which it works, and a method gives up with a `MethodError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from gainbias.model.checks import CsrArray
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.sensitivity import Sensitivity
from gainbias.model.solve.turns import Meter
from gainbias.model.structure import Structure
from gainbias.notebook import SHOWN_ROWS, Card, InNotebooks, states_of
from gainbias.progress import Watch
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas as pd

    from gainbias.model.chain.accuracy import Accuracy

NO_VARIANCE = (
    "the asymptotic variance needs the variances of the durations: pass duration_variances to "
    "MarkovRewardProcess (0 for durations that are fixed, their squares for exponential ones)"
)


@dataclass(frozen=True, eq=False)
class Solution(InNotebooks):
    """The exact long-run answer for a process with one recurrent class.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    rewards : ndarray, shape (n,)
        The expected rewards per step that this answers: those of the process, or of one of `extra_rewards`.
    stationary : ndarray, shape (n,)
        Fraction of time spent in each state. Accurate entry by entry with elimination; with iterative
        methods accurate in total, and entry by entry unless a note says otherwise.
    stationary_error : ndarray, shape (n,)
        Absolute error of each probability. A bound for each with elimination; with iterative methods all are
        estimated by `stationary_error_total`. Probabilities of transient states are exactly 0.
    stationary_error_total : float
        Sum of the absolute errors of all probabilities: a bound for elimination, otherwise an estimate.
    embedded, embedded_error : ndarray, shape (n,)
        Fraction of steps taken from each state, and its absolute error. It differs from `stationary` if the
        process has durations. Steps of a process made by `from_rates` are those of the uniformised chain: a
        state that is left slowly has more of them, so this is not the law of its jumps.
    gain : float
        Average reward per step, or per unit of time for a process with durations or made by `from_rates`.
    gain_error : float
        Bound on the absolute error of `gain`, by any method.
    bias : ndarray, shape (n,)
        Relative value of each state, with ``stationary @ bias == 0``.
    bias_error : ndarray, shape (n,)
        Absolute error of each bias, infinite if nothing is known: bounds for elimination; for iterative
        methods an estimate, the same for all states.
    asymptotic_variance : float
        Variance of the average reward over T steps times T, as T grows (units of time if the gain is per unit
        of time). A ValueError if the process has durations without their variances.
    asymptotic_variance_error : float
        Bound on the absolute error of `asymptotic_variance`, infinite if nothing is known. A variance that is
        smaller than this may be 0, and has no certain digit: then a note says so.
    variance_per_step, variance_per_step_error : float
        The same for steps, which differs for a process made by `from_rates`. A ValueError if the process has
        durations: see `MarkovRewardProcess.embedded_chain`.
    error_bound : float
        Summary: the error of the gain relative to ``max |R|`` (``max |R / tau + rho|`` with durations) or
        the largest error of the bias relative to its span, whichever is larger.
    residual : float
        ``max |bias + gain - P bias - R|`` over the larger of ``max |R|`` and the span of the bias. With
        durations tau and reward rates rho it is that of ``bias == R + (rho - gain) tau + P bias``.
    method : str
        Method that gave the answer.
    iterations : int
        Matrix-vector products or sweeps, 0 for a direct method.
    notes : tuple of str
        The methods that were tried before, and remarks about how this one worked.
    extra : mapping of str to Solution
        The answers for `extra_rewards`.

    Examples
    --------
    >>> import gainbias as gb
    >>> solution = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0]))
    >>> solution.gain, solution.bias.round(6).tolist()
    (1.5, [-0.833333, 4.166667])
    >>> solution.gain_error < 1e-15, float(solution.bias_error.max()) < 2e-15
    (True, True)

    The errors are those for the process as it is stored: its transitions and rewards are taken as exact, and
    the probability of staying in a state is 1 minus the sum of the other entries of its row.
    """

    mrp: MarkovRewardProcess
    rewards: Floats
    stationary: Floats
    stationary_error: Floats
    stationary_error_total: float
    embedded: Floats
    embedded_error: Floats
    gain: float
    gain_error: float
    bias: Floats
    bias_error: Floats
    _variance: tuple[float, float] | None
    _step_variance: tuple[float, float] | None
    error_bound: float
    residual: float
    method: str
    iterations: int
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Solution] = field(default_factory=dict)

    @property
    def asymptotic_variance(self) -> float:
        """Variance of the average reward over T steps, or units of time, times T, as T grows."""
        return self._known_variance()[0]

    @property
    def asymptotic_variance_error(self) -> float:
        """Bound on the absolute error of `asymptotic_variance`."""
        return self._known_variance()[1]

    @property
    def variance_per_step(self) -> float:
        """Variance of the average reward over T steps times T, as T grows."""
        return self._known_step_variance()[0]

    @property
    def variance_per_step_error(self) -> float:
        """Bound on the absolute error of `variance_per_step`."""
        return self._known_step_variance()[1]

    @property
    def gain_per_step(self) -> float:
        """Average reward per step, for processes with durations or made by `from_rates` too."""
        if self.mrp.mean_durations is not None:
            return self.gain * float(self.embedded @ self.mrp.mean_durations.rewards.high)
        return self.gain / (self.mrp.rate or 1.0)

    def _known_variance(self) -> tuple[float, float]:
        if self._variance is None:
            raise ValueError(NO_VARIANCE)
        return self._variance

    def _known_step_variance(self) -> tuple[float, float]:
        if self._step_variance is None:
            raise ValueError(
                "variance_per_step is not known for a process with durations: solve mrp.embedded_chain()"
            )
        return self._step_variance

    def __repr__(self) -> str:
        names = ["mrp", "gain", "gain_error"]
        if self._variance is not None:
            names += ["asymptotic_variance", "asymptotic_variance_error"]
        names += ["error_bound", "residual", "method", "iterations"]
        return f"Solution({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __str__(self) -> str:
        labels = self.mrp.labels
        low, high = (
            f"{self.bias[state]:.6g} at {state if labels is None else labels[state]}"
            for state in (int(np.argmin(self.bias)), int(np.argmax(self.bias)))
        )
        lines = [
            f"gain      {self.gain:.10g}, off by at most {self.gain_error:.2g}",
            f"bias      highest {high}, lowest {low}; relative, with mean 0",
            f"method    {self.method}",
            *(f"note      {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per state, indexed by label: stationary, reward, bias (needs pandas).

        With durations it also has duration, embedded (the fraction of steps) and reward_rate.

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
        if self.mrp.mean_durations is not None:
            columns["duration"] = self.mrp.mean_durations.rewards.high
            columns["embedded"] = self.embedded
        if self.mrp.reward_rates is not None and self.rewards is self.mrp.rewards:
            columns["reward_rate"] = self.mrp.reward_rates
        return pd.DataFrame(columns, index=pd.Index(labels, name="state"))

    def accuracy(self, *, derived: bool = False, eps: float = 0.25) -> Accuracy:
        """Return a table with the absolute error of each quantity.

        It has rows for gain, bias (the worst state), stationary (the entry that is worst relative to itself,
        or the sum of all errors for an iterative method) and asymptotic_variance. An error is a "bound"
        that rounding cannot break, or an "estimate" that was measured.

        Parameters
        ----------
        derived : bool
            Whether to measure `kemeny_constant`, `deviation_matrix` (the worst entry), `spectral_gap` and
            `mixing_time` too. The first two take a few solves per state, and are left out above 1000 states.
        eps : float
            Distance for the mixing time.

        Examples
        --------
        >>> import gainbias as gb
        >>> solution = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0]))
        >>> table = solution.accuracy(derived=True)
        >>> [row.quantity for row in table.rows][3:5], table["mixing_time"].value
        (['asymptotic_variance', 'kemeny_constant'], 3)
        >>> table["kemeny_constant"].error < 1e-15
        True
        """
        from gainbias.model.chain.accuracy import accuracy_of

        return accuracy_of(self, derived=derived, eps=eps)

    def sensitivity(self) -> Sensitivity:
        """Return how the gain reacts to small changes of rewards and transitions, each number with its error.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
        >>> round(gb.solve(machine).sensitivity().along([[-1.0, 1.0], [0.0, 0.0]]), 6)
        4.166667
        """
        refuse_durations(self.mrp, "sensitivity")
        with_rewards = self.mrp.transition_rewards is not None and self.rewards is self.mrp.rewards
        return Sensitivity(
            self.mrp, self.stationary, self.bias, self.stationary_error, self.bias_error, with_rewards
        )

    def _card(self) -> Card:
        error = f" (error at most {self.gain_error:.1g})"
        facts = {"gain": f"{self.gain:.10g}{error}", "process": self.mrp, "method": self.method}
        if self._variance is not None:
            facts["asymptotic variance"] = f"{self.asymptotic_variance:.6g}"
        columns = {"share of time": self.stationary, "reward": self.rewards, "bias": self.bias}
        left = self.mrp.num_states - SHOWN_ROWS
        return Card("Solution", facts, states_of(self.mrp.labels, **columns), left_out=left)


@dataclass(frozen=True, eq=False)
class MultichainSolution(InNotebooks):
    """The exact long-run answer for a process with any number of recurrent classes.

    Attributes
    ----------
    mrp : MarkovRewardProcess
        The process.
    structure : Structure
        Its recurrent classes and transient states.
    rewards : ndarray, shape (n,)
        The expected rewards per step that this answers, as in `Solution`.
    stationary : csr_array, shape (classes, n)
        One stationary law for each recurrent class.
    stationary_error : ndarray, shape (n,)
        Absolute error of the probability of each state in its class, as in `Solution`; 0 for transient
        states.
    embedded, embedded_error
        The same for steps, as in `Solution`.
    class_gains : ndarray, shape (classes,)
        Average reward of each recurrent class.
    gain, gain_error : ndarray, shape (n,)
        Average reward when started in each state, and a bound on its absolute error.
    bias : ndarray, shape (n,)
        Relative value of each state: ``bias + gain == R + P @ bias``, with average 0 on every recurrent
        class (``bias + gain * tau == R + rho * tau + P @ bias`` with durations tau and reward rates rho).
    bias_error : ndarray, shape (n,)
        Absolute error of each bias, infinite if nothing is known: as in `Solution` on each class. On
        transient states it follows from the errors of the classes that they lead to, and adds no estimate.
    class_asymptotic_variances, class_asymptotic_variance_errors : ndarray, shape (classes,)
        The asymptotic variance of each recurrent class, and its error, as in `Solution`. A ValueError if the
        process has durations without their variances.
    error_bound, residual
        As in `Solution`, relative to the rewards and the bias of all states.
    method : str
        The methods that gave the answers for the recurrent classes, separated by commas.
    notes : tuple of str
        How each class and the transient states were solved.
    extra : mapping of str to MultichainSolution
        The answers for `extra_rewards`.

    Examples
    --------
    >>> import gainbias as gb
    >>> gambler = [[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]
    >>> gb.solve(gb.MarkovRewardProcess(gambler, [0.0, 0.0, 3.0]), multichain=True).gain.tolist()
    [0.0, 1.5, 3.0]
    """

    mrp: MarkovRewardProcess
    structure: Structure = field(repr=False)
    rewards: Floats = field(repr=False)
    stationary: CsrArray = field(repr=False)
    stationary_error: Floats = field(repr=False)
    embedded: CsrArray = field(repr=False)
    embedded_error: Floats = field(repr=False)
    class_gains: Floats
    gain: Floats = field(repr=False)
    gain_error: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    bias_error: Floats = field(repr=False)
    _class_variances: tuple[Floats, Floats] | None = field(repr=False)
    error_bound: float
    residual: float
    method: str
    notes: tuple[str, ...] = field(default=(), repr=False)
    extra: Mapping[str, MultichainSolution] = field(default_factory=dict, repr=False)

    @property
    def class_asymptotic_variances(self) -> Floats:
        """The asymptotic variance of each recurrent class, (classes,)."""
        return self._known_variances()[0]

    @property
    def class_asymptotic_variance_errors(self) -> Floats:
        """Bounds on the absolute errors of `class_asymptotic_variances`, (classes,)."""
        return self._known_variances()[1]

    def _known_variances(self) -> tuple[Floats, Floats]:
        if self._class_variances is None:
            raise ValueError(NO_VARIANCE)
        return self._class_variances

    def __str__(self) -> str:
        names, count = self.mrp.labels, len(self.classes)
        lines = [f"classes   {count} recurrent, {len(self.structure.transient):,} transient states"]
        for states, gain in list(zip(self.classes, self.class_gains, strict=True))[:SHOWN_ROWS]:
            first = states[0] if names is None else names[states[0]]
            off = f"off by at most {self.gain_error[states[0]]:.2g}"
            lines.append(f"gain      {gain:.10g}, {off}: class of {first}, states: {len(states):,}")
        if count > SHOWN_ROWS:
            lines.append(f"          {count - SHOWN_ROWS:,} more are in class_gains")
        lines += [f"method    {self.method}", *(f"note      {note}" for note in self.notes)]
        return "\n".join(lines)

    @property
    def classes(self) -> tuple[NDArray[np.intp], ...]:
        """The states of each recurrent class."""
        return self.structure.recurrent

    def accuracy(self) -> Accuracy:
        """Return a table with the absolute error of each quantity, as `Solution.accuracy` does.

        It has rows for gain and bias (the worst states), stationary (the entry that is worst relative to
        itself) and asymptotic_variance (the worst class).

        Examples
        --------
        >>> import gainbias as gb
        >>> gambler = gb.MarkovRewardProcess([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.0, 0.0, 3.0])
        >>> table = gb.solve(gambler, multichain=True).accuracy()
        >>> [row.quantity for row in table.rows], table["bias"].error < 1e-15
        (['gain', 'bias', 'stationary', 'asymptotic_variance'], True)
        """
        from gainbias.model.chain.accuracy import accuracy_of_classes

        return accuracy_of_classes(self)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per state, indexed by label: class, stationary, reward, gain, bias.

        The class of a transient state is -1, and its stationary probability is 0. Needs pandas.

        Examples
        --------
        >>> import gainbias as gb
        >>> gambler = gb.MarkovRewardProcess([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.0, 0.0, 3.0])
        >>> gb.solve(gambler, multichain=True).to_frame()
               class  stationary  reward  gain  bias
        state
        0          0         1.0     0.0   0.0   0.0
        1         -1         0.0     0.0   1.5  -1.5
        2          1         1.0     3.0   3.0   0.0
        """
        import pandas as pd

        labels = self.mrp.labels if self.mrp.labels is not None else range(self.mrp.num_states)
        return pd.DataFrame(self._columns(), index=pd.Index(labels, name="state"))

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns about each state."""
        classes = np.full(self.mrp.num_states, -1)
        for number, states in enumerate(self.classes):
            classes[states] = number
        share: Floats = np.asarray(self.stationary.sum(axis=0)).ravel()
        numbers = {"stationary": share, "reward": self.rewards, "gain": self.gain, "bias": self.bias}
        return {"class": classes, **numbers}

    def _card(self) -> Card:
        facts = {"classes": len(self.classes), "gain of each": self.class_gains, "process": self.mrp}
        rows, left = states_of(self.mrp.labels, **self._columns()), self.mrp.num_states - SHOWN_ROWS
        return Card("MultichainSolution", facts, rows, left_out=left)


class ConvergenceError(RuntimeError):
    """No method gave a useful answer within the limits; the message lists what was tried and reached."""


class AccuracyWarning(UserWarning):
    """An answer misses the tolerance; the message says which part of it, and each number has its error.

    Examples
    --------
    >>> import warnings, gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, -2.0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     solution = gb.solve(machine, tol=1e-20)
    >>> caught[0].category.__name__, solution.gain_error < 1e-15
    ('AccuracyWarning', True)
    """


class Solver(Protocol):
    """A chain that is ready to be solved for many right sides."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def stationary(self) -> Floats:
        """Stationary law, (n,); with several recurrent classes each of them sums to one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user about how the method worked."""

    @property
    def iterations(self) -> int:
        """Matrix-vector products or sweeps so far, 0 for a direct method."""

    @property
    def tolerance(self) -> float:
        """Residual at which `solve` stops relative to its right side, 0 for a direct method."""

    def average(self, values: Floats) -> Floats:
        """Return the long-run average of `values` from each state, (n,)."""

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right`` and average 0, for a right side (n,) with average 0."""


@dataclass(frozen=True)
class Budget:
    """Limits on the memory (bytes) and time that a method may use, and the meter that counts its work."""

    max_memory: float
    watch: Watch
    meter: Meter = field(default_factory=Meter)


class MethodError(Exception):
    """A method cannot solve this chain; the text says why. The next method takes over."""


def available_memory() -> float:
    """Return the free memory of this machine in bytes, as far as the system tells.

    Examples
    --------
    >>> available_memory() > 1e6
    True
    """
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4e9
