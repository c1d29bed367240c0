"""The recipes for Slurm in the guide, on Slurm itself: jobs that end are missed, waited for and replaced."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gainbias as gb
from gainbias.experiments.results import Results
from tests.experiments.slurm import Slurm, slurm, why_not
from tests.experiments.small import stored_units

ROOT = Path(__file__).parents[2]
STUDY = Path(__file__).parent / "chaos.toml"
NAMED = re.findall(r"```\w*\n# on Slurm, (.*?)\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    results = gb.sweep(STUDY, tmp_path_factory.mktemp("calm") / "results", workers=2)
    return (results.folder / "runs.parquet").read_bytes()


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("slurm") / "here") as found:
        yield found


def changed(text: str, changes: dict[str, str]) -> str:
    """Return a recipe for this machine; what is changed must be in it."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def driven(command: list[str], folder: Path, queue: Slurm, again: str = "") -> None:
    """Run a driver, end all jobs when some units are done, twice; `again` is then typed in a shell."""
    environment = {**queue.environment, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    with open(folder / "said", "w+") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        ended = 0
        try:
            while process.poll() is None:
                if (
                    ended < 2
                    and queue.jobs()
                    and stored_units(Results(folder / "results/study")) > 20 * ended
                ):
                    queue.ask("scancel", *queue.jobs())
                    ended += 1
                    queue.ask("bash", "-c", f"cd {folder}; {again}true")
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
        said.seek(0)
        words = said.read()
    assert process.returncode == 0, words
    assert ended == 2, words


def test_workers_as_an_array_of_jobs(queue: Slurm, undisturbed: bytes, tmp_path: Path) -> None:
    """Typed in a shell; jobs that were ended are queued again by hand, while the driver waits."""
    (tmp_path / "study.toml").write_text(STUDY.read_text())
    changes = {
        "8786": "18786",
        "--array=1-20 --cpus-per-task=16 --time=4:00:00": "--array=1-2 --cpus-per-task=1 --time=10",
        "--nworkers 16": "--nworkers 1",
        "dask scheduler": f"{sys.executable} -m distributed.cli.dask_scheduler --no-dashboard",
        "dask worker": f"{sys.executable} -m distributed.cli.dask_worker --no-dashboard",
        "gainbias sweep": f"{sys.executable} -m gainbias sweep",
        "$(hostname)": "127.0.0.1",
    }
    words = changed(dict(NAMED)["in a shell"], changes)
    [submit] = [line for line in words.splitlines() if line.startswith("sbatch")]
    script = f"{words}\nstatus=$?; kill %1; exit $status"  # the scheduler is the first job of this shell
    driven(["bash", "-m", "-c", script], tmp_path, queue, f"{submit}; ")
    assert (tmp_path / "results/study/runs.parquet").read_bytes() == undisturbed


def test_dask_jobqueue_replaces_jobs(queue: Slurm, undisturbed: bytes, tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue", reason="needs pip install dask-jobqueue")
    (tmp_path / "study.toml").write_text(STUDY.read_text())
    changes = {
        "cores=16, processes=16": "cores=1, processes=1",
        "64GB": "1GB",
        "04:00:00": "00:10:00",
        "_jobs=20": "_jobs=2",
    }
    (tmp_path / "recipe.py").write_text(changed(dict(NAMED)["in Python"], changes))
    driven([sys.executable, "recipe.py"], tmp_path, queue)
    assert (tmp_path / "results/study/runs.parquet").read_bytes() == undisturbed
