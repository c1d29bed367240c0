"""The manners of the command line, one table over all verbs: what goes where, and in which form."""

import inspect
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.cli.options import help_on
from gainbias.cli.words import verbs_of
from gainbias.experiments.claims.registry import check_claims
from gainbias.experiments.inspection import verify

SMALL = """\
name = "small"
tasks = ["two-loop"]
num_steps = 200
instances = 2

[[algorithms]]
id = "td-lambda"
step_size = 0.1
"""

LOG = ("--state", "s", "--reward", "r", "--action", "a")

CALLS = {
    "demo": ("demo", "--output", "{new}"),
    "list": ("list", "tasks"),
    "solve": ("solve", "two-loop"),
    "run": ("run", "two-loop", "--steps", "200"),
    "bound": ("bound", "boyan-chain", "--algorithm", "double-chain", "--steps", "9", "--step-size", "1e-9"),
    "evaluate": ("evaluate", "log.csv", "--column", "r", "--page", "{new}/answer.html"),
    "compare": ("compare", "log.csv", *LOG, "--policy", "random", "--policy", "one.npy"),
    "claims": ("claims", "reward-estimate", "--quick", "--workers", "1", "--output", "{new}"),
    "reproduce": (
        *("reproduce", "--task", "random-walk-50", "--protocol", "literal", "--shorten", "500"),
        *("--workers", "1", "--output", "{new}"),
    ),
    "sweep": ("sweep", "small.toml", "--workers", "1", "--output", "{new}"),
    "report": ("report", "stored.npz", "--output", "{new}.html"),
    "doctor": ("doctor",),
    "completion": ("completion", "bash"),
    "help": ("help", "solve"),
}
"""A small call of each verb; ``{new}`` is a place where nothing is yet."""

LONG = ("demo", "claims", "reproduce", "sweep")
"""Verbs that take more than a second."""

each_verb = pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=[pytest.mark.slow] * (verb in LONG)) for verb in CALLS]
)


@pytest.fixture
def told(tmp_path, monkeypatch, capfd):
    """Return a function that calls a verb and returns what it wrote to standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 2, 800), rng.integers(0, 2, 800)
    rows = np.column_stack([states, actions, states + rng.normal(size=800)])
    np.savetxt("log.csv", rows, fmt="%g", delimiter=",", header="s,a,r", comments="")
    np.save("one.npy", [1, 1])
    (tmp_path / "small.toml").write_text(SMALL)
    gb.evaluate_series(rows[:, 2]).save("stored.npz")
    calls = iter(range(10))

    def call(verb, *more):
        new = f"new{next(calls)}"
        assert cli.main([*(word.format(new=new) for word in CALLS[verb]), *more]) == cli.DONE
        return (*capfd.readouterr(), new)

    return call


def first_cells(shown):
    """Return what the rows begin with: no cell that a second call may change."""
    return [line.split("  ")[0] for line in shown.splitlines()]


class TestEachVerb:
    def test_all_are_in_the_table(self):
        assert set(CALLS) == set(cli.VERBS) == set(verbs_of(cli.parser()))

    @each_verb
    def test_an_answer_in_a_pipe_is_plain_and_stands_on_standard_output(self, verb, told):
        shown, aside, new = told(verb)
        assert shown.strip()
        assert not re.search("[\u2500-\u257f\x1b]", shown)
        assert all(line == line.rstrip() for line in shown.splitlines())
        assert not re.search("^(warning|note|page): |^made the folder", shown, re.MULTILINE)
        if "{new}" in " ".join(CALLS[verb]):
            assert new in shown + aside  # where files went

    @each_verb
    def test_json_is_one_document(self, verb, told):
        shown, _, _ = told(verb, "--json")
        assert json.loads(shown)

    @each_verb
    def test_a_quiet_answer_is_the_same_answer(self, verb, told):
        loud, _, first = told(verb)
        shown, aside, second = told(verb, "--quiet")
        assert first_cells(shown.replace(" --quiet", "")) == first_cells(loud.replace(first, second))
        assert all(line.startswith("warning: ") for line in aside.splitlines())

    @each_verb
    def test_quiet_json_is_json(self, verb, told):
        shown, aside, _ = told(verb, "--json", "--quiet")
        assert json.loads(shown)
        assert aside == ""

    @pytest.mark.parametrize("verb", CALLS)
    def test_help_on_a_verb_is_its_help(self, verb, capsys):
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        own = capsys.readouterr().out
        assert cli.main(["help", verb]) == cli.DONE
        assert capsys.readouterr() == (own, "")
        assert len(own) > 200

    @pytest.mark.parametrize("verb", CALLS)
    def test_a_mistyped_verb_or_option_gets_a_suggestion(self, verb, capsys):
        mistyped = verb[:-2] + verb[-1] + verb[-2]
        for words, hint in (
            ([mistyped], f"there is no verb {mistyped}: did you mean '{verb}'?"),
            ([*CALLS[verb], "--jsom"], "there is no option --jsom: did you mean --json?"),
        ):
            with pytest.raises(SystemExit) as caught:
                cli.main(words)
            assert caught.value.code == cli.WRONG_INPUT
            shown = capsys.readouterr()
            assert hint in shown.err
            assert shown.out == ""
        assert cli.main(["help", mistyped]) == cli.WRONG_INPUT
        assert f"did you mean '{verb}'?" in capsys.readouterr().err


class TestTheWhole:
    def test_no_verb_is_a_question_for_help(self, capsys):
        assert cli.main([]) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert all(f"\n    {verb} " in shown.err for verb in cli.VERBS)
        assert cli.main(["help"]) == cli.DONE
        assert capsys.readouterr().out == shown.err

    @pytest.mark.parametrize("verb", cli.VERBS)
    def test_every_line_of_a_help_fits_the_terminal(self, verb, monkeypatch):
        """But for examples, which are to be copied, and for words that are longer than the room."""
        monkeypatch.setenv("COLUMNS", "80")
        for line in help_on(verb, has_all=True).splitlines():
            assert len(line) <= 80 or "gainbias" in line or "python" in line or "--" in line

    def test_a_sweep_without_a_study_says_what_is_missing(self, capsys):
        assert cli.main(["sweep"]) == cli.WRONG_INPUT
        assert "say which study, as in gainbias sweep study.toml" in capsys.readouterr().err

    @pytest.mark.parametrize("word", ["-V", "--version"])
    def test_version(self, word, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main([word])
        assert caught.value.code == cli.DONE
        assert capsys.readouterr() == (f"gainbias {gb.__version__}\n", "")

    def test_whoever_reads_may_stop(self):
        """As ``gainbias list tasks | head -1`` does."""
        command = [sys.executable, "-m", "gainbias", "list", "tasks"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == cli.DONE

    def test_a_warning_of_python_is_a_line_on_standard_error(self):
        words = ["run", "two-loop", "--steps", "200", "--step-size", "5"]
        command = [sys.executable, "-m", "gainbias", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert re.search(r"^gainbias: warning: .*step size", done.stderr, re.MULTILINE)
        assert "Warning" not in done.stderr + done.stdout

    def test_compiling_is_announced_once_where_it_happens(self, tmp_path):
        command = [sys.executable, "-m", "gainbias", "run", "two-loop", "--steps", "200"]
        fresh = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        first, second = (
            subprocess.run(command, env=fresh, capture_output=True, text=True, check=True).stderr
            for _ in range(2)
        )
        assert first == "gainbias: compiling, which takes some seconds, once on this machine\n"
        assert second == ""


DEFAULTS = {
    "solve": [gb.solve, gb.task],
    "run": [gb.run, gb.task],
    "bound": [gb.bound, gb.task],
    "evaluate": [gb.evaluate, gb.evaluate_log, gb.evaluate_series],
    "compare": [gb.compare, gb.compare_policies_on_log],
    "claims": [check_claims],
    "reproduce": [gb.reproduce],
    "sweep": [gb.sweep, verify],
    "report": [gb.write_page],
}
"""The functions that verbs call."""

OTHER_NAMES = {
    "steps": "num_steps",
    "protocol": "protocols",
    "quantile": "quantiles",
    "output": "folder",
    "set": "settings",
    "param": "params",
    "task": "tasks",
}
"""Arguments that are called otherwise in Python."""

SAME = [
    ([], None),  # repeated options that were not given
    (1, 0),  # one seed, which is number 0
    (None, (0.5, 0.95, 0.99)),  # quantiles that were not asked for are left to Python
    (100_000, None),  # of evaluate, in whose docstring the number stands; see the test below
]
"""Defaults that mean the same in a shell and in Python."""


class TestNarrowTerminals:
    @pytest.mark.parametrize("width", [60, 80])
    @pytest.mark.parametrize("words", [["list", "algorithms"], ["bound", "frozen-lake", "--all"]])
    def test_no_word_is_cut(self, words, width, capsys, monkeypatch):
        assert cli.main(words) == cli.DONE
        plain = set(re.findall(r"[a-z]{4,}", capsys.readouterr().out))
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
        assert cli.main(words) == cli.DONE
        shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        assert "\u2026" not in shown
        assert plain <= set(re.findall(r"[a-z]{4,}", shown))


class TestDefaults:
    @pytest.mark.parametrize("verb", DEFAULTS)
    def test_they_are_those_of_python(self, verb):
        given = {
            name: one.default for function in DEFAULTS[verb] for name, one in own_parameters(function).items()
        }
        compared = []
        for action in verbs_of(cli.parser())[verb]._actions:
            name = action.dest if action.dest in given else OTHER_NAMES.get(action.dest)
            if action.option_strings and name in given and given[name] is not inspect.Parameter.empty:
                compared.append(name)
                assert action.default == given[name] or (action.default, given[name]) in SAME, name
        assert compared

    def test_steps_of_an_evaluation(self, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--json"]
        assert cli.main(words) == cli.DONE
        made = json.loads(capsys.readouterr().out)["diagnostics"]["num_transitions"]
        assert made == gb.evaluate("FrozenLake-v1", "random").diagnostics.num_transitions

    @pytest.mark.parametrize("algorithm", ["single-chain", "vrtd", "lstd"])
    @pytest.mark.parametrize("task", ["two-loop", "random-walk-50"])
    def test_a_run_needs_no_more_words_in_python(self, task, algorithm, capsys):
        assert cli.main(["run", task, "--algorithm", algorithm, "--steps", "300", "--json"]) == cli.DONE
        (lane,) = json.loads(capsys.readouterr().out)["lanes"]
        trace = gb.run(algorithm, gb.task(task), 300)
        assert lane["gain"] == trace.gain[0, -1]
        assert lane["step_size"] in (str(trace.lanes[0].step_size), "none")


def own_parameters(function):
    return inspect.signature(function).parameters


class TestBoundsInExamples:
    def test_the_first_example_says_something(self, capsys):
        """As every example of the help, of what is between the error at the start and nothing."""
        examples = re.findall(r"^  gainbias (bound .*)$", help_on("bound"), re.MULTILINE)
        assert examples
        for words in examples:
            assert cli.main([*words.split(), "--json"]) == cli.DONE
            bound = json.loads(capsys.readouterr().out)
            if "--all" in words:
                certified = {row["certified"] for row in bound["rows"]} - {None}
                assert certified
                assert max(certified) < float("inf")
                continue
            assert bound["certified"]
            assert bound["informative"]
            assert 0.0 < bound["value"] < 0.5 * bound["trivial"]["without_steps"]
