"""The noise of an algorithm at its limit, and its long-run covariance.

At the limit the change of x in a step, divided by the step size, has mean 0: it is noise. It is a sum of
pieces l (u + v): a vector l that depends on the state of one chain, times numbers u and v that depend on the
transitions of the first and of the second chain. Along chains, noise of different steps is correlated, and

    C = E[e_0 e_0^T] + sum over k >= 1 of (E[e_0 e_k^T] + E[e_k e_0^T])

needs the sum over k >= 0 of E[e_k | first states], which solves a Poisson equation. For a function of the
states of both chains that has mean 0 over either of them, the sum of P^k F P^kT is got by doubling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.engine.paths import Sampling
from gainbias.features.rows import Floats
from gainbias.theory.curve.sources import Source

MOST_DOUBLINGS = 60
EXACT = 1e-15


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece of the noise.

    Attributes
    ----------
    chain : {0, 1}
        Whose state decides the vector.
    vectors : (states of that chain, k) array
    numbers : list of (transitions of a chain,) arrays
        For the first and for the second chain.
    """

    chain: int
    vectors: Floats
    numbers: tuple[Floats, Floats]


class Noise:
    """A sum of pieces.

    Parameters
    ----------
    sources : pair of Source
        The two chains; one of a single state stands in for a chain that is not used.
    pieces : list of Piece
    """

    def __init__(self, sources: tuple[Source, Source], pieces: list[Piece]) -> None:
        self.sources, self.pieces = sources, pieces

    def covariance(self, sampling: Sampling) -> Floats:
        """Return the long-run covariance, (k, k)."""
        now = self._same_step
        if sampling == "iid":
            return now
        later = self._later_steps()
        return np.asarray(now + later + later.T)

    @cached_property
    def _means(self) -> list[tuple[Floats, Floats]]:
        """Mean numbers of each piece given the state of each chain."""
        return [
            (self.sources[0].mean_of(piece.numbers[0]), self.sources[1].mean_of(piece.numbers[1]))
            for piece in self.pieces
        ]

    @property
    def _same_step(self) -> Floats:
        size = self.pieces[0].vectors.shape[1]
        total = np.zeros((size, size))
        for p, one in enumerate(self.pieces):
            for q, two in enumerate(self.pieces):
                products = [
                    source.mean_of(one.numbers[c] * two.numbers[c]) for c, source in enumerate(self.sources)
                ]
                total += self._pair(p, q, products)
        return total

    def _pair(self, p: int, q: int, products: list[Floats]) -> Floats:
        """Return the mean of piece p times piece q, given mean products of their numbers."""
        one, two = self.pieces[p], self.pieces[q]
        mine, yours = self._means[p], self._means[q]
        law, other = self.sources[one.chain].law, self.sources[1 - one.chain].law
        c, o = one.chain, 1 - one.chain
        if one.chain == two.chain:
            weight = products[c] + mine[c] * (other @ yours[o]) + yours[c] * (other @ mine[o])
            weight = law * (weight + other @ products[o])
            return np.asarray((one.vectors.T * weight) @ two.vectors)
        left, right = law @ one.vectors, other @ two.vectors
        total = np.outer((law * products[c]) @ one.vectors, right)
        total += np.outer(left, (other * products[o]) @ two.vectors)
        total += np.outer((law * mine[c]) @ one.vectors, (other * yours[o]) @ two.vectors)
        total += np.outer((law * yours[c]) @ one.vectors, (other * mine[o]) @ two.vectors)
        return total

    def _later_steps(self) -> Floats:
        """Return the sum over k >= 1 of E[e_0 e_k^T]."""
        ahead = self._ahead()
        total = np.zeros((ahead.shape[2],) * 2)
        alone = [np.einsum("j,ijk->ik", self.sources[1].law, ahead), None]
        alone[1] = np.einsum("i,ijk->jk", self.sources[0].law, ahead)
        for piece in self.pieces:
            c, o = piece.chain, 1 - piece.chain
            mine, other = self.sources[c], self.sources[o]
            arrived = mine.arrivals(np.ones(mine.transitions.nnz), piece.vectors)
            total += mine.arrivals(piece.numbers[c], piece.vectors).T @ alone[c]
            number = other.arrivals(piece.numbers[o], np.ones((other.size, 1)))[:, 0]
            pairs = ahead if c == 0 else ahead.transpose(1, 0, 2)
            total += np.einsum("ik,j,ijm->km", arrived, number, pairs, optimize=True)
        return total

    def _ahead(self) -> Floats:
        """Return the sum over k >= 0 of E[e_k | states], (n, n', k)."""
        first, second = self.sources
        mean = np.zeros((first.size, second.size, self.pieces[0].vectors.shape[1]))
        for piece, (mine, yours) in zip(self.pieces, self._means, strict=True):
            vectors = piece.vectors[:, None] if piece.chain == 0 else piece.vectors[None, :]
            mean += vectors * (mine[:, None] + yours[None, :])[:, :, None]
        of_first = np.einsum("j,ijk->ik", second.law, mean)
        of_second = np.einsum("i,ijk->jk", first.law, mean)
        mean -= of_first[:, None] + of_second[None]
        mean += first.law @ of_first
        both = _doubled(first, second, mean)
        return np.asarray(both + first.deviation(of_first)[:, None] + second.deviation(of_second)[None])


def _doubled(first: Source, second: Source, values: Floats) -> Floats:
    """Return the sum over k of P^k F P'^kT, for F of mean 0 over either chain: (n, n', k)."""
    one = first.transitions.toarray() - first.law
    two = second.transitions.toarray() - second.law
    total = values.transpose(2, 0, 1)
    for _ in range(MOST_DOUBLINGS):
        more = one @ total @ two.T
        total = total + more
        if np.abs(more).max() <= EXACT * np.abs(total).max():
            return np.asarray(total.transpose(1, 2, 0))
        one, two = one @ one, two @ two
    raise ValueError(
        "noise along these chains has no long-run covariance: the process is periodic, or nearly so; use "
        "sampling='iid', or make it aperiodic"
    )
