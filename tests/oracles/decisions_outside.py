"""Decision processes by someone who came to the method later, used once.

They were written down before any of them was run, as unlike the others as could be thought of: queues that
share a server, routing, imperfect repairs, small stakes with a lead time, dense kernels, phases that hardly
change, sojourns with heavy tails, and control of one number whose action values are polynomials.
Nothing may be chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.oracles.decisions import Decisions, Floats, Logs, Make, Random
from tests.oracles.decisions_late import NumberDecisions, NumberMake

# ---------------------------------------------------------------- tables


def polling(name: str, room: int, lengths: tuple[int, int, int]) -> Decisions:
    """One server for two queues. At each step it stays or goes over, which takes the step.

    The log goes over now and then; the target goes over when the other queue is longer or its own is empty.
    """
    side = room + 1
    size = 2 * side * side
    kernel, rewards = np.zeros((size, 2, size)), np.zeros((size, 2))
    behaviour, target = np.tile([0.65, 0.35], (size, 1)), np.zeros((size, 2))
    for state in range(size):
        at, first, second = state // side**2, state // side % side, state % side
        for action in range(2):
            now = at if action == 0 else 1 - at
            serves = 0.75 if action == 0 else 0.0
            for came_first, of_first in ((0, 0.8), (1, 0.2)):
                for came_second, of_second in ((0, 0.85), (1, 0.15)):
                    for served, of_served in ((0, 1.0 - serves), (1, serves)):
                        left = [first, second]
                        left[at] = max(left[at] - served, 0)
                        one, two = min(left[0] + came_first, room), min(left[1] + came_second, room)
                        kernel[state, action, now * side**2 + one * side + two] += (
                            of_first * of_second * of_served
                        )
            rewards[state, action] = -1.0 * first - 2.0 * second - 0.5 * action
        own, other = (first, second) if at == 0 else (second, first)
        goes = 0.8 if own == 0 and other > 0 else 0.6 if other > own else 0.1
        target[state] = 1.0 - goes, goes
    return Decisions(name, "polling", kernel, rewards, behaviour, target, lengths, noise=1.0)


def routing(name: str, room: int, lengths: tuple[int, int, int]) -> Decisions:
    """Customers are sent to a fast or a slow server; the log tosses a coin, the target expects the delay."""
    side = room + 1
    size = side * side
    arrives, fast, slow = 0.42, 0.36, 0.22
    kernel, rewards = np.zeros((size, 2, size)), np.zeros((size, 2))
    target = np.zeros((size, 2))
    for state in range(size):
        one, two = divmod(state, side)
        for action in range(2):
            joined = (min(one + (action == 0), room), min(two + (action == 1), room))
            kernel[state, action, joined[0] * side + joined[1]] += arrives
            kernel[state, action, max(one - 1, 0) * side + two] += fast
            kernel[state, action, one * side + max(two - 1, 0)] += slow
            full = (one, two)[action] == room
            rewards[state, action] = -0.5 * (one + two) - 4.0 * full * arrives
        to_slow = 0.8 if (two + 1) / slow < (one + 1) / fast else 0.15
        target[state] = 1.0 - to_slow, to_slow
    behaviour = np.full((size, 2), 0.5)
    return Decisions(name, "routing", kernel, rewards, behaviour, target, lengths, noise=0.2)


def repairs(name: str, grades: int, lengths: tuple[int, int, int]) -> Decisions:
    """A machine of many grades: nothing, a repair that helps by chance, or a new one. Failures are costly."""
    kernel, rewards = np.zeros((grades, 3, grades)), np.zeros((grades, 3))
    for grade in range(grades):
        for worse, chance in ((0, 0.5), (1, 0.35), (2, 0.15)):
            kernel[grade, 0, min(grade + worse, grades - 1)] += chance
        for better, chance in ((0, 0.3), (2, 0.4), (4, 0.3)):
            kernel[grade, 1, max(grade - better, 0)] += chance
        kernel[grade, 2, 0] = 1.0
        rewards[grade] = 10.0 - 0.2 * grade**2, 7.0 - 0.2 * grade**2, 0.0
    rewards[-1] -= 15.0
    behaviour = np.tile([0.6, 0.3, 0.1], (grades, 1))
    target = np.tile([0.8, 0.15, 0.05], (grades, 1))
    target[grades // 2 :] = 0.25, 0.65, 0.1
    target[-1] = 0.1, 0.3, 0.6
    return Decisions(name, "maintenance", kernel, rewards, behaviour, target, lengths, noise=2.0)


def lead_time(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """Cents: a stock of up to 6, and what was ordered arrives a step later, if there is room."""
    demand = np.array([0.35, 0.35, 0.2, 0.1])
    size = 7 * 3
    kernel, rewards = np.zeros((size, 3, size)), np.zeros((size, 3))
    behaviour, target = np.tile([0.4, 0.3, 0.3], (size, 1)), np.zeros((size, 3))
    for state in range(size):
        level, coming = divmod(state, 3)
        for action in range(3):
            for wanted, chance in enumerate(demand):
                sold = min(level, wanted)
                after = min(level - sold + coming, 6)
                kernel[state, action, after * 3 + action] += chance
                rewards[state, action] += chance * (0.03 * sold - 0.02 * (wanted - sold))
            rewards[state, action] -= 0.002 * level + 0.01 * action + 0.005 * (action > 0)
        few = level + coming
        target[state] = (0.1, 0.2, 0.7) if few < 3 else (0.3, 0.6, 0.1) if few < 5 else (0.9, 0.08, 0.02)
    return Decisions(name, "small stakes", kernel, rewards, behaviour, target, lengths, noise=0.01)


def dense(name: str, seed: int, size: int, lengths: tuple[int, int, int]) -> Decisions:
    """Every state leads to every state; three actions; heavy noise."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(size, 0.7), (size, 3))
    rewards = rng.standard_t(4, (size, 3))
    behaviour, target = rng.dirichlet(np.full(3, 4.0), size), rng.dirichlet(np.full(3, 2.0), size)
    return Decisions(name, "dense", kernel, rewards, behaviour, target, lengths, noise=3.0)


def phases(name: str, lengths: tuple[int, int, int]) -> Decisions:
    """Six phases that follow each other and last long; what is done makes them a little longer or shorter."""
    kernel, rewards = np.zeros((6, 2, 6)), np.zeros((6, 2))
    for phase in range(6):
        for action, stays in ((0, 0.95), (1, 0.85)):
            kernel[phase, action, phase] = stays
            kernel[phase, action, (phase + 1) % 6] = 1.0 - stays
    rewards[:, 0] = [5.0, 2.0, -1.0, -4.0, 0.0, 3.0]
    rewards[:, 1] = rewards[:, 0] - 0.5
    target = np.where(rewards[:, :1] > 0.0, [0.75, 0.25], [0.3, 0.7])
    return Decisions(name, "sticky phases", kernel, rewards, np.full((6, 2), 0.5), target, lengths, noise=0.5)


@dataclass(frozen=True, eq=False)
class ParetoDecisions(Decisions):
    """The same with durations whose tail falls like t to the power of -2.5: few moments are finite."""

    def logs(self, rng: Random, length: int, runs: int) -> Logs:
        """Draw logs of the behaviour, all at once."""
        drawn = super().logs(rng, length, runs)
        assert self.durations is not None
        assert drawn.durations is not None
        assert self.rates is not None
        lasted = self.durations[drawn.states, drawn.actions] * 1.5 * rng.pareto(2.5, drawn.states.shape)
        rates = self.rates[drawn.states, drawn.actions]
        return drawn._replace(rewards=drawn.rewards + rates * (lasted - drawn.durations), durations=lasted)


def pareto(name: str, seed: int, lengths: tuple[int, int, int]) -> Decisions:
    """Eight states; rows last long now and then, with a Lomax law."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(8, 0.4), (8, 2))
    kernel = 0.97 * kernel + 0.03 / 8
    return ParetoDecisions(
        name,
        "long sojourns",
        kernel,
        rng.normal(size=(8, 2)),
        rng.dirichlet(np.full(2, 5.0), 8),
        rng.dirichlet(np.full(2, 2.0), 8),
        lengths,
        durations=rng.uniform(0.5, 3.0, (8, 2)),
        rates=rng.normal(size=(8, 2)),
    )


# ---------------------------------------------------------------- numbers


def _steer(rng: Random, here: Floats, done: Floats) -> tuple[Floats, Floats]:
    """A number that is halved and pushed up or down; it stays between -1 and 1."""
    place = here[:, 0]
    after = 0.6 * place + 0.3 * (done - 0.5) + rng.uniform(-0.25, 0.25, len(place))
    return place - 1.5 * place**2 + 0.2 * done, after[:, None]


MIDDLE, SLOPE = 0.45, -0.4
"""Of the target's probability of the second action: it is ``MIDDLE + SLOPE * place``."""


def _chances(middle: float, slope: float) -> Callable[[Floats], Floats]:
    def chances(seen: Floats) -> Floats:
        second = middle + slope * seen[:, 0]
        return np.stack([1.0 - second, second], axis=1)

    return chances


class Steered(NumberDecisions):
    """Probabilities are linear in the place, so that values of the target are polynomials of degree 2."""

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Means of the place and of its square under the target."""
        first = 0.3 * (MIDDLE - 0.5) / (0.4 - 0.3 * SLOPE)
        noise = 0.3**2 / 4.0 + 0.25**2 / 3.0
        second = (0.36 * (MIDDLE - 0.5) * first + noise) / (1.0 - 0.36 - 0.36 * SLOPE)
        return first, second

    @cached_property
    def gain(self) -> float:
        """What the target earns a step, exactly."""
        first, second = self.moments
        return first - 1.5 * second + 0.2 * (MIDDLE + SLOPE * first)

    def values(self, places: Floats) -> Floats:
        """Relative values of the target, with mean 0."""
        square = -1.5 / (1.0 - 0.36 - 0.36 * SLOPE)
        linear = (1.0 + 0.2 * SLOPE + 0.36 * (MIDDLE - 0.5) * square) / (0.4 - 0.3 * SLOPE)
        first, second = self.moments
        return linear * (places - first) + square * (places**2 - second)


OUTSIDE_DECISIONS: dict[str, Make | NumberMake] = {
    "polling": lambda: polling("polling", 4, (5_000, 20_000, 60_000)),
    "routing": lambda: routing("routing", 5, (5_000, 20_000, 60_000)),
    "repairs": lambda: repairs("repairs", 9, (2_000, 8_000, 30_000)),
    "lead-time": lambda: lead_time("lead-time", (2_000, 8_000, 30_000)),
    "dense": lambda: dense("dense", 401, 25, (3_000, 10_000, 30_000)),
    "phases": lambda: phases("phases", (3_000, 10_000, 40_000)),
    "pareto": lambda: pareto("pareto", 402, (1_500, 6_000, 24_000)),
    "steered": lambda: Steered(
        "steered",
        "one number",
        1,
        _steer,
        _chances(0.5, 0.2),
        _chances(MIDDLE, SLOPE),
        lengths=(2_000, 8_000, 30_000),
        expressible=True,
    ),
}
"""From names to functions that make each process."""
