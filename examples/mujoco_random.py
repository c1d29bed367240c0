"""MuJoCo's Hopper with random actions: what it earns per step, and which positions are good.

An observation has 11 numbers, and an episode ends when the hopper falls; the next one follows after a step
with reward 0. The reference is a long loop without `gainbias`. It needs `pip install 'gymnasium[mujoco]'`.
"""

import gymnasium
import numpy as np

import gainbias as gb

TASK = "Hopper-v5"
STEPS, LONG_RUNS, LONG_STEPS = 40_000, 20, 5_000

estimate = gb.evaluate(TASK, "random", num_steps=STEPS)
print(estimate, "\n")

means = []
for run in range(LONG_RUNS):
    env, earned, steps = gymnasium.make(TASK, max_episode_steps=-1), 0.0, 0
    env.action_space.seed(run)
    env.reset(seed=run)
    while steps < LONG_STEPS:
        _, reward, terminated, _, _ = env.step(env.action_space.sample())
        earned, steps = earned + reward, steps + 1 + terminated
        if terminated:
            env.reset()
    env.close()
    means.append(earned / steps)
low, high = estimate.gain_interval
print(
    f"gain {estimate.gain:.3f}, interval {low:.3f} to {high:.3f}; "
    f"reference {np.mean(means):.3f} +- {np.std(means) / np.sqrt(LONG_RUNS):.3f}"
)
upright = np.zeros(11)
upright[0] = 1.25  # the height; all angles and speeds are 0
value, (low, high) = estimate.value(upright), estimate.value_interval(upright)
print(f"to stand upright is worth {value:.1f} more than the mean, interval {low:.1f} to {high:.1f}")
