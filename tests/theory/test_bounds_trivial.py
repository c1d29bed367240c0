"""No certified bound is above what is known anyway, or infinite, and those that say nothing are marked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gainbias as gb
from gainbias.testing.drive import FEW, small_problem
from gainbias.theory.bounds.record import Trivial, conclude

FLIPPING = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])


def random_problem(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    chain = gb.MarkovRewardProcess(rng.dirichlet(np.ones(4), 4), scale * rng.uniform(-1.0, 1.0, 4))
    return gb.Problem(chain, gb.normalise_features(rng.normal(size=(4, 2))))


def projection_gives(problem, radius):
    """Any two points of the ball, one of which is theta*: the furthest point is opposite of theta*."""
    target = problem.fixed_point
    furthest = -radius * target / np.linalg.norm(target)
    return float(np.sum((furthest - target) ** 2))


class TestProjection:
    @pytest.mark.parametrize(
        ("task", "step_size"),
        [
            ("frozen-lake", 1e-3),
            ("frozen-lake", gb.Polynomial(0.1, 1e5, 0.75)),
            ("random-walk-50", gb.Harmonic(40, 1e6)),
            ("cliff-walking", 1e-4),
        ],
        ids=str,
    )
    def test_no_bound_is_larger_than_what_it_gives(self, task, step_size):
        problem = gb.task(task).problem
        found = gb.bound("single-chain", problem, step_size=step_size, num_steps=10**6)
        if found.certified:
            limit = projection_gives(problem, found.constants["R_theta"])
            assert found.value <= limit * (1.0 + 1e-9) <= 4.0 * found.constants["R_theta"] ** 2
            assert np.isfinite(found.value)
            assert found.theorem_value >= found.value

    @settings(max_examples=30, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        step_size=st.floats(-9.0, 0.0),
        steps=st.integers(2, 12),
        printed=st.booleans(),
        kind=st.sampled_from([0.0, 0.6, 1.0]),
    )
    def test_random_chains(self, seed, step_size, steps, printed, kind):
        problem, a = random_problem(seed), 10.0**step_size
        schedule = gb.Constant(a) if kind == 0.0 else gb.Polynomial(0.1, (0.1 / a) ** (1.0 / kind), kind)
        how = {"step_size": schedule, "num_steps": 10**steps}
        for name, params in (
            ("single-chain", {"as_printed": printed}),
            ("double-chain", {"as_printed": printed}),
            ("discounted-td", {"discount": 0.9}),
        ):
            if name == "discounted-td" and kind != 0.0:
                continue
            found = gb.bound(name, problem, **how, **params)
            assert found.certified == bool(np.isfinite(found.value))
            if name == "single-chain" and found.certified:
                assert found.value <= projection_gives(problem, found.constants["R_theta"]) * (1 + 1e-9)
            if name == "discounted-td" and found.certified:
                assert found.value <= 4.0 * found.constants["R"] ** 2
            assert found.informative == (found.note == "")
            if found.informative:
                assert found.value < float(np.sum(problem.fixed_point**2)) or name == "discounted-td"

    def test_the_discounted_ball(self):
        found = gb.bound("discounted-td", FLIPPING, step_size=0.5, num_steps=100, discount=0.9, radius=50.0)
        limit = gb.ALGORITHMS["discounted-td"].declared.limit(
            FLIPPING, gb.ALGORITHMS["discounted-td"].params(0.9), np.zeros(1)
        )
        assert found.value == pytest.approx((50.0 + abs(limit[0])) ** 2)
        assert found.theorem_value > 10.0 * found.value
        assert not found.informative


class TestSomethingOrNothing:
    def test_below_the_start(self):
        """With smaller steps, and more of them, the bound sinks below the error at the start."""
        start = float(np.sum(FLIPPING.fixed_point**2))
        seen = []
        for a in (1e-2, 1e-3, 1e-4, 1e-5):
            found = gb.bound("double-chain", FLIPPING, step_size=a, num_steps=10**8, sampling="iid")
            assert found.informative == (found.value < start)
            assert found.trivial.without_steps == pytest.approx(start)
            seen.append(found.informative)
        assert seen[0] is False
        assert seen[-1] is True

    def test_first_weights_at_the_fixed_point(self):
        """No step at all is best, whatever the theorem says."""
        found = gb.bound(
            "double-chain",
            FLIPPING,
            step_size=1e-5,
            num_steps=10**8,
            sampling="iid",
            initial_weights=FLIPPING.fixed_point,
        )
        assert found.certified
        assert not found.informative
        assert found.note == "says nothing: it is not below 0, the error before the first step"

    def test_averages_of_rewards(self):
        """No average is further from the gain than r_max + |g| = 1.5."""
        few = gb.bound("reward-estimate", FLIPPING, num_steps=1)
        assert few.value == pytest.approx(2.25)
        assert few.theorem_value > 2.25
        assert not few.informative
        assert "(r_max + |g|)^2" in few.note
        many = gb.bound("reward-estimate", FLIPPING, num_steps=10_000)
        assert many.informative
        assert many.value == many.theorem_value

    def test_what_is_not_certified_says_nothing(self):
        found = gb.bound("double-chain", FLIPPING, step_size=0.5, num_steps=1000, sampling="iid")
        assert not found.informative
        assert found.note == "says nothing: it is not certified"
        assert np.isnan(found.theorem_value)

    def test_it_is_said_in_words(self):
        found = gb.bound("single-chain", FLIPPING, step_size=1e-3, num_steps=10_000)
        assert "which says nothing: it is not below 0.127551, the error before the first step" in repr(found)
        useful = gb.bound("double-chain", FLIPPING, step_size=1e-5, num_steps=10**8, sampling="iid")
        assert "says nothing" not in repr(useful)


class TestInfinite:
    """Where nothing bounds an error but a theorem, an infinite number is no certificate."""

    @pytest.mark.filterwarnings("ignore:overflow")
    def test_rewards_whose_squares_are_too_large(self):
        found = gb.bound("reward-estimate", random_problem(0, 1e170), num_steps=10, sampling="iid")
        assert not found.certified
        assert np.isnan(found.value)
        assert found.theorem_value == np.inf
        assert [condition.name for condition in found.violated] == ["size of the bound"]
        assert "bound <= largest float fails with inf" in repr(found)

    @pytest.mark.parametrize("value", [np.inf, np.nan])
    def test_any_theorem(self, value):
        found = conclude("some theorem", "x", lambda: value, {"x": np.inf}, [], Trivial(1.0))
        assert not found.certified
        assert np.isnan(found.value)
        assert "x is finite" in found.violated[0].remedy

    def test_a_number_too_large_on_the_way(self):
        found = conclude("some theorem", "x", lambda: 1e200**2, {}, [], Trivial(1.0, 9.0, "a ball"))
        assert found.certified
        assert found.value == 9.0
        assert not found.informative


def test_certified_choices_use_what_the_projection_gives():
    """An error that the ball allows anyway needs no small steps."""
    problem = small_problem("dense", FEW)
    problem = gb.Problem(problem.mrp, gb.normalise_features(problem.features.matrix))
    radius = gb.projection_radii(problem).valid
    choice = gb.recommend("single-chain", problem, epsilon=4.0 * radius**2, max_steps=10, lanes=10).certified
    assert choice.bound.certified
    assert not choice.bound.informative
    assert choice.num_steps < 10**6
