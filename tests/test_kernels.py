"""Compiled kernels on disk: reused, and never served after an edit."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import pytest

import gainbias
from gainbias.engine.loop import loop_of
from gainbias.kernels import cache_folder, kernel

PACKAGE = Path(gainbias.__file__).parent
PROGRAM = """
import numpy as np
from gainbias.model.elimination.numeric import eliminate_front
front, leak = np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 0.0])
eliminate_front(front, 2, leak, 1, np.zeros(2))
print(front[0], leak[1])
"""


STEP_PROGRAM = """
import gainbias as gb
mrp = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
trace = gb.run("discounted-td", gb.Problem(mrp, gb.Tabular()), 1, 0.5, start=0)
print(trace.weights[0, -1, 0])
"""


def run_copy(root: Path, program: str = PROGRAM) -> str:
    own = {"PYTHONPATH": str(root), "XDG_CACHE_HOME": str(root / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**os.environ, **own}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_edited_kernel_is_compiled_again(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path) == "2.0 1.0"
    compiled = list((tmp_path / "cache").rglob("*.nbc"))
    assert compiled
    assert run_copy(tmp_path) == "2.0 1.0"
    assert list((tmp_path / "cache").rglob("*.nbc")) == compiled
    source = tmp_path / "gainbias/model/elimination/numeric.py"
    text = source.read_text()
    edited = text.replace("out = leak[i]\n", "out = leak[i] + 5.0\n")
    assert edited != text
    source.write_text(edited)
    assert run_copy(tmp_path) == f"7.0 {2.0 / 7.0 * 1.0}"


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_edited_step_is_compiled_again(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias")
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    compiled = list((tmp_path / "cache").rglob("*.nbc"))
    assert any("advance" in file.name for file in compiled)
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"
    assert list((tmp_path / "cache").rglob("*.nbc")) == compiled
    source = tmp_path / "gainbias/algorithms/discounted_td.py"
    text = source.read_text()
    edited = text.replace("step_size[k] * (move.reward +", "step_size[k] * (3.0 * move.reward +")
    assert edited != text
    source.write_text(edited)
    assert run_copy(tmp_path, STEP_PROGRAM) == "1.5"


LATE_PROGRAM = """
import importlib, pathlib
import gainbias as gb
mrp = gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
problem = gb.Problem(mrp, gb.Tabular())
problem.solution
source = pathlib.Path(gb.__file__).parent / "algorithms/discounted_td.py"
before = source.read_text()
source.write_text(before.replace("step_size[k] * (move.reward +", "step_size[k] * (3.0 * move.reward +"))
print(gb.run("discounted-td", problem, 1, 0.5, start=0).weights[0, -1, 0])
source.write_text(before)
import gainbias.algorithms.discounted_td as module
print(gb.run(importlib.reload(module).ALGORITHM, problem, 1, 0.5, start=0).weights[0, -1, 0])
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_file_edited_while_a_process_runs_is_neither_stale_nor_kept_for_others(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "gainbias", ignore=shutil.ignore_patterns("__pycache__"))
    assert run_copy(tmp_path, LATE_PROGRAM) == "1.5\n0.5"
    assert run_copy(tmp_path, STEP_PROGRAM) == "0.5"


def test_a_step_from_outside_is_never_kept() -> None:
    def step(state: Any, params: Any, rows: Any, move: Any, step_size: float) -> None:
        state.weights[0] += step_size

    loop = loop_of(step)
    assert numba.config.DISABLE_JIT or loop._cache.__class__.__name__ == "NullCache"  # type: ignore[attr-defined]


def test_other_users_of_numba_keep_their_own_settings() -> None:
    before = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE

    @kernel
    def triple(x: float) -> float:
        return 3.0 * x

    assert triple(2.0) == 6.0
    assert before == (numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE)


def test_settings_of_numba_survive_threads_that_compile_at_once() -> None:
    def compile_one(number: int) -> None:
        def add(x: float) -> float:
            return x + number

        kernel(add)(1.0)

    before = numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compile_one, range(16)))
    assert before == (numba.config.CACHE_DIR, numba.config.SLP_VECTORIZE)


def test_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder.cache_clear()
    monkeypatch.setenv("GAINBIAS_CACHE", "0")
    assert cache_folder() is None
    cache_folder.cache_clear()


def test_a_home_that_cannot_be_written_means_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache_folder.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert cache_folder() is None
    cache_folder.cache_clear()
