"""One look for all figures."""

import matplotlib

from gainbias.algorithms.registry import ALGORITHMS
from gainbias.report.figures.style import ALGORITHM_STYLES, OKABE_ITO, SIZES, drawing


def test_no_two_algorithms_look_the_same():
    assert set(ALGORITHM_STYLES) - set(ALGORITHMS) == {"vrtd-all-data"}
    assert len({(look.colour, look.marker) for look in ALGORITHM_STYLES.values()}) == len(ALGORITHM_STYLES)
    assert len({(look.colour, look.dashes) for look in ALGORITHM_STYLES.values()}) == len(ALGORITHM_STYLES)


def test_lines_without_a_colour_get_one_that_all_readers_tell_apart():
    with drawing(SIZES["one-column"]):
        assert [style["color"] for style in matplotlib.rcParams["axes.prop_cycle"]] == list(OKABE_ITO)
