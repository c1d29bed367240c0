"""RiverSwim: the product form of chains between neighbours, and a published variant."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.chains import classic


@pytest.mark.parametrize(("size", "swim"), [(6, 1.0), (6, 0.7), (9, 0.9), (2, 0.5)])
def test_product_form(size, swim):
    solution = gb.task("river-swim", num_states=size, swim=swim).problem.solution
    up = [0.6 * swim] + [0.35 * swim] * (size - 2)
    down = [1.0 - swim + 0.05 * swim] * (size - 2) + [1.0 - swim + 0.4 * swim]
    law = np.cumprod([1.0, *(np.array(up) / down)])
    law /= law.sum()
    np.testing.assert_allclose(solution.stationary, law, rtol=1e-11)
    assert solution.gain == pytest.approx(0.005 * (1.0 - swim) * law[0] + swim * law[-1], rel=1e-12)


def test_values_of_a_published_variant(monkeypatch):
    """The public code of Wan, Naik and Sutton has a milder river, and lists its differential values.

    It swims up with 0.9 and down with 0.05, and the large reward is paid only if the swimmer stays.
    """
    monkeypatch.setattr(classic, "FORWARD", 0.9)
    monkeypatch.setattr(classic, "FORWARD_AT_FIRST", 0.9)
    monkeypatch.setattr(classic, "BACK_AT_LAST", 0.05)
    solution = gb.solve(classic.river_swim_process(6, 1.0, 0.005, large_reward=0.95))
    published = [-5.1535953, -4.15668169, -3.10438399, -2.04900939, -0.99346386, 0.06209117]
    np.testing.assert_allclose(solution.bias, published, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_states": 1}, "num_states must be an integer of at least 2, found 1"),
        ({"swim": 0.0}, "swim must be above 0 and at most 1, found 0.0"),
        ({"swim": 1.1}, "swim must be above 0 and at most 1, found 1.1"),
        ({"small_reward": "x"}, "small_reward must be a finite number, found 'x'"),
        ({"large_reward": None}, "large_reward must be a finite number, found None"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task("river-swim", **settings)
