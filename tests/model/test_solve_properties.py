"""What must hold for every chain, on chains that hypothesis makes up."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import block_diag, csr_array

import gainbias as gb
from tests.oracles.compare import true_error
from tests.oracles.exact import rational_answer
from tests.oracles.groups import ring
from tests.oracles.small import cycle, two_state

METHODS = st.sampled_from(["auto", "dense-gth", "sparse-gth"])
many_chains = settings(deadline=None, max_examples=100)


@dataclass(frozen=True)
class Chain:
    transitions: np.ndarray
    rewards: np.ndarray

    @property
    def process(self) -> gb.MarkovRewardProcess:
        return gb.MarkovRewardProcess(self.transitions, self.rewards)


@st.composite
def chains(draw: st.DrawFn, smallest_weight: float = 1e-3, max_states: int = 9) -> Chain:
    """Any zero pattern in which every state can reach state 0, which makes one recurrent class."""
    n = draw(st.integers(1, max_states))
    exponents = draw(arrays(np.float64, (n, n), elements=st.floats(np.log10(smallest_weight), 0)))
    links = draw(arrays(np.bool_, (n, n)))
    weights = np.where(links, 10.0**exponents, 0.0)
    # State i has a link to a smaller state, state 0 at least one to anywhere.
    for i in range(1, n):
        weights[i, draw(st.integers(0, i - 1))] += 10.0 ** draw(st.floats(np.log10(smallest_weight), 0))
    weights[0, draw(st.integers(0, n - 1))] += 1.0
    rewards = draw(arrays(np.float64, n, elements=st.integers(-64, 64).map(lambda k: k / 8)))
    return Chain(weights / weights.sum(axis=1, keepdims=True), rewards)


@st.composite
def nearly_decomposable_chains(draw: st.DrawFn) -> Chain:
    """Such chains as blocks, coupled in a ring from state 0 to state 0 and wherever else it happens."""
    blocks = [draw(chains(smallest_weight=1e-1, max_states=4)) for _ in range(draw(st.integers(2, 4)))]
    sizes = [len(block.rewards) for block in blocks]
    n = sum(sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    coupling = 10.0 ** draw(st.floats(-14, -5))
    links = np.where(draw(arrays(np.bool_, (n, n))), coupling, 0.0)
    links[starts, np.roll(starts, -1)] = coupling * draw(st.floats(0.1, 1))
    weights = block_diag([csr_array(block.transitions) for block in blocks]).toarray() + links
    return Chain(
        weights / weights.sum(axis=1, keepdims=True), np.concatenate([block.rewards for block in blocks])
    )


def assert_bellman(solution: gb.Solution, tolerance: float) -> None:
    mrp, law, bias = solution.mrp, solution.stationary, solution.bias
    scale = max(mrp.max_abs_reward, np.ptp(bias))
    assert np.abs(bias + solution.gain - mrp.rewards - mrp.csr @ bias).max() <= tolerance * scale
    assert np.abs(law @ mrp.csr - law).max() <= tolerance
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1, abs=1e-14)
    assert abs(law @ bias) <= tolerance * np.ptp(bias)


@many_chains
@given(chains(), METHODS)
def test_bellman_and_normalisation(chain: Chain, method: str) -> None:
    solution = gb.solve(chain.process, method=method)
    assert solution.error_bound <= 1e-10
    assert solution.residual <= 1e-10
    assert_bellman(solution, 1e-13)


@many_chains
@given(chains(), st.sampled_from(["power", "krylov"]))
def test_bellman_for_iterative_methods_that_converge(chain: Chain, method: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.AccuracyWarning)
            solution = gb.solve(chain.process, method=method, time_limit=2.0)
    except gb.ConvergenceError:
        return
    assert_bellman(solution, max(1e-10, solution.error_bound))


@many_chains
@given(chains(max_states=7), METHODS)
def test_exact_rationals(chain: Chain, method: str) -> None:
    solution = gb.solve(chain.process, method=method)
    exact = rational_answer(chain.transitions, chain.rewards)
    np.testing.assert_allclose(solution.stationary, exact.stationary, rtol=1e-13, atol=0)
    assert true_error(solution, exact) <= max(solution.error_bound, 5e-15)


@many_chains
@given(chains(smallest_weight=1e-16, max_states=6), METHODS)
def test_exact_rationals_on_extreme_chains(chain: Chain, method: str) -> None:
    solution = gb.solve(chain.process, method=method)
    exact = rational_answer(chain.transitions, chain.rewards)
    np.testing.assert_allclose(solution.stationary, exact.stationary, rtol=1e-13, atol=0)
    assert true_error(solution, exact) <= max(solution.error_bound, 5e-15)


@many_chains
@given(
    nearly_decomposable_chains(), st.sampled_from(["auto", "sparse-gth", "aggregation", "krylov", "power"])
)
def test_nearly_decomposable_chains_are_right_or_refused(chain: Chain, method: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.AccuracyWarning)
            solution = gb.solve(chain.process, method=method, time_limit=2.0)
    except gb.ConvergenceError:
        assert method not in ("auto", "sparse-gth")
        return
    assert solution.error_bound <= 1e-10 or method not in ("auto", "sparse-gth")
    exact = rational_answer(chain.transitions, chain.rewards)
    assert true_error(solution, exact) <= max(solution.error_bound, 5e-15)


@many_chains
@given(chains(), METHODS, st.randoms(use_true_random=False))
def test_permuting_the_states_permutes_the_answer(chain: Chain, method: str, random: object) -> None:
    order = np.array(random.sample(range(len(chain.rewards)), len(chain.rewards)))  # type: ignore[attr-defined]
    shuffled = Chain(chain.transitions[np.ix_(order, order)], chain.rewards[order])
    before, after = gb.solve(chain.process, method=method), gb.solve(shuffled.process, method=method)
    np.testing.assert_allclose(after.stationary, before.stationary[order], rtol=1e-12, atol=0)
    assert_same(after, before.gain, before.bias[order])


@many_chains
@given(chains(), METHODS, st.integers(-1000, 1000), st.sampled_from([-3.0, 1e-6, 0.5, 1e6]))
def test_shifting_and_scaling_the_rewards(chain: Chain, method: str, shift: int, factor: float) -> None:
    before = gb.solve(chain.process, method=method)
    shifted = gb.solve(Chain(chain.transitions, chain.rewards + shift).process, method=method)
    assert shifted.gain == pytest.approx(before.gain + shift, rel=1e-13, abs=1e-13)
    np.testing.assert_allclose(shifted.bias, before.bias, rtol=0, atol=1e-10 * (1 + np.ptp(before.bias)))
    scaled = gb.solve(Chain(chain.transitions, factor * chain.rewards).process, method=method)
    assert_same(scaled, factor * before.gain, factor * before.bias)


@many_chains
@given(chains(), METHODS, st.data())
def test_duplicated_states_lump(chain: Chain, method: str, data: st.DataObject) -> None:
    n = len(chain.rewards)
    copied = data.draw(st.integers(0, n - 1))
    share = data.draw(arrays(np.float64, n + 1, elements=st.floats(0, 1)))
    rows = np.append(np.arange(n), copied)
    transitions = chain.transitions[rows][:, rows]
    transitions[:, copied] *= share
    transitions[:, n] *= 1 - share
    before = gb.solve(chain.process, method=method)
    after = gb.solve(Chain(transitions, chain.rewards[rows]).process, method=method)
    assert_same(after, before.gain, before.bias[rows])
    lumped = after.stationary[:n].copy()
    lumped[copied] += after.stationary[n]
    np.testing.assert_allclose(lumped, before.stationary, rtol=1e-12, atol=0)


@many_chains
@given(chains(), METHODS, chains())
def test_transient_states_change_nothing(chain: Chain, method: str, tail: Chain) -> None:
    n, m = len(chain.rewards), len(tail.rewards)
    transitions = np.zeros((n + m, n + m))
    transitions[:n, :n] = chain.transitions
    transitions[n:, n:] = tail.transitions / 2
    transitions[n:, 0] = 0.5
    before = gb.solve(chain.process, method=method)
    after = gb.solve(Chain(transitions, np.append(chain.rewards, tail.rewards)).process, method=method)
    assert np.all(after.stationary[n:] == 0)
    np.testing.assert_allclose(after.stationary[:n], before.stationary, rtol=1e-12, atol=0)
    assert after.gain == pytest.approx(before.gain, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(after.bias[:n], before.bias, rtol=0, atol=1e-10 * (1 + np.ptp(before.bias)))
    assert_bellman(after, 1e-12)


@many_chains
@given(chains(), METHODS)
def test_extra_rewards_cost_no_accuracy(chain: Chain, method: str) -> None:
    other = np.cos(np.arange(len(chain.rewards)))
    together = gb.solve(chain.process, method=method, extra_rewards={"cosine": other})
    alone = gb.solve(Chain(chain.transitions, other).process, method=method)
    assert_same(together.extra["cosine"], alone.gain, alone.bias)
    assert together.extra["cosine"].asymptotic_variance == pytest.approx(alone.asymptotic_variance, abs=1e-12)


def assert_same(solution: gb.Solution, gain: float, bias: np.ndarray) -> None:
    scale = solution.mrp.max_abs_reward
    assert solution.gain == pytest.approx(gain, rel=1e-12, abs=1e-13 * scale)
    np.testing.assert_allclose(solution.bias, bias, rtol=0, atol=1e-10 * (np.ptp(bias) + 1e-3 * scale))


def test_several_recurrent_classes() -> None:
    parts = [two_state(0.25, 0.5, (1.0, 3.0)), ring(5, 0.5, 0.25, np.arange(5.0)), cycle([4.0, -2.0, 1.0])]
    n = sum(part.num_states for part in parts)
    to_first, to_second = 0.25, 0.125
    chain = csr_array(
        block_diag([csr_array(part.transitions) for part in parts] + [csr_array((1, 1))])
    ).tolil()
    chain[n, 0], chain[n, 2], chain[n, n] = to_first, to_second, 1 - to_first - to_second
    rewards = np.concatenate([*(part.rewards for part in parts), [7.0]])
    solution = gb.solve(gb.MarkovRewardProcess(chain.tocsr(), rewards), multichain=True)

    gains = np.concatenate([np.full(part.num_states, part.gain) for part in parts])
    biases = np.concatenate([part.bias for part in parts])
    leaving = to_first + to_second
    gain = (to_first * gains[0] + to_second * gains[2]) / leaving
    bias = (7.0 - gain + to_first * biases[0] + to_second * biases[2]) / leaving
    np.testing.assert_allclose(solution.gain, np.append(gains, gain), rtol=1e-12)
    np.testing.assert_allclose(solution.bias, np.append(biases, bias), rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.class_gains, [part.gain for part in parts], rtol=1e-12)
    assert [list(states) for states in solution.structure.recurrent] == [[0, 1], [2, 3, 4, 5, 6], [7, 8, 9]]
    laws = block_diag(
        [*(csr_array(part.stationary[np.newaxis]) for part in parts), csr_array((0, 1))]
    ).toarray()
    np.testing.assert_allclose(solution.stationary.toarray(), laws, rtol=1e-12)
