"""Files that are whole or not there: cuts, flipped bytes, full disks, killed writers, second writers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gainbias import store
from gainbias.store import DamagedError, Lock, LockedError, Log, write_whole

RECORDS = {"one": b"1" * 10, "two": b"line\nbreaks\n", "three": b"", "four": store.MAGIC + b"{}\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Log(tmp_path / "log") as log:
        for name, payload in RECORDS.items():
            log.append(name, payload)
    return tmp_path / "log"


def contents(folder: Path) -> dict[str, bytes]:
    return {name: record.read() for name, record in Log(folder).records().items()}


def test_what_was_written_is_read(folder: Path) -> None:
    assert contents(folder) == RECORDS


def test_a_later_record_replaces_one_of_the_same_name(folder: Path) -> None:
    with Log(folder) as log:
        log.append("two", b"again")
    assert contents(folder) == {**RECORDS, "two": b"again"}
    assert len(Log(folder).segments()) == 2


def test_segments_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SEGMENT_BYTES", 100)
    with Log(tmp_path) as log:
        for number in range(10):
            log.append(str(number), bytes(60))
    assert len(Log(tmp_path).segments()) == 10
    assert len(Log(tmp_path).records()) == 10


def test_a_log_cut_anywhere_holds_a_beginning_of_its_records(folder: Path) -> None:
    [segment] = Log(folder).segments()
    whole = segment.read_bytes()
    seen = set()
    for length in range(len(whole)):
        segment.write_bytes(whole[:length])
        found = contents(folder)
        assert list(found) == list(RECORDS)[: len(found)]
        assert all(RECORDS[name] == payload for name, payload in found.items())
        seen.add(len(found))
    assert seen == set(range(len(RECORDS)))


def test_a_flipped_byte_never_changes_a_payload(folder: Path) -> None:
    [segment] = Log(folder).segments()
    whole = segment.read_bytes()
    damaged = 0
    for place in range(len(whole)):
        segment.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        for name, record in Log(folder).records().items():
            try:
                payload = record.read()
            except DamagedError:
                damaged += 1
            else:
                assert payload in RECORDS.values()
                assert payload == RECORDS.get(name, payload)
    assert damaged >= sum(len(payload) for payload in RECORDS.values())


def test_a_full_disk_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log(folder) as log:
        log.append("five", b"5")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            log.append("six", b"6")
        monkeypatch.undo()
        log.append("seven", b"7")
    assert contents(folder) == {**RECORDS, "five": b"5", "seven": b"7"}


def test_only_a_with_block_appends(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="inside a with block"):
        Log(folder).append("five", b"5")


HOLDER = """
import sys, time
from pathlib import Path
from gainbias.store import Log
with Log(Path(sys.argv[1])) as log:
    log.append("held", b"by another process")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone_even_if_killed(folder: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        check_while_held(folder, holder)


def check_while_held(folder: Path, holder: "subprocess.Popen[str]") -> None:
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    with pytest.raises(LockedError, match="another process is writing to"), Log(folder):
        pass
    assert contents(folder)["held"] == b"by another process"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    deadline = time.monotonic() + 5
    while True:
        try:
            with Log(folder) as log:
                log.append("after", b"the crash")
            break
        except LockedError:
            assert time.monotonic() < deadline
    assert contents(folder)["after"] == b"the crash"


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "file"
    write_whole(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o666 & ~store._umask()


def test_locks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    first = Lock(tmp_path / "lock")
    with pytest.raises(LockedError):
        Lock(tmp_path / "lock")
    first.release()
    Lock(tmp_path / "lock").release()


def test_a_disk_that_takes_half_a_record_gets_none_of_it(tmp_path: Path) -> None:
    """A limit on the size of files refuses bytes as a full disk does, in the middle of a write."""
    resource = pytest.importorskip("resource")
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Log(tmp_path) as log:
            log.append("one", b"1" * 1000)
            [segment] = log.segments()
            size = segment.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, before[1]))
            with pytest.raises(OSError, match="too large"):
                log.append("two", b"2" * 1000)
            assert segment.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert contents(tmp_path) == {"one": b"1" * 1000}


@pytest.mark.parametrize("head", [b'{"name": ["a"], "length": 0, "checksum": ""}', b"[" * 100_000])
def test_a_head_of_another_form_is_damage(folder: Path, head: bytes) -> None:
    [segment] = Log(folder).segments()
    segment.write_bytes(segment.read_bytes() + store.MAGIC + head + b"\n\n")
    assert contents(folder) == RECORDS


def test_a_length_that_was_altered_loses_one_record(folder: Path) -> None:
    [segment] = Log(folder).segments()
    segment.write_bytes(segment.read_bytes().replace(b'"length": 10', b'"length": 99999'))
    assert contents(folder) == {name: RECORDS[name] for name in RECORDS if name != "one"}
