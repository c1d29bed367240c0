"""Real environments: the answer of `evaluate` next to a long average that shares no code with it.

    python -m benchmarks.environments              # all that are installed, about ten minutes
    python -m benchmarks.environments --only Taxi  # one of them
    python -m benchmarks.environments --write      # put the table into docs/evaluation.md

It needs ``gainbias[gym]``; MiniGrid, MuJoCo (``gymnasium[mujoco]``) and Stable-Baselines3 with PyTorch are
left out if they are not installed. The long average is that of independent runs of a loop of a few lines,
in which the end of an episode is a step with reward 0; its standard error comes from their spread.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gainbias as gb
from gainbias.store import write_whole

PAGE = Path(__file__).parents[1] / "docs" / "evaluation.md"
BEGIN, END = (
    "<!-- written by benchmarks.environments -->",
    "<!-- end of what benchmarks.environments writes -->",
)

RUNS, WARM_UP = 20, 2_000
"""Independent runs of a long average, and the first steps of each that are left out."""


@dataclass(frozen=True)
class Case:
    """An environment with a policy."""

    name: str
    policy: str = "random"
    steps: int = 100_000
    long_steps: int = 400_000
    needs: str = "gymnasium"
    observations: str = "box"

    def environment(self) -> Any:
        """Make it, without Gymnasium's time limit."""
        if self.needs == "minigrid":
            importlib.import_module("minigrid")
        return gymnasium.make(self.name, max_episode_steps=-1, disable_env_checker=True)


CASES = [
    Case("CartPole-v1"),
    Case("CartPole-v1", "agent of PPO", 20_000, 100_000, "stable_baselines3"),
    Case("Pendulum-v1"),
    Case("Acrobot-v1"),
    Case("MountainCarContinuous-v0"),
    Case("FrozenLake-v1", observations="discrete"),
    Case("Taxi-v4", observations="discrete"),
    Case("CliffWalking-v1", observations="discrete"),
    Case("Blackjack-v1", observations="tuple"),
    Case("MiniGrid-Empty-5x5-v0", needs="minigrid", observations="dictionary with a text"),
    Case("HalfCheetah-v5", needs="mujoco"),
    Case("Hopper-v5", needs="mujoco"),
    Case("Reacher-v5", needs="mujoco"),
]


def agent_of(case: Case) -> Any:
    """Return the policy of a case; an agent is trained for a moment."""
    if case.policy == "random":
        return "random"
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    agent = stable_baselines3.PPO("MlpPolicy", case.name, seed=0, device="cpu", n_steps=256)
    return agent.learn(2_048)


def long_average(case: Case, policy: Any) -> tuple[float, float]:
    """Return the mean reward per step of independent runs, and its standard error."""
    length = case.long_steps // RUNS
    means = []
    for run in range(RUNS):
        env = case.environment()
        env.action_space.seed(10_000 + run)
        seen, _ = env.reset(seed=20_000 + run)
        total, step = 0.0, 0
        while step < WARM_UP + length:
            action = (
                env.action_space.sample()
                if policy == "random"
                else policy.predict(seen, deterministic=True)[0]
            )
            seen, reward, terminated, truncated, _ = env.step(action)
            total += reward * (step >= WARM_UP)
            step += 1 + terminated
            if terminated or truncated:
                seen, _ = env.reset()
        env.close()
        means.append(total / length)
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(RUNS))


def row_of(case: Case) -> list[str]:
    """Return a line of the table."""
    policy = agent_of(case)
    estimate = gb.evaluate(case.environment, policy, num_steps=case.steps)
    mean, error = long_average(case, policy)
    low, high = estimate.gain_interval
    spread = (high - low) / 2
    apart = (estimate.gain - mean) / np.hypot(spread / 1.96, error)
    warned = "yes" if estimate.diagnostics.gain_warnings else ""
    inside = "yes" if low <= mean <= high else "no"
    return [
        f"`{case.name}`",
        case.policy,
        case.observations,
        f"{estimate.gain:.4g}",
        f"{low:.4g} to {high:.4g}",
        f"{mean:.4g} ± {error:.2g}",
        inside,
        f"{apart:+.1f}",
        warned,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--write", action="store_true", help="put the table into docs/evaluation.md")
    options = parser.parse_args()
    head = [
        "environment",
        "policy",
        "observations",
        "gain",
        "95% interval",
        "long average",
        "inside",
        "apart",
        "warned",
    ]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|--:|---|---|---|--:|---|"]
    print(*lines, sep="\n")
    for case in CASES:
        if options.only not in case.name or importlib.util.find_spec(case.needs) is None:
            continue
        lines.append(f"| {' | '.join(row_of(case))} |")
        print(lines[-1], flush=True)
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        table = "\n".join(lines)
        write_whole(PAGE, f"{before}{BEGIN}\n{table}\n{END}{after}".encode())


if __name__ == "__main__":
    main()
