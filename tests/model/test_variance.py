"""The asymptotic variance is right where digits cancel, and its error bound holds."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.solve import variance
from gainbias.model.solve.bounds import MARGIN
from gainbias.model.solve.certificate import Certified, solve_and_certify
from gainbias.model.solve.elimination.solver import EliminationSolver, eliminate
from gainbias.model.solve.solution import Budget
from gainbias.model.solve.variance import Variance, asymptotic_variance
from gainbias.model.solve.vectors import rows_of
from gainbias.progress import Watch
from tests.oracles.exact import exact_answer, fraction, rational_answer

EPS = float(np.finfo(float).eps)


def lazy_ring(n: int, stay: float) -> np.ndarray:
    return stay * np.eye(n) + (1 - stay) * np.roll(np.eye(n), 1, axis=1)


def walk(n: int, up: float, down: float) -> np.ndarray:
    chain = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, down), -1)
    return chain + np.diag(1.0 - chain.sum(axis=1))


def check(solution: gb.Solution, exact: float, digits: float) -> None:
    off = abs(solution.asymptotic_variance - exact)
    assert off <= solution.asymptotic_variance_error
    assert solution.asymptotic_variance_error <= digits * exact
    assert not any("asymptotic_variance" in note for note in solution.notes)


@pytest.mark.parametrize("method", ["dense-gth", "sparse-gth"])
@pytest.mark.parametrize(("n", "stay"), [(50, 1e-3), (7, 1e-9), (31, 0.5)])
@pytest.mark.parametrize(("level", "size"), [(1e9, 1e-6), (-1e12, 1.0), (1.0, 1e-14), (0.0, 1.0)])
def test_rings_that_hardly_ever_wait(n: int, stay: float, level: float, size: float, method: str) -> None:
    chain = lazy_ring(n, stay)
    rewards = level + size * np.random.default_rng(n).standard_normal(n)
    solution = gb.solve(gb.MarkovRewardProcess(chain, rewards), method=method)
    exact = rational_answer(chain, rewards).asymptotic_variance
    check(solution, exact, 1e-6)
    assert solution.asymptotic_variance == pytest.approx(exact, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [0.0, 1e3, 1e7])
def test_rewards_of_transitions_on_a_large_level(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet(np.ones(6), 6)
    rewards = level + rng.standard_normal((6, 6))
    exact = rational_answer(chain, rewards).asymptotic_variance
    solution = gb.solve(gb.MarkovRewardProcess(chain, rewards), tol=1e-6)
    check(solution, exact, 1e-7)


@pytest.mark.parametrize(("n", "up", "down"), [(150, 0.2, 0.26), (170, 0.24, 0.3), (90, 0.2, 0.3)])
@pytest.mark.parametrize("power", [0.5, 0.9])
def test_krylov_where_small_probabilities_are_off(n: int, up: float, down: float, power: float) -> None:
    """The variance comes from states seen once in 1e15 steps, whose probability has few digits."""
    chain = walk(n, up, down)
    rewards = (down / up) ** (power * np.arange(n))
    exact = rational_answer(chain, rewards).asymptotic_variance
    solution = gb.solve(gb.MarkovRewardProcess(sparse.csr_array(chain), rewards), method="krylov")
    check(solution, exact, 1e-4)
    assert solution.asymptotic_variance == pytest.approx(exact, rel=1e-9)


def test_values_of_a_state_that_is_never_visited_hide_nothing() -> None:
    """Values of 1e20 come from a state whose jumps do not count; other values have their own errors."""
    chain = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [1e-20, 0.0, 1.0]])
    solution = gb.solve(gb.MarkovRewardProcess(chain, [1e-3, -1e-3, 1.0]))
    check(solution, rational_answer(chain, [1e-3, -1e-3, 1.0]).asymptotic_variance, 1e-13)


def test_what_is_smaller_than_its_error_is_said_to_have_no_digit() -> None:
    """A level of 1e16 that rows carry up to rounding only leaves about 1 open in each value."""
    chain = np.random.default_rng(0).dirichlet(np.ones(8), 8)
    rewards = np.full((8, 8), 1e16)
    rewards[0, 0] += 2.0
    with pytest.warns(gb.AccuracyWarning, match="the bias of 8 of 8 states may be off"):
        solution = gb.solve(gb.MarkovRewardProcess(chain, rewards))
    exact = rational_answer(chain, rewards).asymptotic_variance
    assert abs(solution.asymptotic_variance - exact) <= solution.asymptotic_variance_error
    assert solution.asymptotic_variance_error > solution.asymptotic_variance
    assert "asymptotic_variance has no certain digit" in solution.notes[-1]


class Rough:
    """A solver whose solutions have an error of a given relative size; it counts them."""

    method, notes, iterations, tolerance = "rough", (), 0, 1e-9

    def __init__(self, mrp: gb.MarkovRewardProcess, off: float) -> None:
        self.inner, self.off = eliminate(mrp.csr, mrp.structure, True, Budget(1e9, Watch())), off
        self.stationary, self.average = self.inner.stationary, self.inner.average
        self.solves = 0

    def solve(self, right: np.ndarray) -> np.ndarray:
        self.solves += 1
        x = self.inner.solve(right) * (1.0 + self.off * np.cos(np.arange(len(right))))
        return x - self.average(x)


@pytest.mark.parametrize(("off", "solves"), [(0.0, 1), (1e-8, 2), (1e-5, 3)])
def test_an_average_is_refined_until_it_has_its_digits_and_no_longer(off: float, solves: int) -> None:
    chain = np.random.default_rng(0).dirichlet(np.ones(20), 20)
    mrp = gb.MarkovRewardProcess(chain, np.arange(20.0))
    solver = Rough(mrp, off)
    answer = solve_and_certify(mrp.csr, mrp.rewards, solver)
    solver.solves = 0
    found = asymptotic_variance(mrp, mrp.rewards, answer, solver)
    assert solver.solves == solves
    exact = rational_answer(chain, mrp.rewards).asymptotic_variance
    assert abs(found.value - exact) <= found.error <= 2e-12 * exact


def test_jumps_whose_squares_overflow() -> None:
    """Two states that change once in 1e170 steps: values differ by 1e170, the variance is as large."""
    chain = np.array([[1.0, 1e-170], [3e-170, 1.0]])
    mrp = gb.MarkovRewardProcess(chain, [1.0, 2.0])
    check(gb.solve(mrp), float(exact_answer(mrp).variance), 1e-13)


@pytest.mark.parametrize("rare", [1e-12, 1e-9, 1e-6])
def test_rows_that_sum_to_1_up_to_rounding_leave_a_rare_stay_open(rare: float) -> None:
    """What is stored for the chance to stay, and what the others leave to 1, differ by 1e-16 / rare of it."""
    chain = np.array([[0.4, 0.6 - rare, rare], [0.7, 0.3 - rare, rare], [1 - rare, 0.0, rare]])
    rewards = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 1.0 / rare**2]])
    exact = rational_answer(chain, rewards).asymptotic_variance
    solution = gb.solve(gb.MarkovRewardProcess(chain, rewards))
    assert abs(solution.asymptotic_variance - exact) <= solution.asymptotic_variance_error
    assert 1e-17 / rare * exact < solution.asymptotic_variance_error < 1e-15 / rare * exact


@pytest.mark.parametrize("seed", range(4))
def test_in_continuous_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = 10.0 ** rng.uniform(-6, 0, (5, 5)) * (1 - np.eye(5))
    rates -= np.diag(rates.sum(axis=1))
    reward_rates = 1e6 + rng.standard_normal(5)
    solution = gb.solve(gb.MarkovRewardProcess.from_rates(rates, reward_rates))
    mrp = solution.mrp
    per_step = rational_answer(mrp.transitions, mrp.rewards)
    off = abs(solution.variance_per_step - per_step.asymptotic_variance)
    assert off <= solution.variance_per_step_error <= 1e-7 * per_step.asymptotic_variance
    # Time between two steps is random too: what a step brings above the gain, once more with its square.
    excess = mrp.rewards - 1e6 / mrp.rate
    excess -= per_step.stationary @ excess
    added = mrp.rate * (per_step.asymptotic_variance + per_step.stationary @ excess**2)
    assert solution.asymptotic_variance == pytest.approx(added, rel=1e-9)


def test_deterministic_cycles_have_none() -> None:
    solution = gb.solve(gb.MarkovRewardProcess(np.roll(np.eye(5), 1, axis=1), 1e9 + np.arange(5.0)))
    assert solution.asymptotic_variance <= solution.asymptotic_variance_error <= 1e-20
    constant = gb.solve(gb.MarkovRewardProcess(np.full((3, 3), 1 / 3), np.full(3, 0.1)))
    assert (constant.asymptotic_variance, constant.asymptotic_variance_error) == (0.0, 0.0)


def test_each_class_has_its_own_error() -> None:
    """A class that hardly moves is known badly; the other one does not know of it."""
    chain = np.zeros((4, 4))
    chain[:2, :2] = [[0.5, 0.5], [0.25, 0.75]]
    chain[2:, 2:] = [[1.0, 1e-20], [3e-20, 1.0]]
    found = gb.solve(gb.MarkovRewardProcess(chain, [1.0, 2.0, 3.0, 5.0]), multichain=True)
    alone = gb.solve(gb.MarkovRewardProcess(chain[:2, :2], [1.0, 2.0]))
    error = found.class_asymptotic_variance_errors
    assert found.class_asymptotic_variances[0] == pytest.approx(alone.asymptotic_variance, rel=1e-14)
    assert error[0] == pytest.approx(alone.asymptotic_variance_error, rel=0.5)
    assert error[1] > 1e3


class TestFormulas:
    """Errors of the bias that are seen, and units of rounding that are seen too."""

    eps = 2.0**-12
    chain = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    rewards = np.array([3.0, -1.0, -4.0, 1.0, -5.0])

    def solved(
        self, rewards: np.ndarray, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[gb.MarkovRewardProcess, Certified, EliminationSolver]:
        monkeypatch.setattr(variance, "EPSILON", self.eps)
        mrp = gb.MarkovRewardProcess(self.chain, rewards)
        solver = eliminate(mrp.csr, mrp.structure, True, Budget(1e9, Watch()))
        off = np.array([0.1, 0.2, 0.05, 0.15, 0.3])
        answer = replace(
            solve_and_certify(mrp.csr, mrp.rewards, solver), gain_error=0.1 * off, bias_error=off
        )
        return mrp, answer, solver

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_of_jumps(self, sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(variance, "ENOUGH_VARIANCE", np.inf)
        mrp, answer, solver = self.solved(sign * self.rewards, monkeypatch)
        found = asymptotic_variance(mrp, mrp.rewards, answer, solver)
        law, bias, off = solver.stationary, answer.bias, answer.bias_error
        mean = self.chain @ bias
        squares = np.sum(self.chain * (bias - mean[:, None]) ** 2, axis=1)
        value = law @ squares
        assert found.value == pytest.approx(value, rel=1e-12)
        likeliest = self.chain.argmax(axis=1)
        step = off + off[likeliest][:, None] + 8 * self.eps * np.abs(bias - bias[likeliest][:, None])
        moves = np.where(np.arange(5) == likeliest[:, None], 0.0, self.chain)
        norm = np.sqrt(law @ np.sum(moves * step**2, axis=1))
        error = 2 * np.sqrt(value) * norm + norm**2 + (5 + 8) * self.eps * value
        # The average of the squares is refined as a gain.
        second = np.abs(solver.solve(squares - value))
        stay = np.diag(self.chain)
        through = (1 - stay) * second + self.chain @ second - stay * second
        error += law @ (4 * self.eps**2 * through)
        assert found.error == pytest.approx(error * MARGIN, rel=1e-11)

    @pytest.mark.parametrize("in_time", [False, True])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_of_covariances(self, sign: float, in_time: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        mrp, answer, solver = self.solved(sign * self.rewards, monkeypatch)
        law, off_law = solver.stationary, 0.01 * solver.stationary
        solver.__dict__["law"] = solver.law._replace(given_error=off_law)
        classes = variance._classes(mrp.structure, solver)
        found = variance._covariances(mrp.rewards, answer, None, solver, classes, in_time)
        excess, bias = mrp.rewards - answer.gain, answer.bias
        own = 0.0 if in_time else 1.0
        assert found.value == pytest.approx(law @ (2 * excess * bias - own * excess**2), rel=1e-12)
        size = 2 * np.abs(excess * bias) + own * excess**2
        gain_error, bias_error = answer.gain_error, answer.bias_error
        off = 2 * gain_error * (np.abs(bias) + np.abs(excess) + bias_error + gain_error)
        off += 2 * np.abs(excess) * bias_error
        error = (law + off_law) @ off + off_law @ size + (5 + 8) * self.eps * (law @ size)
        assert found.error == pytest.approx(error, rel=1e-12)

    def test_the_better_of_two(self) -> None:
        """The second one is taken if it is known a thousand times better, and is no negative variance."""
        first = Variance(np.full(5, 4.0), np.full(5, 1.0))
        second = Variance(np.array([3.0, 3.0, -3.0, 4.25, 3.0]), np.array([2e-3, 5e-4, 5e-4, 0.5, np.nan]))
        found = variance._better(first, second)
        assert found.value.tolist() == [4.0, 3.0, 4.0, 4.0, 3.0]
        assert found.error[:4].tolist() == [1.0, 5e-4, 1.0, 0.75]


def climb(top: float, size: float, n: int = 13) -> gb.MarkovRewardProcess:
    """A walk that is at its top with a probability of about 1e-`top`, and only there is a reward."""
    up, down = np.full(n - 1, 10.0 ** (-top / (n - 1)) / 2), np.full(n - 1, 0.5)
    chain = np.diag(up, 1) + np.diag(down, -1)
    return gb.MarkovRewardProcess(
        chain + np.diag(1 - chain.sum(axis=1)), np.where(np.arange(n) == n - 1, size, 0.0)
    )


@pytest.mark.parametrize(("top", "size"), [(330.0, 1e100), (330.0, 1e140), (360.0, 1e150), (400.0, 1e-10)])
def test_rare_states_below_the_smallest_number_may_hold_all_of_it(top: float, size: float) -> None:
    """The law of the top has no number, but its reward may be large enough to make the whole variance."""
    mrp = climb(top, size)
    exact = exact_answer(mrp).variance
    assert exact is not None
    for method in ("dense-gth", "sparse-gth"):
        found = gb.solve(mrp, method=method)
        assert found.stationary[-1] == 0.0
        error = abs(fraction(found.asymptotic_variance) - exact)
        assert error <= fraction(found.asymptotic_variance_error)
        assert found.asymptotic_variance_error <= 1e-300 * max(1.0, size**2)


def test_a_probability_that_is_too_small_to_be_a_number_has_an_error() -> None:
    """By a method that iterates too; that of a transient state is exactly 0."""
    mrp = climb(330.0, 1.0)
    found = gb.solve(mrp, method="incomplete-gth")
    assert found.method == "incomplete-gth"
    assert found.stationary[-1] == 0.0
    assert (found.stationary_error == found.stationary_error_total).all()
    tail = np.zeros((14, 14))
    tail[:13, :13] = mrp.csr.toarray()
    tail[13, 0] = 1.0
    found = gb.solve(gb.MarkovRewardProcess(tail, np.arange(14.0)), method="incomplete-gth")
    assert found.stationary_error[12] == found.stationary_error_total
    assert found.stationary[13] == found.stationary_error[13] == 0.0


@pytest.mark.parametrize("seed", range(40))
def test_cycles_that_may_stay_by_rounding_only(seed: int) -> None:
    """All of the variance is what rows leave open, and so is its error, whose own rounding counts too."""
    rng = np.random.default_rng(seed)
    chain = np.roll(np.diag(np.where(rng.random(6) < 0.4, 1.0 - EPS / 2, 1.0)), 1, axis=1)
    mrp = gb.MarkovRewardProcess(chain, rng.normal(size=6))
    exact = exact_answer(mrp).variance
    assert exact is not None
    for method in ("dense-gth", "sparse-gth", "incomplete-gth"):
        found = gb.solve(mrp, method=method)
        off = abs(fraction(found.asymptotic_variance) - exact)
        assert off <= fraction(found.asymptotic_variance_error)


@pytest.mark.parametrize("in_time", [False, True])
@pytest.mark.parametrize("is_there", [(False, False, False), (True, False, False), (True, True, True)])
def test_jumps_one_by_one_have_the_bits_of_all_at_once(is_there, in_time) -> None:
    rng = np.random.default_rng(2)
    chain = sparse.csr_array(np.where(rng.random((40, 40)) < 0.3, 1.0, 0.0) + np.eye(40))
    chain.data *= rng.random(chain.nnz)
    chain.data /= np.repeat(chain.sum(axis=1), np.diff(chain.indptr))
    high, rest, off = rng.random((3, chain.nnz)) - 0.5
    inputs = (
        rows_of(chain),
        high,
        1e-17 * rest,
        np.abs(off),
        is_there,
        rng.random(40),
        rng.random(40),
        in_time,
    )
    one, other = np.empty((2, 3, 40))
    variance.write_squared_jumps(*inputs, 1e-15, 0, 40, *one)
    for begin, end in ((0, 7), (7, 40)):
        variance.squared_jumps_at_once(*inputs, 1e-15, begin, end, *other)
    assert np.array_equal(one, other)
