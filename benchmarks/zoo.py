"""How accurate exact answers are: every number of a solution against the truth, on hundreds of chains.

    python -m benchmarks.zoo                # all of it, about two minutes
    python -m benchmarks.zoo --half open    # without the chains that were held out
    python -m benchmarks.zoo --write        # put the tables into docs/benchmarks.md

The chains and their answers to 30 digits come from `tests.oracles.zoo`.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import gainbias as gb
from gainbias.store import write_whole
from tests.oracles.compare import Measured, measured
from tests.oracles.zoo import HELD_OUT, OPEN, specimen

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by benchmarks.zoo -->", "<!-- end of what benchmarks.zoo writes -->"

EPS = float(np.finfo(float).eps)
METHODS = ("dense-gth", "sparse-gth", "incomplete-gth", "aggregation", "krylov", "power")
SEEDS_OF_METHODS, SECONDS = 3, 5.0
"""A method is tried on this many chains of each kind in each half, for this long at most."""

MOST_REFUSED, MOST_LOOSE = 0.05, 1e4
"""What the whole zoo must meet: part of the chains that is refused, and the median of bound over error."""

HEAD = [
    "chains",
    "refused",
    "numbers",
    "outside",
    "worst error / bound",
    "median bound / error",
    "largest error",
]


@dataclass
class Row:
    """What was found on some chains: a line of a table."""

    chains: int = 0
    refused: list[str] = field(default_factory=list)
    numbers: int = 0
    outside: list[str] = field(default_factory=list)
    worst: float = 0.0
    largest: float = 0.0
    ratios: list[np.ndarray] = field(default_factory=list)

    def add(self, where: str, found: Mapping[str, Measured]) -> None:
        """Count the numbers of an answer."""
        for name, (error, bound, size, scale) in found.items():
            self.numbers += len(error)
            wrong = ~(error <= bound)
            if wrong.any():
                self.outside += [f"{where}: {name}"] * int(wrong.sum())
            some = error > 0.0
            with np.errstate(divide="ignore", over="ignore"):
                self.worst = max(self.worst, *(error[some] / bound[some]), 0.0)
                self.largest = max(self.largest, float(error.max()) / scale if scale else 0.0)
                seen = error > EPS * size
                self.ratios.append(bound[seen] / error[seen])

    def join(self, other: "Row") -> None:
        """Add what another line has counted."""
        self.chains += other.chains
        self.numbers += other.numbers
        self.refused += other.refused
        self.outside += other.outside
        self.ratios += other.ratios
        self.worst, self.largest = max(self.worst, other.worst), max(self.largest, other.largest)

    @property
    def median(self) -> float:
        """Median of bound over error, for errors that exceed rounding; 1 if none does."""
        ratios = np.concatenate([*self.ratios, np.empty(0)])
        return float(np.median(ratios)) if len(ratios) else 1.0

    def cells(self) -> list[str]:
        counts = [self.chains, len(self.refused), self.numbers, len(self.outside)]
        return [
            *(f"{count:,}" for count in counts),
            *(f"{x:.2g}" for x in (self.worst, self.median, self.largest)),
        ]


def measure(kind: str, seeds: Iterable[int], method: str = "auto") -> Row:
    """Solve the chains of a kind."""
    row, limits = Row(), {} if method == "auto" else {"time_limit": SECONDS}
    for seed in seeds:
        mrp, exact = specimen(kind, seed)
        if not mrp.is_unichain and method not in ("auto", "dense-gth", "sparse-gth"):
            continue  # other methods are for one recurrent class
        row.chains += 1
        try:
            row.add(f"{kind}, seed {seed}", measured(mrp, exact, method, **limits))
        except gb.ConvergenceError:
            row.refused.append(f"{kind}, seed {seed}")
    return row


def total(rows: Iterable[Row]) -> Row:
    """Return one line for all."""
    together = Row()
    for row in rows:
        together.join(row)
    return together


def table(first: str, rows: Mapping[str, Row]) -> str:
    lines = [
        [first, *HEAD],
        ["---"] + ["---:"] * len(HEAD),
        *([name, *row.cells()] for name, row in rows.items()),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(half: str) -> tuple[str, bool]:
    """Return the tables and whether the zoo meets what it must."""
    halves = {"open": OPEN, "held-out": HELD_OUT}
    parts, everything, methods = [], Row(), {}
    for name, chains in halves.items():
        if half not in (name, "both"):
            continue
        rows = {kind: measure(kind, seeds) for kind, seeds in chains.items()}
        rows["all"] = total(rows.values())
        everything.join(rows["all"])
        parts.append(table(f"{name} half", rows))
        for method in METHODS:
            methods[f"{method}, {name} half"] = total(
                measure(kind, list(seeds)[:SEEDS_OF_METHODS], method) for kind, seeds in chains.items()
            )
    parts.append(table("forced method", methods))
    parts.append(
        f"Of {everything.chains} chains {len(everything.refused)} were refused "
        f"(at most {MOST_REFUSED:.0%} may be). Of {everything.numbers:,} numbers {len(everything.outside)} "
        "were outside their bound (none may be).\n"
        f"The median bound is {everything.median:.2g} times the true error (at most {MOST_LOOSE:g})."
    )
    where = [
        f"- outside, {name}: {place}"
        for name, row in {"auto": everything, **methods}.items()
        for place in dict.fromkeys(row.outside)
    ]
    parts += ["\n".join(where)] if where else []
    is_met = (
        not everything.outside
        and len(everything.refused) <= MOST_REFUSED * everything.chains
        and everything.median <= MOST_LOOSE
    )
    return "\n\n".join(parts), is_met


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=["open", "held-out", "both"], default="both")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args()
    text, is_met = report(options.half)
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        write_whole(PAGE, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}".encode())
    raise SystemExit(0 if is_met else "the zoo does not meet what it must")


if __name__ == "__main__":
    main()
