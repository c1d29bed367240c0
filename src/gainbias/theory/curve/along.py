"""Second moments along a chain, from the terms of a step.

With z = (x - origin, 1), S(u) = E[z z^T, the chain is in u] obeys

    S'(v) = sum over u of P(u, v) M S(u) M^T,     M = I - alpha * sum over lefts of l(u) rho(u, v)^T.

So S'(v) is the mixture of the S(u), and corrections of few ranks. A node u is a state, or a pair of states if
there are two chains. A step costs about three products with d x d matrices for each possible transition.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from gainbias.features.rows import Floats
from gainbias.model.checks import CsrArray
from gainbias.model.solve.elimination.types import Ints
from gainbias.theory.curve.sources import Ingredients
from gainbias.theory.curve.terms import STATES

DENSE = 0.1
"""From this share of possible transitions on, products with the dense matrix are faster."""

ALONE = sparse.csr_array(np.ones((1, 1)))
"""Stands in for a second chain where there is none."""


class Along:
    """The recursion of the second moments, for samples along a chain.

    Parameters
    ----------
    made_of : Ingredients
    """

    def __init__(self, made_of: Ingredients) -> None:
        self.coefficients, self.fixed, self.units = made_of.coefficients, made_of.fixed, made_of.units
        self.first, self.second = first, second = made_of.first, made_of.second
        pair = ALONE if second is None else second.transitions
        self.here, self.other = (part.ravel() for part in np.indices((first.size, pair.shape[0])))
        self.transitions = _product(first.transitions, pair)
        self._entries = _product(_numbered(first.transitions), _ones_like(pair)).data.astype(np.int64) - 1
        self._other_entries = (
            _product(_ones_like(first.transitions), _numbered(pair)).data.astype(np.int64) - 1
        )
        self._tables: tuple[Floats, Floats] | None = None

    def begin(self, x: Floats) -> Floats:
        """Return S(u) for first values x, measured from the origin: (nodes, m + 1, m + 1)."""
        z = np.append(x, 1.0)
        law = self.first.start if self.second is None else np.kron(self.first.start, self.second.start)
        return np.asarray(law[:, None, None] * np.outer(z, z))

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return S(u) after one step."""
        lefts, rights = self._terms(step_size)
        nodes, size = moments.shape[:2]
        after = np.asarray(self._mixer @ moments.reshape(nodes, -1)).reshape(moments.shape)
        count = rights.shape[1] // self._degree
        products = rights @ moments
        own = (nodes, self._degree, count, size)
        squares = np.einsum("udim,udkm->udik", products.reshape(own), rights.reshape(own))
        change = (0.5 * step_size**2) * np.einsum("udik,ukm->udim", squares, lefts)
        change -= step_size * products.reshape(own)
        change *= self._weight[:, :, None, None]
        into = change.reshape(-1, count, size)[self._order]
        into[self._missing] = 0.0
        began = lefts[self._before]
        shape = (nodes, -1, size)
        correction = began.reshape(shape).transpose(0, 2, 1) @ into.reshape(shape)
        after += correction
        after += correction.transpose(0, 2, 1)
        return after

    def _terms(self, step_size: float) -> tuple[Floats, Floats]:
        """Return lefts (nodes, lefts, m + 1) and right sides (nodes, degree * lefts, m + 1)."""
        if self._tables is None or not self.fixed:
            self._tables = self._make_tables(self.coefficients(step_size))
        return self._tables

    def _make_tables(self, coefficients: Floats) -> tuple[Floats, Floats]:
        used = [i for i in range(coefficients.shape[1]) if np.any(coefficients[:, i])]
        nodes, size = len(self.here), self.units.shape[1]
        lefts = np.zeros((nodes, len(used), size))
        for place, i in enumerate(used):
            lefts[:, place] = self._rows_here[i] if i < STATES else self.units[i - STATES]
        lefts[:, :, -1] = 0.0
        own = coefficients[self.here][:, used]
        rights = np.zeros((nodes, self._degree, len(used), size))
        for j in (0, 2):
            if np.any(own[:, :, j]):
                rights += (own[:, :, j, None] * self._rows_here[j][:, None])[:, None]
        for j in (1, 3):
            if np.any(own[:, :, j]):
                rights += own[:, None, :, j, None] * self._rows_after[j][:, :, None]
        rights += (own[:, :, STATES:-2] @ self.units)[:, None]
        for j in (-2, -1):
            if np.any(own[:, :, j]):
                rights[..., -1] += own[:, None, :, j] * self._rewards[j][:, :, None]
        return lefts, rights.reshape(nodes, -1, size)

    @cached_property
    def _degree(self) -> int:
        """The largest number of transitions from a node."""
        return int(np.diff(self.transitions.indptr).max())

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Node and number, among the transitions of this node, of each transition."""
        table = self.transitions
        source = np.repeat(np.arange(len(self.here)), np.diff(table.indptr))
        return source, np.arange(table.nnz) - table.indptr[source]

    @cached_property
    def _weight(self) -> Floats:
        """Probability of each transition, (nodes, degree), 0 where there is none."""
        return self._padded(self.transitions.data)

    @cached_property
    def _rows_here(self) -> dict[int, Floats]:
        found = {0: self.first.rows[self.here]}
        if self.second is not None:
            found[2] = self.second.rows[self.other]
        return found

    @cached_property
    def _rows_after(self) -> dict[int, Floats]:
        """Rows of the next states, (nodes, degree, m + 1)."""
        target = self._padded(self.transitions.indices.astype(np.float64)).astype(np.int64)
        found = {1: self.first.rows[self.here[target]]}
        if self.second is not None:
            found[3] = self.second.rows[self.other[target]]
        return found

    @cached_property
    def _rewards(self) -> dict[int, Floats]:
        """Rewards of the transitions, (nodes, degree)."""
        found = {-2: self._padded(self.first.rewards[self._entries])}
        if self.second is not None:
            found[-1] = self._padded(self.second.rewards[self._other_entries])
        return found

    def _padded(self, entries: Floats) -> Floats:
        table = np.zeros((len(self.here), self._degree))
        table[self._places] = entries
        return table

    @cached_property
    def _mixer(self) -> Floats | CsrArray:
        mixer = sparse.csr_array(self.transitions.T)
        nodes = len(self.here)
        return mixer.toarray() if mixer.nnz > DENSE * nodes * nodes else mixer

    @cached_property
    def _incoming(self) -> tuple[Ints, Ints, Floats]:
        source, number = self._places
        target = self.transitions.indices
        by_target = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(self.here))
        place = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (len(self.here), int(counts.max()))
        order, before, missing = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.ones(shape, bool)
        where = target[by_target], place
        order[where] = (source * self._degree + number)[by_target]
        before[where] = source[by_target]
        missing[where] = False
        return order, before, missing

    @property
    def _order(self) -> Ints:
        """Which transitions lead to each node, (nodes, most)."""
        return self._incoming[0]

    @property
    def _before(self) -> Ints:
        """The nodes they come from."""
        return self._incoming[1]

    @property
    def _missing(self) -> Floats:
        """Places without a transition."""
        return self._incoming[2]


def _numbered(table: CsrArray) -> CsrArray:
    """Return a table of the numbers 1, 2, ... of its entries."""
    numbers = np.arange(1.0, table.nnz + 1.0)
    return sparse.csr_array((numbers, table.indices, table.indptr), shape=table.shape)


def _ones_like(table: CsrArray) -> CsrArray:
    return sparse.csr_array((np.ones(table.nnz), table.indices, table.indptr), shape=table.shape)


def _product(one: CsrArray, two: CsrArray) -> CsrArray:
    """Return the table of pairs, with sorted entries."""
    table = sparse.csr_array(sparse.kron(one, two, format="csr"))
    table.sort_indices()
    return table
