"""Inventory under an (s, S) policy: when the stock is at most s, order up to S.

The state x in 0, ..., S is the stock when it is counted, once in each period. If x <= s, S - x units are
ordered and come at once, so that y = S are there, otherwise y = x. Demand D is Poisson, the next state is
max(y - D, 0), and what is not there is not sold. The expected reward of the period is

    price E min(D, y) - [fixed_cost + unit_cost (S - x)] 1{x <= s} - holding_cost E max(y - D, 0)
                      - shortage_cost E max(D - y, 0).

The default s and S are the best ones.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_integer, as_number
from gainbias.tasks.task import Recipe, Settings, Source, tabular


def inventory_process(
    reorder_at: int,
    order_up_to: int,
    mean_demand: float,
    *,
    price: float,
    unit_cost: float,
    fixed_cost: float,
    holding_cost: float,
    shortage_cost: float,
) -> MarkovRewardProcess:
    """Return the stock under the policy that fills up to `order_up_to` when at most `reorder_at` is there.

    Examples
    --------
    >>> process = inventory_process(0, 1, np.log(2.0), price=4.0, unit_cost=1.0, fixed_cost=0.5,
    ...                             holding_cost=0.2, shortage_cost=0.0)
    >>> process.transitions, process.rewards
    (array([[0.5, 0.5],
           [0.5, 0.5]]), array([0.4, 1.9]))
    """
    stock = np.arange(order_up_to + 1)
    orders = stock <= reorder_at
    there = np.where(orders, order_up_to, stock)
    demand = stats.poisson(mean_demand)
    chain = np.where(stock > 0, demand.pmf(there[:, None] - stock), demand.sf(there - 1)[:, None])
    left = chain @ stock
    sold = there - left
    spent = np.where(orders, fixed_cost + unit_cost * (order_up_to - stock), 0.0)
    rewards = price * sold - spent - holding_cost * left - shortage_cost * (mean_demand - sold)
    return MarkovRewardProcess(chain, rewards)


def _process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    order_up_to = as_integer(settings["order_up_to"], "order_up_to", least=1)
    reorder_at = as_integer(settings["reorder_at"], "reorder_at", least=0)
    if reorder_at >= order_up_to:
        raise ValueError(f"reorder_at must be below order_up_to, found {reorder_at} and {order_up_to}")
    costs = ("price", "unit_cost", "fixed_cost", "holding_cost", "shortage_cost")
    process = inventory_process(
        reorder_at,
        order_up_to,
        as_number(settings["mean_demand"], "mean_demand", above=0.0),
        **{name: as_number(settings[name], name, at_least=0.0) for name in costs},
    )
    return process, {}


RECIPES = (
    Recipe(
        name="inventory",
        summary="A shop that orders up to S when its stock is at most s.",
        citation=(
            "Scarf: The Optimality of (S, s) Policies in the Dynamic Inventory Problem, in: Mathematical "
            "Methods in the Social Sciences, Stanford University Press 1960"
        ),
        num_states=21,
        settings={
            "num_features": None,
            "reorder_at": 3,
            "order_up_to": 20,
            "mean_demand": 4.0,
            "price": 3.0,
            "unit_cost": 1.0,
            "fixed_cost": 8.0,
            "holding_cost": 0.2,
            "shortage_cost": 1.0,
        },
        process=_process,
        features=tabular,
    ),
)
