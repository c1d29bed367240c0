"""What finite runs can show of almost-sure convergence: no run leaves the limit again.

Almost-sure convergence is about whole paths. A method can converge in mean square while each run now and then
goes far away, ever more rarely. No finite run can prove or refute a limit. But if it converges almost surely,
the largest error of a run over all later times tends to 0, in every run. So the time after T is cut into
windows from 4^k T to 4^(k+1) T, and for each run the largest error in each window is found, not the last one.
The rules, for each method:

- The largest of these over all runs, of the worst run in each window, falls with a power of the time whose
  interval ends below -0.25. (If the central limit theorem holds, it is about -1/2.)
- In at most 5 % of the runs, at 95 % confidence, the last window has an error larger than half of the largest
  one in the first.

Beside them stands a constant step size, with which nothing converges: its power is near 0, so the test can
tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.engine.run import run
from gainbias.engine.schedules import Constant, Harmonic, Schedule
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Part, at_most, shown
from gainbias.experiments.claims.measuring import log_slope, slow_problem
from gainbias.experiments.statistics import proportion_interval
from gainbias.model.problem import Problem
from gainbias.types import Floats

WINDOW = 4
"""The end of a window over its beginning."""

READINGS_PER_WINDOW = 200
"""Numbers of steps, evenly spaced, at which the errors of a window are looked at."""

STEADY_FALL = -0.25
"""The worst run falls if the interval of its power ends below this."""

MOST_STRAYING = 0.05
"""Share of runs that may still be as far away as half of where they were."""

SURE_METHODS = ("double-chain", "single-chain")
STEADY_STEP = "double-chain, constant step"


@dataclass(frozen=True, eq=False)
class Excursions:
    """The largest error of each run in each window: (runs, windows)."""

    name: str
    first: int
    """The first step of the first window."""
    largest: Floats


def collect(seed: int, quick: bool) -> list[Excursions]:
    """Return the largest errors of runs along a chain, with steps a / (t + c0) and with constant ones."""
    runs, windows = (80, 5) if quick else (200, 6)
    problem = slow_problem(np.random.default_rng(seed), 0.1)
    a = 2.0 / problem.condition_numbers.eta1
    decaying = Harmonic(a, 8.0 * a)
    cases: list[tuple[str, str, Schedule]] = [(name, name, decaying) for name in SURE_METHODS]
    cases.append((STEADY_STEP, "double-chain", Constant(0.01)))
    return [_excursions(label, name, problem, schedule, runs, windows) for label, name, schedule in cases]


def _excursions(
    label: str, name: str, problem: Problem, schedule: Schedule, runs: int, windows: int
) -> Excursions:
    first = 2_000
    ends = first * WINDOW ** np.arange(windows + 1)
    steps = [np.linspace(ends[k], ends[k + 1], READINGS_PER_WINDOW + 1)[1:] for k in range(windows)]
    looked = np.concatenate(steps).astype(np.int64)
    trace = run(name, problem, int(looked[-1]), schedule, seeds=range(runs), checkpoints=looked.tolist())
    errors = np.linalg.norm(trace.weights - problem.fixed_point, axis=2)
    return Excursions(label, first, errors.reshape(runs, windows, -1).max(axis=2))


def judge(found: list[Excursions]) -> Judgement:
    """Judge for each method whether the worst run falls, and how many runs stray."""
    parts: list[Part] = []
    for each in found:
        times = _times(each)
        power = log_slope(times, each.largest.max(axis=0))
        straying = int((each.largest[:, -1] > 0.5 * each.largest[:, 0]).sum())
        share = proportion_interval(straying, len(each.largest))
        worst, stray = f"{each.name}: power of the worst run", f"{each.name}: share of runs that stray"
        if each.name == STEADY_STEP:
            parts += [shown(worst, power), shown(stray, share)]
        else:
            parts += [at_most(worst, power, STEADY_FALL), at_most(stray, share, MOST_STRAYING)]
    powers = ", ".join(f"{part.value:.2f} ({part.name.split(':')[0]})" for part in parts[::2])
    reason = (
        "Finite runs cannot prove a limit; they show that none of the methods' runs leaves it again. The "
        f"largest error of the worst run falls with the powers {powers}."
    )
    lines = [Line(each.name, _times(each), each.largest.max(axis=0).tolist()) for each in found]
    lines += [
        Line(f"{each.name}, median run", _times(each), np.median(each.largest, axis=0).tolist())
        for each in found[:2]
    ]
    counts = {
        "runs": len(found[0].largest),
        "windows": found[0].largest.shape[1],
        "T": f"{found[0].first * WINDOW ** found[0].largest.shape[1]:,}",
    }
    chart = Chart("Later errors", "step", "largest error in a window", tuple(lines))
    return Judgement(tuple(parts), reason, (chart,), counts)


def _times(each: Excursions) -> list[float]:
    return [float(each.first * WINDOW**k) for k in range(each.largest.shape[1])]


CLAIM = Claim(
    id="almost-sure",
    text="Double-chain and single-chain converge almost surely: no run leaves the limit again.",
    where="Introduction, first item of the list",
    how="{runs} runs along a chain of 4 states with steps a / (t + 8a), a = 2 / eta1, up to T = {T}; the "
    "largest error of each run in each of {windows} windows of time, looked at 200 times.",
    interval="95 % interval of the slope of a straight line; of shares Clopper-Pearson, 95 %",
    collect=collect,
    judge=judge,
    findings=("finding-10",),
    said={"at most -0.25": "below 0", "at most 0.05": "none"},
)
