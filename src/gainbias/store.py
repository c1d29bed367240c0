"""Files on disk: written whole or not at all, checked when read, by one writer at a time.

Three things, which can be read one by one:

- single files: `check_free` refuses to replace one unasked, `write_whole` and `whole_file` never leave half
  a file, `read_plain` and `read_object` read only plain files of a plausible size;
- `Log`, a folder of segment files to which records are appended, each with a name and a checksum. A crash can
  cut the last record of a segment short; a reader notices that, and any other damage, and skips the record.
  So a record is there either with all its bytes or not at all. `Lock` admits one writer at a time;
- `as_json`, which writes answers as JSON that every reader accepts.

Nothing that could be executed is ever read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Self

MAGIC = b"gainbias record 1 "
"""Each record begins with this, its version included, then a line of JSON, the payload and a line break."""

HEAD_BYTES = 2**16
"""The first line of a record is shorter than this."""

MOST_STORED_BYTES = 2**28
"""A record with a larger stated length is damaged; after as many bytes without a record the search stops."""

MOST_FILE_BYTES = 2**28
"""Largest size of a file that is read as a whole."""

SEGMENT = re.compile(r"segment-(\d{6,18})\.log")
"""Names of segments."""

LOCKED_ERRORS = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
"""System errors that mean that another process has the lock; any other means that there are no locks."""

SEGMENT_BYTES = 256 * 2**20
"""A segment that has grown beyond this is followed by a new one."""


class DamagedError(ValueError):
    """A file does not hold what was written to it."""


class LockedError(RuntimeError):
    """Another process is writing to this folder."""


def read_plain(path: Path) -> bytes:
    """Return the content of a plain file; never waits, as for a pipe, and never fills the memory.

    Raises
    ------
    DamagedError
        If it is not a plain file, or has an implausible size.

    Examples
    --------
    >>> read_plain(Path("/dev/zero"))
    Traceback (most recent call last):
    gainbias.store.DamagedError: /dev/zero is not a plain file: remove it
    """
    check_plain(path)
    if not path.exists():  # also where a link leads nowhere, or to itself
        raise FileNotFoundError(errno.ENOENT, "there is no file", str(path))
    with open(path, "rb") as file:
        content = file.read(MOST_FILE_BYTES + 1)
    if len(content) > MOST_FILE_BYTES:
        raise DamagedError(f"{path} is damaged: it has more than {MOST_FILE_BYTES / 1e6:.0f} MB")
    return content


def check_plain(path: Path) -> None:
    """Raise DamagedError if something with this name exists that is not a plain file."""
    if path.exists() and not path.is_file():
        raise DamagedError(f"{path} is not a plain file: remove it")


def read_object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file, which must be an object; raises DamagedError if it is not.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "note.json").write_text("[" * 100_000)
    ...     read_object(Path(folder, "note.json"))
    Traceback (most recent call last):
    gainbias.store.DamagedError: ...note.json is damaged: it holds no object of JSON
    """
    try:
        read = json.loads(read_plain(path))
    except (DamagedError, OSError):
        raise
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise DamagedError(f"{path} is damaged: it holds no object of JSON")
    return read


def check_free(path: Path, overwrite: bool = False) -> None:
    """Raise an error if the file to be written exists already, unless it may be replaced.

    Parameters
    ----------
    path : Path
        The file that is to be written.
    overwrite : bool
        Whether an existing file may be replaced. A folder never is.

    Raises
    ------
    ValueError
        If there is a file already, or a folder of that name, or a file where a folder is needed.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "note.txt").write_text("years of work")
    ...     check_free(Path(folder, "note.txt"))
    Traceback (most recent call last):
    ValueError: ...note.txt exists already: name another file, or replace it with --overwrite (...)
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if os.path.lexists(path) and not overwrite:
        raise ValueError(
            f"{path} exists already: name another file, or replace it with --overwrite (overwrite=True in "
            "Python)"
        )
    for folder in path.parents:
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise ValueError(f"{folder} is a file, so {path} cannot be in it: name another place")
            if not os.access(folder, os.W_OK):
                raise ValueError(f"you have no permission to write to {folder}: name another place")
            return


def missing_folder(folder: Path) -> Path | None:
    """Return the outermost folder that must be made so that this one exists; None if it exists.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as here:
    ...     missing_folder(Path(here, "a", "b")).name, missing_folder(Path(here))
    ('a', None)
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    return missing[-1] if missing else None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: it is written under a temporary name and then renamed.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> write_whole(Path(folder.name, "note.txt"), b"all of it")
    >>> Path(folder.name, "note.txt").read_text()
    'all of it'
    >>> folder.cleanup()
    """
    with whole_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is written whole or not at all: it is renamed when everything is on the disk.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> with whole_file(Path(folder.name, "note.txt")) as file:
    ...     _ = file.write(b"part one, ")
    ...     _ = file.write(b"part two")
    >>> os.listdir(folder.name), Path(folder.name, "note.txt").read_text()
    (['note.txt'], 'part one, part two')
    >>> folder.cleanup()
    """
    _check_place(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:  # which names the temporary file
        if error.errno == errno.ENOSPC:
            raise
        raise ValueError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _check_place(path: Path) -> None:
    """Make the folder of a file that is to be written; raise ValueError if something is in the way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{path.parent} is not a folder: remove what is in its way") from None
    if path.is_dir():
        raise ValueError(f"{path} is a folder: remove it, or name another file")


@dataclass(frozen=True)
class StoredRecord:
    """A record of a log: its name, and where its payload is."""

    name: str
    segment: Path
    start: int
    length: int
    checksum: str

    def read(self) -> bytes:
        """Return the payload.

        Raises
        ------
        DamagedError
            If the bytes differ from those that were written.
        """
        with open(self.segment, "rb") as file:
            file.seek(self.start)
            payload = file.read(self.length)
        if _checksum(payload) != self.checksum:
            raise DamagedError(
                f"record {self.name!r} of {self.segment.name} is damaged: its checksum does not match"
            )
        return payload


class Log:
    """A folder of records, open for reading; in a ``with`` block also for appending.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.

    Attributes
    ----------
    damaged_segments : list of Path
        Segments in which `records` last skipped bytes that belong to no whole record; a crash also leaves
        some.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Log(Path(folder.name, "log")) as log:
    ...     log.append("first", b"12345")
    >>> {name: record.read() for name, record in Log(Path(folder.name, "log")).records().items()}
    {'first': b'12345'}
    >>> folder.cleanup()
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged_segments: list[Path] = []
        self._lock: Lock | None = None
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        if os.path.lexists(self.folder) and not self.folder.is_dir():
            raise DamagedError(f"{self.folder} is not a folder: remove it")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.folder / "lock")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def append(self, name: str, payload: bytes) -> None:
        """Append a record, and return when it is on the disk."""
        self.append_all([(name, payload)])

    def append_all(self, named: Iterable[tuple[str, bytes]]) -> None:
        """Append records, and return when all are on the disk; many at once take no longer than one."""
        if self._lock is None:
            raise RuntimeError("records are appended inside a with block, which holds the lock")
        content = b"".join(_framed(name, payload) for name, payload in named)
        file = self._segment()
        start, rest = file.tell(), memoryview(content)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:  # a full disk: the part that was written is removed
            with contextlib.suppress(OSError):
                file.seek(start)
                file.truncate()
            raise

    def records(self) -> dict[str, StoredRecord]:
        """Return all whole records by name, the latest of each; payloads are checked when they are read."""
        found, self.damaged_segments = {}, []
        for segment in self.segments():
            for record in _scan(segment):
                if record is None:
                    self.damaged_segments.append(segment)
                else:
                    found[record.name] = record
        return found

    @property
    def is_being_written(self) -> bool:
        """Whether a process has the log open for appending, this one or another."""
        path = self.folder / "lock"
        if not path.is_file():
            return False
        try:
            with open(path, "rb") as file:  # for reading, which needs no permission to write
                _lock(file)
        except OSError as error:
            return error.errno in LOCKED_ERRORS
        return False

    def segments(self) -> list[Path]:
        """Return the segment files, oldest first: plain files with the name of a segment."""
        return [path for path in self._numbered() if path.is_file()]

    def foreign(self) -> list[Path]:
        """Return everything else in the folder, which is left alone, without hidden files."""
        if not self.folder.is_dir():
            return []
        own = {*self.segments(), self.folder / "lock"}
        found = (path for path in self.folder.iterdir() if not path.name.startswith("."))
        return sorted(path for path in found if path not in own)

    def _numbered(self) -> list[Path]:
        """Return everything that has the name of a segment, by number."""
        if not self.folder.is_dir():
            return []
        return sorted(filter(_number, self.folder.iterdir()), key=_number)

    def _segment(self) -> FileIO:
        if self._file is None or self._file.tell() > SEGMENT_BYTES:
            if self._file is not None:
                self._file.close()
            # Never after a record that may have been cut short: each process begins a new segment.
            last = self._numbered()[-1:]
            number = _number(last[0]) if last else 0
            # Without a buffer, which would keep what a full disk refused and write it later.
            self._file = open(self.folder / f"segment-{number:06d}.log", "xb", buffering=0)  # noqa: SIM115
            _sync_folder(self.folder)
        return self._file


def _number(segment: Path) -> int:
    """Return how many segments there may be up to this one; 0 if it does not have the name of a segment."""
    found = SEGMENT.fullmatch(segment.name)
    return int(found[1]) + 1 if found else 0


class Lock:
    """A lock on a file that only one process can hold; it is released when the process ends, in whatever way.

    If the file system has no locks, a warning says so, and no process is kept out.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> lock = Lock(Path(folder.name, "lock"))
    >>> Lock(Path(folder.name, "lock"))
    Traceback (most recent call last):
    gainbias.store.LockedError: another process is writing to ...
    >>> lock.release()
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        check_plain(path)
        self._file = open(path, "a+b")  # noqa: SIM115
        try:
            _lock(self._file)
        except OSError as error:
            if error.errno not in LOCKED_ERRORS:
                words = f"the file system of {path.parent} has no locks: let no other process write there"
                warnings.warn(words, UserWarning, stacklevel=3)
                return
            self._file.close()
            raise LockedError(
                f"another process is writing to {path.parent}: wait for it, or choose another folder"
            ) from error

    def release(self) -> None:
        """Give up the lock, so that another process can have it."""
        self._file.close()


def _scan(segment: Path) -> Iterator[StoredRecord | None]:
    """Yield the records of a segment, and None once if it has bytes that belong to no whole record."""
    size, whole, end = segment.stat().st_size, True, 0
    with open(segment, "rb") as file:
        while (line := file.readline(HEAD_BYTES)) and file.tell() - end <= MOST_STORED_BYTES:
            head = _head(line)
            start = file.tell()
            if head is None or head["length"] > min(MOST_STORED_BYTES, size - start - 1):
                if whole:
                    yield None
                whole = False
                continue  # at the next line: after a wrong length, later records may still be whole
            yield StoredRecord(head["name"], segment, start, head["length"], head["checksum"])
            end = file.seek(start + head["length"] + 1)


def _framed(name: str, payload: bytes) -> bytes:
    """Return the bytes of a record: a line with its name, length and checksum, and the payload."""
    if len(payload) > MOST_STORED_BYTES:
        raise ValueError(f"record {name!r} has {len(payload):,} bytes, more than {MOST_STORED_BYTES:,}")
    head = {"name": name, "length": len(payload), "checksum": _checksum(payload)}
    return MAGIC + json.dumps(head).encode() + b"\n" + payload + b"\n"


def _head(line: bytes) -> dict[str, Any] | None:
    """Return the name, length and checksum in the first line of a record; None if the line is not one."""
    if not (line.startswith(MAGIC) and line.endswith(b"\n")):
        return None
    try:
        head = json.loads(line[len(MAGIC) :])
    except (ValueError, RecursionError):
        return None
    whole = isinstance(head, dict) and isinstance(head.get("length"), int) and head["length"] >= 0
    return head if whole and isinstance(head.get("name"), str) and "checksum" in head else None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lock(file: BinaryIO) -> None:
    """Lock an open file, or raise an OSError at once if another process has the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, if the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(answer: Any) -> Any:
    """Return an answer with ``None`` for numbers that JSON does not have: infinite ones, and nan.

    Examples
    --------
    >>> plain({"interval": (0.5, float("inf")), "share": float("nan")})
    {'interval': [0.5, None], 'share': None}
    """
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer


def as_json(answer: Any) -> str:
    """Return an answer as JSON, with null for numbers that JSON does not have.

    Examples
    --------
    >>> print(as_json({"gain": float("nan")}))
    {
      "gain": null
    }
    """
    return json.dumps(plain(answer), indent=2, allow_nan=False)
