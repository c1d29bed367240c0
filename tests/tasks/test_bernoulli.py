"""The paper's features: their columns, their scales, and when there are none."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.chains.random_chains import random_process

SOLUTION = gb.solve(random_process(12, np.random.default_rng(3)))


def test_columns_are_random_bits_ones_and_the_bias():
    features = gb.bernoulli_features(SOLUTION, 6, rng=0)
    scale = features[0, -2]
    columns = features / scale
    assert set(np.unique(columns[:, :-2])) == {0.0, 1.0}
    np.testing.assert_array_equal(columns[:, -2], 1.0)
    np.testing.assert_allclose(columns[:, -1], SOLUTION.bias, rtol=1e-14)
    assert np.linalg.norm(features, axis=1).max() == pytest.approx(1.0, abs=1e-15)


def test_the_literal_scale_keeps_ones_and_bias_in_the_span():
    problem = gb.Problem(SOLUTION.mrp, gb.bernoulli_features(SOLUTION, 6, rng=0))
    assert problem.ones_in_span
    np.testing.assert_allclose(problem.values, SOLUTION.bias, atol=1e-12)


def test_rows_of_length_1_take_them_out_of_the_span():
    features = gb.bernoulli_features(SOLUTION, 6, normalisation="per-row", rng=0)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-15)
    problem = gb.Problem(SOLUTION.mrp, features)
    assert not problem.ones_in_span
    assert np.abs(problem.values - SOLUTION.bias).max() > 1e-3


def test_bits_are_fair_and_follow_the_seed():
    large = gb.solve(random_process(200, np.random.default_rng(0)))
    bits = gb.bernoulli_features(large, 102, rng=1)[:, :100] > 0.0
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(bits.size)
    same = gb.bernoulli_features(large, 102, rng=np.random.default_rng(1))[:, :100] > 0.0
    np.testing.assert_array_equal(bits, same)
    assert (bits != (gb.bernoulli_features(large, 102, rng=2)[:, :100] > 0.0)).any()


def test_dependent_columns_are_drawn_again():
    # Four bits in two columns beside the ones: most draws are dependent, a few are not.
    solution = gb.solve(random_process(4, np.random.default_rng(0)))
    for seed in range(20):
        features = gb.bernoulli_features(solution, 4, rng=seed)
        assert np.linalg.matrix_rank(features) == 4


def test_giving_up(monkeypatch):
    monkeypatch.setattr("gainbias.tasks.paper._is_independent", lambda columns: False)
    with pytest.raises(ValueError, match="100 draws gave no 6 linearly independent columns for 12 states"):
        gb.bernoulli_features(SOLUTION, 6, rng=0)


@pytest.mark.parametrize("num_features", [1, 13, 2.5])
def test_the_number_of_features_is_checked(num_features):
    with pytest.raises(ValueError, match=r"between 2, .* and 12, the number of states, found"):
        gb.bernoulli_features(SOLUTION, num_features)


def test_equal_rewards_have_no_bias_to_be_a_feature():
    solution = gb.solve(gb.MarkovRewardProcess(SOLUTION.mrp.transitions, np.full(12, 0.3)))
    with pytest.raises(ValueError, match="the bias is 0 because every state has the same reward"):
        gb.bernoulli_features(solution, 3)


def test_the_normalisation_is_named():
    with pytest.raises(ValueError, match="must be 'literal' or 'per-row', found 'row'"):
        gb.bernoulli_features(SOLUTION, 3, normalisation="row")
