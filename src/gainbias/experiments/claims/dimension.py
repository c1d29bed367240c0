"""Whether the error depends on the number of features by itself.

Features are turned and scaled so that *every* direction has the condition number eta1 = 0.001: the hardest
case for each dimension. The length of theta* is 1, and the gain is chosen so that the noise at theta* has
the same mean square. Then only d changes, from 5 to 200.

The second claim is about projected TD, whose authors' bound has the number of features in it; this is the
only method of the paper's comparison of which it says so. Features are turned and scaled alike for its own
mean update. Its noise cannot be chosen by the gain, so errors are divided by the mean square of a step at its
limit. The rule, written before the first run: the claim that the error depends on d by itself holds if the
interval of the power of d is above 0.1, and fails if it is below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.algorithms.fields import paper_field, td_field
from gainbias.experiments.claims.claim import (
    Chart,
    Claim,
    Judgement,
    Line,
    at_least,
    at_most,
    figures,
    in_words,
    shown,
)
from gainbias.experiments.claims.measuring import log_slope, median_and_range, random_chain, rewarding
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.curve.curve import exact_curve
from gainbias.types import Floats

ETA = 1e-3
NOISE = 0.01
"""Mean square of a step at theta*, divided by the step size."""

DIMENSION_STEP_SIZE = 0.01
HORIZON = 3.0
"""Errors are read after this many times 1 / (step size eta1), when the first error has mostly gone."""

PROJECTED_HORIZON = 10.0
"""The same for projected TD, whose noise is smaller: nothing of the first error must be left."""

DIMENSION_MARGIN = 0.1
"""There is no dependence if the interval of the power of d ends below this."""


@dataclass(frozen=True)
class DimensionPoint:
    """Errors for one number of features, with the same noise and with the same gain; the longest row."""

    num_features: int
    error: float
    error_same_gain: float
    longest_row: float


def collect(seed: int, quick: bool) -> list[DimensionPoint]:
    """Return the errors of double-chain for several numbers of features."""
    sizes = (5, 10, 20) if quick else (5, 10, 20, 50, 100, 200)
    return [_point(seed, d, chain) for d in sizes for chain in range(1 if quick else 2)]


def _point(seed: int, d: int, chain: int) -> DimensionPoint:
    same_noise, same_gain = even_problems(np.random.default_rng([seed, d, chain]), d)
    rows = np.linalg.norm(same_noise.features.combine(np.eye(d)), axis=1)
    return DimensionPoint(d, _error(same_noise), _error(same_gain), float(rows.max()))


def _error(problem: Problem) -> float:
    steps = int(HORIZON / (DIMENSION_STEP_SIZE * ETA))
    curve = exact_curve(
        "double-chain", problem, steps, DIMENSION_STEP_SIZE, sampling="iid", checkpoints=[steps]
    )
    return float(curve.mean_squared_error[-1])


def even_problems(rng: np.random.Generator, d: int) -> tuple[Problem, Problem]:
    """Return two problems in which all d directions are equally slow: with noise `NOISE`, with gain 1."""
    transitions = random_chain(rng, 2 * d)
    raw = rng.normal(size=(2 * d, d))
    field = paper_field(Problem(rewarding(transitions, np.zeros(2 * d), 0.0), raw)).matrix
    values, vectors = np.linalg.eigh(0.5 * (field + field.T))
    features = raw @ (vectors * np.sqrt(ETA / values))
    weights = rng.normal(size=d)
    weights /= np.linalg.norm(weights)

    def with_gain(gain: float) -> Problem:
        return Problem(_with_fixed_point(transitions, features, weights, gain), features)

    # The noise is a polynomial of degree 2 in the gain: three values tell which.
    low, middle, high = (mean_square(with_gain(gain), weights) for gain in (-1.0, 0.0, 1.0))
    roots = np.roots([0.5 * (high + low) - middle, 0.5 * (high - low), middle - NOISE])
    return with_gain(float(roots.max())), with_gain(1.0)


def _with_fixed_point(
    transitions: Floats, features: Floats, weights: Floats, gain: float
) -> MarkovRewardProcess:
    """Return the process whose fixed point is these weights: its rewards solve the projected equation."""
    process = rewarding(transitions, np.zeros(len(transitions)), gain)
    problem = Problem(process, features)
    mu = problem.solution.stationary
    wanted = paper_field(problem).matrix @ weights  # = Phi^T D (R - g e)
    tests = np.column_stack([features, np.ones(len(mu))]) * mu[:, None]
    rewards = np.linalg.lstsq(tests.T, np.append(wanted, 0.0), rcond=None)[0]
    return MarkovRewardProcess(transitions, gain + rewards)


def mean_square(problem: Problem, weights: Floats) -> float:
    """Return the mean square of the update of double-chain at these weights, for independent samples."""
    mu, transitions = problem.solution.stationary, problem.mrp.csr.toarray()
    features = problem.features.combine(np.eye(problem.num_features))
    value, lengths = features @ weights, (features**2).sum(axis=1)
    rewards = problem.mrp.rewards
    deltas = rewards[:, None] + value[None, :] - value[:, None]
    square = mu @ ((transitions * deltas**2).sum(axis=1) * lengths)
    other = (mu @ (rewards + value) ** 2) * (mu @ lengths)
    pull = (mu * (transitions * deltas).sum(axis=1) * (rewards + value)) @ features
    return float(square + other - 2.0 * pull @ (mu @ features))


def judge(points: list[DimensionPoint]) -> Judgement:
    """Judge whether the error grows with a power of the number of features."""
    d = [float(point.num_features) for point in points]
    same_noise, same_gain = [p.error for p in points], [p.error_same_gain for p in points]
    slope, grows = log_slope(d, same_noise), log_slope(d, same_gain)
    parts = (
        at_most("power of d in the error, same noise", slope, DIMENSION_MARGIN),
        shown("error, same noise", median_and_range(same_noise)),
        shown("power of d in the error, same gain instead", grows),
        shown("longest feature row", median_and_range([point.longest_row for point in points]), "at most 1"),
    )
    free, other = parts[0].verdict == "holds", figures(*grows)
    reason = (
        f"From {min(d):g} to {max(d):g} features the error {'does not grow' if free else 'changes'}: power "
        f"{figures(*slope)[0]}. But d is hidden in eta1: rows must have lengths of sqrt(d eta1 / 2) at "
        "least, and the noise grows with their squares (with the gain held fixed, power "
        f"{other[0]}, {other[1]} to {other[2]})."
    )
    lines = (Line("same noise", d, same_noise), Line("same gain", d, same_gain))
    counts = {"chains": in_words(d.count(d[0]), "chain")}
    chart = Chart("One eta1", "features d", "mean squared error", lines)
    return Judgement(parts, reason, (chart,), counts)


CLAIM = Claim(
    id="dimension",
    text="The error of double-chain has no explicit dependence on the number of features.",
    where='Abstract; comparison table, column "Scaling with d"; its note 3',
    how="Exact curves, independent samples, constant step 0.01, T = 300,000, on random chains of 2d states "
    "with every direction at eta1 = 0.001, |theta*| = 1 and the same noise; slope of log error on log d.",
    interval="95 % interval of the slope of a straight line, {chains} for each d; for other figures the "
    "range",
    collect=collect,
    judge=judge,
    findings=("finding-37",),
    said={"at most 0.1": "at most 0"},
)


@dataclass(frozen=True)
class ProjectedPoint:
    """The error of projected TD for one number of features, and the mean square of a step at its limit."""

    num_features: int
    error: float
    noise: float


def collect_projected(seed: int, quick: bool) -> list[ProjectedPoint]:
    """Return the errors of projected TD for several numbers of features."""
    sizes = (5, 10, 20) if quick else (5, 10, 20, 50, 100)
    return [_projected_point(seed, d, chain) for d in sizes for chain in range(1 if quick else 2)]


def _projected_point(seed: int, d: int, chain: int) -> ProjectedPoint:
    problem = even_for_projected(np.random.default_rng([seed, d, chain]), d)
    steps = int(PROJECTED_HORIZON / (DIMENSION_STEP_SIZE * ETA))
    curve = exact_curve(
        "projected-td", problem, steps, DIMENSION_STEP_SIZE, sampling="iid", checkpoints=[steps]
    )
    return ProjectedPoint(d, float(curve.mean_squared_error[-1]), projected_noise(problem, curve.limit))


def even_for_projected(rng: np.random.Generator, d: int) -> Problem:
    """Return a problem in which all d directions are equally slow for projected TD, with |theta*| = 1."""
    transitions = random_chain(rng, 2 * d)
    raw = rng.normal(size=(2 * d, d))
    field = td_field(Problem(rewarding(transitions, np.zeros(2 * d), 0.0), raw)).matrix
    values, vectors = np.linalg.eigh(0.5 * (field + field.T))
    features = raw @ (vectors * np.sqrt(ETA / values))
    weights = rng.normal(size=d)
    weights /= np.linalg.norm(weights)
    return Problem(rewarding(transitions, features @ weights, 1.0), features)


def projected_noise(problem: Problem, weights: Floats) -> float:
    """Return the mean square of the update of projected TD at these weights, with the gain known."""
    transitions = problem.mrp.csr.toarray()
    features = problem.features.combine(np.eye(problem.num_features))
    value, centred = features @ weights, problem.mrp.rewards - problem.solution.gain_per_step
    deltas = centred[:, None] + value[None, :] - value[:, None]
    return float(
        problem.solution.stationary @ ((transitions * deltas**2).sum(axis=1) * (features**2).sum(axis=1))
    )


def judge_projected(points: list[ProjectedPoint]) -> Judgement:
    """Judge whether the error over the noise grows with a power of the number of features."""
    d = [float(point.num_features) for point in points]
    ratios = [point.error / point.noise for point in points]
    slope = log_slope(d, ratios)
    noise = log_slope(d, [point.noise for point in points])
    parts = (
        at_least("power of d in error / noise", slope, DIMENSION_MARGIN),
        shown("power of d in the noise itself", noise),
    )
    grows = parts[0].verdict == "holds"
    reason = (
        f"From {min(d):g} to {max(d):g} features error / noise {'grows' if grows else 'does not grow'}: "
        f"power {slope.estimate:.3f}. The factor d is {'seen' if grows else 'one of the proof'}."
    )
    chart = Chart("Projected TD", "features d", "error / noise", (Line("projected-td", d, ratios),))
    return Judgement(parts, reason, (chart,), {"chains": in_words(d.count(d[0]), "chain")})


PROJECTED_CLAIM = Claim(
    id="dimension-projected",
    text="The error of projected TD depends on the number of features by itself, as the analysis of its "
    "authors has it.",
    where='Introduction; comparison table, column "Scaling with d", and its note 4',
    how="Exact curves, independent samples, constant step 0.01, T = 1,000,000, on random chains of 2d states "
    "with every direction at 0.001 and |theta*| = 1; slope of log(error / noise) on log d.",
    interval="95 % interval of the slope of a straight line, {chains} for each d",
    collect=collect_projected,
    judge=judge_projected,
    said={"at least 0.1": "above 0"},
)
