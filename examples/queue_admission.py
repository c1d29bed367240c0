"""Admission control of a queue: a customer who is let in pays, and everybody who waits costs something.

What does it earn to let customers in while fewer than seven are there, and is it worth more than to let in
everybody? Run it with --plot for a picture.
"""

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

import gainbias as gb

ARRIVAL, SERVICE, CAPACITY, FEE, WAITING = 0.40, 0.45, 20, 1.0, 0.03


class Queue(gymnasium.Env):
    """One server; in each step somebody arrives, or is served, or nothing happens. Action 1 lets in."""

    observation_space, action_space = spaces.Discrete(CAPACITY + 1), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin with nobody there."""
        super().reset(seed=seed)
        self.length = 0
        return self.length, {}

    def step(self, action):
        """Return the new length of the queue, and what was earned."""
        reward, draw = -WAITING * self.length, self.np_random.random()
        if draw < ARRIVAL:
            if action == 1 and self.length < CAPACITY:
                self.length, reward = self.length + 1, reward + FEE
        elif draw < ARRIVAL + SERVICE and self.length > 0:
            self.length -= 1
        return self.length, reward, False, False, {}


def exact(policy):
    """The same queue as a Markov reward process."""
    length = np.arange(CAPACITY + 1)
    up, down = ARRIVAL * policy * (length < CAPACITY), SERVICE * (length > 0)
    moves = np.diag(1.0 - up - down) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    return gb.solve(gb.MarkovRewardProcess(moves, FEE * up - WAITING * length))


short = np.where(np.arange(CAPACITY + 1) < 7, 1, 0)
everybody = np.ones(CAPACITY + 1, dtype=int)

estimate = gb.evaluate(Queue, short, num_steps=200_000)
print(estimate)
print(gb.compare(Queue, short, everybody, num_steps=200_000), "\n")

answer, (low, high) = exact(short), estimate.gain_interval
print(f"gain {estimate.gain:.4f}, interval {low:.4f} to {high:.4f}; exact {answer.gain:.4f}")
(low, high), value = estimate.value_interval(0), estimate.value(0)
print(f"value of an empty queue {value:.2f}, interval {low:.2f} to {high:.2f}; exact {answer.bias[0]:.2f}")
if "--plot" in sys.argv:
    gb.plot(estimate).figure.savefig("queue_admission.png")
