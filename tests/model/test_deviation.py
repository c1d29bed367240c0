"""The deviation matrix and the Kemeny constant, by hand, by definition, and against PyDTMC."""

import numpy as np
import pytest
from pydtmc import MarkovChain
from scipy import sparse

import gainbias as gb
from gainbias.model.chain import deviation as module
from gainbias.model.solve.solve import poisson_solver
from tests.oracles.birth_death import birth_death

CYCLE = gb.MarkovRewardProcess([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [0.0, 0.0, 0.0])
ABSORBING = gb.MarkovRewardProcess([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]], [0.0, 0.0, 0.0])


def random_process(n, seed=0):
    weights = np.random.default_rng(seed).random((n, n)) ** 3
    return gb.MarkovRewardProcess(weights / weights.sum(axis=1, keepdims=True), np.arange(n))


def by_definition(process):
    transitions, n = process.csr.toarray(), process.num_states
    mu = np.linalg.solve(np.vstack([(np.eye(n) - transitions).T[:-1], np.ones(n)]), np.eye(n)[-1])
    return np.linalg.inv(np.eye(n) - transitions + mu) - mu


class TestDeviation:
    @pytest.mark.parametrize("process", [random_process(2), random_process(17), CYCLE, ABSORBING])
    def test_matrix_is_its_definition(self, process):
        found = gb.deviation_matrix(process)
        np.testing.assert_allclose(found, by_definition(process), atol=1e-13)
        vector = np.random.default_rng(1).standard_normal(process.num_states)
        np.testing.assert_allclose(gb.deviation(process, vector), found @ vector, atol=1e-13)
        block = np.random.default_rng(1).standard_normal((process.num_states, 3))
        np.testing.assert_allclose(gb.deviation(process, block), found @ block, atol=1e-13)

    def test_it_sums_what_the_start_changes(self):
        process = random_process(6)
        mu = gb.solve(process).stationary
        terms = [np.linalg.matrix_power(process.csr.toarray(), t) - mu for t in range(200)]
        np.testing.assert_allclose(gb.deviation_matrix(process), sum(terms), atol=1e-12)

    def test_of_the_rewards_is_the_bias(self):
        process = random_process(9)
        np.testing.assert_allclose(gb.deviation(process, process.rewards), gb.solve(process).bias, atol=1e-13)

    def test_methods_that_iterate(self, monkeypatch):
        process = random_process(10)
        monkeypatch.setattr(module, "poisson_solver", lambda mrp: poisson_solver(mrp, method="power"))
        np.testing.assert_allclose(gb.deviation_matrix(process), by_definition(process), atol=1e-12)
        assert gb.kemeny_constant(process) == pytest.approx(np.trace(by_definition(process)), rel=1e-12)

    def test_at_scale_without_forming_it(self):
        n = 100_000
        chain = birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.sin(np.arange(n)))
        process = gb.MarkovRewardProcess(chain.transitions, np.zeros(n))
        found = gb.deviation(process, chain.rewards)
        np.testing.assert_allclose(found, chain.bias, atol=1e-9 * np.ptp(chain.bias))

    @pytest.mark.parametrize("shape", [(2,), (4, 1), (3, 1, 1), ()])
    def test_wrong_shape_is_named(self, shape):
        with pytest.raises(
            ValueError, match=r"vector must have shape \(3,\) or \(3, k\), one row for each state"
        ):
            gb.deviation(CYCLE, np.ones(shape))

    def test_entries_that_are_not_finite_are_named(self):
        with pytest.raises(ValueError, match=r"vector\[1\] is nan"):
            gb.deviation(CYCLE, [0.0, np.nan, 0.0])

    def test_too_many_states_for_the_matrix(self):
        large = gb.MarkovRewardProcess(sparse.eye_array(5001, format="csr"), np.zeros(5001))
        with pytest.raises(
            ValueError, match=r"dense, so there may be at most 5000 states, found 5001: apply it"
        ):
            gb.deviation_matrix(large)
        with pytest.raises(
            ValueError, match=r"solve per state, so there may be at most 5000 states, found 5001"
        ):
            gb.kemeny_constant(large)


class TestKemeny:
    def test_two_states(self):
        process = gb.MarkovRewardProcess([[0.8, 0.2], [0.3, 0.7]], [0.0, 0.0])
        assert gb.kemeny_constant(process) == pytest.approx(2.0, rel=1e-14)  # 1 / (0.2 + 0.3)

    def test_cycle(self):
        assert gb.kemeny_constant(CYCLE) == pytest.approx(1.0, rel=1e-14)  # steps 0, 1, 2 with chance 1/3

    @pytest.mark.parametrize("n", [5, 1000])
    def test_complete_graph(self, n):
        process = gb.MarkovRewardProcess((1.0 - np.eye(n)) / (n - 1), np.zeros(n))
        assert gb.kemeny_constant(process) == pytest.approx((n - 1) ** 2 / n, rel=1e-12)

    def test_slow_path(self):
        n = 2000
        chain = birth_death(np.full(n - 1, 0.5), np.full(n - 1, 0.5), np.zeros(n))
        process = gb.MarkovRewardProcess(chain.transitions, chain.rewards)
        # The sum of 1 / (2 sin^2(pi k / 2 n)) over k = 1 .. n - 1 is (n^2 - 1) / 3.
        assert gb.kemeny_constant(process) == pytest.approx((n**2 - 1) / 3, rel=1e-10)

    def test_the_start_does_not_matter(self):
        process = random_process(7)
        chain = MarkovChain(process.csr.toarray())
        mu = np.asarray(chain.steady_states[0])
        passages = np.asarray(chain.mean_first_passage_times_to())
        np.testing.assert_allclose(passages @ mu, gb.kemeny_constant(process), rtol=1e-10)

    def test_an_absorbing_chain_against_pydtmc(self):
        theirs = MarkovChain(ABSORBING.csr.toarray()).kemeny_constant
        assert gb.kemeny_constant(ABSORBING) == pytest.approx(theirs, rel=1e-12)
