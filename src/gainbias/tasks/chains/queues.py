"""Queues that decide whom to let in.

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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_integer, as_number, as_numbers
from gainbias.tasks.task import Recipe, Settings, Source, tabular


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
    fewest = min(least_free) - 1  # the last customer who can be let in leaves so many servers free
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


RECIPES = (
    Recipe(
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
    ),
    Recipe(
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
    ),
)
