"""Access control (Sutton and Barto, Example 10.2): ten servers, and customers who pay 1, 2, 4 or 8.

Those who pay 1 are sent away, those who pay 2 need four free servers. What does that earn in a step, and
what is a free server worth?
"""

import gymnasium
import numpy as np
from gymnasium import spaces

import gainbias as gb

SERVERS, PAYMENTS, LEAST_FREE = 10, (1.0, 2.0, 4.0, 8.0), (11, 4, 1, 1)


class Access(gymnasium.Env):
    """The observation is the number of free servers and the customer in front; action 1 lets in."""

    observation_space = spaces.MultiDiscrete([SERVERS + 1, len(PAYMENTS)])
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin with all servers free."""
        super().reset(seed=seed)
        self.free, self.customer = SERVERS, self.np_random.integers(len(PAYMENTS))
        return np.array([self.free, self.customer]), {}

    def step(self, action):
        """Serve or send away; then each busy server becomes free with probability 0.06."""
        served = action == 1 and self.free > 0
        reward = PAYMENTS[self.customer] if served else 0.0
        self.free -= served
        self.free += self.np_random.binomial(SERVERS - self.free, 0.06)
        self.customer = self.np_random.integers(len(PAYMENTS))
        return np.array([self.free, self.customer]), reward, False, False, {}


def policy(observation):
    """Let in if enough servers are free."""
    free, customer = observation
    return int(free >= LEAST_FREE[customer])


estimate = gb.evaluate(Access, policy, num_steps=300_000)
print(estimate, "\n")

# The same servers are a task of the package, with a known model.
process = gb.task("access-control").problem.mrp
exact = gb.solve(process)
low, high = estimate.gain_interval
print(f"gain {estimate.gain:.3f}, interval {low:.3f} to {high:.3f}; exact {exact.gain:.3f}")
for free in (0, 2, 4):
    low, high = estimate.value_interval([free, 3])
    bias = exact.bias[process.labels.index(f"{free} free, pays 8")]
    found = f"value of {free} free servers {estimate.value([free, 3]):.2f}, interval {low:.2f} to {high:.2f}"
    print(f"{found}; exact {bias:.2f}")
