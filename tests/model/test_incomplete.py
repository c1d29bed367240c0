"""Incomplete elimination against a plain twin on dense matrices, and exact where nothing is dropped."""

import numpy as np
import pytest
import scipy.sparse as sparse

from gainbias.model.solve import incomplete
from gainbias.model.solve.incomplete import (
    KEPT,
    IncompleteFactors,
    eliminate_incompletely,
    factorise_incompletely,
    work_to_prepare,
)
from tests.oracles.elimination import leaking_matrix


def random_chain(n: int, degree: int, seed: int) -> np.ndarray:
    """A chain with a few transitions from each state, a ring among them, and with self-loops."""
    rng = np.random.default_rng(seed)
    chain = np.where(rng.random((n, n)) < degree / n, rng.random((n, n)), 0.0)
    chain[np.arange(n), (np.arange(n) + 1) % n] += 0.5
    return chain / chain.sum(axis=1, keepdims=True)


def random_tree(n: int, seed: int) -> np.ndarray:
    """A walk on a random tree."""
    rng = np.random.default_rng(seed)
    chain = np.zeros((n, n))
    for child in range(1, n):
        parent = rng.integers(child)
        chain[child, parent], chain[parent, child] = rng.random(2) + 0.1
    return chain / (chain.sum(axis=1, keepdims=True) + 0.1)


def parts(factors: IncompleteFactors, transitions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The transitions among the states in the order of the elimination, and what each of them leaks."""
    order = factors.order
    inner = transitions[np.ix_(order, order)]
    np.fill_diagonal(inner, 0.0)
    (root,) = set(range(len(transitions))) - set(order.tolist())
    return inner, transitions[order, root]


def plain_twin(inner: np.ndarray, leak: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two factors, column by column; new transitions are left out and leak in part."""
    front, leak, allowed = inner.copy(), leak.copy(), inner != 0.0
    n = len(leak)
    lower, upper = np.eye(n), np.zeros((n, n))
    for p in range(n):
        later = slice(p + 1, n)
        leaving = leak[p] + front[p, later].sum()
        upper[p, p], upper[p, later] = leaving, -front[p, later]
        share = front[later, p] / leaving
        lower[later, p] = -share
        moved = np.outer(share, front[p, later])
        np.fill_diagonal(moved, 0.0)
        kept = np.where(allowed[later, later], moved, 0.0)
        front[later, later] += kept
        leak[later] += share * leak[p] + (1.0 - KEPT) * (moved - kept).sum(axis=1)
    return lower, upper


CHAINS = {
    **{f"few transitions, {seed}": random_chain(30, 3, seed) for seed in range(6)},
    **{f"many transitions, {seed}": random_chain(12, 7, seed) for seed in range(4)},
    "full": random_chain(8, 100, 0),
    "two states": random_chain(2, 1, 0),
}


@pytest.mark.kernels
@pytest.mark.parametrize("name", CHAINS)
def test_factors_and_solves_are_those_of_the_plain_twin(name: str) -> None:
    chain = CHAINS[name]
    factors = factorise_incompletely(sparse.csr_array(chain), root=len(chain) // 2)
    lower, upper = plain_twin(*parts(factors, chain))
    close = {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(factors.pivots, np.diag(upper), **close)
    stored = factors.chain.copy()
    stored.data = factors.values
    np.testing.assert_allclose(
        stored.toarray(), np.eye(len(upper)) + np.diag(np.diag(upper)) - lower - upper, **close
    )
    right = np.random.default_rng(1).standard_normal(len(upper))
    given = right.copy()
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(lower @ upper, right), rtol=1e-9)
    np.testing.assert_allclose(
        factors.solve_transposed(right), np.linalg.solve((lower @ upper).T, right), rtol=1e-9
    )
    np.testing.assert_array_equal(right, given)


@pytest.mark.parametrize("name", CHAINS)
def test_products_are_those_with_the_chain_without_its_root(name: str) -> None:
    chain = CHAINS[name]
    factors = factorise_incompletely(sparse.csr_array(chain), root=0)
    matrix = leaking_matrix(*parts(factors, chain))
    x = np.random.default_rng(2).standard_normal(len(matrix))
    np.testing.assert_allclose(factors.exits, np.diag(matrix), rtol=1e-14)
    np.testing.assert_allclose(factors.apply(x), matrix @ x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(factors.apply_transposed(x), x @ matrix, rtol=1e-12, atol=1e-14)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(5))
def test_on_a_tree_nothing_is_dropped_and_solves_are_exact(seed: int) -> None:
    """The order begins at the leaves, so that no transition is new."""
    chain = random_tree(40, seed)
    factors = factorise_incompletely(sparse.csr_array(chain), root=3)
    matrix = leaking_matrix(*parts(factors, chain))
    right = np.random.default_rng(seed).standard_normal(len(matrix))
    np.testing.assert_allclose(factors.solve(factors.apply(right)), right, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(matrix, right), rtol=1e-9)
    np.testing.assert_allclose(factors.solve_transposed(right), np.linalg.solve(matrix.T, right), rtol=1e-9)


def test_a_small_part_of_what_is_dropped_leaks() -> None:
    """Then the factors of a chain that leaks nothing else map ones to that part, and never to less than 0."""
    assert 0.5 < KEPT < 1.0
    chain = random_chain(30, 3, 0)
    factors = factorise_incompletely(sparse.csr_array(chain), root=0)
    inner, leak = parts(factors, chain)
    lower, upper = plain_twin(inner, leak)
    beyond = lower @ upper @ np.ones(len(leak)) - leak
    assert beyond.min() > -1e-15
    # All that is dropped is what the factors have where the chain has no transition.
    dropped = np.where((inner == 0.0) & ~np.eye(len(leak), dtype=bool), lower @ upper, 0.0).sum(axis=1)
    assert dropped.max() > 0.01
    np.testing.assert_allclose(beyond, (1.0 - KEPT) * dropped, atol=1e-14)


def test_the_diagonal_is_not_read() -> None:
    chain = random_chain(20, 3, 1)
    other = chain + np.diag(np.random.default_rng(0).random(20))
    one, two = (factorise_incompletely(sparse.csr_array(each), root=5) for each in (chain, other))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.exits, two.exits)


def test_indices_are_short_whatever_is_given() -> None:
    """Sweeps wait for memory."""
    chain = sparse.csr_array(random_chain(20, 3, 1))
    long = sparse.csr_array(
        (chain.data, chain.indices.astype(np.int64), chain.indptr.astype(np.int64)), chain.shape
    )
    factors = factorise_incompletely(long, root=5)
    assert factors.chain.indices.dtype == factors.chain.indptr.dtype == np.int32


def test_the_work_counts_each_transition_with_all_that_leave_its_target() -> None:
    chain = random_chain(20, 3, 2)
    meetings = sum(np.count_nonzero(chain[j]) for i in range(20) for j in range(20) if chain[i, j] != 0.0)
    per_meeting = work_to_prepare(sparse.csr_array(chain)) / (meetings + 40 * np.count_nonzero(chain))
    assert per_meeting == pytest.approx(incomplete.PER_SWEPT_ENTRY, rel=1e-12)


@pytest.mark.kernels
def test_a_leak_is_passed_on() -> None:
    """The second state leaks its own, and the part of what it sends to the first one that leaks there."""
    indptr, indices = np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)
    values, leak, pivots = np.array([0.75, 0.5]), np.array([0.25, 0.125]), np.empty(2)
    eliminate_incompletely(indptr, indices, values, leak, pivots)
    assert values.tolist() == [0.75, 0.5]
    assert leak.tolist() == [0.25, 0.25]
    assert pivots.tolist() == [1.0, 0.25]
