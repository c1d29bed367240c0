"""The command line: its defaults, and how it words answers and errors."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.cli.show import show_bound, show_study, show_sweep
from gainbias.engine.trace import Outcome
from gainbias.experiments.reproduce import paper_tasks
from gainbias.report.reproduction import _write_sheet
from gainbias.report.text import Sheet, TableCell
from gainbias.report.verdicts_page import shortfalls


def answer_of(capsys, *words):
    assert cli.main([*words, "--json"]) == cli.DONE
    return json.loads(capsys.readouterr().out)


class TestStepSizes:
    @pytest.mark.parametrize(
        ("algorithm", "expected"),
        [
            ("vrtd", "Constant(a=0.5)"),
            ("adaptive-td", "Constant(a=1.0)"),
            ("lstd", "none"),
            ("lspe", "none"),
            ("single-chain", "Harmonic(a=150, c0=1000)"),
        ],
    )
    def test_the_default_is_the_algorithms_own(self, algorithm, expected, capsys):
        answer = answer_of(capsys, "run", "two-loop", "--algorithm", algorithm, "--steps", "200")
        assert [lane["step_size"] for lane in answer["lanes"]] == [expected]

    def test_what_is_typed_goes_first(self, capsys):
        words = ["run", "two-loop", "--algorithm", "vrtd", "--steps", "200", "--step-size", "0.25"]
        assert answer_of(capsys, *words)["lanes"][0]["step_size"] == "Constant(a=0.25)"


class TestRun:
    WORDS = ("run", "two-loop", "--steps", "1000", "--seeds", "2")

    def shown(self, capsys, *words):
        assert cli.main([*self.WORDS, *words]) == cli.DONE
        return " ".join(capsys.readouterr().out.split())

    def test_step_size_and_scale(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        shown = self.shown(capsys, "--step-size", "2,50")
        assert "single-chain: 1000 steps, 1000 transitions, step size Harmonic(a=2.0, c0=50.0)" in shown
        assert "seed gain centred error" in shown
        bias = gb.task("two-loop").problem.solution.bias
        assert f"spread over {np.ptp(bias):.4g}, from {bias.min():.4g} to {bias.max():.4g}" in shown
        assert f"the error of weights 0, is {np.linalg.norm(bias):.4g}" in shown

    def test_an_interrupted_run_shows_the_last_checkpoint_and_fails(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        real = gb.run

        def interrupted(*arguments, **settings):
            trace = real(*arguments, **settings)
            trace.gain[:, trace.steps > 500] = trace.weights[:, trace.steps > 500] = np.nan
            return replace(trace, outcomes=[Outcome("interrupted", 500)] * 2)

        monkeypatch.setattr(gb, "run", interrupted)
        assert cli.main([*self.WORDS, "--json"]) == cli.FAILED
        answer = json.loads(capsys.readouterr().out)
        whole = real("single-chain", gb.task("two-loop"), 1_000, gb.Harmonic(150, 1000), seeds=range(2))
        last = int(np.flatnonzero(whole.steps <= 500)[-1])
        assert [lane["checkpoint"] for lane in answer["lanes"]] == [whole.steps[last]] * 2
        assert [lane["gain"] for lane in answer["lanes"]] == whole.gain[:, last].tolist()
        assert [lane["error_full"] for lane in answer["lanes"]] == whole.errors()[:, last].tolist()
        assert (answer["steps_made"], answer["num_steps"]) == (500, 1_000)
        assert cli.main(self.WORDS) == cli.FAILED
        shown = capsys.readouterr().out
        assert "500 of 1000 steps, 500 transitions" in shown
        assert f"interrupted at 500, shown at {whole.steps[last]}" in shown
        assert "nan" not in shown


class TestSolve:
    def test_what_is_solved(self, capsys):
        subject = answer_of(capsys, "solve", "frozen-lake")["subject"]
        assert subject.startswith(gb.TASKS["frozen-lake"].summary)
        assert "10,000 episodes of Q-learning, with a random action in 10% of the steps" in subject
        assert cli.main(["solve", "two-loop"]) == cli.DONE
        shown = capsys.readouterr().out
        assert re.search("task  +Two loops through one state", shown)
        assert "Q-learning" not in shown


class TestBound:
    def test_why_it_is_infinite_and_the_error_at_the_start(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        assert cli.main(["bound", "frozen-lake"]) == cli.DONE
        shown = capsys.readouterr().out
        assert "inf, because of Gamma_1, which has (tau_mix + c0)^(2 rho_0 a) in it: try a smaller a" in shown
        start = np.linalg.norm(gb.task("frozen-lake").problem.fixed_point) ** 2
        assert re.search(rf"at the start  +{start:.6g}, with theta_0 = 0", shown)

    def test_its_advice_helps(self, capsys):
        words = ["bound", "frozen-lake", "--step-size", "1,1000"]
        assert np.isfinite(answer_of(capsys, *words)["value"])
        assert cli.main(words) == cli.DONE
        assert "because of" not in capsys.readouterr().out

    def test_a_sum_that_is_too_large(self, capsys):
        bound = answer_of(capsys, "bound", "frozen-lake", "--step-size", "1,1000")
        show_bound({**bound, "conditions": [], "theorem_value": np.inf, "constants": {"R_w": np.inf}})
        assert "inf: larger than any float" in capsys.readouterr().out


class TestStudies:
    def test_instances_of_each_protocol_and_both_times(self, capsys):
        protocols = {"literal": {"seeds": [0, 1, 2]}, "fair": {"seeds": [0, 1]}}
        answer = {"folder": "x", "units": 5, "reused": 0, "protocols": protocols, "tasks": {"taxi": {}}}
        show_study({**answer, "seconds": 3.0, "report_seconds": 90.0})
        shown = capsys.readouterr().out
        assert re.search("^instances  +5: literal 3, fair 2$", shown, re.MULTILINE)
        assert re.search("^time  +runs 3 s, report 90 s$", shown, re.MULTILINE)

    def test_times_of_a_sweep(self, capsys):
        answer = {"units": 5, "reused": 0, "damaged": 0, "lanes": 5, "diverged_lanes": 0}
        rest = {"written": {}, "failures": [], "diverged_units": []}
        show_sweep({**answer, **rest, "seconds": 3.0, "report_seconds": 90.0})
        assert re.search("^time  +runs 3 s, report 90 s$", capsys.readouterr().out, re.MULTILINE)


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["run", "two-loop", "--stepz", "3"], "there is no option --stepz: did you mean --steps?"),
            (["run", "two-loop", "--stepz=3"], "there is no option --stepz: did you mean --steps?"),
            (["run", "two-loop", "--zzzzzz"], "there is no option --zzzzzz\n"),
            (["run", "two-loop", "-stepz", "3"], "there is no option -stepz: did you mean --steps?"),
            (["--json", "run", "two-loop"], "--json comes after the verb: gainbias VERB --json"),
            (["--verson"], "there is no option --verson: did you mean --version?"),
            (["run", "two-loop", "taxi"], "unexpected words: taxi"),
            (["run", "two-loop", "--steps", "-5"], "argument --steps: must be a positive whole number"),
            (["run", "two-loop", "--steps", "1.5"], "as in 10000 or 1e4, found '1.5'"),
            (["run", "two-loop", "--steps", "inf"], "found 'inf'"),
            (["run", "two-loop", "--steps", "many"], "found 'many'"),
            (["evaluate", "x", "--max-steps", "0"], "argument --max-steps: must be a positive whole number"),
            (["slove"], "there is no verb slove: did you mean 'solve'?"),
            (["help", "x", "y"], "unexpected words: y: besides options there is only VERB\n"),
            (["compare", "x", "--policy", "a", "b"], "unexpected words: b: name --policy before each\n"),
            (
                ["compare", "a.csv", "b.csv", "--column", "x", "--time", "at"],
                "compare is for two policies, in",
            ),
            (["compare", "x", "--group", "g"], "gainbias evaluate FILE --column NAME --group WHICH\n"),
            (["run", "machine.npz", "--sets"], "usage: gainbias run [options] TASK\n"),
            (["compare", "x", "y"], "usage: gainbias compare [options] --policy POLICY LOG|ENV\n"),
            (["claims", "--sets"], "usage: gainbias claims [options] [CLAIM ...]\n"),
            (["list"], "the following arguments are required: algorithms|tasks"),
        ],
    )
    def test_words_that_cannot_be_read(self, words, message, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == cli.WRONG_INPUT
        shown = capsys.readouterr().err
        assert message in shown
        assert shown.startswith("usage: gainbias ")

    @pytest.mark.parametrize("steps", ["1e3", "1_000", "1000.0"])
    def test_ways_to_write_a_whole_number(self, steps, capsys):
        assert answer_of(capsys, "run", "two-loop", "--steps", steps)["num_steps"] == 1_000

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ["run", "td-lambda"],
                "td-lambda is an algorithm, not a task: gainbias run TASK --algorithm td-",
            ),
            (["run", "machine.npz"], "machine.npz is a file, not a task: gainbias solve reads it"),
            (["solve", "none.npz"], "there is no file none.npz"),
            (["solve", "none/none.npz"], "there is no folder none"),
            (["report", "none"], "there is no folder none"),
            (["report", "none.npz"], "there is no file none.npz"),
            (
                ["run", "frozen-lake", "--algorithm", "adaptive-td"],
                "tasks with tabular ones are mm1k-admission",
            ),
        ],
    )
    def test_what_does_not_exist(self, words, message, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert cli.main(words) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err

    def test_a_module_that_lacks_something_itself(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "needy_rules.py").write_text("import no_such_module\n")
        assert cli.main(["evaluate", "FrozenLake-v1", "--policy", "needy_rules:x"]) == cli.WRONG_INPUT
        assert "No module named 'no_such_module'" in capsys.readouterr().err


class TestShortenedStudies:
    def test_the_terminal_says_so(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        manifest = {"shorten": 100, "tasks": {"taxi": {}}, "protocols": {"literal": {"seeds": [0, 1, 2]}}}
        told = [text.replace("*", "") for text in shortfalls(manifest)]
        answer = {"folder": "x", "units": 3, "reused": 0, "shortened": told, **manifest}
        show_study({**answer, "seconds": 3.0, "report_seconds": 90.0})
        shown = " ".join(capsys.readouterr().out.split())
        assert "Quick look: 1/100 of the paper's steps" in shown
        assert "1 of the paper's 15 tasks; no protocol inferred and no protocol fair" in shown

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({}, None),
            ({"shorten": 7}, "1/7 of the paper's steps"),
            ({"tasks": {"taxi": {}}}, "1 of the paper's 15 tasks"),
            (
                {"protocols": {"fair": {"seeds": [0]}}},
                "no protocol literal and no protocol inferred; 1 of 30",
            ),
        ],
    )
    def test_what_is_missing_is_named(self, change, words):
        whole = {"literal": {"seeds": [0, 1, 2]}, "inferred": {"seeds": [0]}, "fair": {"seeds": [*range(30)]}}
        manifest = {"shorten": 1, "tasks": dict.fromkeys(paper_tasks()), "protocols": whole, **change}
        found = shortfalls(manifest)
        assert (words is None) == (found == [])
        assert words is None or words in " ".join(found)

    def test_a_lone_sheet_says_so_too(self, tmp_path):
        sheet = Sheet("s", "Caption.", ["a"], [[[TableCell("1")]]])
        for path in _write_sheet(tmp_path, sheet, ["**This is a quick look, not the study.** Beware."]):
            assert "This is a quick look, not the study. Beware." in path.read_text()


class TestHurriedWords:
    """What is typed in a hurry is answered in words of the command line, with what to do."""

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("lat.csv").write_text("ms,server\n" + "1,a\n2,b\n" * 20)
        Path("queue.csv").write_text("at,queue\n" + "".join(f"{k},{k % 3}\n" for k in range(40)))
        Path("log.csv").write_text("state,reward\n" + "0,1\n1,2\n" * 20)
        np.save("square.npy", np.eye(2))

    def answered(self, typed, capsys):
        try:
            code = cli.main(typed.split())
        except SystemExit as ended:
            code = ended.code
        return code, capsys.readouterr()

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("solve two-loop --tol abc", "argument --tol: must be a number, as in 0.01, found 'abc'"),
            ("solve two-loop --seed 1.5", "argument --seed: must be a whole number, found '1.5'"),
            ("run two-loop --seeds 0", "argument --seeds: must be a positive whole number"),
            ("run two-loop --steps 9 --step-size -0.1", "--step-size -0.1: a must be positive and finite"),
            ("run two-loop --param trace_decay", "--param and --set take NAME=VALUE, found 'trace_decay'"),
            ("run single-chain two-loop", "unexpected words: two-loop: besides options there is only TASK"),
            ("list task", "argument algorithms|tasks: found 'task': did you mean 'tasks'?"),
            ("evaluate log.csv --gaps brake", "argument --gaps: found 'brake': did you mean 'break'?"),
            ("evaluate log.csv --state stat", "the log has no column 'stat': did you mean 'state'?"),
            (
                "evaluate queue.csv --time a --reward queue",
                "the log has no column 'a' for time: did you mean 'at'?",
            ),
            ("evaluate lat.csv", "no column of rewards (reward), it has ms, server: say which holds them"),
            ("evaluate queue.csv --time at", "no column of rewards (reward), it has at, queue: say which"),
            ("evaluate square.npy", "square.npy cannot be read: known are CSV (.csv, .tsv, .txt"),
            ("sweep log.csv", "log.csv is not TOML, which a study must be: Expected '='"),
            ("evaluate lat.csv --column ms --plot x.xyz", "x.xyz: pictures end with .eps, .jpg, .pdf, .png"),
            ("evaluate CartPole-v1 --policy random --column ms", "CartPole-v1: --column is for a file"),
        ],
    )
    def test_what_is_said(self, typed, said, capsys):
        code, shown = self.answered(typed, capsys)
        assert (code, shown.out) == (cli.WRONG_INPUT, "")
        assert said in shown.err

    @pytest.mark.parametrize("option", ["--page", "--save", "--plot"])
    def test_an_empty_name_of_a_file(self, option, capsys):
        assert cli.main(["evaluate", "lat.csv", "--column", "ms", option, ""]) == cli.WRONG_INPUT
        assert f"{option} needs the name of a file, found ''" in capsys.readouterr().err

    def test_only_what_is_alike_is_suggested(self, capsys):
        for typed in ("claims --claim x", "evaluate nothere.csv"):
            code, shown = self.answered(typed, capsys)
            assert code == cli.WRONG_INPUT
            assert "did you mean" not in shown.err
        for typed, near in (("evaluate lat.cvs", "lat.csv"), ("run two-loop --stepz 1", "--steps")):
            assert f"did you mean {near}?" in self.answered(typed, capsys)[1].err

    def test_a_folder_that_must_not_be_written_to_is_found_before_the_work(self, capsys, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert cli.main(["evaluate", "lat.csv", "--column", "ms", "--page", "x.html"]) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "you have no permission to write to" in shown.err

    def test_a_file_that_cannot_be_made_is_named_as_it_was_typed(self, capsys):
        """The first name of a file is temporary, and nobody has typed it."""
        assert (
            cli.main(["evaluate", "lat.csv", "--column", "ms", "--page", "/proc/x.html"]) == cli.WRONG_INPUT
        )
        assert "/proc/x.html cannot be written: No such file" in capsys.readouterr().err
