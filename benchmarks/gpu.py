"""Lanes on a GPU: their speed, whether results equal the processor's bit for bit, and when they pay off.

    python -m benchmarks.gpu targets
    python -m benchmarks.gpu rates pays fused algorithms stacked variants
    python -m benchmarks.gpu study reproduction

Each part prints its rows one by one. A row that fails says why, and the others continue; no row begins after
a minute, and the part says how many it left out. Times are those of whole calls of `gb.run` from the host,
unless a column says otherwise.
"""

import argparse
import contextlib
import itertools
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import TypeVar

import numpy as np
import pandas
from numba import cuda

import gainbias as gb
from benchmarks.engine_yardsticks import random_problem
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine import device
from gainbias.engine.stacked import StackedPlan, StackedRun, run_stacked
from gainbias.experiments import reproduce
from gainbias.experiments.reproduce import PROTOCOLS
from gainbias.kernels import count_threads, gpu

LANES_OF_A_PATH = 32
SECONDS = 0.6
"""About how long a row of rates works, besides the first launch."""

LAST_BEGIN = 55.0
"""After so many seconds a part begins no more rows."""

Row = TypeVar("Row")


def say(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def head(*cells: str) -> None:
    sys.stdout.write("\n")
    say(*cells)
    say(*("---" for _ in cells))


@contextlib.contextmanager
def row(*cells: object) -> Iterator[None]:
    """Say which row failed, and why, instead of ending the part."""
    try:
        yield
    except Exception as error:
        words = str(error).strip().splitlines() or [""]
        say(*cells, f"failed: {type(error).__name__}: {words[0][:200]}")


def in_time(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield what rows are about while there is time left, then say how many are left out."""
    waiting, begin = list(rows), time.perf_counter()
    while waiting and time.perf_counter() - begin < LAST_BEGIN:
        yield waiting.pop(0)
    if waiting:
        say(f"the time is up: {len(waiting)} left out")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@cache
def problem_of(n: int, d: int) -> gb.Problem:
    problem = random_problem(n, d)
    assert problem.values.size == n  # solved before any clock runs
    return problem


def sizes_of(count: int) -> list[gb.Harmonic]:
    return [gb.Harmonic(10.0 + 100.0 * k / count, 1000.0) for k in range(count)]


def lanes_run(name: str, problem: gb.Problem, paths: int, lanes: int, steps: int, **options) -> gb.Trace:
    """Run some lanes on each of some paths, on the GPU unless the options say something else."""
    options = {"device": "gpu", "checkpoints": [steps], **options}
    return gb.run(name, problem, steps, sizes_of(lanes), seeds=range(paths), **options)


def rate_between(run: Callable[[int], object], few: int, many: int, lanes: int) -> tuple[float, float]:
    """Return lane-steps a second of a whole run of many steps, and of those beyond the few."""
    short, long = seconds(lambda: run(few)), seconds(lambda: run(many))
    return lanes * many / long, lanes * (many - few) / max(long - short, 1e-9)


def kernel_seconds(work: Callable[[], object]) -> Counter[str]:
    """Return how long each kernel takes in total: the host waits for every launch."""
    found, launch = Counter[str](), device.launch

    def timed(kernel: object, *rest: object, **options: object) -> None:
        start = time.perf_counter()
        launch(kernel, *rest, **options)
        cuda.synchronize()
        found[kernel.py_func.__name__] += time.perf_counter() - start

    with instead(device, launch=timed):
        work()
    return found


def targets() -> None:
    """The targets, with paths, step sizes, 20 checkpoints and errors at each of them."""
    head(
        "n",
        "d",
        "paths x lanes",
        "steps",
        "first call, s",
        "whole, /s",
        "without what is fixed, /s",
        "aim, /s",
        "seconds of kernels",
    )
    for n, d, paths, lanes, steps, aim in (
        (100, 20, 4096, 32, 200_000, 2e10),
        (100, 20, 131_072, 1, 100_000, 5e9),
        (1000, 100, 4096, 32, 40_000, 1.2e9),
    ):
        with row(n, d, f"{paths} x {lanes}"):
            looks = gb.Checkpoints(20, keep="errors")
            run = partial(lanes_run, "double-chain", problem_of(n, d), paths, lanes, checkpoints=looks)
            first = seconds(partial(run, 10))
            whole, marginal = rate_between(run, steps // 10, steps, paths * lanes)
            parts = kernel_seconds(partial(run, steps))
            shares = ", ".join(f"{name} {took:.3f}" for name, took in parts.items())
            rates = f"{whole:.3g}", f"{marginal:.3g}", f"{aim:.2g}"
            say(n, d, f"{paths} x {lanes}", steps, f"{first:.1f}", *rates, shares)


def rates() -> None:
    """Rates over lanes and features, with 32 lanes to a path and with a path for each lane."""
    head("d", "lanes", "lanes of a path", "steps", "whole, /s", "without what is fixed, /s")
    ways = itertools.product((20, 5, 100, 500), (LANES_OF_A_PATH, 1), (1_000, 10_000, 100_000, 1_000_000))
    for d, shared, lanes in in_time(ways):
        if lanes * d > 100_000_000:
            say(d, lanes, shared, "left out: its weights alone would be 4 GB on the host")
            continue
        with row(d, lanes, shared):
            problem = problem_of(100 if d < 100 else 1000, d)
            paths = -(-lanes // shared)
            expected = min(5e6 * lanes / (1 + d / 20), 4e11 / d)
            steps = int(np.clip(expected * SECONDS / lanes, 500, 200_000))
            run = partial(lanes_run, "double-chain", problem, paths, shared)
            run(10)
            whole, marginal = rate_between(run, steps // 4, steps, paths * shared)
            say(d, paths * shared, shared, steps, f"{whole:.3g}", f"{marginal:.3g}")


def pays() -> None:
    """How many lanes a GPU needs to pay off: the same runs on the GPU, on one core and on all."""
    every = count_threads(None)
    head("d", "paths x lanes", "steps", "GPU, s", "one core, s", f"{every} cores, s")
    steps, sizes = 50_000, ((1, 1), (8, 8), (16, 32), (64, 32), (512, 32))
    for d, (paths, lanes) in in_time(itertools.product((20, 5, 100), sizes)):
        with row(d, f"{paths} x {lanes}", steps):
            problem = problem_of(100 if d < 100 else 1000, d)
            run = partial(lanes_run, "double-chain", problem, paths, lanes)
            run(10)
            run(10, device="cpu")
            there = seconds(partial(run, steps))
            all_cores = seconds(partial(run, steps, device="cpu"))
            if all_cores * every < 10.0:
                one = f"{seconds(partial(run, steps, device='cpu', threads=1)):.3f}"
            else:
                one = "not tried"
            say(d, f"{paths} x {lanes}", steps, f"{there:.3f}", one, f"{all_cores:.3f}")


def fused() -> None:
    """What rounding each product costs, against fused operations."""
    head("algorithm", "d", "rounded, kernel alone, /s", "fused, /s", "rounded / fused")
    for name, d in in_time(itertools.product(("double-chain", "td-lambda", "single-chain"), (20, 100))):
        with row(name, d):
            problem, steps = problem_of(100 if d < 100 else 1000, d), 800_000 // d
            run = partial(lanes_run, name, problem, 4096, LANES_OF_A_PATH)
            found, lane_steps = [], 4096 * LANES_OF_A_PATH * steps
            for block in (gpu.unfused, contextlib.nullcontext):
                with instead(gpu, unfused=block):
                    forget_kernels()
                    run(10)
                    took = kernel_seconds(partial(run, steps))
                    found.append(lane_steps / took["advance"])
            forget_kernels()
            say(name, d, f"{found[0]:.3g}", f"{found[1]:.3g}", f"{found[0] / found[1]:.2f}")


def variants() -> None:
    """Other ways to compile the kernel: own memory or not, threads of a block, registers at most."""
    head("d", "lanes of a path", "own memory", "threads of a block", "registers", "kernel alone, /s")
    ways = [
        (512, 64, 128), (512, 128, 128), (512, 64, None), (512, 128, None), (512, 160, None), (0, 64, None)
    ]  # fmt: skip
    sizes = (20, 32), (20, 1), (100, 32), (100, 1)
    for (d, shared), (own, threads, registers) in in_time(itertools.product(sizes, ways)):
        with row(d, shared, own > 0, threads, registers):
            problem, steps = problem_of(100 if d < 100 else 1000, d), 800_000 // d
            run = partial(lanes_run, "double-chain", problem, 131_072 // shared, shared)
            with (
                instead(
                    device,
                    MOST_OWN_NUMBERS=own,
                    SHORT_STATE=1000,
                    FEW_REGISTERS=registers,
                    MOST_CLOSE=1000,
                ),
                instead(gpu, THREADS_OF_A_BLOCK=threads),
            ):
                forget_kernels()
                run(10)
                took = kernel_seconds(partial(run, steps))
            forget_kernels()
            say(d, shared, own > 0, threads, registers, f"{131_072 * steps / took['advance']:.3g}")


def algorithms(names: list[str]) -> None:
    """Every algorithm: its rate, and how far from the processor it is after many steps."""
    head(
        "algorithm", "features", "first call, s", "whole, /s", "without what is fixed, /s", "steps",
        "largest difference, of the largest weight", "same bits",
    )  # fmt: skip
    for name in in_time(names):
        declared = ALGORITHMS[name].declared
        kind = "tabular" if declared.tabular_only else "dense"
        with row(name, kind):
            dense = problem_of(100, 20)
            problem = dense if kind == "dense" else gb.Problem(dense.mrp, gb.Tabular())
            squares, params = name in ("lstd", "lspe"), dict(declared.trial_params)
            first = seconds(partial(lanes_run, name, problem, 4, 8, 10, params=params))
            run = partial(lanes_run, name, problem, 1024, 8, params=params)
            steps = 2_000 if squares else 20_000
            whole, marginal = rate_between(run, steps // 4, steps, 8192)
            steps = 20_000 if squares else 300_000
            here = lanes_run(name, problem, 2, 8, steps, device="cpu", params=params)
            there = lanes_run(name, problem, 2, 8, steps, params=params)
            scale = np.abs(here.weights).max()
            far = np.abs(here.weights - there.weights).max() / scale
            same = np.array_equal(here.weights, there.weights) and np.array_equal(here.gain, there.gain)
            say(
                name, kind, f"{first:.1f}", f"{whole:.3g}", f"{marginal:.3g}", steps, f"{far:.1e}",
                "yes" if same else "NO",
            )  # fmt: skip


def stacked() -> None:
    """A thousand problems with a lane for each, with kernels for any number of features and for this one."""
    head("n", "d", "steps", "kernels for", "first, s", "second, s", "one method alone, s", "same bits")
    methods = [method for method in PROTOCOLS["fair"].methods if method.goes_on_gpu]
    for (n, d), steps in in_time(itertools.product(((100, 20), (100, 50)), (50_000,))):
        problems = [random_problem(n, d, seed) for seed in range(1000)]
        found = {}
        for any_width in (True, False):
            with row(n, d, steps, any_width), instead(StackedPlan, any_width=any_width):
                runs = [
                    StackedRun(
                        one.algorithm, steps, one.step_size or gb.Harmonic(150, 1000), one.params, [steps]
                    )
                    for one in methods
                ]
                work = partial(run_stacked, runs, problems, range(len(problems)))
                first = seconds(work)
                start = time.perf_counter()
                found[any_width] = [lane.weights for lanes in work() for lane in lanes]
                second = time.perf_counter() - start
                equal = all(map(np.array_equal, found[True], found[any_width]))
                words = "any d" if any_width else "this d"
                alone = seconds(partial(run_stacked, runs[:1], problems, range(len(problems))))
                took = f"{first:.1f}", f"{second:.1f}", f"{alone:.1f}"
                say(n, d, steps, words, *took, "yes" if equal else "NO")


def study(instances: int = 1000) -> None:
    """One task with all methods of the fair protocol, on the processor and on the GPU."""
    compare_studies(["random-walk-100"], instances, instances)


def reproduction(there: int = 1000, here: int = 100) -> None:
    """The fair protocol with all tasks, from the GPU, and with fewer instances from the processor."""
    compare_studies(None, there, here)


def compare_studies(tasks: list[str] | None, there: int, here: int) -> None:
    """Run a study from the GPU and from the processor; compare the instances that both have.

    A short study comes before each, so that everything is compiled when the clock runs.
    """
    head("device", "instances", "short one before, s", "seconds", "of these with lanes on the GPU", "tables")
    tables, options = {}, {"tasks": tasks, "protocols": ["fair"]}
    with tempfile.TemporaryDirectory() as folder:
        for where, instances in (("gpu", there), ("cpu", here)):
            spans = list[tuple[float, float]]()
            with row(where, instances), instead(reproduce, run_stacked=noting(spans, run_stacked)):
                start = time.perf_counter()
                short = {"instances": 2 * count_threads(None), "shorten": 1000, "device": where}
                gb.reproduce(f"{folder}/short-{where}", **short, **options)
                before = time.perf_counter() - start
                spans.clear()
                start = time.perf_counter()
                results = gb.reproduce(f"{folder}/{where}", instances=instances, device=where, **options)
                took = time.perf_counter() - start
                both = [("run", "<", min(there, here))]
                tables[where] = pandas.read_parquet(results.folder / "runs.parquet", filters=both)
                equal = ""
                if len(tables) == 2:
                    one, other = tables.values()
                    equal = "equal" if one.equals(other) else difference(one, other)
                busy = sum(end - begin for begin, end in spans)
                say(where, instances, f"{before:.1f}", f"{took:.1f}", f"{busy:.1f}", equal)
                for begin, end in spans:
                    sys.stdout.write(f"  lanes from {begin - start:.1f} s to {end - start:.1f} s\n")


def noting(spans: list[tuple[float, float]], work: Callable[..., Row]) -> Callable[..., Row]:
    """Return a function that does the same, and notes from when to when."""

    def noted(*given: object) -> Row:
        start = time.perf_counter()
        done = work(*given)
        spans.append((start, time.perf_counter()))
        return done

    return noted


def difference(one, other) -> str:
    """Say in how many rows of two tables errors differ, and by how much, of their size."""
    far = (one.error - other.error).abs() / one.error.abs()
    return f"{(far > 0).sum()} of {len(one)} errors differ, by {far.max():.1e} at most"


@contextlib.contextmanager
def instead(module: object, **names: object) -> Iterator[None]:
    """Replace some names of a module for a while."""
    before = {name: getattr(module, name) for name in names}
    for name, value in names.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def forget_kernels() -> None:
    for made in (device.lane_kernel, device.kernel_of, device.error_kernel):
        made.cache_clear()


PARTS_IN_ORDER = targets, rates, pays, fused, stacked, study, reproduction, variants
PARTS = {part.__name__: part for part in PARTS_IN_ORDER}


def main(parts: list[str], names: list[str]) -> None:
    warnings.simplefilter("ignore")
    sys.stdout.write(f"{gpu.what_is_missing() or gpu.device_name()}; {count_threads(None)} cores\n")
    for part in parts:
        start = time.perf_counter()
        if part == "algorithms":
            algorithms(names)
        else:
            PARTS[part]()
        sys.stdout.write(f"{part}: {time.perf_counter() - start:.0f} s\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "algorithms"])
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), help="ids, for that part")
    given = parser.parse_args()
    main(given.parts, given.algorithms)
