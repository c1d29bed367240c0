"""The page on choosing an algorithm agrees with the stored results, and these with their plan."""

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


@pytest.mark.slow
def test_every_algorithm_is_measured_on_all_its_tasks(stored):
    for name in choice.NAMES:
        found = [task for task in choice.TASKS if name in stored["tasks"][task][LAST]]
        assert found == choice.tasks_of(name)
        assert len(found) in (7, 24)


def test_an_error_is_what_is_stored(stored):
    """Measured again, on a small task, and tuned again."""
    task, budget = "river-swim", choice.BUDGETS[0]
    seeds = range(1000, 1008), range(30)
    for name in ("centred-td", "td-lambda"):
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


def ratio(stored, group, way, name, budget=LAST):
    return stored["summary"][group][budget][name][way]["ratio"]


OURS = [
    name
    for name in choice.PLAN["algorithms"]
    if name in gb.ALGORITHMS and not gb.ALGORITHMS[name].declared.tabular_only
]


def test_what_the_table_says(stored):
    tuned, one = (ratio(stored, "held_out", way, "centred-td") for way in ("tuned", "one_for_all"))
    assert (round(tuned[0], 1), round(one[0], 1)) == (1.5, 2.0)
    for budget in map(str, choice.BUDGETS):
        errors = {name: ratio(stored, "held_out", "one_for_all", name, budget)[0] for name in OURS}
        assert min(errors, key=errors.get) == "centred-td"
        next_best = sorted(errors.values())[1] / errors["centred-td"]
        assert 1.03 <= round(next_best, 2) <= 1.06
        on_tables = stored["summary"]["tables"][budget]
        best = min(on_tables, key=lambda name: on_tables[name]["one_for_all"]["ratio"][0])
        assert best == "differential-td"


def test_where_it_is_worst(stored):
    def worst(name):
        cells = [stored["tasks"][task][LAST][name] for task in choice.PLAN["tasks"]["held_out"]]
        return max(cell["one_for_all"][0] for cell in cells)

    assert worst("centred-td") == pytest.approx(8.6, abs=0.05)
    others = ("relative-td", "differential-td", "implicit-td", "single-chain", "td-lambda")
    assert 13.0 < min(map(worst, others)) < max(map(worst, others)) < 23.0
    assert stored["summary"]["held_out"][LAST]["centred-td"]["one_for_all"]["rank"][0] > 5.0


def test_where_least_squares_is_not_the_best(stored):
    better, least = [], []
    for budget in map(str, choice.BUDGETS):
        cells = {task: stored["tasks"][task][budget].values() for task in choice.TASKS}
        better.append(sum(any(cell["tuned"][2] < 1.0 for cell in cells[task]) for task in choice.TASKS))
        least.append(round(min(cell["tuned"][0] for cell in cells["taxi"]), 2))
    assert (better, least) == ([6, 4, 1], [0.37, 0.49, 0.82])


def test_what_hurts_single_chain(stored):
    """A plain mean alone makes it worse; centred rewards as well make it as good as centred-td."""
    for group in ("choosing", "held_out"):
        plain, worse, centred, ours = (
            ratio(stored, group, "tuned", name)
            for name in ("single-chain", "single-chain-plain-means", "single-chain-centred", "centred-td")
        )
        assert worse[1] > plain[2]
        assert centred[2] < plain[1]
        assert abs(centred[0] / ours[0] - 1.0) < 0.03


def test_double_chains_are_behind(stored):
    for group in ("choosing", "held_out"):
        both, centred, ours = (
            ratio(stored, group, "tuned", name)
            for name in ("double-chain-symmetric", "double-chain-centred", "centred-td")
        )
        assert 3.0 * ours[2] < both[1] < both[2] < centred[1]


def test_least_squares_cost_more_with_more_features(stored):
    ratios = [
        stored["nanoseconds"]["lstd"][kind] / stored["nanoseconds"]["centred-td"][kind]
        for kind in ("20 dense features", "100 dense features")
    ]
    assert ratios == pytest.approx([1.5, 6.0], rel=0.15)
