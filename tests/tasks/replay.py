"""Real episodes, to hold against an extracted model."""

from collections import Counter, defaultdict

import numpy as np
from scipy import stats

FALSE_ALARM = 2 * stats.norm.sf(4.0)
"""Chance of 4 standard errors: a count is wrong if its binomial tail is smaller than half of this."""

VISITS = 200
"""Frequencies are those of the first visits: the last one depends on what happened at the others, for
instance where a walk comes back until it leaves. After fewer visits, only what is possible is checked."""


def replay_table(env, table, num_steps, seed):
    """Step the real environment at random and check every outcome and every start against the table.

    Each outcome must be in the table with its reward, and as frequent as the table says. A right table
    fails for about 3 seeds of 100 when 500 frequencies are compared; the seeds are fixed.
    """
    rng = np.random.default_rng(seed)
    number = {label: state for state, label in enumerate(table.labels)}
    known = defaultdict(dict)
    for k, pair in enumerate(table.pairs):
        landing = int(table.successors[k]), bool(table.ended[k]), tuple(np.atleast_1d(table.rewards[k]))
        known[int(pair)][landing] = known[int(pair)].get(landing, 0.0) + table.probabilities[k]
    seen, starts = defaultdict(list), []
    restart = True
    for _ in range(num_steps):
        if restart:
            state = number[as_label(env.reset(seed=int(rng.integers(2**31)))[0])]
            starts.append(state)
        action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, truncated, _ = env.step(action)
        successor = number[as_label(observation)]
        landing = successor, terminated, tuple(np.atleast_1d(reward))
        seen[state * table.num_actions + action].append(landing)
        state, restart = successor, terminated or truncated
    for pair, landings in seen.items():
        check_frequencies(landings, known[pair])
    check_frequencies(starts, positive(table.start))
    return seen


def replay_process(env, process, law, num_steps, seed, rewards_by_transition=True):
    """Follow a policy in the real environment, joining episodes, and check every transition of the process.

    `law` has the probability of each action, in every state. Rewards are compared one by one unless they
    depend on the action too. Returns the mean reward per step.
    """
    rng = np.random.default_rng(seed)
    number = {label: state for state, label in enumerate(process.labels)}
    chain, paid = process.csr.toarray(), process.transition_rewards.toarray()
    seen = defaultdict(list)
    state = number[as_label(env.reset(seed=seed)[0])]
    total, ended = 0.0, False
    for _ in range(num_steps):
        if ended:
            successor, reward, ended = number[as_label(env.reset()[0])], 0.0, False
        else:
            observation, reward, ended, _, _ = env.step(int(rng.choice(len(law), p=law)))
            label = as_label(observation)
            successor = number[("ended", label) if ended and ("ended", label) in number else label]
        if rewards_by_transition:
            assert abs(paid[state, successor] - reward) < 1e-12
        seen[state].append(successor)
        total += reward
        state = successor
    for state, successors in seen.items():
        check_frequencies(successors, positive(chain[state]))
    return total / num_steps


def check_frequencies(seen, probabilities):
    """Everything seen must be possible, and about as frequent as it is probable."""
    assert set(seen) <= probabilities.keys()
    if len(seen) >= VISITS:
        counts = Counter(seen[:VISITS])
        for outcome, probability in probabilities.items():
            law = stats.binom(VISITS, min(probability, 1.0))
            tail = min(law.cdf(counts[outcome]), law.sf(counts[outcome] - 1))
            assert tail > FALSE_ALARM / 2, (outcome, probability, counts[outcome])


def positive(probabilities):
    return {int(k): probabilities[k] for k in np.flatnonzero(probabilities)}


def as_label(observation):
    return int(observation) if np.ndim(observation) == 0 else tuple(int(part) for part in observation)
