"""Traces: errors by their definitions, tables, and what is kept of large runs."""

import json

import numpy as np
import pytest

import gainbias as gb
from gainbias.engine import work
from gainbias.engine.trace import Scale

from . import problems

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module", params=problems.ALL, ids=lambda name: name)
def trace(request) -> gb.Trace:
    return gb.run(
        "differential-td", problems.ALL[request.param](), 500, [0.05, 0.1], seeds=range(2), checkpoints=7
    )


def value_errors(trace: gb.Trace, target: np.ndarray) -> np.ndarray:
    return np.array(
        [
            trace.problem.features.matrix @ w - target
            for w in trace.weights.reshape(-1, trace.weights.shape[2])
        ]
    )


@pytest.mark.parametrize("norm", ["euclidean", "stationary"])
@pytest.mark.parametrize("target", ["bias", "paper", "own"])
@pytest.mark.parametrize("kind", ["full", "centred", "quotient"])
def test_errors_in_values(trace, kind, target, norm) -> None:
    problem = trace.problem
    limit = gb.ALGORITHMS["differential-td"].declared.limit(
        problem, trace.params(trace.lanes[0]), np.zeros(problem.num_features)
    )
    aims = {"bias": problem.solution.bias, "paper": problem.values, "own": problem.features.matrix @ limit}
    mu, n = problem.solution.stationary, problem.mrp.num_states
    projections = {
        "full": np.eye(n),
        "centred": np.eye(n) - np.outer(np.ones(n), mu),
        "quotient": np.eye(n) - 1 / n,
    }
    missed = value_errors(trace, aims[target]) @ projections[kind].T
    square = missed**2 @ mu if norm == "stationary" else (missed**2).sum(axis=1)
    found = trace.errors(kind, target=target, norm=norm)
    np.testing.assert_allclose(found.ravel(), np.sqrt(square), rtol=1e-9, atol=1e-12)


def test_errors_in_weights(trace) -> None:
    problem = trace.problem
    missed = trace.weights - problem.fixed_point
    found = trace.errors(target="paper", space="weights")
    np.testing.assert_allclose(found, np.linalg.norm(missed, axis=2), rtol=1e-12)
    quotient = trace.errors("quotient", target="paper", space="weights")
    centred = trace.errors("centred", target="paper", space="weights")
    if problem.ones_weights is None:
        np.testing.assert_array_equal(quotient, found)
        return
    along = problem.ones_weights / np.linalg.norm(problem.ones_weights)
    np.testing.assert_allclose(quotient**2 + (missed @ along) ** 2, found**2, rtol=1e-9)
    mean = problem.features.matrix.T @ problem.solution.stationary
    shifted = missed - np.multiply.outer(missed @ mean, problem.ones_weights)
    np.testing.assert_allclose(centred, np.linalg.norm(shifted, axis=2), rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "half"}, "kind must be one of full, centred, quotient, found 'half'"),
        ({"target": "truth"}, "target must be one of bias, paper, own"),
        ({"norm": "max"}, "norm must be one of euclidean, stationary"),
        ({"space": "features"}, "space must be one of values, weights"),
        ({"space": "weights"}, "the bias is a value of each state, not weights"),
        ({"space": "weights", "target": "own", "norm": "stationary"}, "stationary norm is one of values"),
    ],
)
def test_errors_that_make_no_sense_are_refused(trace, arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        trace.errors(**arguments)


def test_a_random_limit_has_a_quotient_only() -> None:
    trace = gb.run("td-lambda", problems.tabular(), 50, 0.1)
    with pytest.raises(ValueError, match="up to a constant only: use kind='quotient'"):
        trace.errors("full", target="own")
    assert np.isfinite(trace.errors("quotient", target="own")).all()
    assert np.isfinite(gb.run("td-lambda", problems.without_ones(), 50, 0.1).errors(target="own")).all()


def test_frame_is_tidy(trace) -> None:
    frame = trace.to_frame()
    assert len(frame) == len(trace.lanes) * len(trace.steps)
    row = frame[(frame.lane == 3) & (frame.step == trace.steps[4])].iloc[0]
    assert (row.seed, row.step_size, row.gain_ratio) == (1, "Constant(a=0.1)", 1.0)
    assert row.transitions == trace.transitions[4]
    assert row.gain == trace.gain[3, 4]
    for kind in ("full", "centred", "quotient"):
        assert row[f"error_{kind}"] == trace.errors(kind)[3, 4]


def test_dict_is_plain(trace) -> None:
    read = json.loads(json.dumps(trace.to_dict(), allow_nan=False))
    assert read["algorithm"] == "differential-td"
    assert read["process"] == trace.problem.mrp.fingerprint
    assert read["lanes"][1]["weights"] == trace.weights[1, -1].tolist()
    assert read["lanes"][1]["outcome"] == "finished"


def test_transitions_count_both_chains() -> None:
    trace = gb.run("double-chain", problems.tabular(), 10, 0.1, checkpoints=[5, 10])
    assert trace.transitions.tolist() == [10, 20]


class TestKeep:
    def test_errors_instead_of_weights(self) -> None:
        sizes = [0.1, 0.2, 0.3]
        full, small = (
            gb.run("td-lambda", problems.tabular(), 400, sizes, checkpoints=gb.Checkpoints(9, keep=keep))
            for keep in ("weights", "errors")
        )
        assert small.weights.shape == (3, 1, 8)
        np.testing.assert_array_equal(small.weights[:, 0], full.weights[:, -1])
        for kind in ("full", "centred", "quotient"):
            for norm in ("euclidean", "stationary"):
                np.testing.assert_allclose(
                    small.errors(kind, norm=norm), full.errors(kind, norm=norm), rtol=1e-12
                )
        assert len(small.to_frame()) == len(full.to_frame())

    def test_values_of_some_states(self) -> None:
        full = gb.run("td-lambda", problems.dense(), 400, 0.1, checkpoints=9)
        small = gb.run("td-lambda", problems.dense(), 400, 0.1, checkpoints=gb.Checkpoints(9, keep=[2, 5]))
        expected = (full.weights[0] @ full.problem.features.matrix.T)[:, [2, 5]]
        np.testing.assert_allclose(small.values[0], expected, rtol=1e-12)
        with pytest.raises(ValueError, match="kept only the weights of its last checkpoint"):
            small.errors()
        assert "error_full" not in small.to_frame()

    def test_too_much_is_refused(self, monkeypatch) -> None:
        monkeypatch.setattr(work, "MOST_RECORD_BYTES", 1000)
        with pytest.raises(ValueError, match=r"would take .* GB: use gb\.Checkpoints\(keep='errors'\)"):
            gb.run("td-lambda", problems.dense(), 400, 0.1)


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("single-chain", {"weights_radius": 0.01}),
        ("single-chain", {"features_radius": 0.01}),
        ("discounted-td", {"radius": 0.01}),
        ("implicit-td", {"radius": 0.01}),
        ("implicit-td", {"gain_bound": 1e-4}),
    ],
)
def test_a_projection_that_bites_leaves_no_stated_limit(algorithm, params) -> None:
    trace = gb.run(algorithm, problems.without_ones(), 50, 0.1, params=params)
    with pytest.raises(ValueError, match=f"{algorithm} states no limit for Params"):
        trace.errors(target="own")
    wide = gb.run(algorithm, problems.without_ones(), 50, 0.1, params=dict.fromkeys(params, 1e3))
    assert np.isfinite(wide.errors(target="own")).all()


@pytest.mark.parametrize("algorithm", ["td-lambda", "relative-td", "discounted-td", "lstd", "lspe"])
def test_limits_do_not_depend_on_the_units_of_features(algorithm) -> None:
    problem = problems.without_ones(n=20, d=4)
    scaled = gb.Problem(problem.mrp, problem.features.matrix * [1.0, 1.0, 1e-7, 1e3])
    record = gb.ALGORITHMS[algorithm]
    values = [
        p.features.combine(record.declared.limit(p, record.params(), np.zeros(4))) for p in (problem, scaled)
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6, atol=1e-9)


def test_least_squares_do_not_depend_on_the_units_of_features() -> None:
    problem = problems.without_ones(n=20, d=4)
    scaled = gb.Problem(problem.mrp, problem.features.matrix * [1.0, 1.0, 1e-7, 1e3])
    traces = [gb.run("lstd", p, 5000, params={"mean_weight": 0.0}) for p in (problem, scaled)]
    values = [trace.problem.features.combine(trace.weights[0, -1]) for trace in traces]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "algorithm", ["td-lambda", "projected-td", "differential-td", "relative-td", "discounted-td"]
)
def test_limits_of_tabular_features_are_those_of_the_identity(algorithm) -> None:
    tabular, record = problems.tabular(), gb.ALGORITHMS[algorithm]
    dense = gb.Problem(tabular.mrp, np.eye(8))
    limits = [record.declared.limit(p, record.params(), np.ones(8)) for p in (tabular, dense)]
    np.testing.assert_allclose(limits[0], limits[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
def test_continuous_time_changes_the_unit_of_the_gain_alone(algorithm) -> None:
    rates = np.array([[-2.0, 2.0, 0.0], [1.0, -3.0, 2.0], [0.5, 3.0, -3.5]])
    timed = gb.MarkovRewardProcess.from_rates(rates, [1.0, 4.0, 9.0])
    steps = gb.MarkovRewardProcess(timed.transitions, timed.rewards)
    of_time, of_steps = (gb.Problem(mrp, gb.Tabular()) for mrp in (timed, steps))
    assert timed.rate is not None
    assert timed.rate > 1.0
    found, expected = (gb.run(algorithm, problem, 60, 0.1, checkpoints=3) for problem in (of_time, of_steps))
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_allclose(found.gain, timed.rate * expected.gain, rtol=1e-12)
    one = gb.ALGORITHMS[algorithm]
    limits = [
        one.declared.limit(p, t.params(t.lanes[0]), np.zeros(3))
        for p, t in ((of_time, found), (of_steps, expected))
    ]
    np.testing.assert_allclose(limits[0], limits[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("norm", "space"), [("euclidean", "values"), ("stationary", "values"), ("euclidean", "weights")]
)
@pytest.mark.parametrize("kind", ["full", "centred", "quotient"])
def test_squared_errors_are_their_quadratic_form(trace, kind, norm, space) -> None:
    problem = trace.problem
    scale = Scale(gb.ALGORITHMS["differential-td"], problem, (), np.zeros(problem.num_features))
    form, missed = scale.form(kind, norm, space), trace.weights[0] - problem.fixed_point
    found = scale.errors(trace.weights[0], kind, "paper", norm, space)
    np.testing.assert_allclose(
        np.einsum("mi,ij,mj->m", missed, form, missed), found**2, rtol=1e-9, atol=1e-14
    )


def test_a_norm_without_a_quadratic_form_has_no_exact_curve() -> None:
    problem = problems.dense()
    scale = Scale(gb.ALGORITHMS["td-lambda"], problem, (), np.zeros(problem.num_features))
    with pytest.raises(
        ValueError, match="the largest norm is not a quadratic form, so there is no exact curve"
    ):
        scale.form(norm="largest")


def test_one_lane_is_called_one_lane() -> None:
    assert "1 lane," in repr(gb.run("td-lambda", problems.dense(), 10, 0.1))
