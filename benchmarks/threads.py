"""Wall time of `solve` and of its parts with several numbers of threads, and a hash of the bits it finds.

    python -m benchmarks.threads --grid 4e6 --random 0 --threads 1 2 7 16
    python -m benchmarks.threads --grid 0 --random 1e7 --threads 1 16 --limit 340

Parts may contain each other, and times of a method that waits for its turn contain the wait. A solve is
left out if, judging by those before it, it would end after the limit: the largest number of threads goes
first, then one, then the others.
On a 2-core machine ``--grid 2e5 --random 3e5 --threads 1 2 7`` takes about a minute.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gainbias as gb  # noqa: E402
from gainbias.model import process  # noqa: E402
from gainbias.model.solve import choice, iterative, semi_markov, solve  # noqa: E402
from gainbias.model.solve.elimination import solver, symbolic  # noqa: E402
from tests.oracles.expanders import random_dyadic_transitions  # noqa: E402
from tests.oracles.lattices import grid_transitions  # noqa: E402

PARTS = {
    "structure": (process, "find_structure"),
    "periods": (process, "class_periods"),
    "blocks": (choice, "find_blocks"),
    "choice": (solve, "first_that_meets"),
    "incomplete": (choice, "prepare_incomplete"),
    "root": (solver, "busiest_states"),
    "graph": (solver, "symmetric_pattern"),
    "order": (symbolic, "dissected_order"),
    "plan": (symbolic, "plan_elimination"),
    "branches": (solver, "find_branches"),
    "eliminate": (solver, "eliminate_branches"),
    "law": (iterative, "prepare"),
    "polish": (iterative, "_polished"),
    "certify": (semi_markov, "solve_and_certify"),
    "variance": (solve, "asymptotic_variance"),
    "law errors": (semi_markov, "stationary_errors"),
}
"""Names of parts, and the functions that are timed for them."""


def grid(num_states: int) -> gb.MarkovRewardProcess:
    """Return the walk with drift on a square grid of the solver benchmark."""
    side = round(num_states**0.5)
    transitions = grid_transitions(side, side, 15 / 64, 16 / 64, 16 / 64, 14 / 64)
    rewards = np.add.outer(np.cos(np.arange(side) / side), np.arange(side) % 7 / 7).ravel()
    return gb.MarkovRewardProcess(transitions, rewards)


def random_graph(num_states: int, degree: int) -> gb.MarkovRewardProcess:
    """Return a chain with `degree` random successors of each state."""
    rng = np.random.default_rng(1)
    transitions = random_dyadic_transitions(num_states, rng, degree)
    return gb.MarkovRewardProcess(transitions, rng.integers(0, 1000, num_states) / 1000)


def timed(function: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    """Return the function, which adds the time of its calls to ``spent[name]``."""

    def call(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

    return call


def measure(mrp: gb.MarkovRewardProcess, threads: int, method: str) -> tuple[float, dict[str, float], str]:
    """Return the time of a solve and of its parts, and a hash of the bits with the method that was used."""
    # The structure is a part of the work, and a process remembers it.
    fresh = gb.MarkovRewardProcess(mrp.csr, mrp.rewards)
    spent: dict[str, float] = {}
    with ExitStack() as stack:
        for name, (module, function) in PARTS.items():
            own = timed(getattr(module, function), spent, name)
            stack.enter_context(patch.object(module, function, own))
        begin = time.perf_counter()
        answer = gb.solve(fresh, method=method, threads=threads)
        seconds = time.perf_counter() - begin
    digest = hashlib.sha256()
    for numbers in (np.float64(answer.gain), answer.bias, answer.stationary, answer.bias_error):
        digest.update(np.ascontiguousarray(numbers).tobytes())
    return seconds, spent, f"{digest.hexdigest()[:16]} {answer.method} error bound {answer.error_bound:.1e}"


def main() -> None:
    """Measure the requested chains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--grid", type=float, default=2e5, help="states of the 2-D grid, 0 for none")
    parser.add_argument("--random", type=float, default=3e5, help="states of the random graph, 0 for none")
    parser.add_argument("--degree", type=int, default=4, help="random successors of each state")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 7, 16])
    parser.add_argument("--method", default="auto")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds for everything")
    options = parser.parse_args()
    begin = time.perf_counter()
    most = max(options.threads)
    order = [most, 1, *(count for count in sorted(options.threads, reverse=True) if count not in (1, most))]
    makers = {
        "grid": (options.grid, grid),
        "random graph": (options.random, lambda n: random_graph(n, options.degree)),
    }
    for name, (size, make) in makers.items():
        if not size:
            continue
        # Compiles everything needed: threads share single fronts only from about a million states on.
        gb.solve(make(min(int(size), 1_000_000)), method=options.method, threads=most)
        mrp = make(int(size))
        print(f"\n{name}, {mrp.num_states:,} states, {mrp.csr.nnz:,} transitions", flush=True)
        print(f"ready after {time.perf_counter() - begin:.0f} s", flush=True)
        seconds: dict[int, float] = {}
        bits = set()
        for count in order:
            # Assume that threads gain half of what they could gain at best.
            guess = max((0.5 * spent * used / count for used, spent in seconds.items()), default=0.0)
            if time.perf_counter() - begin + guess > options.limit:
                print(f"{count:>3} threads: left out, no time", flush=True)
                continue
            seconds[count], spent, answer = measure(mrp, count, options.method)
            bits.add(answer)
            ratio = f", {seconds[1] / seconds[count]:.2f} times one" if 1 in seconds and count != 1 else ""
            print(f"{count:>3} threads: {seconds[count]:7.2f} s{ratio}; {answer}", flush=True)
            print(
                "     " + ", ".join(f"{part} {spent[part]:.2f}" for part in PARTS if part in spent),
                flush=True,
            )
        if 1 in seconds and most in seconds:
            print(f"{most} threads are {seconds[1] / seconds[most]:.2f} times as quick as one")
        print("the same bits" if len(bits) == 1 else "DIFFERENT BITS", flush=True)


if __name__ == "__main__":
    main()
