"""The page of a sweep: what is in it, and what it does in a real browser."""

import errno
import json
import os
import re
from itertools import pairwise

import pytest

import gainbias as gb
from gainbias import cli
from gainbias.report import sweep as report_of_sweep
from gainbias.report.figures.style import FORMATS, SIZES
from gainbias.report.sweep import report_on_sweep
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
    folder = results.folder / "report"
    names = ["best-steps-1", "curves-best-1", "curves-common-1", "sensitivity-1"]
    for size in SIZES:
        for form in FORMATS:
            assert sorted(path.stem for path in (folder / "figures" / size).glob(f"*.{form}")) == names
    assert "trace\\_decay" in (folder / "best-steps.tex").read_text()
    assert (
        "| garnet, num\\_states 20 | td-lambda, trace\\_decay 0 | 0.2 |"
        in (results.folder / "report" / "best-steps.md").read_text()
    )


def test_a_study_without_a_number_has_a_report(tmp_path):
    """The limit of this method is known up to a constant, so it has no full distance to it."""
    method = {"algorithms": ["td-lambda"], "step_size": 0.1, "metrics": ["full own"]}
    study = gb.Study(tasks=["boyan-chain"], num_steps=50, instances=2, **method)
    assert "figures" in report_on_sweep(gb.sweep(study, tmp_path / "results", workers=1))


def test_few_instances_are_named_where_the_best_step_is(tmp_path):
    """With fewer than four, step sizes are chosen and measured on the same instances, which flatters."""
    for count in (3, 4):
        study = gb.Study(
            tasks=["boyan-chain"],
            algorithms=["td-lambda"],
            step_size=[0.1, 0.2],
            num_steps=50,
            instances=count,
        )
        folder = tmp_path / str(count)
        report_on_sweep(gb.sweep(study, folder, workers=1))
        text = (folder / "report" / "index.html").read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
        assert f"{count} instances of each of 1 task, 50 steps, 1 algorithm." in text
        assert data["together"] == (["boyan-chain"] if count == 3 else [])
        assert data["instances"] == {"boyan-chain": 3 if count == 3 else 2}


def test_many_series_leave_room_for_panels(tmp_path):
    """Otherwise matplotlib warns that axes have no size, and warnings are errors here."""
    method = {"id": "td-lambda", "params": {"trace_decay": {"linear": [0.0, 0.9, 50]}}}
    study = gb.Study(
        tasks=["boyan-chain"], algorithms=[method], step_size=[0.1, 0.2], num_steps=9, instances=1
    )
    assert "figures" in report_on_sweep(gb.sweep(study, tmp_path / "results", workers=1))


def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    results = make_sweep(tmp_path / "results")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"is full; what was finished is kept: make room"):
        report_on_sweep(results)


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


class TestBadInput:
    @pytest.mark.parametrize(
        ("harm", "message"),
        [
            (
                lambda folder: [path.unlink() for path in folder.iterdir()],
                "holds no manifest.json: name the folder of a finished study",
            ),
            (
                lambda folder: (folder / "manifest.json").unlink(),
                "holds no manifest.json: finish the study with --resume",
            ),
            (lambda folder: (folder / "manifest.json").write_text('{"sche'), "manifest.json is damaged"),
            (lambda folder: (folder / "runs.parquet").write_bytes(b"PAR1"), "runs.parquet is damaged"),
            (lambda folder: (folder / "runs.parquet").unlink(), "every unit of the sweep"),
            (lambda folder: change_schema(folder / "manifest.json"), "written by another version"),
            (lambda folder: (folder / "study.json").write_text("[]"), "study.json is damaged"),
        ],
        ids=["empty", "unfinished", "manifest", "table", "nothing", "another version", "note"],
    )
    def test_what_cannot_be_shown_is_named(self, tmp_path, capsys, harm, message):
        folder = make_sweep(tmp_path / "results").folder
        harm(folder)
        assert cli.main(["report", str(folder)]) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err
        assert not (folder / "report").exists()

    def test_thousands_of_lanes_are_thinned_and_it_is_said(self, driver, sweep, tmp_path, monkeypatch):
        monkeypatch.setattr(report_of_sweep, "MOST_CURVES", 4)
        report_on_sweep(sweep, tmp_path / "page.html")
        browser = Browser(driver, tmp_path / "page.html").open(f"view=curves&{TASK}")
        kept = browser.run(
            "const {points} = JSON.parse(document.getElementById('data').textContent);"
            "return Object.values(points).flatMap(Object.values).flatMap(Object.values)"
            ".flatMap(series => Object.keys(series.curves)).length"
        )
        (hint,) = browser.texts("#hint")
        assert kept == 4
        assert f"{left_out(sweep)} curves are left out" in hint
        assert browser.complaints() == []

    def test_a_whole_page_does_not_say_so(self, browser):
        browser.open("view=curves")
        assert "left out to keep" not in browser.texts("#hint")[0]


def change_schema(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 1}))


def left_out(sweep):
    """Count the curves at best and shared steps, but for the four that are kept."""
    table = sweep.to_frame().query("algorithm == 'td-lambda'")
    shared = table[["settings", "trace_decay", "a"]].drop_duplicates()
    least_squares = table["settings"].nunique()  # which has no step size, and so one curve for each task
    return len(shared) + least_squares - 4


class TestInABrowser:
    @pytest.mark.parametrize("view", ["steps", "best", "curves", "study"])
    def test_no_complaint_and_no_network(self, browser, view):
        browser.open(f"view={view}")
        assert browser.complaints() == []
        assert [x for x in browser.requests() if not x.startswith(("file:", "data:", "blob:"))] == []

    def test_the_answer_comes_first(self, browser, sweep):
        browser.open()
        rows = browser.texts("#answer tbody tr")
        assert len(rows) == 2
        cells = rows[0].split("\t")
        mean = [error_of(20, 0.0, 0.2, instance, 100) for instance in range(1, 8, 2)]
        assert cells[:3] == ["Garnet, 20 states", "TD(0)", "0.2"]
        assert float(cells[3]) == pytest.approx(sum(mean) / 4, rel=0.01)
        assert cells[5] == "cannot be said: measured on only 4 instances"
        top = "return document.querySelector('#answer tbody').getBoundingClientRect().bottom"
        assert browser.run(top) < 800
        browser.find("#answer tbody tr:nth-child(2) a").click()
        browser.run("return new Promise(done => setTimeout(done, 50))")
        assert browser.find('[data-choice="task"]').get_property("value") == "garnet, num_states 40"

    def test_few_instances_are_named_below_the_chart(self, browser, driver, tmp_path):
        browser.open(f"view=best&{TASK}")
        assert "Only 4 instances: not enough to say which is best." in browser.texts("#hint")[0]
        assert "chosen and measured on the same" not in browser.texts("#hint")[0]
        common = {"algorithms": ["td-lambda"], "step_size": [0.1, 0.2], "num_steps": 50}
        study = gb.Study(tasks=["boyan-chain"], instances=3, **common)
        report_on_sweep(gb.sweep(study, tmp_path / "results", workers=1), tmp_path / "page.html")
        few = Browser(driver, tmp_path / "page.html").open("view=best").texts("#hint")[0]
        assert "chosen and measured on the same instances, because there are few" in few
        assert "Only 3 instances" in few

    def test_axes_have_few_numbers(self, browser):
        charts = {"steps": "#chart", "best": "#panels > div:first-child", "curves": "#chart"}
        for view, chart in charts.items():
            browser.open(f"view={view}&{TASK}")
            for axis in ("x", "y"):
                shown = browser.run(
                    "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)",
                    f"{chart} .{axis}tick text",
                )
                assert 1 <= len(shown) <= 8, shown

    def test_sensitivity_shows_what_is_stored(self, browser):
        browser.open(f"view=steps&{TASK}")
        drawn = browser.run("return document.getElementById('chart').data.map(t => [t.name, t.x, t.y])")
        shown = {name: (x, y) for name, x, y in drawn}
        x, y = shown["TD(0)"]
        assert x == [0.1, 0.2, 0.4]
        mean = sum(error_of(20, 0.0, 0.1, instance, 100) for instance in range(8)) / 8
        assert y[0] == pytest.approx(mean, rel=1e-3)
        assert shown["TD(0.5)"][1][2] is None  # an instance diverged
        assert shown["Least squares"] == ([0.1, 0.4], [0.5, 0.5])

    def test_best_steps_have_a_chart_of_each_task_and_a_table(self, browser):
        browser.open(f"view=best&{TASK}", width=1280, height=800)
        first = browser.run(
            "return [...document.querySelectorAll('#panels > div')].map(e => e.layout.yaxis.ticktext.at(-1))"
        )
        assert first == ["TD(0)", "TD(0)"]
        heights = browser.run(
            "return [...document.querySelectorAll('#panels > div:first-child .ytick text')]"
            ".map(e => e.getBoundingClientRect().y)"
        )
        assert max(heights) < 800
        assert min(one - other for one, other in pairwise(sorted(heights, reverse=True))) > 24
        rows = browser.texts("#best tbody tr")
        assert len(rows) == 3
        (caption,) = browser.texts("#best caption")
        assert caption.startswith("All on Garnet, 20 states")

    def test_an_error_far_out_is_an_arrow_and_its_number(self, browser):
        """It would squeeze all others together."""
        browser.open(f"view=best&{TASK}")
        drawn = browser.run(
            "const panel = document.querySelector('#panels > div:nth-child(2)');"
            "return panel.data.filter(t => t.name)"
            ".map(t => [t.name, t.x[0], t.marker.symbol, t.customdata[0][1]])"
        )
        (edge,) = browser.run(
            "return [document.querySelector('#panels > div:nth-child(2)').layout.xaxis.range[1]]"
        )
        for _, x, symbol, mean in drawn:
            assert x <= edge
            assert (symbol == "triangle-right") == (x < mean)

    def test_the_answer_is_a_sentence_under_the_title(self, browser):
        browser.open()
        (sentence,) = browser.texts("p.answer")
        assert sentence == "Too few instances to say: errors are measured on 4, and 5 are needed."

    def test_curves_at_the_best_and_at_a_common_step(self, browser):
        browser.open(f"view=curves&{TASK}")
        assert set(browser.lines()) == {"Least squares", "TD(0)", "TD(0.5)"}
        browser.find('[data-choice="step"] option[value="0.1"]').click()
        assert set(browser.lines()) == {"TD(0)", "TD(0.5)"}
        assert "step=0.1" in browser.fragment()
        assert "all at step size 0.1" in browser.texts("#status")[0]

    def test_exact_curves_lie_beside_the_means(self, driver, tmp_path):
        results = make_sweep(tmp_path / "results", exact=True)
        report_on_sweep(results, tmp_path / "page.html")
        browser = Browser(driver, tmp_path / "page.html")
        browser.open(f"view=curves&step=0.1&{TASK}")
        drawn = browser.run("return document.getElementById('chart').data.map(t => [t.name, t.x, t.y])")
        shown = {name: dict(zip(x, y, strict=True)) for name, x, y in drawn if name}
        assert [name for name in shown if "exact" in name] == ["TD(0), exact"]
        squares = [error_of(20, 0.0, 0.1, instance + 1, 10) ** 2 for instance in range(8)]
        found = shown["TD(0), exact"][10]
        assert found == pytest.approx((sum(squares) / 8) ** 0.5, rel=1e-3)
        assert "exact root mean squares" in browser.texts("#hint")[0]
        browser.toggle("td-lambda, trace_decay 0")
        assert not any("exact" in name for name in browser.lines())

    def test_without_them_nobody_speaks_of_exact_curves(self, browser):
        browser.open(f"view=curves&{TASK}")
        assert not any("exact" in name for name in browser.lines())
        assert "exact" not in browser.texts("#hint")[0]

    def test_a_series_can_be_switched_off(self, browser):
        browser.open(f"view=curves&{TASK}")
        browser.toggle("lstd")
        assert "Least squares" not in browser.lines()
        assert "hide=lstd" in browser.fragment()

    def test_intervals_that_reach_down_to_zero(self, driver, tmp_path):
        """A logarithmic axis has no 0: such a band goes down to the end of what is shown."""
        report_on_sweep(make_sweep(tmp_path / "results", outlier=50.0), tmp_path / "page.html")
        browser = Browser(driver, tmp_path / "page.html").open(f"view=curves&step=0.1&{TASK}")
        x, y, bottom = browser.run(
            "const chart = document.getElementById('chart'), band = chart.data.find(t => t.fill);"
            "return [band.x, band.y, 10 ** chart.layout.yaxis.range[0]]"
        )
        assert x == [1, 10, 100, 100, 10, 1]
        assert y[:3] == pytest.approx([bottom] * 3)
        browser.open(f"view=steps&{TASK}")
        drawn = browser.run(
            "return document.getElementById('chart').data.filter(t => t.error_y)"
            ".map(t => [t.marker.symbol, t.error_y.array, t.y])"
        )
        assert drawn
        for symbols, reaches, means in drawn:  # a bar would cross the whole chart: a ring says so
            for symbol, reach, mean in zip(symbols, reaches, means, strict=True):
                assert mean is None or (symbol, reach) == ("circle-open", None)

    def test_black_is_the_ink_of_the_page(self, browser):
        for scheme, ink in (("light", "#1d2126"), ("dark", "#e6e9ed")):
            browser.open(f"view=curves&{TASK}", scheme=scheme)
            drawn = browser.run(
                "return document.getElementById('chart').data"
                ".find(t => t.name === 'Least squares').line.color"
            )
            assert drawn == ink

    @pytest.mark.parametrize("view", ["steps", "best", "curves", "study"])
    def test_a_phone_shows_all_tabs_and_titles(self, browser, view, screenshots):
        browser.open(f"view={view}&{TASK}", width=390, height=844)
        cut = browser.run(
            "const chart = document.getElementById('chart').getBoundingClientRect();"
            "const isCut = (inner, outer) => outer.left - inner.left > 1 || inner.right - outer.right > 1"
            " || outer.top - inner.top > 1 || inner.bottom - outer.bottom > 1;"
            "const page = { left: 0, top: 0, right: innerWidth, bottom: Infinity };"
            "const boxes = selector => [...document.querySelectorAll(selector)]"
            ".filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect());"
            "return [boxes('[role=tab]').map(tab => isCut(tab, page)),"
            " boxes('#chart .ytitle').map(title => isCut(title, chart))]"
        )
        assert cut == [[False] * 4, [False] * (view in ("steps", "curves"))]
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.picture(screenshots / f"sweep-{view}-phone.png")

    def test_on_a_desktop_choices_can_be_read(self, browser):
        """A select box is as wide as its longest option."""
        browser.open(f"view=curves&{TASK}")
        narrow = browser.run(
            "return [...document.querySelectorAll('select')].filter(box => {"
            "const free = box.cloneNode(true); free.style.width = 'auto'; free.style.position = 'absolute';"
            "box.parentElement.append(free); const wanted = free.offsetWidth; free.remove();"
            "return wanted > box.offsetWidth + 1; }).map(box => box.dataset.choice)"
        )
        assert narrow == []
