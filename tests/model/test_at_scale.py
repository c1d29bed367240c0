"""Large chains with known answers, each solved once with the method that is chosen by itself."""

import numpy as np
import pytest

import gainbias as gb
from tests.oracles import birth_death as bd
from tests.oracles.blocks import lumpable_blocks, twisted_blocks
from tests.oracles.compare import bias_error, entrywise_error, gain_error, process, true_error
from tests.oracles.groups import hypercube, torus
from tests.oracles.lattices import coupled_grid, tandem_queue
from tests.oracles.record import ExactChain


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def solved(chain: ExactChain, tolerance: float) -> gb.Solution:
    """The solution, if gain and bias are within the tolerance and the error bound is honest."""
    solution = gb.solve(process(chain), tol=tolerance)
    assert gain_error(solution, chain) < tolerance
    assert bias_error(solution, chain) < tolerance
    assert true_error(solution, chain) <= max(solution.error_bound, 5e-15)
    return solution


@pytest.mark.slow
def test_torus_of_a_million_states() -> None:
    law = {(1, 0): 1 / 4, (-1, 0): 1 / 8, (0, 1): 5 / 16, (0, -1): 3 / 16}
    chain = torus((1000, 1000), law, rng().integers(0, 64, 1_000_000) / 64)
    solution = solved(chain, 1e-10)
    assert solution.asymptotic_variance == pytest.approx(chain.asymptotic_variance, rel=1e-9)


@pytest.mark.slow
def test_hypercube_of_eighteen_dimensions() -> None:
    flips = (2 + np.arange(18) % 3) / 64
    chain = hypercube(flips, rng().integers(0, 64, 2**18) / 64)
    solved(chain, 1e-10)


def test_birth_death_of_a_million_states() -> None:
    chain = bd.slow_birth_death(1_000_000)
    solution = solved(chain, 1e-9)
    assert entrywise_error(solution.stationary, chain.stationary) < 1e-9


def test_lumpable_blocks_coupled_by_one_in_1e12() -> None:
    chain = lumpable_blocks(1000, 100, rng())
    solution = solved(chain, 1e-10)
    assert entrywise_error(solution.stationary, chain.stationary) < 1e-10


def test_blocks_with_rewards_inside() -> None:
    """With this coupling both the blocks and what happens in them are visible in the bias."""
    solved(twisted_blocks(200, 100, rng(), 2.0**-12), 1e-10)


def test_every_probability_of_a_tandem_queue() -> None:
    chain = tandem_queue(140)
    solution = solved(chain, 1e-10)
    assert entrywise_error(solution.stationary, chain.stationary) < 1e-10


def test_backlog_of_a_tandem_queue() -> None:
    chain = tandem_queue(140, backlog=True)
    solution = gb.solve(process(chain))
    assert solution.gain == pytest.approx(chain.gain, rel=1e-10)


@pytest.mark.parametrize("method", ["auto", "dense-gth", "sparse-gth"])
def test_every_probability_of_a_stiff_chain(method: str) -> None:
    chain = bd.stiff_birth_death(1000, rng())
    assert chain.stationary.min() < 1e-28
    solution = gb.solve(process(chain), method=method)
    assert entrywise_error(solution.stationary, chain.stationary) < 1e-10


def test_states_in_random_order() -> None:
    """Nothing may depend on the order in which a chain happens to be written down."""
    for chain in (bd.slow_birth_death(20_000), coupled_grid(150, 120)):
        solved(chain.permuted(rng().permutation(chain.num_states)), 1e-10)
