"""Chains that leak: residuals and bounds against exact fractions and their formulas."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

from gainbias.model.checks import EPSILON
from gainbias.model.doubled import Doubled, sum_of_parts
from gainbias.model.solve import leaking
from gainbias.model.solve.leaking import (
    LARGEST_USEFUL_ERROR,
    SMALLEST_STEP,
    TINY,
    LeakingChain,
    check_useful,
    with_leaking_chain,
)
from gainbias.model.solve.solution import MethodError

RNG = np.random.default_rng(0)
CHAIN = RNG.dirichlet(np.full(8, 0.5), 8)
INSIDE = np.array([1, 2, 4, 5, 7])


def with_chain(work: Callable[[LeakingChain], Any], leak: float = 0.0, scale: float = 1.0) -> Any:
    return with_leaking_chain(
        sparse.csr_array(CHAIN), INSIDE, work, what="a test", leak=(leak, 0.0), scale=scale
    )


def exact_residual(right: Doubled, x: Doubled, leak: float, scale: float) -> list[Fraction]:
    """The residual of the equations as they are written, in fractions."""
    values = [Fraction(a) + Fraction(b) for a, b in zip(x.high, x.rest, strict=True)]
    found = []
    for k, s in enumerate(INSIDE):
        left = Fraction(right.high[k]) + Fraction(right.rest[k]) - Fraction(leak) * values[s]
        for j in range(8):
            left += Fraction(scale) * Fraction(CHAIN[s, j]) * (values[j] - values[s])
        found.append(left)
    return found


@pytest.mark.kernels
@pytest.mark.parametrize(("leak", "scale"), [(0.0, 1.0), (0.25, 0.7), (1e-3, 0.999)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_residual_and_what_it_rounds(leak: float, scale: float, sign: float, size: float) -> None:
    """All numbers have one sign, so that one whose absolute value is not taken makes the bound smaller."""
    rng = np.random.default_rng(1)
    right = Doubled(sign * rng.random(5), rng.uniform(-1e-17, 1e-17, 5))
    x = Doubled(sign * size * rng.random(8), rng.uniform(-1e-17, 1e-17, 8))
    res, floor = with_chain(lambda chain: chain.residual(right, x), leak, scale)
    exact = exact_residual(right, x, leak, scale)
    for value, most, true in zip(res, floor, exact, strict=True):
        assert abs(Fraction(value) - true) <= Fraction(EPSILON * abs(value) + most)
    through = scale * (CHAIN @ np.abs(x.high) + (1.0 - 2.0 * np.diag(CHAIN)) * np.abs(x.high))[INSIDE]
    weight = np.abs(right.high) + leak * np.abs(x.high[INSIDE]) + through
    degree = np.count_nonzero(CHAIN, axis=1)[INSIDE]
    expected = (degree + 8) * (2 * EPSILON**2 * weight + SMALLEST_STEP)
    np.testing.assert_allclose(floor, expected, rtol=1e-12)


@pytest.mark.parametrize(("leak", "scale"), [(0.0, 1.0), (0.25, 0.7)])
@pytest.mark.parametrize("doubt", [0.0, 1e-3])
def test_the_bound_covers_what_is_left_open(leak: float, scale: float, doubt: float) -> None:
    """A right side that is larger by all that is left open about it: the bound is just that, and rounding."""
    rng = np.random.default_rng(2)
    right, outside = rng.standard_normal(5), rng.standard_normal(8)
    found, error = with_chain(
        lambda chain: chain.solve_for(Doubled(right), Doubled(outside), doubt), leak, scale
    )
    matrix = leak * np.eye(5) + scale * np.diag(1.0 - np.diag(CHAIN)[INSIDE])
    among = CHAIN[np.ix_(INSIDE, INSIDE)] * (1 - np.eye(5))
    matrix -= scale * among
    known = np.delete(np.arange(8), INSIDE)
    entering = scale * CHAIN[np.ix_(INSIDE, known)] @ outside[known]
    np.testing.assert_allclose(found.high[INSIDE], np.linalg.solve(matrix, right + entering), rtol=1e-12)
    np.testing.assert_array_equal(found.high[known], outside[known])
    from_doubt = np.linalg.solve(matrix, np.full(5, doubt))
    assert (error >= from_doubt).all()
    assert (error <= from_doubt * (1 + 1e-12) + 1e-28).all()
    opposite, error_too = with_chain(
        lambda chain: chain.solve_for(Doubled(-right), Doubled(-outside), doubt), leak, scale
    )
    np.testing.assert_array_equal(opposite.high, -found.high)
    np.testing.assert_array_equal(error_too, error)


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize(("leak", "scale"), [(0.0, 1.0), (0.25, 0.7)])
def test_a_majorant_of_a_rough_solver_is_one(leak: float, scale: float, is_direct: bool) -> None:
    """Its solutions are too small by a quarter; M still makes at least what is wanted of the majorant."""
    wanted = 10.0 ** -np.arange(5.0)

    def work(chain: LeakingChain) -> tuple[np.ndarray, np.ndarray]:
        chain = leaking.replace(
            chain,
            factors=chain.factors if is_direct else None,
            solve=lambda right, plain=chain.solve: 0.75 * plain(right),
        )
        y = np.zeros(8)
        y[INSIDE] = chain.majorant(wanted)
        res, _ = chain.residual(Doubled(np.zeros(5)), Doubled(y))
        return y[INSIDE], -res

    y, reached = with_chain(work, leak, scale)
    assert (y > 0.0).all()
    assert (reached >= wanted * (1 - 1e-12)).all()
    if is_direct:
        assert (reached <= 2.0 * wanted).all()


def test_an_error_is_of_use_up_to_a_tenth_of_the_largest_value() -> None:
    values = np.array([1.0, -4.0])
    check_useful(values, np.array([0.0, 4.0 * LARGEST_USEFUL_ERROR]))
    with pytest.raises(MethodError, match=r"the error may be 4\.0e-01, and there is no value above it"):
        check_useful(values, np.array([0.0, 4.001 * LARGEST_USEFUL_ERROR]))
    with pytest.raises(MethodError):
        check_useful(values, np.array([np.nan, 0.0]))
    check_useful(np.zeros(2), np.array([0.0, TINY]))
    with pytest.raises(MethodError):
        check_useful(np.zeros(2), np.array([0.0, 2.0 * TINY]))
    check_useful(np.empty(0), np.empty(0))


def test_a_sum_of_parts_has_twice_the_digits() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        a, b = rng.standard_normal((2, 1)) * 10.0 ** rng.uniform(-8, 8, (2, 1))
        a_low, b_low = a * rng.uniform(-1e-16, 1e-16), b * rng.uniform(-1e-16, 1e-16)
        high, low = sum_of_parts(a, a_low, b, b_low)
        exact = sum(Fraction(float(x[0])) for x in (a, a_low, b, b_low))
        size = abs(float(a[0])) + abs(float(b[0]))
        assert abs(Fraction(float(high[0])) + Fraction(float(low[0])) - exact) <= Fraction(
            4 * EPSILON**2 * size
        )
        assert abs(low[0]) <= EPSILON * abs(high[0])
