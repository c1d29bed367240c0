"""The bounds of elimination and of residuals against their formulas, on dense matrices.

A term that is missing in a bound is hardly ever seen in an answer: terms of the size of rounding errors of
rounding errors cover what almost never happens. Here the units of rounding are made large, so that each term
counts.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.kernels import threads
from gainbias.model.checks import EPSILON
from gainbias.model.doubled import Doubled
from gainbias.model.solve import bounds, residual
from gainbias.model.solve.bounds import BoundedAnswer, GainAndBias, by_elimination, relative, with_bounds
from gainbias.model.solve.elimination.law import Law
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver, eliminate
from gainbias.model.solve.residual import balance_residual, bounded_residual, class_sums
from gainbias.model.solve.solution import Budget
from gainbias.model.solve.vectors import columns_of
from gainbias.progress import Watch

EPS, MARGIN, ROUNDING = 2.0**-6, 1.25, 0.0625


def one_class(rng: np.random.Generator) -> np.ndarray:
    """Five states that all talk, and two transient ones."""
    chain = np.zeros((7, 7))
    chain[:5, :5] = rng.random((5, 5))
    chain[5:] = rng.random((2, 7))
    return chain / chain.sum(axis=1, keepdims=True)


def two_classes(rng: np.random.Generator) -> np.ndarray:
    """Classes of three and two states, and two transient states."""
    chain = np.zeros((7, 7))
    chain[:3, :3], chain[3:5, 3:5] = rng.random((3, 3)), rng.random((2, 2))
    chain[5:] = rng.random((2, 7))
    return chain / chain.sum(axis=1, keepdims=True)


CHAINS = {"one class": one_class, "two classes": two_classes}


@dataclass(frozen=True)
class Dense:
    """A chain whose solver is assumed to be far off, and the parts of its bounds as dense matrices."""

    chain: np.ndarray
    solver: EliminationSolver
    law: np.ndarray
    law_error: np.ndarray
    to_roots: np.ndarray
    extend: np.ndarray

    @property
    def rows(self) -> Sparse:
        csr = sparse.csr_array(self.chain)
        return Sparse(csr.indptr, csr.indices, csr.data)

    def lost(self, values: np.ndarray) -> np.ndarray:
        inside = self.solver.is_recurrent
        if len(values) < len(inside):
            return self.solver.lost * np.abs(values).max()
        within = np.abs(values[inside]).max()
        return self.solver.lost * np.where(inside, within, np.abs(values).max())

    def summed(self, right: np.ndarray) -> np.ndarray:
        sums = self.to_roots @ right
        return sums * (1 + 2 * ROUNDING) * MARGIN + self.lost(sums)

    def extended(self, at_roots: np.ndarray) -> np.ndarray:
        known = self.extend @ at_roots * (1 + 2 * ROUNDING) * MARGIN
        return known + self.lost(at_roots) if len(at_roots) > 1 else known

    def mean(self, values: np.ndarray) -> np.ndarray:
        return (self.law * (1 + EPS) + self.law_error) @ values * MARGIN

    def mean_of_signed(self, values: np.ndarray) -> np.ndarray:
        mean = np.abs(self.law @ values)
        return mean * (1 + EPS) + self.law_error @ np.abs(values) * MARGIN

    def gain_error(self, rewards: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return self.extended(self.mean_of_signed(rewards - gain))

    def bias_error(
        self, bias: np.ndarray, near: np.ndarray, right: np.ndarray, slack: np.ndarray | float
    ) -> np.ndarray:
        from_root = self.summed(right) + slack
        at_roots = self.mean_of_signed(near) + self.mean(from_root)
        return np.abs(bias - near) * (1 + EPS) + from_root + self.extended(at_roots)


def solver_of(chain: np.ndarray) -> EliminationSolver:
    mrp = gb.MarkovRewardProcess(chain, np.zeros(len(chain)))
    with Watch() as watch:
        return eliminate(mrp.csr, mrp.structure, True, Budget(1e9, watch))


def dense(chain: np.ndarray, lossy: bool) -> Dense:
    n, solver = len(chain), solver_of(chain)
    rng = np.random.default_rng(5)
    values = solver.stationary
    error = values * rng.uniform(0.01, 0.02, n)
    solver.__dict__["law"] = Law(Doubled(values), error, error)
    solver.__dict__["rounding"] = ROUNDING
    lost = np.where(solver.is_recurrent, 0.03, rng.uniform(0.05, 0.1, n)) if lossy else np.zeros(n)
    solver.__dict__["lost"], solver.__dict__["loses_transitions"] = lost, lossy
    classes, roots = solver._class_of, solver._roots
    others = np.delete(np.arange(n), roots)
    to_roots, extend = np.zeros((n, n)), np.zeros((n, len(roots)))
    to_roots[np.ix_(others, others)] = np.linalg.inv((np.eye(n) - chain)[np.ix_(others, others)])
    extend[roots] = np.eye(len(roots))
    extend[others] = to_roots[np.ix_(others, others)] @ chain[np.ix_(others, roots)]
    member = classes == np.arange(len(roots))[:, None]
    return Dense(chain, solver, member * values, member * error, to_roots, extend)


@pytest.fixture(params=[(kind, lossy, seed) for kind in CHAINS for lossy in (False, True) for seed in (0, 1)])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Dense:
    kind, lossy, seed = request.param
    monkeypatch.setattr(bounds, "EPSILON", EPS)
    monkeypatch.setattr(bounds, "MARGIN", MARGIN)
    return dense(CHAINS[kind](np.random.default_rng(seed)), lossy)


REWARDS = [
    np.array([3.0, -1.0, 2.0, -5.0, 4.0, -7.0, 1.0]),
    np.array([-3.0, -1.0, -2.0, -5.0, -4.0, -7.0, -6.0]),
]
CLOSE = {"rtol": 1e-10}


@pytest.mark.parametrize("rewards", REWARDS)
def test_the_bound_of_elimination(made: Dense, rewards: np.ndarray) -> None:
    found = by_elimination(made.rows, Doubled(rewards), made.solver)
    gain = made.extend @ (made.law @ rewards)
    np.testing.assert_allclose(found.gain, gain, **CLOSE)
    right = rewards - gain
    sums = made.to_roots @ right
    bias = sums - made.extend @ (made.law @ sums)
    np.testing.assert_allclose(found.bias, bias, rtol=1e-10, atol=1e-13)
    gain_error = made.gain_error(rewards, gain)
    np.testing.assert_allclose(found.gain_error, gain_error, **CLOSE)
    given = (ROUNDING + 2 * EPS) * np.abs(right) + EPS**2 * np.abs(rewards) + gain_error
    level = made.extend @ np.abs(made.solver.at_roots(bias))
    slack = 4 * EPS * (np.abs(bias) + level) + made.lost(made.to_roots @ np.abs(right))
    if made.solver.num_classes > 1:
        slack += 2 * ROUNDING * level
    np.testing.assert_allclose(found.bias_error, made.bias_error(bias, bias, given, slack), **CLOSE)


@pytest.mark.parametrize("rewards", REWARDS)
@pytest.mark.parametrize("well", [True, False])
def test_the_bound_of_a_residual(
    made: Dense, rewards: np.ndarray, well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged is off by some percent, and so is what it is compared with."""
    monkeypatch.setattr(bounds, "POOR", np.inf)
    rng = np.random.default_rng(3)
    off = 1e-3 if well else 0.1
    near_gain = made.extend @ (made.law @ rewards + off * rng.standard_normal(made.solver.num_classes))
    sums = made.to_roots @ (rewards - near_gain)
    near_bias = sums - made.extend @ (made.law @ sums) + off * rng.standard_normal(7)
    gain, bias = near_gain + 0.1 * rng.standard_normal(7), near_bias + 0.1 * rng.standard_normal(7)
    judged = GainAndBias(Doubled(gain), Doubled(bias))
    near = GainAndBias(Doubled(near_gain), Doubled(near_bias))
    found = with_bounds(made.rows, Doubled(rewards), judged, near, made.solver)
    left = np.abs(rewards - near_gain - near_bias + made.chain @ near_bias) + EPS**2 * np.abs(rewards)
    gain_error = np.minimum(made.gain_error(rewards, near_gain), made.extended(made.mean(left)))
    np.testing.assert_array_equal(found.gain, gain)
    np.testing.assert_array_equal(found.bias, bias)
    np.testing.assert_allclose(found.gain_error, np.abs(gain - near_gain) * (1 + EPS) + gain_error, **CLOSE)
    expected = made.bias_error(bias, near_bias, left + gain_error, 0.0)
    np.testing.assert_allclose(found.bias_error, expected, **CLOSE)


def test_a_gain_that_is_not_its_own_mean_is_made_so() -> None:
    """Only then is the error of a gain that of its classes."""
    chain = two_classes(np.random.default_rng(0))
    made = dense(chain, lossy=False)
    flat = made.extend @ np.array([1.0, 3.0])
    gain = flat + np.where(np.arange(7) < 5, 0.0, 0.2)
    better, not_flat = bounds.harmonic(made.rows, Doubled(gain), made.solver)
    np.testing.assert_allclose(better.high, flat, rtol=1e-14)
    assert (not_flat[5:] > 0.0).all()
    assert not_flat.max() < 1e-14


def test_a_gain_that_differs_from_its_mean_has_that_in_its_error(made: Dense) -> None:
    gain, not_flat = np.random.default_rng(1).random((2, 7))
    error = bounds._gain_error(Doubled(REWARDS[0]), Doubled(gain), not_flat, made.solver)
    expected = made.extended(made.mean_of_signed(REWARDS[0] - gain) + made.mean(not_flat)) + not_flat
    np.testing.assert_allclose(error, expected, **CLOSE)


class TestTheSmallerBoundCounts:
    """Two candidates, one by its residual and the other by elimination."""

    chain = one_class(np.random.default_rng(0))
    rewards = REWARDS[0]

    def answer(self, off: float) -> tuple[BoundedAnswer, BoundedAnswer]:
        """What is made of a candidate that is off by this much, and the answer of elimination."""
        csr, solver = sparse.csr_array(self.chain), solver_of(self.chain)
        rows = Sparse(csr.indptr, csr.indices, csr.data)
        other = by_elimination(rows, Doubled(self.rewards), solver)
        gain, bias = Doubled(other.gain + off), Doubled(other.bias + off * np.arange(7.0))
        judged = GainAndBias(gain, bias)
        return with_bounds(rows, Doubled(self.rewards), judged, judged, solver), other

    def test_of_a_good_candidate(self) -> None:
        found, other = self.answer(0.0)
        np.testing.assert_array_equal(found.bias, other.bias)
        assert found.bias_error.max() < 1e-13

    def test_of_a_poor_candidate(self) -> None:
        found, other = self.answer(1e-6)
        np.testing.assert_array_equal(found.bias, other.bias)
        np.testing.assert_array_equal(found.bias_error, other.bias_error)

    def test_of_one_that_is_just_good_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Then it stays, with the bound that elimination gives and the distance to it."""
        off = 1e-12
        monkeypatch.setattr(bounds, "POOR", 0.0)
        monkeypatch.setattr(BoundedAnswer, "error_bound", lambda self, rewards: 1.0)
        found, other = self.answer(off)
        assert not np.array_equal(found.bias, other.bias)
        assert (found.bias_error <= (other.bias_error + off * 7) * 1.01).all()
        assert (found.gain_error <= (other.gain_error + off) * 1.01).all()
        assert (found.gain_error >= 0.99 * off).all()


def test_an_error_relative_to_nothing() -> None:
    assert relative(0.0, 0.0) == 0.0
    assert relative(1e-300, 0.0) == relative(np.nan, 1.0) == relative(np.inf, 1.0) == np.inf
    assert relative(1.0, 4.0) == 0.25


def test_the_error_bound_of_an_answer_is_the_larger_part() -> None:
    rewards = np.array([-8.0, 4.0])
    of_gain = BoundedAnswer(np.zeros(2), np.array([1.0, 3.0]), np.array([1.0, 4.0]), np.array([0.5, 0.25]))
    assert of_gain.error_bound(rewards) == 0.5
    of_bias = of_gain._replace(gain_error=np.array([1.0, 0.5]))
    assert of_bias.error_bound(rewards) == 0.25
    assert of_bias._replace(bias=np.ones(2)).error_bound(rewards) == 0.125
    more = of_gain._replace(gain=np.array([-1.0, 2.0]), bias=np.array([-0.5, 0.5]))
    both = of_gain.plus(more)
    assert both.gain_error.tolist() == [3.0, 10.0]
    assert both.bias_error.tolist() == [1.5, 1.0]


class TestResiduals:
    """Their rounding is at most that of each term, and their values are right to it."""

    rng = np.random.default_rng(0)
    chain = two_classes(rng) * rng.uniform(0.9, 1.0, (7, 7))
    csr = sparse.csr_array(chain)
    rows = Sparse(csr.indptr, csr.indices, csr.data)
    away = chain * (1 - np.eye(7))
    degree = np.diff(csr.indptr)

    def check(
        self, found: residual.Residual, exact: list[Fraction], size: np.ndarray, terms: np.ndarray
    ) -> None:
        """Compare with exact numbers, and with the formula of the bound for large units of rounding."""
        wrong = [abs(Fraction(float(x)) - y) for x, y in zip(found.value, exact, strict=True)]
        assert all(x <= Fraction(float(most)) for x, most in zip(wrong, found.rounding, strict=True))
        eps = residual.EPSILON
        expected = eps * np.abs(found.value) + (terms + 6) * eps**2 * size
        np.testing.assert_allclose(found.rounding, expected, rtol=1e-10)
        np.testing.assert_array_equal(found.most, np.abs(found.value) + found.rounding)

    @pytest.mark.parametrize("eps", [EPSILON, EPS])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.kernels
    def test_of_a_law(self, eps: float, sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(residual, "EPSILON", eps)
        law = sign * np.random.default_rng(1).random(7)
        rest = law * np.random.default_rng(2).uniform(-1e-17, 1e-17, 7)
        exact = self.exact_balance(law, rest)
        size = np.abs(law) @ self.away + np.abs(law) * self.away.sum(axis=1)
        terms = self.degree + np.bincount(self.csr.indices, minlength=7)
        self.check(balance_residual(self.rows, columns_of(self.rows), Doubled(law, rest)), exact, size, terms)

    def exact_balance(self, law: np.ndarray, rest: np.ndarray) -> list[Fraction]:
        exact = [Fraction(0)] * 7
        for i, j in zip(*np.nonzero(self.away), strict=True):
            flow = (Fraction(law[i]) + Fraction(rest[i])) * Fraction(self.away[i, j])
            exact[i] -= flow
            exact[j] += flow
        return exact

    @pytest.mark.parametrize("eps", [EPSILON, EPS])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.kernels
    def test_of_a_bias(self, eps: float, sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(residual, "EPSILON", eps)
        rng = np.random.default_rng(3)
        rewards, gain, bias = sign * rng.random((3, 7)) * [[1.0], [1.0], [50.0]]
        gain_rest, bias_rest = rng.uniform(-1e-17, 1e-17, (2, 7))
        found = bounded_residual(self.rows, rewards, Doubled(gain, gain_rest), Doubled(bias, bias_rest))
        values = [Fraction(x) + Fraction(y) for x, y in zip(bias, bias_rest, strict=True)]
        exact = [Fraction(rewards[i]) - Fraction(gain[i]) - Fraction(gain_rest[i]) for i in range(7)]
        for i, j in zip(*np.nonzero(self.away), strict=True):
            exact[i] += Fraction(self.away[i, j]) * (values[j] - values[i])
        size = np.abs(rewards) + np.abs(gain) + self.away @ np.abs(bias)
        size += self.away.sum(axis=1) * np.abs(bias)
        self.check(found, exact, size, self.degree)

    @pytest.mark.parametrize("eps", [EPSILON, EPS])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.kernels
    def test_of_sums(self, eps: float, sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """A state of no class does not count, nor does one of weight 0 whose value is no number."""
        monkeypatch.setattr(residual, "EPSILON", eps)
        class_of = np.array([1, 0, 1, -1, 0, 1, 1])
        rng = np.random.default_rng(4)
        weights, values = sign * rng.random(7), rng.standard_normal(7)
        weights[2], values[2], values[3] = 0.0, np.inf, np.nan
        rest = rng.uniform(-1e-17, 1e-17, 7)
        found = class_sums(class_of, 2, weights, Doubled(values, rest))
        exact, size = [Fraction(0)] * 2, np.zeros(2)
        for s in (0, 1, 4, 5, 6):
            exact[class_of[s]] += Fraction(weights[s]) * (Fraction(values[s]) + Fraction(rest[s]))
            size[class_of[s]] += abs(weights[s] * values[s])
        self.check(found, exact, size, np.array([2, 4]))

    @pytest.mark.parametrize("together", [2, 100])
    def test_throughput_leaves_out_what_stays(self, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of one thread, and of blocks of states."""
        monkeypatch.setattr(threads, "STATES_TOGETHER", together)
        values = np.random.default_rng(5).random(7)
        leaving = 1.0 - np.diag(self.chain)
        expected = leaving * values + self.away @ values
        np.testing.assert_allclose(residual.throughput(self.csr, values), expected, rtol=1e-12)
        diagonal = np.full(9, np.nan)
        residual.write_diagonal.py_func(self.rows, 1, 6, diagonal)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(diagonal[1:6], np.diag(self.chain)[1:6])
        assert np.isnan(diagonal[[0, 6, 7, 8]]).all()

    def test_of_numbers_that_underflow(self) -> None:
        """What a product loses there is in the bound."""
        found = balance_residual(self.rows, columns_of(self.rows), Doubled(np.full(7, 1e-322)))
        exact = self.exact_balance(np.full(7, 1e-322), np.zeros(7))
        for value, rounding, true in zip(*found, exact, strict=True):
            assert abs(Fraction(float(value)) - true) <= Fraction(float(rounding))
