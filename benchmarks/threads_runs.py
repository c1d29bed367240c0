"""How `gb.run`, `reproduce` and `evaluate_log` scale over cores, against independent processes.

    python -m benchmarks.threads_runs --threads 1 2 4 8 16
    python -m benchmarks.threads_runs --threads 1 2 --works run --steps 150000 --rounds 5

Ours is one call with this many threads (`reproduce`: workers; for small logs, one thread for each log that is
evaluated at the same time). In comparison, as many processes with one thread each share the same work and
start at the same time. Both take turns, after a first turn that does not count, and the least wall time of
each counts. The column `of processes` is our speed divided by theirs; it should be at least 0.9. On a
busy machine, only that column means something.

The processes wait for work with all kernels loaded, as threads have them. The workers of `reproduce` are
started for each study, and so are the processes beside it: starting is part of both times.

    python -m benchmarks.threads_runs --works lock

needs no cores: the processor time of a run, and of the same run when its kernels do nothing. What is left is
done under Python's lock, by one thread at a time, so that the first over the second is a limit to how many
threads can be of use.

    python -m benchmarks.threads_runs --works alone

needs no cores either: the processor time of the evaluation of a log, that of what the calling thread does by
itself, and the speed that follows for more threads, divided by that of processes. It is a limit, because the
Python inside the work that is shared is done by one thread at a time, too.

Start with OPENBLAS_NUM_THREADS=1: the processes have it, too.
"""

import argparse
import hashlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import gainbias as gb
from benchmarks.engine_yardsticks import random_problem
from gainbias.engine import loop, paths, schedules
from gainbias.engine.paths import Sampler
from gainbias.evaluation import collection, evaluate
from gainbias.evaluation.values import methods
from gainbias.experiments.reproduce import Instance
from gainbias.kernels import threads

PARTS = 64
"""Seeds of a run, and instances of each task."""

CASES = {
    "run, 64 seeds x 8 lanes, d=20": (100, 20, 8),
    "run, 64 seeds x 8 lanes, d=100": (1000, 100, 8),
    "run, 64 seeds x 1 lane, d=20": (100, 20, 1),
    "run, 64 seeds x 1 lane, d=100": (1000, 100, 1),
}
"""States, features and lanes of a seed."""

LOG_ROWS, LOGS = 20_000, 16

ROWS_LESS = 8
"""A path of a log has as many rows as a run has steps, divided by this."""

EXPECTED = (2, 16)
"""Numbers of threads for which the speed is computed from processor times."""

MOST_THREADS = 16
"""Threads for which the work is divided when what cannot be shared is measured."""

LOG_CASES = {
    "evaluate_log, 64 paths, tabular": (100, 0, PARTS),
    "evaluate_log, 64 paths, 20 features": (100, 20, PARTS),
    "evaluate_log, 64 paths, 100 features": (1000, 100, PARTS),
    "evaluate_log, one path, 20 features": (100, 20, 1),
    "evaluate_log, one path, a function with 20 features": (100, -20, 1),
}
"""States; features in a table, or of a function if negative; and paths."""

SHORTEN, STUDY_TASKS = 20, ("random-walk-50", "frozen-lake")


@dataclass(frozen=True)
class Contest:
    """Work in parts: what we do with this many threads, and what a process does with its share."""

    name: str
    ours: Callable[[int], Any]
    share: Callable[[range], Any]
    parts: int = PARTS
    starts_processes: bool = False


@cache
def problem_of(num_states: int, num_features: int) -> gb.Problem:
    """Return a random problem, made once in each process."""
    return random_problem(num_states, num_features)


def run_contest(name: str, steps: int) -> Contest:
    """Double-chain TD; a part is a seed, in all its lanes."""
    num_states, num_features, lanes = CASES[name]
    sizes = [gb.Harmonic(20.0 + k, 1000.0) for k in range(lanes)]

    def run(seeds: range, threads: int) -> np.ndarray:
        problem = problem_of(num_states, num_features)
        return gb.run("double-chain", problem, steps, sizes, seeds=seeds, threads=threads).weights

    return Contest(name, lambda threads: run(range(PARTS), threads), lambda seeds: run(seeds, 1))


@cache
def log_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return states and rewards of a path."""
    steps = Sampler(problem_of(100, 20).mrp).paths([number]).take(LOG_ROWS)
    return steps.here[0].astype(np.int64), steps.reward[0].copy()


@cache
def long_log(num_states: int, paths: range, num_paths: int, rows: int) -> dict[str, np.ndarray]:
    """Return a share of a log: some of 64 paths, or a part of one that is as long as all of these."""
    sampler = Sampler(problem_of(num_states, 20).mrp)
    steps = sampler.paths(list(paths) if num_paths > 1 else [0]).take(
        rows if num_paths > 1 else rows * len(paths)
    )
    log = {"state": steps.here.ravel().astype(np.int64), "reward": steps.reward.ravel().copy()}
    return log | ({"episode": np.repeat(np.array(paths), rows)} if num_paths > 1 else {})


def long_log_contest(name: str, rows: int) -> Contest:
    """One long log of arrays; a part is a path, or as many rows."""
    num_states, num_features, num_paths = LOG_CASES[name]
    table = np.random.default_rng(0).normal(size=(num_states, abs(num_features) or 1))

    def evaluate(paths: range, threads: int) -> list[float]:
        log, features = long_log(num_states, paths, num_paths, rows), table if num_features else "auto"
        if num_features < 0:  # as observations that are no states
            log, features = log | {"state": 1.0 * log["state"]}, lambda seen: table[seen.astype(np.int64)]
        estimate = gb.evaluate_log(
            log, features=features, num_states=num_states if num_features >= 0 else None, threads=threads
        )
        return [estimate.gain, *estimate.gain_interval, *estimate.weights]

    return Contest(name, lambda threads: evaluate(range(PARTS), threads), lambda paths: evaluate(paths, 1))


def log_contest() -> Contest:
    """Logs of arrays, each evaluated in one call; a part is a log."""

    def evaluate(number: int) -> float:
        return float(gb.evaluate_log(log_of(number), threads=1).gain)

    def ours(threads: int) -> list[float]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(evaluate, range(LOGS)))

    name = f"evaluate_log, {LOGS} logs of {LOG_ROWS:,} rows"
    return Contest(name, ours, lambda logs: list(map(evaluate, logs)), LOGS)


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

    name = f"reproduce, {PARTS} instances of {len(STUDY_TASKS)} tasks"
    return Contest(name, ours, share, starts_processes=True)


def contests(steps: int, works: list[str]) -> Iterator[Contest]:
    """Yield what is measured."""
    if "run" in works:
        yield from (run_contest(name, steps) for name in CASES)
    if "evaluate_log" in works:
        yield from (long_log_contest(name, steps // ROWS_LESS) for name in LOG_CASES)
        yield log_contest()
    if "reproduce" in works:
        yield study_contest()


def serve(connection: Connection, steps: int, works: list[str]) -> None:
    """Do shares of work, in its own process, until none is left."""
    shares = {contest.name: contest.share for contest in contests(steps, works)}
    while (asked := connection.recv()) is not None:
        name, part = asked
        shares[name](part)
        connection.send(True)


class Processes:
    """Independent processes that share work; they start when there is some."""

    def __init__(self, count: int, steps: int, works: list[str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        pipes = [spawn.Pipe() for _ in range(count)]
        self._own = [own for own, _ in pipes]
        self._processes = [spawn.Process(target=serve, args=(end, steps, works)) for _, end in pipes]

    def work(self, contest: Contest) -> None:
        """Let each do its share."""
        for process in self._processes:
            if process.pid is None:
                process.start()
        ends = [contest.parts * k // len(self._own) for k in range(len(self._own) + 1)]
        for own, begin, end in zip(self._own, ends[:-1], ends[1:], strict=True):
            own.send((contest.name, range(begin, end)))
        for own in self._own:
            own.recv()

    def close(self) -> None:
        """End them."""
        for own, process in zip(self._own, self._processes, strict=True):
            if process.pid is not None:
                own.send(None)
                process.join()


def start_and_work(contest: Contest, count: int, steps: int, works: list[str]) -> None:
    """Let processes do their shares that are started for it."""
    processes = Processes(count, steps, works)
    processes.work(contest)
    processes.close()


def seconds_of(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return wall time and answer of some work."""
    begin = time.perf_counter()
    answer = work(*arguments)
    return time.perf_counter() - begin, answer


@contextmanager
def idle_kernels() -> Iterator[None]:
    """Let kernels be called as usual, on nothing."""
    loop_of, walk, fill = loop.loop_of, paths.walk, schedules.fill_ratios

    def idle_loop_of(step: Callable[..., None]) -> Callable[..., bool]:
        def advance(state: Any, params: Any, rows: Any, moves: Any, sizes: Any, notes: Any) -> bool:
            none = type(moves)(*(array[:0] for array in moves))
            return loop_of(step)(state, params, rows, none, sizes, loop.NO_NOTES)

        return advance

    def idle_walk(table: Any, law: Any, length: int, *rest: Any) -> None:
        walk(table, law, 0, *rest)

    with ExitStack() as stack:
        for module, name, idle in (
            (loop, "loop_of", idle_loop_of),
            (paths, "walk", idle_walk),
            (schedules, "fill_ratios", lambda ratios, first, sizes: fill(ratios, first, sizes[:0])),
        ):
            stack.enter_context(patch.object(module, name, idle))
        yield


@contextmanager
def without_shared_work() -> Iterator[Callable[[], float]]:
    """Let one thread do what is shared among many, and yield a function that says how long that took."""
    spent, take = [0.0], threads._Job._take

    def timed(job: Any) -> Any:
        begin = time.process_time()
        try:
            return take(job)
        finally:
            spent[0] += time.process_time() - begin

    @contextmanager
    def with_nobody(count: int) -> Iterator[None]:
        before = threads._CREW.set(threads._Crew(0))
        try:
            yield
        finally:
            threads._CREW.reset(before)

    with ExitStack() as stack:
        stack.enter_context(patch.object(threads._Job, "_take", timed))
        stack.enter_context(patch.object(evaluate, "using_threads", with_nobody))
        for module in (collection, methods):
            stack.enter_context(patch.object(module, "threads_at_work", lambda: MOST_THREADS))
        yield lambda: spent[0]


def measure_alone(steps: int, rounds: int) -> None:
    """Print what the calling thread does by itself with a log, and what follows for more threads."""
    print(f"| work | all | alone | {' | '.join(f'{count} threads, of processes' for count in EXPECTED)} |")
    print(f"|---|---:|---:|{'---:|' * len(EXPECTED)}")
    for name in LOG_CASES:
        contest = long_log_contest(name, steps // ROWS_LESS)
        least = dict.fromkeys(("all", "alone", *EXPECTED), np.inf)
        for _ in range(rounds + 1):  # the first is never the fastest
            with without_shared_work() as shared:
                begin = time.process_time()
                contest.ours(2)
                spent = time.process_time() - begin
            least["all"], least["alone"] = min(least["all"], spent), min(least["alone"], spent - shared())
            for count in EXPECTED:
                begin = time.process_time()
                contest.share(range(PARTS // count))
                least[count] = min(least[count], time.process_time() - begin)
        alone, rest = least["alone"], least["all"] - least["alone"]
        ratios = " | ".join(f"{least[count] / (alone + rest / count):.2f}" for count in EXPECTED)
        print(f"| {name} | {least['all']:.2f} s | {alone:.3f} s | {ratios} |", flush=True)


def measure_lock(steps: int, rounds: int) -> None:
    """Print how much of a run is done under the lock."""
    print("| work, one thread | all | under the lock | most threads of use |\n|---|---:|---:|---:|")
    for name in CASES:
        work = run_contest(name, steps).ours
        work(1)
        least = dict.fromkeys(("all", "lock"), np.inf)
        for _ in range(rounds):
            for kind in least:
                with ExitStack() as stack:
                    if kind == "lock":
                        stack.enter_context(idle_kernels())
                    begin = time.process_time()
                    work(1)
                    least[kind] = min(least[kind], time.process_time() - begin)
        whole, lock = least.values()
        print(f"| {name} | {whole:.2f} s | {lock:.3f} s | {whole / lock:.0f} |", flush=True)


def main() -> None:
    """Measure what was requested, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--works", nargs="+", default=["run", "evaluate_log", "reproduce"])
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of a run")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "lock" in options.works:
        measure_lock(options.steps, options.rounds)
    if "alone" in options.works:
        measure_alone(options.steps, options.rounds)
    if {"lock", "alone"} & set(options.works):
        return
    for contest in contests(options.steps, options.works):
        contest.share(range(1))  # compiles what all processes would compile at the same time
    all_processes = {count: Processes(count, options.steps, options.works) for count in options.threads}
    print("| work | threads | ours | processes | of processes | over one thread |")
    print("|---|---:|---:|---:|---:|---:|")
    for contest in contests(options.steps, options.works):
        best, answers = {}, set()
        for turn in range(options.rounds + 1):
            for count, processes in all_processes.items():
                ours, answer = seconds_of(contest.ours, count)
                if contest.starts_processes:
                    theirs, _ = seconds_of(start_and_work, contest, count, options.steps, options.works)
                else:
                    theirs, _ = seconds_of(processes.work, contest)
                answers.add(hashlib.sha256(np.asarray(answer, float).tobytes()).hexdigest())
                if turn > 0:
                    before = best.get(count, (np.inf, np.inf))
                    best[count] = min(before[0], ours), min(before[1], theirs)
        for count, (ours, theirs) in best.items():
            gain = f"{best[1][0] / ours:.2f}" if 1 in best else ""
            print(
                f"| {contest.name} | {count} | {ours:.3g} s | {theirs:.3g} s | {theirs / ours:.2f} | {gain} |"
            )
        print(f"| | | {'the same bits' if len(answers) == 1 else 'DIFFERENT BITS'} | | | |", flush=True)
    for processes in all_processes.values():
        processes.close()


if __name__ == "__main__":
    main()
