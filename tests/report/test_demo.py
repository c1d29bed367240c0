"""The demonstration: true answers, which its own commands give again, and a page that leads to the others."""

import json
import re
import shlex
from html import escape
from pathlib import Path

import pytest

from gainbias import cli
from gainbias.evaluation.sources import environments
from gainbias.report import demo
from tests.report.interactive.browser import Browser
from tests.report.interactive.conftest import driver, programs  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "queue"
    return folder, demo.demonstrate(folder)


def numbers_of(answer):
    """Return an answer and the ends of its interval, from its words."""
    value, _, rest = answer.partition(",")
    value = float(value.split()[0])
    low, _, high = rest.rpartition("interval ")[2].partition(" to ")
    return (value, float(low), float(high)) if high else (value, value, value)


def test_each_kind_of_answer_is_there_and_true(shown):
    _, answers = shown
    assert len(answers) == len(demo.QUESTIONS) == 5
    for one in answers:
        value, low, high = numbers_of(one.answer)
        assert low <= value <= high
        if one.page is None:
            assert one.value == pytest.approx(one.exact, rel=1e-11)
            assert f"{one.value:.6g}" == one.shown_exact == f"{value:.6g}"
        else:
            assert low < one.exact < high


def test_the_first_page_of_the_documentation_shows_them(shown):
    page = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
    for one in shown[1]:
        asked = f"{one.have}. {one.question}"
        value, _, error = one.answer.partition(", ")
        cells = (value, error.removeprefix("95% interval "), one.shown_exact, one.verdict)
        assert f"| {asked[:1].upper() + asked[1:]} | {' | '.join(cells)} |" in page


def test_its_commands_give_the_same_answers(shown, capsys):
    for one in shown[1]:
        words = shlex.split(one.command)[1:]
        assert cli.main([*words, "--json"]) == cli.DONE
        answer = json.loads(capsys.readouterr().out)
        number = answer["mean"] if "mean" in answer else answer["gain"]
        assert f"{number:.3g}" == f"{numbers_of(one.answer)[0]:.3g}"


def test_the_page_leads_to_the_others(shown):
    folder, answers = shown
    page = (folder / "index.html").read_text()
    for one in answers:
        assert one.question in page
        assert one.verdict in ("steady", "exact")
        exact = "" if one.verdict == "exact" else f" exact: {one.shown_exact}"
        assert f'<span class="verdict held">{one.verdict}</span>{exact}</p>' in page
        words = (f"<span>{escape(word)}</span>" for word in one.command.split())
        assert f'<pre class="command">{" ".join(words)}</pre>' in page  # its lines are broken on a phone
        assert one.page is None or (f'<a href="{one.page}">' in page and (folder / one.page).is_file())


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_page_fits_its_screen(driver, shown, width, height):  # noqa: F811
    """On a desktop all answers are seen at once; on a phone no command makes the page wider."""
    window = Browser(driver, shown[0] / "index.html").open(width=width, height=height)
    assert window.run("return document.documentElement.scrollWidth <= innerWidth")
    wider = (
        "return [...document.querySelectorAll('.command')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert window.run(wider) == 0
    bottoms = window.run(
        "return [...document.querySelectorAll('strong')].map(e => e.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == 5
    assert bottoms[-1 if width == 1280 else 0] <= height
    assert window.complaints() == []


def test_a_line_of_a_command_ends_between_words(driver, shown):  # noqa: F811
    window = Browser(driver, shown[0] / "index.html").open(width=390, height=844)
    heights = window.run(
        "return [...document.querySelectorAll('.command span')].filter(e => !e.innerText.includes('/'))"
        ".map(e => e.getBoundingClientRect().height)"
    )
    assert max(heights) < 1.5 * min(heights)


def test_a_picture_has_the_dot_in_its_interval_and_the_tick_at_the_exact_value(shown):
    folder, answers = shown
    drawn = re.findall(r'<svg viewBox="0 0 400.*?</svg>', (folder / "index.html").read_text())
    assert len(drawn) == len(answers)
    scales = {}
    for one, svg in zip(answers, drawn, strict=True):
        low, high = map(float, re.search(r'class="interval" d="M([\d.]+) 30H([\d.]+)"', svg).groups())
        dot, tick = float(re.search(r'cx="([\d.]+)"', svg)[1]), float(re.search(r'd="M([\d.]+) 16', svg)[1])
        assert low <= dot <= high
        if high == low:
            assert dot == tick
        else:
            assert (low <= tick <= high) == (one.interval[0] <= one.exact <= one.interval[1])
            scale = (high - low) / (one.interval[1] - one.interval[0])
            assert scales.setdefault(round(one.exact, 9), scale) == pytest.approx(scale, rel=0.01)
            assert tick - low == pytest.approx(scale * (one.exact - one.interval[0]), abs=0.2)


def test_nothing_is_overwritten(shown, capsys):
    folder = shown[0]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert cli.main(["demo", "--output", str(folder)]) == cli.WRONG_INPUT
    assert f"{folder} exists already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_missing_is_left_out_and_said(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(f"this needs {name}: pip install 'gainbias[gym]'")

    monkeypatch.setattr(environments, "optional", missing)
    monkeypatch.setattr(demo, "QUESTIONS", (demo._from_simulator,))
    (one,) = demo.demonstrate(tmp_path / "new")
    assert one.answer.startswith("left out: this needs gymnasium")
    assert Path(tmp_path / "new" / "index.html").is_file()
