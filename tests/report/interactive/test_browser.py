"""The page in a real browser: it is quiet, does what is asked, and shows what is stored."""

import json

import pytest

from gainbias.experiments.reproduce import method_title
from gainbias.report.data.results import PAPER_SCORES, read_results
from gainbias.report.data.study_claims import STUDY_CLAIMS
from gainbias.report.pages.paper_study import write_study_page
from gainbias.report.paper_tables import study_tables
from tests.report.interactive.browser import Browser
from tests.report.synthetic import FEW, LEVELS, make_conditions, make_paper, make_runs, write_study

VIEWS = ("verdicts", "curves", "maps", "tables", "study")
PHONE = {"width": 390, "height": 844}


def four_digits(number):
    return float(f"{number:.4g}")


class TestLoading:
    @pytest.mark.parametrize("view", VIEWS)
    def test_no_complaint_and_no_network(self, window, view):
        window.open(f"view={view}")
        assert window.complaints() == []
        requests = window.requests()
        assert any(address.startswith("file:") for address in requests)
        assert [x for x in requests if not x.startswith(("file:", "data:", "blob:"))] == []

    def test_the_page_forbids_itself_the_network(self, browser):
        browser.run("return fetch('http://127.0.0.1:9').catch(() => {})")
        assert "Content Security Policy" in browser.complaints()[0]

    def test_first_paint_is_soon(self, browser):
        paints = browser.run("return performance.getEntriesByType('paint').map(entry => entry.startTime)")
        assert paints
        assert max(paints) < 2000

    def test_nothing_offers_to_send_the_chart_away(self, browser):
        offers = browser.run(
            "return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
        )
        assert offers[0] == "Download plot as a PNG"
        assert not [offer for offer in offers if "hare" in offer or "loud" in offer]


class TestCurves:
    def test_every_algorithm_is_drawn_with_spread_floor_and_end_points(self, browser):
        names = [method_title(name, with_id=True) for name in LEVELS if name != "lstd"]
        assert list(browser.lines()) == [*names, "Least squares (floor)"]
        marks = browser.run(
            "return document.getElementById('chart').data.filter(t => t.mode === 'markers').map(t => t.y[0])"
        )
        assert marks == [2.0, 0.5, 1.0, 1.1]
        assert browser.num_shapes() == 6 + 4  # lines and end points: five bands would overlap

    def test_one_band_at_a_time_unless_few_are_left(self, browser):
        from selenium.webdriver.common.action_chains import ActionChains

        shapes = browser.num_shapes()
        label = browser.find('#algorithms label:has(input[value="single-chain"])')
        ActionChains(browser.driver).move_to_element(label).perform()
        shown = (
            "return document.getElementById('chart').data.filter(t => t.fill && t.visible).map(t => t.meta)"
        )
        assert browser.run(shown) == ["Single chain"]
        assert browser.num_shapes() == shapes + 1
        ActionChains(browser.driver).move_to_element(browser.find("h1")).perform()
        assert browser.run(shown) == []
        for name in ("double-chain", "td-lambda"):
            browser.toggle(name)
        assert len(browser.run(shown)) == 3

    def test_switching_an_algorithm_off_and_on(self, browser):
        shapes, lines = browser.num_shapes(), browser.lines()
        browser.toggle("single-chain")
        assert set(lines) - set(browser.lines()) == {"Single chain"}
        assert browser.num_shapes() == shapes - 2
        assert "Single chain" not in browser.texts("#ends tbody th")
        browser.toggle("single-chain")
        assert browser.lines() == lines
        assert browser.num_shapes() == shapes

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("task", "deep-sea"),
            ("protocol", "fair"),
            ("kind", "full"),
            ("target", "paper"),
            ("norm", "stationary"),
        ],
    )
    def test_a_choice_changes_what_is_drawn(self, window, name, value):
        window.open("view=curves&protocol=inferred&kind=quotient&target=bias")
        before = window.lines()
        window.choose(name, value)
        after = window.lines()
        assert before["Single chain"][1] != after["Single chain"][1]
        assert window.complaints() == []

    def test_steps_or_transitions(self, browser):
        assert browser.lines()["Double chain"][0][-1] == 10_000
        browser.choose("axis", "transitions")
        assert browser.lines()["Double chain"][0][-1] == 20_000
        assert browser.lines()["Single chain"][0][-1] == 10_000

    def test_every_task_side_by_side(self, browser):
        browser.choose("task", "every-task")
        drawn = browser.run(
            "return document.querySelectorAll('#chart .subplot.xy, #chart [class*=\"subplot x\"]').length"
        )
        assert drawn == len(FEW)
        assert browser.num_shapes() == len(FEW) * 10
        assert browser.complaints() == []

    @pytest.mark.parametrize("kind", ["paper", "full", "centred", "quotient"])
    def test_numbers_are_the_stored_ones(self, browser, results, kind):
        browser.choose("kind", kind)
        score = PAPER_SCORES["literal"].but(kind=kind)
        shown = dict(
            zip(browser.texts("#ends tbody th"), browser.texts("#ends tbody td:nth-child(2)"), strict=True)
        )
        for algorithm in LEVELS:
            stored = four_digits(results.errors(algorithm, score)["taxi"].mean())
            title = method_title(algorithm, with_id=True) + (" (floor)" if algorithm == "lstd" else "")
            assert browser.lines()[title][1][-1] == stored
            assert float(shown[title]) == float(f"{stored:.2g}")

    @pytest.mark.parametrize(
        ("axis", "words"), [("steps", "1,000 steps"), ("transitions", "2,000 transitions")]
    )
    def test_hovering_shows_values(self, browser, axis, words):
        browser.choose("axis", axis)
        shown = browser.hover("Double chain", 4)
        assert words in shown
        assert f"{browser.lines()['Double chain'][1][4]:.4g} (" in shown
        assert ("Single chain" in shown) == (axis == "steps")  # where checkpoints agree, all are in one box


class TestState:
    def test_a_view_can_be_shared(self, window):
        window.open("view=curves&protocol=literal")
        window.choose("task", "deep-sea")
        window.choose("protocol", "fair")
        window.choose("kind", "centred")
        window.choose("axis", "transitions")
        window.toggle("td-lambda")
        lines, fragment = window.lines(), window.fragment()
        window.open("view=curves")
        assert window.lines() != lines
        window.open(fragment)
        assert window.lines() == lines
        assert "Coupled SA (td-lambda)" not in lines
        assert window.find('#curves [data-choice="kind"]').get_property("value") == "centred"
        assert not window.find('#algorithms input[value="td-lambda"]').is_selected()

    def test_another_fragment_is_followed(self, browser):
        browser.run("location.hash = 'view=tables&table=condition-numbers'")
        browser.run("return new Promise(done => setTimeout(done, 50))")
        assert browser.find("#tables").is_displayed()
        assert not browser.find("#curves").is_displayed()

    def test_a_fragment_that_makes_no_sense_is_settled(self, window):
        window.open(
            "view=nothing&task=%3Cb%3E&protocol=other&kind=x&target=y&norm=z&hide=q&sort=99&claim=%27"
        )
        assert window.find("#verdicts").is_displayed()
        window.open("view=curves&task=%3Cb%3E&protocol=other&kind=x&target=y&norm=z")
        assert len(window.lines()) == len(LEVELS)
        window.open("view=tables&sort=99")
        assert window.complaints() == []

    def test_the_answer_is_on_the_first_screen_under_the_fair_protocol(self, window, tables):
        place = "return document.querySelector(arguments[0]).getBoundingClientRect()"
        for size in ({"width": 1280, "height": 800}, PHONE):
            window.open(**size)
            for seen in ("p.answer", ".overview tbody tr"):
                box = window.run(place, seen)
                assert 0 < box["top"] < box["bottom"] <= size["height"]
                assert box["right"] <= size["width"]
        first = window.texts(".overview tbody tr td:nth-child(2)")[0]
        row = tables.verdicts.query("claim == 'most-settings' and score == 'fair, quotient'").iloc[0]
        assert " ".join(first.split()).startswith(f"{row['word']} {row['held']} of {row['of']}")
        window.open("view=curves", width=1280, height=800)
        assert window.run(place, "#chart")["top"] < 0.6 * 800  # not only its controls
        shown = [window.find(f'#curves [data-choice="{name}"]') for name in ("protocol", "kind", "axis")]
        assert [box.get_property("value") for box in shown] == ["fair", "quotient", "transitions"]


class TestPaper:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_parts_are_printed_and_nothing_is_cut_off(self, window, scheme):
        """Chromium lays the page out as for a printer, in its light colours."""
        window.open("view=tables", scheme=scheme)
        window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        window.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
        )
        window.run("dispatchEvent(new Event('beforeprint'))")
        assert [window.find(f"#{view}").is_displayed() for view in VIEWS] == [True] * 5
        assert not any(window.texts("select, [role=tab], .modebar"))
        assert window.run("return document.documentElement.scrollWidth <= innerWidth")
        wide = window.run(
            "return [...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility())"
            ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.getAttribute('aria-label'))"
        )
        assert wide == []
        ink = "return document.querySelector('#chart').layout.font.color"
        assert window.run(ink) == "#1d2126"
        window.run("dispatchEvent(new Event('afterprint'))")
        assert not window.find("#curves").is_displayed()
        assert window.complaints() == []


class TestTables:
    def test_numbers_are_those_of_the_table(self, window, tables):
        table = tables.distances.query("protocol == 'inferred'")
        window.open("view=tables&protocol=inferred")
        ours, printed = (window.texts(f".grid tbody td:nth-child({place})") for place in (3, 4))
        for text, mean, spread in zip(ours, table["our_mean"], table["our_std"], strict=True):
            decimals = [len(number.partition(".")[2]) for number in text.split(" ± ")]
            assert len(set(decimals)) == 1  # a mean has no more digits than its spread
            assert text == f"{mean:.{decimals[0]}f} ± {spread:#.2g}"
        assert [float(text.split(" ±")[0]) for text in printed] == table["paper_mean"].tolist()

    def test_every_table_is_shown_alone(self, window):
        for table, words in {
            "distances": "Distance to the target",
            "condition-numbers": "Condition numbers",
            "parameters": "Parameters",
            "summary": "All tasks together",
        }.items():
            window.open(f"view=tables&table={table}")
            (caption,) = window.texts("#tables caption")
            assert caption.startswith(words)

    def test_sorting_by_number_and_by_name(self, window):
        window.open("view=tables")

        def column():
            return [float(text.split(" ±")[0]) for text in window.texts(".grid tbody td:nth-child(3)")]

        unsorted = column()
        heading = "figure:not([hidden]) th:nth-child(3)"
        window.find(f"{heading} button").click()
        assert unsorted != column() == sorted(unsorted)
        assert window.find(heading).get_attribute("aria-sort") == "ascending"
        window.find(f"{heading} button").click()
        assert column() == sorted(unsorted, reverse=True)
        assert "sort=-3" in window.fragment()
        window.open(window.fragment())
        assert column() == sorted(unsorted, reverse=True)
        window.find("figure:not([hidden]) th:nth-child(1) button").click()
        tasks = window.texts(".grid tbody th")
        assert tasks == sorted(tasks)


class TestVerdicts:
    def test_the_words_are_those_of_the_page_of_verdicts(self, window, tables):
        verdicts = tables.verdicts
        window.open("view=verdicts&claim=double-chain-keeps-up")
        rows = window.texts('[data-claim="double-chain-keeps-up"] tbody tr:not(.why)')
        reasons = window.texts('[data-claim="double-chain-keeps-up"] tbody .why')
        expected = verdicts[verdicts["claim"] == "double-chain-keeps-up"]
        assert len(rows) == len(expected)
        for text, row in zip(rows, expected.itertuples(), strict=True):
            words = "Fair, up to a constant" if row.score == "fair, quotient" else row.score.capitalize()
            assert text.startswith(words)
            assert row.word in text
            assert f"{row.held} of {row.of} [{row.runs_low:.0%}, {row.runs_high:.0%}]" in text
        assert reasons == [f"Why not: {reason}" for reason in expected["reason"] if reason]

    def test_all_verdicts_fit_a_phone(self, window):
        window.open("view=verdicts", **PHONE)
        widths = "const box = document.querySelector('.overview').parentElement;"
        assert window.run(f"{widths} return box.scrollWidth <= box.clientWidth")
        window.open("view=verdicts")
        titles = window.run(
            "return [...document.querySelectorAll('.overview thead th')].map(e => e.firstChild.textContent)"
        )
        cells = window.run("return [...document.querySelectorAll('.overview td')].map(e => e.dataset.title)")
        assert {cell.removeprefix("Fair: ") for cell in cells} <= {*titles, "Fair"}

    def test_what_only_seems_so_is_not_filled(self, window):
        window.open("view=verdicts")
        grounds = window.run(
            "return ['.verdict.unsure', '.verdict:not(.unsure)'].map(kind =>"
            "[...document.querySelectorAll(kind)].map(e => getComputedStyle(e).backgroundColor))"
        )
        clear = "rgba(0, 0, 0, 0)"
        assert set(grounds[0]) == {clear}
        assert clear not in grounds[1]

    def test_a_claim_is_opened_by_its_link(self, window):
        window.open("view=verdicts")
        assert len(window.texts(".overview tbody tr")) == len(STUDY_CLAIMS)
        window.find('a[href*="claim=error-falls"]').click()
        assert window.find('[data-claim="error-falls"]').get_attribute("open")
        assert window.complaints() == []


class TestPeople:
    def test_tabs_and_boxes_by_keyboard(self, browser):
        from selenium.webdriver.common.keys import Keys

        browser.find("#tab-curves").send_keys(Keys.ARROW_RIGHT)
        assert browser.find("#maps").is_displayed()
        assert browser.run("return document.activeElement.id") == "tab-maps"
        browser.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
        browser.find('#algorithms input[value="lstd"]').send_keys(Keys.SPACE)
        assert "Least squares (floor)" not in browser.lines()

    def test_all_is_labelled(self, browser):
        unnamed = browser.run(
            "return [...document.querySelectorAll('select, input')].filter(e => !e.labels.length)"
            ".concat([...document.querySelectorAll('[role=region], [role=img], [role=tablist], form')]"
            ".filter(e => !e.getAttribute('aria-label'))).map(e => e.outerHTML)"
        )
        assert unnamed == []
        tabs = browser.run(
            "const panelOf = tab => document.getElementById(tab.getAttribute('aria-controls'));"
            "return [...document.querySelectorAll('[role=tab]')].map(tab =>"
            "[tab.ariaSelected, panelOf(tab).getAttribute('aria-labelledby') === tab.id])"
        )
        assert tabs == [["false", True], ["true", True]] + [["false", True]] * 3

    @pytest.mark.parametrize("view", VIEWS)
    def test_a_phone_never_scrolls_sideways(self, window, view):
        window.open(f"view={view}", **PHONE)
        assert window.run("return document.documentElement.scrollWidth <= innerWidth")

    def test_light_and_dark(self, window):
        script = "return getComputedStyle(document.body).backgroundColor"
        colours = set()
        for scheme in ("light", "dark"):
            window.open("view=curves", scheme=scheme)
            colours.add(
                (window.run(script), window.run("return document.querySelector('#chart').layout.font.color"))
            )
        assert len({ground for ground, _ in colours}) == len({ink for _, ink in colours}) == 2

    def test_pictures_to_look_at(self, window, screenshots):
        looks = {
            "light": {},
            "dark": {"scheme": "dark"},
            "phone": PHONE,
            "phone-dark": {**PHONE, "scheme": "dark"},
        }
        for look, how in looks.items():
            for view in VIEWS:
                picture = window.open(f"view={view}", **how).picture(screenshots / f"{view}-{look}.png")
                assert picture.stat().st_size > 5000


IMAGE = "<img src=x onerror='window.ran=1'>"
SCRIPT = "</script><script>window.ran=1</script>"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Write a page with names that are programs, and nothing but its escapes to stop them."""
    folder = tmp_path_factory.mktemp("hostile")
    tasks = (*FEW, IMAGE, SCRIPT)
    runs = make_runs(tasks, num_runs=1, levels=LEVELS | {IMAGE: 1.0, SCRIPT: 1.0})
    write_study(folder, runs, make_conditions(tasks, num_runs=1))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"command": SCRIPT + IMAGE}))
    results, paper = read_results(folder), make_paper(tasks)
    path = write_study_page(results, paper, study_tables(results, paper), folder / "index.html")
    whole = path.read_text()
    path.write_text(whole.replace('http-equiv="Content-Security-Policy"', ""))
    assert path.read_text() != whole
    return path


class TestHostileNames:
    @pytest.mark.parametrize("view", VIEWS)
    def test_they_are_shown_and_never_run(self, driver, hostile, view):
        browser = Browser(driver, hostile).open(f"view={view}")
        if view == "curves":
            browser.choose("task", IMAGE)
            browser.choose("protocol", "fair")
            browser.run(
                "Plotly.Fx.hover('chart', [...Array(document.getElementById('chart').data.length).keys()]"
                ".map(curveNumber => ({curveNumber, pointNumber: 6})))"
            )
            assert "onerror" in browser.find("#algorithms").text
            assert "onerror" in browser.find("#chart .hoverlayer").text
            browser.choose("task", "every-task")
        if view == "tables":
            assert any("onerror" in text for text in browser.texts(".grid tbody th"))
        if view == "study":
            assert "onerror" in browser.find("#study").text
        assert browser.run("return window.ran") is None
        assert browser.run("return document.querySelectorAll('img').length") == 0
        assert browser.complaints() == []

    def test_a_program_would_be_seen(self, driver, hostile):
        browser = Browser(driver, hostile).open()
        browser.run("document.body.insertAdjacentHTML('beforeend', arguments[0])", IMAGE)
        browser.run("return new Promise(done => setTimeout(done, 300))")
        assert browser.run("return window.ran") == 1

    def test_a_request_would_be_seen(self, driver, hostile):
        browser = Browser(driver, hostile).open()
        browser.run("return fetch('http://127.0.0.1:9').catch(() => {})")
        assert "http://127.0.0.1:9/" in browser.requests()
        assert browser.complaints()
