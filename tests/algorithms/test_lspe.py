"""Least-squares policy evaluation against plain matrix algebra, and where it converges to."""

from typing import Any

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.algorithm import Setting
from gainbias.algorithms.lspe import Params, init
from gainbias.model.problem import MOST_PROBLEM_FEATURES

from ..engine import problems
from .twins import first_weights, path, without

STEPS = 300
DEFAULT = Params()
SETTINGS = [DEFAULT, Params(trace_decay=0.7), Params(relaxation=0.4, ridge=0.1)]


def twin(problem: gb.Problem, params: Params, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """The iterate and the mean reward; every sum is made and every equation solved anew."""
    here, after, reward = map(np.array, zip(*path(problem, STEPS), strict=True))
    traces, trace = [], np.zeros_like(theta)
    for row in here:
        trace = params.trace_decay * trace + row
        traces.append(trace)
    z = np.array(traces)
    for t in range(1, STEPS + 1):
        matrix = z[:t].T @ (after - here)[:t]
        vector = z[:t].T @ (reward[:t] - reward[:t].mean())
        gram = params.ridge * np.eye(len(theta)) + here[:t].T @ here[:t]
        theta = theta + params.relaxation * np.linalg.solve(gram, matrix @ theta + vector)
    return theta, reward.mean()


def run(problem: gb.Problem, num_steps: int = STEPS, params: Params = DEFAULT, **options: Any) -> gb.Trace:
    return gb.run("lspe", problem, num_steps, 1.0, params=params._asdict(), **options)


@pytest.mark.kernels
@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("params", SETTINGS)
def test_it_is_the_iteration_of_plain_sums(make, params: Params) -> None:
    problem, first = make(), first_weights(make())
    theta, gain = twin(problem, params, first)
    trace = run(problem, params=params, initial_weights=first)
    expected = without(problem.ones_weights, theta)
    np.testing.assert_allclose(trace.weights[0, -1], expected, rtol=1e-12, atol=1e-12)
    assert trace.gain[0, -1] == pytest.approx(gain, abs=1e-14)


def test_the_part_along_the_constants_is_left_out() -> None:
    problem = problems.tabular()
    theta, _ = twin(problem, Params(), first_weights(problem))
    assert abs(theta.mean()) > 0.1
    assert abs(run(problem).weights[0, -1].mean()) < 1e-14


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("params", SETTINGS)
def test_it_converges_to_the_fixed_point_of_td_lambda(make, params: Params) -> None:
    problem = make()
    first = 5.0 * first_weights(problem)
    trace = run(problem, 50_000, params, seeds=range(20), checkpoints=[500, 50_000], initial_weights=first)
    errors = trace.errors("full", target="own", norm="stationary")
    assert errors[:, 1].max() < 0.2
    # A hundred times the data makes the root mean square a tenth; 20 runs know their ratio to about a third.
    ratio = np.sqrt((errors[:, 0] ** 2).mean() / (errors[:, 1] ** 2).mean())
    assert 4.0 < ratio < 25.0
    own = gb.ALGORITHMS["lspe"].declared.limit(problem, params, first)
    shortest = gb.ALGORITHMS["td-lambda"].declared.limit(problem, Params(params.trace_decay), first)
    np.testing.assert_allclose(own, shortest, rtol=1e-9, atol=1e-12)


def test_it_follows_least_squares() -> None:
    problem = problems.without_ones()
    distances = []
    for num_steps in (1000, 30_000):
        found = run(problem, num_steps, checkpoints=1).weights[0, -1]
        exact = gb.run("lstd", problem, num_steps, 1.0, params={"mean_weight": 0.0}, checkpoints=1)
        distances.append(np.abs(found - exact.weights[0, -1]).max())
    assert distances[1] < distances[0] / 10
    assert distances[1] < 3e-3


def test_the_inverse_stays_one() -> None:
    problem, num_steps = problems.dense(), 100_000
    form = gb.ALGORITHMS["lspe"].form
    kept = []

    def output(state: Any, params: Any, setting: Any) -> Any:
        kept.append(state.inverse.copy())
        return form.output(state, params, setting)

    spied = gb.Algorithm(name="spied", form=gb.Form(form.init, form.step, output), params=Params)
    gb.run(spied, problem, num_steps, 1.0, checkpoints=1)
    rows = np.array([here for here, *_ in path(problem, num_steps)])
    gram = np.eye(problem.num_features) + rows.T @ rows
    np.testing.assert_allclose(kept[-1] @ gram, np.eye(len(gram)), atol=1e-10)


def test_half_a_correction_converges_on_a_periodic_chain_and_a_whole_one_does_not() -> None:
    process = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    problem, first = gb.Problem(process, gb.Tabular()), np.array([3.0, 0.0])
    half, whole = (
        run(problem, 2000, Params(relaxation=gamma, ridge=1e-3), initial_weights=first, checkpoints=1).errors(
            "full", target="own"
        )[0, -1]
        for gamma in (0.5, 1.0)
    )
    assert half < 0.01
    assert whole > 0.1


@pytest.mark.kernels
def test_a_reward_for_everything_changes_no_weight() -> None:
    problem = problems.tabular()
    shifted = gb.Problem(
        gb.MarkovRewardProcess(problem.mrp.csr, problem.mrp.rewards + 100.0), problem.features
    )
    for params in SETTINGS:
        found = run(shifted, params=params).weights[0, -1]
        np.testing.assert_allclose(found, run(problem, params=params).weights[0, -1], atol=1e-10)


def test_a_matrix_that_would_be_too_large_is_refused() -> None:
    weights = np.zeros(MOST_PROBLEM_FEATURES + 1)
    with pytest.raises(ValueError, match=r"lspe keeps a matrix .* at most 8000 features, found 8001"):
        init(Setting(weights, None, 1.0), Params())


@pytest.mark.parametrize(
    ("name", "value"), [("trace_decay", 1.0), ("relaxation", 0.0), ("relaxation", 2.0), ("ridge", 0.0)]
)
def test_parameters_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"parameter '{name}' of lspe must be a number"):
        gb.run("lspe", problems.tabular(), 10, 1.0, params={name: value})
