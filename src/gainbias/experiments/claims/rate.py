"""How fast the error falls with steps a / (t + c0): as 1/T if a eta1 > 1/2, as T^(-2 a eta1) below.

On a reversible chain with tabular features the mean update is symmetric, so its slowest rate is eta1 itself
and the prediction is exact: curves without sampling, from the last decade of steps. On the paper's fifteen
settings rates may be larger than eta1 and steps are few, so there the error must fall at least as fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.algorithms.fields import paper_field
from gainbias.engine.paths import Sampling
from gainbias.engine.run import run
from gainbias.engine.schedules import Harmonic
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Part, about, at_least, shown
from gainbias.experiments.claims.measuring import log_slope, mean_slope, reversible_chain, rewarding
from gainbias.experiments.statistics import Interval
from gainbias.extras import require
from gainbias.features import Tabular
from gainbias.model.problem import Problem
from gainbias.tasks.registry import TASKS, task
from gainbias.theory.curve.curve import exact_curve

STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.75, 1.0, 2.0)
"""Values of a eta1; none close to 1/2, where two powers differ by little and curves take long to choose."""

RATE_MARGIN = 0.1
"""A power is the predicted one if its interval is within this of it."""

DECADE = 10

WORK = 2000
"""Runs on a task, times its features."""

ON_TASKS = (
    f"mean over 20 to 400 runs ({WORK} / d) on the paper's tasks, where eta1 is a lower bound on the rate"
)


@dataclass(frozen=True)
class RateSetting:
    """The power of 1/T with which an error fell, and what was predicted: min(1, 2 a eta1)."""

    name: str
    strength: float
    power: Interval
    printed_strength: float = float("nan")
    """By the condition number that the paper prints for this task."""

    @property
    def predicted(self) -> float:
        """The power that theory gives."""
        return min(1.0, 2.0 * self.strength)


@dataclass(frozen=True)
class Data:
    """Settings of the small chain, single-chain beside them with its number of runs, the paper's tasks."""

    chain: list[RateSetting]
    single: list[RateSetting]
    runs: int
    tasks: list[RateSetting]


def collect(seed: int, quick: bool) -> Data:
    """Return with which power of 1/T errors fall, on the small chain and on the paper's tasks."""
    rng = np.random.default_rng(seed)
    problem = Problem(rewarding(reversible_chain(rng, 3), rng.normal(size=3), 1.0), Tabular())
    samplings: tuple[Sampling, ...] = ("iid",) if quick else ("iid", "markov")
    strengths = (0.2, 1.0) if quick else STRENGTHS
    steps, runs = (20_000, 64) if quick else (100_000, 256)
    chain = [_exact(problem, strength, steps, sampling) for sampling in samplings for strength in strengths]
    single = [_single(problem, strength, steps // 2, runs) for strength in strengths]
    return Data(chain, single, runs, [] if quick else _tasks())


def _exact(problem: Problem, strength: float, num_steps: int, sampling: Sampling) -> RateSetting:
    schedule = _schedule(problem, strength)
    steps = _last_decade(num_steps, schedule.c0)
    curve = exact_curve("double-chain", problem, num_steps, schedule, sampling=sampling, checkpoints=steps)
    slope = log_slope(curve.steps + schedule.c0, curve.mean_squared_error)
    return RateSetting(f"double-chain, {sampling}", strength, _falling(slope))


def _single(problem: Problem, strength: float, num_steps: int, runs: int) -> RateSetting:
    schedule = _schedule(problem, strength)
    steps = _last_decade(num_steps, schedule.c0)
    trace = run("single-chain", problem, num_steps, schedule, seeds=range(runs), checkpoints=steps)
    squares = trace.errors(target="paper", space="weights") ** 2
    return RateSetting(
        "single-chain, markov", strength, _falling(mean_slope(trace.steps + schedule.c0, squares))
    )


def _tasks() -> list[RateSetting]:
    """Return double-chain on the paper's tasks, scaled as its numbers suggest, with its own steps."""
    papers = {name: recipe.paper for name, recipe in TASKS.items() if recipe.paper is not None}
    require(*dict.fromkeys(module for name in papers for module in TASKS[name].needs))
    found = []
    for name, paper in papers.items():
        problem = task(name, protocol="inferred").problem
        schedule = Harmonic(paper.step_numerator, paper.step_offset)
        steps = _last_decade(paper.num_steps, schedule.c0)
        runs = range(WORK // problem.num_features)
        trace = run("double-chain", problem, paper.num_steps, schedule, seeds=runs, checkpoints=steps)
        squares = trace.errors(target="paper", space="weights") ** 2
        power = _falling(mean_slope(trace.steps + schedule.c0, squares))
        field = paper_field(problem).matrix
        eta = float(np.linalg.eigvalsh(0.5 * (field + field.T))[0])
        found.append(RateSetting(name, schedule.a * eta, power, schedule.a * paper.condition_numbers["eta1"]))
    return found


def _schedule(problem: Problem, strength: float) -> Harmonic:
    a = strength / problem.condition_numbers.eta1
    return Harmonic(a, 4.0 * a)


def _last_decade(num_steps: int, c0: float) -> list[int]:
    first = max(1.0, (num_steps + c0) / DECADE - c0)
    return [int(t) for t in np.unique(np.geomspace(first, num_steps, 9).astype(int))]


def _falling(slope: Interval) -> Interval:
    return type(slope)(-slope.estimate, -slope.high, -slope.low)


def judge(data: Data) -> Judgement:
    """Judge the measured powers of 1/T by the predicted ones."""
    parts = [
        about(f"{each.name}, a eta1 = {each.strength:g}", each.power, each.predicted, RATE_MARGIN)
        for each in data.chain
    ]
    parts += [
        shown(
            f"{each.name}, a eta1 = {each.strength:g}", each.power, f"{each.predicted:g} if as double-chain"
        )
        for each in data.single
    ]
    off = max(abs(each.power.estimate - each.predicted) for each in data.chain)
    reason = (
        f"On the small chain the power differs from min(1, 2 a eta1) by {off:.2g} at most; "
        f"the tolerance is {RATE_MARGIN:g}."
    )
    if data.tasks:
        part, told = _of_tasks(data.tasks)
        parts.append(part)
        reason += f" {told}"
    counts = {"runs": data.runs, "tasks": ON_TASKS if data.tasks else "the paper's tasks are left out"}
    return Judgement(tuple(parts), reason, _charts(data), counts)


def _of_tasks(tasks: list[RateSetting]) -> tuple[Part, str]:
    """Return the task that falls behind its prediction most, and how many have large enough steps."""

    def ahead(each: RateSetting) -> Interval:
        return Interval(*(end - each.predicted for end in each.power))

    worst = min(tasks, key=lambda each: ahead(each).low)
    enough = sum(each.printed_strength > 0.5 for each in tasks)
    computed = sum(each.strength > 0.5 for each in tasks)
    told = (
        f"Of the paper's {len(tasks)} settings {enough} have a eta1 > 1/2 by its printed eta1 ({computed} "
        "by ours), so only these are promised the rate 1/T"
    )
    part = at_least(f"power minus min(1, 2 a eta1), worst task ({worst.name})", ahead(worst), -RATE_MARGIN)
    says = {"holds": "falls", "fails": "does not fall", "undecided": "perhaps falls"}[
        part.verdict or "undecided"
    ]
    return part, f"{told}; each {says} at least as fast as predicted."


def _charts(data: Data) -> tuple[Chart, ...]:
    groups: dict[str, list[RateSetting]] = {}
    for each in data.chain + data.single:
        groups.setdefault(each.name, []).append(each)
    if data.tasks:
        groups["double-chain, the paper's tasks"] = data.tasks
    lines = [
        Line(
            name,
            [each.strength for each in settings],
            [each.power.estimate for each in settings],
            [each.power.low for each in settings],
            [each.power.high for each in settings],
        )
        for name, settings in groups.items()
    ]
    x = np.geomspace(min(min(line.x) for line in lines), max(max(line.x) for line in lines), 60)
    lines.append(Line("min(1, 2 a eta1)", x.tolist(), np.minimum(1.0, 2.0 * x).tolist(), reference=True))
    return (Chart("Last decade of steps", "a eta1", "power of 1/T", tuple(lines), y_axis="linear"),)


CLAIM = Claim(
    id="rate",
    text="With steps a / (t + c0) the error of double-chain falls as 1/T if a eta1 > 1/2, and as T^(-2 a "
    "eta1) below.",
    where="Theorem on double chain with decaying steps (there min(1, a eta1), which is weaker), and the "
    "steps of the experiments",
    how="Power of the fall over the last decade of steps: exact curves on a reversible chain of 3 states; "
    "mean over {runs} runs for single-chain; {tasks}.",
    interval="95 % interval of the slope of a straight line (exact curves) or over runs",
    collect=collect,
    judge=judge,
    findings=("finding-11", "finding-17"),
    said={"at least -0.1": "at least 0"},
)
