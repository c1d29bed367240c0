"""How the number of samples for a wanted error grows as the problem becomes ill-conditioned.

Two families of problems, in which eta1 falls and nothing else changes: a chain that mixes ever more slowly,
and a feature that becomes ever shorter (see `measuring`). T(epsilon) is the number of transitions after which
the mean squared distance from the limit is epsilon for good; the first distance is 1.

- Algorithms with affine steps: exact curves, over three decades of eta1. One rule for the step size of all:
  the constant one with which an error of epsilon / 2 stays forever.
- Others: the covariance of the weights for steps a / t with a = 2 / eta1, which says how the error falls in
  the end, over the first decade and a half.

There are three claims: with independent samples, along a Markov chain, and about single-chain. The second one
is judged exactly as stated, without the mixing time; next to it is the growth of the number of samples
divided by the mixing time, which is what the theorem bounds. The third is about the order eta^-4 that is
proved for single-chain, along a chain. There is no exact curve, so errors are means over 64 runs, over half
a decade. Its rule, written before the first run: the interval of the power must end below 4.1. Whether
single-chain needs more samples than double-chain, as its guarantee does, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Harmonic
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Part, at_most, in_words, shown
from gainbias.experiments.claims.measuring import (
    RUNS_OF_SINGLE_CHAIN,
    WANTED_ERROR,
    log_slope,
    median_and_range,
    short_problem,
    slow_problem,
    steps_for_error,
)
from gainbias.experiments.statistics import Interval
from gainbias.model.problem import Problem
from gainbias.theory.asymptotics import asymptotic_covariance
from gainbias.theory.curve.curve import error_form, exact_curve
from gainbias.types import Floats, Ints

QUADRATIC = 2.1
"""Growth is at most quadratic if the interval of the slope ends below this."""

QUARTIC = 4.1
"""The same for the fourth power."""

ALONG_DOWN_TO = 0.03
"""Curves of single-chain by runs are made down to this coupling: beyond it they take long."""

Names = tuple[str, ...]

PUBLISHED = ("double-chain", "td-lambda", "projected-td", "implicit-td", "differential-td")
EXACT_ALGORITHMS = (*PUBLISHED, "double-chain-symmetric", "double-chain-centred")
"""With our variants of double-chain."""

IN_THE_END = ("single-chain", "relative-td", "lstd")

FAMILIES: dict[str, Callable[[np.random.Generator, float], Problem]] = {
    "slow chain": slow_problem,
    "short feature": lambda rng, coupling: short_problem(rng, float(np.sqrt(coupling))),
}


@dataclass(frozen=True)
class EtaPoint:
    """One algorithm on one problem: the condition number, transitions for epsilon, the mixing time."""

    algorithm: str
    family: str
    coupling: float
    """To which eta1 is proportional in each family, as it becomes small."""
    eta: float
    transitions: float
    mixing_time: int


def measured(seed: int, quick: bool, sampling: Sampling, exact: Names) -> list[EtaPoint]:
    """Measure T(epsilon) of algorithms with exact curves, and of the others."""
    chains, decades = (1, 1.5) if quick else (3, 3.0)
    points: list[EtaPoint] = []
    for family, make in FAMILIES.items():
        for chain in range(chains):
            for coupling in np.geomspace(0.1, 0.1 * 10.0**-decades, 4 if quick else 5):
                problem = make(np.random.default_rng([seed, chain]), float(coupling))
                in_the_end = IN_THE_END if coupling > 0.9e-3 else ()
                points += _points(family, float(coupling), problem, sampling, exact, in_the_end)
    return points


def _points(
    family: str, coupling: float, problem: Problem, sampling: Sampling, exact: Names, in_the_end: Names
) -> Iterator[EtaPoint]:
    eta = problem.condition_numbers.eta1
    for name in exact:
        steps, step_size = steps_needed(name, problem, sampling)
        mixing = problem.mixing_time(step_size)
        yield EtaPoint(name, family, coupling, eta, steps * ALGORITHMS[name].chains, mixing)
    for name in in_the_end:
        schedule = None if ALGORITHMS[name].declared.step_free else Harmonic(2.0 / eta, 8.0 / eta)
        covariance = asymptotic_covariance(name, problem, schedule, sampling=sampling)
        error = float(np.vdot(error_form(ALGORITHMS[name], problem), covariance))
        yield EtaPoint(name, family, coupling, eta, error / WANTED_ERROR, 1)


def steps_needed(name: str, problem: Problem, sampling: Sampling) -> tuple[float, float]:
    """Return T(epsilon), by runs where there is no exact curve, and the step size that leaves half of it."""
    by_runs = ALGORITHMS[name].declared.sample_field is None
    lanes = RUNS_OF_SINGLE_CHAIN if by_runs else None

    def errors_of(step_size: float, steps: Ints) -> Floats:
        last = int(steps[-1])
        curve = exact_curve(name, problem, last, step_size, sampling=sampling, checkpoints=steps, lanes=lanes)
        return curve.mean_squared_error

    return steps_for_error(errors_of, problem.condition_numbers.eta1, by_runs=by_runs)


def counts(points: list[EtaPoint]) -> dict[str, object]:
    """Return over how many decades exact curves and covariances go, and how many chains a family has."""
    return {
        "exact": in_words(_decades(points, EXACT_ALGORITHMS), "decade"),
        "in_the_end": in_words(_decades(points, IN_THE_END)),
        "chains": _chains(points),
    }


def _decades(points: list[EtaPoint], names: Names) -> float:
    couplings = [point.coupling for point in points if point.algorithm in names]
    return round(float(np.log10(max(couplings) / min(couplings))), 2)


def _chains(points: list[EtaPoint]) -> str:
    own = [point for point in points if point.algorithm == "double-chain"]
    first = own[0]
    same = sum((each.family, each.coupling) == (first.family, first.coupling) for each in own)
    return in_words(same, "chain")


def slopes_of_others(points: list[EtaPoint]) -> list[Part]:
    """Return the slope of each other algorithm."""
    names = dict.fromkeys(point.algorithm for point in points if point.algorithm != "double-chain")
    return [shown(f"{name}, {family}", slope) for name in names for family, slope in [steepest(points, name)]]


def steepest(points: list[EtaPoint], name: str, per_mixing_time: bool = False) -> tuple[str, Interval]:
    """Return the family in which the samples of an algorithm grow fastest, and the slope there."""
    slopes = {}
    for family in FAMILIES:
        chosen = [point for point in points if (point.algorithm, point.family) == (name, family)]
        counts = [point.transitions / (point.mixing_time if per_mixing_time else 1) for point in chosen]
        slopes[family] = log_slope([1.0 / point.eta for point in chosen], counts)
    return max(slopes.items(), key=lambda item: item[1].estimate)


def charts(points: list[EtaPoint], samples: str) -> tuple[Chart, ...]:
    """Return a chart for each family."""
    return tuple(
        _chart([point for point in points if point.family == family], f"{family}, {samples}")
        for family in FAMILIES
    )


def _chart(points: list[EtaPoint], title: str) -> Chart:
    lines = []
    for name in dict.fromkeys(point.algorithm for point in points):
        chosen = sorted((1.0 / p.eta, p.transitions) for p in points if p.algorithm == name)
        lines.append(Line(name, [x for x, _ in chosen], [y for _, y in chosen]))
    x = lines[0].x
    quadratic = [lines[0].y[0] * (each / x[0]) ** 2 for each in x]
    lines.append(Line("eta1^-2", x, quadratic, reference=True))
    return Chart(title, "1 / eta1", f"transitions for an error of {WANTED_ERROR:g}", tuple(lines))


HOW = (
    "Slope of log T(0.01) on log(1/eta1) in two families of small chains; figures are of the family with "
    "the larger slope. Exact curves over {exact}, asymptotic covariances (single-chain, relative-td, lstd) "
    "over {in_the_end}."
)
INTERVAL = "95 % interval of the slope of a straight line, over {chains} of each family"


def collect_independent(seed: int, quick: bool) -> list[EtaPoint]:
    """Measure T(epsilon) with independent samples."""
    return measured(seed, quick, "iid", PUBLISHED if quick else EXACT_ALGORITHMS)


def judge_independent(points: list[EtaPoint]) -> Judgement:
    """Compare the slope of double-chain with quadratic growth."""
    family, slope = steepest(points, "double-chain")
    part = at_most(f"double-chain, {family}", slope, QUADRATIC)
    others = slopes_of_others(points)
    earlier = max((other for other in others if "double" not in other.name), key=lambda other: other.value)
    reason = (
        f"With independent samples double-chain grows as eta1^-{part.value:.2f}. The quartic growth of "
        "earlier methods is what is proved for them, not what happens here: their largest power is "
        f"{earlier.value:.2f}."
    )
    return Judgement((part, *others), reason, charts(points, "independent samples"), counts(points))


INDEPENDENT_CLAIM = Claim(
    id="eta-order",
    text="With independent samples double-chain needs a number of them that grows at most as eta1^-2, "
    "where analyses of earlier methods have the fourth power.",
    where="Abstract; comparison table; theorem on double chain with independent samples",
    how=HOW,
    interval=INTERVAL,
    collect=collect_independent,
    judge=judge_independent,
    findings=("finding-11",),
    said={"at most 2.1": "at most 2"},
)


def collect_along_chain(seed: int, quick: bool) -> list[EtaPoint]:
    """Measure T(epsilon) along chains."""
    return measured(seed, quick, "markov", ("double-chain",) if quick else PUBLISHED)


def judge_along_chain(points: list[EtaPoint]) -> Judgement:
    """Compare the slope of double-chain with quadratic growth."""
    family, slope = steepest(points, "double-chain")
    part = at_most(f"double-chain, {family}", slope, QUADRATIC)
    family, slope = steepest(points, "double-chain", per_mixing_time=True)
    expected = f"at most {QUADRATIC:g} by the theorem"
    without = shown(f"double-chain, samples / mixing time, {family}", slope, expected)
    reason = (
        f"Along a chain double-chain grows as eta1^-{part.value:.2f}. The theorem has a factor of the "
        "mixing time, which the O~ of the claim hides; divided by it the number of samples grows as "
        f"eta1^-{without.value:.2f}. Where slow mixing makes eta1 small, this factor is itself of order 1 / "
        "eta1."
    )
    parts = (part, without, *slopes_of_others(points))
    return Judgement(parts, reason, charts(points, "along the chain"), counts(points))


ALONG_CHAIN_CLAIM = Claim(
    id="eta-order-markov",
    text="Along a Markov chain, too, double-chain needs a number of samples of order eta1^-2.",
    where="Abstract; comparison table; theorems on double chain with Markov sampling",
    how=HOW,
    interval=INTERVAL,
    collect=collect_along_chain,
    judge=judge_along_chain,
    findings=("finding-36",),
    said={"at most 2.1": "at most 2", "at most 2.1 by the theorem": "at most 2 by the theorem"},
)


def collect_single(seed: int, quick: bool) -> list[EtaPoint]:
    """Measure T(epsilon) of single-chain and double-chain along chains, over half a decade."""
    points: list[EtaPoint] = []
    for family, make in FAMILIES.items():
        for chain in range(1 if quick else 3):
            for coupling in np.geomspace(0.1, 0.05 if quick else ALONG_DOWN_TO, 3):
                problem = make(np.random.default_rng([seed, chain]), float(coupling))
                both = ("single-chain", "double-chain")
                points += _points(family, float(coupling), problem, "markov", both, ())
    return points


def judge_single(points: list[EtaPoint]) -> Judgement:
    """Compare the slope of single-chain with the fourth power; show that of double-chain, and ratios."""
    family, slope = steepest(points, "single-chain")
    other, double = steepest(points, "double-chain")
    parts = [at_most(f"single-chain, {family}", slope, QUARTIC), shown(f"double-chain, {other}", double)]
    ratios = [_beside_double(points, name) for name in FAMILIES]
    parts += [
        shown(f"samples of single-chain / double-chain, {name}", ratio)
        for name, ratio in zip(FAMILIES, ratios, strict=True)
    ]
    reason = (
        f"Along a chain single-chain grows as eta1^-{slope.estimate:.2f}; the fourth power is what is "
        "proved. Beside double-chain, whose guarantee is better, it needs "
        f"{min(r.low for r in ratios):.2g} to {max(r.high for r in ratios):.2g} times as many samples."
    )
    decades = _decades(points, ("single-chain",))
    told = {"chains": _chains(points), "decades": in_words(decades, "decade")}
    return Judgement(tuple(parts), reason, charts(points, "single-chain by runs"), told)


def _beside_double(points: list[EtaPoint], family: str) -> Interval:
    """Return the median and range of numbers of samples of single-chain over those of double-chain."""
    own, other = (
        [p.transitions for p in points if (p.algorithm, p.family) == (name, family)]
        for name in ("single-chain", "double-chain")
    )
    return median_and_range([one / two for one, two in zip(own, other, strict=True)])


SINGLE_CLAIM = Claim(
    id="eta-order-single",
    text="Along a chain single-chain needs a number of samples that grows at most as eta1^-4.",
    where="Results on the single-chain method, sample complexity",
    how="Slope of log T(0.01) on log(1/eta1) in two families of small chains, over {decades}: means over "
    f"{RUNS_OF_SINGLE_CHAIN} runs for single-chain, exact curves for double-chain; figures are of the family "
    "with the larger slope.",
    interval="95 % interval of the slope of a straight line, over {chains} of each family; of ratios the "
    "range",
    collect=collect_single,
    judge=judge_single,
    findings=("finding-11",),
    said={"at most 4.1": "at most 4"},
)
