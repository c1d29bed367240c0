"""Which step size and how many steps: what a theorem certifies, and what is enough in fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import make_lanes
from gainbias.engine.paths import Sampling
from gainbias.engine.schedules import Constant, Harmonic, Schedule
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.progress import OutOfTimeError
from gainbias.tasks.task import Task
from gainbias.theory.bounds.certify import Certified, certified
from gainbias.theory.curve import Curve, exact_curve
from gainbias.theory.moves import check_sampling

HALVINGS = 16
"""Constant step sizes that are tried: the largest sensible one, halved so many times less one."""

MULTIPLES = (1.0, 2.0, 4.0)
"""Harmonic step sizes a / (t + c0) that are tried have a times the slowest rate equal to these."""

CHECKPOINTS = 400
"""Numbers of steps at which errors are looked at, evenly spaced on a logarithmic scale."""

FIRST_LENGTH = 2000
GROWTH = 8
"""Runs have these lengths at first, and so many times longer ones if they are too short."""

PATIENCE = 30.0
"""Seconds that an exact curve may take; beyond them, runs are made instead."""


class Practical(NamedTuple):
    """The fewest steps, over a grid of step sizes, after which the expected squared error is small enough.

    `step_size` is None for an algorithm without step sizes. `standard_error` is that of the
    `mean_squared_error` if it is a mean over runs, and None if it is exact.
    """

    step_size: Schedule | None
    num_steps: int
    mean_squared_error: float
    standard_error: float | None


@dataclass(frozen=True, repr=False)
class Recommendation:
    """Step size and number of steps for a wanted error.

    Attributes
    ----------
    algorithm : str
    epsilon : float
        The wanted expected squared distance of the weights from their limit.
    sampling : str
    certified : Certified or None
        What a theorem guarantees: step size, number of steps and the `Bound`.
    reason : str
        Why there is no certificate, if there is none.
    practical : Practical or None
        What is enough in fact; None if no step size of the grid is within `max_steps`.
    grid : tuple of Schedule
        The step sizes that were tried.
    max_steps : int
        More steps were not tried.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.recommend("double-chain", problem, epsilon=0.01, sampling="iid").gap
    'the theorem asks for 35,276 steps, the practical choice needs 45: 780 times fewer'
    """

    algorithm: str
    epsilon: float
    sampling: str
    certified: Certified | None
    reason: str
    practical: Practical | None
    grid: tuple[Schedule, ...]
    max_steps: int

    @property
    def gap(self) -> str:
        """How far the theorem is from practice, in words."""
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
    """Return a step size and a number of steps for a wanted error: certified, and enough in fact.

    Parameters
    ----------
    algorithm, problem, sampling, params, initial_weights
        As for `run`.
    epsilon : float
        Wanted expected squared distance of the weights from their limit (from its line, where it is one).
    max_steps : int
        Practical choices with more steps are not looked for.
    lanes : int
        So many runs replace exact curves where there are none, or where they take too long. The error must
        then be below epsilon by two standard errors.

    Returns
    -------
    Recommendation
        The practical choice is the best of 16 constant step sizes, each half of the one before, and six
        harmonic ones that suit the slowest rate of the mean update. Its number of steps is right to about 4%.
        Step sizes whose exact curve takes more than half a minute are left out of `grid`, unless all do.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.recommend("double-chain", problem, epsilon=0.01, sampling="iid")
    Recommendation(double-chain, iid, squared error 0.01)
      certified: Constant(a=...), 35,276 steps
      practical: Harmonic(a=1.42857..., c0=5.71428...), 45 steps (exact, best of 22)
      the theorem asks for 35,276 steps, the practical choice needs 45: 780 times fewer
    """
    if not 0.0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be positive and finite, found {epsilon!r}")
    check_sampling(sampling)
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    own = dict(make_lanes(chosen, 0, 1.0, params or {})[0].params)
    guarantee: Certified | None = None
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
    if algorithm.step_free:
        return (Constant(1.0),)
    largest = 1.0 / problem.features.max_row_norm**2
    grid: list[Schedule] = [Constant(largest * 0.5**k) for k in range(HALVINGS)]
    if algorithm.mean_field is None:
        return tuple(grid)
    rates = np.linalg.eigvals(algorithm.mean_field(problem, algorithm.params(**params)).matrix).real
    rates = rates[rates > 1e-9 * np.abs(rates).max()]
    for multiple in MULTIPLES:
        a = multiple / float(rates.min())
        grid += [Harmonic(a, a / largest), Harmonic(a, 4.0 * a / largest)]
    return tuple(grid)


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
        if self.algorithm.sample_field is not None:
            try:
                return self._best_of(grid, max_steps, time_limit=PATIENCE)
            except (ValueError, OutOfTimeError):
                self.too_slow.clear()  # not affine with these parameters, too large, or too slow
        length, best = min(FIRST_LENGTH, max_steps), None
        while best is None:
            best = self._best_of(grid, length, lanes=self.lanes)
            if length == max_steps:
                break
            length = min(GROWTH * length, max_steps)
        return best._replace(step_size=None) if best and self.algorithm.step_free else best

    def _best_of(self, grid: tuple[Schedule, ...], limit: int, **how: Any) -> Practical | None:
        """Return the best within some number of steps; one that is found lowers the number for the rest."""
        best = None
        for schedule in grid:
            try:
                found = self._first_below(schedule, self._curve(schedule, limit, **how))
            except (ValueError, OutOfTimeError):
                if best is None:
                    raise
                self.too_slow.append(schedule)
                continue
            if found is not None and (best is None or found.num_steps < best.num_steps):
                best, limit = found, found.num_steps
        return best

    def _curve(self, schedule: Schedule, num_steps: int, **how: Any) -> Curve:
        return exact_curve(
            self.algorithm,
            self.problem,
            num_steps,
            schedule,
            params=self.params,
            sampling=self.sampling,
            initial_weights=self.first,
            checkpoints=CHECKPOINTS,
            **how,
        )

    def _first_below(self, schedule: Schedule, curve: Curve) -> Practical | None:
        """Return the first checkpoint with a small enough error."""
        errors = curve.mean_squared_error
        spread = np.zeros_like(errors) if curve.standard_error is None else curve.standard_error
        below = np.flatnonzero(errors + 2.0 * spread <= self.epsilon)
        if not below.size:
            return None
        k = int(below[0])
        error = None if curve.standard_error is None else float(spread[k])
        return Practical(schedule, int(curve.steps[k]), float(errors[k]), error)


def _said(number: int) -> str:
    """Return a number of steps as people read it."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def _times(ratio: float) -> str:
    if ratio >= 1.05:
        rounded = float(f"{ratio:.2g}")
        return f"{rounded:,.0f} times fewer" if 10.0 <= ratio < 1e9 else f"{rounded:g} times fewer"
    return "about as many" if ratio > 0.95 else f"{1.0 / ratio:.1f} times more"
