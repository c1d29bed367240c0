"""Least squares in the span of the features, and the check that their columns are independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from gainbias.features import Features
from gainbias.model.checks import EPSILON, FloatArray
from gainbias.model.quadratic import sandwich, triangular_factor

WELL_CONDITIONED = 1e-6
"""Above this smallest eigenvalue, the Cholesky factor of the Gram matrix of unit columns is good enough."""

REFINEMENTS = 3
"""Each refinement of a least-squares fit gains the digits that the triangular factor has; three give all."""


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
    column_norms: FloatArray
    triangle: FloatArray

    def fit(self, values: FloatArray) -> FloatArray:
        """Weights, (d,), whose values are closest to `values`, (n,), in the Euclidean norm."""
        weights = np.zeros(self.features.num_features)
        for _ in range(REFINEMENTS):
            gradient = self.features.adjoint(values - self.features.combine(weights)) / self.column_norms
            step = linalg.cho_solve((self.triangle, False), gradient)
            weights += step / self.column_norms
        return weights


def projector(features: Features) -> Projector:
    """Factorise features.

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
        np.linalg.cholesky(gram - WELL_CONDITIONED * np.eye(len(gram)))
        triangle = linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        triangle = triangular_factor((block / norms for _, block in features.row_blocks()), len(gram))
        _check_rank(triangle, features)
    return Projector(features, norms, triangle)


def _check_rank(triangle: FloatArray, features: Features) -> None:
    """Refuse features whose columns, scaled to length 1 and with this triangular factor, are dependent."""
    pivoted, order = linalg.qr(triangle, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(pivoted))
    rank = int(np.sum(diagonal > EPSILON * features.num_states * diagonal[0]))
    if rank < features.num_features:
        raise ValueError(
            f"features must have full column rank {features.num_features}, found rank {rank}: column "
            f"{order[rank]} is a linear combination of the others: drop it"
        )
