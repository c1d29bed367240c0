"""The residual with twice the digits, and that the certificate sees errors which a residual hides."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse

from gainbias.model.checks import EPSILON as EPS
from gainbias.model.doubled import Doubled, Expected
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve import certificate
from gainbias.model.solve.certificate import solve_and_certify, solve_and_refine_once, stationary_errors
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import EliminationSolver, eliminate
from gainbias.model.solve.residual import bellman_residual
from gainbias.model.solve.solution import Budget
from gainbias.progress import Watch
from tests.oracles.elimination import exact_residual


def rows_of(transitions: np.ndarray) -> Sparse:
    csr = sparse.csr_array(transitions)
    return Sparse(csr.indptr, csr.indices, csr.data)


@pytest.mark.kernels
@pytest.mark.parametrize("size", [1.0, 1e12])
def test_residual_is_exact_to_the_last_place(size: float) -> None:
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(12), 12)
    rewards, bias, gain = rng.random(12), size * rng.random(12), 0.3
    exact = np.array([float(x) for x in exact_residual(transitions, rewards, gain, bias)])
    found = bellman_residual(rows_of(transitions), rewards, Doubled(np.full(12, gain)), Doubled(bias))
    np.testing.assert_allclose(found, exact, rtol=4 * EPS)
    plain = rewards - gain - (bias - transitions @ bias)
    assert np.abs(plain - exact).max() > 0.0


def test_doubled_vector_keeps_what_is_rounded_off() -> None:
    sum_ = Doubled(np.array([1e16])).plus(np.array([1.0])).plus(np.array([1.0]))
    assert sum_.high[0] + sum_.rest[0] == 1e16 + 2.0
    assert (sum_.high - 1e16 + sum_.rest)[0] == 2.0


class Sloppy:
    """A solver with an error of a given relative size in everything it returns."""

    method, notes, iterations, tolerance = "sloppy", (), 0, 0.0

    def __init__(self, inner: EliminationSolver, law_error: float, solve_error: float) -> None:
        self.inner = inner
        wave = np.cos(np.arange(len(inner.stationary)))
        self.stationary = inner.stationary * (1 + law_error * wave)
        self.stationary /= self.stationary.sum()
        self.factor = 1 + solve_error * wave

    def average(self, values: np.ndarray) -> np.ndarray:
        return np.full(len(values), self.stationary @ values)

    def solve(self, right: np.ndarray) -> np.ndarray:
        x = self.inner.solve(right) * self.factor
        return x - self.average(x)


@pytest.fixture
def slow_chain() -> tuple[MarkovRewardProcess, EliminationSolver]:
    n = 300
    half = np.full(n - 1, 0.5)
    walk = sparse.diags_array([half, half], offsets=[1, -1]).tolil()
    walk[0, 0] = walk[n - 1, n - 1] = 0.5
    mrp = MarkovRewardProcess(walk.tocsr(), np.arange(n) % 7)
    return mrp, eliminate(mrp.csr, mrp.structure, False, Budget(1e9, Watch()))


def test_refinement_repairs_a_sloppy_solver(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver],
) -> None:
    mrp, exact = slow_chain
    truth = solve_and_certify(mrp.csr, mrp.rewards, exact)
    assert truth.error_bound < 1e-14
    repaired = solve_and_certify(mrp.csr, mrp.rewards, Sloppy(exact, 0.0, 1e-3))
    np.testing.assert_allclose(repaired.bias, truth.bias, atol=1e-13 * np.ptp(truth.bias))
    assert repaired.error_bound < 1e-12


@pytest.mark.parametrize("law_error", [1e-4, 1e-8])
def test_error_of_the_law_is_seen(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver], law_error: float
) -> None:
    mrp, exact = slow_chain
    truth = solve_and_certify(mrp.csr, mrp.rewards, exact)
    wrong = solve_and_certify(mrp.csr, mrp.rewards, Sloppy(exact, law_error, 0.0))
    actual = np.abs(wrong.bias - truth.bias).max() / np.ptp(truth.bias)
    assert actual > 1e-3 * law_error
    assert actual <= wrong.error_bound <= 100 * actual


@pytest.mark.parametrize("law_error", [1e-4, 1e-8])
@pytest.mark.parametrize("shows_in_rewards", [False, True])
def test_estimate_of_the_error_of_a_law(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver], law_error: float, shows_in_rewards: bool
) -> None:
    """It is 100 sqrt(n) times what the error does to a random side, or to the rewards, and a little more."""
    mrp, exact = slow_chain
    solver, n = Sloppy(exact, law_error, 0.0), mrp.num_states
    off = solver.stationary - exact.stationary
    rewards = off / np.abs(off).max() if shows_in_rewards else mrp.rewards
    answer = solve_and_certify(mrp.csr, rewards, solver)
    each, total = stationary_errors(mrp.csr, mrp.structure.transient, solver, answer, rewards)
    excess = rewards - answer.gain
    seen = abs(off @ np.random.default_rng(0).standard_normal(n)), abs(off @ excess) / np.std(excess)
    assert (seen[1] > 3.0 * seen[0]) == shows_in_rewards
    assert 0.98 <= total / (100 * n**0.5 * max(seen)) <= 1.5
    assert np.abs(off).sum() < total
    assert (each == total).all()


def test_what_an_average_rounds_off_moves_the_bias_of_all_states(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit of rounding is made large, so that this is all of the error that an exact solver has."""
    mrp, exact = slow_chain
    truth = solve_and_certify(mrp.csr, mrp.rewards, exact)
    monkeypatch.setattr(certificate, "EPSILON", 2.0**-6)
    found = certificate._refined(mrp.csr, Doubled(mrp.rewards), Sloppy(exact, 0.0, 0.0))
    size = np.abs(truth.bias)
    stay = mrp.csr.diagonal()
    unseen = 4.0 * 2.0**-12 * exact.stationary @ ((1.0 - 2.0 * stay) * size + mrp.csr @ size)
    grown = np.abs(exact.solve(np.ones(mrp.num_states))).max()
    assert found.error_bound == pytest.approx(unseen * grown / np.ptp(truth.bias), rel=1e-6)


def test_the_error_of_the_solution_for_noise(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver],
) -> None:
    """What is left of the noise grows as the noise itself does."""
    mrp, exact = slow_chain
    solver = Strict(exact, 0.0, 1e-5)
    found = solve_and_certify(mrp.csr, mrp.rewards, solver).noise
    assert found is not None
    noise = np.random.default_rng(0).standard_normal(mrp.num_states)
    largest = np.abs(found.solution).max()
    assert found.growth == pytest.approx(largest / np.abs(noise).max())
    left = noise - solver.average(noise) - (found.solution - mrp.csr @ found.solution)
    grown = (np.abs(left).max() / np.abs(noise).max() + EPS) * found.growth
    assert found.error == pytest.approx(grown * largest, rel=1e-2)


@pytest.mark.parametrize(("waves", "is_slow"), [(200, False), (1, True)])
def test_what_an_iteration_leaves_grows_as_noise_or_as_the_bias_does(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver], waves: int, is_slow: bool
) -> None:
    """Two solvers that are alike, but one says that it may leave 1e15 times the right side."""
    mrp, exact = slow_chain
    rewards = np.cos(np.pi * waves * (np.arange(300) + 0.5) / 300)  # an eigenvector
    strict, loose = Strict(exact, 0.0, 1e-5), Strict(exact, 0.0, 1e-5)
    loose.tolerance = 1e15
    sure, found = (solve_and_certify(mrp.csr, rewards, solver) for solver in (strict, loose))
    assert sure.noise is not None
    second = exact.solve(sure.bias - exact.average(sure.bias))
    grown = np.abs(second).max() / np.abs(sure.bias).max()
    assert (grown > 3.0 * sure.noise.growth) == is_slow
    left = 1e15 * found.residual * max(np.abs(rewards).max() / np.ptp(sure.bias), 1.0)
    growth = max(grown, sure.noise.growth)
    assert found.error_bound == pytest.approx(1.05 * growth * left + sure.error_bound, rel=1e-3)
    assert sure.error_bound < 0.1 * found.error_bound


def test_a_gain_that_is_off_is_part_of_the_error(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver],
) -> None:
    """It is as far off as the last correction moves it, and more by what that leaves."""
    mrp, exact = slow_chain
    rows, rewards = Sparse(mrp.csr.indptr, mrp.csr.indices, mrp.csr.data), Doubled(mrp.rewards)
    solver = Strict(exact, 0.0, 1e-5)
    refined = certificate._refined(mrp.csr, rewards, solver)
    moved = refined.corrected._replace(gain=refined.corrected.gain.plus(np.full(mrp.num_states, 0.25)))
    found = certificate._estimated(rows, rewards, replace(refined, corrected=moved), solver)
    assert found.gain_error == pytest.approx(np.full(mrp.num_states, 0.5), rel=1e-9)
    assert found.error_bound == pytest.approx(0.5 / mrp.rewards.max(), rel=1e-9)


def test_an_error_of_the_solution_for_noise_makes_that_of_the_law_larger(
    slow_chain: tuple[MarkovRewardProcess, EliminationSolver],
) -> None:
    """By that error times how far the law is from balance, in the same norm."""
    mrp, exact = slow_chain
    solver = Strict(exact, 1e-4, 0.0)
    answer = solve_and_certify(mrp.csr, mrp.rewards, solver)
    assert answer.noise is not None
    less, more = (replace(answer, noise=answer.noise._replace(error=error)) for error in (0.0, 1e5))
    transient = mrp.structure.transient
    totals = [stationary_errors(mrp.csr, transient, solver, one, mrp.rewards)[1] for one in (less, more)]
    moved = np.abs(solver.stationary @ mrp.csr - solver.stationary).sum()
    assert totals[1] - totals[0] == pytest.approx(mrp.num_states**0.5 * moved * 1e5, rel=1e-6)


def test_power_iteration_that_stalls_is_refused() -> None:
    """The residual is 1e-8 and the answer is off by as much as it is large: two blocks that hardly talk."""
    import gainbias as gb

    inside = np.full((3, 3), 1 / 3)
    chain = np.kron(np.eye(2), inside) * (1 - 1e-8) + np.kron(1 - np.eye(2), inside) * 1e-8
    mrp = gb.MarkovRewardProcess(chain, [1.0, 0, 0, 0, 0, 0])
    with pytest.raises(gb.ConvergenceError, match=r"power: the chain forgets by only 2\.0e-08 per step"):
        gb.solve(mrp, method="power")
    assert gb.solve(mrp).gain == pytest.approx(1 / 6, rel=1e-14)


class Strict(Sloppy):
    """A method that says it iterates, and that takes only right sides with average 0, as agreed."""

    tolerance = 1e-9

    def solve(self, right: np.ndarray) -> np.ndarray:
        assert np.abs(self.average(right)).max() <= 1e-9 * np.abs(right).max()
        return super().solve(right)


@pytest.mark.parametrize("seed", range(3))
def test_right_sides_have_average_0(seed: int) -> None:
    """Also those for what is left open about rewards, which are all positive."""
    rng = np.random.default_rng(seed)
    chain, rewards, doubt = rng.dirichlet(np.ones(8), 8), 3.0 + rng.random(8), 1e-3 * (1.0 + rng.random(8))
    mrp = MarkovRewardProcess(chain, rewards)
    solver = Strict(eliminate(mrp.csr, mrp.structure, True, Budget(1e9, Watch())), 0.0, 1e-4)
    sure = solve_and_certify(mrp.csr, rewards, solver)
    found = solve_and_certify(mrp.csr, Expected(Doubled(rewards), doubt), solver)
    more = solve_and_certify(mrp.csr, doubt, solver)
    np.testing.assert_array_equal(found.bias, sure.bias)
    np.testing.assert_allclose(found.gain_error, more.gain, rtol=1e-2)
    np.testing.assert_allclose(found.bias_error, 1.05 * np.abs(more.bias).max(), rtol=1e-2)
    assert (found.gain_error >= more.gain).all()
    largest, span = np.abs(rewards).max(), np.ptp(sure.bias)
    expected = max(found.gain_error.max() / largest, found.bias_error.max() / span)
    assert found.from_rewards == pytest.approx(expected, rel=1e-6)
    assert found.error_bound == pytest.approx(sure.error_bound + expected, rel=1e-6)
    solve_and_refine_once(mrp.csr, rewards, solver)


def test_rewards_that_are_all_alike_say_nothing_about_the_law() -> None:
    """Then there is no scale for what the law does to their bias, which may consist of rounding errors."""
    chain = np.random.default_rng(0).dirichlet(np.ones(8), 8)
    mrp = MarkovRewardProcess(chain, np.full(8, 2.0))
    solver = Strict(eliminate(mrp.csr, mrp.structure, True, Budget(1e9, Watch())), 1e-8, 0.0)
    answer = solve_and_certify(mrp.csr, mrp.rewards, solver)
    noise = replace(answer, bias=1e-17 * np.arange(8.0))
    _, total = stationary_errors(mrp.csr, mrp.structure.transient, solver, noise, mrp.rewards)
    assert total == stationary_errors(mrp.csr, mrp.structure.transient, solver, answer, mrp.rewards)[1]
    assert 1e-8 < total < 1e-3
