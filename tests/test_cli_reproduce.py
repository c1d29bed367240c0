"""The verb `reproduce`: a study end to end, and what is refused before work begins."""

import json
import re
import shlex
from pathlib import Path

import pytest

from gainbias import cli, extras


class TestReproduce:
    WORDS = (
        "reproduce",
        "--task",
        "frozen-lake",
        "--protocol",
        "literal",
        "--shorten",
        "200",
        "--workers",
        "1",
    )

    @pytest.mark.slow
    def test_a_study_with_a_changed_setting(self, tmp_path, capfd):
        folder = tmp_path / "results"
        words = [*self.WORDS, "--set", "epsilon=0.2", "--output", str(folder)]
        assert cli.main([*words, "--json"]) == cli.DONE
        shown = capfd.readouterr()
        assert "━" not in shown.err  # no bar: this is no terminal
        answer = json.loads(shown.out)
        assert answer["settings"] == {"epsilon": 0.2}
        assert answer["tasks"]["frozen-lake"]["settings"]["epsilon"] == 0.2
        assert answer["command"] == shlex.join(["gainbias", *words, "--json"])
        assert all(Path(path).is_file() for path in answer["written"])
        page = (folder / "report" / "verdicts.md").read_text()
        assert "| Changed settings | epsilon 0.2 |" in page
        parameters = (folder / "report" / "tables" / "parameters-literal.md").read_text()
        assert "| 0.1 | steps 750, epsilon 0.2 |" in parameters
        assert cli.main([*words, "--resume"]) == cli.DONE
        shown = capfd.readouterr().out
        assert "3: literal 3; 3 had been stored before" in shown
        assert re.search("time  +runs .* s, report .* s", shown)
        for change, message in (
            ([], "already holds a study: continue it with --resume"),
            (["--resume", "--set", "epsilon=0.3"], "cannot be resumed with settings = {'epsilon': 0.3}"),
        ):
            assert cli.main([*words, *change]) == cli.WRONG_INPUT
            assert message in capfd.readouterr().err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--task", "frozenlake"], "unknown task of the paper 'frozenlake': did you mean 'frozen-lake'?"),
            (["--protocol", "unfair"], "unknown protocol 'unfair': did you mean 'fair'?"),
            (["--instances", "0"], "instances must be an integer of at least 1, found 0"),
            (["--shorten", "-1"], "shorten must be an integer of at least 1 and at most 150000, found -1"),
            (["--workers", "0"], "workers must be an integer of at least 1, found 0"),
            (["--overwrite", "--resume"], "overwrite starts afresh and resume continues: choose one"),
            (["--set", "epsilon"], "--param and --set take NAME=VALUE, found 'epsilon'"),
            (["--set", "epsilom=0.1"], "unknown setting 'epsilom': did you mean 'epsilon'?"),
            (["--set", "epsilon=1"], "epsilon must be at least 0 and below 1, found 1"),
            (["--set", "epsilon=0.x"], "frozen-lake refuses the settings {'epsilon': '0.x'}"),
            (["--set", "num-features=17"], "and 16, the number of states, found 17"),
        ],
    )
    def test_wrong_input(self, words, message, tmp_path, capsys):
        folder = tmp_path / "results"
        assert cli.main([*self.WORDS, *words, "--output", str(folder)]) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("gainbias: ")
        assert message in shown.err
        assert shown.err.count("\n") == 1
        assert not folder.exists()

    def test_a_folder_of_something_else(self, tmp_path, capsys):
        (tmp_path / "thesis.tex").write_text("years of work")
        assert cli.main([*self.WORDS, "--output", str(tmp_path), "--overwrite"]) == cli.WRONG_INPUT
        assert "is not empty and holds no study: choose another folder" in capsys.readouterr().err

    def test_what_to_install(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(
            extras, "find_spec", lambda name: None if name in ("gymnasium", "mo_gymnasium") else name
        )
        words = ["reproduce", "--protocol", "literal", "--output", str(tmp_path / "results"), "--task"]
        assert cli.main([*words, "deep-sea"]) == cli.WRONG_INPUT
        assert "this needs gymnasium, mo-gymnasium: pip install 'gainbias[gym,mo]'" in capsys.readouterr().err
        assert cli.main([*words, "frozen-lake"]) == cli.WRONG_INPUT
        assert "this needs gymnasium: pip install 'gainbias[gym]'" in capsys.readouterr().err
        assert not (tmp_path / "results").exists()

    def test_a_task_that_needs_no_environment_asks_for_none(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(
            extras, "find_spec", lambda name: None if name in ("gymnasium", "matplotlib") else name
        )
        words = ["reproduce", "--protocol", "literal", "--task", "random-walk-50"]
        assert cli.main([*words, "--output", str(tmp_path / "results")]) == cli.WRONG_INPUT
        assert "this needs matplotlib: pip install 'gainbias[report]'" in capsys.readouterr().err
