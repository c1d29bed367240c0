"""Decision processes with two policies, and what the second one earns exactly: judges of answers from logs.

They were written down before the method that they judge, and stay as they are. A process whose parameters
turn out to be badly chosen gets a neighbour under another name.

Each has a kernel P(s' | s, a), mean rewards and perhaps durations, a policy that makes the log (`behaviour`)
and one that is asked about (`target`). The truth comes from dense linear algebra on the target's chain, in
NumPy alone. Logs begin in the stationary law of the behaviour. Rewards have noise of their own, so that the
same state, action and next state do not always pay the same.

Where there are features, `features` are for the action values and `ratio_features` for the ratio of the
state-action laws, both (n, A, d); `expressible` says what they can express.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Random = np.random.Generator

LEAST_WORTH, MOST_UNSEEN = 100.0, 0.01
"""A log has good overlap if it is worth so many independent steps of the target, and lacks so few of them."""


class Logs(NamedTuple):
    """Several logs of equal length: arrays (runs, length). A step leads to the state of the next column."""

    states: Ints
    actions: Ints
    rewards: Floats
    durations: Floats | None


@dataclass(frozen=True, eq=False)
class Decisions:
    """A decision process, the policy that made the log, and the one that is asked about.

    Attributes
    ----------
    name, kind : str
        ``kind`` is a word for what is hard about it.
    kernel : (n, A, n) array
    rewards : (n, A) array
        Mean of what a step pays at once.
    behaviour, target : (n, A) arrays
        Probabilities of actions.
    lengths : (int, int, int)
        Rows of a short, a middling and a long log.
    noise : float
        Standard deviation of a reward given state and action; the noise is exponential, less its mean.
    durations, rates : (n, A) arrays or None
        Mean duration of a step, and what it pays per unit of time. Durations have the law `sojourn`.
    sojourn : {"gamma", "lognormal"}
    overlap : {"good", "weak"}
        Whether at least 80% of long logs should be answered without a warning.
    features, ratio_features : (n, A, d) arrays or None
    expressible : {"both", "values", "ratio", "neither"}
        What of the truth lies in the span of its features.
    """

    name: str
    kind: str
    kernel: Floats
    rewards: Floats
    behaviour: Floats
    target: Floats
    lengths: tuple[int, int, int]
    noise: float = 1.0
    durations: Floats | None = None
    rates: Floats | None = None
    sojourn: Literal["gamma", "lognormal"] = "gamma"
    overlap: Literal["good", "weak"] = "good"
    features: Floats | None = None
    ratio_features: Floats | None = None
    expressible: Literal["both", "values", "ratio", "neither"] = field(default="both")

    @property
    def num_states(self) -> int:
        return len(self.kernel)

    @property
    def num_actions(self) -> int:
        return self.kernel.shape[1]

    @cached_property
    def paid(self) -> Floats:
        """Mean of all that a step pays, (n, A)."""
        in_time = 0.0 if self.rates is None or self.durations is None else self.rates * self.durations
        return self.rewards + in_time

    @cached_property
    def lasting(self) -> Floats:
        """Mean duration of a step, (n, A)."""
        return np.ones_like(self.rewards) if self.durations is None else self.durations

    @cached_property
    def target_law(self) -> Floats:
        """Share of steps of the target in each state, (n,)."""
        return stationary_law(under(self.kernel, self.target))

    @cached_property
    def behaviour_law(self) -> Floats:
        """Share of steps of the log in each state, (n,)."""
        return stationary_law(under(self.kernel, self.behaviour))

    @cached_property
    def gain(self) -> float:
        """What the target earns per unit of time."""
        shares = self.target_law[:, None] * self.target
        return float((shares * self.paid).sum() / (shares * self.lasting).sum())

    @cached_property
    def values(self) -> Floats:
        """Relative values of states under the target, with mean 0 over time, (n,)."""
        surplus = (self.target * (self.paid - self.gain * self.lasting)).sum(axis=1)
        moves = under(self.kernel, self.target)
        values = np.linalg.solve(
            np.eye(self.num_states) - moves + np.outer(np.ones(self.num_states), self.target_law), surplus
        )
        in_time = self.target_law * (self.target * self.lasting).sum(axis=1)
        return values - in_time @ values / in_time.sum()

    @cached_property
    def action_values(self) -> Floats:
        """Relative values of states and first actions, (n, A)."""
        return self.paid - self.gain * self.lasting + self.kernel @ self.values

    @cached_property
    def ratio(self) -> Floats:
        """Share of steps at each state and action under the target, over that in the log, (n, A)."""
        return self.target_law[:, None] * self.target / (self.behaviour_law[:, None] * self.behaviour)

    @cached_property
    def row_worth(self) -> float:
        """Independent steps of the target that a row of a long log is worth.

        One over the long-run variance of the ratio along the log: its size and its memory count.
        """
        n, a = self.rewards.shape
        shares = (self.behaviour_law[:, None] * self.behaviour).ravel()
        moves = np.einsum("sat,tb->satb", self.kernel, self.behaviour).reshape(n * a, n * a)
        apart = self.ratio.ravel() - 1.0
        summed = np.linalg.solve(np.eye(n * a) - moves + shares, apart)  # over all later steps
        return float(1.0 / (shares @ ((2.0 * summed - apart) * apart)))

    def unseen(self, length: int) -> float:
        """Share of the target's steps at state-actions that a log of this length is expected to lack."""
        visits = length * self.behaviour_law[:, None] * self.behaviour
        return float((self.target_law[:, None] * self.target * np.exp(-visits)).sum())

    def has_good_overlap(self, length: int) -> bool:
        """Whether a log of this length should mostly be answered without a warning.

        It must be worth `LEAST_WORTH` independent steps of the target, and lack at most `MOST_UNSEEN` of
        them.
        """
        return length * self.row_worth >= LEAST_WORTH and self.unseen(length) <= MOST_UNSEEN

    def discounted_values(self, discount: float) -> Floats:
        """Discounted values of states under the target, (n,)."""
        moves = under(self.kernel, self.target)
        paid = (self.target * self.paid).sum(axis=1)
        return np.linalg.solve(np.eye(self.num_states) - discount * moves, paid)

    def logs(self, rng: Random, length: int, runs: int) -> Logs:
        """Draw logs of the behaviour, all at once."""
        of_actions = self.behaviour.cumsum(axis=1)[:, :-1]
        of_states = self.kernel.cumsum(axis=2)[:, :, :-1]
        states = np.empty((runs, length), dtype=np.int64)
        actions = np.empty((runs, length), dtype=np.int64)
        here = np.searchsorted(self.behaviour_law.cumsum()[:-1], rng.random(runs), side="right")
        for step in range(length):
            chance = rng.random((2, runs, 1))
            states[:, step] = here
            actions[:, step] = action = (of_actions[here] <= chance[0]).sum(axis=1)
            here = (of_states[here, action] <= chance[1]).sum(axis=1)
        rewards = self.rewards[states, actions] + self.noise * (rng.exponential(size=states.shape) - 1.0)
        if self.durations is None:
            return Logs(states, actions, rewards, None)
        means = self.durations[states, actions]
        if self.sojourn == "gamma":
            lasted = rng.gamma(0.5, means / 0.5)
        else:
            lasted = means * rng.lognormal(-0.32, 0.8, means.shape)
        rates = 0.0 if self.rates is None else self.rates[states, actions]
        return Logs(states, actions, rewards + rates * lasted, lasted)


def under(kernel: Floats, policy: Floats) -> Floats:
    """Transitions of a policy, (n, n)."""
    return np.einsum("sa,sat->st", policy, kernel)


def stationary_law(moves: Floats) -> Floats:
    """Stationary law of a chain with one recurrent class, (n,)."""
    size = len(moves)
    equations = np.vstack([moves.T - np.eye(size), np.ones(size)])
    law = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.clip(law, 0.0, None))


# ---------------------------------------------------------------- tables


def random_decisions(
    name: str, seed: int, num_states: int, num_actions: int, successors: int, lengths: tuple[int, int, int]
) -> Decisions:
    """Random kernel with few successors, random policies that both take every action."""
    rng = np.random.default_rng(seed)
    kernel = np.zeros((num_states, num_actions, num_states))
    for state in range(num_states):
        for action in range(num_actions):
            to = rng.choice(num_states, successors, replace=False)
            kernel[state, action, to] = rng.dirichlet(np.ones(successors))
    kernel = 0.98 * kernel + 0.02 / num_states
    return Decisions(
        name=name,
        kind="random",
        kernel=kernel,
        rewards=rng.normal(size=(num_states, num_actions)),
        behaviour=rng.dirichlet(np.full(num_actions, 3.0), num_states),
        target=rng.dirichlet(np.full(num_actions, 1.0), num_states),
        lengths=lengths,
    )


def slow_walk(name: str, size: int, drift: float, lengths: tuple[int, int, int]) -> Decisions:
    """A walk on a line that is pushed a little by what is done: it takes long from one end to the other."""
    kernel = np.zeros((size, 2, size))
    for state in range(size):
        for action, push in ((0, -drift), (1, drift)):
            kernel[state, action, min(state + 1, size - 1)] += 0.35 + push
            kernel[state, action, max(state - 1, 0)] += 0.35 - push
            kernel[state, action, state] += 0.3
    place = np.arange(size)
    rewards = np.stack([1.0 * place / size, 1.0 * place / size - 0.3], axis=1)
    behaviour, target = np.full((size, 2), 0.5), np.stack([0.35 + 0.0 * place, 0.65 + 0.0 * place], axis=1)
    return Decisions(name, "slow mixing", kernel, rewards, behaviour, target, lengths, noise=0.3)


def river(name: str, size: int, swims: float, lengths: tuple[int, int, int]) -> Decisions:
    """A river against which the target always swims and the log hardly ever does."""
    kernel = np.zeros((size, 2, size))
    for state in range(size):
        kernel[state, 0, max(state - 1, 0)] = 1.0
        up, down = (0.6, 0.05) if state else (0.6, 0.0)
        kernel[state, 1, min(state + 1, size - 1)] += up
        kernel[state, 1, max(state - 1, 0)] += down
        kernel[state, 1, state] += 1.0 - up - down
    rewards = np.zeros((size, 2))
    rewards[0, 0], rewards[-1, 1] = 0.05, 1.0
    behaviour = np.tile([1.0 - swims, swims], (size, 1))
    target = np.tile([0.1, 0.9], (size, 1))
    return Decisions(
        name, "weak overlap", kernel, rewards, behaviour, target, lengths, noise=0.2, overlap="weak"
    )


def nearly_deterministic(name: str, seed: int, explores: float, lengths: tuple[int, int, int]) -> Decisions:
    """The log nearly always takes one action of each state, the target takes the others half of the time."""
    whole = random_decisions(name, seed, 12, 3, 4, lengths)
    rng = np.random.default_rng(seed + 1)
    favourite = np.eye(3)[rng.integers(0, 3, 12)]
    behaviour = (1.0 - explores) * favourite + explores / 3.0
    target = 0.5 * favourite + 0.5 / 3.0
    return Decisions(
        name, "near-deterministic behaviour", whole.kernel, whole.rewards, behaviour, target, lengths
    )


def cycle(name: str, seed: int, lengths: tuple[int, int, int]) -> Decisions:
    """Four seasons of three states each that follow each other, with a slip now and then."""
    rng = np.random.default_rng(seed)
    kernel = np.zeros((12, 2, 12))
    for season in range(4):
        own, behind = np.arange(3) + 3 * season, np.arange(3) + 3 * ((season + 1) % 4)
        for state in own:
            for action in range(2):
                kernel[state, action, behind] = 0.98 * rng.dirichlet(np.ones(3))
                kernel[state, action, state] += 0.02
    rewards = np.repeat([4.0, 0.0, -3.0, 1.0], 3)[:, None] + rng.normal(size=(12, 2))
    behaviour = np.tile([0.5, 0.5], (12, 1))
    target = np.stack([0.15 + 0.0 * np.arange(12), 0.85 + 0.0 * np.arange(12)], axis=1)
    return Decisions(name, "nearly periodic", kernel, rewards, behaviour, target, lengths, noise=0.5)


def admission(name: str, room: int, lengths: tuple[int, int, int]) -> Decisions:
    """A queue with two kinds of customers that may be turned away; the target turns away the poor ones early.

    The state is the number in the queue and the kind that arrives, or none; a step is a customer or the end
    of a service, at rates 0.5, 0.4 and 1.
    """
    kinds, size = 3, 3 * (room + 1)
    rates = np.array([1.0, 0.5, 0.4]) / 1.9  # end of a service, rich, poor
    kernel, rewards = np.zeros((size, 2, size)), np.zeros((size, 2))
    behaviour, target = np.zeros((size, 2)), np.zeros((size, 2))
    for number in range(room + 1):
        for kind in range(kinds):
            state = number * kinds + kind
            for action in range(2):
                if kind == 0:
                    after = max(number - 1, 0)
                else:
                    after = min(number + action, room)
                    rewards[state, action] = action * (number < room) * (5.0 if kind == 1 else 1.5)
                rewards[state, action] -= 0.3 * number
                kernel[state, action, after * kinds : (after + 1) * kinds] = rates
            takes = 0.5 if kind == 0 else 0.9 if number < 4 else 0.5 if number < room - 2 else 0.3
            behaviour[state] = 1.0 - takes, takes
            wants = 0.5 if kind == 0 else 0.95 if kind == 1 else 0.9 if number < 2 else 0.1
            target[state] = 1.0 - wants, wants
    return Decisions(name, "queue", kernel, rewards, behaviour, target, lengths, noise=0.5)


def events(
    name: str, seed: int, sojourn: Literal["gamma", "lognormal"], lengths: tuple[int, int, int]
) -> Decisions:
    """Rows that last for a time that depends on state and action, and pay at once and meanwhile."""
    rng = np.random.default_rng(seed)
    whole = random_decisions(name, seed + 1, 10, 2, 4, lengths)
    return Decisions(
        name,
        "durations",
        whole.kernel,
        whole.rewards,
        whole.behaviour,
        whole.target,
        lengths,
        durations=rng.uniform(0.2, 4.0, (10, 2)),
        rates=rng.normal(size=(10, 2)),
        sojourn=sojourn,
    )


# ---------------------------------------------------------------- features


def few_kinds(
    name: str,
    seed: int,
    expressible: Literal["both", "values", "ratio", "neither"],
    lengths: tuple[int, int, int],
    num_states: int = 60,
    kinds: int = 5,
) -> Decisions:
    """Many states whose steps are mixtures of few: the kinds' shares express the action values of any policy.

    Those shares, (n, A, kinds), sum to one. The exact ratio and noise beside it express the ratio. Features
    that cannot are three random numbers of the state for each action, and constants.
    """
    rng = np.random.default_rng(seed)
    num_actions = 3
    shares = rng.dirichlet(np.full(kinds, 0.5), (num_states, num_actions))
    arrivals = rng.dirichlet(np.full(num_states, 0.3), kinds)
    whole = Decisions(
        name=name,
        kind="features",
        kernel=shares @ arrivals,
        rewards=shares @ rng.normal(size=kinds) * 2.0,
        behaviour=rng.dirichlet(np.full(num_actions, 4.0), num_states),
        target=rng.dirichlet(np.full(num_actions, 1.5), num_states),
        lengths=lengths,
    )
    coarse = np.zeros((num_states, num_actions, 3 * num_actions + 1))
    numbers = rng.uniform(size=(num_states, 3))
    for action in range(num_actions):
        coarse[:, action, 3 * action : 3 * action + 3] = numbers
    coarse[:, :, -1] = 1.0
    right = np.concatenate([np.ones((num_states, num_actions, 1)), whole.ratio[:, :, None]], axis=2)
    right = np.concatenate([right, rng.uniform(size=(num_states, num_actions, 2))], axis=2)
    has_values, has_ratio = expressible in ("both", "values"), expressible in ("both", "ratio")
    return Decisions(
        name=name,
        kind=f"features that express {expressible}",
        kernel=whole.kernel,
        rewards=whole.rewards,
        behaviour=whole.behaviour,
        target=whole.target,
        lengths=lengths,
        features=shares if has_values else coarse,
        ratio_features=right if has_ratio else coarse,
        expressible=expressible,
    )


def events_by_features(name: str, seed: int, lengths: tuple[int, int, int]) -> Decisions:
    """The same with durations that are mixtures as well."""
    whole = few_kinds(name, seed, "both", lengths)
    rng = np.random.default_rng(seed + 1)
    assert whole.features is not None
    return Decisions(
        name=name,
        kind="features and durations",
        kernel=whole.kernel,
        rewards=whole.rewards,
        behaviour=whole.behaviour,
        target=whole.target,
        lengths=lengths,
        durations=whole.features @ rng.uniform(0.3, 3.0, 5),
        features=whole.features,
        ratio_features=whole.ratio_features,
    )


Make = Callable[[], Decisions]

DECISIONS: dict[str, Make] = {
    "random": lambda: random_decisions("random", 1, 20, 3, 5, (1_000, 5_000, 25_000)),
    "slow": lambda: slow_walk("slow", 20, 0.03, (10_000, 40_000, 160_000)),
    "weak-overlap": lambda: river("weak-overlap", 5, 0.35, (2_000, 10_000, 50_000)),
    "near-deterministic": lambda: nearly_deterministic(
        "near-deterministic", 2, 0.06, (2_000, 10_000, 50_000)
    ),
    "many-actions": lambda: random_decisions("many-actions", 3, 10, 25, 4, (5_000, 15_000, 50_000)),
    "cycle": lambda: cycle("cycle", 4, (1_000, 5_000, 25_000)),
    "admission": lambda: admission("admission", 10, (3_000, 15_000, 75_000)),
    "events": lambda: events("events", 5, "gamma", (1_000, 5_000, 25_000)),
    "kinds": lambda: few_kinds("kinds", 6, "both", (2_000, 10_000, 40_000)),
    "kinds-values": lambda: few_kinds("kinds-values", 6, "values", (2_000, 10_000, 40_000)),
    "kinds-ratio": lambda: few_kinds("kinds-ratio", 6, "ratio", (2_000, 10_000, 40_000)),
    "kinds-neither": lambda: few_kinds("kinds-neither", 6, "neither", (2_000, 10_000, 40_000)),
    "kinds-events": lambda: events_by_features("kinds-events", 7, (2_000, 10_000, 40_000)),
}
"""From names to functions that make each process."""
