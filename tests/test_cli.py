"""The command line: its answers, its examples and its exit codes."""

import contextlib
import errno
import importlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias import cli
from gainbias.cli import doctor, options

TRANSITIONS, REWARDS = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([1.0, -2.0])


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.npz"
    np.savez(path, transitions=TRANSITIONS, rewards=REWARDS, labels=np.array(["up", "[down]"]))
    return str(path)


def answer_of(capsys, *arguments):
    assert cli.main([*arguments, "--json"]) == cli.DONE
    return json.loads(capsys.readouterr().out)


class TestSolve:
    def test_table(self, machine, capsys):
        assert cli.main(["solve", machine]) == cli.DONE
        shown = capsys.readouterr().out
        for words in (
            "gain",
            "0.5",
            "method",
            "error bound",
            "states",
            "seconds",
            "[down]",
            "-4.16666666667",
        ):
            assert words in shown

    def test_json(self, machine, capsys):
        answer = answer_of(capsys, "solve", machine)
        solution = gb.solve(gb.MarkovRewardProcess(TRANSITIONS, REWARDS))
        assert answer["gain"] == solution.gain
        assert answer["method"] == solution.method
        assert answer["num_states"] == 2
        assert 0 <= answer["error_bound"] <= 1e-10
        assert answer["gain_error"] == solution.gain_error
        assert answer["bias_error"] == solution.bias_error.max()
        assert answer["stationary_error_total"] == solution.stationary_error_total < 1e-15
        assert answer["asymptotic_variance_error"] == solution.asymptotic_variance_error
        assert answer["fingerprint"] == solution.mrp.fingerprint
        assert answer["seconds"] > 0
        low, high = answer["lowest_bias"], answer["highest_bias"]
        assert [entry["label"] for entry in low] == ["[down]", "up"]
        assert [entry["state"] for entry in high] == [0, 1]
        assert high[0]["bias"] == solution.bias[0]
        assert high[0]["bias_error"] == solution.bias_error[0]

    @pytest.mark.parametrize("form", ["csr", "csc", "coo"])
    def test_sparse_parts_as_scipy_saves_them(self, tmp_path, capsys, form):
        path = tmp_path / "sparse.npz"
        sparse.save_npz(path, sparse.csr_array(TRANSITIONS).asformat(form))
        with np.load(path) as parts:
            np.savez(path, **dict(parts), rewards=REWARDS)
        answer = answer_of(capsys, "solve", str(path))
        assert answer["gain"] == pytest.approx(0.5, rel=1e-12)
        assert "label" not in answer["lowest_bias"][0]

    def test_rewards_of_transitions(self, tmp_path, capsys):
        path = tmp_path / "rewards.npz"
        np.savez(path, transitions=TRANSITIONS, rewards=[[1, 1], [-2, -2]])
        assert answer_of(capsys, "solve", str(path))["gain"] == pytest.approx(0.5, rel=1e-12)

    def test_options_are_passed_on(self, machine, capsys, monkeypatch):
        seen = {}

        def solve(process, **options):
            seen.update(options)
            return real(process)

        real = gb.solve
        monkeypatch.setattr(gb, "solve", solve)
        answer_of(capsys, "solve", machine, "--tol", "1e-6", "--method", "power", "--device", "gpu")
        assert seen == {"tol": 1e-6, "method": "power", "device": "gpu"}


class TestExitCodes:
    def refused(self, capsys, *arguments):
        assert cli.main(arguments) == cli.WRONG_INPUT
        shown = capsys.readouterr()
        assert shown.out == ""
        return shown.err

    def test_missing_file(self, capsys):
        assert "there is no file missing.npz" in self.refused(capsys, "solve", "missing.npz")

    def test_missing_arrays(self, tmp_path, capsys):
        path = tmp_path / "wrong.npz"
        np.savez(path, transitions=TRANSITIONS)
        assert f"{path} holds ['transitions'], must be an .npz file with" in self.refused(
            capsys, "solve", str(path)
        )
        np.savez(path, rewards=REWARDS)
        assert f"{path} holds ['rewards'], must be" in self.refused(capsys, "solve", str(path))

    def test_another_kind_of_file(self, tmp_path, capsys):
        path = tmp_path / "array.npy"
        np.save(path, TRANSITIONS)
        message = f"gainbias: {path} is not an .npz file, must be an .npz file with the array `rewards`"
        assert message in self.refused(capsys, "solve", str(path))

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    @pytest.mark.parametrize("part", ["transitions", "rewards"])
    def test_a_damaged_file(self, tmp_path, capsys, save, part):
        path = tmp_path / "damaged.npz"
        save(path, transitions=TRANSITIONS, rewards=REWARDS)
        content = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(f"{part}.npy")
        name_length, extra_length = content[entry.header_offset + 26], content[entry.header_offset + 28]
        start = entry.header_offset + 30 + name_length + extra_length
        content[start if save is np.savez_compressed else start + entry.compress_size - 1] ^= 0xFF
        path.write_bytes(content)
        message = self.refused(capsys, "solve", str(path))
        assert message.startswith(f"gainbias: {path} is damaged (")
        assert message.endswith("): write it again\n")
        assert message.count("\n") == 1

    @pytest.mark.parametrize("labels", [3, "up"])
    def test_labels_that_are_no_list(self, tmp_path, capsys, labels):
        path = tmp_path / "labels.npz"
        np.savez(path, transitions=TRANSITIONS, rewards=REWARDS, labels=labels)
        message = self.refused(capsys, "solve", str(path))
        assert message.startswith("gainbias: labels must be a sequence with one label per state, found ")
        assert message.count("\n") == 1

    def test_pickled_objects_are_not_loaded(self, tmp_path, capsys):
        path = tmp_path / "objects.npz"
        np.savez(path, transitions=TRANSITIONS.astype(object), rewards=REWARDS)
        assert "allow_pickle=False" in self.refused(capsys, "solve", str(path))

    def test_wrong_process(self, tmp_path, capsys):
        path = tmp_path / "rows.npz"
        np.savez(path, transitions=2 * TRANSITIONS, rewards=REWARDS)
        assert "gainbias: row 0 of transitions sums to 2, must be 1" in self.refused(
            capsys, "solve", str(path)
        )

    def test_unknown_method(self, machine, capsys):
        assert "magic" in self.refused(capsys, "solve", machine, "--method", "magic")

    @pytest.mark.parametrize("arguments", [["slove"], ["solve"], ["solve", "a.npz", "--tol", "x"]])
    def test_wrong_words(self, arguments, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == cli.WRONG_INPUT

    @pytest.mark.parametrize("error", [gb.ConvergenceError("1e-3 reached"), KeyboardInterrupt()])
    def test_a_run_that_fails(self, machine, capsys, monkeypatch, error):
        def solve(process, **options):
            raise error

        monkeypatch.setattr(gb, "solve", solve)
        assert cli.main(["solve", machine]) == cli.FAILED
        assert "gainbias: " + (str(error) or "interrupted") in capsys.readouterr().err


class TestDoctor:
    def test_versions_and_optional_parts(self, capsys):
        answer = answer_of(capsys, "doctor")
        assert answer["versions"]["numpy"] == np.__version__
        assert answer["versions"]["gainbias"] == gb.__version__
        assert set(answer["versions"]) == {"python", "gainbias", "numpy", "scipy", "numba", "rich"}
        assert set(answer["extras"]) == {"solvers", "gym", "mo", "report", "data", "cluster", "gpu"}

    def test_threads(self, capsys, monkeypatch):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
        assert answer_of(capsys, "doctor")["threads"]["linear_algebra"] == 3
        cli.main(["doctor"])
        assert "threads: 3" in capsys.readouterr().out
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert answer_of(capsys, "doctor")["threads"]["linear_algebra"] is None

    def test_compiled_kernels(self, capsys, monkeypatch, tmp_path):
        (tmp_path / "engine").mkdir()
        (tmp_path / "engine" / "advance.nbi").write_bytes(bytes(1_000_000))
        (tmp_path / "engine" / "advance.nbc").write_bytes(bytes(2_000_000))
        monkeypatch.setattr(doctor, "cache_folder", lambda: tmp_path)
        found = answer_of(capsys, "doctor")["kernels"]
        assert (found["folder"], found["stored"], found["megabytes"]) == (str(tmp_path), 1, 3.0)
        monkeypatch.setattr(doctor, "cache_folder", lambda: None)
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        cli.main(["doctor"])
        shown = capsys.readouterr().out
        assert "not kept" in shown
        assert "NUMBA_DISABLE_JIT is set" in shown

    def test_how_to_install_what_is_missing(self, capsys, monkeypatch):
        monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == "pymetis" else "1.0")
        assert cli.main(["doctor"]) == cli.DONE
        assert "missing: pip install 'gainbias[solvers]'" in capsys.readouterr().out


class TestHelp:
    @pytest.mark.parametrize(
        "verb", [[], *([verb] for verb in cli.VERBS)], ids=lambda words: " ".join(words) or "none"
    )
    def test_each_help_shows_an_example(self, verb, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main([*verb, "--help"])
        assert caught.value.code == cli.DONE
        assert re.search(r"examples?:\n(  .*\n)*?  gainbias ", capsys.readouterr().out)

    def test_the_example_works(self, tmp_path):
        commands = re.sub("^  ", "", options.SOLVE_EXAMPLE.removeprefix("examples:\n"), flags=re.MULTILINE)
        folder = Path(sys.executable).parent
        shown = subprocess.run(
            ["bash", "-ec", f'PATH="{folder}:$PATH"\n{commands}'],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert re.search(r"^gain  +0\.5$", shown, re.MULTILINE)


class TestOutput:
    def test_quiet_shows_the_answer_and_errors_alone(self, machine, capsys):
        assert cli.main(["solve", machine, "--quiet"]) == cli.DONE
        shown = capsys.readouterr()
        assert "\ngain               0.5\n" in shown.out
        assert shown.err == ""
        assert cli.main(["solve", "missing.npz", "--quiet"]) == cli.WRONG_INPUT
        assert capsys.readouterr().err.startswith("gainbias: ")

    def test_quiet_json_is_json(self, machine, capsys):
        assert answer_of(capsys, "solve", machine, "--quiet")["gain"] == pytest.approx(0.5)

    def test_quiet_has_no_bar(self, machine, monkeypatch):
        from gainbias.progress import Watch

        seen = []
        monkeypatch.setitem(cli.VERBS, "doctor", lambda _: seen.append(Watch._outermost) or cli.DONE)
        cli.main(["doctor", "--quiet"])
        cli.main(["doctor"])
        assert seen[0] is not None  # somebody else would have the bar
        assert seen[1] is None

    @pytest.mark.parametrize("is_terminal", [False, True])
    def test_colours_only_on_terminals(self, machine, is_terminal):
        """A table is shown in a pseudo-terminal, and in a file."""
        import os
        import pty

        command = [sys.executable, "-m", "gainbias", "solve", machine]
        environment = {**os.environ, "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "FORCE_COLOR"):
            environment.pop(name, None)
        if not is_terminal:
            shown = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
        else:
            ours, theirs = pty.openpty()
            process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # raised at its end
                while piece := os.read(ours, 4096):
                    shown += piece
            os.close(ours)
            assert process.wait() == cli.DONE
        assert b"gain" in shown
        assert (b"\x1b[" in shown) == is_terminal


class TestList:
    @pytest.mark.parametrize("columns", ["80", "200"])
    def test_table_names_every_algorithm(self, columns, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", columns)
        assert cli.main(["list", "algorithms"]) == cli.DONE
        shown = capsys.readouterr().out
        for name in gb.ALGORITHMS:
            assert name in shown

    def test_json_marks_what_was_rebuilt_from_a_description(self, capsys):
        """What the text of an algorithm says of itself, its entry says, too, and the other way round."""
        marked = {e["id"] for e in answer_of(capsys, "list", "algorithms") if e["reconstructed"]}
        said = set()
        for name in gb.ALGORITHMS:
            module = importlib.import_module(f"gainbias.algorithms.{name.replace('-', '_')}")
            if re.search("[Rr]econstructed|[Rr]ebuilt", module.__doc__):
                said.add(name)
        assert marked == said
        assert "projected-td" in marked

    def test_json_maps_every_row_of_the_paper(self, capsys):
        rows = " ".join(entry["table_row"] for entry in answer_of(capsys, "list", "algorithms"))
        for author in (
            "Tsitsiklis",
            "Blaser",
            "Zhang",
            "Haque",
            "Kim",
            "Chen",
            "Li",
            "double chain",
            "Bhandari",
        ):
            assert author in rows, author

    def test_tasks(self, capsys):
        entries = answer_of(capsys, "list", "tasks")
        assert [entry["id"] for entry in entries] == list(gb.TASKS)
        assert [entry["in_the_paper"] for entry in entries] == [True] * 15 + [False] * 9

    def test_the_table_of_tasks_says_which_are_the_papers(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        assert cli.main(["list", "tasks"]) == cli.DONE
        shown = capsys.readouterr().out
        for name, recipe in gb.TASKS.items():
            assert re.search(rf"^{name}  +{'yes' if recipe.paper else '-'}  ", shown, re.MULTILINE), name


class TestTasks:
    def test_solve(self, capsys):
        answer = answer_of(capsys, "solve", "random-walk-50", "--seed", "3")
        assert answer["gain"] == gb.task("random-walk-50", seed=3).problem.solution.gain

    @pytest.mark.parametrize("name", gb.TASKS)
    def test_solve_and_run_take_every_task(self, name, capsys):
        problem = gb.task(name, num_features=3).problem
        words = [name, "--set", "num-features=3"]
        assert answer_of(capsys, "solve", *words)["gain"] == problem.solution.gain
        answer = answer_of(capsys, "run", *words, "--steps", "200")
        assert answer["exact_gain"] == problem.solution.gain
        assert [lane["outcome"] for lane in answer["lanes"]] == ["finished"]

    @pytest.mark.parametrize("name", [name for name, recipe in gb.TASKS.items() if recipe.paper is None])
    def test_defaults_of_run_learn_the_gain_of_tasks_that_are_not_the_papers(self, name, capsys):
        answer = answer_of(capsys, "run", name)
        (lane,) = answer["lanes"]
        assert lane["outcome"] == "finished"
        solution = gb.task(name).problem.solution
        error = np.sqrt(solution.asymptotic_variance / answer["num_steps"])
        assert abs(lane["gain"] - answer["exact_gain"]) < max(0.01, 8.0 * error)
        assert lane["error_centred"] < np.linalg.norm(solution.bias)

    def test_settings_of_a_task(self, capsys):
        words = ["solve", "access-control", "--set", "least-free=[9,4,1,1]", "--set", "num_servers=9"]
        task = gb.task("access-control", least_free=[9, 4, 1, 1], num_servers=9)
        assert answer_of(capsys, *words)["gain"] == task.problem.solution.gain

    def test_run(self, capsys):
        words = ["run", "random-walk-50", "--steps", "500", "--seeds", "2", "--step-size", "1,100"]
        answer = answer_of(capsys, *words)
        problem = gb.task("random-walk-50").problem
        trace = gb.run("single-chain", problem, 500, gb.Harmonic(1, 100), seeds=range(2))
        assert [lane["error_full"] for lane in answer["lanes"]] == trace.errors()[:, -1].tolist()
        assert answer["exact_gain"] == problem.solution.gain
        assert cli.main(words) == cli.DONE
        assert "exact gain" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["run", "frozenlake"], "unknown task 'frozenlake': did you mean 'frozen-lake'?"),
            (["run", "random-walk-50", "--algorithm", "sarsa"], "unknown algorithm 'sarsa'"),
            (["run", "random-walk-50", "--step-size", "big"], "--step-size must be one to three numbers"),
            (["run", "random-walk-50", "--step-size", "1,2,3,4"], "--step-size must be one to three numbers"),
            (["run", "random-walk-50", "--param", "x"], "--param and --set take NAME=VALUE, found 'x'"),
            (["solve", "random-walk-50", "--set", "size=3"], "random-walk-50 has no setting 'size'"),
            (["solve", "inventory", "--set", "reorder_at=20"], "reorder_at must be below order_up_to"),
            (["run", "garnet", "--set", "branching=x"], "branching must be an integer"),
        ],
    )
    def test_wrong_input(self, words, message, capsys):
        assert cli.main(words) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (MemoryError("Unable to allocate 6.94 EiB"), "not enough memory: Unable to allocate 6.94 EiB"),
            (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        ],
    )
    def test_a_machine_that_is_too_small_is_no_wrong_input(self, error, message, capsys, monkeypatch):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(gb, "solve", fail)
        assert cli.main(["solve", "two-loop"]) == cli.FAILED
        assert message in capsys.readouterr().err
