"""Exact learning curves: the mean and the mean squared error of an algorithm after any number of steps.

Users call `exact_curve`, which returns a `Curve`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import Lane, StepSize, make_lanes
from gainbias.engine.paths import Markov, Sampling, split_sampling
from gainbias.engine.run import as_checkpoints, as_first_weights, check_problem, run
from gainbias.engine.schedules import Constant
from gainbias.engine.trace import Kind, Norm, Scale, Space, Target
from gainbias.model.problem import Problem
from gainbias.notebook import InNotebooks
from gainbias.tasks.task import Task
from gainbias.theory.curve.advance import moments_at
from gainbias.theory.curve.enumeration import check_sampling
from gainbias.theory.curve.system import make_system, weights_limit
from gainbias.types import Floats, Ints, is_count


@dataclass(frozen=True, eq=False, repr=False)
class Curve(InNotebooks):
    """Means and mean squares of an algorithm's weights.

    Attributes
    ----------
    algorithm : Algorithm
    problem : Problem
    params : NamedTuple of float
        Parameters of the algorithm.
    steps : (checkpoints,) int array
        Numbers of steps.
    mean_weights : (checkpoints, d) array
        E[theta_t]; nan where moments are infinite.
    limit : (d,) array
        The limit of the weights; the paper's fixed point if the algorithm states none.
    missed : (checkpoints, d, d) array
        E[(theta_t - limit) (theta_t - limit)^T]; infinite where it is larger than any number.
    standard_error : (checkpoints,) array or None
        Standard error of `mean_squared_error` if it is a mean over runs; None for an exact curve.
    first_weights : (d,) array
        Weights before the first step.
    settings : dict
        The arguments with which the curve was made.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> curve = gb.exact_curve("double-chain", gb.Problem(mrp, gb.Tabular()), 10_000, 0.01, sampling="iid")
    >>> curve
    Curve(double-chain, 10000 steps, exact: mean squared error 0.00641)
    """

    algorithm: Algorithm
    problem: Problem
    params: Any
    steps: Ints
    mean_weights: Floats
    limit: Floats
    missed: Floats
    standard_error: Floats | None
    first_weights: Floats
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def transitions(self) -> Ints:
        """Number of transitions used at each checkpoint, (checkpoints,)."""
        return self.steps * self.algorithm.chains

    @property
    def mean_squared_error(self) -> Floats:
        """Mean of |theta_t - limit|^2, (checkpoints,); where the limit is a line, of the distance to it."""
        return self._spread(error_form(self.algorithm, self.problem), self.missed)

    @property
    def diverged_by(self) -> int | None:
        """First checkpoint at which moments are larger than any number; from there on errors are infinite."""
        lost = np.flatnonzero(~self._finite)
        return int(self.steps[lost[0]]) if lost.size else None

    @property
    def _finite(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.missed).all(axis=(1, 2)))

    def _spread(self, form: Floats, moments: Floats) -> Floats:
        """Return the mean of a quadratic form at each checkpoint, infinite where moments are."""
        kept = np.where(self._finite[:, None, None], moments, 0.0)
        return np.where(self._finite, np.einsum("ij,tij->t", form, kept), np.inf)

    @property
    def second_moments(self) -> Floats:
        """Second moments of the weights, E[theta_t theta_t^T], (checkpoints, d, d)."""
        crossed = np.einsum("ti,j->tij", self.mean_weights - self.limit, self.limit)
        total = self.missed + crossed + crossed.transpose(0, 2, 1) + np.outer(self.limit, self.limit)
        return np.asarray(total)

    def errors(
        self,
        kind: Kind = "full",
        *,
        target: Target = "bias",
        norm: Norm = "euclidean",
        space: Space = "values",
    ) -> Floats:
        """Return the root mean squared error at each checkpoint, (checkpoints,).

        That is the root of the mean, over all runs, of the square of what `Trace.errors` returns for the same
        arguments. The mean of that error itself is never larger.

        Examples
        --------
        >>> import gainbias as gb
        >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
        >>> curve = gb.exact_curve("td-lambda", gb.Problem(mrp, gb.Tabular()), 1000, gb.Harmonic(10, 100))
        >>> curve.errors("quotient")[-1].round(4)
        np.float64(0.0088)
        """
        scale = Scale(self.algorithm, self.problem, self.params, self.first_weights)
        mean = np.where(self._finite[:, None], self.mean_weights, self.limit)
        away = mean - self.limit
        with np.errstate(invalid="ignore"):  # infinite moments are left out
            covariance = self.missed - away[:, :, None] * away[:, None, :]
        spread = self._spread(scale.form(kind, norm, space), covariance)
        of_mean = scale.errors(mean, kind, target, norm, space)
        return np.asarray(np.sqrt(of_mean**2 + np.maximum(spread, 0.0)))

    def to_frame(self) -> Any:
        """Return a tidy pandas table, a row for each checkpoint, with errors against the bias.

        Needs pandas (``pip install 'gainbias[data]'``).
        """
        import pandas

        columns: dict[str, Any] = {
            "algorithm": self.algorithm.name,
            "step": self.steps,
            "transitions": self.transitions,
            "mean_squared_error": self.mean_squared_error,
            "standard_error": np.nan if self.standard_error is None else self.standard_error,
        }
        for kind in ("full", "centred", "quotient"):
            columns[f"error_{kind}"] = self.errors(kind)
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        error = f"{self.mean_squared_error[-1]:.3g}"
        if self.diverged_by is not None:
            return f"Curve({self.algorithm.name}, diverged by step {self.diverged_by} of {self.steps[-1]})"
        how = "exact: mean squared error " + error
        if self.standard_error is not None:
            how = f"mean of {self.settings['lanes']} runs: mean squared error {error} +- "
            how += f"{self.standard_error[-1]:.1g}"
        return f"Curve({self.algorithm.name}, {self.steps[-1]} steps, {how})"


def error_form(algorithm: Algorithm, problem: Problem) -> Floats:
    """Return the matrix of the squared distance from the limit: from its line, if the limit is one."""
    kind: Kind = "quotient" if algorithm.declared.limit_is_line and problem.ones_in_span else "full"
    return Scale(algorithm, problem, None, np.zeros(problem.num_features)).form(kind, space="weights")


def exact_curve(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    num_steps: int,
    step_size: StepSize,
    *,
    params: Mapping[str, float] | None = None,
    sampling: Sampling | Markov = "markov",
    checkpoints: int | Iterable[int] = 200,
    initial_weights: Floats | None = None,
    frozen: bool = False,
    lanes: int | None = None,
    time_limit: float | None = None,
) -> Curve:
    """Return the mean and the mean squared error of an algorithm, exactly, without sampling.

    If a step is affine in the weights, its first and second moments follow a linear recursion. That holds
    for double-chain and its variants, for td-lambda, projected-td and implicit-td without a trace, for
    differential-td, and for discounted-td; without a radius that cuts anything off. Others have no such
    recursion: `single-chain`, `relative-td` and `centred-td` multiply the weights by running means.

    Parameters
    ----------
    algorithm, problem, num_steps, step_size, sampling, checkpoints, initial_weights
        As for `run`, with one step size.
    params : mapping, optional
        Parameters by name, one value each.
    frozen : bool
        For `single-chain`, `relative-td`, `centred-td` and `almost-sure-td`: the curve of the algorithm whose
        running means are at their limits from the first step on.
    lanes : int, optional
        Take the mean over this many runs instead, for any algorithm; its error is in `standard_error`.
    time_limit : float, optional
        Seconds. A curve that would take longer is refused at once; without a limit, a warning says if it
        takes more than a minute.

    Returns
    -------
    Curve

    Notes
    -----
    With independent samples the cost does not depend on the number of moves: about n d^2 for each step, and
    far less where many steps are made at once. Along a chain it grows with the number of possible transitions
    (of pairs of states, for two chains) times d^2.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> problem = gb.Problem(mrp, gb.Tabular())
    >>> curve = gb.exact_curve("double-chain", problem, 1000, gb.Harmonic(10, 100), checkpoints=[0, 10, 1000])
    >>> curve.mean_squared_error.round(4)
    array([0.1543, 0.0538, 0.0078])
    """
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    check_problem(chosen, problem)
    way, start = split_sampling(sampling)
    check_sampling(way)
    lane = _one_lane(chosen, step_size, params or {})
    steps = as_checkpoints(checkpoints, num_steps)
    first = as_first_weights(problem, initial_weights)
    own = chosen.params(**lane.params)
    how: dict[str, Any] = {"sampling": way, "start": start, "frozen": frozen}
    settings = {**how, "step_size": str(lane.step_size)}
    if lanes is not None:
        if frozen or not is_count(lanes):
            raise ValueError(f"lanes must be a positive integer, without frozen=True, found {lanes!r}")
        return _sampled(chosen, problem, own, lane, steps, first, lanes, settings)
    constant, largest = isinstance(lane.step_size, Constant), _largest(lane, int(num_steps))
    system = make_system(chosen, problem, own, first, largest_step=largest, constant=constant, **how)
    second = moments_at(system.recursion, system.first - system.origin, lane.step_size, steps, time_limit)
    limit = weights_limit(chosen, problem, own, first)
    away, missed = system.of_weights(second, limit)
    return Curve(chosen, problem, own, steps, limit + away, limit, missed, None, first, settings)


def _one_lane(algorithm: Algorithm, step_size: StepSize, params: Mapping[str, Any]) -> Lane:
    lanes = make_lanes(algorithm, 0, step_size, params)
    if len(lanes) > 1:
        raise ValueError(f"a curve has one step size and one value of each parameter, found {len(lanes)}")
    return lanes[0]


def _largest(lane: Lane, num_steps: int) -> float:
    """Return the largest of the first step sizes; an array that is too short for all steps is refused."""
    lane.step_size.values(num_steps - 1, num_steps)
    return float(lane.step_size.values(0, min(num_steps, 100_000)).max())


def _sampled(
    algorithm: Algorithm,
    problem: Problem,
    params: Any,
    lane: Lane,
    steps: Ints,
    first: Floats,
    lanes: int,
    settings: dict[str, Any],
) -> Curve:
    """Return the curve of the mean over runs."""
    trace = run(
        algorithm,
        problem,
        int(steps[-1]),
        lane.step_size,
        seeds=range(lanes),
        params=dict(lane.params),
        sampling="iid" if settings["sampling"] == "iid" else Markov(settings["start"]),
        checkpoints=steps.tolist(),
        initial_weights=first,
    )
    limit = weights_limit(algorithm, problem, params, first)
    away = trace.weights - limit
    with np.errstate(over="ignore", invalid="ignore"):  # lanes may diverge
        missed = np.einsum("lti,ltj->tij", away, away, optimize=True) / lanes
        squares = np.einsum("lti,ij,ltj->lt", away, error_form(algorithm, problem), away, optimize=True)
        error = squares.std(axis=0, ddof=1) / np.sqrt(lanes) if lanes > 1 else np.full(len(steps), np.inf)
        mean = trace.weights.mean(axis=0)
    settings = {**settings, "lanes": lanes}
    return Curve(algorithm, problem, params, steps, mean, limit, missed, error, first, settings)
