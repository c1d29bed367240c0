"""The bound that a theorem gives on a problem, for any algorithm, sampling and schedule.

Users call `bound`. `find_theorems` selects the theorems for an algorithm and a sampling, and `Theorems`
the one for given step sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.engine.lanes import StepSize
from gainbias.engine.paths import Sampling
from gainbias.engine.run import usual_step_size, usual_steps
from gainbias.engine.schedules import Constant, Harmonic, Polynomial, Schedule, as_schedule
from gainbias.model.checks import float_array
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.bounds import comparisons, double_chain, single_chain
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.record import Bound, Decay
from gainbias.theory.bounds.single_chain import projected
from gainbias.theory.curve.enumeration import check_sampling
from gainbias.types import Floats, is_count, is_real

THEOREM_PARAMETERS: dict[str, tuple[str, ...]] = {
    "double-chain": (),
    "single-chain": ("mean_ratio", "weights_radius", "features_radius", "lambda_squared"),
    "discounted-td": ("discount", "radius"),
    "reward-estimate": (),
}
"""Algorithms that there are theorems about, with the parameters of these theorems."""


def bound(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    *,
    num_steps: int | None = None,
    step_size: StepSize | None = None,
    sampling: Sampling = "markov",
    as_printed: bool = False,
    initial_weights: Floats | None = None,
    **params: float,
) -> Bound:
    """Return what a theorem guarantees after some steps, with every constant and condition.

    The theorem follows from the algorithm, the sampling and the kind of step sizes. Statements of the paper
    that do not hold as printed are used in their corrected form.

    Parameters
    ----------
    algorithm : str or Algorithm
        ``"double-chain"``, ``"single-chain"``, ``"discounted-td"`` (the bound of Bhandari, Russo and Singal,
        for comparison), or ``"reward-estimate"``, the plain average of the rewards.
    problem : Problem or Task
        Process and features.
    num_steps : int, optional
        The number of steps T; otherwise as many as `run` makes.
    step_size : schedule or float, optional
        `Constant` (or a number), `Harmonic` or `Polynomial`; none for ``"reward-estimate"``. Otherwise
        that of `run`, for which the theorems say little; `recommend` finds steps for which they say more.
    sampling : {"markov", "iid"}
        Follow the chain, or draw the state of each transition afresh from the stationary law.
    as_printed : bool
        Use the paper's own statement, conditions included, even where it is wrong.
    initial_weights : (d,) array, optional
        First weights, otherwise zeros.
    **params
        For single-chain ``mean_ratio`` (rho_0, otherwise 1), ``weights_radius`` (R_theta, otherwise that of
        `projection_radii`), ``features_radius`` (R_w, otherwise infinite) and ``lambda_squared`` (the square
        of the proof's parameter, otherwise the middle of its interval); for discounted-td ``discount``
        (otherwise 0.99) and ``radius`` (otherwise that of its authors, with Markov sampling).

    Returns
    -------
    Bound
        Its value is nan, and ``certified`` is false, if a condition does not hold. With `as_printed`
        ``certified`` means that the printed conditions hold, which may not be enough. A certified bound is
        finite, and never above what a projection guarantees anyway; ``theorem_value`` is the value of the
        formula. Bounds can still be so large that they say nothing: then ``informative`` is false, and
        ``note`` says why.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> result = gb.bound("double-chain", problem, step_size=0.001, num_steps=5_000, sampling="iid")
    >>> result
    Bound(E|theta_T - theta*|^2 <= 0.0512132)
    >>> result.formula
    'exp(-alpha eta T) |theta_0 - theta*|^2 + 18 alpha (r_max + |theta*|)^2 / eta'
    >>> round(result.constants["eta"], 6)
    0.7
    """
    num_steps = usual_steps(problem) if num_steps is None else num_steps
    if not is_count(num_steps):
        raise ValueError(f"num_steps must be a positive integer, found {num_steps!r}")
    theorems = find_theorems(algorithm, problem, sampling, initial_weights, as_printed, params)
    if theorems.without_steps:
        if step_size is not None:
            raise ValueError(f"the average of rewards has no step size, found {step_size!r}")
        return theorems.without_steps(int(num_steps))
    known = algorithm if isinstance(algorithm, Algorithm) else ALGORITHMS.get(algorithm)
    steps = usual_step_size(known, problem) if step_size is None else step_size
    return theorems.about(as_schedule(steps), int(num_steps))  # type: ignore[arg-type]


def find_theorems(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    sampling: Sampling,
    initial_weights: Floats | None = None,
    as_printed: bool = False,
    params: Mapping[str, Any] | None = None,
) -> Theorems:
    """Return the theorems about an algorithm, or raise a ValueError that says which there are."""
    name = algorithm.name if isinstance(algorithm, Algorithm) else algorithm
    if name not in THEOREM_PARAMETERS:
        raise ValueError(f"there are theorems about {', '.join(THEOREM_PARAMETERS)} only, found {name!r}")
    check_sampling(sampling)
    given = dict(params or {})
    _check_params(name, given)
    facts = _facts(problem, initial_weights)
    if name == "double-chain":
        return _double_chain(facts, sampling, as_printed)
    if name == "single-chain":
        return _single_chain(facts, sampling, as_printed, given)
    if name == "discounted-td":
        return _discounted(facts, sampling, given)
    return _reward_estimate(facts, sampling, as_printed)


@dataclass(frozen=True)
class Theorems:
    """The theorems for one algorithm and sampling on one problem.

    Attributes
    ----------
    constant : callable, optional
        From a constant step size and a number of steps to a bound.
    decaying : callable, optional
        From decaying step sizes and a number of steps to a bound.
    largest_step : callable, optional
        The largest constant step size that is allowed.
    without_steps : callable, optional
        From a number of steps to a bound, where nothing is learned by steps.
    """

    constant: Callable[[float, int], Bound] | None = None
    decaying: Callable[[Decay, int], Bound] | None = None
    largest_step: Callable[[], float] | None = None
    without_steps: Callable[[int], Bound] | None = None

    def about(self, schedule: Schedule, num_steps: int) -> Bound:
        """Return the bound for a schedule of step sizes and a number of steps."""
        if isinstance(schedule, Constant) and self.constant:
            return self.constant(schedule.a, num_steps)
        if isinstance(schedule, Harmonic | Polynomial) and self.decaying:
            return self.decaying(as_decay(schedule), num_steps)
        raise ValueError(
            f"no theorem covers {schedule} here: there is one for "
            f"{' and one for '.join(self._covered)} step sizes"
        )

    @property
    def _covered(self) -> list[str]:
        return [
            name
            for name, theorem in (("constant", self.constant), ("decaying", self.decaying))
            if theorem is not None
        ]


def as_decay(schedule: Harmonic | Polynomial) -> Decay:
    """Return a decaying schedule as a / (t + c0)^xi."""
    return Decay(schedule.a, schedule.c0, schedule.xi if isinstance(schedule, Polynomial) else 1.0)


def _double_chain(facts: Facts, sampling: Sampling, as_printed: bool) -> Theorems:
    if sampling == "iid":
        return Theorems(
            constant=partial(double_chain.iid_constant, facts),
            largest_step=partial(double_chain.largest_iid_step, facts),
        )
    return Theorems(
        constant=partial(double_chain.markov_constant, facts),
        decaying=partial(double_chain.markov_decaying, facts, as_printed=as_printed),
        largest_step=partial(double_chain.largest_markov_step, facts),
    )


def _single_chain(facts: Facts, sampling: Sampling, as_printed: bool, params: dict[str, Any]) -> Theorems:
    if sampling == "iid":
        raise ValueError("the theorems about single-chain are for sampling='markov' only, found 'iid'")
    run = projected(facts, as_printed, **params)
    return Theorems(
        constant=partial(single_chain.markov_constant, run, as_printed=as_printed),
        decaying=partial(single_chain.markov_decaying, run, as_printed=as_printed),
        largest_step=partial(single_chain.largest_step, run, as_printed),
    )


def _discounted(facts: Facts, sampling: Sampling, params: dict[str, Any]) -> Theorems:
    run = comparisons.discounted(facts, **params)
    if sampling == "iid":
        return Theorems(
            constant=partial(comparisons.iid_constant, run),
            decaying=partial(comparisons.iid_harmonic, run),
            largest_step=partial(comparisons.largest_iid_step, run),
        )
    return Theorems(
        constant=partial(comparisons.markov_constant, run),
        largest_step=partial(comparisons.largest_markov_step, run),
    )


def _reward_estimate(facts: Facts, sampling: Sampling, as_printed: bool) -> Theorems:
    if sampling == "iid":
        return Theorems(without_steps=partial(comparisons.average_iid, facts))
    average = comparisons.average_markov_as_printed if as_printed else comparisons.average_markov
    return Theorems(without_steps=partial(average, facts))


def _facts(problem: Problem | Task, initial_weights: Floats | None) -> Facts:
    problem = problem.problem if isinstance(problem, Task) else problem
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a gb.Problem or a task, found {type(problem).__name__}")
    d = problem.num_features
    first = np.zeros(d) if initial_weights is None else float_array(initial_weights, "initial_weights")
    if first.shape != (d,):
        raise ValueError(f"initial_weights must have shape ({d},), found {first.shape}")
    return Facts(problem, first)


def _check_params(name: str, params: Mapping[str, Any]) -> None:
    for parameter, value in params.items():
        if parameter not in THEOREM_PARAMETERS[name]:
            known = ", ".join(THEOREM_PARAMETERS[name]) or "no parameters"
            raise ValueError(f"the theorems about {name} have {known}, found {parameter!r}")
        if (
            not is_real(value)
            or not value >= 0.0
            or (parameter == "mean_ratio" and not 0.0 < value < math.inf)
        ):
            raise ValueError(f"{parameter} must be a positive number, found {value!r}")
