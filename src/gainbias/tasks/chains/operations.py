"""Tasks of operations research: two queues with admission control, a stock, and a machine.

`mm1k-admission`: customers arrive at rate lambda at one server, who serves them at rate mu. A customer who
finds n others is let in if n is below a threshold, which is at most the capacity K, and pays a fee; each
customer inside costs c per unit of time. One step is one event of the two clocks, an arrival with probability
lambda / (lambda + mu) or the end of a service, which changes nothing if the queue is empty:

    n -> n + 1  with probability lambda / (lambda + mu) if n < threshold,   reward fee - c n / (lambda + mu)
    n -> n - 1  with probability mu / (lambda + mu) if n > 0,               reward     - c n / (lambda + mu)

and otherwise n stays. The gain per unit of time is lambda + mu times the gain per step. The states are
0, ..., threshold: the queue is never longer. The stationary law is a truncated geometric one. The default
threshold is the best one.

`access-control`: at each step a customer of random priority asks for one of k servers. A customer who is let
in pays the priority and takes a server; then each busy server becomes free with probability p. Customers of
priority i are let in if at least `least_free[i]` servers are free; k + 1 means never. A state is the number
of free servers and the priority of the customer who asks; those with too few free servers to be reached are
left out. The default policy is the best one.

`inventory`: an (s, S) policy, which orders up to S when the stock is at most s. The state x in 0, ..., S is
the stock when it is counted, once in each period. If x <= s, S - x units are ordered and arrive at once,
so that the stock is y = S, otherwise y = x. Demand D is Poisson, the next state is max(y - D, 0), and unmet
demand is lost. The expected reward of the period is

    price E min(D, y) - [fixed_cost + unit_cost (S - x)] 1{x <= s} - holding_cost E max(y - D, 0)
                      - shortage_cost E max(D - y, 0).

The default s and S are the best ones.

`machine-replacement`: replace a machine when it fails, which is expensive, or at a planned age. A machine
that is a periods old fails in the next one with probability f(a), where

    P(it lives longer than a) = S(a) = survival^(a^wear),    f(a) = 1 - S(a + 1) / S(a),

a discrete Weibull law: with `wear` above 1 old machines fail more often. A period pays `income`. After a
failure a new machine costs `failure_cost`; one that reaches the age `replace_at` is replaced for
`planned_cost`. The default age is the best one. The state is the age, and by the renewal theorem, with
A = replace_at,

    gain = income - [failure_cost (1 - S(A)) + planned_cost S(A)] / [S(0) + ... + S(A - 1)].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.task import Recipe, Settings, Source, as_integer, as_number, as_numbers, tabular


def admission_process(
    arrival_rate: float, service_rate: float, threshold: int, fee: float, waiting_cost: float
) -> MarkovRewardProcess:
    """Return the queue that lets customers in while fewer than `threshold` are there.

    Examples
    --------
    >>> admission_process(1.0, 3.0, threshold=1, fee=4.0, waiting_cost=2.0).transitions
    array([[0.75, 0.25],
           [0.75, 0.25]])
    """
    rate = arrival_rate + service_rate
    length = np.arange(threshold + 1)
    chain = np.zeros((threshold + 1, threshold + 1))
    chain[length, np.minimum(length + 1, threshold)] += arrival_rate / rate
    chain[length, np.maximum(length - 1, 0)] += service_rate / rate
    rewards = np.broadcast_to(-waiting_cost / rate * length[:, None], chain.shape).copy()
    rewards[length[:-1], length[1:]] += fee
    return MarkovRewardProcess(chain, rewards)


def access_control_process(
    num_servers: int, free_probability: float, priorities: Sequence[float], least_free: Sequence[int]
) -> MarkovRewardProcess:
    """Return the servers under the policy that needs `least_free[i]` free servers to let priority i in.

    Examples
    --------
    >>> process = access_control_process(1, 0.5, priorities=[4.0], least_free=[1])
    >>> process.labels, process.transitions, process.rewards
    (('0 free, pays 4', '1 free, pays 4'), array([[0.5, 0.5],
           [0.5, 0.5]]), array([0., 4.]))
    """
    fewest = min(least_free) - 1  # servers left free by the last customer who can be let in
    free = np.repeat(np.arange(fewest, num_servers + 1), len(priorities))
    lets_in = free >= np.tile(least_free, num_servers + 1 - fewest)
    pays = np.tile(priorities, num_servers + 1 - fewest)
    after = free - lets_in
    becoming_free = np.arange(fewest, num_servers + 1)[None, :] - after[:, None]
    chain = stats.binom.pmf(becoming_free, (num_servers - after)[:, None], free_probability)
    return MarkovRewardProcess(
        np.repeat(chain, len(priorities), axis=1) / len(priorities),
        np.where(lets_in, pays, 0.0),
        [f"{servers} free, pays {priority:g}" for servers, priority in zip(free, pays, strict=True)],
    )


def _admission(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    arrival = as_number(settings["arrival_rate"], "arrival_rate", above=0.0)
    service = as_number(settings["service_rate"], "service_rate", above=0.0)
    capacity = as_integer(settings["capacity"], "capacity", least=1)
    threshold = as_integer(settings["threshold"], "threshold", least=1, most=capacity)
    fee = as_number(settings["fee"], "fee")
    waiting = as_number(settings["waiting_cost"], "waiting_cost", at_least=0.0)
    return admission_process(arrival, service, threshold, fee, waiting), {
        "steps_per_unit_of_time": arrival + service
    }


def _access_control(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    servers = as_integer(settings["num_servers"], "num_servers", least=1)
    free = as_number(settings["free_probability"], "free_probability", above=0.0, below=1.0)
    priorities = as_numbers(settings["priorities"], "priorities")
    needed = settings["least_free"]
    if not isinstance(needed, list | tuple) or len(needed) != len(priorities):
        raise ValueError(
            f"least_free must have one entry for each of the {len(priorities)} priorities, found {needed!r}"
        )
    least_free = [
        as_integer(entry, "each entry of least_free", least=1, most=servers + 1) for entry in needed
    ]
    return access_control_process(servers, free, priorities, least_free), {}


MM1K_ADMISSION = Recipe(
    name="mm1k-admission",
    summary="A queue with one server that lets customers in while it is short.",
    citation="Naor: The Regulation of Queue Size by Levying Tolls, Econometrica 37(1), 1969",
    num_states=8,
    settings={
        "num_features": None,
        "arrival_rate": 0.8,
        "service_rate": 1.0,
        "capacity": 10,
        "threshold": 7,
        "fee": 1.0,
        "waiting_cost": 0.05,
    },
    process=_admission,
    features=tabular,
    title="Queue with admission",
)

ACCESS_CONTROL = Recipe(
    name="access-control",
    summary="Ten servers, and customers of four priorities who are let in or sent away.",
    citation="Sutton, Barto: Reinforcement Learning, 2nd edition, MIT Press 2018, Example 10.2",
    num_states=44,
    settings={
        "num_features": None,
        "num_servers": 10,
        "free_probability": 0.06,
        "priorities": (1.0, 2.0, 4.0, 8.0),
        "least_free": (11, 4, 1, 1),
    },
    process=_access_control,
    features=tabular,
)


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


def _inventory_process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
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


INVENTORY = Recipe(
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
    process=_inventory_process,
    features=tabular,
)


def replacement_process(
    replace_at: int, survival: float, wear: float, income: float, failure_cost: float, planned_cost: float
) -> MarkovRewardProcess:
    """Return the chain of ages of machines that are replaced at `replace_at`.

    Examples
    --------
    >>> process = replacement_process(2, 0.5, 2.0, income=1.0, failure_cost=8.0, planned_cost=1.0)
    >>> process.transitions, process.rewards
    (array([[0.5, 0.5],
           [1. , 0. ]]), array([-3.   , -6.125]))
    """
    age = np.arange(replace_at)
    lasts = survival ** ((age + 1.0) ** wear - age**wear)
    chain = np.zeros((replace_at, replace_at))
    chain[:, 0] = 1.0 - lasts
    chain[age[:-1], age[1:]] = lasts[:-1]
    chain[-1, 0] = 1.0
    rewards = np.full((replace_at, replace_at), income, dtype=np.float64)
    rewards[:-1, 0] -= failure_cost
    rewards[-1, 0] -= (1.0 - lasts[-1]) * failure_cost + lasts[-1] * planned_cost
    return MarkovRewardProcess(chain, rewards)


def _maintenance_process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    process = replacement_process(
        as_integer(settings["replace_at"], "replace_at", least=1),
        as_number(settings["survival"], "survival", above=0.0, below=1.0),
        as_number(settings["wear"], "wear", above=0.0),
        as_number(settings["income"], "income"),
        as_number(settings["failure_cost"], "failure_cost", at_least=0.0),
        as_number(settings["planned_cost"], "planned_cost", at_least=0.0),
    )
    return process, {}


MACHINE_REPLACEMENT = Recipe(
    name="machine-replacement",
    summary="Replace a machine when it fails, or before, at a planned age.",
    citation=(
        "Barlow, Proschan: Mathematical Theory of Reliability, Wiley 1965 (replacement by age); "
        "Nakagawa, Osaki: The Discrete Weibull Distribution, IEEE Transactions on Reliability 24(5), 1975"
    ),
    num_states=12,
    settings={
        "num_features": None,
        "replace_at": 12,
        "survival": 0.998,
        "wear": 2.0,
        "income": 1.0,
        "failure_cost": 10.0,
        "planned_cost": 2.0,
    },
    process=_maintenance_process,
    features=tabular,
)
