"""What would be published, as a stranger gets it: built, installed afresh, and used outside the checkout.

The wheel is built from the source distribution, so both are tried; the environment has the base install only.
Every supported version of Python is tried that is found: ``pythonX.Y`` on the path, or among those of pyenv.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import gainbias

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = [found for line in PROJECT["classifiers"] for found in re.findall(r"Python :: (3\.\d+)$", line)]

pytestmark = pytest.mark.slow

ANSWERS = """\
import gainbias as gb, numpy as np
process = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, -2.0])
series = gb.evaluate_series(np.random.default_rng(0).normal(3.0, 1.0, 10_000))
print(gb.solve(process).gain, series.interval[0] < 3.0 < series.interval[1], gb.__version__, gb.__file__)
"""

PICTURE = "import gainbias as gb; gb.plot(gb.run('lstd', gb.task('boyan-chain'), 100))"

STUDY = """\
name = "small"
tasks = ["two-loop"]
num_steps = 20
algorithms = ["lstd"]
"""


def clean():
    """Return the environment without what leads to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")} | {
        "OPENBLAS_NUM_THREADS": "1"
    }


def called(*command, cwd, code=0):
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean(), capture_output=True, text=True)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def interpreter(version):
    """Return an interpreter of a version that works, or None."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys._base_executable
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    own = [kept / f"{name.name}/bin/python" for name in sorted(kept.glob(f"{version}.*"))]
    for place in (*own, shutil.which(f"python{version}")):
        if place and subprocess.run([place, "-c", ""], capture_output=True).returncode == 0:
            return str(place)
    return None


def environment(folder, python, *requirements):
    """Return the folder of programs of a fresh environment with some packages."""
    called(python, "-m", "venv", folder, cwd=folder.parent)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    called(*pip, "--constraint", ROOT / "constraints.txt", *requirements, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("build")
    sources = folder / "sources"
    left_out = (
        ".git",
        ".venv",
        "__pycache__",
        "*.egg-info",
        "build",
        "dist",
        "results",
        ".*_cache",
        "_build",
    )
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(*left_out))
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = environment(folder / "tools", sys._base_executable, *needed, "wheel") / "python"
    backend = "from setuptools import build_meta; build_meta.build_{}({!r})"
    called(python, "-c", backend.format("sdist", str(folder)), cwd=sources)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    called(python, "-c", backend.format("wheel", str(folder)), cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return archive, wheel


def test_what_is_in_them(built):
    archive, wheel = built
    assert archive.name == f"gainbias-{gainbias.__version__}.tar.gz"
    with tarfile.open(archive) as packed:
        sources = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "CITATION.cff", "CHANGELOG.md", "SECURITY.md", "pyproject.toml"} <= sources
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = packed.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    package = ROOT / "src" / "gainbias"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {f"gainbias/{path.relative_to(package)}" for path in files} == {
        name for name in names if name.startswith("gainbias/")
    }
    assert f"Version: {gainbias.__version__}\n" in metadata
    assert "License-Expression: MIT\n" in metadata
    assert sum("plotly-LICENSE" in name for name in names) == 2  # beside the library, and among the licences


def test_addresses_are_real_or_absent():
    """An address that nobody can open is worse than none."""
    for address in PROJECT.get("urls", {}).values():
        assert re.match(r"https://[\w.-]+/", address)
        assert not re.search("example|placeholder|todo|your-|owner", address, re.IGNORECASE)


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_base_install_works_outside_the_checkout(built, version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    programs = environment(tmp_path / "fresh", python, built[1])
    gain, is_inside, number, file = called(programs / "python", "-c", ANSWERS, cwd=tmp_path).stdout.split()
    assert float(gain) == pytest.approx(0.5)
    assert is_inside == "True"
    assert number == gainbias.__version__
    assert Path(file).is_relative_to(tmp_path)
    called(programs / "python", "-m", "pip", "check", cwd=tmp_path)
    command = programs / "gainbias"
    assert "evaluate" in called(command, "--help", cwd=tmp_path).stdout
    assert called(command, "-V", cwd=tmp_path).stdout == f"gainbias {gainbias.__version__}\n"
    for words, extra in (
        (["evaluate", "FrozenLake-v1", "--policy", "random"], "gym"),
        (["evaluate", "log.parquet", "--column", "x"], "data"),
        (["evaluate", "log.csv", "--column", "x"], "data"),
        (["sweep", "study.toml"], "data"),
    ):
        for name in ("log.parquet", "log.csv", "study.toml"):
            (tmp_path / name).write_text(STUDY)
        said = called(command, *words, cwd=tmp_path, code=2).stderr
        assert "Traceback" not in said
        assert f"pip install 'gainbias[{extra}]'" in said
    said = called(programs / "python", "-c", PICTURE, cwd=tmp_path, code=1).stderr
    assert said.endswith("ImportError: figures need matplotlib: pip install 'gainbias[report]'\n")
    answers = json.loads(called(command, "demo", "--json", cwd=tmp_path).stdout)["answers"]
    assert [one["answer"].startswith("left out") for one in answers] == [False, False, True, False, False]
    assert "pip install 'gainbias[gym]'" in answers[2]["answer"]
    assert (tmp_path / "gainbias-demo" / "index.html").is_file()
