"""Condition numbers of a chain seen through features: how hard its values are to learn.

Start reading in `ConditionNumbers`. Most are minima, over unit vectors x of feature weights, of a quadratic
form |A Phi x|^2, which `QuadraticForm` computes.

A is a sparse matrix with a column per state and Phi are the features. The d x d matrix of the form is
assembled from bounded blocks. That squares the condition number, so its smallest eigenvalue alone may have
few digits: its lowest eigenvectors only give a good subspace, in which the minimum is computed from A Phi
itself. If even the subspace is in doubt, A Phi is factorised by orthogonal transformations, block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from gainbias.features import Features
from gainbias.model.chain.mixing import contraction_factor
from gainbias.model.chain.reversible import FlowNetwork
from gainbias.model.checks import EPSILON, CsrArray
from gainbias.notebook import InNotebooks
from gainbias.types import Floats

FORM_BLOCK_BYTES = 32 * 2**20
"""Dense blocks of A Phi stay below this size."""

SUBSPACE = 8
"""Number of lowest eigenvectors that are refined together, so that a cluster of eigenvalues does no harm."""

DOUBT = 3e-5
"""Largest relative error of an assembled eigenvalue from which refinement may start; it squares the error."""

CONDITION_NAMES = ("eta1", "eta2", "eta2_literal", "eta3", "gram_min", "omega")
"""The condition numbers, in the order in which they are shown."""


@dataclass(frozen=True, eq=False, repr=False)
class ConditionNumbers(InNotebooks):
    """Constants of the convergence theory, from a chain P with stationary law mu and features Phi.

    With D = diag(mu), |f|_Dir^2 = f^T D (I - P) f, |f|_D^2 = f^T D f and e the vector of ones. If no
    vector meets the conditions of a minimum (one state, or one feature), it is infinite. All have a relative
    accuracy of about 1e-9. Each is computed when it is first read: `eta3` and `omega` take
    much longer than the others on large chains.

    Parameters
    ----------
    flows : FlowNetwork
        The additive flows of an irreducible chain.
    transitions : csr_array, shape (n, n)
        The chain.
    features : Features
        With full column rank.
    ones_weights : ndarray, shape (d,), or None
        The weights whose values are 1 in every state, if they exist.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [1.0, 0.0, 0.0])
    >>> numbers = gb.Problem(process, gb.Tabular()).condition_numbers
    >>> round(numbers.eta1, 12), numbers.omega
    (0.25, 1.0)
    """

    flows: FlowNetwork
    transitions: CsrArray
    features: Features
    ones_weights: Floats | None

    @cached_property
    def eta1(self) -> float:
        """Minimum of |Phi x|_Dir^2 + (mu^T Phi x)^2 over |x| = 1."""
        if self._is_tabular:
            return self.flows.smallest_grounded()
        return self._dirichlet.minimum(extra_row=self.flows.stationary)

    @cached_property
    def eta2(self) -> float:
        """Minimum of |Phi x|_Dir^2 over |x| = 1, x orthogonal to the weights whose values are e, if any."""
        if self._is_tabular:
            return self.flows.smallest_ratio(np.ones(self.flows.num_states))
        return self._dirichlet.minimum(normal=self.ones_weights)

    @cached_property
    def eta2_literal(self) -> float:
        """Minimum of |Phi x|_Dir^2 over |x| = 1, with entries of sum 0."""
        if self._is_tabular:
            return self.eta2
        return self._dirichlet.minimum(normal=np.ones(self.features.num_features))

    @cached_property
    def eta3(self) -> float:
        """`gram_min` times the minimum of |y|_Dir^2 over |y|_D = 1, mu^T y = 0, whatever the features."""
        return self.gram_min * self.flows.spectral_gap()

    @cached_property
    def gram_min(self) -> float:
        """Smallest eigenvalue of Phi^T D Phi."""
        if self._is_tabular:
            return float(self.flows.stationary.min())
        root_stationary = sparse.diags_array(np.sqrt(self.flows.stationary), format="csr")
        return QuadraticForm(root_stationary, self.features).minimum()

    @cached_property
    def omega(self) -> float:
        """Largest |P z|_D over |z|_D = 1, mu^T z = 0. It may be 1 even for an ergodic chain."""
        return contraction_factor(self.transitions, self.flows.stationary)

    def as_dict(self) -> dict[str, float]:
        """Return all of them by name."""
        return {name: getattr(self, name) for name in CONDITION_NAMES}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({numbers})"

    @property
    def _is_tabular(self) -> bool:
        return self.features.kind == "tabular"

    @cached_property
    def _dirichlet(self) -> QuadraticForm:
        return QuadraticForm(flow_differences(self.flows), self.features)


def flow_differences(flows: FlowNetwork) -> CsrArray:
    """Return the matrix, a row per pair of states, for which |matrix @ values|^2 is the energy of values."""
    start, end, flow = flows.edges
    root = np.sqrt(flow)
    pair = np.arange(flow.size)
    return sparse.csr_array(
        (np.concatenate([root, -root]), (np.concatenate([pair, pair]), np.concatenate([start, end]))),
        shape=(flow.size, flows.num_states),
    )


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """The quadratic form x -> |A Phi x|^2.

    Attributes
    ----------
    rows : csr_array, shape (m, n)
        The matrix A.
    features : Features
        The matrix Phi, shape (n, d).
    """

    rows: CsrArray
    features: Features

    def minimum(self, normal: Floats | None = None, extra_row: Floats | None = None) -> float:
        """Return the minimum of the form over unit vectors x.

        Parameters
        ----------
        normal : ndarray, shape (d,), optional
            Only x orthogonal to this vector count; if there are none, the minimum is infinite.
        extra_row : ndarray, shape (n,), optional
            A row c of A that is stored separately because it is dense: (c^T Phi x)^2 is added to the form.
        """
        basis = None if normal is None else orthogonal_basis(normal)
        if basis is not None and basis.shape[1] == 0:
            return np.inf
        extra = np.zeros((0, self.rows.shape[1])) if extra_row is None else extra_row[None, :]
        extra_features = self.features.adjoint(extra.T).T
        matrix = self._matrix + extra_features.T @ extra_features
        if basis is not None:
            matrix = basis.T @ matrix @ basis
        values, vectors = linalg.eigh(matrix, subset_by_index=[0, min(SUBSPACE, len(matrix)) - 1])
        if self._rounding(extra) <= DOUBT * values[0]:
            states = self.features.combine(vectors if basis is None else basis @ vectors)
            return _smallest_singular_value(np.concatenate([self.rows @ states, extra @ states])) ** 2
        triangle = np.concatenate([self._triangle, extra_features])
        return _smallest_singular_value(triangle if basis is None else triangle @ basis) ** 2

    @cached_property
    def _matrix(self) -> Floats:
        """The assembled matrix of the form, (d, d)."""
        assembled = sandwich(self.features, sparse.csr_array(self.rows.T @ self.rows))
        return (assembled + assembled.T) / 2

    def _rounding(self, extra: Floats) -> float:
        """Size of the rounding errors in the assembled matrix, whose terms may cancel."""
        squares = np.asarray(self.rows.multiply(self.rows).sum(axis=0)).ravel() + (extra**2).sum(axis=0)
        return 4.0 * EPSILON * float(squares @ self.features.row_norms**2)

    @cached_property
    def _triangle(self) -> Floats:
        """Triangular R with |R x|^2 equal to the form, found without squaring A Phi."""
        return triangular_factor(self._blocks(), self.features.num_features)

    def _blocks(self) -> Iterator[Floats]:
        """Yield A Phi as dense blocks of rows."""
        height = max(1, FORM_BLOCK_BYTES // (8 * self.features.num_features))
        for start in range(0, self.rows.shape[0], height):
            block = self.rows[start : start + height] @ self.features.matrix
            yield block if isinstance(block, np.ndarray) else block.toarray()


def sandwich(features: Features, operator: CsrArray) -> Floats:
    """Return Phi^T K Phi as a dense (d, d) matrix, for a sparse (n, n) matrix K."""
    phi = features.matrix if isinstance(features.matrix, np.ndarray) else features.matrix.tocsc()
    width = max(1, FORM_BLOCK_BYTES // (8 * features.num_states))
    assembled = np.empty((features.num_features, features.num_features))
    for start in range(0, features.num_features, width):
        block = phi.T @ (operator @ phi[:, start : start + width])
        assembled[:, start : start + width] = block if isinstance(block, np.ndarray) else block.toarray()
    return assembled


def orthogonal_basis(normal: Floats) -> Floats:
    """Return an orthonormal basis, (d, d - 1), of the vectors orthogonal to `normal`, (d,)."""
    mirror = normal / np.linalg.norm(normal)  # from one Householder reflection
    mirror[0] += np.copysign(1.0, mirror[0])
    return (np.eye(normal.size) - np.outer(mirror, 2.0 * mirror / (mirror @ mirror)))[:, 1:]


def triangular_factor(blocks: Iterable[Floats], width: int) -> Floats:
    """Return the upper-triangular R with R^T R = B^T B, where B stacks `blocks`, each (any, width)."""
    triangle = np.zeros((0, width))
    for block in blocks:
        triangle = linalg.qr(
            np.concatenate([triangle, block]), mode="r", overwrite_a=True, check_finite=False
        )[0]
        triangle = triangle[:width]
    return triangle


def _smallest_singular_value(tall: Floats) -> float:
    """Return the smallest singular value of a matrix with at least as many rows as columns.

    With long rows first, and columns pivoted, each row keeps the digits that its own length allows.
    """
    order = np.argsort(-np.abs(tall).max(axis=1), kind="stable")
    triangle = np.triu(linalg.qr(tall[order], mode="r", pivoting=True)[0][: tall.shape[1]])
    return float(linalg.svdvals(triangle)[-1])
