"""Tabular TD with local clocks, against the rule as it is written, and where it converges to."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.adaptive_td import Params

from ..engine import problems
from .twins import first_weights, path

STEPS = 300


def twin(problem: gb.Problem, values: np.ndarray, alpha: float, offset: float) -> np.ndarray:
    """Centred values after each step."""
    values, visits, kept = values.copy(), np.zeros(len(values)), []
    for here, after, reward in path(problem, STEPS):
        s, after_s = int(here.argmax()), int(after.argmax())
        visits[s] += 1
        values[s] += alpha / (visits[s] + offset) * (reward + values[after_s] - values[s])
        kept.append(values - (values.max() + values.min()) / 2)
    return np.array(kept)


def unequal() -> gb.Problem:
    """Some states are visited several times as often as others; all rewards are about 3."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.geomspace(1.0, 5.0, 6), size=6)
    return gb.Problem(gb.MarkovRewardProcess(transitions, 3.0 + rng.standard_normal(6)), gb.Tabular())


@pytest.mark.kernels
def test_it_is_the_rule_as_written_for_every_lane() -> None:
    problem = problems.tabular()
    first, offsets = first_weights(problem), [0.0, 1.0, 10.0]
    trace = gb.run(
        "adaptive-td",
        problem,
        STEPS,
        [1.0, 0.5],
        params={"offset": offsets},
        initial_weights=first,
        checkpoints=range(1, STEPS + 1),
    )
    lanes = [(alpha, offset) for alpha in (1.0, 0.5) for offset in offsets]
    for found, (alpha, offset) in zip(trace.weights, lanes, strict=True):
        np.testing.assert_allclose(found, twin(problem, first, alpha, offset), rtol=0, atol=1e-12)
    rewards = np.cumsum([reward for *_, reward in path(problem, STEPS)])
    np.testing.assert_allclose(trace.gain[0], rewards / np.arange(1, STEPS + 1), rtol=0, atol=1e-13)


def test_it_converges_to_the_centred_bias() -> None:
    problem = unequal()
    first = first_weights(problem)
    trace = gb.run(
        "adaptive-td",
        problem,
        1_000_000,
        1.0,
        seeds=range(20),
        checkpoints=[10_000, 1_000_000],
        initial_weights=first,
    )
    limit = gb.ALGORITHMS["adaptive-td"].declared.limit(problem, Params(), first)
    assert limit.max() == pytest.approx(-limit.min(), rel=1e-12)
    assert np.ptp(limit - problem.solution.bias) < 1e-12
    errors = trace.errors("full", target="own")
    assert errors[:, 1].max() < 0.1
    # A hundred times the data makes the root mean square a tenth; 20 runs know their ratio to about a third.
    ratio = np.sqrt((errors[:, 0] ** 2).mean() / (errors[:, 1] ** 2).mean())
    assert 4.0 < ratio < 25.0


def test_a_common_clock_would_converge_elsewhere() -> None:
    problem, num_steps = unequal(), 100_000
    local = gb.run("adaptive-td", problem, num_steps, 1.0, checkpoints=1).errors("quotient")[0, -1]
    values, mu = np.zeros(problem.num_features), problem.solution.stationary
    for t, (here, after, reward) in enumerate(path(problem, num_steps), 1):
        s = int(here.argmax())
        values[s] += 50.0 / (t + 100.0) * (reward + after @ values - values[s])
    common = problem.quotient_norm(values - problem.solution.bias)
    assert common > 10 * local
    # It settles where R + P V - V is proportional to 1 / mu.
    speed = mu * (problem.mrp.rewards + problem.mrp.csr @ values - values)
    assert np.ptp(speed) < 0.1 * abs(speed.mean())


def test_values_drift_together_but_not_far() -> None:
    problem, alpha = unequal(), 0.5
    form = gb.ALGORITHMS["adaptive-td"].form
    raw = gb.Algorithm(name="raw", form=gb.Form(form.init, form.step, laned=True), params=Params)
    trace = gb.run(raw, problem, 1_000_000, alpha, checkpoints=[10_000, 1_000_000])
    moved = trace.weights[0, 1] - trace.weights[0, 0]
    assert moved == pytest.approx(alpha * problem.solution.gain * np.log(100), rel=0.1)


@pytest.mark.parametrize("offset", [-1.0, np.nan, "many"])
def test_parameters_out_of_range_are_refused(offset: float) -> None:
    with pytest.raises(ValueError, match="parameter 'offset' of adaptive-td must be a number at least 0"):
        gb.run("adaptive-td", problems.tabular(), 10, 1.0, params={"offset": [offset]})


def test_other_features_are_refused() -> None:
    with pytest.raises(ValueError, match="adaptive-td exists for tabular features only, found dense ones"):
        gb.run("adaptive-td", problems.dense(), 10, 1.0)
