"""The judges of answers for other policies are judged: by simulation and by other formulas."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles.decisions import DECISIONS, Decisions, under
from tests.oracles.decisions_fresh import FRESH_DECISIONS, FRESH_NUMBERS
from tests.oracles.decisions_held_out import HELD_OUT_DECISIONS
from tests.oracles.decisions_late import LATE_DECISIONS, LEARNT_FROM, NUMBER_DECISIONS, NumberDecisions
from tests.oracles.decisions_outside import OUTSIDE_DECISIONS, Steered

STEERED = "steered"
OUTSIDE = {name: make for name, make in OUTSIDE_DECISIONS.items() if name != STEERED}
ALL = {**DECISIONS, **HELD_OUT_DECISIONS, **LATE_DECISIONS, **FRESH_DECISIONS, **OUTSIDE}
NUMBERS = {**LEARNT_FROM, **NUMBER_DECISIONS, **FRESH_NUMBERS, STEERED: OUTSIDE_DECISIONS[STEERED]}


@pytest.mark.parametrize("name", ALL)
def test_what_is_given_is_a_decision_process(name: str):
    made = ALL[name]()
    for law in (made.kernel, made.behaviour, made.target):
        assert law.min() >= 0.0
        np.testing.assert_allclose(law.sum(axis=-1), 1.0, atol=1e-12)
    assert ((made.target > 0.0) <= (made.behaviour > 0.0)).all()
    assert list(made.lengths) == sorted(made.lengths)


@pytest.mark.parametrize("name", ALL)
def test_the_truth_solves_the_equations_of_the_target(name: str):
    made = ALL[name]()
    paid, lasting = ((made.target * part).sum(axis=1) for part in (made.paid, made.lasting))
    moves = under(made.kernel, made.target)
    np.testing.assert_allclose(
        made.values, paid - made.gain * lasting + moves @ made.values, atol=1e-9 * np.ptp(made.values)
    )
    np.testing.assert_allclose((made.target * made.action_values).sum(axis=1), made.values, atol=1e-9)
    of_log = made.behaviour_law[:, None] * made.behaviour
    assert (of_log * made.ratio).sum() == pytest.approx(1.0)
    reweighted = (of_log * made.ratio * made.paid).sum() / (of_log * made.ratio * made.lasting).sum()
    assert reweighted == pytest.approx(made.gain, rel=1e-9)
    start = made.target_law @ made.discounted_values(0.999)
    assert start * 0.001 == pytest.approx(made.target_law @ paid, rel=1e-6)


def moments(made: Decisions, policy: str) -> tuple[float, float]:
    """Gain of a policy in a simulation, and its standard error over independent logs."""
    followed = made if policy == "behaviour" else replace(made, behaviour=made.target)
    logs = followed.logs(np.random.default_rng(0), 2_000, 400)
    lasted = np.ones_like(logs.rewards) if logs.durations is None else logs.durations
    gain = logs.rewards.sum() / lasted.sum()
    apart = (logs.rewards - gain * lasted).mean(axis=1) / lasted.mean()
    return float(gain), float(apart.std() / np.sqrt(len(apart)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_who_follows_the_target_earns_its_gain(name: str):
    """Four standard errors: chance alone fails one of 16,000."""
    made = ALL[name]()
    gain, error = moments(made, "target")
    assert abs(gain - made.gain) < 4.0 * error


@pytest.mark.parametrize("name", ["kinds", "kinds-values", "kinds-ratio"])
def test_features_express_what_they_say(name: str):
    made = DECISIONS[name]()
    assert made.features is not None
    assert made.ratio_features is not None
    for features, truth, can in (
        (made.features, made.action_values, made.expressible in ("both", "values")),
        (made.ratio_features, made.ratio, made.expressible in ("both", "ratio")),
    ):
        rows = features.reshape(-1, features.shape[2])
        left = np.linalg.lstsq(rows, truth.ravel(), rcond=None)[0] @ rows.T - truth.ravel()
        assert (np.abs(left).max() < 1e-9) == can


@pytest.mark.parametrize("name", ["random", "many-choices"])
def test_what_a_row_is_worth_is_the_variance_of_the_mean_ratio(name: str):
    """Of 2,000 logs; the standard error of a variance from them is 3%."""
    made = ALL[name]()
    logs = made.logs(np.random.default_rng(0), 500, 2_000)
    means = made.ratio[logs.states, logs.actions].mean(axis=1)
    assert made.row_worth == pytest.approx(1.0 / means.var() / 500, rel=0.13)


def test_unseen_is_what_logs_lack():
    made = DECISIONS["near-deterministic"]()
    logs = made.logs(np.random.default_rng(0), 2_000, 200)
    lacking = []
    for states, actions in zip(logs.states, logs.actions, strict=True):
        seen = np.zeros((made.num_states, made.num_actions), dtype=bool)
        seen[states, actions] = True
        lacking.append((made.target_law[:, None] * made.target)[~seen].sum())
    assert np.mean(lacking) == pytest.approx(made.unseen(2_000), rel=0.1)


@pytest.mark.parametrize("name", NUMBERS)
def test_processes_with_numbers_are_decision_processes(name: str):
    made = NUMBERS[name]()
    logs = made.logs(np.random.default_rng(0), 300, 20)
    seen = logs.states.reshape(-1, made.dimension)
    for policy in (made.behaviour, made.target):
        chances = policy(seen)
        assert chances.min() >= 0.0
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.isfinite(logs.rewards).all()
    assert set(np.unique(logs.actions)) == set(range(chances.shape[1]))


def test_the_truth_of_processes_with_numbers():
    """The gain of a linear system has a formula."""
    made = LEARNT_FROM["straight"]()
    pushes = np.array([-0.5, 0.0, 0.5]) @ [0.1, 0.3, 0.6], np.array([0.25, 0.0, 0.25]) @ [0.1, 0.3, 0.6]
    mean = pushes[0] / 0.3
    variance = (pushes[1] - pushes[0] ** 2 + 0.16) / (1.0 - 0.49)
    exact = 0.3 * mean - 0.2 * (variance + mean**2) + 0.1 * 1.5
    assert made.gain == pytest.approx(exact, abs=1e-3)


def test_the_exact_gain_of_what_is_steered_is_that_of_a_simulation():
    """Its standard error in a simulation of 8 million steps is about 0.0001."""
    made = OUTSIDE_DECISIONS[STEERED]()
    assert isinstance(made, Steered)
    simulated = NumberDecisions.gain.func(made)
    assert made.gain == pytest.approx(simulated, abs=5e-4)


def test_logs_with_long_sojourns_last_as_long_as_they_should():
    made = ALL["pareto"]()
    logs = made.logs(np.random.default_rng(0), 20_000, 10)
    assert logs.durations is not None
    expected = made.lasting[logs.states, logs.actions]
    assert logs.durations.mean() == pytest.approx(expected.mean(), rel=0.02)
    paid = made.paid[logs.states, logs.actions]
    assert logs.rewards.mean() == pytest.approx(paid.mean(), abs=0.02)
