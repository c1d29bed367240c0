"""Whether the theorems' bounds are above the error, wherever their conditions hold.

On random small chains, at step sizes that the theorems certify (the largest, a tenth of it, and one that is
small enough for a useful bound) and at several numbers of steps: exact errors for double-chain, discounted-td
and the average of rewards, means over runs for single-chain, whose projected steps have no exact curve. Both
the corrected bounds and those printed in the paper.

A bound that is no better than what is known without it (`Bound.informative`) cannot fail: such cases are
counted, shown without a verdict, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Constant, Harmonic, Polynomial
from gainbias.experiments.claims.claim import Chart, Claim, FourErrors, Judgement, Line, Part, at_most, shown
from gainbias.experiments.claims.measuring import random_chain
from gainbias.experiments.claims.reward_estimate import mean_squared_errors
from gainbias.features import normalise_features
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.bounds.bound import bound
from gainbias.theory.bounds.certify import certified, certified_offset, largest_step_size
from gainbias.theory.bounds.record import Bound
from gainbias.theory.curve.curve import Curve, exact_curve

ERRORS = 4.0
"""Means over runs are known up to this many standard errors."""

USEFUL = 0.25
"""The smallest step sizes are those with which a theorem certifies this part of the error at the start."""

RUNS = 64
DECAYING_STEPS = 4_000
Schedule = Constant | Harmonic | Polynomial


@dataclass(frozen=True)
class BoundCheck:
    """An error, with the ends of its interval, beside a certified bound; `useful` if that says something."""

    theorem: str
    printed: bool
    num_steps: int
    error: float
    low: float
    high: float
    bound: float
    useful: bool


def collect(seed: int, quick: bool) -> list[BoundCheck]:
    """Return errors beside certified bounds, on random small chains."""
    checks: list[BoundCheck] = []
    for chain in range(1 if quick else 4):
        rng = np.random.default_rng([seed, chain])
        mrp = MarkovRewardProcess(random_chain(rng, 3), rng.uniform(-1.0, 1.0, 3))
        problem = Problem(mrp, normalise_features(rng.normal(size=(3, 2))))
        checks += _constant("double-chain", problem, "iid")
        checks += _constant("double-chain", problem, "markov")
        checks += _constant("discounted-td", problem, "iid", params={"discount": 0.9})
        checks += _rewards(problem)
        checks += _single(problem, 200 if quick else 5_000)
        for xi in (1.0, 0.75):
            checks += _decaying(problem, xi)
    return checks


def _constant(name: str, problem: Problem, sampling: Sampling, params: Any = None) -> Iterator[BoundCheck]:
    largest = min(1.0, largest_step_size(name, problem, sampling, **(params or {})))
    eta = problem.condition_numbers.eta1
    start = bound(name, problem, num_steps=1, step_size=largest, sampling=sampling, **(params or {})).trivial
    small = certified(name, problem, USEFUL * start.without_steps, sampling, **(params or {})).step_size.a
    for step_size in (largest, largest / 10.0, small):
        steps = np.unique(np.geomspace(10, 30.0 / (step_size * eta), 8).astype(int)).tolist()
        curve = exact_curve(
            name, problem, steps[-1], step_size, sampling=sampling, checkpoints=steps, params=params
        )
        yield from _compared(f"{name}, constant steps, {sampling}", curve, Constant(step_size), params)


def _decaying(problem: Problem, xi: float) -> Iterator[BoundCheck]:
    """Compare double-chain with steps a / (t + c0)^xi, with the least c0 that is certified."""
    a = 1.0 / problem.condition_numbers.eta1
    c0 = certified_offset("double-chain", problem, DECAYING_STEPS, a, xi)
    schedule = Harmonic(a, c0) if xi == 1.0 else Polynomial(a, c0, xi)
    curve = exact_curve("double-chain", problem, DECAYING_STEPS, schedule, checkpoints=6)
    yield from _compared(f"double-chain, decaying steps, xi = {xi:g}", curve, schedule, None)


def _single(problem: Problem, num_steps: int) -> Iterator[BoundCheck]:
    eta = problem.condition_numbers.eta1
    schedules: tuple[Schedule, ...] = (Constant(0.01), Constant(0.001), Harmonic(0.5 / eta, 1000.0))
    for schedule in schedules:
        radius = bound("single-chain", problem, num_steps=num_steps, step_size=schedule).constants["R_theta"]
        params = {"weights_radius": radius}
        curve = exact_curve(
            "single-chain", problem, num_steps, schedule, params=params, lanes=RUNS, checkpoints=6
        )
        kind = "constant" if isinstance(schedule, Constant) else "decaying"
        yield from _compared(f"single-chain, {kind} steps, markov", curve, schedule, params)


def _compared(theorem: str, curve: Curve, schedule: Schedule, params: Any) -> Iterator[BoundCheck]:
    unsure = np.zeros(len(curve.steps)) if curve.standard_error is None else ERRORS * curve.standard_error
    for printed in (False, True):
        for steps, error, reach in zip(curve.steps, curve.mean_squared_error, unsure, strict=True):
            found = bound(
                curve.algorithm,
                curve.problem,
                num_steps=int(steps),
                step_size=schedule,
                sampling=curve.settings["sampling"],
                as_printed=printed,
                **(params or {}),
            )
            if found.certified:
                yield _check(theorem, printed, int(steps), float(error), float(reach), found)


def _check(theorem: str, printed: bool, steps: int, error: float, reach: float, found: Bound) -> BoundCheck:
    ends = (error, error - reach, error + reach)
    return BoundCheck(theorem, printed, steps, *ends, found.value, found.informative)


def _rewards(problem: Problem) -> Iterator[BoundCheck]:
    errors = mean_squared_errors(problem.mrp, problem.solution.gain_per_step)
    for printed in (False, True):
        for k in range(4, 21, 4):
            found = bound("reward-estimate", problem, num_steps=2**k, as_printed=printed)
            if found.certified:
                yield _check("average of rewards, markov", printed, 2**k, errors[k], 0.0, found)


def judge(checks: list[BoundCheck]) -> Judgement:
    """Ask whether any error is above its bound, where that says something."""
    parts, silent = [], []
    for theorem in dict.fromkeys(check.theorem for check in checks):
        own = [check for check in checks if check.theorem == theorem]
        for words, printed in (("corrected", False), ("as printed", True)):
            if chosen := [check for check in own if check.printed == printed]:
                parts.append(_part(f"{theorem}, {words}", chosen))
        if not any(_judged(own)):
            silent.append(theorem)
    count = len(list(_judged(checks)))
    if not count:
        parts.append(
            Part("cases in which a bound says something", 0.0, 0.0, 0.0, "at least 1", "undecided", "exact")
        )
    return Judgement(tuple(parts), _reason(parts, silent, count, len(checks)), _charts(checks))


def _judged(checks: list[BoundCheck]) -> Iterator[BoundCheck]:
    """Pick the checks that can fail, and any that do fail."""
    return (check for check in checks if check.useful or check.low > check.bound)


def _part(name: str, chosen: list[BoundCheck]) -> Part:
    """Return the largest error / bound of those that are judged, or of all, without a verdict, if none is."""
    judged = list(_judged(chosen))
    worst = max(judged or chosen, key=lambda check: check.high / check.bound)
    ratio = FourErrors(*(end / worst.bound for end in (worst.error, worst.low, worst.high)))
    name = f"largest error / bound: {name} ({sum(c.useful for c in chosen)} of {len(chosen)} say something"
    return at_most(f"{name})", ratio, 1.0) if judged else shown(f"{name}: not judged)", ratio)


def _reason(parts: list[Part], silent: list[str], count: int, total: int) -> str:
    """Say how many cases were judged, what came out, and which theorems were not judged."""
    if not count:
        return f"No verdict: in none of {total} cases is the bound below what is known without it."
    judged = [part for part in parts if part.verdict is not None]
    broken = [part.name for part in judged if part.verdict != "holds"]
    said = f"Judged are {count} of {total} cases, those with a bound below what is known without it. " + (
        f"Not surely below the bound: {'; '.join(broken)}."
        if broken
        else f"In these no error is above it; the closest reaches {max(p.value for p in judged):.4f} of it."
    )
    return f"{said} No verdict on bounds that say nothing: {'; '.join(silent)}." if silent else said


def _charts(checks: list[BoundCheck]) -> tuple[Chart, ...]:
    """Draw the corrected bounds that say something."""
    drawn = [check for check in checks if check.useful and not check.printed]
    if not drawn:
        return ()
    lines = []
    for theorem in dict.fromkeys(check.theorem for check in drawn):
        own = [check for check in drawn if check.theorem == theorem]
        lines.append(Line(theorem, [check.bound for check in own], [check.error for check in own]))
    ends = [min(check.bound for check in drawn), max(check.bound for check in drawn)]
    lines.append(Line("error = bound", ends, ends, reference=True))
    title = "Corrected bounds that say something, certified steps"
    return (Chart(title, "bound", "mean squared error", tuple(lines)),)


CLAIM = Claim(
    id="bound-holds",
    text="The mean squared error is at most what the theorems say, wherever their conditions hold.",
    where="All theorems on convergence",
    how="Exact errors (single-chain: means over 64 runs of 5,000 steps, give or take 4 standard errors) on "
    "four random chains of 3 states, at certified step sizes. Judged only where the bound is below what is "
    "known without it: the error before the first step and, for averages of rewards, (r_max + |g|)^2.",
    interval="4 standard errors for single-chain; exact for all others",
    collect=collect,
    judge=judge,
    findings=("finding-5", "finding-6", "finding-34", "finding-35"),
    quick_how="Exact errors (single-chain: means over 64 runs of 200 steps, give or take 4 standard "
    "errors) on one random chain of 3 states, at certified step sizes.",
)
