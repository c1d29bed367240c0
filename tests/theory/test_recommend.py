"""Recommended steps against what curves say, and the gap in words."""

import itertools
import json

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing.drive import FEW, small_problem
from gainbias.theory.bounds.certify import certified
from gainbias.theory.recommend import _checkpoints, _Search, _times

FLIPPING = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
RARELY_STAYING = gb.Problem(gb.MarkovRewardProcess([[0.001, 0.999], [0.999, 0.001]], [1, 0]), [[1.0], [0.0]])
CYCLE = gb.Problem(
    gb.MarkovRewardProcess(np.roll(0.94 * np.eye(3), 1, axis=1) + 0.02, [1.0, 0.0, -0.3]),
    [[1.0, 0.0], [0.0, 1.0], [0.3, 0.3]],
)
PERIODIC = gb.Problem(
    gb.MarkovRewardProcess([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], [1.0, 0.0, 0.0]),
    [[1.0], [0.2], [0.0]],
)


def errors_from(algorithm, problem, schedule, steps, **how):
    """Errors at each of 1000 steps, and then up to twenty times as many."""
    far = 20 * steps + 2000
    checkpoints = {*range(steps, steps + 1000), *np.geomspace(steps, far, 200).astype(int).tolist()}
    curve = gb.exact_curve(algorithm, problem, far, schedule, checkpoints=sorted(checkpoints), **how)
    return curve.mean_squared_error


def all_paths(problem, num_steps, step_size):
    """E(theta - limit)^2 of td-lambda with one feature and two states: a mean over all paths."""
    chain, feature = problem.mrp, problem.features.matrix[:, 0]
    limit = gb.ALGORITHMS["td-lambda"].declared.limit(
        problem, gb.ALGORITHMS["td-lambda"].params(), np.zeros(1)
    )[0]
    states = np.array(list(itertools.product((0, 1), repeat=num_steps + 1))).T
    chance, theta, gain, errors = np.full(states.shape[1], 0.5), 0.0, 0.0, []
    for here, after in itertools.pairwise(states):
        chance = chance * chain.transitions[here, after]
        reward = chain.rewards[here]
        delta = reward - gain + theta * (feature[after] - feature[here])
        gain = gain + step_size * (reward - gain)
        theta = theta + step_size * delta * feature[here]
        errors.append(float(chance @ (theta - limit) ** 2 / chance.sum()))
    return errors


class TestItStays:
    """The error is not only small after the recommended steps, but from there on."""

    def test_a_dip_is_seen_through(self):
        """With steps of 1/4 the error is .0026 after 8 steps, more than .004 after 20, and for ever."""
        errors = all_paths(FLIPPING, 18, 0.25)
        assert errors[7] < 0.004 < errors[17]
        practical = gb.recommend("td-lambda", FLIPPING, epsilon=0.004).practical
        assert practical.step_size != gb.Constant(0.25)
        assert errors_from("td-lambda", FLIPPING, practical.step_size, practical.num_steps).max() <= 0.004
        assert practical.checked_until >= 10 * practical.num_steps

    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    @pytest.mark.parametrize(
        ("name", "problem", "epsilon"),
        [
            ("td-lambda", CYCLE, 0.005),
            ("td-lambda", RARELY_STAYING, 0.002),
            ("implicit-td", FLIPPING, 0.004),
            ("differential-td", CYCLE, 0.02),
            ("double-chain", RARELY_STAYING, 0.05),
            ("td-lambda", PERIODIC, 0.004),
        ],
    )
    def test_other_chains_and_algorithms(self, name, problem, epsilon, sampling):
        if problem is PERIODIC and sampling == "iid":
            pytest.skip("a period is one of chains")
        found = gb.recommend(name, problem, epsilon=epsilon, sampling=sampling).practical
        after = errors_from(name, problem, found.step_size, found.num_steps, sampling=sampling)
        assert after.max() <= epsilon

    @pytest.mark.parametrize("max_steps", [9, 12, 40])
    def test_a_dip_that_ends_beyond_the_most_steps(self, max_steps):
        found = gb.recommend("td-lambda", FLIPPING, epsilon=0.004, max_steps=max_steps).practical
        assert found is None or found.num_steps <= max_steps
        if found is not None:
            assert errors_from("td-lambda", FLIPPING, found.step_size, found.num_steps).max() <= 0.004

    def test_a_start_at_the_limit(self):
        """The error is 0 at first, and grows until noise and pull are in balance."""
        td = gb.ALGORITHMS["td-lambda"]
        limit = td.declared.limit(FLIPPING, td.params(), np.zeros(1))
        found = gb.recommend("td-lambda", FLIPPING, epsilon=1e-3, initial_weights=limit).practical
        after = errors_from("td-lambda", FLIPPING, found.step_size, found.num_steps, initial_weights=limit)
        assert after.max() <= 1e-3

    def test_a_gain_that_is_slow(self):
        """Its noise takes a hundred times longer to build up than that of the weights."""
        how = {"params": {"gain_ratio": 0.01}}
        found = gb.recommend("td-lambda", FLIPPING, epsilon=0.004, **how).practical
        assert errors_from("td-lambda", FLIPPING, found.step_size, found.num_steps, **how).max() <= 0.004

    @pytest.mark.parametrize(
        ("schedule", "epsilon"),
        [
            (gb.Constant(0.1), 1e-3),
            (gb.Constant(0.1), 5e-4),
            (gb.Harmonic(10.0, 100.0), 2e-4),
            (gb.Harmonic(30.0, 100.0), 1e-3),
            (gb.Polynomial(2.0, 10.0, 0.75), 1e-3),
            (gb.Polynomial(0.8, 10.0, 0.5), 8e-4),
        ],
        ids=str,
    )
    def test_every_kind_of_step_size(self, schedule, epsilon):
        """Each of these curves, but the first, dips below epsilon and comes up again."""
        params = {"gain_ratio": 1.0, "trace_decay": 0.0}
        search = _Search(gb.ALGORITHMS["td-lambda"], RARELY_STAYING, params, "markov", None, epsilon, 100)
        found = search.best((schedule,), 20_000)
        if found is None:
            assert errors_from("td-lambda", RARELY_STAYING, schedule, 20_000)[-1] > epsilon
            return
        assert errors_from("td-lambda", RARELY_STAYING, schedule, found.num_steps).max() <= epsilon
        before = gb.exact_curve(
            "td-lambda", RARELY_STAYING, found.num_steps, schedule, checkpoints=range(found.num_steps)
        )
        last = np.flatnonzero(before.mean_squared_error > epsilon)[-1]
        assert found.num_steps <= 1.05 * (last + 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("sampling", ["iid", "markov"])
    def test_by_runs(self, sampling):
        """Single-chain with steps of 1/4: .0025 after 4 steps, .0104 after 8, then .005 for ever."""
        found = gb.recommend("single-chain", FLIPPING, epsilon=0.004, sampling=sampling, lanes=200).practical
        steps = [int(found.num_steps * factor) for factor in (1, 1.5, 2, 3, 5, 10, 20)]
        curve = gb.exact_curve(
            "single-chain",
            FLIPPING,
            steps[-1],
            found.step_size,
            sampling=sampling,
            checkpoints=steps,
            lanes=4000,
        )
        assert (curve.mean_squared_error - 3.0 * curve.standard_error).max() <= 0.004

    @pytest.mark.parametrize("problem", [FLIPPING, CYCLE, small_problem("dense", FEW)])
    @pytest.mark.parametrize("name", ["double-chain", "single-chain"])
    def test_certified_bounds_stay_small(self, name, problem):
        problem = gb.Problem(problem.mrp, gb.normalise_features(problem.features.matrix))
        choice = certified(name, problem, 0.01)
        for factor in (1.0, 1.001, 1.01, 1.1, 1.5, 3.0, 10.0, 1e4):
            later = gb.bound(
                name, problem, step_size=choice.step_size, num_steps=int(factor * choice.num_steps)
            )
            assert later.value <= 0.01 * (1.0 + 1e-12)

    def test_even_and_odd_steps_are_looked_at(self):
        late = [step for step in _checkpoints(1000, 10**6) if step > 1100]
        assert {step % 2 for step in late} == {0, 1}
        assert max(b / a for a, b in itertools.pairwise(late)) < 1.05
        assert _checkpoints(1, 3) == [1, 2, 3]


def test_the_practical_choice_is_the_best_of_its_grid():
    problem = small_problem("dense", FEW)
    advice = gb.recommend("double-chain", problem, epsilon=0.05, sampling="iid")
    steps = advice.practical.num_steps

    def error(schedule, num_steps):
        curve = gb.exact_curve(
            "double-chain", problem, num_steps, schedule, sampling="iid", checkpoints=[num_steps]
        )
        return curve.mean_squared_error[-1]

    assert advice.practical.standard_error is None
    assert error(advice.practical.step_size, steps) == pytest.approx(advice.practical.mean_squared_error)
    assert advice.practical.mean_squared_error <= 0.05
    assert len(advice.grid) == 22
    assert all(not error(schedule, max(1, int(0.9 * steps))) <= 0.05 for schedule in advice.grid)


def test_a_certificate_is_certified_and_said():
    advice = gb.recommend("double-chain", small_problem("dense", FEW), epsilon=0.05, sampling="iid")
    assert advice.certified.bound.certified
    assert advice.certified.bound.value <= 0.05
    ratio = advice.certified.num_steps / advice.practical.num_steps
    assert f"{advice.certified.num_steps:,} steps" in advice.gap
    assert advice.gap.endswith(f"{float(f'{ratio:.2g}'):,.0f} times fewer")
    assert advice.gap in repr(advice)
    assert json.loads(json.dumps(advice.to_dict()))["gap"] == advice.gap


def test_without_a_theorem_the_reason_is_said():
    advice = gb.recommend("td-lambda", small_problem("dense", FEW), epsilon=0.05)
    assert advice.certified is None
    assert "there are theorems about" in advice.reason
    assert advice.gap.startswith("no theorem certifies a step size")
    assert json.loads(json.dumps(advice.to_dict()))["certified"] is None


def test_runs_stand_in_for_a_curve():
    problem = small_problem("dense", FEW)
    advice = gb.recommend("single-chain", problem, epsilon=0.05, lanes=100, max_steps=3000)
    assert advice.practical.standard_error > 0.0
    found = gb.exact_curve(
        "single-chain",
        problem,
        advice.practical.num_steps,
        advice.practical.step_size,
        checkpoints=[advice.practical.num_steps],
        lanes=1000,
    )
    assert found.mean_squared_error[-1] < 0.05 + 4.0 * found.standard_error[-1]
    assert "(by runs, best of 22)" in repr(advice)


def test_an_algorithm_without_step_sizes():
    advice = gb.recommend("lstd", small_problem("dense", FEW), epsilon=0.05, lanes=50, max_steps=2000)
    assert advice.practical.step_size is None
    assert "without step sizes" in repr(advice)


def test_nothing_is_enough():
    advice = gb.recommend("double-chain", small_problem("dense", FEW), epsilon=1e-9, max_steps=100)
    assert advice.practical is None
    assert "no step size of the grid is enough within 100 steps" in advice.gap
    other = gb.recommend("td-lambda", small_problem("dense", FEW), epsilon=1e-9, max_steps=100)
    assert "and no theorem certifies one" in other.gap


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (75_312.0, "75,000 times fewer"),
        (3.14, "3.1 times fewer"),
        (1.0, "about as many"),
        (0.5, "2.0 times more"),
        (1.9e15, "1.9e+15 times fewer"),
    ],
)
def test_ratios_are_read_out(ratio, said):
    assert _times(ratio) == said


def test_a_wrong_error():
    with pytest.raises(ValueError, match="epsilon must be positive and finite, found -1"):
        gb.recommend("double-chain", small_problem("dense", FEW), epsilon=-1)
