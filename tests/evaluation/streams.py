"""Streams of transitions drawn from a known process."""

import numpy as np

from gainbias.engine.paths import Sampler
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import Transitions

NAMES = ("first chain", "second chain", "third chain", "fourth chain")


def observed(problem):
    """How the states of a problem are seen."""
    table = None if problem.features.kind == "tabular" else problem.features.matrix
    return ObservationMap("known", problem.num_features, table=table)


def batches(problem, steps, *, seed=0, num_chains=1, lengths=(3000,), scale=1.0, own_rows=False):
    """Batches of the given lengths, over and over; the first chain takes the path of a run with this seed.

    With `own_rows` each batch brings the rows that it visits, as an environment with continuous observations.
    """
    paths = Sampler(problem.mrp).paths([seed], chain=NAMES[:num_chains])
    table = None if problem.features.kind == "tabular" else problem.features.matrix * scale
    made, turn = 0, 0
    while made < steps:
        count = min(lengths[turn % len(lengths)], steps - made)
        drawn = paths.take(count)
        for chain in range(num_chains):
            here, after = drawn.here[chain].astype(np.int64), drawn.next[chain].astype(np.int64)
            rows = table
            if own_rows:
                rows = table[np.append(here, after[-1])]
                here, after = np.arange(count), np.arange(1, count + 1)
            segments = np.zeros(count, dtype=np.int64)
            yield Transitions(drawn.reward[chain].copy(), here, after, rows, segments, chain)
        made, turn = made + count, turn + 1


def centred(problem):
    """Values of the fixed point with mean 0, (n,)."""
    return problem.values - problem.solution.stationary @ problem.values


def dense_rows(problem):
    """Features of all states, (n, d)."""
    matrix = problem.features.matrix
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
