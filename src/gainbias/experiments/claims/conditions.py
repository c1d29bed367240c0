"""How the three condition numbers compare, over random chains, and where a printed order fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, Part, at_most, shown
from gainbias.experiments.claims.measuring import random_chain, slow_problem
from gainbias.experiments.statistics import Interval, proportion_interval
from gainbias.features import Tabular, normalise_features
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess

EQUALITY_TOLERANCE = 1e-8
"""Numbers closer than this, relative to themselves, count as equal."""

FEW_EXCEPTIONS = 0.02
"""Inequalities are claimed for all chains. They hold, as far as random ones can tell, if the share of
violations is surely below this, and fail with the first violation."""


Sides = Callable[["Numbers"], tuple[float, float]]
"""The two sides of an inequality: what must be small, and what must be large."""


@dataclass(frozen=True)
class Numbers:
    """Condition numbers of one problem, whether it is tabular, and the factor of the paper's lemma."""

    eta1: float
    eta2: float
    eta2_literal: float
    eta3: float
    spans_ones: bool
    tabular: bool
    factor: float


def collect(seed: int, quick: bool) -> list[Numbers]:
    """Draw random chains; the first is the counterexample of the page of findings."""
    rng = np.random.default_rng(seed)
    swap = MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    problems = [Problem(swap, Tabular())]
    for k in range(30 if quick else 600):
        problems.append(_problem(rng, k))
    return [_numbers(problem) for problem in problems]


def _problem(rng: np.random.Generator, k: int) -> Problem:
    """Return a random problem: tabular, with or without constants in the span, fast or slow, in turns."""
    n = int(rng.integers(2, 9))
    if k % 5 == 4:
        return slow_problem(rng, 10.0 ** rng.uniform(-4, -1))
    chain = MarkovRewardProcess(random_chain(rng, n), rng.normal(size=n))
    if k % 5 == 3 or n == 2:
        return Problem(chain, Tabular())
    raw = rng.normal(size=(n, int(rng.integers(1, n))))
    if k % 2:
        raw[:, 0] = 1.0
    return Problem(chain, normalise_features(raw))


def _numbers(problem: Problem) -> Numbers:
    numbers, mu = problem.condition_numbers, problem.solution.stationary
    factor = float(mu.min() / (len(mu) * mu.max() * (mu @ mu)))
    return Numbers(
        numbers.eta1,
        numbers.eta2,
        numbers.eta2_literal,
        numbers.eta3,
        problem.ones_in_span,
        problem.features.kind == "tabular",
        factor,
    )


def judge(numbers: list[Numbers]) -> Judgement:
    """Judge each order of the condition numbers by how often it is violated."""
    tabular = [each for each in numbers if each.tabular]
    spanning = [each for each in numbers if each.spans_ones and np.isfinite(each.eta2)]
    outside = [each for each in numbers if not each.spans_ones]
    parts = (
        _violations("eta1 >= eta3 / 2", numbers, lambda each: (each.eta3 / 2.0, each.eta1)),
        _violations(
            "eta1 >= mu_min / (n mu_max |mu|^2) eta2, tabular",
            tabular,
            lambda each: (each.factor * each.eta2, each.eta1),
        ),
        _also("eta1 <= eta2, constants in the span", spanning, lambda each: (each.eta1, each.eta2)),
        _also("eta1 >= eta2, constants outside", outside, lambda each: (each.eta2, each.eta1)),
        _also("eta1 >= eta2 as printed", numbers, lambda each: (each.eta2_literal, each.eta1)),
        _also("eta1 >= eta3", numbers, lambda each: (each.eta3, each.eta1)),
    )
    first = numbers[0]
    reason = (
        f"eta1 >= eta3 / 2 {_says(parts[0])}. The lemma on eta2 {_says(parts[1])}: two states that swap "
        f"with probability 0.9 have eta1 = {first.eta1:.2g}, eta2 = {first.eta2:.2g}, eta3 = "
        f"{first.eta3:.2g} and the factor {first.factor:.2g}. Whether eta1 or the right eta2 is the larger "
        "depends on the span of the features."
    )
    return Judgement(parts, reason, (_chart(numbers),), {"problems": len(numbers) - 1})


def _violations(name: str, numbers: list[Numbers], sides: Sides) -> Part:
    share = _share(numbers, sides)
    part = at_most(f"share of violations: {name}", share, FEW_EXCEPTIONS)
    if share.estimate > 0.0:  # one counterexample is enough
        return replace(part, expected="none", verdict="fails")
    return replace(part, expected="none")


def _also(name: str, numbers: list[Numbers], sides: Sides) -> Part:
    return shown(f"share of violations: {name}", _share(numbers, sides))


def _share(numbers: list[Numbers], sides: Sides) -> Interval:
    pairs = [sides(each) for each in numbers]
    return proportion_interval(
        sum(small > large * (1.0 + EQUALITY_TOLERANCE) for small, large in pairs), len(pairs)
    )


def _says(part: Part) -> str:
    return {"holds": "is never violated", "fails": "is violated", "undecided": "was tried too seldom"}[
        part.verdict or "undecided"
    ]


def _chart(numbers: list[Numbers]) -> Chart:
    lines = []
    for name, spans in (("constants in the span", True), ("constants outside", False)):
        chosen = [each for each in numbers if each.spans_ones is spans and np.isfinite(each.eta2)]
        lines.append(Line(f"eta2, {name}", [each.eta1 for each in chosen], [each.eta2 for each in chosen]))
    lines.append(Line("eta3", [each.eta1 for each in numbers], [each.eta3 for each in numbers]))
    x = [min(each.eta1 for each in numbers), max(each.eta1 for each in numbers)]
    lines.append(Line("equal to eta1", x, x, reference=True))
    lines.append(Line("twice eta1", x, [2.0 * each for each in x], reference=True))
    return Chart("Random problems", "eta1", "eta2, eta3", tuple(lines))


CLAIM = Claim(
    id="condition-numbers",
    text="eta1 is at least eta3 / 2, and at least a multiple of eta2 that is not small if mu is not far "
    "from uniform.",
    where="Comparison table, note 2; appendix on condition numbers",
    how="Exact condition numbers of {problems} random problems: fast and slow chains, tabular features, "
    "features that span the constants and that do not; and the two states of finding 3.",
    interval="Clopper-Pearson interval of the share, 95 %",
    collect=collect,
    judge=judge,
    findings=("finding-2", "finding-3"),
)
