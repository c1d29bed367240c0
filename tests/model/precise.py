"""Condition numbers of small problems by their definitions, in 300-bit arithmetic."""

import flint
import numpy as np
from flint import arb, arb_mat

BITS = 300


def precise_condition_numbers(transitions, phi, ones_weights=None):
    """Return a dict of condition numbers, and 1 - omega^2, correct to the last bit of a double.

    The diagonal of the chain is read as what the other entries leave to 1. `ones_weights`, shape (d,), are
    exact weights whose values are 1 in every state, if they exist.
    """
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    try:
        return _numbers(np.asarray(transitions), np.asarray(phi), ones_weights)
    finally:
        flint.ctx.prec = before


def _numbers(transitions, phi, ones_weights):
    n, d = phi.shape
    leave = _matrix(-transitions * (1 - np.eye(n)))
    for i in range(n):
        leave[i, i] = -sum((leave[i, j] for j in range(n) if j != i), arb(0))
    law = _stationary(leave)
    weights, ones = _diagonal(law), _matrix(np.ones((n, 1)))
    step = _diagonal([arb(1)] * n) - leave
    back = _diagonal([1 / p for p in law]) * step.transpose() * weights
    mean = arb_mat(n, 1, law)
    features = _matrix(phi)
    flow = weights * leave
    dirichlet = features.transpose() * (flow + flow.transpose()) * features * arb(0.5)
    average = features.transpose() * mean
    both = ones * mean.transpose()
    gap = _lowest((_diagonal([arb(2)] * n) - step - back) * arb(0.5) + both * 10)
    lost = _lowest(_diagonal([arb(1)] * n) - back * step + both * 10)
    gram_min = _lowest(features.transpose() * weights * features)
    return {
        "eta1": float(_lowest(dirichlet + average * average.transpose())),
        "eta2": float(_lowest(dirichlet))
        if ones_weights is None
        else _lowest_across(dirichlet, ones_weights),
        "eta2_literal": _lowest_across(dirichlet, np.ones(d)),
        "eta3": float(gram_min * gap),
        "gram_min": float(gram_min),
        "omega": float((1 - lost).sqrt()),
        "loss": float(lost),
    }


def _stationary(leave):
    """The law, from the balance equations, the last of which is given up for the sum."""
    n = leave.nrows()
    balance = leave.transpose()
    for j in range(n):
        balance[n - 1, j] = arb(1)
    answer = balance.solve(arb_mat(n, 1, [arb(0)] * (n - 1) + [arb(1)]))
    return [answer[i, 0] for i in range(n)]


def _lowest_across(matrix, normal):
    """The minimum over vectors orthogonal to `normal`, which is itself lifted out of the way."""
    if len(normal) == 1:
        return np.inf
    vector = _matrix(np.asarray(normal, dtype=float)[:, None])
    away = vector * vector.transpose() * (1 / (vector.transpose() * vector)[0, 0])
    keep = _diagonal([arb(1)] * matrix.nrows()) - away
    return float(_lowest(keep * matrix * keep + away * (matrix.trace() + 1)))


def _lowest(matrix):
    values = flint.acb_mat(matrix).eig(algorithm="approx")
    return min((value.real for value in values), key=float)


def _matrix(values):
    rows, columns = values.shape
    return arb_mat(rows, columns, [arb(float(x)) for x in values.ravel()])


def _diagonal(values):
    n = len(values)
    matrix = arb_mat(n, n)
    for i, value in enumerate(values):
        matrix[i, i] = value
    return matrix
