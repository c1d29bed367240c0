"""The Markov reward process, which the exact solver solves and the engine simulates.

`MarkovRewardProcess` is made from transitions and rewards, from a decision process and a policy, or from
rates; `read_process` reads one from a file. Its steps may have durations: then it is a semi-Markov process.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Self

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from gainbias.model.builders import Averaged, earned_in_steps, follow_policy, uniformise
from gainbias.model.checks import (
    CsrArray,
    check_square,
    check_steps,
    float_csr,
    float_vector,
    frozen,
    probability_csr,
    rounding_unit,
    row_sums,
    state_labels,
    step_array,
    values_at,
)
from gainbias.model.doubled import Doubled, Expected, expected_rewards
from gainbias.model.structure import Structure, class_periods, find_structure
from gainbias.notebook import InNotebooks
from gainbias.types import Floats

TIME_OF_STEPS = ("durations", "reward_rates", "duration_variances")
"""The parameters that make a process a semi-Markov process."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MarkovRewardProcess(InNotebooks):
    """A finite Markov chain with a reward on each step, validated and immutable.

    Parameters
    ----------
    transitions : array_like or scipy.sparse array or matrix, shape (n, n)
        Row s holds the probabilities of the next state. A row that sums to 1 within 1e-8 (or within the
        rounding of its own type, such as float32) is accepted and divided by its sum, unless it is off
        only by rounding. A negative entry counts as 0 if it is only rounding, such as ``1 - up - down`` may
        leave: up to m + 1 units of rounding of its type in a row of m entries.
    rewards : array_like, shape (n,), or array_like or scipy.sparse array or matrix, shape (n, n)
        The expected reward R(s) of a step from each state, or the reward r(s, s') of each transition.
    labels : iterable, optional
        One label per state, for tables.
    renormalise : bool
        Divide every row by its sum, however far that is from 1.
    durations : array_like, shape (n,), or array_like or scipy.sparse array or matrix, shape (n, n), optional
        How long a step takes on average: tau(s) from each state, or tau(s, s') if it depends on the
        successor. All must be positive, and the time of a step that is given as tau(s) must not depend on
        its successor. With durations the process is a semi-Markov process, and gain and bias are per unit of
        time.
    reward_rates : array_like, shape (n,), optional
        Reward per unit of time during the steps from each state, besides `rewards`. It needs `durations`.
    duration_variances : array_like of the shape of `durations`, optional
        Variance of the time of a step, for the same states or transitions as `durations`: 0 if it is always
        the same, and the square of the duration if it is exponential. Only the asymptotic variance and the
        variance of hitting times need it. Rewards of a step must not depend on its time beyond that.

    Attributes
    ----------
    transitions : ndarray or scipy.sparse.csr_array, shape (n, n)
        Dense if the input was dense; a csr_array is sorted, without duplicates and without stored zeros.
    rewards : ndarray, shape (n,)
        Expected one-step rewards R(s), without the contribution of `reward_rates`.
    transition_rewards : None, ndarray or scipy.sparse.csr_array, shape (n, n)
        The rewards r(s, s') if they were given.
    labels : None or tuple
    rate : None or float
        Steps per unit of time if the process came from `from_rates`.
    durations, reward_rates, duration_variances : None, ndarray or scipy.sparse.csr_array
        As given.
    csr : scipy.sparse.csr_array, shape (n, n)
        The transitions in sparse form, for dense input too.

    Examples
    --------
    >>> import gainbias as gb
    >>> machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], rewards=[1.0, -2.0], labels=["up", "down"])
    >>> machine
    MarkovRewardProcess(2 states, 4 transitions, dense, rewards from -2 to 1)
    >>> machine.is_ergodic, machine.max_abs_reward
    (True, 2.0)

    A machine that runs for 9 hours and is then repaired for 1 hour, on average, and earns 5 an hour:

    >>> machine = gb.MarkovRewardProcess([[0, 1], [1, 0]], [0, 0], durations=[9, 1], reward_rates=[5, 0])
    >>> print(f"{gb.solve(machine).gain:.6f} per hour")
    4.500000 per hour
    """

    transitions: Floats | CsrArray
    rewards: Floats
    transition_rewards: Floats | CsrArray | None
    labels: tuple[Any, ...] | None
    rate: float | None
    durations: Floats | CsrArray | None
    reward_rates: Floats | None
    duration_variances: Floats | CsrArray | None
    csr: CsrArray
    _averaged: Averaged | None
    _mean_durations: Expected | None

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        labels: Iterable[Any] | None = None,
        *,
        renormalise: bool = False,
        durations: Any = None,
        reward_rates: ArrayLike | None = None,
        duration_variances: Any = None,
    ) -> None:
        given = float_csr(transitions, "transitions")
        check_square(given.shape, "transitions")
        csr = frozen(
            probability_csr(
                given,
                lambda row: f"row {row} of transitions",
                renormalise=renormalise,
                epsilon=rounding_unit(transitions),
            )
        )
        given_rewards = step_array(rewards, csr.shape[0], "rewards")
        expected = given_rewards
        if given_rewards.ndim == 2:
            earned = csr.copy()
            earned.data = csr.data * values_at(given_rewards, csr)
            expected = frozen(row_sums(earned))
        self._set(
            transitions=csr if sparse.issparse(transitions) else frozen(csr.toarray()),
            rewards=expected,
            transition_rewards=given_rewards if given_rewards.ndim == 2 else None,
            labels=state_labels(labels, csr.shape[0]),
            rate=None,
            csr=csr,
            _averaged=None,
            _mean_durations=None,
            **_time_of_steps(csr, durations, reward_rates, duration_variances),
        )

    @classmethod
    def from_mdp(
        cls,
        kernel: Any,
        rewards: Any,
        policy: ArrayLike,
        labels: Iterable[Any] | None = None,
        *,
        renormalise: bool = False,
        durations: ArrayLike | None = None,
        reward_rates: ArrayLike | None = None,
    ) -> Self:
        """Return the process of a Markov decision process under a policy.

        Parameters
        ----------
        kernel : array_like, shape (n, A, n), or list of A sparse matrices, each of shape (n, n)
            Probability of the next state for each state and action. Rows of actions that the policy never
            takes need not sum to 1. Rounding is corrected as in the process itself, here and in `policy`.
        rewards : array_like, shape (n,), (n, A) or (n, A, n), or list of A sparse matrices (n, n)
            R(s), r(s, a) or r(s, a, s'). The last is kept as its mean given s and s', which is exact for a
            policy of actions; the others are averaged to R(s).
        policy : array_like of int, shape (n,), or array_like, shape (n, A)
            The action in each state, or the probability of each action in each state.
        labels : iterable, optional
            One label per state.
        renormalise : bool
            Divide the rows of kernel and policy by their sums, however far these are from 1.
        durations : array_like, shape (n,) or (n, A), optional
            Mean time of a step from each state, or of each state and action, which is averaged over the
            policy. The asymptotic variance needs more than that, and is refused.
        reward_rates : array_like, shape (n,), optional
            Reward per unit of time in each state; if it depends on the action, add it to `rewards`,
            multiplied by the duration.

        Examples
        --------
        >>> import gainbias as gb
        >>> kernel = [[[1.0, 0.0], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]]
        >>> gb.MarkovRewardProcess.from_mdp(kernel, rewards=[0.0, 1.0], policy=[1, 0]).transitions
        array([[0.2, 0.8],
               [0.5, 0.5]])
        """
        transitions, averaged, times, is_dense = follow_policy(
            kernel, rewards, policy, durations, renormalise=renormalise
        )
        values: Any = averaged.expected.rewards.high if averaged.entries is None else averaged.entries
        if is_dense and averaged.entries is not None:
            values = averaged.entries.toarray()
        process = cls(
            transitions.toarray() if is_dense else transitions,
            values,
            labels,
            durations=None if times is None else times.rewards.high,
            reward_rates=reward_rates,
        )
        process._set(_mean_durations=times)
        if averaged.is_rounded:
            process._set(rewards=frozen(averaged.expected.rewards.high), _averaged=averaged)
        return process

    @classmethod
    def from_rates(cls, generator: Any, reward_rates: ArrayLike, labels: Iterable[Any] | None = None) -> Self:
        """Return the uniformised process of a continuous-time chain.

        One step of the process takes an exponential time of mean 1 / `rate`: its transitions are
        I + Q / rate and its rewards are those earned in that time. The bias is that of the continuous
        chain, and the gain per unit of time is `rate` times the gain per step; `solve` reports the former.

        Parameters
        ----------
        generator : array_like or scipy.sparse array or matrix, shape (n, n)
            The matrix Q of rates; each row sums to 0 within 1e-8 of its rates (or within the rounding of its
            own type). The diagonal is only checked; minus the sum of the other entries is used in its
            place, which loses no digits. A negative rate counts as 0 if it is only rounding: up to
            m + 1 units of rounding, relative to the sum of the rates of its row, of which there are m.
        reward_rates : array_like, shape (n,)
            Reward per unit of time in each state.
        labels : iterable, optional
            One label per state.

        Examples
        --------
        >>> import gainbias as gb
        >>> queue = gb.MarkovRewardProcess.from_rates([[-1.0, 1.0], [3.0, -3.0]], reward_rates=[0.0, 2.0])
        >>> queue.rate, queue.rewards
        (4.0, array([0. , 0.5]))
        """
        transitions, rewards, rate = uniformise(generator, reward_rates)
        process = cls(transitions if sparse.issparse(generator) else transitions.toarray(), rewards, labels)
        process._set(rate=rate)
        return process

    @property
    def num_states(self) -> int:
        """Number of states n."""
        return self.rewards.size

    @cached_property
    def max_abs_reward(self) -> float:
        """Largest absolute reward of a step, from r(s, s') with P(s, s') > 0 if given, else from R(s)."""
        drawn = self.rewards if self.reward_entries is None else self.reward_entries
        return float(np.max(np.abs(drawn)))

    @cached_property
    def reward_entries(self) -> Floats | None:
        """The rewards r(s, s') of the stored transitions, in the order of ``csr.data``, or None."""
        if self.transition_rewards is None:
            return None
        return frozen(values_at(self.transition_rewards, self.csr))

    @cached_property
    def doubled_entries(self) -> Doubled | None:
        """The rewards r(s, s') of the stored transitions with twice the digits, or None."""
        if self.reward_entries is None:
            return None
        if self._averaged is None or self._averaged.entries_rest is None:
            return Doubled(self.reward_entries)
        return Doubled(self.reward_entries, frozen(values_at(self._averaged.entries_rest, self.csr)))

    @cached_property
    def expected(self) -> Expected | None:
        """The rewards R(s) with twice the digits if they are means of other rewards, else None."""
        if self._averaged is not None:
            return self._averaged.expected
        if self.reward_entries is None:
            return None
        return expected_rewards(self.csr.indptr, Doubled(self.csr.data), self.reward_entries)

    @cached_property
    def mean_durations(self) -> Expected | None:
        """The mean duration tau(s) of a step from each state with twice the digits, or None."""
        if self._mean_durations is not None:
            return self._mean_durations
        return None if self.durations is None else self._mean_of_steps(self.durations)

    @cached_property
    def mean_duration_variances(self) -> Expected | None:
        """The mean over successors of the variance of the duration, with twice the digits, or None."""
        return None if self.duration_variances is None else self._mean_of_steps(self.duration_variances)

    @cached_property
    def duration_entries(self) -> Floats | None:
        """The durations tau(s, s') of the stored transitions, in the order of ``csr.data``, or None."""
        if self.durations is None or self.durations.ndim == 1:
            return None
        return frozen(values_at(self.durations, self.csr))

    def _mean_of_steps(self, values: Floats | CsrArray) -> Expected:
        if values.ndim == 1:
            return Expected(Doubled(np.asarray(values)), np.zeros(self.num_states))
        return expected_rewards(self.csr.indptr, Doubled(self.csr.data), values_at(values, self.csr))

    def embedded_chain(self) -> MarkovRewardProcess:
        """Return the process that counts steps, not time; a reward is the total reward of its step.

        Its gain and bias are per step. Its rewards are R + rho tau, with reward rates rho and mean durations
        tau, so the variance of a duration does not matter.

        Raises
        ------
        ValueError
            If the process has no durations.

        Examples
        --------
        >>> import gainbias as gb
        >>> machine = gb.MarkovRewardProcess([[0, 1], [1, 0]], [1, 0], durations=[9, 1], reward_rates=[5, 0])
        >>> machine.embedded_chain().rewards.tolist()
        [46.0, 0.0]
        """
        if self.durations is None:
            raise ValueError("the process has no durations, so it already is the chain of its steps")
        chain = object.__new__(MarkovRewardProcess)
        chain._set(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        chain._set(**dict.fromkeys(TIME_OF_STEPS), _mean_durations=None)
        if self.reward_rates is not None and self.mean_durations is not None:
            expected = self.expected or Expected(Doubled(self.rewards), np.zeros(self.num_states))
            entries = rest = None
            if self.doubled_entries is not None:
                entries, rest = self.csr.copy(), self.csr.copy()
                entries.data, rest.data = self.doubled_entries.high, self.doubled_entries.rest
            earned = earned_in_steps(
                self.csr,
                Averaged(expected, True, entries, rest),
                self.reward_rates,
                self.mean_durations,
                self.duration_entries,
            )
            values: Any = earned.entries
            if values is not None:
                values = frozen(values.toarray() if isinstance(self.transitions, np.ndarray) else values)
            chain._set(
                rewards=frozen(earned.expected.rewards.high), transition_rewards=values, _averaged=earned
            )
        return chain

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content, equal for dense and sparse input of the same process; labels do not count."""
        parts: list[NDArray[Any]] = [
            self.csr.indptr.astype("<i8"),
            self.csr.indices.astype("<i8"),
            self.csr.data.astype("<f8"),
            (self.rewards + 0.0).astype("<f8"),  # adding 0 makes -0.0 and 0.0 the same
        ]
        if self.reward_entries is not None:
            parts.append((self.reward_entries + 0.0).astype("<f8"))
        if self._averaged is not None:
            parts.append((self._averaged.expected.rewards.rest + 0.0).astype("<f8"))
        head = f"process 1, {len(parts)} parts, rate {self.rate}"
        for name in TIME_OF_STEPS if self.durations is not None else ():
            values = getattr(self, name)
            if values is not None:
                head += f", {name} {values.ndim}"
                entries = values if values.ndim == 1 else values_at(values, self.csr)
                parts.append((entries + 0.0).astype("<f8"))
        if self._mean_durations is not None:
            parts.append((self._mean_durations.rewards.rest + 0.0).astype("<f8"))
        digest = hashlib.sha256(head.encode())
        for part in parts:
            digest.update(part.data)
        return digest.hexdigest()[:32]

    @cached_property
    def structure(self) -> Structure:
        """Communicating classes, recurrent classes and transient states."""
        return find_structure(self.csr)

    @cached_property
    def class_periods(self) -> NDArray[np.int64]:
        """Period of each recurrent class, in the order of ``structure.recurrent``."""
        return frozen(class_periods(self.csr, self.structure))

    @property
    def is_irreducible(self) -> bool:
        """Whether every state can be reached from every state."""
        return self.structure.num_classes == 1

    @property
    def is_unichain(self) -> bool:
        """Whether there is one recurrent class; there may be transient states."""
        return len(self.structure.recurrent) == 1

    @property
    def period(self) -> int:
        """Period of the recurrent class; a ValueError if there are several (see `class_periods`)."""
        if not self.is_unichain:
            raise ValueError(
                f"the process has {self.structure.describe_recurrent()}, so it has no single period: "
                "class_periods has one for each"
            )
        return int(self.class_periods[0])

    @property
    def is_ergodic(self) -> bool:
        """Whether the process is irreducible and aperiodic, so that it forgets where it started."""
        return self.is_irreducible and self.period == 1

    def restricted_to(self, states: ArrayLike) -> MarkovRewardProcess:
        """Return the process on some states that it never leaves, such as a recurrent class.

        Parameters
        ----------
        states : array_like of int, shape (m,)
            The states, ascending. No transition may lead out of them.

        Returns
        -------
        MarkovRewardProcess
            With sparse transitions; all numbers are copied bit for bit.

        Examples
        --------
        >>> import gainbias as gb
        >>> gambler = gb.MarkovRewardProcess([[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.0, 0.0, 3.0])
        >>> gambler.restricted_to([0, 2]).rewards.tolist()
        [0.0, 3.0]
        """
        kept = np.asarray(states, dtype=np.intp)
        if kept.ndim != 1 or kept.size == 0 or np.any(np.diff(kept) <= 0):
            raise ValueError("states must be one or more numbers of states in ascending order")
        if kept[0] < 0 or kept[-1] >= self.num_states:
            raise ValueError(f"states must be between 0 and {self.num_states - 1}")
        rows = self.csr[kept]
        targets = np.minimum(np.searchsorted(kept, rows.indices), len(kept) - 1)
        outside = np.flatnonzero(kept[targets] != rows.indices)
        if outside.size:
            source = kept[np.searchsorted(rows.indptr, outside[0], side="right") - 1]
            raise ValueError(f"a transition leads from state {source} out of the states that were given")

        def on_kept(entries: Floats) -> CsrArray:
            parts = entries, targets.astype(rows.indices.dtype), rows.indptr
            return frozen(sparse.csr_array(parts, (len(kept), len(kept))))

        csr, given, averaged = on_kept(rows.data), None, None
        entries_rest = None
        shift = self.csr.indptr[kept] - rows.indptr[:-1]
        place = np.repeat(shift, np.diff(rows.indptr)) + np.arange(rows.nnz)
        if self.doubled_entries is not None:
            given = on_kept(self.doubled_entries.high[place])
            entries_rest = on_kept(self.doubled_entries.rest[place])
        if self._averaged is not None:
            (rewards, doubt), is_rounded = self._averaged.expected, self._averaged.is_rounded
            expected = Expected(Doubled(rewards.high[kept], rewards.rest[kept]), doubt[kept])
            averaged = Averaged(expected, is_rounded, given, entries_rest)
        in_time: dict[str, Any] = {}
        for name in TIME_OF_STEPS:
            values = getattr(self, name)
            if values is not None:
                of_states = values.ndim == 1
                values = frozen(values[kept]) if of_states else on_kept(values_at(values, self.csr)[place])
            in_time[name] = values
        mean_durations = self._mean_durations
        if mean_durations is not None:
            mean_durations = Expected(mean_durations.rewards.at(kept), mean_durations.doubt[kept])
        part = object.__new__(MarkovRewardProcess)
        part._set(
            transitions=csr,
            rewards=frozen(self.rewards[kept]),
            transition_rewards=given,
            labels=None if self.labels is None else tuple(self.labels[state] for state in kept),
            rate=self.rate,
            csr=csr,
            _averaged=averaged,
            _mean_durations=mean_durations,
            **in_time,
        )
        return part

    def mixing_time(self, eps: float) -> int:
        """Return the least tau >= 1 with ``max_s sum_s' |P^tau(s, s') - stationary(s')| <= eps``.

        For up to 1000 states: see `mixing_time`, and `mixing_time_bounds` for more.
        """
        from gainbias.model.chain.mixing import mixing_time

        return mixing_time(self, eps)

    def __repr__(self) -> str:
        n, stored = self.num_states, self.csr.nnz
        parts = [f"{n} state{'s' * (n > 1)}", f"{stored} transition{'s' * (stored > 1)}"]
        parts.append(f"sparse, density {stored / n**2:.2g}" if sparse.issparse(self.transitions) else "dense")
        parts.append(f"rewards from {self.rewards.min():g} to {self.rewards.max():g}")
        if self.rate is not None:
            parts.append(f"{self.rate:g} steps per unit of time")
        if self.mean_durations is not None:
            means = self.mean_durations.rewards.high
            parts.append(f"durations from {means.min():g} to {means.max():g}")
        if self.reward_rates is not None:
            parts.append(f"reward rates from {self.reward_rates.min():g} to {self.reward_rates.max():g}")
        if "structure" in self.__dict__:
            parts.append("irreducible" if self.is_irreducible else self._reducible_in_words())
        if "class_periods" in self.__dict__ and self.is_unichain:
            parts.append(f"period {self.period}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _reducible_in_words(self) -> str:
        count = len(self.structure.recurrent)
        transient = self.structure.transient.size
        classes = "class" if count == 1 else "classes"
        return f"{count} recurrent {classes}, {transient} transient state{'s' * (transient != 1)}"

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def check_process(mrp: MarkovRewardProcess, name: str) -> None:
    """Raise unless the function `name` was given a process."""
    if not isinstance(mrp, MarkovRewardProcess):
        raise ValueError(
            f"{name} takes a MarkovRewardProcess, not {type(mrp).__name__}: "
            "make one with gb.MarkovRewardProcess(transitions, rewards)"
        )


def refuse_durations(
    mrp: MarkovRewardProcess,
    name: str,
    why: str = "counts steps, and the steps of this process have durations",
) -> None:
    """Raise if a process has durations: the function or class `name` is about steps.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.mixing_time(gb.MarkovRewardProcess([[1.0]], [0.0], durations=[2.0]), 0.1)
    Traceback (most recent call last):
    ...
    ValueError: mixing_time counts steps, and the steps of this process have durations: ...
    """
    if mrp.durations is not None:
        raise ValueError(
            f"{name} {why}: pass mrp.embedded_chain() for an answer per step, or use gb.solve for gain and "
            "bias per unit of time"
        )


def _time_of_steps(
    csr: CsrArray, durations: Any, reward_rates: ArrayLike | None, duration_variances: Any
) -> dict[str, Floats | CsrArray | None]:
    """Return durations, reward rates and variances of durations after they were checked."""
    if durations is None:
        for name, given in (("reward_rates", reward_rates), ("duration_variances", duration_variances)):
            if given is not None:
                raise ValueError(
                    f"{name} needs durations: pass the mean time of a step from each state as durations, or "
                    "make a process of exponential times with gb.MarkovRewardProcess.from_rates"
                )
        return dict.fromkeys(TIME_OF_STEPS)
    n = csr.shape[0]
    times = step_array(durations, n, "durations")
    check_steps(times, csr, "durations", positive=True)
    rates = None if reward_rates is None else frozen(float_vector(reward_rates, n, "reward_rates").copy())
    variances = None
    if duration_variances is not None:
        variances = step_array(duration_variances, n, "duration_variances")
        if variances.ndim != times.ndim:
            raise ValueError(
                f"duration_variances must have the shape of durations, {times.shape}, because each is the "
                f"variance around the mean that durations give, found shape {variances.shape}"
            )
        check_steps(variances, csr, "duration_variances", positive=False)
    return dict(zip(TIME_OF_STEPS, (times, rates, variances), strict=True))


def read_process(path: str | BinaryIO) -> MarkovRewardProcess:
    """Return the process in an .npz file, by its path or as bytes; pickled objects in it are refused.

    The file has the array `rewards`, (n,) or (n, n), optionally `labels`, and either a dense array
    `transitions`, (n, n), or the parts of a sparse matrix as `scipy.sparse.save_npz` writes them. It may have
    `durations`, `reward_rates` and `duration_variances`, as `MarkovRewardProcess` takes them.

    Raises
    ------
    ValueError
        If the file is something else, or damaged.
    """
    expected = (
        "must be an .npz file with the array `rewards`, (n,) or (n, n), optionally `labels`, and either a "
        "dense array `transitions` or the parts of a sparse matrix under the names that "
        "scipy.sparse.save_npz uses (`format`, `shape`, `data`, `indices`, `indptr`)"
    )
    with open(path, "rb") if isinstance(path, str) else nullcontext(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is not an .npz file, {expected}")
    try:
        with np.load(path, allow_pickle=False) as parts:
            names = set(parts.files)
            if "rewards" not in names or not names & {"transitions", "data"}:
                raise ValueError(f"{path} holds {sorted(names)}, {expected}")
            rewards = parts["rewards"]
            labels = parts["labels"].tolist() if "labels" in names else None
            dense = parts["transitions"] if "transitions" in names else None
            in_time = {name: parts[name] for name in TIME_OF_STEPS if name in names}
        transitions: Any = sparse.load_npz(path) if dense is None else dense
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): write it again") from error
    return MarkovRewardProcess(transitions, rewards, labels, **in_time)
