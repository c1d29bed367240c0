"""The log of one checkpoint of an agent of Stable-Baselines3 says what another one would earn.

A machine wears out, and the agent may replace it for a price; a worn machine breaks down now and then, which
costs more. An early checkpoint is run, and draws its actions. From its log alone `gainbias` says what the
checkpoint after more training would earn. Then that one is really run. With version 2.9.2, and PyTorch 2.13.0
on a CPU, it is 1.085 on paper (interval 1.067 to 1.102) and 1.075 +- 0.002 when it is run; that is more than
the early one earns by 0.192 on paper (0.187 to 0.197), and really by 0.191 +- 0.006. It needs
`pip install stable-baselines3`.
"""

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO

import gainbias as gb

PRICE, DAMAGE, LEVELS = 3.0, 8.0, 8


class Machine(gymnasium.Env):
    """A machine with some levels of wear."""

    observation_space = spaces.Discrete(LEVELS)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin with a new machine."""
        super().reset(seed=seed)
        self.wear = 0
        return self.wear, {}

    def step(self, action):
        """Work for an hour, or replace the machine first."""
        wear = self.wear / (LEVELS - 1)
        fails = self.np_random.random() < 0.3 * wear**2
        earned = 2.0 * (1.0 - wear) - PRICE * action - DAMAGE * fails
        grows = self.np_random.random() < 0.5
        self.wear = 0 if action or fails else min(self.wear + grows, LEVELS - 1)
        return self.wear, float(earned), False, False, {}


def chances(agent):
    """The probabilities with which an agent draws its actions, for each level of wear."""
    with torch.no_grad():
        seen, _ = agent.policy.obs_to_tensor(np.arange(LEVELS))
        drawn = agent.policy.get_distribution(seen).distribution.probs
    return drawn.numpy().astype(float)


def log_of(policy, steps, seed):
    """The rows that a policy makes: the wear, what was done, and what was earned."""
    env, rng, rows = Machine(), np.random.default_rng(seed), []
    wear, _ = env.reset(seed=seed)
    for draw in rng.random(steps):
        action = int(draw < policy[wear, 1])
        after, earned, *_ = env.step(action)
        rows.append({"state": wear, "action": action, "reward": earned})
        wear = after
    return rows


torch.set_num_threads(1)
agent = PPO("MlpPolicy", gymnasium.wrappers.TimeLimit(Machine(), 200), n_steps=512, seed=0, device="cpu")
agent.learn(2_048)
early = chances(agent)
agent.learn(8_192, reset_num_timesteps=False)
late = chances(agent)

log = log_of(early, 20_000, seed=0)
on_paper = gb.evaluate_log(log, action="action", policy=late)
print(on_paper, "\n")

really = gb.evaluate_log(log_of(late, 100_000, seed=1))
low, high = on_paper.gain_interval
print(
    f"the later checkpoint, on paper: {on_paper.gain:.3f}, interval {low:.3f} to {high:.3f}; "
    f"reference {really.gain:.3f} +- {really.diagnostics.standard_error:.3f}"
)
paired = gb.compare_policies_on_log(log, late, early, action="action")
before = gb.evaluate_log(log_of(early, 100_000, seed=2))
low, high = paired.interval
error = np.hypot(really.diagnostics.standard_error, before.diagnostics.standard_error)
print(
    f"later less earlier, on paper: {paired.difference:.3f}, interval {low:.3f} to {high:.3f}; "
    f"reference {really.gain - before.gain:.3f} +- {error:.3f}"
)
