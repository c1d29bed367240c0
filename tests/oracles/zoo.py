"""The zoo: kinds of chains whose answers are known to 30 digits, each drawn from a seed.

A kind is a function that takes a random generator and returns a process; `KINDS` and `KINDS_HELD_OUT` list
them. To add one, write the function and put it there. `specimen` draws a chain of a kind with its answer.

The chains of `HELD_OUT` were written down before any of them was solved, and were then solved once. What is
mended because of a chain belongs into ``test_hard_chains``; the held-out half is then drawn anew.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, kron

import gainbias as gb

from .blocks import lumpable_blocks, random_nearly_decomposable
from .exact import Exact, dot, enclosed_answer, fraction
from .expanders import random_dyadic_transitions
from .lattices import drift_grid, tandem_queue
from .networks import closed_network, graph_with_hubs, rough_field, tailed_expander, wide_band
from .record import ExactChain

Random = np.random.Generator
Process = gb.MarkovRewardProcess


class Specimen(NamedTuple):
    """A process and its answer."""

    mrp: Process
    exact: Exact


Kind = Callable[[Random], Process | Specimen]


@cache
def specimen(kind: str, seed: int) -> Specimen:
    """Return the chain that a kind makes of a seed, and its answer."""
    made = ALL_KINDS[kind](np.random.default_rng(seed))
    return made if isinstance(made, Specimen) else Specimen(made, enclosed_answer(made))


def normalised(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=1, keepdims=True)


def process(weights: np.ndarray, rewards: np.ndarray) -> Process:
    return Process(normalised(weights), rewards)


def with_new_rewards(chain: ExactChain, rng: Random) -> Process:
    return Process(chain.transitions, rng.standard_normal(chain.num_states))


def dense(rng: Random) -> Process:
    n = rng.integers(2, 10)
    return process(rng.dirichlet(np.ones(n), n), rng.standard_normal(n))


def larger_dense(rng: Random) -> Process:
    n = rng.integers(20, 80)
    return process(rng.dirichlet(np.full(n, 0.3), n), rng.standard_normal(n))


def sparse_random(rng: Random) -> Process:
    n = rng.integers(40, 120)
    moves = random_dyadic_transitions(int(n), rng, degree=4)
    weights = moves.toarray() * rng.random((n, n))
    return Process(csr_array(normalised(weights)), rng.standard_normal(n))


def birth_death(decades: float, longest: int) -> Kind:
    def make(rng: Random) -> Process:
        n = rng.integers(3, longest)
        up, down = (10 ** -rng.uniform(0, decades, n - 1) / 2 for _ in range(2))
        chain = np.diag(up, 1) + np.diag(down, -1)
        return Process(chain + np.diag(1 - chain.sum(axis=1)), rng.standard_normal(n))

    return make


def entries_of_forty_decades(rng: Random) -> Process:
    n = rng.integers(3, 8)
    rewards = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, n)
    return process(10.0 ** -rng.uniform(0, 40, (n, n)), rewards)


def nearly_decomposable(rng: Random) -> Process:
    inside = np.kron(np.eye(3), rng.random((3, 3)) + 0.1)
    return process(inside + 10.0 ** -rng.uniform(3, 14) * rng.random((9, 9)), rng.standard_normal(9))


def larger_nearly_decomposable(rng: Random) -> Process:
    chain = random_nearly_decomposable(6, int(rng.integers(6, 12)), 10.0 ** -rng.uniform(3, 14), rng)
    return Process(chain, rng.standard_normal(len(chain)))


def two_scale_blocks(rng: Random) -> Process:
    chain = lumpable_blocks(int(rng.integers(3, 7)), 12, rng, coupling=2.0 ** -rng.integers(6, 20))
    return with_new_rewards(chain, rng)


def ring_with_drift(rng: Random) -> Process:
    n, forward, eye = rng.integers(3, 20), rng.uniform(0.1, 0.9), np.eye
    moves = forward * np.roll(eye(n), 1, axis=1) + (1 - forward) * np.roll(eye(n), -1, axis=1)
    return process(moves, rng.standard_normal(n))


def larger_ring_with_drift(rng: Random) -> Process:
    n = rng.integers(60, 150)
    forward = rng.uniform(0.3, 0.5) * rng.random(n)
    back = 0.01 * rng.random(n)
    moves = diags_array([forward[:-1], back[1:]], offsets=[1, -1]).toarray()
    moves[-1, 0], moves[0, -1] = forward[-1], back[0]
    return Process(csr_array(moves + np.diag(1 - moves.sum(axis=1))), rng.standard_normal(n))


def transient_tail(rng: Random) -> Process:
    weights = np.triu(rng.random((8, 8))) * 10.0 ** -rng.uniform(0, 8, (8, 8))
    weights[5:, 5:] = rng.random((3, 3))
    return process(weights, rng.standard_normal(8))


def long_transient_tail(rng: Random) -> Process:
    return with_new_rewards(tailed_expander(int(rng.integers(40, 120)), rng), rng)


def periodic(rng: Random) -> Process:
    phase = np.arange(9) % 3
    weights = np.equal.outer((phase + 1) % 3, phase) * (rng.random((9, 9)) + 0.01)
    return process(weights, rng.standard_normal(9))


def in_eighths(mrp: Process, rng: Random) -> Specimen:
    """The chain with rewards whose sums are not rounded, and its answer."""
    mrp = Process(mrp.transitions, rng.integers(-40, 40, mrp.num_states) / 8)
    return Specimen(mrp, enclosed_answer(mrp))


def product_of(first: Specimen, second: Specimen) -> Specimen:
    """Two chains of which one moves at a time: gains add, laws multiply, and biases add twice.

    Halves of floats are floats, so that no transition is rounded.
    """
    (one, exact), (other, more) = first, second
    stay = [0.5 * eye_array(chain.num_states) for chain in (one, other)]
    rewards = np.add.outer(one.rewards, other.rewards).ravel()
    gain = exact.gain[0] + more.gain[0]
    law = [p * q for p in exact.law for q in more.law]
    bias = [2 * (v + w) for v in exact.bias for w in more.bias]
    excess = [fraction(r) - gain for r in rewards]
    in_time = 2 * dot(law, [x * w for x, w in zip(excess, bias, strict=True)])
    variance = in_time - dot(law, [x * x for x in excess])
    return Specimen(
        Process(csr_array(kron(one.csr, stay[1]) + kron(stay[0], other.csr)), rewards),
        Exact(law, [gain] * len(law), bias, variance, in_time),
    )


def product(rng: Random) -> Specimen:
    return product_of(in_eighths(dense(rng), rng), in_eighths(birth_death(3.0, 60)(rng), rng))


def larger_product(rng: Random) -> Specimen:
    """Thousands of states, which elimination fills in."""
    parts = []
    for _ in range(3):
        n = int(rng.integers(10, 18))
        parts.append(in_eighths(process(rng.random((n, n)) + 0.01, np.zeros(n)), rng))
    return product_of(product_of(parts[0], parts[1]), parts[2])


def graph_of_power_law_degrees(rng: Random) -> Process:
    return with_new_rewards(graph_with_hubs(int(rng.integers(40, 120)), rng), rng)


def closed_queueing_network(rng: Random) -> Process:
    queues = int(rng.integers(2, 5))
    routing = normalised(rng.integers(1, 9, (queues, queues)) * (1.0 - np.eye(queues)))
    service = rng.dirichlet(np.ones(queues)) * 0.99
    customers = {2: 40, 3: 9, 4: 6}[queues]
    return with_new_rewards(closed_network(customers, routing, service), rng)


def tandem_queues(rng: Random) -> Process:
    """Two queues in a row; the reward is what waits, or random."""
    rates = rng.dirichlet(np.ones(3)) * 0.99
    chain = tandem_queue(int(rng.integers(5, 13)), *rates.tolist(), backlog=True)
    return Process(chain.transitions, chain.rewards) if rng.random() < 0.5 else with_new_rewards(chain, rng)


def several_classes(rng: Random) -> Process:
    weights = np.zeros((10, 10))
    weights[:3, :3], weights[3:6, 3:6] = rng.random((2, 3, 3))
    weights[6:] = rng.random((4, 10)) * 10.0 ** -rng.uniform(0, 6, (4, 10))
    return process(weights, rng.standard_normal(10))


def rewards_of_moves(rng: Random) -> Process:
    level = 10.0 ** rng.uniform(-2, 6) * rng.integers(0, 2)
    return process(rng.dirichlet(np.ones(6), 6), level + rng.standard_normal((6, 6)))


def rewards_of_moves_on_stiff_chains(rng: Random) -> Process:
    """Large levels, and transitions over 12 decades."""
    n = rng.integers(4, 12)
    level = 10.0 ** rng.uniform(0, 10)
    return process(10.0 ** -rng.uniform(0, 12, (n, n)), level + rng.standard_normal((n, n)))


def large_level(rng: Random) -> Process:
    return process(rng.dirichlet(np.ones(6), 6), 10.0 ** rng.uniform(0, 12) + rng.standard_normal(6))


def continuous_time(rng: Random) -> Process:
    rates = 10.0 ** rng.uniform(-8, 2, (6, 6)) * (1 - np.eye(6))
    return Process.from_rates(rates - np.diag(rates.sum(axis=1)), rng.standard_normal(6))


def larger_continuous_time(rng: Random) -> Process:
    """A queue with rates over two decades each, and jumps to empty."""
    n = int(rng.integers(20, 80))
    rates = diags_array([10.0 ** rng.uniform(-1, 1, n - 1) for _ in range(2)], offsets=[1, -1]).toarray()
    rates[1:, 0] += 10.0 ** rng.uniform(-6, -2, n - 1)
    return Process.from_rates(csr_array(rates - np.diag(rates.sum(axis=1))), rng.standard_normal(n))


def bands(rng: Random) -> Process:
    n, half = int(rng.integers(60, 120)), int(rng.integers(4, 20))
    weights = wide_band(n, half).transitions.toarray() * rng.random((n, n))
    return process(weights, rng.standard_normal(n))


def grid_with_drift(rng: Random) -> Process:
    moves = rng.dirichlet(np.ones(4)) * 0.99
    return with_new_rewards(drift_grid(int(rng.integers(5, 12)), 10, *moves.tolist()), rng)


def rough_cube(rng: Random) -> Process:
    return with_new_rewards(rough_field(int(rng.integers(3, 6)), rng), rng)


def climb_with_resets(rng: Random) -> Process:
    """Each step may lead back to the start: high places are rare, and the way up is long."""
    n = int(rng.integers(10, 40))
    reset = 10.0 ** -rng.uniform(0.3, 3, n)
    weights = np.diag(1 - reset[:-1], 1)
    weights[:, 0] += reset
    weights[-1] = np.eye(n)[0]
    return process(weights, rng.standard_normal(n))


def stiff_classes(rng: Random) -> Process:
    """Two stiff classes, and transient states that lead to both over 12 decades."""
    weights = np.zeros((12, 12))
    weights[:4, :4], weights[4:8, 4:8] = 10.0 ** -rng.uniform(0, 12, (2, 4, 4))
    weights[8:] = 10.0 ** -rng.uniform(0, 12, (4, 12))
    return process(weights, rng.standard_normal(12) * 10.0 ** rng.uniform(-3, 3))


def hub_and_spokes(rng: Random) -> Process:
    """A state that leads to arms, which lead back, each with its own clock over 10 decades."""
    arms = int(rng.integers(5, 40))
    back = 10.0 ** -rng.uniform(0, 10, arms)
    weights = np.zeros((arms + 1, arms + 1))
    weights[0, 1:] = rng.random(arms) * 10.0 ** -rng.uniform(0, 5, arms)
    weights[1:, 0] = back
    weights[1:, 1:] = np.diag(1 - back)
    return process(weights, rng.standard_normal(arms + 1))


def rates_of_blocks(rng: Random) -> Process:
    """Nearly decomposable in continuous time."""
    rates = np.kron(np.eye(4), rng.random((5, 5))) + 10.0 ** -rng.uniform(3, 14) * rng.random((20, 20))
    np.fill_diagonal(rates, 0.0)
    scale = 10.0 ** rng.uniform(-3, 3)
    return Process.from_rates(scale * (rates - np.diag(rates.sum(axis=1))), rng.standard_normal(20))


def _named(*kinds: Kind) -> dict[str, Kind]:
    return {kind.__name__.replace("_", " "): kind for kind in kinds}


KINDS: dict[str, Kind] = {
    **_named(dense, larger_dense, sparse_random),
    "birth and death over 6 decades": birth_death(6, 25),
    "birth and death over 20 decades": birth_death(20, 12),
    "birth and death over 40 decades": birth_death(40, 12),
    "birth and death over 80 decades": birth_death(80, 10),
    **_named(entries_of_forty_decades, nearly_decomposable, larger_nearly_decomposable, two_scale_blocks),
    **_named(ring_with_drift, larger_ring_with_drift, transient_tail, long_transient_tail, periodic, product),
    **_named(
        larger_product, graph_of_power_law_degrees, closed_queueing_network, tandem_queues, several_classes
    ),
    **_named(rewards_of_moves, rewards_of_moves_on_stiff_chains, large_level, continuous_time),
    **_named(larger_continuous_time, bands),
}
KINDS_HELD_OUT = _named(
    grid_with_drift, rough_cube, climb_with_resets, stiff_classes, hub_and_spokes, rates_of_blocks
)
ALL_KINDS = KINDS | KINDS_HELD_OUT

OPEN = {kind: range(6) for kind in KINDS}
"""The seeds of each kind with which the code was made."""

HELD_OUT = {kind: range(7000, 7006) for kind in KINDS} | {kind: range(7100, 7106) for kind in KINDS_HELD_OUT}
"""The seeds of each kind that were kept back, with kinds that nothing was tried on before."""
