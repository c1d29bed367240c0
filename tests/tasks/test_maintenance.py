"""Machine replacement: reward and length of the life of one machine."""

import numpy as np
import pytest

import gainbias as gb


def gain_by_renewal(age, survival=0.998, wear=2.0, income=1.0, failure=10.0, planned=2.0):
    alive = survival ** (np.arange(age + 1.0) ** wear)
    return income - (failure * (1.0 - alive[-1]) + planned * alive[-1]) / alive[:-1].sum()


@pytest.mark.parametrize("settings", [{}, {"survival": 0.5, "wear": 0.5}, {"wear": 1.0, "income": 4.0}])
@pytest.mark.parametrize("age", [1, 2, 12, 30])
def test_gain_by_renewal(age, settings):
    solution = gb.task("machine-replacement", replace_at=age, **settings).problem.solution
    assert solution.gain == pytest.approx(gain_by_renewal(age, **settings), rel=1e-11)
    assert solution.mrp.num_states == age


def test_bias_is_what_the_rest_of_a_life_brings():
    solution = gb.task("machine-replacement").problem.solution
    alive = 0.998 ** (np.arange(13.0) ** 2)
    rest = [
        (1.0 - solution.gain) * alive[age:-1].sum() / alive[age]
        - 10.0 * (1.0 - alive[-1] / alive[age])
        - 2.0 * alive[-1] / alive[age]
        for age in range(12)
    ]
    np.testing.assert_allclose(solution.bias - solution.bias[0], np.array(rest) - rest[0], atol=1e-11)


def test_default_age_is_the_best():
    gains = [gain_by_renewal(age) for age in range(1, 60)]
    assert np.argmax(gains) + 1 == gb.TASKS["machine-replacement"].settings["replace_at"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replace_at": 0}, "replace_at must be an integer of at least 1, found 0"),
        ({"survival": 1.0}, "survival must be above 0 and below 1, found 1.0"),
        ({"wear": 0.0}, "wear must be above 0, found 0.0"),
        ({"income": "x"}, "income must be a finite number, found 'x'"),
        ({"failure_cost": -1.0}, "failure_cost must be at least 0, found -1.0"),
        ({"planned_cost": -1.0}, "planned_cost must be at least 0, found -1.0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task("machine-replacement", **settings)
