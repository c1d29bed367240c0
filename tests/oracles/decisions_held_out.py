"""Decision processes that are used once, when nothing is chosen any more.

They were written down before the method, as those of `decisions` were, and nothing may be chosen by them.
"""

from __future__ import annotations

import numpy as np

from tests.oracles.decisions import (
    Decisions,
    Make,
    events,
    few_kinds,
    nearly_deterministic,
    random_decisions,
    river,
)


def machine(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """A machine that wears out and may be replaced; the log replaces at random, the target by age."""
    ages = 9
    kernel, rewards = np.zeros((ages, 2, ages)), np.zeros((ages, 2))
    for age in range(ages):
        fails = 0.05 * age
        kernel[age, 1, 0] = 1.0
        kernel[age, 0, 0] = fails
        kernel[age, 0, min(age + 1, ages - 1)] += 1.0 - fails
        rewards[age] = 8.0 - age - 20.0 * fails, 8.0 - age - 10.0
    behaviour = np.tile([0.8, 0.2], (ages, 1))
    old = np.arange(ages) >= 4
    target = np.stack([np.where(old, 0.05, 0.95), np.where(old, 0.95, 0.05)], axis=1)
    return Decisions(name, "machine", kernel, rewards, behaviour, target, lengths)


def stock(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """A stock of up to 12 that is filled up by 0, 2, 4 or 6 for a demand that is Poisson with mean 2."""
    room = 12
    demand = np.exp(-2.0) * np.cumprod(np.append(1.0, 2.0 / np.arange(1.0, 30.0)))
    kernel, rewards = np.zeros((room + 1, 4, room + 1)), np.zeros((room + 1, 4))
    for level in range(room + 1):
        for action in range(4):
            full = min(level + 2 * action, room)
            sold = np.minimum(np.arange(len(demand)), full)
            np.add.at(kernel[level, action], full - sold, demand / demand.sum())
            rewards[level, action] = 4.0 * (sold @ demand) - 1.5 * (full - level) - 2.0 * (action > 0)
            rewards[level, action] -= 0.2 * level
    behaviour = np.tile([0.4, 0.2, 0.2, 0.2], (room + 1, 1))
    target = np.full((room + 1, 4), 0.02)
    target[np.arange(room + 1), np.where(np.arange(room + 1) <= 3, 3, 0)] = 0.94
    return Decisions(name, "inventory", kernel, rewards, behaviour, target, lengths, noise=0.5)


HELD_OUT_DECISIONS: dict[str, Make] = {
    "machine": lambda: machine("machine", (1_000, 5_000, 25_000)),
    "stock": lambda: stock("stock", (1_000, 5_000, 25_000)),
    "large": lambda: random_decisions("large", 101, 60, 4, 6, (5_000, 20_000, 80_000)),
    "short-river": lambda: river("short-river", 4, 0.25, (2_000, 10_000, 50_000)),
    "rarely": lambda: nearly_deterministic("rarely", 102, 0.1, (2_000, 10_000, 50_000)),
    "long-events": lambda: events("long-events", 103, "lognormal", (1_000, 5_000, 25_000)),
    "more-kinds": lambda: few_kinds("more-kinds", 104, "both", (2_000, 10_000, 40_000), 100, 8),
    "more-values": lambda: few_kinds("more-values", 104, "values", (2_000, 10_000, 40_000), 100, 8),
    "more-ratio": lambda: few_kinds("more-ratio", 104, "ratio", (2_000, 10_000, 40_000), 100, 8),
}
"""From names to functions that make each process."""
