"""Maps: the stored numbers in the page's data, and what a browser draws of them."""

import base64
from dataclasses import replace

import numpy as np
import pytest

from gainbias.report.pages.paper_study import map_data, page_html, write_study_page
from gainbias.report.paper_tables import study_tables
from tests.report.interactive.browser import Browser
from tests.report.synthetic import CHECKPOINTS, LEVELS, make_results

LAST = len(CHECKPOINTS) - 1


def stored(results, task, algorithm, frame):
    """Return bias and estimate of the states that are drawn, by panel, row and column."""
    states = results.states.query(f"protocol == 'literal' and task == '{task}'")
    rows = results.values.query(f"protocol == 'literal' and task == '{task}' and algorithm == '{algorithm}'")
    values = rows.sort_values("step")["values"].iloc[frame]
    shift = float(np.mean(values.astype(float) - states["bias"].to_numpy()))
    where = zip(states["panel"], states["row"], states["column"], strict=True)
    numbers = zip(states["bias"], values.astype(float), strict=True)
    return {place: pair for place, pair in zip(where, numbers, strict=True) if place[0] >= 0}, shift


class TestData:
    def test_numbers_are_the_stored_bits(self, results):
        found = map_data(results)["literal"]["taxi"]
        frames = found["frames"]["single-chain"]
        values = np.frombuffer(base64.b64decode(frames["values"]), dtype="<f4")
        values = values.reshape(len(frames["steps"]), -1)
        assert frames["steps"] == CHECKPOINTS.tolist()
        expected, shift = stored(results, "taxi", "single-chain", 3)
        places = list(zip(found["panels"], found["rows"], found["columns"], strict=True))
        assert places == list(expected)
        assert [(b, float(v)) for b, v in zip(found["bias"], values[3], strict=True)] == [
            (pytest.approx(b, rel=1e-7), v) for b, v in expected.values()
        ]
        assert frames["shifts"][3] == pytest.approx(shift, rel=1e-7)

    def test_states_that_are_not_drawn_count_in_the_shift_only(self, results):
        found = map_data(results)["literal"]["taxi"]
        assert found["titles"] == ["at R", "in the taxi"]
        assert len(found["bias"]) == len(results.states.query("protocol == 'literal' and task == 'taxi'")) - 1

    def test_what_diverged_has_no_shift(self, results):
        values = results.values.copy()
        values["values"] = [np.full_like(each, np.inf) for each in values["values"]]
        frames = map_data(replace(results, values=values))["fair"]["deep-sea"]["frames"]["lstd"]
        assert frames["shifts"] == [None] * len(CHECKPOINTS)

    def test_tasks_without_a_map_have_none(self, results):
        assert list(map_data(results)["fair"]) == ["taxi", "deep-sea"]


class TestInABrowser:
    @pytest.mark.parametrize(("task", "frame"), [("taxi", 0), ("taxi", 3), ("deep-sea", LAST)])
    @pytest.mark.parametrize("constant", ["with", "without"])
    def test_numbers_are_the_stored_ones(self, window, results, task, frame, constant):
        window.open(f"view=maps&map={task}&estimate=td-lambda&frame={frame}&constant={constant}")
        drawn = window.maps()
        expected, shift = stored(results, task, "td-lambda", frame)
        shift = shift if constant == "without" else 0.0
        assert len(drawn["Estimate"]) == 1 + max(panel for panel, _, _ in expected)
        for (panel, row, column), (bias, value) in expected.items():
            shown = [drawn[name][panel][0][row][column] for name in ("Exact bias", "Estimate", "Difference")]
            assert shown == pytest.approx([bias, value - shift, value - shift - bias], rel=1e-6, abs=1e-6)

    def test_cells_without_a_state_are_blank(self, window):
        window.open("view=maps&map=deep-sea")
        for name, panels in window.maps().items():
            assert all(numbers[1][0] is None for numbers in panels[0][:2]), name
        assert len(window.driver.find_elements("css selector", "#map .heatmaplayer image")) == 3

    def test_the_slider_changes_what_is_drawn(self, window):
        from selenium.webdriver.common.keys import Keys

        window.open("view=maps&map=deep-sea&estimate=single-chain")
        last, words = window.maps(), window.find("#map-status").text
        picture = window.find("#map .heatmaplayer image").get_attribute("href")
        slider = window.find("#frame")
        assert slider.get_property("value") == str(LAST)
        slider.send_keys(Keys.ARROW_LEFT)
        slider.send_keys(Keys.ARROW_LEFT)
        first = window.maps()
        assert first["Exact bias"] == last["Exact bias"]
        assert first["Estimate"] != last["Estimate"]
        assert first["Difference"] != last["Difference"]
        assert window.find("#map .heatmaplayer image").get_attribute("href") == picture  # the exact bias
        assert window.find("#map-status").text != words
        assert window.find("#steps").text == "1,000 of 10,000 steps" == slider.get_attribute("aria-valuetext")
        assert f"frame={LAST - 2}" in window.fragment()
        window.open(window.fragment())
        assert window.maps() == first
        assert window.complaints() == []

    def test_playing_goes_through_all_checkpoints_and_stops(self, window):
        from selenium.webdriver.support.wait import WebDriverWait

        def press():  # and look at once: on a busy machine the next frame may come before the next request
            return window.run(
                "document.querySelector('#play').click();"
                "return [document.querySelector('#play').textContent, location.hash]"
            )

        window.open(f"view=maps&map=deep-sea&frame={LAST - 2}")
        assert press()[0] == "Pause"
        WebDriverWait(window.driver, 60).until(lambda _: window.find("#play").text == "Play")
        assert f"frame={LAST}" in window.fragment()
        text, fragment = press()  # from the start
        assert text == "Pause"
        assert "frame=0" in fragment
        assert press()[0] == "Play"

    @pytest.mark.parametrize(("name", "value"), [("map", "taxi"), ("estimate", "lstd"), ("constant", "with")])
    def test_a_choice_changes_what_is_drawn(self, window, name, value):
        window.open("view=maps&map=deep-sea&estimate=single-chain")
        before = window.maps()
        window.choose(name, value, "maps")
        if name == "estimate":  # made to differ by a constant
            window.choose("constant", "with", "maps")
        assert window.maps() != before
        assert window.complaints() == []

    def test_what_diverged_is_said(self, driver, results, paper, tables, tmp_path):
        values = results.values.copy()
        values["values"] = [np.full_like(each, np.nan) for each in values["values"]]
        path = write_study_page(replace(results, values=values), paper, tables, tmp_path / "index.html")
        window = Browser(driver, path).open("view=maps")
        assert window.find("#map-status").text.endswith("diverged.")
        assert window.complaints() == []

    def test_a_study_without_maps_has_no_such_part(self, driver, tmp_path, paper):
        results = make_results(tmp_path, tasks=("random-walk-50",), num_runs=1, levels=LEVELS)
        path = tmp_path / "index.html"
        path.write_text(page_html(results, paper, study_tables(results, paper)))
        window = Browser(driver, path).open("view=maps")
        assert window.find("#verdicts").is_displayed()
        assert not window.find("#tab-maps").is_displayed()
        assert window.complaints() == []
