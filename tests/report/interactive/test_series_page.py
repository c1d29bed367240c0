"""The page of a series: verdict first, what to do next, the series, its quantiles, and why."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.evaluation.gain.spectrum import slow_waves
from gainbias.evaluation.gain.verdict import has_infinite_variance
from gainbias.report.figures.series import judged_means, series_view
from gainbias.report.pages.series import (
    also_found,
    facts_of,
    how_made,
    next_steps,
    questions,
    series_html,
    write_series_page,
)
from tests.oracles.series import PROCESSES
from tests.report.interactive.browser import Browser
from tests.report.interactive.test_estimate_page import HOSTILE, LOOKS, assert_numbers_apart, assert_sound

MADE = {"Command": "gainbias evaluate latencies.csv --column ms"}


def numbers_of(name, length, seed=1):
    process = PROCESSES[name]
    made = process.generate(np.random.default_rng(seed), length, 1)
    return made.reshape(process.chains, -1) if process.chains > 1 else made[0]


CASES = {
    "steady": ("normal", 30_001, 4),
    "warming up": ("warm-up", 20_003, 1),
    "level shift": ("level-shift", 20_000, 1),
    "drifting": ("trend", 20_000, 1),
    "periodic": ("season-168", 9_000, 1),
    "rare events": ("disasters", 20_000, 5),
    "chains disagree": ("never-mixing", 4_000, 1),
    "too short": ("waiting-0.95", 3_000, 2),
}


@pytest.fixture(scope="module")
def found():
    """Return estimates by their verdict."""
    made = {kind: gb.evaluate_series(numbers_of(*case)) for kind, case in CASES.items()}
    heavy = np.random.default_rng(0).pareto(1.4, 40_000)
    made["heavy tails"] = gb.evaluate_series(heavy)
    made["constant"] = gb.evaluate_series(np.ones(500))
    return made


@pytest.fixture(scope="module")
def groups():
    kinds = {"<b>a</b>": "steady", "b&c": "drifting", "short": "too short"}
    parts = [numbers_of(*CASES[kind]) + 5.0 for kind in kinds.values()]
    names = np.repeat(list(kinds), [len(part) for part in parts])
    return gb.evaluate_series({"ms": np.concatenate(parts), "server": names}, column="ms", group="server")


def queue_log(rows, seed=0, load=0.8):
    """Return times and lengths of a queue, one row for each arrival or departure."""
    rng = np.random.default_rng(seed)
    moves = np.where(rng.random(rows - 1) < load / (1.0 + load), 1, -1)
    length = [0]
    for move in moves:
        length.append(length[-1] + int(move) if length[-1] else 1)
    lengths = np.array(length, dtype=float)
    lasted = rng.exponential(1.0 / (load + (lengths > 0)))
    return np.append(0.0, np.cumsum(lasted[:-1])), lengths


def text_of(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html.partition("</style>")[2].partition("<script")[0]).split())


ADVICE = {
    "steady": "Use the mean with its interval. For an interval half as wide, collect 4 times as many",
    "warming up": "Leave out the same number from similar runs: skip=648.",
    "level shift": "Evaluate the numbers before it and after it by themselves: x[:12123] and x[12123:].",
    "drifting": "Do not report one mean",
    "periodic": "Use the mean with its interval",
    "rare events": "A run that is long enough for the mean has about",
    "chains disagree": "Evaluate each chain by itself",
    "too short": "A run that is long enough for the mean has about",
    "heavy tails": "Do not report an interval of the mean. A longer run does not help. Report the quantiles",
    "constant": "Check that this is the right column",
}
REASONS = {"periodic": "period", "rare events": "tail", "heavy tails": "tail", "constant": None}
ALARMS = {
    "level shift": "Does the level shift?",
    "drifting": "Does the level drift?",
    "rare events": "How many rare events make up the variance?",
    "chains disagree": "Do the chains agree?",
    "too short": "Is the series too short for its slowest part?",
    "heavy tails": "Does the variance look infinite?",
}


class TestEveryVerdict:
    @pytest.mark.parametrize("kind", ADVICE)
    def test_the_number_and_whether_to_trust_it_come_first(self, found, kind):
        estimate = found[kind]
        assert estimate.verdict.kind == kind
        text = text_of(series_html(estimate, MADE)).removeprefix("Skip to the content ")
        words = estimate.verdict.words
        name, value, *_ = text.split()
        assert name == "Mean"
        assert float(value) == pytest.approx(estimate.mean, rel=0.02, abs=0.06)
        also = also_found(estimate, series_view(estimate))
        assert not (also and estimate.verdict.is_trusted)
        says = f"{words[0].upper()}{words[1:]}. {also}{' ' * bool(also)}What to do next"
        before, _, after = text.partition(says)
        assert (": do not use it" in before) == (
            not estimate.verdict.is_trusted and estimate.interval is not None
        )
        how = how_made(estimate)
        assert bool(how) == (estimate.interval is not None)
        assert len(before.replace(": do not use it", "").replace(how, "").split()) <= 7, (
            "only the mean, its interval and how that was made stand before the verdict"
        )
        assert after
        html = series_html(estimate, MADE)
        assert ('class="headline untrusted"' in html) != estimate.verdict.is_trusted
        assert text.count(words[1:]) == 1 + sum(words in one.words for one in estimate.levels)
        assert text.index("What to do next") < text.index(ADVICE[kind]) < text.index("The series")
        assert ('class="conclusion held"' in series_html(estimate, MADE)) == estimate.verdict.is_trusted

    @pytest.mark.parametrize("kind", ADVICE)
    def test_what_is_drawn_is_what_was_tested(self, found, kind):
        estimate = found[kind]
        view = series_view(estimate)
        form = REASONS.get(kind, "waves")
        assert (view.reason.form if view.reason else None) == form
        drawn = json.loads(re.search(r'id="data">(.*?)</script>', series_html(estimate, MADE))[1])["series"][
            0
        ]
        assert drawn["means"]["lines"] == pytest.approx(view.lines, abs=1e-3 * np.ptp(view.lines) + 1e-9)
        if form is None:
            assert drawn["reason"] is None
            return
        waves, facts = slow_waves(judged_means(estimate)), estimate.diagnostics
        variance = waves.long_run_variance * estimate.batch_size / facts.num_numbers
        assert np.sqrt(variance) == pytest.approx(facts.standard_error, rel=1e-9)
        if form == "waves" and facts.num_chains == 1:
            # Their mean, times what is thought to be missing, is the level of the interval.
            level = view.reason.up[: view.reason.used].mean() * waves.missing
            assert level == pytest.approx(1.0, rel=1e-9)

    @pytest.mark.parametrize("kind", ALARMS)
    def test_the_alarm_is_among_the_questions(self, found, kind):
        asked = questions(found[kind], series_view(found[kind]))
        assert ALARMS[kind] in [one.asked for one in asked if one.is_alarm]

    def test_all_alarms_of_a_random_walk_are_named(self):
        """A longer run is no remedy for a series that never settles: "too short" alone would mislead."""
        walk = gb.evaluate_series(np.cumsum(np.random.default_rng(0).normal(size=20_000)))
        assert walk.verdict.kind == "too short"
        red = {one.found for one in questions(walk, series_view(walk)) if one.is_alarm}
        assert red == {"a slow part", "a drift", "a level shift"}
        box = series_html(walk, MADE).partition('class="conclusion')[2].partition("</div>")[0]
        assert "Other tests found a drift and a level shift: the series may never settle" in box
        assert "and then no length helps." in box

    @pytest.mark.parametrize("kind", ["steady", "periodic"])
    def test_no_alarm_without_one(self, found, kind):
        assert not any(one.is_alarm for one in questions(found[kind], series_view(found[kind])))

    def test_what_was_found_is_marked(self, found):
        low, high = (part.levels[0] for part in series_view(found["level shift"]).segments)
        assert high - low == pytest.approx(0.2, abs=0.05)
        [line] = series_view(found["drifting"]).segments
        assert line.levels[1] - line.levels[0] == pytest.approx(0.3, abs=0.1)
        means = found["chains disagree"].batch_means.mean(axis=1)
        assert [part.levels[0] for part in series_view(found["chains disagree"]).segments] == pytest.approx(
            means
        )
        assert series_view(found["warming up"]).warm_up == found["warming up"].warm_up == 648
        profile = series_view(found["periodic"]).reason.up
        assert np.ptp(profile) == pytest.approx(2.0, abs=0.4)

    @pytest.mark.parametrize("kind", ADVICE)
    def test_a_figure(self, found, kind):
        pytest.importorskip("matplotlib")
        figure = gb.plot(found[kind]).figure
        assert figure.axes[0].get_title(loc="left") == f"Verdict: {kind}"
        assert len(figure.axes) == (1 if kind == "constant" else 2)
        if kind in ("rare events", "heavy tails"):  # the line to compare with falls far below all points
            reason = series_view(found[kind]).reason
            assert figure.axes[1].get_ylim()[0] == reason.least == reason.up.min() / 2
        assert gb.plot(found[kind], ax=figure.axes[0]) is figure.axes[0]


class TestParts:
    def test_a_quantile_that_is_refused_says_why(self):
        estimate = gb.evaluate_series(np.random.default_rng(0).normal(size=800))
        assert estimate.quantiles[0.99].interval is None
        html = series_html(estimate, MADE)
        assert f"no interval: {estimate.quantiles[0.99].words}" in html
        assert "Do not report p99 as known" in text_of(html)
        low, high = estimate.quantiles[0.5].interval
        row = re.search(r">p50 \(median\)</th>(.*?)</tr>", html)[1]
        shown = [float(number) for number in re.search(r">([-\d.]+) to ([-\d.]+)</td>", row).groups()]
        assert shown == pytest.approx([low, high], abs=0.01)

    def test_quantiles_stand_before_the_series_and_what_is_wrong_with_them_once(self):
        estimate = gb.evaluate_series(np.random.default_rng(0).normal(size=800))
        text = text_of(series_html(estimate, MADE))
        assert text.index("p50") < text.index("The series")
        assert text.count(estimate.quantiles[0.99].words) == 1
        assert "Warnings" not in text

    def test_steps_left_out_by_hand_are_not_drawn(self):
        estimate = gb.evaluate_series(numbers_of("normal", 5_000), skip=1_000)
        view = series_view(estimate)
        assert (view.warm_up, view.end, estimate.found_warm_up) == (1_000, 5_000, 0)
        assert "The first 1,000 numbers were to be left out" in series_html(estimate, MADE)
        assert view.steps[0] > 1_000

    def test_what_the_series_is_about_stands_above_the_number_and_in_the_title(self):
        estimate = gb.evaluate_series(numbers_of("normal", 2_000), ())
        html = series_html(estimate, MADE, "<b>ms</b>, from latencies.csv")
        text = text_of(html).removeprefix("Skip to the content ")
        assert text.startswith("&lt;b&gt;ms&lt;/b&gt;, from latencies.csv Mean ")
        assert re.search(r"<title>&lt;b&gt;ms&lt;/b&gt;, from latencies.csv: mean [-\d.]+</title>", html)

    def test_an_interval_of_numbers_that_alternate_is_not_said_to_come_from_frequencies(self):
        estimate = gb.evaluate_series(np.where(np.arange(20_000) % 2, 3.0, 1.0), ())
        assert how_made(estimate).startswith("mean ± one batch: neighbours cancel each other")

    def test_each_test_says_what_it_is(self, found):
        text = text_of(series_html(found["steady"], MADE))
        assert "log-likelihood ratio" in text
        assert "generalized Pareto law" in text
        assert "each test raises a false alarm in at most about one run of 100" in text

    def test_a_ratio_is_called_one(self):
        hours = np.random.default_rng(0).exponential(2.0, 5_001)
        estimate = gb.evaluate_series(3.0 * hours + 1.0, ratio_to=hours)
        html = series_html(estimate, MADE)
        assert f"<span>Ratio</span> {estimate.mean:.3f}" in html
        assert "Use the ratio with its interval." in html

    @pytest.mark.parametrize("count", [5_001, 20_003])
    def test_batches_of_a_ratio_are_those_that_were_tested(self, count):
        rng = np.random.default_rng(2)
        items = rng.integers(1, 9, count)
        estimate = gb.evaluate_series(2.0 * items + rng.normal(size=count), (), ratio_to=items)
        variance = slow_waves(judged_means(estimate)).long_run_variance * estimate.batch_size / count
        assert np.sqrt(variance) == pytest.approx(estimate.diagnostics.standard_error, rel=1e-9)

    @pytest.mark.parametrize(("run", "kind"), [(0, "steady"), (10, "heavy tails")])
    def test_the_columns_of_a_ratio_answer_for_its_tail(self, run, kind):
        """Seen alone, both tails look as if the variance were infinite."""
        pairs = PROCESSES["busy-cycles"].generate_pair(np.random.default_rng(1), 1620, 20)
        tops, bottoms = (column[run] for column in pairs)
        estimate = gb.evaluate_series(tops, (), ratio_to=bottoms)
        assert estimate.verdict.kind == kind
        assert has_infinite_variance(judged_means(estimate))
        [asked] = [
            one for one in questions(estimate, series_view(estimate)) if one.asked == ALARMS["heavy tails"]
        ]
        told = "no: the columns of the ratio show that its tail ends", "yes"
        assert (asked.measured, asked.is_alarm) == (told[asked.is_alarm], kind == "heavy tails")

    @pytest.mark.parametrize("rows", [350, 3_000, 20_004])
    @pytest.mark.parametrize("way", ["time", "duration", "skip"])
    def test_a_point_over_time_is_the_mean_over_time(self, rows, way):
        at, lengths = queue_log(rows)
        lasted, held, left_out = np.diff(at), lengths[:-1], 100 * (way == "skip")
        if way == "duration":
            estimate = gb.evaluate_series(held, (), duration=lasted)
        else:
            estimate = gb.evaluate_series(lengths, (), time=at, skip=left_out or None)
        view = series_view(estimate)
        starts = np.arange(left_out, len(held), view.size)
        by_hand = np.add.reduceat(held * lasted, starts) / np.add.reduceat(lasted, starts)
        assert view.lines[0] == pytest.approx(by_hand, rel=1e-9, abs=1e-9)
        assert view.lines.min() > -1e-9
        assert view.lines.max() < held.max() + 1e-9
        starts = np.arange(left_out, len(held), estimate.batch_size)
        by_hand = np.add.reduceat(held * lasted, starts) / np.add.reduceat(lasted, starts)
        assert estimate.batch_means[0] == pytest.approx(by_hand, rel=1e-9, abs=1e-9)
        assert estimate.durations[0] == pytest.approx(np.add.reduceat(lasted, starts))
        waves, facts = slow_waves(judged_means(estimate)), estimate.diagnostics
        variance = waves.long_run_variance * estimate.batch_size / facts.num_numbers
        assert np.sqrt(variance) == pytest.approx(facts.standard_error, rel=1e-9)

    def test_levels_before_and_after_a_shift_are_over_time(self):
        rng = np.random.default_rng(0)
        is_late = np.arange(20_000) >= 12_000
        level = rng.integers(0, 2, 20_000) + 1.0 * is_late
        lasted = rng.exponential(1.0 + 0.4 * is_late)
        estimate = gb.evaluate_series(level, (), duration=lasted)
        assert estimate.verdict.kind == "level shift"
        at = round(estimate.verdict.at)
        parts = [np.average(level[part], weights=lasted[part]) for part in (slice(at), slice(at, None))]
        shown = [part.levels[0] for part in series_view(estimate).segments]
        assert shown == pytest.approx(parts, abs=0.01)

    def test_batches_that_last_no_time_are_not_drawn(self):
        rng = np.random.default_rng(0)
        lasted = rng.exponential(size=300) * (np.arange(300) % 3 > 0)
        numbers = rng.normal(size=300)
        estimate = gb.evaluate_series(numbers, (), duration=lasted)
        view = series_view(estimate)
        assert view.lines[0] == pytest.approx(numbers[lasted > 0.0])
        assert view.steps == pytest.approx(np.flatnonzero(lasted) + 0.5)
        assert (estimate.batch_means[0, ::3] == estimate.mean).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_an_event_log_is_not_called_periodic(self, seed):
        at, lengths = queue_log(3_000, seed, load=0.5)
        estimate = gb.evaluate_series(lengths, (), time=at)
        assert estimate.verdict.kind == "steady"
        [asked] = [
            one for one in questions(estimate, series_view(estimate)) if one.asked == "Is there a period?"
        ]
        assert asked.measured == "no"
        table = {"length": lengths, "at": at}
        assert gb.evaluate_log(table, reward_rate="length", time="at").diagnostics.verdict.kind == "steady"

    def test_a_picture_over_time_counts_rows(self):
        at, lengths = queue_log(20_004)
        estimate = gb.evaluate_series(lengths, (), time=at)
        html = series_html(estimate, MADE)
        drawn = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])["series"][0]["means"]
        assert (drawn["name"], drawn["counts"]) == ("Mean over the time of 52 rows", "row")
        assert "A point is the mean over the time of 52 rows. The horizontal axis counts rows" in html
        pytest.importorskip("matplotlib")
        panel = gb.plot(estimate).figure.axes[0]
        assert panel.get_xlabel() == "row (means over the time of 52 rows)"
        assert panel.get_ylabel() == "mean over time"

    def test_no_ratio_and_hardly_any_numbers(self):
        with_nothing = gb.evaluate_series(np.arange(100.0), (), ratio_to=np.zeros(100))
        assert series_view(with_nothing) is None
        assert "There are too few numbers to draw." in series_html(with_nothing, MADE)
        few = gb.evaluate_series([1.0, 2.0, 4.0, 3.0])
        assert "too few" in series_html(few, MADE)

    def test_a_row_that_is_wrong_is_the_first_thing_to_do(self, found):
        broken = gb.evaluate_series(np.append(np.random.default_rng(0).normal(size=4000), np.nan), ())
        assert next_steps(broken)[0] == "Correct what is wrong there, and evaluate again."
        page = series_html(broken, MADE)
        assert 'class="conclusion failed"' in page
        assert "Cut short after 4,000 numbers: row 4000: " in text_of(page)
        for praise in ("Steady", "Use the mean with its interval"):
            assert praise not in text_of(page)
        grouped = gb.GroupedSeries({"a": broken, "b": found["steady"]})
        assert "1 of 2 series can be trusted; not a (cut short)" in series_html(grouped, MADE)

    def test_batches_in_words(self):
        single = gb.evaluate_series(np.arange(100.0) % 7, ())
        assert facts_of(single, series_view(single))["Batches"] == "100 batches of 1 number"
        chains = gb.evaluate_series(np.random.default_rng(0).normal(size=(2, 40_000)), ())
        facts = facts_of(chains, series_view(chains))
        assert re.fullmatch(r"[0-9,]+ batches of \d+ numbers for each chain", facts["Batches"])
        assert facts["Degrees of freedom"] == "13"  # six frequencies of each chain, and their means

    def test_doubts_beside_a_trusted_verdict(self, found):
        facts = replace(found["steady"].diagnostics, warnings=("the sign changes",))
        doubted = replace(found["steady"], diagnostics=facts)
        assert next_steps(doubted)[0] == "Read the warnings: they put the mean in doubt."
        assert 'class="conclusion open"' in series_html(doubted, MADE)
        grouped = gb.GroupedSeries({"a": doubted, "b": found["steady"]})
        assert "1 of 2 series can be trusted; not a (steady, with warnings)" in series_html(grouped, MADE)
        assert "the sign changes" in text_of(series_html(doubted, MADE))

    def test_chains_that_are_not_drawn_are_counted(self):
        many = gb.evaluate_series(np.random.default_rng(0).normal(size=(20, 200)), ())
        assert len(series_view(many).lines) == 12
        assert "8 more chains are not drawn." in series_html(many, MADE)


class TestGroups:
    def test_a_table_and_each_by_itself(self, groups):
        html = series_html(groups, MADE)
        text = text_of(html)
        assert "1 of 3 series can be trusted; not b&amp;c (drifting), short (too short)." in text
        assert '<a href="#group=0">&lt;b&gt;a&lt;/b&gt;</a>' in html
        assert "<b>a</b>" not in html
        assert html.count("<details data-group") == 3
        for one in groups.values():
            assert one.verdict.words[1:] in text

    def test_a_figure_of_groups(self, groups):
        pytest.importorskip("matplotlib")
        assert [text.get_text() for text in gb.plot(groups).get_yticklabels()] == list(groups)


class TestFromOutside:
    def test_a_stored_series(self, found, tmp_path, capsys):
        found["drifting"].save(tmp_path / "series.npz")
        assert cli.main(["report", str(tmp_path / "series.npz"), "--quiet"]) == cli.DONE
        text = text_of((tmp_path / "series.html").read_text())
        assert "Drifting: the level" in text
        assert "series.npz, written 20" in text
        with pytest.raises(ValueError, match="is no estimate of gainbias"):
            gb.load_estimate(tmp_path / "series.npz")

    def test_a_column_of_a_file(self, tmp_path, monkeypatch, capsys):
        pytest.importorskip("matplotlib")
        monkeypatch.chdir(tmp_path)
        rows = "\n".join(f"{ms:.4f},{row % 2}" for row, ms in enumerate(numbers_of("normal", 2_000)))
        (tmp_path / "latencies.csv").write_text(f"<i>ms</i>,server\n{rows}\n")
        words = ["evaluate", "latencies.csv", "--column", "<i>ms</i>"]
        files = ["--page", "new/a.html", "--plot", "new/a.png", "--save", "a.npz"]
        assert cli.main([*words, *files, "--json"]) == cli.DONE
        told = json.loads(capsys.readouterr().out)["written"]
        assert told == {"estimate": "a.npz", "figure": "new/a.png", "page": "new/a.html"}
        page = (tmp_path / "new" / "a.html").read_text()
        assert "--column &#x27;&lt;i&gt;ms&lt;/i&gt;&#x27;" in page
        assert '<p class="subject">&lt;i&gt;ms&lt;/i&gt;, from latencies.csv</p>' in page
        assert "<i>" not in page
        assert (tmp_path / "new" / "a.png").stat().st_size > 10_000
        grouped = [*words, "--group", "server", "--page", "groups.html", "--json"]
        assert cli.main(grouped) == cli.DONE
        shown = capsys.readouterr()
        assert list(json.loads(shown.out)) == ["0", "1"]
        assert "page: groups.html" in shown.err


@pytest.fixture
def opened(driver, tmp_path):
    """Return a function that opens the page of a series."""

    def open_page(estimate, fragment="", **look):
        write_series_page(estimate, tmp_path / "page.html", MADE)
        return Browser(driver, tmp_path / "page.html").open(fragment, **look)

    return open_page


class TestInABrowser:
    @pytest.mark.parametrize("look", LOOKS)
    @pytest.mark.parametrize("kind", ADVICE)
    def test_pictures_for_people(self, opened, found, screenshots, kind, look):
        window = opened(found[kind], **LOOKS[look])
        assert_sound(window)
        assert_numbers_apart(window)
        drawn = window.run("return [...document.querySelectorAll('.chart')].map(x => x.data.length)")
        assert len(drawn) == (1 if kind == "constant" else 2)
        assert min(drawn) >= 1
        window.picture(screenshots / f"series-{kind.replace(' ', '-')}-{look}.png")

    @pytest.mark.parametrize("look", LOOKS)
    def test_groups_unfold(self, opened, groups, screenshots, look):
        window = opened(groups, **LOOKS[look])
        drawn = "return [...document.querySelectorAll('.chart')].map(x => (x.data ?? []).length > 0)"
        assert window.run(drawn) == [False] * 6
        window.find('a[href="#group=1"]').click()
        window.run("return new Promise(done => setTimeout(done, 300))")
        assert window.run(drawn) == [False, False, True, True, False, False]
        assert window.fragment() == "group=1"
        assert_sound(window)
        window.picture(screenshots / f"series-groups-{look}.png")
        assert opened(groups, "group=2").run("return document.querySelectorAll('details')[2].open")

    def test_a_table_of_groups_can_be_sorted(self, opened, groups):
        window = opened(groups)
        window.find("table thead th:nth-child(2) button").click()
        assert window.texts("table.sortable tbody th") == ["short", "b&c", "<b>a</b>"]

    def test_text_cannot_become_a_program(self, driver, found, tmp_path):
        estimate = found["steady"]
        verdict = replace(estimate.verdict, words=HOSTILE)
        facts = replace(estimate.diagnostics, notes=(HOSTILE + "2",), warnings=(HOSTILE + "3",))
        level = replace(estimate.levels[0], interval=None, words=HOSTILE)
        hostile = replace(estimate, verdict=verdict, diagnostics=facts, levels=(level,))
        page = tmp_path / "page.html"
        grouped = gb.GroupedSeries({HOSTILE: hostile})
        for found_now in (hostile, grouped):
            html = series_html(found_now, {"Command": HOSTILE})
            page.write_text(html.replace('http-equiv="Content-Security-Policy"', ""))
            window = Browser(driver, page).open()
            window.run("return new Promise(done => setTimeout(done, 200))")
            assert window.run("return [window.ran, document.querySelectorAll('img').length]") == [None, 0]
