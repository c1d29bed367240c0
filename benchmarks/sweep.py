"""What a sweep costs besides its work: python -m benchmarks.sweep [--units 20] [--only-killer].

The overhead of an engine is the time of its workers, from the first unit to the last, that was not spent in
units, after workers have warmed up. Units keep a core busy for two seconds by its own clock.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gainbias as gb
from benchmarks.sweep_units import Busy
from gainbias.experiments.engines import Engine, opened
from gainbias.experiments.results import Results
from gainbias.experiments.runner import complete, execute
from gainbias.experiments.units import packed
from tests.experiments.cluster import cluster
from tests.experiments.trivial import Trivial

WORKERS, SECONDS = 2, 2.0


def measure(engine: Engine, folder: Path, count: int) -> tuple[float, float, float]:
    """Return the seconds until workers are warm, the overhead in per cent, and the driver's ms per unit."""
    began = time.perf_counter()
    _run(engine, Results(folder / "warm"), [Busy(number, takes=0.05) for number in range(2 * WORKERS)])
    warm = time.perf_counter() - began
    units, results = [Busy(number, takes=SECONDS) for number in range(count)], Results(folder / "timed")
    began, driver = time.perf_counter(), time.process_time()
    _run(engine, results, units)
    taken, driver = time.perf_counter() - began, time.process_time() - driver
    busy = sum(tables["runs"]["taken"][0].as_py() for tables in results.stored_tables(units))
    return warm, 100 * (WORKERS * taken / busy - 1), 1000 * driver / count


def _run(engine: Engine, results: Results, units: list[Busy]) -> None:
    with results.log:
        complete(units, results, engine, lambda now: None)


def planning(folder: Path, count: int) -> None:
    """Print how long it takes to plan, store, index and look up units that do nothing."""
    began = time.perf_counter()
    study = gb.Study(
        tasks=["boyan-chain", "two-loop"],
        algorithms=["td-lambda", "double-chain", "lstd", "differential-td", "single-chain"],
        step_size={"log": [0.001, 1, 10]},
        num_steps=1000,
        instances=count // 10,
    )
    units = list(study.cells())
    ids = {unit.id for unit in units}
    planned = time.perf_counter() - began
    results, payload = Results(folder / "planned"), packed({"runs": {"step": [1]}})
    began = time.perf_counter()
    with results.log as log:
        for first in range(0, len(units), 100):
            log.append_all((unit.id, payload) for unit in units[first : first + 100])
    stored = time.perf_counter() - began
    began = time.perf_counter()
    done, _ = Results(folder / "planned").finished(units)
    indexed = time.perf_counter() - began
    assert done == ids
    print(f"| {len(units):,} | {planned:.1f} s | {stored:.1f} s | {indexed:.1f} s | {peak()} MB |")


def poison(name: str, engine: Engine, times: int) -> None:
    """Print how long 48 units of 2 s take on 8 workers, without and with one that kills its worker."""
    list(execute([Trivial(n, "sleep", takes=1.0) for n in range(100, 124)], engine))  # all have started
    for _ in range(times):
        calm, _ = _seconds(engine, bad=-1)
        taken, others = _seconds(engine, bad=5)
        print(f"| {name} | {calm:.1f} s | {taken:.1f} s | {others:.1f} s | {taken / calm:.2f} |", flush=True)


def _seconds(engine: Engine, bad: int) -> tuple[float, float]:
    """Return how long 48 units of 2 s take, and how long until all but the one that kills are done."""
    units = [Trivial(n, "kill" if n == bad else "sleep", takes=2.0) for n in range(48)]
    began, others = time.perf_counter(), 0.0
    for found in execute(units, engine):
        if any(not answer.error for answer in found.units):
            others = time.perf_counter() - began
    return time.perf_counter() - began, others


@contextmanager
def on_cluster(folder: Path, workers: int) -> Iterator[Engine]:
    """Start a cluster of separate processes on this machine, for a ``with`` block."""
    paths = os.pathsep.join([os.getcwd(), *sys.path])
    with cluster(folder, workers, PYTHONPATH=paths) as dask, opened("dask", address=dask.address) as engine:
        yield engine


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=20)
    parser.add_argument("--planned", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3, help="with and without the killer")
    parser.add_argument("--only-killer", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        print("| 48 units of 2 s on 8 workers | no killer | one kills its worker | the others | ratio |")
        print("|---|---|---|---|---|")
        with opened("local", 8) as engine:
            poison("local", engine, options.times)
        with on_cluster(folder, 8) as engine:
            poison("dask", engine, options.times)
        if options.only_killer:
            return
        print("\n| units | planned | stored | indexed and checked | peak memory |\n|---|---|---|---|---|")
        planning(folder, options.planned)
        print(f"\n| {WORKERS} workers | warm after | overhead of {SECONDS:g}-s units | driver |")
        print("|---|---|---|---|")
        with opened("local", WORKERS) as engine:
            show("local", *measure(engine, folder / "local", options.units))
        with on_cluster(folder, WORKERS) as engine:
            show("dask", *measure(engine, folder / "dask", options.units))


def show(name: str, warm: float, overhead: float, driver: float) -> None:
    print(f"| {name} | {warm:.1f} s | {overhead:.1f}% | {driver:.1f} ms a unit |", flush=True)


if __name__ == "__main__":
    main()
