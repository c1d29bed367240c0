"""The chains of the solver benchmarks, each with its exact answer, and how they travel to a worker process.

`FAMILIES` are the kinds with which the choice of a method was made. `HELD_OUT` are other kinds, sizes and
parameters, which were written down before any of them was solved.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import block_array, block_diag, coo_array, csr_array

from tests.oracles.birth_death import birth_death, slow_birth_death
from tests.oracles.blocks import lumpable_blocks
from tests.oracles.expanders import random_sparse
from tests.oracles.groups import hypercube, ring, torus
from tests.oracles.lattices import drift_grid, tandem_queue
from tests.oracles.networks import (
    built_nearly_from_bias,
    closed_network,
    drift_cube,
    graph_with_hubs,
    rough_field,
    tailed_expander,
    three_queues,
    wide_band,
)
from tests.oracles.record import ExactChain, from_entries, wide


@dataclass(frozen=True)
class Family:
    """Chains of one kind, and the forward error that a solver must meet on them."""

    build: Callable[[int], ExactChain]
    tolerance: float = 1e-10


def _square_grid(num_states: int) -> ExactChain:
    side = round(num_states**0.5)
    return drift_grid(side, side)


def _tandem(num_states: int) -> ExactChain:
    return tandem_queue(round((2 * num_states) ** 0.5 - 1.5))


def _torus(num_states: int, forth: float = 9 / 64, back: float = 9 / 64, axes: int = 3) -> ExactChain:
    side = round(num_states ** (1 / axes))
    ways = np.eye(axes, dtype=int)
    steps = {tuple(sign * way): chance for way in ways for sign, chance in ((1, forth), (-1, back))}
    return torus((side,) * axes, steps, np.random.default_rng(3).integers(0, 64, side**axes) / 64)


def _three_queues(num_states: int) -> ExactChain:
    return three_queues(round((6 * num_states) ** (1 / 3) - 2))


def _closed(num_states: int) -> ExactChain:
    routing = [[0, 0.5, 0.25, 0.25], [0.75, 0, 0.25, 0], [0.5, 0, 0, 0.5], [1, 0, 0, 0]]
    return closed_network(round((6 * num_states) ** (1 / 3) - 2), routing, np.array([28, 14, 11, 11]) / 64)


def _side(num_states: int) -> int:
    return round(num_states ** (1 / 3))


def _critical_queue(num_states: int) -> ExactChain:
    """As many arrive as are served: all numbers of customers are equally likely."""
    rates = np.full(num_states - 1, 0.25)
    return birth_death(rates, rates, np.arange(num_states) / num_states)


def _ring(num_states: int, forward: float = 0.25, backward: float = 0.25) -> ExactChain:
    return ring(num_states, forward, backward, np.random.default_rng(8).integers(0, 64, num_states) / 64)


def _restart(num_states: int, steps: float) -> ExactChain:
    """A climb that restarts after about this many steps; the top leads back to the start too."""
    states = np.arange(num_states)
    reset = 1.0 / steps
    transitions = from_entries(
        [states[:-1], states[:-1], states[-1:]],
        [states[1:], np.zeros(num_states - 1, int), np.zeros(1, int)],
        [0.75 * (1 - reset), 0.75 * reset, 0.75],
        num_states,
    )
    return built_nearly_from_bias(transitions, wide(1 - reset) ** states, states % 1000)


@dataclass(frozen=True)
class ManyClasses(ExactChain):
    """A chain of several recurrent classes: `gain` is (n,), and the bias has mean 0 in each class."""

    gain: np.ndarray  # type: ignore[assignment]


def _many_classes(parts: list[ExactChain], num_transient: int, rng: np.random.Generator) -> ManyClasses:
    """Classes side by side, the k-th with rewards larger by k, and transient states that lead to any two."""
    inside = block_diag([part.transitions for part in parts], format="csr")
    n = inside.shape[0]
    gains = np.concatenate([np.full(part.num_states, part.gain + k) for k, part in enumerate(parts)])
    transient = np.arange(num_transient)
    ends = rng.integers(0, n, (2, num_transient))
    to_classes = coo_array(
        (np.full(2 * num_transient, 1 / 16), (np.tile(transient, 2), ends.ravel())), (num_transient, n)
    )
    # The chain walks from 0 towards the last transient state, and enters the classes from there.
    among = from_entries(
        [transient[:-1], transient[1:]], [transient[1:], transient[:-1]], [4 / 8, 2 / 8], num_transient
    )
    among = among - csr_array((np.full(num_transient, 1 / 8), (transient, transient)), among.shape)
    transitions = csr_array(block_array([[inside, None], [to_classes, among]], format="csr"))
    transitions.eliminate_zeros()
    means = np.concatenate([gains, np.zeros(num_transient)])
    for _ in range(400):  # the mean gain where it ends up: a transient state leaves in 8 steps on average
        means[n:] = transitions[n:] @ means
    bias = np.concatenate([*(part.bias for part in parts), transient % 100])
    rewards = means + bias - transitions @ bias
    rewards[:n] = np.concatenate([part.rewards + k for k, part in enumerate(parts)])
    law = np.concatenate([*(part.stationary for part in parts), np.zeros(num_transient)])
    return ManyClasses(transitions, rewards, law, means, bias)


def _classes_of_grids(num_states: int, classes: int = 8) -> ManyClasses:
    side = round((num_states / classes) ** 0.5)
    return _many_classes([drift_grid(side, side)] * classes, side, np.random.default_rng(9))


FAMILIES = {
    "random-sparse": Family(lambda n: random_sparse(n, np.random.default_rng(1))),
    "drift-grid": Family(_square_grid),
    "tandem-queue": Family(_tandem),
    "birth-death": Family(slow_birth_death, tolerance=1e-9),
    "nearly-decomposable": Family(lambda n: lumpable_blocks(n // 100, 100, np.random.default_rng(2))),
    "torus-3d": Family(_torus),
    "drift-cube": Family(lambda n: drift_cube(_side(n))),
    "rough-field": Family(lambda n: rough_field(_side(n), np.random.default_rng(4))),
    "tailed-expander": Family(lambda n: tailed_expander(n, np.random.default_rng(5))),
    "graph-with-hubs": Family(lambda n: graph_with_hubs(n, np.random.default_rng(6))),
    "three-queues": Family(_three_queues),
    "closed-network": Family(_closed),
    "wide-band": Family(wide_band),
    "two-scale-blocks": Family(
        lambda n: lumpable_blocks(n // 100, 100, np.random.default_rng(7), coupling=2.0**-10)
    ),
    "critical-queue": Family(_critical_queue, tolerance=1e-9),
    "ring": Family(_ring, tolerance=1e-9),
    "quick-restart": Family(lambda n: _restart(n, 50.0)),
    "slow-restart": Family(lambda n: _restart(n, n / 8)),
    "many-classes": Family(_classes_of_grids),
}

_ROUTES = [
    [0, 0.5, 0.5, 0, 0],
    [0, 0, 0.5, 0.5, 0],
    [0, 0, 0, 0.5, 0.5],
    [0.5, 0, 0, 0, 0.5],
    [1, 0, 0, 0, 0],
]

HELD_OUT = {
    "torus-3d with drift": Family(lambda n: _torus(n, 12 / 64, 5 / 64)),
    "torus-2d": Family(lambda n: _torus(n, 14 / 64, 14 / 64, axes=2)),
    "drift-cube, weak drift": Family(lambda n: drift_cube(_side(n), 10 / 64, 10.5 / 64)),
    "rough-field, another": Family(lambda n: rough_field(_side(n), np.random.default_rng(11))),
    "tailed-expander, another": Family(lambda n: tailed_expander(n, np.random.default_rng(12))),
    "graph-with-hubs, another": Family(lambda n: graph_with_hubs(n, np.random.default_rng(13))),
    "closed-network of 5 queues": Family(
        lambda n: closed_network(round((24 * n) ** 0.25 - 2.5), _ROUTES, np.array([16, 12, 10, 14, 9]) / 64)
    ),
    "wide-band of 20": Family(lambda n: wide_band(n, 20)),
    "wide-band of 120": Family(lambda n: wide_band(n, 120)),
    "blocks of 60": Family(
        lambda n: lumpable_blocks(n // 60, 60, np.random.default_rng(14), coupling=2.0**-8)
    ),
    "blocks of 50, nearly apart": Family(lambda n: lumpable_blocks(n // 50, 50, np.random.default_rng(15))),
    "ring with drift": Family(lambda n: _ring(n, 0.5, 0.25), tolerance=1e-9),
    "restart after 1000": Family(lambda n: _restart(n, 1000.0)),
    "long-grid": Family(lambda n: drift_grid(round(n / 40), 40)),
    "random-sparse of degree 4": Family(lambda n: random_sparse(n, np.random.default_rng(16), 4)),
    "random-sparse of degree 16": Family(lambda n: random_sparse(n, np.random.default_rng(17), 16)),
    "hypercube": Family(
        lambda n: hypercube(
            np.full(round(np.log2(n)), 1 / 32),
            np.random.default_rng(18).integers(0, 64, 2 ** round(np.log2(n))) / 64,
        )
    ),
    "classes of 200": Family(lambda n: _classes_of_grids(n, n // 200)),
}


def save(chain: ExactChain, path: Path) -> None:
    """Write a sparse chain and its answer without pickle."""
    matrix = chain.transitions
    np.savez(
        path,
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        rewards=chain.rewards,
        stationary=chain.stationary,
        gain=np.asarray(chain.gain),
        bias=chain.bias,
    )


def load(path: Path) -> ExactChain:
    """Read what `save` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        n = len(stored["rewards"])
        matrix = csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=(n, n))
        known = matrix, stored["rewards"], stored["stationary"]
        if stored["gain"].ndim:
            return ManyClasses(*known, stored["gain"], stored["bias"])
        return ExactChain(*known, float(stored["gain"]), stored["bias"])
