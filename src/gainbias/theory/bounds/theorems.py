"""Which theorem speaks about which algorithm, sampling and schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Constant, Harmonic, Polynomial, Schedule
from gainbias.features.rows import Floats
from gainbias.model.checks import float_array
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.bounds import (
    discounted,
    double_chain,
    reward_estimate,
    single_chain_constant,
    single_chain_decaying,
)
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.projected import projected
from gainbias.theory.bounds.record import Bound
from gainbias.theory.bounds.steps import Decay
from gainbias.theory.curve.moves import check_sampling

PARAMETERS: dict[str, tuple[str, ...]] = {
    "double-chain": (),
    "single-chain": ("mean_ratio", "weights_radius", "features_radius", "lambda_squared"),
    "discounted-td": ("discount", "radius"),
    "reward-estimate": (),
}
"""What there are theorems about, and which parameters they have."""


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
        """Return the bound for some step sizes."""
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
    """Return a schedule as a / (t + c0)^xi."""
    return Decay(schedule.a, schedule.c0, schedule.xi if isinstance(schedule, Polynomial) else 1.0)


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
    if name not in PARAMETERS:
        raise ValueError(f"there are theorems about {', '.join(PARAMETERS)} only, found {name!r}")
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
        constant=partial(single_chain_constant.markov_constant, run, as_printed=as_printed),
        decaying=partial(single_chain_decaying.markov_decaying, run, as_printed=as_printed),
        largest_step=partial(single_chain_constant.largest_step, run, as_printed),
    )


def _discounted(facts: Facts, sampling: Sampling, params: dict[str, Any]) -> Theorems:
    run = discounted.discounted(facts, **params)
    if sampling == "iid":
        return Theorems(
            constant=partial(discounted.iid_constant, run),
            decaying=partial(discounted.iid_harmonic, run),
            largest_step=partial(discounted.largest_iid_step, run),
        )
    return Theorems(
        constant=partial(discounted.markov_constant, run),
        largest_step=partial(discounted.largest_markov_step, run),
    )


def _reward_estimate(facts: Facts, sampling: Sampling, as_printed: bool) -> Theorems:
    if sampling == "iid":
        return Theorems(without_steps=partial(reward_estimate.iid, facts))
    printed = reward_estimate.markov_as_printed if as_printed else reward_estimate.markov
    return Theorems(without_steps=partial(printed, facts))


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
        if parameter not in PARAMETERS[name]:
            known = ", ".join(PARAMETERS[name]) or "no parameters"
            raise ValueError(f"the theorems about {name} have {known}, found {parameter!r}")
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not number or not value >= 0.0 or (parameter == "mean_ratio" and not 0.0 < value < math.inf):
            raise ValueError(f"{parameter} must be a positive number, found {value!r}")
