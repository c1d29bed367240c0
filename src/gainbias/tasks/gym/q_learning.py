"""Policies learned by tabular Q-learning.

    Q(s, a) <- Q(s, a) + learning_rate [ r + discount max_a' Q(s', a') - Q(s, a) ]

without the maximum where the episode ends. During learning, ties are broken at random: with always the
first action an untrained learner would walk into a corner and stay there.

`learned_process` at the end makes the paper's chains with it: learn a policy, join the episodes, smooth.

C. J. C. H. Watkins and P. Dayan, "Q-learning", Machine Learning 8 (1992) 279-292.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from gainbias.kernels import kernel
from gainbias.model.checks import frozen
from gainbias.model.process import MarkovRewardProcess
from gainbias.notebook import InNotebooks
from gainbias.progress import Watch
from gainbias.tasks.gym.continuing import continuing, ergodic
from gainbias.tasks.gym.table import TransitionTable, scalarise
from gainbias.tasks.task import MakeProcess, Settings, Source, as_integer, as_number, as_numbers, as_seed
from gainbias.types import Floats, Ints


class Outcomes(NamedTuple):
    """A table for the kernel: outcomes of a pair are ``offsets[pair]`` to ``offsets[pair + 1] - 1``."""

    offsets: Ints
    probabilities: Floats
    successors: Ints
    rewards: Floats
    ended: NDArray[np.bool_]
    start: Floats


class LearningSettings(NamedTuple):
    """Settings of Q-learning (see `q_learning`)."""

    episodes: int
    learning_rate: float
    discount: float
    exploration: float
    initial_value: float
    max_steps: int


@dataclass(frozen=True, eq=False)
class LearnedPolicy(InNotebooks):
    """A policy that Q-learning found, and how.

    Attributes
    ----------
    actions : int ndarray, shape (n,)
        The action of largest value in each state, the first one among equal values: in a state that was
        never visited it is action 0.
    values : ndarray, shape (n, A)
        Learned values of the actions.
    num_steps : int
        Steps of all episodes together.
    ended_episodes : int
        Episodes that ended before `max_steps`.
    always_ends : bool
        Whether episodes that follow `actions` end with probability 1.

    Examples
    --------
    >>> import gainbias as gb
    >>> table = gb.TransitionTable([[[(1.0, 0, 0.0, True)], [(1.0, 0, 1.0, True)]]], start=[1.0])
    >>> learned = gb.q_learning(table, episodes=100, seed=0)
    >>> learned.actions, learned.always_ends
    (array([1]), True)
    """

    actions: Ints
    values: Floats
    num_steps: int
    ended_episodes: int
    always_ends: bool


def q_learning(
    table: TransitionTable,
    *,
    episodes: int = 10_000,
    learning_rate: float = 0.1,
    discount: float = 0.99,
    exploration: float = 0.1,
    initial_value: float = 0.0,
    max_steps: int = 1_000,
    seed: int = 0,
) -> LearnedPolicy:
    """Learn a policy for a table by tabular Q-learning.

    Parameters
    ----------
    table : TransitionTable
        With rewards that are numbers (see `scalarise`).
    episodes : int
        How many episodes to learn from.
    learning_rate : float
        Above 0 and at most 1.
    discount : float
        At least 0 and at most 1.
    exploration : float
        Probability of a random action in each step; otherwise one of largest value is taken.
    initial_value : float
        Value of every action before learning. A value larger than anything that can be earned makes the
        learner try everything.
    max_steps : int
        An episode is cut off after this many steps. That is not an end: the last value is learned like any
        other.
    seed : int
        The same seed gives the same policy.

    Returns
    -------
    LearnedPolicy

    Examples
    --------
    >>> import gainbias as gb
    >>> stay, go, finish = (1.0, 0, 0.0, False), (1.0, 1, 0.0, False), (1.0, 1, 1.0, True)
    >>> walk = gb.TransitionTable([[[stay], [go]], [[stay], [finish]]], start=[1.0, 0.0])
    >>> gb.q_learning(walk, episodes=100).actions
    array([1, 1])
    """
    settings = LearningSettings(episodes, learning_rate, discount, exploration, initial_value, max_steps)
    _check(settings, seed)
    if table.rewards.ndim != 1:
        raise ValueError("the rewards of the table are vectors: choose weights with gb.scalarise first")
    num_pairs = table.num_states * table.num_actions
    outcomes = Outcomes(
        np.searchsorted(table.pairs, np.arange(num_pairs + 1)),
        table.probabilities,
        table.successors,
        table.rewards,
        table.ended,
        table.start,
    )
    values = np.full((table.num_states, table.num_actions), float(initial_value))
    rng = np.random.default_rng(seed)
    counts, progress = np.zeros(2, dtype=np.int64), np.zeros(2)
    with Watch() as watch:
        watch.run(
            lambda: learn(outcomes, settings, values, rng, counts, progress),
            progress,
            float(episodes),
            "learning a policy",
        )
    actions = values.argmax(axis=1)
    return LearnedPolicy(
        actions=frozen(actions),
        values=frozen(values),
        num_steps=int(counts[0]),
        ended_episodes=int(counts[1]),
        always_ends=always_ends(table, actions),
    )


@kernel
def learn(
    outcomes: Outcomes,
    settings: LearningSettings,
    values: Floats,
    rng: np.random.Generator,
    counts: Ints,
    progress: Floats,
) -> None:
    """Learn `values`, (n, A); count steps and ended episodes; a non-zero ``progress[1]`` stops the work."""
    num_actions = values.shape[1]
    for _ in range(settings.episodes):
        state = draw(outcomes.start, 0, len(outcomes.start), rng)
        for _ in range(settings.max_steps):
            if rng.random() < settings.exploration:
                action = int(num_actions * rng.random())
            else:
                action = best_action(values[state], rng)
            pair = state * num_actions + action
            k = draw(outcomes.probabilities, outcomes.offsets[pair], outcomes.offsets[pair + 1], rng)
            target = outcomes.rewards[k]
            successor = outcomes.successors[k]
            if not outcomes.ended[k]:
                target += settings.discount * largest(values[successor])
            values[state, action] += settings.learning_rate * (target - values[state, action])
            counts[0] += 1
            state = successor
            if outcomes.ended[k]:
                counts[1] += 1
                break
        progress[0] += 1.0
        if progress[1] != 0.0:
            return


@kernel
def draw(probabilities: Floats, first: int, last: int, rng: np.random.Generator) -> int:
    """Return an index from `first` to `last` - 1, drawn by `probabilities`, which sum to 1 there."""
    if last - first == 1:
        return first
    left = rng.random()
    for k in range(first, last):
        left -= probabilities[k]
        if left < 0.0:
            return k
    k = last - 1  # rounding left a little over
    while probabilities[k] == 0.0:
        k -= 1
    return k


@kernel
def largest(values: Floats) -> float:
    """Return the largest of (A,) values."""
    best = -np.inf
    for value in values:
        best = max(best, value)
    return best


@kernel
def best_action(values: Floats, rng: np.random.Generator) -> int:
    """Return the index of the largest of (A,) values; ties are broken at random."""
    best = largest(values)
    ties = 0
    for value in values:
        if value == best:
            ties += 1
    skipped = int(ties * rng.random()) if ties > 1 else 0
    action = 0
    while values[action] != best or skipped > 0:
        if values[action] == best:
            skipped -= 1
        action += 1
    return action


def always_ends(table: TransitionTable, actions: Ints) -> bool:
    """Whether episodes that follow `actions`, shape (n,), end with probability 1.

    They do if an end can be reached from every state that they can reach.

    Examples
    --------
    >>> import gainbias as gb
    >>> table = gb.TransitionTable([[[(1.0, 0, 0.0, False)], [(1.0, 0, 0.0, True)]]], start=[1.0])
    >>> always_ends(table, np.array([0])), always_ends(table, np.array([1]))
    (False, True)
    """
    begin, end = table.num_states, table.num_states + 1  # two nodes of the graph beside the states
    taken = actions[table.states] == table.pairs % table.num_actions
    firsts = np.flatnonzero(table.start)
    source = np.concatenate([table.states[taken], np.full(firsts.size, begin)])
    target = np.concatenate([np.where(table.ended[taken], end, table.successors[taken]), firsts])
    graph = sparse.csr_array((np.ones(source.size), (source, target)), shape=(end + 1, end + 1))
    visited = sparse.csgraph.breadth_first_order(graph, begin, return_predecessors=False)
    can_end = sparse.csgraph.breadth_first_order(graph.T.tocsr(), end, return_predecessors=False)
    return bool(np.isin(visited, can_end).all())


def _check(settings: LearningSettings, seed: int) -> None:
    for name in ("episodes", "max_steps"):
        as_integer(getattr(settings, name), name, least=1)
    as_number(settings.learning_rate, "learning_rate", above=0.0, at_most=1.0)
    for name in ("discount", "exploration"):
        as_number(getattr(settings, name), name, at_least=0.0, at_most=1.0)
    as_number(settings.initial_value, "initial_value")
    as_seed(seed)


LEARNING: Settings = MappingProxyType(
    {
        "episodes": 10_000,
        "learning_rate": 0.1,
        "discount": 0.99,
        "exploration": 0.1,
        "initial_value": 0.0,
        "max_steps": 1_000,
    }
)
"""Settings of Q-learning, which the paper does not state; tasks change some."""


@dataclass(frozen=True)
class Model:
    """A table, plain facts about its origin, and the weights of the components of its rewards."""

    table: TransitionTable
    source: Source
    weights: tuple[float, ...] | None = None


def learned_process(read: Callable[[], Model]) -> MakeProcess:
    """Return the function that makes the process of a recipe, by a policy learned with its settings.

    Parameters
    ----------
    read : callable
        Returns the model; called once.
    """
    model = cache(read)

    @lru_cache(maxsize=16)
    def table(weights: tuple[float, ...] | None) -> TransitionTable:
        return model().table if weights is None else scalarise(model().table, weights)

    @lru_cache(maxsize=1024, typed=True)  # 1 and True are the same key otherwise
    def policy(weights: tuple[float, ...] | None, **learning: Any) -> LearnedPolicy:
        return q_learning(table(weights), **learning)

    def make(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
        weights = _weights(settings.get("weights"), model().weights)
        learning = {name: settings[name] for name in LEARNING}
        learning["seed"] = seed
        if settings["policy_seed"] is not None:
            learning["seed"] = as_seed(settings["policy_seed"], "policy_seed")
        learned = policy(weights, **learning)
        if not learned.always_ends:
            raise ValueError(
                f"the policy that was learned with seed {learning['seed']} from {settings['episodes']} "
                "episodes may go on forever: learn from more episodes, or explore more"
            )
        chain = continuing(table(weights), learned.actions, states="all", endings="restart")
        source = {**model().source, "table": model().table.fingerprint}
        if weights is not None:
            source["weights"] = weights
        return ergodic(chain, settings["epsilon"]), source

    return make


def _weights(given: Any, default: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return default if given is None else tuple(as_numbers(given, "weights"))
