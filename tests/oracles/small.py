"""Textbook chains that are solved by hand."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import gammaln

from .record import ExactChain, Extended, finished, wide


def two_state(leave_first: float, leave_second: float, rewards: tuple[float, float]) -> ExactChain:
    """The difference of the biases is that of the rewards over the sum of the exit probabilities."""
    p, q = Extended(leave_first), Extended(leave_second)
    law = wide([q, p]) / (p + q)
    difference = (wide(rewards)[0] - wide(rewards)[1]) / (p + q)
    chain = finished(
        np.array([[1 - leave_first, leave_first], [leave_second, 1 - leave_second]]),
        rewards,
        law,
        difference * wide([1, 0]),
    )
    known = p * q * (2 - p - q) / (p + q) * difference**2
    assert np.isclose(chain.asymptotic_variance, float(known), rtol=1e-14)
    return chain


def iid_rows(law: ArrayLike, rewards: ArrayLike) -> ExactChain:
    """Every row is the law: the bias is the reward above average, the asymptotic variance its variance."""
    law = np.asarray(law, dtype=np.float64)
    return finished(np.tile(law, (len(law), 1)), rewards, wide(law) / wide(law).sum(), wide(rewards))


def cycle(rewards: ArrayLike) -> ExactChain:
    """One state after the other in a cycle: nothing is random, so the asymptotic variance is zero."""
    reward = wide(rewards)
    n = len(reward)
    transitions = csr_array((np.ones(n), (np.arange(n), np.roll(np.arange(n), -1))), shape=(n, n))
    ahead = np.cumsum((reward - reward.mean())[::-1])[::-1]
    return finished(transitions, reward, np.full(n, 1 / Extended(n)), ahead)


def layered_cycle(laws: ArrayLike, rewards: ArrayLike) -> ExactChain:
    """A chain of period k: whatever the state of layer l, the next one is drawn from ``laws[l + 1]``."""
    laws = np.asarray(laws, dtype=np.float64)
    k, width = laws.shape
    transitions = np.kron(np.roll(np.eye(k), 1, axis=1), np.ones((width, width))) * laws.ravel()
    law, reward = wide(laws) / wide(laws).sum(axis=1, keepdims=True), wide(rewards)
    expected = (law * reward).sum(axis=1)
    ahead = np.cumsum((expected - expected.mean())[::-1])[::-1]
    bias = reward + np.roll(ahead, -1)[:, np.newaxis]
    return finished(transitions, reward.ravel(), law.ravel() / k, bias.ravel())


def with_transient_tail(chain: ExactChain, advance: ArrayLike, tail_rewards: ArrayLike) -> ExactChain:
    """Append transient states: tail state j goes to j - 1 with probability ``advance[j]``.

    The first one enters the chain, at its first or its last state with equal chances.
    """
    advance = np.asarray(advance, dtype=np.float64)
    n, tail = chain.num_states, len(advance)
    transitions = np.zeros((n + tail, n + tail))
    transitions[:n, :n] = (
        chain.transitions.toarray() if hasattr(chain.transitions, "toarray") else chain.transitions
    )
    places = np.arange(n, n + tail)
    transitions[places, places] = 1 - advance
    transitions[places[1:], places[:-1]] = advance[1:]
    transitions[n, [0, n - 1]] = advance[0] / 2
    on_the_way = np.cumsum((wide(tail_rewards) - Extended(chain.gain)) / wide(advance))
    entry = (wide(chain.bias[0]) + wide(chain.bias[-1])) / 2
    return finished(
        transitions,
        np.append(chain.rewards, tail_rewards),
        np.append(wide(chain.stationary), np.zeros(tail)),
        np.append(wide(chain.bias), entry + on_the_way),
        chain.gain,
    )


def gambler(fortune: int, start: int, win: float, rewards: ArrayLike) -> ExactChain:
    """Play for one unit until ruin (0) or ``fortune``, then start again: expected visits give the answer."""
    lose = 1 - win
    transitions = np.diag(np.full(fortune, win), 1) + np.diag(np.full(fortune, lose), -1)
    transitions[[0, fortune]] = 0
    transitions[[0, fortune], start] = 1

    odds = (Extended(lose) / Extended(win)) ** np.arange(fortune)
    below = np.insert(np.cumsum(odds), 0, 0)  # the scale function
    above = np.append(np.cumsum(odds[::-1])[::-1], 0)
    inner = np.arange(1, fortune)
    low, high = np.minimum.outer(inner, inner), np.maximum.outer(inner, inner)
    visits = below[low] * above[high] / (below[fortune] * odds[inner] * Extended(win))
    wins = below[inner] / below[fortune]
    ruins = above[inner] / below[fortune]

    cycle_visits = np.concatenate([[ruins[start - 1]], visits[start - 1], [wins[start - 1]]])
    law = cycle_visits / cycle_visits.sum()
    excess = wide(rewards) - (law * wide(rewards)).sum()
    until_restart = visits @ excess[inner] + wins * excess[-1] + ruins * excess[0]
    return finished(transitions, rewards, law, np.concatenate([[excess[0]], until_restart, [excess[-1]]]))


def simultaneous_revision(players: int, threshold: int, mutation: float) -> ExactChain:
    """All players revise at once (Kandori, Mailath and Rob): the two different rows lump to two states.

    From ``threshold`` players on, everybody plays action 1 except for mutants, who toss a coin; the reward
    is the share of action 1.
    """
    ones = np.arange(players + 1)
    log_binomial = gammaln(players + 1) - gammaln(ones + 1) - gammaln(players - ones + 1)
    few = np.exp(log_binomial + ones * np.log(mutation / 2) + (players - ones) * np.log1p(-mutation / 2))
    few /= few.sum()
    many = few[::-1]
    above = ones >= threshold
    transitions = np.where(above[:, np.newaxis], many, few)

    share = wide(ones) / players
    rise, fall = wide(few)[above].sum(), wide(many)[~above].sum()
    law = (fall * wide(few) + rise * wide(many)) / (rise + fall)
    difference = ((wide(many) - wide(few)) * share).sum() / (rise + fall)
    steps = np.where(above, difference, 0) if fall > rise else np.where(above, 0, -difference)
    return finished(transitions, share, law, share + steps)


def counted_ring(num_states: int, forward: float, backward: float) -> ExactChain:
    """A ring that pays +1 for a step forward and -1 for one backward: no state is better than another.

    The rewards are those of the transitions, an (n, n) array; the asymptotic variance is that of one step.
    """
    steps = np.roll(np.eye(num_states), 1, axis=1)
    gain = Extended(forward) - Extended(backward)
    return ExactChain(
        transitions=forward * steps + backward * steps.T + (1 - forward - backward) * np.eye(num_states),
        rewards=steps - steps.T,
        stationary=np.full(num_states, 1 / num_states),
        gain=float(gain),
        bias=np.zeros(num_states),
        asymptotic_variance=float(Extended(forward) + Extended(backward) - gain**2),
    )
