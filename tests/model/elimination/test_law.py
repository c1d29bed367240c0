"""The bounds of a law, and the counts that they rest on, against their formulas on dense matrices."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.checks import EPSILON
from gainbias.model.solve.elimination import law, symbolic
from gainbias.model.solve.elimination.law import (
    SMALLEST_NORMAL,
    elimination_rounding,
    loses_products,
    measure_law,
)
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import Factors, eliminate, factorise_chain
from gainbias.model.solve.elimination.symbolic import plan_dense, plan_sparse, symmetric_pattern
from gainbias.model.solve.solution import Budget
from gainbias.model.solve.turns import Meter
from gainbias.progress import Watch
from tests.oracles.elimination import naive_elimination
from tests.oracles.exact import distance, exact_answer, fraction

PLENTY = Budget(max_memory=1e9, watch=Watch())


def leaking_chain(n: int, density: float, decades: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A chain that leaks here and there, whose entries span this many decades."""
    rng = np.random.default_rng(seed)
    chain = np.where(rng.random((n, n)) < density, 10.0 ** rng.uniform(-decades, 0, (n, n)), 0.0)
    np.fill_diagonal(chain, 0.0)
    leak = np.where(rng.random(n) < 0.3, 10.0 ** rng.uniform(-decades, 0, n), 0.0)
    chain[np.arange(n - 1), np.arange(1, n)] += 0.5
    leak[-1] += 0.5
    return chain, leak


def factors_of(chain: np.ndarray, leak: np.ndarray, dense: bool) -> tuple[Factors, np.ndarray, np.ndarray]:
    """The factors, and by the plain rule in the same order: the eliminated matrix, and what leaks."""
    inner = sparse.csr_array(chain)
    plan = plan_dense(np.zeros(len(leak), int)) if dense else plan_sparse(symmetric_pattern(inner), PLENTY)[0]
    order = plan.fronts.order
    plain, leaked = naive_elimination(chain[np.ix_(order, order)], leak[order], len(leak))
    return factorise_chain(inner, leak, plan, PLENTY), plain, leaked


@pytest.mark.kernels
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_disturbances_are_counted_by_the_plain_rule(seed: int, dense: bool) -> None:
    """Each state counts with the states it is entered from, times those it leads to and 4."""
    chain, leak = leaking_chain(40, 0.04, 4, seed)
    factors, plain, _ = factors_of(chain, leak, dense)
    entered = (np.tril(plain, -1) != 0.0).sum(axis=0)
    leads = (np.triu(plain, 1) != 0.0).sum(axis=1)
    count = (entered * (leads + 4)).sum()
    assert count > 0
    assert elimination_rounding(factors.fronts, factors.values) == EPSILON * (count + 4 * 40)


def loses_by_the_plain_rule(plain: np.ndarray, leaked: np.ndarray) -> bool:
    """Whether a share, what it is multiplied with, or their product is too small to have all digits."""
    for p in range(len(leaked)):
        shares = plain[p + 1 :, p]
        onward = np.append(plain[p, p + 1 :], leaked[p])
        both = [shares[shares > 0.0].min(initial=np.inf), onward[onward > 0.0].min(initial=np.inf)]
        if min(*both, both[0] * both[1]) < SMALLEST_NORMAL:
            return True
    return False


@pytest.mark.kernels
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("decades", [3, 110, 140, 170])
def test_lost_products_are_found_by_the_plain_rule(decades: float, dense: bool) -> None:
    found = []
    for seed in range(12):
        chain, leak = leaking_chain(12, 0.1, decades, seed)
        factors, plain, leaked = factors_of(chain, leak, dense)
        given = leak[factors.fronts.order]
        loses = loses_products(factors.fronts, factors.values, given)
        assert loses == loses_by_the_plain_rule(plain, leaked)
        if not loses:
            np.testing.assert_allclose(given, leaked, rtol=1e-13)
        found.append(loses)
    assert not all(found) if decades < 150 else any(found)


def test_a_leak_alone_may_be_too_small_for_a_product() -> None:
    """The first state leaks 1e-200, and the second one goes there with a probability of 1e-150."""
    chain = np.array([[0.0, 0.5], [1e-150, 0.0]])
    for leak, loses in ((1e-200, True), (1e-100, False), (0.0, False)):
        factors, _, _ = factors_of(chain, np.array([leak, 0.5]), dense=True)
        given = np.array([leak, 0.5])[factors.fronts.order]
        assert loses_products(factors.fronts, factors.values, given) == loses


class TestTheErrorOfALaw:
    """Two classes and a transient state; a law that is off, and a solver that is off too."""

    chain = np.array(
        [
            [0.2, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.6, 0.1, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.4, 0.4, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.5, 0.2, 0.2, 0.1, 0.0],
            [0.0, 0.0, 0.0, 0.3, 0.3, 0.3, 0.1, 0.0],
            [0.0, 0.0, 0.0, 0.1, 0.6, 0.2, 0.1, 0.0],
            [0.0, 0.0, 0.0, 0.7, 0.1, 0.1, 0.1, 0.0],
            [0.25, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.5],
        ]
    )
    class_of = np.array([0, 0, 0, 1, 1, 1, 1, -1])
    roots = np.array([0, 4])
    rows = Sparse(*(lambda csr: (csr.indptr, csr.indices, csr.data))(sparse.csr_array(chain)))

    def exact(self) -> np.ndarray:
        system = np.vstack([np.eye(8) - self.chain.T, *(self.class_of == c for c in range(2))])
        right = np.append(np.zeros(8), [1.0, 1.0])
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])

    def solver(self, off: float) -> Callable[[np.ndarray], np.ndarray]:
        """Solve r M^-1 without the roots, each number too large by this part of it."""
        others = np.setdiff1d(np.arange(8), self.roots)
        inverse = np.linalg.inv((np.eye(8) - self.chain)[np.ix_(others, others)])

        def solve(right: np.ndarray) -> np.ndarray:
            x = np.zeros(8)
            x[others] = (1.0 + off) * (right[others] @ inverse)
            return x

        return solve

    def given(self, seed: int, size: float) -> np.ndarray:
        return self.exact() * (1.0 + size * np.random.default_rng(seed).uniform(-1, 1, 8))

    @pytest.mark.parametrize("off", [0.0, 0.02, -0.02])
    @pytest.mark.parametrize("size", [0.2, 1e-3])
    def test_covers_what_is_wrong(self, size: float, off: float) -> None:
        """The solver is wrong by what it says, at most; so is the law that elimination found."""
        for seed in range(10):
            stationary = self.given(seed, size)
            found = measure_law(
                self.rows, stationary, self.class_of, self.roots, self.solver(off), max(abs(off), size)
            )
            exact = np.where(self.class_of < 0, 0.0, self.exact())
            rounding = 1e-15
            assert (np.abs(found.values.high + found.values.rest - exact) <= found.error + rounding).all()
            assert (np.abs(stationary - exact) <= found.given_error + rounding)[self.class_of >= 0].all()
            assert found.error[7] == found.given_error[7] == 0.0

    @pytest.mark.parametrize("rounding", [0.0, 0.02, 0.3])
    def test_is_that_of_the_formula(self, rounding: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Units of rounding are made large, so that each term is seen."""
        eps, lost = 2.0**-9, 1e-3
        monkeypatch.setattr(law, "EPSILON", eps)
        solve = self.solver(0.1)
        kept = []
        for seed in range(6):
            stationary = self.given(seed, 0.15)
            found = measure_law(self.rows, stationary, self.class_of, self.roots, solve, rounding, lost)
            error, given_error = np.zeros((2, 8))
            values = stationary.copy()
            moved = solve(stationary @ self.chain - stationary)
            better = np.where(self.class_of >= 0, stationary + moved, stationary)
            left = solve(np.abs(better @ self.chain - better)) * (1 + 2 * rounding) + 8 * eps * np.abs(moved)
            for c in range(2):
                beyond = (stationary + moved)[self.class_of == c].sum() - 1.0
                open_ = left[self.class_of == c].sum() + 2 * eps * abs(beyond)
                for s in np.flatnonzero(self.class_of == c):
                    p, known = stationary[s], rounding + (8 + 4) * eps / 2
                    by_law = p * known / (1 - known) + lost
                    correction = (p + moved[s]) / (1 + beyond) - p
                    by_residual = (left[s] + (p + abs(correction)) * open_) / (1 + beyond - open_)
                    by_residual += 8 * eps * (abs(moved[s]) + p * abs(beyond)) + lost
                    kept.append(by_residual < by_law)
                    if not kept[-1]:
                        correction = 0.0
                    values[s] += correction
                    error[s] = min(by_residual, by_law)
                    given_error[s] = min(abs(correction) * (1 + 4 * eps) + error[s], by_law)
            np.testing.assert_allclose(found.error, error, rtol=1e-10)
            np.testing.assert_allclose(found.given_error, given_error, rtol=1e-10)
            np.testing.assert_allclose(found.values.high, values, rtol=1e-12)
        assert any(kept) if rounding > 0.1 else not all(kept)

    def test_is_unknown_where_the_solver_is(self) -> None:
        """Without a bound from elimination that from the residual is left, and without both there is none."""
        measure = [self.rows, self.exact(), self.class_of, self.roots]
        one = measure_law(*measure, self.solver(0.0), 3.0)
        assert one.error.max() < 1e-14
        none = measure_law(*measure, lambda right: np.full(8, np.nan), 3.0)
        assert (none.error[self.class_of >= 0] == np.inf).all()


def solver_of(chain: np.ndarray, dense: bool = True):
    mrp = gb.MarkovRewardProcess(chain, np.zeros(len(chain)))
    with Watch() as watch:
        return eliminate(mrp.csr, mrp.structure, dense, Budget(1e9, watch))


def queue(n: int, up: float, down: float) -> np.ndarray:
    chain = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    return chain + np.diag(1 - chain.sum(axis=1))


def test_each_step_to_the_root_may_miss_a_lost_transition() -> None:
    """The chance counts for the steps that are expected, and for one more."""
    assert not solver_of(queue(30, 1e-12, 0.9)).lost.any()
    chain = np.full((4, 4), 0.1)
    chain[3, 1] = chain[1, 2] = 1e-200
    chain[2, 0] = 0.01
    chain[2, 1] = chain[2, 3] = 0.0
    chain[0, 0] = 100.0
    chain /= chain.sum(axis=1, keepdims=True)
    found = solver_of(chain)
    assert found.stationary.argmax() == 0
    steps = np.linalg.solve((np.eye(4) - chain)[1:, 1:], np.ones(3))
    np.testing.assert_allclose(found.lost, 4.0 * SMALLEST_NORMAL * (1.0 + steps.max()), rtol=1e-6)
    np.testing.assert_allclose(found.unseen[1:], SMALLEST_NORMAL * (1.0 + steps), rtol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.filterwarnings("ignore::gainbias.AccuracyWarning")
@pytest.mark.parametrize(
    "rates", [(1e-200, 1.3e-124, 1e-305), (1e-160, 1e-160, 1e-300), (1e-300, 1e-250, 1e-305)]
)
def test_small_products_in_a_solve_are_numbers(rates: tuple[float, float, float], dense: bool) -> None:
    """From the root to a state that is hardly ever left again, by two steps whose product is no number."""
    first, second, back = rates
    chain = np.array([[1 - first, first, 0.0], [0.5, 0.5 - second, second], [back, 0.0, 1 - back]])
    mrp = gb.MarkovRewardProcess(chain, [0.0, 0.0, 1.0])
    exact = exact_answer(mrp)
    found = gb.solve(mrp, method="dense-gth" if dense else "sparse-gth")
    off = distance(found.stationary, exact.law)
    assert (off <= found.stationary_error).all()
    assert (found.stationary_error <= 1e-14 * found.stationary + 1e-250).all()
    assert abs(fraction(found.gain) - exact.gain[0]) <= fraction(found.gain_error)
    assert found.gain_error <= 1e-13 * found.gain + 1e-250


@pytest.mark.parametrize("size", [1.0, 1e-290, 1e-315])
def test_a_small_side_loses_nothing(size: float) -> None:
    """Products of a side below the smallest number, in a state that is hardly ever left."""
    chain = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 1e-12, 1.0]])
    found = solver_of(chain)
    assert found.stationary[2] == 0.0
    sums = found.to_roots(np.array([size, size, 0.0]))
    root = int(found._roots[0])
    np.testing.assert_allclose(sums[1 - root], 2.0 * size, rtol=1e-8)
    np.testing.assert_allclose(sums[2], sums[1], rtol=1e-8)


@pytest.mark.parametrize("first", [True, False])
def test_a_sum_that_overflows_leaves_the_others_alone(first: bool) -> None:
    """Two transient states that do not know of each other; one of them waits for 1e300 steps."""
    chain = np.array([[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [1e-300, 0.0, 1.0, 0.0], [0.5, 0, 0, 0.5]])
    if not first:
        chain = chain[np.ix_([0, 1, 3, 2], [0, 1, 3, 2])]
    slow, quick = (2, 3) if first else (3, 2)
    right = np.array([0.0, 0.0, 1e20, 1e20])
    with np.errstate(over="ignore", invalid="ignore"):
        found = solver_of(chain).to_roots(right)
        alone = solver_of(chain).to_roots(np.where(np.arange(4) == slow, 0.0, right))
    assert found[slow] == np.inf
    assert found[quick] == alone[quick] == pytest.approx(2e20, rel=1e-14)


def test_a_sum_that_overflows_does_not_hide_one_that_does_not() -> None:
    """A value that is reached from a state before the one that overflows, and that never meets it."""
    n = 6
    chain = np.zeros((n, n))
    chain[0, 0] = chain[1, 0] = chain[4, 0] = 1.0
    chain[2, [0, 2]] = 1e-300, 1.0
    chain[3, [2, 3]] = 0.5
    chain[5, [4, 5]] = 0.5
    right = np.array([0.0, 1.0, 1e20, 1.0, 1.0, 1.0])
    for order in (np.arange(n), np.r_[0, np.arange(n - 1, 0, -1)], np.array([0, 5, 2, 3, 1, 4])):
        with np.errstate(over="ignore", invalid="ignore"):
            found = solver_of(chain[np.ix_(order, order)]).to_roots(right[order])
        np.testing.assert_allclose(found, np.array([0.0, 1.0, np.inf, np.inf, 1.0, 3.0])[order], rtol=1e-14)


class PlannedMeter(Meter):
    """A meter that remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float] = []

    def plan(self, operations: float, factor_entries: int = 0) -> None:
        self.told.append(operations)


@pytest.mark.parametrize("degree", [3, 6])
def test_what_an_expanding_graph_takes_is_not_foretold_as_more(
    degree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess that is too high would keep an elimination from being tried."""
    pytest.importorskip("pymetis")
    monkeypatch.setattr(symbolic, "SMALL", 100)
    monkeypatch.setattr(symbolic, "FLOPS_PER_STATE_OF_METIS", 0.0)
    rng = np.random.default_rng(0)
    n = 1000
    graph = sum(
        sparse.csr_array((np.ones(n), (np.arange(n), rng.permutation(n))), (n, n)) for _ in range(degree)
    )
    meter = PlannedMeter()
    plan, name = plan_sparse(symmetric_pattern(sparse.csr_array(graph)), Budget(1e9, Watch(), meter))
    assert name == "nested dissection"
    assert 0.001 * plan.flops < meter.told[0] < plan.flops
