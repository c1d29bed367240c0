"""The page of claims: all verdicts and figures without a script, charts in a real browser."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

import gainbias as gb
from gainbias import cli
from gainbias.experiments.claims.claim import Part
from gainbias.experiments.claims.registry import CLAIMS
from gainbias.report.claims import claims_html, part_cells, read_claims
from gainbias.report.pages.frame import typeset
from tests.report.interactive.browser import Browser

STORED = Path(__file__).parents[3] / "docs" / "data" / "claims.json"
MADE = {"Results": "claims.json, written in a test"}
PHONE = {"width": 390, "height": 844}


def read(text):
    """Return what a reader sees of a text whose mathematics is set."""
    return unescape(re.sub(r"<[^>]*>", "", typeset(text)))


@pytest.fixture(scope="module")
def stored():
    return read_claims(STORED)


@pytest.fixture(scope="module")
def claims_page(stored, tmp_path_factory):
    path = tmp_path_factory.mktemp("claims") / "index.html"
    path.write_text(claims_html(stored, MADE))
    return path


@pytest.fixture
def window(driver, claims_page):
    return Browser(driver, claims_page)


def test_it_is_one_file(claims_page):
    ours = re.sub(r"<script>.*?</script>", "", claims_page.read_text(), flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", ours) == []


def test_the_verb_report_writes_it(tmp_path, capsys, claims_page):
    (tmp_path / "claims.json").write_bytes(STORED.read_bytes())
    assert cli.main(["report", str(tmp_path), "--json"]) == cli.DONE
    assert json.loads(capsys.readouterr().out)["page"] == str(tmp_path / "index.html")
    written, ours = ((path / "index.html").read_text() for path in (tmp_path, claims_page.parent))
    assert re.search(rf"claims.json, written \d{{4}}-.*by gainbias {re.escape(gb.__version__)}", written)
    assert re.sub("<dl>.*</dl>", "", written) == re.sub("<dl>.*</dl>", "", ours)


@pytest.mark.parametrize("content", ["[{", '[{"id": "rate"}]', '{"a": 1}'])
def test_a_damaged_file_is_named(tmp_path, capsys, content):
    (tmp_path / "claims.json").write_text(content)
    assert cli.main(["report", str(tmp_path)]) == cli.WRONG_INPUT
    assert "claims.json is damaged or was written by another version" in capsys.readouterr().err


class TestWhatIsClaimed:
    def test_it_is_not_the_mark_at_which_a_claim_passes(self, stored):
        html = unescape(re.sub(r"<[^>]*>", "", claims_html(stored, MADE)))
        assert (
            "Double-chain, slow chain: 1.941 (1.916 to 1.966), claimed at most 2; passes up to 2.1." in html
        )
        assert "claimed at most 4; passes up to 4.1." in html
        assert "0.2264 (0.2252 to 0.2275), claimed 0.2 ± 0.1; differs by 0.026. 14 more figures." in html
        assert "claimed at most 2.1" not in html

    def test_every_mark_with_room_for_errors_has_its_claim(self, stored):
        """Those of bounds are what is claimed, and `about` has both numbers."""
        marks = {(each.id, part.expected) for each in stored for part in each.parts if part.verdict}
        listed = {(name, mark) for name, claim in CLAIMS.items() for mark in claim.said}
        limits = {(name, mark) for name, mark in marks if mark.startswith(("at most", "at least"))}
        assert limits - listed == {("bound-holds", "at most 1")}
        assert listed - limits == {("eta-order-markov", "at most 2.1 by the theorem")}

    def test_digits_follow_the_interval(self):
        part = Part("power", -0.305, -2.595, 1.985, "at most 0.1", "undecided")
        cells = part_cells("parity-answer", part)
        assert cells[1:3] == ("-0.3", "-2.6 to 2.0")
        assert cells[4] == "at most 0; passes up to 0.1"
        assert part_cells("", Part("ratio", 0.04, 0.003, 2.5))[1:3] == ("0.04", "0.003 to 2.5")
        assert part_cells("", Part("one", 1.0, 1.0 - 4e-9, 1.0 + 4e-9))[1:3] == ("1.0000", "0.9999 to 1.0001")
        assert part_cells("", Part("rounding", 2.7e-16, 2.7e-16, 2.7e-16))[1:3] == ("2.7e-16", "")

    def test_an_interval_says_what_it_is(self, stored):
        known = {
            "exact",
            "range",
            "95% interval",
            "fit of a line",
            "4 standard errors",
            "tenth of the spread",
        }
        assert {part.ends for each in stored for part in each.parts} == known
        assert all((part.ends == "exact") == (part.low == part.high) for x in stored for part in x.parts)

    def test_a_figure_whose_interval_misses_what_is_claimed_is_not_said_to_be_that(self, stored):
        rate = next(each for each in stored if each.id == "rate")
        assert "the power is" not in rate.reason
        assert "differs from min(1, 2 a eta1) by 0.028 at most; the tolerance is 0.1." in rate.reason


class TestInABrowser:
    def test_verdicts_are_the_stored_ones(self, window, stored):
        window.open()
        names, verdicts = (window.texts(f".claim > summary > {kind}") for kind in (".name", ".verdict"))
        shown = list(zip(names, verdicts, strict=True))
        assert sorted(shown) == sorted((each.id, each.verdict) for each in stored)
        assert verdicts == sorted(verdicts, key=["fails", "undecided", "holds"].index)
        assert window.complaints() == []
        assert [x for x in window.requests() if not x.startswith(("file:", "data:", "blob:"))] == []

    @pytest.mark.parametrize("look", [{}, PHONE], ids=["wide", "phone"])
    def test_each_claim_is_there_once_with_its_verdict_in_line(self, window, stored, look):
        window.open(**look)
        text = window.run("return document.body.innerText")
        for each in stored:
            assert text.count(read(each.text)) == 1
        edge = "right" if look else "left"
        places = window.run(
            "return [...document.querySelectorAll('.claim > summary > .verdict')]"
            f".map(e => Math.round(e.getBoundingClientRect().{edge}))"
        )
        assert len(set(places)) == 1

    def test_a_click_opens_a_claim_and_draws_what_is_stored(self, window, stored):
        window.open()
        window.find("[data-claim=dimension] > summary").click()
        window.run("return new Promise(done => setTimeout(done, 100))")
        drawn = window.run(
            "return document.querySelector('[data-claim=dimension] .chart').data.map(t => [t.name, t.y])"
        )
        (chart,) = next(result for result in stored if result.id == "dimension").charts
        assert [(name, y) for name, y in drawn] == [
            (line.name, [float(f"{value:.4g}") for value in line.y]) for line in chart.lines
        ]
        assert window.fragment() == "claim=dimension"
        assert window.complaints() == []

    def test_the_answer_leads_to_claims_that_do_not_hold(self, window, stored):
        window.open()
        missed = [each.id for each in stored if each.verdict != "holds"]
        assert window.texts(".answer a") == missed
        window.find(".answer a").click()
        window.run("return new Promise(done => setTimeout(done, 100))")
        assert window.find(f'[data-claim="{missed[0]}"]').get_attribute("open")

    def test_the_figure_that_decides_stands_below_its_claim(self, window, stored):
        window.open()
        shown = window.texts(".claim > summary .evidence")
        results = {each.id: each for each in stored}
        for claim, text in zip(window.texts(".claim > summary > .name"), shown, strict=True):
            each = results[claim]
            part = next(part for part in each.parts if part.verdict == each.verdict)
            name, figure, interval, _, claimed, _ = map(read, part_cells(each.id, part))
            words = f": {figure} ({interval})," if part.low < part.high else f": {figure},"
            assert text.lower().startswith(f"{name}{words} claimed {claimed}.".lower())

    def test_what_is_undecided_in_a_claim_that_fails_is_named(self, window, stored):
        window.open()
        row = window.texts("[data-claim=parity-answer] > summary .evidence")[0]
        assert "Undecided: single-chain / discounted-td, power of 1/η1, slow chain, iid." in row
        assert "parity-answer (in part undecided)" in window.texts(".answer")[0]

    def test_a_single_claim_is_open(self, driver, stored, tmp_path):
        path = tmp_path / "page.html"
        path.write_text(claims_html(stored[:1], MADE))
        window = Browser(driver, path).open()
        window.run("return new Promise(done => setTimeout(done, 100))")
        assert window.run("return document.querySelectorAll('.chart .main-svg').length") > 0
        assert window.complaints() == []

    def test_figures_are_the_stored_ones(self, window, stored):
        window.open("claim=rate")
        rows = window.texts("[data-claim=rate] .parts tbody tr")
        parts = next(result for result in stored if result.id == "rate").parts
        assert [[cell.strip() for cell in row.split("\t")] for row in rows] == [
            [read(cell) for cell in part_cells("rate", part)] for part in parts
        ]
        assert "a η1 = 0.2" in rows[1]

    def test_the_answer_comes_first(self, window, stored):
        window.open(**PHONE)
        held = sum(result.verdict == "holds" for result in stored)
        [answer] = window.texts(".answer")
        assert answer.startswith(f"{held} of {len(stored)} claims hold. ")
        for result in stored:
            named = re.search(rf"(?<![\w-]){result.id}(?![\w-])", answer) is not None
            assert named == (result.verdict != "holds")
        bottom = window.run(
            "return document.querySelector('.claim > summary').getBoundingClientRect().bottom"
        )
        assert bottom <= PHONE["height"]

    @pytest.mark.parametrize("look", [{}, {"scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
    def test_all_claims_open(self, window, screenshots, look, request):
        window.open(**look)
        window.run("document.querySelectorAll('details').forEach(claim => { claim.open = true; })")
        window.run("return new Promise(done => setTimeout(done, 300))")
        drawn = window.run("return document.querySelectorAll('.chart .main-svg').length")
        assert drawn >= len(CLAIMS)
        assert window.run("return document.documentElement.scrollWidth <= innerWidth")
        assert window.complaints() == []
        window.picture(screenshots / f"claims-{request.node.callspec.id}.png")

    def test_names_cannot_become_programs(self, driver, stored, tmp_path):
        hostile = "<img src=x onerror='window.ran=1'>"
        result = stored[0].to_dict() | {"text": hostile, "reason": hostile, "id": hostile}
        result["charts"][0]["title"] = result["charts"][0]["lines"][0]["name"] = hostile
        (tmp_path / "claims.json").write_text(json.dumps([result]))
        path = tmp_path / "page.html"
        html = claims_html(read_claims(tmp_path / "claims.json"), MADE)
        path.write_text(html.replace('http-equiv="Content-Security-Policy"', ""))
        window = Browser(driver, path).open()
        window.run("document.querySelector('details').open = true")
        window.run("return new Promise(done => setTimeout(done, 200))")
        assert window.run("return [window.ran, document.querySelectorAll('img').length]") == [None, 0]
        assert hostile in window.find("details").text
