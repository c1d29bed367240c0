"""The page of one evaluation: what it shows is the estimate, whatever the estimate lacks."""

import re
from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

import gainbias as gb
from gainbias.evaluation.estimate import History
from gainbias.evaluation.values.methods import NoValues
from gainbias.report.pages.estimate import (
    estimate_html,
    how_the_interval_was_made,
    next_steps,
    write_estimate_page,
)
from tests.evaluation.chains import Counter, Queue
from tests.evaluation.test_files import Drift
from tests.report.interactive.browser import Browser
from tests.report.test_plot import Cube

ALWAYS = np.ones(6, dtype=int)
MADE = {"Command": "gainbias evaluate Queue"}
LOOKS = {"light": {}, "dark": {"scheme": "dark"}, "phone": {"width": 390, "height": 844}}
HOSTILE = "<img src=x onerror='window.ran=1'>"


class Line(Counter):
    """A number that is drawn anew in each step."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
        self.seen = np.zeros(1)

    def step(self, action):
        self.seen = self.np_random.random(1)
        return self.seen, float(self.seen[0]), False, False, {}


class Box(Drift):
    """Two numbers, of which only the lower left quarter is ever seen."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0.0, 2.0, (2,))


class Many(Queue):
    """More states than a table has rows for."""

    arrival, service, capacity = 0.45, 0.45, 299


@pytest.fixture(scope="module")
def queue():
    return gb.evaluate(Queue, ALWAYS, num_steps=20_000)


@pytest.fixture(scope="module")
def box():
    return gb.evaluate(Box, "random", num_steps=20_000)


@pytest.fixture(scope="module")
def many():
    return gb.evaluate(Many, np.ones(300, dtype=int), num_steps=20_000)


@pytest.fixture(scope="module")
def warned():
    return gb.evaluate("FrozenLake-v1", "random", num_steps=1_500)


@pytest.fixture
def opened(driver, tmp_path):
    """Return a function that opens the page of an estimate."""

    def open_page(estimate, fragment="", **look):
        write_estimate_page(estimate, tmp_path / "page.html", MADE)
        return Browser(driver, tmp_path / "page.html").open(fragment, **look)

    return open_page


def drawn(window, place="values"):
    return window.run(f"return document.getElementById('{place}').data")


def assert_sound(window):
    assert window.complaints() == []
    assert [x for x in window.requests() if not x.startswith(("file:", "data:", "blob:"))] == []
    assert window.run("return document.documentElement.scrollWidth <= innerWidth")


def assert_numbers_apart(window):
    """Numbers along an axis do not touch each other, all are within the chart, and there are few of them."""
    axes = window.run(
        "return [...document.querySelectorAll('.chart')].filter(e => e.checkVisibility()).map(chart => {"
        "const {left, right} = chart.getBoundingClientRect();"
        "return [left, right, ['x', 'y'].map(axis => [...chart.querySelectorAll(`.${axis}tick text`)]"
        ".map(e => e.getBoundingClientRect())"
        ".map(b => axis === 'x' ? [b.left, b.right] : [b.top, b.bottom]))]})"
    )
    cut = window.run(
        "return [...document.querySelectorAll('.chart')].filter(e => e.checkVisibility()).flatMap(chart =>"
        "[...chart.querySelectorAll('.annotation-text')].filter(words =>"
        "words.getBoundingClientRect().top < chart.getBoundingClientRect().top - 1).map(e => e.textContent))"
    )
    assert cut == []
    for left, right, (across, up) in axes:
        for spans in (sorted(across), sorted(up)):
            assert 1 <= len(spans) <= 12
            assert all(one[1] < next_one[0] for one, next_one in pairwise(spans))
        assert min(across)[0] >= left - 1
        assert max(end for _, end in across) <= right + 1


def text_of(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html.partition("<main")[2].partition("<script")[0]).split())


class TestInABrowser:
    def test_the_gain_is_the_estimates(self, opened, queue):
        window = opened(queue)
        what, gain = window.texts("h1")[0].split("\n")
        assert what == "Average reward per step (gain)"
        assert f"gain      {gain} per step, {window.texts('.interval')[0]}" == repr(queue).splitlines()[0]
        shown = window.run(
            "return [...document.querySelectorAll('#gain .xtick text')].map(e => e.textContent)"
        )
        assert shown[-1] == "20,000"
        line = drawn(window, "gain")[-1]
        assert line["x"] == queue.history.transitions.tolist()[-len(line["x"]) :]
        assert line["y"] == queue.history.gain.tolist()[-len(line["x"]) :]
        assert not window.texts(".warning")
        assert_sound(window)

    def test_the_number_its_interval_the_verdict_and_then_warnings(self, opened, warned):
        window = opened(warned)
        assert window.texts(".warning li") == list(warned.diagnostics.warnings)
        top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
        order = ["h1", ".interval", ".conclusion", ".warning", "#gain"]
        assert sorted(order, key=lambda place: window.run(top, place)) == order

    def test_values_of_states(self, opened, queue):
        window = opened(queue)
        (points,) = drawn(window)
        values, ends = queue.value(np.arange(6)), queue.value_interval(np.arange(6))
        assert points["y"] == values.tolist()
        assert np.add(points["y"], points["error_y"]["array"]) == pytest.approx(ends[:, 1])
        assert np.subtract(points["y"], points["error_y"]["arrayminus"]) == pytest.approx(ends[:, 0])
        rows = [row.split("\t") for row in window.texts("table tbody tr")]
        assert [int(row[0]) for row in rows] == list(range(6))
        assert [float(row[1]) for row in rows] == pytest.approx(values, abs=0.06)
        shown = np.array([row[2].split(" to ") for row in rows], dtype=float)
        assert shown == pytest.approx(ends, abs=0.06)
        assert window.texts("table thead th")[2] == "95% interval"

    def test_a_table_can_be_sorted_and_the_order_shared(self, opened, queue):
        window = opened(queue)
        window.find("table thead th:nth-child(2) button").click()
        assert window.fragment() == "sort=2"
        order = np.argsort(queue.value(np.arange(6)))
        assert window.texts("table tbody th") == [str(place) for place in order]
        again = opened(queue, "sort=-1")
        assert again.texts("table tbody th") == ["5", "4", "3", "2", "1", "0"]

    def test_a_map_of_values_or_of_widths(self, opened, box):
        window = opened(box)
        (shown,) = drawn(window)
        first, second = 10, 20
        seen = [shown["x"][first], shown["y"][second]]
        low, high = box.value_interval(seen)
        assert shown["z"][second][first] == box.value(seen)
        assert shown["text"][second][first] == f"{box.value(seen):+.3f} ({low:+.3f} to {high:+.3f})"
        assert shown["z"][-1][-1] is None  # never seen
        assert shown["text"][-1][-1] == "nothing similar was seen"
        window.find('[data-choice="shown"] option[value="width"]').click()
        assert window.fragment() == "shown=width"
        (widths,) = drawn(window)
        assert widths["z"][second][first] == pytest.approx((high - low) / 2)
        assert drawn(opened(box, "shown=width"))[0]["z"] == widths["z"]
        assert drawn(opened(box, "shown=nonsense"))[0]["z"] == shown["z"]
        assert_sound(window)

    def test_a_line_with_its_band(self, opened):
        estimate = gb.evaluate(Line, "random", num_steps=20_000)
        window = opened(estimate)
        *bands, line = drawn(window)
        seen = np.array(line["x"])[:, None]
        assert line["y"] == estimate.value(seen).tolist()
        [band] = bands
        assert band["y"][: len(seen)] == estimate.value_interval(seen)[:, 0].tolist()
        assert_sound(window)

    def test_no_band_reaches_across_what_was_not_seen(self, opened):
        class Ends(Line):
            def step(self, action):
                _, reward, *rest = super().step(action)
                self.seen = np.round(self.seen)
                return self.seen, reward, *rest

        *bands, line = drawn(opened(gb.evaluate(Ends, "random", num_steps=20_000)))
        assert len(bands) == 2
        assert None in line["y"]
        assert max(bands[0]["x"]) < 0.5 < min(bands[1]["x"])

    def test_the_best_and_the_worst_of_many(self, opened, many):
        window = opened(many)
        (bars,) = drawn(window)
        worst, best = many.extremes(6)
        assert bars["x"] == [value for _, value in [*worst, *best[::-1]]]
        assert window.run("return document.getElementById('values').layout.yaxis.ticktext")[0] == str(
            worst[0][0]
        )
        assert "of 300 observations" in window.texts(".hint")[-1]
        assert_sound(window)

    @pytest.mark.parametrize("look", LOOKS)
    def test_pictures_for_people(self, opened, queue, box, many, warned, screenshots, look):
        for name, estimate in {"queue": queue, "box": box, "many": many, "warned": warned}.items():
            window = opened(estimate, **LOOKS[look])
            assert_sound(window)
            assert_numbers_apart(window)
            window.picture(screenshots / f"estimate-{name}-{look}.png")

    def test_text_cannot_become_a_program(self, driver, queue, tmp_path):
        facts = replace(queue.diagnostics, notes=(HOSTILE,), warnings=(HOSTILE,), algorithm=HOSTILE)
        hostile = replace(queue, diagnostics=facts, observed=replace(queue.observed, description=HOSTILE))
        html = estimate_html(hostile, {"Command": HOSTILE}, HOSTILE)
        page = tmp_path / "page.html"
        page.write_text(html.replace('http-equiv="Content-Security-Policy"', ""))
        window = Browser(driver, page).open()
        window.run("return new Promise(done => setTimeout(done, 200))")
        assert window.run("return [window.ran, document.querySelectorAll('img').length]") == [None, 0]
        assert window.find("body").text.count(HOSTILE) == 6

    def test_nothing_that_is_drawn_of_the_gain_is_cut_off(self, opened, queue, warned):
        for estimate in (queue, warned):
            window = opened(estimate)
            *bands, line = drawn(window, "gain")
            low, high = window.run("return document.getElementById('gain').layout.yaxis.range")
            shown = [y for trace in [*bands, line] for y in trace["y"]]
            assert low < min(shown) < max(shown) < high
            history = estimate.history
            widths = (history.high - history.low)[-len(line["x"]) :]
            assert (widths <= 3.0 * widths[-1]).all()

    def test_the_value_and_the_band_are_labelled(self, opened, queue):
        window = opened(queue)
        value = window.texts("h1")[0].split("\n")[1]
        shown = "return [...document.querySelectorAll('#gain .annotation-text')].map(e => e.textContent)"
        assert window.run(shown) == [value, "95% interval"]

    def test_the_last_interval_is_a_good_part_of_the_chart_of_the_gain(self, opened, queue):
        window = opened(queue)
        low, high = window.run("return document.getElementById('gain').layout.yaxis.range")
        first, last = queue.gain_interval
        assert low < first < last < high
        assert last - first > 0.15 * (high - low)

    @pytest.mark.parametrize("look", LOOKS)
    def test_the_number_at_the_end_of_an_axis_is_written(self, opened, look):
        window = opened(gb.evaluate(Queue, ALWAYS, num_steps=10_000), **LOOKS[look])
        shown = window.run(
            "return [...document.querySelectorAll('#gain .xtick text')]"
            ".filter(e => e.checkVisibility()).map(e => e.textContent)"
        )
        assert shown[-1] == "10,000"

    def test_an_answer_that_is_not_trusted_is_not_bold(self, opened, queue, many):
        weights = [
            int(opened(estimate).run("return getComputedStyle(document.querySelector('h1')).fontWeight"))
            for estimate in (queue, many)
        ]
        assert not many.diagnostics.verdict.is_trusted
        assert weights[0] >= 600 > weights[1]

    def test_notes_come_after_the_pictures(self, queue):
        noted = replace(queue, diagnostics=replace(queue.diagnostics, notes=("a note",)))
        html = estimate_html(noted, MADE)
        assert html.index('id="values"') < html.index("a note") < html.index("How far to trust it")


class TestVerdict:
    def test_it_stands_below_the_interval_and_is_not_said_again(self, queue):
        shown = estimate_html(queue, MADE).partition('class="interval"')[2].partition("</header>")[0]
        assert '<div class="conclusion held" role="note"><p>Steady: no reason to doubt' in shown
        verdict = replace(
            queue.diagnostics.verdict, kind="drifting", is_trusted=False, words="drifting: away"
        )
        facts = replace(queue.diagnostics, verdict=verdict, warnings=("drifting: away", "and this"))
        html = estimate_html(replace(queue, diagnostics=facts), MADE)
        assert '<div class="conclusion failed" role="note"><p>Drifting: away.</p><h2>What to do next' in html
        assert html.count("rifting: away") == 1
        assert "<h2>Warnings</h2><ul><li>and this</li></ul>" in html

    @pytest.mark.parametrize("kind", ["steady", "drifting"])
    def test_what_was_looked_for_is_said_where_nothing_was_found(self, queue, kind):
        verdict = replace(queue.diagnostics.verdict, kind=kind, is_trusted=kind == "steady")
        text = text_of(
            estimate_html(replace(queue, diagnostics=replace(queue.diagnostics, verdict=verdict)), MADE)
        )
        assert ("Looked for, not found a drift, a level shift" in text) == (kind == "steady")
        assert ("chains that disagree" in text) == (kind == "steady")

    def test_a_doubt_about_the_gain_is_not_green(self, queue):
        facts = replace(queue.diagnostics, warnings=("only once",), gain_warnings=("only once",))
        assert 'class="conclusion open"' in estimate_html(replace(queue, diagnostics=facts), MADE)


class TestAbout:
    def test_the_subject_is_named_above_the_number_and_in_the_title(self, queue):
        html = estimate_html(queue, MADE, "Queue, policy <always>")
        assert re.search("<title>Queue, policy &lt;always&gt;: gain [0-9.]+ per step</title>", html)
        assert html.index('class="subject">Queue, policy &lt;always&gt;<') < html.index('class="interval"')
        assert MADE["Command"] not in html.partition("</header>")[0]
        assert MADE["Command"] in html.partition("How it was made")[2]

    def test_what_to_do_next(self, queue, many):
        assert next_steps(queue) == [
            "Use the gain with its interval.",
            "For an interval half as wide, take 4 times as many steps: about 80,000.",
        ]
        assert next_steps(many)[0].startswith("Do not report this interval.")

    def test_how_the_interval_was_made_has_the_degrees_of_freedom(self, queue):
        words = how_the_interval_was_made(queue.diagnostics)
        assert "the 12 lowest frequencies" in words
        assert "the means of the 4 chains: Student's t with 12 + 3 degrees" in words
        assert queue.diagnostics.degrees == 12 + 3
        apart = replace(queue.diagnostics, degrees=3)
        assert how_the_interval_was_made(apart).startswith("the means of the 4 chains alone")

    def test_the_band_is_said_to_hold_for_one_look_only_if_it_does(self, queue):
        assert "not for all looks together" in estimate_html(queue, MADE)
        looked = gb.evaluate(Queue, ALWAYS, num_steps=20_000, anytime=True)
        assert "interval for all looks together" in estimate_html(looked, MADE)

    def test_another_policy_and_what_the_log_is_worth_to_it_come_first(self):
        random = np.random.default_rng(0)
        states = np.zeros(20_001, dtype=int)
        log = {"state": states, "action": random.integers(0, 2, 20_001), "reward": random.random(20_001)}
        found = gb.evaluate_log(log, state="state", action="action", reward="reward", policy=np.array([1]))
        worth = float(f"{found.target.overlap.effective_sample_size:.2g}")
        html = estimate_html(found, MADE)
        assert text_of(html).count("worth") == 1  # of its overlap
        first = html.partition("<header>")[2].partition("</header>")[0]
        assert "of another policy than that of the log." in first
        assert (
            f"{found.target.overlap.steps:,} steps of the log are worth about {worth:,.0f} of this policy"
            in first
        )
        assert "independent rewards" not in first


class TestWhatAnEstimateMayLack:
    def test_a_single_point_of_a_short_run(self, opened):
        window = opened(gb.evaluate(Queue, ALWAYS, num_steps=20))
        (*_, point) = drawn(window, "gain")
        assert point["mode"] == "markers"
        assert point["error_y"]["array"][0] > 0
        assert window.texts("table tbody th") == ["0", "1", "2"]
        assert window.texts(".hint")[-1] == "No step began at 3, 4, 5."
        assert window.texts("table tbody tr")[0].endswith("too little was seen")
        assert_sound(window)

    def test_intervals_without_ends(self, opened, queue):
        nothing = np.full(2, np.inf)
        history = History(np.array([10, 100]), np.array([1.0, 1.0]), -nothing, nothing)
        endless = replace(queue, gain_interval=(-np.inf, np.inf), history=history)
        window = opened(endless)
        assert window.texts(".interval") == ["95% interval -inf to inf"]
        (line,) = drawn(window, "gain")
        assert line["y"] == [1.0, 1.0]
        assert_sound(window)
        pytest.importorskip("matplotlib")
        gb.plot(endless)

    def test_no_band_while_rewards_have_not_varied(self, opened, queue):
        """A band without width would look like certainty."""
        low, high = np.array([0.0, -1e-19, 0.4, 0.4]), np.array([0.0, 1e-19, 0.6, 0.6])
        history = History(np.array([10, 20, 40, 80]), np.array([0.0, 0.0, 0.5, 0.5]), low, high)
        early = replace(queue, history=history)
        *bands, line = drawn(opened(early), "gain")
        assert [band["x"] for band in bands] == [[40, 80, 80, 40]]
        assert line["x"] == [40, 80]
        never = replace(queue, history=History(history.transitions, np.zeros(4), np.zeros(4), np.zeros(4)))
        (line,) = drawn(opened(never), "gain")
        assert line["x"] == [10, 20, 40, 80]
        assert line["text"][0] == "0; rewards did not vary, so there is no interval"
        pytest.importorskip("matplotlib")
        [band] = gb.plot(early).collections
        assert band.get_paths()[0].vertices[:, 0].min() == 40

    @pytest.mark.parametrize(("time", "words"), [(1.0, "1 step "), (2.0, "2 steps ")])
    def test_one_step_is_no_steps(self, queue, time, words):
        facts = replace(queue.diagnostics, autocorrelation_time=time)
        text = text_of(estimate_html(replace(queue, diagnostics=facts), MADE))
        assert f"Autocorrelation time of rewards {words}" in text

    def test_no_values(self, opened, queue):
        window = opened(replace(queue, learned=NoValues(7, ("they diverged",))))
        assert "There are no values here: they diverged." in window.find("main").text
        assert window.run("return document.querySelectorAll('table, #values').length") == 0
        shown = drawn(window, "gain")[-1]["y"]
        assert shown == queue.history.gain.tolist()[-len(shown) :]
        assert_sound(window)

    def test_numbers_that_are_not_known(self, queue):
        facts = replace(
            queue.diagnostics,
            r_hat=float("nan"), mixing_time=float("inf"), eta=None, constant_in_span=None, is_complete=False,
        )  # fmt: skip
        text = text_of(estimate_html(replace(queue, diagnostics=facts), MADE))
        for words in (
            "Split R-hat not known",
            "Autocorrelation time of values without bound",
            "weights not computed",
            "Constants not looked at",
            "cut short",
        ):
            assert words in text

    def test_too_many_numbers_to_draw(self):
        text = text_of(estimate_html(gb.evaluate("CartPole-v1", "random", num_steps=2_000), MADE))
        assert "Values are drawn for observations of one or two numbers with bounds" in text

    @pytest.mark.parametrize("env", [Many, Cube])
    def test_states_that_were_all_seen_too_rarely(self, opened, env):
        window = opened(gb.evaluate(env, "random", num_steps=20))
        assert "Too little was seen for an interval of any value" in window.find("main").text
        assert window.run("return document.querySelectorAll('table, #values').length") == 0
        assert_sound(window)


def test_from_python(tmp_path):
    estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=2_000)
    page = gb.write_page(estimate, tmp_path / "lake.html")
    assert "Gain" in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="say where the page goes"):
        gb.write_page(estimate)
