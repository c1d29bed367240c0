"""Sparse random chains that mix in a few steps, so that the series of powers can be summed."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from .lattices import built_from_bias
from .record import ExactChain, Matrix, Wide, from_entries, wide


def random_sparse(num_states: int, rng: np.random.Generator, degree: int = 8) -> ExactChain:
    """Random targets with dyadic weights, a step round the ring for irreducibility, and an integer bias."""
    transitions = random_dyadic_transitions(num_states, rng, degree)
    return built_from_bias(transitions, settled_law(transitions), rng.integers(0, 1000, num_states), 0.125)


def random_dyadic_transitions(num_states: int, rng: np.random.Generator, degree: int = 8) -> csr_array:
    """Every row goes to its successor and to ``degree - 1`` random states, and stays with what is left."""
    states = np.arange(num_states)
    targets = rng.integers(0, num_states, (degree, num_states))
    targets[0] = np.roll(states, -1)
    weights = rng.integers(4, 9, (degree, num_states)) / (8 * degree)
    return from_entries([states] * degree, list(targets), list(weights), num_states)


def settled_law(transitions: Matrix) -> Wide:
    """The law of a fast mixing chain by powers, first in double precision and then in extended precision."""
    law = wide(np.full(transitions.shape[0], 1 / transitions.shape[0]))
    for precision in (np.float64, np.longdouble):
        law = _settled(csr_array(transitions.T).astype(precision), law.astype(precision))
    return wide(law)


def _settled(backwards: csr_array, law: np.ndarray) -> np.ndarray:
    smallest_change = 4 * np.finfo(law.dtype).eps
    for _ in range(2000):
        following = backwards @ law
        following /= following.sum()
        if np.abs(following - law).max() <= smallest_change * law.max():
            return following
        law = following
    raise AssertionError("the chain does not mix fast enough for this oracle")


def series_answer(transitions: Matrix, rewards: ArrayLike) -> tuple[Wide, Wide, Wide]:
    """Law, gain and bias of a fast mixing chain in extended precision; W is the sum of ``P**t (R - g)``."""
    forwards = csr_array(transitions).astype(np.longdouble)
    law = settled_law(transitions)
    gain = (law * wide(rewards)).sum()
    term = wide(rewards) - gain
    bias = np.zeros_like(term)
    while np.abs(term).max() > np.finfo(np.longdouble).eps * np.abs(bias).max():
        bias += term
        term = forwards @ term
        term -= (law * term).sum()
    return law, gain, bias
