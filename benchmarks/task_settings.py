"""How the paper's distances move with two settings of tasks: smoothing, and the discount of Q-learning.

The table of docs/reproduction.md. The paper prints epsilon and names no discount; some of its distances
fit other settings better. Methods, step sizes, numbers of steps, seeds and errors are those of
`gainbias reproduce`. Nothing is chosen by this table.

    python -m benchmarks.task_settings
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import gainbias as gb
from gainbias.experiments.reproduce import PAPER_METHODS, PROTOCOLS
from gainbias.types import Floats

EPSILONS = {"frozen-lake": (0.05, 0.1, 0.2, 0.5), "taxi": (0.1, 0.2, 0.5, 0.8)}
DISCOUNTS = (0.9, 0.99, 0.999)
"""With the printed epsilon; the other rows have 0.99."""
FULL = ("double-chain", "single-chain")
"""Their distances are full errors, those of the others modulo constants, as in the paper."""


def settings_of(name: str) -> Iterator[dict[str, float]]:
    """Yield the settings of the rows of a task: each differs from the printed ones in one number."""
    printed = gb.TASKS[name].settings
    for epsilon in EPSILONS[name]:
        yield {"epsilon": epsilon, "discount": printed["discount"]}
    for discount in DISCOUNTS:
        if discount != printed["discount"]:
            yield {"epsilon": printed["epsilon"], "discount": discount}


def last_errors(name: str, protocol: str, settings: dict[str, float], shorten: int = 1) -> Floats:
    """Return the last errors, an array (methods, instances)."""
    plan = PROTOCOLS[protocol]
    found = []
    for run in range(plan.runs):
        task = gb.task(name, seed=run, protocol=plan.name, **settings)
        assert task.paper is not None
        steps = task.paper.num_steps // shorten
        sizes = gb.Harmonic(task.paper.step_numerator, task.paper.step_offset)
        for method in PAPER_METHODS:
            trace = gb.run(method.name, task, steps, sizes, seeds=run, checkpoints=[steps])
            kind = "full" if method.name in FULL else "quotient"
            found.append(trace.errors(kind, target=plan.target)[0, -1])
    return np.reshape(found, (plan.runs, -1)).T


def row(first: str, cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join([first, *cells])} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shorten", type=int, default=1, help="divide the numbers of steps, for a look")
    shorten = parser.parse_args().shorten
    names = [method.name for method in PAPER_METHODS]
    print(row("Task, protocol, ε, discount", [f"`{name}`" for name in names]))
    print("|---" * (1 + len(names)) + "|")
    for name in EPSILONS:
        paper = gb.TASKS[name].paper
        assert paper is not None
        print(
            row(
                f"`{name}`, **printed**, {paper.epsilon:g}, -",
                [f"**{paper.distances[n][0]:.2f}**" for n in names],
            )
        )
        for protocol in ("literal", "inferred"):
            for settings in settings_of(name):
                means = last_errors(name, protocol, settings, shorten).mean(axis=1)
                about = f"`{name}`, {protocol}, {settings['epsilon']:g}, {settings['discount']:g}"
                print(row(about, [f"{mean:.2f}" for mean in means]), flush=True)


if __name__ == "__main__":
    main()
