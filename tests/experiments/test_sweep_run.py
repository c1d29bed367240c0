"""Sweeps end to end: tables, extensions, damage, failures, status, verification."""

import errno
import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.experiments import sweep as sweep_module
from gainbias.experiments.cell import Cell
from gainbias.experiments.inspection import estimate, status, verify
from gainbias.experiments.results import SCHEMA, Results
from gainbias.experiments.study import as_study
from gainbias.experiments.units import packed, unpacked
from gainbias.progress import Watch
from gainbias.store import LockedError
from tests.experiments.small import copy

STUDY = {
    "tasks": ["boyan-chain", {"id": "garnet", "num_states": [10, 12], "num_features": 4}],
    "algorithms": ["lstd", {"id": "td-lambda", "params": {"trace_decay": [0.0, 0.8]}}, "double-chain"],
    "step_size": [0.05, {"kind": "harmonic", "a": 10, "c0": 50}],
    "num_steps": 500,
    "instances": 2,
    "checkpoints": 5,
    "metrics": ["quotient", "full own", "centred stationary"],
    "name": "small",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return gb.sweep(STUDY, tmp_path_factory.mktemp("sweep") / "results", workers=1)


def table(results: Results) -> bytes:
    return (results.folder / "runs.parquet").read_bytes()


class TestTable:
    def test_it_holds_what_runs_give(self, results: Results) -> None:
        runs = results.to_frame()
        task = gb.task("garnet", seed=1, num_states=12, num_features=4)
        size = gb.Harmonic(10, 50)
        trace = gb.run("td-lambda", task, 500, size, seeds=1, params={"trace_decay": 0.8}, checkpoints=5)
        rows = runs.query(
            "task == 'garnet' and num_states == 12 and instance == 1 and algorithm == 'td-lambda' "
            "and step_size == 'harmonic' and trace_decay == 0.8 and kind == 'centred'"
        )
        assert rows.step.tolist() == trace.steps.tolist()
        assert rows.error.tolist() == trace.errors("centred", norm="stationary")[0].tolist()
        assert rows.gain.tolist() == trace.gain[0].tolist()
        assert set(rows.exact_gain) == {task.problem.solution.gain}
        assert set(rows.fingerprint) == {task.fingerprint}
        assert set(rows.settings) == {'{"num_features": 4, "num_states": 12}'}

    def test_every_row_is_there_once(self, results: Results) -> None:
        runs = results.to_frame()
        key = ["task", "settings", "instance", "seed", "algorithm", "step_size", "a", "trace_decay"]
        assert not runs.duplicated([*key, "kind", "target", "norm", "step"]).any()
        each = 3 * 2 * 5  # tasks, instances, checkpoints; then lanes and metrics
        sizes = runs.groupby("algorithm").size().to_dict()
        # These features span the constants, so the limit of td-lambda is known up to a constant only.
        assert sizes == {"double-chain": each * 2 * 3, "lstd": each * 3, "td-lambda": each * 4 * 2}
        assert set(runs[runs.algorithm == "td-lambda"].kind) == {"quotient", "centred"}
        assert runs[runs.algorithm == "lstd"].a.isna().all()
        assert runs[runs.algorithm == "double-chain"].trace_decay.isna().all()

    def test_rows_are_sorted(self, results: Results) -> None:
        runs = results.to_frame()
        places = list(zip(runs.task, runs.settings, runs.instance, runs.seed, runs.algorithm, strict=True))
        assert places == sorted(places)

    @pytest.mark.slow
    def test_processes_change_no_byte(self, results: Results, tmp_path: Path) -> None:
        assert table(gb.sweep(STUDY, tmp_path / "two", workers=2)) == table(results)

    def test_one_worker_is_a_process_of_its_own_where_threads_are_many(self, monkeypatch) -> None:
        from gainbias.experiments.engines import Here, Local, opened

        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
        with opened("local", 1) as engine:
            assert isinstance(engine, Local)
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
        with opened("local", 1) as engine:
            assert isinstance(engine, Here)
        monkeypatch.setattr("os.cpu_count", lambda: 1)
        with opened("local") as engine:  # nobody asked for a process that a unit may take with it
            assert isinstance(engine, Local)


class TestResume:
    def test_extending_computes_what_is_new(self, results: Results, tmp_path: Path, monkeypatch) -> None:
        folder, computed, compute = tmp_path / "growing", [], Cell.compute
        few = {**STUDY, "instances": 1, "algorithms": STUDY["algorithms"][:2]}
        gb.sweep(few, folder, workers=1)
        monkeypatch.setattr(Cell, "compute", lambda cell: computed.append(cell.label) or compute(cell))
        grown = gb.sweep(STUDY, folder, workers=1, resume=True)
        assert table(grown) == table(results)
        assert grown.manifest["reused"] == 3 * 2
        assert len(computed) == 3 * 3 * 2 - 3 * 2
        assert not any("instance 0" in label and "double" not in label for label in computed)

    def test_damage_is_found_reported_and_mended(self, results: Results, tmp_path: Path, monkeypatch) -> None:
        folder, shown = copy(results, tmp_path), []
        [segment] = Results(folder).log.segments()
        whole = bytearray(segment.read_bytes())
        record = list(Results(folder).log.records().values())[4]
        whole[record.start + 20] ^= 1
        segment.write_bytes(whole)
        assert status(folder).damaged == 1
        monkeypatch.setattr(Watch, "show", lambda self, label, *_: shown.append(label))
        mended = gb.sweep(STUDY, folder, workers=1, resume=True)
        assert table(mended) == table(results)
        assert mended.manifest["damaged"] == 1
        assert any("1 were damaged" in label for label in shown)

    @pytest.mark.parametrize("keep", [0.3, 0.9])
    def test_a_truncated_log_is_completed(self, results: Results, tmp_path: Path, keep: float) -> None:
        folder = copy(results, tmp_path)
        [segment] = Results(folder).log.segments()
        os.truncate(segment, int(keep * segment.stat().st_size))
        log = Results(folder).log
        log.records()
        assert log.damaged_segments == [segment]
        assert table(gb.sweep(STUDY, folder, workers=1, resume=True)) == table(results)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"num_steps": 600}, "holds none of the units of this study, so it is another one"),
            (
                {"name": "other"},
                "holds a study with name = 'small', which cannot be resumed with name = 'other'",
            ),
        ],
    )
    def test_another_study_is_refused(self, results: Results, change, message) -> None:
        before = table(results)
        with pytest.raises(ValueError, match=message):
            gb.sweep({**STUDY, **change}, results.folder, workers=1, resume=True)
        assert table(results) == before

    def test_a_study_is_not_run_over(self, results: Results) -> None:
        with pytest.raises(ValueError, match="already holds a study: continue it with --resume"):
            gb.sweep(STUDY, results.folder, workers=1)

    def test_a_folder_of_another_kind_or_a_newer_version_is_refused(self, tmp_path: Path) -> None:
        note = tmp_path / "study.json"
        note.write_text(json.dumps({"schema": SCHEMA, "kind": "reproduction", "shorten": 1}))
        with pytest.raises(ValueError, match="holds a study with kind = 'reproduction'"):
            gb.sweep(STUDY, tmp_path, resume=True)
        note.write_text(json.dumps({"schema": SCHEMA + 1, "kind": "sweep"}))
        for look in (lambda: gb.sweep(STUDY, tmp_path, resume=True), lambda: status(tmp_path)):
            with pytest.raises(ValueError, match="was written by a newer version"):
                look()

    def test_a_second_driver_is_refused(self, results: Results) -> None:
        with results.log, pytest.raises(LockedError, match="another process is writing to"):
            gb.sweep(STUDY, results.folder, workers=1, resume=True)

    def test_a_full_disk_stops_clearly_and_loses_nothing(
        self, results: Results, tmp_path, monkeypatch
    ) -> None:
        folder, real, written = tmp_path / "full", os.fsync, []

        def full(handle: int) -> None:
            written.append(handle)
            if len(written) > 6:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(
                OSError, match=r"is full; what was finished is kept: make room, then .*--resume"
            ):
                gb.sweep(STUDY, folder, workers=1)
        stored = Results(folder).log.records()
        assert stored
        done = gb.sweep(STUDY, folder, workers=1, resume=True)
        assert done.manifest["reused"] == sum(len(name) == 24 for name in stored)
        assert table(done) == table(results)

    def test_a_note_that_is_damaged_is_written_again(self, results: Results, tmp_path: Path) -> None:
        note = copy(results, tmp_path) / "study.json"
        note.write_text("{")
        with pytest.raises(ValueError, match=r"study.json is damaged: remove it and continue with --resume"):
            gb.sweep(STUDY, note.parent, workers=1, resume=True)
        note.unlink()
        with pytest.raises(ValueError, match="is not empty and holds no study"):
            gb.sweep(STUDY, note.parent, workers=1)
        again = gb.sweep(STUDY, note.parent, workers=1, resume=True)
        assert (again.manifest["reused"], note.exists()) == (18, True)

    def test_what_a_killed_driver_left_of_a_table_goes(self, results: Results, tmp_path: Path) -> None:
        folder = copy(results, tmp_path)
        part = folder / ".runs.parquet.x1y2z3"
        part.write_bytes(b"half a table")
        gb.sweep(STUDY, folder, workers=1, resume=True)
        assert not part.exists()


class TestFailures:
    def damage_a_failure(self, results: Results) -> None:
        record = next(one for name, one in results.log.records().items() if name.startswith("failure"))
        whole = bytearray(record.segment.read_bytes())
        whole[record.start] ^= 1
        record.segment.write_bytes(whole)

    def test_a_unit_that_raises_is_recorded_and_the_rest_goes_on(self, tmp_path: Path, monkeypatch) -> None:
        compute = Cell.compute

        def sometimes(cell: Cell):
            if cell.algorithm == "double-chain" and cell.task == "garnet":
                raise ArithmeticError("no luck today")
            return compute(cell)

        with monkeypatch.context() as patch:
            patch.setattr(Cell, "compute", sometimes)
            results = gb.sweep(STUDY, tmp_path / "results", workers=1)
            failures = results.manifest["failures"]
            assert len(failures) == 4
            assert (
                failures[0]["what"]
                == "double-chain on garnet (num_features=4, num_states=10), instance 0, seed 0"
            )
            assert failures[0]["error"].startswith("ArithmeticError: no luck today (test_sweep_run.py, line ")
            assert set(results.to_frame().algorithm) == {"lstd", "td-lambda", "double-chain"}
            assert status(results.folder).failed == 4
            assert verify(results.folder, 1, workers=1).damaged == []
            self.damage_a_failure(results)
            assert "the reason is damaged" in status(results.folder).failures[0]["error"]
        again = gb.sweep(STUDY, results.folder, workers=1, resume=True)
        assert (again.manifest["failures"], again.manifest["reused"]) == ([], 14)
        assert status(results.folder).failed == 0

    def test_a_unit_that_ends_python_is_one_that_failed(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(Cell, "compute", lambda _: sys.exit(7))
        [failure, *_] = gb.sweep(STUDY, tmp_path / "results", workers=1).manifest["failures"]
        assert failure["error"].startswith("SystemExit: 7 (test_sweep_run.py, line ")

    def test_a_damaged_unit_that_fails_when_it_is_computed_again(
        self, results, tmp_path, monkeypatch
    ) -> None:
        folder = copy(results, tmp_path)
        record = list(results.log.records().values())[4]
        segment = folder / "units" / record.segment.name
        whole = bytearray(segment.read_bytes())
        whole[record.start] ^= 1
        segment.write_bytes(whole)
        with monkeypatch.context() as patch:
            patch.setattr(Cell, "compute", lambda cell: 1 // 0)
            again = gb.sweep(STUDY, folder, workers=1, resume=True)
        assert [failure["unit"] for failure in again.manifest["failures"]] == [record.name]
        assert 0 < len(again.to_frame()) < len(results.to_frame())
        assert table(gb.sweep(STUDY, folder, workers=1, resume=True)) == table(results)

    def test_lanes_that_diverge_are_data_and_units_that_diverge_are_failures(self, tmp_path: Path) -> None:
        study = {**STUDY, "tasks": ["boyan-chain"], "algorithms": ["td-lambda"], "metrics": ["quotient"]}
        some = gb.sweep({**study, "step_size": [0.1, 1e4], "num_steps": 2000}, tmp_path / "some", workers=1)
        assert (some.manifest["diverged_lanes"], some.manifest["diverged_units"]) == (2, [])
        runs = some.to_frame()
        assert runs.groupby("a").outcome.unique().map(list).to_dict() == {
            0.1: ["finished"],
            1e4: ["diverged"],
        }
        assert np.isinf(runs[(runs.a == 1e4) & (runs.step == 2000)].error).all()
        study |= {"step_size": 1e4, "num_steps": 2000}
        every = gb.sweep(study, tmp_path / "every", workers=1)
        assert every.manifest["diverged_units"] == [
            f"td-lambda on boyan-chain, instance {number}, seed {number}" for number in range(2)
        ]

    @pytest.mark.slow
    def test_a_unit_that_takes_too_long_is_named_and_ended(self, tmp_path: Path, monkeypatch) -> None:
        """A unit of 10**9 steps is ended after two seconds, and watched even if it is the only one."""
        shown = []
        monkeypatch.setattr(sweep_module, "LONG_SECONDS", 0.5)
        monkeypatch.setattr(Watch, "show", lambda self, label, *_: shown.append(label))
        study = {**STUDY, "tasks": ["boyan-chain"], "algorithms": ["td-lambda"], "instances": 1}
        study |= {"num_steps": 10**9, "step_size": [0.1]}
        results = gb.sweep(study, tmp_path / "results", workers=1, unit_seconds=2.0)
        [failure] = results.manifest["failures"]
        assert failure["error"] == "its worker was ended: it took longer than its limit of 2 s"
        assert any("td-lambda on boyan-chain, instance 0, seed 0 for " in label for label in shown)

    def test_settings_that_a_task_refuses_are_refused_before_work_begins(self, tmp_path: Path) -> None:
        study = {**STUDY, "tasks": [{"id": "garnet", "num_states": -3}]}
        with pytest.raises(ValueError, match=r"tasks: garnet refuses the settings {'num_states': -3}"):
            gb.sweep(study, tmp_path / "results", workers=1)
        assert not (tmp_path / "results").exists()


class TestVerification:
    def test_stored_numbers_can_be_computed_again(self, results: Results) -> None:
        found = verify(results.folder, 5, workers=1)
        assert (found.checked, found.identical, found.exact, found.passed) == (5, 5, True, True)

    @pytest.mark.parametrize(("factor", "word"), [(1 + 1e-12, "close"), (1 + 1e-6, "different")])
    def test_another_number_is_found(
        self, results: Results, tmp_path: Path, factor: float, word: str
    ) -> None:
        folder = copy(results, tmp_path)
        name = next(name for name in Results(folder).log.records() if len(name) == 24)
        columns = unpacked(Results(folder).log.records()[name].read())["runs"].to_pydict()
        columns["error"][3] *= factor
        with Results(folder).log as log:
            log.append(name, packed({"runs": columns}))  # with a checksum that is right
        found = verify(folder, 18, workers=1, rng=random.Random(0))
        assert (found.identical, found.close, len(found.different)) == (
            17,
            word == "close",
            word == "different",
        )
        assert not found.passed

    def test_on_mixed_machines_digits_may_differ(self, results: Results, tmp_path: Path) -> None:
        folder = copy(results, tmp_path)
        with Results(folder).log as log:
            log.append("machine of another kind", b"")
        assert not verify(folder, 1, workers=1).exact
        assert replace(verify(folder, 2, workers=1), identical=0, close=2).passed

    @pytest.mark.parametrize(
        ("file", "words"),
        [
            ("units/segment-000000.log", "its record is"),
            ("runs.parquet", "runs.parquet: is not as it was written"),
            ("manifest.json", "manifest.json: is damaged"),
        ],
    )
    @pytest.mark.parametrize("how", ["cut", "flipped"])
    def test_damage_is_found(self, results: Results, tmp_path: Path, file: str, words: str, how: str) -> None:
        folder = copy(results, tmp_path)
        whole = bytearray((folder / file).read_bytes())
        middle = len(whole) // 2
        whole[middle] ^= 0x80
        (folder / file).write_bytes(whole[:middle] if how == "cut" else whole)
        found = verify(folder, 1, workers=1)
        assert not found.passed
        assert words in found.damaged[0]
        assert status(folder).state == ("stopped" if "log" in file else "finished")
        if "log" in file and how == "cut":
            assert status(folder).damaged_files == ["segment-000000.log"]

    @pytest.mark.parametrize("change", [{"study": None}, {"study": 3}])
    def test_a_damaged_note_is_named(self, results: Results, tmp_path: Path, change) -> None:
        note = copy(results, tmp_path) / "study.json"
        note.write_text(json.dumps({**json.loads(note.read_text()), **change}))
        for look in (status, verify):
            with pytest.raises(ValueError, match=r"study\.json is damaged: write it again with --resume"):
                look(note.parent)


class TestEstimate:
    def test_it_counts(self) -> None:
        study = as_study(STUDY)
        found = estimate(study, workers=2)
        assert (found.units, found.lanes) == (18, 3 * 2 * (1 + 4 + 2))
        assert (found.steps, found.lane_steps) == (18 * 500, 42 * 500)
        assert (found.tried, found.kinds) == (9, 9)
        assert 0.0 < found.seconds < 60.0
        rows = 42 * 3 * 5  # lanes, metrics, checkpoints
        assert found.reporting == pytest.approx(1.0 + 3 * (0.6 + 3 * 0.33) + 1e-6 * rows)

    def test_what_is_compiled_with_the_first_task_is_not_counted_for_each(self, monkeypatch) -> None:
        study, slept, real = as_study({**STUDY, "instances": 50}), [], Cell.made

        def made(cell: Cell) -> Any:
            if not slept:
                slept.append(time.sleep(0.5))
            return real(cell)

        monkeypatch.setattr(Cell, "made", made)
        found = estimate(study, workers=1)
        assert found.compiling >= 0.5
        assert found.seconds < 0.5 * 50

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"tasks": [{"id": "garnet", "num_states": -3}]}, "lstd on garnet .* cannot be run: num_states"),
            (
                {"algorithms": ["adaptive-td"]},
                "adaptive-td on boyan-chain, .* cannot be run: adaptive-td exists",
            ),
        ],
    )
    def test_what_cannot_be_run_is_named(self, change, message) -> None:
        with pytest.raises(ValueError, match=message):
            estimate(as_study({**STUDY, **change}))


class TestCommandLine:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "tiny.toml"
        file.write_text(
            'tasks = ["boyan-chain"]\nalgorithms = ["td-lambda"]\nstep_size = 0.1\n'
            "num_steps = 100\ninstances = 2\n"
        )
        return file

    def test_from_dry_run_to_verification(self, file: Path, tmp_path: Path, capsys) -> None:
        folder = str(tmp_path / "results")
        run = ["sweep", str(file), "--output", folder, "--workers", "1"]
        assert cli.main([*run, "--dry-run", "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["units"] == 2
        assert cli.main([*run, "--dry-run"]) == cli.DONE
        said = capsys.readouterr().out
        assert "calibrated on" in said
        assert "tables, report" in said
        assert not Path(folder).exists()
        assert cli.main([*run, "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["units"] == 2
        assert cli.main(["sweep", "--status", folder]) == cli.DONE
        assert "2 of 2 done" in capsys.readouterr().out
        assert cli.main(["sweep", "--verify", folder, "--workers", "1"]) == cli.DONE
        assert "same bits" in capsys.readouterr().out
        assert cli.main(run) == cli.WRONG_INPUT
        assert "already holds a study" in capsys.readouterr().err
        assert cli.main([*run, "--resume"]) == cli.DONE
        assert "2, of which 2 had been stored before" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "when", ["gainbias.experiments.sweep._try_settings", "gainbias.report.sweep.Summary"]
    )
    def test_sigterm_before_and_after_the_units_is_as_ctrl_c(
        self, file: Path, tmp_path, capsys, monkeypatch, when: str
    ) -> None:
        monkeypatch.setattr(when, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        run = ["sweep", str(file), "--output", str(tmp_path / "results"), "--workers", "1", "--overwrite"]
        assert cli.main(run) == cli.FAILED
        assert "interrupted; what was finished is kept in" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def test_failures_have_an_exit_code_and_a_summary(
        self, file: Path, tmp_path, capsys, monkeypatch
    ) -> None:
        monkeypatch.setattr(Cell, "compute", lambda cell: 1 // 0)
        assert (
            cli.main(["sweep", str(file), "--output", str(tmp_path / "results"), "--workers", "1"])
            == cli.FAILED
        )
        said = capsys.readouterr().out
        assert "ZeroDivisionError" in said
        assert "td-lambda on boyan-chain" in said

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--max-units", "1"], "has 2 units, more than 1"),
            (["--engine", "ray"], "engine must be one of local, dask, found 'ray'"),
            (["--engine", "dask"], "engine 'dask' needs the address of a scheduler"),
            (["--address", "tcp://1.2.3.4:5"], "engine 'local' has no address"),
            (["--engine", "dask", "--address", "nonsense"], "no Dask scheduler answers at 'nonsense'"),
            (
                ["--engine", "dask", "--address", "tcp://1.2.3.4:5", "--wait", "soon"],
                "wait must be a time such",
            ),
            (["--wait", "2h"], "engine 'local' has nothing to wait for"),
            (["--workers", "0"], "workers must be an integer of at least 1, found 0"),
            (["--unit-seconds", "0"], "unit_seconds must be a positive number, found 0.0"),
            (["--unit-memory", "-1"], "unit_memory must be a positive number, found -1.0"),
            (["--workers", "-3", "--dry-run"], "workers must be an integer of at least 1, found -3"),
        ],
    )
    def test_wrong_input(self, file: Path, tmp_path: Path, capsys, words, message) -> None:
        folder = tmp_path / "results"
        assert cli.main(["sweep", str(file), "--output", str(folder), *words]) == cli.WRONG_INPUT
        assert message in capsys.readouterr().err
        assert not folder.exists()

    def test_no_folder_of_a_sweep(self, tmp_path: Path, capsys) -> None:
        assert cli.main(["sweep", "--status", str(tmp_path)]) == cli.WRONG_INPUT
        assert "holds no study" in capsys.readouterr().err
