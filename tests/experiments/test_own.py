"""Studies with processes, problems, tasks and algorithms of the user: what is run, counted and imported."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from gainbias import cli
from gainbias.experiments import provenance
from gainbias.experiments.inspection import estimate, status, verify
from gainbias.experiments.own import PROBLEMS, as_own_problem, read_problem
from gainbias.experiments.results import Results
from gainbias.experiments.runner import OutdatedError
from gainbias.experiments.study import read_study
from gainbias.experiments.units import WrongEnvironmentError, answer_of, unit_fault
from tests.experiments.cluster import cluster
from tests.experiments.small import forget

MODULE = '''
"""Things of a user."""
from typing import NamedTuple

import numpy as np

import gainbias as gb
from gainbias import axpy, dot
from {helper} import chance


def make_task(seed, bias=0.5):
    p = chance(bias)
    return gb.MarkovRewardProcess([[1 - p, p], [p, 1 - p]], [float(seed), 1.0])


def make_nothing(seed):
    return seed


class Params(NamedTuple):
    pull: float = 0.0


class State(NamedTuple):
    weights: np.ndarray
    gain: np.ndarray


def init(setting, params):
    return State(setting.weights.copy(), np.zeros(1))


def step(state, params, rows, move, step_size):
    after, here = dot(rows, move.after, state.weights), dot(rows, move.here, state.weights)
    error = move.reward - state.gain[0] + after - here
    axpy(rows, move.here, step_size * error, state.weights)
    state.gain[0] += step_size * (move.reward - state.gain[0])


MINE = gb.Algorithm(name="mine", form=gb.Form(init, step), params=Params)
'''
PROCESS = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, -2.0])
COMMON = {"step_size": [0.1], "num_steps": 40, "checkpoints": 2, "instances": 2, "name": "own"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A user's module next to a description, and one that it imports; neither is on Python's path yet."""
    name = f"things_{abs(hash(str(tmp_path))) % 10**8}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(helper=f"{name}_helper"))
    (tmp_path / f"{name}_helper.py").write_text("def chance(bias):\n    return bias\n")
    (tmp_path / "unrelated.py").write_text("A = 1\n")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield name
    forget()
    for loaded in [one for one in sys.modules if one.startswith(name)]:
        del sys.modules[loaded]


def written(folder: Path, *lines: str) -> Path:
    file = folder / "own.toml"
    start = "step_size = [0.1]\nnum_steps = 40\ncheckpoints = 2\ninstances = 2\n"
    file.write_text(start + "\n".join(lines))
    return file


def with_module(tmp_path: Path, module: str) -> Path:
    return written(
        tmp_path,
        f'tasks = ["{module}:make_task", {{ id = "{module}:make_task", bias = [0.2, 0.3] }}]',
        f'algorithms = ["td-lambda", {{ id = "{module}:MINE", params = {{ pull = [0.0, 1.0] }} }}]',
    )


class TestReferences:
    def test_what_is_run_is_what_the_functions_make(self, tmp_path: Path, module: str) -> None:
        results = gb.sweep(with_module(tmp_path, module), tmp_path / "results", workers=1)
        runs = results.to_frame()
        assert set(runs.task) == {f"{module}:make_task"}
        assert len(runs[["settings", "algorithm", "instance", "pull"]].drop_duplicates()) == 3 * 2 * 3
        mine = sys.modules[module]
        problem = gb.Problem(mine.make_task(1, bias=0.3), gb.Tabular())
        trace = gb.run(mine.MINE, problem, 40, 0.1, seeds=1, checkpoints=2)
        rows = runs[
            (runs.algorithm == f"{module}:MINE") & (runs.settings == '{"bias": 0.3}') & (runs.pull == 0.0)
        ]
        assert rows[rows.instance == 1].error.tolist() == trace.errors("quotient")[0].tolist()

    def test_nothing_is_imported_to_look_at_a_folder(self, tmp_path: Path, module: str, capsys) -> None:
        """Not even if the module is there, and would leave a mark."""
        file, folder = with_module(tmp_path, module), tmp_path / "results"
        gb.sweep(file, folder, workers=1)
        mark = tmp_path / "imported"
        for name in (module, f"{module}_helper"):
            del sys.modules[name]
            (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
        assert status(folder).state == "finished"
        assert cli.main(["sweep", "--status", str(folder)]) == cli.DONE
        assert cli.main(["report", str(folder), "--output", str(tmp_path / "page.html")]) == cli.DONE
        capsys.readouterr()
        assert cli.main(["sweep", "--verify", str(folder)]) == cli.WRONG_INPUT
        assert (
            f"names {module}:MINE, {module}:make_task, which is imported only if" in capsys.readouterr().err
        )
        assert not mark.exists()
        assert module not in sys.modules

    def test_verify_imports_what_the_user_names(self, tmp_path: Path, module: str) -> None:
        file, folder = with_module(tmp_path, module), tmp_path / "results"
        gb.sweep(file, folder, workers=1)
        found = verify(folder, 3, study=read_study(file), workers=1)
        assert (found.checked, found.identical, found.passed) == (3, 3, True)
        other = read_study(written(tmp_path, 'tasks = ["boyan-chain"]', 'algorithms = ["td-lambda"]'))
        with pytest.raises(ValueError, match=f"names {module}:MINE"):
            verify(folder, 3, study=other, workers=1)

    @pytest.mark.parametrize(
        ("name", "counts"), [("{}.py", True), ("{}_helper.py", True), ("unrelated.py", False)]
    )
    def test_its_source_counts_and_what_it_imports(
        self, tmp_path: Path, module: str, name: str, counts: bool
    ) -> None:
        file, folder = with_module(tmp_path, module), tmp_path / "results"
        gb.sweep(file, folder, workers=1)
        with open(tmp_path / name.format(module), "a") as source:
            source.write("# A comment.\n")
        forget()
        assert gb.sweep(file, folder, workers=1, resume=True).manifest["reused"] == 12
        with open(tmp_path / name.format(module), "a") as source:
            source.write("ANOTHER = 1\n")
        forget()
        if counts:
            with pytest.raises(OutdatedError, match=rf"the code has changed \({name[:-3].format(module)}\)"):
                gb.sweep(file, folder, workers=1, resume=True)
        again = gb.sweep(file, folder, workers=1, resume=True, recompute=True)
        assert again.manifest["reused"] == (0 if counts else 12)

    def test_other_units_stay_when_it_changes(self, tmp_path: Path, module: str) -> None:
        file = written(tmp_path, f'tasks = ["{module}:make_task", "boyan-chain"]', 'algorithms = ["lstd"]')
        gb.sweep(file, tmp_path / "results", workers=1)
        with open(tmp_path / f"{module}.py", "a") as source:
            source.write("ANOTHER = 1\n")
        forget()
        with pytest.raises(OutdatedError, match="2 of the 4 units"):
            gb.sweep(file, tmp_path / "results", workers=1, resume=True)

    def test_all_of_the_package_counts_that_it_may_use(self, tmp_path: Path, module: str) -> None:
        def files() -> set[str]:
            forget()
            return set(provenance.reached((module,))[0])

        read_study(with_module(tmp_path, module))
        assert "gainbias.model.process" in files()
        assert "gainbias.theory.curve.curve" not in files()
        source = tmp_path / f"{module}.py"
        for words in ("gb.exact_curve\n", "getattr(gb, 'run')\n", "from gainbias import exact_curve\n"):
            source.write_text(MODULE.format(helper=f"{module}_helper") + words)
            assert {"gainbias.theory.curve.curve", "gainbias.algorithms.vrtd"} <= files()

    @pytest.mark.parametrize(
        ("tasks", "algorithms", "message"),
        [
            ('["nowhere_to_be_found:make"]', '["lstd"]', "cannot find the module 'nowhere_to_be_found'"),
            ('["{m}:make_tusk"]', '["lstd"]', "has no 'make_tusk': did you mean 'make_task'"),
            ('["{m}:make_nothing"]', '["lstd"]', "must return a MarkovRewardProcess, a Problem or a Task"),
            ('[{{ id = "{m}:make_task", bios = 0.1 }}]', '["lstd"]', r"refuses the settings .* 'bios'"),
            ('["{m}:Params.pull"]', '["lstd"]', "unknown task"),
            ('["boyan-chain"]', '["{m}:State"]', "makes no algorithm: .* missing 2 required"),
            (
                '["boyan-chain"]',
                '[{{ id = "{m}:MINE", params = {{ pool = 1 }} }}]',
                "unknown parameter of mine 'pool'",
            ),
            ('["boyan-chain"]', '[{{ id = "{m}:MINE", step_size = "none" }}]', "needs a step_size"),
        ],
    )
    def test_what_is_wrong_is_said_before_work(
        self, tmp_path: Path, module: str, tasks: str, algorithms: str, message: str, capsys
    ) -> None:
        lines = f"tasks = {tasks}".format(m=module), f"algorithms = {algorithms}".format(m=module)
        file, folder = written(tmp_path, *lines), tmp_path / "results"
        assert cli.main(["sweep", str(file), "--output", str(folder), "--workers", "1"]) == cli.WRONG_INPUT
        said = capsys.readouterr().err
        assert re.search(message, said), said
        assert not folder.exists()

    def test_a_module_that_is_hidden_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "json.py").write_text("A = 1\n")
        file = written(tmp_path, 'tasks = ["json:A"]', 'algorithms = ["lstd"]')
        with pytest.raises(
            ValueError, match=r"the module json in .* is hidden by that in .*: give it another"
        ):
            read_study(file)

    def test_a_worker_that_has_it_not_or_otherwise_says_so(self, tmp_path: Path, module: str) -> None:
        [unit, *_] = read_study(with_module(tmp_path, module)).cells()
        assert unit_fault(unit) == ""
        source = tmp_path / f"{module}.py"
        source.write_text(source.read_text() + "ANOTHER = 1\n")
        forget()
        fault = unit_fault(unit)
        assert "with other code than was planned: have the same versions of gainbias" in fault
        assert module in fault
        forget()
        source.unlink()
        sys.modules.pop(module, None)
        with pytest.raises(WrongEnvironmentError, match=f"a worker cannot find the module {module!r}"):
            answer_of(unit)

    @pytest.mark.slow
    def test_processes_find_it(self, tmp_path: Path, module: str) -> None:
        file = with_module(tmp_path, module)
        one = gb.sweep(file, tmp_path / "one", workers=1)
        two = gb.sweep(file, tmp_path / "two", workers=2)
        tables = [(results.folder / "runs.parquet").read_bytes() for results in (one, two)]
        assert tables[0] == tables[1]

    @pytest.mark.slow
    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_cluster(self, tmp_path: Path, module: str, is_there: bool) -> None:
        """Dask workers find the module by their PYTHONPATH; one that does not find it reports that."""
        file, root = with_module(tmp_path, module), str(Path(__file__).parents[2])
        places = [*sys.path, root, *([str(tmp_path)] if is_there else [])]
        with cluster(tmp_path, workers=1, PYTHONPATH=os.pathsep.join(places)) as dask:
            where = {"engine": "dask", "address": dask.address}
            if is_there:
                one = gb.sweep(file, tmp_path / "one", workers=1)
                two = gb.sweep(file, tmp_path / "two", **where)  # type: ignore[arg-type]
                tables = [(results.folder / "runs.parquet").read_bytes() for results in (one, two)]
                assert tables[0] == tables[1]
            else:
                with pytest.raises(RuntimeError, match=f"cannot find the module {module!r}, which the study"):
                    gb.sweep(file, tmp_path / "two", **where)  # type: ignore[arg-type]

    def test_a_dry_run(self, tmp_path: Path, module: str) -> None:
        assert estimate(read_study(with_module(tmp_path, module)), 1).units == 12


class TestProblems:
    STUDY: ClassVar[dict[str, object]] = {
        **COMMON,
        "algorithms": ["lstd"],
        "tasks": [{"id": "mine", "problem": PROCESS}],
    }

    def test_a_process_is_run_kept_and_verified(self, tmp_path: Path) -> None:
        results = gb.sweep(self.STUDY, tmp_path / "results", workers=1)
        runs = results.to_frame()
        digest = as_own_problem(PROCESS).digest
        assert (set(runs.task), set(runs.settings)) == ({"mine"}, {json.dumps({"digest": digest})})
        trace = gb.run("lstd", gb.Problem(PROCESS, gb.Tabular()), 40, seeds=1, checkpoints=2)
        assert runs[runs.instance == 1].error.tolist() == trace.errors("quotient")[0].tolist()
        assert [path.name for path in (results.folder / PROBLEMS).iterdir()] == [f"{digest}.npz"]
        assert results.manifest["description"]["tasks"] == [{"id": "mine", "digest": digest}]
        assert verify(results.folder, 2, workers=1).identical == 2
        assert status(results.folder).done == 2

    def test_in_toml_a_file_lies_beside_the_description(self, tmp_path: Path, monkeypatch) -> None:
        arrays = {"transitions": PROCESS.transitions, "rewards": PROCESS.rewards, "features": [[1.0], [0.5]]}
        np.savez(tmp_path / "chain.npz", **arrays)
        file = written(tmp_path, 'tasks = [{ npz = "chain.npz" }]', 'algorithms = ["lstd"]')
        monkeypatch.chdir("/")
        results = gb.sweep(file, tmp_path / "results", workers=1)
        assert set(results.to_frame().task) == {"chain"}
        assert set(results.to_frame().num_features) == {1}
        assert gb.sweep(file, tmp_path / "results", workers=1, resume=True).manifest["reused"] == 2
        np.savez(tmp_path / "chain.npz", **{**arrays, "rewards": [0.0, 1.0]})
        with pytest.raises(ValueError, match="holds none of the units of this study"):
            gb.sweep(file, tmp_path / "results", workers=1, resume=True)

    def test_one_that_is_damaged_is_found(self, tmp_path: Path) -> None:
        results = gb.sweep(self.STUDY, tmp_path / "results", workers=1)
        [path] = (results.folder / PROBLEMS).iterdir()
        other = as_own_problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]))
        path.write_bytes(other.archive)
        [words] = verify(results.folder, 1, workers=1).damaged
        assert "is not what was written: write it again with --resume" in words
        path.unlink()
        [words] = verify(results.folder, 1, workers=1).damaged
        assert "is missing: write it again with --resume" in words
        gb.sweep(self.STUDY, results.folder, workers=1, resume=True)
        assert verify(results.folder, 1, workers=1).passed

    def test_verify_names_one_that_is_lost_and_goes_on(self, tmp_path: Path) -> None:
        study = {**self.STUDY, "tasks": [*self.STUDY["tasks"], "two-loop"]}  # type: ignore[misc]
        results = gb.sweep(study, tmp_path / "results", workers=1)
        [path] = (results.folder / PROBLEMS).iterdir()
        path.write_bytes(b"PK no archive")
        found = verify(results.folder, 4, workers=1)
        assert (found.checked, found.identical, found.passed) == (2, 2, False)
        assert found.damaged == [f"{path} is not an .npz file"]
        gb.sweep(study, results.folder, workers=1, resume=True)
        assert verify(results.folder, 4, workers=1).passed

    def test_no_pickle_is_read(self, tmp_path: Path) -> None:
        mark = tmp_path / "executed"

        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(mark),)

        np.savez(tmp_path / "bomb.npz", transitions=np.array([Bomb()], dtype=object), rewards=[1.0])
        with pytest.raises(ValueError, match="allow_pickle=False"):
            gb.Study(**COMMON, algorithms=["lstd"], tasks=[{"npz": str(tmp_path / "bomb.npz")}])
        results = gb.sweep(self.STUDY, tmp_path / "results", workers=1)
        [path] = (results.folder / PROBLEMS).iterdir()
        shutil.copy(tmp_path / "bomb.npz", path)
        [words] = verify(results.folder, 1, workers=1).damaged
        assert "allow_pickle=False" in words
        assert not mark.exists()

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ({"npz": "missing.npz"}, r"tasks\[0\]\.npz: .*missing.npz"),
            ({"npz": 3}, r"tasks\[0\]\.npz: must be the path of an \.npz file, found 3"),
            ({"problem": "x"}, r"tasks\[0\]\.problem: must be a MarkovRewardProcess or a Problem"),
            (
                {"problem": PROCESS, "id": "taxi"},
                r"tasks\[0\]\.id: must be a name that no task of the package",
            ),
            ({"problem": PROCESS, "epsilon": 0.1}, r"tasks\[0\]: a problem of your own has no settings"),
            ({"id": "taxi", "digest": "0"}, "unknown key 'digest'"),
            (
                {"problem": gb.MarkovRewardProcess.from_rates([[-1.0, 1.0], [1.0, -1.0]], [1.0, 0.0])},
                "a process with rates or durations",
            ),
        ],
    )
    def test_what_cannot_be_run_is_refused(self, entry: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            gb.Study(**COMMON, algorithms=["lstd"], tasks=[entry])

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            (
                {"transitions": [[0.5, 0.4], [0.5, 0.5]], "rewards": [1.0, 0.0]},
                "row 0 of transitions sums to 0.9",
            ),
            ({"transitions": [[1.0]], "rewards": [1.0], "durations": [2.0]}, "durations is none of"),
            ({"rewards": [1.0]}, "holds no problem that can be run"),
        ],
    )
    def test_a_file_that_is_none(self, arrays: dict[str, object], message: str, tmp_path: Path) -> None:
        np.savez(tmp_path / "chain.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            read_problem(tmp_path / "chain.npz")

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "chain.npz")
        with pytest.raises(ValueError, match="is not a plain file"):
            gb.Study(**COMMON, algorithms=["lstd"], tasks=[{"npz": str(tmp_path / "chain.npz")}])

    @pytest.mark.parametrize(
        "value",
        [
            PROCESS,
            gb.MarkovRewardProcess(
                sparse.csr_array(PROCESS.transitions), sparse.csr_array([[1.0, 0], [2, 3]])
            ),
            gb.Problem(PROCESS, [[1.0], [0.5]]),
            gb.Problem(PROCESS, sparse.csr_array([[1.0], [0.5]])),
        ],
    )
    def test_nothing_of_a_problem_is_lost(self, value: object) -> None:
        own = as_own_problem(value)  # type: ignore[arg-type]
        made = own.task("mine", 0, "literal", {}).problem
        process = value if isinstance(value, gb.MarkovRewardProcess) else value.mrp  # type: ignore[attr-defined]
        assert made.mrp.fingerprint == process.fingerprint
        assert sparse.issparse(made.mrp.transitions) == sparse.issparse(process.transitions)
        if isinstance(value, gb.Problem):
            assert made.features.combine(np.ones((1, 1))).tolist() == [[1.0], [0.5]]
        assert as_own_problem(made).digest == own.digest

    def test_two_without_a_name_are_told_apart(self) -> None:
        other = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
        study = gb.Study(**COMMON, algorithms=["lstd"], tasks=[PROCESS, other])
        assert len({cell.id for cell in study.cells()}) == 4
        assert len({cell.task for cell in study.cells()}) == 2


def test_results_of_version_0_1_are_known_and_named(tmp_path: Path) -> None:
    """Their units had one code, which was part of their ids as it is now; nothing said what they reach."""
    study = gb.Study(**{**COMMON, "tasks": ["boyan-chain"], "algorithms": ["lstd"]})
    results = gb.sweep(study, tmp_path / "results", workers=1)
    old = Results(tmp_path / "old")
    shutil.copytree(results.folder, old.folder, ignore=shutil.ignore_patterns("units", "made-with.json"))
    note = json.loads((old.folder / "study.json").read_text())
    del note["codes"]
    (old.folder / "study.json").write_text(json.dumps({**note, "code": "0.1.0+abc"}))
    manifest = json.loads((old.folder / "manifest.json").read_text())
    del manifest["checksum"]
    (old.folder / "manifest.json").write_text(json.dumps({**manifest, "code": "0.1.0+abc"}))
    records = results.log.records()
    with old.log as log:
        for now, before in zip(study.cells(), study.cells("0.1.0+abc"), strict=True):
            log.append(before.id, records[now.id].read())
    assert status(old.folder).done == 2
    assert len(old.to_frame()) == len(results.to_frame())
    found = verify(old.folder, 2, workers=1)
    assert (found.identical, found.exact, found.passed) == (2, False, True)
    with pytest.raises(OutdatedError, match=r"2 of the 2 units .* the sources of gainbias have changed"):
        gb.sweep(study, old.folder, workers=1, resume=True)
    assert gb.sweep(study, old.folder, workers=1, resume=True, recompute=True).manifest["reused"] == 0
