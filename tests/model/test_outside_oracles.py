"""The solver against exact rational arithmetic (python-flint) and against other packages."""

from functools import lru_cache
from types import ModuleType

import numba
import numpy as np
import pydtmc
import pytest

import gainbias as gb
from tests.oracles import birth_death as bd
from tests.oracles.blocks import random_nearly_decomposable
from tests.oracles.compare import bias_error, entrywise_error, gain_error, true_error
from tests.oracles.exact import RationalAnswer, rational_answer
from tests.oracles.naive import naive_bias, naive_stationary
from tests.oracles.small import simultaneous_revision

DIRECT = ["auto", "dense-gth", "sparse-gth"]


def random_chain(num_states: int, decades: float, density: float, seed: int) -> np.ndarray:
    """A ring with random links, in probabilities that vary over so many decades."""
    rng = np.random.default_rng(seed)
    weights = 10 ** rng.uniform(-decades, 0, (num_states, num_states))
    weights *= rng.uniform(size=weights.shape) < density
    ahead = np.roll(np.arange(num_states), -1)
    weights[np.arange(num_states), ahead] += 10 ** rng.uniform(-decades, 0, num_states)
    return weights / weights.sum(axis=1, keepdims=True)


CASES = {
    "two states": (2, 12, 1.0, 1),
    "five states": (5, 14, 0.5, 2),
    "seventeen states": (17, 10, 0.3, 3),
    "forty sparse states": (40, 8, 0.05, 4),
    "forty dense states": (40, 3, 1.0, 5),
    "a hundred states": (100, 6, 0.1, 6),
    "a hundred states, dense and even": (100, 0.3, 1.0, 7),
}


@lru_cache
def rational_case(name: str) -> tuple[np.ndarray, np.ndarray, RationalAnswer]:
    transitions = random_chain(*CASES[name])
    rewards = np.random.default_rng(8).uniform(-1, 1, len(transitions))
    return transitions, rewards, rational_answer(transitions, rewards)


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("name", CASES)
def test_exact_rationals(name: str, method: str) -> None:
    transitions, rewards, exact = rational_case(name)
    solution = gb.solve(gb.MarkovRewardProcess(transitions, rewards), method=method)
    assert entrywise_error(solution.stationary, exact.stationary) < 1e-13
    assert gain_error(solution, exact) < 1e-13
    assert bias_error(solution, exact) < 1e-10
    assert true_error(solution, exact) <= max(solution.error_bound, 5e-15)
    assert solution.asymptotic_variance == pytest.approx(exact.asymptotic_variance, rel=1e-10)


PEER_CASES = {
    "random": lambda: np.random.default_rng(1).dirichlet(np.ones(60), 60),
    "random with tiny entries": lambda: random_chain(40, 6, 0.5, 9),
    "nearly decomposable": lambda: random_nearly_decomposable(5, 8, 1e-12, np.random.default_rng(2)),
    "one player at a time": lambda: bd.kandori_mailath_rob(10, 1 / 3, 1e-3).transitions.toarray(),
    "one player at a time, rare mutants": lambda: bd.kandori_mailath_rob(
        27, 1 / 3, 1e-2
    ).transitions.toarray(),
    "all players at once": lambda: simultaneous_revision(10, 4, 1e-2).transitions,
}

# What PyDTMC itself can reach, measured against exact rationals; it is not a tolerance of ours.
PYDTMC_BIAS_TOLERANCE = {"nearly decomposable": 1e-3, "one player at a time": 1e-6}


def rewarded(transitions: np.ndarray) -> gb.MarkovRewardProcess:
    return gb.MarkovRewardProcess(transitions, np.random.default_rng(3).uniform(size=len(transitions)))


@pytest.fixture(scope="module")
def quantecon(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The package, compiled for this process alone.

    It compiles generalised ufuncs when it is imported. If two processes do so at once, numba's cache keeps
    the wrapper of one with the function of the other, and every later import aborts ("Symbol not found").
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "CACHE_DIR", str(tmp_path_factory.mktemp("numba")))
        import quantecon
    return quantecon


@pytest.mark.parametrize("name", PEER_CASES)
def test_quantecon_has_the_same_law(quantecon: ModuleType, name: str) -> None:
    transitions = PEER_CASES[name]()
    (law,) = quantecon.MarkovChain(transitions).stationary_distributions
    assert entrywise_error(gb.solve(rewarded(transitions)).stationary, law) < 1e-12


@pytest.mark.parametrize("name", PEER_CASES)
def test_pydtmc_has_the_same_law(name: str) -> None:
    transitions = PEER_CASES[name]()
    (law,) = pydtmc.MarkovChain(transitions).stationary_distributions
    assert entrywise_error(gb.solve(rewarded(transitions)).stationary, law) < 1e-12


@pytest.mark.parametrize(
    "name", ["random", "random with tiny entries", "nearly decomposable", "one player at a time"]
)
def test_pydtmc_has_the_same_bias(name: str) -> None:
    """The deviation matrix is ``mu_j (sum_k mu_k m_kj - m_ij)`` for mean first passage times m."""
    transitions = PEER_CASES[name]()
    peer = pydtmc.MarkovChain(transitions)
    (law,) = peer.stationary_distributions
    passage = np.array(peer.mean_first_passage_times_to())
    np.fill_diagonal(passage, 0)
    solution = gb.solve(rewarded(transitions))
    bias = (law @ passage - passage) @ (law * solution.mrp.rewards)
    tolerance = PYDTMC_BIAS_TOLERANCE.get(name, 1e-9)
    np.testing.assert_allclose(solution.bias, bias, rtol=0, atol=tolerance * np.ptp(solution.bias))


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("name", PEER_CASES)
def test_exact_rationals_on_the_same_chains(name: str, method: str) -> None:
    """Where the other packages lose digits of the bias, ours must not."""
    mrp = rewarded(PEER_CASES[name]())
    solution = gb.solve(mrp, method=method)
    exact = rational_answer(mrp.transitions, mrp.rewards)
    assert entrywise_error(solution.stationary, exact.stationary) < 1e-12
    assert true_error(solution, exact) < 1e-10


def test_naive_twin_of_the_dense_method() -> None:
    mrp = rewarded(np.random.default_rng(4).dirichlet(np.ones(50), 50))
    solution = gb.solve(mrp, method="dense-gth")
    law = naive_stationary(mrp.transitions)
    assert entrywise_error(solution.stationary, law) < 1e-14
    bias = naive_bias(mrp.transitions, mrp.rewards, law)
    np.testing.assert_allclose(solution.bias, bias, rtol=0, atol=1e-13 * np.ptp(bias))
