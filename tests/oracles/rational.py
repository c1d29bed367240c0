"""The exact answer of a small chain in rational numbers."""

from dataclasses import dataclass

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import ArrayLike

from .record import Floats


@dataclass(frozen=True)
class RationalAnswer:
    """The answer rounded once, at the very end."""

    stationary: Floats
    gain: float
    bias: Floats
    asymptotic_variance: float


def rational_answer(transitions: ArrayLike, rewards: ArrayLike) -> RationalAnswer:
    """Solve a unichain model exactly, its diagonal read as one minus the sum of the off-diagonal entries.

    Rewards of transitions, an (n, n) matrix, are averaged with the probabilities as they stand, diagonal too.
    """
    away, stored = _fractions(transitions), _fractions(transitions)
    given = np.asarray(rewards, dtype=np.float64)
    earned = _fractions(given if given.ndim == 2 else np.tile(given[:, np.newaxis], len(given)))
    n = len(earned)
    reward = [_dot(stored[i], earned[i]) if given.ndim == 2 else earned[i][0] for i in range(n)]
    for i in range(n):
        away[i][i] = fmpq(0)
    laplacian = [[-away[i][j] for j in range(n)] for i in range(n)]
    for i in range(n):
        laplacian[i][i] = sum(away[i], fmpq(0))

    law = _stationary(laplacian)
    gain = _dot(law, reward)
    excess = [value - gain for value in reward]
    # The equations of the bias depend on each other through the law: that of a recurrent state is given up,
    # and the bias there is zero until it is centred.
    spare = max(range(n), key=lambda i: _rounded(law[i]))
    system = [laplacian[i] if i != spare else [fmpq(int(j == spare)) for j in range(n)] for i in range(n)]
    relative = _solve(system, [excess[i] if i != spare else fmpq(0) for i in range(n)])
    mean = _dot(law, relative)
    bias = [value - mean for value in relative]

    # The sum of all autocovariances.
    variance = 2 * _dot(law, [x * w for x, w in zip(excess, bias, strict=True)]) - _dot(
        law, [x * x for x in excess]
    )
    if given.ndim == 2:
        # Now and later: what a step brings, with its square and with the bias of where it leads.
        variance = fmpq(0)
        for i in range(n):
            brings = [value - gain for value in earned[i]]
            terms = [x * (x + 2 * w) for x, w in zip(brings, bias, strict=True)]
            variance += law[i] * _dot(stored[i], terms)
    return RationalAnswer(
        np.array([_rounded(p) for p in law]),
        _rounded(gain),
        np.array([_rounded(w) for w in bias]),
        _rounded(variance),
    )


def _stationary(laplacian: list[list[fmpq]]) -> list[fmpq]:
    n = len(laplacian)
    balance = [[laplacian[i][j] for i in range(n)] for j in range(n)]
    balance[-1] = [fmpq(1)] * n
    return _solve(balance, [fmpq(0)] * (n - 1) + [fmpq(1)])


def _solve(system: list[list[fmpq]], target: list[fmpq]) -> list[fmpq]:
    n = len(target)
    matrix = fmpq_mat(n, n, [entry for row in system for entry in row])
    answer = matrix.solve(fmpq_mat(n, 1, target))
    return [answer[i, 0] for i in range(n)]


def _dot(left: list[fmpq], right: list[fmpq]) -> fmpq:
    return sum((a * b for a, b in zip(left, right, strict=True)), fmpq(0))


def _fractions(matrix: ArrayLike) -> list[list[fmpq]]:
    dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix, dtype=np.float64)
    return [[_fraction(value) for value in row] for row in dense]


def _fraction(value: float) -> fmpq:
    return fmpq(*float(value).as_integer_ratio())


def _rounded(value: fmpq) -> float:
    # True division of Python's integers is correctly rounded.
    return int(value.numerator) / int(value.denominator)
