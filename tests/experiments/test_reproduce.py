"""The study: units and their ids, the same bytes however it was run, resuming, refusing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias.experiments.reproduce import plan
from gainbias.experiments.results import Results
from gainbias.experiments.unit import Unit

SMALL = {"tasks": ["random-walk-50", "frozen-lake"], "instances": 2, "shorten": 200}


def run_small(folder: Path, **options: object) -> Results:
    return gb.reproduce(folder, **{"workers": 1, **SMALL, **options})  # type: ignore[arg-type]


def table_bytes(results: Results) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(results.folder.glob("*.parquet"))}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_small(tmp_path_factory.mktemp("study") / "results")


def test_the_table_holds_what_runs_give(results: Results) -> None:
    runs = results.frame("runs")
    task = gb.task("frozen-lake", seed=1, protocol="inferred")
    steps = 150_000 // 200
    trace = gb.run(
        "single-chain", task.problem, steps, gb.Harmonic(150, 1000), seeds=1, checkpoints=[steps // 2]
    )
    row = runs.query(
        "protocol == 'inferred' and task == 'frozen-lake' and run == 1 and algorithm == 'single-chain' "
        "and kind == 'full' and target == 'paper' and step == @steps"
    )
    assert row.error.tolist() == [trace.errors("full", target="paper")[0, -1]]
    assert row.gain.tolist() == [trace.gain[0, -1]]


def test_every_cell_is_there_once(results: Results) -> None:
    runs = results.frame("runs")
    key = ["protocol", "task", "algorithm", "run", "step", "kind", "target", "norm"]
    assert not runs.duplicated(key).any()
    counts = runs.groupby("protocol").algorithm.nunique()
    assert counts.to_dict() == {"literal": 5, "inferred": 5, "fair": 6}
    assert runs.groupby("protocol").run.nunique().to_dict() == {"literal": 3, "inferred": 3, "fair": 2}
    assert np.isfinite(runs.error).all()
    full = runs.query("step == step.max()")
    halves = set(runs.step)
    assert all(step // 2 in halves or (step + 1) // 2 in halves for step in set(full.step))
    conditions = results.frame("conditions")
    assert len(conditions) == 2 * (3 + 3 + 2)
    assert (conditions.eta1 > 0).all()


def test_manifest(results: Results) -> None:
    manifest = results.manifest
    assert manifest["units"] == 16
    assert manifest["packages"]["numpy"] == np.__version__
    assert manifest["command"] == "gainbias.reproduce"


@pytest.mark.slow
def test_workers_change_no_byte(results: Results, tmp_path: Path) -> None:
    assert table_bytes(run_small(tmp_path / "two", workers=2)) == table_bytes(results)


def test_a_damaged_record_is_computed_again(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    (folder / "units").mkdir(parents=True)
    for name in ("study.json", "units/segment-000000.log"):
        (folder / name).write_bytes((results.folder / name).read_bytes())
    segment = folder / "units/segment-000000.log"
    whole = bytearray(segment.read_bytes())
    whole[len(whole) // 3] ^= 1
    segment.write_bytes(whole[:-100])
    assert table_bytes(run_small(folder, resume=True)) == table_bytes(results)
    assert len(Results(folder).log.segments()) == 2


PROGRAM = """
import sys, gainbias as gb
tasks = ["random-walk-50", "frozen-lake"]
gb.reproduce(sys.argv[1], tasks=tasks, instances=2, shorten=200, workers=1, resume=True)
"""


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_bytes(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    for wanted in (1, 5, 11):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)]) as process:
            while process.poll() is None and len(Results(folder).log.records()) < wanted:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
    assert not (folder / "runs.parquet").exists()
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], check=True)
    assert table_bytes(Results(folder)) == table_bytes(results)


class TestFolder:
    def test_a_finished_study_is_not_run_over(self, results: Results) -> None:
        with pytest.raises(ValueError, match="already holds this study: go on with --resume"):
            run_small(results.folder)

    def test_resuming_a_finished_study_computes_nothing(self, results: Results, monkeypatch) -> None:
        before = table_bytes(results)
        monkeypatch.setattr(Unit, "compute", lambda self: pytest.fail("computed again"))
        assert table_bytes(run_small(results.folder, resume=True)) == before

    def test_another_study_is_refused(self, results: Results) -> None:
        with pytest.raises(ValueError, match="holds another study: choose another folder"):
            run_small(results.folder, shorten=300)

    def test_a_folder_of_something_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(ValueError, match="is not empty and holds no study"):
            run_small(tmp_path)
        assert os.listdir(tmp_path) == ["thesis.tex"]

    def test_a_newer_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "study.json").write_text(json.dumps({"schema": 99, "study": "x"}))
        with pytest.raises(ValueError, match="was written by a newer version"):
            run_small(tmp_path, resume=True)

    def test_extending_reuses_what_is_there(self, results: Results, tmp_path: Path, monkeypatch) -> None:
        folder = tmp_path / "longer"
        run_small(folder, instances=1, protocols=["fair"])
        computed = []
        compute = Unit.compute
        monkeypatch.setattr(Unit, "compute", lambda self: computed.append(self.run) or compute(self))
        longer = run_small(folder, instances=2, protocols=["fair"], resume=True)
        assert computed == [1, 1]
        assert set(longer.frame("runs").run) == {0, 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ["frozen-lak"]}, "unknown task of the paper 'frozen-lak': did you mean 'frozen-lake'"),
        ({"protocols": ["unfair"]}, "unknown protocol 'unfair': did you mean 'fair'"),
        ({"protocols": []}, "there is nothing to run"),
        ({"instances": 0}, "instances must be a positive integer, found 0"),
        ({"shorten": 0}, "shorten must be a positive integer, found 0"),
    ],
)
def test_bad_input(change, message, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run_small(tmp_path / "results", **change)
    assert not (tmp_path / "results").exists()


def test_ids_depend_on_everything_that_matters() -> None:
    units = plan(["literal", "fair"], ["random-walk-50"], 2, 1, {})
    units += [
        Unit("fair", "random-walk-50", 0, shorten=2),
        Unit("fair", "random-walk-50", 0, 1, {"epsilon": 0.5}),
    ]
    assert len({unit.id for unit in units}) == len(units)
    assert Unit("fair", "taxi", 3).id == Unit("fair", "taxi", 3).id
