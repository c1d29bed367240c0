"""Operations on d x d matrices against plain matrix algebra, compiled and as Python."""

from typing import Any

import numpy as np
import pytest

from gainbias.algorithms.fields import dense_features
from gainbias.features.rows import rows_of
from gainbias.features.vectors import add_combination, add_difference, add_outer
from gainbias.kernels import bare_kernel

from ..engine import problems

pytestmark = pytest.mark.kernels


@bare_kernel
def call_add_difference(rows: Any, here: int, after: int, matrix: Any) -> None:
    add_difference(rows, here, after, matrix)


@bare_kernel
def call_products(left: Any, right: Any, matrix: Any, out: Any) -> None:
    add_outer(0.3, left, right, matrix)
    add_combination(-0.7, left, matrix, out)


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize(("here", "after"), [(2, 5), (3, 3)])
def test_difference(make, here: int, after: int) -> None:
    problem = make()
    before = np.random.default_rng(0).standard_normal((problem.num_features, problem.num_features))
    features, compiled, python = dense_features(problem), before.copy(), before.copy()
    call_add_difference(rows_of(problem.features), here, after, compiled)
    add_difference(rows_of(problem.features), here, after, python)
    expected = before + np.outer(features[here], features[here] - features[after])
    np.testing.assert_allclose(compiled, expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(compiled, python)


def test_products() -> None:
    rng = np.random.default_rng(1)
    left, right, before, out = rng.random(4), rng.random(4), rng.random((4, 4)), rng.random(4)
    left[2] = 0.0
    matrix, sums = before.copy(), out.copy()
    call_products(left, right, matrix, sums)
    np.testing.assert_allclose(matrix, before + 0.3 * np.outer(left, right), rtol=1e-14)
    np.testing.assert_allclose(sums, out - 0.7 * matrix.T @ left, rtol=1e-14)
    other, other_sums = before.copy(), out.copy()
    getattr(call_products, "py_func", call_products)(left, right, other, other_sums)
    np.testing.assert_array_equal(matrix, other)
    np.testing.assert_array_equal(sums, other_sums)
