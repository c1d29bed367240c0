"""Variance-reduced TD against the rule as it is written, epoch by epoch, and where it converges to."""

import math
from typing import Any

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.algorithm import Move, Setting
from gainbias.algorithms.td_lambda import Params as TdParams
from gainbias.algorithms.vrtd import Params, init, step
from gainbias.engine.paths import Sampler
from gainbias.features.rows import rows_of

from ..engine import problems
from .twins import first_weights, path, without

STEPS = 400
SHORT = Params(inner_steps=7, first_batch=5, batch_growth=1.5, skip=1)
SETTINGS = [SHORT, SHORT._replace(skip=3), SHORT._replace(inner_steps=1, first_batch=1, batch_growth=1)]
SIZES = gb.Harmonic(2, 5)


def twin(problem: gb.Problem, params: Params, theta: np.ndarray) -> np.ndarray:
    """The answers after each step, with the gain in both terms of an inner step."""
    sizes = SIZES.values(0, STEPS)
    used = [(t, *move) for t, move in enumerate(path(problem, STEPS)) if t % params.skip == params.skip - 1]
    answers, batch = np.tile(theta, (STEPS + 1, 1)), params.first_batch

    def sampled(weights: np.ndarray, gain: float, here: Any, after: Any, reward: float) -> np.ndarray:
        return ((here - after) @ weights - reward + gain) * here

    while len(used) >= math.ceil(batch) + params.inner_steps:
        read, used = used[: math.ceil(batch)], used[math.ceil(batch) :]
        gain = np.mean([reward for *_, reward in read])
        slope = np.mean([sampled(theta, gain, *move) for _, *move in read], axis=0)
        iterates = [theta]
        for t, *move in used[: params.inner_steps]:
            change = sampled(iterates[-1], gain, *move) - sampled(theta, gain, *move) + slope
            iterates.append(iterates[-1] - sizes[t] * change)
        theta, used = np.mean(iterates[1:], axis=0), used[params.inner_steps :]
        answers[t + 1 :] = theta
        batch *= params.batch_growth
    return answers


def run(problem: gb.Problem, num_steps: int, params: Params, size: Any, **options: Any) -> gb.Trace:
    return gb.run("vrtd", problem, num_steps, size, params=params._asdict(), **options)


@pytest.mark.kernels
@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("params", SETTINGS)
def test_it_is_the_rule_as_written(make, params: Params) -> None:
    problem, first = make(), first_weights(make())
    trace = run(problem, STEPS, params, SIZES, initial_weights=first, checkpoints=range(STEPS + 1))
    answers = np.array([without(problem.ones_weights, row) for row in twin(problem, params, first)])
    assert len(np.unique(answers.round(9), axis=0)) > 4  # several epochs
    np.testing.assert_allclose(trace.weights[0], answers, rtol=0, atol=1e-12)
    rewards = np.cumsum([reward for *_, reward in path(problem, STEPS)])
    np.testing.assert_allclose(trace.gain[0, 1:], rewards / np.arange(1, STEPS + 1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
def test_it_converges_to_the_fixed_point_of_td(make) -> None:
    problem = make()
    first = 5.0 * first_weights(problem)
    trace = run(
        problem, 10**6, Params(), 0.5, seeds=range(20), checkpoints=[50_000, 10**6], initial_weights=first
    )
    errors = trace.errors("full", target="own", norm="stationary")
    assert errors[:, 1].max() < 0.2
    # Batches are about ten times as long; the root mean square over 20 runs is known to about a sixth.
    assert (errors[:, 1] ** 2).mean() < (errors[:, 0] ** 2).mean() / 6
    own = gb.ALGORITHMS["vrtd"].declared.limit(problem, Params(), first)
    shortest = gb.ALGORITHMS["td-lambda"].declared.limit(problem, TdParams(), first)
    np.testing.assert_allclose(own, shortest, rtol=1e-9, atol=1e-12)


@pytest.mark.kernels
def test_inner_steps_do_not_depend_on_rewards_or_gain() -> None:
    problem = problems.dense()
    setting, rows = Setting(first_weights(problem), None, 1.0), rows_of(problem.features)
    plain, odd = init(setting, SHORT), init(setting, SHORT)
    steps, epochs = Sampler(problem.mrp).paths([0]).take(STEPS), 0
    for here, after, reward in zip(steps.here[0], steps.next[0], steps.reward[0], strict=True):
        inner = plain.left[0] > 0
        for state, added in ((plain, 0.0), (odd, 1000.0)):
            step(state, SHORT, rows, Move(here, after, reward + added * inner, here, after, 0.0), 0.1)
        epochs += inner and plain.left[0] == 0
        np.testing.assert_array_equal(plain.weights, odd.weights)
    assert epochs > 4


@pytest.mark.kernels
def test_a_reward_for_everything_changes_no_weight() -> None:
    problem = problems.sparse_features()
    shifted = gb.Problem(
        gb.MarkovRewardProcess(problem.mrp.csr, problem.mrp.rewards + 100.0), problem.features
    )
    found, expected = (run(either, STEPS, SHORT, SIZES).weights[0] for either in (shifted, problem))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_steps_that_are_too_large_end_in_divergence_and_no_exception() -> None:
    with pytest.warns(UserWarning, match="overshoot"):
        trace = run(problems.dense(), 20_000, SHORT._replace(inner_steps=2000), 50.0)
    assert trace.outcomes[0].status == "diverged"


@pytest.mark.parametrize("name", ["inner_steps", "first_batch", "skip"])
def test_numbers_of_transitions_are_whole(name: str) -> None:
    with pytest.raises(ValueError, match=rf"parameter '{name}' of vrtd counts transitions: .* found 2\.5"):
        gb.run("vrtd", problems.tabular(), 10, 0.1, params={name: 2.5})


@pytest.mark.parametrize("name", Params._fields)
def test_parameters_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"parameter '{name}' of vrtd must be a number at least 1"):
        gb.run("vrtd", problems.tabular(), 10, 0.1, params={name: 0.5})
