"""Identities between algorithms, and invariants along a path."""

import warnings

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.fields import paper_field, td_field, within
from gainbias.algorithms.registry import REFERENCES
from gainbias.engine.paths import Sampler

from ..engine import problems

pytestmark = pytest.mark.kernels
STEPS = 2000


def last(algorithm: str, problem: gb.Problem, **options: object) -> gb.Trace:
    options = {"step_size": gb.Harmonic(3, 20), "checkpoints": [STEPS // 2, STEPS], **options}
    return gb.run(algorithm, problem, STEPS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [problems.dense, problems.tabular])
@pytest.mark.parametrize("decay", [0.0, 0.7])
def test_projecting_the_trace_projects_the_path_of_td_lambda(make, decay) -> None:
    problem = make()
    steps = Sampler(problem.mrp).paths([0]).take(STEPS)
    features = np.asarray(
        problem.features.matrix.todense() if problem.features.kind == "tabular" else problem.features.matrix
    )
    unit = problem.ones_weights / np.linalg.norm(problem.ones_weights)
    theta, trace, gain = np.zeros(problem.num_features), np.zeros(problem.num_features), 0.0
    sizes = gb.Harmonic(3, 20).values(0, STEPS)
    for here, after, reward, size in zip(steps.here[0], steps.next[0], steps.reward[0], sizes, strict=True):
        delta = reward - gain + (features[after] - features[here]) @ theta
        trace = decay * trace + features[here]
        theta = theta + size * delta * (trace - unit * (unit @ trace))
        gain += size * (reward - gain)
    found = last("projected-td", problem, params={"trace_decay": decay})
    np.testing.assert_allclose(found.weights[0, -1], theta, rtol=0, atol=1e-12)
    assert found.gain[0, -1] == pytest.approx(gain, abs=1e-13)
    plain = last("td-lambda", problem, params={"trace_decay": decay}).weights[0, -1]
    assert np.abs(plain - theta).max() > 1e-3
    np.testing.assert_allclose(plain - unit * (unit @ plain), theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [problems.dense, problems.tabular])
@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_differential_td_keeps_its_invariant(make, ratio) -> None:
    problem = make()
    first = np.linspace(-1, 1, problem.num_features)
    trace = last("differential-td", problem, params={"gain_ratio": ratio}, initial_weights=first)
    kept = trace.gain[0] - ratio * trace.weights[0] @ problem.ones_weights
    np.testing.assert_allclose(kept, -ratio * first @ problem.ones_weights, atol=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_implicit_steps_become_explicit_ones_as_they_shrink(decay) -> None:
    gaps = []
    for size in (1e-3, 1e-4):
        both = [
            gb.run(name, problems.without_ones(), 50, size, params={"trace_decay": decay}).weights[0, -1]
            for name in ("implicit-td", "td-lambda")
        ]
        gaps.append(np.abs(both[0] - both[1]).max())
    assert 90 < gaps[0] / gaps[1] < 110  # each step differs by the square of its size


def test_implicit_td_survives_steps_that_make_the_explicit_form_diverge() -> None:
    with pytest.warns(UserWarning, match="overshoot"):
        assert last("td-lambda", problems.dense(), step_size=4.0).outcomes[0].status == "diverged"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # steps are damped, so none is too large
        assert np.abs(last("implicit-td", problems.dense(), step_size=4.0).weights).max() < 100


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
def test_relative_td_has_the_mean_update_of_the_paper(make) -> None:
    problem = make()
    relative = gb.ALGORITHMS["relative-td"]
    field, paper = relative.declared.mean_field(problem, relative.params()), paper_field(problem)
    np.testing.assert_array_equal(field.matrix, paper.matrix)
    np.testing.assert_allclose(paper.matrix @ problem.fixed_point, paper.vector, atol=1e-14)


def test_relative_td_has_one_limit_for_all_weights_of_the_mean_only_if_ones_are_spanned() -> None:
    relative = gb.ALGORITHMS["relative-td"]
    for make, same in ((problems.dense, True), (problems.without_ones, False)):
        problem = make()
        limits = [relative.declared.limit(problem, relative.params(kappa), None) for kappa in (1.0, 3.0)]
        assert np.allclose(*limits, atol=1e-10) is same


def test_without_ones_the_paper_and_td_have_different_limits() -> None:
    problem = problems.without_ones()
    field = td_field(problem)
    assert np.abs(np.linalg.solve(field.matrix, field.vector) - problem.fixed_point).max() > 1e-3


def test_symmetric_form_does_not_feel_a_shift_of_rewards() -> None:
    problem = problems.dense()
    shifted = gb.MarkovRewardProcess(problem.mrp.transitions, problem.mrp.rewards + 100.0)
    for algorithm, felt in (("double-chain-symmetric", 1e-12), ("double-chain", np.inf)):
        there = last(algorithm, gb.Problem(shifted, problem.features)).weights
        distance = np.abs(there - last(algorithm, problem).weights).max()
        assert distance < felt if felt < np.inf else distance > 0.1


def test_radii_hold() -> None:
    for algorithm, params in (
        ("implicit-td", {"radius": 0.3, "trace_decay": [0.0, 0.5]}),
        ("discounted-td", {"radius": 0.3}),
    ):
        for make in problems.ALL.values():
            trace = gb.run(algorithm, make(), 300, 0.2, params=params, checkpoints=range(1, 301))
            lengths = np.linalg.norm(trace.weights, axis=2)
            assert lengths.max() == pytest.approx(0.3, rel=1e-12), algorithm


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("implicit-td", {}),
        ("implicit-td", {"trace_decay": 0.5}),
        ("discounted-td", {}),
        ("single-chain", {}),
    ],
)
def test_without_a_radius_weights_may_be_so_long_that_their_square_is_infinite(algorithm, params) -> None:
    trace = gb.run(algorithm, problems.dense(), 20, 0.01, params=params, initial_weights=np.full(3, 1e200))
    assert trace.outcomes[0].status == "finished"


def test_a_limit_on_the_sphere_of_a_radius_is_reached() -> None:
    limit = np.array([3.0, 4.0])
    assert within(limit, 5.0) is limit
    assert within(limit, np.nextafter(5.0, 0.0)) is None


def test_gain_bound_holds() -> None:
    trace = gb.run(
        "implicit-td", problems.dense(), 500, 0.2, params={"gain_bound": 0.05}, checkpoints=range(1, 501)
    )
    assert np.abs(trace.gain).max() == 0.05


@pytest.mark.parametrize("algorithm", gb.ALGORITHMS.values(), ids=gb.ALGORITHMS)
def test_records_are_complete(algorithm) -> None:
    assert all(key in REFERENCES for key in algorithm.about.reference.split("; "))
    assert algorithm.about.title
    assert algorithm.about.converges_to
    assert set(algorithm.bounds) == set(algorithm.params._fields)
    for name, default in algorithm.params._field_defaults.items():
        assert default in algorithm.bounds[name]
