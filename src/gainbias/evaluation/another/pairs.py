"""Features of observations with actions, and their means under a policy.

`PairFeatures` is what the linear answer reads: rows of features of what was done, and rows that are expected
where the policy is followed. Features of observations alone become features of state-actions by a block for
each action. `ActionFeatures` is how users give others, also for continuous actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.another.chances import Chances
from gainbias.evaluation.observations import ObservationMap, checked_rows
from gainbias.evaluation.values.least_squares import dense
from gainbias.types import Floats

MOST_CHECKED_PAIRS = 300
"""Most state-actions that are told apart when it is asked what features do not express."""

COSINES = 60
"""Features that are asked instead."""

MOST_PAIR_FEATURES = 1_000
"""Most features of state-actions: sums of d x d products and dense equations are kept for them."""


@dataclass(frozen=True, eq=False)
class ActionFeatures:
    """Features of observations with actions, for the answer for another policy by `evaluate_log`.

    Parameters
    ----------
    features : callable
        From observations (m, ...) and actions (m, ...) to rows of features, (m, d).
    expected : callable, optional
        From observations (m, ...) to rows of features, (m, d), averaged over the actions that the policy
        takes there. Continuous actions need it; for discrete ones the average is taken here.

    Examples
    --------
    >>> import gainbias as gb
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.normal(size=5_000), rng.normal(size=5_000)
    >>> log = {"state": states, "a": actions, "reward": states - (actions - 1.0) ** 2}
    >>> def features(states, actions):
    ...     return np.stack([np.ones(len(states)), states, actions, actions**2], axis=1)
    >>> def expected(states):  # of the policy that always does 1
    ...     return features(states, np.ones(len(states)))
    >>> pairs = gb.ActionFeatures(features, expected)
    >>> estimate = gb.evaluate_log(log, action="a", policy=lambda state: 1.0, features=pairs)
    >>> low, high = estimate.gain_interval
    >>> low < 0.0 < high
    True
    """

    features: Callable[[Any, Any], Any]
    expected: Callable[[Any], Any] | None = None


class PairFeatures:
    """Rows of features of state-actions, and their means under a policy.

    The last column is 1 at ends alone, the one before it everywhere else: so constants are always in the
    span.

    Parameters
    ----------
    observed : ObservationMap
        Features of observations.
    given : ActionFeatures or None
        Features of observations with actions; None for a block of those of observations for each action.
    chances : Chances or None
        The policy; None for continuous actions.
    num_actions : int
        0 for continuous actions.
    """

    def __init__(
        self,
        observed: ObservationMap,
        given: ActionFeatures | None,
        chances: Chances | None,
        num_actions: int,
    ) -> None:
        self.observed, self.given, self.chances, self.num_actions = observed, given, chances, num_actions
        if given is None and observed.num_features * num_actions + 2 > MOST_PAIR_FEATURES:
            raise ValueError(
                f"{observed.num_features} features for each of {num_actions} actions are more than "
                f"{MOST_PAIR_FEATURES}: pass fewer, such as features='polynomial,2'"
            )

    @property
    def description(self) -> str:
        """The features in words."""
        if self.given is not None:
            return "the given function of observations and actions"
        return f"{self.observed.description}, for each of {self.num_actions} actions"

    def rows(self, observations: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """Return the features of state-actions, (m, d)."""
        if self.given is not None:
            made = dense(checked_rows(self.given.features(observations, actions), len(observations), None))
            return _with_constants(made)
        seen = dense(self.observed.rows_at(observations))
        blocks = np.zeros((len(seen), self.num_actions, seen.shape[1]))
        blocks[np.arange(len(seen)), actions.astype(np.int64)] = seen
        return _with_constants(blocks.reshape(len(seen), -1))

    def expected(self, observations: NDArray[Any]) -> Floats:
        """Return the features that are expected under the policy, (m, d)."""
        if self.given is not None and self.given.expected is not None:
            made = dense(checked_rows(self.given.expected(observations), len(observations), None))
            return _with_constants(made)
        assert self.chances is not None
        chances = self.chances(observations)[:, : self.num_actions]
        if self.given is None:
            seen = dense(self.observed.rows_at(observations))
            return _with_constants((chances[:, :, None] * seen[:, None, :]).reshape(len(seen), -1))
        total: Floats = np.zeros((len(observations), 1))
        for action in range(self.num_actions):
            rows = self.given.features(observations, np.full(len(observations), action))
            total = total + chances[:, [action]] * dense(checked_rows(rows, len(observations), None))
        return _with_constants(total)

    def richer(self, basis: Floats) -> PairFeatures | None:
        """Return richer features of the same policy; None where their mean under it is not known.

        For few discrete observations one for each state-action; otherwise cosines of random combinations of
        the features that are there.

        Parameters
        ----------
        basis : (d, k) array
            Combinations that are orthonormal along the log.
        """
        if self.chances is None or self.num_actions == 0:
            return None
        limits, count = self.observed.limits, self.num_actions
        if limits.whole and not limits.shape and (int(limits.high) + 1) * count <= MOST_CHECKED_PAIRS:
            every = np.eye((int(limits.high) + 1) * count)
            one_for_each = ActionFeatures(
                lambda seen, actions: every[seen * count + actions.astype(np.int64)]
            )
            return PairFeatures(self.observed, one_for_each, self.chances, count)
        rng = np.random.default_rng(0)
        turns, starts = rng.normal(size=(basis.shape[1], COSINES)), rng.uniform(0.0, 2.0 * np.pi, COSINES)
        turns /= np.sqrt(basis.shape[1])

        def cosines(seen: NDArray[Any], actions: NDArray[Any]) -> Floats:
            return np.asarray(np.cos(self.rows(seen, actions) @ basis @ turns + starts))

        return PairFeatures(self.observed, ActionFeatures(cosines), self.chances, count)


def _with_constants(rows: Floats) -> Floats:
    ones = np.ones((len(rows), 1))
    return np.concatenate([rows, ones, 0.0 * ones], axis=1)


def with_end(rows: Floats) -> Floats:
    """Return rows with one more, which is that of the end."""
    end = np.zeros((1, rows.shape[1]))
    end[0, -1] = 1.0
    return np.concatenate([rows, end])
