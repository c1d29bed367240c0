"""Tabular TD with a running mean as gain, against the rule as it is written, and where it converges to."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.algorithm import NoParams

from ..engine import problems
from .twins import first_weights, path

STEPS = 300
SIZES = gb.Polynomial(1, 2, 0.9)


def twin(problem: gb.Problem, values: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Values and gain after each step."""
    values, gain, kept = values.copy(), 0.0, []
    for t, (here, after, reward) in enumerate(path(problem, STEPS, seed), 1):
        s, after_s = int(here.argmax()), int(after.argmax())
        values[s] += (t + 1) ** -0.9 * (reward - gain + values[after_s] - values[s])
        gain += (reward - gain) / t
        kept.append((values.copy(), gain))
    return np.array([each for each, _ in kept]), np.array([each for _, each in kept])


@pytest.mark.kernels
def test_it_is_the_rule_as_written_for_every_lane() -> None:
    problem = problems.tabular()
    first = first_weights(problem)
    trace = gb.run(
        "almost-sure-td",
        problem,
        STEPS,
        [SIZES, 0.3, 0.2, 0.1],
        seeds=range(2),
        initial_weights=first,
        checkpoints=range(1, STEPS + 1),
    )
    for lane, seed in ((0, 0), (4, 1)):
        values, gain = twin(problem, first, seed)
        np.testing.assert_allclose(trace.weights[lane], values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(trace.gain[lane], gain, rtol=0, atol=1e-13)
    assert np.abs(trace.weights[0, -1] - trace.weights[1, -1]).max() > 0.01


@pytest.mark.kernels
def test_its_gain_is_the_mean_of_the_rewards() -> None:
    problem = problems.tabular()
    trace = gb.run("almost-sure-td", problem, STEPS, SIZES, checkpoints=range(1, STEPS + 1))
    rewards = np.cumsum([reward for *_, reward in path(problem, STEPS)])
    np.testing.assert_allclose(trace.gain[0], rewards / np.arange(1, STEPS + 1), rtol=0, atol=1e-13)


def test_it_converges_to_the_bias_up_to_a_constant_that_depends_on_chance() -> None:
    problem = problems.tabular()
    trace = gb.run(
        "almost-sure-td",
        problem,
        1_000_000,
        gb.Polynomial(1, 2, 0.81),
        seeds=range(10),
        checkpoints=[1000, 10**6],
    )
    errors = trace.errors("quotient", target="own")
    assert errors[:, 1].max() < 0.1
    assert errors[:, 1].max() < errors[:, 0].min()
    assert trace.weights[:, -1].mean(axis=1).std() > 0.1
    with pytest.raises(ValueError, match="up to a constant only"):
        trace.errors("full", target="own")
    limit = gb.ALGORITHMS["almost-sure-td"].declared.limit(
        problem, NoParams(), np.zeros(problem.num_features)
    )
    field = gb.ALGORITHMS["almost-sure-td"].declared.mean_field(problem, NoParams())
    np.testing.assert_allclose(field.matrix @ limit, field.vector, atol=1e-14)


def test_other_features_are_refused() -> None:
    with pytest.raises(ValueError, match="almost-sure-td exists for tabular features only, found dense ones"):
        gb.run("almost-sure-td", problems.dense(), 10, SIZES)
