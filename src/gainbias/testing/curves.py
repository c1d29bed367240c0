"""Learning curves that several checks read: many seeds, and step sizes for the best rate."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gainbias.engine.paths import Sampling
from gainbias.engine.run import run
from gainbias.engine.schedules import Constant, Harmonic
from gainbias.features.rows import Floats
from gainbias.testing.cases import Case
from gainbias.testing.drive import first_weights
from gainbias.testing.fields import mean_sample
from gainbias.testing.report import Skip

STEPS = 10_000
SEEDS = 64
CHECKPOINTS = np.unique(np.geomspace(STEPS // 50, STEPS, 16).astype(int))


@dataclass(frozen=True, eq=False)
class Curves:
    """Errors of many runs.

    Attributes
    ----------
    missed : (seeds, checkpoints, d) array
        Weights minus the limit.
    gain_missed : (seeds, checkpoints) array
        Estimates of the gain minus the gain.
    clock : (checkpoints,) array
        Number of steps, plus the c0 of the step sizes.
    """

    missed: Floats
    gain_missed: Floats
    clock: Floats


@lru_cache(maxsize=8)
def curves(case: Case, sampling: Sampling = "markov", along: float = 0.0) -> Curves:
    """Run many seeds, from first weights moved by so much along the weights of the constant 1."""
    problem, algorithm = case.problem, case.algorithm
    assert algorithm.limit is not None
    first = first_weights(problem)
    if problem.ones_weights is not None:
        first = first + along * problem.ones_weights
    schedule = _schedule(case)
    trace = run(
        algorithm,
        problem,
        STEPS,
        schedule,
        seeds=range(SEEDS),
        params=case.params._asdict(),
        sampling=sampling,
        checkpoints=CHECKPOINTS.tolist(),
        initial_weights=first,
        threads=1,
    )
    limit = algorithm.limit(problem, case.params, first)
    assert limit is not None
    begun = schedule.c0 if isinstance(schedule, Harmonic) else 0.0
    return Curves(trace.weights - limit, trace.gain - problem.solution.gain, trace.steps + begun)


def _schedule(case: Case) -> Harmonic | Constant:
    """Return steps a / (t + c0) with a large enough for the slowest rate of return of the mean field."""
    if case.algorithm.constant_step is not None:
        return Constant(case.algorithm.constant_step)
    slowest = slowest_rate(case)
    return Harmonic(2.0 / slowest, 4.0 / slowest)


def slowest_rate(case: Case) -> float:
    """Return the rate of return of the mean field, also of other fields that a step is affine in."""
    matrices = []
    if case.algorithm.mean_field is not None:
        matrices.append(case.algorithm.mean_field(case.problem, case.params).matrix)
    with suppress(Skip):
        matrices.append(mean_sample(case)[0])
    rates = np.concatenate([np.linalg.eigvals(matrix).real for matrix in matrices] or [np.array([0.2])])
    return float(rates[rates > 1e-9].min())
