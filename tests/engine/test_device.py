"""Lanes as a GPU would run them: in numba-cuda's simulator, and compiled for a GPU that need not be here.

Both happen in processes of their own, because the simulator is chosen when numba-cuda is imported.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

import gainbias as gb

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"),
]


def lines_of(simulated: bool, algorithm: str) -> list[str]:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1" if simulated else "0"}
    program = [sys.executable, "-m", "tests.engine.on_device", algorithm]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
def test_simulated_lanes_have_the_bits_of_the_processor(algorithm) -> None:
    lines = lines_of(True, algorithm)
    assert lines
    assert all(line.endswith("the same bits") for line in lines), lines


@pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
def test_kernels_compile_without_fused_operations(algorithm) -> None:
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("NVVM is not installed: pip install 'numba-cuda[cu13]'")
    lines = lines_of(False, algorithm)
    assert lines
    assert all(line.endswith("0 fused") for line in lines), lines
