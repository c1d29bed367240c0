"""Compiled kernels on disk: reused, and never served after an edit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import gainbias
from gainbias.kernels import cache_folder, kernel

PACKAGE = Path(gainbias.__file__).parent
PROGRAM = """
import numpy as np
from gainbias.model.elimination.numeric import eliminate_front
front, leak = np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 0.0])
eliminate_front(front, 2, leak, 1, np.zeros(2))
print(front[0], leak[1])
"""


def run_copy(root: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(root / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
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


def test_other_users_of_numba_keep_their_own_settings() -> None:
    before = numba.config.CACHE_DIR

    @kernel
    def triple(x: float) -> float:
        return 3.0 * x

    assert triple(2.0) == 6.0
    assert before == numba.config.CACHE_DIR


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
