"""Where double-chain lands if both of its samples come from one chain.

The second sample must be independent of the first: a mean of products is not a product of means. With the
same state in both places rewards cancel, and the weights go to 0 whatever the rewards; with the next state
of the chain in the second place they go elsewhere. Exact curves along the chain show both, beside a second
chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, NoParams, Sample
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, TenthOfSpread, about, within
from gainbias.experiments.claims.measuring import SampleField, double_chain_field, mean_update, random_chain
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.curve.curve import exact_curve
from gainbias.types import Floats

LIMIT_MARGIN = 0.02
"""Distances are relative to |theta*|; a limit is the predicted one if they agree up to this."""

TWO, SAME, NEXT = "second chain", "same state twice", "next state as second sample"


@dataclass(frozen=True)
class LimitDistance:
    """Where a version goes: distances from theta*, relative to its length, and the predicted one."""

    version: str
    steps: list[int]
    mean_distance: list[float]
    error: list[float]
    """Root mean squared distance."""
    spread: float
    """Root mean squared distance of a run from the mean of all, at the end."""
    predicted: float
    small: float
    """The step size, in units of eta1."""


def collect(seed: int, quick: bool) -> list[LimitDistance]:
    """Return where double-chain and two versions with one chain end."""
    rng = np.random.default_rng(seed)
    mrp = MarkovRewardProcess(random_chain(rng, 3), rng.uniform(0.0, 2.0, 3))
    problem = Problem(mrp, _features(rng))
    small = 0.1 if quick else 0.01
    return [_landing(name, version, problem, small) for name, version in versions().items()]


def _features(rng: np.random.Generator) -> Floats:
    raw = rng.normal(size=(3, 2))
    return np.asarray(raw / np.linalg.norm(raw, axis=1).max())


def versions() -> dict[str, Algorithm]:
    """Return double-chain and two versions with one chain."""
    two = ALGORITHMS["double-chain"]

    def with_one_chain(name: str, place: str) -> Algorithm:
        declared = replace(two.declared, sample_field=_with(place), limit=None, mean_field=None)
        return replace(two, name=name, chains=1, declared=declared)

    return {TWO: two, SAME: with_one_chain(SAME, "here"), NEXT: with_one_chain(NEXT, "after")}


def _with(place: str) -> SampleField:
    """Return the step with a row of the first chain where that of the second belongs."""
    right = double_chain_field()

    def field(sample: Sample, params: NoParams, step_size: float) -> tuple[Floats, Floats] | None:
        return right(sample._replace(other=getattr(sample, place)), params, step_size)

    return field


def _landing(name: str, version: Algorithm, problem: Problem, small: float) -> LimitDistance:
    assert version.declared.sample_field is not None
    predicted = np.linalg.solve(*mean_update(version.declared.sample_field, problem))
    eta = problem.condition_numbers.eta1
    step_size = small * eta
    curve = exact_curve(version, problem, int(20.0 / (step_size * eta)), step_size, checkpoints=40)
    true = problem.fixed_point
    size = float(np.linalg.norm(true))
    mean = np.linalg.norm(curve.mean_weights - true, axis=1)
    error = curve.errors(target="paper", space="weights")
    return LimitDistance(
        name,
        curve.steps.tolist(),
        (mean / size).tolist(),
        (error / size).tolist(),
        float(np.sqrt(max(error[-1] ** 2 - mean[-1] ** 2, 0.0)) / size),
        float(np.linalg.norm(predicted - true) / size),
        small,
    )


def judge(landings: list[LimitDistance]) -> Judgement:
    """Compare distances from theta* with predictions; a wrong version must be away from it."""
    parts = []
    for landing in landings:
        end = landing.mean_distance[-1]
        found = TenthOfSpread(end, max(end - landing.spread / 10, 0.0), end + landing.spread / 10)
        name = f"distance from theta* / |theta*|: {landing.version}"
        part = about(name, found, round(landing.predicted, 9), LIMIT_MARGIN)
        if landing.version != TWO and within(found.low, found.high, 2.0 * LIMIT_MARGIN, np.inf) != "holds":
            part = replace(part, expected=f"above {2 * LIMIT_MARGIN:g}", verdict="fails")
        parts.append(part)
    told = "; ".join(
        f"{each.version}: {each.mean_distance[-1]:.3f} (predicted {each.predicted:.3f})" for each in landings
    )
    reason = f"Distances of the mean weights from theta*, in units of its length: {told}."
    lines = tuple(Line(each.version, [float(t) for t in each.steps], each.error) for each in landings)
    predictions = tuple(
        Line(f"limit, {each.version}", [1.0, float(each.steps[-1])], [each.predicted] * 2, reference=True)
        for each in landings
        if each.predicted > LIMIT_MARGIN
    )
    chart = Chart(
        "One chain used twice", "steps", "root mean squared distance / |theta*|", lines + predictions
    )
    return Judgement(tuple(parts), reason, (chart,), {"step": landings[0].small})


CLAIM = Claim(
    id="double-sampling",
    text="The two samples of double-chain must be independent: one chain used twice leads elsewhere.",
    where='Double-Chain Algorithm: Motivation and Derivation ("double sampling issue")',
    how="Exact curves along a random chain of 3 states with 2 features, constant steps of {step:g} eta1; "
    "predicted limits from the mean of all moves.",
    interval="a tenth of the root mean squared spread of a run around the mean: the error of a mean over "
    "100 runs",
    collect=collect,
    judge=judge,
)
