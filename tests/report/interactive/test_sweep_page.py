"""The page of a sweep: what is in it, and what it does in a real browser."""

import json
import re

import pytest

from gainbias import cli
from gainbias.report.sweeps.write import report_on_sweep
from tests.report.interactive.browser import Browser
from tests.report.sweeps.stored import error_of, make_sweep

TASK = "task=garnet, num_states 20"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return make_sweep(tmp_path_factory.mktemp("sweep") / "results")


@pytest.fixture(scope="module")
def sweep_page(sweep):
    report_on_sweep(sweep, sweep.folder / "page.html")
    return sweep.folder / "page.html"


@pytest.fixture
def browser(driver, sweep_page):
    return Browser(driver, sweep_page)


def test_all_files_of_the_report(sweep, tmp_path):
    results = make_sweep(tmp_path / "results")
    written = report_on_sweep(results)
    assert list(written) == ["page", "best steps", "table", "figures"]
    figures = sorted(path.name for path in (results.folder / "report" / "figures").glob("*.svg"))
    assert figures == ["best-steps-1.svg", "curves-best-1.svg", "curves-common-1.svg", "sensitivity-1.svg"]
    assert (
        "| garnet, num\\_states 20 | td-lambda, trace\\_decay 0 | 0.2 |"
        in (results.folder / "report" / "best-steps.md").read_text()
    )


def test_it_is_one_safe_file(sweep_page):
    text = sweep_page.read_text()
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", ours) == []
    assert "Sweep made-up &lt;b&gt;" in ours
    assert "1 of 32 units failed" in ours


def test_the_verb_report_writes_it(sweep, tmp_path, capsys):
    assert (
        cli.main(["report", str(sweep.folder), "--output", str(tmp_path / "page.html"), "--json"]) == cli.DONE
    )
    assert json.loads(capsys.readouterr().out)["bytes"] == (tmp_path / "page.html").stat().st_size


class TestInABrowser:
    @pytest.mark.parametrize("view", ["steps", "best", "curves", "study"])
    def test_no_complaint_and_no_network(self, browser, view):
        browser.open(f"view={view}")
        assert browser.complaints() == []
        assert [x for x in browser.requests() if not x.startswith(("file:", "data:", "blob:"))] == []

    def test_sensitivity_shows_what_is_stored(self, browser):
        browser.open(f"view=steps&{TASK}")
        drawn = browser.run("return document.getElementById('chart').data.map(t => [t.name, t.x, t.y])")
        shown = {name: (x, y) for name, x, y in drawn}
        x, y = shown["td-lambda, trace_decay 0"]
        assert x == [0.1, 0.2, 0.4]
        mean = sum(error_of(20, 0.0, 0.1, instance, 100) for instance in range(8)) / 8
        assert y[0] == pytest.approx(mean, rel=1e-3)
        assert shown["td-lambda, trace_decay 0.5"][1][2] is None  # an instance diverged
        assert shown["lstd"] == ([0.1, 0.4], [0.5, 0.5])

    def test_best_steps_have_a_chart_and_a_table(self, browser):
        browser.open(f"view=best&{TASK}")
        assert browser.run("return document.getElementById('chart').layout.yaxis.ticktext")[-1] == (
            "td-lambda, trace_decay 0"
        )
        rows = browser.texts("#best tbody tr")
        assert len(rows) == 3
        assert all("num_states 20" in row for row in rows)

    def test_curves_at_the_best_and_at_a_common_step(self, browser):
        browser.open(f"view=curves&{TASK}")
        assert set(browser.lines()) == {"lstd", "td-lambda, trace_decay 0", "td-lambda, trace_decay 0.5"}
        browser.find('[data-choice="step"] option[value="0.1"]').click()
        assert set(browser.lines()) == {"td-lambda, trace_decay 0", "td-lambda, trace_decay 0.5"}
        assert "step=0.1" in browser.fragment()
        assert "all at step size 0.1" in browser.texts("#status")[0]

    def test_a_series_can_be_switched_off(self, browser):
        browser.open(f"view=curves&{TASK}")
        browser.toggle("lstd")
        assert "lstd" not in browser.lines()
        assert "hide=lstd" in browser.fragment()
