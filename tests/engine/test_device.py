"""Lanes as a GPU would run them: in the simulator of numba, and compiled for a GPU, without one.

Both happen in separate processes, because the simulator is chosen when numba's CUDA part is imported.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

import gainbias as gb
from gainbias.kernels import gpu
from tests.engine.problems import dense

CUDA = importlib.util.find_spec("numba.cuda.simulator") or importlib.util.find_spec("numba_cuda")
needs_simulator = pytest.mark.skipif(CUDA is None, reason="this numba has no simulator of GPUs")


def lines_of(simulated: bool, *words: str) -> list[str]:
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_ENABLE_CUDASIM": "1" if simulated else "0",
    }
    program = [sys.executable, "-m", "tests.engine.on_device", *words]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@needs_simulator
@pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
def test_simulated_lanes_have_the_bits_of_the_processor(algorithm) -> None:
    lines = lines_of(True, "bits", algorithm)
    assert lines
    assert all(line.endswith("the same bits") for line in lines), lines


@pytest.mark.slow
@needs_simulator
def test_what_else_is_the_same() -> None:
    lines = lines_of(True, "others")
    assert len(lines) == 11
    assert all(line.endswith("the same bits") for line in lines), lines


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None or importlib.util.find_spec("nvidia") is None,
    reason="numba-cuda or NVVM is not installed: pip install 'gainbias[gpu]'",
)
@pytest.mark.parametrize("algorithm", gb.ALGORITHMS)
def test_kernels_compile_without_fused_operations(algorithm) -> None:
    lines = lines_of(False, "assembly", algorithm)
    assert lines
    assert all(line.endswith(": 0 fused") for line in lines), lines


class TestRefused:
    def test_without_the_package(self, monkeypatch) -> None:
        monkeypatch.setattr(gpu, "is_simulated", lambda: False)
        monkeypatch.setattr(gpu, "find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"not work here, because numba-cuda is not.*gainbias\[gpu\]"):
            gb.run("td-lambda", dense(), 10, 0.1, device="gpu")

    def test_without_a_gpu(self, monkeypatch) -> None:
        monkeypatch.setattr(gpu, "is_simulated", lambda: False)
        monkeypatch.setattr(gpu, "find_spec", lambda name: name)
        monkeypatch.setattr(gpu.cuda, "is_available", lambda: False)
        with pytest.raises(ValueError, match=r"no NVIDIA GPU.*nvidia-smi"):
            gb.run("td-lambda", dense(), 10, 0.1, device="gpu")

    def test_more_than_its_memory(self, monkeypatch) -> None:
        from gainbias.engine import device

        monkeypatch.setattr(device, "what_is_missing", str)
        monkeypatch.setattr(device, "free_memory", lambda: 1000)
        with pytest.raises(ValueError, match=r"one lane of td-lambda .* GB are free: use device='cpu'"):
            gb.run("td-lambda", dense(), 10, 0.1, seeds=range(2), device="gpu")

    def test_memory_that_another_program_took(self, monkeypatch) -> None:
        from gainbias.engine import device

        def refuse(*_: object) -> None:
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")

        monkeypatch.setattr(device, "what_is_missing", str)
        monkeypatch.setattr(device, "pieces_of", refuse)
        with pytest.raises(MemoryError, match=r"the GPU has no memory left, of which .* use device='cpu'"):
            gb.run("td-lambda", dense(), 10, 0.1, device="gpu")

    def test_what_goes_with_no_gpu_in_a_sweep(self, tmp_path) -> None:
        study = gb.Study(tasks=["boyan-chain"], algorithms=["td-lambda"], num_steps=10, step_size=0.1)
        with pytest.raises(ValueError, match="one process on this machine runs all lanes: leave out"):
            gb.sweep(study, tmp_path / "new", workers=2, device="gpu")
        with pytest.raises(ValueError, match="device must be 'cpu' or 'gpu', found 'tpu'"):
            gb.sweep(study, tmp_path / "new", device="tpu")

    def test_what_only_the_processor_does(self) -> None:
        with pytest.raises(ValueError, match="tail_average is not computed on a GPU"):
            gb.run("td-lambda", dense(), 10, 0.1, tail_average=0.5, device="gpu")
        with pytest.raises(ValueError, match="threads are those of the processor"):
            gb.run("td-lambda", dense(), 10, 0.1, threads=2, device="gpu")
        with pytest.raises(ValueError, match="device must be 'cpu' or 'gpu', found 'tpu'"):
            gb.run("td-lambda", dense(), 10, 0.1, device="tpu")
