"""Mean updates that several algorithms share, as d x d equations, and the solutions of these."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg, sparse

from gainbias.algorithms.algorithm import Field
from gainbias.features.matrix import column_lengths
from gainbias.model.checks import CsrArray, frozen
from gainbias.model.conditioning import sandwich
from gainbias.model.problem import Problem
from gainbias.types import Floats

SMALLEST_SINGULAR_VALUE = 1e-12
"""Singular values this small, relative to the largest, may be rounding errors of long sums."""


_FIELDS: WeakKeyDictionary[Problem, dict[tuple[float, float], Field]] = WeakKeyDictionary()
"""Mean updates of the problems that still exist: the limits of many algorithms begin with one."""


def td_field(problem: Problem, trace_decay: float = 0.0, discount: float = 1.0) -> Field:
    """Return the mean update b - A theta of temporal differences.

    With z the trace, A = E[z (phi - discount phi')^T] and b = E[z (r - g)]; g is the gain, or 0 if
    ``discount < 1``.

    Parameters
    ----------
    problem : Problem
        Process and features.
    trace_decay : float
        The lambda of TD(lambda).
    discount : float
        The discount factor, 1 for the average-reward criterion.

    Returns
    -------
    Field
        `matrix` A, shape (d, d), and `vector` b, shape (d,), which cannot be written to.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    >>> gb.td_field(gb.Problem(mrp, [[1.0], [0.0]]))
    Field(matrix=array([[0.25]]), vector=array([0.25]))
    """
    fields, key = _FIELDS.setdefault(problem, {}), (trace_decay, discount)
    if key not in fields:
        fields[key] = Field(*map(frozen, _td_field(problem, trace_decay, discount)))
    return fields[key]


def _td_field(problem: Problem, trace_decay: float, discount: float) -> Field:
    mu, process = problem.solution.stationary, problem.mrp
    excess = process.rewards - (problem.solution.gain_per_step if discount == 1.0 else 0.0)
    eye = sparse.eye_array(process.num_states, format="csr")
    drift: CsrArray = sparse.csr_array(eye - discount * process.csr)
    weighted = sparse.diags_array(mu)
    if trace_decay == 0.0:
        matrix = sandwich(problem.features, sparse.csr_array(weighted @ drift))
        return Field(matrix, problem.features.adjoint(mu * excess))
    traces = mean_traces(problem, trace_decay)
    matrix = traces.T @ (weighted @ np.asarray(drift @ dense_features(problem)))
    return Field(np.asarray(matrix), traces.T @ (mu * excess))


def paper_field(problem: Problem) -> Field:
    """Return the mean update of the paper's algorithms, which is 0 at ``problem.fixed_point``.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    >>> paper_field(gb.Problem(mrp, [[1.0], [0.0]]))
    Field(matrix=array([[0.5]]), vector=array([0.25]))
    """
    mean = average_features(problem)
    plain = td_field(problem)
    return Field(plain.matrix + np.outer(mean, mean), plain.vector)


def average_features(problem: Problem) -> Floats:
    """Return the stationary mean of the features, shape (d,)."""
    return problem.features.adjoint(problem.solution.stationary)


def mean_traces(problem: Problem, trace_decay: float) -> Floats:
    """Return the mean of the trace given the present state, in the stationary chain: shape (n, d).

    The mean trace zeta obeys mu(s) zeta(s) = mu(s) phi(s) + lambda * sum over s' of mu(s') P(s', s) zeta(s').

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    >>> mean_traces(gb.Problem(mrp, [[1.0], [0.0]]), 0.5)
    array([[1.5],
           [0.5]])
    """
    mu, n = problem.solution.stationary, problem.mrp.num_states
    transposed = np.eye(n) - trace_decay * problem.mrp.csr.T.toarray()
    weighted: Floats = linalg.solve(transposed, mu[:, None] * dense_features(problem))
    return weighted / mu[:, None]


def dense_features(problem: Problem) -> Floats:
    """Return the features as a dense (n, d) array."""
    matrix = problem.features.matrix
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def solve_field(problem: Problem, field: Field) -> Floats:
    """Return the zero of a field: the solution of A theta = b, the shortest one if there are several.

    Parameters
    ----------
    problem : Problem
        Process and features.
    field : Field
        The equation, for example from `td_field`.

    Returns
    -------
    ndarray, shape (d,)

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    >>> problem = gb.Problem(mrp, [[1.0], [0.0]])
    >>> gb.solve_field(problem, gb.td_field(problem))
    array([1.])
    """
    return nearest_solution(field, np.zeros(len(field.vector)), column_lengths(problem.features))


def td_solution(problem: Problem, trace_decay: float) -> Floats:
    """Return the solution of the TD(lambda) equation, the shortest one if there is a line of them.

    For tabular features the line is that of the bias, whatever lambda is.
    """
    if problem.features.kind == "tabular":
        return project_off(problem.ones_weights, problem.solution.bias)
    return solve_field(problem, td_field(problem, trace_decay))


def nearest_solution(field: Field, first: Floats, lengths: Floats) -> Floats:
    """Return the least-squares solution of A theta = b that is nearest to the weights `first`, shape (d,).

    `lengths`, shape (d,), are those of the columns of the features. Divided by them, a small feature is not
    mistaken for a dependent one.

    Examples
    --------
    >>> line = Field(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([2.0, -2.0]))
    >>> nearest_solution(line, np.array([5.0, 5.0]), np.ones(2))
    array([6., 4.])
    """
    matrix = field.matrix / np.outer(lengths, lengths)
    missing = (field.vector - field.matrix @ first) / lengths
    factors, pivots, failed = linalg.lapack.dgetrf(matrix)
    size = np.abs(matrix).sum(axis=0).max()
    if not failed and linalg.lapack.dgecon(factors, size)[0] > SMALLEST_SINGULAR_VALUE:
        return np.asarray(first + linalg.lapack.dgetrs(factors, pivots, missing)[0] / lengths)
    change, free = _least_squares(matrix, missing)
    basis = linalg.qr(free / lengths[:, None], mode="economic")[0]
    change = change / lengths
    return np.asarray(first + change - basis @ (basis.T @ change))


def _least_squares(matrix: Floats, vector: Floats) -> tuple[Floats, Floats]:
    """Return one least-squares solution, (d,), and directions along which there are others, (d, k)."""
    rotation, triangle, order = linalg.qr(matrix, pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int((diagonal > SMALLEST_SINGULAR_VALUE * diagonal[0]).sum())
    solution, free = np.zeros(len(vector)), np.zeros((len(vector), len(vector) - rank))
    solved = linalg.solve_triangular(
        triangle[:rank, :rank], np.column_stack([rotation.T[:rank] @ vector, triangle[:rank, rank:]])
    )
    solution[order[:rank]] = solved[:, 0]
    free[order[:rank]] = -solved[:, 1:]
    free[order[rank:]] = np.eye(len(vector) - rank)
    return solution, free


def project_off(direction: Floats | None, weights: Floats) -> Floats:
    """Return weights, (d,) or (d, lanes), without their part along a direction, (d,), if there is one.

    Examples
    --------
    >>> project_off(np.array([1.0, 1.0]), np.array([3.0, 1.0]))
    array([ 1., -1.])
    """
    if direction is None:
        return weights
    unit = direction / linalg.norm(direction)
    # Summed in order, so that a lane's bits do not depend on other lanes.
    part = np.cumsum(weights.T * unit, axis=-1)[..., -1]
    return np.asarray(weights - np.multiply.outer(unit, part))


def within(weights: Floats, radius: float) -> Floats | None:
    """Return a limit, or None if a projection onto a ball keeps a method from reaching it.

    Examples
    --------
    >>> within(np.array([3.0, 4.0]), 4.9) is None
    True
    """
    return weights if linalg.norm(weights) <= radius else None
