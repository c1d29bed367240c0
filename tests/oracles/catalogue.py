"""Chains by name, small enough for exact rational arithmetic or as large as the closed forms are tested."""

from collections.abc import Callable

import numpy as np

from . import birth_death as bd
from .blocks import lumpable_blocks, twisted_blocks
from .expanders import random_sparse
from .groups import hypercube, ring, torus
from .lattices import coupled_grid, drift_grid, product_chain, tandem_queue
from .record import ExactChain
from .small import (
    counted_ring,
    cycle,
    gambler,
    iid_rows,
    layered_cycle,
    simultaneous_revision,
    two_state,
    with_transient_tail,
)


def rng() -> np.random.Generator:
    """The same random numbers for every chain."""
    return np.random.default_rng(20261115)


SMALL_CHAINS: dict[str, Callable[[], ExactChain]] = {
    "two states": lambda: two_state(2**-30, 3 / 64, (1.0, -2.0)),
    "iid rows": lambda: iid_rows(np.array([1, 2, 4, 1]) / 8, [3.0, -1.0, 0.5, 7.0]),
    "cycle": lambda: cycle(rng().integers(0, 64, 13)),
    "layered cycle": lambda: layered_cycle(
        np.array([[3, 5], [2, 6], [7, 1]]) / 8, rng().uniform(size=(3, 2))
    ),
    "transient tail": lambda: with_transient_tail(
        ring(9, 0.5, 0.25, np.arange(9.0)), [0.5, 2**-20, 1.0], [1, -4, 2]
    ),
    "gambler": lambda: gambler(17, 5, 0.375, rng().uniform(size=18)),
    "all players at once": lambda: simultaneous_revision(12, 4, 1e-3),
    "ring": lambda: ring(64, 0.5, 0.125, rng().uniform(size=64)),
    "ring of period 2": lambda: ring(16, 0.75, 0.25, rng().uniform(size=16)),
    "torus": lambda: torus((5, 8), {(1, 0): 0.25, (0, 1): 0.125, (2, -1): 0.375}, rng().uniform(size=40)),
    "hypercube": lambda: hypercube([1 / 8, 1 / 16, 1 / 4, 1 / 64, 1 / 8], rng().uniform(size=32)),
    "periodic hypercube": lambda: hypercube([1 / 2, 1 / 4, 1 / 8, 1 / 8], rng().uniform(size=16)),
    "queue, one server": lambda: bd.uniformised(bd.queue_rates(0.75, 1.0, 1, 40)),
    "queue, three servers": lambda: bd.uniformised(bd.queue_rates(2.0, 1.0, 3, 30)),
    "machine repair": lambda: bd.uniformised(bd.machine_repair_rates(25, 0.125, 1.0, 3)),
    "one player at a time": lambda: bd.kandori_mailath_rob(20, 1 / 3, 1e-4),
    "slow birth-death": lambda: bd.slow_birth_death(90),
    "stiff birth-death": lambda: bd.stiff_birth_death(80, rng()),
    "product of cycles": lambda: product_chain(
        cycle([1.0, 5.0, 2.0]), ring(4, 0.5, 0.5, [0.0, 1.0, 0.0, 2.0])
    ),
    "drift grid": lambda: drift_grid(8, 9),
    "coupled grid": lambda: coupled_grid(9, 7),
    "tandem queue": lambda: tandem_queue(11),
    "random sparse": lambda: random_sparse(90, rng()),
    "lumpable blocks": lambda: lumpable_blocks(9, 8, rng()),
    "lumpable blocks, stronger": lambda: lumpable_blocks(9, 8, rng(), 2.0**-10),
    "twisted blocks": lambda: twisted_blocks(9, 8, rng(), 2.0**-10),
    "twisted blocks, weak": lambda: twisted_blocks(9, 8, rng()),
    "twisted blocks, equal": lambda: twisted_blocks(9, 8, rng(), block_rewards=np.ones(9)),
}

LARGER_CHAINS: dict[str, Callable[[], ExactChain]] = {
    "long cycle": lambda: cycle(rng().uniform(size=2000)),
    "many layers": lambda: layered_cycle(rng().dirichlet(np.ones(30), 20), rng().uniform(size=(20, 30))),
    "iid rows, many states": lambda: iid_rows(rng().dirichlet(np.ones(400)), rng().uniform(size=400)),
    "large ring": lambda: ring(2000, 0.375, 0.3125, rng().uniform(size=2000)),
    "counted ring": lambda: counted_ring(200, 0.5, 0.125),
    "large torus": lambda: torus(
        (50, 45), {(1, 0): 0.25, (0, 1): 0.125, (2, -1): 0.25, (0, -3): 1 / 16}, rng().uniform(size=2250)
    ),
    "hypercube of 2048": lambda: hypercube(np.arange(1, 12) / 128, rng().uniform(size=2048)),
    "periodic hypercube of 1024": lambda: hypercube(
        np.append(np.full(9, 1 / 16), 7 / 16), rng().uniform(size=1024)
    ),
    "gambler with a fortune": lambda: gambler(400, 150, 0.484375, rng().uniform(size=401)),
    "long tail": lambda: with_transient_tail(
        bd.slow_birth_death(150), 2.0 ** -rng().integers(0, 30, 60), rng().uniform(-9, 9, 60)
    ),
    "all of fifty players": lambda: simultaneous_revision(50, 17, 1e-2),
    "fifty players in turn": lambda: bd.kandori_mailath_rob(50, 1 / 3, 1e-3),
    "crowded queue": lambda: bd.uniformised(bd.queue_rates(1.0, 1.0, 1, 1500)),
    "short queue": lambda: bd.uniformised(bd.queue_rates(0.5, 1.0, 1, 300)),
    "full queue": lambda: bd.uniformised(bd.queue_rates(2.0, 1.0, 1, 300)),
    "call centre": lambda: bd.uniformised(bd.queue_rates(90.0, 1.0, 100, 800)),
    "workshop": lambda: bd.uniformised(bd.machine_repair_rates(400, 0.01, 1.0, 6)),
    "slow birth-death of 2500": lambda: bd.slow_birth_death(2500),
    "stiff birth-death of 1000": lambda: bd.stiff_birth_death(1000, rng()),
    "product of queues": lambda: product_chain(
        bd.uniformised(bd.queue_rates(0.75, 1.0, 1, 40)), bd.uniformised(bd.queue_rates(2.0, 1.0, 3, 50))
    ),
    "drift grid of 2000": lambda: drift_grid(50, 40),
    "coupled grid of 2000": lambda: coupled_grid(40, 50),
    "tandem queue of 2016": lambda: tandem_queue(62),
    "random sparse of 1000": lambda: random_sparse(1000, rng()),
    "lumpable blocks of 50": lambda: lumpable_blocks(40, 50, rng()),
    "twisted blocks of 50": lambda: twisted_blocks(40, 50, rng(), 2.0**-20),
    "strongly twisted blocks of 50": lambda: twisted_blocks(40, 50, rng(), 2.0**-10),
}
