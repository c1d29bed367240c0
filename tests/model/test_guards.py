"""What keeps an answer that is wrong from being returned with a small error bound.

Each test fails if its guard is left out, or its limit is moved by much.
"""

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.kernels import threads
from gainbias.model.solve import aggregation, iterative
from gainbias.model.solve.aggregation import find_blocks, prepare_aggregation
from gainbias.model.solve.certificate import solve_and_certify
from gainbias.model.solve.elimination.solver import EliminationSolver, eliminate
from gainbias.model.solve.iterative import (
    LOOK,
    prepare,
    prepare_krylov,
    prepare_power,
)
from gainbias.model.solve.solution import Budget, MethodError, Solver
from gainbias.progress import Watch
from tests.oracles.blocks import lumpable_blocks


def two_blocks(size: int, coupling: float) -> np.ndarray:
    """Two blocks of states that are alike and hardly talk: the slow mode is 1 on one and -1 on the other."""
    inside = np.full((size, size), 1 / size)
    return np.kron(np.eye(2), inside) * (1 - coupling) + np.kron(1 - np.eye(2), inside) * coupling


PLENTY = Budget(max_memory=1e9, watch=Watch())


def eliminated(process: gb.MarkovRewardProcess) -> EliminationSolver:
    return eliminate(process.csr, process.structure, True, PLENTY)


class Iterating:
    """A solver that says it iterates, and is wrong in a way that its own residual need not show."""

    method, notes, iterations, tolerance = "iterating", (), 0, 1e-9

    def __init__(self, process: gb.MarkovRewardProcess) -> None:
        self.inner = eliminated(process)
        self.stationary = self.inner.stationary

    def average(self, values: np.ndarray) -> np.ndarray:
        return self.inner.average(values)


class Blind(Iterating):
    """It does not see the slow mode of two blocks."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        x = self.inner.solve(right)
        half = len(x) // 2
        return x - np.repeat([x[:half].mean(), x[half:].mean()], half)


class Leaking(Iterating):
    """It leaves a part of each right side."""

    def __init__(self, process: gb.MarkovRewardProcess, part: float) -> None:
        super().__init__(process)
        self.part = part

    def solve(self, right: np.ndarray) -> np.ndarray:
        return (1.0 - self.part) * self.inner.solve(right)


class TestNoise:
    """A random right side shows what the rewards at hand happen not to contain."""

    @pytest.mark.parametrize("slow_part", [1e-12, 1e-9])
    def test_a_slow_mode_that_a_solver_does_not_see(self, slow_part: float) -> None:
        """The residual is 1e-12, and the bias off by all that the slow mode adds to it: 5 and more."""
        rewards = np.tile([1.0, -1.0, 0.0], 2) + slow_part * np.repeat([1.0, -1.0], 3)
        process = gb.MarkovRewardProcess(two_blocks(3, 1e-13), rewards)
        truth = gb.solve(process, method="dense-gth").bias
        assert np.abs(truth - Blind(process).solve(rewards)).max() > 4.0
        with pytest.raises(MethodError, match=r"^\d\.\de-0[12] of a random right side is left after a solve"):
            solve_and_certify(process.csr, rewards, Blind(process))

    def test_how_much_may_be_left(self) -> None:
        """It is solved for twice, so that the square of what is left is measured."""
        process = gb.MarkovRewardProcess(np.random.default_rng(0).dirichlet(np.ones(20), 20), np.arange(20))
        with pytest.raises(MethodError, match=r"^1\.\de-04 of a random right side is left"):
            solve_and_certify(process.csr, process.rewards, Leaking(process, np.sqrt(1.5e-4)))
        answer = solve_and_certify(process.csr, process.rewards, Leaking(process, np.sqrt(0.7e-4)))
        truth = gb.solve(process).bias
        assert np.abs(answer.bias - truth).max() / np.ptp(truth) <= answer.error_bound < 1e-14


class TestPower:
    def test_how_slow_a_chain_may_be(self) -> None:
        """It takes log(1e9) / log(1 / (1 - 2 c)) steps, of which there may be 20,000."""
        rewards = np.array([1.0, 2.0, 0.0, 0.0])
        solved = gb.solve(gb.MarkovRewardProcess(two_blocks(2, 7e-4), rewards), method="power")
        assert solved.bias == pytest.approx(gb.solve(solved.mrp).bias, rel=1e-12)
        slow = gb.MarkovRewardProcess(two_blocks(2, 3e-4), rewards)
        with pytest.raises(gb.ConvergenceError, match=r"power: the chain forgets by only 6\.0e-04 per step"):
            gb.solve(slow, method="power")

    def test_a_chain_that_at_first_does_not_forget(self) -> None:
        """It takes 400 steps to come down from the top; until then the largest term does not shrink."""
        n = 100
        chain = sparse.diags_array([np.full(n - 1, 0.05), np.full(n - 1, 0.3)], offsets=[1, -1]).tolil()
        chain.setdiag(1.0 - np.asarray(chain.sum(axis=1)).ravel())
        process = gb.MarkovRewardProcess(chain.tocsr(), np.arange(n))
        found = gb.solve(process, method="power")
        exact = gb.solve(process, method="dense-gth")
        assert np.abs(found.bias - exact.bias).max() <= 1e-12 * np.ptp(exact.bias)

    @pytest.mark.parametrize("coupling", [0.05, 0.01, 0.004])
    def test_steps_are_counted(self, coupling: float) -> None:
        """After k steps (1 - 2 c)^k is left. It is looked at every ten steps, and 1e-9 is enough."""
        process = gb.MarkovRewardProcess(two_blocks(2, coupling), [1.0, 1.0, 0.0, 0.0])
        solver = prepare_power(process.csr, np.arange(4), 1, PLENTY)
        before = solver.iterations
        solver.solve(process.rewards - 0.5)
        looks = np.ceil(np.log(1e-9) / np.log(1 - 2 * coupling) / LOOK)
        assert solver.iterations - before == LOOK * looks

    def test_steps_to_the_law_are_counted(self) -> None:
        """It is found to nine digits, and from there to nearly all. Each step leaves 0.7 of the error."""
        chain = sparse.csr_array([[0.9, 0.1], [0.2, 0.8]])
        solver = prepare_power(chain, np.arange(2), 1, Budget(1e9, Watch()))
        assert solver.stationary == pytest.approx([2 / 3, 1 / 3], rel=1e-14)
        assert -np.log(1e-9) <= -np.log(0.7) * solver.iterations <= -np.log(1e-18)

    def test_progress_is_counted_in_digits(self) -> None:
        shown = []

        class Noting(Watch):
            def show(self, label: str, *fraction: float) -> None:
                if fraction:
                    shown.append(fraction)

        process = gb.MarkovRewardProcess(two_blocks(2, 0.05), [1.0, 1.0, 0.0, 0.0])
        prepare_power(process.csr, np.arange(4), 1, Budget(1e9, Noting())).solve(process.rewards - 0.5)
        forgotten = -LOOK * np.log(0.9)
        expected = [(forgotten * look, -np.log(1e-9)) for look in range(1, 21)]
        np.testing.assert_allclose(shown, expected, atol=1e-5)


class TestAggregation:
    @staticmethod
    def blocks(links: int) -> gb.MarkovRewardProcess:
        """Three blocks of 20 states, each of which leads to this many states of other blocks."""
        rng = np.random.default_rng(0)
        together = np.kron(np.eye(3), np.ones((20, 20)))
        ranks = np.argsort(np.argsort(rng.random((60, 60)) + together, axis=1), axis=1)
        outside = np.where(ranks < links, 9e-4, 0.0)
        inside = together * rng.uniform(0.5, 1.0, (60, 60))
        inside *= (1.0 - 9e-4 * links) / inside.sum(axis=1, keepdims=True)
        return gb.MarkovRewardProcess(inside + outside, rng.random(60), renormalise=True)

    def test_many_weak_transitions_are_not_weak_together(self) -> None:
        process = self.blocks(links=25)
        found = gb.solve(process, method="aggregation")
        assert found.bias == pytest.approx(gb.solve(process).bias, rel=1e-12)
        with pytest.raises(gb.ConvergenceError, match="weak transitions do not separate the states into"):
            gb.solve(self.blocks(links=40), method="aggregation")

    @pytest.mark.parametrize("seed", [0, 2])
    def test_blocks_that_talk_much_take_more_cycles(self, seed: int) -> None:
        """After one cycle more than a hundredth of a random right side would be left."""
        rng = np.random.default_rng(seed)
        together = np.kron(np.eye(8), np.ones((4, 4)))
        inside = together * rng.uniform(0.05, 1.0, (32, 32))
        outside = (1 - together) * 3e-3 * rng.uniform(0.0, 1.0, (32, 32)) ** 3
        outside[:, :4] *= 0.3
        chain = inside / inside.sum(axis=1, keepdims=True) + outside * (outside < 7e-4)
        process = gb.MarkovRewardProcess(chain, np.arange(32.0), renormalise=True)
        found, truth = gb.solve(process, method="aggregation"), gb.solve(process)
        assert np.abs(found.bias - truth.bias).max() <= found.error_bound * np.ptp(truth.bias)
        assert found.error_bound < 1e-13

    def test_states_that_hardly_move_are_blocks_of_their_own(self) -> None:
        """Random steps inside blocks leave some states where they are; all that leads away is weak."""
        known = lumpable_blocks(120, 6, np.random.default_rng(3))
        process = gb.MarkovRewardProcess(known.transitions, known.rewards)
        alone = process.csr.diagonal() > 1.0 - 1e-9
        assert alone.any()
        for method in ("aggregation", "auto"):
            found = gb.solve(process, method=method)
            assert found.method == "aggregation"
            assert abs(found.gain - known.gain) <= found.gain_error
            assert np.abs(found.bias - known.bias).max() <= found.bias_error.max() + 1e-15 * np.ptp(
                known.bias
            )
            assert found.error_bound < 1e-14

    @pytest.mark.parametrize("links", [0, 10, 40])
    def test_blocks_of_large_chains_are_the_same(self, links: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """There threads first look for the weakest transition; staying is none, however unlikely."""
        chain = self.blocks(links).csr
        expected = find_blocks(chain)
        monkeypatch.setattr(threads, "STATES_TOGETHER", 25)
        found = find_blocks(chain)
        assert (expected is None) == (links != 10)
        np.testing.assert_array_equal(found, expected)

    def test_the_weakest_transition_leads_to_another_state(self) -> None:
        chain = sparse.csr_array([[1e-9, 0.25, 0.75], [0.5, 0.5 - 1e-9, 1e-9], [0.5, 0.25, 0.25]])
        found = [aggregation._weakest(chain, begin, begin + 1) for begin in range(3)]
        assert found == pytest.approx([0.25, 1e-9 / (0.5 + 1e-9), 1.0 / 3.0], rel=1e-12)
        assert aggregation._weakest(chain, 0, 3) == min(found)

    def test_cycles_are_counted(self) -> None:
        """To find the law, each cycle solves the chain of blocks once; of a solve each leaves a hundredth."""
        process, chains = self.blocks(links=10), list[sparse.csr_array]()

        def solve_coarse(chain: sparse.csr_array) -> Solver:
            chains.append(chain)
            return eliminated(gb.MarkovRewardProcess(chain, np.zeros(3)))

        solver = prepare_aggregation(process.csr, find_blocks(process.csr), solve_coarse, PLENTY)
        assert solver.iterations == len(chains) > 1
        solver.solve(process.rewards - solver.average(process.rewards))
        assert solver.iterations == len(chains) + 3


class TestKrylov:
    @pytest.mark.parametrize("coupling", [1e-10, 1e-12])
    def test_a_search_that_stalls_is_refused(self, coupling: float) -> None:
        rewards = np.random.default_rng(0).standard_normal(20)
        process = gb.MarkovRewardProcess(two_blocks(10, coupling), rewards)
        with pytest.raises(
            gb.ConvergenceError, match=r"krylov: BiCGSTAB reached a residual of \d\.\de-0[4-8] "
        ):
            gb.solve(process, method="krylov", tol=1.0)


def test_a_right_side_of_zeros_has_the_solution_zero() -> None:
    chain, states = sparse.csr_array(two_blocks(2, 0.1)), np.arange(4)
    for solver in (prepare_power(chain, states, 1, PLENTY), prepare_krylov(chain, states, PLENTY)):
        assert solver.solve(np.zeros(4)).tolist() == [0.0] * 4


@pytest.mark.parametrize(("cancels", "is_refused"), [(5e5, False), (2e6, True), (1e12, True)])
def test_a_law_whose_entries_cancel_is_none(cancels: float, is_refused: bool) -> None:
    """A correction adds much to one state and takes as much from the other: the sum stays 1."""
    chain, states = sparse.csr_array([[0.9, 0.1], [0.2, 0.8]]), np.arange(2)

    def far_off(*_: object) -> np.ndarray:
        return np.array([cancels / 2.0, -cancels / 2.0])

    def prepared() -> Solver:
        return prepare("astray", chain, states, far_off, far_off, PLENTY, guess=np.array([0.5, 0.5]))

    if is_refused:
        with pytest.raises(MethodError, match="a search for the stationary law ended far from it"):
            prepared()
    else:  # it is swept until it is the law
        assert prepared().stationary == pytest.approx([2 / 3, 1 / 3], rel=1e-9)


class TestLaw:
    """Iterative methods find the stationary law to nearly all digits, or a note says that they do not."""

    @pytest.mark.parametrize("method", ["power", "krylov", "incomplete-gth"])
    @pytest.mark.parametrize("slowness", [0.5, 3e-2])
    def test_entry_by_entry(self, method: str, slowness: float) -> None:
        rng = np.random.default_rng(0)
        weights = rng.random((40, 40)) * 10.0 ** -rng.uniform(0, 6, 40)
        moving = weights / weights.sum(axis=1, keepdims=True)
        chain = (1 - slowness) * np.eye(40) + slowness * moving
        process = gb.MarkovRewardProcess(chain, rng.standard_normal(40))
        exact = gb.solve(process, method="dense-gth")
        found = gb.solve(process, method=method)
        assert not found.notes
        assert np.abs(found.stationary - exact.stationary).sum() <= 1e-14 / slowness
        np.testing.assert_allclose(found.stationary, exact.stationary, rtol=2e-13 / slowness)

    def test_a_note_says_what_is_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(iterative, "FEW_SWEEPS", 10)
        monkeypatch.setattr(iterative, "SWEEPS_PER_PRODUCT", 0)
        n = 150
        chain = sparse.diags_array([np.full(n - 1, 0.2), np.full(n - 1, 0.26)], offsets=[1, -1]).tolil()
        chain.setdiag(1.0 - np.asarray(chain.sum(axis=1)).ravel())
        process = gb.MarkovRewardProcess(chain.tocsr(), np.arange(n))
        found = gb.solve(process, method="krylov")
        exact = gb.solve(process, method="sparse-gth")
        assert np.abs(found.stationary / exact.stationary - 1.0).max() > 1e-6
        assert "small stationary probabilities may be off: one still moves by" in found.notes[-1]
