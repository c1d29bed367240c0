"""Powers within small spaces, against steps one by one."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing.drive import FEW, small_problem
from gainbias.theory.curve import advance
from gainbias.theory.curve.advance import moments_at
from tests.theory.systems import all_steps, random_problem, recursion_of

SIZE = 0.05


@pytest.fixture(autouse=True)
def _no_matrix_of_all_moments(monkeypatch):
    monkeypatch.setattr(advance, "MOST_FOR_POWERS", 0)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("most_vectors", [40, 8])
@pytest.mark.parametrize("name", ["double-chain", "td-lambda", "differential-td", "implicit-td"])
def test_the_same_as_all_steps(name, most_vectors, monkeypatch):
    monkeypatch.setattr(advance, "MOST_VECTORS", most_vectors)
    recursion, first = recursion_of(name, random_problem())
    checkpoints, calls, slope = np.array([0, 1, 10, 777, 2000]), 0, recursion.slope

    def counted(*args):
        nonlocal calls
        calls += 1
        return slope(*args)

    recursion.slope = counted
    found = moments_at(recursion, first, gb.Constant(SIZE), checkpoints)
    made, recursion.slope = calls, slope
    close(found, all_steps(recursion, first, np.full(2000, SIZE), checkpoints))
    assert made < {40: 100, 8: 1000}[most_vectors]


def test_a_hundred_million_steps(monkeypatch):
    """Small steps differ from none by little, yet nothing of that is lost, nor in powers of the matrix."""
    asked = ("double-chain", random_problem(), 10**8, 1e-4)
    in_spaces = gb.exact_curve(*asked, sampling="iid", checkpoints=[10**6])
    monkeypatch.setattr(advance, "MOST_FOR_POWERS", 700)
    by_powers = gb.exact_curve(*asked, sampling="iid", checkpoints=[10**6])
    np.testing.assert_allclose(in_spaces.mean_squared_error, by_powers.mean_squared_error, rtol=1e-11)


def test_a_space_that_is_closed_reaches_any_number_of_steps():
    """Of three features there are ten moments, and no more dimensions."""
    recursion, first = recursion_of("double-chain", small_problem("dense", FEW))
    begin, last = recursion.begin(first), 10**12
    space = advance.Space(recursion, begin, SIZE)
    assert space.count < 10
    assert space.reach(last) == last
    (far,) = advance.by_krylov(recursion, begin, SIZE, np.array([last]), None)
    close(recursion.step(far, SIZE), far)
    close(
        list(advance.by_krylov(recursion, begin, SIZE, np.array([7, 50]), None))[1][0],
        all_steps(recursion, first, np.full(50, SIZE), [50])[0],
    )


def test_moments_that_stay():
    class Still:
        def slope(self, moments, step_size):
            return np.zeros_like(moments)

    begin = np.arange(9.0).reshape(1, 3, 3)
    for found in advance.by_krylov(Still(), begin, SIZE, np.array([0, 5, 10**9]), None):
        np.testing.assert_array_equal(found, begin)


def test_a_first_step_beyond_all_numbers():
    class Growing:
        def slope(self, moments, step_size):
            return 1e300 * moments

    with np.errstate(over="ignore"):
        ways = advance.by_krylov(Growing(), np.full((1, 2, 2), 1e100), SIZE, np.array([1, 2]), None)
        for found in ways:
            assert np.isposinf(found).all()


@pytest.mark.parametrize("name", ["double-chain", "td-lambda"])
def test_moments_beyond_all_numbers_are_infinite(name):
    recursion, first = recursion_of(name, random_problem())
    checkpoints = np.arange(0, 700, 20)
    found = moments_at(recursion, first, gb.Constant(30.0), checkpoints)
    with np.errstate(all="ignore"):
        expected = all_steps(recursion, first, np.full(700, 30.0), checkpoints)
    finite = np.isfinite(expected).all(axis=(1, 2))
    assert 3 < finite.sum() < len(finite)
    assert np.isposinf(found[~finite]).all()
    kept = np.flatnonzero(finite)[:-1]
    for k in kept:
        np.testing.assert_allclose(found[k], expected[k], rtol=0, atol=1e-11 * np.abs(expected[k]).max())
