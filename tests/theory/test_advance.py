"""All ways to the same moments, against steps one by one."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.engine.schedules import Listed
from gainbias.testing.drive import FEW, SEVERAL, first_weights, small_problem
from gainbias.theory.curve import advance
from gainbias.theory.curve.advance import moments_at
from gainbias.theory.curve.system import make_system
from tests.testing.own import declaring
from tests.theory.precise import precise_error
from tests.theory.systems import all_steps, random_problem, recursion_of

AFFINE = [name for name, algorithm in gb.ALGORITHMS.items() if algorithm.declared.sample_field is not None]


class TestWays:
    @pytest.mark.parametrize("schedule", [gb.Harmonic(20, 400), gb.Polynomial(1.0, 100, 0.6)], ids=str)
    def test_blocks_make_the_same_steps(self, schedule):
        recursion, first = recursion_of("double-chain", random_problem())
        checkpoints = np.array([0, 1, 10, 777, 1500, 3000])
        calls = 0
        slope = recursion.slope

        def counted(*args):
            nonlocal calls
            calls += 1
            return slope(*args)

        recursion.slope = counted
        found = moments_at(recursion, first, schedule, checkpoints)
        made, recursion.slope = calls, slope
        expected = all_steps(recursion, first, schedule.values(0, 3000), checkpoints)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        assert made < 2500

    @pytest.mark.parametrize(
        ("name", "tabular"),
        [("td-lambda", False), ("td-lambda", True), ("differential-td", False), ("implicit-td", False)],
    )
    def test_blocks_beside_a_fast_gain(self, name, tabular, monkeypatch):
        """Tabular features have a mean, and so the gain changes the mean of the weights."""
        monkeypatch.setattr(advance, "WORTH", 80)
        problem = random_problem()
        problem = gb.Problem(problem.mrp, gb.Tabular()) if tabular else problem
        recursion, first = recursion_of(name, problem, largest=0.1)
        covered, plain = 0, advance._between_nodes

        def counted(recursion, now, fast, sizes, ends):
            nonlocal covered
            assert fast
            found = plain(recursion, now, fast, sizes, ends)
            assert found is not None
            covered += len(sizes)
            return found

        monkeypatch.setattr(advance, "_between_nodes", counted)
        schedule, checkpoints = gb.Harmonic(40, 400), np.array([0, 3, 700, 1333, 2000])
        found = moments_at(recursion, first, schedule, checkpoints)
        expected = all_steps(recursion, first, schedule.values(0, 2000), checkpoints)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        assert covered > 1000

    def test_moments_that_are_not_symmetric_do_not_grow(self):
        """Rounding makes them so, and nothing would damp them next to a fast gain."""
        recursion, first = recursion_of("td-lambda", random_problem())
        begin, rng = recursion.begin(first), np.random.default_rng(0)
        fast = advance._fast_entries(recursion, begin, 0.05)[0]
        askew = rng.normal(size=begin.shape)
        askew -= askew.transpose(0, 2, 1)
        found, expected = (
            advance._smooth_slope(recursion, each, fast, 0.05) for each in (begin + askew, begin)
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())

    def test_a_slow_gain_is_not_followed_apart(self):
        algorithm, problem = gb.ALGORITHMS["td-lambda"], random_problem()
        for ratio, apart in ((1.0, True), (0.1, False)):
            params = algorithm.params(gain_ratio=ratio)
            system = make_system(algorithm, problem, params, first_weights(problem))
            begin = system.recursion.begin(system.first - system.origin)
            fast, rate, _, _ = advance._fast_entries(system.recursion, begin, 0.05)
            assert bool(fast) == apart
            assert rate < 0.4

    @pytest.mark.parametrize("name", ["double-chain-symmetric", "implicit-td"])
    def test_blocks_of_slow_steps(self, name, monkeypatch):
        """With few steps for a block, also where coefficients change with the step size."""
        monkeypatch.setattr(advance, "WORTH", 100)
        recursion, first = recursion_of(name, random_problem(), largest=0.005)
        schedule, checkpoints = gb.Harmonic(5.0, 1000), np.array([0, 133, 400])
        found = moments_at(recursion, first, schedule, checkpoints)
        expected = all_steps(recursion, first, schedule.values(0, 400), checkpoints)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    def test_blocks_that_are_too_long_are_made_shorter(self, monkeypatch):
        schedule = gb.Harmonic(20, 400)
        recursion, first = recursion_of("double-chain", random_problem())
        monkeypatch.setattr(advance, "_fastest_rate", lambda *_: (1e-3, 0.0))
        found = moments_at(recursion, first, schedule, np.array([100, 2500]))
        expected = all_steps(recursion, first, schedule.values(0, 2500), np.array([100, 2500]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    def test_blocks_with_too_few_nodes_are_made_shorter(self, monkeypatch):
        monkeypatch.setattr(advance, "NODES", 6)
        monkeypatch.setattr(advance, "WORTH", 20)
        recursion, first = recursion_of("double-chain", random_problem())
        sizes = np.full(600, 0.02)
        found = moments_at(recursion, first, Listed(sizes), np.array([100, 600]))
        expected = all_steps(recursion, first, sizes, np.array([100, 600]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())

    def test_step_sizes_that_jump_are_taken_one_by_one(self):
        sizes = np.where(np.arange(2000) % 7 < 3, 0.02, 0.001)
        recursion, first = recursion_of("double-chain", random_problem())
        found = moments_at(recursion, first, Listed(sizes), np.array([500, 2000]))
        expected = all_steps(recursion, first, sizes, np.array([500, 2000]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("name", AFFINE)
    def test_powers_and_matrices(self, name, sampling):
        recursion, first = recursion_of(name, small_problem("dense", FEW), sampling)
        checkpoints = np.array([0, 1, 5, 300])
        for schedule in (gb.Constant(0.2), gb.Harmonic(2.0, 10.0)):
            found = moments_at(recursion, first, schedule, checkpoints)
            expected = all_steps(recursion, first, schedule.values(0, 300), checkpoints)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())

    @pytest.mark.parametrize("name", ["double-chain", "td-lambda"])
    def test_tiny_steps_along_a_slow_chain(self, name):
        """A change in one step is lost in the rounding of the moments, but not in their powers."""
        rare = 2.0**-13
        process = gb.MarkovRewardProcess([[1 - rare, rare], [rare / 2, 1 - rare / 2]], [1.0, 0.0])
        problem, step_size = gb.Problem(process, [[1.0], [0.5]]), 2.0**-34
        steps = [2**30, 2**46, 2**50]
        curve = gb.exact_curve(name, problem, steps[-1], step_size, checkpoints=steps)
        expected = [precise_error(name, problem, step_size, num_steps) for num_steps in steps]
        assert curve.mean_squared_error == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize("name", AFFINE)
    def test_the_change_of_the_sum_is_that_of_a_step(self, name, sampling):
        recursion, first = recursion_of(name, small_problem("dense", FEW), sampling)
        moments = recursion.begin(first)
        for size in (0.3, 0.2, 0.1):
            after = recursion.step(moments, size)
            change = recursion.change_of_sum(moments, size)
            found, expected = moments.sum(axis=0) + change, after.sum(axis=0)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
            moments = after

    def test_along_a_chain_with_many_states(self):
        """Where no matrix is made, against every move listed."""
        problem = small_problem("dense", SEVERAL)
        fast, first = recursion_of("differential-td", problem, "markov")
        plain = gb.ALGORITHMS["differential-td"]

        def hidden(sample, params, step_size):
            if len(sample.here) == 4 and np.count_nonzero(sample.here) == 1:
                return np.full((5, 5), 7.0), np.ones(5)
            return plain.declared.sample_field(sample, params, step_size)

        slow = make_system(
            declaring(plain, sample_field=hidden),
            problem,
            plain.params(),
            first_weights(problem),
            sampling="markov",
        )
        assert type(slow.recursion) is not type(fast)
        sizes = gb.Harmonic(2.0, 10.0).values(0, 20)
        found, expected = (all_steps(each, first, sizes, [5, 20]) for each in (fast, slow.recursion))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)

    def test_a_billion_constant_steps(self):
        problem = small_problem("dense", FEW)
        curve = gb.exact_curve("double-chain", problem, 10**9, 0.01, sampling="iid", checkpoints=[10**6])
        assert curve.mean_squared_error[0] == pytest.approx(curve.mean_squared_error[1], rel=1e-6)
