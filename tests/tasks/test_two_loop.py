"""Two loops: gain by hand, and the published differential values."""

import numpy as np
import pytest

import gainbias as gb


def test_published_values():
    """As listed in the public code of Wan, Naik and Sutton for equal chances of left and right."""
    solution = gb.task("two-loop").problem.solution
    np.testing.assert_allclose(solution.bias, [-0.2, -1.4, -1.1, -0.8, -0.5, 0.6, 0.9, 1.2, 1.5], atol=1e-13)
    np.testing.assert_allclose(solution.stationary, [0.2] + [0.1] * 8, atol=1e-14)
    assert solution.gain == pytest.approx(0.3, abs=1e-14)


@pytest.mark.parametrize(("length", "right"), [(5, 0.9), (2, 0.25), (8, 0.5)])
def test_gain_by_hand(length, right):
    task = gb.task("two-loop", loop_length=length, right=right, left_reward=3.0, right_reward=-1.0)
    assert task.problem.solution.gain == pytest.approx((3.0 * (1.0 - right) - right) / length, rel=1e-12)
    assert task.problem.mrp.period == length


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loop_length": 1}, "loop_length must be an integer of at least 2, found 1"),
        ({"right": 1.0}, "right must be above 0 and below 1, found 1.0"),
        ({"right": [0.5]}, r"right must be above 0 and below 1, found \(0.5,\)"),
        ({"left_reward": np.inf}, "left_reward must be a finite number, found inf"),
        ({"right_reward": "x"}, "right_reward must be a finite number, found 'x'"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task("two-loop", **settings)
