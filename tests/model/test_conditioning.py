"""Condition numbers against definitions, counterexamples of the theory, and closed forms at scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gainbias as gb
from gainbias.model import conditioning
from gainbias.model.chain import mixing, reversible
from gainbias.model.chain.mixing import contraction_factor, contraction_gap
from gainbias.model.chain.reversible import FlowNetwork, additive_flows, multiplicative_flows
from tests.model.precise import precise_condition_numbers
from tests.oracles import groups
from tests.oracles.birth_death import birth_death

FLIP = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])


def random_process(rng, n, sharpness=3.0):
    """Dense, irreducible and nearly deterministic if `sharpness` is large."""
    weights = rng.random((n, n)) ** sharpness
    weights[np.arange(n), (np.arange(n) + 1) % n] += 0.1 ** min(sharpness, 3.0)
    return gb.MarkovRewardProcess(weights / weights.sum(axis=1, keepdims=True), rng.standard_normal(n))


def check_against_definitions(process, features, ones_weights=None, rel=1e-9):
    problem = gb.Problem(process, features)
    assert problem.ones_in_span == (ones_weights is not None)
    matrix = problem.features.matrix
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    expected = precise_condition_numbers(process.csr.toarray(), dense, ones_weights)
    loss = expected.pop("loss")
    for name, value in expected.items():
        assert getattr(problem.condition_numbers, name) == pytest.approx(value, rel=rel, abs=0.0), name
    gap = contraction_gap(process.csr, problem.solution.stationary)
    assert gap == pytest.approx(loss, rel=rel, abs=0.0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_linear_features_match_the_definitions(seed, form):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    phi = rng.standard_normal((n, int(rng.integers(1, n))))
    check_against_definitions(random_process(rng, n), form(phi))


@pytest.mark.parametrize("seed", range(6))
def test_linear_features_that_span_the_constants_match_the_definitions(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    phi = rng.integers(-4, 5, (n, int(rng.integers(1, n - 1)))).astype(float)
    # The weights of the constant 1 are (-2, 1, ..., 1), in numbers that double precision adds exactly.
    first = (phi.sum(axis=1) - 1.0) / 2.0
    phi = np.column_stack([first, phi])
    check_against_definitions(
        random_process(rng, n), phi, ones_weights=np.r_[-2.0, np.ones(phi.shape[1] - 1)]
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("features", ["tabular", "identity"])
def test_one_feature_per_state_matches_the_definitions(seed, features):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    process = random_process(rng, n, sharpness=2.0 + 4.0 * seed)
    check_against_definitions(process, gb.Tabular() if features == "tabular" else np.eye(n), np.ones(n))


def test_lanczos_agrees_with_all_eigenvalues(monkeypatch):
    process = random_process(np.random.default_rng(3), 200, sharpness=20.0)
    dense = gb.Problem(process, gb.Tabular()).condition_numbers.as_dict()
    monkeypatch.setattr(reversible, "DENSE_FLOW_STATES", 10)
    lanczos = gb.Problem(process, gb.Tabular()).condition_numbers.as_dict()
    assert lanczos == pytest.approx(dense, rel=1e-12)


def test_what_takes_long_is_computed_when_it_is_asked_for(monkeypatch):
    problem = gb.Problem(random_process(np.random.default_rng(4), 30, sharpness=2.0), np.eye(30)[:, :4])
    with monkeypatch.context() as patch:
        patch.setattr(reversible.FlowNetwork, "spectral_gap", None)
        patch.setattr(conditioning, "contraction_factor", None)
        assert problem.condition_numbers.eta1 > 0.0 < problem.condition_numbers.gram_min
    assert problem.condition_numbers.omega < 1.0 > problem.condition_numbers.eta3
    assert repr(problem.condition_numbers).startswith("ConditionNumbers(eta1=0.")


def test_a_periodic_chain_has_condition_numbers():
    cycle = gb.MarkovRewardProcess(np.roll(np.eye(6), 1, axis=1), np.arange(6.0))
    numbers = gb.Problem(cycle, gb.Tabular()).condition_numbers
    assert numbers.omega == 1.0
    assert numbers.eta1 == pytest.approx(1 / 12, rel=1e-14)
    assert numbers.eta2 == pytest.approx(1 / 12, rel=1e-14)
    assert numbers.eta3 == pytest.approx(1 / 12, rel=1e-14)


def test_one_state_has_no_direction_to_minimise_over():
    single = gb.MarkovRewardProcess([[1.0]], [3.0])
    assert gb.Problem(single, gb.Tabular()).condition_numbers.as_dict() == {
        "eta1": 1.0,
        "eta2": np.inf,
        "eta2_literal": np.inf,
        "eta3": np.inf,
        "gram_min": 1.0,
        "omega": 0.0,
    }
    assert gb.Problem(single, [[2.0]]).condition_numbers.as_dict() == {
        "eta1": 4.0,
        "eta2": np.inf,
        "eta2_literal": np.inf,
        "eta3": np.inf,
        "gram_min": 4.0,
        "omega": 0.0,
    }


class TestStatementsOfTheTheory:
    def test_an_ergodic_chain_may_not_contract(self):
        process = gb.MarkovRewardProcess([[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]], [1.0, 0.0, 0.0])
        assert process.is_ergodic
        assert gb.Problem(process, gb.Tabular()).condition_numbers.omega == 1.0

    def test_eta1_may_be_below_eta2(self):
        numbers = gb.Problem(FLIP, gb.Tabular()).condition_numbers
        assert numbers.eta1 == pytest.approx(0.5, rel=1e-14)
        assert numbers.eta2 == pytest.approx(0.9, rel=1e-14)
        assert numbers.eta3 == pytest.approx(0.9, rel=1e-14)
        assert numbers.omega == pytest.approx(0.8, rel=1e-14)

    def test_the_two_constraints_of_eta2_differ(self):
        process = gb.MarkovRewardProcess([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]], np.zeros(3))
        # Weights (1, 0) give ones, so x is (0, 1), and four transitions of flow 1/6 change its values by 1;
        # the printed constraint leaves x = (1, -1) / sqrt(2), with half of that.
        numbers = gb.Problem(process, [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]]).condition_numbers
        assert numbers.eta2 == pytest.approx(1 / 3, rel=1e-14)
        assert numbers.eta2_literal == pytest.approx(1 / 6, rel=1e-14)

    @given(st.integers(0, 2**32), st.integers(2, 12), st.floats(0.1, 12.0))
    @settings(max_examples=60)
    def test_inequalities_between_the_condition_numbers(self, seed, n, sharpness):
        rng = np.random.default_rng(seed)
        process = random_process(rng, n, sharpness)
        phi = rng.standard_normal((n, int(rng.integers(1, n))))
        outside = gb.Problem(process, phi)
        inside = gb.Problem(process, np.column_stack([phi[:, 1:], np.ones(n)]))
        assert inside.ones_in_span
        assert not outside.ones_in_span
        assert inside.condition_numbers.eta1 <= inside.condition_numbers.eta2 * (1 + 1e-9)
        assert outside.condition_numbers.eta1 >= outside.condition_numbers.eta2 * (1 - 1e-9)
        for numbers in (inside.condition_numbers, outside.condition_numbers):
            assert numbers.eta1 >= numbers.eta3 / 2 * (1 - 1e-9)
            assert 0.0 <= numbers.omega <= 1.0
        assert gb.Problem(process, gb.Tabular()).condition_numbers.eta1 <= 1 / n * (1 + 1e-12)


class TestAccuracyRelativeToTheValue:
    """The values are tiny, and their leading digits must still be right."""

    @pytest.mark.parametrize("coupling", [1e-6, 1e-12])
    @pytest.mark.parametrize("tabular", [True, False])
    def test_blocks_that_hardly_communicate(self, coupling, tabular):
        blocks = np.random.default_rng(0).random((8, 8)) * np.kron(np.eye(2), np.ones((4, 4)))
        mixed = blocks / blocks.sum(axis=1, keepdims=True) + coupling * np.random.default_rng(1).random(
            (8, 8)
        )
        process = gb.MarkovRewardProcess(mixed, np.zeros(8), renormalise=True)
        check_against_definitions(process, gb.Tabular() if tabular else np.eye(8), np.ones(8))

    @pytest.mark.parametrize("tabular", [True, False])
    def test_states_that_are_hardly_visited(self, tabular):
        chain = birth_death(np.full(19, 0.02), np.full(19, 0.7), np.zeros(20))
        assert chain.stationary.min() < 1e-29
        process = gb.MarkovRewardProcess(chain.transitions, chain.rewards)
        check_against_definitions(process, gb.Tabular() if tabular else np.eye(20), np.ones(20))

    @pytest.mark.parametrize("lengths", [(1.0, 1e-9, 1.0), (1e9, 1e-9, 1.0), (1e-9, 1.0, 1.0)])
    def test_columns_of_very_different_length(self, lengths):
        phi = np.random.default_rng(2).standard_normal((12, 3)) * lengths
        check_against_definitions(random_process(np.random.default_rng(1), 12), phi)

    @pytest.mark.parametrize("activity", [1.0, 1e-6, 1e-12])
    @pytest.mark.parametrize("num_features", [3, 11])
    def test_columns_with_a_large_offset(self, activity, num_features):
        phi = np.random.default_rng(6).integers(0, 9, (14, num_features)) + 2.0**23
        away = activity * random_process(np.random.default_rng(5), 14).csr.toarray() * (1.0 - np.eye(14))
        lazy = away + np.diag(1.0 - away.sum(axis=1))
        check_against_definitions(gb.MarkovRewardProcess(lazy, np.zeros(14)), phi, rel=1e-8)

    @pytest.mark.parametrize("doubt", [0.0, 1e3], ids=["factorised", "assembled"])
    def test_both_ways_to_the_minimum(self, doubt, monkeypatch):
        monkeypatch.setattr(conditioning, "DOUBT", doubt)
        monkeypatch.setattr(conditioning, "FORM_BLOCK_BYTES", 500)  # many small blocks
        phi = np.random.default_rng(9).random((14, 9))
        check_against_definitions(random_process(np.random.default_rng(8), 14), phi)

    def test_an_inverse_that_contradicts_the_form_is_an_error(self):
        form = np.diag([1.0, 2.0, 3.0])

        def wrong_inverse(vectors):
            return np.linalg.solve(form, vectors) * 1.001

        with pytest.raises(gb.ConvergenceError, match=r"is 0\.999000999 seen through the inverse and 1 seen"):
            reversible.smallest_eigenvalue(wrong_inverse, lambda x: x @ form @ x / (x @ x), 3)

    def test_lanczos_that_does_not_converge_is_an_error(self):
        values = np.linspace(0.999, 1.0, 500)
        with pytest.raises(
            gb.ConvergenceError, match="Lanczos did not find an eigenvalue to 1e-09 in 1 restarts"
        ):
            reversible.largest_eigenpair(lambda x: values * x, 500, restarts=1)

    def test_an_isolated_eigenvalue_near_one_of_a_larger_chain(self):
        # Lanczos finds it at once, but only the inverse has its digits.
        coupling, block = 1e-10, np.full((200, 200), 1 / 200)
        inside, across = np.kron(np.eye(2), block), np.kron([[0.0, 1.0], [1.0, 0.0]], block)
        process = gb.MarkovRewardProcess((1 - coupling) * inside + coupling * across, np.zeros(400))
        mu = np.full(400, 1 / 400)
        assert additive_flows(process.csr, mu).spectral_gap() == pytest.approx(2e-10, rel=1e-9, abs=0.0)
        assert contraction_gap(process.csr, mu) == pytest.approx(4e-10, rel=1e-9, abs=0.0)

    def test_states_that_are_never_seen_are_named(self):
        chain = birth_death(np.full(59, 1e-4), np.full(59, 0.5), np.zeros(60))
        problem = gb.Problem(gb.MarkovRewardProcess(chain.transitions, chain.rewards), gb.Tabular())
        message = (
            r"state 59 has a stationary probability of \d.*e-2\d\d, and below 1e-150 double precision cannot"
        )
        with pytest.raises(ValueError, match=message):
            problem.condition_numbers  # noqa: B018


class TestFlows:
    def test_a_chain_that_spreads_quickly_is_not_inverted(self, monkeypatch):
        process = random_process(np.random.default_rng(0), 350)
        flow = additive_flows(process.csr, gb.solve(process).stationary)
        expected = flow.smallest_ratio(flow.stationary)
        monkeypatch.setattr(FlowNetwork, "smallest_ratio", None)
        assert flow.spectral_gap() == pytest.approx(expected, rel=1e-12)

    def test_energies_are_the_quadratic_forms(self):
        process = random_process(np.random.default_rng(0), 9)
        transitions, mu = process.csr.toarray(), gb.solve(process).stationary
        f = np.random.default_rng(1).standard_normal(9)
        dirichlet = f @ (mu * (f - transitions @ f))
        lost = mu @ f**2 - mu @ (transitions @ f) ** 2
        assert additive_flows(process.csr, mu).energy(f) == pytest.approx(dirichlet, rel=1e-12)
        assert multiplicative_flows(process.csr, mu).energy(f) == pytest.approx(lost, rel=1e-12)

    def test_flows_that_do_not_join_all_states_have_no_gap(self):
        apart = FlowNetwork(sparse.csr_array(np.eye(2) / 2), np.array([0.5, 0.5]))
        assert not apart.is_connected
        assert apart.smallest_ratio(np.ones(2)) == 0.0


class TestContraction:
    def test_transitions_alone_give_the_same_as_pairs_of_successors(self, monkeypatch):
        process = random_process(np.random.default_rng(4), 400, sharpness=8.0)
        mu = gb.solve(process).stationary
        expected = contraction_factor(process.csr, mu)
        monkeypatch.setattr(mixing, "MOST_PAIRS", 0)
        assert contraction_factor(process.csr, mu) == pytest.approx(expected, rel=1e-8)

    def test_transitions_alone_do_not_make_up_a_tiny_gap(self, monkeypatch):
        monkeypatch.setattr(mixing, "MOST_PAIRS", 0)
        block = np.full((200, 200), 1 / 200)
        apart = np.kron([[1 - 1e-10, 1e-10], [1e-10, 1 - 1e-10]], block)
        assert contraction_gap(sparse.csr_array(apart), np.full(400, 1 / 400)) == 0.0

    def test_several_steps(self):
        process = random_process(np.random.default_rng(4), 30, sharpness=8.0)
        mu = gb.solve(process).stationary
        root = np.sqrt(mu)
        three = np.linalg.matrix_power(process.csr.toarray(), 3) - mu
        expected = np.linalg.norm(root[:, None] * three / root, 2)
        assert 1.0 - contraction_gap(process.csr, mu, steps=3) == pytest.approx(expected**2, rel=1e-9)


def walk(chain):
    return gb.MarkovRewardProcess(chain.transitions, np.zeros(chain.num_states))


class TestAtScale:
    """Large chains, against closed forms; nothing of size n x n would fit."""

    def check_tabular(self, process, gap, loss, rel=1e-8):
        """A uniform stationary law: all condition numbers follow from two eigenvalues."""
        n = process.num_states
        numbers = gb.Problem(process, gb.Tabular()).condition_numbers
        assert numbers.gram_min == pytest.approx(1 / n, rel=rel)
        assert numbers.eta1 == pytest.approx(min(1.0, gap) / n, rel=rel)
        assert numbers.eta2 == pytest.approx(gap / n, rel=rel)
        assert numbers.eta2_literal == numbers.eta2
        assert numbers.eta3 == pytest.approx(gap / n, rel=rel)
        mu = np.full(n, 1 / n)
        assert contraction_gap(process.csr, mu) == pytest.approx(loss, rel=rel)
        assert numbers.omega == pytest.approx(np.sqrt(1.0 - loss), rel=1e-15)

    @pytest.mark.slow
    def test_slow_birth_death(self):
        n = 100_000
        chain = birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.zeros(n))
        gap = 1.2 * np.sin(np.pi / (2 * n)) ** 2
        self.check_tabular(walk(chain), gap, gap * (2.0 - gap))

    def test_torus_that_is_not_reversible(self):
        shape = (150, 160)
        law = {(1, 0): 0.4, (-1, 0): 0.1, (0, 1): 0.2, (0, -1): 0.1}
        turns = np.meshgrid(*(np.fft.fftfreq(size) for size in shape), indexing="ij")
        angles = {jump: np.pi * (turns[0] * jump[0] + turns[1] * jump[1]).ravel()[1:] for jump in law}
        real = sum(2 * chance * np.sin(angles[jump]) ** 2 for jump, chance in law.items())
        imaginary = sum(chance * np.sin(2 * angles[jump]) for jump, chance in law.items())
        process = walk(groups.torus(shape, law, np.zeros(shape)))
        self.check_tabular(process, real.min(), (2 * real - real**2 - imaginary**2).min())

    def test_hypercube(self):
        process = walk(groups.hypercube(np.full(15, 1 / 16), np.zeros(2**15)))
        gap = 2.0 / 16
        self.check_tabular(process, gap, gap * (2.0 - gap))

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "dense"), [(100_000, False), (10_000, True)])
    def test_a_thousand_features(self, n, dense):
        d = 1_000
        process = walk(birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.zeros(n)))
        blocks = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) // (n // d))))
        problem = gb.Problem(process, blocks.toarray() if dense else blocks)
        # Blocks of neighbours form a path again, along which 0.3 / n flows.
        eta = 1.2 / n * np.sin(np.pi / (2 * d)) ** 2
        numbers = problem.condition_numbers
        assert numbers.eta1 == pytest.approx(eta, rel=1e-9)
        assert numbers.eta2 == pytest.approx(eta, rel=1e-9)
        assert numbers.eta2_literal == pytest.approx(eta, rel=1e-9)
        assert numbers.gram_min == pytest.approx(1 / d, rel=1e-12)
        assert numbers.eta3 == pytest.approx(1.2 * np.sin(np.pi / (2 * n)) ** 2 / d, rel=1e-8)
