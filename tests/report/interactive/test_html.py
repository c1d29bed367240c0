"""The file itself: self-contained, small, and written from a finished study only."""

import json
import re
from html import unescape

import numpy as np
import pytest
from pandas import DataFrame

from gainbias import cli
from gainbias.experiments.reproduce import CHECKPOINT_HALVINGS
from gainbias.report.data.study_claims import STUDY_CLAIMS
from gainbias.report.pages.frame import Entry, script_data, sortable_table
from gainbias.report.pages.paper_study import distances_grid, page_html, tables_section
from gainbias.report.paper_tables import study_tables, without_certainty
from gainbias.report.verdicts_page import headline
from tests.report import synthetic
from tests.report.synthetic import (
    FEW,
    LEVELS,
    make_conditions,
    make_paper,
    make_results,
    make_runs,
    write_study,
)

LARGEST = 8_000_000


def test_nothing_is_loaded_from_elsewhere(page):
    text = page.read_text()
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", ours) == []
    assert "@import" not in ours
    assert "url(" not in ours


def test_data_cannot_end_its_element():
    hostile = {"<!--<script>": "</script>"}
    assert "<" not in script_data(hostile)
    assert json.loads(script_data(hostile)) == hostile


def test_the_library_names_its_licence_and_version(page):
    text = page.read_text()
    assert re.search(r"plotly\.js \(cartesian - minified\) v\d+\.\d+\.\d+", text)
    assert "Licensed under the MIT license" in text


def test_all_verdicts_are_there(page, tables):
    text = page.read_text()
    for claim in STUDY_CLAIMS:
        assert f'data-claim="{claim.name}"' in text
    assert text.count('<table class="reasons">') == tables.verdicts["claim"].nunique()
    assert "The stored runs are not enough to judge this." in text


def test_the_first_sentence_says_what_held(results, page, tables):
    """What it counts are all verdicts in the columns of the table below it."""
    first = unescape(page.read_text().partition('<p class="answer">')[2].partition("</p>")[0])
    assert first == headline(tables.verdicts, results.manifest)
    assert first.startswith(("Yes", "Partly", "No"))
    counts = {}
    for score in ("fair, centred", "fair", "literal", "inferred"):
        rows = tables.verdicts[tables.verdicts["score"] == score]
        counts[score] = ((2 * rows["held"] > rows["of"]).sum(), len(rows))
    (centred, of_centred), (others, of_others), *paper = counts.values()
    assert of_others > 0
    fair = f"Fair scoring: {centred + others} of {of_centred + of_others} tested claims "
    apart = f" ({centred} of {of_centred} about centred errors, {others} of {of_others} others)."
    assert fair in first
    assert apart in first
    for held, of in paper:
        assert f": {held} of {of} " in first.partition(apart)[2]


def test_a_quick_look_says_so(results, paper, tables, page):
    from dataclasses import replace

    look = replace(results, manifest={**results.manifest, "shorten": 10})
    html = unescape(page_html(look, paper, study_tables(look, paper)))
    warning = "<strong>Quick look:</strong> 1/10 of the paper's steps"
    assert warning in html
    assert warning not in unescape(page.read_text())
    assert html.index("in this quick look. Fair scoring") < html.index(warning)


def test_verdicts_of_a_quick_look_only_seem_so():
    words = ["holds", "fails", "seems to hold", "undecided"]
    verdicts = DataFrame({"word": words})
    assert without_certainty(verdicts, False)["word"].tolist() == words
    assert without_certainty(verdicts, True)["word"].tolist() == [
        *("seems to hold", "seems to fail"),
        *words[2:],
    ]


@pytest.mark.slow
def test_a_quick_look_is_not_set_against_the_paper(results, paper, page):
    """Its errors come from shorter runs, so the page makes no comparison that its banner forbids."""
    from dataclasses import replace

    look = replace(results, manifest={**results.manifest, "shorten": 10})
    quick, whole = page_html(look, paper, study_tables(look, paper)), page.read_text()
    for words in ("By the paper", '"printed":{"'):
        assert (words in quick, words in whole) == (False, True), words
    heads = [
        re.search(r'data-table="distances".*?<thead>(.*?)</thead>', html, re.DOTALL)[1]
        for html in (quick, whole)
    ]
    assert ["Ours / paper" in head for head in heads] == [False, True]


@pytest.mark.parametrize(("runs", "has_bold"), [(4, False), (5, True)])
def test_a_mean_of_few_runs_is_not_bold(tables, runs, has_bold):
    grid = distances_grid(tables.distances.assign(runs=runs), "fair")
    assert any(entry.best for row in grid.rows for entry in row if isinstance(entry, Entry)) == has_bold


def test_a_study_of_one_protocol_and_few_algorithms(tmp_path, paper):
    few = {"td-lambda": 1.0, "single-chain": 0.5}
    results = make_results(tmp_path, tasks=FEW[:1], protocols=("inferred",), levels=few, num_runs=1)
    text = page_html(results, paper, study_tables(results, paper))
    assert 'data-table="distances" data-protocol="inferred"' in text
    assert 'data-table="summary"' not in text
    assert "not run" in text


@pytest.mark.slow
def test_tables_leave_out_tasks_that_were_not_run(tmp_path, paper, tables):
    results = make_results(tmp_path, tasks=FEW[:2])
    quick = tables_section(study_tables(results, paper))
    whole = tables_section(tables)
    for title, is_run in (("Taxi", True), ("Deep sea", True), ("Random walk, 50 states", False)):
        assert (f'<th scope="row">{title}</th>' in quick) == is_run
        assert f'<th scope="row">{title}</th>' in whole
    assert "not run are left out" in quick
    assert "not run are left out" not in whole


def test_numbers_stand_at_the_right():
    rows = [[Entry("a"), Entry("1.5", 1.5), Entry("word")], [Entry("b"), Entry("not run"), Entry("word")]]
    table = sortable_table("", ["Task", "Ours", "Why"], rows)
    assert re.findall(r'class="number">([^<]*)<', table) == ["Ours", "1.5", "not run"]


def test_the_largest_study_is_small_enough(tmp_path, monkeypatch, tables):
    """All tasks, methods, metrics and checkpoints of the study; room is left for longer tables and maps."""
    checkpoints = np.unique(np.geomspace(10, 10_000, 2 * CHECKPOINT_HALVINGS + 1).astype(int))
    monkeypatch.setattr(synthetic, "CHECKPOINTS", checkpoints)
    levels = LEVELS | {"vrtd": 1.0, "vrtd-all-data": 1.0}
    results = make_results(tmp_path, levels=levels, num_runs=1)
    states, protocols, letters = 555, 3, 16 / 3  # drawn in all maps; and of a number in base64
    maps = states * protocols * len(levels) * len(checkpoints) * letters
    assert len(page_html(results, make_paper(), tables).encode()) < LARGEST - 500_000 - maps


class TestVerb:
    @pytest.fixture
    def folder(self, tmp_path):
        how = {"tasks": FEW, "num_runs": 1, "protocols": ("literal",)}
        return write_study(tmp_path / "study", make_runs(**how), make_conditions(**how))

    def test_a_page_in_the_folder_or_elsewhere(self, folder, capsys):
        assert cli.main(["report", str(folder)]) == cli.DONE
        page = folder / "report" / "index.html"
        assert str(page) in capsys.readouterr().out.replace("\n", "")
        other = folder.parent / "new" / "other.html"
        assert cli.main(["report", str(folder), "--output", str(other), "--json"]) == cli.DONE
        answer = json.loads(capsys.readouterr().out)
        assert answer == {
            "page": str(other),
            "bytes": other.stat().st_size,
            "made_folders": [str(other.parent)],
        }
        assert other.read_bytes() == page.read_bytes()

    @pytest.mark.parametrize(
        ("harm", "message"),
        [
            (
                lambda folder: [path.unlink() for path in folder.iterdir()],
                "holds no manifest.json: name the folder",
            ),
            (lambda folder: (folder / "runs.parquet").write_bytes(b"PAR1"), "runs.parquet is damaged"),
            (
                lambda folder: (folder / "manifest.json").write_text('{"schema": 1}'),
                "written by another version",
            ),
        ],
        ids=["empty", "half-written", "another version"],
    )
    def test_what_cannot_be_shown_is_named(self, folder, capsys, harm, message):
        harm(folder)
        assert cli.main(["report", str(folder)]) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err
        assert not (folder / "report").exists()
