"""What the engine is measured against: a NumPy loop, plain arithmetic, and QuantEcon's paths."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

import gainbias as gb
from gainbias.algorithms.algorithm import Move
from gainbias.features.matrix import LINE
from gainbias.kernels import bare_kernel
from gainbias.types import Floats


def random_problem(n: int, d: int, seed: int = 0) -> gb.Problem:
    """A dense ergodic chain with features of norm at most 1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d))
    features /= np.linalg.norm(features, axis=1).max()
    return gb.Problem(gb.MarkovRewardProcess(rng.dirichlet(np.ones(n), n), rng.random(n)), features)


def double_chain_in_numpy(features: Floats, moves: Move, sizes: Floats) -> Callable[[], Floats]:
    """Double-chain TD as it is written in a script; returns the last weights."""

    def loop() -> Floats:
        weights = np.zeros(features.shape[1])
        for t in range(len(sizes)):
            row, reward = features[moves.here[t]], moves.reward[t]
            value, value_after = row @ weights, features[moves.after[t]] @ weights
            change = (reward + value_after - value) * row - (reward + value) * features[moves.other[t]]
            weights += sizes[t] * change
        return weights

    return loop


def multiply_and_add(chains: int, length: int = 100, rounds: int = 300) -> tuple[Callable[[], None], int]:
    """A loop of multiplications and additions on numbers in the first cache, and how many it makes.

    It has the vector width that kernels get, and sums in independent chains, written out so that
    they stay in registers, and none waits for another: what is left is how fast the processor multiplies
    and adds, one after the other, as results without rounding surprises require.
    """
    names = [f"s{k}" for k in range(chains)]
    lines = [
        "def loop(factors, rows, out, rounds):",
        "    for _ in range(rounds):",
        f"        {' = '.join(names)} = 0.0",
        "        for j in range(len(factors)):",
        "            factor, row = factors[j], rows[j]",
        *(f"            {name} = {name} + factor * row[{k}]" for k, name in enumerate(names)),
        *(f"        out[{k}] = {name}" for k, name in enumerate(names)),
    ]
    scope: dict[str, Callable[..., None]] = {}
    exec("\n".join(lines), scope)
    loop = bare_kernel(scope["loop"])
    rng = np.random.default_rng(0)
    room = rng.random(length * chains + LINE)
    first = -(room.ctypes.data // room.itemsize) % LINE  # from the start of a cache line, like our states
    rows = room[first : first + length * chains].reshape(length, chains)
    factors, out = rng.random(length), np.empty(chains)
    return lambda: loop(factors, rows, out, rounds), 2 * chains * length * rounds


def simulate_with_quantecon(chain, length: int, count: int) -> Callable[[], object]:
    """QuantEcon's paths, different ones at each call."""
    import quantecon

    known = quantecon.MarkovChain(chain if isinstance(chain, np.ndarray) else csr_matrix(chain))
    rng = np.random.RandomState(0)
    first = 0 if count == 1 else np.zeros(count, dtype=int)
    return lambda: known.simulate(length, init=first, random_state=rng)
