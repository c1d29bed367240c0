"""Discounted values and values over a horizon: against rational numbers, and with the bias as their limit."""

import math

import flint
import numpy as np
import pytest
import scipy.sparse as sparse
from flint import arb, arb_mat, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

import gainbias as gb
from gainbias.model.chain import horizon
from gainbias.model.chain.long_run import long_run
from gainbias.model.solve import leaking
from tests.oracles.exact import (
    as_float,
    assert_within,
    exact_answer,
    exact_chain,
    exact_discounted,
    exact_horizon,
    fraction,
    identity_minus,
    solve_exactly,
)

DISCOUNTS = (0.0, 1e-3, 0.3, 0.5, 0.9, 0.999, 1 - 1e-8, 1 - 1e-14, 1 - 2.0**-53)


def random_process(seed, size=6, decades=0.0, staying=True, transient=0):
    """Return a random process with one recurrent class; the first states may be transient."""
    rng = np.random.default_rng(seed)
    rows = 10.0 ** (-decades * rng.random((size, size))) * (rng.random((size, size)) < 0.6)
    rows[np.arange(size), (np.arange(size) + 1) % size] += 10.0 ** (-decades * rng.random(size))
    rows[-1, transient] += 1.0
    rows[transient:, :transient] = 0.0
    if staying:
        np.fill_diagonal(rows, 0.0)
        rows /= 1.3 * rows.sum(axis=1).max()
        np.fill_diagonal(rows, 1.0 - rows.sum(axis=1))
    return gb.MarkovRewardProcess(rows, rng.normal(size=size), renormalise=True)


def periodic_process(up=0.25, size=6):
    """A walk on a cycle that moves by one each step, up or down: period 2."""
    rows = up * np.roll(np.eye(size), 1, axis=1) + (1.0 - up) * np.roll(np.eye(size), -1, axis=1)
    return gb.MarkovRewardProcess(rows, [1.0, 0.0, 2.0, 0.5, 7.0, -1.0])


def several_classes():
    """Three transient states, a class of two that blinks, a class of three, and one that stays."""
    rows = np.zeros((9, 9))
    rows[:3] = np.random.default_rng(5).random((3, 9))
    rows[3, 4] = rows[4, 3] = rows[8, 8] = 1.0
    rows[5:8, 5:8] = np.random.default_rng(6).random((3, 3))
    return gb.MarkovRewardProcess(rows, np.random.default_rng(7).normal(size=9), renormalise=True)


ZOO = {
    "random": random_process(0),
    "without staying": random_process(1, staying=False),
    "8 decades": random_process(2, decades=8.0),
    "20 decades": random_process(3, decades=20.0),
    "transient states": random_process(4, transient=2),
    "periodic": periodic_process(),
    # What 0.3 and 0.7 leave to 1, in doubles, is the probability of staying: 6e-17.
    "nearly periodic": periodic_process(0.3),
    "blinking": gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0]),
    "several classes": several_classes(),
    "one state": gb.MarkovRewardProcess([[1.0]], [3.0]),
    "very large level": gb.MarkovRewardProcess(
        np.full((3, 3), 0.25) + np.eye(3) / 4, [2e15 + 1, 2e15, 2e15 - 2]
    ),
    "large level": gb.MarkovRewardProcess(np.full((3, 3), 1 / 3), [1e9 + 1, 1e9, 1e9 - 2]),
}


def per_state(mrp, values):
    return np.broadcast_to(values, mrp.num_states)


def exact_rewards_scale(mrp):
    return float(np.abs(mrp.rewards).max())


@st.composite
def small_processes(draw):
    size = draw(st.integers(1, 4))
    weights = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))
    rows = np.array(draw(st.lists(weights, min_size=size**2, max_size=size**2))).reshape(size, size)
    rows[np.arange(size), draw(st.permutations(range(size)))] += 0.1
    rewards = draw(st.lists(st.floats(-1e3, 1e3), min_size=size, max_size=size))
    return gb.MarkovRewardProcess(rows, rewards, renormalise=True)


def assert_split_is_exact(mrp, found, level, remainder, span=0.0):
    assert_within(per_state(mrp, found.level), per_state(mrp, found.level_error), level)
    assert_within(found.remainder, found.remainder_error, remainder, max(span, float(np.ptp(mrp.rewards))))
    assert found.values == pytest.approx(found.level + found.remainder, rel=1e-15)


class TestDiscounted:
    @pytest.mark.parametrize("discount", DISCOUNTS)
    @pytest.mark.parametrize("name", ZOO)
    def test_against_rational_numbers(self, name, discount):
        mrp = ZOO[name]
        found = gb.discounted_values(mrp, discount)
        assert_split_is_exact(mrp, found, *exact_discounted(mrp, fraction(discount)))
        assert isinstance(found.level, float) == mrp.is_unichain

    @settings(max_examples=30, deadline=None)
    @given(st.data())
    def test_any_small_chain(self, data):
        mrp = data.draw(small_processes())
        discount = data.draw(st.one_of(st.floats(0.0, 1.0, exclude_max=True), st.sampled_from(DISCOUNTS)))
        level, remainder = exact_discounted(mrp, fraction(discount))
        found = gb.discounted_values(mrp, discount)
        assert_within(found.remainder, found.remainder_error, remainder, exact_rewards_scale(mrp))
        assert_within(
            per_state(mrp, found.level),
            per_state(mrp, found.level_error),
            level,
            exact_rewards_scale(mrp) / (1.0 - discount),
        )

    @pytest.mark.kernels
    @pytest.mark.parametrize("name", ["random", "without staying", "transient states", "periodic"])
    def test_the_remainder_tends_to_the_bias(self, name):
        mrp = ZOO[name]
        limit = np.array([as_float(w) for w in exact_answer(mrp).bias])
        off = [np.abs(gb.discounted_values(mrp, 1.0 - 10.0**-k).remainder - limit).max() for k in (2, 4, 6)]
        assert off[1] < 0.05 * off[0]
        assert off[2] < 0.05 * off[1]

    @pytest.mark.parametrize("discount", [1e-3, 0.5, 0.9, 1 - 1e-14])
    def test_continuous_time(self, discount):
        rates = 3.7 * 10.0 ** (-8 * np.random.default_rng(1).random((5, 5)))
        np.fill_diagonal(rates, 0.0)
        mrp = gb.MarkovRewardProcess.from_rates(
            rates - np.diag(rates.sum(axis=1)), [1.0, 0.0, 2.0, 5.0, -1.0]
        )
        decay = exact_decay(discount) / fraction(mrp.rate)
        gain = exact_answer(mrp).gain
        system = identity_minus(exact_chain(mrp), range(5))
        for i in range(5):
            system[i][i] += decay
        excess = [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)]
        (remainder,) = solve_exactly(system, excess)
        found = gb.discounted_values(mrp, discount)
        assert_within(found.remainder, found.remainder_error, remainder)
        assert_within(
            per_state(mrp, found.level), per_state(mrp, found.level_error), [g / decay for g in gain]
        )

    def test_an_exponential_clock(self):
        """A reward of 1 per unit of time until a jump at rate 2, with a weight of exp(-3 t): 1 / (2 + 3)."""
        mrp = gb.MarkovRewardProcess.from_rates([[-2.0, 2.0], [0.0, 0.0]], [1.0, 0.0])
        assert gb.discounted_values(mrp, math.exp(-3.0)).values == pytest.approx([0.2, 0.0], rel=1e-14)

    def test_rewards_of_transitions(self):
        rewards = np.random.default_rng(0).normal(size=(4, 4))
        mrp = gb.MarkovRewardProcess(np.random.default_rng(1).random((4, 4)), rewards, renormalise=True)
        plain = np.linalg.solve(np.eye(4) - 0.9 * mrp.transitions, (mrp.transitions * rewards).sum(axis=1))
        found = gb.discounted_values(mrp, 0.9)
        assert found.values == pytest.approx(plain, rel=1e-13)
        assert 0.0 < found.remainder_error.max() < 1e-14

    @pytest.mark.parametrize("discount", [0.9, 1 - 1e-14])
    def test_a_method_that_iterates_has_bounds_that_hold(self, monkeypatch, discount):
        rng = np.random.default_rng(0)
        places = np.repeat(np.arange(600), 5), rng.integers(0, 600, 3_000)
        rows = sparse.csr_array((rng.random(3_000), places), shape=(600, 600))
        mrp = gb.MarkovRewardProcess(rows, rng.normal(size=600), renormalise=True)
        direct = gb.discounted_values(mrp, discount)
        monkeypatch.setattr(leaking, "available_memory", lambda: 1.0)
        found = gb.discounted_values(mrp, discount)
        assert (direct.method, found.method) == ("sparse-gth", "krylov")
        off = np.abs(found.remainder - direct.remainder)
        assert np.all(off <= found.remainder_error + direct.remainder_error)
        assert found.remainder_error.max() < 1e-14

    def test_a_large_sparse_chain(self):
        size = 3_000
        up, down = np.full(size - 1, 0.3), np.full(size - 1, 0.5)
        stay = 1.0 - np.append(up, 0.0) - np.append(0.0, down)
        rows = sparse.diags_array([up, stay, down], offsets=[1, 0, -1])
        mrp = gb.MarkovRewardProcess(rows.tocsr(), np.arange(size) / size)
        found = gb.discounted_values(mrp, 1 - 1e-10)
        bias = gb.solve(mrp).bias
        assert np.abs(found.remainder - bias).max() < 1e-5 * np.ptp(bias)
        assert found.remainder_error.max() < 1e-13 * np.ptp(bias)

    @pytest.mark.parametrize(
        ("discount", "message"),
        [
            (1, "discount must be below 1: undiscounted sums grow without limit; gb.solve gives"),
            (1.5, "discount must be a number from 0 to below 1, found 1.5"),
            (-0.1, "found -0.1"),
            (math.nan, "found nan"),
            (True, "found True"),
            ("0.9", "found '0.9'"),
            (None, "found None"),
        ],
    )
    def test_wrong_discounts_are_refused_in_words(self, discount, message):
        with pytest.raises(ValueError, match=message):
            gb.discounted_values(ZOO["random"], discount)

    def test_continuous_time_has_no_discount_0(self):
        mrp = gb.MarkovRewardProcess.from_rates([[-2.0, 2.0], [1.0, -1.0]], [1.0, 0.0])
        with pytest.raises(
            ValueError, match="discount is 0: in continuous time it is the weight of a reward"
        ):
            gb.discounted_values(mrp, 0.0)

    def test_something_else_than_a_process(self):
        with pytest.raises(ValueError, match="discounted_values takes a MarkovRewardProcess, not list"):
            gb.discounted_values([[1.0]], 0.5)


def exact_decay(discount):
    """Return minus the logarithm of a double as a fraction, right to 80 digits."""
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        mantissa, exponent = (-arb(discount).log()).mid().man_exp()
    finally:
        flint.ctx.prec = before
    return fmpq(int(mantissa)) * fmpq(2) ** int(exponent)


def precise_horizon(mrp, steps):
    """Return level and remainder over any number of steps, in 2000-bit arithmetic."""
    exact = exact_answer(mrp)
    gain, bias = exact.gain, exact.bias
    n = mrp.num_states
    before, flint.ctx.prec = flint.ctx.prec, 2000
    try:
        power = arb_mat(n, n, [arb(p) for row in exact_chain(mrp) for p in row])
        vector = arb_mat(n, 1, [arb(w) for w in bias])
        for bit in range(steps.bit_length()):
            if steps >> bit & 1:
                vector = power * vector
            power = power * power
        parts = [vector[i, 0].mid().man_exp() for i in range(n)]
    finally:
        flint.ctx.prec = before
    moved = [fmpq(int(m)) * fmpq(2) ** int(e) for m, e in parts]
    return [steps * g for g in gain], [w - m for w, m in zip(bias, moved, strict=True)]


class TestFiniteHorizon:
    @pytest.mark.kernels
    @pytest.mark.parametrize("steps", [0, 1, 2, 7])
    @pytest.mark.parametrize("name", ZOO)
    def test_a_few_steps_against_rational_numbers(self, name, steps):
        mrp = ZOO[name]
        found = gb.finite_horizon_values(mrp, steps)
        assert_split_is_exact(mrp, found, *exact_horizon(mrp, steps))
        assert found.method == "products"
        if steps == 0:
            assert not found.values.any()
            assert not found.remainder_error.any()

    @pytest.mark.parametrize("steps", [100, 10**6 + 1, 10**12, 10**12 + 1, 2**53])
    @pytest.mark.parametrize("name", [name for name, mrp in ZOO.items() if mrp.is_unichain])
    def test_many_steps_against_2000_bits(self, name, steps):
        mrp = ZOO[name]
        level, remainder = precise_horizon(mrp, steps)
        found = gb.finite_horizon_values(mrp, steps)
        span = float(np.ptp(long_run(mrp).bias.high))
        assert_split_is_exact(mrp, found, level, remainder, span)

    def test_a_chain_that_forgets_is_stepped_no_further(self):
        found = gb.finite_horizon_values(ZOO["random"], 10**12)
        assert found.method == "products"
        assert "nothing changes but with the period, which is 1" in found.notes[-1]
        assert found.remainder == pytest.approx(gb.solve(ZOO["random"]).bias, rel=1e-12)

    def test_a_periodic_chain_repeats(self):
        mrp = periodic_process()
        even, odd = (gb.finite_horizon_values(mrp, 10**12 + k) for k in (0, 1))
        assert np.abs(even.remainder - odd.remainder).max() > 0.1
        assert "which is 2" in even.notes[-1]

    @pytest.mark.kernels
    def test_a_slow_chain_is_squared(self, monkeypatch):
        monkeypatch.setattr(horizon, "QUICK", 1e3)
        rows = np.array([[1 - 1e-9, 1e-9], [2e-9, 1 - 2e-9]])
        mrp = gb.MarkovRewardProcess(rows, [1.0, -1.0])
        found = gb.finite_horizon_values(mrp, 10**9)
        assert found.method == "squares"
        assert_split_is_exact(mrp, found, *precise_horizon(mrp, 10**9))

    def test_a_large_slow_chain_is_refused(self, monkeypatch):
        monkeypatch.setattr(horizon, "MOST_WORK", 1e5)
        size = 200
        rows = np.diag(np.full(size - 1, 0.5), 1) + np.diag(np.full(size - 1, 0.5), -1)
        rows[0, 0] = rows[-1, -1] = 0.5
        with pytest.raises(
            gb.ConvergenceError, match="the chain of 200 states still remembers its start after"
        ):
            gb.finite_horizon_values(gb.MarkovRewardProcess(rows, np.arange(size)), 10**9)

    def test_several_classes_over_many_steps(self):
        mrp = several_classes()
        found = gb.finite_horizon_values(mrp, 10**6)
        solution = gb.solve(mrp, multichain=True)
        assert found.level == pytest.approx(1e6 * solution.gain, rel=1e-14)
        assert found.remainder[5:] == pytest.approx(solution.bias[5:], abs=1e-13)

    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def test_any_small_chain(self, data):
        mrp = data.draw(small_processes())
        steps = data.draw(st.integers(0, 8))
        level, remainder = exact_horizon(mrp, steps)
        found = gb.finite_horizon_values(mrp, steps)
        assert_within(found.remainder, found.remainder_error, remainder, exact_rewards_scale(mrp))
        scale = steps * exact_rewards_scale(mrp)
        assert_within(per_state(mrp, found.level), per_state(mrp, found.level_error), level, scale)

    @pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int8])
    def test_numbers_of_numpy_are_numbers_of_steps(self, kind):
        chain = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [100.0, 0.0])
        expected = gb.finite_horizon_values(chain, 101)
        found = gb.finite_horizon_values(chain, kind(101))
        assert found.values.tolist() == expected.values.tolist() == [5100.0, 5000.0]
        assert type(found.steps) is int

    @pytest.mark.parametrize(
        ("steps", "message"),
        [
            (-1, "steps must be from 0 to 2\\*\\*53, found -1"),
            (2**53 + 1, "steps must be from 0 to 2\\*\\*53"),
            (1.0, "steps must be a whole number, found 1.0"),
            (math.nan, "steps must be a whole number, found nan"),
            (True, "steps must be a whole number, found True"),
            (None, "steps must be a whole number, found None"),
        ],
    )
    def test_wrong_numbers_of_steps_are_refused_in_words(self, steps, message):
        with pytest.raises(ValueError, match=message):
            gb.finite_horizon_values(ZOO["random"], steps)

    def test_continuous_time_is_refused(self):
        mrp = gb.MarkovRewardProcess.from_rates([[-2.0, 2.0], [1.0, -1.0]], [1.0, 0.0])
        with pytest.raises(ValueError, match="a step of a process made by from_rates has no fixed length"):
            gb.finite_horizon_values(mrp, 3)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_states_whose_remainder_is_0_hide_no_other(discount: float) -> None:
    """A cycle and two states that lead to it; rewards of some states are the gain."""
    chain = np.zeros((5, 5))
    chain[[0, 1, 2, 3, 4], [2, 4, 3, 0, 2]] = 1.0
    mrp = gb.MarkovRewardProcess(chain, [3.0, 1.0, -5.0, 5.0, 1.0])
    found = gb.discounted_values(mrp, discount)
    _, remainder = exact_discounted(mrp, fraction(discount))
    assert_within(found.remainder, found.remainder_error, remainder)


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0 - 2.0**-20])
@pytest.mark.parametrize("seed", range(4))
def test_chains_over_many_decades(seed: int, discount: float) -> None:
    """The gain is known by elimination, where a residual with twice the digits says nothing about it."""
    rng = np.random.default_rng(seed)
    up, down = 10.0 ** -rng.uniform(0, 60, (2, 7)) / 2
    chain = np.diag(up, 1) + np.diag(down, -1)
    mrp = gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), rng.standard_normal(8))
    found = gb.discounted_values(mrp, discount)
    level, remainder = exact_discounted(mrp, fraction(discount))
    assert abs(fraction(found.level) - level[0]) <= fraction(found.level_error)
    assert_within(found.remainder, found.remainder_error, remainder, scale=1e3 / (1.0 - discount))
