"""How many workers one driver can feed: python -m benchmarks.sweep_workers [--workers 100 300 1000].

The scheduler, the driver and their messages are real. Workers are Dask's, with 25 threads each
and ten in a process, and only sleep: each unit takes two seconds, and its answer has the size of a real one.
What counts is the processor time that the driver and the scheduler need for each unit, which hardly depends
on what else this machine does, and whether all threads have something to do.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gainbias.experiments import engines
from gainbias.experiments.engines import Answers, opened
from gainbias.experiments.provenance import code_version
from gainbias.experiments.results import Results
from gainbias.experiments.runner import complete
from gainbias.experiments.units import Unit, UnitAnswer, packed
from tests.experiments.cluster import cluster
from tests.experiments.trivial import Trivial

SECONDS, THREADS, PER_PROCESS = 2.0, 25, 250
ROWS = {"runs": {"step": list(range(500)), "error": [0.1 * row for row in range(500)]}}


def pretend(units: Sequence[Unit], *_: object) -> Answers:
    """Take the time of the units and do nothing."""
    time.sleep(sum(unit.seconds for unit in units))
    return Answers([UnitAnswer(unit.id, packed(ROWS), seconds=unit.seconds) for unit in units], "pretended")


async def host(address: str, count: int) -> None:
    """Be workers with so many threads together, until this process is ended."""
    from distributed import Worker

    engines._compute_beside = pretend
    code_version(), code_version(())  # once for all of them
    for first in range(0, count, THREADS):
        await Worker(address, nthreads=min(THREADS, count - first), memory_limit=0, dashboard=False)
    await asyncio.Event().wait()


def spent(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, count: int, rounds: int) -> None:
    """Print a line of the table."""
    paths = os.pathsep.join([os.getcwd(), *sys.path])
    with cluster(folder, 0, PYTHONPATH=paths) as dask:
        shares = [min(PER_PROCESS, count - first) for first in range(0, count, PER_PROCESS)]
        host = [sys.executable, "-m", "benchmarks.sweep_workers", "--host", dask.address]
        environment = {**os.environ, "PYTHONPATH": paths}
        hosts = [
            subprocess.Popen([*host, str(share)], env=environment, stderr=subprocess.DEVNULL)
            for share in shares
        ]
        try:
            with opened("dask", address=dask.address, wait="10min") as engine:
                while engine.ahead < 2 * count:
                    time.sleep(0.5)
                run(engine, folder, count, rounds, dask.scheduler.pid)
        finally:
            for each in hosts:
                each.kill()
                each.wait()


def run(engine: engines.Engine, folder: Path, count: int, rounds: int, scheduler: int) -> None:
    units = [Trivial(number, takes=SECONDS) for number in range(rounds * count)]
    results, batches = Results(folder / "results"), 0

    def show(_: object) -> None:
        nonlocal batches
        batches += 1

    before, began = (spent(os.getpid()), spent(scheduler)), time.monotonic()
    with results.log:
        complete(units, results, engine, show)
    taken = time.monotonic() - began
    driver, other = (spent(os.getpid()) - before[0]), (spent(scheduler) - before[1])
    print(
        f"| {count:,} | {len(units):,} | {taken:.0f} s | {100 * rounds * SECONDS / taken:.0f}% | "
        f"{1000 * driver / len(units):.1f} ms | {1000 * other / len(units):.1f} ms | "
        f"{driver / taken:.2f} | {other / taken:.2f} | {batches:,} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--rounds", type=int, default=20, help="units of each worker")
    parser.add_argument("--host", nargs=2, metavar=("ADDRESS", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return asyncio.run(host(options.host[0], int(options.host[1])))
    print("| workers | units | time | busy | driver, each | scheduler, each | driver | scheduler | calls |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count in options.workers:
        with tempfile.TemporaryDirectory() as made:
            measure(Path(made), count, options.rounds)
    return None


if __name__ == "__main__":
    main()
