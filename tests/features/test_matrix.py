"""Feature matrices: what is accepted, what is refused and in which words, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from gainbias.features import Features, as_features
from gainbias.features.matrix import ROW_BLOCK_BYTES

PLAIN = np.array([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]])


@pytest.mark.parametrize(
    "given",
    [
        PLAIN.tolist(),
        PLAIN.astype(np.float32),
        PLAIN.astype(np.int8),
        PLAIN.astype(">f8"),
        np.asfortranarray(PLAIN),
        np.repeat(PLAIN, 2, axis=0)[::2],
        np.repeat(PLAIN, 2, axis=1)[:, ::2],
    ],
    ids=["list", "float32", "int8", "big-endian", "fortran", "strided rows", "strided columns"],
)
def test_dense_input_of_any_kind_becomes_float64(given: object) -> None:
    features = as_features(given)
    assert features.kind == "dense"
    assert isinstance(features.matrix, np.ndarray)
    assert features.matrix.dtype == np.dtype("=f8")
    assert features.matrix.flags.c_contiguous
    np.testing.assert_array_equal(features.matrix, PLAIN)


def test_truth_values_are_features() -> None:
    np.testing.assert_array_equal(as_features([[True], [False]]).matrix, [[1.0], [0.0]])


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_input_of_any_kind_becomes_canonical(form: type) -> None:
    features = as_features(form(PLAIN.astype(np.float32)))
    assert features.kind == "sparse"
    assert isinstance(features.matrix, sparse.csr_array)
    assert features.matrix.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(features.matrix.toarray(), PLAIN)


def test_duplicate_and_zero_entries_of_sparse_input_are_merged() -> None:
    given = sparse.csr_array(([1.0, 2.0, 0.0], [0, 0, 0], [0, 2, 3]), shape=(2, 1))
    matrix = as_features(given).matrix
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.nnz == 1
    np.testing.assert_array_equal(matrix.toarray(), [[3.0], [0.0]])


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_the_record_is_read_only_and_a_copy(form: type) -> None:
    given = form(PLAIN)
    matrix = as_features(given).matrix
    given[0, 0] = 99.0
    assert matrix[0, 0] == 3.0
    stored = matrix if isinstance(matrix, np.ndarray) else matrix.data
    with pytest.raises(ValueError, match="read-only"):
        stored[0] = 1.0


def test_the_record_is_taken_as_it_is() -> None:
    features = as_features(PLAIN)
    assert as_features(features) is features


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_products_norms_and_blocks(form: type) -> None:
    features = as_features(form(PLAIN))
    assert (features.num_states, features.num_features) == (3, 2)
    np.testing.assert_allclose(features.row_norms, [5.0, 1.0, 2.0], rtol=1e-15)
    assert features.max_row_norm == pytest.approx(5.0, rel=1e-15)
    np.testing.assert_array_equal(features.combine(np.array([1.0, -1.0])), [-1.0, -1.0, 2.0])
    np.testing.assert_array_equal(features.adjoint(np.array([1.0, 2.0, 3.0])), [9.0, 6.0])
    ((rows, block),) = features.row_blocks()
    assert rows == slice(0, 3)
    np.testing.assert_array_equal(block, PLAIN)


def test_row_norms_of_extreme_entries_do_not_overflow() -> None:
    for form in (np.array, sparse.csr_array):
        np.testing.assert_allclose(as_features(form([[3e200, 4e200], [1.0, 0.0]])).row_norms, [5e200, 1.0])


def test_row_blocks_are_bounded_and_complete() -> None:
    matrix = sparse.random_array((3000, 20_000), density=1e-3, rng=0, format="csr")
    features = Features("sparse", 3000, 20_000, given=matrix)
    blocks = list(features.row_blocks())
    assert len(blocks) > 1
    assert all(block.nbytes <= ROW_BLOCK_BYTES for _, block in blocks)
    assert [rows.start for rows, _ in blocks[1:]] == [rows.stop for rows, _ in blocks[:-1]]
    assert sum(block.sum() for _, block in blocks) == pytest.approx(matrix.sum(), rel=1e-12)


def test_tabular_features_are_the_identity_without_forming_it() -> None:
    features = as_features(gb.Tabular(), num_states=1_000_000)
    assert (features.kind, features.num_features, features.max_row_norm) == ("tabular", 1_000_000, 1.0)
    assert features.given is None
    values = np.arange(1e6)
    np.testing.assert_array_equal(features.combine(values), values)
    np.testing.assert_array_equal(features.adjoint(values), values)
    np.testing.assert_array_equal(as_features(gb.Tabular(), num_states=3).matrix.toarray(), np.eye(3))


def sparse_parts(data: list[float], indices: list[int], indptr: list[int]) -> sparse.csr_array:
    """A (2, 2) matrix whose parts were changed after they were checked."""
    matrix = sparse.csr_array(np.ones((2, 2)))
    matrix.data, matrix.indices, matrix.indptr = np.array(data), np.array(indices), np.array(indptr)
    return matrix


WRONG = {
    "one-dimensional": ([1.0, 2.0], r"one row per state, found shape \(2,\): a single feature is a column"),
    "three-dimensional": (np.ones((2, 2, 2)), r"one row per state, found shape \(2, 2, 2\)"),
    "ragged": ([[1.0], [1.0, 2.0]], "features must be a rectangular array of numbers"),
    "words": ([["a"], ["b"]], "features must be real numbers, found entries of type <U1: convert them"),
    "complex": ([[1j], [1.0]], "features must be real numbers, found entries of type complex128"),
    "sparse complex": (sparse.csr_array([[1j], [1.0]]), "real numbers, found entries of type complex128"),
    "objects": ([[None], [1.0]], "features must be real numbers, found entries of type object"),
    "masked": (
        np.ma.masked_array([[1.0], [2.0]], [[0], [1]]),
        "masked array: fill or drop its masked entries",
    ),
    "no rows": (np.ones((0, 2)), r"at least one row and one column, found shape \(0, 2\)"),
    "no columns": (np.ones((2, 0)), r"at least one row and one column, found shape \(2, 0\)"),
    "nan": ([[1.0, 2.0], [3.0, np.nan]], "found nan in row 1, column 1: replace it or drop that feature"),
    "infinite": ([[1.0, -np.inf], [3.0, 4.0]], "found -inf in row 0, column 1"),
    "sparse nan": (sparse.csr_array([[0.0, 1.0, 0.0], [0.0, 0.0, np.nan]]), "found nan in row 1, column 2"),
    "all zero": (np.zeros((3, 2)), "features must not all be zero: every value they can express is 0"),
    "sparse all zero": (sparse.csr_array((3, 2)), "features must not all be zero"),
    "a zero column": ([[1.0, 0.0], [2.0, 0.0]], "column 1 of features is zero in every state: drop it"),
    "a sparse zero column": (sparse.csr_array([[0.0, 1.0]]), "column 0 of features is zero in every state"),
    "a sparse column out of range": (
        sparse_parts([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 2], [0, 2, 4]),
        "features are a damaged sparse matrix: .*indices must be < 2",
    ),
    "a negative sparse column": (
        sparse_parts([1.0, 2.0], [0, -1], [0, 1, 2]),
        "features are a damaged sparse matrix: .*indices must be >= 0",
    ),
    "the class of tabular features": (
        gb.Tabular,
        r"the class gb\.Tabular, not an .*: write gb\.Tabular\(\)$",
    ),
    "tabular without height": (gb.Tabular(), "tabular features have no height of their own: pass num_states"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_named(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_features(given)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_normalising_scales_by_one_number_or_row_by_row(form: type) -> None:
    given = form([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])

    def dense(matrix: object) -> object:
        return matrix.toarray() if sparse.issparse(matrix) else matrix

    by_one = gb.normalise_features(given)
    assert sparse.issparse(by_one) == sparse.issparse(given)
    np.testing.assert_allclose(dense(by_one), [[0.6, 0.8], [0.0, 0.0], [0.0, 0.4]], rtol=1e-15)
    by_row = gb.normalise_features(given, by="row")
    np.testing.assert_allclose(dense(by_row), [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]], rtol=1e-15)


def test_normalising_keeps_tabular_features() -> None:
    assert gb.normalise_features(gb.Tabular()) == gb.Tabular()
    assert gb.normalise_features(as_features(gb.Tabular(), num_states=3), by="row") == gb.Tabular()


def test_normalising_by_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="by must be 'global' or 'row', found 'column'"):
        gb.normalise_features([[1.0]], by="column")  # type: ignore[arg-type]
