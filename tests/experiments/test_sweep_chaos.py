"""Workers and drivers killed at random moments: after resuming, tables have the bytes of a calm run."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gainbias as gb
from gainbias.experiments.results import Results
from tests.experiments.cluster import children, cluster
from tests.experiments.small import stored_units

STUDY = Path(__file__).parent / "chaos.toml"
UNITS = 60


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = ["sweep", str(STUDY), "--output", str(folder), "--resume", *words]
    return subprocess.Popen(
        [sys.executable, "-m", "gainbias.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said


def stored(folder: Path) -> int:
    return stored_units(Results(folder))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    results = gb.sweep(STUDY, tmp_path_factory.mktemp("calm") / "results", workers=2)
    assert results.manifest["units"] == UNITS
    assert results.manifest["failures"] == []
    return (results.folder / "runs.parquet").read_bytes()


class Chaos:
    """Kills at random moments, and counts what was stored at each."""

    def __init__(self, folder: Path, seed: int, words: tuple[str, ...], workers: Callable[[int], list[int]]):
        self.folder, self.words, self.workers = folder, words, workers
        self.random, self.seen = random.Random(seed), list[int]()
        self.process = start(folder, *words)

    def kill(self, victim: str) -> None:
        """Wait for workers, every second time also until one has finished something, and kill soon after."""
        before = stored(self.folder)
        while self.process.poll() is None:
            found = self.workers(self.process.pid)
            if found and (len(self.seen) % 2 == 0 or stored(self.folder) > before):
                break
            time.sleep(0.1)
        time.sleep(self.random.uniform(0.0, 0.5))
        if self.process.poll() is not None:
            return
        self.seen.append(stored(self.folder))
        if victim == "worker":
            try:
                os.kill(self.random.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it ended by itself
                self.seen.pop()
            return
        if victim == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate(timeout=100)
        self.process = start(self.folder, *self.words)

    def rage(self, kills: int, victims: list[str]) -> None:
        while len(self.seen) < kills and self.process.poll() is None:
            self.kill(self.random.choice(victims))
        finish(self.process)


@pytest.mark.slow
def test_on_this_machine(undisturbed: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    chaos = Chaos(folder, 7, ("--workers", "2"), lambda driver: children(driver, "workers import serve"))
    chaos.rage(10, ["worker", "worker", "worker", "driver", "group"])
    assert len(chaos.seen) >= 10
    assert any(0 < count < UNITS for count in chaos.seen)  # it was in the middle of the work
    assert (folder / "runs.parquet").read_bytes() == undisturbed


@pytest.mark.slow
def test_on_a_cluster(undisturbed: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    with cluster(tmp_path) as dask:
        words = ("--engine", "dask", "--address", dask.address)
        chaos = Chaos(folder, 8, words, lambda driver: dask.workers())
        chaos.rage(5, ["worker", "worker", "worker", "driver"])
    assert len(chaos.seen) >= 5
    assert any(0 < count < UNITS for count in chaos.seen)
    assert (folder / "runs.parquet").read_bytes() == undisturbed
