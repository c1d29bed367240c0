"""Feature maps: rows by their definitions, lengths at most 1, constants in the span, and refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import legendre
from scipy import sparse

import gainbias as gb

LOW, HIGH = np.array([-2.0, 0.0]), np.array([3.0, 10.0])
MAPS = [
    gb.TileCoding(LOW, HIGH, tiles=4, tilings=3),
    gb.TileCoding(LOW, HIGH, tiles=1, tilings=1),
    gb.FourierBasis(LOW, HIGH, order=3),
    gb.RadialBasis(LOW, HIGH, centres=4, width=0.7),
    gb.RadialBasis(LOW, HIGH, centres=9, width=0.01),
    gb.PolynomialBasis(LOW, HIGH, degree=3),
]
NAMES = [f"{type(each).__name__}-{each.num_features}" for each in MAPS]


def dense(rows: object) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def observations(count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(LOW - 1.0, HIGH + 1.0, (count, 2))


def unit(points: np.ndarray) -> np.ndarray:
    return (np.clip(points, LOW, HIGH) - LOW) / (HIGH - LOW)


@pytest.mark.parametrize("basis", MAPS, ids=NAMES)
class TestEveryMap:
    def test_lengths_are_at_most_one(self, basis) -> None:
        corners = np.array(list(itertools.product(*zip(LOW, HIGH, strict=True))))
        rows = dense(basis(np.concatenate([observations(500), corners])))
        assert rows.shape == (504, basis.num_features)
        assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-14

    def test_constants_are_in_the_span(self, basis) -> None:
        rows = dense(basis(observations(400)))
        weights, *_ = np.linalg.lstsq(rows, np.ones(400), rcond=None)
        np.testing.assert_allclose(rows @ weights, 1.0, rtol=1e-10)

    def test_what_is_outside_counts_as_the_edge(self, basis) -> None:
        far = basis([[-100.0, np.inf], [100.0, -np.inf]])
        np.testing.assert_array_equal(dense(far), dense(basis([[-2.0, 10.0], [3.0, 0.0]])))

    def test_a_row_does_not_depend_on_its_company(self, basis) -> None:
        points = observations(7)
        together = dense(basis(points))
        alone = np.concatenate([dense(basis(points[i : i + 1])) for i in range(7)])
        np.testing.assert_allclose(together, alone, rtol=1e-14, atol=1e-16)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ([1.0, 2.0], r"shape \(m, 2\)"),
            ([[1.0, 2.0, 3.0]], r"shape \(m, 2\)"),
            ([[1.0, 2.0], [np.nan, 0.0]], "observation 1 is not a number"),
        ],
    )
    def test_wrong_observations_are_refused(self, basis, wrong, message) -> None:
        with pytest.raises(ValueError, match=message):
            basis(wrong)


def test_fourier_basis_by_its_definition() -> None:
    basis, points = gb.FourierBasis(LOW, HIGH, order=3), observations(20)
    frequencies = list(itertools.product(range(4), repeat=2))
    expected = [[np.cos(np.pi * np.dot(c, x)) / 4.0 for c in frequencies] for x in unit(points)]
    np.testing.assert_allclose(basis(points), expected, atol=1e-14)


def test_radial_basis_by_its_definition() -> None:
    basis, points = gb.RadialBasis(LOW, HIGH, centres=4, width=0.7), observations(20)
    centres = np.array(list(itertools.product(range(4), repeat=2))) / 3.0
    distances = ((unit(points)[:, None, :] - centres) ** 2).sum(axis=2)
    heights = np.exp(-0.5 * distances / (0.7 / 3.0) ** 2)
    np.testing.assert_allclose(basis(points), heights / heights.sum(axis=1, keepdims=True), atol=1e-14)


def test_polynomial_basis_by_its_definition() -> None:
    basis, points = gb.PolynomialBasis(LOW, HIGH, degree=3), observations(20)
    degrees = sorted(
        (c for c in itertools.product(range(4), repeat=2) if sum(c) <= 3), key=lambda c: (sum(c), c)
    )
    at = 2.0 * unit(points) - 1.0
    expected = [
        legendre.legval(at[:, 0], np.eye(4)[i]) * legendre.legval(at[:, 1], np.eye(4)[j]) for i, j in degrees
    ]
    assert basis.num_features == 10
    np.testing.assert_allclose(basis(points), np.transpose(expected) / np.sqrt(10.0), atol=1e-14)


def test_polynomials_of_the_degree_are_represented() -> None:
    points = observations(200)
    x, y = unit(points).T
    wanted = 1.0 - 3.0 * x * y**2 + x**3
    weights, *_ = np.linalg.lstsq(gb.PolynomialBasis(LOW, HIGH, degree=3)(points), wanted, rcond=None)
    np.testing.assert_allclose(gb.PolynomialBasis(LOW, HIGH, degree=3)(points) @ weights, wanted, atol=1e-12)


class TestTileCoding:
    def test_one_tile_of_each_tiling_is_active(self) -> None:
        rows = gb.TileCoding(LOW, HIGH, tiles=4, tilings=3)(observations(300))
        assert isinstance(rows, sparse.csr_array)
        np.testing.assert_array_equal(np.diff(rows.indptr), 3)
        np.testing.assert_array_equal(rows.indices.reshape(-1, 3) // 25, np.tile([0, 1, 2], (300, 1)))

    def test_tiles_by_their_definition(self) -> None:
        points = observations(100)
        for point, row in zip(
            points, dense(gb.TileCoding(LOW, HIGH, tiles=4, tilings=3)(points)), strict=True
        ):
            x, y = unit(point) * 4.0
            active = []
            for tiling in range(3):
                right, up = tiling * 1 % 3 / 3.0, tiling * 3 % 3 / 3.0
                active.append(
                    25 * tiling + int(min(x, 3.999999999) + right) + 5 * int(min(y, 3.999999999) + up)
                )
            np.testing.assert_array_equal(np.flatnonzero(row), active)

    @given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
    def test_near_states_share_tiles(self, x, y) -> None:
        """Along one dimension tilings are displaced evenly: so many are shared as the distance leaves."""
        tiles = gb.TileCoding(0.0, 1.0, tiles=4, tilings=8)
        shared = (tiles([x]) @ tiles([y]).T).toarray().item() * 8
        assert abs(shared - max(0.0, 8 - 32 * abs(x - y))) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gb.TileCoding([0.0], [1.0, 2.0]), "vectors of one length"),
        (lambda: gb.TileCoding([0.0, 1.0], [1.0, 1.0]), "low < high, found 1.0 and 1.0 at place 1"),
        (lambda: gb.FourierBasis(-np.inf, 1.0), "must be finite"),
        (lambda: gb.TileCoding(0.0, 1.0, tiles=0), "tiles must be a positive integer, found 0"),
        (lambda: gb.TileCoding(0.0, 1.0, tilings=True), "tilings must be a positive integer"),
        (lambda: gb.FourierBasis(0.0, 1.0, order=1.5), "order must be a positive integer, found 1.5"),
        (lambda: gb.RadialBasis(0.0, 1.0, centres=1), "centres must be at least 2"),
        (lambda: gb.RadialBasis(0.0, 1.0, width=0.0), "width must be a positive number"),
        (lambda: gb.PolynomialBasis(0.0, 1.0, degree=-1), "degree must be a positive integer"),
        (lambda: gb.TileCoding(np.zeros(9), np.ones(9)), "3,099,363,912 features, at most 16,777,216"),
    ],
)
def test_wrong_settings_are_refused(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
