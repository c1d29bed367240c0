"""Smoothing: the paper's example, what it must keep, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st

import gainbias as gb


def ring(size, **options):
    chain = sparse.csr_array(np.roll(np.eye(size), 1, axis=1))
    return gb.MarkovRewardProcess(chain, np.arange(size, dtype=float), **options)


def test_the_example_of_the_paper():
    chain = np.zeros((5, 5))
    chain[:, 2] = 1.0
    smooth = gb.ergodic(gb.MarkovRewardProcess(chain, np.zeros(5)), 0.1)
    assert smooth.transitions[0].tolist() == [0.025, 0.025, 0.9, 0.025, 0.025]


@given(st.integers(1, 8), st.floats(0.0, 0.99), st.integers(0, 10**6))
def test_rows(size, epsilon, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random((size, size)) * (rng.random((size, size)) < 0.6) + np.eye(size) * 1e-3
    process = gb.MarkovRewardProcess(weights / weights.sum(axis=1, keepdims=True), rng.random(size))
    before, after = process.transitions, gb.ergodic(process, epsilon).transitions
    np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-14)
    for old, new in zip(before, after, strict=True):
        if (old > 0.0).all():
            np.testing.assert_array_equal(new, old)
        else:
            np.testing.assert_allclose(new[old == 0.0], epsilon / (old == 0.0).sum(), rtol=1e-13)
            np.testing.assert_allclose(new[old > 0.0], (1.0 - epsilon) * old[old > 0.0], rtol=1e-13)


def test_the_result_is_ergodic_and_keeps_expected_rewards_and_labels():
    process = gb.MarkovRewardProcess([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.diag([1.0, 2.0, 3.0]), list("abc"))
    assert not process.is_ergodic
    smooth = gb.ergodic(process, 0.3)
    assert smooth.is_ergodic
    assert smooth.transition_rewards is None
    np.testing.assert_array_equal(smooth.rewards, process.rewards)
    assert smooth.labels == ("a", "b", "c")


def test_epsilon_0_changes_nothing():
    process = ring(3)
    assert gb.ergodic(process, 0.0) is process


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, float("nan")])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match="epsilon must be at least 0 and below 1, found"):
        gb.ergodic(ring(3), epsilon)


def test_small_sparse_processes_are_filled_and_large_ones_refused():
    assert isinstance(gb.ergodic(ring(4), 0.1).transitions, np.ndarray)
    size = 100_000
    chain = sparse.csr_array((np.ones(size), (np.arange(size), (np.arange(size) + 1) % size)))
    large = gb.MarkovRewardProcess(chain, np.zeros(size))
    with pytest.raises(ValueError, match=r"all 100000 x 100000 transitions.*add them yourself"):
        gb.ergodic(large, 0.1)


def test_processes_from_rates_are_refused():
    queue = gb.MarkovRewardProcess.from_rates([[-1.0, 1.0], [3.0, -3.0]], [0.0, 2.0])
    with pytest.raises(ValueError, match="comes from rates"):
        gb.ergodic(queue, 0.1)
