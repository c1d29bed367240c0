"""A task of MiniGrid: what a simple rule earns that walks on until it sees a wall, and which views are good.

An observation is a dictionary of a picture of 7 x 7 cells, the direction and a text. `gb.Tabular()` makes a
state of each one that turns up. MiniGrid stops an episode after `max_steps`; here that is far away, so that
the goal pays about 1. The reference is a long loop without `gainbias`. It needs `pip install minigrid`.
"""

import gymnasium
import minigrid
import numpy as np

import gainbias as gb

assert minigrid  # it registers its environments
LEFT, RIGHT, FORWARD, WALL = 0, 1, 2, 2
STEPS, LONG_RUNS, LONG_STEPS = 60_000, 20, 10_000


def make():
    """One room of 3 x 3 cells with a goal in a corner."""
    return gymnasium.make("MiniGrid-Empty-5x5-v0", max_steps=100_000, disable_env_checker=True)


def walking(rng):
    """A policy: go on, and turn before a wall, or sometimes just so."""

    def policy(observation):
        ahead = observation["image"][3, 5, 0]  # the agent stands at the lower edge, in the middle
        if ahead == WALL or rng.random() < 0.2:
            return LEFT if rng.random() < 0.5 else RIGHT
        return FORWARD

    return policy


policy = walking(np.random.default_rng(0))
estimate = gb.evaluate(make, policy, features=gb.Tabular(), num_steps=STEPS, on_termination="reward")
print(estimate, "\n")

means = []
for run in range(LONG_RUNS):
    env, policy, earned = make(), walking(np.random.default_rng(100 + run)), 0.0
    seen, _ = env.reset(seed=run)
    for _ in range(LONG_STEPS):
        seen, reward, terminated, truncated, _ = env.step(policy(seen))
        earned += reward
        if terminated or truncated:
            seen, _ = env.reset()
    means.append(earned / LONG_STEPS)
low, high = estimate.gain_interval
print(
    f"gain {estimate.gain:.4f}, interval {low:.4f} to {high:.4f}; "
    f"reference {np.mean(means):.4f} +- {np.std(means) / np.sqrt(LONG_RUNS):.4f}"
)
start, _ = make().reset(seed=0)
_, [(best, most)] = estimate.extremes()
more = most - estimate.value(start)
print(f"the best view, towards {best['direction']}, is worth {more:.2f} more than the first")
