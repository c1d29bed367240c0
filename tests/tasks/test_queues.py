"""Queues: truncated geometric laws, and relative value iteration for the best policies."""

from math import comb

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.chains.operations import access_control_process, admission_process


class TestAdmission:
    @pytest.mark.parametrize(
        ("arrival", "service", "threshold"), [(0.8, 1.0, 7), (3.0, 2.0, 4), (1.0, 1.0, 9)]
    )
    def test_law_and_gain_in_closed_form(self, arrival, service, threshold):
        task = gb.task(
            "mm1k-admission",
            arrival_rate=arrival,
            service_rate=service,
            threshold=threshold,
            fee=5.0,
            waiting_cost=0.3,
        )
        load = arrival / service
        law = load ** np.arange(threshold + 1)
        law /= law.sum()
        np.testing.assert_allclose(task.problem.solution.stationary, law, rtol=1e-12)
        mean_length = (
            load / (1 - load) - (threshold + 1) * load ** (threshold + 1) / (1 - load ** (threshold + 1))
            if load != 1.0
            else threshold / 2
        )
        per_time = 5.0 * arrival * (1.0 - law[-1]) - 0.3 * mean_length
        assert task.source["steps_per_unit_of_time"] == arrival + service
        assert task.problem.solution.gain * (arrival + service) == pytest.approx(per_time, rel=1e-12)

    def test_differences_of_the_bias_by_recursion(self):
        # Where the queue grows, the bias rises by what is left of the balance of rewards in all states below.
        process = admission_process(0.8, 1.0, 7, 1.0, 0.05)
        solution = gb.solve(process)
        flow = np.cumsum(solution.stationary * (solution.gain - process.rewards))[:-1]
        np.testing.assert_allclose(
            np.diff(solution.bias), flow / (solution.stationary[:-1] * 0.8 / 1.8), rtol=1e-9
        )

    def test_default_threshold_is_the_best(self):
        settings = gb.TASKS["mm1k-admission"].settings
        gains = [
            gb.task("mm1k-admission", threshold=threshold).problem.solution.gain
            for threshold in range(1, settings["capacity"] + 1)
        ]
        assert np.argmax(gains) + 1 == settings["threshold"]

    def test_rewards_are_paid_when_they_fall_due(self):
        rewards = admission_process(1.0, 3.0, 2, fee=4.0, waiting_cost=2.0).transition_rewards
        np.testing.assert_array_equal(rewards, [[0.0, 4.0, 0.0], [-0.5, -0.5, 3.5], [-1.0, -1.0, -1.0]])


def best_access_control(servers=10, free=0.06, priorities=(1.0, 2.0, 4.0, 8.0)):
    """Gain and policy by relative value iteration on the number of free servers before a customer asks."""
    move = np.zeros((servers + 1, servers + 1))
    for now in range(servers + 1):
        for more in range(servers - now + 1):
            ways = comb(servers - now, more)
            move[now, now + more] = ways * free**more * (1.0 - free) ** (servers - now - more)
    values = np.zeros(servers + 1)
    while True:
        ahead = move @ values
        let_in = np.array([[-np.inf, *(pay + ahead[:-1])] for pay in priorities])
        new = np.maximum(let_in, ahead).mean(axis=0)
        if np.ptp(new - values) < 1e-12:
            return (new - values).mean(), let_in > ahead
        values = new - new[-1]


class TestAccessControl:
    def test_default_policy_is_the_best(self):
        gain, lets_in = best_access_control()
        least_free = gb.TASKS["access-control"].settings["least_free"]
        np.testing.assert_array_equal(lets_in, [np.arange(11) >= least for least in least_free])
        assert gb.task("access-control").problem.solution.gain == pytest.approx(gain, abs=1e-11)
        assert 2.7 < gain < 2.8

    def test_one_server_by_hand(self):
        # The server is free with probability f = (1 - f) p + f q p + f (1 - q); a share q is let in.
        gain = gb.task(
            "access-control", num_servers=1, free_probability=0.2, priorities=[3.0, 5.0], least_free=[2, 1]
        ).problem.solution.gain
        assert gain == pytest.approx(2.5 * 0.2 / (0.2 + 0.5 * 0.8), rel=1e-12)

    def test_simulation_agrees(self):
        rng = np.random.default_rng(1)
        steps, free, earned = 100_000, 10, []
        asked = rng.integers(0, 4, steps)
        for customer in asked:
            let_in = free >= (9, 5, 2, 1)[customer]
            earned.append(2.0**customer * let_in)
            free -= let_in
            free += rng.binomial(10 - free, 0.06)
        solution = gb.task("access-control", least_free=[9, 5, 2, 1]).problem.solution
        error = np.sqrt(solution.asymptotic_variance / steps)
        assert abs(np.mean(earned) - solution.gain) < 4.0 * error < 0.05

    def test_states_that_are_never_reached_are_left_out(self):
        process = access_control_process(5, 0.1, [1.0, 2.0], [4, 3])
        assert process.labels[0] == "2 free, pays 1"
        assert process.num_states == 8
        assert process.is_ergodic
        assert gb.task("access-control", least_free=[11] * 4).problem.mrp.num_states == 4


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("mm1k-admission", {"arrival_rate": -1.0}, "arrival_rate must be above 0, found -1.0"),
        ("mm1k-admission", {"arrival_rate": "fast"}, "arrival_rate must be above 0, found 'fast'"),
        ("mm1k-admission", {"service_rate": 0}, "service_rate must be above 0, found 0"),
        ("mm1k-admission", {"service_rate": np.inf}, "service_rate must be above 0, found inf"),
        ("mm1k-admission", {"capacity": 0}, "capacity must be an integer of at least 1, found 0"),
        ("mm1k-admission", {"capacity": 10.0}, "capacity must be an integer of at least 1, found 10.0"),
        ("mm1k-admission", {"threshold": 11}, "threshold must be an integer of at least 1 and at most 10"),
        ("mm1k-admission", {"fee": np.nan}, "fee must be a finite number, found nan"),
        ("mm1k-admission", {"fee": -np.inf}, "fee must be a finite number, found -inf"),
        ("mm1k-admission", {"fee": True}, "fee must be a finite number, found True"),
        ("mm1k-admission", {"capacity": True}, "capacity must be an integer of at least 1, found True"),
        ("mm1k-admission", {"waiting_cost": -1}, "waiting_cost must be at least 0, found -1"),
        ("access-control", {"num_servers": 0}, "num_servers must be an integer of at least 1"),
        (
            "access-control",
            {"free_probability": 1.0},
            "free_probability must be above 0 and below 1, found 1.0",
        ),
        (
            "access-control",
            {"free_probability": True},
            "free_probability must be above 0 and below 1, found True",
        ),
        ("access-control", {"priorities": []}, r"priorities must be a list of numbers, found \(\)"),
        (
            "access-control",
            {"priorities": [1, "x", 2, 3]},
            "each entry of priorities must be a finite number",
        ),
        (
            "access-control",
            {"least_free": [1, 1]},
            "least_free must have one entry for each of the 4 priorities",
        ),
        (
            "access-control",
            {"least_free": [0, 1, 1, 1]},
            "each entry of least_free must be an integer of at least",
        ),
        ("access-control", {"least_free": [12, 1, 1, 1]}, "at most 11, found 12"),
    ],
)
def test_wrong_settings(name, settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task(name, **settings)
