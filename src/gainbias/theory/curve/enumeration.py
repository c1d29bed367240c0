"""Every possible move of a step, with its probability, and second moments of any affine step from these.

`move_law` lists the moves, which replace sampling where an answer is exact. `Enumerated` is the recursion of
second moments over this list, for few moves and for affine steps of any kind.

With z = (x - origin, 1) a step is z <- M z, with a matrix M that depends on the move alone. The second
moments S(u) = E[z z^T, the chain is in u] obey

    S'(v) = sum over moves from u to v of probability * M S(u) M^T.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from gainbias.algorithms.algorithm import Move, Sample
from gainbias.algorithms.fields import dense_features
from gainbias.engine.paths import Sampling, Start
from gainbias.model.problem import Problem
from gainbias.theory.curve.terms import SampleField
from gainbias.types import Floats, Ints, is_integer


@dataclass(frozen=True, eq=False)
class MoveLaw:
    """The law of a sequence of moves, as a chain over nodes.

    With Markov sampling a node is the state of the chain, or of both chains; with independent samples there
    is one node.

    Attributes
    ----------
    moves : Move of (K,) arrays
        All moves that have a positive probability.
    source, target : (K,) int arrays
        Node before and after each move.
    probability : (K,) array
        Probability of each move, given its source.
    first : (nodes,) array
        Law of the first node.
    """

    moves: Move
    source: Ints
    target: Ints
    probability: Floats
    first: Floats

    def move(self, k: int) -> Move:
        """Return the move with number k."""
        return Move(*(column[k] for column in self.moves))

    def samples(self, problem: Problem) -> list[Sample]:
        """Return the feature rows and rewards of all moves."""
        phi, moves = dense_features(problem), self.moves
        return [
            Sample(phi[here], phi[after], reward, phi[other], phi[other_after], other_reward)
            for here, after, reward, other, other_after, other_reward in zip(*moves, strict=True)
        ]


def move_law(
    problem: Problem,
    chains: Literal[1, 2] = 1,
    sampling: Sampling = "iid",
    start: Start = "uniform",
) -> MoveLaw:
    """Return all moves with their probabilities.

    Parameters
    ----------
    problem : Problem
        Process and features.
    chains : {1, 2}
        Number of independent chains; without a second chain, its places repeat the first.
    sampling : {"markov", "iid"}
        Follow the chain, or draw the state of each transition afresh from the stationary law.
    start : int, "uniform" or "stationary"
        First state of a chain.

    Returns
    -------
    MoveLaw

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.25, 0.75], [0.75, 0.25]], [1.0, 0.0])
    >>> law = move_law(gb.Problem(mrp, gb.Tabular()))
    >>> law.moves.here.tolist(), law.moves.after.tolist(), law.probability.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 1], [0.125, 0.375, 0.375, 0.125])
    """
    process = problem.mrp
    table = process.csr
    here = np.repeat(np.arange(process.num_states), np.diff(table.indptr))
    after = table.indices.astype(np.int64)
    paid = process.reward_entries
    reward = process.rewards[here] if paid is None else paid
    if sampling == "iid":
        probability = problem.solution.stationary[here] * table.data
        source = target = np.zeros(len(here), np.int64)
        first = np.ones(1)
    else:
        probability, source, target = table.data, here, after
        first = first_law(problem, start)
    if chains == 1:
        return MoveLaw(Move(here, after, reward, here, after, reward), source, target, probability, first)
    one, two = (part.ravel() for part in np.meshgrid(*2 * [np.arange(len(here))], indexing="ij"))
    nodes = len(first)
    return MoveLaw(
        Move(here[one], after[one], reward[one], here[two], after[two], reward[two]),
        source[one] * nodes + source[two],
        target[one] * nodes + target[two],
        probability[one] * probability[two],
        np.outer(first, first).ravel(),
    )


def first_law(problem: Problem, start: Start) -> Floats:
    """Return the law of the first state of a chain, (n,)."""
    n = problem.mrp.num_states
    is_state = is_integer(start) and 0 <= start < n
    if not (is_state or (isinstance(start, str) and start in ("uniform", "stationary"))):
        raise ValueError(
            f"start must be 'uniform', 'stationary' or a state from 0 to {n - 1}, found {start!r}"
        )
    if start == "stationary":
        return problem.solution.stationary
    return np.full(n, 1.0 / n) if start == "uniform" else np.eye(n)[int(start)]


def check_sampling(sampling: Any) -> None:
    """Raise an error if `sampling` is neither "markov" nor "iid"."""
    if sampling not in ("markov", "iid"):
        raise ValueError(f"sampling must be 'iid' or 'markov', found {sampling!r}")


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
        The point from which x is measured.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.theory.curve.enumeration import move_law
    >>> from gainbias.theory.curve.terms import bound_field
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> field = bound_field(gb.ALGORITHMS["double-chain"].declared.sample_field, ())
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
        before = moments[self.law.source]
        moved = before + self._change(before, step_size)
        after = np.zeros_like(moments)
        np.add.at(after, self.law.target, self.law.probability[:, None, None] * moved)
        return after

    def change_of_sum(self, moments: Floats, step_size: float) -> Floats:
        """Return the change of the sum of all S(u) in one step, with all digits however small the step."""
        change = self._change(moments[self.law.source], step_size)
        return np.asarray(np.einsum("k,kij->ij", self.law.probability, change))

    def _change(self, before: Floats, step_size: float) -> Floats:
        """Return M S M^T - S for each move, given S before it: (K, m + 1, m + 1)."""
        half = self._products(float(step_size)) @ before
        there = half @ self._products(float(step_size)).transpose(0, 2, 1)
        return np.asarray(half + half.transpose(0, 2, 1) + there)

    def _make_products(self, step_size: float) -> Floats:
        """Return M - I of each move, (K, m + 1, m + 1)."""
        found = [self.field(sample, step_size) for sample in self.samples]
        size = len(self.origin) + 1
        matrices = np.zeros((len(found), size, size))
        matrices[:, :-1, :-1] = -step_size * np.array([matrix for matrix, _ in found])
        change = np.array([vector - matrix @ self.origin for matrix, vector in found])
        matrices[:, :-1, -1] = step_size * change
        return matrices
