"""Slow and plain twins of the elimination: the rule as it is written, on dense matrices."""

from fractions import Fraction

import numpy as np

from .record import Floats


def naive_elimination(transitions: Floats, leak: Floats, count: int) -> tuple[Floats, Floats]:
    """Eliminate the first `count` states one by one; multipliers stay below the diagonal, exits on it."""
    front, leak = transitions.copy(), leak.copy()
    size = len(leak)
    for p in range(count):
        leaving = leak[p]
        for j in range(p + 1, size):
            leaving += front[p, j]
        front[p, p] = leaving
        for i in range(p + 1, size):
            front[i, p] /= leaving
            leak[i] += front[i, p] * leak[p]
            for j in range(p + 1, size):
                front[i, j] += front[i, p] * front[p, j]
    return front, leak


def leaking_matrix(transitions: Floats, leak: Floats) -> Floats:
    """The matrix ``M = diag(exit) - P`` whose diagonal is the sum of everything that leaves."""
    matrix = -transitions.copy()
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, leak - matrix.sum(axis=1))
    return matrix


def naive_fill(graph: Floats, order: list[int]) -> list[set[int]]:
    """Later positions that each position touches when states are eliminated in `order`."""
    position = {state: k for k, state in enumerate(order)}
    touched = [{position[j] for j in np.flatnonzero(graph[state])} for state in order]
    for k in range(len(order)):
        later = {i for i in touched[k] if i > k}
        for i in later:
            touched[i] |= later - {i}
        touched[k] = later
    return touched


def exact_residual(transitions: Floats, rewards: Floats, gain: float, bias: Floats) -> list[Fraction]:
    """``R - g - (W - P W)`` in rationals, from the off-diagonal entries."""
    n = len(rewards)
    residual = []
    for i in range(n):
        total = Fraction(float(rewards[i])) - Fraction(float(gain))
        for j in range(n):
            if j != i:
                step = Fraction(float(bias[j])) - Fraction(float(bias[i]))
                total += Fraction(float(transitions[i, j])) * step
        residual.append(total)
    return residual
