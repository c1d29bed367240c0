"""Birth-death chains: the law is a product, the bias a sum of flows over cuts.

Over the cut between i and i + 1 the stationary flow is ``mu_i up_i``; the Poisson equation summed up to i
says

    mu_i up_i (W_{i+1} - W_i) = sum_{k <= i} mu_k (g - R_k) = sum_{k > i} mu_k (R_k - g).

The side that carries less of ``mu |R - g|`` is summed, so that small tails keep their digits. In extended
precision law and bias are right to the last bit or two of a double at 1,000,000 states (``test_oracles``
compares with interval arithmetic).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array

from .record import ExactChain, Floats, Wide, finished, wide


def birth_death(up: ArrayLike, down: ArrayLike, rewards: ArrayLike) -> ExactChain:
    """The chain that goes from i to i + 1 with probability ``up[i]`` and back with ``down[i]``."""
    up, down = np.asarray(up, dtype=np.float64), np.asarray(down, dtype=np.float64)
    stay = 1.0 - np.append(up, 0.0) - np.insert(down, 0, 0.0)
    transitions = csr_array(diags_array([down, stay, up], offsets=[-1, 0, 1]))
    transitions.eliminate_zeros()
    return _solved(transitions, up, down, rewards)


def birth_death_rates(birth: ArrayLike, death: ArrayLike, reward_rates: ArrayLike) -> ExactChain:
    """The same in continuous time, where the asymptotic variance is ``2 <r - g, W>``."""
    birth, death = np.asarray(birth, dtype=np.float64), np.asarray(death, dtype=np.float64)
    exit_rates = np.append(birth, 0.0) + np.insert(death, 0, 0.0)
    generator = csr_array(diags_array([death, -exit_rates, birth], offsets=[-1, 0, 1]))
    chain = _solved(generator, birth, death, reward_rates)
    weights = wide(chain.stationary) * (wide(chain.rewards) - wide(chain.gain))
    return replace(chain, asymptotic_variance=float(2 * (weights * chain.bias).sum()))


def uniformised(chain: ExactChain) -> ExactChain:
    """The chain in discrete time of a birth-death process, at its largest exit rate times 5/4."""
    generator = chain.transitions
    rate = 1.25 * float(-generator.diagonal().min())
    return birth_death(generator.diagonal(1) / rate, generator.diagonal(-1) / rate, chain.rewards / rate)


def _solved(matrix: csr_array, up: Floats, down: Floats, rewards: ArrayLike) -> ExactChain:
    weights = np.cumprod(np.insert(wide(up) / wide(down), 0, 1))
    law = weights / weights.sum()
    reward = wide(rewards)
    gain = (law * reward).sum()
    steps = _over_cuts(law * (gain - reward)) / (law[:-1] * up)
    # Added up from the likeliest state outwards: far from it the bias can be so large that digits are lost.
    top = int(law.argmax())
    bias = np.concatenate([-np.cumsum(steps[:top][::-1])[::-1], [0], np.cumsum(steps[top:])])
    return finished(matrix, reward, law, bias, gain)


def _over_cuts(terms: Wide) -> Wide:
    """For every cut the sum of the terms on its left, found from the side with the smaller terms."""
    from_left = np.cumsum(terms)[:-1]
    from_right = -np.cumsum(terms[::-1])[::-1][1:]
    sizes = np.abs(terms)
    left_is_smaller = np.cumsum(sizes)[:-1] < np.cumsum(sizes[::-1])[::-1][1:]
    return np.where(left_is_smaller, from_left, from_right)


def queue_rates(
    arrival: float, service: float, servers: int, capacity: int, reward_rates: ArrayLike | None = None
) -> ExactChain:
    """M/M/c/K; the reward counts the customers unless another is given."""
    customers = np.arange(capacity + 1)
    deaths = service * np.minimum(customers[1:], servers)
    rewards = customers if reward_rates is None else reward_rates
    return birth_death_rates(np.full(capacity, arrival), deaths, rewards)


def machine_repair_rates(machines: int, failure: float, repair: float, crews: int) -> ExactChain:
    """Machines that fail and ``crews`` that repair them; the reward counts the machines that work."""
    broken = np.arange(machines + 1)
    births = failure * (machines - broken[:-1])
    deaths = repair * np.minimum(broken[1:], crews)
    return birth_death_rates(births, deaths, machines - broken)


def kandori_mailath_rob(players: int, threshold: float, mutation: float) -> ExactChain:
    """One of the players revises at a time: a best reply to the share of the others, or a mutant's coin toss.

    Action 1 is the best reply above the threshold, and indifferent players toss a coin. The reward is the
    share of action 1.
    """
    ones = np.arange(players + 1)
    coin = mutation / 2
    # In state i a player with action 0, and in state i + 1 one with action 1, see i others with action 1.
    share = ones[:-1] / (players - 1)
    reply_one = np.where(share > threshold, 1.0, np.where(share < threshold, 0.0, 0.5))
    up = (players - ones[:-1]) / players * (coin + (1 - mutation) * reply_one)
    down = ones[1:] / players * (coin + (1 - mutation) * (1 - reply_one))
    return birth_death(up, down, ones / players)


def slow_birth_death(num_states: int) -> ExactChain:
    """A walk in a smooth double well: as slow as diffusion, with a law that varies by a factor of 55."""
    place = np.arange(num_states) / num_states
    slope = np.diff(2.0 * np.cos(4 * np.pi * place))
    return birth_death(0.25 * np.exp(-slope / 2), 0.25 * np.exp(slope / 2), np.sin(5 * place) + (place > 0.5))


def stiff_birth_death(num_states: int, rng: np.random.Generator, smallest: float = 1e-28) -> ExactChain:
    """Rates over eight orders of magnitude, and a law that falls to ``smallest``."""
    depth = np.sort(rng.uniform(0, 1, num_states - 2))
    logs = np.log10(smallest) * np.concatenate([[0.0], depth, [1.0]])
    speed = 0.4 * 10 ** rng.uniform(-8, 0, num_states - 1)
    ratio = 10 ** np.diff(logs)
    return birth_death(
        speed * np.minimum(1, ratio), speed * np.minimum(1, 1 / ratio), rng.uniform(-1, 1, num_states)
    )
