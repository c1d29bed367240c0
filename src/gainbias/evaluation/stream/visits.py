"""Which discrete states were seen to lead to which: whether the chain falls apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.evaluation.stream.stream import Transitions
from gainbias.model.structure import find_structure

MOST_MOVES = 2**22
"""With more different moves than this the structure is not followed: 32 MB."""

FEW_STATES = 512
"""Up to here all moves are counted in a table, which is faster."""

ENOUGH_TO_TELL = 100
"""A set of states that is not left in so many steps counts as closed."""


class Visits:
    """The different moves between states, and how often each state was left.

    Parameters
    ----------
    num_states : int

    Examples
    --------
    >>> visits = Visits(3)
    >>> here = np.array([0, 1] * 200)
    >>> visits.add(Transitions(np.ones(400), here, here[::-1], None, np.zeros(400, dtype=np.int64)))
    >>> visits.add(Transitions(np.ones(200), here[:200] * 0 + 2, here[:200] * 0 + 2, None, here[:200] * 0))
    >>> visits.warnings()[0]
    'the chain falls apart in the data: 2 recurrent classes: {0, 1}, {2}, ...'
    """

    def __init__(self, num_states: int) -> None:
        self._size = num_states
        every = np.arange(num_states**2 if num_states <= FEW_STATES else 0)
        self._moves: NDArray[np.int64] = every
        self._counts: NDArray[np.int64] = np.zeros(len(every), dtype=np.int64)

    def add(self, batch: Transitions) -> None:
        """Add transitions between states."""
        if len(self._moves) > MOST_MOVES:
            return
        given = batch.here * self._size + batch.after
        if self._size <= FEW_STATES:
            self._counts += np.bincount(given, minlength=len(self._counts))
            return
        moves, counts = np.unique(given, return_counts=True)
        known = np.isin(moves, self._moves)
        self._counts[np.searchsorted(self._moves, moves[known])] += counts[known]
        if not known.all():
            order = np.argsort(np.concatenate([self._moves, moves[~known]]), kind="stable")
            self._moves = np.concatenate([self._moves, moves[~known]])[order]
            self._counts = np.concatenate([self._counts, counts[~known]])[order]

    def warnings(self) -> list[str]:
        """Say if sets of states were seen that do not lead to each other."""
        if len(self._moves) > MOST_MOVES:
            return []
        seen_moves, counts = self._moves[self._counts > 0], self._counts[self._counts > 0]
        here, after = np.divmod(seen_moves, self._size)
        seen = np.union1d(here, after)
        ends = np.searchsorted(seen, here), np.searchsorted(seen, after)
        graph = sparse.csr_array((np.ones(len(here)), ends), (len(seen), len(seen)))
        visits = np.bincount(ends[0], weights=counts, minlength=len(seen))
        classes = find_structure(graph).recurrent
        closed = [seen[states] for states in classes if visits[states].sum() >= ENOUGH_TO_TELL]
        if len(closed) < 2:
            return []
        shown = ", ".join(_in_words(states) for states in closed[:3])
        return [
            f"the chain falls apart in the data: {len(closed)} recurrent classes: {shown}, and no step leads "
            "from one to another, so the gain depends on the start, and values of different classes cannot "
            "be compared: evaluate each start by itself"
        ]


def _in_words(states: NDArray[np.int64]) -> str:
    few = ", ".join(map(str, states[:4].tolist()))
    return f"{{{few}{', ...' if len(states) > 4 else ''}}}"
