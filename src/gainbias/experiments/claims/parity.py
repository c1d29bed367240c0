"""Whether average-reward TD needs as many samples as discounted TD: what that can mean, and what is measured.

The title of the paper speaks of a gap between average and discounted TD, and its abstract of matching the
efficiency of the discounted setting. This can mean three things. They were written down before the first run.

1. *The same order* (claim ``parity``). Each method looks for its own fixed point and has its own condition
   number: eta1 for double-chain, (1 - discount) times the smallest eigenvalue of Phi^T D Phi for discounted
   TD. Parity means that each needs at most of the order of eta^-2 independent samples. That is what the
   theorems say. As they hide logarithms, numbers of samples are divided by log(first error / epsilon). Rule:
   the interval of the power must end below 2.1, for double-chain as eta1 falls (in the worse of two
   families), and for discounted TD as the discount tends to 1 and eta1 is fixed.
2. *The same answer* (claim ``parity-answer``). What both know in the end is the bias, up to a constant:
   discounted values minus their mean tend to it. Parity means that double-chain and single-chain need at most
   a constant times as many samples as discounted TD for values of the same accuracy. The error is the mean
   square of centred values under the stationary law. Rule: the number of samples divided by that of
   discounted TD must not grow, so the interval of its power must end below 0.1; with independent samples and
   along the chain; in two settings:

   - eta1 falls, on the slow chain, and discounted TD takes the discount that it needs: the one at which its
     own limit has a quarter of the wanted error. Errors are those against the bias.
   - The discount tends to 1 and eta1 is fixed. Errors of discounted TD are those against its own limit.

   (The short feature is no family here: the shorter it is, the less it matters for values.)
3. *The discount is fixed* while eta1 falls. Then the answers are different ones: discounted values do not see
   slow mixing beyond their horizon. Parity in this sense is not claimed by anybody; figures are shown.

For all methods T(epsilon) is the number of transitions after which the error stays below epsilon = 0.01,
with the constant step size that leaves half of it forever: from exact curves, and for single-chain, which
has none, from means over runs. Beside it stand the numbers that the theorems certify; for td-lambda there is
no theorem with constants in this package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.paths import Sampling
from gainbias.engine.trace import Target
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Part, at_most, in_words, shown
from gainbias.experiments.claims.eta_order import FAMILIES, QUADRATIC
from gainbias.experiments.claims.measuring import (
    RUNS_OF_SINGLE_CHAIN,
    WANTED_ERROR,
    log_slope,
    median_and_range,
    slow_problem,
    steps_for_error,
)
from gainbias.experiments.statistics import Interval
from gainbias.model.chain.discounting import discounted_values
from gainbias.model.problem import Problem
from gainbias.theory.bounds.certify import certified
from gainbias.theory.curve.curve import Curve, exact_curve
from gainbias.theory.recommend import slow_rates
from gainbias.types import Floats, Ints

ErrorOf = Literal["weights", "values", "values for the bias"]
"""Errors of weights or centred values against the method's own limit, or of these values against the bias."""

UNDISCOUNTED = ("double-chain", "single-chain", "td-lambda")
DISCOUNTED = "discounted-td"

RUNS_DOWN_TO = 0.01
"""Curves by runs are made down to this coupling: beyond it they would take hours."""

FIXED_DISCOUNT = 0.9
TO_ONE = "discount to 1"
"""The setting in which 1 - discount falls and eta1 is fixed; others are named by their family."""

FIRST_COUPLING = 0.1
"""Where eta1 begins to fall, and where it is while the discount tends to 1."""

NO_GROWTH = 0.1
"""A ratio of numbers of samples does not grow if the interval of its power ends below this."""

SHARE_OF_DISCOUNT = 0.25
"""Share of the wanted error that the discount may cost discounted TD, of which half is all that stays."""

CURVE_MIXING_TIMES = 100
"""Along a chain curves have at least this number of mixing times (to a distance of 1/2)."""

SAMPLINGS: tuple[Sampling, ...] = ("iid", "markov")


@dataclass(frozen=True)
class ParityPoint:
    """The samples that one method needs on one problem, and those that a theorem certifies.

    `small` is what falls in the setting: the method's own condition number, or 1 - discount.
    """

    method: str
    setting: str
    sampling: Sampling
    chain: int
    small: float
    discount: float
    transitions: float
    first_error: float
    certified: float

    @property
    def without_log(self) -> float:
        """Transitions divided by log(first error / epsilon), which an order of magnitude hides."""
        return self.transitions / math.log(self.first_error / WANTED_ERROR)

    @property
    def certified_without_log(self) -> float:
        """The same for the number that a theorem certifies."""
        return self.certified / math.log(self.first_error / WANTED_ERROR)


def needed(
    method: str, problem: Problem, sampling: Sampling, error_of: ErrorOf, discount: float = math.nan
) -> tuple[float, float]:
    """Return the transitions for epsilon, and the error before the first step."""
    algorithm = ALGORITHMS[method]
    params = {} if math.isnan(discount) else {"discount": discount}
    by_runs = algorithm.declared.sample_field is None

    def errors_of(step_size: float, steps: Ints) -> Floats:
        curve = exact_curve(
            algorithm,
            problem,
            int(steps[-1]),
            step_size,
            params=params,
            sampling=sampling,
            checkpoints=steps,
            lanes=RUNS_OF_SINGLE_CHAIN if by_runs else None,
        )
        return _errors(curve, error_of)

    rate = min(slow_rates(algorithm, problem, params))
    mixing = CURVE_MIXING_TIMES * problem.mixing_time(0.5) if sampling == "markov" else 0
    steps, _ = steps_for_error(errors_of, rate, by_runs=by_runs, at_least=mixing)
    return steps * algorithm.chains, float(errors_of(1e-9, np.array([0, 1]))[0])


def _errors(curve: Curve, error_of: ErrorOf) -> Floats:
    if error_of == "weights":
        return curve.mean_squared_error
    target: Target = "own" if error_of == "values" else "bias"
    return np.asarray(curve.errors("centred", target=target, norm="stationary") ** 2)


def _certified(method: str, problem: Problem, sampling: Sampling, discount: float) -> float:
    """Return the transitions that a theorem certifies, nan where there is none."""
    try:
        if math.isnan(discount):
            steps = certified(method, problem, WANTED_ERROR, sampling).num_steps
        else:
            steps = certified(method, problem, WANTED_ERROR, sampling, discount=discount).num_steps
    except ValueError:
        return math.nan
    return float(steps * ALGORITHMS[method].chains)


class _Case(NamedTuple):
    """A problem of a setting, the discount of discounted TD on it, and the methods."""

    setting: str
    sampling: Sampling
    chain: int
    problem: Problem
    discount: float
    methods: tuple[str, ...]

    @property
    def small(self) -> float:
        """The condition number that falls: eta1, or that of discounted TD as the discount tends to 1."""
        numbers = self.problem.condition_numbers
        falls = (1.0 - self.discount) * numbers.gram_min if self.setting == TO_ONE else numbers.eta1
        return float(falls)


def _falling(seed: int, quick: bool, families: Sequence[str]) -> Iterator[tuple[str, int, float, Problem]]:
    decades = 1.0 if quick else 3.0
    for family in families:
        for chain in range(1 if quick else 3):
            for coupling in np.geomspace(FIRST_COUPLING, FIRST_COUPLING * 10.0**-decades, 3 if quick else 5):
                rng = np.random.default_rng([seed, chain])
                yield family, chain, float(coupling), FAMILIES[family](rng, float(coupling))


def _to_one(seed: int, quick: bool) -> Iterator[tuple[int, float, Problem]]:
    for chain in range(1 if quick else 3):
        problem = slow_problem(np.random.default_rng([seed, chain]), FIRST_COUPLING)
        for left in np.geomspace(0.1, 0.01 if quick else 1e-4, 3 if quick else 5):
            yield chain, 1.0 - float(left), problem


def _methods(coupling: float, quick: bool) -> tuple[str, ...]:
    by_runs = coupling >= RUNS_DOWN_TO and not quick
    return UNDISCOUNTED if by_runs else tuple(name for name in UNDISCOUNTED if name != "single-chain")


def collect_order(seed: int, quick: bool) -> list[ParityPoint]:
    """Measure T(epsilon) of all methods for their own limits, in all settings."""
    cases = []
    for sampling in SAMPLINGS:
        for family, chain, coupling, problem in _falling(seed, quick, tuple(FAMILIES)):
            methods = (*_methods(coupling, quick), DISCOUNTED)
            cases.append(_Case(family, sampling, chain, problem, FIXED_DISCOUNT, methods))
        for chain, discount, problem in _to_one(seed, quick):
            cases.append(_Case(TO_ONE, sampling, chain, problem, discount, (DISCOUNTED,)))
    return [point for case in cases for point in _own_points(case)]


def _own_points(case: _Case) -> Iterator[ParityPoint]:
    setting, sampling, chain, problem, given, methods = case
    for method in methods:
        discount = given if method == DISCOUNTED else math.nan
        transitions, first = needed(method, problem, sampling, "weights", discount)
        guaranteed = _certified(method, problem, sampling, discount)
        yield ParityPoint(
            method, setting, sampling, chain, case.small, discount, transitions, first, guaranteed
        )


def collect_answer(seed: int, quick: bool) -> list[ParityPoint]:
    """Measure T(epsilon) of all methods for the bias, in the two settings."""
    found = []
    for sampling in SAMPLINGS:
        for family, chain, coupling, problem in _falling(seed, quick, ("slow chain",)):
            discount, small = discount_for(problem), problem.condition_numbers.eta1
            for method in (*_methods(coupling, quick), DISCOUNTED):
                own = discount if method == DISCOUNTED else math.nan
                transitions, first = needed(method, problem, sampling, "values for the bias", own)
                found.append(
                    ParityPoint(method, family, sampling, chain, small, own, transitions, first, math.nan)
                )
        found += _answers_to_one(seed, quick, sampling)
    return found


def _answers_to_one(seed: int, quick: bool, sampling: Sampling) -> Iterator[ParityPoint]:
    """Yield the points of a discount that tends to 1: average methods do not know it."""
    known: dict[tuple[int, str], tuple[float, float]] = {}
    for chain, discount, problem in _to_one(seed, quick):
        for method in _methods(FIRST_COUPLING, quick):
            if (chain, method) not in known:
                known[chain, method] = needed(method, problem, sampling, "values for the bias")
            yield ParityPoint(
                method, TO_ONE, sampling, chain, 1.0 - discount, math.nan, *known[chain, method], math.nan
            )
        reached = needed(DISCOUNTED, problem, sampling, "values", discount)
        yield ParityPoint(DISCOUNTED, TO_ONE, sampling, chain, 1.0 - discount, discount, *reached, math.nan)


def discount_for(problem: Problem) -> float:
    """Return the discount whose values, centred, miss the bias by a share of the wanted error.

    Examples
    --------
    >>> discount = discount_for(slow_problem(np.random.default_rng(0), 0.1))
    >>> 0.9 < discount < 1.0
    True
    """
    law, bias = problem.solution.stationary, problem.solution.bias

    def excess(power: float) -> float:
        away = discounted_values(problem.mrp, 1.0 - 10.0**power).remainder - bias
        return math.log(float(law @ away**2) / (SHARE_OF_DISCOUNT * WANTED_ERROR))

    return float(1.0 - 10.0 ** brentq(excess, -9.0, -0.05, xtol=1e-6))


def _chosen(points: list[ParityPoint], method: str, setting: str, sampling: Sampling) -> list[ParityPoint]:
    return [p for p in points if (p.method, p.setting, p.sampling) == (method, setting, sampling)]


def _power(points: list[ParityPoint], number: Callable[[ParityPoint], float]) -> Interval:
    return log_slope([1.0 / point.small for point in points], [number(point) for point in points])


def _steepest(
    points: list[ParityPoint], method: str, sampling: Sampling, number: Callable[[ParityPoint], float]
) -> tuple[str, Interval]:
    """Return the family in which the number grows fastest as eta1 falls, and its power."""
    powers = {}
    for family in FAMILIES:
        chosen = [p for p in _chosen(points, method, family, sampling) if math.isfinite(number(p))]
        if len(chosen) > 2:
            powers[family] = _power(chosen, number)
    return max(powers.items(), key=lambda item: item[1].estimate)


def judge_order(points: list[ParityPoint]) -> Judgement:
    """Compare the powers of double-chain and discounted TD, each in its own condition number, with 2."""
    family, double = _steepest(points, "double-chain", "iid", _without_log)
    to_one = _power(_chosen(points, DISCOUNTED, TO_ONE, "iid"), _without_log)
    parts = [
        at_most(f"double-chain, power of 1/eta1, {family}, iid", double, QUADRATIC),
        at_most(f"{DISCOUNTED}, power of 1/eta_discounted, {TO_ONE}, iid", to_one, QUADRATIC),
    ]
    parts += _other_powers(points)
    parts += _levels(points)
    fixed = next(part.value for part in parts if "discount fixed" in part.name and part.name.endswith("iid"))
    both = all(part.verdict == "holds" for part in parts[:2])
    reason = (
        f"For its own limit double-chain needs samples of order eta1^-{double.estimate:.2f}, discounted TD "
        f"of order eta_discounted^-{to_one.estimate:.2f}: {'both' if both else 'not both'} at most "
        f"quadratic. With the discount fixed, discounted TD grows as eta1^-{fixed:.2f}, but its answer is "
        "another one."
    )
    charts = (
        _chart(points, TO_ONE, "iid", "own limit, eta1 fixed", "1 / eta_discounted"),
        *(_chart(points, each, "iid", f"own limit, {each}", "1 / eta1") for each in FAMILIES),
    )
    return Judgement(tuple(parts), reason, charts, _counts(points))


def _other_powers(points: list[ParityPoint]) -> list[Part]:
    """Return the powers about which nothing is claimed, and those of the theorems."""
    parts = []
    for sampling in SAMPLINGS:
        for method in dict.fromkeys(point.method for point in points):
            measured = any((p.method, p.sampling) == (method, sampling) for p in points)
            if measured and (method, sampling) != ("double-chain", "iid"):
                family, power = _steepest(points, method, sampling, _without_log)
                fixed = f"discount fixed at {FIXED_DISCOUNT:g}, " if method == DISCOUNTED else ""
                parts.append(shown(f"{method}, power of 1/eta1, {family}, {fixed}{sampling}", power))
        if sampling == "markov":
            power = _power(_chosen(points, DISCOUNTED, TO_ONE, sampling), _without_log)
            parts.append(shown(f"{DISCOUNTED}, power of 1/eta_discounted, {TO_ONE}, {sampling}", power))
        family, power = _steepest(points, "double-chain", sampling, _guaranteed)
        parts.append(shown(f"by the theorem: double-chain, power of 1/eta1, {family}, {sampling}", power))
        power = _power(_chosen(points, DISCOUNTED, TO_ONE, sampling), _guaranteed)
        name = f"by the theorem: {DISCOUNTED}, power of 1/eta_discounted, {TO_ONE}, {sampling}"
        parts.append(shown(name, power))
    return parts


def _levels(points: list[ParityPoint]) -> list[Part]:
    """Return the samples that methods need at the hardest problem of each setting, measured and certified."""
    parts = []
    for setting in dict.fromkeys(point.setting for point in points):
        hardest = min(point.small for point in points if point.setting == setting)
        for method in dict.fromkeys(point.method for point in points):
            own = [p for p in _chosen(points, method, setting, "iid") if p.small < 2.0 * hardest]
            where = f"{setting}, hardest, iid"
            if own:
                parts.append(
                    shown(f"samples: {method}, {where}", median_and_range([p.transitions for p in own]))
                )
            if own and all(math.isfinite(p.certified) for p in own):
                name = f"samples by the theorem: {method}, {where}"
                parts.append(shown(name, median_and_range([p.certified for p in own])))
    return parts


def _without_log(point: ParityPoint) -> float:
    return point.without_log


def _guaranteed(point: ParityPoint) -> float:
    return point.certified_without_log


def judge_answer(points: list[ParityPoint]) -> Judgement:
    """Judge whether numbers of samples grow beside those of discounted TD."""
    parts: list[Part] = []
    for setting, what in (("slow chain", "1/eta1"), (TO_ONE, "1/(1 - discount)")):
        for sampling in SAMPLINGS:
            for method in _beside(points, setting, sampling):
                power = _ratio_power(points, method, setting, sampling)
                name = f"{method} / {DISCOUNTED}, power of {what}, {setting}, {sampling}"
                judged = method != "td-lambda"
                parts.append(at_most(name, power, NO_GROWTH) if judged else shown(name, power))
    grows = [
        part.name.split(",")[0] + part.name[part.name.rindex(",") :]
        for part in parts
        if part.verdict == "fails"
    ]
    reason = (
        "As eta1 falls, or the discount tends to 1, samples grow faster than those of discounted TD for the "
        f"same answer with: {'; '.join(dict.fromkeys(grows)) or 'none'}."
    )
    parts += _ratios(points)
    charts = tuple(
        _chart(points, setting, sampling, f"same answer, {setting}, {sampling}", x)
        for setting, x in (("slow chain", "1 / eta1"), (TO_ONE, "1 / (1 - discount)"))
        for sampling in SAMPLINGS
    )
    return Judgement(tuple(parts), reason, charts, _counts(points))


def _beside(points: list[ParityPoint], setting: str, sampling: Sampling) -> list[str]:
    """Return the methods that were measured beside discounted TD."""
    here = [p.method for p in points if (p.setting, p.sampling) == (setting, sampling)]
    return [method for method in dict.fromkeys(here) if method != DISCOUNTED]


def _pairs(
    points: list[ParityPoint], method: str, setting: str, sampling: Sampling
) -> list[tuple[ParityPoint, float]]:
    """Return each point of a method, and its number of samples divided by that of discounted TD."""
    beside = {(p.chain, p.small): p.transitions for p in _chosen(points, DISCOUNTED, setting, sampling)}
    own = _chosen(points, method, setting, sampling)
    return [(point, point.transitions / beside[point.chain, point.small]) for point in own]


def _ratio_power(points: list[ParityPoint], method: str, setting: str, sampling: Sampling) -> Interval:
    pairs = _pairs(points, method, setting, sampling)
    return log_slope([1.0 / point.small for point, _ in pairs], [ratio for _, ratio in pairs])


def _ratios(points: list[ParityPoint]) -> list[Part]:
    """Return the ratios themselves, over all problems of a setting."""
    return [
        shown(
            f"{method} / {DISCOUNTED}, samples, {setting}, {sampling}",
            median_and_range([ratio for _, ratio in _pairs(points, method, setting, sampling)]),
        )
        for setting in dict.fromkeys(point.setting for point in points)
        for sampling in SAMPLINGS
        for method in _beside(points, setting, sampling)
    ]


def _chart(points: list[ParityPoint], setting: str, sampling: Sampling, title: str, x: str) -> Chart:
    lines = []
    for method in dict.fromkeys(point.method for point in points):
        chosen = sorted(_chosen(points, method, setting, sampling), key=lambda point: -point.small)
        across = [1.0 / point.small for point in chosen]
        if chosen:
            lines.append(Line(method, across, [point.transitions for point in chosen]))
        if chosen and all(math.isfinite(point.certified) for point in chosen):
            name = f"{method}, by the theorem"
            lines.append(Line(name, across, [point.certified for point in chosen], reference=True))
    return Chart(title, x, f"transitions for an error of {WANTED_ERROR:g}", tuple(lines))


def _counts(points: list[ParityPoint]) -> dict[str, object]:
    falling = [point for point in points if point.setting == "slow chain"]
    left = [point.small for point in points if point.setting == TO_ONE]
    return {
        "chains": in_words(1 + max(point.chain for point in points), "chain"),
        "decades": in_words(round(math.log10(max(left) / min(left))), "decade"),
        "runs": f", for single-chain means over {RUNS_OF_SINGLE_CHAIN} runs over the first decade"
        if any(p.method == "single-chain" for p in falling)
        else "",
    }


PARITY_HOW = (
    "Transitions after which the error stays below 0.01, with the constant step that leaves half of it: "
    "exact curves on small chains over {decades}{runs}"
)
PARITY_INTERVAL = (
    "95 % interval of a straight line through the logarithms, over {chains}; of numbers of samples the range"
)

ORDER_CLAIM = Claim(
    id="parity",
    text="Double-chain needs as many samples as discounted TD in the sense of the theorems: at most of the "
    "order of eta^-2, each in its own condition number.",
    where="Title; abstract; introduction; comparison table, last two rows and note 8",
    how=PARITY_HOW
    + "; errors of weights against each method's own limit, divided by log(first error / 0.01).",
    interval=PARITY_INTERVAL,
    collect=collect_order,
    judge=judge_order,
    findings=("finding-36",),
    said={"at most 2.1": "at most 2"},
)

ANSWER_CLAIM = Claim(
    id="parity-answer",
    text="Double-chain and single-chain need no more samples than discounted TD, but for a constant factor, "
    "for the bias up to a constant at the same accuracy.",
    where='Title, and the abstract\'s "matching the efficiency", read as a statement about one answer',
    how=PARITY_HOW
    + "; errors of centred values under the stationary law. Discounted TD has the discount at which a "
    "quarter of the wanted error is its own, or, as the discount tends to 1, errors against its own limit.",
    interval=PARITY_INTERVAL,
    collect=collect_answer,
    judge=judge_answer,
    said={"at most 0.1": "at most 0"},
)
