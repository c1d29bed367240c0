"""Do intervals for a column of numbers cover the truth? Coverage of nominal 95% intervals on random series.

    python -m benchmarks.coverage --runs 1000 --workers 2 --output docs/data/coverage.json   # about two hours
    python -m benchmarks.coverage --runs 200 --shown --output docs/data/coverage.json \
        --methods independent batch-means-30 arviz-mcse hac pymbar   # only where the table shows them
    python -m benchmarks.coverage --merge elsewhere.json --output docs/data/coverage.json
    python -m benchmarks.coverage --held-out --runs 1000 --workers 16 --methods gainbias \
        --output docs/data/coverage_held_out.json   # once; other methods as above, with --held-out
    python -m benchmarks.coverage --write
    python -m benchmarks.coverage --runs 20 --only normal waiting-0.8 --methods independent gainbias

The series and their true values are in ``tests/oracles/series.py``; ``--held-out`` takes those of
``series_held_out.py``, once, after all choices have been made, and their results have their own file.
Lengths are 10 to 1,000 relaxation times; where there are rare events, also 2, 5, 20 and 60 of them; and where
the 99% quantile is known, one that expects 20 exceedances if only one in a relaxation time counts. All are
at least 200 and at most 400,000 steps.

Results of other methods, lengths and processes that are in the file of ``--output`` stay there.

A run without an interval counts as flagged. Widths are medians of half-widths in multiples of
``1.96 sqrt(long-run variance / steps)``. Seconds are processor time for one series. ``--write`` puts
tables of the stored figures of both files into docs/series.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage_methods import LEVELS, METHODS, Interval, Outcome, ratio
from gainbias.store import write_whole
from tests.oracles.series import PROCESSES, Floats, Process
from tests.oracles.series_held_out import HELD_OUT

TIMES = (10, 30, 60, 100, 200, 400, 1000)
EVENTS = (2, 5, 20, 60)
EXCEEDANCES = 20
FEWEST, MOST = 200, 400_000
UNPACED = (2_000, 5_000, 20_000, 100_000)
"""Lengths of series that have no relaxation time."""

CLOSE = 1.15
"""Of two lengths that differ by less than this factor the longer is taken."""

TOGETHER = 4_000_000
"""Most numbers that are drawn at once."""


class Answer(NamedTuple):
    """What one method said about one run: coverage is None where there is no interval or no truth."""

    covered: bool | None
    refused: bool
    flagged: bool
    half_width: float
    seconds: float
    verdict: str | None
    quantiles: dict[float, bool | None]


class Task(NamedTuple):
    """Runs of one process and one length, judged together."""

    process: str
    steps: int
    first_run: int
    runs: int
    methods: tuple[str, ...]


def find(name: str) -> Process:
    return PROCESSES[name] if name in PROCESSES else HELD_OUT[name]


def lengths(process: Process) -> list[int]:
    """The ladder of lengths, from far too short to ample."""
    if process.relaxation is None:
        wanted = [float(steps) for steps in UNPACED]
    else:
        wanted = [times * process.relaxation for times in TIMES]
        if 0.99 in process.quantiles:
            wanted.append(EXCEEDANCES * 100 * process.relaxation)
        if process.rare is not None:
            wanted += [events * process.rare for events in EVENTS]
    whole = sorted({int(np.ceil(np.clip(steps, FEWEST, MOST) - 1e-6)) for steps in wanted})
    apart = [a for a, b in itertools.pairwise(whole) if b > CLOSE * a] + whole[-1:]
    return [-(-steps // process.chains) * process.chains for steps in apart]


def covers(interval: Interval | None, truth: float | None) -> bool | None:
    return None if interval is None or truth is None else bool(interval[0] <= truth <= interval[1])


def judged(process: Process, outcome: Outcome, seconds: float) -> Answer:
    low, high = outcome.interval or (np.nan, np.nan)
    return Answer(
        covers(outcome.interval, process.mean),
        outcome.interval is None,
        outcome.flagged or outcome.interval is None,
        (high - low) / 2,
        seconds,
        outcome.verdict,
        {
            level: covers(interval, process.quantiles[level])
            for level, interval in outcome.quantiles.items()
            if level in process.quantiles
        },
    )


def series(process: Process, task: Task) -> Iterator[tuple[Floats, ...]]:
    """One series after another, or one pair after another."""
    rng = np.random.default_rng([zlib.crc32(process.name.encode()), task.steps, task.first_run])
    if process.generate_pair is not None:
        yield from zip(*process.generate_pair(rng, task.steps, task.runs), strict=True)
        return
    assert process.generate is not None
    for row in process.generate(rng, task.steps, task.runs):
        yield (row if process.chains == 1 else row.reshape(process.chains, -1),)


def work(task: Task) -> dict[str, list[Answer]]:
    """Answers of each method for the runs of a task."""
    process = find(task.process)
    answers: dict[str, list[Answer]] = {name: [] for name in task.methods}
    for columns in series(process, task):
        for name in task.methods:
            begin = time.process_time()
            outcome = ratio(name, *columns) if len(columns) == 2 else METHODS[name](*columns)
            answers[name].append(judged(process, outcome, time.process_time() - begin))
    return answers


def tasks(process: Process, steps: int, runs: int, methods: tuple[str, ...]) -> list[Task]:
    """The runs in portions that do not depend on the number of workers, so that results can be repeated."""
    together = max(1, min(50, TOGETHER // steps))
    return [
        Task(process.name, steps, first, min(together, runs - first), methods)
        for first in range(0, runs, together)
    ]


def mean_of(values: list[bool]) -> float | None:
    return round(float(np.mean(values)), 4) if values else None


def summary(process: Process, steps: int, answers: list[Answer]) -> dict[str, Any]:
    """Coverage, flags, width and time of one method on the runs of one length."""
    known = process.long_run_variance
    widths = [answer.half_width for answer in answers if not answer.refused]
    row: dict[str, Any] = {
        "runs": len(answers),
        "coverage": mean_of([a.covered for a in answers if a.covered is not None]),
        "unflagged": mean_of([a.covered for a in answers if a.covered is not None and not a.flagged]),
        "flagged": mean_of([a.flagged for a in answers]),
        "refused": mean_of([a.refused for a in answers]),
        "width": round(float(np.median(widths) / (1.96 * np.sqrt(known / steps))), 4)
        if known is not None and widths
        else None,
        "seconds": float(f"{np.mean([a.seconds for a in answers]):.3g}"),
        "quantiles": {},
    }
    if any(a.verdict for a in answers):
        row["verdicts"] = dict(Counter(str(a.verdict) for a in answers).most_common())
    for level in LEVELS:
        given = [a for a in answers if a.quantiles.get(level) is not None]
        if any(level in a.quantiles for a in answers):
            row["quantiles"][str(level)] = {
                "coverage": mean_of([bool(a.quantiles[level]) for a in given]),
                "unflagged": mean_of([bool(a.quantiles[level]) for a in given if not a.flagged]),
                "given": round(len(given) / len(answers), 4),
            }
    return row


def facts(process: Process, steps: int) -> dict[str, Any]:
    """What the length means for this process."""
    return {
        "process": process.name,
        "kind": process.kind,
        "steps": steps,
        "times": None if process.relaxation is None else round(steps / process.relaxation, 2),
        "events": None if process.rare is None else round(steps / process.rare, 2),
        "tail": process.tail,
        "discrete": process.discrete,
        "expected": process.verdict,
    }


ROOT = Path(__file__).resolve().parent.parent
STORED, PAGE = ROOT / "docs" / "data" / "coverage.json", ROOT / "docs" / "series.md"
STORED_ONCE = STORED.with_name("coverage_held_out.json")
BEGIN, END = "<!-- coverage: written by benchmarks.coverage --write -->", "<!-- end of coverage -->"
BEGIN_ONCE, END_ONCE = BEGIN.replace("coverage:", "held out:"), END.replace("coverage", "held out")

LONG_ENOUGH, RARE_ENOUGH = 200.0, 20.0
"""Relaxation times and rare events from which on intervals must hold."""

HEADER = (
    "process               steps   times  method          cover  unflagged  flagged  width"
    "      p50    p95    p99  seconds  verdict"
)


def _figure(value: float | None, width: int = 6) -> str:
    return " " * (width - 1) + "-" if value is None else f"{value:{width}.3f}"


def line(entry: dict[str, Any], name: str, row: dict[str, Any]) -> str:
    quantiles = [_figure(row["quantiles"].get(str(level), {}).get("coverage")) for level in LEVELS]
    times = "-" if entry["times"] is None else f"{entry['times']:.0f}"
    verdict = next(iter(row["verdicts"])) if "verdicts" in row else ""
    return (
        f"{entry['process']:20s} {entry['steps']:7d} {times:>6s}  {name:15s} {_figure(row['coverage'])}"
        f"     {_figure(row['unflagged'])}   {_figure(row['flagged'])} {_figure(row['width'])}   "
        f"{' '.join(quantiles)}  {row['seconds']:7.4f}  {verdict}"
    )


def study(
    chosen: list[tuple[Process, list[int]]], runs: int, methods: tuple[str, ...], workers: int
) -> Iterator[dict[str, Any]]:
    """Results of one process and length after another; all are started at once, so that no worker waits."""
    cells = [(process, steps) for process, its_lengths in chosen for steps in its_lengths]
    portioned = [tasks(process, steps, runs, methods) for process, steps in cells]
    with ProcessPoolExecutor(workers) as pool:
        done = pool.map(work, itertools.chain.from_iterable(portioned))
        for (process, steps), portions in zip(cells, portioned, strict=True):
            answers: dict[str, list[Answer]] = {name: [] for name in methods}
            for portion in itertools.islice(done, len(portions)):
                for name, found in portion.items():
                    answers[name] += found
            yield facts(process, steps) | {
                "methods": {name: summary(process, steps, found) for name, found in answers.items()}
            }


def is_long_enough(entry: dict[str, Any]) -> bool:
    """Whether a run expects 200 relaxation times and 20 rare events: intervals must hold from there on."""
    return entry["times"] >= LONG_ENOUGH and (entry["events"] or RARE_ENOUGH) >= RARE_ENOUGH


def shown_length(process: Process) -> list[int]:
    """The length at which the table compares methods, if there is one."""
    if process.verdict not in ("steady", "periodic"):
        return []
    timed = [facts(process, steps) for steps in lengths(process) if process.relaxation is not None]
    return [entry["steps"] for entry in timed if is_long_enough(entry)][:1]


def merged(stored: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is stored, with the new results in place of the old ones of the same methods."""
    by_length = {(entry["process"], entry["steps"]): dict(entry) for entry in stored}
    for entry in found:
        old = by_length.get((entry["process"], entry["steps"]), {"methods": {}})
        by_length[entry["process"], entry["steps"]] = entry | {"methods": old["methods"] | entry["methods"]}
    order = {name: place for place, name in enumerate([*PROCESSES, *HELD_OUT])}
    return sorted(by_length.values(), key=lambda entry: (order[entry["process"]], entry["steps"]))


def by_most(row: dict[str, Any], level: float) -> float | None:
    """Coverage of a quantile, if most runs have an interval for it: a few that have are chosen by chance."""
    found = row["quantiles"].get(str(level))
    return found["coverage"] if found is not None and found["given"] >= 0.5 else None


OURS = (
    "series",
    "steps",
    "held",
    "flagged",
    "p95 held",
    "p99 held",
    "50 to 200 times: held",
    "flagged",
    "worst length",
    "held",
    "flagged",
)
"""Columns of the table of our own figures; `held` is always among runs that are not flagged."""


def table(entries: list[dict[str, Any]]) -> str:
    """The tables of the documentation: a line for each steady process, for ours and for other methods."""
    entries = [entry for entry in entries if "gainbias" in entry["methods"]]
    steady = [entry for entry in entries if entry["expected"] in ("steady", "periodic")]
    others = [name for name in METHODS if name != "gainbias"]
    ours = [_titles(OURS)]
    theirs = [_titles(("series", "steps", *others))]
    counts = set[int]()
    for name in dict.fromkeys(entry["process"] for entry in steady):
        mine = [entry for entry in steady if entry["process"] == name]
        enough = [entry for entry in mine if entry["times"] is None or is_long_enough(entry)]
        if not enough:
            continue
        ours.append(_line(_own_cells(mine, enough)))
        found = enough[0]["methods"]
        if any(other in found for other in others):
            shares = (_share(found.get(other, {}).get("coverage")) for other in others)
            theirs.append(_line((name, f"{enough[0]['steps']:,}", *shares)))
            counts |= {row["runs"] for other, row in found.items() if other != "gainbias"}
    runs = {entry["methods"]["gainbias"]["runs"] for entry in entries}
    ours += [
        "",
        f"In %, of {min(runs):,} runs of each length; *held* is among the runs that were not flagged, and "
        "`-` was not measured or not given. The first columns are for the shortest length that expects 200 "
        "relaxation times and 20 rare events, the quantiles for the longest that was measured, if at least "
        "half of its runs have an interval. The worst length is the one at which the fewest intervals held "
        f"of those that were not flagged. {_pooled(steady)}",
    ]
    if len(theirs) == 1:
        return "\n".join(ours)
    theirs += ["", f"The same with other methods, in %, of {min(counts):,} runs each, all of which count."]
    return "\n".join([*ours, "", *theirs])


def _titles(titles: Iterable[str]) -> str:
    titles = list(titles)
    return f"{_line(titles)}\n{'|---' * len(titles)}|"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _own_cells(mine: list[dict[str, Any]], enough: list[dict[str, Any]]) -> list[str]:
    """The cells of one process in our own table, given its lengths and those that are enough."""
    long = enough[-1]["methods"]["gainbias"]
    middle = next((entry for entry in mine if 50 <= (entry["times"] or 0.0) < LONG_ENOUGH), None)
    known = [entry for entry in mine if entry["methods"]["gainbias"]["unflagged"] is not None]
    worst = min(known, key=lambda entry: entry["methods"]["gainbias"]["unflagged"], default=None)
    return [
        enough[0]["process"],
        f"{enough[0]['steps']:,}",
        *_held_and_flagged(enough[0]),
        *(_share(by_most(long, level)) for level in (0.95, 0.99)),
        *_held_and_flagged(middle),
        "-" if worst is None else f"{worst['steps']:,}",
        *_held_and_flagged(worst),
    ]


def _held_and_flagged(entry: dict[str, Any] | None) -> tuple[str, str]:
    if entry is None:
        return "-", "-"
    row = entry["methods"]["gainbias"]
    return _share(row["unflagged"]), _share(row["flagged"])


def _pooled(steady: list[dict[str, Any]]) -> str:
    """What held of all runs together that are long enough: chance moves that less than the lowest share."""
    rows = [
        entry["methods"]["gainbias"]
        for entry in steady
        if entry["times"] is not None and is_long_enough(entry)
    ]
    if not rows:
        return ""
    left = [row["runs"] * (1.0 - row["flagged"]) for row in rows]
    held = sum(count * (row["unflagged"] or 0.0) for count, row in zip(left, rows, strict=True)) / sum(left)
    flagged = 1.0 - sum(left) / sum(row["runs"] for row in rows)
    return (
        f"Of all {sum(row['runs'] for row in rows):,} runs that are as long as that or longer, "
        f"{_share(flagged)}% were flagged, and {_share(held)}% of the other intervals held."
    )


def flags(entries: list[dict[str, Any]]) -> str:
    """The table of series that are not steady: how many runs of each length are flagged."""
    header = "% of runs that are flagged, by steps; in brackets, in how many of the others the interval held"
    lines = [_titles(("series", "what it is", "verdict on most runs, the longest", header))]
    entries = [entry for entry in entries if "gainbias" in entry["methods"]]
    entries = [entry for entry in entries if entry["expected"] not in ("steady", "periodic")]
    for name in dict.fromkeys(entry["process"] for entry in entries):
        mine = [entry for entry in entries if entry["process"] == name]
        found = [(f"{entry['steps']:,}", entry["methods"]["gainbias"]) for entry in mine]
        shares = (
            f"{steps}: {_share(row['flagged'])}"
            + (f" ({_share(row['unflagged'])})" if row["unflagged"] is not None else "")
            for steps, row in found
        )
        most = next(iter(found[-1][1].get("verdicts", {"-": 0})))
        lines.append(_line((name, mine[0]["expected"], most, ", ".join(shares))))
    return "\n".join(lines)


def page_with(page: str, stored: list[dict[str, Any]], once: list[dict[str, Any]]) -> str:
    """The page of the documentation with both files of results in the marked places."""
    for begin, end, entries in ((BEGIN, END, stored), (BEGIN_ONCE, END_ONCE, once)):
        before, after = page.partition(begin)[0], page.partition(end)[2]
        text = f"{table(entries)}\n\n{flags(entries)}" if entries else "They were not measured yet."
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return page


def results_of(path: Path | None) -> list[dict[str, Any]]:
    """The results in a file; none if it does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else []


def misplaced(names: Iterable[str], output: Path | None) -> str:
    """Why results of these processes must not go into this file; empty if they may."""
    if output is None:
        return "results of --held-out are made once: say with --output where to keep them" * any(
            name in HELD_OUT for name in names
        )
    wrong = {STORED: HELD_OUT, STORED_ONCE: PROCESSES}.get(output.resolve(), {})
    found = sorted(name for name in names if name in wrong)
    return f"{output.name} is not for {', '.join(found)}" if found else ""


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write the results into this JSON file")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these processes alone")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--shown", action="store_true", help="the length alone at which the table compares methods"
    )
    parser.add_argument("--held-out", action="store_true", help="the processes that are used once")
    parser.add_argument("--merge", type=Path, help="put the results of this file into that of --output")
    parser.add_argument("--write", action="store_true", help="put stored figures into docs/series.md")
    options = parser.parse_args(given)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        write_whole(PAGE, page_with(page, results_of(STORED), results_of(STORED_ONCE)).encode())
        return
    stored, found = results_of(options.output), results_of(options.merge)
    listed = HELD_OUT if options.held_out else PROCESSES
    if unknown := set(options.only or ()) - set(listed):
        parser.error(f"no such process: {', '.join(sorted(unknown))}; there are {', '.join(listed)}")
    chosen = [listed[name] for name in options.only or listed]
    names = [entry["process"] for entry in found] if options.merge else [process.name for process in chosen]
    if why_not := misplaced(names, options.output):
        parser.error(why_not)
    if options.merge:
        whole = merged(stored, found)
        write_whole(options.output, (json.dumps(whole, indent=1) + "\n").encode())
        return
    results = []
    print(HEADER)
    for entry in study(
        [(process, shown_length(process) if options.shown else lengths(process)) for process in chosen],
        options.runs,
        tuple(options.methods),
        options.workers,
    ):
        results.append(entry)
        for name, row in entry["methods"].items():
            print(line(entry, name, row), flush=True)
        if options.output is not None:
            whole = merged(stored, results)
            write_whole(options.output, (json.dumps(whole, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
