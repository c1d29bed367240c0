"""A Dask cluster of separate processes on this machine, for tests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Cluster:
    """A scheduler and workers whose processes can be killed."""

    def __init__(self, folder: Path, workers: int = 2, **environment: str) -> None:
        self._folder, self._log = folder, open(folder / "cluster.log", "wb")  # noqa: SIM115
        self._environment, self._groups = {**os.environ, **environment}, list[subprocess.Popen[bytes]]()
        self.address = "tcp://127.0.0.1:0"
        self.start_scheduler()
        self.nanny = self.add(workers) if workers else None

    def start_scheduler(self) -> None:
        """Start it, the second time at the address where it was."""
        note, port = self._folder / "scheduler.json", self.address.rpartition(":")[2]
        note.unlink(missing_ok=True)
        where = ["--host", "127.0.0.1", "--port", port, "--no-dashboard"]
        self.scheduler = self._start("dask_scheduler", *where, "--scheduler-file", str(note))
        while not (note.exists() and note.read_text().endswith("}")):  # all of it
            time.sleep(0.05)
        self.address = json.loads(note.read_text())["address"]

    def add(self, workers: int, **environment: str) -> subprocess.Popen[bytes]:
        """Start workers, and return the process that watches over them."""
        how = ["--nworkers", str(workers), "--nthreads", "1", "--no-dashboard", "--worker-port", "0"]
        how += ["--local-directory", str(self._folder), "--death-timeout", "60"]
        return self._start("dask_worker", self.address, *how, **environment)

    def _start(self, program: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *words],
            stdout=self._log,
            stderr=self._log,
            env=self._environment | environment,
            start_new_session=True,
        )
        self._groups.append(process)
        return process

    def workers(self) -> list[int]:
        """Return the processes that compute, which the nanny starts again when they are killed."""
        return children(self.nanny.pid, "spawn_main") if self.nanny else []

    def end(self) -> None:
        for process in reversed(self._groups):
            kill(process)
        self._log.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its group."""
    if process.poll() is None:
        os.killpg(process.pid, 9)
    process.wait()


def children(parent: int, words: str) -> list[int]:
    """Return the processes that a process began, and whose command has some words."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    return [int(line.split()[0]) for line in found if words in line]


@contextmanager
def cluster(folder: Path, workers: int = 2, **environment: str) -> Iterator[Cluster]:
    from distributed import Client

    made = Cluster(folder, workers, **environment)
    try:
        if workers:
            with Client(made.address) as client:  # type: ignore[no-untyped-call]
                client.wait_for_workers(workers, timeout=60)
        yield made
    finally:
        made.end()
