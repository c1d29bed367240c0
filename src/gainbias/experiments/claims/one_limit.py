"""Whether all runs of an algorithm end in one point, whatever the sample path and the first weights.

Runs with many seeds from several first weights are compared after T and after 16 T steps. If there is one
limit, their spread falls like the root of the error, to a quarter; if there is not, it stays. The rule: it
goes to one point if the spread falls below a half, and not if it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.run import run
from gainbias.engine.schedules import Constant, Harmonic
from gainbias.experiments.claims.claim import (
    Chart,
    Claim,
    Judgement,
    Line,
    Part,
    at_least,
    at_most,
    in_words,
    shown,
)
from gainbias.experiments.claims.measuring import random_chain
from gainbias.experiments.statistics import Interval
from gainbias.features import Tabular, normalise_features
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats

LONGER = 16
TURN = 0.5
RESAMPLES = 500
NEGLIGIBLE_DISTANCE = 1e-9

INSIDE, OUTSIDE = "constants in the span", "constants outside"

ONE_POINT: dict[tuple[str, str], bool] = {
    ("double-chain", INSIDE): True,
    ("double-chain", OUTSIDE): True,
    ("single-chain", INSIDE): True,
    ("single-chain", OUTSIDE): True,
    ("td-lambda", INSIDE): False,
    ("td-lambda", OUTSIDE): True,
    ("almost-sure-td", INSIDE): False,
    ("projected-td", INSIDE): True,
    ("projected-td", OUTSIDE): True,
    ("implicit-td", INSIDE): False,
    ("vrtd", OUTSIDE): True,
}
"""What the paper says: its own claim, and its table, column "Converges to a sample independent point"."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Weights of all runs of an algorithm, after T and 16 T steps: (first weights, seeds, 2, d)."""

    algorithm: str
    features: str
    weights: Floats
    num_steps: int
    """The T of the first time."""


def collect(seed: int, quick: bool) -> list[Ends]:
    """Return the last weights of runs of all algorithms, from several first weights."""
    seeds, steps = (8, 2_000) if quick else (24, 10_000)
    rng = np.random.default_rng(seed)
    mrp = MarkovRewardProcess(random_chain(rng, 5), rng.uniform(0.0, 2.0, 5))
    inside, outside = Problem(mrp, np.eye(5)), Problem(mrp, normalise_features(rng.normal(size=(5, 3))))
    names = ("double-chain", "single-chain", "td-lambda", "differential-td") if quick else tuple(ALGORITHMS)
    found = []
    for name in names:
        algorithm = ALGORITHMS[name]
        for label, problem in ((INSIDE, inside), (OUTSIDE, outside)):
            if algorithm.declared.tabular_only:
                if label == OUTSIDE:
                    continue
                problem = Problem(mrp, Tabular())
            found.append(Ends(name, label, _ends(algorithm, problem, seeds, steps), steps))
    return found


def _ends(algorithm: Algorithm, problem: Problem, seeds: int, steps: int) -> Floats:
    d = problem.num_features
    starts = (np.zeros(d), np.full(d, 2.0), np.linspace(-2.0, 2.0, d))
    return np.stack(
        [
            run(
                algorithm,
                problem,
                LONGER * steps,
                _schedule(algorithm, problem),
                seeds=range(seeds),
                checkpoints=[steps, LONGER * steps],
                initial_weights=start,
            ).weights
            for start in starts
        ]
    )


def _schedule(algorithm: Algorithm, problem: Problem) -> Harmonic | Constant | None:
    """Return steps a / (t + 4a) with a = 2 / the slowest rate of the mean field, if it has such steps."""
    if algorithm.declared.step_free:
        return None
    if algorithm.declared.constant_step is not None:
        return Constant(algorithm.declared.constant_step)
    assert algorithm.declared.mean_field is not None
    rates = np.linalg.eigvals(algorithm.declared.mean_field(problem, algorithm.params()).matrix).real
    a = 2.0 / float(rates[rates > NEGLIGIBLE_DISTANCE].min())
    return Harmonic(a, 4.0 * a)


def judge(found: list[Ends]) -> Judgement:
    """Judge for each algorithm whether the spread of its runs falls below a half."""
    parts = []
    for ends in found:
        name = f"{ends.algorithm}, {ends.features}"
        ratio = spread_ratio(ends.weights)
        parts.append(
            _part(
                f"spread after 16 T / after T: {name}", ratio, ONE_POINT.get((ends.algorithm, ends.features))
            )
        )
        if ratio.low > TURN:
            seeds_alone = spread_ratio(ends.weights - ends.weights.mean(axis=1, keepdims=True))
            parts.append(shown(f"the same, from one start: {name}", seeds_alone))
    several = sorted({part.name.split(": ")[1] for part in parts if part.low > TURN and "16 T" in part.name})
    wrong = [part.name for part in parts if part.verdict == "fails"]
    reason = f"Runs do not end in one point with: {'; '.join(several) or 'none'}. All others do."
    if wrong:
        reason += f" Against the paper: {'; '.join(wrong)}."
    charts = tuple(_chart(found, features) for features in (INSIDE, OUTSIDE))
    return Judgement(tuple(parts), reason, charts, _counts(found))


def _counts(found: list[Ends]) -> dict[str, object]:
    starts, seeds = found[0].weights.shape[:2]
    names = {ends.algorithm for ends in found}
    told = "every algorithm" if names == set(ALGORITHMS) else in_words(len(names), "algorithm")
    return {"seeds": seeds, "starts": starts, "algorithms": told, "T": found[0].num_steps}


def _chart(found: list[Ends], features: str) -> Chart:
    lines = tuple(
        Line(ends.algorithm, [1.0, float(LONGER)], [_spread(ends.weights[:, :, k]) for k in (0, 1)])
        for ends in found
        if ends.features == features
    )
    return Chart(f"Distance between runs, {features}", "steps / T", "root mean squared spread", lines)


def _part(name: str, ratio: Interval, one_point: bool | None) -> Part:
    if one_point is None:
        return shown(name, ratio)
    return at_most(name, ratio, TURN) if one_point else at_least(name, ratio, TURN)


def _spread(weights: Floats) -> float:
    """Return the root mean squared distance of runs, (first weights, seeds, d), from their common mean."""
    flat = weights.reshape(-1, weights.shape[-1])
    return float(np.sqrt(((flat - flat.mean(axis=0)) ** 2).sum(axis=1).mean()))


def spread_ratio(weights: Floats) -> Interval:
    """Return the spread at the second time over that at the first, with a bootstrap interval over seeds."""

    def ratio(chosen: Floats) -> float:
        first, last = _spread(chosen[:, :, 0]), _spread(chosen[:, :, 1])
        return last / first if first > 0.0 else 0.0

    rng, seeds = np.random.default_rng(0), weights.shape[1]
    drawn = [ratio(weights[:, rng.integers(seeds, size=seeds)]) for _ in range(RESAMPLES)]
    return Interval(ratio(weights), *(float(end) for end in np.quantile(drawn, [0.025, 0.975])))


CLAIM = Claim(
    id="one-limit",
    text="Double-chain and single-chain converge to one point that depends neither on the sample path nor "
    "on the first weights; so do some of the earlier methods.",
    where='Introduction, first item; comparison table, column "Converges to a sample independent point"',
    how="{seeds} seeds from {starts} first weights on a random chain of 5 states, for {algorithms}; "
    "T = {T:,}, steps a / (t + 4a) with a = 2 / the slowest rate of the mean field, for all that "
    "have such steps.",
    interval="95 % bootstrap interval over seeds",
    collect=collect,
    judge=judge,
    findings=("finding-10",),
    said={"at most 0.5": "one limit, so about 0.25", "at least 0.5": "several limits, so about 1"},
)
