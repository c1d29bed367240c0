"""Times of common calls, in a file, and two such files compared.

    python -m benchmarks.versions measure now.json
    python -m benchmarks.versions compare before.json now.json

To measure another version, point PYTHONPATH to its sources, as in ``PYTHONPATH=/old/src``. A call that it
does not have is left out. Times are processor times, each the best of several rounds, with compiled kernels.
They are divided by the time of a plain loop measured next to them, so files from other machines can be
compared roughly, and files from one machine better: on a busy one, two files of the same version differed by
up to 1.25 times. `compare` ends with 1 if a call takes more than `MOST_RATIO` times as long as before.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import scipy.sparse as sparse

import gainbias as gb

FORMAT = 1
"""Number of the form of the files; `compare` refuses others."""

ROUNDS = 20
LOOP_STEPS = 200_000

MOST_RATIO = 1.5
"""A call that takes this many times as long as before is called slower."""


def _calls() -> dict[str, Callable[[], Any]]:
    """Return what is measured, by names that stay the same in all versions."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=100_000).cumsum() * 0.01 + rng.normal(size=100_000)
    dense = gb.MarkovRewardProcess(rng.dirichlet(np.ones(300), 300), rng.random(300))
    n = 20_000
    rates = sparse.diags_array([np.full(n - 1, 0.7), np.full(n - 1, 1.0)], offsets=[1, -1])
    generator = rates - sparse.diags_array(rates.sum(axis=1))
    line = gb.MarkovRewardProcess.from_rates(sparse.csr_array(generator), -np.arange(n) / n)
    task = gb.task("boyan-chain")
    states = rng.integers(0, 20, 50_000)
    log = {"state": states, "reward": states + rng.normal(size=50_000)}
    return {
        "series of 100,000 numbers": lambda: gb.evaluate_series(numbers),
        "log of 50,000 rows, 20 states": lambda: gb.evaluate_log(log, state="state", reward="reward"),
        "exact answer, 300 states, dense": lambda: gb.solve(dense),
        "exact answer, 20,000 states, sparse": lambda: gb.solve(line),
        "td-lambda, 8 lanes of 50,000 steps": lambda: _run("td-lambda", task),
        "double-chain, 8 lanes of 50,000 steps": lambda: _run("double-chain", task),
        "least squares, 8 lanes of 50,000 steps": lambda: _run("lstd", task),
    }


def _run(algorithm: str, task: Any) -> None:
    gb.run(algorithm, task.problem, 50_000, gb.Harmonic(10, 1000), seeds=range(8), checkpoints=10, threads=1)


def _loop() -> None:
    total = 0
    for step in range(LOOP_STEPS):
        total += step


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the least processor time of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measure() -> dict[str, Any]:
    """Return times of calls, in seconds and in multiples of a plain loop, and where they were measured."""
    measured = {}
    for name, call in _calls().items():
        try:
            call()  # compiles
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            print(f"{name}: left out, because this version cannot: {error}", file=sys.stderr)
            continue
        loop, seconds = seconds_of(_loop), seconds_of(call)
        measured[name] = {"seconds": seconds, "loops": seconds / loop}
        print(f"{name}: {seconds:.4g} s", file=sys.stderr)
    versions = {module.__name__: module.__version__ for module in (gb, np, scipy, numba)}
    where = {"python": platform.python_version(), **versions, "machine": platform.machine()}
    return {"format": FORMAT, "where": where, "calls": measured}


def compare(before: dict[str, Any], now: dict[str, Any]) -> tuple[list[str], bool]:
    """Return a line for each call that both files have, and whether any became slower.

    Examples
    --------
    >>> def file(loops):
    ...     return {"format": 1, "calls": {"solve": {"seconds": 1.0, "loops": loops}}}
    >>> compare(file(10.0), file(20.0))
    (['solve: 2.00 times as long, SLOWER'], True)
    >>> compare(file(10.0), file(11.0))
    (['solve: 1.10 times as long'], False)
    """
    for one in (before, now):
        if one.get("format") != FORMAT:
            raise ValueError(f"a file of format {FORMAT} is needed, found {one.get('format')}: measure again")
    lines, is_slower = [], False
    for name, found in now["calls"].items():
        if name not in before["calls"]:
            lines.append(f"{name}: new")
            continue
        ratio = found["loops"] / before["calls"][name]["loops"]
        is_slower |= ratio > MOST_RATIO
        lines.append(f"{name}: {ratio:.2f} times as long{', SLOWER' * (ratio > MOST_RATIO)}")
    gone = [f"{name}: no longer measured" for name in before["calls"] if name not in now["calls"]]
    return lines + gone, is_slower


def main() -> int:
    """Measure, or compare two files; 1 if something became slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("measure").add_argument("file", type=Path)
    both = what.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("now", type=Path)
    options = parser.parse_args()
    if options.what == "measure":
        options.file.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
        return 0
    files = [json.loads(file.read_text(encoding="utf-8")) for file in (options.before, options.now)]
    lines, is_slower = compare(*files)
    print("\n".join(lines))
    return int(is_slower)


if __name__ == "__main__":
    sys.exit(main())
