"""A chain on which every constant can be computed by hand.

Two states that swap with probability 0.9, rewards 1 and 0, one feature, which is 1 in the first state. Then
mu = (1/2, 1/2), the gain is 1/2, after t steps the L1 distance from mu is 0.8^t, and with |.|_Dir and D:

    eta   = 0.45 + 1/4 = 0.7              (half of 2 (1/2) 0.9 1^2, and (mu^T Phi)^2)
    theta* = (1/2) (1 - 1/2) / 0.7 = 5/14
    omega = 0.8,  smallest eigenvalue of Phi^T D Phi = 1/2
"""

from itertools import product

import numpy as np

import gainbias as gb

ETA, LENGTH, R_MAX = 0.7, 5 / 14, 1.0


def flipping(rewards=(1.0, 0.0), features=((1.0,), (0.0,))):
    return gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], rewards), features)


def tau(level):
    """First t >= 1 with 0.8^t <= level."""
    t = 1
    while 0.8**t > level:
        t += 1
    return t


def exact_errors(problem, alpha, steps, target, update, sampling="iid"):
    """E|theta_t - target|^2 for t = 0, ..., steps from theta = 0, by the recursion of second moments.

    `update(phi, r, s, after, other)` returns X and y of theta <- theta + alpha (y - X theta). If chains are
    followed, both start in state 0.
    """
    phi, r = problem.features.matrix, problem.mrp.rewards
    transitions, mu = problem.mrp.csr.toarray(), problem.solution.stationary
    n, m = problem.mrp.num_states, problem.num_features + 1
    states = range(n)
    moves = []  # probability, node before, node after, matrix
    for s, after, other, other_after in product(states, repeat=4):
        X, y = update(phi, r, s, after, other)
        matrix = np.eye(m)
        matrix[:-1, :-1] -= alpha * X
        matrix[:-1, -1] += alpha * y
        chance = transitions[s, after] * transitions[other, other_after]
        if sampling == "iid":
            moves.append((mu[s] * mu[other] * chance, 0, 0, matrix))
        else:
            moves.append((chance, s * n + other, after * n + other_after, matrix))
    seconds = np.zeros((n * n, m, m))
    seconds[0, -1, -1] = 1.0
    shifted = np.append(np.eye(m - 1), -np.reshape(target, (-1, 1)), axis=1)  # theta - target
    errors = [float(np.trace(shifted @ seconds.sum(axis=0) @ shifted.T))]
    for _ in range(steps):
        moved = np.zeros_like(seconds)
        for chance, before, after, matrix in moves:
            moved[after] += chance * matrix @ seconds[before] @ matrix.T
        seconds = moved
        errors.append(float(np.trace(shifted @ seconds.sum(axis=0) @ shifted.T)))
    return errors


def double_chain(phi, r, s, after, other):
    """The update of double-chain TD."""
    return (
        np.outer(phi[s], phi[s] - phi[after]) + np.outer(phi[other], phi[s]),
        r[s] * phi[s] - r[s] * phi[other],
    )
