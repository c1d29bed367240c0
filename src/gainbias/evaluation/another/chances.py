"""Policies as probabilities of actions, and features of state-actions with their means under a policy.

`chances_of` makes a `Chances` of every form of policy that `evaluate` takes: given observations, it returns
the probabilities of all actions at each. A function is called with many observations at a time if that gives
the same as calling it for each.

The linear answer reads `PairFeatures`: rows of features of the actions taken, and their expectations under
the policy. Features of observations alone become features of state-actions by a block for
each action. Users pass other features as `ActionFeatures`, also for continuous actions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.observations import ObservationMap, checked_rows
from gainbias.evaluation.sources.policies import Policy, is_torch_module, without_tensor
from gainbias.evaluation.sources.spaces import Limits
from gainbias.evaluation.values.sums import dense
from gainbias.types import Floats, Ints

ROUNDING_OF_SUMS = 1e-6
"""The sum of probabilities of actions may differ from 1 by this: networks return single precision."""

MOST_CHECKED_PAIRS = 300
"""Most state-actions that are told apart when testing what features do not express."""

WAVES, STEPS_FOR_WAVE = 40, 25
"""Waves over observations that are used for each action instead, and fewest steps for each of them."""

MOST_PAIR_FEATURES = 1_000
"""Most features of state-actions: sums of d x d products and dense equations are kept for them."""

TRIED = 8
"""Observations used to find out whether a function takes many at a time."""


class Chances:
    """The probabilities of a policy's actions at observations.

    Parameters
    ----------
    ask : function
        From observations (m, ...) to actions (m,), or to probabilities (m, A).
    name : str
        What the policy is called in messages, as in "the policy".
    num_actions : int
        Fewest actions.

    Examples
    --------
    >>> chances = Chances(lambda seen: seen % 2, "the policy", 3)
    >>> chances(np.array([4, 5]))
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    def __init__(
        self,
        ask: Callable[[NDArray[Any]], NDArray[Any]],
        name: str,
        num_actions: int,
        width: int | None = None,
    ) -> None:
        self._ask, self.name, self.num_actions, self.width = ask, name, num_actions, width
        self._left_out: list[int] = []
        self._last: tuple[NDArray[Any], Floats] | None = None

    def leave_out(self, actions: list[int]) -> None:
        """From now on share the probabilities of some actions among the others, in proportion to these."""
        self._left_out, self._last = actions, None

    def __call__(self, observations: NDArray[Any]) -> Floats:
        """Return the probabilities of all actions, (m, A) for (m, ...); A may grow with more of them.

        Asked again about the same array, it does not ask the policy again: agents are slow.
        """
        if self._last is None or self._last[0] is not observations:
            self._last = observations, self._found(observations)
        return self._last[1]

    def _found(self, observations: NDArray[Any]) -> Floats:
        chances = self._all(observations)
        if not self._left_out:
            return chances
        chances[:, self._left_out] = 0.0
        total = chances.sum(axis=1, keepdims=True)
        others = np.ones(chances.shape[1])
        others[self._left_out] = 0.0
        return np.where(total > 0.0, chances / np.where(total > 0.0, total, 1.0), others / others.sum())

    def _all(self, observations: NDArray[Any]) -> Floats:
        try:
            found = np.asarray(self._ask(observations))
        except Exception as error:
            raise ValueError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        if found.ndim == 1 and len(found) == len(observations):
            return self._certain(found, observations)
        if found.ndim != 2 or len(found) != len(observations):
            raise ValueError(
                f"{self.name} must return an action, or the probability of each action, for every "
                f"observation, found shape {found.shape} for {len(observations)} observations"
            )
        if found.shape[1] == 1 < self.num_actions:
            raise ValueError(
                f"{self.name} returns an array with one number, {found[0]} at observation "
                f"{_shown(observations[0])}: return an action as a plain number, or the probabilities of all "
                f"{self.num_actions} actions"
            )
        return self._checked(found.astype(np.float64), observations)

    def _certain(self, actions: NDArray[Any], observations: NDArray[Any]) -> Floats:
        """Return probabilities of 0 and 1, given one action for each observation."""
        whole = actions.astype(np.int64) if actions.dtype.kind in "iubf" else None
        if whole is None or (whole != actions).any() or (whole < 0).any():
            bad = 0 if whole is None else int(np.argmax((whole != actions) | (whole < 0)))
            raise ValueError(
                f"{self.name} takes action {actions[bad]} at observation {_shown(observations[bad])}, "
                "actions must be integers from 0: for continuous actions pass features=gb.ActionFeatures(...)"
            )
        self.num_actions = max(self.num_actions, int(whole.max(initial=0)) + 1)
        return np.asarray(np.eye(self.num_actions)[whole])

    def _checked(self, chances: Floats, observations: NDArray[Any]) -> Floats:
        right = np.isfinite(chances).all(axis=1) & (chances >= 0.0).all(axis=1)
        right &= np.abs(chances.sum(axis=1) - 1.0) <= ROUNDING_OF_SUMS
        if not right.all():
            bad = int(np.argmin(right))
            raise ValueError(
                f"{self.name} gives actions the probabilities {chances[bad]} at observation "
                f"{_shown(observations[bad])}: they must be at least 0, and sum to 1, found a sum of "
                f"{chances[bad].sum():.7g}; divide each row by its sum if it has weights"
            )
        self.width = chances.shape[1]
        self.num_actions = max(self.num_actions, chances.shape[1])
        chances = chances / chances.sum(axis=1, keepdims=True)
        return np.pad(chances, ((0, 0), (0, self.num_actions - chances.shape[1])))


def _shown(observation: Any) -> str:
    return str(observation.tolist() if isinstance(observation, np.ndarray) else observation)[:60]


def table_width(policy: Any) -> int | None:
    """Return the number of actions of an array of probabilities; None for any other policy."""
    if callable(policy) or isinstance(policy, str) or hasattr(policy, "predict"):
        return None
    try:
        shape = np.shape(policy)
    except ValueError:  # ragged: the error is reported once the log is known
        return None
    return int(shape[1]) if len(shape) == 2 else None


def chances_of(policy: Policy, limits: Limits, num_actions: int, name: str, notes: list[str]) -> Chances:
    """Return a policy as probabilities of discrete actions.

    Parameters
    ----------
    policy : callable, object with a method predict, array_like or "random"
        As for `evaluate`: a function from an observation to an action, or to the probabilities of all
        actions; an agent, which takes its best action; a module of PyTorch, whose largest output is chosen;
        the action of each discrete observation, or its probabilities; or ``"random"``.
    limits : Limits
        Of observations.
    num_actions : int
        Number of actions in the log.
    name : str
        What the policy is called in messages.
    notes : list of str
        Notes on how the policy was called are added here.
    """
    if isinstance(policy, str):
        if policy != "random":
            raise ValueError(f"{name} must be 'random', a function, an agent or an array, found {policy!r}")
        notes.append(f"{name} takes each of the {num_actions} actions of the log with the same probability")
        return Chances(lambda seen: np.full((len(seen), num_actions), 1.0 / num_actions), name, num_actions)
    if callable(getattr(policy, "predict", None)):
        return Chances(_predicting(policy, name, notes), name, num_actions)
    if is_torch_module(policy):
        return Chances(_of_module(policy, name, notes), name, num_actions)
    if callable(policy):
        return Chances(_Function(policy), name, num_actions)
    return _of_table(policy, limits, num_actions, name)


def _of_table(policy: Any, limits: Limits, num_actions: int, name: str) -> Chances:
    if isinstance(policy, Mapping):
        raise ValueError(
            f"{name} is a {type(policy).__name__}: pass an array with a row for each state, or a function. "
            "For several policies, ask about one policy at a time, or about two with "
            "gb.compare_policies_on_log"
        )
    if not limits.whole or limits.shape:
        raise ValueError(
            f"{name}: an array is for discrete observations only, single integers, and those of the log are "
            "others: store them as integers (a missing one makes them floats), or pass a function from "
            "observations to actions or to their probabilities"
        )
    try:
        table = np.asarray(policy)
    except ValueError:
        raise ValueError(f"{name}: an array must have rows of the same length") from None
    size = int(limits.high) + 1
    if table.ndim not in (1, 2) or table.dtype.kind not in ("iu" if table.ndim == 1 else "iufb"):
        raise ValueError(
            f"{name} must be integers of shape ({size},), an action for each state, or have shape "
            f"({size}, A), the probability of each action, found shape {table.shape} and dtype {table.dtype}"
        )
    if len(table) < size:
        raise ValueError(f"{name} has {len(table)} rows, and the log has states up to {size - 1}")
    made = Chances(lambda seen: table[seen], name, num_actions)
    made(np.arange(len(table)))  # all of it is checked, also for states that are not in the log
    made.num_actions = max(num_actions, table.shape[1]) if table.ndim == 2 else num_actions
    return made


class _Function:
    """Calls a function, with many observations at a time if that makes no difference."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._takes_many: bool | None = None

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        if self._takes_many is None:
            self._try(observations[:TRIED])
        if self._takes_many:
            return np.asarray(without_tensor(self._function(observations)))
        return np.array([self._one(seen) for seen in observations])

    def _one(self, seen: Any) -> Any:
        return without_tensor(self._function(seen))

    def _try(self, first: NDArray[Any]) -> None:
        """Find out whether the function takes many observations, and whether it draws its actions."""
        singly, again = (np.array([self._one(seen) for seen in first]) for _ in range(2))
        same = singly.shape == again.shape
        if not (same and ((singly == again) | ((singly != singly) & (again != again))).all()):
            raise ValueError(
                "it returns a different action when it is called again: a policy that draws its actions "
                "must return the probabilities of all actions here"
            )
        try:
            together = np.asarray(without_tensor(self._function(first)))
        except Exception:  # it takes one at a time
            self._takes_many = False
        else:
            self._takes_many = together.shape == singly.shape and bool(np.array_equal(together, singly))
        if len(first) == 1:  # which shows nothing
            self._takes_many = None if self._takes_many else False


def _predicting(agent: Any, name: str, notes: list[str]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    try:
        has_choice = "deterministic" in inspect.signature(agent.predict).parameters
    except ValueError:  # written in C
        has_choice = False
    if has_choice:
        notes.append(
            f"{name} is an agent that takes its best action; for one that draws its actions pass a function "
            "that returns their probabilities"
        )

    def act(observation: Any) -> Any:
        predicted = agent.predict(observation, **({"deterministic": True} if has_choice else {}))
        actions, memory = predicted if isinstance(predicted, tuple) else (predicted, None)
        if memory is not None:
            raise ValueError(
                "the agent remembers what it saw, and a log does not show what it would remember"
            )
        return actions

    return _Function(act)


def _of_module(module: Any, name: str, notes: list[str]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    torch = sys.modules["torch"]
    notes.append(f"{name} is a module, whose outputs are taken for logits: the largest is chosen")

    def ask(observations: NDArray[Any]) -> NDArray[Any]:
        weight = next((one for one in module.parameters() if one.is_floating_point()), None)
        kind = torch.float32 if weight is None else weight.dtype
        with torch.no_grad():
            output = module(torch.as_tensor(observations, dtype=kind)).detach().cpu().numpy()
        return np.asarray(output.argmax(axis=1))

    return ask


@dataclass(frozen=True, eq=False)
class ActionFeatures:
    """Features of observations with actions, for the answer for another policy by `evaluate_log`.

    Parameters
    ----------
    features : callable
        From observations (m, ...) and actions (m, ...) to rows of features, (m, d).
    expected : callable, optional
        From observations (m, ...) to rows of features, (m, d), averaged over the actions that the policy
        takes there. Needed for continuous actions; for discrete ones the average is computed for you.

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

    The last column is 1 only at ends, the one before it everywhere else, so constants are always in the
    span.

    Parameters
    ----------
    observed : ObservationMap
        Features of observations.
    given : ActionFeatures or None
        Features of observations with actions; None for a block of observation features for each action.
    chances : Chances or None
        The policy; None for continuous actions.
    num_actions : int
        0 for continuous actions.
    times_chances : bool
        Whether all features are multiplied by the probability with which the policy takes the action. That
        is how the density ratio looks: pi(a | s), times what is often smooth in s where pi is not.
    """

    def __init__(
        self,
        observed: ObservationMap,
        given: ActionFeatures | None,
        chances: Chances | None,
        num_actions: int,
        times_chances: bool = False,
    ) -> None:
        self.observed, self.given, self.chances, self.num_actions = observed, given, chances, num_actions
        self.times_chances = times_chances
        self._width: int | None = None
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

    def rows(self, observations: NDArray[Any], actions: NDArray[Any], places: Ints | None = None) -> Floats:
        """Return the features of state-actions, (m, d).

        With `places`, (m,), the actions were taken there among the observations: a policy that was asked
        about these is not asked again.
        """
        if self.given is not None:
            there = observations if places is None else observations[places]
            return _with_constants(self._asked(self.given.features, there, actions))
        places = np.arange(len(observations)) if places is None else places
        seen, every = dense(self.observed.rows_at(observations))[places], np.arange(len(places))
        blocks, done = np.zeros((len(seen), self.num_actions, seen.shape[1])), actions.astype(np.int64)
        blocks[every, done] = seen
        rows = _with_constants(blocks.reshape(len(seen), -1))
        if self.times_chances:
            assert self.chances is not None
            rows *= self.chances(observations)[places, done, None]
        return rows

    def expected(self, observations: NDArray[Any]) -> Floats:
        """Return the expected features under the policy, (m, d)."""
        if self.given is not None and self.given.expected is not None:
            return _with_constants(self._asked(self.given.expected, observations))
        assert self.chances is not None
        chances = self.chances(observations)[:, : self.num_actions]
        if self.given is None:
            seen = dense(self.observed.rows_at(observations))
            weights = chances**2 if self.times_chances else chances
            rows = _with_constants((weights[:, :, None] * seen[:, None, :]).reshape(len(seen), -1))
            rows[:, -2] = weights.sum(axis=1)
            return rows
        total: Floats = np.zeros((len(observations), 1))
        for action in range(self.num_actions):
            rows = self._asked(self.given.features, observations, np.full(len(observations), action))
            total = total + chances[:, [action]] * rows
        return _with_constants(total)

    def _asked(self, function: Callable[..., Any], observations: NDArray[Any], *actions: Any) -> Floats:
        """Return rows of features from a user's function."""
        what = "the features" if actions else "the expected features"
        try:
            made = function(observations, *actions)
        except Exception as error:  # a user's function may do anything
            raise ValueError(f"{what} failed: {type(error).__name__}: {error}") from error
        rows = dense(checked_rows(made, len(observations), None))
        self._width = rows.shape[1] if self._width is None else self._width
        if rows.shape[1] != self._width:
            found = (rows.shape[1], self._width) if actions else (self._width, rows.shape[1])
            raise ValueError(
                "features and expected features must have the same columns, found {} and {}".format(*found)
            )
        return rows

    def richer(self, other: PairFeatures, seen: list[NDArray[Any]], steps: int) -> PairFeatures | None:
        """Return richer features of the same policy; None if their mean under it is not known.

        For few discrete observations one for each state-action; otherwise these features, those of `other`,
        and smooth waves of the observations for each action.

        Parameters
        ----------
        other : PairFeatures
            Of the same policy.
        seen : list of (m, ...) arrays
            Observations of the log.
        steps : int
            Number of steps: each further feature needs `STEPS_FOR_WAVE`.
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
        waves = _waves(seen, min(WAVES, steps // (STEPS_FOR_WAVE * count)))
        own = (self,) if other is self else (self, other)

        def rows(seen: NDArray[Any], actions: NDArray[Any]) -> Floats:
            of_actions = np.eye(count)[actions.astype(np.int64)]
            further = (of_actions[:, :, None] * waves(seen)[:, None, :]).reshape(len(seen), -1)
            return np.concatenate([*(part.rows(seen, actions) for part in own), further], axis=1)

        return PairFeatures(self.observed, ActionFeatures(rows), self.chances, count)


def _waves(seen: list[NDArray[Any]], count: int) -> Callable[[NDArray[Any]], Floats]:
    """Return cosines of random combinations of observations, in units of their variation.

    Along a combination of many numbers they are as smooth as along one of two numbers.
    """
    flat = np.concatenate([part.reshape(len(part), -1) for part in seen]).astype(np.float64)
    largest = np.maximum(np.abs(flat).max(axis=0), 1e-300)
    flat /= largest  # so that squares underflow in no unit
    middle, spread = flat.mean(axis=0), flat.std(axis=0)
    moving = spread > 0.0
    rng = np.random.default_rng(0)
    turns = rng.normal(size=(int(moving.sum()), count)) / spread[moving][:, None]
    turns /= np.sqrt(max(1.0, moving.sum() / 2.0))
    starts = rng.uniform(0.0, 2.0 * np.pi, count)

    def waves(observations: NDArray[Any]) -> Floats:
        numbers = observations.reshape(len(observations), -1) / largest - middle
        return np.asarray(np.cos(numbers[:, moving] @ turns + starts))

    return waves


def _with_constants(rows: Floats) -> Floats:
    ones = np.ones((len(rows), 1))
    return np.concatenate([rows, ones, 0.0 * ones], axis=1)


def with_end(rows: Floats) -> Floats:
    """Return rows with one more row, that of the end."""
    end = np.zeros((1, rows.shape[1]))
    end[0, -1] = 1.0
    return np.concatenate([rows, end])
