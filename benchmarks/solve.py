"""Time, peak memory and true error of the exact solvers, ours and others', in one table.

    python -m benchmarks.solve --sizes 1000 10000 --chains drift-grid birth-death --limit 60

Times are processor time. Every cell runs in its own process, compiled beforehand, and is stopped at the
limits of time and memory (``-`` in the table). Errors are forward errors against the exact answer: gain
relative to the largest reward, bias relative to its span.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.solve_cell import MATVECS, OWN_METHODS, PEERS, READY  # noqa: E402
from benchmarks.solve_chains import FAMILIES, save  # noqa: E402

SOLVERS = ("auto", *OWN_METHODS, *PEERS)
WARM_UP_STATES = 1000
WARM_UP_SECONDS = 120.0
GIGABYTE = 1e9
STOPPED = "over"


@dataclass(frozen=True)
class Cell:
    """What was measured of one solver on one chain; `seconds` is None if it was stopped or failed."""

    chain: str
    num_states: int
    solver: str
    tolerance: float
    seconds: float | None = None
    bytes: int | None = None
    gain_error: float | None = None
    bias_error: float | None = None
    error_bound: float | None = None
    note: str = ""

    @property
    def reaches_tolerance(self) -> bool:
        errors = (self.gain_error, self.bias_error)
        return self.seconds is not None and all(e is not None and e <= self.tolerance for e in errors)


def run_cell(cell: Cell, small: Path, large: Path, limit: float, max_bytes: float) -> Cell:
    """Measure a cell in its own process."""
    command = [sys.executable, "-m", "benchmarks.solve_cell"]
    arguments = [cell.solver, str(cell.tolerance), str(small), str(large)]
    worker = subprocess.Popen(
        command + arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(worker.stdout or ()), daemon=True)
    complaints: list[str] = []
    listener = threading.Thread(target=lambda: complaints.extend(worker.stderr or ()), daemon=True)
    reader.start()
    listener.start()
    stopped = _watch(worker, lines, limit, max_bytes)
    worker.wait()
    reader.join()
    listener.join()
    if stopped:
        return replace(cell, note=stopped)
    if worker.returncode != 0 or len(lines) != 2:
        last = complaints[-1].strip() if complaints else f"exit code {worker.returncode}"
        return replace(cell, note=f"{STOPPED} memory" if "MemoryError" in last else f"crashed: {last}")
    result = json.loads(lines[1])
    if "failed" in result:
        return replace(cell, note=f"no convergence after {result['seconds']:.1f} s")
    return replace(cell, **result)


def _watch(worker: subprocess.Popen[str], lines: list[str], limit: float, max_bytes: float) -> str:
    """Wait for the worker, and stop it at the limits; returns the reason if it was stopped."""
    deadline = time.monotonic() + WARM_UP_SECONDS
    is_ready = False
    while worker.poll() is None:
        if not is_ready and f"{READY}\n" in lines:
            is_ready, deadline = True, time.monotonic() + limit
        memory = _resident(worker.pid)
        if time.monotonic() > deadline or memory > max_bytes:
            worker.kill()
            return (
                f"{STOPPED} {max_bytes / GIGABYTE:g} GB" if memory > max_bytes else f"{STOPPED} {limit:g} s"
            )
        time.sleep(0.02)
    return ""


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (FileNotFoundError, ProcessLookupError):
        return 0


def run_all(
    chains: list[str], sizes: list[int], solvers: list[str], limit: float, max_bytes: float
) -> list[Cell]:
    """All cells; a solver that was stopped on a chain is not tried on larger chains of its kind."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.npz"), Path(folder, "large.npz")
        for chain in chains:
            family = FAMILIES[chain]
            save(family.build(WARM_UP_STATES), small)
            hopeless: set[str] = set()
            for size in sorted(sizes):
                exact = family.build(size)
                save(exact, large)
                for name in [*solvers, MATVECS]:
                    cell = Cell(chain, exact.num_states, name, family.tolerance)
                    if name not in hopeless:
                        cell = run_cell(cell, small, large, limit, max_bytes)
                    if cell.note.startswith(STOPPED):
                        hopeless.add(name)
                    print(" ".join(row(cell)), file=sys.stderr, flush=True)
                    cells.append(cell)
    return cells


HEADER = (
    "chain",
    "states",
    "solver",
    "seconds",
    "peak MB",
    "gain error",
    "bias error",
    "error bound",
    "note",
)


def row(cell: Cell) -> tuple[str, ...]:
    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    megabytes = None if cell.bytes is None else cell.bytes / 1e6
    return (
        cell.chain,
        f"{cell.num_states:,}",
        cell.solver,
        number(cell.seconds, ".2f"),
        number(megabytes, ".0f"),
        number(cell.gain_error, ".0e"),
        number(cell.bias_error, ".0e"),
        number(cell.error_bound, ".0e"),
        cell.note,
    )


def table(cells: list[Cell], markdown: bool) -> str:
    rows = [HEADER, *(row(cell) for cell in cells if cell.solver != MATVECS)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADER))]
    numeric = range(3, 8)
    padded = [
        [
            entry.rjust(width) if column in numeric else entry.ljust(width)
            for column, (entry, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in rows
    ]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in padded)
    rule = [("-" * (w - 1) + ":") if i in numeric else "-" * w for i, w in enumerate(widths)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]])


def summary(cells: list[Cell]) -> list[str]:
    """The targets, as ratios within this run."""
    found = {(cell.chain, cell.num_states, cell.solver): cell for cell in cells}
    lines = []
    for (chain, size, name), auto in found.items():
        if name != "auto":
            continue
        singles = [found[chain, size, method] for method in OWN_METHODS if (chain, size, method) in found]
        lines += _choice_line(auto, [single for single in singles if single.reaches_tolerance])
        if chain == "drift-grid" and size >= 1_000_000 and auto.bytes is not None:
            lines.append(f"{chain} of {size:,}: {auto.bytes / GIGABYTE:.2f} GB (target: under 6)")
        products = found[chain, size, MATVECS]
        if chain == "random-sparse" and size >= 1_000_000 and auto.seconds and products.seconds:
            ratio = auto.seconds / products.seconds
            lines.append(f"{chain} of {size:,}: {ratio:.1f} times 100 matrix-vector products (target: 10)")
    return lines


def _choice_line(auto: Cell, rivals: list[Cell]) -> list[str]:
    name = f"{auto.chain} of {auto.num_states:,}"
    if not auto.reaches_tolerance:
        best = f", but {min(rivals, key=_time).solver} does" if rivals else ", nor does any single method"
        return [f"{name}: auto does not reach {auto.tolerance:g}{best}"]
    if _time(auto) <= 0.5 or not rivals:
        return []
    best_rival = min(rivals, key=_time)
    ratio = _time(auto) / _time(best_rival)
    return [f"{name}: auto takes {ratio:.2f} times as long as {best_rival.solver} (target: 1.5)"]


def _time(cell: Cell) -> float:
    return float("inf") if cell.seconds is None else cell.seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--chains", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a cell")
    parser.add_argument("--memory", type=float, default=8.0, help="gigabytes for a cell")
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    options = parser.parse_args()
    cells = run_all(options.chains, options.sizes, options.solvers, options.limit, options.memory * GIGABYTE)
    print(table(cells, options.markdown))
    print()
    for line in summary(cells):
        print(f"- {line}" if options.markdown else line)


if __name__ == "__main__":
    main()
