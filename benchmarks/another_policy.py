"""What would another policy have earned? Coverage of nominal 95% intervals from logs of the one that ran.

    python -m benchmarks.another_policy --runs-others 40 --workers 2 --output docs/data/another_policy.json
    python -m benchmarks.another_policy --write
    python -m benchmarks.another_policy --runs 20 --only random kinds --methods auto ratio

The processes and what is true of them are in ``tests/oracles/decisions.py``; ``--which`` takes others, which
are used once, when nothing is chosen any more: ``held-out`` those of ``decisions_held_out.py``, ``late`` and
``numbers`` those of ``decisions_late.py``, ``fresh`` and ``fresh-numbers`` those of ``decisions_fresh.py``,
``outside`` those of ``decisions_outside.py``; numbers have the features that are chosen automatically.

Beside the answer by default there are the simpler methods that can be asked for by name: the model alone, the
ratio alone, and per-step importance sampling, which knows the behaviour. No package was found that estimates
average rewards of another policy (docs/another-policy.md says which were looked at): these three are
re-derivations of what packages have.

How much a log is worth and what it lacks is computed from the process, and not with our own diagnostics:
the independent steps of the target that its ratio is worth along the log, and the share of the target's steps
at state-actions that a log of that length is expected not to have.

A run without an answer or without an interval counts as flagged, and so does one with a warning that puts the
gain in doubt. Coverage in 500 runs has a standard error of 1%. Widths are medians of half-widths, in
multiples of 1.96 root mean squared errors of the default answer. ``--write`` puts the tables of the stored
figures, and a summary of the first, into docs/another-policy.md, and prints the line of README.md.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gainbias as gb
from gainbias.store import write_whole
from tests.oracles.decisions import DECISIONS, Decisions
from tests.oracles.decisions_fresh import FRESH_DECISIONS, FRESH_NUMBERS
from tests.oracles.decisions_held_out import HELD_OUT_DECISIONS
from tests.oracles.decisions_late import LATE_DECISIONS, NUMBER_DECISIONS, NumberDecisions
from tests.oracles.decisions_outside import OUTSIDE_DECISIONS

METHODS = ("auto", "model", "ratio", "importance-sampling")
SETS: dict[str, tuple[dict[str, Any], Path, str]] = {
    "used": (DECISIONS, Path("docs/data/another_policy.json"), "Used while the method was made"),
    "held-out": (
        HELD_OUT_DECISIONS,
        Path("docs/data/another_policy_held_out.json"),
        "Written down before the method",
    ),
    "late": (
        LATE_DECISIONS,
        Path("docs/data/another_policy_late.json"),
        "Written down before the rules of weak overlap",
    ),
    "numbers": (
        NUMBER_DECISIONS,
        Path("docs/data/another_policy_numbers.json"),
        "Numbers, with the features that are chosen automatically; written down before the check of what "
        "features express",
    ),
    "fresh": (
        FRESH_DECISIONS,
        Path("docs/data/another_policy_fresh.json"),
        "Overlap that is just good, and features; written down before today's rules",
    ),
    "outside": (
        OUTSIDE_DECISIONS,
        Path("docs/data/another_policy_outside.json"),
        "Good overlap; written down by someone who came to the method later, before any was run",
    ),
    "fresh-numbers": (
        FRESH_NUMBERS,
        Path("docs/data/another_policy_fresh_numbers.json"),
        "Numbers again; written down before today's features of the ratio",
    ),
}
PAGE = Path("docs/another-policy.md")
WRITTEN = "<!-- {} of {} that benchmarks.another_policy writes -->"
LEAST_UNFLAGGED = 0.5
"""Of the logs of a cell, for its unflagged ones to count in the summary."""

HARDLY_WORTH = 20
"""Steps of the policy: a log that is worth fewer tells hardly anything."""

TOGETHER = 50
"""Logs that are drawn at once."""


class Said(NamedTuple):
    """What a method said about one log; `covered` is None if there is no interval."""

    covered: bool | None
    flagged: bool
    gain: float
    half_width: float
    values: float | None
    seconds: float


class Portion(NamedTuple):
    """Logs of one process and one length."""

    process: str
    rows: int
    first_run: int
    runs: int
    methods: tuple[str, ...]
    others: int
    """So many of the runs go to all methods, the rest to the first alone."""


def find(name: str) -> Decisions | NumberDecisions:
    [make] = [made[name] for made, _, _ in SETS.values() if name in made]
    return make()


def asked(made: Decisions | NumberDecisions, log: dict[str, Any], method: str) -> gb.Estimate:
    """The answer of a method; only importance sampling is told what the behaviour was."""
    if isinstance(made, NumberDecisions):
        return gb.evaluate_log(log, action="a", policy=made.chances, algorithm=method)
    settings: dict[str, Any] = {"num_states": made.num_states}
    if "dt" in log:
        settings["duration"] = "dt"
    if made.features is not None and method != "importance-sampling":
        tables = {"features": made.features, "ratio_features": made.ratio_features}
        for name, table in tables.items():
            settings[name] = gb.ActionFeatures(lambda seen, done, table=table: table[seen, done])
    if method == "importance-sampling":
        settings["behaviour"] = made.behaviour
    return gb.evaluate_log(log, action="a", policy=made.target, algorithm=method, **settings)


def said(made: Decisions | NumberDecisions, log: dict[str, Any], method: str) -> Said:
    start = time.process_time()
    try:
        found = asked(made, log, method)
    except ValueError:
        return Said(None, True, float("nan"), float("nan"), None, time.process_time() - start)
    seconds = time.process_time() - start
    low, high = found.gain_interval
    has_interval = bool(np.isfinite(low))
    values = None
    if method == "auto" and isinstance(made, Decisions):
        ends = found.value_interval(np.arange(made.num_states))
        known = np.isfinite(ends).all(axis=1)
        right = (ends[:, 0] < made.values) & (made.values < ends[:, 1])
        values = float(right[known].mean()) if known.any() else None
    return Said(
        bool(low < made.gain < high) if has_interval else None,
        bool(found.diagnostics.gain_warnings) or not has_interval,
        found.gain,
        (high - low) / 2.0,
        values,
        seconds,
    )


def work(portion: Portion) -> dict[str, list[Said]]:
    made = find(portion.process)
    seed = [zlib.crc32(portion.process.encode()), portion.rows, portion.first_run]
    logs = made.logs(np.random.default_rng(seed), portion.rows, portion.runs)
    found: dict[str, list[Said]] = {method: [] for method in portion.methods}
    for number in range(portion.runs):
        log = {"state": logs.states[number], "a": logs.actions[number], "reward": logs.rewards[number]}
        if logs.durations is not None:
            log["dt"] = logs.durations[number]
        for method in portion.methods[: None if number < portion.others else 1]:
            found[method].append(said(made, log, method))
    return found


def summary(made: Decisions | NumberDecisions, answers: list[Said], usual: float) -> dict[str, Any]:
    known = [one for one in answers if one.covered is not None]
    values = [one.values for one in answers if one.values is not None]
    return {
        "runs": len(answers),
        "coverage": _share([one.covered for one in known]),
        "unflagged": _share([one.covered for one in known if not one.flagged]),
        "flagged": _share([one.flagged for one in answers]),
        "width": round(float(np.median([one.half_width for one in known]) / usual), 2) if known else None,
        "error": round(_error(made, answers) / usual * 1.96, 2) if known else None,
        "values": round(float(np.mean(values)), 4) if values else None,
        "seconds": round(float(np.mean([one.seconds for one in answers])), 4),
    }


def _error(made: Decisions | NumberDecisions, answers: list[Said]) -> float:
    return float(np.sqrt(np.nanmean([(one.gain - made.gain) ** 2 for one in answers])))


def _share(truths: list[Any]) -> float | None:
    return round(float(np.mean(truths)), 4) if truths else None


def study(
    names: list[str], runs: range, methods: tuple[str, ...], others: int, workers: int
) -> Iterator[dict[str, Any]]:
    """Each process at each length, as they finish; all methods but the first get `others` of the runs."""
    portions = [
        Portion(name, rows, first, min(TOGETHER, runs.stop - first), methods, others - first + runs.start)
        for name in names
        for rows in find(name).lengths
        for first in range(runs.start, runs.stop, TOGETHER)
    ]
    portions.sort(key=lambda portion: -portion.rows)  # the longest first
    found: dict[tuple[str, int], dict[int, dict[str, list[Said]]]] = {}
    with ProcessPoolExecutor(workers) as pool:
        asked_of = {pool.submit(work, portion): portion for portion in portions}
        for done in as_completed(asked_of):
            portion = asked_of[done]
            parts = found.setdefault((portion.process, portion.rows), {})
            parts[portion.first_run] = done.result()
            if sum(len(part[methods[0]]) for part in parts.values()) == len(runs):
                yield entry_of(portion.process, portion.rows, [parts[first] for first in sorted(parts)])


def entry_of(name: str, rows: int, parts: list[dict[str, list[Said]]]) -> dict[str, Any]:
    """What is stored of a process at one length."""
    made, first = find(name), next(iter(parts[0]))
    answers = {method: [one for part in parts for one in part[method]] for method in parts[0]}
    usual = 1.96 * _error(made, answers[first])
    return {
        "process": name,
        "kind": made.kind,
        "rows": rows,
        "runs": len(answers[first]),
        "methods": {method: summary(made, part, usual) for method, part in answers.items()},
    }


def table(entries: list[dict[str, Any]]) -> str:
    """The table of the documentation."""
    lines = [
        "| process | rows | logs | worth | lacks | it held | unflagged, it held | flagged | values "
        "| model alone | ratio alone | importance sampling | its error |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    last = ""
    for entry in entries:
        own = entry["methods"]["auto"]
        others = [entry["methods"].get(name, {}) for name in METHODS[1:]]
        name = f"{entry['process']} ({entry['kind']})" if entry["process"] != last else ""
        last, made = entry["process"], find(entry["process"])
        overlap = ["-", "-"]
        if isinstance(made, Decisions):
            worth = f"{entry['rows'] * made.row_worth:,.0f}"
            overlap = [worth if made.has_good_overlap(entry["rows"]) else f"*{worth}*"]
            overlap.append("-" if made.features is not None else f"{100 * made.unseen(entry['rows']):.2f}")
        cells = [
            name,
            f"{entry['rows']:,}",
            f"{entry['runs']}",
            *overlap,
            *(_percent(own[key]) for key in ("coverage", "unflagged", "flagged", "values")),
            *(_percent(other.get("coverage")) for other in others),
            "-" if others[-1].get("error") is None else f"{others[-1]['error']:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def written() -> str:
    """All stored tables, with what was done."""
    parts = []
    for _, stored, which in SETS.values():
        if not stored.exists():
            continue
        entries = json.loads(stored.read_text(encoding="utf-8"))
        runs = min(entry["runs"] for entry in entries)
        error = 100 * float(np.sqrt(0.95 * 0.05 / runs))
        fewer = [
            row.get("runs", runs)
            for entry in entries
            for name, row in entry["methods"].items()
            if name != "auto"
        ]
        others = f", simpler methods of {min(fewer)}" if fewer and min(fewer) < runs else ""
        parts.append(
            f"{which}, in % of at least {runs:,} logs of each length (standard error at most {error:.1f}%)"
            f"{others}:\n\n"
            f"{table(entries)}"
        )
    return "\n\n".join(parts)


def summary_in_words() -> str:
    """What the first table says in short."""
    entries = json.loads(SETS["used"][1].read_text(encoding="utf-8"))
    runs = min(entry["runs"] for entry in entries)
    right, good, hardly = [], [], []
    for entry in entries:
        made, own = find(entry["process"]), entry["methods"]["auto"]
        assert isinstance(made, Decisions)
        if made.expressible != "neither" and own["flagged"] <= 1.0 - LEAST_UNFLAGGED:
            right.append(own["unflagged"])
        if made.expressible != "neither" and made.has_good_overlap(entry["rows"]):
            good.append(own["flagged"])
        if entry["rows"] * made.row_worth < HARDLY_WORTH:
            hardly.append(own["flagged"])
    error, unflagged = 100 * np.sqrt(0.95 * 0.05 / runs), [1.0 - share for share in good]
    return textwrap.fill(
        f"In short: {_range(right)} of the unflagged intervals held, which should be 95% ({runs} logs "
        f"a cell, standard error {error:.1f}%). That is for the {len(right)} cells of the first table "
        "where at least half of the logs are unflagged, and the features of one model suffice. Where "
        f"overlap is good, {_range(unflagged)} of the logs are unflagged. Where a log is worth fewer "
        f"than {HARDLY_WORTH} steps of the policy, {_range(hardly)} are flagged.",
        150,
    )


def readme_in_words() -> str:
    """The line of README.md, from the longest logs of the first table."""
    entries = json.loads(SETS["used"][1].read_text(encoding="utf-8"))
    longest = [one for one in entries if one["rows"] == max(find(one["process"]).lengths)]
    cells = [one for one in longest if getattr(find(one["process"]), "expressible", "") != "neither"]
    held = _range([one["methods"]["auto"]["unflagged"] for one in cells])
    runs = min(one["runs"] for one in cells)
    return (
        f"| coverage for another policy, {len(cells)} decision processes, {runs} logs each of the longest "
        f"length, features that suffice | [{held} of those not flagged](docs/another-policy.md) |"
    )


def _range(shares: list[float]) -> str:
    low, high = (f"{100 * end:.1f}".removesuffix(".0") for end in (min(shares), max(shares)))
    return f"{low}%" if low == high else f"{low} to {high}%"


def put(page: str, what: str, words: str) -> str:
    """Put words between the two marks of a page."""
    begin, end = (WRITTEN.format(which, what) for which in ("beginning", "end"))
    before, after = page.partition(begin)[0], page.partition(end)[2]
    return f"{before}{begin}\n\n{words}\n\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--runs-others", type=int, help="of the simpler methods, if they are to be fewer")
    parser.add_argument("--first-run", type=int, default=0, help="another number draws other logs")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write the results into this JSON file")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these processes alone")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--which", choices=SETS, default="used", help="all but the first are used once")
    parser.add_argument("--write", action="store_true", help=f"put stored figures into {PAGE}")
    options = parser.parse_args()
    if options.write:
        page = put(PAGE.read_text(encoding="utf-8"), "a summary", summary_in_words())
        write_whole(PAGE, put(page, "tables", written()).encode())
        print(readme_in_words())
        return
    listed = SETS[options.which][0]
    if unknown := set(options.only or ()) - set(listed):
        parser.error(f"no such process: {', '.join(sorted(unknown))}; there are {', '.join(listed)}")
    results = []
    names = options.only or list(listed)
    runs = range(options.first_run, options.first_run + options.runs)
    others = options.runs if options.runs_others is None else options.runs_others
    for entry in study(names, runs, tuple(options.methods), others, options.workers):
        results.append(entry)
        results.sort(key=lambda one: (names.index(one["process"]), one["rows"]))
        for method, row in entry["methods"].items():
            print(f"{entry['process']:20s} {entry['rows']:7d} {method:20s} {row}", flush=True)
        if options.output is not None:
            write_whole(options.output, (json.dumps(results, indent=1) + "\n").encode())
    print(table(results))


if __name__ == "__main__":
    main()
