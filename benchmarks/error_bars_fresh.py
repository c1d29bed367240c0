"""Chains that were not used for any choice, for the coverage of error bars.

The constants of the intervals (batches, lengths, warnings) were set while looking at the first nine chains of
`benchmarks/error_bars.py`. These were written down afterwards, before any interval on them was computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gainbias as gb


def markov_modulated() -> gb.MarkovRewardProcess:
    """A queue of at most 12 whose arrivals come in bursts; each customer present costs one."""
    room, switch = 12, np.array([[0.98, 0.02], [0.05, 0.95]])
    arrive, serve = np.array([0.15, 0.7]), 0.45
    queue = np.zeros((2, room + 1, room + 1))
    for phase in range(2):
        for length in range(room + 1):
            up = arrive[phase] * (1 - serve) if length else arrive[phase]
            down = (1 - arrive[phase]) * serve if length else 0.0
            queue[phase, length, min(length + 1, room)] += up
            queue[phase, length, max(length - 1, 0)] += down
            queue[phase, length, length] += 1 - up - down
    transitions = np.einsum("pq,pij->piqj", switch, queue).reshape(2 * (room + 1), -1)
    return gb.MarkovRewardProcess(transitions, -np.tile(np.arange(room + 1.0), 2))


def inventory() -> gb.MarkovRewardProcess:
    """Order up to 10 when at most 3 are left; geometric demand; sales pay, stock and orders cost."""
    full, low = 10, 3
    demand = 0.6 ** np.arange(full + 1) * 0.4
    demand[-1] = 1 - demand[:-1].sum()
    transitions, rewards = np.zeros((full + 1, full + 1)), np.zeros(full + 1)
    for stock in range(full + 1):
        ready = full if stock <= low else stock
        for wanted, chance in enumerate(demand):
            sold = min(ready, wanted)
            transitions[stock, ready - sold] += chance
            rewards[stock] += chance * 4.0 * sold
        rewards[stock] -= 0.3 * ready + (3.0 + (ready - stock) if ready > stock else 0.0)
    return gb.MarkovRewardProcess(transitions, rewards)


def ring() -> gb.MarkovRewardProcess:
    """A walk around a ring of 15 that mostly goes one way: autocorrelations change their sign."""
    n = 15
    transitions = 0.8 * np.roll(np.eye(n), 1, axis=1) + 0.1 * np.roll(np.eye(n), -1, axis=1) + 0.1 * np.eye(n)
    return gb.MarkovRewardProcess(transitions, np.cos(2 * np.pi * np.arange(n) / n) + 0.1 * np.arange(n))


def three_levels() -> gb.MarkovRewardProcess:
    """Slow levels of income, each with fast fluctuations: two time scales."""
    slow = np.array([[0.99, 0.01, 0.0], [0.005, 0.985, 0.01], [0.0, 0.02, 0.98]])
    fast = np.array([[0.6, 0.4], [0.3, 0.7]])
    rewards = np.array([0.0, 1.0, 4.0])[:, None] + np.array([-2.0, 2.0])
    return gb.MarkovRewardProcess(np.kron(slow, fast), rewards.ravel())


def breakdowns() -> gb.MarkovRewardProcess:
    """A machine that wears through 6 stages and seldom breaks down for long, at a high price."""
    n = 8  # six stages, broken, in repair
    transitions = np.zeros((n, n))
    for stage in range(6):
        transitions[stage, 6] = 0.002 * (stage + 1)
        transitions[stage, min(stage + 1, 5)] += 0.1
        transitions[stage, stage] += 1 - 0.1 - transitions[stage, 6]
    transitions[6, 7] = 1.0
    transitions[7, 7], transitions[7, 0] = 0.9, 0.1
    return gb.MarkovRewardProcess(transitions, np.array([1.0, 1.0, 0.95, 0.9, 0.8, 0.7, -20.0, -1.0]))


def sparse_random(seed: int = 20261115) -> gb.MarkovRewardProcess:
    """30 states with three successors each, and rewards of heavy tail."""
    rng = np.random.default_rng(seed)
    n = 30
    transitions = np.zeros((n, n))
    for state in range(n):
        transitions[state, rng.choice(n, 3, replace=False)] = rng.dirichlet(np.ones(3))
        transitions[state, (state + 1) % n] += 0.05
    return gb.MarkovRewardProcess(
        transitions / transitions.sum(axis=1, keepdims=True), rng.standard_t(3, size=n)
    )


def long_queue() -> gb.MarkovRewardProcess:
    """A queue of at most 40 near saturation: very slow to mix."""
    n, up, down = 41, 0.24, 0.25
    steps = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    return gb.MarkovRewardProcess(steps + np.diag(1.0 - steps.sum(axis=1)), -np.arange(float(n)))


def alternating() -> gb.MarkovRewardProcess:
    """A chain that nearly alternates: errors cancel, and the autocorrelation time is below one."""
    return gb.MarkovRewardProcess([[0.1, 0.9, 0.0], [0.85, 0.05, 0.1], [0.0, 0.95, 0.05]], [1.0, -1.0, 3.0])


FRESH: dict[str, Callable[[], gb.MarkovRewardProcess]] = {
    "markov-modulated": markov_modulated,
    "inventory": inventory,
    "ring": ring,
    "three-levels": three_levels,
    "breakdowns": breakdowns,
    "sparse-random": sparse_random,
    "long-queue": long_queue,
    "alternating": alternating,
}
