"""Recommended step sizes and numbers of steps: what a theorem certifies, and what is enough in practice.

`recommend` is what users call. The certified choice comes from `certified`; `_Search` finds the practical
one on a grid of step sizes, by exact curves or, where there are none, by runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import make_lanes
from gainbias.engine.paths import Sampling
from gainbias.engine.run import MOST_EXACT_STEPS
from gainbias.engine.schedules import Constant, Harmonic, Schedule
from gainbias.model.problem import Problem
from gainbias.model.solve.solution import ConvergenceError
from gainbias.notebook import InNotebooks
from gainbias.progress import OutOfTimeError
from gainbias.tasks.task import Task
from gainbias.theory.bounds.certify import CertifiedSteps, certified
from gainbias.theory.curve.curve import Curve, exact_curve
from gainbias.theory.curve.enumeration import check_sampling
from gainbias.types import Floats

STEP_HALVINGS = 16
"""Number of constant step sizes that are tried: the largest sensible one, then always half the previous."""

MULTIPLES = (1.0, 2.0, 4.0)
"""Harmonic step sizes a / (t + c0) that are tried have a times the slowest rate equal to these."""

NUM_CHECKPOINTS = 400
"""Numbers of steps at which errors are checked, evenly spaced on a logarithmic scale."""

FIRST_LENGTH = 2000
"""Length of the first runs."""

RUN_GROWTH = 8
"""Runs that are too short are made longer by this factor."""

STEPS_ONE_BY_ONE = 100
"""This many steps are checked one by one, from the recommended number on."""

COARSE = 50
"""After a late error that is too large, the next step tried is later by 1 / this of its number."""

FAR = 10
"""Steps a / (t + c0)^xi that shrink are followed at least until t + c0 is larger by this factor."""

TIMES_LONGER = 4
"""Constant steps are followed at least for this many times the number of steps."""

RELAXATIONS = 20.0
"""Constant steps are followed until the slowest part of the error has shrunk by e to the power of this."""

MIXING = 10
"""Along a chain, errors are followed for this many mixing times more."""

PATIENCE = 30.0
"""Seconds that an exact curve may take; beyond them, runs are made instead."""


class Practical(NamedTuple):
    """The fewest steps, over a grid of step sizes, after which the expected squared error stays small enough.

    Attributes
    ----------
    step_size : Schedule or None
        None for an algorithm without step sizes.
    num_steps : int
        Number of steps.
    mean_squared_error : float
        The error after these steps.
    standard_error : float or None
        That of `mean_squared_error` if it is a mean over runs; None if it is exact.
    checked_until : int
        Number of steps up to which the error was checked to stay small enough.
    """

    step_size: Schedule | None
    num_steps: int
    mean_squared_error: float
    standard_error: float | None
    checked_until: int


@dataclass(frozen=True, repr=False)
class Recommendation(InNotebooks):
    """Step size and number of steps for a wanted error.

    Attributes
    ----------
    algorithm : str
    epsilon : float
        The wanted expected squared distance of the weights from their limit.
    sampling : str
    certified : CertifiedSteps or None
        The guarantee of a theorem: step size, number of steps and the `Bound`.
    reason : str
        The reason why there is no certificate; empty if there is one.
    practical : Practical or None
        The choice that is enough in practice: the error stays small enough from there on. None if no step
        size of the grid achieves that within `max_steps`.
    grid : tuple of Schedule
        The step sizes that were tried.
    max_steps : int
        More steps are not recommended.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.recommend("double-chain", problem, epsilon=0.01, sampling="iid").gap
    'the theorem asks for 35,276 steps, the practical choice needs 42: 840 times fewer'
    """

    algorithm: str
    epsilon: float
    sampling: str
    certified: CertifiedSteps | None
    reason: str
    practical: Practical | None
    grid: tuple[Schedule, ...]
    max_steps: int

    @property
    def gap(self) -> str:
        """The difference between theorem and practice, in words."""
        if self.practical is None:
            needed = f"no step size of the grid is enough within {self.max_steps:,} steps"
            if self.certified is None:
                return f"{needed}, and no theorem certifies one: {self.reason}"
            return f"the theorem asks for {_said(self.certified.num_steps)} steps; {needed}"
        enough = f"the practical choice needs {_said(self.practical.num_steps)}"
        if self.certified is None:
            return f"no theorem certifies a step size ({self.reason}); {enough} steps"
        ratio = self.certified.num_steps / self.practical.num_steps
        return f"the theorem asks for {_said(self.certified.num_steps)} steps, {enough}: {_times(ratio)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values."""
        guarantee, enough = self.certified, self.practical
        return {
            "algorithm": self.algorithm,
            "epsilon": self.epsilon,
            "sampling": self.sampling,
            "certified": None
            if guarantee is None
            else {
                "step_size": str(guarantee.step_size),
                "num_steps": guarantee.num_steps,
                "bound": guarantee.bound.to_dict(),
            },
            "reason": self.reason,
            "practical": None if enough is None else {**enough._asdict(), "step_size": str(enough.step_size)},
            "grid": [str(schedule) for schedule in self.grid],
            "max_steps": self.max_steps,
            "gap": self.gap,
        }

    def __repr__(self) -> str:
        lines = [f"Recommendation({self.algorithm}, {self.sampling}, squared error {self.epsilon:g})"]
        if self.certified is None:
            lines.append(f"  certified: nothing: {self.reason}")
        else:
            lines.append(f"  certified: {self.certified.step_size}, {_said(self.certified.num_steps)} steps")
        if self.practical is not None:
            how = "exact" if self.practical.standard_error is None else "by runs"
            step_size = self.practical.step_size or "without step sizes"
            lines.append(
                f"  practical: {step_size}, {_said(self.practical.num_steps)} steps "
                f"({how}, best of {len(self.grid)})"
            )
        return "\n".join([*lines, f"  {self.gap}"])


def recommend(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    *,
    epsilon: float,
    sampling: Sampling = "markov",
    params: Mapping[str, float] | None = None,
    initial_weights: Floats | None = None,
    max_steps: int = 1_000_000,
    lanes: int = 200,
) -> Recommendation:
    """Return a step size and a number of steps for a given error: certified ones, and ones that suffice.

    Parameters
    ----------
    algorithm, problem, sampling, params, initial_weights
        As for `run`.
    epsilon : float
        Wanted expected squared distance of the weights from their limit (from the line, if it is a line).
    max_steps : int
        Practical choices with more steps are not considered; errors are checked beyond that.
    lanes : int
        Number of runs that replace exact curves if there are none, or if they take too long. The error
        must then be below epsilon by two standard errors.

    Returns
    -------
    Recommendation
        The practical choice is the best of 16 constant step sizes, each half of the one before, and six
        harmonic ones that suit the slowest rate of the mean update. Its number of steps is right to about 4%.
        Step sizes whose exact curve takes more than half a minute are left out of `grid`, unless all do.

    Notes
    -----
    An error that is small for a while is not enough: it must stay at most epsilon. For the certified choice
    the bound stays below epsilon for all later numbers of steps. For the practical one the curve is followed
    to ``practical.checked_until``: at each of the first 100 steps, then at 400 numbers of steps, even and odd
    in turn, evenly spaced on a logarithmic scale. How far the curve is followed depends on the step sizes.

    - Constant ones: at least to 4 times the number of steps, and for 20 / (a rate) steps more, where rate is
      the slowest rate of the mean update or of the running means. The effect of the start has then shrunk
      by a factor of about e^20, so that the last errors are the limiting ones.
    - Harmonic ones: until t + c0 is 10 times larger. There the error falls, like 1/t for those of the grid.
    - An algorithm without step sizes, or whose mean update is not known: to 10 times the number of steps.

    Along a chain 10 mixing times (to a distance of 1/2) are added. With runs, two standard errors are added
    to the error at each of these numbers of steps. Steps further out are not checked.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.recommend("double-chain", problem, epsilon=0.01, sampling="iid")
    Recommendation(double-chain, iid, squared error 0.01)
      certified: Constant(a=...), 35,276 steps
      practical: Harmonic(a=1.42857..., c0=5.71428...), 42 steps (exact, best of 22)
      the theorem asks for 35,276 steps, the practical choice needs 42: 840 times fewer
    """
    if not 0.0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be positive and finite, found {epsilon!r}")
    check_sampling(sampling)
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    own = dict(make_lanes(chosen, 0, 1.0, params or {})[0].params)
    guarantee: CertifiedSteps | None = None
    reason = ""
    try:
        guarantee = certified(
            chosen, problem, epsilon, sampling, initial_weights=initial_weights, **dict(params or {})
        )
    except ValueError as refused:
        reason = str(refused)
    grid = _grid(chosen, problem, own)
    search = _Search(chosen, problem, own, sampling, initial_weights, epsilon, lanes)
    practical = search.best(grid, max_steps)
    grid = tuple(schedule for schedule in grid if schedule not in search.too_slow)
    return Recommendation(chosen.name, epsilon, sampling, guarantee, reason, practical, grid, max_steps)


def _grid(algorithm: Algorithm, problem: Problem, params: Mapping[str, float]) -> tuple[Schedule, ...]:
    """Return the step sizes that are tried: constant ones first, because their curves cost least."""
    if algorithm.declared.step_free:
        return (Constant(1.0),)
    largest = 1.0 / problem.features.max_row_norm**2
    grid: list[Schedule] = [Constant(largest * 0.5**k) for k in range(STEP_HALVINGS)]
    if algorithm.declared.mean_field is None:
        return tuple(grid)
    rate = min(slow_rates(algorithm, problem, params))
    for multiple in MULTIPLES:
        a = multiple / rate
        grid += [Harmonic(a, a / largest), Harmonic(a, 4.0 * a / largest)]
    return tuple(grid)


def slow_rates(algorithm: Algorithm, problem: Problem, params: Mapping[str, float]) -> list[float]:
    """Return the rates at which the mean update shrinks errors, without directions that never change."""
    if algorithm.declared.mean_field is None:
        raise ValueError(f"{algorithm.name} declares no mean_field, so its rates are not known")
    rates = np.linalg.eigvals(algorithm.declared.mean_field(problem, algorithm.params(**params)).matrix).real
    return [float(rate) for rate in rates[rates > 1e-9 * np.abs(rates).max()]]


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for the fewest steps."""

    algorithm: Algorithm
    problem: Problem
    params: Mapping[str, float]
    sampling: Sampling
    first: Floats | None
    epsilon: float
    lanes: int
    too_slow: list[Schedule] = field(default_factory=list)

    def best(self, grid: tuple[Schedule, ...], max_steps: int) -> Practical | None:
        """Return the best of a grid."""
        if self.algorithm.declared.sample_field is not None:
            try:
                best = self._best_of(grid, max_steps, time_limit=PATIENCE)
                if best is not None or not self.too_slow:
                    return best
            except (ValueError, OutOfTimeError):
                pass  # not affine with these parameters, too large, or too slow
            self.too_slow.clear()
        length, best = min(FIRST_LENGTH, max_steps), None
        while best is None:
            best = self._best_of(grid, length, lanes=self.lanes)
            if length == max_steps:
                break
            length = min(RUN_GROWTH * length, max_steps)
        return best._replace(step_size=None) if best and self.algorithm.declared.step_free else best

    def _best_of(self, grid: tuple[Schedule, ...], limit: int, **how: Any) -> Practical | None:
        """Return the best choice within some number of steps; each one found lowers that for the rest."""
        best = None
        for schedule in grid:
            begun = False
            try:
                curve = self._curve(schedule, 1, limit, **how)
                begun = True
                found = self._lasting(schedule, curve, limit, **how)
            except (ValueError, OutOfTimeError):
                if best is None and not begun:
                    raise
                self.too_slow.append(schedule)
                continue
            if found is not None and (best is None or found.num_steps < best.num_steps):
                best, limit = found, found.num_steps
        return best

    def _lasting(self, schedule: Schedule, curve: Curve, limit: int, **how: Any) -> Practical | None:
        """Return the number of steps after which the error is small enough, checked far beyond the limit."""
        steps = self._from_where(curve)
        while steps is not None and steps <= limit:
            curve = self._curve(schedule, steps, self._far(schedule, steps), **how)
            later = self._from_where(curve)
            if later == steps:
                return self._practical(schedule, curve)
            steps = later
        return None

    def _from_where(self, curve: Curve) -> int | None:
        """Return the steps from which on no error of a curve is too large; None if the last one is."""
        large = np.flatnonzero(~(self._surely(curve) <= self.epsilon))
        if not large.size:
            return int(curve.steps[0])
        if large[-1] + 1 == len(curve.steps):
            return None
        last = int(curve.steps[large[-1]])
        return max(int(curve.steps[large[-1] + 1]), last + last // COARSE)

    @staticmethod
    def _surely(curve: Curve) -> Floats:
        """Return errors; of means over runs, with two standard errors."""
        errors = curve.mean_squared_error
        return errors if curve.standard_error is None else errors + 2.0 * curve.standard_error

    def _practical(self, schedule: Schedule, curve: Curve) -> Practical:
        spread = None if curve.standard_error is None else float(curve.standard_error[0])
        errors, steps = curve.mean_squared_error, curve.steps
        return Practical(schedule, int(steps[0]), float(errors[0]), spread, int(steps[-1]))

    def _curve(self, schedule: Schedule, first: int, last: int, **how: Any) -> Curve:
        return exact_curve(
            self.algorithm,
            self.problem,
            last,
            schedule,
            params=self.params,
            sampling=self.sampling,
            initial_weights=self.first,
            checkpoints=_checkpoints(first, last),
            **how,
        )

    def _far(self, schedule: Schedule, steps: int) -> int:
        """Return the number of steps up to which errors are followed; see `recommend`."""
        if isinstance(schedule, Constant) and self.algorithm.declared.mean_field is not None:
            far = max(TIMES_LONGER * steps, steps + RELAXATIONS / (schedule.a * self._slowest_rate))
        else:
            far = FAR * (steps + getattr(schedule, "c0", 0.0))
        return min(int(np.ceil(far)) + STEPS_ONE_BY_ONE + MIXING * self._mixing_time, MOST_EXACT_STEPS)

    @cached_property
    def _slowest_rate(self) -> float:
        """The slowest rate of the mean update, or of a running mean, for a step size of 1."""
        means = [value for name, value in self.params.items() if name.endswith("_ratio")]
        return min([*slow_rates(self.algorithm, self.problem, self.params), *means])

    @cached_property
    def _mixing_time(self) -> int:
        """Steps after which the chain is within 1/2 of its stationary law; of a periodic one, its states."""
        if self.sampling == "iid":
            return 0
        try:
            return self.problem.mixing_time(0.5)
        except (ValueError, ConvergenceError):
            return self.problem.mrp.num_states


def _checkpoints(first: int, last: int) -> list[int]:
    """Return numbers of steps: all at first, then even and odd ones in turn on a logarithmic scale."""
    spaced = np.rint(np.geomspace(first, last, min(NUM_CHECKPOINTS, last))).astype(np.int64)
    spaced += (spaced + np.arange(len(spaced))) % 2
    every = np.arange(first, first + STEPS_ONE_BY_ONE + 1)
    found = np.unique(np.concatenate([every, spaced, [last]]))
    return [int(step) for step in found if first <= step <= last]


def _said(number: int) -> str:
    """Return a number of steps in a form that is easy to read."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def _times(ratio: float) -> str:
    if ratio >= 1.05:
        rounded = float(f"{ratio:.2g}")
        return f"{rounded:,.0f} times fewer" if 10.0 <= ratio < 1e9 else f"{rounded:g} times fewer"
    return "about as many" if ratio > 0.95 else f"{1.0 / ratio:.1f} times more"
