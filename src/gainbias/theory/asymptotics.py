"""How errors shrink in the end: covariances of sqrt(t) times the error, and what they cost in transitions.

Near its limit an algorithm is a linear equation with noise of long-run covariance C (see `linearise`).
Write B for its matrix A with rows scaled by the step sizes of the entries of x, times t.

- Step sizes a / t: the covariance solves (B - I/2) S + S (B - I/2)^T = C', C' being C with rows and columns
  scaled in the same way. All rates of B must exceed 1/2; otherwise errors shrink more slowly than t^-1/2.
- Averages of the weights over steps with slowly shrinking step sizes: A^-1 C A^-T, whatever the step sizes
  (Polyak and Ruppert). Means that have steps 1/t enter with the weight that their history has.
- Least squares, the sample's own version of the equation: all noise counts once. Along a chain no covariance
  is smaller. Independent transitions hold more: there the mean of V(s') - V(s) is known to be 0 while its
  sample mean is not, and differential-td, whose gain is the mean of r + V(s') - V(s), makes use of that. So
  does least squares with a weight on the mean of the values; without one (TD(0) outside the constants) not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.fields import td_field
from gainbias.algorithms.registry import ALGORITHMS, as_algorithm
from gainbias.engine.errors import Kind, Norm, Scale
from gainbias.engine.lanes import make_lanes
from gainbias.engine.paths import Sampling
from gainbias.engine.run import as_first_weights, check_problem
from gainbias.engine.schedules import Harmonic
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.curve.moves import check_sampling
from gainbias.theory.curve.system import affine_field, weights_limit
from gainbias.theory.curve.terms import bound_field
from gainbias.theory.linear import Linear, linear_field, linearise

NEGLIGIBLE = 1e-10
"""Singular values and noise this small, relative to the largest, count as 0."""


def asymptotic_covariance(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    step_size: Harmonic | None = None,
    *,
    params: Mapping[str, float] | None = None,
    sampling: Sampling = "markov",
    tail_average: float = 0.0,
    initial_weights: Floats | None = None,
) -> Floats:
    """Return the limit of t times the covariance of the weights after t steps.

    Parameters
    ----------
    algorithm : str or Algorithm
        One with an affine step, or `single-chain`, `relative-td`, `almost-sure-td`, or `lstd`.
    problem : Problem or Task
        Process and features.
    step_size : Harmonic, optional
        Step sizes a / (t + c0). Without them, the weights are averaged over steps whose sizes shrink more
        slowly than 1/t, such as ``Polynomial(a, c0, 0.7)``. `lstd` has neither.
    params : mapping, optional
        Parameters by name.
    sampling : {"markov", "iid"}
        How transitions are drawn.
    tail_average : float
        Share of the steps that an average leaves out at the beginning.
    initial_weights : (d,) array, optional
        First weights, on which the limit may depend.

    Returns
    -------
    (d, d) array
        Where the limit is a line, chance moves the weights along it for ever; that direction is left out.

    Raises
    ------
    ValueError
        If a is too small: errors then shrink more slowly than t^-1/2, and the message says from which a on
        they do not.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.asymptotic_covariance("double-chain", problem, gb.Harmonic(4, 10), sampling="iid").round(3)
    array([[1.667]])
    >>> gb.asymptotic_covariance("double-chain", problem, sampling="iid").round(3)
    array([[1.25]])
    >>> gb.asymptotic_covariance("lstd", problem, sampling="iid").round(3)
    array([[0.688]])
    """
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    check_problem(chosen, problem)
    check_sampling(sampling)
    own = chosen.params(**make_lanes(chosen, 0, 1.0, params or {})[0].params)
    if chosen.name == "lstd":
        return _of_lstd(problem, own, sampling)
    first = as_first_weights(problem, initial_weights)
    linear = linearise(chosen, problem, own, first, sampling)
    if step_size is None:
        return _averaged(chosen, linear, _fraction(tail_average))
    if not isinstance(step_size, Harmonic):
        raise ValueError(
            f"step_size must be gb.Harmonic(a, c0), or None for averaged weights, found {step_size!r}"
        )
    if tail_average:
        raise ValueError("averages are for step sizes that shrink more slowly than 1/t: leave out step_size")
    return _with_harmonic_steps(chosen, own, linear, step_size.a)


def efficiency(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    step_size: Harmonic | None = None,
    *,
    kind: Kind = "centred",
    norm: Norm = "stationary",
    params: Mapping[str, float] | None = None,
    sampling: Sampling = "markov",
    tail_average: float = 0.0,
) -> float:
    """Return how many times more transitions than least squares an algorithm needs, for the same small error.

    The yardstick depends on what is estimated, not on the algorithm. If features span the constant values,
    all undiscounted algorithms have the same limit up to a constant. All are compared with `lstd` as it is,
    with ``mean_weight=1``, in the error of the same `kind`: equal errors have equal efficiencies, and larger
    errors larger ones. Otherwise algorithms with different limits estimate different things. Each is then
    compared with `lstd` of the `mean_weight` that has its limit, such as 0 for td-lambda and 1 for
    single-chain; discounted-td always with discounted least squares.

    Along a chain 1 is the best. With independent transitions, and features that do not span the constants,
    differential-td can need fewer. Double-chain methods count two transitions for each step.

    Parameters
    ----------
    algorithm, problem, step_size, params, sampling, tail_average
        As for `asymptotic_covariance`.
    kind, norm
        Which error of the values is compared (see `Trace.errors`), about the algorithm's own limit. Where the
        limit is a line, "full" means nothing. A limit whose constant is not that of the mean 0, such as that
        of projected-td, can have a smaller "full" error than least squares.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> for name in ("single-chain", "double-chain-symmetric", "double-chain"):
    ...     print(name, round(gb.efficiency(name, problem), 2))
    single-chain 1.0
    double-chain-symmetric 199.42
    double-chain 204.42
    """
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    own = chosen.params(**make_lanes(chosen, 0, 1.0, params or {})[0].params)
    if chosen.limit_is_line and problem.ones_in_span and kind == "full":
        raise ValueError(
            f"the limit of {chosen.name} on these features is a line: use kind='centred' or 'quotient'"
        )
    options: dict[str, Any] = {"params": params, "sampling": sampling, "tail_average": tail_average}
    found = asymptotic_covariance(chosen, problem, step_size, **options)
    best = least_covariance(chosen, problem, own, sampling)
    form = Scale(chosen, problem, own, np.zeros(problem.num_features)).form(kind, norm)
    return float(chosen.chains * np.vdot(form, found) / np.vdot(form, best))


def least_covariance(algorithm: Algorithm, problem: Problem, params: Any, sampling: Sampling) -> Floats:
    """Return the covariance, per transition, of least squares for the limit of an algorithm.

    Where features span the constants, the mean weight of an equation decides about the constant only, or,
    without one, leaves it open: then least squares has the paper's, 1, for all.
    """
    if algorithm.discounted:
        limit = weights_limit(algorithm, problem, params, np.zeros(problem.num_features))
        field = affine_field(algorithm, params)
        linear = linear_field(problem, field, limit, len(limit), 1, sampling, frozen=False)
        return _solved(linear.matrix, linear.covariance)
    if algorithm.name == "lstd":
        _of_lstd(problem, params, sampling)  # refuses a trace
        weight = params.mean_weight
    else:
        weight = _mean_weight(algorithm, problem, params)
    return _least_squares(problem, 1.0 if problem.ones_in_span else weight, sampling)


def _mean_weight(algorithm: Algorithm, problem: Problem, params: Any) -> float:
    """Return the mean weight with which least squares solves the mean equation of an algorithm."""
    if algorithm.mean_field is None:
        raise ValueError(f"{algorithm.name} declares no mean_field, so its equation is not known")
    mean = problem.features.adjoint(problem.solution.stationary)
    matrix = algorithm.mean_field(problem, params).matrix
    beyond = matrix - td_field(problem).matrix
    kappa = float(mean @ beyond @ mean / (mean @ mean) ** 2) if mean.any() else 0.0
    if np.abs(beyond - kappa * np.outer(mean, mean)).max() > NEGLIGIBLE * np.abs(matrix).max():
        raise ValueError(f"least squares for the mean equation of {algorithm.name} is not known")
    return kappa if abs(kappa) > NEGLIGIBLE else 0.0


def _of_lstd(problem: Problem, params: Any, sampling: Sampling) -> Floats:
    if params.trace_decay > 0.0:
        raise ValueError("the covariance of lstd is known without a trace: use trace_decay=0")
    return _least_squares(problem, params.mean_weight, sampling)


def _least_squares(problem: Problem, mean_weight: float, sampling: Sampling) -> Floats:
    """Return the covariance of (A + kappa w w^T) theta = b, with sample means for A, w and b."""
    relative = ALGORITHMS["relative-td"]
    params = relative.params(mean_weight)
    limit = weights_limit(relative, problem, params, np.zeros(problem.num_features))
    field = bound_field(relative.frozen_field, params)
    linear = linear_field(problem, field, limit, len(limit), 2, sampling, frozen=True)
    # At the end all means have seen all transitions, so their noise counts once.
    return _covariance(_with_means_in(linear, 1.0, 1.0, 1.0))


def _averaged(algorithm: Algorithm, linear: Linear, fraction: float) -> Floats:
    """Return the covariance of averaged weights."""
    kept = 1.0 - fraction
    if algorithm.sample_field is not None or algorithm.mean_ratio is not None:
        # Steps of means are a multiple of those of the weights, and that multiple does not matter.
        return _covariance(linear) / kept
    lost = fraction * np.log(fraction) if fraction > 0.0 else 0.0
    crossed = (kept + lost) / kept**2
    return _covariance(_with_means_in(linear, 1.0 / kept, crossed, 2.0 * crossed))


def _with_harmonic_steps(algorithm: Algorithm, params: Any, linear: Linear, a: float) -> Floats:
    """Return the covariance with steps a / t."""
    scale = np.full(len(linear.matrix), a)
    if len(scale) > linear.num_fields:
        ratio = algorithm.mean_ratio
        scale[linear.num_fields :] = 1.0 if ratio is None else a * ratio(params)

    def solved(matrix: Floats, noise: Floats) -> Floats:
        rates = linalg.eigvals(matrix).real
        if rates.min() <= 0.5:
            needed = 0.5 * a / rates.min() if rates.min() > 0.0 else np.inf
            raise ValueError(
                f"with steps {a:g} / t the slowest part of the error shrinks like "
                f"t^-{max(rates.min(), 0.0):.3g}, more slowly than t^-1/2, so there is no covariance: use a "
                f"above {needed:.4g}"
            )
        shifted = matrix - 0.5 * np.eye(len(matrix))
        return np.asarray(linalg.solve_continuous_lyapunov(shifted, noise))

    scaled = replace(
        linear,
        matrix=scale[:, None] * linear.matrix,
        covariance=np.outer(scale, scale) * linear.covariance,
        same_step=np.outer(scale, scale) * linear.same_step,
    )
    return np.asarray(linear.read @ _reduced(scaled, solved) @ linear.read.T)


def _reduced(linear: Linear, solved: Any) -> Floats:
    """Solve for the covariance of x, without directions that never change or that change nothing."""
    matrix, noise, now = linear.matrix, linear.covariance, linear.same_step
    left, sizes, right = linalg.svd(matrix)
    null = sizes <= NEGLIGIBLE * sizes[0]
    if not null.any():
        return np.asarray(solved(matrix, noise))
    still = left[:, null]
    invariant = np.abs(still.T @ now @ still).max() <= NEGLIGIBLE * np.abs(now).max()
    basis = linalg.null_space(still.T if invariant else right[null])
    whole = solved(basis.T @ matrix @ basis, basis.T @ noise @ basis)
    return np.asarray(basis @ whole @ basis.T)


def _solved(matrix: Floats, noise: Floats) -> Floats:
    """Return A^-1 C A^-T."""
    half = linalg.solve(matrix, noise)
    return np.asarray(linalg.solve(matrix, half.T))


def _with_means_in(linear: Linear, own: float, crossed: float, means: float) -> Linear:
    """Return the equation of the fields alone, with the noise of the means, weighed, in theirs."""
    m = linear.num_fields
    noise, pull = linear.covariance, linear.matrix[:m, m:]
    cross = noise[:m, m:] @ pull.T
    total = own * noise[:m, :m] - crossed * (cross + cross.T) + means * pull @ noise[m:, m:] @ pull.T
    return Linear(linear.matrix[:m, :m], total, linear.same_step[:m, :m], m, linear.read[:, :m])


def _covariance(linear: Linear) -> Floats:
    """Return the covariance of the reported weights whose noise counts once."""
    return np.asarray(linear.read @ _reduced(linear, _solved) @ linear.read.T)


def _fraction(share: float) -> float:
    if not 0.0 <= share < 1.0:
        raise ValueError(f"tail_average must be at least 0 and below 1, found {share!r}")
    return float(share)
