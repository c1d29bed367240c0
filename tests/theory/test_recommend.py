"""Recommended steps against what curves say, and the gap in words."""

import json

import pytest

import gainbias as gb
from gainbias.testing.cases import FEW, small_problem
from gainbias.theory.recommend import _times


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
