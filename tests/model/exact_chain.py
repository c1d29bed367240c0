"""Small chains in rational numbers: hitting times, discounted values and values over a horizon.

The diagonal of a chain is read as what the other entries of the row leave to 1, as in the package.
"""

import numpy as np
from flint import fmpq, fmpq_mat


def fraction(value):
    return fmpq(*float(value).as_integer_ratio())


def as_float(value):
    return int(value.p) / int(value.q)  # the division of integers rounds once


def exact_chain(mrp):
    """Return the transitions as rows of fractions."""
    chain = [[fraction(p) for p in row] for row in mrp.csr.toarray()]
    for i, row in enumerate(chain):
        row[i] = fmpq(0)
        row[i] = 1 - sum(row, fmpq(0))
    return chain


def solve_exactly(system, *rights):
    """Return the solutions for several right sides."""
    n = len(system)
    matrix = fmpq_mat(n, n, [entry for row in system for entry in row])
    answer = matrix.solve(fmpq_mat(n, len(rights), [right[i] for i in range(n) for right in rights]))
    return [[answer[i, k] for i in range(n)] for k in range(len(rights))]


def dot(left, right):
    return sum((a * b for a, b in zip(left, right, strict=True)), fmpq(0))


def identity_minus(chain, states, factor=1):
    return [[int(i == j) - factor * chain[i][j] for j in states] for i in states]


def exact_times(mrp, targets, inside):
    """Return mean and variance by the first two moments, for states that reach the targets for certain."""
    chain, rate = exact_chain(mrp), fraction(mrp.rate or 1.0)
    system = identity_minus(chain, inside)
    (mean,) = solve_exactly(system, [fmpq(1)] * len(inside))
    full = dict(zip(inside, mean, strict=True)) | dict.fromkeys(targets, fmpq(0))
    second = [1 + 2 * sum((chain[i][j] * h for j, h in full.items()), fmpq(0)) for i in inside]
    (square,) = solve_exactly(system, second)
    variance = [m - h * h for m, h in zip(square, mean, strict=True)]
    if mrp.rate is not None:
        variance = [v + h for v, h in zip(variance, mean, strict=True)]
    return [h / rate for h in mean], [v / rate**2 for v in variance]


def exact_probabilities(mrp, ones, inside):
    """Return the probability of reaching `ones` from the states `inside`; from all others it is 0."""
    chain = exact_chain(mrp)
    right = [sum((chain[i][j] for j in ones), fmpq(0)) for i in inside]
    return solve_exactly(identity_minus(chain, inside), right)[0]


def exact_gain(mrp):
    """Return the gain per step from each state, for one recurrent class or several, and the law of each."""
    chain, n = exact_chain(mrp), mrp.num_states
    rewards = [fraction(r) for r in mrp.rewards]
    gain, laws = [fmpq(0)] * n, []
    for members in mrp.structure.recurrent:
        states = members.tolist()
        balance = [list(column) for column in zip(*identity_minus(chain, states), strict=True)]
        balance[-1] = [fmpq(1)] * len(states)
        (law,) = solve_exactly(balance, [fmpq(0)] * (len(states) - 1) + [fmpq(1)])
        laws.append([dict(zip(states, law, strict=True)).get(s, fmpq(0)) for s in range(n)])
        for s in states:
            gain[s] = dot(laws[-1], rewards)
    transient = mrp.structure.transient.tolist()
    if transient:
        recurrent = [s for s in range(n) if s not in transient]
        right = [sum((chain[i][j] * gain[j] for j in recurrent), fmpq(0)) for i in transient]
        for s, g in zip(transient, solve_exactly(identity_minus(chain, transient), right)[0], strict=True):
            gain[s] = g
    return gain, laws


def exact_bias(mrp):
    """Return the gain and the bias for one recurrent class."""
    gain, (law,) = exact_gain(mrp)
    chain, n = exact_chain(mrp), mrp.num_states
    system = identity_minus(chain, range(n))
    system = [[a + p for a, p in zip(row, law, strict=True)] for row in system]
    (bias,) = solve_exactly(system, [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)])
    return gain, bias


def exact_discounted(mrp, discount):
    """Return level and remainder for a factor per step, given as a fraction."""
    gain, _ = exact_gain(mrp)
    system = identity_minus(exact_chain(mrp), range(mrp.num_states), discount)
    (remainder,) = solve_exactly(system, [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)])
    return [g / (1 - discount) for g in gain], remainder


def exact_horizon(mrp, steps):
    """Return level and remainder over a few steps."""
    gain, _ = exact_gain(mrp)
    chain, n = exact_chain(mrp), mrp.num_states
    excess = [fraction(r) - g for r, g in zip(mrp.rewards, gain, strict=True)]
    total = [fmpq(0)] * n
    for _ in range(steps):
        total = [excess[i] + dot(chain[i], total) for i in range(n)]
    return [steps * g for g in gain], total


def assert_within(found, bound, exact, scale=0.0):
    """Check each number against its bound, and that the bounds are useful: small, or near the true errors."""
    scale = max([scale, *(abs(as_float(x)) for x in exact)])
    off, allowed = [], []
    for value, limit, truth in zip(np.ravel(found), np.ravel(bound), exact, strict=True):
        error = abs(fraction(value) - truth)
        assert error <= fraction(limit), (value, limit, as_float(error))
        off.append(as_float(error))
        allowed.append(limit)
    if allowed:
        assert np.median(allowed) <= max(1e4 * np.median(off), 1e-13 * scale, 1e-300)
