"""The results folder: what is kept of a study that was killed, and what is refused."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gainbias.experiments import results as results_module
from gainbias.experiments.reproduce import Instance
from gainbias.experiments.results import Results
from gainbias.store import LockedError
from tests.experiments.small import run_small, stored_units, table_bytes

COMMAND = (
    "reproduce --task random-walk-50 --task frozen-lake --instances 2 --shorten 200 --workers 2 --resume"
)


def start(folder: Path) -> subprocess.Popen[str]:
    """Run the small study in separate processes, which obey Ctrl-C even if those of the tests do not."""
    return subprocess.Popen(
        [sys.executable, "-m", "gainbias", *COMMAND.split(), "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_stopped_and_resumed_ends_with_the_same_bytes(
    results: Results, tmp_path: Path, sent: signal.Signals
) -> None:
    folder = tmp_path / "stopped"
    for wanted in (1, 7):
        process = start(folder)
        while process.poll() is None and stored_units(Results(folder)) < wanted:
            time.sleep(0.01)
        os.killpg(process.pid, sent)
        said = process.communicate(timeout=60)
        if sent == signal.SIGINT:
            message = f"gainbias: interrupted; what was finished is kept in {folder}: continue with --resume"
            finishing = "finishing the running units; press Ctrl-C again to stop now"
            lines = said[1].splitlines()
            assert (process.returncode, said[0], lines[-2:]) == (1, "", [finishing, message])
            # Only the second time there was something to resume.
            assert [line.split(":")[0] for line in lines[:-2]] == (
                [] if wanted == 1 else [f"resuming {folder}", lines[1]]
            )
            assert wanted == 1 or lines[1].endswith("not stored yet")
        assert not (folder / "manifest.json").exists()
    resumed = run_small(folder, resume=True)
    assert 7 <= resumed.manifest["reused"] < 16
    assert table_bytes(resumed) == table_bytes(results)


def test_what_is_kept_to_go_on_takes_little_more_room_than_the_tables(results: Results) -> None:
    kept = sum(segment.stat().st_size for segment in results.log.segments())
    assert kept < 4 * sum(map(len, table_bytes(results).values()))


def test_a_finished_study_is_not_run_over(results: Results) -> None:
    before = table_bytes(results)
    with pytest.raises(ValueError, match="already holds a study: continue it with --resume"):
        run_small(results.folder)
    assert table_bytes(results) == before


def test_resuming_a_finished_study_computes_nothing(results: Results, tmp_path: Path, monkeypatch) -> None:
    before = table_bytes(results)
    monkeypatch.setattr(Instance, "compute", lambda self: pytest.fail("computed again"))
    again = run_small(shutil.copytree(results.folder, tmp_path / "copy"), resume=True)
    assert table_bytes(again) == before
    assert again.manifest["reused"] == again.manifest["units"] == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shorten": 300},
            "holds a study with shorten = 200, which cannot be resumed with shorten = 300",
        ),
        ({"settings": {"epsilon": 0.2}}, r"cannot be resumed with settings = \{'epsilon': 0.2\}"),
    ],
)
def test_a_study_is_not_resumed_with_other_choices(results: Results, change, message) -> None:
    before = table_bytes(results)
    with pytest.raises(ValueError, match=message):
        run_small(results.folder, resume=True, **change)
    assert table_bytes(results) == before


@pytest.mark.parametrize("allowed", [{}, {"resume": True}, {"overwrite": True}])
def test_a_folder_of_something_else_is_refused(allowed, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not empty and holds no study"):
        run_small(tmp_path, **allowed)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_study_that_could_not_even_be_noted_is_begun_again(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    small = {"tasks": ["random-walk-50"], "protocols": ["fair"], "instances": 1}
    with monkeypatch.context() as patch:
        patch.setattr(results_module, "write_whole", full)
        with pytest.raises(OSError, match="is full; what was finished is kept"):
            run_small(tmp_path / "results", **small)
    assert run_small(tmp_path / "results", **small).manifest["units"] == 1


def test_a_folder_whose_units_are_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "army.txt").write_text("roster")
    with pytest.raises(ValueError, match="is not empty and holds no study"):
        run_small(tmp_path, overwrite=True)


def start_and_find_workers(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Return a study of which one unit is finished, and the ids of its workers."""
    process = start(folder)
    while process.poll() is None and not stored_units(Results(folder)):
        time.sleep(0.01)
    children = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return process, [int(line.split()[0]) for line in children if "workers import serve" in line]


@pytest.mark.slow
def test_workers_end_with_a_study_that_is_killed(tmp_path: Path) -> None:
    process, workers = start_and_find_workers(tmp_path / "killed")
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=60)  # which waits for the workers: they write to the same pipes


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_but_time(results: Results, tmp_path: Path) -> None:
    process, workers = start_and_find_workers(tmp_path / "killed")
    os.kill(workers[0], signal.SIGKILL)
    _, said = process.communicate(timeout=100)
    assert (process.returncode, said) == (0, f"made the folder {tmp_path / 'killed'}\n")
    assert table_bytes(Results(tmp_path / "killed")) == table_bytes(results)


def test_a_newer_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(ValueError, match="was written by a newer version"):
        run_small(tmp_path, resume=True)


@pytest.mark.parametrize("content", ["", '{"sche', "[]", '{"schema": null}'])
def test_a_damaged_note_is_said_to_be_so(content, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(ValueError, match=r"study.json is damaged: remove it .* --overwrite"):
        run_small(tmp_path, resume=True)


def test_overwriting_leaves_nothing_of_before(tmp_path: Path) -> None:
    small = {"tasks": ["random-walk-50"], "protocols": ["fair"]}
    folder = run_small(tmp_path / "results", **small).folder
    (folder / "report").mkdir()
    (folder / "report" / "verdicts.md").write_text("of before")
    changed = run_small(folder, **small, instances=1, shorten=300, overwrite=True)
    assert changed.frame("runs").step.max() == 500
    assert stored_units(changed) == 1
    assert not (folder / "report").exists()


def test_a_study_that_is_being_run_is_left_alone(tmp_path: Path) -> None:
    small = {"tasks": ["random-walk-50"], "protocols": ["fair"]}
    results = run_small(tmp_path / "results", **small)
    before = table_bytes(results)
    with results.log, pytest.raises(LockedError, match="another process is writing to"):
        run_small(results.folder, **small, overwrite=True)
    assert table_bytes(results) == before
    assert stored_units(results) == 2


def test_damaged_records_are_computed_again(tmp_path: Path, monkeypatch) -> None:
    small = {"tasks": ["random-walk-50"], "protocols": ["fair"]}
    results = run_small(tmp_path / "results", **small)
    before = table_bytes(results)
    [segment] = results.log.segments()
    content = bytearray(segment.read_bytes())
    content[len(content) * 3 // 4] ^= 0xFF  # in the second record
    segment.write_bytes(content)
    computed, compute = [], Instance.compute
    monkeypatch.setattr(Instance, "compute", lambda self: computed.append(self.run) or compute(self))
    assert table_bytes(run_small(results.folder, **small, resume=True)) == before
    assert computed == [1]


def test_extending_reuses_what_is_there(results: Results, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "longer"
    run_small(folder, instances=1, protocols=["fair"])
    computed = []
    compute = Instance.compute
    monkeypatch.setattr(Instance, "compute", lambda self: computed.append(self.run) or compute(self))
    longer = run_small(folder, instances=2, protocols=["fair"], resume=True)
    assert computed == [1, 1]
    assert set(longer.frame("runs").run) == {0, 1}
