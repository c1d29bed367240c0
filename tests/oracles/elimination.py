"""Slow and plain twins of the elimination: the rule as it is written, on dense matrices."""

from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat

from .record import Floats


def to_rational(x: float) -> fmpq:
    """The exact value of a float."""
    return fmpq(*x.as_integer_ratio())


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


def exact_leaking_solution(transitions: Floats, leak: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Solutions of ``M x = right`` and of ``x M = right`` in rationals, rounded at the end."""
    n = len(leak)
    matrix = fmpq_mat(n, n)
    for i in range(n):
        leaving = to_rational(float(leak[i]))
        for j in range(n):
            if j != i:
                rate = to_rational(float(transitions[i, j]))
                matrix[i, j] = -rate
                leaving += rate
        matrix[i, i] = leaving
    side = fmpq_mat(n, 1, [to_rational(float(x)) for x in right])
    solutions = (matrix.solve(side), matrix.transpose().solve(side))
    return tuple(np.array([int(x.p) / int(x.q) for x in solution.entries()]) for solution in solutions)


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
