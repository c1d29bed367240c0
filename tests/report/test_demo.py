"""The demonstration: true answers, which its own commands give again, and a page that leads to the others."""

import json
import shlex
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
    low, _, high = rest.rpartition("interval ")[2].partition(" to ")
    return (float(value.split()[0]), float(low), float(high)) if high else (float(value),) * 3


def test_each_kind_of_answer_is_there_and_true(shown):
    _, answers = shown
    assert len(answers) == len(demo.QUESTIONS) == 5
    for one in answers:
        value, low, high = numbers_of(one.answer)
        assert low <= value <= high
        if one.page is None:
            assert value == pytest.approx(one.exact, rel=1e-11)
        else:
            assert low < one.exact < high


def test_the_first_page_of_the_documentation_shows_them(shown):
    page = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
    for one in shown[1]:
        asked = f"{one.have}. {one.question}"
        assert f"| {asked[:1].upper() + asked[1:]} | {one.answer} | {one.exact:.6g} |" in page


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
        assert f'<span class="verdict held">{one.verdict}</span> (exact: ' in page
        assert f'<pre class="command">{one.command}</pre>' in page  # its lines are broken on a phone
        assert one.command in page
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
