"""Is the automatic step as good as a search over fixed steps? Errors on the tasks of the package.

For each task, an algorithm learns from the same paths with its automatic step sizes, through the learner that
`gb.evaluate` uses, and with each of 16 constant step sizes 1, 1/2, ..., 2^-15, through `gb.run`. Both average
the weights over the last half of the steps. The error is the distance of the centred values from those of the
method's fixed point, in the stationary norm, and means are over seeds. The best constant step is the one with
the smallest mean error on each task, which nobody knows beforehand.

The choices behind the automatic step were made on the tasks called `development`; the others were held out.

    python -m benchmarks.automatic_step                                 # 150,000 steps, 20 seeds, minutes
    python -m benchmarks.automatic_step --steps 20000 --tasks taxi garnet
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import gainbias as gb
from gainbias.engine.paths import Sampler
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import Transitions
from gainbias.evaluation.values.learner import Learner

GRID = [2.0**-k for k in range(16)]
TAIL = 0.5
ALLOWED = 2.0
BATCH = 4096
DEVELOPMENT = {*list(gb.TASKS)[::2], "mm1k-admission"}
"""Every second task, and one that was looked at too early."""

CHAINS = ("first chain", "second chain", "third chain", "fourth chain")


def stream(problem: gb.Problem, steps: int, seed: int, num_chains: int) -> Iterator[Transitions]:
    """Batches from the paths that `gb.run` takes with this seed."""
    paths = Sampler(problem.mrp).paths([seed], chain=CHAINS[:num_chains])
    rows = None if problem.features.kind == "tabular" else problem.features.matrix
    for begin in range(0, steps, BATCH):
        drawn = paths.take(min(BATCH, steps - begin))
        for chain in range(num_chains):
            here, after = (array[chain].astype(np.int64) for array in (drawn.here, drawn.next))
            yield Transitions(drawn.reward[chain], here, after, rows, np.zeros(len(here), np.int64), chain)


def learned(algorithm: str, problem: gb.Problem, steps: int, seed: int, num_chains: int = 1) -> Learner:
    """A learner that has read a whole stream."""
    chains = max(num_chains, gb.ALGORITHMS[algorithm].chains)
    table = None if problem.features.kind == "tabular" else problem.features.matrix
    observed = ObservationMap("known", problem.num_features, table=table)
    learner = Learner(algorithm, observed, num_chains=chains)
    for batch in stream(problem, steps, seed, chains):
        learner.add(batch)
    return learner


class Errors:
    """Errors of centred values."""

    def __init__(self, problem: gb.Problem, limit: NDArray[np.float64]) -> None:
        self.problem, self.law = problem, problem.solution.stationary
        self.target = self._centred(limit)
        self.first = problem.stationary_norm(self.target)

    def of(self, weights: NDArray[np.float64]) -> float:
        if not np.isfinite(weights).all():
            return np.inf
        with np.errstate(over="ignore"):  # weights that are about to diverge
            return self.problem.stationary_norm(self._centred(weights) - self.target)

    def _centred(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        values = self.problem.features.combine(weights)
        return np.asarray(values - self.law @ values)


def compare(
    algorithm: str, problem: gb.Problem, steps: int, seeds: range
) -> tuple[float, float, float, float]:
    """Mean errors of the automatic and the best fixed step, that step, and the error of the first weights."""
    chosen = gb.ALGORITHMS[algorithm]
    assert chosen.declared.limit is not None
    limit = chosen.declared.limit(problem, chosen.params(), np.zeros(problem.num_features))
    assert limit is not None
    errors = Errors(problem, limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some steps of the grid are too large, and overflow
        trace = gb.run(algorithm, problem, steps, GRID, seeds=seeds, checkpoints=[steps], tail_average=TAIL)
    fixed = np.array([errors.of(weights) for weights in trace.weights[:, -1]]).reshape(len(seeds), -1)
    means = fixed.mean(axis=0)
    automatic = [errors.of(learned(algorithm, problem, steps, seed).values().weights) for seed in seeds]
    best = int(np.argmin(means))
    return float(np.mean(automatic)), float(means[best]), GRID[best], errors.first


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", default="single-chain")
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tasks", nargs="+", choices=list(gb.TASKS), default=list(gb.TASKS))
    options = parser.parse_args()
    print("task                 set          automatic  best fixed       at  over first  ratio")
    ratios: dict[str, list[float]] = {"development": [], "held out": []}
    for name in options.tasks:
        found = compare(options.algorithm, gb.task(name).problem, options.steps, range(options.seeds))
        automatic, fixed, step, first = found
        group = "development" if name in DEVELOPMENT else "held out"
        ratios[group].append(automatic / fixed)
        print(
            f"{name:20s} {group:11s} {automatic:10.4g}  {fixed:10.4g}  2^{np.log2(step):<5.0f} "
            f"{fixed / first:10.3f}  {automatic / fixed:5.2f}",
            flush=True,
        )
    for group, found in [*ratios.items(), ("all", [*ratios["development"], *ratios["held out"]])]:
        if found:
            within = np.count_nonzero(np.array(found) <= ALLOWED)
            mean = np.exp(np.mean(np.log(found)))
            print(
                f"{group}: {within} of {len(found)} within {ALLOWED:g} times the best fixed step; "
                f"geometric mean {mean:.2f}, largest {max(found):.2f}"
            )


if __name__ == "__main__":
    main()
