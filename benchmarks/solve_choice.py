"""What the choice of a method costs: `solve` against the best single method, each forced, on every chain.

    python -m benchmarks.solve_choice --workers 8 --output docs/data/solve_choice.json
    python -m benchmarks.solve_choice --workers 8 --set held-out --output docs/data/solve_choice_held_out.json
    python -m benchmarks.solve_choice --write

The last command puts the tables of the stored figures into docs/benchmarks.md. Times are processor time of a
solve, checks and bounds included, best of two unless one takes longer than `LONG`. Every chain and method has
the same limits of time and memory. A forced method counts if its own error bound meets the tolerance; it is
stopped when it has taken `PATIENCE` times as long as the choice, since it can no longer be the best one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.solve_cell import OWN_METHODS, forget_peak, peak_memory
from benchmarks.solve_chains import FAMILIES, HELD_OUT, Family, ManyClasses, load, save
from gainbias.store import write_whole

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
STORED = {
    "open": ROOT / "docs/data/solve_choice.json",
    "held-out": ROOT / "docs/data/solve_choice_held_out.json",
}
BEGIN, END = "<!-- choice: begin -->", "<!-- choice: end -->"

SIZES = (3_000, 27_000, 125_000)
LARGE = ("torus-3d", "drift-cube", "drift-grid", "birth-death", "random-sparse")
"""Kinds that are solved with a million states too."""

SMALLER = {"two-scale-blocks": (3_000, 27_000, 60_000)}
HELD_OUT_SIZES = (9_000, 70_000)

LONG = 15.0
"""A solve that takes longer than this is measured once."""

PATIENCE, LEAST_SECONDS, MOST_SECONDS, MOST_BYTES = 4.0, 2.0, 300.0, 12e9
ONE_PROCESS = 30_000
"""Up to this size all methods of a chain are measured in one process, one after the other."""

THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def cells_of(which: str) -> list[tuple[str, int]]:
    """Return kinds and sizes, the largest first."""
    if which == "held-out":
        cells = [(kind, size) for kind in HELD_OUT for size in HELD_OUT_SIZES]
    else:
        cells = [(kind, size) for kind in FAMILIES for size in SMALLER.get(kind, SIZES)]
        cells += [(kind, 1_000_000) for kind in LARGE]
    return sorted(cells, key=lambda cell: -cell[1])


def measure(family: Family, chain: Any, method: str, limit: float) -> dict[str, Any]:
    """Return what one method does on a chain."""
    import gainbias as gb

    found: dict[str, Any] = {}
    forget_peak()
    start, clock = time.process_time(), time.monotonic()
    several = isinstance(chain, ManyClasses)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.AccuracyWarning)
            mrp = gb.MarkovRewardProcess(chain.transitions, chain.rewards)
            solution = gb.solve(
                mrp, family.tolerance, method, time_limit=limit, max_memory=MOST_BYTES, multichain=several
            )
    except gb.ConvergenceError as reason:
        found["failed"] = str(reason).splitlines()[1 if "Tried:" in str(reason) else 0].strip(" -")[:200]
    found["seconds"], found["clock"] = time.process_time() - start, time.monotonic() - clock
    found["bytes"] = peak_memory()
    if "failed" not in found:
        found["method"], found["notes"] = solution.method, list(solution.notes)
        found["error_bound"] = solution.error_bound
        found["gain_error"] = float(np.abs(solution.gain - chain.gain).max() / np.abs(chain.rewards).max())
        found["bias_error"] = float(np.abs(solution.bias - chain.bias).max() / np.ptp(chain.bias))
        found["meets"] = bool(solution.error_bound <= family.tolerance)
    return found


def best_of_two(family: Family, chain: Any, method: str, limit: float, auto: float) -> dict[str, Any]:
    """Return the better of two measurements, if a second one is useful."""
    found = measure(family, chain, method, limit)
    if found["seconds"] < min(LONG, 2.0 * auto) and found.get("meets"):
        again = measure(family, chain, method, limit)
        if again["seconds"] < found["seconds"]:
            found = again
    return found


def work(family: Family, kind: str, size: int, methods: list[str], auto: float, file: Path) -> None:
    """Measure some methods on one chain, and print a line for each."""
    small = family.build(1_200)
    for method in ["auto", *OWN_METHODS] if "auto" in methods else methods:  # compiles all that is needed
        measure(family, small, method, 5.0)
    if file.exists():
        chain = load(file)
    else:
        chain = family.build(size)
        if size > ONE_PROCESS:
            save(chain, file)
    for method in methods:
        limit = MOST_SECONDS if method == "auto" else max(LEAST_SECONDS, PATIENCE * auto)
        found = best_of_two(family, chain, method, limit, auto)
        auto = found["clock"] if method == "auto" else auto
        line = {"kind": kind, "states": chain.num_states, "tolerance": family.tolerance, "asked": method}
        print(json.dumps({**line, "transitions": int(chain.transitions.nnz), **found}), flush=True)


def job(
    which: str, kind: str, size: int, methods: list[str], auto: float, folder: Path
) -> list[dict[str, Any]]:
    """Run `work` in its own process, and return its lines."""
    file = folder / f"{kind}-{size}.npz"
    command = [sys.executable, "-m", "benchmarks.solve_choice", "--set", which, "--job", kind, str(size)]
    arguments = [",".join(methods), repr(auto), str(file)]
    seconds = 240.0 + 3.0 * len(methods) * (MOST_SECONDS if auto == np.inf else PATIENCE * auto)
    environment = {**os.environ, **THREADS}
    try:
        done = subprocess.run(
            command + arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        problem = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        lines = [json.loads(line) for line in text.decode().splitlines()]
        problem = [f"stopped after {seconds:.0f} s"]
    for line in lines:
        note = line.get("method", line.get("failed", ""))
        print(f"{kind} {line['states']:,} {line['asked']}: {line['seconds']:.3f} s {note}", flush=True)
    missing = methods[len(lines) :]
    for method in missing[:1] if problem else []:
        print(f"{kind} {size:,} {method}: {problem[0]}", flush=True)
    return lines


def measure_all(which: str, kinds: list[str], largest: float, workers: int) -> list[dict[str, Any]]:
    """Measure every chain with every method."""
    forced = [method for method in OWN_METHODS if method != "dense-gth"]
    lines: list[dict[str, Any]] = []
    jobs: list[tuple[int, str, list[str], float]] = []
    for kind, size in cells_of(which):
        if kind in kinds and size <= largest:
            rest = [*(["dense-gth"] if size <= 3_000 else []), *forced] if size <= ONE_PROCESS else []
            jobs.append((size, kind, ["auto", *rest], np.inf))
    changed, running = threading.Condition(), 0

    def is_time() -> bool:
        return bool(jobs) or running == 0

    def help_out(folder: Path) -> None:
        nonlocal running
        while True:
            with changed:
                changed.wait_for(is_time)
                if not jobs:
                    return
                # The largest first, so that none is left alone at the end.
                size, kind, methods, auto = jobs.pop(jobs.index(max(jobs, key=lambda each: each[0])))
                running += 1
            found = job(which, kind, size, methods, auto, folder)
            with changed:
                lines.extend(found)
                if methods == ["auto"] and found:
                    jobs.extend((size, kind, [method], found[0]["clock"]) for method in forced)
                running -= 1
                changed.notify_all()

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        for task in [pool.submit(help_out, Path(name)) for _ in range(workers)]:
            task.result()
    return lines


HEADER = (
    *("chain", "states", "chosen", "seconds", "MB", "gain off", "bias off", "bound"),
    *("best single", "seconds", "ratio"),
)


def rows_of(lines: list[dict[str, Any]]) -> Iterator[tuple[list[str], float]]:
    """Yield the cells of a row and the ratio, for each chain."""
    for auto in sorted(
        (line for line in lines if line["asked"] == "auto"), key=lambda line: (line["states"], line["kind"])
    ):
        place = auto["kind"], auto["states"]
        single = [
            line
            for line in lines
            if (line["kind"], line["states"]) == place and line["asked"] != "auto" and line.get("meets")
        ]
        best = min(single, key=lambda line: line["seconds"], default=None)
        if "failed" in auto or not auto["meets"]:
            ratio = 1.0 if best is None else np.inf
        else:
            ratio = 1.0 if best is None else auto["seconds"] / best["seconds"]
        yield (
            [
                *(auto["kind"], f"{auto['states']:,}", auto.get("method", "none"), f"{auto['seconds']:.2f}"),
                f"{auto['bytes'] / 1e6:,.0f}",
                *(f"{auto[key]:.0e}" if key in auto else "-" for key in ("gain_error", "bias_error")),
                f"{auto['error_bound']:.0e}" if "error_bound" in auto else "-",
                *(("none", "-") if best is None else (best["asked"], f"{best['seconds']:.2f}")),
                f"{ratio:.2f}",
            ],
            ratio,
        )


def table(lines: list[dict[str, Any]], name: str, where: str) -> str:
    """Return the table of one set, and a few sentences about it."""
    rows = list(rows_of(lines))
    marks = ["---" if column in (0, 2, 8) else "---:" for column in range(len(HEADER))]
    ratios = np.array([ratio for _, ratio in rows])
    text = "\n".join(f"| {' | '.join(line)} |" for line in (HEADER, marks, *(row for row, _ in rows)))
    said = (
        f"Of {len(rows)} {name} chains the choice takes at most 1.5 times the best single method on "
        f"{np.mean(ratios <= 1.5):.0%} and at most 3 times on {np.mean(ratios <= 3.0):.0%}; "
        f"the median ratio is {np.median(ratios):.2f} and the largest {ratios.max():.2f}. {where}."
    )
    return f"{said}\n\n{text}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=["open", "held-out"], default="open")
    parser.add_argument("--kinds", nargs="+", choices=[*FAMILIES, *HELD_OUT], default=[*FAMILIES, *HELD_OUT])
    parser.add_argument("--largest", type=float, default=np.inf, help="leave out larger chains")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--output", type=Path, help="where to write the figures")
    parser.add_argument("--write", action="store_true", help="put stored figures into docs/benchmarks.md")
    parser.add_argument("--job", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        kind, size, methods, auto, file = options.job
        families = HELD_OUT if options.set == "held-out" else FAMILIES
        work(families[kind], kind, int(size), methods.split(","), float(auto), Path(file))
        return
    if options.write:
        stored = {name: json.loads(path.read_text()) for name, path in STORED.items() if path.exists()}
        text = "\n\n".join(table(found["cells"], name, found["where"]) for name, found in stored.items())
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        write_whole(PAGE, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}".encode())
        return
    start = time.monotonic()
    lines = measure_all(options.set, options.kinds, options.largest, options.workers)
    where = f"Measured with {options.workers} processes at a time on {os.cpu_count()} cores"
    print(table(lines, options.set, where))
    print(f"{time.monotonic() - start:.0f} s in all")
    if options.output is not None:
        for line in lines:
            line.pop("notes", None)
        cells = ",\n".join(json.dumps(line) for line in lines)
        write_whole(options.output, f'{{"where": {json.dumps(where)}, "cells": [\n{cells}\n]}}\n'.encode())


if __name__ == "__main__":
    main()
