"""Boyan's chain: its own values, and gain and bias by the mean length of an episode."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.chains.classic import boyan_features, boyan_table


def steps_to_the_end(size):
    """Mean number of steps from each state to state 0."""
    steps = [0.0, 1.0]
    for _ in range(2, size):
        steps.append(1.0 + (steps[-1] + steps[-2]) / 2.0)
    return np.array(steps)


@pytest.mark.parametrize("size", [5, 13, 101])
def test_gain_and_bias_in_closed_form(size):
    solution = gb.task("boyan-chain", num_states=size).problem.solution
    steps = steps_to_the_end(size)
    gain = -2.0 * (size - 1) / (steps[-1] + 1.0)
    assert solution.gain == pytest.approx(gain, rel=1e-12)
    bias = -2.0 * np.arange(size) - gain * steps
    bias -= solution.stationary @ bias
    np.testing.assert_allclose(solution.bias, bias, atol=1e-9)


def test_features_express_the_values_of_the_episode():
    """The source: weights -24, -16, -8, 0 are the solution of the chain of 13 states."""
    features = boyan_features(13)
    np.testing.assert_allclose(features @ [-24.0, -16.0, -8.0, 0.0], -2.0 * np.arange(13), atol=1e-12)
    np.testing.assert_array_equal(features[11], [0.75, 0.25, 0.0, 0.0])
    table = boyan_table(13)
    values = -2.0 * np.arange(13)
    ahead = table.rewards + np.where(table.ended, 0.0, values[table.successors])
    means = np.bincount(table.states, weights=table.probabilities * ahead)
    np.testing.assert_allclose(means, values)


def test_the_task_has_these_features():
    problem = gb.task("boyan-chain").problem
    np.testing.assert_array_equal(problem.features.matrix, boyan_features(13))
    assert problem.ones_in_span
    assert np.abs(problem.values - problem.solution.bias).max() > 0.01


@pytest.mark.parametrize("size", [14, 1, 13.0, "13"])
def test_wrong_settings(size):
    with pytest.raises(ValueError, match="num_states must be"):
        gb.task("boyan-chain", num_states=size)
