"""Inventory: reward and length of the time between two orders, and a simulation of the shop."""

from math import exp

import numpy as np
import pytest

import gainbias as gb

DEFAULT = {
    "reorder_at": 3,
    "order_up_to": 20,
    "mean_demand": 4.0,
    "price": 3.0,
    "unit_cost": 1.0,
    "fixed_cost": 8.0,
    "holding_cost": 0.2,
    "shortage_cost": 1.0,
}


def gain_by_renewal(
    reorder_at, order_up_to, mean_demand, price, unit_cost, fixed_cost, holding_cost, shortage_cost
):
    """Total reward and time from a full shop to the next order, by recursion over the stock."""
    chances = [exp(-mean_demand)]
    for units in range(1, 200):
        chances.append(chances[-1] * mean_demand / units)
    earned, time = {}, {}
    for stock in range(reorder_at + 1, order_up_to + 1):
        reward, rest = 0.0, 0.0
        for demand, chance in enumerate(chances):
            sold = min(demand, stock)
            left = stock - sold
            reward += chance * (price * sold - holding_cost * left - shortage_cost * (demand - sold))
            if left <= reorder_at:
                reward -= chance * (fixed_cost + unit_cost * (order_up_to - left))
            elif demand > 0:
                reward += chance * earned[left]
                rest += chance * time[left]
        earned[stock] = reward / (1.0 - chances[0])
        time[stock] = (1.0 + rest) / (1.0 - chances[0])
    return earned[order_up_to] / time[order_up_to]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reorder_at": 0, "order_up_to": 3},
        {"reorder_at": 6, "order_up_to": 7, "mean_demand": 9.0},
        {"mean_demand": 0.5, "shortage_cost": 0.0, "unit_cost": 0.0},
    ],
)
def test_gain_by_renewal(settings):
    gain = gb.task("inventory", **settings).problem.solution.gain
    assert gain == pytest.approx(gain_by_renewal(**{**DEFAULT, **settings}), rel=1e-10)


def test_default_policy_is_the_best():
    settings = gb.TASKS["inventory"].settings
    assert settings == {**DEFAULT, "num_features": None}
    gains = {
        (low, high): gain_by_renewal(**{**DEFAULT, "reorder_at": low, "order_up_to": high})
        for high in range(15, 26)
        for low in range(8)
    }
    assert max(gains, key=gains.get) == (settings["reorder_at"], settings["order_up_to"])


def test_simulation_agrees():
    rng = np.random.default_rng(2)
    steps, stock, earned = 100_000, 20, []
    for demand in rng.poisson(4.0, steps):
        spent = 8.0 + (20 - stock) if stock <= 3 else 0.0
        there = 20 if stock <= 3 else stock
        stock = max(there - demand, 0)
        sold = there - stock
        earned.append(3.0 * sold - spent - 0.2 * stock - (demand - sold))
    blocks = np.mean(np.reshape(earned, (100, -1)), axis=1)
    error = blocks.std() / 10.0
    assert abs(blocks.mean() - gb.task("inventory").problem.solution.gain) < 4.0 * error < 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reorder_at": 20}, "reorder_at must be below order_up_to, found 20 and 20"),
        ({"reorder_at": -1}, "reorder_at must be an integer of at least 0, found -1"),
        ({"order_up_to": 0}, "order_up_to must be an integer of at least 1, found 0"),
        ({"order_up_to": "many"}, "order_up_to must be an integer of at least 1, found 'many'"),
        ({"mean_demand": 0.0}, "mean_demand must be above 0, found 0.0"),
        ({"price": -3.0}, "price must be at least 0, found -3.0"),
        ({"holding_cost": np.nan}, "holding_cost must be at least 0, found nan"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task("inventory", **settings)
