"""An agent of Stable-Baselines3 that keeps a machine going; what it sees is a dictionary.

The machine wears out, faster under a heavy load. Action 1 replaces it for a price; a worn machine breaks down
now and then, which costs more. The agent is trained for some seconds, and `gainbias` follows it. The
reference is a simulation of 400 machines side by side, with arrays alone. It needs
`pip install stable-baselines3`.
"""

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO

import gainbias as gb

PRICE, DAMAGE = 3.0, 8.0


def step(wear, load, replace, rng):
    """What machines earn, and their next wear and load; all are arrays of the same length."""
    fails = rng.random(wear.shape) < 0.3 * wear**2
    earned = (1.0 + load) * (1.0 - wear) - PRICE * replace - DAMAGE * fails
    worn = np.minimum(wear + 0.1 * (1.0 + load) * rng.random(wear.shape), 1.0)
    moves = rng.random(wear.shape) < 0.2
    load = np.where(moves, rng.integers(0, 3, wear.shape), load)
    return earned, np.where((replace == 1) | fails, 0.0, worn), load


class Machine(gymnasium.Env):
    """One machine."""

    observation_space = spaces.Dict({"wear": spaces.Box(0.0, 1.0, (1,)), "load": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin with a new machine."""
        super().reset(seed=seed)
        self.wear, self.load = np.zeros(1), np.zeros(1, dtype=np.int64)
        return self.look(), {}

    def look(self):
        """What the agent sees."""
        return {"wear": self.wear.astype(np.float32), "load": self.load[0]}

    def step(self, action):
        """Work for an hour, or replace the machine first."""
        earned, self.wear, self.load = step(self.wear, self.load, np.array([action]), self.np_random)
        return self.look(), float(earned[0]), False, False, {}


torch.set_num_threads(1)
agent = PPO(
    "MultiInputPolicy", gymnasium.wrappers.TimeLimit(Machine(), 200), n_steps=512, seed=0, device="cpu"
)
agent.learn(8_192)

estimate = gb.evaluate(Machine, agent, num_steps=20_000)
print(estimate, "\n")

rng = np.random.default_rng(0)
wear, load, runs = np.zeros(400), np.zeros(400, dtype=np.int64), []
for hour in range(600):
    replace, _ = agent.predict({"wear": wear[:, None].astype(np.float32), "load": load}, deterministic=True)
    earned, wear, load = step(wear, load, replace, rng)
    if hour >= 100:
        runs.append(earned)
means = np.mean(runs, axis=0)
low, high = estimate.gain_interval
print(
    f"gain {estimate.gain:.3f}, interval {low:.3f} to {high:.3f}; "
    f"reference {means.mean():.3f} +- {means.std() / np.sqrt(len(means)):.3f}"
)
new, old = ({"wear": np.array([wear]), "load": 1} for wear in (0.0, 0.5))
print(
    f"a new machine is worth {estimate.value(new) - estimate.value(old):.2f} more than one that is half worn"
)
