"""The chains of the solver benchmark, each with its exact answer, and how they travel to a worker process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from tests.oracles.birth_death import slow_birth_death
from tests.oracles.blocks import lumpable_blocks
from tests.oracles.expanders import random_sparse
from tests.oracles.groups import torus
from tests.oracles.lattices import drift_grid, tandem_queue
from tests.oracles.networks import (
    closed_network,
    drift_cube,
    graph_with_hubs,
    rough_field,
    tailed_expander,
    three_queues,
    wide_band,
)
from tests.oracles.record import ExactChain


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


def _torus(num_states: int) -> ExactChain:
    side = _side(num_states)
    steps = {tuple(sign * np.eye(3, dtype=int)[axis]): 9 / 64 for axis in range(3) for sign in (1, -1)}
    return torus((side,) * 3, steps, np.random.default_rng(3).integers(0, 64, side**3) / 64)


def _three_queues(num_states: int) -> ExactChain:
    return three_queues(round((6 * num_states) ** (1 / 3) - 2))


def _closed(num_states: int) -> ExactChain:
    routing = [[0, 0.5, 0.25, 0.25], [0.75, 0, 0.25, 0], [0.5, 0, 0, 0.5], [1, 0, 0, 0]]
    return closed_network(round((6 * num_states) ** (1 / 3) - 2), routing, np.array([28, 14, 11, 11]) / 64)


def _side(num_states: int) -> int:
    return round(num_states ** (1 / 3))


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
        gain=chain.gain,
        bias=chain.bias,
    )


def load(path: Path) -> ExactChain:
    """Read what `save` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        n = len(stored["rewards"])
        matrix = csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=(n, n))
        return ExactChain(
            matrix, stored["rewards"], stored["stationary"], float(stored["gain"]), stored["bias"]
        )
