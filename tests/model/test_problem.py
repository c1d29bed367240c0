"""Problems: the fixed point, norms, and what a problem refuses."""

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from gainbias.model import problem
from gainbias.model import problem as problem_module
from gainbias.model.problem import projector

TWO = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])


def random_process(rng, n):
    weights = rng.random((n, n)) ** 3
    return gb.MarkovRewardProcess(weights / weights.sum(axis=1, keepdims=True), rng.standard_normal(n))


def projected_equation(process, phi):
    """The fixed point from dense matrices, as it is defined."""
    transitions, n = process.csr.toarray(), process.num_states
    mu = np.linalg.solve(np.vstack([(np.eye(n) - transitions).T[:-1], np.ones(n)]), np.eye(n)[-1])
    mean = phi.T @ mu
    left = phi.T @ np.diag(mu) @ (np.eye(n) - transitions) @ phi + np.outer(mean, mean)
    return np.linalg.solve(left, phi.T @ (mu * (process.rewards - mu @ process.rewards)))


class TestFixedPoint:
    def test_by_hand(self):
        # mu = (1/2, 1/2), g = 1/2 and phi = (1, 0): (0.9 / 2 + 1 / 4) theta = 1 / 4.
        problem = gb.Problem(TWO, [[1.0], [0.0]])
        assert problem.fixed_point == pytest.approx([5 / 14], rel=1e-14)
        assert problem.values == pytest.approx([5 / 14, 0.0], rel=1e-14)

    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_solves_the_projected_equation(self, seed, form):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 30))
        phi = rng.standard_normal((n, int(rng.integers(1, n + 1))))
        phi[:, 0] = 3.0 if seed % 2 else phi[:, 0]
        process = random_process(rng, n)
        problem = gb.Problem(process, form(phi))
        np.testing.assert_allclose(
            problem.fixed_point, projected_equation(process, phi), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_array_equal(problem.values, problem.features.combine(problem.fixed_point))

    def test_tabular_values_are_the_bias(self):
        process = random_process(np.random.default_rng(0), 12)
        problem = gb.Problem(process, gb.Tabular())
        np.testing.assert_array_equal(problem.fixed_point, problem.solution.bias)
        np.testing.assert_array_equal(problem.values, problem.solution.bias)
        np.testing.assert_allclose(problem.fixed_point, projected_equation(process, np.eye(12)), atol=1e-13)
        np.testing.assert_allclose(gb.Problem(process, np.eye(12)).values, problem.solution.bias, atol=1e-14)

    def test_features_that_span_bias_and_constants_give_the_bias_however_slow_the_chain(self):
        # Solved as it stands, the equation would lose all digits to its condition number, here 1e14.
        blocks = np.kron(np.eye(2), np.full((3, 3), 1 / 3)) + 1e-15
        process = gb.MarkovRewardProcess(blocks, [1.0, 2.0, 0.0, 0.5, 0.1, 0.0], renormalise=True)
        bias = gb.solve(process).bias
        phi = np.column_stack([bias / np.abs(bias).max() + 0.3, np.ones(6), np.arange(6.0) ** 2])
        problem = gb.Problem(process, phi)
        np.testing.assert_allclose(problem.values, bias, rtol=0, atol=1e-9 * np.ptp(bias))

    def test_features_that_cannot_follow_the_bias_give_full_accuracy_however_large_it_is(self):
        rows = [[1 - 1e-12, 1e-12, 0.0], [1e-12, 0.4 - 1e-12, 0.6], [0.0, 0.6, 0.4]]
        problem = gb.Problem(gb.MarkovRewardProcess(rows, [1.0, 0.0, 0.5]), [[0.0], [1.0], [-1.0]])
        assert np.ptp(problem.solution.bias) > 1e11
        # mu is uniform and m = 0; a flow of 0.6 / 3 over a difference of 2 gives 0.8 theta = -0.5 / 3.
        assert problem.fixed_point == pytest.approx(-5 / 24, rel=1e-12)

    def test_mean_of_the_values_is_zero_only_with_constants_in_the_span(self):
        process = random_process(np.random.default_rng(2), 8)
        mu = gb.solve(process).stationary
        phi = np.random.default_rng(3).standard_normal((8, 3))
        assert abs(mu @ gb.Problem(process, phi).values) > 1e-3
        assert abs(mu @ gb.Problem(process, np.column_stack([phi, np.ones(8)])).values) < 1e-14

    def test_a_periodic_process_has_one(self):
        cycle = gb.MarkovRewardProcess(np.roll(np.eye(4), 1, axis=1), [1.0, 0.0, 0.0, 0.0])
        phi = np.random.default_rng(0).standard_normal((4, 2))
        np.testing.assert_allclose(
            gb.Problem(cycle, phi).fixed_point, projected_equation(cycle, phi), rtol=1e-12
        )

    def test_a_process_in_continuous_time_has_one(self):
        process = gb.MarkovRewardProcess.from_rates([[-1.0, 1.0], [3.0, -3.0]], [0.0, 2.0])
        phi = np.array([[1.0], [0.5]])
        np.testing.assert_allclose(
            gb.Problem(process, phi).fixed_point, projected_equation(process, phi), rtol=1e-12
        )

    def test_weights_that_double_precision_cannot_find_are_refused(self):
        rows = [[0.999995, 5e-6, 0.0], [0.5, 0.4995, 0.0005], [0.0, 5e-6, 0.999995]]
        phi = [[2.0, 1.999998], [-2.0, -2.000005], [-3.0, -2.999998]]  # the values came out wrong by 1e4
        problem = gb.Problem(gb.MarkovRewardProcess(rows, [0.0, -1.0, -1.0]), phi)
        with pytest.raises(gb.ConvergenceError, match="its weights may have no correct digit: drop columns"):
            _ = problem.fixed_point

    def test_weights_with_few_digits_are_refused(self):
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((20, 3))
        phi[:, 2] = phi[:, 0] + 1e-7 * phi[:, 2]
        message = (
            r"^the projected equation is too ill-conditioned for double precision: its weights have a "
            r"relative error of about \S+, more than 1e-08: drop columns .*, or rescale them$"
        )
        with pytest.raises(gb.ConvergenceError, match=message):
            _ = gb.Problem(random_process(rng, 20), phi).fixed_point

    def test_a_singular_equation_is_refused_without_warnings(self):
        stay = 1.0 - 1e-17 * np.ones(2)
        rows = np.array([[stay[0], 1e-17], [1e-17, stay[1]]])
        problem = gb.Problem(gb.MarkovRewardProcess(rows, [1.0, 0.0]), [[1.0, 1.0], [1.0, 1.0 + 1e-12]])
        with pytest.raises(gb.ConvergenceError, match="its weights may have no correct digit: drop columns"):
            _ = problem.fixed_point

    @pytest.mark.parametrize("rewards", [[0.0, 0.0], [1.0, 0.0], [0.1, 0.1]])
    def test_weights_that_are_zero_are_not_refused(self, rewards):
        process = gb.MarkovRewardProcess([[0.3, 0.7], [0.1, 0.9]], rewards)
        assert abs(gb.Problem(process, [[1.0], [1.0]]).fixed_point[0]) < 1e-15

    def test_answers_are_read_only(self):
        problem = gb.Problem(TWO, [[1.0], [0.0]])
        for answer in (problem.fixed_point, problem.values):
            with pytest.raises(ValueError, match="read-only"):
                answer[0] = 1.0


class TestKnownSolution:
    def test_it_is_taken_as_it_is(self):
        solution = gb.solve(TWO)
        assert gb.Problem(TWO, gb.Tabular(), solution=solution).solution is solution

    def test_that_of_another_process_is_refused(self):
        other = gb.MarkovRewardProcess(TWO.transitions, [1.0, 2.0])
        with pytest.raises(ValueError, match="solution must be that of mrp, found the solution of another"):
            gb.Problem(TWO, gb.Tabular(), solution=gb.solve(other))


class TestSpanOfConstants:
    def test_tabular(self):
        problem = gb.Problem(TWO, gb.Tabular())
        assert problem.ones_in_span
        np.testing.assert_array_equal(problem.ones_weights, [1.0, 1.0])

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_found_in_disguise(self, form):
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((9, 4))
        phi[:, 2] = 1.0 - 2.0 * phi[:, 0] + 0.1 * phi[:, 3]
        problem = gb.Problem(random_process(rng, 9), form(phi))
        assert problem.ones_in_span
        np.testing.assert_allclose(problem.ones_weights, [2.0, 0.0, 1.0, -0.1], atol=1e-14)

    def test_as_many_independent_features_as_states_span_everything(self):
        rng = np.random.default_rng(1)
        phi = rng.standard_normal((3, 3))
        phi[:, 2] = phi[:, 0] + 1e-9 * phi[:, 2]
        problem = gb.Problem(random_process(rng, 3), phi)
        assert np.abs(phi @ problem.ones_weights - 1.0).max() > problem_module.SPAN_TOLERANCE
        assert problem.ones_in_span

    def test_compared_with_the_rounding_of_the_fit(self):
        rng = np.random.default_rng(1)
        phi = rng.standard_normal((9, 3))
        phi[:, 2] = phi[:, 0] + 2.0**-28  # a difference of 2^-28 and so 1 is in the span, up to rounding
        problem = gb.Problem(random_process(rng, 9), phi)
        assert np.abs(phi @ problem.ones_weights - 1.0).max() > problem_module.SPAN_TOLERANCE
        assert problem.ones_in_span

    def test_nearly_there_is_not_there(self):
        rng = np.random.default_rng(0)
        phi = np.column_stack([np.ones(9) + 1e-8 * rng.standard_normal(9), rng.standard_normal(9)])
        problem = gb.Problem(random_process(rng, 9), phi)
        assert not problem.ones_in_span
        assert problem.ones_weights is None


class TestNorms:
    def test_by_hand(self):
        problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [1.0, 0.0]], [0.0, 0.0]), gb.Tabular())
        values = np.array([3.0, 0.0])
        assert problem.stationary_norm(values) == pytest.approx(np.sqrt(6.0))  # 2/3 * 9
        assert problem.dirichlet_norm(values) == pytest.approx(np.sqrt(3.0))  # 1/2 (1/3 + 1/3) 9
        assert problem.quotient_norm(values) == pytest.approx(1.5 * np.sqrt(2.0))

    def test_constants_vanish_exactly(self):
        problem = gb.Problem(random_process(np.random.default_rng(1), 7), gb.Tabular())
        assert problem.dirichlet_norm(np.full(7, 1e9 / 3)) == 0.0
        assert problem.quotient_norm(np.full(7, 0.25)) == 0.0
        assert problem.stationary_norm(np.full(7, -2.0)) == pytest.approx(2.0)

    def test_dirichlet_form_is_its_definition(self):
        process = random_process(np.random.default_rng(1), 7)
        problem = gb.Problem(process, gb.Tabular())
        f, mu = np.random.default_rng(2).standard_normal(7), problem.solution.stationary
        expected = f @ (mu * (f - process.csr @ f))
        assert problem.dirichlet_norm(f) ** 2 == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("norm", ["stationary_norm", "dirichlet_norm", "quotient_norm"])
    def test_wrong_shape_is_named(self, norm):
        with pytest.raises(
            ValueError, match=r"values must have shape \(2,\), one for each state, found shape \(3,\)"
        ):
            getattr(gb.Problem(TWO, gb.Tabular()), norm)(np.ones(3))


class TestRefusals:
    def check(self, process, features, message):
        with pytest.raises(ValueError, match=message):
            gb.Problem(process, features)

    def test_wrong_height(self):
        message = "one row for each of the 2 states, found 3 rows and 1 columns: give one row for each state"
        self.check(TWO, np.ones((3, 1)), message)
        self.check(TWO, np.ones((1, 2)), "found 1 rows and 2 columns: transpose them")

    def test_not_a_process(self):
        self.check(np.eye(2), np.eye(2), "mrp must be a MarkovRewardProcess, found ndarray")

    def test_entries_that_are_not_finite(self):
        self.check(TWO, [[1.0], [np.nan]], "features must be finite, found nan in row 1, column 0")

    def test_zero(self):
        self.check(TWO, [[0.0], [0.0]], "features must not all be zero")

    def test_more_columns_than_states(self):
        self.check(TWO, np.ones((2, 3)), "full column rank, found 3 columns but only 2 states: drop columns")

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("scale", [1.0, 1e-12])
    def test_dependent_columns(self, form, scale):
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((20, 5))
        phi[:, 3] = phi[:, 0] - 2.0 * phi[:, 1]
        phi *= [1.0, 1.0, 1.0, scale, 1.0]  # a short column is not a dependent one, and this one is both
        with pytest.raises(
            ValueError, match=r"full column rank 5, found rank 4: column (0|1|3) is a linear"
        ) as info:
            gb.Problem(random_process(rng, 20), form(phi))
        assert str(info.value).endswith("is a linear combination of the others: drop it")

    def test_short_columns_are_not_dependent(self):
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((20, 3)) * [1.0, 1e-14, 1e14]
        process = random_process(rng, 20)
        expected = projected_equation(process, phi / [1.0, 1e-14, 1e14]) / [1.0, 1e-14, 1e14]
        np.testing.assert_allclose(gb.Problem(process, phi).fixed_point, expected, rtol=1e-10)

    def test_nearly_dependent_columns_are_accepted(self):
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((20, 3))
        phi[:, 2] = phi[:, 0] + 1e-3 * phi[:, 2]
        assert gb.Problem(random_process(rng, 20), phi).fixed_point.shape == (3,)
        phi[:, 2] = phi[:, 0] + 1e-9 * phi[:, 1] ** 2
        assert gb.Problem(random_process(rng, 20), phi).num_features == 3

    def test_columns_that_cannot_be_squared(self):
        message = "squared length of column 1 of features is out of the range of double precision: rescale it"
        self.check(TWO, [[1.0, 1e-200], [0.0, 1e-200]], message)

    def test_too_many_columns(self, monkeypatch):
        monkeypatch.setattr(problem_module, "MOST_PROBLEM_FEATURES", 1)
        self.check(TWO, np.eye(2), r"at most 1 columns, found 2: use fewer, or gb.Tabular\(\)")

    def test_reducible(self):
        message = r"irreducible process.*found 1 recurrent class: \{1\}, and 1 transient states: restrict"
        self.check(gb.MarkovRewardProcess([[0.5, 0.5], [0.0, 1.0]], [0.0, 0.0]), np.eye(2), message)
        self.check(
            gb.MarkovRewardProcess(np.eye(2), [0.0, 0.0]), gb.Tabular(), r"2 recurrent classes: \{0\}, \{1\}"
        )


class TestProjection:
    @pytest.mark.parametrize("threshold", [1e-6, 10.0], ids=["assembled", "factorised"])
    @pytest.mark.parametrize("nearly", [1.0, 1e-2, 1e-6])
    def test_fit_is_least_squares(self, threshold, nearly, monkeypatch):
        monkeypatch.setattr(problem, "LEAST_GRAM_EIGENVALUE", threshold)
        rng = np.random.default_rng(0)
        phi = rng.standard_normal((50, 4))
        phi[:, 1] = phi[:, 0] + nearly * phi[:, 1]
        features = gb.Problem(random_process(rng, 50), phi).features
        weights = np.array([1.0, -2.0, 3.0, 0.5])
        found = projector(features).fit(phi @ weights)
        np.testing.assert_allclose(found, weights, rtol=1e-13 / nearly)
        target = rng.standard_normal(50)
        residual = target - phi @ projector(features).fit(target)
        np.testing.assert_allclose(phi.T @ residual, 0.0, atol=1e-13 / nearly)


def test_what_a_problem_says_of_itself():
    assert repr(gb.Problem(TWO, gb.Tabular())) == "Problem(2 states, 2 tabular features)"
    assert gb.Problem(TWO, gb.Tabular()).num_features == 2
    assert gb.Problem(TWO, [[1.0], [2.0]]).mixing_time(0.5) == 4
