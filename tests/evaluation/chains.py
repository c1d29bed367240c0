"""Small environments with known models."""

import gymnasium
import numpy as np
from gymnasium import spaces

import gainbias as gb


class Queue(gymnasium.Env):
    """A queue of at most `capacity` customers; action 1 admits an arrival for a reward, waiting costs."""

    arrival, service, capacity = 0.4, 0.5, 5

    def __init__(self):
        self.observation_space = spaces.Discrete(self.capacity + 1)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self.length, {}

    def step(self, action):
        before, draw = self.length, self.np_random.random()
        if draw < self.arrival and action == 1 and before < self.capacity:
            self.length += 1
        elif self.arrival <= draw < self.arrival + self.service and before > 0:
            self.length -= 1
        return self.length, float(self.length > before) * 5.0 - before, False, False, {}


def queue_process():
    """The queue when every arrival is admitted."""
    size = Queue.capacity + 1
    moves, rewards = np.zeros((size, size)), np.zeros((size, size))
    for here in range(size):
        up = Queue.arrival if here < Queue.capacity else 0.0
        down = Queue.service if here > 0 else 0.0
        for after, probability in ((here + 1, up), (here - 1, down), (here, 1.0 - up - down)):
            if probability > 0.0:
                moves[here, after] += probability
                rewards[here, after] = 5.0 * (after > here) - here
    return gb.MarkovRewardProcess(moves, rewards)


class Walk(gymnasium.Env):
    """From 2 to the left or right among 0 to 4; an episode ends at 0, and at 2 with probability 0.2.

    So observation 2 is a start, a middle and an end. `cut` truncates after so many steps.
    """

    def __init__(self, cut=None):
        self.observation_space = spaces.Discrete(5)
        self.action_space = spaces.Discrete(2)
        self.cut = cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = 2, 0
        return self.place, {}

    def step(self, action):
        self.count += 1
        self.place = min(4, self.place + (1 if self.np_random.random() < 0.5 else -1))
        ended = self.place == 0 or (self.place == 2 and self.np_random.random() < 0.2)
        cut = self.cut is not None and self.count >= self.cut
        return self.place, float(self.place), bool(ended), cut, {}


def walk_process(on_termination):
    """The walk with episodes joined; state 5 stands for ends."""
    moves, rewards = np.zeros((6, 6)), np.zeros((6, 6))
    end = 5 if on_termination == "zero" else 2
    for here in (1, 2, 3, 4):
        for after in (min(4, here + 1), here - 1):
            ends = {0: 1.0, 2: 0.2}.get(after, 0.0)
            for to, probability in ((end, 0.5 * ends), (after, 0.5 * (1.0 - ends))):
                if probability > 0.0:
                    earned = moves[here, to] * rewards[here, to] + probability * after
                    moves[here, to] += probability
                    rewards[here, to] = earned / moves[here, to]
    moves[0, 2] = moves[5, 2] = 1.0  # 0 is never seen, and without a state for ends 5 is not either
    return gb.MarkovRewardProcess(moves, rewards)


class Counter(gymnasium.Env):
    """Counts its steps and remembers its seeds; the observation array is always the same object."""

    def __init__(self, start=0.0):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Box(-1.0, 1.0, (1,))
        self.seen = np.full(2, start, dtype=np.float32)
        self.seeds, self.noise = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.seen[:] = 0.0
        return self.seen, {}

    def step(self, action):
        self.noise.append(self.np_random.random())
        self.seen += 1.0
        return self.seen, float(self.seen.flat[0]), False, False, {}


def taken(stream, count):
    """The first batches of all chains with at least so many transitions of chain 0, and close."""
    batches, found = [], 0
    for batch in stream:
        batches.append(batch)
        found += len(batch) if batch.chain == 0 else 0
        if found >= count and batch.chain == stream.num_chains - 1:
            break
    stream.close()
    return batches


def column(batches, name, chain=0):
    return np.concatenate([getattr(batch, name) for batch in batches if batch.chain == chain])


def check_against(process, batches, chain=0):
    """Counts of transitions and their rewards against a model, within 4 standard errors."""
    here, after = (column(batches, name, chain) for name in ("here", "after"))
    rewards = column(batches, "rewards", chain)
    size = process.num_states
    counts = np.zeros((size, size))
    np.add.at(counts, (here, after), 1.0)
    visits = counts.sum(axis=1)
    moves = process.csr.toarray()
    assert not counts[moves == 0.0].any()
    error = np.sqrt(visits[:, None] * moves * (1.0 - moves))
    assert (np.abs(counts - visits[:, None] * moves) <= 4.0 * error + 1e-9).all()
    solution = gb.solve(process)
    allowed = 4.0 * np.sqrt(solution.asymptotic_variance / len(rewards))
    assert abs(rewards.mean() - solution.gain) <= allowed
    return counts
