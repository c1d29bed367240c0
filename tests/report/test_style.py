"""One look for all figures."""

import matplotlib

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.report.figures.style import ALGORITHM_STYLES, OKABE_ITO, SIZES, drawing
from gainbias.tasks.registry import TASKS


def test_no_two_algorithms_look_the_same():
    assert set(ALGORITHM_STYLES) - set(ALGORITHMS) == {"vrtd-all-data"}
    assert len({(look.colour, look.marker) for look in ALGORITHM_STYLES.values()}) == len(ALGORITHM_STYLES)
    assert len({(look.colour, look.dashes) for look in ALGORITHM_STYLES.values()}) == len(ALGORITHM_STYLES)


def test_lines_without_a_colour_get_one_that_all_readers_tell_apart():
    with drawing(SIZES["one-column"]):
        assert [style["color"] for style in matplotlib.rcParams["axes.prop_cycle"]] == list(OKABE_ITO)


def test_every_algorithm_has_a_short_title():
    titles = {algorithm.about.short_title for algorithm in ALGORITHMS.values()}
    assert len(titles - {""}) == len(ALGORITHMS)


def test_every_task_has_a_title_of_its_own():
    assert len({recipe.title for recipe in TASKS.values()}) == len(TASKS)
