"""The second-largest eigenvalue modulus and the spectral gap."""

import flint
import numpy as np
import pytest
from flint import acb_mat, arb, ctx
from pydtmc import MarkovChain
from scipy import sparse

import gainbias as gb
from gainbias.model.chain import mixing
from gainbias.model.chain.mixing import is_reversible
from tests.oracles import groups
from tests.oracles.birth_death import birth_death
from tests.oracles.blocks import TINY, lumpable_blocks
from tests.oracles.exact import exact_chain, fraction


def process_of(transitions):
    return gb.MarkovRewardProcess(transitions, np.zeros(transitions.shape[0]))


def random_process(n, seed, sharpness=3.0):
    weights = np.random.default_rng(seed).random((n, n)) ** sharpness
    return process_of(weights / weights.sum(axis=1, keepdims=True))


def drifting_ring(n, forward, backward):
    """A ring and its gap: 1 - |1 - x| with x = (f + b)(1 - cos a) + i (f - b) sin a."""
    angles = 2.0 * np.pi * np.arange(1, n) / n
    distance = 2 * (forward + backward) * np.sin(angles / 2) ** 2 + 1j * (backward - forward) * np.sin(angles)
    gaps = (2 * distance.real - np.abs(distance) ** 2) / (1 + np.abs(1 - distance))
    return process_of(groups.ring(n, forward, backward, np.zeros(n)).transitions), gaps.min()


class TestSmall:
    @pytest.mark.parametrize("seed", range(10))
    def test_all_eigenvalues(self, seed):
        process = random_process(2 + 3 * seed, seed)
        moduli = np.sort(np.abs(np.linalg.eigvals(process.csr.toarray())))
        assert gb.second_eigenvalue_modulus(process) == pytest.approx(moduli[-2], rel=1e-10)
        assert gb.spectral_gap(process) == pytest.approx(1.0 - moduli[-2], rel=1e-10)

    def test_against_pydtmc(self):
        process = random_process(9, 3)
        assert gb.spectral_gap(process) == pytest.approx(
            MarkovChain(process.csr.toarray()).spectral_gap, rel=1e-8
        )

    @pytest.mark.parametrize("n", [4, 300])
    @pytest.mark.parametrize(("forward", "backward"), [(0.5, 0.25), (0.3, 0.3), (0.99, 0.0), (0.01, 0.98)])
    def test_rings(self, n, forward, backward):
        process, gap = drifting_ring(n, forward, backward)
        assert gb.spectral_gap(process) == pytest.approx(gap, rel=1e-9)

    @pytest.mark.parametrize("coupling", [1e-4, 1e-8, 1e-12])
    def test_a_tiny_gap_keeps_its_digits(self, coupling):
        slow = process_of(np.array([[1 - coupling, coupling], [2 * coupling, 1 - 2 * coupling]]))
        assert gb.spectral_gap(slow) == pytest.approx(3 * coupling, rel=1e-12, abs=0.0)
        # two states of slow, each made of two that are not reversible together with a third
        blocks = np.kron(np.eye(2), [[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.7, 0.2, 0.1]])
        apart = blocks * (1 - coupling) + coupling * np.kron([[0, 1], [1, 0]], np.full((3, 3), 1 / 3))
        assert not is_reversible(process_of(apart), np.full(6, 1 / 6))
        assert gb.spectral_gap(process_of(apart)) == pytest.approx(2 * coupling, rel=1e-9, abs=0.0)

    @pytest.mark.parametrize("stay", [1e-4, 1e-8, 1e-12])
    def test_nearly_periodic_chains_keep_their_digits_if_reversible(self, stay):
        process = process_of(np.array([[stay, 1 - stay], [1 - stay, stay]]))
        assert gb.spectral_gap(process) == pytest.approx(2 * stay, rel=1e-12, abs=0.0)

    def test_chains_that_do_not_forget(self):
        for transitions in (np.eye(3), np.roll(np.eye(3), 1, axis=1)):
            assert gb.spectral_gap(process_of(transitions)) == 0.0
            assert gb.second_eigenvalue_modulus(process_of(transitions)) == 1.0

    def test_chains_that_forget_at_once(self):
        assert gb.spectral_gap(process_of(np.array([[1.0]]))) == 1.0
        assert gb.spectral_gap(process_of(np.full((4, 4), 0.25))) == pytest.approx(1.0, abs=1e-12)

    def test_transient_states_count(self):
        process = process_of(np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]))
        assert gb.second_eigenvalue_modulus(process) == pytest.approx(0.9, rel=1e-12)


def restarting(n, onward):
    """From i to i + 1, or back to 0: after n - 1 steps the start is forgotten, so that the gap is 1."""
    chain = np.zeros((n, n))
    chain[np.arange(n), np.minimum(np.arange(n) + 1, n - 1)] = onward
    chain[:, 0] += 1 - onward
    return chain


def last_letters(k, law):
    """The last k letters of a random text: after k steps the start is forgotten."""
    letters = len(law)
    n = letters**k
    chain = np.zeros((n, n))
    for letter, chance in enumerate(law):
        chain[np.arange(n), (letters * np.arange(n) + letter) % n] = chance
    return chain


def gap_with_many_digits(transitions):
    """The gap in 2000-bit arithmetic."""
    before, flint.ctx.prec = flint.ctx.prec, 2000
    try:
        entries = [flint.arb(float(x)) for x in transitions.ravel()]
        values = flint.acb_mat(flint.arb_mat(*transitions.shape, entries)).eig(algorithm="approx")
        return 1.0 - sorted(float(abs(value)) for value in values)[-2]
    finally:
        flint.ctx.prec = before


def lean(size, times):
    """Two states that keep where they are with an excess of `size`: their second eigenvalue."""
    chain = np.array([[0.5 + size / 2, 0.5 - size / 2], [0.5 - size / 2, 0.5 + size / 2]])
    return np.kron(chain, np.full((times, times), 1 / times))


def turning(size):
    """Three states with no way back: the second eigenvalues are size * 0.5567... times a root of unity."""
    return (1 - size) / 3 + size * np.array([[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.7, 0.2, 0.1]])


def modulus_with_many_digits(transitions):
    """The second-largest modulus in 2000-bit arithmetic."""
    before, flint.ctx.prec = flint.ctx.prec, 2000
    try:
        entries = [flint.arb(float(x)) for x in transitions.ravel()]
        values = flint.acb_mat(flint.arb_mat(*transitions.shape, entries)).eig(algorithm="approx")
        return sorted(float(abs(value)) for value in values)[-2]
    finally:
        flint.ctx.prec = before


class TestSmallModulus:
    """The modulus is not 1 minus a gap: near 0 nothing would be left of it."""

    @pytest.mark.parametrize(
        "chain", [lean(size, times) for size in (0.3, 1e-3, 1e-6, 1e-8) for times in (1, 3)]
    )
    def test_reversible(self, chain):
        found = gb.second_eigenvalue_modulus(process_of(chain))
        assert found == pytest.approx(modulus_with_many_digits(chain), rel=1e-6, abs=0.0)
        assert gb.spectral_gap(process_of(chain)) == pytest.approx(1.0 - found, rel=1e-14)

    @pytest.mark.parametrize("chain", [turning(size) for size in (1e-3, 1e-5, 1e-7)])
    def test_not_reversible(self, chain):
        found = gb.second_eigenvalue_modulus(process_of(chain))
        assert found == pytest.approx(modulus_with_many_digits(chain), rel=1e-6, abs=0.0)

    @pytest.mark.parametrize("chain", [lean(1e-11, 1), lean(1e-13, 2), turning(1e-9), turning(1e-12)])
    def test_what_rounding_decides_is_refused_and_the_gap_is_not(self, chain):
        with pytest.raises(
            gb.ConvergenceError, match=r"is about \S+, but may be off by .* decided by rounding"
        ):
            gb.second_eigenvalue_modulus(process_of(chain))
        assert gb.spectral_gap(process_of(chain)) == pytest.approx(1.0, abs=1e-8)

    @pytest.mark.parametrize(
        "law", [[0.2, 0.3, 0.5], [0.0, 0.3, 0.7], [1e-9, 0.1, 0.9 - 1e-9], np.full(40, 1 / 40)]
    )
    def test_independent_states_have_none(self, law):
        process = process_of(np.tile(law, (len(law), 1)))
        assert gb.second_eigenvalue_modulus(process) == 0.0
        assert gb.spectral_gap(process) == pytest.approx(1.0, abs=1e-14)

    def test_many_states(self, monkeypatch):
        monkeypatch.setattr(mixing, "DENSE_SPECTRUM_STATES", 100)
        law = np.random.default_rng(0).dirichlet(np.ones(310))
        for size in (1e-3, 1e-7):
            process = process_of(size * np.eye(310) + (1 - size) * law)
            assert gb.second_eigenvalue_modulus(process) == pytest.approx(size, rel=1e-6, abs=0.0)
        assert gb.second_eigenvalue_modulus(process_of(np.tile(law, (310, 1)))) == 0.0

    @pytest.mark.parametrize("chain", [last_letters(3, [0.3, 0.7]), last_letters(4, [0.5, 0.5])])
    def test_three_letters_are_ill_conditioned(self, chain):
        """All eigenvalues but one are 0; rounding makes 1e-5 of them."""
        for ask in (gb.second_eigenvalue_modulus, gb.spectral_gap):
            with pytest.raises(gb.ConvergenceError, match="ill-conditioned"):
                ask(process_of(chain))


class TestIllConditioned:
    """What rounding decides is not returned."""

    @pytest.mark.parametrize(
        "chain",
        [
            restarting(100, 0.9),
            restarting(40, 0.5),
            restarting(12, 0.99),
            last_letters(8, [0.3, 0.7]),
            last_letters(5, [0.2, 0.3, 0.5]),
            0.99 * restarting(60, 0.9) + 0.01 * np.eye(60),
        ],
    )
    def test_chains_that_forget_in_finitely_many_steps(self, chain):
        with pytest.raises(
            gb.ConvergenceError, match=r"too ill-conditioned: a gap of [01]\S* was found, and"
        ):
            gb.spectral_gap(process_of(chain))
        with pytest.raises(
            gb.ConvergenceError, match=r"modulus of this chain is about \S+, but may be off by"
        ):
            gb.second_eigenvalue_modulus(process_of(chain))
        assert gb.mixing_time(process_of(chain), 1e-6) >= 2

    def test_large_chains_too(self):
        n = 2**11
        rows = np.concatenate([np.arange(n), np.arange(n)])
        columns = np.concatenate([2 * np.arange(n) % n, (2 * np.arange(n) + 1) % n])
        chain = sparse.csr_array((np.repeat([0.3, 0.7], n), (rows, columns)))
        with pytest.raises(gb.ConvergenceError, match="too ill-conditioned"):
            gb.spectral_gap(process_of(chain))

    @pytest.mark.parametrize("seed", range(12))
    def test_what_is_returned_is_right(self, seed):
        """Between normal and hopeless: restarts, a random part, and laws over many decades."""
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 25))
        noise = rng.random((n, n)) ** rng.uniform(1, 30)
        chain = restarting(n, rng.uniform(0.2, 0.9)) + 10.0 ** rng.uniform(-9, 0) * noise
        chain /= chain.sum(axis=1, keepdims=True)
        exact = gap_with_many_digits(chain)
        try:
            found = gb.spectral_gap(process_of(chain))
        except gb.ConvergenceError:
            found = exact
        assert found == pytest.approx(exact, rel=1e-5)

    def test_a_law_over_forty_decades(self):
        walk = np.diag(np.full(59, 0.1), 1) + np.diag(np.full(59, 0.5), -1)
        walk += np.diag(1.0 - walk.sum(axis=1))
        walk[0] *= 0.9
        walk[0, 2] += 0.1
        assert gb.spectral_gap(process_of(walk)) == pytest.approx(gap_with_many_digits(walk), rel=1e-9)

    def test_transient_states_in_a_row(self):
        """Eigenvalues of a triangular chain are on its diagonal, repeated or not."""
        line = 0.5 * np.eye(100) + 0.5 * np.eye(100, k=1)
        line[-1, -1] = 1.0
        order = np.random.default_rng(0).permutation(100)
        assert gb.spectral_gap(process_of(line)) == 0.5
        assert gb.spectral_gap(process_of(line[order][:, order])) == 0.5


class TestReversible:
    def test_by_the_flows(self):
        symmetric = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
        assert is_reversible(process_of(symmetric), np.array([0.25, 0.5, 0.25]))
        ring = np.array([[0.0, 0.6, 0.4], [0.4, 0.0, 0.6], [0.6, 0.4, 0.0]])
        assert not is_reversible(process_of(ring), np.full(3, 1 / 3))

    def test_transient_states_have_no_flow_back(self):
        assert not is_reversible(process_of(np.array([[0.5, 0.5], [0.0, 1.0]])), np.array([0.0, 1.0]))


class TestLarge:
    def test_slow_birth_death(self):
        n = 100_000
        chain = birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.zeros(n))
        gap = 1.2 * np.sin(np.pi / (2 * n)) ** 2
        assert gb.spectral_gap(process_of(chain.transitions)) == pytest.approx(gap, rel=1e-8)

    @pytest.mark.parametrize(("forward", "backward"), [(0.5, 0.1), (0.1, 0.89)])
    def test_drifting_ring(self, forward, backward, monkeypatch):
        monkeypatch.setattr(mixing, "DENSE_SPECTRUM_STATES", 100)
        process, gap = drifting_ring(151, forward, backward)
        assert gb.spectral_gap(process) == pytest.approx(gap, rel=1e-8)

    @pytest.mark.parametrize("successors", [3, 8, 400])
    def test_random_sparse(self, successors):
        n = 1100
        rng = np.random.default_rng(0)
        columns = rng.integers(0, n, successors * n)
        entries = (rng.random(successors * n), (np.repeat(np.arange(n), successors), columns))
        transitions = sparse.csr_array(entries, shape=(n, n))
        transitions += sparse.eye_array(n, k=1) / n + sparse.eye_array(n, k=1 - n) / n
        process = gb.MarkovRewardProcess(transitions, np.zeros(n), renormalise=True)
        moduli = np.sort(np.abs(np.linalg.eigvals(process.csr.toarray())))
        assert gb.second_eigenvalue_modulus(process) == pytest.approx(moduli[-2], rel=1e-8)

    def test_blocks_that_hardly_communicate(self):
        chain = lumpable_blocks(30, 50, np.random.default_rng(0))
        process = process_of(chain.transitions)
        lump = sparse.csr_array((np.ones(1500), (np.arange(1500), np.arange(1500) // 50)))
        away = (lump.T @ chain.transitions @ lump).toarray() / 50 / TINY * (1 - np.eye(30))
        rates = np.linalg.eigvals(np.diag(away.sum(axis=1)) - away)
        gap = TINY * np.sort(rates.real)[1]
        assert gap < 1e-12
        assert gb.spectral_gap(process) == pytest.approx(gap, rel=1e-8, abs=0.0)

    def test_what_cannot_be_found_is_an_error(self, monkeypatch):
        monkeypatch.setattr(mixing, "DENSE_SPECTRUM_STATES", 100)
        monkeypatch.setattr(mixing, "MANY_STEPS", 1)
        monkeypatch.setattr(mixing, "RESTARTS", 2)
        process, _ = drifting_ring(2001, 0.5, 0.1)
        with pytest.raises(
            gb.ConvergenceError, match=r"eigenvalues of 1 steps of the chain could not be told apart"
        ):
            gb.spectral_gap(process)


def stiff_chain(seed: int) -> gb.MarkovRewardProcess:
    """A few states whose rates span 300 decades, and which are left next to never."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    moves = (rng.random((n, n)) < 0.5) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    rates = np.where(moves, 10.0 ** -rng.uniform(0, 300, (n, n)), 0.0)
    np.fill_diagonal(rates, 0.0)
    rates /= 2.0 * rates.sum(axis=1).max()
    return gb.MarkovRewardProcess(rates + np.diag(1.0 - rates.sum(axis=1)), np.arange(float(n)))


@pytest.mark.parametrize("seed", range(30))
def test_gaps_far_below_the_unit_of_rounding_have_errors(seed: int) -> None:
    """They are not seen in the modulus, which is 1 to all digits, and no gap is negative."""
    mrp = stiff_chain(seed)
    try:
        gap, error = mixing.gap_and_error(mrp)
    except gb.ConvergenceError:  # nothing else
        return
    with ctx.workprec(6000):
        values = acb_mat([[arb(x) for x in row] for row in exact_chain(mrp)]).eig(nonstop=True)
        exact = sorted((1 - abs(value)).mid().fmpq() for value in values)[1]
    assert gap >= 0.0
    assert abs(fraction(gap) - exact) <= fraction(error) + exact * fraction(1e-6)
