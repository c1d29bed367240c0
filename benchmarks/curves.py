"""Time of exact learning curves at 100 states and 100 features over 150,000 steps, on one core.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.curves --parts iid constant markov

Independent samples must take at most 60 s of processor time. Along a chain, where a step touches every
possible transition with a 100 x 100 matrix, a stretch of steps is timed, and the total is computed from it.
"""

import argparse
import time

import numpy as np

import gainbias as gb
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.theory.curve.system import make_system

STATES = 100
STEPS = 150_000
LIMIT = 60.0
STRETCH = 20
STEPS_OF = {"iid": gb.Harmonic(150.0, 1000.0), "constant": gb.Constant(0.1)}
NAMES = ("double-chain", "double-chain-symmetric", "td-lambda", "differential-td", "implicit-td")
LARGEST = 0.15


def problem(successors: int | None, tabular: bool) -> gb.Problem:
    """Return a random chain in which each state has this many successors, or all states are."""
    rng = np.random.default_rng(0)
    transitions = np.zeros((STATES, STATES))
    for state in range(STATES):
        after = rng.choice(STATES, successors, replace=False) if successors else np.arange(STATES)
        transitions[state, np.append(after, (state + 1) % STATES)] = rng.uniform(0.1, 1.0, len(after) + 1)
    transitions /= transitions.sum(axis=1, keepdims=True)
    features = rng.normal(size=(STATES, STATES))
    features /= np.linalg.norm(features, axis=1).max()
    process = gb.MarkovRewardProcess(transitions, rng.uniform(size=STATES))
    return gb.Problem(process, gb.Tabular() if tabular else features)


def whole(name: str, part: str) -> float:
    """Return the processor time of a whole curve with independent samples."""
    example = problem(None, tabular=False)
    began = time.process_time()
    gb.exact_curve(name, example, STEPS, STEPS_OF[part], sampling="iid", time_limit=3600.0)
    return time.process_time() - began


def along_a_chain(name: str, successors: int | None, tabular: bool) -> float:
    """Return the processor time of a whole curve along a chain, from that of a few steps."""
    algorithm, example = ALGORITHMS[name], problem(successors, tabular)
    first = np.zeros(STATES)
    system = make_system(
        algorithm, example, algorithm.params(), first, sampling="markov", largest_step=LARGEST
    )
    moments = system.recursion.step(system.recursion.begin(system.first - system.origin), LARGEST)
    began = time.process_time()
    for _ in range(STRETCH):
        moments = system.recursion.step(moments, LARGEST)
    return (time.process_time() - began) / STRETCH * STEPS


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["iid", "constant", "markov"])
    parser.add_argument("--algorithms", nargs="+", default=list(NAMES))
    asked = parser.parse_args()
    print(f"{STATES} states, {STATES} features, {STEPS:,} steps; at most {LIMIT:g} s for independent samples")
    for part in ("iid", "constant"):
        for name in asked.algorithms if part in asked.parts else []:
            seconds = whole(name, part)
            print(
                f"| {part:8} | {name:22} | {seconds:7.1f} s | {'yes' if seconds <= LIMIT else 'no':3} |",
                flush=True,
            )
    if "markov" in asked.parts:
        for successors, tabular in ((3, True), (3, False), (None, False)):
            seconds = along_a_chain("td-lambda", successors, tabular)
            chain = f"{successors or STATES} successors, {'tabular' if tabular else 'dense'} features"
            print(f"| markov   | td-lambda, {chain} | {seconds:7.0f} s (computed) |", flush=True)


if __name__ == "__main__":
    main()
