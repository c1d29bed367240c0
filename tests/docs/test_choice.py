"""What the page on choosing an algorithm says agrees with what is stored, and that with its plan."""

import json
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from benchmarks import choice
from docs._ext.choice import profiles_of, read_choice

DOCS = Path(__file__).parents[2] / "docs"
LAST = str(choice.BUDGETS[-1])


@pytest.fixture(scope="module")
def stored():
    return read_choice(DOCS)


def test_the_plan_that_was_carried_out_is_the_one_in_the_file(stored):
    assert stored["plan"] == json.loads(json.dumps(choice.PLAN))


def test_the_plan_gives_everybody_the_same(stored):
    plan = choice.PLAN
    assert len(plan["tasks"]["choosing"]) == len(plan["tasks"]["held_out"]) == 12
    assert len(set(choice.TASKS)) == 24
    assert min(plan["instances"], plan["first_tuning_seed"]) >= 30
    for name in choice.NAMES:
        choices = choice.choices_of(name)
        assert len({str(each) for each in choices}) == 24
        if name not in plan["constant"]:
            assert {round(float(each.step_size.values(0, 1)[0]), 9) for each in choices} == {0.5}
    left_out = set(gb.ALGORITHMS) - set(choice.NAMES)
    assert left_out == {"lstd", "lspe", "projected-td"}


def test_every_algorithm_is_measured_on_all_its_tasks(stored):
    for name in choice.NAMES:
        found = [task for task in choice.TASKS if name in stored["tasks"][task][LAST]]
        assert found == choice.tasks_of(name)
        assert len(found) in (7, 24)


def test_an_error_is_what_is_stored(stored):
    """Measured again, on a small task, and tuned again."""
    task, budget = "river-swim", choice.BUDGETS[0]
    seeds = range(1000, 1008), range(30)
    for name in ("centred-td", "single-chain-plain-means"):
        choices = choice.choices_of(name)
        tuned = int(np.argmin(choice.squares_of(name, task, budget, choices, seeds[0])[0].mean(axis=0)))
        squares = choice.squares_of(name, task, budget, [choices[tuned]], seeds[1])[0]
        floor = gb.run("lstd", gb.task(task), budget, seeds=range(30), checkpoints=[budget])
        least = floor.errors("centred", norm="stationary", target="paper")[:, -1] ** 2
        expected = np.sqrt(squares.mean() / least.mean())
        middle, low, high = stored["tasks"][task][str(budget)][name]["tuned"]
        assert middle == pytest.approx(expected, rel=1e-3)
        assert low < middle < high


def test_choices_of_one_way_are_in_the_order_of_lanes():
    """Each alone has the error that it has among the others."""
    choices = choice.choices_of("relative-td")
    together = choice.squares_of("relative-td", "river-swim", 100, choices, range(2))[0]
    for k in (0, 1, 13, 22):
        alone = choice.squares_of("relative-td", "river-swim", 100, [choices[k]], range(2))[0]
        np.testing.assert_allclose(together[:, k], alone[:, 0], rtol=1e-12)


def test_profiles_say_how_often_an_algorithm_is_near_the_best(stored):
    for way in ("tuned", "one_for_all"):
        profiles = profiles_of(stored, way)
        assert sum(profile[0] for profile in profiles.values()) >= 1.0 - 1e-12
        for profile in profiles.values():
            assert (np.diff(profile) >= 0.0).all()


def test_least_squares_cost_more_with_more_features(stored):
    ratios = [
        stored["nanoseconds"]["lstd"][kind] / stored["nanoseconds"]["centred-td"][kind]
        for kind in ("20 dense features", "100 dense features")
    ]
    assert 1.0 < ratios[0] < ratios[1]
