"""Unexpected things in a results folder: pipes, endless lines, foreign names, and files of other users.

Whatever it is, one sentence reports it, nothing waits or fills the memory, and nothing is lost.
"""

import errno
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gainbias as gb
from gainbias import cli, store
from gainbias.experiments.inspection import status, verify
from gainbias.experiments.results import Results
from gainbias.report.sweep import report_on_sweep
from gainbias.report.write import write_page
from gainbias.store import DamagedError, Log

STUDY = {
    "tasks": ["boyan-chain"],
    "algorithms": ["lstd", "td-lambda"],
    "step_size": 0.1,
    "num_steps": 100,
    "instances": 2,
    "checkpoints": 3,
    "name": "small",
}
MOST_SECONDS, MOST_MEMORY = 20, 2 * 10**9

Look = Callable[[Path], object]


@pytest.fixture(autouse=True)
def never_waits_nor_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("it waits")

    for name in ("MOST_STORED_BYTES", "MOST_FILE_BYTES"):
        monkeypatch.setattr(store, name, 2**22)  # so that tests are short
    before, held = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (resident() + MOST_MEMORY, held[1]))
    signal.alarm(MOST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_DATA, held)


def resident() -> int:
    """Return the memory that this process may write to, as its limit counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gb.sweep(STUDY, tmp_path_factory.mktemp("sweep") / "results", workers=1).folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def resume(folder: Path) -> Results:
    return gb.sweep(STUDY, folder, workers=1, resume=True)


def check(folder: Path) -> list[str]:
    return verify(folder, 1, workers=1).damaged


def table(folder: Path) -> bytes:
    return (folder / "runs.parquet").read_bytes()


def a_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def endless(path: Path) -> None:
    """A file with a line of four gigabytes, none of which is on the disk."""
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.truncate(2**32)


ODD = [a_pipe, a_folder]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "name", ["study.json", "manifest.json", "made-with.json", "runs.parquet", "units/lock"]
)
def test_what_is_no_file_is_named_and_removing_it_is_enough(
    finished: Path, folder: Path, name: str, odd: Look
) -> None:
    odd(folder / name)
    message = f"{name} is not a plain file: remove it"
    with pytest.raises(DamagedError, match=message):
        resume(folder)
    if name == "study.json":
        for look in (status, check):
            with pytest.raises(ValueError, match=message):
                look(folder)
    else:
        assert any(message in words for words in check(folder))
        assert status(folder).done == 4
    shutil.rmtree(folder / name) if odd is a_folder else (folder / name).unlink()
    assert resume(folder).manifest["reused"] == 4
    assert table(folder) == table(finished)
    assert check(folder) == []


@pytest.mark.parametrize("odd", [*ODD, endless])
@pytest.mark.parametrize("name", ["segment-000001.log", "segment-mine.log", "army.txt", "segment-0.log"])
def test_foreign_names_among_the_units(finished: Path, folder: Path, name: str, odd: Look) -> None:
    odd(folder / "units" / name)
    is_segment = odd is endless and name == "segment-000001.log"
    assert status(folder).done == 4
    assert status(folder).damaged_files == [name] * is_segment
    found = verify(folder, 1, workers=1)
    assert (found.passed, found.damaged) == (True, [])
    assert found.foreign == [str(folder / "units" / name)]
    grown = gb.sweep({**STUDY, "instances": 3}, folder, workers=1, resume=True)  # it writes a new segment
    assert grown.manifest["reused"] == 4
    assert (folder / "units" / name).exists()
    assert table(resume(folder).folder) == table(finished)


def test_an_endless_line_after_the_units(finished: Path, folder: Path) -> None:
    endless(folder / "units" / "segment-000000.log")
    assert status(folder).done == 4
    assert table(resume(folder).folder) == table(finished)


def test_a_record_that_says_it_is_enormous(folder: Path) -> None:
    segment = folder / "units" / "segment-000001.log"
    head = {"name": "unit", "length": 2**31, "checksum": ""}
    segment.write_bytes(store.MAGIC + json.dumps(head).encode() + b"\n")
    endless(segment)
    assert "unit" not in Log(folder / "units").records()


MANGLED = [
    "",
    "{",
    "[]",
    "3",
    "null",
    "[" * 10**6,
    '{"a":' * 10**6,
    "\0" * 99,
    "\xff",
    '{"schema": 4}',
    '{"tables": 3}',
]


@pytest.mark.parametrize("content", MANGLED)
@pytest.mark.parametrize("name", ["study.json", "manifest.json", "made-with.json"])
def test_mangled_notes(finished: Path, folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content, encoding="latin-1")
    if name == "study.json":
        for look in (status, check):
            with pytest.raises(ValueError, match=r"study\.json is damaged: |holds a reproduction"):
                look(folder)
        (folder / name).unlink()
    elif name == "manifest.json" or not content.endswith("}"):
        assert any(f"{name}: is " in words for words in check(folder))
        assert status(folder).done == 4
    if name == "manifest.json" and not content.endswith("}"):
        for look in (lambda at: Results(at).manifest, lambda at: write_page(at, at / "page.html")):
            with pytest.raises(
                ValueError, match=r"manifest\.json is damaged: .*write it again with --resume"
            ):
                look(folder)
    assert resume(folder).manifest["reused"] == 4
    assert table(folder) == table(finished)
    assert check(folder) == []


def test_enormous_notes(folder: Path) -> None:
    for name in ("manifest.json", "made-with.json", "study.json"):
        endless(folder / name)
        if name != "study.json":
            assert f"{name}: is damaged" in check(folder)
    with pytest.raises(ValueError, match=r"study\.json is damaged: remove it"):
        status(folder)


def test_a_manifest_that_is_gone(finished: Path, folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert check(folder) == ["manifest.json: is missing"]
    with pytest.raises(ValueError, match=r"holds no manifest.json: finish the study with --resume"):
        _ = Results(folder).manifest
    assert resume(folder).manifest["reused"] == 4
    assert check(folder) == []


def test_a_table_that_is_none(finished: Path, folder: Path) -> None:
    (folder / "runs.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(DamagedError, match=r"runs\.parquet is damaged: write it again with --resume"):
        Results(folder).to_frame()
    assert check(folder) == ["runs.parquet: is not as it was written"]
    assert table(resume(folder).folder) == table(finished)


@pytest.mark.parametrize(
    "change", [{"lanes": 1}, {"failures": [3]}, {"description": 7}, {"description": {"tasks": [{"id": {}}]}}]
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_manifest_that_was_edited(folder: Path, change: dict[str, object], is_known: bool) -> None:
    """It is found by its checksum, and where an older version has written none, by the description."""
    manifest = json.loads((folder / "manifest.json").read_text()) | change
    if not is_known:
        del manifest["checksum"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if is_known or "description" in change:
        assert check(folder) == [f"manifest.json: is {'damaged' if is_known else 'not that of the study'}"]
        with pytest.raises(ValueError, match=r"manifest\.json is damaged: write it again with --resume"):
            write_page(folder, folder / "page.html")
    assert resume(folder).manifest["reused"] == 4
    assert check(folder) == []


def test_a_description_that_was_edited_is_named_with_its_file(finished: Path, folder: Path) -> None:
    note = json.loads((folder / "study.json").read_text())
    edits = [{"study": ["x"]}, {"study": {**note["study"], "tasks": ["nowhere"]}}]
    edits += [{"codes": [{"reach": 5, "code": "a"}]}, {"codes": [{"reach": [[1], {}], "code": {}}]}]
    for edit in edits:
        (folder / "study.json").write_text(json.dumps(note | edit))
        if "study" in edit:
            with pytest.raises(
                ValueError, match=r"study\.json is damaged: write it again with --res.*unknown"
            ):
                status(folder)
        assert resume(folder).manifest["reused"] == 4
        assert table(folder) == table(finished)
    (folder / "study.json").write_text(json.dumps({key: note[key] for key in note if key != "code"}))
    assert status(folder).code == "unknown"


@pytest.mark.parametrize("odd", ODD)
def test_a_page_of_a_table_that_is_none_is_not_waited_for(folder: Path, odd: Look) -> None:
    odd(folder / "runs.parquet")
    with pytest.raises(ValueError, match=r"runs\.parquet is not a plain file: remove it"):
        write_page(folder, folder / "page.html")


def test_a_page_of_a_table_that_is_missing_does_not_say_that_all_failed(folder: Path) -> None:
    (folder / "runs.parquet").unlink()
    with pytest.raises(ValueError, match=r"runs\.parquet is missing: write it again with --resume"):
        write_page(folder, folder / "page.html")


def test_if_no_unit_is_left_what_is_in_their_place_is_named(folder: Path) -> None:
    a_pipe(folder / "units" / "segment-000000.log")
    found = verify(folder, 1, workers=1)
    assert (found.checked, found.passed, len(found.damaged)) == (0, False, 4)
    assert found.foreign == [str(folder / "units" / "segment-000000.log")]


def test_a_link_to_itself_is_no_file(finished: Path, folder: Path) -> None:
    for name in ("manifest.json", "made-with.json"):
        (folder / name).unlink()
        (folder / name).symlink_to(name)
    assert check(folder) == ["manifest.json: is missing"]
    assert resume(folder).manifest["reused"] == 4
    assert table(folder) == table(finished)


def test_what_is_in_the_way_of_a_report_is_named(folder: Path) -> None:
    (folder / "report" / "index.html").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"index\.html is a folder: remove it"):
        report_on_sweep(Results(folder))


def test_no_word_from_a_folder_is_a_command_to_the_terminal(folder: Path, capsys) -> None:
    note = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps(note | {"code": "\x1b]0;title\x07"}))
    (folder / "units" / "\x1b[2J\udcff").touch()
    assert cli.main(["sweep", "--status", str(folder)]) == cli.DONE
    assert cli.main(["sweep", "--verify", str(folder), "--sample", "1", "--workers", "1"]) == cli.DONE
    said = capsys.readouterr().out
    assert "\\x1b]0;title\\x07" in said
    assert "\\x1b[2J\\udcff" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("name", ["units", "report", "earlier-report"])
def test_what_is_no_folder(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name, ignore_errors=True)
    for make in (lambda path: path.symlink_to(folder / "nowhere"), Path.touch, os.mkfifo):
        make(folder / name)
        with pytest.raises(DamagedError, match=f"{name} is not a folder: remove it"):
            resume(folder)
        (folder / name).unlink()
    assert resume(folder).manifest["units"] == 4


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_a_results_folder_that_is_none(tmp_path: Path, make: Look) -> None:
    make(tmp_path / "results")
    with pytest.raises(ValueError, match="results is not a folder: choose another one"):
        resume(tmp_path / "results")


def test_links_that_lead_nowhere_are_replaced(finished: Path, folder: Path) -> None:
    for name in ("study.json", "manifest.json", "made-with.json", "runs.parquet", "units/lock"):
        (folder / name).unlink()
        (folder / name).symlink_to(
            folder / "nowhere" if name != "units/lock" else folder / "units" / "somewhere"
        )
    assert resume(folder).manifest["reused"] == 4
    assert table(folder) == table(finished)


def test_a_file_system_without_locks(folder: Path, monkeypatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store, "_lock", no_locks)
    assert status(folder).state == "finished"
    with pytest.warns(UserWarning, match="has no locks: let no other process write there"):
        assert resume(folder).manifest["reused"] == 4


def test_a_clock_that_went_back(folder: Path) -> None:
    os.utime(folder / "units" / "segment-000000.log", (time.time() + 9999,) * 2)
    assert status(folder).quiet_seconds == 0.0


def test_files_of_another_user(folder: Path, monkeypatch, capsys) -> None:
    """They are not taken for missing ones, which would be computed again."""
    opened = open

    def protected(path, *args, **kwargs):
        if str(path).endswith("segment-000000.log"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(store, "open", protected, raising=False)
    for words in (["--status"], ["--verify"]):
        assert cli.main(["sweep", *words, str(folder)]) == cli.WRONG_INPUT
        assert "segment-000000.log: change its permissions" in capsys.readouterr().err
    with pytest.raises(PermissionError):
        resume(folder)


def test_a_table_of_another_user_is_not_called_damaged(folder: Path, monkeypatch) -> None:
    def protected(path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("gainbias.report.sweep.Summary", protected)
    monkeypatch.setattr("pandas.read_parquet", protected)
    for look in (lambda: write_page(folder, folder / "page.html"), Results(folder).to_frame):
        with pytest.raises(PermissionError):
            look()
