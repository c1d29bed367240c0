"""What the page on choosing an algorithm says agrees with the stored measurements."""

import json
from pathlib import Path

import pytest

import gainbias as gb
from benchmarks import choice

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def algorithms():
    return json.loads((DOCS / "data" / "choice.json").read_text(encoding="utf-8"))["algorithms"]


def best_on(tasks, found):
    return choice.geometric([min(min(way) for way in found["tasks"][t]["errors"].values()) for t in tasks])


def test_each_algorithm_is_measured_on_all_its_tasks(algorithms):
    assert set(algorithms) <= set(gb.ALGORITHMS)
    for name, found in algorithms.items():
        assert len(found["tasks"]) == (4 if gb.ALGORITHMS[name].declared.tabular_only else 12)


def test_nothing_is_more_than_2_per_cent_better_than_least_squares(algorithms):
    numbers = [
        number
        for found in algorithms.values()
        for task in found["tasks"].values()
        for way in task["errors"].values()
        for number in way
        if number != "diverged"
    ]
    assert 0.98 < min(numbers) < 1.0


@pytest.mark.parametrize("key", ["best_for_each", "one_for_all"])
def test_relative_td_is_the_best_of_those_with_step_sizes(algorithms, key):
    others = [
        name
        for name in algorithms
        if not (gb.ALGORITHMS[name].declared.step_free or gb.ALGORITHMS[name].declared.tabular_only)
    ]
    assert min(others, key=lambda name: algorithms[name]["summary"][key]) == "relative-td"
    assert algorithms["relative-td"]["summary"]["level"] < 0.01 < algorithms["td-lambda"]["summary"]["level"]


def test_relative_td_is_the_best_on_tables_too(algorithms):
    tables = list(algorithms["almost-sure-td"]["tasks"])
    with_steps = [name for name in algorithms if not gb.ALGORITHMS[name].declared.step_free]
    assert min(with_steps, key=lambda name: best_on(tables, numbers_only(algorithms[name]))) == "relative-td"


def numbers_only(found):
    return json.loads(json.dumps(found).replace('"diverged"', "Infinity"))


def test_both_roles_bring_more_than_the_gain(algorithms):
    plain, both, centred = (
        algorithms[f"double-chain{more}"]["summary"] for more in ("", "-symmetric", "-centred")
    )
    for key in ("best_for_each", "one_for_all", "efficiency"):
        assert both[key] < centred[key] < plain[key]


def test_least_squares_cost_three_and_ten_times_as_much(algorithms):
    for kind, times in (("20 dense features", 3), ("100 dense features", 10)):
        ratio = algorithms["lstd"]["nanoseconds"][kind] / algorithms["td-lambda"]["nanoseconds"][kind]
        assert ratio == pytest.approx(times, rel=0.15)


def test_an_error_is_what_is_stored(algorithms):
    """Measured again, on the smallest task."""
    task = gb.task("mm1k-admission")
    floor = choice.errors_of(gb.ALGORITHMS["lstd"], task, "none")["errors"][0]
    found = choice.errors_of(gb.ALGORITHMS["relative-td"], task, "averaged")["errors"] / floor
    assert found.tolist() == pytest.approx(
        algorithms["relative-td"]["tasks"]["mm1k-admission"]["errors"]["averaged"], rel=1e-3
    )
