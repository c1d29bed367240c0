"""Results on the headline claims: page, figures, the command, and the page of the documentation."""

import json
import re
from pathlib import Path

import pytest

from gainbias import cli
from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, at_most, notice
from gainbias.experiments.claims.registry import CLAIMS, check_claims
from gainbias.experiments.statistics import Interval
from gainbias.report.claims import claims_markdown, claims_sheet, draw_chart, read_claims, store_claims
from gainbias.report.figures.style import SIZES
from gainbias.report.text import latex
from tests.report.latex import problems

DOCS = Path(__file__).parents[2] / "docs"


def a_result(value=1.0):
    lines = (
        Line("double-chain", [1.0, 2.0, 1.5], [3.0, 4.0, 5.0]),
        Line("ours", [1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]),
        Line("theory", [1.0, 2.0], [1.0, 1.0], reference=True),
    )
    outcome = Judgement(
        (at_most("|x| of it", Interval(value, value, value), 2.0),),
        "Because.",
        (Chart("t", "x", "y", lines),),
    )
    return Claim(
        "an-id", "Text.", "There", "So.", "none", lambda s, q: 0, lambda d: outcome, ("finding-3",)
    ).measure()


def test_page():
    page = claims_markdown([a_result(), a_result(3.0)])
    assert "| an-id | Text. | **holds** |" in page
    assert "| an-id | Text. | **fails** |" in page
    assert r"| \|x\| of it | 1.000 |  | exact | at most 2 | holds |" in page
    assert "See [What we found in the paper](paper.md): 3." in page


@pytest.mark.parametrize("size", SIZES)
def test_figure(size):
    figure = draw_chart(a_result().charts[0], size)
    [axes] = figure.axes
    assert figure.get_figwidth() == SIZES[size].width
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["double-chain", "theory", "ours"]


def test_files(tmp_path):
    result = a_result()
    paths = store_claims([result], tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "claims.json",
        "claims.md",
        "claims.tex",
        "index.html",
        *(f"figures/{size}/an-id.{form}" for size in SIZES for form in ("png", "svg", "pdf")),
    ]
    assert all(path.stat().st_size > 0 for path in paths)
    assert read_claims(paths[0]) == [result]


def test_latex():
    assert problems(latex(claims_sheet([a_result()]))) == []
    text = latex(claims_sheet(read_claims(DOCS / "data" / "claims.json")))
    assert problems(text) == []
    assert all(f"\n{claim} & " in text for claim in CLAIMS)


class TestCommand:
    def test_table(self, capsys, tmp_path):
        arguments = ["claims", "reward-estimate", "--quick", "--output", str(tmp_path)]
        assert cli.main(arguments) == cli.DONE
        shown = capsys.readouterr().out
        assert "HOLDS: The average of the rewards" in shown
        assert (tmp_path / "figures" / "one-column" / "reward-estimate.svg").exists()

    def test_json(self, capsys):
        assert cli.main(["claims", "reward-estimate", "--quick", "--json"]) == cli.DONE
        [answer] = json.loads(capsys.readouterr().out)
        assert answer["verdict"] == "holds"
        assert answer["parts"][0]["name"] == "power of 1/T"

    def test_unknown(self, capsys):
        assert cli.main(["claims", "everything"]) == cli.WRONG_INPUT
        assert "unknown claim 'everything': known are eta-order" in capsys.readouterr().err


class TestDocs:
    """The page of the documentation shows stored results, and they are those of this code."""

    STORED = DOCS / "data" / "claims.json"

    def test_the_page_shows_what_is_stored(self):
        page = (DOCS / "claims.md").read_text(encoding="utf-8")
        assert claims_markdown(read_claims(self.STORED)) in page

    def test_what_is_stored_is_the_full_test(self):
        assert {(result.quick, result.seed) for result in read_claims(self.STORED)} == {(False, 0)}
        assert notice(read_claims(self.STORED)) == ""

    def test_what_is_stored_says_how_it_was_made(self):
        """Each claim has its command and all versions, and each figure its interval."""
        for result in read_claims(self.STORED):
            assert result.command.startswith("gainbias claims")
            assert {"gainbias", "numpy", "scipy", "numba"} <= set(result.versions)
            assert all(part.low <= part.value <= part.high for part in result.parts)

    def test_all_claims_are_stored(self):
        assert [result.id for result in read_claims(self.STORED)] == list(CLAIMS)

    @pytest.mark.parametrize("name", ["reward-estimate", "double-sampling", "dimension"])
    def test_measured_again(self, name):
        """Exact figures, which no chance and hardly any machine changes."""
        stored = next(result for result in read_claims(self.STORED) if result.id == name)
        [again] = check_claims([name])
        assert again.verdict == stored.verdict
        assert (again.how, again.interval, again.seed) == (stored.how, stored.interval, stored.seed)
        for part, kept in zip(again.parts, stored.parts, strict=True):
            assert part.name == kept.name
            assert part.value == pytest.approx(kept.value, rel=1e-6, abs=1e-9)

    def test_findings_exist(self):
        anchors = re.findall(r'<a id="(finding-\d+)"></a>', (DOCS / "paper.md").read_text(encoding="utf-8"))
        for claim in CLAIMS.values():
            assert set(claim.findings) <= set(anchors)
