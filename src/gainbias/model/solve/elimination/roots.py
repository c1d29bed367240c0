"""Which state of each recurrent class to keep.

Elimination keeps one state of each recurrent class, its root, and values are first found relative to it.
The stationary law comes out the same for any root; values do not: relative to a state that the chain all
but never visits they are differences of astronomically long excursions. So the root must be a state that is
visited often, and a short walk finds one.
"""

from __future__ import annotations

import numpy as np

from gainbias.kernels import kernel
from gainbias.model.solve.elimination.types import Ints, Sparse

# The walk reads at most this many stored transitions per state of the class: a hub is dear to visit.
MOST_READS_PER_STATE = 100


@kernel
def busiest_states(rows: Sparse, class_start: Ints, members: Ints) -> Ints:
    """Return, for each recurrent class, where a walk spent most time once it had stopped discovering.

    Parameters
    ----------
    rows : Sparse
        Transitions.
    class_start, members : int arrays
        ``members[class_start[c]:class_start[c + 1]]`` are the states of class c.

    Returns
    -------
    (classes,) int array
    """
    num_states = len(rows.indptr) - 1
    roots = np.empty(len(class_start) - 1, np.int64)
    seen = np.zeros(num_states, np.int64)
    time = np.zeros(num_states)
    seed = 1
    for c in range(len(roots)):
        state = members[class_start[c]]
        size = class_start[c + 1] - class_start[c]
        roots[c] = state
        steps, used, lap, known = 64, 0, 1, 0
        # Each lap is twice as long as the one before, until much of it is spent on known ground.
        while size > 1 and used < MOST_READS_PER_STATE * size and known < 0.3 * steps:
            steps, lap, known = 2 * steps, lap + 1, 0
            most = -1.0
            for _ in range(steps):
                state, held, seed = next_state(rows, state, seed)
                used += rows.indptr[state + 1] - rows.indptr[state]
                if used >= MOST_READS_PER_STATE * size:
                    break
                if seen[state] // 2 != lap:
                    # Remember the lap, and in the last bit whether the lap before had been here too.
                    seen[state] = 2 * lap + (1 if seen[state] // 2 == lap - 1 else 0)
                    time[state] = 0.0
                known += seen[state] % 2
                time[state] += held
                if time[state] > most:
                    most = time[state]
                    roots[c] = state
    return roots


@kernel
def next_state(rows: Sparse, state: int, seed: int) -> tuple[int, float, int]:
    """Leave `state`; return the new state, the mean time that is spent there, and the next seed."""
    seed = seed * 48271 % 2147483647
    target = seed / 2147483647.0 * exit_probability(rows, state)
    reached = state
    for entry in range(rows.indptr[state], rows.indptr[state + 1]):
        if rows.indices[entry] != state:
            reached = rows.indices[entry]
            target -= rows.data[entry]
            if target < 0.0:
                break
    return reached, 1.0 / exit_probability(rows, reached), seed


@kernel
def exit_probability(rows: Sparse, state: int) -> float:
    """Return the probability of leaving `state`, as a sum: one minus that of staying would round."""
    total = 0.0
    for entry in range(rows.indptr[state], rows.indptr[state + 1]):
        if rows.indices[entry] != state:
            total += rows.data[entry]
    return total
