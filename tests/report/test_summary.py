"""All tasks in a few numbers."""

import numpy as np
import pytest

from gainbias.report.data.results import (
    FAIR_SCORES,
    MissingDataError,
    Score,
    log_floor_ratios,
    score_arrays,
    summary_table,
)
from gainbias.report.figures.curves import draw_profiles
from gainbias.report.figures.style import SIZES
from gainbias.report.paper_tables import summary_sheet
from tests.report.synthetic import FEW, LEVELS, make_results

QUOTIENT = {"fair, quotient": FAIR_SCORES["fair, quotient"]}


def test_arrays_are_runs_by_tasks(results):
    arrays = score_arrays(results, FAIR_SCORES["fair, full"])
    assert list(arrays) == list(LEVELS)
    assert {array.shape for array in arrays.values()} == {(3, 3)}
    expected = results.errors("double-chain", FAIR_SCORES["fair, full"]).to_numpy()
    np.testing.assert_array_equal(arrays["double-chain"], expected)
    with pytest.raises(MissingDataError, match="protocol other"):
        score_arrays(results, Score("other", "full", "bias"))


def test_the_typical_error_is_in_multiples_of_the_floor(tmp_path):
    table = summary_table(make_results(tmp_path, tasks=FEW, noise=0.0), QUOTIENT).set_index("algorithm")
    assert table.loc["single-chain", "typical"] == pytest.approx(0.5 / 0.2)
    # After half the steps, at the checkpoint 3000 of 10000.
    assert table.loc["double-chain", "typical"] == pytest.approx(2.0 / 0.2 * (10 / 3) ** 0.5)
    assert "lstd" not in table.index


def test_the_chance_to_be_better_is_against_the_baseline(results):
    table = summary_table(results, QUOTIENT).set_index("algorithm")
    assert table.loc["single-chain", ["better", "better_low", "better_high"]].tolist() == [1, 1, 1]
    assert table.loc["double-chain", "better"] == 0
    assert np.isnan(table.loc["td-lambda", "better"])
    assert 0 <= table.loc["implicit-td", "better"] < 0.5


def test_the_summary_is_the_same_each_time(results):
    one, other = (summary_table(results, QUOTIENT) for _ in range(2))
    assert one.equals(other)
    assert not summary_table(results, QUOTIENT, rng=1).equals(one)


def test_diverged_runs_are_no_numbers_but_no_failure():
    ratios = log_floor_ratios({"a": np.array([[np.inf, 1.0]]), "lstd": np.array([[np.inf, 0.1]])})
    np.testing.assert_allclose(ratios["a"], [[0.0, 1.0]])
    with pytest.raises(MissingDataError, match="no runs of lstd"):
        log_floor_ratios({"a": np.ones((1, 1))})


def test_the_smallest_typical_error_is_bold(results):
    sheet = summary_sheet(summary_table(results, FAIR_SCORES))
    assert len(sheet.groups) == 3
    for group in sheet.groups:
        assert [row[1].text for row in group if row[2].best] == ["Single chain"]


@pytest.mark.parametrize("size", SIZES)
def test_profiles_rise_from_the_floor(results, size):
    figure = draw_profiles(results, FAIR_SCORES, size)
    assert figure.get_figwidth() == SIZES[size].width
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "Fair, full",
        "Fair, centred",
        "Fair, quotient",
    ]
    for line in figure.axes[0].lines:
        shares = line.get_ydata()
        assert (np.diff(shares) >= 0).all()
        assert shares[-1] == 1
