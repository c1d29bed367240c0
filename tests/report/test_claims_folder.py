"""Quick results say that they are quick, everywhere; and no claims are overwritten by chance."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gainbias import cli
from gainbias.experiments.claims import bound_holds, conditions, dimension, reward_estimate, splitting
from gainbias.experiments.claims.claim import QUICK, in_words, notice
from gainbias.experiments.claims.registry import CLAIMS, check_claims
from gainbias.report.claims import check_claims_folder, claims_html, read_claims, store_claims
from tests.report.latex import problems

WORDS = ("claims", "reward-estimate", "splitting", "--quick", "--seed", "3")


@pytest.fixture(scope="module")
def quick():
    return check_claims(["splitting", "reward-estimate"], quick=True, seed=3, workers=1, command="typed this")


class TestMarks:
    def test_in_every_file(self, tmp_path, quick):
        folder = tmp_path / "claims"
        store_claims(quick, folder)
        for name in ("claims.json", "claims.md", "claims.tex", "index.html"):
            text = (folder / name).read_text()
            assert QUICK in text, name
            assert "typed this" in text, name
            assert re.search(r'Seed 3|"seed": 3|<dt>Seed</dt><dd>3</dd>', text), name
        assert problems((folder / "claims.tex").read_text()) == []
        assert (folder / "claims.md").read_text().startswith(f"**{QUICK}: wider intervals")
        page = (folder / "index.html").read_text()
        assert '<p class="warning" role="note">' + QUICK in page
        assert "Average of rewards (quick look)" in page
        assert "(quick look)" in (folder / "claims.json").read_text()  # titles of figures

    def test_in_json(self, capsys):
        assert cli.main([*WORDS, "--json"]) == cli.DONE
        for result in json.loads(capsys.readouterr().out):
            assert (result["quick"], result["seed"]) == (True, 3)
            assert result["command"] == "gainbias " + " ".join([*WORDS, "--json"])
            assert result["how"].startswith(QUICK)
            assert result["reason"].startswith(QUICK)

    def test_in_text_at_both_ends(self, capsys):
        assert cli.main([*WORDS]) == cli.DONE
        shown = " ".join(capsys.readouterr().out.split())
        assert shown.startswith(QUICK)
        assert shown.rstrip().endswith(
            "Seed 3. Command: gainbias claims reward-estimate splitting --quick --seed 3."
        )

    def test_the_full_test_has_no_mark(self, tmp_path):
        results = check_claims(["splitting"], workers=1)
        store_claims(results, tmp_path / "full")
        for name in ("claims.json", "claims.md", "claims.tex", "index.html"):
            assert "uick look" not in (tmp_path / "full" / name).read_text()
        assert results[0].how.startswith("Mean update by enumeration of all moves on 100 random chains")

    def test_some_quick_ones_among_others(self, quick):
        mixed = [quick[0], replace(quick[1], quick=False)]
        assert notice(mixed).startswith(f"{QUICK} of {quick[0].id}: ")

    def test_what_is_not_recorded_is_not_called_the_full_test(self, tmp_path, quick):
        old = [
            {k: v for k, v in result.to_dict().items() if k not in ("quick", "seed", "command")}
            for result in quick
        ]
        (tmp_path / "claims.json").write_text(json.dumps(old))
        stored = read_claims(tmp_path / "claims.json")
        assert "It is not recorded whether these claims were put to the full test." in notice(stored)
        assert "It is not recorded" in claims_html(stored, {})


class TestCounts:
    """The numbers in the sentences are those that really ran, counted where the work is done."""

    def test_chains_of_splitting(self, monkeypatch):
        drawn, real = [], splitting.random_chain
        monkeypatch.setattr(splitting, "random_chain", lambda *a: drawn.append(0) or real(*a))
        assert "on 5 random chains" in splitting.CLAIM.measure(0, True).how
        assert len(drawn) == 5

    def test_chains_of_the_average_of_rewards(self, monkeypatch):
        solved, real = [], reward_estimate.solve_to_tolerance
        monkeypatch.setattr(reward_estimate, "solve_to_tolerance", lambda *a: solved.append(0) or real(*a))
        how = reward_estimate.CLAIM.measure(0, True).how
        assert f"along {len(solved)} random chains, {in_words(len(solved) // 2)} of them slow" in how

    def test_problems_of_the_condition_numbers(self, monkeypatch):
        made, real = [], conditions._problem
        monkeypatch.setattr(conditions, "_problem", lambda *a: made.append(0) or real(*a))
        assert "of 30 random problems" in conditions.CLAIM.measure(0, True).how
        assert len(made) == 30

    def test_chains_of_each_dimension(self):
        points = dimension.collect(0, True)
        assert "one chain for each d" in dimension.CLAIM.conclude(dimension.judge(points), 0, True).interval
        assert (
            "two chains for each d"
            in dimension.CLAIM.conclude(dimension.judge(points * 2), 0, False).interval
        )

    def test_bounds(self, monkeypatch):
        chains, steps = [], []
        chain, curve = bound_holds.random_chain, bound_holds.exact_curve

        def watched(name, problem, num_steps, *others, **named):
            if name == "single-chain":
                steps.append((num_steps, named["lanes"]))
            return curve(name, problem, num_steps, *others, **named)

        monkeypatch.setattr(bound_holds, "random_chain", lambda *a: chains.append(0) or chain(*a))
        monkeypatch.setattr(bound_holds, "exact_curve", watched)
        how = CLAIMS["bound-holds"].measure(0, True).how
        [(num_steps, runs)] = set(steps)
        assert f"means over {runs} runs of {num_steps} steps" in how
        assert f"on {in_words(len(chains))} random chain of" in how

    @pytest.mark.parametrize("name", ["one-limit", "rate", "double-sampling"])
    def test_no_count_of_the_full_test_in_a_quick_one(self, name):
        how = CLAIMS[name].measure(0, True).how
        for full in ("24 seeds", "10,000", "every algorithm", "256 runs", "400 runs", "0.01 eta1"):
            assert full not in how
        assert "{" not in how

    def test_decades(self, monkeypatch):
        from gainbias.experiments.claims import eta_order

        monkeypatch.setattr(eta_order, "steps_needed", lambda *a: (10.0, 0.1))
        monkeypatch.setattr(eta_order, "asymptotic_covariance", lambda n, p, *a, **k: np.eye(p.num_features))
        told = [eta_order.counts(eta_order.collect_independent(0, quick)) for quick in (True, False)]
        assert told[0] == {"exact": "1.5 decades", "in_the_end": "1.5", "chains": "one chain"}
        assert told[1] == {"exact": "three decades", "in_the_end": "1.5", "chains": "three chains"}


def everything(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


class TestFolder:
    def test_other_claims_are_not_overwritten(self, tmp_path, capsys, quick):
        folder = tmp_path / "claims"
        store_claims(quick, folder)
        before = everything(folder)
        for words in (["splitting"], ["splitting", "--quick"], []):
            assert cli.main(["claims", *words, "--output", str(folder)]) == cli.WRONG_INPUT
            shown = capsys.readouterr()
            assert shown.out == ""
            assert "already holds 2 claims (quick look): splitting, reward-estimate" in shown.err
            assert "or replace them with --overwrite" in shown.err
        with pytest.raises(ValueError, match="already holds 2 claims"):
            store_claims(quick[:1], folder)
        assert everything(folder) == before

    def test_overwrite_leaves_nothing_of_the_others(self, tmp_path, quick):
        folder = tmp_path / "claims"
        store_claims(quick, folder)
        mine = folder / "figures" / "two-column" / "thesis.png"
        mine.write_text("years of work")
        store_claims(quick[:1], folder, overwrite=True)
        names = {path.stem for path in (folder / "figures").rglob("*.*")}
        assert names == {"splitting", "thesis"}
        assert [result.id for result in read_claims(folder / "claims.json")] == ["splitting"]

    @pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
    @pytest.mark.parametrize("name", ["thesis.tex", "study.json", "index.html"])
    def test_a_folder_of_something_else(self, tmp_path, capsys, name, overwrite):
        (tmp_path / name).write_text("years of work")
        (tmp_path / "units").mkdir()
        assert cli.main([*WORDS, "--output", str(tmp_path), *overwrite]) == cli.WRONG_INPUT
        assert "is not empty and holds no claims: choose another folder" in capsys.readouterr().err
        assert list(everything(tmp_path)) == [tmp_path / name]

    def test_a_file_is_no_folder(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert cli.main([*WORDS, "--output", str(tmp_path / "file")]) == cli.WRONG_INPUT
        assert "file is a file: name a folder" in capsys.readouterr().err

    def test_an_interrupted_test_goes_on(self, tmp_path):
        (tmp_path / "units").mkdir()
        check_claims_folder(tmp_path)
        check_claims_folder(tmp_path / "new")

    def test_claims_that_cannot_be_read_are_kept_too(self, tmp_path):
        (tmp_path / "claims.json").write_text("[{")
        with pytest.raises(ValueError, match="already holds claims that cannot be read"):
            check_claims_folder(tmp_path)

    @pytest.mark.parametrize("json_too", [[], ["--json"]])
    def test_it_says_where_everything_is(self, tmp_path, capsys, json_too):
        folder = tmp_path / "new" / "claims"
        assert cli.main(["claims", "splitting", "--quick", "--output", str(folder), *json_too]) == cli.DONE
        shown = capsys.readouterr()
        told = shown.err
        assert f"made the folder {tmp_path / 'new'}\n" in told
        for name in ("claims.json", "index.html", "figures"):
            assert f"{name}: {folder / name}\n" in told

    def test_the_page_written_again_says_that_it_replaced_one(self, tmp_path, capsys, quick):
        store_claims(quick, tmp_path / "claims")
        assert cli.main(["report", str(tmp_path / "claims")]) == cli.DONE
        said = capsys.readouterr().err
        assert f"replaced what was there before: {tmp_path / 'claims' / 'index.html'}" in said
        assert QUICK in (tmp_path / "claims" / "index.html").read_text()
