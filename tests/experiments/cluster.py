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
        self._note = folder / "scheduler.json"
        self._log = open(folder / "cluster.log", "wb")  # noqa: SIM115
        self._environment = {**os.environ, **environment}
        address = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self._start("dask_scheduler", *address, "--scheduler-file", str(self._note))
        while not (self._note.exists() and self._note.read_text().endswith("}")):  # all of it
            time.sleep(0.05)
        self.address = json.loads(self._note.read_text())["address"]
        few = [
            "--nworkers",
            str(workers),
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            str(folder),
        ]
        self.nanny = self._start("dask_worker", self.address, *few, "--worker-port", "0")

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *words],
            stdout=self._log,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )

    def workers(self) -> list[int]:
        """Return the processes that compute, which the nanny starts again when they are killed."""
        return children(self.nanny.pid, "spawn_main")

    def end(self) -> None:
        for process in (self.nanny, self.scheduler):
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
        self._log.close()


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
        with Client(made.address) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(workers, timeout=60)
        yield made
    finally:
        made.end()
