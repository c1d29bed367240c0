"""Everything that may happen to a sweep, at random moments: afterwards tables have the bytes of a calm run.

`CHAOS_MOMENTS=20 pytest -m slow tests/experiments/test_sweep_chaos.py` takes all twenty.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import gainbias
from gainbias.experiments.engines import Engine, opened
from gainbias.experiments.results import Results
from gainbias.experiments.runner import execute
from tests.experiments.cluster import Cluster, children, cluster, kill
from tests.experiments.poisoned import KILLER
from tests.experiments.small import stored_units
from tests.experiments.trivial import Trivial

ROOT = Path(__file__).parents[2]
STUDY = (Path(__file__).parent / "chaos.toml").read_text()

MOMENTS = [
    *[("local", "worker"), ("local", "SIGTERM"), ("cluster", "scheduler"), ("cluster", "driver")],
    *[("local", "disk"), ("local", "comment"), ("cluster", "stopped driver"), ("local", "group")],
    *[
        ("cluster", "worker"),
        ("cluster", "stopped scheduler"),
        ("cluster", "workers"),
        ("cluster", "SIGTERM"),
    ],
    *[("local", "stopped worker"), ("local", "driver"), ("local", "worker"), ("cluster", "scheduler")],
    *[("cluster", "disk"), ("cluster", "comment"), ("local", "stopped driver"), ("local", "worker")],
]
"""Where the sweep runs, and what happens to it; the first eight if nothing else is asked for."""

COUNT = int(os.environ.get("CHAOS_MOMENTS", "8"))


def started(study: Path, folder: Path, sources: Path, *words: str) -> subprocess.Popen[str]:
    """Start a driver from its own copy of the sources; one unit of the study kills its worker."""
    sweep = ["sweep", str(study), "--output", str(folder), "--resume", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.experiments.poisoned", *sweep, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(sources), str(ROOT), *sys.path])},
    )


def finish(process: subprocess.Popen[str], folder: Path, units: int) -> bytes:
    """Wait for the end of a sweep; return its table."""
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said  # because a unit failed
    assert (folder / "manifest.json").exists(), said
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["units"] == units
    [failure] = manifest["failures"]
    assert KILLER[0] in failure["what"]
    assert "killed by SIGKILL" in failure["error"]
    assert "for the third time, the last two alone" in failure["error"]
    return (folder / "runs.parquet").read_bytes()


class Chaos:
    """A sweep, what happens to it, and how many units were stored at each moment."""

    def __init__(self, folder: Path, study: Path, dask: Cluster, seed: int) -> None:
        self.folder, self.study, self.dask = folder / "results", study, dask
        self.random, self.seen, self.said = random.Random(seed), list[int](), list[str]()
        self.sources = folder / "sources"
        shutil.copytree(Path(gainbias.__file__).parent, self.sources / "gainbias")
        self.where, self.process = "", None

    def start(self, where: str) -> None:
        """Start the driver: here with another number of workers each time, or on the cluster."""
        if where == "cluster":
            words = ("--engine", "dask", "--address", self.dask.address, "--wait", "3min")
        else:
            words = ("--workers", str(self.random.randint(2, 4)))
        self.where, self.process = where, started(self.study, self.folder, self.sources, *words)

    def end(self, sent: signal.Signals, everyone: bool = False) -> None:
        """End the driver, perhaps with all processes that belong to it."""
        with suppress(ProcessLookupError):
            (os.killpg if everyone else os.kill)(self.process.pid, sent)
        said, _ = self.process.communicate(timeout=200)
        self.said.append(said)
        assert "Traceback" not in said, said

    def workers(self) -> list[int]:
        """Return the processes that compute."""
        if self.where == "local":
            return children(self.process.pid, "workers import serve")
        return [each for one in self.dask.workers() for each in children(one, "workers import serve")]

    def moment(self, where: str, what: str) -> None:
        """Let something happen soon after there are workers; every second time after something was stored."""
        if self.where != where:
            if self.process:
                self.end(signal.SIGTERM)
            self.start(where)
        before = stored_units(Results(self.folder)) if self.folder.exists() else 0
        while self.process.poll() is None:
            is_waiting = len(self.seen) % 2 and stored_units(Results(self.folder)) == before
            if self.workers() and not is_waiting:
                break
            time.sleep(0.1)
        time.sleep(self.random.uniform(0.0, 1.0))
        assert self.process.poll() is None, (
            f"too early an end, after {self.seen}: {self.process.communicate()}"
        )
        self.seen.append(stored_units(Results(self.folder)))
        self.happen(what)

    def happen(self, what: str) -> None:
        if what == "worker":
            with suppress(ProcessLookupError, IndexError):
                os.kill(self.random.choice(self.workers()), signal.SIGKILL)
        elif what == "workers":
            kill(self.dask.nanny)
            self.dask.nanny = self.dask.add(3)
        elif what == "scheduler":
            kill(self.dask.scheduler)
            kill(self.dask.nanny)
            self.dask.start_scheduler()
            self.dask.nanny = self.dask.add(2)
        elif what.startswith("stopped"):
            victims = {"stopped driver": self.process.pid, "stopped scheduler": self.dask.scheduler.pid}
            stopped = victims.get(what) or self.random.choice(self.workers())
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(self.random.uniform(1.0, 4.0))
            os.kill(stopped, signal.SIGCONT)
        else:
            self.ended(what)
            self.where = ""

    def ended(self, what: str) -> None:
        """Let something happen that ends the driver."""
        if what == "disk":  # a file may grow by little now
            files = [one.stat() for one in (self.folder / "units").iterdir()]
            size = max(((one.st_mtime, one.st_size) for one in files), default=(0.0, 0))[1]  # of the newest
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size + 10, size + 10))
            said, _ = self.process.communicate(timeout=200)
            self.said.append(said)
            assert self.process.returncode in (1, 2)
            assert "Traceback" not in said, said
        elif what == "SIGTERM":
            self.end(signal.SIGTERM)
            assert "finishing the running units" in self.said[-1]
        else:
            self.end(signal.SIGKILL, everyone=what == "group")
        if what == "comment":
            with open(self.sources / "gainbias" / "engine" / "run.py", "a") as file:
                file.write(f"# a remark, number {len(self.seen)}\n")
        self.process = None


@pytest.mark.slow
def test_tables_are_the_same_whatever_happens(tmp_path: Path) -> None:
    instances = 8 * COUNT  # with fewer, quick machines are done before the last moment
    study, units = tmp_path / "chaos.toml", 3 * instances
    study.write_text(STUDY.replace("instances = 20", f"instances = {instances}"))
    sources = Path(gainbias.__file__).parents[1]
    calm = finish(started(study, tmp_path / "calm", sources, "--workers", "2"), tmp_path / "calm", units)
    with cluster(tmp_path, 2, PYTHONPATH=os.pathsep.join([*sys.path, str(ROOT)])) as dask:
        chaos = Chaos(tmp_path, study, dask, seed=COUNT)
        for where, what in MOMENTS[:COUNT]:
            chaos.moment(where, what)
        if chaos.process is None:
            chaos.start("local")
        found = finish(chaos.process, chaos.folder, units)
    assert found == calm
    assert len(set(chaos.seen)) > COUNT // 3  # it was in the middle of the work
    assert not any("again, because" in said and "sources" in said for said in chaos.said)


@pytest.mark.slow
def test_a_unit_that_kills_its_worker_costs_little() -> None:
    """48 units of 2 s on 8 workers take at most half as long again, if processes start at once.

    They do not where many other programs run, so their start is measured, too: two lives of the killer and
    the worker that is missed wait for one.
    """

    def seconds(engine: Engine, count: int, bad: int = -1) -> float:
        units = [Trivial(n, "kill" if n == bad else "sleep", takes=2.0) for n in range(count)]
        began = time.monotonic()
        errors = [answer.error for found in execute(units, engine) for answer in found.units]
        assert len(errors) == count
        assert sum(map(bool, errors)) == (bad >= 0)
        return time.monotonic() - began

    with opened("local", 8) as engine:
        start = seconds(engine, 8) - 2.0
        calm = seconds(engine, 48)
        assert seconds(engine, 48, bad=5) < 1.5 * calm + 3.0 * start
