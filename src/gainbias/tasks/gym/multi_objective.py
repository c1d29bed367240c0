"""Tasks from MO-Gymnasium, whose rewards are vectors.

Its environments have no table: `stepped_table` finds it by stepping them from every state. The random
numbers of the environment are replaced by numbers of our choice. Where the outcome of a step depends on one
of them, bisection finds the number at which it changes, which is the probability: no number of the
environment is copied here.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gainbias.extras import optional
from gainbias.tasks.gym.installed import installed_id
from gainbias.tasks.gym.q_learning import LEARNING, Model, learned_process
from gainbias.tasks.gym.table import TransitionTable
from gainbias.tasks.paper import PAPER_CITATION, paper_numbers
from gainbias.tasks.task import Recipe
from gainbias.types import Floats

State: TypeAlias = tuple[int, ...]
Place: TypeAlias = Callable[[Any, State], None]

PIECES = 64
"""The outcome is computed for this many evenly spaced numbers, to check that it changes only once."""


class StepResult(NamedTuple):
    """Where a step led, what it paid and whether it ended the episode."""

    state: State
    reward: tuple[float, ...]
    ended: bool


class Script:
    """A replacement for a random generator: `random` always returns the same number; nothing more."""

    def __init__(self, number: float) -> None:
        self.number = number
        self.calls = 0

    def random(self) -> float:
        """Return the scripted number, and count the call."""
        self.calls += 1
        return self.number


def stepped_table(env: Any, place: Place, extra_states: Iterable[State] = ()) -> TransitionTable:
    """Find the table of an environment by stepping it from every state.

    Parameters
    ----------
    env : gymnasium.Env
        Without wrappers. Observations are vectors of integers that tell everything about the state; every
        episode starts in the same state; a step uses at most one random number.
    place : callable
        ``place(env, state)`` puts the environment into a state.
    extra_states : iterable of tuples
        States to include beside those that can be reached.

    Returns
    -------
    TransitionTable
        With vector rewards, labelled by the observations, sorted.
    """
    start = _start(env)
    num_actions = int(env.action_space.n)
    found: dict[State, list[list[tuple[float, StepResult]]]] = {}
    ends: set[State] = set()
    todo = [start, *extra_states]
    while todo:
        state = todo.pop()
        if state in found:
            continue
        found[state] = [_outcomes(env, place, state, action) for action in range(num_actions)]
        landings = [landing for outcomes in found[state] for _, landing in outcomes]
        todo += [landing.state for landing in landings if not landing.ended]
        ends |= {landing.state for landing in landings if landing.ended}
    labels = sorted(found.keys() | ends)
    return _tabulated(labels, found, start, num_actions)


def _start(env: Any) -> State:
    script = _scripted(env, 0.0)
    start = _state(env.reset()[0])
    if script.calls:
        raise ValueError(f"episodes of {type(env).__name__} start at random, a fixed start is expected")
    return start


def _outcomes(env: Any, place: Place, state: State, action: int) -> list[tuple[float, StepResult]]:
    """Return all outcomes of an action with their probabilities."""

    def land(number: float) -> StepResult:
        place(env, state)
        script = _scripted(env, number)
        observation, reward, terminated, _, _ = env.step(action)
        if script.calls > 1:
            raise ValueError(f"a step of {type(env).__name__} uses {script.calls} random numbers, not one")
        return StepResult(_state(observation), tuple(map(float, np.atleast_1d(reward))), bool(terminated))

    first, last = land(0.0), land(float(np.nextafter(1.0, 0.0)))
    change = 1.0 if first == last else _first_change(land, first)
    for number in np.arange(PIECES) / PIECES:
        if land(float(number)) != (first if number < change else last):
            raise ValueError(f"a step of {type(env).__name__} has more than two outcomes")
    return [(1.0, first)] if first == last else [(change, first), (1.0 - change, last)]


def _first_change(land: Callable[[float], StepResult], first: StepResult) -> float:
    """Return the smallest number at which the outcome is not `first`, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if land(middle) == first:
            low = middle
        else:
            high = middle


def _scripted(env: Any, number: float) -> Script:
    env.np_random = script = Script(number)
    return script


def _state(observation: Any) -> State:
    return tuple(int(part) for part in observation)


def _tabulated(
    labels: list[State],
    found: dict[State, list[list[tuple[float, StepResult]]]],
    start: State,
    num_actions: int,
) -> TransitionTable:
    number = {label: k for k, label in enumerate(labels)}
    length = len(next(iter(found.values()))[0][0][1].reward)

    def row(label: State, action: int) -> list[tuple[float, int, tuple[float, ...], bool]]:
        if label not in found:  # an end that is never left: the environment does not say what follows
            return [(1.0, number[label], (0.0,) * length, True)]
        return [(p, number[to.state], to.reward, to.ended) for p, to in found[label][action]]

    table = [[row(label, action) for action in range(num_actions)] for label in labels]
    first: Floats = np.zeros(len(labels))
    first[number[start]] = 1.0
    return TransitionTable(table, first, labels)


MO_GYMNASIUM_CITATION = (
    "Felten et al.: A Toolkit for Reliable Benchmarking and Research in Multi-Objective Reinforcement "
    f"Learning, NeurIPS 2023 (MO-Gymnasium); {PAPER_CITATION}"
)


def deep_sea(environment: str) -> Model:
    """Return the model of diving for treasure: its part of the largest one counts, and the time does not."""

    def place(env: Any, state: State) -> None:
        env.current_state = np.array(state, dtype=np.int32)

    env, source = _made(environment)
    largest = float(env.reward_space.high[0])
    return Model(stepped_table(env, place), source, weights=(1.0 / largest, 0.0))


def resource_gathering() -> Model:
    """Return the model of bringing gold and a gem home past enemies: three objectives count the same.

    The states are all cells with all flags, also those in which one stands on the gold without having it.
    """

    def place(env: Any, state: State) -> None:
        env.current_pos = np.array(state[:2], dtype=np.int32)
        env.has_gold, env.has_gem = state[2:]

    env, source = _made("resource-gathering")
    flags = (range(2), range(2))
    states = itertools.product(*map(range, env.map.shape), *flags)
    return Model(stepped_table(env, place, states), source, weights=(1.0, 1.0, 1.0))


def fruit_tree(depth: int) -> Model:
    """Return the model of descending a binary tree to a fruit: the mean of its six nutrients counts."""

    def place(env: Any, state: State) -> None:
        env.current_state = np.array(state, dtype=np.int32)
        env.terminal = False

    env, source = _made("fruit-tree", depth=depth)
    return Model(stepped_table(env, place), {**source, "depth": depth}, weights=(1.0 / 6.0,) * 6)


def _made(environment: str, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Return an environment without wrappers, and its id and the versions of its packages."""
    library = optional("mo_gymnasium")
    newest = installed_id(environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the precision of bounds that nobody reads
        env = library.make(newest, **arguments).unwrapped
    versions = {name: metadata.version(name) for name in ("gymnasium", "mo-gymnasium")}
    return env, {"environment": newest, **versions}


def _recipe(
    name: str, summary: str, num_states: int, read: Callable[[], Model], title: str = "", **changed: Any
) -> Recipe:
    paper = paper_numbers()[name]
    return Recipe(
        name=name,
        summary=summary,
        citation=MO_GYMNASIUM_CITATION,
        num_states=num_states,
        settings={
            "num_features": paper.num_features,
            "epsilon": paper.epsilon,
            "policy_seed": None,
            "weights": None,
            **LEARNING,
            "episodes": 100_000,
            "exploration": 1.0,
            **changed,
        },
        process=learned_process(read),
        paper=paper,
        title=title,
        needs=("gymnasium", "mo_gymnasium"),
    )


MULTI_OBJECTIVE = (
    _recipe(
        "deep-sea",
        "Dive for treasure: the deeper, the larger.",
        72,
        partial(deep_sea, "deep-sea-treasure"),
    ),
    _recipe(
        "deep-sea-concave",
        "Dive for treasure, with a concave front.",
        72,
        partial(deep_sea, "deep-sea-treasure-concave"),
        title="Deep sea, concave",
    ),
    _recipe(
        "resource-gathering",
        "Bring gold and a gem home past two enemies.",
        100,
        resource_gathering,
        learning_rate=0.01,
    ),
    *(
        _recipe(
            f"fruit-tree-{depth}",
            f"Descend a binary tree of depth {depth} to one of its fruits.",
            2 ** (depth + 1) - 1,
            partial(fruit_tree, depth),
            title=f"Fruit tree, depth {depth}",
            episodes=30_000,
        )
        for depth in (5, 6, 7)
    ),
)
