"""A Markov reward process seen through features: what a linear method can learn, and how hard that is.

Start reading in `Problem`. Its `fixed_point` is refined in `_refined_weights`. `projector` at the end factors
the features, for least squares in their span, and checks that their columns are independent.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from gainbias.features import FeatureLike, Features, as_features
from gainbias.model.chain.reversible import FlowNetwork, additive_flows
from gainbias.model.checks import EPSILON, CsrArray, float_array, frozen
from gainbias.model.conditioning import ConditionNumbers, sandwich, triangular_factor
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.solution import ConvergenceError, Solution
from gainbias.model.solve.solve import solve_to_tolerance
from gainbias.notebook import InNotebooks
from gainbias.types import Floats

MOST_PROBLEM_FEATURES = 8_000
"""The projected equation is a dense d x d system; tabular features need no such system and have no limit."""

LARGEST_ERROR = 1e-8
"""Error of the fixed point, relative to its largest weight (of unit columns), above which it is refused."""

NEGLIGIBLE_WEIGHTS = 1e-4
"""Weights this small, relative to the bias, are judged as if they were this large: they may be 0."""

PROBES = 4
"""Number of random choices of the signs of rounding errors that are tried."""

SPAN_TOLERANCE = 1e-10
"""Values within this of 1 in every state, or within the rounding of the fit, count as the constant 1."""

LEAST_GRAM_EIGENVALUE = 1e-6
"""Above this smallest eigenvalue, the Cholesky factor of the Gram matrix of unit columns is good enough."""

REFINEMENTS = 3
"""Each refinement of a least-squares fit gains the digits that the triangular factor has; three suffice."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Problem(InNotebooks):
    """A Markov reward process and the features that describe its states.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        An irreducible process; it may be periodic.
    features : (n, d) array_like, scipy.sparse array or Tabular
        One row per state, of full column rank. They are used as given, never rescaled.
    solution : Solution, optional
        What `solve` returned for this process, if it is known already.

    Attributes
    ----------
    mrp : MarkovRewardProcess
    features : Features

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> problem = gb.Problem(process, [[1.0], [0.0]])
    >>> problem
    Problem(2 states, 1 dense feature)
    >>> problem.fixed_point.round(6)
    array([0.357143])
    >>> round(problem.condition_numbers.eta1, 6)
    0.7
    """

    mrp: MarkovRewardProcess
    features: Features

    def __init__(
        self, mrp: MarkovRewardProcess, features: FeatureLike, *, solution: Solution | None = None
    ) -> None:
        if not isinstance(mrp, MarkovRewardProcess):
            raise ValueError(f"mrp must be a MarkovRewardProcess, found {type(mrp).__name__}")
        refuse_durations(mrp, "Problem")
        checked = as_features(features, num_states=mrp.num_states)
        _check_size(checked, mrp.num_states)
        _check_irreducible(mrp)
        object.__setattr__(self, "mrp", mrp)
        object.__setattr__(self, "features", checked)
        if solution is not None:
            if solution.mrp is not mrp:
                raise ValueError("solution must be that of mrp, found the solution of another process")
            self.__dict__["solution"] = solution
        if checked.kind != "tabular":
            self.__dict__["_projector"] = projector(checked)  # computed now, because it checks the rank

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return self.features.num_features

    @cached_property
    def solution(self) -> Solution:
        """Stationary law, gain and bias of the process."""
        return solve_to_tolerance(self.mrp)

    @cached_property
    def fixed_point(self) -> Floats:
        """Weights theta*, shape (d,), that solve the projected equation.

        The equation is [Phi^T D (I - P) Phi + m m^T] theta = Phi^T D (R - g e) with m = Phi^T mu. Its values
        are the bias itself whenever the features can express both the bias and a constant.

        Raises
        ------
        ConvergenceError
            If double precision leaves the largest weight fewer than 8 digits.
        """
        if self.features.kind == "tabular":
            return frozen(self.solution.bias.copy())
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # an overflow shows in the error
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            weights, error = self._refined_weights()
        if not error <= LARGEST_ERROR:
            found = f"have a relative error of about {error:.1e}, more than {LARGEST_ERROR:g}"
            raise ConvergenceError(
                "the projected equation is too ill-conditioned for double precision: its weights "
                f"{found if np.isfinite(error) else 'may have no correct digit'}: drop columns of the "
                "features that nearly depend on the others, or rescale them"
            )
        return frozen(weights)

    @cached_property
    def values(self) -> Floats:
        """Values of all states at the fixed point, Phi theta*, shape (n,)."""
        return frozen(self.features.combine(self.fixed_point))

    @property
    def ones_in_span(self) -> bool:
        """Whether some weights give every state the value 1, to 1e-10 or the rounding of the features."""
        return self.ones_weights is not None

    @cached_property
    def ones_weights(self) -> Floats | None:
        """The weights that give every state the value 1, shape (d,), or None if there are none."""
        ones = np.ones(self.mrp.num_states)
        if self.features.kind == "tabular":
            return frozen(ones)
        weights = self._projector.fit(ones)
        if self.num_features == self.mrp.num_states:  # they have full rank, so they span everything
            return frozen(weights)
        error = np.abs(self.features.combine(weights) - 1.0).max()
        rounding = self.num_features * EPSILON * self._reach(weights).max()
        return frozen(weights) if error <= max(SPAN_TOLERANCE, rounding) else None

    @cached_property
    def condition_numbers(self) -> ConditionNumbers:
        """Constants of the convergence theory (see `ConditionNumbers`)."""
        return ConditionNumbers(self._flows, self.mrp.csr, self.features, self.ones_weights)

    def stationary_norm(self, values: Floats) -> float:
        """Return the root mean square of `values`, (n,), under the stationary law: |f|_D."""
        return float(np.sqrt(self.solution.stationary @ self._state_values(values) ** 2))

    def dirichlet_norm(self, values: Floats) -> float:
        """Return the change of `values`, (n,), in a step: |f|_Dir^2 is half the mean of (f(s) - f(s'))^2."""
        return float(np.sqrt(self._flows.energy(self._state_values(values))))

    def quotient_norm(self, values: Floats) -> float:
        """Return the Euclidean norm of `values`, shape (n,), after subtracting their plain average."""
        checked = self._state_values(values)
        return float(np.linalg.norm(checked - checked.mean()))

    def mixing_time(self, eps: float) -> int:
        """Return the mixing time of the process (see `mixing_time`)."""
        return self.mrp.mixing_time(eps)

    def __repr__(self) -> str:
        d = self.num_features
        return f"Problem({self.mrp.num_states} states, {d} {self.features.kind} feature{'s' * (d > 1)})"

    @cached_property
    def _projector(self) -> Projector:
        return projector(self.features)

    @cached_property
    def _flows(self) -> FlowNetwork:
        return additive_flows(self.mrp.csr, self.solution.stationary)

    @cached_property
    def _drift(self) -> CsrArray:
        """The matrix D (I - P), (n, n); its diagonal sums the other entries, which loses no digits."""
        away = self.mrp.csr.copy()
        away.setdiag(0.0)
        leaving = sparse.diags_array(np.asarray(away @ np.ones(self.mrp.num_states)))
        return sparse.csr_array(sparse.diags_array(self.solution.stationary) @ (leaving - away))

    @property
    def _scaled_equation(self) -> Floats:
        """The d x d matrix of the projected equation, for columns scaled to length 1."""
        norms = self._projector.column_norms
        mean = self.features.adjoint(self.solution.stationary)
        matrix = sandwich(self.features, self._drift) + np.outer(mean, mean)
        return np.asarray(matrix / np.outer(norms, norms))

    def _refined_weights(self) -> tuple[Floats, float]:
        """Return the solution of the projected equation, and its error relative to its largest weight.

        Weights are compared as those of columns of length 1. The error is the last correction, or the effect
        of rounding errors of the force on the weights, whichever is larger.
        """
        norms, equation = self._projector.column_norms, self._scaled_equation
        factor = linalg.lu_factor(equation, check_finite=False)

        def answer(force: Floats) -> Floats:
            scaled = self.features.adjoint(force) / norms
            return np.asarray(linalg.lu_solve(factor, scaled, check_finite=False))

        weights = self._projector.fit(self.solution.bias)
        correction = np.zeros_like(weights)
        for _ in range(REFINEMENTS):
            correction = answer(self._force(self.features.combine(weights)))
            weights += correction / norms
        # Below this condition the factors may have no correct digit, and would not show what they lose.
        if not (_reciprocal_condition(factor[0], equation) >= EPSILON and np.isfinite(weights).all()):
            return weights, np.inf
        rng = np.random.default_rng(0)
        moved = [correction, *(answer(self._rounding(weights, rng)) for _ in range(PROBES))]
        size = max(np.abs(weights * norms).max(), NEGLIGIBLE_WEIGHTS * np.linalg.norm(self.solution.bias))
        error = np.abs(moved).max()
        return weights, 0.0 if error == 0.0 else float(error / size)

    def _rounding(self, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return rounding errors, (n,), that the force may have at `weights`, with random signs."""
        mu, values = self.solution.stationary, self.features.combine(weights)
        missed = self.solution.bias - values
        value_signs, flow_signs = rng.choice([-EPSILON, EPSILON], (2, self.mrp.num_states))
        if np.ptp(missed) < np.ptp(values):
            shift = value_signs * (self._reach(weights) + np.abs(self.solution.bias))
            flows = abs(self._drift) @ np.abs(missed)
        else:
            shift = value_signs * self._reach(weights)
            excess = np.abs(self.mrp.rewards - mu @ self.mrp.rewards)
            flows = abs(self._drift) @ np.abs(values) + mu * excess
        return np.asarray(self._drift @ shift + mu * (mu @ shift) + flow_signs * flows)

    def _reach(self, weights: Floats) -> Floats:
        """Return the sum of the absolute terms of each state's value, (n,); rounding is relative to it."""
        return np.asarray(abs(self.features.matrix) @ np.abs(weights))

    def _force(self, values: Floats) -> Floats:
        """Return the residual of the equation at `values`, (n,).

        It is D (R - g - (I - P) values) - mu (mu^T values), and with missed = bias - values it is also
        D (I - P) missed + mu (mu^T missed). The formula with the smaller of the two, values or missed, loses
        fewer digits: if the features can express the bias nothing is missed, otherwise much may be.
        """
        mu, rewards = self.solution.stationary, self.mrp.rewards
        missed = self.solution.bias - values
        if np.ptp(missed) < np.ptp(values):
            return np.asarray(self._drift @ missed + mu * (mu @ missed))
        return np.asarray(mu * (rewards - mu @ rewards - mu @ values) - self._drift @ values)

    def _state_values(self, values: Floats) -> Floats:
        checked = float_array(values, "values")
        if checked.shape != (self.mrp.num_states,):
            raise ValueError(
                f"values must have shape ({self.mrp.num_states},), one for each state, found shape "
                f"{checked.shape}"
            )
        return checked


def _check_size(features: Features, num_states: int) -> None:
    if features.num_states != num_states:
        hint = ": transpose them" if features.num_features == num_states else ": give one row for each state"
        raise ValueError(
            f"features must have one row for each of the {num_states} states, found "
            f"{features.num_states} rows and {features.num_features} columns{hint}"
        )
    if features.kind != "tabular" and features.num_features > MOST_PROBLEM_FEATURES:
        raise ValueError(
            f"features may have at most {MOST_PROBLEM_FEATURES} columns, found "
            f"{features.num_features}: use fewer, "
            "or gb.Tabular() if each state has a feature of its own"
        )


def _check_irreducible(mrp: MarkovRewardProcess) -> None:
    if not mrp.is_irreducible:
        raise ValueError(
            "a problem needs an irreducible process, so that every state has a positive stationary "
            f"probability; found {mrp.structure.describe_recurrent()}, and "
            f"{mrp.structure.transient.size} transient states: restrict the process to one recurrent class, "
            "mrp.restricted_to(mrp.structure.recurrent[0])"
        )


def _reciprocal_condition(factors: Floats, matrix: Floats) -> float:
    """Return an estimate of 1 / (|A| |A^-1|) in the 1-norm, from the triangular factors of A."""
    return float(linalg.lapack.dgecon(factors, np.abs(matrix).sum(axis=0).max())[0])


@dataclass(frozen=True, eq=False)
class Projector:
    """A triangular factor of the features, which must have full column rank.

    Attributes
    ----------
    features : Features
        The matrix Phi, shape (n, d).
    column_norms : ndarray, shape (d,)
        Lengths of its columns.
    triangle : ndarray, shape (d, d)
        Upper-triangular R with R^T R = C^T Phi^T Phi C, where C divides each column by its length.
    """

    features: Features
    column_norms: Floats
    triangle: Floats

    def fit(self, values: Floats) -> Floats:
        """Return the weights, (d,), whose values are closest to `values`, (n,), in the Euclidean norm."""
        weights = np.zeros(self.features.num_features)
        for _ in range(REFINEMENTS):
            gradient = self.features.adjoint(values - self.features.combine(weights)) / self.column_norms
            step = linalg.cho_solve((self.triangle, False), gradient)
            weights += step / self.column_norms
        return weights


def projector(features: Features) -> Projector:
    """Return the triangular factor of features.

    Raises
    ------
    ValueError
        If the columns are not linearly independent, or a column is too short or too long to be squared.
    """
    if features.num_features > features.num_states:
        raise ValueError(
            f"features must have full column rank, found {features.num_features} columns but only "
            f"{features.num_states} states: drop columns, or use gb.Tabular() for one feature per state"
        )
    gram = sandwich(features, sparse.eye_array(features.num_states, format="csr"))
    squares = np.diag(gram).copy()
    in_range = np.isfinite(squares) & (squares > 0.0)
    if not in_range.all():
        raise ValueError(
            f"the squared length of column {int(np.argmin(in_range))} of features is out of the range of "
            "double precision: rescale it"
        )
    norms = np.sqrt(squares)
    gram /= np.outer(norms, norms)
    try:
        np.linalg.cholesky(gram - LEAST_GRAM_EIGENVALUE * np.eye(len(gram)))
        triangle = linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        triangle = triangular_factor((block / norms for _, block in features.row_blocks()), len(gram))
        _check_rank(triangle, features)
    return Projector(features, norms, triangle)


def _check_rank(triangle: Floats, features: Features) -> None:
    """Raise an error if features whose columns, scaled to length 1, have this factor are dependent."""
    pivoted, order = linalg.qr(triangle, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(pivoted))
    rank = int(np.sum(diagonal > EPSILON * features.num_states * diagonal[0]))
    if rank < features.num_features:
        raise ValueError(
            f"features must have full column rank {features.num_features}, found rank {rank}: column "
            f"{order[rank]} is a linear combination of the others: drop it"
        )
