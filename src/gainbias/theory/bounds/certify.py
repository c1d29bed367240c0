"""Step sizes and numbers of steps that a theorem certifies for a wanted error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Constant
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.bounds.bound import Theorems, find_theorems
from gainbias.theory.bounds.record import OFFSET, Bound, Decay
from gainbias.types import Floats

FINENESS = 2.0 ** (-1 / 8)
"""Ratio of successive step sizes that are tried: the best number of steps is missed by less than 1%."""

SMALLEST_STEP_SIZE = 1e-300
"""The search ends with an error at smaller step sizes."""

MOST_CERTIFIED_STEPS = 2**200
"""Number of steps that stands for unlimited steps."""

MOST_TRIES = 16
"""The search for a step size ends when this many smaller ones in a row have not needed fewer steps."""


class CertifiedSteps(NamedTuple):
    """A step size and a number of steps for which a theorem guarantees the wanted error.

    Attributes
    ----------
    step_size : Constant
        The step size.
    num_steps : int
        The fewest steps with this step size.
    bound : Bound
        The guarantee: ``bound.certified`` and ``bound.value <= epsilon``. It is so for all larger numbers of
        steps, too. Whether that says something is ``bound.informative``.
    """

    step_size: Constant
    num_steps: int
    bound: Bound


def certified(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    epsilon: float,
    sampling: Sampling = "markov",
    *,
    initial_weights: Floats | None = None,
    **params: float,
) -> CertifiedSteps:
    """Return a constant step size and the fewest steps with which a theorem guarantees the wanted error.

    Parameters
    ----------
    algorithm, problem, sampling, initial_weights, **params
        As in `bound`.
    epsilon : float
        Wanted expected squared distance from the fixed point (``bound.quantity``), not its root.

    Returns
    -------
    CertifiedSteps
        The tuple ``(step_size, num_steps, bound)``. The number of steps is within about 1% of the fewest that
        any constant step size needs.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> step_size, num_steps, bound = certified("double-chain", problem, 0.01, "iid")
    >>> bound.certified, bound.value <= 0.01
    (True, True)
    """
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, found {epsilon!r}")
    theorems = find_theorems(algorithm, problem, sampling, initial_weights, params=params)
    constant, alpha = _constant(theorems, algorithm)
    if violated := constant(alpha, MOST_CERTIFIED_STEPS).violated:
        raise ValueError(f"no step size is certified here: {'; '.join(each.remedy for each in violated)}")
    best: CertifiedSteps | None = None
    tries = 0
    while best is None or tries < MOST_TRIES:
        unlimited = constant(alpha, MOST_CERTIFIED_STEPS)
        limit = unlimited.theorem_value  # the error that even unlimited steps leave
        if unlimited.value <= epsilon:
            steps = _fewest_steps(partial(constant, alpha), epsilon)
            tries += 1
            if best is None or steps < best.num_steps:
                best, tries = CertifiedSteps(Constant(alpha), steps, constant(alpha, steps)), 0
        alpha *= epsilon / limit if limit > 2.0 * epsilon else FINENESS
        if alpha < SMALLEST_STEP_SIZE:
            raise ValueError(f"epsilon = {epsilon:g} needs steps that are too small for double precision")
    return best


def largest_step_size(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    sampling: Sampling = "markov",
    *,
    initial_weights: Floats | None = None,
    **params: float,
) -> float:
    """Return the largest constant step size that the theorem of an algorithm allows.

    It is infinite where nothing ever moves. The parameters are those of `bound`.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> round(18 * largest_step_size("double-chain", problem, "iid"), 6)
    0.7
    """
    theorems = find_theorems(algorithm, problem, sampling, initial_weights, params=params)
    if theorems.largest_step is None:
        raise ValueError(f"{algorithm} has no constant step size")
    return theorems.largest_step()


def certified_offset(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    num_steps: int,
    a: float,
    xi: float = 1.0,
    **params: float,
) -> float:
    """Return an offset c0 for which the steps a / (t + c0)^xi meet a theorem, nearly the least.

    The paper says "sufficiently large". Only conditions that depend on c0 count: the bound may still need
    more steps, or another a. The mixing time depends on the last step and so on c0, hence the search.

    Parameters
    ----------
    algorithm, problem, **params
        As in `bound`, with Markov sampling and first weights of zero.
    num_steps : int
        The number of steps T.
    a, xi : float
        The other numbers of the schedule.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> c0 = certified_offset("double-chain", problem, 10**9, a=3.0)
    >>> gb.bound("double-chain", problem, step_size=gb.Harmonic(3.0, c0), num_steps=10**9).certified
    True
    >>> gb.bound("double-chain", problem, step_size=gb.Harmonic(3.0, 0.99 * c0), num_steps=10**9).certified
    False
    """
    theorems = find_theorems(algorithm, problem, "markov", params=params)
    decaying = theorems.decaying
    if decaying is None:
        raise ValueError(f"no theorem about {algorithm} covers decaying step sizes")

    def enough(c0: float) -> bool:
        violated = decaying(Decay(a, c0, xi), num_steps).violated
        return all(condition.name != OFFSET for condition in violated)

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            raise ValueError(f"no offset certifies steps {a:g} / (t + c0)^{xi:g}")
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _constant(theorems: Theorems, algorithm: Algorithm | str) -> tuple[Callable[[float, int], Bound], float]:
    if theorems.constant is None or theorems.largest_step is None:
        raise ValueError(f"no theorem about {algorithm} covers constant step sizes")
    return theorems.constant, min(theorems.largest_step(), 1.0)


def _fewest_steps(bound: Callable[[int], Bound], epsilon: float) -> int:
    """Return the first number of steps whose bound is at most epsilon, which it is in the end."""

    def enough(steps: int) -> bool:
        return bound(steps).value <= epsilon  # never, if it is not a number

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
