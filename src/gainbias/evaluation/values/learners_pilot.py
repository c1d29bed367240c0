"""What the first transitions say: how long features are, how many there are, and which steps fit them.

The automatic step sizes, for features divided by the length of the longest row, are

    alpha_t = 1/2 (1 + t / c)^(-0.6),    c = 30 d / (mean squared length of the rows)

with d the number of features seen: with one feature per state, the step sizes begin to fall when each state
has been visited thirty times, on average. So the first steps are large, and forget the first weights even
where states are seldom visited; the later ones are small. Averages of weights then have a bias which is
nearly proportional to the step sizes, so a second run with half the step sizes has half of it, and twice the
second less the first has next to none (Richardson-Romberg extrapolation; for constant steps see Huo, Chen
and Xie, "Bias and extrapolation in Markovian linear stochastic approximation with constant stepsizes", 2023).
A third run, with a quarter of the step sizes, shows whether that is so: twice the third less the second
should be the same. No horizon is needed. `benchmarks/automatic_step.py` compares with the best of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.schedules import Constant, Polynomial, Schedule
from gainbias.evaluation.stream.stream import Transitions

PILOT = 1_000
"""Transitions of each chain that are looked at before the first step."""

LEVEL = 0.5
"""The first step size."""

VISITS = 30
"""Mean visits of a feature before steps shrink."""

POWER = 0.6


def first_of_each(batches: Sequence[Transitions], count: int = PILOT) -> list[Transitions]:
    """Return the first transitions of each chain, one chain after the other, however the stream was cut."""
    found, seen = [], dict[int, int]()
    for batch in batches:
        left = count - seen.get(batch.chain, 0)
        if left > 0:
            found.append(batch.part(slice(left)))
            seen[batch.chain] = seen.get(batch.chain, 0) + len(found[-1])
    return sorted(found, key=lambda batch: batch.chain)


@dataclass(frozen=True, eq=False)
class Pilot:
    """What was seen in the first transitions.

    Attributes
    ----------
    longest : float
        Length of the longest row of features; 1 if no row has an entry.
    visits : float
        Transitions after which a feature has been visited once, on average.
    max_abs_reward, reward_range : float
    """

    longest: float
    visits: float
    max_abs_reward: float
    reward_range: float

    @classmethod
    def of(cls, batches: Sequence[Transitions], num_features: int) -> Pilot:
        """Look at some transitions."""
        rewards = np.concatenate([batch.rewards for batch in batches])
        largest, spread = float(np.abs(rewards).max()), float(np.ptp(rewards))
        if batches[0].rows is None:
            seen = len(np.unique(np.concatenate([batch.here for batch in batches])))
            return cls(1.0, float(seen), largest, spread)
        squares, seen_features = [], np.zeros(num_features, dtype=np.bool_)
        for batch in batches:
            rows: Any = batch.here_rows
            squares.append(np.asarray((rows * rows).sum(axis=1)))
            seen_features |= np.asarray(abs(rows).sum(axis=0)) > 0.0
        lengths = np.concatenate(squares)
        longest = float(lengths.max()) or 1.0
        visits = float(np.count_nonzero(seen_features)) * longest / (float(lengths.mean()) or 1.0)
        return cls(float(np.sqrt(longest)), max(visits, 1.0), largest, spread)


@dataclass(frozen=True, eq=False)
class StepSizes:
    """Step sizes of one or several runs, and how they are combined.

    Attributes
    ----------
    schedules : list of Schedule
    coefficients : list of float
        The answer is this combination of the runs.
    checks : list of lists of float
        Other combinations, that would be the same if steps were small enough.
    description : str
        The choice in words.
    """

    schedules: list[Schedule]
    coefficients: list[float]
    checks: list[list[float]]
    description: str


def automatic_steps(algorithm: Algorithm, pilot: Pilot, level: float = LEVEL) -> StepSizes:
    """Choose step sizes from what was seen; `level` is the first one.

    Examples
    --------
    >>> from gainbias.algorithms.registry import ALGORITHMS
    >>> steps = automatic_steps(ALGORITHMS["single-chain"], Pilot(1.0, 20.0, 1.0, 1.0))
    >>> steps.description
    'found from the data: 0.5 / (1 + t / 600)^0.6, and half of that in a second run; the answer is ...'
    """
    if algorithm.step_free:
        return StepSizes([Constant(1.0)], [1.0], [], f"{algorithm.name} has no step sizes")
    if algorithm.constant_step is not None:
        steps = f"{algorithm.constant_step:g}, the constant that {algorithm.name} is meant for"
        return StepSizes([Constant(algorithm.constant_step)], [1.0], [], steps)
    begin = VISITS * pilot.visits
    schedules: list[Schedule] = [
        Polynomial(share * level * begin**POWER, begin, POWER) for share in (1.0, 0.5, 0.25)
    ]
    words = (
        f"found from the data: {level:g} / (1 + t / {begin:.0f})^{POWER:g}, and half of that in a second "
        "run; the answer is twice the second less the first"
    )
    return StepSizes(schedules, [-1.0, 2.0, 0.0], [[0.0, -1.0, 2.0]], words)
