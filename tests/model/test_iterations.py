"""Methods that iterate: when they stop, and that what they return solves the equation."""

import numpy as np
import pytest
import scipy.sparse as sparse

from gainbias.model.solve import iterative
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.iterative import POLISHED, balance, bicgstab, write_exits
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.model.solve.turns import Meter
from gainbias.progress import Watch
from tests.oracles.naive import naive_stationary


class CountingMeter(Meter):
    """A meter that counts the pieces of work that bring no digits: one for each sweep."""

    sweeps = 0

    def spend(self, work: float, products: int = 0, aside: bool = False) -> None:
        super().spend(work, products, aside)
        self.sweeps += aside


def random_chain(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(n, 0.3), n)


class TestPolishing:
    """A law is polished as long as it will be done in time, at the rate of late."""

    def polish(self, steps: int, most_sweeps: int) -> tuple[int, float, bool]:
        """Polish the law of a ring of this size; return the sweeps, its error, and whether that is noted."""
        chain = 0.6 * np.roll(np.eye(steps), 1, axis=1) + 0.4 * np.roll(np.eye(steps), -1, axis=1)
        rows = sparse.csr_array(chain)
        law = np.where(np.arange(steps) < steps // 2, 1.0, 2.0)
        meter = CountingMeter()
        budget = Budget(1e9, Watch(), meter)
        found, notes = iterative._polished(
            law / law.sum(), rows, rows.T.tocsr(), np.arange(steps), most_sweeps, budget
        )
        return meter.sweeps, float(np.abs(steps * found - 1.0).max()), bool(notes)

    @pytest.mark.parametrize("steps", [40, 60])
    def test_ends_when_nothing_moves(self, steps: int) -> None:
        sweeps, off, notes = self.polish(steps, 100_000)
        assert 150 < sweeps < 10_000
        assert off < 1e3 * POLISHED
        assert not notes

    @pytest.mark.parametrize("steps", [40, 60])
    def test_goes_on_if_time_suffices(self, steps: int) -> None:
        needed, _, _ = self.polish(steps, 100_000)
        assert self.polish(steps, needed + 20) == self.polish(steps, 100_000)

    @pytest.mark.parametrize("steps", [40, 60])
    def test_is_given_up_if_time_does_not_suffice(self, steps: int) -> None:
        """That is seen after 100 sweeps, from the rate of the last 50."""
        needed, _, _ = self.polish(steps, 100_000)
        assert needed > 200
        sweeps, _, notes = self.polish(steps, needed - 50)
        assert sweeps == 101
        assert notes

    def test_has_as_many_sweeps_as_it_may(self) -> None:
        assert self.polish(60, 90)[0] == 90


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(3))
def test_balance_there_and_back(seed: int) -> None:
    """Each state gets what enters it over what leaves it; the law itself does not move."""
    chain = random_chain(9, seed)
    columns = sparse.csr_array(chain.T)
    rows = sparse.csr_array(chain)
    exits = np.empty(9)
    write_exits(Sparse(rows.indptr, rows.indices, rows.data), 0, 9, exits)
    np.testing.assert_allclose(exits, chain.sum(axis=1) - np.diag(chain), rtol=1e-14)
    law = naive_stationary(chain)
    after = law.copy()
    balance(Sparse(columns.indptr, columns.indices, columns.data), exits, law, 0, 9, after)
    np.testing.assert_allclose(after, law, rtol=1e-13)
    given = np.random.default_rng(seed).random(9)
    expected = given.copy()
    for j in [*range(9), *reversed(range(9))]:
        expected[j] = (expected @ chain[:, j] - expected[j] * chain[j, j]) / exits[j]
    balance(Sparse(columns.indptr, columns.indices, columns.data), exits, given.copy(), 0, 9, given)
    np.testing.assert_allclose(given, expected, rtol=1e-12)


@pytest.mark.kernels
def test_balance_of_a_block_takes_the_law_of_others_as_it_was() -> None:
    chain, given = random_chain(9, 1), np.random.default_rng(1).random(9)
    columns, exits, after = sparse.csr_array(chain.T), chain.sum(axis=1) - np.diag(chain), given.copy()
    before = given + 1.0
    balance(Sparse(columns.indptr, columns.indices, columns.data), exits, before, 3, 6, after)
    expected = before.copy()
    expected[3:6] = given[3:6]
    for j in [3, 4, 5, 5, 4, 3]:
        expected[j] = (expected @ chain[:, j] - expected[j] * chain[j, j]) / exits[j]
    np.testing.assert_allclose(after[3:6], expected[3:6], rtol=1e-12)
    np.testing.assert_array_equal(np.delete(after, [3, 4, 5]), np.delete(given, [3, 4, 5]))


class TestSearch:
    """BiCGSTAB on small systems, with a count of the products."""

    def search(self, matrix: np.ndarray, right: np.ndarray, tolerance: float) -> tuple[np.ndarray, int]:
        products = 0

        def apply(x: np.ndarray) -> np.ndarray:
            nonlocal products
            products += 1
            return np.asarray(matrix @ x)

        self.products = lambda: products
        return bicgstab(apply, lambda x: x, right, tolerance, Budget(1e9, Watch()), "test"), products

    @pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
    @pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
    def test_reaches_its_tolerance(self, size: float, tolerance: float) -> None:
        rng = np.random.default_rng(0)
        matrix = np.eye(30) + 0.1 * rng.standard_normal((30, 30))
        right = size * rng.standard_normal(30)
        found, products = self.search(matrix, right, tolerance)
        assert np.linalg.norm((matrix @ found - right) / size) <= 10 * tolerance * np.linalg.norm(
            right / size
        )
        assert products <= (30 if tolerance > 1e-5 else 60)

    def test_one_half_step_is_enough_for_a_multiple_of_one(self) -> None:
        """A product for the step and one for the residual that is checked."""
        found, products = self.search(3.0 * np.eye(4), np.arange(4.0), 1e-10)
        np.testing.assert_allclose(found, np.arange(4.0) / 3.0, rtol=1e-15)
        assert products == 2

    @pytest.mark.parametrize(
        "matrix",
        [np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]])],
        ids=["a turn by 90 degrees", "nothing", "a shift"],
    )
    def test_a_breakdown_ends_a_round_at_once(self, matrix: np.ndarray) -> None:
        """Two products of the step that breaks down, and one for the residual; a round may have 200 steps."""
        with pytest.raises(MethodError, match=r"BiCGSTAB reached a residual of 1\.0e\+00 and 1\.0e-08"):
            self.search(matrix, np.array([1.0, 0.0]), 1e-8)
        assert self.products() <= 3
