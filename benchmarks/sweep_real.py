"""Real units from end to end: python -m benchmarks.sweep_real [--units 100000] [--workers 16] [--cluster].

Five algorithms on two tasks, on average 4.2 lanes of 1,000 steps each: from the description to the table and
the page, in processes on this machine or on a Dask cluster of as many workers on it. Memory is the peak of
this process alone, separately for the sweep and the report; so is processor time.
"""

import argparse
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gainbias as gb
from gainbias.report.sweep import report_on_sweep
from tests.experiments.cluster import cluster

TASKS = ["garnet", "random-walk-50"]
ALGORITHMS = ["td-lambda", "double-chain", "lstd", "differential-td", "single-chain"]


def of_units(count: int) -> gb.Study:
    """Return a study of this many units, or the nearest possible number below."""
    return gb.Study(
        tasks=TASKS,
        algorithms=ALGORITHMS,
        step_size={"log": [0.001, 1, 5]},
        num_steps=1000,
        checkpoints=8,
        instances=count // (len(TASKS) * len(ALGORITHMS)),
    )


def measured(name: str, work: Callable[[], Any]) -> Any:
    """Do some work, print the time and memory that it took in this process, and return its result."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak restarts
    began, busy = time.perf_counter(), time.process_time()
    found = work()
    taken, busy = time.perf_counter() - began, time.process_time() - busy
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    held = int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"| {name} | {taken:.0f} s | {busy:.0f} s | {held / 1024:.0f} MB |", flush=True)
    return found


def megabytes(path: Path) -> str:
    """Return the size of a file, or of all files of a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return f"{sum(each.stat().st_size for each in files) / 1e6:.1f} MB"


def measure(folder: Path, count: int, **where: Any) -> None:
    """Run a study and make its report, and print what that took and how large it is."""
    study = of_units(count)
    print(f"\n{study}, {where}\n\n| | time | of the driver | its peak memory |\n|---|---|---|---|")
    results = measured("sweep", lambda: gb.sweep(study, folder, max_units=count, **where))
    written = measured("report", lambda: report_on_sweep(results))
    assert not results.manifest["failures"]
    parts = {"folder": folder, "log": folder / "units", "table": Path(written["table"])}
    sizes = [f"{name} {megabytes(path)}" for name, path in {**parts, "page": Path(written["page"])}.items()]
    print(f"\n{', '.join(sizes)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--cluster", action="store_true", help="on a Dask cluster on this machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if not options.cluster:
            measure(folder / "results", options.units, workers=options.workers)
            return
        paths = os.pathsep.join([os.getcwd(), *sys.path])
        with cluster(folder, options.workers, PYTHONPATH=paths) as dask:
            measure(folder / "results", options.units, engine="dask", address=dask.address)


if __name__ == "__main__":
    main()
