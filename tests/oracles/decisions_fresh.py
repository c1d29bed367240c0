"""Decision processes for a third check of answers from logs, used once.

They were written down before the changes that they judge: by what it is told that few steps of the log make
up the variance, which features of the ratio are chosen automatically, and what an interval knows of what
features do not express. Those of `FRESH_DECISIONS` have states that are counted, and overlap that is just
good, or features; those of `FRESH_NUMBERS` have numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracles.decisions import (
    Decisions,
    Floats,
    Make,
    Random,
    events,
    few_kinds,
    nearly_deterministic,
    random_decisions,
    river,
)
from tests.oracles.decisions_late import NumberDecisions, NumberMake, even, island, lock, logistic, two

# ---------------------------------------------------------------- tables


def ladder(name: str, size: int, lengths: tuple[int, int, int]) -> Decisions:
    """A ladder that the target climbs, and the log half as often; who slips falls to its foot."""
    kernel, rewards = np.zeros((size, 2, size)), np.zeros((size, 2))
    for state in range(size):
        kernel[state, 1, min(state + 1, size - 1)] = 0.9
        kernel[state, 1, 0] += 0.1
        kernel[state, 0, max(state - 1, 0)] = 1.0
        rewards[state] = 0.5 * state, 0.5 * state - 0.2
    behaviour, target = np.tile([0.55, 0.45], (size, 1)), np.tile([0.2, 0.8], (size, 1))
    return Decisions(name, "weak overlap", kernel, rewards, behaviour, target, lengths, overlap="weak")


def parts(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """Two parts that wear out by themselves in four grades; one of them, or neither, is replaced."""
    grades, size = 4, 16
    kernel, rewards = np.zeros((size, 3, size)), np.zeros((size, 3))
    for state in range(size):
        both = divmod(state, grades)
        for action in range(3):
            after = []
            for number, grade in enumerate(both):
                law = np.zeros(grades)
                law[0 if action == number + 1 else grade] += 0.7
                law[0 if action == number + 1 else min(grade + 1, grades - 1)] += 0.3
                after.append(law)
            kernel[state, action] = np.outer(*after).ravel()
            rewards[state, action] = 3.0 - 1.5 * (both[0] == 3) - 2.5 * (both[1] == 3) - 1.0 * (action > 0)
    behaviour = np.tile([0.8, 0.1, 0.1], (size, 1))
    target = np.full((size, 3), 0.04)
    worn = np.array([0 if max(divmod(s, 4)) < 2 else 1 + int(s % 4 >= s // 4) for s in range(size)])
    target[np.arange(size), worn] = 0.92
    return Decisions(name, "machine", kernel, rewards, behaviour, target, lengths, noise=0.8)


FRESH_DECISIONS: dict[str, Make] = {
    "long-lock": lambda: lock("long-lock", 6, (6_000, 20_000, 60_000)),
    "far-island": lambda: island("far-island", 307, (4_000, 10_000, 40_000)),
    "ladder": lambda: ladder("ladder", 7, (2_000, 8_000, 32_000)),
    "parts": lambda: parts("parts", (1_500, 6_000, 24_000)),
    "short-events": lambda: events("short-events", 311, "lognormal", (600, 2_400, 10_000)),
    "sparse": lambda: random_decisions("sparse", 312, 40, 4, 3, (3_000, 12_000, 48_000)),
    "habit": lambda: nearly_deterministic("habit", 313, 0.08, (4_000, 16_000, 64_000)),
    "calm-river": lambda: river("calm-river", 4, 0.45, (2_000, 8_000, 32_000)),
    "fresh-kinds": lambda: few_kinds("fresh-kinds", 314, "both", (2_000, 10_000, 40_000)),
    "fresh-values": lambda: few_kinds("fresh-values", 315, "values", (2_000, 10_000, 40_000)),
    "fresh-ratio": lambda: few_kinds("fresh-ratio", 316, "ratio", (2_000, 10_000, 40_000)),
    "fresh-neither": lambda: few_kinds("fresh-neither", 317, "neither", (2_000, 10_000, 40_000)),
}
"""From names to functions that make each process."""


# ---------------------------------------------------------------- numbers


def _cart(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place, speed = here.T
    after = 0.8 * speed + 0.4 * (done - 0.5) - 0.1 * place + 0.1 * rng.normal(size=len(place))
    return -np.abs(place), np.stack([place + 0.4 * after, after], axis=1)


def _cooler(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    heat = here[:, 0]
    after = 0.9 * heat + 0.25 - 0.2 * done + 0.12 * rng.normal(size=len(heat))
    return -2.0 * np.maximum(heat - 1.5, 0.0) - 0.3 * done, after[:, None]


def _reservoir(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    level = here[:, 0]
    let = np.minimum(0.15 * done, level)
    after = np.minimum(level - let + rng.gamma(2.0, 0.06, len(level)), 1.0)
    return np.sqrt(let) - 1.0 * (level > 0.95), after[:, None]


def _shop(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    price, stock = here.T
    sold = np.minimum(stock, rng.exponential(0.3, len(stock)))
    after = 0.9 * price + 0.1 + 0.1 * rng.normal(size=len(price))
    return sold - 0.5 * price * done - 0.1 * stock, np.stack(
        [after, np.minimum(stock - sold + 0.5 * done, 3.0)], axis=1
    )


def _dose(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    level = here[:, 0]
    after = (0.7 * level + 0.6 * done) * np.exp(0.15 * rng.normal(size=len(level)))
    return np.exp(-2.0 * (level - 1.0) ** 2) - 0.1 * done, after[:, None]


def _three(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    one, two, three = here.T
    push = 0.4 * (done - 0.5)
    after = np.stack([0.7 * one + 0.3 * two + push, 0.8 * two - push, 0.5 * three + 0.3 * one], axis=1)
    return one - 0.5 * np.abs(two) + 0.2 * three, after + 0.25 * rng.normal(size=here.shape)


def _smooth(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    place = here[:, 0]
    after = 0.6 * place + 0.4 * done - 0.2 + 0.3 * rng.normal(size=len(place))
    return place - 0.5 * place**2 + 0.2 * done, after[:, None]


def _valve(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    press = here[:, 0]
    after = 0.97 * press + 0.3 * (done - 1.0) + 0.08 * rng.normal(size=len(press))
    return -np.abs(press - 0.5), after[:, None]


def _drone(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    height, drift = here.T
    after = 0.95 * height + 0.3 * (done - 0.5) + 0.1 * drift + 0.06 * rng.normal(size=len(height))
    wind = 0.9 * drift + 0.2 * rng.normal(size=len(height))
    return np.minimum(0.3 - np.abs(height), 0.0) - 0.2 * np.abs(height), np.stack([after, wind], axis=1)


def _stove(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    plate, pot = here.T
    hot = 0.85 * plate + 0.4 * done + 0.05 * rng.normal(size=len(plate))
    warm = 0.8 * pot + 0.2 * plate + 0.05 * rng.normal(size=len(plate))
    return -((warm - 1.0) ** 2) - 1.0 * (warm > 1.3), np.stack([hot, warm], axis=1)


def _decisions(name: str, kind: str, dimension: int, move: Any, behaviour: Any, target: Any) -> NumberMake:
    return lambda: NumberDecisions(
        name, kind, dimension, move, behaviour, target, expressible=name == "smooth"
    )


FRESH_NUMBERS: dict[str, NumberMake] = {
    "cart": _decisions(
        "cart", "two numbers", 2, _cart, even(2), lambda seen: two(1.0 * (seen.sum(axis=1) < 0.0))
    ),
    "cooler": _decisions(
        "cooler",
        "one number",
        1,
        _cooler,
        lambda seen: two(0.2 + 0.6 * logistic(3.0 * (seen[:, 0] - 1.5))),
        lambda seen: two(1.0 * (seen[:, 0] > 1.4)),
    ),
    "reservoir": _decisions(
        "reservoir",
        "one number",
        1,
        _reservoir,
        even(3),
        lambda seen: np.eye(3)[(seen[:, 0] > 0.3).astype(int) + (seen[:, 0] > 0.7)] * 0.9 + 0.1 / 3.0,
    ),
    "shop": _decisions(
        "shop",
        "two numbers",
        2,
        _shop,
        lambda seen: np.tile([0.5, 0.5], (len(seen), 1)),
        lambda seen: two(1.0 * (seen[:, 1] < 1.0 + 0.5 * (seen[:, 0] < 1.0))),
    ),
    "dose": _decisions("dose", "one number", 1, _dose, even(2), lambda seen: two(1.0 * (seen[:, 0] < 0.9))),
    "three": _decisions(
        "three", "three numbers", 3, _three, even(2), lambda seen: two(1.0 * (seen[:, 1] > 0.0))
    ),
    "valve": _decisions(
        "valve",
        "one number",
        1,
        _valve,
        even(3),
        lambda seen: np.eye(3)[1 - np.sign(seen[:, 0] - 0.5).astype(int)],
    ),
    "drone": _decisions(
        "drone",
        "two numbers",
        2,
        _drone,
        even(2),
        lambda seen: two(1.0 * (seen[:, 0] + 0.1 * seen[:, 1] < 0.0)),
    ),
    "stove": _decisions(
        "stove", "two numbers", 2, _stove, even(2), lambda seen: two(1.0 * (seen[:, 1] < 1.0))
    ),
    "smooth": _decisions(
        "smooth",
        "one number",
        1,
        _smooth,
        lambda seen: two(logistic(seen[:, 0])),
        lambda seen: two(logistic(1.0 - 2.0 * seen[:, 0])),
    ),
}
"""The same for numbers. `valve`, `drone` and `stove` were added after `cart` had been seen."""
