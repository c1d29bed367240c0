"""Checks of definitions and equations: chains, norms, values, the projected equation and the mean updates.

Each function returns by how much an equation is missed on a case, or the ratio of the sides of an inequality.
With `wrong` it does so for a wrong version of the equation.
"""

from __future__ import annotations

import math

import numpy as np

from gainbias.algorithms.algorithm import NoParams, Sample
from gainbias.algorithms.double_chain import sample_field
from gainbias.algorithms.fields import paper_field
from gainbias.theory.bounds.comparisons import average_markov
from gainbias.theory.bounds.double_chain import markov_constant
from gainbias.theory.bounds.facts import Facts, mixing_constants
from gainbias.theory.statements.cases import ChainCase, edge_case
from gainbias.theory.statements.statement import Refutation, missed, over
from gainbias.types import Floats

DOUBLINGS = 18
"""Powers and sums are taken to 2^18 steps, after which all cases have forgotten where they began."""


def ergodic(case: ChainCase, wrong: bool) -> float:
    """Powers of the chain tend to e mu^T with mu > 0; wrong: for a chain of period 2, too."""
    chain, law = case.P, case.mu
    if wrong:
        empty = np.zeros_like(chain)
        chain, law = np.block([[empty, chain], [chain, empty]]), np.tile(law, 2) / 2
    power = np.linalg.matrix_power(chain, 2**DOUBLINGS)
    return max(missed(power, np.tile(law, (len(law), 1))), 0.0 if law.min() > 0 else math.inf)


def geometric_mixing(case: ChainCase, wrong: bool) -> float:
    """The distance from mu after t steps is at most C beta^t; wrong: with beta^(2 t)."""
    C, beta = mixing_constants(case.problem)
    power, worst = np.eye(case.n), 0.0
    for t in range(60):
        distance = float(np.abs(power - case.mu).sum(axis=1).max())
        worst = max(worst, over(distance - 1e-13, C * math.pow(beta, 2 * t if wrong else t)))
        power = power @ case.P
    return worst


def relative_values(case: ChainCase, wrong: bool) -> float:
    """The sum of (P^k - e mu^T) R is the bias, of mean 0; wrong: the sum begins with k = 1."""
    limit = np.tile(case.mu, (case.n, 1))
    power, total = case.P, case.R - limit @ case.R
    centred = total.copy()
    for _ in range(DOUBLINGS):
        total = total + (power - limit) @ total
        power = power @ power
    found = total - centred if wrong else total
    size = max(float(np.abs(case.R).max()), 1e-300)
    bias = case.problem.solution.bias
    off = float(np.abs(found - bias).max()) / max(float(np.abs(bias).max()), size)
    return max(off, abs(float(case.mu @ found)) / size)


def stationary_norm(case: ChainCase, wrong: bool) -> float:
    """The D-norm weighs squares by mu; wrong: evenly."""
    f = case.rng.normal(size=case.n)
    weights = np.full(case.n, 1.0 / case.n) if wrong else case.mu
    return missed(case.problem.stationary_norm(f) ** 2, float(weights @ f**2))


def dirichlet_norm(case: ChainCase, wrong: bool) -> float:
    """Half the mean squared change in a step is f^T D (I - P) f; wrong: without the half."""
    f = case.rng.normal(size=case.n)
    squares = (case.mu[:, None] * case.P * (f[:, None] - f) ** 2).sum()
    total = (1.0 if wrong else 0.5) * squares
    return max(missed(case.problem.dirichlet_norm(f) ** 2, total), missed(f @ case.drift @ f, total))


def bellman_equation(case: ChainCase, wrong: bool) -> float:
    """W* = Pi (R + P W*) has one solution, the bias; wrong: without Pi."""
    Pi = np.eye(case.n) if wrong else case.Pi
    bias = case.problem.solution.bias
    system = np.eye(case.n) - Pi @ case.P
    if wrong:
        return missed(bias, case.R + case.P @ bias)
    return missed(np.asarray(np.linalg.solve(system, Pi @ case.R), dtype=np.float64), bias)


def bias_equation(case: ChainCase, wrong: bool) -> float:
    """D (R + P W* - W*) - mu mu^T (R + W*) = 0; wrong: the second term is added."""
    bias, sign = case.problem.solution.bias, 1.0 if wrong else -1.0
    term = case.mu * (case.mu @ (case.R + bias))
    return _relative(case.D @ (case.R + case.P @ bias - bias) + sign * term, case)


def expected_update(case: ChainCase, wrong: bool) -> float:
    """Repeating the expected tabular update finds the bias with small steps; wrong: the term in mu is added.

    With steps eta / |M|^2 the distance shrinks by sqrt(1 - (eta / |M|)^2) at least in each step.
    """
    M = case.drift + (-1.0 if wrong else 1.0) * np.outer(case.mu, case.mu)
    lowest = float(np.linalg.eigvalsh(0.5 * (M + M.T))[0])
    size = float(np.linalg.norm(M, 2))
    eta = abs(lowest)
    step = np.eye(case.n) - eta / size**2 * M
    return over(float(np.linalg.norm(step, 2)) ** 2, 1.0 - (eta / size) ** 2)


def stochastic_update(case: ChainCase, wrong: bool, tabular: bool = False) -> float:
    """The double-chain step is right in the mean; wrong: the second state is the first one again."""
    matrix, force = _mean_step(case, wrong, np.eye(case.n) if tabular else case.Phi)
    if not tabular:
        field = paper_field(case.problem)
        expected, right = field.matrix, field.vector
    else:
        expected = case.drift + np.outer(case.mu, case.mu)
        right = case.D @ case.R - case.mu * (case.mu @ case.R)
    return max(missed(matrix, expected), missed(force, right) * _matters(right, case))


def _matters(vector: Floats, case: ChainCase) -> float:
    """Return 0 for a vector that is rounding beside the rewards, such that it is not compared relatively."""
    return float(np.abs(vector).max() > 1e-9 * max(case.r_max, 1e-300))


def tabular_update(case: ChainCase, wrong: bool) -> float:
    """The same as `stochastic_update` for one feature a state."""
    return stochastic_update(case, wrong, tabular=True)


def _mean_step(case: ChainCase, same_state: bool, rows: Floats) -> tuple[Floats, Floats]:
    """Return the mean matrix and force of the double-chain step over all transitions and second states."""
    matrix, force = np.zeros((rows.shape[1],) * 2), np.zeros(rows.shape[1])
    for s in range(case.n):
        for after in range(case.n):
            for other in range(case.n):
                second = s if same_state else other
                sample = Sample(rows[s], rows[after], case.R[s], rows[second], rows[second], case.R[second])
                X, y = sample_field(sample, NoParams(), 1.0)
                chance = case.mu[s] * case.P[s, after] * case.mu[other]
                matrix += chance * X
                force += chance * y
    return matrix, force


def projected_equation(case: ChainCase, wrong: bool) -> float:
    """Phi theta* = Pi_D Pi (R + P Phi theta*); wrong: without Pi_D, as in the section on the radius."""
    gram = case.Phi.T @ case.D @ case.Phi
    projection = case.Phi @ np.linalg.solve(gram, case.Phi.T @ case.D)
    values = case.Phi @ case.theta
    after = case.Pi @ (case.R + case.P @ values)
    return _relative(values - (after if wrong else projection @ after), case)


def _relative(missing: Floats, case: ChainCase) -> float:
    return float(np.abs(missing).max() / max(case.r_max, np.abs(case.problem.solution.bias).max(), 1e-300))


def fixed_point_equation(case: ChainCase, wrong: bool) -> float:
    """Phi^T D (I - Pi P) Phi theta* = Phi^T D Pi R; wrong: R in place of Pi R."""
    right = case.Phi.T @ case.D @ (case.R if wrong else case.Pi @ case.R)
    return _relative(case.matrix @ case.theta - right, case)


def unique_fixed_point(case: ChainCase, wrong: bool) -> float:
    """The least singular value of the equation is at least eta > 0; wrong: at least 1.2 eta."""
    least = float(np.linalg.svd(case.matrix, compute_uv=False)[-1])
    residual = fixed_point_equation(case, False)
    return max(over((1.2 if wrong else 1.0) * case.eta, least), 0.0 if residual < 1e-9 else math.inf)


def update_terms(case: ChainCase, wrong: bool) -> float:
    """One step is f + g at every transition; wrong: f has the opposite sign."""
    theta, worst = case.rng.normal(size=case.d), 0.0
    for s in range(case.n):
        for after in range(case.n):
            for other in range(case.n):
                rows = case.Phi[[s, after, other]]
                X, y = sample_field(
                    Sample(rows[0], rows[1], case.R[s], rows[2], rows[2], 0.0), NoParams(), 1.0
                )
                f = -(case.R[s] + rows[0] @ theta) * rows[2]
                g = (case.R[s] + rows[1] @ theta - rows[0] @ theta) * rows[0]
                found, right = y - X @ theta, (g - f if wrong else f + g)
                size = max(float(np.abs(f).max() + np.abs(g).max()), 1e-300)
                worst = max(worst, float(np.abs(found - right).max()) / size)
    return worst


def mean_field(case: ChainCase, wrong: bool) -> float:
    """The mean update in its two forms, by theta and by theta - theta*; wrong: the sign of one term."""
    theta = case.rng.normal(size=case.d)
    away, sign = theta - case.theta, 1.0 if wrong else -1.0
    values = case.Phi @ theta
    first = -case.mean * (case.mu @ (case.R + values))
    first = first + case.Phi.T @ case.D @ (case.R + case.P @ values - values)
    second = sign * case.mean * (case.mean @ away) - case.Phi.T @ case.drift @ case.Phi @ away
    return missed(first, second)


def gradient_splitting(case: ChainCase, wrong: bool) -> float:
    """<theta, h> is half of <theta, gradient of |Phi theta|_Dir^2>, and the norm; wrong: without the half."""
    theta = case.rng.normal(size=case.d)
    h = case.Phi.T @ case.drift @ case.Phi @ theta
    gradient = case.Phi.T @ (case.drift + case.drift.T) @ case.Phi @ theta
    norm = case.problem.dirichlet_norm(case.Phi @ theta) ** 2
    if np.ptp(case.Phi @ theta) < 1e-9:  # constant values: all sides are 0
        return 0.0
    return max(missed(theta @ h, (1.0 if wrong else 0.5) * (theta @ gradient)), missed(norm, theta @ h))


def splitting_picture(case: ChainCase, wrong: bool) -> float:
    """2 h and the gradient of f project alike on theta - theta*; wrong: h and the gradient."""
    away = case.rng.normal(size=case.d)
    gradient = (case.matrix + case.matrix.T) @ away
    return missed((1.0 if wrong else 2.0) * (away @ case.matrix @ away), away @ gradient)


def noisy_step(case: ChainCase, wrong: bool) -> float:
    """The mean square after a step along h is that along the gradient, but for alpha^2; wrong: twice that."""
    rng, alpha = case.rng, 0.1
    away, noise = rng.normal(size=case.d), rng.normal(size=(4, case.d))
    noise = noise - noise.mean(axis=0)
    h, gradient = case.matrix @ away, (case.matrix + case.matrix.T) @ away
    squared = np.mean([np.sum((away - alpha * (h + w)) ** 2) for w in noise])
    second = alpha**2 * (h @ h + np.mean(np.sum(noise**2, axis=1)))
    return missed(squared, away @ away - (2.0 if wrong else 1.0) * alpha * (gradient @ away) + second)


def one_chain_terms(case: ChainCase, wrong: bool) -> float:
    """With w = phi(s^) the single-chain update is the double-chain one; wrong: w has the opposite sign."""
    theta, worst = case.rng.normal(size=case.d), 0.0
    for s in range(case.n):
        for after in range(case.n):
            for other in range(case.n):
                here, there, w = case.Phi[s], case.Phi[after], (-1.0 if wrong else 1.0) * case.Phi[other]
                single = (case.R[s] + (there - here) @ theta) * here - (case.R[s] + here @ theta) * w
                X, y = sample_field(Sample(here, there, case.R[s], case.Phi[other], w, 0.0), NoParams(), 1.0)
                size = max(float(np.abs(single).max()), case.r_max, float(np.abs(theta).max()))
                worst = max(worst, float(np.abs(single - (y - X @ theta)).max()) / size)
    return worst


def one_chain_mean(case: ChainCase, wrong: bool) -> float:
    """The means of f and g of single chain at any w and theta; wrong: the term in w is added."""
    theta, w = case.rng.normal(size=(2, case.d))
    values = case.Phi @ theta
    mean = sum(
        case.mu[s] * case.P[s, after] * one_chain_update(case, s, after, w, theta)
        for s in range(case.n)
        for after in range(case.n)
    )
    bar = case.Phi.T @ case.D @ (case.R + case.P @ values - values)
    bar = bar + (1.0 if wrong else -1.0) * (case.mu @ (case.R + values)) * w
    return missed(mean, bar)


def one_chain_mean_of_features(case: ChainCase, wrong: bool) -> float:
    """The mean of phi(s) - w is w* - w; wrong: w* is the plain average of the rows."""
    w = case.rng.normal(size=case.d)
    target = case.Phi.mean(axis=0) if wrong else case.mean
    return missed(case.mu @ (case.Phi - w), target - w)


def one_chain_update(case: ChainCase, s: int, after: int, w: Floats, theta: Floats) -> Floats:
    """Return g(s, s', w, theta) of single chain."""
    here, there = case.Phi[s], case.Phi[after]
    return np.asarray((case.R[s] + (there - here) @ theta) * here - (case.R[s] + here @ theta) * w)


def one_chain_rest(case: ChainCase, wrong: bool) -> float:
    """The mean update of single chain is 0 at (w*, theta*); wrong: at w = 0."""
    w = np.zeros(case.d) if wrong else case.mean
    values = case.Phi @ case.theta
    bar = case.Phi.T @ case.D @ (case.R + case.P @ values - values) - (case.mu @ (case.R + values)) * w
    return _relative(bar, case)


def drift_constants(case: ChainCase, wrong: bool) -> float:
    """B and G as `gb.bound` uses them; wrong: B has |theta_0 - theta*| once."""
    first = case.rng.normal(size=case.d)
    found = markov_constant(Facts(case.problem, first), 0.5, 10).constants
    c, error = case.r_max + case.length, float(np.linalg.norm(first - case.theta))
    B = (1.0 if wrong else 2.0) * error + c
    return max(missed(found["B"], B), missed(found["G"], 42.0 * B**2 + 30.0 * c**2))


def reward_average(case: ChainCase, wrong: bool) -> float:
    """T E(r_T - g)^2 is bounded, by 4 r_max^2 (1 + C / (1 - beta)); wrong: T^2 E(r_T - g)^2 is."""
    limit, worst = average_markov(Facts(case.problem, np.zeros(case.d)), 1).theorem_value, 0.0
    centred = case.R - case.mu @ case.R
    # For every first state: probabilities, mean and mean square of the sum so far, by the state reached.
    chance, first, second = np.eye(case.n), np.zeros((case.n, case.n)), np.zeros((case.n, case.n))
    for t in range(1, 301):
        second = (second + 2.0 * first * centred + chance * centred**2) @ case.P
        first = (first + chance * centred) @ case.P
        chance = chance @ case.P
        error = float(second.sum(axis=1).max()) / t**2
        worst = max(worst, over(error * (t**2 if wrong else t), limit))
    return worst


def state_known(case: ChainCase, wrong: bool) -> float:
    """theta_t follows from the states up to s_t; wrong: from those up to s_(t-1), as printed."""
    theta, rows, worst = case.rng.normal(size=case.d), case.Phi, 0.0
    for s in range(case.n):
        steps = [
            (y - X @ theta)
            for after in range(case.n)
            for X, y in [
                sample_field(Sample(rows[s], rows[after], case.R[s], rows[0], rows[0], 0.0), NoParams(), 1.0)
            ]
        ]
        again = steps if wrong else steps[:1] * len(steps)
        worst = max(worst, max(missed(steps[0], step) for step in again))
    return worst


def state_not_known() -> Refutation:
    """Two paths that agree up to s_0 and give different theta_1."""
    case = edge_case("two states that swap")
    found = state_known(case, wrong=True)
    return Refutation(
        found, 0.0, "states s_0 = 0 and then s_1 = 0 or 1: theta_1 differs, relative to its size"
    )
