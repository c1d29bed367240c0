"""The mean squared error along a chain after any number of constant steps, in 400-bit arithmetic."""

import flint
import numpy as np
from flint import arb, arb_mat

import gainbias as gb
from gainbias.theory.curve.enumeration import move_law

BITS = 400


def precise_error(name, problem, step_size, num_steps):
    """Return E|theta_t - limit|^2, from the power of the matrix of one step of all second moments.

    The step is that of every possible move, z <- M z with z = (theta - limit, other fields, 1). All declared
    fields start at 0.
    """
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    try:
        return _error(gb.ALGORITHMS[name], problem, step_size, num_steps)
    finally:
        flint.ctx.prec = before


def _error(algorithm, problem, step_size, num_steps):
    law, d = move_law(problem, algorithm.chains, "markov"), problem.num_features
    declared, params = algorithm.declared, algorithm.params()
    limit = declared.limit(problem, params, np.zeros(d))
    size = 0
    blocks = {}
    for u, v, probability, sample in zip(
        law.source, law.target, law.probability, law.samples(problem), strict=True
    ):
        matrix, vector = declared.sample_field(sample, params, step_size)
        size = len(vector) + 1
        origin = np.zeros(size - 1)
        origin[:d] = limit
        move = _move(matrix, vector, origin, step_size)
        twice = _kron(move, move) * arb(float(probability))
        blocks[v, u] = blocks.get((v, u), arb_mat(size**2, size**2)) + twice
    count = len(law.first)
    whole = arb_mat(count * size**2, count * size**2)
    for (v, u), block in blocks.items():
        for i in range(size**2):
            for j in range(size**2):
                whole[v * size**2 + i, u * size**2 + j] = block[i, j]
    z = [-arb(float(x)) for x in origin] + [arb(1)]
    begin = [arb(float(p)) * a * b for p in law.first for a in z for b in z]
    end = whole**num_steps * arb_mat(len(begin), 1, begin)
    return float(sum((end[u * size**2 + i * (size + 1), 0] for u in range(count) for i in range(d)), arb(0)))


def _move(matrix, vector, origin, step_size):
    """Return M with z <- M z."""
    size = len(vector) + 1
    move = arb_mat(size, size)
    for i in range(size - 1):
        shift = arb(float(vector[i]))
        for j in range(size - 1):
            move[i, j] = arb(int(i == j)) - arb(step_size) * arb(float(matrix[i, j]))
            shift -= arb(float(matrix[i, j])) * arb(float(origin[j]))
        move[i, size - 1] = arb(step_size) * shift
    move[size - 1, size - 1] = arb(1)
    return move


def _kron(one, two):
    rows, columns = one.nrows(), two.nrows()
    found = arb_mat(rows * columns, rows * columns)
    for i in range(rows):
        for k in range(columns):
            for j in range(rows):
                for m in range(columns):
                    found[i * columns + k, j * columns + m] = one[i, j] * two[k, m]
    return found
