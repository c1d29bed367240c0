"""Step sizes and numbers of steps that a theorem certifies for a wanted error."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from gainbias.engine.schedules import Schedule
from gainbias.model.problem import Problem
from gainbias.theory.bounds.record import Bound


class Certified(NamedTuple):
    """A step size and a number of steps for which a theorem guarantees the wanted error.

    Attributes
    ----------
    step_size : Schedule
        `Constant`.
    num_steps : int
        The fewest steps, to about one in a million.
    bound : Bound
        The guarantee: ``bound.certified`` and ``bound.value <= epsilon``.
    """

    step_size: Schedule
    num_steps: int
    bound: Bound


def certified(
    algorithm: str,
    problem: Problem,
    epsilon: float,
    sampling: Literal["iid", "markov"] = "markov",
    **params: Any,
) -> Certified:
    """Return a constant step size and the fewest steps with which a theorem guarantees the wanted error.

    `epsilon` is the expected squared distance to the fixed point, in the norm of the theorem
    (``bound.quantity``), not its root. A `ValueError` says so if no theorem covers the algorithm.
    """
    raise NotImplementedError


def largest_step_size(
    algorithm: str, problem: Problem, sampling: Literal["iid", "markov"] = "markov", **params: Any
) -> float:
    """Return the largest constant step size that the theorem of the algorithm allows."""
    raise NotImplementedError
