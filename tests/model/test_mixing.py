"""The mixing time: by hand, by stepping through time, and between its bounds for large chains."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gainbias as gb
from gainbias.model.chain import mixing
from gainbias.model.chain.mixing import MixingTimeBounds
from tests.oracles import groups
from tests.oracles.birth_death import birth_death

FLIP = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [0.0, 0.0])


def process_of(transitions):
    return gb.MarkovRewardProcess(transitions, np.zeros(transitions.shape[0]))


def distances(process, most=10_000):
    """max_s sum_s' |P^t(s, s') - mu(s')| for t = 1, 2, ..."""
    mu, power = gb.solve(process).stationary, np.eye(process.num_states)
    for _ in range(most):
        power = power @ process.csr.toarray()
        yield np.abs(power - mu).sum(axis=1).max()


def by_stepping(process, eps):
    return next(t for t, distance in enumerate(distances(process), start=1) if distance <= eps)


class TestExact:
    @pytest.mark.parametrize(
        ("eps", "expected"),
        [(5.0, 1), (1.0, 1), (0.81, 1), (0.8, 1), (0.79, 2), (0.64, 2), (0.5, 4), (1e-10, 104)],
    )
    def test_two_states(self, eps, expected):
        # The distance is 0.8^t; a tie counts as reached.
        assert gb.mixing_time(FLIP, eps) == expected
        assert FLIP.mixing_time(eps) == expected

    def test_at_once(self):
        assert gb.mixing_time(process_of(np.full((3, 3), 1 / 3)), 1e-12) == 1
        assert gb.mixing_time(process_of(np.array([[1.0]])), 1e-300) == 1

    def test_distance_is_twice_the_total_variation(self):
        assert gb.mixing_time(process_of(np.array([[0.7, 0.3], [0.3, 0.7]])), 0.4) == 1
        assert gb.mixing_time(process_of(np.array([[0.7, 0.3], [0.3, 0.7]])), 0.39) == 2

    @given(st.integers(0, 2**32), st.integers(2, 12), st.floats(0.5, 20.0), st.floats(1e-6, 1.9))
    @settings(max_examples=60)
    def test_is_the_first_time_below(self, seed, n, sharpness, eps):
        weights = np.random.default_rng(seed).random((n, n)) ** sharpness + 0.01
        process = process_of(weights / weights.sum(axis=1, keepdims=True))
        assert gb.mixing_time(process, eps) == by_stepping(process, eps)

    def test_transient_states_are_starts_too(self):
        process = process_of(np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]))
        assert gb.mixing_time(process, 0.01) == by_stepping(process, 0.01)

    @pytest.mark.parametrize("coupling", [1e-3, 1e-6, 1e-9])
    def test_slow_chains(self, coupling):
        process = process_of(np.array([[1 - coupling, coupling], [2 * coupling, 1 - 2 * coupling]]))
        # The distance is 4/3 (1 - 3 c)^t, from the state that is visited a third of the time.
        expected = math.ceil(math.log(0.01 / (4 / 3)) / math.log1p(-3 * coupling))
        lower, upper, exact = gb.mixing_time_bounds(process, 0.01)
        assert exact == (coupling > 1e-9)
        if exact:
            assert gb.mixing_time(process, 0.01) == expected
        assert lower <= expected <= upper
        assert exact == (lower == upper)
        assert (upper - lower) / expected < 1e-14 / coupling

    def test_bounds_say_when_they_are_exact(self):
        assert gb.mixing_time_bounds(FLIP, 0.5) == MixingTimeBounds(4, 4, True)
        assert gb.mixing_time_bounds(FLIP, 0.64) == MixingTimeBounds(2, 3, False)  # a tie, up to rounding

    @pytest.mark.parametrize(("coupling", "eps"), [(1e-12, 0.5), (3e-11, 0.1), (1e-10, 1e-3)])
    def test_slow_chains_are_bounded_and_refused(self, coupling, eps):
        process = process_of(np.array([[1 - coupling, coupling], [coupling, 1 - coupling]]))
        expected = math.ceil(math.log(eps) / math.log1p(-2 * coupling))
        lower, upper, exact = gb.mixing_time_bounds(process, eps)
        assert lower <= expected <= upper <= 1.01 * lower
        assert not exact
        message = rf"lies between {lower:,} and {upper:,}, and rounding hides at which step"
        with pytest.raises(gb.ConvergenceError, match=message):
            gb.mixing_time(process, eps)

    @pytest.mark.parametrize(
        ("letters", "law"), [(4, [0.3, 0.7]), (7, [0.3, 0.7]), (3, [0.2, 0.3, 0.5]), (4, [0.1, 0.2, 0.7])]
    )
    def test_rounding_of_powers_is_no_distance(self, letters, law):
        """The last letters of a random text: forgotten exactly after that many steps."""
        n = len(law) ** letters
        chain = np.zeros((n, n))
        for letter, chance in enumerate(law):
            chain[np.arange(n), (len(law) * np.arange(n) + letter) % n] = chance
        process = process_of(chain)
        assert gb.mixing_time(process, 1e-6) == letters
        lower, upper, exact = gb.mixing_time_bounds(process, 1e-16)
        assert lower == letters < upper
        assert not exact
        with pytest.raises(gb.ConvergenceError, match=rf"between {lower} and {upper}, and rounding hides"):
            gb.mixing_time(process, 1e-16)

    def test_tiny_eps_where_distances_keep_their_digits(self):
        assert gb.mixing_time(FLIP, 1e-280) == math.ceil(-280 * math.log(10) / math.log(0.8))
        with pytest.raises(ValueError, match="eps must be at least 1e-290, because double precision loses"):
            gb.mixing_time(FLIP, 1e-300)

    def test_too_slow_to_follow(self):
        slow = process_of(np.array([[1 - 1e-14, 1e-14], [1e-14, 1 - 1e-14]]))
        with pytest.raises(
            gb.ConvergenceError, match=r"after 2\^40 steps the process is still 0.97\d from its"
        ):
            gb.mixing_time(slow, 0.1)


class TestRefusals:
    @pytest.mark.parametrize("eps", [0.0, -1.0, math.nan])
    def test_eps_must_be_positive(self, eps):
        with pytest.raises(ValueError, match=f"eps must be positive, found {eps}"):
            gb.mixing_time(FLIP, eps)

    def test_periodic(self):
        with pytest.raises(ValueError, match=r"periodic with period 3.*no mixing time: use the lazy chain"):
            gb.mixing_time(process_of(np.roll(np.eye(3), 1, axis=1)), 0.5)

    def test_several_classes(self):
        with pytest.raises(ValueError, match=r"2 recurrent classes: \{0\}, \{1\}, so it never forgets"):
            gb.mixing_time(process_of(np.eye(2)), 0.5)

    def test_transient_states_of_a_large_chain(self, monkeypatch):
        monkeypatch.setattr(mixing, "EXACT_STATES", 2)
        process = process_of(np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]))
        with pytest.raises(ValueError, match=r"which are 0 for 1 transient states: restrict the process"):
            gb.mixing_time(process, 0.5)


class TestLargeChains:
    """A bound is not passed off as the mixing time."""

    def test_a_walk_whose_bounds_are_apart(self):
        n = 1001
        chain = birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.zeros(n))
        process = process_of(chain.transitions)
        lower, upper, exact = gb.mixing_time_bounds(process, 0.1)
        assert not exact
        message = (
            rf"^the mixing time of 1,001 states lies between {lower:,} and {upper:,}, and above 1,000 sta"
        )
        for ask in (process.mixing_time, gb.Problem(process, gb.Tabular()).mixing_time):
            with pytest.raises(gb.ConvergenceError, match=message):
                ask(0.1)

    @pytest.mark.slow
    def test_one_state_fewer_is_exact(self):
        n = 1000
        ring = process_of(groups.ring(n, 0.5, 0.3, np.zeros(n)).transitions)
        jumps = np.zeros(n)
        jumps[[0, 1, -1]] = [0.2, 0.5, 0.3]
        spectrum = np.fft.fft(jumps)
        time = ring.mixing_time(1.9)
        far, near = (np.abs(np.fft.ifft(spectrum**t).real - 1 / n).sum() for t in (time - 1, time))
        assert near <= 1.9 < far

    def test_bounds_that_agree_are_the_mixing_time(self):
        assert gb.mixing_time(process_of(np.full((1100, 1100), 1 / 1100)), 0.5) == 1
        walk = birth_death(np.full(1100, 0.3), np.full(1100, 0.3), np.zeros(1101))
        assert gb.mixing_time(process_of(walk.transitions), 2.0) == 1

    def test_theorems_say_so_too_where_rounding_leaves_it_open(self):
        slow = gb.Problem(process_of(np.array([[1 - 1e-9, 1e-9], [2e-9, 1 - 2e-9]])), [[1.0], [0.0]])
        bound = gb.bound("double-chain", slow, step_size=1e-3, num_steps=1000, sampling="markov")
        upper = gb.mixing_time_bounds(slow.mrp, 1e-3).upper
        assert bound.constants["tau_mix (upper bound)"] == upper

    @pytest.mark.slow
    def test_theorems_use_the_upper_bound_and_say_so(self):
        chains = [process_of(0.5 * np.eye(n) + 0.5 / n) for n in (300, 1100)]
        found = []
        for process in chains:
            problem = gb.Problem(process, np.eye(process.num_states)[:, :2])
            bound = gb.bound("double-chain", problem, step_size=1e-3, num_steps=1000, sampling="markov")
            found.append({name for name in bound.constants if name.startswith("tau")})
        assert found == [{"tau_mix"}, {"tau_mix (upper bound)"}]
        upper = gb.mixing_time_bounds(chains[1], 1e-3).upper
        assert bound.constants["tau_mix (upper bound)"] == upper


class TestBounds:
    @pytest.mark.parametrize("seed", range(15))
    @pytest.mark.parametrize("eps", [1.0, 0.1, 1e-6])
    def test_the_truth_lies_between(self, seed, eps, monkeypatch):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 20))
        weights = rng.random((n, n)) ** rng.uniform(0.5, 20.0)
        process = process_of(weights / weights.sum(axis=1, keepdims=True))
        truth = by_stepping(process, eps)
        monkeypatch.setattr(mixing, "EXACT_STATES", 1)
        lower, upper, exact = gb.mixing_time_bounds(process, eps)
        assert 1 <= lower <= truth <= upper
        assert exact == (lower == upper)
        if exact:
            assert gb.mixing_time(process, eps) == truth
        else:
            message = (
                rf"lies between {lower:,} and {upper:,}, and .*: use gb\.mixing_time_bounds, whose upper"
            )
            with pytest.raises(gb.ConvergenceError, match=message):
                gb.mixing_time(process, eps)

    def test_a_chain_that_does_not_contract_in_one_step(self, monkeypatch):
        process = process_of(np.array([[0, 0.5, 0.5], [1.0, 0, 0], [0, 0.5, 0.5]]))
        truth = by_stepping(process, 0.01)
        monkeypatch.setattr(mixing, "EXACT_STATES", 1)
        lower, upper, _ = gb.mixing_time_bounds(process, 0.01)
        assert lower <= truth <= upper <= 4 * truth

    def test_a_chain_that_does_not_contract_soon_enough(self, monkeypatch):
        monkeypatch.setattr(mixing, "EXACT_STATES", 1)
        monkeypatch.setattr(mixing, "LONGEST_BLOCK", 1)
        process = process_of(np.array([[0, 0.5, 0.5], [1.0, 0, 0], [0, 0.5, 0.5]]))
        with pytest.raises(gb.ConvergenceError, match="no contraction in 1 steps, so the mixing time has no"):
            gb.mixing_time(process, 0.01)

    def test_a_large_slow_chain(self):
        n = 20_000
        chain = birth_death(np.full(n - 1, 0.3), np.full(n - 1, 0.3), np.zeros(n))
        lower, upper, _ = gb.mixing_time_bounds(process_of(chain.transitions), 0.01)
        gap = 1.2 * np.sin(np.pi / (2 * n)) ** 2
        assert lower == pytest.approx(np.log(100.0) / gap, rel=1e-6)
        assert upper == pytest.approx((np.log(100.0) + 0.5 * np.log(n - 1)) / gap, rel=1e-6)

    def test_states_that_are_never_seen(self, monkeypatch):
        monkeypatch.setattr(mixing, "EXACT_STATES", 1)
        chain = birth_death(np.full(99, 1e-4), np.full(99, 0.5), np.zeros(100))  # down to 1e-366
        with pytest.raises(
            ValueError, match=r"state \d+ has a stationary probability of 0, .*: leave out states"
        ):
            gb.mixing_time_bounds(process_of(chain.transitions), 0.01)

    def test_a_large_torus_that_is_not_reversible(self):
        shape = (60, 60)
        law = {(1, 0): 0.4, (-1, 0): 0.1, (0, 1): 0.3, (0, -1): 0.1, (0, 0): 0.1}
        process = process_of(groups.torus(shape, law, np.zeros(shape)).transitions)
        lower, upper, _ = gb.mixing_time_bounds(process, 0.01)
        jumps = np.zeros(shape)
        for jump, chance in law.items():
            jumps[jump] += chance
        spectrum = np.fft.fft2(jumps)
        far, near = (np.abs(np.fft.ifft2(spectrum**t).real - 1 / 3600).sum() for t in (2486, 2487))
        assert near <= 0.01 < far
        assert lower == 1
        assert 2487 <= upper <= 2 * 2487

    def test_ill_conditioned_eigenvalues_give_no_lower_bound(self):
        n = 1200
        onward = sparse.csr_array(
            (np.full(n, 0.999), (np.arange(n), np.minimum(np.arange(n) + 1, n - 1))), shape=(n, n)
        )
        restart = sparse.csr_array((np.full(n, 0.001), (np.arange(n), np.zeros(n, dtype=int))), shape=(n, n))
        # After n - 1 steps every start has the stationary law: all eigenvalues but one are 0.
        lower, upper, _ = gb.mixing_time_bounds(process_of(sparse.csr_array(onward + restart)), 1e-20)
        assert lower <= n - 1 <= upper
