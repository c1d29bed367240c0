"""Where states are: the maps agree with the labels of states, and with what the environments say."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.task import MAP_GRIDS, places_of

LABELLED = ("grid-world-5x5", "grid-world-10x10", "grid-world-2x11", "deep-sea", "deep-sea-concave")


@pytest.mark.parametrize("name", LABELLED)
def test_places_are_the_labels(name):
    task = gb.task(name)
    places = places_of(task)
    assert list(zip(places.rows, places.columns, strict=True)) == list(task.problem.mrp.labels)
    assert places.titles == [""]
    assert (places.panels == 0).all()


def test_panels_of_resource_gathering_are_what_is_held():
    task = gb.task("resource-gathering")
    places = places_of(task)
    held = {(0, 0): "nothing yet", (1, 0): "holds gold", (0, 1): "holds gem", (1, 1): "holds both"}
    for (row, column, *has), panel, *place in zip(
        task.problem.mrp.labels, places.panels, places.rows, places.columns, strict=True
    ):
        assert place == [row, column]
        assert places.titles[panel] == held[tuple(has)]


def test_taxi_has_the_places_of_the_environment():
    gymnasium = pytest.importorskip("gymnasium")
    taxi = gymnasium.make("Taxi-v4").unwrapped
    places = places_of(gb.task("taxi"))
    waits = {0: "passenger at R", 1: "at G", 3: "at B", 4: "in the taxi"}
    for state, (panel, row, column) in enumerate(
        zip(places.panels, places.rows, places.columns, strict=True)
    ):
        taxi_row, taxi_column, passenger, destination = taxi.decode(state)
        assert (row, column) == (taxi_row, taxi_column)
        if destination == 2 and passenger in waits:
            assert places.titles[panel] == f"{waits[passenger]}, wants to Y"
        else:
            assert panel == -1


def test_numbers_are_spread_on_the_map():
    task = gb.task("deep-sea")
    (cells,) = places_of(task).spread(task.problem.solution.bias)
    assert np.isfinite(cells).sum() == task.problem.mrp.num_states < cells.size
    label = task.problem.mrp.labels[7]
    assert cells[label] == task.problem.solution.bias[7]


def test_every_place_is_taken_once():
    for name in MAP_GRIDS:
        places = places_of(gb.task(name))
        drawn = places.panels >= 0
        where = np.stack([places.panels, places.rows, places.columns])[:, drawn]
        assert len(np.unique(where, axis=1).T) == drawn.sum() == np.isfinite(places.spread(1.0 * drawn)).sum()


def test_other_tasks_have_no_map():
    assert places_of(gb.task("boyan-chain")) is None
