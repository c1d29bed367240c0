"""Error bars of learned values: coverage of nominal 95% intervals on chains with known answers.

An algorithm learns with its automatic step sizes from many independent runs, and its intervals for the values
of all states are compared with the centred values of its fixed point. Runs with a warning are counted apart:
`flagged` is their share. `error` is the error of the values, relative to the values.

    python -m benchmarks.learned_intervals                                          # 300 replications
    python -m benchmarks.learned_intervals --algorithm td-lambda --chains garnet
"""

from __future__ import annotations

import argparse

import numpy as np

import gainbias as gb
from benchmarks.automatic_step import Errors, learned
from benchmarks.error_bars import Chain

LENGTHS = {
    "random-walk-50": 20_000,
    "boyan-chain": 40_000,
    "two-loop": 20_000,
    "garnet": 20_000,
    "machine-replacement": 60_000,
    "mm1k-admission": 100_000,
}
"""Steps: at least 500 autocorrelation times of rewards, values and features."""


def line(algorithm: str, name: str, replications: int, num_chains: int) -> str:
    """Coverage on one chain."""
    chain = Chain.named(name)
    problem, chosen = chain.problem, gb.ALGORITHMS[algorithm]
    assert chosen.declared.limit is not None
    limit = chosen.declared.limit(problem, chosen.params(), np.zeros(problem.num_features))
    assert limit is not None
    errors = Errors(problem, limit)
    covered, flagged, sizes = [], [], []
    for seed in range(replications):
        learner = learned(algorithm, problem, LENGTHS[name], 10_000 + seed, num_chains=num_chains)
        found = learner.values()
        low, high = found.intervals(chain.rows).T
        hit = ((low <= errors.target) & (errors.target <= high)).astype(float)
        covered.append(np.where(np.isfinite(high), hit, np.nan))
        flagged.append(bool(found.warnings))
        sizes.append(errors.of(found.weights) / errors.first)
    hits, told = np.array(covered), np.array(flagged)
    unflagged = f"{np.nanmean(hits[~told]):.3f}" if not told.all() else "    -"
    times = LENGTHS[name] / chain.slowest_time
    return (
        f"{name:20s} {algorithm:14s} {LENGTHS[name]:7d} {times:7.0f}   {np.nanmean(hits):.3f}      "
        f"{unflagged}     {told.mean():.2f}   {np.nanmean(hits, axis=0).min():.3f}   {np.mean(sizes):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", nargs="+", default=["single-chain", "td-lambda"])
    parser.add_argument("--chains", nargs="+", choices=list(LENGTHS), default=list(LENGTHS))
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--num-chains", type=int, default=1, help="independent chains of data in each run")
    options = parser.parse_args()
    print("chain                algorithm        steps   times  values  unflagged  flagged  lowest  error")
    for algorithm in options.algorithm:
        for name in options.chains:
            print(line(algorithm, name, options.replications, options.num_chains), flush=True)


if __name__ == "__main__":
    main()
