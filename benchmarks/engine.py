"""Speed of the engine: ratios within one run, in one table.

    python -m benchmarks.engine --parts lane lanes paths

What runs in one thread is measured in processor time, so that other programs on the machine count less.
Things that are compared take turns, and the best of several rounds counts for each.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import gainbias as gb
from benchmarks.engine_yardsticks import (
    double_chain_in_numpy,
    multiply_and_add,
    random_problem,
    simulate_with_quantecon,
)
from gainbias.algorithms.algorithm import Setting
from gainbias.engine.loop import NO_NOTES, Memory, loop_of
from gainbias.engine.paths import Sampler
from gainbias.engine.schedules import side_by_side
from gainbias.engine.work import KERNEL_STRETCH, moves_of
from gainbias.features.rows import LANES, rows_of
from tests.oracles.expanders import random_dyadic_transitions

CHAINS = ("first chain", "second chain")

PAPER_TABLE = (
    (50, 5, 150_000),
    (100, 20, 150_000),
    (1000, 100, 150_000),
    (16, 10, 150_000),
    (48, 20, 150_000),
    (500, 100, 150_000),
    (25, 10, 200_000),
    (100, 40, 300_000),
    (22, 10, 300_000),
    (72, 20, 200_000),
    (72, 20, 200_000),
    (100, 50, 500_000),
    (63, 50, 150_000),
    (127, 50, 150_000),
    (255, 50, 300_000),
)
"""States, features and steps of the paper's fifteen tasks."""

PAPER_ALGORITHMS = ("double-chain", "single-chain", "td-lambda", "implicit-td")


@dataclass(frozen=True)
class Row:
    """One requirement and the result; `holds` is None if nothing is required."""

    what: str
    need: str
    found: str
    holds: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = {True: "yes", False: "NO", None: ""}[self.holds]
        return self.what, self.need, self.found, verdict


def at_least(what: str, need: float | None, found: float, note: str = "") -> Row:
    if need is None:
        return Row(what, "", f"{found:.2f}{note}", None)
    return Row(what, f">= {need:g}", f"{found:.2f}{note}", found >= need)


def at_most(what: str, need: float, found: float, note: str = "") -> Row:
    return Row(what, f"<= {need:g}", f"{found:.2f}{note}", found <= need)


def best_times(rounds: int, **works: Callable[[], object]) -> dict[str, float]:
    """The least processor time of each piece of work; they take turns, and the first turn does not count."""
    best = dict.fromkeys(works, np.inf)
    for turn in range(rounds + 1):
        for name, work in works.items():
            start = time.process_time()
            work()
            if turn > 0:
                best[name] = min(best[name], time.process_time() - start)
    return best


class Steps:
    """The engine's loop over one stretch of double-chain steps: all its lanes, given path and step sizes."""

    def __init__(self, problem: gb.Problem, schedules: list[gb.Harmonic]) -> None:
        algorithm, width = gb.ALGORITHMS["double-chain"], min(LANES, len(schedules))
        self.loop, self.params = loop_of(algorithm.form.step), algorithm.params()
        self.rows = rows_of(problem.features)
        paths = Sampler(problem.mrp).paths
        self.moves = moves_of([paths([0], chain=chain).take(KERNEL_STRETCH) for chain in CHAINS], 0)
        setting = Setting(np.zeros((problem.num_features, width)), None, 1.0)
        parts = [schedules[k : k + width] for k in range(0, len(schedules), width)]
        self.sizes = [side_by_side(part, 0, KERNEL_STRETCH) for part in parts]
        self.states = [Memory(algorithm.form.init(setting, self.params)).state for _ in parts]

    def __call__(self) -> None:
        for state, sizes in zip(self.states, self.sizes, strict=True):
            self.loop(state, self.params, self.rows, self.moves, sizes, NO_NOTES)


def one_lane() -> Iterator[Row]:
    """A lane against a loop in NumPy that is given the same path."""
    schedule, many = gb.Harmonic(150, 1000), 100_000
    for n, d, need in ((100, 20, 100), (1000, 100, 20)):
        problem = random_problem(n, d)
        steps = Steps(problem, [schedule])
        loop = double_chain_in_numpy(problem.features.matrix, steps.moves, steps.sizes[0][:, 0])
        steps()
        np.testing.assert_allclose(steps.states[0].weights[:, 0], loop(), rtol=1e-9)

        def run(problem=problem):
            gb.run("double-chain", problem, many, schedule, checkpoints=1, threads=1)

        times = best_times(9, lane=steps, loop=loop, run=run)
        each = {
            "lane": times["lane"] / KERNEL_STRETCH,
            "loop": times["loop"] / KERNEL_STRETCH,
            "run": times["run"] / many,
        }
        size = f"{n} states, {d} features"
        for name, least in (("lane", need), ("run", None)):
            what = f"one lane{', drawing its own path too' * (name == 'run')}, over a NumPy loop: {size}"
            yield at_least(what, least, each["loop"] / each[name], f" ({each[name] * 1e9:.0f} ns a step)")


def many_lanes() -> Iterator[Row]:
    """64 lanes against what multiplications and additions, or dgemm, reach in the same run."""
    n, d, count = 1000, 100, 64
    problem = random_problem(n, d)
    schedules = [gb.Harmonic(100 + k, 1000) for k in range(count)]
    square = np.random.default_rng(0).random((600, 600))
    works: dict[str, Callable[[], object]] = {
        "steps": Steps(problem, schedules),
        "run": lambda: gb.run(
            "double-chain", problem, 10 * KERNEL_STRETCH, schedules, checkpoints=1, threads=1
        ),
        "dgemm": lambda: square @ square,
    }
    lane_steps = 8 * d * count * KERNEL_STRETCH
    operations = {"steps": lane_steps, "run": 10 * lane_steps, "dgemm": 2 * 600**3}
    for chains in (16, 32, 48):
        works[f"loop {chains}"], operations[f"loop {chains}"] = multiply_and_add(chains)
    times = best_times(15, **works)
    speed = {name: operations[name] / times[name] / 1e9 for name in works}
    speed["multiply-and-add"] = max(speed[name] for name in works if name.startswith("loop"))
    size = f"{count} lanes, {n} states, {d} features"
    for name, part, need in (
        ("multiply-and-add", "steps", 0.8),
        ("dgemm", "steps", 0.35),
        ("multiply-and-add", "run", None),
    ):
        note = f" ({speed[part]:.1f} of {speed[name]:.1f} Gflop/s)"
        whole = ", drawing paths and step sizes too" * (part == "run")
        yield at_least(f"{size}{whole}, over {name}", need, speed[part] / speed[name], note)


def paths() -> Iterator[Row]:
    """Sample paths against QuantEcon's."""
    steps = 800_000
    rng = np.random.default_rng(0)
    for n, kind in ((100, "dense"), (1000, "dense"), (100_000, "sparse")):
        chain = random_dyadic_transitions(n, rng) if kind == "sparse" else rng.dirichlet(np.ones(n), n)
        sampler = Sampler(gb.MarkovRewardProcess(chain, rng.random(n)))
        for count in (1, 4):
            drawing = sampler.paths(range(count))

            def ours(drawing=drawing, count=count):
                for _ in range(steps // count // KERNEL_STRETCH):
                    drawing.take(KERNEL_STRETCH)

            works = {"ours": ours, "theirs": simulate_with_quantecon(chain, steps // count, count)}
            times = best_times(4, **works)
            made = {"ours": steps // count // KERNEL_STRETCH * KERNEL_STRETCH * count, "theirs": steps}
            each = {name: times[name] / made[name] * 1e9 for name in works}
            note = f" ({each['ours']:.0f} and {each['theirs']:.0f} ns a step)"
            what = f"{count} path{'s' * (count > 1)}, {n:,} {kind} states, over QuantEcon"
            yield at_least(what, 1, each["theirs"] / each["ours"], note)


def tabular() -> Iterator[Row]:
    """Single-chain TD, whose plain form costs O(n) a step, against TD."""
    steps = 1_000_000
    for n in (1000, 1_000_000):
        problem = tabular_problem(n)
        for name, schedule in (("harmonic", gb.Harmonic(150, 1000)), ("constant", gb.Constant(0.1))):

            def run(algorithm, problem=problem, schedule=schedule):
                return gb.run(algorithm, problem, steps, schedule, checkpoints=1, threads=1)

            works = {each: lambda each=each, run=run: run(each) for each in ("td-lambda", "single-chain")}
            times = best_times(3, **works)
            each = [times[name] / steps * 1e9 for name in ("single-chain", "td-lambda")]
            what = f"tabular single-chain over td-lambda, whole runs: {n:,} states, {name} steps"
            yield at_most(what, 4, each[0] / each[1], " ({:.0f} and {:.0f} ns a step)".format(*each))
    sizes = 1_000_000, 100_000
    memory = [peak_bytes(tabular_problem(n)) for n in sizes]
    what = "memory of tabular single-chain: {:,} over {:,} states".format(*sizes)
    yield at_most(what, 12, memory[0] / memory[1], " ({:.0f} and {:.0f} MB)".format(*np.array(memory) / 1e6))


def tabular_problem(n: int) -> gb.Problem:
    rng = np.random.default_rng(0)
    mrp = gb.MarkovRewardProcess(random_dyadic_transitions(n, rng), rng.random(n))
    return gb.Problem(mrp, gb.Tabular())


def peak_bytes(problem: gb.Problem) -> int:
    """What a first run takes beyond making its problem."""
    tracemalloc.start()
    gb.run("single-chain", problem, 10_000, gb.Harmonic(150, 1000), checkpoints=1, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compile_times() -> Iterator[Row]:
    """Every algorithm with every kind of features, in a new process without a disk cache."""
    command = [sys.executable, "-m", "benchmarks.engine_compile"]
    environment = {**os.environ, "GAINBIAS_CACHE": "0"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    measured = json.loads(done.stdout)
    paths = measured.pop("paths")
    yield Row("compiling the kernels that draw paths, once", "", f"{paths:.2f} s", None)
    worst = max(measured, key=measured.get)
    above = sum(seconds > 2 for seconds in measured.values())
    note = f" s ({worst}; {above} above 2 s, median {np.median(list(measured.values())):.2f} s)"
    yield at_most(f"compiling an algorithm, worst of {len(measured)}", 2, measured[worst], note)


def paper_table() -> Iterator[Row]:
    """Random chains of the sizes of the paper's tasks, its four algorithms, three seeds; wall-clock time."""
    problems = [(random_problem(n, d), steps) for n, d, steps in PAPER_TABLE]
    for algorithm in PAPER_ALGORITHMS:  # compiled beforehand
        gb.run(algorithm, problems[0][0], 10, 0.1)
    start, start_cpu, total = time.perf_counter(), time.process_time(), 0
    for problem, steps in problems:
        for algorithm in PAPER_ALGORITHMS:
            gb.run(algorithm, problem, steps, gb.Harmonic(steps / 1000, 1000), seeds=range(3))
            total += 3 * steps
    seconds, processor = time.perf_counter() - start, time.process_time() - start_cpu
    what = f"the paper's table, {total / 1e6:.1f} million steps, seconds on {os.cpu_count()} cores"
    yield at_most(what, 10, seconds, f" ({processor:.2f} s of processor time)")


PARTS = {
    "lane": one_lane,
    "lanes": many_lanes,
    "paths": paths,
    "tabular": tabular,
    "compile": compile_times,
    "table": paper_table,
}

HEADER = ("what", "must be", "is", "holds")


def table(rows: list[Row], markdown: bool) -> str:
    lines = [HEADER, *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in padded)
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    options = parser.parse_args()
    rows = []
    for part in options.parts:
        for row in PARTS[part]():
            print("  ".join(row.cells), file=sys.stderr, flush=True)
            rows.append(row)
    print(table(rows, options.markdown))


if __name__ == "__main__":
    main()
