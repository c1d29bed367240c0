"""May you look more than once? Misses of intervals over many looks at a run that grows.

    python -m benchmarks.anytime --runs 1000 --workers 2 --output docs/data/anytime.json   # about an hour
    python -m benchmarks.anytime --runs 50 --only ar0.9

Each run is looked at 30 times, spaced geometrically from the first look, which the sequence finds by itself,
to 50 times that length. At each look there are two intervals: that of `estimate_gain`, which is for one look
at a length fixed in advance, and that of `ConfidenceSequence`, on which `RunningMean` is built. The table
has the share of runs in which some interval misses the true mean, and mean widths relative to those of
intervals for one look. "11 looks" are every third of the 30, from the first to the last.

The series are from ``tests/oracles/series.py``; ``--fresh`` takes two others, on which no
choice was based.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter

from gainbias.evaluation.gain.anytime import ConfidenceSequence
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.store import write_whole
from tests.oracles.series import PROCESSES, Floats, Generate, Random, autoregression

LOOKS, REACH, FEWER = 30, 50.0, 11
PILOTS = 20
"""Runs from which it is learned how long the series must be."""

NAMES = ("ar0.9", "visible-regime", "lognormal-ar", "waiting-0.8")


class Kind(NamedTuple):
    """A random series, its mean, and roughly how long a run to the first look takes."""

    generate: Generate
    mean: float
    relaxation: float


def swinging(rng: Random, length: int, runs: int) -> Floats:
    """AR(2) that swings with a period of 40 steps, driven by exponential shocks; its mean is 0."""
    shocks = rng.standard_exponential((runs, length + 2000)) - 1.0
    return lfilter([1.0], [1.0, -2 * 0.95 * np.cos(np.pi / 20), 0.95**2], shocks, axis=1)[:, 2000:]


def squares(rng: Random, length: int, runs: int) -> Floats:
    """Squares of an AR(1) of variance 1."""
    return autoregression(rng, length, runs, 0.95) ** 2


FRESH = {"swinging": Kind(swinging, 0.0, 20.0), "squares": Kind(squares, 1.0, 10.0)}


def kind(name: str) -> Kind:
    """Return the series of this name."""
    if name in FRESH:
        return FRESH[name]
    process = PROCESSES[name]
    assert process.generate is not None
    assert process.mean is not None
    assert process.relaxation is not None
    return Kind(process.generate, process.mean, process.relaxation)


def random(name: str, run: int) -> Random:
    """Return the random numbers of one run."""
    return np.random.default_rng([zlib.crc32(name.encode()), run])


def to_first_look(sequence: ConfidenceSequence, series: Floats) -> BatchMeans:
    """Feed a series up to the first look of a sequence, or all of it if there is none."""
    rewards = BatchMeans()
    while rewards.steps < len(series) and (check := sequence.next_check(rewards.steps)) is not None:
        rewards.add(series[rewards.steps : check])
        if rewards.steps == check:
            sequence.check(rewards, find_warm_up=False)
    return rewards


def length_of(name: str) -> int:
    """Return how long the series must be, from the latest first look of a few runs."""
    shown, latest = kind(name), 0
    for run in range(PILOTS):
        sequence = ConfidenceSequence()
        length = int(20_000 * shown.relaxation)
        to_first_look(sequence, shown.generate(random(name + " pilot", run), length, 1)[0])
        latest = max(latest, sequence.first_look or length)
    return int(REACH * latest)


class Seen(NamedTuple):
    """What was seen in one run; each list has an entry for each look.

    Attributes
    ----------
    first_look : int
        0 if there was none.
    missed, missed_once : list of bool
        Whether the sequence's interval missed the mean, and whether that for one look did.
    width, width_once : list of float
        Half widths.
    warned : list of bool
    """

    first_look: int
    missed: list[bool]
    missed_once: list[bool]
    width: list[float]
    width_once: list[float]
    warned: list[bool]


def look(name: str, run: int, length: int) -> Seen:
    """Look at one run; looks beyond the end of the series are left out."""
    shown = kind(name)
    series = shown.generate(random(name, run), length, 1)[0]
    sequence = ConfidenceSequence()
    rewards = to_first_look(sequence, series)
    first = sequence.first_look
    seen = Seen(first or 0, [], [], [], [], [])
    if first is None:
        return seen
    for steps in (first * np.geomspace(1.0, REACH, LOOKS)).astype(int):
        if steps > length:
            break
        rewards.add(series[rewards.steps : steps])
        once = estimate_gain(rewards, find_warm_up=False)
        ours = sequence.widened(once, rewards)
        seen.missed.append(not ours.interval[0] <= shown.mean <= ours.interval[1])
        seen.missed_once.append(not once.interval[0] <= shown.mean <= once.interval[1])
        seen.width.append(ours.half_width)
        seen.width_once.append(once.half_width)
        seen.warned.append(ours.is_flagged)
    return seen


def looks(job: tuple[str, int, int, int]) -> list[Seen]:
    """Look at several runs of one series."""
    name, begin, end, length = job
    return [look(name, run, length) for run in range(begin, end)]


def summary(name: str, seen: list[Seen], length: int) -> dict[str, Any]:
    """Return the row of a series."""
    begun = [one for one in seen if one.first_look]
    whole = [one for one in begun if len(one.missed) == LOOKS]
    ratio = np.array([one.width for one in whole]).mean(axis=0)
    ratio /= np.array([one.width_once for one in whole]).mean(axis=0)
    fewer = np.rint(np.linspace(0, LOOKS - 1, FEWER)).astype(int)
    return {
        "series": name,
        "runs": len(seen),
        "without_first_look": len(seen) - len(begun),
        "looked_at_in_part": len(begun) - len(whole),
        "length": length,
        "first_look": {str(n): sum(one.first_look == n for one in begun) for n in first_looks(begun)},
        "missed_once_each": float(np.mean([np.mean(one.missed_once) for one in begun])),
        "missed_once_11_looks": float(np.mean([np.take(one.missed_once, fewer).any() for one in whole])),
        "missed_once_30_looks": float(np.mean([any(one.missed_once) for one in begun])),
        "missed": float(np.mean([any(one.missed) for one in begun])),
        "warned_each": float(np.mean([np.mean(one.warned) for one in begun])),
        "missed_unwarned": float(
            np.mean([any(m > w for m, w in zip(one.missed, one.warned, strict=True)) for one in begun])
        ),
        "ratio": [float(entry) for entry in ratio],
    }


def first_looks(seen: Iterable[Seen]) -> list[int]:
    """Return all first looks, each once."""
    return sorted({one.first_look for one in seen})


def show(row: dict[str, Any]) -> str:
    """Return the row of a series as text."""
    ratio = row["ratio"]
    return (
        f"{row['series']:16} {row['missed_once_each']:7.1%} {row['missed_once_11_looks']:8.1%} "
        f"{row['missed_once_30_looks']:8.1%} {row['missed']:8.1%}   {ratio[0]:6.2f} {ratio[LOOKS // 2]:6.2f} "
        f"{ratio[-1]:6.2f} {max(ratio):6.2f}   {row['first_look']}"
    )


HEAD = (
    f"{'':16} {'one look at a time':>25}   sequence   width, relative\n"
    f"{'series':16} {'each':>7} {'11 looks':>8} {'30 looks':>8} {'missed':>8}   {'first':>6} {'middle':>6} "
    f"{'last':>6} {'max':>6}   first looks"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--output", type=Path)
    told = parser.parse_args()
    rows, started = [], time.perf_counter()
    print(HEAD)
    with ProcessPoolExecutor(told.workers) as pool:
        for name in FRESH if told.fresh else told.only:
            length = length_of(name)
            jobs = [(name, k, min(k + 10, told.runs), length) for k in range(0, told.runs, 10)]
            seen: list[Seen] = []
            for part in pool.map(looks, jobs):
                seen += part
                print(f"{name}: {len(seen)} of {told.runs} runs", end="\r", file=sys.stderr, flush=True)
                if told.output:
                    kept = [*rows, summary(name, seen, length)]
                    write_whole(told.output, json.dumps(kept, indent=1).encode() + b"\n")
            rows.append(summary(name, seen, length))
            print(show(rows[-1]), flush=True)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
