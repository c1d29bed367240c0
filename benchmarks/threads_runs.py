"""How `gb.run`, `reproduce` and `evaluate_log` scale over cores, against independent processes.

    python -m benchmarks.threads_runs --threads 1 2 4 8 16
    python -m benchmarks.threads_runs --threads 1 2 --works run --steps 150000 --rounds 5

Ours is one call with so many threads (`reproduce`: workers; `evaluate_log`: one thread for each log that is
evaluated at the same time). Beside it as many processes, each with one thread, share the same work and start
at the same time. Both take turns, after a first turn that does not count, and of each the least wall time
counts. The column `of processes` is what ours reaches of their speed; it should be at least 0.9. On a
machine that does other things meanwhile, only that column means something.
"""

import argparse
import hashlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import gainbias as gb
from benchmarks.engine_yardsticks import random_problem
from gainbias.engine.paths import Sampler
from gainbias.experiments.reproduce import Instance

PARTS = 64
"""Seeds of a run, logs, and instances of each task."""

CASES = {
    "run, 64 seeds x 8 lanes, d=20": (100, 20, 8),
    "run, 64 seeds x 8 lanes, d=100": (1000, 100, 8),
    "run, 64 seeds x 1 lane, d=20": (100, 20, 1),
    "run, 64 seeds x 1 lane, d=100": (1000, 100, 1),
}
"""States, features and lanes of a seed."""

LOG_ROWS, LOGS = 20_000, 4
SHORTEN, STUDY_TASKS = 20, ("random-walk-50", "frozen-lake")


@dataclass(frozen=True)
class Contest:
    """Work of `PARTS` parts: what we do with so many threads, and what a process does with its share."""

    name: str
    ours: Callable[[int], Any]
    share: Callable[[range], Any]


@cache
def problem_of(num_states: int, num_features: int) -> gb.Problem:
    """Return a random problem, made once in each process."""
    return random_problem(num_states, num_features)


def run_contest(name: str, steps: int) -> Contest:
    """Double-chain TD; a part is a seed, in all its lanes."""
    num_states, num_features, lanes = CASES[name]
    sizes = [gb.Harmonic(20.0 + k, 1000.0) for k in range(lanes)]

    def run(seeds: range, threads: int) -> str:
        problem = problem_of(num_states, num_features)
        trace = gb.run("double-chain", problem, steps, sizes, seeds=seeds, threads=threads)
        return hashlib.sha256(trace.weights.tobytes()).hexdigest()[:12]

    return Contest(name, lambda threads: run(range(PARTS), threads), lambda seeds: run(seeds, 1))


@cache
def log_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return states and rewards of a path."""
    steps = Sampler(problem_of(100, 20).mrp).paths([number]).take(LOG_ROWS)
    return steps.here[0].astype(np.int64), steps.reward[0].copy()


def log_contest() -> Contest:
    """Logs of arrays, each evaluated in one call; a part is a log."""

    def evaluate(number: int) -> float:
        return float(gb.evaluate_log(log_of(number % LOGS)).gain)

    def ours(threads: int) -> list[float]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(evaluate, range(PARTS)))

    return Contest(
        f"evaluate_log, 64 logs of {LOG_ROWS:,} rows", ours, lambda logs: list(map(evaluate, logs))
    )


def study_contest() -> Contest:
    """Some tasks of the paper's study, shortened; a part is an instance of each."""

    def ours(workers: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            gb.reproduce(
                Path(folder) / "study",
                protocols=["fair"],
                tasks=STUDY_TASKS,
                instances=PARTS,
                shorten=SHORTEN,
                workers=workers,
            )

    def share(instances: range) -> None:
        for number in instances:
            for task in STUDY_TASKS:
                Instance("fair", task, number, SHORTEN).compute()

    return Contest(f"reproduce, 64 instances of {len(STUDY_TASKS)} tasks", ours, share)


def contests(steps: int, works: list[str]) -> Iterator[Contest]:
    """Yield what is measured."""
    if "run" in works:
        yield from (run_contest(name, steps) for name in CASES)
    if "evaluate_log" in works:
        yield log_contest()
    if "reproduce" in works:
        yield study_contest()


def serve(connection: Connection, steps: int, works: list[str]) -> None:
    """Do shares of work, in a process of its own, until there is no more."""
    shares = {contest.name: contest.share for contest in contests(steps, works)}
    while (asked := connection.recv()) is not None:
        name, part = asked
        shares[name](part)
        connection.send(True)


class Processes:
    """Independent processes that share work."""

    def __init__(self, count: int, steps: int, works: list[str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        pipes = [spawn.Pipe() for _ in range(count)]
        self._own = [own for own, _ in pipes]
        self._processes = [spawn.Process(target=serve, args=(end, steps, works)) for _, end in pipes]
        for process in self._processes:
            process.start()

    def work(self, contest: Contest) -> None:
        """Let each do its share."""
        ends = [PARTS * k // len(self._own) for k in range(len(self._own) + 1)]
        for own, begin, end in zip(self._own, ends[:-1], ends[1:], strict=True):
            own.send((contest.name, range(begin, end)))
        for own in self._own:
            own.recv()

    def close(self) -> None:
        """End them."""
        for own, process in zip(self._own, self._processes, strict=True):
            own.send(None)
            process.join()


def seconds_of(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return wall time and answer of some work."""
    begin = time.perf_counter()
    answer = work(*arguments)
    return time.perf_counter() - begin, answer


def main() -> None:
    """Measure what is asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--works", nargs="+", default=["run", "evaluate_log", "reproduce"])
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of a run")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    all_processes = {count: Processes(count, options.steps, options.works) for count in options.threads}
    print("| work | threads | ours | processes | of processes | over one thread |")
    print("|---|---:|---:|---:|---:|---:|")
    for contest in contests(options.steps, options.works):
        best, answers = {}, set()
        for turn in range(options.rounds + 1):
            for count, processes in all_processes.items():
                ours, answer = seconds_of(contest.ours, count)
                theirs, _ = seconds_of(processes.work, contest)
                answers.add(str(answer))
                if turn > 0:
                    before = best.get(count, (np.inf, np.inf))
                    best[count] = min(before[0], ours), min(before[1], theirs)
        for count, (ours, theirs) in best.items():
            gain = f"{best[1][0] / ours:.2f}" if 1 in best else ""
            print(
                f"| {contest.name} | {count} | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.2f} | {gain} |"
            )
        print(f"| | | {'the same bits' if len(answers) == 1 else 'DIFFERENT BITS'} | | | |", flush=True)
    for processes in all_processes.values():
        processes.close()


if __name__ == "__main__":
    main()
