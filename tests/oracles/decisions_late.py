"""Decision processes for a second check of answers from logs: warnings of weak overlap, and default features.

They were written down before the rules that they judge (which overlap is weak; what features cannot express)
and are used once, when nothing is chosen any more. Those of `LATE_DECISIONS` have states that are counted,
those of `NUMBER_DECISIONS` numbers, for which the features are those that the package chooses by itself.
`LEARNT_FROM` were looked at while the rules were made.

What a target with numbers earns has no formula: it is the mean of many independent paths of the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.oracles.decisions import (
    Decisions,
    Floats,
    Logs,
    Make,
    Random,
    events,
    nearly_deterministic,
    random_decisions,
)

TRUTH_PATHS, TRUTH_STEPS, TRUTH_START = 4_000, 2_000, 500
"""Paths of the target from which its gain is known, their steps, and those before them."""


# ---------------------------------------------------------------- tables


def clinic(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """A waiting room of up to 14 with three speeds of work; the log mostly works at the middle one."""
    size = 15
    kernel, rewards = np.zeros((size, 3, size)), np.zeros((size, 3))
    for waiting in range(size):
        for speed in range(3):
            leaves = (0.2, 0.35, 0.5)[speed] * (waiting > 0)
            comes = 0.3 * (waiting < size - 1)
            kernel[waiting, speed, min(waiting + 1, size - 1)] += comes
            kernel[waiting, speed, max(waiting - 1, 0)] += leaves
            kernel[waiting, speed, waiting] += 1.0 - comes - leaves
            rewards[waiting, speed] = -0.2 * waiting - (0.0, 0.3, 1.0)[speed]
    behaviour = np.tile([0.2, 0.6, 0.2], (size, 1))
    target = np.where(np.arange(size)[:, None] < 3, [0.8, 0.15, 0.05], [0.05, 0.25, 0.7])
    return Decisions(name, "queue", kernel, rewards, behaviour, target, lengths, noise=0.5)


def grid(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """Five by five places, four directions, slips; the goal pays and leads to a random place."""
    side, size = 5, 25
    kernel, rewards = np.zeros((size, 4, size)), np.full((size, 4), -0.1)
    goal = size - 1
    for place in range(size):
        across, down = divmod(place, side)
        for action in range(4):
            if place == goal:
                kernel[place, action], rewards[place, action] = 1.0 / size, 3.0
                continue
            for direction, (right, below) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
                to = min(max(across + right, 0), side - 1) * side + min(max(down + below, 0), side - 1)
                kernel[place, action, to] += 0.7 if direction == action else 0.1
    behaviour = np.full((size, 4), 0.25)
    target = np.tile([0.45, 0.05, 0.45, 0.05], (size, 1))
    return Decisions(name, "grid", kernel, rewards, behaviour, target, lengths, noise=0.2)


def lock(name: str, size: int, lengths: tuple[int, int, int]) -> Decisions:
    """A lock that opens after the right digits in a row; a wrong one begins anew. The log tries at random."""
    kernel, rewards = np.zeros((size, 3, size)), np.zeros((size, 3))
    for state in range(size):
        right = state % 3
        kernel[state, :, 0] = 1.0
        kernel[state, right] = 0.0
        kernel[state, right, (state + 1) % size] = 1.0
        rewards[state] = -0.1
    rewards[size - 1, (size - 1) % 3] = 2.0
    behaviour = np.full((size, 3), 1.0 / 3.0)
    target = np.full((size, 3), 0.05)
    target[np.arange(size), np.arange(size) % 3] = 0.9
    return Decisions(
        name, "weak overlap", kernel, rewards, behaviour, target, lengths, noise=0.3, overlap="weak"
    )


def island(name: str, seed: int, lengths: tuple[int, int, int]) -> Decisions:
    """Nine states on the mainland, three on an island which the log leaves at once and the target seeks."""
    rng = np.random.default_rng(seed)
    kernel = np.zeros((12, 2, 12))
    for state in range(12):
        own, other = (slice(0, 9), slice(9, 12)) if state < 9 else (slice(9, 12), slice(0, 9))
        for action in range(2):
            stays = 0.995 if action == 0 else 0.6
            stays = stays if state < 9 else 1.0 - stays + 0.3
            kernel[state, action, own] = stays * rng.dirichlet(np.ones(own.stop - own.start))
            kernel[state, action, other] = (1.0 - stays) * rng.dirichlet(np.ones(other.stop - other.start))
    rewards = rng.normal(size=(12, 2)) + np.where(np.arange(12) < 9, 0.0, 2.0)[:, None]
    behaviour, target = np.tile([0.97, 0.03], (12, 1)), np.tile([0.3, 0.7], (12, 1))
    behaviour[9:], target[9:] = [0.05, 0.95], [0.9, 0.1]
    return Decisions(
        name, "weak overlap", kernel, rewards, behaviour, target, lengths, noise=0.5, overlap="weak"
    )


def hill(name: str, size: int, lengths: tuple[int, int, int]) -> Decisions:
    """A walk that the log lets slip down and the target pushes up."""
    kernel = np.zeros((size, 2, size))
    for state in range(size):
        for action, up in ((0, 0.25), (1, 0.7)):
            kernel[state, action, min(state + 1, size - 1)] += up
            kernel[state, action, max(state - 1, 0)] += 1.0 - up
    place = np.arange(size) / size
    rewards = np.stack([place, place - 0.2], axis=1)
    behaviour, target = np.tile([0.75, 0.25], (size, 1)), np.tile([0.25, 0.75], (size, 1))
    return Decisions(
        name, "weak overlap", kernel, rewards, behaviour, target, lengths, noise=0.3, overlap="weak"
    )


LATE_DECISIONS: dict[str, Make] = {
    "clinic": lambda: clinic("clinic", (1_500, 6_000, 24_000)),
    "grid": lambda: grid("grid", (2_000, 8_000, 32_000)),
    "many-choices": lambda: random_decisions("many-choices", 203, 15, 12, 4, (4_000, 12_000, 40_000)),
    "seldom": lambda: nearly_deterministic("seldom", 205, 0.15, (2_000, 10_000, 50_000)),
    "more-events": lambda: events("more-events", 206, "gamma", (800, 4_000, 20_000)),
    "lock": lambda: lock("lock", 5, (1_000, 5_000, 25_000)),
    "island": lambda: island("island", 207, (1_000, 5_000, 25_000)),
    "hill": lambda: hill("hill", 10, (2_000, 10_000, 50_000)),
}
"""From names to functions that make each process."""


# ---------------------------------------------------------------- numbers


@dataclass(frozen=True, eq=False)
class NumberDecisions:
    """A decision process whose states are numbers, and the two policies.

    Attributes
    ----------
    name, kind : str
    dimension : int
        Numbers of a state.
    move : function
        From a generator, states (m, d) and actions (m,) to mean rewards (m,) and the next states (m, d).
    behaviour, target : functions
        From states (m, d) to probabilities of actions (m, A).
    lengths : tuple of int
    noise : float
        Standard deviation of a reward, normal.
    expressible : bool
        Whether action values are polynomials of degree 2.
    """

    name: str
    kind: str
    dimension: int
    move: Callable[[Random, Floats, Floats], tuple[Floats, Floats]]
    behaviour: Callable[[Floats], Floats]
    target: Callable[[Floats], Floats]
    lengths: tuple[int, ...] = (5_000, 20_000)
    noise: float = 0.3
    expressible: bool = False

    @cached_property
    def gain(self) -> float:
        """What the target earns a step, known ten times better than from a log of 20,000 rows."""
        rng, total = np.random.default_rng(1), 0.0
        here = np.full((TRUTH_PATHS, self.dimension), 0.3)
        for step in range(TRUTH_START + TRUTH_STEPS):
            earned, here = self.move(rng, here, _drawn(rng, self.target(here)))
            total += float(earned.mean()) * (step >= TRUTH_START)
        return total / TRUTH_STEPS

    def chances(self, seen: Floats) -> Floats:
        """Probabilities of the target's actions, of one state or of several."""
        return self.target(seen) if seen.ndim > 1 else self.target(seen[None])[0]

    def logs(self, rng: Random, length: int, runs: int) -> Logs:
        """Draw logs of the behaviour, all at once; states have the shape (runs, length, d)."""
        states = np.empty((runs, length, self.dimension))
        actions, rewards = np.empty((runs, length), dtype=np.int64), np.empty((runs, length))
        here = np.full((runs, self.dimension), 0.3)
        for step in range(-200, length):
            done = _drawn(rng, self.behaviour(here))
            earned, after = self.move(rng, here, done)
            if step >= 0:
                states[:, step], actions[:, step], rewards[:, step] = here, done, earned
            here = after
        return Logs(states, actions, rewards + self.noise * rng.normal(size=rewards.shape), None)


def _drawn(rng: Random, chances: Floats) -> Floats:
    return (chances.cumsum(axis=1)[:, :-1] <= rng.random((len(chances), 1))).sum(axis=1)


def two(chance: Floats) -> Floats:
    """Probabilities of two actions, given those of the second."""
    return np.stack([1.0 - chance, chance], axis=1)


def logistic(numbers: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-numbers)))


def even(count: int) -> Callable[[Floats], Floats]:
    return lambda seen: np.full((len(seen), count), 1.0 / count)


def _line(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place = here[:, 0]
    after = 0.8 * place + 0.8 * done - 0.4 + 0.3 * rng.normal(size=len(place))
    return 0.1 * done - (place - 0.5) ** 2, after[:, None]


def _tank(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    level = here[:, 0]
    after = np.clip(level + rng.exponential(0.15, len(level)) - 0.3 * done, 0.0, 1.0)
    return np.where(level >= 1.0, -1.0, 0.0) - 0.2 * done, after[:, None]


def _spring(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place, speed = here.T
    after = 0.9 * speed - 0.2 * place + 0.3 * (done - 1.0) + 0.15 * rng.normal(size=len(place))
    return -(place**2) - 0.1 * np.abs(done - 1.0), np.stack([place + 0.3 * after, after], axis=1)


def _thermostat(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    warm = here[:, 0]
    after = 0.85 * warm + 0.35 * done + 0.15 * rng.normal(size=len(warm))
    return -np.abs(warm - 1.0) - 0.1 * done, after[:, None]


def _fishery(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    stock = here[:, 0]
    left = stock * (1.0 - 0.25 * done)
    after = np.clip(left * np.exp(0.6 * (1.0 - left) + 0.25 * rng.normal(size=len(stock))), 0.02, 5.0)
    return 2.0 * (stock - left), after[:, None]


def _tanks(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    comes = rng.exponential(0.2, len(here))
    to = np.stack([done == 0, done == 1], axis=1)
    after = np.clip(here + comes[:, None] * to - 0.12, 0.0, 1.5)
    return -here.max(axis=1), after


def _circle(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place = here[:, 0]
    after = (place + 0.05 + 0.15 * done + 0.05 * rng.normal(size=len(place))) % 1.0
    return np.cos(2.0 * np.pi * place) - 0.1 * done, after[:, None]


def _pendulum(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    angle, speed = here.T
    after = np.clip(0.95 * speed - 0.3 * np.sin(angle) + 0.25 * (done - 1.0), -3.0, 3.0)
    after = after + 0.1 * rng.normal(size=len(angle))
    return np.cos(angle) - 0.05 * np.abs(done - 1.0), np.stack([angle + 0.3 * after, after], axis=1)


def _patient(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    one, two, three = here.T
    push = done - 0.5
    after = np.stack(
        [0.8 * one + 0.3 * push, 0.7 * two + 0.2 * one * push, 0.6 * three + 0.3 * np.tanh(two + push)],
        axis=1,
    )
    return one - two**2 + np.minimum(three, 0.0), after + 0.2 * rng.normal(size=here.shape)


def _linear(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    one, two = here.T
    after = np.stack([0.8 * one + 0.2 * two + 0.4 * done, 0.6 * two - 0.2 * done], axis=1)
    return one - one * two - 0.3 * done, after + 0.3 * rng.normal(size=here.shape)


def _straight(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place = here[:, 0]
    after = 0.7 * place + 0.5 * (done - 1.0) + 0.4 * rng.normal(size=len(place))
    return 0.3 * place - 0.2 * place**2 + 0.1 * done, after[:, None]


NumberMake = Callable[[], NumberDecisions]

LEARNT_FROM: dict[str, NumberMake] = {
    "line": lambda: NumberDecisions(
        "line", "one number", 1, _line, even(2), lambda seen: two(logistic(-3.0 * (seen[:, 0] - 0.5)))
    ),
    "tank": lambda: NumberDecisions(
        "tank", "one number", 1, _tank, even(2), lambda seen: two(1.0 * (seen[:, 0] > 0.6))
    ),
    "spring": lambda: NumberDecisions(
        "spring",
        "two numbers",
        2,
        _spring,
        even(3),
        lambda seen: np.eye(3)[np.where(seen.sum(axis=1) > 0.2, 0, np.where(seen.sum(axis=1) < -0.2, 2, 1))],
    ),
    "straight": lambda: NumberDecisions(
        "straight",
        "one number",
        1,
        _straight,
        even(3),
        lambda seen: np.tile([0.1, 0.3, 0.6], (len(seen), 1)),
        expressible=True,
    ),
}
"""Processes that were looked at while the rules were made."""

NUMBER_DECISIONS: dict[str, NumberMake] = {
    "thermostat": lambda: NumberDecisions(
        "thermostat", "one number", 1, _thermostat, even(2), lambda seen: two(1.0 * (seen[:, 0] < 1.0))
    ),
    "fishery": lambda: NumberDecisions(
        "fishery",
        "one number",
        1,
        _fishery,
        even(3),
        lambda seen: np.stack(
            [1.0 - logistic(4.0 * seen[:, 0] - 3.0)] + [0.5 * logistic(4.0 * seen[:, 0] - 3.0)] * 2, axis=1
        ),
    ),
    "tanks": lambda: NumberDecisions(
        "tanks", "two numbers", 2, _tanks, even(2), lambda seen: two(1.0 * (seen[:, 0] > seen[:, 1]))
    ),
    "circle": lambda: NumberDecisions(
        "circle", "one number", 1, _circle, even(2), lambda seen: two(0.1 + 0.8 * (seen[:, 0] > 0.3))
    ),
    "pendulum": lambda: NumberDecisions(
        "pendulum",
        "two numbers",
        2,
        _pendulum,
        even(3),
        lambda seen: np.eye(3)[1 - np.sign(seen[:, 1]).astype(int)],
    ),
    "patient": lambda: NumberDecisions(
        "patient",
        "three numbers",
        3,
        _patient,
        even(2),
        lambda seen: two(logistic(2.0 * seen[:, 0] - seen[:, 2])),
    ),
    "linear": lambda: NumberDecisions(
        "linear",
        "two numbers",
        2,
        _linear,
        lambda seen: two(logistic(seen[:, 0])),
        lambda seen: np.tile([0.3, 0.7], (len(seen), 1)),
        expressible=True,
    ),
}
"""Held out, as those of `LATE_DECISIONS` are."""
