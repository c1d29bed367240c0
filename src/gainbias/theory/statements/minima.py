"""Checks of condition numbers, contraction and the radius of the projection.

Minima are found from dense matrices here, apart from the sparse ones of `problem.condition_numbers`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.paper import paper_numbers
from gainbias.theory.bounds.facts import mixing_constants, projection_radii
from gainbias.theory.statements.cases import ChainCase, edge_case
from gainbias.theory.statements.statement import Refutation, missed, over
from gainbias.types import Floats


def _symmetric(matrix: Floats) -> Floats:
    return np.asarray(0.5 * (matrix + matrix.T))


def _least(form: Floats, normal: Floats | None = None, weights: Floats | None = None) -> float:
    """Return the least x^T form x over x^T diag(weights) x = 1 and, if given, normal^T x = 0."""
    basis = np.eye(len(form)) if normal is None else linalg.null_space(normal[None, :])
    gram = basis.T @ (np.eye(len(form)) if weights is None else np.diag(weights)) @ basis
    if not basis.size:
        return float("inf")
    return float(linalg.eigvalsh(_symmetric(basis.T @ form @ basis), gram)[0])


def _gap(case: ChainCase) -> float:
    """Return the least y^T D (I - P) y over centred y of D-norm 1."""
    return _least(_symmetric(case.drift), case.mu, case.mu)


def eta1(case: ChainCase, wrong: bool) -> float:
    """The paper's eta is the least |Phi x|_Dir^2 + (mu^T Phi x)^2; wrong: without the second term."""
    form = case.Phi.T @ case.drift @ case.Phi
    form = form if wrong else form + np.outer(case.mean, case.mean)
    return missed(case.eta, _least(_symmetric(form)))


def eta2_order(case: ChainCase, wrong: bool) -> float:
    """If the features span the constants eta1 <= eta2, otherwise eta1 >= eta2; wrong: the other way round."""
    numbers = case.problem.condition_numbers
    if case.d == 1 and case.problem.ones_in_span:
        return 0.0  # there is nothing to take a minimum over
    in_span = case.problem.ones_in_span is not wrong
    pair = (numbers.eta1, numbers.eta2) if in_span else (numbers.eta2, numbers.eta1)
    return over(*pair)


def literal_eta2() -> Refutation:
    """A chain and features that span the constants, with eta1 above the literal eta2."""
    chain = [[0, 0.5, 0.5], [1, 0, 0], [0, 0.5, 0.5]]
    features = np.array([[0.5, 0.1], [0.5, 0.7], [0.5, 0.3]])
    numbers = Problem(MarkovRewardProcess(chain, [1.0, 0.0, 0.0]), features).condition_numbers
    return Refutation(
        numbers.eta2, numbers.eta2_literal, "eta2 of its source against the printed one, on the same features"
    )


def eta3(case: ChainCase, wrong: bool) -> float:
    """The product of the least eigenvalue of Phi^T D Phi and the gap; wrong: the gap without centring."""
    gram = _least(case.Phi.T @ case.D @ case.Phi)
    gap = _least(_symmetric(case.drift), None, case.mu) if wrong else _gap(case)
    return missed(case.problem.condition_numbers.eta3, gram * gap)


def contraction(case: ChainCase, wrong: bool) -> float:
    """Pi T is Lipschitz with omega in the D-norm, omega <= 1; wrong: with omega squared."""
    omega = float(np.sqrt(_largest_image(case)))
    first, second = case.rng.normal(size=(2, case.n))
    after = case.Pi @ case.P @ (first - second)
    worst = _worst_direction(case)
    images = [(after, first - second), (case.Pi @ case.P @ worst, worst)]
    power = 2 if wrong else 1
    ratios = [
        over(case.problem.stationary_norm(image), omega**power * case.problem.stationary_norm(before) + 1e-12)
        for image, before in images
    ]
    return max(*ratios, over(omega, 1.0), missed(case.problem.condition_numbers.omega + 1.0, omega + 1.0))


def _largest_image(case: ChainCase) -> float:
    basis = linalg.null_space(case.mu[None, :])
    image = basis.T @ case.P.T @ case.D @ case.P @ basis
    return max(0.0, float(linalg.eigvalsh(_symmetric(image), basis.T @ case.D @ basis)[-1]))


def _worst_direction(case: ChainCase) -> Floats:
    basis = linalg.null_space(case.mu[None, :])
    image = basis.T @ case.P.T @ case.D @ case.P @ basis
    return np.asarray(basis @ linalg.eigh(_symmetric(image), basis.T @ case.D @ basis)[1][:, -1])


def no_contraction() -> Refutation:
    """A chain that is irreducible and aperiodic, with omega = 1."""
    case = edge_case("no contraction in one step")
    omega = case.problem.condition_numbers.omega
    return Refutation(
        omega,
        math.nextafter(1.0, 0.0),
        "omega, said to be below 1, for rows (0, 1/2, 1/2), (1, 0, 0), (0, 1/2, 1/2)",
    )


def tabular_order(case: ChainCase, wrong: bool) -> float:
    """Tabular eta1 >= mu_min min(1, eta2 / (n mu_max |mu|^2)); wrong: without the minimum and with 2 eta2."""
    one, two = _tabular(case)
    ratio = two / (case.n * case.mu.max() * float(case.mu @ case.mu))
    return over(case.mu.min() * (2.0 * ratio if wrong else min(1.0, ratio)), one)


def _tabular(case: ChainCase) -> tuple[float, float]:
    """Return eta1 and eta2 for one feature a state."""
    drift = _symmetric(case.drift)
    return _least(drift + np.outer(case.mu, case.mu)), _least(drift, np.ones(case.n))


def tabular_disorder() -> Refutation:
    """Two states that swap: the factor is 1, and eta2 above eta1."""
    case = edge_case("two states that swap")
    one, two = _tabular(case)
    factor = case.mu.min() / (case.n * case.mu.max() * float(case.mu @ case.mu))
    return Refutation(
        float(factor * two), one, "the multiple of eta2 against eta1: two states that swap with 0.9"
    )


def weighted_minima(case: ChainCase, wrong: bool) -> float:
    """Minima of a form in two norms and over two planes; wrong: the first bound points the other way."""
    root = case.rng.normal(size=(case.n, case.n))
    form = root.T @ root
    centre = np.eye(case.n) - np.full((case.n, case.n), 1.0 / case.n)
    flat = _symmetric(centre @ form @ centre)
    pair = _least(flat, np.ones(case.n)) / (case.n * float(case.mu @ case.mu)), _least(flat, case.mu)
    plain, weighted = _least(form), _least(form, None, case.mu)
    norms = max(over(plain / case.mu.max(), weighted), over(weighted, plain / case.mu.min()))
    return max(over(*(reversed(pair) if wrong else pair)), norms)


def half_of_eta3(case: ChainCase, wrong: bool) -> float:
    """eta1 >= eta3 / 2; wrong: eta1 >= eta3."""
    return over((1.0 if wrong else 0.5) * case.problem.condition_numbers.eta3, case.eta)


def printed_radius(case: ChainCase, wrong: bool) -> float:
    """R^2 >= 2 r_max^2 C^2 / ((1 - beta)^2 eta3) for the printed radius.

    Wrong: with 4 (1 + omega) in place of 2, as for a gap of 1 - omega^2 without the half.
    """
    C, beta = mixing_constants(case.problem)
    omega, eta = case.problem.condition_numbers.omega, case.problem.condition_numbers.eta3
    radius = projection_radii(case.problem).as_printed
    least = 2.0 * (case.r_max * C / (1.0 - beta)) ** 2 / eta
    if wrong:
        least *= 2.0 * (1.0 + omega)
    return over(least, radius**2)


def radius_is_not_small() -> Refutation:
    """Note 7 of the comparison table: R^2 eta3 should stay bounded as chains become slower."""
    found = []
    for p in (0.1, 1e-4):
        chain = [[1 - p, p], [p, 1 - p]]
        problem = Problem(MarkovRewardProcess(chain, [1.0, 0.0]), np.eye(2))
        found.append(float(problem.fixed_point @ problem.fixed_point) * problem.condition_numbers.eta3)
    return Refutation(
        found[1], found[0], "note 7: |theta*|^2 eta3 if two states swap with probability 0.0001, and with 0.1"
    )


def centred_energy(case: ChainCase, wrong: bool) -> float:
    """y^T D (I - P) y does not change when a constant is taken from y; wrong: when a multiple of mu is."""
    y = case.rng.normal(size=case.n)
    moved = y - (case.mu @ y) * (case.mu if wrong else np.ones(case.n))
    return missed(y @ case.drift @ y, moved @ case.drift @ moved)


def eta3_is_not_greater() -> Refutation:
    """Shorter features: eta3 falls with the square of their length, the least energy does not."""
    case = edge_case("two states that swap")
    short = Problem(case.problem.mrp, 0.1 * np.eye(2)).condition_numbers
    return Refutation(
        _gap(case),
        short.eta3,
        "the least y^T D (I - P) y over centred y against eta3, for tabular features of length 0.1",
    )


def printed_condition_numbers() -> Refutation:
    """With constants in the span eta1 <= eta2: how many rows of the paper's table have eta1 > eta2.

    Without constants in the span it is the other way round, and the rest of the rows contradicts that.
    """
    pairs = [
        (numbers.condition_numbers["eta1"], numbers.condition_numbers["eta2"])
        for numbers in paper_numbers().values()
    ]
    above = sum(one > two for one, two in pairs)
    return Refutation(
        min(above, len(pairs) - above),
        0,
        f"rows that do not fit: {len(pairs) - above} if no features are constant, {above} if some are",
    )
