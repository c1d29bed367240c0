"""Second moments of any affine step, by listing every move: for few moves, and for steps of any kind.

With z = (x - origin, 1) a step is z <- M z, with a matrix M that depends on the move alone. The second
moments S(u) = E[z z^T, the chain is in u] obey

    S'(v) = sum over moves from u to v of probability * M S(u) M^T.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.theory.curve.moves import MoveLaw
from gainbias.theory.curve.terms import SampleField


class Enumerated:
    """The recursion of the second moments, move by move.

    Parameters
    ----------
    problem : Problem
        Process and features.
    field : callable (sample, step_size) -> (X, y)
        The declared field.
    law : MoveLaw
        All moves.
    origin : (m,) array
        From where x is measured.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.theory.curve.moves import move_law
    >>> from gainbias.theory.curve.terms import bound_field
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> field = bound_field(gb.ALGORITHMS["double-chain"].sample_field, ())
    >>> moves = Enumerated(problem, field, move_law(problem, chains=2), np.zeros(1))
    >>> moves.step(moves.begin(np.zeros(1)), 0.1)[0, 0, 1]
    np.float64(0.025)
    """

    fixed = False

    def __init__(self, problem: Problem, field: SampleField, law: MoveLaw, origin: Floats) -> None:
        self.law, self.origin, self.field = law, origin, field
        self.samples = law.samples(problem)
        self._products = lru_cache(maxsize=4)(self._make_products)

    def begin(self, x: Floats) -> Floats:
        """Return S(u) for first values x, measured from the origin: (nodes, m + 1, m + 1)."""
        z = np.append(x, 1.0)
        return np.asarray(self.law.first[:, None, None] * np.outer(z, z))

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return S(u) after one step."""
        products = self._products(float(step_size))
        moved = products @ moments[self.law.source] @ products.transpose(0, 2, 1)
        after = np.zeros_like(moments)
        np.add.at(after, self.law.target, self.law.probability[:, None, None] * moved)
        return after

    def _make_products(self, step_size: float) -> Floats:
        """Return the matrix M of each move, (K, m + 1, m + 1)."""
        found = [self.field(sample, step_size) for sample in self.samples]
        size = len(self.origin) + 1
        matrices = np.tile(np.eye(size), (len(found), 1, 1))
        matrices[:, :-1, :-1] -= step_size * np.array([matrix for matrix, _ in found])
        change = np.array([vector - matrix @ self.origin for matrix, vector in found])
        matrices[:, :-1, -1] += step_size * change
        return matrices
