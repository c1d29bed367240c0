"""Least squares against plain sums, where the equation is singular, and where it converges to."""

from typing import Any

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.algorithm import Field, Setting
from gainbias.algorithms.fields import nearest_solution
from gainbias.algorithms.lstd import Params, init
from gainbias.model.problem import MOST_PROBLEM_FEATURES

from ..engine import problems
from .twins import first_weights, path

STEPS = 400
SETTINGS = [(0.0, 1.0), (0.0, 3.0), (0.6, 1.0), (0.95, 0.5)]


def equation(problem: gb.Problem, num_steps: int, decay: float, weight: float, seed: int = 0) -> Any:
    """A + kappa w w^T, b and the mean reward, from sums as they are written in the docstring."""
    moves = list(path(problem, num_steps, seed))
    gain = np.mean([reward for *_, reward in moves])
    mean = np.mean([here for here, *_ in moves], axis=0)
    trace = np.zeros(problem.num_features)
    matrix, vector = np.zeros((len(trace), len(trace))), np.zeros(len(trace))
    for here, after, reward in moves:
        trace = decay * trace + here
        matrix += np.outer(trace, here - after) / num_steps
        vector += trace * (reward - gain) / num_steps
    return matrix + weight * np.outer(mean, mean), vector, gain


def run(problem: gb.Problem, num_steps: int = STEPS, decay: float = 0.0, weight: float = 1.0, **options: Any):
    params = {"trace_decay": decay, "mean_weight": weight}
    return gb.run("lstd", problem, num_steps, 1.0, params=params, **options)


@pytest.mark.kernels
@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize(("decay", "weight"), SETTINGS)
def test_it_solves_the_equation_of_plain_sums(make, decay: float, weight: float) -> None:
    problem = make()
    trace = run(problem, decay=decay, weight=weight, checkpoints=[100, STEPS])
    for steps, weights, found in zip(trace.steps, trace.weights[0], trace.gain[0], strict=True):
        matrix, vector, gain = equation(problem, steps, decay, weight)
        np.testing.assert_allclose(weights, np.linalg.solve(matrix, vector), rtol=1e-12, atol=1e-12)
        assert found == pytest.approx(gain, abs=1e-14)


@pytest.mark.kernels
@pytest.mark.parametrize("make", [problems.without_ones, problems.sparse_features])
def test_without_the_mean_it_is_the_method_of_yu_and_bertsekas(make) -> None:
    problem = make()
    matrix, vector, _ = equation(problem, STEPS, 0.3, 0.0)
    found = run(problem, decay=0.3, weight=0.0).weights[0, -1]
    np.testing.assert_allclose(found, np.linalg.solve(matrix, vector), rtol=1e-12)
    limit = gb.ALGORITHMS["td-lambda"].declared.limit(problem, Params(trace_decay=0.3), found)
    own = gb.ALGORITHMS["lstd"].declared.limit(problem, Params(0.3, 0.0), found)
    np.testing.assert_allclose(own, limit, rtol=1e-12)


@pytest.mark.kernels
@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_singular_equation_gives_the_solution_nearest_to_the_first_weights(make, steps: int) -> None:
    problem, first = make(), first_weights(make())
    trace = run(problem, 5, checkpoints=range(6), initial_weights=first)
    if steps == 0:
        np.testing.assert_array_equal(trace.weights[0, 0], first)
        return
    matrix, vector, _ = equation(problem, steps, 0.0, 1.0)
    expected = first + np.linalg.pinv(matrix, rcond=1e-12) @ (vector - matrix @ first)
    np.testing.assert_allclose(trace.weights[0, steps], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", [problems.dense, problems.tabular])
def test_without_the_mean_and_with_constants_the_limit_is_the_nearest_of_the_line(make) -> None:
    problem, first = make(), first_weights(make())
    trace = run(problem, 200_000, weight=0.0, initial_weights=first, seeds=range(4), checkpoints=1)
    limit = gb.ALGORITHMS["lstd"].declared.limit(problem, Params(mean_weight=0.0), first)
    assert problem.ones_weights @ limit == pytest.approx(problem.ones_weights @ first, rel=1e-9)
    assert np.abs(trace.weights[:, -1] - limit).max() < 0.05
    assert np.abs(problem.fixed_point - limit).max() > 0.2


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("first", [0.0, 5.0])
def test_it_converges_to_the_fixed_point_of_the_paper(make, first: float) -> None:
    problem = make()
    assert gb.ALGORITHMS["lstd"].declared.limit(
        problem, Params(), np.zeros(problem.num_features)
    ) == pytest.approx(problem.fixed_point, rel=1e-9, abs=1e-12)
    initial = np.full(problem.num_features, first)
    trace = run(problem, 100_000, seeds=range(20), checkpoints=[1000, 100_000], initial_weights=initial)
    errors = trace.errors("full", target="own", norm="stationary")
    assert errors[:, 1].max() < 0.05
    # A hundred times the data makes the root mean square a tenth; 20 runs know their ratio to about a third.
    ratio = np.sqrt((errors[:, 0] ** 2).mean() / (errors[:, 1] ** 2).mean())
    assert 4.0 < ratio < 25.0


@pytest.mark.parametrize("decay", [0.5, 0.9])
def test_with_a_trace_it_converges_to_its_own_limit(decay: float) -> None:
    problem = problems.without_ones()
    trace = run(problem, 200_000, decay=decay, seeds=range(4), checkpoints=1)
    errors = trace.errors("full", target="own", norm="stationary")
    assert errors.max() < 0.03
    assert trace.errors("full", target="paper", norm="stationary").min() > errors.max()


@pytest.mark.kernels
def test_zap_with_equal_steps_ends_where_least_squares_does() -> None:
    problem, start = problems.dense(), 30
    moves = list(path(problem, STEPS))
    mean = np.mean([here for here, *_ in moves], axis=0)
    gain = np.mean([reward for *_, reward in moves])

    def terms(move: Any) -> tuple[np.ndarray, np.ndarray]:
        here, after, reward = move
        return np.outer(here, here - after + mean), here * (reward - gain)

    matrix = np.mean([terms(move)[0] for move in moves[:start]], axis=0)
    theta = np.linalg.solve(matrix, np.mean([terms(move)[1] for move in moves[:start]], axis=0))
    for t, move in enumerate(moves[start:], start):
        sampled, force = terms(move)
        matrix += (sampled - matrix) / (t + 1)
        theta = theta + np.linalg.solve(matrix, force - sampled @ theta) / (t + 1)
    np.testing.assert_allclose(run(problem).weights[0, -1], theta, rtol=0, atol=1e-12)


def test_the_mean_of_all_rewards_has_less_noise_than_the_mean_at_the_time() -> None:
    problem, runs = problems.tabular(), 1000
    errors = np.empty((runs, 2))
    for seed in range(runs):
        here, after, reward = map(np.array, zip(*path(problem, STEPS, seed), strict=True))
        mean = here.mean(axis=0)
        matrix = here.T @ (here - after) / STEPS + np.outer(mean, mean)
        for k, gain in enumerate((reward.mean(), np.cumsum(reward) / np.arange(1, STEPS + 1))):
            values = np.linalg.solve(matrix, here.T @ (reward - gain) / STEPS)
            errors[seed, k] = problem.stationary_norm(values - problem.solution.bias) ** 2
    gap = errors[:, 1] - errors[:, 0]
    assert gap.mean() > 4 * gap.std() / np.sqrt(runs)


@pytest.mark.kernels
def test_a_reward_for_everything_changes_no_weight() -> None:
    problem = problems.tabular()
    shifted = gb.Problem(
        gb.MarkovRewardProcess(problem.mrp.csr, problem.mrp.rewards + 100.0), problem.features
    )
    for decay in (0.0, 0.7):
        found = run(shifted, decay=decay).weights[0, -1]
        np.testing.assert_allclose(found, run(problem, decay=decay).weights[0, -1], atol=1e-10)


@pytest.mark.kernels
def test_step_sizes_and_averages_change_nothing() -> None:
    problem = problems.tabular()
    trace = gb.run("lstd", problem, STEPS, [0.1, gb.Harmonic(1, 5)], checkpoints=1)
    np.testing.assert_array_equal(trace.weights[0], trace.weights[1])
    averaged = run(problem, tail_average=0.25, checkpoints=1)
    np.testing.assert_array_equal(averaged.weights, trace.weights[:1])


def test_a_matrix_that_would_be_too_large_is_refused() -> None:
    weights = np.zeros(MOST_PROBLEM_FEATURES + 1)
    with pytest.raises(ValueError, match=r"lstd keeps a matrix .* at most 8000 features, found 8001"):
        init(Setting(weights, None, 1.0), Params())


@pytest.mark.parametrize(
    ("name", "value"), [("trace_decay", 1.0), ("trace_decay", -0.1), ("mean_weight", -1)]
)
def test_parameters_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"parameter '{name}' of lstd must be a number at least 0"):
        gb.run("lstd", problems.tabular(), 10, 1.0, params={name: value})


def test_nearest_solutions() -> None:
    rng = np.random.default_rng(0)
    regular, vector, first = rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal(5)
    np.testing.assert_allclose(
        nearest_solution(Field(regular, vector), first, np.ones(5)),
        np.linalg.solve(regular, vector),
        rtol=1e-11,
    )
    singular = regular[:, :3] @ rng.standard_normal((3, 5))
    found = nearest_solution(Field(singular, vector), first, np.ones(5))
    np.testing.assert_allclose(singular.T @ (singular @ found - vector), 0.0, atol=1e-12)
    null = np.linalg.svd(singular)[2][3:]
    np.testing.assert_allclose(null @ (found - first), 0.0, atol=1e-12)
