"""Maps for print: each number where its state is, without the constant that an estimate is too high by."""

from dataclasses import replace

import numpy as np
import pytest

from gainbias.report.data.results import STUDIED
from gainbias.report.figures.curves import draw_maps
from tests.report.synthetic import make_results


def images(figure):
    """What is drawn in each panel, row by row; None where there is no map."""
    return [panel.images[0].get_array().filled(np.nan) if panel.images else None for panel in figure.axes]


def test_bias_and_last_estimates(results):
    shown = images(draw_maps(results, "literal"))
    tasks = list(results.states.query("protocol == 'literal'")["task"].unique())
    assert len(shown) == (1 + len(STUDIED)) * len(tasks)
    for place, task in enumerate(tasks):
        states = results.states.query(f"protocol == 'literal' and task == '{task}' and panel >= 0")
        exact, *estimates = shown[place * (1 + len(STUDIED)) : (place + 1) * (1 + len(STUDIED))]
        # Maps of two rows and three columns, with a gap of one between them, two side by side.
        for state in states.itertuples():
            row, column = state.row + state.panel // 2 * 3, state.column + state.panel % 2 * 4
            assert exact[row, column] == state.bias
        assert np.isfinite(exact).sum() == len(states)
        for estimate in estimates:  # of a study whose estimates reach the bias but for a constant
            np.testing.assert_allclose(estimate, exact, atol=0.01)
            assert not np.array_equal(estimate, exact, equal_nan=True)


def test_what_diverged_has_no_map(results):
    values = results.values.copy()
    wrong = (values["algorithm"] == "td-lambda") & (values["step"] == values["step"].max())
    values.loc[wrong, "values"] = values.loc[wrong, "values"].map(lambda found: found * np.nan)
    figure = draw_maps(replace(results, values=values), "literal")
    shown = images(figure)
    missing = 1 + STUDIED.index("td-lambda")
    assert [k for k, image in enumerate(shown[: 1 + len(STUDIED)]) if image is None] == [missing]
    assert figure.axes[missing].texts[0].get_text() == "diverged"


@pytest.mark.parametrize("size", ["one-column", "two-column"])
def test_a_study_without_maps_has_no_figure(tmp_path, size):
    assert draw_maps(make_results(tmp_path, tasks=["random-walk-50"]), "literal", size) is None
