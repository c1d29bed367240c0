"""Row operations against plain matrix algebra, for every kind of features, compiled and as Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.features import as_features
from gainbias.features.rows import LANES, add_row, add_rows, rows_of, squared_length, values
from gainbias.kernels import bare_kernel

pytestmark = pytest.mark.kernels
N = 6


@bare_kernel
def call_values(rows: Any, here: int, after: int, weights: Any, first: Any, second: Any) -> None:
    values(rows, here, after, weights, first, second)


@bare_kernel
def call_add_row(rows: Any, here: int, scale: Any, weights: Any) -> None:
    add_row(rows, here, scale, weights)


@bare_kernel
def call_add_rows(rows: Any, here: int, scale: Any, other: int, other_scale: Any, weights: Any) -> None:
    add_rows(rows, here, scale, other, other_scale, weights)


@bare_kernel
def call_squared_length(rows: Any, here: int) -> float:
    return float(squared_length(rows, here))


def matrix_of(kind: str) -> Any:
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((N, 4))
    if kind == "dense":
        return dense
    if kind == "sparse":
        return sparse.csr_array(np.where(rng.random((N, 4)) < 0.6, dense, 0.0) + np.eye(N, 4))
    return gb.Tabular()


@pytest.fixture(params=["dense", "sparse", "tabular"])
def features(request: pytest.FixtureRequest) -> Any:
    return as_features(matrix_of(request.param), num_states=N)


def phi(features: Any, state: int) -> np.ndarray:
    matrix = features.matrix
    return (matrix if isinstance(matrix, np.ndarray) else matrix.toarray())[state]


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize(("here", "after"), [(2, 5), (3, 3)])
def test_values(features: Any, lanes: int, here: int, after: int) -> None:
    weights = np.random.default_rng(1).standard_normal((features.num_features, lanes))
    first, second = np.full(lanes, np.nan), np.full(lanes, np.nan)
    call_values(rows_of(features), here, after, weights, first, second)
    np.testing.assert_allclose(first, phi(features, here) @ weights, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(second, phi(features, after) @ weights, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize(("here", "other"), [(2, 5), (3, 3)])
def test_adding(features: Any, lanes: int, here: int, other: int) -> None:
    rng = np.random.default_rng(2)
    before = rng.standard_normal((features.num_features, lanes))
    scale, other_scale = rng.standard_normal(lanes), rng.standard_normal(lanes)
    weights = before.copy()
    call_add_row(rows_of(features), here, scale, weights)
    np.testing.assert_allclose(weights, before + np.outer(phi(features, here), scale), rtol=1e-14, atol=1e-15)
    weights = before.copy()
    call_add_rows(rows_of(features), here, scale, other, other_scale, weights)
    expected = before + np.outer(phi(features, here), scale) + np.outer(phi(features, other), other_scale)
    np.testing.assert_allclose(weights, expected, rtol=1e-14, atol=1e-15)


def test_squared_length(features: Any) -> None:
    for state in range(N):
        expected = float(phi(features, state) @ phi(features, state))
        assert call_squared_length(rows_of(features), state) == pytest.approx(expected, rel=1e-15)


def run_all(form: Callable[[Any], Any], features: Any, lanes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((features.num_features, lanes))
    first, second = rng.standard_normal(lanes), rng.standard_normal(lanes)
    rows = rows_of(features)
    form(call_values)(rows, 1, 4, weights, first, second)
    form(call_add_rows)(rows, 1, first, 2, second, weights)
    form(call_add_row)(rows, 3, second, weights)
    return [weights, first, second, np.array(form(call_squared_length)(rows, 2))]


@pytest.mark.parametrize("lanes", [1, LANES])
def test_compiled_and_python_forms_agree_bit_for_bit(features: Any, lanes: int) -> None:
    compiled = run_all(lambda f: f, features, lanes)
    python = run_all(lambda f: getattr(f, "py_func", f), features, lanes)
    for left, right in zip(compiled, python, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_lane_has_the_same_bits_alone_and_in_company(features: Any) -> None:
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((features.num_features, LANES))
    scale, other_scale = rng.standard_normal(LANES), rng.standard_normal(LANES)
    alone = np.ascontiguousarray(weights[:, 3:4])
    rows = rows_of(features)
    together, single = np.empty((2, LANES)), np.empty((2, 1))
    call_values(rows, 1, 4, weights, together[0], together[1])
    call_values(rows, 1, 4, alone, single[0], single[1])
    np.testing.assert_array_equal(together[:, 3], single[:, 0])
    call_add_rows(rows, 1, scale, 4, other_scale, weights)
    call_add_rows(rows, 1, scale[3:4].copy(), 4, other_scale[3:4].copy(), alone)
    np.testing.assert_array_equal(weights[:, 3], alone[:, 0])
