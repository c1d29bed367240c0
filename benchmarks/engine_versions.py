"""Speed of the engine in two checkouts of this package, side by side, in one table.

    python -m benchmarks.engine_versions /tmp/old .

Every algorithm makes runs with each kind of features, through `gainbias.run`, in one thread and with compiled
kernels that are loaded beforehand. Each turn starts one process for each checkout, and the two alternate
within it, so that other programs on the machine disturb both. The best round of a turn counts, in processor
time. The table has the medians and the minima over the turns; below it are
geometric means of the ratios.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sparse

import gainbias as gb

KINDS = ("dense 20", "dense 100", "sparse 100", "tabular")
STEPS = 50_000
SHORT = 10  # steps of a run so short that its time is what a run takes besides its steps
ENTRIES = 5  # in a row of sparse features


def make_problem(kind: str) -> gb.Problem:
    """100 states with 20 features or a table, or 1000 states with 100 features."""
    rng = np.random.default_rng(0)
    n, d = (100, 20) if kind in ("dense 20", "tabular") else (1000, 100)
    mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(n), n), rng.random(n))
    features = rng.normal(size=(n, d)) / d
    if kind == "sparse 100":
        places = np.argsort(rng.random((n, d)), axis=1)[:, :ENTRIES]
        rows = np.repeat(np.arange(n), ENTRIES)
        values = features[rows, places.ravel()]
        return gb.Problem(mrp, sparse.csr_array((values, (rows, places.ravel())), shape=(n, d)))
    return gb.Problem(mrp, gb.Tabular() if kind == "tabular" else features)


def serve() -> None:
    """Answer each line of input, an algorithm with a kind of features and a number of steps, by seconds."""
    warnings.simplefilter("ignore")  # an algorithm may find these features unfit
    problems = {kind: make_problem(kind) for kind in KINDS}
    for line in sys.stdin:
        name, kind, steps = json.loads(line)
        start = time.process_time()
        gb.run(name, problems[kind], steps, gb.Harmonic(10, 1000), checkpoints=1, threads=1)
        print(time.process_time() - start, flush=True)


class Checkout:
    """A process that runs the package of one checkout."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root.resolve() / "src"), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: tuple[str, str, int]) -> float:
        print(json.dumps(case), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def all_cases() -> list[tuple[str, str, int]]:
    short = [("double-chain", kind, SHORT) for kind in KINDS]
    return short + [
        (name, kind, STEPS)
        for name, algorithm in gb.ALGORITHMS.items()
        for kind in KINDS
        if kind == "tabular" or not algorithm.declared.tabular_only
    ]


def measure(roots: list[Path], turns: int, rounds: int) -> dict[tuple[str, str, int], np.ndarray]:
    """Return the best seconds of each case, by checkout and turn."""
    found = {case: np.full((len(roots), turns), np.inf) for case in all_cases()}
    for turn in range(turns):
        checkouts = [Checkout(root) for root in roots]
        for case, best in found.items():
            for checkout in checkouts:
                checkout.seconds(case)  # loads the kernels
            for taken in range(rounds):
                for i in (0, 1) if taken % 2 else (1, 0):
                    best[i, turn] = min(best[i, turn], checkouts[i].seconds(case))
        for checkout in checkouts:
            checkout.close()
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="the root of one checkout")
    parser.add_argument("new", type=Path, help="the root of the other")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    found = measure([options.old, options.new], options.turns, options.rounds)
    print("| features | run | median, old and new | ratio | minimum, old and new | ratio |")
    print("|---|---|---|---|---|---|")
    for (name, kind, steps), seconds in found.items():
        is_short = steps == SHORT
        scale, unit = (1e6, f"us in all, {SHORT} steps") if is_short else (1e9 / STEPS, "ns a step")
        cells = [kind, f"{name}, {unit}"]
        for pick in (np.median, np.min):
            old, new = pick(seconds, axis=1) * scale
            cells += [f"{old:.0f} {new:.0f}", f"{new / old:.3f}"]
        print("| " + " | ".join(cells) + " |")
    print()
    for kind in KINDS:
        for pick in (np.median, np.min):
            times = [pick(found[case], axis=1) for case in found if case[1:] == (kind, STEPS)]
            ratios = np.array([new / old for old, new in times])
            mean = np.exp(np.log(ratios).mean())
            print(
                f"{kind}, {pick.__name__}: {len(ratios)} algorithms, new over old {mean:.3f} on average, "
                f"{ratios.min():.2f} to {ratios.max():.2f}"
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main()
