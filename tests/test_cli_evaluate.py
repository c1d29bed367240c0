"""The verbs `evaluate` and `compare`: their answers, their examples and their exit codes."""

import bz2
import gzip
import io
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.cli import options
from gainbias.cli.words import verbs_of

GROUPS = (
    "a column of numbers",
    "a log, by its columns",
    "times of a log or a column",
    "another policy than that of the log",
    "an environment",
    "how values are learned",
    "files to write",
)
"""Groups of options that the help of `evaluate` shows, in this order."""

FOR_ALL = {"help", "json", "quiet", "source", "confidence", "save", "plot", "page", "overwrite"}
"""Arguments of `evaluate` and `compare` that are for every kind of source."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a policy, a module and a log, in which the commands are given."""
    pandas = pytest.importorskip("pandas")
    np.save(tmp_path / "left.npy", [0] * 16)
    name = f"rules_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "from gymnasium.envs.toy_text import FrozenLakeEnv as Lake\n\nmade = Lake()\n\n\n"
        "def right(observation):\n    return 2\n\n\ndef line(seen):\n    return seen[:, None] / 48.0\n"
    )
    states = np.random.default_rng(0).integers(0, 3, 3_000)
    frame = pandas.DataFrame({"position": states, "earned": 1.0 * states, "x": states / 2, "y": -states})
    choice = np.random.default_rng(1).integers(0, 2, 3_000)
    frame.assign(choice=choice).to_parquet(tmp_path / "log.parquet")
    np.save(tmp_path / "new.npy", [0, 1, 1])
    frame.to_csv(tmp_path / "log.csv", index=False)
    pandas.DataFrame({"ms": 5.0 + states}).to_csv(tmp_path / "latencies.csv", index=False)
    times = np.arange(3_000) * 0.5
    pandas.DataFrame({"at": times, "queue": states}).to_csv(tmp_path / "events.csv", index=False)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "odd.npy").write_text("0.5,0.5\n")
    frame.loc[2_000, "earned"] = np.nan
    frame.to_parquet(tmp_path / "damaged.parquet")
    monkeypatch.chdir(tmp_path)
    return name


def answer_of(capsys, *words, code=cli.DONE):
    assert cli.main([*words, "--json"]) == code
    shown = capsys.readouterr()
    assert shown.err == "" or "compiling" in shown.err  # which is said where nothing is compiled yet
    return json.loads(shown.out)


class TestEvaluate:
    @pytest.mark.parametrize("policy", ["random", "left.npy", "{module}:right"])
    def test_an_environment(self, folder, capsys, policy):
        words = ["evaluate", "FrozenLake-v1", "--policy", policy.format(module=folder), "--steps", "4000"]
        answer = answer_of(capsys, *words, "--seed", "3", "--confidence", "0.9")
        chosen = {"random": "random", "left.npy": [0] * 16}.get(policy, lambda seen: 2)
        estimate = gb.evaluate("FrozenLake-v1", chosen, num_steps=4_000, seed=3, confidence=0.9)
        assert answer["gain"] == estimate.gain
        assert answer["gain_interval"] == estimate.to_dict()["gain_interval"]
        assert (answer["gain_interval"] == [None, None]) == (policy == "left.npy")  # it never earns anything
        assert answer["diagnostics"]["num_transitions"] == 4_000

    def test_settings_of_the_environment(self, folder, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", f"{folder}:right", "--steps", "2000"]
        sure = answer_of(capsys, *words, "--set", "is_slippery=false", "--chains", "2")
        assert sure["diagnostics"]["num_chains"] == 2
        assert sure["gain"] == 0.0
        assert any("never change" in warning for warning in sure["diagnostics"]["warnings"])

    def test_an_environment_of_ones_own(self, folder, capsys):
        words = ["--policy", f"{folder}:right", "--steps", "2000"]
        registered = answer_of(capsys, "evaluate", "FrozenLake-v1", *words)
        assert answer_of(capsys, "evaluate", f"{folder}:Lake", *words)["gain"] == registered["gain"]
        sure = answer_of(capsys, "evaluate", f"{folder}:Lake", *words, "--set", "is_slippery=false")
        assert sure["gain"] == 0.0
        assert cli.main(["evaluate", f"{folder}:made", *words, "--set", "x=1"]) == cli.WRONG_INPUT
        assert "is no class or function: leave out --set" in capsys.readouterr().err

    def test_a_log_in_csv(self, folder, capsys):
        named = ["--state", "position", "--reward", "earned"]
        parquet = answer_of(capsys, "evaluate", "log.parquet", *named)
        assert answer_of(capsys, "evaluate", "log.csv", *named)["gain"] == parquet["gain"]

    def test_features_and_step_sizes(self, folder, capsys):
        words = ["evaluate", "CliffWalking-v1", "--policy", "random", "--steps", "8000"]
        learning = ["--algorithm", "single-chain", "--step-size", "2,50"]
        answer = answer_of(capsys, *words, "--features", "fourier,4", *learning)
        assert answer["features"] == "fourier,4: 5 features"
        assert "Harmonic(a=2.0, c0=50.0)" in answer["diagnostics"]["algorithm"]
        np.save("rows.npy", np.stack([np.ones(48), np.arange(48)], axis=1))
        assert "matrix of 2 features" in answer_of(capsys, *words, "--features", "rows.npy")["features"]
        function = answer_of(capsys, *words, "--features", f"{folder}:line")
        assert function["features"] == "the given function: 1 features"

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            ("tile", "features must be 'auto', 'tiles', 'fourier', 'radial', 'polynomial'"),
            ("tiles,x", "numbers are expected after tiles, as in 'tiles,8,4', found 'tiles,x'"),
            ("fourier,3,3", "FourierBasis has fewer settings than 'fourier,3,3'"),
            ("fourier,0", "order must be a positive integer"),
        ],
    )
    def test_features_that_do_not_exist(self, capsys, features, message):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--features", features]
        assert cli.main(words) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err

    def test_columns_are_for_logs_only(self, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--state", "x"]
        assert cli.main(words) == cli.WRONG_INPUT
        said = "--state is for a log, and FrozenLake-v1 is an environment: leave out --state"
        assert said in capsys.readouterr().err

    def test_looking_more_than_once(self, folder, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--steps", "40000"]
        answer = answer_of(capsys, *words, "--anytime")
        estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=40_000, anytime=True)
        assert answer["gain_interval"] == estimate.to_dict()["gain_interval"]
        assert cli.main(["evaluate", "log.csv", "--anytime"]) == cli.WRONG_INPUT
        said = "--anytime is for an environment, and log.csv is a log: leave out --anytime"
        assert said in capsys.readouterr().err

    def test_an_environment_that_cannot_be_made(self, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--set", "colour=1"]
        assert cli.main(words) == cli.WRONG_INPUT
        assert "could not be made: TypeError" in capsys.readouterr().err

    def test_an_answer_is_not_lost_with_its_picture(self, folder, capsys, monkeypatch):
        def refused(figure, path):
            raise ValueError(f"no room for {path}")

        monkeypatch.setattr("matplotlib.figure.Figure.savefig", refused)
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--steps", "2000", "--json"]
        assert cli.main([*words, "--plot", "picture.png"]) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert json.loads(shown.out)["diagnostics"]["num_transitions"] == 2_000
        assert "no room for picture.png" in shown.err

    def test_a_table_for_people(self, folder, capsys):
        assert cli.main(["evaluate", "FrozenLake-v1", "--policy", "random", "--steps", "8000"]) == cli.DONE
        shown = capsys.readouterr().out
        for words in (
            "gain",
            "95% interval",
            "tabular",
            "least squares",
            "8,000 transitions",
            "Best and worst",
        ):
            assert words in shown

    def test_extremes_have_intervals_the_worst_first(self, folder, capsys):
        words = ["evaluate", "FrozenLake-v1", "--policy", "random", "--steps", "8000"]
        answer = answer_of(capsys, *words)
        estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=8_000)
        for entry in answer["best"] + answer["worst"]:
            assert entry["interval"] == list(estimate.value_interval(entry["observation"]))
        assert cli.main(words) == cli.DONE
        shown = re.findall(
            r"^(\d+)  +([+-]\S+)  +([+-]\S+) to ([+-]\S+)$", capsys.readouterr().out, re.MULTILINE
        )
        values = [float(value) for _, value, _, _ in shown]
        assert values[:3] == sorted(values, reverse=True)[:3]
        assert values[3:] == sorted(values)[:3]
        assert all(float(low) <= float(value) <= float(high) for _, value, low, high in shown)

    def test_a_log(self, folder, capsys):
        named = ["--state", "position", "--reward", "earned"]
        answer = answer_of(capsys, "evaluate", "log.parquet", *named)
        assert answer["gain"] == pytest.approx(1.0, abs=0.1)
        assert "policy that made the log" in answer["diagnostics"]["notes"][0]
        several = answer_of(capsys, "evaluate", "log.parquet", "--state", "x", "--state", "y", *named[2:])
        assert several["gain"] == answer["gain"]
        assert "tile coding" in several["features"]

    def test_a_log_that_goes_wrong_has_an_answer_and_another_exit_code(self, folder, capsys):
        words = ["evaluate", "damaged.parquet", "--state", "position", "--reward", "earned"]
        answer = answer_of(capsys, *words, code=cli.FAILED)
        assert answer["diagnostics"]["num_transitions"] == 1_999
        assert "row 2000 of the log: the reward is nan" in answer["diagnostics"]["warnings"][0]

    LOG = ("evaluate", "log.parquet", "--state", "position", "--reward", "earned")

    def test_kept_and_drawn(self, folder, capsys):
        words = ["evaluate", "log.parquet", "--state", "position", "--reward", "earned"]
        answer = answer_of(capsys, *words, "--save", "estimate.npz", "--plot", "figure.png")
        assert gb.load_estimate("estimate.npz").gain == answer["gain"]
        assert Path("figure.png").read_bytes().startswith(b"\x89PNG")

    def test_a_page_names_its_command(self, folder, capsys):
        words = ["evaluate", "log.parquet", "--state", "position", "--reward", "earned"]
        answer = answer_of(capsys, *words, "--page", "new/answer.html")
        page = Path("new/answer.html").read_text()
        assert '<span class="subject">log.parquet</span>' in page
        assert f"Average reward per step (gain)</span> {answer['gain']:.3f}</h1>" in page
        assert "gainbias evaluate log.parquet --state position --reward earned --page new/answer.html" in page

    @pytest.mark.parametrize("option", ["--page", "--save", "--plot"])
    def test_a_file_that_is_there_is_refused_before_any_work(self, folder, capsys, option):
        Path("taken.png").write_text("years of work")
        words = [*self.LOG, option, "taken.png"]
        assert cli.main(words) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "taken.png exists already: name another file, or replace it with --overwrite" in shown.err
        assert Path("taken.png").read_text() == "years of work"
        assert cli.main([*words, "--overwrite"]) == cli.DONE
        assert b"years of work" not in Path("taken.png").read_bytes()

    def test_a_figure_without_an_ending_is_a_png_that_is_not_overwritten(self, folder, capsys):
        Path("taken.png").write_text("years of work")
        assert cli.main([*self.LOG, "--plot", "taken"]) == cli.WRONG_INPUT
        assert "taken.png exists already" in capsys.readouterr().err
        assert Path("taken.png").read_text() == "years of work"
        assert cli.main([*self.LOG, "--plot", "other"]) == cli.DONE
        assert "figure: other.png" in capsys.readouterr().err.splitlines()
        assert Path("other.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize("place", ["taken", "log.csv/page.html"])
    def test_what_is_in_the_way_is_named_before_any_work(self, folder, capsys, place):
        Path("taken").mkdir()
        assert cli.main([*self.LOG, "--page", place, "--overwrite"]) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        assert re.search("taken is a folder: name a file|log.csv is a file, so", shown.err)

    def test_the_log_itself_is_never_overwritten(self, folder, capsys):
        before = Path("log.parquet").read_bytes()
        assert cli.main([*self.LOG, "--save", "./log.parquet", "--overwrite"]) == cli.WRONG_INPUT
        assert "log.parquet is the log itself" in capsys.readouterr().err
        assert Path("log.parquet").read_bytes() == before

    def test_one_file_for_two_things(self, folder, capsys):
        assert cli.main([*self.LOG, "--save", "one", "--page", "./one"]) == cli.WRONG_INPUT
        assert "--save, --plot and --page must name different files" in capsys.readouterr().err
        assert not Path("one").exists()

    @pytest.mark.parametrize("json_too", [[], ["--json"]])
    def test_it_says_where_files_are_and_what_folders_were_made(self, folder, capsys, json_too):
        files = ["--page", "new/er/a.html", "--plot", "new/a.png", "--save", "a.npz"]
        assert cli.main([*self.LOG, *files, *json_too]) == cli.DONE
        shown = capsys.readouterr()
        if json_too:
            assert "made the folder" not in shown.err
            answer = json.loads(shown.out)
            assert answer["written"] == {"estimate": "a.npz", "figure": "new/a.png", "page": "new/er/a.html"}
            assert answer["made_folders"] == ["new"]
        else:
            told = {"made the folder new", "page: new/er/a.html", "figure: new/a.png", "estimate: a.npz"}
            assert told <= set(shown.err.splitlines())
        assert all(Path(name).is_file() for name in files[1::2])

    def test_quiet_says_the_answer_alone(self, folder, capsys):
        assert cli.main([*self.LOG, "--page", "new/a.html", "--quiet"]) == cli.DONE
        shown = capsys.readouterr()
        assert shown.out.startswith("gain ")
        assert shown.err == ""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["FrozenLake-v1"], "an environment needs a policy: --policy random"),
            (["FrozenLake-v1", "--policy", "best"], "--policy must be random, FILE.npy or MODULE:NAME"),
            (["FrozenLake-v1", "--policy", "none.npy"], "there is no file none.npy"),
            (["FrozenLake-v1", "--policy", "odd.npy"], "odd.npy is no file of an array of numbers: "),
            (["FrozenLake-v1", "--policy", "json:best"], "module json has no best"),
            (["FrozenLake-v1", "--policy", "no_such:thing"], "there is no module no_such: in MODULE:NAME"),
            (["NoSuchLake-v1", "--policy", "random"], "NoSuchLake"),
            (["FrozenLake-v2", "--policy", "random"], "no environment 'FrozenLake-v2', only FrozenLake-v1"),
            (["FrozenLake-v0", "--policy", "random", "--set", "is_slippery=false"], "only FrozenLake-v1"),
            (["gymnasium:FrozenLake-v7", "--policy", "random"], "only FrozenLake-v1"),
            (["none.parquet"], "there is no file none.parquet"),
            (["none.csv"], "there is no file none.csv"),
            (["empty.csv"], "empty.csv is empty"),
            (["log.csv", "--policy", "random"], "say which column has them, --action ..."),
            (["log.csv", "--action", "x"], "--action is for another policy than the one that made the log"),
            (["log.csv", "--action", "x"], "say which, --policy ..., or leave out --action"),
            (["log.csv", "--ratio-features", "polynomial,2"], "or leave out --ratio-features"),
            (
                ["log.csv", "--action", "x", "--policy", "random", "--state", "y", "--reward", "earned"],
                "for continuous actions pass --features MODULE:NAME, which names gb.ActionFeatures(",
            ),
            (
                ["FrozenLake-v1", "--policy", "random", "--action", "a"],
                "FrozenLake-v1 is an environment: leave out --action",
            ),
            (["none"], "there is no file none, and an environment needs a policy"),
            (["none.jsonl"], "there is no file none.jsonl"),
            (["empty"], "there is no file empty: did you mean empty.csv?\n"),
            (["lok.parquet"], "there is no file lok.parquet: did you mean log.parquet?\n"),
            (["lok.csv", "--column", "x"], "there is no file lok.csv: did you mean log.csv?\n"),
            (["log.csv", "--column", "x", "--discount", "0.9"], "leave out --discount"),
            (["log.parquet"], "the log has no column of rewards (reward), it has position, earned"),
            (["log.parquet"], "or, for the mean of a column of plain numbers, --column ..."),
            (["log.parquet", "--policy", "random"], "say which column has them, --action ..."),
        ],
    )
    def test_wrong_input(self, folder, capsys, words, message):
        assert cli.main(["evaluate", *words]) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err


class TestSeries:
    """A column of numbers, in place of a log."""

    def test_a_column(self, folder, capsys):
        words = ["evaluate", "log.csv", "--column", "x", "--quantile", "0.2", "--quantile", "0.99"]
        answer = answer_of(capsys, *words, "--confidence", "0.9")
        x = np.random.default_rng(0).integers(0, 3, 3_000) / 2
        found = gb.evaluate_series(x, (0.2, 0.99), confidence=0.9)
        assert answer == json.loads(json.dumps(found.to_dict()))
        assert cli.main(words) == cli.DONE
        shown = capsys.readouterr().out
        for part in ("verdict", "steady", "p20", "p99", "3,000 numbers"):
            assert part in shown

    @pytest.mark.parametrize(
        ("typed", "words"),
        [
            (b"5\n7\n6\n5\n" * 500, []),
            (b"\xef\xbb\xbfms\n" + b"5\n7\n6\n5\n" * 500, []),
            (b"at,ms\n" + b"1,5\n2,7\n3,6\n4,5\n" * 500, ["--column", "ms"]),
        ],
    )
    def test_standard_input(self, capsys, monkeypatch, typed, words):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed)))
        answer = answer_of(capsys, "evaluate", "-", *words)
        assert (answer["mean"], answer["diagnostics"]["num_numbers"]) == (5.75, 2_000)

    def test_standard_input_may_be_a_log(self, capsys, monkeypatch):
        rows = "".join(f"{state},{2 * state}\n" for state in (0, 1, 0, 2) * 500)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"state,reward\n{rows}".encode())))
        assert answer_of(capsys, "evaluate", "-")["gain"] == pytest.approx(1.5, abs=0.01)

    @pytest.mark.parametrize(
        ("typed", "message"),
        [
            (b"", "standard input is empty"),
            (b"5\n6\nseven\n8\n", "row 2: number is the text 'seven'"),
            (
                b"7,a,1.5\n8,b,2.5\n",
                "the first line of a table names its columns, found 7, a, 1.5: keep that",
            ),
        ],
    )
    def test_wrong_standard_input_is_named_without_its_file(self, capsys, monkeypatch, typed, message):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed)))
        assert cli.main(["evaluate", "-"]) == cli.WRONG_INPUT
        said = capsys.readouterr().err
        assert message in said
        assert "standard-input.csv" not in said

    def test_notes_name_options_as_they_are_typed(self, folder, capsys):
        path = Path("timed.csv")
        path.write_text("at,ms\n" + "".join(f"{k},{k % 7}\n" for k in range(1_000)))
        words = ["evaluate", str(path), "--column", "ms"]
        assert cli.main(words) == cli.DONE
        assert "counts once; --time at gives a mean over time" in capsys.readouterr().err
        path.write_text("at,ms,host\n" + "".join(f"{k},{k % 7},h{k % 2}\n" for k in range(1_000)))
        assert cli.main([*words, "--group", "host"]) == cli.DONE
        assert "counts once; --time at gives a mean over time" in capsys.readouterr().err
        [note] = [x for x in answer_of(capsys, *words)["diagnostics"]["notes"] if "looks like times" in x]
        assert "time='at' gives" in note  # JSON is for programs, and has the words of Python

    def test_a_second_policy_is_not_taken_for_the_first(self, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main(["evaluate", "FrozenLake-v1", "--policy", "random", "--policy", "policy.npy"])
        assert caught.value.code == 2
        assert "evaluate takes one, gainbias compare two" in capsys.readouterr().err

    def test_options_are_in_groups(self, capsys):
        assert cli.main(["help", "evaluate", "--all"]) == cli.DONE
        shown = capsys.readouterr().out
        places = [shown.index(f"\n{name}:\n") for name in GROUPS]
        assert places == sorted(places)
        assert places[0] < shown.index("  --column") < places[1]
        assert places[4] < shown.index("  --chains") < places[5]

    @pytest.mark.parametrize(
        ("words", "option"),
        [
            (["log.csv", "--column", "x"], ["--steps", "500"]),
            (["log.csv", "--column", "x"], ["--seed", "1"]),
            (["log.csv", "--column", "x"], ["--set", "a=1"]),
            (["log.csv", "--column", "x"], ["--algorithm", "lstd"]),
            (["log.csv", "--column", "x"], ["--gaps", "break"]),
            (["log.csv", "--column", "x"], ["--time-limit", "9"]),
            (["log.csv", "--column", "x"], ["--reward-rate", "y"]),
            (["latencies.csv"], ["--anytime"]),
            (["log.csv", "--state", "position", "--reward", "earned"], ["--steps", "500"]),
            (["log.csv", "--state", "position", "--reward", "earned"], ["--chains", "2"]),
            (["log.csv", "--state", "position", "--reward", "earned"], ["--target-half-width", "0.1"]),
            (["log.csv", "--state", "position", "--reward", "earned"], ["--skip", "5"]),
            (["FrozenLake-v1", "--policy", "random"], ["--gaps", "break"]),
            (["FrozenLake-v1", "--policy", "random"], ["--skip", "5"]),
            (["FrozenLake-v1", "--policy", "random"], ["--end", "5"]),
        ],
    )
    def test_no_option_is_passed_over_in_silence(self, folder, capsys, words, option):
        assert cli.main(["evaluate", *words, *option]) == cli.WRONG_INPUT
        assert re.search(rf"{option[0]} is for .*: leave out {option[0]}", capsys.readouterr().err)

    @pytest.mark.parametrize("verb", ["evaluate", "compare"])
    def test_every_option_is_known_by_what_it_is_for(self, verb):
        known = {action.dest for action in verbs_of(cli.parser())[verb]._actions}
        meant = {name for names in options.MEANT_FOR.values() for name in names}
        assert known - meant <= FOR_ALL
        assert verb == "compare" or meant | FOR_ALL == known

    def test_the_help_fits_a_screen_and_names_the_rest(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit):
            cli.main(["evaluate", "--help"])
        short = capsys.readouterr().out
        assert len(short.splitlines()) <= 48
        for words in ("latencies.csv --column", "--time at", "--state position", "--policy random"):
            assert words in short.partition("examples:")[2]
        assert cli.main(["help", "evaluate", "--all"]) == cli.DONE
        whole = capsys.readouterr().out
        flags = [set(re.findall(r"^  (?:-h, )?(--[\w-]+)", text, re.MULTILINE)) for text in (short, whole)]
        assert flags[0] < flags[1]
        known = {flag for one in verbs_of(cli.parser())["evaluate"]._actions for flag in one.option_strings}
        assert known - flags[1] == {"-h", "--max-steps"}
        assert f"There are {len(flags[1] - flags[0])} more options: gainbias help evaluate --all" in short

    @pytest.mark.parametrize("name", ["--steps", "--max-steps"])
    def test_steps_are_the_most_on_the_way_to_a_width(self, name, capsys):
        words = [
            "evaluate",
            "FrozenLake-v1",
            "--policy",
            "random",
            "--target-half-width",
            "1e-5",
            name,
            "5000",
        ]
        assert answer_of(capsys, *words, code=cli.FAILED)["diagnostics"]["num_transitions"] == 5_000

    @pytest.mark.parametrize("ending", [".csv", ".txt", ".csv.gz", ".txt.bz2"])
    @pytest.mark.parametrize("head", ["ms\n", ""])
    def test_a_single_column_needs_no_name(self, folder, capsys, ending, head):
        path = Path(f"numbers{ending}")
        opened = {".csv": open, ".txt": open, ".csv.gz": gzip.open, ".txt.bz2": bz2.open}[ending]
        with opened(path, "wt") as file:
            file.write(head + "5.5\n7\n6\n5\n" * 500)
        answer = answer_of(capsys, "evaluate", str(path))
        assert (answer["mean"], answer["diagnostics"]["num_numbers"]) == (5.875, 2_000)
        assert answer_of(capsys, "evaluate", str(path), "--column", "ms" if head else "number") == answer
        assert gb.evaluate_series(path).mean == 5.875

    def test_a_first_line_that_may_be_a_name_or_a_number(self, folder, capsys):
        """pandas calls a column without a name 0; on standard input there is nothing but numbers."""
        Path("zero.csv").write_text("0\n" + "5.5\n7\n6\n5\n" * 500)
        assert cli.main(["evaluate", "zero.csv"]) == cli.WRONG_INPUT
        assert "if it is the name of the column, say --column 0" in capsys.readouterr().err
        assert answer_of(capsys, "evaluate", "zero.csv", "--column", "0")["mean"] == 5.875

    def test_a_single_column_of_rewards_stays_a_log(self, folder, capsys):
        Path("paid.csv").write_text("reward\n" + "5\n7\n6\n5\n" * 500)
        assert answer_of(capsys, "evaluate", "paid.csv")["gain"] == 5.75
        assert answer_of(capsys, "evaluate", "latencies.csv", "--reward", "ms")["per"] == "step"

    def test_tabs_may_separate_columns(self, folder, capsys):
        Path("table.tsv").write_text("at\tms\n" + "".join(f"{k}\t{k % 7}\n" for k in range(700)))
        assert answer_of(capsys, "evaluate", "table.tsv", "--column", "ms")["mean"] == 3.0

    def test_events_without_states_show_what_means_something(self, folder, capsys):
        words = ["evaluate", "events.csv", "--time", "at"]
        assert cli.main([*words, "--reward-rate", "queue"]) == cli.DONE
        shown = capsys.readouterr()
        assert not re.search("^(features|method|split R-hat)", shown.out, re.MULTILINE)
        assert "once per row" not in shown.err
        said = (
            "column queue was read as a level that holds for as long as the row lasts: the gain is its mean"
        )
        assert f"note: {said}" in shown.err
        assert cli.main([*words, "--reward", "queue"]) == cli.DONE
        said = "column queue was counted once per row; if it is a level that holds until the next row"
        assert re.search(f"^note: {said}.*, say --reward-rate queue$", capsys.readouterr().err, re.MULTILINE)
        shown = repr(gb.evaluate_log("events.csv", time="at", reward_rate="queue"))
        assert [line.split()[0] for line in shown.splitlines()[:3]] == ["gain", "verdict", "data"]

    def test_how_long_a_column_must_be(self, folder, capsys):
        words = ["evaluate", "log.csv", "--column", "x", "--quantile", "0.9", "--target-half-width", "0.005"]
        mean, level = answer_of(capsys, *words)["lengths"]
        found = gb.evaluate_series(np.random.default_rng(0).integers(0, 3, 3_000) / 2, 0.9)
        assert mean == asdict(found.steps_for(0.005))
        assert level == asdict(found.steps_for(0.005, level=0.9))
        assert mean["steps"] > 3_000
        assert cli.main(words) == cli.DONE
        shown = capsys.readouterr().out
        assert "length for mean" in shown
        assert "length for p90" in shown

    def test_a_ratio_without_a_beginning_in_a_file(self, folder, capsys):
        words = ["evaluate", "log.parquet", "--column", "x", "--ratio-to", "y", "--skip", "1e2"]
        answer = answer_of(capsys, *words, "--save", "kept/series.npz")
        assert answer["mean"] == pytest.approx(-0.5)
        assert answer["is_ratio"] is True
        assert answer["warm_up"] == 100
        assert answer["written"] == {"estimate": "kept/series.npz"}
        assert gb.load_series("kept/series.npz").mean == answer["mean"]
        assert cli.main([*words, "--save", "kept/series.npz"]) == cli.WRONG_INPUT
        assert "kept/series.npz" in capsys.readouterr().err
        assert cli.main(words) == cli.DONE
        shown = capsys.readouterr().out
        assert "ratio" in shown
        assert "mean" not in shown

    def test_groups(self, folder, capsys):
        words = ["evaluate", "log.csv", "--column", "x", "--group", "position"]
        answer = answer_of(capsys, *words)
        assert sorted(answer) == ["0", "1", "2"]
        assert answer["2"]["mean"] == 1.0
        assert cli.main(words) == cli.DONE
        assert "constant" in capsys.readouterr().out

    def test_a_damaged_column(self, folder, capsys):
        words = ["evaluate", "damaged.parquet", "--column", "earned"]
        answer = answer_of(capsys, *words, code=cli.FAILED)
        assert answer["diagnostics"]["num_numbers"] == 2_000
        assert answer["diagnostics"]["warnings"][0].startswith("cut short after 2,000 numbers: row 2000")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ["log.csv", "--quantile", "0.5"],
                "--quantile is for a column of numbers, and log.csv is a log: leave out --quantile, or say "
                "which column, --column ...",
            ),
            (["log.csv", "--ratio-to", "x"], "--ratio-to is for a column"),
            (["log.csv", "--column", "x", "--quantile", "99"], "say 0.99 for 99%"),
            (["log.csv", "--column", "x", "--state", "y"], "leave out --state"),
            (["log.csv", "--column", "x", "--policy", "random"], "leave out --policy"),
            (["log.csv", "--column", "x", "--group", "y", "--plot", "a.png"], "--plot is for one series"),
            (["log.csv", "--column", "x", "--group", "y", "--save", "a.npz"], "--save is for one series"),
            (
                ["log.csv", "--column", "x", "--target-half-width", "-1"],
                "must be a positive number, found -1",
            ),
            (
                ["log.csv", "--column", "x", "--group", "y", "--target-half-width", "1"],
                "--target-half-width is for one series",
            ),
            (["log.csv", "--column", "xx"], "there is no column 'xx'"),
            (["none.jsonl", "--column", "x"], "there is no file none.jsonl"),
            (["empty.csv", "--column", "x"], "empty.csv is empty"),
        ],
    )
    def test_wrong_input(self, folder, capsys, words, message):
        assert cli.main(["evaluate", *words]) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err


class TestCompare:
    def test_two_policies(self, folder, capsys):
        words = ["compare", "FrozenLake-v1", "--policy", "random", "--policy", "left.npy", "--steps", "4000"]
        answer = answer_of(capsys, *words)
        comparison = gb.compare("FrozenLake-v1", "random", [0] * 16, num_steps=4_000)
        assert answer["difference"] == comparison.difference
        assert cli.main(words) == cli.DONE
        shown = capsys.readouterr()
        for part in ("difference of gains", "gain of the second", "independent runs of"):
            assert part in shown.out
        assert re.search("^verdict  +the first is better, but mind the warnings$", shown.out, re.MULTILINE)
        assert re.search("^gain of the second  +0 per step, no interval$", shown.out, re.MULTILINE)
        assert "pairing saves nothing here" in shown.out  # the second never earns anything
        assert shown.err.count("never change") == 1

    def test_warnings_of_both_are_told_once(self, folder, capsys):
        policies = ["--policy", "left.npy", "--policy", "left.npy"]
        assert cli.main(["compare", "FrozenLake-v1", *policies, "--steps", "2000"]) == cli.DONE
        shown = capsys.readouterr()
        assert "warning: both policies: the numbers never change" in shown.err
        assert shown.err.count("never change") == 1
        assert "not clear which is better" in shown.out
        assert "both earned the same in every step" in shown.out + shown.err

    def test_cuts_inside_the_environment(self, folder, capsys):
        with Path(f"{folder}.py").open("a") as module:
            module.write(
                "\n\nclass Short(Lake):\n    def reset(self, **how):\n        self.count = 0\n"
                "        return super().reset(**how)\n\n    def step(self, action):\n"
                "        self.count += 1\n        return super().step(action)[0], self.count, False, "
                "self.np_random.random() < 0.2, {}\n"
            )
        words = ["compare", f"{folder}:Short", "--policy", "random", "--policy", f"{folder}:right"]
        answer = answer_of(capsys, *words, "--features", f"{folder}:line", "--steps", "20000")
        assert any(warning.startswith("first policy: after each cut") for warning in answer["warnings"])
        assert answer["is_clear"] is False

    ON_LOG = (
        *("compare", "log.parquet", "--state", "position", "--reward", "earned", "--action", "choice"),
        *("--policy", "new.npy", "--policy", "random"),
    )

    def test_two_policies_on_a_log(self, folder, capsys):
        answer = answer_of(capsys, *self.ON_LOG)
        columns = {"state": "position", "reward": "earned", "action": "choice"}
        comparison = gb.compare_policies_on_log("log.parquet", [0, 1, 1], "random", **columns)
        assert answer["difference"] == comparison.difference
        assert answer["interval"] == list(comparison.interval)
        assert cli.main(self.ON_LOG) == cli.DONE
        shown = " ".join(capsys.readouterr().out.split())
        worth = comparison.first.target.overlap.effective_sample_size
        assert (
            f"overlap of the first 2,999 steps of the log are worth about {float(f'{worth:.1e}'):,.0f}"
            in shown
        )
        assert "overlap of the second" in shown

    def test_how_a_log_is_read_and_what_made_it(self, folder, capsys):
        """Every option of the log and of the question reaches the answer."""
        random = np.random.default_rng(3)
        states, actions = random.integers(0, 3, 4_000), random.integers(0, 2, 4_000)
        log = {"here": states, "paid": 1.0 * states * actions, "done": actions, "dt": 1.0 + states}
        with Path("timed.csv").open("w") as file:
            print(*log, sep=",", file=file)
            for row in zip(*log.values(), strict=True):
                print(*row, sep=",", file=file)
        np.save("half.npy", np.full((3, 2), 0.5))
        words = ["compare", "timed.csv", "--state", "here", "--reward", "paid", "--action", "done"]
        words += ["--duration", "dt", "--behaviour", "half.npy", "--policy", "new.npy", "--policy", "random"]
        answer = answer_of(capsys, *words, "--features", "auto", "--per", "2", "--confidence", "0.9")
        columns = {"state": "here", "reward": "paid", "action": "done", "duration": "dt", "per": 2.0}
        made = {"behaviour": np.full((3, 2), 0.5), "confidence": 0.9}
        comparison = gb.compare_policies_on_log("timed.csv", [0, 1, 1], "random", **columns, **made)
        assert answer["interval"] == list(comparison.interval)
        assert answer["per"] == comparison.per != "step"
        np.save("half.npy", np.eye(2)[[0, 1, 1]])
        assert cli.main(words) == cli.WRONG_INPUT
        assert "it cannot have made this log" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((*ON_LOG, "--algorithm", "lstd"), "compared by the usual method: leave out --algorithm"),
            ((*ON_LOG, "--policy", "random"), "two policies are compared, found 3"),
            ((*ON_LOG[:6], *ON_LOG[8:]), "say which column has them, --action ..."),
            (("compare", "FrozenLake-v1", *ON_LOG[2:]), "FrozenLake-v1 is an environment: leave out --state"),
            (("compare", "FrozenLake-v1", "--time", "t", *ON_LOG[8:]), "an environment: leave out --time"),
            (("compare", "FrozenLake-v1", "--action", "a", *ON_LOG[8:]), "environment: leave out --action"),
            ((*ON_LOG, "--steps", "500"), "--steps is for an environment, and log.parquet is a log"),
        ],
    )
    def test_wrong_input_on_a_log(self, folder, capsys, words, message):
        assert cli.main(words) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err

    def test_one_policy(self, capsys):
        assert cli.main(["compare", "FrozenLake-v1", "--policy", "random"]) == cli.WRONG_INPUT
        assert "two policies are compared, found 1" in capsys.readouterr().err


class TestHelp:
    @pytest.mark.parametrize("verb", ["evaluate", "compare", "report"])
    def test_it_shows_an_example(self, verb, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main([verb, "--help"])
        assert caught.value.code == cli.DONE
        assert re.search(rf"examples?:\n  (python.*\n  )?gainbias {verb} ", capsys.readouterr().out)

    @pytest.mark.parametrize("example", [options.EVALUATE_EXAMPLE, options.COMPARE_EXAMPLE])
    def test_the_examples_work(self, folder, example):
        commands = "\n".join(line.strip() for line in example.splitlines() if line.startswith("  "))
        assert "per step" in self.shown_by(commands)
        assert Path("answer.html").exists() == ("answer.html" in example)

    def test_the_example_of_a_stored_estimate_works(self, folder):
        commands = "\n".join(line.strip() for line in options.REPORT_EXAMPLE.splitlines() if "lake" in line)
        assert commands.count("gainbias ") == 2
        assert "lake.html" in self.shown_by(commands)
        assert Path("lake.html").exists()

    @staticmethod
    def shown_by(commands):
        commands = commands.replace("gainbias ", f"{sys.executable} -m gainbias ")
        commands = commands.replace("python -c", f"{sys.executable} -c")
        return subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, check=True).stdout
