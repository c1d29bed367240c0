"""Centred TD: both forms on long paths, what errors of its means do, and what its averages cost."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.algorithm import Move
from gainbias.algorithms.fields import average_features
from gainbias.testing.drive import Case, Rig, small_problem

from ..engine import problems

CENTRED = gb.ALGORITHMS["centred-td"]


@pytest.mark.kernels
@pytest.mark.parametrize("tail_average", [None, 0.25])
def test_both_forms_agree_far_beyond_the_first_settlement(tail_average) -> None:
    """x takes q F over every 4 d + 256 steps; with rewards about 1000, what is then lost would be seen."""
    process = problems.process()
    moved = gb.MarkovRewardProcess(process.transitions, process.rewards + 1000.0)
    found = [
        gb.run(
            "centred-td",
            gb.Problem(moved, features),
            3_000,
            [0.1, gb.Harmonic(3, 10)],
            seeds=[4, 7],
            checkpoints=[0, 100, 289, 1_000, 3_000],
            tail_average=tail_average,
        )
        for features in (gb.Tabular(), np.eye(8))
    ]
    np.testing.assert_allclose(found[0].weights, found[1].weights, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found[0].gain, found[1].gain, rtol=1e-13)


def mean_change(problem, error_of_mean, error_of_gain):
    """The mean update at the limit, per step size, with means that are off."""
    rig, process, size = Rig(Case(CENTRED, "dense", problem, CENTRED.params())), problem.mrp, 0.01
    mu, table = problem.solution.stationary, process.csr.toarray()
    fields = {
        "average_features": average_features(problem) + error_of_mean,
        "gain": problem.solution.gain_per_step + error_of_gain,
        "count": np.inf,
    }
    total = np.zeros(problem.num_features)
    paid = np.zeros_like(table)
    paid[process.csr.nonzero()] = process.reward_entries
    for here, after in zip(*np.nonzero(table), strict=True):
        state = rig.begin(problem.fixed_point, **fields)
        rig.step(state, Move(here, after, paid[here, after], here, after, 0.0), size)
        total += mu[here] * table[here, after] * (rig.output(state) - problem.fixed_point) / size
    return total


@pytest.mark.parametrize(("kind", "drops_out"), [("constants", True), ("dense", False)])
def test_errors_of_the_means_drop_out_if_features_span_the_constants(kind, drops_out) -> None:
    problem = small_problem(kind, 8)
    mean = problem.solution.stationary @ problem.features.combine(problem.fixed_point)
    off = np.array([0.1, -0.2, 0.3, 0.05])
    np.testing.assert_allclose(mean_change(problem, 0.0 * off, 0.3), 0.0, atol=1e-13)
    np.testing.assert_allclose(mean_change(problem, off, 0.0), -off * mean, atol=1e-13)
    np.testing.assert_allclose(mean_change(problem, off, 0.3), -off * mean + 0.3 * off, atol=1e-13)
    assert bool(abs(mean) < 1e-13) is drops_out


@pytest.mark.slow
def test_steps_like_the_root_of_t_leave_a_bias_as_large_as_the_noise() -> None:
    """With powers 0.5 and 0.7, t times the squared bias of an average is kept, and falls like t^-0.4."""
    rng = np.random.default_rng(0)
    chain = gb.MarkovRewardProcess(rng.dirichlet(np.ones(6), 6), rng.normal(size=6))
    problem, lanes = gb.Problem(chain, np.eye(6)), 1500
    mu, bias = problem.solution.stationary, problem.solution.bias
    powers, squared, ratio = (0.5, 0.7), [], []
    steps = [gb.Polynomial(0.5 * 64.0**xi, 64.0, xi) for xi in powers]
    for t in (5_000, 80_000):
        floor = gb.run("lstd", problem, t, seeds=range(lanes), checkpoints=[t]).errors(
            "centred", norm="stationary"
        )
        trace = gb.run(
            "centred-td", problem, t, steps, seeds=range(lanes), checkpoints=[t], tail_average=0.25
        )
        values = trace.weights[:, -1].reshape(lanes, 2, 6)
        away = values - (values @ mu)[..., None] - bias
        whole = (away**2 @ mu).mean(axis=0)
        middle = away.mean(axis=0) ** 2 @ mu
        squared.append(t * (middle - whole / lanes) * lanes / (lanes - 1))
        ratio.append(whole / (floor[:, -1] ** 2).mean())
    kept = squared[1] / squared[0]
    assert kept[0] == pytest.approx(1.0, rel=0.25)
    assert kept[1] == pytest.approx(16**-0.4, rel=0.35)
    assert ratio[1] == pytest.approx([1.333 + 0.09, 1.333], rel=0.05)
