"""Resuming: nothing finished is deleted before its replacement exists; recomputing is announced."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gainbias as gb
from gainbias import cli
from gainbias.experiments import provenance
from gainbias.experiments.cell import Cell
from gainbias.experiments.claims.registry import check_claims
from gainbias.experiments.engines import opened
from gainbias.experiments.inspection import status, verify
from gainbias.experiments.reproduce import Instance
from gainbias.experiments.results import Results
from gainbias.experiments.runner import OutdatedError, complete
from gainbias.progress import Watch
from gainbias.report.data.results import read_results
from gainbias.report.sweep import report_on_sweep
from tests.experiments.small import copy, copy_of_sources, forget, run_small, table_bytes
from tests.experiments.trivial import Trivial

STUDY = {
    "tasks": ["boyan-chain"],
    "algorithms": ["lstd", "td-lambda"],
    "step_size": [0.05, 0.1],
    "num_steps": 200,
    "instances": 2,
    "checkpoints": 3,
    "name": "small",
}
SMALL = {"tasks": ["random-walk-50"], "protocols": ["fair"], "instances": 1}
EARLIER = "the tables are from before a resume that has not finished"

Change = Callable[..., None]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    results = gb.sweep(STUDY, tmp_path_factory.mktemp("sweep") / "results", workers=1)
    (results.folder / "report").mkdir()
    (results.folder / "report" / "index.html").write_text("of the first tables")
    return results


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_small(tmp_path_factory.mktemp("study") / "results", **SMALL)


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    """What adds a line to the sources, as far as their version is concerned."""

    def change(*names: str) -> None:
        sources = copy_of_sources(tmp_path)
        for name in names or ("engine/run.py",):
            with open(sources / name, "a") as file:
                file.write("EDITED = True\n")
        monkeypatch.setattr(provenance, "PACKAGE", sources)
        forget()

    yield change
    monkeypatch.undo()
    forget()


@pytest.fixture
def other_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    """What installs another numpy, as far as its version is concerned."""
    version = provenance.installed_version

    def change() -> None:
        monkeypatch.setattr(
            provenance, "installed_version", lambda name: "9.9" if name == "numpy" else version(name)
        )
        forget()

    yield change
    monkeypatch.undo()
    forget()


def stop_at(count: int, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Press Ctrl-C twice during the unit after so many."""
    compute, done = kind.compute, []

    def sometimes(unit):
        if len(done) == count:
            raise KeyboardInterrupt
        done.append(unit)
        return compute(unit)

    monkeypatch.setattr(kind, "compute", sometimes)


def contents(folder: Path) -> dict[str, bytes]:
    names = ["manifest.json", "report/index.html", "runs.parquet"]
    return {name: (folder / name).read_bytes() for name in names}


class TestWhatIsKept:
    def test_an_interrupted_resume_leaves_all_as_it_was(
        self, sweep: Results, tmp_path: Path, monkeypatch, capsys
    ) -> None:
        folder = copy(sweep, tmp_path)
        before, rows = contents(folder), len(sweep.to_frame())
        with monkeypatch.context() as patch:
            stop_at(1, patch, Cell)
            with pytest.raises(KeyboardInterrupt):
                gb.sweep({**STUDY, "instances": 4}, folder, workers=1, resume=True)
        assert contents(folder) == before
        results = Results(folder)
        assert EARLIER in results.outdated
        for read in (results.to_frame, lambda: results.frame("runs")):
            with pytest.warns(UserWarning, match=EARLIER):
                assert len(read()) == rows
        found = status(folder)
        assert (found.state, found.tables, found.done, found.units) == ("stopped", "earlier", 5, 8)
        assert verify(folder, 1, workers=1).passed
        assert cli.main(["sweep", "--status", str(folder)]) == cli.DONE
        assert "from before this resume" in capsys.readouterr().out

    def test_one_that_ends_replaces_all(self, sweep: Results, tmp_path: Path) -> None:
        folder = copy(sweep, tmp_path)
        grown = gb.sweep({**STUDY, "instances": 3}, folder, workers=1, resume=True)
        assert (grown.outdated, set(grown.to_frame().instance)) == ("", {0, 1, 2})
        assert (status(folder).state, status(folder).tables) == ("finished", "current")
        # The old report is not one on the new tables, and there is no new one yet.
        assert not (folder / "report").exists()
        assert (folder / "earlier-report" / "index.html").read_text() == "of the first tables"
        report_on_sweep(grown)
        assert not (folder / "earlier-report").exists()
        assert "Sweep small" in (folder / "report" / "index.html").read_text()

    def test_a_report_on_tables_that_stay_the_same_stays(self, sweep: Results, tmp_path: Path) -> None:
        folder = copy(sweep, tmp_path)
        gb.sweep(STUDY, folder, workers=1, resume=True)
        assert (folder / "report" / "index.html").read_text() == "of the first tables"

    def test_a_page_of_earlier_tables_says_so(self, sweep: Results, tmp_path: Path, monkeypatch) -> None:
        folder = copy(sweep, tmp_path)
        with monkeypatch.context() as patch:
            stop_at(0, patch, Cell)
            with pytest.raises(KeyboardInterrupt):
                gb.sweep({**STUDY, "instances": 3}, folder, workers=1, resume=True)
        with pytest.warns(UserWarning, match=EARLIER):
            gb.write_page(folder, tmp_path / "page.html")
        assert EARLIER in (tmp_path / "page.html").read_text()

    def test_if_every_unit_fails_the_earlier_table_is_set_aside(
        self, sweep: Results, tmp_path: Path, monkeypatch, edit: Change
    ) -> None:
        folder = copy(sweep, tmp_path)
        before = contents(folder)
        edit()
        with monkeypatch.context() as patch:
            patch.setattr(Cell, "compute", lambda cell: 1 // 0)
            failed = gb.sweep(STUDY, folder, workers=1, resume=True, recompute=True)
        assert len(failed.manifest["failures"]) == 4
        assert not (folder / "runs.parquet").exists()
        assert (folder / "earlier-runs.parquet").read_bytes() == before["runs.parquet"]
        gb.sweep(STUDY, folder, workers=1, resume=True)
        assert (folder / "runs.parquet").exists()
        assert not (folder / "earlier-runs.parquet").exists()

    @pytest.mark.parametrize("how", ["interrupted", "failed"])
    def test_a_reproduction(self, study: Results, tmp_path: Path, monkeypatch, how: str) -> None:
        folder = copy(study, tmp_path)
        before, manifest = table_bytes(study), (folder / "manifest.json").read_bytes()
        with monkeypatch.context() as patch:
            if how == "failed":
                patch.setattr(Instance, "compute", lambda unit: 1 // 0)
            else:
                stop_at(0, patch, Instance)
            with pytest.raises(RuntimeError if how == "failed" else KeyboardInterrupt):
                run_small(folder, **{**SMALL, "instances": 2}, resume=True)
        assert table_bytes(Results(folder)) == before
        assert (folder / "manifest.json").read_bytes() == manifest
        with pytest.warns(UserWarning, match=EARLIER):
            assert set(read_results(folder).runs.run) == {0}
        again = run_small(folder, **{**SMALL, "instances": 2}, resume=True)
        assert (again.outdated, set(again.frame("runs").run)) == ("", {0, 1})

    def test_starting_afresh_leaves_nothing_of_before(
        self, sweep: Results, tmp_path: Path, monkeypatch
    ) -> None:
        folder = copy(sweep, tmp_path)
        with monkeypatch.context() as patch:
            stop_at(0, patch, Cell)
            with pytest.raises(KeyboardInterrupt):
                gb.sweep(STUDY, folder, workers=1, overwrite=True)
        assert not any((folder / name).exists() for name in ("manifest.json", "runs.parquet", "report"))
        assert (status(folder).tables, Results(folder).outdated) == ("none", "")


class TestWhatIsSaid:
    def resumed(self, results: Results, tmp_path: Path, capsys, **changes: object) -> list[str]:
        capsys.readouterr()
        gb.sweep({**STUDY, **changes}, copy(results, tmp_path), workers=1, resume=True, recompute=True)
        return capsys.readouterr().err.splitlines()

    def test_nothing_of_a_new_study_nor_of_one_that_is_finished(
        self, sweep: Results, tmp_path: Path, capsys
    ) -> None:
        gb.sweep(STUDY, tmp_path / "new", workers=1, resume=True)
        assert capsys.readouterr().err == ""
        assert self.resumed(sweep, tmp_path, capsys) == []

    def test_an_edit_in_the_sources(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change, monkeypatch
    ) -> None:
        compute, said = Cell.compute, []

        def computed(cell: Cell):
            said.append(capsys.readouterr().err)
            return compute(cell)

        monkeypatch.setattr(Cell, "compute", computed)
        edit()
        self.resumed(sweep, tmp_path, capsys)
        head, *lines = said[0].splitlines()  # before work began
        assert head == f"resuming {tmp_path / 'copy'}: 4 of 4 units to compute, 0 kept"
        assert lines == ["  4 units again, because the code has changed (gainbias.engine.run)"]
        assert len(said) == 4

    def test_another_version_of_a_package(
        self, sweep: Results, tmp_path: Path, capsys, other_numpy: Change
    ) -> None:
        now = sweep.manifest["packages"]["numpy"]
        other_numpy()
        head, line = self.resumed(sweep, tmp_path, capsys)
        assert "4 of 4 units to compute" in head
        assert line == f"  4 units again, because versions have changed (numpy {now} -> 9.9)"

    def test_both(self, sweep: Results, tmp_path: Path, capsys, edit: Change, other_numpy: Change) -> None:
        edit()
        other_numpy()
        [_, line] = self.resumed(sweep, tmp_path, capsys)
        assert "the code has changed (gainbias.engine.run) and versions have changed (numpy " in line

    def test_another_description(self, sweep: Results, tmp_path: Path, capsys) -> None:
        assert self.resumed(sweep, tmp_path, capsys, instances=3)[1:] == [
            "  2 units that are not stored yet (the description has changed: instances)"
        ]

    def test_a_smaller_study(self, sweep: Results, tmp_path: Path, capsys) -> None:
        head, line = self.resumed(sweep, tmp_path, capsys, algorithms=["lstd"])
        assert "0 of 2 units to compute, 2 kept" in head
        assert line.startswith("  not used: 2 stored units of other settings")

    def test_other_sources_and_another_description(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change
    ) -> None:
        edit()
        lines = self.resumed(sweep, tmp_path, capsys, instances=3, algorithms=["lstd"])
        assert "3 of 3 units to compute, 0 kept" in lines[0]
        assert lines[1].startswith("  2 units again, because the code has changed (gainbias.engine.run)")
        assert lines[2].startswith("  1 unit that is not stored yet (the description has changed: alg")
        assert lines[3].startswith("  not used: 2 stored units")

    def test_what_was_interrupted(self, tmp_path: Path, monkeypatch, capsys) -> None:
        with monkeypatch.context() as patch:
            stop_at(3, patch, Cell)
            with pytest.raises(KeyboardInterrupt):
                gb.sweep(STUDY, tmp_path / "results", workers=1)
        assert "resuming" not in capsys.readouterr().err
        gb.sweep(STUDY, tmp_path / "results", workers=1, resume=True)
        lines = capsys.readouterr().err.splitlines()
        assert "1 of 4 units to compute, 3 kept" in lines[0]
        assert lines[1:] == ["  1 unit that is not stored yet"]

    def test_what_failed_and_what_is_damaged(self, tmp_path: Path, monkeypatch, capsys) -> None:
        compute = Cell.compute
        with monkeypatch.context() as patch:
            patch.setattr(Cell, "compute", lambda cell: 1 // (cell.algorithm == "lstd") and compute(cell))
            results = gb.sweep(STUDY, tmp_path / "results", workers=1)
        [first, *_] = [record for name, record in results.log.records().items() if len(name) == 24]
        whole = bytearray(first.segment.read_bytes())
        whole[first.start + 20] ^= 1
        first.segment.write_bytes(whole)
        capsys.readouterr()
        gb.sweep(STUDY, results.folder, workers=1, resume=True)
        assert capsys.readouterr().err.splitlines()[1:] == [
            "  1 unit again, because what is stored of it is damaged",
            "  2 units again, because they failed",
        ]

    @pytest.mark.parametrize("kind", ["reproduction", "sweep"])
    def test_a_folder_of_the_version_before(
        self, sweep: Results, study: Results, tmp_path: Path, capsys, edit: Change, kind: str
    ) -> None:
        """It has no list of what its units were made with; its manifest says it."""
        folder = copy(sweep if kind == "sweep" else study, tmp_path)
        (folder / "made-with.json").unlink()
        note = json.loads((folder / "study.json").read_text())
        del note["finished"]
        (folder / "study.json").write_text(json.dumps(note))
        assert Results(folder).outdated == ""
        edit()
        capsys.readouterr()
        if kind == "sweep":
            gb.sweep(STUDY, folder, workers=1, resume=True, recompute=True)
        else:
            run_small(folder, **SMALL, resume=True, recompute=True)
        lines = capsys.readouterr().err.splitlines()
        assert lines[1].endswith("again, because the sources of gainbias have changed")

    def test_an_interrupted_study_of_the_version_before(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change
    ) -> None:
        folder = copy(sweep, tmp_path)
        (folder / "made-with.json").unlink()
        (folder / "manifest.json").unlink()
        edit()
        gb.sweep(STUDY, folder, workers=1, resume=True, recompute=True)
        said = capsys.readouterr().err
        assert "4 units again, because the sources of gainbias, or versions of others, have changed" in said

    def test_another_study_is_refused_whatever_the_sources(
        self, sweep: Results, tmp_path: Path, edit: Change
    ) -> None:
        folder = copy(sweep, tmp_path)
        before = contents(folder)
        edit()
        with pytest.raises(ValueError, match="holds none of the units of this study"):
            gb.sweep({**STUDY, "num_steps": 300}, folder, workers=1, resume=True)
        assert contents(folder) == before

    def test_back_to_sources_of_which_units_are_stored(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change, monkeypatch
    ) -> None:
        folder = copy(sweep, tmp_path)
        edit()
        gb.sweep(STUDY, folder, workers=1, resume=True, recompute=True)
        monkeypatch.setattr(provenance, "PACKAGE", Path(gb.__file__).parent)
        forget()
        capsys.readouterr()
        assert gb.sweep(STUDY, folder, workers=1, resume=True).manifest["reused"] == 4
        assert capsys.readouterr().err == ""

    def test_a_reproduction(self, study: Results, tmp_path: Path, capsys, edit: Change) -> None:
        edit()
        folder = copy(study, tmp_path)
        with pytest.raises(
            OutdatedError, match=r"1 of the 1 unit in .* because the code has changed \(gainbias"
        ):
            run_small(folder, **SMALL, resume=True)
        run_small(folder, **SMALL, resume=True, recompute=True)
        assert "1 unit again, because the code has changed (gainbias.engine.run)" in capsys.readouterr().err

    def test_claims(self, tmp_path: Path, capsys, edit: Change) -> None:
        check_claims(["reward-estimate"], quick=True, workers=1, folder=tmp_path / "claims")
        check_claims(["reward-estimate"], quick=True, workers=1, folder=tmp_path / "claims")
        assert capsys.readouterr().err == ""
        edit("model/process.py")
        with pytest.raises(OutdatedError, match="finished and would be computed again"):
            check_claims(["reward-estimate"], quick=True, workers=1, folder=tmp_path / "claims")
        check_claims(["reward-estimate"], quick=True, workers=1, folder=tmp_path / "claims", recompute=True)
        assert (
            "1 unit again, because the code has changed (gainbias.model.process)" in capsys.readouterr().err
        )

    def test_units_of_any_kind(self, tmp_path: Path, capsys) -> None:
        results = Results(tmp_path)
        with opened("local", 1) as engine, results.log:
            complete([Trivial(number) for number in range(3)], results, engine, lambda _: None)
            complete([Trivial(number) for number in range(1, 5)], results, engine, lambda _: None)
        head, new, other = capsys.readouterr().err.splitlines()
        assert head.endswith("2 of 4 units to compute, 2 kept")
        assert new == "  2 units that are not stored yet"
        assert other.startswith("  not used: 1 stored unit ")

    @pytest.mark.parametrize("quiet", [False, True])
    def test_on_the_command_line(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change, quiet: bool
    ) -> None:
        file, folder = tmp_path / "small.toml", copy(sweep, tmp_path)
        file.write_text(
            'name = "small"\ntasks = ["boyan-chain"]\nalgorithms = ["lstd", "td-lambda"]\n'
            "step_size = [0.05, 0.1]\nnum_steps = 200\ninstances = 2\ncheckpoints = 3\n"
        )
        edit()
        words = ["sweep", str(file), "--output", str(folder), "--workers", "1", "--resume", "--json"]
        before = contents(folder)
        assert cli.main(words) == cli.WRONG_INPUT
        refused = capsys.readouterr()
        assert "allow it with --recompute" in refused.err
        assert refused.out == ""
        assert contents(folder) == before
        words.append("--recompute")
        assert cli.main([*words, *["--quiet"] * quiet]) == cli.DONE
        said = capsys.readouterr()
        assert json.loads(said.out)["reused"] == 0
        assert ("because the code has changed (gainbias.engine.run)" in said.err) != quiet

    @pytest.mark.parametrize("answer", ["y", "", "n"])
    def test_on_a_terminal_it_is_asked(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change, monkeypatch, answer: str
    ) -> None:
        folder = copy(sweep, tmp_path)
        before = contents(folder)
        edit()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
        for stream in (sys.stdin, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "dumb")
        file = tmp_path / "small.toml"
        file.write_text(
            'name = "small"\ntasks = ["boyan-chain"]\nalgorithms = ["lstd", "td-lambda"]\n'
            "step_size = [0.05, 0.1]\nnum_steps = 200\ninstances = 2\ncheckpoints = 3\n"
        )
        words = ["sweep", str(file), "--output", str(folder), "--workers", "1", "--resume", "--json"]
        done = cli.main(words)
        said = capsys.readouterr().err
        assert "compute them again? [y/N]" in said
        assert said.count("4 of the 4 units in") == 1
        assert (contents(folder) == before) == (answer != "y")
        assert done == (cli.DONE if answer == "y" else cli.WRONG_INPUT)
        assert ("nothing was computed" in said) == (answer != "y")

    def test_what_was_allowed_is_not_asked_again(
        self, sweep: Results, tmp_path: Path, edit: Change, monkeypatch
    ) -> None:
        folder = copy(sweep, tmp_path)
        edit()
        with monkeypatch.context() as patch:
            stop_at(2, patch, Cell)
            with pytest.raises(KeyboardInterrupt):
                gb.sweep(STUDY, folder, workers=1, resume=True, recompute=True)
        assert gb.sweep(STUDY, folder, workers=1, resume=True).manifest["reused"] == 2

    def test_another_algorithm_may_change(self, sweep: Results, tmp_path: Path, capsys, edit: Change) -> None:
        edit("algorithms/vrtd.py", "report/sweep.py", "experiments/runner.py")
        assert self.resumed(sweep, tmp_path, capsys) == []

    def test_only_what_can_reach_a_change_is_computed_again(
        self, sweep: Results, tmp_path: Path, capsys, edit: Change
    ) -> None:
        edit("algorithms/lstd.py")
        [head, line] = self.resumed(sweep, tmp_path, capsys)
        assert "2 of 4 units to compute, 2 kept" in head
        assert line == "  2 units again, because the code has changed (gainbias.algorithms.lstd)"

    def test_a_notice_is_not_lost_within_another_watch(self, capsys) -> None:
        with Watch():
            Watch.say("once")
        with Watch.silence():
            Watch.say("never")
        Watch.say("twice")
        assert capsys.readouterr().err == "once\ntwice\n"
