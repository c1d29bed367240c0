"""Finite decision processes whose episodes end: what every action does in every state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gainbias.model.checks import ROW_SUM_TOLERANCE, float_array, float_vector, frozen, state_labels
from gainbias.notebook import InNotebooks
from gainbias.types import Floats, Ints


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TransitionTable(InNotebooks):
    """A finite decision process with episodes, as a list of outcomes.

    Parameters
    ----------
    outcomes : sequence or mapping
        ``outcomes[state][action]`` is a list of ``(probability, next state, reward, terminated)``, as in the
        attribute ``P`` of Gymnasium's toy-text environments. Rewards are numbers, or vectors of one length.
        Successors may appear more than once. `terminated` says that the episode ends with this step; a time
        limit is not part of the process.
    start : array_like, shape (n,)
        Probability that an episode starts in each state.
    labels : iterable, optional
        One label per state, otherwise the numbers of the states.

    Attributes
    ----------
    num_actions : int
        Number of actions A, the same in each state.
    pairs : int ndarray, shape (m,)
        ``state * A + action`` of each outcome, ascending.
    probabilities : ndarray, shape (m,)
    successors : int ndarray, shape (m,)
    rewards : ndarray, shape (m,) or (m, k)
    ended : bool ndarray, shape (m,)
        Whether the episode ends with the outcome.
    start : ndarray, shape (n,)
    labels : tuple

    Examples
    --------
    >>> import gainbias as gb
    >>> walk = gb.TransitionTable({0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 2, 5.0, True)]},
    ...                            2: {0: [(1.0, 2, 0.0, True)]}}, start=[1.0, 0.0, 0.0])
    >>> walk
    TransitionTable(3 states, 1 action, 3 outcomes)
    """

    num_actions: int
    pairs: Ints
    probabilities: Floats
    successors: Ints
    rewards: Floats
    ended: NDArray[np.bool_]
    start: Floats
    labels: tuple[Any, ...]

    def __init__(
        self,
        outcomes: Mapping[int, Any] | Sequence[Any],
        start: ArrayLike,
        labels: Iterable[Any] | None = None,
    ) -> None:
        num_states = len(outcomes)
        if num_states == 0:
            raise ValueError("outcomes is empty, a table needs at least one state")
        num_actions = len(_entry(outcomes, 0, "outcomes"))
        rows = list(_rows(outcomes, num_states, num_actions))
        pairs, probabilities, successors, rewards, ended = zip(*rows, strict=True)
        self._set(
            num_actions=num_actions,
            pairs=np.array(pairs, dtype=np.int64),
            probabilities=float_array(probabilities, "probabilities of outcomes"),
            successors=_integers(successors),
            rewards=float_array(rewards, "rewards of outcomes"),
            ended=np.array(ended, dtype=np.bool_),
            start=float_vector(start, num_states, "start").copy(),
        )
        object.__setattr__(self, "labels", state_labels(labels, num_states) or tuple(range(num_states)))
        self._check()

    @property
    def num_states(self) -> int:
        """Number of states n."""
        return self.start.size

    @property
    def states(self) -> Ints:
        """The state of each outcome, shape (m,)."""
        return self.pairs // self.num_actions

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content; labels do not count."""
        parts = (self.pairs, self.probabilities, self.successors, self.rewards, self.ended, self.start)
        digest = hashlib.sha256(f"table 1, {self.num_actions} actions, rewards {self.rewards.shape}".encode())
        for part in parts:
            digest.update((part + 0.0).astype("<f8").data)  # adding 0 makes -0.0 and 0.0 the same
        return digest.hexdigest()[:32]

    def with_rewards(self, rewards: Floats) -> TransitionTable:
        """Return the same table with other rewards, shape (m,) or (m, k)."""
        changed = object.__new__(TransitionTable)
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rewards"}
        for name, value in kept.items():
            object.__setattr__(changed, name, value)
        changed._set(rewards=float_array(rewards, "rewards of outcomes").copy())
        return changed

    def __repr__(self) -> str:
        counts = {"state": self.num_states, "action": self.num_actions, "outcome": self.pairs.size}
        words = (f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items())
        return f"TransitionTable({', '.join(words)})"

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, frozen(value) if isinstance(value, np.ndarray) else value)

    def _check(self) -> None:
        if self.rewards.ndim > 2:
            raise ValueError(
                f"rewards must be numbers or vectors, found arrays of shape {self.rewards.shape[1:]}"
            )
        wrong = np.flatnonzero((self.successors < 0) | (self.successors >= self.num_states))
        if wrong.size:
            raise ValueError(
                f"an outcome of {self._name(self.pairs[wrong[0]])} leads to state "
                f"{self.successors[wrong[0]]}, states must be between 0 and {self.num_states - 1}"
            )
        wrong = np.flatnonzero(self.probabilities <= 0.0)
        if wrong.size:
            raise ValueError(
                f"an outcome of {self._name(self.pairs[wrong[0]])} has the probability "
                f"{self.probabilities[wrong[0]]:g}, probabilities must be at least 0"
            )
        sums = np.bincount(
            self.pairs, weights=self.probabilities, minlength=self.num_states * self.num_actions
        )
        wrong = np.flatnonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
        if wrong.size:
            raise ValueError(
                f"the probabilities of {self._name(wrong[0])} sum to {sums[wrong[0]]:.10g}, must be 1 within "
                f"{ROW_SUM_TOLERANCE:g}"
            )
        if (self.start < 0.0).any() or abs(self.start.sum() - 1.0) > ROW_SUM_TOLERANCE:
            raise ValueError(
                f"start must be probabilities of sum 1, found the sum {self.start.sum():.10g} and the "
                f"smallest entry {self.start.min():g}"
            )

    def _name(self, pair: int) -> str:
        return f"state {pair // self.num_actions}, action {pair % self.num_actions}"


def scalarise(table: TransitionTable, weights: ArrayLike) -> TransitionTable:
    """Turn vector rewards into numbers by a weighted sum.

    Parameters
    ----------
    table : TransitionTable
        With rewards of shape (m, k).
    weights : array_like, shape (k,)
        The weight of each component.

    Returns
    -------
    TransitionTable
        The same table with rewards ``table.rewards @ weights``, shape (m,).

    Examples
    --------
    >>> import gainbias as gb
    >>> table = gb.TransitionTable([[[(1.0, 0, [3.0, -1.0], True)]]], start=[1.0])
    >>> gb.scalarise(table, [0.5, 0.5]).rewards
    array([1.])
    """
    if table.rewards.ndim == 1:
        raise ValueError("the rewards of the table are numbers already: there is nothing to scalarise")
    factors = float_array(weights, "weights")
    if factors.shape != table.rewards.shape[1:]:
        raise ValueError(
            f"weights must have one entry for each of the {table.rewards.shape[1]} components of the reward, "
            f"found shape {factors.shape}"
        )
    return table.with_rewards(table.rewards @ factors)


def _rows(outcomes: Any, num_states: int, num_actions: int) -> Iterator[tuple[int, float, int, Any, bool]]:
    """Iterate over (pair, probability, successor, reward, ended), without outcomes of probability 0."""
    for state in range(num_states):
        actions = _entry(outcomes, state, "outcomes")
        if len(actions) != num_actions:
            raise ValueError(
                f"every state must have the same actions: state 0 has {num_actions}, state {state} has "
                f"{len(actions)}"
            )
        for action in range(num_actions):
            for outcome in _entry(actions, action, f"outcomes[{state}]"):
                if len(outcome) != 4:
                    raise ValueError(
                        f"an outcome of state {state}, action {action} has {len(outcome)} parts, must be "
                        "(probability, next state, reward, terminated)"
                    )
                probability, successor, reward, ended = outcome
                if probability != 0.0:
                    yield state * num_actions + action, probability, successor, reward, bool(ended)


def _integers(successors: tuple[Any, ...]) -> Ints:
    given = np.asarray(successors)
    if given.dtype.kind not in "iu":
        raise ValueError(f"the next state of each outcome must be an integer, found entries of {given.dtype}")
    return given.astype(np.int64)


def _entry(values: Any, key: int, name: str) -> Any:
    try:
        return values[key]
    except (KeyError, IndexError):
        raise ValueError(f"{name} has no entry {key}: number states and actions from 0") from None
