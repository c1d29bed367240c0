"""The chains of the solver benchmark, each with its exact answer, and how they travel to a worker process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from tests.oracles.birth_death import slow_birth_death
from tests.oracles.blocks import lumpable_blocks
from tests.oracles.expanders import random_sparse
from tests.oracles.lattices import drift_grid, tandem_queue
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


FAMILIES = {
    "random-sparse": Family(lambda n: random_sparse(n, np.random.default_rng(1))),
    "drift-grid": Family(_square_grid),
    "tandem-queue": Family(_tandem),
    "birth-death": Family(slow_birth_death, tolerance=1e-9),
    "nearly-decomposable": Family(lambda n: lumpable_blocks(n // 100, 100, np.random.default_rng(2))),
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
